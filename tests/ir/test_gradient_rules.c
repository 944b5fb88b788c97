/* Every gradient rule against central differences in f64, on graphs run by the interpreter. */
#include "dialect/eval.h"
#include "tensor/gradient.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IN = 3, MAX_ELEMS = 64, POOL = 16 };

#define U(op, a) kg_op1(g, KN_OP_##op, a)
#define B(op, a, b) kg_op2(g, KN_OP_##op, a, b)
#define K(v) kg_float(g, KN_F64, v)
#define L(...) ((const int64_t[]){__VA_ARGS__})
#define D(...) ((const int64_t[]){__VA_ARGS__}), ((int)(sizeof((const int64_t[]){__VA_ARGS__}) / 8))

typedef struct grad_case {
    const char *name;
    kn_ref (*build)(kn_graph *g, const kn_ref *x);
    int     nin;
    int     rank[MAX_IN];
    int64_t dims[MAX_IN][4];
    double  lo, hi; /* inputs are drawn from here */
} grad_case;

#define CASE(fn, ...) static kn_ref fn(kn_graph *g, const kn_ref *x) { return __VA_ARGS__; }
CASE(c_add, B(ADD, x[0], x[1]))
CASE(c_sub, B(SUB, x[0], x[1]))
CASE(c_mul, B(MUL, x[0], x[1]))
CASE(c_square, B(MUL, x[0], x[0]))
CASE(c_div, B(DIV, x[0], x[1]))
CASE(c_neg, U(NEG, x[0]))
CASE(c_recip, U(RECIP, x[0]))
CASE(c_max, B(MAX, x[0], x[1]))
CASE(c_min, B(MIN, x[0], x[1]))
CASE(c_relu, B(MAX, x[0], K(0)))
CASE(c_clamp, B(MIN, B(MAX, x[0], K(-0.5)), K(0.5)))
CASE(c_cmax, B(MAX, K(0.25), B(MIN, K(0.75), x[0])))
CASE(c_where, kg_op3(g, KN_OP_WHERE, B(CMPLT, x[0], x[1]), B(MUL, x[0], K(3)), x[2]))
CASE(c_exp2, U(EXP2, x[0]))
CASE(c_log2, U(LOG2, x[0]))
CASE(c_sin, U(SIN, x[0]))
CASE(c_sqrt, U(SQRT, x[0]))
CASE(c_trunc, B(ADD, x[0], U(TRUNC, B(MUL, x[0], K(3.3)))))
CASE(c_pow, B(POW, x[0], x[1]))
CASE(c_pow2, B(POW, x[0], K(2)))
CASE(c_pow1, B(POW, x[0], K(1)))
CASE(c_pow3, B(POW, x[0], K(-2.5)))
CASE(c_pow0, B(ADD, x[0], B(POW, x[0], K(0))))
CASE(c_cpow, B(POW, K(3), x[0]))
CASE(c_mulacc, kg_op3(g, KN_OP_MULACC, x[0], x[1], x[2]))
CASE(c_bitcast, kg_op3(g, KN_OP_WHERE, B(CMPLT, x[0], K(9)), x[0], kg_bitcast(g, kg_bitcast(g, x[0], KN_F32), KN_F64)))
CASE(c_cast, kg_cast(g, kg_cast(g, kg_cast(g, kg_cast(g, x[0], KN_F32), KN_F64), KN_I32), KN_F64))
CASE(c_int, B(MUL, x[0], kg_cast(g, kg_cast(g, B(MUL, x[0], K(10)), KN_I32), KN_F64)))
CASE(c_bool, B(MUL, x[0], kg_cast(g, B(CMPLT, x[0], K(0)), KN_F64)))
CASE(c_sum, kg_reduce(g, x[0], KN_OP_ADD, D(1)))
CASE(c_sum_all, kg_reduce(g, x[0], KN_OP_ADD, D(0, 1, 2)))
CASE(c_rmax, kg_reduce(g, x[0], KN_OP_MAX, D(0, 2)))
CASE(c_rmin, kg_reduce(g, x[0], KN_OP_MIN, D(1)))
CASE(c_prod, kg_reduce(g, x[0], KN_OP_MUL, D(1)))
CASE(c_reshape, B(MUL, kg_reshape(g, x[0], D(4, 6)), kg_reshape(g, x[0], D(4, 6))))
CASE(c_expand, B(MUL, kg_expand(g, x[0], D(3, 4)), x[1]))
CASE(c_permute, B(MUL, kg_permute(g, x[0], D(2, 0, 1)), x[1]))
CASE(c_flip, B(MUL, kg_flip(g, x[0], D(1, 0)), x[1]))
CASE(c_pad, B(MUL, kg_pad(g, x[0], L(1, 2), D(4, 7)), x[1]))
CASE(c_shrink, B(MUL, kg_shrink(g, x[0], L(1, 0), D(2, 2)), x[1]))
CASE(c_stack, B(MUL, kg_list(g, KN_OP_STACK, (kn_ref[]){x[0], x[1], U(SIN, x[0])}, 3), x[2]))
CASE(c_index, B(MUL, kg_index(g, x[0], (kn_ref[]){kg_idx(g, 1)}, 1),
                kg_index(g, x[0], (kn_ref[]){kg_idx(g, 2), kg_idx(g, 1)}, 2)))
