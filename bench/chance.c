/* A program by chance: its family, by weight, then what the family's plan draws, in that order. The families here work
 * on values where they lie: elementwise ops, reductions, norms. */
#include "chance_inside.h"

static void plan_elementwise(chance *c, stream *s) {
    kn_dim   dims[CHANCE_AXES];
    int      rank = 1 + below(s, CHANCE_AXES), nin = 1 + below(s, 3), nsteps = 1 + below(s, CHANCE_STEPS), next = 1;
    kn_dtype dtype = any_type(s);
    bool     outer = nin > 1 && rank > 1 && one_in(s, 8), whole = is_whole(dtype);
    spread(s, dims, rank, LEAST_ELEMENTS, MOST_ELEMENTS);
    for (int k = 0; k < nin; k++) {
        kn_dim shape[CHANCE_AXES];
        int    how = outer && k < 2 ? k + 1 : k ? below(s, 6) : 0; /* 1: a column, 2: a row, 3: one element */
        bool   odd = k && one_in(s, 8);
        for (int a = 0; a < rank; a++)
            shape[a] = how == 3 || (how == 1 && a == rank - 1) || (how == 2 && a == 0) ? 1 : dims[a];
        give(c, odd ? any_type(s) : dtype, 99, shape, rank);
    }
    if (nsteps < nin - 1) nsteps = nin - 1;
    say(c, ":");
    for (int k = 0; k < nsteps; k++) {
        int with = -1;
        if (next < nin && (nin - next == nsteps - k || one_in(s, 2)))
            with = next++;
        else if (k && one_in(s, 6)) /* at first it would be the value with itself */
            with = below(s, nin);
        plan_step(c, s, with, &whole, k == nsteps - 1);
    }
}
static BUILD(elementwise) {
    CHOSEN;
    return stepped(c, 0, in[0], in);
}

static const struct reduction {
    const char *name;
    kn_tensor *(*fn)(kn_tensor *, const kn_reduce_opts *);
    kn_tensor *(*place)(kn_tensor *, int);
    bool truths;
} reductions[] = {
    {"sum", kn_sum_opt, NULL, false}, {"sum", kn_sum_opt, NULL, false},   {"mean", kn_mean_opt, NULL, false},
    {"max", kn_max_opt, NULL, false}, {"min", kn_min_opt, NULL, false},   {"prod", kn_prod_opt, NULL, false},
    {"var", kn_var_opt, NULL, false}, {"argmax", NULL, kn_argmax, false}, {"argmin", NULL, kn_argmin, false},
    {"any", kn_max_opt, NULL, true},  {"all", kn_min_opt, NULL, true},    {"count", kn_sum_opt, NULL, true},
};
static void plan_reduction(chance *c, stream *s) {
    kn_dim   dims[CHANCE_AXES];
    int      rank  = 1 + below(s, CHANCE_AXES);
    kn_dtype dtype = any_type(s);
    bool     whole = is_whole(dtype);
    c->kind        = below(s, COUNT(reductions));
    say(c, " %s", reductions[c->kind].name);
    spread(s, dims, rank, LEAST_ELEMENTS, MOST_ELEMENTS);
    c->naxes   = rank > 1 && !reductions[c->kind].place && one_in(s, 3) ? 2 : 1;
    c->axes[0] = below(s, rank - c->naxes + 1);
    not_one(dims, rank, c->axes[0]);
    c->axes[1] = c->naxes == 2 ? c->axes[0] + 1 + below(s, rank - c->axes[0] - 1) : 0;
    say(c, c->naxes == 2 ? " %d,%d of" : " %d of", c->axes[0], c->axes[1]);
    c->amount = whole ? 50 : 0;
    give(c, dtype, 99, dims, rank);
    int before = below(s, 4);
    if (before < 2) {
        if (before) give(c, dtype, 99, dims, rank);
        say(c, ":");
        plan_step(c, s, before ? 1 : -1, &whole, false);
    }
    c->variant = reductions[c->kind].fn && !reductions[c->kind].truths ? below(s, 6) : 0;
    if (c->variant == 5) say(c, ", less that");
    if (c->variant == 4) say(c, ", sqrt");
    if (c->variant == 3) say(c, ", *0.1");
}
static BUILD(reduction) {
    CHOSEN;
    const struct reduction *r = &reductions[c->kind];
    kn_tensor              *x = stepped(c, 0, in[0], in);
    kn_reduce_opts o = {.axes = {c->naxes, {c->axes[0], c->axes[1]}}, .keep = c->variant == 5, .size = sizeof o};
    if (r->place) return r->place(x, c->axes[0]);
    if (r->truths) x = kn_gt_s(x, c->amount ? 50 : 0.5);
    kn_tensor *y = r->fn(x, &o);
    return c->variant == 5 ? kn_sub(x, y) : c->variant == 4 ? kn_sqrt(y) : c->variant == 3 ? kn_mul_s(y, 0.1) : y;
}

