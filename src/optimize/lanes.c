/* lanes.c - options of output loops: lanes, rows of a tile beside them, blocks that are turned, pieces. */
#include "optimize/view.h"

enum {
    NARROW_ROWS = 14, SHORT_ROWS = 16, GATED_ROWS = 10, /* registers high */
    ROWS_IN_LINE = 12, /* registers of rows that share lines, beside others that are put in turns, */
    ROWS_BETWEEN = 16, /* and of those that share registers */
    BLOCK_LEAST = 4, /* of a transposition */
    PAGE = 4096, TLB_PAGES = 64, RUN_LINES = 4, /* that lanes of a block are stored along before other rows come */
    HELD_ROWS = 64, /* that go by what is held */
    HELD_VECTORS = 12, /* of a row that all rows are made of */
    REST_LEAST = 3, /* left over of a row: one more register has it, which reaches back */
    WHOLE_SUMS = 24, /* registers of a tile as wide as a row */
    FEW_ROWS_VECTORS = 4, /* of each of a few rows, or of each row by itself */
    CROWD_OF_ROWS = 16, /* in another order, of which half registers are read */
    PAGED_ROWS = 128, PAGED_VECTORS = 16, /* rows whole pages apart; registers of their sums */
    SUM_ROWS = 4, /* of short rows of sums, */
    THREADS_TRIPS = 1 << 20, /* but of few that take so long */
    DIVIDED_OPS = 16, /* in a body of which quotients and roots set the pace */
    FEW_OPS = 4, /* in a body that is little */
    MOST_PEELED = 3, /* loops that gates cut in pieces */
    MOST_ALONG  = 2 * KO_MOST_PARTS + 1, /* parts along one of them, alone */
    JOINING_OPS = 5, /* that a part more has where parts are joined */
    WINDOW_OPS = 8 * KO_PIECE_OPS, /* in all terms of a window */
    LANE_PIECE_OPS = 4 * KO_PIECE_OPS, /* in a body whose lanes jump, each by itself */
    MEETING_TERMS = 8, /* registers of them in a sum whose factor is turned */
    CROWDED_TERMS = 24, /* of a product whose rows' stores set the pace */
    MASKED_ROUNDS = 16, /* of lanes, whose stores have a mask for the last one */
    MIXED_ROUNDS = 8, /* of which only one has two parts */
    KNOWN_ROWS = 24, /* registers high, of rows that know their gates */
    FULL_SUMS = 16 /* that leave no time for waiting: two a cycle, of more cycles than one takes */
};

/* Terms of a sum that will have no loop; 0: of one that has, or of none. */
static int64_t short_terms(const ko_view *v) {
    int64_t terms = ko_terms(v);
    return v->outputs < v->nest->norigin && terms <= KO_SHORT_SUM ? terms : 0;
}

/* Of a tile w lanes wide: accumulators, a row of vectors and what is broadcast stay in registers; or, where the loop of
 * the lanes is the innermost one, what is broadcast for all terms, and their vectors. */
static int64_t most_rows(const ko_view *v, int lane, int64_t w) {
    int64_t nv  = ko_lane_vectors(v, w), terms = w < v->nest->origin[lane].extent ? short_terms(v) : 0;
    int64_t fit = terms ? (ko_tile_registers(v) - (terms + 1) * nv) / terms : (ko_tile_registers(v) - nv) / nv;
    return KN_MAX(KN_MIN(fit, (int64_t)(nv > 1 ? KO_TILE_ROWS : NARROW_ROWS >> KN_MAX(v->narrow - 1, 0))), (int64_t)1);
}

/* What is read lies side by side for that origin's numbers, or is one element for all of them. */
static bool reads_side_by_side(const ko_view *v, int origin) {
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = ko_stride_in(v, &v->access[i], origin);
        if (!v->access[i].stored && s != 0 && s != 1) return false;
    }
    return true;
}

/* So does what is stored. */
static bool side_by_side(const ko_view *v, int origin) {
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = ko_stride_in(v, &v->access[i], origin);
        if (v->access[i].stored && s != 0 && s != 1) return false;
    }
    return reads_side_by_side(v, origin);
}

/* What is read lies near enough to be shuffled to its lanes, or for a mask of lanes to be spread over it; what is
 * stored lies side by side. */
static bool lies_near(const ko_view *v, int origin, int64_t near) {
    int64_t most = v->machine->mask_registers ? near : 1;
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = ko_stride_in(v, &v->access[i], origin);
        if (s < 0 || s > (v->access[i].stored ? 1 : most)) return false;
    }
    return true;
}

/* Lanes for an END beside the main tile: its last loop, where everything in it walks by one, or a few, or stands
 * still. */
void ko_side_lanes(ko_view *v, kn_ref closer, kn_opt *opts, int *n, int cap) {
    int last = -1;
    for (int o = 0; o < v->nest->norigin; o++)
        if (v->nest->origin[o].closer == closer) last = o;
    if (last < 0 || v->nest->origin[last].carried || v->nest->origin[last].extent < 2) return;
    int64_t e = v->nest->origin[last].extent;
    int64_t near = v->lanes == 2 * KN_IN_TURNS && e >= v->lanes ? KN_IN_TURNS : KN_NEAR; /* sixteen of four bytes */
    if (!side_by_side(v, last) && !(v->machine->turns && lies_near(v, last, near))) return;
    int64_t width = e >= v->wide && side_by_side(v, last) ? v->wide : KN_MIN(e, v->lanes);
    if (ko_is_held_row(v, last)) width = e;
    ko_split(v, ko_position(v->nest, last, KN_AXIS_LOOP), width, KN_AXIS_UPCAST, opts, n, cap);
}

/* A sum or a scan that walks whole rows: many lanes make each row it touches worth its page. */
static bool wide_sums(const ko_view *v, int lane) {
    bool sums = false, scan = false;
    if (v->nest->origin[lane].extent < 4 * v->lanes) return false;
    for (int o = 0; o < v->outputs; o++) scan |= o != lane && v->nest->origin[o].scanned;
    for (int i = 0; i < v->naccess; i++)
        sums |= (v->access[i].reduce || scan) && ko_stride_in(v, &v->access[i], lane) == 1;
    return sums;
}

/* Bytes from one number of that loop to the next; INT64_MAX: anywhere. */
static int64_t bytes_apart(const ko_view *v, const ko_access *a, int origin) {
    int64_t s = ko_stride_in(v, a, origin);
    return s < 0 || s == INT64_MAX ? INT64_MAX : kn_sat_mul(s, kn_dsize(kg_dtype(v->g, a->node)));
}

/* The rows that are added up lie whole pages apart: what has the same place in each is in few sets of the caches. */
static bool rows_by_pages(const ko_view *v, int lane) {
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        if (!a->reduce || !a->affine || ko_stride_in(v, a, lane) != 1) continue;
        for (int o = v->outputs; o < v->nest->norigin; o++) {
            int64_t bytes = bytes_apart(v, a, o);
            if (bytes >= PAGE && bytes % PAGE == 0 && v->nest->origin[o].extent >= PAGED_ROWS) return true;
        }
    }
    return false;
}

