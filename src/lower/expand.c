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

typedef struct kl_grow {
    kn_graph *g;
    kn_ref   *map, *order; /* order: the kernel's nodes before, ascending */
    uint32_t  count;
    int       rank; /* of every value that any expanded range reaches */
    int64_t   next_reg;
} kl_grow;

static int type_of(const kn_graph *g, kn_ref range) { return (int)kg_field(g, range, KN_F_RANGE_type); }

static kn_ref combine(kl_grow *e, int op, kn_ref acc, kn_ref x) { return acc ? kg_op2(e->g, op, acc, x) : x; }

/* x at each iteration of the UNROLL ranges, one after the other onto acc. */
static kn_ref unrolled(kl_grow *e, int op, kn_ref acc, kn_ref x, const kn_ref *range, int n) {
    int64_t count = 1;
    for (int i = 0; i < n; i++) count *= kg_const_int(e->g, kg_at(e->g, range[i], 0));
    for (int64_t at = 0; at < count; at++) {
        kn_ref  to[KN_MAX_NEST];
        int64_t rest = at;
        for (int i = n; i-- > 0;) {
            int64_t b = kg_const_int(e->g, kg_at(e->g, range[i], 0));
            to[i]     = kg_idx(e->g, rest % b);
            rest /= b;
        }
        kn_ref y = n ? kg_substitute(e->g, x, range, to, n) : x;
        if (!y || !(acc = combine(e, op, acc, y))) return 0;
    }
    return acc;
}

/* Whether a loop runs inside x that depends on the range: its copies would need loops and accumulators of their own. */
static bool holds_loop(kl_grow *e, kn_ref x, kn_ref range, bool *holds) {
    kn_ref  *order;
    uint32_t n;
    *holds = false;
    if (!kg_reach(e->g, &x, 1, &order, &n)) return kn_oom(kg_fault(e->g));
    for (uint32_t i = 0; i < n && !*holds; i++)
        *holds = kg_op(e->g, order[i]) == KN_OP_END && kg_depends(e->g, order[i], range);
    kn_free(kg_alloc(e->g), order, n * sizeof *order);
    return true;
}

/* The same range as a loop. */
static kn_ref as_loop(kl_grow *e, kn_ref range) {
    int64_t w[KN_RANGE_WORDS] = {kg_field(e->g, range, KN_F_RANGE_id), KN_AXIS_REDUCE, 0, 0};
    kn_ref  bound             = kg_at(e->g, range, 0);
    return kg_make(e->g, KN_OP_RANGE, 0, kg_intern_words(e->g, w, KN_RANGE_WORDS), &bound, 1);
}

static bool surely_in_bounds(const kn_graph *g, kn_ref at) {
    return kg_op(g, at) == KN_OP_INDEX && kg_nsrc(g, at) == 2 && kg_min(g, kg_at(g, at, 1)) >= 0 &&
           kg_max(g, kg_at(g, at, 1)) < kg_numel(g, kg_at(g, at, 0));
}

/* x, with loads that could leave their buffer kept inside the loop: it may not run at all. */
static kn_ref keep_inside(kl_grow *e, kn_ref x, kn_ref loop) {
    kn_graph *g = e->g;
    bool      again = kg_op(g, kg_at(g, loop, 0)) != KN_OP_CONST;
    while (again && x) { /* one by one: a load may stand in the address of another */
        kn_ref  *order;
        uint32_t n;
        again = false;
        if (!kg_reach(g, &x, 1, &order, &n)) return kn_oom(kg_fault(g)), 0;
        for (uint32_t i = 0; i < n && !again; i++) {
            kn_ref l = order[i], at = kg_nsrc(g, l) ? kg_at(g, l, 0) : 0, src[3];
            if (kg_op(g, l) != KN_OP_LOAD || kg_op(g, at) != KN_OP_INDEX || kg_depends(g, l, loop)) continue;
            if (surely_in_bounds(g, at)) continue;
            memcpy(src, kg_src(g, l), kg_nsrc(g, l) * sizeof *src);
            src[0] = kg_index(g, kg_after(g, kg_at(g, at, 0), &loop, 1), kg_src(g, at) + 1, (int)kg_nsrc(g, at) - 1);
            kn_ref now = kg_with_src(g, l, src, kg_nsrc(g, l));
            x          = now ? kg_substitute(g, x, &l, &now, 1) : 0;
            again      = true;
        }
        kn_free(kg_alloc(g), order, n * sizeof *order);
    }
    return x;
}

static kn_ref over_lanes(kl_grow *e, int op, kn_ref x, const int64_t *axis, int n) {
    int64_t        keep[KN_MAX_RANK];
    int            rank, m = 0;
    const int64_t *dims = kg_shape(e->g, x, &rank);
    for (int i = 0; i < n; i++)
        if (axis[i] < rank && dims[axis[i]] > 1) keep[m++] = axis[i];
    return m ? kg_reduce(e->g, x, op, keep, m) : x;
}

