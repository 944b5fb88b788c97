/* jit.c - captured steps.
 *
 * Contract: a step is traced over stand-ins for its inputs, compiled as one schedule, and replayed with the inputs'
 * buffers in their place. A capture knows the buffers it works on by what they are:
 *   an input's       bound anew at each call; copied first when the step also writes that buffer
 *   an outer's       of a tensor made outside: looked up at each call, since writing and assigning may give it others
 *   a result's       owned by the step, as are constants that fn made
 * A replay keeps the rules of run.c: who still reads a buffer that is about to be written is computed before, and notes
 * of what was computed from it are forgotten after. Where nobody does, it costs a walk over the live handles. */
#include "lower/lower.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

typedef struct jit_input {
    int        rank, dtype, source;  /* source -1: the step does not read it */
    int64_t    dims[KN_MAX_RANK];
    int        symbol[KN_MAX_RANK]; /* of a symbolic size, whose dim is then 0; -1 none */
    kn_tensor *stand; /* what fn saw; room for a copy */
    int64_t    slot;  /* of stand; 0: no elements */
} jit_input;

typedef struct jit_outer {
    kn_tensor *t;
    int        source;
    bool       leads; /* the first one with this source */
} jit_outer;

typedef struct jit_capture {
    struct jit_capture *next;
    int                 nin, nout;
    jit_input          *in;
    kn_tensor         **out;
    jit_outer          *outer;
    size_t              nouter, outer_cap;
    kn_tensor         **held; /* constants */
    size_t              nheld, held_cap;
    int64_t            *draw; /* keys of random numbers: slots, 0 for one nothing depends on */
    size_t              ndraw, draw_cap;
    int64_t            *written; /* slots, ascending */
    size_t              nwritten, written_cap;
    kr_capture         *run; /* NULL: nothing to do */
    kr_source          *source;
    int                 nsource;
    kr_variable        *var;
    int                 nvar;
    uint64_t            opts;  /* kr_opts_version when it was lowered */
    uint64_t            notes; /* kn->notes when those that depend on written buffers were forgotten */
} jit_capture;

struct kn_jit {
    kn_context  *kn;
    kn_fn        fn;
    void        *user;
    kt_slot     *home; /* the scope that owns it and its tensors */
    jit_capture *first;
    kt_slot    **list; /* scratch, kept between calls */
    size_t       list_cap;
    uint8_t     *mark;
    size_t       mark_cap;
    kn_ref      *stack;
    size_t       stack_cap;
};

enum { JIT_TRIES = 4 };

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void jit_capture_free(kn_context *kn, jit_capture *c) {
    kr_capture_free(c->run);
    kn_free(kn->alloc, c->in, ((size_t)c->nin + 1) * sizeof *c->in);
    kn_free(kn->alloc, c->out, ((size_t)c->nout + 1) * sizeof *c->out);
    kn_free(kn->alloc, c->outer, c->outer_cap * sizeof *c->outer);
    kn_free(kn->alloc, c->held, c->held_cap * sizeof *c->held);
    kn_free(kn->alloc, c->draw, c->draw_cap * sizeof *c->draw);
    kn_free(kn->alloc, c->written, c->written_cap * sizeof *c->written);
    kn_free(kn->alloc, c, sizeof *c);
}

/* Its tensors die with the scope that owns it. */
static void jit_end(void *object) {
    kn_jit     *j  = object;
    kn_context *kn = j->kn;
    for (jit_capture *c = j->first, *next; c; c = next) {
        next = c->next;
        jit_capture_free(kn, c);
    }
    kn_free(kn->alloc, j->list, j->list_cap * sizeof *j->list);
    kn_free(kn->alloc, j->mark, j->mark_cap);
    kn_free(kn->alloc, j->stack, j->stack_cap * sizeof *j->stack);
}

kn_jit *kn_jit_new(kn_context *kn, kn_fn fn, void *user) {
    if (!kn) return NULL;
    if (!fn) {
        kt_error(kn, KN_ERR_ARG, "kn_jit_new: the function is NULL");
        return NULL;
    }
    kn_jit *j = kt_own_object(kn, sizeof *j, jit_end);
    if (!j) return NULL;
    j->kn   = kn;
    j->fn   = fn;
    j->user = user;
    j->home = kn->scope;
    return j;
}

