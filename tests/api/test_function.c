/* kn_function: the same values and gradients as the function written out, whatever it finds outside. */
#include "api.h"

static kn_status affine(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    kn_tensor **p = user; /* w, b */
    (void)nin;
    out[0] = kn_add(kn_mul(in[0], p[0]), p[1]);
    if (nout > 1) out[1] = kn_mul(kn_square(in[0]), kn_from(kn, (float[]){3, 3}, KN_F32, KN_DIMS(2)));
    return KN_OK;
}

static void values(kn_context *kn) {
    kn_tensor *p[] = {F32S(kn, 2, 3), kn_full(kn, 1, KN_F32, KN_DIMS(2))}, *x = F32S(kn, 5, 7), *y[2], *z[2];
    CHECK_EQ(kn_function(kn, affine, p, 1, &x, 2, y), KN_OK);
    CHECK_EQ(kn_function(kn, affine, p, 1, &y[0], 1, z), KN_OK);
    kn_write(x, (float[]){0, 0}, 8); /* lazy: what was built from it keeps its value */
    CHECK_VALUES(y[0], 11, 22);
    CHECK_VALUES(y[1], 75, 147);
    CHECK_VALUES(z[0], 23, 67);
    CHECK_VALUES(kn_add(z[0], y[1]), 98, 214);
    kn_function(kn, affine, p, 1, p, 1, z); /* an input that the function finds outside, too */
    CHECK_VALUES(z[0], 5, 10);
}

static kn_status sum_of_two(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)user, (void)nin, (void)nout;
    out[0] = kn_sub(in[0], kn_mul_s(in[1], 2));
    return KN_OK;
}

static kn_status composed(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    kn_tensor *mid;
    kn_status  st = kn_function(kn, affine, user, nin, in, 1, &mid);
    return st == KN_OK ? kn_function(kn, sum_of_two, NULL, 2, (kn_tensor *[]){in[0], mid}, nout, out) : st;
}

static void arguments(kn_context *kn) {
    kn_tensor *x = F32S(kn, 5, 7), *p[] = {F32S(kn, 2, 3), F32S(kn, 1, 1)}, *y;
    kn_function(kn, sum_of_two, NULL, 2, (kn_tensor *[]){x, x}, 1, &y);
    CHECK_VALUES(y, -5, -7);
    kn_tensor *lazy = kn_add_s(x, 1);
    kn_function(kn, sum_of_two, NULL, 2, (kn_tensor *[]){kn_flip(x, 0), lazy}, 1, &y);
    CHECK_VALUES(y, -5, -11);
    CHECK_EQ(kn_function(kn, composed, p, 1, &x, 1, &y), KN_OK);
    CHECK_VALUES(y, -17, -37);
    kn_tensor *q[] = {y, lazy}; /* a function's result in another */
    kn_function(kn, affine, q, 1, &y, 1, &y);
    CHECK_VALUES(y, 17.0 * 17 + 6, 37.0 * 37 + 8);
}

static void gradients(kn_context *kn) {
    kn_tensor *p[] = {F32S(kn, 2, 3), F32S(kn, 1, 1)}, *x = F32S(kn, 5, 7), *y[2], *g[4];
    kn_function(kn, affine, p, 1, &x, 2, y);
    CHECK_EQ(kn_gradient(kn_sum(kn_mul(y[0], y[1])), (kn_tensor *[]){x, p[0], p[1]}, 3, g), KN_OK);
    /* (w x + b) 3 x^2: 3 w x^2 + 2 * 3 x (w x + b), 3 x^3, 3 x^2 */
    CHECK_VALUES(g[0], 480, 1365);
    CHECK_VALUES(g[1], 375, 1029);
    CHECK_VALUES(g[2], 75, 147);
    kn_function(kn, composed, p, 1, &x, 1, y);
    kn_gradient(kn_sum(kn_square(y[0])), (kn_tensor *[]){x, p[0]}, 2, g);
    CHECK_VALUES(g[0], 2 * -17.0 * (1 - 4), 2 * -37.0 * (1 - 6));
    CHECK_VALUES(g[1], 2 * -17.0 * -10, 2 * -37.0 * -14);
}

/* A gradient within the function. */
static kn_status slope(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)user, (void)nin, (void)nout;
    return kn_gradient(kn_sum(kn_mul(kn_square(in[0]), in[0])), in, 1, out);
}

static kn_status drawn(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)user, (void)nin, (void)nout;
    out[0] = kn_sub(kn_rand(kn, KN_DIMS(2)), in[0]);
    return KN_OK;
}

static void within(kn_context *kn) {
    kn_tensor *x = F32S(kn, 5, 7), *y, *g;
    CHECK_EQ(kn_function(kn, slope, NULL, 1, &x, 1, &y), KN_OK);
    CHECK_VALUES(y, 75, 147);
    kn_gradient(kn_sum(y), &x, 1, &g);
    CHECK_VALUES(g, 30, 42);
    double a[2], b[2];
    kn_seed(kn, 1);
    kn_read(kn_rand(kn, KN_DIMS(2)), KN_F64, a, sizeof a);
    kn_seed(kn, 1);
    kn_function(kn, drawn, NULL, 1, (kn_tensor *[]){kn_zeros(kn, KN_F32, KN_DIMS(2))}, 1, &y);
    kn_read(y, KN_F64, b, sizeof b);
    CHECK_NEAR(a[0], b[0], 1e-7);
    CHECK_NEAR(a[1], b[1], 1e-7);
}

static kn_status wrong(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    kn_tensor **p = user;
    (void)kn, (void)nin, (void)nout;
    out[0] = in[0];
    if (p[1])
        kn_assign(p[0], in[0]);
    else
        kn_item(kn_sum(p[0]));
    return KN_OK;
}

