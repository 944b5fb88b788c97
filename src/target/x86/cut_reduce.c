/* cut_reduce.c - inside Select of x86-64: rows of a REDUCE, and the lanes of a register folded with one another. */
#include "target/x86/cut.h"

static kn_ref cr_combine(kx_cut *c, int op, int dtype, int lanes, kn_ref a, kn_ref b) {
    return kx_node(c, op, dtype, lanes, (kn_ref[]){a, b}, 2);
}

/* Source row sr of a REDUCE falls on row `row` of the result. */
static bool cr_falls_on(const kx_tile *s, const kx_tile *d, int64_t sr, int64_t row) {
    return kt_row_falls_on(s->rank, s->dims, d->dims, sr, row);
}

/* w lanes folded into fewer, by halves. */
static kn_ref cr_fold_lanes(kx_cut *c, int op, kn_ref v, int w, int to) {
    kn_graph *g  = c->g;
    int       dt = kg_dtype(g, v);
    while (w > to && v) {
        int half = w / 2;
        if (half == 1) {
            kn_ref x[2];
            return kx_lanes(c, v, w, x) ? cr_combine(c, op, dt, 0, x[0], x[1]) : 0;
        }
        kn_ref tmp = kg_buffer(g, c->next_local++, w, dt, 0, KN_LOCAL), put = kg_store(g, kx_run_of(c, tmp, w), v, 0);
        kn_ref from = kg_after(g, tmp, &put, 1), iota = kg_iota(g, half, 0, KN_AXIS_UPCAST, 1, 0);
        kn_ref hi = kg_op2(g, KN_OP_ADD, kg_idx(g, half), iota);
        v = cr_combine(c, op, dt, half, kg_load(g, kg_index(g, from, &iota, 1)), kg_load(g, kg_index(g, from, &hi, 1)));
        w = half;
    }
    return v;
}

/* A mask's lanes as bytes, 0 or 1: what is folded by halves takes a shift each time, and masks wait long for theirs.
 * accumulator: x is what one of bools gives, which holds such bytes. */
static kn_ref cr_bytes_of(kx_cut *c, kn_ref x, int w, bool accumulator) {
    const kn_graph *g = c->g;
    if (kg_op(g, x) == KN_OP_CONST) return kg_int(c->g, KN_U8, kg_const_int(g, x));
    bool held = accumulator && kg_op(g, x) == KN_OP_INS && kg_field(g, x, KN_F_INS_op) == KN_OP_CMPNE &&
                kg_op(g, kg_at(g, x, 0)) == KN_OP_LOAD && kg_dtype(g, kg_at(g, x, 0)) == KN_U8;
    return held ? kg_at(g, x, 0) : kx_node(c, KN_OP_CAST, KN_U8, w, &x, 1);
}

/* The op of bytes that are 0 or 1 which does what op does of bools. */
static int cr_op_of_bytes(int op) {
    return op == KN_OP_MAX || op == KN_OP_ADD ? KN_OP_OR : op == KN_OP_MIN || op == KN_OP_MUL ? KN_OP_AND : op;
}

/* Whether one of w bytes that are 0 or 1 is 1, or with AND all are: eight, or fewer, are one number. */
static kn_ref cr_fold_flags(kx_cut *c, int op, kn_ref v, int w) {
    kn_graph *g    = c->g;
    int64_t   ones = 0;
    kn_ref    x[2] = {0};
    if (w > 16 && !(v = cr_fold_lanes(c, op, v, w, 16))) return 0;
    int    half = KN_MIN(w, 16) / 2, dt = half == 8 ? KN_U64 : half == 4 ? KN_U32 : KN_U16;
    if (!kx_lanes(c, kg_bitcast(g, v, dt), 2, x)) return 0;
    for (int k = 0; k < half && op == KN_OP_AND; k++) ones |= (int64_t)1 << 8 * k;
    kn_ref all = cr_combine(c, op, dt, 0, x[0], x[1]);
    return cr_combine(c, op == KN_OP_AND ? KN_OP_CMPEQ : KN_OP_CMPNE, KN_BOOL, 0, all, kg_int(g, dt, ones));
}

