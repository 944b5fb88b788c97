/* What a captured training step costs beside its kernels: microseconds of our own time a step and a kernel, by the
 * depth of the network, on the device that compiles kernels and calls none. Beside it, the same step written out. */
#include "koine.h"

#include <stdio.h>
#include <time.h>

enum { WIDTH = 16, MOST = 24, BATCH = 8 };

typedef struct net {
    int        layers;
    kn_tensor *p[2 * MOST];
    kn_optim  *opt;
} net;

static kn_status step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    net       *m = user;
    kn_tensor *x = in[0];
    (void)kn, (void)nin, (void)nout;
    for (int i = 0; i < m->layers; i++) x = kn_relu(kn_add(kn_matmul(x, m->p[2 * i]), m->p[2 * i + 1]));
    out[0] = kn_mean(kn_square(kn_sub(x, in[1])));
    return kn_minimize(m->opt, out[0]);
}

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double best_us(kn_context *kn, net *m, kn_jit *run, int calls) {
    kn_tensor *x    = kn_rand(kn, KN_DIMS(4 * BATCH, WIDTH)), *loss;
    double     best = 1e9;
    kn_realize(&x, 1);
    for (int i = 0; i < calls; i++) {
        double     start = now(), took;
        kn_scope  *s     = kn_begin(kn);
        kn_tensor *in[]  = {kn_rows(x, i % 4 * BATCH, BATCH), kn_rows(x, (i + 1) % 4 * BATCH, BATCH)};
        if (run)
            kn_call(run, 2, in, 1, &loss);
        else
            step(kn, m, 2, in, 1, &loss);
        if (kn_end(s) != KN_OK) printf("%s\n", kn_error(kn));
        took = (now() - start) * 1e6;
        if (took < best) best = took;
    }
    return best;
}

int main(void) {
    printf("layers  parameters  kernels   replayed: us a step  us a kernel   written out: us a step\n");
    for (int layers = 1; layers <= MOST; layers *= 2) {
        kn_config   cfg = {.device = "NULL", .threads = 1, .size = sizeof cfg};
        kn_context *kn  = kn_open(&cfg);
        net         m   = {.layers = layers};
        for (int i = 0; i < layers; i++) {
            m.p[2 * i]     = kn_kaiming_uniform(kn, KN_DIMS(WIDTH, WIDTH));
            m.p[2 * i + 1] = kn_zeros(kn, KN_F32, KN_DIMS(WIDTH));
        }
        m.opt           = kn_adam(kn, m.p, 2 * layers);
        double   replay = best_us(kn, &m, kn_jit_new(kn, step, &m), 2000);
        kn_stats stats  = {.size = sizeof stats};
        kn_get_stats(kn, &stats);
        double written = best_us(kn, &m, NULL, 20);
        printf("%6d  %10d  %7d  %20.2f  %11.3f  %23.0f\n", layers, 2 * layers, (int)stats.kernels_last, replay,
               replay / (double)stats.kernels_last, written);
        kn_close(kn);
    }
    return 0;
}
