/* gen_corpus.c - makes the generated part of the corpus: valid programs of the kinds that tensor code gives.
 *
 * A family is a function that builds one program from random choices; a program is kept when it is large enough, new,
 * and well conditioned (corpus.h), else the next seed is tried. Which program a seed gives may differ from compiler to
 * compiler (arguments are evaluated in any order), so what was made once is kept in the corpus. */
#include "corpus.h"

#include <stdlib.h>
#include <string.h>

typedef struct gen {
    kn_graph *g;
    uint64_t  rng;
    int       slots;
} gen;

/* ---- choices and small builders ---------------------------------------------------------------------------------- */

static uint64_t gen_next(gen *G) {
    G->rng += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = (G->rng ^ (G->rng >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
static int pick(gen *G, int n) {
    return (int)(gen_next(G) % (uint64_t)n);
}
static bool coin(gen *G) {
    return pick(G, 2);
}
static int64_t gen_size(gen *G) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 10, 16, 17, 33};
    return sizes[pick(G, KN_COUNT(sizes))];
}
/* A shape of at most `most` elements. */
static int gen_shape(gen *G, int64_t *d, int lo, int hi, int64_t most) {
    int     rank = lo + pick(G, hi - lo + 1);
    int64_t n    = 1;
    for (int i = 0; i < rank; i++) {
        do d[i] = gen_size(G);
        while (n * d[i] > most);
        n *= d[i];
    }
    return rank;
}

#define ADD(a, b) kg_op2(G->g, KN_OP_ADD, a, b)
#define SUB(a, b) kg_op2(G->g, KN_OP_SUB, a, b)
#define MUL(a, b) kg_op2(G->g, KN_OP_MUL, a, b)
#define MAX(a, b) kg_op2(G->g, KN_OP_MAX, a, b)
#define MIN(a, b) kg_op2(G->g, KN_OP_MIN, a, b)
#define OP1(op, a) kg_op1(G->g, KN_OP_##op, a)
#define OP2(op, a, b) kg_op2(G->g, KN_OP_##op, a, b)
#define OP3(op, a, b, c) kg_op3(G->g, KN_OP_##op, a, b, c)
#define CAST(x, dt) kg_cast(G->g, x, dt)

static kn_ref num(gen *G, kn_ref like, double v) {
    int dt = kg_dtype(G->g, like);
    return kn_is_float(dt) ? kg_float(G->g, dt, v) : kg_int(G->g, dt, (int64_t)v);
}
static kn_ref param(gen *G, int dt, const int64_t *d, int rank) {
    return kg_param(G->g, G->slots++, dt, d, rank);
}
static kn_ref shaped(gen *G, kn_ref x, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return kg_reshape(G->g, x, (int64_t[]){a, b, c, d}, rank);
}
static kn_ref grown(gen *G, kn_ref x, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return kg_expand(G->g, x, (int64_t[]){a, b, c, d}, rank);
}
static kn_ref reduced(gen *G, int op, kn_ref x, int64_t axis) {
    return kg_reduce(G->g, x, op, &axis, 1);
}
static int rank_of(gen *G, kn_ref x) {
    return kg_rank(G->g, x);
}
static int64_t dim(gen *G, kn_ref x, int i) {
    return kg_shape(G->g, x, NULL)[i];
}
static kn_ref param3(gen *G, int dt, int rank, int64_t a, int64_t b, int64_t c) {
    return param(G, dt, (int64_t[]){a, b, c}, rank);
}

/* e^x = 2^(x log2 e) */
static kn_ref exp_of(gen *G, kn_ref x) {
    return OP1(EXP2, MUL(x, num(G, x, 1.4426950408889634)));
}
static kn_ref sigmoid(gen *G, kn_ref x) {
    return OP1(RECIP, ADD(exp_of(G, OP1(NEG, x)), num(G, x, 1)));
}

static kn_ref activation(gen *G, kn_ref x) {
    switch (pick(G, 7)) {
    case 0: return MAX(x, num(G, x, 0));
    case 1: return sigmoid(G, x);
    case 2: return MUL(x, sigmoid(G, x));
    case 3: return SUB(MUL(sigmoid(G, MUL(x, num(G, x, 2))), num(G, x, 2)), num(G, x, 1)); /* tanh */
    case 4: return kg_op3(G->g, KN_OP_WHERE, OP2(CMPGT, x, num(G, x, 0)), x, MUL(x, num(G, x, 0.125)));
    case 5: return MIN(MAX(x, num(G, x, -1)), num(G, x, 6));
    default: return OP1(SIN, x);
    }
}

/* One safe step on a float. */
static kn_ref float_unary(gen *G, kn_ref x) {
    switch (pick(G, 14)) {
    case 0: return OP1(NEG, x);
    case 1: return OP1(SIN, x);
    case 2: return OP1(EXP2, MUL(OP1(SIN, x), num(G, x, 2)));
    case 3: return OP1(SQRT, ADD(MUL(x, x), num(G, x, 0.5)));
    case 4: return OP1(RECIP, ADD(MUL(x, x), num(G, x, 0.75)));
    case 5: return OP1(LOG2, ADD(MUL(x, x), num(G, x, 0.5)));
    case 6: return OP1(TRUNC, MUL(x, num(G, x, 1.5)));
    case 7: return MAX(x, OP1(NEG, x));
    case 8:
        return kg_op2(G->g, KN_OP_POW, ADD(MIN(MUL(x, x), num(G, x, 4)), num(G, x, 0.5)),
                      num(G, x, coin(G) ? 1.5 : -0.5));
    case 9: return activation(G, x);
    case 10: return ADD(x, num(G, x, (double)pick(G, 9) / 4 - 1));
    case 11: return MUL(x, num(G, x, (double)pick(G, 9) / 4 - 1));
    case 12: return OP1(DETACH, ADD(x, num(G, x, 0.25)));
    default: return OP1(SIN, MUL(x, num(G, x, 1.25)));
    }
}

static const int gen_compare[] = {KN_OP_CMPLT, KN_OP_CMPNE, KN_OP_CMPGT, KN_OP_CMPGE, KN_OP_CMPLE, KN_OP_CMPEQ};

static kn_ref compare(gen *G, kn_ref a, kn_ref b) {
    return kg_op2(G->g, gen_compare[pick(G, 6)], a, b);
}

static kn_ref float_binary(gen *G, kn_ref a, kn_ref b) {
    switch (pick(G, 9)) {
    case 0: return ADD(a, b);
    case 1: return SUB(a, b);
    case 2: return MUL(a, OP1(SIN, b));
    case 3: return MAX(a, b);
    case 4: return MIN(a, b);
    case 5: return OP2(DIV, a, ADD(MUL(b, b), num(G, b, 0.75)));
    case 6: return OP3(MULACC, OP1(SIN, a), b, num(G, a, 0.5));
    case 7: return OP3(WHERE, compare(G, a, b), a, b);
    default: return ADD(MUL(a, num(G, a, 0.5)), MUL(b, num(G, b, 0.5)));
    }
}

/* Integers wrap, divide and shift exactly, whatever the values. */
static kn_ref int_binary(gen *G, kn_ref a, kn_ref b) {
    static const int ops[] = {KN_OP_ADD, KN_OP_SUB, KN_OP_MUL, KN_OP_MAX, KN_OP_MIN, KN_OP_IDIV,
                              KN_OP_MOD, KN_OP_XOR, KN_OP_OR,  KN_OP_AND, KN_OP_SHL, KN_OP_SHR};
    int              op    = ops[pick(G, KN_COUNT(ops))];
    if (op == KN_OP_SHL || op == KN_OP_SHR) b = kg_op2(G->g, KN_OP_AND, b, num(G, b, 7));
    if (pick(G, 5) == 0) return OP3(WHERE, compare(G, a, b), a, b);
    return kg_op2(G->g, op, a, b);
}

/* A PARAM that broadcasts to the shape. */
static kn_ref broadcast_param(gen *G, int dt, const int64_t *d, int rank) {
    int64_t e[KN_MAX_RANK];
    int     drop = pick(G, 3) == 0 && rank > 1 ? 1 + pick(G, rank - 1) : 0;
    for (int i = drop; i < rank; i++) e[i - drop] = pick(G, 3) == 0 ? 1 : d[i];
    return param(G, dt, e, rank - drop);
}

/* ---- families ---------------------------------------------------------------------------------------------------- */

static kn_ref fam_elementwise(gen *G) {
    int64_t d[4];
    int     rank = gen_shape(G, d, 1, 3, 1200), dt = pick(G, 5) == 0 ? KN_F64 : KN_F32, steps = 4 + pick(G, 8);
    kn_ref  x = param(G, dt, d, rank), side[2];
    for (int k = 0; k < 2; k++) side[k] = broadcast_param(G, dt, d, rank);
    for (int i = 0; i < steps; i++) {
        kn_ref y = side[pick(G, 2)];
        x        = coin(G) ? float_unary(G, x) : coin(G) ? float_binary(G, x, y) : float_binary(G, y, x);
    }
    return x;
}

static kn_ref fam_integer(gen *G) {
    static const int dts[] = {KN_I8, KN_I16, KN_I32, KN_I64, KN_U8, KN_U16, KN_U32, KN_U64};
    int64_t          d[4];
    int              rank = gen_shape(G, d, 1, 3, 600), dt = dts[pick(G, KN_COUNT(dts))];
    kn_ref           x = param(G, dt, d, rank), y = broadcast_param(G, dt, d, rank);
    int              steps = 5 + pick(G, 7);
    for (int i = 0; i < steps; i++) {
        switch (pick(G, 5)) {
        case 0: x = OP1(NEG, x); break;
        case 1: x = OP1(NOT, x); break;
        case 2: x = int_binary(G, x, num(G, x, 1 + pick(G, 9))); break;
        default: x = coin(G) ? int_binary(G, x, y) : int_binary(G, y, x); break;
        }
    }
    if (pick(G, 3) == 0) x = reduced(G, coin(G) ? KN_OP_MAX : KN_OP_ADD, x, pick(G, rank_of(G, x)));
    return x;
}

static kn_ref fam_boolean(gen *G) {
    int64_t d[4];
    int     rank = gen_shape(G, d, 1, 3, 400);
    kn_ref  x = param(G, KN_F32, d, rank), i = broadcast_param(G, KN_I32, d, rank), p = param(G, KN_BOOL, d, rank);
    kn_ref  b[4] = {compare(G, x, num(G, x, 0.5)), compare(G, i, num(G, i, 2)), p, compare(G, p, OP1(NOT, p))};
    for (int k = 0; k < 6; k++) {
        static const int ops[] = {KN_OP_AND, KN_OP_OR,    KN_OP_XOR, KN_OP_ADD,
                                  KN_OP_MUL, KN_OP_CMPNE, KN_OP_MAX, KN_OP_MIN};
        int              to    = pick(G, 4);
        b[to] = pick(G, 4) ? kg_op2(G->g, ops[pick(G, KN_COUNT(ops))], b[pick(G, 4)], b[pick(G, 4)]) : OP1(NOT, b[to]);
        if (pick(G, 5) == 0) b[to] = OP3(WHERE, b[pick(G, 4)], b[pick(G, 4)], b[to]);
    }
    kn_ref all = OP2(XOR, OP2(XOR, b[0], b[1]), OP2(XOR, b[2], b[3]));
    switch (pick(G, 4)) {
    case 0: return reduced(G, KN_OP_ADD, CAST(all, KN_I32), pick(G, rank_of(G, all)));
    case 1: return OP3(WHERE, all, x, OP1(NEG, x));
    case 2: return reduced(G, coin(G) ? KN_OP_MAX : KN_OP_MIN, all, pick(G, rank_of(G, all)));
    default: return all;
    }
}

static kn_ref fam_cast(gen *G) {
    static const int dts[] = {KN_BOOL, KN_I8,  KN_I16,  KN_I32, KN_I64, KN_U8,     KN_U16,   KN_U32,
                              KN_U64,  KN_F16, KN_BF16, KN_F32, KN_F64, KN_F8E4M3, KN_F8E5M2};
    int64_t          d[4];
    int              rank = gen_shape(G, d, 1, 3, 400);
    kn_ref           x    = param(G, dts[pick(G, 13)], d, rank);
    for (int i = 0; i < 4 + pick(G, 3); i++) {
        int dt = dts[pick(G, pick(G, 4) ? 13 : KN_COUNT(dts))];
        x      = CAST(x, dt);
        if (dt == KN_BOOL)
            x = pick(G, 2) ? OP1(NOT, x) : x;
        else if (kn_is_float(dt))
            x = ADD(MUL(x, num(G, x, 1.5)), num(G, x, 0.25));
        else
            x = int_binary(G, x, num(G, x, 1 + pick(G, 5)));
    }
    /* the end in a wide type, so that a last bit of a narrow one does not weigh more than it is */
    if (pick(G, 3)) x = CAST(x, kn_is_float(kg_dtype(G->g, x)) ? KN_F32 : KN_I64);
    return coin(G) ? x : MUL(x, num(G, x, 3));
}

static kn_ref movement(gen *G, kn_ref x) {
    int     rank = rank_of(G, x), axis     = rank ? pick(G, rank) : 0;
    int64_t d[KN_MAX_RANK], o[KN_MAX_RANK] = {0}, e[KN_MAX_RANK];
    if (!rank) return shaped(G, x, 1, 1, 0, 0, 0);
    memcpy(d, kg_shape(G->g, x, NULL), (size_t)rank * sizeof *d);
    memcpy(e, d, sizeof e);
    switch (pick(G, 8)) {
    case 0: { /* a random order of the axes */
        for (int i = 0; i < rank; i++) o[i] = i;
        for (int i = rank; i-- > 1;) {
            int     k = pick(G, i + 1);
            int64_t t = o[i];
            o[i]      = o[k];
            o[k]      = t;
        }
        return kg_permute(G->g, x, o, rank);
    }
    case 1: o[axis] = 1; return kg_flip(G->g, x, o, rank);
    case 2: /* split an axis, or merge two */
        if (rank < 4 && d[axis] > 1)
            for (int64_t f = 2; f <= d[axis]; f++)
                if (d[axis] % f == 0) {
                    memmove(e + axis + 1, d + axis, (size_t)(rank - axis) * sizeof *e);
                    e[axis]     = d[axis] / f;
                    e[axis + 1] = f;
                    return kg_reshape(G->g, x, e, rank + 1);
                }
        e[0] = kg_numel(G->g, x);
        return kg_reshape(G->g, x, e, 1);
    case 3:
        o[axis] = pick(G, 3);
        e[axis] = d[axis] + o[axis] + pick(G, 3);
        return kg_pad(G->g, x, o, e, rank);
    case 4:
        if (d[axis] < 2) return x;
        o[axis] = pick(G, (int)d[axis] / 2 + 1);
        e[axis] = 1 + pick(G, (int)(d[axis] - o[axis]));
        return kg_shrink(G->g, x, o, e, rank);
    case 5: /* a new axis, repeated */
        if (rank >= 4 || kg_numel(G->g, x) > 400) return x;
        memmove(e + axis + 1, d + axis, (size_t)(rank - axis) * sizeof *e);
        e[axis] = 1;
        x       = kg_reshape(G->g, x, e, rank + 1);
        e[axis] = 1 + pick(G, 4);
        return kg_expand(G->g, x, e, rank + 1);
    case 6: return kg_numel(G->g, x) < 400 && rank < 4 ? kg_list(G->g, KN_OP_STACK, (kn_ref[]){x, OP1(NEG, x)}, 2) : x;
    default: return kg_flip(G->g, x, (int64_t[]){1, 1, 1, 1, 1}, rank);
    }
}

static kn_ref fam_movement(gen *G) {
    int64_t d[4];
    int     rank = gen_shape(G, d, 1, 3, 500), dt = coin(G) ? KN_F32 : pick(G, 2) ? KN_I32 : KN_I64;
    kn_ref  x     = param(G, dt, d, rank);
    int     steps = 5 + pick(G, 6);
    for (int i = 0; i < steps; i++) {
        x = movement(G, x);
        if (pick(G, 3) == 0) x = ADD(x, num(G, x, 1)); /* so that padding and order can be told apart */
        if (pick(G, 6) == 0) x = kg_load_to(G->g, x, 0, KN_GLOBAL);
    }
    return pick(G, 3) ? x : reduced(G, KN_OP_ADD, x, 0);
}

static kn_ref fam_reduce(gen *G) {
    static const int ops[] = {KN_OP_ADD, KN_OP_MAX, KN_OP_MIN, KN_OP_ADD};
    int64_t          d[4];
    int              rank = gen_shape(G, d, 2, 4, 2000), dt = pick(G, 4) ? KN_F32 : pick(G, 2) ? KN_I32 : KN_F64;
    kn_ref           x = param(G, dt, d, rank), y = broadcast_param(G, dt, d, rank);
    x = kn_is_float(dt) ? float_binary(G, x, y) : int_binary(G, x, y);
    for (int k = 0; k < 2 + pick(G, 2); k++) {
        int64_t axes[2] = {pick(G, rank), pick(G, rank)};
        int     n       = axes[0] == axes[1] || coin(G) ? 1 : 2;
        kn_ref  r       = kg_reduce(G->g, x, ops[pick(G, KN_COUNT(ops))], axes, n);
        if (pick(G, 5) == 0) r = kg_reduce(G->g, MIN(MAX(x, num(G, x, -1)), num(G, x, 1)), KN_OP_MUL, axes, n);
        if (kn_is_float(dt)) r = MUL(r, num(G, r, 0.125));
        x = coin(G) ? SUB(x, r) : kn_is_float(dt) ? float_unary(G, r) : int_binary(G, r, num(G, r, 3));
    }
    return x;
}

static kn_ref matmul(gen *G, kn_ref a, kn_ref b) { /* (M,K) x (K,N) */
    int64_t m = dim(G, a, 0), k = dim(G, a, 1), n = dim(G, b, 1);
    kn_ref  x = grown(G, shaped(G, a, 3, m, k, 1, 0), 3, m, k, n, 0),
           y  = grown(G, shaped(G, b, 3, 1, k, n, 0), 3, m, k, n, 0);
    return shaped(G, reduced(G, KN_OP_ADD, MUL(x, y), 1), 2, m, n, 0, 0);
}
static kn_ref weight(gen *G, int64_t k, int64_t n) { /* small enough that sums stay small */
    kn_ref w = param3(G, KN_F32, 2, k, n, 0);
    return MUL(w, num(G, w, k > 8 ? 0.25 : 0.5));
}

static kn_ref fam_matmul(gen *G) {
    int64_t m = gen_size(G), k = gen_size(G), n = gen_size(G);
    int64_t turn[2] = {1, 0};
    kn_ref  a = pick(G, 3) ? param3(G, KN_F32, 2, m, k, 0) : kg_permute(G->g, param3(G, KN_F32, 2, k, m, 0), turn, 2);
    kn_ref  b = pick(G, 3) ? weight(G, k, n) : kg_permute(G->g, weight(G, n, k), turn, 2);
    kn_ref  c = matmul(G, a, b);
    if (pick(G, 4)) c = ADD(c, param3(G, KN_F32, 1, n, 0, 0));
    switch (pick(G, 4)) {
    case 0: return activation(G, c);
    case 1: { /* a second layer */ int64_t o = gen_size(G); return matmul(G, activation(G, c), weight(G, n, o));
    }
    case 2: return SUB(c, param3(G, KN_F32, 2, m, 1, 0));
    default: { /* a vector product of the rows */
        kn_ref v = param3(G, KN_F32, 2, 1, n, 0);
        return reduced(G, KN_OP_ADD, MUL(c, v), 1);
    }
    }
}

static kn_ref fam_batched(gen *G) {
    int64_t b = 1 + pick(G, 3), m = 1 + pick(G, 7), k = gen_size(G) % 12 + 1, n = 1 + pick(G, 9);
    kn_ref  x = param3(G, KN_F32, 3, b, m, k), y = param3(G, KN_F32, 3, coin(G) ? b : 1, k, n);
    kn_ref  xs = grown(G, shaped(G, x, 4, b, m, k, 1), 4, b, m, k, n);
    kn_ref  ys = shaped(G, y, 4, dim(G, y, 0), 1, k, n);
    kn_ref  c  = shaped(G, reduced(G, KN_OP_ADD, MUL(xs, MUL(ys, num(G, ys, 0.25))), 2), 3, b, m, n, 0);
    if (coin(G)) c = kg_permute(G->g, c, (int64_t[]){0, 2, 1}, 3);
    return coin(G) ? activation(G, c) : ADD(float_unary(G, c), reduced(G, KN_OP_MAX, c, 2));
}

static kn_ref softmax(gen *G, kn_ref x, int axis, bool logs) {
    kn_ref z = SUB(x, OP1(DETACH, reduced(G, KN_OP_MAX, x, axis))), e = exp_of(G, z),
           s = reduced(G, KN_OP_ADD, e, axis);
    if (logs) return SUB(z, MUL(OP1(LOG2, s), num(G, s, 0.6931471805599453)));
    return coin(G) ? OP2(DIV, e, s) : MUL(e, OP1(RECIP, s));
}

static kn_ref fam_norm(gen *G) {
    int64_t d[4];
    int     rank = gen_shape(G, d, 2, 3, 1200), axis = pick(G, 3) ? rank - 1 : pick(G, rank);
    kn_ref  x = param(G, KN_F32, d, rank);
    double  n = (double)d[axis];
    if (coin(G)) x = ADD(MUL(x, num(G, x, 1.5)), broadcast_param(G, KN_F32, d, rank));
    switch (pick(G, 4)) {
    case 0: return softmax(G, x, axis, false);
    case 1: return softmax(G, x, axis, true);
    case 2: { /* layer norm */
        kn_ref mean = MUL(reduced(G, KN_OP_ADD, x, axis), num(G, x, 1 / n)), c = SUB(x, mean);
        kn_ref var = MUL(reduced(G, KN_OP_ADD, MUL(c, c), axis), num(G, x, 1 / n));
        kn_ref y   = MUL(c, OP1(RECIP, OP1(SQRT, ADD(var, num(G, x, 0.01)))));
        return ADD(MUL(y, broadcast_param(G, KN_F32, d, rank)), broadcast_param(G, KN_F32, d, rank));
    }
    default: { /* RMS norm */
        kn_ref ms = MUL(reduced(G, KN_OP_ADD, MUL(x, x), axis), num(G, x, 1 / n));
        return MUL(MUL(x, OP1(RECIP, OP1(SQRT, ADD(ms, num(G, x, 0.01))))), broadcast_param(G, KN_F32, d, rank));
    }
    }
}

/* The windows of a padded row or image, as a new trailing axis, by the repeat-and-shrink view. */
static kn_ref windows(gen *G, kn_ref x, int64_t k, int64_t stride) { /* (r, n) -> (r, out, k) */
    int64_t r = dim(G, x, 0), n = dim(G, x, 1), out = (n - k) / stride + 1, reps = (k * (n + 1) + n - 1) / n;
    x = shaped(G, grown(G, shaped(G, x, 3, r, 1, n, 0), 3, r, reps, n, 0), 2, r, reps * n, 0, 0);
    x = kg_shrink(G->g, x, (int64_t[]){0, 0}, (int64_t[]){r, k * (n + 1)}, 2);
    x = kg_shrink(G->g, shaped(G, x, 3, r, k, n + 1, 0), (int64_t[]){0, 0, 0},
                  (int64_t[]){r, k, stride * (out - 1) + 1}, 3);
    if (stride > 1) { /* every stride-th start */
        x = kg_pad(G->g, x, (int64_t[]){0, 0, 0}, (int64_t[]){r, k, stride * out}, 3);
        x = kg_shrink(G->g, shaped(G, x, 4, r, k, out, stride), (int64_t[]){0, 0, 0, 0}, (int64_t[]){r, k, out, 1}, 4);
        x = shaped(G, x, 3, r, k, out, 0);
    }
    return kg_permute(G->g, x, (int64_t[]){0, 2, 1}, 3);
}

static kn_ref fam_conv(gen *G) {
    int64_t cin = 1 + pick(G, 3), cout = 1 + pick(G, 4), n = 6 + pick(G, 11), k = 1 + pick(G, 4),
            stride = 1 + pick(G, 2), pad = pick(G, 3);
    kn_ref x = param3(G, KN_F32, 2, cin, n, 0);
    if (pad) x = kg_pad(G->g, x, (int64_t[]){0, pad}, (int64_t[]){cin, n + 2 * pad}, 2);
    kn_ref  w   = windows(G, x, k, stride); /* (cin, out, k) */
    int64_t out = dim(G, w, 1);
    if (pick(G, 3) == 0) /* pooling */
        return activation(G, coin(G) ? reduced(G, KN_OP_MAX, w, 2)
                                     : MUL(reduced(G, KN_OP_ADD, w, 2), num(G, w, 1.0 / (double)k)));
    kn_ref f = param3(G, KN_F32, 3, cout, cin, k);
    kn_ref t = MUL(shaped(G, kg_permute(G->g, w, (int64_t[]){1, 0, 2}, 3), 4, 1, out, cin, k),
                   MUL(shaped(G, f, 4, cout, 1, cin, k), num(G, f, 0.25)));
    kn_ref y = shaped(G, kg_reduce(G->g, t, KN_OP_ADD, (int64_t[]){2, 3}, 2), 2, cout, out, 0, 0);
    return activation(G, ADD(y, param3(G, KN_F32, 2, cout, 1, 0)));
}

/* Rows of a table by integer labels, as a product with their one-hot rows. */
static kn_ref one_hot(gen *G, kn_ref labels, int64_t classes) { /* (n) -> bool (n, classes) */
    int64_t n = dim(G, labels, 0);
    kn_ref  i = CAST(kg_iota(G->g, classes, 0, KN_AXIS_LOOP, 1, 0), kg_dtype(G->g, labels));
    kn_ref  l = grown(G, shaped(G, labels, 2, n, 1, 0, 0), 2, n, classes, 0, 0);
    return OP2(CMPEQ, l, grown(G, shaped(G, i, 2, 1, classes, 0, 0), 2, n, classes, 0, 0));
}

static kn_ref fam_gather(gen *G) {
    static const int dts[] = {KN_I32, KN_I64, KN_U8, KN_I8, KN_U16};
    int64_t          n = gen_size(G), classes = 2 + pick(G, 16), width = gen_size(G);
    kn_ref           l = param3(G, dts[pick(G, KN_COUNT(dts))], 1, n, 0, 0), h = one_hot(G, l, classes);
    switch (pick(G, 5)) {
    case 0: { /* an embedding; labels out of range give 0 */
        kn_ref t = param3(G, KN_F32, 2, classes, width, 0);
        kn_ref p = OP3(WHERE, shaped(G, h, 3, n, classes, 1, 0), shaped(G, t, 3, 1, classes, width, 0), num(G, t, 0));
        return MUL(shaped(G, reduced(G, KN_OP_ADD, p, 1), 2, n, width, 0, 0), num(G, t, 2));
    }
    case 1: { /* cross entropy */
        kn_ref z = softmax(G, param3(G, KN_F32, 2, n, classes, 0), 1, true);
        kn_ref s = reduced(G, KN_OP_ADD, MUL(z, CAST(h, KN_F32)), 1);
        return MUL(OP1(NEG, reduced(G, KN_OP_ADD, s, 0)), num(G, s, 1.0 / (double)n));
    }
    case 2: { /* by a real INDEX, clamped into the table */
        kn_ref t = param3(G, KN_F32, 2, classes, width, 0);
        kn_ref i = CAST(CAST(l, KN_I32), KN_INDEX);
        i        = MIN(MAX(i, kg_idx(G->g, 0)), kg_idx(G->g, classes - 1));
        return ADD(activation(G, kg_index(G->g, t, &i, 1)), param3(G, KN_F32, 1, width, 0, 0));
    }
    case 3: { /* argmax: the first place of the largest */
        kn_ref x = param3(G, KN_F32, 2, n, classes, 0), m = reduced(G, KN_OP_MAX, x, 1);
        kn_ref i = CAST(kg_iota(G->g, classes, 0, KN_AXIS_LOOP, 2, 1), KN_I32);
        i        = grown(G, i, 2, n, classes, 0, 0);
        kn_ref w = OP3(WHERE, OP2(CMPEQ, x, m), i, num(G, i, (double)classes));
        return CAST(reduced(G, KN_OP_MIN, w, 1), coin(G) ? KN_I64 : KN_F32);
    }
    default: { /* a histogram */
        kn_ref c = reduced(G, KN_OP_ADD, CAST(h, KN_I32), 0);
        return ADD(MUL(c, c), CAST(OP2(CMPGT, c, num(G, c, 0)), KN_I32));
    }
    }
}

static kn_ref fam_random(gen *G) {
    int64_t n = gen_size(G) + pick(G, 4);
    kn_ref  i = CAST(kg_iota(G->g, n, 0, KN_AXIS_LOOP, 1, 0), KN_U64), k = param3(G, KN_U64, 1, 1, 0, 0);
    kn_ref  r = OP2(THREEFRY, ADD(i, num(G, i, pick(G, 100))), coin(G) ? k : OP2(XOR, k, num(G, k, 12345)));
    if (coin(G)) r = OP2(THREEFRY, r, grown(G, k, 1, n, 0, 0, 0));
    kn_ref w = coin(G) ? CAST(OP2(SHR, r, num(G, r, 32)), KN_U32)
                       : CAST(OP2(AND, r, kg_int(G->g, KN_U64, 0xffffffff)), KN_U32);
    kn_ref u =
        MUL(CAST(OP2(SHR, w, num(G, w, 8)), KN_F32), kg_float(G->g, KN_F32, 1.0 / 16777216)); /* uniform in [0,1) */
    switch (pick(G, 3)) {
    case 0: return kg_list(G->g, KN_OP_TUPLE, (kn_ref[]){w, ADD(MUL(u, num(G, u, 2)), num(G, u, -1))}, 2);
    case 1: return reduced(G, KN_OP_ADD, MUL(u, num(G, u, 1.0 / 16)), 0);
    default: return OP1(SIN, MUL(OP1(SQRT, ADD(u, num(G, u, 0.125))), num(G, u, 6.25)));
    }
}

static kn_ref fam_attention(gen *G) {
    int64_t t = 2 + pick(G, 9), h = 1 + pick(G, 8), v = 1 + pick(G, 6);
    kn_ref  q = param3(G, KN_F32, 2, t, h, 0), k = param3(G, KN_F32, 2, t, h, 0), w = param3(G, KN_F32, 2, t, v, 0);
    kn_ref  s = matmul(G, q, kg_permute(G->g, k, (int64_t[]){1, 0}, 2));
    s         = MUL(s, num(G, s, 0.25));
    if (coin(G)) { /* causal: the past alone */
        kn_ref i = kg_iota(G->g, t, 0, KN_AXIS_LOOP, 2, 0), j = kg_iota(G->g, t, 0, KN_AXIS_LOOP, 2, 1);
        s = OP3(WHERE, OP2(CMPLT, i, j), num(G, s, -8), s);
    }
    return matmul(G, softmax(G, s, 1, false), w);
}

/* Everything together: several values that share work. */
static kn_ref fam_mixed(gen *G) {
    int64_t d[4];
    int     rank = gen_shape(G, d, 2, 3, 600);
    kn_ref  x    = param(G, KN_F32, d, rank), out[4];
    int     n    = 2 + pick(G, 2);
    for (int k = 0; k < 2; k++)
        x = coin(G) ? float_unary(G, x) : float_binary(G, x, broadcast_param(G, KN_F32, d, rank));
    for (int k = 0; k < n; k++) {
        kn_ref y = x;
        switch (pick(G, 5)) {
        case 0: y = reduced(G, coin(G) ? KN_OP_MAX : KN_OP_ADD, y, pick(G, rank)); break;
        case 1: y = softmax(G, y, rank - 1, false); break;
        case 2: y = movement(G, movement(G, y)); break;
        case 3: y = CAST(compare(G, y, broadcast_param(G, KN_F32, d, rank)), KN_I32); break;
        default: y = float_unary(G, float_unary(G, y)); break;
        }
        out[k] = pick(G, 4) && kn_is_float(kg_dtype(G->g, y)) ? float_unary(G, y) : y;
    }
    return kg_list(G->g, KN_OP_TUPLE, out, n);
}

/* A FUNCTION of two arguments, used on values. */
static kn_ref fam_function(gen *G) {
    int64_t d[4];
    int     rank = gen_shape(G, d, 1, 2, 300);
    kn_ref  a = param(G, KN_F32, d, rank), b = param(G, KN_F32, d, rank), y[2];
    kn_ref  body = kg_list(G->g, KN_OP_TUPLE, (kn_ref[]){float_binary(G, a, b), float_unary(G, ADD(a, b))}, 2);
    kn_ref  fn   = kg_make(G->g, KN_OP_FUNCTION, 0, 0, (kn_ref[]){body, float_unary(G, b), a}, 3);
    for (int k = 0; k < 2; k++) y[k] = kg_make(G->g, KN_OP_GETTUPLE, 0, (uint64_t)k, &fn, 1);
    return float_unary(G, coin(G) ? y[pick(G, 2)] : ADD(y[0], y[1]));
}

static kn_ref fam_bits(gen *G) {
    static const int wide[] = {KN_I32, KN_U32, KN_F32}, narrow[] = {KN_I16, KN_U16, KN_I8, KN_U8};
    int64_t          d[2] = {1 + pick(G, 6), 4 * (1 + pick(G, 4))};
    kn_ref           x    = param(G, wide[pick(G, 3)], d, 2);
    if (kg_dtype(G->g, x) == KN_F32 || coin(G))
        x = kg_bitcast(G->g, x, coin(G) ? KN_I32 : KN_U32);
    else
        x = kg_bitcast(G->g, kg_bitcast(G->g, x, narrow[pick(G, 4)]), KN_U32);
    for (int k = 0; k < 4 + pick(G, 3); k++) x = int_binary(G, x, num(G, x, 3 + pick(G, 250)));
    kn_ref sign = OP2(AND, x, num(G, x, 0x7fff)), one = OP2(OR, sign, num(G, x, 0x3f800000));
    return coin(G) ? sign : kg_bitcast(G->g, one, KN_F32); /* a float in [1, 2) */
}

typedef struct gen_family {
    const char *name;
    int         count, least; /* programs, and printed lines each */
    kn_ref (*build)(gen *G);
} gen_family;
static const gen_family families[] = {
    {"elementwise", 28, 8, fam_elementwise},
    {"integer", 28, 8, fam_integer},
    {"boolean", 14, 8, fam_boolean},
    {"cast", 26, 8, fam_cast},
    {"movement", 26, 8, fam_movement},
    {"reduce", 22, 8, fam_reduce},
    {"matmul", 20, 8, fam_matmul},
    {"batched", 12, 8, fam_batched},
    {"norm", 20, 8, fam_norm},
    {"conv", 20, 8, fam_conv},
    {"gather", 24, 7, fam_gather},
    {"random", 12, 8, fam_random},
    {"attention", 10, 8, fam_attention},
    {"mixed", 18, 10, fam_mixed},
    {"function", 10, 8, fam_function},
    {"bits", 10, 7, fam_bits},
};
const int gen_corpus_files = KN_COUNT(families);

const char *gen_corpus_name(int file) {
    return families[file].name;
}

static int lines_of(const char *text) {
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

/* One program from one seed; false: not fit. */
static bool try_program(const gen_family *fam, uint64_t seed, kn_str *text) {
    gen         G         = {.g = kg_new(NULL), .rng = seed};
    kn_ref      root      = fam->build(&G);
    corpus_case c         = {0};
    kn_fault    f         = {0};
    char        why[1024] = "too small";
    bool        ok        = false;
    kn_str_clear(text);
    if (root) kg_print(G.g, root, text);
    if (!root) snprintf(why, sizeof why, "%s", kg_fault(G.g)->text);
    if (root && lines_of(kn_str_c(text)) >= fam->least) {
        ok = corpus_open(kn_str_c(text), &c, &f) && corpus_conditioned(&c, why, sizeof why);
        corpus_close(&c);
    }
    kg_free(G.g);
    if (!ok && getenv("GEN_CORPUS_WHY"))
        fprintf(stderr, "%s %llu: %s %s\n", fam->name, (unsigned long long)seed, why, f.text);
    return ok;
}

bool gen_corpus(int file, uint64_t seed, int count, kn_str *out) {
    const gen_family *fam  = &families[file];
    int               made = 0;
    kn_str            text;
    kn_str_init(&text, NULL);
    seed = (seed * KN_COUNT(families) + (uint64_t)file) << 24;
    if (!count) count = fam->count;
    kn_str_putf(out, "# Made by gen_corpus.c, and kept.\n");
    for (int tries = 0; made < count && tries < 100 + 40 * count; tries++) {
        if (!try_program(fam, seed++, &text) || strstr(kn_str_c(out), kn_str_c(&text))) continue;
        kn_str_putf(out, "--- %s %d\n%s", fam->name, ++made, kn_str_c(&text));
    }
    bool ok = !text.failed && !out->failed && made == count;
    kn_str_free(&text);
    return ok;
}

#undef ADD
#undef SUB
#undef MUL
#undef MAX
#undef MIN
#undef OP1
#undef OP2
#undef OP3
#undef CAST
