/* Code made by the encoder runs on this CPU; its features are those the system reports; debuggers see through it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"
#include "check.h"
#include "device/native.h"
#include "koine.h"
#include "target/x86/code.h"
#include "target/x86/cpu.h"
#include "target/x86/unwind.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- features -------------------------------------------------------------------------------------------------- */

static void as_the_system_says(void) {
    uint64_t have = kx_cpu_features();
    FILE    *info = fopen("/proc/cpuinfo", "r");
    char     line[8192];
    CHECK(have & KX_HAS(BASE));
    while (info && fgets(line, sizeof line, info)) {
        if (strncmp(line, "flags", 5) != 0) continue;
        line[strcspn(line, "\n")] = ' ';
        for (int i = 1; i < KXC_NFEATURES; i++) {
            char        word[40];
            const char *name = i == KXC_LZCNT ? "abm" : i == KXC_PREFETCHW ? "3dnowprefetch" : kx_feature_text[i];
            snprintf(word, sizeof word, " %s ", name);
            bool said = strstr(line, word) != NULL;
            if (i == KXC_LZCNT && !said) continue; /* it needs nothing of the system, and some leave it out */
            if (!check_eq(have >> i & 1, said, name, __FILE__, __LINE__)) break;
        }
        break;
    }
    if (info)
        fclose(info);
    else
        printf("left out: /proc/cpuinfo\n");
}

/* ---- functions ------------------------------------------------------------------------------------------------- */

typedef struct bench {
    kn_fault   f;
    kx_code    c;
    kd_native *n;
} bench;

static void begin(bench *b, uint64_t features) {
    memset(b, 0, sizeof *b);
    kd_native_options o = {.fill = 0xcc};
    kx_code_init(&b->c, NULL, features, &b->f);
    b->n = kd_native_new(NULL, &o, &b->f);
}
static void put(bench *b, kx_ins ins) {
    CHECK(kx_emit(&b->c, &ins));
}
static void *load(bench *b) {
    put(b, kx_i(KX_RET, 0));
    CHECK(kx_code_end(&b->c));
    kd_code code = {.name = "f", .bytes = b->c.bytes, .len = b->c.len, .align = b->c.alignment};
    CHECK(kd_native_load(b->n, &code, 1, NULL, NULL, &b->f));
    return code.at;
}
static void end(bench *b) {
    CHECK_EQ(b->f.code, 0);
    kx_code_free(&b->c);
    kd_native_free(b->n);
}

/* rax = sum of the rsi 64-bit numbers at rdi */
static void loop(void) {
    bench b;
    begin(&b, KX_LEVEL_AVX2);
    int32_t head = kx_label(&b.c), out = kx_label(&b.c);
    put(&b, kx_i2(KX_XOR, 4, KX_RAX, KX_RAX));
    put(&b, kx_i2(KX_XOR, 4, KX_RCX, KX_RCX));
    put(&b, kx_i2(KX_TEST, 8, KX_RSI, KX_RSI));
    kx_emit_jcc(&b.c, KXCC_LE, out);
    kx_align(&b.c, 32);
    kx_bind(&b.c, head);
    put(&b, kx_mem_index(kx_i2(KX_ADD, 8, KX_RAX, KX_IN_MEM), KX_RDI, KX_RCX, 8, 0));
    put(&b, kx_imm(kx_i1(KX_ADDI, 8, KX_RCX), 1));
    put(&b, kx_i2(KX_CMP, 8, KX_RCX, KX_RSI));
    kx_emit_jcc(&b.c, KXCC_L, head);
    kx_bind(&b.c, out);
    void *at = load(&b);
    int64_t (*fn)(const int64_t *, int64_t);
    memcpy(&fn, &at, sizeof fn);
    int64_t v[1000], sum = 0;
    for (int i = 0; i < 1000; i++) sum += v[i] = (int64_t)i * i * 12345678901;
    CHECK_EQ(fn(v, 1000), sum);
    CHECK_EQ(fn(v, 1), v[0]);
    CHECK_EQ(fn(v, 0), 0);
    end(&b);
}

