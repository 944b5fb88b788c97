/* heuristic.c - a simple choice of OptOps.
 *
 * One loop gets the lanes: the output loop, or in its place the reductions, for which the fewest accesses jump from
 * lane to lane, or one that is predicted to be much cheaper (cost.h). A product with reuse gets a register tile beside
 * the lanes. The outermost loop goes to threads. */
#include "optimize/view.h"

#include <stdlib.h>
#include <string.h>

#define AS_FEW 1.1 /* times as many */
#define AS_LITTLE 0.9 /* times as long */
#define A_FIFTH_LESS 0.8

enum {
    BYTES_AHEAD = 1024, /* bytes before they are stored to, lines are announced; */
    LOADS_AHEAD = 1536, /* and before they are loaded: there; */
    SHORT_STORE = 16,   /* not by stores of fewer bytes, which would announce each often; */
    A_PAGE      = 4096, /* nor rows that are longer, of which the next one is */
    ROWS_AHEAD  = 2,    /* rows before a sum reads them, they are, */
    ROWS_APART  = 4,    /* if they lie as many lines apart; */
    LONG_ROW    = 32    /* registers of a row that streams beside a number of its own */
};

/* Accesses made, with `lane` (an output origin, or -1: the reductions') as the lanes. */
static double cost_of(const ko_view *v, int lane) {
    double cost = 0;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        double           w = 1;
        int              own;
        bool             depends = lane >= 0 && a->reduce && kg_depends(v->g, a->reduce, v->nest->origin[lane].range);
        if (a->reduce && !depends) {
            if (ko_reduce_lanes(v, a->reduce, &own)) {
                int64_t e = v->nest->origin[own].extent, s = ko_stride_in(v, a, own);
                w         = ko_sum_accesses(v, e) / (double)e;
                if (s > 1 && ko_columns_of(v, a->reduce, own) < 0)
                    w *= (double)s + 1; /* runs are loaded, and shuffled */
            }
            cost += a->trips * w;
            continue;
        }
        double trips = a->trips;
        if (lane >= 0) {
            int64_t s     = ko_stride_in(v, a, lane);
            double  lanes = (double)KN_MIN(v->nest->origin[lane].extent, v->lanes);
            w = s == 1 || (s == 0 && a->reduce) ? 1 / lanes : 1; /* what stands still in no reduction is hoisted */
            if (ko_rows_in_turns(v, a, lane)) w = (double)s / lanes;
        }
        cost += trips * w;
    }
    return cost;
}

/* The output origin with the fewest accesses, or -1: the reductions' own. */
static int pick_lane(const ko_view *v) {
    double best = cost_of(v, -1);
    int    lane = -1;
    for (int o = 0; o < v->outputs; o++) {
        double c = ko_may_be_lane(v, o) ? cost_of(v, o) : best;
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
        if (o == lane || !ko_may_be_lane(v, o)) continue;
        for (int i = 0; i < v->naccess; i++) {
            const ko_access *a = &v->access[i];
            if (!a->reduce || !kg_depends(v->g, a->reduce, v->nest->origin[o].range) || ko_stride_in(v, a, o) != 0)
                continue;
            if (lane >= 0 && !kg_depends(v->g, a->reduce, v->nest->origin[lane].range)) continue;
            bool vector = lane >= 0 && ko_stride_in(v, a, lane) != 0;
            if (vector || !shared) row = o;
            shared |= vector;
        }
    }
    return row;
}

/* Rows that are all of a tile leave the outermost place to the first loop, which threads share. */
static void outermost_loop(ko_view *v, kn_opt *opts, int *n, int cap) {
    const kn_nest *nest = v->nest;
    int            l    = 0;
    while (l < nest->nloop && nest->loop[l].type == KN_AXIS_UPCAST) l++;
    if (!l || l == nest->nloop || nest->loop[l].type != KN_AXIS_LOOP) return;
    if (nest->origin[nest->loop[l].origin].closer == nest->origin[nest->loop[0].origin].closer)
        ko_push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = 0, .arg = l}, opts, n, cap);
}

