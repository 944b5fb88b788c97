/* opts.c - the nest summary, and the OptOps on it: look-ups and edits of the summary, no rewriting. */
#include "optimize/opts.h"

#include <string.h>

/* ---- the nest ------------------------------------------------------------------------------------------------ */

static int origin_of(const kn_nest *nest, kn_ref range) {
    for (int o = 0; o < nest->norigin; o++)
        if (nest->origin[o].range == range) return o;
    return -1;
}

static bool fills_local(const kn_graph *g, kn_ref effect) {
    return kg_op(g, effect) == KN_OP_STORE && kg_space(g, kg_at(g, effect, 0)) == KN_LOCAL;
}

static bool add_origin(kn_graph *g, kn_nest *nest, kn_ref closer, kn_ref r, bool reduce, kn_fault *f) {
    kn_ref b = kg_at(g, r, 0);
    if (nest->nloop == KN_MAX_NEST) return kn_fail(f, KN_ERR_UNSUPPORTED, "optimize: more than %d loops", KN_MAX_NEST);
    bool    moving = kg_op(g, b) != KN_OP_CONST;
    int64_t e      = moving ? KN_MAX(kg_max(g, b), 0) : kg_const_int(g, b);
    int     type   = (int)kg_field(g, r, KN_F_RANGE_type);
    nest->origin[nest->norigin] = (kn_origin){.range = r, .closer = closer, .id = kg_field(g, r, KN_F_RANGE_id),
                                              .extent = e, .moving = moving, .reduce = reduce,
                                              .carried   = !reduce && type == KN_AXIS_REDUCE,
                                              .fills     = !reduce && fills_local(g, kg_at(g, closer, 0)),
                                              .tail_type = KN_AXIS_LOOP};
    nest->loop[nest->nloop++]   = (kn_loop){nest->norigin++, e, 1, type, 0, moving, KN_CARRY_NONE};
    return true;
}

/* What a kernel must look like for the sums of a REDUCE to be kept in memory: one END, one plain store, and of the
 * value nothing but that sum runs over loops of its own. */
static void see_carry(kn_graph *g, kn_nest *nest, const kn_ref *order, uint32_t n) {
    kn_ref end = 0;
    int    ends = 0;
    for (uint32_t i = 0; i < n; i++)
        if (kg_op(g, order[i]) == KN_OP_END) end = order[i], ends++;
    for (int o = 0; o < nest->norigin; o++) {
        kn_origin *or = &nest->origin[o];
        if (!or->reduce) continue;
        kn_ref st = end ? kg_at(g, end, 0) : 0;
        if (kg_is_fold(g, or->closer)) or->no_carry = "a fold keeps its values in registers";
        else if (ends != 1 || kg_op(g, st) != KN_OP_STORE || kg_nsrc(g, st) != 2)
            or->no_carry = "the kernel does more than one plain store in one nest of loops";
        else if (!kg_ranges_within(g, or->closer, st))
            or->no_carry = "its sum stands in another reduction";
        else or->end = end;
        for (int p = 0; p < nest->norigin; p++) {
            if (!nest->origin[p].reduce || !kg_depends(g, or->closer, nest->origin[p].range)) continue;
            nest->origin[p].sums = true;
            if (!or->no_carry) or->no_carry = "its sum stands in another reduction";
        }
        for (int p = 0; p < nest->norigin && !or->no_carry; p++)
            if (nest->origin[p].moving || nest->origin[p].scanned)
                or->no_carry = "a loop's bound moves, or a prefix runs along it";
    }
}

/* The PARAM or BUFFER that an access goes to. */
static kn_ref accessed_in(const kn_graph *g, kn_ref access) {
    kn_ref b = kg_at(g, access, 0);
    while (kg_op(g, b) != KN_OP_PARAM && kg_op(g, b) != KN_OP_BUFFER) b = kg_at(g, b, 0);
    return b;
}

