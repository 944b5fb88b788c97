/* test_ir.c - koine ir: its options, each on a file and on stdin. */
#define _GNU_SOURCE
#include "cli/run.h"
#include "target/target.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect(const char *args, int code, const char *text) {
    char line[2000];
    snprintf(line, sizeof line, "ir %s", args);
    expect_koine(line, code, text);
}

/* The same of a file and of stdin; the output is that of stdin. */
static void expect_both(const char *file, const char *args, int code, const char *text) {
    char line[1024];
    snprintf(line, sizeof line, "%s %s", file, args);
    expect(line, code, text);
    snprintf(line, sizeof line, "- %s < %s", args, file);
    expect(line, code, text);
}

static void absent(const char *text) {
    if (!CHECK(strstr(output, text) == NULL)) fprintf(stderr, "found: %s\nin: %s\n", text, output);
}

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    if (!CHECK(f != NULL)) return;
    fputs(text, f);
    fclose(f);
}

static const char softmax[] = "%x = PARAM {slot=0} [6, 100]\n"
                              "%m = REDUCE {op=MAX, axes=(1)} %x\n"
                              "%e = EXP2 (MUL (SUB %x %m) 1.442695:f32)\n"
                              "%1 = DIV %e (REDUCE {op=ADD, axes=(1)} %e)\n";

static void test_time_and_count(void) {
    expect_both("ir_s.kn", "--after select --time", 0, "\n  rules algebra ");
    CHECK(strstr(output, "callify  ") && strstr(output, "select  "));
    absent("linearize  ");
    expect_both("ir_s.kn", "--after select --count", 0, " rules fired\n");
    CHECK(strstr(output, "\nselect  ") && strstr(output, " decomp."));
    expect_both("ir_s.kn", "--after select --count --time --json", 0, "\"counts\": {\"callify\": {\"nodes_in\": ");
    CHECK(strstr(output, "\"rule_seconds\": {\"callify\": {") && strstr(output, "\"decomp."));
    /* without --after the program is printed as it was read, and still goes through the stages */
    expect_both("ir_s.kn", "--count", 0, "%4 = MUL %3 1.442695:f32");
    CHECK(strstr(output, "\nrender  ") != NULL);
}

static void test_disable_rule(void) {
    expect_both("ir_s.kn", "--after select --disable-rule=exp2_f32", 0, " = EXP2 ");
    expect_both("ir_s.kn", "--after select --disable-rule=decomp.exp2_f32", 0, " = EXP2 ");
    expect_both("ir_s.kn", "--after select --disable-rule=sub --disable-rule exp2_f32", 0, " = EXP2 ");
    expect("ir_s.kn --after select", 0, "# after select");
    absent(" = EXP2 ");
    expect_both("ir_s.kn", "--disable-rule=exp2_f23", 2, "there is no rule 'exp2_f23'; did you mean 'exp2_f32'");
    expect_both("ir_s.kn", "--disable-rule=algebra.add_zro", 2, "did you mean 'algebra.add_zero', 'algebra.");
    expect_both("ir_s.kn", "--disable-rule=qqqqqqqqqq", 2, "there is no rule 'qqqqqqqqqq'; ");
    expect_both("ir_s.kn", "--disable-rule", 2, "--disable-rule needs a value, NAME");
}

static void test_verify(void) {
    put("ir_bad.kn", "%1 = PARAM {slot=0} [2, 3]\n%2 = SINK (STORE (NEG %1) %1)\n");
    expect_both("ir_bad.kn", "--verify", 1, "verify after tensor: ");
    expect_both("ir_bad.kn", "--verify --stage rangeify", 1, "verify after rangeify: ");
    /* what koine ir writes says which stage it is at; changed by hand it is checked as that stage */
    char line[512];
    static const char *const stages[] = {"callify", "rangeify", "optimize", "expand", "select", "linearize", "plan"};
    for (int i = 0; i < 7; i++) {
        char head[64];
        snprintf(line, sizeof line, "ir_s.kn --after %s > ir_stage.kn; %s/koine ir ir_stage.kn --verify", stages[i],
                 KN_TEST_BUILD);
        snprintf(head, sizeof head, "# after %s\n", stages[i]);
        expect(line, 0, head);
        expect("- --verify < ir_stage.kn", 0, head);
    }
    put("ir_loop.kn", "# a note\n# after expand\n%o = PARAM {slot=0} [4]\n%a = PARAM {slot=1} [16]\n"
                      "%i = RANGE {id=0, type=LOOP} 4\n%j = RANGE {id=1, type=REDUCE} 4\n"
                      "%r = REDUCE {op=ADD} (LOAD (INDEX %a (ADD (MUL %i 4) %j))) %j\n"
                      "%s = SINK (END (STORE (INDEX %o %i) %r) %i)\n");
    expect_both("ir_loop.kn", "--verify", 1, "verify after expand: ");
    expect_both("ir_loop.kn", "--verify --stage rangeify", 0, "REDUCE");
    expect_both("ir_loop.kn", "--after render", 1, "only tensor programs go through the stages");
    expect_both("ir_loop.kn", "", 0, "# after expand\n");
    put("ir_loop.kn", "# after nowhere\n%1 = PARAM {slot=0} [4]\n");
    expect_both("ir_loop.kn", "--verify", 0, "PARAM");
}

