/* apply.c - the edited nest becomes the graph: one substitution a closer, outermost first.
 *
 * Takes: a kernel and its nest. Gives: the kernel with every range cut, typed and ordered as the nest says (pieces.c),
 * loops shared among its pieces (siblings.c), carried sums in memory, and panels, prefetches and streams (stage.c). */
#include "optimize/apply.h"

#include <string.h>

/* The next combination of pieces; false behind the last. */
static bool next_pieces(const unsigned *has, int *piece, int n) {
    for (int k = 0; k < n; k++) {
        do piece[k]++;
        while (piece[k] < KO_PIECES && !(has[k] >> piece[k] & 1));
        if (piece[k] < KO_PIECES) return true;
        piece[k] = KO_MAIN;
    }
    return false;
}

/* ---- carried sums -------------------------------------------------------------------------------------------- */

/* The sum's parts that run over the carried loop, and those that do not; range: that loop. */
static bool carried_parts(ko_state *s, kn_ref reduce, kn_ref *each, kn_ref *rest, kn_ref *range, int *place) {
    kn_graph *g  = s->g;
    int       op = (int)kg_field(g, reduce, KN_F_REDUCE_op), origins[KN_MAX_NEST], piece[KN_MAX_NEST] = {0}, n = 0;
    unsigned  has[KN_MAX_NEST];
    for (uint32_t k = 1; k < kg_nsrc(g, reduce); k++)
        for (int i = 0; i < s->nest->norigin && n < KN_MAX_NEST; i++)
            if (s->nest->origin[i].id == kg_field(g, kg_at(g, reduce, k), KN_F_RANGE_id)) origins[n++] = i;
    for (int k = 0; k < n; k++) has[k] = ko_pieces(s, reduce, k, origins[k]);
    kn_ref shared = 0;
    *each = *rest = *range = 0;
    for (;;) {
        ko_variant v;
        kn_ref     loop[KN_MAX_NEST], own = 0;
        int        nl = 0;
        if (!ko_make_variant(s, reduce, origins, n, piece, &v)) return false;
        kn_ref x = ko_variant_body(s, reduce, origins, n, &v, kg_at(g, reduce, 0), op);
        for (int l = 0; l < v.nloop; l++) {
            if (v.loop[l].carry) own = v.loop[l].range, *place = v.loop[l].place;
            else loop[nl++] = v.loop[l].range;
        }
        if (own && shared) x = x ? kg_substitute(g, x, &own, &shared, 1) : 0;
        if (own && !shared) shared = own;
        x = x && nl ? kg_reduce_ranges(g, x, op, loop, nl) : x;
        if (!x) return false;
        kn_ref *to = own ? each : rest;
        *to        = *to ? kg_op2(g, op, *to, x) : x;
        if (!next_pieces(has, piece, n)) break;
    }
    *range = shared;
    return *each && shared;
}

/* The variant's loops inside the carried one, and lanes anywhere: the axes of what it keeps. */
typedef struct ko_inner {
    kn_ref range[KN_MAX_NEST], outer[KN_MAX_NEST];
    int    place[KN_MAX_NEST], n, nouter;
} ko_inner;

static void inner_loops(const ko_state *s, const ko_variant *v, int place, ko_inner *in) {
    in->n = in->nouter = 0;
    for (int l = 0; l < v->nloop; l++) {
        kn_ref r = v->loop[l].range;
        if (v->loop[l].place < place && !ko_is_lane((int)kg_field(s->g, r, KN_F_RANGE_type))) {
            in->outer[in->nouter++] = r;
            continue;
        }
        in->place[in->n]   = v->loop[l].place;
        in->range[in->n++] = r;
    }
}

static bool fresh_loops(ko_state *s, const ko_inner *in, kn_ref *to) {
    kn_graph *g = s->g;
    for (int l = 0; l < in->n; l++) {
        kn_ref r = in->range[l];
        to[l]    = ko_new_range(s, kg_at(g, r, 0), (int)kg_field(g, r, KN_F_RANGE_type),
                                (int)kg_field(g, r, KN_F_RANGE_axis), in->place[l]);
        if (!to[l]) return false;
    }
    return true;
}

static kn_ref moved(kn_graph *g, kn_ref x, const ko_inner *in, const kn_ref *to) {
    return x ? kg_substitute(g, x, in->range, to, in->n) : 0;
}

