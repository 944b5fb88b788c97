/* cut_memory.c - Select of x86-64: loads, stores and their addresses.
 *
 * An address is a buffer, a scalar and a constant: INDEX(buffer, off + c), or INDEX(buffer, off + c + 0..w-1) of a run
 * of lanes. off is a chain over the loops, outermost first, each link prev + range * stride: the value that a pointer
 * bump keeps. Accesses that differ by a constant share it. */
#include "target/x86/cut.h"

#include <string.h>

bool kx_plain(const kn_graph *g, kn_ref idx, kn_affine *f) {
    if (!kg_affine(g, idx, f)) return false;
    for (int t = 0; t < f->n; t++)
        if (!kx_is_iota(g, f->atom[t]) && kg_rank(g, f->atom[t])) return false;
    return true;
}

bool kx_is_register(const kn_graph *g, kn_ref at) {
    kn_ref st = kg_storage(g, at);
    return kg_op(g, st) == KN_OP_BUFFER && kg_field(g, st, KN_F_BUFFER_space) == KN_REG;
}

/* What a place of w lanes from element `cell` on waits for: an effect, or a value that must have been read; *of
 * registers have those lanes, and this is number k of them. */
static kn_ref cm_awaited(kx_cut *c, kn_ref dep, int64_t cell, int w, int k, int *of) {
    kx_tile t;
    *of = 1;
    if (kg_dtype(c->g, dep) == KN_VOID || w < 2) return kx_sca(c, dep, 0);
    kx_tile_of(c, dep, &t);
    if (t.lanes < 2 || cell >= t.rows * t.lanes) return kx_sca(c, dep, 0);
    int chunk = 0;
    while (chunk + 1 < t.nchunk && kx_chunk_start(&t, chunk + 1) <= cell % t.lanes) chunk++;
    int width = kx_chunk_width(&t, chunk);
    if (width < 2) return kx_sca(c, dep, 0);
    if (width < w) *of = 2; /* the place is of a dense value */
    return kx_vec(c, dep, cell / t.lanes * t.nchunk + chunk + k);
}

/* The storage behind `at`, after what it waits for: of an accumulator the cell's own buffer. */
kn_ref kx_place(kx_cut *c, kn_ref at, int64_t cell, int w, int dtype) {
    kn_graph *g  = c->g;
    kn_ref    st = kg_storage(g, at), dep[64], x;
    int       n  = 0;
    for (kn_ref p = at; p != st; p = kg_at(g, p, 0))
        for (uint32_t k = 1; k < kg_nsrc(g, p) && kg_op(g, p) == KN_OP_AFTER; k++) {
            for (int half = 0, of = 1; half < of; half++) {
                if (n == KN_COUNT(dep)) return kx_refuse(c, at, "waits for too much"), 0;
                if (!(x = cm_awaited(c, kg_at(g, p, k), cell, w, half, &of))) return 0;
                dep[n++] = x;
            }
        }
    if (kx_is_register(g, st)) st = kg_buffer(g, kg_field(g, st, KN_F_BUFFER_slot) * 65536 + cell, w, dtype, 0, KN_REG);
    return n ? kg_after(g, st, dep, n) : st;
}

/* ---- addresses ------------------------------------------------------------------------------------------------- */

static int cm_depth_of(const kx_cut *c, kn_ref atom) {
    kn_ref r[64];
    int    m = KN_MIN(kg_ranges(c->g, atom, r, KN_COUNT(r)), KN_COUNT(r)), depth = 0;
    for (int k = 0; k < m; k++) depth = KN_MAX(depth, c->depth[r[k]]);
    return 2 * depth + (kg_op(c->g, atom) != KN_OP_RANGE);
}

kn_ref kx_scalar_part(kx_cut *c, kn_ref idx, const kn_affine *f, bool *none) {
    kn_graph *g = c->g;
    kn_ref    atom[KN_AFFINE_MAX], off = 0;
    int64_t   coef[KN_AFFINE_MAX];
    int       n = 0;
    *none       = false;
    if (c->off[idx]) return c->off[idx];
    for (int t = 0; t < f->n; t++) {
        if (kg_rank(g, f->atom[t]) || !f->coef[t]) continue;
        if (!kx_sca(c, f->atom[t], 0)) return 0;
        int at = n++;
        for (; at > 0 && cm_depth_of(c, atom[at - 1]) > cm_depth_of(c, f->atom[t]); at--)
            atom[at] = atom[at - 1], coef[at] = coef[at - 1];
        atom[at] = f->atom[t];
        coef[at] = f->coef[t];
    }
    *none = n == 0;
    for (int t = 0; t < n; t++) {
        kn_ref x = kx_sca(c, atom[t], 0);
        if (!off && coef[t] == 1)
            off = x;
        else
            off = kx_node(c, KN_OP_MULACC, KN_INDEX, 0, (kn_ref[]){x, kg_idx(g, coef[t]), off ? off : kg_idx(g, 0)}, 3);
        if (!off) return 0;
    }
    return c->off[idx] = off;
}

/* Of an index that some values of rows are part of, where only the lane's own number is of the lanes: how far apart
 * they lie; 0: others are as well, or all lanes are one. */
int64_t kx_apart_of(const kn_graph *g, kn_ref idx, int rank) {
    kn_affine f;
    int64_t   step = 0;
    if (!rank || !kg_affine(g, idx, &f)) return 0;
    for (int t = 0; t < f.n; t++) {
        int            r;
        const int64_t *dims = kg_shape(g, f.atom[t], &r);
        if (!r || dims[r - 1] == 1) continue;
        if (!kx_is_iota(g, f.atom[t])) return 0;
        step += f.coef[t];
    }
    return step;
}

