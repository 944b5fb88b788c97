/* plan.c - stage 7: storage for what kernels hand each other.
 *
 * Takes: the calls in order. Gives: for every temporary an offset into one block; temporaries whose lifetimes do not
 *   overlap share bytes. Holds after: no kernel reads and writes overlapping temporaries. A panel of a PARAM that no
 *   kernel writes is kept from run to run, in bytes of its own.
 * Registers of the C target are the C compiler's. */
#include "lower/lower.h"

#include <string.h>

enum { ALIGN = 128 };

static int64_t temp_bytes(const kl_temp *t) { return (t->size * kn_dsize(t->dtype) + ALIGN - 1) / ALIGN * ALIGN; }

bool kl_plan(kl_program *p, kn_fault *f) {
    for (size_t i = 0; i < p->ntemp; i++) {
        p->temp[i].first  = -1;
        p->temp[i].offset = -1;
    }
    for (size_t k = 0; k < p->ncall; k++)
        for (size_t a = 0; a < p->kernel[p->call[k].kernel].nargs; a++) {
            const kl_arg *arg = &p->call[k].arg[a];
            if (!arg->temp) p->param[arg->id].written |= arg->written;
            if (!arg->temp) continue;
            kl_temp *t = &p->temp[arg->id];
            if (t->first < 0) t->first = (int)k;
            t->last = (int)k;
        }
    for (size_t k = 0; k < p->ncall; k++) {
        const kl_arg *arg = p->call[k].arg;
        if (!p->kernel[p->call[k].kernel].panel || arg[1].temp || p->param[arg[1].id].written) continue;
        p->temp[arg[0].id].kept  = true;
        p->temp[arg[0].id].first = 0;
        p->temp[arg[0].id].last  = (int)p->ncall;
    }
    p->temp_bytes = 0;
    /* First fit, in the order of first use, among those alive at the same time. */
    for (size_t k = 0; k < p->ncall; k++)
        for (size_t i = 0; i < p->ntemp; i++) {
            kl_temp *t = &p->temp[i];
            if (t->first != (int)k) continue;
            int64_t at = 0;
            for (bool moved = true; moved;) {
                moved = false;
                for (size_t j = 0; j < p->ntemp; j++) {
                    const kl_temp *o = &p->temp[j];
                    if (o->offset < 0 || o->last < t->first || o->first > t->last) continue;
                    if (at < o->offset + temp_bytes(o) && o->offset < at + temp_bytes(t)) {
                        at    = o->offset + temp_bytes(o);
                        moved = true;
                    }
                }
            }
            t->offset = at;
            if (!kn_add_ok(at, temp_bytes(t), &at)) return kn_fail(f, KN_ERR_SHAPE, "plan: temporaries are too large");
            p->temp_bytes = KN_MAX(p->temp_bytes, at);
        }
    return true;
}
