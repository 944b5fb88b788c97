/* heuristic.c - a simple choice of OptOps.
 *
 * One loop gets the lanes: the output loop, or in its place the reductions, for which the fewest accesses jump from
 * lane to lane, or one that is predicted to be much cheaper (cost.h). A product with reuse gets a register tile beside
 * the lanes. The outermost loop goes to threads. */
#include "optimize/cost.h"

#include <string.h>

enum {
    TILE_ROWS = 8, NARROW_ROWS = 14, SHORT_ROWS = 16, /* registers high */
    BLOCK = 8, BLOCK_LEAST = 4, /* of a transposition */
    PAGE = 4096, TLB_PAGES = 64, RUN_LINES = 4, /* that lanes of a block are stored along before other rows come */
    FEW_OPS = 4, PIECE_OPS = 16, /* in a body that is little, and one that copies of are made of */
    STORE_AHEAD = 1024, SHORT_STORE = 16, /* bytes: of less each line would be announced often */
    FOLD_ROUNDS = 20, DOT_ROUNDS = 4, /* registers of a row: of a fold, of sums of products */
    SHORT_SUM = 4, SHORT_CODE = 80 /* terms; products of vectors */
};

typedef struct ko_access {
    kn_ref    node, reduce; /* the INDEX; the REDUCE it stands in, 0 none */
    double    trips;
    kn_affine form;
    bool      affine, stored; /* stored: with no gate */
} ko_access;

typedef struct ko_view {
    kn_graph  *g;
    kn_nest   *nest;
    ko_access *access;
    int        naccess;
    kn_ref     gate[8]; /* of LOADs, as many as there is room for */
    int        ngate;
    kn_ref     limit[8]; /* comparisons of indices, as many as there is room for */
    int        nlimit;
    const kn_machine *machine;
    int        narrow; /* ko_choose's */
    bool       turned, apart; /* the list has a block that is turned; it is to have none */
    int64_t    lanes, wide; /* of the widest dtype: in a vector register, and in the two of a tile's row */
    int        outputs; /* origins that ENDs close: they come first */
    int        ops;     /* that compute values, not indices */
    kn_ref     tile;    /* the END whose loops may carry lanes, 0 none */
    bool       streams; /* memory sets the pace: a line of each buffer a round */
    kn_str    *refused; /* what was refused, a line each; NULL: not asked for */
} ko_view;

/* Iterations of the loops around n, which stands in `reduce` (0: in none). */
static double trips_of(const ko_view *v, kn_ref n, kn_ref reduce) {
    double t = 1;
    for (int i = 0; i < v->nest->norigin; i++) {
        kn_ref r = v->nest->origin[i].range;
        if (kg_depends(v->g, n, r) || (reduce && kg_depends(v->g, reduce, r))) t *= (double)v->nest->origin[i].extent;
    }
    return t;
}

/* 0: does not move with the loop; 1: next element; else it jumps. */
static int64_t stride_in(const ko_view *v, const ko_access *a, int origin) {
    kn_ref r = v->nest->origin[origin].range;
    if (!kg_depends(v->g, a->node, r)) return 0;
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

static bool look(ko_view *v, kn_ref sink, kn_fault *f) {
    kn_ref  *order;
    uint32_t n;
    if (!kg_reach(v->g, &sink, 1, &order, &n)) return kn_oom(f);
    int count = 0, widest = 1;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref x = order[i];
        count += kg_op(v->g, x) == KN_OP_INDEX;
        v->ops += kn_is_alu(kg_op(v->g, x)) && held_bytes(v->g, x) > 0;
        if (kg_op(v->g, x) == KN_OP_LOAD && kg_nsrc(v->g, x) == 3 && v->ngate < KN_COUNT(v->gate))
            v->gate[v->ngate++] = kg_at(v->g, x, 2);
        if (kg_op(v->g, x) == KN_OP_CMPLT && kg_dtype(v->g, kg_at(v->g, x, 0)) == KN_INDEX &&
            v->nlimit < KN_COUNT(v->limit))
            v->limit[v->nlimit++] = x;
        /* What makes values, not numbers of elements: those are mostly the same for all lanes. */
        for (uint32_t k = 0; k < kg_nsrc(v->g, x) && kg_dtype(v->g, x) != KN_INDEX; k++)
            widest = KN_MAX(widest, held_bytes(v->g, kg_at(v->g, x, k)));
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
            for (int o = 0; o < v->nest->norigin; o++)
                if (v->nest->origin[o].reduce && kg_depends(v->g, order[i], v->nest->origin[o].range))
                    a->reduce = v->nest->origin[o].closer;
            a->trips = trips_of(v, order[i], a->reduce);
        }
        for (uint32_t i = 0; i < n; i++)
            for (int k = 0; k < count && kg_op(v->g, order[i]) == KN_OP_STORE && kg_nsrc(v->g, order[i]) == 2; k++)
                v->access[k].stored |= v->access[k].node == kg_at(v->g, order[i], 0);
    }
    kn_free(kg_alloc(v->g), order, n * sizeof *order);
    return v->access || kn_oom(f);
}

static int64_t lane_vectors(const ko_view *v, int64_t w) { return ko_vectors(w, v->lanes); }

/* Lanes for a reduction of that extent: what is left over goes in pieces, so that a short one needs no loop. */
static int64_t sum_lanes(const ko_view *v, int64_t extent) {
    return extent < 2 * v->lanes ? extent : v->lanes;
}

/* Accesses that walk so many elements of a sum. */
static double sum_accesses(const ko_view *v, int64_t extent) {
    int64_t w = sum_lanes(v, extent);
    return (double)(extent / w * lane_vectors(v, w) + lane_vectors(v, extent % w));
}

/* The reduction's own last loop could carry lanes: everything in it walks by one, or stands still. */
static bool reduce_lanes(const ko_view *v, kn_ref closer, int *origin) {
    int last = -1;
    for (int o = 0; o < v->nest->norigin; o++)
        if (v->nest->origin[o].closer == closer) last = o;
    if (last < 0 || v->nest->origin[last].extent < v->lanes / 2) return false;
    bool moves = false;
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = stride_in(v, &v->access[i], last);
        if (s != 0 && s != 1) return false;
        moves |= s == 1;
    }
    *origin = last;
    return moves;
}

static bool may_be_lane(const ko_view *v, int o);

