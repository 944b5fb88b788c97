/* The same programs by the C target, at -O3, and by the target x86, alternating, in one thread: microseconds of the
 * processor a run (the median of the rounds), the ratio, and milliseconds to lower and compile them; last the geometric
 * mean of the ratios. A ratio is the median of those of the rounds: what a round's two runs share, as a busy neighbour,
 * is no part of it (C against C: 9 of 346 were off by 5 %, 40 by the ratio of the medians). Each round is in a context
 * of its own, and who comes first takes turns: where buffers lie in the caches, which can make a third, is then chance
 * for both. The programs are those of target_cases.h or, with --chance, such as nobody chose (chance.h). */
#include "chance.h"
#include "target_cases.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 11, TARGETS = 2, WARM = 2, ROUND_US = 20000 };

/* Of the processor, not of the wall: others may run beside. */
static double now(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct job {
    const program *program;
} job;
static kn_status step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)nin, (void)nout;
    const program *p = ((job *)user)->program;
    out[0]           = p->fn(kn, p, in);
    return KN_OK;
}

/* The input's values, in memory. */
static kn_tensor *made(kn_context *kn, const input *in) {
    int rank = 0;
    while (rank < 4 && in->dims[rank]) rank++;
    kn_tensor *x = kn_rand(kn, in->dims, rank);
    if (in->most) x = kn_mul_s(x, in->most + 0.99);
    return in->dtype == KN_F32 ? x : kn_cast(x, in->dtype);
}

static int wanted(const char *name, int n, char **names) {
    for (int k = 0; k < n; k++)
        if (strstr(name, names[k])) return 1;
    return n == 0;
}

