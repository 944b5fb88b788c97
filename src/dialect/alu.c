/* alu.c - what every elementwise op means on scalars; shared by the interpreter and by constant folding.
 *
 * Contract. A kn_scalar of a dtype is in range for it: integers are sign- or zero-extended to 64 bits (u64: its bits),
 * bools are 0 or 1, floats are doubles that the dtype can hold. Every function here keeps that.
 *   - Integers wrap. Of bools, arithmetic is that of integers followed by "not zero": ADD is or, MUL is and.
 *   - Floats narrower than f64 are computed in double and rounded once. For + - * / and sqrt that is the correctly
 *     rounded result (53 >= 2 p + 2 bits for every p up to f32's 24); MULACC rounds the intermediate sum to odd, which
 *     makes it correct too. Rounding is to nearest, ties to even. A NaN that an op makes is the one quiet NaN.
 *   - f8e4m3 and f8e5m2 are the OCP 8-bit formats: e4m3 ends at 448 and has no infinity, so what overflows is NaN. */
#include "dialect/uop.h"

#include <math.h>
#include <string.h>

/* ---- narrow floats ------------------------------------------------------------------------------------------- */

typedef struct alu_format {
    int  ebits, mbits;
    bool inf; /* has infinities; else only the all-ones pattern is NaN */
} alu_format;

static alu_format alu_format_of(int dtype) {
    switch (dtype) {
    case KN_F8E4M3: return (alu_format){4, 3, false};
    case KN_F8E5M2: return (alu_format){5, 2, true};
    case KN_F16: return (alu_format){5, 10, true};
    default: return (alu_format){8, 7, true}; /* KN_BF16 */
    }
}

