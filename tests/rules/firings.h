/* firings.h - the corpus through the compiler, and which rules fired on the way.
 *
 * Programs: tests/ir/corpus, tests/ir/effects, tests/ir/symbolic, tests/ir/storage and tests/kernels.
 * Each goes through the stages up to Select for every target, for one that has no function at all, and through Rangeify
 * with @fast rules allowed; its gradient, where it has one, through those of the C target. What is refused as
 * unsupported is lowered as far as it goes. The rules' own tests are no part of it.
 */
#ifndef KN_FIRINGS_H
#define KN_FIRINGS_H

#include "rules/validate.h"

typedef struct kn_firings {
    uint64_t     *fired;  /* by rule */
    kn_validation checks; /* every firing of a marked rule, evaluated */
    int           programs, gradients, kernels;
} kn_firings;

/* False with a message on stdout when a program does not compile or a firing changed a value. */
bool kn_firings_of_corpus(kn_firings *f);
void kn_firings_free(kn_firings *f);

#endif
