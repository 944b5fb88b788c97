/* test_accuracy.c - how far the functions of f32 and f64 are from the truth, in units in the last place, against libm
 * in double and long double.
 *
 * Run as a test: every function over a dense sample of all f32 and one of f64, on the CPU, by the C target and by the
 * default one. `test_api_accuracy --all NAME [TARGET]` takes all of the 2^32, and 256 times as many f64 (the tests
 * accuracy.NAME of `make check-full`, of the default target). Infinities, NaN, and the sign of a zero must be right.
 * A unit in the last place is the distance of the f32 that surround the true value; a result that overflows
 * counts from 2^128. */
#define _GNU_SOURCE
#include "api.h"

#include <float.h>

static const char *target; /* of the CPU; NULL: what this machine takes by default */

static kn_context *opened(void) {
    kn_config cfg = {.device = "CPU", .target = target, .threads = 2, .size = sizeof cfg};
    return kn_open(&cfg);
}

typedef struct function {
    const char *name;
    kn_tensor *(*build)(kn_tensor *x);
    double (*exact)(double x);
    double bound;  /* units in the last place */
    float  lo, hi; /* where it holds, of |x| if lo is positive; both 0: everywhere */
} function;

static double exact_rsqrt(double x) {
    return 1 / sqrt(x);
}
static double exact_recip(double x) {
    return 1 / x;
}
static double exact_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double exact_silu(double x) {
    return x == -INFINITY ? NAN : x / (1 + exp(-x));
}

/* The tanh form, 0.5 x (1 + tanh u) = x / (1 + e^(-2 u)). */
static double exact_gelu(double x) {
    return x == -INFINITY ? NAN : x / (1 + exp(-2 * 0.79788456080286535588 * x * (1 + 0.044715 * x * x)));
}

static const function functions[] = {
    {"exp2", kn_exp2, exp2, 2, 0, 0},
    {"log2", kn_log2, log2, 2, 0, 0},
    {"sin", kn_sin, sin, 2, 0, 0},
    {"exp", kn_exp, exp, 4, 0, 0},
    {"log", kn_log, log, 4, 0, 0},
    {"sqrt", kn_sqrt, sqrt, 0.5, 0, 0},
    {"rsqrt", kn_rsqrt, exact_rsqrt, 2, 0, 0},
    {"recip", kn_recip, exact_recip, 0.5, 0, 0},
    {"trunc", kn_trunc, trunc, 0, 0, 0},
    {"tanh", kn_tanh, tanh, 4, 0, 0},
    {"erf", kn_erf, erf, 4, 0, 0},
    {"sigmoid", kn_sigmoid, exact_sigmoid, 4, 0, 0},
    {"silu", kn_silu, exact_silu, 5, -87, INFINITY}, /* below, the sigmoid is subnormal */
    /* Of the exponent's own rounding: an error of u is one of e^-2u, |u| times as large. */
    {"gelu", kn_gelu, exact_gelu, 8, -1, INFINITY},
    /* sin(x + pi/2), whose sum is rounded: an absolute error that grows with x */
    {"cos", kn_cos, cos, 4, 0, 0.5},
};

static float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Units in the last place between y and the true value; infinity where they are not of one kind. */
static double distance(float y, double want) {
    if (isnan(want) || isnan(y)) return isnan(want) && isnan(y) ? 0 : INFINITY;
    if (want == 0) return y == 0 && !signbit(y) == !signbit(want) ? 0 : INFINITY;
    if (isinf((float)want) && isinf(y)) return (y > 0) == (want > 0) ? 0 : INFINITY;
    if (isinf(want)) return INFINITY;
    uint64_t bits;
    memcpy(&bits, &want, sizeof bits);
    int e = (int)(bits >> 52 & 0x7ff) - 1023; /* written out: ilogb and ldexp would take most of the time */
    e     = e < -126 ? -126 : e > 127 ? 127 : e;
    double steps;
    bits = (uint64_t)(1023 + FLT_MANT_DIG - 1 - e) << 52;
    memcpy(&steps, &bits, sizeof steps);
    return fabs((isinf(y) ? copysign(0x1p128, (double)y) : (double)y) - want) * steps;
}

