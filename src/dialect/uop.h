/* uop.h - the node, the graph that holds nodes, and their derived properties.
 *
 * A graph is append-only: a node's sources have smaller ids, so ascending ids are a topological order. Nodes are
 * immutable and interned: two nodes with the same op, dtype, tag, arg and sources are one node, by exact comparison.
 * Pointers to nodes, words and text stay valid until the graph is freed.
 *
 * Errors: a constructor that fails (shapes that do not fit, out of memory) records the first fault in the graph and
 * returns 0. Node 0 is INVALID; every constructor given a source 0 returns 0, so a chain needs one check at its end. */
#ifndef KN_UOP_H
#define KN_UOP_H

#include "base/base.h"

typedef uint32_t kn_ref;

typedef enum kn_op {
#define OP(name, lo, hi, arg, cls, dt, sh, doc) KN_OP_##name,
#include "dialect/ops.def"
#undef OP
    KN_OP_COUNT
} kn_op;

typedef enum kn_op_class {
    KN_CLS_SOURCE, KN_CLS_MOVEMENT, KN_CLS_REDUCE, KN_CLS_CALL, KN_CLS_LOAD, KN_CLS_STORE, KN_CLS_ORDER,
    KN_CLS_UNARY, KN_CLS_BINARY, KN_CLS_TERNARY, KN_CLS_MARKER, KN_CLS_CODEGEN
} kn_op_class;

typedef enum kn_arg_kind {
#define INLINE(name) KN_ARG_##name,
#define WORDS(name) KN_ARG_##name,
#define FIELD(kind, name, type, dflt)
#define LIST(kind, name)
#define FIXED(kind)
#include "dialect/args.def"
#undef FIXED
#undef INLINE
#undef WORDS
#undef FIELD
#undef LIST
    KN_ARG_COUNT
} kn_arg_kind;

/* Field numbers of the word kinds, KN_F_PARAM_slot and so on, and how many fixed fields each has, KN_PARAM_WORDS: the
 * distance of a line of args.def from its kind's. */
enum {
#define INLINE(name)
#define WORDS(kind) KN_LINE_##kind,
#define FIELD(kind, name, type, dflt) KN_LINE_##kind##_##name,
#define FIXED(kind) KN_LINE_END_##kind,
#define LIST(kind, name)
#include "dialect/args.def"
#undef WORDS
#undef FIELD
#undef FIXED
#define WORDS(kind)
#define FIELD(kind, name, type, dflt) KN_F_##kind##_##name = KN_LINE_##kind##_##name - KN_LINE_##kind - 1,
#define FIXED(kind) KN_##kind##_WORDS = KN_LINE_END_##kind - KN_LINE_##kind - 1,
#include "dialect/args.def"
#undef INLINE
#undef WORDS
#undef FIELD
#undef FIXED
#undef LIST
    KN_LINE_LAST
};

typedef enum kn_space { KN_GLOBAL, KN_LOCAL, KN_REG, KN_SPACE_COUNT } kn_space;

/* Outermost first by default (dialect.md, 14). */
typedef enum kn_axis_type {
    KN_AXIS_DEVICE, KN_AXIS_OUTER, KN_AXIS_LOOP, KN_AXIS_GLOBAL, KN_AXIS_THREAD, KN_AXIS_WARP, KN_AXIS_LOCAL,
    KN_AXIS_GROUP_REDUCE, KN_AXIS_UPCAST, KN_AXIS_REDUCE, KN_AXIS_UNROLL, KN_AXIS_COUNT
} kn_axis_type;

enum { KN_MAX_RANK = 16, KN_MAX_LANES = 64 }; /* KN_MAX_LANES: of an INS */

typedef struct kn_node {
    uint8_t  op, dtype;
    uint16_t tag;
    uint32_t nsrc;
    uint64_t arg;    /* inline value, or the id of a run of words */
    union {
        kn_ref        src[4];
        const kn_ref *run; /* more than four sources; read through kg_src */
    } s;
} kn_node; /* 32 bytes */

