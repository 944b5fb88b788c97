/* select.c - stage 5: what the target has in place of what it has not.
 *
 * Takes: an expanded kernel. Gives: the same under the target's rules: decompositions of what it lacks, a * b + c
 * contracted to MULACC. A target with registers of its own then cuts the tiles into what they hold (kt_target.cut), as
 * INS nodes; for the others tiles stay whole. */
#include "lower/lower.h"

bool kl_select(kl_program *p, kl_kernel *k, kn_fault *f) {
    const kt_target *t = kt_of(&p->target);
    if (!kl_rewrite_kernel(p, k, t->groups, f)) return false;
    if (t->cut && k->symbolic)
        return kn_fail(f, KN_ERR_UNSUPPORTED, "select: kernels with symbolic sizes have no machine code yet");
    return !t->cut || t->cut(k->g, &k->root, &p->target, f) || kl_stage_fault("select", k->g, f);
}
