/* test_bare.c - what the spec's own decompositions are worth, taken as they are written, and that square root and
 * truncation for targets without them are exact.
 *
 * The spec says SQRT = EXP2(0.5 LOG2(A)), POW = EXP2(LOG2(A) B), DIV = MUL(A, RECIP(B)), and of EXP2, LOG2 and SIN that
 * they are range reduction and a polynomial; here with the plainest of each. docs/numerics.md states the bounds that
 * are checked here. */
#include "check.h"
#include "dialect/eval.h"
#include "rewrite/rewrite.h"
#include "rules/decomp.h"
#include "rules_gen.h"
#include "runtime/program.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { N = 1 << 15 };

static float   *x, *y;
static uint64_t seed = 1;

static uint32_t draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* ---- as the spec has them ---------------------------------------------------------------------------------------- */

static kn_ref taylor(kn_graph *g, kn_ref v, const double *c, int n) {
    return xp_polynomial(g, v, c, n);
}

/* 2^x = 2^n 2^f, n = trunc(x), by the series of e^(f ln 2), one factor. */
static kn_ref bare_exp2(kn_graph *g, const kn_ref *a) {
    double c[9] = {1};
    for (int i = 1; i < 9; i++) c[i] = c[i - 1] * 0.69314718055994530942 / i;
    kn_ref n = kg_op1(g, KN_OP_TRUNC, a[0]), p = taylor(g, xp_sub(g, a[0], n), c, 9);
    kn_ref bits = xp_shl(g, xp_add(g, kg_cast(g, n, KN_I32), xp_i32(g, 127)), xp_i32(g, 23));
    return xp_mul(g, p, xp_as(g, bits, KN_F32));
}

/* log2(x) = e + log2(m), m in [1, 2), by the series in (m - 1)/(m + 1). */
static kn_ref bare_log2(kn_graph *g, const kn_ref *a) {
    double c[7];
    for (int i = 0; i < 7; i++) c[i] = 2 * 1.4426950408889634 / (2 * i + 1);
    kn_ref bits = xp_as(g, a[0], KN_I32), one = xp_f32(g, 1);
    kn_ref e = xp_sub(g, xp_shr(g, bits, xp_i32(g, 23)), xp_i32(g, 127));
    kn_ref m = xp_as(g, xp_or(g, xp_and(g, bits, xp_i32(g, 0x7fffff)), xp_i32(g, 0x3f800000)), KN_F32);
    kn_ref s = kg_op2(g, KN_OP_DIV, xp_sub(g, m, one), xp_add(g, m, one));
    return xp_fma(g, s, taylor(g, xp_mul(g, s, s), c, 7), kg_cast(g, e, KN_F32));
}

/* sin(x): x less the nearest multiple of pi, in one f32, and the series. */
static kn_ref bare_sin(kn_graph *g, const kn_ref *a) {
    double c[6] = {1};
    for (int i = 1; i < 6; i++) c[i] = -c[i - 1] / (2 * i * (2 * i + 1));
    kn_ref k, n = xp_nearest(g, xp_mul(g, a[0], xp_f32(g, 0.31830988618379067)), &k);
    kn_ref r = xp_fma(g, n, xp_f32(g, -3.14159265358979323846), a[0]);
    kn_ref s = xp_mul(g, r, taylor(g, xp_mul(g, r, r), c, 6));
    return xp_if(g, xp_ne(g, xp_and(g, k, xp_i32(g, 1)), xp_i32(g, 0)), kg_op1(g, KN_OP_NEG, s), s);
}

static kn_ref bare_sqrt(kn_graph *g, const kn_ref *a) {
    return kg_op1(g, KN_OP_EXP2, xp_mul(g, kg_op1(g, KN_OP_LOG2, a[0]), xp_f32(g, 0.5)));
}
static kn_ref bare_pow(kn_graph *g, const kn_ref *a) {
    return kg_op1(g, KN_OP_EXP2, xp_mul(g, kg_op1(g, KN_OP_LOG2, a[0]), a[1]));
}
static kn_ref bare_div(kn_graph *g, const kn_ref *a) {
    return xp_mul(g, a[0], kg_op1(g, KN_OP_RECIP, a[1]));
}
static kn_ref bare_mulacc(kn_graph *g, const kn_ref *a) {
    return xp_add(g, xp_mul(g, a[0], a[1]), a[1]);
}
static kn_ref bare_sub(kn_graph *g, const kn_ref *a) {
    return xp_add(g, a[0], xp_mul(g, a[1], xp_f32(g, -1)));
}

static double of_exp2(double a, double b) {
    return (void)b, exp2(a);
}
static double of_log2(double a, double b) {
    return (void)b, log2(a);
}
static double of_sin(double a, double b) {
    return (void)b, sin(a);
}
static double of_sqrt(double a, double b) {
    return (void)b, sqrt(a);
}
static double of_div(double a, double b) {
    return a / b;
}
static double of_mulacc(double a, double b) {
    return fma(a, b, b);
}
static double of_sub(double a, double b) {
    return a - b;
}