/* ---- tables from the .def files ------------------------------------------------------------------------------ */
typedef struct kn_op_info {
    const char *name;
    int         lo, hi;
    kn_arg_kind arg;
    kn_op_class cls;
    const char *doc;
} kn_op_info;
extern const kn_op_info kn_ops[KN_OP_COUNT];

typedef struct kn_field {
    const char *name;
    char        type; /* 'i' INT 't' DTYPE 'a' SPACE 's' STR 'o' OP 'x' AXIS 'b' BOOL 'l' LIST (last) */
    int64_t     dflt;
} kn_field;
typedef struct kn_arg_info {
    const char *name;
    bool        words;
    int         fixed; /* number of fixed fields */
    bool        list;  /* a list follows them */
} kn_arg_info;
kn_arg_info     kn_arg_info_of(kn_arg_kind kind);
const kn_field *kn_arg_field(kn_arg_kind kind, int index); /* fixed fields, then the list; NULL behind the last */
static inline bool kn_arg_is_words(kn_arg_kind kind) { return kind >= KN_ARG_PARAM; }
extern const char *const kn_space_names[KN_SPACE_COUNT];
extern const char *const kn_axis_names[KN_AXIS_COUNT]; /* "LOOP", "THREAD", ... */

typedef struct kn_dtype_info {
    const char *name;
    int         size;
    char        kind; /* V B I U F */
    int64_t     min, max;
} kn_dtype_info;
extern const kn_dtype_info kn_dtypes[KN_DTYPE_COUNT];
static inline int  kn_dsize(int dt) { return kn_dtypes[dt].size; }
static inline bool kn_is_float(int dt) { return kn_dtypes[dt].kind == 'F'; }
static inline bool kn_is_int(int dt) { return kn_dtypes[dt].kind == 'I' || kn_dtypes[dt].kind == 'U'; }
int kn_op_by_name(const char *name, size_t len);    /* -1: none */
int kn_dtype_by_name(const char *name, size_t len); /* -1: none */
/* Roots and quotients of floats, which units compute one after the other, lanes or not. */
static inline bool kn_takes_divider(int op) { return op == KN_OP_DIV || op == KN_OP_RECIP || op == KN_OP_SQRT; }
static inline bool kn_is_alu(int op) { return kn_ops[op].cls >= KN_CLS_UNARY && kn_ops[op].cls <= KN_CLS_TERNARY; }
static inline bool kn_is_movement(int op) { return kn_ops[op].cls == KN_CLS_MOVEMENT; }
bool kn_is_commutative(int op);
/* Whether source 0 is a body: a program of its own, whose PARAMs are the op's other sources. */
static inline bool kn_calls(int op) { return op == KN_OP_FUNCTION || op == KN_OP_CALL; }
/* Where an op's ranges start among its sources, -1 if it ends none (the bestiary's table). */
int  kn_range_start(int op);
/* Whether lanes of a source become lanes of the op (the other table: what UNROLL goes through). */
bool kn_is_expandable(int op);

/* ---- the graph ----------------------------------------------------------------------------------------------- */
typedef struct kn_graph kn_graph;

kn_graph *kg_new(const kn_alloc *a);
void      kg_free(kn_graph *g);
uint32_t  kg_count(const kn_graph *g); /* ids are 1 .. count-1 */
kn_fault *kg_fault(kn_graph *g);       /* the first failure of a constructor; code KN_OK if none */
const kn_alloc *kg_alloc(const kn_graph *g);

enum {
#if defined(KN_HOSTILE) && KN_HOSTILE
    KN_CHUNK_BITS = 2,
#else
    KN_CHUNK_BITS = 9,
#endif
    KN_CHUNK = 1 << KN_CHUNK_BITS
};

