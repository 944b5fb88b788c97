/* elementwise.c - arithmetic, comparisons, elementary functions, dtypes.
 *
 * Contract: operands are promoted here, so that the graph's elementwise ops always have sources of one dtype; shapes
 * broadcast in the graph. Elementary functions (functions.c has most) are computed in at least f32. */
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#define HALF_PI 1.57079632679489661923

/* ---- dtypes ---------------------------------------------------------------------------------------------------- */

kn_dtype kt_promote(kn_dtype a, kn_dtype b) {
    if (a == b || b == KN_BOOL) return a;
    if (a == KN_BOOL) return b;
    bool fa = kn_is_float(a), fb = kn_is_float(b);
    if (fa != fb) return fa ? a : b;
    int sa = kn_dsize(a), sb = kn_dsize(b);
    if (fa && sa == sb) return sa == 1 ? KN_F16 : KN_F32; /* the two f8s; f16 and bf16 */
    if (fa || kn_dtypes[a].kind == kn_dtypes[b].kind) return sa > sb ? a : b;
    kn_dtype i = kn_dtypes[a].kind == 'I' ? a : b, u = i == a ? b : a;
    if (kn_dsize(i) > kn_dsize(u)) return i;
    switch (kn_dsize(u)) {
    case 1: return KN_I16;
    case 2: return KN_I32;
    default: return KN_I64; /* for u64 too: there is nothing wider */
    }
}

kn_ref kt_float(const kt_call *c, kn_ref x) {
    return x && !kn_is_float(kg_dtype(c->g, x)) ? kg_cast(c->g, x, KN_F32) : x;
}

kn_ref kt_wide(const kt_call *c, kn_ref x) { return x && kg_dtype(c->g, x) != KN_F64 ? kg_cast(c->g, x, KN_F32) : x; }

/* The dtype of a floating result of x: its own, or f32 for integers. */
static int float_of(const kt_call *c, kn_ref x) { return kn_is_float(kg_dtype(c->g, x)) ? kg_dtype(c->g, x) : KN_F32; }

bool kt_broadcasts(const kt_call *c, kn_ref a, kn_ref b) {
    int            ra, rb;
    const int64_t *sa = kg_shape(c->g, a, &ra), *sb = kg_shape(c->g, b, &rb);
    for (int i = 1; i <= ra && i <= rb; i++) {
        int64_t x = sa[ra - i], y = sb[rb - i];
        if (x == y || x == 1 || y == 1) continue;
        char ta[KT_SHAPE_TEXT], tb[KT_SHAPE_TEXT];
        char tx[80], ty[80];
        kt_size_text(c->g, x, tx, sizeof tx);
        kt_size_text(c->g, y, ty, sizeof ty);
        kt_fail(c->kn, KN_ERR_SHAPE, "%s: %s and %s do not broadcast: axis %d has %s and %s", c->op,
                kt_shape_text(c->g, a, ta), kt_shape_text(c->g, b, tb), -i, tx, ty);
        return false;
    }
    return true;
}

/* ---- two operands ---------------------------------------------------------------------------------------------- */

enum takes { TAKES_ANY, TAKES_NO_BOOL, TAKES_INTS, TAKES_FLOATS, TAKES_BITS };

static bool takes_dtype(const kt_call *c, enum takes takes, int dt) {
    const char *why = NULL;
    if (takes == TAKES_NO_BOOL && dt == KN_BOOL) why = "bools have no difference: kn_xor, or kn_cast first";
    if (takes == TAKES_INTS && !kn_is_int(dt)) why = "needs integers: kn_div and kn_floor serve floats";
    if (takes == TAKES_BITS && kn_is_float(dt)) why = "needs bools or integers";
    if (!why) return true;
    kt_fail(c->kn, KN_ERR_DTYPE, "%s: of %s: %s", c->op, kn_dtypes[dt].name, why);
    return false;
}

static kn_ref binary_nodes(const kt_call *c, int op, enum takes takes, kn_ref a, kn_ref b) {
    int dt = kt_promote((kn_dtype)kg_dtype(c->g, a), (kn_dtype)kg_dtype(c->g, b));
    if (takes == TAKES_FLOATS && !kn_is_float(dt)) dt = KN_F32;
    return kg_op2(c->g, op, kg_cast(c->g, a, dt), kg_cast(c->g, b, dt));
}

