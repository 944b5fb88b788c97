/* select.c - stage 5: what the target has in place of what it has not.
 *
 * Takes: an expanded kernel. Gives: the same under the target's rules: decompositions of what it lacks, a * b + c
 * contracted to MULACC. A target with registers of its own then cuts the tiles into what they hold (kt_target.cut), as
 * INS nodes; for the others tiles stay whole. */
#include "lower/lower.h"

/* The symbolic bound of the THREAD loop, while sizes are still arithmetic of the dialect: the runtime works it out
 * before each call. False: out of memory. */
static bool find_bound(kl_kernel *k) {
    kn_ref  *order;
    uint32_t n;
    if (!kg_reach(k->g, &k->root, 1, &order, &n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref b = kg_op(k->g, order[i]) == KN_OP_RANGE ? kg_at(k->g, order[i], 0) : 0;
        if (b && kg_field(k->g, order[i], KN_F_RANGE_type) == KN_AXIS_THREAD && kg_op(k->g, b) != KN_OP_CONST)
            k->bound = b;
    }
    kn_free(kg_alloc(k->g), order, n * sizeof *order);
    return true;
}

bool kl_select(kl_program *p, kl_kernel *k, kn_fault *f) {
    const kt_target *t = kt_of(&p->target);
    if (!kl_rewrite_kernel(p, k, t->groups[p->target.level], f)) return false;
    if (k->symbolic && !find_bound(k)) return kn_oom(f);
    return !t->cut || t->cut(k->g, &k->root, &p->target, f) || kl_stage_fault("select", k->g, f);
}
