/* rewrite.h - the one engine: rule groups run over a graph until nothing matches.
 *
 * Rules come from .rules files through tools/rulegen, which writes build/gen/rules_gen.{h,c}: a matcher a group (a
 * switch on op), the table kn_rules[] (name, group, exactness, file, line) and the group bits KN_G_<group>.
 * A rule sees only the subtree below its node. kn_rewrite walks bottom-up with an explicit stack: sources first, then
 * the rules of the groups in the order of the mask's bits, then what the rule built, until no rule matches anywhere.
 * A node known to be normal under a mask is not visited again: the kn_rw remembers, until it is freed.
 *
 * A rule with an exactness mark keeps dtype and shape; where it would not (x + 0 with x smaller than the sum), it does
 * not fire, unless KN_RW_EXPAND allows to broadcast its result with RESHAPE and EXPAND. */
#ifndef KN_REWRITE_H
#define KN_REWRITE_H

#include "dialect/uop.h"

/* Flags that go with the group bits of a mask. */
#define KN_RW_FAST (UINT64_C(1) << 63)   /* @fast rules too */
#define KN_RW_EXPAND (UINT64_C(1) << 62) /* results of a smaller shape are broadcast (tensor level only) */

typedef struct kn_rule_info {
    const char *name, *group, *exact; /* exact: "int", "index", "bool", "exact", "fast", or "" (not value-preserving) */
    const char *file;
    int         line;
    bool        calls_c;
} kn_rule_info;
extern const kn_rule_info kn_rules[];
extern const int          kn_rule_count;
extern const char *const  kn_group_names[]; /* by the number of the group's bit: "algebra" */
extern const int          kn_group_count;
extern const uint64_t     kn_lane_groups; /* bits of the groups that match values of lanes alone */

typedef struct kn_rw {
    kn_graph *g;
    void     *user;  /* for C rules: what the pass hands them */
    kn_fault *fault; /* a rule may fail the whole rewrite (the verifier does) */
    uint64_t *fired; /* a counter per rule, or NULL; kn_rule_count of them */
    const bool *off; /* rules that must not fire, or NULL; kn_rule_count of them, fixed while the kn_rw lives */
    int     stage;   /* for rules that refuse: which of them hold (rules/stages.def) */
    const char *refusal; /* what the rule that refused last said is wrong, */
    kn_ref  refused; /* and with which node: the one it matched, or one that its C function named */
    double *seconds; /* spent in the rules of each group, the clock's own share included, or NULL; kn_group_count */
    bool    why;     /* the graph has a log of where nodes come from (kn_rw_init looks) */
    /* what follows belongs to rewrite.c; zero it with kn_rw_init */
    void     *state;
    uint64_t  visits, matches; /* counted, for tests and budgets */
    /* called after each firing when set: for traces and the validation of C rules */
    void (*on_fire)(struct kn_rw *rw, int rule, kn_ref from, kn_ref to);
} kn_rw;

void   kn_rw_init(kn_rw *rw, kn_graph *g, kn_fault *f);
void   kn_rw_free(kn_rw *rw);
/* The normal form of root under the groups; 0 on failure. A loop ends at a bound that names the rules that loop. */
kn_ref kn_rewrite(kn_rw *rw, kn_ref root, uint64_t groups);
/* The same for many roots at once. False on failure. */
bool   kn_rewrite_all(kn_rw *rw, kn_ref *roots, int n, uint64_t groups);
/* What the first rule of the groups that matches at root itself makes of it, once and no deeper; root if none does, 0
 * on failure. */
kn_ref kn_rewrite_step(kn_rw *rw, kn_ref root, uint64_t groups);
/* The first rule of groups that refuse (`=> refuse`) that matches at n, -1 if none does; rw->refusal and rw->refused
 * say what is wrong. rw->stage is the stage to be judged. Refusing rules change nothing and are not for kn_rewrite. */
int kn_rules_refuse(kn_rw *rw, kn_ref n, uint64_t groups);

#endif