CASE(c_load, B(MUL, kg_load_to(g, U(SIN, x[0]), 0, KN_GLOBAL), x[0]))
CASE(c_backward, B(MUL, U(CONTIGUOUS_BACKWARD, U(SIN, x[0])), x[0]))
CASE(c_broadcast, B(MUL, B(ADD, x[0], x[1]), x[2]))
CASE(c_scalar, B(MUL, B(SUB, x[0], x[1]), x[0]))

static kn_ref c_slice(kn_graph *g, const kn_ref *x) {
    int64_t words[KN_SLICE_WORDS] = {4, KN_F64};
    kn_ref  part =
        kg_make(g, KN_OP_SLICE, 0, kg_intern_words(g, words, KN_SLICE_WORDS), (kn_ref[]){x[0], kg_idx(g, 2)}, 2);
    return B(MUL, part, x[1]);
}

static kn_ref c_matmul(kn_graph *g, const kn_ref *x) {
    kn_ref p = B(MUL, kg_reshape(g, x[0], D(3, 4, 1)), kg_reshape(g, x[1], D(1, 4, 2)));
    return kg_reshape(g, kg_reduce(g, p, KN_OP_ADD, D(1)), D(3, 2));
}

static kn_ref c_softmax(kn_graph *g, const kn_ref *x) {
    kn_ref top = U(DETACH, kg_reduce(g, x[0], KN_OP_MAX, D(1)));
    kn_ref e = U(EXP2, B(MUL, B(SUB, x[0], top), K(1.4426950408889634)));
    return B(DIV, e, kg_reduce(g, e, KN_OP_ADD, D(1)));
}

/* f(a, b) = (a * sin b, a + b), used inside another function with its arguments exchanged. */
static kn_ref c_function(kn_graph *g, const kn_ref *x) {
    kn_ref a = kg_param(g, 0, KN_F64, D(3)), b = kg_param(g, 1, KN_F64, D(3));
    kn_ref inner = kg_list(g, KN_OP_TUPLE, (kn_ref[]){B(MUL, a, U(SIN, b)), B(ADD, a, b)}, 2);
    kn_ref call = kg_list(g, KN_OP_FUNCTION, (kn_ref[]){inner, b, a}, 3);
    kn_ref r0 = kg_make(g, KN_OP_GETTUPLE, 0, 0, &call, 1), r1 = kg_make(g, KN_OP_GETTUPLE, 0, 1, &call, 1);
    kn_ref body = kg_list(g, KN_OP_TUPLE, (kn_ref[]){B(MUL, B(MUL, r0, r1), a)}, 1);
    kn_ref outer = kg_list(g, KN_OP_FUNCTION, (kn_ref[]){body, B(MUL, x[0], x[1]), x[1]}, 3);
    return kg_make(g, KN_OP_GETTUPLE, 0, 0, &outer, 1);
}