/* How a kn_graph begins: shown so that looking a node up costs no call, and for the functions below alone. */
typedef struct kn_graph_at {
    kn_node       **chunk; /* nodes live in chunks, so that pointers stay valid */
    const int64_t **words; /* id -> run; run[-1] is its length */
} kn_graph_at;
static inline const kn_node *kg_node(const kn_graph *g, kn_ref n) {
    return &((const kn_graph_at *)(const void *)g)->chunk[n >> KN_CHUNK_BITS][n & (KN_CHUNK - 1)];
}
static inline const kn_ref *kg_src(const kn_graph *g, kn_ref n) { /* nsrc of them */
    const kn_node *nd = kg_node(g, n);
    return nd->nsrc > 4 ? nd->s.run : nd->s.src;
}
static inline int      kg_op(const kn_graph *g, kn_ref n) { return kg_node(g, n)->op; }
static inline int      kg_dtype(const kn_graph *g, kn_ref n) { return kg_node(g, n)->dtype; }
static inline uint32_t kg_nsrc(const kn_graph *g, kn_ref n) { return kg_node(g, n)->nsrc; }
static inline kn_ref   kg_at(const kn_graph *g, kn_ref n, uint32_t i) { return kg_src(g, n)[i]; }

/* Args. */
static inline const int64_t *kg_words(const kn_graph *g, kn_ref n, int *count) { /* of a word kind; count or NULL */
    const int64_t *w = ((const kn_graph_at *)(const void *)g)->words[kg_node(g, n)->arg];
    if (count) *count = (int)w[-1];
    return w;
}
static inline int64_t kg_field(const kn_graph *g, kn_ref n, int field) { return kg_words(g, n, NULL)[field]; }
uint64_t    kg_intern_words(kn_graph *g, const int64_t *words, int count); /* a node's arg; 0 = failed */
uint32_t    kg_intern_str(kn_graph *g, const char *text, size_t len);     /* 0 = failed; "" has an id too */
const char *kg_str(const kn_graph *g, uint32_t id, size_t *len);          /* id 0: "" ; len may be NULL */
int64_t     kg_const_int(const kn_graph *g, kn_ref n);                    /* of a CONST of int, bool or index */
double      kg_const_float(const kn_graph *g, kn_ref n);                  /* of any CONST */
/* The bools that c is the conjunction of, c itself if it is none: how many; -1: more than cap. */
int         kg_conjuncts(const kn_graph *g, kn_ref c, kn_ref *out, int cap);
bool        kg_is_const(const kn_graph *g, kn_ref n, int64_t v);          /* any CONST of that value */

/* The constructor. `dtype` is read only for ops whose dtype rule is ARG with an inline CONST arg; elsewhere derived.
 * Interns, infers every eager property, checks arity and shapes. */
kn_ref kg_make(kn_graph *g, int op, int dtype, uint64_t arg, const kn_ref *src, uint32_t nsrc);
kn_ref kg_make_tag(kn_graph *g, int op, int dtype, uint16_t tag, uint64_t arg, const kn_ref *src, uint32_t nsrc);
/* The same node with other sources (same count or not). */
kn_ref kg_with_src(kn_graph *g, kn_ref n, const kn_ref *src, uint32_t nsrc);
/* A node copied from another graph, its sources already there. */
kn_ref kg_import(kn_graph *g, const kn_graph *from, kn_ref n, const kn_ref *src, uint32_t nsrc);