/* The loop whose rows a store puts in turns, lane by lane; all of it, and nothing else, lies between two lanes. */
static const kn_origin *rows_in_turns(const ko_view *v, const ko_access *a, int lane) {
    int64_t s = stride_in(v, a, lane);
    if (!a->stored || !v->machine->turns || v->outputs < v->nest->norigin || s < 2 || s > KO_IN_TURNS) return NULL;
    int64_t e = v->nest->origin[lane].extent;
    if (e < v->lanes && (2 * e < v->lanes || e & (e - 1))) return NULL; /* half a register is turned as well */
    for (int o = 0; o < v->outputs; o++)
        if (o != lane && v->nest->origin[o].extent == s && stride_in(v, a, o) == 1 && may_be_lane(v, o))
            return &v->nest->origin[o];
    return NULL;
}

/* Accesses made, with `lane` (an output origin, or -1: the reductions') as the lanes. */
static double cost_of(const ko_view *v, int lane) {
    double cost = 0;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        double           w = 1;
        int              own;
        bool             depends = lane >= 0 && a->reduce && kg_depends(v->g, a->reduce, v->nest->origin[lane].range);
        if (a->reduce && !depends) {
            if (reduce_lanes(v, a->reduce, &own)) {
                int64_t e = v->nest->origin[own].extent;
                w         = sum_accesses(v, e) / (double)e;
            }
            cost += a->trips * w;
            continue;
        }
        double trips = a->trips;
        if (lane >= 0) {
            int64_t s     = stride_in(v, a, lane);
            double  lanes = (double)KN_MIN(v->nest->origin[lane].extent, v->lanes);
            w = s == 1 || (s == 0 && a->reduce) ? 1 / lanes : 1; /* what stands still in no reduction is hoisted */
            if (rows_in_turns(v, a, lane)) w = (double)s / lanes;
        }
        cost += trips * w;
    }
    return cost;
}

static int position(const kn_nest *nest, int origin, int type) {
    for (int l = 0; l < nest->nloop; l++)
        if (nest->loop[l].origin == origin && (type < 0 || nest->loop[l].type == type)) return l;
    return -1;
}

static bool push(ko_view *v, kn_opt o, kn_opt *opts, int *n, int cap) {
    kn_fault no = {0};
    if (*n == cap) return false;
    if (ko_edit(v->nest, &o, &no)) {
        opts[(*n)++] = o;
        return true;
    }
    if (v->refused) kn_str_putf(v->refused, "      refused %s\n", no.text);
    return false;
}

static bool split(ko_view *v, int at, int64_t by, int type, kn_opt *opts, int *n, int cap) {
    return push(v, (kn_opt){.op = KN_OPT_SPLIT, .axis = at, .arg = by, .target = type}, opts, n, cap);
}

static int64_t tile_rows(int64_t extent, int64_t most) {
    if (extent <= most) return extent;
    for (int64_t k = most; k >= KN_MIN(4, most); k--)
        if (extent % k == 0) return k;
    return KN_MIN(most, TILE_ROWS);
}

/* Vector registers for accumulators and what is loaded for them: two are the target's own; with sixteen there are no
 * instructions that broadcast from memory, so one more holds that. */
static int64_t tile_registers(const ko_view *v) {
    int64_t n = v->machine->vector_registers;
    int64_t left = KO_WHOLE_VECTORS + 1 - KN_MIN(v->narrow, KO_WHOLE_VECTORS);
    return (n - (n > 16 ? 2 : 3)) * left / (KO_WHOLE_VECTORS + 1);
}

/* Terms of a sum that will have no loop; 0: of one that has, or of none. */
static int64_t short_terms(const ko_view *v) {
    int64_t terms = 1;
    for (int o = v->outputs; o < v->nest->norigin; o++) terms = kn_sat_mul(terms, v->nest->origin[o].extent);
    return v->outputs < v->nest->norigin && terms <= SHORT_SUM ? terms : 0;
}

/* Of a tile w lanes wide: accumulators, a row of vectors and what is broadcast stay in registers; or, where the loop of
 * the lanes is the innermost one, what is broadcast for all terms, and their vectors. */
static int64_t most_rows(const ko_view *v, int lane, int64_t w) {
    int64_t nv  = lane_vectors(v, w), terms = w < v->nest->origin[lane].extent ? short_terms(v) : 0;
    int64_t fit = terms ? (tile_registers(v) - (terms + 1) * nv) / terms : (tile_registers(v) - nv) / nv;
    return KN_MAX(KN_MIN(fit, (int64_t)(nv > 1 ? TILE_ROWS : NARROW_ROWS >> KN_MAX(v->narrow - 1, 0))), (int64_t)1);
}

/* Lanes or rows of a tile would differ in the bound of a loop, or a prefix runs along the loop; or each would have a
 * part of what is staged, and all the loops that fill and read it grow by the tile. */
static bool stays_loop(const kn_nest *nest, int origin) {
    bool bounds = nest->origin[origin].scanned || nest->origin[origin].staged;
    for (int o = 0; o < nest->norigin; o++) bounds |= nest->origin[o].on >> origin & 1;
    return bounds;
}

/* Lanes for an END beside the main tile: its last loop, where everything in it walks by one or stands still. */
static void side_lanes(ko_view *v, kn_ref closer, kn_opt *opts, int *n, int cap) {
    int last = -1;
    for (int o = 0; o < v->nest->norigin; o++)
        if (v->nest->origin[o].closer == closer) last = o;
    if (last < 0 || v->nest->origin[last].carried || v->nest->origin[last].extent < 2) return;
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = stride_in(v, &v->access[i], last);
        if (s != 0 && s != 1) return;
    }
    int64_t e = v->nest->origin[last].extent;
    int64_t width = e >= v->wide ? v->wide : e >= v->lanes ? v->lanes : e;
    split(v, position(v->nest, last, KN_AXIS_LOOP), width, KN_AXIS_UPCAST, opts, n, cap);
}

/* A sum or a scan that walks whole rows: many lanes make each row it touches worth its page. */
static bool wide_sums(const ko_view *v, int lane) {
    bool sums = false, scan = false;
    if (v->nest->origin[lane].extent < 4 * v->lanes) return false;
    for (int o = 0; o < v->outputs; o++) scan |= o != lane && v->nest->origin[o].scanned;
    for (int i = 0; i < v->naccess; i++)
        sums |= (v->access[i].reduce || scan) && stride_in(v, &v->access[i], lane) == 1;
    return sums;
}

