/* The interpreter: each class of ops, loops, expanded kernels, linear code, calls, and what must be refused. Programs
 * are in the text form; floats go in and out as f32. */
#include "check.h"
#include "failing.h"
#include "dialect/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OUT = 8 };
static struct {
    kn_graph *g;
    kn_fault  f;
    kn_value  out[MAX_OUT];
    int       nout;
} t;

static void finish(void) {
    for (int i = 0; i < t.nout; i++) kn_value_free(NULL, &t.out[i]);
    kg_free(t.g);
    memset(&t, 0, sizeof t);
}

static bool run(const char *text, const kn_array *slots, int nslots) {
    finish();
    t.g         = kg_new(NULL);
    kn_ref root = kg_parse(t.g, text, strlen(text), &t.f);
    if (!root) fprintf(stderr, "%s\n", t.f.text);
    if (!CHECK(root)) return false;
    t.nout  = MAX_OUT;
    kn_eval_opts opts = {.check = true};
    bool ok = kn_eval(t.g, root, slots, nslots, t.out, &t.nout, &opts, &t.f);
    if (!ok) t.nout = 0;
    return ok;
}

static double at(int out, int64_t i) {
    if (!CHECK(out < t.nout && i < t.out[out].numel)) return 0;
    int       dt = t.out[out].dtype;
    kn_scalar s = kn_load_scalar((char *)t.out[out].data + i * kn_dsize(dt), dt);
    return kn_is_float(dt) ? s.f : (double)s.i;
}

/* The program's one value is these numbers. */
static void gives(const char *text, const kn_array *slots, int nslots, const double *want, int n) {
    if (!CHECK(run(text, slots, nslots))) {
        fprintf(stderr, "  %s\n%s\n", t.f.text, text);
        return;
    }
    if (!CHECK_EQ(t.nout, 1) || !CHECK_EQ(t.out[0].numel, n)) return;
    for (int i = 0; i < n; i++)
        if (!CHECK_NEAR(at(0, i), want[i], 0)) fprintf(stderr, "  element %d of\n%s\n", i, text);
}
#define WANT(...) (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
#define F32(a) {(a), (int64_t)(sizeof(a) / sizeof((a)[0])), KN_F32}

static void refuses(const char *text, const kn_array *slots, int nslots, kn_status code, const char *word) {
    CHECK(!run(text, slots, nslots));
    CHECK_EQ(t.f.code, code);
    if (!CHECK(strstr(t.f.text, word) != NULL)) fprintf(stderr, "  %s\n", t.f.text);
}

static float A6[6] = {1, 2, 3, 4, 5, 6};

static void movement(void) {
    kn_array s[] = {F32(A6)};
#define P "%p = PARAM {slot=0} [2, 3]\n"
    gives(P "%1 = PERMUTE {axes=(1, 0)} %p", s, 1, WANT(1, 4, 2, 5, 3, 6));
    gives(P "%1 = FLIP {axes=(0, 1)} %p", s, 1, WANT(3, 2, 1, 6, 5, 4));
    gives(P "%1 = FLIP {axes=(1, 1)} %p\n%2 = PERMUTE {axes=(1, 0)} %1", s, 1, WANT(6, 3, 5, 2, 4, 1));
    gives(P "%1 = SHRINK %p [1, 1] [1, 2]", s, 1, WANT(5, 6));
    gives(P "%1 = PAD %p [1, 0] [3, 4]", s, 1, WANT(0, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6, 0));
    gives(P "%1 = PAD (NEG %p) [0, 1] [2, 4]", s, 1, WANT(0, -1, -2, -3, 0, -4, -5, -6));
    gives(P "%1 = RESHAPE %p [3, 2]\n%2 = PERMUTE {axes=(1, 0)} %1", s, 1, WANT(1, 3, 5, 2, 4, 6));
    gives(P "%1 = SHRINK %p [0, 1] [2, 1]\n%2 = EXPAND %1 [2, 3]", s, 1, WANT(2, 2, 2, 5, 5, 5));
    gives(P "%1 = STACK %p (NEG %p)", s, 1, WANT(1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6));
    gives(P "%1 = INDEX %p 1", s, 1, WANT(4, 5, 6));
    gives(P "%1 = INDEX (NEG %p) 1 2", s, 1, WANT(-6));
    gives(P "%1 = INDEX %p [1, 0, 1] [2, 0]", s, 1, WANT(6, 4, 3, 1, 6, 4));
    gives(P "%1 = INDEX (NEG %p) [1, 0]", s, 1, WANT(-4, -5, -6, -1, -2, -3));
    gives(P "%1 = BITCAST {i32} %p", s, 1,
          WANT(0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000, 0x40c00000));
    gives("%p = PARAM {slot=0} [6]\n%1 = SLICE {size=2} %p 3", s, 1, WANT(4, 5));
    gives("%p = PARAM {slot=0} [6]\n%1 = SLICE {size=2, dtype=i32} (NEG %p) 0", s, 1, WANT(-1082130432, -1073741824));
    gives("%p = PARAM {slot=0} [6]\n%1 = INDEX {1} %p 8", s, 1, WANT(3));
    gives("%1 = RANGE {rank=2, axis=1} 3", NULL, 0, WANT(0, 1, 2));
#undef P
}

