/* cut_pack.c - inside Select of x86-64: lanes that are made of scalars, or of other registers, and taken apart.
 *
 * By way of memory: a buffer that is stored to in parts and read as a whole, or the other way round. Where the parts
 * are registers' own, or a few, Plan finds them and nothing is stored. */
#include "target/x86/cut.h"

enum { MOST_RUNS = 8 }; /* that a register is joined of */

kn_ref kx_run_of(kx_cut *c, kn_ref buffer, int w) {
    return kg_index(c->g, buffer, (kn_ref[]){kg_iota(c->g, w, 0, KN_AXIS_UPCAST, 1, 0)}, 1);
}

bool kx_lanes(kx_cut *c, kn_ref v, int w, kn_ref *out) {
    if (kg_op(c->g, v) == KN_OP_CONST) {
        for (int l = 0; l < w; l++) out[l] = v;
        return true;
    }
    kn_ref tmp = kg_buffer(c->g, c->next_local++, w, kg_dtype(c->g, v), 0, KN_LOCAL);
    kn_ref put = kg_store(c->g, kx_run_of(c, tmp, w), v, 0), from = kg_after(c->g, tmp, &put, 1);
    for (int l = 0; l < w; l++) {
        kn_ref i = kg_idx(c->g, l);
        if (!(out[l] = kg_load(c->g, kg_index(c->g, from, &i, 1)))) return false;
    }
    return true;
}

kn_ref kx_part(kx_cut *c, kn_ref v, int w, int from, int count) {
    kn_graph *g    = c->g;
    kn_ref    all  = kg_buffer(g, c->next_local++, w, kg_dtype(g, v), 0, KN_LOCAL);
    kn_ref    some = kg_iota(g, count, 0, KN_AXIS_UPCAST, 1, 0), put = kg_store(g, kx_run_of(c, all, w), v, 0);
    if (from) some = kg_op2(g, KN_OP_ADD, kg_idx(g, from), some);
    return kg_load(g, kg_index(g, kg_after(g, all, &put, 1), &some, 1));
}

kn_ref kx_behind(kx_cut *c, int dtype, kn_ref low, kn_ref high, int w) {
    kn_graph *g    = c->g;
    kn_ref    both = kg_buffer(g, c->next_local++, 2 * w, dtype, 0, KN_LOCAL);
    kn_ref    run  = w > 1 ? kg_iota(g, w, 0, KN_AXIS_UPCAST, 1, 0) : kg_idx(g, 0);
    kn_ref    next = w > 1 ? kg_op2(g, KN_OP_ADD, kg_idx(g, w), run) : kg_idx(g, 1);
    kn_ref    put[2] = {kg_store(g, kg_index(g, both, &run, 1), low, 0),
                        kg_store(g, kg_index(g, both, &next, 1), high, 0)};
    return kg_after(g, both, put, 2);
}

kn_ref kx_join(kx_cut *c, int dtype, kn_ref low, kn_ref high, int w) {
    return kg_load(c->g, kx_run_of(c, kx_behind(c, dtype, low, high, w), 2 * w));
}

kn_ref kx_every_second(kx_cut *c, kn_ref both, int odd, int w) {
    kn_graph *g  = c->g;
    kn_ref    at = kg_op2(g, KN_OP_MUL, kg_iota(g, w, 0, KN_AXIS_UPCAST, 1, 0), kg_idx(g, 2));
    if (odd) at = kg_op2(g, KN_OP_ADD, kg_idx(g, 1), at);
    return kg_load(g, kg_index(g, both, &at, 1));
}

/* Scalars of which there are few are joined in registers: memory would make the load of all lanes wait for the last of
 * them. */
static bool cp_pairs(const kx_cut *c, int dtype, int w) {
    int  size  = kn_dsize(dtype);
    bool here  = !c->avx512 && kn_is_float(dtype); /* in such registers already: AVX2 makes many lanes that way */
    bool joins = w > 1 && (size == 8 || w <= (size == 4 && !here ? 4 : 8));
    return dtype != KN_INDEX && joins && kx_joins(c->avx512, dtype, 2);
}

/* Where a scalar is loaded from: *base and a constant. False: it is nothing that is just loaded. */
static bool cp_place(const kn_graph *g, kn_ref x, kn_ref *buffer, kn_ref *base, int64_t *at) {
    kn_ref p = kg_op(g, x) == KN_OP_LOAD && kg_nsrc(g, x) == 1 ? kg_at(g, x, 0) : 0;
    if (!p || kg_op(g, p) != KN_OP_INDEX || kg_nsrc(g, p) != 2 || kx_is_register(g, p)) return false;
    *buffer     = kg_at(g, p, 0);
    *base       = kg_at(g, p, 1);
    *at         = 0;
    bool adds   = kg_op(g, *base) == KN_OP_ADD;
    kn_ref rest = adds ? kg_at(g, *base, 1) : *base;
    if (kg_op(g, rest) != KN_OP_CONST) return true;
    *at   = kg_const_int(g, rest);
    *base = adds ? kg_at(g, *base, 0) : 0;
    return true;
}

/* The scalars are lanes that lie side by side in memory, as many at a time as this. */
static int cp_run(const kn_graph *g, const kn_ref *x, int w) {
    int run = w & -w; /* the largest that divides them */
    for (int l = 1; l < w && run > 1; l++) {
        kn_ref  buffer[2], base[2];
        int64_t at[2];
        bool    next = cp_place(g, x[l - 1], &buffer[0], &base[0], &at[0]) &&
                    cp_place(g, x[l], &buffer[1], &base[1], &at[1]) && buffer[0] == buffer[1] && base[0] == base[1] &&
                    at[1] == at[0] + 1;
        while (!next && l % run) run /= 2;
    }
    return run;
}

