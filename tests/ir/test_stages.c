/* test_stages.c - every program of the corpus after every stage, and as compiled code, against the interpreter at
 * tensor level.
 *
 * Integers must agree exactly, floats within the program's tolerance. Compiled kernels run in two parts, and in one:
 * their results must be the same bits. `test_ir_stages NAME` runs the programs whose name contains NAME and shows every
 * stage;
 * `--fresh SEED COUNT` runs that many new programs a family; `--target NAME` before these: on that target. The C
 * compiler takes long: of each EVERY programs it is given one; with `--all` every one. */
#define _GNU_SOURCE
#include "check.h"
#include "corpus.h"
#include "device/cc.h"
#include "lower/pipeline.h"
#include "rules/verify.h"
#include "target/target.h"

#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <stdlib.h>

enum { MAX_SLOTS = 64 };

/* Programs of effects: their values are what their PARAMs hold afterwards. */
#define EFFECTS_DIR KN_TEST_SOURCE "/tests/ir/effects"

typedef struct program {
    char        name[96];
    corpus_case c;
    kl_program  p;
    kn_array    slot[MAX_SLOTS];
    kn_value    want[CORPUS_MAX];
    void       *before[CORPUS_MAX]; /* first contents of a PARAM that is read and written, by value */
    int         nwant, out_slot[CORPUS_MAX];
    bool        lowered, given; /* given: options by hand */
} program;

typedef struct suite {
    const char *only;
    program   **list;
    size_t      n, cap;
    int         stages; /* comparisons made */
    bool        fresh;  /* programs that no bound was found for */
    size_t      spills, spill; /* in innermost loops of what the heuristic chose, and kernels that have some */
    const char *target;
    kn_stage    from;   /* the first stage to compare */
    size_t      every;  /* of so many programs one is compiled; 0: all */
    size_t      offered;
} suite;

enum { EVERY = 4 };

/* Of the programs that were lowered. */
static bool is_compiled(const suite *s, size_t i) { return s->list[i]->lowered && (!s->every || i % s->every == 0); }

static bool agree(const program *q, const char *what) {
    for (int k = 0; k < q->nwant; k++) {
        const kn_value *w = &q->want[k];
        const kn_array *a = &q->slot[q->out_slot[k]];
        for (int64_t i = 0; i < w->numel; i++) {
            kn_scalar x = kn_load_scalar((char *)w->data + i * kn_dsize(w->dtype), w->dtype);
            kn_scalar y = kn_load_scalar((char *)a->data + i * kn_dsize(w->dtype), w->dtype);
            bool      same = kn_is_float(w->dtype) ? fabs(x.f - y.f) <= q->c.tolerance * fmax(1, fabs(x.f)) ||
                                                    (isnan(x.f) && isnan(y.f)) || x.f == y.f
                                                   : x.i == y.i;
            if (same) continue;
            fprintf(stderr, "%s: %s: value %d, element %lld: ", q->name, what, k, (long long)i);
            if (kn_is_float(w->dtype)) return CHECK_NEAR(y.f, x.f, q->c.tolerance);
            return CHECK_EQ(y.i, x.i);
        }
    }
    return true;
}

static void clear_outputs(program *q) {
    for (int k = 0; k < q->nwant; k++) {
        kn_array *a = &q->slot[q->out_slot[k]];
        size_t bytes = (size_t)a->size * (size_t)kn_dsize(a->dtype);
        if (q->before[k])
            memcpy(a->data, q->before[k], bytes);
        else if (a->size)
            memset(a->data, 0x5a, bytes);
    }
}

typedef struct watch {
    suite   *s;
    program *q;
} watch;

static bool after_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    watch   *w = user;
    program *q = w->q;
    int      none = 0;
    if (w->s->only) {
        kn_str t;
        kn_str_init(&t, NULL);
        kg_print(g, root, &t);
        printf("# after %s\n%s", kn_stage_names[stage], kn_str_c(&t));
        kn_str_free(&t);
    }
    if (stage < w->s->from) return true;
    if (!kn_verify(g, root, stage, f)) return false;
    kn_eval_opts o = {.check = true};
    clear_outputs(q);
    if (!kn_eval(g, root, q->slot, (int)q->p.nparam, NULL, &none, &o, f)) return false;
    w->s->stages++;
    return agree(q, kn_stage_names[stage]);
}

