/* Gradients through the API: every differentiable function against central differences in f64, history, state, a small
 * network's training. */
#include "base/base.h"
#include "dialect/uop.h"
#include "koine.h"
#include "check.h"

#include <math.h>
#include <string.h>

enum { MAX_IN = 3, MAX_ELEMS = 32 };
static const char *const devices[] = {"INTERP", "CPU"};

static kn_context *open_on(const char *device) {
    return kn_open(&(kn_config){.device = device, .seed = 11, .size = sizeof(kn_config)});
}

static double draw(uint64_t *state, double lo, double hi) {
    *state = kn_threefry2x32(*state + 1, 99);
    return lo + (hi - lo) * (double)(*state >> 11) * 0x1p-53;
}

#define CASE(fn, expr) static kn_tensor *fn(kn_tensor *const *x) { return expr; }
CASE(f_arith, kn_div(kn_sub(kn_mul(x[0], x[1]), x[0]), kn_add_s(x[1], 4)))
CASE(f_scalars, kn_add(kn_rsub_s(kn_mul_s(x[0], 3), 1), kn_rdiv_s(kn_add_s(kn_div_s(x[0], 2), 3), 2)))
CASE(f_minmax, kn_add(kn_maximum(x[0], x[1]), kn_mul(x[0], kn_minimum(x[0], x[1]))))
CASE(f_clamp, kn_add(kn_clamp(x[0], -0.5, 0.5), kn_mul(kn_maximum_s(x[0], 0.1), kn_minimum_s(x[0], 0.2))))
CASE(f_pow, kn_add(kn_pow(x[0], x[1]), kn_pow_s(x[0], 3)))
CASE(f_roots, kn_add(kn_sqrt(x[0]), kn_mul(kn_rsqrt(x[0]), kn_recip(x[0]))))
CASE(f_exp, kn_add(kn_exp(x[0]), kn_mul(kn_exp2(x[0]), kn_square(x[0]))))
CASE(f_log, kn_mul(kn_log(x[0]), kn_log2(x[0])))
CASE(f_trig, kn_mul(kn_sin(x[0]), kn_cos(x[0])))
CASE(f_abs, kn_mul(kn_abs(x[0]), kn_neg(kn_sign(kn_detach(x[0])))))
CASE(f_where, kn_where(kn_lt(x[0], x[1]), kn_mul(x[0], x[0]), x[1]))
CASE(f_relu, kn_relu(x[0]))
CASE(f_gelu, kn_gelu(x[0]))
CASE(f_tanh, kn_tanh(x[0]))
CASE(f_erf, kn_erf(x[0]))
CASE(f_sigmoid, kn_sigmoid(x[0]))
CASE(f_silu, kn_silu(x[0]))
CASE(f_matmul, kn_matmul(x[0], x[1]))
CASE(f_batched, kn_matmul(x[0], x[1]))
CASE(f_sum, kn_mul(kn_sum(x[0], .axes = KN_AXES(1)), kn_mean(x[0], .axes = KN_AXES(-1))))
CASE(f_prod, kn_prod(x[0], .axes = KN_AXES(0)))
CASE(f_max, kn_add(kn_max(x[0], .axes = KN_AXES(1)), kn_min(x[0], .axes = KN_AXES(1))))
CASE(f_var, kn_add(kn_var(x[0], .axes = KN_AXES(1)), kn_std(x[0], .axes = KN_AXES(1), .biased = 1)))
CASE(f_softmax, kn_softmax(x[0], 1))
CASE(f_log_softmax, kn_log_softmax(x[0], -1))
CASE(f_layer_norm, kn_layer_norm(x[0], 1e-5))
CASE(f_views, kn_mul(kn_transpose(kn_reshape(x[0], KN_DIMS(3, 4)), 0, 1), kn_reshape(kn_flip(x[0], 0), KN_DIMS(4, 3))))
CASE(f_windows,
     kn_mul(kn_pad(x[0], (kn_dim[]){1, 0}, (kn_dim[]){0, 2}, 2), kn_expand(kn_rows(x[1], 1, 1), KN_DIMS(4, 6))))