/* The outermost loop is for threads. */
static int threads_first(ko_view *v, kn_opt *opts, int n, int cap) {
    const kn_nest *nest = v->nest;
    outermost_loop(v, opts, &n, cap);
    if (nest->nloop && nest->loop[0].type == KN_AXIS_LOOP && !nest->origin[nest->loop[0].origin].reduce) {
        /* The code takes a run lo..hi of the THREAD loop, so the whole loop may be one: chunks cost nothing. */
        int64_t e = nest->loop[0].extent;
        if (e > 1 || ko_peeled(nest, 0)) /* what was cut off it, they share as well */
            ko_push(v, (kn_opt){.op = KN_OPT_SPLIT, .arg = e, .target = KN_AXIS_THREAD, .top = true}, opts, &n, cap);
    }
    return n;
}

/* The options for that lane; v->nest becomes the nest they give. */
static int list_for(ko_view *v, int lane, kn_opt *opts, int cap) {
    const kn_nest *nest = v->nest;
    int            n = 0, row = find_row(v, lane);
    if (v->phased) {
        v->phased = lane >= 0 && ko_phase_lanes(v, lane, opts, &n, cap);
        return v->phased ? threads_first(v, opts, n, cap) : 0;
    }
    if (lane >= 0) ko_output_lanes(v, lane, row, opts, &n, cap);
    if (lane >= 0 && row < 0) ko_pieces_of_gates(v, lane, opts, &n, cap);
    bool filled = lane >= 0 && nest->origin[lane].staged; /* stages have these lanes, of whole rows */
    for (int o = 0; o < v->outputs && !filled; o++)
        if (nest->origin[o].closer != v->tile && nest->origin[o].fills &&
            (o == 0 || nest->origin[o - 1].closer != nest->origin[o].closer))
            ko_side_lanes(v, nest->origin[o].closer, opts, &n, cap);
    ko_sums_lanes(v, lane, row, opts, &n, cap);
    ko_unroll_sums(v, row >= 0 || lane < 0, opts, &n, cap);
    if (lane >= 0 && row < 0 && v->outputs < nest->norigin) ko_edges_of_windows(v, lane, opts, &n, cap);
    return threads_first(v, opts, n, cap);
}

/* A little more than the L2 holds, of which it has most. */
static bool nearly_fits(const ko_view *v, double bytes) {
    return 4 * bytes < 5 * (double)v->machine->cache[KN_L2];
}

/* Bytes that the kernel moves beyond the L1. */
static double bytes_beyond_l1(const ko_cost *c) {
    double moved = 0;
    for (int l = KN_L2; l < KN_LEVELS; l++) moved += c->bytes[l] + c->stored[l];
    return moved;
}

/* As much is moved as is faster if it is announced before it is loaded. */
static bool announces_loads(const ko_view *v, const ko_cost *c) {
    double moved = bytes_beyond_l1(c);
    return moved >= (double)v->machine->reads_from && moved <= (double)v->machine->announces;
}

/* How long a kernel that streams may compute for all that it loads to be read from the L3 once, measured: half as long,
 * and three quarters where it is one array by one loop, and nothing waits for a divider, or, of as much as is announced
 * before it is loaded, one and a quarter, but for what a compiler makes of it, selects of halves by six operations. */
static double may_compute(const ko_view *v, int read, const ko_cost *c) {
    if (read > 1 || v->nest->nloop > 1 || v->divided) return 0.5;
    return announces_loads(v, c) && v->machine->masks ? 1.25 : 0.75;
}

/* Most of what is loaded comes from beyond the L2. */
static bool loads_from_far(const ko_cost *c) {
    return c->bytes[KN_L3] + c->bytes[KN_DRAM] > c->bytes[KN_L1] + c->bytes[KN_L2];
}

/* Beside one number a row, as a bias, half registers are faster where the rows are long and come from the L3. */
static bool streams_rows(const ko_view *v, int lane, const ko_cost *c) {
    bool long_row = v->nest->origin[lane].extent / v->lanes >= LONG_ROW;
    return long_row && loads_from_far(c) && bytes_beyond_l1(c) <= (double)v->machine->announces;
}

/* Lanes that are read backwards are turned by one instruction, and no other is taken of them. */
static bool turns_alone(const ko_view *v, const ko_access *a) {
    return !v->ops && kn_dsize(kg_dtype(v->g, a->node)) >= 4;
}

