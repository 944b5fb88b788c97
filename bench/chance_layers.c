/* Families of products: matmul, attention, filters and pools of images, and what trains them. */
#include "chance_inside.h"

/* Makes the largest sizes less until no product of two is beyond the elements there may be. */
static void trim(kn_dim *d, int n, int64_t most) {
    for (;;) {
        int    at     = widest(d, n);
        kn_dim others = 1;
        for (int k = 0; k < n; k++)
            if (k != at && d[k] > others) others = d[k];
        if (d[at] <= 4096 && d[at] * others <= most) return;
        d[at] -= d[at] / 3;
    }
}
void plan_matmul(chance *c, stream *s) {
    static const char *const names[] = {" ab", " ab'", " a'b", " a'b'"};
    kn_dim                   d[3], batch = one_in(s, 4) ? size(s, 2, 16) : 0;
    kn_dtype                 dtype  = float_type(s);
    int                      vector = below(s, 8), rank = batch ? 3 : 2;
    if (one_in(s, 8)) dtype = one_in(s, 2) ? KN_I8 : KN_I32;
    c->kind = one_in(s, 2) ? 0 : below(s, 4);
    int64_t most = vector < 2 ? MOST_ELEMENTS : MOST_PRODUCTS, times = batch ? batch : 1;
    spread(s, d, 3, LEAST_PRODUCTS / times, most / times);
    if (vector < 2) d[2] *= d[vector], d[vector] = 1; /* one row, or one column */
    if (one_in(s, 8)) d[0] = d[1] = d[2] = size(s, 16, batch ? 100 : 300);
    trim(d, 3, batch ? MOST_ELEMENTS / batch : MOST_ELEMENTS);
    say(c, "%s", names[c->kind]);
    kn_dim a[] = {batch, d[0], d[2]}, b[] = {batch, d[2], d[1]};
    if (c->kind & 2) a[1] = d[2], a[2] = d[0];
    if (c->kind & 1) b[1] = d[1], b[2] = d[2];
    give(c, dtype, 9, a + 3 - rank, rank);
    give(c, dtype, 9, b + 3 - rank, rank);
    if (one_in(s, 3)) GIVE(c, dtype, d[1]);
    say(c, c->nin > 2 ? " + c" : "");
    c->variant = below(s, 8); /* 1, 2: something is done to a first */
    say(c, c->variant == 1 ? ", a relu" : c->variant == 2 ? ", a*2" : "");
    maybe_step(c, s, 3, is_whole(dtype));
}
BUILD(matmul) {
    CHOSEN;
    kn_tensor *a = c->variant == 1 ? kn_relu(in[0]) : c->variant == 2 ? kn_mul_s(in[0], 2) : in[0], *b = in[1];
    if (c->kind & 2) a = kn_transpose(a, -2, -1);
    if (c->kind & 1) b = kn_transpose(b, -2, -1);
    kn_tensor *y = kn_matmul(a, b);
    return stepped(c, 0, c->nin > 2 ? kn_add(y, in[2]) : y, in);
}

void plan_attention(chance *c, stream *s) {
    c->variant     = one_in(s, 2); /* 1: only to what came before */
    kn_dim   heads = size(s, 1, 12), rows = size(s, 4, 300), depth = size(s, 4, 128);
    kn_dim   keys  = c->variant || one_in(s, 2) ? rows : size(s, 4, 300);
    kn_dtype dtype = one_in(s, 8) ? KN_F64 : KN_F32;
    while (heads * rows * keys * depth < LEAST_PRODUCTS / 2) heads += 1 + heads / 2, depth += depth / 4;
    while (heads * rows * keys * depth > MOST_PRODUCTS / 2) heads = heads / 2 + heads % 2, depth -= depth / 4;
    GIVE(c, dtype, heads, rows, depth);
    GIVE(c, dtype, heads, keys, depth);
    GIVE(c, dtype, heads, keys, depth);
    say(c, c->variant ? ", causal" : "");
}
BUILD(attention) {
    CHOSEN;
    kn_tensor *scores = kn_mul_s(kn_matmul(in[0], kn_transpose(in[1], 1, 2)), 0.125);
    return kn_matmul(kn_softmax(c->variant ? triangle_of(kn, scores, 0, false, -1e9) : scores, 2), in[2]);
}

