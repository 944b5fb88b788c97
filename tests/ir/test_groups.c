/* Threads that work together, on the interpreter: LOCAL storage between barriers, in a graph and in a list, in loops;
 * matrices whose parts threads hold; and what never meets. */
#include "check.h"
#include "failing.h"
#include "ir/run.h"

#include <stdlib.h>

static void runs(const char *text, const kn_array *slots, int nslots) {
    kn_fault f = {0};
    if (!CHECK(run_text(text, slots, nslots, NULL, &f))) fprintf(stderr, "  %s\n%s\n", f.text, text);
}
#define F32(a) \
    { (a), (int64_t)(sizeof(a) / sizeof((a)[0])), KN_F32 }

static void reversed_in_groups(void) {
    float    in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {0};
    kn_array s[] = {F32(out), F32(in)};
    runs("%o = PARAM {slot=0} [8]\n%x = PARAM {slot=1} [8]\n%g = SPECIAL {\"gidx0\"} 2\n%l = SPECIAL {\"lidx0\"} 4\n"
         "%i = ADD (MUL %g 4) %l\n%t = BUFFER {slot=0, size=4, space=LOCAL}\n"
         "%s = STORE (INDEX %t %l) (LOAD (INDEX %x %i))\n"
         "%v = LOAD (INDEX (AFTER %t (BARRIER %s)) (SUB 3 %l))\n%r = SINK (STORE (INDEX %o %i) %v)",
         s, 2);
    for (int i = 0; i < 8; i++) CHECK_NEAR(out[i], in[i / 4 * 4 + 3 - i % 4], 0);
    /* two axes of threads; lidx0 counts first */
    runs("%o = PARAM {slot=0} [8]\n%x = PARAM {slot=1} [8]\n%l = SPECIAL {\"lidx0\"} 4\n%m = SPECIAL {\"lidx1\"} 2\n"
         "%i = ADD (MUL %m 4) %l\n%t = BUFFER {slot=0, size=8, space=LOCAL}\n"
         "%s = STORE (INDEX %t %i) (LOAD (INDEX %x %i))\n"
         "%v = LOAD (INDEX (AFTER %t (BARRIER %s)) (SUB 7 %i))\n%r = SINK (STORE (INDEX %o %i) %v)",
         s, 2);
    for (int i = 0; i < 8; i++) CHECK_NEAR(out[i], in[7 - i], 0);
}

/* Sums of all up to a thread's own, by doubling: each round reads what other threads wrote in the round before. */
#define PREFIX \
    "%o = PARAM {slot=0} [8]\n%x = PARAM {slot=1} [8]\n%l = SPECIAL {\"lidx0\"} 8\n" \
    "%t = BUFFER {slot=0, size=8, space=LOCAL}\n%p = INDEX %t %l\n%px = INDEX %x %l\n%v0 = LOAD %px\n" \
    "%w0 = STORE %p %v0\n%b0 = BARRIER %w0\n%i = RANGE {id=0} 3\n%d = SHL 1 %i\n%ti = AFTER %t %b0 %i\n" \
    "%far = CMPGE %l %d\n%at = MAX 0 (SUB %l %d)\n%pa = INDEX %ti %at\n%va = LOAD %pa 0.0:f32 %far\n" \
    "%pi = INDEX %ti %l\n%vi = LOAD %pi\n%sum = ADD %va %vi\n%got = GROUP %sum\n"  \
    "%b1 = BARRIER %got\n%t1 = AFTER %ti %b1\n"                                                                    \
    "%p1 = INDEX %t1 %l\n%w1 = STORE %p1 %sum\n%b2 = BARRIER %w1\n%e = END %b2 %i\n%te = AFTER %t %e\n" \
    "%pe = INDEX %te %l\n%ve = LOAD %pe\n%po = INDEX %o %l\n%w = STORE %po %ve\n"

