/* expand.c - stage 4: parallel ranges become shape, reductions become accumulators.
 *
 * Takes: a kernel whose UPCAST, GROUP_REDUCE and UNROLL ranges name their shape axis. Gives: values with shapes: such a
 *   range is one leaf, 0..n-1 along its axis (an UNROLL range: a chain of its iterations, or a loop where it holds
 *   one); a REDUCE over loops is a BUFFER{REG} that is set, updated inside an END, and read after it, then reduced over
 *   its lanes.
 * Holds after: no REDUCE over ranges; ENDs close one RANGE each; only real loops are RANGEs of rank 0. */
#include "lower/lower.h"

#include "rules_gen.h"

#include <string.h>

enum { LANE_IDS = 16 };

/* The lanes of a sum that go with lanes of the loops around it, which are `keep`. */
typedef struct kl_joined {
    kn_ref  range;
    int64_t keep;
} kl_joined;

typedef struct kl_grow {
    kn_graph *g;
    kn_ref   *map, *order; /* order: the kernel's nodes before, ascending */
    uint32_t  count;
    int       rank; /* of every value that any expanded range reaches */
    int64_t   next_reg, next_id; /* a BUFFER of any space, a RANGE */
    kn_ref    lane[LANE_IDS]; /* leaves that were made */
    int       nlane;
    kl_joined joined[LANE_IDS];
    int       njoined;
} kl_grow;

static int type_of(const kn_graph *g, kn_ref range) { return (int)kg_field(g, range, KN_F_RANGE_type); }

/* A reduction on its way: of one value with an op, or of a fold's n with its combine. */
typedef struct kl_sum {
    kn_ref  reduce;  /* as it was */
    kn_ref  combine; /* of a fold, else 0 */
    int     n;
    kn_ref  x[KN_MAX_FOLD], identity[KN_MAX_FOLD];
    kn_ref  loop[KN_MAX_NEST], unroll[KN_MAX_NEST];
    int64_t lane[KN_MAX_NEST], width[KN_MAX_NEST]; /* shape axes and how long they are */
    int64_t keep; /* 0, or the lanes that are left of the one axis */
    int     nloop, nunroll, nlane;
} kl_sum;

static bool combine(kl_grow *e, const kl_sum *s, kn_ref *acc, const kn_ref *x) {
    if (s->combine) return kg_fold_apply(e->g, s->combine, s->n, acc, x, acc);
    return (acc[0] = kg_op2(e->g, (int)kg_field(e->g, s->reduce, KN_F_REDUCE_op), acc[0], x[0])) != 0;
}

/* The values at each iteration of the UNROLL ranges, one after the other onto acc; empty: acc holds none yet. */
static bool unrolled(kl_grow *e, const kl_sum *s, kn_ref *acc, bool empty) {
    int64_t count = 1;
    for (int i = 0; i < s->nunroll; i++) count *= kg_const_int(e->g, kg_at(e->g, s->unroll[i], 0));
    for (int64_t at = 0; at < count; at++) {
        kn_ref  to[KN_MAX_NEST], y[KN_MAX_FOLD];
        int64_t rest = at;
        for (int i = s->nunroll; i-- > 0;) {
            int64_t b = kg_const_int(e->g, kg_at(e->g, s->unroll[i], 0));
            to[i]     = kg_idx(e->g, rest % b);
            rest /= b;
        }
        for (int k = 0; k < s->n; k++) {
            y[k] = s->nunroll ? kg_substitute(e->g, s->x[k], s->unroll, to, s->nunroll) : s->x[k];
            if (!y[k]) return false;
        }
        if (empty && at == 0) memcpy(acc, y, (size_t)s->n * sizeof *acc);
        else if (!combine(e, s, acc, y)) return false;
    }
    return true;
}

/* Whether a loop runs inside x, or a stage is filled, that depends on the range: its copies would need loops,
 * accumulators and stages of their own. */
static bool holds_effect(kl_grow *e, kn_ref x, kn_ref range, bool *holds) {
    kn_ref  *order;
    uint32_t n;
    *holds = false;
    if (!kg_reach(e->g, &x, 1, &order, &n)) return kn_oom(kg_fault(e->g));
    for (uint32_t i = 0; i < n && !*holds; i++)
        *holds = (kg_op(e->g, order[i]) == KN_OP_END || kg_op(e->g, order[i]) == KN_OP_STORE) &&
                 kg_depends(e->g, order[i], range);
    kn_free(kg_alloc(e->g), order, n * sizeof *order);
    return true;
}

/* The same range as a loop. */
static kn_ref as_loop(kl_grow *e, kn_ref range) {
    int64_t w[KN_RANGE_WORDS] = {kg_field(e->g, range, KN_F_RANGE_id), KN_AXIS_REDUCE, 0, 0};
    kn_ref  bound             = kg_at(e->g, range, 0);
    return kg_make(e->g, KN_OP_RANGE, 0, kg_intern_words(e->g, w, KN_RANGE_WORDS), &bound, 1);
}

/* Awaits effects, which have loops of their own: a stage that was filled, a sum. */
static bool awaits_effect(const kn_graph *g, kn_ref n) {
    bool effect = false;
    for (uint32_t k = 1; kg_op(g, n) == KN_OP_AFTER && k < kg_nsrc(g, n); k++)
        effect |= kg_op(g, kg_at(g, n, k)) != KN_OP_RANGE;
    return effect;
}

