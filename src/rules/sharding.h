/* sharding.h - the C rules of sharding.rules. */
#ifndef KN_RULES_SHARDING_H
#define KN_RULES_SHARDING_H

#include "rewrite/rewrite.h"

kn_ref kn_rule_allreduce(kn_rw *rw, kn_ref n);
kn_ref kn_rule_reduce_shards(kn_rw *rw, kn_ref n);

#endif
