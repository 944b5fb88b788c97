/* test_dtypes.c - every elementwise op on every dtype, special and random values: the interpreter and compiled C
 * against a third opinion, which is written here from the definitions alone.
 *
 * The third opinion: integers in 128 bits; floats in long double, rounded once by comparing with the middles of a table
 * of all values (narrow floats) or by C's own conversion (f32, f64). Integer results, and those of float operations
 * that IEEE 754 rounds, must agree to the last bit; EXP2, LOG2, SIN and POW within 2 units in the last place. */
#include "check.h"
#include "runtime/program.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

__extension__ typedef __int128 wide;
typedef long double            real;

typedef struct number { /* of an integer dtype its value, else f */
    wide i;
    real f;
} number;

/* ---- narrow floats: tables of what is not negative, from the OCP 8-bit and the IEEE 754 definitions ---------------
 */

typedef struct format {
    int    ebits, mbits;
    bool   inf;          /* f8e4m3 has none, and NaN only where all bits are ones */
    int    count;        /* codes of finite values */
    double value[32768]; /* by code, ascending */
} format;

static format formats[KN_DTYPE_COUNT];

static bool narrow(int dt) {
    return dt >= KN_F8E4M3 && dt <= KN_BF16;
}
static bool is_float(int dt) {
    return dt >= KN_F8E4M3 && dt <= KN_F64;
}

static void make_formats(void) {
    static const int shape[4][3] = {{4, 3, false}, {5, 2, true}, {5, 10, true}, {8, 7, true}};
    for (int k = 0; k < 4; k++) {
        format *m = &formats[KN_F8E4M3 + k];
        m->ebits = shape[k][0], m->mbits = shape[k][1], m->inf = shape[k][2] != 0;
        int bias = (1 << (m->ebits - 1)) - 1, codes = 1 << (m->ebits + m->mbits);
        m->count = m->inf ? codes - (1 << m->mbits) : codes - 1;
        for (int c = 0; c < m->count; c++) {
            int e = c >> m->mbits, f = c & ((1 << m->mbits) - 1);
            m->value[c] = e ? (1 + f * pow(2, -m->mbits)) * pow(2, e - bias) : f * pow(2, 1 - bias - m->mbits);
        }
    }
}

/* The code of hi + lo, |lo| small beside hi or hi 0; -1: NaN. */
static int narrow_code(const format *m, real hi, real lo) {
    int sign = hi < 0 || (hi == 0 && (lo < 0 || (lo == 0 && signbit(hi)))) ? 1 << (m->ebits + m->mbits) : 0;
    int none = m->inf ? m->count : -1, at = 0, above = m->count;
    if (isnan(hi) || isnan(lo)) return -1;
    if (sign) hi = -hi, lo = -lo;
    if (isinf(hi)) return none < 0 ? -1 : sign | none;
    while (above - at > 1) { /* value[at] <= hi + lo */
        int mid = (at + above) / 2;
        if ((hi - (real)m->value[mid]) + lo >= 0)
            at = mid;
        else
            above = mid;
    }
    /* what comes after the last finite value, for the middle between the two */
    double next   = at + 1 < m->count ? m->value[at + 1] : 2 * m->value[at] - m->value[at - 1];
    real   middle = ((real)m->value[at] + (real)next) / 2, over = (hi - middle) + lo;
    if (over > 0 || (over == 0 && (at & 1))) at++;
    return at < m->count ? sign | at : none < 0 ? -1 : sign | none;
}

static double narrow_value(const format *m, int code) {
    int sign = code >> (m->ebits + m->mbits), c = code & ((1 << (m->ebits + m->mbits)) - 1);
    if (c >= m->count) return m->inf && c == m->count ? (sign ? -INFINITY : INFINITY) : NAN;
    return sign ? -m->value[c] : m->value[c];
}

/* ---- numbers in memory ------------------------------------------------------------------------------------------- */

static int bits_of(int dt) {
    return dt == KN_BOOL ? 1 : 8 * kn_dsize(dt);
}
static bool is_signed(int dt) {
    return (dt >= KN_I8 && dt <= KN_I64) || dt == KN_INDEX;
}

