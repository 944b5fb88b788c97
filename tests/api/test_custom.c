/* Functions of the host between kernels that are compiled: values, gradients, captured steps, and misuse. */
#include "api.h"
#include "failing.h"

#include <stdlib.h>

static int calls;

/* out0 = the sum of each row of in0, times in1; out1 = the row with the largest element. */
static kn_status rows(void *user, const kn_custom_args *a) {
    const float *x = a->in[0].data, *scale = a->in[1].data;
    float       *sum  = a->out[0].data;
    int32_t     *best = a->out[1].data;
    int64_t      n = a->in[0].dims[0], m = a->in[0].dims[1], at = 0;
    CHECK_EQ(a->nin, 2);
    CHECK_EQ(a->nout, 2);
    CHECK_EQ(a->in[0].rank, 2);
    CHECK_EQ(a->in[0].numel, n * m);
    CHECK_EQ(a->out[0].dims[0], n);
    CHECK_EQ(a->out[1].rank, 0);
    CHECK_EQ(a->out[1].dtype, KN_I32);
    if (user) ++*(int *)user;
    for (int64_t i = 0; i < n; i++) {
        sum[i] = 0;
        for (int64_t j = 0; j < m; j++) {
            sum[i] += x[i * m + j] * *scale;
            if (x[i * m + j] > x[at]) at = i * m + j;
        }
    }
    *best = (int32_t)(at / m);
    return KN_OK;
}

static kn_status rows_gradient(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)user;
    CHECK_EQ(nin, 6); /* x, scale, sum, best, d sum, d best */
    CHECK_EQ(nout, 2);
    kn_tensor *d = kn_unsqueeze(in[4], 1);
    out[0]       = kn_mul(kn_mul(d, in[1]), kn_add_s(kn_mul_s(in[0], 0), 1));
    out[1]       = kn_sum(kn_mul(d, in[0]));
    return KN_OK;
}

static const kn_custom_def rows_def = {rows, rows_gradient, &calls, sizeof rows_def};

static kn_status call_rows(kn_context *kn, kn_tensor *x, kn_tensor *scale, kn_tensor **out) {
    kn_dim         n[1] = {2};
    kn_custom_type t[2] = {{KN_F32, 1, n}, {KN_I32, 0, NULL}};
    return kn_custom(kn, "rows", 2, (kn_tensor *[]){x, scale}, 2, t, out);
}

static kn_tensor *matrix(kn_context *kn) {
    return kn_from(kn, (float[]){1, 2, 3, 4, 5, 6}, KN_F32, KN_DIMS(2, 3));
}

static void values(kn_context *kn) {
    kn_tensor *x = matrix(kn), *two = kn_scalar_f32(kn, 2), *y[2], *z[2];
    CHECK_EQ(kn_define(kn, "rows", &rows_def), KN_OK);
    CHECK_EQ(kn_define(kn, "rows", &rows_def), KN_OK);
    calls = 0;
    CHECK_EQ(call_rows(kn, x, two, y), KN_OK); /* storage as it is, and a constant */
    CHECK_EQ(calls, 0);
    CHECK_VALUES(y[0], 12, 30);
    CHECK_VALUES(y[1], 1);
    CHECK_EQ(call_rows(kn, kn_add_s(x, 1), kn_exp2(two), y), KN_OK); /* computed ones, and what is made of both */
    CHECK_VALUES(kn_add(y[0], kn_cast(y[1], KN_F32)), 37, 73);
    CHECK_EQ(call_rows(kn, kn_flip(x, 1), kn_sum(x), y), KN_OK);
    CHECK_EQ(call_rows(kn, kn_mul(kn_unsqueeze(y[0], 1), x), two, z), KN_OK); /* one after another */
    CHECK_VALUES(kn_add(z[0], y[0]), 21 * 6 * 6 * 2 + 21 * 6, 21 * 15 * 15 * 2 + 21 * 15);
    CHECK_EQ(call_rows(kn, kn_reshape(kn_arange(kn, 0, 6, 1, KN_F32), KN_DIMS(2, 3)), two, y), KN_OK);
    CHECK_VALUES(y[1], 1); /* the other result is nobody's */
}

