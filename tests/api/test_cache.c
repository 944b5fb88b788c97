/* The cache of compiled kernels on disk: found again, never trusted; and a compiler that is missing or fails. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"
#include "check.h"
#include "device/cc.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static char said[600];

static void note(void *user, const char *line) {
    (void)user;
    snprintf(said, sizeof said, "%s", line);
}

typedef struct outcome {
    double    value;
    kn_status status;
    uint64_t  compiled, loaded;
    char      error[300];
} outcome;

/* sum((0, 1, ... 9) * factor), by a context of its own. */
static outcome run(const char *cache, const char *cc, double factor) {
    kn_config   cfg   = {.target = "c", .cache_dir = cache, .cc = cc, .threads = 1, .log = note, .size = sizeof cfg};
    kn_stats    stats = {.size = sizeof stats};
    outcome     o     = {0};
    kn_context *kn    = kn_open(&cfg);
    said[0]           = 0;
    float data[10];
    for (int i = 0; i < 10; i++) data[i] = (float)i;
    o.value  = kn_item(kn_sum(kn_mul_s(kn_from(kn, data, KN_F32, KN_DIMS(10)), factor)));
    o.status = kn_error_code(kn);
    snprintf(o.error, sizeof o.error, "%s", kn_error(kn));
    CHECK_EQ(kn_get_stats(kn, &stats), KN_OK);
    o.compiled = stats.kernels_compiled;
    o.loaded   = stats.kernels_loaded;
    kn_close(kn);
    return o;
}

static bool right(outcome o, double value, bool from_cache) {
    bool ok = CHECK_EQ(o.status, KN_OK) && CHECK_NEAR(o.value, value, 1e-6);
#if KN_HOSTILE
    from_cache = o.loaded > 0; /* two programs may want one name there, and the later has it */
#endif
    ok      = CHECK(from_cache ? o.loaded > 0 && o.compiled == 0 : o.compiled > 0 && o.loaded == 0) && ok;
    if (!ok) fprintf(stderr, "  %s %s\n", o.error, said);
    return ok;
}

/* Each file of the cache whose name ends so; NULL after the last. */
static const char *entry(const char *end, int k) {
    static char path[400];
    DIR        *d = opendir(dir);
    if (!d) return NULL;
    const char *found = NULL;
    for (struct dirent *e; !found && (e = readdir(d));) {
        size_t n = strlen(e->d_name), m = strlen(end);
        if (n < m || strcmp(e->d_name + n - m, end) || k-- > 0) continue;
        snprintf(path, sizeof path, "%s/%.255s", dir, e->d_name);
        found = path;
    }
    closedir(d);
    return found;
}

static void empty_dir(void) {
    for (const char *p; (p = entry(".so", 0)) || (p = entry(".sum", 0));) unlink(p);
}

/* Changes the byte at `at` (from the end when negative), or cuts the file there. */
static void damage(const char *path, long at, bool cut) {
    kn_fault f = {0};
    char    *data;
    size_t   size;
    if (!CHECK(path && kn_read_file(NULL, path, &data, &size, &f))) return;
    size_t where = at < 0 ? size - (size_t)-at : (size_t)at;
    data[where] ^= 1;
    CHECK(kn_write_file(path, data, cut ? where : size, 0700, &f));
    kn_free(NULL, data, size + 1);
}

static void found_again(void) {
    if (!right(run(dir, NULL, 2), 90, false)) return;
    right(run(dir, NULL, 2), 90, true);
    right(run(dir, NULL, 3), 135, false);
    right(run(dir, NULL, 3), 135, true);
    right(run(dir, NULL, 2), 90, true);
    right(run(NULL, NULL, 2), 90, false);
}

static void damaged(void) {
    for (int k = 0; k < 6; k++) {
        empty_dir();
        if (!right(run(dir, NULL, 2), 90, false)) return;
        switch (k) {
        case 0: damage(entry(".so", 0), 100, false); break;
        case 1: damage(entry(".so", 0), -1, false); break;
        case 2: damage(entry(".so", 0), 40, true); break;
        case 3: damage(entry(".so", 0), 0, true); break;
        case 4: damage(entry(".sum", 0), 3, false); break;
        default: CHECK(entry(".sum", 0) && unlink(entry(".sum", 0)) == 0);
        }
        right(run(dir, NULL, 2), 90, false);
        right(run(dir, NULL, 2), 90, true);
    }
}

