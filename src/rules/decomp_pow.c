/* decomp_pow.c - powers of f32 and f64: 2^(y log2 |x|), the logarithm in two parts of 12 and 24 bits (f64: 26 and 53).
 *
 * An error in y log2 |x| is one of the result, and up to 150 (f64: 1,075) times as large in proportion, so the
 * logarithm is worth 36 (67) bits. It is computed as FDLIBM's powf does it (Sun Microsystems, 1993): in parts whose
 * leading one has half of the bits, so that products of leading parts are exact without a fused multiply-add. */
#include "rules/decomp.h"

#include <math.h>

typedef kn_ref R;

/* What differs between the widths. */
typedef struct pow_width {
    int           dtype, utype, mbits, n;
    int64_t       keep;         /* the bits of a leading part */
    double        least;        /* the mantissa's */
    double        lead, rest;   /* 2/(3 ln 2), its leading bits and the others */
    double        y_most, most; /* of exponents: what is further out is 0 or infinite; the last below kn_decomp_most */
    const double *c;            /* n coefficients; minimax: 2^-36.8 and 2^-71.3 of the whole */
} pow_width;

static pow_width pow_of(bool wide) {
    static const double c32[] = {0.600002297, 0.428205507, 0.351315938};
    static const double c64[] = {0.59999999999999468367, 0.42857142857848032023, 0.3333333298450381883,
                                 0.27272811907959808252, 0.2306611414067467247,  0.20696239704981208664};
    return wide ? (pow_width){.dtype  = KN_F64,
                              .utype  = KN_U64,
                              .mbits  = 52,
                              .n      = KN_COUNT(c64),
                              .keep   = -(INT64_C(1) << 27),
                              .least  = 0.86602540378443864676,
                              .lead   = 0x1.ec709d8p-1,
                              .rest   = 7.872699542894897704001e-9,
                              .y_most = 0x1p64,
                              .most   = 0x1.fffffffffffffp9,
                              .c      = c64}
                : (pow_width){.dtype  = KN_F32,
                              .utype  = KN_U32,
                              .mbits  = 23,
                              .n      = KN_COUNT(c32),
                              .keep   = 0xfffff000,
                              .least  = 0.70710678118654752440,
                              .lead   = 0x1.ec6p-1,
                              .rest   = 0.961796693925975605 - 0x1.ec6p-1,
                              .y_most = 0x1p32,
                              .most   = 0x1.fffffep6,
                              .c      = c32};
}

static R pow_lead(kn_graph *g, const pow_width *w, R x) {
    return xp_as(g, xp_and(g, xp_as(g, x, w->utype), kg_int(g, w->utype, w->keep)), w->dtype);
}

/* log2 of a positive finite x = m 2^e as *hi + *lo, *hi a leading part. With m = c + d, s = d/(2 c + d) = atanh^-1:
 * log2 m = log2 c + 2/(3 ln 2) s (3 + s^2 + s^4 (3/5 + 3/7 s^2 + ...)). What is rounded of s^4 counts: of f32 c is 1,
 * of f64 1 or 3/2, which makes it an eighth. */
static void pow_log2(kn_graph *g, const pow_width *w, R x, R *hi, R *lo) {
    R e, m = kn_decomp_split(g, x, w->least, &e), one = xp_float(g, x, 1), three = xp_float(g, x, 3), c = one, more = 0;
    if (w->dtype == KN_F64) {
        R up = xp_lt(g, xp_float(g, x, 1.224744871391589049099), m), zero = xp_float(g, x, 0);
        c    = xp_if(g, up, xp_float(g, x, 1.5), one);
        e    = xp_add(g, e, xp_if(g, up, xp_float(g, x, 0x1.2b803473f6p-1), zero)); /* log2 3/2 in two parts */
        more = xp_if(g, up, xp_float(g, x, 7.621628819151085748917e-13), zero);
    }
    R d = xp_sub(g, m, c), t = xp_add(g, m, c), t_lost = xp_sub(g, m, xp_sub(g, t, c));
    R inverse = kg_op1(g, KN_OP_RECIP, t), s = xp_mul(g, d, inverse);
    R s1 = pow_lead(g, w, s), t1 = pow_lead(g, w, t), t2 = xp_add(g, xp_sub(g, t, t1), t_lost);
    R s2 = xp_mul(g, xp_sub(g, xp_sub(g, d, xp_mul(g, s1, t1)), xp_mul(g, s1, t2)), inverse); /* s = s1 + s2 */
    R z = xp_mul(g, s, s), z1 = xp_mul(g, s1, s1);
    R r  = xp_fma(g, xp_mul(g, z, z), xp_polynomial(g, z, w->c, w->n), xp_mul(g, s2, xp_add(g, s1, s)));
    R u1 = pow_lead(g, w, xp_add(g, xp_add(g, three, z1), r)), u2 = xp_sub(g, r, xp_sub(g, xp_sub(g, u1, three), z1));
    R p = xp_mul(g, s1, u1), q = xp_fma(g, s2, u1, xp_mul(g, u2, s)); /* s u = p + q */
    R v1 = pow_lead(g, w, xp_add(g, p, q)), v2 = xp_sub(g, q, xp_sub(g, v1, p));
    R w1 = xp_mul(g, v1, xp_float(g, x, w->lead));
    R w2 = xp_fma(g, v1, xp_float(g, x, w->rest), xp_mul(g, v2, xp_float(g, x, w->lead + w->rest)));
    if (more) w2 = xp_add(g, w2, more);
    *hi = pow_lead(g, w, xp_add(g, xp_add(g, w1, w2), e));
    *lo = xp_sub(g, w2, xp_sub(g, xp_sub(g, *hi, e), w1));
}

