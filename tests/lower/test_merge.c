/* test_merge.c - kernels that read the same values: which merge, which stay apart, and why. That values stay is the
 * corpus's business (hand_siblings.kn). */
#include "text.h"

#include <stdlib.h>

/* Kernels of the text program; what was weighed goes to `out`. */
static int kernels_of(const char *text, kn_str *out) {
    kl_program p;
    kn_graph  *g;
    kn_str_init(out, NULL);
    int n = rangeify_text(text, out, &p, &g) ? (int)p.ncall : -1;
    kl_program_free(&p);
    kg_free(g);
    return n;
}

static void apart(const char *text, int kernels, const char *why) {
    kn_str s;
    if (!CHECK_EQ(kernels_of(text, &s), kernels) || !CHECK(strstr(kn_str_c(&s), why) != NULL))
        printf("%s", kn_str_c(&s));
    kn_str_free(&s);
}

#define X "%x = PARAM {slot=0} [4096, 1000]\n"

static void test_merges(void) {
    static const char *const one[] = {
        X "%1 = TUPLE (ADD %x 1.0:f32) (MUL %x 3.0:f32)\n",
        X "%y = PARAM {slot=1} [4096, 1000]\n%1 = TUPLE (ADD %x %y) (MUL %x %y) (SUB %x 2.0:f32)\n",
        X "%1 = TUPLE (REDUCE {op=ADD, axes=(1)} %x) (REDUCE {op=MAX, axes=(1)} %x)\n",
        X "%1 = TUPLE (REDUCE {op=ADD, axes=(0)} %x) (REDUCE {op=ADD, axes=(0)} (MUL %x %x))\n",
        X "%1 = TUPLE (REDUCE {op=ADD, axes=(1)} %x) (ADD %x 1.0:f32)\n", /* outer loops shared, inner ones not */
    };
    for (int i = 0; i < KN_COUNT(one); i++) {
        kn_str s;
        if (!CHECK_EQ(kernels_of(one[i], &s), 1)) printf("%s%s", one[i], kn_str_c(&s));
        CHECK(strstr(kn_str_c(&s), "merged into kernel 0") != NULL);
        kn_str_free(&s);
    }
}

static void test_stay_apart(void) {
    apart(X "%1 = TUPLE (REDUCE {op=ADD, axes=(1)} %x) (REDUCE {op=ADD, axes=(0)} %x)\n", 2,
          "their outer loops differ");
    apart("%x = PARAM {slot=0} [4, 100000]\n%1 = TUPLE (REDUCE {op=ADD, axes=(1)} %x) (ADD %x 1.0:f32)\n", 2,
          "too few iterations would be left to share out");
    apart("%x = PARAM {slot=0} [100000, 4]\n%1 = TUPLE (REDUCE {op=ADD, axes=(1)} %x) (ADD %x 1.0:f32)\n", 2,
          "the inner loop would be shorter than a vector");
    apart("%a = PARAM {slot=0} [64, 64]\n%b = PARAM {slot=1} [64, 64]\n%c = PARAM {slot=2} [64, 64]\n"
          "%p = REDUCE {op=ADD, axes=(1)} (MUL (RESHAPE %a [64, 64, 1]) (RESHAPE %b [1, 64, 64]))\n"
          "%q = REDUCE {op=ADD, axes=(1)} (MUL (RESHAPE %a [64, 64, 1]) (RESHAPE %c [1, 64, 64]))\n"
          "%1 = TUPLE %p %q\n", 2, "a product wants loops of its own");
    /* The second needs the first's row sums, read across: no order of one kernel serves both. */
    apart("%x = PARAM {slot=0} [64, 64]\n%s = REDUCE {op=ADD, axes=(1)} %x\n"
          "%1 = TUPLE %s (MUL %x (RESHAPE %s [1, 64]))\n", 2, "one waits for the other");
}

