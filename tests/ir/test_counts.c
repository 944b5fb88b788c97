/* test_counts.c - kernels visit what they must: iterations counted by the interpreter, at three sizes.
 *
 * A gather costs its result, a scatter its result and its inputs, whatever the size of the table; were it the one-hot
 * product that the program spells, the count would grow with the product of both. */
#include "check.h"
#include "dialect/eval.h"
#include "lower/pipeline.h"

#include <stdlib.h>

static uint64_t steps;
static int      loops, loads; /* of the graph that was run: ENDs, loads of PARAMs */
static kn_stage counted = KN_STAGE_RANGEIFY; /* the stage whose graph is run */

static bool count(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    const kl_program *p = user;
    if (stage != counted) return true;
    kn_array     slot[8];
    kn_eval_opts o    = {0};
    kn_ref      *order;
    uint32_t     n;
    if (!kg_reach(g, &root, 1, &order, &n)) return false;
    loops = loads = 0;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref at = kg_op(g, order[i]) == KN_OP_LOAD ? kg_at(g, order[i], 0) : 0;
        loops += kg_op(g, order[i]) == KN_OP_END;
        loads += at && kg_op(g, at) == KN_OP_INDEX && kg_op(g, kg_at(g, at, 0)) == KN_OP_PARAM;
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    int          none = 0;
    for (size_t k = 0; k < p->nparam; k++)
        slot[k] = (kn_array){calloc((size_t)p->param[k].size + 1, (size_t)kn_dsize(p->param[k].dtype)),
                             p->param[k].size, p->param[k].dtype};
    bool ok = kn_eval(g, root, slot, (int)p->nparam, NULL, &none, &o, f);
    for (size_t k = 0; k < p->nparam; k++) free(slot[k].data);
    steps = o.steps;
    return ok;
}

static double steps_of_text(const char *text) {
    kn_fault   f = {0};
    kn_graph  *g = kg_new(NULL);
    kl_program p;
    int        out[4], n;
    kl_program_init(&p, NULL);
    kl_run run = {.stop = counted, .seen = count, .user = &p};
    steps      = 0;
    kn_ref r   = kg_parse(g, text, strlen(text), &f);
    if (!r || !kl_program_from(&p, g, r, out, 4, &n, &f) || !kl_lower(&p, &run, &f)) fprintf(stderr, "%s\n", f.text);
    CHECK(!f.code);
    kl_program_free(&p);
    kg_free(g);
    return (double)steps;
}

static double steps_of(const char *format, int a, int b) {
    char text[2048];
    snprintf(text, sizeof text, format, a, b);
    return steps_of_text(text);
}

static const char gather[] = "%%v = CAST {i32} (RANGE {id=0, type=LOOP, rank=1, axis=0} %1$d)\n"
                             "%%t = PARAM {slot=0} [%1$d, 8]\n"
                             "%%i = PARAM {slot=1, dtype=i32} [%2$d]\n"
                             "%%hit = CMPEQ (RESHAPE %%v [1, %1$d, 1]) (RESHAPE %%i [%2$d, 1, 1])\n"
                             "%%1 = REDUCE {op=ADD, axes=(1)} (MUL (RESHAPE %%t [1, %1$d, 8]) (CAST {f32} %%hit))\n";
static const char scatter[] = "%%v = CAST {i32} (RANGE {id=0, type=LOOP, rank=1, axis=0} %1$d)\n"
                              "%%g = PARAM {slot=0} [%2$d, 8]\n"
                              "%%i = PARAM {slot=1, dtype=i32} [%2$d]\n"
                              "%%hit = CMPEQ (RESHAPE %%v [%1$d, 1, 1]) (RESHAPE %%i [1, %2$d, 1])\n"
                              "%%1 = REDUCE {op=ADD, axes=(1)} (WHERE %%hit (RESHAPE %%g [1, %2$d, 8]) 0.0:f32)\n";
static const char padded[] = "%%x = PARAM {slot=0} [%2$d]\n"
                             "%%1 = REDUCE {op=ADD, axes=(0)} (PAD %%x [7] [%1$d])\n";
static const char counting[] = "%%v = RANGE {id=0, type=LOOP, rank=1, axis=0} %1$d\n"
                               "%%1 = MUL (CAST {f32} %%v) (EXPAND (RESHAPE 2.0:f32 [1]) [%1$d])\n%2$.0d";

/* The largest element of a row and its place, used in two ways. */
static const char arg_fold[] = "%%x = PARAM {slot=0} [%1$d, %2$d]\n"
                               "%%i = CAST {i32} (RANGE {id=0, type=LOOP, rank=2, axis=1} %2$d)\n"
                               "%%a = PARAM {slot=0, space=REG} []\n"
                               "%%ai = PARAM {slot=1, dtype=i32, space=REG} []\n"
                               "%%b = PARAM {slot=2, space=REG} []\n"
                               "%%bi = PARAM {slot=3, dtype=i32, space=REG} []\n"
                               "%%t = OR (CMPLT %%a %%b) (AND (CMPEQ %%a %%b) (CMPLT %%bi %%ai))\n"
                               "%%c = TUPLE (WHERE %%t %%b %%a) (WHERE %%t %%bi %%ai)\n"
                               "%%e = EXPAND %%i [%1$d, %2$d]\n"
                               "%%f = REDUCE {op=FUNCTION, axes=(1)} (FUNCTION %%c -inf:f32 9:i32 %%x %%e)\n";
