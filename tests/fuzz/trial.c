/* trial.c - a program lowered and run in several ways. */
#define _GNU_SOURCE
#include "fuzz/trial.h"

#include "ir/choose.h"
#include "ir/corpus.h"
#include "lower/pipeline.h"
#include "target/target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOTS = 96, MOST_OPTS = 7, SHAKES = 8, GUARD = 64 };

typedef struct trial {
    trial_engine *e;
    corpus_case   c;
    kn_value      want[CORPUS_MAX];
    int           nwant, out[CORPUS_MAX];
    void         *before[CORPUS_MAX]; /* first contents of a PARAM that is read and written, by value */
    kl_program    p;
    kn_array      slot[SLOTS];
    bool          ill; /* what differs depends on rounding */
    uint64_t      opts;  /* what options are chosen from next */
    const char   *lists; /* or the lists that are left */
} trial;

static bool by_hand(const trial *t) { return t->e->how.opts || t->e->how.lists; }

static kn_scalar element(const void *data, int dtype, int64_t i) {
    return kn_load_scalar((const char *)data + i * kn_dsize(dtype), dtype);
}

static double number(kn_scalar x, int dtype) { return kn_is_float(dtype) ? x.f : (double)x.i; }

/* Last bits elsewhere move the value as far as it is off. */
static bool depends_on_rounding(trial *t, int k, int64_t i, double got) {
    int    dt   = t->want[k].dtype;
    double want = number(element(t->want[k].data, dt, i), dt);
    bool   ill  = false;
    for (uint64_t seed = 1; seed <= SHAKES && !ill; seed++) {
        kn_value v[CORPUS_MAX];
        int      n;
        kn_fault f = {0};
        if (!corpus_shaken(&t->c, seed, v, &n, &f)) return false;
        double x = number(element(v[k].data, dt, i), dt);
        ill      = isfinite(x) && isfinite(got) ? fabs(x - want) * 4 >= fabs(got - want) : !(x == want);
        for (int j = 0; j < n; j++) kn_value_free(NULL, &v[j]);
    }
    return ill;
}

static bool same(trial *t, const char *what) {
    double tolerance = t->c.tolerance * (by_hand(t) ? 2 : 1); /* sums in another order */
    for (int k = 0; k < t->nwant; k++) {
        const kn_value *w = &t->want[k];
        const void     *got = t->slot[t->out[k]].data;
        for (int64_t i = 0; i < w->numel; i++) {
            kn_scalar x = element(w->data, w->dtype, i), y = element(got, w->dtype, i);
            if (!kn_is_float(w->dtype) ? x.i == y.i
                                       : x.f == y.f || (isnan(x.f) && isnan(y.f)) ||
                                             fabs(x.f - y.f) <= tolerance * fmax(1, fabs(x.f)))
                continue;
            snprintf(t->e->why, sizeof t->e->why, "%s: value %d, element %lld: %.9g, not %.9g", what, k, (long long)i,
                     number(y, w->dtype), number(x, w->dtype));
            t->ill = depends_on_rounding(t, k, i, number(y, w->dtype));
            t->e->shaken += t->ill;
            return false;
        }
    }
    return true;
}

static void clear_outputs(trial *t) {
    for (int k = 0; k < t->nwant; k++) {
        kn_array *a     = &t->slot[t->out[k]];
        size_t    bytes = (size_t)a->size * (size_t)kn_dsize(a->dtype);
        if (t->before[k]) memcpy(a->data, t->before[k], bytes);
        else if (bytes) memset(a->data, 0x5a, bytes);
    }
}

static bool after_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    trial       *t    = user;
    int          none = 0;
    kn_eval_opts o    = {.check = true};
    char         what[96];
    const char  *target = t->e->how.target;
    if (target && stage < KN_STAGE_SELECT && !by_hand(t)) return true; /* as for the C target */
    snprintf(what, sizeof what, "after %s%s%s", kn_stage_names[stage], target ? " of " : "", target ? target : "");
    snprintf(t->e->why, sizeof t->e->why, "%s", what);
    if (!kn_verify(g, root, stage, f)) return false;
    clear_outputs(t);
    if (!kn_eval(g, root, t->slot, (int)t->p.nparam, NULL, &none, &o, f)) return false;
    t->e->stages++;
    return same(t, what) || kn_fail(f, KN_ERR_INTERNAL, "%s", t->e->why);
}

