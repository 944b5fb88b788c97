/* test_loops.c - which loops the kernels of a program have: those that its accesses walk. That values stay is the
 * corpus's business (hand_parts.kn). */
#include "text.h"

#include <stdlib.h>

/* The names of the text program's kernels, which list their loops, one after the other; "" where it fails. */
static void kernels_of(const char *text, kn_str *out) {
    kl_program p;
    kn_graph  *g;
    kn_str_init(out, NULL);
    rangeify_text(text, NULL, &p, &g);
    for (size_t k = 0; k < p.nkernel; k++) kn_str_putf(out, k ? " %s" : "%s", p.kernel[k].name);
    kl_program_free(&p);
    kg_free(g);
}

static void has_loops(const char *text, const char *kernels) {
    kn_str s;
    kernels_of(text, &s);
    if (!CHECK(!strcmp(kn_str_c(&s), kernels))) printf("%s  is %s, not %s\n", text, kn_str_c(&s), kernels);
    kn_str_free(&s);
}

static void test_one_of_two(void) {
    has_loops("%x = PARAM {slot=0} [30, 40]\n%1 = TUPLE (NEG %x)\n", "E_1200");
    has_loops("%x = PARAM {slot=0} [30, 40]\n%1 = TUPLE (NEG (PERMUTE {axes=(1, 0)} %x))\n", "E_40_30");
}

/* Of a view that is a RESHAPE of a PERMUTE: its loops are those of the PERMUTE, but that those are one which can be. */
static void test_two_of_one(void) {
    static const char *const turned[] = {"[1200]", "[20, 60]", "[3, 400]"};
    char                     text[200];
    for (int i = 0; i < KN_COUNT(turned); i++) {
        snprintf(text, sizeof text, "%%x = PARAM {slot=0} [40, 30]\n%%1 = TUPLE (NEG (RESHAPE (PERMUTE {axes=(1, 0)} "
                 "%%x) %s))\n", turned[i]);
        has_loops(text, i == 1 ? "E_20_60" : "E_30_40");
    }
    has_loops("%x = PARAM {slot=0} [4, 1300, 3]\n"
              "%p = PERMUTE {axes=(0, 2, 1, 3)} (RESHAPE %x [4, 13, 100, 3])\n"
              "%1 = TUPLE (NEG (RESHAPE %p [4, 1300, 3]))\n",
              "E_4_100_13_3");
    has_loops("%x = PARAM {slot=0} [50, 17]\n"
              "%1 = TUPLE (NEG (RESHAPE (EXPAND (RESHAPE %x [1, 50, 1, 17]) [6, 50, 5, 17]) [25500]))\n",
              "E_6_50_5_17");
}

/* Where the parts are no better: of a row both are shorter than lanes are, gates ask for them, or they leave something
 * over. */
static void test_left_whole(void) {
    has_loops("%x = PARAM {slot=0} [4, 100, 3]\n"
              "%1 = TUPLE (NEG (RESHAPE (PERMUTE {axes=(2, 0, 3, 1)} (RESHAPE %x [2, 2, 100, 3])) [200, 6]))\n",
              "E_100_2_6");
    has_loops("%x = PARAM {slot=0} [40, 30]\n"
              "%1 = TUPLE (PAD (RESHAPE (PERMUTE {axes=(1, 0)} %x) [1200]) [8] [1300])\n", "E_1300");
    has_loops("%x = PARAM {slot=0} [40, 30]\n"
              "%1 = TUPLE (NEG (SHRINK (RESHAPE (PERMUTE {axes=(1, 0)} %x) [1200]) [0] [1190]))\n", "E_1190");
}

int main(void) {
    RUN(test_one_of_two);
    RUN(test_two_of_one);
    RUN(test_left_whole);
    return check_result();
}
