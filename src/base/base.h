/* base.h - what every other folder stands on: memory, strings, faults, the operating system, threads.
 *
 * Contract: nothing here knows what a tensor is. Nothing here keeps state of its own; memory comes from the
 * kn_alloc a caller hands in, and a failed allocation is a return value, never an abort. */
#ifndef KN_BASE_H
#define KN_BASE_H

#ifndef KN_NO_CALLSITE
#define KN_NO_CALLSITE /* the library defines these functions, and its own calls are not the user's lines */
#endif
#include "koine.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define KN_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define KN_UNUSED __attribute__((unused))
#define KN_RARE __attribute__((noinline, cold)) /* what hardly ever runs stays out of what always does */
#else
#define KN_PRINTF(f, a)
#define KN_UNUSED
#define KN_RARE
#endif
#define KN_COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define KN_MIN(a, b) ((a) < (b) ? (a) : (b))
#define KN_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- memory ------------------------------------------------------------------------------------------------- */

/* The one allocator interface. kn_realloc(a, NULL, 0, n) allocates, kn_realloc(a, p, n, 0) frees. `old` is the size
 * given before. NULL means out of memory (or size 0). A NULL kn_alloc* is the C library's. */
typedef struct kn_alloc {
    void *(*resize)(void *user, void *ptr, size_t old_size, size_t new_size);
    void *user;
} kn_alloc;

void *kn_realloc(const kn_alloc *a, void *ptr, size_t old_size, size_t new_size);
void *kn_zalloc(const kn_alloc *a, size_t size);
void  kn_free(const kn_alloc *a, void *ptr, size_t size);

/* Grow `*ptr` (elements of `elem` bytes) so that it holds at least `need` elements; doubles. False: out of memory, and
 * the old block is untouched. */
bool kn_grow(const kn_alloc *a, void **ptr, size_t *cap, size_t need, size_t elem);
#define KN_GROW(a, p, cap, need) kn_grow((a), (void **)&(p), &(cap), (need), sizeof(*(p)))

/* A large page of x86-64 and of AArch64. Whole ones of a block of the C library's are asked of the operating system:
 * 2 MB touched first are one page fault then, not 512. */
#define KN_LARGE_PAGE ((size_t)2 << 20)

/* Arena: allocations that die together. Blocks double; memory is 16-byte aligned and not zeroed. */
typedef struct kn_arena {
    const kn_alloc        *alloc;
    struct kn_arena_block *block;
    size_t                 used, next_size;
} kn_arena;

void  kn_arena_init(kn_arena *ar, const kn_alloc *a);
void *kn_arena_get(kn_arena *ar, size_t size); /* NULL: out of memory */
void *kn_arena_copy(kn_arena *ar, const void *data, size_t size);
void  kn_arena_free(kn_arena *ar);

/* Checked arithmetic on sizes: false on overflow, *r untouched. */
static inline bool kn_mul_ok(int64_t a, int64_t b, int64_t *r) {
    int64_t t;
    if (__builtin_mul_overflow(a, b, &t)) return false;
    *r = t;
    return true;
}
static inline bool kn_add_ok(int64_t a, int64_t b, int64_t *r) {
    int64_t t;
    if (__builtin_add_overflow(a, b, &t)) return false;
    *r = t;
    return true;
}
/* The same, saturating at the ends of int64. */
int64_t kn_sat_add(int64_t a, int64_t b);
int64_t kn_sat_mul(int64_t a, int64_t b);
int64_t kn_gcd(int64_t a, int64_t b); /* of their magnitudes; 0 of two 0 */
/* The largest power of two that is not above n; n below 1: as it is. */
static inline int64_t kn_pow2_within(int64_t n) {
    while (n > 0 && n & (n - 1)) n &= n - 1;
    return n;
}
/* Division that rounds towards minus infinity; x / 0 = 0 and x mod 0 = x, as the dialect says. */
int64_t kn_floor_div(int64_t a, int64_t b);
int64_t kn_floor_mod(int64_t a, int64_t b);

/* An array of so many bytes begins at a multiple of this. Large ones are at one place or 1 KB and more apart within
 * 4 KB: a processor takes a load for one of what a store before it writes when their lowest 12 bits agree, and loops
 * load what lies a few lines behind what they stored. */
static inline size_t kn_array_align(size_t bytes) {
    return bytes < 16384 ? 128 : 1024;
}

/* For tables, which compare; in a hostile build it says next to nothing. */
uint64_t kn_hash(const void *data, size_t size, uint64_t seed);
/* For what was written and is read again: tells accidents, not attacks. */
uint64_t kn_checksum(const void *data, size_t size);

/* ---- strings ------------------------------------------------------------------------------------------------ */

/* A growing text. After a failed allocation `failed` stays set and further writes do nothing. Always 0-terminated
 * once something was written; kn_str_c gives "" before. */
