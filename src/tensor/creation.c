/* creation.c - tensors from sizes and numbers, and the small helpers every op uses for shapes and axes.
 *
 * Contract: constants are expressions, not storage; kn_assign gives them storage when first needed. An arange is an
 * expanded RANGE, so it costs nothing but its index. */
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* ---- shapes and axes ------------------------------------------------------------------------------------------- */

const char *kt_sizes_text(const kn_graph *g, const int64_t *dims, int rank, char *out) {
    int at = snprintf(out, KT_SHAPE_TEXT, "(");
    for (int i = 0; i < rank && at + 80 < KT_SHAPE_TEXT; i++) {
        if (i) out[at++] = ',';
        size_t left = (size_t)(KT_SHAPE_TEXT - at - 2);
        if (dims[i] < 0 && g) at += kt_size_text(g, dims[i], out + at, left);
        else at += snprintf(out + at, left, "%lld", (long long)dims[i]);
    }
    snprintf(out + at, (size_t)(KT_SHAPE_TEXT - at), ")");
    return out;
}

const char *kt_dims_text(const int64_t *dims, int rank, char *out) {
    return kt_sizes_text(NULL, dims, rank, out);
}

const char *kt_shape_text(const kn_graph *g, kn_ref n, char *out) {
    int            rank;
    const int64_t *dims = kg_shape(g, n, &rank);
    return kt_sizes_text(g, dims, rank, out);
}

int kt_axis(const kt_call *c, kn_ref x, int axis) {
    int rank = kg_rank(c->g, x);
    if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
    char a[KT_SHAPE_TEXT];
    kt_fail(c->kn, KN_ERR_ARG, "%s: no axis %d: the tensor is %s", c->op, axis, kt_shape_text(c->g, x, a));
    return -1;
}

bool kt_dims_ok(const kt_call *c, const int64_t *dims, int rank) {
    if (rank < 0 || rank > KN_MAX_RANK || (rank && !dims)) {
        kt_fail(c->kn, KN_ERR_ARG,
                rank && !dims ? "%s: dims is NULL (rank %d, at most %d)" : "%s: rank %d: 0 to %d are possible", c->op,
                rank, KN_MAX_RANK);
        return false;
    }
    int64_t n = 8;
    char    a[KT_SHAPE_TEXT];
    for (int i = 0; i < rank; i++) {
        int64_t most = kg_most_of(c->g, dims[i]);
        if (most && !kn_mul_ok(n, most, &n)) {
            kt_fail(c->kn, KN_ERR_SHAPE, "%s: %s has too many elements", c->op, kt_dims_text(dims, rank, a));
            return false;
        }
    }
    return true;
}

bool kt_dtype_ok(const kt_call *c, kn_dtype dtype) {
    if (dtype > KN_VOID && dtype < KN_INDEX) return true;
    kt_fail(c->kn, KN_ERR_DTYPE, "%s: a tensor cannot be of dtype %s (%d)", c->op, kn_dtype_name(dtype), (int)dtype);
    return false;
}

kn_ref kt_const(const kt_call *c, int dtype, double v) {
    if (kn_is_float(dtype)) return kg_float(c->g, dtype, v);
    return kg_int(c->g, dtype, v >= 0x1p63 ? (int64_t)(uint64_t)v : (int64_t)v);
}

kn_ref kt_fill(const kt_call *c, kn_dtype dtype, double v, const int64_t *dims, int rank) {
    int64_t ones[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) ones[i] = 1;
    kn_ref x = kg_reshape(c->g, kt_const(c, dtype, v), ones, rank);
    return kg_expand(c->g, x, dims, rank);
}

kn_ref kt_iota(const kt_call *c, int64_t n, int rank, int axis) {
    return kg_iota(c->g, n, 0, KN_AXIS_LOOP, rank, axis);
}

/* ---- creation -------------------------------------------------------------------------------------------------- */

/* v is a value of the dtype: integers take no fractions and nothing out of range. */
static bool value_fits(const kt_call *c, kn_dtype dtype, double v) {
    if (kn_is_float(dtype)) return true;
    const kn_dtype_info *d  = &kn_dtypes[dtype];
    double               hi = dtype == KN_U64 ? 0x1p64 : dtype == KN_I64 ? 0x1p63 : (double)d->max + 1;
    if (v == floor(v) && v >= (double)d->min && v < hi) return true;
    kt_fail(c->kn, KN_ERR_DTYPE, "%s: %s is no value of %s", c->op, KN_NUM(v), d->name);
    return false;
}