static wide wrapped(wide v, int dt) {
    if (dt == KN_BOOL) return v != 0;
    wide one = 1, size = one << bits_of(dt), r = v & (size - 1);
    return is_signed(dt) && r >= size / 2 ? r - size : r;
}

static number get(const void *data, int64_t i, int dt) {
    const unsigned char *p = (const unsigned char *)data + i * kn_dsize(dt);
    number               n = {0};
    uint64_t             u = 0;
    memcpy(&u, p, (size_t)kn_dsize(dt)); /* little or big, the same below: only whole words are read */
    if (dt == KN_F32) {
        float f;
        memcpy(&f, p, 4);
        n.f = (real)f;
    } else if (dt == KN_F64) {
        double f;
        memcpy(&f, p, 8);
        n.f = (real)f;
    } else if (kn_dsize(dt) == 1)
        n.i = *p;
    else if (kn_dsize(dt) == 2) {
        uint16_t h;
        memcpy(&h, p, 2);
        n.i = h;
    } else if (kn_dsize(dt) == 4) {
        uint32_t w;
        memcpy(&w, p, 4);
        n.i = w;
    } else
        n.i = (wide)u;
    if (narrow(dt))
        n.f = (real)narrow_value(&formats[dt], (int)n.i);
    else if (!is_float(dt))
        n.i = wrapped(n.i, dt);
    return n;
}

/* hi + lo rounded to dt, as a number. */
static number rounded(real hi, real lo, int dt) {
    number n = {0};
    real   s = hi + lo, part = s - hi, lost = isfinite(s) ? (hi - (s - part)) + (lo - part) : 0; /* exact: s + lost */
    if (narrow(dt)) {
        int c = narrow_code(&formats[dt], s, lost);
        n.f   = c < 0 ? (real)NAN : (real)narrow_value(&formats[dt], c);
        return n;
    }
    if (lost != 0) { /* keep on which side of a middle it is */
        int  e;
        real m = frexpl(s, &e), step = ldexpl(1, e - LDBL_MANT_DIG);
        if (fmodl(ldexpl(m, LDBL_MANT_DIG), 2) == 0)
            s += (lost > 0) == (s > 0) ? copysignl(step, s) : -copysignl(step, s);
    }
    n.f = dt == KN_F32 ? (real)(float)s : (real)(double)s;
    return n;
}

/* ---- the third opinion ------------------------------------------------------------------------------------------- */