static kn_tensor *binary_op(const char *name, int op, enum takes takes, kn_tensor *a, kn_tensor *b) {
    kt_call c;
    kn_ref  n[2];
    if (!kt_begin(&c, name, (kn_tensor *[]){a, b}, 2, n)) return kt_poison(&c);
    int dt = kt_promote((kn_dtype)kg_dtype(c.g, n[0]), (kn_dtype)kg_dtype(c.g, n[1]));
    if (!takes_dtype(&c, takes, dt) || !kt_broadcasts(&c, n[0], n[1])) return kt_poison(&c);
    return kt_wrap(c.kn, binary_nodes(&c, op, takes, n[0], n[1]), name);
}

#define BINARY_FN(fn, op, takes) \
    kn_tensor *fn(kn_tensor *a, kn_tensor *b) { return binary_op(#fn, KN_OP_##op, takes, a, b); }
BINARY_FN(kn_add, ADD, TAKES_ANY)
BINARY_FN(kn_sub, SUB, TAKES_NO_BOOL)
BINARY_FN(kn_mul, MUL, TAKES_ANY)
BINARY_FN(kn_div, DIV, TAKES_FLOATS)
BINARY_FN(kn_floordiv, IDIV, TAKES_INTS)
BINARY_FN(kn_mod, MOD, TAKES_INTS)
BINARY_FN(kn_maximum, MAX, TAKES_ANY)
BINARY_FN(kn_minimum, MIN, TAKES_ANY)
BINARY_FN(kn_pow, POW, TAKES_FLOATS)
BINARY_FN(kn_eq, CMPEQ, TAKES_ANY)
BINARY_FN(kn_ne, CMPNE, TAKES_ANY)
BINARY_FN(kn_lt, CMPLT, TAKES_ANY)
BINARY_FN(kn_le, CMPLE, TAKES_ANY)
BINARY_FN(kn_gt, CMPGT, TAKES_ANY)
BINARY_FN(kn_ge, CMPGE, TAKES_ANY)
BINARY_FN(kn_and, AND, TAKES_BITS)
BINARY_FN(kn_or, OR, TAKES_BITS)
BINARY_FN(kn_xor, XOR, TAKES_BITS)
#undef BINARY_FN

/* ---- a tensor and a scalar ------------------------------------------------------------------------------------- */

/* The dtype in which x meets the weak scalar s; KN_VOID with the failure recorded where there is none. */
static int meeting_dtype(const kt_call *c, kn_ref x, double s, bool compare) {
    int dt = kg_dtype(c->g, x);
    if (kn_is_float(dt)) return dt;
    if (s != floor(s) || isinf(s)) return KN_F32;
    if (dt == KN_BOOL) dt = compare && (s == 0 || s == 1) ? KN_BOOL : KN_I32;
    double lo = dt == KN_U64 ? 0 : (double)kn_dtypes[dt].min;
    double hi = dt == KN_U64 ? 0x1p64 : dt == KN_I64 ? 0x1p63 : (double)kn_dtypes[dt].max + 1;
    if (s >= lo && s < hi) return dt;
    if (compare && s >= -0x1p63 && s < 0x1p63) return KN_I64;
    kt_fail(c->kn, KN_ERR_DTYPE, "%s: %s is out of the range of %s: kn_cast first", c->op, KN_NUM(s),
            kn_dtypes[dt].name);
    return KN_VOID;
}

static kn_tensor *scalar_op(const char *name, int op, enum takes takes, bool compare, kn_tensor *x, double s,
                            bool swap) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, name, &x, 1, &n)) return kt_poison(&c);
    int dt = takes == TAKES_FLOATS ? float_of(&c, n) : meeting_dtype(&c, n, s, compare);
    if (dt == KN_VOID) return kt_poison(&c);
    kn_ref v = kt_const(&c, dt, s), y = kg_cast(c.g, n, dt);
    return kt_wrap(c.kn, swap ? kg_op2(c.g, op, v, y) : kg_op2(c.g, op, y, v), name);
}