/* Vectors of each sum then: all sums have theirs, and two are loaded at a time. */
static int64_t wide_vectors(const ko_view *v) {
    int64_t sums = 0;
    kn_ref  last = 0;
    for (int o = v->outputs; o < v->nest->norigin; o++) {
        sums += v->nest->origin[o].closer != last;
        last = v->nest->origin[o].closer;
    }
    return KN_MAX(KN_MIN((tile_registers(v) - 2) / KN_MAX(sums, 1), (int64_t)8), (int64_t)1);
}

/* A product whose second operand is large goes panel by panel of lanes: the panel stays near while all rows pass, and
 * is copied first, as its rows lie far apart. The PARAM's slot, -1 none. */
static int64_t panel_of(const ko_view *v, int lane, int row, int64_t w) {
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        kn_ref           p = kg_at(v->g, a->node, 0);
        if (!a->reduce || stride_in(v, a, lane) != 1 || stride_in(v, a, row) != 0 || kg_op(v->g, p) != KN_OP_PARAM)
            continue;
        double rows = 1; /* of the panel */
        for (int o = 0; o < v->nest->norigin; o++)
            if (v->nest->origin[o].reduce && kg_depends(v->g, a->node, v->nest->origin[o].range))
                rows *= (double)v->nest->origin[o].extent;
        double bytes = rows * kn_dsize(kg_dtype(v->g, p)), all = bytes * (double)v->nest->origin[lane].extent;
        double near  = (double)v->machine->cache[KN_L2] / 2;
        int    l = position(v->nest, lane, KN_AXIS_LOOP), r = position(v->nest, row, KN_AXIS_LOOP);
        if (all < near || l < 0 || r < 0 || bytes * (double)w > KN_MIN(near, (double)KN_STAGE_BYTES)) continue;
        return kg_field(v->g, p, KN_F_PARAM_slot);
    }
    return -1;
}

static void panels(ko_view *v, int lane, int row, int64_t w, kn_opt *opts, int *n, int cap) {
    int64_t slot = panel_of(v, lane, row, w);
    int     l = position(v->nest, lane, KN_AXIS_LOOP), r = position(v->nest, row, KN_AXIS_LOOP);
    if (slot < 0) return;
    if (r < l) push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = r, .arg = l}, opts, n, cap);
    push(v, (kn_opt){.op = KN_OPT_STAGE, .axis = -1, .arg = slot}, opts, n, cap);
}

/* What is left of a product's lanes is more pieces than a whole round, in which masks leave out what is not there: of
 * what lies side by side. */
static bool masks_rest(const ko_view *v, int lane, int row, int64_t w) {
    int64_t rest = v->nest->origin[lane].extent % w;
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = stride_in(v, &v->access[i], lane);
        if (s != 0 && s != 1) return false;
    }
    return v->machine->masks && lane_vectors(v, rest) > w / v->lanes && panel_of(v, lane, row, w) < 0;
}

/* Four by four, or by two where registers are few, where the reduction is of two factors, each still along loops that
 * the other moves with; loops whose extent four divides before others, inner ones before outer ones. */
static void dot_tile(ko_view *v, int outputs, kn_ref closer, kn_opt *opts, int *n, int cap) {
    int used = -1; /* an access that some row shares */
    for (int turn = 0; turn < 2; turn++) {
        int best = -1, shares = -1;
        for (int o = 0; o < outputs; o++) {
            const kn_origin *at = &v->nest->origin[o];
            if (at->extent < 2 || at->closer != closer || position(v->nest, o, KN_AXIS_LOOP) < 0) continue;
            for (int i = 0; i < v->naccess; i++) {
                const ko_access *a = &v->access[i];
                if (!a->reduce || i == used || !kg_depends(v->g, a->reduce, at->range) || stride_in(v, a, o)) continue;
                if (used >= 0 && !kg_depends(v->g, v->access[used].node, at->range)) continue;
                if (best >= 0 && v->nest->origin[best].extent % 4 == 0 && at->extent % 4) continue;
                best   = o;
                shares = i;
            }
        }
        if (best < 0) return;
        static const int narrowed[2][KO_WHOLE_VECTORS + 1] = {{4, 4, 2, 2, 1}, {4, 2, 2, 1, 1}};
        int64_t          rows = narrowed[turn][KN_MIN(v->narrow, KO_WHOLE_VECTORS)];
        if (turn && tile_registers(v) < 21) rows = KN_MIN(rows, 2);
        rows                  = tile_rows(v->nest->origin[best].extent, rows);
        if (rows > 1) split(v, position(v->nest, best, KN_AXIS_LOOP), rows, KN_AXIS_UPCAST, opts, n, cap);
        used = shares;
    }
}

/* Output loops of the innermost END; of an ordered kernel those of the outermost, which are around all of it. */
static void find_tile(ko_view *v) {
    const kn_nest *nest    = v->nest;
    bool           carried = false;
    for (int o = 0; o < nest->norigin; o++) v->outputs += !nest->origin[o].reduce, carried |= nest->origin[o].carried;
    v->tile = nest->ordered ? nest->origin[0].closer : 0;
    for (int o = v->outputs; o-- > 0 && !v->tile;)
        if (!nest->origin[o].fills) v->tile = nest->origin[o].closer;
    if (carried && nest->origin[0].carried) v->tile = 0; /* nothing stands around the loop that must run in order */
}

static bool may_be_lane(const ko_view *v, int o) {
    return v->nest->origin[o].closer == v->tile && v->nest->origin[o].extent >= 2 && !stays_loop(v->nest, o);
}

/* The output origin with the fewest accesses, or -1: the reductions' own. */
static int pick_lane(const ko_view *v) {
    double best = cost_of(v, -1);
    int    lane = -1;
    for (int o = 0; o < v->outputs; o++) {
        double c = may_be_lane(v, o) ? cost_of(v, o) : best;
        if (c < best * 0.999) best = c, lane = o;
    }
    return lane;
}

/* A product: a reduction that uses what does not move with the lanes, or with another output loop. -1: none. */
static int find_row(const ko_view *v, int lane) {
    int  row    = -1;
    bool shared = false; /* rows use the vectors of one another, not just the scalars */
    if (lane < 0 && cost_of(v, -1) <= 0) return -1;
    for (int o = 0; o < v->outputs; o++) {
        if (o == lane || !may_be_lane(v, o)) continue;
        for (int i = 0; i < v->naccess; i++) {
            const ko_access *a = &v->access[i];
            if (!a->reduce || !kg_depends(v->g, a->reduce, v->nest->origin[o].range) || stride_in(v, a, o) != 0)
                continue;
            if (lane >= 0 && !kg_depends(v->g, a->reduce, v->nest->origin[lane].range)) continue;
            bool vector = lane >= 0 && stride_in(v, a, lane) != 0;
            if (vector || !shared) row = o;
            shared |= vector;
        }
    }
    return row;
}

