/* choose.h - options by chance that a kernel's nest admits. */
#ifndef KN_CHOOSE_H
#define KN_CHOOSE_H

#include "lower/lower.h"

/* The next of a sequence, below n. */
uint64_t choose_draw(uint64_t *state, uint64_t n);
/* k->opts and k->nopts: up to `most` options of every kind, each of which fits the nest that those before it left.
 * Returns how many were tried and refused. As a whole kl_optimize may still refuse them, with KN_ERR_ARG. */
int choose_opts(kl_kernel *k, uint64_t *state, int most);

typedef struct choose_way {
    bool (*options)(void *user, kl_kernel *k, kn_fault *f);      /* gives the next kernel its options */
    bool (*seen)(void *user, kn_stage stage, kn_fault *f);       /* the program is there; false: no further */
    void *user;
    bool  refused; /* a list as a whole, where each option was fit by itself: KN_ERR_ARG */
} choose_way;

/* The pipeline with options from outside, to rendered kernels. False: a fault, or seen said so. */
bool choose_lower(kl_program *p, choose_way *w, kn_fault *f);

#endif
