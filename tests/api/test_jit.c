/* Captured steps: the same values as the same program written out, state that outlives calls, and what a replay may not
 * do: build nodes, allocate, take long. */
#include "api.h"

#include <time.h>

/* ---- a small network, trained both ways ---------------------------------------------------------------------- */

typedef struct net {
    kn_tensor *w, *b;
    kn_optim  *opt;
    int        calls;
} net;

static kn_status step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    net *m = user;
    (void)kn;
    m->calls++;
    if (nin != 2 || nout != 1) return KN_ERR_ARG;
    out[0] = kn_mean(kn_square(kn_sub(kn_add(kn_matmul(in[0], m->w), m->b), in[1])));
    return kn_minimize(m->opt, out[0]);
}

static net make_net(kn_context *kn) {
    kn_seed(kn, 7);
    net m = {.w = kn_kaiming_uniform(kn, KN_DIMS(3, 2)), .b = kn_zeros(kn, KN_F32, KN_DIMS(2))};
    m.opt = kn_adam(kn, ((kn_tensor *[]){m.w, m.b}), 2, .lr = 0.05);
    return m;
}

static kn_tensor *points(kn_context *kn, int n, int width, int salt) {
    float v[64];
    for (int i = 0; i < n * width; i++) v[i] = (float)((i * 7 + salt) % 11) / 11;
    return kn_from(kn, v, KN_F32, KN_DIMS(n, width));
}

enum { EPOCHS = 6, BATCHES = 3, BATCH = 4 };

static void train(kn_context *kn, bool captured, float *w, float *total) {
    net        m = make_net(kn);
    kn_tensor *x = points(kn, BATCH * BATCHES, 3, 1), *t = points(kn, BATCH * BATCHES, 2, 5);
    kn_tensor *sum = kn_scalar_f32(kn, 0);
    kn_jit    *run = kn_jit_new(kn, step, &m);
    for (int i = 0; i < EPOCHS * BATCHES; i++) {
        int        at   = i % BATCHES * BATCH;
        kn_scope  *s    = kn_begin(kn);
        kn_tensor *in[] = {kn_rows(x, at, BATCH), kn_rows(t, at, BATCH)}, *loss;
        if (captured)
            kn_call(run, 2, in, 1, &loss);
        else
            step(kn, &m, 2, in, 1, &loss);
        kn_assign(sum, kn_add(sum, loss));
        if (!CHECK_EQ(kn_end(s), KN_OK)) printf("  %s\n", kn_error(kn));
    }
    if (captured) CHECK_EQ(m.calls, 1);
    kn_read(m.w, KN_F32, w, 6 * sizeof *w);
    kn_read(sum, KN_F32, total, sizeof *total);
}

static void trains_alike(kn_context *kn) {
    float a[6], b[6], la, lb;
    train(kn, false, a, &la);
    train(kn, true, b, &lb);
    for (int i = 0; i < 6; i++) CHECK_NEAR(a[i], b[i], 1e-6);
    CHECK_NEAR(la, lb, 1e-6);
    CHECK(la > 0 && la < 100);
}
API_RUN(trains_alike)

/* ---- convolution, running statistics, dropout: both ways --------------------------------------------------------- */

typedef struct vision {
    kn_tensor *conv, *gamma, *beta, *mean, *var, *w;
    kn_optim  *opt;
} vision;

static kn_status vision_step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    vision    *m = user;
    kn_tensor *y = kn_conv2d(in[0], m->conv, NULL, .padding = {1, 1});
    (void)kn, (void)nin, (void)nout;
    y      = kn_batch_norm(y, m->gamma, m->beta, .training = 1, .mean = m->mean, .var = m->var);
    y      = kn_dropout(kn_flatten(kn_max_pool2d(kn_relu(y)), 1), 0.25, 1);
    out[0] = kn_mean(kn_cross_entropy(kn_matmul(y, m->w), in[1]), .axes = KN_AXES(0));
    return kn_minimize(m->opt, out[0]);
}

