/* opts.c - the nest summary, and the OptOps on it: look-ups and edits of the summary, no rewriting. */
#include "optimize/opts.h"

#include <string.h>

/* ---- the nest ------------------------------------------------------------------------------------------------ */

bool ko_nest(kn_graph *g, kn_ref sink, kn_nest *nest, kn_fault *f) {
    kn_ref  *order;
    uint32_t n;
    bool     ok = true;
    nest->norigin = nest->nloop = nest->nstage = 0;
    if (!kg_reach(g, &sink, 1, &order, &n)) return kn_oom(f);
    for (int pass = 0; pass < 2 && ok; pass++)       /* outer ENDs first: they have the higher ids; then reductions */
        for (uint32_t i = n; i-- > 0 && ok;) {
            kn_ref c = order[i];
            if (kg_op(g, c) != (pass ? KN_OP_REDUCE : KN_OP_END)) continue;
            for (uint32_t s = 1; s < kg_nsrc(g, c) && ok; s++) {
                kn_ref r = kg_at(g, c, s), b = kg_at(g, r, 0);
                if (kg_op(g, b) != KN_OP_CONST)
                    ok = kn_fail(f, KN_ERR_UNSUPPORTED, "optimize: a loop bound is not constant");
                else if (nest->nloop == KN_MAX_NEST)
                    ok = kn_fail(f, KN_ERR_UNSUPPORTED, "optimize: more than %d loops", KN_MAX_NEST);
                else {
                    int64_t e = kg_const_int(g, b);
                    int     type = (int)kg_field(g, r, KN_F_RANGE_type);
                    nest->origin[nest->norigin] =
                        (kn_origin){r, c, e, pass == 1, pass == 0 && type == KN_AXIS_REDUCE, false, 0, KN_AXIS_LOOP};
                    nest->loop[nest->nloop++] = (kn_loop){nest->norigin++, e, 1, type};
                }
            }
        }
    nest->ordered = false;
    for (uint32_t i = 0; i < n; i++) {
        if (kg_op(g, order[i]) == KN_OP_AFTER) nest->ordered |= kg_op(g, kg_at(g, order[i], 0)) == KN_OP_PARAM;
        if (kg_op(g, order[i]) != KN_OP_STORE || kg_space(g, kg_at(g, order[i], 0)) != KN_LOCAL) continue;
        for (int o = 0; o < nest->norigin;
             o++) /* the stage is filled in this loop, and its address does not tell iterations apart */
            nest->origin[o].staged |= kg_depends(g, order[i], nest->origin[o].range) &&
                                      !kg_depends(g, kg_at(g, kg_at(g, order[i], 0), 1), nest->origin[o].range);
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return ok;
}

static bool refuse(kn_fault *f, const kn_opt *o, const char *why) {
    return kn_fail(f, KN_ERR_ARG, "%s of loop %d by %lld: %s", o->op == KN_OPT_SPLIT ? "SPLIT" : "SWAP", o->axis,
                   (long long)o->arg, why);
}

static bool edit_split(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    kn_loop   *l  = &nest->loop[o->axis];
    kn_origin *or = &nest->origin[l->origin];
    bool ok       = or->reduce
                        ? o->target == KN_AXIS_REDUCE || o->target == KN_AXIS_GROUP_REDUCE ||
                              o->target == KN_AXIS_UNROLL
                        : o->target == KN_AXIS_LOOP || o->target == KN_AXIS_THREAD || o->target == KN_AXIS_UPCAST;
    if (!ok)
        return refuse(f, o, or->reduce ? "a reduction splits into REDUCE, GROUP_REDUCE or UNROLL"
                                       : "an output loop splits into LOOP, THREAD or UPCAST");
    if (l->type != KN_AXIS_LOOP && l->type != KN_AXIS_REDUCE && l->type != KN_AXIS_GLOBAL)
        return refuse(f, o, "the loop is already expanded or parallel");
    if (o->arg < 1 || o->arg > l->extent) return refuse(f, o, "the factor must be between 1 and the loop's extent");
    if (or->staged && ko_is_lane(o->target))
        return refuse(f, o, "values staged in LOCAL memory belong to one iteration of it");
    if (or->carried) return refuse(f, o, "its iterations meet in memory and must run in order");
    if (o->target == KN_AXIS_THREAD && nest->ordered && or->closer != nest->origin[0].closer)
        return refuse(f, o, "a thread could read what another has yet to write");
    if (o->target == KN_AXIS_THREAD)
        for (int i = 0; i < nest->nloop; i++)
            if (nest->loop[i].type == KN_AXIS_THREAD) return refuse(f, o, "the kernel has a THREAD loop already");
    if (nest->nloop + 1 > KN_MAX_NEST) return refuse(f, o, "too many loops");
    int64_t rest = l->extent / o->arg, left = l->extent % o->arg;
    if (left) { /* PEEL: what is left over runs in a loop of its own */
        int64_t covered = 0;
        for (int i = 0; i < nest->nloop; i++) covered += nest->loop[i].origin == l->origin;
        if (covered > 1 || or->tail) return refuse(f, o, "the factor must divide a loop that was split before");
        or->tail      = left;
        or->tail_type = or->reduce ? KN_AXIS_REDUCE : o->target == KN_AXIS_UPCAST ? KN_AXIS_UPCAST : KN_AXIS_LOOP;
    }
    int64_t outer = o->top ? o->arg : rest, inner = o->top ? rest : o->arg;
    kn_loop out = *l, in = *l;
    out.extent  = outer;
    out.stride  = l->stride * inner;
    in.extent   = inner;
    (o->top ? &out : &in)->type = o->target;
    if (outer == 1) {
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

bool ko_edit(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    if (o->op == KN_OPT_STAGE) {
        if (nest->nstage == KN_MAX_STAGES) return kn_fail(f, KN_ERR_ARG, "STAGE: more than %d", KN_MAX_STAGES);
        nest->stage[nest->nstage++] = o->arg;
        return true;
    }
    if (o->axis < 0 || o->axis >= nest->nloop) return refuse(f, o, "no such loop");
    if (o->op == KN_OPT_SPLIT) return edit_split(nest, o, f);
    if (o->arg < 0 || o->arg >= nest->nloop) return refuse(f, o, "no such loop");
    kn_loop *a = &nest->loop[o->axis], *b = &nest->loop[o->arg];
    if (nest->origin[a->origin].closer != nest->origin[b->origin].closer)
        return refuse(f, o, "the loops belong to different nests");
    kn_loop t = *a;
    *a        = *b;
    *b        = t;
    return true;
}