static bool is_gated(const ko_view *v, int origin) {
    for (int k = 0; k < v->ngate; k++)
        if (kg_depends(v->g, v->gate[k], v->nest->origin[origin].range)) return true;
    return false;
}

/* A short row of parts that gates tell from one another: lanes of all of it know on which side they are. */
static bool row_of_parts(const ko_view *v, int lane) {
    int64_t e = v->nest->origin[lane].extent;
    if (!v->machine->masks || v->outputs < v->nest->norigin || v->narrow) return false;
    return e <= 4 * v->wide && e % v->lanes == 0 && is_gated(v, lane);
}

/* The loop that has side by side what lanes read or write far apart; -1: none. */
static int turned_row(const ko_view *v, int lane) {
    if (v->outputs < v->nest->norigin) return -1;
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = stride_in(v, &v->access[i], lane);
        for (int o = 0; o < v->outputs && s != 0 && s != 1 && s != INT64_MAX; o++)
            if (o != lane && may_be_lane(v, o) && stride_in(v, &v->access[i], o) == 1) return o;
    }
    return -1;
}

/* There are registers for whole blocks of bytes, of each access that is turned. */
static bool turns_bytes(const ko_view *v, int lane, int turned) {
    int64_t held = KO_BYTE_BLOCK / 4; /* for the rest */
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = stride_in(v, &v->access[i], lane);
        if (kg_dtype(v->g, v->access[i].node) == KN_BOOL) return false; /* masks have them */
        if (s != 0 && s != 1) held += KO_BYTE_BLOCK;
    }
    return v->machine->turns && held <= tile_registers(v) && v->nest->origin[lane].extent >= KO_BYTE_BLOCK &&
           v->nest->origin[turned].extent >= KO_BYTE_BLOCK;
}

/* Rows and lanes of a block that touches each line of memory once: as many lines as a set of the L1 has; of bytes twice
 * as many, which registers turn, or one by one, more of them in a row. False: registers are too few for one. */
static bool block_of(const ko_view *v, int lane, int turned, int64_t *rows, int64_t *w) {
    for (int i = 0; i < v->naccess; i++)
        if (rows_in_turns(v, &v->access[i], lane) == &v->nest->origin[turned])
            return *rows = v->nest->origin[turned].extent, *w = KN_MIN(v->lanes, v->nest->origin[lane].extent), true;
    int64_t b = tile_registers(v) < 2 * BLOCK ? BLOCK_LEAST : BLOCK, bytes = v->lanes >= v->machine->vector_bytes;
    *rows = KN_MIN(b, v->nest->origin[turned].extent);
    *w    = KN_MIN(b << bytes, v->nest->origin[lane].extent);
    if (bytes && turns_bytes(v, lane, turned)) *rows = *w = KO_BYTE_BLOCK;
    return tile_registers(v) >= 2 * b;
}

/* A scan's own loop has side by side what lanes have far apart: a block of both, whose rows are added up. What is left
 * over comes first: what follows it sums it up once more, and not the other way round. */
static bool scan_block(ko_view *v, int lane, kn_opt *opts, int *n, int cap) {
    const kn_nest *nest  = v->nest;
    int            along = -1;
    bool           far   = false;
    int64_t        rows, w;
    for (int o = 0; o < v->outputs; o++)
        if (nest->origin[o].scanned && nest->origin[o].closer == v->tile) along = o;
    if (along < 0 || v->outputs < nest->norigin || !v->machine->turns) return false;
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = stride_in(v, &v->access[i], lane);
        if (s != 0 && s != 1 && stride_in(v, &v->access[i], along) != 1) return false;
        far |= s != 0 && s != 1;
    }
    if (!far || !block_of(v, lane, along, &rows, &w)) return false;
    int64_t rest = nest->origin[along].extent % rows;
    if (rows < BLOCK_LEAST || !split(v, position(nest, lane, -1), KN_MIN(rows, w), KN_AXIS_UPCAST, opts, n, cap))
        return false;
    kn_opt behind = {.op = KN_OPT_SWAP, .axis = position(nest, lane, KN_AXIS_UPCAST), .arg = position(nest, along, -1)};
    push(v, behind, opts, n, cap);
    if (rest) push(v, (kn_opt){.op = KN_OPT_PEEL, .axis = position(nest, along, -1), .arg = rest}, opts, n, cap);
    split(v, position(nest, along, -1), rows, KN_AXIS_UPCAST, opts, n, cap);
    return true;
}

/* A row of a few registers, of which little is computed, needs no loop of its own. */
static bool row_of_few(const ko_view *v, int lane) {
    int64_t e = v->nest->origin[lane].extent;
    return v->outputs == v->nest->norigin && !v->narrow && v->ops < FEW_OPS && e <= 2 * v->wide && e % v->lanes == 0;
}

/* A row that fills no register goes with others, where little is computed: the loop around it that they are of, -1
 * none. */
static int short_row(const ko_view *v, int lane, int64_t *rows) {
    int row = -1;
    if (v->outputs < v->nest->norigin || v->nest->origin[lane].extent >= v->lanes) return -1;
    for (int l = 0; l < position(v->nest, lane, -1); l++)
        if (may_be_lane(v, v->nest->loop[l].origin)) row = v->nest->loop[l].origin;
    int64_t most = (SHORT_ROWS >> v->narrow) / (lane_vectors(v, v->nest->origin[lane].extent) * (1 + v->ops / FEW_OPS));
    if (row >= 0) *rows = tile_rows(v->nest->origin[row].extent, KN_MAX(most, 1));
    return row;
}

/* Lanes of a block that is read lie pages apart, and between two lines of one page come more pages than the TLB next to
 * the core has entries, since loops stand between that of the rows and that of the lanes: some rows, or all, go inside
 * them. Of the outermost loop some stay there, for threads. The place of the loop that is the block's. */
