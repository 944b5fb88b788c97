/* select.c - stage 5: what the target has in place of what it has not.
 *
 * Takes: an expanded kernel. Gives: the same with exp2 and log2 as polynomials and a * b + c contracted to MULACC; the
 * C compiler knows the rest. Tiles stay whole; the target cuts them. */
#include "lower/lower.h"

#include "rules_gen.h"

bool kl_select(kl_program *p, kl_kernel *k, kn_fault *f) {
    return kl_rewrite_kernel(p, k, KN_G_decomp | KN_G_select_c, f);
}
