/* decomp.h - C rules of decomp.rules. */
#ifndef KN_DECOMP_H
#define KN_DECOMP_H

#include "rewrite/rewrite.h"

kn_ref kn_decomp_exp2(kn_rw *rw, kn_ref n);
kn_ref kn_decomp_log2(kn_rw *rw, kn_ref n);

#endif
