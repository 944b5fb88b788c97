/* Two contexts in two threads, each compiling, training and replaying: there is nothing they share. (The race detector
 * runs this in check-full.) */
#include "api.h"

#include <pthread.h>

typedef struct model {
    kn_tensor *w;
    kn_optim  *opt;
} model;

static kn_status step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    model *m = user;
    (void)kn, (void)nin, (void)nout;
    out[0] = kn_mean(kn_square(kn_sub(kn_matmul(in[0], m->w), in[1])));
    return kn_minimize(m->opt, out[0]);
}

typedef struct job {
    const char *device;
    int         n; /* 96: enough for the pool */
    double      first, last;
    kn_status   code;
} job;

enum { STEPS = 12 };

static void *train(void *arg) {
    job        *r   = arg;
    int         n   = r->n;
    kn_config   cfg = {.device = r->device, .threads = 2, .seed = 5, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    model       m   = {.w = kn_kaiming_uniform(kn, KN_DIMS(n, n))};
    m.opt           = kn_adam(kn, &m.w, 1, .lr = 0.01);
    kn_tensor *x = kn_rand(kn, KN_DIMS(2 * n, n)), *t = kn_matmul(x, kn_eye(kn, n, KN_F32)), *loss;
    kn_realize((kn_tensor *[]){x, t}, 2);
    kn_jit *run = kn_jit_new(kn, step, &m);
    for (int i = 0; i < STEPS; i++) {
        kn_scope  *s    = kn_begin(kn);
        kn_tensor *in[] = {kn_rows(x, i % 2 * n, n), kn_rows(t, i % 2 * n, n)};
        kn_call(run, 2, in, 1, &loss);
        if (i < 1) r->first = kn_item(loss);
        r->last = kn_item(loss);
        r->code = r->code == KN_OK ? kn_end(s) : r->code;
    }
    if (r->code != KN_OK) fprintf(stderr, "%s\n", kn_error(kn));
    kn_close(kn);
    return NULL;
}

static void together(const char *a, const char *b, int n) {
    job       r[2] = {{.device = a, .n = n}, {.device = b, .n = n}};
    pthread_t t[2];
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_create(&t[i], NULL, train, &r[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(r[i].code, KN_OK);
        CHECK(r[i].last < 0.5 * r[i].first);
    }
    CHECK_NEAR(r[0].last, r[1].last, 1e-3);
}

static void two_contexts(void) {
    together("CPU", "CPU", 96);
}
static void two_devices(void) {
    together("CPU", "INTERP", 12);
}

/* kn_cancel is the one call from elsewhere. */
static void *cancel(void *kn) {
    for (int i = 0; i < 200; i++) kn_cancel(kn);
    return NULL;
}

static void cancelled(void) {
    kn_context *kn = api_open("CPU");
    pthread_t   t;
    CHECK_EQ(pthread_create(&t, NULL, cancel, kn), 0);
    kn_status  st = KN_OK;
    for (int i = 0; i < 20; i++) {
        kn_scope *s = kn_begin(kn);
        kn_keep(kn_matmul(kn_rand(kn, KN_DIMS(96, 96)), kn_rand(kn, KN_DIMS(96, 96))));
        st = kn_end(s);
        CHECK(st == KN_OK || st == KN_ERR_CANCELLED);
    }
    pthread_join(t, NULL);
    kn_clear_error(kn);
    (void)kn_item(kn_sum(kn_ones(kn, KN_F32, KN_DIMS(3)))); /* may hear the last one */
    kn_clear_error(kn);
    CHECK_NEAR(kn_item(kn_sum(kn_ones(kn, KN_F32, KN_DIMS(3)))), 3, 0);
    kn_close(kn);
}

int main(void) {
    RUN(two_contexts);
    RUN(two_devices);
    RUN(cancelled);
    return check_result();
}
