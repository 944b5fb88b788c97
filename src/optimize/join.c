/* join.c - options of short rows: lanes of several loops that are one run.
 *
 * Rows that fill no register, of what lies side by side where it is stored and near where it is read, as of a small
 * block that is turned, flipped or repeated: their lanes are joined with those of the loop around, and so on, until
 * they fill registers. Loads take all that they reach in a few runs, and shuffle it. */
#include "optimize/view.h"

#include <string.h>

enum {
    FEW_JOINED  = 4, /* registers of all lanes, */
    MOST_JOINED = 8, /* and at most */
    MOST_TERMS  = 16, /* of sums that lanes of short rows have */
    MOST_MASKS  = 16, /* of terms that not all lanes have */
    MOST_NARROWED = 2, /* times that registers were too few, each of which halves both */
    ROWS_OF_JOINED = 16, /* registers of rows beside one another that share lines, at most, */
    FEW_OF_JOINED = 8, /* and where halves of the lanes fill some; rows that more lines of each are read of, at most */
    MOST_LANES  = MOST_JOINED * 64, /* of bytes */
    NARROW      = 16 /* bytes, of which shuffles of bytes and words take their own */
};

/* The loop of which what is stored has `apart` elements between two numbers; -1: there is none. */
static int loop_apart(const ko_view *v, int64_t apart) {
    for (int o = 0; o < v->outputs; o++) {
        bool all = ko_may_be_lane(v, o);
        for (int i = 0; i < v->naccess && all; i++)
            all = !v->access[i].stored || ko_stride_in(v, &v->access[i], o) == apart;
        if (all) return o;
    }
    return -1;
}

/* What x, of an access's index, is for number n of the loop, apart from what all numbers of a block of `some` share.
 * False: no such number is known. */
static bool value_of(const ko_view *v, kn_ref x, int origin, int64_t some, int64_t n, int64_t *value) {
    kn_ref   r = v->nest->origin[origin].range;
    kn_affine in;
    *value = 0;
    if (!kg_depends(v->g, x, r)) return true;
    *value = n;
    if (x == r) return true;
    int op = kg_op(v->g, x);
    if ((op != KN_OP_IDIV && op != KN_OP_MOD) || kg_op(v->g, kg_at(v->g, x, 1)) != KN_OP_CONST) return false;
    int64_t by = kg_const_int(v->g, kg_at(v->g, x, 1));
    if (!kg_affine(v->g, kg_at(v->g, x, 0), &in) || in.n != 1 || in.atom[0] != r || by < 1) return false;
    /* a block begins where another period does, or lies within one */
    bool all = some == v->nest->origin[origin].extent, within = in.coef[0] == 1 && !in.base && by % some == 0;
    if (!all && !within && kn_floor_mod(kn_sat_mul(in.coef[0], some), by)) return false;
    int64_t at = kn_sat_add(in.base, kn_sat_mul(in.coef[0], n));
    *value     = op == KN_OP_IDIV ? kn_floor_div(at, by) : kn_floor_mod(at, by);
    return true;
}

/* Where the lanes lie, apart from what all have; count: numbers of each of the loops, the inner ones first. */
static bool places_of(const ko_view *v, const ko_access *a, const int *loop, const int64_t *count, int n,
                      int64_t *place, int64_t lanes) {
    int64_t value, next = 1;
    memset(place, 0, (size_t)lanes * sizeof *place);
    for (int k = 0; k < n; next *= count[k++])
        for (int64_t i = 0; i < count[k]; i++) {
            int64_t at = 0;
            for (int t = 0; t < a->form.n; t++) {
                if (!value_of(v, a->form.atom[t], loop[k], count[k], i, &value)) return false;
                at = kn_sat_add(at, kn_sat_mul(a->form.coef[t], value));
            }
            for (int64_t l = i * next; l < lanes; l += next * count[k]) /* all lanes of number i */
                for (int64_t in = 0; in < next; in++) place[l + in] = kn_sat_add(place[l + in], at);
        }
    return true;
}

/* Rows of `e` elements come from anywhere: each lies near by itself, and they are two, four or eight, or what is
 * computed takes long. Others that are far apart are put in turns where they are stored. */
static bool rows_from_anywhere(const ko_view *v, const int64_t *place, int64_t e) {
    bool takes = v->work >= KO_PIECE_OPS || !(e & (e - 1));
    return takes && ko_places_span(place, e) <= KN_NEAR * e;
}