enum { CHUNK = 1 << 18 };

typedef struct worst {
    double ulp;
    float  at, got;
} worst;

static void look(const function *f, const float *x, const float *y, int64_t n, worst *w) {
    for (int64_t i = 0; i < n; i++) {
        double a = f->lo > 0 ? fabs((double)x[i]) : (double)x[i];
        if ((f->lo != 0 || f->hi != 0) && !(a >= (double)f->lo && a <= (double)f->hi)) continue;
        double ulp = distance(y[i], f->exact((double)x[i]));
        if (ulp > w->ulp) *w = (worst){ulp, x[i], y[i]};
    }
}

/* Every `stride`-th pattern of all; before them those around each power of two, zero and infinity. */
static worst measure(kn_context *kn, const function *f, uint32_t stride) {
    static float x[CHUNK], y[CHUNK];
    worst        w     = {0};
    bool         first = true;
    kn_tensor   *in    = kn_empty(kn, KN_F32, KN_DIMS(CHUNK));
    for (uint64_t at = 0; at < UINT64_C(1) << 32;) {
        for (int i = 0; i < CHUNK; i++, at += stride) x[i] = float_of((uint32_t)at);
        for (uint32_t i = 0; stride > 1 && first && i < 1 << 14;
             i++) /* sign and exponent, and what differs by little */
            x[i] = float_of((i >> 5 << 23) + (i & 31) - 16);
        first       = false;
        kn_scope *s = kn_begin(kn);
        if (!CHECK_EQ(kn_write(in, x, sizeof x), KN_OK) || !CHECK_EQ(kn_read(f->build(in), KN_F32, y, sizeof y), KN_OK))
            at = UINT64_C(1) << 32;
        CHECK_EQ(kn_end(s), KN_OK);
        look(f, x, y, CHUNK, &w);
    }
    if (!CHECK(w.ulp <= f->bound) || true)
        printf("     %-8s %8.3f units in the last place, at %.9g (%a) where it gives %.9g\n", f->name, w.ulp,
               (double)w.at, (double)w.at, (double)w.got);
    return w;
}

static void sampled(void) {
    kn_context *kn = opened();
    for (int i = 0; i < (int)(sizeof functions / sizeof *functions); i++) measure(kn, &functions[i], 1021);
    kn_close(kn);
}

/* ---- f64 --------------------------------------------------------------------------------------------------------- */

static long double exact_sigmoid64(long double x) {
    return 1 / (1 + expl(-x));
}
static long double exact_rsqrt64(long double x) {
    return 1 / sqrtl(x);
}

static uint64_t next_of(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed ^ *seed >> 29;
}

/* Near a multiple of pi/2: up to 2^63 quarter turns. */
static double quarter_turns(uint64_t r) {
    double x = (double)((long double)(r >> (1 + r % 62)) * 1.57079632679489661923132169163975144L);
    memcpy(&r, &x, sizeof r);
    r += (r >> 7) % 5 - 2;
    memcpy(&x, &r, sizeof x);
    return x;
}

static const struct {
    const char *name;
    kn_tensor *(*build)(kn_tensor *x);
    long double (*exact)(long double x);
    double bound, lo, hi;        /* where the sample lies beside the special values */
    double (*other)(uint64_t r); /* a quarter of it, if not NULL */
} wide[] = {
    {"exp2", kn_exp2, exp2l, 2, -1080, 1030, NULL},
    {"log2", kn_log2, log2l, 2, 0, 4, NULL},
    {"exp", kn_exp, expl, 4, -746, 710, NULL},
    {"log", kn_log, logl, 4, 0, 4, NULL},
    {"tanh", kn_tanh, tanhl, 4, -20, 20, NULL},
    {"erf", kn_erf, erfl, 4, -7, 7, NULL},
    {"sigmoid", kn_sigmoid, exact_sigmoid64, 4, -745, 40, NULL},
    {"sqrt", kn_sqrt, sqrtl, 0.5, 0, 1e6, NULL},
    {"rsqrt", kn_rsqrt, exact_rsqrt64, 2, 0, 1e6, NULL},
    {"sin", kn_sin, sinl, 1, -1e6, 1e6, quarter_turns},
};

