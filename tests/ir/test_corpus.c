/* test_corpus.c - one corpus, every engine: the interpreter at tensor level is what the others are compared with.
 *
 * `test_ir_corpus --write` makes the generated files anew; `--fresh SEED COUNT` runs that many new programs a family;
 * `test_ir_corpus NAME` runs the programs whose name contains NAME and prints them. */
#include "check.h"
#include "corpus.h"
#include "rules/verify.h"
#include "runtime/program.h"

#include <math.h>
#include <stdlib.h>

/* An engine computes a program's values from c->slot; out has room for CORPUS_MAX. It gets one program in `every`,
 * unless programs are asked for by name. */
typedef struct engine {
    const char *name;
    bool (*run)(corpus_case *c, kn_value *out, int *nout, kn_fault *f);
    int every;
} engine;

static kn_scalar element(const void *data, int64_t i, int dtype) {
    return kn_load_scalar((const char *)data + i * kn_dsize(dtype), dtype);
}

/* Whether data holds a's elements, up to the tolerance; *at: the first that differs. */
static bool values_agree(const kn_value *a, const void *data, double tolerance, int64_t *at) {
    for (int64_t i = 0; i < a->numel; i++) {
        kn_scalar x = element(a->data, i, a->dtype), y = element(data, i, a->dtype);
        bool      same = x.i == y.i;
        if (kn_is_float(a->dtype) && isfinite(x.f))
            same = fabs(x.f - y.f) <= tolerance * fmax(1, fabs(x.f));
        else if (kn_is_float(a->dtype))
            same = x.f == y.f || (isnan(x.f) && isnan(y.f));
        *at = i;
        if (!same) return false;
    }
    return true;
}

static bool run_interpreter(corpus_case *c, kn_value *out, int *nout, kn_fault *f) {
    return kn_eval(c->g, c->root, c->slot, c->nslots, out, nout, NULL, f);
}

/* The program printed and read into a fresh graph. */
static bool run_text(corpus_case *c, kn_value *out, int *nout, kn_fault *f) {
    kn_str    s;
    kn_graph *h = kg_new(NULL);
    kn_str_init(&s, NULL);
    kg_print(c->g, c->root, &s);
    kn_ref n  = kg_parse(h, kn_str_c(&s), s.len, f);
    bool   ok = n && kn_eval(h, n, c->slot, c->nslots, out, nout, NULL, f);
    kn_str_free(&s);
    kg_free(h);
    return ok;
}

/* Through the runtime, on both devices. test_stages.c compiles every program, many at a time; here each is compiled as
 * a process would, which takes longer, so only some are. */
static kr_context *runtimes[2];

static bool run_device(int device, corpus_case *c, kn_value *out, int *nout, kn_fault *f) {
    return kr_run_program(runtimes[device], c->g, c->root, c->slot, c->nslots, out, nout, f);
}
static bool run_cpu(corpus_case *c, kn_value *out, int *nout, kn_fault *f) {
    return run_device(0, c, out, nout, f);
}
static bool run_interp(corpus_case *c, kn_value *out, int *nout, kn_fault *f) {
    return run_device(1, c, out, nout, f);
}

static const engine engines[] = {
    {"interpreter", run_interpreter, 1}, /* the first is the oracle */
    {"text", run_text, 1},
    {"CPU", run_cpu, 20},
    {"INTERP", run_interp, 2},
};

typedef struct tally {
    const char *only;
    int         programs, nodes[4096], uses[KN_OP_COUNT], engine_runs[KN_COUNT(engines)];
} tally;

static void count_ops(tally *t, const corpus_case *c) {
    kn_ref  *order;
    uint32_t n;
    bool     seen[KN_OP_COUNT] = {false};
    if (!CHECK(kg_reach(c->g, &c->root, 1, &order, &n))) return;
    int lines = 0;
    for (uint32_t i = 0; i < n; i++) {
        int op = kg_op(c->g, order[i]);
        lines += op != KN_OP_CONST && op != KN_OP_STACK;
        if (!seen[op]) t->uses[op]++;
        seen[op] = true;
    }
    if (t->programs < KN_COUNT(t->nodes)) t->nodes[t->programs] = lines;
    kn_free(kg_alloc(c->g), order, n * sizeof *order);
}

static void compare(const corpus_program *p, const char *name, const kn_value *a, const kn_value *b, int k,
                    double tolerance) {
    int64_t i;
    if (!CHECK(a->dtype == b->dtype && a->numel == b->numel) || values_agree(a, b->data, tolerance, &i)) return;
    kn_scalar x = element(a->data, i, a->dtype), y = element(b->data, i, a->dtype);
    fprintf(stderr, "%s: %s: %s: value %d, element %lld: ", p->file, p->name, name, k, (long long)i);
    if (kn_is_float(a->dtype))
        CHECK_NEAR(y.f, x.f, tolerance);
    else
        CHECK_EQ(y.i, x.i);
}

