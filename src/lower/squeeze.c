/* squeeze.c - part of Expand: what is computed of sums over lanes has lanes of its own.
 *
 * Takes: an expanded kernel. Gives: the same, where arithmetic on tiles whose last axis a sum has used up, [4, 4, 1],
 * is on [4, 4]: by lanes, not element by element. Where rows of the tile follow one another in memory, as those of a
 * matrix with few columns, it is on all of it, [4, 3, 1] on [12]; so it is where they lie apart, if much is computed,
 * and lanes are stored one by one. Not for little, where the sums' elements are put side by side first.
 *
 * A STORE's place and value are built anew without the axes, down to sums, accumulators and what has one element. */
#include "lower/lower.h"

#include "optimize/cost.h"

#include <string.h>

enum {
    LEAST_OPS = 8, LEAST_LANES = 4, WIDE_ROWS = 16,
    APART_OPS = 32 /* of rows that lie apart: their lanes are stored one by one */
};

typedef struct kl_squeeze {
    kn_graph *g;
    kn_ref   *now;  /* per node: without the axis, 0 not yet */
    kn_ref   *stack;
    size_t    size; /* nodes there were */
    int64_t  next_id, next_buffer; /* a RANGE, a BUFFER */
    int64_t  columns; /* of rows that are one run, which are two axes of the tiles; 0: rows stay apart */
    kn_ref   run;     /* its leaf */
} kl_squeeze;

/* The tile of n has more than one axis, of which the last is one element long and those before it have some. */
static bool has_spare_axis(const kn_graph *g, kn_ref n) {
    int            rank;
    const int64_t *dims = kg_shape(g, n, &rank);
    if (rank < 2 || dims[rank - 1] != 1) return false;
    return dims[rank - 2] >= LEAST_LANES ||
           (rank > 2 && dims[rank - 2] > 1 && dims[rank - 3] * dims[rank - 2] >= LEAST_LANES);
}

/* Its sources are what it is computed of, element by element; of an INDEX and a LOAD the first is none of these. */
static bool is_by_elements(const kn_graph *g, kn_ref n) {
    int op = kg_op(g, n);
    if (op == KN_OP_LOAD) return kg_op(g, kg_at(g, n, 0)) == KN_OP_INDEX;
    return kn_is_alu(op) || op == KN_OP_BITCAST || op == KN_OP_INDEX;
}

/* Rows of what is stored there follow one another: how many columns they have, 0: they do not. */
static int64_t columns_of_run(const kn_graph *g, kn_ref at) {
    int            rank;
    const int64_t *dims = kg_shape(g, at, &rank);
    kn_affine      form;
    int64_t        by[2] = {0};
    if (rank < 3 || dims[rank - 2] < 2 || dims[rank - 3] < 2 || dims[rank - 2] >= WIDE_ROWS) return 0;
    if (kg_nsrc(g, at) != 2 || !kg_affine(g, kg_at(g, at, 1), &form)) return 0;
    for (int t = 0; t < form.n; t++) {
        kn_ref         x = form.atom[t];
        int            have;
        const int64_t *of    = kg_shape(g, x, &have);
        bool           row   = have == rank && of[rank - 3] > 1, column = have == rank && of[rank - 2] > 1;
        if (!row && !column) continue;
        if (kg_op(g, x) != KN_OP_RANGE || by[column]) return 0;
        by[column] = form.coef[t];
    }
    return by[1] == 1 && by[0] == dims[rank - 2] ? dims[rank - 2] : 0;
}

/* The number of a row of the run, or of a column. */
static kn_ref of_run(kl_squeeze *s, bool row) {
    return kg_op2(s->g, row ? KN_OP_IDIV : KN_OP_MOD, s->run, kg_idx(s->g, s->columns));
}

/* Axes of a tile of that rank without those. */
static int left_of(const kl_squeeze *s, int rank) { return rank - 1 - (s->columns > 0); }

/* The elements are put side by side in memory. */
static kn_ref laid_out(kl_squeeze *s, kn_ref n, const int64_t *dims, int rank) {
    kn_graph *g     = s->g;
    kn_ref    local = kl_lay_down(g, &s->next_id, &s->next_buffer, n), part = 0;
    int       axes  = left_of(s, rank);
    int64_t   left[KN_MAX_RANK];
    memcpy(left, dims, (size_t)axes * sizeof *left);
    if (s->columns) { /* rows and columns are one axis; who has one of the two alone takes it from the run's number */
        int64_t rows = dims[rank - 3], columns = dims[rank - 2];
        left[axes - 1] = rows * columns;
        if ((rows == 1) != (columns == 1)) part = of_run(s, rows > 1);
    }
    kn_ref at = kl_tile_places(g, &s->next_id, left, axes, part ? axes - 1 : -1, 1, 0);
    if (part) at = kg_op2(g, KN_OP_ADD, at, part);
    return local ? kg_load(g, kg_index(g, local, &at, 1)) : 0;
}

