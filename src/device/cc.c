/* cc.c - runs the system's C compiler on kernels.
 *
 * Contract: a kernel is known by the hash of its source, compared in full. What is not loaded yet goes into batches,
 * one compiler each, several running at once; a batch is one shared object, opened and kept until the kd_cc goes. How
 * kernels fall into batches does not depend on how many compilers may run, so that the cache of one host serves
 * another. With
 * a cache folder, a batch is found again by the hash of its text, the compiler's identity, its flags, the CPU's
 * features and the library's version. An entry is written whole (temporary, rename) with a checksum beside it; one that
 * does not match its checksum is built anew. Every object holds the text it was made of, and is used only for that
 * text: neither equal hashes nor a loader that takes a file's name for the file can bring in other kernels. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "device/cc.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

typedef struct kd_known {
    uint64_t key[2];
    char    *source;
    size_t   len;
    kd_fn    fn;
} kd_known;

struct kd_cc {
    const kn_alloc *alloc;
    kn_str          cc, dir, preamble, identity;
    kd_known       *known;
    size_t          nknown, known_cap;
    void          **handle;
    size_t          nhandle, handle_cap;
    bool            dir_ready;
    pthread_mutex_t lock; /* of all but what kd_cc_new made, which only the first compilation may yet change */
};

enum { KD_BATCH = 4 }; /* kernels: a compiler's start costs about a third of a kernel */

#define KD_TEXT "kn_text"

static const char *const cc_flags[] = {
    "-std=gnu17", "-O2", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fwrapv", "-fno-strict-aliasing",
#if defined(__x86_64__)
    "-mprefer-vector-width=512",
#endif
    "-shared", "-fPIC", "-w",
};

kd_cc *kd_cc_new(const kn_alloc *a, const char *cc, const char *cache_dir, const char *preamble, kn_fault *f) {
    kd_cc *c = kn_zalloc(a, sizeof *c);
    if (!c) return kn_oom(f), NULL;
    c->alloc = a;
    pthread_mutex_init(&c->lock, NULL);
    kn_str_init(&c->cc, a);
    kn_str_init(&c->dir, a);
    kn_str_init(&c->preamble, a);
    kn_str_init(&c->identity, a);
    const char *env = getenv("CC");
    if (!cc || !cc[strspn(cc, " ")]) cc = env && env[strspn(env, " ")] ? env : "cc";
    kn_str_puts(&c->cc, cc + strspn(cc, " "));
    kn_str_puts(&c->dir, cache_dir ? cache_dir : "");
    kn_str_puts(&c->preamble, preamble);
    if (!c->cc.failed && !c->dir.failed && !c->preamble.failed) return c;
    kd_cc_free(c);
    return kn_oom(f), NULL;
}

void kd_cc_free(kd_cc *c) {
    if (!c) return;
    for (size_t i = 0; i < c->nhandle; i++) dlclose(c->handle[i]);
    for (size_t i = 0; i < c->nknown; i++) kn_free(c->alloc, c->known[i].source, c->known[i].len + 1);
    kn_free(c->alloc, c->handle, c->handle_cap * sizeof *c->handle);
    kn_free(c->alloc, c->known, c->known_cap * sizeof *c->known);
    kn_str_free(&c->cc);
    kn_str_free(&c->dir);
    kn_str_free(&c->preamble);
    kn_str_free(&c->identity);
    pthread_mutex_destroy(&c->lock);
    kn_free(c->alloc, c, sizeof *c);
}

/* ---- keys ---------------------------------------------------------------------------------------------------- */

static bool find_in_path(const char *name, char *out, size_t cap, struct stat *st) {
    if (strchr(name, '/')) return snprintf(out, cap, "%s", name) < (int)cap && stat(out, st) == 0;
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/bin:/bin"; at;) {
        const char *end = strchr(at, ':');
        int         len = end ? (int)(end - at) : (int)strlen(at);
        if (snprintf(out, cap, "%.*s/%s", len, at, name) < (int)cap && stat(out, st) == 0 && !access(out, X_OK))
            return true;
        at = end ? end + 1 : NULL;
    }
    return false;
}

