/* The same programs by the C target and by the target x86, alternating, in one thread: microseconds a run (the median
 * of the rounds), the ratio, and milliseconds to lower and compile them. `bench_target NAME` runs what NAME names. */
#include "koine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 11, TARGETS = 2 };

typedef kn_tensor *(*body)(kn_context *kn, kn_tensor *const in[]);

static kn_tensor *matmul(kn_context *kn, kn_tensor *const in[]) { return (void)kn, kn_matmul(in[0], in[1]); }
static kn_tensor *dense(kn_context *kn, kn_tensor *const in[]) {
    return (void)kn, kn_relu(kn_add(kn_matmul(in[0], in[1]), in[2]));
}
static kn_tensor *chain(kn_context *kn, kn_tensor *const in[]) {
    return (void)kn, kn_relu(kn_add(kn_mul(in[0], in[1]), in[2]));
}
static kn_tensor *gelu(kn_context *kn, kn_tensor *const in[]) { return (void)kn, kn_gelu(in[0]); }
static kn_tensor *softmax(kn_context *kn, kn_tensor *const in[]) { return (void)kn, kn_softmax(in[0], 1); }
static kn_tensor *sum(kn_context *kn, kn_tensor *const in[]) { return (void)kn, kn_sum(in[0]); }
static kn_tensor *transpose(kn_context *kn, kn_tensor *const in[]) {
    return (void)kn, kn_mul_s(kn_transpose(in[0], 0, 1), 2);
}

static const struct {
    const char *name;
    body        fn;
    int         nin;
    kn_dim      dims[3][2];
} cases[] = {
    {"matmul 128", matmul, 2, {{128, 128}, {128, 128}}},
    {"matmul 512", matmul, 2, {{512, 512}, {512, 512}}},
    {"matmul 1000", matmul, 2, {{1000, 1000}, {1000, 1000}}},
    {"dense 64x784x128", dense, 3, {{64, 784}, {784, 128}, {1, 128}}},
    {"matvec 1x2048x2048", matmul, 2, {{1, 2048}, {2048, 2048}}},
    {"relu(a*b+c) 1M", chain, 3, {{1024, 1024}, {1024, 1024}, {1024, 1024}}},
    {"gelu 1M", gelu, 1, {{1024, 1024}}},
    {"softmax 1024x1024", softmax, 1, {{1024, 1024}}},
    {"sum 1M", sum, 1, {{1024, 1024}}},
    {"transpose 1024", transpose, 1, {{1024, 1024}}},
};

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct job {
    body fn;
} job;
static kn_status step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)nin, (void)nout;
    out[0] = ((job *)user)->fn(kn, in);
    return KN_OK;
}

int main(int argc, char **argv) {
    static const char *const targets[TARGETS] = {"c", "x86"};
    printf("%-22s %10s %10s %7s %14s\n", "", "c us", "x86 us", "x86/c", "x86 compile ms");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        kn_context *kn[TARGETS];
        kn_tensor  *in[TARGETS][3];
        kn_jit     *run[TARGETS];
        kn_stats    stats[TARGETS];
        double      took[TARGETS][ROUNDS];
        job         j = {cases[k].fn};
        if (argc > 1 && !strstr(cases[k].name, argv[1])) continue;
        for (int t = 0; t < TARGETS; t++) {
            kn_config cfg = {.target = targets[t], .threads = 1, .seed = 3, .size = sizeof cfg};
            kn[t]         = kn_open(&cfg);
            for (int i = 0; i < cases[k].nin; i++) in[t][i] = kn_rand(kn[t], cases[k].dims[i], 2);
            kn_realize(in[t], cases[k].nin);
            run[t] = kn_jit_new(kn[t], step, &j);
        }
        int calls = 1;
        for (int r = -2; r < ROUNDS; r++)
            for (int t = 0; t < TARGETS; t++) {
                double start = now();
                for (int c = 0; c < (r < 0 ? 1 : calls); c++) {
                    kn_scope  *s = kn_begin(kn[t]);
                    kn_tensor *out;
                    kn_call(run[t], cases[k].nin, in[t], 1, &out);
                    kn_keep(out);
                    if (kn_end(s) != KN_OK) printf("%s\n", kn_error(kn[t]));
                }
                double each = (now() - start) / (r < 0 ? 1 : calls);
                if (r >= 0) took[t][r] = each;
                if (r == -1 && t == 0) calls = each < 20e-3 ? (int)(20e-3 / each) + 1 : 1;
            }
        for (int t = 0; t < TARGETS; t++) {
            qsort(took[t], ROUNDS, sizeof **took, ascending);
            stats[t].size = sizeof *stats;
            kn_get_stats(kn[t], &stats[t]);
        }
        double c = took[0][ROUNDS / 2] * 1e6, x = took[1][ROUNDS / 2] * 1e6;
        printf("%-22s %10.1f %10.1f %7.2f %14.2f\n", cases[k].name, c, x, x / c, stats[1].compile_seconds * 1e3);
        for (int t = 0; t < TARGETS; t++) kn_close(kn[t]);
    }
    return 0;
}
