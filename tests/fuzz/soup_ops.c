/* soup_ops.c - single ops: arithmetic kept to where it is well defined, movement, reductions. */
#include "fuzz/soup_inside.h"

#include <string.h>

/* ---- arithmetic ------------------------------------------------------------------------------------------------ */

/* x * x + more. */
static kn_ref square_plus(soup *s, kn_ref x, double more) {
    return soup_op2(s, KN_OP_ADD, soup_op2(s, KN_OP_MUL, x, x), soup_number(s, soup_dtype(s, x), more));
}

/* Small ones, powers of two, the ends of the dtype. */
static kn_ref integer(soup *s, int dt) {
    int bits = 8 * kn_dsize(dt), k = soup_take(s, 24);
    if (k < 12) return kg_int(s->g, dt, k + 1);
    if (k < 16) return kg_int(s->g, dt, -(k - 11));
    if (k < 20) return kg_int(s->g, dt, INT64_C(1) << soup_take(s, bits - 1));
    if (k < 22) return kg_int(s->g, dt, kn_dtypes[dt].max);
    return kg_int(s->g, dt, kn_dtypes[dt].min);
}

/* A body's floats are not compared or counted: nothing says there whether a last bit decides. */
static bool undecided(const soup *s, kn_ref x) { return s->depth && soup_float(s, x); }

kn_ref soup_unary(soup *s, kn_ref x) {
    int dt = soup_dtype(s, x);
    if (dt == KN_BOOL) return soup_op1(s, KN_OP_NOT, x);
    if (!kn_is_float(dt))
        switch (soup_take(s, 9)) {
        case 0: return soup_op1(s, KN_OP_NEG, x);
        case 1: return soup_op1(s, KN_OP_NOT, x);
        case 2: return soup_op2(s, KN_OP_IDIV, x, integer(s, dt));
        case 3: return soup_op2(s, KN_OP_MOD, x, integer(s, dt));
        case 4: return soup_op2(s, KN_OP_MUL, x, integer(s, dt));
        case 5: return soup_op2(s, KN_OP_ADD, x, integer(s, dt));
        case 6: return soup_op2(s, KN_OP_SHR, x, kg_int(s->g, dt, soup_take(s, 8 * kn_dsize(dt) + 2)));
        case 7: return soup_op2(s, KN_OP_AND, x, integer(s, dt));
        default: return soup_op2(s, KN_OP_XOR, soup_op2(s, KN_OP_SHL, x, kg_int(s->g, dt, soup_take(s, 9))), x);
        }
    switch (soup_take(s, 12)) {
    case 0: return soup_op1(s, KN_OP_NEG, x);
    case 1: return soup_op1(s, KN_OP_SIN, x);
    case 2: return soup_op1(s, KN_OP_EXP2, soup_op1(s, KN_OP_SIN, x));
    case 3: return soup_op1(s, KN_OP_SQRT, square_plus(s, x, 0.5));
    case 4: return soup_op1(s, KN_OP_RECIP, square_plus(s, x, 0.75));
    case 5: return soup_op1(s, KN_OP_LOG2, square_plus(s, x, 0.5));
    case 6:
        if (undecided(s, x)) return soup_op1(s, KN_OP_NEG, x);
        return soup_op1(s, KN_OP_TRUNC, soup_op2(s, KN_OP_MUL, x, soup_number(s, dt, 1.5)));
    case 7: return soup_op2(s, KN_OP_MAX, x, soup_number(s, dt, 0));
    case 8:
        x = soup_op2(s, KN_OP_MIN, square_plus(s, x, 0.5), soup_number(s, dt, 4));
        return soup_op2(s, KN_OP_POW, x, soup_number(s, dt, 1.5));
    case 9: return soup_op2(s, KN_OP_MUL, x, soup_number(s, dt, soup_take(s, 9) / 4.0 - 1));
    case 10: return soup_op2(s, KN_OP_ADD, x, soup_number(s, dt, soup_take(s, 9) / 4.0 - 1));
    default:
        return soup_op2(s, KN_OP_MAX, soup_op2(s, KN_OP_MIN, x, soup_number(s, dt, 2)), soup_number(s, dt, -2));
    }
}

