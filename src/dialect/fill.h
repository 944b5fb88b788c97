/* fill.h - inputs for programs that have none: small values, the same at every run and on every host. */
#ifndef KN_FILL_H
#define KN_FILL_H

#include "dialect/uop.h"

typedef enum kn_fill_kind {
    KN_FILL_ZERO,
    KN_FILL_SEQ, /* 0, 1, 2, ... wrapped where the dtype ends; floats go on in steps of 1 up to 256 and start again */
    KN_FILL_RAND /* floats: multiples of 1/64 in [-2, 2); integers -8 .. 8 (0 .. 15 unsigned); bools */
} kn_fill_kind;

/* n elements of dtype at data; the seed tells inputs apart. */
void kn_fill(void *data, int64_t n, int dtype, kn_fill_kind kind, uint64_t seed);

#endif
