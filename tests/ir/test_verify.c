/* test_verify.c - the verifier: each rule refuses what breaks it and passes what does not. */
#include "check.h"
#include "rules/verify.h"

static void expect(const char *text, kn_stage stage, const char *rule) {
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    kn_ref    n = kg_parse(g, text, strlen(text), &f);
    if (!CHECK(n != 0)) fprintf(stderr, "%s\n", f.text);
    bool ok = n && kn_verify(g, n, stage, &f);
    CHECK_EQ(ok, rule == NULL);
    if (rule ? !strstr(f.text, rule) : !ok) CHECK_STR(f.text, rule ? rule : "");
    kg_free(g);
}

#define OUT "%o = PARAM {slot=0} [64]\n%a = PARAM {slot=1} [64]\n"
#define LOOP OUT "%i = RANGE {id=0, type=LOOP} 64\n"
#define COPY LOOP "%v = LOAD (INDEX %a %i)\n%s = STORE (INDEX %o %i) %v\n"

static void test_stages(void) {
    static const char tensor[] = OUT "%r = REDUCE {op=ADD, axes=(0)} (MUL (DETACH %a) 2.0:f32)\n%p = PAD %r [1] [3]\n";
    expect(tensor, KN_STAGE_ANY, NULL);
    expect(tensor, KN_STAGE_TENSOR, NULL);
    expect(tensor, KN_STAGE_RANGEIFY, "verify.gone_");
    expect(OUT "%x = SINK (STORE %o (NEG %a))", KN_STAGE_CALLIFY, NULL);
    expect(OUT "%x = SINK (STORE %o (RESHAPE (RESHAPE %a [8, 8]) [64]))", KN_STAGE_RANGEIFY, "verify.movement_RESHAPE");
    expect(LOOP "%x = NEG (CAST {f32} %i)", KN_STAGE_TENSOR, "verify.tensor_loop");
    expect(OUT "%x = LOAD %a %o (CMPLT %a 1.0:f32)", KN_STAGE_TENSOR, "verify.tensor_gate");
    expect("%1 = SINK (HOLE)", KN_STAGE_ANY, NULL);
    expect("%1 = SINK (HOLE)", KN_STAGE_TENSOR, "verify.hole");
}

static void test_memory(void) {
    expect(OUT "%x = SINK (STORE (NEG %o) %a)", KN_STAGE_ANY, "verify.store_target_STORE");
    expect(OUT "%x = SINK (STORE (AFTER (RESHAPE %o [8, 8]) (STORE %o %a)) 1.0:f32)", KN_STAGE_TENSOR, NULL);
    expect("%b = BUFFER {slot=1, size=4}\n%x = SINK (STORE %b 1.0:f32)", KN_STAGE_TENSOR, NULL);
    expect("%b = BUFFER {slot=1, size=4}\n%x = SINK (STORE %b 1.0:f32)", KN_STAGE_CALLIFY, "verify.stateless");
    expect("%b = BUFFER {slot=1, size=4, space=REG}\n%x = SINK (STORE %b 1.0:f32)", KN_STAGE_EXPAND, NULL);
    expect(LOOP "%x = SINK (END (STORE (INDEX %o %i) (LOAD (NEG (INDEX %a %i)))) %i)", KN_STAGE_RANGEIFY,
           "verify.load_source");
}

static void test_loops(void) {
    expect(COPY "%e = END %s %i\n%x = SINK %e", KN_STAGE_RANGEIFY, NULL);
    expect(COPY "%x = SINK %s", KN_STAGE_RANGEIFY, "verify.loops_closed");
    static const char sum[] = LOOP "%v = REDUCE {op=ADD} (LOAD (INDEX %a %i)) %i\n%x = SINK (STORE (INDEX %o 0) %v)";
    expect(sum, KN_STAGE_RANGEIFY, NULL);
    expect(sum, KN_STAGE_EXPAND, "verify.expanded");
    static const char upcast[] =
        OUT "%i = RANGE {id=0, type=UPCAST} 64\n%x = SINK (END (STORE (INDEX %o %i) 1.0:f32) %i)";
    expect(upcast, KN_STAGE_OPTIMIZE, NULL);
    expect(upcast, KN_STAGE_SELECT, "verify.upcast");
    expect(OUT "%i = RANGE {id=0, type=UPCAST, rank=1} 64\n%x = SINK (STORE (INDEX %o %i) 1.0:f32)", KN_STAGE_SELECT,
           NULL);
    expect("%i = RANGE {id=0, type=LOOP} 4611686018427387904\n%x = MUL %i 4", KN_STAGE_ANY,
           "verify.index_overflow_MUL");
    expect("%n = PARAM {slot=0, dtype=index} []\n%x = MUL %n 4", KN_STAGE_ANY, NULL);
}