static void test_stages(void) {
    expect_both("ir_s.kn", "--after all", 0, "# after plan\n");
    CHECK(strstr(output, "# after tensor\n") && strstr(output, "# after render\n"));
    expect_both("ir_s.kn", "--after rangeify", 0, "# after rangeify\n");
    absent("# after optimize");
    expect_both("ir_s.kn", "--after all --stop-after expand", 0, "# after expand\n");
    absent("# after select");
    expect_both("ir_s.kn", "--stop-after callify", 0, "# after callify\n");
    expect_both("ir_s.kn", "--stop-after all", 2, "--stop-after needs one stage");
    expect_both("ir_s.kn", "--after expnd", 2, "did you mean 'expand'?");
    expect_both("ir_s.kn", "--after expand --stop-after rangeify", 2, "--stop-after rangeify comes before");
    expect_both("ir_s.kn", "--target c --after render", 0, "void r_6_100");
}

/* Every line that begins so, counted. */
static int lines(const char *prefix) {
    int n = 0;
    for (const char *p = output; *p; p += strcspn(p, "\n"), p += *p == '\n')
        n += !strncmp(p, prefix, strlen(prefix));
    return n;
}

/* What rows of a block meet in is in registers, though a row fills none: the loop has no address of the frame. */
static void test_rows_of_seven(void) {
#if KN_TARGET_X86
    put("ir_seven.kn", "%x = PARAM {slot=0} [7, 4000]\n%i = RANGE {id=0, rank=1} 4000\n"
                       "%c = RESHAPE (CMPLE (RESHAPE %i [1, 4000]) (RESHAPE %i [4000, 1])) [1, 4000, 4000]\n"
                       "%1 = REDUCE {op=ADD, axes=(2)} (WHERE %c (RESHAPE %x [7, 1, 4000]) 0.0:f32)\n");
    expect("ir_seven.kn --after render --target x86:avx512", 0, "\n.L");
    int   frame = 0;
    char *loop = strstr(output, "\n.L"), *at = loop ? strstr(loop, "ptr [rsp") : NULL;
    for (; at; at = strstr(at + 1, "ptr [rsp")) frame++;
    CHECK(frame <= 1); /* where it returns */
#endif
}

/* Where the least of a row is: four strands are compared in turns, so the first elements of the last one are read
 * before the last of the first one. */
static void test_strands_of_a_fold(void) {
#if KN_TARGET_X86
    put("ir_least.kn", "%x = PARAM {slot=0} [512, 512]\n%r = RANGE {id=0, rank=2, axis=1} 512\n"
                       "%i = EXPAND (CAST {i32} %r) [512, 512]\n"
                       "%a = PARAM {slot=0, space=REG} []\n%p = PARAM {slot=1, dtype=i32, space=REG} []\n"
                       "%b = PARAM {slot=2, space=REG} []\n%q = PARAM {slot=3, dtype=i32, space=REG} []\n"
                       "%t = AND (CMPEQ %a %a) (NOT (CMPLE %a %b))\n"
                       "%f = FUNCTION (TUPLE (WHERE %t %b %a) (WHERE %t %q %p)) inf:f32 2147483647:i32 %x %i\n"
                       "%1 = GETTUPLE {1} (REDUCE {op=FUNCTION, axes=(1)} %f)\n");
    expect("ir_least.kn --after render --target x86:avx512 --opts 'SPLIT:1:64:GROUP_REDUCE SPLIT:1:8:UNROLL'", 0,
           "\n.L");
    char *loop = strstr(output, "\n.L"), *first = loop ? strstr(loop, "+ 0xc0]") : NULL;
    CHECK(first && strstr(first, "+ 0x700]"));
#endif
}

