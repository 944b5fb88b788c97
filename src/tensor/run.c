/* run.c - when values become storage: what one run computes, and what stays true afterwards.
 *
 * The graph is interned and buffers change, so a node may mean two values at two times: before and after an assignment
 * to a buffer it reads. Two rules keep every live handle at its own value.
 *   1. A buffer is overwritten in place only when no surviving lazy handle depends on it, through sources or through
 *      `realized`. Otherwise the new value gets a fresh buffer and the old one lives on for its readers.
 *   2. After a buffer was overwritten, no node that depends on it is noted in `realized`.
 * Assignments are functional until they run: readers of the tensor use the assigned value's node. */
#include "tensor/tensor.h"

#include <string.h>

/* ---- walking --------------------------------------------------------------------------------------------------- */

static kt_slot *first_from(const kt_slot *scope) {
    while (scope && !scope->first) scope = scope->scope;
    return scope ? scope->first : NULL;
}

kt_slot *kt_first(const kn_context *kn) {
    return first_from(kn->scope);
}
kt_slot *kt_next(const kt_slot *s) {
    return s->next ? s->next : first_from(s->scope->scope);
}

static kn_ref realized_as(const kn_context *kn, kn_ref n) {
    return n < kn->realized_cap ? kn->realized[n] : 0;
}

kn_ref kt_node(kt_slot *s) {
    kn_ref r = realized_as(s->kn, s->node);
    if (r) s->node = r;
    return s->node;
}

/* The first elements of a BUFFER, as many as a symbolic size says. */
static bool first_elements(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_SHRINK && kg_numel(g, n) < 0 && kg_op(g, kg_at(g, n, 0)) == KN_OP_BUFFER &&
           kg_is_const(g, kg_at(g, kg_at(g, n, 1), 0), 0);
}

kn_ref kt_stored_as(kn_graph *g, kn_ref buffer, const int64_t *dims, int rank) {
    kn_factors f = {.fixed = 1};
    for (int i = 0; i < rank; i++)
        if (!kg_factor(g, &f, dims[i])) return kn_fail(kg_fault(g), KN_ERR_UNSUPPORTED, "too many symbolic sizes"), 0;
    return buffer ? kg_reshape(g, kg_first_of(g, buffer, kg_product(g, &f)), dims, rank) : 0;
}

kn_ref kt_buffer_of(const kn_graph *g, kn_ref node) {
    while (node && (kg_op(g, node) == KN_OP_RESHAPE || first_elements(g, node))) node = kg_at(g, node, 0);
    return node && kg_op(g, node) == KN_OP_BUFFER ? node : 0;
}

bool kt_mark(kn_context *kn, const kn_ref *nodes, size_t n, bool stop, uint8_t *mark, uint32_t count) {
    kn_graph *g     = kn->g;
    kn_ref   *stack = kn_realloc(kn->alloc, NULL, 0, count * sizeof *stack);
    if (!stack) return false;
    size_t top = 0;
    for (size_t i = 0; i < n; i++)
        if (nodes[i] && !mark[nodes[i]]) mark[nodes[i]] = 1, stack[top++] = nodes[i];
    while (top) {
        kn_ref id = stack[--top], r = realized_as(kn, id);
        if (r && !mark[r]) mark[r] = 1, stack[top++] = r;
        if (r && stop) continue;
        const kn_ref *src = kg_src(g, id);
        for (uint32_t k = kg_nsrc(g, id); k-- > 0;)
            if (!mark[src[k]]) mark[src[k]] = 1, stack[top++] = src[k];
    }
    kn_free(kn->alloc, stack, count * sizeof *stack);
    return true;
}

/* ---- storage --------------------------------------------------------------------------------------------------- */