static void misused(kn_context *kn) {
    kn_tensor *p[] = {F32S(kn, 2, 3), NULL}, *x = F32S(kn, 5, 7), *y;
    CHECK_FAILS(kn, kn_function(kn, wrong, p, 1, &x, 1, &y), KN_ERR_STATE, "kn_item: a function is being traced");
    CHECK(!kn_ok(y));
    p[1] = x;
    CHECK_FAILS(kn, kn_function(kn, wrong, p, 1, &x, 1, &y), KN_ERR_STATE, "kn_assign: a kn_function has no effects");
    CHECK_FAILS(kn, kn_function(kn, NULL, p, 1, &x, 1, &y), KN_ERR_ARG, "kn_function: the function at NULL");
    CHECK_FAILS(kn, kn_function(kn, wrong, p, 1, (kn_tensor *[]){NULL}, 1, &y), KN_ERR_ARG, "a tensor is NULL");
    CHECK_EQ(kn_function(NULL, wrong, p, 1, &x, 1, &y), KN_ERR_ARG);
    CHECK_VALUES(p[0], 2, 3);
}

/* A function's body, in a step that is captured. */
static kn_status captured(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    kn_tensor **p  = user;
    kn_status   st = kn_function(kn, affine, user, nin, in, nout, out);
    kn_assign(p[1], out[0]);
    return st;
}

static void in_a_step(kn_context *kn) {
    kn_tensor *p[] = {F32S(kn, 2, 3), F32S(kn, 1, 1)}, *x = F32S(kn, 5, 7), *y;
    kn_jit    *j = kn_jit_new(kn, captured, p);
    for (int i = 0; i < 2; i++) CHECK_EQ(kn_call(j, 1, &x, 1, &y), KN_OK);
    CHECK_VALUES(y, 21, 43);
    CHECK_VALUES(p[1], 21, 43);
}

static kn_status layer(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)user, (void)nin, (void)nout;
    out[0] = kn_relu(kn_add_s(kn_matmul(in[0], in[1]), 0.125));
    return KN_OK;
}

enum { LAYERS = 5, WIDTH = 6 };

/* x through n layers; how: whether they are kept. */
static kn_tensor *stacked(kn_context *kn, kn_tensor *x, kn_tensor *const *w, int n, bool kept) {
    for (int i = 0; i < n; i++) {
        kn_tensor *in[] = {kn_sin(x), w[i]}, *y;
        if ((kept ? kn_function_kept : kn_function)(kn, layer, NULL, 2, in, 1, &y) != KN_OK) return y;
        x = y;
    }
    return x;
}

static uint64_t compiled(kn_context *kn) {
    kn_stats s = {.size = sizeof s};
    kn_get_stats(kn, &s);
    return s.kernels_compiled;
}

static kn_status stacked_step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)nin, (void)nout;
    out[0] = stacked(kn, in[0], user, LAYERS, true);
    return kn_ok(out[0]) ? KN_OK : KN_ERR_STATE;
}

static void kept(kn_context *kn) {
    kn_tensor *w[LAYERS], *x = kn_keep(kn_rand(kn, KN_DIMS(3, WIDTH))), *g[2][LAYERS + 1], *wrt[LAYERS + 1] = {x}, *y;
    for (int i = 0; i < LAYERS; i++) wrt[i + 1] = w[i] = kn_keep(kn_randn(kn, KN_DIMS(WIDTH, WIDTH)));
    CHECK(kn_realize(wrt, LAYERS + 1) == KN_OK);
    float    v[3][3 * WIDTH];
    uint64_t before = compiled(kn), two;
    kn_read(stacked(kn, x, w, 2, true), KN_F32, v[0], sizeof v[0]);
    two = compiled(kn) - before;
    kn_read(stacked(kn, x, w, LAYERS, true), KN_F32, v[0], sizeof v[0]);
    CHECK(compiled(kn) - before <= 2 * two); /* the layers of a program share their kernels */
    kn_read(stacked(kn, x, w, LAYERS, false), KN_F32, v[1], sizeof v[1]);
    for (int i = 0; i < 3 * WIDTH; i++) CHECK_NEAR(v[0][i], v[1][i], 1e-4);
    for (int k = 0; k < 2; k++)
        CHECK_EQ(kn_gradient(kn_sum(kn_square(stacked(kn, x, w, LAYERS, k))), wrt, LAYERS + 1, g[k]), KN_OK);
    for (int i = 0; i <= LAYERS; i++)
        CHECK(kn_item(kn_max(kn_abs(kn_sub(g[0][i], g[1][i])))) <= 1e-3 * (1 + kn_item(kn_max(kn_abs(g[0][i])))));
    kn_jit *j = kn_jit_new(kn, stacked_step, w);
    for (int i = 0; i < 2; i++) CHECK_EQ(kn_call(j, 1, &x, 1, &y), KN_OK);
    kn_read(y, KN_F32, v[2], sizeof v[2]);
    for (int i = 0; i < 3 * WIDTH; i++) CHECK_NEAR(v[2][i], v[1][i], 1e-4);
    CHECK_FAILS(kn, kn_function_kept(kn, NULL, NULL, 1, &x, 1, &y), KN_ERR_ARG, "kn_function_kept: the function at");
}

API_RUN(values)
API_RUN(arguments)
API_RUN(gradients)
API_RUN(within)
API_RUN(misused)
API_RUN(in_a_step)
API_RUN(kept)

int main(void) {
    RUN(values_on_each_device);
    RUN(arguments_on_each_device);
    RUN(gradients_on_each_device);
    RUN(within_on_each_device);
    RUN(misused_on_each_device);
    RUN(in_a_step_on_each_device);
    RUN(kept_on_each_device);
    return check_result();
}
