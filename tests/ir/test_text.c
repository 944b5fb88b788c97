/* test_text.c - the text form: print -> parse -> print is identity, and no bytes crash the reader. */
#include "check.h"
#include "dialect/uop.h"

#include <math.h>
#include <stdlib.h>

static kn_ref parse(kn_graph *g, const char *text, kn_fault *f) {
    *f = (kn_fault){0};
    return kg_parse(g, text, strlen(text), f);
}

/* Parses, prints, parses that into a fresh graph, prints again. */
static void round_trip(const char *text, const char *want) {
    kn_graph *g = kg_new(NULL), *h = kg_new(NULL);
    kn_fault  f;
    kn_str    a, b;
    kn_str_init(&a, NULL);
    kn_str_init(&b, NULL);
    kn_ref n = parse(g, text, &f);
    CHECK_STR(f.text, "");
    if (CHECK(n != 0)) {
        kg_print(g, n, &a);
        if (want) CHECK_STR(kn_str_c(&a), want);
        kn_ref m = parse(h, kn_str_c(&a), &f);
        CHECK_STR(f.text, "");
        kg_print(h, m, &b);
        CHECK_STR(kn_str_c(&b), kn_str_c(&a));
        /* the same text read into the same graph is the same node */
        CHECK_EQ(parse(g, kn_str_c(&a), &f), n);
    }
    kn_str_free(&a);
    kn_str_free(&b);
    kg_free(g);
    kg_free(h);
}

static const char example[] = "# a comment\n"
                              "%1 = PARAM {slot=0} [2, 3] : f32[2,3]\n"
                              "%2 = PARAM {slot=1, dtype=i32} [3] : i32[3]  # and another\n"
                              "%3 = CAST {f32} %2 : f32[3]\n"
                              "%4 = ADD %1 (MUL %3 2.0:f32) : f32[2,3]\n"
                              "%5 = REDUCE {op=ADD, axes=(1)} %4 : f32[2,1]\n";

static const char kernel[] = "%1 = BUFFER {slot=3, size=8, space=REG}\n"
                             "%2 = PARAM {slot=0, name=\"out\", min=0, max=7} [64] : f32[64]\n"
                             "%3 = RANGE {id=0, type=LOOP} 8\n"
                             "%4 = RANGE {id=1, type=UPCAST, rank=2, axis=1} 8 : index[1,8]\n"
                             "%5 = ADD !7 (MUL %3 8) %4\n"
                             "%6 = STORE {1} (INDEX %2 %5) 1.5:f32 true\n"
                             "%7 = END %6 %3\n"
                             "%8 = SINK {name=\"k\\\"\\\\\\n\\x01\", nest=(0, 1)} %7 (NOT false) (CUSTOM {\"\"})\n";

static void test_round_trip(void) {
    round_trip(example, NULL);
    round_trip("%1 = PARAM {slot=0} [2, 3]\n%x.y_1 = NEG %1",
               "%1 = PARAM {slot=0} [2, 3] : f32[2,3]\n%2 = NEG %1 : f32[2,3]\n");
    round_trip(kernel, NULL);
    round_trip("%1 = CONST {2.5:f32}", "%1 = CONST {2.5:f32} : f32\n");
    round_trip("%1 = STACK 1 2 3", "%1 = STACK 1 2 3 : index[3]\n");
    round_trip("%1 = SINK\n%2 = CALL %1 3\n", "%1 = SINK\n%2 = CALL %1 3\n");
    round_trip("%1 = TUPLE []", "%1 = TUPLE []\n");
    round_trip("%1 = TUPLE", "%1 = TUPLE\n");
    round_trip("%1 = CONST !3 {7}\n%2 = TUPLE %1 7", "%1 = CONST !3 {7} : index\n%2 = TUPLE %1 7\n");
    round_trip("%1 = TUPLE (NEG\n 1:i8 # in brackets a line may end\n) [1,\n2]",
               "%1 = NEG 1:i8 : i8\n%2 = TUPLE %1 [1, 2]\n");
}

static void test_constants(void) {
    round_trip(
        "%1 = TUPLE 3 -3 9223372036854775807 -9223372036854775808 3:i32 -128:i8 255:u8 18446744073709551615:u64 "
        "true false 0.1:f32 0.1:f64 -0.0:f32 inf:f32 -inf:f16 nan:f64 1e-45:f32 65504.0:f16 1e300:f64 448.0:f8e4m3",
        NULL);
    round_trip("%1 = TUPLE nan(0xfff8000000000000):f32 nan:f32 nan(0x7ff8000000000001):f64", NULL);
    round_trip("%1 = TUPLE 2:f32 1:bool", "%1 = TUPLE 2.0:f32 true\n");
}

