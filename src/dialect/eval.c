/* eval.c - the reference interpreter: order and loops. What single ops compute is in eval_ops.c.
 *
 * Contract. Evaluation is demand-driven: a node runs when something that runs needs it, after its children, once for
 * every state of the ranges it depends on. The first round of a loop finds what the body needs by walking the graph;
 * the rounds after it run the loop's tape, the nodes that depend on its innermost range in the order of that walk.
 * Order among effects: AFTER runs its deps before its value, STORE its value before its target, a SINK or GROUP its
 * sources from the left. All walks keep an explicit stack; only bodies of CALL and FUNCTION nest, and only so deep. A
 * thread that waits for others leaves its stack as it is, and goes on from there. */
#include "dialect/eval_inside.h"

#include <string.h>

enum { EV_NODE, EV_LOOP, EV_TAPE };
enum { EV_MAX_DEPTH = 32 };

/* ---- cells --------------------------------------------------------------------------------------------------- */


/* How many of an op's sources are evaluated, from the left. */
static uint32_t ev_inputs(const kn_graph *g, kn_ref n) {
    uint32_t k = kg_nsrc(g, n);
    switch (kg_op(g, n)) {
    case KN_OP_PARAM: return 0;
    case KN_OP_RANGE: return 0; /* its loop reads the bound */
    case KN_OP_RESHAPE: case KN_OP_EXPAND: return 1;
    case KN_OP_PAD: case KN_OP_SHRINK: return 2;
    default: return k;
    }
}

/* Whether items that stand side by side in a view do so in the storage below it. */
static bool ev_side_by_side(const ev *e, const ev_cell *view) {
    for (bool rows = true;; view = &e->cell[view->src[0]])
        switch (view->op) {
        case KN_OP_RESHAPE: rows = false; break; /* may join two rows */
        case KN_OP_SHRINK:
            if (!rows) return false;
            break;
        case KN_OP_PERMUTE: case KN_OP_FLIP: case KN_OP_EXPAND: case KN_OP_STACK: return false;
        case KN_OP_INDEX:
            for (uint32_t i = 1; i < view->nsrc; i++)
                if (e->cell[view->src[i]].numel != 1) return false;
            break;
        case KN_OP_BITCAST: case KN_OP_AFTER: case KN_OP_DETACH: case KN_OP_CONTIGUOUS_BACKWARD: break;
        default: return true;
        }
}

static ev_kind ev_classify(const ev *e, ev_cell *c) {
    const ev_cell *s0 = c->nsrc ? &e->cell[c->src[0]] : NULL;
    switch (c->op) {
    case KN_OP_BITCAST:
        if (kn_dsize(c->dtype) > kn_dsize(s0->dtype) && !ev_side_by_side(e, s0)) return EV_VALUE;
        c->root = s0->root;
        return (ev_kind)s0->kind;
    case KN_OP_PARAM: case KN_OP_BUFFER:
        c->root = (uint32_t)(c - e->cell);
        return EV_PLACE;
    case KN_OP_AFTER: case KN_OP_DETACH: case KN_OP_CONTIGUOUS_BACKWARD: case KN_OP_PERMUTE: case KN_OP_FLIP:
    case KN_OP_RESHAPE: case KN_OP_EXPAND: case KN_OP_SHRINK: case KN_OP_INDEX: case KN_OP_SLICE:
        c->root = s0->root;
        return (ev_kind)s0->kind;
    case KN_OP_STACK: /* addresses not yet read, all in one buffer */
        for (uint32_t i = 0; i < c->nsrc; i++) {
            const ev_cell *s = &e->cell[c->src[i]];
            if (s->kind != EV_PLACE || s->op != KN_OP_INDEX || s->root != s0->root) return EV_VALUE;
        }
        c->root = s0 ? s0->root : 0;
        return s0 ? EV_PLACE : EV_VALUE;
    case KN_OP_GETTUPLE:
        if (s0->op == KN_OP_TUPLE) {
            const ev_cell *s = &e->cell[s0->src[kg_node(e->g, c->id)->arg]];
            c->root          = s->root;
            return (ev_kind)s->kind;
        }
        return EV_VALUE;
    default: return c->dtype == KN_VOID ? EV_EFFECT : EV_VALUE;
    }
}

