/* indexing.c - where the largest is, sums into places, running sums: compositions over positions.
 *
 * Contract: positions are compared as index, so nothing wraps; results do not depend on the order of the loops but for
 * the rounding of sums. */
#include "tensor/tensor.h"

#include <string.h>

/* (value, position) of a and of b, as a fold's combine: b's where it is further on in the order, or as far and at an
 * earlier place. NaN is furthest of all. */
static kn_ref arg_combine(kn_graph *g, int dt, bool largest) {
    kn_ref a = kg_fold_param(g, 0, dt), ai = kg_fold_param(g, 1, KN_I32), b = kg_fold_param(g, 2, dt),
           bi = kg_fold_param(g, 3, KN_I32), further, as_far;
    if (!kn_is_float(dt)) {
        further = largest ? kg_op2(g, KN_OP_CMPLT, a, b) : kg_op2(g, KN_OP_CMPLT, b, a);
        as_far  = kg_op2(g, KN_OP_CMPEQ, a, b);
    } else { /* a comparison with NaN is false */
        kn_ref behind = kg_op2(g, largest ? KN_OP_CMPGE : KN_OP_CMPLE, a, b);
        further = kg_op2(g, KN_OP_AND, kg_op2(g, KN_OP_CMPEQ, a, a), kg_op1(g, KN_OP_NOT, behind));
        as_far  = kg_op2(g, KN_OP_OR, kg_op2(g, largest ? KN_OP_CMPLE : KN_OP_CMPGE, a, b),
                         kg_op2(g, KN_OP_CMPNE, b, b));
    }
    kn_ref take = kg_op2(g, KN_OP_OR, further, kg_op2(g, KN_OP_AND, as_far, kg_op2(g, KN_OP_CMPLT, bi, ai)));
    return kg_list(g, KN_OP_TUPLE,
                   (kn_ref[]){kg_op3(g, KN_OP_WHERE, take, b, a), kg_op3(g, KN_OP_WHERE, take, bi, ai)}, 2);
}

static kn_tensor *arg_extremum(const char *name, kn_tensor *x, int axis, bool largest) {
    kt_call c;
    kn_ref  n;
    char    a[KT_SHAPE_TEXT];
    if (!kt_begin(&c, name, &x, 1, &n) || (axis = kt_axis(&c, n, axis)) < 0) return kt_poison(&c);
    int            rank;
    const int64_t *s    = kg_shape(c.g, n, &rank);
    int64_t        size = s[axis];
    if (!size || size > INT32_MAX)
        return kt_fail(c.kn, KN_ERR_SHAPE, "%s: axis %d of %s: 1 to 2147483647 elements", name, axis,
                       kt_shape_text(c.g, n, a));
    if (kn_is_float(kg_dtype(c.g, n))) n = kt_wide(&c, n);
    int       dt = n ? kg_dtype(c.g, n) : KN_F32;
    kn_scalar id = kn_identity(largest ? KN_OP_MAX : KN_OP_MIN, dt);
    kn_ref    first[2] = {kn_is_float(dt) ? kg_float(c.g, dt, id.f) : kg_int(c.g, dt, id.i),
                          kg_int(c.g, KN_I32, INT32_MAX)};
    kn_ref    place = kg_expand(c.g, kg_cast(c.g, kt_iota(&c, size, rank, axis), KN_I32), s, rank);
    kn_ref    fold  = kg_fold(c.g, arg_combine(c.g, dt, largest), first, (kn_ref[]){n, place}, 2,
                              &(int64_t){axis}, 1);
    return kt_wrap(c.kn, kt_drop_axis(&c, kg_element(c.g, fold, 1), axis), name);
}

kn_tensor *kn_argmax(kn_tensor *x, int axis) { return arg_extremum("kn_argmax", x, axis, true); }
kn_tensor *kn_argmin(kn_tensor *x, int axis) { return arg_extremum("kn_argmin", x, axis, false); }