/* Cell (row, chunk); where lanes are folded the row's element, or `last` of them that are still to be combined. */
static kn_ref cr_reduce(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk, int last) {
    kn_ref  src = kg_at(c->g, n, 0), acc[8] = {0};
    int     op = (int)kg_field(c->g, n, KN_F_REDUCE_op), dt = kx_lane_dtype(c, kg_dtype(c->g, n)), width[8], nacc = 0;
    kx_tile s;
    kx_tile_of(c, src, &s);
    bool fold = s.lanes > d->lanes, bytes = fold && dt == KN_BOOL && c->avx512;
    bool accumulator = kg_op(c->g, src) == KN_OP_LOAD && kx_is_register(c->g, kg_at(c->g, src, 0));
    if (bytes) dt = KN_U8;
    for (int64_t sr = 0; sr < s.rows; sr++) /* first all that is not there yet */
        for (int ch = fold ? 0 : chunk; cr_falls_on(&s, d, sr, row) && ch < (fold ? s.nchunk : chunk + 1); ch++) {
            bool v = kx_chunk_width(&s, ch) > 1;
            if (!(v ? kx_vec(c, src, sr * s.nchunk + ch) : kx_sca(c, src, sr * s.lanes + kx_chunk_start(&s, ch))))
                return 0;
        }
    for (int64_t sr = 0; sr < s.rows; sr++)
        for (int ch = fold ? 0 : chunk; cr_falls_on(&s, d, sr, row) && ch < (fold ? s.nchunk : chunk + 1); ch++) {
            int    w = kx_chunk_width(&s, ch), k = 0;
            kn_ref x =
                w > 1 ? kx_vec(c, src, sr * s.nchunk + ch) : kx_sca(c, src, sr * s.lanes + kx_chunk_start(&s, ch));
            if (w > 1 && bytes) x = cr_bytes_of(c, x, w, accumulator);
            if (w > 1 && kg_op(c->g, x) == KN_OP_CONST && fold) /* its lanes are combined with one another */
                x = kx_node(c, KN_OP_CAST, kx_lane_dtype(c, dt), w, &x, 1);
            while (k < nacc && width[k] != w) k++;
            if (k == nacc)
                width[nacc] = w, acc[nacc++] = x;
            else
                acc[k] = w > 1 ? cr_combine(c, bytes ? cr_op_of_bytes(op) : op, dt, w, acc[k], x)
                               : cr_combine(c, op, kg_dtype(c->g, x), 0, acc[k], x);
        }
    kn_ref r = acc[0];
    for (int k = 0; k < nacc && fold && r; k++) { /* the next has half of the lanes, a quarter and so on */
        int to = k + 1 < nacc ? width[k + 1] : last, own = kg_dtype(c->g, n);
        int of = bytes && width[k] > 1 ? cr_op_of_bytes(op) : op;
        bool flags = to == 1 && width[k] >= 4 && bytes && (of == KN_OP_AND || of == KN_OP_OR);
        r = flags && kg_op(c->g, r) != KN_OP_CONST ? cr_fold_flags(c, of, r, width[k])
                                                   : cr_fold_lanes(c, of, r, width[k], to);
        if (r && to == 1 && bytes && kg_dtype(c->g, r) != own)
            r = cr_combine(c, KN_OP_CMPNE, own, 0, r, kg_int(c->g, KN_U8, 0));
        else if (r && to == 1 && kg_dtype(c->g, r) != own)
            r = kx_node(c, KN_OP_CAST, own, 0, &r, 1);
        if (r && k + 1 < nacc) r = cr_combine(c, to > 1 ? of : op, to > 1 ? dt : own, to > 1 ? to : 0, r, acc[k + 1]);
    }
    return r;
}

