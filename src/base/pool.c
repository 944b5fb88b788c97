/* pool.c - runs a function over a partition of a range on several threads.
 *
 * A run is cut into parts. Which part is next stands in one word, `claim`, with the number of the run and the count of
 * parts: whoever takes a part, worker or caller, does so by one compare-and-swap, so a worker that wakes late finds
 * another run's number and touches nothing. The caller takes parts too and waits only for those that a worker has
 * begun; if no worker is there (none could be started, or this is the child after a fork) it does them all.
 *
 * Sleeping: a worker announces itself in `sleepers`, then waits while `ticket` has the value it saw; the caller
 * changes `ticket`, then looks at `sleepers`. Both are sequentially consistent, so one sees the other. The wait for
 * `done` is the same with `waiting`. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#else
#include <sched.h>
#endif

enum { POOL_MAX = 1024 };

/* claim: run number in the high half, then 16 bits of parts, 16 bits of the next part to take */
#define POOL_NEXT(c) ((uint32_t)(c) & 0xffff)
#define POOL_PARTS(c) ((uint32_t)(c) >> 16)
#define POOL_RUN(c) ((uint32_t)((c) >> 32))

struct kn_pool {
    const kn_alloc *alloc;
    int             threads; /* that may work on a run, the caller among them */
    int             started; /* workers there are; -1: none tried yet */
    pid_t           owner;   /* the process that started them */

    /* Written by the caller before it publishes `claim`; read by whoever has taken a part. */
    kn_pool_fn fn;
    void      *arg;
    int64_t    n;

    _Alignas(64) _Atomic uint64_t claim;
    _Atomic uint32_t ticket, sleepers;
    _Atomic bool     stop;
    _Alignas(64) _Atomic uint32_t done;
    _Atomic uint32_t waiting;
#ifndef __linux__
    pthread_mutex_t lock;
    pthread_cond_t  woken;
#endif
    pthread_t worker[];
};

/* ---- waiting ------------------------------------------------------------------------------------------------- */