kn_ref kt_storage_node(kn_context *kn, kn_dtype dtype, const int64_t *dims, int rank, const void *data) {
    kn_fault *f    = kg_fault(kn->g);
    int64_t   size = 1, now = 1, v = 0, bytes;
    for (int i = 0; i < rank; i++) {
        if (data && !kt_size_value(kn->g, dims[i], &v, f)) return 0;
        now = kn_sat_mul(now, v);
        if (!kn_mul_ok(size, kg_most_of(kn->g, dims[i]), &size))
            return kn_fail(f, KN_ERR_SHAPE, "too many elements"), 0;
    }
    if (!kn_mul_ok(size, kn_dsize(dtype), &bytes)) return kn_fail(f, KN_ERR_SHAPE, "too many elements"), 0;
    int64_t slot = kr_buffer_new(kn->rt, size, dtype, f);
    if (!slot) return 0;
    if (data) {
        void *to = kr_buffer_data(kn->rt, slot, f);
        if (!to) {
            kr_buffer_release(kn->rt, slot);
            return 0;
        }
        memcpy(to, data, (size_t)now * (size_t)kn_dsize(dtype));
    }
    kn_ref r = kt_stored_as(kn->g, kg_buffer(kn->g, slot, size, dtype, 0, KN_GLOBAL), dims, rank);
    if (!r) kr_buffer_release(kn->rt, slot);
    return r;
}

/* A copy of what a storage node holds now. */
static kn_ref copy_storage(kn_context *kn, kn_ref node) {
    kn_ref         buf  = kt_buffer_of(kn->g, node);
    const void    *data = kr_buffer_read(kn->rt, kg_field(kn->g, buf, KN_F_BUFFER_slot), kg_fault(kn->g));
    int            rank;
    const int64_t *dims = kg_shape(kn->g, node, &rank);
    return data ? kt_storage_node(kn, (kn_dtype)kg_dtype(kn->g, node), dims, rank, data) : 0;
}

bool kt_unshare(kn_context *kn, kt_slot *s) {
    kn_ref copy = copy_storage(kn, s->node);
    if (copy) s->node = s->store = copy;
    return copy != 0;
}

/* ---- notes of what is computed --------------------------------------------------------------------------------- */

bool kt_is_constant(const kn_graph *g, kn_ref node) {
    while (kn_is_movement(kg_op(g, node)) && kg_op(g, node) != KN_OP_STACK) node = kg_at(g, node, 0);
    return kg_op(g, node) == KN_OP_CONST;
}

/* Not making a note costs a second computation, never a wrong value: a failed allocation is not reported. A constant is
 * the same node in every expression, so storage that was filled with it says nothing about the others: with a note, a
 * relu after that would read its 0 from there, and have a gradient to it. */
static void note_realized(kn_context *kn, kn_ref node, kn_ref storage) {
    size_t old = kn->realized_cap;
    if (node == storage || kt_is_constant(kn->g, node) || !KN_GROW(kn->alloc, kn->known, kn->known_cap, kn->nknown + 1))
        return;
    if (!KN_GROW(kn->alloc, kn->realized, kn->realized_cap, (size_t)node + 1)) return;
    memset(kn->realized + old, 0, (kn->realized_cap - old) * sizeof *kn->realized);
    if (!kn->realized[node]) kn->known[kn->nknown++] = node;
    kn->realized[node] = storage;
    kn->notes++;
}

void kt_dependents(const kn_graph *g, const kn_ref *nodes, int n, uint8_t *dep, uint32_t count) {
    memset(dep, 0, count);
    for (int i = 0; i < n; i++) dep[nodes[i]] = 1;
    for (kn_ref id = 1; id < count; id++) {
        const kn_ref *src  = kg_src(g, id);
        uint32_t      body = kn_calls(kg_op(g, id)); /* it has sources of its own: PARAMs */
        for (uint32_t k = kg_nsrc(g, id); k-- > body && !dep[id];) dep[id] = dep[src[k]];
    }
}

/* Rule 2. dep as above. */
static void forget_dependents(kn_context *kn, const uint8_t *dep) {
    size_t at = 0;
    for (size_t i = 0; i < kn->nknown; i++) {
        kn_ref n = kn->known[i];
        if (dep[n] || dep[kn->realized[n]])
            kn->realized[n] = 0;
        else
            kn->known[at++] = n;
    }
    kn->nknown = at;
}

