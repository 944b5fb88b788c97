/* plan.c - stage 7: storage for what kernels hand each other.
 *
 * Takes: the calls in order. Gives: for every temporary an offset into one block; temporaries whose lifetimes do not
 *   overlap share bytes. Holds after: no kernel reads and writes overlapping temporaries. A panel of a PARAM that no
 *   kernel writes is kept from run to run, in bytes of its own.
 * Registers of the C target are the C compiler's. */
#include "lower/lower.h"

#include <string.h>

static int64_t temp_bytes(const kl_temp *t) { return t->size * kn_dsize(t->dtype); }

/* Where t can begin, at `from` or behind it. */
static int64_t aligned(const kl_temp *t, int64_t from) {
    int64_t align = (int64_t)kn_array_align((size_t)temp_bytes(t));
    return kn_sat_add(from, align - 1) / align * align;
}

/* First fit among the live ones, which are in the order of their offsets: the place of t in that order. */
static size_t first_fit(kl_program *p, kl_temp *t, const size_t *live, size_t nlive) {
    size_t at = 0;
    t->offset = 0;
    while (at < nlive && p->temp[live[at]].offset < kn_sat_add(t->offset, temp_bytes(t))) {
        t->offset = aligned(t, p->temp[live[at]].offset + temp_bytes(&p->temp[live[at]]));
        at++;
    }
    return at;
}

static bool place(kl_program *p, size_t temp, size_t *live, size_t *nlive, kn_fault *f) {
    kl_temp *t  = &p->temp[temp];
    size_t   at = first_fit(p, t, live, *nlive);
    int64_t  end;
    if (!kn_add_ok(t->offset, temp_bytes(t), &end))
        return kn_fail(f, KN_ERR_SHAPE, "plan: temporaries are too large");
    memmove(live + at + 1, live + at, ((*nlive)++ - at) * sizeof *live);
    live[at]      = temp;
    p->temp_bytes = KN_MAX(p->temp_bytes, end);
    return true;
}

/* In the order of first use, those that are kept before all. */
static bool place_all(kl_program *p, size_t *live, kn_fault *f) {
    size_t nlive = 0;
    for (size_t i = 0; i < p->ntemp; i++)
        if (p->temp[i].kept && !place(p, i, live, &nlive, f)) return false;
    for (size_t k = 0; k < p->ncall; k++) {
        const kl_call *c = &p->call[k];
        size_t         n = 0;
        for (size_t i = 0; i < nlive; i++)
            if (p->temp[live[i]].last >= (int)k) live[n++] = live[i];
        nlive = n;
        for (size_t a = 0; a < p->kernel[c->kernel].nargs; a++) {
            const kl_arg *arg = &c->arg[a];
            if (arg->temp && p->temp[arg->id].offset < 0 && !place(p, (size_t)arg->id, live, &nlive, f)) return false;
        }
    }
    return true;
}

bool kl_plan(kl_program *p, kn_fault *f) {
    size_t *live  = kn_zalloc(p->alloc, (p->ntemp + 1) * sizeof *live);
    p->temp_bytes = 0;
    if (!live) return kn_oom(f);
    for (size_t i = 0; i < p->ntemp; i++) p->temp[i].offset = -1;
    for (size_t k = 0; k < p->ncall; k++)
        for (size_t a = 0; a < p->kernel[p->call[k].kernel].nargs; a++) {
            const kl_arg *arg = &p->call[k].arg[a];
            if (arg->temp) p->temp[arg->id].last = (int)k;
            else p->param[arg->id].written |= arg->written;
        }
    for (size_t k = 0; k < p->ncall; k++) {
        const kl_arg *arg = p->call[k].arg;
        if (!p->kernel[p->call[k].kernel].panel || arg[1].temp || p->param[arg[1].id].written) continue;
        p->temp[arg[0].id].kept = true;
        p->temp[arg[0].id].last = (int)p->ncall;
    }
    bool ok = place_all(p, live, f);
    kn_free(p->alloc, live, (p->ntemp + 1) * sizeof *live);
    return ok;
}