bool ko_nest(kn_graph *g, kn_ref sink, kn_nest *nest, kn_fault *f) {
    kn_ref  *order;
    uint32_t n;
    bool     ok = true;
    nest->norigin = nest->nloop = nest->nmemory = 0;
    if (!kg_reach(g, &sink, 1, &order, &n)) return kn_oom(f);
    for (int pass = 0; pass < 2 && ok; pass++)       /* outer ENDs first: they have the higher ids; then reductions */
        for (uint32_t i = n; i-- > 0 && ok;) {
            kn_ref c = order[i];
            if (kg_op(g, c) != (pass ? KN_OP_REDUCE : KN_OP_END) || kg_is_prefix(g, c)) continue;
            for (uint32_t s = 1; s < kg_nsrc(g, c) && ok; s++) ok = add_origin(g, nest, c, kg_at(g, c, s), pass, f);
        }
    for (int o = 0; o < nest->norigin; o++)
        for (int p = 0; p < nest->norigin && nest->origin[o].moving; p++)
            if (kg_depends(g, kg_at(g, nest->origin[o].range, 0), nest->origin[p].range))
                nest->origin[o].on |= UINT64_C(1) << p;
    nest->ordered = false;
    for (uint32_t i = 0; i < n; i++) {
        if (kg_op(g, order[i]) == KN_OP_AFTER) nest->ordered |= kg_op(g, kg_at(g, order[i], 0)) == KN_OP_PARAM;
        if (kg_is_prefix(g, order[i])) {
            int o = origin_of(nest, kg_at(g, order[i], 1));
            if (o >= 0) nest->origin[o].scanned = true;
        }
        if (kg_op(g, order[i]) != KN_OP_STORE) continue;
        for (int o = 0; o < nest->norigin; o++) { /* the address does not tell iterations apart */
            kn_origin *or = &nest->origin[o];
            if (!kg_depends(g, order[i], or->range) || kg_depends(g, kg_at(g, kg_at(g, order[i], 0), 1), or->range))
                continue;
            *(kg_space(g, kg_at(g, order[i], 0)) == KN_LOCAL ? &or->staged : &or->meets) = true;
        }
    }
    see_carry(g, nest, order, n);
    nest->in_place = false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; kg_op(g, order[i]) == KN_OP_STORE && k < n && !nest->in_place; k++)
            nest->in_place = kg_op(g, order[k]) == KN_OP_LOAD && accessed_in(g, order[k]) == accessed_in(g, order[i]) &&
                             kg_op(g, accessed_in(g, order[k])) == KN_OP_PARAM;
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return ok;
}

/* ---- edits --------------------------------------------------------------------------------------------------- */

static bool refuse(kn_fault *f, const kn_opt *o, const char *why) {
    kn_str s;
    kn_str_init(&s, NULL);
    ko_print_opts(o, 1, &s);
    kn_fail(f, KN_ERR_ARG, "%s: %s", kn_str_c(&s), why);
    kn_str_free(&s);
    return false;
}

/* Is the bound of some loop read from this one? closer: one of that END or REDUCE; 0: an output loop's. */
static bool bounds_on(const kn_nest *nest, int origin, kn_ref closer) {
    for (int o = 0; o < nest->norigin; o++)
        if ((nest->origin[o].on >> origin & 1) &&
            (closer ? nest->origin[o].closer == closer : !nest->origin[o].reduce))
            return true;
    return false;
}

static int pieces_of(const kn_nest *nest, int origin) {
    int n = 0;
    for (int i = 0; i < nest->nloop; i++) n += nest->loop[i].origin == origin;
    return n;
}

static bool target_fits(const kn_origin *or, int target) {
    return or->reduce ? target == KN_AXIS_REDUCE || target == KN_AXIS_GROUP_REDUCE || target == KN_AXIS_UNROLL
                      : target == KN_AXIS_LOOP || target == KN_AXIS_THREAD || target == KN_AXIS_UPCAST;
}

static const char threads_outside[] = "threads share no loop inside a reduction";