static kn_tensor *full_tensor(const char *op, kn_context *kn, double value, kn_dtype dtype, const kn_dim *dims,
                              int rank) {
    kt_call c;
    int64_t d[KN_MAX_RANK];
    if (!kt_begin_new(&c, op, kn)) return kt_poison(&c);
    if (!kt_dtype_ok(&c, dtype) || !kt_sizes_in(&c, dims, rank, d) || !value_fits(&c, dtype, value))
        return kt_poison(&c);
    return kt_wrap_created(kn, kt_fill(&c, dtype, value, d, rank), op);
}

kn_tensor *kn_full(kn_context *kn, double value, kn_dtype dtype, const kn_dim *dims, int rank) {
    return full_tensor("kn_full", kn, value, dtype, dims, rank);
}
kn_tensor *kn_zeros(kn_context *kn, kn_dtype dtype, const kn_dim *dims, int rank) {
    return full_tensor("kn_zeros", kn, 0, dtype, dims, rank);
}
kn_tensor *kn_ones(kn_context *kn, kn_dtype dtype, const kn_dim *dims, int rank) {
    return full_tensor("kn_ones", kn, 1, dtype, dims, rank);
}

kn_tensor *kn_arange(kn_context *kn, double start, double stop, double step, kn_dtype dtype) {
    kt_call c;
    if (!kt_begin_new(&c, "kn_arange", kn)) return kt_poison(&c);
    if (!kt_dtype_ok(&c, dtype)) return kt_poison(&c);
    if (!isfinite(start) || !isfinite(stop) || !isfinite(step) || step == 0)
        return kt_fail(kn, KN_ERR_ARG, "kn_arange: from %s to %s by %s never ends", KN_NUM(start),
                       KN_NUM(stop), KN_NUM(step));
    if (dtype == KN_BOOL) return kt_fail(kn, KN_ERR_DTYPE, "kn_arange: bool does not count");
    double count = ceil((stop - start) / step);
    if (count > 0x1p53) return kt_fail(kn, KN_ERR_SHAPE, "kn_arange: too many elements");
    int64_t n = count > 0 ? (int64_t)count : 0;
    if (!n) return kt_wrap_created(kn, kt_fill(&c, dtype, 0, &n, 1), "kn_arange");
    double last = start + (double)(n - 1) * step;
    if (!kn_is_float(dtype) && step != floor(step))
        return kt_fail(kn, KN_ERR_DTYPE, "kn_arange: a step of %s needs a float dtype", KN_NUM(step));
    if (!value_fits(&c, dtype, start) || !value_fits(&c, dtype, last)) return kt_poison(&c);
    /* Narrow floats cannot count: they are rounded once, at the end. */
    int    calc = kn_is_float(dtype) && dtype != KN_F64 ? (int)KN_F32 : (int)dtype;
    kn_ref x    = kg_cast(c.g, kt_iota(&c, n, 1, 0), calc);
    if (step != 1) x = kg_op2(c.g, KN_OP_MUL, x, kt_const(&c, calc, step));
    if (start != 0) x = kg_op2(c.g, KN_OP_ADD, x, kt_const(&c, calc, start));
    return kt_wrap_created(kn, kg_cast(c.g, x, dtype), "kn_arange");
}

kn_tensor *kn_eye(kn_context *kn, int64_t n, kn_dtype dtype) {
    kt_call c;
    int64_t dims[2];
    if (!kt_begin_new(&c, "kn_eye", kn)) return kt_poison(&c);
    if (!kt_dtype_ok(&c, dtype) || !kt_sizes_in(&c, (kn_dim[]){n, n}, 2, dims)) return kt_poison(&c);
    n = dims[0];
    if (!n) return kt_wrap_created(kn, kt_fill(&c, dtype, 0, dims, 2), "kn_eye");
    kn_ref same = kg_op2(c.g, KN_OP_CMPEQ, kt_iota(&c, n, 2, 0), kt_iota(&c, n, 2, 1));
    return kt_wrap_created(kn, kg_cast(c.g, same, dtype), "kn_eye");
}