static const grad_case cases[] = {
    {"ADD", c_add, 2, {2, 2}, {{3, 4}, {3, 4}}, -2, 2},
    {"SUB", c_sub, 2, {2, 2}, {{3, 4}, {3, 4}}, -2, 2},
    {"MUL", c_mul, 2, {2, 2}, {{3, 4}, {3, 4}}, -2, 2},
    {"x*x", c_square, 1, {1}, {{5}}, -2, 2},
    {"DIV", c_div, 2, {2, 2}, {{3, 4}, {3, 4}}, 0.5, 2},
    {"NEG", c_neg, 1, {1}, {{5}}, -2, 2},
    {"RECIP", c_recip, 1, {1}, {{5}}, 0.5, 2},
    {"MAX", c_max, 2, {2, 2}, {{3, 4}, {3, 4}}, -2, 2},
    {"MIN", c_min, 2, {2, 2}, {{3, 4}, {3, 4}}, -2, 2},
    {"relu", c_relu, 1, {2}, {{3, 4}}, -2, 2},
    {"clamp", c_clamp, 1, {2}, {{3, 4}}, -2, 2},
    {"constant first", c_cmax, 1, {2}, {{3, 4}}, -2, 2},
    {"WHERE", c_where, 3, {1, 1, 1}, {{8}, {8}, {8}}, -2, 2},
    {"EXP2", c_exp2, 1, {1}, {{5}}, -2, 2},
    {"LOG2", c_log2, 1, {1}, {{5}}, 0.5, 2},
    {"SIN", c_sin, 1, {1}, {{5}}, -3, 3},
    {"SQRT", c_sqrt, 1, {1}, {{5}}, 0.5, 2},
    {"TRUNC", c_trunc, 1, {1}, {{5}}, -2, 2},
    {"POW", c_pow, 2, {1, 1}, {{5}, {5}}, 0.5, 2},
    {"POW 2", c_pow2, 1, {1}, {{5}}, -2, 2},
    {"POW 1", c_pow1, 1, {1}, {{5}}, 0.5, 2},
    {"POW c", c_pow3, 1, {1}, {{5}}, 0.5, 2},
    {"POW 0", c_pow0, 1, {1}, {{5}}, -2, 2},
    {"c POW", c_cpow, 1, {1}, {{5}}, -2, 2},
    {"MULACC", c_mulacc, 3, {1, 1, 1}, {{5}, {5}, {5}}, -2, 2},
    {"BITCAST", c_bitcast, 1, {1}, {{5}}, -2, 2},
    {"CAST to int", c_cast, 1, {1}, {{5}}, 0.1, 0.9},
    {"CAST of int", c_int, 1, {1}, {{5}}, -2, 2},
    {"CAST of bool", c_bool, 1, {1}, {{5}}, -2, 2},
    {"REDUCE ADD", c_sum, 1, {3}, {{2, 3, 4}}, -2, 2},
    {"REDUCE ADD all", c_sum_all, 1, {3}, {{2, 3, 4}}, -2, 2},
    {"REDUCE MAX", c_rmax, 1, {3}, {{2, 3, 4}}, -2, 2},
    {"REDUCE MIN", c_rmin, 1, {3}, {{2, 3, 4}}, -2, 2},
    {"REDUCE MUL", c_prod, 1, {2}, {{3, 4}}, -2, 2},
    {"RESHAPE", c_reshape, 1, {3}, {{2, 3, 4}}, -2, 2},
    {"EXPAND", c_expand, 2, {2, 2}, {{3, 1}, {3, 4}}, -2, 2},
    {"PERMUTE", c_permute, 2, {3, 3}, {{2, 3, 4}, {4, 2, 3}}, -2, 2},
    {"FLIP", c_flip, 2, {2, 2}, {{3, 4}, {3, 4}}, -2, 2},
    {"PAD", c_pad, 2, {2, 2}, {{2, 3}, {4, 7}}, -2, 2},
    {"SHRINK", c_shrink, 2, {2, 2}, {{4, 3}, {2, 2}}, -2, 2},
    {"SLICE", c_slice, 2, {2, 1}, {{2, 4}, {4}}, -2, 2},
    {"STACK", c_stack, 3, {2, 2, 3}, {{2, 2}, {2, 2}, {3, 2, 2}}, -2, 2},
    {"INDEX", c_index, 1, {2}, {{4, 3}}, -2, 2},
    {"LOAD", c_load, 1, {1}, {{5}}, -2, 2},
    {"CONTIGUOUS_BACKWARD", c_backward, 1, {1}, {{5}}, -2, 2},
    {"broadcast", c_broadcast, 3, {2, 1, 3}, {{3, 1}, {4}, {2, 3, 4}}, -2, 2},
    {"scalar operand", c_scalar, 2, {0, 2}, {{0}, {2, 3}}, -2, 2},
    {"matmul", c_matmul, 2, {2, 2}, {{3, 4}, {4, 2}}, -2, 2},
    {"softmax", c_softmax, 1, {2}, {{3, 4}}, -2, 2},
    {"FUNCTION", c_function, 2, {1, 1}, {{3}, {3}}, -2, 2},
};

static uint64_t *fired; /* by rule, of all tests here */

/* A fixed sequence of numbers in lo..hi. */
static double draw(uint64_t *state, double lo, double hi) {
    *state = kn_threefry2x32(*state + 1, 77);
    return lo + (hi - lo) * (double)(*state >> 11) * 0x1p-53;
}

