/* Reductions, products, softmax and its relatives, picking by index, against loops in double. */
#include "api.h"

static void reductions(kn_context *kn) {
    kn_tensor *x = kn_from(kn, (const float[]){1, 2, 3, -4, 5, 6}, KN_F32, KN_DIMS(2, 3));
    CHECK_VALUES(kn_sum(x), 13);
    CHECK_EQ(kn_rank(kn_sum(x)), 0);
    CHECK_VALUES(kn_sum(x, .axes = KN_AXES(0)), -3, 7, 9);
    CHECK_VALUES(kn_sum(x, .axes = KN_AXES(-1)), 6, 7);
    CHECK_SHAPE(kn_sum(x, .axes = KN_AXES(-1), .keep = 1), 2, 1);
    CHECK_SHAPE(kn_sum(x, .keep = 1), 1, 1);
    CHECK_VALUES(kn_sum(x, .axes = KN_AXES(1, 0)), 13);
    CHECK_VALUES(kn_prod(x, .axes = KN_AXES(1)), 6, -120);
    CHECK_VALUES(kn_max(x, .axes = KN_AXES(1)), 3, 6);
    CHECK_VALUES(kn_min(x, .axes = KN_AXES(0)), -4, 2, 3);
    CHECK_VALUES(kn_mean(x), 13 / 6.0);
    CHECK_VALUES(kn_var(x, .axes = KN_AXES(1)), 1, 91.0 / 3);
    CHECK_VALUES(kn_var(x, .axes = KN_AXES(1), .biased = 1), 2 / 3.0, 182.0 / 9);
    CHECK_VALUES(kn_std(x, .axes = KN_AXES(1)), 1, sqrt(91.0 / 3));
    CHECK_VALUES(kn_var(kn_add_s(x, 10000), .axes = KN_AXES(1)), 1, 91.0 / 3);
    CHECK_VALUES(kn_var(kn_rows(kn_flatten(x, 0), 0, 1)), NAN);
    CHECK_VALUES(kn_sum_opt(x, NULL), 13);
    CHECK_VALUES(kn_sum(kn_scalar_f32(kn, 4)), 4);
    /* dtypes */
    CHECK_EQ(kn_dtype_of(kn_sum(kn_gt_s(x, 0))), KN_I32);
    CHECK_VALUES(kn_sum(kn_gt_s(x, 0)), 5);
    CHECK_EQ(kn_dtype_of(kn_sum(kn_cast(x, KN_I8))), KN_I32);
    CHECK_EQ(kn_dtype_of(kn_sum(kn_cast(x, KN_U8))), KN_U32);
    CHECK_EQ(kn_dtype_of(kn_sum(kn_cast(x, KN_I64))), KN_I64);
    CHECK_EQ(kn_dtype_of(kn_sum(kn_cast(x, KN_F16))), KN_F16);
    CHECK_EQ(kn_dtype_of(kn_mean(kn_cast(x, KN_I32))), KN_F32);
    CHECK_VALUES(kn_mean(kn_cast(x, KN_I32)), 13 / 6.0);
    CHECK_VALUES(kn_sum(kn_full(kn, 200, KN_U8, KN_DIMS(100))), 20000);
    CHECK_VALUES(kn_max(I32S(kn, -3, -7)), -3);
    CHECK_VALUES(kn_max(F32S(kn, 1, NAN, 3)), NAN);
    /* nothing to reduce */
    kn_tensor *none = kn_zeros(kn, KN_F32, KN_DIMS(2, 0));
    CHECK_VALUES(kn_sum(none, .axes = KN_AXES(1)), 0, 0);
    CHECK_VALUES(kn_prod(none, .axes = KN_AXES(1)), 1, 1);
    CHECK_VALUES(kn_mean(none), NAN);
    CHECK_FAILS(kn, kn_max(none), KN_ERR_SHAPE, "kn_max: (2,0) has nothing to choose from");
    CHECK_FAILS(kn, kn_sum(x, .axes = KN_AXES(2)), KN_ERR_ARG, "kn_sum: no axis 2");
    CHECK_FAILS(kn, kn_sum(x, .axes = KN_AXES(0, -2)), KN_ERR_ARG, "axis 0 appears twice");
    CHECK_FAILS(kn, kn_sum_opt(x, &(kn_reduce_opts){.keep = 1}), KN_ERR_ARG, ".size");
}

