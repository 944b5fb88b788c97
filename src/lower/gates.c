/* gates.c - gate -> bounds: REDUCE{ADD} over r of a value that is zero unless a condition on r holds.
 *
 * Takes: a reduction over ranges in normal form. Gives: the same sum with r replaced by the one value that counts
 * (loads that depended on r get the gate that this value is in range), or with r's loop cut to constant bounds; 0 where
 * neither fits. */
#include "lower/gates.h"

#include <string.h>

enum { MAX_TERMS = 16 };

typedef struct kl_conds { /* of a conjunction */
    kn_ref c[MAX_TERMS];
    int    n;
} kl_conds;

static kn_ref unwrap_not(const kn_graph *g, kn_ref c) { return kg_op(g, c) == KN_OP_NOT ? kg_at(g, c, 0) : 0; }

static bool collect(const kn_graph *g, kn_ref c, kl_conds *out) {
    kn_ref stack[MAX_TERMS];
    int    top = 0;
    stack[top++] = c;
    while (top) {
        kn_ref x = stack[--top];
        if ((kg_op(g, x) == KN_OP_AND || kg_op(g, x) == KN_OP_MUL) && kg_dtype(g, x) == KN_BOOL &&
            top + 2 <= MAX_TERMS) {
            stack[top++] = kg_at(g, x, 0);
            stack[top++] = kg_at(g, x, 1);
        } else {
            if (out->n == MAX_TERMS) return false;
            out->c[out->n++] = x;
        }
    }
    return true;
}

static kn_ref negate(kn_graph *g, kn_ref c) {
    kn_ref inner = unwrap_not(g, c);
    return inner ? inner : kg_op1(g, KN_OP_NOT, c);
}

/* x = 0 unless the conjunction holds, then *rest. Looks through one WHERE with a zero arm, a gated load, a bool as a
 * number, or one factor that is such. */
static bool split_gate(kn_graph *g, kn_ref x, kl_conds *conds, kn_ref *rest) {
    if (kg_op(g, x) == KN_OP_WHERE) {
        kn_ref c = kg_at(g, x, 0), a = kg_at(g, x, 1), b = kg_at(g, x, 2);
        if (kg_is_const(g, b, 0)) return *rest = a, collect(g, c, conds);
        if (kg_is_const(g, a, 0)) return *rest = b, collect(g, negate(g, c), conds);
        return false;
    }
    if (kg_op(g, x) == KN_OP_LOAD) { /* keeps its gate, which goes when the new bounds imply it */
        *rest = x;
        return kg_nsrc(g, x) == 3 && kg_is_const(g, kg_at(g, x, 1), 0) && collect(g, kg_at(g, x, 2), conds);
    }
    if (kg_op(g, x) == KN_OP_CAST && kg_dtype(g, kg_at(g, x, 0)) == KN_BOOL) {
        *rest = kg_int(g, kg_dtype(g, x), 1);
        return collect(g, kg_at(g, x, 0), conds);
    }
    if (kg_op(g, x) != KN_OP_MUL || kg_dtype(g, x) == KN_BOOL) return false;
    for (uint32_t k = 0; k < 2; k++) {
        kl_conds part = {.n = 0};
        kn_ref   inner;
        int      op = kg_op(g, kg_at(g, x, k));
        if ((op == KN_OP_CAST || op == KN_OP_WHERE || op == KN_OP_LOAD) &&
            split_gate(g, kg_at(g, x, k), &part, &inner)) {
            *conds = part;
            *rest  = kg_is_const(g, inner, 1) ? kg_at(g, x, 1 - k) : kg_op2(g, KN_OP_MUL, inner, kg_at(g, x, 1 - k));
            return true;
        }
    }
    return false;
}

/* The integer below casts that keep every value it can have. */
static kn_ref below_casts(const kn_graph *g, kn_ref x) {
    while (kg_op(g, x) == KN_OP_CAST && kn_is_int(kg_dtype(g, kg_at(g, x, 0)))) {
        kn_ref s = kg_at(g, x, 0);
        if (kg_min(g, s) < kn_dtypes[kg_dtype(g, x)].min || kg_max(g, s) > kn_dtypes[kg_dtype(g, x)].max) break;
        x = s;
    }
    return x;
}

