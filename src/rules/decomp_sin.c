/* decomp_sin.c - sine of f32 over the whole range.
 *
 * The argument is reduced by quarter turns in whole numbers: |x| = m 2^k with m of 24 bits, and of 2/pi just the 96
 * bits are taken whose products with m are neither whole turns nor too small to matter (Payne and Hanek: Radian
 * reduction for trigonometric functions, 1983). Which bits depends on the exponent alone; they are chosen by selects
 * and shifts. No f32 is closer to a multiple of pi/2 than 2^-30 of a quarter turn, and 62 bits of the fraction are
 * kept. */
#include "rules/decomp.h"

#include <math.h>

typedef kn_ref R;

/* 2/pi: 32 zeros, then the bits behind the point. */
static const uint32_t two_over_pi[8] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                        0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

/* Three words of it from bit `at` on, at < 32 * 4 + 32. */
static void sin_window(kn_graph *g, R at, R out[3]) {
    R last = xp_u32(g, 31), zero = xp_u32(g, 0), word[8];
    R shift = xp_and(g, at, last), back = xp_and(g, kg_op1(g, KN_OP_NOT, at), last);
    for (int i = 0; i < 8; i++) word[i] = xp_u32(g, two_over_pi[i]);
    for (int step = 4, n = 8; step; step /= 2) { /* at's bits from 2^7 down move the words */
        R up = xp_ne(g, xp_and(g, at, xp_u32(g, 32 * step)), zero);
        n -= step == 4 ? 1 : step;
        for (int i = 0; i < n && i + step < 8; i++) word[i] = xp_if(g, up, word[i + step], word[i]);
    }
    for (int i = 0; i < 3; i++)
        out[i] = xp_or(g, xp_shl(g, word[i], shift), xp_shr(g, xp_shr(g, word[i + 1], xp_u32(g, 1)), back));
}

/* The high word of m w + r, m of 24 bits, in whole numbers of one word: lanes of two would halve how many there are. */
static R sin_high(kn_graph *g, R m, R w, R r) {
    R half = xp_u32(g, 16), mask = xp_u32(g, 0xffff);
    R mh = xp_shr(g, m, half), ml = xp_and(g, m, mask), wh = xp_shr(g, w, half), wl = xp_and(g, w, mask);
    R p0 = xp_mul(g, ml, wl), p1 = xp_add(g, xp_mul(g, mh, wl), xp_shr(g, p0, half));
    if (r) {
        R carry = xp_shr(g, xp_add(g, xp_and(g, p0, mask), xp_and(g, r, mask)), half);
        p1      = xp_add(g, p1, xp_add(g, xp_shr(g, r, half), carry));
    }
    R p2 = xp_add(g, xp_mul(g, ml, wh), xp_and(g, p1, mask));
    return xp_add(g, xp_add(g, xp_mul(g, mh, wh), xp_shr(g, p1, half)), xp_shr(g, p2, half));
}

/* |x| = (quarter + fraction) pi/2, the fraction within half of a quarter turn: its magnitude in 62 bits, high and low;
 * `below` all ones where it is negative. */
static void sin_reduce(kn_graph *g, R bits, R *quarter, R *below, R *high, R *low) {
    R w[3], m = xp_or(g, xp_and(g, bits, xp_u32(g, 0x7fffff)), xp_u32(g, 0x800000));
    sin_window(g, xp_sub(g, xp_shr(g, bits, xp_u32(g, 23)), xp_u32(g, 120)), w);
    R rest = sin_high(g, m, w[2], 0), sum = xp_add(g, xp_mul(g, m, w[1]), rest);
    R top  = xp_add(g, xp_mul(g, m, w[0]), sin_high(g, m, w[1], rest));
    *quarter = xp_shr(g, xp_add(g, top, xp_u32(g, 1 << 29)), xp_u32(g, 30));
    R part   = xp_sub(g, top, xp_shl(g, *quarter, xp_u32(g, 30)));
    *below   = xp_as(g, xp_shr(g, xp_as(g, part, KN_I32), xp_i32(g, 31)), KN_U32);
    *high    = xp_xor(g, part, *below); /* the complement, one unit of 2^-62 off */
    *low     = xp_xor(g, sum, *below);
}

