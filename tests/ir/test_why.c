/* test_why.c - where nodes come from: causes, and that every node of every stage leads back to its line. */
#include "check.h"
#include "dialect/why.h"
#include "ir/corpus.h"
#include "lower/pipeline.h"

#include <stdlib.h>

static uint32_t origin(const kn_why *w, uint32_t cause) {
    while (cause && kn_cause_at(w, cause)->parent) cause = kn_cause_at(w, cause)->parent;
    return cause;
}

static void test_log(void) {
    kn_why   *w = kn_why_new(NULL, false);
    kn_graph *g = kg_new(NULL), *other = kg_new(NULL), *plain = kg_new(NULL);
    CHECK(w && g && other && plain);
    kg_keep_why(g, w);
    kg_keep_why(other, w);
    CHECK(kg_why(g) == w && !kg_why(plain) && !kn_why_in_source(w));
    int64_t dims[1] = {4};
    kn_why_call(w, "kn_from", false);
    kn_ref first = kg_count(g), x = kg_param(g, 0, KN_F32, dims, 1);
    kg_made_at(g, first, "a.c", 7);
    kn_why_call(w, "kn_neg", false);
    kn_ref at = kg_count(g), y = kg_op1(g, KN_OP_NEG, x);
    CHECK_EQ(kn_cause_at(w, kg_cause(g, y))->line, 0);
    kg_made_at(g, at, "a.c", 8);
    CHECK_EQ(kn_cause_at(w, kg_cause(g, x))->line, 7);
    CHECK_EQ(kn_cause_at(w, kg_cause(g, y))->line, 8);
    CHECK_STR(kn_cause_text(w, kn_cause_at(w, kg_cause(g, y))->name), "kn_neg");
    CHECK_STR(kn_cause_text(w, kn_cause_at(w, kg_cause(g, y))->file), "a.c");

    /* copies, and other sources, change nothing; a stage's nodes say of what */
    kn_ref copy = kg_copy(other, g, y);
    CHECK(copy && kg_cause(other, copy) == kg_cause(g, y));
    kn_why_stage(w, "rangeify");
    kg_made_of(g, g, y);
    kn_ref z = kg_op1(g, KN_OP_EXP2, x), over = kg_with_src(g, y, &z, 1);
    CHECK_EQ(kg_cause(g, over), kg_cause(g, y));
    CHECK_EQ(kn_cause_at(w, kg_cause(g, z))->kind, KN_BY_STAGE);
    CHECK_EQ(kn_cause_at(w, kg_cause(g, z))->parent, kg_cause(g, y));
    kg_made_as(g, g, x);
    kn_ref same = kg_op1(g, KN_OP_SQRT, x);
    kg_made_as(g, g, 0);
    CHECK_EQ(kg_cause(g, same), kg_cause(g, x));
    kn_str s;
    kn_str_init(&s, NULL);
    kn_print_cause(w, kg_cause(g, z), &s);
    CHECK_STR(kn_str_c(&s), "a.c:8 kn_neg > rangeify");
    kn_str_clear(&s);
    kg_print_why(g, y, &s);
    CHECK_STR(kn_str_c(&s), "%1 = PARAM {slot=0} [4] : f32[4]  # a.c:7 kn_from\n"
                            "%2 = NEG %1 : f32[4]  # a.c:8 kn_neg\n");
    kn_str_clear(&s);
    kg_print_why(plain, kg_param(plain, 0, KN_F32, dims, 1), &s);
    CHECK_STR(kn_str_c(&s), "%1 = PARAM {slot=0} [4] : f32[4]\n");
    kn_str_free(&s);
    kg_free(g);
    kg_free(other);
    kg_free(plain);
    kn_why_free(w);
}

/* The log grows with the forms of programs, not with how often they are built. */
static void test_bounded(void) {
    kn_why  *w    = kn_why_new(NULL, false);
    uint32_t last = 0;
    for (int round = 0; round < 20; round++) {
        kn_graph *g       = kg_new(NULL);
        int64_t   dims[1] = {4};
        kg_keep_why(g, w);
        kn_why_call(w, "kn_softmax", false);
        kn_ref x = kg_param(g, 0, KN_F32, dims, 1);
        for (int i = 0; i < 50; i++) x = kg_op2(g, KN_OP_ADD, x, kg_float(g, KN_F32, i));
        kg_made_at(g, 1, "train.c", 12);
        if (round) CHECK_EQ(kg_cause(g, x), last);
        last = kg_cause(g, x);
        kg_free(g);
    }
    kn_why_free(w);
}