/* The first value of root with these inputs; *n elements into out (room for MAX_ELEMS). */
static bool run(kn_graph *g, kn_ref root, const kn_array *slots, int nslots, double *out, int64_t *n) {
    kn_value v[1] = {{0}};
    int      nv = 1;
    kn_fault f = {0};
    if (!kn_eval(g, root, slots, nslots, v, &nv, NULL, &f)) {
        printf("kn_eval: %s\n", f.text);
        return false;
    }
    bool ok = nv == 1 && v[0].dtype == KN_F64 && v[0].numel <= MAX_ELEMS;
    *n = v[0].numel;
    if (ok) memcpy(out, v[0].data, (size_t)v[0].numel * sizeof(double));
    kn_value_free(kg_alloc(g), &v[0]);
    return ok;
}

static kn_ref sum_all(kn_graph *g, kn_ref x) {
    int64_t axes[KN_MAX_RANK];
    int     rank = kg_rank(g, x);
    for (int i = 0; i < rank; i++) axes[i] = i;
    return rank ? kg_reduce(g, x, KN_OP_ADD, axes, rank) : x;
}

static void check_case(const grad_case *c) {
    kn_graph *g = kg_new(NULL);
    kn_ref    x[MAX_IN + 1], grad[MAX_IN];
    double    data[MAX_IN + 1][MAX_ELEMS];
    kn_array  slots[MAX_IN + 1];
    kn_fault  f = {0};
    uint64_t  state = 5;
    for (int i = 0; i < c->nin; i++) x[i] = kg_param(g, i, KN_F64, c->dims[i], c->rank[i]);
    kn_ref  y = c->build(g, x);
    int     rank;
    if (!y) printf("%s: %s\n", c->name, kg_fault(g)->text);
    CHECK(y);
    if (!y) {
        kg_free(g);
        return;
    }
    const int64_t *dims = kg_shape(g, y, &rank);
    x[c->nin] = kg_param(g, c->nin, KN_F64, dims, rank); /* uneven weights of the results */
    kn_ref loss = sum_all(g, B(MUL, y, x[c->nin]));
    for (int i = 0; i <= c->nin; i++) {
        slots[i] = (kn_array){data[i], kg_numel(g, x[i]), KN_F64};
        for (int64_t k = 0; k < slots[i].size; k++) data[i][k] = draw(&state, c->lo, c->hi);
    }
    bool ok = kn_gradient_nodes(g, loss, x, c->nin, grad, fired, &f);
    if (!ok) printf("%s: %s\n", c->name, f.text);
    CHECK(ok);
    for (int i = 0; ok && i < c->nin; i++) {
        double  got[MAX_ELEMS], up, down;
        int64_t n, one;
        CHECK(kg_same_shape(g, grad[i], x[i]));
        CHECK_EQ(kg_dtype(g, grad[i]), KN_F64);
        bool ran = run(g, grad[i], slots, c->nin + 1, got, &n);
        CHECK(ran && n == slots[i].size);
        for (int64_t k = 0; ran && k < n; k++) {
            double at = data[i][k], h = 1e-6;
            data[i][k] = at + h;
            ran = run(g, loss, slots, c->nin + 1, &up, &one);
            data[i][k] = at - h;
            ran = ran && run(g, loss, slots, c->nin + 1, &down, &one);
            data[i][k] = at;
            double want = (up - down) / (2 * h);
            if (!ran || !(fabs(got[k] - want) <= 1e-6 * (1 + fabs(want))))
                printf("%s: d/dx%d[%lld] is %.10g, by differences %.10g\n", c->name, i, (long long)k, got[k], want);
            CHECK(ran && fabs(got[k] - want) <= 1e-6 * (1 + fabs(want)));
        }
    }
    kg_free(g);
}

static void differences(void) {
    for (int i = 0; i < KN_COUNT(cases); i++) check_case(&cases[i]);
}

/* d sum(y) / dx at given points. */
static bool point(kn_ref (*build)(kn_graph *, const kn_ref *), int nin, int64_t n, double in[][8], double *out,
                  int wrt) {
    kn_graph *g = kg_new(NULL);
    kn_ref    x[MAX_IN], grad;
    kn_array  slots[MAX_IN];
    kn_fault  f = {0};
    int64_t   got;
    for (int i = 0; i < nin; i++) {
        x[i] = kg_param(g, i, KN_F64, &n, 1);
        slots[i] = (kn_array){in[i], n, KN_F64};
    }
    bool ok = kn_gradient_nodes(g, sum_all(g, build(g, x)), &x[wrt], 1, &grad, fired, &f) &&
              run(g, grad, slots, nin, out, &got);
    kg_free(g);
    return ok;
}

