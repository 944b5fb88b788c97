/* pieces.c - a closer's ranges in pieces: the main part that the factors divide, what is left over, what was
 * peeled off, and of a sum whose bound differs from lane to lane the part that not all lanes have.
 *
 * Takes: an END or REDUCE whose ranges the nest cut up. Gives: for each combination of pieces the new ranges, and the
 * body over them. Iterations that a piece makes up (MASK, PAD, the lanes' rest) change nothing: their loads stay in
 * bounds, their stores do not happen, sums take the identity for them. */
#include "optimize/apply.h"

#include <string.h>

kn_ref ko_new_range(ko_state *s, kn_ref bound, int type, int slot, int place) {
    int64_t w[KN_RANGE_WORDS] = {s->next_id, type, 0, ko_is_lane(type) ? slot : 0};
    size_t  at                = (size_t)(s->next_id++ - s->first_id);
    if (!KN_GROW(kg_alloc(s->g), s->place, s->place_cap, at + 1)) return kn_oom(s->f), 0;
    s->place[at] = place;
    return bound ? kg_make(s->g, KN_OP_RANGE, 0, kg_intern_words(s->g, w, KN_RANGE_WORDS), &bound, 1) : 0;
}

int ko_place(const ko_state *s, kn_ref range) {
    int64_t id = kg_field(s->g, range, KN_F_RANGE_id);
    return id < s->first_id || id >= s->next_id ? -1 : s->place[id - s->first_id];
}

/* ---- bounds that differ from lane to lane -------------------------------------------------------------------- */

static bool has_lanes(const kn_graph *g, kn_ref x) {
    kn_ref r[64];
    int    n = KN_MIN(kg_ranges(g, x, r, KN_COUNT(r)), KN_COUNT(r));
    while (n-- > 0)
        if (ko_is_lane((int)kg_field(g, r[n], KN_F_RANGE_type))) return true;
    return false;
}

typedef struct ko_span { kn_ref lo, hi; } ko_span;

static ko_span span_of(kn_graph *g, kn_ref x, const ko_span *a, const ko_span *b) {
    int op = kg_op(g, x), dt = kg_dtype(g, x);
    switch (dt == KN_INDEX ? op : KN_OP_CONST) { /* others wrap */
    case KN_OP_RANGE:
        if (!ko_is_lane((int)kg_field(g, x, KN_F_RANGE_type))) return (ko_span){x, x};
        return (ko_span){kg_idx(g, 0), kg_op2(g, KN_OP_ADD, a->hi, kg_idx(g, -1))};
    case KN_OP_ADD: case KN_OP_MIN: case KN_OP_MAX:
        return (ko_span){kg_op2(g, op, a->lo, b->lo), kg_op2(g, op, a->hi, b->hi)};
    case KN_OP_SUB: return (ko_span){kg_op2(g, op, a->lo, b->hi), kg_op2(g, op, a->hi, b->lo)};
    case KN_OP_MUL: case KN_OP_IDIV:
        if (kg_op(g, kg_at(g, x, 1)) == KN_OP_CONST) {
            int64_t c = kg_const_int(g, kg_at(g, x, 1));
            if (c >= 0)
                return (ko_span){kg_op2(g, op, a->lo, kg_at(g, x, 1)), kg_op2(g, op, a->hi, kg_at(g, x, 1))};
            if (op == KN_OP_MUL)
                return (ko_span){kg_op2(g, op, a->hi, kg_at(g, x, 1)), kg_op2(g, op, a->lo, kg_at(g, x, 1))};
        }
        break;
    default: break;
    }
    if (!has_lanes(g, x)) return (ko_span){x, x};
    return (ko_span){kg_int(g, dt, kg_min(g, x)), kg_int(g, dt, kg_max(g, x))};
}

/* The least and the most that x can be over all lanes, as values free of lanes. */
static bool span_over_lanes(ko_state *s, kn_ref x, ko_span *out) {
    kn_graph *g = s->g;
    kn_ref   *order;
    uint32_t  n;
    size_t    size = (size_t)x + 1;
    if (!kg_reach(g, &x, 1, &order, &n)) return kn_oom(s->f);
    ko_span *span = kn_zalloc(kg_alloc(g), size * sizeof *span);
    for (uint32_t i = 0; i < n && span; i++) {
        uint32_t m     = kg_nsrc(g, order[i]);
        span[order[i]] = span_of(g, order[i], m ? &span[kg_at(g, order[i], 0)] : NULL,
                                 m > 1 ? &span[kg_at(g, order[i], 1)] : NULL);
    }
    if (span) *out = span[x];
    bool ok = span || kn_oom(s->f);
    kn_free(kg_alloc(g), span, size * sizeof *span);
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return ok;
}

