/* soup.c - bytes into tensor programs: each step takes values that are there and adds one. */
#include "fuzz/soup_inside.h"

#include <string.h>

enum { MAX_STEPS = 26 };

int soup_take(soup *s, int n) { return s->at < s->end ? *s->at++ % n : 0; }

/* ---- sizes and PARAMs ------------------------------------------------------------------------------------------ */

static kn_ref make_variable(soup *s) {
    static const int64_t most[] = {9, 1, 4, 17, 33, 12};
    const char           name[2] = {(char)('n' + s->nvar), 0};
    int64_t hi = most[soup_take(s, KN_COUNT(most))], lo = soup_take(s, 3) == 0 ? 0 : 1;
    kn_ref  scalar                = kg_dims_node(s->g, NULL, 0);
    int64_t w[KN_PARAM_WORDS]     = {s->slots++, KN_INDEX, 0, KN_GLOBAL, kg_intern_str(s->g, name, 1), lo, hi};
    return kg_make(s->g, KN_OP_PARAM, 0, kg_intern_words(s->g, w, KN_PARAM_WORDS), &scalar, 1);
}

int64_t soup_size(soup *s) {
    static const int64_t sizes[] = {4, 1, 2, 3, 5, 7, 8, 16, 17, 33, 0, 6, 12, 40};
    int                  k       = soup_take(s, KN_COUNT(sizes) + (s->nvar ? 5 : 0));
    return k < KN_COUNT(sizes) ? sizes[k] : -(int64_t)s->var[k % s->nvar];
}

static int take_shape(soup *s, int64_t *d) {
    int     rank = 1 + soup_take(s, 3);
    int64_t n    = 1;
    for (int i = 0; i < rank; i++) {
        d[i]         = soup_size(s);
        int64_t most = kg_most_of(s->g, d[i]);
        if (n * most > SOUP_MOST / 4) d[i] = most = 2;
        n *= KN_MAX(most, 1);
    }
    return rank;
}

int soup_type(soup *s) {
    static const int types[] = {KN_F32, KN_I32, KN_F64, KN_I64, KN_BOOL, KN_U8,  KN_I8,     KN_I16,
                                KN_U16, KN_U32, KN_U64, KN_F16, KN_BF16, KN_F32, KN_F8E4M3, KN_F8E5M2};
    return types[soup_take(s, KN_COUNT(types))];
}

kn_ref soup_number(soup *s, int dt, double v) {
    return kn_is_float(dt) ? kg_float(s->g, dt, v) : kg_int(s->g, dt, (int64_t)v);
}

kn_ref soup_param(soup *s, int dt, const int64_t *d, int rank) {
    static const int64_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (s->slots >= (s->depth ? 0 : SOUP_OUTSIDE) + SOUP_PARAMS) /* enough of them */
        return kg_expand(s->g, kg_reshape(s->g, soup_number(s, dt, 1), ones, rank), d, rank);
    return kg_param(s->g, s->slots++, dt, d, rank);
}

/* ---- the pool -------------------------------------------------------------------------------------------------- */

kn_ref soup_any(soup *s) {
    int how = soup_take(s, 3 * s->n);
    return s->pool[how < s->n ? how : s->n - 1 - (how - s->n) % KN_MIN(s->n, 3)];
}

void soup_keep(soup *s, kn_ref x) {
    if (!x || kg_dtype(s->g, x) == KN_VOID || kg_most(s->g, x) > SOUP_MOST || soup_rank(s, x) > 4) return;
    if (s->n < SOUP_POOL) s->pool[s->n++] = x;
    else s->pool[1 + soup_take(s, SOUP_POOL - 1)] = x;
}

kn_ref soup_beside(soup *s, kn_ref x) {
    int64_t        d[KN_MAX_RANK];
    int            rank;
    const int64_t *to  = kg_shape(s->g, x, &rank);
    kn_ref         y   = soup_any(s);
    bool           fit = soup_dtype(s, y) == soup_dtype(s, x) && soup_rank(s, y) <= rank;
    for (int a = 0, drop = rank - soup_rank(s, y); fit && a < soup_rank(s, y); a++)
        fit = soup_dim(s, y, a) == 1 || soup_dim(s, y, a) == to[a + drop];
    if (fit) return y;
    int how = soup_take(s, 8), from = how == 7 && rank ? soup_take(s, rank) : 0;
    for (int a = from; a < rank; a++) d[a - from] = how >> (a % 2) & 1 && how < 4 ? 1 : to[a];
    return soup_param(s, soup_dtype(s, x), d, rank - from);
}