/* The program in a context of its own, opened anew: `calls` runs, microseconds each; *calls is set if it is 0. */
static int timed(const program *b, const char *target, kn_runtime *rt, int *calls, double *us, kn_stats *stats) {
    kn_config   cfg = {.target = target, .runtime = rt, .seed = 3, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    kn_tensor  *in[INPUTS];
    int         nin = 0;
    job         j   = {b};
    for (; nin < INPUTS && b->in[nin].dims[0]; nin++) in[nin] = made(kn, &b->in[nin]);
    kn_realize(in, nin);
    kn_jit *run   = kn_jit_new(kn, step, &j);
    double  start = 0;
    for (int c = -WARM; c < (*calls ? *calls : 1); c++) {
        kn_scope  *s = kn_begin(kn);
        kn_tensor *out;
        if (c == 0) start = now();
        kn_call(run, nin, in, 1, &out);
        kn_keep(out);
        if (kn_end(s) != KN_OK) {
            printf("%s: %s\n", b->name, kn_error(kn));
            kn_close(kn);
            return 0;
        }
    }
    *us = (now() - start) * 1e6 / (*calls ? *calls : 1);
    if (!*calls) *calls = (int)(ROUND_US / *us) + 1;
    stats->size = sizeof *stats;
    kn_get_stats(kn, stats);
    kn_close(kn);
    return 1;
}

typedef struct result {
    double us[TARGETS], ratio, compile_ms;
} result;

enum { FAILED, LEFT_OUT, MEASURED };

/* All rounds of a program, with that C compiler. FAILED: one of them did, and said why. LEFT_OUT: the first run of C
 * took less than `least` microseconds. */
static int measure(const program *b, const char *const *targets, const char *cc, double least, result *out) {
    kn_config   cfg = {.threads = 1, .cc = cc, .size = sizeof cfg};
    kn_stats    stats[TARGETS], later;
    double      took[TARGETS][ROUNDS], ratio[ROUNDS], first[TARGETS];
    int         calls = 0, ok = 1;
    kn_runtime *rt = kn_runtime_new(&cfg);
    for (int t = 0; t < TARGETS && ok; t++) { /* compiles */
        ok = timed(b, targets[t], rt, &calls, &first[t], &stats[t]);
        if (ok && first[0] < least) {
            kn_runtime_close(rt);
            return LEFT_OUT;
        }
    }
    for (int r = 0; r < ROUNDS && ok; r++) {
        for (int t = 0; t < TARGETS && ok; t++) {
            int at = (r + t) % TARGETS;
            ok     = timed(b, targets[at], rt, &calls, &took[at][r], &later);
        }
        ratio[r] = took[1][r] / took[0][r];
    }
    kn_runtime_close(rt);
    if (!ok) return FAILED;
    for (int t = 0; t < TARGETS; t++) {
        qsort(took[t], ROUNDS, sizeof **took, ascending);
        out->us[t] = took[t][ROUNDS / 2];
    }
    qsort(ratio, ROUNDS, sizeof *ratio, ascending);
    out->ratio      = ratio[ROUNDS / 2];
    out->compile_ms = stats[1].compile_seconds * 1e3;
    return MEASURED;
}

typedef struct asked {
    int      by_chance, control, list, names;
    char   **name; /* where argv was: the names are no more than what was read */
    uint64_t seed, from, programs, least;
} asked;

static int usage(FILE *to) {
    fputs("bench_target [--control] [NAME...]\n"
          "bench_target --chance SEED [--programs N] [--from I] [--least US] [--list] [--control] [NAME...]\n"
          "\n"
          "  NAME...        only programs that one of the names is part of\n"
          "  --control      C against C: the noise of the machine\n"
          "  --chance SEED  programs by chance; program I of a seed is always the same one\n"
          "  --programs N   so many of them (100)\n"
          "  --from I       the first of them (0)\n"
          "  --least US     without those that take C less than US microseconds (0)\n"
          "  --list         their names alone\n",
          to);
    return to == stderr ? 2 : 0;
}

/* 0: it is no number, or one too large. */
static int number(const char *text, uint64_t *n) {
    char *end;
    errno = 0;
    *n    = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

/* 0: what stands there cannot be read, or goes with --chance alone. */
static int parse(int argc, char **argv, asked *a) {
    const struct {
        const char *option;
        uint64_t   *n;
    } numbers[] = {{"--chance", &a->seed}, {"--programs", &a->programs}, {"--from", &a->from}, {"--least", &a->least}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    int of_chance = 0;
    for (int k = 1; k < argc; k++) {
        int at = 0;
        while (at < NUMBERS && strcmp(argv[k], numbers[at].option)) at++;
        if (at < NUMBERS) {
            if (k + 1 == argc || !number(argv[++k], numbers[at].n)) return 0;
            a->by_chance |= at == 0;
            of_chance = 1;
        } else if (!strcmp(argv[k], "--list")) {
            a->list = of_chance = 1;
        } else if (!strcmp(argv[k], "--control")) {
            a->control = 1;
        } else {
            if (argv[k][0] == '-') return 0;
            a->name[a->names++] = argv[k];
        }
    }
    return a->by_chance || !of_chance;
}

enum { LINE = 2 * CHANCE_NAME };

typedef struct table {
    const char *targets[TARGETS];
    int         n, slow, left_out, failed;
    double      logs;
    FILE       *again; /* the lines of slow ones; NULL: nobody asks */
} table;

/* Measures a program and prints its line, with the label in that many columns. */
static void row(table *t, const program *p, const char *label, int columns, double least) {
    const char *cc = getenv("CC");
    char        most[256], line[LINE];
    result      r;
    snprintf(most, sizeof most, "%s -O3", cc ? cc : "cc");
    int how = measure(p, t->targets, most, least, &r);
    if (how == FAILED) { /* compilers fail sometimes, at that level */
        printf("%s: once more, at -O2\n", label);
        how = measure(p, t->targets, cc, least, &r);
    }
    t->failed += how == FAILED;
    t->left_out += how == LEFT_OUT;
    if (how != MEASURED) return;
    snprintf(line, sizeof line, "%-*s %10.1f %10.1f %7.2f %14.2f", columns, label, r.us[0], r.us[1], r.ratio,
             r.compile_ms);
    puts(line);
    fflush(stdout);
    t->logs += log(r.ratio);
    t->n++;
    if (r.us[0] < 20 || r.ratio <= 1.05) return;
    t->slow++;
    if (t->again) fprintf(t->again, "%s\n", line);
}

int main(int argc, char **argv) {
    asked a = {.programs = 100, .name = argv};
    if (argc == 2 && !strcmp(argv[1], "--help")) return usage(stdout);
    if (!parse(argc, argv, &a)) return usage(stderr);
    int    columns = a.by_chance ? 76 : 22;
    table  t       = {.targets = {"c", a.control ? "c" : "x86"}, .again = a.by_chance ? tmpfile() : NULL};
    size_t fixed   = a.by_chance ? 0 : sizeof cases / sizeof *cases;
    if (!a.list) printf("%-*s %10s %7s us %7s %11s ms\n", columns, "", "c us", t.targets[1], "ratio", "compile");
    for (size_t k = 0; k < fixed && !t.failed; k++)
        if (wanted(cases[k].name, a.names, a.name)) row(&t, &cases[k], cases[k].name, columns, 0);
    for (uint64_t k = 0; a.by_chance && k < a.programs; k++) {
        chance c;
        char   label[CHANCE_NAME + 24];
        chance_program(&c, a.seed, a.from + k);
        snprintf(label, sizeof label, "%" PRIu64 " %s", a.from + k, c.name);
        if (!wanted(label, a.names, a.name)) continue;
        if (a.list)
            puts(label);
        else
            row(&t, &c.program, label, columns, (double)a.least);
    }
    if (t.left_out) printf("%d left out\n", t.left_out);
    if (t.failed) printf("%d failed\n", t.failed);
    if (t.n)
        printf("%-*s %7.2f   %d slower by more than 5 %%\n", columns + 22, "geometric mean", exp(t.logs / t.n), t.slow);
    if (t.again) {
        rewind(t.again);
        for (int ch; (ch = getc(t.again)) != EOF;) putchar(ch);
        fclose(t.again);
    }
    return t.failed != 0;
}