CASE(e_rmax, kg_reduce(g, x[0], KN_OP_MAX, D(0)))
CASE(e_cast, kg_cast(g, B(MUL, kg_cast(g, x[0], KN_F32), kg_float(g, KN_F32, 3)), KN_F64))
CASE(e_prod, kg_reduce(g, x[0], KN_OP_MUL, D(0)))

/* Where differences do not reach: ties, zeros, kinks. */
static void edges(void) {
    double out[MAX_ELEMS];
    CHECK(point(c_relu, 1, 3, (double[][8]){{-1, 0, 2}}, out, 0));
    CHECK(out[0] == 0 && out[1] == 0 && out[2] == 1);
    CHECK(point(c_max, 2, 3, (double[][8]){{1, 2, 5}, {1, 3, 4}}, out, 0));
    CHECK(out[0] == 0.5 && out[1] == 0 && out[2] == 1);
    CHECK(point(c_min, 2, 3, (double[][8]){{1, 2, 5}, {1, 3, 4}}, out, 1));
    CHECK(out[0] == 0.5 && out[1] == 0 && out[2] == 1);
    CHECK(point(e_cast, 1, 2, (double[][8]){{1, 0.1}}, out, 0));
    CHECK(out[0] == 3 && out[1] == 3);
    CHECK(point(e_rmax, 1, 4, (double[][8]){{7, 1, 7, 3}}, out, 0));
    CHECK(out[0] == 0.5 && out[1] == 0 && out[2] == 0.5 && out[3] == 0);
    CHECK(point(e_prod, 1, 3, (double[][8]){{2, 0, 3}}, out, 0));
    CHECK(out[0] == 0 && out[1] == 6 && out[2] == 0);
    CHECK(point(e_prod, 1, 3, (double[][8]){{0, 0, 3}}, out, 0));
    CHECK(out[0] == 0 && out[1] == 0 && out[2] == 0);
    CHECK(point(c_pow, 2, 3, (double[][8]){{0, 0, 0}, {0, 1, 2}}, out, 0));
    CHECK(out[0] == 0 && out[1] == 1 && out[2] == 0);
    CHECK(point(c_pow, 2, 3, (double[][8]){{0, 0, 2}, {0, 1, 1}}, out, 1));
    CHECK(out[0] == 0 && out[1] == 0 && fabs(out[2] - 2 * log(2)) < 1e-12);
}

static bool broadcast_together(kn_graph *g, kn_ref a, kn_ref b) {
    int            ra, rb;
    const int64_t *da = kg_shape(g, a, &ra), *db = kg_shape(g, b, &rb);
    int64_t        n = 1;
    for (int i = 1; i <= KN_MAX(ra, rb); i++) {
        int64_t x = i <= ra ? da[ra - i] : 1, y = i <= rb ? db[rb - i] : 1;
        if (x != y && x != 1 && y != 1) return false;
        n *= KN_MAX(x, y);
    }
    return n <= 256 && KN_MAX(ra, rb) <= 4;
}

