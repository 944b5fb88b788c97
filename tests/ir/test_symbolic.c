/* test_symbolic.c - programs with symbolic sizes: at several values of their variables, after every stage and as
 * compiled code, against the interpreter on the same program with numbers for sizes.
 *
 * `test_ir_symbolic NAME` runs the programs whose name contains NAME and shows every stage. */
#include "check.h"
#include "corpus.h"
#include "dialect/fill.h"
#include "lower/pipeline.h"
#include "rules/verify.h"
#include "runtime/inside.h"
#include "runtime/program.h"

#include <math.h>
#include <stdlib.h>

enum { SLOTS = 24, VARS = 2 };

typedef struct program {
    const char *name;
    kn_graph   *g;
    kn_ref      root;
    kn_array    slot[SLOTS];
    int         nslots;
    kn_ref      var[VARS];
    int         nvar;
    kl_program  p; /* callified, for the stages */
    int         out[SLOTS], nout;
    kn_value    want[SLOTS];
    const char *where;
    double      worst;
} program;

static const char *only;
static kr_context *devices[2];
static int         points, stages;

static bool same_values(program *q, const char *what, int k, const void *data) {
    const kn_value *w = &q->want[k];
    for (int64_t i = 0; i < w->numel; i++) {
        kn_scalar x = kn_load_scalar((char *)w->data + i * kn_dsize(w->dtype), w->dtype);
        kn_scalar y = kn_load_scalar((const char *)data + i * kn_dsize(w->dtype), w->dtype);
        bool same = kn_is_float(w->dtype) ? fabs(x.f - y.f) <= 1e-5 * fmax(1, fabs(x.f)) || x.f == y.f : x.i == y.i;
        if (same) continue;
        fprintf(stderr, "%s: %s: value %d, element %lld: %g, not %g\n", q->name, what, k, (long long)i,
                kn_is_float(w->dtype) ? y.f : (double)y.i, kn_is_float(w->dtype) ? x.f : (double)x.i);
        return CHECK(!"the values agree");
    }
    return true;
}

/* Every PARAM gets an array of the most elements it can have. */
static bool fill_slots(program *q, kn_fault *f) {
    for (kn_ref n = 1; n <= q->root; n++) {
        if (kg_op(q->g, n) != KN_OP_PARAM) continue;
        int64_t k = kg_field(q->g, n, KN_F_PARAM_slot), size = kg_most(q->g, n);
        int     dt = kg_dtype(q->g, n);
        if (k < 0 || k >= SLOTS || size > 1 << 20) return kn_fail(f, KN_ERR_ARG, "a PARAM is not fit for the test");
        if (q->slot[k].data) continue;
        bool bound = kg_is_variable(q->g, n) && !strncmp(q->name, "bound", 5);
        if (bound) continue;
        if (kg_is_variable(q->g, n)) q->var[q->nvar++] = n;
        q->slot[k] = (kn_array){calloc((size_t)size + 1, (size_t)kn_dsize(dt)), size, dt};
        q->nslots  = KN_MAX(q->nslots, (int)k + 1);
        kn_fill(q->slot[k].data, size, dt, KN_FILL_RAND, (uint64_t)k + 1);
    }
    return true;
}

/* What the program says at these values, with no symbol left in it. */
static bool want_values(program *q, kn_fault *f) {
    kn_graph *now = kg_new(NULL);
    kn_ref    r   = kn_eval_special(now, q->g, q->root, q->slot, q->nslots);
    kn_ref   *order;
    uint32_t  n;
    bool      ok = r != 0;
    if (!ok) kn_fail(f, kg_fault(now)->code, "%s", kg_fault(now)->text);
    if (ok && kg_reach(now, &r, 1, &order, &n)) {
        for (uint32_t i = 0; i < n; i++) CHECK(kg_numel(now, order[i]) >= 0);
        kn_free(NULL, order, n * sizeof *order);
    }
    q->nout = SLOTS;
    ok      = ok && kn_eval(now, r, q->slot, q->nslots, q->want, &q->nout, NULL, f);
    kg_free(now);
    return ok;
}