/* END(STORE(at, f(sum))) with the sum kept in memory over the carried loop c: the loops inside c clear it, then
 * for each c the loops inside add to it, then the loops inside store f of it. */
static kn_ref carry_end(ko_state *s, const ko_variant *v, kn_ref body, kn_ref reduce, kn_carry space) {
    kn_graph *g = s->g;
    kn_ref    each, rest, c, to[KN_MAX_NEST], deps[KN_MAX_NEST + 2], loops[KN_MAX_NEST + 1];
    ko_inner  in;
    int       place = 0, op = (int)kg_field(g, reduce, KN_F_REDUCE_op), dt = kg_dtype(g, reduce);
    if (!carried_parts(s, reduce, &each, &rest, &c, &place)) return 0;
    inner_loops(s, v, place, &in);
    kn_ref at = kg_at(g, body, 0), memory = kg_at(g, at, 0), where = kg_at(g, at, 1), value = kg_at(g, body, 1);
    kn_ref gate = kg_nsrc(g, body) == 3 && space == KN_CARRY_OUT ? kg_at(g, body, 2) : 0, zero = kg_identity(g, op, dt);
    if (space == KN_CARRY_LOCAL) {
        int64_t size = 1;
        where        = kg_idx(g, 0);
        for (int l = in.n; l-- > 0;) {
            where = kg_op2(g, KN_OP_ADD, where, kg_op2(g, KN_OP_MUL, in.range[l], kg_idx(g, size)));
            size  = kn_sat_mul(size, kg_const_int(g, kg_at(g, in.range[l], 0)));
        }
        if (size > KN_STAGE_BYTES / kn_dsize(dt))
            return kn_fail(s->f, KN_ERR_ARG, "CARRY: %lld sums are more than LOCAL memory holds", (long long)size), 0;
        memory = kg_buffer(g, s->next_local++, size, dt, 0, KN_LOCAL);
    } else if (kg_dtype(g, memory) != dt) {
        return kn_fail(s->f, KN_ERR_ARG, "CARRY: the output is not of the sum's dtype"), 0;
    }
    /* clear */
    if (!fresh_loops(s, &in, to)) return 0;
    kn_ref idx  = moved(g, where, &in, to), open = in.nouter ? kg_after(g, memory, in.outer, in.nouter) : memory;
    kn_ref done = kg_store(g, kg_index(g, open, &idx, 1), zero, gate ? moved(g, gate, &in, to) : 0);
    done        = kg_end(g, done, to, in.n);
    /* add */
    if (!fresh_loops(s, &in, to)) return 0;
    deps[0] = done;
    deps[1] = loops[0] = c;
    memcpy(deps + 2, in.outer, (size_t)in.nouter * sizeof *deps);
    memcpy(loops + 1, to, (size_t)in.n * sizeof *loops);
    idx            = moved(g, where, &in, to);
    kn_ref slot    = kg_index(g, kg_after(g, memory, deps, in.nouter + 2), &idx, 1);
    kn_ref own     = gate ? moved(g, gate, &in, to) : 0;
    kn_ref before  = own ? kg_load_gated(g, slot, zero, own) : kg_load(g, slot), term = moved(g, each, &in, to);
    done           = term ? kg_end(g, kg_store(g, slot, kg_op2(g, op, before, term), own), loops, in.n + 1) : 0;
    /* store */
    slot       = kg_index(g, kg_after(g, memory, &done, 1), &where, 1);
    kn_ref sum = gate ? kg_load_gated(g, slot, zero, gate) : kg_load(g, slot);
    if (rest) sum = kg_op2(g, op, sum, rest);
    value = sum ? kg_substitute(g, value, &reduce, &sum, 1) : 0;
    if (!value) return 0;
    kn_ref st = kg_store(g, at, value, kg_nsrc(g, body) == 3 ? kg_at(g, body, 2) : 0);
    return kg_end(g, kg_end(g, st, in.range, in.n), in.outer, in.nouter);
}

