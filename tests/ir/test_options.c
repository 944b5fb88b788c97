/* test_options.c - kernels of the corpus under options chosen by chance: whatever SPLITs and SWAPs the nest admits, the
 * values stay. Each stage that follows is interpreted; some kernels are compiled.
 *
 * `test_ir_options SEED [NAME]` runs other options, on programs whose name contains NAME, and shows what fails. */
#include "check.h"
#include "choose.h"
#include "corpus.h"
#include "device/cc.h"
#include "lower/pipeline.h"
#include "target/target.h"

#include <math.h>
#include <stdlib.h>

enum { SLOTS = 64, COMPILED_EVERY = 6 };

typedef struct trial {
    char        name[128], opts[512];
    corpus_case c;
    kl_program  p;
    kn_array    slot[SLOTS];
    kn_value    want[CORPUS_MAX];
    int         nwant, out[CORPUS_MAX];
    bool        ok, differs;
    struct batch *batch;
} trial;

typedef struct batch {
    const char *only;
    uint64_t    rng;
    trial     **kept; /* to be compiled */
    size_t      nkept, cap;
    int         programs, options, refused;
} batch;

static bool agrees(trial *t, const char *stage) {
    for (int k = 0; k < t->nwant; k++)
        for (int64_t i = 0; i < t->want[k].numel; i++) {
            int       dt        = t->want[k].dtype;
            kn_scalar x         = kn_load_scalar((char *)t->want[k].data + i * kn_dsize(dt), dt);
            kn_scalar y         = kn_load_scalar((char *)t->slot[t->out[k]].data + i * kn_dsize(dt), dt);
            double    tolerance = 2 * t->c.tolerance; /* sums in another order */
            if (kn_is_float(dt) ? fabs(x.f - y.f) <= tolerance * fmax(1, fabs(x.f)) : x.i == y.i) continue;
            fprintf(stderr, "%s, after %s: value %d, element %lld\n  options %s\n  ", t->name, stage, k, (long long)i,
                    t->opts);
            if (kn_is_float(dt)) return CHECK_NEAR(y.f, x.f, tolerance);
            return CHECK_EQ(y.i, x.i);
        }
    return true;
}

static void clear(trial *t) {
    for (int k = 0; k < t->nwant; k++) {
        kn_array *a = &t->slot[t->out[k]];
        memset(a->data, 0x5a, (size_t)(a->size * kn_dsize(a->dtype)));
    }
}

static bool interpret(void *user, kn_stage stage, kn_fault *f) {
    trial    *t    = user;
    kn_graph *g    = kg_new(NULL);
    kn_ref    root = kl_schedule_graph(&t->p, g);
    int       none = 0;
    clear(t);
    bool ok = root && kn_verify(g, root, stage, f) &&
              kn_eval(g, root, t->slot, (int)t->p.nparam, NULL, &none, &(kn_eval_opts){.check = true}, f);
    kg_free(g);
    if (ok) return !(t->differs = !agrees(t, kn_stage_names[stage]));
    fprintf(stderr, "%s, after %s: %s\n  options %s\n", t->name, kn_stage_names[stage], f->text, t->opts);
    t->differs = true;
    return CHECK(!"the stage's graph runs");
}

static bool choose(void *user, kl_kernel *k, kn_fault *f) {
    (void)f;
    trial *t = user;
    batch *b = t->batch;
    b->refused += choose_opts(k, &b->rng, 5);
    b->options += k->nopts;
    kn_str s;
    kn_str_init(&s, NULL);
    ko_print_opts(k->opts, k->nopts, &s);
    size_t at = strlen(t->opts);
    snprintf(t->opts + at, sizeof t->opts - at, "[%s] ", kn_str_c(&s));
    kn_str_free(&s);
    return true;
}

static bool lower(trial *t, kn_fault *f) {
    choose_way way = {.options = choose, .seen = interpret, .user = t};
    int        nout;
    if (!kl_program_from(&t->p, t->c.g, t->c.root, t->out, CORPUS_MAX, &nout, f)) return false;
    if (!CHECK(t->p.nparam <= SLOTS)) return false;
    for (size_t k = 0; k < t->p.nparam; k++) {
        const kl_param *q = &t->p.param[k];
        t->slot[k]        = t->c.slot[k % CORPUS_MAX];
        if ((int)k >= t->c.nslots) t->slot[k] = (kn_array){calloc((size_t)q->size + 1, 8), q->size, q->dtype};
    }
    t->ok = choose_lower(&t->p, &way, f);
    t->batch->refused += way.refused;
    return t->ok || way.refused || t->differs;
}

