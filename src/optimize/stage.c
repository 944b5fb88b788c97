/* stage.c - panels of a PARAM copied into LOCAL memory, in the loops around the reduction that reads them. */
#include "optimize/apply.h"

#include <string.h>

/* LOAD of the PARAM inside a reduction: the panel it walks there, its reduction loops and lanes, is copied into LOCAL
 * memory, row by row without gaps, in the loops around it; the load then reads the copy. 0: it is no such load, or too
 * large. */
static kn_ref stage_load(ko_state *s, kn_ref load) {
    kn_graph *g   = s->g;
    kn_ref    at  = kg_at(g, load, 0), idx = kg_at(g, at, 1), open[16], in[16], fresh[16], mine = 0, its = 0;
    int       all = kg_ranges(g, load, open, KN_COUNT(open)), n = 0;
    bool      sums = false;
    int64_t   size = 1;
    if (all > KN_COUNT(open)) return 0;
    for (int pass = 0; pass < 2; pass++) /* lanes last: they walk by one */
        for (int i = 0; i < all; i++) {
            int type = (int)kg_field(g, open[i], KN_F_RANGE_type);
            if (type == (pass ? KN_AXIS_UPCAST : KN_AXIS_REDUCE)) in[n++] = open[i];
            else if (ko_is_lane(type) || type == KN_AXIS_REDUCE) continue;
            else if (type == KN_AXIS_UNROLL) return 0;
            sums |= type == KN_AXIS_REDUCE;
        }
    if (!sums || n < 2) return 0;
    for (int i = n; i-- > 0;) {
        kn_ref  b  = kg_at(g, in[i], 0);
        int64_t w[KN_RANGE_WORDS];
        if (kg_op(g, b) != KN_OP_CONST) return 0;
        memcpy(w, kg_words(g, in[i], NULL), sizeof w);
        w[KN_F_RANGE_id] = s->next_id++;
        if (w[KN_F_RANGE_type] == KN_AXIS_REDUCE) w[KN_F_RANGE_type] = KN_AXIS_LOOP;
        fresh[i]  = kg_make(g, KN_OP_RANGE, 0, kg_intern_words(g, w, KN_RANGE_WORDS), &b, 1);
        kn_ref st = kg_idx(g, size), x = kg_op2(g, KN_OP_MUL, fresh[i], st), y = kg_op2(g, KN_OP_MUL, in[i], st);
        mine      = mine ? kg_op2(g, KN_OP_ADD, mine, x) : x;
        its       = its ? kg_op2(g, KN_OP_ADD, its, y) : y;
        size      = kn_sat_mul(size, kg_const_int(g, b));
    }
    if (size > KN_STAGE_BYTES / kn_dsize(kg_dtype(g, load))) return 0;
    kn_ref local  = kg_buffer(g, s->next_local++, size, kg_dtype(g, load), 0, KN_LOCAL);
    kn_ref source = kg_substitute(g, idx, in, fresh, n), param = kg_at(g, at, 0);
    kn_ref filled =
        kg_end(g, kg_store(g, kg_index(g, local, &mine, 1), kg_load(g, kg_index(g, param, &source, 1)), 0), fresh, n);
    return kg_load(g, kg_index(g, kg_after(g, local, &filled, 1), &its, 1));
}

kn_ref ko_stage_param(ko_state *s, kn_ref sink, int64_t slot, kn_fault *f) {
    kn_graph *g = s->g;
    kn_ref   *order, *from = NULL, *to = NULL;
    uint32_t  n;
    size_t    fc = 0, tc = 0;
    int       count = 0;
    if (!kg_reach(g, &sink, 1, &order, &n)) return kn_oom(f), 0;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref l = order[i];
        if (kg_op(g, l) != KN_OP_LOAD || kg_nsrc(g, l) != 1 || kg_op(g, kg_at(g, l, 0)) != KN_OP_INDEX) continue;
        kn_ref p = kg_at(g, kg_at(g, l, 0), 0), staged;
        if (kg_op(g, p) != KN_OP_PARAM || kg_field(g, p, KN_F_PARAM_slot) != slot || !(staged = stage_load(s, l)))
            continue;
        if (!KN_GROW(kg_alloc(g), from, fc, (size_t)count + 1) || !KN_GROW(kg_alloc(g), to, tc, (size_t)count + 1)) {
            kn_oom(f);
            break;
        }
        from[count] = l;
        to[count++] = staged;
    }
    if (!f->code && count) sink = kg_substitute(g, sink, from, to, count);
    kn_free(kg_alloc(g), from, fc * sizeof *from);
    kn_free(kg_alloc(g), to, tc * sizeof *to);
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return f->code ? 0 : sink;
}
