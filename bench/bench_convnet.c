/* A training step of a convolutional net, random images: conv 1-32 5x5, relu, conv 32-32 5x5, norm, relu, pool, conv
 * 32-64 3x3, relu, conv 64-64 3x3, norm, relu, pool, linear 576-10; cross-entropy, Adam. Median milliseconds of a step,
 * GFLOP/s by the products' own count (three times the forward pass, less the gradient of the images), and the kernels
 * that take longest. bench_convnet [BATCH] [STEPS] [THREADS] */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"
#include "koine.h"

#include <stdlib.h>

enum { MOST_STEPS = 100, MOST_KERNELS = 256, SHOWN = 8 };

typedef struct timing {
    double at, each[MOST_KERNELS]; /* seconds in each kernel so far */
    int    now, kernels;           /* the one that runs, -1 none; how many a step has, 0 before that is known */
} timing;

static void timing_close(timing *t) {
    double at = kn_now();
    if (t->now >= 0 && t->now < MOST_KERNELS) t->each[t->now] += at - t->at;
    t->now = -1;
    t->at  = at;
}

/* Called before each kernel. */
static int timing_step(void *user, const char *what, double fraction) {
    timing *t = user;
    (void)what;
    timing_close(t);
    if (t->kernels) t->now = (int)(fraction * t->kernels + 0.5);
    return 0;
}

typedef struct net {
    kn_tensor *p[14], *mean[2], *var[2];
} net;

static kn_tensor *forward(const net *m, kn_tensor *x) {
    kn_tensor *const *p = m->p, *h = kn_relu(kn_conv2d(x, p[0], p[1]));
    h = kn_batch_norm(kn_conv2d(h, p[2], p[3]), p[4], p[5], .mean = m->mean[0], .var = m->var[0], .training = 1);
    h = kn_relu(kn_conv2d(kn_max_pool2d(kn_relu(h)), p[6], p[7]));
    h = kn_batch_norm(kn_conv2d(h, p[8], p[9]), p[10], p[11], .mean = m->mean[1], .var = m->var[1], .training = 1);
    h = kn_max_pool2d(kn_relu(h));
    return kn_add(kn_matmul(kn_flatten(h, 1), p[12]), p[13]);
}

static kn_tensor *stored(kn_context *kn, kn_tensor *value, const kn_dim *dims, int rank) {
    return kn_assign(kn_empty(kn, KN_F32, dims, rank), value);
}

static void make(net *m, kn_context *kn) {
    static const kn_dim weight[5][4] = {{32, 1, 5, 5}, {32, 32, 5, 5}, {64, 32, 3, 3}, {64, 64, 3, 3}, {576, 10}};
    static const int    at[5] = {0, 2, 6, 8, 12};
    for (int i = 0; i < 5; i++) {
        int    rank = i < 4 ? 4 : 2;
        kn_dim out  = i < 4 ? weight[i][0] : weight[i][1];
        m->p[at[i]]     = stored(kn, kn_kaiming_uniform(kn, weight[i], rank), weight[i], rank);
        m->p[at[i] + 1] = kn_empty(kn, KN_F32, &out, 1);
        if (i != 1 && i != 3) continue;
        m->p[at[i] + 2] = stored(kn, kn_ones(kn, KN_F32, &out, 1), &out, 1);
        m->p[at[i] + 3] = kn_empty(kn, KN_F32, &out, 1);
        m->mean[i / 2]  = kn_empty(kn, KN_F32, &out, 1);
        m->var[i / 2]   = stored(kn, kn_ones(kn, KN_F32, &out, 1), &out, 1);
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int       batch = argc > 1 ? atoi(argv[1]) : 512, steps = argc > 2 ? atoi(argv[2]) : 5;
    timing    t = {.now = -1};
    kn_config cfg = {
        .threads = argc > 3 ? atoi(argv[3]) : 1, .progress = timing_step, .progress_user = &t, .size = sizeof cfg};
    kn_stats  stats = {.size = sizeof stats};
    double    each[MOST_STEPS];
    net       m;
    steps = KN_MAX(1, KN_MIN(steps, (int)MOST_STEPS));
    kn_context *kn = kn_open(&cfg);
    if (!kn || batch < 1) return 2;
    kn_tensor *x = kn_empty(kn, KN_F32, KN_DIMS(batch, 1, 28, 28)), *labels = kn_empty(kn, KN_I32, KN_DIMS(batch));
    kn_scope  *s = kn_begin(kn);
    kn_assign(x, kn_rand(kn, KN_DIMS(batch, 1, 28, 28)));
    kn_end(s);
    make(&m, kn);
    kn_optim *adam = kn_adam(kn, m.p, KN_COUNT(m.p), .lr = 1e-3);
    for (int i = -2; i < steps; i++) { /* two steps to compile and to warm up */
        double start = kn_now();
        if (i == 0) t = (timing){.now = -1, .kernels = (int)stats.kernels_last};
        s = kn_begin(kn);
        kn_minimize(adam, kn_mean(kn_cross_entropy(forward(&m, x), labels)));
        if (kn_end(s)) {
            fprintf(stderr, "%s\n", kn_error(kn));
            return 1;
        }
        timing_close(&t);
        if (i == -2) printf("first step  %8.0f ms, compiling included\n", 1e3 * (kn_now() - start));
        if (i >= 0) each[i] = kn_now() - start;
        kn_get_stats(kn, &stats);
    }
    qsort(each, (size_t)steps, sizeof *each, ascending);
    double median = each[steps / 2], products = (3.0 * 13213312 - 460800) * 2 * batch;
    printf("step        %8.1f ms, %.1f GFLOP/s, %d kernels, batch %d, %d thread%s\n", 1e3 * median,
           1e-9 * products / median, t.kernels, batch, cfg.threads, cfg.threads == 1 ? "" : "s");
    for (int n = 0; n < SHOWN; n++) {
        int most = 0;
        for (int k = 0; k < KN_MIN(t.kernels, (int)MOST_KERNELS); k++)
            if (t.each[k] > t.each[most]) most = k;
        printf("  kernel %2d %8.1f ms\n", most, 1e3 * t.each[most] / steps);
        t.each[most] = 0;
    }
    kn_close(kn);
    return 0;
}