/* Short rows that are joined, in a margin: no round of them asks which lane it reads. */
static void test_rows_in_a_margin(void) {
#if KN_TARGET_X86
    put("ir_margin.kn", "%x = PARAM {slot=0} [11, 37, 2]\n%1 = PAD %x [0, 6, 6] [11, 50, 15]\n");
    expect("ir_margin.kn --after render --target x86:avx512", 0, "vmovups");
    absent("vgather");
#endif
}

/* Columns by number: where a row begins is a number of its own, how far apart its lanes lie is known, so that they are
 * loaded side by side and shuffled. */
static void test_columns_by_number(void) {
#if KN_TARGET_X86
    put("ir_columns.kn",
        "%x = PARAM {slot=0} [200, 3]\n%n = PARAM {slot=1, dtype=i32} [7]\n"
        "%c = RANGE {id=0, type=LOOP, rank=3, axis=1} 3\n"
        "%k = RESHAPE (CAST {index} %n) [1, 1, 7]\n%w = WHERE (CMPEQ %c %k) (RESHAPE %x [200, 3, 1]) 0.0:f32\n"
        "%1 = RESHAPE (REDUCE {op=ADD, axes=(1)} %w) [200, 7]\n");
    expect("ir_columns.kn --after render --target x86:avx512 "
           "--opts 'SWAP:0:1 SPLIT:0:7:UPCAST SPLIT:1:16:UPCAST SWAP:0:1'", 0, "vpermt2ps zmm");
    absent("vgather");
#endif
}

/* What a NEG inverts is in a register while the loop runs, of a pair and of one as well: no constant is read there. */
static void test_signs_of_a_pair(void) {
#if KN_TARGET_X86
    put("ir_signs.kn", "%x = PARAM {slot=0} [77, 1184, 3]\n%1 = NEG (PERMUTE {axes=(1, 0, 2)} %x)\n");
    expect("ir_signs.kn --after render --target x86:avx512 --opts 'SPLIT:0:4:UPCAST SPLIT:2:3:UPCAST'", 0, "vpxord");
    char *loop = strstr(output, "\n.L");
    CHECK(loop && !strstr(loop, "[rip"));
#endif
}

/* Rows of one register and a rest under a triangle that does not reach the rest's lanes: no root of them is taken. */
static void test_lanes_beyond(void) {
#if KN_TARGET_X86
    put("ir_beyond.kn", "%x = PARAM {slot=0} [2042, 7, 21]\n%i = CAST {i32} (RANGE {id=0, rank=1} 7)\n"
                        "%j = CAST {i32} (RANGE {id=0, rank=1} 21)\n"
                        "%1 = SQRT (WHERE (CMPLE %j (RESHAPE %i [7, 1])) %x 0.0:f32)\n");
    expect("ir_beyond.kn --after render --target x86:avx512 --opts SPLIT:2:21:UPCAST", 0, "vsqrtps");
    char *root = strstr(output, "vsqrtps");
    CHECK(root && !strstr(root + 1, "vsqrtps"));
#endif
}

/* What a loop announces that it will load comes behind what it loads, before it stores what it computed, and behind
 * what it moves; where a sum has no such end, before the load. */
static void test_announced_last(void) {
#if KN_TARGET_X86
    put("ir_cube.kn", "%x = PARAM {slot=1} [65536]\n%1 = MUL %x (MUL %x %x)\n");
    expect("ir_cube.kn --after render --target x86:avx512 --opts 'SPLIT:0:32:UPCAST PREFETCH:1:8'", 0, "prefetcht0");
    char *loop = strstr(output, "\n.L"), *last = loop ? strstr(loop, "prefetcht0") : NULL;
    CHECK(last && !strstr(last, " LOAD ") && !strstr(last, " MUL") && strstr(last, " STORE "));
    *(last ? last : output) = 0;
    CHECK(!strstr(output, " STORE "));
    put("ir_copy.kn", "%x = PARAM {slot=1} [65537]\n%1 = CONTIGUOUS (SHRINK %x [1] [65536])\n");
    expect("ir_copy.kn --after render --target x86:avx512 --opts 'SPLIT:0:32:UPCAST PREFETCH:1:8'", 0, "prefetcht0");
    loop = strstr(output, "\n.L"), last = loop ? strstr(loop, "prefetcht0") : NULL;
    CHECK(last && !strstr(last, " STORE ") && strstr(last, " END "));
    put("ir_rows.kn", "%x = PARAM {slot=1} [64, 4096]\n%1 = REDUCE {op=ADD, axes=(1)} %x\n");
    expect("ir_rows.kn --after render --target x86:avx512 "
           "--opts 'SPLIT:1:16:GROUP_REDUCE PREFETCH:1:8'", 0, "prefetcht0");
    last = strstr(output, "prefetcht0");
    CHECK(last && strstr(last, "zmm0, zmmword ptr ["));
#endif
}

