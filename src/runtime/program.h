/* program.h - runs programs of the text form on a runtime's device: kn_eval's counterpart. */
#ifndef KN_PROGRAM_H
#define KN_PROGRAM_H

#include "dialect/eval.h"
#include "runtime/runtime.h"

/* A tensor-level program over PARAMs (slots[k] stands behind PARAM k): a value, a TUPLE of values, or a SINK of STOREs
 * into PARAMs, which then change. Values go to out[0 .. *nout) (cap in *nout on entry), as of kn_eval; data is from the
 * allocator of g. A program below tensor level is KN_ERR_UNSUPPORTED: the interpreter runs it. g may grow. */
bool kr_run_program(kr_context *rt, kn_graph *g, kn_ref root, const kn_array *slots, int nslots, kn_value *out,
                    int *nout, kn_fault *f);

#endif
