/* test_programs.c - programs out of bytes (soup.c), run by the interpreter at tensor level and after every stage, and
 * as machine code; what fails is made small and shown as a text program. docs/fuzzing.md is its manual.
 *
 *   test_fuzz_programs [--programs N] [--seed S] [--from I] [--jobs J] [--compiled-only] [--progress SECONDS]
 *
 * Program I of seed S is always the same one. Built with KN_LIBFUZZER, and clang's -fsanitize=fuzzer, the bytes come
 * from libFuzzer. */
#define _GNU_SOURCE
#include "check.h"
#include "fuzz/soup.h"
#include "fuzz/trial.h"
#include "ir/choose.h"
#include "ir/corpus.h"
#include "target/target.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 220, MOST_FAILED = 256, MOST_JOBS = 64, PATIENCE = 60 /* seconds for a program */, MOST_WAYS = 4 };

typedef struct program { /* bytes, and what is done with them */
    uint8_t   bytes[LONGEST];
    size_t    n;
    bool      symbolic;
    unsigned  point;
    trial_how how[MOST_WAYS];
    int       nhow;
} program;

/* Feature levels of machine code, and spilling. */
static const char *const levels[] = {"x86:avx512", "x86:avx2", "x86:scalar", "x86:avx512:regs=4", "x86:avx2:regs=5",
                                     "x86:avx2:regs=10"};

static bool runs_code(void) {
    kt_choice c;
    kn_fault  f = {0};
    return kt_find(NULL, &c, &f) && c.target->machine;
}

/* One of them; without AVX-512 the next that does without. */
static const char *level_of(uint64_t i) {
    uint64_t k = i % KN_COUNT(levels);
#if KN_TARGET_X86
    if (strstr(levels[k], "avx512") && !__builtin_cpu_supports("avx512bw")) k++;
#endif
    return levels[k];
}

/* What program `i` is put through: all stages for both targets and some options, or code alone. */
static void choose_ways(program *p, uint64_t i, bool compiled) {
    uint64_t    opts = kn_threefry2x32(i, 2) | 1;
    const char *one, *other;
    p->symbolic = i % 4 == 0;
    p->point    = (unsigned)(i / 4);
    p->nhow     = 0;
    if (!compiled) p->how[p->nhow++] = (trial_how){.stages = true};
    if (!runs_code()) p->how[p->nhow++] = (trial_how){.opts = opts, .stages = true};
    if (runs_code()) {
        one               = level_of(i);
        other             = level_of(i / KN_COUNT(levels));
        p->how[p->nhow++] = (trial_how){.target = one, .stages = !compiled};
        p->how[p->nhow++] = (trial_how){.target = other, .opts = opts, .stages = !compiled};
    }
}

static void choose_bytes(program *p, uint64_t seed, uint64_t i) {
    uint64_t state = kn_threefry2x32(i, seed);
    p->n           = 20 + (size_t)choose_draw(&state, LONGEST - 20);
    for (size_t k = 0; k < p->n; k++) p->bytes[k] = (uint8_t)choose_draw(&state, 256);
}

/* The text of the program; false with what is wrong. */
static bool cook(const program *p, kn_str *text, char *why, size_t cap) {
    kn_graph *g = kg_new(NULL);
    kn_ref    r = soup_cook(g, p->bytes, p->n, p->symbolic);
    if (r) kg_print(g, r, text);
    else snprintf(why, cap, "cooking: %.200s", kg_fault(g)->text);
    kg_free(g);
    return r != 0;
}

static trial_verdict try_program(trial_engine *e, const program *p) {
    kn_str text;
    kn_str_init(&text, NULL);
    e->point        = p->point;
    trial_verdict v = cook(p, &text, e->why, sizeof e->why) ? trial_run(e, kn_str_c(&text), p->how, p->nhow)
                                                            : TRIAL_FAILED;
    kn_str_free(&text);
    return v;
}

static void show(const program *p, const trial_engine *e, const char *where) {
    kn_str text;
    char   why[320];
    kn_str_init(&text, NULL);
    kn_str_putf(&text, "# %s: %s\n", where, e->why);
    if (e->how.target) kn_str_putf(&text, "# target %s\n", e->how.target);
    if (e->how.opts) kn_str_putf(&text, "# options %s\n", e->opts);
    if (!cook(p, &text, why, sizeof why)) kn_str_putf(&text, "# %s\n", why);
    kn_str_puts(&text, "\n");
    fputs(kn_str_c(&text), stderr);
    kn_str_free(&text);
}

#ifdef KN_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static trial_engine e;
    program             p = {.n = n};
    if (n > LONGEST) return 0;
    memcpy(p.bytes, bytes, n);
    choose_ways(&p, n ? bytes[n - 1] : 0, false);
    if (try_program(&e, &p) != TRIAL_FAILED) return 0;
    show(&p, &e, "libFuzzer");
    abort();
}
#else

