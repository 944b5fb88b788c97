/* What a parallel run costs beside its work: microseconds of an empty kn_pool_run, by threads, back to back and after
 * a pause in which the workers fell asleep. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"

#include <stdlib.h>
#include <unistd.h>

static void nothing(void *arg, int64_t lo, int64_t hi) {
    (void)arg;
    (void)lo;
    (void)hi;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_us(kn_pool *p, int runs, unsigned pause_us) {
    static double t[10000];
    for (int i = 0; i < runs; i++) {
        if (pause_us) usleep(pause_us);
        double start = kn_now();
        kn_pool_run(p, 1000, nothing, NULL);
        t[i] = (kn_now() - start) * 1e6;
    }
    qsort(t, (size_t)runs, sizeof *t, ascending);
    return t[runs / 2];
}

int main(void) {
    int cpus = kn_cpu_count();
    printf("threads  back to back  after a pause   (median us of an empty run, %d CPUs)\n", cpus);
    for (int threads = 1; threads <= cpus; threads *= 2) {
        kn_fault f = {0};
        kn_pool *p = kn_pool_new(NULL, threads, &f);
        if (!p) return 1;
        double warm = median_us(p, 10000, 0), cold = median_us(p, 200, 500);
        printf("%7d  %12.2f  %13.2f\n", threads, warm, cold);
        kn_pool_free(p);
    }
    return 0;
}
