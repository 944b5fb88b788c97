/* cut_gates.c - inside Select of x86-64: loads of lanes that lie, or are let through, as is known of their numbers.
 *
 * Such lanes are shuffled from a few runs; what a gate leaves out of them is chosen by what is known of it, and what
 * all lanes share of the gate is asked once. */
#include "target/x86/cut.h"

#include <string.h>

enum { TOLD_NODES = 64, TOLD_STACK = 16 }; /* that are looked at, at most */

bool kx_is_told(const kn_graph *g, kn_ref x) {
    kn_ref stack[TOLD_STACK] = {x};
    if (!kg_closed(g, x)) return false;
    for (int n = 1, seen = 0; n > 0;) {
        kn_ref y  = stack[--n];
        int    op = kg_op(g, y);
        if (op == KN_OP_CONST || kx_is_iota(g, y)) continue;
        bool     views = op == KN_OP_EXPAND || op == KN_OP_RESHAPE;
        uint32_t k     = views ? 1 : kg_nsrc(g, y);
        if ((!views && !kn_is_alu(op)) || ++seen > TOLD_NODES || n + (int)k > TOLD_STACK) return false;
        while (k-- > 0) stack[n++] = kg_at(g, y, k);
    }
    return true;
}

bool kx_tells_lanes(const kn_graph *g, kn_ref gate) {
    kn_ref part[8];
    int    n = kg_conjuncts(g, gate, part, KN_COUNT(part));
    for (int i = 0; i < n; i++) {
        int            rank;
        const int64_t *dims = kg_shape(g, part[i], &rank);
        if (rank && dims[rank - 1] > 1 && !kx_is_told(g, part[i])) return false;
    }
    return n > 0;
}

/* Lanes of a number each. */
static kn_ref cg_numbers(kx_cut *c, int dtype, const int64_t *v, int w) {
    kn_ref number[KN_MAX_LANES];
    bool   same = true;
    for (int l = 0; l < w; l++) same &= v[l] == v[0];
    if (same) return kg_int(c->g, dtype, v[0]);
    for (int l = 0; l < w; l++) number[l] = kg_idx(c->g, v[l]);
    kn_ref all = kg_list(c->g, KN_OP_STACK, number, w);
    return kx_node(c, KN_OP_CAST, dtype, w, &all, 1);
}

/* Those of x's lanes; the others are 0. */
static kn_ref cg_only(kx_cut *c, int dtype, int w, uint64_t lanes, kn_ref x) {
    bool    one = kg_op(c->g, x) == KN_OP_CONST;
    int64_t v[KN_MAX_LANES] = {0}, all = kn_dtypes[dtype].min < 0 ? -1 : (int64_t)kn_dtypes[dtype].max;
    for (int l = 0; l < w; l++) v[l] = lanes >> l & 1 ? one ? kg_const_int(c->g, x) : all : 0;
    kn_ref mask = cg_numbers(c, dtype, v, w);
    return one ? mask : kx_node(c, KN_OP_AND, dtype, w, (kn_ref[]){x, mask}, 2);
}

/* Those lanes of x, and the others of y, by their bits: it takes no mask. */
static kn_ref cg_choose_bits(kx_cut *c, int dtype, int w, uint64_t lanes, kn_ref x, kn_ref y) {
    kn_ref both[2] = {cg_only(c, dtype, w, lanes, x), cg_only(c, dtype, w, ~lanes, y)};
    return kx_node(c, KN_OP_OR, dtype, w, both, 2);
}

kn_ref kx_choose_told(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk, bool *is) {
    int      w = kx_chunk_width(d, chunk), from = kx_chunk_start(d, chunk);
    uint64_t lanes = 0, all = UINT64_MAX >> (64 - w);
    *is = kg_op(c->g, n) == KN_OP_WHERE && kx_by_bits(c, kg_dtype(c->g, n)) && kx_is_told(c->g, kg_at(c->g, n, 0));
    for (int l = 0; l < w && *is; l++) {
        kn_ref x = kx_element_operand(c, kg_at(c->g, n, 0), d, row, from + l);
        if (!x) return 0;
        *is = kg_op(c->g, x) == KN_OP_CONST;
        lanes |= (uint64_t)(*is && kg_const_int(c->g, x)) << l;
    }
    if (!*is) return 0;
    kn_ref x = lanes ? kx_operand(c, kg_at(c->g, n, 1), d, row, chunk) : 0;
    kn_ref y = lanes != all ? kx_operand(c, kg_at(c->g, n, 2), d, row, chunk) : 0;
    if (!lanes || lanes == all) return lanes ? x : y;
    return x && y ? cg_choose_bits(c, kg_dtype(c->g, n), w, lanes, x, y) : 0;
}