kn_ref soup_compare(soup *s, kn_ref a, kn_ref b) {
    static const int ops[] = {KN_OP_CMPLT, KN_OP_CMPNE, KN_OP_CMPGT, KN_OP_CMPGE, KN_OP_CMPLE, KN_OP_CMPEQ};
    int op = ops[soup_take(s, KN_COUNT(ops))];
    return undecided(s, a) ? soup_op2(s, KN_OP_MIN, a, b) : soup_op2(s, op, a, b);
}

kn_ref soup_binary(soup *s, kn_ref x) {
    kn_ref y  = soup_beside(s, x);
    int    dt = soup_dtype(s, x);
    if (dt == KN_BOOL) {
        static const int ops[] = {KN_OP_AND, KN_OP_OR,  KN_OP_XOR, KN_OP_ADD,
                                  KN_OP_MUL, KN_OP_MAX, KN_OP_MIN, KN_OP_CMPNE};
        return soup_op2(s, ops[soup_take(s, KN_COUNT(ops))], x, y);
    }
    if (!kn_is_float(dt)) {
        static const int ops[] = {KN_OP_ADD, KN_OP_SUB, KN_OP_MUL, KN_OP_MAX, KN_OP_MIN, KN_OP_IDIV,
                                  KN_OP_MOD, KN_OP_XOR, KN_OP_OR,  KN_OP_AND, KN_OP_SHL, KN_OP_SHR};
        int k = soup_take(s, KN_COUNT(ops) + 3);
        if (k == KN_COUNT(ops)) return soup_compare(s, x, y);
        if (k > KN_COUNT(ops)) return kg_op3(s->g, KN_OP_MULACC, x, y, soup_beside(s, x));
        return soup_op2(s, ops[k], x, y);
    }
    switch (soup_take(s, 8)) {
    case 0: return soup_op2(s, KN_OP_ADD, x, y);
    case 1: return soup_op2(s, KN_OP_SUB, x, y);
    case 2: return soup_op2(s, KN_OP_MUL, x, soup_op1(s, KN_OP_SIN, y));
    case 3: return soup_op2(s, KN_OP_MAX, x, y);
    case 4: return soup_op2(s, KN_OP_MIN, x, y);
    case 5: return soup_op2(s, KN_OP_DIV, x, square_plus(s, y, 0.75));
    case 6: return soup_compare(s, x, y);
    default: return kg_op3(s->g, KN_OP_MULACC, soup_op1(s, KN_OP_SIN, x), y, soup_number(s, dt, 0.5));
    }
}

kn_ref soup_choice(soup *s, kn_ref x) {
    kn_ref y = soup_beside(s, x), p = x;
    if (undecided(s, x)) return soup_op2(s, KN_OP_MAX, x, y);
    if (soup_dtype(s, x) != KN_BOOL)
        p = soup_compare(s, x, soup_take(s, 2) ? y : soup_number(s, soup_dtype(s, x), 1));
    return kg_op3(s->g, KN_OP_WHERE, p, x, y);
}

kn_ref soup_convert(soup *s, kn_ref x) {
    int dt = soup_type(s), rank = soup_rank(s, x);
    if (undecided(s, x) && !kn_is_float(dt)) return x;
    if (soup_take(s, 3) == 0 && kn_is_int(soup_dtype(s, x)) && kn_is_int(dt) &&
        (kn_dsize(dt) == kn_dsize(soup_dtype(s, x)) ||
         (rank && soup_fixed(s, x) && soup_dim(s, x, rank - 1) * kn_dsize(soup_dtype(s, x)) % kn_dsize(dt) == 0)))
        return kg_bitcast(s->g, x, dt);
    return kg_cast(s->g, x, dt);
}

/* ---- movement -------------------------------------------------------------------------------------------------- */