static void elementwise_and_reduce(void) {
    kn_array s[] = {F32(A6)};
#define P "%p = PARAM {slot=0} [2, 3]\n"
    gives(P "%1 = ADD %p (MUL (INDEX %p 1) 10.0:f32)", s, 1, WANT(41, 52, 63, 44, 55, 66));
    gives(P "%r = SHRINK %p [0, 0] [2, 1]\n%1 = SUB %p %r", s, 1, WANT(0, 1, 2, 0, 1, 2));
    gives(P "%1 = WHERE (CMPLT %p 4.0:f32) %p 0.0:f32", s, 1, WANT(1, 2, 3, 0, 0, 0));
    gives(P "%1 = CAST {i32} (DIV %p 2.0:f32)", s, 1, WANT(0, 1, 1, 2, 2, 3));
    gives(P "%1 = REDUCE {op=ADD, axes=(1)} %p", s, 1, WANT(6, 15));
    gives(P "%1 = REDUCE {op=MUL, axes=(0)} %p", s, 1, WANT(4, 10, 18));
    gives(P "%1 = REDUCE {op=MAX, axes=(0, 1)} %p", s, 1, WANT(6));
    gives(P "%1 = REDUCE {op=MIN, axes=(0, 1)} (NEG %p)", s, 1, WANT(-6));
    gives(P "%1 = SHRINK %p [0, 0] [2, 0]\n%2 = REDUCE {op=MAX, axes=(1)} %1", s, 1,
          WANT(-(double)INFINITY, -(double)INFINITY));
    gives(P "%1 = MULACC %p %p 1.0:f32", s, 1, WANT(2, 5, 10, 17, 26, 37));
    gives("%1 = THREEFRY 0:u64 0:u64\n%2 = BITCAST {u32} (RESHAPE %1 [1])", NULL, 0, WANT(0x6b200159, 0x99ba4efe));
    gives(P "%1 = LOAD %p\n%2 = DETACH %1\n%3 = CONTIGUOUS_BACKWARD (NEG %2)", s, 1, WANT(-1, -2, -3, -4, -5, -6));
    /* 2048 + 1 + 1 in f16, from the left: each sum rounds back */
    gives("%1 = STACK 2048.0:f16 1.0:f16 1.0:f16\n%2 = REDUCE {op=ADD, axes=(0)} %1", NULL, 0, WANT(2048));
#undef P
}

static void functions_and_tuples(void) {
    kn_array s[] = {F32(A6)};
    const char *text = "%p = PARAM {slot=0} [2, 3]\n"
                       "%q = PARAM {slot=1} [2, 3]\n"
                       "%body = TUPLE (ADD %p %q) (REDUCE {op=ADD, axes=(0)} %q)\n"
                       "%f = FUNCTION %body %p (NEG %p)\n"
                       "%r = TUPLE (GETTUPLE {1} %f) (GETTUPLE {0} %f) %p (GETTUPLE {0} (TUPLE %p %q))";
    if (CHECK(run(text, s, 1)) && CHECK_EQ(t.nout, 4)) {
        CHECK(at(0, 0) == -5 && at(0, 2) == -9 && at(1, 5) == 0 && at(2, 5) == 6 && at(3, 1) == 2);
        CHECK_EQ(t.out[0].rank, 2);
        CHECK_EQ(t.out[0].dims[0], 1);
    } else fprintf(stderr, "  %s\n", t.f.text);
}