static bool ev_children(ev *e, ev_cell *c) {
    if (c->loop) return true; /* the loop asks for them itself */
    uint32_t  n = ev_inputs(e->g, c->id), at = 0, first = kn_calls(c->op) || c->op == KN_OP_BIND;
    uint32_t *list = kn_arena_get(&e->arena, ((size_t)n + 1) * sizeof *list);
    if (!list) return kn_oom(e->fault);
    bool last = c->op == KN_OP_AFTER || c->op == KN_OP_STORE; /* the first source comes last */
    const ev_cell *tuple = c->op == KN_OP_GETTUPLE ? &e->cell[c->src[0]] : NULL;
    if (tuple && tuple->op == KN_OP_TUPLE) { /* the other elements are not needed */
        list[at++] = tuple->src[kg_node(e->g, c->id)->arg];
        n          = 0;
    }
    for (uint32_t i = first + last; i < n; i++) list[at++] = c->src[i];
    if (last) list[at++] = c->src[0];
    c->child  = list;
    c->nchild = at;
    for (uint32_t i = 0; i < at; i++) e->cell[list[i]].uses++;
    return true;
}

static bool ev_fill(ev *e, ev_cell *c, kn_ref id, const uint32_t *map) {
    const kn_graph *g = e->g;
    const kn_node  *nd = kg_node(g, id);
    const kn_ref   *src = kg_src(g, id);
    c->id    = id;
    c->op    = nd->op;
    c->dtype = nd->dtype;
    c->nsrc  = nd->nsrc;
    c->numel = kg_numel(g, id);
    c->fixed = c->numel >= 0 && c->numel < INT64_MAX / 16;
    if (c->op == KN_OP_REDUCE || c->op == KN_OP_END || c->op == KN_OP_BUFFERIZE) c->loop = nd->nsrc > 1;
    if (c->op == KN_OP_INS) c->op = (uint8_t)kg_field(g, id, KN_F_INS_op);
    if (c->op == KN_OP_RANGE) e->loops |= kg_field(g, id, KN_F_RANGE_rank) == 0;
    if (c->op == KN_OP_SPECIAL) e->loops = true, e->nspecial++;
    e->nmeet += kn_ev_meets(e, c);
    uint32_t *s = kn_arena_get(&e->arena, ((size_t)nd->nsrc + 1) * sizeof *s);
    if (!s) return kn_oom(e->fault);
    uint32_t self = (uint32_t)(c - e->cell);
    for (uint32_t i = 0; i < nd->nsrc; i++) s[i] = i == 0 && kn_calls(c->op) ? self : map[src[i]];
    c->src = s;
    int nrange = kg_ranges(g, id, NULL, 0);
    if (nrange) {
        uint32_t *r = kn_arena_get(&e->arena, (size_t)nrange * sizeof *r);
        if (!r) return kn_oom(e->fault);
        kg_ranges(g, id, r, nrange);
        for (int i = 0; i < nrange; i++) r[i] = map[r[i]];
        c->range  = r;
        c->nrange = (uint32_t)nrange;
    }
    c->kind   = (uint8_t)ev_classify(e, c);
    if (c->op == KN_OP_REDUCE && c->dtype == KN_VOID) e->cell[s[0]].folded = true;
    c->scalar = kn_is_alu(c->op) && c->numel == 1;
    for (uint32_t i = 0; i < c->nsrc && c->scalar; i++)
        c->scalar = e->cell[s[i]].kind == EV_VALUE && e->cell[s[i]].numel == 1;
    if (c->kind == EV_VALUE && c->numel == 1) c->val = &c->one;
    if (c->op == KN_OP_CONST) {
        if (kn_is_float(c->dtype)) c->one.f = kg_const_float(g, id);
        else c->one.i = kg_const_int(g, id);
        c->key = 1;
    }
    return ev_children(e, c);
}