static int rows_inside(ko_view *v, int lane, int row, int64_t rows, kn_opt *opts, int *n, int cap) {
    const kn_nest *nest = v->nest;
    int            at = position(nest, row, -1), end = position(nest, lane, -1);
    int64_t        e = nest->origin[row].extent, pages = 1, bytes = 0;
    for (int l = at + 1; l <= end; l++) pages = kn_sat_mul(pages, nest->loop[l].extent);
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = stride_in(v, &v->access[i], lane);
        if (v->access[i].stored || s < 2 || s == INT64_MAX || stride_in(v, &v->access[i], row) != 1) continue;
        bytes = KN_MAX(bytes, kn_sat_mul(s, kn_dsize(kg_dtype(v->g, v->access[i].node))));
    }
    int64_t run = RUN_LINES * v->lanes * v->machine->line / v->machine->vector_bytes; /* elements */
    if (at + 1 >= end || bytes < PAGE || pages <= TLB_PAGES || nest->origin[lane].extent < run) return at;
    if (at == 0) {
        int64_t some = RUN_LINES * 2 * rows;
        while (some > rows && e % some) some -= rows;
        if (some <= rows || e == some) return at;
        if (!split(v, at, some, KN_AXIS_LOOP, opts, n, cap)) return at;
        at++, end++;
    }
    for (; at + 1 < end && push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = at, .arg = at + 1}, opts, n, cap); at++) {
    }
    return at;
}

/* Sums side by side of what takes long to compute: what a tile leaves over would wait for all of it once more. */
static bool row_of_sums(const ko_view *v, int lane, int64_t w) {
    int64_t e = v->nest->origin[lane].extent;
    return v->outputs < v->nest->norigin && !v->narrow && v->ops >= PIECE_OPS && e > w && e % w && e <= 2 * v->wide;
}

static void output_lanes(ko_view *v, int lane, int row, kn_opt *opts, int *n, int cap) {
    const kn_nest *nest = v->nest;
    int64_t        e    = nest->origin[lane].extent, w = e >= v->wide ? v->wide : e >= v->lanes ? v->lanes : e;
    int64_t        rows = 0;
    if (row < 0 && scan_block(v, lane, opts, n, cap)) return;
    int            end = -1, at = position(nest, lane, -1), beside = row < 0 && !v->apart ? turned_row(v, lane) : -1;
    if (beside >= 0 && !block_of(v, lane, beside, &rows, &w)) beside = -1;
    v->turned    = beside >= 0;
    int64_t line = v->machine->line * v->lanes / v->machine->vector_bytes; /* elements */
    if (beside >= 0 && rows == BLOCK && v->ops < FEW_OPS && v->lanes < v->machine->vector_bytes)
        /* blocks side by side, to the end of the line, or two lines; not bytes, of which a block takes all registers */
        rows = KN_MIN(KN_MAX(2 * rows, line), nest->origin[beside].extent);
    if (beside < 0 && row < 0) beside = short_row(v, lane, &rows);
    if (beside >= 0) row = beside;
    for (int l = 0; l < nest->nloop; l++)
        if (nest->origin[nest->loop[l].origin].closer == v->tile) end = l;
    if (at != end) push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = at, .arg = end}, opts, n, cap);
    at = position(nest, lane, -1);
    if (row >= 0) {
        if (!rows) rows = tile_rows(nest->origin[row].extent, most_rows(v, lane, w));
        int around = v->turned ? rows_inside(v, lane, row, rows, opts, n, cap) : position(nest, row, -1);
        if (rows > 1) split(v, around, rows, KN_AXIS_UPCAST, opts, n, cap);
        at = position(nest, lane, KN_AXIS_LOOP);
    }
    if (row < 0 && (row_of_parts(v, lane) || row_of_few(v, lane) || row_of_sums(v, lane, w))) w = e;
    if (row < 0 && wide_sums(v, lane)) w = KN_MIN(e / v->lanes, wide_vectors(v)) * v->lanes;
    bool halves = v->streams && row < 0 && w == v->wide && v->machine->vector_bytes >= v->machine->line;
    if (halves) w = v->lanes; /* measured (docs/decisions.md) */
    bool   product = row >= 0 && row != beside;
    kn_opt masked = {.op = KN_OPT_SPLIT, .axis = at, .arg = w, .target = KN_AXIS_UPCAST, .tail = KN_TAIL_MASK};
    if (!product || !masks_rest(v, lane, row, w) || !push(v, masked, opts, n, cap))
        split(v, at, w, KN_AXIS_UPCAST, opts, n, cap);
    if (halves) split(v, position(nest, lane, KN_AXIS_UPCAST), w / 2, KN_AXIS_UPCAST, opts, n, cap);
    if (product) panels(v, lane, row, w, opts, n, cap);
}

/* The iteration of that loop from which on x, a comparison of indices of this loop alone, has its other value; 0: none.
 */
static int64_t turning_point(const ko_view *v, kn_ref x, int origin) {
    const kn_origin *o = &v->nest->origin[origin];
    kn_affine        a, b;
    if (!kg_affine(v->g, kg_at(v->g, x, 0), &a) || !kg_affine(v->g, kg_at(v->g, x, 1), &b)) return 0;
    int64_t k = kn_affine_coef(&a, o->range) - kn_affine_coef(&b, o->range), d, at;
    if (a.n + b.n != 1 || (k != 1 && k != -1) || a.base == INT64_MIN) return 0;
    if (!kn_add_ok(b.base, -a.base, &d)) return 0;
    at = k > 0 ? d : d > 0 || d <= -o->extent ? 0 : 1 - d; /* r < d, or r > -d */
    return at > 0 && at < o->extent ? at : 0;
}

/* A loop around the lanes whose iterations gates tell from one another, as those of parts that are joined, falls into
 * pieces which know on which side they are. */
static void pieces_of_gates(ko_view *v, int lane, kn_opt *opts, int *n, int cap) {
    if (v->outputs < v->nest->norigin || v->ops > PIECE_OPS) return;
    for (int o = v->outputs; o-- > 0;) {
        int64_t e = v->nest->origin[o].extent, first = e, last = 0;
        for (int k = 0; k < v->nlimit && o != lane; k++) {
            int64_t at = turning_point(v, v->limit[k], o);
            if (at) first = KN_MIN(first, at), last = KN_MAX(last, at);
        }
        int at = position(v->nest, o, -1);
        if (!last || v->nest->loop[at].extent != e || v->nest->loop[at].type != KN_AXIS_LOOP) continue; /* lanes know */
        kn_opt peel = {.op = KN_OPT_PEEL, .axis = at, .arg = first, .more = last > first ? e - last : 0};
        if (push(v, peel, opts, n, cap)) return;
    }
}

