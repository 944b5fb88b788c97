/* test_faults.c - what stands around the library is missing, broken or hostile: the C compiler, its folder, the cache
 * of compiled kernels, a config. Each gives an error that names what to do, or works without; nothing is lost, and
 * nothing is left behind. */
#define _GNU_SOURCE
#include "api.h"
#include "base/base.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[] = "faults-XXXXXX";
static char logged[2000];

static void keep_log(void *user, const char *line) {
    (void)user;
    size_t n = strlen(logged);
    snprintf(logged + n, sizeof logged - n, "%s\n", line);
}

static const char *in_home(const char *name) {
    static char path[4][300];
    static int  at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", home, name);
    return path[at];
}

/* Names in a folder, . and .. left out; with `remove_them`, they go. */
static int entries(const char *dir, bool remove_them) {
    DIR *d = opendir(dir);
    int  n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[600];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (remove_them) remove(path);
    }
    if (d) closedir(d);
    return n;
}

static void put(const char *name, const char *text, mode_t mode) {
    FILE *f = fopen(in_home(name), "w");
    if (!CHECK(f != NULL)) return;
    fputs(text, f);
    fclose(f);
    CHECK_EQ(chmod(in_home(name), mode), 0);
}

static kn_context *open_with(const char *cc, const char *cache) {
    kn_config cfg = {.target = "c", .cc = cc, .cache_dir = cache, .threads = 2, .log = keep_log, .size = sizeof cfg};
    logged[0]     = 0;
    return kn_open(&cfg);
}

/* sum(x * x + k): one kernel whose source depends on k. */
static double run(kn_context *kn, double k) {
    kn_tensor *x = F32S(kn, 1, 2, 3);
    return kn_item(kn_sum(kn_add_s(kn_square(x), k)));
}

static kn_stats stats(kn_context *kn) {
    kn_stats s = {.size = sizeof s};
    CHECK_EQ(kn_get_stats(kn, &s), KN_OK);
    return s;
}

/* ---- the compiler ---------------------------------------------------------------------------------------------- */

static void refused(const char *cc, kn_status code, const char *part) {
    kn_context *kn = open_with(cc, NULL);
    kn_tensor  *w  = kn_empty(kn, KN_F32, KN_DIMS(3));
    CHECK_EQ(kn_write(w, (float[]){4, 5, 6}, 12), KN_OK);
    CHECK(isnan(run(kn, 1)));
    CHECK_FAILS(kn, 0, code, part);
    /* A step that failed has assigned nothing, and the context goes on. */
    kn_scope *s = kn_begin(kn);
    kn_assign(w, kn_add_s(w, 1));
    CHECK_EQ(kn_end(s), code);
    CHECK(strstr(kn_error(kn), part) != NULL);
    kn_clear_error(kn);
    CHECK_VALUES(w, 4, 5, 6);
    CHECK_STR(kn_error(kn), "");
    kn_close(kn);
}