static void prefix_sums(void) {
    static const char *const forms[] = {
        PREFIX "%r = SINK %w", PREFIX
        "%r = LINEAR %o %x %l %t %p %px %v0 %w0 %b0 %i %d %ti %far %at %pa %va %pi %vi %sum %got %b1 %t1 %p1 %w1 %b2 "
        "%e %te %pe %ve %po %w"};
    for (int k = 0; k < 2; k++) {
        float    in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {0}, sum = 0;
        kn_array s[] = {F32(out), F32(in)};
        runs(forms[k], s, 2);
        for (int i = 0; i < 8; i++) CHECK_NEAR(out[i], sum += in[i], 0);
    }
}

static void never_meet(void) {
    float    out[8] = {0};
    kn_array s[]    = {F32(out)};
#define HEAD "%o = PARAM {slot=0} [8]\n%l = SPECIAL {\"lidx0\"} 8\n%p = INDEX %o %l\n%g = CMPLT %l 4\n"
    run_refused(HEAD
                "%i = IF %g\n%b = BARRIER\n%e = ENDIF %i\n%s = STORE %p 1.0:f32\n%r = LINEAR %o %l %p %g %i %b %e %s",
                s, 1, KN_ERR_ARG, "not all of its threads come here");
    run_refused(HEAD "%n = RANGE {id=0} (ADD %l 1)\n%b = BARRIER (GROUP %n)\n%e = END %b %n\n%r = SINK %e", s, 1,
                KN_ERR_ARG, "not all of its threads come here");
    run_refused(HEAD "%b = BARRIER\n%r = LOAD (INDEX (AFTER %o %b) %l)", s, 1, KN_ERR_ARG,
                "threads that meet have effects");
    run_refused("%l = SPECIAL {\"lidx0\"} 2000\n%b = BARRIER\n%r = SINK (END %b (RANGE {id=1} %l))", NULL, 0,
                KN_ERR_UNSUPPORTED, "more than 1024 threads");
#undef HEAD
    runs("%l = SPECIAL {\"lidx0\"} 0\n%b = BARRIER\n%r = SINK (END %b (RANGE {id=1} %l))", NULL, 0);
}

/* C = A B + C, all of it in one thread's registers; f16 times f16 is summed as f32. */
static void one_thread_matrix(void) {
    float    a[8], b[6], c[12], want[12];
    kn_array s[] = {F32(c), F32(a), F32(b)};
    for (int i = 0; i < 12; i++) {
        if (i < 8) a[i] = (float)(i - 3) / 2;
        if (i < 6) b[i] = (float)(2 * i - 5);
        want[i] = c[i] = (float)(i % 5);
    }
    for (int m = 0; m < 4; m++)
        for (int n = 0; n < 3; n++)
            for (int k = 0; k < 2; k++) want[m * 3 + n] += a[m * 2 + k] * b[k * 3 + n];
    runs("%c = PARAM {slot=0} [12]\n%a = PARAM {slot=1} [8]\n%b = PARAM {slot=2} [6]\n"
         "%w = WMMA {name=\"own\", n=3, m=4, k=2, dtype_in=f16} (CAST {f16} %a) (CAST {f16} %b) (LOAD %c)\n"
         "%r = SINK (STORE %c %w)",
         s, 3);
    for (int i = 0; i < 12; i++) CHECK_NEAR(c[i], want[i], 0);
    run_refused("%c = PARAM {slot=0} [12]\n%a = PARAM {slot=1} [8]\n%b = PARAM {slot=2} [6]\n"
                "%w = WMMA {name=\"own\", n=3, m=4, k=2, threads=4} %a %b %c\n%r = SINK (STORE %c %w)",
                s, 3, KN_ERR_ARG, "lidx0");
    run_refused("%c = PARAM {slot=0} [12]\n%a = PARAM {slot=1} [8]\n%b = PARAM {slot=2} [6]\n"
                "%w = WMMA {name=\"own\", n=3, m=4, k=3} %a %b %c\n%r = SINK (STORE %c %w)",
                s, 3, KN_ERR_ARG, "do not make up matrices");
}