bool kx_find_at(kx_cut *c, kn_ref at, const kx_tile *d, kx_tile_at *a) {
    kn_graph *g = c->g;
    kn_affine f;
    memset(a, 0, sizeof *a);
    if (kg_op(g, at) != KN_OP_INDEX || kg_nsrc(g, at) != 2)
        return kx_refuse(c, at, "memory must be reached through one INDEX");
    kn_ref idx = kg_at(g, at, 1);
    if (!(a->buffer = kx_place(c, at, 0, 0, 0))) return false;
    a->plain = kx_plain(g, idx, &f);
    a->run   = a->plain ? 0 : kx_apart_of(g, idx, d->rank);
    if (!a->plain) return true;
    bool none;
    if (!(a->off = kx_scalar_part(c, idx, &f, &none)) && !none) return false;
    a->base = f.base;
    for (int t = 0; t < f.n; t++)
        if (kx_is_iota(g, f.atom[t]))
            a->coef[kg_field(g, f.atom[t], KN_F_RANGE_axis) + d->rank - kg_field(g, f.atom[t], KN_F_RANGE_rank)] +=
                f.coef[t];
    return true;
}

/* An index computed as some value and a constant: the constant is part of the address, and lanes share the value. */
static kn_ref cm_base_and_rest(kn_graph *g, kn_ref x) {
    int64_t rest = 0;
    while (kg_op(g, x) == KN_OP_INS && kg_field(g, x, KN_F_INS_op) == KN_OP_ADD && kg_dtype(g, x) == KN_INDEX) {
        uint32_t k  = kg_op(g, kg_at(g, x, 0)) == KN_OP_CONST;
        kn_ref   by = kg_at(g, x, 1 - k);
        if (kg_op(g, by) != KN_OP_CONST) break;
        rest += kg_const_int(g, by);
        x = kg_at(g, x, k);
    }
    return rest ? kg_op2(g, KN_OP_ADD, x, kg_idx(g, rest)) : x;
}

static int64_t cm_constant_part(const kx_tile_at *a, const kx_tile *d, int64_t row, int64_t lane) {
    int64_t at = a->base + a->coef[d->rank ? d->rank - 1 : 0] * lane;
    for (int i = d->rank - 2; i >= 0; i--) {
        at += a->coef[i] * (row % d->dims[i]);
        row /= d->dims[i];
    }
    return at;
}

/* Element x of the buffer, and w - 1 more, so far apart. */
static kn_ref cm_place_of(kn_graph *g, const kx_tile_at *a, kn_ref x, int w, int64_t step) {
    if (w > 1) {
        kn_ref lanes = kg_iota(g, w, 0, KN_AXIS_UPCAST, 1, 0);
        if (step != 1) lanes = kg_op2(g, KN_OP_MUL, lanes, kg_idx(g, step));
        x = kg_op2(g, KN_OP_ADD, x, lanes);
    }
    return kg_index(g, a->buffer, &x, 1);
}

/* Of a plain address: the place of what is `ahead` of element (row, lane) of the tile, and w - 1 more, so far apart. */
static kn_ref cm_run_place(kx_cut *c, const kx_tile_at *a, const kx_tile *d, int64_t row, int64_t lane, int64_t ahead,
                           int w, int64_t step) {
    kn_graph *g    = c->g;
    int64_t   at_c = cm_constant_part(a, d, row, lane) + ahead;
    kn_ref x = !a->off ? kg_idx(g, at_c) : at_c ? kg_op2(g, KN_OP_ADD, a->off, kg_idx(g, at_c)) : a->off;
    return cm_place_of(g, a, x, w, step);
}

/* Element (row, lane) of the tile, and those of the w - 1 lanes behind it. 0: asked for. */
static kn_ref cm_element_place(kx_cut *c, const kx_tile_at *a, kn_ref at, const kx_tile *d, int64_t row, int64_t lane,
                               int w) {
    kn_graph *g   = c->g;
    kn_ref    idx = kg_at(g, at, 1);
    if (!a->plain) {
        kx_tile s;
        kx_tile_of(c, idx, &s);
        kn_ref x = kx_sca(c, idx, kx_element_in(&s, d, row, lane));
        if (!x) return 0;
        x = cm_base_and_rest(g, x);
        return cm_place_of(g, a, x, w, a->run);
    }
    return cm_run_place(c, a, d, row, lane, 0, w, w > 1 ? a->coef[d->rank - 1] : 1);
}

/* ---- loads and stores ------------------------------------------------------------------------------------------ */

/* A run of lanes of the dtype can be moved as one. */
static bool cm_moves_whole(const kx_cut *c, int dt) {
    return dt != KN_INDEX || c->index == KN_I64;
}

/* Lanes at places that a register of lanes holds: one instruction. */
static bool cm_gathers(const kx_cut *c, kn_ref at, int dt, int w) {
    kx_tile s;
    kx_tile_of(c, kg_at(c->g, at, 1), &s);
    return s.lanes > 1 && kn_dsize(dt) >= 4 && w * kn_dsize(dt) >= 16 && cm_moves_whole(c, dt) && c->lanes > 1;
}

/* Where each lane lies is known, but for what all have: quotients and remainders of its number, and of those. */
static bool cm_is_known(const kn_graph *g, kn_ref idx) {
    kn_affine f, in;
    if (!kg_affine(g, idx, &f)) return false;
    for (int t = 0; t < f.n; t++) {
        kn_ref         x = f.atom[t];
        int            rank;
        const int64_t *dims = kg_shape(g, x, &rank);
        bool           lanes = rank && dims[rank - 1] > 1;
        while (lanes && !kx_is_iota(g, x)) {
            if (!kx_is_part(kg_op(g, x)) || kg_op(g, kg_at(g, x, 1)) != KN_OP_CONST) return false;
            if (!kg_affine(g, kg_at(g, x, 0), &in) || in.n != 1) return false;
            x = in.atom[0];
        }
    }
    return true;
}

