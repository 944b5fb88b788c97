/* The thread pool: every index exactly once, whatever the threads, the sizes and the timing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"
#include "check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct job {
    _Atomic int  seen[5000];
    _Atomic long sum;
    _Atomic int  parts;
} job;

static void count(void *arg, int64_t lo, int64_t hi) {
    job *j = arg;
    for (int64_t i = lo; i < hi; i++) {
        atomic_fetch_add_explicit(&j->seen[i], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&j->sum, (long)i, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&j->parts, 1, memory_order_relaxed);
}

static void test_partition(void) {
    static job j;
    kn_fault   f = {0};
    for (int threads = 1; threads <= 5; threads++) {
        kn_pool *p = kn_pool_new(NULL, threads, &f);
        if (!CHECK(p)) return;
        CHECK_EQ(kn_pool_threads(p), threads);
        static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 64, 4999, 5000};
        for (int k = 0; k < KN_COUNT(sizes); k++) {
            memset(&j, 0, sizeof j);
            kn_pool_run(p, sizes[k], count, &j);
            for (int64_t i = 0; i < 5000; i++) CHECK(j.seen[i] == (i < sizes[k]));
            CHECK(j.parts <= threads && j.parts <= sizes[k]);
        }
        kn_pool_free(p);
    }
    kn_pool_free(NULL);
    CHECK(!kn_pool_new(NULL, 0, &f) && f.code == KN_ERR_ARG);
}

/* Plain stores of one run must be seen by the next and by the caller: the race detector judges this one. */
typedef struct chain {
    int64_t *a, *b;
} chain;

static void add_one(void *arg, int64_t lo, int64_t hi) {
    chain *c = arg;
    for (int64_t i = lo; i < hi; i++) c->b[i] = c->a[63 - i] + 1;
}

static void test_many_short_runs(void) {
    kn_fault f = {0};
    for (int threads = 1; threads <= 4; threads++) {
        kn_pool *p = kn_pool_new(NULL, threads, &f);
        if (!CHECK(p)) return;
        int64_t a[64] = {0}, b[64] = {0};
        for (int run = 0; run < 5000; run++) {
            chain c = {run % 2 ? b : a, run % 2 ? a : b};
            kn_pool_run(p, 64, add_one, &c);
            if (run % 1000 == 999) usleep(2000); /* long enough for the workers to fall asleep */
        }
        for (int i = 0; i < 64; i++) CHECK_EQ(a[i], 5000);
        kn_pool_free(p);
    }
}

static int tasks_of_process(void) {
#ifdef __linux__
    char     path[64], *text;
    size_t   size;
    kn_fault f = {0};
    snprintf(path, sizeof path, "/proc/self/status");
    if (!kn_read_file(NULL, path, &text, &size, &f)) return -1;
    char *at = strstr(text, "Threads:");
    int   n  = at ? atoi(at + 8) : -1;
    kn_free(NULL, text, size + 1);
    return n;
#else
    return -1;
#endif
}

static void test_lazy_start(void) {
    static job j;
    kn_fault   f      = {0};
    int        before = tasks_of_process();
    kn_pool   *p      = kn_pool_new(NULL, 3, &f);
    if (!CHECK(p)) return;
    kn_pool_run(p, 1, count, &j);
    CHECK_EQ(tasks_of_process(), before);
    kn_pool_run(p, 2, count, &j);
    if (before > 0) CHECK_EQ(tasks_of_process(), before + 2);
    kn_pool_free(p);
    CHECK_EQ(tasks_of_process(), before);
}

/* After a fork the child has no workers; its runs and its free must still end. */
static void test_fork(void) {
#if defined(__SANITIZE_THREAD__)
    printf("     (left out: fork with threads under the race detector)\n");
#else
    static job j;
    kn_fault   f = {0};
    kn_pool   *p = kn_pool_new(NULL, 3, &f);
    if (!CHECK(p)) return;
    kn_pool_run(p, 100, count, &j);
    pid_t child = fork();
    if (child == 0) {
        memset(&j, 0, sizeof j);
        kn_pool_run(p, 100, count, &j);
        bool ok = j.sum == 4950;
        kn_pool_free(p);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    kn_pool_free(p);
#endif
}

int main(void) {
    RUN(test_partition);
    RUN(test_many_short_runs);
    RUN(test_lazy_start);
    RUN(test_fork);
    return check_result();
}
