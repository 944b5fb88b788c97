/* soup_parts.c - what programs are made of in groups: products, scans, gathers, folds, windows, random numbers. */
#include "fuzz/soup_inside.h"

#include <math.h>
#include <string.h>

/* The last axis, and all others; 0 where sizes that are not known would have to be multiplied. */
static kn_ref as_matrix(soup *s, kn_ref x) {
    int            rank;
    const int64_t *d = kg_shape(s->g, x, &rank);
    if (rank == 2) return x;
    if (rank == 1) return kg_reshape(s->g, x, (int64_t[]){1, d[0]}, 2);
    if (!soup_fixed(s, x)) return 0;
    int64_t k = rank ? d[rank - 1] : 1, n = kg_numel(s->g, x);
    return kg_reshape(s->g, x, (int64_t[]){k ? n / k : 0, k}, 2);
}

kn_ref soup_product(soup *s, kn_ref x) {
    kn_ref a = as_matrix(s, soup_sum(s, x));
    if (!a || !soup_float(s, a)) return x;
    int     dt = soup_dtype(s, a);
    int64_t m = soup_dim(s, a, 0), k = soup_dim(s, a, 1), n = soup_size(s), axis = 1;
    if (kg_most_of(s->g, m) * kg_most_of(s->g, k) * kg_most_of(s->g, n) > SOUP_INNER) return x;
    kn_ref w = soup_op2(s, KN_OP_MUL, soup_param(s, dt, (int64_t[]){k, n}, 2), soup_number(s, dt, 0.25));
    kn_ref y = soup_op2(s, KN_OP_MUL, kg_reshape(s->g, a, (int64_t[]){m, k, 1}, 3),
                        kg_reshape(s->g, w, (int64_t[]){1, k, n}, 3));
    return kg_reshape(s->g, kg_reduce(s->g, y, KN_OP_ADD, &axis, 1), (int64_t[]){m, n}, 2);
}

kn_ref soup_softmax(soup *s, kn_ref x) {
    x           = soup_sum(s, x);
    int     dt = soup_dtype(s, x), rank = soup_rank(s, x);
    int64_t axis = rank ? soup_take(s, rank) : 0;
    if (!kn_is_float(dt) || !rank || !kg_most(s->g, x)) return x;
    x        = soup_op2(s, KN_OP_MAX, soup_op2(s, KN_OP_MIN, x, soup_number(s, dt, 4)), soup_number(s, dt, -4));
    kn_ref e = soup_op1(s, KN_OP_EXP2, soup_op2(s, KN_OP_SUB, x, kg_reduce(s->g, x, KN_OP_MAX, &axis, 1)));
    return soup_op2(s, KN_OP_DIV, e, kg_reduce(s->g, e, KN_OP_ADD, &axis, 1));
}

/* Sums along a mask of two counts: prefix sums either way, bands, triangles. */
kn_ref soup_masked_sum(soup *s, kn_ref x) {
    static const int ops[] = {KN_OP_CMPLE, KN_OP_CMPLT, KN_OP_CMPGE, KN_OP_CMPGT};
    int64_t          axis  = 2;
    kn_ref           a     = as_matrix(s, soup_sum(s, x));
    if (!a) return x;
    int     dt = soup_dtype(s, a);
    int64_t m = soup_dim(s, a, 0), k = soup_dim(s, a, 1), mk = kg_most_of(s->g, k);
    if (dt == KN_BOOL || kg_most_of(s->g, m) * mk * mk > SOUP_INNER || !k) return x;
    kn_ref i  = kg_reshape(s->g, soup_counting(s, k, 1, 0), (int64_t[]){1, k, 1}, 3),
           j  = kg_reshape(s->g, soup_counting(s, k, 1, 0), (int64_t[]){1, 1, k}, 3);
    kn_ref in = soup_op2(s, ops[soup_take(s, 4)], j, i);
    if (soup_take(s, 3) == 0)
        in = soup_op2(s, KN_OP_AND, in, soup_op2(s, KN_OP_CMPLT, soup_op2(s, KN_OP_SUB, i, kg_idx(s->g, 3)), j));
    int how = soup_take(s, 5), op = how > 2 ? (how == 3 ? KN_OP_MAX : KN_OP_MIN) : KN_OP_ADD;
    a = kg_reshape(s->g, a, (int64_t[]){m, 1, k}, 3);
    if (how == 0) a = soup_op2(s, KN_OP_MUL, a, soup_param(s, dt, (int64_t[]){1, k, k}, 3)); /* still along neither */
    if (kn_is_float(dt)) a = soup_op2(s, KN_OP_MUL, a, soup_number(s, dt, 0.25));
    kn_ref none = kg_identity(s->g, op, dt);
    if (kn_is_float(dt) && op == KN_OP_MIN) none = soup_number(s, dt, 7); /* and one that is no identity */
    kn_ref all = kg_op3(s->g, KN_OP_WHERE, in, a, none);
    return kg_reshape(s->g, kg_reduce(s->g, all, op, &axis, 1), (int64_t[]){m, k}, 2);
}

