/* reduce_lanes.c - options of reductions: lanes of their own, rounds, and loops that are unrolled. */
#include "optimize/view.h"

enum {
    DOT_ROUNDS = 4, SUM_ROUNDS = 32, /* registers of a row: of sums of products, others */
    SHORT_REST = 2, /* lanes */
    SUM_CODE = 128, FOLD_CODE = 768, /* operations in all rounds of a row: of a sum, of a fold */
    FOLD_MASKED = 48, /* rounds, of which the last one goes under a mask */
    SHARED_ROUNDS = 4, /* of a long loop, whose terms a tile's rows share */
    SHORT_CODE = 80, /* products of vectors */
    FEW_ROUNDS = 32, /* registers of all rows, each read once */
    ROWS_BESIDE = 4, /* of sums of one register */
    TILE_DOTS = 16, /* of a tile whose loops are short; of one loop half as many */
    DOT_REGISTERS = 21, /* that a tile of four by four takes */
    FOLDED_ROUNDS = 16, /* registers of a row, beside which its fold is worth more rows */
    TILES_OF_ROWS = 16, /* beside which a last one of fewer rows takes nothing */
    TWO_ROUNDS = 40, /* at most, of which two and two are one */
    ROUNDS_OF_ROWS = 16, ROWS_OF_ONE = 3, /* that rows in one run are gone through; its registers (8 bytes: 2) */
    TURNED_COLUMNS = 7, TURNED_ROUNDS = 6, /* of what is turned for lanes of sums: at most; registers of a row, more */
    SHORT_ROW = 1024, /* bytes */
    ENOUGH_TERMS = 12, /* of bytes or words, for lanes of a sum: registers hold more */
    HELD_ROW = 4, /* registers of a row that is computed first, and summed up then */
    FOLD_AFTER = 4, /* rounds for each lane of a register */
    TERMS_BESIDE = 4, /* for lanes of a sum whose rows are folded together; three under a mask, two of words */
    ROUNDS_OF_FEW = 2 /* and rounds of them */
};

/* Lanes for a reduction of that extent: what is left over goes in pieces, so that a short one needs no loop. */
static int64_t sum_lanes(const ko_view *v, int64_t extent) {
    return extent < 2 * v->lanes ? extent : v->lanes;
}

double ko_sum_accesses(const ko_view *v, int64_t extent) {
    int64_t w = sum_lanes(v, extent);
    return (double)(extent / w * ko_lane_vectors(v, w) + ko_lane_vectors(v, extent % w));
}

int ko_columns_of(const ko_view *v, kn_ref closer, int own) {
    int     column = -1;
    int64_t apart  = 0;
    for (int o = v->outputs; o < v->nest->norigin; o++)
        if (v->nest->origin[o].closer != closer) return -1;
    for (int i = 0; i < v->naccess; i++)
        if (v->access[i].reduce == closer) apart = KN_MAX(apart, ko_stride_in(v, &v->access[i], own));
    if (v->narrow > 1 || apart < 2 || apart >= v->lanes) return -1;
    for (int o = 0; o < v->outputs && column < 0; o++) {
        if (v->nest->origin[o].extent != apart || !ko_may_be_lane(v, o)) continue;
        column = o;
        for (int i = 0; i < v->naccess && column >= 0; i++) {
            const ko_access *a = &v->access[i];
            int64_t          s = ko_stride_in(v, a, o);
            if (a->reduce == closer && ko_stride_in(v, a, own) != s * apart) column = -1;
        }
    }
    return column;
}

/* The access to a factor whose columns lie between a sum's lanes and that many rows meet: it is turned once for all of
 * them. *apart: how far its lanes lie apart. -1: there is none. */
static int turned_columns(const ko_view *v, kn_ref closer, int own, int64_t *apart) {
    if (v->nest->origin[own].moving) return -1;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a    = &v->access[i];
        int64_t          size = kn_dsize(kg_dtype(v->g, a->node)), rows = 1;
        if (a->reduce != closer || !a->affine || kg_op(v->g, kg_at(v->g, a->node, 0)) != KN_OP_PARAM) continue;
        *apart = ko_stride_in(v, a, own);
        if (*apart < 2 || *apart == INT64_MAX) continue;
        for (int o = 0; o < v->nest->norigin; o++) {
            int64_t e = v->nest->origin[o].extent;
            if (ko_stride_in(v, a, o)) size = kn_sat_mul(size, e);
            else if (kg_depends(v->g, closer, v->nest->origin[o].range)) rows = kn_sat_mul(rows, e);
        }
        if (rows >= KO_MANY_ROWS && size <= KN_STAGE_BYTES) return i;
    }
    return -1;
}

static bool masks_rounds(const ko_view *v) { return v->machine->masks && v->machine->mask_registers; }

/* Terms that are enough for lanes of a sum whose rows are folded together. */
static int64_t terms_beside(const ko_view *v) {
    bool pairs = !v->ngate; /* of words and what is wider: one load of two */
    for (int i = 0; i < v->naccess; i++) pairs &= kn_dsize(kg_dtype(v->g, v->access[i].node)) >= 4;
    return pairs ? 2 : TERMS_BESIDE - (masks_rounds(v) && !v->ngate);
}

