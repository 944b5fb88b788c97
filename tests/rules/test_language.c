/* The rule language: what rulegen refuses, and, with rules of this test's own compiled into the driver in place of the
 * library's, what patterns match, what results build, and how a loop ends. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <stdlib.h>
#include <unistd.h>

static char dir[200];

static void write_text(const char *name, const char *text) {
    char  path[300];
    FILE *f = (snprintf(path, sizeof path, "%s/%s", dir, name), fopen(path, "w"));
    if (!CHECK(f)) return;
    fputs(text, f);
    fclose(f);
}

static int run(const char *fmt, const char *arg) {
    char line[3000], tail[1500];
    snprintf(tail, sizeof tail, fmt, arg);
    snprintf(line, sizeof line, "cd %s && { %s; } >out.txt 2>&1", dir, tail);
    return system(line);
}

static const char *output(void) {
    static char text[4000];
    char        path[300];
    size_t      n = 0;
    FILE       *f = (snprintf(path, sizeof path, "%s/out.txt", dir), fopen(path, "r"));
    if (f) n = fread(text, 1, sizeof text - 1, f), fclose(f);
    text[n] = 0;
    return text;
}

static void refused(const char *rules, const char *message) {
    write_text("bad.rules", rules);
    CHECK(run("%s/rulegen -o . bad.rules", KN_TEST_BUILD) != 0);
    if (!CHECK(strstr(output(), message))) printf("     %s     %s", rules, output());
}

static void bad_rules_are_refused(void) {
    refused("group g\nrule a (ADD x 0) @int => y\n", "bad.rules:2: error: rule a: y is not bound");
    refused("group g\nrule a (ADD x 0) if c > 1 @int => x\n", "rule a: c is not bound");
    refused("group g\nrule a (ADD x y) @int => (MUL x {y + 1})\n", "y has no value here");
    refused("group g\nrule a (ADD x 0) @int => x\nrule a (MUL x 1) @int => x\n",
            "bad.rules:3: error: rule a: the name is taken");
    refused("group g\nrule a (ADD x y:const) @int => x\n\nrule b (ADD (MUL x y) 0) @int => x\n",
            "bad.rules:4: error: rule b can never fire");
    refused("group g\nrule a (ADD 0 x) @int => x\nrule b (ADD (MUL x y) 0) @int => x\n", "rule b can never fire");
    refused("group g\nrule a (NEG x) @int => (SUB (MUL x 2) (MUL x 3))\n", "grows the graph");
    refused("group g\nrule a (NOTHING x) => x\n", "no op is called NOTHING");
    refused("group g\nrule a (CMPLT x y) @int => (ADD x y)\n", "dtypes contradict");
    refused("group g\nrule a (ADD x) => x\n", "ADD does not take 1 operands");
    refused("group g\nrule a (CAST x) => (CAST{f99} x)\n", "no dtype is called f99");
    refused("group g\nrule a (TUPLE x) => (TUPLE 3)\n", "nothing tells the dtype of a constant");
    refused("group g\nrule a (MUL x c:const) @exact => (MUL x {c + 1})\n", "must be an integer");
    refused("rule a (NEG x) => x\n", "stands before any group");
    refused("group g \"one\"\ngroup h\ngroup g \"two\"\nrule a (NEG x) => x\n", "group g has been described already");
    refused("group g\nrule a (NEG x) => refuse \"no\"\n", "rule a: no `bad` program violates it");
    refused("group g\nrule a (NEG x) in render => refuse \"no\"\nbad select \"%1 = NEG 1.0:f32\"\n",
            "rule a does not hold at select");
    refused("group g\nrule a (NEG x) in rendr => refuse \"no\"\n", "no stage is called rendr");
    refused("group g\nrule a (NEG x) in render..plan => refuse \"no\"\n", "render comes after plan");
    refused("group g\nrule a (NEG x) in plan => x\n", "only rules that refuse stand under stages");
    refused("group g\nrule a (NEG x) @int => refuse \"no\"\n", "it keeps no value");
    refused("group g\nrule a (NEG x) => x\nbad any \"%1 = NEG 1.0:f32\"\n", "rule a refuses nothing");
    refused("group g\nrule a (NEG x) => x\nrule b (SIN x) => refuse \"no\"\nbad any \"%1 = SIN 1.0:f32\"\n",
            "a group either rewrites or refuses");
    refused("group g\nrule a (NEG x) => refuse \"no\"\nbad any \"%1 = NEG 1.0:f32\"\n"
            "rule b (NEG (NEG x)) => refuse \"never\"\nbad any \"%1 = NEG 1.0:f32\"\n", "rule b can never fire");
    refused("group g\nrule a (NEG x => x\n", "bad.rules:2: error: expected");
    refused("group g\nrule a (NEG \"x) => x\n", "a text is not closed");
}

static const char *const rules =
    "include \"own.h\"\n"
    "group one\n"
    "rule tail    (GROUP x rest...)            => (TUPLE rest...)\n"
    "rule copied  (REDUCE{ADD} (NEG x) r...):y => (REDUCE{=y} x r...)\n"
    "rule maxed   (REDUCE{MAX} (NEG x) r...)   => (REDUCE{MIN} x r...)\n"
    "rule to_i8   (CAST{i8} x:f32)             => (CAST{u8} x)\n"
    "rule named   (GETTUPLE{1} t)              => (GETTUPLE{0} t)\n"
    "rule hole    (TUPLE (SIN x) g)            => (TUPLE (MUL g x) (HOLE))\n"
    "rule seven for OP in SHL SHR (OP x c:const) if c == 7 @int => (OP x 3)\n"
    "rule in_c    (SQRT x) if ready(x)         => C own_rule\n"
    "rule reg     (LOAD{space=LOCAL} x)        => (LOAD x)\n"
    "group two\n"
    "rule there   (EXP2 x)                     => (LOG2 x)\n"
    "rule back    (LOG2 x)                     => (EXP2 x)\n"
    "group three\n"
    "rule grow    (RECIP x)                    => (RECIP (NEG x))\n";

static const char *const program =
    "#include \"rewrite/rewrite.h\"\n#include \"own.h\"\n#include \"rules_gen.h\"\n#include <string.h>\n"
    "bool ready(kn_rw *rw, kn_ref x) { return kg_op(rw->g, x) == KN_OP_PARAM; }\n"
    "kn_ref own_rule(kn_rw *rw, kn_ref n) { return kg_op1(rw->g, KN_OP_NEG, kg_at(rw->g, n, 0)); }\n"
    "static kn_graph *g; static kn_fault f;\n"
    "static int is(uint64_t groups, const char *a, const char *b) {\n"
    "    kn_rw rw; kn_rw_init(&rw, g, &f);\n"
    "    kn_ref x = kg_parse(g, a, strlen(a), &f), y = b ? kg_parse(g, b, strlen(b), &f) : 0;\n"
    "    kn_ref r = kn_rewrite(&rw, x, groups); kn_rw_free(&rw);\n"
    "    if (r != y) printf(\"%s=> %u, not %u: %s\\n\", a, r, y, f.text);\n"
    "    return r == y; }\n"
    "#define P \"%1 = PARAM {slot=0} []\\n%2 = PARAM {slot=1, dtype=i32} []\\n%3 = PARAM {slot=2} [2, 3]\\n\"\n"
    "int main(void) { int ok = 1; g = kg_new(NULL);\n"
    "    ok &= is(KN_G_one, P \"%4 = GROUP %1 (NEG %1) (SIN %1) %1 %1 %1\\n\",\n"
    "        P \"%4 = TUPLE (NEG %1) (SIN %1) %1 %1 %1\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = REDUCE {op=ADD, axes=(1)} (NEG %3)\\n\",\n"
    "        P \"%4 = REDUCE {op=ADD, axes=(1)} %3\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = RANGE {id=1} 5\\n%5 = REDUCE {op=MAX} (NEG %1) %4\\n\",\n"
    "        P \"%4 = RANGE {id=1} 5\\n%5 = REDUCE {op=MIN} %1 %4\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = REDUCE {op=MUL, axes=(1)} (NEG %3)\\n\",\n"
    "        P \"%4 = REDUCE {op=MUL, axes=(1)} (NEG %3)\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = CAST {i8} %1\\n\", P \"%4 = CAST {u8} %1\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = CAST {i8} %2\\n\", P \"%4 = CAST {i8} %2\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = GETTUPLE {1} (TUPLE %1 %1 %2)\\n\",\n"
    "        P \"%4 = GETTUPLE {0} (TUPLE %1 %1 %2)\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = TUPLE (SIN %1) %1\\n\", P \"%4 = TUPLE (MUL %1 %1) (HOLE)\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = TUPLE (SIN %1) %2\\n\", P \"%4 = TUPLE (SIN %1) %2\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = SHR %2 7:i32\\n\", P \"%4 = SHR %2 3:i32\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = SHR %2 6:i32\\n\", P \"%4 = SHR %2 6:i32\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = SQRT %1\\n\", P \"%4 = NEG %1\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = SQRT (NEG %1)\\n\", P \"%4 = SQRT (NEG %1)\\n\");\n"
    "    ok &= is(KN_G_one, P \"%4 = LOAD {space=LOCAL} %3\\n\", P \"%4 = LOAD {space=LOCAL} %3\\n\");\n"
    "    ok &= is(KN_G_two, P \"%4 = EXP2 %1\\n\", NULL);\n"
    "    ok &= f.code == KN_ERR_INTERNAL && strstr(f.text, \"two.there\") && strstr(f.text, \"two.back\");\n"
    "    f.code = KN_OK;\n"
    "    ok &= is(KN_G_three, P \"%4 = RECIP %1\\n\", NULL);\n"
    "    ok &= f.code == KN_ERR_INTERNAL && strstr(f.text, \"three.grow\");\n"
    "    kg_free(g); return !ok; }\n";

static void own_rules_run(void) {
    const char *cc = getenv("CC");
    write_text("own.rules", rules);
    write_text(
        "own.h",
        "#include \"rewrite/rewrite.h\"\nbool ready(kn_rw *rw, kn_ref x);\nkn_ref own_rule(kn_rw *rw, kn_ref n);\n");
    write_text("own.c", program);
    if (!CHECK(run("%s/rulegen -o . own.rules", KN_TEST_BUILD) == 0)) puts(output());
    if (run("%s --version", cc && *cc ? cc : "cc") != 0) {
        puts("     no C compiler: own rules not run");
        return;
    }
    char line[1400];
    snprintf(line, sizeof line,
             "%s -std=c17 -w -I. -I%s/include -I%s/src own.c rules_gen.c %s/src/rewrite/rewrite.c %s/src/base/[bos]*.c "
             "%s/src/dialect/*.c -lm -o own && ./own",
             cc && *cc ? cc : "cc", KN_TEST_SOURCE, KN_TEST_SOURCE, KN_TEST_SOURCE, KN_TEST_SOURCE, KN_TEST_SOURCE);
    if (!CHECK(run("%s", line) == 0)) puts(output());
}

int main(void) {
    snprintf(dir, sizeof dir, "%s", "koine-rules-XXXXXX");
    if (!mkdtemp(dir)) return 1;
    RUN(bad_rules_are_refused);
    RUN(own_rules_run);
    char line[300];
    snprintf(line, sizeof line, "rm -rf %s", dir);
    if (system(line)) {}
    return check_result();
}