/* A sum does not repeat what does not depend on a lane: multiply by the number of lanes that were folded away. */
static kn_ref expand_reduce(kl_grow *e, kn_ref n) {
    kn_graph *g  = e->g;
    int       op = (int)kg_field(g, n, KN_F_REDUCE_op), nloop = 0, nunroll = 0, nlane = 0;
    kn_ref    x = e->map[kg_at(g, n, 0)], loop[KN_MAX_NEST], unroll[KN_MAX_NEST], open[64];
    int64_t   lane[KN_MAX_NEST], shape[KN_MAX_RANK];
    for (uint32_t i = 1; i < kg_nsrc(g, n); i++) {
        kn_ref r = kg_at(g, n, i);
        if (nloop + nunroll + nlane == KN_MAX_NEST)
            return kn_fail(kg_fault(g), KN_ERR_UNSUPPORTED, "expand: too many loops"), 0;
        if (ko_is_lane(type_of(g, r))) {
            kn_ref  leaf = e->map[r];
            int64_t ax   = kg_field(g, leaf, KN_F_RANGE_axis);
            lane[nlane++] = ax;
            int            xr;
            const int64_t *xs = kg_shape(g, x, &xr);
            if (xr > ax && xs[ax] > 1) continue;
            /* x stands still along the lanes: spread it, so that the fold counts it once a lane */
            int64_t to[KN_MAX_RANK];
            for (int k = 0; k < e->rank; k++) to[k] = k == ax ? kg_shape(g, leaf, NULL)[ax] : k < xr ? xs[k] : 1;
            int64_t ones[KN_MAX_RANK];
            for (int k = 0; k < e->rank; k++) ones[k] = k < xr ? xs[k] : 1;
            x = kg_expand(g, kg_reshape(g, x, ones, e->rank), to, e->rank);
        } else if (type_of(g, r) == KN_AXIS_UNROLL) {
            bool holds;
            if (!holds_loop(e, x, r, &holds)) return 0;
            if (!holds) {
                unroll[nunroll++] = r;
                continue;
            }
            loop[nloop++] = as_loop(e, r);
            if (!(x = kg_substitute(g, x, &r, &loop[nloop - 1], 1))) return 0;
        } else {
            loop[nloop++] = r;
        }
    }
    for (int k = 0; k < nloop && x; k++) x = keep_inside(e, x, loop[k]);
    if (!x) return 0;
    if (!nloop) return over_lanes(e, op, unrolled(e, op, 0, x, unroll, nunroll), lane, nlane);

    int            rank, dt = kg_dtype(g, x);
    const int64_t *dims = kg_shape(g, x, &rank);
    memcpy(shape, dims, (size_t)rank * sizeof *shape);
    int64_t   size = kg_numel(g, x);
    kn_scalar id   = kn_identity(op, dt);
    kn_ref    zero = kn_is_float(dt) ? kg_float(g, dt, id.f) : kg_make(g, KN_OP_CONST, dt, (uint64_t)id.i, NULL, 0);
    kn_ref    reg  = kg_buffer(g, e->next_reg++, size, dt, 0, KN_REG);
    int       nopen = 0, all = kg_ranges(g, x, open, KN_COUNT(open));
    if (all > KN_COUNT(open)) return kn_fail(kg_fault(g), KN_ERR_UNSUPPORTED, "expand: too many loops"), 0;
    for (int i = 0; i < all; i++) { /* the loops around the reduction: where the accumulator is set anew */
        bool own = false;
        for (int k = 0; k < nloop; k++) own |= open[i] == loop[k];
        for (int k = 0; k < nunroll; k++) own |= open[i] == unroll[k];
        if (!own) open[nopen++] = open[i];
    }
    kn_ref init = kg_store(g, kg_reshape(g, kg_after(g, reg, open, nopen), shape, rank), zero, 0);
    kn_ref deps[KN_MAX_NEST + 1] = {init};
    memcpy(deps + 1, loop, (size_t)nloop * sizeof *deps);
    kn_ref cur  = kg_load(g, kg_reshape(g, kg_after(g, reg, deps, nloop + 1), shape, rank));
    kn_ref next = cur ? unrolled(e, op, cur, x, unroll, nunroll) : 0;
    kn_ref body = next ? kg_store(g, kg_reshape(g, kg_after(g, reg, deps, nloop + 1), shape, rank), next, 0) : 0;
    for (int k = nloop; k-- > 0 && body;) body = kg_end(g, body, &loop[k], 1);
    if (!body) return 0;
    bool may_not_run = false; /* a loop without iterations asks for nothing in it, the initial value neither */
    for (int k = 0; k < nloop; k++) may_not_run |= kg_op(g, kg_at(g, loop[k], 0)) != KN_OP_CONST;
    kn_ref done = may_not_run ? kg_after(g, reg, (kn_ref[]){init, body}, 2) : kg_after(g, reg, &body, 1);
    return over_lanes(e, op, kg_load(g, kg_reshape(g, done, shape, rank)), lane, nlane);
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
        if (!ko_is_lane(type_of(e->g, open[i]))) open[kept++] = open[i]; /* a loop stays the node it is */
    return kept;
}

