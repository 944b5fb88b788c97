/* inside.h - the inside of the runtime, for the files of this folder.
 *
 * A kr_context is one context's: its buffers, its counters, the memory its schedules work in; used by one thread at a
 * time. A kn_runtime is what contexts may share: schedules, compiled kernels, the threads. Its members are guarded by
 * its lock; a schedule that has been given out changes no more. */
#ifndef KN_RUNTIME_INSIDE_H
#define KN_RUNTIME_INSIDE_H

#include "device/cc.h"
#include "device/disk.h"
#include "device/native.h"
#include "lower/pipeline.h"
#include "runtime/runtime.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct kr_buffer {
    int64_t slot, size;
    int     dtype;
    bool    owned, live;
    void   *block; /* what was allocated; data is aligned within it */
    void   *data;
    size_t  bytes;
    kd_map  map; /* a file's; base NULL: none */
    uint64_t stamp; /* of its contents, of no other's: a new one whenever they may change. 0: they change unseen */
} kr_buffer;

typedef struct kr_schedule {
    uint64_t        key;
    size_t          id;        /* counted up, never reused: kr_context.room[id] */
    kt_choice       target;
    bool            interpret; /* lowered for the interpreter, not compiled */
    kn_str          opts;      /* kr_context.hand_key of who made it */
    bool            ready;     /* false: someone is at it, and only he looks at p */
    kl_program      p;         /* p.g is the key in full */
    pthread_mutex_t turn;      /* the interpreter's: graphs keep what they derive */
} kr_schedule;

struct kn_runtime {
    kn_alloc        alloc; /* the host's, or the C library's; called from every context's thread */
    const kn_alloc *a;
    kn_str          cache_dir, cc_name;
    int             threads;
    kn_machine      machine; /* of kr_machine; the host's has no name until the first program is lowered */
    atomic_int      users; /* who made it, and contexts */
    pthread_mutex_t lock;  /* of all below */
    pthread_cond_t  settled; /* a schedule has become ready, or is gone */
    kr_schedule   **schedule;
    size_t          nschedule, schedule_cap, next_id;
    kd_cc          *cc;   /* has a lock of its own */
    kd_native      *native; /* machine code of targets that make it */
    kn_pool        *pool;
    pthread_mutex_t running; /* held by who runs in the pool: another context's kernel stays in its own thread */
};

/* What stands behind a PARAM: an int64_t where that is a variable. */
typedef struct kr_place {
    void    *data;
    uint64_t stamp; /* kr_buffer's, or 0 */
} kr_place;

typedef struct kr_room { /* what a context's runs of one schedule work in */
    void    *block, *temp, **bufs; /* bufs, vars, arrays: room for the arguments of any of its kernels */
    int64_t *vars;
    kn_custom_array *arrays;
    size_t   temp_bytes, nbufs;
    bool     made;
    kr_place *kept; /* per temporary: what stood behind the PARAM that the panel in it was copied from */
    size_t   nkept;
} kr_room;

typedef struct kr_custom {
    char          name[64];
    kn_custom_def def;
} kr_custom;

struct kr_context {
    kn_alloc      alloc; /* the host's, or the C library's */
    const kn_alloc *a;
    kn_config     cfg;
    kn_runtime   *shared;
    kn_str        device;
    kt_choice     target;
    bool          interpret, idle; /* idle: NULL, which compiles kernels and calls none */
    kr_buffer    *buffer; /* ascending slots */
    size_t        nbuffer, buffer_cap, dead;
    int64_t       next_slot;
    kr_room      *room;
    size_t        room_cap;
    atomic_int    cancelled;
    uint64_t      stamp; /* the last one given */
    kl_hand      *hand; /* options.c: options by kernel name */
    size_t        nhand, hand_cap;
    kn_str        hand_key;
    uint64_t      hand_version;
    kr_custom    *custom; /* custom.c: functions by name */
    size_t        ncustom, custom_cap;
    kn_stats      stats;
};

kr_buffer *kr_find(kr_context *rt, int64_t slot);
/* A schedule for a callified program, whose allocator is the shared runtime's, from the cache or lowered and compiled;
 * takes p over in either case. */
kr_schedule *kr_schedule_get(kr_context *rt, kl_program *p, kn_fault *f);
void         kr_schedule_free(kn_runtime *shared, kr_schedule *s);
/* Run it: at[k] stands behind PARAM k. */
bool kr_schedule_run(kr_context *rt, kr_schedule *s, const kr_place *at, kn_fault *f);
/* A place in a buffer, `offset` bytes from its start, to be written or only read. False: released, or out of memory. */
bool kr_buffer_at(kr_context *rt, int64_t slot, int64_t offset, bool write, kr_place *at, kn_fault *f);
/* A kernel that is a function of the host; room for its arguments. */
bool kr_call_custom(kr_context *rt, const kl_kernel *k, void *const *bufs, kn_custom_array *room, kn_fault *f);
void kr_forget_opts(kr_context *rt);
void kr_room_free(kr_context *rt, kr_room *room);
void *kr_aligned(const kn_alloc *a, size_t bytes, void **block); /* zeroed */
void  kr_aligned_free(const kn_alloc *a, void *block, size_t bytes);

/* What kernels are shaped for. The CPU is asked when there is something to lower: opening asks nothing. */
const kn_machine *kr_machine(kn_runtime *shared);
/* The compiler, made at its first use. NULL on failure. */
kd_cc *kr_compiler(kn_runtime *shared, kn_fault *f);
/* Machine code to where it runs from: fn of every kernel of p, or a fault and nothing. And away with it. */
bool kr_load_code(kn_runtime *shared, kl_program *p, void (*warn)(void *user, const char *line), void *user,
                  kn_fault *f);
void kr_unload_code(kn_runtime *shared, kl_program *p);
/* fn(arg, lo, hi) over a partition of 0..n, in the pool if no other context is in it; false: f is set. */
bool kr_share_out(kn_runtime *shared, int64_t n, kn_pool_fn fn, void *arg, kn_fault *f);

#endif