/* y[i] = x[i] * 2 + constants, a masked tail of m lanes: zmm, or ymm with vmaskmov */
static void vectors(void) {
    for (int wide = 0; wide < 2; wide++) {
        uint64_t want = wide ? KX_LEVEL_AVX512 : KX_LEVEL_AVX2;
        if ((kx_cpu_features() & want) != want) {
            printf("left out: this CPU has no %s\n", wide ? "AVX-512" : "AVX2");
            continue;
        }
        int   lanes = wide ? 16 : 8, size = lanes * 4;
        float add[16], x[32], y[32], two = 2;
        for (int i = 0; i < 16; i++) add[i] = (float)i / 8;
        for (int i = 0; i < 32; i++) x[i] = (float)i;
        for (int m = 0; m <= lanes; m++) {
            bench b;
            begin(&b, want);
            int32_t k = kx_constant(&b.c, add, (size_t)size), t = kx_constant(&b.c, &two, 4);
            int32_t lane_mask[16] = {0};
            for (int i = 0; i < m; i++) lane_mask[i] = -1;
            int32_t mask = kx_constant(&b.c, lane_mask, (size_t)size);
            put(&b, kx_mem_label(kx_i2(KX_VMOVUPS, size, 2, KX_IN_MEM), k, 0));
            if (wide) {
                put(&b, kx_imm(kx_i1(KX_MOVRI, 4, KX_RAX), (1 << m) - 1));
                put(&b, kx_i2(KX_KMOVW_KR, 0, 1, KX_RAX));
                put(&b, kx_masked(kx_mem(kx_i2(KX_VMOVUPS, size, 17, KX_IN_MEM), KX_RDI, 0), 1, true));
                put(&b, kx_bcast(kx_mem_label(kx_i3(KX_VFMADD132PS, size, 17, 2, KX_IN_MEM), t, 0)));
                put(&b, kx_masked(kx_mem(kx_i2(KX_VMOVUPS_ST, size, KX_IN_MEM, 17), KX_RSI, 0), 1, false));
            } else {
                put(&b, kx_mem_label(kx_i2(KX_VMOVUPS, size, 5, KX_IN_MEM), mask, 0));
                put(&b, kx_mem(kx_i3(KX_VMASKMOVPS, size, 15, 5, KX_IN_MEM), KX_RDI, 0));
                put(&b, kx_mem_label(kx_i2(KX_VBROADCASTSS, size, 3, KX_IN_MEM), t, 0));
                put(&b, kx_i3(KX_VFMADD132PS, size, 15, 2, 3));
                put(&b, kx_mem(kx_i3(KX_VMASKMOVPS_ST, size, KX_IN_MEM, 5, 15), KX_RSI, 0));
            }
            put(&b, kx_i(KX_VZEROUPPER, 0));
            void *at = load(&b);
            void (*fn)(const float *, float *);
            memcpy(&fn, &at, sizeof fn);
            for (int i = 0; i < 32; i++) y[i] = -1;
            fn(x, y);
            int good = 0;
            for (int i = 0; i < 32; i++) good += y[i] == (i < m ? x[i] * 2 + add[i] : -1);
            CHECK_EQ(good, 32);
            end(&b);
        }
    }
}

/* ---- debuggers ------------------------------------------------------------------------------------------------- */

void                           jit_stop(void);
static int                     stopped;
__attribute__((noinline)) void jit_stop(void) {
    stopped++;
}

/* A function that calls jit_stop, with a frame by rbp or of fixed size, and what undoes it. */
static void framed(bench *b, kx_unwind *u, bool by_rbp) {
    int64_t stop;
    void (*fn)(void) = jit_stop;
    memcpy(&stop, &fn, sizeof stop);
    kx_unwind_init(u);
    if (by_rbp) {
        put(b, kx_i1(KX_PUSH, 0, KX_RBP));
        kx_unwind_frame(u, (uint32_t)b->c.len, KX_RSP, 16);
        kx_unwind_saved(u, (uint32_t)b->c.len, KX_RBP, -16);
        put(b, kx_i2(KX_MOV, 8, KX_RBP, KX_RSP));
        kx_unwind_frame(u, (uint32_t)b->c.len, KX_RBP, 16);
        put(b, kx_imm(kx_i1(KX_ANDI, 8, KX_RSP), -64));
    }
    put(b, kx_i1(KX_PUSH, 0, KX_RBX));
    if (!by_rbp) {
        kx_unwind_frame(u, (uint32_t)b->c.len, KX_RSP, 16);
        kx_unwind_saved(u, (uint32_t)b->c.len, KX_RBX, -16);
    }
    put(b, kx_imm(kx_i1(KX_SUBI, 8, KX_RSP), by_rbp ? 56 : 512)); /* aligned for the call */
    if (!by_rbp) kx_unwind_frame(u, (uint32_t)b->c.len, KX_RSP, 528);
    put(b, kx_mov_const(KX_RBX, 0));
    put(b, kx_mov_const(KX_RAX, stop));
    put(b, kx_i1(KX_CALL_R, 0, KX_RAX));
    put(b, kx_imm(kx_i1(KX_ADDI, 8, KX_RSP), by_rbp ? 56 : 512));
    if (!by_rbp) kx_unwind_frame(u, (uint32_t)b->c.len, KX_RSP, 16);
    put(b, kx_i1(KX_POP, 0, KX_RBX));
    if (by_rbp) {
        put(b, kx_i2(KX_MOV, 8, KX_RSP, KX_RBP));
        put(b, kx_i1(KX_POP, 0, KX_RBP));
    } else {
        kx_unwind_restored(u, (uint32_t)b->c.len, KX_RBX);
    }
    kx_unwind_frame(u, (uint32_t)b->c.len, KX_RSP, 8);
    put(b, kx_i(KX_RET, 0));
}

