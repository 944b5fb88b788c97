/* pipeline.h - the table of stages, and the loop that runs it. */
#ifndef KN_PIPELINE_H
#define KN_PIPELINE_H

#include "lower/lower.h"
#include "rules/verify.h"

/* What a stage did, over all kernels. Callify ran before: its nodes_in are its nodes_out. */
typedef struct kl_stage_count {
    uint64_t nodes_in, nodes_out; /* reached from the roots */
    uint64_t largest;             /* of nodes_out, in one kernel */
    uint64_t visits, matches;     /* nodes matched against rules; rules that fired */
} kl_stage_count;

typedef struct kl_hand { /* options given by hand for kernels by name */
    char  *pattern; /* * stands for any characters, ? for one */
    kn_opt opts[KN_MAX_OPTS];
    int    nopts; /* 0: the kernel stays as it is */
} kl_hand;

typedef struct kl_run {
    kn_stage stop;               /* KN_STAGE_ANY: run them all; else the last stage to run */
    const kn_opt *opts;          /* options for every kernel instead of the heuristic's, or NULL */
    int      nopts;
    const kl_hand *hand;         /* instead of both, for kernels whose names fit; the last that fits counts */
    size_t   nhand;
    bool     verify;             /* check the graph after every stage */
    bool     lean;               /* unless someone looks on, graphs of rendered kernels go, but for symbolic bounds */
    /* Runs fn(arg, lo, hi) over parts of 0..n, perhaps in several threads; NULL: there is one. */
    bool (*share)(void *sharer, int64_t n, kn_pool_fn fn, void *arg, kn_fault *f);
    void    *sharer;
    /* Called after every stage with the whole schedule as one graph (not for TENSOR); NULL: none. False stops with a
     * fault. */
    bool (*seen)(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f);
    void    *user;
    kl_stage_count *count;                  /* out, KN_STAGE_COUNT of them; NULL: not counted */
} kl_run;

/* Runs the stages from Rangeify on over a callified program. */
bool kl_lower(kl_program *p, kl_run *run, kn_fault *f);
#endif
