/* Symbolic sizes: what is made at a value is what numbers would have made, one program serves all values, and gradients
 * and captured steps have them too. */
#include "api.h"

enum { MOST = 40 };

static float data[4][MOST * 64];

static void fill(void) {
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < MOST * 64; i++) data[k][i] = (float)((i * 37 + k * 11) % 101) / 50 - 1;
}

static kn_stats stats(kn_context *kn) {
    kn_stats st = {.size = sizeof st};
    CHECK_EQ(kn_get_stats(kn, &st), KN_OK);
    return st;
}

static bool same(kn_tensor *a, kn_tensor *b, double tolerance, int line) {
    static float x[MOST * 512], y[MOST * 512];
    int64_t      n  = kn_numel(a);
    bool         ok = CHECK_EQ(kn_rank(a), kn_rank(b)) && CHECK_EQ(n, kn_numel(b)) && n <= MOST * 512;
    for (int i = 0; ok && i < kn_rank(a); i++)
        ok = CHECK_EQ(kn_dim_value(kn_context_of(a), kn_size(a, i)), kn_size(b, i));
    ok = ok && CHECK_EQ(kn_read(a, KN_F32, x, sizeof x), KN_OK) && CHECK_EQ(kn_read(b, KN_F32, y, sizeof y), KN_OK);
    for (int64_t i = 0; ok && i < n; i++) ok = CHECK_NEAR(x[i], y[i], tolerance);
    if (!ok) printf("  at line %d: %s\n", line, kn_error(kn_context_of(a)));
    return ok;
}
#define SAME(a, b) same(a, b, 1e-5, __LINE__)

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* With n a symbol's value or a number; x has n rows of 8, y n rows of 8. */
typedef kn_tensor *(*program)(kn_context *kn, kn_dim n, kn_tensor *x, kn_tensor *y);
#define PROGRAM(name, expr)                                                             \
    static kn_tensor *name(kn_context *kn, kn_dim n, kn_tensor *x, kn_tensor *y) { \
        (void)kn, (void)n, (void)x, (void)y;                                            \
        return expr;                                                                    \
    }
PROGRAM(layer, kn_relu(kn_add(kn_matmul(x, kn_wrap(kn, data[2], KN_F32, KN_DIMS(8, 16))),
                              kn_wrap(kn, data[3], KN_F32, KN_DIMS(16)))))
PROGRAM(mean, kn_mean(x, .axes = KN_AXES(0)))
PROGRAM(variance, kn_var(x, .axes = KN_AXES(0), .biased = 1))
PROGRAM(norm, kn_layer_norm(kn_transpose(x, 0, 1), 1e-5))
PROGRAM(soft, kn_softmax(kn_transpose(x, 0, 1), -1))
PROGRAM(largest, kn_max(kn_mul(x, y), .axes = KN_AXES(0)))
PROGRAM(where_largest, kn_cast(kn_argmax(x, 0), KN_F32))
PROGRAM(scores, kn_matmul(kn_softmax(kn_matmul(x, kn_transpose(y, 0, 1)), -1), y))
PROGRAM(joined, kn_sum(kn_cat((kn_tensor *[]){x, kn_wrap(kn, data[2], KN_F32, KN_DIMS(3, 8)), y}, 3, 0),
                       .axes = KN_AXES(1)))