static void tensor_stores(void) {
    float    a[6], b[6];
    kn_array s[] = {F32(a), F32(b)};
    for (int i = 0; i < 6; i++) a[i] = (float)i, b[i] = 100;
    /* b = a + 1; then the second column of a, seen transposed, = 7 + (the new b)[:2] */
    const char *text = "%a = PARAM {slot=0} [2, 3]\n"
                       "%b = PARAM {slot=1} [2, 3]\n"
                       "%s1 = STORE %b (ADD %a 1.0:f32)\n"
                       "%b2 = AFTER %b %s1\n"
                       "%v = SHRINK (PERMUTE {axes=(1, 0)} %a) [1, 0] [1, 2]\n"
                       "%s2 = STORE %v (ADD (SHRINK (RESHAPE %b2 [6]) [0] [2]) 7.0:f32)\n"
                       "%end = SINK %s1 %s2";
    CHECK(run(text, s, 2));
    CHECK_EQ(t.nout, 0);
    CHECK(b[0] == 1 && b[5] == 6 && a[1] == 8 && a[4] == 9 && a[0] == 0 && a[5] == 5);
    /* an assignment is a value: the buffer after the store */
    gives("%b = BUFFER {slot=1, size=4, dtype=i32}\n"
          "%w = SHRINK %b [1] [2]\n"
          "%1 = AFTER %b (GROUP (STORE %b 3:i32) (STORE %w (STACK 5:i32 6:i32)))", s, 2, WANT(3, 5, 6, 3));
    /* read before written: the pattern */
    gives("%b = BUFFER {slot=1, size=1, dtype=u8}", s, 2, WANT(0xA5));
}

static void variables(void) {
    int64_t  n = 3;
    kn_array s[] = {{&n, 1, KN_INDEX}, F32(A6)};
#define N "%n = PARAM {slot=0, dtype=index, name=\"n\", min=1, max=5} []\n"
    gives(N "%i = RANGE {id=0, type=REDUCE} %n\n%p = PARAM {slot=1} [6]\n"
          "%1 = REDUCE {op=ADD} (LOAD (INDEX %p %i)) %i", s, 2, WANT(6));
    n = 6;
    refuses(N "%1 = ADD %n 1", s, 2, KN_ERR_ARG, "bounds");
    gives(N "%1 = BIND %n 4", NULL, 0, WANT(4));
    refuses(N "%1 = BIND %n 7", NULL, 0, KN_ERR_ARG, "bounds");
    gives("%b = PARAM {slot=1} [6]\n%o = PARAM {slot=0, dtype=index} []\n%1 = SHRINK %b [(SUB %o 2)] [2]", s, 2,
          WANT(5, 6));
#undef N
}