static void jit_release(kn_tensor *t) {
    kt_slot *s = kt_slot_of(t);
    if (!s) return;
    kt_drop_pending(s->kn, s);
    kt_unlink(s);
    kt_slot_free(s);
}

/* A capture that no longer holds, with its tensors. */
static void jit_drop(kn_jit *j, jit_capture *c) {
    jit_capture **at = &j->first;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    for (int i = 0; c->in && i < c->nin; i++) jit_release(c->in[i].stand);
    for (int i = 0; c->out && i < c->nout; i++) jit_release(c->out[i]);
    for (size_t i = 0; i < c->nheld; i++) jit_release(c->held[i]);
    jit_capture_free(j->kn, c);
}

/* ---- tracing --------------------------------------------------------------------------------------------------- */

/* A tensor of the scope that owns the step; store: it owns the storage it stands for. */
static kn_tensor *jit_tensor(kn_jit *j, kn_ref node, bool store) {
    kn_tensor *t = kt_wrap(j->kn, node, "kn_call");
    kt_slot   *s = kt_slot_of(t);
    if (!s) return NULL;
    kt_unlink(s);
    kt_link(j->home, s);
    if (store) s->store = s->node;
    return t;
}

static int64_t jit_buffer_slot(const kn_graph *g, kn_ref node) {
    kn_ref buf = kt_buffer_of(g, node);
    return buf ? kg_field(g, buf, KN_F_BUFFER_slot) : 0;
}

static int jit_source(const jit_capture *c, int64_t slot) {
    for (int i = 0; slot && i < c->nsource; i++)
        if (c->source[i].slot == slot) return i;
    return -1;
}

/* Node n's shape: numbers, and symbols with their values. False, and recorded: sizes that are neither. */
static bool jit_shape(kn_context *kn, kn_ref n, int i, int64_t *dims, int *symbol, int64_t *value) {
    int            rank;
    const int64_t *s = kg_shape(kn->g, n, &rank);
    char           a[KT_SHAPE_TEXT];
    for (int k = 0; k < rank; k++) {
        dims[k]   = KN_MAX(s[k], 0);
        symbol[k] = kt_symbol_of(kn, kn->g, s[k], &value[k]);
        if (s[k] >= 0 || symbol[k] >= 0) continue;
        kt_error(kn, KN_ERR_UNSUPPORTED,
                 "kn_call: in[%d] is %s: a symbolic size of an input is a symbol that is bound, not one computed", i,
                 kt_shape_text(kn->g, n, a));
        return false;
    }
    return true;
}

static bool jit_stand_in(kn_jit *j, jit_input *in, kn_tensor *t, int i) {
    kn_context    *kn   = j->kn;
    kn_ref         node = kt_slot_of(t)->node;
    const int64_t *dims = kg_shape(kn->g, node, &in->rank);
    int64_t        value[KN_MAX_RANK];
    in->dtype = kg_dtype(kn->g, node);
    if (!jit_shape(kn, node, i, in->dims, in->symbol, value)) return false;
    node      = kg_numel(kn->g, node)
                    ? kt_storage_node(kn, (kn_dtype)in->dtype, dims, in->rank, NULL)
                    : kt_fill(&(kt_call){kn, kn->g, "kn_call"}, (kn_dtype)in->dtype, 0, in->dims, in->rank);
    in->stand = jit_tensor(j, node, kg_numel(kn->g, node) != 0);
    in->slot  = node ? jit_buffer_slot(kn->g, node) : 0;
    return in->stand != NULL;
}