bool kt_overwritten(kn_context *kn, const kn_ref *buffers, int n) {
    if (!kn->nknown) return true;
    uint32_t count = kg_count(kn->g);
    uint8_t *dep   = kn_realloc(kn->alloc, NULL, 0, count);
    if (!dep) return kn_oom(kg_fault(kn->g));
    kt_dependents(kn->g, buffers, n, dep, count);
    forget_dependents(kn, dep);
    kn_free(kn->alloc, dep, count);
    return true;
}

/* ---- pending assignments --------------------------------------------------------------------------------------- */

static kt_pending *pending_of(kn_context *kn, const kt_slot *t) {
    for (size_t i = 0; i < kn->npending; i++)
        if (kn->pending[i].t == t) return &kn->pending[i];
    return NULL;
}

static void remove_pending(kn_context *kn, kt_pending *p) {
    size_t at = (size_t)(p - kn->pending);
    memmove(p, p + 1, (kn->npending - at - 1) * sizeof *p);
    kn->npending--;
}

void kt_drop_pending(kn_context *kn, const kt_slot *t) {
    kt_pending *p = pending_of(kn, t);
    if (p) remove_pending(kn, p);
}

void kt_undo_pending(kn_context *kn, uint32_t depth) {
    for (size_t i = kn->npending; i-- > 0;)
        if (kn->pending[i].depth >= depth) {
            kn->pending[i].t->node = kn->pending[i].t->store;
            remove_pending(kn, &kn->pending[i]);
        }
}

bool kt_add_pending(kn_context *kn, kt_slot *t, kn_ref value) {
    kt_pending *p = pending_of(kn, t);
    if (!p) {
        if (!KN_GROW(kn->alloc, kn->pending, kn->pending_cap, kn->npending + 1)) {
            kt_fail(kn, KN_ERR_MEMORY, "out of memory");
            return false;
        }
        p = &kn->pending[kn->npending++];
    }
    *p      = (kt_pending){.t = t, .depth = kn->scope->depth};
    t->node = value;
    return true;
}

/* ---- one run --------------------------------------------------------------------------------------------------- */

typedef struct run_state {
    kn_context *kn;
    kn_ref     *nodes; /* scratch: a node a live handle and a pending assignment */
    size_t      cap;
    uint8_t    *mark;
    uint32_t    count;                     /* nodes of the graph when the run began */
    kn_ref     *roots, *results, *inplace; /* cap each */
    int         nroots, ninplace;
    uint8_t    *dep; /* of the nodes before kr_run: depends on a buffer assigned in place */
    uint32_t    ndep;
    bool        file;    /* someone still reads a mapped file that is about to be assigned */
    int        *root_of; /* of want[i]: its root, -1 none; then of pending[i] */
} run_state;

static bool run_begin(run_state *r, kn_context *kn, int n) {
    *r = (run_state){.kn = kn, .count = kg_count(kn->g), .cap = (size_t)kn->ntensors + kn->npending + (size_t)n + 1};
    r->nodes   = kn_realloc(kn->alloc, NULL, 0, r->cap * 4 * sizeof *r->nodes);
    r->root_of = kn_realloc(kn->alloc, NULL, 0, r->cap * sizeof *r->root_of);
    r->mark    = kn_realloc(kn->alloc, NULL, 0, r->count);
    if (!r->nodes || !r->root_of || !r->mark) return false;
    r->roots   = r->nodes + r->cap;
    r->results = r->roots + r->cap;
    r->inplace = r->results + r->cap;
    return true;
}

static void run_end(run_state *r) {
    kn_free(r->kn->alloc, r->nodes, r->cap * 4 * sizeof *r->nodes);
    kn_free(r->kn->alloc, r->root_of, r->cap * sizeof *r->root_of);
    kn_free(r->kn->alloc, r->mark, r->count);
    kn_free(r->kn->alloc, r->dep, r->ndep);
}

