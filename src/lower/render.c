/* render.c - stage 8: the list becomes source text, or machine code.
 *
 * Takes: LINEAR. Gives: k->source, a function named k->name in what the target writes, and k->chunks. */
#include "lower/lower.h"

#include <string.h>

bool kl_render(kl_program *p, kl_kernel *k, kn_fault *f) {
    const kt_target *t   = kt_of(&p->target);
    kt_output        out = {.chunks = 1};
    if (!t->render(k->g, k->root, k->name, &p->target, &out, f)) return false;
    k->nodes      = kg_nsrc(k->g, k->root);
    k->chunks     = k->bound ? kg_max(k->g, k->bound) : out.chunks;
    k->source     = out.text;
    k->source_len = out.size;
    k->machine    = t->machine;
    k->listing    = out.listing;
    k->listing_len = out.listing_size;
    k->frame       = out.frame;
    memcpy(k->unwind, out.unwind, sizeof k->unwind);
    k->spills     = out.spills;
    k->remade     = out.remade;
    k->cycles     = out.cycles;
    return true;
}
