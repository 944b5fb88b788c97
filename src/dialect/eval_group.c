/* eval_group.c - the reference interpreter: hardware indices, and threads that work together.
 *
 * Contract. Without a meeting point (BARRIER, WMMA of several threads) the combinations of SPECIALs run one after the
 * other in one instance. With one, every thread of a group is an instance of its own, with the same cells; a thread
 * runs until it is done or stands at a meeting point, and all go on when all have come: all of the group to a BARRIER,
 * the threads of a warp, neighbours in the order of their numbers, to a WMMA. Threads that wait at different places, or
 * for one that is done, are an error. LOCAL storage is the group's. */
#include "dialect/eval_inside.h"

#include <string.h>

enum { EV_MAX_THREADS = 1024 };

static int64_t warp_of(const ev *e, const ev_cell *c) {
    return c->op == KN_OP_WMMA ? kg_field(e->g, c->id, KN_F_WMMA_threads) : 0; /* of a BARRIER: the group */
}

bool kn_ev_meets(const ev *e, const ev_cell *c) {
    return c->op == KN_OP_BARRIER || (c->op == KN_OP_WMMA && warp_of(e, c) > 1);
}

static bool in_group(const ev *e, const ev_cell *special) {
    return !strncmp(kg_str(e->g, (uint32_t)kg_node(e->g, special->id)->arg, NULL), "lidx", 4);
}

/* The next combination of the SPECIALs' values; false behind the last, which is where it began. Of threads: those that
 * number the threads of a group, or the others. */
static bool next_special(ev *e, bool all, bool threads) {
    bool more = false;
    for (uint32_t i = 0; i < e->ncell && !more; i++) {
        ev_cell *c = &e->cell[i];
        if (c->op != KN_OP_SPECIAL || (!all && in_group(e, c) != threads)) continue;
        more = ++c->one.i < e->cell[c->src[0]].one.i;
        if (!more) c->one.i = 0;
    }
    return more;
}

/* ---- one after the other ----------------------------------------------------------------------------------------- */

static bool run_each(ev *e) {
    do {
        if (!kn_ev_go(e)) return false;
        e->linear.pc = 0;
        for (uint32_t i = 0; i < e->ncell; i++) /* every result is out of date */
            if (e->cell[i].op != KN_OP_CONST) e->cell[i].key = 0;
    } while (next_special(e, true, false));
    return true;
}

/* ---- side by side ------------------------------------------------------------------------------------------------ */

static bool group_fault(const ev *e, uint32_t cell, const char *what) {
    const ev_cell *c = &e->cell[cell];
    return kn_fail(e->fault, KN_ERR_ARG, "eval: %s %%%u: %s", kn_ops[c->op].name, c->id, what);
}

/* Lets threads first .. first + n - 1 go on if all of them stand at the same place. */
static bool let_go(ev **thread, int64_t n, uint32_t cell, bool *gone) {
    for (int64_t i = 0; i < n; i++)
        if (thread[i]->blocked != cell + 1) return true;
    if (thread[0]->cell[cell].op == KN_OP_WMMA && !kn_ev_wmma(thread, n, cell)) return false;
    for (int64_t i = 0; i < n; i++) thread[i]->passed = true;
    return *gone = true;
}

/* Those that have come together go on. *done: nobody waits. False: they never will, or a fault. */
static bool come_together(ev **thread, int64_t n, bool *done) {
    bool gone = false;
    *done     = true;
    for (int64_t i = 0; i < n; i++) {
        ev *e = thread[i];
        if (!e->blocked || e->passed) continue;
        uint32_t cell = e->blocked - 1;
        int64_t  warp = warp_of(e, &e->cell[cell]), count = warp ? warp : n;
        *done = false;
        if (n % count) return group_fault(e, cell, "the group's threads are no whole number of warps");
        if (i % count == 0 && !let_go(thread + i, count, cell, &gone)) return false;
    }
    for (int64_t i = 0; i < n && !*done && !gone; i++)
        if (thread[i]->blocked)
            return group_fault(thread[i], thread[i]->blocked - 1, "not all of its threads come here");
    for (int64_t i = 0; i < n; i++)
        if (thread[i]->passed) thread[i]->blocked = 0;
    return true;
}

static bool run_group(ev **thread, int64_t n) {
    bool done = false;
    for (int64_t i = 0; i < n; i++)
        if (!kn_ev_go(thread[i])) return false;
    while (come_together(thread, n, &done)) {
        if (done) return true;
        for (int64_t i = 0; i < n; i++)
            if (thread[i]->passed && !kn_ev_go(thread[i])) return false;
    }
    return false;
}

/* A group's threads, numbered by the values that `first` has for its SPECIALs. */
static bool open_group(ev *first, kn_ref root, ev **thread, int64_t n, ev_store **local) {
    for (int64_t t = 0; t < n; t++) {
        ev *e = thread[t] = kn_zalloc(first->alloc, sizeof *e);
        if (!e) return kn_oom(first->fault);
        *e = (ev){.g = first->g, .alloc = first->alloc, .fault = first->fault, .shared = first->shared,
                  .slots = first->slots, .nslots = first->nslots, .clock = 1, .group = true, .local = local};
        kn_arena_init(&e->arena, e->alloc);
        if (!kn_ev_open(e, root)) return false;
        for (uint32_t i = 0; i < e->ncell; i++)
            if (e->cell[i].op == KN_OP_SPECIAL) e->cell[i].one = first->cell[i].one;
        next_special(first, false, true);
    }
    return true;
}