/* What a part of an index that is known is of that lane. */
static int64_t cg_lane_value(const kn_graph *g, kn_ref x, int64_t lane) {
    kn_ref    part[8];
    kn_affine in;
    int       n = 0;
    for (; !kx_is_iota(g, x) && n < KN_COUNT(part) && kg_affine(g, kg_at(g, x, 0), &in); x = in.atom[0]) part[n++] = x;
    for (int64_t by; n-- > 0;) {
        kg_affine(g, kg_at(g, part[n], 0), &in);
        by   = kg_const_int(g, kg_at(g, part[n], 1));
        lane = in.base + in.coef[0] * lane;
        switch (kg_op(g, part[n])) {
        case KN_OP_IDIV: lane = kn_floor_div(lane, by); break;
        case KN_OP_MOD: lane = kn_floor_mod(lane, by); break;
        case KN_OP_SHR: lane >>= by; break;
        default: lane &= by;
        }
    }
    return lane;
}

int kx_known_gate(kx_cut *c, kn_ref gate, const kx_tile *d, int64_t row, int from, int w, kx_let *out) {
    kn_ref part[KN_COUNT(out->known)];
    int    n = kg_conjuncts(c->g, gate, part, KN_COUNT(part));
    memset(out, 0, sizeof *out);
    out->lanes = UINT64_MAX >> (64 - w);
    for (int i = 0; i < n; i++) {
        if (!kg_closed(c->g, part[i])) {
            if (!kx_lanes_share(c, part[i])) return -1;
            out->rest[out->nrest++] = part[i];
            continue;
        }
        out->known[out->nknown++] = part[i];
        for (int l = 0; l < w; l++) {
            kn_ref x = kx_element_operand(c, part[i], d, row, from + l);
            if (!x) return 0;
            if (kg_op(c->g, x) != KN_OP_CONST) return -1;
            if (!kg_const_int(c->g, x)) out->lanes &= ~((uint64_t)1 << l);
        }
    }
    return out->nknown ? 1 : -1;
}

/* What all lanes share of the gate: a scalar, or a CONST. 0: asked for. */
static kn_ref cg_rest_of(kx_cut *c, const kx_let *t, const kx_tile *d, int64_t row, int from) {
    kn_ref all = kg_int(c->g, KN_BOOL, 1);
    for (int k = 0; k < t->nrest; k++) {
        kn_ref x = kx_element_operand(c, t->rest[k], d, row, from);
        if (!x || !(all = kx_node(c, KN_OP_AND, KN_BOOL, 0, (kn_ref[]){all, x}, 2))) return 0;
    }
    return all;
}

/* The lanes that the known parts let through, as a mask. 0: asked for. */
static kn_ref cg_known_lanes(kx_cut *c, const kx_let *t, const kx_tile *d, int64_t row, int chunk) {
    kn_ref let = kg_int(c->g, KN_BOOL, 1);
    for (int k = 0; k < t->nknown && let; k++) {
        kn_ref x = kx_operand(c, t->known[k], d, row, chunk), both[2] = {let, x};
        let = x ? kx_node(c, KN_OP_AND, KN_BOOL, kx_chunk_width(d, chunk), both, 2) : 0;
    }
    return let;
}