/* What it reads is overwritten, by what it gives; and what it gives is kept twice. */
static void in_place(kn_context *kn) {
    kn_tensor *x = kn_from(kn, (float[]){1, 2, 3, 4, 5, 6}, KN_F32, KN_DIMS(2, 3)), *s = F32S(kn, 7, 8), *y[2];
    kn_define(kn, "rows", &rows_def);
    kn_scope *scope = kn_begin(kn);
    call_rows(kn, x, kn_scalar_f32(kn, 1), y);
    kn_assign(s, y[0]);
    kn_assign(x, kn_add(kn_unsqueeze(y[0], 1), x));
    kn_keep(y[0]);
    kn_keep(y[1]);
    CHECK_EQ(kn_end(scope), KN_OK);
    CHECK_VALUES(s, 6, 15);
    CHECK_VALUES(y[0], 6, 15);
    CHECK_VALUES(x, 7, 8, 9, 19, 20, 21);
    scope = kn_begin(kn);
    call_rows(kn, kn_mul(kn_unsqueeze(s, 1), kn_ones(kn, KN_F32, KN_DIMS(2, 3))), kn_scalar_f32(kn, 1), y);
    kn_assign(s, y[0]);
    CHECK_EQ(kn_end(scope), KN_OK);
    CHECK_VALUES(s, 18, 45);
}

static void gradients(kn_context *kn) {
    kn_tensor *x = matrix(kn), *w = kn_from(kn, (float[]){2}, KN_F32, NULL, 0), *y[2], *g[2];
    kn_define(kn, "rows", &rows_def);
    call_rows(kn, kn_square(x), w, y);
    /* sum of (w sum x^2)^2: 2 (w s) w 2 x, sum 2 (w s) s */
    CHECK_EQ(kn_gradient(kn_sum(kn_square(y[0])), (kn_tensor *[]){x, w}, 2, g), KN_OK);
    double s0 = 14, s1 = 77;
    CHECK_VALUES(g[0], 8 * s0 * 2, 16 * s0 * 2, 24 * s0 * 2, 32 * s1 * 2, 40 * s1 * 2, 48 * s1 * 2);
    CHECK_VALUES(g[1], 4 * s0 * s0 + 4 * s1 * s1);
    /* its values are computed by then */
    CHECK_VALUES(y[0], 28, 154);
    CHECK_EQ(kn_gradient(kn_sum(y[0]), (kn_tensor *[]){w}, 1, g), KN_OK);
    CHECK_VALUES(g[0], s0 + s1);
}

/* Straight through: what is rounded has the gradient of what was rounded, here doubled. */
static kn_status through(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)user;
    CHECK_EQ(nin, 4); /* x, a constant, the result, its gradient */
    CHECK_EQ(nout, 2);
    CHECK_EQ(kn_numel(in[2]), 2);
    out[0] = kn_mul_s(in[3], 2);
    return KN_OK;
}

static kn_status rounded(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    kn_tensor *y = kn_floor(in[0]);
    (void)user, (void)nin, (void)nout;
    return kn_custom_gradient(kn, "through", 2, (kn_tensor *[]){in[0], kn_scalar_f32(kn, 1)}, 1, &y, out);
}

static void own_gradients(kn_context *kn) {
    kn_custom_def def = {NULL, through, NULL, sizeof def};
    kn_tensor    *x   = F32S(kn, 1.5, 2.75), *y, *g;
    CHECK_EQ(kn_define(kn, "through", &def), KN_OK);
    CHECK_EQ(rounded(kn, NULL, 1, &x, 1, &y), KN_OK);
    CHECK_EQ(kn_gradient(kn_sum(kn_square(y)), &x, 1, &g), KN_OK);
    CHECK_VALUES(g, 4, 8);
    CHECK_VALUES(y, 1, 2);
    kn_tensor *z = kn_sin(x); /* not to what y was made of */
    kn_custom_gradient(kn, "through", 2, (kn_tensor *[]){x, x}, 1, &z, &y);
    kn_gradient(kn_sum(y), (kn_tensor *[]){x}, 1, &g);
    CHECK_VALUES(g, 2, 2);
    CHECK_EQ(kn_function(kn, rounded, NULL, 1, &x, 1, &y), KN_OK);
    CHECK_EQ(kn_gradient(kn_sum(kn_square(y)), &x, 1, &g), KN_OK);
    CHECK_VALUES(g, 4, 8);
    CHECK_VALUES(y, 1, 2);
    kn_jit *j = kn_jit_new(kn, rounded, NULL);
    for (int i = 0; i < 2; i++) CHECK_EQ(kn_call(j, 1, &x, 1, &y), KN_OK);
    CHECK_VALUES(y, 1, 2);
    CHECK_FAILS(kn, kn_custom_gradient(kn, "none", 1, &x, 1, &z, &y), KN_ERR_ARG, "no gradient \"none\"");
    CHECK_FAILS(kn, kn_custom_gradient(kn, "through", 0, &x, 1, &z, &y), KN_ERR_ARG, "0 inputs");
    CHECK_FAILS(kn, kn_custom(kn, "through", 1, &x, 1, &(kn_custom_type){KN_F32, 0, NULL}, &y), KN_ERR_ARG,
                "no function \"through\"");
}