/* out = a (4,5) times b (5,6), three ways: equal bit for bit, since all add in ascending order of k. */
static void three_matmuls(void) {
    static const char *tensor = "%a = RESHAPE (PARAM {slot=1} [4, 5]) [4, 5, 1]\n"
                                "%b = RESHAPE (PARAM {slot=2} [5, 6]) [1, 5, 6]\n"
                                "%c = REDUCE {op=ADD, axes=(1)} (MUL %a %b)\n"
                                "%s = STORE (PARAM {slot=0} [4, 6]) (RESHAPE %c [4, 6])\n"
                                "%r = SINK %s";
    static const char *ranged = "%c = PARAM {slot=0} [24]\n%a = PARAM {slot=1} [20]\n%b = PARAM {slot=2} [30]\n"
                                "%i = RANGE {id=0, type=LOOP} 4\n"
                                "%j = RANGE {id=1, type=LOOP} 6\n"
                                "%k = RANGE {id=2, type=REDUCE} 5\n"
                                "%x = LOAD (INDEX %a (ADD (MUL %i 5) %k))\n"
                                "%y = LOAD (INDEX %b (ADD (MUL %k 6) %j))\n"
                                "%d = REDUCE {op=ADD} (MUL %x %y) %k\n"
                                "%s = STORE (INDEX %c (ADD (MUL %i 6) %j)) %d\n"
                                "%r = SINK (END %s %i %j)";
    static const char *expanded = "%c = PARAM {slot=0} [24]\n%a = PARAM {slot=1} [20]\n%b = PARAM {slot=2} [30]\n"
                                  "%it = RANGE {id=0, type=LOOP} 2\n"
                                  "%k = RANGE {id=2, type=REDUCE} 5\n"
                                  "%iu = RANGE {id=3, type=UPCAST, rank=2, axis=0} 2\n"
                                  "%ju = RANGE {id=4, type=UPCAST, rank=2, axis=1} 6\n"
                                  "%i = ADD (MUL %it 2) %iu\n"
                                  "%acc = BUFFER {slot=0, size=12, space=REG}\n"
                                  "%at = ADD (MUL %iu 6) %ju\n"
                                  "%init = STORE (INDEX (AFTER %acc %it) %at) 0.0:f32\n"
                                  "%acck = AFTER %acc %init %k\n"
                                  "%x = LOAD (INDEX %a (ADD (MUL %i 5) %k))\n"
                                  "%y = LOAD (INDEX %b (ADD (MUL %k 6) %ju))\n"
                                  "%sum = ADD (LOAD (INDEX %acck %at)) (MUL %x %y)\n"
                                  "%loop = END (STORE (INDEX %acck %at) %sum) %k\n"
                                  "%d = LOAD (INDEX (AFTER %acc %loop) %at)\n"
                                  "%s = STORE (INDEX %c (ADD (MUL %i 6) %ju)) %d\n"
                                  "%r = SINK (END %s %it)";
    float a[20], b[30], c[3][24];
    for (int i = 0; i < 20; i++) a[i] = (float)(i * 7 % 11) * 0.1f - 0.3f;
    for (int i = 0; i < 30; i++) b[i] = (float)(i * 5 % 13) * 0.3f - 1.1f;
    const char *text[3] = {tensor, ranged, expanded};
    for (int k = 0; k < 3; k++) {
        memset(c[k], 0x55, sizeof c[k]);
        kn_array s[] = {F32(c[k]), F32(a), F32(b)};
        if (!CHECK(run(text[k], s, 3))) fprintf(stderr, "  program %d: %s\n", k, t.f.text);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 6; j++) {
            float d = 0;
            for (int k = 0; k < 5; k++) d = (float)(d + (float)(a[5 * i + k] * b[6 * k + j]));
            CHECK(c[0][6 * i + j] == d);
        }
    CHECK(!memcmp(c[0], c[1], sizeof c[0]));
    CHECK(!memcmp(c[0], c[2], sizeof c[0]));
}