kn_ref kg_op1(kn_graph *g, int op, kn_ref a);
kn_ref kg_op2(kn_graph *g, int op, kn_ref a, kn_ref b);
kn_ref kg_op3(kn_graph *g, int op, kn_ref a, kn_ref b, kn_ref c);
kn_ref kg_fold_consts(kn_graph *g, int op, int dtype, const kn_ref *src, uint32_t n); /* of constants; 0: not all are */
kn_ref kg_int(kn_graph *g, int dtype, int64_t v);   /* CONST of an integer dtype (wrapped to it), or a float's value */
kn_ref kg_float(kn_graph *g, int dtype, double v);  /* CONST; rounded to the dtype */
kn_ref kg_idx(kn_graph *g, int64_t v);              /* CONST of dtype index */
kn_ref kg_cast(kn_graph *g, kn_ref x, int dtype);   /* x itself when it has the dtype */
kn_ref kg_bitcast(kn_graph *g, kn_ref x, int dtype);
kn_ref kg_dims_node(kn_graph *g, const int64_t *dims, int rank); /* STACK of index constants: a shape as a source */
kn_ref kg_param(kn_graph *g, int64_t slot, int dtype, const int64_t *dims, int rank);
kn_ref kg_buffer(kn_graph *g, int64_t slot, int64_t size, int dtype, uint32_t device, int space);
kn_ref kg_reshape(kn_graph *g, kn_ref x, const int64_t *dims, int rank);
kn_ref kg_expand(kn_graph *g, kn_ref x, const int64_t *dims, int rank);
kn_ref kg_permute(kn_graph *g, kn_ref x, const int64_t *order, int rank);
kn_ref kg_flip(kn_graph *g, kn_ref x, const int64_t *flags, int rank);
kn_ref kg_replicated(kn_graph *g, kn_ref x, const int64_t *axes, int naxes);
kn_ref kg_pad(kn_graph *g, kn_ref x, const int64_t *offset, const int64_t *dims, int rank);
kn_ref kg_shrink(kn_graph *g, kn_ref x, const int64_t *offset, const int64_t *dims, int rank);
kn_ref kg_reduce(kn_graph *g, kn_ref x, int op, const int64_t *axes, int naxes);           /* at tensor level */
kn_ref kg_reduce_ranges(kn_graph *g, kn_ref x, int op, const kn_ref *ranges, int nranges); /* after Rangeify */
/* A scan: at each iteration of the ranges, which stay open, x reduced over the iterations up to and with it, of which
 * those of the last range follow one another. */
kn_ref kg_prefix(kn_graph *g, kn_ref x, int op, const kn_ref *ranges, int nranges);
bool   kg_is_prefix(const kn_graph *g, kn_ref n);
kn_ref kg_range(kn_graph *g, kn_ref bound, int64_t id, int type);
/* An expanded range: a value of `rank` whose axis `axis` counts 0..n-1; arange at tensor level (rank 1, id 0). */
kn_ref kg_iota(kn_graph *g, int64_t n, int64_t id, int type, int rank, int axis);
kn_ref kg_index(kn_graph *g, kn_ref x, const kn_ref *idx, int nidx);
kn_ref kg_load(kn_graph *g, kn_ref x);                      /* a memory read */
kn_ref kg_load_gated(kn_graph *g, kn_ref x, kn_ref alt, kn_ref gate);
/* The LOAD or STORE where the gate holds as well; else it does not happen, and a load that had no gate gives 0. */
kn_ref kg_gate_access(kn_graph *g, kn_ref access, kn_ref gate);
kn_ref kg_load_to(kn_graph *g, kn_ref x, uint32_t device, int space); /* copy / contiguous: space KN_GLOBAL */
kn_ref kg_store(kn_graph *g, kn_ref target, kn_ref value, kn_ref gate /* or 0 */);
kn_ref kg_after(kn_graph *g, kn_ref x, const kn_ref *deps, int n);
kn_ref kg_end(kn_graph *g, kn_ref body, const kn_ref *ranges, int n);
kn_ref kg_list(kn_graph *g, int op, const kn_ref *src, int n); /* unnamed SINK, GROUP, TUPLE, LINEAR, STACK, BARRIER */

kn_ref kg_sink(kn_graph *g, const kn_ref *src, int n, const char *name, const int64_t *nest, int nnest);

