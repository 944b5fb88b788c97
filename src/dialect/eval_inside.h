/* eval_inside.h - the inside of the interpreter, for eval.c (control), eval_group.c (threads), eval_ops.c,
 * eval_fold.c and eval_custom.c (data) only.
 *
 * An instance runs one body: the program's root, or the body of a CALL or FUNCTION with its arguments as slots. Every
 * node below the root has a cell, which keeps the node's last result and the moment it was computed. Time is counted by
 * stamps: a RANGE gets a new stamp whenever its value changes, and its old one back when its loop ends. A result is
 * current if its key is the newest stamp among the ranges the node depends on: since loops nest, that one number says
 * what all of these ranges were. */
#ifndef KN_EVAL_INSIDE_H
#define KN_EVAL_INSIDE_H

#include "dialect/eval.h"

typedef enum ev_kind {
    EV_EFFECT, /* no value: STORE, END, SINK, ... */
    EV_VALUE,  /* `val`, a scalar an element */
    EV_PLACE   /* where elements lie: in `store`, at byte base + i * item size, or at off[i] */
} ev_kind;

enum { EV_NOWHERE = -1 }; /* the address that an index out of bounds gives; an error once it is read or written */

typedef struct ev_store {
    struct ev_store *next; /* temporaries: a list by slot */
    char            *data;
    int64_t          bytes, slot;
    int              space;
} ev_store;

typedef struct ev_fold_step { /* of a combine: an elementwise op on earlier steps */
    uint8_t  op, dtype;
    int      src_dt[3];
    uint32_t src[3];
} ev_fold_step;

/* A fold's combine as a list of steps. Values 0..2n-1 are its PARAMs, then come constants and steps in order. */
typedef struct ev_fold {
    int           n;
    uint32_t      nvalue, *result; /* result[k]: the value that is result k */
    kn_scalar    *value;
    ev_fold_step *step;  /* of each value; op 0: it stands */
    kn_scalar    *acc;   /* result k of element i of the REDUCE: acc[k * numel + i] */
} ev_fold;

typedef struct ev_cell {
    kn_ref          id;
    uint8_t         op, dtype, kind;
    bool            loop;   /* closes ranges: END, REDUCE over ranges, BUFFERIZE */
    bool            scalar; /* elementwise, and all of it scalars that are values */
    bool            fixed;  /* its shape is known */
    uint32_t        nsrc, nchild, nrange;
    const uint32_t *src;   /* cells of the sources; of what is not evaluated (a CALL's body), the cell itself */
    const uint32_t *child; /* what must be current before this runs, in that order */
    const uint32_t *range; /* the RANGEs it depends on */
    const uint32_t *tape;  /* of a loop: what to run again when its innermost range moves on */
    uint32_t        ntape;
    bool            taped;
    uint32_t        mark, uses, root; /* root: of a place, the cell of its PARAM or BUFFER */
    uint64_t        key, stamp;       /* stamp: of a RANGE; 0 while its loop is not running */
    int64_t         numel;
    kn_scalar       one, *val;
    ev_store       *store;
    int64_t         base, *off;
    kn_value       *tuple; /* of a FUNCTION or CALL with a TUPLE body */
    int             ntuple;
    bool            folded; /* a FUNCTION that a fold applies: it runs nothing by itself */
    ev_fold        *fold;   /* of a REDUCE that is one */
} ev_cell;

typedef struct ev_frame {
    uint32_t cell, at, level;
    uint8_t  what, phase;
    int64_t  bound, saved;
    uint64_t saved_stamp;
} ev_frame;

/* What the instances of one kn_eval share. */
typedef struct ev_shared {
    kn_run_custom custom;
    void         *custom_user;
    uint64_t      steps, limit;
    bool          check;
    ev_store     *globals; /* GLOBAL temporaries, by slot */
    int           depth;
} ev_shared;

/* A LINEAR as it runs. */
typedef struct ev_linear {
    const uint32_t *list;
    uint32_t        n, pc;
    uint32_t       *at;    /* of a cell: its place in the list + 1 */
    int64_t        *bound; /* of a RANGE's cell */
} ev_linear;

typedef struct ev {
    kn_graph       *g;
    const kn_alloc *alloc;
    kn_fault       *fault;
    ev_shared      *shared;
    const kn_array *slots;
    int             nslots;
    kn_arena        arena;
    ev_cell        *cell;
    uint32_t        ncell;
    bool            loops;
    uint32_t        nspecial, nmeet; /* cells at which threads of a group wait for each other */
    bool            group;   /* a thread of one (eval_group.c) */
    uint32_t        blocked; /* cell + 1 where it waits; 0: it runs */
    bool            passed;  /* the others have come: the cell may be computed */
    ev_linear       linear;
    uint64_t        clock;
    uint32_t        mark;
    ev_frame       *stack;
    size_t          stack_cap, stack_n;
    ev_store       *temps, **local; /* REG, and LOCAL where no group shares it; where LOCAL is */
} ev;

/* An instance of root: its cells; what root needs run from where it stands, until it is done or e->blocked is set; the
 * memory given back. Control (eval.c). */
bool kn_ev_open(ev *e, kn_ref root);
bool kn_ev_go(ev *e);
void kn_ev_close(ev *e);
/* Groups of threads (eval_group.c): BARRIER, and WMMA of several threads. */
bool kn_ev_meets(const ev *e, const ev_cell *c);
bool kn_ev_groups(ev *e, kn_ref root);
/* The product of matrices whose parts n threads hold; the result's parts into their cells. */
bool kn_ev_wmma(ev *const *thread, int64_t n, uint32_t cell);

/* One step of a node that is not a loop; its children are current. */
bool kn_ev_compute(ev *e, ev_cell *c);
/* A cell's elements as scalars: its own, or read from its place into *tmp (numel of them; to be freed unless NULL). */
const kn_scalar *kn_ev_values(ev *e, ev_cell *c, kn_scalar *one, kn_scalar **tmp);
/* The cell's value keeps the bounds that were derived for its node, and is not the result of an overflow. */
bool kn_ev_check(ev *e, const ev_cell *c);
/* Room for the cell's elements. */
bool kn_ev_room(ev *e, ev_cell *c);
/* acc = op(acc, x) for the elements of a REDUCE's source, in ascending order. */
bool kn_ev_reduce(ev *e, ev_cell *c, const kn_scalar *x);
/* Folds (eval_fold.c): the accumulators set to the identities; all elements that the sources hold now taken in, in
 * ascending order; result k as the GETTUPLE c's value; the memory given back. */
bool kn_ev_fold_begin(ev *e, ev_cell *c);
bool kn_ev_fold_take(ev *e, ev_cell *c);
bool kn_ev_fold_result(ev *e, ev_cell *c, const ev_cell *reduce);
void kn_ev_fold_free(ev *e, ev_cell *c);
/* The value of a cell as a result of kn_eval. */
bool kn_ev_export(ev *e, ev_cell *c, kn_value *out);
/* The host's function into c->tuple (eval_custom.c). */
bool kn_ev_custom(ev *e, ev_cell *c);
/* Runs root as an instance of its own. */
bool kn_ev_run(ev_shared *sh, kn_graph *g, kn_ref root, const kn_array *slots, int nslots, kn_value *out, int *nout,
               kn_fault *f);

#endif
