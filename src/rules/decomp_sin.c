/* decomp_sin.c - sine of f32 and f64 over the whole range.
 *
 * The argument is reduced by quarter turns in whole numbers: |x| = m 2^k with m of 24 bits (f64: 53), and of 2/pi just
 * the 96 (180) bits are taken whose products with m are neither whole turns nor too small to matter (Payne and Hanek:
 * Radian reduction for trigonometric functions, 1983). Which bits depends on the exponent alone; they are chosen by
 * selects and shifts. No f32 is closer to a multiple of pi/2 than 2^-30 of a quarter turn, and 62 bits of the fraction
 * are kept, the last of them two too little; of f64 it is 2^-61.5, and 118 bits. */
#include "rules/decomp.h"

#include <math.h>

typedef kn_ref R;

enum { SIN_WORDS = 19, SIN_DIGIT = (1 << 30) - 1 };

/* 2/pi: 32 zeros (f64: 54), then the bits behind the point. */
static const uint64_t two_over_pi_32[]          = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                                   0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
static const uint64_t two_over_pi_64[SIN_WORDS] = {
    0x000000000000028b, 0xe60db9391054a7f0, 0x9d5f47d4d377036d, 0x8a5664f10e4107f9, 0x458eaf7aef1586dc,
    0x91b8e909374b8019, 0x24bba827464873f8, 0x77ac72c4a69cfba2, 0x08d7d4baed1213a6, 0x71c09ad17df904e6,
    0x4758e60d4ce7d272, 0x117e2ef7e4a0ec7f, 0xe25fff7816603fbc, 0xbc462d6829b47db4, 0xd9fb3c9f2c26dd3d,
    0x18fd9a797fa8b5d4, 0x9eeb1faf97c5ecf4, 0x1ce7de294a4ba9af, 0xed7ec47e35742158};

/* Three of n words from bit `at` on, which is of their width; at is below n - 3 words. */
static void sin_window(kn_graph *g, R at, const uint64_t *of, int n, R out[3]) {
    int dt = kg_dtype(g, at), bits = 8 * kn_dsize(dt), step = 1;
    R   last = kg_int(g, dt, bits - 1), zero = kg_int(g, dt, 0), word[SIN_WORDS];
    R   shift = xp_and(g, at, last), back = xp_and(g, kg_op1(g, KN_OP_NOT, at), last);
    for (int i = 0; i < n; i++) word[i] = kg_int(g, dt, (int64_t)of[i]);
    while (2 * step <= n - 4) step *= 2;
    for (int left; step; step /= 2, n = left) { /* at's bits from the highest down move the words */
        R up = xp_ne(g, xp_and(g, at, kg_int(g, dt, bits * step)), zero);
        left = KN_MIN(n, step + 3);
        for (int i = 0; i < left && i + step < n; i++) word[i] = xp_if(g, up, word[i + step], word[i]);
    }
    for (int i = 0; i < 3; i++)
        out[i] = xp_or(g, xp_shl(g, word[i], shift), xp_shr(g, xp_shr(g, word[i + 1], kg_int(g, dt, 1)), back));
}

/* Of an x by its bits, the sign among them, which no step looks at: |x| = (quarter + fraction) pi/2, the fraction
 * within half of a quarter turn; |fraction| pi/2 = r + d, `below` all ones where the fraction is negative. The
 * fraction's complement stands for its negative: one unit too little. */
typedef struct sin_angle {
    R quarter, below, r, d;
} sin_angle;

/* hi, a product that is exact, and what is small beside it. */
static void sin_sum(kn_graph *g, sin_angle *a, R hi, R lo) {
    a->r = xp_add(g, hi, lo);
    a->d = xp_add(g, xp_sub(g, hi, a->r), lo);
}

/* ---- f32 --------------------------------------------------------------------------------------------------------- */

/* The high word of m w, m of 24 bits, in whole numbers of one word: lanes of two would halve how many there are. Not
 * `exact`: without what the low halves' product carries, and up to two too little. */
static R sin_high(kn_graph *g, R m, R w, bool exact) {
    R half = xp_u32(g, 16), mask = xp_u32(g, 0xffff);
    R mh = xp_shr(g, m, half), ml = xp_and(g, m, mask), wh = xp_shr(g, w, half), wl = xp_and(g, w, mask);
    R p1 = xp_mul(g, mh, wl), p2 = xp_mul(g, ml, wh);
    if (exact) {
        p1 = xp_add(g, p1, xp_shr(g, xp_mul(g, ml, wl), half));
        p2 = xp_add(g, p2, xp_and(g, p1, mask));
    }
    return xp_add(g, xp_add(g, xp_mul(g, mh, wh), xp_shr(g, p1, half)), xp_shr(g, p2, half));
}

static R sin_whole(kn_graph *g, R x) {
    return kg_cast(g, xp_as(g, x, KN_I32), KN_F32);
}