static kn_ref keep_load(void *user, kn_graph *g, kn_ref was, kn_ref now) {
    const kn_ref *loop = user;
    kn_ref        at = kg_nsrc(g, now) ? kg_at(g, now, 0) : 0, src[3];
    (void)was;
    if (kg_op(g, now) != KN_OP_LOAD || kg_op(g, at) != KN_OP_INDEX || kg_depends(g, now, *loop)) return now;
    if (kg_in_bounds(g, at)) return now;
    memcpy(src, kg_src(g, now), kg_nsrc(g, now) * sizeof *src);
    src[0] = kg_index(g, kg_after(g, kg_at(g, at, 0), loop, 1), kg_src(g, at) + 1, (int)kg_nsrc(g, at) - 1);
    return kg_with_src(g, now, src, kg_nsrc(g, now));
}

/* x, with loads that could leave their buffer kept inside the loop: it may not run at all. What stands behind effects
 * is not the loop's, nor is what bounds are read from: they stay as they are. */
static kn_ref keep_inside(kl_grow *e, kn_ref x, kn_ref loop) {
    kn_graph *g = e->g;
    if (kg_min(g, kg_at(g, loop, 0)) > 0) return x;
    size_t   size = (size_t)x + 1;
    uint8_t *own  = kn_zalloc(kg_alloc(g), size);
    kn_ref  *stop = kn_zalloc(kg_alloc(g), size * sizeof *stop), r = 0;
    int      n    = 0;
    if (own && stop) {
        own[x] = 1;
        for (kn_ref k = x; k > 0; k--) {
            if (!own[k]) continue;
            if (awaits_effect(g, k) || kg_op(g, k) == KN_OP_RANGE) own[k] = 0, stop[n++] = k;
            for (uint32_t i = 0; own[k] && i < kg_nsrc(g, k); i++) own[kg_at(g, k, i)] = 1;
        }
        r = kg_edit_above(g, x, stop, n, keep_load, &loop);
    } else {
        kn_oom(kg_fault(g));
    }
    kn_free(kg_alloc(g), own, size);
    kn_free(kg_alloc(g), stop, size * sizeof *stop);
    return r;
}

/* ---- accumulators -------------------------------------------------------------------------------------------- */

static kn_ref in_shape(kl_grow *e, kn_ref reg, const kn_ref *deps, int n, const int64_t *shape, int rank) {
    return kg_reshape(e->g, kg_after(e->g, reg, deps, n), shape, rank);
}

/* The loops open in the values, and in the bounds of the loops, that s does not close itself: where its accumulators
 * are set anew. */
static int open_loops(kl_grow *e, const kl_sum *s, kn_ref *open, int cap) {
    int n = 0;
    for (int k = 0; k < s->n + s->nloop; k++) {
        kn_ref r[64];
        int    all = kg_ranges(e->g, k < s->n ? s->x[k] : s->loop[k - s->n], r, KN_COUNT(r));
        if (all > KN_COUNT(r)) return -1;
        for (int i = 0; i < all; i++) {
            bool known = false;
            for (int j = 0; j < s->nloop; j++) known |= r[i] == s->loop[j];
            for (int j = 0; j < s->nunroll; j++) known |= r[i] == s->unroll[j];
            for (int j = 0; j < n; j++) known |= r[i] == open[j];
            if (!known && n == cap) return -1;
            if (!known) open[n++] = r[i];
        }
    }
    return n;
}

/* out[k]: what the loops of s give, in registers that are set, updated in an END, and read after it. All old values
 * are read before a new one is written. */
static bool accumulate(kl_grow *e, const kl_sum *s, kn_ref *out) {
    kn_graph *g = e->g;
    kn_ref    open[64], reg[KN_MAX_FOLD], init[KN_MAX_FOLD], cur[KN_MAX_FOLD], next[KN_MAX_FOLD], set[KN_MAX_FOLD];
    kn_ref    deps[KN_MAX_NEST + KN_MAX_FOLD + 1];
    int64_t   shape[KN_MAX_RANK];
    int            rank, nopen = open_loops(e, s, open, KN_COUNT(open)), ndep = s->nloop + 1;
    const int64_t *dims = kg_shape(g, s->x[0], &rank);
    if (nopen < 0) return kn_fail(kg_fault(g), KN_ERR_UNSUPPORTED, "expand: too many loops");
    memcpy(shape, dims, (size_t)rank * sizeof *shape);
    memcpy(deps + 1, s->loop, (size_t)s->nloop * sizeof *deps);
    for (int k = 0; k < s->n; k++) {
        reg[k] = kg_buffer(g, e->next_reg++, kg_numel(g, s->x[k]), kg_dtype(g, s->x[k]), 0, KN_REG);
        init[k] = kg_store(g, in_shape(e, reg[k], open, nopen, shape, rank), s->identity[k], 0);
        if (!init[k]) return false;
    }
    for (int k = 0; k < s->n; k++) {
        deps[0] = init[k];
        if (!(cur[k] = kg_load(g, in_shape(e, reg[k], deps, ndep, shape, rank)))) return false;
        next[k] = cur[k];
    }
    if (!unrolled(e, s, next, false)) return false;
    for (int k = 0; k < s->n && s->n > 1; k++) deps[ndep++] = cur[k];
    for (int k = 0; k < s->n; k++) {
        deps[0] = init[k];
        set[k]  = kg_store(g, in_shape(e, reg[k], deps, ndep, shape, rank), next[k], 0);
        if (!set[k]) return false;
    }
    kn_ref body = s->n > 1 ? kg_list(g, KN_OP_GROUP, set, s->n) : set[0];
    for (int k = s->nloop; k-- > 0 && body;) body = kg_end(g, body, &s->loop[k], 1);
    bool may_not_run = false; /* a loop without iterations asks for nothing in it, the initial values neither */
    for (int k = 0; k < s->nloop; k++) may_not_run |= kg_min(g, kg_at(g, s->loop[k], 0)) < 1;
    for (int k = 0; k < s->n && body; k++) {
        kn_ref done[2] = {may_not_run ? init[k] : body, body};
        if (!(out[k] = kg_load(g, in_shape(e, reg[k], done, 1 + may_not_run, shape, rank)))) return false;
    }
    return body != 0;
}