/* One more value, bounded and smooth almost everywhere, from values there are. */
static kn_ref grow(kn_graph *g, kn_ref a, kn_ref b, uint64_t dice) {
    int64_t dims[KN_MAX_RANK], offset[KN_MAX_RANK], order[KN_MAX_RANK];
    int     rank, kind = (int)(dice % 20), pick = (int)(dice / 20 % 97);
    const int64_t *d = kg_shape(g, a, &rank);
    int64_t        axis = rank ? pick % rank : 0;
    for (int i = 0; i < rank; i++) dims[i] = d[i], offset[i] = 0, order[i] = (i + 1) % rank;
    kn_ref wave = U(SIN, a);
    bool   pair = broadcast_together(g, a, b);
    switch (kind) {
    case 0: return pair ? B(ADD, wave, b) : wave;
    case 1: return pair ? B(SUB, a, U(SIN, b)) : U(NEG, a);
    case 2: return pair ? B(MUL, wave, U(SIN, b)) : B(MUL, K(1.5), wave);
    case 3: return pair ? B(DIV, wave, B(ADD, K(2), U(SIN, b))) : U(RECIP, B(ADD, wave, K(2)));
    case 4: return pair ? B(MAX, a, b) : B(MAX, a, K(0.1));
    case 5: return pair ? B(MIN, wave, b) : B(MIN, a, K(0.3));
    case 6: return pair ? kg_op3(g, KN_OP_WHERE, B(CMPLT, a, b), wave, b) : U(EXP2, wave);
    case 7: return pair ? kg_op3(g, KN_OP_MULACC, wave, U(SIN, b), a) : U(SQRT, B(ADD, wave, K(2)));
    case 8: return U(LOG2, B(ADD, wave, K(1.5)));
    case 9: return B(POW, B(ADD, wave, K(2)), pair ? U(SIN, b) : K(1.7));
    case 10: return rank ? kg_permute(g, a, order, rank) : wave;
    case 11:
        for (int i = 0; i < rank; i++) order[i] = (pick >> i) & 1;
        return rank ? kg_flip(g, a, order, rank) : wave;
    case 12:
        if (!rank || kg_numel(g, a) > 100) return wave;
        dims[axis] += 2, offset[axis] = 1;
        return kg_pad(g, a, offset, dims, rank);
    case 13:
        if (!rank || dims[axis] < 3) return wave;
        dims[axis] -= 2, offset[axis] = pick % 3;
        return kg_shrink(g, a, offset, dims, rank);
    case 14: return kg_reshape(g, a, (int64_t[]){kg_numel(g, a)}, 1);
    case 15: return rank ? kg_reduce(g, a, KN_OP_ADD, &axis, 1) : wave;
    case 16: return rank ? kg_reduce(g, wave, KN_OP_MAX, &axis, 1) : wave;
    case 17: return rank ? kg_reduce(g, wave, KN_OP_MUL, &axis, 1) : wave;
    case 18: return rank < 4 && kg_numel(g, a) <= 64 ? kg_list(g, KN_OP_STACK, (kn_ref[]){a, wave}, 2) : wave;
    default:
        if (!rank || dims[axis] != 1 || kg_numel(g, a) > 64) return wave;
        dims[axis] = 3;
        return kg_expand(g, a, dims, rank);
    }
}

/* Programs by chance: the derivative along a random direction against differences. */
static void compositions(void) {
    static const int64_t shape[MAX_IN][3] = {{3, 4, 0}, {4, 0, 0}, {2, 3, 1}};
    static const int     ranks[MAX_IN] = {2, 1, 3};
    for (uint64_t seed = 0; seed < 150; seed++) {
        kn_graph *g = kg_new(NULL);
        kn_ref    pool[POOL], grad[MAX_IN], loss = K(0);
        double    data[MAX_IN][MAX_ELEMS], along[MAX_IN][MAX_ELEMS], got[MAX_ELEMS], want[2], sum = 0;
        kn_array  slots[MAX_IN];
        kn_fault  f = {0};
        uint64_t  state = seed * 1000;
        int64_t   n;
        bool      ok = true;
        for (int i = 0; i < MAX_IN; i++) {
            pool[i] = kg_param(g, i, KN_F64, shape[i], ranks[i]);
            slots[i] = (kn_array){data[i], kg_numel(g, pool[i]), KN_F64};
            for (int64_t k = 0; k < slots[i].size; k++)
                data[i][k] = draw(&state, -1, 1), along[i][k] = draw(&state, -1, 1);
        }
        for (int i = MAX_IN; i < POOL; i++) {
            uint64_t dice = kn_threefry2x32(state++, 5) >> 8;
            pool[i] = grow(g, pool[dice % (uint64_t)i], pool[dice / 64 % (uint64_t)i], dice / 4096);
            loss = B(ADD, loss, kg_reshape(g, sum_all(g, U(SIN, pool[i])), NULL, 0));
        }
        ok = loss && kn_gradient_nodes(g, loss, pool, MAX_IN, grad, fired, &f);
        if (!ok) printf("program %d: %s%s\n", (int)seed, f.text, kg_fault(g)->text);
        for (int i = 0; ok && i < MAX_IN; i++) {
            ok = run(g, grad[i], slots, MAX_IN, got, &n) && n == slots[i].size;
            for (int64_t k = 0; ok && k < n; k++) sum += got[k] * along[i][k];
        }
        for (int side = 0; ok && side < 2; side++) {
            double h = side ? -2e-6 : 1e-6;
            for (int i = 0; i < MAX_IN; i++)
                for (int64_t k = 0; k < slots[i].size; k++) data[i][k] += h * along[i][k];
            ok = run(g, loss, slots, MAX_IN, &want[side], &n);
        }
        CHECK(ok);
        if (ok && !CHECK_NEAR(sum, (want[0] - want[1]) / 2e-6, 1e-5)) printf("program %d\n", (int)seed);
        kg_free(g);
    }
}