/* Sums of narrow floats differ with their order by more than any tolerance. */
kn_ref soup_sum(soup *s, kn_ref x) {
    return soup_float(s, x) && kn_dsize(soup_dtype(s, x)) < 4 ? kg_cast(s->g, x, KN_F32) : x;
}

kn_ref soup_counting(soup *s, int64_t n, int rank, int axis) {
    return kg_iota(s->g, n, 0, KN_AXIS_LOOP, rank, axis);
}

/* ---- steps ----------------------------------------------------------------------------------------------------- */

static kn_ref step(soup *s);

/* A FUNCTION of one or two results, kept as a CALL or not: its body cooked apart, over PARAMs that stand for two values
 * and some new ones. */
static kn_ref function(soup *s, kn_ref x) {
    soup   in = {.g = s->g, .at = s->at, .end = s->end, .depth = s->depth + 1};
    kn_ref args[2] = {x, soup_any(s)}, src[SOUP_PARAMS + 3];
    int    steps = 1 + soup_take(&in, 5);
    if (s->depth > 1 || !soup_fixed(s, x) || !soup_fixed(s, args[1])) return x;
    for (int i = 0; i < 2; i++) {
        int            rank;
        const int64_t *d = kg_shape(s->g, args[i], &rank);
        soup_keep(&in, soup_param(&in, soup_dtype(s, args[i]), d, rank));
    }
    for (; steps > 0 && in.at < in.end && !kg_fault(s->g)->code; steps--) soup_keep(&in, step(&in));
    s->at    = in.at;
    kn_ref a = in.pool[in.n - 1], b = in.pool[in.n / 2];
    src[0]   = kg_list(s->g, KN_OP_TUPLE, (kn_ref[]){a, b}, 2);
    kn_ref  *order;
    uint32_t count;
    for (int64_t k = 0; k < in.slots; k++) src[k + 1] = k < 2 ? args[k] : 0;
    if (!src[0] || !kg_reach_own(s->g, src, 1, &order, &count)) return 0;
    for (uint32_t i = 0; i < count; i++) { /* those that the body made are arguments too */
        if (kg_op(s->g, order[i]) != KN_OP_PARAM || kg_space(s->g, order[i]) == KN_REG) continue;
        int64_t        slot = kg_field(s->g, order[i], KN_F_PARAM_slot);
        int            rank;
        const int64_t *d = kg_shape(s->g, order[i], &rank);
        if (slot < in.slots && !src[slot + 1]) src[slot + 1] = soup_param(s, kg_dtype(s->g, order[i]), d, rank);
    }
    kn_free(kg_alloc(s->g), order, count * sizeof *order);
    for (int64_t k = 0; k < in.slots; k++)
        if (!src[k + 1]) src[k + 1] = soup_number(s, KN_F32, 0); /* not used after all */
    int    op   = soup_take(s, 3) ? KN_OP_FUNCTION : KN_OP_CALL;
    kn_ref call = kg_make(s->g, op, 0, 0, src, (uint32_t)in.slots + 1);
    if (soup_take(s, 2)) soup_keep(s, kg_element(s->g, call, 1));
    return kg_element(s->g, call, 0);
}

static kn_ref step(soup *s) {
    kn_ref  x = soup_any(s);
    int64_t d[KN_MAX_RANK];
    switch (soup_take(s, 32)) {
    case 0: case 1: case 2: return soup_unary(s, x);
    case 3: case 4: case 5: case 6: return soup_binary(s, x);
    case 7: return soup_choice(s, x);
    case 8: return soup_convert(s, x);
    case 9: case 10: case 11: case 12: return soup_movement(s, x);
    case 13: case 14: case 15: return soup_reduction(s, x);
    case 16: return soup_product(s, x);
    case 17: return soup_softmax(s, x);
    case 18: case 19: return soup_masked_sum(s, x);
    case 20: case 21: return soup_gather(s, x);
    case 22: return soup_count_along(s, x);
    case 23: return kg_load_to(s->g, x, 0, soup_take(s, 2) ? KN_LOCAL : KN_GLOBAL);
    case 24: return soup_op1(s, soup_take(s, 2) ? KN_OP_DETACH : KN_OP_CONTIGUOUS_BACKWARD, x);
    case 25: case 26: return soup_fold(s, x);
    case 27: return soup_windows(s, x);
    case 28: return soup_join(s, x);
    case 29: return soup_random(s, x);
    case 30: return function(s, x);
    default: {
        int rank = take_shape(s, d);
        return soup_param(s, soup_type(s), d, rank);
    }
    }
}