static wide floor_div(wide a, wide b) {
    if (b == 0) return 0;
    wide q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

static number cast_of(number x, int from, int to) {
    number r = {0};
    if (is_float(to)) {
        if (is_float(from)) return rounded(x.f, x.f == 0 ? x.f : 0, to);
        /* a long double holds 64 bits: all integers */
        return rounded((real)(int64_t)(x.i >> 32) * 4294967296.0L, (real)(uint32_t)(x.i & 0xffffffff), to);
    }
    if (!is_float(from))
        r.i = wrapped(x.i, to);
    else if (to == KN_BOOL)
        r.i = x.f != 0;
    else if (!isnan(x.f)) {
        wide one = 1, hi = (one << (bits_of(to) - (is_signed(to) ? 1 : 0))) - 1, lo = is_signed(to) ? -hi - 1 : 0;
        r.i = x.f <= (real)lo ? lo : x.f >= (real)hi ? hi : (wide)truncl(x.f);
    }
    return r;
}

static bool compare_of(int op, int dt, number a, number b, number *r) {
    bool lt = is_float(dt) ? a.f < b.f : a.i < b.i, gt = is_float(dt) ? a.f > b.f : a.i > b.i;
    bool eq = is_float(dt) ? a.f == b.f : a.i == b.i;
    switch (op) {
    case KN_OP_CMPLT: r->i = lt; return true;
    case KN_OP_CMPGT: r->i = gt; return true;
    case KN_OP_CMPLE: r->i = lt || eq; return true;
    case KN_OP_CMPGE: r->i = gt || eq; return true;
    case KN_OP_CMPEQ: r->i = eq; return true;
    case KN_OP_CMPNE: r->i = !eq; return true;
    default: return false;
    }
}

static wide int_of(int op, int dt, wide a, wide b, wide c) {
    int  w   = bits_of(dt);
    bool out = b < 0 || b >= w;
    switch (op) {
    case KN_OP_TRUNC: return a;
    case KN_OP_NEG: return wrapped(-a, dt);
    case KN_OP_NOT: return dt == KN_BOOL ? !a : wrapped(~a, dt);
    case KN_OP_ADD: return wrapped(a + b, dt);
    case KN_OP_SUB: return wrapped(a - b, dt);
    case KN_OP_MUL: return wrapped(wrapped(a * (b >> 32), dt) * ((wide)1 << 32) + a * (b & 0xffffffff), dt);
    case KN_OP_MULACC: return wrapped(int_of(KN_OP_MUL, dt, a, b, 0) + c, dt);
    case KN_OP_MAX: return a > b ? a : b;
    case KN_OP_MIN: return a < b ? a : b;
    case KN_OP_IDIV: return wrapped(floor_div(a, b), dt);
    case KN_OP_MOD: return wrapped(b ? a - floor_div(a, b) * b : a, dt);
    case KN_OP_AND: return a & b;
    case KN_OP_OR: return a | b;
    case KN_OP_XOR: return a ^ b;
    case KN_OP_SHL: return out ? 0 : wrapped(a << b, dt);
    case KN_OP_SHR: return out ? (a < 0 ? -1 : 0) : a >> b;
    default: return 0;
    }
}

/* The true value as hi + lo; the functions of libm: of double, or long double for f64. */
static real float_of(int op, int dt, real a, real b, real c, real *lo) {
    *lo = 0;
    switch (op) {
    case KN_OP_RECIP: return 1 / a;
    case KN_OP_TRUNC: return truncl(a);
    case KN_OP_NEG: return -a;
    case KN_OP_SQRT: return sqrtl(a);
    case KN_OP_EXP2: return dt == KN_F64 ? exp2l(a) : (real)exp2((double)a);
    case KN_OP_LOG2: return dt == KN_F64 ? log2l(a) : (real)log2((double)a);
    case KN_OP_SIN: return dt == KN_F64 ? sinl(a) : (real)sin((double)a);
    case KN_OP_POW: return dt == KN_F64 ? powl(a, b) : (real)pow((double)a, (double)b);
    case KN_OP_ADD: return a + b;
    case KN_OP_SUB: return a - b;
    case KN_OP_MUL: return a * b;
    case KN_OP_DIV: return a / b;
    case KN_OP_MAX: return isnan(a) || isnan(b) ? (real)NAN : a >= b ? a : b;
    case KN_OP_MIN: return isnan(a) || isnan(b) ? (real)NAN : a <= b ? a : b;
    case KN_OP_MULACC: {
        if (dt == KN_F64) return (real)fma((double)a, (double)b, (double)c);
        real p = a * b; /* exact */
        if (!isfinite(p) || !isfinite(c) || p == 0 || c == 0) return p + c;
        *lo = fabsl(p) > fabsl(c) ? c : p;
        return *lo == c ? p : c;
    }
    default: return 0;
    }
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

enum { NUMBERS = 1, INTS = 2, FLOATS = 4, BITS = 8, ANY = 16 };
static const struct {
    int  op, arity, takes;
    bool near; /* not rounded correctly: within 2 units in the last place */
} ops[] = {
    {KN_OP_RECIP, 1, FLOATS, false}, {KN_OP_TRUNC, 1, FLOATS, false}, {KN_OP_NEG, 1, NUMBERS, false},
    {KN_OP_NOT, 1, BITS, false},     {KN_OP_EXP2, 1, FLOATS, true},   {KN_OP_LOG2, 1, FLOATS, true},
    {KN_OP_SIN, 1, FLOATS, true},    {KN_OP_SQRT, 1, FLOATS, false},  {KN_OP_ADD, 2, ANY, false},
    {KN_OP_SUB, 2, NUMBERS, false},  {KN_OP_MUL, 2, ANY, false},      {KN_OP_DIV, 2, FLOATS, false},
    {KN_OP_MAX, 2, ANY, false},      {KN_OP_MIN, 2, ANY, false},      {KN_OP_IDIV, 2, INTS, false},
    {KN_OP_MOD, 2, INTS, false},     {KN_OP_XOR, 2, BITS, false},     {KN_OP_OR, 2, BITS, false},
    {KN_OP_AND, 2, BITS, false},     {KN_OP_SHR, 2, INTS, false},     {KN_OP_SHL, 2, INTS, false},
    {KN_OP_CMPLT, 2, ANY, false},    {KN_OP_CMPGT, 2, ANY, false},    {KN_OP_CMPLE, 2, ANY, false},
    {KN_OP_CMPGE, 2, ANY, false},    {KN_OP_CMPEQ, 2, ANY, false},    {KN_OP_CMPNE, 2, ANY, false},
    {KN_OP_POW, 2, FLOATS, true},    {KN_OP_WHERE, 3, ANY, false},    {KN_OP_MULACC, 3, NUMBERS, false},
};

static bool takes(int k, int dt) {
    switch (ops[k].takes) { /* as shape.c has it */
    case NUMBERS: return dt != KN_BOOL;
    case INTS: return dt != KN_BOOL && !is_float(dt);
    case FLOATS: return is_float(dt);
    case BITS: return !is_float(dt);
    default: return true;
    }
}

static kn_ref build(kn_graph *g, int k, const kn_ref *x) {
    int op = ops[k].op, dt = kg_dtype(g, x[0]);
    if (op == KN_OP_WHERE) return kg_op3(g, op, kg_op2(g, KN_OP_CMPLT, x[2], x[1]), x[0], x[1]);
    if (op == KN_OP_RECIP || ops[k].arity == 1) return kg_op1(g, op, x[0]);
    (void)dt;
    return ops[k].arity == 2 ? kg_op2(g, op, x[0], x[1]) : kg_op3(g, op, x[0], x[1], x[2]);
}

static number opinion(int k, int dt, const number *x) {
    number r  = {0};
    int    op = ops[k].op;
    if (op == KN_OP_WHERE) {
        compare_of(KN_OP_CMPLT, dt, x[2], x[1], &r);
        return r.i ? x[0] : x[1];
    }
    if (compare_of(op, dt, x[0], x[1], &r)) return r;
    if (is_float(dt)) {
        real lo, hi = float_of(op, dt, x[0].f, x[1].f, x[2].f, &lo);
        return rounded(hi, hi == 0 && lo == 0 ? hi : lo, dt); /* -0 + 0 would lose the sign */
    }
    if (dt == KN_BOOL && op == KN_OP_ADD)
        r.i = x[0].i | x[1].i;
    else if (dt == KN_BOOL && op == KN_OP_MUL)
        r.i = x[0].i & x[1].i;
    else
        r.i = int_of(op, dt, x[0].i, x[1].i, x[2].i);
    return r;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

enum { MOST = 1200 };

static uint64_t seed = 1;
static uint64_t draw(void) {
    seed       = seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = (seed ^ seed >> 32) * 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

static const double  float_specials[] = {0,
                                         -0.0,
                                         1,
                                         -1,
                                         0.5,
                                         -0.5,
                                         1.5,
                                         2,
                                         -2,
                                         3,
                                         (double)INFINITY,
                                         -(double)INFINITY,
                                         (double)NAN,
                                         448,
                                         464,
                                         65504,
                                         65520,
                                         57344,
                                         0x1p-126,
                                         0x1p-149,
                                         0x1p-1074,
                                         0x1p-24,
                                         3.4e38,
                                         1e308,
                                         0.1,
                                         100,
                                         -3.75,
                                         127,
                                         128.5,
                                         -149.5,
                                         1e5,
                                         1 + 0x1p-4 + 0x1p-30,
                                         1 + 0x1p-3 + 0x1p-30,
                                         1 + 0x1p-8 + 0x1p-40,
                                         1 + 0x1p-11 + 0x1p-40,
                                         1 + 0x1p-24 + 0x1p-50,
                                         2147483648.0,
                                         -2147483649.0,
                                         9.3e18,
                                         1.9e19,
                                         -1e-3,
                                         16777217,
                                         255.5,
                                         -128.9};
static const int64_t int_specials[]   = {0,
                                         1,
                                         -1,
                                         2,
                                         -2,
                                         3,
                                         7,
                                         8,
                                         15,
                                         16,
                                         31,
                                         32,
                                         33,
                                         63,
                                         64,
                                         65,
                                         100,
                                         127,
                                         -128,
                                         255,
                                         32767,
                                         -32768,
                                         65535,
                                         INT32_MAX,
                                         INT32_MIN,
                                         UINT32_MAX,
                                         INT64_MAX,
                                         INT64_MIN,
                                         INT64_MIN + 1,
                                         -7,
                                         0x1010001,
                                         -0x1010001,
                                         INT64_C(0x10100000001),
                                         INT64_C(0x1000001000000001)};

static void put(void *data, int64_t i, int dt, bool special, uint64_t r) {
    char     *p = (char *)data + i * kn_dsize(dt);
    kn_scalar s = {0};
    if (special && is_float(dt)) {
        s.f = float_specials[r % KN_COUNT(float_specials)];
        kn_store_scalar(p, dt, kn_cast_scalar(s, KN_F64, dt));
    } else if (special) {
        s.i = int_specials[r % KN_COUNT(int_specials)];
        kn_store_scalar(p, dt, kn_cast_scalar(s, KN_I64, dt));
    } else {
        memcpy(p, &r, (size_t)kn_dsize(dt));
        if (dt == KN_BOOL) *p &= 1;
    }
    if (dt == KN_INDEX) { /* its arithmetic must not overflow */
        int64_t v;
        memcpy(&v, p, 8);
        v %= 30000;
        memcpy(p, &v, 8);
    }
}

/* Every special value with every other, then random ones: whole patterns, and numbers of ordinary size. */
static void fill(kn_array *slot, int n, int dt) {
    int many = is_float(dt) ? KN_COUNT(float_specials) : KN_COUNT(int_specials);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            bool     special = i < many * many * 3 / 4 || (i % 7 == 0 && k == 0);
            uint64_t r       = i < many * many * 3 / 4 ? (uint64_t)(k == 0   ? i % many
                                                                    : k == 1 ? i / many
                                                                             : (i * 7 + i / many))
                                                       : draw();
            if (!special && is_float(dt) && i % 3 == 0) {
                kn_scalar s = {.f = ldexp((double)(int64_t)draw(), -63 + (int)(draw() % 12))};
                kn_store_scalar((char *)slot[k].data + i * kn_dsize(dt), dt, kn_cast_scalar(s, KN_F64, dt));
            } else if (!special && dt != KN_BOOL && !is_float(dt) && k == 1 && i % 2) {
                put(slot[k].data, i, dt, false, draw() % (2 * (uint64_t)bits_of(dt)));
            } else {
                put(slot[k].data, i, dt, special, r);
            }
        }
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

static kr_context *cpu;

static double step_of(real v, int dt) { /* the distance of the values of dt around v */
    int mant  = dt == KN_F64 ? 53 : dt == KN_F32 ? 24 : formats[dt].mbits + 1;
    int least = dt == KN_F64 ? -1022 : dt == KN_F32 ? -126 : 2 - (1 << (formats[dt].ebits - 1));
    int e     = v == 0 ? least : KN_MAX(ilogbl(v), least);
    return ldexp(1, e - mant + 1);
}

static bool same(number got, number want, int dt, bool near, bool zero_sign) {
    if (!is_float(dt)) return got.i == want.i;
    if (isnan(want.f) || isnan(got.f)) return isnan(want.f) && isnan(got.f);
    if (got.f == want.f) return want.f != 0 || !zero_sign || !signbit(got.f) == !signbit(want.f);
    if (!near) return false;
    if (isinf(got.f) || isinf(want.f)) { /* on the edge of overflow */
        real x = isinf(got.f) ? want.f : got.f;
        return !isinf(x) && (got.f > 0) == (want.f > 0) &&
               fabsl(x) * (1 + 3 * (real)step_of(1, dt)) >= (dt == KN_F64 ? (real)DBL_MAX
                                                             : dt == KN_F32
                                                                 ? (real)FLT_MAX
                                                                 : (real)formats[dt].value[formats[dt].count - 1]);
    }
    /* want is rounded itself, which half a unit stands for */
    return fabsl(got.f - want.f) <= (narrow(dt) ? 1.0L : 2.5L) * (real)step_of(want.f, dt);
}

static void show(const char *engine, int op, int dt, int to, const number *x, number got, number want) {
    char a[3][64], r[2][64];
    for (int k = 0; k < 3; k++)
        is_float(dt) ? snprintf(a[k], 64, "%.17Lg", x[k].f) : snprintf(a[k], 64, "%lld", (long long)x[k].i);
    is_float(to) ? snprintf(r[0], 64, "%.17Lg", got.f) : snprintf(r[0], 64, "%lld", (long long)got.i);
    is_float(to) ? snprintf(r[1], 64, "%.17Lg", want.f) : snprintf(r[1], 64, "%lld", (long long)want.i);
    printf("     %s: %s of %s to %s (%s, %s, %s): %s, not %s\n", engine, kn_ops[op].name, kn_dtypes[dt].name,
           kn_dtypes[to].name, a[0], a[1], a[2], r[0], r[1]);
}

typedef struct program {
    kn_graph *g;
    kn_ref    x[3], value[64];
    int       dt, n, which[64], to[64]; /* which: an op's number, or -1: a cast to `to` */
} program;

static void program_open(program *p, int dt, int64_t n) {
    memset(p, 0, sizeof *p);
    p->g  = kg_new(NULL);
    p->dt = dt;
    for (int k = 0; k < 3; k++) p->x[k] = kg_param(p->g, k, dt, &n, 1);
}

static void program_add(program *p, kn_ref value, int which) {
    p->value[p->n] = value;
    p->which[p->n] = which;
    p->to[p->n++]  = kg_dtype(p->g, value);
}

/* MULACC as compiled code may have it where the machine cannot fuse, or needs the product by itself too. */
static bool twice_rounded(number got, const number *x, int dt) {
    if (dt == KN_F32) {
        volatile float p = (float)x[0].f * (float)x[1].f, s = p + (float)x[2].f;
        return same(got, (number){.f = (real)s}, dt, false, true);
    }
    volatile double p = (double)x[0].f * (double)x[1].f, s = p + (double)x[2].f;
    return dt == KN_F64 && same(got, (number){.f = (real)s}, dt, false, true);
}

/* All values of the program by both engines against the third opinion; how many were compared. */
static long program_check(program *p, const kn_array *slot, bool zero_sign) {
    kn_ref   root = kg_list(p->g, KN_OP_TUPLE, p->value, p->n);
    kn_value out[2][64];
    int      n[2]  = {64, 64};
    kn_fault f     = {0};
    long     done  = 0;
    bool     ok[2] = {kn_eval(p->g, root, slot, 3, out[0], &n[0], NULL, &f), false};
    ok[1]          = kr_run_program(cpu, p->g, root, slot, 3, out[1], &n[1], &f);
    if (!CHECK(ok[0] && ok[1])) printf("     %s: %s\n", kn_dtypes[p->dt].name, f.text);
    for (int v = 0; v < p->n && ok[0] && ok[1]; v++) {
        int op = p->which[v] < 0 ? KN_OP_CAST : ops[p->which[v]].op, to = p->to[v], bad[2] = {0};
        for (int64_t i = 0; i < slot[0].size; i++) {
            number x[3];
            for (int k = 0; k < 3; k++) x[k] = get(slot[k].data, i, p->dt);
            number want = p->which[v] < 0 ? cast_of(x[0], p->dt, to) : opinion(p->which[v], p->dt, x);
            for (int e = 0; e < 2; e++, done++) {
                number got  = get(out[e][v].data, i, to);
                bool   fine = same(got, want, to, p->which[v] >= 0 && ops[p->which[v]].near, zero_sign);
                if (e && op == KN_OP_MULACC) fine = fine || twice_rounded(got, x, p->dt);
                if (fine || bad[e]++ > 2) continue;
                show(e ? "CPU" : "INTERP", op, p->dt, to, x, got, want);
                CHECK_EQ(bad[e], 0);
            }
        }
    }
    for (int e = 0; e < 2; e++)
        for (int v = 0; v < n[e] && ok[e]; v++) kn_value_free(NULL, &out[e][v]);
    kg_free(p->g);
    return done;
}

static char store[3][MOST * 8];

static long check_dtype(int dt, bool casts, int64_t n, int64_t from) {
    program  p;
    kn_array slot[3];
    program_open(&p, dt, n);
    for (int k = 0; k < 3; k++) slot[k] = (kn_array){store[k] + from * kn_dsize(dt), n, dt};
    if (casts)
        for (int to = KN_BOOL; to <= KN_INDEX; to++) {
            if (to != dt) program_add(&p, kg_cast(p.g, p.x[0], to), -1);
        }
    else
        for (int k = 0; k < KN_COUNT(ops); k++)
            if (takes(k, dt)) program_add(&p, build(p.g, k, p.x), k);
    return program_check(&p, slot, true);
}

static void each_dtype(bool casts) {
    long done = 0;
    for (int dt = KN_BOOL; dt <= KN_INDEX; dt++) {
        kn_array slot[3];
        for (int k = 0; k < 3; k++) slot[k] = (kn_array){store[k], MOST, dt};
        fill(slot, MOST, dt);
        done += check_dtype(dt, casts, MOST - 3, 0);                                /* vectors, and what is left over */
        for (int64_t i = 0; i < MOST; i += 23) done += check_dtype(dt, casts, 1, i); /* one element: scalars */
    }
    printf("     %ld values\n", done);
}

static void ops_of_every_dtype(void) {
    each_dtype(false);
}
static void casts_between_all(void) {
    each_dtype(true);
}

/* Functions of narrow floats, all values of them: compiled, in f32 and rounded, against what is rounded once. */
static void narrow_functions(void) {
    static const int function[] = {KN_OP_EXP2, KN_OP_LOG2, KN_OP_SIN, KN_OP_SQRT, KN_OP_RECIP, KN_OP_TRUNC};
    static char      data[1 << 17];
    for (int dt = KN_F8E4M3; dt <= KN_BF16; dt++) {
        int64_t   n  = INT64_C(1) << bits_of(dt);
        kn_graph *g  = kg_new(NULL);
        kn_ref    x  = kg_param(g, 0, dt, &n, 1), y[KN_COUNT(function)];
        kn_array  in = {data, n, dt};
        kn_value  out[KN_COUNT(function)];
        kn_fault  f    = {0};
        int       nout = KN_COUNT(out);
        for (int64_t i = 0; i < n; i++) {
            uint8_t  b = (uint8_t)i;
            uint16_t h = (uint16_t)i;
            memcpy(data + i * kn_dsize(dt), kn_dsize(dt) == 1 ? (void *)&b : (void *)&h, (size_t)kn_dsize(dt));
        }
        for (int k = 0; k < KN_COUNT(function); k++) y[k] = kg_op1(g, function[k], x);
        bool ok = kr_run_program(cpu, g, kg_list(g, KN_OP_TUPLE, y, KN_COUNT(y)), &in, 1, out, &nout, &f);
        if (!CHECK(ok)) printf("     %s\n", f.text);
        for (int k = 0; k < KN_COUNT(function) && ok; k++) {
            long off = 0, far = 0;
            for (int64_t i = 0; i < n; i++) {
                real   lo;
                number a = get(data, i, dt), got = get(out[k].data, i, dt);
                real   v    = float_of(function[k], dt, a.f, 0, 0, &lo);
                number want = rounded(v, v == 0 ? v : 0, dt);
                off += !same(got, want, dt, false, false);
                far += !same(got, want, dt, true, true);
            }
            printf("     %s of %s: %ld of %ld values are the next one\n", kn_ops[function[k]].name, kn_dtypes[dt].name,
                   off, (long)n);
            CHECK_EQ(far, 0);
            CHECK(off <= (k < 3 && bits_of(dt) == 16 ? 8 : 0));
            kn_value_free(NULL, &out[k]);
        }
        kg_free(g);
    }
}

/* Threefry as its paper has it: a word at a time, the key injected after every four rounds. */
static uint64_t threefry(uint64_t counter, uint64_t key) {
    static const int turn[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    uint32_t         x[2]    = {(uint32_t)counter, (uint32_t)(counter >> 32)};
    uint32_t         k[3]    = {(uint32_t)key, (uint32_t)(key >> 32), UINT32_C(0x1BD11BDA)};
    k[2] ^= k[0] ^ k[1];
    x[0] += k[0], x[1] += k[1];
    for (uint32_t round = 0; round < 20; round++) {
        x[0] += x[1];
        x[1] = (x[1] << turn[round % 8] | x[1] >> (32 - turn[round % 8])) ^ x[0];
        if (round % 4 == 3) {
            uint32_t times = round / 4 + 1;
            x[0] += k[times % 3];
            x[1] += k[(times + 1) % 3] + times;
        }
    }
    return (uint64_t)x[1] << 32 | x[0];
}

static void threefry_and_bits(void) {
    static uint64_t c[MOST], k[MOST];
    kn_graph       *g     = kg_new(NULL);
    int64_t         n     = MOST - 1;
    kn_ref          x     = kg_param(g, 0, KN_U64, &n, 1), y[8];
    kn_array        in[2] = {{c, n, KN_U64}, {k, n, KN_U64}};
    kn_value        out[2][8];
    kn_fault        f       = {0};
    int             nout[2] = {8, 8}, to[8] = {KN_I64, KN_F64, KN_INDEX, KN_U32, KN_F32, KN_U16, KN_F16, KN_I8};
    for (int i = 0; i < MOST; i++)
        c[i] = i % 3 ? draw() : (uint64_t)i, k[i] = i % 5 ? draw() : UINT64_MAX - (uint64_t)i;
    c[0] = k[0] = 0;
    y[0]        = kg_op2(g, KN_OP_THREEFRY, x, kg_param(g, 1, KN_U64, &n, 1));
    for (int i = 1; i < 8; i++) y[i] = kg_bitcast(g, x, to[i]);
    kn_ref root = kg_list(g, KN_OP_TUPLE, y, 8);
    bool   ok   = kn_eval(g, root, in, 2, out[0], &nout[0], NULL, &f);
    if (CHECK(ok) && CHECK(kr_run_program(cpu, g, root, in, 2, out[1], &nout[1], &f)))
        for (int e = 0; e < 2; e++) {
            long bad = 0;
            for (int64_t i = 0; i < n; i++) bad += ((uint64_t *)out[e][0].data)[i] != threefry(c[i], k[i]);
            CHECK_EQ(bad, 0);
            CHECK_EQ(((uint64_t *)out[e][0].data)[0], INT64_C(0) + (long long)UINT64_C(0x99ba4efe6b200159));
            for (int v = 1; v < 8; v++) {
                bad = 0; /* bits are kept, but those of a NaN */
                for (int64_t i = 0; i < out[e][v].numel; i++) {
                    number was = get(c, i, to[v]), is = get(out[e][v].data, i, to[v]);
                    bad += is_float(to[v]) ? !same(is, was, to[v], false, true) : is.i != was.i;
                }
                CHECK_EQ(bad, 0);
            }
            for (int v = 0; v < 8; v++) kn_value_free(NULL, &out[e][v]);
        }
    else
        printf("     %s\n", f.text);
    kg_free(g);
}

/* `test_ir_dtypes`: on the target that this machine takes by default. `test_ir_dtypes c`: on that one. */
int main(int argc, char **argv) {
    kn_fault f = {0};
    make_formats();
    cpu = kr_new(NULL, &(kn_config){.device = "CPU", .target = argc > 1 ? argv[1] : NULL, .threads = 1}, &f);
    if (!CHECK(cpu != NULL)) return check_result();
    RUN(ops_of_every_dtype);
    RUN(casts_between_all);
    RUN(narrow_functions);
    RUN(threefry_and_bits);
    kr_free(cpu);
    return check_result();
}