bool ko_reduce_lanes(const ko_view *v, kn_ref closer, int *origin) {
    int     last = -1;
    int64_t rounds = 1; /* of the loops around the last one: its lanes meet behind them all */
    for (int o = 0; o < v->nest->norigin; o++) {
        if (v->nest->origin[o].closer != closer) continue;
        if (last >= 0) rounds = kn_sat_mul(rounds, v->nest->origin[last].extent);
        last = o;
    }
    int64_t least = v->machine->turns ? KN_MIN(v->lanes / 2, (int64_t)ENOUGH_TERMS) : v->lanes / 2;
    int64_t few   = v->machine->beside && rounds >= ROUNDS_OF_FEW ? terms_beside(v) : least;
    least = KN_MIN(least, few);
    if (rounds >= FOLD_AFTER * v->lanes) least = 2;
    if (last < 0 || v->nest->origin[last].extent < least) return false;
    bool    moves = false, full = v->nest->origin[last].extent >= v->lanes;
    int64_t most  = full && v->machine->mask_registers ? KN_NEAR : 1; /* shuffled from runs */
    if (full && ko_columns_of(v, closer, last) >= 0) most = v->lanes;
    int64_t apart;
    bool    deep = v->nest->origin[last].extent > TURNED_ROUNDS * v->lanes && v->machine->turns;
    int     turned = deep ? turned_columns(v, closer, last, &apart) : -1;
    if (turned >= 0 && (apart <= most || apart > TURNED_COLUMNS)) turned = -1;
    for (int i = 0; i < v->naccess; i++) {
        int64_t s = ko_stride_in(v, &v->access[i], last);
        if (s < 0 || (s > most && i != turned)) return false;
        moves |= s > 0;
    }
    *origin = last;
    return moves;
}

/* The loop, but not `first`, whose rows share what an access reads, which `used` (-1: none) is not, or, where `again`,
 * is; -1: there is none. Loops whose extent four divides before others, inner ones before outer ones. */
static int shared_rows(const ko_view *v, int outputs, kn_ref closer, int first, int used, bool again, int *shares) {
    int best = -1;
    for (int o = 0; o < outputs; o++) {
        const kn_origin *at = &v->nest->origin[o];
        if (at->extent < 2 || at->closer != closer || ko_position(v->nest, o, KN_AXIS_LOOP) < 0) continue;
        if (again && o == first) continue;
        for (int i = 0; i < v->naccess; i++) {
            const ko_access *a = &v->access[i];
            if (!a->reduce || (i == used) != again || !kg_depends(v->g, a->reduce, at->range)) continue;
            if (ko_stride_in(v, a, o)) continue;
            if (used >= 0 && !again && !kg_depends(v->g, v->access[used].node, at->range)) continue;
            if (best >= 0 && v->nest->origin[best].extent % 4 == 0 && at->extent % 4) continue;
            best    = o;
            *shares = i;
        }
    }
    return best;
}

/* A short row's sum needs no loop, so that registers hold one of them at a time; and of what is computed behind it
 * much: a whole register of rows has it at once. */
static bool much_behind(const ko_view *v) {
    const kn_origin *sum = v->nest->origin;
    bool             one = sum[v->outputs].closer == sum[v->nest->norigin - 1].closer; /* those of one stand together */
    return one && !v->narrow && v->behind >= KO_PIECE_OPS && ko_terms(v) <= 2 * v->lanes;
}

/* Whether another loop than `first` has rows for the second of a tile's factors. */
static bool has_second(const ko_view *v, int outputs, kn_ref closer, int first, int used) {
    int shares;
    return shared_rows(v, outputs, closer, first, used, false, &shares) >= 0 ||
           shared_rows(v, outputs, closer, first, used, true, &shares) >= 0;
}

/* Rows that are folded together take the less each the more there are, a power of two: where loops are short, or there
 * is one alone, as many as a tile of longer ones has. Of long rows the fold is little of what they take. */
static int64_t rows_folded(const ko_view *v, int outputs, kn_ref closer, int row, int shares, int64_t had) {
    if (!v->machine->beside || v->narrow || ko_terms(v) > FOLDED_ROUNDS * v->lanes) return 0;
    int64_t dots = ko_tile_registers(v) < DOT_REGISTERS ? TILE_DOTS / 2 : TILE_DOTS;
    if (!had && has_second(v, outputs, closer, row, shares)) return 0;
    return kn_pow2_within(had ? dots / had : dots / 2);
}

/* Four by four, or by two where registers are few, where the reduction is of two factors, each still along loops that
 * the other moves with; else two loops that the same one is still along, for a few sums wait for one another. */
static void dot_tile(ko_view *v, int outputs, kn_ref closer, kn_opt *opts, int *n, int cap) {
    int     used = -1, first = -1; /* an access that some row shares, and whose row it is */
    int64_t had = 0;
    for (int turn = 0; turn < 2; turn++) {
        int shares = -1, best = shared_rows(v, outputs, closer, first, used, false, &shares);
        if (best < 0 && turn) best = shared_rows(v, outputs, closer, first, used, true, &shares);
        if (best < 0) return;
        static const int narrowed[2][KO_WHOLE_VECTORS + 1] = {{4, 4, 2, 2, 1}, {4, 2, 2, 1, 1}};
        int64_t          rows = narrowed[turn][KN_MIN(v->narrow, KO_WHOLE_VECTORS)];
        if (turn && ko_tile_registers(v) < DOT_REGISTERS) rows = KN_MIN(rows, 2);
        if (!turn && much_behind(v)) rows = v->lanes;
        int64_t beside = rows_folded(v, outputs, closer, best, shares, had), e = v->nest->origin[best].extent;
        rows = had = beside > rows && e >= TILES_OF_ROWS * beside ? beside : ko_tile_rows(e, KN_MAX(rows, beside));
        if (rows > 1) ko_split(v, ko_position(v->nest, best, KN_AXIS_LOOP), rows, KN_AXIS_UPCAST, opts, n, cap);
        used  = shares;
        first = best;
    }
}