/* ---- pieces -------------------------------------------------------------------------------------------------- */

static int first_place(const kn_nest *nest, int origin) {
    for (int l = 0; l < nest->nloop; l++)
        if (nest->loop[l].origin == origin) return l;
    return 0;
}

/* How much of `size` elements that were peeled off at one end is one piece. Two rounds of lanes are a piece each: what
 * their gates let through is then known. */
static int64_t peeled_part(const ko_state *s, int origin, int64_t size) {
    const kn_origin *o = &s->nest->origin[origin];
    if (o->part) return o->part;
    if (o->reduce || o->round == 1 || size != 2 * o->round) return size;
    return s->nest->loop[first_place(s->nest, origin)].type != KN_AXIS_THREAD ? o->round : size;
}

unsigned ko_pieces(ko_state *s, kn_ref closer, int k, int origin) {
    const kn_origin *o = &s->nest->origin[origin];
    kn_ref           b = kg_at(s->g, kg_at(s->g, closer, (uint32_t)k + 1), 0);
    unsigned         m = 1u << KO_MAIN;
    if (o->split && o->tail_kind == KN_TAIL_PEEL) m |= 1u << KO_TAIL;
    for (int i = 0; i * peeled_part(s, origin, o->front) < o->front; i++) m |= 1u << (KO_FRONT + i);
    for (int i = 0; i * peeled_part(s, origin, o->back) < o->back; i++) m |= 1u << (KO_BACK + i);
    if (has_lanes(s->g, b)) m |= 1u << KO_REST;
    return m;
}

static bool add_loop(ko_state *s, ko_variant *v, kn_ref bound, int origin, int type, int slot, int place,
                     int64_t stride, kn_carry carry) {
    if (v->nloop == KN_MAX_NEST) return kn_fail(s->f, KN_ERR_UNSUPPORTED, "optimize: too many loops");
    kn_ref r = ko_new_range(s, bound, type, slot, place);
    int    at = v->nloop++;
    if (!r) return false;
    while (at > 0 && v->loop[at - 1].place > place) v->loop[at] = v->loop[at - 1], at--;
    v->loop[at].range  = r;
    v->loop[at].origin = origin;
    v->loop[at].place  = place;
    v->loop[at].stride = stride;
    v->loop[at].carry  = carry;
    return true;
}

static kn_ref sub(kn_graph *g, kn_ref a, kn_ref b) {
    return kg_op2(g, KN_OP_ADD, a, kg_op2(g, KN_OP_MUL, b, kg_idx(g, -1)));
}

static kn_ref both_gates(kn_graph *g, kn_ref a, kn_ref b) { return !a ? b : !b ? a : kg_op2(g, KN_OP_AND, a, b); }

/* The loops of the origin's main part over 0..bound-1; of what was peeled off, those of one of its rounds. */
static bool main_loops(ko_state *s, ko_variant *v, int origin, kn_ref bound, bool peeled) {
    const kn_nest   *nest = s->nest;
    const kn_origin *o    = &nest->origin[origin];
    kn_graph        *g    = s->g;
    for (int l = 0; l < nest->nloop; l++) {
        const kn_loop *at = &nest->loop[l];
        if (at->origin != origin || (at->extent == 1 && !at->whole)) continue;
        if (peeled && at->stride >= o->round) continue;
        kn_ref b = kg_idx(g, at->extent);
        if (at->whole) {
            b = bound;
            if (o->split && o->tail_kind != KN_TAIL_PEEL) b = kg_op2(g, KN_OP_ADD, b, kg_idx(g, at->stride - 1));
            if (at->stride > 1) b = kg_op2(g, KN_OP_IDIV, b, kg_idx(g, at->stride));
        }
        kn_carry carry = peeled ? KN_CARRY_NONE : at->carry;
        if (!add_loop(s, v, b, origin, at->type, s->slot[l], l, at->stride, carry)) return false;
    }
    return true;
}