static int jit_by_slot(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool jit_sort_written(kn_context *kn, jit_capture *c) {
    c->nwritten = 0;
    if (!KN_GROW(kn->alloc, c->written, c->written_cap, (size_t)c->nsource + 1)) return kn_oom(kg_fault(kn->g));
    for (int i = 0; i < c->nsource; i++)
        if (c->source[i].written) c->written[c->nwritten++] = c->source[i].slot;
    qsort(c->written, c->nwritten, sizeof *c->written, jit_by_slot);
    return true;
}

static bool jit_add_outer(kn_context *kn, jit_capture *c, const kt_slot *s, int source) {
    bool leads = true;
    if (!KN_GROW(kn->alloc, c->outer, c->outer_cap, c->nouter + 1)) return kn_oom(kg_fault(kn->g));
    for (size_t i = 0; i < c->nouter; i++) {
        if (c->outer[i].t == kt_handle(s)) return true;
        leads &= c->outer[i].source != source;
    }
    c->outer[c->nouter++] = (jit_outer){kt_handle(s), source, leads};
    return true;
}

/* Whose each buffer is. */
static bool jit_assort(kn_jit *j, jit_capture *c, const kt_trace *t) {
    kn_context *kn = j->kn;
    for (int i = 0; i < c->nin; i++) c->in[i].source = jit_source(c, c->in[i].slot);
    for (size_t i = 0; i < t->nouter; i++) {
        int source = jit_source(c, jit_buffer_slot(kn->g, kt_node(t->outer[i])));
        if (source >= 0 && !jit_add_outer(kn, c, t->outer[i], source)) return false;
    }
    for (int k = 0; k < c->nsource; k++) {
        int64_t slot  = c->source[k].slot;
        bool    known = false;
        for (int i = 0; i < c->nin; i++) known |= c->in[i].source == k;
        for (size_t i = 0; i < c->nouter; i++) known |= c->outer[i].source == k;
        for (int i = 0; i < c->nout; i++) known |= jit_buffer_slot(kn->g, kt_slot_of(c->out[i])->node) == slot;
        for (kt_slot *s = kt_first(kn); s && !known; s = kt_next(s)) {
            /* Of a tensor outside that the function came to by a gradient. */
            if (s->scope->depth >= t->depth || !s->store || jit_buffer_slot(kn->g, s->store) != slot) continue;
            if (!jit_add_outer(kn, c, s, k)) return false;
            known = true;
        }
        if (known) continue;
        if (!KN_GROW(kn->alloc, c->held, c->held_cap, c->nheld + 1)) return kn_oom(kg_fault(kn->g));
        if (!(c->held[c->nheld] = jit_tensor(j, c->source[k].node, true))) return false;
        c->nheld++;
    }
    if (!KN_GROW(kn->alloc, c->draw, c->draw_cap, t->ndraw)) return kn_oom(kg_fault(kn->g));
    for (size_t i = 0; i < t->ndraw; i++) c->draw[i] = jit_source(c, t->draw[i]) >= 0 ? t->draw[i] : 0;
    c->ndraw = t->ndraw;
    return jit_sort_written(kn, c);
}

/* What one call does, as roots of a run: results, then assignments. */
static bool jit_compile(kn_jit *j, jit_capture *c, const kt_trace *t, kn_tensor *const *res) {
    kn_context *kn   = j->kn;
    kn_graph   *g    = kn->g;
    kn_fault   *f    = kg_fault(g);
    size_t      cap  = (size_t)c->nout + kn->npending + 1;
    kn_ref     *root = kn_zalloc(kn->alloc, 2 * cap * sizeof *root), *result = root ? root + cap : NULL;
    int         n  = 0;
    bool        ok = root || kn_oom(f);
    for (int i = 0; ok && i < c->nout; i++) {
        kn_ref node = kt_node(kt_slot_of(res[i]));
        if (!kg_numel(g, node)) continue;
        ok = (root[n++] = kt_buffer_of(g, node) ? kg_load_to(g, node, 0, KN_GLOBAL) : node) != 0;
    }
    for (size_t i = 0; ok && i < kn->npending; i++) {
        kt_slot *s    = kn->pending[i].t;
        kn_ref   buf  = kt_buffer_of(g, s->store), set;
        int64_t  size = kg_numel(g, buf);
        set           = kg_store(g, buf, kg_reshape(g, kt_node(s), &size, 1), 0);
        ok            = (root[n++] = kg_after(g, buf, &set, 1)) != 0;
    }
    if (ok && n) {
        c->run = kr_capture_new(kn->rt, g, kn->realized, (uint32_t)kn->realized_cap, root, n, result, f);
        ok     = c->run != NULL;
        if (ok) c->source = kr_capture_sources(c->run, &c->nsource);
        if (ok) c->var = kr_capture_variables(c->run, &c->nvar);
        for (int i = 0; ok && i < c->nvar; i++)
            for (int k = 0; ok && k < i; k++)
                if (!strcmp(c->var[i].name, c->var[k].name))
                    ok = kn_fail(f, KN_ERR_ARG, "%s is bound to %lld and to %lld in one step", c->var[i].name,
                                 (long long)c->var[k].value, (long long)c->var[i].value);
        c->opts = kr_opts_version(kn->rt);
    }
    n = 0;
    for (int i = 0; ok && i < c->nout; i++) {
        kn_ref         node = kt_node(kt_slot_of(res[i]));
        int            rank;
        const int64_t *dims = kg_shape(g, node, &rank);
        bool           some = kg_numel(g, node) != 0;
        node                = some ? kt_stored_as(g, result[n++], dims, rank)
                                   : kt_fill(&(kt_call){kn, g, "kn_call"}, (kn_dtype)kg_dtype(g, node), 0, dims, rank);
        ok                  = (c->out[i] = jit_tensor(j, node, some)) != NULL;
    }
    ok = ok && jit_assort(j, c, t);
    kn_free(kn->alloc, root, 2 * cap * sizeof *root);
    if (!ok && f->code != KN_OK) kt_take_fault(kn, f, "kn_call");
    return ok;
}

static bool jit_new_arrays(kn_context *kn, jit_capture *c, int nin, int nout) {
    c->nin  = nin;
    c->nout = nout;
    c->in   = kn_zalloc(kn->alloc, ((size_t)nin + 1) * sizeof *c->in);
    c->out  = kn_zalloc(kn->alloc, ((size_t)nout + 1) * sizeof *c->out);
    return c->in && c->out;
}

/* NULL: recorded. */
static jit_capture *jit_trace(kn_jit *j, int nin, kn_tensor *const *in, int nout) {
    kn_context *kn = j->kn;
    size_t bytes = ((size_t)nin + (size_t)nout + 1) * sizeof(kn_tensor *), rbytes = ((size_t)nin + 1) * sizeof(kn_ref);
    kn_tensor  **arg = kn_zalloc(kn->alloc, bytes), **res = arg ? arg + nin : NULL;
    kn_ref      *stand = kn_zalloc(kn->alloc, rbytes);
    jit_capture *c     = kn_zalloc(kn->alloc, sizeof *c);
    kt_trace     t     = {0};
    uint64_t     draws = kn->draws;
    int          n     = 0; /* stand-ins with elements */
    bool         begun = false, ok = arg && stand && c && jit_new_arrays(kn, c, nin, nout);
    if (!ok) kt_error(kn, KN_ERR_MEMORY, "kn_call: out of memory");
    ok = ok && kt_run(kn, "kn_call", NULL, 0, 0);
    for (int i = 0; ok && i < nin; i++) {
        ok = jit_stand_in(j, &c->in[i], in[i], i);
        if (ok && c->in[i].slot) stand[n++] = kt_slot_of(c->in[i].stand)->node;
    }
    ok = ok && (begun = kt_trace_begin(kn, &t, false));
    for (int i = 0; ok && i < nin; i++) ok = kn_ok(arg[i] = kt_wrap(kn, kt_slot_of(c->in[i].stand)->node, "kn_call"));
    ok = ok && kt_trace_call(kn, "kn_call", j->fn, j->user, nin, arg, nout, res) == KN_OK;
    ok = ok && jit_compile(j, c, &t, res);
    if (begun) kt_trace_end(kn, &t, stand, n);
    ok = ok && kn->fault.code == KN_OK;
    kt_trace_free(kn, &t);
    kn->draws = draws; /* the replay draws */
    kn_free(kn->alloc, arg, bytes);
    kn_free(kn->alloc, stand, rbytes);
    if (ok) {
        c->next  = j->first;
        j->first = c;
        return c;
    }
    if (c) jit_drop(j, c);
    return NULL;
}

/* ---- before a replay ------------------------------------------------------------------------------------------- */

enum jit_answer { JIT_FAILED, JIT_STALE, JIT_READY };

static bool jit_writes(const jit_capture *c, int64_t slot) {
    size_t lo = 0, hi = c->nwritten;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (c->written[mid] < slot)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < c->nwritten && c->written[lo] == slot;
}

/* Where a tensor's bytes stand; false: it has to be computed first. */
static bool jit_locate(kn_context *kn, kn_ref n, int64_t *slot, int64_t *offset) {
    kn_graph *g = kn->g;
    kn_ref    buf = kt_buffer_of(g, n);
    int64_t   at = 0;
    while (kg_op(g, n) == KN_OP_RESHAPE) n = kg_at(g, n, 0);
    if (!buf && !kl_row_slice(g, kn->realized, (uint32_t)kn->realized_cap, n, &buf, &at))
        return false;
    *slot   = kg_field(g, buf, KN_F_BUFFER_slot);
    *offset = at * kn_dsize(kg_dtype(g, buf));
    return true;
}

/* An assignment that is still to happen concerns the step: it happens now. */
static bool jit_pending(kn_jit *j, const jit_capture *c) {
    kn_context *kn = j->kn;
    for (size_t i = 0; i < kn->npending; i++)
        if (jit_source(c, jit_buffer_slot(kn->g, kn->pending[i].t->store)) >= 0)
            return kt_run(kn, "kn_call", NULL, 0, 0);
    return true;
}

static bool jit_push(kn_jit *j, size_t n, kt_slot *s) {
    kn_context *kn = j->kn;
    if (!KN_GROW(kn->alloc, j->list, j->list_cap, n + 1)) {
        kt_error(kn, KN_ERR_MEMORY, "kn_call: out of memory");
        return false;
    }
    j->list[n] = s;
    return true;
}

static bool jit_compute_inputs(kn_jit *j, int nin, kn_tensor *const *in) {
    size_t  n = 0;
    int64_t slot, offset;
    for (int i = 0; i < nin; i++) {
        kt_slot *s = kt_slot_of(in[i]);
        if (!kg_numel(j->kn->g, kt_node(s)) || jit_locate(j->kn, s->node, &slot, &offset)) continue;
        if (!jit_push(j, n++, s)) return false;
    }
    return !n || kt_run(j->kn, "kn_call", j->list, (int)n, KT_NOW);
}

/* The buffers of tensors made outside are where those tensors are now. */
static enum jit_answer jit_follow(kn_jit *j, jit_capture *c) {
    kn_context *kn    = j->kn;
    bool        moved = false;
    for (size_t i = 0; i < c->nouter; i++) {
        jit_outer *o    = &c->outer[i];
        kr_source *src  = &c->source[o->source];
        kt_slot   *s    = kt_slot_of(o->t);
        int64_t    slot = s ? jit_buffer_slot(kn->g, kt_node(s)) : 0;
        if (slot && slot == src->slot) continue;
        if (!slot || !o->leads || (src->written && s->node != s->store)) return JIT_STALE;
        for (size_t k = 0; k < c->nouter; k++) /* two become one: another program */
            if (c->source[c->outer[k].source].slot == slot) return JIT_STALE;
        src->slot = slot;
        moved     = true;
    }
    if (moved && !jit_sort_written(kn, c)) return kt_take_fault(kn, kg_fault(kn->g), "kn_call"), JIT_FAILED;
    return JIT_READY;
}

/* Whether the value of a node depends on a buffer the step writes, or did when it was computed. Nodes marked so far do
 * not. -1: out of memory, and recorded. */
static int jit_depends(kn_jit *j, const jit_capture *c, kn_ref root) {
    kn_context *kn  = j->kn;
    kn_graph   *g   = kn->g;
    size_t      top = 0;
    if (j->mark[root]) return 0;
    j->mark[root]   = 1;
    j->stack[top++] = root;
    while (top) {
        kn_ref        id = j->stack[--top], r = id < kn->realized_cap ? kn->realized[id] : 0;
        const kn_ref *src = kg_src(g, id);
        if (kg_op(g, id) == KN_OP_BUFFER && jit_writes(c, kg_field(g, id, KN_F_BUFFER_slot))) return 1;
        if (r && !j->mark[r]) j->mark[r] = 1, j->stack[top++] = r;
        for (uint32_t k = kg_nsrc(g, id); k-- > 0;)
            if (!j->mark[src[k]]) j->mark[src[k]] = 1, j->stack[top++] = src[k];
    }
    return 0;
}

/* j->list: the live tensors whose values would change under them. -1: failed, and recorded. */
static int jit_readers(kn_jit *j, const jit_capture *c) {
    kn_context *kn    = j->kn;
    uint32_t    count = kg_count(kn->g);
    size_t      n     = 0;
    bool        clean = false;
    for (kt_slot *s = kt_first(kn); s; s = kt_next(s)) {
        if (s->node == s->store) continue;
        kn_ref buf   = kt_buffer_of(kn->g, s->node);
        bool   reads = buf && jit_writes(c, kg_field(kn->g, buf, KN_F_BUFFER_slot));
        if (!buf) {
            if (!KN_GROW(kn->alloc, j->mark, j->mark_cap, count) ||
                !KN_GROW(kn->alloc, j->stack, j->stack_cap, count)) {
                kt_error(kn, KN_ERR_MEMORY, "kn_call: out of memory");
                return -1;
            }
            if (!clean) memset(j->mark, 0, count);
            reads = jit_depends(j, c, s->node);
            clean = !reads;
        }
        if (reads && !jit_push(j, n++, s)) return -1;
    }
    return (int)n;
}

/* Computes them, and gives those that share a buffer one of their own. */
static bool jit_save_readers(kn_jit *j, const jit_capture *c, int n) {
    kn_context *kn = j->kn;
    if (!kt_run(kn, "kn_call", j->list, n, KT_NOW)) return false;
    for (int i = 0; i < n; i++) {
        kt_slot *s = j->list[i];
        if (s->node == s->store || !jit_writes(c, jit_buffer_slot(kn->g, s->node))) continue;
        if (!kt_unshare(kn, s)) return kt_take_fault(kn, kg_fault(kn->g), "kn_call") == KN_OK;
    }
    return true;
}

static bool jit_bind_input(kn_jit *j, jit_capture *c, int i, kn_tensor *t) {
    kn_context *kn  = j->kn;
    jit_input  *in  = &c->in[i];
    kr_source  *src = &c->source[in->source];
    if (!jit_locate(kn, kt_node(kt_slot_of(t)), &src->slot, &src->offset))
        return kt_error(kn, KN_ERR_INTERNAL, "kn_call: in[%d] was not computed", i) == KN_OK;
    if (!jit_writes(c, src->slot)) return true;
    kn_fault   *f     = kg_fault(kn->g);
    int64_t     now[KN_MAX_RANK], numel;
    const char *from  = kr_buffer_read(kn->rt, src->slot, f);
    char       *to    = kr_buffer_data(kn->rt, in->slot, f);
    bool        sized = kt_sizes_now(kn->g, kt_slot_of(t)->node, now, &numel, f);
    size_t      bytes = sized ? (size_t)numel * (size_t)kn_dsize(in->dtype) : 0;
    if (!from || !to || !sized) return kt_take_fault(kn, f, "kn_call") == KN_OK;
    memcpy(to, from + src->offset, bytes);
    src->slot   = in->slot;
    src->offset = 0;
    return true;
}

static enum jit_answer jit_prepare(kn_jit *j, jit_capture *c, kn_tensor *const *in) {
    if (c->opts != kr_opts_version(j->kn->rt)) return JIT_STALE;
    if (!jit_pending(j, c)) return JIT_FAILED;
    if (!jit_compute_inputs(j, c->nin, in)) return JIT_FAILED;
    enum jit_answer a = jit_follow(j, c);
    if (a != JIT_READY) return a;
    int n = jit_readers(j, c);
    if (n < 0 || (n && !jit_save_readers(j, c, n))) return JIT_FAILED;
    if (n && (a = jit_follow(j, c)) != JIT_READY) return a;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].source >= 0 && !jit_bind_input(j, c, i, in[i])) return JIT_FAILED;
    return JIT_READY;
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

