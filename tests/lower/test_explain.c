/* test_explain.c - what is weighed is told: every value that had a choice, what each place costs, why a place is out of
 * the question; every option list, what it costs, what was refused. */
#include "check.h"
#include "lower/pipeline.h"

/* Lowers the text program through Optimize, for a target (NULL: the C target); what was written goes to `out`. */
static void explain_for(const char *target, const char *text, const char *options, kn_str *out) {
    kn_fault   f = {0};
    kn_graph  *g = kg_new(NULL);
    kl_program p;
    kn_opt     opts[KN_MAX_OPTS];
    kl_run     run = {.stop = KN_STAGE_OPTIMIZE, .opts = options ? opts : NULL};
    int        slot[8], n;
    kn_str_init(out, NULL);
    kl_program_init(&p, NULL);
    p.explain   = out;
    kn_ref root = kg_parse(g, text, strlen(text), &f);
    bool   ok   = root && (!target || kt_find(target, &p.target, &f)) &&
              (!options || ko_parse_opts(options, opts, &run.nopts, &f)) &&
              kl_program_from(&p, g, root, slot, 8, &n, &f) && kl_lower(&p, &run, &f);
    if (!CHECK(ok)) printf("  %s\n", f.text);
    kl_program_free(&p);
    kg_free(g);
}

static void explain(const char *text, const char *options, kn_str *out) {
    explain_for(NULL, text, options, out);
}

/* The line of `text` that has `what` in it, 0-terminated; "" if there is none. */
static const char *line_with(const char *text, const char *what) {
    static char line[512];
    const char *at = strstr(text, what), *from = at;
    *line = 0;
    if (!at) return line;
    while (from > text && from[-1] != '\n') from--;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(from, "\n"), from);
    return line;
}

static void says(const char *text, const char *line, const char *what) {
    if (!CHECK(*line_with(text, line) && strstr(line_with(text, line), what) != NULL))
        printf("  \"%s\" is not in the line of \"%s\": %s\n", what, line, line_with(text, line));
}

static const char softmax[] = "%x = PARAM {slot=0} [4096, 1000]\n%m = REDUCE {op=MAX, axes=(1)} %x\n"
                              "%e = EXP2 (SUB %x %m)\n"
                              "%1 = MUL %e (RECIP (REDUCE {op=ADD, axes=(1)} %e))\n";

static void test_places(void) {
    kn_str s;
    explain(softmax, NULL, &s);
    const char *t = kn_str_c(&s);
    says(t, "machine", "machine avx512: vectors of 64 bytes");
    says(t, "EXP2 f32[4096,1000]", "0: 2.00 ");
    says(t, "EXP2 f32[4096,1000]", " stage");
    says(t, "REDUCE MAX f32[4096,1]", "in place (stage: one use alone)");
    says(t, "MUL f32[4096,1000]", "in kernel 0 (the program stores it)");
    CHECK(strstr(t, " others: views") != NULL);
    /* One form, one text. */
    kn_str again;
    explain(softmax, NULL, &again);
    CHECK_STR(kn_str_c(&again), t);
    kn_str_free(&again);
    kn_str_free(&s);
}

/* A sum that two kernels want, one of them transposed: it is not done twice, and no loop is shared. */
static void test_reasons(void) {
    static const char program[] = "%x = PARAM {slot=0} [300, 200]\n%y = PARAM {slot=1} [64, 300]\n"
                                  "%s = REDUCE {op=ADD, axes=(1)} %x\n"
                                  "%2 = TUPLE (MUL %x %s) (MUL %y (PERMUTE {axes=(1, 0)} %s))\n";
    kn_str s;
    explain(program, NULL, &s);
    const char *t = kn_str_c(&s);
    says(t, "REDUCE ADD f32[300,1]", "in place: a reduction is not done twice");
    says(t, "REDUCE ADD f32[300,1]", "stage: its uses share no loop");
    says(t, "REDUCE ADD f32[300,1]", "in kernel ");
    kn_str_free(&s);
    explain("%x = PARAM {slot=0} [8]\n%1 = LOAD {space=GLOBAL} (MUL %x 2.0:f32)\n", NULL, &s);
    says(kn_str_c(&s), "LOAD f32[8]", "the program stores it");
    kn_str_free(&s);
}