static void matmul_against_loops(kn_context *kn, int batch, int m, int k, int n) {
    float  *a = malloc((size_t)(batch * m * k + 1) * sizeof *a), *b = malloc((size_t)(batch * k * n + 1) * sizeof *b);
    double *got = malloc((size_t)(batch * m * n + 1) * sizeof *got);
    for (int i = 0; i < batch * m * k; i++) a[i] = (float)((i * 7 + 3) % 11 - 5);
    for (int i = 0; i < batch * k * n; i++) b[i] = (float)((i * 5 + 1) % 13 - 6);
    kn_tensor *x = kn_from(kn, a, KN_F32, KN_DIMS(batch, m, k)), *y = kn_from(kn, b, KN_F32, KN_DIMS(batch, k, n));
    kn_tensor *z = kn_matmul(x, y);
    CHECK_SHAPE(z, batch, m, n);
    CHECK_EQ(kn_read(z, KN_F64, got, (size_t)(batch * m * n) * sizeof *got), KN_OK);
    int bad = 0;
    for (int c = 0; c < batch; c++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                double want = 0;
                for (int l = 0; l < k; l++) want += (double)a[(c * m + i) * k + l] * (double)b[(c * k + l) * n + j];
                bad += got[(c * m + i) * n + j] != want;
            }
    CHECK_EQ(bad, 0);
    free(a);
    free(b);
    free(got);
}

static void products(kn_context *kn) {
    matmul_against_loops(kn, 1, 1, 1, 1);
    matmul_against_loops(kn, 2, 3, 4, 5);
    matmul_against_loops(kn, 1, 17, 33, 9);
    matmul_against_loops(kn, 1, 40, 64, 48);
    matmul_against_loops(kn, 3, 2, 0, 2);
    kn_tensor *m = kn_from(kn, (const float[]){1, 2, 3, 4, 5, 6}, KN_F32, KN_DIMS(2, 3)), *v = F32S(kn, 1, 0, -1);
    CHECK_SHAPE(kn_matmul(m, v), 2);
    CHECK_VALUES(kn_matmul(m, v), -2, -2);
    CHECK_VALUES(kn_matmul(F32S(kn, 1, -1), m), -3, -3, -3);
    CHECK_EQ(kn_rank(kn_matmul(v, v)), 0);
    CHECK_VALUES(kn_matmul(v, v), 2);
    CHECK_SHAPE(kn_matmul(kn_zeros(kn, KN_F32, KN_DIMS(5, 1, 2, 3)), kn_zeros(kn, KN_F32, KN_DIMS(4, 3, 7))), 5, 4, 2,
                7);
    CHECK_SHAPE(kn_matmul(kn_zeros(kn, KN_F32, KN_DIMS(5, 2, 3)), v), 5, 2);
    CHECK_SHAPE(kn_matmul(v, kn_zeros(kn, KN_F32, KN_DIMS(5, 3, 2))), 5, 2);
    CHECK_EQ(kn_dtype_of(kn_matmul(kn_cast(m, KN_F16), kn_cast(v, KN_F16))), KN_F16);
    CHECK_EQ(kn_dtype_of(kn_matmul(kn_cast(m, KN_I8), kn_cast(v, KN_I8))), KN_I32);
    kn_tensor *w = kn_zeros(kn, KN_F32, KN_DIMS(100, 10)), *x = kn_zeros(kn, KN_F32, KN_DIMS(64, 784));
    CHECK_FAILS(kn, kn_matmul(x, w), KN_ERR_SHAPE, "kn_matmul: (64,784) x (100,10): inner sizes differ");
    CHECK_FAILS(kn, kn_matmul(x, kn_scalar_f32(kn, 1)), KN_ERR_SHAPE, "a scalar has no inner size");
    CHECK_FAILS(kn, kn_matmul(kn_zeros(kn, KN_F32, KN_DIMS(2, 2, 3)), kn_zeros(kn, KN_F32, KN_DIMS(5, 3, 2))),
                KN_ERR_SHAPE, "leading axes do not broadcast");
}