/* Lanes at a constant distance are put together in a register; short reals as what they are in memory. */
static bool cm_moves_apart(int dt, int w, int64_t step) {
    int  size  = kn_dsize(dt);
    bool moves = size >= 4 ? w * size >= 16 : (kn_is_int(dt) || size == 2) && dt != KN_BOOL && w * size >= 8;
    return dt != KN_INDEX && moves && step * w * size == (int32_t)(step * w * size);
}

/* A pair as well: by way of memory it would wait for two stores. Flags are bytes until they are masks,
 * in one scratch register. */
static bool cm_loads_apart(const kx_cut *c, int dt, int w, int64_t step) {
    if (dt == KN_BOOL && c->avx512 && w <= 16) dt = KN_U8;
    return cm_moves_apart(dt, kn_dsize(dt) == 4 && w == 2 ? 4 : w, step);
}

/* Under a gate of each lane, as one from places would be; step 0: one element for all that their gates let. */
static bool cm_gathers_apart(const kx_cut *c, int dt, int w, int64_t step) {
    return c->lanes > 1 && kn_dsize(dt) >= 4 && cm_moves_apart(dt, w, step);
}

/* A real that is as wide as a word in memory and as two in registers. */
static bool cm_is_half(int dt) { return dt == KN_F16 || dt == KN_BF16; }

static bool cm_masks_lanes(const kx_cut *c, int dt, int w) {
    bool held = kn_dsize(dt) >= 4 || (c->avx512 && (kn_is_int(dt) || cm_is_half(dt)));
    return c->lanes > 1 && dt != KN_BOOL && held && w * kn_dsize(dt) >= (c->avx512 ? 4 : 16);
}

/* What an accumulator of w lanes is held as. There are few masks, and many vectors: bools are bytes, 0 or 1. */
static int cm_cell_dtype(const kx_cut *c, int dt, int w) {
    if (w < 2) return dt;
    return dt == KN_BOOL && c->avx512 ? KN_U8 : kx_lane_dtype(c, dt);
}

/* The mask that was read from the accumulator. */
static bool cm_is_cell(const kn_graph *g, kn_ref x, kn_ref cell) {
    kn_ref l = kg_op(g, x) == KN_OP_INS ? kg_at(g, x, 0) : 0;
    return kg_op(g, l) == KN_OP_LOAD && kg_storage(g, kg_at(g, l, 0)) == cell;
}

/* The bytes for the mask x: where it is made of the accumulator and other masks, the accumulator under those, which do
 * not wait for it. */
static kn_ref cm_flags(kx_cut *c, kn_ref cell, kn_ref x, int w) {
    kn_graph *g  = c->g;
    int       op = kg_op(g, x) == KN_OP_INS ? (int)kg_field(g, x, KN_F_INS_op) : KN_OP_INVALID;
    bool      any = op == KN_OP_OR || op == KN_OP_MAX || op == KN_OP_ADD;
    bool      all = op == KN_OP_AND || op == KN_OP_MUL || op == KN_OP_MIN;
    kn_ref    by = 0, rest = x;
    while ((any || all) && kg_op(g, rest) == KN_OP_INS && kg_field(g, rest, KN_F_INS_op) == op) {
        uint32_t k     = cm_is_cell(g, kg_at(g, rest, 1), cell);
        kn_ref   other = kg_at(g, rest, 1 - k);
        by             = by ? kx_node(c, op, KN_BOOL, w, (kn_ref[]){other, by}, 2) : other;
        rest           = kg_at(g, rest, k);
        if (!cm_is_cell(g, rest, cell)) continue;
        kn_ref l = kg_at(g, rest, 0), src[] = {by, any ? kg_int(g, KN_U8, 1) : l, any ? l : kg_int(g, KN_U8, 0)};
        return kx_node(c, KN_OP_WHERE, KN_U8, w, src, 3);
    }
    if (kg_op(g, x) == KN_OP_CONST) return kg_int(g, KN_U8, kg_const_int(g, x));
    return kx_node(c, KN_OP_CAST, KN_U8, w, &x, 1);
}

bool kx_lanes_share(const kx_cut *c, kn_ref n) {
    kx_tile s;
    kx_tile_of(c, n, &s);
    return s.lanes == 1;
}

kn_ref kx_element_operand(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int64_t lane) {
    kx_tile s;
    kx_tile_of(c, n, &s);
    return kx_sca(c, n, kx_element_in(&s, d, row, lane));
}

kn_ref kx_load_element(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int64_t lane) {
    kn_graph  *g  = c->g;
    kn_ref     at = kg_at(g, n, 0), place, alt, gate;
    kx_tile_at a;
    if (kx_is_register(g, at)) {
        place       = kx_place(c, at, row * d->lanes + lane, 1, kg_dtype(g, n));
        kn_ref zero = kg_idx(g, 0);
        return place ? kg_load(g, kg_index(g, place, &zero, 1)) : 0;
    }
    if (!kx_find_at(c, at, d, &a)) return 0;
    if (!(place = cm_element_place(c, &a, at, d, row, lane, 1))) return 0;
    if (kg_nsrc(g, n) < 3) return kg_load(g, place);
    if (!(gate = kx_element_operand(c, kg_at(g, n, 2), d, row, lane))) return 0;
    if (!(alt = kx_element_operand(c, kg_at(g, n, 1), d, row, lane))) return 0;
    if (kg_op(g, gate) == KN_OP_CONST) return kg_const_int(g, gate) ? kg_load(g, place) : alt; /* of that lane */
    return kg_load_gated(g, place, alt, gate);
}

/* ---- blocks that are turned ------------------------------------------------------------------------------------ */

/* Rows around `row` that lie side by side in memory, `count` of them: the first, and from each how far the next is.
 * False: they do not, or are fewer. */
