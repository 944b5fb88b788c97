/* eval_ops.c - the reference interpreter: what a single op computes from its current sources.
 *
 * Contract. Values are arrays of scalars in row-major order; places are addresses. Movement of a place moves addresses
 * and reads nothing: contents are read by the op that needs them, at the time it runs. An address out of bounds is an
 * error when it is used, so that a gate can stand in front of it. */
#include "dialect/eval_inside.h"

#include <string.h>

static bool ev_bad(ev *e, const ev_cell *c, kn_status code, const char *what) {
    return kn_fail(e->fault, code, "%s %%%u: %s", kn_ops[c->op].name, c->id, what);
}

static ev_cell *ev_src(const ev *e, const ev_cell *c, uint32_t i) { return &e->cell[c->src[i]]; }

static const int64_t *ev_dims(const ev *e, const ev_cell *c, int *rank) { return kg_shape(e->g, c->id, rank); }

static size_t ev_bytes(const ev_cell *c, size_t item) { return (size_t)KN_MAX(c->numel, 1) * item; }

bool kn_ev_room(ev *e, ev_cell *c) {
    if (c->val) return true;
    if (!c->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape");
    c->val = kn_realloc(e->alloc, NULL, 0, ev_bytes(c, sizeof *c->val));
    return c->val || kn_oom(e->fault);
}

/* ---- places -------------------------------------------------------------------------------------------------- */

static int64_t ev_address(const ev_cell *c, int64_t i) {
    if (c->off) return c->off[i];
    return c->base < 0 ? EV_NOWHERE : c->base + i * kn_dsize(c->dtype);
}

/* Where element i of a place lies; NULL with a fault if that is not in its buffer. */
static char *ev_at(ev *e, const ev_cell *c, int64_t i, const ev_cell *user) {
    int64_t at = ev_address(c, i);
    if (at >= 0 && at <= c->store->bytes - kn_dsize(c->dtype)) return c->store->data + at;
    kn_ref         b = e->cell[c->root].id;
    char           where[160] = "";
    size_t         n = 0;
    const ev_cell *x = c;
    while (x->op == KN_OP_AFTER) x = ev_src(e, x, 0);
    for (uint32_t k = 1; x->op == KN_OP_INDEX && k < x->nsrc && n + 24 < sizeof where; k++) {
        const ev_cell *s = ev_src(e, x, k);
        if (s->numel == 1 && s->kind == EV_VALUE)
            n += (size_t)snprintf(where + n, sizeof where - n, "%s%lld", k > 1 ? ", " : " at ", (long long)s->one.i);
    }
    kn_fail(e->fault, KN_ERR_ARG, "%s %%%u: out of bounds of %s %%%u {slot=%lld}%s", kn_ops[user->op].name, user->id,
            kn_ops[kg_op(e->g, b)].name, b, (long long)kg_field(e->g, b, KN_F_PARAM_slot), where);
    return NULL;
}

static bool ev_offsets(ev *e, ev_cell *c) {
    if (c->off) return true;
    if (!c->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape");
    c->off = kn_realloc(e->alloc, NULL, 0, ev_bytes(c, sizeof *c->off));
    return c->off || kn_oom(e->fault);
}

/* c is the same place as s, but for its shape. */
static bool ev_same_place(ev *e, ev_cell *c, const ev_cell *s) {
    c->store = s->store;
    c->base  = s->base;
    if (!s->off) return true;
    if (!ev_offsets(e, c)) return false;
    memcpy(c->off, s->off, (size_t)s->numel * sizeof *s->off);
    return true;
}

const kn_scalar *kn_ev_values(ev *e, ev_cell *c, kn_scalar *one, kn_scalar **tmp) {
    if (c->kind == EV_VALUE) return c->val;
    if (c->kind != EV_PLACE) return ev_bad(e, c, KN_ERR_ARG, "used as a value, but it has none"), NULL;
    if (!c->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape"), NULL;
    kn_scalar *out = one;
    if (c->numel != 1 && !(out = *tmp = kn_realloc(e->alloc, NULL, 0, ev_bytes(c, sizeof *out))))
        return kn_oom(e->fault), NULL;
    for (int64_t i = 0; i < c->numel; i++) {
        const char *p = ev_at(e, c, i, c);
        if (!p) return NULL;
        out[i] = kn_load_scalar(p, c->dtype);
    }
    return out;
}

static void ev_done(ev *e, const ev_cell *c, kn_scalar *tmp) {
    if (tmp) kn_free(e->alloc, tmp, ev_bytes(c, sizeof *tmp));
}

static bool ev_copy_values(ev *e, ev_cell *c, ev_cell *s) {
    if (c->numel != s->numel) return ev_bad(e, c, KN_ERR_SHAPE, "as many elements as the source has are needed");
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *x = kn_ev_values(e, s, &one, &tmp);
    bool             ok = x && kn_ev_room(e, c);
    if (ok) memcpy(c->val, x, (size_t)c->numel * sizeof *x);
    ev_done(e, s, tmp);
    return ok;
}

static bool ev_param(ev *e, ev_cell *c) {
    int64_t slot = kg_field(e->g, c->id, KN_F_PARAM_slot);
    if (slot < 0 || slot >= e->nslots || (!e->slots[slot].data && c->numel))
        return kn_fail(e->fault, KN_ERR_ARG, "PARAM {slot=%lld}: nothing is bound to this slot, %d are",
                       (long long)slot, e->nslots);
    const kn_array *a = &e->slots[slot];
    bool index        = (a->dtype == KN_I64 && c->dtype == KN_INDEX) || (a->dtype == KN_INDEX && c->dtype == KN_I64);
    if (a->dtype != c->dtype && !index)
        return kn_fail(e->fault, KN_ERR_DTYPE, "PARAM {slot=%lld}: is %s, its slot holds %s", (long long)slot,
                       kn_dtypes[c->dtype].name, kn_dtypes[a->dtype].name);
    if (!c->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape");
    if (a->size < c->numel)
        return kn_fail(e->fault, KN_ERR_SHAPE, "PARAM {slot=%lld}: has %lld elements, its slot holds %lld",
                       (long long)slot, (long long)c->numel, (long long)a->size);
    if (!c->store && !(c->store = kn_arena_get(&e->arena, sizeof *c->store))) return kn_oom(e->fault);
    *c->store = (ev_store){.data = a->data, .bytes = c->numel * kn_dsize(c->dtype)};
    if (kg_rank(e->g, c->id) == 0 && kg_field(e->g, c->id, KN_F_PARAM_name)) { /* a variable */
        kn_scalar v = kn_load_scalar(a->data, c->dtype);
        if (v.i < kg_field(e->g, c->id, KN_F_PARAM_min) || v.i > kg_field(e->g, c->id, KN_F_PARAM_max))
            return kn_fail(e->fault, KN_ERR_ARG, "PARAM %s: %lld is out of its bounds",
                           kg_str(e->g, (uint32_t)kg_field(e->g, c->id, KN_F_PARAM_name), NULL), (long long)v.i);
    }
    return true;
}

/* Storage of its own, by slot: GLOBAL shared by the whole run, LOCAL by the group, REG of the thread. */
static bool ev_buffer(ev *e, ev_cell *c) {
    int64_t slot = kg_field(e->g, c->id, KN_F_BUFFER_slot), bytes;
    int     space = (int)kg_field(e->g, c->id, KN_F_BUFFER_space);
    bool    global = space == KN_GLOBAL;
    if (c->store) return true;
    if (!c->fixed || !kn_mul_ok(c->numel, kn_dsize(c->dtype), &bytes))
        return ev_bad(e, c, KN_ERR_SHAPE, "size out of range");
    ev_store **list = global ? &e->shared->globals : space == KN_LOCAL ? e->local : &e->temps, *s = *list;
    while (s && (s->slot != slot || s->space != space)) s = s->next;
    if (!s) {
        s = global ? kn_realloc(e->alloc, NULL, 0, sizeof *s) : kn_arena_get(&e->arena, sizeof *s);
        if (!s) return kn_oom(e->fault);
        *s    = (ev_store){.slot = slot, .space = space, .next = *list};
        *list = s;
    }
    if (s->bytes < bytes) {
        char *data = kn_realloc(e->alloc, s->data, (size_t)s->bytes, (size_t)bytes);
        if (!data) return kn_oom(e->fault);
        memset(data + s->bytes, 0xA5, (size_t)(bytes - s->bytes));
        s->data  = data;
        s->bytes = bytes;
    }
    c->store = s;
    return true;
}

/* ---- movement ------------------------------------------------------------------------------------------------ */

/* A walk over dims[rank] in row-major order; at each element, the sums of index * stride. */
typedef struct ev_walk {
    int     rank, n;
    int64_t dims[KN_MAX_RANK], idx[KN_MAX_RANK];
    int64_t stride[3][KN_MAX_RANK], at[3];
} ev_walk;

static void ev_walk_init(ev_walk *w, const int64_t *dims, int rank, int n) {
    memset(w, 0, sizeof *w);
    w->rank = rank;
    w->n    = n;
    memcpy(w->dims, dims, (size_t)rank * sizeof *dims);
}

static inline void ev_walk_next(ev_walk *w) {
    for (int d = w->rank - 1; d >= 0; d--) {
        bool more = ++w->idx[d] < w->dims[d];
        for (int k = 0; k < w->n; k++) w->at[k] += more ? w->stride[k][d] : -w->stride[k][d] * (w->dims[d] - 1);
        if (more) return;
        w->idx[d] = 0;
    }
}

/* Strides with which an operand of shape dims broadcasts over the walk. */
static void ev_walk_broadcast(ev_walk *w, int k, const int64_t *dims, int rank) {
    int64_t s = 1;
    for (int d = rank - 1; d >= 0; d--) {
        w->stride[k][w->rank - rank + d] = dims[d] == 1 ? 0 : s;
        s *= dims[d];
    }
}

/* The walk of a movement op: at[0] is the source's element, where in_box says there is one. */
static bool ev_movement(ev *e, ev_cell *c, ev_walk *w, int64_t *lo, int64_t *hi) {
    int            rank, srank;
    const int64_t *dims = ev_dims(e, c, &rank), *sd = ev_dims(e, ev_src(e, c, 0), &srank), *word = NULL;
    int64_t        stride[KN_MAX_RANK], s = 1;
    ev_walk_init(w, dims, rank, 1);
    for (int d = srank - 1; d >= 0; d--) {
        stride[d] = s;
        s *= sd[d];
    }
    if (c->op == KN_OP_PERMUTE || c->op == KN_OP_FLIP) word = kg_words(e->g, c->id, NULL);
    for (int d = 0; d < rank; d++) {
        lo[d] = 0;
        hi[d] = dims[d];
        switch (c->op) {
        case KN_OP_PERMUTE: w->stride[0][d] = stride[word[d]]; break;
        case KN_OP_EXPAND: w->stride[0][d] = sd[d] == 1 ? 0 : stride[d]; break;
        case KN_OP_FLIP:
            w->stride[0][d] = word[d] ? -stride[d] : stride[d];
            if (word[d]) w->at[0] += stride[d] * (sd[d] - 1);
            break;
        default: w->stride[0][d] = stride[d]; break;
        }
    }
    if (c->op != KN_OP_PAD && c->op != KN_OP_SHRINK) return true;
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *off = kn_ev_values(e, ev_src(e, c, 1), &one, &tmp);
    bool             ok = off != NULL;
    for (int d = 0; ok && d < rank; d++) {
        int64_t o = off[d].i, end;
        bool    pad = c->op == KN_OP_PAD;
        if (o < 0 || !kn_add_ok(o, pad ? sd[d] : dims[d], &end) || end > (pad ? dims[d] : sd[d]))
            ok = ev_bad(e, c, KN_ERR_ARG, "reaches beyond the end");
        if (pad) {
            w->at[0] -= o * stride[d];
            lo[d] = o;
            hi[d] = o + sd[d];
        } else {
            w->at[0] += o * stride[d];
        }
    }
    ev_done(e, ev_src(e, c, 1), tmp);
    return ok;
}

static bool ev_move(ev *e, ev_cell *c) {
    ev_cell *s = ev_src(e, c, 0);
    ev_walk  w;
    int64_t  lo[KN_MAX_RANK], hi[KN_MAX_RANK];
    if (c->op == KN_OP_RESHAPE || c->op == KN_OP_AFTER || c->op == KN_OP_DETACH || c->op == KN_OP_CONTIGUOUS_BACKWARD)
        return c->kind == EV_PLACE ? ev_same_place(e, c, s) : ev_copy_values(e, c, s);
    if (!c->fixed || !s->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape");
    if (!ev_movement(e, c, &w, lo, hi)) return false;
    if (c->kind == EV_PLACE) {
        if (!ev_offsets(e, c)) return false;
        c->store = s->store;
        for (int64_t i = 0; i < c->numel; i++, ev_walk_next(&w)) c->off[i] = ev_address(s, w.at[0]);
        return true;
    }
    kn_scalar        one, zero = {0}, *tmp = NULL;
    const kn_scalar *x = kn_ev_values(e, s, &one, &tmp);
    bool             ok = x && kn_ev_room(e, c);
    if (kn_is_float(c->dtype)) zero.f = 0;
    for (int64_t i = 0; ok && i < c->numel; i++, ev_walk_next(&w)) {
        bool in = true;
        for (int d = 0; c->op == KN_OP_PAD && d < w.rank; d++) in = in && w.idx[d] >= lo[d] && w.idx[d] < hi[d];
        c->val[i] = in ? x[w.at[0]] : zero;
    }
    ev_done(e, s, tmp);
    return ok;
}

/* The first of copies along axes that collapse; the others must have the same bits. */
static bool ev_replicated(ev *e, ev_cell *c) {
    ev_cell         *s = ev_src(e, c, 0);
    int              rank;
    const int64_t   *dims = ev_dims(e, s, &rank);
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *x = NULL;
    ev_walk          w;
    bool             ok = s->fixed && kn_ev_room(e, c) && (x = kn_ev_values(e, s, &one, &tmp)) != NULL;
    if (!s->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape");
    ev_walk_init(&w, dims, rank, 1);
    ev_walk_broadcast(&w, 0, kg_shape(e->g, c->id, NULL), rank);
    if (ok && c->numel > s->numel) ok = ev_bad(e, c, KN_ERR_SHAPE, "there is no copy");
    for (int64_t i = 0; ok && i < s->numel; i++, ev_walk_next(&w)) {
        bool first = true;
        for (int d = 0; d < rank; d++) first = first && (w.idx[d] == 0 || w.stride[0][d]);
        if (first) c->val[w.at[0]] = x[i];
        else if (c->val[w.at[0]].i != x[i].i) ok = ev_bad(e, c, KN_ERR_ARG, "the copies differ");
    }
    ev_done(e, s, tmp);
    return ok;
}

static bool ev_index_scalar(ev *e, ev_cell *c, ev_cell *s) { /* every index a scalar: one run of the source */
    int            rank;
    const int64_t *dims = ev_dims(e, s, &rank);
    int64_t        at = 0;
    bool           in = true;
    for (uint32_t k = 1; k < c->nsrc; k++) {
        kn_scalar        one, *tmp = NULL;
        const kn_scalar *x = kn_ev_values(e, ev_src(e, c, k), &one, &tmp);
        if (!x) return false;
        in = in && x->i >= 0 && x->i < dims[k - 1];
        at = in ? at * dims[k - 1] + x->i : 0;
    }
    for (int d = (int)c->nsrc - 1; d < rank; d++) at *= dims[d];
    if (c->kind == EV_PLACE && !s->off) {
        c->store = s->store;
        c->base  = in ? ev_address(s, at) : EV_NOWHERE;
        return true;
    }
    if (c->kind == EV_PLACE) {
        if (!ev_offsets(e, c)) return false;
        c->store = s->store;
        for (int64_t i = 0; i < c->numel; i++) c->off[i] = in ? s->off[at + i] : EV_NOWHERE;
        return true;
    }
    if (!in) return ev_bad(e, c, KN_ERR_ARG, "out of bounds");
    if (!kn_ev_room(e, c)) return false;
    memcpy(c->val, s->val + at, (size_t)c->numel * sizeof *c->val);
    return true;
}

static bool ev_index_bytes(ev *e, ev_cell *c, ev_cell *s) {
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *x = c->nsrc == 2 ? kn_ev_values(e, ev_src(e, c, 1), &one, &tmp) : NULL;
    int64_t          item = kn_dsize(c->dtype);
    bool             ok = x && s->kind == EV_PLACE && kg_rank(e->g, s->id) == 1;
    if (!ok) ev_bad(e, c, KN_ERR_ARG, "an offset in bytes goes alone, into a flat buffer");
    else ok = c->numel == 1 || ev_offsets(e, c);
    for (int64_t i = 0; ok && i < c->numel; i++) {
        bool    in = x[i].i >= 0 && x[i].i % item == 0 && x[i].i / item < s->numel;
        int64_t at = in ? ev_address(s, x[i].i / item) : EV_NOWHERE;
        if (c->off) c->off[i] = at;
        else c->base = at;
    }
    c->store = s->store;
    if (x) ev_done(e, ev_src(e, c, 1), tmp);
    return ok;
}

static bool ev_index(ev *e, ev_cell *c) {
    ev_cell *s = ev_src(e, c, 0);
    if (!s->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape");
    if (kg_node(e->g, c->id)->arg) return ev_index_bytes(e, c, s);
    bool scalars = true;
    for (uint32_t k = 1; k < c->nsrc; k++) scalars = scalars && kg_rank(e->g, ev_src(e, c, k)->id) == 0;
    if (scalars) return ev_index_scalar(e, c, s);

    /* each index is an axis of the walk, and what is left of the source another */
    int              rank, n = (int)c->nsrc - 1;
    const int64_t   *dims = ev_dims(e, s, &rank);
    const kn_scalar *x[KN_MAX_RANK] = {0};
    kn_scalar        one[KN_MAX_RANK], *tmp[KN_MAX_RANK] = {0};
    int64_t          walk[KN_MAX_RANK + 1], stride[KN_MAX_RANK], rest = 1;
    bool             ok = c->kind == EV_PLACE ? ev_offsets(e, c) : kn_ev_room(e, c);
    for (int d = n; d < rank; d++) rest *= dims[d];
    int64_t t = rest;
    for (int d = n - 1; d >= 0; d--) {
        stride[d] = t;
        t *= dims[d];
    }
    for (int k = 0; k < n && ok; k++) {
        ev_cell *ix = ev_src(e, c, (uint32_t)k + 1);
        ok          = (x[k] = kn_ev_values(e, ix, &one[k], &tmp[k])) != NULL;
        walk[k]     = ix->numel;
    }
    int64_t idx[KN_MAX_RANK] = {0};
    for (int64_t i = 0; ok && i < c->numel; i += rest) {
        int64_t at = 0;
        bool    in = true;
        for (int k = 0; k < n; k++) {
            int64_t v = x[k][idx[k]].i;
            in        = in && v >= 0 && v < dims[k];
            at += in ? v * stride[k] : 0;
        }
        if (c->kind == EV_PLACE)
            for (int64_t j = 0; j < rest; j++) c->off[i + j] = in ? ev_address(s, at + j) : EV_NOWHERE;
        else if (in) memcpy(c->val + i, s->val + at, (size_t)rest * sizeof *c->val);
        else ok = ev_bad(e, c, KN_ERR_ARG, "out of bounds");
        for (int k = n - 1; k >= 0; k--) {
            if (++idx[k] < walk[k]) break;
            idx[k] = 0;
        }
    }
    c->store = s->store;
    for (int k = 0; k < n; k++) ev_done(e, ev_src(e, c, (uint32_t)k + 1), tmp[k]);
    return ok;
}

static bool ev_stack(ev *e, ev_cell *c) {
    int64_t at = 0;
    if (!(c->kind == EV_PLACE ? ev_offsets(e, c) : kn_ev_room(e, c))) return false;
    for (uint32_t k = 0; k < c->nsrc; k++) {
        ev_cell *s = ev_src(e, c, k);
        if (c->kind == EV_PLACE) {
            c->store = s->store;
            for (int64_t i = 0; i < s->numel; i++) c->off[at + i] = ev_address(s, i);
        } else {
            kn_scalar        one, *tmp = NULL;
            const kn_scalar *x = kn_ev_values(e, s, &one, &tmp);
            if (x) memcpy(c->val + at, x, (size_t)s->numel * sizeof *x);
            ev_done(e, s, tmp);
            if (!x) return false;
        }
        at += s->numel;
    }
    return true;
}

/* Items of the source's bytes seen as another dtype, from element `first` of the source on. */
static bool ev_reinterpret(ev *e, ev_cell *c, int64_t first) {
    ev_cell *s = ev_src(e, c, 0);
    int64_t  from = kn_dsize(s->dtype), to = kn_dsize(c->dtype), k = KN_MAX(from, to) / KN_MIN(from, to);
    if (!c->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape");
    if (first < 0 || first > s->numel || c->numel * to > (s->numel - first) * from)
        return ev_bad(e, c, KN_ERR_ARG, "reaches beyond the end");
    if (c->kind == EV_PLACE) {
        c->store = s->store;
        if (!s->off) {
            c->base = s->base < 0 ? EV_NOWHERE : s->base + first * from;
            return true;
        }
        if (!ev_offsets(e, c)) return false;
        for (int64_t i = 0; i < c->numel; i++) {
            if (from >= to) {
                c->off[i] = s->off[first + i / k] < 0 ? EV_NOWHERE : s->off[first + i / k] + i % k * to;
                continue;
            }
            c->off[i] = s->off[first + i * k];
            for (int64_t j = 1; j < k; j++)
                if (s->off[first + i * k + j] != c->off[i] + j * from)
                    return ev_bad(e, c, KN_ERR_UNSUPPORTED, "the items are not next to each other");
        }
        return true;
    }
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *x = kn_ev_values(e, s, &one, &tmp);
    size_t           bytes = (size_t)KN_MAX(s->numel * from, 1);
    char            *raw = x ? kn_zalloc(e->alloc, bytes) : NULL;
    bool             ok = raw && kn_ev_room(e, c);
    if (x && !raw) kn_oom(e->fault);
    for (int64_t i = 0; ok && i < s->numel; i++) kn_store_scalar(raw + i * from, s->dtype, x[i]);
    for (int64_t i = 0; ok && i < c->numel; i++) c->val[i] = kn_load_scalar(raw + first * from + i * to, c->dtype);
    kn_free(e->alloc, raw, bytes);
    ev_done(e, s, tmp);
    return ok;
}

static bool ev_slice(ev *e, ev_cell *c) {
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *x = kn_ev_values(e, ev_src(e, c, 1), &one, &tmp);
    bool             ok = x && ev_src(e, c, 1)->numel == 1;
    if (x && !ok) ev_bad(e, c, KN_ERR_ARG, "the offset must be a scalar");
    return ok && ev_reinterpret(e, c, x->i);
}

/* ---- values -------------------------------------------------------------------------------------------------- */

static bool ev_overflows(const ev *e, const ev_cell *c) {
    int64_t a = c->nsrc > 0 ? ev_src(e, c, 0)->one.i : 0, b = c->nsrc > 1 ? ev_src(e, c, 1)->one.i : 0, r;
    switch (c->op) {
    case KN_OP_ADD: return __builtin_add_overflow(a, b, &r);
    case KN_OP_SUB: return __builtin_sub_overflow(a, b, &r);
    case KN_OP_NEG: return __builtin_sub_overflow(0, a, &r);
    case KN_OP_MUL: return __builtin_mul_overflow(a, b, &r);
    default: return false;
    }
}

bool kn_ev_check(ev *e, const ev_cell *c) {
    int64_t lo = kg_min(e->g, c->id), hi = kg_max(e->g, c->id);
    if (c->kind != EV_VALUE || kn_is_float(c->dtype)) return true;
    for (int64_t i = 0; i < c->numel; i++) {
        int64_t v = c->val[i].i;
        bool    beyond = c->dtype == KN_U64 && v < 0; /* of int64: bounds say nothing about it unless they end below */
        if (beyond ? hi != INT64_MAX : v < lo || v > hi)
            return kn_fail(e->fault, KN_ERR_INTERNAL, "%s %%%u: is %lld, its bounds are %lld and %lld",
                           kn_ops[c->op].name, c->id, (long long)v, (long long)lo, (long long)hi);
    }
    if (c->scalar && c->dtype == KN_INDEX && ev_overflows(e, c))
        return ev_bad(e, c, KN_ERR_INTERNAL, "arithmetic of dtype index overflows");
    return true;
}

static bool ev_elementwise(ev *e, ev_cell *c) {
    const kn_scalar *x[3] = {0};
    kn_scalar        one[3], *tmp[3] = {0}, s[3];
    int              dt[3] = {0}, rank, n = (int)c->nsrc;
    const int64_t   *dims = ev_dims(e, c, &rank);
    ev_walk          w;
    bool             ok = kn_ev_room(e, c);
    ev_walk_init(&w, dims, rank, n);
    for (int k = 0; k < n && ok; k++) {
        ev_cell *a = ev_src(e, c, (uint32_t)k);
        int      r;
        const int64_t *d = ev_dims(e, a, &r);
        ev_walk_broadcast(&w, k, d, r);
        dt[k] = a->dtype;
        ok    = (x[k] = kn_ev_values(e, a, &one[k], &tmp[k])) != NULL;
    }
    for (int64_t i = 0; ok && i < c->numel; i++, ev_walk_next(&w)) {
        for (int k = 0; k < n; k++) s[k] = x[k][w.at[k]];
        if (!kn_alu(c->op, c->dtype, dt, s, &c->val[i])) ok = ev_bad(e, c, KN_ERR_DTYPE, "not defined for this dtype");
    }
    for (int k = 0; k < n; k++) ev_done(e, ev_src(e, c, (uint32_t)k), tmp[k]);
    return ok;
}

bool kn_ev_reduce(ev *e, ev_cell *c, const kn_scalar *x) {
    ev_cell       *a = ev_src(e, c, 0);
    int            rank, count, op = (int)kg_field(e->g, c->id, KN_F_REDUCE_op), dt[2] = {c->dtype, c->dtype};
    const int64_t *dims = ev_dims(e, a, &rank), *word = kg_words(e->g, c->id, &count);
    ev_walk        w;
    int64_t        s = 1;
    ev_walk_init(&w, dims, rank, 1);
    for (int d = rank - 1; d >= 0; d--) {
        bool gone = false;
        for (int k = KN_REDUCE_WORDS; k < count; k++) gone = gone || word[k] == d;
        w.stride[0][d] = gone ? 0 : s;
        s *= gone ? 1 : dims[d];
    }
    for (int64_t i = 0; i < a->numel; i++, ev_walk_next(&w)) {
        kn_scalar in[2] = {c->val[w.at[0]], x[i]};
        if (!kn_alu(op, c->dtype, dt, in, &c->val[w.at[0]]))
            return ev_bad(e, c, KN_ERR_DTYPE, "not defined for this dtype");
    }
    return true;
}

static bool ev_reduce_axes(ev *e, ev_cell *c) {
    ev_cell *a = ev_src(e, c, 0);
    if (!a->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape");
    kn_scalar        one, *tmp = NULL, id = kn_identity((int)kg_field(e->g, c->id, KN_F_REDUCE_op), c->dtype);
    const kn_scalar *x = kn_ev_values(e, a, &one, &tmp);
    bool             ok = x && kn_ev_room(e, c);
    for (int64_t i = 0; ok && i < c->numel; i++) c->val[i] = id;
    ok = ok && kn_ev_reduce(e, c, x);
    ev_done(e, a, tmp);
    return ok;
}

/* The shards lie one after the other along the sharded axis. */
static bool ev_allreduce(ev *e, ev_cell *c) {
    ev_cell       *a = ev_src(e, c, 0);
    int            axis = kg_axis(e->g, a->id), rank, op = (int)kg_field(e->g, c->id, KN_F_ALLREDUCE_op);
    const int64_t *dims = ev_dims(e, c, &rank);
    int64_t        inner = 1, n = kg_device_count(e->g, (uint32_t)kg_field(e->g, c->id, KN_F_ALLREDUCE_devices));
    kn_scalar      one, *tmp = NULL, id = kn_identity(op, c->dtype);
    int            dt[2] = {c->dtype, c->dtype};
    if (n == 1) return ev_copy_values(e, c, a);
    for (int d = axis; d < rank; d++) inner *= dims[d];
    const kn_scalar *x = kn_ev_values(e, a, &one, &tmp);
    bool             ok = x && kn_ev_room(e, c);
    for (int64_t i = 0; ok && i < c->numel; i++) {
        c->val[i] = id;
        for (int64_t k = 0; ok && k < n; k++) {
            kn_scalar in[2] = {c->val[i], x[(i / inner * n + k) * inner + i % inner]};
            if (!kn_alu(op, c->dtype, dt, in, &c->val[i]))
                ok = ev_bad(e, c, KN_ERR_DTYPE, "not defined for this dtype");
        }
    }
    ev_done(e, a, tmp);
    return ok;
}

static bool ev_load(ev *e, ev_cell *c) {
    ev_cell *b = ev_src(e, c, 0);
    if (c->nsrc == 1) {
        if (b->kind != EV_PLACE || c->numel != 1) return ev_copy_values(e, c, b);
        const char *p = ev_at(e, b, 0, c);
        if (p) c->one = kn_load_scalar(p, c->dtype);
        return p != NULL;
    }
    const kn_scalar *alt, *gate;
    kn_scalar        one[2], *tmp[2] = {0};
    ev_walk          w;
    int              rank, r;
    const int64_t   *dims = ev_dims(e, c, &rank);
    ev_walk_init(&w, dims, rank, 3);
    for (int k = 0; k < 3; k++) {
        const int64_t *d = ev_dims(e, ev_src(e, c, (uint32_t)k), &r);
        ev_walk_broadcast(&w, k, d, r);
    }
    alt  = kn_ev_values(e, ev_src(e, c, 1), &one[0], &tmp[0]);
    gate = alt ? kn_ev_values(e, ev_src(e, c, 2), &one[1], &tmp[1]) : NULL;
    bool ok = gate && kn_ev_room(e, c);
    for (int64_t i = 0; ok && i < c->numel; i++, ev_walk_next(&w)) {
        c->val[i] = alt[w.at[1]];
        if (!gate[w.at[2]].i) continue;
        if (b->kind == EV_PLACE) {
            const char *p = ev_at(e, b, w.at[0], c);
            if (p) c->val[i] = kn_load_scalar(p, c->dtype);
            ok = p != NULL;
        } else {
            c->val[i] = b->val[w.at[0]];
        }
    }
    ev_done(e, ev_src(e, c, 1), tmp[0]);
    ev_done(e, ev_src(e, c, 2), tmp[1]);
    return ok;
}

static bool ev_store_op(ev *e, ev_cell *c) {
    ev_cell *t = ev_src(e, c, 0), *v = ev_src(e, c, 1), *g = c->nsrc > 2 ? ev_src(e, c, 2) : NULL;
    if (t->kind != EV_PLACE) return ev_bad(e, c, KN_ERR_ARG, "the target is not a view of a buffer");
    if (!t->fixed || !v->fixed) return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a symbolic shape");
    ev_cell *part[3] = {t, v, g};
    ev_walk  w;
    int      rank, most = 0;
    int64_t  dims[KN_MAX_RANK];
    for (int i = 0; i < KN_MAX_RANK; i++) dims[i] = 1;
    for (int k = 0; k < 3 && part[k]; k++) { /* the broadcast shape, right-aligned; its size is the target's */
        const int64_t *d = ev_dims(e, part[k], &rank);
        most             = KN_MAX(most, rank);
        for (int i = 0; i < rank; i++)
            if (d[i] != 1) dims[KN_MAX_RANK - rank + i] = d[i];
    }
    ev_walk_init(&w, dims + KN_MAX_RANK - most, most, 3);
    for (int k = 0; k < 3 && part[k]; k++) {
        const int64_t *d = ev_dims(e, part[k], &rank);
        ev_walk_broadcast(&w, k, d, rank);
    }
    kn_scalar        one[2], *tmp[2] = {0};
    const kn_scalar *x = kn_ev_values(e, v, &one[0], &tmp[0]), *gate = NULL;
    bool             ok = x && (!g || (gate = kn_ev_values(e, g, &one[1], &tmp[1])) != NULL);
    for (int64_t i = 0; ok && i < t->numel; i++, ev_walk_next(&w)) {
        if (gate && !gate[w.at[2]].i) continue;
        char *p = ev_at(e, t, w.at[0], c);
        if (!(ok = p != NULL)) break;
        kn_scalar s = x[w.at[1]];
        if (c->op == KN_OP_ATOMIC_ADD) {
            kn_scalar in[2] = {kn_load_scalar(p, t->dtype), s};
            int       dt[2] = {t->dtype, t->dtype};
            if (!kn_alu(KN_OP_ADD, t->dtype, dt, in, &s)) ok = ev_bad(e, c, KN_ERR_DTYPE, "not defined for this dtype");
        }
        kn_store_scalar(p, t->dtype, s);
    }
    ev_done(e, v, tmp[0]);
    if (g) ev_done(e, g, tmp[1]);
    return ok;
}

static bool ev_iota(ev *e, ev_cell *c) {
    const int64_t *w = kg_words(e->g, c->id, NULL);
    if (w[KN_F_RANGE_rank] == 0) return ev_bad(e, c, KN_ERR_ARG, "used outside its loop");
    if (!kn_ev_room(e, c)) return false;
    for (int64_t i = 0; i < c->numel; i++) c->val[i].i = i;
    return true;
}

static bool ev_bytes_op(ev *e, ev_cell *c) {
    size_t      len;
    const char *s = kg_str(e->g, (uint32_t)kg_node(e->g, c->id)->arg, &len);
    if (!kn_ev_room(e, c)) return false;
    for (int64_t i = 0; i < c->numel; i++) c->val[i].i = (uint8_t)s[i];
    return true;
}

/* ---- calls --------------------------------------------------------------------------------------------------- */

bool kn_ev_export(ev *e, ev_cell *c, kn_value *out) {
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *x = kn_ev_values(e, c, &one, &tmp);
    if (!x) return false;
    int            rank, item = kn_dsize(c->dtype);
    const int64_t *dims = ev_dims(e, c, &rank);
    *out = (kn_value){.numel = c->numel, .dtype = c->dtype, .rank = rank};
    memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
    out->data = kn_realloc(e->alloc, NULL, 0, ev_bytes(c, (size_t)item));
    for (int64_t i = 0; out->data && i < c->numel; i++) kn_store_scalar((char *)out->data + i * item, c->dtype, x[i]);
    ev_done(e, c, tmp);
    return out->data || kn_oom(e->fault);
}

/* An argument: storage itself where it is one run of a buffer, so that the body may write to it, else a copy. */
static bool ev_argument(ev *e, const ev_cell *c, ev_cell *a, kn_array *out, kn_value *copy) {
    int64_t item = kn_dsize(a->dtype);
    if (a->kind == EV_PLACE && !a->off) {
        if (a->base < 0 || !a->fixed || a->numel * item > a->store->bytes - a->base)
            return ev_bad(e, c, KN_ERR_ARG, "an argument reaches beyond the end of its buffer");
        *out = (kn_array){a->store->data + a->base, a->numel, a->dtype};
        return true;
    }
    if (a->kind == EV_PLACE && c->op == KN_OP_CALL && !kg_is_kept(e->g, c->id))
        return ev_bad(e, c, KN_ERR_UNSUPPORTED, "an argument is not one run of a buffer");
    if (!kn_ev_export(e, a, copy)) return false;
    *out = (kn_array){copy->data, copy->numel, copy->dtype};
    return true;
}

static bool ev_call(ev *e, ev_cell *c) {
    kn_ref body = kg_at(e->g, c->id, 0);
    int    n = (int)c->nsrc - 1, count = kg_op(e->g, body) == KN_OP_TUPLE ? (int)kg_nsrc(e->g, body) : 0;
    if (kg_op(e->g, body) == KN_OP_CUSTOM_FUNCTION) return kn_ev_custom(e, c);
    if (kg_op(e->g, body) == KN_OP_PROGRAM &&
        (!kg_nsrc(e->g, body) || kg_op(e->g, kg_at(e->g, body, 0)) != KN_OP_LINEAR))
        return ev_bad(e, c, KN_ERR_UNSUPPORTED, "a PROGRAM without its LINEAR");
    for (int k = 0; k < c->ntuple; k++) kn_value_free(e->alloc, &c->tuple[k]);
    if (!c->tuple && !(c->tuple = kn_arena_get(&e->arena, ((size_t)count + 1) * sizeof *c->tuple)))
        return kn_oom(e->fault);
    c->ntuple = 0;
    size_t    size = (size_t)n + 1;
    kn_array *arg = kn_zalloc(e->alloc, size * sizeof *arg);
    kn_value *copy = kn_zalloc(e->alloc, size * sizeof *copy);
    bool      ok = (arg && copy) || kn_oom(e->fault);
    for (int k = 0; k < n && ok; k++) ok = ev_argument(e, c, ev_src(e, c, (uint32_t)k + 1), &arg[k], &copy[k]);
    ok = ok && kn_ev_run(e->shared, e->g, body, arg, n, c->tuple, &count, e->fault);
    if (ok) c->ntuple = count;
    for (int k = 0; copy && k < n; k++) kn_value_free(e->alloc, &copy[k]);
    kn_free(e->alloc, copy, size * sizeof *copy);
    kn_free(e->alloc, arg, size * sizeof *arg);
    return ok;
}

static bool ev_gettuple(ev *e, ev_cell *c) {
    ev_cell *t = ev_src(e, c, 0);
    uint32_t k = (uint32_t)kg_node(e->g, c->id)->arg;
    if (t->op == KN_OP_TUPLE) {
        ev_cell *s = ev_src(e, t, k);
        return c->kind == EV_PLACE ? ev_same_place(e, c, s) : ev_copy_values(e, c, s);
    }
    if (t->op == KN_OP_REDUCE) return kn_ev_fold_result(e, c, t);
    if ((int)k >= t->ntuple) return ev_bad(e, c, KN_ERR_ARG, "the call gives no such element");
    const kn_value *v = &t->tuple[k];
    if (!kn_ev_room(e, c)) return false;
    for (int64_t i = 0; i < c->numel; i++)
        c->val[i] = kn_load_scalar((char *)v->data + i * kn_dsize(v->dtype), v->dtype);
    return true;
}

static bool ev_bind(ev *e, ev_cell *c) {
    kn_ref var = kg_at(e->g, c->id, 0);
    if (!ev_copy_values(e, c, ev_src(e, c, 1))) return false;
    if (kg_op(e->g, var) != KN_OP_PARAM || kn_is_float(c->dtype)) return true;
    if (c->val->i < kg_field(e->g, var, KN_F_PARAM_min) || c->val->i > kg_field(e->g, var, KN_F_PARAM_max))
        return kn_fail(e->fault, KN_ERR_ARG, "BIND: %lld is out of the variable's bounds", (long long)c->val->i);
    return true;
}

bool kn_ev_compute(ev *e, ev_cell *c) {
    if (kn_is_alu(c->op)) return ev_elementwise(e, c);
    switch (c->op) {
    case KN_OP_PARAM: return ev_param(e, c);
    case KN_OP_BUFFER: return ev_buffer(e, c);
    case KN_OP_BINARY: return ev_bytes_op(e, c);
    case KN_OP_CONST:
    case KN_OP_SPECIAL:
    case KN_OP_TUPLE:
    case KN_OP_GROUP:
    case KN_OP_SINK:
    case KN_OP_BARRIER: /* of one thread, or of a group that has come together */
    case KN_OP_PREFETCH:
    case KN_OP_END: return true; /* an END without ranges */
    case KN_OP_AFTER:
        if (c->kind == EV_EFFECT) return true;
        return ev_move(e, c);
    case KN_OP_PERMUTE: case KN_OP_FLIP: case KN_OP_RESHAPE: case KN_OP_EXPAND: case KN_OP_PAD: case KN_OP_SHRINK:
    case KN_OP_DETACH: case KN_OP_CONTIGUOUS_BACKWARD: return ev_move(e, c);
    case KN_OP_REPLICATED: return ev_replicated(e, c);
    case KN_OP_ALLREDUCE: return ev_allreduce(e, c);
    case KN_OP_INDEX: return ev_index(e, c);
    case KN_OP_STACK: return ev_stack(e, c);
    case KN_OP_BITCAST: return ev_reinterpret(e, c, 0);
    case KN_OP_SLICE: return ev_slice(e, c);
    case KN_OP_REDUCE:
        return c->dtype == KN_VOID ? kn_ev_fold_begin(e, c) && kn_ev_fold_take(e, c) : ev_reduce_axes(e, c);
    case KN_OP_LOAD: return ev_load(e, c);
    case KN_OP_STORE: case KN_OP_ATOMIC_ADD: return ev_store_op(e, c);
    case KN_OP_RANGE: return ev_iota(e, c);
    case KN_OP_FUNCTION: case KN_OP_CALL: return c->folded || ev_call(e, c);
    case KN_OP_GETTUPLE: return ev_gettuple(e, c);
    case KN_OP_BIND: return ev_bind(e, c);
    case KN_OP_WMMA: return kn_ev_wmma(&e, 1, (uint32_t)(c - e->cell));
    case KN_OP_BUFFERIZE: return ev_copy_values(e, c, ev_src(e, c, 0));
    case KN_OP_HOLE: return ev_bad(e, c, KN_ERR_ARG, "something was left out of this program, so it cannot run");
    default: return ev_bad(e, c, KN_ERR_UNSUPPORTED, "the interpreter does not run this op");
    }
}