static void loops(void) {
    float    in[6] = {3, 1, 4, 1, 5, 9}, out[6];
    kn_array s[] = {F32(out), F32(in)};
#define P "%o = PARAM {slot=0} [6]\n%x = PARAM {slot=1} [6]\n"
    /* a bound that depends on an outer range: prefix sums */
    CHECK(run(P "%i = RANGE {id=0} 6\n%j = RANGE {id=1, type=REDUCE} (ADD %i 1)\n"
              "%d = REDUCE {op=ADD} (LOAD (INDEX %x %j)) %j\n%r = SINK (END (STORE (INDEX %o %i) %d) %i)", s, 2));
    CHECK(out[0] == 3 && out[1] == 4 && out[5] == 23);
    /* softmax's shape: two reductions in turn, the second needs the first, one range for both and for the body */
    CHECK(run(P "%i = RANGE {id=0} 2\n%j = RANGE {id=1, type=REDUCE} 3\n%k = RANGE {id=2} 3\n"
              "%aj = LOAD (INDEX %x (ADD (MUL %i 3) %j))\n"
              "%m = REDUCE {op=MAX} %aj %j\n"
              "%d = REDUCE {op=ADD} (SUB %aj %m) %j\n"
              "%ak = LOAD (INDEX %x (ADD (MUL %i 3) %k))\n"
              "%st = STORE (INDEX %o (ADD (MUL %i 3) %k)) (ADD (SUB %ak %m) %d)\n"
              "%r = SINK (END %st %i %k)", s, 2));
    CHECK(out[0] == 3 - 4 - 4 && out[2] == 4 - 4 - 4 && out[3] == 1 - 9 - 12 && out[5] == 9 - 9 - 12);
    /* a loop of no rounds writes nothing */
    out[0] = 77;
    CHECK(run(P "%i = RANGE {id=0} 0\n%r = SINK (END (STORE (INDEX %o %i) 0.0:f32) %i)", s, 2));
    CHECK(out[0] == 77);
    gives("%i = RANGE {id=0} 0\n%1 = REDUCE {op=MIN} (CAST {i32} %i) %i", s, 2, WANT(INT32_MAX));
    /* gates: the load's comes before its bounds, the store's too */
    CHECK(run(P "%i = RANGE {id=0} 9\n%g = CMPLT %i 6\n%h = CMPLT 0 %i\n"
              "%v = LOAD (INDEX %x (SUB %i 1)) -1.0:f32 (AND %g %h)\n"
              "%r = SINK (END (STORE (INDEX %o %i) %v %g) %i)", s, 2));
    CHECK(out[0] == -1 && out[1] == 3 && out[5] == 5);
    /* several outputs of one loop, and a store that a later read must see */
    CHECK(run(P "%i = RANGE {id=0} 6\n%k = RANGE {id=1} 5\n"
              "%w = STORE (INDEX %o %i) (LOAD (INDEX %x %i))\n"
              "%e = END %w %i\n%o2 = AFTER %o %e %k\n"
              "%sum = ADD (LOAD (INDEX %o2 %k)) (LOAD (INDEX %o2 (ADD %k 1)))\n"
              "%r = SINK (END (STORE (INDEX %o2 (ADD %k 1)) %sum) %k)", s, 2));
    CHECK(out[0] == 3 && out[1] == 4 && out[2] == 8 && out[5] == 23);
    /* one loop inside a walk of the same range: the outer round goes on where it was */
    gives(P "%i = RANGE {id=0} 3\n%n = REDUCE {op=ADD} %i %i\n%1 = REDUCE {op=ADD} (MUL %i %n) %i", s, 2, WANT(9));
    /* a store inside the loop does not run twice, and a tile's lanes are reduced inside it */
    CHECK(run(P "%i = RANGE {id=0} 3\n%l = RANGE {id=5, type=UPCAST, rank=1} 2\n"
              "%v = LOAD (INDEX %x (ADD (MUL %i 2) %l))\n"
              "%d = REDUCE {op=ADD, axes=(0)} %v\n"
              "%r = SINK (END (STORE (INDEX %o %i) (RESHAPE %d [])) %i)", s, 2));
    CHECK(out[0] == 4 && out[1] == 5 && out[2] == 14);
    gives(P "%i = RANGE {id=0} 3\n%l = RANGE {id=5, type=UPCAST, rank=1} 2\n"
          "%1 = REDUCE {op=ADD} (LOAD (INDEX %x (ADD (MUL %i 2) %l))) %i", s, 2, WANT(12, 11));
    gives(P "%i = RANGE {id=0} 3\n%j = RANGE {id=1} 2\n"
            "%b = BUFFERIZE (LOAD (INDEX %x (ADD (MUL %j 3) %i))) %i %j\n%1 = NEG %b",
          s, 2, WANT(-3, -1, -1, -5, -4, -9));
    /* atomics add up */
    memset(out, 0, sizeof out);
    CHECK(run(P
              "%i = RANGE {id=0} 6\n%a = ATOMIC_ADD (INDEX %o (MOD %i 2)) (LOAD (INDEX %x %i))\n%r = SINK (END %a %i)",
              s, 2));
    CHECK(out[0] == 12 && out[1] == 11);
#undef P
}