/* Compiler file, CPU and library: asked for once, and only when something is compiled. */
static bool identify(kd_cc *c, kn_fault *f) {
    if (c->identity.len) return true;
    char        word[256], file[4096];
    struct stat st;
    snprintf(word, sizeof word, "%.200s", kn_str_c(&c->cc));
    word[strcspn(word, " ")] = 0; /* "ccache gcc" and the like */
    if (!find_in_path(word, file, sizeof file, &st))
        return kn_fail(f, KN_ERR_COMPILE, "no C compiler: \"%s\" %s; install gcc or clang, or set CC", word,
                       strchr(word, '/') ? "does not exist" : "is not in PATH");
    kn_str_putf(&c->identity, "%s (%s) %lld %lld %s", file, kn_str_c(&c->cc), (long long)st.st_size,
                (long long)st.st_mtime, kn_version_text());
    for (int i = 0; i < KN_COUNT(cc_flags); i++) kn_str_putf(&c->identity, " %s", cc_flags[i]);
#if defined(__x86_64__) || defined(__i386__)
    for (unsigned leaf = 1; leaf <= 7; leaf += 6) {
        unsigned r[4] = {0};
        __get_cpuid_count(leaf, 0, &r[0], &r[1], &r[2], &r[3]);
        if (leaf == 1) r[1] &= 0xffff; /* the APIC id differs from core to core */
        kn_str_putf(&c->identity, " %x.%x.%x.%x", r[0], r[1], r[2], leaf == 1 ? r[3] : r[3] & ~0u);
    }
#endif
    return c->identity.failed ? kn_oom(f) : true;
}

static void content_key(const char *text, size_t len, uint64_t key[2]) {
    key[0] = kn_hash(text, len, 0x6b6f696e65ull);
    key[1] = kn_hash(text, len, key[0] ^ 0x9E3779B97F4A7C15ull);
}

static kd_known *known_as(kd_cc *c, const kd_unit *u) {
    for (size_t i = 0; i < c->nknown; i++) {
        kd_known *k = &c->known[i];
        if (k->key[0] == u->key[0] && k->key[1] == u->key[1] && k->len == u->len &&
            !memcmp(k->source, u->source, u->len))
            return k;
    }
    return NULL;
}

static bool same_source(const kd_unit *a, const kd_unit *b) {
    return a->key[0] == b->key[0] && a->key[1] == b->key[1] && a->len == b->len &&
           !memcmp(a->source, b->source, a->len);
}

/* ---- files --------------------------------------------------------------------------------------------------- */

static bool checksum_holds(kd_cc *c, const char *so) {
    kn_fault no = {0};
    char    *data, *sum, path[4200], want[64];
    size_t   size, sum_size;
    bool     ok = false;
    snprintf(path, sizeof path, "%s.sum", so);
    if (access(path, R_OK) || !kn_read_file(c->alloc, path, &sum, &sum_size, &no)) return false;
    if (kn_read_file(c->alloc, so, &data, &size, &no)) {
        snprintf(want, sizeof want, "%016llx %zu\n", (unsigned long long)kn_checksum(data, size), size);
        ok = sum_size == strlen(want) && !memcmp(sum, want, sum_size);
        kn_free(c->alloc, data, size + 1);
    }
    kn_free(c->alloc, sum, sum_size + 1);
    return ok;
}

/* Copy the finished object into the cache, its checksum first: an object without one is not used. */
static bool keep(kd_cc *c, const char *built, const char *so, kn_fault *f) {
    char  *data, path[4200], sum[64];
    size_t size;
    if (!kn_read_file(c->alloc, built, &data, &size, f)) return false;
    snprintf(path, sizeof path, "%s.sum", so);
    snprintf(sum, sizeof sum, "%016llx %zu\n", (unsigned long long)kn_checksum(data, size), size);
    bool ok = kn_write_file(path, sum, strlen(sum), 0600, f) && kn_write_file(so, data, size, 0700, f);
    kn_free(c->alloc, data, size + 1);
    return ok;
}

