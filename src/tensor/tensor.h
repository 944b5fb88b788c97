/* tensor.h - the inside of the front end: contexts, handles, scopes, and what every op is written with.
 *
 * A tensor is a handle on a node of the context's one graph. Handles are slots of 64 bytes, aligned to 64, in slabs
 * that live as long as the context; the low six bits of a kn_tensor* (and of a kn_scope*) are the slot's generation, so
 * that a handle whose scope has ended is recognised as long as its slot was not reused 64 times. Slots are reused first
 * in, first out, to put that off.
 *
 * Node numbers are valid until the next kn_end (which may compact the graph); only handles last longer.
 *
 * An op is written as
 *     kt_call c;
 *     kn_ref  n[2];
 *     if (!kt_begin(&c, "kn_add", (kn_tensor *[]){a, b}, 2, n)) return kt_poison(&c);
 *     ... if (misuse) return kt_fail(c.kn, KN_ERR_SHAPE, "kn_add: ...");
 *     return kt_wrap(c.kn, kg_op2(c.g, KN_OP_ADD, n[0], n[1]), "kn_add");
 * A node of 0 becomes a poison tensor and the graph's fault the context's. */
#ifndef KN_TENSOR_H
#define KN_TENSOR_H

#include "base/base.h"
#include "dialect/uop.h"
#include "dialect/why.h"
#include "runtime/runtime.h"

enum { KT_ALIGN = 64, KT_SHAPE_TEXT = 400 };

enum kt_kind { KT_FREE, KT_TENSOR, KT_SCOPE, KT_POISON };

enum kt_flag {
    KT_KEEP          = 1, /* moves one scope out at kn_end */
    KT_OWNABLE       = 2, /* created or computed, not a view: kn_assign and kn_write may give it storage */
    KT_REQUIRES_GRAD = 4,
    KT_WANTED        = 8, /* of one run: this handle is about to become storage */
    KT_OUTER         = 16, /* of one trace: made outside it, and used in it */
};

typedef struct kt_slot {
    kn_context     *kn;
    struct kt_slot *next, *prev; /* the tensors of one scope, newest first; next also links the free slots */
    struct kt_slot *scope;       /* a tensor's scope; a scope's parent */
    union {
        struct {
            kn_ref node;  /* the value */
            kn_ref store; /* RESHAPE(BUFFER) of the storage it alone owns, 0 if none */
        };
        struct kt_slot *first; /* a scope's tensors */
    };
    union {
        kn_tensor       *grad;   /* of the last kn_backward (gradient.c) */
        struct kt_block *blocks; /* a scope's kt_own memory */
    };
    uint32_t depth; /* of a scope */
    uint8_t  kind, gen, flags;
} kt_slot;

/* kn_assign's effect that has not run yet: `value`, cast and shaped like the tensor, goes to t's storage. Readers of t
 * made since then use `value` itself. */
typedef struct kt_pending {
    kt_slot *t;
    uint32_t depth; /* of the scope open at kn_assign */
    bool     run;   /* of one run: included */
    bool     fresh; /* of one run: someone still reads the old contents, so the result gets a buffer of its own */
    kn_ref   copy;  /* of one run: that buffer, where the value was there to be copied */
} kt_pending;

/* A call of a kn_fn that builds a graph and runs nothing (trace.c). Its tensors belong to a scope of its own. */
typedef struct kt_trace {
    bool      function; /* of kn_function: there are no effects, and tensors made outside stay lazy */
    uint32_t  depth;    /* of its scope */
    kt_slot **outer;    /* the tensors made outside that it used; of a jit they have storage */
    size_t    nouter, outer_cap;
    int64_t  *draw; /* slots of the keys of random numbers drawn, in order */
    size_t    ndraw, draw_cap;
} kt_trace;

/* A symbolic size by its name (size.c). */
typedef struct kt_symbol {
    char    name[48];
    int64_t min, max, value; /* value: the last one bound, -1 none */
} kt_symbol;