static void train_vision(kn_context *kn, bool captured, double *loss, double *mean, double *w) {
    kn_seed(kn, 11);
    vision m     = {kn_kaiming_uniform(kn, KN_DIMS(2, 1, 3, 3)),
                    kn_ones(kn, KN_F32, KN_DIMS(2)),
                    kn_zeros(kn, KN_F32, KN_DIMS(2)),
                    kn_empty(kn, KN_F32, KN_DIMS(2)),
                    kn_empty(kn, KN_F32, KN_DIMS(2)),
                    kn_kaiming_uniform(kn, KN_DIMS(8, 3)),
                    NULL};
    m.opt        = kn_adam(kn, ((kn_tensor *[]){m.conv, m.gamma, m.beta, m.w}), 4, .lr = 0.02);
    kn_tensor *x = kn_randn(kn, KN_DIMS(8, 1, 4, 4)), *t = I32S(kn, 0, 1, 2, 1, 0, 2, 2, 1), *l;
    kn_realize(&x, 1);
    kn_jit *run = kn_jit_new(kn, vision_step, &m);
    for (int i = 0; i < 6; i++) {
        kn_scope  *s    = kn_begin(kn);
        kn_tensor *in[] = {kn_rows(x, i % 2 * 4, 4), kn_rows(t, i % 2 * 4, 4)};
        if (captured)
            kn_call(run, 2, in, 1, &l);
        else
            vision_step(kn, &m, 2, in, 1, &l);
        loss[i] = kn_item(l);
        if (!CHECK_EQ(kn_end(s), KN_OK)) printf("  %s\n", kn_error(kn));
    }
    kn_read(m.mean, KN_F64, mean, 2 * sizeof *mean);
    kn_read(m.w, KN_F64, w, 24 * sizeof *w);
}

static void sees_alike(kn_context *kn) {
    double loss[2][6], mean[2][2], w[2][24];
    for (int k = 0; k < 2; k++) train_vision(kn, k, loss[k], mean[k], w[k]);
    for (int i = 0; i < 6; i++) CHECK_NEAR(loss[0][i], loss[1][i], 1e-5);
    for (int i = 0; i < 2; i++) CHECK_NEAR(mean[0][i], mean[1][i], 1e-5);
    for (int i = 0; i < 24; i++) CHECK_NEAR(w[0][i], w[1][i], 1e-4);
    CHECK(mean[0][0] != 0);
}
API_RUN(sees_alike)

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

static kn_status twice_plus(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)nin, (void)nout;
    ++*(int *)user;
    out[0] = kn_add(kn_mul_s(in[0], 2), in[nin - 1]);
    return KN_OK;
}

static void inputs(kn_context *kn) {
    int        calls = 0;
    kn_jit    *j     = kn_jit_new(kn, twice_plus, &calls);
    kn_tensor *x = F32S(kn, 1, 2, 3, 4, 5, 6), *y = F32S(kn, 10, 20), *out, *again;
    CHECK_EQ(kn_call(j, 2, (kn_tensor *[]){kn_rows(x, 0, 2), y}, 1, &out), KN_OK);
    CHECK_VALUES(out, 12, 24);
    CHECK_EQ(kn_call(j, 2, (kn_tensor *[]){kn_rows(x, 4, 2), y}, 1, &again), KN_OK);
    CHECK(again == out);
    CHECK_VALUES(out, 20, 32);
    kn_call(j, 2, (kn_tensor *[]){y, y}, 1, &out); /* one buffer twice */
    CHECK_VALUES(out, 30, 60);
    kn_write(y, (float[]){1, 2}, 8);
    kn_call(j, 2, (kn_tensor *[]){y, y}, 1, &out);
    CHECK_VALUES(out, 3, 6);
    kn_call(j, 2, (kn_tensor *[]){out, y}, 1, &out); /* the step's own result */
    CHECK_VALUES(out, 7, 14);
    kn_call(j, 2, (kn_tensor *[]){kn_flip(y, 0), kn_exp(kn_mul_s(y, 0))}, 1, &out); /* computed first */
    CHECK_VALUES(out, 5, 3);
    CHECK_EQ(calls, 1);
    kn_call(j, 2, (kn_tensor *[]){x, x}, 1, &again); /* another shape: another capture */
    CHECK_VALUES(again, 3, 6, 9, 12, 15, 18);
    CHECK_VALUES(out, 5, 3);
    CHECK_EQ(calls, 2);
    kn_call(j, 1, &y, 1, &again);
    CHECK_VALUES(again, 3, 6);
    kn_call(j, 2, (kn_tensor *[]){y, y}, 1, &out);
    CHECK_EQ(calls, 3);
    kn_tensor *none = kn_zeros(kn, KN_F32, KN_DIMS(0, 2));
    CHECK_EQ(kn_call(j, 2, (kn_tensor *[]){none, none}, 1, &again), KN_OK);
    CHECK_SHAPE(again, 0, 2);
}
API_RUN(inputs)