/* A valid object of other kernels under this program's name: what equal hashes would do. */
static void others_kernels(void) {
    char     so[400], sum[400], *data[2];
    size_t   size[2];
    kn_fault f = {0};
    empty_dir();
    right(run(dir, NULL, 5), 225, false);
    CHECK(entry(".so", 0) && !entry(".so", 1));
    CHECK(kn_read_file(NULL, entry(".so", 0), &data[0], &size[0], &f));
    CHECK(kn_read_file(NULL, entry(".sum", 0), &data[1], &size[1], &f));
    empty_dir();
    right(run(dir, NULL, 7), 315, false);
    snprintf(so, sizeof so, "%s", entry(".so", 0));
    snprintf(sum, sizeof sum, "%s", entry(".sum", 0));
    CHECK(kn_write_file(so, data[0], size[0], 0700, &f) && kn_write_file(sum, data[1], size[1], 0600, &f));
    right(run(dir, NULL, 7), 315, false);
    right(run(dir, NULL, 7), 315, true);
    for (int i = 0; i < 2; i++) kn_free(NULL, data[i], size[i] + 1);
}

static void unsafe_folder(void) {
    char open_dir[128];
    snprintf(open_dir, sizeof open_dir, "%s/open", dir);
    mkdir(open_dir, 0700);
    chmod(open_dir, 0777);
    right(run(open_dir, NULL, 2), 90, false);
    CHECK(strstr(said, "cache") && strstr(said, "others can write"));
    rmdir(open_dir);
}

static void compilers(void) {
    outcome o = run(NULL, "no-such-compiler", 2);
    CHECK_EQ(o.status, KN_ERR_COMPILE);
    CHECK(o.value != o.value && strstr(o.error, "no-such-compiler"));
    o = run(NULL, "false", 2);
    CHECK_EQ(o.status, KN_ERR_COMPILE);
    o = run(NULL, "true", 2); /* succeeds and writes nothing */
    CHECK(o.status != KN_OK && o.value != o.value);
    empty_dir();
    right(run(dir, NULL, 2), 90, false);
    o = run(dir, "false", 2); /* another compiler's kernels are not this one's */
    CHECK_EQ(o.status, KN_ERR_COMPILE);
}

static void nothing_is_left(void) {
    char name[] = "tmp-XXXXXX";
    if (!CHECK(mkdtemp(name))) return;
    const char *old = getenv("TMPDIR");
    char       *had = old ? strdup(old) : NULL;
    setenv("TMPDIR", name, 1);
    right(run(NULL, NULL, 2), 90, false);
    CHECK_EQ(run(NULL, "false", 2).status, KN_ERR_COMPILE);
    if (had) setenv("TMPDIR", had, 1);
    else unsetenv("TMPDIR");
    free(had);
    CHECK(rmdir(name) == 0); /* fails when a file was left behind */
}

/* What one compiler at a time has left, eight at a time find. */
static void any_number_of_compilers(void) {
    enum { N = 9 };
    char     source[N][160];
    kd_unit  unit[N];
    uint64_t compiled = 0, loaded = 0;
    kn_fault f = {0};
    empty_dir();
    for (int jobs = 1; jobs <= 8; jobs += 7) {
        kd_cc *c = kd_cc_new(NULL, NULL, dir, "typedef long long i64;\n", &f);
        if (!CHECK(c != NULL)) return;
        for (int i = 0; i < N; i++) {
            int len = snprintf(source[i], sizeof source[i],
                               "void k(void *const *b, const i64 *v, i64 lo, i64 hi) { *(i64 *)b[0] = %d; }\n", i);
            unit[i] = (kd_unit){.name = "k", .source = source[i], .len = (size_t)len};
        }
        if (!CHECK(kd_cc_compile(c, unit, N, jobs, note, NULL, &compiled, &loaded, &f)))
            fprintf(stderr, "%s\n", f.text);
        for (int i = 0; i < N && unit[i].fn; i++) {
            int64_t got  = -1;
            void   *b[1] = {&got};
            unit[i].fn(b, NULL, 0, 1);
            CHECK_EQ(got, i);
        }
        kd_cc_free(c);
    }
#if !KN_HOSTILE /* there names in the cache clash */
    CHECK_EQ(compiled, N);
    CHECK_EQ(loaded, N);
#endif
}

int main(void) {
    snprintf(dir, sizeof dir, "cache-test-XXXXXX");
    if (!mkdtemp(dir)) return 1;
    RUN(found_again);
    RUN(damaged);
    RUN(others_kernels);
    RUN(unsafe_folder);
    RUN(any_number_of_compilers);
    RUN(compilers);
    RUN(nothing_is_left);
    empty_dir();
    CHECK(rmdir(dir) == 0);
    return check_result();
}
