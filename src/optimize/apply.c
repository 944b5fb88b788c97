/* apply.c - the edited nest becomes the graph: one substitution a closer.
 *
 * Takes: a kernel and its nest. Gives: the kernel with every range split, typed and ordered as the nest says; what a
 * factor leaves over (PEEL) is a copy of the body in loops of its own. */
#include "optimize/apply.h"

#include <string.h>

typedef struct ko_variant { /* one combination of main and tail pieces of a closer's ranges */
    kn_ref from[KN_MAX_NEST], to[KN_MAX_NEST], loop[KN_MAX_NEST];
    int    nsub, nloop;
} ko_variant;

static kn_ref new_range(ko_state *s, int64_t extent, int type, int slot) {
    int64_t w[KN_RANGE_WORDS] = {s->next_id++, type, 0, ko_is_lane(type) ? slot : 0};
    kn_ref  bound             = kg_idx(s->g, extent);
    return kg_make(s->g, KN_OP_RANGE, 0, kg_intern_words(s->g, w, KN_RANGE_WORDS), &bound, 1);
}

/* Pieces chosen by the bits of `tails`: bit k set takes the tail of the closer's k-th range. */
static bool make_variant(ko_state *s, const int *origins, int n, unsigned tails, ko_variant *v) {
    const kn_nest *nest = s->nest;
    kn_graph      *g    = s->g;
    v->nsub = v->nloop = 0;
    kn_ref sum[KN_MAX_NEST] = {0};
    for (int l = 0; l < nest->nloop; l++) { /* nest order, so that the loops come out outermost first */
        int k = 0;
        while (k < n && origins[k] != nest->loop[l].origin) k++;
        if (k == n || tails >> k & 1) continue;
        kn_ref r = new_range(s, nest->loop[l].extent, nest->loop[l].type, s->slot[l]);
        kn_ref t = nest->loop[l].stride == 1 ? r : kg_op2(g, KN_OP_MUL, r, kg_idx(g, nest->loop[l].stride));
        sum[k]   = sum[k] ? kg_op2(g, KN_OP_ADD, sum[k], t) : t;
        v->loop[v->nloop++] = r;
    }
    for (int k = 0; k < n; k++) {
        const kn_origin *o = &nest->origin[origins[k]];
        if (tails >> k & 1) {
            kn_ref base = kg_idx(g, o->extent - o->tail);
            if (o->tail == 1) {
                sum[k] = base;
            } else {
                kn_ref r = new_range(s, o->tail, o->tail_type, s->tail_slot[origins[k]]);
                sum[k]   = kg_op2(g, KN_OP_ADD, r, base);
                v->loop[v->nloop++] = r;
            }
        }
        v->from[v->nsub] = o->range;
        v->to[v->nsub++] = sum[k];
        if (!sum[k]) return false;
    }
    return true;
}