/* What the program computes at tensor level. */
static bool want_values(program *q, kn_fault *f) {
    kn_graph *g = q->c.g;
    q->nwant    = CORPUS_MAX;
    if (kg_op(g, q->c.root) != KN_OP_SINK)
        return kn_eval(g, q->c.root, q->c.slot, q->c.nslots, q->want, &q->nwant, NULL, f);
    int n = (int)kg_nsrc(g, q->c.root), none = 0;
    q->nwant = 0;
    if (n > CORPUS_MAX) return kn_fail(f, KN_ERR_ARG, "more than %d effects", CORPUS_MAX);
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < n; k++) {
            kn_ref p = kg_at(g, kg_at(g, q->c.root, (uint32_t)k), 0);
            if (kg_op(g, p) != KN_OP_PARAM) return kn_fail(f, KN_ERR_ARG, "an effect is a STORE into a PARAM");
            q->out_slot[k]    = (int)kg_field(g, p, KN_F_PARAM_slot);
            const kn_array *a = &q->c.slot[q->out_slot[k]];
            size_t          bytes = (size_t)KN_MAX(a->size, 1) * (size_t)kn_dsize(a->dtype);
            void           *copy = kn_realloc(NULL, NULL, 0, bytes);
            if (!copy) return kn_oom(f);
            memcpy(copy, a->data, bytes);
            if (pass)
                q->want[q->nwant++] = (kn_value){.data = copy, .numel = a->size, .dtype = a->dtype};
            else
                q->before[k] = copy;
        }
        if (!pass && !kn_eval(g, q->c.root, q->c.slot, q->c.nslots, q->want, &none, NULL, f)) return false;
    }
    return true;
}

static void lower_program(const corpus_program *cp, void *user) {
    suite   *s = user;
    kn_fault f = {0};
    if (s->only && !strstr(cp->name, s->only)) return;
    if (KN_SANITIZED && !s->only && s->offered++ % EVERY) return;
    program *q = calloc(1, sizeof *q);
    if (!CHECK(q != NULL) || !CHECK(KN_GROW(NULL, s->list, s->cap, s->n + 1))) return;
    s->list[s->n++] = q;
    snprintf(q->name, sizeof q->name, "%.40s: %.50s", cp->file, cp->name);
    kl_program_init(&q->p, NULL);
    if (!corpus_open(cp->text, &q->c, &f) || !want_values(q, &f)) {
        fprintf(stderr, "%s: %s\n", q->name, f.text);
        q->nwant = 0;
        CHECK(!"the program runs at tensor level");
        return;
    }
    int nout;
    if (!kl_program_from(&q->p, q->c.g, q->c.root, q->out_slot, CORPUS_MAX, &nout, &f) ||
        !CHECK(q->p.nparam <= MAX_SLOTS))
        goto fault;
    for (size_t k = 0; k < q->p.nparam; k++) {
        size_t bytes = (size_t)q->p.param[k].size * (size_t)kn_dsize(q->p.param[k].dtype);
        q->slot[k]   = (int)k < q->c.nslots ? q->c.slot[k]
                                            : (kn_array){calloc(1, bytes + 1), q->p.param[k].size, q->p.param[k].dtype};
    }
    if (!kt_find(s->target ? s->target : "c", &q->p.target, &f)) goto fault;
    watch       w     = {s, q};
    kl_run      run   = {.seen = after_stage, .user = &w};
    kn_opt      opts[KN_MAX_OPTS];
    const char *given = strstr(cp->text, "# opts:");
    q->given          = given != NULL;
    if (given) {
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(given + 7, "\n"), given + 7);
        if (!ko_parse_opts(line, opts, &run.nopts, &f)) goto fault;
        run.opts = opts;
    }
    if ((q->lowered = kl_lower(&q->p, &run, &f))) return;
fault:
    fprintf(stderr, "%s: %s\n", q->name, f.code ? f.text : "values differ");
    CHECK(!f.code);
}