static bool jit_draw_keys(kn_context *kn, const jit_capture *c) {
    for (size_t i = 0; i < c->ndraw; i++) {
        uint64_t  key = kn_threefry2x32(kn->draws++, kn->seed);
        uint64_t *to  = c->draw[i] ? kr_buffer_data(kn->rt, c->draw[i], kg_fault(kn->g)) : &key;
        if (!to) return false;
        *to = key;
    }
    return true;
}

/* Rule 2 of run.c. Notes that are older than the last time do not depend on these buffers. */
static bool jit_forget(kn_jit *j, jit_capture *c) {
    kn_context *kn = j->kn;
    if (c->notes == kn->notes) return true;
    c->notes     = kn->notes;
    uint32_t cnt = kg_count(kn->g);
    int      n   = 0;
    if (!kn->nknown) return true;
    if (!KN_GROW(kn->alloc, j->stack, j->stack_cap, cnt)) return kn_oom(kg_fault(kn->g));
    for (kn_ref id = 1; id < cnt; id++)
        if (kg_op(kn->g, id) == KN_OP_BUFFER && jit_writes(c, kg_field(kn->g, id, KN_F_BUFFER_slot)))
            j->stack[n++] = id;
    return kt_overwritten(kn, j->stack, n);
}

static jit_capture *jit_find(kn_jit *j, int nin, kn_tensor *const *in, int nout) {
    kn_graph *g = j->kn->g;
    for (jit_capture *c = j->first; c; c = c->next) {
        bool same = c->nin == nin && c->nout == nout;
        for (int i = 0; same && i < nin; i++) {
            const jit_input *x = &c->in[i];
            kn_ref           n = kt_slot_of(in[i])->node;
            int              rank;
            const int64_t   *dims = kg_shape(g, n, &rank);
            int64_t          value;
            same = kg_dtype(g, n) == x->dtype && rank == x->rank;
            for (int k = 0; same && k < rank; k++)
                same = KN_MAX(dims[k], 0) == x->dims[k] && kt_symbol_of(j->kn, g, dims[k], &value) == x->symbol[k];
        }
        if (same) return c;
    }
    return NULL;
}

