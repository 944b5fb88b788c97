/* failing.h - an allocator that gives out what mem.left says and counts what is live: each allocation of something can
 * fail in turn. */
#ifndef KN_TEST_FAILING_H
#define KN_TEST_FAILING_H

#include <stdint.h>
#include <stdlib.h>

static struct { int64_t left, live; } mem;

static void *failing(void *user, void *p, size_t old_size, size_t size) {
    (void)user;
    (void)old_size;
    if (!size) {
        if (p) mem.live--;
        free(p);
        return NULL;
    }
    if (mem.left-- <= 0) return NULL;
    void *q = realloc(p, size);
    if (q && !p) mem.live++;
    return q;
}

#endif