static void softmaxes(kn_context *kn) {
    const float d[] = {1, 2, 3, 1000, 1001, 999, -5, 0, 5};
    kn_tensor  *x   = kn_from(kn, d, KN_F32, KN_DIMS(3, 3));
    double      p[9], l[9], ce[3], norm[9];
    const int   label[] = {2, 0, 1};
    for (int r = 0; r < 3; r++) {
        double top = -INFINITY, sum = 0, mean = 0, var = 0;
        for (int c = 0; c < 3; c++) top = fmax(top, d[3 * r + c]), mean += d[3 * r + c] / 3.0;
        for (int c = 0; c < 3; c++)
            sum += exp(d[3 * r + c] - top), var += (d[3 * r + c] - mean) * (d[3 * r + c] - mean) / 3;
        for (int c = 0; c < 3; c++) {
            p[3 * r + c]    = exp(d[3 * r + c] - top) / sum;
            l[3 * r + c]    = d[3 * r + c] - top - log(sum);
            norm[3 * r + c] = (d[3 * r + c] - mean) / sqrt(var + 1e-5);
        }
        ce[r] = -l[3 * r + label[r]];
    }
    double got[9];
    CHECK_EQ(kn_read(kn_softmax(x, -1), KN_F64, got, sizeof got), KN_OK);
    for (int i = 0; i < 9; i++) CHECK_NEAR(got[i], p[i], 1e-6);
    CHECK_EQ(kn_read(kn_softmax(kn_transpose(x, 0, 1), 0), KN_F64, got, sizeof got), KN_OK);
    for (int i = 0; i < 9; i++) CHECK_NEAR(got[i], p[i % 3 * 3 + i / 3], 1e-6);
    CHECK_EQ(kn_read(kn_log_softmax(x, 1), KN_F64, got, sizeof got), KN_OK);
    for (int i = 0; i < 9; i++) CHECK_NEAR(got[i], l[i], 1e-6);
    CHECK_EQ(kn_read(kn_layer_norm(x, 1e-5), KN_F64, got, sizeof got), KN_OK);
    for (int i = 0; i < 9; i++) CHECK_NEAR(got[i], norm[i], 1e-4);
    kn_tensor *t = I32S(kn, 2, 0, 1);
    CHECK_VALUES(kn_cross_entropy(x, t), ce[0], ce[1], ce[2]);
    CHECK_VALUES(kn_cross_entropy(x, kn_cast(t, KN_U8)), ce[0], ce[1], ce[2]);
    CHECK_VALUES(kn_cross_entropy(kn_rows(x, 0, 1), I32S(kn, 7)), 3 + log(1 + exp(-1) + exp(-2)));
    CHECK_VALUES(kn_softmax(F32S(kn, 1, -INFINITY, 1), 0), 0.5, 0, 0.5);
    CHECK_EQ(kn_rank(kn_cross_entropy(F32S(kn, 1, 2), kn_from(kn, (const int[]){1}, KN_I32, NULL, 0))), 0);
    CHECK_FAILS(kn, kn_cross_entropy(x, I32S(kn, 1, 2)), KN_ERR_SHAPE,
                "logits (3,3) need a label for each row, labels are (2)");
    CHECK_FAILS(kn, kn_cross_entropy(x, F32S(kn, 1, 2, 3)), KN_ERR_DTYPE, "the labels are f32, not integers");
    CHECK_FAILS(kn, kn_softmax(x, 2), KN_ERR_ARG, "kn_softmax: no axis 2");
}

static void picking(kn_context *kn) {
    kn_tensor *x = kn_reshape(kn_arange(kn, 0, 12, 1, KN_F32), KN_DIMS(4, 3));
    CHECK_VALUES(kn_gather(x, 0, I32S(kn, 2, 0)), 6, 7, 8, 0, 1, 2);
    CHECK_VALUES(kn_gather(x, 1, I32S(kn, 2, 2)), 2, 2, 5, 5, 8, 8, 11, 11);
    CHECK_VALUES(kn_gather(x, 0, I32S(kn, -1, 4, 1)), 0, 0, 0, 0, 0, 0, 3, 4, 5);
    kn_tensor *idx = kn_from(kn, (const uint8_t[]){0, 1, 2, 3}, KN_U8, KN_DIMS(2, 2));
    CHECK_SHAPE(kn_gather(x, 0, idx), 2, 2, 3);
    CHECK_VALUES(kn_gather(x, -1, kn_from(kn, (const int64_t[]){1}, KN_I64, NULL, 0)), 1, 4, 7, 10);
    /* A table longer than the index dtype counts. */
    kn_tensor *table = kn_arange(kn, 0, 300, 1, KN_F32);
    CHECK_VALUES(kn_gather(table, 0, kn_from(kn, (const int8_t[]){3, 44, -128}, KN_I8, KN_DIMS(3))), 3, 44, 0);
    CHECK_VALUES(kn_gather(F32S(kn, NAN, 1), 0, I32S(kn, 1)), 1);
    CHECK_VALUES(kn_gather(kn_eq_s(x, 4), 0, I32S(kn, 1)), 0, 1, 0);
    CHECK_VALUES(kn_one_hot(I32S(kn, 1, 5), 3, KN_F32), 0, 1, 0, 0, 0, 0);
    CHECK_SHAPE(kn_one_hot(idx, 5, KN_BOOL), 2, 2, 5);
    CHECK_FAILS(kn, kn_gather(x, 0, F32S(kn, 1)), KN_ERR_DTYPE, "the indices are f32");
    CHECK_FAILS(kn, kn_gather(x, 2, I32S(kn, 1)), KN_ERR_ARG, "no axis 2");
    CHECK_FAILS(kn, kn_one_hot(I32S(kn, 1), 0, KN_F32), KN_ERR_ARG, "kn_one_hot");
}

API_RUN(reductions)
API_RUN(products)
API_RUN(softmaxes)
API_RUN(picking)

int main(void) {
    RUN(reductions_on_each_device);
    RUN(products_on_each_device);
    RUN(softmaxes_on_each_device);
    RUN(picking_on_each_device);
    return check_result();
}