/* What AVX2 does by other instructions than AVX-512. */
static void test_avx2(void) {
#if KN_TARGET_X86
    put("ir_turned.kn", "%x = PARAM {slot=0} [512, 512]\n%1 = CONTIGUOUS (PERMUTE {axes=(1, 0)} %x)\n");
    expect("ir_turned.kn --after render --target x86:avx2 --machine avx2", 0, "vperm2f128");
    CHECK(!strstr(output, "vpermq")); /* a block's halves are exchanged once, not put in order by each shuffle */
    put("ir_halves.kn", "%x = PARAM {slot=0, dtype=f64} [512, 512]\n%1 = CONTIGUOUS (PERMUTE {axes=(1, 0)} %x)\n");
    expect("ir_halves.kn --after render --target x86:avx2 --machine avx2", 0, "vperm2f128");
    CHECK(!strstr(output, "vpermq"));
    put("ir_whole.kn", "%x = PARAM {slot=0, dtype=i64} [4096]\n%1 = MUL (CAST {f32} %x) 0.5:f32\n");
    expect("ir_whole.kn --after render --target x86:avx2", 0, "vcvtsi2ss xmm0, xmm0, qword ptr [");
    put("ir_quotient.kn", "%x = PARAM {slot=0, dtype=i32} [4096]\n%y = PARAM {slot=1, dtype=i32} [4096]\n"
                          "%1 = IDIV %x %y\n");
    expect("ir_quotient.kn --after render --target x86:avx2", 0, "vdivpd");
    CHECK(!strstr(output, "idiv"));
    put("ir_thirds.kn", "%x = PARAM {slot=0} [64, 96, 3]\n%1 = CONTIGUOUS (PERMUTE {axes=(0, 2, 1)} %x)\n");
    expect("ir_thirds.kn --after render --target x86:avx2 --machine avx2", 0, "vblendps");
    CHECK(!strstr(output, "vinsertps"));
    put("ir_joined.kn", "%x = PARAM {slot=0} [60003]\n%y = PARAM {slot=1} [9001]\n"
                        "%1 = SQRT (ADD (PAD %x [0] [69004]) (PAD %y [60003] [69004]))\n");
    expect("ir_joined.kn --after render --target x86:avx2 --opts SPLIT:0:8:UPCAST", 0, "vptest");
    put("ir_tenths.kn", "%x = PARAM {slot=0} [500, 10]\n%y = PARAM {slot=1} [500, 10]\n"
                        "%1 = REDUCE {op=MAX, axes=(0)} (WHERE (CMPLT %x %y) %y (MUL %x 0.5:f32))\n");
    expect("ir_tenths.kn --after render --target x86:avx2 --opts SPLIT:0:10:UPCAST", 0, "vblendvps");
    CHECK(!strstr(output, "test e")); /* no branch for two of ten lanes */
    put("ir_margin2.kn", "%x = PARAM {slot=0, dtype=u8} [510, 510]\n%1 = PAD %x [1, 1] [512, 512]\n");
    expect("ir_margin2.kn --after render --target x86:avx2", 0, "ymmword ptr");
    put("ir_margin3.kn", "%x = PARAM {slot=0, dtype=u8} [30, 62]\n%1 = PAD %x [1, 2] [33, 67]\n");
    expect("ir_margin3.kn --after render --target x86:avx2", 0, "ymmword ptr");
    CHECK(!strstr(output, "byte ptr [rsp")); /* no lane goes by way of memory of the kernel's own */
    put("ir_margin4.kn", "%x = PARAM {slot=0, dtype=u8} [30, 62]\n%1 = ADD (PAD %x [1, 2] [33, 67]) 7:u8\n");
    expect("ir_margin4.kn --after render --target x86:avx2", 0, "vpaddb ymm");
    CHECK(!strstr(output, "byte ptr [rsp"));
    put("ir_row.kn", "%a = PARAM {slot=0} [285, 4]\n%b = PARAM {slot=1} [4, 15]\n"
                     "%l = EXPAND (RESHAPE %a [285, 4, 1]) [285, 4, 15]\n"
                     "%r = EXPAND (RESHAPE %b [1, 4, 15]) [285, 4, 15]\n"
                     "%1 = RESHAPE (REDUCE {op=ADD, axes=(1)} (MUL %l %r)) [285, 15]\n");
    expect("ir_row.kn --after render --target x86:avx2 --machine avx2", 0, "vfmadd");
    CHECK(!strstr(output, "vmaskmov") && !strstr(output, "xmmword")); /* eight lanes, and the last eight */
    put("ir_silu.kn", "%a = PARAM {slot=0} [64, 95]\n%b = PARAM {slot=1} [6, 95]\n"
                      "%l = EXPAND (RESHAPE %a [64, 1, 95]) [64, 6, 95]\n"
                      "%r = EXPAND (RESHAPE %b [1, 6, 95]) [64, 6, 95]\n"
                      "%s = RESHAPE (REDUCE {op=ADD, axes=(2)} (MUL %l %r)) [64, 6]\n"
                      "%1 = DIV %s (ADD 1.0:f32 (EXP2 (MUL %s -1.442695:f32)))\n");
    expect("ir_silu.kn --after render --target x86:avx2 "
           "--opts \"SPLIT:0:4:UPCAST SPLIT:2:2:UPCAST SPLIT:4:8:GROUP_REDUCE\"", 0, "vdivps ymm");
    CHECK(!strstr(output, "vdivss")); /* the eight sums of a tile are lanes, though they are stored apart */
    put("ir_pairs.kn", "%x = PARAM {slot=0} [2, 4096]\n%1 = CONTIGUOUS (PERMUTE {axes=(1, 0)} %x)\n");
    expect("ir_pairs.kn --after render --target x86:avx2 --machine avx2", 0, "vunpcklps ymm");
    CHECK(!strstr(output, "vpermps"));
    put("ir_triples.kn", "%x = PARAM {slot=0} [3, 4096]\n%1 = CONTIGUOUS (PERMUTE {axes=(1, 0)} %x)\n");
    expect("ir_triples.kn --after render --target x86:avx2 --machine avx2", 0, "vpermilps ymm");
    put("ir_dots.kn", "%a = PARAM {slot=0} [64, 96]\n%b = PARAM {slot=1} [64, 96]\n"
                      "%l = EXPAND (RESHAPE %a [64, 1, 96]) [64, 64, 96]\n"
                      "%r = EXPAND (RESHAPE %b [1, 64, 96]) [64, 64, 96]\n"
                      "%1 = REDUCE {op=ADD, axes=(2)} (MUL %l %r)\n");
    expect("ir_dots.kn --after render --target x86:avx2 "
           "--opts \"SPLIT:0:4:UPCAST SPLIT:2:2:UPCAST SPLIT:4:8:GROUP_REDUCE\"", 0, "vperm2f128");
    CHECK(!strstr(output, "vpermq")); /* halves of eight rows' sums are exchanged once, at the end */
    put("ir_chosen.kn", "%x = PARAM {slot=0, dtype=u8} [4096]\n%y = PARAM {slot=1, dtype=u8} [4096]\n"
                        "%1 = WHERE (CMPLT %x %y) (SUB %y %x) 3:u8\n");
    expect("ir_chosen.kn --after render --target x86:avx2", 0, "vpblendvb ymm");
    CHECK(!strstr(output, "vpmovsx")); /* masks are as long as what they choose of */
    put("ir_flags.kn", "%x = PARAM {slot=0, dtype=i16} [64, 512]\n%1 = REDUCE {op=MAX, axes=(1)} (CMPLT %x 7:i16)\n");
    expect("ir_flags.kn --after render --target x86:avx2 --machine avx2", 0, "vpcmpgtw ymm");
    CHECK(!strstr(output, "vpmovsx"));
    put("ir_windows.kn", "%x = PARAM {slot=0} [64, 3, 3, 40]\n%1 = REDUCE {op=MAX, axes=(1, 2)} %x\n");
    expect("ir_windows.kn --explain --target x86:avx2 --machine avx2", 0, "UNROLL");
    put("ir_most.kn", "%x = PARAM {slot=0, dtype=i64} [64, 512]\n%1 = REDUCE {op=MAX, axes=(1)} %x\n");
    expect("ir_most.kn --after render --target x86:avx2 --machine avx2", 0, "vpcmpgtq ymm");
    put("ir_random.kn", "%k = PARAM {slot=0, dtype=u64} [1]\n%i = CAST {u64} (RANGE {id=0, rank=1} 65536)\n"
                        "%1 = CAST {u32} (SHR (THREEFRY %i (EXPAND %k [65536])) 32:u64)\n");
    expect("ir_random.kn --after render --target x86:avx2 --machine avx2", 0, "vpslld ymm");
#endif
}

