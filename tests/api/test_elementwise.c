/* Arithmetic, comparisons, elementary functions, promotion and weak scalars against C's own arithmetic. */
#include "api.h"

static void arithmetic(kn_context *kn) {
    kn_tensor *a = F32S(kn, 1, -2, 3.5f), *b = F32S(kn, 4, 0.5f, -2);
    CHECK_VALUES(kn_add(a, b), 5, -1.5, 1.5);
    CHECK_VALUES(kn_sub(a, b), -3, -2.5, 5.5);
    CHECK_VALUES(kn_mul(a, b), 4, -1, -7);
    CHECK_VALUES(kn_div(a, b), 0.25, -4, -1.75);
    CHECK_VALUES(kn_maximum(a, b), 4, 0.5, 3.5);
    CHECK_VALUES(kn_minimum(a, b), 1, -2, -2);
    CHECK_VALUES(kn_neg(a), -1, 2, -3.5);
    CHECK_VALUES(kn_abs(a), 1, 2, 3.5);
    CHECK_VALUES(kn_sign(kn_sub_s(a, 1)), 0, -1, 1);
    CHECK_VALUES(kn_square(a), 1, 4, 12.25);
    CHECK_VALUES(kn_recip(a), 1, -0.5, 1 / 3.5);
    CHECK_VALUES(kn_pow(F32S(kn, 2, 3, 4), F32S(kn, 10, -1, 0.5f)), 1024, 1.0 / 3, 2);
    CHECK_VALUES(kn_add_s(a, 1.5), 2.5, -0.5, 5);
    CHECK_VALUES(kn_sub_s(a, 1.5), -0.5, -3.5, 2);
    CHECK_VALUES(kn_rsub_s(a, 1), 0, 3, -2.5);
    CHECK_VALUES(kn_mul_s(a, -2), -2, 4, -7);
    CHECK_VALUES(kn_div_s(a, 4), 0.25, -0.5, 0.875);
    CHECK_VALUES(kn_div_s(a, 3), 1 / 3.0, -2 / 3.0, 3.5 / 3);
    CHECK_VALUES(kn_rdiv_s(a, 7), 7, -3.5, 2);
    CHECK_VALUES(kn_maximum_s(a, 2), 2, 2, 3.5);
    CHECK_VALUES(kn_minimum_s(a, 2), 1, -2, 2);
    CHECK_VALUES(kn_pow_s(F32S(kn, 1, 2, 3), 3), 1, 8, 27);
    CHECK_VALUES(kn_pow_s(F32S(kn, 1, 2, 4), 0.5), 1, sqrt(2), 2);
    CHECK_VALUES(kn_pow_s(F32S(kn, 1, 2, 4), -1), 1, 0.5, 0.25);
    CHECK_VALUES(kn_clamp(a, -1, 2), 1, -1, 2);
    CHECK_VALUES(kn_relu(a), 1, 0, 3.5);
}

static void integers(kn_context *kn) {
    kn_tensor *a = I32S(kn, 7, -7, 5, 0), *b = I32S(kn, 2, 2, -3, 4);
    CHECK_VALUES(kn_floordiv(a, b), 3, -4, -2, 0);
    CHECK_VALUES(kn_mod(a, b), 1, 1, -1, 0);
    CHECK_EQ(kn_dtype_of(kn_floordiv(a, b)), KN_I32);
    CHECK_VALUES(kn_div(a, b), 3.5, -3.5, -5 / 3.0, 0);
    CHECK_EQ(kn_dtype_of(kn_div(a, b)), KN_F32);
    CHECK_VALUES(kn_and(a, b), 2, 0, 5, 0);
    CHECK_VALUES(kn_or(a, b), 7, -5, -3, 4);
    CHECK_VALUES(kn_xor(a, b), 5, -5, -8, 4);
    CHECK_VALUES(kn_not(a), -8, 6, -6, -1);
    CHECK_VALUES(kn_abs(a), 7, 7, 5, 0);
    CHECK_VALUES(kn_sign(a), 1, -1, 1, 0);
    CHECK_VALUES(kn_floor(a), 7, -7, 5, 0);
    CHECK_VALUES(kn_clamp(a, -1, 6), 6, -1, 5, 0);
    CHECK_VALUES(kn_clamp(a, -INFINITY, 0.5), 0.5, -7, 0.5, 0);
    CHECK_VALUES(kn_sqrt(I32S(kn, 4, 9)), 2, 3);
    CHECK_EQ(kn_dtype_of(kn_exp(a)), KN_F32);
    /* Wrapping, as every integer of the dialect does. */
    kn_tensor *big = kn_from(kn, (const uint8_t[]){250, 3}, KN_U8, KN_DIMS(2));
    CHECK_VALUES(kn_add_s(big, 10), 4, 13);
    CHECK_EQ(kn_dtype_of(kn_add_s(big, 10)), KN_U8);
}

