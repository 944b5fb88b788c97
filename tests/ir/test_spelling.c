/* test_spelling.c - the bestiary's spellings: each row reads as the very node that the dialect's own spelling gives,
 * prints in that spelling, and what has a value runs. */
#include "check.h"
#include "dialect/eval.h"

#define DATA \
    "%x = PARAM {slot=0} [2, 3]\n%v = PARAM {slot=1} [4]\n%b = CMPLT %v 2.0:f32\n%i = RANGE {id=0, type=LOOP} 4\n"

typedef struct row {
    const char *theirs, *ours; /* the last lines of programs over DATA */
    bool        runs;
} row;
static const row rows[] = {
    {"%r = LT %v 1.0:f32", "%r = CMPLT %v 1.0:f32", true},
    {"%r = NE %v 1.0:f32", "%r = CMPNE %v 1.0:f32", true},
    {"%r = GT %v 1.0:f32", "%r = CMPGT %v 1.0:f32", true},
    {"%r = GE %v 1.0:f32", "%r = CMPGE %v 1.0:f32", true},
    {"%r = LE %v 1.0:f32", "%r = CMPLE %v 1.0:f32", true},
    {"%r = EQ %v 1.0:f32", "%r = CMPEQ %v 1.0:f32", true},
    {"%r = CAST {Int32} (MUL %v 2.0:Float32) : Int32[4]", "%r = CAST {i32} (MUL %v 2.0:f32)", true},
    {"%r = REDUCE_AXIS {op=MAX, axes=(1)} %x", "%r = REDUCE {op=MAX, axes=(1)} %x", true},
    {"%r = VECTORIZE 1.0:f32 2.0:f32", "%r = STACK 1.0:f32 2.0:f32", true},
    {"%r = VCONST 1:i32 2:i32 3:i32", "%r = STACK 1:i32 2:i32 3:i32", true},
    {"%r = GEP {axes=(2)} %v", "%r = INDEX %v 2", true},
    {"%r = GEP {axes=(2, 0)} %v", "%r = INDEX %v [2, 0]", true},
    {"%r = CAT (INDEX %v [0, 1]) 7.0:f32", "%w = INDEX %v [0, 1]\n%r = STACK (INDEX %w 0) (INDEX %w 1) 7.0:f32", true},
    {"%r = PAD {begin_pads=(1, 0), end_pads=(0, 2)} %x", "%r = PAD %x [1, 0] [3, 5]", true},
    {"%r = SHRINK {begins=(0, 1), ends=(2, 3)} %x", "%r = SHRINK %x [0, 1] [2, 2]", true},
    {"%r = CONTIGUOUS (NEG %x)", "%r = LOAD {space=GLOBAL} (NEG %x)", true},
    {"%r = COPY {device=\"CPU\"} %x", "%r = LOAD {device=\"CPU\", space=GLOBAL} %x", true},
    {"%r = DEFINE_GLOBAL {slot=1} [4]", "%r = PARAM {slot=1} [4]", true},
    {"%r = DEFINE_LOCAL {slot=3, size=8, dtype=Float16}", "%r = BUFFER {slot=3, size=8, dtype=f16, space=LOCAL}",
     false},
    {"%r = DEFINE_REG {slot=3, size=8}", "%r = BUFFER {slot=3, size=8, space=REG}", false},
    {"%r = DEFINE_VAR {name=\"n\", min=1, max=9}", "%r = PARAM {slot=0, dtype=index, name=\"n\", min=1, max=9} []",
     false},
    {"%r = BIND (DEFINE_VAR {name=\"n\", min=1, max=9}) 4",
     "%r = BIND (PARAM {dtype=index, name=\"n\", min=1, max=9} []) 4", false},
    {"%r = KERNEL %x %v (SINK)", "%r = CALL (SINK) %x %v", false},
    {"%r = POINTER_INDEX %v 8", "%r = INDEX {1} %v 8", false},
    {"%r = LOAD %v (INDEX %v %i)", "%r = LOAD (INDEX %v %i)", false},
    {"%r = LOAD (INDEX %v %i (CMPLT %i 2))", "%r = LOAD (INDEX %v %i) 0.0:f32 (CMPLT %i 2)", false},
    {"%g = INDEX %v %i (CMPLT %i 2)\n%r = LOAD %v %g", "%r = LOAD (INDEX %v %i) 0.0:f32 (CMPLT %i 2)", false},
    {"%r = STORE %v (INDEX %v %i) 1.0:f32 %i", "%r = END (STORE (INDEX %v %i) 1.0:f32) %i", false},
    {"%r = STORE (INDEX %v %i (CMPLT %i 2)) 1.0:f32", "%r = STORE (INDEX %v %i) 1.0:f32 (CMPLT %i 2)", false},
    {"%r = STORE %v (INDEX %v %i (CMPLT %i 2)) 1.0:f32 %i", "%r = END (STORE (INDEX %v %i) 1.0:f32 (CMPLT %i 2)) %i",
     false},
    {"%r = BARRIER %v (STORE %v 1.0:f32)", "%r = AFTER %v (BARRIER (STORE %v 1.0:f32))", false},
    {"%r = SPECIAL {\"blockIdx.x\"} 4", "%r = SPECIAL {\"gidx0\"} 4", false},
    {"%r = SPECIAL {\"threadIdx.y\"} 4", "%r = SPECIAL {\"lidx1\"} 4", false},
};

