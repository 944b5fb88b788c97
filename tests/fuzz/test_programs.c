/* test_programs.c - programs out of bytes (soup.c), run by the interpreter at tensor level and after every stage, and
 * as machine code; what fails is made small and shown as a text program.
 *
 * `test_fuzz_programs [PROGRAMS [SEED]]` runs that many from that seed. Built with KN_LIBFUZZER, and clang's
 * -fsanitize=fuzzer, the bytes come from libFuzzer. */
#define _GNU_SOURCE
#include "check.h"
#include "fuzz/soup.h"
#include "ir/corpus.h"
#include "lower/pipeline.h"
#include "target/target.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROGRAMS = 250, LONGEST = 220, SLOTS = 96 };

typedef enum verdict { FINE, SKIPPED, FAILED } verdict;

typedef struct trial {
    corpus_case c;
    kn_value    want[CORPUS_MAX];
    int         nwant, out[CORPUS_MAX];
    kl_program  p;
    kn_array    slot[SLOTS];
    char        why[300];
    const char *target;
} trial;

static struct {
    uint64_t programs, skipped, stages, runs;
    char     why[300];
    const uint8_t *bytes; /* of the program that runs, for the message of a crash */
    size_t         n;
} seen;

static bool same(const trial *t, const char *what, char *why, size_t cap) {
    for (int k = 0; k < t->nwant; k++) {
        const kn_value *w = &t->want[k];
        const kn_array *a = &t->slot[t->out[k]];
        for (int64_t i = 0; i < w->numel; i++) {
            kn_scalar x = kn_load_scalar((char *)w->data + i * kn_dsize(w->dtype), w->dtype);
            kn_scalar y = kn_load_scalar((char *)a->data + i * kn_dsize(w->dtype), w->dtype);
            if (!kn_is_float(w->dtype) ? x.i == y.i
                                       : x.f == y.f || (isnan(x.f) && isnan(y.f)) ||
                                             fabs(x.f - y.f) <= t->c.tolerance * fmax(1, fabs(x.f)))
                continue;
            if (kn_is_float(w->dtype))
                snprintf(why, cap, "%s: value %d, element %lld: %.9g, not %.9g", what, k, (long long)i, y.f, x.f);
            else
                snprintf(why, cap, "%s: value %d, element %lld: %lld, not %lld", what, k, (long long)i,
                         (long long)y.i, (long long)x.i);
            return false;
        }
    }
    return true;
}

static void spoil(trial *t) {
    for (int k = 0; k < t->nwant; k++) {
        kn_array *a = &t->slot[t->out[k]];
        if (a->size) memset(a->data, 0x5a, (size_t)a->size * (size_t)kn_dsize(a->dtype));
    }
}

static bool after_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    trial       *t = user;
    int          none = 0;
    kn_eval_opts o = {.check = true};
    char         what[80];
    if (t->target && stage < KN_STAGE_SELECT) return true; /* as before, for the other target */
    snprintf(what, sizeof what, "after %s%s%s", kn_stage_names[stage], t->target ? " of " : "",
             t->target ? t->target : "");
    if (!kn_verify(g, root, stage, f)) return false;
    spoil(t);
    if (!kn_eval(g, root, t->slot, (int)t->p.nparam, NULL, &none, &o, f)) return false;
    seen.stages++;
    return same(t, what, t->why, sizeof t->why) || kn_fail(f, KN_ERR_INTERNAL, "%s", t->why);
}

/* The kernels' machine code, each in two parts of its loop. */
static bool run_code(trial *t) {
    size_t size = 4096;
    for (size_t i = 0; i < t->p.nkernel; i++) size += t->p.kernel[i].source_len + 64;
    char  *code = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at = code;
    char  *temp = aligned_alloc(128, (size_t)t->p.temp_bytes + 128);
    void **bufs = calloc(SLOTS * 4, sizeof *bufs);
    kd_fn *fn   = calloc(t->p.nkernel + 1, sizeof *fn);
    for (size_t i = 0; i < t->p.nkernel; i++) {
        const kl_kernel *k = &t->p.kernel[i];
        memcpy(at, k->source, k->source_len);
        memcpy(&fn[i], &at, sizeof at);
        at += (k->source_len + 63) / 64 * 64;
    }
    bool ok = !mprotect(code, size, PROT_READ | PROT_EXEC);
    spoil(t);
    for (size_t i = 0; i < t->p.ncall && ok; i++) {
        const kl_call   *c = &t->p.call[i];
        const kl_kernel *k = &t->p.kernel[c->kernel];
        for (size_t a = 0; a < k->nargs; a++)
            bufs[a] = c->arg[a].temp ? temp + t->p.temp[c->arg[a].id].offset : t->slot[c->arg[a].id].data;
        int64_t half = k->chunks / 2;
        fn[c->kernel](bufs, NULL, half, k->chunks);
        if (half) fn[c->kernel](bufs, NULL, 0, half);
    }
    munmap(code, size);
    free(temp), free(bufs), free(fn);
    seen.runs++;
    return same(t, "machine code", t->why, sizeof t->why);
}