/* The values that the symbols have in this call: the inputs', else those last bound. */
static bool jit_values(kn_jit *j, jit_capture *c, kn_tensor *const *in) {
    kn_context *kn = j->kn;
    int64_t     dims[KN_MAX_RANK], value[KN_MAX_RANK];
    int         symbol[KN_MAX_RANK];
    for (int v = 0; v < c->nvar; v++) {
        kr_variable *var = &c->var[v];
        int64_t      old = -1;
        for (int i = 0; i < c->nin; i++) {
            if (!jit_shape(kn, kt_slot_of(in[i])->node, i, dims, symbol, value)) return false;
            for (int k = 0; k < c->in[i].rank; k++) {
                if (symbol[k] < 0 || strcmp(kn->symbol[symbol[k]].name, var->name)) continue;
                if (old >= 0 && old != value[k]) {
                    kt_error(kn, KN_ERR_ARG, "kn_call: %s is %lld and %lld in one call", var->name, (long long)old,
                             (long long)value[k]);
                    return false;
                }
                old = value[k];
            }
        }
        for (size_t i = 0; old < 0 && i < kn->nsymbol; i++)
            if (!strcmp(kn->symbol[i].name, var->name)) old = kn->symbol[i].value;
        if (old >= 0) var->value = old;
    }
    return true;
}

