/* Optimisers against the same formulas in plain C, and the form of a step. */
#include "base/base.h"
#include "koine.h"
#include "check.h"

#include <math.h>
#include <string.h>

enum { N = 6, STEPS = 7 };
static const char *const devices[] = {"INTERP", "CPU"};
static const double      start[N] = {1, -2, 0.5, 3, -0.25, 0}, goal[N] = {0.5, 1, 0.5, -1, 2, 1},
                    weight[N] = {1, 2, 3, 0.5, 1, 4};

static kn_context *open_on(const char *device) {
    return kn_open(&(kn_config){.device = device, .size = sizeof(kn_config)});
}

static kn_tensor *from(kn_context *kn, const double *x, kn_dtype dtype, bool square) {
    kn_tensor *t = kn_cast(kn_from(kn, x, KN_F64, square ? (kn_dim[]){2, 3} : (kn_dim[]){N}, square ? 2 : 1), dtype);
    return t;
}

/* sum weight (w - goal)^2: the gradient is 2 weight (w - goal). */
static kn_tensor *quadratic(kn_context *kn, kn_tensor *w, bool square) {
    kn_dtype dt = kn_dtype_of(w);
    return kn_sum(kn_mul(from(kn, weight, dt, square), kn_square(kn_sub(w, from(kn, goal, dt, square)))));
}

typedef struct reference {
    double w[N], m[N], v[N];
    int    t;
} reference;

static void sgd_reference(reference *r, double lr, double mu, double decay, bool nesterov) {
    for (int i = 0; i < N; i++) {
        double g = 2 * weight[i] * (r->w[i] - goal[i]) + decay * r->w[i];
        if (mu != 0) {
            r->m[i] = mu * r->m[i] + g;
            g = nesterov ? g + mu * r->m[i] : r->m[i];
        }
        r->w[i] -= lr * g;
    }
}

static void adam_reference(reference *r, double lr, double b1, double b2, double eps, double decay) {
    r->t++;
    for (int i = 0; i < N; i++) {
        double g = 2 * weight[i] * (r->w[i] - goal[i]);
        r->m[i] = b1 * r->m[i] + (1 - b1) * g;
        r->v[i] = b2 * r->v[i] + (1 - b2) * g * g;
        double m = r->m[i] / (1 - pow(b1, r->t)), v = r->v[i] / (1 - pow(b2, r->t));
        r->w[i] -= lr * (m / (sqrt(v) + eps) + decay * r->w[i]);
    }
}

typedef struct optim_case {
    bool         adam, square;
    kn_dtype     dtype;
    kn_sgd_opts  sgd;
    kn_adam_opts ad;
} optim_case;

static const optim_case cases[] = {
    {.dtype = KN_F32},
    {.dtype = KN_F32, .square = true, .sgd = {.lr = 0.05, .weight_decay = 0.1, .size = sizeof(kn_sgd_opts)}},
    {.dtype = KN_F32, .sgd = {.lr = 0.02, .momentum = 0.9, .size = sizeof(kn_sgd_opts)}},
    {.dtype = KN_F64,
     .sgd   = {.lr = 0.02, .momentum = 0.8, .nesterov = 1, .weight_decay = 0.01, .size = sizeof(kn_sgd_opts)}},
    {.dtype = KN_F32, .sgd = {.lr = KN_ZERO, .size = sizeof(kn_sgd_opts)}},
    {.adam = true, .dtype = KN_F32},
    {.adam   = true,
     .dtype  = KN_F32,
     .square = true,
     .ad     = {.lr = 0.1, .weight_decay = 0.2, .size = sizeof(kn_adam_opts)}},
    {.adam  = true,
     .dtype = KN_F64,
     .ad    = {.lr = 0.1, .beta1 = 0.5, .beta2 = 0.75, .eps = 1e-3, .size = sizeof(kn_adam_opts)}},
    {.adam = true, .dtype = KN_F32, .ad = {.lr = 0.1, .beta1 = KN_ZERO, .size = sizeof(kn_adam_opts)}},
};

static double given(double v, double usual) { return v != 0 ? v : signbit(v) ? 0 : usual; }

