/* reduce.c - sums, products, extremes, means and variances over axes.
 *
 * Contract: REDUCE keeps reduced axes as size 1; they are dropped here unless `keep`. Sums of narrow floats run in f32
 * and are rounded once; sums of narrow integers and bools are i32 or u32. */
#include "tensor/tensor.h"

#include <math.h>

typedef struct reduction {
    kt_call c;
    kn_ref  x;
    int     dtype; /* of x as given */
    int64_t axes[KN_MAX_RANK];
    int     naxes;
    kn_factors count; /* elements that one result is made of */
    bool    keep, biased;
} reduction;

static const kn_reduce_opts reduce_defaults = {.size = sizeof reduce_defaults};

static bool reduction_begin(reduction *r, const char *op, kn_tensor *x, const kn_reduce_opts *o) {
    *r = (reduction){.count = {.fixed = 1}};
    if (!kt_begin(&r->c, op, &x, 1, &r->x)) return false;
    if (!o) o = &reduce_defaults;
    if (o->size != sizeof *o) {
        kt_fail(r->c.kn, KN_ERR_ARG, "%s: the options' .size is not sizeof(kn_reduce_opts)", op);
        return false;
    }
    int            rank;
    const int64_t *s               = kg_shape(r->c.g, r->x, &rank);
    bool           on[KN_MAX_RANK] = {false};
    if (o->axes.n < 0 || o->axes.n > KN_COUNT(o->axes.a)) {
        kt_fail(r->c.kn, KN_ERR_ARG, "%s: %d axes", op, o->axes.n);
        return false;
    }
    for (int i = 0; i < o->axes.n; i++) {
        int a = kt_axis(&r->c, r->x, o->axes.a[i]);
        if (a < 0) return false;
        if (on[a]) {
            kt_fail(r->c.kn, KN_ERR_ARG, "%s: axis %d appears twice", op, a);
            return false;
        }
        on[a] = true;
    }
    for (int i = 0; i < rank; i++) {
        if (o->axes.n && !on[i]) continue;
        r->axes[r->naxes++] = i;
        if (!kg_factor(r->c.g, &r->count, s[i])) {
            kt_fail(r->c.kn, KN_ERR_UNSUPPORTED, "%s: too many symbolic sizes", op);
            return false;
        }
    }
    r->dtype  = kg_dtype(r->c.g, r->x);
    r->keep   = o->keep;
    r->biased = o->biased;
    return true;
}

/* x over the axes, kept as size 1. */
static kn_ref over_axes(const reduction *r, int op, kn_ref x) {
    return x && r->naxes ? kg_reduce(r->c.g, x, op, r->axes, r->naxes) : x;
}

static kn_tensor *reduction_end(const reduction *r, kn_ref y, int dtype) {
    y = kg_cast(r->c.g, y, dtype);
    if (!y || r->keep) return kt_wrap(r->c.kn, y, r->c.op);
    int            rank, k = 0, out = 0;
    const int64_t *s = kg_shape(r->c.g, y, &rank);
    int64_t        d[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        if (k < r->naxes && r->axes[k] == i)
            k++;
        else
            d[out++] = s[i];
    }
    return kt_wrap(r->c.kn, kg_reshape(r->c.g, y, d, out), r->c.op);
}

kn_ref kt_drop_axis(const kt_call *c, kn_ref x, int axis) {
    int            rank;
    const int64_t *s = kg_shape(c->g, x, &rank);
    int64_t        d[KN_MAX_RANK];
    if (!x) return 0;
    for (int i = 0; i + 1 < rank; i++) d[i] = s[i < axis ? i : i + 1];
    return kg_reshape(c->g, x, d, rank - 1);
}

kn_ref kt_reduce(const kt_call *c, int op, kn_ref x, int axis) {
    return kg_reduce(c->g, x, op, &(int64_t){axis}, 1);
}

int kt_sum_dtype(int dtype) {
    if (kn_is_float(dtype)) return dtype;
    if (kn_dtypes[dtype].kind == 'U') return kn_dsize(dtype) < 4 ? KN_U32 : dtype;
    return kn_dsize(dtype) < 4 ? KN_I32 : dtype;
}

int kt_acc_dtype(int dtype) {
    return kn_is_float(dtype) && kn_dsize(dtype) < 4 ? KN_F32 : kt_sum_dtype(dtype);
}

