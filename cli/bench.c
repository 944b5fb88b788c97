/* bench.c - `koine bench compile`: how long programs take from their first node to kernels that can run.
 *
 * Contract: each run is a process of its own, started by this command (--once), so that nothing is warm; the report
 * gives the median of each figure, which bounds are held against, and the least, which a busy machine changes little.
 * One thread. Kernels that are not called are compiled for the device NULL. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "cli.h"
#include "runtime/runtime.h"
#include "lower/pipeline.h"
#include "tensor/tensor.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_RUNS = 1000 };

/* What one run measures, each a double; the rows of the report, in order. */
enum {
    AT_START,   /* seconds: to main */
    AT_WEIGHTS, /* making them */
    AT_GRAPH,   /* a context, and the calls that build the graph */
    AT_STAGE,   /* by stage, KN_STAGE_CALLIFY and on */
    AT_LOAD = AT_STAGE + KN_STAGE_COUNT,
    AT_REST,  /* of kn_end and kn_read: buffers, the kernels themselves */
    AT_TOTAL, /* from the start of the process to the result */
    AT_COUNTED, /* of it, what the program's bound speaks of */
    AT_KERNEL, /* the median kernel, its share of Rangeify included */
    AT_NODES,  /* counts: nodes of the callified programs */
    AT_KERNELS,
    AT_DISTINCT, /* kernels that were compiled */
    AT_OUT,      /* nodes of these when they are rendered */
    AT_VISITS,   /* nodes matched against rules */
    AT_FIRED,    /* rules that fired */
    AT_SWEEPS,   /* of a kernel, at most */
    AT_COUNT
};

/* Microseconds a distinct kernel: the design's budgets. Its 150 of algebra are the rules on index expressions, which
 * Rangeify runs; registers are planned, and instructions encoded, when a kernel is rendered. */