static void linear_code(void) {
    float    in[6] = {3, 1, 4, 1, 5, 9}, out[6];
    kn_array s[] = {F32(out), F32(in)};
    /* prefix sums again, an accumulator in a register and two nested loops; the gate is a branch */
    const char *text =
        "%o = PARAM {slot=0} [6]\n%x = PARAM {slot=1} [6]\n"
        "%acc = BUFFER {slot=0, size=1, space=REG}\n"
        "%i = RANGE {id=0} 6\n"
        "%acci = AFTER %acc %i\n%ai = INDEX %acci 0\n%init = STORE %ai 0.0:f32\n"
        "%n = ADD %i 1\n%j = RANGE {id=1} %n\n"
        "%accj = AFTER %acc %init %j\n%aj = INDEX %accj 0\n%la = LOAD %aj\n%xj = INDEX %x %j\n%lx = LOAD %xj\n"
        "%sum = ADD %la %lx\n%st = STORE %aj %sum\n%ej = END %st %j\n"
        "%accd = AFTER %acc %ej\n%ad = INDEX %accd 0\n%d = LOAD %ad\n"
        "%odd = CMPNE (MOD %i 2) 0\n%if = IF %odd\n%oi = INDEX %o %i\n%w = STORE %oi %d\n%fi = ENDIF %if\n"
        "%ei = END %w %i\n"
        "%r = LINEAR %o %x %acc %i %acci %ai %init %n %j %accj %aj %la %xj %lx %sum %st %ej %accd %ad %d "
        "%odd %if %oi %w %fi %ei";
    for (int i = 0; i < 6; i++) out[i] = -7;
    if (!CHECK(run(text, s, 2))) fprintf(stderr, "  %s\n", t.f.text);
    CHECK(out[0] == -7 && out[1] == 4 && out[2] == -7 && out[3] == 9 && out[5] == 23);
    /* a loop of no rounds inside another */
    CHECK(run("%o = PARAM {slot=0} [6]\n%i = RANGE {id=0} 2\n%j = RANGE {id=1} %i\n%p = INDEX %o (ADD %i %j)\n"
              "%w = STORE %p 5.0:f32\n%ej = END %w %j\n%ei = END %ej %i\n%r = LINEAR %o %i %j %p %w %ej %ei", s, 2));
    CHECK(out[0] == -7 && out[1] == 5);
    refuses("%o = PARAM {slot=0} [6]\n%i = RANGE {id=0} 2\n%w = STORE (INDEX %o %i) 5.0:f32\n%r = LINEAR %o %w", s, 2,
            KN_ERR_ARG, "outside its loop");
    refuses("%o = PARAM {slot=0} [6]\n%i = RANGE {id=0} 2\n%w = STORE (INDEX %o %i) 5.0:f32\n%e = END %w %i\n"
            "%r = LINEAR %o %w %e", s, 2, KN_ERR_ARG, "outside its loop");
}

static void schedules(void) {
    float    in[4] = {1, 2, 3, 4}, out[4] = {0};
    kn_array s[] = {F32(out), F32(in)};
    /* t = 2 in; out = reversed t, through a temporary that both calls share */
    const char *text = "%d = PARAM {slot=0} [4]\n%a = PARAM {slot=1} [4]\n%i = RANGE {id=0} 4\n"
                       "%v = LOAD (INDEX %a %i)\n"
                       "%k1 = SINK {name=\"double\"} (END (STORE (INDEX %d %i) (ADD %v %v)) %i)\n"
                       "%k2 = SINK {name=\"flip\"} (END (STORE (INDEX %d (SUB 3 %i)) %v) %i)\n"
                       "%t = BUFFER {slot=9, size=6}\n%ts = SLICE {size=4} %t 1\n"
                       "%c1 = CALL %k1 %ts %a\n%c2 = CALL %k2 %d (AFTER %ts %c1)\n"
                       "%r = LINEAR %c1 %c2";
    if (!CHECK(run(text, s, 2))) fprintf(stderr, "  %s\n", t.f.text);
    CHECK(out[0] == 8 && out[3] == 2);
    refuses("%k = SINK (STORE (PARAM {slot=0} [4]) 1.0:f32)\n%r = LINEAR (CALL %k (PARAM {slot=7} [4]))", s, 2,
            KN_ERR_ARG, "slot=7");
    refuses("%r = LINEAR (CALL (CUSTOM_FUNCTION {\"f\"}))", s, 2, KN_ERR_UNSUPPORTED, "has no function of that name");
}