static void refuse(const char *text, const char *where) {
    kn_graph *g = kg_new(NULL);
    kn_fault  f;
    CHECK_EQ(parse(g, text, &f), 0);
    CHECK(f.code != KN_OK);
    if (strncmp(f.text, where, strlen(where)) != 0) CHECK_STR(f.text, where);
    CHECK_EQ(kg_fault(g)->code, KN_OK); /* a bad text does not poison the graph */
    kn_ref ok = parse(g, example, &f);
    CHECK(ok != 0);
    kg_free(g);
}

static void test_errors(void) {
    refuse("", "line 1, column 1: no statement");
    refuse("# nothing\n\n", "line 3, column 1: no statement");
    refuse("%1 = ADD %2 1", "line 1, column 10: %2 is not defined");
    refuse("%1 = FROB 1", "line 1, column 6: 'FROB' is not an op");
    refuse("%1 = INVALID", "line 1, column 6: 'INVALID' is not an op");
    refuse("%1 = ADD 1", "line 1, column 6: ADD takes 2 sources");
    refuse("%1 = ADD 1 2:i32", "line 1, column 6: ADD: sources are index and i32");
    refuse("%1 = PARAM {slot=0} [2, 3]\n\n%2 = RESHAPE %1 [7]", "line 3, column 6: RESHAPE:");
    refuse("%1 = PARAM {slot=0} [2, 3]\n%2 = NEG (NEG (PERMUTE {axes=(0, 0)} %1))", "line 2, column 16: PERMUTE:");
    refuse("%1 = PARAM {slot=0} [2, 3] : f32[2,4]", "line 1, column 28: the node's type is f32[2,3]");
    refuse("%1 = PARAM {slot=0} [2, 3] : i32[2,3]", "line 1, column 28: the node's type is f32[2,3]");
    refuse("%1 = PARAM {slot=0} [2, 3] : f32[2]", "line 1, column 28: the node's type is");
    refuse("%1 = PARAM {slot=0} [2, 3] : f32", "line 1, column 28: the node's type is");
    refuse("%1 = PARAM {slots=0} [2, 3]", "line 1, column 13: 'slots' is not a field of PARAM");
    refuse("%1 = PARAM {slot=0, slot=1} [2]", "line 1, column 21: slot is given twice");
    refuse("%1 = PARAM {slot=99999999999999999999} [2]", "line 1, column 18: 99999999999999999999 does not fit");
    refuse("%1 = PARAM {slot=0} [2", "line 1, column 21: no ']' closes this");
    refuse("%1 = PARAM {slot=0} [2,]", "line 1, column 24: expected an entry");
    refuse("%1 = PARAM {slot=0} [,2]", "line 1, column 22: unexpected character");
    refuse("%1 = PARAM {slot=0} [2 3]", "line 1, column 24: expected ','");
    refuse("%1 = PARAM {slot=0} [-2]", "line 1, column 6: PARAM: a size is negative");
    refuse("%1 = NEG 256:u8", "line 1, column 10: 256 is out of range of u8");
    refuse("%1 = NEG 1e39:f32", "line 1, column 10: 1e39 is out of range of f32");
    refuse("%1 = NEG 2.5", "line 1, column 10: '2.5': expected an operand");
    refuse("%1 = NEG 2.5:i32", "line 1, column 10: '2.5' is not an integer");
    refuse("%1 = NEG 2.5:f33", "line 1, column 14: 'f33' is not a dtype");
    refuse("%1 = NEG 1.2.3:f32", "line 1, column 10: '1.2.3' is not a number");
    refuse("%1 = CAST 1", "line 1, column 11: CAST needs a dtype");
    refuse("%1 = CAST {void} 1", "line 1, column 6: CAST: unknown dtype");
    refuse("%1 = NEG {3} 1", "line 1, column 11: NEG takes no arg");
    refuse("%1 = NEG 1\n%1 = NEG 2", "line 2, column 1: %1 is defined twice");
    refuse("%1 = CUSTOM {\"abc}", "line 1, column 14: the text has no end");
    refuse("%1 = CUSTOM {\"\\q\"}", "line 1, column 16: unknown escape");
    refuse("%1 = NEG !70000 1", "line 1, column 10: a tag is");
    refuse("%1 = NEG 1 )", "line 1, column 12: unexpected character");
    refuse("%1 = NEG 1 : index )", "line 1, column 20: expected the end of the line");
    refuse("1 = NEG 1", "line 1, column 1: expected a statement");
    refuse("%1 NEG 1", "line 1, column 4: expected '='");
    refuse("%1 = (NEG 1)", "line 1, column 6: expected an op");
    refuse("%1 = REDUCE {op=FUNCTION} 1", "line 1, column 6: REDUCE: a fold needs FUNCTION(TUPLE");
    refuse("%1 = REDUCE {op=FUNCTION} (FUNCTION (TUPLE 1) 0)", "line 1, column 6: REDUCE: a fold needs");
    refuse("%1 = REDUCE {op=FUNCTION} (FUNCTION (TUPLE 1) 0:i32 2)",
           "line 1, column 6: REDUCE: a result of the combine, its identity and its element differ in dtype");
    refuse("%1 = REDUCE {op=FUNCTION} (FUNCTION (TUPLE 1) 0 1:i32)",
           "line 1, column 6: REDUCE: a result of the combine, its identity and its element differ in dtype");
    refuse("%x = PARAM {slot=0, dtype=index} []\n%1 = REDUCE {op=FUNCTION} (FUNCTION (TUPLE 1) %x 2)",
           "line 2, column 6: REDUCE: an identity must be a constant");
    refuse("%x = PARAM {slot=0, dtype=index} [2]\n%1 = REDUCE {op=FUNCTION} (FUNCTION (TUPLE %x) 0 %x)",
           "line 2, column 6: REDUCE: the combine is of scalars");
    refuse("%x = PARAM {slot=0, dtype=index} [2]\n%1 = REDUCE {op=FUNCTION} (FUNCTION (TUPLE 1 1) 0 0 %x 2)",
           "line 2, column 6: REDUCE: () and (2): must be equal");
    refuse("%1 = REDUCE {op=FUNCTION, axes=(0)} (FUNCTION (TUPLE 1) 0 2)", "line 1, column 6: REDUCE: no such axis");
    refuse("%1 = GETTUPLE {1} (REDUCE {op=FUNCTION} (FUNCTION (TUPLE 1) 0 2))",
           "line 1, column 6: GETTUPLE: needs a TUPLE");
    refuse("%x = PARAM {slot=0} [2]\n%1 = GETTUPLE {0} (REDUCE {op=ADD, axes=(0)} %x)",
           "line 2, column 6: GETTUPLE: needs a TUPLE");
    refuse("%1 = NEG (REDUCE {op=FUNCTION} (FUNCTION (TUPLE 1) 0 2))", "line 1, column 6: NEG: a source has no value");
    refuse("%1 = REDUCE {op=SUB} 1", "line 1, column 6: REDUCE: op must be ADD, MUL, MAX, MIN or FUNCTION");
}