/* ---- the program ----------------------------------------------------------------------------------------------- */

static bool outside(const kn_graph *g, kn_ref x) {
    return kg_op(g, x) == KN_OP_PARAM && kg_space(g, x) != KN_REG && kg_field(g, x, KN_F_PARAM_slot) >= SOUP_OUTSIDE;
}

static kn_ref with_slot(kn_graph *g, kn_ref param, int64_t slot) {
    int64_t w[KN_PARAM_WORDS];
    memcpy(w, kg_words(g, param, NULL), sizeof w);
    w[KN_F_PARAM_slot] = slot;
    kn_ref dims        = kg_at(g, param, 0);
    return kg_make(g, KN_OP_PARAM, 0, kg_intern_words(g, w, KN_PARAM_WORDS), &dims, 1);
}

/* PARAMs numbered without gaps: not every one that was made is used. Some are the sizes of others. */
static kn_ref renumbered(void *user, kn_graph *g, kn_ref was, kn_ref now) {
    int64_t *slot = user;
    return outside(g, was) ? with_slot(g, now, (*slot)++) : now;
}

static bool reads(const kn_graph *g, kn_ref x, kn_ref param) {
    kn_ref  *order;
    uint32_t n;
    bool     found = false;
    if (!kg_reach(g, &x, 1, &order, &n)) return true;
    for (uint32_t i = 0; i < n; i++) found |= order[i] == param;
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return found;
}

/* Every value into a PARAM of its own, or over one of the same kind that it alone reads: else the order would count. */
static kn_ref stored(soup *s, kn_ref *value, int n) {
    kn_graph *g = s->g;
    kn_ref    param[SOUP_PARAMS], used[3] = {0};
    int       np = 0;
    kn_ref   *order;
    uint32_t  count;
    if (!kg_reach(g, value, n, &order, &count)) return 0;
    for (uint32_t i = 0; i < count; i++)
        if (outside(g, order[i]) && np < SOUP_PARAMS) param[np++] = order[i];
    kn_free(kg_alloc(g), order, count * sizeof *order);
    for (int k = 0; k < n; k++) {
        int            rank, at = np ? soup_take(s, np) : 0;
        const int64_t *d = kg_shape(g, value[k], &rank);
        for (int i = 0; i < np && !used[k]; i++) {
            kn_ref p = param[(at + i) % np];
            if (p == used[0] || p == used[1] || kg_dtype(g, p) != kg_dtype(g, value[k])) continue;
            bool own = kg_same_shape(g, p, value[k]);
            for (int j = 0; j < n && own; j++) own = j == k || !reads(g, value[j], p);
            if (own) used[k] = p;
        }
        if (!used[k]) used[k] = kg_param(g, s->slots++, kg_dtype(g, value[k]), d, rank);
    }
    for (int k = 0; k < n; k++) value[k] = kg_store(g, used[k], value[k], 0);
    return kg_list(g, KN_OP_SINK, value, n);
}

kn_ref soup_cook(kn_graph *g, const uint8_t *bytes, size_t n, bool symbolic) {
    soup    s    = {.g = g, .at = bytes, .end = bytes + n, .slots = SOUP_OUTSIDE};
    int     kind = soup_take(&s, 12), wide = soup_take(&s, 2);
    int64_t d[KN_MAX_RANK], slot = 0;
    for (int v = 0; symbolic && v < (kind == 0 ? 2 : kind < 4); v++) {
        s.var[v] = make_variable(&s);
        s.nvar++;
    }
    int rank      = take_shape(&s, d);
    s.pool[s.n++] = soup_param(&s, wide ? KN_F32 : soup_type(&s), d, rank);
    for (int i = 0; i < MAX_STEPS && s.at < s.end && !kg_fault(g)->code; i++) soup_keep(&s, step(&s));
    if (kg_fault(g)->code) return 0;
    kn_ref value[3] = {s.pool[s.n - 1], s.pool[KN_MAX(s.n - 2, 0)], s.pool[s.n / 2]}, root = value[0];
    int    results  = s.n < 3 || !soup_take(&s, 3) ? 1 : 2 + soup_take(&s, 2);
    if (kind > 9 && soup_fixed(&s, value[0]) && soup_fixed(&s, value[1]) && soup_fixed(&s, value[2]))
        root = stored(&s, value, KN_MIN(results, 2));
    else if (results > 1)
        root = kg_list(g, KN_OP_TUPLE, value, results);
    return root ? kg_edit(g, root, renumbered, &slot) : 0;
}