static bool cm_block(const kx_tile_at *a, const kx_tile *d, int64_t row, int count, int64_t *first, int64_t *next) {
    *next = 1;
    for (int i = d->rank - 2; i >= 0; i--) {
        int64_t at = row / *next % d->dims[i];
        *first     = row - at % count * *next;
        if (a->coef[i] == 1 && at - at % count + count <= d->dims[i]) return true;
        *next *= d->dims[i];
    }
    return false;
}

/* `count` registers of w lanes, of which all lanes 0 follow one another then, all lanes 1 and so on. Of an even number
 * each takes turns with the one half of all behind it; half as many pairs are left to do the same. */
static bool cm_interleave(kx_cut *c, int dt, kn_ref *x, int count, int w) {
    kn_graph *g    = c->g;
    kn_ref    run  = kg_iota(g, w, 0, KN_AXIS_UPCAST, 1, 0);
    bool      once = !c->avx512; /* rows that are one register are moved to all their places by one shuffle */
    for (int k = 1; k < count; k++) once &= x[k] == x[0];
    for (int of = count, by; of > 1; of /= by) {
        by         = of % 2 || once ? of : 2;
        kn_ref far = kg_op2(g, KN_OP_MUL, run, kg_idx(g, by)), put[KN_IN_TURNS];
        for (int i = 0; i < count; i++) {
            if (i % of >= of / by) continue;
            kn_ref all = kg_buffer(g, c->next_local++, (int64_t)by * w, dt, 0, KN_LOCAL);
            for (int k = 0; k < by; k++) {
                kn_ref at = kg_op2(g, KN_OP_ADD, kg_idx(g, k), far);
                put[k]    = kg_store(g, kg_index(g, all, &at, 1), x[i + k * (of / by)], 0);
            }
            kn_ref from = kg_after(g, all, put, by);
            for (int k = 0; k < by; k++) {
                kn_ref at            = kg_op2(g, KN_OP_ADD, kg_idx(g, k * w), run);
                x[i + k * (of / by)] = kg_load(g, kg_index(g, from, &at, 1));
            }
        }
    }
    return x[count - 1] != 0;
}

/* Two registers of bytes or words are put in turns by one instruction for each of the two that come of it; every second
 * of their lanes takes one of three steps, or on AVX2, and of bytes, none. */
static bool cm_unpacks(const kx_cut *c, int dt, int w) {
    return kn_dsize(dt) <= 2 && w * kn_dsize(dt) == 16 && kx_interleaves(c->avx512, dt, 2, w);
}

/* So many registers of as many lanes can be turned. */
static bool cm_turns(const kx_cut *c, int dt, int w) {
    return (w > 2 && kx_alternates(c->avx512, dt, w)) || cm_unpacks(c, dt, w);
}

/* w registers of w lanes: lane k of x[l] becomes lane l of x[k]. Of two registers, one behind the other, the even lanes
 * make one and the odd lanes the other: the lowest bit of the lane's number becomes a bit of the register's, and that
 * bit of the register's the highest of the lane's. After all of them each stands where the other did. Two registers in
 * turns are the way back: from the highest bit of the register's number on. */
static bool cm_turn(kx_cut *c, int dt, kn_ref *x, int w) {
    for (int bit = w / 2; bit && cm_unpacks(c, dt, w); bit /= 2)
        for (int i = 0; i < w; i++) {
            kn_ref pair[2] = {x[i], x[i | bit]};
            if (i & bit || !cm_interleave(c, dt, pair, 2, w)) continue;
            x[i]       = pair[0];
            x[i | bit] = pair[1];
        }
    for (int bit = 1; bit < w && !cm_unpacks(c, dt, w); bit *= 2)
        for (int i = 0; i < w; i++) {
            if (i & bit) continue;
            kn_ref both = kx_behind(c, dt, x[i], x[i | bit], w);
            x[i]        = kx_every_second(c, both, 0, w);
            x[i | bit]  = kx_every_second(c, both, 1, w);
        }
    return x[w - 1] != 0;
}

/* Every fourth element is every second one of those that are every second one, every eighth of those again: what loads
 * of the others share. 0: they do not lie so, or not all in the buffer. */
static kn_ref cm_load_halves(kx_cut *c, kn_ref n, const kx_tile_at *a, const kx_tile *d, int64_t row, int chunk) {
    kn_graph *g = c->g;
    kn_ref    idx = kg_at(g, kg_at(g, n, 0), 1), x[KN_IN_TURNS / 2];
    int       w = kx_chunk_width(d, chunk), from = kx_chunk_start(d, chunk), dt = kg_dtype(g, n);
    int64_t   step = a->coef[d->rank - 1], p = cm_constant_part(a, d, row, from) & (step - 1);
    if ((step != 4 && step != 8 && (step != 2 || w > 2)) || kn_dsize(dt) < 4) return 0;
    if (!kx_alternates(c->avx512, dt, w)) return 0;
    if (step == 8 && !c->avx512) return 0;
    int64_t before = cm_constant_part(a, d, row, 0) - a->base, behind = -before; /* of the row, in the tile */
    for (int i = 0; i < d->rank - 1; i++) {
        int64_t last = a->coef[i] * (d->dims[i] - 1);
        *(last < 0 ? &before : &behind) += last < 0 ? -last : last;
    }
    if (kg_min(g, idx) + before < p) return 0;
    if (kg_max(g, idx) - behind > kg_numel(g, kg_storage(g, a->buffer)) - step + p) return 0;
    if (step == 2) { /* an instruction for two lanes, which need no table; the other two may be asked for as well */
        for (int k = 0; k < 2; k++)
            if (!(x[k] = kg_load(g, cm_run_place(c, a, d, row, from, k * w - p, w, 1)))) return 0;
        return kx_every_second(c, kx_behind(c, dt, x[0], x[1], w), (int)p, w);
    }
    for (int k = 0; k < step / 2; k++)
        if (!(x[k] = kg_load(g, cm_run_place(c, a, d, row, from, 2 * w * k - p + p % 2, w, 2)))) return 0;
    for (int64_t by = 2; by < step; by *= 2)
        for (int k = 0; k < step / by / 2; k++)
            x[k] = kx_every_second(c, kx_behind(c, dt, x[2 * k], x[2 * k + 1], w), (int)(p / by % 2), w);
    return x[0];
}