/* The REDUCE in an END's body whose sums some loop carries past an output loop; its space. */
static kn_ref carried_in(const ko_state *s, const ko_variant *v, kn_ref body, kn_carry *space) {
    const kn_nest *nest = s->nest;
    kn_ref        *order, found = 0;
    uint32_t       n;
    int            l = 0;
    while (l < nest->nloop && !nest->loop[l].carry) l++;
    bool past = false;
    for (int i = 0; i < v->nloop; i++)
        past |= v->loop[i].place > l && !ko_is_lane((int)kg_field(s->g, v->loop[i].range, KN_F_RANGE_type));
    if (l == nest->nloop || !past) return 0; /* it is inside them all anyway */
    if (!kg_reach(s->g, &body, 1, &order, &n)) return kn_oom(s->f), 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 1; kg_op(s->g, order[i]) == KN_OP_REDUCE && k < kg_nsrc(s->g, order[i]); k++)
            if (kg_field(s->g, kg_at(s->g, order[i], k), KN_F_RANGE_id) == nest->origin[nest->loop[l].origin].id)
                found = order[i];
    kn_free(kg_alloc(s->g), order, n * sizeof *order);
    *space = nest->loop[l].carry;
    return found;
}

/* ---- closers ------------------------------------------------------------------------------------------------- */

static kn_ref apply_sum(ko_state *s, kn_ref closer, const int *origins, int n, const int *piece) {
    kn_ref     loop[KN_MAX_NEST];
    ko_variant v;
    if (!ko_make_variant(s, closer, origins, n, piece, &v)) return 0;
    kn_ref b = ko_variant_body(s, closer, origins, n, &v, kg_at(s->g, closer, 0),
                               (int)kg_field(s->g, closer, KN_F_REDUCE_op));
    for (int l = 0; l < v.nloop; l++) loop[l] = v.loop[l].range;
    return b ? kg_reduce_again(s->g, closer, b, loop, v.nloop) : 0;
}

/* One more piece of an END; whole: sums that are carried past its loops make it a tree of their own. */
static bool apply_end(ko_state *s, kn_ref closer, const int *origins, int n, const int *piece, bool whole,
                      ko_part *part, int np) {
    ko_part   *own = &part[np];
    ko_variant v;
    kn_ref     reduce;
    kn_carry   space = KN_CARRY_NONE;
    own->nloop       = 0;
    own->nstage      = 0;
    if (!ko_make_variant(s, closer, origins, n, piece, &v)) return false;
    if (!whole && !ko_share_loops(s, &v, piece, n, part, np)) return false;
    own->body = ko_variant_body(s, closer, origins, n, &v, kg_at(s->g, closer, 0), -1);
    if (!own->body) return false;
    for (int i = 0; i < v.nsub && own->nstage < KO_MAX_ROOMS; i++) {
        if (kg_op(s->g, v.from[i]) != KN_OP_BUFFER) continue;
        own->stage[own->nstage]    = v.from[i];
        own->filled[own->nstage++] = v.to[i];
    }
    memcpy(own->piece, piece, (size_t)n * sizeof *piece);
    if (whole && (reduce = carried_in(s, &v, own->body, &space)))
        return (own->body = carry_end(s, &v, own->body, reduce, space)) != 0;
    own->nloop = v.nloop;
    for (int l = 0; l < v.nloop; l++) own->loop[l] = v.loop[l].range, own->place[l] = v.loop[l].place;
    return true;
}

static bool carries(const kn_nest *nest) {
    for (int l = 0; l < nest->nloop; l++)
        if (nest->loop[l].carry) return true;
    return false;
}

static kn_ref apply_closer(ko_state *s, kn_ref closer, const int *origins, int n) {
    kn_graph *g   = s->g;
    bool      sum = kg_op(g, closer) == KN_OP_REDUCE, whole = carries(s->nest), ok = true;
    int       piece[KN_MAX_NEST] = {0}, np = 0;
    unsigned  has[KN_MAX_NEST];
    kn_ref    r = 0;
    size_t    cap  = 0;
    ko_part  *part = NULL;
    for (int k = 0; k < n; k++) has[k] = ko_pieces(s, closer, k, origins[k]);
    do { /* the main part first */
        if (np == KO_MAX_PARTS)
            ok = kn_fail(s->f, KN_ERR_ARG, "optimize: the pieces make more than %d copies of a loop", KO_MAX_PARTS);
        else if (!sum && !KN_GROW(kg_alloc(g), part, cap, (size_t)np + 1)) ok = kn_oom(s->f);
        else if (!sum) ok = apply_end(s, closer, origins, n, piece, whole, part, np);
        else {
            kn_ref x = apply_sum(s, closer, origins, n, piece);
            r        = x && r ? kg_reduce_join(g, closer, r, x) : x;
            ok       = r != 0;
        }
        np++;
    } while (ok && next_pieces(has, piece, n));
    if (!sum && ok) r = ko_join_parts(g, part, np);
    kn_free(kg_alloc(g), part, cap * sizeof *part);
    return ok ? r : 0;
}

