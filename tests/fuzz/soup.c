/* soup.c - bytes into tensor programs: each step takes values that are there and adds one. */
#include "fuzz/soup.h"

#include <string.h>

enum { POOL = 24, MOST = 2500, MOST_INNER = 40000, MAX_STEPS = 24 };

typedef struct soup {
    kn_graph      *g;
    const uint8_t *at, *end;
    kn_ref         pool[POOL];
    int            n, slots;
} soup;

static int take(soup *s, int n) { return s->at < s->end ? *s->at++ % n : 0; }

static int64_t take_size(soup *s) {
    static const int64_t sizes[] = {4, 1, 2, 3, 5, 7, 8, 16, 17, 33, 0, 6, 12, 40};
    return sizes[take(s, KN_COUNT(sizes))];
}

static int rank_of(const soup *s, kn_ref x) { return kg_rank(s->g, x); }
static int64_t dim(const soup *s, kn_ref x, int a) { return kg_shape(s->g, x, NULL)[a]; }
static int type_of(const soup *s, kn_ref x) { return kg_dtype(s->g, x); }

static int take_shape(soup *s, int64_t *d) {
    int     rank = 1 + take(s, 3);
    int64_t n    = 1;
    for (int i = 0; i < rank; i++) {
        d[i] = take_size(s);
        if (n * d[i] > MOST / 4) d[i] = 2;
        n *= KN_MAX(d[i], 1);
    }
    return rank;
}

static const int soup_types[] = {KN_F32, KN_I32, KN_F64, KN_I64, KN_BOOL, KN_U8,  KN_I8,     KN_I16,
                                 KN_U16, KN_U32, KN_U64, KN_F16, KN_BF16, KN_F32, KN_F8E4M3, KN_F8E5M2};

static kn_ref number(soup *s, int dt, double v) {
    return kn_is_float(dt) ? kg_float(s->g, dt, v) : kg_int(s->g, dt, (int64_t)v);
}

static kn_ref param(soup *s, int dt, const int64_t *d, int rank) { return kg_param(s->g, s->slots++, dt, d, rank); }

static kn_ref any(soup *s) { return s->pool[take(s, s->n)]; }

static void keep(soup *s, kn_ref x) {
    if (!x || kg_numel(s->g, x) > MOST || rank_of(s, x) > 4) return;
    if (s->n < POOL) s->pool[s->n++] = x;
    else s->pool[1 + take(s, POOL - 1)] = x;
}

/* A value of the pool of x's dtype that broadcasts to x, or a PARAM made for it. */
static kn_ref beside(soup *s, kn_ref x) {
    int64_t        d[KN_MAX_RANK];
    int            rank;
    const int64_t *to  = kg_shape(s->g, x, &rank);
    kn_ref         y   = any(s);
    bool           fit = type_of(s, y) == type_of(s, x) && rank_of(s, y) <= rank;
    for (int a = 0, drop = rank - rank_of(s, y); fit && a < rank_of(s, y); a++)
        fit = dim(s, y, a) == 1 || dim(s, y, a) == to[a + drop];
    if (fit) return y;
    int how = take(s, 8), from = how == 7 && rank ? take(s, rank) : 0;
    for (int a = from; a < rank; a++) d[a - from] = how >> (a % 2) & 1 && how < 4 ? 1 : to[a];
    return param(s, type_of(s, x), d, rank - from);
}

static kn_ref op1(soup *s, int op, kn_ref a) { return kg_op1(s->g, op, a); }
static kn_ref op2(soup *s, int op, kn_ref a, kn_ref b) { return kg_op2(s->g, op, a, b); }

static kn_ref square_plus(soup *s, kn_ref x, double more) {
    return op2(s, KN_OP_ADD, op2(s, KN_OP_MUL, x, x), number(s, type_of(s, x), more));
}

