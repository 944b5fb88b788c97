/* Programs by chance: what users write, with sizes, dtypes and details that nobody chose. */
#ifndef KN_BENCH_CHANCE_H
#define KN_BENCH_CHANCE_H

#include "target_program.h"

#include <stdbool.h>
#include <stdint.h>

enum { CHANCE_NAME = 128, CHANCE_STEPS = 6, CHANCE_AXES = 4 };

/* An elementwise op on a value: alone, with a number, or with one of the inputs. */
typedef struct chance_step {
    const struct chance_op *op; /* NULL: none */
    int                     with;
    double                  number;
} chance_step;

/* One program. A family's plan draws it, and the family's build (program.fn) reads it: what is in `kind`, `axis`,
 * `amount` and the like is the family's own. */
typedef struct chance {
    program     program; /* first: a build is handed this. Its name is below, so a chance is not to be copied */
    char        name[CHANCE_NAME];
    kn_dtype    dtype;
    int         kind, variant, nin, nsteps;
    chance_step steps[CHANCE_STEPS];
    int         axis, axes[2], naxes, order[CHANCE_AXES];
    kn_dim      amount, dims[6], before[CHANCE_AXES], after[CHANCE_AXES];
    int         stride, padding, dilation, kernel, groups;
} chance;

/* Program `index` of `seed`, which is the same one everywhere. */
void chance_program(chance *c, uint64_t seed, uint64_t index);

#endif