/* Cells for all below the root, but for the bodies of CALLs and FUNCTIONs. Sources come before their users. */
bool kn_ev_open(ev *e, kn_ref root) {
    size_t    size = (size_t)root + 1;
    uint32_t *map = kn_zalloc(e->alloc, size * sizeof *map);
    if (!map) return kn_oom(e->fault);
    uint32_t n = 0;
    map[root]  = 1;
    for (kn_ref id = root; id > 0; id--) {
        if (!map[id]) continue;
        n++;
        const kn_ref *src = kg_src(e->g, id);
        for (uint32_t i = kn_calls(kg_op(e->g, id)); i < kg_nsrc(e->g, id); i++) map[src[i]] = 1;
    }
    bool ok = (e->cell = kn_zalloc(e->alloc, n * sizeof *e->cell)) != NULL || kn_oom(e->fault);
    if (ok) e->ncell = n;
    n = 0;
    for (kn_ref id = 1; ok && id <= root; id++)
        if (map[id]) {
            map[id] = n;
            ok      = ev_fill(e, &e->cell[n++], id, map);
        }
    kn_free(e->alloc, map, size * sizeof *map);
    if (ok) e->cell[e->ncell - 1].uses++;
    return ok;
}

static void ev_drop(ev *e, ev_cell *c) {
    if (c->val && c->val != &c->one) kn_free(e->alloc, c->val, (size_t)KN_MAX(c->numel, 1) * sizeof *c->val);
    c->val = NULL;
}

void kn_ev_close(ev *e) {
    for (uint32_t i = 0; i < e->ncell; i++) {
        ev_cell *c = &e->cell[i];
        ev_drop(e, c);
        for (int k = 0; k < c->ntuple; k++) kn_value_free(e->alloc, &c->tuple[k]);
        kn_ev_fold_free(e, c);
        if (c->off) kn_free(e->alloc, c->off, (size_t)KN_MAX(c->numel, 1) * sizeof *c->off);
    }
    kn_free(e->alloc, e->cell, e->ncell * sizeof *e->cell);
    kn_free(e->alloc, e->stack, e->stack_cap * sizeof *e->stack);
    for (ev_store *s = e->temps; s; s = s->next) kn_free(e->alloc, s->data, (size_t)s->bytes);
    kn_arena_free(&e->arena);
}

/* ---- the machine --------------------------------------------------------------------------------------------- */

static uint64_t ev_key(const ev *e, const ev_cell *c) {
    uint64_t k = 1;
    for (uint32_t i = 0; i < c->nrange; i++) k = KN_MAX(k, e->cell[c->range[i]].stamp);
    return k;
}

static bool ev_ready(const ev *e, const ev_cell *c) {
    if (c->op == KN_OP_RANGE && c->nrange) return c->stamp != 0;
    return c->key && c->key == ev_key(e, c);
}

static bool ev_push(ev *e, int what, uint32_t cell, uint32_t level) {
    if (!KN_GROW(e->alloc, e->stack, e->stack_cap, e->stack_n + 1)) return kn_oom(e->fault);
    e->stack[e->stack_n++] = (ev_frame){.cell = cell, .level = level, .what = (uint8_t)what};
    return true;
}

static bool ev_demand(ev *e, uint32_t cell) { return ev_ready(e, &e->cell[cell]) || ev_push(e, EV_NODE, cell, 0); }