static bool after_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    program     *q    = user;
    kn_array     slot[SLOTS];
    kn_eval_opts o    = {.check = true};
    int          none = 0;
    if (only) {
        kn_str t;
        kn_str_init(&t, NULL);
        kg_print(g, root, &t);
        printf("# after %s\n%s", kn_stage_names[stage], kn_str_c(&t));
        kn_str_free(&t);
    }
    if (!kn_verify(g, root, stage, f)) return false;
    memcpy(slot, q->slot, sizeof slot);
    for (int k = 0; k < q->nout; k++) {
        const kl_param *p = &q->p.param[q->out[k]];
        size_t          bytes = ((size_t)p->size + 1) * (size_t)kn_dsize(p->dtype);
        slot[q->out[k]]       = (kn_array){malloc(bytes), p->size, p->dtype};
        memset(slot[q->out[k]].data, 0x5a, bytes);
    }
    bool ok = kn_eval(g, root, slot, (int)q->p.nparam, NULL, &none, &o, f);
    for (int k = 0; ok && k < q->nout; k++) ok = same_values(q, kn_stage_names[stage], k, slot[q->out[k]].data);
    for (int k = 0; k < q->nout; k++) free(slot[q->out[k]].data);
    stages++;
    return ok;
}

static bool run_stages(program *q, kn_fault *f) {
    kl_run run = {.seen = after_stage, .user = q};
    int    n;
    kl_program_init(&q->p, NULL);
    bool ok = kl_program_from(&q->p, q->g, q->root, q->out, SLOTS, &n, f);
    ok      = ok && CHECK_EQ(n, q->nout) && kl_lower(&q->p, &run, f);
    kl_program_free(&q->p);
    return ok;
}

static bool run_device(program *q, int device, kn_fault *f) {
    kn_value got[SLOTS];
    int      n = SLOTS;
    if (!kr_run_program(devices[device], q->g, q->root, q->slot, q->nslots, got, &n, f)) return false;
    bool ok = CHECK_EQ(n, q->nout);
    for (int k = 0; k < n; k++) {
        ok = ok && CHECK_EQ(got[k].numel, q->want[k].numel) && CHECK_EQ(got[k].rank, q->want[k].rank) &&
             CHECK(!memcmp(got[k].dims, q->want[k].dims, (size_t)got[k].rank * sizeof *got[k].dims));
        ok = ok && same_values(q, device ? "INTERP" : "CPU", k, got[k].data);
        kn_value_free(NULL, &got[k]);
    }
    return ok;
}

static bool at_values(program *q, kn_fault *f) {
    kn_value direct[SLOTS];
    int      n = SLOTS;
    if (!want_values(q, f)) return false;
    bool ok = kn_eval(q->g, q->root, q->slot, q->nslots, direct, &n, NULL, f) && CHECK_EQ(n, q->nout);
    for (int k = 0; ok && k < n; k++) {
        ok = same_values(q, "the interpreter", k, direct[k].data);
        kn_value_free(NULL, &direct[k]);
    }
    ok = ok && run_stages(q, f) && run_device(q, 0, f) && run_device(q, 1, f);
    for (int k = 0; k < q->nout; k++) kn_value_free(NULL, &q->want[k]);
    points++;
    return ok;
}

/* Least, largest, and between; of two variables all pairs. */
static bool all_values(program *q, kn_fault *f) {
    int64_t v[VARS][4] = {{0}};
    for (int i = 0; i < q->nvar; i++) {
        int64_t lo = kg_min(q->g, q->var[i]), hi = kg_max(q->g, q->var[i]);
        v[i][0] = (lo + hi) / 2, v[i][1] = lo, v[i][2] = hi, v[i][3] = KN_MIN(lo + 1, hi);
    }
    for (int a = 0; a < (q->nvar > 0 ? 4 : 1); a++)
        for (int b = 0; b < (q->nvar > 1 ? 4 : 1); b++) {
            for (int i = 0; i < q->nvar; i++)
                *(int64_t *)q->slot[kg_field(q->g, q->var[i], KN_F_PARAM_slot)].data = v[i][i ? b : a];
            if (at_values(q, f)) continue;
            fprintf(stderr, "%s: at %lld, %lld: %s\n", q->name, (long long)v[0][a], (long long)v[1][b], f->text);
            return false;
        }
    return true;
}