typedef struct campaign {
    uint64_t seed, from, programs;
    int      jobs;
    bool     compiled;
    double   progress; /* seconds between lines, 0: none */
} campaign;

typedef struct shared { /* between the processes */
    _Atomic uint64_t next, done, left_out, shaken, stages, runs, refused;
    _Atomic int      nfailed;
    _Atomic uint64_t failed[MOST_FAILED], current[MOST_JOBS];
} shared;

/* What comes of a trial in a process of its own, which may crash, or not end: why, in e. */
typedef struct answer {
    trial_verdict v;
    trial_engine  e;
} answer;

static trial_verdict try_apart(answer *a, const program *p) {
    a->v = TRIAL_FAILED;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        alarm(PATIENCE);
        snprintf(a->e.why, sizeof a->e.why, "crash");
        a->v = try_program(&a->e, p);
        a->e.code = NULL;
        a->e.room = 0;
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFSIGNALED(status)) {
        size_t at = strlen(a->e.why);
        snprintf(a->e.why + at, sizeof a->e.why - at, ": signal %d", WTERMSIG(status));
        a->v      = TRIAL_FAILED;
        a->e.code = NULL;
        a->e.room = 0;
    }
    return a->v;
}

/* Bytes taken out, then made zero, as long as it fails. */
static void shrink(answer *a, program *p) {
    program less;
    for (int i = 0; i < p->nhow && p->nhow > 1; i++) { /* one way that fails */
        less        = *p;
        less.how[0] = p->how[i];
        less.nhow   = 1;
        if (try_apart(a, &less) == TRIAL_FAILED) *p = less;
    }
    for (int round = 0; round < 2; round++)
        for (size_t cut = p->n / 2; cut; cut /= 2)
            for (size_t at = 0; at + cut <= p->n;) {
                less = *p;
                memmove(less.bytes + at, p->bytes + at + cut, p->n - at - cut);
                less.n -= cut;
                if (try_apart(a, &less) == TRIAL_FAILED) *p = less;
                else at += cut;
            }
    for (size_t at = 0; at < p->n; at++) {
        less           = *p;
        less.bytes[at] = 0;
        if (p->bytes[at] && try_apart(a, &less) == TRIAL_FAILED) *p = less;
    }
}

static program program_at(const campaign *c, uint64_t i) {
    program p = {.n = 0};
    choose_bytes(&p, c->seed, i);
    choose_ways(&p, i, c->compiled);
    return p;
}

static void work(const campaign *c, shared *s, int job) {
    trial_engine e = {0};
    for (uint64_t i; (i = s->next++) < c->from + c->programs && s->nfailed < MOST_FAILED;) {
        program      p      = program_at(c, i);
        trial_engine before = e;
        s->current[job]     = i + 1;
        alarm(PATIENCE);
        trial_verdict v = try_program(&e, &p);
        if (v == TRIAL_FAILED) {
            int k = s->nfailed++;
            if (k < MOST_FAILED) s->failed[k] = i;
        }
        s->stages += e.stages - before.stages;
        s->runs += e.runs - before.runs;
        s->refused += e.refused - before.refused;
        s->shaken += e.shaken - before.shaken;
        s->left_out += v == TRIAL_LEFT_OUT;
        s->done++;
    }
    s->current[job] = 0;
    trial_free(&e);
}

static void report(const shared *s, double seconds, const char *end) {
    uint64_t done = s->done;
    printf("     %llu programs (%.0f/s), %llu of them left out (%llu once they differed), %llu comparisons of a stage, "
           "%llu run as machine code, %llu option lists refused, %d failed, %.0f s%s",
           (unsigned long long)done, (double)done / KN_MAX(seconds, 1e-3), (unsigned long long)s->left_out,
           (unsigned long long)s->shaken, (unsigned long long)s->stages, (unsigned long long)s->runs,
           (unsigned long long)s->refused, s->nfailed, seconds, end);
    fflush(stdout);
}

static void show_failed(const campaign *c, uint64_t i, answer *a) {
    program p = program_at(c, i);
    char    where[64];
    if (try_apart(a, &p) == TRIAL_FAILED) shrink(a, &p);
    try_apart(a, &p);
    snprintf(where, sizeof where, "seed %llu, program %llu", (unsigned long long)c->seed, (unsigned long long)i);
    show(&p, &a->e, where);
}

static void start_job(const campaign *c, shared *s, pid_t *pid, int job) {
    fflush(NULL);
    if ((pid[job] = fork()) != 0) return;
    work(c, s, job);
    _exit(0);
}