/* Why the SPLIT cannot be, or NULL. */
static const char *split_fault(const kn_nest *nest, const kn_opt *o) {
    const kn_loop   *l  = &nest->loop[o->axis];
    const kn_origin *or = &nest->origin[l->origin];
    if (!target_fits(or, o->target))
        return or->reduce ? "a reduction splits into REDUCE, GROUP_REDUCE or UNROLL"
                          : "an output loop splits into LOOP, THREAD or UPCAST";
    bool tile = ko_is_lane(l->type) && l->type == o->target && o->arg > 0 && l->extent % o->arg == 0; /* of lanes */
    if (l->type != KN_AXIS_LOOP && l->type != KN_AXIS_REDUCE && l->type != KN_AXIS_GLOBAL && !tile)
        return "the loop is already expanded or parallel";
    bool wider = o->tail == KN_TAIL_MASK && ko_is_lane(o->target) && o->arg / 2 < l->extent; /* of masked lanes */
    if (o->arg < 1 || (o->arg > l->extent && !wider)) return "the factor must be between 1 and the loop's extent";
    if (or->carried || (or->meets && o->target == KN_AXIS_UPCAST))
        return "its iterations meet in memory and must run in order";
    bool last = !o->top && !tile && l->stride == 1; /* lanes whose iterations follow one another */
    if (or->scanned && o->target != KN_AXIS_LOOP && (o->target != KN_AXIS_UPCAST || !last))
        return "a prefix runs along it, so its iterations run in order";
    if (l->carry && o->target != KN_AXIS_REDUCE) return "its sums are carried in memory";
    if (o->target == KN_AXIS_UPCAST && bounds_on(nest, l->origin, 0))
        return "another output loop's bound is read from it";
    if (or->reduce && o->target != KN_AXIS_REDUCE && bounds_on(nest, l->origin, or->closer))
        return "the bound of another loop of the reduction is read from it";
    if (o->target == KN_AXIS_THREAD && or->fills) return "each thread has LOCAL memory of its own, and fills all of it";
    if (o->target == KN_AXIS_THREAD && nest->ordered && or->closer != nest->origin[0].closer)
        return "a thread could read what another has yet to write";
    for (int i = 0; i < nest->nloop && o->target == KN_AXIS_THREAD; i++) {
        if (nest->loop[i].type == KN_AXIS_THREAD) return "the kernel has a THREAD loop already";
        if (i < o->axis && nest->origin[nest->loop[i].origin].reduce) return threads_outside;
    }
    for (int i = 0; i < nest->nloop && ko_is_lane(o->target); i++) {
        const kn_loop *at = &nest->loop[i];
        bool own = at->with && (at->origin == l->origin || at->with == l->origin + 1);
        if (own || (at->with && o->target == KN_AXIS_GROUP_REDUCE)) return "its lanes are joined with others";
    }
    if (nest->nloop + 1 > KN_MAX_NEST) return "too many loops";
    bool whole = o->arg == l->extent && o->top;
    bool unrolls = ko_is_lane(o->target) || o->target == KN_AXIS_UNROLL;
    if (l->whole && o->top && (!whole || unrolls)) return "the loop's length is not known";
    bool bounds = false;
    for (int i = 0; i < nest->norigin; i++) bounds |= nest->origin[i].on >> l->origin & 1;
    bool left = l->whole ? !whole : l->extent % o->arg != 0;
    if (left && (pieces_of(nest, l->origin) > 1 || or->split))
        return "the factor must divide a loop that was split before";
    if (left && o->tail == KN_TAIL_MASK && or->scanned) return "a prefix runs along it; its tail is peeled";
    if (left && o->tail != KN_TAIL_PEEL && (or->staged || bounds))
        return "bounds or stages depend on the loop; its tail is peeled";
    if (left && o->tail == KN_TAIL_PAD && or->sums) /* of two that are one some terms would have the gate */
        return "another sum in it depends on the loop; its tail is peeled";
    if (left && o->tail == KN_TAIL_PAD && or->scanned) return "a prefix runs along it; its tail is peeled";
    return NULL;
}