CASE(f_cat, kn_mul(kn_cat((kn_tensor *[]){x[0], x[1]}, 2, 1), kn_cat((kn_tensor *[]){x[1], x[0]}, 2, 1)))
CASE(f_stack, kn_stack((kn_tensor *[]){x[0], kn_square(x[1]), x[0]}, 3, 1))
CASE(f_contiguous, kn_mul(kn_contiguous(kn_sin(x[0])), x[0]))

static kn_tensor *labels(kn_tensor *like, int n, int classes) {
    int32_t v[8];
    for (int i = 0; i < n; i++) v[i] = (i * 2 + 1) % classes;
    return kn_from(kn_context_of(like), v, KN_I32, KN_DIMS(n));
}
CASE(f_cross_entropy, kn_cross_entropy(x[0], labels(x[0], 3, 4)))
CASE(f_gather, kn_square(kn_gather(x[0], 0, labels(x[0], 4, 3))))

typedef struct api_case {
    const char *name;
    kn_tensor *(*f)(kn_tensor *const *x);
    int     n;
    int     rank[MAX_IN];
    int64_t dims[MAX_IN][4];
    double  lo, hi;
} api_case;

static const api_case cases[] = {
    {"arithmetic", f_arith, 2, {2, 1}, {{3, 4}, {4}}, -2, 2},
    {"scalars", f_scalars, 1, {1}, {{5}}, -2, 2},
    {"maximum, minimum", f_minmax, 2, {2, 2}, {{3, 4}, {3, 1}}, -2, 2},
    {"clamp", f_clamp, 1, {1}, {{9}}, -1, 1},
    {"pow", f_pow, 2, {1, 1}, {{4}, {4}}, 0.5, 2},
    {"sqrt, rsqrt, recip", f_roots, 1, {1}, {{5}}, 0.5, 2},
    {"exp, exp2", f_exp, 1, {1}, {{5}}, -2, 2},
    {"log, log2", f_log, 1, {1}, {{5}}, 0.5, 2},
    {"sin, cos", f_trig, 1, {1}, {{5}}, -3, 3},
    {"abs", f_abs, 1, {1}, {{7}}, -2, 2},
    {"where", f_where, 2, {1, 1}, {{6}, {6}}, -2, 2},
    {"relu", f_relu, 1, {1}, {{7}}, -2, 2},
    {"gelu", f_gelu, 1, {1}, {{7}}, -3, 3},
    {"tanh", f_tanh, 1, {1}, {{7}}, -3, 3},
    {"erf", f_erf, 1, {1}, {{7}}, -2, 2},
    {"sigmoid", f_sigmoid, 1, {1}, {{7}}, -3, 3},
    {"silu", f_silu, 1, {1}, {{7}}, -3, 3},
    {"matmul", f_matmul, 2, {2, 2}, {{3, 4}, {4, 2}}, -2, 2},
    {"matmul of a batch", f_batched, 2, {3, 2}, {{2, 2, 3}, {3, 2}}, -2, 2},
    {"sum, mean", f_sum, 1, {2}, {{3, 4}}, -2, 2},
    {"prod", f_prod, 1, {2}, {{3, 2}}, -2, 2},
    {"max, min", f_max, 1, {2}, {{3, 4}}, -2, 2},
    {"var, std", f_var, 1, {2}, {{3, 4}}, -2, 2},
    {"softmax", f_softmax, 1, {2}, {{2, 4}}, -2, 2},
    {"log_softmax", f_log_softmax, 1, {2}, {{2, 4}}, -2, 2},
    {"layer_norm", f_layer_norm, 1, {2}, {{2, 5}}, -2, 2},
    {"views", f_views, 1, {2}, {{2, 6}}, -2, 2},
    {"pad, rows, expand", f_windows, 2, {2, 2}, {{3, 4}, {3, 6}}, -2, 2},
    {"cat", f_cat, 2, {2, 2}, {{2, 3}, {2, 3}}, -2, 2},
    {"stack", f_stack, 2, {1, 1}, {{3}, {3}}, -2, 2},
    {"contiguous", f_contiguous, 1, {1}, {{4}}, -2, 2},
    {"cross_entropy", f_cross_entropy, 1, {2}, {{3, 4}}, -2, 2},
    {"gather", f_gather, 1, {2}, {{3, 2}}, -2, 2},
};