/* The last loop of the sum around all others, which fill no register: its lanes, if far apart. -1: there is none. */
static int sum_around(const ko_view *v) {
    const kn_nest *nest = v->nest;
    int            out  = -1;
    for (int o = v->outputs; o < nest->norigin; o++) {
        bool around = nest->origin[o].extent >= 4 * v->lanes, inner = false;
        for (int p = v->outputs; p < nest->norigin && around; p++) {
            if (nest->origin[p].closer == nest->origin[o].closer) around = p <= o;
            else around = inner = nest->origin[p].extent < v->lanes &&
                                  kg_depends(v->g, nest->origin[p].closer, nest->origin[o].range);
        }
        if (around && inner) out = o;
    }
    for (int i = 0; i < v->naccess && out >= 0; i++) { /* more than adding up pays for lanes one by one */
        int64_t s = stride_in(v, &v->access[i], out);
        if (s < 0 || (s > KO_NEAR && !v->ops)) return -1;
    }
    return out;
}

static bool masks_rounds(const ko_view *v) { return v->machine->masks && v->machine->mask_registers; }

/* A reduction's loop in rounds of w lanes that follow one another, the last one under a mask where there are such. */
static bool rounds_of(ko_view *v, int o, int64_t w, kn_opt *opts, int *n, int cap) {
    bool   mask = v->nest->origin[o].extent % w && masks_rounds(v);
    int    at   = position(v->nest, o, KN_AXIS_REDUCE);
    kn_opt some = {.op = KN_OPT_SPLIT, .axis = at, .arg = w, .target = KN_AXIS_GROUP_REDUCE,
                   .tail = mask ? KN_TAIL_MASK : 0};
    if (!push(v, some, opts, n, cap)) return false;
    at = position(v->nest, o, KN_AXIS_REDUCE);
    if (at >= 0 && v->nest->loop[at].extent > 1) split(v, at, v->nest->loop[at].extent, KN_AXIS_UNROLL, opts, n, cap);
    return true;
}

/* A fold along a short row runs through it without a loop, its last round under a mask: of what is compared with what
 * lies behind it in the row, half is known then. */
static bool short_fold(ko_view *v, int o, kn_opt *opts, int *n, int cap) {
    int64_t e = v->nest->origin[o].extent, l = v->lanes, w = e > 8 * l ? 4 * l : e > 4 * l ? 2 * l : l;
    w = KN_MAX(w >> v->narrow, l);
    if (v->narrow > 2 || v->machine->vector_registers < 32 || e <= l || e > FOLD_ROUNDS * l) return false;
    if (e <= 2 * l && __builtin_popcountll((unsigned long long)(e % l)) < 2) return false;
    return rounds_of(v, o, w, opts, n, cap);
}

/* Lanes of the reductions that the output's do not run through. */
static void sums_lanes(ko_view *v, int lane, int row, kn_opt *opts, int *n, int cap) {
    const kn_nest *nest = v->nest;
    bool           dots = lane < 0 && row >= 0;
    int            far  = lane < 0 ? sum_around(v) : -1;
    if (far >= 0) {
        split(v, position(nest, far, KN_AXIS_REDUCE), v->lanes, KN_AXIS_GROUP_REDUCE, opts, n, cap);
        return;
    }
    for (int o = v->outputs; o < nest->norigin; o++) {
        int own;
        if (lane >= 0 && kg_depends(v->g, nest->origin[o].closer, nest->origin[lane].range)) continue;
        if (!reduce_lanes(v, nest->origin[o].closer, &own) || own != o) continue;
        bool inside = false; /* of another reduction's lanes */
        for (int p = v->outputs, lanes; p < nest->norigin && !inside; p++)
            inside = p != o && kg_depends(v->g, nest->origin[o].closer, nest->origin[p].range) &&
                     (lane >= 0 || reduce_lanes(v, nest->origin[p].closer, &lanes));
        if (inside) continue;
        int64_t e    = nest->origin[o].extent;
        bool    mask = dots && masks_rounds(v) && lane_vectors(v, e % v->lanes) > 1 && e <= DOT_ROUNDS * v->lanes;
        if (dots) dot_tile(v, v->outputs, v->tile, opts, n, cap); /* a few rows share each vector that is loaded */
        dots = false;
        /* sums of what is left over, in lanes of their own, would take their registers from the tile */
        if (mask && rounds_of(v, o, v->lanes, opts, n, cap)) continue;
        if (kg_is_fold(v->g, nest->origin[o].closer) && short_fold(v, o, opts, n, cap)) continue;
        int64_t w = e >= 8 * v->lanes && row < 0 && v->narrow < 2 ? 4 * v->lanes : sum_lanes(v, e);
        if (kg_is_fold(v->g, nest->origin[o].closer) && v->narrow < 2 && e < 8 * v->lanes) /* its steps take long */
            w = e <= 4 * v->lanes ? e : 2 * v->lanes;
        split(v, position(nest, o, KN_AXIS_REDUCE), w, KN_AXIS_GROUP_REDUCE, opts, n, cap);
    }
}

/* Vectors of the tile. */
static int64_t vectors_of_tile(const ko_view *v) {
    int64_t n = 1, lanes = 1;
    for (int l = 0; l < v->nest->nloop; l++) {
        if (v->nest->loop[l].type != KN_AXIS_UPCAST) continue;
        n     = kn_sat_mul(n, lanes);
        lanes = v->nest->loop[l].extent; /* the last one's */
    }
    return kn_sat_mul(n, lane_vectors(v, lanes));
}

/* A comparison of indices moves with that loop and else with none that is not all in the tile: as of a sum up to each
 * row. Copies know what comes of it. */
static bool is_decided(const ko_view *v, int origin) {
    for (int k = 0; k < v->nlimit; k++) {
        bool decided = kg_depends(v->g, v->limit[k], v->nest->origin[origin].range);
        for (int l = 0; l < v->nest->nloop && decided; l++) {
            const kn_loop *at = &v->nest->loop[l];
            if (at->origin != origin && !ko_is_lane(at->type))
                decided = !kg_depends(v->g, v->limit[k], v->nest->origin[at->origin].range);
        }
        if (decided) return true;
    }
    return false;
}

