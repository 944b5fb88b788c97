/* random.c - random numbers as graphs.
 *
 * A draw is a stream of Threefry 2x32 words (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3;
 * SC 2011): counters 0, 1, 2, ... under a key of the draw's own, which is Threefry of the number of the draw under the
 * seed. Element e is a function of key and e alone, so a draw does not depend on the device, the threads or the loop
 * order, and a shorter draw is the beginning of a longer one. The key stands in storage, not in a constant: programs
 * that differ only in what they draw have the same form and are compiled once. */
#include "tensor/tensor.h"

#include <math.h>

void kn_seed(kn_context *kn, uint64_t seed) {
    if (!kn) return;
    kn->seed = seed;
    kn->draws = 0;
}

/* counter: u64 of shape (n). The two words of its block, as one u64. */
static kn_ref random_block(const kt_call *c, kn_ref counter) {
    uint64_t key = kn_threefry2x32(c->kn->draws++, c->kn->seed);
    kn_ref   node = kt_storage_node(c->kn, KN_U64, NULL, 0, &key);
    if (c->kn->trace && !kt_trace_draw(c->kn, node)) return 0;
    return kg_op2(c->g, KN_OP_THREEFRY, counter, node);
}

/* A word of a block. */
static kn_ref random_word_of(const kt_call *c, kn_ref block, bool high) {
    kn_graph *g = c->g;
    return kg_cast(g, high ? kg_op2(g, KN_OP_SHR, block, kg_int(g, KN_U64, 32)) : block, KN_U32);
}

/* Uniform in [0, 1) from the 24 high bits of a word: a multiple of 2^-24, so the conversion and the product are
 * exact. */
static kn_ref random_unit(const kt_call *c, kn_ref word) {
    kn_graph *g = c->g;
    kn_ref    high = kg_op2(g, KN_OP_SHR, word, kg_int(g, KN_U32, 8));
    return kg_op2(g, KN_OP_MUL, kg_cast(g, high, KN_F32), kg_float(g, KN_F32, 0x1p-24));
}

/* Begins a draw of that shape, in dims. *n is the number of elements, a size; 0 has a value already, *t. */
static bool random_begin(kt_call *c, const char *op, kn_context *kn, const kn_dim *user, int rank, int64_t *dims,
                         int64_t *n, kn_tensor **t) {
    kn_factors count = {.fixed = 1};
    *t               = NULL;
    if (!kt_begin_new(c, op, kn) || !kt_sizes_in(c, user, rank, dims)) {
        *t = kt_poison(c);
        return false;
    }
    for (int i = 0; i < rank; i++) kg_factor(c->g, &count, dims[i]);
    if ((*n = kg_product(c->g, &count))) return true;
    *t = kt_wrap_created(kn, kt_fill(c, KN_F32, 0, dims, rank), op);
    return false;
}

/* n uniforms of shape dims: element e is word e of the stream. */
static kn_ref random_uniform(const kt_call *c, int64_t n, const int64_t *dims, int rank) {
    kn_graph *g = c->g;
    kn_ref    e = kt_iota(c, n, 1, 0), two = kg_idx(g, 2);
    kn_ref    block = random_block(c, kg_cast(g, kg_op2(g, KN_OP_IDIV, e, two), KN_U64));
    kn_ref    odd = kg_op2(g, KN_OP_CMPNE, kg_op2(g, KN_OP_MOD, e, two), kg_idx(g, 0));
    kn_ref    word = kg_op3(g, KN_OP_WHERE, odd, random_word_of(c, block, true), random_word_of(c, block, false));
    return kg_reshape(g, random_unit(c, word), dims, rank);
}

kn_tensor *kn_rand(kn_context *kn, const kn_dim *user, int rank) {
    kt_call    c;
    int64_t    n, dims[KN_MAX_RANK];
    kn_tensor *t;
    if (!random_begin(&c, "kn_rand", kn, user, rank, dims, &n, &t)) return t;
    return kt_wrap_created(kn, random_uniform(&c, n, dims, rank), "kn_rand");
}

