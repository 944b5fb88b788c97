/* cut.c - Select of x86-64: which cells and elements are needed, in the order in which they are needed.
 *
 * Takes: an expanded kernel after the rules of select.rules. Gives: the kernel of cut.h. Effects are walked in order,
 * and what they need is built depth first, cell by cell: ascending ids then have short live ranges, and Linearize,
 * which keeps ids in order within a loop, needs no other choice. */
#include "target/x86/cut.h"

#include "dialect/why.h"

#include <string.h>

bool kx_refuse(kx_cut *c, kn_ref n, const char *what) {
    return kn_fail(c->f, KN_ERR_UNSUPPORTED, "select x86: %s: %s", kn_ops[kg_op(c->g, n)].name, what);
}

enum {
    LAP_LEAST = 3, LAP_NARROW = 4, /* lanes: left over behind a register, of the last piece */
    READ        = 0x80 /* a mark, for a while */
};

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

void kx_tile_of(const kx_cut *c, kn_ref n, kx_tile *t) {
    const kn_graph *g   = c->g;
    const int64_t *dims = kg_shape(g, kg_op(g, n) == KN_OP_STORE ? kg_at(g, n, 0) : n, &t->rank);
    t->rows             = 1;
    t->lanes            = t->rank ? dims[t->rank - 1] : 1;
    for (int i = 0; i < t->rank; i++) t->dims[i] = dims[i];
    for (int i = 0; i + 1 < t->rank; i++) t->rows *= dims[i];
    t->width     = c->dense[n] ? 2 * c->lanes : c->lanes;
    t->full      = (int)(t->lanes / t->width);
    t->nchunk    = t->full;
    int64_t left = t->lanes % t->width;
    for (int k = 0; left > 0 && k < KN_COUNT(t->rest); k++) {
        int w = t->width;
        while (w > left || (w == 2 && !c->pairs)) w /= 2;
        t->rest[k] = w;
        t->nchunk++;
        left -= w;
    }
    int whole = t->full ? 1 : 2, least = t->full ? LAP_LEAST : LAP_NARROW + 1; /* pieces, where the last reaches back */
    t->laps   = c->laps && t->lanes % t->width >= least && t->nchunk - t->full > whole;
    if (!t->laps) return;
    t->nchunk = t->full;
    int w = t->full ? t->width : t->rest[0];
    for (left = t->full ? t->lanes % w : t->lanes; t->nchunk < t->full + whole; left -= w) {
        while (w / 2 >= KN_MAX(left, LAP_NARROW)) w /= 2; /* the last one: no more than what is left takes */
        t->rest[t->nchunk++ - t->full] = w;
    }
}

bool kx_folds(const kx_cut *c, kn_ref reduce) {
    kx_tile s, d;
    kx_tile_of(c, kg_at(c->g, reduce, 0), &s);
    kx_tile_of(c, reduce, &d);
    return s.lanes > d.lanes;
}

int kx_chunk_start(const kx_tile *t, int chunk) {
    if (t->laps && chunk == t->nchunk - 1) return (int)t->lanes - t->rest[chunk - t->full];
    int at = KN_MIN(chunk, t->full) * t->width;
    for (int k = t->full; k < chunk; k++) at += t->rest[k - t->full];
    return at;
}

int kx_chunk_width(const kx_tile *t, int chunk) {
    return chunk < t->full ? t->width : t->rest[chunk - t->full];
}

static int ct_chunk_of(const kx_tile *t, int64_t lane) {
    int ch = 0;
    while (ch + 1 < t->nchunk && kx_chunk_start(t, ch + 1) <= lane) ch++;
    return ch;
}

int64_t kx_row_in(const kx_tile *s, const kx_tile *d, int64_t row) {
    return kt_row_in(s->rank, s->dims, d->rank, d->dims, row);
}

int64_t kx_element_in(const kx_tile *s, const kx_tile *d, int64_t row, int64_t lane) {
    return kx_row_in(s, d, row) * s->lanes + (s->lanes > 1 ? lane : 0);
}

/* ---- what is needed -------------------------------------------------------------------------------------------- */