static bool run_kernels(program *q, const kd_unit *u, int parts) {
    char  *temp = aligned_alloc(128, ((size_t)q->p.temp_bytes + 255) / 128 * 128);
    void **bufs = calloc(MAX_SLOTS * 4, sizeof *bufs);
    if (!CHECK(temp && bufs)) return false;
    for (size_t i = 0; i < q->p.ncall; i++) {
        const kl_call   *c = &q->p.call[i];
        const kl_kernel *k = &q->p.kernel[c->kernel];
        for (size_t a = 0; a < k->nargs && a < MAX_SLOTS * 4; a++)
            bufs[a] = c->arg[a].temp ? temp + q->p.temp[c->arg[a].id].offset : q->slot[c->arg[a].id].data;
        for (int part = parts; part-- > 0;) { /* the last part first: no order may matter */
            int64_t lo = k->chunks * part / parts, hi = k->chunks * (part + 1) / parts;
            if (lo < hi) u[c->kernel].fn(bufs, NULL, lo, hi);
        }
    }
    free(temp);
    free(bufs);
    return true;
}

/* Kernels that are machine code, into memory that runs. */
static void *place_code(suite *s, kd_unit *unit, size_t *bytes) {
    size_t at = 0, n = 0;
    for (int pass = 0; pass < 2; pass++) {
        static char *base;
        if (pass) {
            *bytes = at + 4096;
            base   = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (!CHECK(base != MAP_FAILED)) return NULL;
        }
        at = n = 0;
        for (size_t i = 0; i < s->n; i++)
            for (size_t k = 0; s->list[i]->lowered && k < s->list[i]->p.nkernel; k++) {
                const kl_kernel *kn = &s->list[i]->p.kernel[k];
                at                  = (at + 63) / 64 * 64;
                if (pass) {
                    memcpy(base + at, kn->source, kn->source_len);
                    memcpy(&unit[n].fn, &(char *){base + at}, sizeof unit[n].fn);
                    if (!s->list[i]->given) s->spills += kn->spills, s->spill += kn->spills > 0;
                    if (s->only && kn->spills)
                        printf("     %s, %s: %u spills\n", s->list[i]->name, kn->name, kn->spills);
                }
                n++;
                at += kn->source_len;
            }
        if (pass && CHECK(!mprotect(base, *bytes, PROT_READ | PROT_EXEC))) return base;
    }
    return NULL;
}

/* Which program a kernel that does not come back belongs to. */
static const char *running;
static void crashed(int sig) {
    fprintf(stderr, "%s: signal %d in a kernel\n", running, sig);
    _exit(1);
}

static void compare_compiled(suite *s, const kd_unit *unit) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        program *q = s->list[i];
        if (!is_compiled(s, i)) continue;
        for (int parts = 1; parts <= 2; parts++) {
            clear_outputs(q);
            running = q->name;
            if (run_kernels(q, unit + n, parts)) agree(q, parts == 1 ? "compiled" : "compiled, in two parts");
        }
        n += q->p.nkernel;
    }
}

/* All registers are there: no innermost loop goes by way of the frame. */
static bool must_fit(const suite *s) {
    return !s->only && !s->fresh && (!strcmp(s->target, "x86:avx512") || !strcmp(s->target, "x86:avx2"));
}

static void run_machine(suite *s, size_t n) {
    size_t   bytes = 0;
    kd_unit *unit = calloc(n + 1, sizeof *unit);
    void    *code = unit ? place_code(s, unit, &bytes) : NULL;
    if (CHECK(code != NULL)) {
        signal(SIGSEGV, crashed);
        signal(SIGILL, crashed);
        compare_compiled(s, unit);
        printf("     %s: %zu kernels, %zu bytes, %zu spills in innermost loops of %zu\n", s->target, n, bytes,
               s->spills, s->spill);
        if (must_fit(s)) CHECK_EQ(s->spills, 0);
        munmap(code, bytes);
    }
    free(unit);
}

static void run_compiled(suite *s) {
    size_t   n = 0;
    kn_fault f = {0};
    for (size_t i = 0; i < s->n; i++) n += is_compiled(s, i) ? s->list[i]->p.nkernel : 0;
    if (s->target) {
        run_machine(s, n);
        return;
    }
    kd_unit *unit = calloc(n + 1, sizeof *unit);
    kn_str   pre;
    kn_str_init(&pre, NULL);
    kt_c_preamble(&pre);
    kd_cc *cc = kd_cc_new(NULL, NULL, NULL, kn_str_c(&pre), &f);
    if (!CHECK(unit && cc)) return;
    n = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; is_compiled(s, i) && k < s->list[i]->p.nkernel; k++) {
            const kl_kernel *kn = &s->list[i]->p.kernel[k];
            if (s->only) printf("%s\n", kn->source);
            unit[n++] = (kd_unit){.name = kn->name, .source = kn->source, .len = kn->source_len};
        }
    uint64_t compiled = 0, loaded = 0;
    double   start    = kn_now();
    if (!kd_cc_compile(cc, unit, (int)n, 2, NULL, NULL, &compiled, &loaded, &f)) {
        fprintf(stderr, "%s\n", f.text);
        CHECK(!"kernels compile");
    } else {
        printf("     %zu kernels, %llu compiled in %.1f s\n", n, (unsigned long long)compiled, kn_now() - start);
        compare_compiled(s, unit);
    }
    kd_cc_free(cc);
    kn_str_free(&pre);
    free(unit);
}

