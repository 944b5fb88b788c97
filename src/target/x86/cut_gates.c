/* cut_gates.c - inside Select of x86-64: loads of lanes that lie, or are let through, as is known of their numbers.
 *
 * Such lanes are shuffled from a few runs; what a gate leaves out of them is chosen by what is known of it, and what
 * all lanes share of the gate is asked once. */
#include "target/x86/cut.h"

#include <string.h>

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
    for (int l = 0; l < w; l++) number[l] = kg_idx(g, place[l]);
    first = kg_op2(g, KN_OP_ADD, first, kg_list(g, KN_OP_STACK, number, w));
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
    if (!(let = cg_known_lanes(c, t, d, row, chunk))) return 0;
    return kx_node(c, KN_OP_WHERE, dt, w, (kn_ref[]){let, load, alt}, 3);
}

kn_ref kx_load_only(kx_cut *c, kn_ref n, const kx_let *t, const kx_tile *d, int64_t row, int chunk) {
    int    w = kx_chunk_width(d, chunk), lane = __builtin_ctzll(t->lanes);
    kn_ref alt = kx_operand(c, kg_at(c->g, n, 1), d, row, chunk), let;
    kn_ref x   = kx_load_element(c, n, d, row, kx_chunk_start(d, chunk) + lane);
    if (!x || !alt || !(x = kx_splat(c, x, w)) || !(let = cg_known_lanes(c, t, d, row, chunk))) return 0;
    return kx_node(c, KN_OP_WHERE, kg_dtype(c->g, n), w, (kn_ref[]){let, x, alt}, 3);
}

