/* movement.c - views: shapes change, elements stay.
 *
 * Contract: each function checks its arguments in its own words, then builds one or two movement ops. A view that
 * changes nothing is the operand's node under a new handle. */
#include "tensor/tensor.h"

#include <string.h>

kn_tensor *kn_reshape(kn_tensor *x, const kn_dim *dims, int rank) {
    kt_call    c;
    kn_ref     n;
    kn_dim     user[KN_MAX_RANK] = {0};
    int64_t    d[KN_MAX_RANK];
    kn_factors have = {.fixed = 1}, known = have, rest;
    int        open = -1, xrank;
    char       a[KT_SHAPE_TEXT], b[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_reshape", &x, 1, &n)) return kt_poison(&c);
    for (int i = 0; i < rank && i < KN_MAX_RANK && dims; i++) {
        user[i] = dims[i];
        if (user[i] == -1 && open < 0) open = i, user[i] = 1;
    }
    if (!kt_sizes_in(&c, dims ? user : NULL, rank, d)) return kt_poison(&c);
    const int64_t *s    = kg_shape(c.g, n, &xrank);
    bool           fits = true;
    for (int i = 0; fits && i < xrank; i++) fits = kg_factor(c.g, &have, s[i]);
    for (int i = 0; fits && i < rank; i++) fits = kg_factor(c.g, &known, d[i]);
    rest = have;
    if (fits && open >= 0) {
        if (!kg_divide(&rest, &known))
            return kt_fail(c.kn, KN_ERR_SHAPE,
                           "kn_reshape: %s has %lld elements, which the other sizes of %s do not divide",
                           kt_shape_text(c.g, n, a), (long long)kn_numel(x), kt_dims_text(dims, rank, b));
        d[open] = kg_product(c.g, &rest);
        fits    = kg_factor(c.g, &known, d[open]);
    }
    if (!fits) return kt_fail(c.kn, KN_ERR_UNSUPPORTED, "kn_reshape: too many symbolic sizes");
    if (!kg_same_factors(&have, &known) && have.fixed | known.fixed)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_reshape: %s has %lld elements, %s asks for %lld%s",
                       kt_shape_text(c.g, n, a), (long long)kn_numel(x), kt_sizes_text(c.g, d, rank, b),
                       (long long)known.fixed, known.n ? " times symbols" : "");
    return kt_wrap(c.kn, kg_reshape(c.g, n, d, rank), "kn_reshape");
}