/* sum(f(x) * uneven weights) */
static kn_tensor *loss_of(const api_case *c, kn_tensor *const *x) {
    kn_tensor *y = c->f(x);
    kn_context *kn = kn_context_of(x[0]);
    int64_t    n = kn_numel(y);
    return kn_sum(kn_mul(kn_reshape(y, KN_DIMS(-1)), kn_sin(kn_arange(kn, 1, 1.0 + (double)n, 1, KN_F64))));
}

static double loss_at(kn_context *kn, const api_case *c, double data[][MAX_ELEMS]) {
    kn_tensor *x[MAX_IN];
    kn_scope  *s = kn_begin(kn);
    for (int i = 0; i < c->n; i++) x[i] = kn_from(kn, data[i], KN_F64, c->dims[i], c->rank[i]);
    double r = kn_item(loss_of(c, x));
    kn_status st = kn_end(s);
    if (st != KN_OK) printf("%s: %s\n", c->name, kn_status_name(st));
    return r;
}

static bool gradients_at(kn_context *kn, const api_case *c, double data[][MAX_ELEMS], double out[][MAX_ELEMS]) {
    kn_tensor *x[MAX_IN], *grad[MAX_IN];
    kn_scope  *s = kn_begin(kn);
    for (int i = 0; i < c->n; i++) x[i] = kn_from(kn, data[i], KN_F64, c->dims[i], c->rank[i]);
    bool ok = kn_gradient(loss_of(c, x), x, c->n, grad) == KN_OK;
    for (int i = 0; ok && i < c->n; i++)
        ok = kn_read(grad[i], KN_F64, out[i], (size_t)kn_numel(x[i]) * sizeof(double)) == KN_OK &&
             kn_rank(grad[i]) == c->rank[i] && kn_dtype_of(grad[i]) == KN_F64;
    if (!ok) printf("%s: %s\n", c->name, kn_error(kn));
    return kn_end(s) == KN_OK && ok;
}

static void check_case(kn_context *interp, kn_context *cpu, const api_case *c) {
    double   data[MAX_IN][MAX_ELEMS], got[MAX_IN][MAX_ELEMS] = {{0}}, same[MAX_IN][MAX_ELEMS] = {{0}};
    uint64_t state = 3;
    int64_t  size[MAX_IN];
    for (int i = 0; i < c->n; i++) {
        size[i] = 1;
        for (int k = 0; k < c->rank[i]; k++) size[i] *= c->dims[i][k];
        for (int64_t k = 0; k < size[i]; k++) data[i][k] = draw(&state, c->lo, c->hi);
    }
    if (!CHECK(gradients_at(interp, c, data, got)) || !CHECK(gradients_at(cpu, c, data, same))) return;
    for (int i = 0; i < c->n; i++)
        for (int64_t k = 0; k < size[i]; k++) {
            double at = data[i][k], h = 1e-6;
            data[i][k] = at + h;
            double up = loss_at(interp, c, data);
            data[i][k] = at - h;
            double want = (up - loss_at(interp, c, data)) / (2 * h);
            data[i][k] = at;
            bool ok = CHECK_NEAR(got[i][k], want, 2e-6);
            if (!(CHECK_NEAR(same[i][k], got[i][k], 1e-9) && ok)) printf("%s: d/dx%d[%d]\n", c->name, i, (int)k);
        }
}

static void differences(void) {
    kn_context *interp = open_on("INTERP"), *cpu = open_on("CPU");
    for (int i = 0; i < KN_COUNT(cases); i++) check_case(interp, cpu, &cases[i]);
    kn_close(interp);
    kn_close(cpu);
}