static const struct {
    const char *name;
    kn_ref (*build)(kn_graph *g, const kn_ref *a);
    double (*exact)(double a, double b);
    double lo, hi, blo, bhi; /* where */
    double least, most;      /* the worst lies between these, units in the last place */
} bare[] = {
    {"EXP2, |x| <= 126", bare_exp2, of_exp2, -126, 126, 0, 0, 0.5, 3},
    {"LOG2, x in [2, 1e30]", bare_log2, of_log2, 2, 1e30, 0, 0, 0.5, 2},
    {"LOG2, x in [0.9, 1): cancels", bare_log2, of_log2, 0.9, 0.999, 0, 0, 100, 1e6},
    {"SIN, |x| <= 1", bare_sin, of_sin, -1, 1, 0, 0, 0.5, 3},
    {"SIN, |x| <= 1000", bare_sin, of_sin, -1000, 1000, 0, 0, 100, 1e9},
    {"SQRT, x in [1e-30, 1e30]", bare_sqrt, of_sqrt, 1e-30, 1e30, 0, 0, 10, 60},
    {"SQRT, x in [0.5, 2]", bare_sqrt, of_sqrt, 0.5, 2, 0, 0, 0.5, 3},
    {"POW, x in [1e-3, 1e3], |y| <= 10", bare_pow, pow, 1e-3, 1e3, -10, 10, 30, 150},
    {"DIV, x and y in [1e-18, 1e18]", bare_div, of_div, 1e-18, 1e18, 1e-18, 1e18, 0.6, 1.5},
    {"MULACC, terms of one sign", bare_mulacc, of_mulacc, 1e-3, 1e3, 1e-3, 1e3, 0.6, 1.5},
    {"SUB", bare_sub, of_sub, -1e3, 1e3, -1e3, 1e3, 0, 0.5},
};

static double uniform(double lo, double hi) {
    double u = draw() * 0x1p-32;
    if (lo > 0 && hi / lo > 100) return lo * pow(hi / lo, u);
    return lo + (hi - lo) * u;
}

static void as_written(void) {
    for (int k = 0; k < KN_COUNT(bare); k++) {
        kn_graph *g     = kg_new(NULL);
        int64_t   dim   = N;
        kn_ref    a[2]  = {kg_param(g, 0, KN_F32, &dim, 1), kg_param(g, 1, KN_F32, &dim, 1)};
        kn_array  in[2] = {{x, N, KN_F32}, {y, N, KN_F32}};
        kn_value  out;
        kn_fault  f     = {0};
        int       n     = 1;
        double    worst = 0;
        for (int i = 0; i < N; i++)
            x[i] = (float)uniform(bare[k].lo, bare[k].hi), y[i] = (float)uniform(bare[k].blo, bare[k].bhi);
        if (CHECK(kn_eval(g, bare[k].build(g, a), in, 2, &out, &n, NULL, &f))) {
            for (int i = 0; i < N; i++) {
                double want = bare[k].exact((double)x[i], (double)y[i]);
                int    e    = KN_MAX(ilogb(want), FLT_MIN_EXP - 1);
                worst       = fmax(worst, fabs((double)((float *)out.data)[i] - want) * ldexp(1, 23 - e));
            }
            kn_value_free(NULL, &out);
        }
        printf("     %-34s %10.3g units in the last place\n", bare[k].name, worst);
        CHECK(worst >= bare[k].least && worst <= bare[k].most);
        kg_free(g);
    }
}

/* ---- square root and truncation ---------------------------------------------------------------------------------- */

/* Every `stride`-th f32, by the interpreter (cpu NULL) or compiled. */
static void rounding(int op, kr_context *cpu, uint32_t stride) {
    kn_graph *g   = kg_new(NULL);
    kn_fault  f   = {0};
    int64_t   dim = N;
    long      bad = 0, seen = 0;
    kn_rw     rw;
    kn_rw_init(&rw, g, &f);
    kn_ref   root = kn_rewrite(&rw, kg_op1(g, op, kg_param(g, 0, KN_F32, &dim, 1)), KN_G_decomp_round);
    kn_array in   = {x, N, KN_F32};
    CHECK(root && kg_op(g, root) != op);
    for (uint64_t at = 0; at < UINT64_C(1) << 32 && root;) {
        kn_value out;
        int      n = 1;
        for (int i = 0; i < N; i++, at += stride) x[i] = float_of((uint32_t)at);
        if (at > UINT64_C(1) << 32) x[0] = -0.0f, x[1] = INFINITY, x[2] = -INFINITY, x[3] = NAN, x[4] = 0x1p-149f;
        bool ok =
            cpu ? kr_run_program(cpu, g, root, &in, 1, &out, &n, &f) : kn_eval(g, root, &in, 1, &out, &n, NULL, &f);
        if (!CHECK(ok)) break;
        for (int i = 0; i < N; i++, seen++) {
            float got = ((float *)out.data)[i], want = op == KN_OP_SQRT ? sqrtf(x[i]) : truncf(x[i]);
            if (isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want)) continue;
            if (bad++ < 3)
                printf("     %s(%a): %a, not %a\n", kn_ops[op].name, (double)x[i], (double)got, (double)want);
        }
        kn_value_free(NULL, &out);
    }
    printf("     %-5s %ld values%s\n", kn_ops[op].name, seen, cpu ? ", compiled" : "");
    CHECK_EQ(bad, 0);
    kn_rw_free(&rw);
    kg_free(g);
}

static uint32_t stride = 257;

static void exactly(void) {
    kn_fault    f   = {0};
    kr_context *cpu = kr_new(NULL, &(kn_config){.device = "CPU", .threads = 1}, &f);
    if (!CHECK(cpu != NULL)) return;
    for (int op = 0; op < 2; op++) {
        rounding(op ? KN_OP_SQRT : KN_OP_TRUNC, NULL, 65537);
        rounding(op ? KN_OP_SQRT : KN_OP_TRUNC, cpu, stride);
    }
    kr_free(cpu);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--all")) stride = 1;
    x = malloc(N * sizeof *x);
    y = malloc(N * sizeof *y);
    if (!CHECK(x && y)) return check_result();
    if (stride > 1) RUN(as_written);
    RUN(exactly);
    free(x);
    free(y);
    return check_result();
}