static const double budget_us[KN_STAGE_COUNT] = {[KN_STAGE_RANGEIFY] = 80 + 150, [KN_STAGE_OPTIMIZE] = 100,
                                                 [KN_STAGE_EXPAND] = 40,         [KN_STAGE_SELECT] = 120,
                                                 [KN_STAGE_LINEARIZE] = 60,      [KN_STAGE_RENDER] = 120 + 40};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n) {
    if (!n) return 0;
    qsort(v, n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- one run --------------------------------------------------------------------------------------------------- */

typedef struct bench_sum {
    double *at;
    double *kernel; /* milliseconds of each distinct kernel */
    size_t  n, cap;
    bool    ok;
} bench_sum;

static void add_program(void *user, const kl_program *p) {
    bench_sum *s     = user;
    double    *at    = s->at;
    double     share = p->ncall ? p->spent[KN_STAGE_RANGEIFY] / (double)p->ncall : 0;
    at[AT_NODES] += kg_count(p->g) - 1;
    at[AT_KERNELS] += (double)p->ncall;
    at[AT_VISITS] += (double)p->visits;
    at[AT_FIRED] += (double)p->matches;
    at[AT_LOAD] += p->loading;
    for (int i = 0; i < KN_STAGE_COUNT; i++) at[AT_STAGE + i] += p->spent[i];
    for (size_t k = 0; k < p->nkernel && s->ok; k++) {
        const kl_kernel *own = &p->kernel[k];
        if (!(s->ok = KN_GROW(NULL, s->kernel, s->cap, s->n + 1))) return;
        s->kernel[s->n++] = own->spent + share;
        at[AT_OUT] += own->nodes;
        at[AT_SWEEPS] = KN_MAX(at[AT_SWEEPS], own->sweeps + 1); /* and that of the index expressions, which all share */
    }
    at[AT_DISTINCT] = (double)s->n;
}

/* What kernels are made for, as kn_config has it; NULL: its defaults. */
typedef struct bench_aim {
    const char *target, *machine;
} bench_aim;

/* Runs a program in this process, which began at `began`; the figures into at[]. */
static bool run_once(const bench_program *b, double began, const bench_aim *aim, double *at, kn_fault *f) {
    double    main_at = kn_now();
    kn_config cfg     = {.threads = 1, .device = b->runs ? "CPU" : "NULL", .target = aim->target,
                         .machine = aim->machine, .log = cli_log, .size = sizeof cfg};
    bench_run r       = {0};
    bench_sum sum     = {.at = at, .ok = true};
    float     out[1024]; /* no result has more elements */
    kn_arena_init(&r.memory, NULL);
    if (!(r.kn = kn_open(&cfg))) return kn_oom(f);
    bool   ok    = b->build(&r) || kn_oom(f);
    double built = kn_now();
    if (r.scope && kn_end(r.scope) != KN_OK && ok) ok = kn_fail(f, kn_error_code(r.kn), "%s", kn_error(r.kn));
    if (ok && r.result && kn_read(r.result, KN_F32, out, (size_t)kn_numel(r.result) * sizeof *out) != KN_OK)
        ok = kn_fail(f, kn_error_code(r.kn), "%s", kn_error(r.kn));
    double done = kn_now();
    if (ok) kr_each_program(r.kn->rt, add_program, &sum);
    if (ok && !(ok = sum.ok)) kn_oom(f);
    at[AT_START]   = main_at - began;
    at[AT_WEIGHTS] = r.weights;
    at[AT_GRAPH]   = built - main_at - r.weights;
    at[AT_TOTAL]   = done - began;
    at[AT_REST]    = done - built - at[AT_LOAD];
    for (int i = 0; i < KN_STAGE_COUNT; i++) at[AT_REST] -= at[AT_STAGE + i];
    at[AT_COUNTED] = at[AT_TOTAL] - (b->whole ? 0 : at[AT_WEIGHTS]);
    at[AT_KERNEL] = median(sum.kernel, sum.n);
    kn_free(NULL, sum.kernel, sum.cap * sizeof *sum.kernel);
    kn_close(r.kn);
    kn_arena_free(&r.memory);
    return ok;
}

/* The same in a process of its own. */
static bool run_apart(const bench_program *b, const bench_aim *aim, double *at, kn_fault *f) {
    static const char self[] = "/proc/self/exe";
    char              began[40], *argv[11];
    int               ends[2], n = 0, status = 0;
    pid_t             pid;
    size_t            got = 0, bytes = AT_COUNT * sizeof *at;
    if (pipe(ends) != 0) return kn_fail(f, KN_ERR_IO, "pipe: %s", strerror(errno));
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&files, ends[0]);
    const char *words[] = {self, "bench", "compile", b->name, "--once", began,
                           aim->target ? "--target" : NULL, aim->target,
                           aim->machine ? "--machine" : NULL, aim->machine};
    for (int i = 0; i < KN_COUNT(words); i++)
        if (words[i]) argv[n++] = (char *)(uintptr_t)words[i];
    argv[n] = NULL;
    snprintf(began, sizeof began, "%.9f", kn_now());
    int error = posix_spawn(&pid, self, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    while (!error && got < bytes) {
        ssize_t n_read = read(ends[0], (char *)at + got, bytes - got);
        if (n_read < 0 && errno == EINTR) continue;
        if (n_read <= 0) break;
        got += (size_t)n_read;
    }
    close(ends[0]);
    if (error) return kn_fail(f, KN_ERR_IO, "%s: %s", self, strerror(error));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return got == bytes && status == 0 ? true : kn_fail(f, KN_ERR_INTERNAL, "a run of %s failed", b->name);
}

/* Medians into at[], and the least into least[]. */
static bool measure(const bench_program *b, const bench_aim *aim, int runs, double *at, double *least, kn_fault *f) {
    double *all = kn_zalloc(NULL, (size_t)runs * AT_COUNT * sizeof *all), *one = NULL;
    bool    ok  = all && (one = kn_zalloc(NULL, (size_t)runs * sizeof *one)) ? true : kn_oom(f);
    for (int i = 0; i < runs && ok; i++) ok = run_apart(b, aim, all + i * AT_COUNT, f);
    for (int k = 0; k < AT_COUNT && ok; k++) {
        for (int i = 0; i < runs; i++) one[i] = all[i * AT_COUNT + k];
        at[k]    = median(one, (size_t)runs);
        least[k] = one[0];
    }
    kn_free(NULL, all, (size_t)runs * AT_COUNT * sizeof *all);
    kn_free(NULL, one, (size_t)runs * sizeof *one);
    return ok;
}

/* ---- the report ------------------------------------------------------------------------------------------------ */

static double lowering(const double *at) {
    double s = 0;
    for (int i = 0; i < KN_STAGE_COUNT; i++) s += at[AT_STAGE + i];
    return s;
}

static void bound(double most, double is) {
    if (most > 0) printf(", at most %g: %s", most, is <= most ? "kept" : "MISSED");
}

static void row(const char *name, double seconds, double least) {
    printf("  %-10s %9.3f %9.3f\n", name, 1e3 * seconds, 1e3 * least);
}

static void stage_row(const double *at, const char *name, double seconds, double least, double budget, double kernels) {
    printf("  %-10s %9.3f %9.3f %5.1f %%", name, 1e3 * seconds, 1e3 * least,
           100 * seconds / KN_MAX(lowering(at), 1e-9));
    if (budget > 0)
        printf(" %8.1f %8.1f us a kernel, of %g", 1e6 * seconds / KN_MAX(kernels, 1),
               1e6 * least / KN_MAX(kernels, 1), budget);
    putchar('\n');
}

static void report(const bench_program *b, const double *at, const double *least) {
    printf("%s: %s\n", b->name, b->title);
    printf("  %.0f nodes, %.0f kernels, %.0f of them different, %.0f nodes out of these\n", at[AT_NODES],
           at[AT_KERNELS], at[AT_DISTINCT], at[AT_OUT]);
    printf("  %-10s %9s %9s\n", "ms", "median", "least");
    row("start", at[AT_START], least[AT_START]);
    row("weights", at[AT_WEIGHTS], least[AT_WEIGHTS]);
    row("graph", at[AT_GRAPH], least[AT_GRAPH]);
    double most = 0; /* that the design allows the stages */
    for (int i = KN_STAGE_CALLIFY; i < KN_STAGE_COUNT; i++) {
        stage_row(at, kn_stage_names[i], at[AT_STAGE + i], least[AT_STAGE + i], budget_us[i],
                  at[i == KN_STAGE_RANGEIFY ? AT_KERNELS : AT_DISTINCT]); /* what is equal is found when it is cut */
        most += budget_us[i];
    }
    stage_row(at, "stages", lowering(at), lowering(least), most, at[AT_DISTINCT]);
    row("load", at[AT_LOAD], least[AT_LOAD]);
    row(b->runs ? "run" : "rest", at[AT_REST], least[AT_REST]);
    printf("  %-10s %9.3f %9.3f%s", b->whole ? "total" : "counted", 1e3 * at[AT_COUNTED], 1e3 * least[AT_COUNTED],
           b->whole ? "" : ", the weights left out");
    bound(b->most, 1e3 * at[AT_COUNTED]);
    printf("\n  %-10s %9.3f %9.3f, the median", "a kernel", 1e3 * at[AT_KERNEL], 1e3 * least[AT_KERNEL]);
    bound(b->each, 1e3 * at[AT_KERNEL]);
    printf("\n  %.0f UOps rewritten, %.2f million a second of the stages; %.0f rules fired; at most %.0f sweeps a "
           "kernel\n", at[AT_VISITS], 1e-6 * at[AT_VISITS] / KN_MAX(lowering(at), 1e-9), at[AT_FIRED], at[AT_SWEEPS]);
}

static void report_json(const bench_program *b, const double *at, const double *least, bool first) {
    printf("%s{\"program\": \"%s\", \"nodes\": %.0f, \"kernels\": %.0f, \"distinct\": %.0f, \"nodes_out\": %.0f,\n",
           first ? "[" : ",\n ", b->name, at[AT_NODES], at[AT_KERNELS], at[AT_DISTINCT], at[AT_OUT]);
    printf("  \"total_ms\": %.6f, \"counted_ms\": %.6f, \"least_ms\": %.6f, \"most_ms\": %g,\n",
           1e3 * at[AT_TOTAL], 1e3 * at[AT_COUNTED], 1e3 * least[AT_COUNTED], b->most);
    printf("  \"kernel_ms\": %.6f, \"kernel_most_ms\": %g,\n", 1e3 * at[AT_KERNEL], b->each);
    printf("  \"ms\": {\"start\": %.6f, \"weights\": %.6f, \"graph\": %.6f", 1e3 * at[AT_START], 1e3 * at[AT_WEIGHTS],
           1e3 * at[AT_GRAPH]);
    for (int i = KN_STAGE_CALLIFY; i < KN_STAGE_COUNT; i++)
        printf(", \"%s\": %.6f", kn_stage_names[i], 1e3 * at[AT_STAGE + i]);
    printf(", \"load\": %.6f, \"rest\": %.6f},\n  \"budget_us\": {", 1e3 * at[AT_LOAD], 1e3 * at[AT_REST]);
    const char *sep = "";
    for (int i = 0; i < KN_STAGE_COUNT; i++) {
        if (budget_us[i] <= 0) continue;
        printf("%s\"%s\": %g", sep, kn_stage_names[i], budget_us[i]);
        sep = ", ";
    }
    printf("}, \"rewritten\": %.0f, \"rewritten_per_second\": %.0f, \"fired\": %.0f, \"sweeps\": %.0f}", at[AT_VISITS],
           at[AT_VISITS] / KN_MAX(lowering(at), 1e-9), at[AT_FIRED], at[AT_SWEEPS]);
}

static const bench_program *find_program(const char *name) {
    for (int i = 0; i < bench_program_count; i++)
        if (!strcmp(bench_programs[i].name, name)) return &bench_programs[i];
    return NULL;
}

static int unknown_program(const cli *c, const char *name) {
    const char *names[32];
    int         n = KN_MIN(bench_program_count, KN_COUNT(names));
    for (int i = 0; i < n; i++) names[i] = bench_programs[i].name;
    const char *near = cli_nearest(name, names, n);
    return cli_usage(c, "there is no program '%s'%s%s%s", name, near ? "; did you mean '" : "", near ? near : "",
                     near ? "'?" : "");
}

int cli_run_bench(cli *c) {
    const char *once = cli_value(c, "once", 0), *text = cli_value(c, "runs", 0);
    bench_aim   aim  = {cli_value(c, "target", 0), cli_value(c, "machine", 0)};
    char       *end;
    long        runs = text ? strtol(text, &end, 10) : 11;
    bool        json = cli_switch(c, "json"), first = true;
    double      at[AT_COUNT], least[AT_COUNT], small = 0;
    if (c->nargs < 1 || strcmp(c->args[0], "compile") != 0)
        return cli_usage(c, "which? there is \"koine bench compile\"");
    if (text && (*end || runs < 1 || runs > MOST_RUNS))
        return cli_usage(c, "--runs takes a number from 1 to %d", MOST_RUNS);
    for (int i = 1; i < c->nargs; i++)
        if (!find_program(c->args[i])) return unknown_program(c, c->args[i]);
    if (once) {
        memset(at, 0, sizeof at);
        if (c->nargs != 2) return cli_usage(c, "--once takes one program");
        if (!run_once(find_program(c->args[1]), kn_text_double(once, &end), &aim, at, &c->fault)) return cli_fail(c);
        return fwrite(at, sizeof *at, AT_COUNT, stdout) == AT_COUNT ? 0 : 1;
    }
    for (int i = 0; i < bench_program_count; i++) {
        const bench_program *b = &bench_programs[i];
        bool                 asked = c->nargs == 1;
        for (int k = 1; k < c->nargs; k++) asked |= !strcmp(c->args[k], b->name);
        if (!asked) continue;
        if (!measure(b, &aim, (int)runs, at, least, &c->fault)) return cli_fail(c);
        if (json) report_json(b, at, least, first);
        else report(b, at, least);
        fflush(stdout);
        first = false;
        double own = at[AT_COUNTED] - at[AT_START];
        if (!strcmp(b->name, "chain1k")) small = own;
        if (!strcmp(b->name, "chain100k") && small > 0 && !json) {
            printf("  %.0f times chain1k, the start of the process left out", own / small);
            bound(170, own / small);
            putchar('\n');
        }
    }
    if (json) printf("%s]\n", first ? "[" : "");
    return 0;
}
