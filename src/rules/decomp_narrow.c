/* decomp_narrow.c - f32 rounded to what a narrower float has, to nearest, ties to even, in 32-bit integers: for vectors
 * that hold narrower floats as f32 and have no instruction for this. */
#include "rules/decomp.h"

#include <math.h>

typedef kn_ref R;

/* bf16 has the exponents of f32, f8 has less: what lies below its least normal number is rounded by a sum whose last
 * bit is that of the result, what lies beyond its greatest is NaN (e4m3) or infinite. */
static R rounded(kn_graph *g, R x, int dt) {
    bool    bf = dt == KN_BF16, four = dt == KN_F8E4M3;
    int     drop  = bf ? 16 : four ? 20 : 21; /* bits of the fraction that go */
    int64_t rest  = ((int64_t)1 << drop) - 1;
    double  least = four ? 0x1p-6 : 0x1p-14, fixed = four ? 0x1p14 : 0x1p7, most = four ? 464 : 61440;
    R       bits = xp_as(g, x, KN_I32), sign = xp_and(g, bits, xp_i32(g, INT32_MIN));
    R       all = bf ? bits : xp_xor(g, bits, sign), odd = xp_and(g, xp_shr(g, all, xp_i32(g, drop)), xp_i32(g, 1));
    R       up = xp_add(g, xp_add(g, all, xp_i32(g, rest >> 1)), odd), y = xp_and(g, up, xp_i32(g, ~rest));
    R       keeps = xp_eq(g, x, x);
    if (!bf) {
        R ax = xp_as(g, all, KN_F32), big = xp_f32(g, fixed), low = xp_sub(g, xp_add(g, ax, big), big);
        R fits = kg_op2(g, four ? KN_OP_CMPLE : KN_OP_CMPLT, ax, xp_f32(g, most));
        R z    = xp_if(g, xp_lt(g, ax, xp_f32(g, least)), low, xp_as(g, y, KN_F32));
        if (four)
            keeps = fits;
        else
            z = xp_if(g, fits, z, xp_f32(g, INFINITY));
        y = xp_or(g, xp_as(g, z, KN_I32), sign);
    }
    return xp_if(g, keeps, xp_as(g, y, KN_F32), xp_f32(g, NAN));
}

/* The node that is made of n alone by these ops, first sources; 0: another. */
static R made_of(const kn_graph *g, R n, const int *ops, int count) {
    for (int i = 0; i < count && n; i++) n = kg_op(g, n) == ops[i] ? kg_at(g, n, 0) : 0;
    return n;
}

bool kn_decomp_is_rounded(kn_graph *g, kn_ref x, int dt) {
    static const int other[] = {KN_OP_WHERE, KN_OP_CMPEQ},
                     four[]  = {KN_OP_WHERE, KN_OP_CMPLE, KN_OP_BITCAST, KN_OP_XOR, KN_OP_BITCAST};
    R from = dt == KN_F8E4M3 ? made_of(g, x, four, KN_COUNT(four)) : made_of(g, x, other, KN_COUNT(other));
    return from && kg_dtype(g, from) == KN_F32 && rounded(g, from, dt) == x;
}

/* CAST of f32 to bf16 or f8: of what such a float has already, which is left. */
kn_ref kn_decomp_round(kn_rw *rw, kn_ref node) {
    kn_graph *g  = rw->g;
    R         x  = kg_at(g, node, 0);
    int       dt = kg_dtype(g, node);
    return kn_decomp_is_rounded(g, x, dt) ? 0 : kg_cast(g, rounded(g, x, dt), dt);
}

/* CAST of f64, rounded once: an f32 towards zero whose last bit is set where digits went, lies between the same two
 * narrower floats, and nearer to the same. */
kn_ref kn_decomp_round_f64(kn_rw *rw, kn_ref node) {
    kn_graph *g = rw->g;
    R x = kg_at(g, node, 0), y = kg_cast(g, x, KN_F32), back = kg_cast(g, y, KN_F64);
    R rest = kg_int(g, KN_U64, INT64_MAX); /* all but the sign */
    R size = xp_as(g, xp_and(g, xp_as(g, x, KN_U64), rest), KN_F64);
    R over = xp_lt(g, size, xp_as(g, xp_and(g, xp_as(g, back, KN_U64), rest), KN_F64));
    R bits = xp_as(g, y, KN_U32), one = xp_u32(g, 1), down = xp_if(g, over, xp_sub(g, bits, one), bits);
    R odd  = xp_if(g, xp_ne(g, back, x), xp_or(g, down, one), bits);
    return kg_cast(g, xp_as(g, odd, KN_F32), kg_dtype(g, node));
}

/* CAST of integers of four or eight bytes, rounded once. By way of f32, of all floats but bf16: what f32 rounds is
 * beyond their greatest number. bf16 is made of a float that has all digits, of which large numbers' lowest ones are
 * one that is set where they are not 0: it lies between the same two of bf16, and nearer to the same. */
kn_ref kn_decomp_round_int(kn_rw *rw, kn_ref node) {
    kn_graph *g    = rw->g;
    R         x    = kg_at(g, node, 0);
    int       dt   = kg_dtype(g, x), to = kg_dtype(g, node);
    bool      wide = kn_dsize(dt) == 8;
    int64_t   exact = (int64_t)1 << (wide ? 53 : 24), rest = ((int64_t)1 << (wide ? 12 : 9)) - 1;
    if (to != KN_BF16 || (kg_min(g, x) > -exact && kg_max(g, x) < exact)) return kg_cast(g, kg_cast(g, x, KN_F32), to);
    R zero = kg_int(g, dt, 0), low = xp_and(g, x, kg_int(g, dt, rest));
    R odd  = xp_if(g, xp_ne(g, low, zero), kg_int(g, dt, (rest + 1) / 2), zero);
    R much = xp_lt(g, kg_int(g, dt, exact), x);
    if (kn_dtypes[dt].kind == 'I') much = xp_or(g, much, xp_lt(g, x, kg_int(g, dt, -exact)));
    R all = xp_if(g, much, xp_or(g, xp_xor(g, x, low), odd), x);
    return kg_cast(g, kg_cast(g, all, wide ? KN_F64 : KN_F32), to);
}