/* A value that was read, or a loss that was, keeps its history while its scope is open. */
static void history(void) {
    for (int d = 0; d < KN_COUNT(devices); d++) {
        kn_context *kn = open_on(devices[d]);
        kn_tensor  *w = kn_full(kn, 3, KN_F32, KN_DIMS(2)), *g, *h, *both[2];
        kn_scope   *s = kn_begin(kn);
        kn_tensor  *y = kn_square(w), *loss;
        CHECK_EQ(kn_realize(&y, 1), KN_OK);
        loss = kn_sum(kn_mul(y, w)); /* sum w^3 */
        CHECK_NEAR(kn_item(loss), 54, 1e-4);
        CHECK_EQ(kn_gradient(loss, &w, 1, &g), KN_OK);
        float got[2];
        CHECK_EQ(kn_read(g, KN_F32, got, sizeof got), KN_OK);
        CHECK_NEAR(got[0], 27, 1e-4);
        CHECK_EQ(kn_gradient(loss, (kn_tensor *[]){w, y}, 2, both), KN_OK);
        CHECK_EQ(kn_read(both[0], KN_F32, got, sizeof got), KN_OK);
        CHECK_NEAR(got[1], 27, 1e-4);
        CHECK_EQ(kn_read(both[1], KN_F32, got, sizeof got), KN_OK);
        CHECK_NEAR(got[1], 3, 1e-4);
        h = kn_detach(y);
        CHECK_EQ(kn_gradient(kn_sum(kn_mul(h, w)), &w, 1, &g), KN_OK);
        CHECK_EQ(kn_read(g, KN_F32, got, sizeof got), KN_OK);
        CHECK_NEAR(got[0], 9, 1e-4);
        CHECK_EQ(kn_end(s), KN_OK);
        kn_close(kn);
    }
}

/* Second derivatives: a gradient is a tensor like any other. */
static void twice(void) {
    kn_context *kn = open_on("CPU");
    double      v[3] = {0.5, -1, 2}, got[3];
    kn_tensor  *x = kn_from(kn, v, KN_F64, KN_DIMS(3)), *g, *gg;
    CHECK_EQ(kn_gradient(kn_sum(kn_mul(kn_sin(x), x)), &x, 1, &g), KN_OK);
    CHECK_EQ(kn_gradient(kn_sum(g), &x, 1, &gg), KN_OK);
    CHECK_EQ(kn_read(gg, KN_F64, got, sizeof got), KN_OK);
    for (int i = 0; i < 3; i++) CHECK_NEAR(got[i], 2 * cos(v[i]) - v[i] * sin(v[i]), 1e-9);
    kn_close(kn);
}

static void marked(void) {
    kn_context *kn = open_on("CPU");
    kn_tensor  *a = kn_requires_grad(kn_full(kn, 2, KN_F32, KN_DIMS(3))), *b = kn_full(kn, 5, KN_F32, KN_DIMS(3));
    kn_tensor  *far = kn_requires_grad(kn_full(kn, 1, KN_F32, KN_DIMS(4)));
    float       got[4];
    CHECK(kn_grad(a) == NULL);
    CHECK_EQ(kn_error_code(kn), KN_ERR_STATE);
    kn_clear_error(kn);
    kn_scope *s = kn_begin(kn);
    CHECK_EQ(kn_backward(kn_sum(kn_mul(a, b))), KN_OK);
    CHECK_EQ(kn_read(kn_grad(a), KN_F32, got, sizeof got), KN_OK);
    CHECK(got[0] == 5 && got[2] == 5);
    CHECK_EQ(kn_read(kn_grad(far), KN_F32, got, sizeof got), KN_OK);
    CHECK(got[0] == 0 && got[3] == 0);
    CHECK(kn_grad(b) == NULL);
    kn_clear_error(kn);
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK(kn_grad(a) == NULL); /* it belonged to the scope */
    CHECK_EQ(kn_error_code(kn), KN_ERR_STATE);
    kn_close(kn);
}

static void misuse(void) {
    kn_context *kn = open_on("CPU"), *other = open_on("CPU");
    int32_t     whole = 3;
    kn_tensor  *x = kn_full(kn, 1, KN_F32, KN_DIMS(2)), *i = kn_from(kn, &whole, KN_I32, NULL, 0), *g = NULL;
    kn_tensor  *foreign = kn_scalar_f32(other, 1);
    struct {
        kn_tensor *loss, *x;
        kn_status  want;
    } t[] = {{x, x, KN_ERR_SHAPE}, {kn_cast(kn_sum(x), KN_I32), x, KN_ERR_DTYPE}, {kn_sum(x), i, KN_ERR_DTYPE},
             {kn_sum(x), NULL, KN_ERR_ARG}, {kn_sum(x), foreign, KN_ERR_ARG}};
    for (int k = 0; k < KN_COUNT(t); k++) {
        CHECK_EQ(kn_gradient(t[k].loss, &t[k].x, 1, &g), t[k].want);
        CHECK(!kn_ok(g));
        CHECK(strstr(kn_error(kn), "kn_gradient") != NULL);
        kn_clear_error(kn);
    }
    CHECK(kn_gradient(NULL, &x, 1, &g) != KN_OK);
    CHECK(kn_backward(NULL) != KN_OK);
    CHECK_EQ(kn_backward(kn_sum(x)), KN_ERR_STATE);
    kn_clear_error(kn);
    CHECK(!kn_ok(kn_requires_grad(i)));
    CHECK_EQ(kn_error_code(kn), KN_ERR_DTYPE);
    kn_close(kn);
    kn_close(other);
}

