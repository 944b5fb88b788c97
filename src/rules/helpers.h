/* helpers.h - the rules written in C, and bundles of rule groups.
 *
 * Each takes a node that its rule's pattern matched and returns what replaces it, or 0 to decline. */
#ifndef KN_RULE_HELPERS_H
#define KN_RULE_HELPERS_H

#include "rewrite/rewrite.h"

/* What cleans index arithmetic and its gates. */
#define KN_GROUPS_SIMPLIFY (KN_G_algebra | KN_G_where | KN_G_cast | KN_G_canon_int | KN_G_divmod)

/* helpers.c */
kn_ref kn_rule_fold(kn_rw *rw, kn_ref n);      /* an op of constants is a constant */
kn_ref kn_rule_bounds(kn_rw *rw, kn_ref n);    /* an integer or bool that can only be one value */
kn_ref kn_rule_order(kn_rw *rw, kn_ref n);     /* constants right, then ascending ids */
kn_ref kn_rule_sub_const(kn_rw *rw, kn_ref n); /* x - c = x + (-c) of floats: sums go both ways round */
kn_ref kn_rule_div_const(kn_rw *rw, kn_ref n); /* x / c = x * (1 / c) where that is exact */
bool   kn_rule_is_one(kn_rw *rw, kn_ref a); /* a scalar */
bool   kn_rule_is_of_rows(kn_rw *rw, kn_ref a); /* one value for all lanes of a row */
int64_t kn_rule_in_row(kn_rw *rw, kn_ref a); /* of a row; 1 of a scalar */
bool   kn_rule_spreads(kn_rw *rw, kn_ref a, kn_ref b); /* one is a scalar and the other a tile */
bool   kn_rule_starts(kn_rw *rw, kn_ref a, kn_ref b, kn_ref c); /* a scalar, and two of a tile that is small */
/* Numbers a + b of a tile are to the scalar c what the lanes' b are to c - a: a is a scalar too, and nothing of it
 * wraps in the dtype of c. */
bool   kn_rule_meets(kn_rw *rw, kn_ref a, kn_ref b, kn_ref c);
/* b and c are of one tile, which is smaller than that of a with them. */
bool   kn_rule_in_common(kn_rw *rw, kn_ref b, kn_ref c, kn_ref a);
/* index.c: index arithmetic by affine forms */
kn_ref kn_rule_index_sum(kn_rw *rw, kn_ref n);
kn_ref kn_rule_index_div(kn_rw *rw, kn_ref n);
kn_ref kn_rule_index_mod(kn_rw *rw, kn_ref n);
kn_ref kn_rule_index_lt(kn_rw *rw, kn_ref n);
kn_ref kn_rule_index_ne(kn_rw *rw, kn_ref n);
kn_ref kn_rule_index_lanes(kn_rw *rw, kn_ref n); /* a few lanes' numbers against a scalar: what they begin at is its */

#endif
