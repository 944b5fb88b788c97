/* Functions of the host through the stages: programs of the text form, verified and interpreted after each, against the
 * tensor program itself. */
#include "check.h"
#include "dialect/eval.h"
#include "lower/pipeline.h"

enum { MOST = 64 };

/* "twice": out = 2 in, of one array. "split": the sum and the difference of two. */
static bool host(void *user, const char *name, const kn_custom_args *a, kn_fault *f) {
    int         *calls = user;
    const float *x     = a->in[0].data;
    float       *y     = a->out[0].data;
    bool         split = !strcmp(name, "split");
    if (!split && strcmp(name, "twice") != 0) return kn_fail(f, KN_ERR_UNSUPPORTED, "no \"%s\"", name);
    ++*calls;
    CHECK_EQ(a->nin, split ? 2 : 1);
    for (int64_t i = 0; i < a->out[0].numel; i++) {
        y[i] = split ? x[i] + ((const float *)a->in[1].data)[i] : 2 * x[i];
        if (split) ((float *)a->out[1].data)[i] = x[i] - ((const float *)a->in[1].data)[i];
    }
    return true;
}

static const struct {
    const char *text;
    int         calls, kernels; /* of the host's; all that run */
} programs[] = {
    {"%x = PARAM {slot=0} [2, 3]\n%f = CUSTOM_FUNCTION {\"twice\"} (PARAM {slot=0, space=REG} [2, 3])\n"
     "%1 = GETTUPLE {0} (CALL %f %x)",
     1, 1},
    {"%x = PARAM {slot=0} [2, 3]\n%f = CUSTOM_FUNCTION {\"twice\"} (PARAM {slot=0, space=REG} [6])\n"
     "%c = CALL %f (NEG %x)\n%1 = ADD (GETTUPLE {0} %c) 1.0:f32",
     1, 3},
    /* an argument that a reader of the result reads too: one kernel must not be both before and after the call */
    {"%x = PARAM {slot=0} [6]\n%f = CUSTOM_FUNCTION {\"twice\"} (PARAM {slot=0, space=REG} [6])\n%v = SIN (MUL %x %x)\n"
     "%c = CALL %f %v\n%1 = TUPLE (ADD (GETTUPLE {0} %c) %v) %v",
     1, 3},
    /* two results, of which one is stored twice; both arguments are one value */
    {"%x = PARAM {slot=0} [4]\n%p = PARAM {slot=0, space=REG} [4]\n%q = PARAM {slot=1, space=REG} [4]\n"
     "%f = CUSTOM_FUNCTION {\"split\"} %p %q\n%c = CALL %f %x (FLIP {axes=(1)} %x)\n%a = GETTUPLE {0} %c\n"
     "%1 = TUPLE %a %a (GETTUPLE {1} %c)",
     1, 3},
    {"%x = PARAM {slot=0} [4]\n%p = PARAM {slot=0, space=REG} [4]\n%q = PARAM {slot=1, space=REG} [4]\n"
     "%f = CUSTOM_FUNCTION {\"split\"} %p %q\n%t = CUSTOM_FUNCTION {\"twice\"} %p\n%c = CALL %f %x %x\n"
     "%d = CALL %t (GETTUPLE {1} %c)\n%e = CALL %t (GETTUPLE {0} %d)\n%1 = GETTUPLE {0} %e",
     3, 3},
    /* the same function called alike and otherwise */
    {"%x = PARAM {slot=0} [4]\n%f = CUSTOM_FUNCTION {\"twice\"} (PARAM {slot=0, space=REG} [4])\n"
     "%a = GETTUPLE {0} (CALL %f %x)\n%b = GETTUPLE {0} (CALL %f (MUL %x %x))\n%1 = SUB %a %b",
     2, 4},
    /* what the host's gradient hangs at: nothing runs */
    {"%x = PARAM {slot=0} [4]\n%c = CALL (CUSTOM_FUNCTION {\"own\"} 2) (NEG %x) (MUL %x %x) %x\n"
     "%1 = ADD (GETTUPLE {0} %c) (GETTUPLE {1} %c)",
     0, 1},
};

typedef struct run {
    const kn_array *in;
    kn_value        want[4];
    int             nwant, calls, stages;
    const int      *slot;
    const char     *text;
} run;