static void test_compiler(void) {
    char tmp[300];
    snprintf(tmp, sizeof tmp, "%s", in_home("tmp"));
    CHECK_EQ(mkdir(tmp, 0700), 0);
    setenv("TMPDIR", tmp, 1);
    put("garbage", "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo garbage > \"$2\"; shift; done\n", 0700);
    put("nothing", "#!/bin/sh\nexit 0\n", 0700);
    put("killed", "#!/bin/sh\nkill -9 $$\n", 0700);
    put("loud",
        "#!/bin/sh\nhead -c 300000 /dev/zero | tr '\\0' x >&2\necho >&2\necho k.c: error: no space left >&2\nexit 1\n",
        0700);
    put("plain", "not a program", 0600);
    static const struct {
        const char *cc, *part;
    } bad[] = {
        {"/nonexistent/cc", "\"/nonexistent/cc\" does not exist; install gcc or clang, or set CC"},
        {"no-such-compiler", "\"no-such-compiler\" is not in PATH; install gcc or clang"},
        {"false", "\"false\" failed (exit 1); set CC"},
        {"garbage", "cannot be loaded"}, {"nothing", "cannot be loaded"}, {"killed", "failed (exit 137)"},
        {"loud", "failed (exit 1)"}, {"plain", "Permission denied; set CC"},
    };
    for (int i = 0; i < KN_COUNT(bad); i++)
        refused(i < 3 ? bad[i].cc : in_home(bad[i].cc), KN_ERR_COMPILE, bad[i].part);
    CHECK_EQ(entries(tmp, false), 0); /* nothing is left behind */
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "", 1);
    refused("gcc", KN_ERR_COMPILE, "\"gcc\" is not in PATH");
    setenv("PATH", path, 1);
    free(path);
    setenv("TMPDIR", in_home("not-there"), 1);
    refused(NULL, KN_ERR_IO, "set TMPDIR to one that can be written");
    setenv("TMPDIR", in_home("plain"), 1);
    refused(NULL, KN_ERR_IO, "set TMPDIR");
    setenv("TMPDIR", tmp, 1);
    /* The same context works once the compiler does. */
    kn_context *kn = open_with("  ", NULL);
    CHECK_NEAR(run(kn, 1), 17, 0);
    kn_close(kn);
    /* Options behind its name come last, so that they win. */
    char last[400];
    put("last", "#!/bin/sh\ncase \"$*\" in *-O2*-O3*) exec cc \"$@\" ;; esac\nexit 1\n", 0700);
    snprintf(last, sizeof last, "%s -O3", in_home("last"));
    kn = open_with(last, NULL);
    CHECK_NEAR(run(kn, 1), 17, 0);
    kn_close(kn);
    CHECK_EQ(entries(tmp, false), 0);
}

/* No room for the compiler's files: a limit on the size of any file stands for the full disk. */
static void test_no_room(void) {
    struct rlimit was, small = {4096, 4096};
    if (getrlimit(RLIMIT_FSIZE, &was)) return;
    small.rlim_max = was.rlim_max;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    kn_context *kn = open_with(NULL, NULL);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    double v = run(kn, 2);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &was), 0);
    CHECK(isnan(v));
    CHECK(kn_error_code(kn) == KN_ERR_IO || kn_error_code(kn) == KN_ERR_COMPILE);
    kn_clear_error(kn);
    CHECK_NEAR(run(kn, 2), 20, 0);
    kn_close(kn);
    signal(SIGXFSZ, old);
    CHECK_EQ(entries(in_home("tmp"), false), 0);
}

/* ---- the cache of kernels -------------------------------------------------------------------------------------- */

static const char *cache_file(const char *ending) {
    static char path[600];
    DIR        *d = opendir(in_home("cache"));
    path[0]       = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name), k = strlen(ending);
        if (n > k && !strcmp(e->d_name + n - k, ending)) snprintf(path, sizeof path, "%s/cache/%s", home, e->d_name);
    }
    if (d) closedir(d);
    CHECK(path[0] != 0);
    return path;
}

/* A context on the cache folder runs the program; how many kernels it compiled and loaded. */
static void visit(uint64_t compiled, uint64_t loaded, int line) {
    kn_context *kn = open_with(NULL, in_home("cache"));
    check_near(run(kn, 3), 23, 0, "value", __FILE__, line);
    kn_stats s = stats(kn);
    check_eq((long long)s.kernels_compiled, (long long)compiled, "compiled", __FILE__, line);
    check_eq((long long)s.kernels_loaded, (long long)loaded, "loaded", __FILE__, line);
    check_str(logged, "", "log", __FILE__, line);
    kn_close(kn);
}
#define VISIT(compiled, loaded) visit((compiled), (loaded), __LINE__)

static void test_cache(void) {
    struct stat st;
    VISIT(1, 0);
    CHECK(!stat(in_home("cache"), &st) && (st.st_mode & 0777) == 0700);
    CHECK_EQ(entries(in_home("cache"), false), 2);
    VISIT(0, 1);
    CHECK_EQ(truncate(cache_file(".so"), 100), 0);
    VISIT(1, 0);
    VISIT(0, 1);
    FILE *f = fopen(cache_file(".so"), "r+");
    if (CHECK(f != NULL)) { /* one byte in the middle */
        fseek(f, 4096, SEEK_SET);
        fputc(fgetc(f) ^ 1, f);
        fclose(f);
    }
    VISIT(1, 0);
    VISIT(0, 1);
    CHECK_EQ(truncate(cache_file(".sum"), 3), 0);
    VISIT(1, 0);
    CHECK_EQ(unlink(cache_file(".sum")), 0);
    VISIT(1, 0);
    CHECK_EQ(unlink(cache_file(".so")), 0);
    VISIT(1, 0);
    VISIT(0, 1);
    CHECK_EQ(entries(in_home("cache"), false), 2);
}

