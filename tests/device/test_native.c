/* The arena for machine code: what is loaded runs, nothing is writable and executable, pages come back, faults leave
 * nothing behind, and a system that denies executable memory is an error that says so. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "device/native.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#endif

typedef int (*number_fn)(void);

/* A function that returns v, in this machine's code; 0: none written for it. */
static size_t function_of(uint8_t out[16], uint32_t v) {
#if defined(__x86_64__)
    out[0] = 0xb8; /* mov eax, v; ret */
    memcpy(out + 1, &v, 4);
    out[5] = 0xc3;
    return 6;
#elif defined(__aarch64__)
    uint32_t code[2] = {0x52800000u | (v & 0xffff) << 5, 0xd65f03c0u}; /* movz w0, v; ret */
    memcpy(out, code, 8);
    return 8;
#else
    (void)out;
    (void)v;
    return 0;
#endif
}

static bool load_one(kd_native *n, uint32_t v, size_t pad, uint32_t align, void **at, kn_fault *f) {
    static uint8_t bytes[100000];
    kd_code        code = {.name = "f", .bytes = bytes, .len = KN_MAX(function_of(bytes, v), pad), .align = align};
    bool           ok   = kd_native_load(n, &code, 1, NULL, NULL, f);
    *at                 = code.at;
    return ok;
}

static int call(void *at) {
    number_fn fn;
    memcpy(&fn, &at, sizeof fn);
    return fn();
}

/* Lines of /proc/self/maps that are writable and executable. */
static int both(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char  line[512];
    int   n = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        char *rights = strchr(line, ' ');
        n += rights && rights[2] == 'w' && rights[3] == 'x';
    }
    if (maps) fclose(maps);
    return n;
}

static void batches(void) {
    kn_fault   f = {0};
    kd_native *n = kd_native_new(NULL, NULL, &f);
    uint8_t    bytes[50][16];
    kd_code    code[50];
    for (int i = 0; i < 50; i++)
        code[i] = (kd_code){
            .name = "f", .bytes = bytes[i], .len = function_of(bytes[i], 100 + (uint32_t)i), .align = i % 3 ? 64 : 0};
    if (!CHECK(n && kd_native_load(n, code, 50, NULL, NULL, &f))) return;
    CHECK_EQ(kd_native_stat(n).protects, 2);
    CHECK_EQ(kd_native_stat(n).functions, 50);
    CHECK_EQ(both(), 0);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(call(code[i].at), 100 + i);
        CHECK_EQ((uintptr_t)code[i].at % (i % 3 ? 64 : 16), 0);
    }
    for (int i = 0; i < 49; i++) kd_native_unload(n, code[i].at);
    CHECK_EQ(call(code[49].at), 149);
    CHECK_EQ(kd_native_stat(n).functions, 1);
    kd_native_unload(n, code[49].at);
    kd_native_unload(n, code[49].at); /* of no effect, like anything that is not loaded */
    kd_native_unload(n, &f);
    CHECK_EQ(kd_native_stat(n).pages, 0);
    CHECK_EQ(kd_native_stat(n).bytes, 0);
    kd_native_free(n);
    CHECK_EQ(f.code, 0);
}

/* Loads and unloads at random: all that is loaded gives its number, and what is mapped stays near what is used. */
static void reclaimed(void) {
    enum { LIVE = 200 };
    kn_fault   f        = {0};
    kd_native *n        = kd_native_new(NULL, NULL, &f);
    void      *at[LIVE] = {0};
    uint32_t   value[LIVE], seed = 1;
    size_t     most = 0;
    for (int round = 0; round < 4000 && f.code == 0; round++) {
        seed  = seed * 1664525 + 1013904223;
        int i = (int)(seed >> 16) % LIVE;
        if (at[i]) {
            CHECK_EQ(call(at[i]), value[i]);
            kd_native_unload(n, at[i]);
            at[i] = NULL;
        } else {
            value[i] = seed & 0xffff;
            CHECK(load_one(n, value[i], seed >> 28 ? (seed >> 8) % 5000 : 90000, 1u << (seed >> 20 & 7), &at[i], &f));
        }
        kd_native_stats s = kd_native_stat(n);
        most              = KN_MAX(most, s.mapped);
    }
    for (int i = 0; i < LIVE; i++)
        if (at[i]) CHECK_EQ(call(at[i]), value[i]);
    CHECK_EQ(both(), 0);
    printf("4000 loads and unloads: at most %zu KiB mapped\n", most >> 10);
    CHECK(most < 16u << 20);
    for (int i = 0; i < LIVE; i++)
        if (at[i]) kd_native_unload(n, at[i]);
    kd_native_stats s = kd_native_stat(n);
    CHECK_EQ(s.pages + s.functions + s.bytes, 0);
    CHECK(s.mapped <= 256u << 10);
    kd_native_free(n);
    CHECK_EQ(f.code, 0);
}