PROGRAM(joined_inside, kn_cat((kn_tensor *[]){kn_transpose(x, 0, 1), kn_transpose(y, 0, 1)}, 2, 1))
PROGRAM(cut, kn_mul_s(kn_rows(x, 0, 1), 3))
PROGRAM(last, kn_rows(x, kn_dim_add(kn, n, -1), 1))
PROGRAM(padded, kn_pad(x, ((kn_dim[]){1, 0}), ((kn_dim[]){2, 1}), 2))
PROGRAM(turned, kn_flip(x, 0))
PROGRAM(flat, kn_flatten(kn_mul(x, y), 0))
PROGRAM(pairs, kn_reshape(x, KN_DIMS(-1, 4)))
PROGRAM(heads, kn_transpose(kn_reshape(x, KN_DIMS(n, 2, 4)), 0, 1))
PROGRAM(made, kn_mul(kn_full(kn, 2, KN_F32, KN_DIMS(n, 1)), x))
PROGRAM(counted, kn_mul(kn_iota(kn, n, KN_F32), kn_dim_scalar(kn, n, KN_F32)))
PROGRAM(spread, kn_add(kn_expand(kn_unsqueeze(kn_mean(x, .axes = KN_AXES(0)), 0), KN_DIMS(n, 8)), y))
PROGRAM(running, kn_cumsum(x, 0))
PROGRAM(stacked, kn_stack((kn_tensor *[]){x, y}, 2, 1))
PROGRAM(picked, kn_gather(x, 1, kn_cast(kn_iota(kn, 3, KN_I32), KN_I32)))
PROGRAM(causal, kn_where(kn_ge(kn_unsqueeze(kn_iota(kn, n, KN_I32), 1), kn_iota(kn, n, KN_I32)),
                         kn_matmul(x, kn_transpose(y, 0, 1)), kn_full(kn, -9, KN_F32, KN_DIMS(1, 1))))

static const struct {
    const char *name;
    program     f;
} programs[] = {
    {"layer", layer}, {"mean", mean}, {"variance", variance}, {"norm", norm}, {"softmax", soft}, {"largest", largest},
    {"where_largest", where_largest}, {"scores", scores}, {"joined", joined}, {"joined_inside", joined_inside},
    {"cut", cut}, {"last", last}, {"padded", padded}, {"turned", turned}, {"flat", flat}, {"pairs", pairs},
    {"heads", heads}, {"made", made}, {"counted", counted}, {"spread", spread}, {"running", running},
    {"stacked", stacked}, {"picked", picked}, {"causal", causal},
};

static kn_tensor *rows(kn_context *kn, int k, kn_dim n) { return kn_from(kn, data[k], KN_F32, KN_DIMS(n, 8)); }

static void as_numbers(kn_context *kn) {
    static const int64_t values[] = {5, 1, MOST, 17};
    kn_dim               sym      = kn_sym(kn, "n", 1, MOST);
    for (int p = 0; p < (int)(sizeof programs / sizeof *programs); p++) {
        uint64_t first = 0;
        for (int v = 0; v < 4; v++) {
            kn_scope  *s = kn_begin(kn);
            kn_dim     n = kn_bind(kn, sym, values[v]);
            kn_tensor *a = programs[p].f(kn, n, rows(kn, 0, n), rows(kn, 1, n));
            CHECK_EQ(kn_realize(&a, 1), KN_OK);
            if (!v) first = stats(kn).schedules;
            CHECK_EQ(stats(kn).schedules, first); /* one program, whatever the value */
            kn_tensor *b = programs[p].f(kn, values[v], rows(kn, 0, values[v]), rows(kn, 1, values[v]));
            if (!SAME(a, b)) printf("  %s at %d\n", programs[p].name, (int)values[v]);
            first += stats(kn).schedules - first;
            CHECK_EQ(kn_end(s), KN_OK);
        }
    }
}
API_RUN(as_numbers)

/* ---- looking, and what is wrong ---------------------------------------------------------------------------------- */

