/* lower.h - from tensor graph to compiled kernels: what the eight stages hand each other.
 *
 * Callify copies what the roots need into a fresh graph, with buffers replaced by PARAMs: a kl_program, whose graph is
 * the key of the schedule cache. Rangeify cuts it into calls of kl_kernels, each with a scratch graph of its own, so
 * that kernels lower independently, and those that are equal once; Optimize, Expand, Select, Linearize and Render take
 * one kernel each, Plan all. */
#ifndef KN_LOWER_H
#define KN_LOWER_H

#include "base/machine.h"
#include "device/cc.h"
#include "dialect/why.h"
#include "optimize/opts.h"
#include "rewrite/rewrite.h"
#include "rules/helpers.h"
#include "rules/verify.h"
#include "target/target.h"

/* An argument of a kernel: a PARAM of the program, or a temporary of the schedule. */
typedef struct kl_arg {
    bool    temp;
    int64_t id; /* PARAM slot, or temporary number */
    bool    written;
    bool    var; /* a variable: the kernel takes its value, not its address */
} kl_arg;

typedef struct kl_kernel {
    kn_graph *g;
    kn_ref    root; /* SINK up to Select, then LINEAR */
    kn_ref    custom; /* the CALL of a host's function that it is; the stages behind Rangeify leave it alone. 0: none */
    char      name[64];
    size_t    nargs;    /* PARAM k is argument k of each call */
    bool      symbolic; /* some arguments are variables */
    bool      panel;    /* copies argument 1 to argument 0, a temporary, for a kernel that reads it many times */
    bool      optimized; /* its options are applied */
    uint64_t  hash;     /* of the graph as it was cut, */
    kn_ref    cut;      /* and its root */
    int64_t   chunks; /* iterations of the THREAD loop, at most; 1: none */
    kn_ref    bound;  /* of that loop, if it is symbolic: its node */
    double    flops, bytes;
    uint32_t  nodes;  /* of the list that was rendered */
    int       sweeps; /* so far: calls of kl_rewrite_kernel */
    double    spent;  /* seconds in the stages that take kernels one by one */
    kn_opt    opts[KN_MAX_OPTS];
    int       nopts;
    char     *source; /* Render's: text, 0-terminated, or machine code; source_len + 1 bytes */
    size_t    source_len;
    char     *listing; /* of machine code, as text: listing_len + 1 bytes, or NULL */
    size_t    listing_len;
    kd_frame  frame; /* kt_output's */
    uint8_t   unwind[KT_UNWIND];
    bool      machine; /* source is machine code */
    uint32_t  spills, remade; /* kt_output's, */
    double    cycles;
    ko_choice choice; /* what Optimize was asked for, and told of it */
    kd_fn     fn; /* loaded code, or NULL: interpreted */
} kl_kernel;

typedef struct kl_call { /* a kernel run once */
    size_t  kernel;
    kl_arg *arg; /* as many as the kernel has; in the program's arena */
} kl_call;

typedef struct kl_temp {
    int64_t size; /* elements */
    int     dtype;
    int64_t offset; /* Plan's: bytes into the schedule's one block of temporary memory */
    int     last;   /* the last call that has it */
    bool    kept;   /* holds good until what it was computed of is written again */
} kl_temp;

typedef struct kl_param {
    int64_t size; /* elements at most */
    int     dtype;
    kn_ref  var; /* the PARAM, if it is a variable: its value is what stands behind it, one element */
    bool    written; /* Plan's: by some kernel */
} kl_param;

typedef struct kl_program {
    const kn_alloc *alloc;
    kn_str           *explain; /* what was weighed, chosen and refused is written here; NULL: not asked for */
    const kn_machine *machine; /* what costs and choices rest on; outlives the program */
    kt_choice       target;
    kn_graph       *g;    /* callified */
    kn_ref          root; /* SINK of STOREs into PARAMs */
    kl_param       *param;
    size_t          nparam, param_cap;
    kl_call        *call; /* in the order in which they run */
    size_t          ncall, call_cap;
    kn_arena        args;
    kl_kernel      *kernel; /* in the order of their first calls; no two are cut alike */
    size_t          nkernel, kernel_cap;
    kl_temp        *temp;
    size_t          ntemp, temp_cap;
    int64_t         temp_bytes;
    double          spent[KN_STAGE_COUNT], loading; /* seconds: in each stage; from there to what runs */
    /* What every rewrite of the program is told, and what it tells; see kn_rw. NULL: not asked for. */
    uint64_t       *fired;   /* per rule, over all kernels */
    double         *seconds; /* per group */
    const bool     *off;     /* rules that must not fire */
    void          (*on_fire)(struct kn_rw *rw, int rule, kn_ref from, kn_ref to); /* after each firing */
    uint64_t        visits, matches; /* nodes matched against rules, and rules that fired, so far */
} kl_program;