static kn_ref without_axis(kl_squeeze *s, kn_ref n, const kn_ref *src) {
    kn_graph      *g = s->g;
    int            rank;
    int64_t        dims[KN_MAX_RANK];
    const int64_t *has = kg_shape(g, n, &rank);
    memcpy(dims, has, (size_t)rank * sizeof *dims); /* what is made here may move it */
    int left = left_of(s, rank);
    if (is_by_elements(g, n)) return kg_with_src(g, n, src, kg_nsrc(g, n));
    if (kg_op(g, n) == KN_OP_RANGE) {
        int axis = (int)kg_field(g, n, KN_F_RANGE_axis);
        if (axis >= left - 1 && s->columns) return of_run(s, axis == left - 1);
        return kg_iota(g, kg_const_int(g, kg_at(g, n, 0)), s->next_id++, (int)kg_field(g, n, KN_F_RANGE_type), left,
                       axis);
    }
    return kg_numel(g, n) > 1 ? laid_out(s, n, dims, rank) : kg_reshape(g, n, dims, left);
}

/* The next store's axes are those that at has; what was built of others is of no use. much: its lanes may be stored one
 * by one. False: they make few lanes. */
static bool begin_store(kl_squeeze *s, kn_ref at, bool much) {
    int            rank;
    const int64_t *dims    = kg_shape(s->g, at, &rank);
    int64_t        columns = columns_of_run(s->g, at);
    if (!columns && much && dims[rank - 2] < LEAST_LANES) columns = dims[rank - 2];
    int64_t        length  = columns ? columns * dims[rank - 3] : 0;
    int64_t        had     = s->columns ? kg_const_int(s->g, kg_at(s->g, s->run, 0)) : 0;
    bool           same    = columns == s->columns && length == had;
    if (!columns && dims[rank - 2] < LEAST_LANES) return false;
    if (!same) memset(s->now, 0, s->size * sizeof *s->now);
    if (!same && columns) s->run = kg_iota(s->g, length, s->next_id++, KN_AXIS_UPCAST, rank - 2, rank - 3);
    s->columns = columns;
    return true;
}

/* root without those axes; 0: out of memory, or something in it has lanes there. */
static kn_ref squeeze(kl_squeeze *s, kn_ref root) {
    kn_graph *g   = s->g;
    size_t    top = 0;
    int       all = kg_rank(g, root);
    s->stack[top++] = root;
    while (top) {
        kn_ref   n = s->stack[top - 1], src[8];
        uint32_t k = kg_nsrc(g, n), first = kg_op(g, n) == KN_OP_INDEX;
        int      rank;
        const int64_t *dims = kg_shape(g, n, &rank);
        bool     parts = rank && is_by_elements(g, n), wait = false;
        if (s->now[n]) {
            top--;
            continue;
        }
        if ((rank && (rank != all || dims[rank - 1] != 1)) || k > KN_COUNT(src)) return 0;
        for (uint32_t i = 0; i < k && parts; i++) {
            kn_ref x = kg_at(g, n, i);
            src[i]   = i < first ? x : s->now[x];
            if (!src[i]) s->stack[top++] = x, wait = true;
            if (top + KN_COUNT(src) > s->size) return 0;
        }
        if (wait) continue;
        kg_made_of(g, g, n);
        if (!(s->now[n] = rank ? without_axis(s, n, src) : n)) return 0;
        top--;
    }
    return s->now[root];
}

/* What n takes alone where lanes would share it. */
static int op_alone(const kn_graph *g, kn_ref n) {
    int op = kg_op(g, n);
    return ko_op_weight(op) * (kn_takes_divider(op) ? 2 : 1);
}

/* Arithmetic on numbers that such tiles go through to become x: enough of it, and a sum behind. */
static bool is_worth_it(const kn_graph *g, kn_ref x, int least, uint8_t *seen, kn_ref *stack) {
    int    ops = 0, sums = 0;
    size_t top = 0;
    stack[top++] = x;
    seen[x]      = 1;
    for (size_t at = 0; at < top; at++) {
        kn_ref n = stack[at];
        sums += kg_op(g, n) == KN_OP_REDUCE;
        if (!kn_is_alu(kg_op(g, n)) || kg_dtype(g, n) == KN_INDEX || !has_spare_axis(g, n)) continue;
        ops += op_alone(g, n);
        for (uint32_t i = 0; i < kg_nsrc(g, n); i++)
            if (!seen[kg_at(g, n, i)]) seen[kg_at(g, n, i)] = 1, stack[top++] = kg_at(g, n, i);
    }
    while (top) seen[stack[--top]] = 0;
    return sums && ops >= least;
}