/* Interior nodes, several views of one storage, what the loss does not reach, and each refusal. */
static void asked(void) {
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    kn_ref    b = kg_buffer(g, 1, 6, KN_F64, 0, KN_GLOBAL), w = kg_reshape(g, b, D(2, 3));
    kn_ref    h = U(SIN, w), view = kg_reshape(g, b, D(3, 2)), other = kg_param(g, 0, KN_F64, D(4));
    kn_ref    loss = B(ADD, sum_all(g, B(MUL, h, h)), sum_all(g, view)), grad[4] = {0};
    kn_ref assigned = kg_reshape(g, kg_after(g, b, (kn_ref[]){kg_store(g, b, kg_reshape(g, h, D(6)), 0)}, 1), D(2, 3));
    CHECK(kn_gradient_nodes(g, loss, (kn_ref[]){w, h, other, view}, 4, grad, NULL, &f));
    CHECK(kg_same_shape(g, grad[0], w) && kg_same_shape(g, grad[1], h) && kg_same_shape(g, grad[2], other));
    CHECK(kg_op(g, grad[0]) == KN_OP_RESHAPE && kg_op(g, kg_at(g, grad[0], 0)) == KN_OP_ADD);
    CHECK(kg_op(g, grad[2]) == KN_OP_EXPAND);
    kn_ref again[4] = {0};
    CHECK(kn_gradient_nodes(g, loss, (kn_ref[]){w, h, other, view}, 4, again, NULL, &f));
    CHECK(!memcmp(grad, again, sizeof grad)); /* the same nodes */
    /* What was assigned is a value of its own. */
    CHECK(kn_gradient_nodes(g, sum_all(g, B(MUL, assigned, w)), (kn_ref[]){assigned, w}, 2, grad, NULL, &f));
    CHECK_EQ(f.code, KN_OK);
    CHECK(!kn_gradient_nodes(g, h, &w, 1, grad, NULL, &f) && f.code == KN_ERR_SHAPE);
    f.code = KN_OK;
    CHECK(!kn_gradient_nodes(g, kg_cast(g, loss, KN_I32), &w, 1, grad, NULL, &f) && f.code == KN_ERR_DTYPE);
    f.code = KN_OK;
    CHECK(!kn_gradient_nodes(g, 0, &w, 1, grad, NULL, &f) && f.code == KN_ERR_ARG);
    f.code = KN_OK;
    kn_ref whole = kg_cast(g, w, KN_I32);
    CHECK(!kn_gradient_nodes(g, loss, &whole, 1, grad, NULL, &f) && f.code == KN_ERR_DTYPE);
    f.code = KN_OK;
    kn_ref odd = kg_index(g, w, (kn_ref[]){kg_cast(g, kg_reshape(g, whole, D(6)), KN_INDEX)}, 1);
    CHECK(odd && !kn_gradient_nodes(g, sum_all(g, odd), &w, 1, grad, NULL, &f) && f.code == KN_ERR_UNSUPPORTED);
    CHECK(strstr(f.text, "INDEX") != NULL);
    /* A fold has no gradient: through its results one is refused, around them it goes as ever. */
    f.code     = KN_OK;
    kn_ref max = B(MAX, kg_fold_param(g, 0, KN_F64), kg_fold_param(g, 1, KN_F64)), least = kg_float(g, KN_F64, -9);
    kn_ref top = kg_element(g, kg_fold(g, kg_list(g, KN_OP_TUPLE, &max, 1), &least, &w, 1, (int64_t[]){1}, 1), 0);
    CHECK(top && !kn_gradient_nodes(g, sum_all(g, B(MUL, top, w)), &w, 1, grad, NULL, &f));
    CHECK(f.code == KN_ERR_UNSUPPORTED && strstr(f.text, "GETTUPLE has no gradient: put kn_detach around it"));
    f.code = KN_OK;
    CHECK(kn_gradient_nodes(g, sum_all(g, B(MUL, U(DETACH, top), w)), &w, 1, grad, NULL, &f));
    CHECK(kn_gradient_nodes(g, sum_all(g, B(MUL, w, w)), &top, 1, grad, NULL, &f));
    kg_free(g);
}

#ifdef KN_HOSTILE /* every look-up walks the whole graph */
enum { DEEP = 1000 };
#else
enum { DEEP = 200000 };
#endif

/* A long chain: no recursion. */
static void deep(void) {
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    kn_ref    x = kg_param(g, 0, KN_F64, NULL, 0), y = x, grad = 0;
    for (int i = 0; i < DEEP; i++) y = U(NEG, B(ADD, y, x));
    CHECK(y && kn_gradient_nodes(g, y, &x, 1, &grad, NULL, &f) && grad);
    kg_free(g);
}