static void one_program(const corpus_program *cp, void *user) {
    program  q = {.name = cp->name, .g = kg_new(NULL)};
    kn_fault f = {0};
    kn_stats before = {0}, after = {0};
    (void)user;
    if (only && !strstr(cp->name, only)) {
        kg_free(q.g);
        return;
    }
    kr_stats(devices[0], &before);
    bool ok = (q.root = kg_parse(q.g, cp->text, strlen(cp->text), &f)) != 0 &&
              kn_verify(q.g, q.root, KN_STAGE_TENSOR, &f) && fill_slots(&q, &f) && all_values(&q, &f);
    if (!ok && !q.nvar) fprintf(stderr, "%s: %s\n", cp->name, f.text);
    CHECK(ok);
    kr_stats(devices[0], &after);
    if (ok) CHECK_EQ(after.schedules - before.schedules, 1); /* one form, whatever the values */
    for (int k = 0; k < SLOTS; k++) free(q.slot[k].data);
    kg_free(q.g);
}

static void test_programs(void) {
    CHECK(corpus_each(KN_TEST_SOURCE "/tests/ir/symbolic", one_program, NULL) > 0);
    printf("     %d points, %d stages compared\n", points, stages);
}

/* Values out of bounds, and windows that bounds do not keep inside. */
static void refused(const char *text, int64_t n, kn_status code, const char *part) {
    float     x[64] = {0};
    kn_array  slot[2] = {{&n, 1, KN_INDEX}, {x, 64, KN_F32}};
    kn_value  out[2];
    for (int d = 0; d < 2; d++) {
        kn_fault  f = {0};
        kn_graph *g = kg_new(NULL);
        kn_ref    r = kg_parse(g, text, strlen(text), &f);
        int       k = 2;
        CHECK(r != 0);
        CHECK(!kr_run_program(devices[d], g, r, slot, 2, out, &k, &f));
        if (!CHECK_EQ(f.code, code) || !CHECK(strstr(f.text, part) != NULL)) fprintf(stderr, "  %s\n", f.text);
        kg_free(g);
    }
}

static void test_refused(void) {
#define N "%n = PARAM {slot=0, dtype=index, name=\"n\", min=1, max=16} []\n"
    refused(N "%1 = REDUCE {op=ADD, axes=(0)} (PARAM {slot=1} [%n, 4])", 17, KN_ERR_ARG,
            "n is 17, out of its bounds 1 to 16");
    refused(N "%1 = REDUCE {op=ADD, axes=(0)} (PARAM {slot=1} [%n, 4])", 0, KN_ERR_ARG,
            "n is 0, out of its bounds 1 to 16");
    refused(N "%1 = SHRINK (PARAM {slot=1} [64]) [%n] [50]", 3, KN_ERR_UNSUPPORTED,
            "SHRINK: the bounds of a symbolic size");
    refused(N "%1 = PAD (PARAM {slot=1} [%n, 4]) [1, 0] [16, 4]", 3, KN_ERR_UNSUPPORTED, "PAD: the bounds");
#undef N
}

int main(int argc, char **argv) {
    static const char *const names[] = {"CPU", "INTERP"};
    kn_fault                 f       = {0};
    if (argc > 1) only = argv[1];
    for (int k = 0; k < 2; k++)
        if (!CHECK((devices[k] = kr_new(NULL, &(kn_config){.device = names[k]}, &f)) != NULL)) return check_result();
    RUN(test_programs);
    if (!only) RUN(test_refused);
    for (int k = 0; k < 2; k++) kr_free(devices[k]);
    return check_result();
}