/* Lanes that are far apart, where rows lie side by side: each line of memory is touched once, for a whole block. */
static kn_ref cm_load_block(kx_cut *c, kn_ref n, const kx_tile_at *a, const kx_tile *d, int64_t row, int chunk) {
    int     w = kx_chunk_width(d, chunk), from = kx_chunk_start(d, chunk), dt = kg_dtype(c->g, n);
    int64_t first, next;
    kn_ref  x[KN_MAX_LANES];
    if (!cm_turns(c, dt, w) || !cm_block(a, d, row, w, &first, &next)) return 0;
    for (int l = 0; l < w; l++)
        if (!(x[l] = kg_load(c->g, cm_run_place(c, a, d, first, from + l, 0, w, 1)))) return 0;
    if (!cm_turn(c, dt, x, w)) return 0;
    for (int k = 0; k < w; k++) c->vec[n][(first + k * next) * d->nchunk + chunk] = x[k];
    return c->vec[n][row * d->nchunk + chunk];
}

/* Two or four lanes of bytes or words that are far apart, of rows of which eight bytes lie side by side. */
static bool cm_is_narrow(const kx_cut *c, const kx_tile_at *a, const kx_tile *d, int dt, int w, int64_t row,
                         int64_t *first, int64_t *next) {
    int size = kn_dsize(dt), own = size == 1 ? KN_U8 : KN_U16;
    if (size > 2 || dt == KN_BOOL || (w != 2 && w != 4) || !kn_is_int(dt)) return false;
    return kx_interleaves(c->avx512, own, 2, 16 / size) && kx_joins(c->avx512, own, 16 / size) &&
           cm_block(a, d, row, 8 / size, first, next);
}

/* Such lanes are put in turns byte by byte, and of four, two of which are one register, pair by pair behind that. */
static kn_ref cm_load_narrow(kx_cut *c, kn_ref n, const kx_tile_at *a, const kx_tile *d, int64_t row, int chunk) {
    kn_graph *g  = c->g;
    int       dt = kg_dtype(g, n), size = kn_dsize(dt), rows = 8 / size, from = kx_chunk_start(d, chunk);
    int       own = size == 1 ? KN_U8 : KN_U16, wide = size == 1 ? KN_U16 : KN_U32, w = kx_chunk_width(d, chunk);
    int64_t   first, next;
    kn_ref    x[4], y[2];
    if (!cm_is_narrow(c, a, d, dt, w, row, &first, &next)) return 0;
    for (int l = 0; l < w; l++) {
        x[l] = kg_load(g, cm_run_place(c, a, d, first, from + l, 0, rows, 1));
        if (dt != own) x[l] = kg_bitcast(g, x[l], own);
    }
    for (int l = 0; l < 2; l++) y[l] = kx_join(c, own, x[l], x[w == 4 ? l + 2 : l], rows);
    if (!cm_interleave(c, own, y, 2, 2 * rows)) return 0;
    if (w == 4) {
        for (int l = 0; l < 2; l++) y[l] = kg_bitcast(g, y[l], wide);
        if (!cm_interleave(c, wide, y, 2, rows)) return 0;
    }
    for (int l = 0; l < w / 2; l++) y[l] = kg_bitcast(g, y[l], dt);
    for (int k = 0; k < rows; k++) {
        int at = w * k % (2 * rows);
        c->vec[n][(first + k * next) * d->nchunk + chunk] = kx_part(c, y[w * k / (2 * rows)], 2 * rows, at, w);
    }
    return c->vec[n][row * d->nchunk + chunk];
}

/* The same of a STORE, of a part of the lanes where fewer rows lie side by side, or few rows that lie in turns; *known:
 * it is of such rows. */
static kn_ref cm_store_block(kx_cut *c, kn_ref n, const kx_tile_at *a, const kx_tile *d, int64_t row, int chunk,
                             bool *known) {
    kn_graph *g = c->g;
    int       w = kx_chunk_width(d, chunk), from = kx_chunk_start(d, chunk), dt = kg_dtype(g, kg_at(g, n, 1));
    int64_t   first, next, step = a->coef[d->rank - 1];
    bool      turns = step > 1 && step <= KN_IN_TURNS && step < w && kx_interleaves(c->avx512, dt, (int)step, w);
    int       count = turns ? (int)step : w, n_put = 0;
    kn_ref    x[KN_MAX_LANES], y[KN_MAX_LANES], put[KN_MAX_LANES];
    for (*known = false; !*known && (turns || cm_turns(c, dt, count)); count /= 2)
        if ((*known = cm_block(a, d, row, count, &first, &next)) || turns) break;
    for (int k = 0; k < count && *known; k++) {
        if (!(x[k] = kx_operand(c, kg_at(g, n, 1), d, first + k * next, chunk))) return 0;
        if (kg_op(g, x[k]) != KN_OP_CONST) continue;
        *known = dt != KN_INDEX; /* no register has it */
        x[k]   = kx_node(c, KN_OP_CAST, dt, w, &x[k], 1);
    }
    if (!*known) return 0;
    if (row != first) return c->vec[n][first * d->nchunk + chunk]; /* has stored all of it */
    for (int l = 0; l < (turns ? 1 : w); l += count) {
        for (int k = 0; k < count; k++) y[k] = turns || count == w ? x[k] : kx_part(c, x[k], w, l, count);
        if (!(turns ? cm_interleave(c, dt, y, count, w) : cm_turn(c, dt, y, count))) return 0;
        for (int k = 0; k < count; k++) {
            kn_ref place = turns ? cm_run_place(c, a, d, first, from, k * w, w, 1)
                                 : cm_run_place(c, a, d, first, from + l + k, 0, count, 1);
            put[n_put++] = kg_make(g, KN_OP_STORE, 0, kg_node(g, n)->arg, (kn_ref[]){place, y[k]}, 2);
        }
    }
    return kg_list(g, KN_OP_GROUP, put, n_put);
}

