/* decomp.c - exp2 and log2, f32 and f64, by range reduction and a polynomial. Infinities, NaN, zeros and subnormal
 * numbers come out as libm has them. */
#include "rules/decomp.h"

#include <math.h>
#include <string.h>

typedef kn_ref R;

/* n is added to the exponent of p. Processors may take a hundred cycles and more for a product that is subnormal: what
 * is to be is made in units of the least one, as a whole number that adding 2^mbits rounds, and has that number's bits.
 */
kn_ref kn_decomp_scale(kn_graph *g, kn_ref p, kn_ref x, kn_ref n) {
    int dt = kg_dtype(g, p), it = kg_dtype(g, n), mbits = dt == KN_F64 ? 52 : 23, bias = dt == KN_F64 ? 1023 : 127;
    R   y     = xp_add(g, xp_as(g, p, it), xp_shl(g, n, kg_int(g, it, mbits)));
    R   units = xp_as(g, xp_add(g, y, kg_int(g, it, (int64_t)(bias - 1 + mbits) << mbits)), dt);
    R   whole = xp_as(g, xp_add(g, units, xp_float(g, p, ldexp(1, mbits))), it);
    R   tiny  = xp_sub(g, whole, kg_int(g, it, (int64_t)(bias + mbits) << mbits));
    return xp_as(g, xp_if(g, xp_lt(g, x, xp_float(g, x, 1 - bias)), tiny, y), dt);
}

/* Minimax by Remez's algorithm, with 1 as the first coefficient: relative error 2^-28.9 and 2^-58. */
kn_ref kn_decomp_exp2_part(kn_graph *g, kn_ref f) {
    static const double c32[] = {
        1, 0.693147203, 0.240226479, 0.0555033247, 0.00961843735, 0.00133988744, 0.000153533627};
    static const double c64[] = {1,
                                 0.6931471805599453258,
                                 0.2402265069591013126,
                                 0.0555041086648200832,
                                 0.009618129107594120068,
                                 0.001333355814677463003,
                                 0.0001540353045711206724,
                                 0.00001525273349311665064,
                                 1.321543528233680422e-6,
                                 1.017819957681580251e-7,
                                 7.073783241791062163e-9,
                                 4.434770502466804617e-10};
    bool                wide  = kg_dtype(g, f) == KN_F64;
    return xp_polynomial(g, f, wide ? c64 : c32, wide ? KN_COUNT(c64) : KN_COUNT(c32));
}

/* 2^x = 2^n 2^f with n whole and |f| <= 1/2. */
kn_ref kn_decomp_exp2(kn_rw *rw, kn_ref node) {
    kn_graph *g = rw->g;
    R         given = kg_at(g, node, 0), low, n, y;
    R         x = xp_clamp(g, given, kn_decomp_least(kg_dtype(g, node)), kn_decomp_most(kg_dtype(g, node)));
    n = xp_nearest(g, x, &low);
    y = kn_decomp_scale(g, kn_decomp_exp2_part(g, xp_sub(g, x, n)), x, low);
    return xp_if(g, xp_ne(g, given, given), given, y); /* NaN has no exponent to add to */
}

/* Of the bits of x less those of `least`, the exponent is e (here with its bias, so that no sign is in the way), and
 * the others are m's less those of `least`. Subnormal numbers are brought up first. */
kn_ref kn_decomp_split(kn_graph *g, kn_ref x, double least, kn_ref *e) {
    bool    wide = kg_dtype(g, x) == KN_F64;
    int     dt = wide ? KN_F64 : KN_F32, ut = wide ? KN_U64 : KN_U32, mbits = wide ? 52 : 23, bias = wide ? 1023 : 127;
    double  one  = ldexp(1, mbits); /* its last bit is 1 */
    int64_t from = 0;
    memcpy(&from, wide ? (void *)&least : (void *)&(float){(float)least}, (size_t)kn_dsize(dt));
    R tiny = xp_lt(g, x, xp_float(g, x, wide ? 0x1p-1022 : 0x1p-126));
    R bits = xp_as(g, xp_if(g, tiny, xp_mul(g, x, xp_float(g, x, one)), x), ut);
    R off  = xp_sub(g, bits, kg_int(g, ut, from - ((int64_t)bias << mbits)));
    R up   = xp_or(g, xp_shr(g, off, kg_int(g, ut, mbits)), kg_int(g, ut, (int64_t)(mbits + bias) << mbits));
    *e  = xp_sub(g, xp_as(g, up, dt), xp_if(g, tiny, xp_float(g, x, one + bias + mbits), xp_float(g, x, one + bias)));
    off = xp_and(g, off, kg_int(g, ut, (INT64_C(1) << mbits) - 1));
    return xp_as(g, xp_add(g, off, kg_int(g, ut, from)), dt);
}

/* x = m 2^e, m = 1 + d. With s = d/(2 + d): ln m = 2 (s + s^3/3 + s^5/5 + ...), and since 2 s = d - s d, ln m = d -
 * s (d - r), r = 2 (s^2/3 + s^4/5 + ...), here minimax: what is rounded is only the small part. */
kn_ref kn_decomp_log2(kn_rw *rw, kn_ref node) {
    static const double c32[] = {0.66666777, 0.399774494, 0.298744206};
    static const double c64[] = {0.6666666666666735384, 0.3999999999940747069, 0.2857142874414508858,
                                 0.2222219837813300908, 0.1818357518141147234, 0.1531375539872674292,
                                 0.1479906930911785189};
    kn_graph           *g     = rw->g;
    bool                wide  = kg_dtype(g, node) == KN_F64;
    R                   x = kg_at(g, node, 0), zero = xp_float(g, x, 0), inf = xp_float(g, x, INFINITY), e;
    R                   d = xp_sub(g, kn_decomp_split(g, x, 0.70710678118654752440, &e), xp_float(g, x, 1));
    R                   s = kg_op2(g, KN_OP_DIV, d, xp_add(g, d, xp_float(g, x, 2))), z = xp_mul(g, s, s);
    R                   r   = xp_mul(g, z, xp_polynomial(g, z, wide ? c64 : c32, wide ? KN_COUNT(c64) : KN_COUNT(c32)));
    R                   ln  = xp_sub(g, d, xp_mul(g, s, xp_sub(g, d, r)));
    R                   y   = xp_fma(g, ln, xp_float(g, x, 1.4426950408889634), e);
    R                   low = xp_if(g, xp_eq(g, x, zero), xp_float(g, x, -INFINITY), xp_float(g, x, NAN));
    R                   high = xp_if(g, xp_lt(g, x, inf), y, inf);
    return xp_if(g, xp_lt(g, zero, x), high, low);
}