static void looked_at(kn_context *kn) {
    kn_dim n = kn_sym(kn, "n", 2, 30), five = kn_bind(kn, n, 5), six = kn_bind(kn, n, 6);
    CHECK_EQ(kn_sym(kn, "n", 2, 30), n);
    CHECK_EQ(kn_bind(kn, n, 5), five);
    CHECK_EQ(kn_bind(kn, six, 5), five);
    CHECK_EQ(kn_dim_value(kn, five), 5);
    CHECK_EQ(kn_dim_value(kn, 7), 7);
    CHECK_EQ(kn_dim_value(kn, kn_dim_add(kn, five, 3)), 8);
    CHECK_EQ(kn_dim_value(kn, kn_dim_mul(kn, 4, kn_dim_add(kn, six, -1))), 20);
    CHECK_EQ(kn_dim_add(kn, kn_dim_add(kn, five, 3), -3), five);
    CHECK_EQ(kn_dim_mul(kn, five, 6), kn_dim_mul(kn, 6, five));
    CHECK_EQ(kn_dim_add(kn, 2, 3), 5);
    kn_tensor *x = kn_zeros(kn, KN_F32, KN_DIMS(five, 4));
    CHECK_EQ(kn_size(x, 0), five);
    CHECK_EQ(kn_size(x, 1), 4);
    CHECK_EQ(kn_numel(x), 20);
    CHECK_EQ(kn_numel(kn_zeros(kn, KN_F32, KN_DIMS(n, 4))), -1);
    for (int i = 0; i < 3000; i++) { /* the graph is swept, and five is still five */
        kn_scope *s = kn_begin(kn);
        kn_add_s(kn_mul_s(x, i), 3);
        kn_add_s(kn_mul_s(x, -i), 3);
        CHECK_EQ(kn_end(s), KN_OK);
    }
    kn_add(x, kn_ones(kn, KN_F32, KN_DIMS(five, 1)));
    CHECK_EQ(kn_dim_value(kn, kn_size(x, 0)), 5);
    CHECK_NEAR(kn_item(kn_sum(kn_add(x, kn_ones(kn, KN_F32, KN_DIMS(five, 4))))), 20, 0);
}
API_RUN(looked_at)

static void wrong(kn_context *kn) {
    kn_dim     n = kn_sym(kn, "n", 2, 30), five = kn_bind(kn, n, 5), six = kn_bind(kn, n, 6);
    kn_tensor *x = kn_zeros(kn, KN_F32, KN_DIMS(five, 4)), *y = kn_zeros(kn, KN_F32, KN_DIMS(six, 4));
    CHECK_FAILS(kn, kn_sym(kn, "n", 1, 30), KN_ERR_ARG, "n is there already, from 2 to 30");
    CHECK_FAILS(kn, kn_sym(kn, "m", -1, 30), KN_ERR_ARG, "m from -1 to 30");
    CHECK_FAILS(kn, kn_sym(kn, "", 1, 30), KN_ERR_ARG, "a name");
    CHECK_FAILS(kn, kn_bind(kn, n, 31), KN_ERR_ARG, "n is 31, out of its bounds 2 to 30");
    CHECK_FAILS(kn, kn_bind(kn, 5, 5), KN_ERR_ARG, "not a symbol");
    CHECK_FAILS(kn, kn_bind(kn, kn_dim_add(kn, five, 1), 5), KN_ERR_ARG, "not a symbol");
    CHECK_FAILS(kn, kn_dim_value(kn, n), KN_ERR_STATE, "the size n has no value");
    CHECK_FAILS(kn, kn_dim_add(kn, n, -3), KN_ERR_ARG, "may be below 0");
    CHECK_FAILS(kn, kn_dim_mul(kn, n, -3), KN_ERR_ARG, "no size");
    CHECK_FAILS(kn, kn_add(x, y), KN_ERR_SHAPE, "(n=5,4) and (n=6,4) do not broadcast: axis -2 has n=5 and n=6");
    CHECK_FAILS(kn, kn_item(kn_sum(kn_zeros(kn, KN_F32, KN_DIMS(n, 4)))), KN_ERR_STATE, "the size n has no value");
    CHECK_FAILS(kn, kn_from(kn, data[0], KN_F32, KN_DIMS(n, 4)), KN_ERR_STATE, "the size n has no value");
    CHECK_FAILS(kn, kn_zeros(kn, KN_F32, KN_DIMS(-2, 4)), KN_ERR_SHAPE, "(-2,4) has a negative size");
    CHECK_FAILS(kn, kn_rows(x, 1, 2), KN_ERR_SHAPE, "the bounds of the symbols do not show");
    CHECK_FAILS(kn, kn_reshape(x, KN_DIMS(5, 4)), KN_ERR_SHAPE, "kn_reshape: (n=5,4) has 20 elements");
    CHECK_FAILS(kn, kn_reshape(x, KN_DIMS(-1, 3)), KN_ERR_SHAPE, "do not divide");
    CHECK_FAILS(kn, kn_assign(x, x), KN_ERR_UNSUPPORTED, "has numbers for sizes");
    kn_tensor *image = kn_zeros(kn, KN_F32, KN_DIMS(1, 1, five, 4)), *w = kn_ones(kn, KN_F32, KN_DIMS(1, 1, 2, 2));
    CHECK_FAILS(kn, kn_conv2d(image, w, NULL), KN_ERR_UNSUPPORTED, "only N may be symbolic");
    float out[4];
    CHECK_FAILS(kn, kn_read(x, KN_F32, out, sizeof out), KN_ERR_ARG, "20 elements of f32 need 80 bytes");
}
API_RUN(wrong)

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static kn_tensor *loss_of(kn_tensor *x, kn_tensor *w, kn_tensor *t) {
    kn_tensor *y = kn_tanh(kn_matmul(x, w));
    y            = kn_add(kn_softmax(kn_matmul(y, kn_transpose(y, 0, 1)), -1), kn_sum(kn_mul(y, t)));
    return kn_mean(kn_square(y));
}