static void hardware_indices(void) {
    float    out[6] = {0};
    kn_array s[] = {F32(out), F32(A6)};
    CHECK(
        run("%o = PARAM {slot=0} [6]\n%x = PARAM {slot=1} [6]\n%g = SPECIAL {\"gidx0\"} 2\n%l = SPECIAL {\"lidx0\"} 3\n"
            "%i = ADD (MUL %g 3) %l\n%r = SINK (STORE (INDEX %o %i) (NEG (LOAD (INDEX %x %i))))",
            s, 2));
    CHECK(out[0] == -1 && out[3] == -4 && out[5] == -6);
    refuses("%l = SPECIAL {\"lidx0\"} (ADD 1 2)\n%r = SINK (END (GROUP) (RANGE {id=1} %l))", NULL, 0,
            KN_ERR_UNSUPPORTED, "constant bound");
}

static void refused(void) {
    int64_t  n = 6;
    kn_array s[] = {F32(A6)}, two[] = {{&n, 1, KN_INDEX}, F32(A6)};
#define P "%x = PARAM {slot=0} [6]\n"
    refuses(P "%i = RANGE {id=0} 7\n%1 = REDUCE {op=ADD} (LOAD (INDEX %x %i)) %i", s, 1, KN_ERR_ARG, "at 6");
    refuses(P "%1 = LOAD (INDEX %x -1)", s, 1, KN_ERR_ARG, "at -1");
    refuses(P "%1 = SINK (STORE (INDEX %x 6) 1.0:f32)", s, 1, KN_ERR_ARG, "at 6");
    refuses(P "%1 = INDEX (NEG %x) 6", s, 1, KN_ERR_ARG, "out of bounds");
    refuses("%x = PARAM {slot=0} [2, 3]\n%1 = LOAD (INDEX %x 0 3)", s, 1, KN_ERR_ARG, "at 0, 3");
    refuses("%x = PARAM {slot=1} [2, 3]", s, 1, KN_ERR_ARG, "nothing is bound");
    refuses("%x = PARAM {slot=0} [7]", s, 1, KN_ERR_SHAPE, "7 elements");
    refuses("%x = PARAM {slot=0, dtype=i32} [6]", s, 1, KN_ERR_DTYPE, "holds f32");
    refuses(P "%1 = SINK (STORE (ADD %x %x) %x)", s, 1, KN_ERR_ARG, "not a view");
    refuses("%1 = SINK (HOLE {\"...\"})", s, 1, KN_ERR_ARG, "left out");
    refuses("%i = RANGE {id=0} 7\n%1 = ADD %i 1", s, 1, KN_ERR_ARG, "outside its loop");
    refuses("%n = PARAM {slot=7, dtype=index, name=\"n\"} []\n%x = PARAM {slot=1} [%n]\n%1 = NEG %x", two, 2,
            KN_ERR_ARG, "a variable that has no value");
#undef P
    /* a limit of steps */
    finish();
    const char *text = "%i = RANGE {id=0} 1000000\n%1 = REDUCE {op=ADD} (MUL %i %i) %i";
    t.g              = kg_new(NULL);
    kn_eval_opts opts = {.step_limit = 50};
    kn_ref       root = kg_parse(t.g, text, strlen(text), &t.f);
    t.nout            = MAX_OUT;
    CHECK(!kn_eval(t.g, root, NULL, 0, t.out, &t.nout, &opts, &t.f));
    CHECK_EQ(t.f.code, KN_ERR_CANCELLED);
    CHECK_EQ(t.nout, 0);
    CHECK(opts.steps >= 50 && opts.steps < 60);
}