static bool ev_step(ev *e, ev_cell *c) {
    ev_shared *sh = e->shared;
    if (sh->steps++ >= sh->limit)
        return kn_fail(e->fault, KN_ERR_CANCELLED, "interpreter: stopped after %llu steps, the limit that was set",
                       (unsigned long long)sh->limit);
    if (c->scalar) {
        int       dt[3];
        kn_scalar s[3];
        for (uint32_t i = 0; i < c->nsrc; i++) {
            dt[i] = e->cell[c->src[i]].dtype;
            s[i]  = e->cell[c->src[i]].one;
        }
        if (kn_alu(c->op, c->dtype, dt, s, &c->one)) return !sh->check || kn_ev_check(e, c);
    }
    if (e->group && kn_ev_meets(e, c)) {
        e->blocked = e->passed ? 0 : (uint32_t)(c - e->cell) + 1;
        e->passed  = false;
        return true; /* what they make together is there once they have met */
    }
    return kn_ev_compute(e, c) && (!sh->check || kn_ev_check(e, c));
}

/* Values of a program without loops die with their last use. */
static void ev_release(ev *e, const ev_cell *c) {
    if (e->loops || c->op == KN_OP_TUPLE || c->folded) return;
    for (uint32_t i = 0; i < c->nchild; i++) {
        ev_cell *d = &e->cell[c->child[i]];
        if (--d->uses == 0 && d->numel > 1) ev_drop(e, d);
    }
}

static bool ev_node(ev *e, ev_frame *f) {
    ev_cell *c = &e->cell[f->cell];
    while (f->at < c->nchild) {
        uint32_t k = c->child[f->at++];
        if (!ev_ready(e, &e->cell[k])) return ev_push(e, EV_NODE, k, 0);
    }
    if (c->loop) {
        if (c->kind == EV_VALUE) {
            if (!kn_ev_room(e, c)) return false;
            kn_scalar id = {0};
            if (c->op == KN_OP_REDUCE) id = kn_identity((int)kg_field(e->g, c->id, KN_F_REDUCE_op), c->dtype);
            for (int64_t i = 0; i < c->numel; i++) c->val[i] = id;
        } else if (c->op == KN_OP_REDUCE && !kn_ev_fold_begin(e, c)) {
            return false;
        }
        f->what = EV_LOOP;
        return true;
    }
    if (!ev_step(e, c)) return false;
    if (e->blocked) return true;
    c->key = ev_key(e, c);
    ev_release(e, c);
    e->stack_n--;
    return true;
}

/* The nodes below a loop's body that depend on its innermost range, in the order in which a walk would run them. */
static bool ev_make_tape(ev *e, ev_cell *c) {
    uint32_t inner = c->src[c->nsrc - 1], mark = ++e->mark, n = 0;
    size_t   base = e->stack_n, cap = 0;
    uint32_t *list = NULL;
    bool      ok = ev_push(e, EV_NODE, c->src[0], 0);
    while (ok && e->stack_n > base) {
        ev_frame *f = &e->stack[e->stack_n - 1];
        ev_cell  *d = &e->cell[f->cell];
        bool      in = false;
        if (f->at == 0) {
            for (uint32_t i = 0; i < d->nrange && !in; i++) in = d->range[i] == inner;
            if (!in || d->mark == mark || d->op == KN_OP_RANGE) {
                e->stack_n--;
                continue;
            }
        }
        if (f->at < d->nchild) {
            ok = ev_push(e, EV_NODE, d->child[f->at++], 0);
            continue;
        }
        if (d->mark != mark) {
            d->mark = mark;
            if (!(ok = KN_GROW(e->alloc, list, cap, n + 1u))) break;
            list[n++] = f->cell;
        }
        e->stack_n--;
    }
    e->stack_n = base;
    c->tape    = ok ? kn_arena_copy(&e->arena, list, n * sizeof *list) : NULL;
    kn_free(e->alloc, list, cap * sizeof *list);
    if (!c->tape && (n || !ok)) return kn_oom(e->fault);
    c->ntape = n;
    c->taped = true;
    return true;
}

