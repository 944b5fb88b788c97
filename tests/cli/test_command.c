/* test_command.c - the koine command as a user meets it: output, exit codes, messages. */
#define _GNU_SOURCE
#include "cli/run.h"
#include "format/npy.h"
#include "target/target.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    if (!CHECK(f != NULL)) return;
    fputs(text, f);
    fclose(f);
}

static void test_help(void) {
    expect_koine("", 2, "usage: koine COMMAND");
    expect_koine("--help", 0, "usage: koine COMMAND");
    expect_koine("help", 0, "  eval ");
    expect_koine("help eval", 0, "usage: koine eval PROGRAM");
    expect_koine("eval --help", 0, "--fill seq|rand|zero");
    expect_koine("ir -h", 0, "usage: koine ir");
    expect_koine("devices", 0, "INTERP");
    expect_koine("devices --json", 0, "{\"devices\": [{\"name\": \"CPU\"");
    expect_koine("version", 0, "koine 0.");
    expect_koine("--version", 0, "koine 0.");
    expect_koine("version --json", 0, "{\"version\": \"0.");
}

static void test_usage(void) {
    expect_koine("evla x", 2, "did you mean 'eval'?");
    expect_koine("zzzzzz", 2, "there is no command 'zzzzzz'");
    expect_koine("help evla", 2, "did you mean 'eval'?");
    expect_koine("eval x --ot y", 2, "did you mean '--out'?");
    expect_koine("eval x --out", 2, "--out needs a value");
    expect_koine("eval x --json=1", 2, "--json takes no value");
    expect_koine("eval x --fill seq --fill rand", 2, "--fill is given twice");
    expect_koine("eval x --fill some", 2, "--fill is seq, rand or zero");
    expect_koine("eval x -j", 2, "there is no option '-j'");
    expect_koine("eval", 2, "expected one program");
    expect_koine("ir a b", 2, "expected one program");
    expect_koine("ir a --stage rangefy", 2, "did you mean 'rangeify'?");
    expect_koine("ir no-such-file.kn", 1, "no-such-file.kn");
}

static void test_bench(void) {
    expect_koine("bench", 2, "there is \"koine bench compile\"");
    expect_koine("bench compile mpl", 2, "there is no program 'mpl'; did you mean 'mlp'?");
    expect_koine("bench compile --runs 0", 2, "--runs takes a number");
    expect_koine("bench compile --target vax mlp --runs 1", 1, "a run of mlp failed");
    expect_koine("bench compile --machine vax mlp --runs 1", 1, "a run of mlp failed");
    expect_koine("bench compile mlp --runs 1", 0, "stages");
    expect_koine("bench compile mlp chain1k --runs 2 --json", 0, "[{\"program\": \"mlp\", \"nodes\": ");
    CHECK(strstr(output, "{\"program\": \"chain1k\"") && strstr(output, "\"render\": "));
}

static double counted(const char *name) {
    const char *at = strstr(output, name);
    return CHECK(at != NULL) ? atof(at + strlen(name)) : 1e9;
}

/* More with AVX2, whose lanes are made of more instructions. */
static double most_rewritten(void) {
#if KN_TARGET_X86
    if (!__builtin_cpu_supports("avx512bw")) return 1000;
#endif
    return 600;
}

/* What compiling for one machine may cost, in counts, which of what it runs on only the level of the target changes;
 * test_budgets.c has more. */
static void test_bench_counts(void) {
    static const struct {
        const char *program;
        double      kernels, distinct;
    } most[] = {{"mlp", 3, 3}, {"conv", 49, 49}, {"resnet50", 70, 37}, {"chain100k", 100, 5}};
    for (int i = 0; i < 4; i++) {
        char line[100];
        snprintf(line, sizeof line, "bench compile %s --machine avx512 --runs 1 --json", most[i].program);
        expect_koine(line, 0, most[i].program);
        double distinct = counted("\"distinct\":"), kernels = counted("\"kernels\":");
        CHECK(kernels <= most[i].kernels && distinct <= most[i].distinct);
        CHECK(counted("\"sweeps\":") <= 6);
        CHECK(counted("\"nodes_out\":") <= 900 * distinct);
        CHECK(counted("\"rewritten\":") <= most_rewritten() * distinct + counted("\"nodes\":"));
    }
}