struct kn_context {
    kn_alloc        own; /* what `alloc` points to when the config has an allocator */
    const kn_alloc *alloc;
    kn_arena        arena; /* strings of the config */
    kr_context     *rt;    /* NULL: the device could not be opened; open_fault says why */
    kn_fault        open_fault;
    kn_graph       *g;
    kn_why         *why;    /* where its nodes come from, or NULL: not asked for */
    kn_ref          placed; /* nodes below it know their call's file and line, or never will */
    kn_fault        fault;
    bool            sited; /* the fault has its call site, or takes none */
    char            text[640];
    void          **slabs;
    size_t          nslabs, slabs_cap;
    kt_slot        *free_first, *free_last;
    kt_slot        *poison, *root, *scope; /* scope: the innermost open one */
    uint32_t        ntensors;              /* live tensor handles */
    /* realized[n]: RESHAPE(BUFFER) that holds the value of node n, or 0; known[]: the nodes that have one. */
    kn_ref     *realized;
    size_t      realized_cap;
    kn_ref     *known;
    size_t      nknown, known_cap;
    uint64_t    notes; /* made so far */
    kt_trace   *trace; /* the one that is going on, or NULL */
    kt_pending *pending;
    size_t      npending, pending_cap;
    kt_symbol  *symbol;
    size_t      nsymbol, symbol_cap;
    kn_graph   *sizes;       /* what the user's symbolic sizes are; never swept */
    uint64_t    seed, draws; /* random.c */
};

/* ---- handles (handle.c) -------------------------------------------------------------------------------------- */

/* The live slot of a handle; NULL for NULL, poison and stale handles. */
kt_slot   *kt_slot_of(kn_tensor *t);
kn_tensor *kt_handle(const kt_slot *s);
/* A tensor of the innermost scope. node 0: poison, with the graph's fault under the name `op`. */
kn_tensor *kt_wrap(kn_context *kn, kn_ref node, const char *op);
/* The same for a tensor that creation functions make: kn_assign may give it storage. */
kn_tensor *kt_wrap_created(kn_context *kn, kn_ref node, const char *op);
/* The poison tensor; the context keeps the first failure. kt_error is for functions that return a status. */
kn_tensor *kt_fail(kn_context *kn, kn_status code, const char *fmt, ...) KN_PRINTF(3, 4);
kn_status  kt_error(kn_context *kn, kn_status code, const char *fmt, ...) KN_PRINTF(3, 4);
kn_status  kt_take_fault(kn_context *kn, kn_fault *f, const char *op); /* f is cleared */
/* Memory (zeroed) that belongs to the innermost scope; NULL: out of memory, and recorded. */
void *kt_own(kn_context *kn, size_t size);
/* The same; `end` is called with it before it goes. */
void *kt_own_object(kn_context *kn, size_t size, void (*end)(void *object));

/* A tensor argument is live and of context kn; records what is wrong with it otherwise. kn may be NULL. */
kt_slot *kt_check(kn_context *kn, const char *op, kn_tensor *t);

typedef struct kt_call {
    kn_context *kn; /* of the first operand that has one; NULL: none */
    kn_graph   *g;
    const char *op;
} kt_call;
/* Checks n operands and gives their nodes (storage where already computed). False: the failure is recorded. */
bool       kt_begin(kt_call *c, const char *op, kn_tensor *const *in, int n, kn_ref *node);
/* The same for functions that make tensors from nothing: false if the context cannot. */
bool       kt_begin_new(kt_call *c, const char *op, kn_context *kn);
kn_tensor *kt_poison(const kt_call *c); /* NULL if no context is known */

kt_slot  *kt_slot_new(kn_context *kn, enum kt_kind kind); /* NULL: out of memory, and recorded */
void      kt_slot_free(kt_slot *s);
void      kt_slab_free(kn_context *kn, void *slab);
void      kt_link(kt_slot *scope, kt_slot *t);
void      kt_unlink(kt_slot *t);
kn_scope *kt_scope_handle(const kt_slot *s);
kt_slot  *kt_scope_of(kn_scope *p); /* NULL for NULL and ended scopes */

/* ---- sizes (size.c) ---------------------------------------------------------------------------------------------- */
/* Within the front end sizes are as kg_shape has them: a number, or minus a node. */