static kn_ref ct_ask(kx_cut *c, kn_ref n, int64_t at, kx_as as) {
    if (!KN_GROW(kg_alloc(c->g), c->stack, c->stack_cap, c->nstack + 1)) return kn_oom(c->f), 0;
    c->stack[c->nstack++] = (kx_need){n, at, as};
    return 0;
}

kn_ref *kx_slots_of(kx_cut *c, kn_ref **table, kn_ref n, int64_t count) {
    if (table[n]) return table[n];
    if (count < 1 || count > 1 << 20) return kx_refuse(c, n, "a tile is too large"), NULL;
    if (!(table[n] = kn_arena_get(&c->arena, (size_t)count * sizeof **table))) return kn_oom(c->f), NULL;
    memset(table[n], 0, (size_t)count * sizeof **table);
    return table[n];
}

kn_ref kx_vec(kx_cut *c, kn_ref n, int64_t cell) {
    if (kg_op(c->g, n) == KN_OP_CONST)
        return kg_dtype(c->g, n) == KN_INDEX ? kg_int(c->g, c->index, kg_const_int(c->g, n)) : n;
    if (c->vec[n] && c->vec[n][cell]) return c->vec[n][cell];
    return ct_ask(c, n, cell, KX_AS_CELL);
}

kn_ref kx_sca(kx_cut *c, kn_ref n, int64_t element) {
    if (kg_op(c->g, n) == KN_OP_CONST) return n;
    if (c->sca[n] && c->sca[n][element]) return c->sca[n][element];
    return ct_ask(c, n, element, KX_AS_ELEMENT);
}

kn_ref kx_wide(kx_cut *c, kn_ref n, int64_t element) {
    if (c->bits[n]) return c->wide[n] && c->wide[n][element] ? c->wide[n][element] : ct_ask(c, n, element, KX_AS_WIDE);
    kn_ref x = kx_sca(c, n, element);
    return x ? kx_splat(c, x, KX_WIDE) : 0;
}

/* A comparison that all lanes share is made of lanes: one instruction, where flags are many steps from a mask. */
static bool ct_compares(const kx_cut *c, kn_ref scalar, int lanes) {
    const kn_graph *g = c->g;
    if (kg_op(g, scalar) != KN_OP_INS || kg_dtype(g, scalar) != KN_BOOL || kg_nsrc(g, scalar) != 2) return false;
    int op = (int)kg_field(g, scalar, KN_F_INS_op), dt = kg_dtype(g, kg_at(g, scalar, 0));
    return kx_compares(op) && (dt == KN_I32 || dt == KN_F32) && lanes * 4 <= (c->avx512 ? 64 : 32);
}

kn_ref kx_splat(kx_cut *c, kn_ref scalar, int lanes) {
    int dt = kx_lane_dtype(c, kg_dtype(c->g, scalar));
    if (ct_compares(c, scalar, lanes)) {
        kn_ref src[2];
        for (uint32_t k = 0; k < 2; k++) {
            kn_ref s = kg_at(c->g, scalar, k);
            src[k]   = kg_op(c->g, s) == KN_OP_CONST ? s : kx_node(c, KN_OP_CAST, kg_dtype(c->g, s), lanes, &s, 1);
        }
        return kx_node(c, (int)kg_field(c->g, scalar, KN_F_INS_op), KN_BOOL, lanes, src, 2);
    }
    if (kg_op(c->g, scalar) == KN_OP_CONST)
        return dt == kg_dtype(c->g, scalar) ? scalar : kg_int(c->g, dt, kg_const_int(c->g, scalar));
    return kx_node(c, KN_OP_CAST, dt, lanes, &scalar, 1);
}