/* The loops of what was peeled off, or left over, from *base on. */
static bool apart_loops(ko_state *s, ko_variant *v, int origin, int piece, int place, kn_ref *base) {
    const kn_origin *o      = &s->nest->origin[origin];
    bool             tail   = piece == KO_TAIL, back = piece >= KO_BACK;
    int64_t          size   = tail ? o->tail : back ? o->back : o->front, round = tail ? 1 : o->round;
    int64_t          behind = tail == (o->round > 1) ? 0 : tail ? o->back : o->tail; /* rounds have the tail behind */
    int64_t          from   = tail || back ? o->extent - size - behind : 0;
    int              type   = tail ? o->tail_type : o->reduce ? KN_AXIS_REDUCE : KN_AXIS_LOOP;
    if (!tail && s->nest->loop[place].type == KN_AXIS_THREAD) type = KN_AXIS_THREAD; /* threads share these too */
    if (!tail) {
        size = peeled_part(s, origin, size);
        from += (piece - (back ? KO_BACK : KO_FRONT)) * size;
    }
    *base = kg_idx(s->g, from);
    if (size > round && !add_loop(s, v, kg_idx(s->g, size / round), origin, type, s->tail_slot[origin], place, round,
                                  KN_CARRY_NONE))
        return false;
    return tail || main_loops(s, v, origin, 0, true);
}

bool ko_make_variant(ko_state *s, kn_ref closer, const int *origins, int n, const int *piece, ko_variant *v) {
    kn_graph *g = s->g;
    memset(v, 0, sizeof *v);
    for (int k = 0; k < n; k++) {
        const kn_origin *o     = &s->nest->origin[origins[k]];
        int              place = first_place(s->nest, origins[k]);
        kn_ref           r = kg_at(g, closer, (uint32_t)k + 1), b = kg_at(g, r, 0), gate = 0;
        kn_ref           own = v->nsub ? kg_substitute(g, b, v->from, v->to, v->nsub) : b, base = kg_idx(g, 0);
        ko_span          span = {own, own};
        kg_made_of(g, g, r);
        if (!own || (has_lanes(g, own) && !span_over_lanes(s, own, &span))) return false;
        if (piece[k] == KO_REST) {
            base = kg_op2(g, KN_OP_MAX, span.lo, kg_idx(g, 0));
            if (!add_loop(s, v, sub(g, span.hi, base), origins[k], KN_AXIS_REDUCE, 0, place, 1, KN_CARRY_NONE))
                return false;
            gate = own;
        } else if (piece[k] == KO_MAIN) {
            base = kg_idx(g, o->front);
            if (!main_loops(s, v, origins[k], span.lo, false)) return false;
            if (o->split && o->tail_kind != KN_TAIL_PEEL) /* what lies beyond is the lanes' rest */
                gate = o->moving ? span.lo : kg_idx(g, o->extent - o->back);
        } else if (piece[k] == KO_TAIL && o->moving) {
            base = kg_op2(g, KN_OP_MAX, span.lo, kg_idx(g, 0));
            base = kg_op2(g, KN_OP_MUL, kg_op2(g, KN_OP_IDIV, base, kg_idx(g, o->tail)), kg_idx(g, o->tail));
            if (!add_loop(s, v, sub(g, span.lo, base), origins[k], o->tail_type, 0, place, 1, KN_CARRY_NONE))
                return false;
        } else {
            if (!apart_loops(s, v, origins[k], piece[k], place, &base)) return false;
        }
        kn_ref sum = base;
        for (int l = 0; l < v->nloop; l++)
            if (v->loop[l].origin == origins[k]) {
                kn_ref part = v->loop[l].range;
                if (v->loop[l].stride != 1) part = kg_op2(g, KN_OP_MUL, part, kg_idx(g, v->loop[l].stride));
                sum = kg_is_const(g, sum, 0) ? part : kg_op2(g, KN_OP_ADD, sum, part);
            }
        if (!sum) return false;
        if (gate) v->gate[k] = kg_op2(g, KN_OP_CMPLT, sum, gate);
        if (gate && piece[k] == KO_MAIN && o->tail_kind == KN_TAIL_PAD)
            sum = kg_op2(g, KN_OP_MIN, sum, kg_op2(g, KN_OP_ADD, gate, kg_idx(g, -1)));
        v->own[k]        = piece[k] != KO_MAIN;
        v->base[k]       = base;
        v->from[v->nsub] = r;
        v->to[v->nsub++] = sum;
    }
    for (int l = 0; l < v->nloop; l++)
        for (int k = 0; k < n; k++)
            if (origins[k] == v->loop[l].origin) v->loop[l].closed = k;
    kg_made_of(g, g, closer);
    return true;
}

/* ---- the body ------------------------------------------------------------------------------------------------ */