static void check_case(const char *device, const optim_case *k) {
    kn_context *kn = open_on(device);
    kn_tensor  *w = from(kn, start, k->dtype, k->square);
    reference   r = {{0}, {0}, {0}, 0};
    memcpy(r.w, start, sizeof start);
    kn_optim *o = k->adam ? kn_adam_opt(kn, &w, 1, k->ad.size ? &k->ad : NULL)
                          : kn_sgd_opt(kn, &w, 1, k->sgd.size ? &k->sgd : NULL);
    CHECK(o);
    kn_stats last = {.size = sizeof last}, now = {.size = sizeof now};
    for (int step = 0; step < STEPS && o; step++) {
        kn_scope *s = kn_begin(kn);
        CHECK_EQ(kn_minimize(o, quadratic(kn, w, k->square)), KN_OK);
        kn_status st = kn_end(s);
        if (!CHECK_EQ(st, KN_OK)) printf("%s\n", kn_error(kn));
        CHECK_EQ(kn_get_stats(kn, &now), KN_OK);
        if (step > 1) CHECK_EQ(now.schedules, last.schedules); /* one form, compiled once */
        last = now;
        if (k->adam)
            adam_reference(&r, given(k->ad.lr, 0.001), given(k->ad.beta1, 0.9), given(k->ad.beta2, 0.999),
                           given(k->ad.eps, 1e-8), k->ad.weight_decay);
        else
            sgd_reference(&r, given(k->sgd.lr, 0.01), k->sgd.momentum, k->sgd.weight_decay, k->sgd.nesterov != 0);
    }
    double got[N];
    CHECK_EQ(kn_read(w, KN_F64, got, sizeof got), KN_OK);
    for (int i = 0; i < N; i++)
        if (!CHECK_NEAR(got[i], r.w[i], 5e-6)) printf("%s: case %d, element %d\n", device, (int)(k - cases), i);
    kn_close(kn);
}

static void formulas(void) {
    for (int d = 0; d < KN_COUNT(devices); d++)
        for (int i = 0; i < KN_COUNT(cases); i++) check_case(devices[d], &cases[i]);
}

/* Two steps in one scope follow each other; several parameters; one that the loss does not reach. */
static void steps_in_one_scope(void) {
    kn_context *kn = open_on("CPU");
    double      one = 1, got;
    kn_tensor  *p[3];
    for (int i = 0; i < 3; i++) p[i] = kn_cast(kn_from(kn, &one, KN_F64, NULL, 0), KN_F32);
    kn_optim *o = kn_sgd_opt(kn, p, 3, &(kn_sgd_opts){.lr = 0.25, .size = sizeof(kn_sgd_opts)});
    kn_scope *s = kn_begin(kn);
    CHECK_EQ(kn_minimize(o, kn_add(kn_square(p[0]), p[1])), KN_OK);
    CHECK_EQ(kn_minimize(o, kn_add(kn_square(p[0]), p[1])), KN_OK);
    CHECK_EQ(kn_end(s), KN_OK);
    got = kn_item(p[0]);
    CHECK_NEAR(got, 0.25, 1e-7);
    got = kn_item(p[1]);
    CHECK_NEAR(got, 0.5, 1e-7);
    CHECK_NEAR(kn_item(p[2]), 1, 0);
    kn_close(kn);
}

static void misuse(void) {
    kn_context *kn = open_on("CPU");
    int32_t     whole = 3;
    kn_tensor  *i = kn_from(kn, &whole, KN_I32, NULL, 0), *x = kn_scalar_f32(kn, 1);
    CHECK(kn_sgd_opt(NULL, &x, 1, NULL) == NULL);
    CHECK(kn_sgd_opt(kn, NULL, 1, NULL) == NULL);
    CHECK_EQ(kn_error_code(kn), KN_ERR_ARG);
    kn_clear_error(kn);
    CHECK(kn_adam_opt(kn, &i, 1, NULL) == NULL);
    CHECK_EQ(kn_error_code(kn), KN_ERR_DTYPE);
    kn_clear_error(kn);
    CHECK(kn_adam_opt(kn, &x, 1, &(kn_adam_opts){.lr = 1}) == NULL); /* no size */
    CHECK_EQ(kn_error_code(kn), KN_ERR_ARG);
    kn_clear_error(kn);
    CHECK_EQ(kn_minimize(NULL, x), KN_ERR_ARG);
    kn_clear_error(kn);
    kn_optim *o = kn_adam_opt(kn, &x, 1, NULL);
    CHECK(o);
    CHECK_EQ(kn_minimize(o, kn_full(kn, 1, KN_F32, KN_DIMS(2))), KN_ERR_SHAPE);
    CHECK(strstr(kn_error(kn), "kn_minimize") != NULL);
    kn_clear_error(kn);
    CHECK(kn_minimize(o, NULL) != KN_OK);
    kn_close(kn);
}

int main(void) {
    RUN(formulas);
    RUN(steps_in_one_scope);
    RUN(misuse);
    return check_result();
}
