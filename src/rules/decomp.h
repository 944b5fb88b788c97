/* decomp.h - C rules of decomp.rules, and the small language in which they are written.
 *
 * What every decomposition keeps to: only ops that all vector units have (add, multiply, divide, compare, select,
 * shift, and products of 32-bit integers); no branch and no table in memory; the bound holds whether a * b + c is
 * rounded once or twice, so a product that must be exact has factors of few bits. docs/numerics.md states the bounds.
 */
#ifndef KN_DECOMP_H
#define KN_DECOMP_H

#include "rewrite/rewrite.h"

kn_ref kn_decomp_exp2(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_log2(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_sin(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_pow(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_threefry(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_sqrt(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_trunc(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_divide(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_divide_wide(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_round(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_round_f64(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_round_int(kn_rw *rw, kn_ref n);
/* x is what kn_decomp_round makes for a CAST to that dtype, which then changes nothing. */
bool kn_decomp_is_rounded(kn_graph *g, kn_ref x, int dtype);

/* ---- for the files decomp*.c ----------------------------------------------------------------------------------- */
static inline kn_ref xp_f32(kn_graph *g, double v) {
    return kg_float(g, KN_F32, v);
}
static inline kn_ref xp_float(kn_graph *g, kn_ref like, double v) {
    return kg_float(g, kg_dtype(g, like), v);
}
static inline kn_ref xp_i32(kn_graph *g, int64_t v) {
    return kg_int(g, KN_I32, v);
}
static inline kn_ref xp_u32(kn_graph *g, int64_t v) {
    return kg_int(g, KN_U32, v);
}
static inline kn_ref xp_add(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_ADD, a, b);
}
static inline kn_ref xp_sub(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_SUB, a, b);
}
static inline kn_ref xp_mul(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_MUL, a, b);
}
static inline kn_ref xp_fma(kn_graph *g, kn_ref a, kn_ref b, kn_ref c) {
    return kg_op3(g, KN_OP_MULACC, a, b, c);
}
static inline kn_ref xp_and(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_AND, a, b);
}
static inline kn_ref xp_or(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_OR, a, b);
}
static inline kn_ref xp_xor(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_XOR, a, b);
}
static inline kn_ref xp_shl(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_SHL, a, b);
}
static inline kn_ref xp_shr(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_SHR, a, b);
}
static inline kn_ref xp_lt(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_CMPLT, a, b);
}
static inline kn_ref xp_eq(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_CMPEQ, a, b);
}
static inline kn_ref xp_ne(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_CMPNE, a, b);
}
static inline kn_ref xp_if(kn_graph *g, kn_ref p, kn_ref a, kn_ref b) {
    return kg_op3(g, KN_OP_WHERE, p, a, b);
}
/* The same bits as another dtype, and with some of them kept. */
static inline kn_ref xp_as(kn_graph *g, kn_ref x, int dtype) {
    return kg_bitcast(g, x, dtype);
}
static inline kn_ref xp_keep(kn_graph *g, kn_ref x, int64_t mask) {
    return xp_as(g, xp_and(g, xp_as(g, x, KN_U32), xp_u32(g, mask)), KN_F32);
}
/* Bounds let a NaN through. */
static inline kn_ref xp_clamp(kn_graph *g, kn_ref x, double lo, double hi) {
    int dt = kg_dtype(g, x);
    return kg_op2(g, KN_OP_MIN, kg_op2(g, KN_OP_MAX, x, kg_float(g, dt, lo)), kg_float(g, dt, hi));
}
/* c[0] + c[1] x + ...: Horner's scheme, fused, in the dtype of x. */
static inline kn_ref xp_polynomial(kn_graph *g, kn_ref x, const double *c, int n) {
    int    dt  = kg_dtype(g, x);
    kn_ref sum = kg_float(g, dt, c[n - 1]);
    for (int i = n - 1; i-- > 0;) sum = xp_fma(g, sum, x, kg_float(g, dt, c[i]));
    return sum;
}
/* Of an f32 or f64 x, |x| below 2^22 or 2^51: the nearest whole number, ties to even, as a float and as the low 22 or
 * 51 bits of an integer of the same width, where adding 1.5 * 2^p leaves it. */
static inline kn_ref xp_nearest(kn_graph *g, kn_ref x, kn_ref *low_bits) {
    bool   wide  = kg_dtype(g, x) == KN_F64;
    kn_ref magic = kg_float(g, kg_dtype(g, x), wide ? 0x1.8p52 : 0x1.8p23), t = xp_add(g, x, magic);
    *low_bits    = xp_as(g, t, wide ? KN_I64 : KN_I32);
    return xp_sub(g, t, magic);
}
/* 2^x = p 2^n for p = 2^f as below and n the nearest whole number, of which the low bits are enough; rounded once where
 * it is subnormal. x is within kn_decomp_least and most, where p is 1. */
kn_ref kn_decomp_scale(kn_graph *g, kn_ref p, kn_ref x, kn_ref n);
/* Bounds of x: 2^x is 0 and infinite there. */
static inline double kn_decomp_least(int dtype) {
    return dtype == KN_F64 ? -1080 : -152;
}
static inline double kn_decomp_most(int dtype) {
    return dtype == KN_F64 ? 1024 : 128;
}
/* 2^f for |f| <= 1/2, f32 and f64. */
kn_ref kn_decomp_exp2_part(kn_graph *g, kn_ref f);
/* x = m 2^e, m in [least, 2 least), least in (1/2, 1), for positive x, subnormal too: m as a float, e as a float. */
kn_ref kn_decomp_split(kn_graph *g, kn_ref x, double least, kn_ref *e);

#endif
