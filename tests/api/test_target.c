/* test_target.c - the target x86 through the public functions: it needs no compiler, its results are those of the C
 * target, and where it may not run code the C target does the work, and the log says so. */
#define _GNU_SOURCE
#include "check.h"
#include "koine.h"
#include "target/target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 37, IN = 50, OUT = 19 };

static char said[512];
static void note(void *user, const char *line) {
    (void)user;
    snprintf(said, sizeof said, "%s", line);
}

/* softmax(relu(x w + b)) and the gradient of its mean square by w. */
static bool run(const char *target, const char *cc, float *y, float *dw, kn_stats *stats) {
    kn_config   cfg = {.target = target, .cc = cc, .threads = 2, .seed = 7, .log = note, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    kn_scope   *s   = kn_begin(kn);
    kn_tensor  *x = kn_randn(kn, KN_DIMS(ROWS, IN)), *w = kn_randn(kn, KN_DIMS(IN, OUT)),
              *b = kn_randn(kn, KN_DIMS(OUT));
    kn_requires_grad(w);
    kn_tensor *v = kn_softmax(kn_relu(kn_add(kn_matmul(x, w), b)), 1), *loss = kn_mean(kn_square(v));
    kn_tensor *g[1];
    bool       ok = CHECK_EQ(kn_backward(loss), KN_OK);
    g[0]          = kn_grad(w);
    ok = ok && CHECK_EQ(kn_read(v, KN_F32, y, ROWS * OUT * sizeof *y), KN_OK) &&
         CHECK_EQ(kn_read(g[0], KN_F32, dw, IN * OUT * sizeof *dw), KN_OK);
    if (!ok) fprintf(stderr, "%s: %s\n", target, kn_error(kn));
    stats->size = sizeof *stats;
    kn_get_stats(kn, stats);
    kn_end(s);
    kn_close(kn);
    return ok;
}

static float y[2][ROWS * OUT], dw[2][IN * OUT];

static void compare(void) {
    for (int i = 0; i < ROWS * OUT; i++)
        if (!CHECK_NEAR(y[1][i], y[0][i], 1e-5)) return;
    for (int i = 0; i < IN * OUT; i++)
        if (!CHECK_NEAR(dw[1][i], dw[0][i], 1e-5)) return;
}

static void test_same_results(void) {
    kn_stats s;
    if (!run("c", NULL, y[0], dw[0], &s)) return;
    said[0] = 0;
    if (run("x86", "/nonexistent/cc", y[1], dw[1], &s)) compare();
    CHECK(s.kernels_compiled > 0);
    CHECK_STR(said, "");
    if (run("x86:avx2", "/nonexistent/cc", y[1], dw[1], &s)) compare();
    if (run("x86:avx2:regs=4", "/nonexistent/cc", y[1], dw[1], &s)) compare();
}

/* PR_SET_MDWE: no memory becomes executable that was not. In a child, for it can not be undone. */
static void test_denied(void) {
#ifdef PR_SET_MDWE
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        kn_stats s;
        if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)) _exit(77);
        bool ok = run("x86", NULL, y[1], dw[1], &s);
        compare();
        CHECK(strstr(said, "the C target compiles this program") != NULL);
        _exit(ok ? check_result() : 1);
    }
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
#endif
}

static void test_names(void) {
    kt_choice c;
    kn_fault  f = {0};
    CHECK(kt_find("x86:avx512:regs=8", &c, &f) && c.regs == 8);
    CHECK(kt_find("x86:avx2", &c, &f));
    CHECK(kt_runs(&c, &f));
    bool wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    CHECK(kt_find(NULL, &c, &f) && kt_runs(&c, &f));
    CHECK(kt_find("x86:avx512", &c, &f));
    CHECK_EQ(kt_runs(&c, &f), wide);
    CHECK(wide || strstr(f.text, "x86:avx2 may run"));
    f = (kn_fault){0};
    CHECK(!kt_find("x86:avx3", &c, &f) && strstr(f.text, ":avx2"));
    f = (kn_fault){0};
    CHECK(!kt_find("arm", &c, &f) && strstr(f.text, "no target \"arm\""));
}

int main(void) {
#if KN_TARGET_X86
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) SKIP("this CPU has no AVX2");
    RUN(test_names);
    RUN(test_same_results);
    RUN(test_denied);
#else
    (void)run, (void)compare;
    SKIP("this build has no x86-64 target");
#endif
    return check_result();
}