static void run_engines(tally *t, const corpus_program *p, corpus_case *c) {
    kn_value want[CORPUS_MAX], got[CORPUS_MAX];
    int      nwant = 0;
    for (int e = 0; e < KN_COUNT(engines); e++) {
        kn_fault  f   = {0};
        kn_value *out = e ? got : want;
        int       n   = CORPUS_MAX;
        if (!t->only && t->programs % engines[e].every) continue;
        if (!engines[e].run(c, out, &n, &f)) {
            fprintf(stderr, "%s: %s: %s: %s\n", p->file, p->name, engines[e].name, f.text);
            CHECK(!"the engine failed");
            if (!e) return;
            continue;
        }
        t->engine_runs[e]++;
        if (!e)
            nwant = n;
        else if (CHECK_EQ(n, nwant))
            for (int k = 0; k < n; k++) compare(p, engines[e].name, &want[k], &got[k], k, c->tolerance);
        for (int k = 0; e && k < n; k++) kn_value_free(NULL, &got[k]);
    }
    for (int k = 0; k < nwant; k++) kn_value_free(NULL, &want[k]);
}

static void one_program(const corpus_program *p, void *user) {
    tally      *t = user;
    corpus_case c;
    kn_fault    f = {0};
    char        why[1024];
    if (t->only && !strstr(p->name, t->only)) return;
    if (t->only) printf("--- %s\n%s\n", p->name, p->text);
    if (!corpus_open(p->text, &c, &f) || !kn_verify(c.g, c.root, KN_STAGE_TENSOR, &f)) {
        fprintf(stderr, "%s: %s: %s\n", p->file, p->name, f.text);
        CHECK(!"the program is well formed");
    } else {
        if (!corpus_conditioned(&c, why, sizeof why)) {
            fprintf(stderr, "%s: %s: %s\n", p->file, p->name, why);
            CHECK(!"the program is well conditioned");
        }
        count_ops(t, &c);
        run_engines(t, p, &c);
        t->programs++;
    }
    corpus_close(&c);
}

/* What a tensor program may hold and the corpus must exercise. */
static bool must_occur(int op) {
    switch (kn_ops[op].cls) {
    case KN_CLS_UNARY:
    case KN_CLS_BINARY:
    case KN_CLS_TERNARY: return true;
    case KN_CLS_MOVEMENT: return op != KN_OP_SLICE;
    case KN_CLS_REDUCE: return true;
    default:
        return op == KN_OP_PARAM || op == KN_OP_CONST || op == KN_OP_RANGE || op == KN_OP_TUPLE ||
               op == KN_OP_DETACH || op == KN_OP_LOAD || op == KN_OP_FUNCTION || op == KN_OP_GETTUPLE;
    }
}

static int by_size(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

static tally total;

static void test_engines(void) {
    CHECK(corpus_each(CORPUS_DIR, one_program, &total) >= 0);
    for (int e = 0; e < KN_COUNT(engines); e++)
        printf("     %-12s %d of %d programs\n", engines[e].name, total.engine_runs[e], total.programs);
}

static void test_coverage(void) {
    CHECK(total.programs >= 300);
    qsort(total.nodes, (size_t)KN_MIN(total.programs, KN_COUNT(total.nodes)), sizeof *total.nodes, by_size);
    CHECK(total.nodes[total.programs / 2] >= 10);
    for (int op = 0; op < KN_OP_COUNT; op++)
        if (must_occur(op) && !CHECK(total.uses[op] >= 5))
            fprintf(stderr, "%s: %d programs\n", kn_ops[op].name, total.uses[op]);
}

/* Programs that no corpus has seen. */
static void run_fresh(uint64_t seed, int count) {
    tally fresh = {0};
    for (int k = 0; k < gen_corpus_files; k++) {
        kn_str s;
        kn_str_init(&s, NULL);
        CHECK(gen_corpus(k, seed, count, &s));
        if (s.data) corpus_each_in("fresh", s.data, one_program, &fresh);
        kn_str_free(&s);
    }
    printf("     %d fresh programs\n", fresh.programs);
}

static void test_fresh(void) {
    run_fresh(2, 2);
}

static int write_files(void) {
    for (int k = 0; k < gen_corpus_files; k++) {
        char     path[1024];
        kn_str   s;
        kn_fault f = {0};
        kn_str_init(&s, NULL);
        snprintf(path, sizeof path, "%s/gen_%s.kn", CORPUS_DIR, gen_corpus_name(k));
        bool ok = gen_corpus(k, 1, 0, &s);
        printf("%s%s\n", path, ok ? "" : ": the family gives too few programs");
        if (!kn_write_file(path, kn_str_c(&s), s.len, 0644, &f)) fprintf(stderr, "%s\n", f.text);
        kn_str_free(&s);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--write")) return write_files();
    static const char *const devices[] = {"CPU", "INTERP"};
    kn_fault                 f         = {0};
    bool new                           = argc > 2 && !strcmp(argv[1], "--fresh");
    for (int k = 0; k < 2; k++)
        if (!CHECK((runtimes[k] = kr_new(NULL, &(kn_config){.device = devices[k]}, &f)) != NULL)) return check_result();
    if (new)
        run_fresh(strtoull(argv[2], NULL, 10), argc > 3 ? atoi(argv[3]) : 4);
    else if (argc > 1)
        total.only = argv[1];
    if (!new) RUN(test_engines);
    if (!new && !total.only) RUN(test_coverage);
    if (!new && !total.only) RUN(test_fresh);
    for (int k = 0; k < 2; k++) kr_free(runtimes[k]);
    return check_result();
}