/* What a register's lanes read lies in a few runs. */
static bool reads_near(const ko_view *v, const int *loop, const int64_t *count, int n) {
    int64_t place[MOST_LANES], lanes = 1;
    for (int k = 0; k < n; k++) lanes *= count[k];
    if (lanes > MOST_LANES) return false;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        int64_t          size = kn_dsize(kg_dtype(v->g, a->node));
        int64_t          each = size < 4 ? NARROW / size : v->machine->vector_bytes / size;
        if (a->stored) continue;
        if (!a->affine || (size >= 4 && !v->machine->mask_registers)) return false;
        if (!places_of(v, a, loop, count, n, place, lanes)) return false;
        bool anywhere = rows_from_anywhere(v, place, count[0]);
        for (int64_t l = 0; l < lanes; l += each) {
            int64_t some = KN_MIN(each, lanes - l), most = anywhere ? KN_PLACES_APART : 2 * KO_RUNS * some;
            if (ko_places_span(place + l, some) >= most) return false;
            if (ko_runs(place + l, some, KO_RUNS) > KO_RUNS) return false;
        }
    }
    return true;
}

/* Numbers of the loop, each of which is of so many lanes, that make a few whole registers, or waste little. */
static int64_t some_of(const ko_view *v, int64_t extent, int64_t lanes) {
    int64_t most = MOST_JOINED * v->lanes >> v->narrow, few = FEW_JOINED * v->lanes >> v->narrow;
    for (int64_t k = 1; k <= extent && k * lanes <= most; k++)
        if (k * lanes % v->lanes == 0) {
            while (2 * k <= extent && 2 * k * lanes <= few) k *= 2;
            return k;
        }
    return KN_MIN(extent, KN_MAX(few / lanes, (int64_t)1));
}

/* A comparison of indices moves with the loop. */
static bool is_limited(const ko_view *v, int origin) {
    for (int k = 0; k < v->nlimit; k++)
        if (kg_depends(v->g, v->limit[k], v->nest->origin[origin].range)) return true;
    return false;
}

/* The sums in it are few terms, and none is a prefix. */
static bool sums_few_terms(const ko_view *v) {
    for (int o = v->outputs; o < v->nest->norigin; o++)
        if (v->nest->origin[o].scanned) return false;
    return ko_terms(v) <= MOST_TERMS;
}

/* The gate is a conjunction of comparisons of indices. */
static bool is_of_limits(const ko_view *v, kn_ref gate) {
    kn_ref part[KN_COUNT(v->limit)];
    int    n = kg_conjuncts(v->g, gate, part, KN_COUNT(part));
    for (int i = 0; i < n; i++) {
        bool known = false;
        for (int k = 0; k < v->nlimit; k++) known |= v->limit[k] == part[i];
        if (!known) return false;
    }
    return n > 0;
}

/* Which lanes the gates let through is known for all rounds of the last loop but those that PEEL cuts off: each asks
 * for the numbers of loops that lanes have all of, or for one that is cut where it turns. */
static bool lanes_know(const ko_view *v, const int *loop, const int64_t *count, int n) {
    for (int k = 0; k < v->ngate; k++)
        if (!is_of_limits(v, v->gate[k])) return false;
    for (int k = 0; k < v->nlimit; k++) {
        bool cut = false, other = false;
        for (int o = v->outputs; o < v->nest->norigin; o++) /* a sum's terms know as copies */
            other |= kg_depends(v->g, v->limit[k], v->nest->origin[o].range) && ko_terms(v) > KO_SHORT_SUM;
        for (int o = 0; o < v->outputs; o++) {
            bool all = false;
            for (int i = 0; i < n; i++) all |= loop[i] == o && count[i] == v->nest->origin[o].extent;
            if (all || !kg_depends(v->g, v->limit[k], v->nest->origin[o].range)) continue;
            if (v->outputs == v->nest->norigin && ko_turning_point(v, v->limit[k], o)) cut = true;
            else other = true;
        }
        if (other || (cut && (v->ops > KO_PIECE_OPS || kg_ranges(v->g, v->limit[k], NULL, 0) > 1))) return false;
    }
    return v->ngate < KN_COUNT(v->gate) && v->nlimit < KN_COUNT(v->limit) && v->machine->masks;
}

/* What is read lies one after the other, as what is stored does: a mask of lanes is one of what is read. */
static bool reads_in_order(const ko_view *v, const int *loop, const int64_t *count, int n) {
    for (int i = 0; i < v->naccess; i++) {
        int64_t next = 1;
        for (int k = 0; k < n; next *= count[k++])
            if (ko_stride_in(v, &v->access[i], loop[k]) != next) return false;
    }
    return true;
}

bool ko_may_join(const ko_view *v, int lane) {
    int64_t e = v->nest->origin[lane].extent;
    bool    much = v->outputs == v->nest->norigin && v->work >= KO_PIECE_OPS;
    return e < v->lanes || (much && e > v->lanes && 2 * e <= 3 * v->lanes);
}