/* ---- derived properties -------------------------------------------------------------------------------------- */
/* Shape: dims[i] >= 0 is a size; dims[i] < 0 is symbolic, the node -dims[i]. */
const int64_t *kg_shape(const kn_graph *g, kn_ref n, int *rank);
int            kg_rank(const kn_graph *g, kn_ref n);
int64_t        kg_numel(const kn_graph *g, kn_ref n); /* -1 when symbolic */
bool           kg_same_shape(const kn_graph *g, kn_ref a, kn_ref b);
/* Reads a shape source (STACK of index constants) back; false if it is not static. */
bool           kg_read_dims(const kn_graph *g, kn_ref s, int64_t *dims, int *rank);
/* The largest value a dim of kg_shape, and the number of elements, can have (saturating). */
int64_t        kg_most_of(const kn_graph *g, int64_t dim);
int64_t        kg_most(const kn_graph *g, kn_ref n);
/* Sound bounds of integers, bools and index; for floats and u64 beyond int64 the whole int64 range. */
int64_t kg_min(const kn_graph *g, kn_ref n);
int64_t kg_max(const kn_graph *g, kn_ref n);
bool    kg_in_bounds(const kn_graph *g, kn_ref index); /* INDEX by one offset that is surely inside its storage */
kn_ref  kg_storage(const kn_graph *g, kn_ref place); /* the PARAM or BUFFER under INDEX, AFTER, RESHAPE; or what is */
int     kg_space(const kn_graph *g, kn_ref n);    /* address space of the buffer a value lives in; KN_REG for values */
uint32_t kg_device(const kn_graph *g, kn_ref n);  /* string id of the device, 0 = none */
/* Sharding (axis.c): a device "A,B" is a tuple, and what lives there is shared out along an axis, in equal runs, or, of
 * axis -1, replicated. */
int     kg_axis(const kn_graph *g, kn_ref n);                   /* -1 = none */
int64_t kg_device_count(const kn_graph *g, uint32_t device);    /* of a tuple; 1 of no device */
/* A view that takes elements to another device's share, or has no axis of equal shares: it needs a LOAD before it. */
bool    kg_cuts_shards(const kn_graph *g, kn_ref n);

/* The set of RANGEs a node depends on and no REDUCE or END below it has closed. */
bool kg_depends(const kn_graph *g, kn_ref n, kn_ref range);
bool kg_closed(const kn_graph *g, kn_ref n);                        /* depends on none */
int  kg_ranges(const kn_graph *g, kn_ref n, kn_ref *out, int cap);  /* ascending ids; returns how many there are */
bool kg_ranges_within(const kn_graph *g, kn_ref a, kn_ref b);       /* ranges(a) is a subset of ranges(b) */

/* Affine form of an index value: base + sum coef * atom, atoms ascending; at most KN_AFFINE_MAX terms, else false. An
 * atom is any node that is not ADD, SUB, NEG, MUL by constant, SHL by constant, CONST. Exact for dtype index. */
enum { KN_AFFINE_MAX = 24 };
typedef struct kn_affine {
    int64_t base;
    int     n;
    kn_ref  atom[KN_AFFINE_MAX];
    int64_t coef[KN_AFFINE_MAX];
} kn_affine;
bool kg_affine(const kn_graph *g, kn_ref n, kn_affine *out);
int64_t kn_affine_coef(const kn_affine *f, kn_ref atom); /* 0 if absent */
/* base + sum coef * atom, built in canonical order. */
kn_ref kg_from_affine(kn_graph *g, const kn_affine *f);

/* Whole graphs as keys (compare.c): equal when made of the same nodes in the same order. */
uint64_t kg_graph_hash(const kn_graph *g);
bool     kg_graph_equal(const kn_graph *a, const kn_graph *b);
bool     kg_graph_begins(const kn_graph *g, const kn_graph *as); /* g is what `as` is, and perhaps more behind it */