/* Seven kernels of three inputs each that share one: 16 streams hold five of them. */
static void test_streams(void) {
    char text[4096] = "%x = PARAM {slot=0} [100000]\n";
    for (int i = 0; i < 7; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "%%a%d = PARAM {slot=%d} [100000]\n%%b%d = PARAM {slot=%d} [100000]\n"
                 "%%r%d = ADD %%x (MUL %%a%d %%b%d)\n", i, 2 * i + 1, i, 2 * i + 2, i, i, i);
    strcat(text, "%1 = TUPLE %r0 %r1 %r2 %r3 %r4 %r5 %r6\n");
    kn_str s;
    CHECK_EQ(kernels_of(text, &s), 2);
    CHECK(strstr(kn_str_c(&s), "more than 16 streams") != NULL);
    kn_str_free(&s);
}

/* Nothing in common, nothing merged: launches alone are no reason. */
static void test_strangers(void) {
    kn_str s;
    CHECK_EQ(kernels_of("%x = PARAM {slot=0} [100]\n%y = PARAM {slot=1} [100]\n"
                        "%1 = TUPLE (ADD %x 1.0:f32) (ADD %y 1.0:f32)\n", &s), 2);
    CHECK(strstr(kn_str_c(&s), "kernels that read the same") == NULL);
    kn_str_free(&s);
}

/* Layers over one row: the row between two products is stored, not what the second multiplies it out to. */
static void test_layers(void) {
    kn_str s;
    CHECK_EQ(kernels_of("%x = PARAM {slot=0} [1, 512, 1]\n%u = PARAM {slot=1} [1, 512, 512]\n"
                        "%v = PARAM {slot=2} [1, 512, 512]\n%h = REDUCE {op=ADD, axes=(1)} (MUL %x %u)\n"
                        "%r = RESHAPE (MAX %h 0.0:f32) [1, 512, 1]\n%1 = REDUCE {op=ADD, axes=(1)} (MUL %r %v)\n", &s),
             2);
    CHECK(strstr(kn_str_c(&s), "MAX f32[1,1,512]") && !strstr(kn_str_c(&s), "MUL f32[1,512,512]"));
    kn_str_free(&s);
}

/* Kernels that differ in their arguments alone are one. */
static void test_equal_kernels(void) {
    static const char text[] =
        "%x = PARAM {slot=0} [1, 64, 1]\n%u = PARAM {slot=1} [1, 64, 64]\n%v = PARAM {slot=2} [1, 64, 64]\n"
        "%w = PARAM {slot=3} [1, 64, 64]\n%1 = REDUCE {op=ADD, axes=(1)} (MUL %x %u)\n"
        "%2 = REDUCE {op=ADD, axes=(1)} (MUL (RESHAPE %1 [1, 64, 1]) %v)\n%3 = MAX (RESHAPE %2 [1, 64, 1]) 0.0:f32\n"
        "%4 = REDUCE {op=ADD, axes=(1)} (MUL %3 %w)\n%5 = REDUCE {op=ADD, axes=(1)} (MUL (RESHAPE %4 [1, 64, 1]) %u)\n";
    static const size_t kernel[] = {0, 1, 0, 0}; /* the second ends with the MAX */
    kl_program p;
    kn_fault   f   = {0};
    kn_graph  *g   = kg_new(NULL);
    kl_run     run = {.stop = KN_STAGE_PLAN};
    int        slot[4], n;
    kl_program_init(&p, NULL);
    kn_ref root = kg_parse(g, text, strlen(text), &f);
    if (!CHECK(root && kl_program_from(&p, g, root, slot, 4, &n, &f) && kl_lower(&p, &run, &f)))
        printf("  %s\n", f.text);
    CHECK_EQ(p.nkernel, 2);
    if (CHECK_EQ(p.ncall, 4))
        for (int i = 0; i < 4; i++) {
            const kl_arg *a = p.call[i].arg;
            CHECK_EQ(p.call[i].kernel, kernel[i]);
            CHECK_EQ(p.kernel[kernel[i]].nargs, 3);
            CHECK(a[0].written && !a[1].written && !a[2].written);
            if (i) CHECK(a[1].temp && a[1].id == p.call[i - 1].arg[0].id);
        }
    kl_program_free(&p);
    kg_free(g);
}

int main(void) {
    RUN(test_merges);
    RUN(test_stay_apart);
    RUN(test_streams);
    RUN(test_strangers);
    RUN(test_layers);
    RUN(test_equal_kernels);
    return check_result();
}
