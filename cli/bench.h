/* bench.h - the parts of `koine bench`: the programs that are measured, and the report. */
#ifndef KN_CLI_BENCH_H
#define KN_CLI_BENCH_H

#include "base/base.h"
#include "koine.h"

/* One measurement: a context, what the program lends it, and its result. */
typedef struct bench_run {
    kn_context *kn;
    kn_scope   *scope;  /* opened by the program */
    kn_tensor  *result; /* kept, or NULL: there are assignments */
    kn_arena    memory; /* of weights */
    uint32_t    drawn;  /* numbers so far that fill them */
    double      weights; /* seconds that making them took */
} bench_run;

typedef struct bench_program {
    const char *name, *title;
    bool        runs;       /* its kernels are called too; the others are compiled alone */
    bool        whole;      /* `most` is of all that happens from the start of the process to the result; else without
                               the weights */
    double      most, each; /* milliseconds: in all, and of the median kernel; 0: no bound */
    bool (*build)(bench_run *r); /* false: out of memory; other faults the context has */
} bench_program;

extern const bench_program bench_programs[];
extern const int           bench_program_count;

#endif