static void comparisons(kn_context *kn) {
    kn_tensor *a = F32S(kn, 1, 2, 3, NAN), *b = F32S(kn, 2, 2, 2, NAN);
    CHECK_VALUES(kn_lt(a, b), 1, 0, 0, 0);
    CHECK_VALUES(kn_le(a, b), 1, 1, 0, 0);
    CHECK_VALUES(kn_gt(a, b), 0, 0, 1, 0);
    CHECK_VALUES(kn_ge(a, b), 0, 1, 1, 0);
    CHECK_VALUES(kn_eq(a, b), 0, 1, 0, 0);
    CHECK_VALUES(kn_ne(a, b), 1, 0, 1, 1);
    CHECK_EQ(kn_dtype_of(kn_lt(a, b)), KN_BOOL);
    CHECK_VALUES(kn_lt_s(a, 2), 1, 0, 0, 0);
    CHECK_VALUES(kn_gt_s(a, 2), 0, 0, 1, 0);
    CHECK_VALUES(kn_eq_s(a, 2), 0, 1, 0, 0);
    kn_tensor *u = kn_from(kn, (const uint8_t[]){0, 255}, KN_U8, KN_DIMS(2));
    CHECK_VALUES(kn_lt_s(u, 300), 1, 1);
    CHECK_VALUES(kn_gt_s(u, -1), 1, 1);
    CHECK_VALUES(kn_lt_s(u, 0.5), 1, 0);
    CHECK_VALUES(kn_where(kn_lt(a, b), kn_full(kn, 10, KN_F32, NULL, 0), a), 10, 2, 3, NAN);
    CHECK_VALUES(kn_where(I32S(kn, 0, 5, -1), I32S(kn, 1, 2, 3), F32S(kn, 0.5f, 0.25f, 0)), 0.5, 2, 3);
    kn_tensor *p = kn_gt_s(a, 1.5), *q = kn_lt_s(a, 2.5);
    CHECK_VALUES(kn_and(p, q), 0, 1, 0, 0);
    CHECK_VALUES(kn_or(p, q), 1, 1, 1, 0);
    CHECK_VALUES(kn_xor(p, q), 1, 0, 1, 0);
    CHECK_VALUES(kn_not(p), 1, 0, 0, 1);
    CHECK_VALUES(kn_maximum(a, b), 2, 2, 3, NAN);
    CHECK_VALUES(kn_minimum(F32S(kn, NAN, 1), F32S(kn, 1, NAN)), NAN, NAN);
}

typedef struct function {
    const char *name;
    kn_tensor *(*fn)(kn_tensor *);
    double (*ref)(double);
    double tolerance;
} function;

static double ref_rsqrt(double x) { return 1 / sqrt(x); }
static double ref_recip(double x) { return 1 / x; }
static double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double ref_silu(double x) { return x / (1 + exp(-x)); }
static double ref_gelu(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }

static void functions(kn_context *kn) {
    const function f[] = {
        {"sqrt", kn_sqrt, sqrt, 1e-6},
        {"rsqrt", kn_rsqrt, ref_rsqrt, 1e-6},
        {"recip", kn_recip, ref_recip, 1e-6},
        {"exp", kn_exp, exp, 2e-6},
        {"exp2", kn_exp2, exp2, 1e-6},
        {"log", kn_log, log, 1e-6},
        {"log2", kn_log2, log2, 1e-6},
        {"sin", kn_sin, sin, 2e-6},
        {"cos", kn_cos, cos, 2e-6},
        {"floor", kn_floor, floor, 0},
        {"trunc", kn_trunc, trunc, 0},
        {"tanh", kn_tanh, tanh, 1e-6},
        {"sigmoid", kn_sigmoid, ref_sigmoid, 1e-6},
        {"silu", kn_silu, ref_silu, 1e-6},
        {"gelu", kn_gelu, ref_gelu, 2e-6},
        {"erf", kn_erf, erf, 1e-6},
    };
    const float at[] = {0.01f, 0.5f, 1, 1.75f, 2, 3, 7.3f, -0.25f, -1, -2.5f, -7};
    enum { N = 11, POSITIVE = 7 };
    kn_tensor *x = kn_from(kn, at, KN_F32, KN_DIMS(N));
    for (size_t k = 0; k < sizeof f / sizeof *f; k++) {
        double y[N];
        CHECK_EQ(kn_read(f[k].fn(x), KN_F64, y, sizeof y), KN_OK);
        bool half = f[k].ref == sqrt || f[k].ref == ref_rsqrt || f[k].ref == log || f[k].ref == log2;
        for (int i = 0; i < (half ? POSITIVE : N); i++)
            if (!CHECK_NEAR(y[i], f[k].ref(at[i]), f[k].tolerance)) printf("  %s(%g)\n", f[k].name, (double)at[i]);
    }
    CHECK_VALUES(kn_sqrt(F32S(kn, -1)), NAN);
    CHECK_VALUES(kn_log(F32S(kn, 0)), -INFINITY);
    /* Saturation: no inf / inf on the way. */
    kn_tensor *far = F32S(kn, 1000, -1000);
    CHECK_VALUES(kn_sigmoid(far), 1, 0);
    CHECK_VALUES(kn_tanh(far), 1, -1);
    CHECK_VALUES(kn_gelu(far), 1000, 0);
    CHECK_VALUES(kn_silu(far), 1000, 0);
    CHECK_VALUES(kn_exp(far), INFINITY, 0);
    CHECK_VALUES(kn_sign(F32S(kn, -0.0f, NAN, INFINITY)), 0, NAN, 1);
    /* f64 keeps its width, narrow floats come back narrow. */
    kn_tensor *wide = kn_full(kn, 2, KN_F64, NULL, 0);
    CHECK_NEAR(kn_item(kn_exp(wide)), exp(2), 1e-14);
    CHECK_EQ(kn_dtype_of(kn_exp(kn_cast(wide, KN_F16))), KN_F16);
    CHECK_EQ(kn_dtype_of(kn_tanh(kn_cast(wide, KN_BF16))), KN_BF16);
}

static void promotion(kn_context *kn) {
    static const struct {
        kn_dtype a, b, want;
    } t[] = {
        {KN_BOOL, KN_BOOL, KN_BOOL}, {KN_BOOL, KN_U8, KN_U8},  {KN_I8, KN_I32, KN_I32},
        {KN_U8, KN_I8, KN_I16},      {KN_U8, KN_I16, KN_I16},  {KN_U16, KN_I8, KN_I32},
        {KN_U32, KN_I32, KN_I64},    {KN_U64, KN_I32, KN_I64}, {KN_U8, KN_U64, KN_U64},
        {KN_I64, KN_F32, KN_F32},    {KN_F16, KN_I64, KN_F16}, {KN_F16, KN_BF16, KN_F32},
        {KN_F16, KN_F32, KN_F32},    {KN_F32, KN_F64, KN_F64}, {KN_F8E4M3, KN_F8E5M2, KN_F16},
        {KN_F8E4M3, KN_F16, KN_F16},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        kn_tensor *a = kn_ones(kn, t[i].a, KN_DIMS(2)), *b = kn_ones(kn, t[i].b, KN_DIMS(2));
        CHECK_EQ(kn_dtype_of(kn_add(a, b)), t[i].want);
        CHECK_EQ(kn_dtype_of(kn_add(b, a)), t[i].want);
    }
    kn_tensor *i = I32S(kn, 1, 2), *p = kn_eq_s(i, 1);
    CHECK_EQ(kn_dtype_of(kn_mul_s(i, 2)), KN_I32);
    CHECK_EQ(kn_dtype_of(kn_mul_s(i, 2.5)), KN_F32);
    CHECK_EQ(kn_dtype_of(kn_add_s(kn_cast(i, KN_F16), 2.5)), KN_F16);
    CHECK_VALUES(kn_mul_s(i, 2.5), 2.5, 5);
    CHECK_EQ(kn_dtype_of(kn_mul_s(p, 3)), KN_I32);
    CHECK_VALUES(kn_mul_s(p, 3), 3, 0);
    CHECK_VALUES(kn_add(p, p), 1, 0);
    CHECK_VALUES(kn_cast(F32S(kn, 1.9f, -1.9f, 300, NAN), KN_I8), 1, -1, 127, 0);
    CHECK_VALUES(kn_cast(F32S(kn, 0, -3, 0.5f), KN_BOOL), 0, 1, 1);
    CHECK_VALUES(kn_cast(I32S(kn, 257, -1), KN_U8), 1, 255);
    CHECK_VALUES(kn_bitcast(F32S(kn, 1, -2), KN_I32), 0x3f800000, -0x40000000);
    CHECK_SHAPE(kn_bitcast(F32S(kn, 1, -2), KN_U8), 8);
    CHECK_VALUES(kn_detach(i), 1, 2);
    CHECK_VALUES(kn_contiguous(kn_flip(i, 0)), 2, 1);
}