/* a == b solved for r: *value = e with r == e. */
static bool solve_equal(kn_graph *g, kn_ref c, kn_ref r, kn_ref *value) {
    kn_ref cmp = c, a, b;
    if (kg_op(g, c) == KN_OP_NOT) cmp = kg_at(g, c, 0);
    if (kg_op(g, cmp) != (cmp == c ? KN_OP_CMPEQ : KN_OP_CMPNE) || !kn_is_int(kg_dtype(g, kg_at(g, cmp, 0))))
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        a = below_casts(g, kg_at(g, cmp, k));
        b = kg_at(g, cmp, 1 - k);
        kn_affine f;
        if (!kg_depends(g, a, r) || kg_depends(g, b, r) || kg_dtype(g, a) != KN_INDEX || !kg_affine(g, a, &f)) continue;
        int64_t coef = kn_affine_coef(&f, r);
        if (coef != 1 && coef != -1) continue;
        if (kg_dtype(g, b) == KN_U64 && kg_max(g, b) == INT64_MAX) continue;
        for (int t = 0; t < f.n; t++) { /* the rest of a, negated */
            if (f.atom[t] == r) f.coef[t] = 0;
            else if (kg_depends(g, f.atom[t], r)) coef = 0;
            else f.coef[t] = -f.coef[t];
        }
        if (!coef) continue;
        f.base = -f.base;
        int n = 0;
        for (int t = 0; t < f.n; t++)
            if (f.coef[t]) f.atom[n] = f.atom[t], f.coef[n++] = f.coef[t];
        f.n        = n;
        kn_ref sum = kg_op2(g, KN_OP_ADD, kg_cast(g, b, KN_INDEX), kg_from_affine(g, &f));
        *value     = coef == 1 ? sum : kg_op2(g, KN_OP_MUL, sum, kg_idx(g, -1));
        return *value != 0;
    }
    return false;
}

static kn_ref conjunction(kn_graph *g, const kl_conds *conds, int without) {
    kn_ref all = 0;
    for (int i = 0; i < conds->n; i++)
        if (i != without) all = all ? kg_op2(g, KN_OP_AND, all, conds->c[i]) : conds->c[i];
    return all;
}

/* Loads in x that depend on r, gated by `gate`. */
static kn_ref gate_loads(kn_graph *g, kn_ref x, kn_ref r, kn_ref gate) {
    kn_ref  *order, *from = NULL, *to = NULL;
    uint32_t n;
    size_t   fc = 0, tc = 0;
    int      k = 0;
    if (!kg_reach(g, &x, 1, &order, &n)) return kn_oom(kg_fault(g)), 0;
    for (uint32_t i = 0; i < n && x; i++) {
        kn_ref l = order[i];
        if (kg_op(g, l) != KN_OP_LOAD || !kg_depends(g, l, r)) continue;
        kn_ref at = kg_at(g, l, 0), own = kg_nsrc(g, l) == 3 ? kg_at(g, l, 2) : 0;
        if (!KN_GROW(kg_alloc(g), from, fc, (size_t)k + 1) || !KN_GROW(kg_alloc(g), to, tc, (size_t)k + 1)) {
            kn_oom(kg_fault(g));
            x = 0;
            break;
        }
        from[k] = l;
        to[k++] = kg_load_gated(g, at, own ? kg_at(g, l, 1) : kg_int(g, kg_dtype(g, l), 0),
                                own ? kg_op2(g, KN_OP_AND, own, gate) : gate);
    }
    if (x && k) x = kg_substitute(g, x, from, to, k);
    kn_free(kg_alloc(g), from, fc * sizeof *from);
    kn_free(kg_alloc(g), to, tc * sizeof *to);
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return x;
}

/* a < r or r < b with a constant other side: narrows [*lo, *hi). */
static bool narrow_bounds(const kn_graph *g, kn_ref c, kn_ref r, int64_t *lo, int64_t *hi) {
    kn_ref    inner = unwrap_not(g, c), cmp = inner ? inner : c;
    kn_affine a, b;
    if (kg_op(g, cmp) != KN_OP_CMPLT || kg_dtype(g, kg_at(g, cmp, 0)) != KN_INDEX) return false;
    if (!kg_affine(g, kg_at(g, cmp, 0), &a) || !kg_affine(g, kg_at(g, cmp, 1), &b)) return false;
    if (a.n + b.n != 1 || (a.n ? a.atom[0] : b.atom[0]) != r) return false;
    int64_t k = a.n ? a.coef[0] : b.coef[0];
    if (k != 1) return false;
    int64_t bound = a.n ? b.base - a.base : a.base - b.base; /* r < bound, or bound < r */
    if (a.n != 0 && !inner) *hi = KN_MIN(*hi, bound);      /* r < bound */
    else if (a.n != 0) *lo = KN_MAX(*lo, bound);           /* not: bound <= r */
    else if (!inner) *lo = KN_MAX(*lo, bound + 1);         /* bound < r */
    else *hi = KN_MIN(*hi, bound + 1);                     /* not: r <= bound */
    return true;
}