static void gradients(kn_context *kn) {
    kn_dim     sym = kn_sym(kn, "n", 1, MOST);
    kn_tensor *w   = kn_from(kn, data[2], KN_F32, KN_DIMS(8, 8));
    uint64_t   first = 0;
    for (int v = 3; v < 30; v += 9) {
        kn_dim     n  = kn_bind(kn, sym, v);
        kn_tensor *x[2] = {rows(kn, 0, n), rows(kn, 0, v)}, *t[2] = {rows(kn, 1, n), rows(kn, 1, v)}, *g[2], *gx[2];
        for (int k = 0; k < 2; k++) {
            kn_requires_grad(x[k]);
            kn_requires_grad(w);
            kn_backward(loss_of(x[k], w, t[k]));
            g[k]  = kn_contiguous(kn_grad(w));
            gx[k] = kn_contiguous(kn_grad(x[k]));
            CHECK_EQ(kn_realize((kn_tensor *[]){g[k], gx[k]}, 2), KN_OK);
            if (!k && !first) first = stats(kn).schedules;
            if (!k) CHECK_EQ(stats(kn).schedules, first);
        }
        first = stats(kn).schedules;
        SAME(g[0], g[1]);
        SAME(gx[0], gx[1]);
    }
}
API_RUN(gradients)

/* ---- captured steps ---------------------------------------------------------------------------------------------- */

typedef struct model {
    kn_tensor *w;
    kn_optim  *opt;
    int        traced;
} model;

static kn_status train(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    model *m = user;
    (void)kn, (void)nin, (void)nout;
    m->traced++;
    kn_tensor *y = kn_matmul(in[0], m->w);
    out[0]       = kn_mean(kn_square(kn_sub(y, in[1])));
    out[1]       = kn_relu(y);
    return kn_minimize(m->opt, out[0]);
}