/* ---- lanes --------------------------------------------------------------------------------------------------- */

/* x in the shape `like`: repeated along axes on which it stands still, so that each lane counts it once. */
static kn_ref repeat_lanes(kl_grow *e, kn_ref x, const int64_t *like) {
    int64_t        have[KN_MAX_RANK];
    int            rank;
    const int64_t *dims = kg_shape(e->g, x, &rank);
    for (int k = 0; k < e->rank; k++) have[k] = k < rank ? dims[k] : 1;
    return kg_expand(e->g, kg_reshape(e->g, x, have, e->rank), like, e->rank);
}

kn_ref kl_tile_places(kn_graph *g, int64_t *next_id, const int64_t *dims, int rank, int axis, int64_t most,
                      int64_t from) {
    kn_ref  at = kg_idx(g, 0);
    int64_t stride = 1;
    for (int a = rank; a-- > 0; stride *= dims[a]) {
        int64_t size = a == axis ? most : dims[a];
        kn_ref  i    = kg_idx(g, a == axis ? from : 0);
        if (size > 1) i = kg_op2(g, KN_OP_ADD, i, kg_iota(g, size, (*next_id)++, KN_AXIS_UPCAST, rank, a));
        at = kg_op2(g, KN_OP_ADD, at, kg_op2(g, KN_OP_MUL, i, kg_idx(g, stride)));
    }
    return at;
}

kn_ref kl_lay_down(kn_graph *g, int64_t *next_id, int64_t *next_buffer, kn_ref tile) {
    int            rank;
    int64_t        dims[KN_MAX_RANK];
    const int64_t *has = kg_shape(g, tile, &rank);
    memcpy(dims, has, (size_t)rank * sizeof *dims); /* what is made here may move it */
    kn_ref local = kg_buffer(g, (*next_buffer)++, kg_numel(g, tile), kg_dtype(g, tile), 0, KN_LOCAL);
    kn_ref at    = kl_tile_places(g, next_id, dims, rank, -1, 0, 0);
    kn_ref laid  = kg_store(g, kg_index(g, local, &at, 1), tile, 0);
    return laid ? kg_after(g, local, &laid, 1) : 0;
}

static kn_ref tile_places(kl_grow *e, const int64_t *dims, int rank, int axis, int64_t most, int64_t from) {
    return kl_tile_places(e->g, &e->next_id, dims, rank, axis, most, from);
}

static kn_ref lay_down(kl_grow *e, kn_ref tile) { return kl_lay_down(e->g, &e->next_id, &e->next_reg, tile); }

static kn_ref take_up(kl_grow *e, kn_ref local, kn_ref at, const int64_t *like) {
    kn_ref x = local ? kg_load(e->g, kg_index(e->g, local, &at, 1)) : 0;
    return x ? repeat_lanes(e, x, like) : 0;
}

/* A fold's tiles along the axis: `most` lanes of each from `from` on. */
static bool take_lanes(kl_grow *e, const kn_ref *whole, int n, const int64_t *dims, int rank, int axis, int64_t most,
                       int64_t from, kn_ref *out) {
    int64_t like[KN_MAX_RANK];
    kn_ref  at = tile_places(e, dims, rank, axis, most, from);
    memcpy(like, dims, (size_t)rank * sizeof *like);
    like[axis] = most;
    for (int k = 0; k < n; k++)
        if (!(out[k] = take_up(e, whole[k], at, like))) return false;
    return true;
}

static bool lay_all(kl_grow *e, const kn_ref *x, int n, kn_ref *whole) {
    for (int k = 0; k < n; k++)
        if (!(whole[k] = lay_down(e, x[k]))) return false;
    return true;
}

/* The lanes of a fold meet in LOCAL memory: the two halves of the tile are combined until there is one, or as many as
 * are joined with it. Of lanes that have no halves the most that do are first, and the others join them where there
 * are as few of them. */