static void free_trial(trial *t) {
    for (size_t k = (size_t)t->c.nslots; k < t->p.nparam && k < SLOTS; k++) free(t->slot[k].data);
    for (int k = 0; k < t->nwant; k++) kn_value_free(NULL, &t->want[k]);
    kl_program_free(&t->p);
    corpus_close(&t->c);
    free(t);
}

static void one_program(const corpus_program *cp, void *user) {
    batch   *b = user;
    kn_fault f = {0};
    if (b->only && !strstr(cp->name, b->only)) return;
    trial *t = calloc(1, sizeof *t);
    if (!CHECK(t && KN_GROW(NULL, b->kept, b->cap, b->nkept + 1))) return;
    t->batch = b;
    snprintf(t->name, sizeof t->name, "%.50s: %.60s", cp->file, cp->name);
    kl_program_init(&t->p, NULL);
    t->nwant = CORPUS_MAX;
    if (!corpus_open(cp->text, &t->c, &f) ||
        !kn_eval(t->c.g, t->c.root, t->c.slot, t->c.nslots, t->want, &t->nwant, NULL, &f)) {
        t->nwant = 0;
        CHECK(!"the program runs at tensor level");
    } else if (!lower(t, &f)) {
        fprintf(stderr, "%s: %s\n  options %s\n", t->name, f.text, t->opts);
        CHECK(!"options the nest admits are lowered");
    }
    if (b->programs++ % COMPILED_EVERY == 0 && t->ok)
        b->kept[b->nkept++] = t;
    else
        free_trial(t);
}

static void run_kernels(trial *t, const kd_unit *u) {
    char *temp        = aligned_alloc(128, ((size_t)t->p.temp_bytes + 255) / 128 * 128);
    void *bufs[SLOTS] = {0};
    clear(t);
    for (size_t i = 0; temp && i < t->p.ncall; i++) {
        const kl_call   *c = &t->p.call[i];
        const kl_kernel *k = &t->p.kernel[c->kernel];
        if (!CHECK(k->nargs <= SLOTS)) break;
        for (size_t a = 0; a < k->nargs; a++)
            bufs[a] = c->arg[a].temp ? temp + t->p.temp[c->arg[a].id].offset : t->slot[c->arg[a].id].data;
        if (k->chunks) u[c->kernel].fn(bufs, NULL, 0, k->chunks);
    }
    free(temp);
}

static void compile(batch *b) {
    size_t   n = 0;
    uint64_t compiled, loaded;
    kn_fault f = {0};
    kn_str   pre;
    for (size_t i = 0; i < b->nkept; i++) n += b->kept[i]->p.nkernel;
    kd_unit *unit = calloc(n + 1, sizeof *unit);
    kn_str_init(&pre, NULL);
    kt_c_preamble(&pre);
    kd_cc *cc = kd_cc_new(NULL, NULL, NULL, kn_str_c(&pre), &f);
    n         = 0;
    for (size_t i = 0; i < b->nkept; i++)
        for (size_t k = 0; k < b->kept[i]->p.nkernel; k++) {
            const kl_kernel *kn = &b->kept[i]->p.kernel[k];
            unit[n++]           = (kd_unit){.name = kn->name, .source = kn->source, .len = kn->source_len};
        }
    if (!CHECK(cc && kd_cc_compile(cc, unit, (int)n, 2, NULL, NULL, &compiled, &loaded, &f)))
        fprintf(stderr, "%s\n", f.text);
    n = 0;
    for (size_t i = 0; i < b->nkept && !f.code; i++) {
        run_kernels(b->kept[i], unit + n);
        agrees(b->kept[i], "render");
        n += b->kept[i]->p.nkernel;
    }
    kd_cc_free(cc);
    kn_str_free(&pre);
    free(unit);
}

static batch run = {.rng = 1};

static void test_options(void) {
    CHECK(corpus_each(CORPUS_DIR, one_program, &run) >= 0);
    printf("     %d programs, %d options, %d refused by the nest\n", run.programs, run.options, run.refused);
}

static void test_compiled(void) {
    compile(&run);
    for (size_t i = 0; i < run.nkept; i++) free_trial(run.kept[i]);
    kn_free(NULL, run.kept, run.cap * sizeof *run.kept);
}

int main(int argc, char **argv) {
    if (argc > 1) run.rng = strtoull(argv[1], NULL, 10);
    if (argc > 2) run.only = argv[2];
    RUN(test_options);
    RUN(test_compiled);
    return check_result();
}
