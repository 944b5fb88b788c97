/* The same programs by the C target, at -O3, and by the target x86, alternating, in one thread: microseconds of the
 * processor a run (the median of the rounds), the ratio, and milliseconds to lower and compile them; last the geometric
 * mean of the ratios. A ratio is the median of those of the rounds: what a round's two runs share, as a busy neighbour,
 * is no part of it (C against C: 9 of 346 were off by 5 %, 40 by the ratio of the medians). Each round is in a context
 * of its own, and who comes first takes turns: where buffers lie in the caches, which can make a third, is then chance
 * for both. `bench_target NAME...` runs what one of the names is part of; `bench_target --control`, C against C. */
#include "target_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 11, TARGETS = 2, WARM = 2, ROUND_US = 20000 };

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

/* The program in a context of its own, opened anew: `calls` runs, microseconds each; *calls is set if it is 0. */
static int timed(const program *b, const char *target, kn_runtime *rt, int *calls, double *us, kn_stats *stats) {
    kn_config   cfg = {.target = target, .runtime = rt, .seed = 3, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    kn_tensor  *in[INPUTS];
    int         nin = 0;
    job         j   = {b->fn};
    for (; nin < INPUTS && b->in[nin].dims[0]; nin++) in[nin] = made(kn, &b->in[nin]);
    kn_realize(in, nin);
    kn_jit *run   = kn_jit_new(kn, step, &j);
    double  start = 0;
    for (int c = -WARM; c < (*calls ? *calls : 1); c++) {
        kn_scope  *s = kn_begin(kn);
        kn_tensor *out;
        if (c == 0) start = now();
        kn_call(run, nin, in, 1, &out);
        kn_keep(out);
        if (kn_end(s) != KN_OK) {
            printf("%s: %s\n", b->name, kn_error(kn));
            kn_close(kn);
            return 0;
        }
    }
    *us = (now() - start) * 1e6 / (*calls ? *calls : 1);
    if (!*calls) *calls = (int)(ROUND_US / *us) + 1;
    stats->size = sizeof *stats;
    kn_get_stats(kn, stats);
    kn_close(kn);
    return 1;
}

typedef struct result {
    double us[TARGETS], ratio, compile_ms;
} result;

/* All rounds of a program, with that C compiler; 0: one of them failed, and said why. */
static int measure(const program *b, const char *const *targets, const char *cc, result *out) {
    kn_config   cfg = {.threads = 1, .cc = cc, .size = sizeof cfg};
    kn_stats    stats[TARGETS], later;
    double      took[TARGETS][ROUNDS], ratio[ROUNDS];
    int         calls = 0, ok = 1;
    kn_runtime *rt    = kn_runtime_new(&cfg);
    for (int t = 0; t < TARGETS && ok; t++) ok = timed(b, targets[t], rt, &calls, took[t], &stats[t]); /* compiles */
    for (int r = 0; r < ROUNDS && ok; r++) {
        for (int t = 0; t < TARGETS && ok; t++) {
            int at = (r + t) % TARGETS;
            ok     = timed(b, targets[at], rt, &calls, &took[at][r], &later);
        }
        ratio[r] = took[1][r] / took[0][r];
    }
    kn_runtime_close(rt);
    if (!ok) return 0;
    for (int t = 0; t < TARGETS; t++) {
        qsort(took[t], ROUNDS, sizeof **took, ascending);
        out->us[t] = took[t][ROUNDS / 2];
    }
    qsort(ratio, ROUNDS, sizeof *ratio, ascending);
    out->ratio      = ratio[ROUNDS / 2];
    out->compile_ms = stats[1].compile_seconds * 1e3;
    return 1;
}

int main(int argc, char **argv) {
    int         control          = argc > 1 && !strcmp(argv[1], "--control"), n = 0, slow = 0;
    const char *targets[TARGETS] = {"c", control ? "c" : "x86"}, *cc = getenv("CC");
    char        most[256];
    double      logs = 0;
    snprintf(most, sizeof most, "%s -O3", cc ? cc : "cc");
    printf("%-22s %10s %7s us %7s %11s ms\n", "", "c us", targets[1], "ratio", "compile");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        result r;
        if (!wanted(cases[k].name, argc - 1 - control, argv + 1 + control)) continue;
        if (!measure(&cases[k], targets, most, &r)) { /* compilers fail sometimes, at that level */
            printf("%s: once more, at -O2\n", cases[k].name);
            if (!measure(&cases[k], targets, cc, &r)) return 1;
        }
        printf("%-22s %10.1f %10.1f %7.2f %14.2f\n", cases[k].name, r.us[0], r.us[1], r.ratio, r.compile_ms);
        fflush(stdout);
        logs += log(r.ratio);
        n++;
        slow += r.us[0] >= 20 && r.ratio > 1.05;
    }
    if (n) printf("%-44s %7.2f   %d slower by more than 5 %%\n", "geometric mean", exp(logs / n), slow);
    return 0;
}