static bool ev_tape(ev *e, ev_frame *f) {
    ev_cell *c = &e->cell[f->cell];
    uint64_t now = e->cell[c->src[c->nsrc - 1]].stamp; /* the newest stamp there is */
    while (f->at < c->ntape) {
        uint32_t k = c->tape[f->at++];
        ev_cell *d = &e->cell[k];
        if (d->key == now) continue;
        if (d->loop) return ev_push(e, EV_NODE, k, 0);
        if (!ev_step(e, d)) return false;
        if (e->blocked) return f->at--, true;
        d->key = now;
    }
    e->stack_n--;
    return true;
}

/* A round of the innermost loop is over: what a REDUCE or BUFFERIZE does with the body's value. */
static bool ev_round(ev *e, ev_cell *c) {
    if (c->op == KN_OP_REDUCE && c->dtype == KN_VOID) return kn_ev_fold_take(e, c);
    if (c->kind != EV_VALUE) return true;
    ev_cell         *b = &e->cell[c->src[0]];
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *x = kn_ev_values(e, b, &one, &tmp);
    bool             ok = x != NULL;
    if (ok && c->op == KN_OP_REDUCE) {
        ok = kn_ev_reduce(e, c, x);
    } else if (ok) {
        const int64_t *dims = kg_shape(e->g, c->id, NULL);
        int64_t        at = 0;
        for (uint32_t i = 1; i < c->nsrc; i++) at = at * dims[i - 1] + e->cell[c->src[i]].one.i;
        memcpy(c->val + at * b->numel, x, (size_t)b->numel * sizeof *x);
    }
    kn_free(e->alloc, tmp, (size_t)KN_MAX(b->numel, 1) * sizeof *tmp);
    return ok;
}

static bool ev_read_bound(ev *e, uint32_t range, int64_t *bound) {
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *x = kn_ev_values(e, &e->cell[e->cell[range].src[0]], &one, &tmp);
    if (!x) return false;
    *bound = x->i;
    return true;
}

/* The loops of a prefix around this one stand where they stood outside it: then this one goes up to there as well. */
static bool ev_ends_here(const ev *e, const ev_cell *c, const ev_frame *f) {
    for (uint32_t k = 1; k <= f->level; k++)
        if (e->cell[c->src[f->level + 1 - k]].one.i != f[-(ptrdiff_t)k].saved) return false;
    return true;
}

static bool ev_loop(ev *e, ev_frame *f) {
    enum { BOUND, OPEN, NEXT };
    uint32_t cell = f->cell; /* f moves when the stack grows */
    ev_cell *c = &e->cell[cell], *r = &e->cell[c->src[f->level + 1]];
    bool     innermost = f->level + 2 == c->nsrc;
    switch (f->phase) {
    case BOUND:
        f->phase = OPEN;
        return ev_demand(e, r->src[0]);
    case OPEN:
        if (kg_is_prefix(e->g, c->id) && !r->stamp)
            return kn_fail(e->fault, KN_ERR_ARG, "%%%u REDUCE: a prefix outside the loop it runs along", c->id);
        if (kg_is_prefix(e->g, c->id) && ev_ends_here(e, c, f)) { /* it ends as it began, at that iteration */
            f->bound = r->one.i + 1;
        } else if (!ev_read_bound(e, c->src[f->level + 1], &f->bound)) {
            return false;
        }
        f->saved       = r->one.i;
        f->saved_stamp = r->stamp;
        f->phase       = NEXT;
        if (f->bound <= 0) break;
        r->one.i = 0;
        r->stamp = ++e->clock;
        return innermost ? ev_demand(e, c->src[0]) : ev_push(e, EV_LOOP, f->cell, f->level + 1);
    default:
        if (innermost && !ev_round(e, c)) return false;
        if (++r->one.i >= f->bound) break;
        r->stamp = ++e->clock;
        if (!innermost) return ev_push(e, EV_LOOP, f->cell, f->level + 1);
        return (c->taped || ev_make_tape(e, c)) && ev_push(e, EV_TAPE, cell, 0);
    }
    r->one.i = f->saved;
    r->stamp = f->saved_stamp;
    e->stack_n--;
    if (f->level > 0) return true;
    c->key = ev_key(e, c);
    return !e->shared->check || kn_ev_check(e, c);
}