/* A scan: an accumulator set around the loop, updated and read in each iteration. */
static kn_ref expand_prefix(kl_grow *e, kn_ref n) {
    kn_graph *g  = e->g;
    kn_ref    x  = e->map[kg_at(g, n, 0)], open[64], range = kg_at(g, n, 1);
    int       op = (int)kg_field(g, n, KN_F_REDUCE_op), dt = kg_dtype(g, x), rank;
    int64_t   shape[KN_MAX_RANK];
    memcpy(shape, kg_shape(g, x, &rank), sizeof shape[0] * (size_t)kg_rank(g, x));
    kn_scalar id   = kn_identity(op, dt);
    kn_ref    zero = kn_is_float(dt) ? kg_float(g, dt, id.f) : kg_make(g, KN_OP_CONST, dt, (uint64_t)id.i, NULL, 0);
    kn_ref    reg  = kg_buffer(g, e->next_reg++, kg_numel(g, x), dt, 0, KN_REG);
    int       around = loops_around(e, range, open, KN_COUNT(open));
    kn_ref    init = kg_store(g, kg_reshape(g, kg_after(g, reg, open, around), shape, rank), zero, 0);
    kn_ref    deps[2] = {init, e->map[range]}, at = kg_reshape(g, kg_after(g, reg, deps, 2), shape, rank);
    kn_ref    done = at ? kg_store(g, at, kg_op2(g, op, kg_load(g, at), x), 0) : 0;
    return done ? kg_load(g, kg_reshape(g, kg_after(g, reg, &done, 1), shape, rank)) : 0;
}

static kn_ref expand_end(kl_grow *e, kn_ref n) {
    kn_ref body = e->map[kg_at(e->g, n, 0)];
    for (uint32_t i = kg_nsrc(e->g, n); i-- > 1 && body;) {
        kn_ref r = kg_at(e->g, n, i);
        if (!ko_is_lane(type_of(e->g, r))) body = kg_end(e->g, body, &r, 1);
    }
    return body;
}

static kn_ref expand_node(kl_grow *e, kn_ref n, const kn_ref *src, uint32_t k) {
    kn_graph *g = e->g;
    switch (kg_op(g, n)) {
    case KN_OP_RANGE:
        if (ko_is_lane(type_of(g, n)) && kg_field(g, n, KN_F_RANGE_rank) == 0)
            return kg_iota(g, kg_const_int(g, kg_at(g, n, 0)), kg_field(g, n, KN_F_RANGE_id), type_of(g, n), e->rank,
                           (int)kg_field(g, n, KN_F_RANGE_axis));
        return kg_with_src(g, n, src, k);
    case KN_OP_REDUCE:
        if (kg_is_prefix(g, n)) return expand_prefix(e, n);
        return kg_nsrc(g, n) > 1 ? expand_reduce(e, n) : kg_with_src(g, n, src, k);
    case KN_OP_END: return expand_end(e, n);
    default: return kg_with_src(g, n, src, k);
    }
}

bool kl_expand(kl_program *p, kl_kernel *k, kn_fault *f) {
    kl_grow  e = {.g = k->g};
    kn_ref  *order, *src = NULL;
    uint32_t n;
    size_t   cap = 0, size = (size_t)k->root + 1;
    bool     ok = false;
    if (!kg_reach(k->g, &k->root, 1, &order, &n)) return kn_oom(f);
    e.order = order;
    e.count = n;
    if (!(e.map = kn_zalloc(p->alloc, size * sizeof *e.map))) goto oom;
    for (uint32_t i = 0; i < n; i++) {
        if (kg_op(k->g, order[i]) == KN_OP_BUFFER)
            e.next_reg = KN_MAX(e.next_reg, kg_field(k->g, order[i], KN_F_BUFFER_slot) + 1);
        if (kg_op(k->g, order[i]) != KN_OP_RANGE || !ko_is_lane(type_of(k->g, order[i]))) continue;
        e.rank = KN_MAX(e.rank, (int)kg_field(k->g, order[i], KN_F_RANGE_axis) + 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t m = kg_nsrc(k->g, order[i]);
        if (!KN_GROW(p->alloc, src, cap, m + 1)) goto oom;
        for (uint32_t j = 0; j < m; j++) src[j] = e.map[kg_at(k->g, order[i], j)];
        kg_made_of(k->g, k->g, order[i]);
        if (!(e.map[order[i]] = expand_node(&e, order[i], src, m))) goto done;
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
    kn_free(p->alloc, order, n * sizeof *order);
    return ok && kl_rewrite_kernel(p, k, KN_GROUPS_SIMPLIFY, f);
}