/* All columns of a factor that is turned, and as many rows as there is room for. */
static void turned_tile(ko_view *v, int turned, kn_opt *opts, int *n, int cap) {
    const ko_access *a = &v->access[turned];
    int64_t          room = KN_MAX(ko_tile_registers(v) * 4 / 5, (int64_t)1); /* the others are what is read */
    for (int pass = 0; pass < 2; pass++)
        for (int o = 0; o < v->outputs; o++) {
            const kn_origin *at = &v->nest->origin[o];
            bool column = ko_stride_in(v, a, o) == 1, row = !column && kg_depends(v->g, a->reduce, at->range);
            if (!(pass ? row && !ko_stride_in(v, a, o) : column) || !ko_may_be_lane(v, o)) continue;
            int64_t many = pass ? ko_tile_rows(at->extent, KN_MIN(room, (int64_t)4)) : KN_MIN(at->extent, room);
            if (many < 2) continue;
            ko_split(v, ko_position(v->nest, o, KN_AXIS_LOOP), many, KN_AXIS_UPCAST, opts, n, cap);
            room /= many;
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
        int64_t s = ko_stride_in(v, &v->access[i], out);
        if (s < 0 || (s > KN_NEAR && !v->ops)) return -1;
    }
    return out;
}

/* Behind a bound that moves a little one lane or two are left over, or nearly a register where all that moves it meets;
 * a mask of lanes that lie apart takes longer. */
static bool leaves_few(const ko_view *v, int o, int64_t w) {
    const kn_origin *sum = &v->nest->origin[o];
    bool             apart = false;
    if (!sum->moving || kg_min(v->g, kg_at(v->g, sum->range, 0)) < sum->extent - SHORT_REST) return false;
    for (int i = 0; i < v->naccess; i++) apart |= ko_stride_in(v, &v->access[i], o) > 1;
    return apart && sum->extent >= w && sum->extent % w <= SHORT_REST && (sum->extent - 1) % w <= SHORT_REST;
}

/* w lanes of a reduction's loop; what is left over, or lies behind a bound that moves, goes under a mask if that is
 * asked for and there are such. */
static bool lanes_of_sum(ko_view *v, int o, int64_t w, bool mask, kn_opt *opts, int *n, int cap) {
    mask &= !leaves_few(v, o, w);
    kn_opt some = {.op = KN_OPT_SPLIT, .axis = ko_position(v->nest, o, KN_AXIS_REDUCE), .arg = w,
                   .target = KN_AXIS_GROUP_REDUCE, .tail = mask && masks_rounds(v) ? KN_TAIL_MASK : 0};
    return ko_push(v, some, opts, n, cap);
}

/* What fills no register is one under a mask, where other loops of the sum add to it and no gate has a mask of its own:
 * else each of its sums takes two registers or three. Only of the list that is chosen: what it computes then is told
 * well, and what it reads of each line too low (docs/decisions-measured.md). */
static bool masks_part(const ko_view *v, int o) {
    const kn_origin *sum = &v->nest->origin[o];
    bool             around = false;
    for (int p = v->outputs; p < v->nest->norigin; p++) around |= p != o && v->nest->origin[p].closer == sum->closer;
    return around && v->chosen && masks_rounds(v) && !v->ngate && !sum->moving && sum->extent < v->lanes &&
           (sum->extent & (sum->extent - 1)) != 0;
}

/* A reduction's loop in rounds of w lanes that follow one another, the last one under a mask where there are such. */
static bool rounds_of(ko_view *v, int o, int64_t w, bool mask, kn_opt *opts, int *n, int cap) {
    const kn_origin *sum = &v->nest->origin[o];
    if (!lanes_of_sum(v, o, w, mask && (sum->moving || sum->extent % w != 0), opts, n, cap)) return false;
    int at = ko_position(v->nest, o, KN_AXIS_REDUCE);
    if (at >= 0 && v->nest->loop[at].extent > 1 && !sum->moving)
        ko_split(v, at, v->nest->loop[at].extent, KN_AXIS_UNROLL, opts, n, cap);
    return true;
}

/* A dot product of few rounds needs no loop. What is left over goes under a mask, unless it is as short as one or two:
 * sums of it, in lanes of their own, would take their registers from the tile. */
static bool few_rounds(const ko_view *v, int64_t extent) {
    int64_t rest = extent % v->lanes, most = DOT_ROUNDS * v->lanes;
    if (!masks_rounds(v) || extent < v->lanes) return false;
    if (ko_lane_vectors(v, rest) > 1 && extent <= most) return true;
    return !v->narrow && extent >= 2 * v->lanes && extent <= 2 * most && (!rest || rest > SHORT_REST);
}

/* A row's registers, the last of which is a half, a quarter and so on, are sums of their own for all of the tile, if
 * there is room: what lies across lines is read less often than under a mask. */
static bool whole_row(ko_view *v, int o, kn_opt *opts, int *n, int cap) {
    int64_t e = v->nest->origin[o].extent, sums = ko_lane_vectors(v, e);
    if (v->nest->origin[o].moving || __builtin_popcountll((unsigned long long)(e % v->lanes)) != 1) return false;
    for (int l = 0; l < v->nest->nloop; l++)
        if (v->nest->loop[l].type == KN_AXIS_UPCAST) sums = kn_sat_mul(sums, v->nest->loop[l].extent);
    if (sums > ko_tile_registers(v) - 2) return false;
    return ko_split(v, ko_position(v->nest, o, KN_AXIS_REDUCE), e, KN_AXIS_GROUP_REDUCE, opts, n, cap);
}