static void test_options(void) {
    kn_str s;
    explain(softmax, NULL, &s);
    const char *t = kn_str_c(&s);
    says(t, "options of kernel 0", "r_4096_1000");
    says(t, "> loop 1 of 1000", "SPLIT:1:32:UPCAST");
    says(t, "as it is", " - ");
    CHECK_STR(line_with(t, "> loop 0"), "");
    kn_str_free(&s);
    explain("%x = PARAM {slot=0} [17, 4]\n%i = RANGE {rank=1} 17\n"
            "%le = NOT (CMPLT (RESHAPE %i [17, 1, 1]) (RESHAPE %i [1, 17, 1]))\n"
            "%1 = REDUCE {op=ADD, axes=(1)} (WHERE %le (RESHAPE %x [1, 17, 4]) 0.0:f32)\n", NULL, &s);
    says(kn_str_c(&s), "      refused ", "a prefix runs along");
    kn_str_free(&s);
    explain(softmax, "SPLIT:1:16:UPCAST", &s);
    says(kn_str_c(&s), "given by hand", "SPLIT:1:16:UPCAST");
    CHECK_STR(line_with(kn_str_c(&s), "as it is"), "");
    kn_str_free(&s);
}

/* What memory sets the pace of goes a line at a time, in halves of registers; what is near, or computes, does not. */
static void test_streams(void) {
    static const struct {
        const char *text, *options;
    } of[] = {
        {"%1 = ADD (PARAM {slot=0} [1048576]) (PARAM {slot=1} [1048576])\n", "  SPLIT:0:16:UPCAST SPLIT:1:8:UPCAST"},
        {"%1 = ADD (PARAM {slot=0, dtype=u8} [4194304]) 3:u8\n", "  SPLIT:0:64:UPCAST SPLIT:1:32:UPCAST"},
        {"%1 = ADD (PARAM {slot=0} [65536]) (PARAM {slot=1} [65536])\n", "  SPLIT:0:32:UPCAST SPLIT:0:2048:THREAD"},
        {"%1 = EXP2 (EXP2 (PARAM {slot=0} [1048576]))\n", "  SPLIT:0:32:UPCAST SPLIT:0:32768:THREAD"},
        {"%1 = CONTIGUOUS (FLIP {axes=(1)} (PARAM {slot=0} [1048576]))\n", "  SPLIT:0:16:UPCAST SPLIT:1:8:UPCAST"},
        {"%1 = NEG (FLIP {axes=(1)} (PARAM {slot=0} [1048576]))\n", "  SPLIT:0:32:UPCAST SPLIT:0:32768:THREAD"},
        {"%1 = CONTIGUOUS (FLIP {axes=(1)} (PARAM {slot=0, dtype=i16} [2097152]))\n",
         "  SPLIT:0:64:UPCAST SPLIT:0:32768:THREAD"},
    };
    for (int i = 0; i < KN_COUNT(of); i++) {
        kn_str s;
        explain(of[i].text, NULL, &s);
        says(kn_str_c(&s), "> loop 0", of[i].options);
        kn_str_free(&s);
    }
}

/* So do long rows with one number each, as a bias; not short ones, nor what is read again. */
static void test_streams_rows(void) {
    static const struct {
        const char *text, *options;
    } of[] = {
        {"%1 = ADD (PARAM {slot=0} [512, 784]) (RESHAPE (PARAM {slot=1} [512]) [512, 1])\n",
         "  SPLIT:1:16:UPCAST SPLIT:2:8:UPCAST"},
        {"%1 = ADD (PARAM {slot=0} [1004, 400]) (RESHAPE (PARAM {slot=1} [1004]) [1004, 1])\n", "  SPLIT:1:32:UPCAST"},
        {"%1 = ADD (PARAM {slot=0} [784]) (RESHAPE (PARAM {slot=1} [512]) [512, 1])\n", "  SPLIT:1:32:UPCAST"},
    };
    for (int i = 0; i < KN_COUNT(of); i++) {
        kn_str s;
        explain(of[i].text, NULL, &s);
        says(kn_str_c(&s), "> loop 1", of[i].options);
        kn_str_free(&s);
    }
}

#define ROWS(DIMS) "(PERMUTE {axes=(1, 0, 2)} (PARAM {slot=0} [" DIMS "]))"

