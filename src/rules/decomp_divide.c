/* decomp_divide.c - quotients and remainders of integers by way of floats, for vectors that have no division but of
 * floats: of one and two bytes by f32, of four and eight by f64. Both floor; x / 0 = 0, x mod 0 = x.
 *
 * A float has such integers exactly, and their rounded quotient lies on the right side of every whole number. By a
 * constant c it is a product with 1 / c, of x + 1/2: what is rounded cannot reach a whole number then. */
#include "rules/decomp.h"

#include <math.h>

typedef kn_ref R;

static bool is_number(const kn_graph *g, R n) {
    return kg_op(g, n) == KN_OP_CONST && kg_const_int(g, n);
}

static R quotient(kn_graph *g, int fl, R fa, R fb, R b) {
    double by = is_number(g, b) ? (double)kg_const_int(g, b) : 0;
    if (by == 0) return kg_op2(g, KN_OP_DIV, fa, fb);
    return xp_fma(g, fa, kg_float(g, fl, 1 / by), kg_float(g, fl, 0.5 / fabs(by)));
}

/* t is x without its fraction; the whole number below. */
static R below(kn_graph *g, R t, R x) {
    return xp_if(g, xp_lt(g, x, t), xp_sub(g, t, kg_float(g, kg_dtype(g, x), 1)), t);
}

/* A whole number of a float as an integer of four bytes: the low bits of what has its units in the last bit. The least
 * i32 by -1 wraps. */
static R as_whole(kn_graph *g, R x, R node, int wide) {
    if (kg_dtype(g, x) == KN_F32) return xp_as(g, xp_add(g, x, xp_f32(g, 0x1.8p23)), KN_I32);
    R i = xp_as(g, xp_add(g, x, kg_float(g, KN_F64, 0x1.8p52)), KN_I64);
    if (wide != KN_INDEX) return kg_cast(g, i, wide);
    R low = kg_op2(g, KN_OP_MAX, kg_cast(g, i, KN_I32), xp_i32(g, kg_min(g, node))); /* so that bounds stay known */
    return kg_cast(g, kg_op2(g, KN_OP_MIN, low, xp_i32(g, kg_max(g, node))), KN_INDEX);
}

/* IDIV or MOD of integers of up to four bytes, or of indices that fit them. */
kn_ref kn_decomp_divide(kn_rw *rw, kn_ref node) {
    kn_graph *g   = rw->g;
    int       dt  = kg_dtype(g, node);
    bool      mod = kg_op(g, node) == KN_OP_MOD, small = kn_dsize(dt) < 4, sign = kn_dtypes[dt].kind != 'U';
    int       wide = small ? KN_I32 : dt, fl = small ? KN_F32 : KN_F64;
    R         a = kg_cast(g, kg_at(g, node, 0), wide), b = kg_cast(g, kg_at(g, node, 1), wide);
    R         fa = kg_cast(g, a, fl), fb = kg_cast(g, b, fl), q = quotient(g, fl, fa, fb, kg_at(g, node, 1));
    R         t = kg_op1(g, KN_OP_TRUNC, q);
    q           = sign ? below(g, t, q) : t;
    if (mod) q = xp_fma(g, kg_op1(g, KN_OP_NEG, q), fb, fa); /* exact */
    q = as_whole(g, q, node, wide);
    if (!is_number(g, kg_at(g, node, 1)))
        q = xp_if(g, xp_ne(g, b, kg_int(g, wide, 0)), q, mod ? a : kg_int(g, wide, 0));
    return kg_cast(g, q, dt);
}

/* IDIV or MOD of i64, which an f64 has rounded. The quotient of what is rounded is off by up to 2^12; a - q b, which
 * does not depend on what q wraps to, is divided once more, to the nearest number: what is left then is at most half of
 * b, or on the wrong side of 0. */
kn_ref kn_decomp_divide_wide(kn_rw *rw, kn_ref node) {
    kn_graph *g   = rw->g;
    R         a = kg_at(g, node, 0), b = kg_at(g, node, 1), zero = kg_int(g, KN_I64, 0), by = kg_cast(g, b, KN_F64), s;
    bool      mod = kg_op(g, node) == KN_OP_MOD;
    R         q   = kg_cast(g, kg_op2(g, KN_OP_DIV, kg_cast(g, a, KN_F64), by), KN_I64);
    R         r   = xp_sub(g, a, xp_mul(g, q, b));
    xp_nearest(g, kg_op2(g, KN_OP_DIV, kg_cast(g, r, KN_F64), by), &s);
    s      = xp_sub(g, s, kg_int(g, KN_I64, 0x4338000000000000)); /* 1.5 * 2^52 */
    r      = xp_sub(g, r, xp_mul(g, s, b));
    R less = xp_and(g, xp_ne(g, r, zero), xp_lt(g, xp_xor(g, r, b), zero)); /* the whole number below */
    q      = xp_add(g, q, s);
    q      = mod ? xp_if(g, less, xp_add(g, r, b), r) : xp_if(g, less, xp_sub(g, q, kg_int(g, KN_I64, 1)), q);
    return xp_if(g, xp_ne(g, b, zero), q, mod ? a : zero);
}