/* ---- folds (fold.c) ------------------------------------------------------------------------------------------ */
/* REDUCE{op=FUNCTION} of FUNCTION(combine, identity 0..n-1, element 0..n-1): starting from the identities, the combine,
 * a TUPLE of n scalars, is applied to each element in turn: its PARAM 0..n-1 are what came out so far, n..2n-1 the
 * element. These PARAMs are scalars of space REG, so no FUNCTION or kernel around takes them for its own. The combine
 * must be associative and commutative, and leave what it is given beside the identities as it is: the compiler splits
 * the elements among lanes and loops, some of which may stay empty, and combines what comes out, in any order. */
enum { KN_MAX_FOLD = 8, KN_MAX_COMBINE = 256 /* nodes */ };
typedef struct kn_fold_parts {
    int           n;
    kn_ref        combine; /* the TUPLE */
    const kn_ref *identity, *element;
} kn_fold_parts;
bool kg_fold_parts(const kn_graph *g, kn_ref function, kn_fold_parts *out); /* false: it has not that form */
static inline bool kg_is_fold(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_REDUCE && kg_field(g, n, KN_F_REDUCE_op) == KN_OP_FUNCTION;
}
/* What is wrong with a combine, NULL if nothing: it is arithmetic over its 2n PARAMs and constants. */
const char *kg_combine_flaw(const kn_graph *g, const kn_fold_parts *p);
kn_ref kg_fold_param(kn_graph *g, int64_t slot, int dtype);
/* A PARAM of space REG, which nothing around takes for its own. */
kn_ref kg_own_param(kn_graph *g, int64_t slot, int dtype, const int64_t *dims, int rank);
/* The fold of n elements over axes. */
kn_ref kg_fold(kn_graph *g, kn_ref combine, const kn_ref *identity, const kn_ref *element, int n, const int64_t *axes,
               int naxes);
/* The combine of a and b, n each, into out. False: the graph has the fault. */
bool kg_fold_apply(kn_graph *g, kn_ref combine, int n, const kn_ref *a, const kn_ref *b, kn_ref *out);
/* Element k of a TUPLE, or of what GETTUPLE takes. */
kn_ref kg_element(kn_graph *g, kn_ref tuple, int k);
/* Of any REDUCE: the same reduction of x over these ranges; of none x itself, as a TUPLE where it is a fold. */
kn_ref kg_reduce_again(kn_graph *g, kn_ref reduce, kn_ref x, const kn_ref *ranges, int n);
/* Of any REDUCE: x where the gate holds, else the identity, which changes nothing. */
kn_ref kg_reduce_gated(kn_graph *g, kn_ref reduce, kn_ref x, kn_ref gate);
kn_ref kg_identity(kn_graph *g, int op, int dtype); /* of ADD, MUL, MAX, MIN */
/* Two results of kg_reduce_again as one, and root with that in place of the REDUCE. */
kn_ref kg_reduce_join(kn_graph *g, kn_ref reduce, kn_ref a, kn_ref b);
kn_ref kg_reduce_replace(kn_graph *g, kn_ref root, kn_ref reduce, kn_ref by);

/* ---- collectives (collective.c) -------------------------------------------------------------------------------- */
/* Of n devices, "A,B,...": compositions of LOAD, REPLICATED, REDUCE and views. x is whole, of shape (s,), for broadcast
 * and scatter; shared out among the devices, of shape (n s,), for the others. What comes out is */
kn_ref kg_coll_broadcast(kn_graph *g, kn_ref x, uint32_t devices);              /* (s,), which all have */
kn_ref kg_coll_scatter(kn_graph *g, kn_ref x, uint32_t devices);                /* (s,), shared out; n divides s */
kn_ref kg_coll_gather(kn_graph *g, kn_ref x, uint32_t devices);                 /* (n s,), on the first */
kn_ref kg_coll_reduce(kn_graph *g, kn_ref x, uint32_t devices, int op);         /* (s,), on the first */
kn_ref kg_coll_allgather(kn_graph *g, kn_ref x, uint32_t devices);              /* (n s,), which all have */
kn_ref kg_coll_reduce_scatter(kn_graph *g, kn_ref x, uint32_t devices, int op); /* (s,), shared out; n divides s */
kn_ref kg_coll_allreduce(kn_graph *g, kn_ref x, uint32_t devices, int op);      /* (s,), which all have */
kn_ref kg_allreduce(kn_graph *g, kn_ref x, uint32_t devices, int op); /* the node, of any shape (sharding.rules) */