/* ---- batches ------------------------------------------------------------------------------------------------- */

typedef struct kd_batch {
    kd_unit **unit;
    int       n;
    kn_str    text;     /* what is compiled: text_len bytes, and the same once more as data */
    size_t    text_len;
    char      cached[4160], dir[4160];
    kn_job    job;
    bool      running, from_cache;
} kd_batch;

/* The text so far, as data of the object: KD_TEXT in it. */
static void embed_text(kn_str *s) {
    size_t len = s->len;
    kn_str_puts(s, "\nconst char " KD_TEXT "[] =\n\"");
    for (size_t i = 0; i < len && !s->failed; i++) {
        char ch = s->data[i];
        if (ch == '\n') {
            kn_str_puts(s, "\\n\"\n\"");
        } else {
            if (ch == '"' || ch == '\\') kn_str_puts(s, "\\");
            kn_str_add(s, &ch, 1);
        }
    }
    kn_str_puts(s, "\";\n");
}

static bool write_batch(kd_cc *c, kd_batch *b, kn_fault *f) {
    kn_str_putf(&b->text, "/* %s */\n", kn_str_c(&c->identity));
    kn_str_puts(&b->text, kn_str_c(&c->preamble));
    for (int i = 0; i < b->n; i++) {
        const kd_unit *u = b->unit[i];
        kn_str_putf(&b->text, "\n#define %s kn_%d_%s\n", u->name, i, u->name);
        kn_str_add(&b->text, u->source, u->len);
        kn_str_putf(&b->text, "#undef %s\n", u->name);
    }
    b->text_len = b->text.len;
    embed_text(&b->text);
    if (b->text.failed) return kn_oom(f);
    if (c->dir.len) {
        uint64_t key[2];
        content_key(kn_str_c(&b->text), b->text_len, key);
        snprintf(b->cached, sizeof b->cached, "%.4000s/%016llx%016llx.so", kn_str_c(&c->dir),
                 (unsigned long long)key[0], (unsigned long long)key[1]);
    }
    return true;
}

static bool start_batch(kd_cc *c, kd_batch *b, kn_fault *f) {
    const char *tmp = getenv("TMPDIR");
    char        src[4200], so[4200];
    snprintf(b->dir, sizeof b->dir, "%.4000s/koine-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(b->dir)) {
        bool r    = kn_fail(f, KN_ERR_IO,
                            "cannot make a folder for the compiler, %s: %s; set TMPDIR to one that can be written",
                            b->dir,
                            strerror(errno));
        b->dir[0] = 0;
        return r;
    }
    snprintf(src, sizeof src, "%s/k.c", b->dir);
    snprintf(so, sizeof so, "%s/k.so", b->dir);
    if (!kn_write_file(src, kn_str_c(&b->text), b->text.len, 0600, f)) return false;
    const char *argv[KN_COUNT(cc_flags) + 16];
    char        words[256], *save = NULL;
    int         n = 0;
    snprintf(words, sizeof words, "%.200s", kn_str_c(&c->cc));
    char *word = strtok_r(words, " ", &save);
    for (; word && *word != '-' && n < 8; word = strtok_r(NULL, " ", &save)) argv[n++] = word;
    for (int i = 0; i < KN_COUNT(cc_flags); i++) argv[n++] = cc_flags[i];
    for (; word && n < KN_COUNT(cc_flags) + 8; word = strtok_r(NULL, " ", &save)) argv[n++] = word; /* they win */
    argv[n++] = "-o";
    argv[n++] = so;
    argv[n++] = src;
    argv[n++] = "-lm";
    argv[n]   = NULL;
    kn_fault why = {0};
    b->running   = kn_spawn(argv, &b->job, &why);
    return b->running || kn_fail(f, KN_ERR_COMPILE, "no C compiler: %s; set CC to gcc or clang", why.text);
}