static int add_root(run_state *r, kn_ref node) {
    for (int i = 0; i < r->nroots; i++)
        if (r->roots[i] == node) return i;
    r->roots[r->nroots] = node;
    return r->nroots++;
}

/* Which assignments run: those of the scope, and all once a wanted value reads one of the others. */
static bool choose_pending(run_state *r, kt_slot *const *want, int n, uint32_t depth) {
    kn_context *kn   = r->kn;
    size_t      left = 0, at = 0;
    for (size_t i = 0; i < kn->npending; i++) {
        kn->pending[i].run   = depth != KT_NOW && kn->pending[i].depth >= depth;
        kn->pending[i].fresh = false;
        kn->pending[i].copy  = 0;
        left += !kn->pending[i].run;
    }
    if (!left) return true;
    bool all = false;
    for (int i = 0; i < n; i++) {
        if (want[i]->flags & KT_WANTED) r->nodes[at++] = want[i]->node;
        all |= pending_of(kn, want[i]) != NULL;
    }
    for (size_t i = 0; i < kn->npending; i++)
        if (kn->pending[i].run) r->nodes[at++] = kn->pending[i].t->node;
    memset(r->mark, 0, r->count);
    if (!kt_mark(kn, r->nodes, at, true, r->mark, r->count)) return false;
    for (size_t i = 0; i < kn->npending; i++) {
        kn_ref v = kn->pending[i].t->node;
        all |= !kn->pending[i].run && r->mark[v] && !realized_as(kn, v);
    }
    for (size_t i = 0; all && i < kn->npending; i++) kn->pending[i].run = true;
    return true;
}

/* Rule 1: who still reads the buffers that are about to be assigned. */
static bool find_readers(run_state *r) {
    kn_context *kn = r->kn;
    size_t      at = 0;
    for (kt_slot *s = kt_first(kn); s; s = kt_next(s)) {
        kt_pending *p = pending_of(kn, s);
        if (s->flags & KT_WANTED || (p && p->run)) continue;
        r->nodes[at++] = s->node;
    }
    memset(r->mark, 0, r->count);
    if (!kt_mark(kn, r->nodes, at, false, r->mark, r->count)) return false;
    for (size_t i = 0; i < kn->npending; i++) {
        kt_pending *p = &kn->pending[i];
        kn_ref      b = kt_buffer_of(kn->g, p->t->store);
        p->fresh      = p->run && r->mark[b];
        r->file |= p->fresh && kr_buffer_is_file(kn->rt, kg_field(kn->g, b, KN_F_BUFFER_slot));
    }
    return true;
}

bool kt_readers(kn_context *kn, const uint8_t *buffer, kt_slot **out, int *n) {
    uint32_t count = kg_count(kn->g);
    uint8_t *mark  = kn_realloc(kn->alloc, NULL, 0, count);
    bool     ok    = mark != NULL;
    for (kt_slot *s = kt_first(kn); ok && s; s = kt_next(s)) {
        kt_pending *p     = pending_of(kn, s);
        bool        reads = false;
        if (s->flags & KT_WANTED || s->node == s->store || (p && p->run)) continue;
        memset(mark, 0, count);
        ok = kt_mark(kn, &s->node, 1, false, mark, count);
        for (kn_ref id = 1; ok && id < count && !reads; id++) reads = mark[id] && buffer[id];
        if (reads) out[(*n)++] = s;
    }
    kn_free(kn->alloc, mark, count);
    return ok || kn_oom(kg_fault(kn->g));
}