/* A sum of few terms, as of a pool's window or in a product of small matrices, runs through them without a loop. */
static void unroll_sums(ko_view *v, bool product, kn_opt *opts, int *n, int cap) {
    if (v->ops > PIECE_OPS) return;
    bool    room = tile_registers(v) >= 2 * BLOCK; /* for what the copies load */
    int64_t most = room && product ? KN_MIN(2 * SHORT_SUM, KN_MAX(SHORT_SUM, SHORT_CODE / vectors_of_tile(v)))
                                   : SHORT_SUM;
    for (int first = v->outputs, last = first; first < v->nest->norigin; first = last) {
        int64_t terms = 1;
        for (; last < v->nest->norigin && v->nest->origin[last].closer == v->nest->origin[first].closer; last++)
            terms = kn_sat_mul(terms, v->nest->origin[last].extent);
        if (terms > most) { /* the last loop at least; a longer one where copies know whether they may load */
            int     at    = position(v->nest, last - 1, KN_AXIS_REDUCE);
            int64_t e     = at < 0 ? INT64_MAX : v->nest->loop[at].extent;
            bool    gates = e <= 2 * SHORT_SUM && e <= SHORT_CODE / vectors_of_tile(v) && is_gated(v, last - 1);
            bool    known = e <= 2 * SHORT_SUM && e <= 2 * SHORT_CODE / vectors_of_tile(v) && is_decided(v, last - 1);
            if (room && (((e <= SHORT_SUM || gates) && last - first > 1) || known))
                split(v, at, e, KN_AXIS_UNROLL, opts, n, cap);
            continue;
        }
        most /= KN_MAX(terms, 1); /* of sums in sums, together */
        for (int o = last; o-- > first;) {
            int at = position(v->nest, o, KN_AXIS_REDUCE);
            if (at >= 0) split(v, at, v->nest->loop[at].extent, KN_AXIS_UNROLL, opts, n, cap);
        }
    }
}

/* Rows that are all of a tile leave the outermost place to the first loop, which threads share. */
static void outermost_loop(ko_view *v, kn_opt *opts, int *n, int cap) {
    const kn_nest *nest = v->nest;
    int            l    = 0;
    while (l < nest->nloop && nest->loop[l].type == KN_AXIS_UPCAST) l++;
    if (!l || l == nest->nloop || nest->loop[l].type != KN_AXIS_LOOP) return;
    if (nest->origin[nest->loop[l].origin].closer == nest->origin[nest->loop[0].origin].closer)
        push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = 0, .arg = l}, opts, n, cap);
}

/* The options for that lane; v->nest becomes the nest they give. */
static int list_for(ko_view *v, int lane, kn_opt *opts, int cap) {
    const kn_nest *nest = v->nest;
    int            n = 0, row = find_row(v, lane);
    if (lane >= 0) output_lanes(v, lane, row, opts, &n, cap);
    if (lane >= 0 && row < 0) pieces_of_gates(v, lane, opts, &n, cap);
    for (int o = 0; o < v->outputs; o++)
        if (nest->origin[o].closer != v->tile && nest->origin[o].fills &&
            (o == 0 || nest->origin[o - 1].closer != nest->origin[o].closer))
            side_lanes(v, nest->origin[o].closer, opts, &n, cap);
    sums_lanes(v, lane, row, opts, &n, cap);
    unroll_sums(v, row >= 0 || lane < 0, opts, &n, cap);
    outermost_loop(v, opts, &n, cap);
    if (nest->nloop && nest->loop[0].type == KN_AXIS_LOOP && !nest->origin[nest->loop[0].origin].reduce) {
        /* The code takes a run lo..hi of the THREAD loop, so the whole loop may be one: chunks cost nothing. */
        int64_t e = nest->loop[0].extent;
        if (e > 1)
            push(v, (kn_opt){.op = KN_OPT_SPLIT, .arg = e, .target = KN_AXIS_THREAD, .top = true}, opts, &n, cap);
    }
    return n;
}

/* Memory sets the pace: as many values are read as are written, at least, all of one size and one after the other, most
 * of them beyond the L2, and little is computed meanwhile. */
static bool streams(const ko_view *v, int lane, const ko_cost *c) {
    double far = 0, all = 0;
    if (lane < 0 || v->outputs < v->nest->norigin || v->naccess < 2 || v->ngate) return false;
    if (2 * c->arithmetic > c->memory) return false;
    for (int i = 0; i < v->naccess; i++) {
        bool line = kn_dsize(kg_dtype(v->g, v->access[i].node)) * v->lanes == v->machine->vector_bytes;
        if (!line || stride_in(v, &v->access[i], lane) != 1) return false;
    }
    for (int l = KN_L1; l < KN_LEVELS; l++) {
        all += c->bytes[l] + c->stored[l];
        if (l > KN_L2) far += c->bytes[l] + c->stored[l];
    }
    return 2 * far > all;
}

/* Bytes from one iteration to the next of the innermost loop that the access moves with; 0: there is none, or no such
 * number, or, where asked for, something else walks further there, and sets the pace itself. */
static int64_t bytes_a_round(const ko_view *v, const ko_access *a, bool sets_pace) {
    for (int l = v->nest->nloop; l-- > 0;) {
        const kn_loop *at = &v->nest->loop[l];
        int64_t        s  = stride_in(v, a, at->origin);
        if (ko_is_lane(at->type) || s == 0 || at->extent < 2) continue;
        for (int i = 0; i < v->naccess && sets_pace; i++) {
            int64_t far = stride_in(v, &v->access[i], at->origin);
            if (far > s && far != INT64_MAX) return 0;
        }
        return s < 0 || s == INT64_MAX ? 0 : kn_sat_mul(kn_sat_mul(s, at->stride), kn_dsize(kg_dtype(v->g, a->node)));
    }
    return 0;
}

/* Bytes of a row of lanes. */
static int64_t bytes_of_lanes(const ko_view *v, int lane, int dtype) {
    int64_t w = kn_dsize(dtype);
    for (int l = 0; l < v->nest->nloop; l++)
        if (v->nest->loop[l].origin == lane && ko_is_lane(v->nest->loop[l].type)) w *= v->nest->loop[l].extent;
    return w;
}

/* A run of the lanes may begin where no register's worth of bytes does, and so lie in two lines. */
static bool lies_across(const ko_view *v, const ko_access *a, int lane) {
    int64_t whole = v->lanes, rest = a->form.base % whole;
    for (int t = 0; t < a->form.n && !rest; t++)
        if (a->form.atom[t] != v->nest->origin[lane].range) rest = a->form.coef[t] % whole;
    return !a->affine || rest;
}