static bool lower(trial *t, const char *target) {
    kn_fault f    = {0};
    kl_run   run  = {.seen = after_stage, .user = t};
    int      nout;
    t->target = target;
    kl_program_init(&t->p, NULL);
    bool ok = kl_program_from(&t->p, t->c.g, t->c.root, t->out, CORPUS_MAX, &nout, &f) && t->p.nparam <= SLOTS &&
              kt_find(target ? target : "c", &t->p.target, &f);
    for (size_t k = 0; k < t->p.nparam && k < SLOTS; k++) {
        size_t bytes = (size_t)t->p.param[k].size * (size_t)kn_dsize(t->p.param[k].dtype);
        t->slot[k]   = (int)k < t->c.nslots ? t->c.slot[k]
                                            : (kn_array){calloc(1, bytes + 1), t->p.param[k].size, t->p.param[k].dtype};
    }
    ok = ok && kl_lower(&t->p, &run, &f) && (!target || run_code(t));
    if (!ok && !t->why[0])
        snprintf(t->why, sizeof t->why, "%s%s%.200s", target ? target : "", target ? ": " : "", f.text);
    for (size_t k = (size_t)t->c.nslots; k < t->p.nparam && k < SLOTS; k++) free(t->slot[k].data);
    kl_program_free(&t->p);
    return ok;
}

static verdict try_text(const char *text) {
    trial   *t = calloc(1, sizeof *t);
    kn_fault f = {0};
    verdict  v = FAILED;
    char     why[200];
    t->nwant = CORPUS_MAX;
    if (!corpus_open(text, &t->c, &f)) {
        snprintf(t->why, sizeof t->why, "reading: %.200s", f.text);
        t->nwant = 0;
    } else if (!corpus_conditioned(&t->c, why, sizeof why)) {
        v        = SKIPPED;
        t->nwant = 0;
    } else if (!kn_eval(t->c.g, t->c.root, t->c.slot, t->c.nslots, t->want, &t->nwant, NULL, &f)) {
        snprintf(t->why, sizeof t->why, "at tensor level: %.200s", f.text);
        t->nwant = 0;
    } else if (lower(t, NULL)) {
        bool machine = kt_find("x86", &t->p.target, &f);
        v            = !machine || lower(t, "x86") ? FINE : FAILED;
    }
    snprintf(seen.why, sizeof seen.why, "%s", t->why);
    for (int k = 0; k < t->nwant; k++) kn_value_free(NULL, &t->want[k]);
    corpus_close(&t->c);
    free(t);
    return v;
}

/* The text of the bytes' program; false with what is wrong. */
static bool cook(const uint8_t *bytes, size_t n, kn_str *text) {
    kn_graph *g = kg_new(NULL);
    kn_ref    r = soup_cook(g, bytes, n);
    if (r) kg_print(g, r, text);
    else snprintf(seen.why, sizeof seen.why, "cooking: %.200s", kg_fault(g)->text);
    kg_free(g);
    return r != 0;
}

static verdict try_bytes(const uint8_t *bytes, size_t n) {
    kn_str text;
    kn_str_init(&text, NULL);
    seen.bytes = bytes;
    seen.n     = n;
    verdict v  = cook(bytes, n, &text) ? try_text(kn_str_c(&text)) : FAILED;
    kn_str_free(&text);
    return v;
}

/* Bytes taken out as long as it fails. */
static size_t shrink(uint8_t *bytes, size_t n) {
    uint8_t less[LONGEST];
    for (size_t cut = n / 2; cut; cut /= 2)
        for (size_t at = 0; at + cut <= n;) {
            memcpy(less, bytes, at);
            memcpy(less + at, bytes + at + cut, n - at - cut);
            if (try_bytes(less, n - cut) == FAILED) memcpy(bytes, less, n -= cut);
            else at += cut;
        }
    return n;
}

static void show(const uint8_t *bytes, size_t n) {
    kn_str text;
    kn_str_init(&text, NULL);
    cook(bytes, n, &text);
    fprintf(stderr, "# %s\n%s", seen.why, kn_str_c(&text));
    kn_str_free(&text);
}

static void crashed(int sig) { /* what little can be done: the program, then away */
    fprintf(stderr, "# signal %d\n", sig);
    show(seen.bytes, seen.n);
    _exit(1);
}

#ifdef KN_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n > LONGEST || try_bytes(bytes, n) != FAILED) return 0;
    show(bytes, n);
    abort();
}
#else

static int      programs = PROGRAMS;
static uint64_t from     = 1;

static void test_programs(void) {
    uint64_t rng = kn_threefry2x32(from, 0); /* far from the next seed's */
    int      bad = 0;
    double   start = kn_now();
    signal(SIGSEGV, crashed);
    signal(SIGILL, crashed);
    signal(SIGFPE, crashed);
    for (int i = 0; i < programs && bad < 5; i++) {
        uint8_t bytes[LONGEST];
        size_t  n = 0, length = 0;
        for (; n == 0 || n < length; n++) {
            rng += UINT64_C(0x9E3779B97F4A7C15);
            uint64_t z = (rng ^ (rng >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
            bytes[n]   = (uint8_t)((z ^ (z >> 27)) >> 13);
            if (!n) length = 20 + (size_t)(z >> 40) % (LONGEST - 20);
        }
        verdict v = try_bytes(bytes, n);
        seen.programs += v != SKIPPED;
        seen.skipped += v == SKIPPED;
        if (v != FAILED) continue;
        bad++;
        n = shrink(bytes, n);
        try_bytes(bytes, n);
        show(bytes, n);
    }
    CHECK_EQ(bad, 0);
    CHECK(seen.skipped < 3 * seen.programs + 10); /* else it tests how well numbers are conditioned */
    printf("     %llu programs, %llu left out, %llu comparisons of a stage, %llu run as machine code, %.0f s\n",
           (unsigned long long)seen.programs, (unsigned long long)seen.skipped, (unsigned long long)seen.stages,
           (unsigned long long)seen.runs, kn_now() - start);
}

int main(int argc, char **argv) {
    if (argc > 1) programs = atoi(argv[1]);
    if (argc > 2) from = strtoull(argv[2], NULL, 0);
    RUN(test_programs);
    return check_result();
}
#endif
