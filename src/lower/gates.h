/* gates.h - the C rules of gates.rules. */
#ifndef KN_GATES_H
#define KN_GATES_H

#include "rewrite/rewrite.h"

/* REDUCE{ADD}(x, r, ...) where x is zero unless a condition on r holds: r == e becomes e itself, a <= r < b shifts and
 * shortens the loop, to bounds that may depend on loops around it, and of r - e that a number divides the loop goes in
 * steps of that number. A product with a 0/1 factor counts as such a
 * condition: an infinity or NaN that the factor would have turned into NaN is not seen any more, as with a gather. */
kn_ref kl_gate_to_bounds(kn_rw *rw, kn_ref n);
/* The same once what is no lane and no copy is a loop for good, however short, and of multiples of r as well. */
kn_ref kl_gate_to_loops(kn_rw *rw, kn_ref n);
/* REDUCE{ADD} over a range that its terms do not depend on: a product. */
kn_ref kl_count(kn_rw *rw, kn_ref n);
/* REDUCE{MAX}, {MIN} over a range that runs and that what is compared does not depend on: without it. */
kn_ref kl_same_throughout(kn_rw *rw, kn_ref n);
/* END(STORE(p[.. v ..], REDUCE{ADD}(x, i))), with x zero unless v == e(i): p is set to zero, then e(i) collects x. */
kn_ref kl_scatter(kn_rw *rw, kn_ref n);
/* END(body, .. i ..) with sums that have one term more at each i: a prefix along i (scan.c). */
kn_ref kl_scan(kn_rw *rw, kn_ref n);

/* A prefix in x: along one of the END's ranges, and one that depends on the range `on`, where these are not 0. */
bool    kl_holds_prefix(const kn_graph *g, kn_ref x, kn_ref end, kn_ref on, bool *oom);
/* Loads in x that depend on r, gated by `gate`. */
kn_ref  kl_gate_loads(kn_graph *g, kn_ref x, kn_ref r, kn_ref gate);
/* An id that no range of the graph has. */
int64_t kl_fresh_id(const kn_graph *g);

#endif
