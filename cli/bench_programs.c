/* bench_programs.c - the programs that `koine bench compile` measures, through koine.h as a user would write them.
 *
 * Weights are random and lent (kn_wrap); those of a program that trains have storage of their own, zeros. */
#include "bench.h"

/* A weight whose sums over `in` inputs keep the size of what comes in. NULL: out of memory, or the context's fault. */
static kn_tensor *weight(bench_run *r, const kn_dim *dims, int rank, double in) {
    double  start = kn_now();
    float   scale = (float)(2 / in / 16777216);
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    float *data = kn_arena_get(&r->memory, (size_t)n * sizeof *data);
    for (int64_t i = 0; data && i < n; i++) /* multiples of an odd number: apart, and lanes need no one before them */
        data[i] = (float)(int32_t)((++r->drawn * 2654435769u) >> 8) * scale;
    kn_tensor *t = data ? kn_wrap(r->kn, data, KN_F32, dims, rank) : NULL;
    r->weights += kn_now() - start;
    return t;
}

static kn_tensor *vector(bench_run *r, kn_dim n) { return weight(r, &n, 1, 1); }

/* ---- a perceptron -------------------------------------------------------------------------------------------- */

static bool build_mlp(bench_run *r) {
    static const kn_dim width[] = {784, 512, 512, 10};
    r->scope     = kn_begin(r->kn);
    kn_tensor *x = weight(r, (kn_dim[]){1, width[0]}, 2, 1);
    for (int i = 0; i < 3; i++) {
        kn_tensor *w = weight(r, width + i, 2, (double)width[i]), *b = vector(r, width[i + 1]);
        if (!x || !w || !b) return false;
        x = kn_add(kn_matmul(x, w), b);
        if (i < 2) x = kn_relu(x);
    }
    r->result = kn_keep(x);
    return true;
}

/* ---- a convolutional net's training step --------------------------------------------------------------------- */

static bool build_conv(bench_run *r) {
    static const struct {
        int    rank;
        kn_dim dims[4];
    } params[] = {{4, {32, 1, 5, 5}},  {1, {32}}, {4, {32, 32, 5, 5}}, {1, {32}}, {1, {32}}, {1, {32}},
                  {4, {64, 32, 3, 3}}, {1, {64}}, {4, {64, 64, 3, 3}}, {1, {64}}, {1, {64}}, {1, {64}},
                  {2, {576, 10}},      {1, {10}}};
    kn_context *kn = r->kn;
    kn_tensor  *p[KN_COUNT(params)], *mean[2], *var[2], *h;
    for (int i = 0; i < KN_COUNT(params); i++) p[i] = kn_empty(kn, KN_F32, params[i].dims, params[i].rank);
    for (int i = 0; i < 2; i++) {
        mean[i] = kn_empty(kn, KN_F32, KN_DIMS(32 << i));
        var[i]  = kn_empty(kn, KN_F32, KN_DIMS(32 << i));
    }
    kn_tensor *x = kn_empty(kn, KN_F32, KN_DIMS(512, 1, 28, 28)), *labels = kn_empty(kn, KN_I32, KN_DIMS(512));
    kn_optim  *adam = kn_adam(kn, p, KN_COUNT(p), .lr = 1e-3);
    r->scope        = kn_begin(kn);
    h = kn_relu(kn_conv2d(x, p[0], p[1]));
    h = kn_batch_norm(kn_conv2d(h, p[2], p[3]), p[4], p[5], .mean = mean[0], .var = var[0], .training = 1);
    h = kn_relu(kn_conv2d(kn_max_pool2d(kn_relu(h)), p[6], p[7]));
    h = kn_batch_norm(kn_conv2d(h, p[8], p[9]), p[10], p[11], .mean = mean[1], .var = var[1], .training = 1);
    h = kn_add(kn_matmul(kn_flatten(kn_max_pool2d(kn_relu(h)), 1), p[12]), p[13]);
    kn_minimize(adam, kn_mean(kn_cross_entropy(h, labels))); /* what it says, kn_end says again */
    return true;
}