/* Lazy tensors built from what a step overwrites keep the values they were built from. */
static void readers_keep(kn_context *kn) {
    int        calls = 0;
    kn_jit    *j     = kn_jit_new(kn, twice_plus, &calls);
    kn_tensor *x = F32S(kn, 1, 2), *out, *sum = kn_empty(kn, KN_F32, KN_DIMS(2));
    kn_scope  *s = kn_begin(kn);
    kn_tensor *was[3], *view[3];
    for (int i = 0; i < 3; i++) {
        kn_write(x, (float[]){(float)i, (float)(i + 1)}, 8);
        kn_call(j, 2, (kn_tensor *[]){x, x}, 1, &out);
        was[i]  = kn_add_s(out, 1);
        view[i] = kn_reshape(out, KN_DIMS(2, 1));
        kn_assign(sum, kn_add(sum, out));
    }
    CHECK_VALUES(was[0], 1, 4);
    CHECK_VALUES(was[1], 4, 7);
    CHECK_VALUES(was[2], 7, 10);
    CHECK_VALUES(view[0], 0, 3);
    CHECK_VALUES(view[1], 3, 6);
    CHECK_VALUES(view[2], 6, 9);
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_VALUES(sum, 9, 18);
    CHECK_VALUES(out, 6, 9);
    CHECK_EQ(calls, 1);
}
API_RUN(readers_keep)

/* ---- tensors made outside, and assignments --------------------------------------------------------------------- */

typedef struct counter {
    kn_tensor *count, *scale;
    int        calls;
} counter;

static kn_status tick(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    counter *c = user;
    (void)nin, (void)nout;
    c->calls++;
    kn_scope  *s    = kn_begin(kn);
    kn_tensor *half = kn_from(kn, (float[]){0.5f, 0.5f}, KN_F32, KN_DIMS(2)); /* a constant of the step's own */
    kn_assign(c->count, kn_add(c->count, kn_mul(kn_mul(in[0], c->scale), half)));
    out[0]       = kn_keep(kn_add_s(c->count, 100));
    kn_status st = kn_end(s);
    out[1]       = c->count;
    return st;
}

