/* helpers.h - the table of functions that kernels call, in the order of helpers.def. */
#ifndef KN_X86_HELPERS_H
#define KN_X86_HELPERS_H

#include <stdint.h>

extern void (*const kx_helper_fn[])(uint64_t *io);

#endif
