/* view.c - what the heuristic knows of a kernel: its accesses, gates and the nest it edits. */
#include "optimize/view.h"

#include <string.h>

enum { FEW_TERMS = 16, STAGED_FEW = 32 };

/* Iterations of the loops around n, which stands in `reduce` (0: in none). */
static double trips_of(const ko_view *v, kn_ref n, kn_ref reduce) {
    double t = 1;
    for (int i = 0; i < v->nest->norigin; i++) {
        kn_ref r = v->nest->origin[i].range;
        if (kg_depends(v->g, n, r) || (reduce && kg_depends(v->g, reduce, r))) t *= (double)v->nest->origin[i].extent;
    }
    return t;
}

int64_t ko_stride_in(const ko_view *v, const ko_access *a, int origin) {
    kn_ref r = v->nest->origin[origin].range;
    if (!kg_depends(v->g, a->node, r)) return 0;
    if (!kg_depends(v->g, kg_at(v->g, a->node, 1), r)) return 1; /* what was staged: each lane has its own */
    int64_t c = a->affine ? kn_affine_coef(&a->form, r) : 0;
    if (c == 0) return INT64_MAX;
    for (int t = 0; t < a->form.n; t++)
        if (a->form.atom[t] != r && kg_depends(v->g, a->form.atom[t], r)) return INT64_MAX;
    return c;
}

/* A register's bytes a lane of n; 0: n is no value of a kernel. */
static int held_bytes(const kn_graph *g, kn_ref n) {
    int op = kg_op(g, n), dt = kg_dtype(g, n);
    if ((!kn_is_alu(op) && op != KN_OP_LOAD && op != KN_OP_REDUCE) || dt == KN_INDEX || dt == KN_VOID) return 0;
    return kn_is_float(dt) ? KN_MAX(kn_dsize(dt), 4) : kn_dsize(dt);
}

/* x takes s word by word: a random block is made of words, and of words of what it counts (rules/decomp_random.c). */
static bool takes_words(const ko_view *v, kn_ref x, kn_ref s) {
    const kn_graph *g    = v->g;
    bool            word = kg_op(g, x) == KN_OP_CAST && kn_dsize(kg_dtype(g, x)) <= 4;
    if (!v->machine->turns) return false; /* C has blocks */
    if (kg_op(g, x) == KN_OP_THREEFRY) return true;
    if (kg_op(g, s) == KN_OP_THREEFRY) return word || kg_op(g, x) == KN_OP_SHR;
    return word && kg_op(g, s) == KN_OP_SHR && kg_op(g, kg_at(g, s, 0)) == KN_OP_THREEFRY;
}

/* The reduction that x stands in; 0: in none. */
static kn_ref reduction_of(const ko_view *v, kn_ref x) {
    kn_ref in = 0;
    for (int o = 0; o < v->nest->norigin; o++)
        if (v->nest->origin[o].reduce && kg_depends(v->g, x, v->nest->origin[o].range)) in = v->nest->origin[o].closer;
    return in;
}