/* The user's dims, checked as kt_dims_ok does; false: recorded. out has room for KN_MAX_RANK. */
bool   kt_sizes_in(const kt_call *c, const kn_dim *dims, int rank, int64_t *out);
bool   kt_size_in(kn_context *kn, kn_dim d, int64_t *out); /* false: in the graph's fault; other numbers stay */
kn_dim kt_size_out(kn_context *kn, int64_t dim);           /* -1: out of memory */
/* The value that a size has now; false with the fault set: a symbol without one. Of a node: all of them. */
bool kt_size_value(const kn_graph *g, int64_t dim, int64_t *value, kn_fault *f);
bool kt_sizes_now(const kn_graph *g, kn_ref n, int64_t *dims, int64_t *numel, kn_fault *f);
int  kt_size_text(const kn_graph *g, int64_t dim, char *out, size_t cap);
/* The symbol that a size is, and its value; -1: it is none, or has none. And back (INT64_MIN: the graph's fault). */
int     kt_symbol_of(const kn_context *kn, const kn_graph *g, int64_t dim, int64_t *value);
int64_t kt_bound_size(kn_context *kn, int symbol, int64_t value);
kn_ref  kt_size_as(const kt_call *c, int64_t dim, int dtype);  /* a scalar */
kn_ref  kt_one_over(const kt_call *c, int64_t dim, int dtype); /* 1 / dim, of floats */
/* The value of that shape that stands in the first elements of a BUFFER; 0 with the graph's fault set. */
kn_ref kt_stored_as(kn_graph *g, kn_ref buffer, const int64_t *dims, int rank);

/* ---- storage and runs (run.c, value.c, scope.c) ------------------------------------------------------------------ */

/* RESHAPE(BUFFER{fresh slot}, dims), with room for the most that symbolic sizes can be; data NULL: zeros.
 * 0 on failure, with the graph's fault set. Not for numel 0. */
kn_ref kt_storage_node(kn_context *kn, kn_dtype dtype, const int64_t *dims, int rank, const void *data);
/* A tensor that owns such storage (or, without elements, a constant). */
kn_tensor *kt_storage(kn_context *kn, const char *op, kn_dtype dtype, const int64_t *dims, int rank, const void *data);
/* The BUFFER below a storage node (RESHAPEs of a BUFFER, or of its first elements), 0 if it is none. */
kn_ref kt_buffer_of(const kn_graph *g, kn_ref node);
/* A number, however it is spread out. */
bool kt_is_constant(const kn_graph *g, kn_ref node);
/* The node of a handle, following `realized`. */
kn_ref kt_node(kt_slot *s);
/* Give tensors that are not views storage of their own, with their values in it. False: recorded under `op`. */
bool kt_make_storage(kn_context *kn, const char *op, kt_slot *const *t, int n);
/* Compute n tensors into storage in one schedule, together with the assignments of scopes of at least `depth` (KT_NOW:
 * those that a wanted value reads). False: recorded under `op`; the assignments are undone, the tensors stay lazy. */
#define KT_NOW UINT32_MAX
bool kt_run(kn_context *kn, const char *op, kt_slot *const *want, int n, uint32_t depth);
/* t := value at the run of the innermost scope. t has storage; value is cast and shaped like it. */
bool kt_add_pending(kn_context *kn, kt_slot *t, kn_ref value);
/* The assignments of scopes of at least `depth` will not happen. */
void kt_undo_pending(kn_context *kn, uint32_t depth);
void kt_drop_pending(kn_context *kn, const kt_slot *t);
/* Buffers are about to be overwritten in place (no lazy handle depends on them): forget what was computed from them. */
bool kt_overwritten(kn_context *kn, const kn_ref *buffers, int n);
/* dep[n] = 1 for every node below `count` whose sources lead to one of nodes[]. */
void kt_dependents(const kn_graph *g, const kn_ref *nodes, int n, uint8_t *dep, uint32_t count);
/* The tensor gets storage of its own with what its storage holds now. False: in the graph's fault. */
bool kt_unshare(kn_context *kn, kt_slot *s);
/* mark[n] = 1 for every node reached from nodes[] through sources and through `realized`. With `stop`, of a realized
 * node only its storage is visited. mark has a byte for each of the `count` nodes of the graph. */
bool kt_mark(kn_context *kn, const kn_ref *nodes, size_t n, bool stop, uint8_t *mark, uint32_t count);
/* The live tensors, but those that are about to be computed, whose values depend on a buffer with buffer[node] set; out
 * has room for all after its first *n. False: out of memory, in the graph's fault. */
bool kt_readers(kn_context *kn, const uint8_t *buffer, kt_slot **out, int *n);
/* The innermost scope first, the newest tensor first; NULL ends. */
kt_slot *kt_first(const kn_context *kn);
kt_slot *kt_next(const kt_slot *s);
/* Drop what no handle reaches: buffers, notes of realized nodes, and, once it is mostly dead, the graph's nodes. */
void kt_sweep(kn_context *kn);

/* The gradients of a host's function (custom.c), a kn_grad_call of the context. */
bool kt_gradient_through(void *context, kn_ref call, kn_ref grads, kn_ref *parts, kn_fault *f);