static kn_ref unary(soup *s, kn_ref x) {
    int dt = type_of(s, x);
    if (dt == KN_BOOL) return op1(s, KN_OP_NOT, x);
    if (!kn_is_float(dt))
        switch (take(s, 4)) {
        case 0: return op1(s, KN_OP_NEG, x);
        case 1: return op1(s, KN_OP_NOT, x);
        case 2: return op2(s, KN_OP_IDIV, x, number(s, dt, 1 + take(s, 9)));
        default: return op2(s, KN_OP_MOD, x, number(s, dt, 1 + take(s, 9)));
        }
    switch (take(s, 12)) {
    case 0: return op1(s, KN_OP_NEG, x);
    case 1: return op1(s, KN_OP_SIN, x);
    case 2: return op1(s, KN_OP_EXP2, op1(s, KN_OP_SIN, x));
    case 3: return op1(s, KN_OP_SQRT, square_plus(s, x, 0.5));
    case 4: return op1(s, KN_OP_RECIP, square_plus(s, x, 0.75));
    case 5: return op1(s, KN_OP_LOG2, square_plus(s, x, 0.5));
    case 6: return op1(s, KN_OP_TRUNC, op2(s, KN_OP_MUL, x, number(s, dt, 1.5)));
    case 7: return op2(s, KN_OP_MAX, x, number(s, dt, 0));
    case 8: return op2(s, KN_OP_POW, op2(s, KN_OP_MIN, square_plus(s, x, 0.5), number(s, dt, 4)), number(s, dt, 1.5));
    case 9: return op2(s, KN_OP_MUL, x, number(s, dt, take(s, 9) / 4.0 - 1));
    case 10: return op2(s, KN_OP_ADD, x, number(s, dt, take(s, 9) / 4.0 - 1));
    default: return op2(s, KN_OP_MAX, op2(s, KN_OP_MIN, x, number(s, dt, 2)), number(s, dt, -2));
    }
}

static kn_ref compare(soup *s, kn_ref a, kn_ref b) {
    static const int ops[] = {KN_OP_CMPLT, KN_OP_CMPNE, KN_OP_CMPGT, KN_OP_CMPGE, KN_OP_CMPLE, KN_OP_CMPEQ};
    return op2(s, ops[take(s, KN_COUNT(ops))], a, b);
}

static kn_ref binary(soup *s, kn_ref x) {
    kn_ref y  = beside(s, x);
    int    dt = type_of(s, x);
    if (dt == KN_BOOL) {
        static const int ops[] = {KN_OP_AND, KN_OP_OR, KN_OP_XOR, KN_OP_ADD,
                                  KN_OP_MUL, KN_OP_MAX, KN_OP_MIN, KN_OP_CMPNE};
        return op2(s, ops[take(s, KN_COUNT(ops))], x, y);
    }
    if (!kn_is_float(dt)) {
        static const int ops[] = {KN_OP_ADD, KN_OP_SUB, KN_OP_MUL, KN_OP_MAX, KN_OP_MIN, KN_OP_IDIV,
                                  KN_OP_MOD, KN_OP_XOR, KN_OP_OR,  KN_OP_AND, KN_OP_SHL, KN_OP_SHR};
        return op2(s, ops[take(s, KN_COUNT(ops))], x, y);
    }
    switch (take(s, 7)) {
    case 0: return op2(s, KN_OP_ADD, x, y);
    case 1: return op2(s, KN_OP_SUB, x, y);
    case 2: return op2(s, KN_OP_MUL, x, op1(s, KN_OP_SIN, y));
    case 3: return op2(s, KN_OP_MAX, x, y);
    case 4: return op2(s, KN_OP_MIN, x, y);
    case 5: return op2(s, KN_OP_DIV, x, square_plus(s, y, 0.75));
    default: return kg_op3(s->g, KN_OP_MULACC, op1(s, KN_OP_SIN, x), y, number(s, dt, 0.5));
    }
}

static kn_ref choice(soup *s, kn_ref x) {
    kn_ref y = beside(s, x), p = x;
    if (type_of(s, x) != KN_BOOL) p = compare(s, x, take(s, 2) ? y : number(s, type_of(s, x), 1));
    return kg_op3(s->g, KN_OP_WHERE, p, x, y);
}