/* The gates of the ranges that an access moves with. */
static kn_ref gates_of(const ko_state *s, const ko_variant *v, const int *origins, int n, const kn_ref *gate,
                       kn_ref x) {
    kn_ref all = 0;
    for (int k = 0; k < n; k++) {
        bool moves = false;
        for (int l = 0; l < v->nloop && !moves; l++)
            moves = v->loop[l].origin == origins[k] && kg_depends(s->g, x, v->loop[l].range);
        if (moves) all = both_gates(s->g, all, gate[k]);
    }
    return all;
}

typedef struct ko_gating {
    const ko_state   *s;
    const ko_variant *v;
    const int        *origins;
    int               n;
    const kn_ref     *gates;
    kn_ref            factor[2]; /* LOADs whose product is summed, 0: none */
} ko_gating;

static kn_ref gate_piece(void *user, kn_graph *g, kn_ref was, kn_ref now) {
    const ko_gating *by = user;
    int              op = kg_op(g, was);
    if (op != KN_OP_LOAD && op != KN_OP_STORE) return now;
    kn_ref at = kg_at(g, was, 0), gate = gates_of(by->s, by->v, by->origins, by->n, by->gates, was);
    bool factor = was == by->factor[0] || was == by->factor[1]; /* where both are 0, so is what is added */
    if (!gate || kg_op(g, at) != KN_OP_INDEX || (op == KN_OP_LOAD && !factor && kg_in_bounds(g, at))) return now;
    return kg_gate_access(g, now, gate);
}

/* Where a gate is false: loads that could leave their buffer do not happen, nor do stores. */
static kn_ref gate_accesses(ko_state *s, const ko_variant *v, const int *origins, int n, const kn_ref *gates,
                            bool sum, kn_ref x) {
    ko_gating by    = {s, v, origins, n, gates, {0, 0}};
    bool      again = false; /* added to what there is already: one instruction, where the product needs no mask */
    for (int l = 0; l < v->nloop; l++)
        again |= kg_field(s->g, v->loop[l].range, KN_F_RANGE_type) != KN_AXIS_GROUP_REDUCE;
    if (sum && again && kg_op(s->g, x) == KN_OP_MUL) {
        kn_ref a = kg_at(s->g, x, 0), b = kg_at(s->g, x, 1);
        if (kg_op(s->g, a) == KN_OP_LOAD && kg_op(s->g, b) == KN_OP_LOAD) by.factor[0] = a, by.factor[1] = b;
    }
    return kg_edit(s->g, x, gate_piece, &by);
}

/* A stage's buffer, the number of a lane in it, and how many have a place. */
typedef struct ko_room {
    kn_ref  was, now, lane;
    int64_t lanes;
} ko_room;

typedef struct ko_rooms {
    ko_room room[KO_MAX_ROOMS];
    int     n;
} ko_rooms;

/* The buffer that a STORE writes. */
static kn_ref stored_in(const kn_graph *g, kn_ref store) {
    kn_ref b = kg_at(g, store, 0);
    while (kg_op(g, b) != KN_OP_BUFFER) b = kg_at(g, b, 0);
    return b;
}

/* x for other iterations than the body's, in loops of its own: with buffers of its own for what is staged in them. */
static kn_ref copy_apart(ko_state *s, const ko_variant *v, const kn_ref *to, kn_ref x, kn_ref range, ko_rooms *rooms) {
    kn_graph *g = s->g;
    kn_ref   *order, from[KN_MAX_NEST + KO_MAX_ROOMS], now[KN_MAX_NEST + KO_MAX_ROOMS];
    uint32_t  count;
    int       n = v->nsub;
    bool      ok = true;
    memcpy(from, v->from, (size_t)n * sizeof *from);
    memcpy(now, to, (size_t)n * sizeof *now);
    if (!kg_reach(g, &x, 1, &order, &count)) return kn_oom(s->f), 0;
    for (uint32_t i = 0; i < count && ok; i++) {
        kn_ref st = order[i];
        if (kg_op(g, st) != KN_OP_STORE || kg_space(g, kg_at(g, st, 0)) != KN_LOCAL) continue;
        if (!kg_depends(g, st, range)) continue;
        kn_ref b = stored_in(g, st);
        int    at = 0;
        while (at < n && from[at] != b) at++;
        kn_ref had = at < n ? now[at] : b;
        if (!(ok = at < KN_COUNT(from) && rooms->n < KO_MAX_ROOMS)) break;
        now[at]  = kg_buffer(g, s->next_local++, kg_numel(g, had), kg_dtype(g, had), 0, KN_LOCAL);
        from[at] = b;
        n += at == n;
        for (int r = 0, all = rooms->n; r < all && at < v->nsub; r++)
            if (rooms->room[r].now == had) {
                rooms->room[rooms->n]       = rooms->room[r];
                rooms->room[rooms->n++].now = now[at];
                break;
            }
    }
    kn_free(kg_alloc(g), order, count * sizeof *order);
    if (!ok) return kn_fail(s->f, KN_ERR_UNSUPPORTED, "optimize: too many stages"), 0;
    return kg_substitute(g, x, from, now, n);
}