kn_ref kx_load_cell(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk) {
    kn_graph  *g  = c->g;
    kn_ref     at = kg_at(g, n, 0), gate = kg_nsrc(g, n) == 3 ? kg_at(g, n, 2) : 0, place, alt = 0, gt = 0;
    int        dt = kg_dtype(g, n), w = kx_chunk_width(d, chunk), from = kx_chunk_start(d, chunk);
    kx_tile_at a;
    if (kx_is_register(g, at)) {
        int held = cm_cell_dtype(c, dt, w);
        if (!(place = kx_place(c, at, row * d->lanes + from, w, held))) return 0;
        kn_ref x = kg_load(g, place);
        return held == dt || dt != KN_BOOL ? x : kx_node(c, KN_OP_CMPNE, dt, w, (kn_ref[]){x, kg_int(g, held, 0)}, 2);
    }
    if (!kx_find_at(c, at, d, &a)) return 0;
    bool     still = !gate || kx_lanes_share(c, gate);
    kx_let   let = {.lanes = UINT64_MAX >> (64 - w)};
    uint64_t all = let.lanes;
    int      known = still ? -1 : kx_known_gate(c, gate, d, row, from, w, &let);
    if (!known) return 0;
    if (known > 0 && !let.lanes) return kx_operand(c, kg_at(g, n, 1), d, row, chunk);
    if (known > 0 && let.lanes == all && !let.nrest) gate = 0, still = true;
    if (a.plain && a.coef[d->rank - 1] == 0 && still && (!gate || kx_lanes_share(c, kg_at(g, n, 1)))) {
        kn_ref x = kx_load_element(c, n, d, row, from);
        return x ? kx_splat(c, x, w) : 0;
    }
    int64_t step = a.plain ? a.coef[d->rank - 1] : a.run;
    if (known > 0 && step != 1 && __builtin_popcountll(let.lanes) == 1 && dt != KN_BOOL && dt != KN_INDEX)
        return kx_load_only(c, n, &let, d, row, chunk);
    bool run = step == 1 ? cm_moves_whole(c, dt)
               : still   ? (a.plain || step) && cm_loads_apart(c, dt, w, step)
                         : (a.plain || step) && cm_gathers_apart(c, dt, w, step);
    if (a.plain && kg_nsrc(g, n) == 1 && step != 1) { /* a block has rows whose gates are others */
        kn_ref x = cm_load_block(c, n, &a, d, row, chunk);
        if (!x) x = cm_load_narrow(c, n, &a, d, row, chunk);
        if (!x) x = cm_load_halves(c, n, &a, d, row, chunk);
        if (x) return x;
    }
    bool gathers = !a.plain && !run && cm_gathers(c, at, dt, w), none = true;
    bool told = !a.plain && step != 1 && (!gate || (known > 0 && dt != KN_BOOL)) && cm_is_known(g, kg_at(g, at, 1));
    told |= a.plain && gate && known > 0 && dt != KN_BOOL && (step != 1 || kx_by_bits(c, dt));
    if (told) {
        place = kx_load_places(c, n, &a, d, row, chunk, let.lanes, &none);
        if (!none && gate) place = place ? kx_load_let(c, n, place, &let, d, row, chunk) : 0;
    }
    if (!none) return place;
    if (gathers && told && !gate) place = kx_pack_runs(c, n, d, row, chunk, &none);
    if (!none) return place;
    if (gathers && !(place = kx_operand(c, kg_at(g, at, 1), d, row, chunk))) return 0;
    if (gathers) gathers = kg_op(g, place) != KN_OP_CONST; /* else all lanes are one element */
    bool zero   = gate && kx_is_zero(g, kg_at(g, n, 1));
    bool masked = cm_masks_lanes(c, dt, w) && ((c->avx512 && !cm_is_half(dt)) || zero); /* those left out are 0 */
    if (!gathers && (!run || (!still && !masked && step == 1))) return kx_pack_elements(c, n, d, row, chunk);
    if (gathers) {
        if (kg_dtype(g, place) != KN_INDEX) place = kx_node(c, KN_OP_CAST, KN_INDEX, w, &place, 1);
        place = kg_index(g, a.buffer, &place, 1);
    } else if (!(place = cm_element_place(c, &a, at, d, row, from, w)))
        return 0;
    if (!gate) return kg_load(g, place);
    gt = still ? kx_element_operand(c, gate, d, row, from) : kx_operand(c, gate, d, row, chunk);
    if (!gt || !(alt = kx_operand(c, kg_at(g, n, 1), d, row, chunk))) return 0;
    if (kg_dtype(g, alt) != dt) { /* an index: lanes of it are held as integers */
        bool same = kg_op(g, alt) == KN_OP_CONST;
        alt       = same ? kg_int(g, dt, kg_const_int(g, alt)) : kx_node(c, KN_OP_CAST, dt, w, &alt, 1);
    }
    if (kg_op(g, gt) == KN_OP_CONST) return kg_const_int(g, gt) ? kg_load(g, place) : alt; /* of all these lanes */
    return kg_load_gated(g, place, alt, gt);
}

