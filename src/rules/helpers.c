/* helpers.c - rules on single ops: folding, bounds, canonical order of operands. */
#include "rules/helpers.h"
#include "rewrite/match.h"

#include <math.h>
#include <string.h>

kn_ref kn_rule_fold(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    return kg_fold_consts(g, kg_op(g, n), kg_dtype(g, n), kg_src(g, n), kg_nsrc(g, n));
}

kn_ref kn_rule_bounds(kn_rw *rw, kn_ref n) {
    kn_graph *g  = rw->g;
    int64_t   v  = kg_min(g, n);
    int       dt = kg_dtype(g, n);
    if (v != kg_max(g, n) || kn_is_float(dt) || (dt == KN_U64 && v == INT64_MAX)) return 0;
    return kg_int(g, dt, v);
}

kn_ref kn_rule_order(kn_rw *rw, kn_ref n) {
    kn_graph      *g  = rw->g;
    const kn_node *nd = kg_node(g, n);
    kn_ref         a = nd->s.src[0], b = nd->s.src[1];
    bool           ca = kg_op(g, a) == KN_OP_CONST, cb = kg_op(g, b) == KN_OP_CONST;
    if (ca == cb ? a <= b : cb) return 0;
    if (nd->dtype == KN_INDEX && nd->op == KN_OP_ADD) return 0; /* sums of indices are ordered by their affine form */
    if ((nd->op == KN_OP_MAX || nd->op == KN_OP_MIN) && kn_is_float(nd->dtype)) {
        /* of two zeros the first is taken, and two NaNs need not be the same */
        if (!ca || !(kg_const_float(g, a) < 0 || kg_const_float(g, a) > 0)) return 0;
    }
    return kg_op2(g, nd->op, b, a);
}

kn_ref kn_rule_div_const(kn_rw *rw, kn_ref n) {
    kn_graph *g  = rw->g;
    int       dt = kg_dtype(g, n), exp;
    double    c  = kg_const_float(g, kg_at(g, n, 1));
    if (!isfinite(c) || fabs(frexp(c, &exp)) != 0.5) return 0;
    kn_scalar r = kn_cast_scalar((kn_scalar){.f = 1.0 / c}, KN_F64, dt);
    if (r.f == 0 || r.f * c != 1) return 0;
    return kg_op2(g, KN_OP_MUL, kg_at(g, n, 0), kg_float(g, dt, r.f));
}

kn_ref kn_rule_sub_const(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    x = kg_at(g, n, 0);
    double    c = kg_const_float(g, kg_at(g, n, 1));
    if (isnan(c) || kg_op(g, x) == KN_OP_CONST) return 0;
    return kg_op2(g, KN_OP_ADD, x, kg_float(g, kg_dtype(g, n), -c));
}

bool kn_rule_is_one(kn_rw *rw, kn_ref a) {
    return kg_numel(rw->g, a) == 1;
}

int64_t kn_rule_in_row(kn_rw *rw, kn_ref a) {
    int            rank;
    const int64_t *dims = kg_shape(rw->g, a, &rank);
    return rank ? dims[rank - 1] : 1;
}

bool kn_rule_is_of_rows(kn_rw *rw, kn_ref a) {
    return kn_rule_in_row(rw, a) == 1;
}

bool kn_rule_spreads(kn_rw *rw, kn_ref a, kn_ref b) {
    return (kg_numel(rw->g, a) == 1) != (kg_numel(rw->g, b) == 1);
}

bool kn_rule_starts(kn_rw *rw, kn_ref a, kn_ref b, kn_ref c) {
    enum { FEW = 64 };
    int64_t nb = kg_numel(rw->g, b), nc = kg_numel(rw->g, c);
    return kg_numel(rw->g, a) == 1 && nb > 1 && nc > 1 && nb <= FEW && nc <= FEW && nb * nc <= FEW;
}

bool kn_rule_meets(kn_rw *rw, kn_ref a, kn_ref b, kn_ref c) {
    kn_graph *g     = rw->g;
    int       dt    = kg_dtype(g, c);
    int64_t   first = kg_min(g, a), last = kg_max(g, a), lo, hi;
    if (kn_dsize(dt) > 4 || kg_numel(g, a) != 1 || kg_numel(g, b) == 1 || kg_numel(g, c) != 1) return false;
    if (!kn_dtype_fits(first, dt) || !kn_dtype_fits(last, dt)) return false; /* so do differences in 64 bits */
    if (!kn_add_ok(first, kg_min(g, b), &lo) || !kn_add_ok(last, kg_max(g, b), &hi)) return false;
    return kn_dtype_fits(lo, dt) && kn_dtype_fits(hi, dt) && kn_dtype_fits(kg_min(g, c) - last, dt) &&
           kn_dtype_fits(kg_max(g, c) - first, dt);
}

bool kn_rule_in_common(kn_rw *rw, kn_ref b, kn_ref c, kn_ref a) {
    int            rank, own;
    const int64_t *dims = kg_shape(rw->g, b, &rank), *of = kg_shape(rw->g, a, &own);
    if (!kg_same_shape(rw->g, b, c)) return false;
    for (int k = 0; k < rank && own == rank; k++)
        if (of[k] > dims[k]) return true;
    return false;
}
