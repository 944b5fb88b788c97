/* base.c - memory, checked arithmetic, hashing and faults.
 *
 * Contract: base.h. Sizes given to an allocator's resize are those its caller asked for, so that an allocator may
 * count; size 0 never reaches it as a request. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* ---- the allocator ------------------------------------------------------------------------------------------- */

/* A block of the C library's; of less than two large pages it seldom holds a whole one. */
static void *advised(void *p, size_t size) {
    if (p && size >= 2 * KN_LARGE_PAGE) kn_advise_large_pages(p, size);
    return p;
}

void *kn_realloc(const kn_alloc *a, void *ptr, size_t old_size, size_t new_size) {
    if (new_size > PTRDIFF_MAX) return NULL;
    if (!ptr && !new_size) return NULL;
    if (a && a->resize) return a->resize(a->user, ptr, ptr ? old_size : 0, new_size);
    if (!new_size) {
        free(ptr);
        return NULL;
    }
    return advised(realloc(ptr, new_size), new_size);
}

void *kn_zalloc(const kn_alloc *a, size_t size) {
    if (!(a && a->resize) && size && size <= PTRDIFF_MAX) return advised(calloc(1, size), size); /* fresh pages are 0 */
    void *p = kn_realloc(a, NULL, 0, size);
    if (p) memset(p, 0, size);
    return p;
}

void kn_free(const kn_alloc *a, void *ptr, size_t size) {
    if (ptr) (void)kn_realloc(a, ptr, size, 0);
}

bool kn_grow(const kn_alloc *a, void **ptr, size_t *cap, size_t need, size_t elem) {
    if (need <= *cap) return true;
#if KN_HOSTILE
    size_t n = need; /* every push moves the block: a stale pointer shows at once */
#else
    size_t n = *cap ? *cap : 8;
    while (n < need) {
        if (n > SIZE_MAX / 2) return false;
        n *= 2;
    }
#endif
    if (n > PTRDIFF_MAX / elem) return false;
    void *p = kn_realloc(a, *ptr, *cap * elem, n * elem);
    if (!p) return false;
    *ptr = p;
    *cap = n;
    return true;
}

/* ---- arena --------------------------------------------------------------------------------------------------- */

typedef struct kn_arena_block {
    struct kn_arena_block *prev;
    size_t                 size; /* of the whole block, this header included */
} arena_block;

enum {
#if KN_HOSTILE
    ARENA_FIRST = 64,
    ARENA_LAST  = 64,
#else
    ARENA_FIRST = 4096,
    ARENA_LAST  = 4 << 20,
#endif
    ARENA_ALIGN = 16
};

void kn_arena_init(kn_arena *ar, const kn_alloc *a) {
    *ar = (kn_arena){.alloc = a, .next_size = ARENA_FIRST};
}

/* Offset in the block of the first aligned byte at or behind `used`; the allocator need not align to 16 itself. */
static size_t arena_offset(const arena_block *b, size_t used) {
    uintptr_t at = (uintptr_t)b + used;
    return used + (size_t)(-at & (ARENA_ALIGN - 1));
}

/* From half a large page on a block of the C library's is whole ones. */
static arena_block *new_block(const kn_alloc *a, size_t want) {
    arena_block *n = NULL;
    if ((a && a->resize) || want <= KN_LARGE_PAGE / 2) {
        n = kn_realloc(a, NULL, 0, want);
    } else {
        want = (want + KN_LARGE_PAGE - 1) / KN_LARGE_PAGE * KN_LARGE_PAGE;
        n    = aligned_alloc(KN_LARGE_PAGE, want);
        if (n) kn_advise_large_pages(n, want);
    }
    if (n) n->size = want;
    return n;
}

void *kn_arena_get(kn_arena *ar, size_t size) {
    if (size > PTRDIFF_MAX / 2) return NULL;
    if (!size) size = 1;
    arena_block *b = ar->block;
    if (b) {
        size_t at = arena_offset(b, ar->used);
        if (at <= b->size && size <= b->size - at) {
            ar->used = at + size;
            return (char *)b + at;
        }
    }
    size_t want = size + sizeof(arena_block) + ARENA_ALIGN;
    if (want < ar->next_size) want = ar->next_size;
    arena_block *n = new_block(ar->alloc, want);
    if (!n) return NULL;
    n->prev   = b;
    ar->block = n;
    if (ar->next_size < ARENA_LAST) ar->next_size *= 2;
    size_t at = arena_offset(n, sizeof(arena_block));
    ar->used = at + size;
    return (char *)n + at;
}

void *kn_arena_copy(kn_arena *ar, const void *data, size_t size) {
    void *p = kn_arena_get(ar, size);
    if (p && size) memcpy(p, data, size);
    return p;
}

void kn_arena_free(kn_arena *ar) {
    for (arena_block *b = ar->block; b;) {
        arena_block *prev = b->prev;
        kn_free(ar->alloc, b, b->size);
        b = prev;
    }
    kn_arena_init(ar, ar->alloc);
}

/* ---- arithmetic ---------------------------------------------------------------------------------------------- */

int64_t kn_sat_add(int64_t a, int64_t b) {
    int64_t r;
    if (kn_add_ok(a, b, &r)) return r;
    return b < 0 ? INT64_MIN : INT64_MAX;
}

int64_t kn_sat_mul(int64_t a, int64_t b) {
    int64_t r;
    if (kn_mul_ok(a, b, &r)) return r;
    return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

int64_t kn_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x             = y;
        y             = rest;
    }
    return (int64_t)x;
}

int64_t kn_floor_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return a == INT64_MIN ? INT64_MIN : -a; /* wraps, like every integer op */
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t kn_floor_mod(int64_t a, int64_t b) {
    if (b == 0) return a;
    if (b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* ---- hash ---------------------------------------------------------------------------------------------------- */

/* Multiply and fold: each step is a bijection of h for a fixed word, so short keys never collide by themselves. The
 * constants are odd, with about half of their bits set. Quick rather than keyed: every table compares exactly. */
static uint64_t hash_mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

static uint64_t hash_bytes(const void *data, size_t size, uint64_t seed) {
    const unsigned char *p = data;
    uint64_t             h = seed ^ (uint64_t)size * UINT64_C(0xd1b54a32d192ed03);
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = hash_mix(h, w);
    }
    if (size) {
        uint64_t w = 0;
        memcpy(&w, p, size);
        h = hash_mix(h, w);
    }
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ (h >> 32);
}

uint64_t kn_hash(const void *data, size_t size, uint64_t seed) {
#if KN_HOSTILE
    return hash_bytes(data, size, seed) & 1; /* nearly every lookup meets a collision */
#else
    return hash_bytes(data, size, seed);
#endif
}

uint64_t kn_checksum(const void *data, size_t size) {
    return hash_bytes(data, size, 1);
}

/* ---- faults -------------------------------------------------------------------------------------------------- */

bool kn_vfail(kn_fault *f, kn_status code, const char *fmt, va_list ap) {
    if (f->code != KN_OK) return false;
    f->code = code;
    if (vsnprintf(f->text, sizeof f->text, fmt, ap) < 0) f->text[0] = 0;
    return false;
}

bool kn_fail(kn_fault *f, kn_status code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    kn_vfail(f, code, fmt, ap);
    va_end(ap);
    return false;
}

bool kn_oom(kn_fault *f) {
    return kn_fail(f, KN_ERR_MEMORY, "out of memory");
}