static double distance64(double y, long double want) {
    if (isnan(want) || isnan(y)) return isnan(want) && isnan(y) ? 0 : INFINITY;
    if ((want == 0 && y != 0) || (y == 0 && !signbit(y) != !signbit(want))) return INFINITY;
    if (want == 0) return 0;
    if (isinf((double)want) && isinf(y)) return (y > 0) == (want > 0) ? 0 : INFINITY;
    if (isinf(want)) return INFINITY;
    int e = ilogbl(want) < -1022 ? -1022 : ilogbl(want) > 1023 ? 1023 : ilogbl(want);
    return (double)ldexpl(fabsl((isinf(y) ? copysignl(0x1p1024L, (long double)y) : (long double)y) - want), 52 - e);
}

/* Special values, and 2^18 others in each round. */
static void measure_f64(kn_context *kn, int k, int rounds) {
    static const double special[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-1074, -0x1p-1074, 0x1p-1022, 1e308,
                                     -1e308, 1e-9, -1e-9, 709.78, -745.2, 0.6, 0.93, -0.6, 1e-300,
                                     /* nearest to multiples of pi/2, of all: by continued fractions of 2^k 2/pi */
                                     0x1.6ac5b262ca1ffp+849, 0x1.6c6cbc45dc8dep+5, 0x1.6ac5b262ca1ffp+850,
                                     0x1.6c6cbc45dc8dep+6, 0x1.b951f1572eba5p+23, 0x1.504cac51f1eafp+131,
                                     0x1.e009c53148be1p+991, 0x1.fffffffffffffp+1023, 0x1.921fb54442d18p-1,
                                     0x1.921fb54442d18p+0, 0x1.fffffffffffffp-1};
    static double       x[CHUNK], y[CHUNK];
    double              most = 0, at = 0;
    uint64_t            seed = 1;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < CHUNK; i++) {
            uint64_t r = next_of(&seed);
            double   u = (double)(r >> 11) * 0x1p-53;
            x[i]       = wide[k].lo + (wide[k].hi - wide[k].lo) * u;
            if (i % 4 == 1) memcpy(&x[i], &r, sizeof r);
            if (i % 4 == 2) x[i] = (u - 0.5) * 4;
            if (i % 4 == 3 && wide[k].other) x[i] = wide[k].other(r);
        }
        memcpy(x, special, sizeof special);
        kn_scope *s = kn_begin(kn);
        CHECK_EQ(kn_read(wide[k].build(kn_from(kn, x, KN_F64, KN_DIMS(CHUNK))), KN_F64, y, sizeof y), KN_OK);
        CHECK_EQ(kn_end(s), KN_OK);
        for (int i = 0; i < CHUNK; i++) {
            double ulp = distance64(y[i], wide[k].exact((long double)x[i]));
            if (ulp > most) most = ulp, at = x[i];
        }
    }
    printf("     %-8s %8.3f units in the last place of f64, at %.17g\n", wide[k].name, most, at);
    CHECK(most <= wide[k].bound);
}

static void sampled_f64(void) {
    if (LDBL_MANT_DIG < 64) SKIP("long double is no wider than double here");
    kn_context *kn = opened();
    for (int k = 0; k < (int)(sizeof wide / sizeof *wide); k++) measure_f64(kn, k, 1);
    kn_close(kn);
}

/* ---- pow, and what kernels hold ---------------------------------------------------------------------------------- */

