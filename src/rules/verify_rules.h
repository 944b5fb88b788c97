/* verify_rules.h - what verify.rules calls: what no pattern over a subtree says, of one node each. None changes
 * anything. */
#ifndef KN_VERIFY_RULES_H
#define KN_VERIFY_RULES_H

#include "rewrite/rewrite.h"

/* Conditions: true where something is wrong. */
bool kn_verify_unrounded(kn_rw *rw, kn_ref c);      /* a float CONST that its dtype has not */
bool kn_verify_out_of_range(kn_rw *rw, kn_ref c);   /* an integer CONST likewise */
bool kn_verify_no_storage(kn_rw *rw, kn_ref x);     /* x is no view of a BUFFER or PARAM */
bool kn_verify_no_target(kn_rw *rw, kn_ref x);      /* the same; a HOLE may stand for one where no stage is said */
bool kn_verify_alone(kn_rw *rw, kn_ref n);          /* no CALL stands in the program: it gets its storage as PARAMs */
bool kn_verify_cuts_shards(kn_rw *rw, kn_ref view);
bool kn_verify_overflows(kn_rw *rw, kn_ref n);      /* index arithmetic over sources with bounds */
bool kn_verify_no_fold(kn_rw *rw, kn_ref function); /* not FUNCTION(combine, identities, elements) */
bool kn_verify_shaped(kn_rw *rw, kn_ref n);         /* of rank > 0 */
bool kn_verify_no_vector(kn_rw *rw, kn_ref n);      /* of rank > 1, where no CALL stands in the program */

/* `refuse C`: what is wrong, or NULL; rw->refused may be set to the node that is to blame. */
const char *kn_verify_combine(kn_rw *rw, kn_ref reduce); /* of a fold */
const char *kn_verify_wmma(kn_rw *rw, kn_ref wmma);
const char *kn_verify_open(kn_rw *rw, kn_ref sink);
const char *kn_verify_order(kn_rw *rw, kn_ref linear);
const char *kn_verify_nesting(kn_rw *rw, kn_ref linear);
const char *kn_verify_custom(kn_rw *rw, kn_ref call);
const char *kn_verify_ins(kn_rw *rw, kn_ref ins);
const char *kn_verify_call(kn_rw *rw, kn_ref call);

#endif