static bool fold_lanes(kl_grow *e, const kl_sum *s, const int64_t *axis, int n, kn_ref *out) {
    int     rank = kg_rank(e->g, out[0]);
    int64_t dims[KN_MAX_RANK], own[KN_MAX_RANK];
    memcpy(dims, kg_shape(e->g, out[0], NULL), (size_t)rank * sizeof *dims);
    for (int i = 0; i < n; i++) {
        int     a = (int)axis[i];
        int64_t least = KN_MAX(s->keep, 1), all = dims[a], done = least;
        kn_ref  x[KN_MAX_FOLD], y[KN_MAX_FOLD], rest[KN_MAX_FOLD], whole[KN_MAX_FOLD];
        while (2 * done <= all) done *= 2;
        memcpy(own, dims, (size_t)rank * sizeof *own);
        if (done < all && (!lay_all(e, out, s->n, rest) || !take_lanes(e, rest, s->n, own, rank, a, done, 0, out)))
            return false;
        for (dims[a] = done; dims[a] > least; dims[a] /= 2) {
            int64_t half = dims[a] / 2;
            if (!lay_all(e, out, s->n, whole) || !take_lanes(e, whole, s->n, dims, rank, a, half, 0, x) ||
                !take_lanes(e, whole, s->n, dims, rank, a, half, half, y) || !combine(e, s, x, y))
                return false;
            if (all - done >= half) {
                if (!take_lanes(e, rest, s->n, own, rank, a, half, done, y) || !combine(e, s, x, y)) return false;
                done += half;
            }
            memcpy(out, x, (size_t)s->n * sizeof *out);
        }
    }
    return true;
}

static bool meet_lanes(kl_grow *e, const kl_sum *s, kn_ref *out) {
    int64_t        keep[KN_MAX_RANK];
    int            rank, m = 0;
    const int64_t *dims = kg_shape(e->g, out[0], &rank);
    for (int i = 0; i < s->nlane; i++)
        if (s->lane[i] < rank && dims[s->lane[i]] > 1) keep[m++] = s->lane[i];
    if (!m) return true;
    if (s->combine || s->keep) return fold_lanes(e, s, keep, m, out);
    return (out[0] = kg_reduce(e->g, out[0], (int)kg_field(e->g, s->reduce, KN_F_REDUCE_op), keep, m)) != 0;
}

/* ---- reductions ---------------------------------------------------------------------------------------------- */

static bool take_loop(kl_grow *e, kl_sum *s, kn_ref r) {
    if (s->nloop + s->nunroll == KN_MAX_NEST)
        return kn_fail(kg_fault(e->g), KN_ERR_UNSUPPORTED, "expand: too many loops");
    if (type_of(e->g, r) != KN_AXIS_UNROLL) {
        s->loop[s->nloop++] = r;
        return true;
    }
    bool holds = false, one;
    for (int k = 0; k < s->n; k++) {
        if (!holds_effect(e, s->x[k], r, &one)) return false;
        holds |= one;
    }
    if (!holds) {
        s->unroll[s->nunroll++] = r;
        return true;
    }
    kn_ref loop = s->loop[s->nloop++] = as_loop(e, r);
    for (int k = 0; k < s->n; k++)
        if (!(s->x[k] = kg_substitute(e->g, s->x[k], &r, &loop, 1))) return false;
    return true;
}

/* All values in the one shape in which they meet: a value that stands still along the lanes counts once a lane. */
static bool one_shape(kl_grow *e, kl_sum *s) {
    int64_t like[KN_MAX_RANK];
    bool    any = s->nlane > 0;
    for (int a = 0; a < e->rank; a++) like[a] = 1;
    for (int k = 0; k < s->n; k++) {
        int            rank;
        const int64_t *dims = kg_shape(e->g, s->x[k], &rank);
        for (int a = 0; a < rank; a++) like[a] = KN_MAX(like[a], dims[a]);
        any |= s->n > 1 && rank;
    }
    for (int i = 0; i < s->nlane; i++) {
        int64_t ax = s->lane[i];
        like[ax]   = KN_MAX(like[ax], s->width[i]);
    }
    for (int k = 0; k < s->n && any; k++)
        if (!(s->x[k] = repeat_lanes(e, s->x[k], like))) return false;
    return true;
}

/* Gives the value, or of a fold a TUPLE of its results. */
static kn_ref expand_reduce(kl_grow *e, kn_ref n) {
    kn_graph     *g = e->g;
    kn_fold_parts p;
    kn_ref        x = e->map[kg_at(g, n, 0)], out[KN_MAX_FOLD];
    kl_sum        s = {.reduce = n, .n = 1, .x = {x}};
    if (kg_is_fold(g, n)) {
        if (!kg_fold_parts(g, x, &p)) return 0;
        s.combine = p.combine;
        s.n       = p.n;
        memcpy(s.x, p.element, (size_t)p.n * sizeof *s.x);
        memcpy(s.identity, p.identity, (size_t)p.n * sizeof *s.x);
    } else {
        s.identity[0] = kg_identity(g, (int)kg_field(g, n, KN_F_REDUCE_op), kg_dtype(g, n));
    }
    bool runs = true;
    for (uint32_t i = 1; i < kg_nsrc(g, n); i++) runs &= kg_max(g, kg_at(g, kg_at(g, n, i), 0)) > 0;
    if (!runs) return s.combine ? kg_list(g, KN_OP_TUPLE, s.identity, s.n) : s.identity[0];
    for (uint32_t i = 1; i < kg_nsrc(g, n); i++) {
        kn_ref r = kg_at(g, n, i);
        if (!ko_is_lane(type_of(g, r))) {
            if (!take_loop(e, &s, e->map[r])) return 0;
            continue;
        }
        if (s.nlane == KN_MAX_NEST) return kn_fail(kg_fault(g), KN_ERR_UNSUPPORTED, "expand: too many lanes"), 0;
        s.lane[s.nlane]    = kg_field(g, e->map[r], KN_F_RANGE_axis);
        s.width[s.nlane++] = kg_const_int(g, kg_at(g, r, 0));
        for (int j = 0; j < e->njoined; j++)
            if (e->joined[j].range == r) s.keep = e->joined[j].keep;
    }
    if (!one_shape(e, &s)) return 0;
    for (int i = 0; i < s.n * s.nloop; i++)
        if (!(s.x[i / s.nloop] = keep_inside(e, s.x[i / s.nloop], s.loop[i % s.nloop]))) return 0;
    if (!(s.nloop ? accumulate(e, &s, out) : unrolled(e, &s, out, true)) || !meet_lanes(e, &s, out)) return 0;
    return s.combine ? kg_list(g, KN_OP_TUPLE, out, s.n) : out[0];
}

