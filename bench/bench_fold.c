/* bench_fold.c - what a fold costs beside a plain sum of the same data: GB/s of input, best of some runs, of kn_sum,
 * kn_max, kn_argmax and kn_argmin along rows and along columns; in memory, in the second cache and in the first.
 * bench_fold [THREADS] */
#include "koine.h"

#include <stdio.h>
#include <stdlib.h>

typedef kn_tensor *(*fold_fn)(kn_tensor *x, int axis);

static kn_tensor *sum(kn_tensor *x, int axis) { return kn_sum(x, .axes = KN_AXES(axis)); }
static kn_tensor *largest(kn_tensor *x, int axis) { return kn_max(x, .axes = KN_AXES(axis)); }
static kn_tensor *argmax(kn_tensor *x, int axis) { return kn_argmax(x, axis); }
static kn_tensor *argmin(kn_tensor *x, int axis) { return kn_argmin(x, axis); }

/* Seconds in the kernels of one run, the least of `runs`. */
static double seconds(kn_context *kn, kn_tensor *x, fold_fn fn, int axis, int runs) {
    double best = 1e9;
    for (int i = 0; i <= runs; i++) {
        kn_stats   before = {.size = sizeof before}, after = {.size = sizeof after};
        kn_scope  *s = kn_begin(kn);
        kn_tensor *y = fn(x, axis);
        kn_get_stats(kn, &before);
        kn_realize(&y, 1);
        kn_get_stats(kn, &after);
        if (kn_end(s) != KN_OK) {
            fprintf(stderr, "%s\n", kn_error(kn));
            exit(1);
        }
        double took = after.run_seconds - before.run_seconds;
        if (i && took < best) best = took;
    }
    return best;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        fold_fn     fn;
    } what[] = {{"sum", sum}, {"max", largest}, {"argmax", argmax}, {"argmin", argmin}};
    static const int size[][3] = {{4096, 4096, 12}, {256, 1024, 200}, {16, 512, 2000}};
    kn_config   cfg = {.size = sizeof cfg, .threads = argc > 1 ? atoi(argv[1]) : 0};
    kn_context *kn  = kn_open(&cfg);
    printf("GB/s of f32        along rows  along columns\n");
    for (int k = 0; k < 3; k++) {
        kn_tensor *x = kn_rand(kn, KN_DIMS(size[k][0], size[k][1]));
        kn_realize(&x, 1);
        double bytes = 4.0 * size[k][0] * size[k][1];
        for (int f = 0; f < 4; f++) {
            double rows = seconds(kn, x, what[f].fn, 1, size[k][2]), cols = seconds(kn, x, what[f].fn, 0, size[k][2]);
            printf("%4dx%-4d %-8s %10.1f %14.1f\n", size[k][0], size[k][1], what[f].name, bytes / rows * 1e-9,
                   bytes / cols * 1e-9);
        }
    }
    kn_close(kn);
    return 0;
}