static void runs(kn_graph *g, kn_ref n) {
    float    x[6] = {1, 2, 3, 4, 5, 6}, v[4] = {0, 1, 2, 3};
    kn_array slot[2] = {{x, 6, KN_F32}, {v, 4, KN_F32}};
    kn_value out;
    int      count = 1;
    kn_fault f     = {0};
    if (CHECK(kn_eval(g, n, slot, 2, &out, &count, NULL, &f)))
        kn_value_free(NULL, &out);
    else
        fprintf(stderr, "%s\n", f.text);
}

static void test_rows(void) {
    for (int i = 0; i < KN_COUNT(rows); i++) {
        char      a[1024], b[1024];
        kn_graph *g = kg_new(NULL);
        kn_fault  f = {0};
        kn_str    s;
        kn_str_init(&s, NULL);
        snprintf(a, sizeof a, "%s%s\n", DATA, rows[i].theirs);
        snprintf(b, sizeof b, "%s%s\n", DATA, rows[i].ours);
        kn_ref n = kg_parse(g, a, strlen(a), &f), m = kg_parse(g, b, strlen(b), &f);
        CHECK_STR(f.text, "");
        if (!CHECK(n && n == m)) fprintf(stderr, "%s\n", rows[i].theirs);
        if (n) {
            kg_print(g, n, &s);
            if (!CHECK_EQ(kg_parse(g, kn_str_c(&s), s.len, &f), n)) fprintf(stderr, "%s: %s\n", rows[i].theirs, f.text);
            if (rows[i].runs) runs(g, n);
        }
        kn_str_free(&s);
        kg_free(g);
    }
}

static void refuse(const char *text, const char *why) {
    char      a[1024];
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    snprintf(a, sizeof a, "%s%s\n", DATA, text);
    CHECK_EQ(kg_parse(g, a, strlen(a), &f), 0);
    if (!strstr(f.text, why)) CHECK_STR(f.text, why);
    kg_free(g);
}

static void test_errors(void) {
    refuse("%r = NEG (INDEX %v %i true)", "a gated INDEX is read by LOAD");
    refuse("%r = INDEX %v %i true", "a gated INDEX is no value");
    refuse("%r = PAD {begin_pads=(1), end_pads=(0)} %x", "an entry an axis");
    refuse("%r = PAD {end_pads=(1), begin_pads=(0)} %x", "expected begin_pads");
    refuse("%r = PAD {begin_pads=(9223372036854775807, 0), end_pads=(0, 0)} %x", "out of range");
    refuse("%r = PAD {begin_pads=(-1, 0), end_pads=(0, 0)} %x", "negative");
    refuse("%r = SHRINK {begins=(2, 0), ends=(1, 3)} %x", "before its begin");
    refuse("%r = SHRINK {begins=(0, 0), ends=(2, 9)} %x", "SHRINK");
    refuse("%r = GEP %v", "at least one place");
    refuse("%r = CAT %x", "scalars and vectors");
    refuse("%r = CAT %v 1:i32", "differ in dtype");
    refuse("%r = KERNEL", "at least 1 source");
}

int main(void) {
    RUN(test_rows);
    RUN(test_errors);
    return check_result();
}
