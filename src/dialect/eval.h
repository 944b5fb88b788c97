/* eval.h - the reference interpreter: what every program of the dialect means, at any stage.
 *
 * kn_eval runs
 *   - a value (tensor level): movement ops, elementwise with broadcasting, REDUCE over axes, TUPLE, FUNCTION, GETTUPLE;
 *   - a SINK of effects: tensor-level STOREs (after Callify), ranged kernels (RANGE, END, REDUCE over ranges), and
 *     expanded kernels, whose values have shapes and whose accumulators are BUFFER{REG};
 *   - a LINEAR: of CALLs (a schedule), or of a kernel's nodes in order (RANGE opens a loop, END closes it).
 * A program with SPECIALs runs once for every combination of their values, one after the other. Where it has a BARRIER,
 * or a WMMA of several threads, the threads of a group (one for each combination of the SPECIALs lidx0, lidx1, ...,
 * which counts lidx0 first) run side by side up to it and share LOCAL storage: a barrier that not all of them reach is
 * an error. A WMMA is D = A B + C of row-major matrices: thread t of `threads` holds the t-th part of each, as many
 * elements as its fragment has; products and sums are rounded together, in the order of k.
 *
 * PARAM k is slots[k] (in a CALL's body: the CALL's k-th argument); a program with symbolic sizes runs at the values
 * that its variables have there. BUFFERs inside the program are temporaries, filled with a pattern so that a read
 * before the first write shows. Exact integer arithmetic; floats are rounded to their dtype after every op (MULACC
 * once). A read or write out of bounds, a bad slot, a HOLE: an error, never a crash. */
#ifndef KN_EVAL_H
#define KN_EVAL_H

#include "dialect/uop.h"

/* Storage of a slot: `size` elements of `dtype`, flat. The caller owns data. */
typedef struct kn_array {
    void   *data;
    int64_t size;
    int     dtype;
} kn_array;

/* A computed value; data is from the allocator (bytes = numel * item size). */
typedef struct kn_value {
    void   *data;
    int64_t numel;
    int     dtype, rank;
    int64_t dims[KN_MAX_RANK];
} kn_value;

typedef struct kn_eval_opts {
    uint64_t step_limit;  /* 0: none; else stop with KN_ERR_CANCELLED after so many node evaluations */
    uint64_t steps;       /* out: node evaluations done */
    bool     check;       /* fail with KN_ERR_INTERNAL when a value leaves its node's bounds (kg_min, kg_max), or when
                             arithmetic of dtype index overflows */
    kn_run_custom custom; /* runs a CUSTOM_FUNCTION; NULL: there are none */
    void         *custom_user;
} kn_eval_opts;

/* Values: root's value, or each of a TUPLE's, into out[0..*nout) (cap in *nout on entry). Effects: *nout becomes 0. */
bool kn_eval(kn_graph *g, kn_ref root, const kn_array *slots, int nslots, kn_value *out, int *nout,
             kn_eval_opts *opts /* or NULL */, kn_fault *f);
/* The program at the values that its variables have in slots (kg_specialise); those without one stay. */
kn_ref kn_eval_special(kn_graph *to, const kn_graph *g, kn_ref root, const kn_array *slots, int nslots);
void kn_value_free(const kn_alloc *a, kn_value *v);

#endif