static const kr_variable *jit_variable(const jit_capture *c, const char *name) {
    for (int v = 0; v < c->nvar; v++)
        if (!strcmp(c->var[v].name, name)) return &c->var[v];
    return NULL;
}

/* A tensor from outside that the step reads has the sizes it had: its elements are no others now. */
static bool jit_outer_sizes(kn_jit *j, const jit_capture *c) {
    kn_context *kn = j->kn;
    for (size_t i = 0; i < c->nouter; i++) {
        kt_slot *s = kt_slot_of(c->outer[i].t);
        if (!s) continue;
        int            rank;
        const int64_t *dims = kg_shape(kn->g, s->node, &rank);
        for (int k = 0; k < rank; k++) {
            int64_t            v;
            int                symbol = kt_symbol_of(kn, kn->g, dims[k], &v);
            const kr_variable *var    = symbol < 0 ? NULL : jit_variable(c, kn->symbol[symbol].name);
            if (!var || var->value == v) continue;
            kt_error(kn, KN_ERR_ARG, "kn_call: %s is %lld, but a tensor that the step found outside has %lld",
                     var->name, (long long)var->value, (long long)v);
            return false;
        }
    }
    return true;
}

/* Whether a size is made of node b. */
static bool jit_uses(const kn_graph *g, kn_ref size, kn_ref b) {
    kn_ref stack[64];
    int    top = 0;
    stack[top++] = size;
    while (top) {
        kn_ref n = stack[--top];
        if (n == b) return true;
        for (uint32_t k = 0; n > b && k < kg_nsrc(g, n) && top < KN_COUNT(stack); k++) stack[top++] = kg_at(g, n, k);
    }
    return false;
}