/* Vectors of each sum then: all sums have theirs, and two are loaded at a time. Of what takes long to compute memory
 * does not set the pace: registers for two of them at a time are worth more. */
static int64_t wide_vectors(const ko_view *v, int lane) {
    bool    paged = v->nest->origin[lane].extent >= 4 * PAGED_VECTORS * v->lanes && rows_by_pages(v, lane);
    int64_t sums = 0, most = v->ops < KO_PIECE_OPS ? 8 : 4, fit;
    kn_ref  last = 0;
    for (int o = v->outputs; o < v->nest->norigin; o++) {
        sums += v->nest->origin[o].closer != last;
        last = v->nest->origin[o].closer;
        paged &= !kg_is_fold(v->g, last);
    }
    fit = (ko_tile_registers(v) - 2) / KN_MAX(sums, 1);
    if (paged && most == 8 && fit > 3 * PAGED_VECTORS / 4) most = PAGED_VECTORS;
    return KN_MAX(KN_MIN(fit, most), (int64_t)1);
}

/* A product whose second operand is large goes panel by panel of lanes: the panel stays near while all rows pass, and
 * is copied first, as its rows lie far apart. The PARAM's slot, -1 none. */
static int64_t panel_of(const ko_view *v, int lane, int row, int64_t w) {
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        kn_ref           p = kg_at(v->g, a->node, 0);
        if (!a->reduce || ko_stride_in(v, a, lane) != 1 || ko_stride_in(v, a, row) || kg_op(v->g, p) != KN_OP_PARAM)
            continue;
        double rows = 1; /* of the panel */
        for (int o = 0; o < v->nest->norigin; o++)
            if (v->nest->origin[o].reduce && kg_depends(v->g, a->node, v->nest->origin[o].range))
                rows *= (double)v->nest->origin[o].extent;
        double bytes = rows * kn_dsize(kg_dtype(v->g, p)), all = bytes * (double)v->nest->origin[lane].extent;
        double near  = (double)v->machine->cache[KN_L2] / 2;
        int    l = ko_position(v->nest, lane, KN_AXIS_LOOP), r = ko_position(v->nest, row, KN_AXIS_LOOP);
        if (all < near || l < 0 || r < 0 || bytes * (double)w > KN_MIN(near, (double)KN_STAGE_BYTES)) continue;
        return kg_field(v->g, p, KN_F_PARAM_slot);
    }
    return -1;
}

/* A product of rows by rows whose sum is short: each sum's own lanes would take longer to meet than to add up. The
 * PARAM of the factor that the lanes' loop walks through in rows, -1 none: its panels are turned as they are copied. */
static int64_t turned_factor(const ko_view *v, int lane, int row, int64_t w) {
    const kn_origin *sum = &v->nest->origin[v->outputs];
    int64_t          slot = -1, bytes = w * sum->extent * v->machine->vector_bytes / v->lanes;
    if (v->outputs + 1 != v->nest->norigin || v->narrow || v->ngate || v->nlimit || sum->moving) return -1;
    if (sum->extent <= 2 * KO_SHORT_SUM || sum->extent > MEETING_TERMS * v->lanes || bytes > KN_STAGE_BYTES) return -1;
    if (v->nest->origin[row].extent < KO_MANY_ROWS || v->nest->origin[lane].extent < 2 * w || w < v->lanes) return -1;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        kn_ref           p = kg_at(v->g, a->node, 0);
        int64_t          s = ko_stride_in(v, a, lane);
        if (!a->reduce || !s) continue;
        bool rows = s > KN_NEAR && ko_stride_in(v, a, v->outputs) == 1 && !ko_stride_in(v, a, row);
        if (!rows || slot >= 0 || kg_op(v->g, p) != KN_OP_PARAM) return -1;
        slot = kg_field(v->g, p, KN_F_PARAM_slot);
    }
    return slot;
}

/* The PARAM of the factor that goes by panels, -1: none does. */
static int64_t in_panels(const ko_view *v, int lane, int row, int64_t w) {
    int64_t slot = panel_of(v, lane, row, w);
    return slot >= 0 ? slot : turned_factor(v, lane, row, w);
}

static void panels(ko_view *v, int lane, int row, int64_t w, kn_opt *opts, int *n, int cap) {
    int64_t slot = in_panels(v, lane, row, w);
    int     l = ko_position(v->nest, lane, KN_AXIS_LOOP), r = ko_position(v->nest, row, KN_AXIS_LOOP);
    if (slot < 0) return;
    if (r < l) ko_push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = r, .arg = l}, opts, n, cap);
    ko_stage(v, slot, opts, n, cap);
}

/* What the products of w of a row's lanes take, in halves of a register's: where one such is multiplied a cycle, two of
 * half as many lanes are. Of rows that share their terms, or that are less than a register, all else counts as well. */
static int64_t halves_of(const ko_view *v, int lane, int row, int64_t w) {
    int64_t parts    = ko_lane_vectors(v, w % v->lanes);
    bool    long_row = v->nest->origin[lane].extent >= v->lanes && ko_shared_terms(v, row) < 0;
    return 2 * (w / v->lanes) + (long_row && v->machine->fma_per_cycle == 1 ? parts : 2 * parts);
}

/* What is left of a product's lanes takes longer in pieces than a whole round, in which masks leave out what is not
 * there: of a few rounds, since all of them store under the mask. Where vectors are masks, such stores take some
 * processors longer than all pieces. */
static bool masks_rest(const ko_view *v, int lane, int row, int64_t w) {
    int64_t e     = v->nest->origin[lane].extent;
    bool    masks = v->machine->masks && v->machine->mask_registers;
    if (!masks || e >= MASKED_ROUNDS * w || !lies_near(v, lane, KN_NEAR)) return false;
    return halves_of(v, lane, row, e % w) > halves_of(v, lane, row, w) && panel_of(v, lane, row, w) < 0;
}

/* A product's row that is less than a register, and more than one piece of one: a piece of so many lanes, under a mask.
 * 0: it is none. */
static int64_t masked_row(const ko_view *v, int lane, int row) {
    int64_t e = v->nest->origin[lane].extent, w = 1;
    while (w < e) w *= 2;
    bool pieces = e < v->lanes && w != e && v->machine->mask_registers && !v->ngate;
    return pieces && side_by_side(v, lane) && !ko_reads_halves(v) && masks_rest(v, lane, row, w) ? w : 0;
}

/* A product's row of a few registers and a rest goes as one: a tile of the rest alone would read all that it broadcasts
 * once more. Rows of the tile then; 0: there are fewer than three, or it is no such row. */
