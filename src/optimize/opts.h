/* opts.h - the OptOps and the nest they edit.
 *
 * OptOps do not rewrite: they edit a nest summary derived from the kernel's graph (loops, extents, strides into the
 * original ranges), where legality is a look-up; ko_apply turns the edited nest into the graph by one substitution at
 * the end. */
#ifndef KN_OPTS_H
#define KN_OPTS_H

#include "base/machine.h"
#include "dialect/uop.h"

typedef struct kn_opt {
    enum { KN_OPT_SPLIT, KN_OPT_SWAP, KN_OPT_STAGE } op;
    int     axis;   /* position in the nest, outermost 0 */
    int64_t
        arg; /* SPLIT: the factor; SWAP: the other position; STAGE: the PARAM whose panels are copied to LOCAL memory */
    int target; /* SPLIT: the type of the new loop: THREAD, LOOP, UPCAST; of reductions REDUCE, GROUP_REDUCE, UNROLL */
    bool    top;    /* SPLIT: the new loop is the outer one */
} kn_opt;

enum { KN_MAX_OPTS = 24, KN_MAX_NEST = 64, KN_MAX_STAGES = 8, KN_STAGE_BYTES = 256 << 10 };

typedef struct kn_origin { /* a range of the kernel before optimisation */
    kn_ref  range, closer; /* closer: the END or REDUCE that ends it */
    int64_t extent;
    bool    reduce;
    bool    carried;   /* closed by an END, yet iterations must run in order: they meet in memory */
    bool    staged;    /* a LOCAL stage is filled anew in each iteration */
    int64_t tail;      /* elements the split loops leave over; they get a loop of their own */
    int     tail_type;
} kn_origin;

typedef struct kn_loop {
    int     origin;
    int64_t extent, stride; /* contributes stride * i to its origin */
    int     type;
} kn_loop;

typedef struct kn_nest {
    kn_origin origin[KN_MAX_NEST];
    int       norigin;
    kn_loop   loop[KN_MAX_NEST]; /* outermost first; output loops before the reductions inside them */
    int       nloop;
    int64_t   stage[KN_MAX_STAGES]; /* PARAMs to copy, panel by panel */
    int       nstage;
    bool ordered; /* a GLOBAL store is read again in the kernel: only loops around all of it may be shared by threads */
} kn_nest;

/* Ranges that Expand turns into shape. */
static inline bool ko_is_lane(int type) { return type == KN_AXIS_UPCAST || type == KN_AXIS_GROUP_REDUCE; }

/* The nest of a ranged kernel. False with a reason: a bound that is not constant, or too many loops. */
bool ko_nest(kn_graph *g, kn_ref sink, kn_nest *nest, kn_fault *f);
/* One OptOp on the nest; a refusal says why and leaves the nest alone. */
bool ko_edit(kn_nest *nest, const kn_opt *opt, kn_fault *f);
/* The kernel of the edited nest. 0 on failure, with the graph's fault or f set. */
kn_ref ko_apply(kn_graph *g, kn_ref sink, const kn_nest *nest, kn_fault *f);
/* A simple choice of options for the machine's vectors and caches; returns how many (0: leave as it is). */
int ko_choose(kn_graph *g, kn_ref sink, const kn_machine *m, kn_opt *opts, int cap, kn_fault *f);

/* "SPLIT:0:8:UPCAST SWAP:1:2 SPLIT:0:16:THREAD:top STAGE:2" and back. */
bool ko_parse_opts(const char *text, kn_opt *opts, int *n, kn_fault *f);
void ko_print_opts(const kn_opt *opts, int n, kn_str *out);

#endif