/* The results have this call's sizes. */
static bool jit_size_results(kn_jit *j, const jit_capture *c) {
    kn_context *kn = j->kn;
    for (int i = 0; c->nvar && i < c->nout; i++) {
        kt_slot       *s = kt_slot_of(c->out[i]);
        int            rank;
        const int64_t *dims = kg_shape(kn->g, s->node, &rank);
        kn_ref         buf = kt_buffer_of(kn->g, s->node), from[KN_MAX_RANK * 2], to[KN_MAX_RANK * 2];
        int            n = 0;
        if (!buf || kg_numel(kn->g, s->node) >= 0) continue;
        for (int v = 0; v < c->nvar && n < KN_COUNT(from); v++) {
            int symbol = -1;
            for (size_t k = 0; k < kn->nsymbol; k++)
                if (!strcmp(kn->symbol[k].name, c->var[v].name)) symbol = (int)k;
            int64_t now = symbol < 0 ? INT64_MIN : kt_bound_size(kn, symbol, c->var[v].value);
            if (now == INT64_MIN) return false;
            for (kn_ref b = 1; b <= s->node; b++) { /* its binding of the symbol, among those of other tensors */
                if (kg_op(kn->g, b) != KN_OP_BIND || kg_at(kn->g, b, 0) != kg_at(kn->g, (kn_ref)-now, 0)) continue;
                bool used = false;
                for (int k = 0; k < rank && !used; k++) used = dims[k] < 0 && jit_uses(kn->g, (kn_ref)-dims[k], b);
                if (!used) continue;
                from[n] = b;
                to[n++] = (kn_ref)-now;
                break;
            }
        }
        kn_ref node = kg_substitute(kn->g, s->node, from, to, n);
        if (!node) return false;
        if (s->store == s->node) s->store = node;
        s->node = node;
    }
    return true;
}