static int64_t whole_rows(const ko_view *v, int lane, int row, int64_t w) {
    int64_t e = v->nest->origin[lane].extent, nv = ko_lane_vectors(v, e);
    bool laps = v->machine->masks && !v->machine->mask_registers;
    if ((v->narrow && !laps) || e <= w || e % w == 0 || !reads_side_by_side(v, lane)) return 0;
    if (laps && e % v->lanes >= REST_LEAST) nv = e / v->lanes + 1;
    int shared = ko_shared_terms(v, row); /* with many terms more rows share them, which fit beside fewer lanes */
    bool many  = shared >= 0 && v->nest->origin[shared].extent > KO_SHORT_SUM;
    if ((many && masks_rest(v, lane, row, w)) || panel_of(v, lane, row, w) >= 0) return 0;
    int64_t rows = KN_MIN(KN_MIN((ko_tile_registers(v) - nv) / nv, (int64_t)WHOLE_SUMS / nv), (int64_t)KO_TILE_ROWS);
    return rows < 3 ? 0 : ko_tile_rows(v->nest->origin[row].extent, rows);
}

/* A product of a few rows, all in the tile: of the other matrix each row lies in pages of its own, so more of it is
 * taken at a time. Lanes then; 0: rows are more, or the other matrix is narrow. */
static int64_t lanes_of_few_rows(const ko_view *v, int lane, int row) {
    int64_t rows = v->nest->origin[row].extent, e = v->nest->origin[lane].extent, w = FEW_ROWS_VECTORS * v->lanes;
    if (v->narrow || v->ngate || e < 4 * w || short_terms(v) || !side_by_side(v, lane)) return 0;
    return (rows + 1) * FEW_ROWS_VECTORS < ko_tile_registers(v) ? w : 0;
}

/* All of few rows are in a tile, and their sums wait for one another: the loop that what is broadcast to the rows does
 * not move with, some of whose numbers go into the tile too, of a narrower one half as many, three at least. -1: there
 * is none, or registers are too few. */
static int rows_beside(const ko_view *v, int lane, int row, int64_t rows, int64_t w, int64_t *some) {
    int64_t nv = ko_lane_vectors(v, w);
    int     beside = -1;
    *some = KN_MIN((ko_tile_registers(v) - 1) / kn_sat_mul(rows + 1, nv), FULL_SUMS / kn_sat_mul(rows, nv));
    *some >>= v->narrow;
    if (v->ngate || *some < 2 + (v->narrow > 0) || rows < v->nest->origin[row].extent) return -1;
    if (v->ops > FEW_OPS || ko_terms(v) <= 4 * KO_SHORT_SUM) return -1;
    for (int o = 0; o < v->outputs; o++) {
        if (o == lane || o == row || !ko_may_be_lane(v, o) || v->nest->origin[o].extent < 2 * *some) continue;
        bool same = true, moves = false;
        for (int i = 0; i < v->naccess; i++) {
            const ko_access *a = &v->access[i];
            if (!a->reduce) continue;
            int64_t s = ko_stride_in(v, a, o);
            if (ko_stride_in(v, a, row) != 0) same &= s == 0 && ko_stride_in(v, a, lane) == 0;
            else same &= nv == 1 || ko_stride_in(v, a, lane) == 1, moves |= s != 0; /* shuffles take registers */
        }
        if (same && moves) beside = o;
    }
    if (beside >= 0) *some = ko_tile_rows(v->nest->origin[beside].extent, *some);
    return beside;
}

/* Rows share scalars alone, all of which registers keep while a row goes by. */
static bool shares_scalars(const ko_view *v, int lane, int row) {
    bool alone = v->outputs + 1 == v->nest->norigin && ko_terms(v) <= 2 * KO_SHORT_SUM && ko_shared_terms(v, row) < 0;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        if (a->reduce && ko_stride_in(v, a, lane) != 0) alone &= ko_stride_in(v, a, row) != 0;
    }
    return alone;
}

/* A product of a few terms takes as long as its stores do: row by row, each from its beginning to its end, where the
 * L1 has the other matrix for all of them; or rows have nothing to share that is loaded for each. */
static bool goes_by_rows(const ko_view *v, int lane, int row) {
    int64_t e = v->nest->origin[lane].extent, bytes = v->machine->vector_bytes / v->lanes;
    bool    alone = shares_scalars(v, lane, row);
    if (!alone && (!short_terms(v) || v->ops > FEW_OPS)) return false;
    if (v->narrow || v->ngate || e < 4 * v->lanes || !side_by_side(v, lane)) return false;
    for (int o = row + 1; o < v->nest->norigin; o++) /* around which no row comes again */
        for (int i = 0; i < v->naccess && !alone; i++) {
            const ko_access *a = &v->access[i];
            if (!a->reduce || ko_stride_in(v, a, lane) != 1 || !ko_stride_in(v, a, o)) continue;
            bytes = kn_sat_mul(bytes, v->nest->origin[o].extent);
            break;
        }
    return bytes <= v->machine->cache[KN_L1] / 2;
}

/* A short row of parts that gates tell from one another: lanes of all of it know on which side they are. */
static bool row_of_parts(const ko_view *v, int lane) {
    int64_t e = v->nest->origin[lane].extent;
    if (!v->machine->masks || v->outputs < v->nest->norigin || v->narrow) return false;
    return e <= 4 * v->wide && e % v->lanes == 0 && ko_is_gated(v, lane);
}

/* The loop that has side by side what lanes read or write far apart; -1: none. Beside sums, or a stage, only rows that
 * are put in turns. */
static int turned_row(const ko_view *v, int lane) {
    for (int i = 0; i < v->naccess; i++) {
        const kn_origin *row = ko_rows_in_turns(v, &v->access[i], lane);
        if (row) return (int)(row - v->nest->origin);
    }
    if (v->outputs < v->nest->norigin) return -1;
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = ko_stride_in(v, &v->access[i], lane);
        for (int o = 0; o < v->outputs && s != 0 && s != 1 && s != INT64_MAX; o++)
            if (o != lane && ko_may_be_lane(v, o) && ko_stride_in(v, &v->access[i], o) == 1) return o;
    }
    return -1;
}

/* There are registers for whole blocks of bytes, of each access that is turned. */
static bool turns_bytes(const ko_view *v, int lane, int turned) {
    int64_t held = KO_BYTE_BLOCK / 4; /* for the rest */
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = ko_stride_in(v, &v->access[i], lane);
        if (kg_dtype(v->g, v->access[i].node) == KN_BOOL) return false; /* masks have them */
        if (s != 0 && s != 1) held += KO_BYTE_BLOCK;
    }
    return v->machine->turns && held <= ko_tile_registers(v) && v->nest->origin[lane].extent >= KO_BYTE_BLOCK &&
           v->nest->origin[turned].extent >= KO_BYTE_BLOCK;
}

/* What is read far apart are bytes, of which words are stored side by side, in blocks that leave little over. */
static bool turns_bytes_alone(const ko_view *v, int lane) {
    int64_t e     = v->nest->origin[lane].extent;
    bool    alone = v->lanes == KO_BYTE_BLOCK && (e >= 2 * KO_BYTE_BLOCK || e == KO_BYTE_BLOCK);
    for (int i = 0; i < v->naccess && alone; i++) {
        const ko_access *a = &v->access[i];
        int64_t          s = ko_stride_in(v, a, lane);
        if (s != 0 && s != 1) alone = !a->stored && kn_dsize(kg_dtype(v->g, a->node)) == 1;
    }
    return alone;
}