/* Rows of a fold that is alone stand beside one another: their steps, that the last lanes take as well, wait long.
 * Comparisons of floats take twice as many as those of integers. As many as there are, while the code is not much. */
static int64_t rows_of_fold(ko_view *v, int o, bool reals, int64_t rounds, kn_opt *opts, int *n, int cap) {
    int     row = v->outputs - 1, at = row < 0 ? -1 : ko_position(v->nest, row, KN_AXIS_LOOP);
    int64_t rows = reals ? 4 : 2, code = kn_sat_mul(v->ops, rounds);
    if (at < 0 || !ko_may_be_lane(v, row) || o + 1 != v->nest->norigin || v->nest->origin[o].moving || v->narrow)
        return 1;
    while (rows > 1 && kn_sat_mul(code, rows) > FOLD_CODE) rows /= 2;
    rows = ko_tile_rows(v->nest->origin[row].extent, rows);
    if (rows > 1) ko_split(v, at, rows, KN_AXIS_UPCAST, opts, n, cap);
    return rows;
}

/* A fold along a short row runs through it without a loop, its last round under a mask: of what is compared with what
 * lies behind it in the row, half is known then. Not where each element takes long to compute: that is done over.
 * Registers do not hold the places of many rounds, and one under a mask is not made again: what is left goes alone. */
static bool short_fold(ko_view *v, int o, bool alone, kn_opt *opts, int *n, int cap) {
    int64_t e = v->nest->origin[o].extent, l = v->lanes, w = e > 8 * l ? 4 * l : e > 4 * l ? 2 * l : l;
    int64_t rounds = (e + l - 1) / l, rows;
    bool    mask = rounds <= FOLD_MASKED;
    if (v->ops > 2 * KO_PIECE_OPS) return false;
    if (v->narrow > 2 || v->machine->vector_registers < 32 || e <= l) return false;
    if (kn_sat_mul(v->ops, rounds) > FOLD_CODE) return false;
    if (e <= 2 * l && __builtin_popcountll((unsigned long long)(e % l)) < 2) return false;
    kn_fold_parts p;
    bool reals = kg_fold_parts(v->g, kg_at(v->g, v->nest->origin[o].closer, 0), &p) &&
                 kn_is_float(kg_dtype(v->g, p.element[0]));
    if (!mask && (reals || v->nest->origin[o].moving)) return false;
    rows = alone ? rows_of_fold(v, o, reals, rounds, opts, n, cap) : 1;
    if (rows > 1) w = !reals ? l : rows > 2 ? w / 2 : w;
    if (!mask) w = 2 * l;
    w = KN_MAX(w >> v->narrow, l);
    return rounds_of(v, o, w, mask, opts, n, cap);
}

/* So does a sum along one that has little to compute: where its loop ends no processor foresees, once a row. A rest
 * that is half a register, a quarter and so on needs no mask. */
static bool short_sum(ko_view *v, int o, kn_opt *opts, int *n, int cap) {
    int64_t e = v->nest->origin[o].extent, l = v->lanes;
    if (e < 2 * l || e > SUM_ROUNDS * l || v->narrow) return false;
    if (kn_sat_mul(v->ops + 1, (e + l - 1) / l) > SUM_CODE) return false;
    if (e < 8 * l && !v->nest->origin[o].moving && __builtin_popcountll((unsigned long long)(e % l)) == 1)
        return ko_split(v, ko_position(v->nest, o, KN_AXIS_REDUCE), e, KN_AXIS_GROUP_REDUCE, opts, n, cap);
    return rounds_of(v, o, e < 8 * l ? l : 4 * l, true, opts, n, cap);
}

/* The sum's lanes and that output loop's are one run. */
static bool join_sum(ko_view *v, int own, int output, kn_opt *opts, int *n, int cap) {
    kn_opt join = {.op = KN_OPT_JOIN, .axis = ko_position(v->nest, own, KN_AXIS_GROUP_REDUCE)};
    join.arg    = ko_position(v->nest, output, KN_AXIS_UPCAST);
    return ko_push(v, join, opts, n, cap);
}

/* All columns beside a sum's lanes: whole registers of what lies side by side are added up, and a column's lanes meet
 * behind the loop. A short row needs none. False: there are none, or rows are too short. */
static bool joined_columns(ko_view *v, int own, kn_opt *opts, int *n, int cap) {
    int64_t e = v->nest->origin[own].extent;
    int     column = ko_columns_of(v, v->nest->origin[own].closer, own);
    if (column < 0) return false;
    int64_t apart = v->nest->origin[column].extent, w = v->lanes, all = kn_sat_mul(apart, e);
    while (w > 1 && w / 2 * apart % v->lanes == 0) w /= 2; /* the least that fill registers */
    bool less = all < 8 * v->lanes || v->narrow;
    while (!less && 2 * w * apart <= 4 * v->lanes) w *= 2;
    bool    known = kn_sat_mul(v->ops + 1, all / v->lanes + 1) <= SUM_CODE && all <= 2 * SUM_ROUNDS * v->lanes;
    int     at = ko_position(v->nest, column, KN_AXIS_LOOP);
    if (w > e || !ko_split(v, at, apart, KN_AXIS_UPCAST, opts, n, cap)) return false;
    if (!known || v->narrow || !rounds_of(v, own, w, true, opts, n, cap))
        ko_split(v, ko_position(v->nest, own, KN_AXIS_REDUCE), w, KN_AXIS_GROUP_REDUCE, opts, n, cap);
    return join_sum(v, own, column, opts, n, cap);
}