/* A file stays where it is: who reads it is computed in the same run. */
static bool save_file_readers(kn_context *kn, const char *op, kt_slot *const *want, int n, uint32_t depth) {
    uint32_t  count = kg_count(kn->g);
    size_t    cap   = (size_t)kn->ntensors + (size_t)n + 1;
    kt_slot **list  = kn_realloc(kn->alloc, NULL, 0, cap * sizeof *list);
    uint8_t  *file  = kn_zalloc(kn->alloc, count);
    int       m     = n;
    bool      ok    = (list && file) || kn_oom(kg_fault(kn->g));
    if (ok && n) memcpy(list, want, (size_t)n * sizeof *list);
    for (size_t i = 0; ok && i < kn->npending; i++) {
        kn_ref buf = kt_buffer_of(kn->g, kn->pending[i].t->store);
        if (kn->pending[i].fresh) file[buf] = kr_buffer_is_file(kn->rt, kg_field(kn->g, buf, KN_F_BUFFER_slot));
    }
    ok = ok && kt_readers(kn, file, list, &m);
    for (int i = n; ok && i < m; i++)
        if (kt_buffer_of(kn->g, list[i]->node)) ok = kt_unshare(kn, list[i]);
    if (!ok) kt_take_fault(kn, kg_fault(kn->g), op);
    for (int i = 0; i < n; i++) want[i]->flags &= (uint8_t)~KT_WANTED;
    ok = ok && kt_run(kn, op, list, m, depth);
    kn_free(kn->alloc, list, cap * sizeof *list);
    kn_free(kn->alloc, file, count);
    return ok;
}

static bool build_roots(run_state *r, kt_slot *const *want, int n) {
    kn_context *kn = r->kn;
    kn_graph   *g  = kn->g;
    for (int i = 0; i < n; i++) r->root_of[i] = want[i]->flags & KT_WANTED ? add_root(r, want[i]->node) : -1;
    for (size_t i = 0; i < kn->npending; i++) {
        kt_pending *p  = &kn->pending[i];
        int        *at = &r->root_of[(size_t)n + i];
        *at            = -1;
        if (!p->run) continue;
        kn_ref value = kt_node(p->t);
        if (p->fresh && kt_buffer_of(g, value)) {
            if (!(p->copy = copy_storage(kn, value))) return false;
        } else if (p->fresh) {
            *at = add_root(r, value);
        } else {
            kn_ref  buf  = kt_buffer_of(g, p->t->store);
            int64_t size = kg_numel(g, buf);
            kn_ref  set  = kg_store(g, buf, kg_reshape(g, value, &size, 1), 0);
            kn_ref  root = kg_after(g, buf, &set, 1);
            if (!root) return false;
            *at                       = add_root(r, root);
            r->inplace[r->ninplace++] = buf;
        }
    }
    r->ndep = kg_count(g);
    r->dep  = kn_realloc(kn->alloc, NULL, 0, r->ndep);
    if (!r->dep) return kn_oom(kg_fault(g));
    kt_dependents(g, r->inplace, r->ninplace, r->dep, r->ndep);
    return true;
}

/* The storage node of a root's result, shaped like `like`. A buffer that existed before the run is someone else's. */
static kn_ref result_node(run_state *r, int root, kn_ref like, bool *shared) {
    int            rank;
    const int64_t *dims = kg_shape(r->kn->g, like, &rank);
    *shared             = r->results[root] < r->count;
    return kt_stored_as(r->kn->g, r->results[root], dims, rank);
}

static bool owned_twice(kn_context *kn, kn_ref buf, const kt_slot *by) {
    for (kt_slot *s = kt_first(kn); s; s = kt_next(s))
        if (s != by && s->store && kt_buffer_of(kn->g, s->store) == buf) return true;
    return false;
}

static void settle(run_state *r, kt_slot *s, int root, kn_ref value) {
    bool   shared;
    kn_ref st = result_node(r, root, value, &shared);
    if (!st) return; /* out of memory, in the graph's fault */
    s->node  = st;
    s->store = shared || owned_twice(r->kn, kt_buffer_of(r->kn->g, st), s) ? 0 : st;
    s->flags |= KT_OWNABLE;
    /* a tensor asked for twice is settled twice, the second time from its new storage, which `dep` does not know */
    if (value < r->ndep && !r->dep[value]) note_realized(r->kn, value, st);
}