/* The sum over all indices that name a place; the transpose of kn_gather. */
kn_tensor *kn_scatter_add(kn_tensor *x, int axis, kn_tensor *idx, kn_tensor *values) {
    kt_call c;
    kn_ref  n[3];
    char    tx[KT_SHAPE_TEXT], ti[KT_SHAPE_TEXT], tv[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_scatter_add", (kn_tensor *[]){x, idx, values}, 3, n)) return kt_poison(&c);
    if ((axis = kt_axis(&c, n[0], axis)) < 0 || !kt_integers(&c, n[1], "indices")) return kt_poison(&c);
    int            rank, ri, rv;
    const int64_t *s = kg_shape(c.g, n[0], &rank), *si = kg_shape(c.g, n[1], &ri), *sv = kg_shape(c.g, n[2], &rv);
    int            full = rank + ri; /* before, axis, idx, behind */
    bool           fits = full <= KN_MAX_RANK && rv == full - 1;
    int64_t        dv[KN_MAX_RANK], di[KN_MAX_RANK], axes[KN_MAX_RANK];
    for (int i = 0, k = 0, v = 0; fits && i < full; i++) {
        bool index = i > axis && i <= axis + ri;
        di[i]      = index ? si[i - axis - 1] : 1;
        dv[i]      = i == axis ? 1 : sv[v++];
        fits       = i == axis || dv[i] == (index ? di[i] : s[k]);
        if (index) axes[i - axis - 1] = i;
        k += !index;
    }
    if (!fits)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_scatter_add: %s at %s takes values of that shape in place of axis %d, "
                       "not %s", kt_shape_text(c.g, n[0], tx), kt_shape_text(c.g, n[1], ti), axis,
                       kt_shape_text(c.g, n[2], tv));
    int dt = kt_promote((kn_dtype)kg_dtype(c.g, n[0]), (kn_dtype)kg_dtype(c.g, n[2])), acc = kt_acc_dtype(dt);
    kn_ref y = kg_cast(c.g, n[0], acc);
    if (kg_numel(c.g, n[0]) && kg_numel(c.g, n[2])) {
        kn_ref v    = kg_reshape(c.g, kg_cast(c.g, n[2], acc), dv, full);
        kn_ref mask = kt_one_hot(&c, n[1], di, full, s[axis], axis);
        kn_ref sum  = kg_op3(c.g, KN_OP_WHERE, mask, v, kt_const(&c, acc, 0));
        if (ri && sum) sum = kg_reduce(c.g, sum, KN_OP_ADD, axes, ri);
        y = kg_op2(c.g, KN_OP_ADD, y, kg_reshape(c.g, sum, s, rank));
    }
    return kt_wrap(c.kn, kg_cast(c.g, y, dt), "kn_scatter_add");
}

/* Element i is the sum over all j of x[j] where j <= i. */
kn_tensor *kn_cumsum(kn_tensor *x, int axis) {
    kt_call c;
    kn_ref  n;
    char    a[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_cumsum", &x, 1, &n) || (axis = kt_axis(&c, n, axis)) < 0) return kt_poison(&c);
    int            rank, dt = kg_dtype(c.g, n), acc = kt_acc_dtype(dt);
    const int64_t *s = kg_shape(c.g, n, &rank);
    int64_t        d[KN_MAX_RANK];
    if (rank == KN_MAX_RANK)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_cumsum: %s: too many axes", kt_shape_text(c.g, n, a));
    if (!kg_numel(c.g, n)) return kt_wrap(c.kn, kg_cast(c.g, n, kt_sum_dtype(dt)), "kn_cumsum");
    for (int i = 0; i <= rank; i++) d[i] = i < axis ? s[i] : i == axis ? 1 : s[i - 1]; /* i, then j */
    kn_ref each  = kg_reshape(c.g, kg_cast(c.g, n, acc), d, rank + 1);
    kn_ref i = kt_iota(&c, s[axis], rank + 1, axis), j = kt_iota(&c, s[axis], rank + 1, axis + 1);
    kn_ref part = kg_op3(c.g, KN_OP_WHERE, kg_op2(c.g, KN_OP_CMPLE, j, i), each, kt_const(&c, acc, 0));
    kn_ref sum  = kt_drop_axis(&c, part ? kt_reduce(&c, KN_OP_ADD, part, axis + 1) : 0, axis + 1);
    return kt_wrap(c.kn, kg_cast(c.g, sum, kt_sum_dtype(dt)), "kn_cumsum");
}