/* Runs what stands on the stack above `base`; where the thread has to wait, it stays there. */
static bool ev_unwind(ev *e, size_t base) {
    bool ok = true;
    while (ok && !e->blocked && e->stack_n > base) {
        ev_frame *f = &e->stack[e->stack_n - 1];
        ok = f->what == EV_NODE ? ev_node(e, f) : f->what == EV_TAPE ? ev_tape(e, f) : ev_loop(e, f);
    }
    if (!ok) e->stack_n = base;
    return ok;
}

/* Makes a cell current. */
static bool ev_run(ev *e, uint32_t cell) {
    size_t base = e->stack_n;
    return ev_demand(e, cell) && ev_unwind(e, base);
}

/* ---- linear code --------------------------------------------------------------------------------------------- */

/* Goes on behind a loop of an END: to the next round of range `level` (counted from 1) or of one around it, else behind
 * the END. */
static bool ev_end(ev *e, uint32_t end, uint32_t level) {
    ev_linear *l = &e->linear;
    ev_cell   *c = &e->cell[end];
    for (; level > 0; level--) {
        uint32_t k = c->src[level];
        ev_cell *r = &e->cell[k];
        if (!l->at[k] || l->at[k] > l->at[end])
            return kn_fail(e->fault, KN_ERR_ARG, "LINEAR: END %%%u closes a RANGE that was not opened before it",
                           c->id);
        if (r->stamp && ++r->one.i < l->bound[k]) {
            r->stamp = ++e->clock;
            l->pc    = l->at[k];
            return true;
        }
        r->stamp = 0;
    }
    c->key = ev_key(e, c);
    l->pc  = l->at[end];
    return true;
}

/* What a loop's bound or an IF asks for: no thread can wait within it. */
static bool ev_run_now(ev *e, uint32_t cell) {
    if (!ev_run(e, cell)) return false;
    if (!e->blocked) return true;
    return kn_fail(e->fault, KN_ERR_ARG, "LINEAR: %s %%%u is not listed before what needs it",
                   kn_ops[e->cell[e->blocked - 1].op].name, e->cell[e->blocked - 1].id);
}

static bool ev_enter(ev *e, uint32_t k) {
    ev_linear *l = &e->linear;
    ev_cell   *r = &e->cell[k];
    if (!ev_run_now(e, r->src[0]) || !ev_read_bound(e, k, &l->bound[k])) return false;
    l->pc++;
    if (l->bound[k] > 0) {
        r->one.i = 0;
        r->stamp = ++e->clock;
        return true;
    }
    for (uint32_t i = l->pc; i < l->n; i++) {
        const ev_cell *c = &e->cell[l->list[i]];
        for (uint32_t j = 1; c->op == KN_OP_END && j < c->nsrc; j++)
            if (c->src[j] == k) return ev_end(e, l->list[i], j);
    }
    return kn_fail(e->fault, KN_ERR_ARG, "LINEAR: RANGE %%%u is not closed", r->id);
}

/* IF: where its gate is false it skips to behind the ENDIF; what is skipped counts as done, so that nothing behind it
 * runs it. */
static bool ev_if(ev *e, uint32_t k) {
    ev_linear       *l = &e->linear;
    kn_scalar        one, *tmp = NULL;
    const kn_scalar *gate = ev_run_now(e, e->cell[k].src[0])
                                ? kn_ev_values(e, &e->cell[e->cell[k].src[0]], &one, &tmp) : NULL;
    if (!gate) return false;
    l->pc++;
    for (; !gate->i && l->pc < l->n; l->pc++) {
        ev_cell *c = &e->cell[l->list[l->pc]];
        if (c->op == KN_OP_ENDIF && c->src[0] == k) break;
        if (c->kind == EV_EFFECT) c->key = ev_key(e, c);
    }
    if (l->pc == l->n) return kn_fail(e->fault, KN_ERR_ARG, "LINEAR: IF %%%u has no ENDIF", e->cell[k].id);
    l->pc += !gate->i;
    return true;
}