/* Jobs are processes: one that crashes, or does not end, has found something, and another takes its place. */
static void run_campaign(const campaign *c) {
    shared *s    = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    answer *a    = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double start = kn_now(), told = start;
    pid_t  pid[MOST_JOBS];
    int    running = c->jobs, shown = 0;
    if (!CHECK(s != MAP_FAILED && a != MAP_FAILED)) return;
    s->next = c->from;
    for (int j = 0; j < c->jobs; j++) start_job(c, s, pid, j);
    while (running > 0) {
        int   status;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        if (!ended) usleep(2000);
        for (int j = 0; j < c->jobs && ended > 0; j++) {
            if (pid[j] != ended) continue;
            running--;
            if (!s->current[j]) break;
            int k = s->nfailed++;
            if (k >= MOST_FAILED) break;
            s->failed[k] = s->current[j] - 1;
            s->done++;
            start_job(c, s, pid, j);
            running++;
        }
        for (; shown < KN_MIN(s->nfailed, MOST_FAILED); shown++) show_failed(c, s->failed[shown], a);
        if (!c->progress || kn_now() - told < c->progress) continue;
        told = kn_now();
        report(s, told - start, "\n");
    }
    for (; shown < KN_MIN(s->nfailed, MOST_FAILED); shown++) show_failed(c, s->failed[shown], a);
    CHECK_EQ(s->nfailed, 0);
    CHECK(2 * s->left_out < s->done + 20); /* else it tests how well numbers are conditioned */
    report(s, kn_now() - start, "\n");
    munmap(s, sizeof *s);
    munmap(a, sizeof *a);
}

/* What was found with options, as show() prints it: a comment has the lists. All targets run it, but where another
 * comment says why they are refused. */
static void one_found(const corpus_program *p, void *user) {
    trial_engine *e     = user;
    const char   *lists = strstr(p->text, "# options "), *refused = strstr(p->text, "# refused: ");
    char          no[128] = "";
    trial_how     how[KN_COUNT(levels) + 1];
    int           n = 0;
    lists           = lists ? lists + strlen("# options ") : NULL;
    how[n++]        = (trial_how){.lists = lists, .stages = true};
    for (int k = 0; k < KN_COUNT(levels) && runs_code(); k++)
        how[n++] = (trial_how){.target = level_of((uint64_t)k), .lists = lists, .stages = true};
    if (refused) {
        snprintf(no, sizeof no, "%.*s", (int)strcspn(refused + 11, "\n"), refused + 11);
        CHECK(trial_run(e, p->text, how, n) == TRIAL_FAILED);
        if (!CHECK(strstr(e->why, no) != NULL)) fprintf(stderr, "%s: %s\n", p->name, e->why);
    }
    for (e->point = 0; e->point < 4 && !refused; e->point++) {
        if (CHECK(trial_run(e, p->text, how, n) == TRIAL_FINE)) continue;
        fprintf(stderr, "%s: %s, %s\n", p->name, e->how.target ? e->how.target : "c", e->why);
    }
}

static void test_found(void) {
    trial_engine e = {0};
    CHECK(corpus_each(KN_TEST_SOURCE "/tests/fuzz", one_found, &e) > 0);
    trial_free(&e);
}

static campaign asked = {.seed = 1, .jobs = 1};

static void test_programs(void) {
    campaign c = asked;
    c.programs = 250;
    run_campaign(&c);
}

static void test_compiled(void) {
    campaign c = asked;
    c.programs = 500;
    c.compiled = true;
    if (runs_code()) run_campaign(&c);
}

static void test_asked(void) { run_campaign(&asked); }

static bool take_option(char **arg) {
    const struct { const char *name; uint64_t *value; } numbers[] = {
        {"--programs", &asked.programs}, {"--seed", &asked.seed}, {"--from", &asked.from}};
    for (int k = 0; k < KN_COUNT(numbers); k++)
        if (!strcmp(arg[0], numbers[k].name) && arg[1]) return *numbers[k].value = strtoull(arg[1], NULL, 0), true;
    if (!strcmp(arg[0], "--jobs") && arg[1])
        return (asked.jobs = atoi(arg[1])) > 0 && asked.jobs <= MOST_JOBS;
    if (!strcmp(arg[0], "--progress") && arg[1]) return (asked.progress = atof(arg[1])) > 0;
    return false;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--compiled-only")) {
            asked.compiled = true;
        } else if (take_option(argv + i)) {
            i++;
        } else {
            fprintf(stderr, "%s: not understood: %s\n", argv[0], argv[i]);
            return 2;
        }
    }
    if (asked.programs) {
        RUN(test_asked);
    } else {
        RUN(test_found);
        RUN(test_programs);
        RUN(test_compiled);
    }
    return check_result();
}
#endif
