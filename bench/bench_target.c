/* The same programs by the C target and by the target x86, alternating, in one thread: microseconds of the processor a
 * run (the median of the rounds), the ratio, and milliseconds to lower and compile them; last the geometric mean of the
 * ratios. `bench_target NAME...` runs what one of the names is part of. */
#include "target_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 11, TARGETS = 2 };

/* Of the processor, not of the wall: others may run beside. */
static double now(void) {
    return (double)clock() / CLOCKS_PER_SEC;
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

/* The input's values, in memory. */
static kn_tensor *made(kn_context *kn, const input *in) {
    int rank = 0;
    while (rank < 4 && in->dims[rank]) rank++;
    kn_tensor *x = kn_rand(kn, in->dims, rank);
    if (in->most) x = kn_mul_s(x, in->most + 0.99);
    return in->dtype == KN_F32 ? x : kn_cast(x, in->dtype);
}

static int wanted(const char *name, int n, char **names) {
    for (int k = 0; k < n; k++)
        if (strstr(name, names[k])) return 1;
    return n == 0;
}

int main(int argc, char **argv) {
    static const char *const targets[TARGETS] = {"c", "x86"};
    double                   logs             = 0;
    int                      n = 0, slow = 0;
    printf("%-22s %10s %10s %7s %14s\n", "", "c us", "x86 us", "x86/c", "x86 compile ms");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        kn_context *kn[TARGETS];
        kn_tensor  *in[TARGETS][INPUTS];
        int         nin = 0;
        kn_jit     *run[TARGETS];
        kn_stats    stats[TARGETS];
        double      took[TARGETS][ROUNDS];
        job         j = {cases[k].fn};
        if (!wanted(cases[k].name, argc - 1, argv + 1)) continue;
        while (nin < INPUTS && cases[k].in[nin].dims[0]) nin++;
        for (int t = 0; t < TARGETS; t++) {
            kn_config cfg = {.target = targets[t], .threads = 1, .seed = 3, .size = sizeof cfg};
            kn[t]         = kn_open(&cfg);
            for (int i = 0; i < nin; i++) in[t][i] = made(kn[t], &cases[k].in[i]);
            kn_realize(in[t], nin);
            run[t] = kn_jit_new(kn[t], step, &j);
        }
        int calls = 1;
        for (int r = -2; r < ROUNDS; r++)
            for (int t = 0; t < TARGETS; t++) {
                double start = now();
                for (int c = 0; c < (r < 0 ? 1 : calls); c++) {
                    kn_scope  *s = kn_begin(kn[t]);
                    kn_tensor *out;
                    kn_call(run[t], nin, in[t], 1, &out);
                    kn_keep(out);
                    if (kn_end(s) != KN_OK) return printf("%s: %s\n", cases[k].name, kn_error(kn[t])), 1;
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
        logs += log(x / c);
        n++;
        slow += c >= 20 && x > 1.05 * c;
    }
    if (n) printf("%-44s %7.2f   %d slower by more than 5 %%\n", "geometric mean", exp(logs / n), slow);
    return 0;
}