/* ---- gathers --------------------------------------------------------------------------------------------------- */

/* Row numbers below k: of a PARAM, or computed from what is there. */
static kn_ref row_numbers(soup *s, int64_t k, int64_t *n) {
    kn_ref i = soup_any(s);
    if (soup_take(s, 2) && kn_is_int(soup_dtype(s, i)) && soup_dtype(s, i) != KN_U64 && soup_rank(s, i) == 1) {
        *n = soup_dim(s, i, 0);
        i  = kg_cast(s->g, i, KN_I64);
        return soup_op2(s, KN_OP_MOD, i, kg_int(s->g, KN_I64, k));
    }
    *n = s->nvar && soup_take(s, 3) == 0 ? -(int64_t)s->var[0] : 1 + soup_take(s, 9);
    return soup_op2(s, KN_OP_MOD, soup_param(s, KN_I32, n, 1), kg_int(s->g, KN_I32, k));
}

kn_ref soup_gather(soup *s, kn_ref x) {
    int64_t n, axis = 1;
    if (!soup_rank(s, x) || !soup_fixed(s, x) || !kg_numel(s->g, x)) return x;
    x         = soup_sum(s, x);
    int64_t k = soup_dim(s, x, 0);
    kn_ref  i = row_numbers(s, k, &n);
    int     how = soup_take(s, 5);
    if (how < 2) return kg_index(s->g, x, (kn_ref[]){kg_cast(s->g, i, KN_INDEX)}, 1);
    if (how == 2 && soup_rank(s, x) > 1) { /* by two: numbers that go together */
        kn_ref j = soup_op2(s, KN_OP_MOD, i, kg_int(s->g, soup_dtype(s, i), soup_dim(s, x, 1)));
        j        = kg_cast(s->g, j, KN_INDEX);
        return kg_index(s->g, x, (kn_ref[]){kg_cast(s->g, i, KN_INDEX), j}, 2);
    }
    x         = kg_reshape(s->g, x, (int64_t[]){k, kg_numel(s->g, x) / k}, 2);
    int64_t w = soup_dim(s, x, 1);
    if (kg_most_of(s->g, n) * k * w > SOUP_INNER || soup_dtype(s, x) == KN_BOOL) return x;
    kn_ref v   = kg_cast(s->g, soup_counting(s, k, 1, 0), soup_dtype(s, i));
    kn_ref hit = soup_op2(s, KN_OP_CMPEQ, kg_reshape(s->g, v, (int64_t[]){1, k, 1}, 3),
                          kg_reshape(s->g, i, (int64_t[]){n, 1, 1}, 3));
    kn_ref all = kg_op3(s->g, KN_OP_WHERE, hit, kg_reshape(s->g, x, (int64_t[]){1, k, w}, 3),
                        soup_number(s, soup_dtype(s, x), 0));
    if (how == 4) axis = 0; /* how often each row was meant */
    return kg_reduce(s->g, all, KN_OP_ADD, &axis, 1);
}

/* ---- folds ----------------------------------------------------------------------------------------------------- */

typedef struct folding {
    kn_ref combine[KN_MAX_FOLD], identity[KN_MAX_FOLD], element[KN_MAX_FOLD], a[KN_MAX_FOLD], b[KN_MAX_FOLD];
    int    n;
} folding;

static void fold_over(soup *s, folding *f, int k, kn_ref element, int n) {
    int dt        = soup_dtype(s, element);
    f->element[k] = element;
    f->a[k]       = kg_fold_param(s->g, k, dt);
    f->b[k]       = kg_fold_param(s->g, n + k, dt);
    f->n          = n;
}