/* So many of which registers make all lanes. */
static int cp_runs(const kx_cut *c, int dtype, const kn_ref *scalar, int w) {
    int run = dtype == KN_BOOL || dtype == KN_INDEX ? 1 : cp_run(c->g, scalar, w);
    for (int of = run; run > 1 && of < w; of *= 2)
        if (w / run > MOST_RUNS || !kx_joins(c->avx512, dtype, 2 * of)) return 1;
    return run;
}

kn_ref kx_pack_runs(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk, bool *none) {
    kn_graph *g = c->g;
    kn_ref    x[KN_MAX_LANES] = {0}, part[MOST_RUNS];
    int       w = kx_chunk_width(d, chunk), from = kx_chunk_start(d, chunk), dt = kg_dtype(g, n);
    *none = false;
    for (int l = 0; l < w; l++)
        if (!(x[l] = kx_sca(c, n, row * d->lanes + from + l))) return 0;
    int run = cp_runs(c, dt, x, w);
    if ((*none = run < 2)) return 0;
    for (int k = 0; k < w / run; k++) {
        kn_ref at = kg_at(g, x[k * run], 0), i = kg_iota(g, run, 0, KN_AXIS_UPCAST, 1, 0);
        i       = kg_op2(g, KN_OP_ADD, kg_at(g, at, 1), i);
        part[k] = kg_load(g, kg_index(g, kg_at(g, at, 0), &i, 1));
    }
    for (int of = run; of < w; of *= 2)
        for (int k = 0; k < w / of; k += 2) part[k / 2] = kx_join(c, dt, part[k], part[k + 1], of);
    return part[0];
}

int kx_runs_of(const int32_t *place, int w, int each, int most, int32_t *start) {
    int32_t least = INT32_MAX, last = INT32_MIN, next;
    int     runs  = 0;
    for (int l = 0; l < w; l++) least = KN_MIN(least, place[l]), last = KN_MAX(last, place[l]);
    if (each < 1 || last - (int64_t)least + 1 < each) return most + 1;
    for (next = least; next <= last && runs < most; runs++) {
        int32_t from = start[runs] = KN_MIN(next, last - each + 1);
        next = INT32_MAX;
        for (int l = 0; l < w; l++)
            if (place[l] - (int64_t)from >= each) next = KN_MIN(next, place[l]);
    }
    return next <= last ? most + 1 : runs;
}

bool kx_shuffles(const kx_cut *c, int dtype, const int32_t *place, int w) {
    int     size = kn_dsize(dtype), all = size < 4 ? 16 / size : w, lanes = KN_MIN(w, all);
    int32_t start[KX_PLACE_RUNS];
    if ((dtype == KN_BOOL && (!c->avx512 || w > 16)) || dtype == KN_INDEX || w < 4) return false;
    if (size >= 4 && (!c->avx512 || w * size < 16)) return false;
    for (int l = 0; l < w; l += lanes) {
        int each = all, runs;
        while ((runs = kx_runs_of(place + l, lanes, each, KX_PLACE_RUNS, start)) > KX_PLACE_RUNS && each > 1) each /= 2;
        if (runs > KX_PLACE_RUNS) return false;
    }
    return true;
}

static kn_ref cp_pack(kx_cut *c, int dtype, const kn_ref *scalar, int w) {
    bool same = true;
    for (int l = 1; l < w; l++) same &= scalar[l] == scalar[0];
    if (same) return kx_splat(c, scalar[0], w);
    int    held = kx_lane_dtype(c, dtype);
    kn_ref tmp  = kg_buffer(c->g, c->next_local++, w, held, 0, KN_LOCAL), put[KN_MAX_LANES];
    for (int l = 0; l < w; l++) {
        kn_ref i = kg_idx(c->g, l), x = scalar[l];
        if (held != dtype)
            x = kg_op(c->g, x) == KN_OP_CONST ? kg_int(c->g, held, kg_const_int(c->g, x))
                                              : kx_node(c, KN_OP_CAST, held, 0, &x, 1);
        put[l] = kg_store(c->g, kg_index(c->g, tmp, &i, 1), x, 0);
    }
    return kg_load(c->g, kx_run_of(c, kg_after(c->g, tmp, put, w), w));
}

kn_ref kx_pack_elements(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk) {
    kn_ref x[KN_MAX_LANES] = {0}, half[KN_MAX_LANES];
    int    w = kx_chunk_width(d, chunk), from = kx_chunk_start(d, chunk);
    bool   pairs = cp_pairs(c, kg_dtype(c->g, n), w), apart = false, none = true;
    kn_ref runs  = kg_op(c->g, n) == KN_OP_LOAD ? kx_pack_runs(c, n, d, row, chunk, &none) : 0;
    if (!none) return runs;
    if (pairs && !kx_slots_of(c, c->pair, n, d->rows * d->lanes)) return 0;
    for (int l = 0; l < w; l++) {
        int64_t at = row * d->lanes + from + l;
        if (!(x[l] = kx_sca(c, n, at))) return 0;
        apart |= l && x[l] == x[l - 1];
        if (!pairs || l % 2 == 0 || apart) continue;
        kn_ref *pair = &c->pair[n][at]; /* made as soon as it can be: a scalar waits for one other, not for all */
        if (!*pair) *pair = kx_join(c, kg_dtype(c->g, n), x[l - 1], x[l], 1);
        half[l / 2] = *pair;
    }
    for (int of = 2; pairs && !apart && of < w; of *= 2)
        for (int k = 0; k < w / of; k += 2) half[k / 2] = kx_join(c, kg_dtype(c->g, n), half[k], half[k + 1], of);
    return pairs && !apart ? half[0] : cp_pack(c, kg_dtype(c->g, n), x, w);
}
