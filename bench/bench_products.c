/* bench_products.c - products of f32 on one thread, in % of what multiply-adds in registers reach in the same run: as
 * the compiler chooses, and under lists of tests/kernels/products.kn, a tile of 14 by 32 with both operands packed: B
 * written before each product and so packed each time, or as it was, its panel kept. Medians of the processor's time,
 * which other work on the machine stretches less than the clock's.
 * bench_products [TARGET] */
#include "digits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 9 };

static double spent(void) { return (double)clock() / CLOCKS_PER_SEC; }

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* GFLOP/s of a (m, k) by (k, n) product, median; below 0: it failed. fresh: b has been written since the last one. */
static double speed(const char *target, int m, int k, int n, const char *opts, bool fresh) {
    float      *bytes = calloc((size_t)k * (size_t)n, sizeof *bytes);
    kn_config   cfg = {.threads = 1, .target = target, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    kn_tensor  *a = kn_rand(kn, KN_DIMS(m, k)), *b = kn_rand(kn, KN_DIMS(k, n)), *both[] = {a, b};
    double      at[RUNS], best = -1;
    if (kn_realize(both, 2) == KN_OK && (!opts || kn_set_opts(kn, "r_*", opts) == KN_OK)) {
        for (int i = -1; i < RUNS; i++) {
            kn_scope  *s = kn_begin(kn);
            kn_tensor *c = kn_matmul(a, b);
            if (fresh && kn_write(b, bytes, (size_t)k * (size_t)n * sizeof *bytes) != KN_OK) break;
            double start = spent(); /* building and looking up the schedule included: microseconds */
            kn_realize(&c, 1);
            double took = spent() - start;
            if (kn_end(s) != KN_OK) break;
            if (i >= 0) at[i] = 2e-9 * m * k * n / took;
            if (i == RUNS - 1) {
                qsort(at, RUNS, sizeof *at, by_size);
                best = at[RUNS / 2];
            }
        }
    }
    if (best < 0) fprintf(stderr, "%s\n", kn_error(kn));
    kn_close(kn);
    free(bytes);
    return best;
}

int main(int argc, char **argv) {
    static const int  size[][3] = {{256, 256, 256},   {512, 512, 512},    {1000, 1000, 1000}, {1024, 1024, 1024},
                                   {128, 768, 3072},  {4096, 64, 4096},   {4096, 4096, 64},   {1, 4096, 4096}};
    static const char packed[] = "SPLIT:1:32:UPCAST SPLIT:0:14:UPCAST STAGE:2:GLOBAL:0:2.4.3 STAGE:1:0:0:1.4";
    const char       *target   = argc > 1 ? argv[1] : NULL;
    const char       *isa;
    kn_fault          f    = {0};
    double            peak = 0;
    for (int i = 0; i < RUNS; i++) peak = fmax(peak, digits_peak(1, &isa, &f) * 1e-9); /* by the clock: undisturbed */
    printf("one thread, %s: %.1f GFLOP/s in registers\n", isa, peak);
    printf("%-18s %16s %16s %16s\n", "m x k x n", "chosen", "14 by 32", "B kept");
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        int    m = size[i][0], k = size[i][1], n = size[i][2];
        bool   fits = m >= 14 && k <= 2000;
        double own = speed(target, m, k, n, NULL, false), hand = fits ? speed(target, m, k, n, packed, true) : 0;
        double kept = fits ? speed(target, m, k, n, packed, false) : 0;
        printf("%4d x %4d x %4d %8.1f  %4.0f %% %8.1f  %4.0f %% %8.1f  %4.0f %%\n", m, k, n, own, 100 * own / peak,
               hand, 100 * hand / peak, kept, 100 * kept / peak);
    }
    return 0;
}