#define SCALAR_FN(fn, op, takes, compare, swap) \
    kn_tensor *fn(kn_tensor *x, double s) { return scalar_op(#fn, KN_OP_##op, takes, compare, x, s, swap); }
SCALAR_FN(kn_add_s, ADD, TAKES_ANY, false, false)
SCALAR_FN(kn_sub_s, SUB, TAKES_ANY, false, false)
SCALAR_FN(kn_rsub_s, SUB, TAKES_ANY, false, true)
SCALAR_FN(kn_mul_s, MUL, TAKES_ANY, false, false)
SCALAR_FN(kn_rdiv_s, DIV, TAKES_FLOATS, false, true)
SCALAR_FN(kn_maximum_s, MAX, TAKES_ANY, false, false)
SCALAR_FN(kn_minimum_s, MIN, TAKES_ANY, false, false)
SCALAR_FN(kn_lt_s, CMPLT, TAKES_ANY, true, false)
SCALAR_FN(kn_gt_s, CMPGT, TAKES_ANY, true, false)
SCALAR_FN(kn_eq_s, CMPEQ, TAKES_ANY, true, false)
#undef SCALAR_FN

/* A power of two divides exactly as its reciprocal multiplies. */
kn_tensor *kn_div_s(kn_tensor *x, double s) {
    int    e;
    double m = frexp(fabs(s), &e);
    bool   exact = m == 0.5 && e > -100 && e < 100;
    return exact ? scalar_op("kn_div_s", KN_OP_MUL, TAKES_FLOATS, false, x, 1 / s, false)
                 : scalar_op("kn_div_s", KN_OP_DIV, TAKES_FLOATS, false, x, s, false);
}

kn_tensor *kn_pow_s(kn_tensor *x, double s) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_pow_s", &x, 1, &n)) return kt_poison(&c);
    kn_ref f = kt_float(&c, n), y;
    if (s == 1) y = f;
    else if (s == 2) y = kg_op2(c.g, KN_OP_MUL, f, f);
    else if (s == 3) y = kg_op2(c.g, KN_OP_MUL, kg_op2(c.g, KN_OP_MUL, f, f), f);
    else if (s == -1) y = kg_op1(c.g, KN_OP_RECIP, f);
    else y = kg_op2(c.g, KN_OP_POW, f, kt_const(&c, float_of(&c, n), s));
    return kt_wrap(c.kn, y, "kn_pow_s");
}

kn_tensor *kn_clamp(kn_tensor *x, double lo, double hi) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_clamp", &x, 1, &n)) return kt_poison(&c);
    if (!(lo <= hi)) return kt_fail(c.kn, KN_ERR_ARG, "kn_clamp: %s to %s is empty", KN_NUM(lo), KN_NUM(hi));
    int dt = kg_dtype(c.g, n);
    if (!kn_is_float(dt)) {
        const kn_dtype_info *d = &kn_dtypes[dt == KN_BOOL ? KN_I32 : dt];
        /* A bound beyond the dtype's range does not bind. */
        if (lo < (double)d->min) lo = (double)d->min;
        if (hi >= (double)d->max) hi = d->size == 8 ? 0x1p62 : (double)d->max;
        if (!meeting_dtype(&c, n, lo, false) || !(dt = meeting_dtype(&c, n, hi, false))) return kt_poison(&c);
        if (kn_is_float(meeting_dtype(&c, n, lo, false))) dt = KN_F32;
    }
    kn_ref y = kg_op2(c.g, KN_OP_MAX, kg_cast(c.g, n, dt), kt_const(&c, dt, lo));
    return kt_wrap(c.kn, kg_op2(c.g, KN_OP_MIN, y, kt_const(&c, dt, hi)), "kn_clamp");
}

/* ---- one operand ----------------------------------------------------------------------------------------------- */

static kn_ref node_neg(const kt_call *c, kn_ref x) { return kg_op1(c->g, KN_OP_NEG, x); }
static kn_ref node_square(const kt_call *c, kn_ref x) { return kg_op2(c->g, KN_OP_MUL, x, x); }
static kn_ref node_sqrt(const kt_call *c, kn_ref x) { return kg_op1(c->g, KN_OP_SQRT, x); }
static kn_ref node_recip(const kt_call *c, kn_ref x) { return kg_op1(c->g, KN_OP_RECIP, x); }
static kn_ref node_rsqrt(const kt_call *c, kn_ref x) { return node_recip(c, node_sqrt(c, x)); }
static kn_ref node_exp2(const kt_call *c, kn_ref x) { return kg_op1(c->g, KN_OP_EXP2, x); }
static kn_ref node_log2(const kt_call *c, kn_ref x) { return kg_op1(c->g, KN_OP_LOG2, x); }
static kn_ref node_sin(const kt_call *c, kn_ref x) { return kg_op1(c->g, KN_OP_SIN, x); }
static kn_ref node_not(const kt_call *c, kn_ref x) { return kg_op1(c->g, KN_OP_NOT, x); }
static kn_ref node_silu(const kt_call *c, kn_ref x) { return kg_op2(c->g, KN_OP_MUL, x, kt_sigmoid(c, x)); }

static kn_ref node_cos(const kt_call *c, kn_ref x) {
    return kg_op1(c->g, KN_OP_SIN, kg_op2(c->g, KN_OP_ADD, x, kt_const(c, kg_dtype(c->g, x), HALF_PI)));
}