static void test_diff(void) {
    expect_both("ir_s.kn", "--diff --after expand", 0, "# expand, after optimize\n");
    /* a node that only has new numbers around it is no change; one whose source became another is one - and one + */
    CHECK(lines("  %") > 10 && lines("- %") > 10 && lines("+ %") > lines("- %"));
    CHECK(strstr(output, "type=UPCAST} 32 : index\n+ ") && strstr(output, "type=UPCAST, rank=1} 32 : index[32]\n"));
    CHECK(strstr(output, "- %old") != NULL);
    absent("\033[");
    expect_both("ir_s.kn", "--target c --diff --after select", 0, "# select, after expand\n");
    CHECK(strstr(output, " = EXP2 ") && strstr(output, "\n+ ") && !strstr(strstr(output, "\n+ "), "+ %1 = "));
    /* what is printed is what changed: nothing, where no rule may fire */
    expect_both("ir_e.kn", "--target c --diff --after select", 0, "# select, after expand\n  nothing changed\n");
    expect_both("ir_s.kn", "--target c --diff", 0, "# plan, after linearize\n  nothing changed\n");
    CHECK(strstr(output, "# callify, after tensor\n") && strstr(output, "# render, after plan\nvoid "));
    expect_both("ir_s.kn", "--target c --diff --json", 0, "\"text\": \"# callify, after tensor\\n");
    /* on a terminal the signs have colours */
    char line[512];
    if (system("command -v script > /dev/null 2>&1") == 0) {
        snprintf(line, sizeof line,
                 "-h > /dev/null; script -qec '%s/koine ir ir_s.kn --diff --after expand' /dev/null", KN_TEST_BUILD);
        expect(line, 0, "\033[32m+ %");
        CHECK(strstr(output, "\033[31m- %") != NULL);
    }
    expect_both("ir_loop.kn", "--diff", 1, "it wants a tensor program");
}