/* Memory sets the pace: as many values are read as are written, at least, all of one size and one after the other, most
 * of them beyond the L2, and numbers beside them that stand still for the lanes; what is computed takes a part
 * (may_compute) of the time that all that is loaded takes to be read from the L3. */
static bool streams(const ko_view *v, int lane, const ko_cost *c) {
    double far = 0, all = 0, loaded = 0;
    int    read = 0;
    bool   rows = false;
    if (lane < 0 || v->outputs < v->nest->norigin || v->ngate) return false;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a     = &v->access[i];
        bool             line  = kn_dsize(kg_dtype(v->g, a->node)) * v->lanes == v->machine->vector_bytes;
        int64_t          apart = ko_stride_in(v, a, lane);
        if (!a->stored && apart == 0) {
            rows |= !ko_stays_still(v, a, -1);
            continue;
        }
        if (!line || (apart != 1 && (apart != -1 || !turns_alone(v, a)))) return false;
        read += !a->stored;
    }
    for (int l = KN_L1; l < KN_LEVELS; l++) {
        all += c->bytes[l] + c->stored[l];
        if (l > KN_L2) far += c->bytes[l] + c->stored[l];
        loaded += c->bytes[l];
    }
    if (rows && !streams_rows(v, lane, c)) return false;
    double from_l3 = loaded / (double)v->machine->line * (double)v->machine->read_ps[KN_L3];
    return read > 0 && c->arithmetic <= may_compute(v, read, c) * from_l3 && 2 * far > all && !nearly_fits(v, all);
}

/* The innermost loop that the access moves with, but for copies along the lanes; -1: there is none, or, where asked
 * for, something else walks further there, and sets the pace itself. */
static int loop_of_rounds(const ko_view *v, const ko_access *a, int lane, bool sets_pace) {
    for (int l = v->nest->nloop; l-- > 0;) {
        const kn_loop *at = &v->nest->loop[l];
        int64_t        s  = ko_stride_in(v, a, at->origin);
        if (ko_is_lane(at->type) || (at->type == KN_AXIS_UNROLL && at->origin == lane)) continue;
        if (s == 0 || at->extent < 2) continue;
        for (int i = 0; i < v->naccess && sets_pace; i++) {
            int64_t far = ko_stride_in(v, &v->access[i], at->origin);
            if (far > s && far != INT64_MAX) return -1;
        }
        return l;
    }
    return -1;
}

/* Elements from one number of that loop to the next, be it backwards; INT64_MAX: not known, or more. */
static int64_t elements_a_round(const ko_view *v, const ko_access *a, int l) {
    int64_t s = kn_sat_mul(ko_stride_in(v, a, v->nest->loop[l].origin), v->nest->loop[l].stride);
    return s < -INT64_MAX ? INT64_MAX : llabs(s);
}

/* Half at least of what lies `more` rounds of loop l ahead of the access is read soon: it is of the same run, or of one
 * of the next ones, copies and loops around it, while all that is read of them stays in the L1. Which way each goes is
 * not asked: to announce rows turned one way alone, which were read before, was measured to be no loss. */
static bool is_read_soon(const ko_view *v, const ko_access *a, int l, int64_t more) {
    const kn_nest *nest = v->nest;
    int64_t        step = elements_a_round(v, a, l), ahead = kn_sat_mul(step, more), hits = 0;
    int64_t        run = kn_sat_mul(step, nest->loop[l].extent);
    int64_t        held = v->machine->cache[KN_L1] / 2 / kn_dsize(kg_dtype(v->g, a->node));
    int            order[KN_MAX_NEST], n = 0;
    if (run >= 2 * ahead) return true;
    for (int k = 0; k < nest->nloop; k++)
        if (ko_is_lane(nest->loop[k].type) && elements_a_round(v, a, k) >= run) order[n++] = k;
    while (l-- > 0)
        if (!ko_is_lane(nest->loop[l].type) && nest->loop[l].extent > 1) order[n++] = l;
    for (int64_t k = 0; k * run <= held; k++) {
        int64_t far = 0, rest = k;
        for (int i = 0; i < n && rest; rest /= nest->loop[order[i++]].extent)
            far = kn_sat_add(far, kn_sat_mul(rest % nest->loop[order[i]].extent, elements_a_round(v, a, order[i])));
        if (rest) break;
        hits += run - KN_MIN(llabs(far - ahead), run);
    }
    return 2 * hits >= run;
}