static kn_ref cm_store_element(kx_cut *c, kn_ref n, const kx_tile_at *a, const kx_tile *d, int64_t row, int64_t lane) {
    kn_graph *g    = c->g;
    kn_ref    gate = kg_nsrc(g, n) == 3 ? kg_at(g, n, 2) : 0, gt = 0, at = kg_at(g, n, 0), x, place;
    if (gate && !(gt = kx_element_operand(c, gate, d, row, lane))) return 0;
    if (!(x = kx_element_operand(c, kg_at(g, n, 1), d, row, lane))) return 0;
    if (!(place = cm_element_place(c, a, at, d, row, lane, 1))) return 0;
    return kg_store(g, place, x, gt);
}

/* A load whose lanes come one by one: what stores them does so one by one too, and waits for no wide load of what was
 * just written in parts. */
static bool cm_by_elements(kx_cut *c, kn_ref n, int w) {
    kx_tile    t;
    kx_tile_at a;
    if (kg_op(c->g, n) != KN_OP_LOAD || kx_is_register(c->g, kg_at(c->g, n, 0))) return false;
    kx_tile_of(c, n, &t);
    int dt = kg_dtype(c->g, n);
    if (!t.rank || !kx_find_at(c, kg_at(c->g, n, 0), &t, &a)) return false; /* one element for all lanes */
    kn_ref at = kg_at(c->g, n, 0);
    if (!a.plain) return !a.run && !cm_gathers(c, at, dt, w) && !cm_is_known(c->g, kg_at(c->g, at, 1));
    if (kg_nsrc(c->g, n) > 1) return false;
    int64_t step = a.coef[t.rank - 1], first, next;
    return step != 0 && step != 1 && !cm_loads_apart(c, dt, w, step) && !cm_turns(c, dt, w) &&
           !cm_is_narrow(c, &a, &t, dt, w, 0, &first, &next);
}

/* A cell that holds what a gate, known of each lane, lets through of lanes that no mask can leave out, and a constant
 * beside it: what is let through is stored by itself, and so is the constant. *is: it is one. 0: asked for. */
static kn_ref cm_store_let_through(kx_cut *c, kn_ref n, const kx_tile_at *a, const kx_tile *d, int64_t row, int ch,
                                   bool *is) {
    kn_graph  *g = c->g;
    kn_ref     v = kg_at(g, n, 1), at = kg_at(g, n, 0), put[KN_MAX_LANES];
    int        w = kx_chunk_width(d, ch), from = kx_chunk_start(d, ch), dt = kg_dtype(g, v), m = 0, count;
    kx_tile    t;
    kx_tile_at s;
    kx_let     let;
    *is = false;
    if (w < 2 || kg_op(g, v) != KN_OP_LOAD || kg_nsrc(g, v) != 3 || kg_op(g, kg_at(g, v, 1)) != KN_OP_CONST) return 0;
    if (kx_is_register(g, kg_at(g, v, 0)) || !cm_moves_whole(c, dt) || cm_masks_lanes(c, dt, w)) return 0;
    kx_tile_of(c, v, &t);
    if (t.lanes != d->lanes || t.width != d->width || kx_lanes_share(c, kg_at(g, v, 2))) return 0;
    int64_t r = kx_row_in(&t, d, row);
    *is       = true; /* until it is known that it is not */
    if (!kx_find_at(c, kg_at(g, v, 0), &t, &s)) return 0;
    int known = s.plain && s.coef[t.rank - 1] == 1 ? kx_known_gate(c, kg_at(g, v, 2), &t, r, from, w, &let) : -1;
    if (!known) return 0;
    *is = known > 0 && !let.nrest && let.lanes && let.lanes != UINT64_MAX >> (64 - w);
    for (int l = 0, run; l < w && *is; l += run) {
        bool lets = let.lanes >> l & 1;
        for (run = 1; l + run < w && (let.lanes >> (l + run) & 1) == lets;) run++;
        for (count = 1; 2 * count <= run;) count *= 2;
        for (int k = 0; k < run;) {
            if (k + count > run && c->laps) k = run - count; /* what was stored is stored again */
            while (k + count > run) count /= 2;
            kn_ref to = cm_element_place(c, a, at, d, row, from + l + k, count), x = kg_at(g, v, 1);
            if (!to) return 0;
            if (lets) x = kg_load(g, cm_run_place(c, &s, &t, r, from + l + k, 0, count, 1));
            put[m++] = kg_store(g, to, x, 0);
            k += count;
        }
    }
    return *is ? kg_list(g, KN_OP_GROUP, put, m) : 0;
}

static kn_ref cm_store_cell(kx_cut *c, kn_ref n, const kx_tile_at *a, const kx_tile *d, int64_t row, int ch) {
    kn_graph *g  = c->g;
    kn_ref    at = kg_at(g, n, 0), gate = kg_nsrc(g, n) == 3 ? kg_at(g, n, 2) : 0, gt = 0, x, place;
    int       w = kx_chunk_width(d, ch), from = kx_chunk_start(d, ch), dt = kg_dtype(g, kg_at(g, n, 1));
    if (kx_is_register(g, at)) {
        kn_ref zero = kg_idx(g, 0);
        int    held = cm_cell_dtype(c, dt, w);
        if (!(x = kx_operand(c, kg_at(g, n, 1), d, row, ch))) return 0;
        if (!(place = kx_place(c, at, row * d->lanes + from, w, held))) return 0;
        if (held != dt && dt == KN_BOOL) x = cm_flags(c, kg_storage(g, place), x, w);
        return kg_store(g, w > 1 ? place : kg_index(g, place, &zero, 1), x, 0);
    }
    bool    still = !gate || kx_lanes_share(c, gate), block;
    int64_t step  = w < 2 ? 0 : a->plain ? a->coef[d->rank - 1] : a->run == 1;
    if (step && step != 1 && !gate) {
        x = cm_store_block(c, n, a, d, row, ch, &block);
        if (block) return x;
    }
    bool    run   = step == 1 ? cm_moves_whole(c, dt) && (still || cm_masks_lanes(c, dt, w))
                              : step && still && cm_moves_apart(dt, w, step);
    if (run && !gate) {
        x = cm_store_let_through(c, n, a, d, row, ch, &block);
        if (block) return x;
    }
    if (run && !(w > 1 && cm_by_elements(c, kg_at(g, n, 1), w))) {
        if (gate && !(gt = still ? kx_element_operand(c, gate, d, row, from) : kx_operand(c, gate, d, row, ch)))
            return 0;
        if (gt && kg_op(g, gt) == KN_OP_CONST && kg_const_int(g, gt)) gt = 0; /* all these lanes are there */
        if (!(x = kx_operand(c, kg_at(g, n, 1), d, row, ch))) return 0;
        if (!(place = cm_element_place(c, a, at, d, row, from, w))) return 0;
        if (dt == KN_INDEX) x = kg_op(g, x) == KN_OP_CONST ? kg_idx(g, kg_const_int(g, x)) : kg_bitcast(g, x, dt);
        uint32_t arg = kg_node(g, n)->arg | (d->laps && ch == d->nchunk - 1 ? KX_LAPS : 0);
        return kg_make(g, KN_OP_STORE, 0, arg, (kn_ref[]){place, x, gt}, gt ? 3 : 2);
    }
    kn_ref put[KN_MAX_LANES];
    for (int l = 0; l < w; l++)
        if (!(put[l] = cm_store_element(c, n, a, d, row, from + l))) return 0;
    return w > 1 ? kg_list(g, KN_OP_GROUP, put, w) : put[0];
}