bool ko_look(ko_view *v, kn_ref sink, kn_fault *f) {
    kn_ref  *order;
    uint32_t n;
    if (!kg_reach(v->g, &sink, 1, &order, &n)) return kn_oom(f);
    int count = 0, widest = 1;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref x = order[i];
        count += kg_op(v->g, x) == KN_OP_INDEX;
        bool value = kn_is_alu(kg_op(v->g, x)) && held_bytes(v->g, x) > 0;
        v->ops += value;
        int code = value ? ko_op_code(kg_op(v->g, x)) : 0;
        v->work += code;
        v->behind += code && !reduction_of(v, x) ? code : 0;
        v->divided += value && kn_takes_divider(kg_op(v->g, x));
        v->byte_products |= kg_op(v->g, x) == KN_OP_MUL && held_bytes(v->g, x) == 1 && kg_dtype(v->g, x) != KN_BOOL;
        if (kg_op(v->g, x) == KN_OP_LOAD && kg_nsrc(v->g, x) == 3 && v->ngate < KN_COUNT(v->gate))
            v->gate[v->ngate++] = kg_at(v->g, x, 2);
        if (kg_op(v->g, x) == KN_OP_CMPLT && kg_dtype(v->g, kg_at(v->g, x, 0)) == KN_INDEX &&
            v->nlimit < KN_COUNT(v->limit))
            v->limit[v->nlimit++] = x;
        /* What makes values, not numbers of elements: those are mostly the same for all lanes. */
        for (uint32_t k = 0; k < kg_nsrc(v->g, x) && kg_dtype(v->g, x) != KN_INDEX; k++)
            if (!takes_words(v, x, kg_at(v->g, x, k))) widest = KN_MAX(widest, held_bytes(v->g, kg_at(v->g, x, k)));
    }
    v->lanes   = KN_MAX(v->machine->vector_bytes / widest >> KN_MAX(v->narrow - KO_WHOLE_VECTORS, 0), 1);
    v->wide    = v->narrow > 1 ? v->lanes : 2 * v->lanes;
    v->access  = kn_zalloc(kg_alloc(v->g), (size_t)(count + 1) * sizeof *v->access);
    v->naccess = count;
    if (v->access) {
        count = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (kg_op(v->g, order[i]) != KN_OP_INDEX) continue;
            ko_access *a = &v->access[count++];
            a->node      = order[i];
            a->affine    = kg_affine(v->g, kg_at(v->g, order[i], 1), &a->form);
            a->reduce    = reduction_of(v, order[i]);
            a->trips     = trips_of(v, order[i], a->reduce);
        }
        for (uint32_t i = 0; i < n; i++)
            for (int k = 0; k < count && kg_op(v->g, order[i]) == KN_OP_STORE && kg_nsrc(v->g, order[i]) == 2; k++)
                v->access[k].stored |= v->access[k].node == kg_at(v->g, order[i], 0);
    }
    kn_free(kg_alloc(v->g), order, n * sizeof *order);
    return v->access || kn_oom(f);
}

int64_t ko_lane_vectors(const ko_view *v, int64_t w) { return ko_vectors(w, v->lanes); }

/* What is summed up for an element, if anything, is a few terms: how it is stored matters beside that. */
static bool sums_few(const ko_view *v) {
    int64_t terms = 1;
    for (int o = v->outputs; o < v->nest->norigin && terms <= FEW_TERMS; o++) { /* those of one sum stand together */
        bool next = o == v->outputs || v->nest->origin[o].closer != v->nest->origin[o - 1].closer;
        terms     = kn_sat_mul(next ? 1 : terms, v->nest->origin[o].extent);
    }
    return terms <= FEW_TERMS;
}

const kn_origin *ko_rows_in_turns(const ko_view *v, const ko_access *a, int lane) {
    int64_t s = ko_stride_in(v, a, lane);
    if (!a->stored || !v->machine->turns || s < 2 || s > KN_IN_TURNS || !sums_few(v)) return NULL;
    int64_t e = v->nest->origin[lane].extent;
    if (e < v->lanes && (2 * e < v->lanes || e & (e - 1))) return NULL; /* half a register is turned as well */
    for (int o = 0; o < v->outputs; o++)
        if (o != lane && v->nest->origin[o].extent == s && ko_stride_in(v, a, o) == 1 && ko_may_be_lane(v, o))
            return &v->nest->origin[o];
    return NULL;
}

int ko_position(const kn_nest *nest, int origin, int type) {
    for (int l = 0; l < nest->nloop; l++)
        if (nest->loop[l].origin == origin && (type < 0 || nest->loop[l].type == type)) return l;
    return -1;
}

bool ko_push(ko_view *v, kn_opt o, kn_opt *opts, int *n, int cap) {
    kn_fault no = {0};
    if (*n == cap) return false;
    if (ko_edit(v->nest, &o, &no)) {
        opts[(*n)++] = o;
        return true;
    }
    if (v->refused) kn_str_putf(v->refused, "      refused %s\n", no.text);
    return false;
}