/* Does some value depend on both? What a sum closes its terms need not depend on: they are repeated along it. */
static bool meet(const kn_graph *g, const kn_ref *order, uint32_t n, const kn_origin *a, const kn_origin *b) {
    if (a->closer == b->closer) return true; /* and a body need not depend on both */
    if ((a->reduce && kg_depends(g, a->closer, b->range)) || (b->reduce && kg_depends(g, b->closer, a->range)))
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (kg_depends(g, order[i], a->range) && kg_depends(g, order[i], b->range)) return true;
    return false;
}

/* Shape axes of the expanded loops. Loops that meet in a value, or that one END or REDUCE closes, get different axes,
 * the inner one further right, so that the innermost is the lane axis; loops that never meet share them, and so do
 * those whose lanes are joined. */
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
            const kn_origin *a = &nest->origin[nest->loop[l].origin], *b = &nest->origin[nest->loop[m].origin];
            bool apart = ko_innermost_of(nest, l) != ko_innermost_of(nest, m);
            if (meet(s->g, order, n, a, b)) right[l] = KN_MAX(right[l], right[m] + apart);
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

/* The outermost END or REDUCE left that closes ranges of the nest, and which. 0: none, or a fault. */
static kn_ref next_closer(ko_state *s, kn_ref sink, int *origins, int *n) {
    const kn_graph *g = s->g;
    kn_ref         *order, found = 0;
    uint32_t        count;
    *n = 0;
    if (!kg_reach(g, &sink, 1, &order, &count)) return kn_oom(s->f), 0;
    for (uint32_t at = count; at-- > 0 && !*n;) {
        kn_ref c = order[at];
        if ((kg_op(g, c) != KN_OP_END && kg_op(g, c) != KN_OP_REDUCE) || kg_is_prefix(g, c)) continue;
        for (uint32_t k = 1; k < kg_nsrc(g, c); k++) {
            int64_t id = kg_field(g, kg_at(g, c, k), KN_F_RANGE_id);
            for (int i = 0; i < s->nest->norigin && id < s->first_id && *n < KN_MAX_NEST; i++)
                if (s->nest->origin[i].id == id) origins[(*n)++] = i;
        }
        if (*n) found = c;
    }
    kn_free(kg_alloc(s->g), order, count * sizeof *order);
    return found;
}

kn_ref ko_apply(kn_graph *g, kn_ref sink, const kn_nest *nest, ko_panels *panels, kn_fault *f) {
    ko_state s = {.g = g, .nest = nest, .panels = panels, .f = f};
    int      origins[KN_MAX_NEST], n;
    kn_ref   old;
    for (int i = 0; i < nest->norigin; i++) s.first_id = KN_MAX(s.first_id, nest->origin[i].id + 1);
    s.next_id = s.first_id;
    for (kn_ref x = 1; x < kg_count(g); x++)
        if (kg_op(g, x) == KN_OP_BUFFER) s.next_local = KN_MAX(s.next_local, kg_field(g, x, KN_F_BUFFER_slot) + 1);
    if (!assign_axes(&s, sink, f)) return 0;
    /* outermost closers first, so that each copy of an inner loop gets ranges of its own */
    while (sink && (old = next_closer(&s, sink, origins, &n))) {
        kg_made_of(g, g, old);
        kn_ref now = apply_closer(&s, old, origins, n);
        bool   sum = kg_op(g, old) == KN_OP_REDUCE;
        sink       = sum ? kg_reduce_replace(g, sink, old, now) : now ? kg_substitute(g, sink, &old, &now, 1) : 0;
    }
    for (int i = 0; i < nest->nmemory && sink && !f->code; i++) sink = ko_apply_memory(&s, sink, &nest->memory[i]);
    kn_free(kg_alloc(g), s.place, s.place_cap * sizeof *s.place);
    if (!sink && !f->code && !kg_fault(g)->code)
        kn_fail(f, KN_ERR_INTERNAL, "optimize: the options could not be applied");
    return f->code ? 0 : sink;
}
