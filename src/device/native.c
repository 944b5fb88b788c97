/* native.c - the arena that machine code runs from. Contract: native.h.
 *
 * Memory comes from the system in chunks of pages; a batch gets a run of whole pages. A page counts the functions on
 * it and is free at zero. Pages: none -> writable -> executable -> none, each by mprotect; what is free cannot be
 * touched, so a call of code that is gone faults at once. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "device/native.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KD_CHUNK = 256 << 10, KD_ALIGN = 16 };

typedef struct kd_block {
    struct kd_block *next;
    uint8_t         *at;
    size_t           len;
    kd_debug_entry  *debug;
} kd_block;

typedef struct kd_chunk {
    struct kd_chunk *next;
    uint8_t         *base;
    size_t           pages;
    kd_block        *blocks;
    uint32_t         live[]; /* functions on each page */
} kd_chunk;

struct kd_native {
    const kn_alloc   *alloc;
    kd_native_options options;
    size_t            page;
    kd_chunk         *chunks;
    kd_native_stats   stats;
};

bool kd_native_env(kd_native_options *o, kn_fault *f) {
    const char *text = getenv("KOINE_JIT");
    *o               = (kd_native_options){.fill = 0};
    for (const char *at = text ? text : ""; *at;) {
        size_t n = strcspn(at, ", ");
        if (n == 4 && !strncmp(at, "perf", n))
            o->perf_map = true;
        else if (n == 3 && !strncmp(at, "gdb", n))
            o->debugger = true;
        else if (n)
            return kn_fail(f, KN_ERR_ARG, "KOINE_JIT: \"%.*s\" is unknown: it is a list of perf and gdb",
                           (int)KN_MIN(n, 100), at);
        at += n + (at[n] != 0);
    }
    return true;
}

kd_native *kd_native_new(const kn_alloc *a, const kd_native_options *o, kn_fault *f) {
    kd_native *n = kn_zalloc(a, sizeof *n);
    if (!n) return kn_oom(f), NULL;
    n->alloc = a;
    if (o) n->options = *o;
    n->page = (size_t)sysconf(_SC_PAGESIZE);
    return n;
}

/* ---- chunks -------------------------------------------------------------------------------------------------- */

static size_t chunk_size(size_t pages) {
    return sizeof(kd_chunk) + pages * sizeof(uint32_t);
}

static kd_chunk *chunk_new(kd_native *n, size_t pages, kn_fault *f) {
    pages       = KN_MAX(pages, KD_CHUNK / n->page);
    kd_chunk *c = kn_zalloc(n->alloc, chunk_size(pages));
    if (!c) return kn_oom(f), NULL;
    c->pages = pages;
    c->base  = mmap(NULL, pages * n->page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c->base == MAP_FAILED) {
        int reason = errno;
        kn_free(n->alloc, c, chunk_size(pages));
        kn_fail(f, reason == ENOMEM ? KN_ERR_MEMORY : KN_ERR_DEVICE, "memory for machine code: %zu bytes: %s",
                pages * n->page, strerror(reason));
        return NULL;
    }
    c->next   = n->chunks;
    n->chunks = c;
    n->stats.mapped += pages * n->page;
    return c;
}

static void chunk_free(kd_native *n, kd_chunk *c) {
    for (kd_block *b = c->blocks, *next; b; b = next) {
        next = b->next;
        kd_debug_withdraw(n->alloc, b->debug);
        kn_free(n->alloc, b, sizeof *b);
    }
    munmap(c->base, c->pages * n->page);
    n->stats.mapped -= c->pages * n->page;
    kn_free(n->alloc, c, chunk_size(c->pages));
}

void kd_native_free(kd_native *n) {
    if (!n) return;
    for (kd_chunk *c = n->chunks, *next; c; c = next) {
        next = c->next;
        chunk_free(n, c);
    }
    kn_free(n->alloc, n, sizeof *n);
}

/* A run of free pages; the first that fits. */
static kd_chunk *find_run(kd_native *n, size_t pages, size_t *first, kn_fault *f) {
    for (kd_chunk *c = n->chunks; c; c = c->next)
        for (size_t i = 0, run = 0; i < c->pages; i++) {
            run = c->live[i] ? 0 : run + 1;
            if (run == pages) {
                *first = i + 1 - pages;
                return c;
            }
        }
    *first = 0;
    return chunk_new(n, pages, f);
}

static bool protect(kd_native *n, uint8_t *at, size_t size, int how, kn_fault *f) {
    n->stats.protects++;
    if (mprotect(at, size, how) == 0) return true;
    if (how & PROT_EXEC)
        return kn_fail(f, KN_ERR_DEVICE, "executable memory: the system denies it: %s", strerror(errno));
    return kn_fail(f, errno == ENOMEM ? KN_ERR_MEMORY : KN_ERR_DEVICE, "memory for machine code: %s", strerror(errno));
}

/* ---- loading ------------------------------------------------------------------------------------------------- */

static uint32_t align_of(const kd_code *code) {
    return KN_MAX(code->align, KD_ALIGN);
}

