/* apply.h - inside the application of options: what apply.c, pieces.c, siblings.c and stage.c share. */
#ifndef KN_APPLY_H
#define KN_APPLY_H

#include "dialect/why.h"
#include "optimize/opts.h"

typedef struct ko_state {
    kn_graph      *g;
    const kn_nest *nest;
    ko_panels     *panels;
    kn_fault      *f;
    int64_t        first_id, next_id, next_local;
    int           *place; /* per range made here, by id - first_id: its position in the nest */
    size_t         place_cap;
    int            slot[KN_MAX_NEST]; /* per loop: its shape axis once expanded */
    int            tail_slot[KN_MAX_NEST];
} ko_state;

/* A range of a loop at that position. */
kn_ref ko_new_range(ko_state *s, kn_ref bound, int type, int slot, int place);
int    ko_place(const ko_state *s, kn_ref range); /* -1: not made here */

/* pieces.c: the parts into which the ranges of one closer fall. */
enum { KO_MAIN, KO_TAIL, KO_REST, KO_FRONT, KO_BACK = KO_FRONT + KO_MOST_PARTS, KO_PIECES = KO_BACK + KO_MOST_PARTS };

typedef struct ko_variant { /* one combination of pieces of a closer's ranges */
    kn_ref from[KN_MAX_NEST], to[KN_MAX_NEST];
    int    nsub;
    struct {
        kn_ref  range;
        int     origin, place;
        int     closed;            /* which of the closer's ranges it is of */
        int64_t stride;
        kn_carry carry;
    } loop[KN_MAX_NEST];           /* outermost first */
    int     nloop;
    kn_ref  base[KN_MAX_NEST];     /* per range of the closer: what its piece starts at */
    kn_ref  gate[KN_MAX_NEST];     /* per range: under which an iteration of it exists at all, 0: always */
    bool    own[KN_MAX_NEST];      /* per range: no piece made before walks it in the same loops */
    const struct ko_part *with;    /* the piece whose loops it shares, or NULL */
} ko_variant;

enum { KO_MAX_ROOMS = KN_MAX_NEST }; /* of stages, each of which has a loop at least */

typedef struct ko_part { /* a piece that was made */
    kn_ref body, loop[KN_MAX_NEST]; /* outermost first */
    int    place[KN_MAX_NEST], nloop;
    int    piece[KN_MAX_NEST];      /* per range of the closer */
    kn_ref stage[KO_MAX_ROOMS], filled[KO_MAX_ROOMS]; /* stages, and the buffers that stand for them here */
    int    nstage;
} ko_part;

/* Which pieces the closer's k-th range has, as a mask of 1 << KO_...; its bound is read from the graph. */
unsigned ko_pieces(ko_state *s, kn_ref closer, int k, int origin);
bool     ko_make_variant(ko_state *s, kn_ref closer, const int *origins, int n, const int *piece, ko_variant *v);
/* body in the variant: ranges replaced, what does not exist left out (op: of the REDUCE, or -1 for an END). */
kn_ref   ko_variant_body(ko_state *s, kn_ref closer, const int *origins, int n, ko_variant *v, kn_ref body, int op);

/* siblings.c: loops that pieces of an END have in common. */
bool   ko_share_loops(ko_state *s, ko_variant *v, const int *piece, int nrange, const ko_part *part, int np);
kn_ref ko_join_parts(kn_graph *g, ko_part *part, int np);

/* stage.c: panels, prefetches, streams. */
kn_ref ko_apply_memory(ko_state *s, kn_ref sink, const kn_opt *o);

#endif
