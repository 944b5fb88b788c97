/* decomp.c - exp2 and log2 of f32 by range reduction and a polynomial, in ops that every vector unit has.
 *
 * Both are within about 2 units in the last place over the whole range; infinities, NaN, zeros and subnormal numbers
 * come out as libm has them. */
#include "rules/decomp.h"

#include <math.h>

typedef kn_ref R;

static R f32(kn_graph *g, double v) { return kg_float(g, KN_F32, v); }
static R i32(kn_graph *g, int64_t v) { return kg_int(g, KN_I32, v); }

/* c[0] + c[1] x + ...: Horner's scheme, fused. */
static R polynomial(kn_graph *g, R x, const double *c, int n) {
    R sum = f32(g, c[n - 1]);
    for (int i = n - 1; i-- > 0;) sum = kg_op3(g, KN_OP_MULACC, sum, x, f32(g, c[i]));
    return sum;
}

/* 2 to the integer n, |n| < 127, by its bits. */
static R power_of_two(kn_graph *g, R n) {
    return kg_bitcast(g, kg_op2(g, KN_OP_SHL, kg_op2(g, KN_OP_ADD, n, i32(g, 127)), i32(g, 23)), KN_F32);
}

/* 2^x = 2^n 2^f with n whole and |f| <= 1/2. 2^n in two factors, so that subnormal results round once and overflow is
 * infinity. The polynomial interpolates 2^f at Chebyshev nodes: relative error 2.6e-9. */
kn_ref kn_decomp_exp2(kn_rw *rw, kn_ref node) {
    static const double c[] = {1, 0.693147207, 0.240226509, 0.0555032723, 0.00961805668, 0.00134004282, 0.000154614447};
    kn_graph *g = rw->g;
    R x    = kg_op2(g, KN_OP_MIN, kg_op2(g, KN_OP_MAX, kg_at(g, node, 0), f32(g, -152)), f32(g, 130));
    R half = kg_op3(g, KN_OP_WHERE, kg_op2(g, KN_OP_CMPLT, x, f32(g, 0)), f32(g, -0.5), f32(g, 0.5));
    R n    = kg_op1(g, KN_OP_TRUNC, kg_op2(g, KN_OP_ADD, x, half));
    R p    = polynomial(g, kg_op2(g, KN_OP_SUB, x, n), c, KN_COUNT(c));
    R ni   = kg_cast(g, n, KN_I32), n1 = kg_op2(g, KN_OP_SHR, ni, i32(g, 1)), n2 = kg_op2(g, KN_OP_SUB, ni, n1);
    return kg_op2(g, KN_OP_MUL, kg_op2(g, KN_OP_MUL, p, power_of_two(g, n1)), power_of_two(g, n2));
}

/* x = m 2^e with m = 1 + d in [sqrt(1/2), sqrt(2)). With s = d/(2 + d): ln m = 2 (s + s^3/3 + s^5/5 + ...), and since
 * 2 s = d - s d, ln m = d - s (d - r), r = 2 (s^2/3 + s^4/5 + ...): what is rounded is only the small part. */
kn_ref kn_decomp_log2(kn_rw *rw, kn_ref node) {
    static const double c[] = {2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9};
    kn_graph *g    = rw->g;
    R         x    = kg_at(g, node, 0), zero = f32(g, 0);
    R         tiny = kg_op2(g, KN_OP_CMPLT, x, f32(g, 0x1p-126));
    R         bits = kg_bitcast(g, kg_op3(g, KN_OP_WHERE, tiny, kg_op2(g, KN_OP_MUL, x, f32(g, 0x1p23)), x), KN_I32);
    R         e    = kg_op2(g, KN_OP_SHR, kg_op2(g, KN_OP_SUB, bits, i32(g, 0x3f3504f3)), i32(g, 23));
    R         m    = kg_bitcast(g, kg_op2(g, KN_OP_SUB, bits, kg_op2(g, KN_OP_SHL, e, i32(g, 23))), KN_F32);
    R         d = kg_op2(g, KN_OP_SUB, m, f32(g, 1)), s = kg_op2(g, KN_OP_DIV, d, kg_op2(g, KN_OP_ADD, d, f32(g, 2)));
    R         z    = kg_op2(g, KN_OP_MUL, s, s), r = kg_op2(g, KN_OP_MUL, z, polynomial(g, z, c, KN_COUNT(c)));
    R         ln   = kg_op2(g, KN_OP_SUB, d, kg_op2(g, KN_OP_MUL, s, kg_op2(g, KN_OP_SUB, d, r)));
    R         ef   = kg_op2(g, KN_OP_ADD, kg_cast(g, e, KN_F32), kg_op3(g, KN_OP_WHERE, tiny, f32(g, -23), zero));
    R         y    = kg_op3(g, KN_OP_MULACC, ln, f32(g, 1.4426950408889634), ef);
    R         inf  = f32(g, INFINITY);
    R         low  = kg_op3(g, KN_OP_WHERE, kg_op2(g, KN_OP_CMPEQ, x, zero), f32(g, -INFINITY), f32(g, NAN));
    R         high = kg_op3(g, KN_OP_WHERE, kg_op2(g, KN_OP_CMPLT, x, inf), y, inf);
    return kg_op3(g, KN_OP_WHERE, kg_op2(g, KN_OP_CMPLT, zero, x), high, low);
}