/* 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static kn_ref node_gelu(const kt_call *c, kn_ref x) {
    int    dt = kg_dtype(c->g, x);
    kn_ref u  = kg_op2(c->g, KN_OP_MUL, kg_op2(c->g, KN_OP_MUL, x, x), kt_const(c, dt, 0.044715));
    u         = kg_op2(c->g, KN_OP_MUL, x, kg_op2(c->g, KN_OP_ADD, u, kt_const(c, dt, 1)));
    u         = kg_op2(c->g, KN_OP_MUL, u, kt_const(c, dt, 2 * 0.79788456080286535588));
    return kg_op2(c->g, KN_OP_MUL, x, kt_sigmoid(c, u));
}

static kn_ref node_abs(const kt_call *c, kn_ref x) {
    char kind = kn_dtypes[kg_dtype(c->g, x)].kind;
    return kind == 'U' || kind == 'B' ? x : kg_op2(c->g, KN_OP_MAX, x, node_neg(c, x));
}

/* What is neither above nor below zero is itself: 0, -0 or NaN. */
static kn_ref node_sign(const kt_call *c, kn_ref x) {
    int dt = kg_dtype(c->g, x);
    if (dt == KN_BOOL) return x;
    x           = kg_op1(c->g, KN_OP_DETACH, x);
    kn_ref zero = kt_const(c, dt, 0), above = kt_const(c, dt, 1);
    kn_ref y    = x;
    if (kn_dtypes[dt].kind != 'U')
        y = kg_op3(c->g, KN_OP_WHERE, kg_op2(c->g, KN_OP_CMPLT, x, zero), kt_const(c, dt, -1), x);
    return kg_op3(c->g, KN_OP_WHERE, kg_op2(c->g, KN_OP_CMPLT, zero, x), above, y);
}

static kn_ref node_trunc(const kt_call *c, kn_ref x) {
    return kn_is_float(kg_dtype(c->g, x)) ? kg_op1(c->g, KN_OP_TRUNC, x) : x;
}

static kn_ref node_floor(const kt_call *c, kn_ref x) {
    int dt = kg_dtype(c->g, x);
    if (!kn_is_float(dt)) return x;
    kn_ref t = kg_op1(c->g, KN_OP_TRUNC, x);
    kn_ref d = kg_op2(c->g, KN_OP_SUB, t, kt_const(c, dt, 1));
    return kg_op3(c->g, KN_OP_WHERE, kg_op2(c->g, KN_OP_CMPLT, x, t), d, t);
}

static kn_ref node_relu(const kt_call *c, kn_ref x) {
    return kg_op2(c->g, KN_OP_MAX, x, kt_const(c, kg_dtype(c->g, x), 0));
}

typedef kn_ref (*unary_fn)(const kt_call *c, kn_ref x);

static kn_tensor *unary_op(const char *name, unary_fn fn, kn_tensor *x) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, name, &x, 1, &n)) return kt_poison(&c);
    return kt_wrap(c.kn, fn(&c, n), name);
}

/* Of floats: computed in at least f32, given back in x's dtype; integers become f32. */
static kn_tensor *unary_float(const char *name, unary_fn fn, kn_tensor *x) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, name, &x, 1, &n)) return kt_poison(&c);
    kn_ref w = kt_wide(&c, n), y = w ? fn(&c, w) : 0;
    return kt_wrap(c.kn, kg_cast(c.g, y, float_of(&c, n)), name);
}

kn_tensor *kn_abs(kn_tensor *x) { return unary_op("kn_abs", node_abs, x); }
kn_tensor *kn_sign(kn_tensor *x) { return unary_op("kn_sign", node_sign, x); }
kn_tensor *kn_square(kn_tensor *x) { return unary_op("kn_square", node_square, x); }
kn_tensor *kn_floor(kn_tensor *x) { return unary_op("kn_floor", node_floor, x); }
kn_tensor *kn_trunc(kn_tensor *x) { return unary_op("kn_trunc", node_trunc, x); }
kn_tensor *kn_relu(kn_tensor *x) { return unary_op("kn_relu", node_relu, x); }
kn_tensor *kn_sqrt(kn_tensor *x) { return unary_float("kn_sqrt", node_sqrt, x); }
kn_tensor *kn_rsqrt(kn_tensor *x) { return unary_float("kn_rsqrt", node_rsqrt, x); }
kn_tensor *kn_recip(kn_tensor *x) { return unary_float("kn_recip", node_recip, x); }
kn_tensor *kn_exp(kn_tensor *x) { return unary_float("kn_exp", kt_exp, x); }
kn_tensor *kn_exp2(kn_tensor *x) { return unary_float("kn_exp2", node_exp2, x); }
kn_tensor *kn_log(kn_tensor *x) { return unary_float("kn_log", kt_log, x); }
kn_tensor *kn_log2(kn_tensor *x) { return unary_float("kn_log2", node_log2, x); }
kn_tensor *kn_sin(kn_tensor *x) { return unary_float("kn_sin", node_sin, x); }
kn_tensor *kn_cos(kn_tensor *x) { return unary_float("kn_cos", node_cos, x); }
kn_tensor *kn_gelu(kn_tensor *x) { return unary_float("kn_gelu", node_gelu, x); }
kn_tensor *kn_tanh(kn_tensor *x) { return unary_float("kn_tanh", kt_tanh, x); }
kn_tensor *kn_erf(kn_tensor *x) { return unary_float("kn_erf", kt_erf, x); }
kn_tensor *kn_sigmoid(kn_tensor *x) { return unary_float("kn_sigmoid", kt_sigmoid, x); }
kn_tensor *kn_silu(kn_tensor *x) { return unary_float("kn_silu", node_silu, x); }