kn_tensor *kn_expand(kn_tensor *x, const kn_dim *dims, int rank) {
    kt_call c;
    kn_ref  n;
    kn_dim  user[KN_MAX_RANK] = {0};
    int64_t d[KN_MAX_RANK], in[KN_MAX_RANK];
    char    a[KT_SHAPE_TEXT], b[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_expand", &x, 1, &n)) return kt_poison(&c);
    int            have;
    const int64_t *s = kg_shape(c.g, n, &have);
    if (rank > KN_MAX_RANK || rank < have || (rank && !dims))
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_expand: %s to %d axes", kt_shape_text(c.g, n, a), rank);
    for (int i = 0; i < rank; i++) {
        in[i]   = i < rank - have ? 1 : s[i - (rank - have)];
        user[i] = dims[i] == -1 && i >= rank - have ? 1 : dims[i];
    }
    if (!kt_sizes_in(&c, user, rank, d)) return kt_poison(&c);
    for (int i = 0; i < rank; i++) {
        if (dims[i] == -1 && i >= rank - have) d[i] = in[i];
        if (in[i] != d[i] && in[i] != 1)
            return kt_fail(c.kn, KN_ERR_SHAPE, "kn_expand: %s does not expand to %s: axis %d is not of size 1",
                           kt_shape_text(c.g, n, a), kt_sizes_text(c.g, d, rank, b), i);
    }
    if (!kt_dims_ok(&c, d, rank)) return kt_poison(&c);
    return kt_wrap(c.kn, kg_expand(c.g, kg_reshape(c.g, n, in, rank), d, rank), "kn_expand");
}

static kn_tensor *permute_view(const kt_call *c, kn_ref n, const int64_t *order, int rank) {
    bool same = true;
    for (int i = 0; i < rank; i++) same &= order[i] == i;
    return kt_wrap(c->kn, same ? n : kg_permute(c->g, n, order, rank), c->op);
}

kn_tensor *kn_permute(kn_tensor *x, const int *order, int rank) {
    kt_call  c;
    kn_ref   n;
    int64_t  o[KN_MAX_RANK];
    unsigned seen = 0;
    char     a[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_permute", &x, 1, &n)) return kt_poison(&c);
    if (rank != kg_rank(c.g, n) || (rank && !order))
        return kt_fail(c.kn, KN_ERR_ARG, "kn_permute: %s needs an order of all its axes, %d given",
                       kt_shape_text(c.g, n, a), rank);
    for (int i = 0; i < rank; i++) {
        int k = kt_axis(&c, n, order[i]);
        if (k < 0) return kt_poison(&c);
        if (seen >> k & 1) return kt_fail(c.kn, KN_ERR_ARG, "kn_permute: axis %d appears twice", k);
        seen |= 1u << k;
        o[i] = k;
    }
    return permute_view(&c, n, o, rank);
}

kn_tensor *kn_transpose(kn_tensor *x, int a, int b) {
    kt_call c;
    kn_ref  n;
    int64_t o[KN_MAX_RANK];
    if (!kt_begin(&c, "kn_transpose", &x, 1, &n)) return kt_poison(&c);
    if ((a = kt_axis(&c, n, a)) < 0 || (b = kt_axis(&c, n, b)) < 0) return kt_poison(&c);
    int rank = kg_rank(c.g, n);
    for (int i = 0; i < rank; i++) o[i] = i == a ? b : i == b ? a : i;
    return permute_view(&c, n, o, rank);
}

kn_tensor *kn_flip(kn_tensor *x, int axis) {
    kt_call c;
    kn_ref  n;
    int64_t flags[KN_MAX_RANK] = {0};
    if (!kt_begin(&c, "kn_flip", &x, 1, &n)) return kt_poison(&c);
    if ((axis = kt_axis(&c, n, axis)) < 0) return kt_poison(&c);
    flags[axis] = 1;
    return kt_wrap(c.kn, kg_flip(c.g, n, flags, kg_rank(c.g, n)), "kn_flip");
}

/* A number or symbolic size of the user's that is no size of an axis; what is below 0 stays. */
static bool offset_in(const kt_call *c, kn_dim d, int64_t *out) {
    return kt_size_in(c->kn, d, out) || (kt_wrap(c->kn, 0, c->op), false);
}
static bool is_below(kn_dim user, int64_t in) { return user < 0 && in == user; }

kn_tensor *kn_pad(kn_tensor *x, const kn_dim *before, const kn_dim *after, int rank) {
    kt_call c;
    kn_ref  n;
    int64_t d[KN_MAX_RANK] = {0}, off[KN_MAX_RANK] = {0}, behind;
    bool    any            = false;
    char    a[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_pad", &x, 1, &n)) return kt_poison(&c);
    int            have;
    const int64_t *s = kg_shape(c.g, n, &have);
    if (rank != have || (rank && (!before || !after)))
        return kt_fail(c.kn, KN_ERR_ARG, "kn_pad: %s needs a number before and after each axis, %d given",
                       kt_shape_text(c.g, n, a), rank);
    for (int i = 0; i < rank; i++) {
        if (!offset_in(&c, before[i], &off[i]) || !offset_in(&c, after[i], &behind)) return kt_poison(&c);
        if (is_below(before[i], off[i]) || is_below(after[i], behind))
            return kt_fail(c.kn, KN_ERR_ARG, "kn_pad: axis %d by %lld and %lld: kn_shrink cuts", i,
                           (long long)before[i], (long long)after[i]);
        if (s[i] >= 0 && off[i] >= 0 && behind >= 0) {
            if (!kn_add_ok(s[i], off[i], &d[i]) || !kn_add_ok(d[i], behind, &d[i]))
                return kt_fail(c.kn, KN_ERR_SHAPE, "kn_pad: too many elements");
        } else if (!kg_plus(c.g, s[i], off[i], 1, &d[i]) || !kg_plus(c.g, d[i], behind, 1, &d[i])) {
            return kt_wrap(c.kn, 0, "kn_pad");
        }
        any |= before[i] || after[i];
    }
    if (!kt_dims_ok(&c, d, rank)) return kt_poison(&c);
    return kt_wrap(c.kn, any ? kg_pad(c.g, n, off, d, rank) : n, "kn_pad");
}

/* How many elements begin .. end of axis i are; false, and recorded: they are not seen to lie within it. */
static bool window_size(const kt_call *c, kn_ref x, int i, int64_t begin, int64_t end, int64_t *size) {
    int64_t size_of = kg_shape(c->g, x, NULL)[i], room;
    char    a[KT_SHAPE_TEXT];
    if (begin >= 0 && end >= 0 && size_of >= 0) {
        *size = end - begin;
        if (end >= begin && end <= size_of) return true;
        kt_fail(c->kn, KN_ERR_SHAPE, "%s: %lld to %lld is not within axis %d of %s", c->op, (long long)begin,
                (long long)end, i, kt_shape_text(c->g, x, a));
        return false;
    }
    if (kg_plus(c->g, end, begin, -1, size) && kg_plus(c->g, size_of, end, -1, &room)) return true;
    if (kg_fault(c->g)->code) kt_wrap(c->kn, 0, c->op);
    else
        kt_fail(c->kn, KN_ERR_SHAPE,
                "%s: the bounds of the symbols do not show that the window is within axis %d of %s", c->op, i,
                kt_shape_text(c->g, x, a));
    return false;
}

kn_tensor *kn_shrink(kn_tensor *x, const kn_dim *begin, const kn_dim *end, int rank) {
    kt_call c;
    kn_ref  n;
    int64_t d[KN_MAX_RANK] = {0}, off[KN_MAX_RANK] = {0}, to;
    bool    any            = false;
    char    a[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_shrink", &x, 1, &n)) return kt_poison(&c);
    int            have;
    const int64_t *s = kg_shape(c.g, n, &have);
    if (rank != have || (rank && (!begin || !end)))
        return kt_fail(c.kn, KN_ERR_ARG, "kn_shrink: %s needs a begin and an end for each axis, %d given",
                       kt_shape_text(c.g, n, a), rank);
    for (int i = 0; i < rank; i++) {
        if (!offset_in(&c, begin[i], &off[i]) || !offset_in(&c, end[i], &to)) return kt_poison(&c);
        if (is_below(begin[i], off[i]) || is_below(end[i], to))
            return kt_fail(c.kn, KN_ERR_SHAPE, "kn_shrink: %lld to %lld is not within axis %d of %s",
                           (long long)begin[i], (long long)end[i], i, kt_shape_text(c.g, n, a));
        if (!window_size(&c, n, i, off[i], to, &d[i])) return kt_poison(&c);
        any |= d[i] != s[i];
    }
    return kt_wrap(c.kn, any ? kg_shrink(c.g, n, off, d, rank) : n, "kn_shrink");
}

kn_tensor *kn_rows(kn_tensor *x, kn_dim begin, kn_dim count) {
    kt_call c;
    kn_ref  n;
    int64_t off[KN_MAX_RANK] = {0}, d[KN_MAX_RANK], rows, end, size;
    char    a[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_rows", &x, 1, &n)) return kt_poison(&c);
    int            rank;
    const int64_t *s = kg_shape(c.g, n, &rank);
    if (!offset_in(&c, begin, &off[0]) || !offset_in(&c, count, &rows)) return kt_poison(&c);
    bool numbers = rank && off[0] == begin && rows == count && s[0] >= 0;
    if (!rank || is_below(begin, off[0]) || is_below(count, rows) ||
        (numbers && (begin > s[0] || count > s[0] - begin)))
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_rows: %s has no %lld rows from %lld on", kt_shape_text(c.g, n, a),
                       (long long)count, (long long)begin);
    if (!numbers) {
        if (!kg_plus(c.g, off[0], rows, 1, &end)) return kt_wrap(c.kn, 0, "kn_rows");
        if (!window_size(&c, n, 0, off[0], end, &size)) return kt_poison(&c);
    }
    memcpy(d, s, (size_t)rank * sizeof *d);
    d[0] = rows;
    return kt_wrap(c.kn, rows == s[0] ? n : kg_shrink(c.g, n, off, d, rank), "kn_rows");
}

/* x with an axis of size 1 put before `at`. */
static kn_ref insert_axis(const kt_call *c, kn_ref x, int at) {
    int            rank;
    const int64_t *s = kg_shape(c->g, x, &rank);
    int64_t        d[KN_MAX_RANK + 1];
    for (int i = 0; i <= rank; i++) d[i] = i < at ? s[i] : i == at ? 1 : s[i - 1];
    return kg_reshape(c->g, x, d, rank + 1);
}

kn_tensor *kn_unsqueeze(kn_tensor *x, int axis) {
    kt_call c;
    kn_ref  n;
    char    a[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_unsqueeze", &x, 1, &n)) return kt_poison(&c);
    int rank = kg_rank(c.g, n);
    if (axis < -rank - 1 || axis > rank || rank == KN_MAX_RANK)
        return kt_fail(c.kn, KN_ERR_ARG, "kn_unsqueeze: no place %d for an axis in %s", axis, kt_shape_text(c.g, n, a));
    return kt_wrap(c.kn, insert_axis(&c, n, axis < 0 ? axis + rank + 1 : axis), "kn_unsqueeze");
}

kn_tensor *kn_squeeze(kn_tensor *x, int axis) {
    kt_call c;
    kn_ref  n;
    char    a[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_squeeze", &x, 1, &n)) return kt_poison(&c);
    if ((axis = kt_axis(&c, n, axis)) < 0) return kt_poison(&c);
    if (kg_shape(c.g, n, NULL)[axis] != 1)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_squeeze: axis %d of %s is not of size 1", axis,
                       kt_shape_text(c.g, n, a));
    return kt_wrap(c.kn, kt_drop_axis(&c, n, axis), "kn_squeeze");
}

kn_tensor *kn_flatten(kn_tensor *x, int from_axis) {
    kt_call c;
    kn_ref  n;
    int64_t    d[KN_MAX_RANK], one = 1;
    kn_factors tail = {.fixed = 1};
    if (!kt_begin(&c, "kn_flatten", &x, 1, &n)) return kt_poison(&c);
    int            rank;
    const int64_t *s = kg_shape(c.g, n, &rank);
    if (!rank && (from_axis == 0 || from_axis == -1)) return kt_wrap(c.kn, kg_reshape(c.g, n, &one, 1), "kn_flatten");
    if ((from_axis = kt_axis(&c, n, from_axis)) < 0) return kt_poison(&c);
    for (int i = 0; i < rank; i++) {
        if (i < from_axis)
            d[i] = s[i];
        else
            kg_factor(c.g, &tail, s[i]);
    }
    d[from_axis] = kg_product(c.g, &tail);
    return kt_wrap(c.kn, kg_reshape(c.g, n, d, from_axis + 1), "kn_flatten");
}

/* ---- joining --------------------------------------------------------------------------------------------------- */

/* Every part padded to the whole, and added: zero is neutral, so integers and bools are exact (and -0 becomes 0). */
static kn_ref pad_and_add(const kt_call *c, const kn_ref *part, int n, int axis, int64_t total) {
    int64_t off[KN_MAX_RANK] = {0}, d[KN_MAX_RANK];
    kn_ref  all              = 0;
    for (int i = 0; i < n; i++) {
        int            rank;
        const int64_t *s = kg_shape(c->g, part[i], &rank);
        memcpy(d, s, (size_t)rank * sizeof *d);
        int64_t size = d[axis];
        if (!size && (all || i + 1 < n)) continue;
        d[axis]  = total;
        kn_ref p = size == total ? part[i] : kg_pad(c->g, part[i], off, d, rank);
        all      = all ? kg_op2(c->g, KN_OP_ADD, all, p) : p;
        if (!all) return 0;
        if (!kg_plus(c->g, off[axis], size, 1, &off[axis])) return 0;
    }
    return all;
}

static kn_tensor *join_tensors(const char *op, kn_tensor *const *x, int n, int axis, bool stack) {
    kt_call c = {.op = op};
    char    a[KT_SHAPE_TEXT], b[KT_SHAPE_TEXT];
    for (int i = 0; i < n && x && !c.kn; i++) c.kn = kn_context_of(x[i]);
    if (n < 1 || !x) return NULL;
    if (!c.kn) return NULL;
    kn_ref *part = kn_realloc(c.kn->alloc, NULL, 0, (size_t)n * sizeof *part);
    if (!part) return kt_fail(c.kn, KN_ERR_MEMORY, "%s: out of memory", op);
    kn_tensor *out   = NULL;
    kn_dtype   dt    = KN_VOID;
    int64_t    total = 0;
    if (!kt_begin(&c, op, x, n, part)) goto poison;
    int rank = kg_rank(c.g, part[0]);
    if (stack && (axis < -rank - 1 || axis > rank || rank == KN_MAX_RANK)) {
        kt_fail(c.kn, KN_ERR_ARG, "%s: no place %d for an axis in %s", op, axis, kt_shape_text(c.g, part[0], a));
        goto poison;
    }
    if (stack)
        axis = axis < 0 ? axis + rank + 1 : axis;
    else if ((axis = kt_axis(&c, part[0], axis)) < 0)
        goto poison;
    for (int i = 0; i < n; i++) {
        int            r;
        const int64_t *s = kg_shape(c.g, part[i], &r), *s0 = kg_shape(c.g, part[0], NULL);
        bool           fits = r == rank;
        for (int k = 0; fits && k < rank; k++) fits = s[k] == s0[k] || (k == axis && !stack);
        if (!fits) {
            kt_fail(c.kn, KN_ERR_SHAPE, "%s: %s and %s differ in more than axis %d", op, kt_shape_text(c.g, part[0], a),
                    kt_shape_text(c.g, part[i], b), axis);
            goto poison;
        }
        dt = i ? kt_promote(dt, (kn_dtype)kg_dtype(c.g, part[i])) : (kn_dtype)kg_dtype(c.g, part[i]);
        bool numbers = total >= 0 && (stack || s[axis] >= 0);
        if (numbers ? !kn_add_ok(total, stack ? 1 : s[axis], &total) : !kg_plus(c.g, total, s[axis], 1, &total)) {
            kt_fail(c.kn, KN_ERR_SHAPE, "%s: too many elements", op);
            goto poison;
        }
    }
    for (int i = 0; i < n; i++) {
        part[i] = kg_cast(c.g, part[i], dt);
        if (stack && part[i]) part[i] = insert_axis(&c, part[i], axis);
        if (part[i]) continue;
        out = kt_wrap(c.kn, 0, op);
        goto done;
    }
    out = kt_wrap(c.kn, pad_and_add(&c, part, n, axis, total), op);
    goto done;
poison:
    out = kt_poison(&c);
done:
    kn_free(c.kn->alloc, part, (size_t)n * sizeof *part);
    return out;
}

kn_tensor *kn_cat(kn_tensor *const *x, int n, int axis) {
    return join_tensors("kn_cat", x, n, axis, false);
}
kn_tensor *kn_stack(kn_tensor *const *x, int n, int axis) {
    return join_tensors("kn_stack", x, n, axis, true);
}