/* Rows and lanes of a block that touches each line of memory once: as many lines as a set of the L1 has; of bytes twice
 * as many, which registers turn, also for words, or one by one, more of them in a row. False: registers are too few. */
static bool block_of(const ko_view *v, int lane, int turned, int64_t *rows, int64_t *w) {
    for (int i = 0; i < v->naccess; i++) {
        if (ko_rows_in_turns(v, &v->access[i], lane) != &v->nest->origin[turned]) continue;
        int  size = kn_dsize(kg_dtype(v->g, v->access[i].node));
        bool half = size * v->wide <= v->machine->vector_bytes; /* of the widest */
        *rows     = v->nest->origin[turned].extent;
        if (v->narrow && 2 * *rows > ko_tile_registers(v)) return false;
        *w        = KN_MIN(half && v->work >= KO_PIECE_OPS ? v->wide : v->lanes, v->nest->origin[lane].extent);
        return true;
    }
    /* of few registers, a register a row, and some for shuffles */
    bool    whole = v->machine->turns && v->lanes == KO_BLOCK && v->machine->vector_registers <= 2 * KO_BLOCK;
    int64_t room  = (whole ? 3 : 4) * KO_BLOCK / 2, b = ko_tile_registers(v) < room ? BLOCK_LEAST : KO_BLOCK;
    bool    bytes = v->lanes >= v->machine->vector_bytes;
    *rows = KN_MIN(b, v->nest->origin[turned].extent);
    *w    = KN_MIN(b << bytes, v->nest->origin[lane].extent);
    if ((bytes || turns_bytes_alone(v, lane)) && turns_bytes(v, lane, turned)) *rows = *w = KO_BYTE_BLOCK;
    /* of a few rows whole registers are shuffled from as few runs */
    if (v->machine->turns && v->lanes <= 2 * KO_BLOCK && *rows <= KN_NEAR && v->machine->mask_registers)
        *w = KN_MIN(KN_MAX(*w, v->lanes), v->nest->origin[lane].extent);
    return ko_tile_registers(v) >= (b == KO_BLOCK ? room : 2 * b);
}

/* The L1 has no place for a line of each of so many rows that a block stores. */
static bool stores_crowd(const ko_view *v, int row, int64_t rows) {
    bool crowd = false;
    for (int i = 0; i < v->naccess; i++) {
        int64_t apart = v->access[i].stored ? bytes_apart(v, &v->access[i], row) : 0;
        crowd |= apart >= v->machine->line && apart < INT64_MAX && ko_lines_held(v->machine, apart) < rows;
    }
    return crowd;
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
        int64_t s = ko_stride_in(v, &v->access[i], lane);
        if (s != 0 && s != 1 && ko_stride_in(v, &v->access[i], along) != 1) return false;
        far |= s != 0 && s != 1;
    }
    if (!far || !block_of(v, lane, along, &rows, &w)) return false;
    int64_t rest = nest->origin[along].extent % rows;
    if (rows < BLOCK_LEAST || w < BLOCK_LEAST) return false;
    if (!ko_split(v, ko_position(nest, lane, -1), KN_MIN(rows, w), KN_AXIS_UPCAST, opts, n, cap))
        return false;
    int    at     = ko_position(nest, lane, KN_AXIS_UPCAST);
    kn_opt behind = {.op = KN_OPT_SWAP, .axis = at, .arg = ko_position(nest, along, -1)};
    ko_push(v, behind, opts, n, cap);
    if (rest) ko_push(v, (kn_opt){.op = KN_OPT_PEEL, .axis = ko_position(nest, along, -1), .arg = rest}, opts, n, cap);
    ko_split(v, ko_position(nest, along, -1), rows, KN_AXIS_UPCAST, opts, n, cap);
    return true;
}

/* A row of up to sixteen registers, of which little is computed, needs no loop of its own, nor what is left over of its
 * lanes: the last of them begin in the ones before. */
static bool row_of_few(const ko_view *v, int lane) {
    int64_t e = v->nest->origin[lane].extent;
    bool    few = v->ops < FEW_OPS, rest = e % v->lanes != 0, longer = e > 4 * v->wide;
    if (v->outputs < v->nest->norigin || v->narrow || e > 8 * v->wide) return false;
    if (rest && (!v->machine->turns || e < v->lanes || !side_by_side(v, lane))) return false;
    return few || (rest && !longer && v->work < KO_PIECE_OPS && !v->ngate);
}

/* Rows of one array in another order, many of which are read pages apart before the next of any comes, go by half
 * registers, one a round: more of it was measured to be slower. Longer ones are lines that stream. */
static bool streams_by_rows(const ko_view *v, int lane) {
    int64_t e = v->nest->origin[lane].extent, half = v->lanes / 2;
    int     around = ko_position(v->nest, lane, -1) - 1;
    if (!v->streams || around < 0 || e < 2 * v->lanes || e > 8 * v->wide || half == 0 || e % half) return false;
    if (v->nest->loop[around].extent < CROWD_OF_ROWS) return false;
    bool far = false;
    int  read = 0;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        if (a->stored) continue;
        read++;
        int64_t apart = bytes_apart(v, a, v->nest->loop[around].origin);
        far |= ko_stride_in(v, a, lane) == 1 && apart >= 2 * PAGE && apart < INT64_MAX;
    }
    return far && read == 1 && v->machine->vector_bytes >= v->machine->line;
}

/* The loop around a row that has none of its own, which is of a few rounds: they are copies. -1: it is not. */
static int few_beside(const ko_view *v, int lane) {
    int at = ko_position(v->nest, lane, -1) - 1;
    if (at < 1 || v->narrow || v->ngate || v->outputs < v->nest->norigin) return -1;
    int     o = v->nest->loop[at].origin;
    int64_t e = v->nest->origin[o].extent, each = ko_lane_vectors(v, v->nest->origin[lane].extent);
    return ko_may_be_lane(v, o) && e <= KO_SHORT_SUM && e * each <= 2 * KO_TILE_ROWS ? o : -1;
}

/* Registers hold a row of all that is read along it, as of a product of a column and a row: each of the rows outside
 * then takes no loads, and no rounds. */
static bool row_that_stays(const ko_view *v, int lane) {
    int64_t e    = v->nest->origin[lane].extent;
    bool    held = v->outputs == v->nest->norigin && !v->narrow && !v->ngate && ko_lane_vectors(v, e) <= HELD_VECTORS;
    int     read = 0;
    for (int i = 0; i < v->naccess && held; i++) {
        const ko_access *a = &v->access[i];
        if (a->stored || ko_stride_in(v, a, lane) == 0) continue;
        read++;
        held = ko_stride_in(v, a, lane) == 1 && ko_stays_still(v, a, lane);
    }
    return held && read == 1 && v->outputs > 1;
}