/* The sum without range k, or with ranges[k] replaced. */
static kn_ref close_rest(kn_graph *g, kn_ref n, kn_ref x, uint32_t k, kn_ref other) {
    kn_ref   src[KN_MAX_RANK * 2];
    uint32_t m = 0;
    src[m++]   = x;
    for (uint32_t i = 1; i < kg_nsrc(g, n); i++) {
        if (i == k && !other) continue;
        src[m++] = i == k ? other : kg_at(g, n, i);
    }
    return m == 1 ? x : kg_with_src(g, n, src, m);
}

kn_ref kl_gate_to_bounds(kn_rw *rw, kn_ref n) {
    kn_graph *g     = rw->g;
    kl_conds  conds = {.n = 0};
    kn_ref    rest, value;
    if (kg_nsrc(g, n) < 2 || kg_nsrc(g, n) > KN_MAX_RANK || !split_gate(g, kg_at(g, n, 0), &conds, &rest)) return 0;
    kn_ref zero = kg_int(g, kg_dtype(g, n), 0);
    for (uint32_t k = 1; k < kg_nsrc(g, n); k++) {
        kn_ref r = kg_at(g, n, k), bound = kg_at(g, r, 0);
        for (int i = 0; i < conds.n; i++) {
            if (!kg_depends(g, conds.c[i], r) || !solve_equal(g, conds.c[i], r, &value)) continue;
            kn_ref in   = kg_op2(g, KN_OP_AND, kg_op2(g, KN_OP_CMPLT, kg_idx(g, -1), value),
                                 kg_op2(g, KN_OP_CMPLT, value, bound));
            kn_ref more = conjunction(g, &conds, i), gate = more ? kg_op2(g, KN_OP_AND, in, more) : in;
            kn_ref x    = gate_loads(g, rest, r, gate);
            if (x) x = kg_op3(g, KN_OP_WHERE, gate, x, zero);
            return x ? close_rest(g, n, kg_substitute(g, x, &r, &value, 1), k, 0) : 0;
        }
        if (kg_op(g, bound) != KN_OP_CONST) continue;
        int64_t lo = 0, hi = kg_const_int(g, bound), was = hi;
        for (int i = conds.n; i-- > 0;) {
            if (!narrow_bounds(g, conds.c[i], r, &lo, &hi)) continue;
            conds.c[i] = conds.c[--conds.n];
        }
        if (lo == 0 && hi == was) continue;
        if (lo >= hi) return zero;
        kn_ref all   = conjunction(g, &conds, -1);
        kn_ref fresh =
            kg_range(g, kg_idx(g, hi - lo), kg_field(g, r, KN_F_RANGE_id), (int)kg_field(g, r, KN_F_RANGE_type));
        kn_ref at    = lo ? kg_op2(g, KN_OP_ADD, fresh, kg_idx(g, lo)) : fresh;
        kn_ref x     = all ? kg_op3(g, KN_OP_WHERE, all, rest, zero) : rest;
        return close_rest(g, n, kg_substitute(g, x, &r, &at, 1), k, fresh);
    }
    return 0;
}

/* ---- scatter ------------------------------------------------------------------------------------------------- */

enum { MAX_LOOPS = 12 };

typedef struct kl_loops { /* a copy of some loops under fresh ids */
    kn_ref from[MAX_LOOPS], to[MAX_LOOPS];
    int    n;
} kl_loops;

static bool copy_loop(kn_graph *g, kl_loops *l, kn_ref r, int64_t id, int type) {
    if (l->n == MAX_LOOPS) return false;
    l->from[l->n] = r;
    l->to[l->n]   = kg_range(g, kg_at(g, r, 0), id, type);
    return l->to[l->n++] != 0;
}

static int64_t top_id(const kn_graph *g, kn_ref end, kn_ref sum) {
    int64_t top = 0;
    for (uint32_t k = 1; k < kg_nsrc(g, end); k++) top = KN_MAX(top, kg_field(g, kg_at(g, end, k), KN_F_RANGE_id));
    for (uint32_t k = 1; k < kg_nsrc(g, sum); k++) top = KN_MAX(top, kg_field(g, kg_at(g, sum, k), KN_F_RANGE_id));
    return top;
}