static bool code_room(trial_engine *e, size_t size) {
    if (size <= e->room) return true;
    if (e->code) munmap(e->code, e->room);
    e->room = KN_MAX(2 * size, (size_t)1 << 20);
    e->code = mmap(NULL, e->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (e->code != MAP_FAILED) return true;
    e->code = NULL;
    e->room = 0;
    return false;
}

/* The kernels' machine code, each in two parts of its loop. */
static bool run_code(trial *t, kn_fault *f) {
    size_t size = 0, bytes = ((size_t)t->p.temp_bytes + 255) / 128 * 128;
    for (size_t i = 0; i < t->p.nkernel; i++) size += t->p.kernel[i].source_len + GUARD;
    if (!code_room(t->e, size) || mprotect(t->e->code, t->e->room, PROT_READ | PROT_WRITE))
        return kn_fail(f, KN_ERR_IO, "no memory that code could run from");
    char  *at = t->e->code, *temp = aligned_alloc(128, bytes);
    kd_fn *fn = calloc(t->p.nkernel + 1, sizeof *fn);
    memset(temp, 0x5a, bytes);
    for (size_t i = 0; i < t->p.nkernel; i++) {
        const kl_kernel *k = &t->p.kernel[i];
        memcpy(at, k->source, k->source_len);
        memcpy(&fn[i], &at, sizeof at);
        at += (k->source_len + GUARD - 1) / GUARD * GUARD;
    }
    /* Not written while it may run: a processor was seen to run what had stood there before. */
    if (mprotect(t->e->code, t->e->room, PROT_READ | PROT_EXEC)) {
        free(temp);
        free(fn);
        return kn_fail(f, KN_ERR_IO, "executable memory is denied");
    }
    clear_outputs(t);
    for (size_t i = 0; i < t->p.ncall; i++) {
        const kl_call   *c = &t->p.call[i];
        const kl_kernel *k = &t->p.kernel[c->kernel];
        void            *bufs[SLOTS * 2];
        int64_t          vars[SLOTS * 2] = {0};
        for (size_t a = 0; a < k->nargs && a < KN_COUNT(bufs); a++) {
            const kl_arg *arg = &c->arg[a];
            bufs[a] = arg->temp ? temp + t->p.temp[arg->id].offset : t->slot[arg->id].data;
            if (arg->var) vars[a] = element(bufs[a], t->slot[arg->id].dtype, 0).i;
        }
        int64_t half = k->chunks / 2;
        fn[c->kernel](bufs, vars, half, k->chunks);
        if (half) fn[c->kernel](bufs, vars, 0, half);
    }
    free(temp);
    free(fn);
    t->e->runs++;
    char what[64];
    snprintf(what, sizeof what, "code of %s", t->e->how.target);
    return same(t, what);
}

static void note_opts(trial_engine *e, const kl_kernel *k) {
    kn_str s;
    kn_str_init(&s, NULL);
    ko_print_opts(k->opts, k->nopts, &s);
    size_t at = strlen(e->opts);
    snprintf(e->opts + at, sizeof e->opts - at, "[%s] ", kn_str_c(&s));
    kn_str_free(&s);
}

/* The next list, which a kernel takes; the last one stays. */
static bool given_opts(trial *t, kl_kernel *k, kn_fault *f) {
    char        text[512];
    const char *lists = t->lists, *end = strchr(lists, ']'), *more = end ? strpbrk(end, "[\n") : NULL;
    if (*lists != '[' || !end || end - lists > KN_COUNT(text))
        return kn_fail(f, KN_ERR_ARG, "options stand in brackets, a list a kernel");
    snprintf(text, sizeof text, "%.*s", (int)(end - lists - 1), lists + 1);
    if (more && *more == '[') t->lists = more;
    return ko_parse_opts(text, k->opts, &k->nopts, f);
}

static bool next_opts(void *user, kl_kernel *k, kn_fault *f) {
    trial *t = user;
    if (!t->lists) choose_opts(k, &t->opts, MOST_OPTS);
    else if (!given_opts(t, k, f)) return false;
    note_opts(t->e, k);
    return true;
}

static bool seen(void *user, kn_stage stage, kn_fault *f) {
    trial *t = user;
    if (!t->e->how.stages) return true;
    kn_graph *g  = kg_new(NULL);
    kn_ref    r  = kl_schedule_graph(&t->p, g);
    bool      ok = r && after_stage(t, stage, g, r, f);
    kg_free(g);
    return ok;
}

/* With options by chance a list that is refused as a whole ends it: *refused. */
static bool lower_by_hand(trial *t, bool *refused, kn_fault *f) {
    choose_way way = {.options = next_opts, .seen = seen, .user = t};
    t->opts        = t->e->how.opts;
    t->lists       = t->e->how.lists;
    bool ok        = choose_lower(&t->p, &way, f);
    *refused       = way.refused && !t->lists;
    return ok;
}

static bool one_way(trial *t, const trial_how *how) {
    kn_fault f       = {0};
    kl_run   run     = {.seen = how->stages ? after_stage : NULL, .user = t};
    bool     refused = false;
    int      nout;
    t->e->how    = *how;
    t->e->why[0] = t->e->opts[0] = 0;
    kl_program_init(&t->p, NULL);
    bool ok = kl_program_from(&t->p, t->c.g, t->c.root, t->out, CORPUS_MAX, &nout, &f) && t->p.nparam <= SLOTS &&
              kt_find(how->target ? how->target : "c", &t->p.target, &f);
    for (size_t k = 0; k < t->p.nparam && k < SLOTS; k++) {
        size_t bytes = (size_t)t->p.param[k].size * (size_t)kn_dsize(t->p.param[k].dtype);
        t->slot[k]   = (int)k < t->c.nslots ? t->c.slot[k]
                                            : (kn_array){calloc(1, bytes + 1), t->p.param[k].size, t->p.param[k].dtype};
    }
    for (int k = 0; k < t->nwant && kg_op(t->c.g, t->c.root) == KN_OP_SINK; k++)
        t->out[k] = (int)kg_field(t->c.g, kg_at(t->c.g, kg_at(t->c.g, t->c.root, (uint32_t)k), 0), KN_F_PARAM_slot);
    ok = ok && (by_hand(t) ? lower_by_hand(t, &refused, &f) : kl_lower(&t->p, &run, &f));
    if (ok && how->target) ok = run_code(t, &f);
    if (!ok && f.text[0] && strcmp(f.text, t->e->why)) {
        size_t at = strlen(t->e->why);
        snprintf(t->e->why + at, sizeof t->e->why - at, "%s%.200s", at ? ": " : "", f.text);
    }
    t->e->refused += refused;
    if (t->before[0]) clear_outputs(t); /* PARAMs as they were */
    for (size_t k = (size_t)t->c.nslots; k < t->p.nparam && k < SLOTS; k++) free(t->slot[k].data);
    kl_program_free(&t->p);
    return ok || refused;
}

static void keep_contents(trial *t) {
    for (int k = 0; k < t->nwant && kg_op(t->c.g, t->c.root) == KN_OP_SINK; k++) {
        kn_ref          p = kg_at(t->c.g, kg_at(t->c.g, t->c.root, (uint32_t)k), 0);
        const kn_array *a = &t->c.slot[kg_field(t->c.g, p, KN_F_PARAM_slot)];
        size_t          bytes = (size_t)a->size * (size_t)kn_dsize(a->dtype);
        t->before[k]          = malloc(bytes + 1);
        if (bytes) memcpy(t->before[k], a->data, bytes);
    }
}

trial_verdict trial_run(trial_engine *e, const char *text, const trial_how *how, int n) {
    trial        *t = calloc(1, sizeof *t);
    kn_fault      f = {0};
    trial_verdict v = TRIAL_FINE;
    t->e            = e;
    e->opts[0]      = 0;
    if (!corpus_open_at(text, e->point, &t->c, &f)) {
        snprintf(e->why, sizeof e->why, "reading: %.200s", f.text);
        v = TRIAL_FAILED;
    } else if (!corpus_judge(&t->c, t->want, &t->nwant, e->why, sizeof e->why)) {
        v = t->nwant < 0 ? TRIAL_FAILED : TRIAL_LEFT_OUT;
    } else {
        keep_contents(t);
        for (int i = 0; i < n && v == TRIAL_FINE; i++) {
            if (!one_way(t, &how[i])) v = t->ill ? TRIAL_LEFT_OUT : TRIAL_FAILED;
        }
    }
    for (int k = 0; k < t->nwant; k++) {
        kn_value_free(NULL, &t->want[k]);
        free(t->before[k]);
    }
    corpus_close(&t->c);
    free(t);
    return v;
}

void trial_free(trial_engine *e) {
    if (e->code) munmap(e->code, e->room);
}