static bool ev_go_linear(ev *e, const ev_cell *root) {
    ev_linear *l = &e->linear;
    bool       ok = true;
    if (!l->at) {
        *l = (ev_linear){.list = root->src, .n = root->nsrc};
        l->at    = kn_arena_get(&e->arena, e->ncell * sizeof *l->at);
        l->bound = kn_arena_get(&e->arena, e->ncell * sizeof *l->bound);
        if (!l->at || !l->bound) return kn_oom(e->fault);
        memset(l->at, 0, e->ncell * sizeof *l->at);
        for (uint32_t i = 0; i < l->n; i++) l->at[l->list[i]] = i + 1;
    }
    if (e->stack_n) { /* where the thread waited */
        if (!ev_unwind(e, 0)) return false;
        l->pc += !e->blocked;
    }
    while (ok && !e->blocked && l->pc < l->n) {
        uint32_t k = l->list[l->pc];
        ev_cell *c = &e->cell[k];
        if (c->op == KN_OP_RANGE && c->nrange) {
            ok = ev_enter(e, k);
        } else if (c->op == KN_OP_END) {
            ok = ev_end(e, k, c->nsrc - 1);
        } else if (c->op == KN_OP_IF) {
            ok = ev_if(e, k);
        } else {
            ok = c->op == KN_OP_ENDIF || ev_run(e, k);
            l->pc += !e->blocked;
        }
    }
    return ok;
}

bool kn_ev_go(ev *e) {
    uint32_t root = e->ncell - 1;
    if (e->cell[root].op == KN_OP_LINEAR) return ev_go_linear(e, &e->cell[root]);
    return e->stack_n ? ev_unwind(e, 0) : ev_run(e, root);
}

/* ---- entry --------------------------------------------------------------------------------------------------- */

void kn_value_free(const kn_alloc *a, kn_value *v) {
    if (v->data) kn_free(a, v->data, (size_t)KN_MAX(v->numel, 1) * (size_t)kn_dsize(v->dtype));
    *v = (kn_value){0};
}

static bool ev_results(ev *e, ev_cell *root, kn_value *out, int *nout) {
    int cap = *nout, n = root->kind == EV_EFFECT ? 0 : 1;
    if (root->op == KN_OP_TUPLE) n = (int)root->nsrc;
    if (kn_calls(root->op)) n = root->ntuple;
    *nout = 0;
    if (n > cap) return kn_fail(e->fault, KN_ERR_ARG, "eval: the program has %d results, there is room for %d", n, cap);
    for (int i = 0; i < n; i++) {
        out[i] = (kn_value){0};
        if (kn_calls(root->op)) {
            out[i]         = root->tuple[i];
            root->tuple[i] = (kn_value){0};
        } else if (!kn_ev_export(e, root->op == KN_OP_TUPLE ? &e->cell[root->src[i]] : root, &out[i])) {
            while (i-- > 0) kn_value_free(e->alloc, &out[i]);
            return false;
        }
    }
    *nout = n;
    return true;
}

static bool ev_symbolic(const kn_graph *g, kn_ref root, kn_fault *f, bool *symbolic) {
    kn_ref  *order;
    uint32_t n;
    if (!kg_reach(g, &root, 1, &order, &n)) return kn_oom(f);
    *symbolic = false;
    for (uint32_t i = 0; i < n && !*symbolic; i++) *symbolic = kg_numel(g, order[i]) < 0;
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return true;
}

typedef struct ev_slots {
    const kn_array *slots;
    int             n;
} ev_slots;