/* 2^(a + lo) of f64 for |a + lo| <= 1/2: 1 + ln 2 (a + lo) + ..., of which the leading part is exact and added last. */
static R pow_exp2_f64(kn_graph *g, const pow_width *w, R a, R lo) {
    static const double c[]  = {0.24022650695910122361,   0.055504108664820732388,   0.0096181291075969315599,
                                0.0013333558146686554484, 0.00015403530454143157983, 0.000015252733546537209714,
                                1.3215436566364166826e-6, 1.0178184741651204593e-7,  7.073587352510543577e-9,
                                4.4362988740710075126e-10};
    static const double lead = 0x1.62e42f8p-1, rest = 1.299650689388988837146e-8; /* of ln 2 */
    R f = xp_add(g, a, lo), f1 = pow_lead(g, w, f), f2 = xp_add(g, xp_sub(g, a, f1), lo), one = xp_float(g, a, 1);
    R u = xp_mul(g, f1, xp_float(g, a, lead));
    R v = xp_fma(g, f2, xp_float(g, a, lead + rest), xp_mul(g, xp_mul(g, f, f), xp_polynomial(g, f, c, KN_COUNT(c))));
    R s = xp_add(g, one, u);
    v   = xp_add(g, xp_add(g, xp_sub(g, one, s), u), xp_fma(g, f1, xp_float(g, a, rest), v));
    return xp_add(g, s, v);
}

/* |x|^y for finite |x| > 0 and any y but NaN. */
static R pow_magnitude(kn_graph *g, const pow_width *w, R ax, R y) {
    R log1, log2, n;
    pow_log2(g, w, ax, &log1, &log2);
    y    = xp_clamp(g, y, -w->y_most, w->y_most); /* further out nothing changes, and no product overflows */
    R y1 = pow_lead(g, w, y), hi = xp_mul(g, y1, log1);
    R lo = xp_fma(g, y, log2, xp_mul(g, xp_sub(g, y, y1), log1)), sum = xp_add(g, hi, lo);
    R all = xp_clamp(g, sum, kn_decomp_least(w->dtype), w->most);
    R whole = xp_nearest(g, all, &n), a = xp_sub(g, hi, whole);
    R p = w->dtype == KN_F64 ? pow_exp2_f64(g, w, a, lo) : kn_decomp_exp2_part(g, xp_add(g, a, lo));
    return kn_decomp_scale(g, xp_if(g, xp_eq(g, all, sum), p, xp_float(g, y, 1)), all, n);
}

/* The special cases are those of C (annex F.9.4.4). Of an odd y the half is not whole. */
kn_ref kn_decomp_pow(kn_rw *rw, kn_ref node) {
    kn_graph *g    = rw->g;
    pow_width w    = pow_of(kg_dtype(g, node) == KN_F64);
    uint64_t  sign = UINT64_C(1) << (8 * kn_dsize(w.dtype) - 1);
    int64_t   top = (int64_t)sign, rest = (int64_t)(sign - 1), most = rest & -(INT64_C(1) << w.mbits); /* infinity */
    R         x = kg_at(g, node, 0), y = kg_at(g, node, 1), half = xp_mul(g, y, xp_float(g, y, 0.5));
    R         bits = xp_and(g, xp_as(g, x, w.utype), kg_int(g, w.utype, rest)), ax = xp_as(g, bits, w.dtype);
    R         one = xp_float(g, x, 1), zero = xp_float(g, x, 0), whole = xp_eq(g, kg_op1(g, KN_OP_TRUNC, y), y);
    R         odd   = xp_and(g, whole, xp_ne(g, kg_op1(g, KN_OP_TRUNC, half), half));
    R         below = kg_op2(g, KN_OP_SUB, bits, kg_int(g, w.utype, 1)); /* 0 becomes the highest of all */
    R         plain = xp_lt(g, below, kg_int(g, w.utype, most - 1));
    R         r     = pow_magnitude(g, &w, ax, y);
    R         fades = xp_xor(g, xp_eq(g, ax, zero), xp_lt(g, y, zero)); /* 0 to more than 0, infinity to less */
    r      = xp_if(g, plain, r, xp_if(g, fades, zero, xp_float(g, x, INFINITY)));
    R turn = xp_and(g, xp_as(g, x, w.utype), xp_if(g, odd, kg_int(g, w.utype, top), kg_int(g, w.utype, 0)));
    r      = xp_as(g, xp_xor(g, xp_as(g, r, w.utype), turn), w.dtype);
    R none = xp_and(g, xp_and(g, xp_lt(g, x, zero), plain), kg_op1(g, KN_OP_NOT, whole));
    none   = xp_or(g, none, xp_or(g, xp_ne(g, x, x), xp_ne(g, y, y)));
    r      = xp_if(g, none, xp_float(g, x, NAN), r);
    return xp_if(g, xp_or(g, xp_eq(g, y, zero), xp_eq(g, x, one)), one, r);
}
