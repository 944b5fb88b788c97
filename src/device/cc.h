/* cc.h - C source to code in this process: the system's compiler, in parallel batches, loaded once, cached on disk. */
#ifndef KN_CC_H
#define KN_CC_H

#include "base/base.h"

/* A kernel: iterations lo .. hi of its THREAD loop. bufs[k] is what stands behind its PARAM k; of a variable vars[k]
 * is the value. */
typedef void (*kd_fn)(void *const *bufs, const int64_t *vars, int64_t lo, int64_t hi);

typedef struct kd_unit { /* one kernel to compile: a function named `name` */
    const char *name, *source;
    size_t      len;
    kd_fn       fn;     /* out */
    uint64_t    key[2]; /* out: of its content */
} kd_unit;

typedef struct kd_cc kd_cc;

/* cc: the compiler (NULL: $CC, else "cc"). cache_dir: NULL for none; made with mode 0700 when first used. */
kd_cc *kd_cc_new(const kn_alloc *a, const char *cc, const char *cache_dir, const char *preamble, kn_fault *f);
void   kd_cc_free(kd_cc *c);
/* Several threads may compile with one kd_cc at once; a kernel that two ask for is then compiled by each. Fill fn of
 * every unit. Kernels seen before are not compiled again; the others in at most `jobs` compilers at a time.
 * A cache that cannot be read or written is reported through `warn` and done without. */
bool kd_cc_compile(kd_cc *c, kd_unit *unit, int n, int jobs, void (*warn)(void *user, const char *line), void *user,
                   uint64_t *compiled, uint64_t *loaded, kn_fault *f);

#endif