/* ---- a small network ------------------------------------------------------------------------------------------- */

enum { BATCH = 16, IN = 5, HIDDEN = 8, CLASSES = 3, TRAIN_STEPS = 30 };

/* Trains with Adam; the losses into out, the first layer's weights at the end into w. */
static bool train(const char *device, float *out, float *w_out, double *schedules) {
    kn_context *kn = open_on(device);
    float       x[BATCH * IN];
    int32_t     y[BATCH];
    uint64_t    state = 1;
    for (int i = 0; i < BATCH; i++) {
        y[i] = i % CLASSES;
        for (int k = 0; k < IN; k++) x[i * IN + k] = (float)draw(&state, -1, 1) + (k == y[i] ? 1.5f : 0);
    }
    kn_tensor *xs = kn_from(kn, x, KN_F32, KN_DIMS(BATCH, IN)), *ys = kn_from(kn, y, KN_I32, KN_DIMS(BATCH));
    kn_tensor *p[4] = {kn_kaiming_uniform(kn, KN_DIMS(IN, HIDDEN)), kn_zeros(kn, KN_F32, KN_DIMS(HIDDEN)),
                       kn_kaiming_uniform(kn, KN_DIMS(HIDDEN, CLASSES)), kn_zeros(kn, KN_F32, KN_DIMS(CLASSES))};
    kn_optim  *adam = kn_adam_opt(kn, p, 4, &(kn_adam_opts){.lr = 0.05, .size = sizeof(kn_adam_opts)});
    kn_stats   mid = {.size = sizeof mid}, end = {.size = sizeof end};
    bool       ok = adam != NULL;
    for (int i = 0; ok && i < TRAIN_STEPS; i++) {
        kn_scope  *s = kn_begin(kn);
        kn_tensor *h = kn_relu(kn_add(kn_matmul(xs, p[0]), p[1]));
        kn_tensor *loss = kn_mean(kn_cross_entropy(kn_add(kn_matmul(h, p[2]), p[3]), ys));
        ok = kn_minimize(adam, loss) == KN_OK;
        kn_keep(loss);
        kn_status st = kn_end(s);
        ok = CHECK_EQ(st, KN_OK) && ok;
        out[i] = (float)kn_item(loss);
        if (i == 3) kn_get_stats(kn, &mid);
    }
    kn_get_stats(kn, &end);
    *schedules = (double)(end.schedules - mid.schedules);
    ok = ok && kn_read(p[0], KN_F32, w_out, IN * HIDDEN * sizeof *w_out) == KN_OK;
    if (!ok) printf("%s\n", kn_error(kn));
    kn_close(kn);
    return ok;
}

static void training(void) {
    float  loss[3][TRAIN_STEPS], w[3][IN * HIDDEN];
    double schedules;
    if (!CHECK(train("CPU", loss[0], w[0], &schedules))) return;
    CHECK_NEAR(schedules, 0, 0); /* from the fourth step on nothing is lowered */
    CHECK(loss[0][TRAIN_STEPS - 1] < 0.5f * loss[0][0]);
    for (int i = 5; i < TRAIN_STEPS; i += 5) CHECK(loss[0][i] < loss[0][i - 5]);
    CHECK(train("CPU", loss[1], w[1], &schedules));
    CHECK(!memcmp(loss[0], loss[1], sizeof loss[0]) && !memcmp(w[0], w[1], sizeof w[0])); /* bit for bit */
    CHECK(train("INTERP", loss[2], w[2], &schedules));
    for (int i = 0; i < TRAIN_STEPS; i++) CHECK_NEAR(loss[0][i], loss[2][i], 1e-3);
}

int main(void) {
    RUN(differences);
    RUN(history);
    RUN(twice);
    RUN(marked);
    RUN(misuse);
    RUN(training);
    return check_result();
}
