/* decomp_round.c - square root and rounding towards zero of f32, for targets without the instructions: what the dialect
 * says to the last bit, in f32 and 32-bit integers. */
#include "rules/decomp.h"

#include <math.h>

typedef kn_ref R;

/* |x| + 2^23 has no fraction; where that rounded up, one less. The sign, of zero too, is x's. */
kn_ref kn_decomp_trunc(kn_rw *rw, kn_ref node) {
    kn_graph *g = rw->g;
    R         x = kg_at(g, node, 0), ax = xp_keep(g, x, 0x7fffffff), two23 = xp_f32(g, 0x1p23);
    R         t = xp_sub(g, xp_add(g, ax, two23), two23);
    t           = xp_if(g, xp_lt(g, ax, t), xp_sub(g, t, xp_f32(g, 1)), t);
    t           = xp_if(g, xp_lt(g, ax, two23), t, ax);
    R sign      = xp_and(g, xp_as(g, x, KN_U32), xp_u32(g, 0x80000000));
    return xp_as(g, xp_or(g, xp_as(g, t, KN_U32), sign), KN_F32);
}

/* x = M 2^(2 k), M of 47 or 48 bits, so that its root Y has 24. Y is approximated in f32 (a first guess from the bits,
 * Newton's steps for the inverse root, one of Heron's) to within one, and put right by M - Y^2, of which 32 bits are
 * enough: Y is one too small where it exceeds Y, one too large where it is -Y or less. No root lies in the middle
 * between two floats. */
kn_ref kn_decomp_sqrt(kn_rw *rw, kn_ref node) {
    kn_graph *g = rw->g;
    R         x = kg_at(g, node, 0), zero = xp_f32(g, 0), one = xp_u32(g, 1), hidden = xp_u32(g, 0x800000);
    R         tiny = xp_lt(g, x, xp_f32(g, 0x1p-126));
    R         bits = xp_as(g, xp_if(g, tiny, xp_mul(g, x, xp_f32(g, 0x1p24)), x), KN_U32);
    R         e = xp_shr(g, bits, xp_u32(g, 23)), even = xp_xor(g, xp_and(g, e, one), one);
    R         low = xp_and(g, bits, xp_u32(g, 0x7fffff));
    R         m   = xp_shl(g, xp_shl(g, xp_or(g, low, hidden), xp_u32(g, 23)), even);
    R         v   = xp_or(g, low, xp_shl(g, xp_add(g, even, xp_u32(g, 127)), xp_u32(g, 23))); /* M 2^-46 */
    R         r   = xp_as(g, xp_sub(g, xp_u32(g, 0x5f375a86), xp_shr(g, v, one)), KN_F32);
    v             = xp_as(g, v, KN_F32);
    R half        = xp_mul(g, v, xp_f32(g, -0.5));
    for (int i = 0; i < 2; i++) r = xp_mul(g, r, xp_fma(g, half, xp_mul(g, r, r), xp_f32(g, 1.5)));
    R y = xp_mul(g, v, r);
    y   = xp_mul(g, xp_add(g, y, kg_op2(g, KN_OP_DIV, v, y)), xp_f32(g, 0.5));
    y   = xp_clamp(g, y, 1, 0x1.fffffep0);
    R n = xp_or(g, xp_and(g, xp_as(g, y, KN_U32), xp_u32(g, 0x7fffff)), hidden);
    R d = xp_as(g, xp_sub(g, m, xp_mul(g, n, n)), KN_I32), ni = xp_as(g, n, KN_I32),
      minus = xp_sub(g, xp_i32(g, 0), ni);
    R up    = xp_if(g, xp_lt(g, ni, d), xp_u32(g, 1), xp_u32(g, 0));
    R down  = xp_if(g, xp_lt(g, minus, d), xp_u32(g, 0), xp_u32(g, 1));
    n       = xp_sub(g, xp_sub(g, xp_add(g, n, up), down), hidden);
    e       = xp_shl(g, xp_shr(g, xp_add(g, e, xp_u32(g, 127)), one), xp_u32(g, 23));
    R root  = xp_mul(g, xp_as(g, xp_add(g, e, n), KN_F32), xp_if(g, tiny, xp_f32(g, 0x1p-12), xp_f32(g, 1)));
    R some  = xp_if(g, xp_lt(g, x, xp_f32(g, INFINITY)), root, x);
    return xp_if(g, xp_lt(g, zero, x), some, xp_if(g, xp_eq(g, x, zero), x, xp_f32(g, NAN)));
}