/* Rows of one array in another order, many of which are read before the next of any comes, go by half a register. */
static void test_rows_in_another_order(void) {
    static const struct {
        const char *text, *options;
    } of[] = {
        {"%1 = NEG " ROWS("64, 64, 64") "\n", "  SPLIT:2:8:UPCAST"},
        {"%1 = NEG " ROWS("8, 512, 64") "\n", "  SPLIT:2:64:UPCAST"},
        {"%1 = NEG " ROWS("512, 8, 64") "\n", "  SPLIT:2:64:UPCAST"},
        {"%1 = NEG " ROWS("16, 16, 64") "\n", "  SPLIT:2:64:UPCAST"},
        {"%1 = ADD (PARAM {slot=1} [64, 64, 64]) " ROWS("64, 64, 64") "\n", "  SPLIT:2:64:UPCAST"},
    };
    for (int i = 0; i < KN_COUNT(of); i++) {
        kn_str s;
        explain(of[i].text, NULL, &s);
        says(kn_str_c(&s), "> loop 2", of[i].options);
        kn_str_free(&s);
    }
}

/* Where the code of the lanes that are predicted to take the least comes out longer than predicted, others are tried,
 * by kernels that take long: not for few columns, nor for f32, which come out as predicted. */
static void test_other_lanes(void) {
#if KN_TARGET_X86
    static const struct {
        const char *text;
        bool        others;
    } of[] = {
        {"%1 = LOAD {space=GLOBAL} (PERMUTE {axes=(1, 0)} (PARAM {slot=0, dtype=f8e4m3} [25153, 12]))\n", true},
        {"%1 = LOAD {space=GLOBAL} (PERMUTE {axes=(1, 0)} (PARAM {slot=0, dtype=f8e4m3} [153, 12]))\n", false},
        {"%1 = LOAD {space=GLOBAL} (PERMUTE {axes=(1, 0)} (PARAM {slot=0} [25153, 12]))\n", false},
    };
    for (int i = 0; i < KN_COUNT(of); i++) {
        kn_str s;
        explain_for("x86:avx512", of[i].text, NULL, &s);
        CHECK_EQ(strstr(kn_str_c(&s), "of other lanes, whose code is shorter") != NULL, of[i].others);
        CHECK_EQ(*line_with(kn_str_c(&s), of[i].others ? "> loop 0 of 12" : "> loop 1 of ") != 0, 1);
        kn_str_free(&s);
    }
#endif
}

/* Lanes of a sum whose bound moves with a row go under a mask, though its longest row would leave one of them over. */
static void test_moving_bound(void) {
#if KN_TARGET_X86
    kn_str s;
    explain_for("x86:avx512",
                "%x = PARAM {slot=0} [10, 63]\n"
                "%p = RESHAPE (PAD %x [0, 3] [10, 69]) [10, 1, 69]\n"
                "%e = RESHAPE (EXPAND %p [10, 4, 69]) [10, 276]\n"
                "%w = SHRINK (RESHAPE (SHRINK %e [0, 0] [10, 213]) [10, 3, 71]) [0, 0, 0] [10, 3, 65]\n"
                "%g = EXPAND (RESHAPE (PARAM {slot=1} [10, 65]) [10, 1, 65]) [10, 3, 65]\n"
                "%1 = REDUCE {op=ADD, axes=(2)} (MUL %w %g)\n",
                NULL, &s);
    says(kn_str_c(&s), "> of the sums", "  SPLIT:2:16:GROUP_REDUCE:MASK SPLIT:0:10:THREAD");
    kn_str_free(&s);
#endif
}

/* A product's row of seven is eight lanes under a mask; of four there is nothing to leave out. */
static void test_masked_row(void) {
#if KN_TARGET_X86
    static const struct {
        const char *text, *options;
    } of[] = {{"%a = PARAM {slot=0} [345, 29]\n%b = PARAM {slot=1} [29, 7]\n"
               "%1 = REDUCE {op=ADD, axes=(1)} (MUL (RESHAPE %a [345, 29, 1]) (RESHAPE %b [1, 29, 7]))\n",
               "SPLIT:2:8:UPCAST:MASK"},
              {"%a = PARAM {slot=0} [345, 29]\n%b = PARAM {slot=1} [29, 4]\n"
               "%1 = REDUCE {op=ADD, axes=(1)} (MUL (RESHAPE %a [345, 29, 1]) (RESHAPE %b [1, 29, 4]))\n",
               "SPLIT:2:4:UPCAST SPLIT"}};
    for (int i = 0; i < KN_COUNT(of); i++) {
        kn_str s;
        explain_for("x86:avx512", of[i].text, NULL, &s);
        says(kn_str_c(&s), "loop 1 of ", of[i].options);
        kn_str_free(&s);
    }
#endif
}