static void test_linear(void) {
    expect(COPY "%e = END %s %i\n%x = LINEAR %o %a %i %v %s %e", KN_STAGE_LINEARIZE, NULL);
    expect(COPY "%e = END %s %i\n%x = LINEAR %i %s %v %e", KN_STAGE_LINEARIZE, "verify.linear_order");
    expect(COPY "%e = END %s %i\n%x = LINEAR %i %v %e %s", KN_STAGE_LINEARIZE, "verify.linear_order");
    expect(COPY "%e = END %s %i\n%x = LINEAR %i %v %s", KN_STAGE_LINEARIZE, "verify.linear_nest");
    expect(COPY "%e = END %s %i\n%w = NEG %v\n%x = LINEAR %i %v %s %e %w", KN_STAGE_LINEARIZE, "verify.linear_nest");
    expect(COPY "%j = RANGE {id=1, type=LOOP} 4\n%e = END %s %i\n%d = END %e %j\n%x = LINEAR %i %j %v %s %e %d",
           KN_STAGE_LINEARIZE, "verify.linear_nest");
    expect(COPY "%j = RANGE {id=1, type=LOOP} 4\n%e = END %s %i\n%d = END %e %j\n%x = LINEAR %j %i %v %s %e %d",
           KN_STAGE_LINEARIZE, NULL);
    /* a schedule: bodies are kernels with PARAMs of their own */
    expect(COPY
           "%e = END %s %i\n%k = SINK %e\n%b = BUFFER {slot=1, size=64}\n%x = LINEAR (CALL %k %b %o) (CALL %k %o %b)",
           KN_STAGE_RANGEIFY, NULL);
    expect(COPY "%k = SINK %s\n%b = BUFFER {slot=1, size=64}\n%x = LINEAR (CALL %k %b %o)", KN_STAGE_RANGEIFY,
           "verify.loops_closed");
    expect(COPY "%e = END %s %i\n%k = SINK %e\n%x = LINEAR (CALL %k 1.0:f32 %o)", KN_STAGE_RANGEIFY,
           "verify.call_args");
}

/* A fold of one value, with this combine. */
#define FOLD(dtype, combine)                                                                                          \
    OUT "%p = PARAM {slot=0, dtype=" dtype ", space=REG} []\n%q = PARAM {slot=1, dtype=" dtype ", space=REG} []\n"    \
        "%t = TUPLE " combine "\n%f = REDUCE {op=FUNCTION, axes=(0)} (FUNCTION %t 0.0:f32 %a)\n"                      \
        "%x = SINK (STORE %o (EXPAND (GETTUPLE {0} %f) [64]))"

static void test_folds(void) {
    expect(FOLD("f32", "(ADD %p (MUL %q 2.0:f32))"), KN_STAGE_TENSOR, NULL);
    expect(FOLD("f32", "(ADD %p (MUL %q 2.0:f32))"), KN_STAGE_CALLIFY, NULL);
    expect(FOLD("f32", "%q"), KN_STAGE_ANY, NULL);
    expect(FOLD("f32", "(MAX %p (INDEX %a 0))"), KN_STAGE_TENSOR, "combine");
    expect(FOLD("f32", "(MAX %p (PARAM {slot=1} []))"), KN_STAGE_TENSOR, "combine");
    expect(FOLD("f32", "(MAX %p (PARAM {slot=2, space=REG} []))"), KN_STAGE_TENSOR, "no such PARAM");
    expect(FOLD("f64", "(CAST {f32} (MAX %p %q))"), KN_STAGE_TENSOR, "plain scalar");
    expect(FOLD("f32", "(MAX %p (PARAM {slot=1, space=REG, name=\"n\"} []))"), KN_STAGE_TENSOR, "plain scalar");
    expect(OUT "%x = SINK (STORE %o (GETTUPLE {0} (FUNCTION (TUPLE %a) %a)))", KN_STAGE_TENSOR, NULL);
    expect(OUT "%x = SINK (STORE %o (GETTUPLE {0} (FUNCTION (TUPLE %a) %a)))", KN_STAGE_RANGEIFY, "only_folds");
    expect(FOLD("f32", "(MAX %p %q)"), KN_STAGE_EXPAND, "gone_function");
    expect("%p = PARAM {slot=0, space=REG} []\n%x = SINK (STORE %p 1.0:f32)", KN_STAGE_ANY, "store_target");
}

static void test_names(void) {
    CHECK_EQ(kn_stage_by_name("rangeify"), KN_STAGE_RANGEIFY);
    CHECK_EQ(kn_stage_by_name("nothing"), -1);
}

int main(void) {
    RUN(test_stages);
    RUN(test_memory);
    RUN(test_loops);
    RUN(test_linear);
    RUN(test_folds);
    RUN(test_names);
    return check_result();
}
