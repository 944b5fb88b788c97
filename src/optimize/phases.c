/* phases.c - options of sums that ask for the remainder of an output loop, as what a window with a stride hands back.
 *
 * Of every few numbers of such a loop each is a phase: its terms are others, at other places. The phases are rows of a
 * tile, so that what depends on them is known when the program is compiled, and lanes go from one of a phase's numbers
 * to the next, which lie side by side where they are read. Where the sums are stored they are in turns. */
#include "optimize/view.h"

enum {
    ASIDE           = 6, /* registers for what is added up, */
    PHASE_REGISTERS = 4, /* of a phase's sums at most */
    MOST_CODE       = 256 /* additions of registers, in the terms that have no loop */
};

/* Numbers of that loop after which x asks for the same; 1: it does not. */
static int64_t period_of(const ko_view *v, kn_ref x, int origin) {
    int64_t by = ko_period(v->g, x, v->nest->origin[origin].range, KN_NEAR);
    return by ? by < 0 ? -by : by : 1;
}

/* The phases of that loop, 1: it has none. */
static int64_t phases_of(const ko_view *v, int origin) {
    int64_t by = 1;
    for (int k = 0; k < v->nlimit; k++) by = KN_MAX(by, period_of(v, kg_at(v->g, v->limit[k], 0), origin));
    for (int i = 0; i < v->naccess; i++)
        for (int t = 0; v->access[i].affine && t < v->access[i].form.n; t++)
            by = KN_MAX(by, period_of(v, v->access[i].form.atom[t], origin));
    return ko_may_be_lane(v, origin) && 2 * by <= v->nest->origin[origin].extent ? by : 1;
}

/* A comparison says that one of the loop's phases has terms, and no other. */
static bool idles(const ko_view *v, int origin) {
    for (int k = 0; k < v->nlimit; k++) {
        kn_ref x = kg_at(v->g, v->limit[k], 0);
        if (kg_op(v->g, x) == KN_OP_MOD && kg_is_const(v->g, kg_at(v->g, v->limit[k], 1), 1) &&
            period_of(v, x, origin) > 1)
            return true;
    }
    return false;
}

/* The PARAM that lanes take from one by one for each of the terms, whichever row they are in: a copy has them side by
 * side. -1: there is none, or it is large. */
static int64_t gathered_factor(const ko_view *v, int lane) {
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        kn_ref           p = kg_at(v->g, a->node, 0);
        int64_t          s = ko_stride_in(v, a, lane);
        bool             rows = false;
        if (!a->reduce || kg_op(v->g, p) != KN_OP_PARAM || s <= KN_NEAR || s == INT64_MAX) continue;
        for (int o = 0; o < v->outputs; o++) rows |= o != lane && ko_stride_in(v, a, o) != 0;
        int64_t all = kn_sat_mul(ko_terms(v), v->nest->origin[lane].extent);
        int64_t bytes = kn_sat_mul(all, kn_dsize(kg_dtype(v->g, p)));
        if (!rows && bytes <= KN_STAGE_BYTES) return kg_field(v->g, p, KN_F_PARAM_slot);
    }
    return -1;
}

bool ko_phase_lanes(ko_view *v, int lane, kn_opt *opts, int *n, int cap) {
    kn_nest       *nest = v->nest;
    int64_t        phases[KN_MAX_NEST], rows = 1, copies = 1, terms = ko_terms(v), own = phases_of(v, lane);
    int64_t        registers = KN_MAX(ko_tile_registers(v) - ASIDE, (int64_t)2);
    int            end = -1, at = ko_position(nest, lane, -1);
    if (v->outputs == nest->norigin) return false;
    if (2 * own > registers) own = 1;
    int64_t idle = 1;
    for (int o = 0; o < v->outputs; o++) {
        bool few  = v->narrow > 1 && own > 1; /* registers: rows whose phase is not known have gates */
        phases[o] = o == lane ? own : few ? 1 : phases_of(v, o);
        if (o != lane && 2 * rows * own * phases[o] > registers) phases[o] = 1;
        if (o != lane) rows *= phases[o];
        nest->origin[o].idle = phases[o] > 1 && idles(v, o) ? phases[o] : 0;
        idle *= KN_MAX(nest->origin[o].idle, 1);
    }
    rows *= own;
    if (rows == 1 || (idle > 1 && terms <= KO_SHORT_SUM)) return false; /* which is mostly zeros that are stored */
    for (int l = 0; l < nest->nloop; l++)
        if (nest->origin[nest->loop[l].origin].closer == v->tile) end = l;
    if (at != end) ko_push(v, (kn_opt){.op = KN_OPT_SWAP, .axis = at, .arg = end}, opts, n, cap);
    int64_t fit = KN_MIN(registers / rows, (int64_t)PHASE_REGISTERS) >> v->narrow;
    int64_t all = nest->origin[lane].extent / own, most = KN_MAX(fit, (int64_t)1) * v->lanes;
    int64_t w   = all / ((all + most - 1) / most); /* as many rounds, of which the last has no fewer lanes */
    if (!ko_split(v, ko_position(nest, lane, -1), w * own, KN_AXIS_UPCAST, opts, n, cap)) return false;
    at = ko_position(nest, lane, KN_AXIS_UPCAST);
    if (own > 1) {
        kn_opt behind = {.op = KN_OPT_SWAP, .axis = at, .arg = at + 1};
        if (!ko_split(v, at, own, KN_AXIS_UPCAST, opts, n, cap) || !ko_push(v, behind, opts, n, cap)) return false;
    }
    for (int o = 0; o < v->outputs; o++)
        if (o != lane && phases[o] > 1)
            ko_split(v, ko_position(nest, o, KN_AXIS_LOOP), phases[o], KN_AXIS_UPCAST, opts, n, cap);
    for (int o = nest->norigin; o-- > v->outputs;) { /* which terms a phase has is known then */
        int64_t e = nest->origin[o].extent;
        if (e < 2) continue;
        if (e > KO_SHORT_SUM || copies * e * rows * ko_lane_vectors(v, w) > MOST_CODE >> 2 * v->narrow) break;
        int term = ko_position(nest, o, KN_AXIS_REDUCE);
        if (term >= 0 && ko_split(v, term, e, KN_AXIS_UNROLL, opts, n, cap)) copies *= e;
    }
    int64_t slot = gathered_factor(v, lane);
    if (slot >= 0) ko_stage(v, slot, opts, n, cap);
    return true;
}