/* Bytes from one number of that loop to the next; 0: of none, or not known. */
static int64_t bytes_a_round(const ko_view *v, const ko_access *a, int l) {
    int64_t far = l < 0 ? INT64_MAX : elements_a_round(v, a, l);
    return far == INT64_MAX ? 0 : kn_sat_mul(far, kn_dsize(kg_dtype(v->g, a->node)));
}

/* Bytes of a row of lanes, with those that are joined with them. */
static int64_t bytes_of_lanes(const ko_view *v, int lane, int dtype) {
    int64_t w = kn_dsize(dtype);
    for (int l = 0; l < v->nest->nloop; l++)
        if (v->nest->loop[ko_innermost_of(v->nest, l)].origin == lane && ko_is_lane(v->nest->loop[l].type))
            w *= v->nest->loop[l].extent;
    return w;
}

/* A run of the lanes may begin where no register's worth of bytes does, and so lie in two lines. */
static bool lies_across(const ko_view *v, const ko_access *a, int lane) {
    int64_t whole = v->lanes, rest = a->form.base % whole;
    for (int t = 0; t < a->form.n && !rest; t++)
        if (a->form.atom[t] != v->nest->origin[lane].range) rest = a->form.coef[t] % whole;
    return !a->affine || rest;
}

/* What is read or stored of PARAM p is announced `more` rounds ahead, once: a list that says so again is refused. */
static void push_ahead(ko_view *v, kn_ref p, int64_t more, kn_opt *opts, int *n, int cap) {
    kn_opt ahead = {.op = KN_OPT_PREFETCH, .arg = kg_field(v->g, p, KN_F_PARAM_slot), .more = more};
    for (int k = 0; k < *n; k++)
        if (opts[k].op == KN_OPT_PREFETCH && opts[k].arg == ahead.arg) return;
    ko_push(v, ahead, opts, n, cap);
}

/* Rows that lie far apart, of which a sum takes some lanes each, are announced where a row takes long: the processor
 * does not get to the loads of later ones before. */
static void announce_rows(ko_view *v, int lane, kn_opt *opts, int *n, int cap) {
    if (lane < 0 || v->outputs + 1 != v->nest->norigin || v->ops < KO_PIECE_OPS || v->ngate) return;
    if (find_row(v, lane) >= 0 || ko_position(v->nest, v->outputs, KN_AXIS_REDUCE) < 0) return;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        kn_ref           p = kg_at(v->g, a->node, 0);
        if (!a->reduce || !a->affine || kg_op(v->g, p) != KN_OP_PARAM || ko_stride_in(v, a, lane) != 1) continue;
        int64_t step = kn_sat_mul(ko_stride_in(v, a, v->outputs), kn_dsize(kg_dtype(v->g, a->node)));
        if (step < ROWS_APART * v->machine->line || step == INT64_MAX) continue;
        push_ahead(v, p, ROWS_AHEAD, opts, n, cap);
    }
}

/* Nothing is added up for long before it is stored: terms, if there are any, are copies, or a few rounds. */
static bool loops_store(const ko_view *v) {
    int64_t rounds = 1;
    for (int l = 0; l < v->nest->nloop; l++) {
        const kn_loop *at = &v->nest->loop[l];
        if (v->nest->origin[at->origin].reduce && at->type != KN_AXIS_UNROLL) rounds = kn_sat_mul(rounds, at->extent);
    }
    return rounds <= 2 * KO_SHORT_SUM;
}

/* A tile of several rows of those lanes is stored there. */
static bool has_rows(const ko_view *v, const ko_access *a, int lane) {
    for (int l = 0; l < v->nest->nloop; l++) {
        const kn_loop *at = &v->nest->loop[l];
        if (at->type == KN_AXIS_UPCAST && at->extent > 1 && at->origin != lane && ko_stride_in(v, a, at->origin))
            return true;
    }
    return false;
}

static bool is_masked(const kn_opt *opts, int n) {
    bool masked = false;
    for (int k = 0; k < n; k++) masked |= opts[k].op == KN_OPT_SPLIT && opts[k].tail == KN_TAIL_MASK;
    return masked;
}