/* Deep nesting needs heap, not stack. */
static void test_depth(void) {
    enum { DEPTH = 20000 };
    kn_str s;
    kn_str_init(&s, NULL);
    kn_str_puts(&s, "%1 = NEG ");
    for (int i = 0; i < DEPTH; i++) kn_str_puts(&s, i & 1 ? "(NEG " : "(SQRT ");
    kn_str_puts(&s, "1.0:f32");
    for (int i = 0; i < DEPTH; i++) kn_str_puts(&s, ")");
    kn_graph *g = kg_new(NULL);
    kn_fault  f;
    kn_ref    n = parse(g, kn_str_c(&s), &f);
    CHECK(n != 0);
    CHECK_EQ(kg_count(g), DEPTH + 3);
    kg_free(g);
    kn_str_free(&s);
}

static uint64_t next_random(uint64_t *s) {
    *s += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = (*s ^ (*s >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Mutations of valid programs: bytes, spans, and words of the language in odd places. Whatever still parses must
 * round-trip. */
static void test_fuzz(void) {
    static const char *const seeds[] = {
        example, kernel,
        "%1 = PARAM {slot=0, dtype=u8} [4, 4]\n%2 = BITCAST {i32} %1\n%3 = PAD %2 [1, 1] [6, 3]\n%4 = FLIP {axes=(1, "
        "0)} %3\n"
        "%5 = FUNCTION (TUPLE %4 (SHRINK %4 [0, 1] [2, 2])) 3\n%6 = GETTUPLE {1} %5\n%7 = LOAD {device=\"CPU:1\"} %6\n",
        "%1 = PARAM {slot=0, dtype=index, min=1, max=9} []\n%2 = PARAM {slot=1} [%1, 3]\n%3 = EXPAND (RESHAPE %2 [%1, "
        "1, 3]) "
        "[%1, 5, 3] : f32[%1,5,3]\n%4 = BUFFERIZE {device=\"CPU\", removable=true} %3 (RANGE {id=2, type=THREAD} %1)\n"
        "%5 = WMMA {name=\"w\", n=1, dtype_in=f16, axes=(1, 2)} 1.0:f32 2.0:f32 3.0:f32\n%6 = TUPLE %4 %5 (BINARY "
        "{\"\\x00a\"})"};
    static const char *const words[] = {"%1",
                                        "%2",
                                        "%3",
                                        " ",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "3",
                                        "-1",
                                        ":",
                                        "f32",
                                        "i64",
                                        "nan:f32",
                                        "inf",
                                        "9223372036854775807",
                                        "1099511627776",
                                        "ADD",
                                        "REDUCE",
                                        "INDEX",
                                        "RANGE",
                                        "SHL",
                                        "MOD",
                                        "IDIV",
                                        "{op=MAX}",
                                        "{axes=(0)}",
                                        "STACK",
                                        "[]",
                                        "[0]",
                                        "TUPLE",
                                        "GETTUPLE {0}",
                                        "FUNCTION",
                                        "EXPAND",
                                        "\n",
                                        "\"",
                                        "!5",
                                        ",",
                                        "=",
                                        "0",
                                        "RESHAPE",
                                        "PERMUTE",
                                        "SLICE {size=9, dtype=i8}",
                                        "ALLREDUCE",
                                        "REPLICATED {axes=(0)}",
                                        "true",
                                        "?",
                                        "#",
                                        "BITCAST {i8}"};
    uint64_t                 rng     = 12345;
    long                     parsed  = 0;
    for (int round = 0; round < 60000; round++) {
        char        buf[1200];
        const char *seed = seeds[next_random(&rng) % KN_COUNT(seeds)];
        size_t      len  = strlen(seed);
        memcpy(buf, seed, len);
        int edits = 1 + (int)(next_random(&rng) % 3);
        for (int e = 0; e < edits && len > 4; e++) {
            size_t at = (size_t)(next_random(&rng) % len);
            switch (next_random(&rng) % 5) {
            case 0: buf[at] = (char)next_random(&rng); break;
            case 1: { /* drop a span */
                size_t n = (size_t)(next_random(&rng) % 12);
                n        = KN_MIN(n, len - at);
                memmove(buf + at, buf + at + n, len - at - n);
                len -= n;
                break;
            }
            case 2: { /* copy a span elsewhere */
                size_t to = (size_t)(next_random(&rng) % len), n = (size_t)(next_random(&rng) % 20);
                n = KN_MIN(n, len - KN_MAX(at, to));
                memmove(buf + to, buf + at, n);
                break;
            }
            default: {
                const char *w = words[next_random(&rng) % KN_COUNT(words)];
                size_t      n = strlen(w);
                if (len + n >= sizeof buf) break;
                memmove(buf + at + n, buf + at, len - at);
                memcpy(buf + at, w, n);
                len += n;
            }
            }
        }
        kn_graph *g = kg_new(NULL);
        kn_fault  f = {0};
        kn_ref    n = kg_parse(g, buf, len, &f);
        CHECK_EQ(n == 0, f.code != KN_OK);
        if (n) {
            kn_str a, b;
            kn_str_init(&a, NULL);
            kn_str_init(&b, NULL);
            kg_print(g, n, &a);
            kn_graph *h = kg_new(NULL);
            kn_ref    m = parse(h, kn_str_c(&a), &f);
            if (!CHECK_STR(f.text, "")) fprintf(stderr, "%s\n", kn_str_c(&a));
            kg_print(h, m, &b);
            CHECK_STR(kn_str_c(&b), kn_str_c(&a));
            kn_str_free(&a);
            kn_str_free(&b);
            kg_free(h);
            parsed++;
        }
        kg_free(g);
    }
    printf("     %ld mutated programs were still valid\n", parsed);
    CHECK(parsed > 1000);
}

/* An allocator that fails at its n-th call and counts what is out. */
typedef struct meter {
    long   left;
    size_t held;
} meter;

static void *meter_resize(void *user, void *ptr, size_t old_size, size_t new_size) {
    meter *m = user;
    if (new_size > old_size && m->left-- <= 0) return NULL;
    m->held += new_size - old_size;
    if (!new_size) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

/* Every allocation fails once: an error, and nothing leaks. */
static void test_memory(void) {
    for (long fail = 0, done = 0; !done && CHECK(fail < 2000); fail++) {
        meter     m = {fail, 0};
        kn_alloc  a = {meter_resize, &m};
        kn_fault  f = {0};
        kn_str    s;
        kn_graph *g = kg_new(&a);
        kn_str_init(&s, &a);
        if (g) {
            kn_ref n = kg_parse(g, example, strlen(example), &f);
            CHECK_EQ(n == 0, f.code == KN_ERR_MEMORY);
            if (n) kg_print(g, n, &s);
            done = n && !s.failed;
        }
        kn_str_free(&s);
        kg_free(g);
        CHECK_EQ(m.held, 0);
    }
}

int main(void) {
    RUN(test_round_trip);
    RUN(test_constants);
    RUN(test_errors);
    RUN(test_depth);
    RUN(test_memory);
    RUN(test_fuzz);
    return check_result();
}