static void sin_reduce_f32(kn_graph *g, R x, sin_angle *to) {
    static const double half_pi = 1.57079632679489661923, top = 25.0 / 16; /* pi/2 and its first five bits */
    R                   w[3], m = xp_or(g, xp_and(g, x, xp_u32(g, 0x7fffff)), xp_u32(g, 0x800000));
    sin_window(g, xp_sub(g, xp_shr(g, x, xp_u32(g, 23)), xp_u32(g, 120)), two_over_pi_32, KN_COUNT(two_over_pi_32), w);
    R rest = sin_high(g, m, w[2], false), sum = xp_add(g, xp_mul(g, m, w[1]), rest);
    R all       = xp_add(g, xp_mul(g, m, w[0]), sin_high(g, m, w[1], true));
    all         = xp_if(g, xp_lt(g, sum, rest), xp_add(g, all, xp_u32(g, 1)), all);
    to->quarter = xp_shr(g, xp_add(g, all, xp_u32(g, 1 << 29)), xp_u32(g, 30));
    R part      = xp_sub(g, all, xp_shl(g, to->quarter, xp_u32(g, 30)));
    to->below   = xp_as(g, xp_shr(g, xp_as(g, part, KN_I32), xp_i32(g, 31)), KN_U32);
    R high = xp_xor(g, part, to->below), low = xp_xor(g, sum, to->below);
    /* The fraction in three exact pieces, 19, 24 and 18 bits; the first times five bits of pi/2 is exact as well. */
    R a = sin_whole(g, xp_and(g, high, xp_u32(g, ~0x3ff & 0x7fffffff)));
    R b = sin_whole(
        g, xp_or(g, xp_shl(g, xp_and(g, high, xp_u32(g, 0x3ff)), xp_u32(g, 14)), xp_shr(g, low, xp_u32(g, 18))));
    R c  = sin_whole(g, xp_and(g, low, xp_u32(g, 0x3ffff)));
    R lo = xp_fma(g, a, xp_f32(g, (half_pi - top) * 0x1p-30),
                  xp_fma(g, b, xp_f32(g, half_pi * 0x1p-44), xp_mul(g, c, xp_f32(g, half_pi * 0x1p-62))));
    sin_sum(g, to, xp_mul(g, a, xp_f32(g, top * 0x1p-30)), lo);
}

/* ---- f64 --------------------------------------------------------------------------------------------------------- */

/* A whole number below 2^52 as the low bits of 2^52 and it: few CPUs have a conversion from 64 bits. */
static R sin_whole_f64(kn_graph *g, R x) {
    R sum = xp_or(g, x, kg_int(g, KN_U64, INT64_C(0x4330000000000000)));
    return xp_sub(g, xp_as(g, sum, KN_F64), kg_float(g, KN_F64, 0x1p52));
}

static R sin_bits(kn_graph *g, R x, int shift, int64_t mask) { /* (x >> shift) & mask */
    if (shift) x = xp_shr(g, x, kg_int(g, KN_U64, shift));
    return xp_and(g, x, kg_int(g, KN_U64, mask));
}