/* What comes line by line from beyond the L2, and not again, is announced where computing takes at most twice as long
 * as memory; of lane -1 along the sums. Lanes of results under a mask were measured to be slower so. */
static void announce_loads(ko_view *v, int lane, const ko_cost *c, kn_opt *opts, int *n, int cap) {
    bool moves = v->outputs == v->nest->norigin; /* sums were measured to lose a little by not asking for the rest */
    if (v->ngate || v->turned || (lane >= 0 && is_masked(opts, *n)) || c->arithmetic > 2 * c->memory) return;
    if (!announces_loads(v, c) || !loads_from_far(c)) return;
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a     = &v->access[i];
        kn_ref           p     = kg_at(v->g, a->node, 0);
        int              along = lane;
        if (lane < 0 && (!a->reduce || !ko_reduce_lanes(v, a->reduce, &along))) continue;
        int     l     = loop_of_rounds(v, a, along, false);
        int64_t bytes = bytes_a_round(v, a, l), line = v->machine->line, apart = ko_stride_in(v, a, along);
        if (a->stored || !a->affine || kg_op(v->g, p) != KN_OP_PARAM || (apart != 1 && apart != -1)) continue;
        if (bytes_of_lanes(v, along, kg_dtype(v->g, a->node)) < line || bytes < line || bytes > A_PAGE) continue;
        int64_t more = (LOADS_AHEAD + bytes - 1) / bytes;
        if (moves && !is_read_soon(v, a, l, more)) continue;
        push_ahead(v, p, more, opts, n, cap);
    }
}

/* What is stored line by line to where a line must be fetched from first, and memory sets the pace, is announced; of
 * much that lies across lines, or of several rows of such in turn, also where the L3 has them; of a block that is
 * turned each row's next line. */
static void announce(ko_view *v, int lane, const ko_cost *c, kn_opt *opts, int *n, int cap) {
    const double *to  = c->stored;
    double        all = 0;
    if (lane < 0 || !loops_store(v) || c->arithmetic > c->memory) return;
    for (int l = KN_L1; l < KN_LEVELS; l++) all += c->bytes[l] + c->stored[l];
    double moved = bytes_beyond_l1(c);
    if (moved < (double)v->machine->announces_from || moved > (double)v->machine->announces) return;
    bool   far = to[KN_L3] > to[KN_L1], much = 2 * all > 3 * (double)v->machine->cache[KN_L2];
    double at_l2 = to[KN_L2] + to[KN_DRAM], beside = to[KN_L1];
    *(nearly_fits(v, all) ? &at_l2 : &beside) += to[KN_L3];
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a     = &v->access[i];
        kn_ref           p     = kg_at(v->g, a->node, 0);
        bool             turns = ko_rows_in_turns(v, a, lane), block = v->turned && !turns;
        int64_t          bytes = bytes_a_round(v, a, loop_of_rounds(v, a, lane, !block));
        if (!a->stored || kg_op(v->g, p) != KN_OP_PARAM) continue;
        if (!turns && ko_stride_in(v, a, lane) != 1) continue;
        bool across = far && lies_across(v, a, lane) && (much || has_rows(v, a, lane));
        if (!block && !across && at_l2 <= beside) continue;
        if (bytes_of_lanes(v, lane, kg_dtype(v->g, a->node)) < SHORT_STORE) continue;
        if (bytes < (block ? SHORT_STORE : v->machine->line) || bytes > BYTES_AHEAD) continue;
        int64_t more = block ? KN_MAX(v->machine->line / bytes, (int64_t)1) : BYTES_AHEAD / bytes;
        push_ahead(v, p, more, opts, n, cap);
    }
}

/* The options for that lane, short rows of which fill registers together, or of phases, where they are predicted to
 * take less than *c. 0: they are not. */