static void outer_tensors(kn_context *kn) {
    counter    c = {kn_zeros(kn, KN_F32, KN_DIMS(2)), kn_full(kn, 2, KN_F32, KN_DIMS(2)), 0};
    kn_jit    *j = kn_jit_new(kn, tick, &c);
    kn_tensor *x = F32S(kn, 1, 10), *out[2];
    kn_realize(&c.count, 1);
    CHECK_EQ(kn_call(j, 1, &x, 2, out), KN_OK);
    CHECK_STR(kn_error(kn), "");
    CHECK_VALUES(c.count, 1, 10);
    CHECK_VALUES(out[0], 101, 110);
    CHECK_VALUES(out[1], 1, 10);
    kn_call(j, 1, &x, 2, out);
    CHECK_VALUES(c.count, 2, 20);
    CHECK_VALUES(out[1], 2, 20);
    kn_write(c.scale, (float[]){4, 4}, 8);
    kn_call(j, 1, &x, 2, out);
    CHECK_VALUES(c.count, 4, 40);
    kn_scope  *s   = kn_begin(kn); /* an assignment that is still to happen comes first */
    kn_tensor *old = kn_add_s(c.count, 0.5);
    kn_assign(c.count, kn_mul_s(c.count, 10));
    kn_assign(c.scale, kn_mul_s(c.scale, 0.5));
    kn_call(j, 1, &x, 2, out);
    CHECK_VALUES(c.count, 41, 410);
    CHECK_VALUES(old, 4.5, 40.5);
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_VALUES(c.count, 41, 410);
    /* The tensors move to other storage: a reader holds on to the old. */
    kn_tensor *hold = kn_add_s(c.scale, 0), *keep = kn_add_s(c.count, 1);
    kn_write(c.scale, (float[]){20, 20}, 8);
    kn_write(c.count, (float[]){0, 0}, 8);
    kn_call(j, 1, &x, 2, out);
    CHECK_VALUES(c.count, 10, 100);
    CHECK_VALUES(hold, 2, 2);
    CHECK_VALUES(keep, 42, 411);
    CHECK_EQ(c.calls, 1);
    /* The step's own tensor as input. */
    kn_call(j, 1, &c.count, 2, out);
    CHECK_VALUES(c.count, 110, 1100);
    CHECK_EQ(c.calls, 1);
}
API_RUN(outer_tensors)

static void stale(kn_context *kn) {
    counter    c = {kn_empty(kn, KN_F32, KN_DIMS(2)), NULL, 0};
    kn_jit    *j = kn_jit_new(kn, tick, &c);
    kn_tensor *x = F32S(kn, 1, 10), *out[2];
    kn_scope  *s = kn_begin(kn);
    c.scale      = F32S(kn, 2, 2);
    CHECK_EQ(kn_call(j, 1, &x, 2, out), KN_OK);
    CHECK_EQ(kn_end(s), KN_OK);
    /* scale has gone: the step is traced again, and fails as it would by hand. */
    CHECK_EQ(kn_call(j, 1, &x, 2, out), KN_ERR_STATE);
    CHECK_EQ(c.calls, 2);
    CHECK(!kn_ok(out[0]));
    CHECK_FAILS(kn, 0, KN_ERR_STATE, "kn_mul: the scope of a tensor has ended");
    CHECK_VALUES(c.count, 1, 10);
    c.scale = F32S(kn, 4, 4);
    CHECK_EQ(kn_call(j, 1, &x, 2, out), KN_OK);
    CHECK_VALUES(c.count, 3, 30);
    /* Two tensors that come to share storage are another program. */
    kn_assign(c.scale, c.count);
    CHECK_EQ(kn_call(j, 1, &x, 2, out), KN_OK);
    CHECK_VALUES(c.count, 4.5, 180);
    CHECK_VALUES(c.scale, 3, 30);
}
API_RUN(stale)

/* ---- misuse ---------------------------------------------------------------------------------------------------- */

static kn_status misuse(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)nin, (void)nout;
    kn_tensor *made = kn_empty(kn, KN_F32, KN_DIMS(2));
    for (int i = 0; i < nout; i++) out[i] = in[0];
    switch (*(int *)user) {
    case 0: kn_item(kn_sum(in[0])); break;
    case 1: kn_realize(&in[0], 1); break;
    case 2: kn_write(in[0], (float[]){1, 2}, 8); break;
    case 3: out[0] = NULL; break;
    case 4: kn_keep(out[0]); break;
    case 5: kn_assign(made, in[0]); break;
    case 6: return KN_ERR_IO;
    case 7: kn_matmul(in[0], kn_ones(kn, KN_F32, KN_DIMS(5))); break;
    case 8:
        kn_assign(in[0], in[0]);
        kn_assign(in[0], kn_add_s(in[0], 1));
        break;
    }
    return KN_OK;
}