/* The largest and where it first stands. */
static void fold_argmax(soup *s, folding *f, kn_ref x, int axis) {
    int            rank, dt = soup_dtype(s, x);
    const int64_t *d  = kg_shape(s->g, x, &rank);
    int            it = soup_take(s, 2) ? KN_I32 : KN_I64;
    kn_ref         i  = kg_expand(s->g, kg_cast(s->g, soup_counting(s, d[axis], rank, axis), it), d, rank);
    fold_over(s, f, 0, x, 2);
    fold_over(s, f, 1, i, 2);
    kn_ref same = soup_op2(s, KN_OP_AND, soup_op2(s, KN_OP_CMPEQ, f->a[0], f->b[0]),
                           soup_op2(s, KN_OP_CMPLT, f->b[1], f->a[1]));
    kn_ref take = soup_op2(s, KN_OP_OR, soup_op2(s, KN_OP_CMPLT, f->a[0], f->b[0]), same);
    for (int k = 0; k < 2; k++) f->combine[k] = kg_op3(s->g, KN_OP_WHERE, take, f->b[k], f->a[k]);
    f->identity[0] = kg_identity(s->g, KN_OP_MAX, dt);
    f->identity[1] = kg_int(s->g, it, kn_dtypes[it].max);
}

/* Mean and squared distances in one pass, joined as Chan, Golub and LeVeque (1979) do. */
static void fold_moments(soup *s, folding *f, kn_ref x) {
    int            rank, dt = soup_dtype(s, x);
    const int64_t *d   = kg_shape(s->g, x, &rank);
    int64_t        one[KN_MAX_RANK] = {1, 1, 1, 1};
    kn_ref         c[2];
    for (int k = 0; k < 2; k++) c[k] = kg_expand(s->g, kg_reshape(s->g, soup_number(s, dt, k), one, rank), d, rank);
    fold_over(s, f, 0, c[1], 3);
    fold_over(s, f, 1, x, 3);
    fold_over(s, f, 2, c[0], 3);
    kn_ref n = soup_op2(s, KN_OP_ADD, f->a[0], f->b[0]), step = soup_op2(s, KN_OP_SUB, f->b[1], f->a[1]);
    kn_ref w = soup_op2(s, KN_OP_DIV, f->b[0], soup_op2(s, KN_OP_MAX, n, soup_number(s, dt, 1)));
    kn_ref square = soup_op2(s, KN_OP_MUL, soup_op2(s, KN_OP_MUL, step, step), f->a[0]);
    f->combine[0] = n;
    f->combine[1] = soup_op2(s, KN_OP_ADD, f->a[1], soup_op2(s, KN_OP_MUL, step, w));
    f->combine[2] = soup_op2(s, KN_OP_ADD, soup_op2(s, KN_OP_ADD, f->a[2], f->b[2]), soup_op2(s, KN_OP_MUL, square, w));
    for (int k = 0; k < 3; k++) f->identity[k] = soup_number(s, dt, 0);
}

/* Reductions that have nothing to do with each other, of several dtypes, side by side. */
static void fold_several(soup *s, folding *f, kn_ref x) {
    static const int ops[] = {KN_OP_ADD, KN_OP_MAX, KN_OP_MIN, KN_OP_XOR, KN_OP_OR};
    int              n     = 1 + soup_take(s, 3);
    for (int k = 0; k < n; k++) {
        kn_ref y = soup_sum(s, k ? kg_cast(s->g, x, soup_type(s)) : x);
        if (soup_dtype(s, y) == KN_BOOL) y = kg_cast(s->g, y, KN_U8);
        int op = ops[soup_take(s, soup_float(s, y) ? 3 : 5)], dt = soup_dtype(s, y);
        fold_over(s, f, k, y, n);
        f->combine[k]  = soup_op2(s, op, f->a[k], f->b[k]);
        f->identity[k] = op == KN_OP_XOR || op == KN_OP_OR ? kg_int(s->g, dt, 0) : kg_identity(s->g, op, dt);
    }
}

kn_ref soup_fold(soup *s, kn_ref x) {
    folding f    = {.n = 0};
    int     rank = soup_rank(s, x), kind = soup_take(s, 3);
    if (!rank || !kg_most(s->g, x)) return x;
    x            = soup_sum(s, x);
    int64_t axis = soup_take(s, rank);
    if (kind == 0 && soup_dtype(s, x) != KN_BOOL) fold_argmax(s, &f, x, (int)axis);
    else if (kind == 1 && soup_float(s, x)) fold_moments(s, &f, x);
    else fold_several(s, &f, x);
    kn_ref all = kg_fold(s->g, kg_list(s->g, KN_OP_TUPLE, f.combine, f.n), f.identity, f.element, f.n, &axis, 1);
    if (f.n > 1 && soup_take(s, 2)) soup_keep(s, kg_element(s->g, all, soup_take(s, f.n)));
    return kg_element(s->g, all, soup_take(s, f.n));
}