static void gone_is_gone(void) {
    kn_fault   f = {0};
    kd_native *n = kd_native_new(NULL, NULL, &f);
    void      *at = NULL;
    if (!CHECK(n && load_one(n, 7, 0, 0, &at, &f))) return;
    for (int way = 0; way < 2; way++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            if (way == 0) kd_native_unload(n, at);
            if (way == 0)
                call(at);
            else
                *(volatile uint8_t *)at = 0; /* code cannot be written */
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(status != 0); /* killed, or stopped by a sanitizer */
    }
    CHECK_EQ(call(at), 7);
    kd_native_free(n);
}

static size_t left; /* allocations until one fails */
static void  *starve(void *user, void *ptr, size_t old_size, size_t new_size) {
     (void)old_size;
     if (!new_size) {
         if (ptr) --*(long *)user;
        return free(ptr), NULL;
    }
     if (!left) return NULL;
    left--;
     if (!ptr) ++*(long *)user;
    return realloc(ptr, new_size);
}

static void memory_runs_out(void) {
    long     alive = 0;
    kn_alloc a     = {starve, &alive};
    uint8_t  bytes[16];
    kd_frame frame = {.machine = 62, .code_factor = 1, .data_factor = -8, .return_reg = 16};
    for (size_t k = 0;; k++) {
        kn_fault          f = {0};
        kd_native_options o = {.debugger = true};
        kd_code           code[3];
        for (int i = 0; i < 3; i++)
            code[i] = (kd_code){.name = "f", .bytes = bytes, .len = function_of(bytes, 1), .frame = &frame};
        left          = k;
        kd_native *n  = kd_native_new(&a, &o, &f);
        bool       ok = n && kd_native_load(n, code, 3, NULL, NULL, &f);
        CHECK_EQ(f.code, ok ? 0 : KN_ERR_MEMORY);
        if (n && !ok) {
            CHECK_EQ(kd_native_stat(n).pages + kd_native_stat(n).functions, 0);
            CHECK(!code[0].at && !code[2].at);
        }
        kd_native_free(n);
        CHECK_EQ(alive, 0);
        if (ok) {
            CHECK(k > 6);
            break;
        }
    }
    kn_fault   f   = {0};
    kd_native *n   = kd_native_new(NULL, NULL, &f);
    kd_code    bad = {.name = "f", .bytes = bytes, .len = 6, .align = 48};
    CHECK(!kd_native_load(n, &bad, 1, NULL, NULL, &f));
    CHECK_EQ(f.code, KN_ERR_INTERNAL);
    kd_native_free(n);
}

/* ---- the system says no ---------------------------------------------------------------------------------------- */

static int try_to_load(void) {
    kn_fault   f = {0};
    kd_native *n = kd_native_new(NULL, NULL, &f);
    void      *at = NULL;
    for (int i = 0; i < 2; i++) { /* and it says so again */
        memset(&f, 0, sizeof f);
        if (load_one(n, 7, 0, 0, &at, &f)) return 1;
        if (f.code != KN_ERR_DEVICE || !strstr(f.text, "executable memory") || at) return 2;
    }
    kd_native_stats s = kd_native_stat(n);
    if (s.pages || s.functions || both()) return 3;
    kd_native_free(n);
    return 0;
}