static kn_tensor *layer_norm(kn_tensor *x, int axis) {
    return (void)axis, kn_layer_norm(x, 1e-5);
}
static kn_tensor *rms_norm(kn_tensor *x, int axis) {
    kn_tensor *mean = kn_mean(kn_square(x), .axes = KN_AXES(axis), .keep = 1);
    return kn_mul(x, kn_rsqrt(kn_add_s(mean, 1e-5)));
}
static kn_tensor *unit_norm(kn_tensor *x, int axis) {
    return kn_div(x, kn_sqrt(kn_sum(kn_square(x), .axes = KN_AXES(axis), .keep = 1)));
}
static kn_tensor *gelu(kn_tensor *x, int axis) {
    return (void)axis, kn_gelu(x);
}
static kn_tensor *tanh_of(kn_tensor *x, int axis) {
    return (void)axis, kn_tanh(x);
}
enum { NORMS = 5 }; /* of these rows; the others are for gradients */
static const struct norm {
    const char *name;
    kn_tensor *(*fn)(kn_tensor *, int);
    bool last; /* along the last axis alone */
} norms[] = {{"softmax", kn_softmax, false}, {"log_softmax", kn_log_softmax, false}, {"layer_norm", layer_norm, true},
             {"rms_norm", rms_norm, false},  {"unit_norm", unit_norm, false},        {"gelu", gelu, false},
             {"tanh", tanh_of, false}};
/* Draws which of the first n, along the last axis or the first, and the sizes. */
static int plan_along(chance *c, stream *s, int n, kn_dim *dims) {
    int rank = 1 + below(s, 3);
    c->kind  = below(s, n);
    c->axis  = norms[c->kind].last || !one_in(s, 3) ? rank - 1 : 0;
    say(c, " %s %d of", norms[c->kind].name, c->axis);
    spread(s, dims, rank, LEAST_ELEMENTS, MOST_ELEMENTS / 2);
    not_one(dims, rank, c->axis);
    return rank;
}
static void plan_norm(chance *c, stream *s) {
    kn_dim   dims[CHANCE_AXES];
    int      rank  = plan_along(c, s, NORMS, dims);
    kn_dtype dtype = float_type(s);
    give(c, dtype, 0, dims, rank);
    if (c->variant = below(s, 4), c->variant == 3) GIVE(c, dtype, dims[rank - 1]); /* scaled, as layers are */
    say(c, c->variant == 3 ? ", * b" : "");
    maybe_step(c, s, 4, false);
}
static BUILD(norm) {
    CHOSEN;
    kn_tensor *y = norms[c->kind].fn(stepped(c, 0, in[0], in), c->axis);
    return c->variant == 3 ? kn_mul(y, in[1]) : y;
}

static void plan_entropy(chance *c, stream *s) {
    kn_dim dims[2];
    spread(s, dims, 2, LEAST_ELEMENTS, MOST_ELEMENTS / 2);
    give(c, float_type(s), 0, dims, 2);
    give(c, KN_I32, (int)dims[1] - 1, dims, 1);
    c->variant = below(s, 3);
    say(c, c->variant == 2 ? ", gradient" : c->variant ? ", mean" : "");
}
static BUILD(entropy) {
    CHOSEN;
    kn_tensor *y = kn_cross_entropy(in[0], in[1]);
    return c->variant == 2 ? gradient_of(kn_mean(y), in[0]) : c->variant ? kn_mean(y) : y;
}

static void plan_gradient(chance *c, stream *s) {
    kn_dim   dims[CHANCE_AXES];
    int      rank  = plan_along(c, s, COUNT(norms), dims);
    kn_dtype dtype = one_in(s, 6) ? KN_F64 : KN_F32;
    for (int k = 0; k < 2; k++) give(c, dtype, 0, dims, rank);
}
static BUILD(gradient) {
    CHOSEN;
    return gradient_of(kn_sum(kn_mul(norms[c->kind].fn(in[0], c->axis), in[1])), in[0]);
}

static const struct family {
    const char *name;
    void (*plan)(chance *c, stream *s);
    body build;
    int  weight;
} families[] = {
    {"map", plan_elementwise, elementwise, 16},
    {"reduce", plan_reduction, reduction, 16},
    {"norm", plan_norm, norm, 8},
    {"cross entropy", plan_entropy, entropy, 2},
    {"permute", plan_transpose, transpose, 8},
    {"join", plan_join, join, 4},
    {"pad", plan_pad, pad, 2},
    {"slice", plan_slice, slice, 3},
    {"turn", plan_turned, turned, 3},
    {"repeat", plan_repeat, repeat, 2},
    {"mix", plan_mix, mix, 3},
    {"gather", plan_gather, gather, 3},
    {"places", plan_places, places, 2},
    {"triangle", plan_triangle, triangle, 2},
    {"cumsum", plan_cumsum, cumsum, 3},
    {"matmul", plan_matmul, matmul, 12},
    {"attention", plan_attention, attention, 3},
    {"conv2d", plan_conv, conv, 6},
    {"conv2d gradient", plan_conv_gradient, conv_gradient, 4},
    {"pool", plan_pool, pool, 3},
    {"perceptron gradient", plan_perceptron, perceptron, 3},
    {"gradient", plan_gradient, gradient, 4},
};

void chance_program(chance *c, uint64_t seed, uint64_t index) {
    stream s   = {.key = mixed(mixed(seed + 0x9e3779b97f4a7c15) + index)};
    int    all = 0, at = 0;
    for (int k = 0; k < COUNT(families); k++) all += families[k].weight;
    int draw = below(&s, all);
    while (draw >= families[at].weight) draw -= families[at++].weight;
    *c              = (chance){.program = {.fn = families[at].build}};
    c->program.name = c->name;
    say(c, "%s", families[at].name);
    families[at].plan(c, &s);
}
