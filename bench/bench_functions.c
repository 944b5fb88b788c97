/* What elementary functions of f32 cost: nanoseconds an element, one thread, 2^18 elements that stay in the cache, the
 * best of some runs. Arguments are within 0 and 8. bench_functions [NAME] */
#include "koine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 18, RUNS = 30 };

static kn_tensor *pow_of(kn_tensor *x) {
    return kn_pow(x, kn_add_s(x, 0.5));
}
static kn_tensor *pow_const(kn_tensor *x) {
    return kn_pow_s(x, 2.7);
}
static kn_tensor *copy_of(kn_tensor *x) {
    return kn_neg(x);
}
static kn_tensor *uniform(kn_tensor *x) {
    return kn_rand(kn_context_of(x), KN_DIMS(N));
}
static kn_tensor *normal(kn_tensor *x) {
    return kn_randn(kn_context_of(x), KN_DIMS(N));
}

static const struct {
    const char *name;
    kn_tensor *(*build)(kn_tensor *x);
} functions[] = {
    {"neg", copy_of},    {"sqrt", kn_sqrt},      {"rsqrt", kn_rsqrt},     {"trunc", kn_trunc}, {"exp2", kn_exp2},
    {"log2", kn_log2},   {"sin", kn_sin},        {"cos", kn_cos},         {"exp", kn_exp},     {"log", kn_log},
    {"tanh", kn_tanh},   {"erf", kn_erf},        {"sigmoid", kn_sigmoid}, {"silu", kn_silu},   {"gelu", kn_gelu},
    {"pow x y", pow_of}, {"pow 2.7", pow_const}, {"rand", uniform},       {"randn", normal},
};

int main(int argc, char **argv) {
    kn_config   cfg = {.threads = 1, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    float      *v   = malloc(N * sizeof *v);
    if (!kn || !v) return 2;
    for (int i = 0; i < N; i++) v[i] = (float)(i + 1) / (float)(N / 8);
    kn_tensor *x = kn_from(kn, v, KN_F32, KN_DIMS(N)), *y = kn_empty(kn, KN_F32, KN_DIMS(N));
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        double best = 1;
        if (argc > 1 && strcmp(argv[1], functions[k].name)) continue;
        for (int i = 0; i < RUNS; i++) {
            kn_stats  before = {.size = sizeof before}, after = before;
            kn_scope *s = kn_begin(kn);
            kn_assign(y, functions[k].build(x));
            kn_get_stats(kn, &before);
            if (kn_end(s)) return fprintf(stderr, "%s\n", kn_error(kn)), 1;
            kn_get_stats(kn, &after);
            double took = after.run_seconds - before.run_seconds;
            if (took < best) best = took;
        }
        printf("%-8s %7.2f ns\n", functions[k].name, 1e9 * best / N);
    }
    free(v);
    kn_close(kn);
    return 0;
}