typedef struct short_memory {
    int64_t left, held; /* allocations that still succeed; bytes not given back */
} short_memory;

static void *short_resize(void *user, void *ptr, size_t old_size, size_t new_size) {
    short_memory *m = user;
    if (new_size > old_size && m->left-- <= 0) return NULL;
    void *r = new_size ? realloc(ptr, new_size) : NULL;
    if (!new_size) free(ptr);
    m->held += (int64_t)new_size - (int64_t)old_size;
    return r;
}

/* Every allocation fails once: an error each time, nothing lost, and success at the end. */
static void out_of_memory(void) {
    bool ok = false;
    int  tries = 0;
    for (; !ok && tries < 2000; tries++) {
        short_memory m = {INT64_MAX, 0};
        kn_alloc     a = {short_resize, &m};
        kn_graph    *g = kg_new(&a);
        kn_fault     f = {0};
        kn_ref       x[2], grad[2] = {0};
        for (int i = 0; i < 2; i++) x[i] = kg_param(g, i, KN_F64, D(3));
        kn_ref loss = sum_all(g, B(ADD, c_function(g, x), B(MAX, x[0], x[1])));
        CHECK(loss);
        m.left = tries;
        ok = kn_gradient_nodes(g, loss, x, 2, grad, NULL, &f);
        CHECK(ok ? grad[0] && grad[1] : f.code == KN_ERR_MEMORY && !grad[0] && !grad[1]);
        m.left = INT64_MAX;
        kg_free(g);
        if (!CHECK_EQ(m.held, 0)) break;
    }
    CHECK(ok && tries > 5);
}

/* Three devices of two elements, a weight for each result: all shards of a sum have its gradient, the largest alone
 * that of a maximum, and of copies the first. */
static void across_devices(void) {
    static const char *const text[3] = {
        "%x = PARAM {slot=0, device=\"A,B,C\"} [6]\n%1 = ALLREDUCE {op=ADD, devices=\"A,B,C\"} %x",
        "%x = PARAM {slot=0, device=\"A,B,C\"} [6]\n%1 = ALLREDUCE {op=MAX, devices=\"A,B,C\"} %x",
        "%x = PARAM {slot=0, device=\"A,B,C\"} [3, 2]\n%1 = RESHAPE (REPLICATED {axes=(0)} %x) [2]"};
    static const float want[3][6] = {{10, 20, 10, 20, 10, 20}, {0, 20, 0, 0, 10, 0}, {10, 20, 0, 0, 0, 0}};
    for (int k = 0; k < 3; k++) {
        float     x[6] = {1, 9, 2, 4, 3, 5}, same[6] = {1, 2, 1, 2, 1, 2};
        kn_array  in = {k == 2 ? same : x, 6, KN_F32};
        kn_graph *g  = kg_new(NULL);
        kn_fault  f  = {0};
        kn_value  v  = {0};
        int       n  = 1;
        kn_ref    y = kg_parse(g, text[k], strlen(text[k]), &f), p = 1,
               w[2] = {kg_int(g, KN_F32, 10), kg_int(g, KN_F32, 20)};
        while (kg_op(g, p) != KN_OP_PARAM) p++;
        kn_ref sum = kg_reduce(g, kg_op2(g, KN_OP_MUL, y, kg_list(g, KN_OP_STACK, w, 2)), KN_OP_ADD, (int64_t[]){0}, 1);
        kn_ref d   = 0;
        if (!CHECK(kn_gradient_nodes(g, sum, &p, 1, &d, fired, &f)) || !CHECK(kn_eval(g, d, &in, 1, &v, &n, NULL, &f)))
            fprintf(stderr, "  %s\n", f.text);
        for (int i = 0; i < 6 && v.data; i++) CHECK_NEAR(((float *)v.data)[i], want[k][i], 0);
        kn_value_free(NULL, &v);
        kg_free(g);
    }
}

static void every_rule_fired(void) {
    int rules = 0;
    for (int i = 0; i < kn_rule_count; i++) {
        if (strcmp(kn_rules[i].group, "gradient")) continue;
        rules++;
        if (!CHECK(fired[i])) printf("%s never fired\n", kn_rules[i].name);
    }
    CHECK(rules > 20);
    free(fired);
    fired = NULL;
}

int main(void) {
    fired = calloc((size_t)kn_rule_count, sizeof *fired);
    RUN(differences);
    RUN(edges);
    RUN(compositions);
    RUN(asked);
    RUN(deep);
    RUN(out_of_memory);
    RUN(across_devices);
    RUN(every_rule_fired);
    return check_result();
}