static kn_status body(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    kn_tensor *y[2];
    (void)nin, (void)nout;
    kn_status st = call_rows(kn, kn_mul_s(in[0], 2), user, y);
    out[0]       = kn_add_s(y[0], 1);
    return st;
}

static kn_status step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    kn_tensor *w = user, *y[2], *g = NULL;
    (void)nin, (void)nout;
    kn_status st = call_rows(kn, in[0], w, y);
    if (st == KN_OK) st = kn_gradient(kn_sum(y[0]), &w, 1, &g);
    kn_assign(w, kn_sub(w, kn_mul_s(g, 0.1)));
    out[0] = y[0];
    return st;
}

static void in_functions_and_steps(kn_context *kn) {
    kn_tensor *x = matrix(kn), *w = kn_from(kn, (float[]){2}, KN_F32, NULL, 0), *y;
    kn_define(kn, "rows", &rows_def);
    CHECK_EQ(kn_function(kn, body, w, 1, &x, 1, &y), KN_OK);
    CHECK_VALUES(y, 25, 61);
    kn_jit *j = kn_jit_new(kn, step, w);
    double  v = 2;
    calls     = 0;
    for (int i = 0; i < 3; i++, v -= 2.1) {
        CHECK_EQ(kn_call(j, 1, &x, 1, &y), KN_OK);
        CHECK_VALUES(y, 6 * v, 15 * v);
    }
    CHECK_EQ(calls, 3);
    CHECK_VALUES(w, v);
}

/* ---- misuse ------------------------------------------------------------------------------------------------------ */

static kn_status fails(void *user, const kn_custom_args *a) {
    (void)a;
    return *(kn_status *)user;
}

static kn_status wrong_shape(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)user, (void)nin, (void)nout;
    out[0] = kn_sum(in[0]);
    return KN_OK;
}

static kn_status reads(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)user, (void)nin, (void)nout;
    kn_item(kn_sum(in[0]));
    out[0] = in[0];
    return KN_OK;
}