/* A prefix along a range that fell into parts: what stands before the piece, and the prefix along the piece's loops. */
static kn_ref own_prefix(ko_state *s, const ko_variant *v, int k, int origin, kn_ref p, ko_rooms *rooms) {
    kn_graph *g  = s->g;
    int       op = (int)kg_field(g, p, KN_F_REDUCE_op), n = 0;
    kn_ref    x = kg_at(g, p, 0), to[KN_MAX_NEST], loop[KN_MAX_NEST], before = 0;
    if (!kg_is_const(g, v->base[k], 0)) {
        memcpy(to, v->to, sizeof to);
        kn_ref q = to[k] = ko_new_range(s, v->base[k], KN_AXIS_REDUCE, 0, KN_MAX_NEST);
        kn_ref y         = q ? copy_apart(s, v, to, x, v->from[k], rooms) : 0;
        before           = y ? kg_reduce_ranges(g, y, op, &q, 1) : 0;
        if (!before) return 0;
    }
    for (int l = 0; l < v->nloop; l++)
        if (v->loop[l].origin == origin) loop[n++] = v->loop[l].range;
    kn_ref own = kg_substitute(g, x, v->from, v->to, v->nsub);
    if (own && n) own = kg_prefix(g, own, op, loop, n); /* else the piece is one iteration, without a loop */
    return own && before ? kg_op2(g, op, before, own) : own;
}

static kn_ref own_prefixes(ko_state *s, kn_ref closer, const int *origins, int n, ko_variant *v, kn_ref body,
                           ko_rooms *rooms) {
    kn_graph *g = s->g;
    kn_ref   *order;
    uint32_t  count;
    bool      ok = true;
    if (!kg_reach(g, &body, 1, &order, &count)) return kn_oom(s->f), 0;
    for (uint32_t i = 0; i < count && ok; i++) {
        if (!kg_is_prefix(g, order[i])) continue;
        for (int k = 0; k < n && ok; k++) {
            if (kg_at(g, closer, (uint32_t)k + 1) != kg_at(g, order[i], 1)) continue;
            if (kg_op(g, v->to[k]) == KN_OP_RANGE) continue;
            ok = v->nsub < KN_MAX_NEST || kn_fail(s->f, KN_ERR_UNSUPPORTED, "optimize: too many prefixes");
            kn_ref now = ok ? own_prefix(s, v, k, origins[k], order[i], rooms) : 0;
            if (!(ok = now != 0)) break;
            v->from[v->nsub] = order[i];
            v->to[v->nsub++] = now;
        }
    }
    kn_free(kg_alloc(g), order, count * sizeof *order);
    return ok ? body : 0;
}

/* Number among the lanes of the range's piece, and how many there are; 0: it has none. */
static kn_ref lanes_of(ko_state *s, const ko_variant *v, int origin, int64_t *count) {
    kn_graph *g  = s->g;
    kn_ref    at = 0;
    *count       = 1;
    for (int l = v->nloop; l-- > 0;) {
        kn_ref r = v->loop[l].range;
        if (v->loop[l].origin != origin || !ko_is_lane((int)kg_field(g, r, KN_F_RANGE_type))) continue;
        kn_ref part = kg_op2(g, KN_OP_MUL, r, kg_idx(g, *count));
        at          = at ? kg_op2(g, KN_OP_ADD, at, part) : part;
        *count *= kg_const_int(g, kg_at(g, r, 0));
    }
    return at;
}

/* Stages that are filled anew for each value of a range, which the address does not tell: a copy of the body gets
 * buffers of its own, and where the range became lanes, the buffer has as many of each element. */