/* 0: denied and reported; 1..3: see above; 77: this system cannot be made to. */
static int child_result(int (*deny)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(deny() ? try_to_load() : 77);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#ifdef __linux__
static int deny_by_filter(void) { /* mprotect with PROT_EXEC: EPERM */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {KN_COUNT(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
static int deny_by_kernel(void) {
    return prctl(65 /* PR_SET_MDWE */, 1 /* PR_MDWE_REFUSE_EXEC_GAIN */, 0, 0, 0) == 0;
}
#endif

static void denied(void) {
#ifdef __linux__
    static const struct {
        const char *name;
        int (*deny)(void);
    } ways[]  = {{"a system call filter", deny_by_filter}, {"PR_SET_MDWE", deny_by_kernel}};
    int tried = 0;
    for (int i = 0; i < KN_COUNT(ways); i++) {
        int r = child_result(ways[i].deny);
        if (r == 77)
            printf("left out: %s is not to be had here\n", ways[i].name);
        else
            tried += CHECK_EQ(r, 0);
    }
    if (!tried) printf("left out: executable memory denied\n");
#endif
}

/* ---- what others are told --------------------------------------------------------------------------------------- */

static void environment(void) {
    static const struct {
        const char *text;
        bool        perf, gdb;
        kn_status   code;
    } cases[] = {{"", 0, 0, 0},
                 {"perf", 1, 0, 0},
                 {"gdb", 0, 1, 0},
                 {"gdb,perf", 1, 1, 0},
                 {" perf, gdb ", 1, 1, 0},
                 {"perfect", 0, 0, KN_ERR_ARG},
                 {"gdb,x", 0, 1, KN_ERR_ARG}};
    for (int i = 0; i < KN_COUNT(cases); i++) {
        kn_fault          f = {0};
        kd_native_options o = {.perf_map = true, .debugger = true, .fill = 1}; /* whatever stood there */
        setenv("KOINE_JIT", cases[i].text, 1);
        CHECK_EQ(kd_native_env(&o, &f), cases[i].code == 0);
        CHECK(o.perf_map == cases[i].perf && o.debugger == cases[i].gdb);
        CHECK_EQ(f.code, cases[i].code);
    }
    unsetenv("KOINE_JIT");
}

static void perf_map(void) {
    char path[64], line[300];
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    kn_fault   f = {0};
    uint8_t    bytes[16];
    kd_code    code[2] = {{.name = "r_64_32", .bytes = bytes, .len = function_of(bytes, 3)},
                          {.name = "e_10", .bytes = bytes, .len = function_of(bytes, 3)}};
    kd_native *n       = kd_native_new(NULL, NULL, &f);
    CHECK(kd_native_load(n, code, 2, NULL, NULL, &f));
    CHECK(access(path, F_OK) != 0); /* only when asked */
    kd_native_free(n);
    kd_native_options o = {.perf_map = true};
    n                   = kd_native_new(NULL, &o, &f);
    CHECK(kd_native_load(n, code, 2, NULL, NULL, &f));
    FILE *map = fopen(path, "r");
    if (CHECK(map != NULL)) {
        for (int i = 0; i < 2; i++) {
            char want[300];
            snprintf(want, sizeof want, "%llx %zx %s\n", (unsigned long long)(uintptr_t)code[i].at, code[i].len,
                     code[i].name);
            CHECK(fgets(line, sizeof line, map) && !strcmp(line, want));
        }
        CHECK(!fgets(line, sizeof line, map));
        fclose(map);
    }
    kd_native_free(n);
    unlink(path);
    CHECK_EQ(symlink("/etc/passwd", path), 0); /* someone else's link is not followed: a warning, and it works */
    n = kd_native_new(NULL, &o, &f);
    CHECK(kd_native_load(n, code, 2, NULL, NULL, &f));
    CHECK_EQ(call(code[0].at), 3);
    kd_native_free(n);
    unlink(path);
    CHECK_EQ(f.code, 0);
}

int main(void) {
    uint8_t bytes[16];
    if (!function_of(bytes, 0)) SKIP("no code for this machine's instruction set is written here");
    RUN(batches);
    RUN(reclaimed);
    RUN(gone_is_gone);
    RUN(memory_runs_out);
    RUN(denied);
    RUN(environment);
    RUN(perf_map);
    return check_result();
}