static bool edit_split(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    kn_loop    *l   = &nest->loop[o->axis];
    kn_origin  *or  = &nest->origin[l->origin];
    const char *why = split_fault(nest, o);
    if (why) return refuse(f, o, why);
    int64_t rest = l->extent / o->arg, left = l->extent % o->arg;
    bool    cuts = l->whole ? !(o->top && o->arg == l->extent) : left != 0;
    if (cuts) {
        or->split     = true;
        or->tail_kind = o->tail;
        or->tail      = l->whole ? o->arg : left;
        bool lanes = o->target == (or->reduce ? KN_AXIS_GROUP_REDUCE : KN_AXIS_UPCAST) && !l->whole;
        or->tail_type = lanes ? o->target : or->reduce ? KN_AXIS_REDUCE : KN_AXIS_LOOP;
        if (o->tail != KN_TAIL_PEEL && left) rest++; /* the round that is not full */
    }
    int64_t outer = o->top ? o->arg : rest, inner = o->top ? rest : o->arg;
    kn_loop out = *l, in = *l;
    out.extent  = outer;
    out.stride  = l->stride * inner;
    in.extent   = inner;
    in.whole    = false;
    in.carry    = outer == 1 ? l->carry : KN_CARRY_NONE;
    (o->top ? &out : &in)->type = o->target;
    if (outer == 1 && !out.whole && (inner > 1 || !o->top)) { /* of an iteration that is left of many, the target's */
        *l = in;
    } else if (inner == 1) {
        *l = out;
    } else {
        memmove(l + 2, l + 1, (size_t)(nest->nloop - o->axis - 1) * sizeof *l);
        l[0] = out;
        l[1] = in;
        nest->nloop++;
    }
    return true;
}

/* Some piece of it beside its lanes is a loop. */
static bool leaves_loops(const kn_origin *o) {
    bool tail = o->split && o->tail_kind == KN_TAIL_PEEL && o->tail > 1 && !ko_is_lane(o->tail_type);
    return o->front > o->round || o->back > o->round || tail;
}

static const char needs_carry[] = "a reduction outside an output loop needs its sums kept: CARRY it first";

/* Why the loops cannot stand in this order, or NULL. */
static const char *order_fault(const kn_nest *nest) {
    for (int a = 0; a < nest->nloop; a++)
        for (int b = a + 1; b < nest->nloop; b++) {
            const kn_loop   *x = &nest->loop[a], *y = &nest->loop[b];
            const kn_origin *p = &nest->origin[x->origin], *q = &nest->origin[y->origin];
            if ((p->on >> y->origin & 1) && !ko_is_lane(y->type)) return "a loop's bound is read from a loop inside it";
            if (p->closer == q->closer && p->scanned && !q->scanned && (!ko_is_lane(y->type) || leaves_loops(q)))
                return "a prefix runs along the loop, so it stays innermost";
            if (p->scanned && x->origin == y->origin && x->stride < y->stride)
                return "a prefix runs along the loop, so its parts keep their order";
            if (p->reduce && !q->reduce && (!x->carry || p->end != q->closer))
                return needs_carry;
            if (p->reduce && y->type == KN_AXIS_THREAD) return threads_outside;
        }
    return NULL;
}

static bool edit_peel(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    kn_loop   *l  = &nest->loop[o->axis];
    kn_origin *or = &nest->origin[l->origin];
    if (or->moving) return refuse(f, o, "the loop's length is not known");
    if (or->carried) return refuse(f, o, "its iterations meet in memory and must run in order");
    if (l->carry) return refuse(f, o, "its sums are carried in memory");
    bool rest = or->split && or->tail_kind == KN_TAIL_PEEL && l->stride > 1; /* it stays behind the rounds */
    if (or->split && !rest) return refuse(f, o, "a loop whose tail is masked or padded");
    if (or->front || or->back) return refuse(f, o, "a loop that was peeled before");
    if (l->stride * l->extent + (rest ? or->tail : 0) != or->extent)
        return refuse(f, o, "only the outermost of a loop's parts");
    if (l->stride > 1 && or->scanned) return refuse(f, o, "a prefix runs along it; PEEL before SPLIT");
    if (o->arg < 0 || o->more < 0 || o->arg + o->more < 1 || o->arg >= l->extent || o->more >= l->extent - o->arg)
        return refuse(f, o, "the middle must keep an iteration");
    if (o->target < 0 || (o->target && (o->arg % o->target || o->more % o->target)))
        return refuse(f, o, "parts that do not divide what is cut off");
    if (o->target && KN_MAX(o->arg, o->more) / o->target > KO_MOST_PARTS) return refuse(f, o, "too many parts");
    or->part  = o->target * l->stride;
    or->front = o->arg * l->stride;
    or->back  = o->more * l->stride;
    or->round = l->stride;
    l->extent -= o->arg + o->more;
    const char *why = order_fault(nest);
    if (!why) return true;
    or->front = or->back = or->round = or->part = 0;
    l->extent += o->arg + o->more;
    return refuse(f, o, why);
}