/* All rows of one that fills no register, where they follow one another and loops around go through them again and
 * again: whole registers of them are added up, and each row's lanes meet behind the loops. As their lanes are shuffled
 * from what is loaded, few registers, and not of what is narrower than a word. False: they do not. */
static bool joined_rows(ko_view *v, int own, kn_opt *opts, int *n, int cap) {
    const kn_origin *sum = &v->nest->origin[own];
    int              row = -1;
    int64_t          size = v->machine->vector_bytes / v->lanes, most = (ROWS_OF_ONE - (size > 4)) * v->lanes;
    if (size < 4 || sum->extent >= v->lanes || ko_terms(v) < ROUNDS_OF_ROWS * sum->extent || sum->moving) return false;
    for (int o = 0; o < v->outputs && row < 0; o++) {
        if (!ko_may_be_lane(v, o) || v->nest->origin[o].extent * sum->extent > most) continue;
        row = o;
        for (int i = 0; i < v->naccess && row >= 0; i++) {
            const ko_access *a = &v->access[i];
            bool next = ko_stride_in(v, a, own) == 1 && ko_stride_in(v, a, o) == sum->extent;
            if (a->reduce == sum->closer && !next) row = -1;
        }
    }
    if (row < 0) return false;
    int at = ko_position(v->nest, row, KN_AXIS_LOOP);
    if (!ko_split(v, at, v->nest->origin[row].extent, KN_AXIS_UPCAST, opts, n, cap)) return false;
    ko_split(v, ko_position(v->nest, own, KN_AXIS_REDUCE), sum->extent, KN_AXIS_GROUP_REDUCE, opts, n, cap);
    return join_sum(v, own, row, opts, n, cap);
}

/* Columns whose elements a sum's lanes have between them: a tile of all reads each line once. False: there are none. */
static bool columns_between(ko_view *v, int own, kn_opt *opts, int *n, int cap) {
    int64_t apart = 0;
    int     column = -1;
    for (int i = 0; i < v->naccess; i++)
        if (v->access[i].reduce) apart = KN_MAX(apart, ko_stride_in(v, &v->access[i], own));
    for (int o = 0; o < v->outputs && apart > 1; o++)
        for (int i = 0; i < v->naccess; i++) {
            const ko_access *a = &v->access[i];
            bool beside = a->reduce && ko_stride_in(v, a, own) == apart && ko_stride_in(v, a, o) == 1;
            if (beside && v->nest->origin[o].extent <= apart && ko_may_be_lane(v, o)) column = o;
        }
    int at = column < 0 ? -1 : ko_position(v->nest, column, KN_AXIS_LOOP);
    return at >= 0 && ko_split(v, at, v->nest->origin[column].extent, KN_AXIS_UPCAST, opts, n, cap);
}

/* Sums of one register each: some beside one another, of the last loop. Where those of one are folded together more,
 * of the loops around it too. */
static void few_rows_of(ko_view *v, kn_opt *opts, int *n, int cap) {
    bool    folded = v->machine->beside && ko_terms(v) <= v->lanes;
    int64_t rows   = folded ? TILE_DOTS / 2 : ROWS_BESIDE;
    for (int l = 0; l < v->nest->nloop && folded; l++)
        if (v->nest->loop[l].type == KN_AXIS_UPCAST) rows /= v->nest->loop[l].extent;
    for (int o = v->outputs, last = folded ? 0 : o - 1; o-- > last && o >= 0 && rows > 1;) {
        int at = ko_position(v->nest, o, KN_AXIS_LOOP);
        if (at < 0 || !ko_may_be_lane(v, o)) continue;
        int64_t some = KN_MIN(v->nest->origin[o].extent, rows);
        ko_split(v, at, some, KN_AXIS_UPCAST, opts, n, cap);
        rows /= some;
    }
}

/* Rows of other sums lie between this one's: some beside one another are read in order, where they are short. */
static void rows_between(ko_view *v, int own, kn_opt *opts, int *n, int cap) {
    int64_t e = v->nest->origin[own].extent, rounds = (e + v->lanes - 1) / v->lanes;
    for (int o = v->outputs; o-- > 0 && v->work <= KO_PIECE_OPS;) {
        bool between = false, other = false;
        for (int i = 0; i < v->naccess && !other; i++) {
            const ko_access *a = &v->access[i];
            int64_t          s = ko_stride_in(v, a, o), row = kn_sat_mul(ko_stride_in(v, a, own), e);
            if (a->reduce != v->nest->origin[own].closer || row <= 0) continue;
            bool within = false; /* of a round of an outer loop of the sum */
            for (int p = v->outputs; p < own; p++)
                within |= v->nest->origin[p].closer == v->nest->origin[own].closer && ko_stride_in(v, a, p) > s;
            other |= s < row || s > 2 * row || !within || row * kn_dsize(kg_dtype(v->g, a->node)) > SHORT_ROW;
            between = true;
        }
        if (!between || other || !ko_may_be_lane(v, o)) continue;
        int64_t some = ko_tile_rows(v->nest->origin[o].extent, ROWS_BESIDE);
        if (some < 2 || kn_sat_mul(some * (v->ops + 1), rounds) > SUM_CODE) continue;
        ko_split(v, ko_position(v->nest, o, KN_AXIS_LOOP), some, KN_AXIS_UPCAST, opts, n, cap);
        return;
    }
}