/* ---- traces (trace.c) ------------------------------------------------------------------------------------------ */

/* Open the trace's scope; kn->trace is t from here on. */
bool kt_trace_begin(kn_context *kn, kt_trace *t, bool function);
/* Calls fn; on success out[] are nout live tensors. */
kn_status kt_trace_call(kn_context *kn, const char *op, kn_fn fn, void *user, int nin, kn_tensor *const *in, int nout,
                        kn_tensor **out);
/* The same of a call within a trace: what fn does becomes part of it. */
kn_status kt_trace_inline(kn_context *kn, const char *op, kn_fn fn, void *user, int nin, kn_tensor *const *in, int nout,
                          kn_tensor **out);
/* Ends the scope: its tensors are gone, its assignments never happened. Handles outside it that depend on one of
 * inputs[] are gone too. t's lists stay until kt_trace_free. */
void kt_trace_end(kn_context *kn, kt_trace *t, const kn_ref *inputs, int ninputs);
void kt_trace_free(kn_context *kn, kt_trace *t);
/* What the front end tells the trace: an operand is used, a key was drawn (node: its storage), a value is asked for
 * (false: it cannot be had, and that is recorded), a tensor is assigned (the same). */
bool kt_trace_operand(kn_context *kn, kt_slot *s);
bool kt_trace_draw(kn_context *kn, kn_ref node);
bool kt_may_run(kn_context *kn, const char *op);
bool kt_may_assign(kn_context *kn, const char *op, const kt_slot *s);
/* End the scopes inside s, and s, without running anything. */
void kt_abandon(kn_context *kn, kt_slot *s);

/* ---- what ops share (elementwise.c, reduce.c) ------------------------------------------------------------------ */

/* "(64,784)"; out has room for KT_SHAPE_TEXT. Returns out. */
const char *kt_shape_text(const kn_graph *g, kn_ref n, char *out);
const char *kt_dims_text(const int64_t *dims, int rank, char *out);
const char *kt_sizes_text(const kn_graph *g, const int64_t *dims, int rank, char *out); /* symbolic ones, too */
/* An axis of -rank .. rank-1 made non-negative; -1 and the failure recorded otherwise. */
int kt_axis(const kt_call *c, kn_ref x, int axis);
/* The dtype both operands are brought to (koine.h, elementwise). */
kn_dtype kt_promote(kn_dtype a, kn_dtype b);
bool     kt_broadcasts(const kt_call *c, kn_ref a, kn_ref b); /* or records the failure */
kn_ref   kt_const(const kt_call *c, int dtype, double v);
/* x as floats (integers: f32), and as floats that sums and elementary functions are computed in (at least f32). */
kn_ref kt_float(const kt_call *c, kn_ref x);
kn_ref kt_wide(const kt_call *c, kn_ref x);
/* What sums of a dtype give, and what they are accumulated in. */
int kt_sum_dtype(int dtype);
int kt_acc_dtype(int dtype);
/* Tensor-level compositions on nodes; a node 0 passes through. */
kn_ref kt_exp(const kt_call *c, kn_ref x);
kn_ref kt_exp_share(const kt_call *c, kn_ref z);
kn_ref kt_log(const kt_call *c, kn_ref x);
kn_ref kt_sigmoid(const kt_call *c, kn_ref x);
kn_ref kt_tanh(const kt_call *c, kn_ref x);
kn_ref kt_erf(const kt_call *c, kn_ref x);
kn_ref kt_reduce(const kt_call *c, int op, kn_ref x, int axis);          /* one axis, kept with size 1 */
kn_ref kt_drop_axis(const kt_call *c, kn_ref x, int axis);               /* of size 1 */
kn_ref kt_iota(const kt_call *c, int64_t n, int rank, int axis);         /* dtype index; n > 0 */
kn_ref kt_fill(const kt_call *c, kn_dtype dtype, double v, const int64_t *dims, int rank);
bool   kt_integers(const kt_call *c, kn_ref x, const char *what);        /* or records the failure */
/* idx, reshaped to dims, equals the position along an axis of size n in a shape of that rank. Compared as index: no
 * integer wraps. */
kn_ref kt_one_hot(const kt_call *c, kn_ref idx, const int64_t *dims, int rank, int64_t n, int axis);
bool   kt_dims_ok(const kt_call *c, const int64_t *dims, int rank);      /* sizes as nodes; or records the failure */
bool   kt_dtype_ok(const kt_call *c, kn_dtype dtype);                    /* of a tensor; or records the failure */

#endif