typedef struct seen {
    kn_why *w;
    long    nodes, unknown, rules;
    char    text[400];
} seen;

static bool look(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    seen    *s = user;
    kn_ref  *order;
    uint32_t n;
    if (!kg_reach(g, &root, 1, &order, &n)) return kn_oom(f);
    for (uint32_t i = 0; i < n; i++) {
        const kn_cause *c = kn_cause_at(s->w, origin(s->w, kg_cause(g, order[i])));
        s->nodes++;
        s->rules += kn_cause_at(s->w, kg_cause(g, order[i]))->kind == KN_BY_RULE;
        if (c->kind == KN_BY_LINE && c->line > 0) continue;
        s->unknown++;
        snprintf(s->text, sizeof s->text, "after %s: %s", kn_stage_names[stage], kn_ops[kg_op(g, order[i])].name);
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return true;
}

static seen all;

static void lower_one(const corpus_program *cp, void *user) {
    kn_graph  *g = kg_new(NULL);
    kl_program p;
    kn_fault   f = {0};
    int        out[CORPUS_MAX], nout;
    (void)user;
    all.w = kn_why_new(NULL, true);
    all.unknown = 0;
    kg_keep_why(g, all.w);
    kn_why_line(all.w, cp->file, 1);
    kl_program_init(&p, NULL);
    kl_run run  = {.seen = look, .user = &all};
    kn_ref root = kg_parse(g, cp->text, strlen(cp->text), &f);
    bool   ok   = root && kl_program_from(&p, g, root, out, CORPUS_MAX, &nout, &f) && kl_lower(&p, &run, &f);
    if (!CHECK(ok)) printf("     %s: %s: %s\n", cp->file, cp->name, f.text);
    if (!CHECK_EQ(all.unknown, 0)) printf("     %s: %s: %s\n", cp->file, cp->name, all.text);
    for (size_t k = 0; k < p.nkernel && ok; k++) /* the source says so, too */
        CHECK(p.kernel[k].source && strstr(p.kernel[k].source, ".kn:"));
    kl_program_free(&p);
    kg_free(g);
    kn_why_free(all.w);
}

static void test_corpus(void) {
    CHECK(corpus_each(CORPUS_DIR, lower_one, NULL) > 0);
    CHECK(all.rules > 100);
    printf("     %ld nodes of all stages, %ld made by rules, each back to its line\n", all.nodes, all.rules);
}

/* With and without a log the compiler does the same. */
static void test_same(void) {
    static const char text[] = "%x = PARAM {slot=0} [64, 100]\n%m = REDUCE {op=MAX, axes=(1)} %x\n"
                               "%e = EXP2 (MUL (SUB %x %m) 1.442695:f32)\n"
                               "%1 = DIV %e (REDUCE {op=ADD, axes=(1)} %e)\n";
    char *source[2] = {NULL, NULL};
    for (int with = 0; with < 2; with++) {
        kn_graph  *g = kg_new(NULL);
        kn_why    *w = with ? kn_why_new(NULL, false) : NULL;
        kl_program p;
        kn_fault   f = {0};
        int        out[4], nout;
        kl_run     run = {.stop = KN_STAGE_ANY};
        kg_keep_why(g, w);
        kl_program_init(&p, NULL);
        kn_ref root = kg_parse(g, text, strlen(text), &f);
        CHECK(root && kl_program_from(&p, g, root, out, 4, &nout, &f) && kl_lower(&p, &run, &f));
        if (CHECK_EQ(p.nkernel, 1) && (source[with] = malloc(p.kernel[0].source_len + 1)))
            memcpy(source[with], p.kernel[0].source, p.kernel[0].source_len + 1);
        kl_program_free(&p);
        kg_free(g);
        kn_why_free(w);
    }
    if (CHECK(source[0] && source[1])) CHECK_STR(source[0], source[1]);
    free(source[0]);
    free(source[1]);
}

int main(void) {
    RUN(test_log);
    RUN(test_bounded);
    RUN(test_same);
    RUN(test_corpus);
    return check_result();
}