static int weigh_other(const ko_view *v, ko_model *model, int lane, bool phases, kn_opt *opts, int cap, ko_cost *c) {
    kn_opt  list[KN_MAX_OPTS];
    kn_nest nest  = *v->nest;
    ko_view other = *v;
    ko_cost less;
    other.nest   = &nest;
    other.joins  = !phases;
    other.phased = phases;
    int n        = list_for(&other, lane, list, KN_MIN(cap, KN_MAX_OPTS));
    if (phases ? !other.phased : !other.joins) return 0;
    ko_predict(model, &nest, v->machine, &less);
    /* the shorter ones cost as well */
    double parts = less.arithmetic + less.memory + less.issue, all = c->arithmetic + c->memory + c->issue;
    if (less.ps >= AS_LITTLE * c->ps && (phases || less.ps > c->ps || parts >= AS_LITTLE * all)) return 0;
    *c = less;
    announce(&other, lane, c, list, &n, KN_MIN(cap, KN_MAX_OPTS));
    memcpy(opts, list, (size_t)n * sizeof *opts);
    return n;
}

/* The options for that lane, and what they are predicted to cost; -2: none at all. `refused` may be NULL. *turned: they
 * turn blocks, or short rows are joined. */
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
    if (lane >= 0 && ko_may_join(v, lane) && !v->unjoined) {
        int joined = weigh_other(v, model, lane, false, opts, cap, c);
        if ((*turned = joined > 0)) return joined;
    }
    if (lane >= 0 && v->outputs < v->nest->norigin) {
        int phased = weigh_other(v, model, lane, true, opts, cap, c);
        if ((*turned = phased > 0)) return phased;
    }
    if ((w.streams = streams(v, lane, c))) {
        nest = *v->nest;
        n    = list_for(&w, lane, opts, cap);
        ko_predict(model, &nest, v->machine, c);
    }
    announce(&w, lane, c, opts, &n, cap);
    announce_loads(&w, lane, c, opts, &n, cap);
    announce_rows(&w, lane, opts, &n, cap);
    *turned = w.turned;
    return n;
}

/* Folds along rows that fill no register: pieces of a half, a quarter and so on, each with its own number. */
static bool folds_few(const ko_view *v) {
    bool few = v->outputs < v->nest->norigin;
    for (int o = v->outputs; o < v->nest->norigin; o++) {
        const kn_origin *or = &v->nest->origin[o];
        few &= kg_is_fold(v->g, or->closer) && or->extent < v->lanes;
    }
    return few;
}

static bool has_op(const kn_opt *opts, int n, kn_opt_op op) {
    for (int k = 0; k < n; k++)
        if (opts[k].op == op) return true;
    return false;
}

/* The lane with the fewest accesses, unless another is predicted to take a fifth less: the model knows what elements
 * and short vectors cost, the count of accesses what is next to what. Of two that turn the same blocks, or make about
 * as many accesses for a product, it takes what is predicted to take less at all, and so beside one that fills a part
 * of a register in a product, of one that copies a factor beside lanes of the sums, of one that puts short rows of sums
 * in turns, beside those rows, or beside short rows of folds; and of one that computes much less than joined rows, each
 * lane of which computes what a row has in common. Where rows are joined what blocks take is told too low,
 * and where their sums are, so that each lane takes all terms, arithmetic and memory count together
 * (docs/decisions-measured.md). each[lane + 1]: what its list is predicted to take; 0: it was not weighed. */
static int choose_lane(const ko_view *v, ko_model *model, ko_cost *each) {
    kn_opt  opts[KN_MAX_OPTS];
    ko_cost c;
    int     first = pick_lane(v), best = first;
    bool    turned, blocks;
    int     n = weigh_lane(v, model, first, NULL, opts, KN_MAX_OPTS, &c, &turned);
    bool    joined = has_op(opts, n, KN_OPT_JOIN), sums = joined && v->outputs < v->nest->norigin;
    each[first + 1] = c;
    double  least = c.ps * A_FIFTH_LESS, all = joined && !sums ? least : c.ps, few = cost_of(v, first) * AS_FEW;
    double  parts = sums ? c.arithmetic + c.memory : 0;
    double  again = joined && !sums && c.arithmetic > c.memory ? c.arithmetic : 0, whole = c.ps;
    bool   short_folds = first < 0 && folds_few(v);
    bool   product = v->outputs + 1 == v->nest->norigin && !v->nlimit && find_row(v, first) >= 0;
    bool   part    = first >= 0 && v->nest->origin[first].extent < v->lanes && !ko_reads_halves(v);
    for (int lane = -1; lane < v->outputs; lane++) {
        if (lane == first || (lane >= 0 && !ko_may_be_lane(v, lane))) continue;
        n         = weigh_lane(v, model, lane, NULL, opts, KN_MAX_OPTS, &c, &blocks);
        each[lane + 1] = c;
        bool near = short_folds || (blocks && (turned || v->outputs < v->nest->norigin));
        near |= product && (part || cost_of(v, lane) < few || (first < 0 && has_op(opts, n, KN_OPT_STAGE)));
        near |= first >= 0 && lane >= 0 && cost_of(v, lane) <= cost_of(v, first);
        near &= c.ps < all || (c.ps * A_FIFTH_LESS < all && c.arithmetic + c.memory < parts);
        near |= c.ps < whole && 3 * c.arithmetic < 2 * again;
        if (c.ps < least || (best == first && near)) least = c.ps, best = lane;
    }
    return best;
}