/* ---- ResNet-50 ------------------------------------------------------------------------------------------------- */

/* A convolution and its norm with running statistics. NULL: out of memory. */
static kn_tensor *conv_norm(bench_run *r, kn_tensor *x, kn_dim in, kn_dim out, kn_dim size, kn_dim stride) {
    kn_tensor *w = weight(r, (kn_dim[]){out, in, size, size}, 4, (double)(in * size * size));
    kn_tensor *gamma = vector(r, out), *beta = vector(r, out), *mean = vector(r, out), *var = vector(r, out);
    if (!x || !w || !gamma || !beta || !mean || !var) return NULL;
    x = kn_conv2d(x, w, NULL, .stride = {stride, stride}, .padding = {size / 2, size / 2});
    return kn_batch_norm(x, gamma, beta, .mean = mean, .var = var);
}

/* 1x1 down to a quarter of the channels, 3x3 there, 1x1 up (He et al., 2015; the stride is the 3x3's). */
static kn_tensor *bottleneck(bench_run *r, kn_tensor *x, kn_dim in, kn_dim out, kn_dim stride) {
    kn_dim     mid = out / 4;
    kn_tensor *h   = conv_norm(r, x, in, mid, 1, 1);
    if (h && (h = conv_norm(r, kn_relu(h), mid, mid, 3, stride))) h = conv_norm(r, kn_relu(h), mid, out, 1, 1);
    if (in != out || stride != 1) x = conv_norm(r, x, in, out, 1, stride);
    return h && x ? kn_relu(kn_add(h, x)) : NULL;
}

static bool build_resnet50(bench_run *r) {
    static const int blocks[] = {3, 4, 6, 3};
    kn_dim           channels = 64;
    r->scope     = kn_begin(r->kn);
    kn_tensor *x = weight(r, (kn_dim[]){1, 3, 224, 224}, 4, 1);
    if (!x || !(x = conv_norm(r, x, 3, channels, 7, 2))) return false;
    x = kn_max_pool2d(kn_relu(x), .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1});
    for (int stage = 0; stage < KN_COUNT(blocks); stage++)
        for (int i = 0; i < blocks[stage]; i++) {
            kn_dim out = 256 << stage;
            if (!(x = bottleneck(r, x, channels, out, stage && !i ? 2 : 1))) return false;
            channels = out;
        }
    kn_tensor *w = weight(r, (kn_dim[]){channels, 1000}, 2, (double)channels), *b = vector(r, 1000);
    if (!w || !b) return false;
    x         = kn_flatten(kn_avg_pool2d(x, .kernel = {7, 7}), 1);
    r->result = kn_keep(kn_add(kn_matmul(x, w), b));
    return true;
}

/* ---- chains: how time grows with size -------------------------------------------------------------------------- */

static bool build_chain(bench_run *r, int ops) {
    r->scope     = kn_begin(r->kn);
    kn_tensor *z = kn_empty(r->kn, KN_F32, KN_DIMS(4)), *y = kn_empty(r->kn, KN_F32, KN_DIMS(4));
    for (int i = 0; i < ops / 2; i++) z = kn_add(kn_mul(z, y), i % 3 ? y : z);
    r->result = kn_keep(z);
    return true;
}

static bool build_chain_1k(bench_run *r) { return build_chain(r, 1000); }
static bool build_chain_100k(bench_run *r) { return build_chain(r, 100000); }

const bench_program bench_programs[] = {
    {.name = "mlp", .title = "784-512-512-10, relu, one row", .runs = true, .whole = true, .most = 12,
     .build = build_mlp},
    {.name = "conv", .title = "training step: 4 convolutions, 2 norms, 2 pools, Adam; 512 images", .each = 0.8,
     .build = build_conv},
    {.name = "resnet50", .title = "ResNet-50, one image of 224 x 224", .most = 150, .build = build_resnet50},
    {.name = "chain1k", .title = "1,000 additions and multiplications of 4 elements", .build = build_chain_1k},
    {.name = "chain100k", .title = "100,000 of them", .build = build_chain_100k},
};
const int bench_program_count = KN_COUNT(bench_programs);