void kl_program_init(kl_program *p, const kn_alloc *a); /* for the default machine */
void kl_program_free(kl_program *p);
/* As before it was lowered, and for the C target: after a target that could not do it. */
void kl_program_again(kl_program *p);

/* Callify (callify.c): what the roots need, as p->g, p->root, p->param. bound[k] is the node of g behind PARAM k: a
 * BUFFER, a SLICE of one, the BIND of a variable, or 0 for the result of a value root; out_slot[i] (room for n) is the
 * PARAM of root i. */
typedef struct kl_binding {
    kn_ref *bound; /* p->nparam of them */
    size_t  cap;
    int    *out_slot;
} kl_binding;
bool kl_callify(kn_graph *g, const kn_ref *realized, uint32_t nrealized, const kn_ref *roots, int n, kl_program *p,
                kl_binding *b, kn_fault *f);

/* n is a SHRINK that keeps a run of a BUFFER: which one, and from which element. Such a view is bound, not computed. */
bool kl_row_slice(kn_graph *g, const kn_ref *realized, uint32_t nrealized, kn_ref n, kn_ref *buffer, int64_t *offset);

/* Callify of a program of the text form: values, a TUPLE of them, or a SINK of tensor-level STOREs, over PARAMs, which
 * keep their slots. Results get the slots above; out_slot has room for `cap`. */
bool kl_program_from(kl_program *p, kn_graph *g, kn_ref root, int *out_slot, int cap, int *nout, kn_fault *f);

/* The stages of a program that has p->g, p->root and p->param; pipeline.c runs them. */
bool kl_rangeify(kl_program *p, kn_fault *f);
bool kl_optimize(kl_program *p, kl_kernel *k, bool choose, kn_fault *f); /* applies k->opts, chosen first if asked */
bool kl_expand(kl_program *p, kl_kernel *k, kn_fault *f);
bool kl_share_sums(kl_program *p, kl_kernel *k, kn_fault *f); /* part of Expand (sums.c) */
bool kl_squeeze_sums(kl_program *p, kl_kernel *k, kn_fault *f); /* the same (squeeze.c) */
bool kl_select(kl_program *p, kl_kernel *k, kn_fault *f);
bool kl_linearize(kl_program *p, kl_kernel *k, kn_fault *f);
bool kl_plan(kl_program *p, kn_fault *f);
bool kl_render(kl_program *p, kl_kernel *k, kn_fault *f);

/* Of Expand: the elements of a tile laid out row by row; of `axis` (-1: none) `most` places, from `from` on. New RANGEs
 * take *next_id. And a tile that is stored so in a LOCAL buffer, *next_buffer: that, to be read behind the store. */
kn_ref kl_tile_places(kn_graph *g, int64_t *next_id, const int64_t *dims, int rank, int axis, int64_t most,
                      int64_t from);
kn_ref kl_lay_down(kn_graph *g, int64_t *next_id, int64_t *next_buffer, kn_ref tile);

/* The kernel's name and SINK: kind (NULL: E for elementwise, r with a reduction), then the loop extents, as
 * r_64_128_784. */
bool kl_name_kernel(kl_program *p, kl_kernel *k, const char *kind);
/* Kernels that fill the panels which kernel `at` reads, behind all others; calls of them before each of its own
 * (panels.c). */
bool kl_add_panels(kl_program *p, size_t at, const ko_panels *panels, kn_fault *f);

/* The log of where nodes come from may go: a lowered program no longer knows. */
void kl_forget_why(kl_program *p);
/* A kn_rw that does what p asks of all rewrites; kl_rw_end adds its counts to p's. */
void kl_rw_begin(const kl_program *p, kn_rw *rw, kn_graph *g, kn_fault *f);
void kl_rw_end(kl_program *p, kn_rw *rw);
/* A kernel's graph rewritten under rule groups: one sweep, which is a walk of the engine from the sources up that
 * brings each node to its normal form under one mask once, however many rules fire at it. The index expressions that
 * Rangeify makes are normal under one memory that lives as long as the stage: one sweep, shared by all kernels. */
bool kl_rewrite_kernel(kl_program *p, kl_kernel *k, uint64_t groups, kn_fault *f);
/* The fault of a stage: the graph's, if it has one, with the stage's name in front. Returns false. */
bool kl_stage_fault(const char *stage, kn_graph *g, kn_fault *f);
/* The whole schedule as one graph: LINEAR of CALL(body, PARAM or BUFFER...). For dumps and for the interpreter. */
kn_ref kl_schedule_graph(const kl_program *p, kn_graph *to);

#endif