/* The cache cannot be used: a line in the log says why, and the program runs. */
static void does_without(const char *dir, const char *part) {
    kn_context *kn = open_with(NULL, dir);
    CHECK_NEAR(run(kn, 4), 26, 0);
    CHECK_EQ(stats(kn).kernels_compiled, 1);
    if (!CHECK(strstr(logged, part) != NULL)) printf("  the log is: %s\n", logged);
    CHECK_NEAR(run(kn, 5), 29, 0);
    CHECK_STR(kn_error(kn), "");
    kn_close(kn);
}

static void test_no_cache(void) {
    put("file", "a file", 0600);
    does_without(in_home("file"), "not a folder");
    does_without(in_home("file/below"), "file");
    does_without("/proc/koine-cache", "/proc/koine-cache");
    CHECK_EQ(mkdir(in_home("open"), 0700), 0);
    CHECK_EQ(chmod(in_home("open"), 0777), 0);
    does_without(in_home("open"), "others can write there: run chmod 700");
    CHECK_EQ(entries(in_home("open"), false), 0);
    CHECK_EQ(symlink("cache", in_home("link")), 0);
    if (geteuid()) { /* root may write anywhere */
        CHECK_EQ(mkdir(in_home("closed"), 0500), 0);
        does_without(in_home("closed"), "cannot create");
        rmdir(in_home("closed"));
    }
    rmdir(in_home("open"));
    unlink(in_home("link"));
}

/* The disk of the cache is full: the kernel runs, the log says so, and no half of an entry is taken for one. The limit
 * on file sizes stands for the disk; a script lifts it for the compiler. */
static void test_full_cache(void) {
    struct rlimit was, small;
    if (getrlimit(RLIMIT_FSIZE, &was)) return;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    put("unlimited", "#!/bin/sh\nulimit -S -f unlimited\nexec cc -Wl,-z,max-page-size=0x100000 \"$@\"\n", 0700);
    entries(in_home("cache"), true);
    small          = (struct rlimit){200000, was.rlim_max}; /* the source fits, the object does not */
    kn_context *kn = open_with(in_home("unlimited"), in_home("cache"));
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    double v = run(kn, 3);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &was), 0);
    CHECK_NEAR(v, 23, 0);
    if (!CHECK(strstr(logged, "kernel cache: ") && strstr(logged, "cannot write")))
        printf("  the log is: %s\n", logged);
    CHECK_STR(kn_error(kn), "");
    kn_close(kn);
    CHECK(entries(in_home("cache"), false) <= 1);
    VISIT(1, 0);
    VISIT(0, 1);
    signal(SIGXFSZ, old);
}

/* ---- configs and options --------------------------------------------------------------------------------------- */