static bool finish_batch(kd_cc *c, kd_batch *b, kn_fault *f) {
    int  code;
    char err[4096];
    if (!b->running) return true;
    b->running = false;
    if (!kn_wait(&b->job, &code, err, sizeof err, f)) return false;
    if (!code) return true;
    char *line = strstr(err, "error:"); /* the line that says what, else the first */
    if (!line) line = err;
    line[strcspn(line, "\n")] = 0;
    return kn_fail(f, KN_ERR_COMPILE, "the C compiler \"%s\" failed (exit %d)%s%.300s; set CC to gcc or clang",
                   kn_str_c(&c->cc), code, *line ? ": " : "", line);
}

/* What batch b's object has, put among what is known. Under the lock. */
static bool learn_batch(kd_cc *c, kd_batch *b, void *h, kn_fault *f) {
    if (!KN_GROW(c->alloc, c->handle, c->handle_cap, c->nhandle + 1) ||
        !KN_GROW(c->alloc, c->known, c->known_cap, c->nknown + (size_t)b->n)) {
        dlclose(h);
        return kn_oom(f);
    }
    c->handle[c->nhandle++] = h;
    for (int i = 0; i < b->n; i++) {
        kd_unit *u = b->unit[i];
        char     symbol[160];
        snprintf(symbol, sizeof symbol, "kn_%d_%.120s", i, u->name);
        void *p = dlsym(h, symbol);
        if (!p)
            return kn_fail(f, KN_ERR_COMPILE,
                           "the object of the C compiler \"%s\" lacks the kernel %s; set CC to gcc or clang",
                           kn_str_c(&c->cc), u->name);
        memcpy(&u->fn, &p, sizeof p);
        char *copy = kn_realloc(c->alloc, NULL, 0, u->len + 1);
        if (!copy) return kn_oom(f);
        memcpy(copy, u->source, u->len);
        copy[u->len]          = 0;
        c->known[c->nknown++] = (kd_known){{u->key[0], u->key[1]}, copy, u->len, u->fn};
    }
    return true;
}

static bool open_batch(kd_cc *c, kd_batch *b, const char *so, kn_fault *f) {
    void *h = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!h)
        return kn_fail(f, KN_ERR_COMPILE, "what the C compiler \"%s\" wrote cannot be loaded: %.200s; set CC to gcc or "
                       "clang, or TMPDIR to a folder that programs can run from", kn_str_c(&c->cc), dlerror());
    const char *text = dlsym(h, KD_TEXT);
    if (!text || strncmp(text, b->text.data, b->text_len) || text[b->text_len]) {
        dlclose(h);
        return kn_fail(f, KN_ERR_COMPILE,
                       "the object of the C compiler \"%s\" has other kernels than asked for; set CC to "
                       "gcc or clang",
                       kn_str_c(&c->cc));
    }
    pthread_mutex_lock(&c->lock);
    bool ok = learn_batch(c, b, h, f);
    pthread_mutex_unlock(&c->lock);
    return ok;
}