static void broadcasting(kn_context *kn) {
    kn_tensor *m = kn_from(kn, (const float[]){1, 2, 3, 4, 5, 6}, KN_F32, KN_DIMS(2, 3));
    kn_tensor *row = F32S(kn, 10, 20, 30), *col = kn_reshape(F32S(kn, 100, 200), KN_DIMS(2, 1));
    CHECK_VALUES(kn_add(m, row), 11, 22, 33, 14, 25, 36);
    CHECK_VALUES(kn_add(m, col), 101, 102, 103, 204, 205, 206);
    CHECK_SHAPE(kn_add(row, col), 2, 3);
    CHECK_VALUES(kn_add(row, col), 110, 120, 130, 210, 220, 230);
    CHECK_VALUES(kn_mul(m, kn_scalar_f32(kn, 2)), 2, 4, 6, 8, 10, 12);
    kn_tensor *none = kn_zeros(kn, KN_F32, KN_DIMS(0, 3));
    CHECK_SHAPE(kn_add(none, row), 0, 3);
    CHECK_EQ(kn_read(kn_add(none, row), KN_F32, NULL, 0), KN_OK);
    CHECK_VALUES(kn_sum(none), 0);
}

static void misuse(kn_context *kn) {
    kn_tensor *f = F32S(kn, 1, 2), *p = kn_gt_s(f, 1), *m = kn_zeros(kn, KN_F32, KN_DIMS(2, 3));
    CHECK_FAILS(kn, kn_add(m, f), KN_ERR_SHAPE, "kn_add: (2,3) and (2) do not broadcast: axis -1 has 3 and 2");
    CHECK_FAILS(kn, kn_sub(p, p), KN_ERR_DTYPE, "kn_sub: of bool");
    CHECK_FAILS(kn, kn_neg(p), KN_ERR_DTYPE, "kn_neg: of bool");
    CHECK_FAILS(kn, kn_floordiv(f, f), KN_ERR_DTYPE, "kn_floordiv: of f32: needs integers");
    CHECK_FAILS(kn, kn_mod(f, f), KN_ERR_DTYPE, "kn_mod");
    CHECK_FAILS(kn, kn_and(f, f), KN_ERR_DTYPE, "kn_and: of f32");
    CHECK_FAILS(kn, kn_not(f), KN_ERR_DTYPE, "kn_not");
    CHECK_FAILS(kn, kn_add_s(kn_cast(f, KN_U8), 300), KN_ERR_DTYPE, "kn_add_s: 300 is out of the range of u8");
    CHECK_FAILS(kn, kn_clamp(f, 2, 1), KN_ERR_ARG, "kn_clamp: 2 to 1 is empty");
    CHECK_FAILS(kn, kn_where(m, f, f), KN_ERR_SHAPE, "kn_where: (2,3) and (2)");
    CHECK_FAILS(kn, kn_cast(f, (kn_dtype)99), KN_ERR_DTYPE, "kn_cast");
    CHECK_FAILS(kn, kn_cast(f, KN_VOID), KN_ERR_DTYPE, "kn_cast");
    CHECK_FAILS(kn, kn_bitcast(f, KN_BOOL), KN_ERR_DTYPE, "kn_bitcast");
    CHECK_FAILS(kn, kn_bitcast(kn_zeros(kn, KN_U8, KN_DIMS(3)), KN_F32), KN_ERR_SHAPE,
                "kn_bitcast: the last axis of (3)");
}

API_RUN(arithmetic)
API_RUN(integers)
API_RUN(comparisons)
API_RUN(functions)
API_RUN(promotion)
API_RUN(broadcasting)
API_RUN(misuse)

int main(void) {
    RUN(arithmetic_on_each_device);
    RUN(integers_on_each_device);
    RUN(comparisons_on_each_device);
    RUN(functions_on_each_device);
    RUN(promotion_on_each_device);
    RUN(broadcasting_on_each_device);
    RUN(misuse_on_each_device);
    return check_result();
}