static kn_tensor *unary_checked(const char *name, enum takes takes, unary_fn fn, kn_tensor *x) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, name, &x, 1, &n) || !takes_dtype(&c, takes, kg_dtype(c.g, n))) return kt_poison(&c);
    return kt_wrap(c.kn, fn(&c, n), name);
}

kn_tensor *kn_neg(kn_tensor *x) { return unary_checked("kn_neg", TAKES_NO_BOOL, node_neg, x); }
kn_tensor *kn_not(kn_tensor *x) { return unary_checked("kn_not", TAKES_BITS, node_not, x); }

/* ---- choosing, converting -------------------------------------------------------------------------------------- */

kn_tensor *kn_where(kn_tensor *p, kn_tensor *a, kn_tensor *b) {
    kt_call c;
    kn_ref  n[3];
    if (!kt_begin(&c, "kn_where", (kn_tensor *[]){p, a, b}, 3, n)) return kt_poison(&c);
    if (!kt_broadcasts(&c, n[0], n[1]) || !kt_broadcasts(&c, n[1], n[2]) || !kt_broadcasts(&c, n[0], n[2]))
        return kt_poison(&c);
    int pd = kg_dtype(c.g, n[0]), dt = kt_promote((kn_dtype)kg_dtype(c.g, n[1]), (kn_dtype)kg_dtype(c.g, n[2]));
    if (pd != KN_BOOL) n[0] = kg_op2(c.g, KN_OP_CMPNE, n[0], kt_const(&c, pd, 0));
    return kt_wrap(c.kn, kg_op3(c.g, KN_OP_WHERE, n[0], kg_cast(c.g, n[1], dt), kg_cast(c.g, n[2], dt)), "kn_where");
}

kn_tensor *kn_cast(kn_tensor *x, kn_dtype dtype) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_cast", &x, 1, &n) || !kt_dtype_ok(&c, dtype)) return kt_poison(&c);
    return kt_wrap(c.kn, kg_cast(c.g, n, dtype), "kn_cast");
}

kn_tensor *kn_bitcast(kn_tensor *x, kn_dtype dtype) {
    kt_call c;
    kn_ref  n;
    char    a[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_bitcast", &x, 1, &n) || !kt_dtype_ok(&c, dtype)) return kt_poison(&c);
    int from = kg_dtype(c.g, n), rank;
    if (dtype == KN_BOOL && from != KN_BOOL)
        return kt_fail(c.kn, KN_ERR_DTYPE, "kn_bitcast: not every byte is a bool: compare with kn_ne instead");
    const int64_t *s = kg_shape(c.g, n, &rank);
    if (kn_dsize(from) != kn_dsize(dtype) && (!rank || s[rank - 1] * kn_dsize(from) % kn_dsize(dtype)))
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_bitcast: the last axis of %s of %s does not divide into %s",
                       kt_shape_text(c.g, n, a), kn_dtypes[from].name, kn_dtypes[dtype].name);
    return kt_wrap(c.kn, kg_bitcast(c.g, n, dtype), "kn_bitcast");
}

kn_tensor *kn_detach(kn_tensor *x) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_detach", &x, 1, &n)) return kt_poison(&c);
    return kt_wrap(c.kn, kg_op1(c.g, KN_OP_DETACH, n), "kn_detach");
}

kn_tensor *kn_contiguous(kn_tensor *x) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_contiguous", &x, 1, &n)) return kt_poison(&c);
    return kt_wrap_created(c.kn, kg_load_to(c.g, n, 0, KN_GLOBAL), "kn_contiguous");
}

#undef HALF_PI