/* Digits of 30 bits: their products with halves of m, and sums of three, are below 2^61. */
static void sin_reduce_f64(kn_graph *g, R x, sin_angle *to) {
    static const double top = 0x1.921fb4p+0, rest = 7.549789954891882169164e-8; /* 23 bits of pi/2, and what is left */
    R                   w[3], digit[6], sum[5], piece[4], one = kg_int(g, KN_U64, 1), by = kg_int(g, KN_U64, 30);
    sin_window(g, xp_sub(g, xp_shr(g, x, kg_int(g, KN_U64, 52)), kg_int(g, KN_U64, 1023)), two_over_pi_64, SIN_WORDS,
               w);
    digit[0] = xp_shr(g, w[0], kg_int(g, KN_U64, 34));
    digit[1] = sin_bits(g, w[0], 4, SIN_DIGIT);
    digit[2] = sin_bits(g, xp_or(g, xp_shl(g, w[0], kg_int(g, KN_U64, 26)), xp_shr(g, w[1], kg_int(g, KN_U64, 38))), 0,
                        SIN_DIGIT);
    digit[3] = sin_bits(g, w[1], 8, SIN_DIGIT);
    digit[4] = sin_bits(g, xp_or(g, xp_shl(g, w[1], kg_int(g, KN_U64, 22)), xp_shr(g, w[2], kg_int(g, KN_U64, 42))), 0,
                        SIN_DIGIT);
    digit[5] = sin_bits(g, w[2], 12, SIN_DIGIT);
    R low    = sin_bits(g, x, 0, SIN_DIGIT);
    R high   = xp_or(g, sin_bits(g, xp_shl(g, x, kg_int(g, KN_U64, 2)), 32, 0x3fffff), kg_int(g, KN_U64, 1 << 22));
    for (int i = 5; i-- > 0;) {
        sum[i] = xp_add(g, xp_mul(g, low, digit[i]), xp_mul(g, high, digit[i + 1]));
        if (i < 4) sum[i] = xp_add(g, sum[i], xp_shr(g, sum[i + 1], by));
    }
    R halves    = xp_shr(g, sum[0], kg_int(g, KN_U64, 27)); /* of a quarter turn */
    to->quarter = xp_shr(g, xp_add(g, halves, one), one);
    to->below   = xp_sub(g, kg_int(g, KN_U64, 0), xp_and(g, halves, one));
    for (int i = 0; i < 4; i++)
        piece[i] = sin_whole_f64(g, sin_bits(g, xp_xor(g, sum[i], to->below), 0, i ? SIN_DIGIT : SIN_DIGIT >> 3));
    /* Two pieces times 23 bits of pi/2 are exact, and what their sum loses. */
    R hi = xp_mul(g, piece[0], kg_float(g, KN_F64, top * 0x1p-28));
    R md = xp_mul(g, piece[1], kg_float(g, KN_F64, top * 0x1p-58)), both = xp_add(g, hi, md);
    R lo = xp_fma(g, piece[2], kg_float(g, KN_F64, (top + rest) * 0x1p-88),
                  xp_mul(g, piece[3], kg_float(g, KN_F64, (top + rest) * 0x1p-118)));
    lo   = xp_fma(g, piece[1], kg_float(g, KN_F64, rest * 0x1p-58), lo);
    lo   = xp_fma(g, piece[0], kg_float(g, KN_F64, rest * 0x1p-28), lo);
    sin_sum(g, to, both, xp_add(g, xp_add(g, xp_sub(g, hi, both), md), lo));
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* sin(r + d), cos(r + d) for a small d; minimax. For |r| <= pi/4 relative errors 2^-28 and 2^-33, of f64 for |r| <= 1
 * 2^-63 and for |r| <= pi/4 2^-64. */
static R sin_of(kn_graph *g, R r, R d) {
    static const double c32[] = {-0.166666545, 0.00833215476, -0.000195144537};
    static const double c64[] = {-0.16666666666666665873,   0.0083333333333331339172,  -0.00019841269841099745565,
                                 2.7557319155038954091e-6,  -2.5052093410934010839e-8, 1.6057253428513907219e-10,
                                 -7.5359840513998129446e-13};
    bool                wide  = kg_dtype(g, r) == KN_F64;
    R z = xp_mul(g, r, r), p = xp_polynomial(g, z, wide ? c64 : c32, wide ? KN_COUNT(c64) : KN_COUNT(c32));
    return xp_add(g, r, xp_fma(g, xp_mul(g, r, z), p, d));
}
static R cos_of(kn_graph *g, R r, R d) {
    static const double c32[] = {0.0416666455, -0.00138873081, 2.44322095e-5};
    static const double c64[] = {0.041666666666666592919,  -0.00138888888888730561,  0.000024801587288851560477,
                                 -2.755731417926494588e-7, 2.0875700838576379344e-9, -1.1358536379050852652e-11};
    bool                wide  = kg_dtype(g, r) == KN_F64;
    R z = xp_mul(g, r, r), p = xp_polynomial(g, z, wide ? c64 : c32, wide ? KN_COUNT(c64) : KN_COUNT(c32));
    R half = xp_mul(g, z, xp_float(g, r, 0.5)), one = xp_float(g, r, 1), w = xp_sub(g, one, half);
    R lost = xp_sub(g, xp_sub(g, xp_sub(g, one, w), half), xp_mul(g, r, d));
    return xp_add(g, w, xp_fma(g, xp_mul(g, z, z), p, lost));
}

kn_ref kn_decomp_sin(kn_rw *rw, kn_ref node) {
    kn_graph *g    = rw->g;
    bool      wide = kg_dtype(g, node) == KN_F64;
    int       dt = wide ? KN_F64 : KN_F32, ut = wide ? KN_U64 : KN_U32, last = 8 * kn_dsize(ut) - 1;
    R         x = kg_at(g, node, 0), all = xp_as(g, x, ut), sign = kg_int(g, ut, (int64_t)(UINT64_C(1) << last));
    R         bits = xp_and(g, all, kg_int(g, ut, (int64_t)((UINT64_C(1) << last) - 1))), ax = xp_as(g, bits, dt);
    R         near = xp_lt(g, ax, xp_float(g, x, wide ? 1 : 0.78539816339744830962)), zero = kg_int(g, ut, 0);
    sin_angle a;
    if (wide)
        sin_reduce_f64(g, all, &a);
    else
        sin_reduce_f32(g, all, &a);
    R r       = xp_if(g, near, ax, a.r);
    R d       = xp_if(g, near, xp_float(g, x, 0), a.d);
    R quarter = xp_if(g, near, zero, a.quarter);
    R below   = xp_if(g, near, zero, a.below);
    R odd     = xp_ne(g, xp_and(g, quarter, kg_int(g, ut, 1)), zero);
    R s       = xp_xor(g, xp_as(g, sin_of(g, r, d), ut), xp_and(g, below, sign));
    R y       = xp_if(g, odd, xp_as(g, cos_of(g, r, d), ut), s);
    y         = xp_xor(g, y, xp_and(g, all, sign));
    y         = xp_xor(g, y, xp_and(g, xp_shl(g, quarter, kg_int(g, ut, last - 1)), sign));
    return xp_if(g, xp_lt(g, ax, xp_float(g, x, INFINITY)), xp_as(g, y, dt), xp_float(g, x, NAN));
}
