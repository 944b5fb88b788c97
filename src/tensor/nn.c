/* nn.c - products, softmax and its losses, normalisation, picking by index: compositions of the dialect's ops.
 *
 * Contract: none of these is an op of its own; the compiler finds the fused form. Shapes are checked here, in the
 * words of the caller. Sums and elementary functions run in at least f32. */
#include "tensor/tensor.h"

#include <string.h>

/* ---- matrix product -------------------------------------------------------------------------------------------- */

/* (..., M, K, 1) * (..., 1, K, N), summed over K. */
static kn_ref matmul_nodes(const kt_call *c, kn_ref a, kn_ref b, int dtype) {
    kn_graph      *g = c->g;
    int            ra, rb, k = 0;
    const int64_t *sa = kg_shape(g, a, &ra), *sb = kg_shape(g, b, &rb);
    int64_t        da[KN_MAX_RANK], db[KN_MAX_RANK];
    for (int i = 0; i < ra; i++) da[k++] = sa[i];
    da[k] = 1;
    k     = 0;
    for (int i = 0; i < rb - 2; i++) db[k++] = sb[i];
    db[k++]    = 1;
    db[k++]    = sb[rb - 2];
    db[k]      = sb[rb - 1];
    int    acc = kt_acc_dtype(dtype), rank = KN_MAX(ra, rb) + 1;
    kn_ref pa  = kg_reshape(g, kg_cast(g, a, acc), da, ra + 1);
    kn_ref pb  = kg_reshape(g, kg_cast(g, b, acc), db, rb + 1);
    kn_ref sum = kt_reduce(c, KN_OP_ADD, kg_op2(g, KN_OP_MUL, pa, pb), rank - 2);
    return kg_cast(g, kt_drop_axis(c, sum, rank - 2), kt_sum_dtype(dtype));
}

kn_tensor *kn_matmul(kn_tensor *a, kn_tensor *b) {
    kt_call c;
    kn_ref  n[2];
    char    ta[KT_SHAPE_TEXT], tb[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_matmul", (kn_tensor *[]){a, b}, 2, n)) return kt_poison(&c);
    kt_shape_text(c.g, n[0], ta);
    kt_shape_text(c.g, n[1], tb);
    int            ra, rb;
    const int64_t *sa = kg_shape(c.g, n[0], &ra), *sb = kg_shape(c.g, n[1], &rb);
    if (!ra || !rb)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_matmul: %s x %s: a scalar has no inner size: kn_mul", ta, tb);
    if (ra >= KN_MAX_RANK || rb >= KN_MAX_RANK)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_matmul: %s x %s: too many axes", ta, tb);
    if (sa[ra - 1] != sb[rb > 1 ? rb - 2 : 0])
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_matmul: %s x %s: inner sizes differ", ta, tb);
    for (int i = 3; i <= ra && i <= rb; i++)
        if (sa[ra - i] != sb[rb - i] && sa[ra - i] != 1 && sb[rb - i] != 1)
            return kt_fail(c.kn, KN_ERR_SHAPE, "kn_matmul: %s x %s: leading axes do not broadcast", ta, tb);
    bool row = ra == 1, column = rb == 1;
    if (row) n[0] = kg_reshape(c.g, n[0], (int64_t[]){1, sa[0]}, 2);
    if (column) n[1] = kg_reshape(c.g, n[1], (int64_t[]){sb[0], 1}, 2);
    if (!n[0] || !n[1]) return kt_wrap(c.kn, 0, "kn_matmul");
    int    dt = kt_promote((kn_dtype)kg_dtype(c.g, n[0]), (kn_dtype)kg_dtype(c.g, n[1]));
    kn_ref y  = matmul_nodes(&c, n[0], n[1], dt);
    if (y && column) y = kt_drop_axis(&c, y, kg_rank(c.g, y) - 1);
    if (y && row) y = kt_drop_axis(&c, y, kg_rank(c.g, y) - (column ? 1 : 2));
    return kt_wrap(c.kn, y, "kn_matmul");
}

/* ---- softmax --------------------------------------------------------------------------------------------------- */

typedef struct shifted {
    kn_ref max, z, exp, sum; /* z = x - max, exp(z), sum of exp(z) over the axis */
} shifted;

/* The maximum is subtracted so that no exponential overflows; it takes no part in the gradient. */
static shifted shift_by_max(const kt_call *c, kn_ref x, int axis) {
    shifted s;
    s.max = kg_op1(c->g, KN_OP_DETACH, kt_reduce(c, KN_OP_MAX, x, axis));
    s.z   = kg_op2(c->g, KN_OP_SUB, x, s.max);
    s.exp = kt_exp_share(c, s.z);
    s.sum = kt_reduce(c, KN_OP_ADD, s.exp, axis);
    return s;
}

static int result_dtype(const kt_call *c, kn_ref x) {
    return kn_is_float(kg_dtype(c->g, x)) ? kg_dtype(c->g, x) : KN_F32;
}

kn_tensor *kn_softmax(kn_tensor *x, int axis) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_softmax", &x, 1, &n) || (axis = kt_axis(&c, n, axis)) < 0) return kt_poison(&c);
    shifted s = shift_by_max(&c, kt_wide(&c, n), axis);
    kn_ref  y = kg_op2(c.g, KN_OP_MUL, s.exp, kg_op1(c.g, KN_OP_RECIP, s.sum));
    return kt_wrap(c.kn, kg_cast(c.g, y, result_dtype(&c, n)), "kn_softmax");
}

