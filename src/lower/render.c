/* render.c - stage 8: the list becomes source text.
 *
 * Takes: LINEAR. Gives: k->source, a C function named k->name, and k->chunks. */
#include "lower/lower.h"

#include "target/target.h"

#include <string.h>

bool kl_render(kl_program *p, kl_kernel *k, kn_fault *f) {
    kn_str s;
    kn_str_init(&s, p->alloc);
    bool ok = kt_c_render(k->g, k->root, k->name, &k->chunks, &s, f);
    if (ok) {
        if (!(k->source = kn_realloc(p->alloc, NULL, 0, s.len + 1))) ok = kn_oom(f);
        else memcpy(k->source, kn_str_c(&s), s.len + 1);
        k->source_len = s.len;
    }
    kn_str_free(&s);
    return ok;
}