static void clean_batch(kd_batch *b) {
    char path[4200];
    if (!b->dir[0]) return;
    snprintf(path, sizeof path, "%s/k.c", b->dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/k.so", b->dir);
    unlink(path);
    rmdir(b->dir);
}

static void tell(void (*warn)(void *, const char *), void *user, const char *what, const kn_fault *why) {
    char line[600];
    if (!warn) return;
    snprintf(line, sizeof line, "%s: %s", what, why->text);
    warn(user, line);
}

/* Found in the cache, or its compiler begun. */
static bool begin_batch(kd_cc *c, kd_batch *b, uint64_t *loaded, kn_fault *f) {
    kn_fault no = {0};
    if (!write_batch(c, b, f)) return false;
    b->from_cache = c->dir.len && checksum_holds(c, b->cached) && open_batch(c, b, b->cached, &no);
    if (!b->from_cache) return start_batch(c, b, f);
    *loaded += (uint64_t)b->n;
    return true;
}

/* At most `jobs` compilers at a time; once one has failed no more are begun, but those that run are waited for. */
static bool run_batches(kd_cc *c, kd_batch *batch, int nbatch, int jobs, void (*warn)(void *, const char *), void *user,
                        uint64_t *compiled, uint64_t *loaded, kn_fault *f) {
    bool ok = true;
    for (int i = 0, begun = 0; i < nbatch; i++) {
        kd_batch *b = &batch[i];
        while (ok && begun < nbatch && begun < i + jobs) ok = begin_batch(c, &batch[begun++], loaded, f);
        if (!finish_batch(c, b, f)) ok = false;
        if (!ok || b->from_cache) continue;
        char     so[4200];
        kn_fault no = {0};
        snprintf(so, sizeof so, "%s/k.so", b->dir);
        ok = open_batch(c, b, so, f);
        if (ok) *compiled += (uint64_t)b->n;
        if (ok && c->dir.len && !keep(c, so, b->cached, &no)) tell(warn, user, "kernel cache", &no);
    }
    for (int i = 0; i < nbatch; i++) clean_batch(&batch[i]);
    return ok;
}

/* The units that have to be compiled, each source once. Under the lock. */
static int unknown_units(kd_cc *c, kd_unit *unit, int n, kd_unit **todo) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        kd_unit *u = &unit[i];
        content_key(u->source, u->len, u->key);
        kd_known *k     = known_as(c, u);
        bool      twice = false;
        for (int j = 0; j < count && !k && !twice; j++) twice = same_source(todo[j], u);
        u->fn = k ? k->fn : NULL;
        if (!k && !twice) todo[count++] = u;
    }
    return count;
}

/* Looks at the compiler and the folder, once. Under the lock. */
static bool make_ready(kd_cc *c, void (*warn)(void *, const char *), void *user, kn_fault *f) {
    kn_fault no = {0};
    if (c->dir.len && !c->dir_ready && !(c->dir_ready = kn_make_private_dir(kn_str_c(&c->dir), &no))) {
        tell(warn, user, "kernel cache is off", &no);
        kn_str_clear(&c->dir);
    }
    return identify(c, f);
}

static bool compile_units(kd_cc *c, kd_unit **todo, int count, int jobs, void (*warn)(void *, const char *), void *user,
                          uint64_t *compiled, uint64_t *loaded, kn_fault *f) {
    int       nbatch = (count + KD_BATCH - 1) / KD_BATCH;
    kd_batch *batch  = kn_zalloc(c->alloc, (size_t)nbatch * sizeof *batch);
    if (!batch) return kn_oom(f);
    for (int i = 0, at = 0; i < nbatch; i++) {
        batch[i].unit = todo + at;
        batch[i].n    = KN_MIN(KD_BATCH, count - at);
        at += batch[i].n;
        kn_str_init(&batch[i].text, c->alloc);
    }
    bool ok = run_batches(c, batch, nbatch, KN_MAX(jobs, 1), warn, user, compiled, loaded, f);
    for (int i = 0; i < nbatch; i++) kn_str_free(&batch[i].text);
    kn_free(c->alloc, batch, (size_t)nbatch * sizeof *batch);
    return ok;
}

bool kd_cc_compile(kd_cc *c, kd_unit *unit, int n, int jobs, void (*warn)(void *, const char *), void *user,
                   uint64_t *compiled, uint64_t *loaded, kn_fault *f) {
    kd_unit **todo = kn_zalloc(c->alloc, (size_t)(n + 1) * sizeof *todo);
    if (!todo) return kn_oom(f);
    pthread_mutex_lock(&c->lock);
    int  count = unknown_units(c, unit, n, todo);
    bool ok    = !count || make_ready(c, warn, user, f);
    pthread_mutex_unlock(&c->lock);
    if (ok && count) ok = compile_units(c, todo, count, jobs, warn, user, compiled, loaded, f);
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < n && ok; i++)
        if (!unit[i].fn) {
            kd_known *k = known_as(c, &unit[i]);
            if (k) unit[i].fn = k->fn;
            else ok = kn_fail(f, KN_ERR_INTERNAL, "a kernel was not compiled");
        }
    pthread_mutex_unlock(&c->lock);
    kn_free(c->alloc, todo, (size_t)(n + 1) * sizeof *todo);
    return ok;
}

#undef KD_TEXT
