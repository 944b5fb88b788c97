/* rangeify.h - inside stage 2: uses, groups and storage, shared by fuse.c, rangeify.c and order.c.
 *
 * A use is a demand for one node's elements at given indices, inside one group (a kernel to be). The walk goes from
 * results to inputs, so that when a node is reached all that is asked of it is known; then values are built upwards. */
#ifndef KN_RANGEIFY_H
#define KN_RANGEIFY_H

#include "lower/lower.h"

typedef struct kl_use {
    kn_ref  node;
    int     next;  /* the node's next use, -1 */
    int     group;
    bool    load;  /* reads the node's storage instead of computing it */
    kn_ref *idx;   /* an index expression per axis of the node */
    kn_ref  gate;  /* 0, or when the elements exist at all */
    kn_ref  valid; /* PAD: inside the source */
    kn_ref *range; /* REDUCE: the ranges it makes */
    int     nrange;
    int    *src;   /* the uses of the sources */
    kn_ref  value;
    double  evals; /* how often it is evaluated */
} kl_use;

typedef enum kl_place { KL_INLINE, KL_STAGE, KL_ROOT, KL_PLACES } kl_place;

typedef struct kl_choice { /* where a node is computed, and what was weighed */
    kl_place    place;
    const char *settled;            /* why nothing was weighed, or NULL */
    double      cost[KL_PLACES];    /* picoseconds more than computing it once; negative: has no meaning */
    const char *illegal[KL_PLACES]; /* why the place was out of the question, or NULL */
    double      again;              /* arithmetic of the inline place beyond computing it once */
    bool        apart;              /* what reads it would compute it one by one: as a root it has loops of its own */
} kl_choice;

typedef struct kl_info { /* per node of the program's graph */
    int    use, nuse; /* list of uses */
    int    storage;   /* number of the storage it is written to, -1 none */
    int    out;       /* first STORE of it, -1 */
    int    users;     /* nodes that have it as a source */
    bool   counts;    /* depends on a RANGE's number: arange and what is made of it */
    bool   index;     /* an integer made of arange and constants alone: index arithmetic, never stored */
    bool   term;      /* a product that a sum alone takes: its multiplication is the addition's, wherever both stand */
    bool   plain;     /* no sum or product stands in it, in place */
    bool   product;   /* computes a product with reuse in place, which wants a register tile and loops of its own */
    double work;      /* picoseconds to compute all its elements once, in place */
    double alu;       /* of it, what is no memory traffic */
    const kl_choice *choice; /* kept for an explanation, else NULL */
} kl_info;

typedef struct kl_out { /* a STORE of the program */
    kn_ref store;
    int64_t slot;     /* PARAM it writes */
    kn_ref  before;   /* the version of the PARAM it overwrites: a STORE, or 0 for the first contents */
    int     next;     /* next STORE of the same value, -1 */
    bool    via_temp; /* written to a temporary first, copied when all readers of the old contents are done */
} kl_out;

typedef struct kl_storage {
    kn_ref  node;
    int     use;     /* what writes it; -1: a CALL does */
    int     group;
    int     out;     /* -1: a temporary; else the STORE whose PARAM holds it */
    int64_t slot;    /* PARAM slot, or nparam + number of the temporary; of a stage the LOCAL buffer's number */
    int     next;    /* of the group's, -1; see kl_group.storage */
    bool    stage;   /* LOCAL, filled inside loops that all its readers share */
    bool    staged[KN_MAX_RANK]; /* of a stage: the axes it holds; the others are the shared loops */
    kn_ref  buffer, filled;      /* of a stage: the BUFFER, and the END that fills it once built */
} kl_storage;

typedef struct kl_group {
    kn_ref range[KN_MAX_RANK]; /* output loops, outermost first */
    int    nrange;
    bool   empty;              /* no elements: no kernel */
    int64_t staged;            /* bytes of LOCAL memory */
    int    size;               /* operations in place, counted for each use */
    int    into;               /* 1 + the group it has merged with, whose loops hold its own; 0: none */
    kn_ref call;               /* the CALL of a host's function that it is, without loops (custom.c); 0: none */
    int    storage;            /* once all is decided: the last that it writes, -1 none */
    bool   alone;              /* it stores what was asked for in storage of its own: a border between kernels */
    int    copy;               /* 1 + the STORE that this group only copies into place; 0: computes */
} kl_group;

typedef struct kl_read { /* a group reads a PARAM's version */
    int     group;
    int64_t slot;
    kn_ref  version;
    int     use;
} kl_read;

typedef struct kl_promise { /* a leaf that stands for an index tensor's value until that is built */
    kn_ref leaf;
    int    use;
} kl_promise;