/* The loops around the one that the prefix runs along: where its accumulator is set anew. */
static int loops_around(kl_grow *e, kn_ref range, kn_ref *open, int cap) {
    int n = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        kn_ref end = e->order[i];
        int    at = 0;
        if (kg_op(e->g, end) != KN_OP_END) continue;
        for (uint32_t k = 1; k < kg_nsrc(e->g, end); k++)
            if (kg_at(e->g, end, k) == range) at = (int)k;
        if (!at) continue;
        kn_ref r[64];
        int    m = KN_MIN(kg_ranges(e->g, end, r, KN_COUNT(r)), KN_COUNT(r));
        for (int k = 1; k < at && n < cap; k++) open[n++] = kg_at(e->g, end, (uint32_t)k);
        for (int k = 0; k < m && n < cap; k++) open[n++] = r[k];
    }
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (!ko_is_lane(type_of(e->g, open[i]))) open[kept++] = e->map[open[i]] ? e->map[open[i]] : open[i];
    return kept;
}

/* What the loops of a prefix have added up before x, in an accumulator that is set around them. */
typedef struct kl_carry {
    kn_ref  reg, at, before;
    int64_t shape[KN_MAX_RANK];
    int     rank;
} kl_carry;

static bool carry_before(kl_grow *e, kn_ref n, const int64_t *shape, int rank, int nloop, kl_carry *c) {
    kn_graph *g = e->g;
    kn_ref    open[64], deps[1 + KN_MAX_NEST], x = e->map[kg_at(g, n, 0)];
    int64_t   size = 1;
    for (int a = 0; a < rank; a++) size *= c->shape[a] = shape[a];
    c->rank    = rank;
    c->reg     = kg_buffer(g, e->next_reg++, size, kg_dtype(g, x), 0, KN_REG);
    kn_ref zero = kg_identity(g, (int)kg_field(g, n, KN_F_REDUCE_op), kg_dtype(g, x));
    deps[0] = kg_store(g, in_shape(e, c->reg, open, loops_around(e, kg_at(g, n, 1), open, KN_COUNT(open)), shape, rank),
                       zero, 0);
    for (int k = 1; k <= nloop; k++) deps[k] = e->map[kg_at(g, n, (uint32_t)k)];
    c->at     = in_shape(e, c->reg, deps, 1 + nloop, shape, rank);
    c->before = c->at ? kg_load(g, c->at) : 0;
    return c->before != 0;
}

static kn_ref carry_now(kl_grow *e, const kl_carry *c, kn_ref now) {
    kn_ref done = now ? kg_store(e->g, c->at, now, 0) : 0;
    return done ? kg_load(e->g, in_shape(e, c->reg, &done, 1, c->shape, c->rank)) : 0;
}

/* The lanes of a scan along a tile's axis: rows of the tile are added up one by one, by way of LOCAL memory, and then
 * what came before to each; so that rows wait for one sum of the loop around, not for one another's. */
static kn_ref prefix_lanes(kl_grow *e, kn_ref n, kn_ref range, int nloop) {
    kn_graph *g  = e->g;
    int       op = (int)kg_field(g, n, KN_F_REDUCE_op), axis = (int)kg_field(g, e->map[range], KN_F_RANGE_axis), rank;
    int64_t   dims[KN_MAX_RANK], row[KN_MAX_RANK], size = 1;
    int64_t   w = kg_const_int(g, kg_at(g, range, 0));
    kn_ref    x = e->map[kg_at(g, n, 0)], put[KN_MAX_LANES], sum = 0, now = 0;
    kl_carry  c;
    const int64_t *have = kg_shape(g, x, &rank);
    if (w > KN_MAX_LANES) return kn_fail(kg_fault(g), KN_ERR_UNSUPPORTED, "expand: a scan's tile is too long"), 0;
    for (int a = 0; a < e->rank; a++) size *= row[a] = dims[a] = a < rank ? have[a] : 1;
    size      = size / dims[axis] * w;
    dims[axis] = w;
    row[axis]  = 1;
    kn_ref whole = lay_down(e, repeat_lanes(e, x, dims));
    kn_ref local = kg_buffer(g, e->next_reg++, size, kg_dtype(g, x), 0, KN_LOCAL);
    if (!whole || (nloop && !carry_before(e, n, row, e->rank, nloop, &c))) return 0;
    for (int64_t k = 0; k < w; k++) {
        kn_ref at = tile_places(e, dims, e->rank, axis, 1, k), y = take_up(e, whole, at, row);
        sum       = sum && y ? kg_op2(g, op, sum, y) : y;
        now       = nloop && sum ? kg_op2(g, op, c.before, sum) : sum;
        if (nloop && k == w - 1) now = carry_now(e, &c, now);
        put[k] = now ? kg_store(g, kg_index(g, local, &at, 1), now, 0) : 0;
        if (!put[k]) return 0;
    }
    return take_up(e, kg_after(g, local, put, (int)w), tile_places(e, dims, e->rank, -1, 0, 0), dims);
}