/* Bytes of the batch when its first function starts on a page. */
static bool batch_size(const kd_native *n, const kd_code *code, int count, size_t *size, kn_fault *f) {
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        uint32_t to = align_of(&code[i]);
        if (to & (to - 1) || to > 4096 || !code[i].len || code[i].len > (size_t)1 << 30)
            return kn_fail(f, KN_ERR_INTERNAL, "machine code: %s: alignment %u, %zu bytes: report this", code[i].name,
                           to, code[i].len);
        at = ((at + to - 1) & ~(size_t)(to - 1)) + code[i].len;
        if (at > (size_t)1 << 31) return kn_fail(f, KN_ERR_MEMORY, "machine code: more than 2 GiB at once");
    }
    *size = (at + n->page - 1) / n->page * n->page;
    return true;
}

static void count_pages(kd_native *n, kd_chunk *c, const kd_block *b, int by) {
    size_t first = (size_t)(b->at - c->base) / n->page, last = (size_t)(b->at + b->len - 1 - c->base) / n->page;
    for (size_t i = first; i <= last; i++) {
        size_t before = c->live[i];
        c->live[i]    = (uint32_t)((int64_t)before + by);
        n->stats.pages += (size_t)(c->live[i] != 0) - (size_t)(before != 0);
    }
    n->stats.functions += (size_t)by;
    n->stats.bytes += by > 0 ? b->len : 0 - b->len;
}

/* Takes the newest `count` blocks of a chunk back. */
static void drop_blocks(kd_native *n, kd_chunk *c, int count) {
    while (count-- > 0) {
        kd_block *b = c->blocks;
        c->blocks   = b->next;
        count_pages(n, c, b, -1);
        kd_debug_withdraw(n->alloc, b->debug);
        kn_free(n->alloc, b, sizeof *b);
    }
}

bool kd_native_load(kd_native *n, kd_code *code, int count, void (*warn)(void *user, const char *line), void *user,
                    kn_fault *f) {
    size_t size = 0, first = 0;
    if (count <= 0) return true;
    if (!batch_size(n, code, count, &size, f)) return false;
    kd_chunk *c = find_run(n, size / n->page, &first, f);
    if (!c) return false;
    uint8_t *start = c->base + first * n->page, *at = start;
    int      made = 0;
    bool     ok   = protect(n, start, size, PROT_READ | PROT_WRITE, f);
    if (ok) memset(start, n->options.fill, size);
    for (; ok && made < count; made++) {
        uint32_t  to = align_of(&code[made]);
        kd_block *b  = kn_zalloc(n->alloc, sizeof *b);
        ok           = b || kn_oom(f);
        if (!ok) break;
        at        = start + (((size_t)(at - start) + to - 1) & ~(size_t)(to - 1));
        b->at     = at;
        b->len    = code[made].len;
        b->next   = c->blocks;
        c->blocks = b;
        memcpy(at, code[made].bytes, code[made].len);
        code[made].at = at;
        at += code[made].len;
        count_pages(n, c, b, 1);
    }
    ok          = ok && protect(n, start, size, PROT_READ | PROT_EXEC, f);
    kd_block *b = c->blocks; /* the last of the batch */
    for (int i = count - 1; ok && i >= 0 && n->options.debugger; i--, b = b->next)
        if (code[i].frame) ok = (b->debug = kd_debug_announce(n->alloc, &code[i], f)) != NULL;
    if (!ok) {
        drop_blocks(n, c, made);
        mprotect(start, size, PROT_NONE);
        for (int i = 0; i < count; i++) code[i].at = NULL;
        return false;
    }
    __builtin___clear_cache((char *)start, (char *)start + size);
    kn_fault note = {0};
    if (n->options.perf_map && !kd_debug_perf_map(code, count, &note) && warn) warn(user, note.text);
    return true;
}

void kd_native_unload(kd_native *n, void *at) {
    for (kd_chunk **link = &n->chunks; *link; link = &(*link)->next) {
        kd_chunk *c = *link;
        if ((uint8_t *)at < c->base || (uint8_t *)at >= c->base + c->pages * n->page) continue;
        for (kd_block **p = &c->blocks; *p; p = &(*p)->next) {
            kd_block *b = *p;
            if (b->at != at) continue;
            *p = b->next;
            count_pages(n, c, b, -1);
            size_t page = (size_t)(b->at - c->base) / n->page, last = (size_t)(b->at + b->len - 1 - c->base) / n->page;
            for (; page <= last; page++) /* what stays behind cannot be run, nor read */
                if (!c->live[page]) {
                    n->stats.protects++;
                    mprotect(c->base + page * n->page, n->page, PROT_NONE);
                }
            kd_debug_withdraw(n->alloc, b->debug);
            kn_free(n->alloc, b, sizeof *b);
            break;
        }
        if (c->blocks || !c->next) return; /* the last chunk stays, for what comes next */
        *link = c->next;
        chunk_free(n, c);
        return;
    }
}

kd_native_stats kd_native_stat(const kd_native *n) {
    return n->stats;
}
