/* decomp_pow.c - powers of f32: 2^(y log2 |x|), the logarithm in two parts of 12 and 24 bits.
 *
 * An error in y log2 |x| is one of the result, and up to 150 times as large in proportion, so the logarithm is worth 36
 * bits. It is computed as FDLIBM's powf does it (Sun Microsystems, 1993): in parts whose leading one has 12 bits, so
 * that products of leading parts are exact without a fused multiply-add. */
#include "rules/decomp.h"

#include <math.h>

typedef kn_ref R;

static R pow_lead(kn_graph *g, R x) {
    return xp_keep(g, x, 0xfffff000);
} /* its first 12 bits */

/* log2 of a positive finite x as *hi + *lo, *hi of 12 bits. With m = 1 + d, s = d/(2 + d) = atanh^-1: log2 m =
 * 2/(3 ln 2) s (3 + s^2 + s^4 (3/5 + 3/7 s^2 + ...)). */
static void pow_log2(kn_graph *g, R x, R *hi, R *lo) {
    static const double c[]   = {0.600002297, 0.428205507, 0.351315938}; /* minimax: 2^-36.8 of the whole */
    static const double scale = 0.961796693925975549, lead = 0x1.ec6p-1; /* 2/(3 ln 2) and its first 12 bits */
    R                   e, m = kn_decomp_split(g, x, &e), one = xp_f32(g, 1), three = xp_f32(g, 3);
    R                   d = xp_sub(g, m, one), t = xp_add(g, m, one), t_lost = xp_sub(g, m, xp_sub(g, t, one));
    R                   inverse = kg_op1(g, KN_OP_RECIP, t), s = xp_mul(g, d, inverse);
    R                   s1 = pow_lead(g, s), t1 = pow_lead(g, t), t2 = xp_add(g, xp_sub(g, t, t1), t_lost);
    R s2 = xp_mul(g, xp_sub(g, xp_sub(g, d, xp_mul(g, s1, t1)), xp_mul(g, s1, t2)), inverse); /* s = s1 + s2 */
    R z = xp_mul(g, s, s), z1 = xp_mul(g, s1, s1);
    R r  = xp_fma(g, xp_mul(g, z, z), xp_polynomial(g, z, c, KN_COUNT(c)), xp_mul(g, s2, xp_add(g, s1, s)));
    R u1 = pow_lead(g, xp_add(g, xp_add(g, three, z1), r)), u2 = xp_sub(g, r, xp_sub(g, xp_sub(g, u1, three), z1));
    R p = xp_mul(g, s1, u1), q = xp_fma(g, s2, u1, xp_mul(g, u2, s)); /* s u = p + q */
    R v1 = pow_lead(g, xp_add(g, p, q)), v2 = xp_sub(g, q, xp_sub(g, v1, p));
    R w1 = xp_mul(g, v1, xp_f32(g, lead)), w2 = xp_fma(g, v1, xp_f32(g, scale - lead), xp_mul(g, v2, xp_f32(g, scale)));
    *hi = pow_lead(g, xp_add(g, xp_add(g, w1, w2), e));
    *lo = xp_sub(g, w2, xp_sub(g, xp_sub(g, *hi, e), w1));
}

/* |x|^y for finite |x| > 0 and any y but NaN. */
static R pow_magnitude(kn_graph *g, R ax, R y) {
    R log1, log2, zero = xp_f32(g, 0), n;
    pow_log2(g, ax, &log1, &log2);
    y    = xp_clamp(g, y, -0x1p32, 0x1p32); /* further out nothing changes, and no product overflows */
    R y1 = pow_lead(g, y), hi = xp_mul(g, y1, log1);
    R lo = xp_fma(g, y, log2, xp_mul(g, xp_sub(g, y, y1), log1)), sum = xp_add(g, hi, lo);
    R all = xp_clamp(g, sum, -200, 200), whole = xp_nearest(g, all, &n);
    R f = xp_if(g, xp_eq(g, all, sum), xp_add(g, xp_sub(g, hi, whole), lo), zero);
    return kn_decomp_scale(g, kn_decomp_exp2_part(g, f), n);
}

/* Whether y is whole, and odd. From 2^23 on every f32 is whole, from 2^24 on even. */
static void pow_whole(kn_graph *g, R ay, R *whole, R *odd) {
    R two23 = xp_f32(g, 0x1p23), big = kg_op2(g, KN_OP_CMPGE, ay, two23), sum = xp_add(g, ay, two23);
    R last = xp_and(g, xp_as(g, xp_if(g, big, ay, sum), KN_U32), xp_u32(g, 1));
    *whole = xp_or(g, big, xp_eq(g, xp_sub(g, sum, two23), ay));
    *odd   = xp_and(g, xp_and(g, *whole, xp_ne(g, last, xp_u32(g, 0))), xp_lt(g, ay, xp_f32(g, 0x1p24)));
}

/* The special cases are those of C (annex F.9.4.4). */
kn_ref kn_decomp_pow(kn_rw *rw, kn_ref node) {
    kn_graph *g = rw->g;
    R         x = kg_at(g, node, 0), y = kg_at(g, node, 1), whole, odd;
    R         ax = xp_keep(g, x, 0x7fffffff), ay = xp_keep(g, y, 0x7fffffff), zero = xp_f32(g, 0), one = xp_f32(g, 1);
    R         inf = xp_f32(g, INFINITY), nan = xp_f32(g, NAN), is0 = xp_eq(g, ax, zero), finite = xp_lt(g, ax, inf);
    pow_whole(g, ay, &whole, &odd);
    R r    = pow_magnitude(g, ax, y);
    R edge = xp_if(g, xp_xor(g, is0, xp_lt(g, y, zero)), zero, inf); /* of 0 and infinity */
    r      = xp_if(g, xp_or(g, is0, xp_eq(g, ax, inf)), edge, r);
    R sign = xp_and(g, xp_as(g, x, KN_U32), xp_if(g, odd, xp_u32(g, 0x80000000), xp_u32(g, 0)));
    r      = xp_as(g, xp_xor(g, xp_as(g, r, KN_U32), sign), KN_F32);
    R none = xp_and(g, xp_and(g, xp_lt(g, x, zero), finite), kg_op1(g, KN_OP_NOT, whole));
    none   = xp_or(g, none, xp_or(g, xp_ne(g, x, x), xp_ne(g, y, y)));
    r      = xp_if(g, none, nan, r);
    return xp_if(g, xp_or(g, xp_eq(g, y, zero), xp_eq(g, x, one)), one, r);
}