static bool jit_step(kn_jit *j, int nin, kn_tensor *const *in, int nout, kn_tensor **out) {
    kn_context     *kn = j->kn;
    jit_capture    *c  = NULL;
    enum jit_answer a  = JIT_STALE;
    for (int tries = 0; a == JIT_STALE && tries < JIT_TRIES; tries++) {
        if (!(c = jit_find(j, nin, in, nout)) && !(c = jit_trace(j, nin, in, nout))) return false;
        if (!jit_values(j, c, in)) return false;
        a = c->run ? jit_prepare(j, c, in) : JIT_READY;
        if (a == JIT_STALE) jit_drop(j, c);
    }
    if (a == JIT_STALE) kt_error(kn, KN_ERR_INTERNAL, "kn_call: the step does not settle; please report it");
    if (a != JIT_READY) return false;
    kn_fault *f  = kg_fault(kn->g);
    if (!jit_outer_sizes(j, c)) return false;
    bool ok = !c->run || (jit_forget(j, c) && jit_draw_keys(kn, c) && jit_size_results(j, c) && kr_replay(c->run, f));
    if (!ok) return kt_take_fault(kn, f, "kn_call") == KN_OK;
    for (int i = 0; i < nout; i++) out[i] = c->out[i];
    return true;
}

static kn_status jit_call(kn_jit *j, int nin, kn_tensor *const *in, int nout, kn_tensor **out) {
    kn_context *kn = j->kn;
    kt_call     call;
    if (nin < 0 || nout < 0 || (nin && !in) || (nout && !out))
        return kt_error(kn, KN_ERR_ARG, "kn_call: %d inputs at %s, %d results at %s", nin, in ? "an address" : "NULL",
                        nout, out ? "an address" : "NULL");
    if (kn->fault.code != KN_OK || !kt_begin_new(&call, "kn_call", kn)) return kn->fault.code;
    for (int i = 0; i < nin; i++)
        if (!kt_check(kn, "kn_call", in[i])) return kn->fault.code;
    if (kn->trace) return kt_trace_inline(kn, "kn_call", j->fn, j->user, nin, in, nout, out);
    return jit_step(j, nin, in, nout, out) ? KN_OK : kn->fault.code;
}

kn_status kn_call(kn_jit *j, int nin, kn_tensor *const *in, int nout, kn_tensor **out) {
    kn_context *kn = j ? j->kn : nin > 0 && in ? kn_context_of(in[0]) : NULL;
    kn_status   st = j ? jit_call(j, nin, in, nout, out) : KN_ERR_ARG;
    if (!j && kn) kt_error(kn, KN_ERR_ARG, "kn_call: the step is NULL");
    for (int i = 0; st != KN_OK && out && i < nout; i++) out[i] = kn ? kt_handle(kn->poison) : NULL;
    return st;
}