static void test_programs(void) {
    put("cli_a.kn", "%1 = PARAM {slot=0} [2, 3]\n%2 = PARAM {slot=1, dtype=i32} [3]\n"
                    "%3 = REDUCE {op=ADD, axes=(1)} (ADD %1 (CAST {f32} %2))\n");
    put("cli_bad.kn", "%1 = PARAM {slot=0} [2, 3]\n%2 = RESHAPE %1 [7]\n");
    put("cli_loop.kn", "%1 = PARAM {slot=0} [2, 3]\n%2 = SINK (STORE (NEG %1) %1)\n");
    put("cli_kernel.kn", "%o = PARAM {slot=0} [4]\n%a = PARAM {slot=1} [4]\n%i = RANGE {id=0, type=LOOP} 4\n"
                         "%s = SINK (END (STORE (INDEX %o %i) (NEG (LOAD (INDEX %a %i)))) %i)\n");
    expect_koine("ir cli_a.kn --verify", 0, "%3 = CAST {f32} %2 : f32[3]\n");
    expect_koine("ir - --json < cli_a.kn", 0, "{\"ok\": true, \"nodes\": ");
    expect_koine("ir cli_bad.kn", 1, "line 2, column 6: RESHAPE");
    expect_koine("ir cli_bad.kn --json", 1, "\"error\": \"line 2");
    expect_koine("ir cli_loop.kn", 0, "STORE");
    expect_koine("ir cli_loop.kn --verify", 1, "verify.store_target_STORE");
    expect_koine("eval cli_a.kn", 1, "PARAM slot 0 has no input");
    expect_koine("eval cli_a.kn --fill seq", 0, "f32[2,1]\n[[6.0],\n [15.0]]");
    expect_koine("eval cli_a.kn --fill seq --device INTERP", 0, "f32[2,1]\n[[6.0],\n [15.0]]");
    expect_koine("eval cli_a.kn --fill seq --device GPU", 2, "there is no device 'GPU'");
    expect_koine("ir cli_a.kn --after rangeify", 0, "REDUCE {op=ADD} ");
    expect_koine("ir cli_a.kn --after=all --time", 0, "# after linearize\n");
    expect_koine("ir cli_a.kn --target c --after render", 0, "void ");
    expect_koine("ir cli_a.kn --after rendr", 2, "did you mean 'render'?");
    expect_koine("ir cli_a.kn --after optimize --opts SPLIT:0:2:UPCAST", 0, "UPCAST");
    expect_koine("ir cli_a.kn --after optimize --opts FROB", 1, "koine ir: ");
    expect_koine("ir cli_a.kn --explain", 0, "REDUCE ADD f32[2,1] ");
    expect_koine("ir - --explain < cli_a.kn", 0, "(the program stores it)");
    expect_koine("ir cli_a.kn --explain", 0, "options of kernel 0 r_2_3");
    expect_koine("ir cli_a.kn --explain --machine avx2", 0, "machine avx2: vectors of 32 bytes");
    expect_koine("ir cli_a.kn --explain --machine host", 0, "machine host: vectors of ");
    expect_koine("ir cli_a.kn --explain --opts SPLIT:0:2:UPCAST", 0, "given by hand");
    expect_koine("ir cli_a.kn --explain --machine z80", 1, "there are host, avx512, avx2, sse2 and neon");
    expect_koine("ir cli_a.kn --explain --diff", 2, "choose one");
    expect_koine("ir cli_a.kn --explain --json", 0, "\"text\": \"machine avx512");
    expect_koine("ir cli_kernel.kn --explain", 1, "a loop in a tensor program");
    expect_koine("ir cli_a.kn --stop-after expand --json --time", 0, "\"seconds\": {\"callify\": ");
    put("cli_index.kn", "%x = PARAM {slot=0} [4]\n%1 = INDEX %x (MUL (RANGE {rank=1} 4) 1000000000)\n");
    expect_koine("eval cli_index.kn --fill seq", 1, "may lie outside 0..3");
    expect_koine("eval cli_index.kn --fill seq --device INTERP", 1, "out of bounds");
    expect_koine("eval cli_kernel.kn --fill seq", 1, "INTERP runs any stage");
    expect_koine("eval cli_kernel.kn --fill seq --device INTERP", 0, "f32[4]\n[-0.0, -1.0, -2.0, -3.0]");
    expect_koine("eval cli_a.kn --fill seq --json", 0,
           "{\"values\": [{\"dtype\": \"f32\", \"shape\": [2, 1], \"data\": [[6.0], [15.0]]}]}");

    float    x[6]    = {1, 2, 3, 4, 5, 6};
    int32_t  i[3]    = {10, 20, 30};
    int64_t  dims[2] = {2, 3};
    kn_fault f       = {0};
    kn_npy   y;
    CHECK(kn_npy_write(NULL, "cli_x.npy", KN_F32, dims, 2, x, &f));
    CHECK(kn_npy_write(NULL, "cli_i.npy", KN_I32, dims + 1, 1, i, &f));
    expect_koine("eval cli_a.kn --in cli_x.npy cli_i.npy --out cli_y.npy", 0, "");
    CHECK(kn_npy_read(NULL, "cli_y.npy", &y, &f));
    CHECK_EQ(y.count, 2);
    if (y.count == 2) {
        CHECK_NEAR(((float *)y.data)[0], 66, 0);
        CHECK_NEAR(((float *)y.data)[1], 75, 0);
    }
    kn_npy_free(&y);
    expect_koine("eval cli_a.kn --in cli_i.npy --fill rand", 1,
                 "cli_i.npy: it is i32[3], and PARAM slot 0 is f32[2,3]");
    expect_koine("eval cli_a.kn --in cli_x.npy cli_i.npy cli_x.npy", 1, "has no PARAM slot 2");
    expect_koine("eval cli_a.kn --fill rand --out a.npy b.npy", 1, "1 values, --out names 2 files");
    expect_koine("eval cli_a.kn --in=cli_x.npy --in=missing.npy", 1, "missing.npy");
    static const char *const made[] = {"cli_a.kn",  "cli_bad.kn", "cli_kernel.kn", "cli_index.kn", "cli_loop.kn",
                                       "cli_x.npy", "cli_i.npy",  "cli_y.npy"};
    for (int k = 0; k < KN_COUNT(made); k++) unlink(made[k]);
}

int main(void) {
    if (access(KN_TEST_BUILD "/koine", X_OK) != 0) SKIP("the koine command is not built");
    RUN(test_help);
    RUN(test_usage);
    RUN(test_bench);
    RUN(test_bench_counts);
    RUN(test_programs);
    return check_result();
}
