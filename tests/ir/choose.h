/* choose.h - options by chance that a kernel's nest admits. */
#ifndef KN_CHOOSE_H
#define KN_CHOOSE_H

#include "lower/lower.h"

/* The next of a sequence, below n. */
uint64_t choose_draw(uint64_t *state, uint64_t n);
/* k->opts and k->nopts: up to `most` options of every kind, each of which fits the nest that those before it left.
 * Returns how many were tried and refused. As a whole kl_optimize may still refuse them, with KN_ERR_ARG. */
int choose_opts(kl_kernel *k, uint64_t *state, int most);

#endif
