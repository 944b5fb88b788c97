/* The same programs by the C target and by the target x86, alternating, in one thread: microseconds of the processor a
 * run (the median of the rounds), the ratio, and milliseconds to lower and compile them; last the geometric mean of the
 * ratios. `bench_target NAME...` runs what one of the names is part of. */
#include "koine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 11, TARGETS = 2, INPUTS = 4 };

typedef kn_tensor *(*body)(kn_context *kn, kn_tensor *const in[]);

#define BODY(NAME, ...) \
    static kn_tensor *NAME(kn_context *kn, kn_tensor *const in[]) { return (void)kn, (void)in, __VA_ARGS__; }
BODY(matmul, kn_matmul(in[0], in[1]))
BODY(matmul_nt, kn_matmul(in[0], kn_transpose(in[1], 0, 1)))
BODY(matmul_tn, kn_matmul(kn_transpose(in[0], 0, 1), in[1]))
BODY(dense, kn_relu(kn_add(kn_matmul(in[0], in[1]), in[2])))
BODY(chain, kn_relu(kn_add(kn_mul(in[0], in[1]), in[2])))
BODY(gelu, kn_gelu(in[0]))
BODY(sine, kn_sin(in[0]))
BODY(softmax, kn_softmax(in[0], 1))
BODY(sum, kn_sum(in[0]))
BODY(rows, kn_sum(in[0], .axes = KN_AXES(1)))
BODY(columns, kn_sum(in[0], .axes = KN_AXES(0)))
BODY(norm, kn_layer_norm(in[0], 1e-5))
BODY(entropy, kn_cross_entropy(in[0], in[1]))
BODY(places, kn_argmax(in[0], 1))
BODY(prefix, kn_cumsum(in[0], 1))
BODY(gather, kn_gather(in[0], 0, in[1]))
BODY(gather_last, kn_gather(in[0], 1, in[1]))
BODY(conv, kn_conv2d(in[0], in[1], in[2], .padding = {1, 1}))
BODY(pool, kn_max_pool2d(in[0], .kernel = {2, 2}))
BODY(transpose, kn_mul_s(kn_transpose(in[0], 0, 1), 2))
BODY(swapped, kn_mul_s(kn_permute(in[0], (int[]){1, 0, 2}, 3), 2))
BODY(flipped, kn_mul_s(kn_flip(in[0], 1), 2))
BODY(strided, kn_sum(kn_reshape(in[0], (kn_dim[]){-1, 4}, 2), .axes = KN_AXES(1)))
BODY(padded, kn_pad(in[0], (kn_dim[]){1, 1}, (kn_dim[]){1, 1}, 2))
BODY(to_i32, kn_cast(kn_mul_s(in[0], 100), KN_I32))
BODY(to_u8, kn_cast(kn_mul_s(in[0], 255), KN_U8))
BODY(from_u8, kn_mul_s(kn_cast(in[0], KN_F32), 1.0 / 255))
BODY(to_f16, kn_cast(in[0], KN_F16))
BODY(to_bf16, kn_cast(in[0], KN_BF16))
BODY(twice, kn_mul_s(in[0], 2))
BODY(plus, kn_add(in[0], in[1]))
BODY(divided, kn_floordiv(in[0], kn_full(kn, 10, KN_I32, NULL, 0)))
BODY(remainder_of, kn_mod(in[0], in[1]))
BODY(chosen, kn_where(kn_gt_s(in[0], 0.5), in[0], in[1]))
BODY(drop, kn_dropout(in[0], 0.5, 1))

static kn_tensor *attention(kn_context *kn, kn_tensor *const in[]) {
    (void)kn;
    return kn_matmul(kn_softmax(kn_mul_s(kn_matmul(in[0], kn_transpose(in[1], 1, 2)), 0.125), 2), in[2]);
}

/* A loss's gradient by one of the weights: the kernels of a training step. */
static kn_tensor *gradient_of(kn_tensor *loss, kn_tensor *x) {
    kn_tensor *g = NULL;
    kn_gradient(loss, &x, 1, &g);
    return g;
}
static kn_tensor *mlp_step(kn_context *kn, kn_tensor *const in[]) {
    (void)kn;
    kn_tensor *hidden = kn_relu(kn_matmul(in[0], in[1]));
    return gradient_of(kn_mean(kn_square(kn_matmul(hidden, in[2]))), in[1]);
}
static kn_tensor *conv_step(kn_context *kn, kn_tensor *const in[]) {
    (void)kn;
    kn_tensor *y = kn_max_pool2d(kn_relu(kn_conv2d(in[0], in[1], in[2], .padding = {1, 1})), .kernel = {2, 2});
    return gradient_of(kn_mean(kn_square(y)), in[1]);
}

typedef struct input {
    kn_dtype dtype; /* 0: f32 in 0..1; integers are in 0..most */
    int      most;
    kn_dim   dims[4];
} input;
#define F(...) {KN_F32, 0, {__VA_ARGS__}}
#define T(DTYPE, ...) {DTYPE, 0, {__VA_ARGS__}}
#define N(DTYPE, MOST, ...) {DTYPE, MOST, {__VA_ARGS__}}
#define MEGA 1024, 1024

