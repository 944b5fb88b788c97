/* render.c - stage 8: the list becomes source text, or machine code.
 *
 * Takes: LINEAR. Gives: k->source, a function named k->name in what the target writes, k->chunks and k->bound. */
#include "lower/lower.h"

static kn_ref thread_bound(const kl_kernel *k) {
    for (uint32_t i = 0; i < kg_nsrc(k->g, k->root); i++) {
        kn_ref x = kg_at(k->g, k->root, i), b = kg_op(k->g, x) == KN_OP_RANGE ? kg_at(k->g, x, 0) : 0;
        if (b && kg_field(k->g, x, KN_F_RANGE_type) == KN_AXIS_THREAD) return kg_op(k->g, b) == KN_OP_CONST ? 0 : b;
    }
    return 0;
}

bool kl_render(kl_program *p, kl_kernel *k, kn_fault *f) {
    const kt_target *t   = kt_of(&p->target);
    kt_output        out = {.chunks = 1};
    if (!t->render(k->g, k->root, k->name, &p->target, &out, f)) return false;
    k->nodes      = kg_nsrc(k->g, k->root);
    k->chunks     = out.chunks;
    k->bound      = thread_bound(k);
    k->source     = out.text;
    k->source_len = out.size;
    k->machine    = t->machine;
    k->listing    = out.listing;
    k->listing_len = out.listing_size;
    k->spills     = out.spills;
    return true;
}