/* ---- functions (call.c) ---------------------------------------------------------------------------------------- */
/* n is a CALL of a body of values (TUPLE), as a FUNCTION is: kept, nothing in it is fused with what is around it. */
bool kg_is_kept(const kn_graph *g, kn_ref n);
/* x, where it is not in memory anyway: a copy of it that is. */
kn_ref kg_stored(kn_graph *g, kn_ref x);
/* `value` of the body of fn, with the arguments of fn (map: what stands for them, by node; NULL: they) in place of the
 * body's PARAMs. */
kn_ref kg_inline(kn_graph *g, kn_ref fn, kn_ref value, const kn_ref *map);

/* ---- the host's functions ------------------------------------------------------------------------------------- */
/* CALL(CUSTOM_FUNCTION{"name"}(types...), arguments...); type k is kg_own_param k, of dtype and shape of result k. */
kn_ref kg_custom_call(kn_graph *g, const char *name, const kn_ref *types, int ntypes, const kn_ref *args, int nargs);
/* n is the CALL of one. */
static inline bool kg_is_custom(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_CALL && kg_op(g, kg_at(g, n, 0)) == KN_OP_CUSTOM_FUNCTION;
}
/* How many results a CALL of one has; what result k is like: the type, or, where the types are a number n and the
 * results therefore the first n arguments (nothing runs; the gradient is the host's), argument k. */
int    kg_custom_results(const kn_graph *g, kn_ref call);
bool   kg_custom_passes(const kn_graph *g, kn_ref call);
kn_ref kg_custom_result(const kn_graph *g, kn_ref call, int k); /* 0: there is none */
/* Runs the function of that name; false with the fault set. */
typedef bool (*kn_run_custom)(void *user, const char *name, const kn_custom_args *args, kn_fault *f);

/* ---- walks (walk.c), explicit stacks only -------------------------------------------------------------------- */
/* The nodes reachable from the roots, ascending ids. *order from the allocator, *count of them; kn_free(..., *count *
 * sizeof(kn_ref)). False: out of memory. */
bool kg_reach(const kn_graph *g, const kn_ref *roots, int nroots, kn_ref **order, uint32_t *count);
/* The same without what only bodies below the roots have. */
bool kg_reach_own(const kn_graph *g, const kn_ref *roots, int nroots, kn_ref **order, uint32_t *count);
/* A copy of root in which each from[i] is replaced by to[i] (and what stands below from[i] is not visited). Bodies
 * below it stay as they are. */
kn_ref kg_substitute(kn_graph *g, kn_ref root, const kn_ref *from, const kn_ref *to, int n);
/* root with every node below it, sources first, replaced by what edit() returns (0: it failed) for the node as it was
 * and as it is over its new sources. */
typedef kn_ref (*kg_edit_fn)(void *user, kn_graph *g, kn_ref was, kn_ref now);
kn_ref kg_edit(kn_graph *g, kn_ref root, kg_edit_fn edit, void *user);
/* The same of what is neither one of keep[] nor only below these, nor in a body. */
kn_ref kg_edit_above(kn_graph *g, kn_ref root, const kn_ref *keep, int n, kg_edit_fn edit, void *user);
/* root and all below it copied into `to`; 0 on failure. */
kn_ref kg_copy(kn_graph *to, const kn_graph *from, kn_ref root);