static bool edit_carry(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    kn_loop   *l  = &nest->loop[o->axis];
    kn_origin *or = &nest->origin[l->origin];
    if (!or->reduce || l->type != KN_AXIS_REDUCE) return refuse(f, o, "only a REDUCE loop carries sums");
    if (l->extent < 2) return refuse(f, o, "the loop runs once");
    for (int i = 0; i < nest->nloop; i++)
        if (nest->loop[i].with) return refuse(f, o, "the sum's lanes are joined with others");
    if (nest->in_place && o->target == KN_CARRY_OUT) return refuse(f, o, "the kernel reads what it stores over");
    if (or->no_carry) return refuse(f, o, or->no_carry);
    if (or->split && or->tail_kind != KN_TAIL_PEEL) return refuse(f, o, "the loop's tail must be peeled");
    for (int i = 0; i < nest->nloop; i++)
        if (nest->loop[i].carry) return refuse(f, o, "a kernel carries the sums of one loop");
    l->carry = (kn_carry)o->target;
    return true;
}

int64_t ko_peeled(const kn_nest *nest, int loop) {
    const kn_origin *o = &nest->origin[nest->loop[loop].origin];
    return o->round && nest->loop[loop].stride == o->round ? (o->front + o->back) / o->round : 0;
}

int ko_lanes_with(const kn_nest *nest, int loop) {
    for (int l = 0; l < nest->nloop; l++)
        if (nest->loop[loop].with == nest->loop[l].origin + 1 && nest->loop[l].type == KN_AXIS_UPCAST) return l;
    return -1;
}

int ko_innermost_of(const kn_nest *nest, int loop) {
    for (int in = loop; in >= 0; in = nest->loop[in].with ? ko_lanes_with(nest, in) : -1) loop = in;
    return loop;
}

static bool is_stage_inside(const kn_opt *o) { return o->op == KN_OPT_STAGE && o->axis != KN_STAGE_GLOBAL; }

static const char staged_joined[] = "what a stage holds is not joined";

/* The one lane loop of its origin. */
static bool is_all_lanes(const kn_nest *nest, int loop, int type) {
    int lanes = 0;
    for (int l = 0; l < nest->nloop; l++)
        lanes += nest->loop[l].origin == nest->loop[loop].origin && ko_is_lane(nest->loop[l].type);
    return nest->loop[loop].type == type && lanes == 1;
}

/* Why lanes that a sum has of its own cannot be joined with a loop's outside it, or NULL. */
static const char *join_sum_fault(const kn_nest *nest, int sum) {
    for (int i = 0; i < nest->norigin; i++)
        if (nest->origin[i].reduce && nest->origin[i].closer != nest->origin[nest->loop[sum].origin].closer)
            return "the kernel has another sum";
    for (int i = 0; i < nest->nloop; i++) {
        if (nest->loop[i].with) return "a kernel joins the lanes of a sum, or those of loops outside";
        if (i != sum && nest->loop[i].type == KN_AXIS_GROUP_REDUCE) return "the sum has other lanes";
    }
    return NULL;
}