bool ko_is_held_row(const ko_view *v, int origin) {
    const kn_origin *row = &v->nest->origin[origin];
    if (!v->machine->turns || v->narrow || !row->fills || row->extent > HELD_ROW * v->lanes) return false;
    bool sum = false;
    for (int o = v->outputs; o < v->nest->norigin; o++) sum |= v->nest->origin[o].extent == row->extent;
    return sum;
}

/* The sum runs along a row of such a length that is all lanes: it is of the same registers. */
static bool is_of_held_row(const ko_view *v, int own) {
    for (int l = 0; l < v->nest->nloop; l++) {
        const kn_loop   *at  = &v->nest->loop[l];
        const kn_origin *row = &v->nest->origin[at->origin];
        bool             all = at->type == KN_AXIS_UPCAST && at->extent == row->extent && ko_is_held_row(v, at->origin);
        if (all && row->extent == v->nest->origin[own].extent) return true;
    }
    return false;
}

void ko_sums_lanes(ko_view *v, int lane, int row, kn_opt *opts, int *n, int cap) {
    const kn_nest *nest = v->nest;
    bool           dots = lane < 0 && row >= 0;
    int            far  = lane < 0 ? sum_around(v) : -1;
    if (far >= 0) {
        ko_split(v, ko_position(nest, far, KN_AXIS_REDUCE), v->lanes, KN_AXIS_GROUP_REDUCE, opts, n, cap);
        return;
    }
    for (int o = v->outputs; o < nest->norigin; o++) {
        int own;
        if (lane >= 0 && kg_depends(v->g, nest->origin[o].closer, nest->origin[lane].range)) continue;
        if (!ko_reduce_lanes(v, nest->origin[o].closer, &own) || own != o) continue;
        bool inside = false; /* of another reduction's lanes */
        for (int p = v->outputs, lanes; p < nest->norigin && !inside; p++)
            inside = p != o && kg_depends(v->g, nest->origin[o].closer, nest->origin[p].range) &&
                     (lane >= 0 || ko_reduce_lanes(v, nest->origin[p].closer, &lanes));
        if (inside) continue;
        int64_t e    = nest->origin[o].extent;
        int64_t apart = 0;
        int     turned = dots ? turned_columns(v, nest->origin[o].closer, o, &apart) : -1;
        bool    many = turned >= 0 && apart > KN_NEAR, few = dots && !many && few_rounds(v, e);
        if (many) turned_tile(v, turned, opts, n, cap);
        else if (dots) dot_tile(v, v->outputs, v->tile, opts, n, cap); /* a few rows share each vector that is loaded */
        dots = false;
        if (few && whole_row(v, o, opts, n, cap)) continue;
        if (lane < 0 && row < 0 && !kg_is_fold(v->g, nest->origin[o].closer) && is_of_held_row(v, o)) {
            ko_split(v, ko_position(nest, o, KN_AXIS_REDUCE), e, KN_AXIS_GROUP_REDUCE, opts, n, cap);
            continue;
        }
        if (few && rounds_of(v, o, v->lanes, true, opts, n, cap)) continue;
        if (lane < 0 && row < 0 && (joined_columns(v, o, opts, n, cap) || joined_rows(v, o, opts, n, cap))) continue;
        bool fold = kg_is_fold(v->g, nest->origin[o].closer), alone = lane < 0 && row < 0; /* no other lanes, no rows */
        if (fold && short_fold(v, o, alone, opts, n, cap)) continue;
        alone &= !fold;
        if (alone) rows_between(v, o, opts, n, cap);
        if (alone && short_sum(v, o, opts, n, cap)) continue;
        int64_t most = (fold && v->ops > 2 * KO_PIECE_OPS ? 16 : 8) * v->lanes;
        int64_t w = e >= most && row < 0 && v->narrow < 2 ? 4 * v->lanes : sum_lanes(v, e);
        if (fold && v->narrow < 2 && e < most) /* its steps take long */
            w = e <= 4 * v->lanes ? e : 2 * v->lanes;
        if (lane < 0 && row < 0 && w > v->lanes && !v->narrow && columns_between(v, o, opts, n, cap))
            w = KN_MIN(w, 2 * v->lanes);
        int beside = lane < 0 ? -1 : ko_position(nest, lane, KN_AXIS_UPCAST);
        if (beside >= 0 && e <= 4 * v->lanes && nest->loop[beside].extent == e &&
            (e % v->lanes == 0 || v->work >= KO_PIECE_OPS))
            w = e; /* what is computed of the row's elements is computed once, what is left of whole registers too */
        bool masked = lane < 0 && !fold && w == e && masks_part(v, o);
        while (masked && w & (w - 1)) w += w & -w; /* a half of a register, a quarter and so on */
        lanes_of_sum(v, o, w, masked || nest->origin[o].moving, opts, n, cap);
        if (turned >= 0)
            ko_stage(v, kg_field(v->g, kg_at(v->g, v->access[turned].node, 0), KN_F_PARAM_slot), opts, n, cap);
        if (alone && e <= v->lanes && o + 1 == nest->norigin) few_rows_of(v, opts, n, cap);
    }
}

/* The loop whose numbers are the tile's lanes: the last one of its; -1: there is no tile. */
static int lanes_of_tile(const ko_view *v) {
    int lane = -1;
    for (int l = 0; l < v->nest->nloop; l++)
        if (v->nest->loop[l].type == KN_AXIS_UPCAST) lane = l;
    return lane;
}