kn_tensor *kn_log_softmax(kn_tensor *x, int axis) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_log_softmax", &x, 1, &n) || (axis = kt_axis(&c, n, axis)) < 0) return kt_poison(&c);
    shifted s = shift_by_max(&c, kt_wide(&c, n), axis);
    kn_ref  y = kg_op2(c.g, KN_OP_SUB, s.z, kt_log(&c, s.sum));
    return kt_wrap(c.kn, kg_cast(c.g, y, result_dtype(&c, n)), "kn_log_softmax");
}

kn_tensor *kn_layer_norm(kn_tensor *x, double eps) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_layer_norm", &x, 1, &n)) return kt_poison(&c);
    int axis = kt_axis(&c, n, -1);
    if (axis < 0) return kt_poison(&c);
    if (!(eps >= 0)) return kt_fail(c.kn, KN_ERR_ARG, "kn_layer_norm: eps is %s", KN_NUM(eps));
    kn_ref w  = kt_wide(&c, n);
    int    dt = w ? kg_dtype(c.g, w) : KN_F32;
    kn_ref k  = kt_one_over(&c, kg_shape(c.g, n, NULL)[axis], dt);
    kn_ref d  = kg_op2(c.g, KN_OP_SUB, w, kg_op2(c.g, KN_OP_MUL, kt_reduce(&c, KN_OP_ADD, w, axis), k));
    kn_ref v  = kg_op2(c.g, KN_OP_MUL, kt_reduce(&c, KN_OP_ADD, kg_op2(c.g, KN_OP_MUL, d, d), axis), k);
    v         = kg_op1(c.g, KN_OP_SQRT, kg_op2(c.g, KN_OP_ADD, v, kt_const(&c, dt, eps)));
    kn_ref y  = kg_op2(c.g, KN_OP_MUL, d, kg_op1(c.g, KN_OP_RECIP, v));
    return kt_wrap(c.kn, kg_cast(c.g, y, result_dtype(&c, n)), "kn_layer_norm");
}

/* ---- indices --------------------------------------------------------------------------------------------------- */

bool kt_integers(const kt_call *c, kn_ref x, const char *what) {
    int dt = kg_dtype(c->g, x);
    if (!kn_is_float(dt)) return true;
    kt_fail(c->kn, KN_ERR_DTYPE, "%s: the %s are %s, not integers", c->op, what, kn_dtypes[dt].name);
    return false;
}

kn_ref kt_one_hot(const kt_call *c, kn_ref idx, const int64_t *dims, int rank, int64_t n, int axis) {
    kn_ref i = kg_reshape(c->g, kg_cast(c->g, idx, KN_INDEX), dims, rank);
    return kg_op2(c->g, KN_OP_CMPEQ, kt_iota(c, n, rank, axis), i);
}

/* Half of what a one-hot selects from: x where the mask is set, summed over the axis. */
static kn_ref picked(const kt_call *c, kn_ref mask, kn_ref x, int axis) {
    if (!x) return 0;
    return kt_reduce(c, KN_OP_ADD, kg_op3(c->g, KN_OP_WHERE, mask, x, kt_const(c, kg_dtype(c->g, x), 0)), axis);
}