static const char arg_both[]  = "%%1 = TUPLE (GETTUPLE {0} %%f) (GETTUPLE {1} %%f)\n";
static const char arg_sides[] = "%%z = RESHAPE (CAST {f32} (GETTUPLE {1} %%f)) [%1$d, 1]\n"
                                "%%1 = TUPLE (ADD (GETTUPLE {0} %%f) %%z) (GETTUPLE {1} %%f)\n";

static double arg_steps(const char *results, int rows, int columns) {
    char text[1500];
    snprintf(text, sizeof text, "%s%s", arg_fold, results);
    return steps_of(text, rows, columns);
}

/* A visit is the element's number, its address, the load, its place as i32 and the combine: five nodes, or six. */
static void test_folds(void) {
    double base = arg_steps(arg_both, 40, 1000), none = arg_steps(arg_both, 40, 500);
    CHECK((base - none) / (40 * 500) < 6.5);
    CHECK_NEAR(arg_steps(arg_both, 40, 10000) / base, 10, 0.3);
    CHECK_NEAR(arg_steps(arg_both, 400, 1000) / base, 10, 0.3);
    CHECK_NEAR(arg_steps(arg_sides, 40, 1000) / base, 1, 0.02); /* used in two ways, yet one loop */
}

static void test_gather(void) {
    double small = steps_of(gather, 100, 20);
    CHECK_NEAR(steps_of(gather, 1000, 20) / small, 1, 0.01);
    CHECK_NEAR(steps_of(gather, 10000, 20) / small, 1, 0.01);
    CHECK_NEAR(steps_of(gather, 100, 200) / small, 10, 0.5);
}

static void test_scatter(void) {
    double a = steps_of(scatter, 1000, 20), b = steps_of(scatter, 10000, 20), c = steps_of(scatter, 10000, 2000);
    CHECK_NEAR(b / a, 10, 1.5);                       /* setting the result to zero */
    CHECK(c < b * 3);                                 /* and one visit an input, not one a pair */
}

static void test_padding(void) {
    double a = steps_of(padded, 1000, 50);
    CHECK_NEAR(steps_of(padded, 10000, 50) / a, 1, 0.01);
    CHECK_NEAR(steps_of(padded, 100000, 50) / a, 1, 0.01);
}

static void test_arange(void) {
    double a = steps_of(counting, 100, 0);
    CHECK_NEAR(steps_of(counting, 1000, 0) / a, 10, 0.5);
    CHECK_NEAR(steps_of(counting, 10000, 0) / a, 100, 5);
}

/* Scans are one visit an element, in whichever direction; a band is its width; what only counts is no loop at all. Run
 * after Expand, where a prefix has become its accumulator. */
static void test_scans(void) {
    static const char *const ask[] = {"CMPLE %j %i", "CMPLT %j %i", "CMPGE %j %i", "CMPGT %j %i",
                                      "AND (CMPLE %j %i) (CMPLT (SUB %i 5) %j)"};
    static const char *const of[]  = {"WHERE %m (RESHAPE %x [1, N]) 0.0:f32", "CAST {f32} %m"};
    counted                        = KN_STAGE_EXPAND;
    for (int k = 0; k < KN_COUNT(ask) * KN_COUNT(of); k++) {
        double at[3];
        for (int size = 0; size < 3; size++) {
            static const int n[] = {50, 500, 5000};
            char             text[1000], value[100] = "", *cut;
            snprintf(value, sizeof value, "%s", of[k / KN_COUNT(ask)]);
            if ((cut = strstr(value, "N]"))) snprintf(cut, 40, "%d]) 0.0:f32", n[size]);
            snprintf(text, sizeof text,
                     "%%x = PARAM {slot=0} [%d]\n%%r = RANGE {id=0, rank=1} %d\n%%i = RESHAPE %%r [%d, 1]\n"
                     "%%j = RESHAPE %%r [1, %d]\n%%m = %s\n%%1 = REDUCE {op=ADD, axes=(1)} (%s)\n",
                     n[size], n[size], n[size], n[size], ask[k % KN_COUNT(ask)], value);
            at[size] = steps_of_text(text);
        }
        CHECK_NEAR(at[1] / at[0], 10, 1.5);
        CHECK_NEAR(at[2] / at[1], 10, 0.5);
    }
    counted = KN_STAGE_RANGEIFY;
}