/* Sums that a row is too short for wait for their accumulators, which those of other rows do not: the loop of such
 * rows, of windows one whose rows share what they load, -1 none. */
static int row_of_accumulators(const ko_view *v, int lane, int64_t *rows) {
    int    row = -1, own;
    double trips = 0;
    if (v->narrow || v->ops > FEW_OPS || v->ngate) return -1;
    for (int o = v->outputs; o < v->nest->norigin; o++) { /* sums with lanes of their own fold those */
        kn_ref sum = v->nest->origin[o].closer;
        if (kg_depends(v->g, sum, v->nest->origin[lane].range)) continue;
        if (ko_reduce_lanes(v, sum, &own)) return -1;
    }
    for (int o = 0; o < v->outputs; o++)
        if (o != lane && ko_may_be_lane(v, o) && (row < 0 || ko_shared_terms(v, row) < 0)) row = o;
    if (row < 0) return -1;
    for (int i = 0; i < v->naccess; i++) trips = KN_MAX(trips, v->access[i].trips);
    int64_t e = v->nest->origin[row].extent;
    bool outer = ko_position(v->nest, row, -1) == 0;
    if (outer && e < 2 * SUM_ROWS && trips > THREADS_TRIPS) return -1; /* threads have them */
    int64_t each = ko_lane_vectors(v, v->nest->origin[lane].extent), fit = (ko_tile_registers(v) - each) / each;
    *rows        = ko_tile_rows(e, KN_MAX(KN_MIN(fit, (int64_t)SUM_ROWS), (int64_t)1));
    return row;
}

int ko_row_of_lines(const ko_view *v, int lane, int row, int64_t *rows) {
    int64_t line = v->machine->line, least = line / 2 + 1;
    int     best = -1;
    for (int i = 0; i < v->naccess && !v->ngate; i++) {
        const ko_access *a = &v->access[i];
        if (a->stored || bytes_apart(v, a, row) <= line / 2) continue;
        for (int o = 0; o < v->outputs; o++) {
            int64_t apart = ko_may_be_lane(v, o) && o != lane ? bytes_apart(v, a, o) : 0;
            if (apart > 0 && apart < least) best = o, least = apart;
        }
    }
    if (best >= 0) *rows = ko_tile_rows(v->nest->origin[best].extent, (line + least - 1) / least);
    return best;
}

/* The loop whose numbers are all that lies between two lanes of what is read; -1: there is none. */
static int between_lanes(const ko_view *v, int lane) {
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        int64_t          s = a->stored ? 0 : ko_stride_in(v, a, lane);
        for (int o = 0; o < v->outputs && s > 1; o++)
            if (o != lane && ko_may_be_lane(v, o) && ko_stride_in(v, a, o) == 1 && v->nest->origin[o].extent == s)
                return o;
    }
    return -1;
}

/* Rows that are put in turns, each lane of which is read in a line of its own: those of a loop that are beside them in
 * the line come with them, as many as there are registers for. Of lanes between which all numbers of such a loop lie
 * all of them come, or none: each is a part of the same registers. */
static void rows_in_line(ko_view *v, int lane, int row, int64_t rows, int64_t w, kn_opt *opts, int *n, int cap) {
    int64_t some, each = rows * ko_lane_vectors(v, w);
    bool    turns = false;
    for (int i = 0; i < v->naccess; i++)
        turns |= ko_rows_in_turns(v, &v->access[i], lane) == &v->nest->origin[row];
    if (!turns || v->outputs < v->nest->norigin) return;
    int o = ko_row_of_lines(v, lane, lane, &some), all = o < 0 && !v->ngate ? between_lanes(v, lane) : -1;
    if (o == row || all == row || v->narrow > 1) return;
    int64_t most = KN_MAX((ROWS_IN_LINE >> v->narrow) / each, (int64_t)1);
    if (o >= 0 && some > most) some = ko_tile_rows(v->nest->origin[o].extent, most);
    if (all >= 0) o = all, some = v->nest->origin[all].extent;
    if (o < 0 || some < 2 || some * each > ROWS_BETWEEN >> v->narrow) return;
    ko_split(v, ko_position(v->nest, o, -1), some, KN_AXIS_UPCAST, opts, n, cap);
}

/* A row that fills no register goes with others, where little is computed: the loop around it that they are of, -1
 * none. */
static int short_row(const ko_view *v, int lane, int64_t *rows) {
    int row = -1;
    bool sums = v->outputs < v->nest->norigin;
    if (v->nest->origin[lane].extent >= (1 + sums) * v->lanes) return -1;
    if (sums) return row_of_accumulators(v, lane, rows);
    for (int l = 0; l < ko_position(v->nest, lane, -1); l++)
        if (ko_may_be_lane(v, v->nest->loop[l].origin)) row = v->nest->loop[l].origin;
    int64_t e = row < 0 ? 0 : v->nest->origin[row].extent, each = ko_lane_vectors(v, v->nest->origin[lane].extent);
    if (row >= 0 && ko_is_gated(v, row)) { /* all rows know their gates, or others share them, or it is cut in pieces */
        if (e * each <= KNOWN_ROWS >> v->narrow) return *rows = e, row;
        int around = ko_position(v->nest, row, -1);
        for (row = -1; around-- > 0 && row < 0;) {
            int o = v->nest->loop[around].origin;
            if (ko_may_be_lane(v, o) && !ko_is_gated(v, o)) row = o;
        }
    }
    int shared = row < 0 ? -1 : ko_row_of_lines(v, lane, row, rows);
    if (shared >= 0) return shared;
    each *= 1 + v->ops / FEW_OPS;
    int64_t most = (SHORT_ROWS >> v->narrow) / each;
    if (row >= 0) *rows = ko_tile_rows(v->nest->origin[row].extent, KN_MAX(most, 1));
    return row;
}

/* Of a block of bytes, which takes part of a line of each of its lanes: the L1 has no place for a line of all lanes
 * until the rows come that are beside these in it, but for what a line's rows store: they are to go inside the loop of
 * the lanes, apart from other rows. */
static bool line_inside(ko_view *v, int lane, int row, int64_t rows, kn_opt *opts, int *n, int cap) {
    int     at = ko_position(v->nest, row, -1);
    int64_t line = v->machine->line, e = v->nest->origin[row].extent;
    bool    bytes = v->lanes >= v->machine->vector_bytes && rows > 1 && rows < line, fit = true;
    if (!bytes || at + 1 != ko_position(v->nest, lane, -1) || e < 2 * line || e % line) return false;
    for (int i = 0; i < v->naccess; i++) {
        bool    stored = v->access[i].stored;
        int64_t apart = bytes_apart(v, &v->access[i], stored ? row : lane);
        int64_t held = apart > 0 && apart < INT64_MAX ? ko_lines_held(v->machine, apart) : INT64_MAX;
        if (stored && held < line) return false;
        if (!stored) fit &= v->nest->origin[lane].extent <= held;
    }
    return !fit && ko_split(v, at, line, KN_AXIS_LOOP, opts, n, cap);
}

