/* runtime.h - runs graphs: schedule cache, buffers, kernels, devices.
 *
 * The tensor front end hands over nodes of its long-lived graph. Storage is known there as BUFFER{slot}; the kr_context
 * owns the bytes behind a slot. Schedules, compiled kernels and threads belong to a kn_runtime, which contexts in
 * several threads may share. */
#ifndef KN_RUNTIME_H
#define KN_RUNTIME_H

#include "dialect/uop.h"

typedef struct kr_context kr_context;

/* What contexts share, of cfg's cache_dir, cc and threads; it begins with one user, and goes with the last. */
kn_runtime *kr_shared_new(const kn_alloc *a, const kn_config *cfg, kn_fault *f);
kn_runtime *kr_shared_take(kn_runtime *s);
void        kr_shared_drop(kn_runtime *s);

/* cfg already validated (device and target exist); copied. cfg->runtime NULL: one of its own. */
kr_context *kr_new(const kn_alloc *a, const kn_config *cfg, kn_fault *f);
void        kr_free(kr_context *rt);
/* Threads that kernels run in when a config asks for so many: 0 takes KOINE_THREADS, else what the machine gives. */
int kr_threads(int asked);

/* Options for the kernels whose names fit the pattern (koine.h, kn_set_opts); text NULL: the heuristic's again. The
 * version changes with each call that succeeds. */
bool     kr_set_opts(kr_context *rt, const char *pattern, const char *text, kn_fault *f);
uint64_t kr_opts_version(const kr_context *rt);

/* Functions of the host (koine.h, kn_define), and the one of a name, NULL if there is none. */
bool                 kr_define(kr_context *rt, const char *name, const kn_custom_def *def, kn_fault *f);
const kn_custom_def *kr_defined(const kr_context *rt, const char *name);
bool kr_run_custom(void *context, const char *name, const kn_custom_args *args, kn_fault *f); /* a kn_run_custom */

/* Buffers. A slot (>= 1) is never reused. Bytes are allocated zeroed at the first use. */
int64_t kr_buffer_new(kr_context *rt, int64_t size, int dtype, kn_fault *f);              /* 0 on failure */
int64_t kr_buffer_wrap(kr_context *rt, void *data, int64_t size, int dtype, kn_fault *f); /* not owned */
/* Part of a file (device/disk.h); writable: what is stored there is stored in the file. */
int64_t kr_buffer_map(kr_context *rt, const char *path, int64_t offset, int64_t size, int dtype, bool writable,
                      bool create, kn_fault *f);
bool    kr_buffer_is_file(kr_context *rt, int64_t slot);
/* Its bytes, to be written or to be read; NULL on failure. */
void       *kr_buffer_data(kr_context *rt, int64_t slot, kn_fault *f);
const void *kr_buffer_read(kr_context *rt, int64_t slot, kn_fault *f);
int64_t kr_buffer_size(kr_context *rt, int64_t slot);                                     /* elements */
void    kr_buffer_release(kr_context *rt, int64_t slot);
/* Walk all live slots (to release those that no tensor reaches): 0 ends. */
int64_t kr_buffer_next(kr_context *rt, int64_t after_slot);

/* Run what the roots of graph g need, as one schedule. A root is either an assignment, AFTER(view of BUFFER,
 * STORE(view, value)), or a value. results[i] is a BUFFER node of g, flat, that holds root i row-major (for an
 * assignment its buffer), in its first elements where a size of the root is symbolic: the buffer has room for the most.
 * `realized[n]` (0 or a node whose value node n already has, for n < nrealized) is followed while walking. On failure
 * no result is set, and buffers that were to be assigned keep their old contents wherever the fault came before the
 * first kernel ran. */
bool kr_run(kr_context *rt, kn_graph *g, const kn_ref *realized, uint32_t nrealized, const kn_ref *roots, int n,
            kn_ref *results, kn_fault *f);
/* Write the program of the roots as it is after `stage` (names in koine.h at kn_dump). */
bool kr_dump(kr_context *rt, kn_graph *g, const kn_ref *realized, uint32_t nrealized, const kn_ref *roots, int n,
             const char *stage, kn_str *out, kn_fault *f);

/* A run that is lowered and compiled once and then repeated without a graph. */
typedef struct kr_capture kr_capture;
/* A buffer it works on, each once. The caller may put another of the same dtype and of at least that size in its
 * place; `offset` is where it begins in that buffer, in bytes. */
typedef struct kr_source {
    int64_t slot, offset;
    kn_ref  node;    /* of the graph captured from: its BUFFER; stale once that graph changes */
    bool    written; /* by the run */
} kr_source;
/* A variable that sizes of it depend on; the caller may set another value within the bounds. */
typedef struct kr_variable {
    char    name[64];
    int64_t min, max, value;
} kr_variable;
/* The roots as of kr_run, which does not run: results[i] has what a run will put there. The schedule stays the
 * runtime's. */
kr_capture *kr_capture_new(kr_context *rt, kn_graph *g, const kn_ref *realized, uint32_t nrealized, const kn_ref *roots,
                           int n, kn_ref *results, kn_fault *f);
void        kr_capture_free(kr_capture *c);
kr_source   *kr_capture_sources(kr_capture *c, int *n);
kr_variable *kr_capture_variables(kr_capture *c, int *n);
/* Allocates nothing but the bytes of buffers that have none yet (and what the interpreter needs). */
bool kr_replay(kr_capture *c, kn_fault *f);

void kr_stats(kr_context *rt, kn_stats *out); /* fills all but .size */
/* Calls `each` with every program lowered so far that is in the cache: for those who measure. */
struct kl_program;
void kr_each_program(kr_context *rt, void (*each)(void *user, const struct kl_program *p), void *user);
void kr_cancel(kr_context *rt);

#endif