kn_ref kx_reduce_row(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk) {
    return cr_reduce(c, n, d, row, chunk, 1);
}

/* ---- rows that are folded together ----------------------------------------------------------------------------- */

typedef struct cr_rows { /* registers that have so many lanes, `each` of a row */
    int lanes, each;
} cr_rows;

/* Two such registers as one, of the rows of both. Half of the lanes of each row are combined with the other half, but
 * where there is one left, or the registers are small. */
static kn_ref cr_both(kx_cut *c, int op, kn_ref a, kn_ref b, cr_rows *r) {
    int dt = kg_dtype(c->g, a), w = r->lanes;
    if (r->each == 1 || !kx_alternates(c->avx512, dt, w)) return r->lanes *= 2, kx_join(c, dt, a, b, w);
    kn_ref both = kx_behind(c, dt, a, b, w);
    r->each /= 2;
    return cr_combine(c, op, dt, w, kx_every_second(c, both, 0, w), kx_every_second(c, both, 1, w));
}

/* The narrowest piece of a row. */
static int cr_last_width(const kx_tile *s) {
    int w = s->width;
    for (int ch = 0; ch < s->nchunk; ch++) w = KN_MIN(w, kx_chunk_width(s, ch));
    return w;
}

int kx_rows_reduced(const kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, bool as_lanes, int64_t *first) {
    kx_tile s;
    int     dt = kg_dtype(c->g, n), size = kn_dsize(dt), count;
    kx_tile_of(c, kg_at(c->g, n, 0), &s);
    *first = row;
    if (d->lanes != 1 || s.lanes < 2 || !kx_has_form(c, n) || dt == KN_BOOL || dt == KN_INDEX || size < 4) return 1;
    if (cr_last_width(&s) < 2 && !as_lanes) return 1;
    for (*first = 0;; *first += count) {
        count = (int)kn_pow2_within(KN_MIN(c->lanes, d->rows - *first));
        if (row < *first + count) break;
    }
    return count * size < 16 ? 1 : count;
}

/* Each row leaves as many lanes as there are rows at most; two registers are combined as soon as both are there, so
 * that few wait: of n rows log2(n) do. */
kn_ref kx_reduce_rows(kx_cut *c, kn_ref n, const kx_tile *d, int64_t first, int count) {
    kx_tile s;
    int     op = (int)kg_field(c->g, n, KN_F_REDUCE_op);
    kn_ref *x  = kx_slots_of(c, c->vec, n, d->rows);
    if (!x) return 0;
    kx_tile_of(c, kg_at(c->g, n, 0), &s);
    int last = KN_MIN(cr_last_width(&s), count);
    x += first;
    for (int k = 0; k < count; k++) {
        cr_rows r = {last, last};
        if (x[k]) continue; /* what it makes whole is combined already */
        if (!(x[k] = cr_reduce(c, n, d, first + k, 0, last))) return 0;
        for (int by = 1; k & by; by *= 2) {
            kn_ref *low = x + k + 1 - 2 * by;
            if (!(*low = cr_both(c, op, *low, low[by], &r))) return 0;
        }
    }
    return x[0];
}

kn_ref kx_reduce_element(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int64_t lane) {
    kn_ref  src = kg_at(c->g, n, 0), r = 0, x;
    kx_tile s;
    kx_tile_of(c, src, &s);
    bool fold = s.lanes > d->lanes;
    for (int pass = 0; pass < 2; pass++) /* first all that is not there yet */
        for (int64_t sr = 0; sr < s.rows; sr++)
            for (int64_t l = fold ? 0 : lane; cr_falls_on(&s, d, sr, row) && l < (fold ? s.lanes : lane + 1); l++) {
                if (!(x = kx_sca(c, src, sr * s.lanes + l))) return 0;
                if (!pass) continue;
                r = r ? cr_combine(c, (int)kg_field(c->g, n, KN_F_REDUCE_op), kg_dtype(c->g, n), 0, r, x) : x;
            }
    return r;
}