kn_ref kx_operand(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk) {
    kx_tile s;
    kx_tile_of(c, n, &s);
    int64_t r = kx_row_in(&s, d, row);
    int     w = kx_chunk_width(d, chunk);
    if (s.lanes > 1 && w > 1 && s.width == d->width) return kx_vec(c, n, r * s.nchunk + chunk);
    if (s.lanes > 1 && w > 1) { /* half of it, or all that is left */
        int    from = kx_chunk_start(d, chunk), of = ct_chunk_of(&s, from), all = kx_chunk_width(&s, of);
        kn_ref v = kx_vec(c, n, r * s.nchunk + of);
        bool   whole = !v || all == w || kg_op(c->g, v) == KN_OP_CONST;
        return whole ? v : kx_part(c, v, all, from - kx_chunk_start(&s, of), w);
    }
    kn_ref x = kx_sca(c, n, r * s.lanes + (s.lanes > 1 ? kx_chunk_start(d, chunk) : 0));
    return x && w > 1 ? kx_splat(c, x, w) : x;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* A CAST whose register takes two of its source. */
static bool ct_joins(const kx_cut *c, kn_ref n, int w) {
    kn_ref s = kg_at(c->g, n, 0);
    return w > c->lanes && kg_op(c->g, n) == KN_OP_CAST && kg_op(c->g, s) != KN_OP_CONST && !c->dense[s];
}

static kn_ref ct_joined(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int ch) {
    kn_graph *g = c->g;
    kn_ref    x[2], s = kg_at(g, n, 0);
    kx_tile   t;
    kx_tile_of(c, s, &t);
    int64_t at = kx_row_in(&t, d, row) * t.nchunk + ct_chunk_of(&t, kx_chunk_start(d, ch));
    int     dt = kx_lane_dtype(c, kg_dtype(g, n));
    for (int k = 0; k < 2; k++)
        if (!(x[k] = kx_vec(c, s, at + k)) || !(x[k] = kx_alu(c, n, c->lanes, &x[k], 1))) return 0;
    if (x[0] == x[1] && kg_op(g, x[0]) == KN_OP_CONST) return x[0];
    for (int k = 0; k < 2; k++) /* no register has it */
        if (kg_op(g, x[k]) == KN_OP_CONST) x[k] = kx_node(c, KN_OP_CAST, dt, c->lanes, &x[k], 1);
    return kx_join(c, dt, x[0], x[1], c->lanes);
}

static kn_ref ct_build_cell(kx_cut *c, kn_ref n, int64_t cell) {
    kn_graph *g = c->g;
    kx_tile   d;
    kn_ref    src[3];
    int       op = kg_op(g, n);
    kx_tile_of(c, n, &d);
    int64_t row = cell / d.nchunk;
    int     ch = (int)(cell % d.nchunk), w = kx_chunk_width(&d, ch);
    switch (op) {
    case KN_OP_LOAD: return kx_load_cell(c, n, &d, row, ch);
    case KN_OP_REDUCE:
        return kx_has_form(c, n) ? kx_reduce_row(c, n, &d, row, ch) : kx_pack_elements(c, n, &d, row, ch);
    case KN_OP_EXPAND: return kx_operand(c, kg_at(g, n, 0), &d, row, ch);
    case KN_OP_RESHAPE: {
        kx_tile s;
        kx_tile_of(c, kg_at(g, n, 0), &s);
        if (s.lanes != d.lanes || s.rows != d.rows) return kx_pack_elements(c, n, &d, row, ch);
        return kx_vec(c, kg_at(g, n, 0), cell);
    }
    case KN_OP_RANGE:
        if (kg_field(g, n, KN_F_RANGE_axis) != d.rank - 1) return kx_pack_elements(c, n, &d, row, ch);
        src[0] = kg_op2(g, KN_OP_ADD, kg_iota(g, w, 0, KN_AXIS_UPCAST, 1, 0), kg_idx(g, kx_chunk_start(&d, ch)));
        return kx_node(c, KN_OP_CAST, c->index, w, src, 1);
    default: break;
    }
    if (!kn_is_alu(op) && op != KN_OP_BITCAST) return kx_refuse(c, n, "has no form"), 0;
    if (!kx_has_form(c, n)) return kx_pack_elements(c, n, &d, row, ch);
    if (c->product[n]) {
        src[0] = kx_operand(c, c->product[n], &d, row, ch);
        src[1] = src[0] ? kx_operand(c, kg_at(g, n, 2), &d, row, ch) : 0;
        return src[1] ? kx_node(c, KN_OP_ADD, kg_dtype(g, n), w, src, 2) : 0;
    }
    if (op == KN_OP_WHERE) {
        bool   is;
        kn_ref x = kx_lookup(c, n, &d, row, ch, &is);
        if (is) return x;
    }
    bool   told;
    kn_ref chosen = kx_choose_told(c, n, &d, row, ch, &told);
    if (told) return chosen;
    uint32_t k = kg_nsrc(g, n);
    if (ct_joins(c, n, w)) return ct_joined(c, n, &d, row, ch);
    for (uint32_t i = 0; i < k; i++)
        if (!(src[i] = kx_operand(c, kg_at(g, n, i), &d, row, ch))) return 0;
    return kx_alu(c, n, w, src, k);
}

/* An element of what is in a register: its lane, unless it is as cheap to compute it alone. */
static bool ct_computed_alone(const kx_cut *c, kn_ref n, int w) {
    const kn_graph *g  = c->g;
    int             op = kg_op(g, n);
    if (w == 1 || op == KN_OP_RESHAPE || op == KN_OP_EXPAND || op == KN_OP_RANGE) return true;
    if (op == KN_OP_LOAD) return !kx_is_register(g, kg_at(g, n, 0));
    if (!kx_has_form(c, n)) return true;
    if (op == KN_OP_IDIV || op == KN_OP_MOD) return kx_is_told(g, n); /* else lanes cost as one does */
    if (op == KN_OP_REDUCE) return false;
    if (kg_dtype(g, n) == KN_BOOL && kx_tells_lanes(g, n)) return true; /* constants, and what is a scalar anyway */
    return kg_dtype(g, n) == KN_INDEX || kg_dtype(g, kg_at(g, n, 0)) == KN_INDEX;
}

/* Rows of a REDUCE that are folded together, each an element. */
static bool ct_take_rows(kx_cut *c, kn_ref n, const kx_tile *d, int64_t first, int count) {
    kn_ref v = kx_reduce_rows(c, n, d, first, count);
    return v && kx_lanes(c, v, count, c->sca[n] + first);
}

static kn_ref ct_build_element(kx_cut *c, kn_ref n, int64_t e) {
    kn_graph *g = c->g;
    kx_tile   d, s;
    kn_ref    src[3];
    int       op = kg_op(g, n);
    kx_tile_of(c, n, &d);
    int64_t row = e / d.lanes, lane = e % d.lanes, first;
    int     ch = ct_chunk_of(&d, lane), w = kx_chunk_width(&d, ch), from = kx_chunk_start(&d, ch);
    if (!ct_computed_alone(c, n, w)) {
        kn_ref v = kx_vec(c, n, row * d.nchunk + ch), x[KN_MAX_LANES];
        if (!v) return 0;
        if (!kx_lanes(c, v, w, x) || !kx_slots_of(c, c->sca, n, d.rows * d.lanes)) return 0;
        for (int l = 0; l < w; l++) {
            if (kg_dtype(g, x[l]) != kg_dtype(g, n)) x[l] = kx_node(c, KN_OP_CAST, kg_dtype(g, n), 0, &x[l], 1);
            c->sca[n][row * d.lanes + from + l] = x[l];
        }
        return x[lane - from];
    }
    if (c->bits[n]) {
        kn_ref v = kx_wide(c, n, e), x[KX_WIDE];
        return v && kx_lanes(c, v, KX_WIDE, x) ? x[0] : 0;
    }
    switch (op) {
    case KN_OP_LOAD: return kx_load_element(c, n, &d, row, lane);
    case KN_OP_REDUCE:
        if ((w = kx_rows_reduced(c, n, &d, row, false, &first)) > 1)
            return ct_take_rows(c, n, &d, first, w) ? c->sca[n][e] : 0;
        return kx_has_form(c, n) && kx_folds(c, n) ? kx_reduce_row(c, n, &d, row, ch)
                                                   : kx_reduce_element(c, n, &d, row, lane);
    case KN_OP_RESHAPE: return kx_sca(c, kg_at(g, n, 0), e);
    case KN_OP_EXPAND:
        kx_tile_of(c, kg_at(g, n, 0), &s);
        return kx_sca(c, kg_at(g, n, 0), kx_element_in(&s, &d, row, lane));
    case KN_OP_PARAM: return n; /* a variable */
    case KN_OP_RANGE:
        if (kx_is_iota(g, n)) {
            for (int i = d.rank - 1, ax = (int)kg_field(g, n, KN_F_RANGE_axis); i > ax; i--) e /= d.dims[i];
            return kg_idx(g, e % d.dims[kg_field(g, n, KN_F_RANGE_axis)]);
        }
        if (!(src[0] = kx_sca(c, kg_at(g, n, 0), 0))) return 0;
        return kg_with_src(g, n, src, 1);
    default: break;
    }
    if (!kn_is_alu(op) && op != KN_OP_BITCAST) return kx_refuse(c, n, "has no form"), 0;
    uint32_t k = kg_nsrc(g, n);
    for (uint32_t i = 0; i < k; i++) {
        kx_tile_of(c, kg_at(g, n, i), &s);
        if (!(src[i] = kx_sca(c, kg_at(g, n, i), kx_element_in(&s, &d, row, lane)))) return 0;
    }
    return kx_alu(c, n, 0, src, k);
}

static kn_ref ct_build_wide(kx_cut *c, kn_ref n, int64_t e) {
    kn_ref  src[3];
    kx_tile d, s;
    kx_tile_of(c, n, &d);
    for (uint32_t i = 0; i < kg_nsrc(c->g, n); i++) {
        kx_tile_of(c, kg_at(c->g, n, i), &s);
        if (!(src[i] = kx_wide(c, kg_at(c->g, n, i), kx_element_in(&s, &d, e / d.lanes, e % d.lanes)))) return 0;
    }
    return kx_alu(c, n, KX_WIDE, src, kg_nsrc(c->g, n));
}

static kn_ref ct_build_effect(kx_cut *c, kn_ref n) {
    kn_graph *g = c->g;
    uint32_t  k = kg_nsrc(g, n);
    kn_ref   *src, r;
    if (kg_op(g, n) == KN_OP_STORE) return kx_store(c, n);
    if (kg_op(g, n) == KN_OP_PREFETCH) return kx_prefetch(c, n);
    for (uint32_t i = 0; i < k; i++)
        if (!kx_sca(c, kg_at(g, n, i), 0)) return 0;
    if (!(src = kn_arena_get(&c->arena, ((size_t)k + 1) * sizeof *src))) return kn_oom(c->f), 0;
    for (uint32_t i = 0; i < k; i++) src[i] = kx_sca(c, kg_at(g, n, i), 0);
    r = kg_with_src(g, n, src, k);
    return r;
}

static bool ct_build_all(kx_cut *c) {
    while (c->nstack && !c->f->code) {
        kx_need q = c->stack[c->nstack - 1];
        kn_ref *at;
        int64_t count = 1;
        kx_tile d;
        bool    value = kg_dtype(c->g, q.node) != KN_VOID;
        if (value) {
            kx_tile_of(c, q.node, &d);
            count = q.as == KX_AS_CELL ? d.rows * d.nchunk : d.rows * d.lanes;
        }
        kn_ref **table = q.as == KX_AS_CELL ? c->vec : q.as == KX_AS_WIDE ? c->wide : c->sca;
        if (!(at = kx_slots_of(c, table, q.node, count))) return false;
        size_t before = c->nstack;
        kg_made_of(c->g, c->g, q.node);
        if (!at[q.at]) {
            kn_ref r = !value               ? ct_build_effect(c, q.node)
                       : q.as == KX_AS_CELL ? ct_build_cell(c, q.node, q.at)
                       : q.as == KX_AS_WIDE ? ct_build_wide(c, q.node, q.at)
                                            : ct_build_element(c, q.node, q.at);
            if (!r) {
                if (c->f->code || kg_fault(c->g)->code) return false;
                if (c->nstack == before) return kx_refuse(c, q.node, "waits for nothing");
                continue;
            }
            at[q.at] = r;
        }
        c->nstack--;
    }
    return !c->f->code;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

/* Lanes are loaded, or stored, from where the row's own number says on, and so near that instructions have their
 * distances: no register has their places. */
static bool ct_runs(const kn_graph *g, kn_ref x) {
    kn_ref  at = kg_at(g, x, 0);
    int     rank;
    kg_shape(g, at, &rank);
    int64_t run = kx_apart_of(g, kg_at(g, at, 1), rank);
    return run && kg_dtype(g, at) != KN_INDEX && run == (int16_t)run;
}

/* Source k of x is needed as a value, or parts of it are: not what is known of which lanes a gate lets through, or
 * which are chosen, where that takes no mask. */
static void ct_mark_source(kx_cut *c, kn_ref x, uint32_t k) {
    const kn_graph *g  = c->g;
    kn_ref          s  = kg_at(g, x, k), part[8];
    bool            is = kg_op(g, x) == KN_OP_LOAD ? k == 2 && kx_tells_lanes(g, s)
                                                   : kg_op(g, x) == KN_OP_WHERE && k == 0 && kx_is_told(g, s);
    if (!is || !kx_by_bits(c, kg_dtype(g, x))) {
        c->mark[s] = 1;
        return;
    }
    int n = kg_conjuncts(g, s, part, KN_COUNT(part));
    for (int i = 0; i < n; i++)
        if (!kx_is_told(g, part[i])) c->mark[part[i]] = 1;
}

/* Marks the values that are needed as values: an address asks for its scalars only, unless it is not affine. Then the
 * lanes: as many as the widest of them fills a register with. */
static void ct_choose_lanes(kx_cut *c, const kn_ref *order, uint32_t n, int bytes) {
    const kn_graph *g    = c->g;
    int             most = 1, least = 8;
    c->index         = KN_I32;
    c->mark[c->root] = 1;
    for (uint32_t i = n; i-- > 0;) {
        kn_ref   x     = order[i];
        int      op    = kg_op(g, x);
        uint32_t first = 0;
        if (!c->mark[x]) continue;
        if (op == KN_OP_LOAD || op == KN_OP_STORE || op == KN_OP_PREFETCH) {
            kn_ref    at = kg_at(g, x, 0), st = kg_storage(g, at);
            kn_affine f;
            first = 1;
            for (kn_ref p = at; p != st; p = kg_at(g, p, 0))
                for (uint32_t k = 1; k < kg_nsrc(g, p) && kg_op(g, p) == KN_OP_AFTER; k++) c->mark[kg_at(g, p, k)] = 1;
            if (!kx_is_register(g, at) && kg_op(g, at) == KN_OP_INDEX) {
                bool scalars = kx_plain(g, kg_at(g, at, 1), &f) || ct_runs(g, x);
                if (!scalars) c->mark[kg_at(g, at, 1)] = 1;
                for (int t = 0; scalars && t < f.n; t++)
                    if (!kx_is_iota(g, f.atom[t])) c->mark[f.atom[t]] = 1; /* read from a stage, or by each row */
            }
        }
        for (uint32_t k = first; k < kg_nsrc(g, x); k++)
            if ((op != KN_OP_RESHAPE && op != KN_OP_EXPAND) || k == 0) ct_mark_source(c, x, k);
    }
    for (uint32_t i = 0; i < n; i++) {
        kn_ref         x  = order[i];
        int            op = kg_op(g, x), dt = op == KN_OP_STORE ? kg_dtype(g, kg_at(g, x, 1)) : kg_dtype(g, x), rank;
        const int64_t *dims  = kg_shape(g, op == KN_OP_STORE ? kg_at(g, x, 0) : x, &rank);
        bool           lanes = rank && dims[rank - 1] > 1;
        if (!c->mark[x] || op == KN_OP_PARAM || op == KN_OP_BUFFER || op == KN_OP_AFTER || op == KN_OP_INDEX) continue;
        if (dt == KN_VOID || (!lanes && op != KN_OP_STORE)) continue;
        if (dt == KN_INDEX && op == KN_OP_STORE) most = KN_MAX(most, 8); /* as memory has them */
        if (dt == KN_INDEX &&
            (op == KN_OP_LOAD || op == KN_OP_STORE || kg_min(g, x) < INT32_MIN || kg_max(g, x) > INT32_MAX))
            c->index = KN_I64;
        if (dt != KN_BOOL || c->avx512) most = KN_MAX(most, dt == KN_INDEX ? 4 : kx_value_size(c, dt));
        bool flags = dt == KN_BOOL && op != KN_OP_LOAD && op != KN_OP_STORE; /* masks, but in memory */
        least      = KN_MIN(least, dt == KN_INDEX || flags ? 4 : kn_dsize(dt));
    }
    for (uint32_t i = 0; i < n && c->index == KN_I64; i++) {
        int            rank;
        const int64_t *dims = kg_shape(g, order[i], &rank);
        if (c->mark[order[i]] && kg_dtype(g, order[i]) == KN_INDEX && rank && dims[rank - 1] > 1)
            most = KN_MAX(most, 8);
    }
    c->lanes = KN_MAX(1, KN_MIN(KN_MAX_LANES, bytes / most));
    c->pairs = c->avx512 || least > 1;
}

/* Lanes may be made twice: none is folded with others, and what is stored is not made of what was there. */
static bool ct_may_lap(kx_cut *c, const kn_ref *order, uint32_t n) {
    const kn_graph *g  = c->g;
    bool            ok = c->lanes > 1;
    for (uint32_t i = 0; i < n && ok; i++) {
        int op = kg_op(g, order[i]);
        ok     = !c->dense[order[i]]; /* the pieces of both begin where a piece does */
        kn_ref st = op == KN_OP_LOAD || op == KN_OP_STORE ? kg_storage(g, kg_at(g, order[i], 0)) : 0;
        if (st && kx_is_register(g, st)) continue;
        if (op == KN_OP_LOAD) c->mark[st] |= READ;
        if (op == KN_OP_STORE) ok = !(c->mark[st] & READ); /* in order of their numbers */
        if (op == KN_OP_REDUCE) ok = !kx_folds(c, order[i]);
    }
    for (uint32_t i = 0; i < n; i++) c->mark[order[i]] &= (uint8_t)~READ;
    return ok;
}

static bool ct_is_word(int dt) { /* in registers */
    return dt == KN_I32 || dt == KN_U32 || dt == KN_BOOL || (kn_is_float(dt) && dt != KN_F64);
}

/* What is computed of the bits of an f32 goes to and fro between numbers and words: as scalars it would change files
 * each time, and hold many general registers. */
static void ct_mark_bits(kx_cut *c, const kn_ref *order, uint32_t n) {
    const kn_graph *g = c->g;
    for (uint32_t i = 0; i < n && c->lanes >= KX_WIDE; i++) {
        kn_ref x  = order[i];
        int    op = kg_op(g, x), dt = kg_dtype(g, x);
        bool   words = ct_is_word(dt), bits = false;
        if ((!kn_is_alu(op) && op != KN_OP_BITCAST) || !words || !kx_has_form(c, x)) continue;
        for (uint32_t k = 0; k < kg_nsrc(g, x); k++) {
            kn_ref s  = kg_at(g, x, k);
            int    st = kg_dtype(g, s);
            words &= ct_is_word(st);
            bits |= c->bits[s] || (op == KN_OP_BITCAST && st != dt && st == KN_F32);
        }
        c->bits[x] = words && bits;
    }
}

/* A product that is a value by itself, with -0 added to it or without, is not made a second time for a sum: it costs as
 * much there, and twice where it is subnormal, which takes processors a hundred cycles. */
static void ct_find_products(kx_cut *c, const kn_ref *order, uint32_t n) {
    kn_graph *g = c->g;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref x = order[i], a = kg_op(g, x) == KN_OP_MULACC ? kg_at(g, x, 0) : 0;
        if (!a || !kn_is_float(kg_dtype(g, x))) continue;
        kn_ref b = kg_at(g, x, 1), none = kg_float(g, kg_dtype(g, x), -0.0);
        int    forms = kg_at(g, x, 2) == none ? 0 : none < c->size ? 4 : 2;
        for (int k = 0; k < forms && !c->product[x]; k++) {
            kn_ref l = k & 1 ? b : a, r = k & 1 ? a : b;
            kn_ref m = k < 2 ? kg_op2(g, KN_OP_MUL, l, r) : kg_op3(g, KN_OP_MULACC, l, r, none);
            if (m < c->size && c->mark[m]) c->product[x] = m;
        }
    }
}

/* Depths of the loops, as Linearize will nest them. */
static void ct_find_depths(kx_cut *c, const kn_ref *order, uint32_t n) {
    for (uint32_t i = n; i-- > 0;) { /* outer ENDs have higher ids than inner ones */
        kn_ref r[64], e = order[i];
        if (kg_op(c->g, e) != KN_OP_END || kg_nsrc(c->g, e) != 2) continue;
        int m = KN_MIN(kg_ranges(c->g, e, r, KN_COUNT(r)), KN_COUNT(r)), depth = 0;
        for (int k = 0; k < m; k++) depth = KN_MAX(depth, c->depth[r[k]]);
        c->depth[kg_at(c->g, e, 1)] = depth + 1;
    }
}

bool kx_cut_kernel(kn_graph *g, kn_ref *root, bool whole, int bytes, kn_fault *f) {
    kx_cut   c = {.g = g, .f = f, .avx512 = bytes == 64, .whole = whole, .size = kg_count(g), .next_local = KX_LOCALS,
                  .root = *root};
    kn_ref  *order;
    uint32_t n;
    bool     ok = false;
    if (!kg_reach(g, root, 1, &order, &n)) return kn_oom(f);
    kn_arena_init(&c.arena, kg_alloc(g));
    c.vec   = kn_zalloc(kg_alloc(g), c.size * sizeof *c.vec);
    c.sca   = kn_zalloc(kg_alloc(g), c.size * sizeof *c.sca);
    c.off   = kn_zalloc(kg_alloc(g), c.size * sizeof *c.off);
    c.table = kn_zalloc(kg_alloc(g), c.size * sizeof *c.table);
    c.depth = kn_zalloc(kg_alloc(g), c.size * sizeof *c.depth);
    c.wide  = kn_zalloc(kg_alloc(g), c.size * sizeof *c.wide);
    c.pair  = kn_zalloc(kg_alloc(g), c.size * sizeof *c.pair);
    c.mark  = kn_zalloc(kg_alloc(g), c.size);
    c.bits  = kn_zalloc(kg_alloc(g), c.size);
    c.sum   = kn_zalloc(kg_alloc(g), c.size);
    c.dense = kn_zalloc(kg_alloc(g), c.size);
    c.product = kn_zalloc(kg_alloc(g), c.size * sizeof *c.product);
    if (!c.vec || !c.sca || !c.wide || !c.pair || !c.bits || !c.sum || !c.dense || !c.off || !c.table || !c.product ||
        !c.depth || !c.mark) {
        kn_oom(f);
        goto done;
    }
    ct_choose_lanes(&c, order, n, bytes);
    kx_find_dense(&c, order, n, bytes);
    c.laps = true; /* until something is found that does not let them */
    c.laps = ct_may_lap(&c, order, n);
    ct_find_depths(&c, order, n);
    ct_find_products(&c, order, n);
    ct_mark_bits(&c, order, n);
    kx_find_sums(&c, order, n);
    ct_ask(&c, *root, 0, KX_AS_ELEMENT);
    ok = ct_build_all(&c);
    if (ok) *root = c.sca[*root][0];
done:
    kn_arena_free(&c.arena);
    kn_free(kg_alloc(g), c.vec, c.size * sizeof *c.vec);
    kn_free(kg_alloc(g), c.sca, c.size * sizeof *c.sca);
    kn_free(kg_alloc(g), c.off, c.size * sizeof *c.off);
    kn_free(kg_alloc(g), c.table, c.size * sizeof *c.table);
    kn_free(kg_alloc(g), c.product, c.size * sizeof *c.product);
    kn_free(kg_alloc(g), c.depth, c.size * sizeof *c.depth);
    kn_free(kg_alloc(g), c.wide, c.size * sizeof *c.wide);
    kn_free(kg_alloc(g), c.pair, c.size * sizeof *c.pair);
    kn_free(kg_alloc(g), c.mark, c.size);
    kn_free(kg_alloc(g), c.bits, c.size);
    kn_free(kg_alloc(g), c.sum, c.size);
    kn_free(kg_alloc(g), c.dense, c.size);
    kn_free(kg_alloc(g), c.stack, c.stack_cap * sizeof *c.stack);
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return ok && *root;
}