/* Batches of many sizes through one trace; the same by numbers. */
static void captured(kn_context *kn) {
    kn_dim    sym = kn_sym(kn, "batch", 1, MOST);
    model     m[2];
    kn_jit   *j[2];
    for (int k = 0; k < 2; k++) {
        m[k]     = (model){.w = kn_from(kn, data[2], KN_F32, KN_DIMS(8, 8))};
        m[k].opt = kn_adam(kn, &m[k].w, 1, .lr = 0.05);
        j[k]     = kn_jit_new(kn, train, &m[k]);
    }
    uint64_t schedules = 0;
    for (int i = 0; i < 12; i++) {
        int       v = i * 7 % MOST + 1;
        kn_scope *s = kn_begin(kn);
        kn_tensor *out[2][2];
        for (int k = 0; k < 2; k++) {
            kn_dim     n    = k ? v : kn_bind(kn, sym, v);
            kn_tensor *in[] = {rows(kn, 0, n), rows(kn, 1, n)};
            CHECK_EQ(kn_call(j[k], 2, in, 2, out[k]), KN_OK);
            if (!k && !i) schedules = stats(kn).schedules;
            if (!k && i) CHECK_EQ(stats(kn).schedules, schedules);
        }
        schedules = stats(kn).schedules;
        SAME(out[0][0], out[1][0]);
        SAME(out[0][1], out[1][1]);
        schedules += stats(kn).schedules - schedules;
        CHECK_EQ(kn_end(s), KN_OK);
    }
    CHECK_EQ(m[0].traced, 1);
    CHECK(m[1].traced > 5);
    SAME(m[0].w, m[1].w);
}
API_RUN(captured)

/* A cache that grows: the position is bound between calls, and is in no input's shape. */
typedef struct decoder {
    kn_tensor *cache;
    kn_dim     at, n;
    int        traced;
} decoder;

static kn_status decode(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    decoder *d = user;
    (void)nin, (void)nout;
    d->traced++;
    kn_tensor *here = kn_eq(kn_unsqueeze(kn_iota(kn, MOST, KN_I32), 1), kn_dim_scalar(kn, d->at, KN_I32));
    kn_assign(d->cache, kn_where(here, in[0], d->cache));
    kn_tensor *seen = kn_shrink(d->cache, ((kn_dim[]){0, 0}), ((kn_dim[]){kn_dim_add(kn, d->at, 1), 8}), 2);
    out[0]          = kn_matmul(kn_softmax(kn_matmul(in[0], kn_transpose(seen, 0, 1)), -1), seen);
    return KN_OK;
}

static void decoded(kn_context *kn) {
    kn_dim   at = kn_sym(kn, "at", 0, MOST - 1);
    decoder  d  = {.cache = kn_empty(kn, KN_F32, KN_DIMS(MOST, 8))};
    kn_jit  *j  = kn_jit_new(kn, decode, &d);
    uint64_t schedules = 0;
    for (int i = 0; i < 12; i++) {
        kn_scope  *s    = kn_begin(kn);
        kn_tensor *x    = kn_from(kn, data[0] + 8 * i, KN_F32, KN_DIMS(1, 8)), *out;
        d.at            = kn_bind(kn, at, i);
        CHECK_EQ(kn_call(j, 1, &x, 1, &out), KN_OK);
        if (i) CHECK_EQ(stats(kn).schedules, schedules);
        kn_tensor *all  = kn_from(kn, data[0], KN_F32, KN_DIMS(i + 1, 8));
        kn_tensor *want = kn_matmul(kn_softmax(kn_matmul(x, kn_transpose(all, 0, 1)), -1), all);
        SAME(out, want);
        schedules = stats(kn).schedules;
        CHECK_EQ(kn_end(s), KN_OK);
    }
    CHECK_EQ(d.traced, 1);
}
API_RUN(decoded)

static kn_status product(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)nin, (void)nout;
    out[0] = kn_mul(in[0], nin > 1 ? in[1] : user ? (kn_tensor *)user : kn_iota(kn, kn_size(in[0], 0), KN_F32));
    return KN_OK;
}