/* What GDB is run on: both functions, one after the other, announced. */
__attribute__((noinline)) static int run_framed(void) {
    bench     b[2];
    kx_unwind u[2];
    kd_frame  frame[2];
    kd_code   code[2];
    kn_fault  f = {0};
    for (int i = 0; i < 2; i++) {
        begin(&b[i], KX_LEVEL_AVX2);
        framed(&b[i], &u[i], i == 0);
        if (!kx_code_end(&b[i].c) || !kx_unwind_end(&u[i], &frame[i])) return 1;
        code[i]       = (kd_code){.name = i ? "jit_by_size" : "jit_by_rbp", .bytes = b[i].c.bytes, .len = b[i].c.len};
        code[i].frame = &frame[i];
    }
    kd_native_options o = {.debugger = true, .fill = 0xcc};
    kd_native        *n = kd_native_new(NULL, &o, &f);
    if (!n || !kd_native_load(n, code, 2, NULL, NULL, &f)) return 2;
    for (int i = 0; i < 2; i++) {
        void (*fn)(void);
        memcpy(&fn, &code[i].at, sizeof fn);
        fn();
        kd_native_unload(n, code[i].at);
        end(&b[i]);
    }
    kd_native_free(n);
    return stopped == 2 ? 0 : 3;
}

static bool says(const char *text, const char *what) {
    return check_true(strstr(text, what) != NULL, what, __FILE__, __LINE__);
}

static char *output_of(const char *command) {
    static char text[65536];
    FILE       *in = popen(command, "r");
    size_t      n  = in ? fread(text, 1, sizeof text - 1, in) : 0;
    text[n]        = 0;
    if (in) pclose(in);
    return text;
}

static void object(void) {
    if (system("readelf --version >/dev/null 2>&1") != 0) {
        printf("left out: no readelf\n");
        return;
    }
    bench     b;
    kx_unwind u;
    kd_frame  frame;
    begin(&b, KX_LEVEL_AVX2);
    framed(&b, &u, true);
    CHECK(kx_code_end(&b.c) && kx_unwind_end(&u, &frame));
    uint8_t place[64];
    kd_code code = {.name = "jit_by_rbp", .bytes = b.c.bytes, .len = b.c.len, .frame = &frame, .at = place};
    size_t  size;
    void   *elf    = kd_debug_object(NULL, &code, &size, &b.f);
    char    path[] = "/tmp/koine-elf-XXXXXX", command[200], want[64];
    int     fd     = mkstemp(path);
    if (CHECK(elf && fd >= 0 && write(fd, elf, size) == (ssize_t)size)) {
        snprintf(command, sizeof command, "readelf -W -h -S -s --debug-dump=frames %s 2>&1", path);
        char *text = output_of(command);
        CHECK(!strstr(text, "Warning") && !strstr(text, "Error"));
        says(text, "X86-64");
        says(text, "FUNC    GLOBAL DEFAULT    1 jit_by_rbp");
        says(text, "DW_CFA_def_cfa: r7 (rsp) ofs 8");
        says(text, "DW_CFA_offset: r16 (rip) at cfa-8");
        says(text, "DW_CFA_offset: r6 (rbp) at cfa-16");
        says(text, "DW_CFA_def_cfa: r6 (rbp) ofs 16");
        snprintf(want, sizeof want, "pc=%016llx..%016llx", (unsigned long long)(uintptr_t)place,
                 (unsigned long long)((uintptr_t)place + b.c.len));
        says(text, want);
    }
    if (fd >= 0) close(fd);
    unlink(path);
    kn_free(NULL, elf, size);
    end(&b);
}

