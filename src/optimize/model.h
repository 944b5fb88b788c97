/* model.h - inside the prediction: the sites of a kernel, as model.c reads them off the graph and cost.c weighs them
 * under each nest. A site is a node that does something each time it is evaluated: an arithmetic op, a REDUCE's step, a
 * load, a store. */
#ifndef KN_OPTIMIZE_MODEL_H
#define KN_OPTIMIZE_MODEL_H

#include "optimize/cost.h"

enum {
    KO_JUMPS  = INT32_MAX, /* a stride that is no number */
    KO_PHASES = 2, /* origins of a site that go in phases: rows and columns of a window */
    KO_LIMITS = 4  /* comparisons of a site's gate, told apart by their origins */
};

typedef struct ko_phase { /* of an origin whose quotients and remainders by one number an index is made of: */
    int32_t origin, every, within; /* after `every` steps it has moved by its stride, by `within` between two of them */
} ko_phase;

typedef struct ko_where { /* of an origin's numbers: from..to; origin -1: all */
    int     origin;
    int64_t from, to;
} ko_where;

typedef struct ko_site {
    uint64_t on, gate, down; /* origins it depends on; those that what an access is gated by does; along which it goes
                              * back, by more than one */
    uint64_t limit[KO_LIMITS]; /* origins of each of the gate's comparisons, of the last those of all that are left */
    int      ops, size, base; /* vector operations; bytes of an element; number of the buffer, -1 no access */
    bool     store, chain, fma; /* chain: a REDUCE's step; fma: with the product that it sums */
    bool     picks; /* elements at numbers that are no sum of the loops' */
    bool     narrow; /* elements that registers hold as others: floats below f32, flags */
    bool     quick; /* a chain of integers, which are added, compared and so on */
    kn_ref   node, sum; /* sum: of a chain, its REDUCE */
    int32_t  stride[KN_MAX_NEST]; /* elements per step of an origin */
    int32_t  reach[KN_MAX_NEST]; /* from the first to the last of all its steps */
    uint64_t around; /* of the candidate in hand: the loops it stands in */
    ko_phase phase[KO_PHASES];
    int      nphase;
    ko_where  part; /* where anybody has a use for it */
} ko_site;

typedef struct ko_base {
    kn_ref node;
    double bytes;
    int64_t slot;   /* of a PARAM, else -1 */
    bool   copied;  /* of the candidate in hand: before all loops, as lanes read it */
    double most[2]; /* of the candidate in hand: what its loads, and its stores, ask for */
} ko_base;

struct ko_model {
    const kn_alloc *alloc;
    ko_site        *site;
    ko_base        *base;
    int             nsite, nbase, ncloser;
    size_t          cap, base_cap;
    uint64_t        own[KN_MAX_NEST], in[KN_MAX_NEST]; /* per END or REDUCE: its origins; those it depends on */
};

#endif