static void captured_wrong(kn_context *kn) {
    kn_dim     sym = kn_sym(kn, "n", 1, MOST), n = kn_bind(kn, sym, 5), m = kn_bind(kn, sym, 6);
    kn_tensor *x = kn_from(kn, data[0], KN_F32, KN_DIMS(n)), *y = kn_from(kn, data[1], KN_F32, KN_DIMS(m)), *out;
    kn_jit    *two = kn_jit_new(kn, product, NULL), *outside = kn_jit_new(kn, product, x);
    kn_jit    *one = kn_jit_new(kn, product, NULL);
    CHECK_FAILS(kn, kn_call(two, 2, (kn_tensor *[]){x, y}, 1, &out), KN_ERR_SHAPE, "n=5 and n=6");
    CHECK_EQ(kn_call(two, 2, (kn_tensor *[]){x, x}, 1, &out), KN_OK);
    CHECK_FAILS(kn, kn_call(two, 2, (kn_tensor *[]){x, y}, 1, &out), KN_ERR_ARG, "n is 5 and 6 in one call");
    CHECK_EQ(kn_call(outside, 1, &x, 1, &out), KN_OK);
    CHECK_FAILS(kn, kn_call(outside, 1, &y, 1, &out), KN_ERR_ARG,
                "n is 6, but a tensor that the step found outside has 5");
    kn_tensor *longer = kn_cat((kn_tensor *[]){x, x}, 2, 0);
    CHECK_FAILS(kn, kn_call(one, 1, &longer, 1, &out), KN_ERR_UNSUPPORTED, "in[0] is ((10))");
    CHECK_EQ(kn_call(one, 1, &x, 1, &out), KN_OK);
    kn_tensor *lazy = kn_add_s(out, 1); /* keeps its value, and its size */
    CHECK_EQ(kn_call(one, 1, &y, 1, &out), KN_OK);
    CHECK_EQ(kn_numel(lazy), 5);
    CHECK_EQ(kn_numel(out), 6);
    CHECK_NEAR(kn_item(kn_rows(lazy, 0, 1)), 1, 0);
    SAME(lazy, kn_add_s(kn_mul(kn_from(kn, data[0], KN_F32, KN_DIMS(5)), kn_iota(kn, 5, KN_F32)), 1));
    SAME(out, kn_mul(kn_from(kn, data[1], KN_F32, KN_DIMS(6)), kn_iota(kn, 6, KN_F32)));
}
API_RUN(captured_wrong)

static void function(kn_context *kn) {
    kn_dim     sym = kn_sym(kn, "n", 1, MOST);
    for (int v = 4; v < 8; v++) {
        kn_tensor *x = kn_from(kn, data[0], KN_F32, KN_DIMS(kn_bind(kn, sym, v))), *y;
        CHECK_EQ(kn_function(kn, product, NULL, 1, &x, 1, &y), KN_OK);
        SAME(y, kn_mul(kn_from(kn, data[0], KN_F32, KN_DIMS(v)), kn_iota(kn, v, KN_F32)));
        kn_requires_grad(x);
        kn_backward(kn_sum(kn_square(y)));
        kn_tensor *i = kn_iota(kn, v, KN_F32), *z = kn_from(kn, data[0], KN_F32, KN_DIMS(v));
        SAME(kn_grad(x), kn_mul_s(kn_mul(kn_square(i), z), 2));
    }
}
API_RUN(function)

/* A loop of n falls into rounds and what is left over, which has no iteration: nothing times infinity is 0 there. */
static void none_of_infinity(kn_context *kn) {
    kn_dim sym = kn_sym(kn, "n", 0, 1);
    for (int v = 0; v < 2; v++) {
        kn_dim     n   = kn_bind(kn, sym, v);
        kn_tensor *sum = kn_sum(kn_mul_s(kn_add_s(kn_zeros(kn, KN_F32, KN_DIMS(n)), 1), INFINITY));
        CHECK_NEAR(kn_item(kn_minimum_s(sum, 7)), v ? 7 : 0, 0);
    }
}
API_RUN(none_of_infinity)

int main(void) {
    fill();
    RUN(as_numbers_on_each_device);
    RUN(looked_at_on_each_device);
    RUN(wrong_on_each_device);
    RUN(gradients_on_each_device);
    RUN(captured_on_each_device);
    RUN(decoded_on_each_device);
    RUN(captured_wrong_on_each_device);
    RUN(function_on_each_device);
    RUN(none_of_infinity_on_each_device);
    return check_result();
}
