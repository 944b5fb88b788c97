/* eval_fold.c - the reference interpreter: reductions with a FUNCTION for a combine.
 *
 * Contract. The combine is scalar arithmetic over PARAMs; it is laid out once as a list of steps and run for each
 * element. Results replace the accumulators together, when all of them are known. */
#include "dialect/eval_inside.h"

#include <string.h>

static bool fold_bad(ev *e, const ev_cell *c, const char *what) {
    return kn_fail(e->fault, KN_ERR_ARG, "REDUCE %%%u: %s", c->id, what);
}

static void fold_steps(ev *e, ev_fold *f, const kn_fold_parts *p, const kn_ref *order, uint32_t count, uint32_t *at) {
    const kn_graph *g = e->g;
    for (uint32_t i = 0; i < count; i++) {
        kn_ref        x   = order[i];
        int           op  = kg_op(g, x);
        const kn_ref *src = kg_src(g, x);
        if (op == KN_OP_PARAM) {
            at[i] = (uint32_t)kg_field(g, x, KN_F_PARAM_slot);
            continue;
        }
        if (op == KN_OP_STACK || x == p->combine) continue;
        at[i]            = f->nvalue++;
        ev_fold_step *st = &f->step[at[i]];
        if (op == KN_OP_CONST) {
            if (kn_is_float(kg_dtype(g, x))) f->value[at[i]].f = kg_const_float(g, x);
            else f->value[at[i]].i = kg_const_int(g, x);
            continue;
        }
        *st = (ev_fold_step){.op = (uint8_t)op, .dtype = (uint8_t)kg_dtype(g, x)};
        for (uint32_t s = 0; s < kg_nsrc(g, x); s++) {
            uint32_t k = i;
            while (order[k] != src[s]) k--; /* bodies are small */
            st->src[s]    = at[k];
            st->src_dt[s] = kg_dtype(g, src[s]);
        }
    }
    for (int k = 0; k < f->n; k++) {
        uint32_t i = 0;
        while (order[i] != kg_at(g, p->combine, (uint32_t)k)) i++;
        f->result[k] = at[i];
    }
}

static bool fold_open(ev *e, ev_cell *c, const kn_fold_parts *p) {
    const char *flaw = kg_combine_flaw(e->g, p);
    kn_ref     *order;
    uint32_t    count;
    if (flaw) return fold_bad(e, c, flaw);
    if (!kg_reach(e->g, &p->combine, 1, &order, &count)) return kn_oom(e->fault);
    ev_fold  *f  = kn_arena_get(&e->arena, sizeof *f);
    uint32_t *at = kn_arena_get(&e->arena, (count + 1) * sizeof *at);
    size_t    n  = 2 * (size_t)p->n + count;
    if (f) *f = (ev_fold){.n = p->n, .nvalue = 2 * (uint32_t)p->n};
    if (f) f->result = kn_arena_get(&e->arena, (size_t)p->n * sizeof *f->result);
    if (f) f->value = kn_arena_get(&e->arena, n * sizeof *f->value);
    if (f) f->step = kn_arena_get(&e->arena, n * sizeof *f->step);
    bool ok = (f && at && f->result && f->value && f->step) || kn_oom(e->fault);
    if (ok) {
        memset(f->step, 0, n * sizeof *f->step);
        fold_steps(e, f, p, order, count, at);
        c->fold = f;
    }
    kn_free(e->alloc, order, count * sizeof *order);
    return ok;
}

static size_t acc_bytes(const ev_cell *c) {
    return (size_t)KN_MAX(c->numel, 1) * (size_t)c->fold->n * sizeof *c->fold->acc;
}