static void test_graph(void) {
    static const char *const stages[] = {"tensor", "callify", "rangeify", "optimize", "expand", "select", "linearize",
                                         "plan"};
    bool dot = system("command -v dot > /dev/null 2>&1") == 0;
    for (int i = 0; i < 8; i++) {
        char args[256];
        snprintf(args, sizeof args, "--graph=dot --after %s", stages[i]);
        expect_both("ir_g.kn", args, 0, "digraph \"");
        /* braces close, and an edge's ends are nodes */
        int depth = 0;
        for (char *p = output, quoted = 0; *p; p++) {
            if (*p == '"' && (p == output || p[-1] != '\\')) quoted = !quoted;
            depth += quoted ? 0 : *p == '{' ? 1 : *p == '}' ? -1 : 0;
            CHECK(depth >= 0);
        }
        CHECK_EQ(depth, 0);
        int edges = 0;
        for (char *p = output; (p = strstr(p, " -> ")); p += 4, edges++) {
            char node[64], *from = p;
            while (from[-1] != ' ') from--;
            for (int end = 0; end < 2; end++) {
                const char *name = end ? p + 4 : from;
                snprintf(node, sizeof node, " %.*s [label=", (int)strcspn(name, " ;"), name);
                CHECK(strstr(output, node) != NULL);
            }
        }
        CHECK(edges >= 3);
        if (i == 2 || i == 3)
            CHECK(strstr(output, "subgraph cluster_k0 ") && strstr(output, "subgraph cluster_k0_loop1 "));
        if (dot) {
            snprintf(args, sizeof args, "ir_g.kn --graph=dot --after %s | dot -Tcanon", stages[i]);
            expect(args, 0, "digraph");
            absent("syntax error");
        }
    }
    /* the loop of the rows is around that of the columns */
    expect("ir_s.kn --graph dot --after rangeify", 0, "    subgraph cluster_k0_loop0 { label=\"%");
    CHECK(strstr(output, "      subgraph cluster_k0_loop") != NULL);
    expect_both("ir_s.kn", "--graph png", 2, "--graph is dot, not 'png'");
    expect_both("ir_s.kn", "--graph dot --diff", 2, "choose one");
}