static void test_config(void) {
    kn_config odd = {.size = 3};
    CHECK(kn_open(&odd) == NULL);
    odd.size = sizeof odd + 64;
    CHECK(kn_open(&odd) == NULL);
    memset(&odd, 0xa5, sizeof odd);
    CHECK(kn_open(&odd) == NULL); /* its size is absurd: nothing else of it is looked at */
    static const char *const devices[] = {"GPU", "", "cpu", "CPU:7", "INTERP ", "CUDA:0"};
    for (int i = 0; i < KN_COUNT(devices); i++) {
        kn_config   cfg = {.device = devices[i], .size = sizeof cfg};
        kn_context *kn  = kn_open(&cfg);
        if (!CHECK(kn != NULL)) continue;
        if (*devices[i]) {
            CHECK_EQ(kn_error_code(kn), KN_ERR_DEVICE);
            CHECK(strstr(kn_error(kn), devices[i]) && strstr(kn_error(kn), "INTERP"));
            CHECK(!kn_ok(F32S(kn, 1)));
        }
        kn_close(kn);
    }
    kn_config   cfg = {.target = "x87", .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    CHECK(kn && strstr(kn_error(kn), "x87"));
    kn_close(kn);
    cfg = (kn_config){.threads = -5, .size = sizeof cfg};
    kn  = kn_open(&cfg);
    if (kn && !kn_error_code(kn)) CHECK_NEAR(run(kn, 3), 23, 0);
    kn_close(kn);
    cfg.threads = 1 << 30;
    kn          = kn_open(&cfg);
    if (kn && !kn_error_code(kn)) CHECK_NEAR(run(kn, 3), 23, 0);
    kn_close(kn);
}

static void test_options(kn_context *kn) {
    kn_tensor     *x = F32S(kn, 1, 2, 3), *w = kn_empty(kn, KN_F32, KN_DIMS(3));
    kn_reduce_opts o = {.size = sizeof o + 8};
    kn_adam_opts   a = {.size = sizeof a + 8};
    kn_stats       s = {.size = 0};
    CHECK_FAILS(kn, kn_sum_opt(x, &o), KN_ERR_ARG, "size");
    memset(&o, 0x5a, sizeof o);
    CHECK_FAILS(kn, kn_mean_opt(x, &o), KN_ERR_ARG, "size");
    o.size = sizeof o; /* garbage under a right size: axes out of range */
    CHECK_FAILS(kn, kn_mean_opt(x, &o), KN_ERR_ARG, "kn_mean");
    CHECK_FAILS(kn, kn_sum(x, .axes = KN_AXES(1)), KN_ERR_ARG, "kn_sum");
    CHECK_FAILS(kn, kn_sum(x, .axes = KN_AXES(0, 0)), KN_ERR_ARG, "kn_sum");
    CHECK_FAILS(kn, kn_adam_opt(kn, &w, 1, &a), KN_ERR_ARG, "size");
    CHECK_FAILS(kn, kn_cast(x, (kn_dtype)99), KN_ERR_DTYPE, "kn_cast");
    CHECK_FAILS(kn, kn_cast(x, (kn_dtype)-1), KN_ERR_DTYPE, "kn_cast");
    CHECK_FAILS(kn, kn_empty(kn, (kn_dtype)77, KN_DIMS(3)), KN_ERR_DTYPE, "kn_empty");
    CHECK_FAILS(kn, kn_empty(kn, KN_VOID, KN_DIMS(3)), KN_ERR_DTYPE, "kn_empty");
    CHECK_FAILS(kn, kn_empty(kn, KN_F32, KN_DIMS(-3)), KN_ERR_SHAPE, "kn_empty");
    CHECK_FAILS(kn, kn_empty(kn, KN_F32, KN_DIMS(INT64_MAX, 8)), KN_ERR_SHAPE, "kn_empty");
    CHECK_FAILS(kn, kn_empty(kn, KN_F32, NULL, 3), KN_ERR_ARG, "kn_empty");
    CHECK_FAILS(kn, kn_empty(kn, KN_F32, (kn_dim[99]){0}, 99), KN_ERR_ARG, "kn_empty");
    CHECK_FAILS(kn, kn_matmul(kn_empty(kn, KN_F32, KN_DIMS(64, 784)), kn_empty(kn, KN_F32, KN_DIMS(100, 10))),
                KN_ERR_SHAPE, "kn_matmul: (64,784) x (100,10): inner sizes differ");
    CHECK_FAILS(kn, kn_read(x, KN_F32, &s, 4), KN_ERR_ARG, "kn_read");
    CHECK_FAILS(kn, kn_write(x, &s, 4), KN_ERR_ARG, "kn_write");
    CHECK_FAILS(kn, kn_dump(x, "rangefy", stdout), KN_ERR_ARG, "rangeify");
    CHECK_FAILS(kn, kn_get_stats(kn, &s), KN_ERR_ARG, "size");
    CHECK_EQ(kn_get_stats(NULL, &s), KN_ERR_ARG);
    CHECK(!kn_ok(kn_add(NULL, NULL)));
    CHECK_VALUES(x, 1, 2, 3);
}
API_RUN(test_options)

int main(void) {
    if (!mkdtemp(home)) SKIP("no temporary folder");
    RUN(test_compiler);
    RUN(test_no_room);
    RUN(test_cache);
    RUN(test_no_cache);
    RUN(test_full_cache);
    RUN(test_config);
    RUN(test_options_on_each_device);
    entries(in_home("tmp"), true);
    entries(in_home("cache"), true);
    entries(home, true);
    rmdir(home);
    return check_result();
}