/* All that is read along the last of the joined loops is more than the L1 holds, and little is computed of it: more
 * lines are read at once then where rows lie side by side, and fewer rows are joined, as long as they fill registers.
 * Measured (docs/decisions-measured.md). */
static void longer_pieces(const ko_view *v, int last, int around, int64_t *some, int64_t *lanes, int64_t *rows) {
    int64_t all = v->nest->origin[last].extent, beside = v->nest->origin[around].extent;
    if (*some == all || v->work >= KO_PIECE_OPS) return;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a    = &v->access[i];
        int64_t          each = kn_sat_mul(ko_stride_in(v, a, last), kn_dsize(kg_dtype(v->g, a->node)));
        if (!a->stored && kn_sat_mul(each, all) <= v->machine->cache[KN_L1]) return;
    }
    while (*lanes % (2 * v->lanes) == 0 && *some % 2 == 0 && *some >= 4 && 2 * *rows <= FEW_OF_JOINED &&
           beside % (2 * *rows) == 0) {
        *lanes /= 2;
        *some /= 2;
        *rows *= 2;
    }
}

bool ko_join_rows(ko_view *v, int lane, kn_opt *opts, int *n, int cap) {
    int     loop[3] = {lane}, count = 1;
    int64_t some[3] = {v->nest->origin[lane].extent}, lanes = some[0];
    bool    narrow = v->machine->vector_bytes / v->lanes < 4, masked = v->ngate > 0;
    bool    sums = v->outputs < v->nest->norigin, limited = sums && is_limited(v, lane);
    if (!v->machine->turns || v->narrow > MOST_NARROWED || !sums_few_terms(v)) return false;
    if (!ko_may_join(v, lane) || loop_apart(v, 1) != lane) return false;
    while (count < KN_COUNT(loop) && lanes % v->lanes) {
        int o = loop_apart(v, lanes);
        if (o < 0 || (limited && lanes >= v->lanes)) break;
        int64_t e    = v->nest->origin[o].extent;
        bool    last = e * lanes > MOST_JOINED * v->lanes >> v->narrow || count + 1 == KN_COUNT(loop);
        loop[count]  = o;
        some[count]  = last ? some_of(v, e, lanes) : e;
        if (some[count] < 2) break; /* those before it are many enough */
        bool near = reads_near(v, loop, some, count + 1);
        for (int64_t k = e / 2; k > 1 && !near && k * lanes >= v->lanes; k--) { /* some of them: a period is */
            if (e % k || last) continue;
            some[count] = k;
            near = last = reads_near(v, loop, some, count + 1);
        }
        if (!near) break;
        lanes *= some[count];
        limited |= sums && is_limited(v, loop[count]);
        count++;
        if (last) break;
    }
    for (int k = 0; k < count && narrow; k++) masked |= is_limited(v, loop[k]);
    if (limited && ko_terms(v) * lanes > MOST_MASKS * v->lanes) return false;
    if (masked && !reads_in_order(v, loop, some, count) && !lanes_know(v, loop, some, count))
        return false; /* what lies apart goes one by one then */
    if (count < 2 || lanes < v->lanes / 2) return false;
    int64_t rows   = 1;
    int     around = sums ? -1 : ko_row_of_lines(v, lane, loop[1], &rows);
    for (int k = 0; k < count; k++) around = loop[k] == around ? -1 : around;
    for (; around >= 0 && rows * ko_lane_vectors(v, lanes) > FEW_OF_JOINED >> v->narrow; lanes /= 2) {
        if (lanes < 2 * v->lanes || some[count - 1] < 4 || some[count - 1] % 2) break;
        some[count - 1] /= 2;
    }
    if (around >= 0) longer_pieces(v, loop[count - 1], around, &some[count - 1], &lanes, &rows);
    if (rows * ko_lane_vectors(v, lanes) > ROWS_OF_JOINED >> v->narrow) around = -1;
    for (int k = 0; k < count; k++) { /* the inner ones last, so that the others are around them */
        int at = ko_position(v->nest, loop[k], KN_AXIS_LOOP);
        if (at < 0 || !ko_split(v, at, some[k], KN_AXIS_UPCAST, opts, n, cap)) return false;
    }
    for (int k = 1; k < count; k++) {
        kn_opt join = {.op = KN_OPT_JOIN, .axis = ko_position(v->nest, loop[k], KN_AXIS_UPCAST),
                       .arg = ko_position(v->nest, loop[k - 1], KN_AXIS_UPCAST)};
        if (!ko_push(v, join, opts, n, cap)) return false;
    }
    return around < 0 || ko_split(v, ko_position(v->nest, around, KN_AXIS_LOOP), rows, KN_AXIS_UPCAST, opts, n, cap);
}