static void unwind_limits(void) {
    kx_unwind u;
    kd_frame  frame;
    kx_unwind_init(&u);
    for (int i = 0; i < 300; i++) kx_unwind_frame(&u, (uint32_t)i, KX_RSP, 8);
    CHECK(!kx_unwind_end(&u, &frame));
    kx_unwind_init(&u);
    kx_unwind_saved(&u, 1, KX_RBX, -12);
    CHECK(!kx_unwind_end(&u, &frame));
    kx_unwind_init(&u);
    kx_unwind_frame(&u, 10, KX_RBX, 8);
    kx_unwind_frame(&u, 9, KX_RBX, 8);
    CHECK(!kx_unwind_end(&u, &frame));
    kx_unwind_init(&u);
    kx_unwind_remember(&u, 100);
    kx_unwind_frame(&u, 100000, KX_RBP, 1 << 20);
    kx_unwind_recall(&u, 100001);
    CHECK(kx_unwind_end(&u, &frame));
}

/* What GDB says of this program in `mode`; NULL, and why: it cannot be asked. `until`: how one knows that it ran. */
static char *gdb_on_self(const char *setting, const char *commands, const char *mode, const char *until) {
    char    self[1024], command[1600];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0 || system("gdb --version >/dev/null 2>&1") != 0) {
        printf("left out: no gdb\n");
        return NULL;
    }
    self[n] = 0;
    snprintf(command, sizeof command,
             "%s DEBUGINFOD_URLS= gdb -nx -batch -ex 'set debuginfod enabled off' %s --args '%s' %s 2>&1", setting,
             commands, self, mode);
    char *text = output_of(command);
    if (strstr(text, until)) return text;
    printf("left out: gdb cannot run programs here\n");
    return NULL;
}

static void gdb_sees_through(void) {
    const char *text = gdb_on_self("ASAN_OPTIONS=detect_leaks=0",
                                   "-ex 'break jit_stop' -ex run -ex bt -ex continue -ex bt -ex continue", "framed",
                                   "Breakpoint 1, ");
    if (!text) return;
    static const char *const frames[2] = {" in jit_by_rbp ()", " in jit_by_size ()"};
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(text, frames[i]);
        if (!check_true(at != NULL, frames[i], __FILE__, __LINE__)) continue;
        const char *next = strstr(at, "run_framed ("), *top = strstr(at, "main (");
        CHECK(next && top && next < top);
    }
    if (!check_true(strstr(text, "exited normally") != NULL, "exited normally", __FILE__, __LINE__))
        printf("%s\n", text);
}

/* A kernel of the runtime's that reads what it may not. */
static int run_torn(void) {
    kn_config   cfg = {.target = "x86", .threads = 1, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    kn_dim      n   = 1024;
    void       *at  = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return 1;
    kn_scope  *s = kn_begin(kn);
    kn_tensor *y = kn_keep(kn_sin(kn_wrap(kn, at, KN_F32, &n, 1)));
    mprotect(at, 4096, PROT_NONE);
    return kn_end(s) != KN_OK || !y;
}

static void gdb_sees_kernels(void) {
    const char *text = gdb_on_self("KOINE_JIT=gdb ASAN_OPTIONS=detect_leaks=0:handle_segv=0", "-ex run -ex bt", "torn",
                                   "SIGSEGV");
    if (!text) return;
    const char *at = strstr(text, " in E_1024 ()"), *top = strstr(text, "main (");
    if (!CHECK(at && top && at < top)) printf("%s\n", text);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "framed")) return run_framed();
    if (argc > 1 && !strcmp(argv[1], "torn")) return run_torn();
    if (!kx_cpu_features()) SKIP("no x86-64");
    RUN(as_the_system_says);
    if ((kx_cpu_features() & KX_LEVEL_AVX2) != KX_LEVEL_AVX2) SKIP("this CPU has no AVX2: nothing was run");
    RUN(loop);
    RUN(vectors);
    RUN(object);
    RUN(unwind_limits);
    RUN(gdb_sees_through);
    RUN(gdb_sees_kernels);
    return check_result();
}