/* ---- others ---------------------------------------------------------------------------------------------------- */

/* All runs of w elements along the last axis, as rows; some reduced. By the classic reshape of a repeated axis. */
kn_ref soup_windows(soup *s, kn_ref x) {
    kn_ref  a = as_matrix(s, x);
    int64_t w = 1 + soup_take(s, 4), axis = 2;
    if (!a || !soup_fixed(s, a)) return x;
    int64_t m = soup_dim(s, a, 0), k = soup_dim(s, a, 1);
    if (k < w || m * k * (w + 1) > SOUP_MOST) return x;
    int64_t runs = k - w + 1;
    a            = kg_expand(s->g, kg_reshape(s->g, a, (int64_t[]){m, 1, k}, 3), (int64_t[]){m, w + 1, k}, 3);
    a            = kg_reshape(s->g, a, (int64_t[]){m, (w + 1) * k}, 2);
    a            = kg_shrink(s->g, a, (int64_t[]){0, 0}, (int64_t[]){m, w * (k + 1)}, 2);
    a            = kg_reshape(s->g, a, (int64_t[]){m, w, k + 1}, 3);
    a            = kg_shrink(s->g, a, (int64_t[]){0, 0, 0}, (int64_t[]){m, w, runs}, 3);
    a            = kg_permute(s->g, a, (int64_t[]){0, 2, 1}, 3);
    switch (soup_take(s, 4)) {
    case 0: return a;
    case 1: a = kg_reduce(s->g, a, KN_OP_MAX, &axis, 1); break;
    default:
        a = soup_sum(s, a);
        if (soup_take(s, 2) && soup_dtype(s, a) != KN_BOOL)
            a = soup_op2(s, KN_OP_MUL, a, soup_param(s, soup_dtype(s, a), (int64_t[]){1, 1, w}, 3));
        a = kg_reduce(s->g, a, KN_OP_ADD, &axis, 1);
    }
    return kg_reshape(s->g, a, (int64_t[]){m, runs}, 2);
}

/* Two values end to end: each padded to the length of both. */
kn_ref soup_join(soup *s, kn_ref x) {
    int     rank = soup_rank(s, x), axis = rank ? soup_take(s, rank) : 0;
    int64_t d[KN_MAX_RANK], o[KN_MAX_RANK] = {0}, both[KN_MAX_RANK];
    if (!rank || soup_dtype(s, x) == KN_BOOL) return x;
    memcpy(d, kg_shape(s->g, x, NULL), (size_t)rank * sizeof *d);
    memcpy(both, d, sizeof both);
    d[axis] = 1 + soup_take(s, 5);
    if (!kg_plus(s->g, both[axis], d[axis], 1, &both[axis])) return x;
    kn_ref y = soup_param(s, soup_dtype(s, x), d, rank);
    kn_ref a = kg_pad(s->g, x, o, both, rank);
    o[axis]  = soup_dim(s, x, axis);
    return soup_op2(s, KN_OP_ADD, a, kg_pad(s->g, y, o, both, rank));
}

kn_ref soup_random(soup *s, kn_ref x) {
    int64_t n = 1 + soup_take(s, 20), none = 0;
    kn_ref  i = kg_cast(s->g, soup_counting(s, n, 1, 0), KN_U64);
    if (soup_take(s, 2) && soup_rank(s, x) == 1 && kn_is_int(soup_dtype(s, x))) i = kg_cast(s->g, x, KN_U64);
    kn_ref key  = soup_take(s, 2) ? kg_int(s->g, KN_U64, soup_take(s, 99)) : soup_param(s, KN_U64, &none, 0);
    kn_ref bits = soup_op2(s, KN_OP_THREEFRY, i, key);
    if (soup_take(s, 2)) return bits;
    bits = kg_cast(s->g, soup_op2(s, KN_OP_SHR, bits, kg_int(s->g, KN_U64, 40)), KN_F32);
    return soup_op2(s, KN_OP_MUL, bits, soup_number(s, KN_F32, 0x1p-24));
}