/* A copy of the body fills stages of its own: their LOCAL buffers get new slots. */
static bool own_stages(ko_state *s, kn_ref body, ko_variant *v) {
    kn_graph *g = s->g;
    kn_ref   *order;
    uint32_t  n;
    bool      ok = true;
    if (!kg_reach(g, &body, 1, &order, &n)) return false;
    for (uint32_t i = 0; i < n && ok; i++) {
        kn_ref st = order[i], b;
        if (kg_op(g, st) != KN_OP_STORE || kg_space(g, kg_at(g, st, 0)) != KN_LOCAL) continue;
        bool moves = false, known = false;
        for (int k = 0; k < v->nsub; k++) /* filled anew for each value of the range, which the address does not tell */
            moves |= kg_op(g, v->from[k]) == KN_OP_RANGE && kg_depends(g, st, v->from[k]) &&
                     !kg_depends(g, kg_at(g, kg_at(g, st, 0), 1), v->from[k]);
        for (b = kg_at(g, st, 0); kg_op(g, b) != KN_OP_BUFFER;) b = kg_at(g, b, 0);
        for (int k = 0; k < v->nsub; k++) known |= v->from[k] == b;
        if (!moves || known) continue;
        if (!(ok = v->nsub < KN_MAX_NEST)) break;
        v->from[v->nsub]  = b;
        v->to[v->nsub++] = kg_buffer(g, s->next_local++, kg_numel(g, b), kg_dtype(g, b), 0, KN_LOCAL);
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return ok;
}

static kn_ref apply_closer(ko_state *s, kn_ref closer, kn_ref body, const int *origins, int n) {
    kn_graph *g  = s->g;
    int       op = kg_op(g, closer);
    kn_ref    parts[64], r = 0;
    int       np = 0;
    unsigned  mask = 0;
    for (int k = 0; k < n; k++)
        if (s->nest->origin[origins[k]].tail) mask |= 1u << k;
    for (unsigned tails = mask;; tails = (tails - 1) & mask) { /* ends with tails == 0, the main part */
        ko_variant v;
        if (np == KN_COUNT(parts) || !make_variant(s, origins, n, tails, &v)) return 0;
        if (tails && !own_stages(s, body, &v)) return 0;
        kn_ref b = kg_substitute(g, body, v.from, v.to, v.nsub);
        if (op == KN_OP_REDUCE)
            b = v.nloop ? kg_reduce_ranges(g, b, (int)kg_field(g, closer, KN_F_REDUCE_op), v.loop, v.nloop) : b;
        else b = kg_end(g, b, v.loop, v.nloop);
        if (!b) return 0;
        parts[np++] = b;
        if (!tails) break;
    }
    if (op == KN_OP_REDUCE) {
        r = parts[np - 1];
        for (int i = np - 1; i-- > 0;) r = kg_op2(g, (int)kg_field(g, closer, KN_F_REDUCE_op), r, parts[i]);
        return r;
    }
    if (np == 1) return parts[0];
    for (int i = 0; i < np / 2; i++) { /* the main part first */
        kn_ref t          = parts[i];
        parts[i]          = parts[np - 1 - i];
        parts[np - 1 - i] = t;
    }
    return kg_list(g, KN_OP_GROUP, parts, np);
}

/* Does some value depend on both? */
static bool meet(const kn_graph *g, const kn_ref *order, uint32_t n, kn_ref a, kn_ref b) {
    for (uint32_t i = 0; i < n; i++)
        if (kg_depends(g, order[i], a) && kg_depends(g, order[i], b)) return true;
    return false;
}

/* Shape axes of the expanded loops. Loops that meet in a value get different axes, the inner one further right, so that
 * the innermost is the lane axis; loops that never meet share them. */
static bool assign_axes(ko_state *s, kn_ref sink, kn_fault *f) {
    const kn_nest *nest = s->nest;
    kn_ref        *order;
    uint32_t       n;
    int            right[KN_MAX_NEST] = {0}, rank = 0; /* axes to the right of the loop's own */
    if (!kg_reach(s->g, &sink, 1, &order, &n)) return kn_oom(f);
    for (int l = nest->nloop; l-- > 0;) {
        if (!ko_is_lane(nest->loop[l].type)) continue;
        for (int m = l + 1; m < nest->nloop; m++) {
            if (!ko_is_lane(nest->loop[m].type)) continue;
            bool same = nest->loop[m].origin == nest->loop[l].origin;
            if (same || meet(s->g, order, n, nest->origin[nest->loop[l].origin].range,
                             nest->origin[nest->loop[m].origin].range))
                right[l] = KN_MAX(right[l], right[m] + 1);
        }
        rank = KN_MAX(rank, right[l] + 1);
    }
    kn_free(kg_alloc(s->g), order, n * sizeof *order);
    if (rank > KN_MAX_RANK) return kn_fail(f, KN_ERR_ARG, "optimize: more than %d expanded loops meet", KN_MAX_RANK);
    for (int l = 0; l < nest->nloop; l++) {
        if (!ko_is_lane(nest->loop[l].type)) continue;
        s->slot[l]                              = rank - 1 - right[l];
        s->tail_slot[nest->loop[l].origin] = s->slot[l];
    }
    return true;
}

kn_ref ko_apply(kn_graph *g, kn_ref sink, const kn_nest *nest, kn_fault *f) {
    ko_state s = {.g = g, .nest = nest};
    for (int i = 0; i < nest->norigin; i++)
        s.next_id = KN_MAX(s.next_id, kg_field(g, nest->origin[i].range, KN_F_RANGE_id) + 1);
    for (kn_ref n = 1; n < kg_count(g); n++)
        if (kg_op(g, n) == KN_OP_BUFFER) s.next_local = KN_MAX(s.next_local, kg_field(g, n, KN_F_BUFFER_slot) + 1);
    if (!assign_axes(&s, sink, f)) return 0;
    for (;;) { /* outermost closers first, so that each copy of an inner loop gets ranges of its own */
        kn_ref  *order, old = 0;
        uint32_t count;
        int      origins[32], n = 0;
        if (!kg_reach(g, &sink, 1, &order, &count)) return kn_oom(f), 0;
        for (uint32_t at = count; at-- > 0 && !n;) {
            old = order[at];
            if (kg_op(g, old) != KN_OP_END && kg_op(g, old) != KN_OP_REDUCE) continue;
            for (uint32_t k = 1; k < kg_nsrc(g, old); k++)
                for (int i = 0; i < nest->norigin && n < KN_COUNT(origins); i++)
                    if (nest->origin[i].range == kg_at(g, old, k)) origins[n++] = i;
        }
        kn_free(kg_alloc(g), order, count * sizeof *order);
        if (!n) break;
        kn_ref now = apply_closer(&s, old, kg_at(g, old, 0), origins, n);
        sink       = now ? kg_substitute(g, sink, &old, &now, 1) : 0;
        if (!sink && kg_fault(g)->code) return 0; /* the caller has the graph's fault */
        if (!sink) return kn_fail(f, KN_ERR_INTERNAL, "optimize: the options could not be applied"), 0;
    }
    for (int i = 0; i < nest->nstage && sink; i++) sink = ko_stage_param(&s, sink, nest->stage[i], f);
    return sink;
}