/* a + b of dims; -1 where the bounds do not show that it is a size (no variable has that number). */
static int64_t plus(soup *s, int64_t a, int64_t b) {
    int64_t sum = 0;
    if (a >= 0 && a + b >= 0) return a + b;
    return a < 0 && kg_plus(s->g, a, KN_MAX(b, -b), b < 0 ? -1 : 1, &sum) ? sum : -1;
}

static kn_ref pad(soup *s, kn_ref x, int axis, const int64_t *d, int rank) {
    int64_t o[KN_MAX_RANK] = {0}, e[KN_MAX_RANK];
    memcpy(e, d, sizeof e);
    o[axis] = soup_take(s, 3);
    e[axis] = plus(s, d[axis], o[axis] + soup_take(s, 3));
    return e[axis] == -1 ? x : kg_pad(s->g, x, o, e, rank);
}

/* Of a size that is not known a known part, of a known one a part that is not. */
static kn_ref cut(soup *s, kn_ref x, int axis, const int64_t *d, int rank) {
    int64_t o[KN_MAX_RANK] = {0}, e[KN_MAX_RANK];
    kn_ref  v              = s->nvar ? s->var[soup_take(s, s->nvar)] : 0;
    memcpy(e, d, sizeof e);
    if (d[axis] < 0) {
        o[axis] = soup_take(s, 2);
        e[axis] = plus(s, d[axis], -o[axis]);
        if (soup_take(s, 4) == 0 && kg_min(s->g, (kn_ref)-d[axis]) > 0) o[axis] = 0, e[axis] = 1;
        return e[axis] == -1 ? x : kg_shrink(s->g, x, o, e, rank);
    }
    if (v && kg_max(s->g, v) <= d[axis] && soup_take(s, 2)) {
        e[axis] = -(int64_t)v;
        if (kg_max(s->g, v) < d[axis] && soup_take(s, 2)) { /* from there on */
            o[axis] = -(int64_t)v;
            e[axis] = d[axis] - kg_max(s->g, v);
        }
        return kg_shrink(s->g, x, o, e, rank);
    }
    o[axis] = soup_take(s, (int)d[axis] + 1);
    e[axis] = soup_take(s, (int)(d[axis] - o[axis]) + 1);
    return kg_shrink(s->g, x, o, e, rank);
}

/* Every other element, by way of an axis of two. */
static kn_ref every_other(soup *s, kn_ref x, int axis, const int64_t *d, int rank) {
    int64_t o[KN_MAX_RANK] = {0}, e[KN_MAX_RANK];
    if (d[axis] % 2 || !d[axis] || rank > 3 || !soup_fixed(s, x)) return x;
    memcpy(e, d, sizeof e);
    memmove(e + axis + 1, d + axis, (size_t)(rank - axis) * sizeof *e);
    e[axis]     = d[axis] / 2;
    e[axis + 1] = 2;
    x           = kg_reshape(s->g, x, e, rank + 1);
    e[axis + 1] = 1;
    o[axis + 1] = soup_take(s, 2);
    x           = kg_shrink(s->g, x, o, e, rank + 1);
    memcpy(e, d, sizeof e);
    e[axis] = d[axis] / 2;
    return kg_reshape(s->g, x, e, rank);
}

static kn_ref split_axis(soup *s, kn_ref x, int axis, const int64_t *d, int rank) {
    int64_t e[KN_MAX_RANK];
    memcpy(e, d, sizeof e);
    if (!soup_fixed(s, x)) return x;
    for (int64_t f = 2; f <= d[axis] && rank < 4; f++)
        if (d[axis] % f == 0) {
            memmove(e + axis + 1, d + axis, (size_t)(rank - axis) * sizeof *e);
            e[axis]     = d[axis] / f;
            e[axis + 1] = f;
            return kg_reshape(s->g, x, e, rank + 1);
        }
    return x;
}

/* x, which broadcasts to these dims, with all of them. */
static kn_ref as_large(soup *s, kn_ref x, const int64_t *d, int rank) {
    int64_t e[KN_MAX_RANK];
    int     own = soup_rank(s, x);
    for (int i = 0; i < rank; i++) e[i] = i < rank - own ? 1 : soup_dim(s, x, i - (rank - own));
    return kg_expand(s->g, kg_reshape(s->g, x, e, rank), d, rank);
}

