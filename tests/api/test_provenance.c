/* test_provenance.c - kn_config.provenance: dumps and code say which call a node comes from. */
#define _POSIX_C_SOURCE 200809L
#include "api.h"

#include <stdio.h>

static kn_context *open_with(int provenance) {
    kn_config cfg = {.device = "INTERP", .target = "c", .threads = 1, .provenance = provenance, .size = sizeof cfg};
    return kn_open(&cfg);
}

/* kn_dump as a text; the caller frees it. */
static char *dump_text(kn_tensor *t, const char *stage) {
    FILE *f = tmpfile();
    if (!CHECK(f != NULL)) return NULL;
    CHECK_EQ(kn_dump(t, stage, f), KN_OK);
    long  n    = ftell(f);
    char *text = calloc((size_t)n + 1, 1);
    rewind(f);
    CHECK(fread(text, 1, (size_t)n, f) == (size_t)n);
    fclose(f);
    return text;
}

/* "test_provenance.c:LINE FUNCTION" stands in the text. */
static void says(const char *text, int line, const char *function) {
    char want[200];
    snprintf(want, sizeof want, "test_provenance.c:%d %s", line, function);
    if (!CHECK(strstr(text, want) != NULL)) fprintf(stderr, "no %s in\n%s\n", want, text);
}

static void test_dumps(void) {
    static const char *const stages[] = {"tensor",  "callify",   "rangeify", "optimize", "expand",
                                         "select", "linearize", "plan"};
    kn_context *kn = open_with(1);
    float       w[6] = {1, 2, 3, 4, 5, 6};
    kn_tensor  *x    = kn_from(kn, w, KN_F32, KN_DIMS(2, 3));
    kn_tensor  *m    = kn_mul(x, x);
    int         line_sum = __LINE__ + 1;
    kn_tensor  *s = kn_sum(kn_exp2(m), .axes = KN_AXES(1));
    CHECK(kn_ok(s));
    for (int i = 0; i < 8; i++) {
        char *text = dump_text(s, stages[i]), *line = text;
        says(text, line_sum, "kn_sum");
        says(text, line_sum, "kn_exp2"); /* a call within a call: its own name, the same line */
        says(text, line_sum - 2, "kn_mul");
        for (char *end; (end = strchr(line, '\n')); line = end + 1) { /* no line without its origin */
            *end = 0;
            if (*line != '%') continue;
            if (!CHECK(strstr(line, "  # ") && strstr(line, "kn_"))) fprintf(stderr, "%s: %s\n", stages[i], line);
        }
        free(text);
    }
    char *source = dump_text(s, "render");
    CHECK(strstr(source, "/* ") != NULL);
    says(source, line_sum, "kn_exp2");
    free(source);
    CHECK_VALUES(s, 2.0 + 16 + 512, 65536.0 + 33554432 + 68719476736.0);
    CHECK_STR(kn_error(kn), "");
    kn_close(kn);

    kn = open_with(0);
    x  = kn_from(kn, w, KN_F32, KN_DIMS(2, 3));
    char *plain = dump_text(kn_mul(x, x), "all");
    CHECK(!strstr(plain, "test_provenance.c") && !strstr(plain, "  # "));
    free(plain);
    kn_close(kn);
}

/* Gradients come from the forward call, by the rule that made them; a training loop does not make the log grow without
 * bound, and scopes that compact the graph keep what is known. */
static void test_training(void) {
    kn_context *kn   = open_with(1);
    float       w[4] = {1, 2, 3, 4};
    kn_tensor  *p    = kn_requires_grad(kn_from(kn, w, KN_F32, KN_DIMS(2, 2)));
    kn_tensor  *params[1] = {p};
    kn_optim   *o         = kn_sgd(kn, params, 1, .lr = 0.1);
    int         line      = 0;
    for (int step = 0; step < 400; step++) {
        kn_scope *scope = kn_begin(kn);
        line            = __LINE__ + 1;
        kn_tensor *loss = kn_sum(kn_square(kn_matmul(p, p)));
        if (step % 100 == 99) {
            kn_tensor *grad;
            CHECK_EQ(kn_gradient(loss, params, 1, &grad), KN_OK);
            char *text = dump_text(grad, "callify");
            says(text, line, "kn_square > kn_minimize > gradient.");
            says(text, line, "kn_matmul");
            free(text);
        }
        CHECK_EQ(kn_minimize(o, loss), KN_OK);
        CHECK_EQ(kn_end(scope), KN_OK);
    }
    CHECK_STR(kn_error(kn), "");
    kn_close(kn);
}

/* What a call inside a library function is given is known by the function alone; nothing is put on the wrong line. */
static void test_other_lines(void) {
    kn_context *kn   = open_with(1);
    float       w[4] = {1, 2, 3, 4};
    kn_tensor  *p    = kn_requires_grad(kn_from(kn, w, KN_F32, KN_DIMS(2, 2)));
    kn_tensor  *loss = kn_sum(kn_square(p));
    CHECK_EQ(kn_backward(loss), KN_OK);
    int        line = __LINE__ + 1;
    kn_tensor *g    = kn_add_s(kn_grad(p), 1);
    char      *text = dump_text(g, "callify");
    says(text, line, "kn_add_s");
    char want[200];
    snprintf(want, sizeof want, "test_provenance.c:%d kn_gradient", line);
    CHECK(!strstr(text, want));
    free(text);
    kn_close(kn);
}

/* A schedule made by a context that knew is run by one that does not, when the first is gone. */
static void test_shared(void) {
    kn_config   rc = {.threads = 1, .size = sizeof rc};
    kn_runtime *rt = kn_runtime_new(&rc);
    if (!CHECK(rt != NULL)) return;
    for (int provenance = 1; provenance >= 0; provenance--) {
        kn_config   cfg = {.device = "INTERP", .provenance = provenance, .runtime = rt, .size = sizeof cfg};
        kn_context *kn  = kn_open(&cfg);
        float       w[2] = {3, 4};
        CHECK_VALUES(kn_square(kn_from(kn, w, KN_F32, KN_DIMS(2))), 9, 16);
        CHECK_STR(kn_error(kn), "");
        kn_stats st = {.size = sizeof st};
        CHECK_EQ(kn_get_stats(kn, &st), KN_OK);
        CHECK_EQ(st.schedules, provenance);
        kn_close(kn);
    }
    kn_runtime_close(rt);
}

/* KOINE_DUMP=STAGE+why: from outside, of a program that does not ask for it. */
static void test_environment(void) {
    static const char file[] = "provenance_dump.txt";
    char              want[100], text[20000];
    snprintf(want, sizeof want, "rangeify+why:%s", file);
    remove(file);
    setenv("KOINE_DUMP", want, 1);
    kn_context *kn   = open_with(0);
    float       w[2] = {3, 4};
    int         line = __LINE__ + 1;
    kn_tensor  *x    = kn_square(kn_from(kn, w, KN_F32, KN_DIMS(2)));
    CHECK_VALUES(x, 9, 16);
    kn_close(kn);
    unsetenv("KOINE_DUMP");
    FILE *f = fopen(file, "r");
    if (!CHECK(f != NULL)) return;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    remove(file);
    CHECK(strstr(text, "# after rangeify\n") == text);
    says(text, line, "kn_square");
}

int main(void) {
    RUN(test_dumps);
    RUN(test_training);
    RUN(test_other_lines);
    RUN(test_shared);
    RUN(test_environment);
    return check_result();
}