static void misused(kn_context *kn) {
    static const struct {
        kn_status   code;
        const char *part;
    } want[] = {
        {KN_ERR_STATE, "kn_item: a function is being traced"},
        {KN_ERR_STATE, "kn_realize: a function is being traced"},
        {KN_ERR_STATE, "kn_write: a function is being traced"},
        {KN_ERR_ARG, "kn_call: the function did not set out[0]"},
        {KN_ERR_STATE, "kn_call: a tensor of the function is kept"},
        {KN_ERR_STATE, "kn_assign: the tensor was made inside the function"},
        {KN_ERR_IO, "kn_call: the function returned KN_ERR_IO"},
        {KN_ERR_SHAPE, "kn_matmul"},
        {KN_ERR_STATE, "kn_assign: the tensor was made inside the function"},
    };
    kn_tensor *x = F32S(kn, 1, 2), *out;
    for (int i = 0; i < (int)(sizeof want / sizeof *want); i++) {
        kn_jit *j = kn_jit_new(kn, misuse, &i);
        CHECK_EQ(kn_call(j, 1, &x, 1, &out), want[i].code);
        CHECK(!kn_ok(out));
        if (!CHECK_FAILS(kn, 0, want[i].code, want[i].part)) printf("  case %d\n", i);
        kn_scope *s = kn_begin(kn); /* and the scope hears of it */
        kn_call(j, 1, &x, 1, &out);
        CHECK_EQ(kn_end(s), want[i].code);
        kn_clear_error(kn);
    }
    int     none = -1;
    kn_jit *j    = kn_jit_new(kn, misuse, &none);
    CHECK_EQ(kn_call(j, 1, &x, 1, &out), KN_OK);
    CHECK_VALUES(out, 1, 2);
    CHECK(out != x);
    CHECK_EQ(kn_call(NULL, 0, NULL, 0, NULL), KN_ERR_ARG);
    CHECK_FAILS(kn, kn_call(j, 1, (kn_tensor *[]){NULL}, 1, &out), KN_ERR_ARG, "kn_call: a tensor is NULL");
    CHECK_FAILS(kn, kn_call(j, 1, NULL, 1, &out), KN_ERR_ARG, "kn_call: 1 inputs at NULL");
    CHECK(!kn_jit_new(NULL, misuse, NULL));
    CHECK_FAILS(kn, kn_jit_new(kn, NULL, NULL), KN_ERR_ARG, "kn_jit_new: the function is NULL");
}
API_RUN(misused)

/* ---- random numbers, gradients ----------------------------------------------------------------------------------- */

static kn_status noise(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)user, (void)nin, (void)nout;
    out[0] = kn_add(kn_rand(kn, KN_DIMS(3)), kn_mul_s(in[0], 0));
    out[1] = kn_randn(kn, KN_DIMS(2));
    return KN_OK;
}

static void random_numbers(kn_context *kn) {
    kn_tensor *x = F32S(kn, 1, 2, 3), *out[2];
    double     want[3][3], normal[3][2], got[3], last[2];
    kn_seed(kn, 3);
    for (int i = 0; i < 3; i++) {
        noise(kn, NULL, 1, &x, 2, out);
        kn_read(out[0], KN_F64, want[i], sizeof want[i]);
        kn_read(out[1], KN_F64, normal[i], sizeof normal[i]);
    }
    CHECK(want[0][0] != want[1][0]);
    kn_seed(kn, 3);
    kn_jit *j = kn_jit_new(kn, noise, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kn_call(j, 1, &x, 2, out), KN_OK);
        kn_read(out[0], KN_F64, got, sizeof got);
        kn_read(out[1], KN_F64, last, sizeof last);
        for (int k = 0; k < 3; k++) CHECK_NEAR(got[k], want[i][k], 1e-7);
        for (int k = 0; k < 2; k++) CHECK_NEAR(last[k], normal[i][k], 1e-6);
    }
}
API_RUN(random_numbers)

static kn_status backward(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    kn_tensor *w = user;
    (void)kn, (void)nin, (void)nout;
    kn_status st = kn_backward(kn_sum(kn_mul(kn_square(w), in[0])));
    out[0]       = kn_add_s(kn_grad(w), 0);
    return st;
}