static void misused(kn_context *kn) {
    kn_status      bad = KN_ERR_IO;
    kn_custom_def  f = {fails, NULL, &bad, sizeof f}, g = {fails, wrong_shape, &bad, sizeof g};
    kn_custom_def  h = {fails, reads, &bad, sizeof h}, old = {fails, NULL, &bad, 8};
    kn_dim         n[1] = {2}, zero[1] = {0};
    kn_custom_type t = {KN_F32, 1, n}, none = {KN_F32, 1, zero}, odd = {(kn_dtype)99, 1, n};
    kn_tensor     *x = F32S(kn, 1, 2), *y, *d;
    char           name[80];
    memset(name, 'n', sizeof name);
    name[79] = 0;
    CHECK_EQ(kn_define(kn, "f", &f), KN_OK);
    CHECK_EQ(kn_define(kn, "g", &g), KN_OK);
    CHECK_EQ(kn_define(kn, "h", &h), KN_OK);
    CHECK_EQ(kn_define(NULL, "f", &f), KN_ERR_ARG);
    CHECK_FAILS(kn, kn_define(kn, "f", &rows_def), KN_ERR_STATE, "\"f\" is another function already");
    CHECK_FAILS(kn, kn_define(kn, "", &f), KN_ERR_ARG, "1 to 63 characters");
    CHECK_FAILS(kn, kn_define(kn, name, &f), KN_ERR_ARG, "1 to 63 characters");
    CHECK_FAILS(kn, kn_define(kn, NULL, &f), KN_ERR_ARG, "name is NULL");
    CHECK_FAILS(kn, kn_define(kn, "i", &old), KN_ERR_ARG, "set .size");
    CHECK_FAILS(kn, kn_custom(kn, "nobody", 1, &x, 1, &t, &y), KN_ERR_ARG, "no function \"nobody\"");
    CHECK(!kn_ok(y));
    CHECK_FAILS(kn, kn_custom(kn, "f", 1, &x, 0, &t, &y), KN_ERR_ARG, "0 results");
    CHECK_FAILS(kn, kn_custom(kn, "f", 1, (kn_tensor *[]){NULL}, 1, &t, &y), KN_ERR_ARG, "a tensor is NULL");
    CHECK_FAILS(kn, kn_custom(kn, "f", 1, &x, 1, &none, &y), KN_ERR_UNSUPPORTED, "result 0: its sizes");
    CHECK_FAILS(kn, kn_custom(kn, "f", 1, &x, 1, &odd, &y), KN_ERR_DTYPE, "");
    kn_tensor *empty = kn_zeros(kn, KN_F32, KN_DIMS(0, 3));
    CHECK_FAILS(kn, kn_custom(kn, "f", 1, &empty, 1, &t, &y), KN_ERR_UNSUPPORTED, "input 0: its sizes");
    CHECK_EQ(kn_custom(NULL, "f", 1, &x, 1, &t, &y), KN_ERR_ARG);
    /* it fails when it runs, and the context goes on */
    CHECK_EQ(kn_custom(kn, "f", 1, &x, 1, &t, &y), KN_OK);
    kn_item(kn_sum(y));
    CHECK_FAILS(kn, 0, KN_ERR_IO, "the function \"f\" returned KN_ERR_IO");
    CHECK_FAILS(kn, kn_gradient(kn_sum(y), &x, 1, &d), KN_ERR_UNSUPPORTED, "\"f\" has no gradient: put kn_detach");
    CHECK_EQ(kn_gradient(kn_sum(kn_add(x, kn_detach(y))), &x, 1, &d), KN_OK);
    CHECK_VALUES(d, 1, 1);
    kn_custom(kn, "g", 1, &x, 1, &t, &y);
    CHECK_FAILS(kn, kn_gradient(kn_sum(y), &x, 1, &d), KN_ERR_SHAPE,
                "gradient of input 0 is f32 (), the input f32 (2)");
    kn_custom(kn, "h", 1, &x, 1, &t, &y);
    CHECK_FAILS(kn, kn_gradient(kn_sum(y), &x, 1, &d), KN_ERR_STATE, "a function is being traced");
    CHECK_VALUES(x, 1, 2);
}

/* Each allocation fails in turn: an error, and the next try is as good as ever. */
static void out_of_memory(void) {
    bool done = false;
    for (int64_t n = 0; !done && n < 6000; n += 1 + n / 40) {
        kn_config cfg  = {.device = "INTERP", .alloc = failing, .threads = 1, .size = sizeof cfg};
        float     v[6] = {0};
        mem.left       = n;
        mem.live       = 0;
        kn_context *kn = kn_open(&cfg);
        kn_tensor  *x = kn ? matrix(kn) : NULL, *w = kn ? kn_scalar_f32(kn, 2) : NULL, *y[2] = {0}, *g = NULL;
        if (kn) {
            kn_define(kn, "rows", &rows_def);
            call_rows(kn, kn_add_s(x, 1), w, y);
            if (kn_gradient(kn_sum(y[0]), &x, 1, &g) == KN_OK)
                kn_read(kn_add(g, kn_unsqueeze(y[0], 1)), KN_F32, v, sizeof v);
            done = kn_error_code(kn) == KN_OK;
            if (!done && !CHECK_EQ(kn_error_code(kn), KN_ERR_MEMORY)) fprintf(stderr, "  %s\n", kn_error(kn));
        }
        mem.left = INT64_MAX;
        kn_close(kn);
        if (!CHECK_EQ(mem.live, 0)) return;
        if (done) CHECK_NEAR(v[5], 38, 0);
    }
    CHECK(done);
}

API_RUN(values)
API_RUN(in_place)
API_RUN(gradients)
API_RUN(own_gradients)
API_RUN(in_functions_and_steps)

/* The same by way of a C compiler. */
static void values_in_c(void) {
    kn_config   cfg = {.target = "c", .threads = 2, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    values(kn);
    CHECK_STR(kn_error(kn), "");
    kn_close(kn);
}

API_RUN(misused)

int main(void) {
    RUN(values_on_each_device);
    RUN(in_place_on_each_device);
    RUN(gradients_on_each_device);
    RUN(own_gradients_on_each_device);
    RUN(values_in_c);
    RUN(in_functions_and_steps_on_each_device);
    RUN(misused_on_each_device);
    RUN(out_of_memory);
    return check_result();
}