/* Box and Muller (A note on the generation of random normal deviates, 1958): sqrt(-2 ln(1 - u)) sin(2 pi v), u and v
 * the two words of one block. 1 - u is exact and never 0. */
kn_tensor *kn_randn(kn_context *kn, const kn_dim *user, int rank) {
    kt_call    c;
    int64_t    n, dims[KN_MAX_RANK];
    kn_tensor *t;
    if (!random_begin(&c, "kn_randn", kn, user, rank, dims, &n, &t)) return t;
    kn_graph *g = c.g;
    kn_ref    block = random_block(&c, kg_cast(g, kt_iota(&c, n, 1, 0), KN_U64));
    kn_ref    u = random_unit(&c, random_word_of(&c, block, false));
    kn_ref    v = random_unit(&c, random_word_of(&c, block, true));
    kn_ref    log = kg_op1(g, KN_OP_LOG2, kg_op2(g, KN_OP_SUB, kg_float(g, KN_F32, 1), u));
    kn_ref radius  = kg_op1(g, KN_OP_SQRT, kg_op2(g, KN_OP_MUL, log, kg_float(g, KN_F32, -2 * 0.69314718055994530942)));
    kn_ref    turn = kg_op1(g, KN_OP_SIN, kg_op2(g, KN_OP_MUL, v, kg_float(g, KN_F32, 2 * 3.14159265358979323846)));
    return kt_wrap_created(kn, kg_reshape(g, kg_op2(g, KN_OP_MUL, radius, turn), dims, rank), "kn_randn");
}

/* He, Zhang, Ren, Sun: Delving deep into rectifiers (2015): variance 2 / fan_in, here of a uniform distribution. */
kn_tensor *kn_kaiming_uniform(kn_context *kn, const kn_dim *user, int rank) {
    kt_call    c;
    int64_t    n, dims[KN_MAX_RANK];
    kn_tensor *t;
    if (!random_begin(&c, "kn_kaiming_uniform", kn, user, rank, dims, &n, &t)) return t;
    double fan_in = 1;
    for (int i = rank > 2; i < (rank > 2 ? rank : rank - 1); i++) fan_in *= (double)kg_most_of(c.g, dims[i]);
    kn_graph *g = c.g;
    double    bound = sqrt(6.0 / fan_in);
    kn_ref    u = random_uniform(&c, n, dims, rank);
    kn_ref    r =
        kg_op2(g, KN_OP_ADD, kg_op2(g, KN_OP_MUL, u, kg_float(g, KN_F32, 2 * bound)), kg_float(g, KN_F32, -bound));
    return kt_wrap_created(kn, r, "kn_kaiming_uniform");
}

/* Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov: Dropout (JMLR 2014), scaled while training. */
kn_tensor *kn_dropout(kn_tensor *x, double p, int training) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_dropout", &x, 1, &n)) return kt_poison(&c);
    if (!(p >= 0 && p < 1))
        return kt_fail(c.kn, KN_ERR_ARG, "kn_dropout: p is %s, not within 0 and below 1", KN_NUM(p));
    if (!kn_is_float(kg_dtype(c.g, n)))
        return kt_fail(c.kn, KN_ERR_DTYPE, "kn_dropout: %s is not a float", kn_dtypes[kg_dtype(c.g, n)].name);
    int64_t count = kg_count_of(c.g, n);
    if (!training || p == 0 || !count) return kt_wrap(c.kn, n, "kn_dropout");
    int            rank, dt = kg_dtype(c.g, n);
    const int64_t *s = kg_shape(c.g, n, &rank);
    kn_ref         kept = kg_op2(c.g, KN_OP_CMPGE, random_uniform(&c, count, s, rank), kg_float(c.g, KN_F32, p));
    kn_ref         scaled = kg_op2(c.g, KN_OP_MUL, n, kt_const(&c, dt, 1 / (1 - p)));
    return kt_wrap(c.kn, kg_op3(c.g, KN_OP_WHERE, kept, scaled, kt_const(&c, dt, 0)), "kn_dropout");
}
