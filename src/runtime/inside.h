/* inside.h - the inside of a kr_context, for the files of this folder. */
#ifndef KN_RUNTIME_INSIDE_H
#define KN_RUNTIME_INSIDE_H

#include "device/cc.h"
#include "device/disk.h"
#include "lower/pipeline.h"
#include "runtime/runtime.h"

#include <stdatomic.h>

typedef struct kr_buffer {
    int64_t slot, size;
    int     dtype;
    bool    owned, live;
    void   *block; /* what was allocated; data is aligned within it */
    void   *data;
    size_t  bytes;
    kd_map  map; /* a file's; base NULL: none */
} kr_buffer;

typedef struct kr_schedule {
    uint64_t   key;
    kl_program p; /* p.g is the key in full */
    void      *temp_block, *temp;
    void     **bufs; /* room for the arguments of any of its kernels */
    size_t     nbufs;
} kr_schedule;

struct kr_context {
    kn_alloc      alloc; /* the host's, or the C library's */
    const kn_alloc *a;
    kn_config     cfg;
    kn_str        device, cache_dir, cc_name;
    bool          interpret, idle; /* idle: NULL, which compiles kernels and calls none */
    int           threads;
    kr_buffer    *buffer; /* ascending slots */
    size_t        nbuffer, buffer_cap, dead;
    int64_t       next_slot;
    kr_schedule **schedule;
    size_t        nschedule, schedule_cap;
    kd_cc        *cc;
    kn_pool      *pool;
    atomic_int    cancelled;
    kn_stats      stats;
};

enum { KR_ALIGN = 128 };

kr_buffer *kr_find(kr_context *rt, int64_t slot);
/* A schedule for a callified program, from the cache or lowered and compiled; takes p over in either case. */
kr_schedule *kr_schedule_get(kr_context *rt, kl_program *p, kn_fault *f);
void         kr_schedule_free(kr_context *rt, kr_schedule *s);
/* Run it: data[k] stands behind PARAM k. */
bool kr_schedule_run(kr_context *rt, kr_schedule *s, void *const *data, kn_fault *f);
void *kr_aligned(const kn_alloc *a, size_t bytes, void **block); /* zeroed */
void  kr_aligned_free(const kn_alloc *a, void *block, size_t bytes);

#endif
