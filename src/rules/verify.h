/* verify.h - what must hold of a graph after each stage. */
#ifndef KN_VERIFY_H
#define KN_VERIFY_H

#include "dialect/uop.h"

/* The stages, in order. ANY: what holds of every graph, whatever its stage. */
typedef enum kn_stage {
#define STAGE(symbol, name) KN_STAGE_##symbol,
#include "rules/stages.def"
#undef STAGE
    KN_STAGE_COUNT
} kn_stage;
extern const char *const kn_stage_names[KN_STAGE_COUNT];     /* "any", "tensor", ... */
int                      kn_stage_by_name(const char *name); /* -1: none */

/* Whether what root reaches is well formed after `stage`, by the rules of verify.rules. A fault names stage, rule and
 * node, and shows the node and what stands below it. A LINEAR of CALLs is a schedule: each body is checked as a kernel.
 * Linear in its size. */
bool kn_verify(kn_graph *g, kn_ref root, kn_stage stage, kn_fault *f);

#endif