/* Beside rows that are put in turns come those that lie in the same lines of what is read. */
static void test_rows_in_line(void) {
#if KN_TARGET_X86
    kn_str s;
    explain_for("x86:avx512",
                "%x = DIV (CAST {f32} (PARAM {slot=0, dtype=u8} [2, 475, 35, 3])) 5.0:f32\n"
                "%1 = LOAD {space=GLOBAL} (PERMUTE {axes=(3, 2, 1, 0)} %x)\n",
                NULL, &s);
    says(kn_str_c(&s), "> loop 2 of 475", "  SWAP:2:3 SPLIT:0:3:UPCAST SPLIT:2:2:UPCAST SPLIT:3:16:UPCAST");
    kn_str_free(&s);
#endif
}

/* Short rows of windows that are joined are the same lanes unjoined where that code is shorter. */
static void test_unjoined(void) {
#if KN_TARGET_X86
    kn_str s;
    explain_for("x86:avx512",
                "%x = RESHAPE (PARAM {slot=0} [580880]) [14522, 1, 8, 1, 5]\n"
                "%e = EXPAND (PAD %x [0, 0, 0, 0, 0] [14522, 1, 9, 1, 6]) [14522, 2, 9, 2, 6]\n"
                "%r = RESHAPE (PAD (RESHAPE %e [14522, 18, 12]) [0, 0, 0] [14522, 20, 14]) [14522, 2, 10, 2, 7]\n"
                "%s = SHRINK %r [0, 0, 0, 0, 0] [14522, 2, 7, 2, 4]\n"
                "%1 = MUL (REDUCE {op=ADD, axes=(1, 3)} %s) 0.25:f32\n",
                NULL, &s);
    says(kn_str_c(&s), "options of kernel", "with no rows joined, whose code is shorter");
    CHECK(!strstr(line_with(kn_str_c(&s), "> loop 2 of 4"), "JOIN"));
    kn_str_free(&s);
#endif
}

/* Rows of a pool at the edges are pieces of their own. */
static void test_edges(void) {
    kn_str s;
    explain("%p = PAD {begin_pads=(0, 1, 0), end_pads=(0, 1, 0)} (PARAM {slot=0} [64, 40, 48])\n"
            "%1 = REDUCE {op=ADD, axes=(2)} (RESHAPE %p [64, 21, 2, 48])\n",
            NULL, &s);
    says(kn_str_c(&s), "> loop 2 of 48", " PEEL:1:1:1 ");
    kn_str_free(&s);
}

/* Costs follow the machine's table, and columns stand one below the other. */
static void test_columns(void) {
    kn_str s;
    explain(softmax, NULL, &s);
    const char *head = strstr(kn_str_c(&s), "values "), *line = strstr(kn_str_c(&s), "%5 ");
    if (CHECK(head && line)) {
        long store = strstr(head, "store") + 5 - head;
        while (line[-1] != '\n') line--;
        CHECK(line[store - 1] == 's' && line[store] == ' '); /* the unit ends where the heading does */
    }
    kn_str_free(&s);
}

/* The lines that docs/explain.md shows are what is printed. */
static void test_book(void) {
    char    *book;
    size_t   size;
    kn_fault f = {0};
    kn_str   s;
    int      lines = 0;
    if (!CHECK(kn_read_file(NULL, KN_TEST_SOURCE "/docs/explain.md", &book, &size, &f))) return;
    explain(softmax, NULL, &s);
    char *at = strstr(book, "```\n"), *end = at ? strstr(at + 4, "```") : NULL;
    for (at += 4; end && at < end; at += strcspn(at, "\n") + 1) {
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        if (strcmp(line, "  ...") != 0 && !CHECK(strstr(kn_str_c(&s), line) != NULL)) printf("  %s\n", line);
        lines++;
    }
    CHECK(lines >= 6);
    kn_str_free(&s);
    kn_free(NULL, book, size + 1);
}

int main(void) {
    RUN(test_places);
    RUN(test_reasons);
    RUN(test_options);
    RUN(test_streams);
    RUN(test_streams_rows);
    RUN(test_rows_in_another_order);
    RUN(test_other_lanes);
    RUN(test_moving_bound);
    RUN(test_rows_in_line);
    RUN(test_masked_row);
    RUN(test_unjoined);
    RUN(test_edges);
    RUN(test_columns);
    RUN(test_book);
    return check_result();
}
