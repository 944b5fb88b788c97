/* why.h - where nodes come from, kept beside a graph when that is asked for.
 *
 * A kn_why is a log of causes. A graph that keeps to one (kg_keep_why) knows a cause of each of its nodes: what made
 * it - a call of the API, a line of a text program, a stage, a rule - and, through the cause's parent, what made the
 * node it was made of, back to a call or a line. A copy has its original's cause, and so has a node whose sources alone
 * were exchanged: causes follow a node from graph to graph, and graphs that copy from each other share their log.
 *
 * Causes are interned: the log grows with the forms of programs, not with how often they are built. It lives longer
 * than its graphs. A graph without a log pays one test per new node. */
#ifndef KN_WHY_H
#define KN_WHY_H

#include "dialect/uop.h"

typedef struct kn_why kn_why;

typedef enum kn_cause_kind { KN_BY_NOBODY, KN_BY_CALL, KN_BY_LINE, KN_BY_STAGE, KN_BY_RULE } kn_cause_kind;

typedef struct kn_cause {
    uint32_t kind;
    uint32_t name;   /* a text: of the function, the stage, or the rule with its group */
    uint32_t file;   /* a text: where the call, the line or the rule stands; 0: not known */
    uint32_t line;
    uint32_t stage;  /* a text: of a rule, the stage that ran it; 0: none did */
    uint32_t nth;    /* among the nodes made by it at one go */
    uint32_t parent; /* cause of the node that this one was made of; 0: of none */
} kn_cause;

/* NULL: out of memory. `source`: Render writes the causes into the code, as comments. */
kn_why *kn_why_new(const kn_alloc *a, bool source);
void    kn_why_free(kn_why *w);
bool    kn_why_in_source(const kn_why *w);
/* w may be NULL. Nodes made from here on have causes; those there are have none. */
void    kg_keep_why(kn_graph *g, kn_why *w);
kn_why *kg_why(const kn_graph *g); /* NULL: none is kept */
/* 0: not known. */
uint32_t        kg_cause(const kn_graph *g, kn_ref n);
const kn_cause *kn_cause_at(const kn_why *w, uint32_t cause);
const char     *kn_cause_text(const kn_why *w, uint32_t text);

/* Who makes nodes from here on, in all graphs of the log. These do nothing where w, or the graph's, is NULL. */
/* placed: kg_made_at is not for it. */
void kn_why_call(kn_why *w, const char *function, bool placed);
void kn_why_line(kn_why *w, const char *file, int line); /* file NULL: the same as before */
/* A stage of the compiler begins; what nodes it makes, and of which, kg_made_of says. */
void kn_why_stage(kn_why *w, const char *stage);
/* The stage makes nodes of n (a node of `from`) in g. */
void kg_made_of(kn_graph *g, const kn_graph *from, kn_ref n);
/* Nodes made in g from here on are n itself; n 0: no longer. */
void kg_made_as(kn_graph *g, const kn_graph *from, kn_ref n);
/* Nodes of g from `first` on that a call made whose place was not known were made there. */
void kg_made_at(kn_graph *g, kn_ref first, const char *file, int line);

/* What a rule makes of n: between the two calls. `rule` NULL: none fired. */
typedef struct kn_making {
    kn_ref   first;
    kn_cause now;
    uint32_t as;
} kn_making;
void kg_rule_begin(kn_graph *g, kn_making *m);
void kg_rule_end(kn_graph *g, kn_making *m, kn_ref n, const char *group, const char *rule, const char *file, int line);

/* "train.c:12 kn_matmul > rangeify > algebra.add_zero": a chain on one line, from the call on. */
void kn_print_cause(const kn_why *w, uint32_t cause, kn_str *out);
/* kg_print with the chain of each node behind it, as a comment. */
void kg_print_why(const kn_graph *g, kn_ref root, kn_str *out);

#endif
