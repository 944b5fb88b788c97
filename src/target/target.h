/* target.h - what a target adds: its select rules, and how it turns a LINEAR into code. */
#ifndef KN_TARGET_H
#define KN_TARGET_H

#include "dialect/uop.h"

/* C source (target/c). A kernel is void SYMBOL(void *const *bufs, const i64 *vars, i64 lo, i64 hi): it runs iterations
 * lo..hi of its THREAD loop, *chunks of them in all (1 if it has none). What is not inside that loop and writes runs
 * where lo is 0. */
bool kt_c_render(const kn_graph *g, kn_ref linear, const char *symbol, int64_t *chunks, kn_str *out, kn_fault *f);
/* What kernels of one translation unit share: types and helper functions. */
void kt_c_preamble(kn_str *out);

#endif