/* Why lanes of two output loops cannot be joined, or NULL. */
static const char *join_loops_fault(const kn_nest *nest, const kn_loop *a, const kn_loop *b) {
    const kn_origin *p = &nest->origin[a->origin], *q = &nest->origin[b->origin];
    if (a == b || p->closer != q->closer) return "the loops belong to different nests";
    if (a->with) return "its lanes are joined";
    for (int i = 0; i < nest->nloop; i++) {
        if (nest->loop[i].type == KN_AXIS_GROUP_REDUCE) return "a sum has lanes of its own";
        if (nest->loop[i].with == b->origin + 1) return "its lanes are joined";
    }
    for (const kn_loop *in = b; in->with; in = &nest->loop[ko_lanes_with(nest, (int)(in - nest->loop))])
        if (in->with == a->origin + 1) return "its lanes are joined";
    return NULL;
}

static bool edit_join(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    if (o->arg < 0 || o->arg >= nest->nloop) return refuse(f, o, "no such loop");
    kn_loop         *a = &nest->loop[o->axis], *b = &nest->loop[o->arg];
    const kn_origin *p = &nest->origin[a->origin];
    bool             sum = a->type == KN_AXIS_GROUP_REDUCE;
    if (!is_all_lanes(nest, o->axis, sum ? KN_AXIS_GROUP_REDUCE : KN_AXIS_UPCAST) ||
        !is_all_lanes(nest, (int)o->arg, KN_AXIS_UPCAST))
        return refuse(f, o, "only lanes, with those of an output loop, which are all of its");
    const kn_origin *q = &nest->origin[b->origin];
    if (p->staged || q->staged) return refuse(f, o, "a stage is filled anew for each of them");
    if (p->scanned || q->scanned) return refuse(f, o, "a prefix runs along them");
    for (int i = 0; i < nest->nmemory; i++)
        if (is_stage_inside(&nest->memory[i])) return refuse(f, o, staged_joined);
    for (int i = 0; i < nest->nloop; i++)
        if (nest->loop[i].carry) return refuse(f, o, "the sums are carried in memory");
    const char *why = sum ? join_sum_fault(nest, o->axis) : join_loops_fault(nest, a, b);
    if (why) return refuse(f, o, why);
    a->with = b->origin + 1;
    return true;
}

static bool edit_swap(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    if (o->arg < 0 || o->arg >= nest->nloop) return refuse(f, o, "no such loop");
    kn_loop   *a = &nest->loop[o->axis], *b = &nest->loop[o->arg];
    kn_origin *p = &nest->origin[a->origin], *q = &nest->origin[b->origin];
    bool       carries = (a->carry && p->end == q->closer) || (b->carry && q->end == p->closer);
    if (p->closer != q->closer && !carries)
        return refuse(f, o, p->reduce != q->reduce ? needs_carry : "the loops belong to different nests");
    kn_loop t = *a;
    *a        = *b;
    *b        = t;
    const char *why = order_fault(nest);
    if (!why) return true;
    *b = *a;
    *a = t;
    return refuse(f, o, why);
}

bool ko_edit(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    if (o->op == KN_OPT_STAGE || o->op == KN_OPT_PREFETCH || o->op == KN_OPT_STREAM) {
        if (nest->nmemory == KN_MAX_STAGES) return refuse(f, o, "too many options on memory");
        if (o->op == KN_OPT_STAGE && (o->axis < KN_STAGE_GLOBAL || o->axis >= nest->nloop))
            return refuse(f, o, "no such loop");
        for (int l = 0; l < nest->nloop && is_stage_inside(o); l++)
            if (nest->loop[l].with) return refuse(f, o, staged_joined);
        nest->memory[nest->nmemory++] = *o;
        return true;
    }
    if (o->axis < 0 || o->axis >= nest->nloop) return refuse(f, o, "no such loop");
    switch (o->op) {
    case KN_OPT_SPLIT: return edit_split(nest, o, f);
    case KN_OPT_PEEL: return edit_peel(nest, o, f);
    case KN_OPT_JOIN: return edit_join(nest, o, f);
    case KN_OPT_CARRY: return edit_carry(nest, o, f);
    default: return edit_swap(nest, o, f);
    }
}