static bool run_roots(run_state *r, kt_slot *const *want, int n) {
    kn_context *kn = r->kn;
    kn_graph   *g  = kn->g;
    if (r->nroots &&
        !kr_run(kn->rt, g, kn->realized, (uint32_t)kn->realized_cap, r->roots, r->nroots, r->results, kg_fault(g)))
        return false;
    if (r->ninplace) forget_dependents(kn, r->dep);
    for (size_t i = 0; i < kn->npending; i++) {
        kt_pending *p    = &kn->pending[i];
        int         root = r->root_of[(size_t)n + i];
        if (!p->run) continue;
        kn_ref value = p->t->node;
        if (p->copy) {
            p->t->node = p->t->store = p->copy;
        } else if (p->fresh) {
            settle(r, p->t, root, value);
        } else {
            p->t->node = p->t->store;
            if (!r->dep[value] && !kt_buffer_of(g, value)) note_realized(kn, value, p->t->store);
        }
    }
    for (int i = 0; i < n; i++)
        if (r->root_of[i] >= 0) settle(r, want[i], r->root_of[i], want[i]->node);
    for (size_t i = kn->npending; i-- > 0;)
        if (kn->pending[i].run) remove_pending(kn, &kn->pending[i]);
    return kg_fault(g)->code == KN_OK;
}

bool kt_run(kn_context *kn, const char *op, kt_slot *const *want, int n, uint32_t depth) {
    bool      any = depth != KT_NOW && kn->npending;
    run_state r;
    kn_graph *g = kn->g;
    for (int i = 0; i < n; i++) {
        kt_slot *s = want[i];
        kt_node(s);
        bool lazy = !kt_buffer_of(g, s->node) && kg_numel(g, s->node) != 0;
        s->flags  = (uint8_t)(lazy && !pending_of(kn, s) ? s->flags | KT_WANTED : s->flags & ~KT_WANTED);
        any |= lazy || pending_of(kn, s);
    }
    if (!any) return true;
    if (!kt_may_run(kn, op)) return false;
    kn_why_call(kn->why, op, true);
    bool ok = run_begin(&r, kn, n) && choose_pending(&r, want, n, depth) && find_readers(&r);
    if (ok && r.file) {
        run_end(&r);
        return save_file_readers(kn, op, want, n, depth);
    }
    if (!ok && kg_fault(g)->code == KN_OK) kn_oom(kg_fault(g));
    ok = ok && build_roots(&r, want, n) && run_roots(&r, want, n);
    if (!ok) {
        for (size_t i = kn->npending; i-- > 0;)
            if (kn->pending[i].run) {
                kn->pending[i].t->node = kn->pending[i].t->store;
                remove_pending(kn, &kn->pending[i]);
            }
        kt_take_fault(kn, kg_fault(g), op);
    }
    for (int i = 0; i < n; i++) want[i]->flags &= (uint8_t)~KT_WANTED;
    run_end(&r);
    return ok;
}

bool kt_make_storage(kn_context *kn, const char *op, kt_slot *const *t, int n) {
    kt_slot **lazy = kn_realloc(kn->alloc, NULL, 0, ((size_t)n + 1) * sizeof *lazy);
    int       k    = 0;
    bool      ok   = lazy || kn_oom(kg_fault(kn->g));
    for (int i = 0; ok && i < n; i++) {
        if (t[i]->store) continue;
        ok        = t[i]->flags & KT_OWNABLE;
        lazy[k++] = t[i];
        if (!ok)
            kn_fail(kg_fault(kn->g), KN_ERR_STATE,
                    "the tensor is a view or a lazy result and owns no storage: kn_realize "
                    "or kn_contiguous gives it some");
    }
    ok = ok && kt_run(kn, op, lazy, k, KT_NOW);
    for (int i = 0; ok && i < k; i++) {
        if (lazy[i]->store || !kg_numel(kn->g, lazy[i]->node)) continue;
        ok = kt_unshare(kn, lazy[i]); /* it shares its buffer, or borrows it */
    }
    kn_free(kn->alloc, lazy, ((size_t)n + 1) * sizeof *lazy);
    if (!ok && kg_fault(kn->g)->code != KN_OK) kt_take_fault(kn, kg_fault(kn->g), op);
    return ok;
}