static R sin_whole(kn_graph *g, R x) {
    return kg_cast(g, xp_as(g, x, KN_I32), KN_F32);
}

/* sin(r + d), cos(r + d) for |r| <= pi/4 and a small d; minimax, relative errors 2^-28 and 2^-33. */
static R sin_of(kn_graph *g, R r, R d) {
    static const double c[] = {-0.166666545, 0.00833215476, -0.000195144537};
    R                   z   = xp_mul(g, r, r);
    return xp_add(g, r, xp_fma(g, xp_mul(g, r, z), xp_polynomial(g, z, c, KN_COUNT(c)), d));
}
static R cos_of(kn_graph *g, R r, R d) {
    static const double c[] = {0.0416666455, -0.00138873081, 2.44322095e-5};
    R                   z = xp_mul(g, r, r), half = xp_mul(g, z, xp_f32(g, 0.5)), one = xp_f32(g, 1);
    R                   w    = xp_sub(g, one, half);
    R                   lost = xp_sub(g, xp_sub(g, xp_sub(g, one, w), half), xp_mul(g, r, d));
    return xp_add(g, w, xp_fma(g, xp_mul(g, z, z), xp_polynomial(g, z, c, KN_COUNT(c)), lost));
}

kn_ref kn_decomp_sin(kn_rw *rw, kn_ref node) {
    static const double half_pi = 1.57079632679489661923, top = 25.0 / 16; /* pi/2 and its first five bits */
    kn_graph           *g = rw->g;
    R                   x = kg_at(g, node, 0), all = xp_as(g, x, KN_U32), bits = xp_and(g, all, xp_u32(g, 0x7fffffff));
    R                   ax = xp_as(g, bits, KN_F32), zero = xp_u32(g, 0), sign = xp_u32(g, 0x80000000);
    R                   near = xp_lt(g, ax, xp_f32(g, half_pi / 2)), quarter, below, high, low;
    sin_reduce(g, bits, &quarter, &below, &high, &low);
    /* The fraction in three exact pieces, 19, 24 and 18 bits; the first times five bits of pi/2 is exact as well. */
    R a = sin_whole(g, xp_and(g, high, xp_u32(g, ~0x3ff & 0x7fffffff)));
    R b = sin_whole(
        g, xp_or(g, xp_shl(g, xp_and(g, high, xp_u32(g, 0x3ff)), xp_u32(g, 14)), xp_shr(g, low, xp_u32(g, 18))));
    R c  = sin_whole(g, xp_and(g, low, xp_u32(g, 0x3ffff)));
    R hi = xp_mul(g, a, xp_f32(g, top * 0x1p-30));
    R lo = xp_fma(g, a, xp_f32(g, (half_pi - top) * 0x1p-30),
                  xp_fma(g, b, xp_f32(g, half_pi * 0x1p-44), xp_mul(g, c, xp_f32(g, half_pi * 0x1p-62))));
    R r = xp_add(g, hi, lo), d = xp_add(g, xp_sub(g, hi, r), lo);
    r       = xp_if(g, near, ax, r);
    d       = xp_if(g, near, xp_f32(g, 0), d);
    quarter = xp_if(g, near, zero, quarter);
    below   = xp_if(g, near, zero, below);
    R odd   = xp_ne(g, xp_and(g, quarter, xp_u32(g, 1)), zero);
    R s     = xp_xor(g, xp_as(g, sin_of(g, r, d), KN_U32), xp_and(g, below, sign));
    R y     = xp_if(g, odd, xp_as(g, cos_of(g, r, d), KN_U32), s);
    y       = xp_xor(g, xp_xor(g, y, xp_and(g, all, sign)), xp_and(g, xp_shl(g, quarter, xp_u32(g, 30)), sign));
    return xp_if(g, xp_lt(g, ax, xp_f32(g, INFINITY)), xp_as(g, y, KN_F32), xp_f32(g, NAN));
}