static bool ev_slot_value(void *user, const kn_graph *g, kn_ref var, int64_t *value) {
    const ev_slots *s    = user;
    int64_t         slot = kg_field(g, var, KN_F_PARAM_slot);
    if (slot < 0 || slot >= s->n || !s->slots[slot].data || !s->slots[slot].size) return false;
    int dt = s->slots[slot].dtype, want = kg_dtype(g, var);
    if (dt != want && !(dt == KN_I64 && want == KN_INDEX) && !(dt == KN_INDEX && want == KN_I64)) return false;
    *value = kn_load_scalar(s->slots[slot].data, dt).i;
    return true;
}

kn_ref kn_eval_special(kn_graph *to, const kn_graph *g, kn_ref root, const kn_array *slots, int nslots) {
    return kg_specialise(to, g, root, ev_slot_value, &(ev_slots){slots, nslots});
}

static bool ev_run_special(ev_shared *sh, kn_graph *g, kn_ref root, const kn_array *slots, int nslots, kn_value *out,
                           int *nout, kn_fault *f) {
    kn_graph *to = kg_new(kg_alloc(g));
    bool      symbolic;
    if (!to) return kn_oom(f);
    kn_ref now = kn_eval_special(to, g, root, slots, nslots);
    bool   ok  = now ? ev_symbolic(to, now, f, &symbolic) : kn_fail(f, kg_fault(to)->code, "%s", kg_fault(to)->text);
    if (ok && symbolic) ok = kn_fail(f, KN_ERR_ARG, "eval: a size depends on a variable that has no value");
    ok = ok && kn_ev_run(sh, to, now, slots, nslots, out, nout, f);
    kg_free(to);
    return ok;
}

bool kn_ev_run(ev_shared *sh, kn_graph *g, kn_ref root, const kn_array *slots, int nslots, kn_value *out, int *nout,
               kn_fault *f) {
    while (kg_op(g, root) == KN_OP_PROGRAM && kg_nsrc(g, root)) root = kg_at(g, root, 0);
    bool symbolic;
    if (!ev_symbolic(g, root, f, &symbolic)) return false;
    if (symbolic) return ev_run_special(sh, g, root, slots, nslots, out, nout, f);
    ev e = {.g = g, .alloc = kg_alloc(g), .fault = f, .shared = sh, .slots = slots, .nslots = nslots, .clock = 1};
    if (sh->depth >= EV_MAX_DEPTH)
        return kn_fail(f, KN_ERR_UNSUPPORTED, "eval: CALL and FUNCTION bodies nest more than %d deep", EV_MAX_DEPTH);
    sh->depth++;
    kn_arena_init(&e.arena, e.alloc);
    e.local = &e.temps;
    bool ok = kn_ev_open(&e, root) && (e.nspecial ? kn_ev_groups(&e, root) : kn_ev_go(&e)) &&
              ev_results(&e, &e.cell[e.ncell - 1], out, nout);
    kn_ev_close(&e);
    sh->depth--;
    return ok;
}

bool kn_eval(kn_graph *g, kn_ref root, const kn_array *slots, int nslots, kn_value *out, int *nout, kn_eval_opts *opts,
             kn_fault *f) {
    int       none = 0;
    ev_shared sh = {.limit = opts && opts->step_limit ? opts->step_limit : UINT64_MAX};
    if (opts) sh.check = opts->check, sh.custom = opts->custom, sh.custom_user = opts->custom_user;
    if (!root) return kn_fail(f, KN_ERR_ARG, "eval: no program (a constructor failed)");
    bool ok = kn_ev_run(&sh, g, root, slots, nslots, out, nout ? nout : &none, f);
    if (!ok && nout) *nout = 0;
    for (ev_store *s = sh.globals, *next; s; s = next) {
        next = s->next;
        kn_free(kg_alloc(g), s->data, (size_t)s->bytes);
        kn_free(kg_alloc(g), s, sizeof *s);
    }
    if (opts) opts->steps = sh.steps;
    return ok;
}