/* What is stored line by line to where a line must be fetched from first, and memory sets the pace, is announced; of
 * much that lies across lines also where the L3 has them; of a block that is turned each row's next line. */
static void announce(ko_view *v, int lane, const ko_cost *c, kn_opt *opts, int *n, int cap) {
    const double *to  = c->stored;
    double        all = 0;
    if (lane < 0 || v->outputs < v->nest->norigin || c->arithmetic > c->memory) return;
    for (int l = KN_L1; l < KN_LEVELS; l++) all += c->bytes[l] + c->stored[l];
    bool much = to[KN_L3] > to[KN_L1] && 2 * all > 3 * (double)v->machine->cache[KN_L2];
    for (int i = 0; i < v->naccess; i++) {
        kn_ref  p     = kg_at(v->g, v->access[i].node, 0);
        int64_t bytes = bytes_a_round(v, &v->access[i], !v->turned);
        if (!v->access[i].stored || kg_op(v->g, p) != KN_OP_PARAM || stride_in(v, &v->access[i], lane) != 1) continue;
        bool across = much && lies_across(v, &v->access[i], lane);
        if (!v->turned && !across && to[KN_L2] + to[KN_DRAM] <= to[KN_L1] + to[KN_L3]) continue;
        kn_opt ahead = {.op = KN_OPT_PREFETCH, .arg = kg_field(v->g, p, KN_F_PARAM_slot)};
        if (bytes_of_lanes(v, lane, kg_dtype(v->g, v->access[i].node)) < SHORT_STORE) continue;
        if (bytes < (v->turned ? SHORT_STORE : v->machine->line) || bytes > STORE_AHEAD) continue;
        ahead.more = v->turned ? KN_MAX(v->machine->line / bytes, (int64_t)1) : STORE_AHEAD / bytes;
        push(v, ahead, opts, n, cap);
    }
}

/* The options for that lane, and what they are predicted to cost; -2: none at all. `refused` may be NULL. *turned: they
 * turn blocks. */
static int weigh_lane(const ko_view *v, ko_model *model, int lane, kn_str *refused, kn_opt *opts, int cap, ko_cost *c,
                      bool *turned) {
    kn_nest nest = *v->nest;
    ko_view w    = *v;
    w.nest       = &nest;
    w.refused    = refused;
    int n        = lane == -2 ? 0 : list_for(&w, lane, opts, cap);
    ko_predict(model, &nest, v->machine, c);
    double blocks = c->ps;
    bool   much    = w.turned && c->arithmetic > c->memory; /* computed: whole registers do it in half the time */
    for (int pass = 0; pass < 2 && much; pass++) {
        if (pass && c->ps < blocks) break;
        w.apart = !pass;
        nest    = *v->nest;
        n       = list_for(&w, lane, opts, cap);
        ko_predict(model, &nest, v->machine, c);
    }
    if ((w.streams = streams(v, lane, c))) {
        nest = *v->nest;
        n    = list_for(&w, lane, opts, cap);
        ko_predict(model, &nest, v->machine, c);
    }
    announce(&w, lane, c, opts, &n, cap);
    *turned = w.turned;
    return n;
}

/* The lane with the fewest accesses, unless another is predicted to take a fifth less: the model knows what elements
 * and short vectors cost, the count of accesses what is next to what. Of two that turn the same blocks it takes what is
 * predicted to take less at all. */
static int choose_lane(const ko_view *v, ko_model *model) {
    kn_opt  opts[KN_MAX_OPTS];
    ko_cost c;
    int     first = pick_lane(v), best = first;
    bool    turned, blocks;
    weigh_lane(v, model, first, NULL, opts, KN_MAX_OPTS, &c, &turned);
    double least = c.ps * 0.8, all = c.ps;
    for (int lane = -1; lane < v->outputs; lane++) {
        if (lane == first || (lane >= 0 && !may_be_lane(v, lane))) continue;
        weigh_lane(v, model, lane, NULL, opts, KN_MAX_OPTS, &c, &blocks);
        if (c.ps < least || (best == first && turned && blocks && c.ps < all)) least = c.ps, best = lane;
    }
    return best;
}

/* Each list that was weighed, a line. */
static void explain_lanes(const ko_view *v, ko_model *model, int chosen, kn_str *out) {
    kn_str refused;
    kn_str_init(&refused, kg_alloc(v->g));
    for (int lane = -2; lane < v->outputs; lane++) {
        if (lane >= 0 && !may_be_lane(v, lane)) continue;
        kn_opt  opts[KN_MAX_OPTS];
        ko_cost c;
        char    what[48] = "as it is";
        int     n        = weigh_lane(v, model, lane, &refused, opts, KN_MAX_OPTS, &c, &(bool){false});
        if (lane >= 0)
            snprintf(what, sizeof what, "loop %d of %lld", position(v->nest, lane, -1),
                     (long long)v->nest->origin[lane].extent);
        else if (lane == -1)
            snprintf(what, sizeof what, "of the sums");
        kn_str_putf(out, "  %s %-18s ", lane == chosen ? ">" : " ", what);
        if (lane == -2) kn_str_puts(out, "           - ");
        else kn_str_putf(out, "%12.0f ", cost_of(v, lane));
        ko_print_cost(&c, out);
        kn_str_puts(out, n ? "  " : "");
        ko_print_opts(opts, n, out);
        kn_str_puts(out, "\n");
        kn_str_puts(out, kn_str_c(&refused));
        kn_str_clear(&refused);
    }
    kn_str_free(&refused);
}

int ko_choose(kn_graph *g, kn_ref sink, const kn_machine *m, int narrow, kn_opt *opts, int cap, kn_str *explain,
              kn_fault *f) {
    kn_nest  nest;
    kn_fault no = {0};
    if (!ko_nest(g, sink, &nest, &no)) return 0;
    ko_view v = {.g = g, .nest = &nest, .machine = m, .narrow = narrow};
    if (!look(&v, sink, f)) return 0;
    find_tile(&v);
    ko_model *model = ko_model_new(g, sink, &nest, f);
    int       n     = 0;
    if (model) {
        int lane = choose_lane(&v, model);
        if (explain) explain_lanes(&v, model, lane, explain);
        n = weigh_lane(&v, model, lane, NULL, opts, cap, &(ko_cost){0}, &(bool){false});
    }
    ko_model_free(model);
    kn_free(kg_alloc(g), v.access, (size_t)(v.naccess + 1) * sizeof *v.access);
    return n;
}
