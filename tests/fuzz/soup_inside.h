/* soup_inside.h - what the parts of the soup share: the bytes, the values so far, how to take from either. */
#ifndef KN_SOUP_INSIDE_H
#define KN_SOUP_INSIDE_H

#include "fuzz/soup.h"

enum { SOUP_POOL = 24, SOUP_MOST = 2500, SOUP_INNER = 40000, SOUP_PARAMS = 24 };

typedef struct soup {
    kn_graph      *g;
    const uint8_t *at, *end;
    kn_ref         pool[SOUP_POOL];
    int            n;
    int64_t        slots; /* the next PARAM's; outside of FUNCTIONs they start at SOUP_OUTSIDE */
    kn_ref         var[2];
    int            nvar, depth; /* of FUNCTIONs around */
} soup;

#define SOUP_OUTSIDE 1000

/* From the bytes: 0 behind their end. */
int     soup_take(soup *s, int n);
int64_t soup_size(soup *s); /* may be a variable */
int     soup_type(soup *s); /* any dtype */

/* Properties of values. A dim is a number, or negative where it is symbolic, as kg_shape has it. */
static inline int     soup_rank(const soup *s, kn_ref x) { return kg_rank(s->g, x); }
static inline int64_t soup_dim(const soup *s, kn_ref x, int a) { return kg_shape(s->g, x, NULL)[a]; }
static inline int     soup_dtype(const soup *s, kn_ref x) { return kg_dtype(s->g, x); }
static inline bool    soup_fixed(const soup *s, kn_ref x) { return kg_numel(s->g, x) >= 0; }
static inline bool    soup_float(const soup *s, kn_ref x) { return kn_is_float(kg_dtype(s->g, x)); }

kn_ref soup_number(soup *s, int dt, double v);
kn_ref soup_param(soup *s, int dt, const int64_t *d, int rank);
kn_ref soup_any(soup *s); /* of the pool, late ones more often */
void   soup_keep(soup *s, kn_ref x);
kn_ref soup_beside(soup *s, kn_ref x); /* of x's dtype, broadcasts to x: of the pool, or a PARAM */
kn_ref soup_sum(soup *s, kn_ref x);    /* x to be summed: narrow floats as f32 */
kn_ref soup_counting(soup *s, int64_t n, int rank, int axis); /* 0, 1, ... along the axis */
static inline kn_ref soup_op1(soup *s, int op, kn_ref a) { return kg_op1(s->g, op, a); }
static inline kn_ref soup_op2(soup *s, int op, kn_ref a, kn_ref b) { return kg_op2(s->g, op, a, b); }

/* A value made of x (soup_ops.c). */
kn_ref soup_unary(soup *s, kn_ref x);
kn_ref soup_binary(soup *s, kn_ref x);
kn_ref soup_compare(soup *s, kn_ref a, kn_ref b);
kn_ref soup_choice(soup *s, kn_ref x);
kn_ref soup_convert(soup *s, kn_ref x);
kn_ref soup_movement(soup *s, kn_ref x);
kn_ref soup_reduction(soup *s, kn_ref x);
kn_ref soup_count_along(soup *s, kn_ref x);
/* Of several ops that compilers know as one thing (soup_parts.c). */
kn_ref soup_product(soup *s, kn_ref x);
kn_ref soup_softmax(soup *s, kn_ref x);
kn_ref soup_masked_sum(soup *s, kn_ref x);
kn_ref soup_gather(soup *s, kn_ref x);
kn_ref soup_fold(soup *s, kn_ref x);
kn_ref soup_windows(soup *s, kn_ref x);
kn_ref soup_join(soup *s, kn_ref x);
kn_ref soup_random(soup *s, kn_ref x);

#endif