bool ko_split(ko_view *v, int at, int64_t by, int type, kn_opt *opts, int *n, int cap) {
    return ko_push(v, (kn_opt){.op = KN_OPT_SPLIT, .axis = at, .arg = by, .target = type}, opts, n, cap);
}

bool ko_stage(ko_view *v, int64_t slot, kn_opt *opts, int *n, int cap) {
    return ko_push(v, (kn_opt){.op = KN_OPT_STAGE, .axis = KN_STAGE_SUM, .arg = slot}, opts, n, cap);
}

int64_t ko_tile_rows(int64_t extent, int64_t most) {
    if (extent <= most) return extent;
    for (int64_t k = most; k >= KN_MIN(4, most); k--)
        if (extent % k == 0) return k;
    int64_t whole = KN_MIN(most, KO_TILE_ROWS), rest = extent % whole, tiles = extent / whole + 1;
    return 3 * rest > whole ? whole : (extent + tiles - 1) / tiles; /* of a row left, each step waits for the last */
}

int64_t ko_tile_registers(const ko_view *v) {
    int64_t n = v->machine->vector_registers;
    int64_t left = KO_WHOLE_VECTORS + 1 - KN_MIN(v->narrow, KO_WHOLE_VECTORS);
    return (n - (n > 16 ? 2 : 3)) * left / (KO_WHOLE_VECTORS + 1);
}

/* All that a row of which something is staged runs through is a few elements: lanes of rows hold whole ones. */
static bool stages_few(const ko_view *v) {
    for (int o = 0; o < v->nest->norigin; o++) {
        const kn_origin *or = &v->nest->origin[o];
        if (!or->staged && or->extent > STAGED_FEW) return false;
    }
    return v->machine->turns;
}

/* Lanes or rows of a tile would differ in the bound of a loop, or a prefix runs along the loop; or each would have a
 * part of what is staged, and all the loops that fill and read it grow by the tile. */
static bool stays_loop(const ko_view *v, int origin) {
    const kn_nest *nest = v->nest;
    bool bounds = nest->origin[origin].scanned || (nest->origin[origin].staged && !stages_few(v));
    for (int o = 0; o < nest->norigin; o++) bounds |= nest->origin[o].on >> origin & 1;
    return bounds;
}

void ko_find_tile(ko_view *v) {
    const kn_nest *nest    = v->nest;
    bool           carried = false;
    for (int o = 0; o < nest->norigin; o++) v->outputs += !nest->origin[o].reduce, carried |= nest->origin[o].carried;
    v->tile = nest->ordered ? nest->origin[0].closer : 0;
    for (int o = v->outputs; o-- > 0 && !v->tile;)
        if (!nest->origin[o].fills) v->tile = nest->origin[o].closer;
    if (carried && nest->origin[0].carried) v->tile = 0; /* nothing stands around the loop that must run in order */
}

bool ko_reads_halves(const ko_view *v) {
    for (int i = 0; i < v->naccess; i++) {
        int dt = kg_dtype(v->g, v->access[i].node);
        if (kn_is_float(dt) && kn_dsize(dt) < 4) return true;
    }
    return false;
}

bool ko_may_be_lane(const ko_view *v, int o) {
    return v->nest->origin[o].closer == v->tile && v->nest->origin[o].extent >= 2 && !stays_loop(v, o);
}

bool ko_stays_still(const ko_view *v, const ko_access *a, int but) {
    bool still = true;
    for (int o = 0; o < v->outputs && still; o++) still = o == but || ko_stride_in(v, a, o) == 0;
    return still;
}

int64_t ko_terms(const ko_view *v) {
    int64_t terms = 1;
    for (int o = v->outputs; o < v->nest->norigin; o++) terms = kn_sat_mul(terms, v->nest->origin[o].extent);
    return terms;
}

bool ko_is_gated(const ko_view *v, int origin) {
    for (int k = 0; k < v->ngate; k++)
        if (kg_depends(v->g, v->gate[k], v->nest->origin[origin].range)) return true;
    return false;
}