/* Another store to memory stands below st: it would be there as it was, and built anew. */
static bool holds_store(kn_graph *g, kn_ref st, bool *holds) {
    kn_ref  *order;
    uint32_t n;
    if (!kg_reach(g, &st, 1, &order, &n)) return kn_oom(kg_fault(g));
    *holds = false;
    for (uint32_t i = 0; i < n; i++)
        *holds |= order[i] != st && kg_op(g, order[i]) == KN_OP_STORE &&
                  kg_space(g, kg_at(g, order[i], 0)) == KN_GLOBAL;
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return true;
}

bool kl_squeeze_sums(kl_program *p, kl_kernel *k, kn_fault *f) {
    kn_graph  *g = k->g;
    kl_squeeze s = {.g = g, .size = (size_t)k->root + 1};
    kn_ref    *order, *from = NULL, *to = NULL;
    uint8_t   *seen = NULL;
    uint32_t   n;
    int        m = 0, least = p->machine->beside ? 1 : LEAST_OPS;
    bool       ok = false, any = false;
    if (!kg_reach(g, &k->root, 1, &order, &n)) return kn_oom(f);
    for (uint32_t i = 0; i < n; i++) {
        any |= kg_op(g, order[i]) == KN_OP_STORE && has_spare_axis(g, kg_at(g, order[i], 0));
        if (kg_op(g, order[i]) == KN_OP_BUFFER)
            s.next_buffer = KN_MAX(s.next_buffer, kg_field(g, order[i], KN_F_BUFFER_slot) + 1);
        if (kg_op(g, order[i]) == KN_OP_RANGE)
            s.next_id = KN_MAX(s.next_id, kg_field(g, order[i], KN_F_RANGE_id) + 1);
    }
    s.now   = any ? kn_zalloc(p->alloc, s.size * sizeof *s.now) : NULL;
    s.stack = any ? kn_zalloc(p->alloc, s.size * sizeof *s.stack) : NULL;
    from    = any ? kn_zalloc(p->alloc, s.size * sizeof *from) : NULL;
    to      = any ? kn_zalloc(p->alloc, s.size * sizeof *to) : NULL;
    seen    = any ? kn_zalloc(p->alloc, s.size) : NULL;
    if (any && (!s.now || !s.stack || !from || !to || !seen)) {
        kn_oom(f);
        goto done;
    }
    for (uint32_t i = 0; i < n && any; i++) {
        kn_ref st = order[i], at = kg_op(g, st) == KN_OP_STORE ? kg_at(g, st, 0) : 0, src[3] = {0};
        if (!at || kg_op(g, at) != KN_OP_INDEX || kg_space(g, at) != KN_GLOBAL || !has_spare_axis(g, at)) continue;
        if (!has_spare_axis(g, kg_at(g, st, 1)) || !is_worth_it(g, kg_at(g, st, 1), least, seen, s.stack)) continue;
        bool whole = true, holds = false;
        if (!holds_store(g, st, &holds)) goto done;
        bool much = is_worth_it(g, kg_at(g, st, 1), APART_OPS, seen, s.stack);
        if (holds || !begin_store(&s, at, much)) continue;
        for (uint32_t j = 0; j < kg_nsrc(g, st) && whole; j++) whole = (src[j] = squeeze(&s, kg_at(g, st, j))) != 0;
        if (kg_fault(g)->code) goto done;
        if (!whole) continue;
        from[m] = st;
        to[m]   = kg_with_src(g, st, src, kg_nsrc(g, st));
        if (!to[m++]) goto done;
    }
    if (m) k->root = kg_substitute(g, k->root, from, to, m);
    ok      = k->root != 0;
done:
    if (!ok) kl_stage_fault("expand", g, f);
    kn_free(p->alloc, s.now, any ? s.size * sizeof *s.now : 0);
    kn_free(p->alloc, s.stack, any ? s.size * sizeof *s.stack : 0);
    kn_free(p->alloc, from, any ? s.size * sizeof *from : 0);
    kn_free(p->alloc, to, any ? s.size * sizeof *to : 0);
    kn_free(p->alloc, seen, any ? s.size : 0);
    kn_free(p->alloc, order, n * sizeof *order);
    return ok;
}