static bool run_groups(ev *e, kn_ref root, int64_t n) {
    ev **thread = kn_zalloc(e->alloc, (size_t)n * sizeof *thread);
    bool ok = thread || kn_oom(e->fault);
    do {
        ev_store *local = NULL;
        ok = ok && open_group(e, root, thread, n, &local) && run_group(thread, n);
        for (ev_store *s = local; s; s = s->next) kn_free(e->alloc, s->data, (size_t)s->bytes);
        for (int64_t t = 0; thread && t < n; t++) {
            if (thread[t]) kn_ev_close(thread[t]);
            kn_free(e->alloc, thread[t], sizeof *thread[t]);
            thread[t] = NULL;
        }
    } while (ok && next_special(e, false, false));
    kn_free(e->alloc, thread, (size_t)n * sizeof *thread);
    return ok;
}

bool kn_ev_groups(ev *e, kn_ref root) {
    int64_t n = 1;
    for (uint32_t i = 0; i < e->ncell; i++) {
        const ev_cell *c = &e->cell[i];
        if (c->op != KN_OP_SPECIAL) continue;
        const ev_cell *bound = &e->cell[c->src[0]];
        if (bound->op != KN_OP_CONST)
            return kn_fail(e->fault, KN_ERR_UNSUPPORTED, "eval: SPECIAL %%%u needs a constant bound", c->id);
        if (bound->one.i <= 0) return true;
        if (in_group(e, c)) n = kn_sat_mul(n, bound->one.i);
    }
    if (!e->nmeet) return run_each(e);
    if (n > EV_MAX_THREADS)
        return kn_fail(e->fault, KN_ERR_UNSUPPORTED, "eval: a group of more than %d threads", EV_MAX_THREADS);
    if (e->cell[e->ncell - 1].kind != EV_EFFECT)
        return kn_fail(e->fault, KN_ERR_ARG, "eval: threads that meet have effects, and no value");
    return run_groups(e, root, n);
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

/* The elements of one source of all threads as one matrix, `size` of them in each batch; NULL: a fault. */
static kn_scalar *gather_parts(ev *const *thread, int64_t n, uint32_t cell, uint32_t source, int64_t size) {
    ev        *e = thread[0];
    kn_scalar *m = kn_realloc(e->alloc, NULL, 0, (size_t)size * sizeof *m);
    if (!m) return kn_oom(e->fault), NULL;
    for (int64_t t = 0; t < n; t++) {
        ev_cell         *s = &thread[t]->cell[thread[t]->cell[cell].src[source]];
        kn_scalar        one, *tmp = NULL;
        const kn_scalar *x = kn_ev_values(thread[t], s, &one, &tmp);
        if (x) memcpy(m + t * s->numel, x, (size_t)s->numel * sizeof *x);
        kn_free(e->alloc, tmp, (size_t)KN_MAX(s->numel, 1) * sizeof *tmp);
        if (!x) {
            kn_free(e->alloc, m, (size_t)size * sizeof *m);
            return NULL;
        }
    }
    return m;
}

static bool multiply(const ev_cell *c, const int64_t *w, const int *dt, kn_scalar *const *m) {
    int64_t rows = w[KN_F_WMMA_m], cols = w[KN_F_WMMA_n], depth = w[KN_F_WMMA_k];
    int     in[3] = {c->dtype, c->dtype, c->dtype};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            for (int64_t k = 0; k < depth; k++) {
                kn_scalar v[3] = {kn_cast_scalar(m[0][i * depth + k], dt[0], c->dtype),
                                  kn_cast_scalar(m[1][k * cols + j], dt[1], c->dtype), m[2][i * cols + j]};
                if (!kn_alu(KN_OP_MULACC, c->dtype, in, v, &m[2][i * cols + j])) return false;
            }
    return true;
}

bool kn_ev_wmma(ev *const *thread, int64_t n, uint32_t cell) {
    ev            *e = thread[0];
    const ev_cell *c = &e->cell[cell];
    const int64_t *w = kg_words(e->g, c->id, NULL);
    int64_t        want[3] = {kn_sat_mul(w[KN_F_WMMA_m], w[KN_F_WMMA_k]), kn_sat_mul(w[KN_F_WMMA_k], w[KN_F_WMMA_n]),
                              kn_sat_mul(w[KN_F_WMMA_m], w[KN_F_WMMA_n])};
    kn_scalar     *m[3] = {0};
    int            dt[3];
    bool           ok = true;
    if (w[KN_F_WMMA_threads] != n)
        return group_fault(e, cell, "its threads are those of a group: SPECIALs lidx0, lidx1, ...");
    for (uint32_t k = 0; k < 3; k++) {
        const ev_cell *s = &e->cell[c->src[k]];
        if (want[k] <= 0 || !s->fixed || kn_sat_mul(s->numel, n) != want[k])
            return group_fault(e, cell, "the fragments of its threads do not make up matrices of its dims");
        dt[k] = s->dtype;
    }
    for (uint32_t k = 0; k < 3 && ok; k++) ok = (m[k] = gather_parts(thread, n, cell, k, want[k])) != NULL;
    if (ok && !multiply(c, w, dt, m)) ok = group_fault(e, cell, "not defined for this dtype");
    for (int64_t t = 0; t < n && ok; t++) {
        ev_cell *d = &thread[t]->cell[cell];
        ok = kn_ev_room(thread[t], d);
        if (ok) memcpy(d->val, m[2] + t * d->numel, (size_t)d->numel * sizeof *d->val);
    }
    for (int k = 0; k < 3; k++) kn_free(e->alloc, m[k], (size_t)want[k] * sizeof *m[k]);
    return ok;
}
