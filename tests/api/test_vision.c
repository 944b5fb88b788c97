/* Convolution, pooling, batch normalisation, argmax, scatter_add, cumsum and dropout against loops in double, forward
 * and backward. */
#include "api.h"

#include <string.h>

enum { MOST = 4096 };

/* Small integers: sums of their products are exact in f32. */
static void fill(float *v, int n, int a, int b, int mod) {
    for (int i = 0; i < n; i++) v[i] = (float)((i * a + b) % mod - mod / 2);
}

static bool agrees(kn_tensor *t, const double *want, int n, double tolerance, const char *what) {
    static double got[MOST];
    int           bad = 0;
    if (!CHECK_EQ(kn_numel(t), n) || !CHECK_EQ(kn_read(t, KN_F64, got, sizeof got), KN_OK)) {
        printf("  %s: %s\n", what, kn_error(kn_context_of(t)));
        return false;
    }
    for (int i = 0; i < n; i++) bad += !(fabs(got[i] - want[i]) <= tolerance * fmax(1, fabs(want[i])));
    if (bad) printf("  %s: %d of %d differ\n", what, bad, n);
    return CHECK_EQ(bad, 0);
}

typedef struct conv_case {
    int n, c, h, w, o, kh, kw, sh, sw, ph, pw, dh, dw, groups, bias;
} conv_case;

static int pair(int v) { return v ? v : -1; } /* a width's 0 stands for the height's number */

static void conv_one(kn_context *kn, const conv_case *k) {
    static float  x[MOST], w[MOST], b[64], r[MOST];
    static double y[MOST], dx[MOST], dw[MOST], db[64];
    int oh = (k->h + 2 * k->ph - k->dh * (k->kh - 1) - 1) / k->sh + 1;
    int ow = (k->w + 2 * k->pw - k->dw * (k->kw - 1) - 1) / k->sw + 1;
    int ci = k->c / k->groups, co = k->o / k->groups;
    int nx = k->n * k->c * k->h * k->w, nw = k->o * ci * k->kh * k->kw, ny = k->n * k->o * oh * ow;
    fill(x, nx, 7, 3, 11);
    fill(w, nw, 5, 1, 7);
    fill(b, k->o, 3, 0, 5);
    fill(r, ny, 3, 2, 5);
    memset(y, 0, sizeof y), memset(dx, 0, sizeof dx), memset(dw, 0, sizeof dw), memset(db, 0, sizeof db);
    for (int n = 0; n < k->n; n++)
        for (int o = 0; o < k->o; o++)
            for (int i = 0; i < oh; i++)
                for (int j = 0; j < ow; j++) {
                    int at = ((n * k->o + o) * oh + i) * ow + j;
                    if (k->bias) y[at] += b[o], db[o] += r[at];
                    for (int c = 0; c < ci; c++)
                        for (int p = 0; p < k->kh; p++)
                            for (int q = 0; q < k->kw; q++) {
                                int u = i * k->sh + p * k->dh - k->ph, v = j * k->sw + q * k->dw - k->pw;
                                if (u < 0 || u >= k->h || v < 0 || v >= k->w) continue;
                                int xi = ((n * k->c + o / co * ci + c) * k->h + u) * k->w + v;
                                int wi = ((o * ci + c) * k->kh + p) * k->kw + q;
                                y[at] += (double)x[xi] * w[wi];
                                dx[xi] += (double)r[at] * w[wi];
                                dw[wi] += (double)r[at] * x[xi];
                            }
                }
    kn_scope  *s  = kn_begin(kn);
    kn_tensor *tx = kn_from(kn, x, KN_F32, KN_DIMS(k->n, k->c, k->h, k->w));
    kn_tensor *tw = kn_from(kn, w, KN_F32, KN_DIMS(k->o, ci, k->kh, k->kw)), *grad[3];
    kn_tensor *tb = k->bias ? kn_from(kn, b, KN_F32, KN_DIMS(k->o)) : NULL;
    kn_tensor *ty = kn_conv2d(tx, tw, tb, .stride = {k->sh, k->sw}, .padding = {pair(k->ph), pair(k->pw)},
                              .dilation = {k->dh, k->dw}, .groups = k->groups);
    CHECK_SHAPE(ty, k->n, k->o, oh, ow);
    agrees(ty, y, ny, 0, "convolution");
    kn_tensor *loss = kn_sum(kn_mul(ty, kn_from(kn, r, KN_F32, KN_DIMS(k->n, k->o, oh, ow))));
    CHECK_EQ(kn_gradient(loss, (kn_tensor *[]){tx, tw, tb}, k->bias ? 3 : 2, grad), KN_OK);
    agrees(grad[0], dx, nx, 0, "gradient of x");
    agrees(grad[1], dw, nw, 0, "gradient of w");
    if (k->bias) agrees(grad[2], db, k->o, 0, "gradient of the bias");
    CHECK_EQ(kn_end(s), KN_OK);
}