static void gradients(kn_context *kn) {
    kn_tensor *w = kn_requires_grad(F32S(kn, 1, 2)), *x = F32S(kn, 10, 20), *out;
    kn_jit    *j = kn_jit_new(kn, backward, w);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(kn_call(j, 1, &x, 1, &out), KN_OK);
        CHECK_VALUES(out, 20, 80);
    }
    CHECK_FAILS(kn, kn_grad(w), KN_ERR_STATE, "kn_grad: no gradient"); /* it was the traced step's */
}
API_RUN(gradients)

/* A step within a step is part of it. */
static kn_status nested(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)nin;
    kn_tensor *mid;
    kn_status  st = kn_call(user, 2, (kn_tensor *[]){in[0], in[0]}, 1, &mid);
    return st == KN_OK ? kn_call(user, 2, (kn_tensor *[]){mid, in[0]}, nout, out) : st;
}

static void steps_nest(kn_context *kn) {
    int        calls = 0;
    kn_jit    *inner = kn_jit_new(kn, twice_plus, &calls), *outer = kn_jit_new(kn, nested, inner);
    kn_tensor *x = F32S(kn, 1, 2), *out;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(kn_call(outer, 1, &x, 1, &out), KN_OK);
        CHECK_VALUES(out, 7, 14);
    }
    CHECK_EQ(calls, 2);
    kn_call(outer, 1, &out, 1, &out); /* in and out may be one array */
    CHECK_VALUES(out, 49, 98);
}
API_RUN(steps_nest)

/* ---- what a replay costs ----------------------------------------------------------------------------------------- */

static void *counting(void *user, void *ptr, size_t old_size, size_t new_size) {
    (void)old_size;
    if (new_size)
        ++*(long *)user;
    else
        free(ptr);
    return new_size ? realloc(ptr, new_size) : NULL;
}

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void costs(const char *device) {
    long      allocations = 0;
    kn_config cfg = {.device = device, .threads = 1, .alloc = counting, .alloc_user = &allocations, .size = sizeof cfg};
    kn_context *kn = kn_open(&cfg);
    net         m  = make_net(kn);
    kn_tensor  *x = points(kn, 8, 3, 1), *t = points(kn, 8, 2, 5), *loss;
    kn_jit     *run         = kn_jit_new(kn, step, &m);
    kn_tensor  *batch[2][2] = {{kn_rows(x, 0, 4), kn_rows(t, 0, 4)}, {kn_rows(x, 4, 4), kn_rows(t, 4, 4)}};
    for (int i = 0; i < 4; i++) CHECK_EQ(kn_call(run, 2, batch[i % 2], 1, &loss), KN_OK);
    kn_stats before = {.size = sizeof before}, after = before;
    kn_get_stats(kn, &before);
    long   had  = allocations;
    double best = 1e9;
    enum { ROUNDS = 20, CALLS = 200 };
    for (int r = 0; r < ROUNDS; r++) {
        double start = now();
        for (int i = 0; i < CALLS; i++) kn_call(run, 2, batch[i % 2], 1, &loss);
        double took = (now() - start) / CALLS;
        best        = took < best ? took : best;
    }
    kn_get_stats(kn, &after);
    CHECK_EQ(allocations, had);
    CHECK_EQ(after.schedules, before.schedules);
    CHECK_EQ(after.schedule_hits, before.schedule_hits);
    CHECK_EQ(after.kernels_run - before.kernels_run, ROUNDS * CALLS * after.kernels_last);
    double each = best * 1e6 / (double)after.kernels_last;
    printf("  %s: %d kernels a step, %.2f us a step, %.3f us a kernel\n", device, (int)after.kernels_last, best * 1e6,
           each);
#if defined(__OPTIMIZE__) && !KN_SANITIZED
    if (!strcmp(device, "NULL")) CHECK(each < 2);
#endif
    CHECK_STR(kn_error(kn), "");
    kn_close(kn);
}

static void costs_little(void) {
    costs("NULL");
    costs("CPU");
}

/* ---- every allocation fails once --------------------------------------------------------------------------------- */