static bool after_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    run     *r = user;
    float    out[4][MOST];
    kn_array slot[MOST] = {r->in[0]};
    int      calls = 0, none = 0;
    for (int k = 0; k < r->nwant; k++) slot[r->slot[k]] = (kn_array){out[k], r->want[k].numel, KN_F32};
    kn_eval_opts o = {.check = true, .custom = host, .custom_user = &calls};
    if (!CHECK(kn_eval(g, root, slot, MOST, NULL, &none, &o, f))) {
        fprintf(stderr, "after %s: %s\n%s\n", kn_stage_names[stage], f->text, r->text);
        return false;
    }
    CHECK_EQ(calls, r->calls);
    for (int k = 0; k < r->nwant; k++)
        for (int64_t i = 0; i < r->want[k].numel; i++) CHECK_NEAR(out[k][i], ((float *)r->want[k].data)[i], 1e-6);
    r->stages++;
    return true;
}

static void through_the_stages(void) {
    for (int i = 0; i < KN_COUNT(programs); i++) {
        float      x[6]  = {1, 2.5f, -3, 4, 0.25f, 6};
        kn_graph  *g     = kg_new(NULL);
        kn_fault   f     = {0};
        kn_ref     root  = kg_parse(g, programs[i].text, strlen(programs[i].text), &f);
        kn_array   in[]  = {{x, 6, KN_F32}};
        run        r     = {.in = in, .nwant = 4, .text = programs[i].text};
        int        calls = 0, out[4], nout;
        kl_program p;
        kl_run     lower = {.verify = true, .seen = after_stage, .user = &r};
        if (!CHECK(root && kn_verify(g, root, KN_STAGE_TENSOR, &f))) {
            fprintf(stderr, "%s\n", f.text);
            continue;
        }
        kn_eval_opts o = {.check = true, .custom = host, .custom_user = &calls};
        if (!CHECK(kn_eval(g, root, in, 1, r.want, &r.nwant, &o, &f))) fprintf(stderr, "%s\n", f.text);
        CHECK_EQ(calls, programs[i].calls);
        r.calls = calls;
        kl_program_init(&p, NULL);
        bool ok = kl_program_from(&p, g, root, out, 4, &nout, &f);
        r.slot  = out;
        CHECK_EQ(nout, r.nwant);
        if (!CHECK(ok && kl_lower(&p, &lower, &f))) fprintf(stderr, "%s\n%s\n", f.text, programs[i].text);
        CHECK_EQ(p.ncall, programs[i].kernels);
        CHECK_EQ(r.stages, 8);
        kl_program_free(&p);
        for (int k = 0; k < r.nwant; k++) kn_value_free(NULL, &r.want[k]);
        kg_free(g);
    }
}

static void refused(void) {
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"%x = PARAM {slot=0} [4]\n%t = PARAM {slot=0, space=REG} [4]\n"
         "%1 = GETTUPLE {1} (CALL (CUSTOM_FUNCTION {\"f\"} %t) %x)",
         "no such result"},
        {"%x = PARAM {slot=0} [4]\n%1 = GETTUPLE {0} (CALL (CUSTOM_FUNCTION {\"f\"} 2) %x)", "no such result"},
        {"%x = PARAM {slot=0} [4]\n%1 = GETTUPLE {0} (CUSTOM_FUNCTION {\"f\"} %x)", "needs a TUPLE"},
    };
    for (int i = 0; i < KN_COUNT(bad); i++) {
        kn_graph *g = kg_new(NULL);
        kn_fault  f = {0};
        CHECK_EQ(kg_parse(g, bad[i].text, strlen(bad[i].text), &f), 0);
        if (!strstr(f.text, bad[i].part)) CHECK_STR(f.text, bad[i].part);
        kg_free(g);
    }
    static const char text[] =
        "%n = PARAM {slot=1, dtype=index, name=\"n\", min=1, max=9} []\n%x = PARAM {slot=0} [%n]\n"
        "%f = CUSTOM_FUNCTION {\"twice\"} (PARAM {slot=0, space=REG} [4])\n%1 = GETTUPLE {0} (CALL %f %x)";
    kn_graph  *g    = kg_new(NULL);
    kn_fault   f    = {0};
    kn_ref     root = kg_parse(g, text, strlen(text), &f);
    kl_program p;
    int        out[4], nout;
    kl_run     lower = {0};
    kl_program_init(&p, NULL);
    CHECK(root && kl_program_from(&p, g, root, out, 4, &nout, &f) && !kl_lower(&p, &lower, &f));
    CHECK(strstr(f.text, "symbolic sizes") != NULL);
    kl_program_free(&p);
    kg_free(g);
}

int main(void) {
    RUN(through_the_stages);
    RUN(refused);
    return check_result();
}