typedef struct kn_str {
    const kn_alloc *alloc;
    char           *data;
    size_t          len, cap;
    bool            failed;
} kn_str;

void        kn_str_init(kn_str *s, const kn_alloc *a);
void        kn_str_free(kn_str *s);
void        kn_str_clear(kn_str *s);
void        kn_str_add(kn_str *s, const char *data, size_t len);
void        kn_str_puts(kn_str *s, const char *text);
void        kn_str_putf(kn_str *s, const char *fmt, ...) KN_PRINTF(2, 3);
void        kn_str_vputf(kn_str *s, const char *fmt, va_list ap);
const char *kn_str_c(const kn_str *s);

/* A double in the shortest decimal form that strtod reads back to the same bits (float: to the same float), in the C
 * locale whatever the host's is; always with a point or an exponent ("2.0", "1e30"), or "inf", "-inf", "nan". `out`
 * takes at least 40 bytes. */
void   kn_double_text(char *out, double v, bool is_float);
/* For messages: the same without a ".0", in a text of the caller's block: kn_fail(f, ..., "%s", KN_NUM(0.5)). */
const char *kn_num(char *out, double v);
#define KN_NUM(v) kn_num((char[40]){0}, (v))
double kn_text_double(const char *s, char **end); /* strtod in the C locale, of decimal numbers */

/* ---- faults ------------------------------------------------------------------------------------------------- */

/* The first thing that went wrong. Functions that can fail take a kn_fault* (never NULL) and return false, NULL or 0;
 * kn_fail keeps the first fault and ignores later ones. */
typedef struct kn_fault {
    kn_status code;
    char      text[488];
} kn_fault;

bool kn_fail(kn_fault *f, kn_status code, const char *fmt, ...) KN_PRINTF(3, 4); /* always returns false */
bool kn_vfail(kn_fault *f, kn_status code, const char *fmt, va_list ap);
bool kn_oom(kn_fault *f);

/* ---- operating system (os.c) -------------------------------------------------------------------------------- */

double kn_now(void);                 /* seconds, monotonic */
void   kn_advise_large_pages(void *p, size_t size); /* advice: small ones where there are none */
int    kn_cpu_count(void);           /* CPUs this process may use: affinity and cgroup v1/v2 quota respected, >= 1 */
/* The cgroup part of it, for tests: whole CPUs by the quotas that `proc_cgroup` (/proc/self/cgroup) leads to below
 * `root` (/sys/fs/cgroup); 0: no quota. */
int    kn_quota_cpus(const char *proc_cgroup, const char *root);
size_t kn_peak_memory(void);         /* bytes resident at most so far */
/* Whole file into *data (0-terminated behind *size; kn_free(a, *data, *size + 1)). KN_ERR_IO with path and reason. */
bool kn_read_file(const kn_alloc *a, const char *path, char **data, size_t *size, kn_fault *f);
/* Written beside `path`, or what it links to, to a temporary and renamed: whole or not at all; a device or a pipe is
 * written into. mode as for open(2). */
bool kn_write_file(const char *path, const void *data, size_t size, int mode, kn_fault *f);
/* Create `path` and its parents; the last folder gets mode 0700. Fails if it exists and is not ours or is writable by
 * others. */
bool kn_make_private_dir(const char *path, kn_fault *f);
/* Run argv[0] (searched in PATH) with stdin and stdout from /dev/null and stderr into a temporary file; does not wait.
 * Returns a job number (pid) or -1. */
typedef struct kn_job {
    long pid;
    int  err_fd;
} kn_job;
bool kn_spawn(const char *const *argv, kn_job *job, kn_fault *f);
/* Wait; *exit_code is the status (128 + signal when killed). Up to `cap` bytes of its stderr into `err`, ended by 0. */
bool kn_wait(kn_job *job, int *exit_code, char *err, size_t cap, kn_fault *f);

/* ---- threads (pool.c) --------------------------------------------------------------------------------------- */

/* A pool that runs fn(arg, lo, hi) over a partition of 0..n. Threads start at the first kn_pool_run that wants them,
 * spin shortly for work, then sleep on a futex (elsewhere: a condition variable), and are joined by kn_pool_free. The
 * calling thread works too. The partition is contiguous and may differ from run to run: fn's result must not depend on
 * it. One kn_pool_run at a time. */
typedef struct kn_pool kn_pool;
typedef void (*kn_pool_fn)(void *arg, int64_t lo, int64_t hi);

kn_pool *kn_pool_new(const kn_alloc *a, int threads, kn_fault *f); /* threads >= 1; 1 never starts any */
void     kn_pool_run(kn_pool *p, int64_t n, kn_pool_fn fn, void *arg);
int      kn_pool_threads(const kn_pool *p);
void     kn_pool_free(kn_pool *p);

#endif
