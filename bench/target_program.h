/* A program of bench_target: a name, what builds it, and its inputs. */
#ifndef KN_BENCH_TARGET_PROGRAM_H
#define KN_BENCH_TARGET_PROGRAM_H

#include "koine.h"

#include <stddef.h>

enum { INPUTS = 4 };

typedef struct program program;

/* Makes p's result from its inputs, alike whenever it is called. */
typedef kn_tensor *(*body)(kn_context *kn, const program *p, kn_tensor *const in[]);

typedef struct input {
    kn_dtype dtype; /* floats are in 0..1; integers are in 0..most, or 0 */
    int      most;
    kn_dim   dims[4]; /* up to the first 0 */
} input;

struct program {
    const char *name;
    body        fn;
    input       in[INPUTS]; /* up to the first without sizes */
};

/* A loss's gradient by x: the kernels of a training step. */
static inline kn_tensor *gradient_of(kn_tensor *loss, kn_tensor *x) {
    kn_tensor *g = NULL;
    kn_gradient(loss, &x, 1, &g);
    return g;
}

#endif