static const struct {
    const char *name;
    body        fn;
    input       in[INPUTS];
} cases[] = {
    {"matmul 128", matmul, {F(128, 128), F(128, 128)}},
    {"matmul 512", matmul, {F(512, 512), F(512, 512)}},
    {"matmul 1000", matmul, {F(1000, 1000), F(1000, 1000)}},
    {"matmul 100x90x70", matmul, {F(100, 90), F(90, 70)}},
    {"matmul a b' 256", matmul_nt, {F(256, 256), F(256, 256)}},
    {"matmul a' b 256", matmul_tn, {F(256, 256), F(256, 256)}},
    {"matmul f64 256", matmul, {T(KN_F64, 256, 256), T(KN_F64, 256, 256)}},
    {"dense 64x784x128", dense, {F(64, 784), F(784, 128), F(1, 128)}},
    {"matvec 1x2048x2048", matmul, {F(1, 2048), F(2048, 2048)}},
    {"matvec 2048x2048x1", matmul, {F(2048, 2048), F(2048, 1)}},
    {"attention 8x128x64", attention, {F(8, 128, 64), F(8, 128, 64), F(8, 128, 64)}},
    {"conv 3x3 16x28x28", conv, {F(8, 16, 28, 28), F(16, 16, 3, 3), F(16)}},
    {"max pool 16x28x28", pool, {F(32, 16, 28, 28)}},
    {"mlp step 64", mlp_step, {F(64, 784), F(784, 128), F(128, 10)}},
    {"conv step 16", conv_step, {F(16, 1, 28, 28), F(8, 1, 3, 3), F(8)}},
    {"relu(a*b+c) 1M", chain, {F(MEGA), F(MEGA), F(MEGA)}},
    {"relu(a*b+c) 64k", chain, {F(256, 256), F(256, 256), F(256, 256)}},
    {"2 a f64 256k", twice, {T(KN_F64, 512, 512)}},
    {"2 a f16 256k", twice, {T(KN_F16, 512, 512)}},
    {"2 a bf16 256k", twice, {T(KN_BF16, 512, 512)}},
    {"a + b i32 256k", plus, {N(KN_I32, 99, 512, 512), N(KN_I32, 99, 512, 512)}},
    {"a + b u8 1M", plus, {N(KN_U8, 99, MEGA), N(KN_U8, 99, MEGA)}},
    {"a // 10 i32 256k", divided, {N(KN_I32, 999, 512, 512)}},
    {"a mod b i32 64k", remainder_of, {N(KN_I32, 999, 256, 256), N(KN_I32, 9, 256, 256)}},
    {"where 256k", chosen, {F(512, 512), F(512, 512)}},
    {"to i32 256k", to_i32, {F(512, 512)}},
    {"to u8 256k", to_u8, {F(512, 512)}},
    {"from u8 256k", from_u8, {N(KN_U8, 255, 512, 512)}},
    {"to f16 256k", to_f16, {F(512, 512)}},
    {"to bf16 256k", to_bf16, {F(512, 512)}},
    {"gelu 1M", gelu, {F(MEGA)}},
    {"sin 256k", sine, {F(512, 512)}},
    {"dropout 256k", drop, {F(512, 512)}},
    {"softmax 1024x1024", softmax, {F(MEGA)}},
    {"softmax 4096x10", softmax, {F(4096, 10)}},
    {"layer norm 256x768", norm, {F(256, 768)}},
    {"cross entropy 512x10", entropy, {F(512, 10), N(KN_I32, 9, 512)}},
    {"cross entropy 256x1000", entropy, {F(256, 1000), N(KN_I32, 999, 256)}},
    {"argmax 1024x1024", places, {F(MEGA)}},
    {"cumsum 512x512", prefix, {F(512, 512)}},
    {"sum 1M", sum, {F(MEGA)}},
    {"sum rows 1024", rows, {F(MEGA)}},
    {"sum columns 1024", columns, {F(MEGA)}},
    {"sum fours 256k", strided, {F(512, 512)}},
    {"gather rows", gather, {F(1000, 64), N(KN_I32, 999, 2048, 64)}},
    {"gather along", gather_last, {F(64, 64), N(KN_I32, 63, 64, 64)}},
    {"transpose 1024", transpose, {F(MEGA)}},
    {"swap axes", swapped, {F(64, 64, 64)}},
    {"flip 512", flipped, {F(512, 512)}},
    {"pad 510", padded, {F(510, 510)}},
};

/* Of the processor, not of the wall: others may run beside. */
static double now(void) { return (double)clock() / CLOCKS_PER_SEC; }

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
    double                   logs = 0;
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
        logs += log(x / c);
        n++;
        slow += c >= 20 && x > 1.05 * c;
    }
    if (n) printf("%-44s %7.2f   %d slower by more than 5 %%\n", "geometric mean", exp(logs / n), slow);
    return 0;
}