static kn_ref movement(soup *s, kn_ref x) {
    int     rank = rank_of(s, x), axis = rank ? take(s, rank) : 0;
    int64_t d[KN_MAX_RANK], o[KN_MAX_RANK] = {0}, e[KN_MAX_RANK];
    if (!rank) return kg_reshape(s->g, x, (int64_t[]){1}, 1);
    memcpy(d, kg_shape(s->g, x, NULL), (size_t)rank * sizeof *d);
    memcpy(e, d, sizeof e);
    switch (take(s, 9)) {
    case 0:
        for (int i = 0; i < rank; i++) o[i] = (i + axis) % rank;
        return kg_permute(s->g, x, o, rank);
    case 1: o[axis] = 1; return kg_flip(s->g, x, o, rank);
    case 2:
        for (int64_t f = 2; f <= d[axis] && rank < 4; f++)
            if (d[axis] % f == 0) {
                memmove(e + axis + 1, d + axis, (size_t)(rank - axis) * sizeof *e);
                e[axis]     = d[axis] / f;
                e[axis + 1] = f;
                return kg_reshape(s->g, x, e, rank + 1);
            }
        return kg_reshape(s->g, x, (int64_t[]){kg_numel(s->g, x)}, 1);
    case 3:
        o[axis] = take(s, 3);
        e[axis] = d[axis] + o[axis] + take(s, 3);
        return kg_pad(s->g, x, o, e, rank);
    case 4:
        o[axis] = take(s, (int)d[axis] + 1);
        e[axis] = take(s, (int)(d[axis] - o[axis]) + 1);
        return kg_shrink(s->g, x, o, e, rank);
    case 5: /* a new axis, repeated */
        if (rank > 3) return x;
        memmove(e + axis + 1, d + axis, (size_t)(rank - axis) * sizeof *e);
        e[axis] = 1;
        x       = kg_reshape(s->g, x, e, rank + 1);
        e[axis] = take(s, 5);
        return kg_expand(s->g, x, e, rank + 1);
    case 6: return rank < 4 ? kg_list(s->g, KN_OP_STACK, (kn_ref[]){x, unary(s, x)}, 2) : x;
    case 7: return kg_reshape(s->g, x, (int64_t[]){kg_numel(s->g, x)}, 1);
    default: /* every other element, by way of an axis of two */
        if (d[axis] % 2 || !d[axis] || rank > 3) return x;
        memmove(e + axis + 1, d + axis, (size_t)(rank - axis) * sizeof *e);
        e[axis]     = d[axis] / 2;
        e[axis + 1] = 2;
        x           = kg_reshape(s->g, x, e, rank + 1);
        e[axis + 1] = 1;
        o[axis + 1] = take(s, 2);
        for (int i = 0; i <= rank; i++) o[i] = i == axis + 1 ? o[i] : 0;
        x = kg_shrink(s->g, x, o, e, rank + 1);
        memcpy(e, d, sizeof e);
        e[axis] = d[axis] / 2;
        return kg_reshape(s->g, x, e, rank);
    }
}

/* Sums of narrow floats differ with their order by more than any tolerance: they are summed as f32. */
static kn_ref to_sum(soup *s, kn_ref x) {
    return kn_is_float(type_of(s, x)) && kn_dsize(type_of(s, x)) < 4 ? kg_cast(s->g, x, KN_F32) : x;
}

static kn_ref reduction(soup *s, kn_ref x) {
    static const int ops[] = {KN_OP_ADD, KN_OP_MAX, KN_OP_MIN, KN_OP_ADD, KN_OP_MUL};
    int              rank = rank_of(s, x), op = ops[take(s, KN_COUNT(ops))], n = 1;
    int64_t          axes[2] = {rank ? take(s, rank) : 0, rank ? take(s, rank) : 0};
    if (!rank) return x;
    if (axes[1] != axes[0] && take(s, 2)) n = 2;
    if (op == KN_OP_ADD || op == KN_OP_MUL) x = to_sum(s, x);
    bool fl = kn_is_float(type_of(s, x));
    if (op == KN_OP_MUL && fl) x = op1(s, KN_OP_SIN, x);
    kn_ref r = kg_reduce(s->g, x, op, axes, n);
    if (fl && op == KN_OP_ADD) r = op2(s, KN_OP_MUL, r, number(s, type_of(s, r), 0.125));
    return take(s, 2) && type_of(s, x) != KN_BOOL ? op2(s, KN_OP_SUB, x, r) : r;
}

/* Elements 0, 1, ... along the last axis of a rank. */
static kn_ref counting(soup *s, int64_t n, int rank) { return kg_iota(s->g, n, 0, KN_AXIS_LOOP, rank, rank - 1); }

static kn_ref as_matrix(soup *s, kn_ref x) { /* the last axis, and all others */
    int     rank = rank_of(s, x);
    int64_t k    = rank ? dim(s, x, rank - 1) : 1, n = kg_numel(s->g, x);
    return kg_reshape(s->g, x, (int64_t[]){k ? n / k : 0, k}, 2);
}