/* Lanes of a block that is read lie pages apart, and between two lines of one page come more pages than the TLB next to
 * the core has entries, since loops stand between that of the rows and that of the lanes: some rows, or all, go inside
 * them. Of the outermost loop some stay there, for threads. The place of the loop that is the block's. */
static int rows_inside(ko_view *v, int lane, int row, int64_t rows, kn_opt *opts, int *n, int cap) {
    const kn_nest *nest = v->nest;
    int            at = ko_position(nest, row, -1), end = ko_position(nest, lane, -1);
    int64_t        e = nest->origin[row].extent, pages = 1, bytes = 0;
    for (int l = at + 1; l <= end; l++) pages = kn_sat_mul(pages, nest->loop[l].extent);
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = ko_stride_in(v, &v->access[i], lane);
        if (v->access[i].stored || s < 2 || s == INT64_MAX || ko_stride_in(v, &v->access[i], row) != 1) continue;
        bytes = KN_MAX(bytes, kn_sat_mul(s, kn_dsize(kg_dtype(v->g, v->access[i].node))));
    }
    int64_t run = RUN_LINES * v->lanes * v->machine->line / v->machine->vector_bytes; /* elements */
    if (at + 1 >= end || bytes < PAGE || pages <= TLB_PAGES || nest->origin[lane].extent < run) return at;
    if (at == 0) {
        int64_t some = RUN_LINES * 2 * rows;
        while (some > rows && e % some) some -= rows;
        if (some <= rows || e == some) return at;
        if (!ko_split(v, at, some, KN_AXIS_LOOP, opts, n, cap)) return at;
        at++, end++;
    }
    for (; at + 1 < end && ko_push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = at, .arg = at + 1}, opts, n, cap); at++) {
    }
    return at;
}

/* Of what takes long to compute, each step of a fold too, a tile that is left over would wait for all of it once more:
 * sums side by side, rows whose last registers may begin in the ones before, and rows of sums, whose lanes compute the
 * same (reduce_lanes.c). */
static bool row_of_much(const ko_view *v, int lane, int64_t w) {
    int64_t e    = v->nest->origin[lane].extent;
    bool    sums = v->outputs < v->nest->norigin, fold = false;
    for (int o = v->outputs; o < v->nest->norigin; o++) fold |= kg_is_fold(v->g, v->nest->origin[o].closer);
    bool much = v->work >= KO_PIECE_OPS && (sums || side_by_side(v, lane));
    much |= fold && v->ops >= KO_PIECE_OPS / 2;
    return much && !v->narrow && e > w && e % w && e <= 2 * v->wide;
}

/* Lanes of which registers hold what all terms of a short sum have, while the rows go by: a product, one of whose
 * factors moves with the lanes alone. 0: it is none, or registers are too few. */
static int64_t held_lanes(const ko_view *v, int lane, int row) {
    const kn_nest *nest = v->nest;
    int64_t        e    = nest->origin[lane].extent;
    if (v->outputs + 1 != nest->norigin || v->work > KO_PIECE_OPS || e < v->lanes) return 0;
    const kn_origin *sum  = &nest->origin[v->outputs];
    kn_ref           term = kg_at(v->g, sum->closer, 0), on = nest->origin[row].range;
    int              held = 0;
    bool             far  = false;
    if (sum->extent > 2 * KO_SHORT_SUM || kg_op(v->g, term) != KN_OP_MUL) return 0;
    if (kg_depends(v->g, kg_at(v->g, term, 0), on) == kg_depends(v->g, kg_at(v->g, term, 1), on)) return 0;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        if (!a->reduce || ko_stride_in(v, a, lane) == 0) continue;
        if (ko_stride_in(v, a, row) != 0) return 0;
        far |= ko_stride_in(v, a, lane) > 1; /* each load of it is many */
        held++;
    }
    int64_t room = (ko_tile_registers(v) - 4) / (sum->extent + 1), all = e / v->lanes;
    int64_t some = KN_MIN(KN_MIN(room, 4), all), rounds = some > 0 ? (all + some - 1) / some : 0;
    if (rounds && 2 * (all % some) < some) some = (all + rounds - 1) / rounds; /* little is left: as much in each */
    bool    pays = far ? some > 0 : room > 2 && some > 1; /* of few, a tile broadcasts less often */
    bool    many = far && nest->origin[row].extent >= KO_MANY_ROWS;
    if (sum->extent <= KO_SHORT_SUM && !many) return 0; /* a tile holds them as well */
    return held == 1 && pays ? some * v->lanes : 0;
}

/* The row's loop goes inside that of the lanes, but for some rows outside, which are for threads. */
static void hold_lanes(ko_view *v, int lane, int row, kn_opt *opts, int *n, int cap) {
    int     at = ko_position(v->nest, row, -1);
    int64_t e = v->nest->origin[row].extent, some = KN_MIN(e, 2 * HELD_ROWS);
    while (some >= HELD_ROWS / 2 && e % some) some--;
    if (some >= HELD_ROWS / 2 && some < e && ko_split(v, at, some, KN_AXIS_LOOP, opts, n, cap)) at++;
    ko_push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = at, .arg = ko_position(v->nest, lane, -1)}, opts, n, cap);
}

/* From one lane to the next all that is read and stored lies further apart than by the other output loops. */
static bool lies_far(const ko_view *v, int lane) {
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = ko_stride_in(v, &v->access[i], lane);
        if (s < 2 || s == INT64_MAX) return false;
        for (int o = 0; o < v->outputs; o++)
            if (o != lane && ko_stride_in(v, &v->access[i], o) > s) return false;
    }
    return true;
}

/* Rows of windows, as many in each tile where no number divides them: a few that are left over would load as much. */
static int64_t even_rows(int64_t extent, int64_t most) {
    int64_t rows = ko_tile_rows(extent, most), tiles = (extent + most - 1) / most;
    return extent % rows ? (extent + tiles - 1) / tiles : rows;
}

/* Little but quotients and roots, one of another: with two registers a round they take longer than with four, as was
 * measured on a Zen 5 (docs/decisions-measured.md). */
static bool waits_for_dividers(const ko_view *v) {
    return v->divided > 1 && v->ops <= DIVIDED_OPS && v->machine->vector_registers >= 32;
}

/* Panels of lanes are stored down all rows of a product of few terms, whose lines want more of a set of the L1 than it
 * has: the longer the pieces of rows that are stored at once, the better, and the fewer of them, for registers. Times
 * that they are as long as in other tiles; 1: it is not so. */
static int64_t longer_rows(const ko_view *v, int lane, int row, int64_t w) {
    int64_t terms = v->outputs < v->nest->norigin ? v->nest->origin[v->outputs].extent : INT64_MAX;
    int64_t times = terms <= CROWDED_TERMS / 2 ? 4 : terms <= CROWDED_TERMS ? 2 : 1;
    if (times == 1 || !v->machine->turns) return 1;
    if (!stores_crowd(v, row, v->nest->origin[row].extent / 4)) return 1; /* by far */
    while (times > 1 && in_panels(v, lane, row, times * w) < 0) times /= 2;
    return ko_tile_registers(v) >= (KO_TILE_ROWS + times) * w / v->lanes ? times : 1;
}