/* The loops l (all but v, outermost) around: set p[v] to 0 for all v; then for each i: p[e] += x where e is in range.
 * The i loops carry a dependence through p, which their type REDUCE under an END says. */
static kn_ref build_scatter(kn_graph *g, kn_ref end, kn_ref v, kn_ref e, kn_ref rest, kn_ref more) {
    kn_ref store = kg_at(g, end, 0), at = kg_at(g, store, 0), sum = kg_at(g, store, 1), p = kg_at(g, at, 0),
           flat   = kg_at(g, at, 1);
    kl_loops fill = {.n = 0}, carry = {.n = 0};
    kn_ref   outer[MAX_LOOPS], zero = kg_int(g, kg_dtype(g, sum), 0), bound = kg_at(g, v, 0);
    int      nouter = 0;
    int64_t  id     = top_id(g, end, sum) + 1;
    for (uint32_t k = 1; k < kg_nsrc(g, end); k++)
        if (kg_at(g, end, k) != v) outer[nouter++] = kg_at(g, end, k);
    if (!copy_loop(g, &fill, v, id++, KN_AXIS_LOOP)) return 0;
    for (uint32_t k = 1; k < kg_nsrc(g, sum); k++)
        if (!copy_loop(g, &carry, kg_at(g, sum, k), id++, KN_AXIS_REDUCE)) return 0;
    kn_ref cleared = kg_end(
        g, kg_store(g, kg_index(g, p, (kn_ref[]){kg_substitute(g, flat, fill.from, fill.to, fill.n)}, 1), zero, 0),
        fill.to, 1);
    kn_ref gate    = kg_op2(g, KN_OP_AND, kg_op2(g, KN_OP_CMPLT, kg_idx(g, -1), e), kg_op2(g, KN_OP_CMPLT, e, bound));
    if (more) gate = kg_op2(g, KN_OP_AND, gate, more);
    kn_ref x    = gate_loads(g, rest, v, gate), deps[MAX_LOOPS * 2 + 1] = {cleared};
    int     nd   = 1;
    for (int i = 0; i < carry.n; i++) deps[nd++] = carry.to[i];
    for (int i = 0; i < nouter; i++) deps[nd++] = outer[i];
    kn_ref where = x ? kg_substitute(g, flat, &v, &e, 1) : 0;
    if (!where) return 0;
    x              = kg_substitute(g, x, &v, &e, 1);
    x              = kg_substitute(g, x, carry.from, carry.to, carry.n);
    where          = kg_substitute(g, where, carry.from, carry.to, carry.n);
    gate           = kg_substitute(g, gate, carry.from, carry.to, carry.n);
    kn_ref address = kg_index(g, kg_after(g, p, deps, nd), &where, 1);
    kn_ref added   = kg_op2(g, KN_OP_ADD, kg_load_gated(g, address, zero, gate), x);
    kn_ref body    = kg_end(g, kg_store(g, address, added, gate), carry.to, carry.n);
    return kg_end(g, body, outer, nouter);
}

kn_ref kl_scatter(kn_rw *rw, kn_ref n) {
    kn_graph *g     = rw->g;
    kn_ref    store = kg_at(g, n, 0), sum = kg_at(g, store, 1), rest, e;
    kl_conds  conds = {.n = 0};
    if (kg_nsrc(g, store) != 2 || kg_nsrc(g, n) > MAX_LOOPS || kg_nsrc(g, sum) < 2 || kg_nsrc(g, sum) > MAX_LOOPS)
        return 0;
    if (kg_nsrc(g, kg_at(g, store, 0)) != 2 || kg_op(g, kg_at(g, kg_at(g, store, 0), 0)) != KN_OP_PARAM) return 0;
    if (!split_gate(g, kg_at(g, sum, 0), &conds, &rest)) return 0;
    for (uint32_t k = 1; k < kg_nsrc(g, n); k++) {
        kn_ref v = kg_at(g, n, k);
        for (int i = 0; i < conds.n; i++) {
            if (!kg_depends(g, conds.c[i], v) || !solve_equal(g, conds.c[i], v, &e)) continue;
            bool moves = false; /* e goes with the sum: else every v would be visited once all the same */
            for (uint32_t s = 1; s < kg_nsrc(g, sum); s++) moves |= kg_depends(g, e, kg_at(g, sum, s));
            if (moves) return build_scatter(g, n, v, e, rest, conjunction(g, &conds, i));
        }
    }
    return 0;
}