kn_ref kx_load_places(kx_cut *c, kn_ref n, kx_tile_at *a, const kx_tile *d, int64_t row, int chunk, uint64_t lanes,
                      bool *none) {
    kn_graph *g   = c->g;
    kn_ref    idx = kg_at(g, kg_at(g, n, 0), 1), number[KN_MAX_LANES];
    kn_affine f;
    int64_t   at[KN_MAX_LANES] = {0}, least = INT64_MAX;
    int32_t   place[KN_MAX_LANES];
    int       w = kx_chunk_width(d, chunk), from = kx_chunk_start(d, chunk), values = 0;
    kn_ref    value[KN_AFFINE_MAX];
    int64_t   by[KN_AFFINE_MAX];
    bool      still, scalars = true;
    if (!kg_affine(g, idx, &f)) return 0;
    for (int t = 0; t < f.n; t++) {
        int64_t        rows = 1;
        int            rank;
        const int64_t *dims = kg_shape(g, f.atom[t], &rank);
        for (int i = 0; i + 1 < rank; i++) rows *= dims[i];
        if (!rank) continue;
        if (dims[rank - 1] == 1 && !kx_is_iota(g, f.atom[t])) { /* a value, of the one row or of each */
            value[values] = f.atom[t];
            by[values++]  = f.coef[t];
            continue;
        }
        if (dims[rank - 1] == 1) { /* of the rows */
            int64_t axis = kg_field(g, f.atom[t], KN_F_RANGE_axis) + d->rank - rank, number_in = row;
            for (int i = d->rank - 2; i > axis; i--) number_in /= d->dims[i];
            for (int l = 0; l < w; l++) at[l] += f.coef[t] * (number_in % d->dims[axis]);
            continue;
        }
        scalars &= rows == 1;
        for (int l = 0; l < w; l++) at[l] += f.coef[t] * cg_lane_value(g, f.atom[t], from + l);
    }
    for (int l = 0, some = __builtin_ctzll(lanes); l < w; l++) {
        if (lanes >> l & 1) some = l;
        at[l] = at[some];
        least = KN_MIN(least, at[l]);
    }
    for (int l = 0; l < w && scalars; l++) {
        scalars  = at[l] - least <= KN_PLACES_APART;
        place[l] = (int32_t)(at[l] - least);
    }
    if ((*none = !scalars || !kx_shuffles(c, kg_dtype(g, n), place, w))) return 0;
    if (!(a->off = kx_scalar_part(c, idx, &f, &still)) && !still) return 0;
    for (int k = 0; k < values; k++) {
        kn_ref x = kx_element_operand(c, value[k], d, row, from), zero = kg_idx(g, 0);
        if (!x) return 0;
        a->off = kx_node(c, KN_OP_MULACC, KN_INDEX, 0, (kn_ref[]){x, kg_idx(g, by[k]), a->off ? a->off : zero}, 3);
        if (!a->off) return 0;
    }
    kn_ref first = kg_idx(g, f.base + least);
    if (a->off) first = f.base + least ? kg_op2(g, KN_OP_ADD, a->off, first) : a->off;
    bool next = true;
    for (int l = 0; l < w; l++) number[l] = kg_idx(g, place[l]), next &= place[l] == l;
    kn_ref behind = next ? kg_iota(g, w, 0, KN_AXIS_UPCAST, 1, 0) : kg_list(g, KN_OP_STACK, number, w);
    first = kg_op2(g, KN_OP_ADD, first, behind);
    return kg_load(g, kg_index(g, a->buffer, &first, 1));
}

kn_ref kx_load_let(kx_cut *c, kn_ref n, kn_ref load, const kx_let *t, const kx_tile *d, int64_t row, int chunk) {
    kn_graph *g = c->g;
    int       w = kx_chunk_width(d, chunk), dt = kg_dtype(g, n);
    kn_ref    alt = kx_operand(c, kg_at(g, n, 1), d, row, chunk), let;
    kn_ref    rest = cg_rest_of(c, t, d, row, kx_chunk_start(d, chunk));
    if (!alt || !rest) return 0;
    if (kg_op(g, rest) == KN_OP_CONST && !kg_const_int(g, rest)) return alt;
    if (kg_op(g, rest) != KN_OP_CONST) load = kg_load_gated(g, kg_at(g, load, 0), alt, rest);
    if (t->lanes == UINT64_MAX >> (64 - w)) return load;
    if (kx_by_bits(c, dt)) return cg_choose_bits(c, dt, w, t->lanes, load, alt);
    if (!(let = cg_known_lanes(c, t, d, row, chunk))) return 0;
    return kx_node(c, KN_OP_WHERE, dt, w, (kn_ref[]){let, load, alt}, 3);
}

kn_ref kx_load_only(kx_cut *c, kn_ref n, const kx_let *t, const kx_tile *d, int64_t row, int chunk) {
    int    w = kx_chunk_width(d, chunk), lane = __builtin_ctzll(t->lanes), dt = kg_dtype(c->g, n);
    kn_ref alt = kx_operand(c, kg_at(c->g, n, 1), d, row, chunk), let;
    kn_ref x   = kx_load_element(c, n, d, row, kx_chunk_start(d, chunk) + lane);
    if (!x || !alt || !(x = kx_splat(c, x, w))) return 0;
    if (kx_by_bits(c, dt)) return cg_choose_bits(c, dt, w, t->lanes, x, alt);
    if (!(let = cg_known_lanes(c, t, d, row, chunk))) return 0;
    return kx_node(c, KN_OP_WHERE, dt, w, (kn_ref[]){let, x, alt}, 3);
}