void ko_output_lanes(ko_view *v, int lane, int row, kn_opt *opts, int *n, int cap) {
    const kn_nest *nest = v->nest;
    int64_t        e    = nest->origin[lane].extent, w = e >= v->wide ? v->wide : e >= v->lanes ? v->lanes : e;
    int64_t        rows = 0;
    int            inside = -1; /* the place of rows that go inside the loop of the lanes, -1 none do */
    if (row < 0 && scan_block(v, lane, opts, n, cap)) return;
    bool sums = v->outputs < nest->norigin;
    if (v->joins && (v->joins = (!sums || row < 0) && ko_join_rows(v, lane, opts, n, cap))) return;
    int            end = -1, at = ko_position(nest, lane, -1), beside = row < 0 && !v->apart ? turned_row(v, lane) : -1;
    if (beside >= 0 && !block_of(v, lane, beside, &rows, &w)) beside = -1;
    v->turned    = beside >= 0;
    int64_t line  = v->machine->line * v->lanes / v->machine->vector_bytes; /* elements */
    bool    crowd = beside >= 0 && stores_crowd(v, beside, rows);
    if (beside >= 0 && rows == KO_BLOCK && v->ops < FEW_OPS && v->lanes < v->machine->vector_bytes) {
        /* blocks side by side, to the end of the line, or two lines; not bytes, of which a block takes all registers */
        int64_t more = KN_MIN(KN_MAX(2 * rows, line), nest->origin[beside].extent);
        bool    fit  = !stores_crowd(v, beside, more);
        crowd |= !fit && !v->machine->turns; /* whole lines at least: what registers turn is as quick by halves */
        if (fit) rows = more;
    }
    if (crowd && w == KO_BLOCK && v->lanes == 2 * w && e >= v->lanes && rows <= v->lanes &&
        ko_tile_registers(v) >= 2 * v->lanes - 2)
        w = v->lanes;
    if (beside < 0 && row < 0) beside = short_row(v, lane, &rows);
    if (beside >= 0) row = beside;
    for (int l = 0; l < nest->nloop; l++)
        if (nest->origin[nest->loop[l].origin].closer == v->tile) end = l;
    /* windows of bytes and words, whose lanes are put in one by one: a line is left when all is done there */
    bool far = sums && row < 0 && 2 * v->lanes >= v->machine->vector_bytes && lies_far(v, lane);
    /* rows that fill a stage each: inside the loop of what is stored of a row all would fill theirs once for each */
    bool stays = nest->origin[lane].staged && at != end && row < 0;
    if (stays) w = KN_MIN(e, v->lanes);
    else if (far) w = KN_MIN(e, v->lanes / 4);
    else if (at != end)
        ko_push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = at, .arg = end}, opts, n, cap);
    at = ko_position(nest, lane, -1);
    bool    product = row >= 0 && row != beside;
    int64_t held    = product ? held_lanes(v, lane, row) : 0;
    if (held) {
        hold_lanes(v, lane, row, opts, n, cap);
        ko_split(v, ko_position(nest, lane, -1), held, KN_AXIS_UPCAST, opts, n, cap);
        return;
    }
    if (product && (rows = whole_rows(v, lane, row, w))) w = e;
    if (product && !rows && (held = lanes_of_few_rows(v, lane, row))) w = held;
    bool by_rows = product && !rows && goes_by_rows(v, lane, row);
    if (by_rows) rows = 1, w = FEW_ROWS_VECTORS * v->lanes;
    bool shares = product && !rows && w >= v->lanes && ko_shared_terms(v, row) >= 0;
    if (shares) w = v->lanes; /* more rows share their terms */
    if (product && !rows && !by_rows && (held = masked_row(v, lane, row))) w = held;
    int64_t longer = product && !rows && !by_rows && !shares && w == v->wide ? longer_rows(v, lane, row, w) : 1;
    w *= longer;
    if (row >= 0) {
        int64_t most = shares && ko_is_gated(v, row) ? GATED_ROWS : longer > 1 ? KO_TILE_ROWS / longer : INT64_MAX;
        if (!rows) most = KN_MIN(most, most_rows(v, lane, w));
        int64_t all    = nest->origin[row].extent;
        bool    window = product && ko_shared_terms(v, row) >= 0;
        if (!rows) rows = window ? even_rows(all, most) : ko_tile_rows(all, most);
        int64_t some;
        int     second = product && !by_rows && !shares ? rows_beside(v, lane, row, rows, w, &some) : -1;
        if (second >= 0) ko_split(v, ko_position(nest, second, -1), some, KN_AXIS_UPCAST, opts, n, cap);
        if (v->turned) rows_in_line(v, lane, row, rows, w, opts, n, cap);
        if (v->turned && line_inside(v, lane, row, rows, opts, n, cap)) inside = ko_position(nest, row, -1) + 1;
        int around = inside >= 0 ? inside
                   : v->turned   ? rows_inside(v, lane, row, rows, opts, n, cap)
                                 : ko_position(nest, row, -1);
        if (rows > 1) ko_split(v, around, rows, KN_AXIS_UPCAST, opts, n, cap);
        at = ko_position(nest, lane, KN_AXIS_LOOP);
    }
    if (row < 0 && streams_by_rows(v, lane))
        w = v->lanes / 2;
    else if (row < 0 &&
             (row_of_parts(v, lane) || row_of_few(v, lane) || row_of_much(v, lane, w) || row_that_stays(v, lane)))
        w = e;
    int copied = row < 0 && !stays && w == e && e >= v->lanes && v->ops < FEW_OPS ? few_beside(v, lane) : -1;
    if (copied >= 0) {
        ko_split(v, ko_position(nest, copied, -1), nest->origin[copied].extent, KN_AXIS_UPCAST, opts, n, cap);
        at = ko_position(nest, lane, KN_AXIS_LOOP);
    }
    if (row < 0 && !stays && wide_sums(v, lane)) w = KN_MIN(e / v->lanes, wide_vectors(v, lane)) * v->lanes;
    bool halves = v->streams && row < 0 && w == v->wide && v->machine->vector_bytes >= v->machine->line;
    if (halves) w = v->lanes; /* measured (docs/decisions.md) */
    if (!sums && row < 0 && w == v->wide && waits_for_dividers(v)) w = KN_MIN(e / v->lanes, 4) * v->lanes;
    kn_opt masked = {.op = KN_OPT_SPLIT, .axis = at, .arg = w, .target = KN_AXIS_UPCAST, .tail = KN_TAIL_MASK};
    if (!product || by_rows || !masks_rest(v, lane, row, w) || !ko_push(v, masked, opts, n, cap))
        ko_split(v, at, KN_MIN(w, e), KN_AXIS_UPCAST, opts, n, cap);
    int64_t part = w / (v->byte_products ? 4 : 2); /* there products are loaded and stored sixteen at a time */
    if (halves) ko_split(v, ko_position(nest, lane, KN_AXIS_UPCAST), part, KN_AXIS_UPCAST, opts, n, cap);
    if (product) panels(v, lane, row, w, opts, n, cap);
    kn_opt swap = {.op = KN_OPT_SWAP, .axis = inside, .arg = ko_position(nest, lane, KN_AXIS_LOOP)};
    if (inside >= 0) ko_push(v, swap, opts, n, cap);
}