/* A scan: an accumulator set around its loops, updated and read in each iteration. */
static kn_ref expand_prefix(kl_grow *e, kn_ref n) {
    kn_graph *g     = e->g;
    kn_ref    x     = e->map[kg_at(g, n, 0)], last = kg_at(g, n, kg_nsrc(g, n) - 1);
    int       nloop = (int)kg_nsrc(g, n) - 1, rank;
    kl_carry  c;
    if (ko_is_lane(type_of(g, last))) return prefix_lanes(e, n, last, nloop - 1);
    const int64_t *shape = kg_shape(g, x, &rank);
    if (!carry_before(e, n, shape, rank, nloop, &c)) return 0;
    return carry_now(e, &c, kg_op2(g, (int)kg_field(g, n, KN_F_REDUCE_op), c.before, x));
}

static kn_ref expand_end(kl_grow *e, kn_ref n) {
    kn_ref body = e->map[kg_at(e->g, n, 0)];
    for (uint32_t i = kg_nsrc(e->g, n); i-- > 1 && body;) {
        kn_ref r = e->map[kg_at(e->g, n, i)];
        if (ko_is_lane(type_of(e->g, r))) continue;
        if (kg_max(e->g, kg_at(e->g, r, 0)) < 1) return kg_list(e->g, KN_OP_GROUP, NULL, 0); /* it never runs */
        if (kg_is_const(e->g, kg_at(e->g, r, 0), 1)) { /* once: what it holds need not depend on it */
            kn_ref first = kg_idx(e->g, 0);
            body         = kg_substitute(e->g, body, &r, &first, 1);
            continue;
        }
        body = keep_inside(e, body, r);
        body = body ? kg_end(e->g, body, &r, 1) : 0;
    }
    return body;
}

/* The leaf of an expanded range. Those of one length along one axis hold the same numbers: they are one leaf, so that
 * what two loops load alike is loaded once where the loops become one. */
static kn_ref lane_leaf(kl_grow *e, kn_ref range) {
    kn_graph *g    = e->g;
    int64_t   size = kg_const_int(g, kg_at(g, range, 0));
    for (int i = 0; i < e->nlane; i++)
        if (kg_at(g, e->lane[i], 0) == kg_at(g, range, 0) && type_of(g, e->lane[i]) == type_of(g, range) &&
            kg_field(g, e->lane[i], KN_F_RANGE_axis) == kg_field(g, range, KN_F_RANGE_axis))
            return e->lane[i];
    kn_ref leaf = kg_iota(g, size, kg_field(g, range, KN_F_RANGE_id), type_of(g, range), e->rank,
                          (int)kg_field(g, range, KN_F_RANGE_axis));
    if (leaf && e->nlane < LANE_IDS) e->lane[e->nlane++] = leaf;
    return leaf;
}

static kn_ref expand_node(kl_grow *e, kn_ref n, const kn_ref *src, uint32_t k) {
    kn_graph *g = e->g;
    switch (kg_op(g, n)) {
    case KN_OP_RANGE:
        if (ko_is_lane(type_of(g, n)) && kg_field(g, n, KN_F_RANGE_rank) == 0)
            return lane_leaf(e, n);
        if (kg_rank(g, src[0]) > 0 && kg_numel(g, src[0]) == 1) { /* what lanes were summed to */
            kn_ref bound = kg_reshape(g, src[0], NULL, 0);
            return bound ? kg_with_src(g, n, &bound, 1) : 0;
        }
        return kg_with_src(g, n, src, k);
    case KN_OP_REDUCE:
        if (kg_is_prefix(g, n)) return expand_prefix(e, n);
        return kg_nsrc(g, n) > 1 ? expand_reduce(e, n) : kg_with_src(g, n, src, k);
    case KN_OP_GETTUPLE: return kg_element(g, src[0], (int)kg_node(g, n)->arg);
    case KN_OP_END: return expand_end(e, n);
    default: return kg_with_src(g, n, src, k);
    }
}

/* A new range of lanes along an axis. */
static kn_ref new_lanes(kl_grow *e, int type, int64_t size, int64_t axis) {
    int64_t w[KN_RANGE_WORDS] = {e->next_id++, type, 0, axis};
    kn_ref  bound = kg_idx(e->g, size);
    return kg_make(e->g, KN_OP_RANGE, 0, kg_intern_words(e->g, w, KN_RANGE_WORDS), &bound, 1);
}

/* A sum's lanes r that share their axis with lanes u of a loop around it: one range m runs through both, so that what
 * lies side by side for u is a run, and what its numbers meet in is one lane for each u. */