bool kn_ev_fold_begin(ev *e, ev_cell *c) {
    kn_fold_parts p;
    if (!kg_fold_parts(e->g, kg_at(e->g, c->id, 0), &p)) return fold_bad(e, c, "is no fold");
    if (!c->fixed) return fold_bad(e, c, "a symbolic shape");
    if (!c->fold && !fold_open(e, c, &p)) return false;
    if (!c->fold->acc && !(c->fold->acc = kn_realloc(e->alloc, NULL, 0, acc_bytes(c)))) return kn_oom(e->fault);
    for (int k = 0; k < p.n; k++) {
        kn_scalar id = {.i = 0};
        if (kn_is_float(kg_dtype(e->g, p.identity[k]))) id.f = kg_const_float(e->g, p.identity[k]);
        else id.i = kg_const_int(e->g, p.identity[k]);
        for (int64_t i = 0; i < c->numel; i++) c->fold->acc[k * c->numel + i] = id;
    }
    return true;
}

static bool fold_apply(ev *e, const ev_cell *c, const kn_scalar *const *x, int64_t element, int64_t acc) {
    ev_fold *f = c->fold;
    for (int k = 0; k < f->n; k++) {
        f->value[k]        = f->acc[k * c->numel + acc];
        f->value[f->n + k] = x[k][element];
    }
    for (uint32_t i = 2 * (uint32_t)f->n; i < f->nvalue; i++) {
        const ev_fold_step *st = &f->step[i];
        kn_scalar           in[3];
        if (!st->op) continue;
        for (int s = 0; s < 3; s++) in[s] = f->value[st->src[s]];
        if (!kn_alu(st->op, st->dtype, st->src_dt, in, &f->value[i]))
            return fold_bad(e, c, "an op of the combine is not defined for its dtype");
    }
    for (int k = 0; k < f->n; k++) f->acc[k * c->numel + acc] = f->value[f->result[k]];
    return true;
}

bool kn_ev_fold_take(ev *e, ev_cell *c) {
    const ev_cell   *fn = &e->cell[c->src[0]];
    int              n  = c->fold->n, rank, count;
    const int64_t   *word = kg_words(e->g, c->id, &count), *dims;
    const kn_scalar *x[KN_MAX_FOLD];
    kn_scalar        one[KN_MAX_FOLD], *tmp[KN_MAX_FOLD] = {0};
    ev_cell         *first = &e->cell[fn->src[1 + n]];
    int64_t          idx[KN_MAX_RANK] = {0}, stride[KN_MAX_RANK], s = 1;
    bool             ok = true;
    if (!first->fixed) return fold_bad(e, c, "a symbolic shape");
    dims = kg_shape(e->g, first->id, &rank);
    for (int d = rank - 1; d >= 0; d--) {
        bool gone = false;
        for (int k = KN_REDUCE_WORDS; k < count; k++) gone = gone || word[k] == d;
        stride[d] = gone ? 0 : s;
        s *= gone ? 1 : dims[d];
    }
    for (int k = 0; ok && k < n; k++)
        ok = (x[k] = kn_ev_values(e, &e->cell[fn->src[1 + n + k]], &one[k], &tmp[k])) != NULL;
    for (int64_t i = 0, acc = 0; ok && i < first->numel; i++) {
        ok = fold_apply(e, c, x, i, acc);
        for (int d = rank - 1; d >= 0; d--) {
            acc += stride[d];
            if (++idx[d] < dims[d]) break;
            acc -= stride[d] * dims[d];
            idx[d] = 0;
        }
    }
    for (int k = 0; k < n; k++)
        if (tmp[k]) kn_free(e->alloc, tmp[k], (size_t)KN_MAX(first->numel, 1) * sizeof *tmp[k]);
    return ok;
}

bool kn_ev_fold_result(ev *e, ev_cell *c, const ev_cell *reduce) {
    int64_t k = (int64_t)kg_node(e->g, c->id)->arg;
    if (!reduce->fold || k >= reduce->fold->n) return fold_bad(e, reduce, "gives no such element");
    if (!kn_ev_room(e, c)) return false;
    memcpy(c->val, reduce->fold->acc + k * reduce->numel, (size_t)c->numel * sizeof *c->val);
    return true;
}

void kn_ev_fold_free(ev *e, ev_cell *c) {
    if (c->fold && c->fold->acc) kn_free(e->alloc, c->fold->acc, acc_bytes(c));
}