static void free_suite(suite *s) {
    for (size_t i = 0; i < s->n; i++) {
        program *q = s->list[i];
        for (size_t k = (size_t)q->c.nslots; k < q->p.nparam && k < MAX_SLOTS; k++) free(q->slot[k].data);
        for (int k = 0; k < q->nwant; k++) {
            if (q->before[k])
                kn_free(NULL, q->before[k], (size_t)KN_MAX(q->want[k].numel, 1) * (size_t)kn_dsize(q->want[k].dtype));
            kn_value_free(NULL, &q->want[k]);
        }
        kl_program_free(&q->p);
        corpus_close(&q->c);
        free(q);
    }
    kn_free(NULL, s->list, s->cap * sizeof *s->list);
}

static suite all;

static void lower_corpus(void) {
    CHECK(corpus_each(CORPUS_DIR, lower_program, &all) >= 0);
    CHECK(corpus_each(KN_TEST_SOURCE "/tests/kernels", lower_program, &all) > 0); /* with options given by hand */
    CHECK(corpus_each(EFFECTS_DIR, lower_program, &all) > 0);
    printf("     %zu programs, %d comparisons of a stage\n", all.n, all.stages);
}

static void test_stages(void) { lower_corpus(); }
static void test_compiled(void) { run_compiled(&all); }

static void fresh(uint64_t seed, int count) {
    all.fresh = true;
    for (int k = 0; k < gen_corpus_files; k++) {
        kn_str s;
        kn_str_init(&s, NULL);
        CHECK(gen_corpus(k, seed, count, &s));
        if (s.data) corpus_each_in("fresh", s.data, lower_program, &all);
        kn_str_free(&s);
    }
    printf("     %zu programs, %d comparisons of a stage\n", all.n, all.stages);
}

#if KN_TARGET_X86
/* The same on machine code: Select and what follows it interpreted, where that is asked for, then run. */
static void on_target(const char *target, bool stages) {
    all = (suite){.target = target, .from = stages ? KN_STAGE_SELECT : KN_STAGE_COUNT};
    lower_corpus();
    run_compiled(&all);
    free_suite(&all);
    all = (suite){0};
}

static void test_x86_avx512(void) {
    if (__builtin_cpu_supports("avx512bw")) on_target("x86:avx512", true);
}
static void test_x86_avx2(void) { on_target("x86:avx2", true); }
static void test_x86_scalar(void) { on_target("x86:scalar", true); }
static void test_x86_four_registers(void) {
    if (__builtin_cpu_supports("avx512bw")) on_target("x86:avx512:regs=4", true);
    on_target("x86:avx2:regs=4", true);
}
/* Enough to be shared place by place: remake.c. */
static void test_x86_few_registers(void) {
    if (__builtin_cpu_supports("avx512bw")) on_target("x86:avx512:regs=9", false);
    on_target("x86:avx2:regs=10", false);
}
#endif

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "--target")) {
        all.target = argv[2];
        all.from   = KN_STAGE_SELECT;
        argc -= 2, argv += 2;
    }
    bool whole = argc == 1 && !all.target;
    all.every  = whole ? EVERY : 0;
    if (argc > 1 && !strcmp(argv[1], "--all")) argc--, argv++;
    if (argc > 2 && !strcmp(argv[1], "--fresh")) {
        fresh(strtoull(argv[2], NULL, 10), argc > 3 ? atoi(argv[3]) : 4);
    } else {
        if (argc > 1) all.only = argv[1];
        RUN(test_stages);
    }
    RUN(test_compiled);
    free_suite(&all);
#if KN_TARGET_X86
    if (whole && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        RUN(test_x86_avx512);
        RUN(test_x86_avx2);
        RUN(test_x86_scalar);
        RUN(test_x86_four_registers);
        RUN(test_x86_few_registers);
    }
#else
    (void)whole;
#endif
    return check_result();
}
