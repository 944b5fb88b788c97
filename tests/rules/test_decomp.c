/* test_decomp.c - the decompositions as graphs, run by the interpreter op by op, against libm: units in the last place,
 * and every special value. (Compiled, and over all f32, they are measured by api.accuracy.) */
#include "check.h"
#include "dialect/eval.h"
#include "rewrite/rewrite.h"
#include "rules_gen.h"

#include <math.h>
#include <stdlib.h>

enum { N = 1 << 16 };

static float *x;

static int32_t bits_of(float v) {
    int32_t b;
    memcpy(&b, &v, sizeof b);
    return b < 0 ? INT32_MIN - b : b; /* ordered: neighbours differ by one */
}

static double run(int op, double (*exact)(double)) {
    kn_graph *g   = kg_new(NULL);
    kn_fault  f   = {0};
    int64_t   dim = N;
    kn_rw     rw;
    kn_rw_init(&rw, g, &f);
    kn_ref   root = kn_rewrite(&rw, kg_op1(g, op, kg_param(g, 0, KN_F32, &dim, 1)), KN_G_decomp);
    kn_array in   = {x, N, KN_F32};
    kn_value out;
    int      n     = 1;
    double   worst = 0;
    CHECK(rw.matches == 1);
    if (CHECK(root && kn_eval(g, root, &in, 1, &out, &n, NULL, &f))) {
        const float *y = out.data;
        for (int i = 0; i < N; i++) {
            float want = (float)exact((double)x[i]);
            if (isnan(want) && isnan(y[i])) continue;
            if (isnan(want) || isnan(y[i])) {
                CHECK_NEAR(y[i], want, 0);
                break;
            }
            double ulp = fabs((double)bits_of(y[i]) - (double)bits_of(want));
            if (ulp > worst) worst = ulp;
        }
        kn_value_free(NULL, &out);
    }
    kn_rw_free(&rw);
    kg_free(g);
    return worst;
}

static const float special[] = {
    0.0f,    -0.0f,    1.0f,   -1.0f,      INFINITY,    -INFINITY,   NAN,         1e-45f,     1e-40f,      0x1p-126f,
    3.4e38f, -3.4e38f, 127.0f, 127.99999f, 128.0f,      128.5f,      -126.0f,     -126.5f,    -149.0f,     -149.5f,
    -150.5f, -151.0f,  0.5f,   -0.5f,      1.41421354f, 1.41421366f, 0.70710677f, 0.7071068f, 0.99999994f, 1.0000001f};

static void sample(float lo, float hi, bool any) {
    for (int i = 0; i < N; i++) {
        uint32_t b = (uint32_t)rand() << 16 ^ (uint32_t)rand();
        if (any)
            memcpy(&x[i], &b, sizeof b);
        else
            x[i] = lo + (hi - lo) * (float)i / (float)N;
    }
    memcpy(x, special, sizeof special);
}

static void test_exp2(void) {
    for (int pass = 0; pass < 4; pass++) {
        sample(pass == 1 ? -1 : -152, pass == 1 ? 1 : 130, pass > 1);
        double ulp = run(KN_OP_EXP2, exp2);
        printf("     exp2: %g units in the last place\n", ulp);
        CHECK(ulp <= 2);
    }
}

static void test_log2(void) {
    for (int pass = 0; pass < 4; pass++) {
        sample(pass == 1 ? 0.9f : 0, pass == 1 ? 1.1f : 1e6f, pass > 1);
        double ulp = run(KN_OP_LOG2, log2);
        printf("     log2: %g units in the last place\n", ulp);
        CHECK(ulp <= 2);
    }
}

static void test_sin(void) {
    for (int pass = 0; pass < 4; pass++) {
        sample(pass == 1 ? -1 : -1e5f, pass == 1 ? 1 : 1e5f, pass > 1);
        double ulp = run(KN_OP_SIN, sin);
        printf("     sin: %g units in the last place\n", ulp);
        CHECK(ulp <= 2);
    }
}

/* Every special value to every other, and random ones near enough for results that are neither 0 nor infinite. */
static void test_pow(void) {
    enum { S = KN_COUNT(special) + 8, M = S * S + N };
    static const float more[8] = {3, -3, 2, -2, 0x1p23f, 8388609, -8388609, 0x1.000002p24f};
    float              v[S], *y = malloc(M * sizeof *y), *z = malloc(M * sizeof *z);
    kn_graph          *g = kg_new(NULL);
    kn_fault           f = {0};
    kn_rw              rw;
    kn_value           out;
    int64_t            dim = M;
    int                n   = 1;
    if (!CHECK(y && z)) return;
    memcpy(v, special, sizeof special);
    memcpy(v + KN_COUNT(special), more, sizeof more);
    for (int i = 0; i < S * S; i++) y[i] = v[i / S], z[i] = v[i % S];
    for (int i = S * S; i < M; i++) {
        double a = exp2(rand() % 2001 / 1000.0 * (i % 2 ? 60 : 1e-3)), b = (rand() % 20001 - 10000) / 10000.0;
        y[i] = (float)a;
        z[i] = (float)(b * 150 / log2(a > 1 ? a : 2));
    }
    kn_rw_init(&rw, g, &f);
    kn_ref   node  = kg_op2(g, KN_OP_POW, kg_param(g, 0, KN_F32, &dim, 1), kg_param(g, 1, KN_F32, &dim, 1));
    kn_ref   root  = kn_rewrite(&rw, node, KN_G_decomp);
    kn_array in[]  = {{y, M, KN_F32}, {z, M, KN_F32}};
    double   worst = 0;
    if (CHECK(root && root != node && kn_eval(g, root, in, 2, &out, &n, NULL, &f))) {
        const float *got   = out.data;
        int          shown = 0;
        for (int i = 0; i < M; i++) {
            float  want = (float)pow((double)y[i], (double)z[i]);
            double ulp  = isnan(want) && isnan(got[i]) ? 0 : fabs((double)bits_of(got[i]) - (double)bits_of(want));
            worst       = fmax(worst, ulp);
            if (ulp > 2 && shown++ < 5)
                printf("     pow(%a, %a): %a, not %a\n", (double)y[i], (double)z[i], (double)got[i], (double)want);
        }
        kn_value_free(NULL, &out);
    }
    printf("     pow: %g units in the last place\n", worst);
    CHECK(worst <= 2);
    kn_rw_free(&rw);
    kg_free(g);
    free(y);
    free(z);
}

int main(void) {
    srand(1);
    if (!CHECK((x = malloc(N * sizeof *x)) != NULL)) return check_result();
    RUN(test_exp2);
    RUN(test_log2);
    RUN(test_sin);
    RUN(test_pow);
    free(x);
    return check_result();
}