/* Where columns leave a rest, what a row needs once is still computed once: its maximum and its sum. */
static void test_tails(void) {
    static const char softmax[] = "%%x = PARAM {slot=0} [%1$d, %2$d]\n"
                                  "%%e = EXP2 (SUB %%x (REDUCE {op=MAX, axes=(1)} %%x))\n"
                                  "%%1 = DIV %%e (REDUCE {op=ADD, axes=(1)} %%e)\n";
    counted                     = KN_STAGE_OPTIMIZE;
    for (int size = 0; size < 3; size++) {
        static const int n[] = {64, 640, 6400};
        CHECK_NEAR(steps_of(softmax, 8, n[size] + 5) / steps_of(softmax, 8, n[size]), 1, 0.35);
    }
    counted = KN_STAGE_RANGEIFY;
}

/* Sums over the same elements walk them once, whatever each makes of them; one that needs the other's result does not
 * join it. */
static void test_shared_sums(void) {
    static const char one[]  = "%%x = PARAM {slot=0} [8, %2$d]\n"
                               "%%1 = REDUCE {op=ADD, axes=(1)} %%x\n%1$.0d";
    static const char both[] = "%%x = PARAM {slot=0} [8, %2$d]\n"
                               "%%1 = DIV (REDUCE {op=ADD, axes=(1)} %%x) (REDUCE {op=ADD, axes=(1)} (MUL %%x %%x))\n"
                               "%1$.0d";
    static const char twice[] = "%%x = PARAM {slot=0} [8, %2$d]\n"
                                "%%m = REDUCE {op=ADD, axes=(1)} %%x\n"
                                "%%1 = REDUCE {op=MAX, axes=(1)} (MUL %%x %%m)\n%1$.0d";
    counted                  = KN_STAGE_EXPAND;
    for (int size = 0; size < 3; size++) {
        static const int n[]  = {67, 670, 6700};
        CHECK(steps_of(one, 0, n[size]) > 0);
        int once[2] = {loops - 1, loads}; /* without the loop of the rows */
        CHECK(steps_of(both, 0, n[size]) > 0);
        CHECK_EQ(loops - 1, once[0]);
        CHECK_EQ(loads, once[1]);
        CHECK(steps_of(twice, 0, n[size]) > 0);
        CHECK_EQ(loops - 1, 2 * once[0]);
    }
    counted = KN_STAGE_RANGEIFY;
}

/* What a run counts of its stages: nodes hand over, firings add up, groups take time, a rule can be forbidden. */
static void test_stage_counts(void) {
    static const char text[] = "%x = PARAM {slot=0} [6, 100]\n"
                               "%1 = REDUCE {op=ADD, axes=(1)} (MUL (ADD %x 0.0:f32) (EXP2 (ADD %x 1.5:f32)))\n";
    uint64_t   *fired   = calloc((size_t)kn_rule_count, sizeof *fired), total = 0, visits = 0, matches = 0;
    bool       *off     = calloc((size_t)kn_rule_count, sizeof *off);
    double     *seconds = calloc((size_t)kn_group_count, sizeof *seconds), spent = 0;
    int         often   = -1;
    for (int pass = 0; pass < 2; pass++) {
        kn_fault   f = {0};
        kn_graph  *g = kg_new(NULL);
        kl_program p;
        kl_stage_count   count[KN_STAGE_COUNT] = {{0}};
        kl_run     run                   = {.count = count};
        int        out[4], n;
        kl_program_init(&p, NULL);
        p.fired   = fired;
        p.seconds = seconds;
        p.off     = off;
        kn_ref r  = kg_parse(g, text, strlen(text), &f);
        CHECK(r && kl_program_from(&p, g, r, out, 4, &n, &f) && kl_lower(&p, &run, &f));
        total = visits = matches = 0;
        for (int i = 0; i < kn_rule_count; i++) total += fired[i];
        for (int s = KN_STAGE_CALLIFY; s < KN_STAGE_COUNT; s++) {
            visits += count[s].visits;
            matches += count[s].matches;
            CHECK(count[s].nodes_in > 0 && count[s].nodes_out > 0);
            if (s > KN_STAGE_CALLIFY) CHECK_EQ(count[s].nodes_in, count[s - 1].nodes_out);
        }
        CHECK_EQ(visits, p.visits);
        CHECK_EQ(matches, p.matches);
        CHECK_EQ(matches, total);
        CHECK(matches > 0 && visits > matches);
        if (pass) CHECK_EQ(fired[often], 0);
        for (int i = 0; i < kn_rule_count && !pass; i++)
            if (often < 0 || fired[i] > fired[often]) often = i;
        off[often] = true;
        for (int i = 0; i < kn_rule_count; i++) fired[i] = 0;
        kl_program_free(&p);
        kg_free(g);
    }
    for (int i = 0; i < kn_group_count; i++) spent += seconds[i];
    CHECK(spent > 0);
    free(fired);
    free(off);
    free(seconds);
}

int main(void) {
    RUN(test_folds);
    RUN(test_gather);
    RUN(test_scatter);
    RUN(test_padding);
    RUN(test_arange);
    RUN(test_scans);
    RUN(test_tails);
    RUN(test_shared_sums);
    RUN(test_stage_counts);
    return check_result();
}