/* Every allocation fails in turn: an error, and nothing leaks. */
static void out_of_memory(void) {
    static const char *text = "%p = PARAM {slot=0} [2, 3]\n%i = RANGE {id=0} 3\n"
                              "%t = BUFFER {slot=4, size=3, space=REG}\n"
                              "%e = END (STORE (INDEX %t %i) (CAST {f32} %i)) %i\n"
                              "%f = FUNCTION (TUPLE (FLIP {axes=(0, 1)} (NEG %p))) (PERMUTE {axes=(0, 1)} %p)\n"
                              "%q = REDUCE {op=ADD, axes=(0)} (ADD (GETTUPLE {0} %f) (INDEX (LOAD %p) [0, 1]))\n"
                              "%r = TUPLE %q (AFTER %t %e)";
    kn_alloc a = {failing, NULL};
    bool     done = false;
    for (int64_t n = 0; !done && n < 2000; n++) {
        mem.left = INT64_MAX;
        mem.live = 0;
        kn_graph *g = kg_new(&a);
        kn_fault  f = {0};
        kn_ref    root = kg_parse(g, text, strlen(text), &f);
        kn_array  s[] = {F32(A6)};
        kn_value  out[2];
        int       nout = 2;
        if (!CHECK(root)) fprintf(stderr, "  %s\n", f.text);
        mem.left = n;
        done     = kn_eval(g, root, s, 1, out, &nout, NULL, &f);
        if (!done) CHECK_EQ(f.code, KN_ERR_MEMORY);
        for (int i = 0; i < nout; i++) kn_value_free(&a, &out[i]);
        kg_free(g);
        CHECK_EQ(mem.live, 0);
    }
    CHECK(done);
}

/* Graphs far deeper than any call stack. */
static void deep(void) {
    finish();
    t.g      = kg_new(NULL);
    kn_ref x = kg_param(t.g, 0, KN_F32, (int64_t[]){2}, 1), one = kg_float(t.g, KN_F32, 1), v = x;
#if defined(KN_HOSTILE) && KN_HOSTILE
    enum { DEPTH = 2000 }; /* every lookup is a walk there */
#else
    enum { DEPTH = 200000 };
#endif
    for (int i = 0; i < DEPTH; i++) v = kg_op2(t.g, KN_OP_ADD, v, one);
    kn_array s[] = {F32(A6)};
    t.nout       = 1;
    CHECK(kn_eval(t.g, v, s, 1, t.out, &t.nout, NULL, &t.f));
    CHECK(at(0, 0) == DEPTH + 1 && at(0, 1) == DEPTH + 2);
    finish();
}

/* 64 x 784 x 128 in a ranged kernel: it must stay usable as an oracle. */
static void speed(void) {
    float *a = calloc(64 * 784, 4), *b = calloc(784 * 128, 4), *c = calloc(64 * 128, 4);
    for (int i = 0; i < 64 * 784; i++) a[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 784 * 128; i++) b[i] = (float)(i % 5) - 2;
    kn_array s[] = {{c, 64 * 128, KN_F32}, {a, 64 * 784, KN_F32}, {b, 784 * 128, KN_F32}};
    double   t0 = kn_now();
    CHECK(run("%c = PARAM {slot=0} [8192]\n%a = PARAM {slot=1} [50176]\n%b = PARAM {slot=2} [100352]\n"
              "%i = RANGE {id=0, type=LOOP} 64\n%j = RANGE {id=1, type=LOOP} 128\n%k = RANGE {id=2, type=REDUCE} 784\n"
              "%x = LOAD (INDEX %a (ADD (MUL %i 784) %k))\n%y = LOAD (INDEX %b (ADD (MUL %k 128) %j))\n"
              "%d = REDUCE {op=ADD} (MUL %x %y) %k\n"
              "%r = SINK (END (STORE (INDEX %c (ADD (MUL %i 128) %j)) %d) %i %j)", s, 3));
    printf("     6.4 M multiply-adds in %.2f s\n", kn_now() - t0);
    float d = 0;
    for (int k = 0; k < 784; k++) d += a[63 * 784 + k] * b[k * 128 + 127];
    CHECK(c[8191] == d);
    free(a);
    free(b);
    free(c);
}

int main(void) {
    RUN(movement);
    RUN(elementwise_and_reduce);
    RUN(functions_and_tuples);
    RUN(tensor_stores);
    RUN(variables);
    RUN(three_matmuls);
    RUN(loops);
    RUN(linear_code);
    RUN(schedules);
    RUN(hardware_indices);
    RUN(refused);
    RUN(out_of_memory);
    RUN(deep);
    RUN(speed);
    finish();
    return check_result();
}