#ifdef __linux__
static void pool_sleep(kn_pool *p, _Atomic uint32_t *word, uint32_t value) {
    (void)p;
    syscall(SYS_futex, (void *)word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void pool_wake(kn_pool *p, _Atomic uint32_t *word, uint32_t count) {
    (void)p;
    syscall(SYS_futex, (void *)word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
#else
static void pool_sleep(kn_pool *p, _Atomic uint32_t *word, uint32_t value) {
    pthread_mutex_lock(&p->lock);
    while (atomic_load(word) == value) pthread_cond_wait(&p->woken, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void pool_wake(kn_pool *p, _Atomic uint32_t *word, uint32_t count) {
    (void)word;
    (void)count;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->woken);
    pthread_mutex_unlock(&p->lock);
}
#endif

static void pool_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#else
    sched_yield();
#endif
}

/* Wait up to about 20 microseconds for the word to leave `value`, which covers the gap between two kernels. */
static bool pool_spin(_Atomic uint32_t *word, uint32_t value) {
    double until = 0;
    for (int i = 0;; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
        pool_pause();
        if (i % 32 != 31) continue;
        double now = kn_now();
        if (until == 0)
            until = now + 20e-6;
        else if (now > until)
            return false;
    }
}

/* ---- work ---------------------------------------------------------------------------------------------------- */

/* Take and do parts of run `run` until none is left. */
static void pool_work(kn_pool *p, uint32_t run) {
    uint64_t c = atomic_load(&p->claim);
    for (;;) {
        uint32_t i = POOL_NEXT(c), parts = POOL_PARTS(c);
        if (POOL_RUN(c) != run || i >= parts) return;
        if (!atomic_compare_exchange_weak(&p->claim, &c, c + 1)) continue;
        int64_t step = p->n / parts, rest = p->n % parts;
        int64_t lo = step * i + KN_MIN((int64_t)i, rest);
        p->fn(p->arg, lo, lo + step + (i < rest));
        /* After the last part is counted the caller may return, and only the atomics outlive the run. */
        if (atomic_fetch_add(&p->done, 1) + 1 == parts && atomic_load(&p->waiting)) pool_wake(p, &p->done, 1);
        c = atomic_load(&p->claim);
    }
}

static void *pool_main(void *arg) {
    kn_pool *p = arg;
    for (;;) {
        uint32_t ticket = atomic_load(&p->ticket);
        if (atomic_load(&p->stop)) return NULL;
        pool_work(p, POOL_RUN(atomic_load(&p->claim)));
        if (pool_spin(&p->ticket, ticket)) continue;
        atomic_fetch_add(&p->sleepers, 1);
        pool_sleep(p, &p->ticket, ticket);
        atomic_fetch_sub(&p->sleepers, 1);
    }
}

/* Start the workers, as many as can be had. They take no signals: those are the host's. */
static void pool_start(kn_pool *p) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    p->started = 0;
    p->owner   = getpid();
    while (p->started < p->threads - 1) {
        if (pthread_create(&p->worker[p->started], NULL, pool_main, p) != 0) break;
        p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void pool_announce(kn_pool *p, uint32_t count) {
    atomic_fetch_add(&p->ticket, 1);
    uint32_t asleep = atomic_load(&p->sleepers);
    if (asleep) pool_wake(p, &p->ticket, KN_MIN(asleep, count));
}

void kn_pool_run(kn_pool *p, int64_t n, kn_pool_fn fn, void *arg) {
    if (n <= 0) return;
    if (p->started < 0 && n > 1 && p->threads > 1) pool_start(p);
    if (n == 1 || p->started <= 0) {
        fn(arg, 0, n);
        return;
    }
    uint32_t parts = (uint32_t)KN_MIN(n, (int64_t)p->started + 1);
    uint32_t run   = POOL_RUN(atomic_load(&p->claim)) + 1;
    p->fn          = fn;
    p->arg         = arg;
    p->n           = n;
    atomic_store(&p->done, 0);
    atomic_store(&p->claim, (uint64_t)run << 32 | (uint64_t)parts << 16);
    pool_announce(p, parts - 1);
    pool_work(p, run);
    for (uint32_t done; (done = atomic_load(&p->done)) != parts;) {
        if (pool_spin(&p->done, done)) continue;
        atomic_store(&p->waiting, 1);
        if (atomic_load(&p->done) == done) pool_sleep(p, &p->done, done);
        atomic_store(&p->waiting, 0);
    }
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static size_t pool_size(int threads) {
    size_t size = sizeof(kn_pool) + (size_t)(threads - 1) * sizeof(pthread_t);
    return (size + 63) / 64 * 64 + 64;
}

/* The block is over-allocated and its start kept, since an allocator promises no more than 16 bytes. */
typedef struct pool_block {
    void  *block;
    size_t size;
} pool_block;

kn_pool *kn_pool_new(const kn_alloc *a, int threads, kn_fault *f) {
    if (threads < 1) {
        kn_fail(f, KN_ERR_ARG, "a pool of %d threads: give at least 1", threads);
        return NULL;
    }
    threads     = KN_MIN(threads, POOL_MAX);
    size_t size = pool_size(threads) + 64;
    char  *raw  = kn_zalloc(a, size);
    if (!raw) {
        kn_oom(f);
        return NULL;
    }
    kn_pool *p = (kn_pool *)(((uintptr_t)raw + sizeof(pool_block) + 63) & ~(uintptr_t)63);
    ((pool_block *)p)[-1] = (pool_block){raw, size};
    p->alloc   = a;
    p->threads = threads;
    p->started = -1;
#ifndef __linux__
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->woken, NULL);
#endif
    return p;
}

int kn_pool_threads(const kn_pool *p) {
    return p->threads;
}

void kn_pool_free(kn_pool *p) {
    if (!p) return;
    if (p->started > 0 && p->owner == getpid()) {
        atomic_store(&p->stop, true);
        pool_announce(p, (uint32_t)p->started);
        for (int i = 0; i < p->started; i++) pthread_join(p->worker[i], NULL);
    }
#ifndef __linux__
    pthread_cond_destroy(&p->woken);
    pthread_mutex_destroy(&p->lock);
#endif
    pool_block b = ((pool_block *)p)[-1];
    kn_free(p->alloc, b.block, b.size);
}

#undef POOL_NEXT
#undef POOL_PARTS
#undef POOL_RUN