static kn_ref join_lanes(kl_grow *e, kn_ref reduce, kn_ref r, kn_ref u) {
    kn_graph *g    = e->g;
    kn_ref    inner = kg_at(g, u, 0), loop[KN_MAX_NEST], to[2];
    int64_t   keep = kg_const_int(g, inner), all = kn_sat_mul(keep, kg_const_int(g, kg_at(g, r, 0)));
    int       n = (int)kg_nsrc(g, reduce) - 1;
    kn_ref    m = new_lanes(e, KN_AXIS_GROUP_REDUCE, all, kg_field(g, r, KN_F_RANGE_axis));
    if (!m || n > KN_MAX_NEST || e->njoined == LANE_IDS)
        return kn_fail(kg_fault(g), KN_ERR_UNSUPPORTED, "expand: too many lanes are joined"), 0;
    to[0] = kg_op2(g, KN_OP_IDIV, m, inner);
    to[1] = kg_op2(g, KN_OP_MOD, m, inner);
    kn_ref x = kg_substitute(g, kg_at(g, reduce, 0), (kn_ref[]){r, u}, to, 2);
    for (int i = 0; i < n; i++) {
        loop[i] = kg_at(g, reduce, (uint32_t)i + 1);
        if (loop[i] == r) loop[i] = m;
    }
    e->joined[e->njoined++] = (kl_joined){m, keep};
    return x ? kg_reduce_again(g, reduce, x, loop, n) : 0;
}

/* The lanes of the REDUCE that share their axis with others in its body, and those. */
static bool is_joined(const kn_graph *g, kn_ref reduce, kn_ref *r, kn_ref *u) {
    kn_ref in[64];
    int    n = KN_MIN(kg_ranges(g, kg_at(g, reduce, 0), in, KN_COUNT(in)), KN_COUNT(in));
    for (uint32_t k = 1; k < kg_nsrc(g, reduce); k++) {
        *r = kg_at(g, reduce, k);
        for (int i = 0; i < n && type_of(g, *r) == KN_AXIS_GROUP_REDUCE; i++)
            if (type_of(g, *u = in[i]) == KN_AXIS_UPCAST &&
                kg_field(g, *u, KN_F_RANGE_axis) == kg_field(g, *r, KN_F_RANGE_axis))
                return true;
    }
    return false;
}

/* Lanes of the END that share an axis, the outer ones first: one range runs through all of them. The END itself, where
 * there are none. */
static kn_ref join_loops(kl_grow *e, kn_ref end) {
    kn_graph *g = e->g;
    kn_ref    from[KN_MAX_NEST], to[KN_MAX_NEST], src[KN_MAX_NEST + 1], body = kg_at(g, end, 0);
    int       n = (int)kg_nsrc(g, end) - 1, kept = 0, count = 0;
    for (int k = 1; k <= n && n <= KN_MAX_NEST; k++) {
        kn_ref  r    = kg_at(g, end, (uint32_t)k), m = r;
        int64_t axis = kg_field(g, r, KN_F_RANGE_axis), all = 1, inner = 1;
        bool    first = true, lanes = ko_is_lane(type_of(g, r));
        for (int j = 1; j <= n && lanes; j++) {
            kn_ref q = kg_at(g, end, (uint32_t)j);
            if (!ko_is_lane(type_of(g, q)) || kg_field(g, q, KN_F_RANGE_axis) != axis) continue;
            if (j < k) first = false;
            all = kn_sat_mul(all, kg_const_int(g, kg_at(g, q, 0)));
        }
        if (!first) continue;
        if (lanes && all != kg_const_int(g, kg_at(g, r, 0))) {
            m = new_lanes(e, KN_AXIS_UPCAST, all, axis);
            for (int j = n; j >= k && m; j--) {
                kn_ref q = kg_at(g, end, (uint32_t)j);
                if (!ko_is_lane(type_of(g, q)) || kg_field(g, q, KN_F_RANGE_axis) != axis) continue;
                kn_ref at   = kg_op2(g, KN_OP_IDIV, m, kg_idx(g, inner));
                from[count] = q;
                to[count++] = j == k ? at : kg_op2(g, KN_OP_MOD, at, kg_at(g, q, 0));
                inner *= kg_const_int(g, kg_at(g, q, 0));
            }
        }
        src[++kept] = m;
    }
    if (!count) return end;
    src[0] = kg_substitute(g, body, from, to, count);
    return src[0] ? kg_with_src(g, end, src, (uint32_t)kept + 1) : 0;
}

/* What is stored there is one value, at u * |v| + v and what depends on neither: rows that follow one another. */
static bool fills_rows(const kn_graph *g, kn_ref store, kn_ref u, kn_ref v) {
    kn_ref    at = kg_op(g, store) == KN_OP_STORE ? kg_at(g, store, 0) : 0;
    kn_affine f;
    if (!at || kg_op(g, at) != KN_OP_INDEX || kg_nsrc(g, at) != 2 || !kg_affine(g, kg_at(g, at, 1), &f)) return false;
    if (kg_field(g, u, KN_F_RANGE_axis) >= kg_field(g, v, KN_F_RANGE_axis)) return false;
    for (uint32_t k = 1; k < kg_nsrc(g, store); k++)
        if (kg_depends(g, kg_at(g, store, k), u) || kg_depends(g, kg_at(g, store, k), v)) return false;
    for (int t = 0; t < f.n; t++) {
        kn_ref x = f.atom[t];
        if (x != u && x != v && (kg_depends(g, x, u) || kg_depends(g, x, v))) return false;
    }
    return kn_affine_coef(&f, v) == 1 && kn_affine_coef(&f, u) == kg_const_int(g, kg_at(g, v, 0));
}