int64_t ko_turning_point(const ko_view *v, kn_ref x, int origin) {
    const kn_origin *o = &v->nest->origin[origin];
    kn_affine        a, b;
    if (!kg_affine(v->g, kg_at(v->g, x, 0), &a) || !kg_affine(v->g, kg_at(v->g, x, 1), &b)) return 0;
    int64_t k = kn_affine_coef(&a, o->range) - kn_affine_coef(&b, o->range), d, at;
    if (a.n + b.n != 1 || (k != 1 && k != -1) || a.base == INT64_MIN) return 0;
    if (!kn_add_ok(b.base, -a.base, &d)) return 0;
    at = k > 0 ? d : d > 0 || d <= -o->extent ? 0 : 1 - d; /* r < d, or r > -d */
    return at > 0 && at < o->extent ? at : 0;
}

/* Lanes that lie apart and have gates are read one by one, each behind a jump. */
static bool jumps_by_lanes(const ko_view *v, int lane) {
    bool apart = false;
    for (int i = 0; i < v->naccess; i++) apart |= !v->access[i].stored && ko_stride_in(v, &v->access[i], lane) > 1;
    return apart && ko_is_gated(v, lane);
}

/* All that is read has a gate: a piece where that is closed stores a constant, whatever is computed beside. */
static bool reads_one_gated(const ko_view *v) {
    int reads = 0;
    for (int i = 0; i < v->naccess; i++) reads += !v->access[i].stored;
    return reads == 1 && v->ngate == 1;
}

/* Parts of one size that are joined along the loop, more than PEEL has ends for: pieces of so many rounds, 0: they are
 * not. *turns: how often gates turn along it. */
static int64_t equal_parts(const ko_view *v, int origin, int64_t round, int *turns) {
    int64_t e = v->nest->origin[origin].extent, size = e, seen[KN_COUNT(v->limit)];
    *turns    = 0;
    for (int k = 0; k < v->nlimit; k++) {
        int64_t turn = ko_turning_point(v, v->limit[k], origin);
        int     i    = 0;
        while (i < *turns && seen[i] != turn) i++;
        if (!turn || i < *turns) continue;
        seen[(*turns)++] = turn;
        size             = kn_gcd(size, turn);
    }
    return *turns > 2 && size % round == 0 && e / size <= MOST_ALONG ? size / round : 0;
}

void ko_pieces_of_gates(ko_view *v, int lane, kn_opt *opts, int *n, int cap) {
    if (v->outputs < v->nest->norigin) return;
    int peeled = 0, most = jumps_by_lanes(v, lane) ? LANE_PIECE_OPS : KO_PIECE_OPS;
    int others = reads_one_gated(v) ? WINDOW_OPS : KO_PIECE_OPS;
    for (int o = v->outputs; o-- > 0 && peeled < MOST_PEELED;) {
        int at = ko_position(v->nest, o, KN_AXIS_LOOP), often = 0;
        if (at < 0 || (o != lane && ko_position(v->nest, o, -1) != at)) continue; /* lanes know */
        int64_t e = v->nest->origin[o].extent, first = e, last = 0, round = v->nest->loop[at].stride;
        int64_t part = equal_parts(v, o, round, &often);
        /* A piece has nothing to compare, choose and add: two comparisons a turn, and one of each to join a part. */
        if (v->ops - (part ? JOINING_OPS * often : 0) > (o == lane ? most : others)) continue;
        if (part) {
            int64_t parts = e / (part * round), copies = parts;
            for (int k = 0; k < v->nest->norigin; k++) /* each has a rest of others as well */
                copies <<= k != o && v->nest->origin[k].split && v->nest->origin[k].tail_kind == KN_TAIL_PEEL;
            if (peeled || copies > KO_MAX_PARTS) continue;
            kn_opt each = {.op = KN_OPT_PEEL, .axis = at, .arg = parts / 2 * part, .target = (int)part};
            each.more   = (parts - 1) * part - each.arg;
            if (ko_push(v, each, opts, n, cap)) return;
            continue;
        }
        for (int k = 0; k < v->nlimit; k++) {
            int64_t turns = ko_turning_point(v, v->limit[k], o);
            if (turns) first = KN_MIN(first, turns), last = KN_MAX(last, turns);
        }
        if (!last) continue;
        /* The larger part is the loop's, which threads may share; a round of lanes of two parts the smaller one's. */
        bool    one = last == first, ends = one && 2 * first > e;
        int64_t turn = first;
        if (one || last - first >= first) first += round - 1;
        if (!ends && !one && last - first < e - last) last += round - 1;
        first -= first % round;
        last -= last % round;
        if (one && !ends) last = first;
        if (!one && first >= last) continue;
        kn_opt peel = {.op = KN_OPT_PEEL, .axis = at, .arg = ends ? 0 : first / round};
        if (ends || last > first) peel.more = (e - last) / round;
        if (one && turn % round && KN_MIN(turn, e - turn) >= MIXED_ROUNDS * round) /* a round of both alone */
            peel.arg = turn / round, peel.more = e / round - peel.arg - 1;
        if (peel.arg + peel.more <= 0 || peel.arg + peel.more >= e / round) continue;
        peeled += ko_push(v, peel, opts, n, cap);
    }
}

/* Rows at the edges of windows are pieces of their own, where a window is little code: the others ask for no gate. */
void ko_edges_of_windows(ko_view *v, int lane, kn_opt *opts, int *n, int cap) {
    int64_t copies = v->ops + 1;
    for (int l = 0; l < v->nest->nloop; l++)
        if (v->nest->loop[l].type == KN_AXIS_UNROLL) copies = kn_sat_mul(copies, v->nest->loop[l].extent);
    if (copies > WINDOW_OPS) return;
    for (int o = v->outputs; o-- > 0;) {
        int     at = ko_position(v->nest, o, KN_AXIS_LOOP);
        int64_t e = v->nest->origin[o].extent, lo = 0, hi = e;
        if (o == lane || at < 0 || ko_position(v->nest, o, -1) != at || v->nest->loop[at].stride != 1) continue;
        if (!ko_is_gated(v, o)) continue;
        for (int k = 0; k < v->nlimit; k++) ko_where_true(v->g, &v->nest->origin[o], v->limit[k], &lo, &hi);
        if (lo >= hi && e == 2) lo = 1, hi = 2; /* an edge each */
        if ((lo <= 0 && hi >= e) || 2 * (hi - lo) < e) continue;
        ko_push(v, (kn_opt){.op = KN_OPT_PEEL, .axis = at, .arg = lo, .more = e - hi}, opts, n, cap);
        return;
    }
}