static void convolution(kn_context *kn) {
    static const conv_case cases[] = {
        {2, 3, 7, 6, 4, 3, 3, 1, 1, 0, 0, 1, 1, 1, 1}, {1, 2, 8, 9, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 0},
        {2, 2, 9, 8, 2, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1}, {1, 4, 6, 6, 4, 3, 3, 1, 1, 1, 1, 1, 1, 4, 0},
        {1, 2, 9, 9, 2, 3, 3, 1, 1, 2, 2, 2, 2, 1, 0}, {1, 4, 7, 7, 6, 2, 3, 3, 2, 0, 1, 2, 1, 2, 1},
        {2, 3, 5, 5, 4, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0}, {1, 2, 7, 7, 2, 1, 1, 3, 3, 0, 0, 1, 1, 1, 0},
        {1, 1, 5, 5, 2, 5, 5, 1, 1, 0, 0, 1, 1, 1, 0}, {1, 1, 3, 3, 1, 3, 3, 4, 4, 1, 1, 1, 1, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) conv_one(kn, &cases[i]);
    /* dtypes as of a product */
    kn_tensor *x = kn_ones(kn, KN_F16, KN_DIMS(1, 8, 3, 3)), *w = kn_ones(kn, KN_F16, KN_DIMS(1, 8, 3, 3));
    CHECK_EQ(kn_dtype_of(kn_conv2d(x, w, NULL)), KN_F16);
    CHECK_VALUES(kn_conv2d(x, w, NULL), 72);
    x = kn_full(kn, 100, KN_I8, KN_DIMS(1, 1, 2, 2));
    CHECK_EQ(kn_dtype_of(kn_conv2d(x, x, NULL)), KN_I32);
    CHECK_VALUES(kn_conv2d(x, x, NULL), 40000);
    CHECK_VALUES(kn_conv2d(kn_zeros(kn, KN_F32, KN_DIMS(1, 0, 2, 2)), kn_zeros(kn, KN_F32, KN_DIMS(1, 0, 2, 1)), NULL),
                 0, 0);
    /* misuse */
    x = kn_ones(kn, KN_F32, KN_DIMS(1, 4, 3, 3));
    CHECK_FAILS(kn, kn_conv2d(x, kn_ones(kn, KN_F32, KN_DIMS(2, 3, 2, 2)), NULL), KN_ERR_SHAPE, "(1,4,3,3)");
    CHECK_FAILS(kn, kn_conv2d(x, kn_ones(kn, KN_F32, KN_DIMS(2, 4, 4, 2)), NULL), KN_ERR_SHAPE, "does not fit");
    CHECK_FAILS(kn, kn_conv2d(x, kn_ones(kn, KN_F32, KN_DIMS(2, 4, 1, 1)), NULL, .stride = {-2}), KN_ERR_ARG, "stride");
    CHECK_FAILS(kn, kn_conv2d(x, kn_ones(kn, KN_F32, KN_DIMS(2, 4, 1, 1)), kn_ones(kn, KN_F32, KN_DIMS(3))),
                KN_ERR_SHAPE, "bias");
    CHECK_FAILS(kn, kn_conv2d(kn_ones(kn, KN_F32, KN_DIMS(3, 3)), x, NULL), KN_ERR_SHAPE, "(N, C, H, W)");
}

typedef struct pool_case {
    int h, w, kh, kw, s, p, d;
} pool_case;

static void pool_one(kn_context *kn, const pool_case *k) {
    static float  x[MOST], r[MOST];
    static double most[MOST], mean[MOST], dmost[MOST], dmean[MOST];
    enum { N = 2, C = 2 };
    int oh = (k->h + 2 * k->p - k->d * (k->kh - 1) - 1) / k->s + 1;
    int ow = (k->w + 2 * k->p - k->d * (k->kw - 1) - 1) / k->s + 1, nx = N * C * k->h * k->w, ny = N * C * oh * ow;
    for (int i = 0; i < nx; i++) x[i] = (float)((i * 37 + 5) % 211) - 150; /* no two of a window are equal */
    fill(r, ny, 3, 2, 5);
    memset(dmost, 0, sizeof dmost), memset(dmean, 0, sizeof dmean);
    for (int m = 0; m < N * C; m++)
        for (int i = 0; i < oh; i++)
            for (int j = 0; j < ow; j++) {
                int at = (m * oh + i) * ow + j, best = -1;
                mean[at] = 0;
                for (int p = 0; p < k->kh; p++)
                    for (int q = 0; q < k->kw; q++) {
                        int u = i * k->s + p * k->d - k->p, v = j * k->s + q * k->d - k->p;
                        if (u < 0 || u >= k->h || v < 0 || v >= k->w) continue;
                        int xi = (m * k->h + u) * k->w + v;
                        if (best < 0 || x[xi] > x[best]) best = xi;
                        mean[at] += x[xi] / (double)(k->kh * k->kw);
                        dmean[xi] += r[at] / (double)(k->kh * k->kw);
                    }
                most[at] = x[best];
                dmost[best] += r[at];
            }
    kn_scope  *s = kn_begin(kn);
    kn_tensor *t = kn_from(kn, x, KN_F32, KN_DIMS(N, C, k->h, k->w)), *grad;
    kn_tensor *weight = kn_from(kn, r, KN_F32, KN_DIMS(N, C, oh, ow));
    kn_tensor *a = kn_max_pool2d(t, .kernel = {k->kh, k->kw}, .stride = {k->s}, .padding = {k->p}, .dilation = {k->d});
    kn_tensor *b = kn_avg_pool2d(t, .kernel = {k->kh, k->kw}, .stride = {k->s}, .padding = {k->p}, .dilation = {k->d});
    agrees(a, most, ny, 0, "largest");
    agrees(b, mean, ny, 1e-5, "mean");
    CHECK_EQ(kn_gradient(kn_sum(kn_mul(a, weight)), &t, 1, &grad), KN_OK);
    agrees(grad, dmost, nx, 0, "gradient of the largest");
    CHECK_EQ(kn_gradient(kn_sum(kn_mul(b, weight)), &t, 1, &grad), KN_OK);
    agrees(grad, dmean, nx, 1e-5, "gradient of the mean");
    CHECK_EQ(kn_end(s), KN_OK);
}

static void pooling(kn_context *kn) {
    static const pool_case cases[] = {{6, 4, 2, 2, 2, 0, 1}, {7, 5, 2, 2, 2, 0, 1}, {7, 7, 3, 3, 2, 1, 1},
                                      {6, 6, 3, 2, 1, 1, 1}, {8, 8, 3, 3, 3, 0, 1}, {7, 7, 2, 2, 1, 0, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) pool_one(kn, &cases[i]);
    kn_tensor *x = kn_reshape(I32S(kn, 1, 2, -3, 4), KN_DIMS(1, 1, 2, 2));
    CHECK_VALUES(kn_max_pool2d(x), 4);
    CHECK_VALUES(kn_avg_pool2d(x), 1);
    CHECK_VALUES(kn_max_pool2d(kn_neg(kn_abs(x)), .kernel = {2}, .stride = {2}, .padding = {1}), -1, -2, -3, -4);
    CHECK_FAILS(kn, kn_max_pool2d(x, .kernel = {2}, .padding = {2}), KN_ERR_ARG, "half the window");
    CHECK_FAILS(kn, kn_avg_pool2d(x, .kernel = {3}), KN_ERR_SHAPE, "does not fit");
    CHECK_FAILS(kn, kn_avg_pool2d(kn_flatten(x, 0)), KN_ERR_SHAPE, "(N, C, H, W)");
}

static void batch_norm(kn_context *kn) {
    enum { N = 3, C = 2, H = 2, W = 3, ALL = N * C * H * W, EACH = N * H * W };
    float  x[ALL], r[ALL], g[C] = {1.5f, -0.5f}, b[C] = {0.25f, 2};
    double y[ALL], dx[ALL], dg[C], db[C], mean[C], var[C], eps = 1e-5;
    fill(x, ALL, 7, 3, 13);
    fill(r, ALL, 5, 1, 9);
    for (int c = 0; c < C; c++) {
        double sg = 0, sb = 0;
        mean[c] = var[c] = 0;
        for (int i = 0; i < ALL; i++)
            if (i / (H * W) % C == c) mean[c] += x[i] / (double)EACH;
        for (int i = 0; i < ALL; i++)
            if (i / (H * W) % C == c) var[c] += (x[i] - mean[c]) * (x[i] - mean[c]) / EACH;
        for (int i = 0; i < ALL; i++) {
            if (i / (H * W) % C != c) continue;
            double z = (x[i] - mean[c]) / sqrt(var[c] + eps);
            y[i] = z * g[c] + b[c];
            sb += r[i];
            sg += r[i] * z;
        }
        for (int i = 0; i < ALL; i++) {
            if (i / (H * W) % C != c) continue;
            double z = (x[i] - mean[c]) / sqrt(var[c] + eps);
            dx[i] = g[c] / sqrt(var[c] + eps) * (r[i] - sb / EACH - z * sg / EACH);
        }
        dg[c] = sg;
        db[c] = sb;
    }
    kn_tensor *m = kn_zeros(kn, KN_F32, KN_DIMS(C)), *v = kn_ones(kn, KN_F32, KN_DIMS(C)), *grad[3];
    kn_scope  *s = kn_begin(kn);
    kn_tensor *tx = kn_from(kn, x, KN_F32, KN_DIMS(N, C, H, W)), *tr = kn_from(kn, r, KN_F32, KN_DIMS(N, C, H, W));
    kn_tensor *tg = kn_from(kn, g, KN_F32, KN_DIMS(C)), *tb = kn_from(kn, b, KN_F32, KN_DIMS(C));
    kn_tensor *t = kn_batch_norm(tx, tg, tb, .mean = m, .var = v, .training = 1);
    agrees(t, y, ALL, 1e-5, "normalised");
    CHECK_EQ(kn_gradient(kn_sum(kn_mul(t, tr)), (kn_tensor *[]){tx, tg, tb}, 3, grad), KN_OK);
    agrees(grad[0], dx, ALL, 1e-5, "gradient of x");
    agrees(grad[1], dg, C, 1e-5, "gradient of gamma");
    agrees(grad[2], db, C, 1e-5, "gradient of beta");
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_VALUES(m, 0.1 * mean[0], 0.1 * mean[1]);
    CHECK_VALUES(v, 0.9 + 0.1 * var[0] * EACH / (EACH - 1), 0.9 + 0.1 * var[1] * EACH / (EACH - 1));
    /* evaluation */
    kn_tensor *two = kn_reshape(F32S(kn, 1, 2, 3, 4), KN_DIMS(2, 2));
    kn_tensor *e = kn_batch_norm(two, NULL, NULL, .mean = F32S(kn, 1, 2), .var = F32S(kn, 4, 0.25), .eps = KN_ZERO);
    CHECK_VALUES(e, 0, 0, 1, 4);
    CHECK_FAILS(kn, kn_batch_norm(two, NULL, NULL), KN_ERR_ARG, "needs .mean and .var");
    CHECK_FAILS(kn, kn_batch_norm(two, F32S(kn, 1, 2, 3), NULL, .training = 1), KN_ERR_SHAPE, "gamma of shape (3)");
    CHECK_FAILS(kn, kn_batch_norm(two, NULL, NULL, .mean = m, .training = 1), KN_ERR_ARG, "together");
}

static void argmax(kn_context *kn) {
    kn_tensor *x = kn_from(kn, (const float[]){1, 5, 5, -2, -7, -2}, KN_F32, KN_DIMS(2, 3));
    CHECK_VALUES(kn_argmax(x, 1), 1, 0);
    CHECK_VALUES(kn_argmax(x, 0), 0, 0, 0);
    CHECK_EQ(kn_dtype_of(kn_argmax(x, -1)), KN_I32);
    CHECK_VALUES(kn_argmax(F32S(kn, 1, NAN, 3, NAN), 0), 1);
    CHECK_VALUES(kn_argmax(F32S(kn, -INFINITY, -INFINITY), 0), 0);
    CHECK_VALUES(kn_argmax(I32S(kn, -4, -3, -3), 0), 1);
    CHECK_VALUES(kn_argmax(kn_gt_s(x, 0), 1), 0, 0);
    CHECK_FAILS(kn, kn_argmax(kn_zeros(kn, KN_F32, KN_DIMS(2, 0)), 1), KN_ERR_SHAPE, "axis 1 of (2,0)");
}

static void argmin(kn_context *kn) {
    kn_tensor *x = kn_from(kn, (const float[]){1, 5, 1, -2, -7, -7}, KN_F32, KN_DIMS(2, 3));
    CHECK_VALUES(kn_argmin(x, 1), 0, 1);
    CHECK_VALUES(kn_argmin(x, -2), 1, 1, 1);
    CHECK_EQ(kn_dtype_of(kn_argmin(x, 0)), KN_I32);
    CHECK_VALUES(kn_argmin(F32S(kn, 1, NAN, -3, NAN), 0), 1);
    CHECK_VALUES(kn_argmin(F32S(kn, INFINITY, INFINITY), 0), 0);
    CHECK_VALUES(kn_argmin(F32S(kn, 0.0f, -0.0f, 0.0f), 0), 0);
    CHECK_VALUES(kn_argmax(F32S(kn, -0.0f, 0.0f, -0.0f), 0), 0);
    CHECK_VALUES(kn_argmin(kn_cast(kn_from(kn, (const int64_t[]){-1, -2, 7}, KN_I64, KN_DIMS(3)), KN_U64), 0), 2);
    CHECK_VALUES(kn_argmax(kn_cast(kn_from(kn, (const int64_t[]){-2, -1, 7}, KN_I64, KN_DIMS(3)), KN_U64), 0), 1);
    CHECK_FAILS(kn, kn_argmin(x, 2), KN_ERR_ARG, "kn_argmin");
}

/* Few different values, so that lanes, tails and loops tie; NaN here and there. */
static void arg_places(kn_context *kn) {
    enum { ALL = 70 * 300 };
    static const int shape[][3] = {{5, 300, 1}, {300, 70, 0}, {3, 64, 1}, {17, 33, 0}, {2, 1031, 1}};
    static float     v[ALL];
    static int32_t   at[2][ALL];
    uint32_t         r = 1;
    for (int k = 0; k < 5; k++) {
        int rows = shape[k][0], cols = shape[k][1], axis = shape[k][2];
        int n = shape[k][axis], lines = shape[k][1 - axis], step = axis ? 1 : cols, line = axis ? cols : 1;
        for (int i = 0; i < rows * cols; i++) {
            r    = r * 1664525u + 1013904223u;
            v[i] = r >> 20 & 511 ? (float)(r >> 24 & 7) : NAN;
        }
        kn_tensor *x = kn_from(kn, v, KN_F32, KN_DIMS(rows, cols));
        CHECK_EQ(kn_read(kn_argmax(x, axis), KN_I32, at[0], sizeof *at[0] * (size_t)lines), KN_OK);
        CHECK_EQ(kn_read(kn_argmin(x, axis), KN_I32, at[1], sizeof *at[1] * (size_t)lines), KN_OK);
        for (int l = 0; l < lines; l++) {
            int top = 0, low = 0;
            for (int i = 1; i < n; i++) {
                float here = v[l * line + i * step], t = v[l * line + top * step], w = v[l * line + low * step];
                if (!isnan(t) && (isnan(here) || here > t)) top = i;
                if (!isnan(w) && (isnan(here) || here < w)) low = i;
            }
            if (!CHECK_EQ(at[0][l], top) || !CHECK_EQ(at[1][l], low)) return;
        }
    }
}

static void scatter_add(kn_context *kn) {
    kn_tensor *x = kn_from(kn, (const float[]){1, 2, 3, 4, 5, 6}, KN_F32, KN_DIMS(3, 2)), *grad[2];
    kn_tensor *v = kn_from(kn, (const float[]){10, 20, 30, 40, 50, 60, 70, 80}, KN_F32, KN_DIMS(4, 2));
    kn_tensor *at = I32S(kn, 2, 0, 2, 9), *y = kn_scatter_add(x, 0, at, v);
    CHECK_VALUES(y, 31, 42, 3, 4, 65, 86);
    kn_tensor *r = kn_from(kn, (const float[]){1, 2, 3, 4, 5, 6}, KN_F32, KN_DIMS(3, 2));
    CHECK_EQ(kn_gradient(kn_sum(kn_mul(y, r)), (kn_tensor *[]){x, v}, 2, grad), KN_OK);
    CHECK_VALUES(grad[0], 1, 2, 3, 4, 5, 6);
    CHECK_VALUES(grad[1], 5, 6, 1, 2, 5, 6, 0, 0);
    CHECK_VALUES(kn_scatter_add(x, 1, I32S(kn, 1, 1), kn_ones(kn, KN_F32, KN_DIMS(3, 2))), 1, 4, 3, 6, 5, 8);
    CHECK_VALUES(kn_scatter_add(I32S(kn, 1, 2), 0, kn_reshape(I32S(kn, 0, 1, 1, 1), KN_DIMS(2, 2)),
                                kn_reshape(I32S(kn, 1, 2, 3, 4), KN_DIMS(2, 2))), 2, 11);
    CHECK_VALUES(kn_scatter_add(F32S(kn, 1, 2), 0, kn_full(kn, 1, KN_I64, NULL, 0), kn_scalar_f32(kn, 5)), 1, 7);
    CHECK_FAILS(kn, kn_scatter_add(x, 0, at, x), KN_ERR_SHAPE, "not (3,2)");
    CHECK_FAILS(kn, kn_scatter_add(x, 0, F32S(kn, 1), v), KN_ERR_DTYPE, "not integers");
}

static void cumsum(kn_context *kn) {
    kn_tensor *x = kn_from(kn, (const float[]){1, 2, 3, 4, 5, 6}, KN_F32, KN_DIMS(2, 3)), *grad;
    CHECK_VALUES(kn_cumsum(x, 1), 1, 3, 6, 4, 9, 15);
    CHECK_VALUES(kn_cumsum(x, 0), 1, 2, 3, 5, 7, 9);
    CHECK_EQ(kn_gradient(kn_sum(kn_mul(kn_cumsum(x, 1), x)), &x, 1, &grad), KN_OK);
    CHECK_VALUES(grad, 7, 8, 9, 19, 20, 21);
    CHECK_EQ(kn_dtype_of(kn_cumsum(kn_gt_s(x, 2), 1)), KN_I32);
    CHECK_VALUES(kn_cumsum(kn_gt_s(x, 2), 1), 0, 0, 1, 1, 2, 3);
    CHECK_FAILS(kn, kn_cumsum(kn_scalar_f32(kn, 1), 0), KN_ERR_ARG, "kn_cumsum");
}

static void dropout(kn_context *kn) {
    enum { N = 4000 };
    float      y[N], dy[N];
    kn_tensor *x = kn_keep(kn_full(kn, 3, KN_F32, KN_DIMS(N))), *grad;
    kn_scope  *s = kn_begin(kn);
    kn_tensor *t = kn_dropout(x, 0.25, 1);
    CHECK_EQ(kn_gradient(kn_sum(t), &x, 1, &grad), KN_OK);
    CHECK_EQ(kn_read(t, KN_F32, y, sizeof y), KN_OK);
    CHECK_EQ(kn_read(grad, KN_F32, dy, sizeof dy), KN_OK);
    int kept = 0, bad = 0;
    for (int i = 0; i < N; i++) {
        kept += y[i] != 0;
        bad += !(y[i] == 0 && dy[i] == 0) && !(fabsf(y[i] - 4) < 1e-5f && fabsf(dy[i] - 4 / 3.0f) < 1e-5f);
    }
    CHECK_EQ(bad, 0);
    CHECK(kept > 2850 && kept < 3150); /* five standard deviations */
    CHECK_VALUES(kn_sum(kn_dropout(x, 0.25, 0)), 3 * N);
    CHECK_VALUES(kn_sum(kn_dropout(x, 0, 1)), 3 * N);
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_FAILS(kn, kn_dropout(x, 1, 1), KN_ERR_ARG, "p is 1");
    CHECK_FAILS(kn, kn_dropout(I32S(kn, 1), 0.5, 1), KN_ERR_DTYPE, "not a float");
}

/* A step of a small net: few kernels, and three times the products of the forward pass with little beside them. */
static void training(kn_context *kn) {
    enum { B = 4 };
    kn_tensor *x = kn_ones(kn, KN_F32, KN_DIMS(B, 1, 12, 12)), *t = kn_zeros(kn, KN_I32, KN_DIMS(B));
    kn_tensor *p[8] = {kn_kaiming_uniform(kn, KN_DIMS(4, 1, 3, 3)), kn_zeros(kn, KN_F32, KN_DIMS(4)),
                       kn_kaiming_uniform(kn, KN_DIMS(8, 4, 3, 3)), kn_zeros(kn, KN_F32, KN_DIMS(8)),
                       kn_ones(kn, KN_F32, KN_DIMS(8)),             kn_zeros(kn, KN_F32, KN_DIMS(8)),
                       kn_kaiming_uniform(kn, KN_DIMS(8, 10)),      kn_zeros(kn, KN_F32, KN_DIMS(10))};
    kn_tensor *mean = kn_zeros(kn, KN_F32, KN_DIMS(8)), *var = kn_ones(kn, KN_F32, KN_DIMS(8));
    kn_optim  *adam = kn_adam(kn, p, 8);
    kn_stats   before = {.size = sizeof before}, after = {.size = sizeof after};
    double     loss[2] = {0}, products = 2.0 * B * (4 * 100 * 9 + 8 * 9 * 36 + 8 * 10);
    kn_realize((kn_tensor *[]){x, t}, 2);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kn_get_stats(kn, &before), KN_OK);
        kn_scope  *s = kn_begin(kn);
        kn_tensor *h = kn_max_pool2d(kn_relu(kn_conv2d(x, p[0], p[1])));
        h = kn_batch_norm(kn_conv2d(h, p[2], p[3]), p[4], p[5], .mean = mean, .var = var, .training = 1);
        h = kn_flatten(kn_max_pool2d(kn_relu(h), .kernel = {3}), 1);
        kn_tensor *l = kn_keep(kn_mean(kn_cross_entropy(kn_add(kn_matmul(h, p[6]), p[7]), t)));
        CHECK_EQ(kn_minimize(adam, l), KN_OK);
        CHECK_EQ(kn_end(s), KN_OK);
        CHECK_EQ(kn_get_stats(kn, &after), KN_OK);
        loss[i > 0] = kn_item(l);
    }
    CHECK(loss[1] < loss[0]);
    CHECK(after.kernels_last <= 3 * 8 + 7 * 3);
    CHECK((double)(after.flops - before.flops) < 4.5 * products);
}

API_RUN(convolution)
API_RUN(pooling)
API_RUN(batch_norm)
API_RUN(argmax)
API_RUN(argmin)
API_RUN(arg_places)
API_RUN(scatter_add)
API_RUN(cumsum)
API_RUN(dropout)
API_RUN(training)

int main(void) {
    RUN(convolution_on_each_device);
    RUN(pooling_on_each_device);
    RUN(batch_norm_on_each_device);
    RUN(argmax_on_each_device);
    RUN(argmin_on_each_device);
    RUN(arg_places_on_each_device);
    RUN(scatter_add_on_each_device);
    RUN(cumsum_on_each_device);
    RUN(dropout_on_each_device);
    RUN(training_on_each_device);
    return check_result();
}