static bool own_stages(ko_state *s, const int *origins, int n, kn_ref body, ko_variant *v, ko_rooms *rooms) {
    kn_graph *g = s->g;
    kn_ref   *order;
    uint32_t  count;
    bool      ok = true;
    rooms->n     = 0;
    if (!kg_reach(g, &body, 1, &order, &count)) return kn_oom(s->f);
    for (uint32_t i = 0; i < count && ok; i++) {
        kn_ref  st = order[i], lane = 0;
        int64_t lanes = 1;
        bool    moves = false, known = false, own = false;
        if (kg_op(g, st) != KN_OP_STORE || kg_space(g, kg_at(g, st, 0)) != KN_LOCAL) continue;
        kn_ref b = stored_in(g, st);
        for (int k = 0; k < n; k++) {
            kn_ref  r = v->from[k];
            int64_t more;
            if (!kg_depends(g, st, r) || kg_depends(g, kg_at(g, kg_at(g, st, 0), 1), r)) continue;
            kn_ref part = lanes_of(s, v, origins[k], &more);
            if (part) part = kg_op2(g, KN_OP_MUL, part, kg_idx(g, lanes));
            lane = !part ? lane : lane ? kg_op2(g, KN_OP_ADD, lane, part) : part;
            lanes *= more;
            moves = true;
            own |= v->own[k];
        }
        for (int k = 0; k < v->nsub; k++) known |= v->from[k] == b;
        if (!moves || known) continue;
        if (!own && !lane) { /* filled in loops that it shares, where the other piece has it */
            for (int k = 0; v->with && k < v->with->nstage && (ok = v->nsub < KN_MAX_NEST); k++) {
                if (v->with->stage[k] != b) continue;
                v->from[v->nsub] = b;
                v->to[v->nsub++] = v->with->filled[k];
            }
            continue;
        }
        int64_t size = kg_numel(g, b), item = kn_dsize(kg_dtype(g, b)), all = 0;
        if (!kn_mul_ok(size, lanes, &all) || all > KN_STAGE_BYTES / item)
            ok = kn_fail(s->f, KN_ERR_ARG, "optimize: %lld lanes of what is staged do not fit LOCAL memory",
                         (long long)lanes);
        if (v->nsub == KN_MAX_NEST || rooms->n == KO_MAX_ROOMS)
            ok = kn_fail(s->f, KN_ERR_UNSUPPORTED, "optimize: too many stages");
        if (!ok) break;
        kn_ref now       = kg_buffer(g, s->next_local++, all, kg_dtype(g, b), 0, KN_LOCAL);
        v->from[v->nsub] = b;
        v->to[v->nsub++] = now;
        if (lane) rooms->room[rooms->n++] = (ko_room){b, now, lane, lanes};
    }
    kn_free(kg_alloc(g), order, count * sizeof *order);
    return ok;
}

static kn_ref in_room(void *user, kn_graph *g, kn_ref was, kn_ref now) {
    const ko_rooms *all = user;
    kn_ref          b   = now;
    (void)was;
    if (kg_op(g, now) != KN_OP_INDEX || kg_nsrc(g, now) != 2 || kg_space(g, now) != KN_LOCAL) return now;
    while (kg_op(g, b) != KN_OP_BUFFER) b = kg_at(g, b, 0);
    for (int r = 0; r < all->n; r++) {
        const ko_room *room = &all->room[r];
        if (room->now != b) continue;
        kn_ref row = kg_op2(g, KN_OP_MUL, kg_at(g, now, 1), kg_idx(g, room->lanes));
        return kg_index(g, kg_at(g, now, 0), (kn_ref[]){kg_op2(g, KN_OP_ADD, row, room->lane)}, 1);
    }
    return now;
}

/* Addresses in the larger buffers: what lanes have of an element lies side by side. */
static kn_ref in_rooms(kn_graph *g, kn_ref x, ko_rooms *rooms) {
    return rooms->n ? kg_edit(g, x, in_room, rooms) : x;
}

kn_ref ko_variant_body(ko_state *s, kn_ref closer, const int *origins, int n, ko_variant *v, kn_ref body, int op) {
    kn_graph *g = s->g;
    ko_rooms  rooms;
    if (!own_stages(s, origins, n, body, v, &rooms)) return 0;
    if (op < 0 && !own_prefixes(s, closer, origins, n, v, body, &rooms)) return 0; /* over the stages' new buffers */
    kn_ref x = in_rooms(g, kg_substitute(g, body, v->from, v->to, v->nsub), &rooms);
    kn_ref gate = 0;
    for (int k = 0; k < n; k++) gate = both_gates(g, gate, v->gate[k]);
    if (!x || !gate) return x;
    x = gate_accesses(s, v, origins, n, v->gate, op == KN_OP_ADD, x);
    return x && op >= 0 ? kg_reduce_gated(g, closer, x, gate) : x;
}