static kn_ref product(soup *s, kn_ref x) {
    x         = as_matrix(s, to_sum(s, x));
    int64_t m = dim(s, x, 0), k = dim(s, x, 1), n = take_size(s);
    if (!kn_is_float(type_of(s, x)) || m * k * n > MOST_INNER) return x;
    kn_ref w = op2(s, KN_OP_MUL, param(s, type_of(s, x), (int64_t[]){k, n}, 2), number(s, type_of(s, x), 0.25));
    kn_ref y = op2(s, KN_OP_MUL, kg_reshape(s->g, x, (int64_t[]){m, k, 1}, 3),
                   kg_reshape(s->g, w, (int64_t[]){1, k, n}, 3));
    int64_t axis = 1;
    return kg_reshape(s->g, kg_reduce(s->g, y, KN_OP_ADD, &axis, 1), (int64_t[]){m, n}, 2);
}

static kn_ref softmax(soup *s, kn_ref x) {
    int64_t axis = 1;
    x            = as_matrix(s, to_sum(s, x));
    int dt       = type_of(s, x);
    if (!kn_is_float(dt) || !kg_numel(s->g, x)) return x;
    x        = op2(s, KN_OP_MAX, op2(s, KN_OP_MIN, x, number(s, dt, 4)), number(s, dt, -4));
    kn_ref e = op1(s, KN_OP_EXP2, op2(s, KN_OP_SUB, x, kg_reduce(s->g, x, KN_OP_MAX, &axis, 1)));
    return op2(s, KN_OP_DIV, e, kg_reduce(s->g, e, KN_OP_ADD, &axis, 1));
}

/* Sums along a mask of two counts: prefix sums either way, bands, triangles. */
static kn_ref masked_sum(soup *s, kn_ref x) {
    static const int ops[] = {KN_OP_CMPLE, KN_OP_CMPLT, KN_OP_CMPGE, KN_OP_CMPGT};
    int64_t          axis  = 2;
    x                      = as_matrix(s, to_sum(s, x));
    int     dt             = type_of(s, x);
    int64_t m = dim(s, x, 0), k = dim(s, x, 1);
    if (dt == KN_BOOL || m * k * k > MOST_INNER || !k) return x;
    kn_ref i  = kg_reshape(s->g, counting(s, k, 1), (int64_t[]){1, k, 1}, 3),
           j  = kg_reshape(s->g, counting(s, k, 1), (int64_t[]){1, 1, k}, 3);
    kn_ref in = op2(s, ops[take(s, 4)], j, i);
    if (take(s, 3) == 0) in = op2(s, KN_OP_AND, in, op2(s, KN_OP_CMPLT, op2(s, KN_OP_SUB, i, kg_idx(s->g, 3)), j));
    int how = take(s, 4), op = how == 3 && kn_is_float(dt) ? KN_OP_MAX : KN_OP_ADD;
    if (how == 0 && m) { /* what stands still along neither */
        kn_ref a = param(s, dt, (int64_t[]){1, k, k}, 3);
        x        = op2(s, KN_OP_MUL, kg_reshape(s->g, x, (int64_t[]){m, 1, k}, 3), a);
    } else {
        x = kg_reshape(s->g, x, (int64_t[]){m, 1, k}, 3);
    }
    if (kn_is_float(dt)) x = op2(s, KN_OP_MUL, x, number(s, dt, 0.25));
    kn_ref all = kg_op3(s->g, KN_OP_WHERE, in, x, number(s, dt, op == KN_OP_MAX ? -1.0 / 0.0 : 0));
    return kg_reshape(s->g, kg_reduce(s->g, all, op, &axis, 1), (int64_t[]){m, k}, 2);
}