kn_ref soup_movement(soup *s, kn_ref x) {
    int     rank = soup_rank(s, x), axis = rank ? soup_take(s, rank) : 0;
    int64_t d[KN_MAX_RANK], o[KN_MAX_RANK] = {0}, e[KN_MAX_RANK], count;
    if (!rank) return kg_reshape(s->g, x, (int64_t[]){1}, 1);
    memset(d, 0, sizeof d);
    memcpy(d, kg_shape(s->g, x, NULL), (size_t)rank * sizeof *d);
    memcpy(e, d, sizeof e);
    switch (soup_take(s, 10)) {
    case 0:
        for (int i = 0; i < rank; i++) o[i] = (i + axis) % rank;
        return kg_permute(s->g, x, o, rank);
    case 1: o[axis] = 1; return kg_flip(s->g, x, o, rank);
    case 2: return split_axis(s, x, axis, d, rank);
    case 3: return pad(s, x, axis, d, rank);
    case 4: return cut(s, x, axis, d, rank);
    case 5: /* a new axis, repeated */
        if (rank > 3) return x;
        memmove(e + axis + 1, d + axis, (size_t)(rank - axis) * sizeof *e);
        e[axis] = 1;
        x       = kg_reshape(s->g, x, e, rank + 1);
        e[axis] = soup_take(s, 5);
        return kg_expand(s->g, x, e, rank + 1);
    case 6: return rank < 4 ? kg_list(s->g, KN_OP_STACK, (kn_ref[]){x, as_large(s, soup_beside(s, x), d, rank)}, 2) : x;
    case 7: count = kg_count_of(s->g, x); return kg_reshape(s->g, x, &count, 1);
    case 8:
        if (d[axis] != 1) return every_other(s, x, axis, d, rank);
        memmove(e + axis, d + axis + 1, (size_t)(rank - axis - 1) * sizeof *e);
        return kg_reshape(s->g, x, e, rank - 1);
    default: return every_other(s, x, axis, d, rank);
    }
}

/* ---- reductions ------------------------------------------------------------------------------------------------ */

kn_ref soup_reduction(soup *s, kn_ref x) {
    static const int ops[] = {KN_OP_ADD, KN_OP_MAX, KN_OP_MIN, KN_OP_ADD, KN_OP_MUL};
    int              rank = soup_rank(s, x), op = ops[soup_take(s, KN_COUNT(ops))], n = 1;
    int64_t          axes[2] = {rank ? soup_take(s, rank) : 0, rank ? soup_take(s, rank) : 0};
    if (!rank) return x;
    if (axes[1] != axes[0] && soup_take(s, 2)) n = 2;
    if (op == KN_OP_ADD || op == KN_OP_MUL) x = soup_sum(s, x);
    bool fl = soup_float(s, x);
    if (op == KN_OP_MUL && fl) x = soup_op1(s, KN_OP_SIN, x);
    kn_ref r = kg_reduce(s->g, x, op, axes, n);
    if (fl && op == KN_OP_ADD) r = soup_op2(s, KN_OP_MUL, r, soup_number(s, soup_dtype(s, r), 0.125));
    return soup_take(s, 2) && soup_dtype(s, x) != KN_BOOL ? soup_op2(s, KN_OP_SUB, x, r) : r;
}

kn_ref soup_count_along(soup *s, kn_ref x) {
    int rank = soup_rank(s, x), dt = soup_dtype(s, x), axis = rank ? soup_take(s, rank) : 0;
    if (!rank || dt == KN_BOOL || kn_dsize(dt) < 2) return x;
    kn_ref i = kg_cast(s->g, soup_counting(s, soup_dim(s, x, axis), rank, axis), dt);
    return soup_op2(s, KN_OP_ADD, x, kn_is_float(dt) ? soup_op2(s, KN_OP_MUL, i, soup_number(s, dt, 0.0625)) : i);
}