/* Vectors of the tile. */
static int64_t vectors_of_tile(const ko_view *v) {
    int64_t n = 1, lanes = 1;
    for (int l = 0; l < v->nest->nloop; l++) {
        if (v->nest->loop[l].type != KN_AXIS_UPCAST) continue;
        n     = kn_sat_mul(n, lanes);
        lanes = v->nest->loop[l].extent; /* the last one's */
    }
    return kn_sat_mul(n, ko_lane_vectors(v, lanes));
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

/* A sum that no tile has copies of: unrolled it is not much. */
static bool is_alone(const ko_view *v, int origin) {
    for (int l = 0; l < v->nest->nloop; l++) {
        const kn_loop *at = &v->nest->loop[l];
        if (at->type != KN_AXIS_UPCAST) continue;
        if (kg_depends(v->g, v->nest->origin[origin].closer, v->nest->origin[at->origin].range)) return false;
    }
    return true;
}

/* Rows of the loop `row` share terms of the sum's loop o: what one reads another reads a few rounds later. */
static bool share_terms(const ko_view *v, int row, int o) {
    for (int i = 0; i < v->naccess; i++) {
        int64_t next = ko_stride_in(v, &v->access[i], row), term = ko_stride_in(v, &v->access[i], o);
        if (term < 0) term = -term; /* a gradient goes through the windows from their ends */
        bool moves = next > 1 && next < INT64_MAX && term > 1 && term < INT64_MAX; /* and not as lanes do */
        if (moves && term % next == 0 && term / next <= KO_SHARED_APART) return true;
    }
    return false;
}

int ko_shared_terms(const ko_view *v, int row) {
    for (int o = v->nest->norigin; o-- > v->outputs;)
        if (v->nest->origin[o].extent <= 2 * KO_SHORT_SUM && share_terms(v, row, o)) return o;
    return -1;
}

/* The loop of the sum between first and last of which a tile's rows share terms; -1: none, or registers are too few for
 * a row's terms beside the sums. *all: not for copies of another loop as well. */
static int shared_with_tile(const ko_view *v, int first, int last, bool *all) {
    int     shared = -1, before = -1; /* before: of the rows before the last loop, which is the lanes' */
    bool    fitted = v->machine->turns; /* copies that are too many are taken back; a C compiler may choke on them */
    int64_t lanes  = 0, rows = 0, share = 0;
    for (int l = 0; l < v->nest->nloop; l++) {
        const kn_loop *at = &v->nest->loop[l];
        if (at->type != KN_AXIS_UPCAST) continue;
        int o  = at->extent <= KO_SHARED_APART ? -1 : ko_shared_terms(v, at->origin);
        shared = before;
        share  = rows;
        if (o >= first && o < last) before = o, rows = at->extent;
        if (!fitted || (shared < 0 && ko_is_gated(v, at->origin))) shared = before; /* copies know their gates */
        lanes = at->extent;
    }
    int64_t nv = ko_lane_vectors(v, lanes), terms = shared < 0 ? 0 : v->nest->origin[shared].extent;
    int64_t most = fitted && share > 0 ? ko_tile_registers(v) - terms : 0;
    *all = nv == 1 || (2 * share + terms) * nv <= most;
    return *all || (!v->ngate && (share + 1) * nv <= most) ? shared : -1;
}

/* The lanes' terms lie side by side, one lane's behind the other's: copies of the sum, where not much is computed in
 * each, share the registers that are loaded of them. */
static bool has_terms_in_order(const ko_view *v, int own) {
    int l = lanes_of_tile(v), lane = l < 0 ? -1 : v->nest->loop[l].origin;
    if (v->work > KO_PIECE_OPS) return false;
    for (int i = 0; i < v->naccess && lane >= 0 && v->machine->turns; i++)
        if (ko_stride_in(v, &v->access[i], own) == 1 &&
            ko_stride_in(v, &v->access[i], lane) == v->nest->origin[own].extent)
            return v->nest->origin[own].extent <= KN_IN_TURNS;
    return false;
}

/* Of a product of f32 or f64 that has few terms rounds go two and two: with 16 FMAs each, what stands between them, and
 * the end of the loop, takes a processor more than a cycle a round. */
static bool takes_two_rounds(const ko_view *v, int first, int last) {
    const kn_origin *sum = &v->nest->origin[first];
    int              at = ko_position(v->nest, first, KN_AXIS_REDUCE), dt = kg_dtype(v->g, sum->closer);
    if (at < 0 || last - first > 1 || v->narrow || sum->moving || ko_is_gated(v, first)) return false;
    int64_t e = v->nest->loop[at].extent;
    return kn_is_float(dt) && kn_dsize(dt) >= 4 && e >= 4 && e <= TWO_ROUNDS && vectors_of_tile(v) >= KO_TILE_ROWS;
}

/* Rounds beside lanes of the sum, with all rows of the tile not much code. */
static bool rounds_are_few(const ko_view *v, int first, int last) {
    int64_t rounds = 1, rows = 1;
    bool    lanes = false;
    for (int l = 0; l < v->nest->nloop; l++) {
        const kn_loop *at = &v->nest->loop[l];
        bool           of = at->origin >= first && at->origin < last;
        lanes |= of && at->type == KN_AXIS_GROUP_REDUCE && at->extent <= v->lanes;
        if (at->type == KN_AXIS_UPCAST) rows = kn_sat_mul(rows, at->extent);
        if (of && at->type == KN_AXIS_REDUCE) rounds = kn_sat_mul(rounds, at->extent);
    }
    return lanes && v->machine->beside && rounds <= KO_SHORT_SUM && kn_sat_mul(rounds, rows) <= FEW_ROUNDS;
}

/* A loop of the sum that is too long to be all copies, of which a tile's rows share terms: a few rounds are, where
 * registers have room for what they read. -1: there is none. */
static int partly_shared(const ko_view *v, int first, int last) {
    int     lane    = lanes_of_tile(v);
    int64_t vectors = vectors_of_tile(v), lanes = lane < 0 ? 1 : v->nest->loop[lane].extent;
    for (int l = 0; l < v->nest->nloop; l++)
        if (v->nest->loop[l].type == KN_AXIS_GROUP_REDUCE) return -1;
    for (int l = 0; l < v->nest->nloop && v->machine->turns; l++) {
        const kn_loop *at = &v->nest->loop[l];
        int64_t        read = kn_sat_mul(at->extent + SHARED_ROUNDS - 1, ko_lane_vectors(v, lanes));
        if (at->type != KN_AXIS_UPCAST || at->extent <= KO_SHARED_APART) continue;
        if (vectors + read > ko_tile_registers(v)) continue;
        for (int o = first; o < last; o++)
            if (v->nest->origin[o].extent > 2 * KO_SHORT_SUM && !ko_is_gated(v, o) && share_terms(v, at->origin, o))
                return o;
    }
    return -1;
}

void ko_unroll_sums(ko_view *v, bool product, kn_opt *opts, int *n, int cap) {
    /* for what the copies load; a narrower tile leaves more of them */
    bool    one = v->nest->norigin > v->outputs; /* one sum */
    for (int o = v->outputs; o < v->nest->norigin; o++)
        one &= v->nest->origin[o].closer == v->nest->origin[v->outputs].closer;
    bool    beside = v->machine->vector_registers >= 32 || (!product && one && v->machine->turns);
    bool    room = beside && v->narrow < KO_WHOLE_VECTORS;
    int64_t few = 2 * KO_SHORT_SUM, vectors = vectors_of_tile(v), most = KO_SHORT_SUM;
    if (room) most = KN_MIN(few, KN_MAX(most, SHORT_CODE / vectors));
    if (room && !product) most = KN_MAX(most, KN_MIN(2 * few, SHORT_CODE / 2 / vectors));
    for (int first = v->outputs, last = first; first < v->nest->norigin; first = last) {
        int64_t terms = 1;
        for (; last < v->nest->norigin && v->nest->origin[last].closer == v->nest->origin[first].closer; last++)
            terms = kn_sat_mul(terms, v->nest->origin[last].extent);
        bool alone = is_alone(v, first) || (last - first == 1 && has_terms_in_order(v, first));
        if (rounds_are_few(v, first, last)) terms = 1;
        if (v->ops > KO_PIECE_OPS && !alone) continue;
        if (terms > (alone ? KN_MAX(most, few) : most)) {
            bool    all    = true;
            int     shared = room ? shared_with_tile(v, first, last, &all) : -1;
            int64_t copies = shared < 0 ? 0 : v->nest->origin[shared].extent;
            bool    some   = copies && kn_sat_mul(copies, vectors_of_tile(v)) <= 2 * SHORT_CODE;
            if (some)
                ko_split(v, ko_position(v->nest, shared, KN_AXIS_REDUCE), copies, KN_AXIS_UNROLL, opts, n, cap);
            if (some && (v->narrow == 1 || !all)) continue; /* without others it may fit */
            /* the last loop at least; a longer one where copies know whether they may load */
            int     at    = ko_position(v->nest, last - 1, KN_AXIS_REDUCE);
            int64_t e     = at < 0 ? INT64_MAX : v->nest->loop[at].extent;
            int64_t code  = e > 2 * KO_SHORT_SUM ? INT64_MAX : kn_sat_mul(e, vectors_of_tile(v));
            bool    gates = code <= SHORT_CODE && ko_is_gated(v, last - 1);
            bool    known = code <= 2 * SHORT_CODE && is_decided(v, last - 1); /* half of the copies add nothing */
            int     part  = room && !some ? partly_shared(v, first, last) : -1;
            if (part >= 0)
                ko_split(v, ko_position(v->nest, part, KN_AXIS_REDUCE), SHARED_ROUNDS, KN_AXIS_UNROLL, opts, n, cap);
            else if (room && (((e <= KO_SHORT_SUM || gates) && last - first > 1) || known))
                ko_split(v, at, e, KN_AXIS_UNROLL, opts, n, cap);
            else if (product && !some && takes_two_rounds(v, first, last))
                ko_split(v, at, 2, KN_AXIS_UNROLL, opts, n, cap);
            continue;
        }
        bool within = false; /* of sums in sums, together */
        for (int o = last; o < v->nest->norigin; o++)
            within |= kg_depends(v->g, v->nest->origin[o].closer, v->nest->origin[first].range) ||
                      kg_depends(v->g, v->nest->origin[first].closer, v->nest->origin[o].range);
        if (within) most /= KN_MAX(terms, 1), few /= KN_MAX(terms, 1);
        for (int o = last; o-- > first;) {
            int at = ko_position(v->nest, o, KN_AXIS_REDUCE);
            if (at >= 0) ko_split(v, at, v->nest->loop[at].extent, KN_AXIS_UNROLL, opts, n, cap);
        }
    }
}