static kn_tensor *sum_or_product(const char *name, int op, kn_tensor *x, const kn_reduce_opts *o) {
    reduction r;
    if (!reduction_begin(&r, name, x, o)) return kt_poison(&r.c);
    kn_ref y = over_axes(&r, op, kg_cast(r.c.g, r.x, kt_acc_dtype(r.dtype)));
    return reduction_end(&r, y, kt_sum_dtype(r.dtype));
}

kn_tensor *kn_sum_opt(kn_tensor *x, const kn_reduce_opts *o) {
    return sum_or_product("kn_sum", KN_OP_ADD, x, o);
}
kn_tensor *kn_prod_opt(kn_tensor *x, const kn_reduce_opts *o) {
    return sum_or_product("kn_prod", KN_OP_MUL, x, o);
}

static kn_tensor *largest_or_least(const char *name, int op, kn_tensor *x, const kn_reduce_opts *o) {
    reduction r;
    char      a[KT_SHAPE_TEXT];
    if (!reduction_begin(&r, name, x, o)) return kt_poison(&r.c);
    if (!r.count.fixed && kg_numel(r.c.g, r.x) == 0)
        return kt_fail(r.c.kn, KN_ERR_SHAPE, "%s: %s has nothing to choose from", name, kt_shape_text(r.c.g, r.x, a));
    return reduction_end(&r, over_axes(&r, op, r.x), r.dtype);
}

kn_tensor *kn_max_opt(kn_tensor *x, const kn_reduce_opts *o) {
    return largest_or_least("kn_max", KN_OP_MAX, x, o);
}
kn_tensor *kn_min_opt(kn_tensor *x, const kn_reduce_opts *o) {
    return largest_or_least("kn_min", KN_OP_MIN, x, o);
}

/* The mean of x, at least f32, axes kept. */
static kn_ref mean_of(const reduction *r, kn_ref x) {
    kn_ref  sum = over_axes(r, KN_OP_ADD, x);
    int64_t n   = kg_product(r->c.g, &r->count);
    return sum ? kg_op2(r->c.g, KN_OP_MUL, sum, kt_one_over(&r->c, n, kg_dtype(r->c.g, sum))) : 0;
}

static int mean_dtype(int dtype) {
    return kn_is_float(dtype) ? dtype : KN_F32;
}

kn_tensor *kn_mean_opt(kn_tensor *x, const kn_reduce_opts *o) {
    reduction r;
    if (!reduction_begin(&r, "kn_mean", x, o)) return kt_poison(&r.c);
    return reduction_end(&r, mean_of(&r, kt_wide(&r.c, r.x)), mean_dtype(r.dtype));
}

/* The mean first, then the squared distances: no cancellation of large squares. */
static kn_ref variance_of(const reduction *r) {
    kn_ref  x = kt_wide(&r->c, r->x), d = kg_op2(r->c.g, KN_OP_SUB, x, mean_of(r, x));
    kn_ref  s = over_axes(r, KN_OP_ADD, kg_op2(r->c.g, KN_OP_MUL, d, d));
    if (!s) return 0;
    int64_t n  = kg_product(r->c.g, &r->count);
    int     dt = kg_dtype(r->c.g, s);
    if (n < 0) { /* symbolic: one less is 0 where n is 1, and 0 / 0 NaN as it should be */
        kn_ref many = kt_size_as(&r->c, n, dt);
        if (!r->biased) many = kg_op2(r->c.g, KN_OP_SUB, many, kt_const(&r->c, dt, 1));
        return kg_op2(r->c.g, KN_OP_MUL, s, kg_op1(r->c.g, KN_OP_RECIP, many));
    }
    n -= !r->biased;
    double k = n > 0 ? 1.0 / (double)n : NAN;
    return kg_op2(r->c.g, KN_OP_MUL, s, kt_const(&r->c, dt, k));
}

kn_tensor *kn_var_opt(kn_tensor *x, const kn_reduce_opts *o) {
    reduction r;
    if (!reduction_begin(&r, "kn_var", x, o)) return kt_poison(&r.c);
    return reduction_end(&r, variance_of(&r), mean_dtype(r.dtype));
}

kn_tensor *kn_std_opt(kn_tensor *x, const kn_reduce_opts *o) {
    reduction r;
    if (!reduction_begin(&r, "kn_std", x, o)) return kt_poison(&r.c);
    kn_ref v = variance_of(&r);
    return reduction_end(&r, v ? kg_op1(r.c.g, KN_OP_SQRT, v) : 0, mean_dtype(r.dtype));
}