/* The lanes that are predicted to take the least beside the chosen ones; `unjoined`: what those take whose rows are not
 * joined, 0 where none are. */
static void tell_others(ko_cost *each, int n, int chosen, const ko_cost *unjoined, ko_choice *choice) {
    each[chosen + 1] = *unjoined;
    for (int k = 0; k < KO_OTHERS; k++) {
        int best = -1;
        for (int l = 0; l < n; l++)
            if (each[l].ps > 0 && (best < 0 || each[l].ps < each[best].ps)) best = l;
        choice->other[k] = best == chosen + 1 ? -(best + 1) : best + 1;
        if (best < 0) continue;
        choice->other_ps[k]         = each[best].ps - each[best].unhidden;
        choice->other_arithmetic[k] = each[best].arithmetic;
        each[best].ps               = 0; /* is told */
    }
}

/* Each list that was weighed, a line. */
static void explain_lanes(const ko_view *v, ko_model *model, int chosen, kn_str *out) {
    kn_str refused;
    kn_str_init(&refused, kg_alloc(v->g));
    for (int lane = -2; lane < v->outputs; lane++) {
        if (lane >= 0 && !ko_may_be_lane(v, lane)) continue;
        kn_opt  opts[KN_MAX_OPTS];
        ko_cost c;
        char    what[48] = "as it is";
        ko_view w        = *v;
        w.chosen         = lane == chosen;
        int     n        = weigh_lane(&w, model, lane, &refused, opts, KN_MAX_OPTS, &c, &(bool){false});
        if (lane >= 0)
            snprintf(what, sizeof what, "loop %d of %lld", ko_position(v->nest, lane, -1),
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

int ko_choose(kn_graph *g, kn_ref sink, const kn_machine *m, ko_choice *choice, kn_opt *opts, int cap, kn_str *explain,
              kn_fault *f) {
    ko_cost  each[KN_MAX_NEST + 2] = {0};
    kn_nest  nest;
    kn_fault no = {0};
    choice->ps  = 0;
    if (!ko_nest(g, sink, &nest, &no)) return 0;
    ko_view v = {.g = g, .nest = &nest, .machine = m, .narrow = choice->narrow, .unjoined = choice->lanes < 0};
    if (!ko_look(&v, sink, f)) return 0;
    ko_find_tile(&v);
    ko_model *model = ko_model_new(g, sink, &nest, f);
    int       n     = 0;
    if (model) {
        int lane = choice->lanes ? abs(choice->lanes) - 2 : choose_lane(&v, model, each);
        if (explain) explain_lanes(&v, model, lane, explain);
        ko_cost c, unjoined = {0};
        v.chosen = true;
        n = weigh_lane(&v, model, lane, NULL, opts, cap, &c, &(bool){false});
        if (!choice->lanes && has_op(opts, n, KN_OPT_JOIN)) {
            kn_opt list[KN_MAX_OPTS];
            v.unjoined = true;
            weigh_lane(&v, model, lane, NULL, list, KN_MAX_OPTS, &unjoined, &(bool){false});
        }
        tell_others(each, v.outputs + 1, lane, &unjoined, choice);
        choice->took       = lane + 2;
        choice->ps         = c.ps - c.unhidden;
        choice->arithmetic = c.arithmetic;
        choice->beyond     = c.beyond;
    }
    ko_model_free(model);
    kn_free(kg_alloc(g), v.access, (size_t)(v.naccess + 1) * sizeof *v.access);
    return n;
}