typedef struct kl_merge_note { /* two groups that could have merged, kept for an explanation */
    int         a, b;
    kn_ref      node; /* the largest value that both read */
    double      bytes, apart, together;
    const char *why; /* they stay apart, or NULL */
} kl_merge_note;

typedef struct kl_range { /* per RANGE id */
    kn_ref   node;
    int64_t  extent; /* at most */
    bool     reduce;
    int     *closure; /* ids of the loops around it, itself included, ascending */
    int      nclosure;
} kl_range;

typedef struct kl_fuse {
    kl_program *p;
    kn_graph   *g, *r; /* the program's graph; the ranged graph */
    kn_rw       rw;    /* on r */
    kn_fault   *f;
    kn_arena    arena;
    double      arithmetic, moved, again; /* picoseconds: of the program once, of its inputs and outputs, of repeats */
    kn_ref     *order; /* reachable nodes, ascending */
    uint32_t    norder;
    kl_info    *info;
    size_t      ninfo;
    kl_use     *use;
    size_t      nuse, use_cap;
    kl_out     *out;
    size_t      nout, out_cap;
    kl_storage *storage;
    size_t      nstorage, storage_cap;
    kl_group   *group;
    size_t      ngroup, group_cap;
    int64_t     nstage;
    kl_read    *read;
    size_t      nread, read_cap;
    kl_promise *promise;
    size_t      npromise, promise_cap;
    kl_range   *range;
    size_t      nrange, range_cap;
    kl_merge_note *note;
    size_t      nnote, note_cap;
    uint64_t  **before; /* before[a] bit b: group b must run before a (transitively) */
    size_t      before_cap, before_words;
} kl_fuse;

/* order.c: the partial order of groups. */
bool kl_group_new(kl_fuse *z, int *group);
bool kl_group_before(const kl_fuse *z, int a, int b);    /* a must run before b */
bool kl_group_edge(kl_fuse *z, int a, int b);            /* a before b from now on; the caller has seen no cycle */
bool kl_hazards(kl_fuse *z);                             /* old contents are read before they are overwritten */
bool kl_group_order(kl_fuse *z, int *order, int *count); /* a topological order */
/* rangeify.c */
kn_ref kl_simplify(kl_fuse *z, kn_ref n);
kn_ref kl_dim(kl_fuse *z, int64_t dim); /* of the program's graph, as kg_shape has it: its node in the ranged graph */
bool   kl_new_range(kl_fuse *z, int64_t dim, bool reduce, const int *around, int naround, kn_ref *out);
int    kl_closure(kl_fuse *z, const kn_ref *idx, int n, kn_ref gate, int *out, int cap); /* loops around a use */
bool   kl_add_use(kl_fuse *z, kn_ref node, int group, const kn_ref *idx, kn_ref gate, int *out);
kn_ref kl_flat(kl_fuse *z, int use); /* the row-major element number a use asks for */
bool   kl_spread(kl_fuse *z, int use); /* what this use asks of its node's sources */
kn_ref kl_stored_value(const kn_graph *g, kn_ref store); /* what a STORE stores, its RESHAPEs taken off */
/* custom.c: CALLs of the host's functions. A result, stored by its CALL's group; what that reads; the kernel and its
 * arguments, of z->p->args. */
bool kl_is_call_result(const kn_graph *g, kn_ref n);
bool kl_call_result(kl_fuse *z, kn_ref n);
bool kl_spread_call(kl_fuse *z, kn_ref call);
bool kl_read_by_call(const kl_fuse *z, kn_ref n);
bool kl_cut_call(kl_fuse *z, int g, kl_kernel *k, kl_arg **arg);
/* fuse.c */
bool kl_add_storage(kl_fuse *z, const kl_storage *st); /* st->node, written by st->group: to st->out or a temporary */
double kl_read_ps(const kl_fuse *z, double bytes, kn_level from); /* streaming so many bytes */
double kl_write_ps(const kl_fuse *z, double bytes, kn_level to);
bool kl_decide(kl_fuse *z);
bool kl_group_full(const kl_fuse *z, int group); /* it has as many operations as a kernel should */
/* merge.c: groups that read the same values; and the group that g is part of. */
bool kl_merge(kl_fuse *z);
int  kl_group_of(const kl_fuse *z, int g);
/* loops.c: of a kernel that was cut out, which then has to be simplified again. */
bool kl_merge_loops(kl_program *p, kl_kernel *k);
bool kl_split_loops(kl_program *p, kl_kernel *k);
/* explain.c: the choices into z->p->explain; kernel_of[group], -1 none. */
bool kl_explain(kl_fuse *z, const int *kernel_of);

#endif