/* Inputs x and w; out: the sizes of the result. */
static void plan_filter(chance *c, stream *s, kn_dim out[4]) {
    bool deep    = one_in(s, 4);
    c->kernel    = 1 + 2 * below(s, 4);
    c->stride    = 1 + one_in(s, 3);
    c->padding   = below(s, 4);
    c->dilation  = c->kernel > 1 && one_in(s, 4) ? 2 : 1;
    int    reach = c->dilation * (c->kernel - 1) + 1, least = reach > 5 ? reach : 5;
    kn_dim n = size(s, 1, 16), in = size(s, 1, 64), made = size(s, 1, 64), h = size(s, least, 64),
           w = size(s, least, 64);
    for (;;) {
        if (deep) made = in;
        out[0] = n, out[1] = made;
        out[2]       = (h + 2 * c->padding - reach) / c->stride + 1;
        out[3]       = (w + 2 * c->padding - reach) / c->stride + 1;
        int64_t work = n * made * out[2] * out[3] * (deep ? 1 : in) * c->kernel * c->kernel;
        if (work > MOST_PRODUCTS)
            n = n / 2 + n % 2, made -= made / 3, in -= in / 3, h -= (h - least) / 3, w -= (w - least) / 3;
        else if (work < LEAST_PRODUCTS)
            h += h / 3, w += w / 2;
        else
            break;
    }
    c->groups      = deep ? (int)in : 1;
    kn_dtype dtype = one_in(s, 10) ? KN_F64 : KN_F32;
    GIVE(c, dtype, n, in, h, w);
    GIVE(c, dtype, made, deep ? 1 : in, c->kernel, c->kernel);
    c->dtype = dtype;
    say(c, " s%d p%d d%d", c->stride, c->padding, c->dilation);
    if (c->groups > 1) say(c, " deep");
}
static kn_tensor *filtered(const chance *c, kn_tensor *x, kn_tensor *w, kn_tensor *bias) {
    return kn_conv2d(x, w, bias, .stride = {c->stride}, .padding = {c->padding}, .dilation = {c->dilation},
                     .groups = c->groups);
}
void plan_conv(chance *c, stream *s) {
    kn_dim out[4];
    plan_filter(c, s, out);
    if (one_in(s, 2)) GIVE(c, c->dtype, out[1]);
    say(c, c->nin > 2 ? " bias" : "");
    c->variant = one_in(s, 3);
    say(c, c->variant ? " relu" : "");
}
BUILD(conv) {
    CHOSEN;
    kn_tensor *y = filtered(c, in[0], in[1], c->nin > 2 ? in[2] : NULL);
    return c->variant ? kn_relu(y) : y;
}
void plan_conv_gradient(chance *c, stream *s) {
    kn_dim out[4];
    plan_filter(c, s, out);
    c->variant = below(s, 2);
    say(c, c->variant ? " by w" : " by x");
    GIVE(c, c->dtype, out[0], out[1], out[2], out[3]);
}
BUILD(conv_gradient) {
    CHOSEN;
    return gradient_of(kn_sum(kn_mul(filtered(c, in[0], in[1], NULL), in[2])), in[c->variant]);
}

void plan_pool(chance *c, stream *s) {
    kn_dim dims[4];
    spread(s, dims, 4, LEAST_ELEMENTS, MOST_ELEMENTS / 2);
    for (int k = 2; k < 4; k++) dims[k] += 3;
    c->variant     = below(s, 3); /* 0: the mean */
    c->kernel      = 2 + below(s, 2);
    c->stride      = one_in(s, 2) ? c->kernel : 1 + below(s, 3);
    c->padding     = one_in(s, 3);
    kn_dtype dtype = one_in(s, 6) ? any_type(s) : KN_F32;
    say(c, c->variant ? " max k%d s%d p%d of" : " mean k%d s%d p%d of", c->kernel, c->stride, c->padding);
    trim(dims, 4, MOST_ELEMENTS / 8);
    give(c, dtype, 99, dims, 4);
}
BUILD(pool) {
    CHOSEN;
    if (c->variant) return kn_max_pool2d(in[0], .kernel = {c->kernel}, .stride = {c->stride}, .padding = {c->padding});
    return kn_avg_pool2d(in[0], .kernel = {c->kernel}, .stride = {c->stride}, .padding = {c->padding});
}

static kn_tensor *(*const activations[])(kn_tensor *) = {kn_relu, kn_tanh, kn_gelu, kn_sigmoid};
void plan_perceptron(chance *c, stream *s) {
    static const char *const names[] = {"relu", "tanh", "gelu", "sigmoid"};
    kn_dim rows = size(s, 1, 128), from = size(s, 4, 800), hidden = size(s, 4, 300), to = size(s, 1, 100);
    while (rows * hidden * (from + to) < LEAST_PRODUCTS / 3) rows += 1 + rows / 2, from += from / 3;
    while (rows * hidden * (from + to) > MOST_PRODUCTS / 3) rows = rows / 2 + 1, from -= from / 3;
    GIVE(c, KN_F32, rows, from);
    GIVE(c, KN_F32, from, hidden);
    GIVE(c, KN_F32, hidden, to);
    c->kind    = below(s, COUNT(activations));
    c->axis    = 1 + below(s, 2);
    c->variant = one_in(s, 2);
    if (c->variant) give(c, KN_I32, (int)to - 1, &rows, 1);
    say(c, " %s, %s by %c", names[c->kind], c->variant ? "entropy" : "squares", 'a' + c->axis);
}
BUILD(perceptron) {
    CHOSEN;
    kn_tensor *y = kn_matmul(activations[c->kind](kn_matmul(in[0], in[1])), in[2]);
    return gradient_of(kn_mean(c->variant ? kn_cross_entropy(y, in[3]) : kn_square(y)), in[c->axis]);
}