/* Rows of a REDUCE that are folded together, and follow one another in memory: one STORE from `row` on, the first of
 * `count`. *alone: there are none. */
static kn_ref cm_store_rows(kx_cut *c, kn_ref n, const kx_tile_at *a, const kx_tile *d, int64_t row, int *count,
                            bool *alone) {
    kn_graph *g = c->g;
    kn_ref    v = kg_at(g, n, 1), x, place;
    kx_tile   t;
    int64_t   first = 0;
    kx_tile_of(c, v, &t);
    *alone = kg_op(g, v) != KN_OP_REDUCE || kg_nsrc(g, n) > 2 || !a->plain || t.rank != d->rank || t.rows != d->rows;
    *count = *alone ? 1 : kx_rows_reduced(c, v, &t, row, true, &first);
    *alone |= *count < 2 || first != row;
    for (int k = 1; k < *count && !*alone; k++)
        *alone = cm_constant_part(a, d, row + k, 0) != cm_constant_part(a, d, row, 0) + k;
    if (*alone || !(x = kx_reduce_rows(c, v, &t, row, *count))) return 0;
    if (!(place = cm_run_place(c, a, d, row, 0, 0, *count, 1))) return 0;
    return kg_store(g, place, x, 0);
}

kn_ref kx_store(kx_cut *c, kn_ref n) {
    kx_tile    d;
    kx_tile_at a  = {0};
    kn_ref     at = kg_at(c->g, n, 0), *part;
    kx_tile_of(c, n, &d);
    if (!kx_is_register(c->g, at) && !kx_find_at(c, at, &d, &a)) return 0;
    int64_t count = d.rows * d.nchunk;
    /* cells that are there already, while others were waited for, are kept under the target's own node */
    if (!c->vec[n] && !(c->vec[n] = kn_arena_get(&c->arena, (size_t)(count + 1) * sizeof *part)))
        return kn_oom(c->f), 0;
    part = c->vec[n];
    if (!c->mark[n] || c->mark[n] == 1) memset(part, 0, (size_t)(count + 1) * sizeof *part), c->mark[n] = 2;
    for (int64_t k = 0; k < count; k++) {
        int  rows  = 1;
        bool alone = part[k] || d.lanes > 1;
        if (!alone) part[k] = cm_store_rows(c, n, &a, &d, k, &rows, &alone);
        if (alone && !part[k]) part[k] = cm_store_cell(c, n, &a, &d, k / d.nchunk, (int)(k % d.nchunk));
        if (!part[k]) return 0;
        for (; rows > 1 && !alone; rows--, k++) part[k + 1] = part[k];
    }
    int all = 0;
    for (int64_t k = 0; k < count; k++)
        if (!all || part[k] != part[all - 1]) part[all++] = part[k];
    return all == 1 ? part[0] : kg_list(c->g, KN_OP_GROUP, part, all);
}

/* A hint for the lines of 64 bytes that a tile touches: one for each that a row goes on to, and none for a line's
 * length where there is one already, as of rows that lie in turns. */
kn_ref kx_prefetch(kx_cut *c, kn_ref n) {
    kx_tile    d;
    kx_tile_at a;
    kn_ref     at = kg_at(c->g, n, 0), part[256];
    int64_t    known[KN_COUNT(part)], line = 64 / KN_MAX(kn_dsize(kg_dtype(c->g, at)), 1); /* elements */
    int        m = 0;
    kx_tile_of(c, at, &d);
    if (!kx_find_at(c, at, &d, &a)) return 0;
    int64_t apart = a.plain && d.rank ? KN_MAX(a.coef[d.rank - 1], 1) : 1, step = KN_MAX(line / apart, 1);
    for (int64_t row = 0; row < d.rows; row++)
        for (int64_t lane = 0; lane < d.lanes && m < KN_COUNT(part); lane += step) {
            bool is_known = false;
            known[m]      = cm_constant_part(&a, &d, row, lane);
            for (int k = 0; k < m && a.plain; k++) is_known |= known[m] - known[k] < line && known[k] - known[m] < line;
            if (is_known) continue;
            kn_ref place = cm_element_place(c, &a, at, &d, row, lane, 1);
            if (!place) return 0;
            part[m++] = kg_op1(c->g, KN_OP_PREFETCH, place);
        }
    return m == 1 ? part[0] : kg_list(c->g, KN_OP_GROUP, part, m);
}
