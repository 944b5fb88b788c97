/* choose.c - options by chance: each edits the nest or is refused by it. */
#include "choose.h"

#include <string.h>

enum { LARGEST_TILE = 128 }; /* elements of what is expanded */

uint64_t choose_draw(uint64_t *state, uint64_t n) {
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = (*state ^ (*state >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % n;
}

static bool expands(int type) {
    return type == KN_AXIS_UPCAST || type == KN_AXIS_GROUP_REDUCE || type == KN_AXIS_UNROLL;
}

static kn_opt draw_split(const kn_nest *nest, int axis, uint64_t *state) {
    static const int types[2][3] = {{KN_AXIS_LOOP, KN_AXIS_THREAD, KN_AXIS_UPCAST},
                                    {KN_AXIS_REDUCE, KN_AXIS_GROUP_REDUCE, KN_AXIS_UNROLL}};
    static const int64_t factors[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
    kn_opt o = {.op = KN_OPT_SPLIT, .axis = axis, .arg = factors[choose_draw(state, KN_COUNT(factors))]};
    o.target = types[nest->origin[nest->loop[axis].origin].reduce][choose_draw(state, 3)];
    o.top    = choose_draw(state, 2);
    o.tail   = (kn_tail)choose_draw(state, 3);
    return o;
}

static kn_opt draw_opt(const kl_kernel *k, const kn_nest *nest, uint64_t *state) {
    static const kn_opt_op ops[] = {KN_OPT_SPLIT, KN_OPT_SPLIT,    KN_OPT_SPLIT, KN_OPT_SPLIT, KN_OPT_SPLIT,
                                    KN_OPT_SPLIT, KN_OPT_SWAP,     KN_OPT_SWAP,  KN_OPT_PEEL,  KN_OPT_STAGE,
                                    KN_OPT_CARRY, KN_OPT_PREFETCH, KN_OPT_STAGE, KN_OPT_STREAM,
                                    KN_OPT_JOIN,  KN_OPT_JOIN};
    int    axis = (int)choose_draw(state, (uint64_t)nest->nloop);
    kn_opt o    = {.op = ops[choose_draw(state, KN_COUNT(ops))], .axis = axis};
    switch (o.op) {
    case KN_OPT_SPLIT: return draw_split(nest, axis, state);
    case KN_OPT_JOIN: /* any would hardly ever do */
        for (int l = 0; l < nest->nloop; l++) {
            if (nest->loop[l].type == KN_AXIS_GROUP_REDUCE) o.axis = l;
            if (nest->loop[l].type == KN_AXIS_UPCAST) o.arg = l;
        }
        break;
    case KN_OPT_SWAP: o.arg = (int64_t)choose_draw(state, (uint64_t)nest->nloop); break;
    case KN_OPT_PEEL:
        o.arg    = (int64_t)choose_draw(state, 3);
        o.more   = (int64_t)choose_draw(state, 3);
        o.target = choose_draw(state, 3) ? 0 : 1 + (int)choose_draw(state, 2);
        if (o.target) o.arg *= o.target, o.more *= o.target;
        break;
    case KN_OPT_CARRY: o.target = 1 + (int)choose_draw(state, 2); break;
    case KN_OPT_STAGE:
        o.arg  = (int64_t)choose_draw(state, KN_MAX(k->nargs, 1));
        o.axis = (int)choose_draw(state, (uint64_t)nest->nloop + 2) + KN_STAGE_GLOBAL;
        o.more = (int64_t)choose_draw(state, 4) * 16;
        break;
    default:
        o.arg  = (int64_t)choose_draw(state, KN_MAX(k->nargs, 1));
        o.more = o.op == KN_OPT_PREFETCH ? 1 + (int64_t)choose_draw(state, 40) : 0;
    }
    return o;
}

/* Whether the list can be as a whole: what memory options ask for is found only when they are applied. */
static bool applies(const kl_kernel *k) {
    kn_graph *g      = kg_new(NULL);
    kn_ref    root   = kg_copy(g, k->g, k->root);
    ko_panels panels = {.next = (int64_t)k->nargs};
    kn_nest   nest;
    kn_fault  f  = {0};
    bool      ok = root && ko_nest(g, root, &nest, &f);
    for (int i = 0; i < k->nopts && ok; i++) ok = ko_edit(&nest, &k->opts[i], &f);
    ok = ok && ko_apply(g, root, &nest, &panels, &f);
    kg_free(g);
    return ok;
}

static bool on_memory(const kn_opt *o) {
    return o->op == KN_OPT_STAGE || o->op == KN_OPT_PREFETCH || o->op == KN_OPT_STREAM;
}

int choose_opts(kl_kernel *k, uint64_t *state, int most) {
    kn_nest  nest;
    kn_fault f       = {0};
    int      refused = 0;
    int64_t  tile    = 1;
    k->nopts         = 0;
    most             = KN_MIN(most, KN_MAX_OPTS);
    if (!ko_nest(k->g, k->root, &nest, &f)) return 0;
    for (int tries = (int)choose_draw(state, 2 * (uint64_t)most); tries > 0 && nest.nloop && k->nopts < most; tries--) {
        kn_opt o    = draw_opt(k, &nest, state);
        bool   grow = o.op == KN_OPT_SPLIT && expands(o.target);
        f           = (kn_fault){0};
        if (grow && tile * o.arg > LARGEST_TILE) continue;
        if (!ko_edit(&nest, &o, &f)) {
            refused++;
            continue;
        }
        if (grow) tile *= o.arg;
        k->opts[k->nopts++] = o;
        for (int at = o.axis; o.op == KN_OPT_CARRY && at > 0 && choose_draw(state, 4) && k->nopts < most; at--) {
            kn_opt swap = {.op = KN_OPT_SWAP, .axis = at - 1, .arg = at}; /* out, past some output loops */
            if (!ko_edit(&nest, &swap, &f)) break;
            k->opts[k->nopts++] = swap;
        }
    }
    for (int i = k->nopts; i-- > 0;) { /* one by one, until the rest can be */
        if (!on_memory(&k->opts[i]) || applies(k)) continue;
        memmove(k->opts + i, k->opts + i + 1, (size_t)(--k->nopts - i) * sizeof *k->opts);
        refused++;
    }
    return refused;
}

bool choose_lower(kl_program *p, choose_way *w, kn_fault *f) {
    static const struct {
        kn_stage stage;
        bool (*run)(kl_program *p, kl_kernel *k, kn_fault *f);
    } stages[] = {{KN_STAGE_EXPAND, kl_expand}, {KN_STAGE_SELECT, kl_select}, {KN_STAGE_LINEARIZE, kl_linearize}};
    if (!kl_rangeify(p, f)) return false;
    for (size_t k = 0; k < p->nkernel; k++) { /* panels join the kernels */
        if (!w->options(w->user, &p->kernel[k], f)) return false;
        if (kl_optimize(p, &p->kernel[k], false, f)) continue;
        w->refused = f->code == KN_ERR_ARG;
        return false;
    }
    if (!w->seen(w->user, KN_STAGE_OPTIMIZE, f)) return false;
    for (int s = 0; s < KN_COUNT(stages); s++) {
        for (size_t k = 0; k < p->nkernel; k++)
            if (!stages[s].run(p, &p->kernel[k], f)) return false;
        if (!w->seen(w->user, stages[s].stage, f)) return false;
    }
    if (!kl_plan(p, f)) return false;
    for (size_t k = 0; k < p->nkernel; k++)
        if (!kl_render(p, &p->kernel[k], f)) return false;
    return true;
}