/* Two warps of four threads: each adds the products of 4x2 by 2x4 tiles along a loop of three to tiles of its own. */
static void warps(void) {
    enum { W = 2, M = 4, N = 4, K = 2, T = 3 };
    float    a[W * T * M * K], b[T * K * N], c[W * M * N] = {0}, want[W * M * N] = {0};
    kn_array s[] = {F32(c), F32(a), F32(b)};
    for (int i = 0; i < W * T * M * K; i++) a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < T * K * N; i++) b[i] = (float)(i % 5 - 1);
    for (int w = 0; w < W; w++)
        for (int t = 0; t < T; t++)
            for (int i = 0; i < M * N * K; i++)
                want[w * M * N + i / K] +=
                    a[((w * T + t) * M + i / K / N) * K + i % K] * b[(t * K + i % K) * N + i / K % N];
    runs("%c = PARAM {slot=0} [32]\n%a = PARAM {slot=1} [48]\n%b = PARAM {slot=2} [24]\n%l = SPECIAL {\"lidx0\"} 8\n"
         "%w = IDIV %l 4\n%t = MOD %l 4\n%i = RANGE {id=0, type=REDUCE} 3\n%acc = BUFFER {slot=1, size=4, space=REG}\n"
         "%z = STORE %acc 0.0:f32\n"
         "%ia = ADD (MUL (ADD (MUL %w 3) %i) 8) (MUL %t 2)\n%fa = LOAD (INDEX %a (ADD %ia [0, 1]))\n"
         "%ib = ADD (MUL %i 8) (MUL %t 2)\n%fb = LOAD (INDEX %b (ADD %ib [0, 1]))\n"
         "%old = LOAD (AFTER %acc %z %i)\n"
         "%d = WMMA {name=\"tile\", n=4, m=4, k=2, threads=4, axes=(1, 0, 4, 1, 2)} %fa %fb %old\n"
         "%e = END (STORE %acc %d) %i\n%ic = ADD (MUL %l 4) [0, 1, 2, 3]\n"
         "%r = SINK (STORE (INDEX %c %ic) (LOAD (AFTER %acc %e)))",
         s, 3);
    for (int i = 0; i < W * M * N; i++) CHECK_NEAR(c[i], want[i], 0);
    run_refused("%a = STACK 1.0:f32 2.0:f32\n%l = SPECIAL {\"lidx0\"} 6\n%o = PARAM {slot=0} [32]\n"
                "%d = WMMA {n=4, m=4, k=2, threads=4} %a %a (STACK 0.0:f32 0.0:f32 0.0:f32 0.0:f32)\n"
                "%r = SINK (STORE (INDEX %o %l) (INDEX %d 1))",
                s, 1, KN_ERR_ARG, "whole number of warps");
}

/* Every allocation fails in turn: an error, and nothing leaks. */
static void out_of_memory(void) {
    static const char text[] = PREFIX "%d2 = WMMA {n=2, m=2, k=2, threads=4} %ve %ve %ve\n%s2 = STORE %po %d2\n"
                                      "%r = SINK %w %s2";
    kn_alloc          a      = {failing, NULL};
    bool              done   = false;
    for (int64_t n = 0; !done && n < 2000; n++) {
        float    in[8] = {0}, out[8];
        kn_array s[]   = {F32(out), F32(in)};
        mem.left       = INT64_MAX;
        mem.live       = 0;
        kn_graph *g    = kg_new(&a);
        kn_fault  f    = {0};
        kn_ref    root = kg_parse(g, text, strlen(text), &f);
        mem.left       = n;
        done           = CHECK(root != 0) && kn_eval(g, root, s, 2, NULL, NULL, NULL, &f);
        if (!done && !CHECK_EQ(f.code, KN_ERR_MEMORY)) fprintf(stderr, "  %s\n", f.text);
        mem.left = INT64_MAX;
        kg_free(g);
        if (!CHECK_EQ(mem.live, 0)) return;
    }
    CHECK(done);
}

int main(void) {
    RUN(reversed_in_groups);
    RUN(prefix_sums);
    RUN(never_meet);
    RUN(one_thread_matrix);
    RUN(warps);
    RUN(out_of_memory);
    return check_result();
}