static uint64_t alu_bits(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static double alu_from_bits(uint64_t u) {
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* Nearest value of the format, ties to even, as its bits. */
static uint32_t alu_encode(double v, alu_format fm) {
    uint64_t u = alu_bits(v), ax = u & INT64_MAX;
    int      width = fm.ebits + fm.mbits;
    uint32_t sign = (uint32_t)(u >> 63) << width;
    uint32_t top = (uint32_t)((1u << fm.ebits) - 1) << fm.mbits; /* exponent all ones */
    uint32_t nan = fm.inf ? top | 1u << (fm.mbits - 1) : (1u << width) - 1;
    if (v != v) return sign | nan;
    if (ax >> 52 == 0x7ff) return sign | (fm.inf ? top : nan);
    int e = (int)(ax >> 52) - 1023 + (1 << (fm.ebits - 1)) - 1; /* exponent field, <= 0: subnormal */
    int shift = 52 - fm.mbits + (e <= 0 ? 1 - e : 0);
    if (shift > 53) return sign; /* below half of the smallest subnormal */
    uint64_t sig = (ax & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
    uint64_t q = sig >> shift, rem = sig & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
    if (rem > half || (rem == half && (q & 1))) q++;
    if (e > 0) q += (uint64_t)(e - 1) << fm.mbits; /* q holds the implicit bit, and a carry goes to the exponent */
    if (fm.inf ? q >= top : q >= nan) return sign | (fm.inf ? top : nan);
    return sign | (uint32_t)q;
}

static double alu_decode(uint32_t bits, alu_format fm) {
    int      width = fm.ebits + fm.mbits, bias = (1 << (fm.ebits - 1)) - 1;
    uint32_t mant = bits & ((1u << fm.mbits) - 1);
    int      field = (int)(bits >> fm.mbits) & ((1 << fm.ebits) - 1);
    double   v;
    if (fm.inf && field == (1 << fm.ebits) - 1) v = mant ? (double)NAN : (double)INFINITY;
    else if (!fm.inf && (bits & ((1u << width) - 1)) == (1u << width) - 1) v = (double)NAN;
    else if (field == 0) v = ldexp((double)mant, 1 - bias - fm.mbits);
    else v = ldexp((double)(mant | 1u << fm.mbits), field - bias - fm.mbits);
    return copysign(v, bits >> width & 1 ? -1.0 : 1.0);
}

/* v rounded to a float dtype; NaN becomes the canonical one. */
static double alu_round(double v, int dtype) {
    if (v != v) return alu_from_bits((uint64_t)0x7ff8 << 48);
    if (dtype == KN_F64) return v;
    if (dtype == KN_F32) return (double)(float)v;
    alu_format fm = alu_format_of(dtype);
    double     r = alu_decode(alu_encode(v, fm), fm);
    return r == r ? r : alu_from_bits((uint64_t)0x7ff8 << 48);
}

/* ---- integers ------------------------------------------------------------------------------------------------ */

static int64_t alu_wrap(uint64_t v, int dtype) {
    switch (dtype) {
    case KN_BOOL: return v != 0;
    case KN_I8: return (int8_t)(uint8_t)v;
    case KN_I16: return (int16_t)(uint16_t)v;
    case KN_I32: return (int32_t)(uint32_t)v;
    case KN_U8: return (uint8_t)v;
    case KN_U16: return (uint16_t)v;
    case KN_U32: return (uint32_t)v;
    default: return (int64_t)v;
    }
}

static int64_t alu_div(int64_t a, int64_t b, int dtype) {
    if (dtype == KN_U64) return b == 0 ? 0 : (int64_t)((uint64_t)a / (uint64_t)b);
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return kn_floor_div(a, b);
}

static int64_t alu_mod(int64_t a, int64_t b, int dtype) {
    if (dtype == KN_U64) return b == 0 ? a : (int64_t)((uint64_t)a % (uint64_t)b);
    if (b == -1) return 0;
    return kn_floor_mod(a, b);
}

static int64_t alu_shift(int64_t a, int64_t n, bool left, int dtype) {
    int  width = dtype == KN_BOOL ? 1 : 8 * kn_dsize(dtype);
    bool out = n < 0 || n >= width; /* a negative count, or a u64 count of 2^63 and more */
    if (left) return out ? 0 : (int64_t)((uint64_t)a << n);
    if (kn_dtypes[dtype].kind == 'I' && a < 0) return out ? -1 : ~(~a >> n);
    return out ? 0 : (int64_t)((uint64_t)a >> n);
}

/* Magnitude to double with the bits beyond 53 folded into the last one (rounding to odd), so that rounding the result
 * to any narrower float gives what rounding the integer would. */
static double alu_odd(uint64_t m) {
    if (m >> 53 == 0) return (double)m;
    return (double)((m & ~(uint64_t)0x7ff) | ((m & 0x7ff) ? 0x800 : 0));
}

static double alu_int_to_float(int64_t v, int from, int to) {
    bool     neg = from != KN_U64 && v < 0;
    uint64_t m = neg ? 0 - (uint64_t)v : (uint64_t)v;
    if (to == KN_F64) return from == KN_U64 ? (double)(uint64_t)v : (double)v;
    double d = alu_odd(m);
    return alu_round(neg ? -d : d, to);
}

static int64_t alu_float_to_int(double v, int to) {
    if (v != v) return 0;
    if (to == KN_U64) {
        if (v <= 0) return 0;
        return v >= 18446744073709551616.0 ? -1 : (int64_t)(uint64_t)v;
    }
    int64_t lo = kn_dtypes[to].min, hi = kn_dtypes[to].max;
    if (v <= (double)lo) return lo;
    if (v >= (double)hi) return hi; /* (double)INT64_MAX is 2^63, which is out of range as well */
    return (int64_t)v;
}

/* ---- the interface ------------------------------------------------------------------------------------------- */

kn_scalar kn_cast_scalar(kn_scalar v, int from, int to) {
    kn_scalar r = {0};
    bool      ff = kn_is_float(from);
    if (kn_is_float(to)) r.f = ff ? alu_round(v.f, to) : alu_int_to_float(v.i, from, to);
    else if (to == KN_BOOL) r.i = ff ? v.f != 0 : v.i != 0;
    else r.i = ff ? alu_float_to_int(v.f, to) : alu_wrap((uint64_t)v.i, to);
    return r;
}

kn_scalar kn_load_scalar(const void *p, int dtype) {
    kn_scalar r = {0};
    switch (dtype) {
    case KN_BOOL: r.i = *(const uint8_t *)p != 0; break;
    case KN_I8: r.i = *(const int8_t *)p; break;
    case KN_U8: r.i = *(const uint8_t *)p; break;
    case KN_I16: { int16_t t; memcpy(&t, p, sizeof t); r.i = t; break; }
    case KN_U16: { uint16_t t; memcpy(&t, p, sizeof t); r.i = t; break; }
    case KN_I32: { int32_t t; memcpy(&t, p, sizeof t); r.i = t; break; }
    case KN_U32: { uint32_t t; memcpy(&t, p, sizeof t); r.i = t; break; }
    case KN_I64: case KN_U64: case KN_INDEX: memcpy(&r.i, p, sizeof r.i); break;
    case KN_F8E4M3: case KN_F8E5M2: r.f = alu_decode(*(const uint8_t *)p, alu_format_of(dtype)); break;
    case KN_F16: case KN_BF16: {
        uint16_t t;
        memcpy(&t, p, sizeof t);
        r.f = alu_decode(t, alu_format_of(dtype));
        break;
    }
    case KN_F32: { float t; memcpy(&t, p, sizeof t); r.f = (double)t; break; }
    case KN_F64: memcpy(&r.f, p, sizeof r.f); break;
    default: break;
    }
    return r;
}

void kn_store_scalar(void *p, int dtype, kn_scalar v) {
    switch (dtype) {
    case KN_BOOL: *(uint8_t *)p = v.i != 0; break;
    case KN_I8: case KN_U8: *(uint8_t *)p = (uint8_t)v.i; break;
    case KN_I16: case KN_U16: { uint16_t t = (uint16_t)v.i; memcpy(p, &t, sizeof t); break; }
    case KN_I32: case KN_U32: { uint32_t t = (uint32_t)v.i; memcpy(p, &t, sizeof t); break; }
    case KN_I64: case KN_U64: case KN_INDEX: memcpy(p, &v.i, sizeof v.i); break;
    case KN_F8E4M3: case KN_F8E5M2: *(uint8_t *)p = (uint8_t)alu_encode(v.f, alu_format_of(dtype)); break;
    case KN_F16: case KN_BF16: {
        uint16_t t = (uint16_t)alu_encode(v.f, alu_format_of(dtype));
        memcpy(p, &t, sizeof t);
        break;
    }
    case KN_F32: { float t = (float)v.f; memcpy(p, &t, sizeof t); break; }
    case KN_F64: memcpy(p, &v.f, sizeof v.f); break;
    default: break;
    }
}

kn_scalar kn_identity(int reduce_op, int dtype) {
    kn_scalar r = {0};
    bool      fl = kn_is_float(dtype);
    double    inf = dtype == KN_F8E4M3 ? 448.0 : (double)INFINITY;
    switch (reduce_op) {
    case KN_OP_MUL:
        if (fl) r.f = 1;
        else r.i = 1;
        break;
    case KN_OP_MAX:
        if (fl) r.f = -inf;
        else r.i = kn_dtypes[dtype].min;
        break;
    case KN_OP_MIN:
        if (fl) r.f = inf;
        else r.i = dtype == KN_U64 ? -1 : kn_dtypes[dtype].max;
        break;
    default:
        if (fl) r.f = 0;
        break;
    }
    return r;
}

/* Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011). */
uint64_t kn_threefry2x32(uint64_t counter, uint64_t key) {
    static const uint8_t rot[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t k[3] = {(uint32_t)key, (uint32_t)(key >> 32), 0};
    k[2] = 0x1BD11BDAu ^ k[0] ^ k[1];
    uint32_t x0 = (uint32_t)counter + k[0], x1 = (uint32_t)(counter >> 32) + k[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            int n = rot[group & 1][i];
            x0 += x1;
            x1 = (x1 << n | x1 >> (32 - n)) ^ x0;
        }
        x0 += k[(group + 1) % 3];
        x1 += k[(group + 2) % 3] + group + 1;
    }
    return (uint64_t)x1 << 32 | x0;
}

/* a * b + c of floats no wider than f32, rounded once: the product is exact in double, the sum is rounded to odd. */
static double alu_mulacc(double a, double b, double c, int dtype) {
    if (dtype == KN_F64) return fma(a, b, c);
    double p = a * b, s = p + c;
    if (isfinite(s)) {
        double part = s - p, err = (p - (s - part)) + (c - part);
        if (err != 0 && !(alu_bits(s) & 1)) {
            uint64_t u = alu_bits(s);
            s = alu_from_bits((err > 0) == (s > 0) ? u + 1 : u - 1);
        }
    }
    return s;
}

static bool alu_compare(int op, int dtype, const kn_scalar *s, kn_scalar *out) {
    bool lt, gt;
    if (kn_is_float(dtype)) lt = s[0].f < s[1].f, gt = s[0].f > s[1].f;
    else if (dtype == KN_U64) lt = (uint64_t)s[0].i < (uint64_t)s[1].i, gt = (uint64_t)s[0].i > (uint64_t)s[1].i;
    else lt = s[0].i < s[1].i, gt = s[0].i > s[1].i;
    bool eq = kn_is_float(dtype) ? s[0].f == s[1].f : s[0].i == s[1].i;
    switch (op) {
    case KN_OP_CMPLT: out->i = lt; return true;
    case KN_OP_CMPGT: out->i = gt; return true;
    case KN_OP_CMPLE: out->i = lt || eq; return true;
    case KN_OP_CMPGE: out->i = gt || eq; return true;
    case KN_OP_CMPEQ: out->i = eq; return true;
    case KN_OP_CMPNE: out->i = !eq; return true;
    default: return false;
    }
}

static bool alu_float(int op, int dtype, const kn_scalar *s, double *out) {
    double a = s[0].f, v;
    switch (op) {
    case KN_OP_RECIP: v = 1.0 / a; break;
    case KN_OP_TRUNC: v = trunc(a); break;
    case KN_OP_NEG: v = -a; break;
    case KN_OP_EXP2: v = exp2(a); break;
    case KN_OP_LOG2: v = log2(a); break;
    case KN_OP_SIN: v = sin(a); break;
    case KN_OP_SQRT: v = sqrt(a); break;
    case KN_OP_ADD: v = a + s[1].f; break;
    case KN_OP_SUB: v = a - s[1].f; break;
    case KN_OP_MUL: v = a * s[1].f; break;
    case KN_OP_DIV: v = a / s[1].f; break;
    case KN_OP_POW: v = pow(a, s[1].f); break;
    case KN_OP_MAX: v = a != a || a >= s[1].f ? a : s[1].f; break;
    case KN_OP_MIN: v = a != a || a <= s[1].f ? a : s[1].f; break;
    case KN_OP_MULACC: v = alu_mulacc(a, s[1].f, s[2].f, dtype); break;
    default: return false;
    }
    *out = alu_round(v, dtype);
    return true;
}

static bool alu_int(int op, int dtype, const kn_scalar *s, int64_t *out) {
    uint64_t a = (uint64_t)s[0].i, b, v;
    switch (op) {
    case KN_OP_TRUNC: v = a; goto done;
    case KN_OP_NEG: v = 0 - a; goto done;
    case KN_OP_NOT: v = dtype == KN_BOOL ? !a : ~a; goto done;
    default: break;
    }
    if (kn_ops[op].cls == KN_CLS_UNARY) return false;
    b = (uint64_t)s[1].i;
    bool less = dtype == KN_U64 ? a < b : s[0].i < s[1].i;
    switch (op) {
    case KN_OP_ADD: v = a + b; break;
    case KN_OP_SUB: v = a - b; break;
    case KN_OP_MUL: v = a * b; break;
    case KN_OP_MAX: v = less ? b : a; break;
    case KN_OP_MIN: v = less ? a : b; break;
    case KN_OP_IDIV: v = (uint64_t)alu_div(s[0].i, s[1].i, dtype); break;
    case KN_OP_MOD: v = (uint64_t)alu_mod(s[0].i, s[1].i, dtype); break;
    case KN_OP_XOR: v = a ^ b; break;
    case KN_OP_OR: v = a | b; break;
    case KN_OP_AND: v = a & b; break;
    case KN_OP_SHR: v = (uint64_t)alu_shift(s[0].i, s[1].i, false, dtype); break;
    case KN_OP_SHL: v = (uint64_t)alu_shift(s[0].i, s[1].i, true, dtype); break;
    case KN_OP_THREEFRY: v = kn_threefry2x32(a, b); break;
    case KN_OP_MULACC: v = a * b + (uint64_t)s[2].i; break;
    default: return false;
    }
done:
    *out = alu_wrap(v, dtype);
    return true;
}

/* Also false where the op has no meaning for the dtype (SQRT of an integer, XOR of floats). */
bool kn_alu(int op, int out_dt, const int *src_dt, const kn_scalar *src, kn_scalar *out) {
    if (!kn_is_alu(op)) return false;
    kn_scalar r = {0};
    bool      ok = true;
    if (op == KN_OP_CAST) r = kn_cast_scalar(src[0], src_dt[0], out_dt);
    else if (op == KN_OP_WHERE) r = src[0].i ? src[1] : src[2];
    else if (out_dt == KN_BOOL && alu_compare(op, src_dt[0], src, &r)) ok = true;
    else if (kn_is_float(out_dt)) ok = alu_float(op, out_dt, src, &r.f);
    else ok = alu_int(op, out_dt, src, &r.i);
    if (ok) *out = r;
    return ok;
}
