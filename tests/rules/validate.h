/* validate.h - is what a rule made of a node still worth the same? Evaluated at every firing, on random values.
 *
 *     kn_validation v;
 *     kn_validate_begin(&v);
 *     rw.on_fire = kn_validate_hook;      any kn_rewrite with rw
 *     kn_validate_end();                  v.failures, v.text; v.checked[rule]
 *
 * Elementwise nodes are computed by kn_alu, BITCASTs of one value by their bits; whatever else they stand on is a leaf
 * with a random value within its bounds. A node that moves data is run by the interpreter on random inputs, if its
 * leaves are PARAMs. Functions that become polynomials (groups decomp*) may be off by KN_VALIDATE_UNITS in the last
 * place; other rules without a mark are not looked at. One validation at a time. */
#ifndef KN_VALIDATE_H
#define KN_VALIDATE_H

#include "rewrite/rewrite.h"

enum { KN_VALIDATE_UNITS = 4 };

typedef struct kn_validation {
    uint64_t seed;
    long     firings, trials, failures;
    uint32_t checked[4096]; /* firings of a rule that were evaluated */
    char     text[1024];    /* the first failure */
} kn_validation;

void kn_validate_begin(kn_validation *v);
void kn_validate_end(void);
void kn_validate_hook(kn_rw *rw, int rule, kn_ref from, kn_ref to);

#endif