kn_tensor *kn_cross_entropy(kn_tensor *logits, kn_tensor *labels) {
    kt_call c;
    kn_ref  n[2];
    char    a[KT_SHAPE_TEXT], b[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_cross_entropy", (kn_tensor *[]){logits, labels}, 2, n)) return kt_poison(&c);
    int            rank, lr;
    const int64_t *s = kg_shape(c.g, n[0], &rank), *ls = kg_shape(c.g, n[1], &lr);
    bool           fits = rank >= 1 && lr == rank - 1;
    for (int i = 0; fits && i < lr; i++) fits = s[i] == ls[i];
    if (!fits)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_cross_entropy: logits %s need a label for each row, labels are %s",
                       kt_shape_text(c.g, n[0], a), kt_shape_text(c.g, n[1], b));
    if (!kt_integers(&c, n[1], "labels")) return kt_poison(&c);
    int axis = rank - 1;
    if (!s[axis])
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_cross_entropy: %s has no classes", kt_shape_text(c.g, n[0], a));
    int64_t d[KN_MAX_RANK];
    memcpy(d, s, (size_t)rank * sizeof *d);
    d[axis]      = 1;
    kn_ref  x    = kt_wide(&c, n[0]);
    shifted sh   = shift_by_max(&c, x, axis);
    kn_ref  pick = picked(&c, kt_one_hot(&c, n[1], d, rank, s[axis], axis), x, axis);
    /* The two large terms first: their difference is exact where they are close. */
    kn_ref y = kg_op2(c.g, KN_OP_ADD, kg_op2(c.g, KN_OP_SUB, sh.max, pick), kt_log(&c, sh.sum));
    y        = kt_drop_axis(&c, y, axis);
    return kt_wrap(c.kn, kg_cast(c.g, y, result_dtype(&c, n[0])), "kn_cross_entropy");
}

kn_tensor *kn_gather(kn_tensor *x, int axis, kn_tensor *idx) {
    kt_call c;
    kn_ref  n[2];
    char    a[KT_SHAPE_TEXT], b[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_gather", (kn_tensor *[]){x, idx}, 2, n)) return kt_poison(&c);
    if ((axis = kt_axis(&c, n[0], axis)) < 0 || !kt_integers(&c, n[1], "indices")) return kt_poison(&c);
    int            rank, ri;
    const int64_t *s = kg_shape(c.g, n[0], &rank), *si = kg_shape(c.g, n[1], &ri);
    int            full = rank + ri; /* pre, K, idx, post */
    if (full > KN_MAX_RANK)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_gather: %s by %s: too many axes", kt_shape_text(c.g, n[0], a),
                       kt_shape_text(c.g, n[1], b));
    int64_t dx[KN_MAX_RANK], di[KN_MAX_RANK], out[KN_MAX_RANK];
    int     k = 0, o = 0;
    for (int i = 0; i < full; i++) {
        bool index = i > axis && i <= axis + ri;
        dx[i]      = index ? 1 : s[k++];
        di[i]      = index ? si[i - axis - 1] : 1;
        if (i != axis) out[o++] = index ? di[i] : dx[i];
    }
    if (!s[axis]) return kt_wrap(c.kn, kt_fill(&c, (kn_dtype)kg_dtype(c.g, n[0]), 0, out, o), "kn_gather");
    kn_ref mask = kt_one_hot(&c, n[1], di, full, s[axis], axis);
    kn_ref y    = picked(&c, mask, kg_reshape(c.g, n[0], dx, full), axis);
    return kt_wrap(c.kn, kt_drop_axis(&c, y, axis), "kn_gather");
}

kn_tensor *kn_one_hot(kn_tensor *idx, int64_t classes, kn_dtype dtype) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_one_hot", &idx, 1, &n) || !kt_dtype_ok(&c, dtype) || !kt_integers(&c, n, "indices"))
        return kt_poison(&c);
    int            rank;
    const int64_t *s = kg_shape(c.g, n, &rank);
    if (classes < 1 || rank == KN_MAX_RANK)
        return kt_fail(c.kn, KN_ERR_ARG, "kn_one_hot: %lld classes for indices of %d axes", (long long)classes, rank);
    int64_t d[KN_MAX_RANK + 1];
    memcpy(d, s, (size_t)rank * sizeof *d);
    d[rank] = 1;
    return kt_wrap(c.kn, kg_cast(c.g, kt_one_hot(&c, n, d, rank + 1, classes, rank), dtype), "kn_one_hot");
}