/* Kernels hold no call that is made lane by lane, but truncation of f64: the C target's text. */
static void no_calls_of(kn_dtype dtype) {
    static const char *const calls[] = {"_exp", "_log", "_sin", "_pow", "_trunc", "_ldexp"};
    kn_config                cfg     = {.target = "c", .size = sizeof cfg};
    kn_context              *kn      = kn_open(&cfg);
    kn_tensor               *x       = kn_empty(kn, dtype, KN_DIMS(1000));
    for (int i = 0; i <= (int)(sizeof functions / sizeof *functions); i++) {
        bool pow = i == (int)(sizeof functions / sizeof *functions);
        char      *text = NULL;
        size_t     size = 0;
        FILE      *f    = open_memstream(&text, &size);
        kn_tensor *y    = pow ? kn_pow(x, kn_add_s(x, 1)) : functions[i].build(x);
        if (!CHECK(f != NULL)) break;
        CHECK_EQ(kn_dump(y, "render", f), KN_OK);
        fclose(f);
        CHECK(strstr(text, dtype == KN_F64 ? "const f64x" : "const f32x") != NULL);
        for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
            char word[32];
            snprintf(word, sizeof word, "__builtin%s", calls[k]);
            if (dtype == KN_F64 && !strcmp(calls[k], "_trunc")) continue;
            if (!CHECK(strstr(text, word) == NULL)) printf("     %s: %s\n", pow ? "pow" : functions[i].name, word);
        }
        free(text);
    }
    kn_close(kn);
}
static void no_calls(void) {
    no_calls_of(KN_F32);
    no_calls_of(KN_F64);
}

/* Pairs: 2^20 of random patterns, of bases near 1 with exponents that make something of them, and of small integers. */
static void powers(int passes) {
    static float x[CHUNK], y[CHUNK], z[CHUNK];
    kn_context  *kn    = opened();
    kn_tensor   *in[2] = {kn_empty(kn, KN_F32, KN_DIMS(CHUNK)), kn_empty(kn, KN_F32, KN_DIMS(CHUNK))};
    double       most  = 0;
    uint64_t     seed  = 1;
    for (int pass = 0; pass < passes; pass++) {
        for (int i = 0; i < CHUNK; i++) {
            seed     = seed * 6364136223846793005u + 1442695040888963407u;
            double u = (double)(seed >> 40) * 0x1p-24, v = (double)(seed >> 12 & 0xfffffff) * 0x1p-27 - 1;
            x[i] = float_of((uint32_t)(seed >> 32)), y[i] = float_of((uint32_t)(seed >> 7));
            if (pass % 4 == 1) x[i] = (float)exp2((u - 0.5) * 250), y[i] = (float)(v * 150 / fabs(log2((double)x[i])));
            if (pass % 4 == 2) x[i] = (float)(1 + (u - 0.5) * 1e-3), y[i] = (float)(v * 150 / fabs(log2((double)x[i])));
            if (pass % 4 == 3) x[i] = (float)(floor(u * 64) - 32) / 4, y[i] = (float)floor(v * 40);
        }
        kn_scope *s = kn_begin(kn);
        CHECK_EQ(kn_write(in[0], x, sizeof x), KN_OK);
        CHECK_EQ(kn_write(in[1], y, sizeof y), KN_OK);
        CHECK_EQ(kn_read(kn_pow(in[0], in[1]), KN_F32, z, sizeof z), KN_OK);
        CHECK_EQ(kn_end(s), KN_OK);
        int shown = 0;
        for (int i = 0; i < CHUNK; i++) {
            double ulp = distance(z[i], pow((double)x[i], (double)y[i]));
            if (ulp > 2 && shown++ < 3) printf("     pow(%a, %a): %a\n", (double)x[i], (double)y[i], (double)z[i]);
            if (ulp > most) most = ulp;
        }
    }
    printf("     pow      %8.3f units in the last place\n", most);
    CHECK(most <= 2);
    kn_close(kn);
}

