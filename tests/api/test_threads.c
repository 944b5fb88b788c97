/* Contexts in several threads, each compiling, training and replaying: with nothing in common, and with a runtime that
 * they share. (project.threads runs this under the race detector.) */
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
    kn_runtime *runtime;
    double      first, last;
    kn_status   code;
    kn_stats    stats;
} job;

enum { STEPS = 12 };
#define JOB(dev, size, shared) {.device = (dev), .n = (size), .runtime = (shared)}

static void *train(void *arg) {
    job        *r   = arg;
    int         n   = r->n;
    kn_config   cfg = {.device = r->device, .threads = 2, .seed = 5, .runtime = r->runtime, .size = sizeof cfg};
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
    r->stats.size = sizeof r->stats;
    kn_get_stats(kn, &r->stats);
    kn_close(kn);
    return NULL;
}

static void run_jobs(job *r, int n) {
    pthread_t t[4];
    for (int i = 0; i < n; i++) CHECK_EQ(pthread_create(&t[i], NULL, train, &r[i]), 0);
    for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < n; i++) {
        CHECK_EQ(r[i].code, KN_OK);
        CHECK(r[i].last < 0.5 * r[i].first);
    }
}

static void together(const char *a, const char *b, int n) {
    job r[2] = {JOB(a, n, NULL), JOB(b, n, NULL)};
    run_jobs(r, 2);
    CHECK_NEAR(r[0].last, r[1].last, 1e-3);
}

static void two_contexts(void) {
    together("CPU", "CPU", 96);
}
static void two_devices(void) {
    together("CPU", "INTERP", 12);
}

/* Equal programs and different ones, at once: each form is lowered by one of the contexts, the others find it. */
static void shared_by_threads(void) {
    kn_runtime *rt = kn_runtime_new(&(kn_config){.threads = 2, .size = sizeof(kn_config)});
    if (!CHECK(rt != NULL)) return;
    job r[4] = {JOB("CPU", 96, rt), JOB("CPU", 96, rt), JOB("CPU", 64, rt), JOB("CPU", 96, rt)};
    job alone[2] = {JOB("CPU", 96, NULL), JOB("CPU", 64, NULL)};
    run_jobs(r, 4);
    run_jobs(alone, 2);
    CHECK_NEAR(r[0].last, r[1].last, 0); /* whoever ran in the pool, and whoever did not */
    CHECK_NEAR(r[0].last, r[3].last, 0);
    CHECK_NEAR(r[0].last, alone[0].last, 0);
    CHECK_NEAR(r[2].last, alone[1].last, 0);
    uint64_t lowered = 0;
    for (int i = 0; i < 4; i++) lowered += r[i].stats.schedules;
    CHECK_EQ(lowered, alone[0].stats.schedules + alone[1].stats.schedules);
    job late[1] = {JOB("CPU", 64, rt)};
    run_jobs(late, 1);
    CHECK_EQ(late[0].stats.schedules, 0);
    CHECK_EQ(late[0].stats.kernels_compiled, 0);
    CHECK_NEAR(late[0].last, alone[1].last, 0);
    kn_runtime_close(rt);
}

/* The interpreter's graphs are shared as well, and what the compiler is for is not what it runs. */
static void shared_by_devices(void) {
    kn_runtime *rt   = kn_runtime_new(NULL);
    job         r[3] = {JOB("CPU", 12, rt), JOB("INTERP", 12, rt), JOB("INTERP", 12, rt)};
    run_jobs(r, 3);
    CHECK_NEAR(r[0].last, r[1].last, 1e-3);
    CHECK_NEAR(r[1].last, r[2].last, 0);
    CHECK_EQ(r[1].stats.kernels_compiled + r[2].stats.kernels_compiled, 0);
    kn_runtime_close(rt);
}

static int refuse(void *user, const char *what, double fraction) {
    (void)what;
    return *(int *)user && fraction == 1;
}

/* A context that gives up what it compiles leaves nothing behind; the runtime outlives who made it. */
static void shared_and_left(void) {
    kn_runtime *rt     = kn_runtime_new(NULL);
    int         no     = 1;
    kn_config   cfg    = {.runtime = rt, .size = sizeof cfg}, hooked = cfg;
    hooked.progress      = refuse;
    hooked.progress_user = &no;
    kn_context *a = kn_open(&hooked), *b = kn_open(&cfg);
    kn_runtime_close(rt);
    kn_context *kn[2] = {a, b};
    kn_stats    st    = {.size = sizeof st};
    for (int i = 0; i < 2; i++) {
        double v = kn_item(kn_sum(kn_mul_s(kn_from(kn[i], (float[]){1, 2, 3}, KN_F32, KN_DIMS(3)), 5)));
        if (i) CHECK_NEAR(v, 30, 0);
    }
    CHECK_EQ(kn_error_code(a), KN_ERR_CANCELLED);
    kn_clear_error(a);
    CHECK_EQ(kn_get_stats(b, &st), KN_OK);
    CHECK_EQ(st.schedules, 1);
    no = 0;
    CHECK_NEAR(kn_item(kn_sum(kn_mul_s(kn_from(a, (float[]){1, 2, 3}, KN_F32, KN_DIMS(3)), 5))), 30, 0);
    CHECK_EQ(kn_get_stats(a, &st), KN_OK);
    CHECK_EQ(st.schedules, 0);
    CHECK_EQ(st.schedule_hits, 1);
    kn_close(b);
    CHECK_NEAR(kn_item(kn_sum(kn_mul_s(kn_from(a, (float[]){1, 2, 4}, KN_F32, KN_DIMS(3)), 5))), 35, 0);
    kn_close(a);
    CHECK(kn_runtime_new(&(kn_config){.size = 1}) == NULL);
    CHECK(kn_runtime_new(&(kn_config){.threads = -1, .size = sizeof(kn_config)}) == NULL);
    kn_runtime_close(NULL);
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
    RUN(shared_by_threads);
    RUN(shared_by_devices);
    RUN(shared_and_left);
    RUN(cancelled);
    return check_result();
}