static void test_why(void) {
    expect_both("ir_s.kn", "--why %4", 0, "after tensor    %4 = MUL %3 1.442695:f32 : f32[6,100]\n");
    CHECK(strstr(output, "stdin:3\n  %e = EXP2 (MUL (SUB %x %m) 1.442695:f32)\n") != NULL);
    /* a node that a rule made: the rule, the node it made it of as it stood then, and the line */
    expect("ir_s.kn --after select", 0, "# after select\n");
    char *node = strstr(output, " = MULACC "), args[128];
    if (CHECK(node != NULL)) {
        while (*node != '\n') node--;
        snprintf(args, sizeof args, "--after select --why %.*s", (int)strcspn(node + 1, " "), node + 1);
        expect_both("ir_s.kn", args, 0, "  by the rule decomp.exp2_f32 (");
        CHECK(strstr(output, "decomp.rules:") && strstr(output, ") in select, of\nafter expand "));
        CHECK(strstr(output, " = EXP2 ") && strstr(output, "stdin:3\n"));
    }
    expect_both("ir_s.kn", "--after expand --why 1", 0, "after expand    %1 = ");
    expect_both("ir_s.kn", "--after expand --why 0", 1, "after expand there are %1 to %");
    expect_both("ir_s.kn", "--why %99", 1, "after tensor there are %1 to %7");
    expect_both("ir_s.kn", "--why x", 1, "a node is named by its number");
    expect_both("ir_s.kn", "--why 1 --after all", 2, "--why needs one stage");
}

static void test_provenance(void) {
    expect("ir_s.kn --after rangeify --provenance", 0, "  # ir_s.kn:3");
    int known = 0;
    for (const char *p = output; (p = strstr(p, "  # ir_s.kn:")); p++) known++;
    CHECK_EQ(known, lines("%"));
    expect("- --after expand --provenance < ir_s.kn", 0, "  # stdin:2 > rangeify > optimize");
    expect("ir_s.kn --target c --after render --provenance", 0, "/* ir_s.kn:3 > decomp.exp2_f32 */\n");
    expect("ir_s.kn --target c --after render", 0, "void ");
    absent("/* ");
    /* comments do not change the program */
    char line[512];
    snprintf(line, sizeof line, "ir_s.kn --after tensor --provenance | %s/koine ir - > ir_stage.kn", KN_TEST_BUILD);
    expect(line, 0, "");
    snprintf(line, sizeof line, "ir_s.kn > ir_bad.kn; cmp ir_stage.kn ir_bad.kn && echo same");
    expect(line, 0, "same");
}

int main(void) {
    if (access(KN_TEST_BUILD "/koine", X_OK) != 0) SKIP("the koine command is not built");
    put("ir_s.kn", softmax);
    RUN(test_stages);
    RUN(test_rows_of_seven);
    RUN(test_strands_of_a_fold);
    RUN(test_rows_in_a_margin);
    RUN(test_signs_of_a_pair);
    RUN(test_lanes_beyond);
    RUN(test_announced_last);
    RUN(test_avx2);
    RUN(test_columns_by_number);
    RUN(test_time_and_count);
    RUN(test_disable_rule);
    put("ir_g.kn", "%x = PARAM {slot=0} [6, 8]\n%1 = DIV %x (REDUCE {op=MAX, axes=(1)} %x)\n");
    put("ir_e.kn", "%x = PARAM {slot=0} [2]\n%1 = ADD %x 1.0:f32\n");
    RUN(test_verify);
    put("ir_loop.kn", "# after rangeify\n%o = PARAM {slot=0} [4]\n");
    RUN(test_diff);
    RUN(test_graph);
    RUN(test_why);
    RUN(test_provenance);
    static const char *const made[] = {"ir_s.kn", "ir_bad.kn", "ir_stage.kn", "ir_loop.kn", "ir_e.kn", "ir_g.kn"};
    for (size_t k = 0; k < sizeof made / sizeof *made; k++) unlink(made[k]);
    return check_result();
}