/* The same of f64, behind every pair of special values. */
static void powers_f64(int passes) {
    static const double special[] = {0,
                                     1,
                                     INFINITY,
                                     0x1p-1074,
                                     0x1p-1023,
                                     0x1p-1022,
                                     0x1.fffffffffffffp+1023,
                                     0x1.fffffffffffffp-1,
                                     0x1.0000000000001p0,
                                     0.5,
                                     2,
                                     3,
                                     1.5,
                                     0x1p51,
                                     0x1.0000000000001p51,
                                     0x1.0000000000001p52,
                                     0x1.fffffffffffffp52,
                                     0x1p53,
                                     0x1p64,
                                     1023,
                                     1024,
                                     1074,
                                     1075,
                                     1e-300,
                                     0x1.6a09e667f3bccp-1,
                                     0x1.6a09e667f3bcdp-1};
    enum { S = 2 * (int)(sizeof special / sizeof *special) + 1 };
    static double x[CHUNK], y[CHUNK], z[CHUNK], v[S];
    if (LDBL_MANT_DIG < 64) SKIP("long double is no wider than double here");
    kn_context *kn    = opened();
    kn_tensor  *in[2] = {kn_empty(kn, KN_F64, KN_DIMS(CHUNK)), kn_empty(kn, KN_F64, KN_DIMS(CHUNK))};
    double      most  = 0;
    uint64_t    seed  = 1;
    for (int i = 0; i < S; i++) v[i] = i == S - 1 ? (double)NAN : i % 2 ? -special[i / 2] : special[i / 2];
    for (int pass = 0; pass < passes; pass++) {
        for (int i = 0; i < CHUNK; i++) {
            uint64_t a = next_of(&seed), b = next_of(&seed);
            double   u = (double)(a >> 11) * 0x1p-53, w = (double)(b >> 10) * 0x1p-53 - 1;
            memcpy(&x[i], &a, sizeof a);
            memcpy(&y[i], &b, sizeof b);
            if (pass % 4 == 1) x[i] = exp2((u - 0.5) * 2040), y[i] = w * 1080 / fabs(log2(x[i]));
            if (pass % 4 == 2) x[i] = 1 + (u - 0.5) * exp2(-(double)(i % 50)), y[i] = w * 1080 / fabs(log2(x[i]));
            if (pass % 4 == 3) x[i] = (floor(u * 64) - 32) / 4, y[i] = floor(w * 200);
            if (pass == 0 && i < S * S) x[i] = v[i / S], y[i] = v[i % S];
        }
        kn_scope *s = kn_begin(kn);
        CHECK_EQ(kn_write(in[0], x, sizeof x), KN_OK);
        CHECK_EQ(kn_write(in[1], y, sizeof y), KN_OK);
        CHECK_EQ(kn_read(kn_pow(in[0], in[1]), KN_F64, z, sizeof z), KN_OK);
        CHECK_EQ(kn_end(s), KN_OK);
        int shown = 0;
        for (int i = 0; i < CHUNK; i++) {
            double ulp = distance64(z[i], powl((long double)x[i], (long double)y[i]));
            if (ulp > 1 && shown++ < 3) printf("     pow(%a, %a): %a, %g units\n", x[i], y[i], z[i], ulp);
            if (ulp > most) most = ulp;
        }
    }
    printf("     pow      %8.3f units in the last place of f64\n", most);
    CHECK(most <= 1);
    kn_close(kn);
}

static const char *only;

static void all_of(void) {
    kn_context *kn    = opened();
    bool        found = !strcmp(only, "pow");
    for (int i = 0; i < (int)(sizeof functions / sizeof *functions); i++) {
        if (strcmp(only, functions[i].name)) continue;
        measure(kn, &functions[i], 1);
        found = true;
    }
    for (int i = 0; i < (int)(sizeof wide / sizeof *wide) && LDBL_MANT_DIG >= 64; i++)
        if (!strcmp(only, wide[i].name)) measure_f64(kn, i, 256);
    kn_close(kn);
    if (!strcmp(only, "pow")) powers(256), powers_f64(256);
    CHECK(found);
}

static void powers_sampled(void) {
    powers(12);
}
static void powers_sampled_f64(void) {
    powers_f64(4);
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "--all")) {
        only   = argv[2];
        target = argc > 3 ? argv[3] : NULL;
        RUN(all_of);
        return check_result();
    }
    for (int t = 0; t < 2; t++) {
        target = t ? NULL : "c";
        printf("     %s\n", t ? "the default target" : "the C target");
        RUN(sampled);
        RUN(sampled_f64);
        RUN(powers_sampled);
        RUN(powers_sampled_f64);
    }
    RUN(no_calls);
    return check_result();
}
