/* apply.h - inside the application of options: what apply.c and stage.c share. */
#ifndef KN_APPLY_H
#define KN_APPLY_H

#include "optimize/opts.h"

typedef struct ko_state {
    kn_graph      *g;
    const kn_nest *nest;
    int64_t        next_id, next_local;
    int            slot[KN_MAX_NEST]; /* per loop: its shape axis once expanded */
    int            tail_slot[KN_MAX_NEST];
} ko_state;

/* stage.c: the loads of a PARAM in reductions read copies of its panels. */
kn_ref ko_stage_param(ko_state *s, kn_ref sink, int64_t slot, kn_fault *f);

#endif