static kn_ref gather(soup *s, kn_ref x) {
    if (!rank_of(s, x) || !kg_numel(s->g, x)) return x;
    x         = to_sum(s, x);
    int64_t k = dim(s, x, 0), n = 1 + take(s, 9);
    kn_ref  i = param(s, KN_I32, &n, 1);
    i         = op2(s, KN_OP_MOD, i, kg_int(s->g, KN_I32, k));
    if (take(s, 2)) return kg_index(s->g, x, (kn_ref[]){kg_cast(s->g, i, KN_INDEX)}, 1);
    x        = kg_reshape(s->g, x, (int64_t[]){k, kg_numel(s->g, x) / k}, 2);
    int64_t w = dim(s, x, 1), axis = 1;
    if (n * k * w > MOST_INNER || type_of(s, x) == KN_BOOL) return x;
    kn_ref v   = kg_cast(s->g, counting(s, k, 1), KN_I32);
    kn_ref hit = op2(s, KN_OP_CMPEQ, kg_reshape(s->g, v, (int64_t[]){1, k, 1}, 3),
                     kg_reshape(s->g, i, (int64_t[]){n, 1, 1}, 3));
    kn_ref all = kg_op3(s->g, KN_OP_WHERE, hit, kg_reshape(s->g, x, (int64_t[]){1, k, w}, 3),
                        number(s, type_of(s, x), 0));
    if (take(s, 2)) axis = 0; /* how often each row was meant */
    return kg_reduce(s->g, all, KN_OP_ADD, &axis, 1);
}

static kn_ref other_type(soup *s, kn_ref x) {
    int dt = soup_types[take(s, KN_COUNT(soup_types))];
    if (take(s, 5) == 0 && kn_dsize(dt) == kn_dsize(type_of(s, x)) && kn_is_int(type_of(s, x)) &&
        kn_is_int(dt))
        return kg_bitcast(s->g, x, dt);
    return kg_cast(s->g, x, dt);
}

static kn_ref count_along(soup *s, kn_ref x) {
    int rank = rank_of(s, x), dt = type_of(s, x);
    if (!rank || dt == KN_BOOL || kn_dsize(dt) < 2) return x;
    kn_ref i = kg_cast(s->g, counting(s, dim(s, x, rank - 1), rank), dt);
    return op2(s, KN_OP_ADD, x, kn_is_float(dt) ? op2(s, KN_OP_MUL, i, number(s, dt, 0.0625)) : i);
}

static kn_ref step(soup *s) {
    kn_ref  x = any(s);
    int64_t d[KN_MAX_RANK];
    switch (take(s, 22)) {
    case 0: case 1: case 2: return unary(s, x);
    case 3: case 4: case 5: case 6: return binary(s, x);
    case 7: return choice(s, x);
    case 8: return other_type(s, x);
    case 9: case 10: case 11: return movement(s, x);
    case 12: case 13: return reduction(s, x);
    case 14: return product(s, x);
    case 15: return softmax(s, x);
    case 16: return masked_sum(s, x);
    case 17: return gather(s, x);
    case 18: return count_along(s, x);
    case 19: return kg_load_to(s->g, x, 0, take(s, 2) ? KN_LOCAL : KN_GLOBAL);
    case 20: return op1(s, KN_OP_DETACH, x);
    default: {
        int rank = take_shape(s, d);
        return param(s, soup_types[take(s, KN_COUNT(soup_types))], d, rank);
    }
    }
}

/* PARAMs numbered without gaps: not every one that was made is used. */
static kn_ref dense(kn_graph *g, kn_ref root) {
    kn_ref  *order, from[256], to[256];
    uint32_t count;
    int      n = 0;
    if (!kg_reach(g, &root, 1, &order, &count)) return 0;
    for (uint32_t i = 0; i < count && n < KN_COUNT(from); i++) {
        if (kg_op(g, order[i]) != KN_OP_PARAM) continue;
        int            rank;
        const int64_t *d = kg_shape(g, order[i], &rank);
        from[n]          = order[i];
        to[n]            = kg_param(g, n, kg_dtype(g, order[i]), d, rank);
        n++;
    }
    kn_free(kg_alloc(g), order, count * sizeof *order);
    return kg_substitute(g, root, from, to, n);
}

kn_ref soup_cook(kn_graph *g, const uint8_t *bytes, size_t n) {
    soup    s = {.g = g, .at = bytes, .end = bytes + n};
    int64_t d[KN_MAX_RANK];
    int     rank = take_shape(&s, d);
    s.pool[s.n++] = param(&s, soup_types[take(&s, 4)], d, rank);
    for (int i = 0; i < MAX_STEPS && s.at < s.end && !kg_fault(g)->code; i++) keep(&s, step(&s));
    if (kg_fault(g)->code) return 0;
    kn_ref last = s.pool[s.n - 1];
    if (s.n < 3 || !take(&s, 3)) return dense(g, last);
    return dense(g, kg_list(g, KN_OP_TUPLE, (kn_ref[]){last, s.pool[s.n - 2], s.pool[s.n / 2]}, 2 + take(&s, 2)));
}