/* One range runs through lanes u and v of the END. */
static kn_ref join_rows(kl_grow *e, kn_ref end, kn_ref u, kn_ref v) {
    kn_graph *g    = e->g;
    kn_ref    size = kg_at(g, v, 0), src[KN_MAX_NEST + 1];
    int64_t   all  = kn_sat_mul(kg_const_int(g, size), kg_const_int(g, kg_at(g, u, 0)));
    uint32_t  kept = 1;
    kn_ref    m    = new_lanes(e, KN_AXIS_UPCAST, all, kg_field(g, v, KN_F_RANGE_axis));
    if (!m) return 0;
    for (uint32_t k = 1; k < kg_nsrc(g, end); k++)
        if (kg_at(g, end, k) != u) src[kept++] = kg_at(g, end, k) == v ? m : kg_at(g, end, k);
    kn_ref to[2] = {kg_op2(g, KN_OP_IDIV, m, size), kg_op2(g, KN_OP_MOD, m, size)};
    src[0]       = kg_substitute(g, kg_at(g, end, 0), (kn_ref[]){u, v}, to, 2);
    return src[0] ? kg_with_src(g, end, src, kept) : 0;
}

/* Of an END, lanes that run through rows that are filled, as often as there are some; the END itself, if none do. */
static kn_ref join_filled(kl_grow *e, kn_ref end) {
    kn_graph *g = e->g;
    for (uint32_t i = 1; end && i < kg_nsrc(g, end) && kg_nsrc(g, end) <= KN_MAX_NEST + 1; i++)
        for (uint32_t j = 1; j < kg_nsrc(g, end); j++) {
            kn_ref u = kg_at(g, end, i), v = kg_at(g, end, j);
            if (!ko_is_lane(type_of(g, u)) || !ko_is_lane(type_of(g, v)) || !fills_rows(g, kg_at(g, end, 0), u, v))
                continue;
            if (!(end = join_rows(e, end, u, v))) return 0;
            i = 0;
            break;
        }
    return end;
}

/* Of every sum and every END. Lanes are closed by the innermost ENDs, and of sums only one has joined ones: none stands
 * in another one that is made again. */
static bool join_all(kl_grow *e, kn_ref *root) {
    bool again = false;
    for (uint32_t i = 0; i < e->count; i++) {
        kn_ref old = e->order[i], now = old, r, u;
        if (kg_op(e->g, old) == KN_OP_END) {
            now = join_loops(e, old);
            if (now) now = join_filled(e, now);
            if (now != old) *root = now ? kg_substitute(e->g, *root, &old, &now, 1) : 0;
        } else if (kg_op(e->g, old) == KN_OP_REDUCE && !kg_is_prefix(e->g, old) && is_joined(e->g, old, &r, &u)) {
            now   = join_lanes(e, old, r, u);
            *root = kg_reduce_replace(e->g, *root, old, now);
        }
        if (!*root) return false;
        again |= now != old;
    }
    if (!again) return true;
    kn_free(kg_alloc(e->g), e->order, e->count * sizeof *e->order);
    e->order = NULL;
    return kg_reach(e->g, root, 1, &e->order, &e->count) || kn_oom(kg_fault(e->g));
}

bool kl_expand(kl_program *p, kl_kernel *k, kn_fault *f) {
    kl_grow  e = {.g = k->g};
    kn_ref  *src = NULL;
    size_t   cap = 0, size = 0;
    bool     ok = false;
    if (!kg_reach(k->g, &k->root, 1, &e.order, &e.count)) return kn_oom(f);
    for (uint32_t i = 0; i < e.count; i++) {
        kn_ref x = e.order[i];
        if (kg_op(k->g, x) == KN_OP_BUFFER) e.next_reg = KN_MAX(e.next_reg, kg_field(k->g, x, KN_F_BUFFER_slot) + 1);
        if (kg_op(k->g, x) != KN_OP_RANGE) continue;
        e.next_id = KN_MAX(e.next_id, kg_field(k->g, x, KN_F_RANGE_id) + 1);
        if (ko_is_lane(type_of(k->g, x))) e.rank = KN_MAX(e.rank, (int)kg_field(k->g, x, KN_F_RANGE_axis) + 1);
    }
    if (!join_all(&e, &k->root)) goto done;
    size = (size_t)k->root + 1;
    if (!(e.map = kn_zalloc(p->alloc, size * sizeof *e.map))) goto oom;
    for (uint32_t i = 0; i < e.count; i++) {
        kn_ref   x = e.order[i];
        uint32_t m = kg_nsrc(k->g, x);
        if (!KN_GROW(p->alloc, src, cap, m + 1)) goto oom;
        for (uint32_t j = 0; j < m; j++) src[j] = e.map[kg_at(k->g, x, j)];
        kg_made_of(k->g, k->g, x);
        if (!(e.map[x] = expand_node(&e, x, src, m))) goto done;
    }
    k->root = e.map[k->root];
    ok      = true;
    goto done;
oom:
    kn_oom(f);
done:
    if (!ok) kl_stage_fault("expand", k->g, f);
    kn_free(p->alloc, e.map, size * sizeof *e.map);
    kn_free(p->alloc, src, cap * sizeof *src);
    kn_free(p->alloc, e.order, e.count * sizeof *e.order);
    return ok && kl_share_sums(p, k, f) && kl_squeeze_sums(p, k, f) &&
           kl_rewrite_kernel(p, k, KN_GROUPS_SIMPLIFY | KN_G_lanes, f);
}
