/* gates.h - the C rule of gates.rules. */
#ifndef KN_GATES_H
#define KN_GATES_H

#include "rewrite/rewrite.h"

/* REDUCE{ADD}(x, r, ...) where x is zero unless a condition on r holds: r == e becomes e itself, a <= r < b shifts and
 * shortens the loop. A product with a 0/1 factor counts as such a condition, so an infinity or NaN that the factor
 * would have turned into NaN is not seen any more, as with a gather. */
kn_ref kl_gate_to_bounds(kn_rw *rw, kn_ref n);

/* END(STORE(p[.. v ..], REDUCE{ADD}(x, i))), with x zero unless v == e(i): p is set to zero, then e(i) collects x. */
kn_ref kl_scatter(kn_rw *rw, kn_ref n);

#endif
