/* soup.h - a valid tensor program out of any bytes: what differential tests run.
 *
 * Every string of bytes is a program, and a short change of the bytes is a short change of the program, so that a
 * fuzzer can steer and a failure can be made small. Values stay of moderate size; whether the result depends on
 * rounding all the same is for corpus_judge to say. */
#ifndef KN_SOUP_H
#define KN_SOUP_H

#include "dialect/uop.h"

/* A value, a TUPLE or a SINK of STOREs over PARAMs 0, 1, ...; 0 with the graph's fault where a constructor refused,
 * which is a fault of the soup. symbolic: sizes may be. */
kn_ref soup_cook(kn_graph *g, const uint8_t *bytes, size_t n, bool symbolic);

#endif