/* ---- symbolic sizes (special.c) ------------------------------------------------------------------------------- */
/* A PARAM of shape () with a name. */
bool        kg_is_variable(const kn_graph *g, kn_ref n);
const char *kg_variable_name(const kn_graph *g, kn_ref var);
/* False with the fault set: the value is out of the variable's bounds. */
bool kg_check_variable(const kn_graph *g, kn_ref var, int64_t value, kn_fault *f);
/* Products of dims, as kg_shape has them: a number, and nodes of the graph. */
typedef struct kn_factors {
    int64_t fixed; /* begins as 1 */
    int     n;
    kn_ref  some[2 * KN_MAX_RANK]; /* ascending */
} kn_factors;
bool    kg_factor(const kn_graph *g, kn_factors *f, int64_t dim); /* multiplied by dim; false: too many */
bool    kg_same_factors(const kn_factors *a, const kn_factors *b); /* equal whatever the variables are */
bool    kg_divide(kn_factors *a, const kn_factors *b);              /* a by b, without a rest */
int64_t kg_product(kn_graph *g, const kn_factors *f);               /* as a dim: equal products are one */
int64_t kg_count_of(kn_graph *g, kn_ref n);                         /* the product of a node's dims */
/* a + sign * b, of dims, a number where variables cancel. False: it may be below 0, or the graph's fault is set. */
bool kg_plus(kn_graph *g, int64_t a, int64_t b, int64_t sign, int64_t *out);
/* The first `count` (a dim) elements of x, which is flat. */
kn_ref kg_first_of(kn_graph *g, kn_ref x, int64_t count);
typedef bool (*kg_value_fn)(void *user, const kn_graph *g, kn_ref var, int64_t *value);
/* root in `to` with variables replaced by their values (but where value() has none, and in bodies of FUNCTIONs and
 * CALLs, whose PARAMs are arguments), BINDs by what they bind, and integer arithmetic of constants done: what was
 * symbolic for want of these is so no more. 0 with to's fault set: a value is out of bounds, or shapes do not fit. */
kn_ref kg_specialise(kn_graph *to, const kn_graph *from, kn_ref root, kg_value_fn value, void *user);

/* ---- scalars (alu.c): the meaning of every elementwise op, shared by the interpreter and constant folding ------- */
typedef union kn_scalar {
    int64_t i; /* integers, bools, index; u64 as its bits */
    double  f; /* floats of every width, already rounded to the dtype */
} kn_scalar;
/* op applied to sources of dtypes src_dt (WHERE: p, a, b), the result of dtype out_dt. False: op is not elementwise. */
bool kn_alu(int op, int out_dt, const int *src_dt, const kn_scalar *src, kn_scalar *out);
kn_scalar kn_cast_scalar(kn_scalar v, int from, int to);
kn_scalar kn_load_scalar(const void *p, int dtype);
void      kn_store_scalar(void *p, int dtype, kn_scalar v);
kn_scalar kn_identity(int reduce_op, int dtype); /* of ADD, MUL, MAX, MIN */
uint64_t  kn_threefry2x32(uint64_t counter, uint64_t key);

/* ---- text (print.c, parse.c): docs/dialect.md has the grammar ------------------------------------------------- */
/* Prints root and all below it, a node a line, %1 ... in topological order; constants and shapes stand inline. */
void kg_print(const kn_graph *g, kn_ref root, kn_str *out);
/* The numbers it gives, by node: 0 of what stands inline and what is not reached; root + 1 of them. NULL: out of
 * memory. */
uint32_t *kg_numbers(const kn_graph *g, kn_ref root);
/* n's line, without its end, under numbers of nodes up to `top`. A number with KN_NUMBER_OLD added is written %old7. */
#define KN_NUMBER_OLD (UINT32_C(1) << 31)
void kg_print_line(const kn_graph *g, kn_ref n, const uint32_t *number, kn_ref top, kn_str *out);
void kg_print_node(const kn_graph *g, kn_ref n, kn_str *out); /* one node, sources by id; for messages */
/* Reads a program; its value is the last statement's node. 0 with line and column in the fault. */
kn_ref kg_parse(kn_graph *g, const char *text, size_t len, kn_fault *f);

#endif