typedef struct heap {
    long   count, fail_at;
    size_t bytes; /* held */
} heap;

static void *failing(void *user, void *ptr, size_t old_size, size_t new_size) {
    heap *h = user;
    if (new_size && ++h->count == h->fail_at) return NULL;
    void *p = new_size ? realloc(ptr, new_size) : NULL;
    if (!new_size) free(ptr);
    if (p || !new_size) h->bytes += new_size - old_size;
    return p;
}

static kn_status accumulate(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    counter   *c  = user;
    kn_status  st = kn_function(kn, twice_plus, &c->calls, nin, in, nout, out);
    kn_tensor *g  = NULL;
    if (st == KN_OK) st = kn_gradient(kn_sum(kn_mul(out[0], c->scale)), &c->scale, 1, &g);
    kn_assign(c->count, kn_add(c->count, kn_add(g, kn_mul_s(kn_rand(kn, KN_DIMS(2)), 0))));
    return st;
}

/* False: a number came out wrong. */
static bool small_program(heap *h, kn_status *code) {
    kn_config   cfg = {.device = "INTERP", .threads = 1, .alloc = failing, .alloc_user = h, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    *code           = KN_ERR_MEMORY;
    if (!kn) return true;
    counter    c = {kn_empty(kn, KN_F32, KN_DIMS(2)), F32S(kn, 2, 3), 0};
    kn_tensor *x = F32S(kn, 1, 2, 3, 4), *out = NULL, *lazy = NULL;
    kn_jit    *j = kn_jit_new(kn, accumulate, &c);
    double     got[2], seen[2];
    bool       right = true;
    *code            = kn_error_code(kn);
    for (int i = 0; i < 2 && *code == KN_OK; i++) {
        kn_scope  *s  = kn_begin(kn);
        kn_tensor *in = kn_rows(x, 2 * i, 2);
        kn_call(j, 1, &in, 1, &out);
        lazy  = kn_keep(kn_add_s(out, 1));
        *code = kn_end(s);
    }
    if (*code == KN_OK) kn_call(j, 1, &lazy, 1, &out);
    if (*code == KN_OK) kn_read(out, KN_F64, got, sizeof got);
    if (*code == KN_OK) kn_read(c.count, KN_F64, seen, sizeof seen);
    if (*code == KN_OK) *code = kn_error_code(kn);
    if (*code == KN_OK) /* 3 x: of (1, 2), (3, 4), (10, 13) */
        right = fabs(got[0] - 30) + fabs(got[1] - 39) + fabs(seen[0] - 42) + fabs(seen[1] - 57) < 1e-4;
    right &= *code == KN_OK || *code == KN_ERR_MEMORY || *code == KN_ERR_ARG;
    if (!right) printf("  %d: %s\n", (int)*code, kn_error(kn));
    kn_close(kn);
    return right;
}

static void memory_runs_out(void) {
    heap      h = {0};
    kn_status code;
    CHECK(small_program(&h, &code));
    CHECK_EQ(code, KN_OK);
    CHECK_EQ(h.bytes, 0);
    long total = h.count, step = total > 3000 ? total / 3000 + 1 : 1;
    for (long n = 1; n <= total; n += step) {
        h = (heap){.fail_at = n};
        if (!CHECK(small_program(&h, &code)) || !CHECK_EQ(h.bytes, 0)) {
            printf("  allocation %ld of %ld\n", n, total);
            return;
        }
    }
    printf("  %ld allocations, every %ld. failed\n", total, step);
}

int main(void) {
    RUN(trains_alike_on_each_device);
    RUN(sees_alike_on_each_device);
    RUN(inputs_on_each_device);
    RUN(readers_keep_on_each_device);
    RUN(outer_tensors_on_each_device);
    RUN(stale_on_each_device);
    RUN(misused_on_each_device);
    RUN(random_numbers_on_each_device);
    RUN(gradients_on_each_device);
    RUN(steps_nest_on_each_device);
    RUN(costs_little);
    RUN(memory_runs_out);
    return check_result();
}
