/* pipeline.c - THE PIPELINE: one table, eight stages.
 *
 *   Callify    tensor graph -> one stateless function over PARAMs         callify.c (its own entry, with the context)
 *   Rangeify   movement ops -> index arithmetic; kernel boundaries        rangeify.c indices.c fuse.c order.c
 *   Optimize   OptOps on the nest                                         optimize.c ../optimize/
 *   Expand     parallel ranges -> shape; reductions -> accumulators       expand.c
 *   Select     target instructions                                       select.c ../target/
 *   Linearize  graph -> ordered list                                      linearize.c
 *   Plan       storage reuse over the schedule                            plan.c
 *   Render     list -> source                                             render.c ../target/
 *
 * A stage works on the schedule or on each kernel. Where someone looks on, it is done with all kernels before the next
 * begins, and timed, verified and shown like all of them; else each kernel goes through its stages at once, in as many
 * threads as there are to be had, with the same result. A kernel whose machine code wants registers in an innermost
 * loop goes through them again, from Optimize on, with narrower tiles, and the best that is predicted stays, or of
 * those that take long the shortest code; one whose code came out longer than predicted, with other lanes, and the code
 * that is much shorter stays. */
#include "lower/pipeline.h"

#include "rules_gen.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { KL_SHARE = 4 }; /* kernels; of fewer, waking a thread would take as long as they do */

static bool name_fits(const char *pattern, const char *name) {
    const char *star = NULL, *again = NULL; /* behind the last *, and where its run of characters may go on */
    while (*name) {
        if (*pattern == '*') {
            star  = ++pattern;
            again = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name    = ++again;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

/* What was set by hand for the kernel: the last pattern that fits. NULL: nothing. */
static const kl_hand *hand_for(const kl_run *run, const kl_kernel *k) {
    for (size_t i = run->nhand; i-- > 0;)
        if (name_fits(run->hand[i].pattern, k->name)) return &run->hand[i];
    return NULL;
}

static bool optimize_by_hand(kl_program *p, kl_kernel *k, const kl_hand *h, kn_fault *f) {
    kn_fault own = {0};
    k->nopts     = h->nopts;
    memcpy(k->opts, h->opts, (size_t)h->nopts * sizeof *h->opts);
    if (kl_optimize(p, k, false, &own)) return true;
    return kn_fail(f, own.code, "the options set for \"%s\" do not suit the kernel %s: %s", h->pattern, k->name,
                   own.text);
}

static bool optimize_kernel(kl_program *p, kl_kernel *k, kl_run *run, kn_fault *f) {
    if (k->optimized) return true;
    k->optimized = true;
    if (k->panel) return kl_optimize(p, k, true, f); /* what is given by hand is given for its reader */
    const kl_hand *hand = hand_for(run, k);
    if (hand) return optimize_by_hand(p, k, hand, f);
    if (run->opts) {
        k->nopts = run->nopts;
        memcpy(k->opts, run->opts, (size_t)run->nopts * sizeof *run->opts);
    }
    return kl_optimize(p, k, !run->opts, f);
}
/* Panels add kernels and calls, so what reads them goes first, one by one. */
static bool optimize_readers(kl_program *p, kl_run *run, kn_fault *f) {
    for (size_t k = 0, n = p->nkernel; k < n; k++) {
        const kl_hand *hand  = hand_for(run, &p->kernel[k]);
        const kn_opt  *opts  = hand ? hand->opts : run->opts;
        int            nopts = hand ? hand->nopts : run->nopts;
        bool           reads = false;
        for (int i = 0; i < nopts; i++) reads |= opts[i].op == KN_OPT_STAGE && opts[i].axis == KN_STAGE_GLOBAL;
        if (reads && !optimize_kernel(p, &p->kernel[k], run, f)) return false;
    }
    return true;
}
static bool rangeify_schedule(kl_program *p, kl_run *run, kn_fault *f) {
    (void)run;
    return kl_rangeify(p, f);
}
static bool plan_schedule(kl_program *p, kl_run *run, kn_fault *f) {
    (void)run;
    return kl_plan(p, f);
}
static bool expand_kernel(kl_program *p, kl_kernel *k, kl_run *run, kn_fault *f) {
    (void)run;
    return kl_expand(p, k, f);
}
static bool select_kernel(kl_program *p, kl_kernel *k, kl_run *run, kn_fault *f) {
    (void)run;
    return kl_select(p, k, f);
}
static bool linearize_kernel(kl_program *p, kl_kernel *k, kl_run *run, kn_fault *f) {
    (void)run;
    return kl_linearize(p, k, f);
}
static bool render_kernel(kl_program *p, kl_kernel *k, kl_run *run, kn_fault *f) {
    (void)run;
    return kl_render(p, k, f);
}

static const struct {
    kn_stage stage;
    bool (*schedule)(kl_program *p, kl_run *run, kn_fault *f);
    bool (*kernel)(kl_program *p, kl_kernel *k, kl_run *run, kn_fault *f);
} pipeline[] = {
    {KN_STAGE_CALLIFY, NULL, NULL},
    {KN_STAGE_RANGEIFY, rangeify_schedule, NULL},
    {KN_STAGE_OPTIMIZE, optimize_readers, optimize_kernel},
    {KN_STAGE_EXPAND, NULL, expand_kernel},
    {KN_STAGE_SELECT, NULL, select_kernel},
    {KN_STAGE_LINEARIZE, NULL, linearize_kernel},
    {KN_STAGE_PLAN, plan_schedule, NULL},
    {KN_STAGE_RENDER, NULL, render_kernel},
};

static bool show(kl_program *p, kl_run *run, kn_stage stage, kn_fault *f) {
    if (!run->seen && !run->verify) return true;
    kn_graph *g  = kg_new(p->alloc);
    if (g) kg_keep_why(g, kg_why(p->g));
    kn_ref    r  = g ? stage == KN_STAGE_CALLIFY ? kg_copy(g, p->g, p->root) : kl_schedule_graph(p, g) : 0;
    bool      ok = r ? true : g ? kl_stage_fault("pipeline", g, f) : kn_oom(f);
    if (ok && run->verify) ok = kn_verify(g, r, stage, f);
    if (ok && run->seen) ok = run->seen(run->user, stage, g, r, f);
    kg_free(g);
    return ok;
}

/* Nodes that the program's roots reach, kernel by kernel once there are kernels. False: out of memory. */
static bool count_nodes(const kl_program *p, uint64_t *count, uint64_t *largest) {
    *count = *largest = 0;
    for (size_t k = 0; k < KN_MAX(p->nkernel, 1u); k++) {
        const kn_graph *g    = p->nkernel ? p->kernel[k].g : p->g;
        kn_ref          root = p->nkernel ? p->kernel[k].root : p->root, *order;
        uint32_t        n;
        if (!kg_reach(g, &root, 1, &order, &n)) return false;
        kn_free(kg_alloc(g), order, n * sizeof *order);
        *count += n;
        *largest = KN_MAX(*largest, n);
    }
    return true;
}

/* Before and after a stage; `c` is its count, or NULL. */
static bool count_before(const kl_program *p, kl_stage_count *c, kn_fault *f) {
    if (!c) return true;
    c->visits  = p->visits;
    c->matches = p->matches;
    return count_nodes(p, &c->nodes_in, &c->largest) || kn_oom(f);
}
static bool count_after(const kl_program *p, kl_stage_count *c, kn_fault *f) {
    if (!c) return true;
    c->visits  = p->visits - c->visits;
    c->matches = p->matches - c->matches;
    return count_nodes(p, &c->nodes_out, &c->largest) || kn_oom(f);
}

/* A kernel through the stages first..last that take kernels one by one. */
static bool lower_kernel(kl_program *p, kl_kernel *k, kl_run *run, int first, int last, kn_fault *f) {
    for (int s = first; s <= last; s++) {
        if (!pipeline[s].kernel || k->custom) continue;
        kg_made_of(k->g, k->g, k->root); /* what a stage does not tell better */
        double start = kn_now();
        if (!pipeline[s].kernel(p, k, run, f)) return false;
        double took = kn_now() - start;
        k->spent += took;
        p->spent[pipeline[s].stage] += took;
    }
    return true;
}

/* ---- kernels that hold more than there are registers ---------------------------------------------------------- */

/* The target reports it, Optimize answers; what was given by hand stays as it is. */
static bool is_fitted(const kl_program *p, const kl_kernel *k, const kl_run *run) {
    return kt_of(&p->target)->machine && !k->custom && !k->optimized && !run->opts && !hand_for(run, k);
}

static void drop_code(const kl_program *p, kl_kernel *k) {
    if (k->source) kn_free(p->alloc, k->source, k->source_len + 1);
    if (k->listing) kn_free(p->alloc, k->listing, k->listing_len + 1);
    k->source = k->listing = NULL;
    k->spills = k->remade = 0;
}

/* The kernel in a graph of its own: ids, and so the order of what is made next, hang on nothing that was tried. */
static bool copy_kernel(const kl_program *p, kl_kernel *k, const kl_kernel *from, kn_fault *f) {
    *k   = *from;
    k->g = kg_new(p->alloc);
    if (!k->g) return kn_oom(f);
    kg_keep_why(k->g, kg_why(from->g));
    k->root = kg_copy(k->g, from->g, from->root);
    return k->root || kl_stage_fault("optimize", k->g, f);
}

/* What is predicted of a kernel, and with it the share of its instructions that want of registers makes it do in its
 * innermost loops. What goes to the frame and comes back waits; of sixteen registers it is the sums themselves. */
enum { SPILL = 32, SPILL_OF_FEW = 1 << 20, FEW_REGISTERS = 16 };
static double crowded_cost(const kl_program *p, const kl_kernel *k) {
    double spill = p->machine->vector_registers > FEW_REGISTERS ? SPILL : SPILL_OF_FEW;
    return k->choice.ps * (1 + (spill * k->spills + k->remade) / KN_MAX(k->nodes, 1));
}

/* One try, of the choice that k asks for; not beyond Optimize if that chose what `than` has, or what is predicted to
 * take so many times as long. */
static bool try_kernel(kl_program *p, kl_kernel *k, const kl_kernel *than, double times, kl_run *run, int last,
                       bool *same, kn_fault *f) {
    int s = 0;
    for (*same = false; s <= last && pipeline[s].stage != KN_STAGE_OPTIMIZE;) s++;
    if (!lower_kernel(p, k, run, 0, s, f)) return false;
    *same = than && k->nopts == than->nopts && !memcmp(k->opts, than->opts, (size_t)k->nopts * sizeof *k->opts);
    *same |= than && k->choice.ps >= times * crowded_cost(p, than);
    return *same || lower_kernel(p, k, run, s + 1, last, f);
}

/* Fewer rows and vectors are tried wherever a value is made again; but a last row is worth an instruction in 128 that
 * makes one again, whole vectors one in 8. */
enum { ROW_SHARE = 128, LANES_SHARE = 8 };
static bool is_crowded(const kl_kernel *k, int narrow) {
    uint64_t share = narrow > KO_WHOLE_VECTORS ? LANES_SHARE : ROW_SHARE;
    return k->spills || (k->remade && narrow < KO_WHOLE_VECTORS) || share * k->remade > k->nodes;
}

static void swap_kernels(kl_kernel *a, kl_kernel *b) {
    kl_kernel c = *a;
    *a          = *b;
    *b          = c;
}

static void drop_try(const kl_program *p, kl_kernel *k) {
    drop_code(p, k);
    kg_free(k->g);
}

/* A list of options may come out shorter than the one that is predicted to take less; it is tried if it is not
 * predicted to take this many times as long, by kernels that take long enough, */
#define AS_MISJUDGED 2.5
enum { LONG_PS = 10000000 };
/* whose instructions take more than this share of what was predicted, and of what they compute alone, unless it is
 * predicted to take less, which alone will do where the first one had to be narrowed. */
#define SHARE_OF_CODE 0.5
#define SHARE_OF_ARITHMETIC 1.15
/* What is predicted is for units that take halves: where they take whole vectors, instructions weigh more beside it. */
#define OF_HALVES 1.5
/* One that computes less than this share of those instructions is tried as well, if it is not predicted to take this
 * many times as long. */
#define SHARE_OF_LESS 0.35
#define AS_COMPUTED 1.5
/* Lanes of sums are tried beside others that are to compute less: the model is off by this much. */
#define AS_NEAR 1.1
/* What computes less than this share of what it was predicted moves values: some of what caches take is held against
 * it, beside what is not predicted to take this many times as long. */
#define SHARE_OF_MOVES 0.16
#define AS_MOVES 2.2
#define FAR_LONGER 2 /* times as long: nothing narrower is tried that spills less */

static double code_ps(const kl_program *p, const kl_kernel *k) {
    return k->cycles * (double)p->machine->cycle_ps;
}

/* Of kernels that take long it is what their instructions take, as they came out, with some of what the caches beyond
 * the first are predicted to; a spill waits for memory. A list tried later has to take less than a share of that: in
 * place of narrower lanes, of other ones; where registers are few, sums are what is spilled, and what spills has to
 * take less than a share of what does not. Fitted to times (docs/decisions-measured.md). Of kernels that take little
 * want of registers is held against what was predicted. */
#define SHARE_BEYOND 0.3
#define SHARE_OF_WIDER 0.9
#define SHARE_OF_SPILLING 0.8
#define SHARE_OF_OTHERS 0.85
#define SHARE_OF_APART 0.95 /* of the same lanes, with no rows joined: they ask the caches for the same */
enum { WAIT = 16 /* instructions */ };
#define LONGER 1.5 /* times as long as what does not spill: it is not taken to save a few that are made again */
static bool goes_by_code(const kl_kernel *k) { return k->choice.ps >= LONG_PS; }
static double code_cost(const kl_program *p, const kl_kernel *k) {
    return (code_ps(p, k) + SHARE_BEYOND * k->choice.beyond) * (1 + WAIT * (double)k->spills / KN_MAX(k->nodes, 1));
}
static bool is_better(const kl_program *p, const kl_kernel *now, const kl_kernel *best) {
    bool parts = now->choice.narrow > KO_WHOLE_VECTORS && goes_by_code(now); /* of as many registers */
    if (parts || (goes_by_code(now) && goes_by_code(best))) {
        bool few = p->machine->vector_registers <= FEW_REGISTERS && best->spills && !now->spills;
        return code_cost(p, now) < (few ? 1 / SHARE_OF_SPILLING : SHARE_OF_WIDER) * code_cost(p, best);
    }
    bool longer = !best->spills && code_ps(p, now) > LONGER * code_ps(p, best);
    return !longer && crowded_cost(p, now) < crowded_cost(p, best);
}

/* The kernel through all its stages with those lanes, narrowed until its innermost loops hold what they need: the try
 * of least cost. best->g is NULL where it fails, and where `than`, if it is not NULL, is predicted to take far less. */
static void fit_lanes(kl_program *p, const kl_kernel *whole, int lanes, const kl_kernel *than, kl_kernel *best,
                      kl_run *run, int last, kn_fault *f) {
    bool      ok = true, same = false, more = true;
    ko_choice widest = {0};
    *best = (kl_kernel){.spills = INT32_MAX};
    for (int narrow = 0; ok && more && narrow <= KO_NARROWEST && is_crowded(best, narrow); narrow++) {
        kn_fault  own = {0};
        kl_kernel now;
        ok         = copy_kernel(p, &now, whole, &own);
        now.choice = (ko_choice){.narrow = narrow, .lanes = lanes};
        ok = ok && try_kernel(p, &now, narrow ? best : than, narrow ? 1 : AS_MISJUDGED, run, last, &same, &own);
        if (!ok && !narrow) *f = own; /* of a narrower try: it is done without */
        if (!narrow && ok) widest = now.choice;
        if (ok && !same) {
            bool far = goes_by_code(best) && code_ps(p, &now) >= FAR_LONGER * code_ps(p, best);
            more     = !far || !best->spills;
            if (!best->g || is_better(p, &now, best)) swap_kernels(best, &now);
        }
        drop_try(p, &now);
        if (!best->g) return;
    }
    memcpy(best->choice.other, widest.other, sizeof widest.other); /* which will be as wide as registers hold of them */
    memcpy(best->choice.other_ps, widest.other_ps, sizeof widest.other_ps);
    memcpy(best->choice.other_arithmetic, widest.other_arithmetic, sizeof widest.other_arithmetic);
}

/* A kernel through all its stages, with the lanes that are predicted to take the least, or others whose code came out
 * shorter. */
static bool fit_kernel(kl_program *p, kl_kernel *k, kl_run *run, int last, kn_fault *f) {
    kl_kernel whole = *k, best, other;
    fit_lanes(p, &whole, 0, NULL, &best, run, last, f);
    if (!best.g) return false;
    ko_choice first = best.choice;
    double    told = best.spills && goes_by_code(&best) ? first.ps : crowded_cost(p, &best);
    for (int i = 0; i < KO_OTHERS && first.other[i] && first.ps >= LONG_PS; i++) {
        kn_fault own  = {0};
        bool     less = first.other_ps[i] < first.ps;
        double   arithmetic = less ? 0 : SHARE_OF_ARITHMETIC * first.arithmetic;
        bool     moves = first.arithmetic < SHARE_OF_MOVES * told && first.other_ps[i] < AS_MOVES * first.ps;
        double   took = (moves ? code_cost(p, &best) : code_ps(p, &best)) * (p->machine->whole ? OF_HALVES : 1);
        bool     as_told = took <= KN_MAX(SHARE_OF_CODE * told, arithmetic);
        bool little = first.other_arithmetic[i] < SHARE_OF_LESS * code_ps(p, &best);
        as_told &= !little || first.other_ps[i] > AS_COMPUTED * first.ps;
        bool beside = first.took == 1 && first.other_arithmetic[i] < first.arithmetic;
        as_told &= !beside || first.other_ps[i] > AS_NEAR * first.ps;
        if (as_told && !best.spills && !(less && first.narrow)) break;
        /* Optimize would be asked for nothing: as it was weighed, it is refused. */
        if (!first.narrow && first.other_ps[i] >= AS_MISJUDGED * crowded_cost(p, &best)) break;
        fit_lanes(p, &whole, first.other[i], &best, &other, run, last, &own);
        bool longer = first.arithmetic <= 0 && other.choice.ps > best.choice.ps; /* what only moves is told well */
        longer &= code_ps(p, &other) > SHARE_OF_OTHERS * code_ps(p, &best);
        double share = first.other[i] < 0 ? SHARE_OF_APART : SHARE_OF_OTHERS;
        if (other.g && !longer && code_cost(p, &other) < share * code_cost(p, &best))
            swap_kernels(&best, &other);
        drop_try(p, &other);
    }
    *k = best;
    kg_free(whole.g);
    return true;
}

static bool lower_schedule(kl_program *p, kl_run *run, int s, kn_fault *f) {
    if (!pipeline[s].schedule) return true;
    double start = kn_now();
    bool   ok    = pipeline[s].schedule(p, run, f);
    p->spent[pipeline[s].stage] += kn_now() - start;
    return ok;
}

/* How narrow a kernel will be, found unseen; it is left in a graph of its own. */
static bool foresee_kernel(const kl_program *p, kl_kernel *k, kl_run *run, kn_fault *f) {
    kl_program own = *p;
    kl_kernel  now, same;
    own.fired          = NULL;
    own.seconds        = NULL;
    own.on_fire        = NULL;
    own.explain        = NULL;
    own.target.listing = false;
    if (!is_fitted(p, k, run)) return true;
    bool ok = copy_kernel(p, &same, k, f), tried = ok && copy_kernel(p, &now, k, f);
    if (tried) {
        kg_keep_why(now.g, NULL);
        tried       = fit_kernel(&own, &now, run, KN_COUNT(pipeline) - 1, f);
        same.choice = now.choice;
        drop_code(p, &now);
    }
    if (ok) kg_free(now.g);
    kg_free(tried ? k->g : same.g);
    if (tried) *k = same;
    return tried;
}

/* Someone looks on: stage by stage. */
static bool lower_watched(kl_program *p, kl_run *run, int last, kn_fault *f) {
    for (int s = 0; s <= last; s++) {
        kl_stage_count *count = run->count ? &run->count[pipeline[s].stage] : NULL;
        if (!count_before(p, count, f)) return false;
        kn_why_stage(kg_why(p->g), kn_stage_names[pipeline[s].stage]);
        if (!lower_schedule(p, run, s, f)) return false;
        for (size_t k = 0; k < p->nkernel; k++) {
            if (pipeline[s].stage == KN_STAGE_OPTIMIZE && !foresee_kernel(p, &p->kernel[k], run, f)) return false;
            if (!lower_kernel(p, &p->kernel[k], run, s, s, f)) return false;
        }
        if (!count_after(p, count, f)) return false;
        if (!show(p, run, pipeline[s].stage, f)) return false;
    }
    return true;
}

typedef struct kl_shared { /* of the threads that lower a program's kernels */
    kl_program     *p;
    kl_run         *run;
    int             last;
    atomic_size_t   next; /* kernel */
    pthread_mutex_t lock; /* of what follows, and of p's counts */
    size_t          failed; /* the first kernel that did, and why */
    kn_fault       *f;
} kl_shared;

/* Takes kernels, each through all its stages while its graph is near, until there are no more; `lo` and `hi` say
 * nothing. */
static void lower_some(void *arg, int64_t lo, int64_t hi) {
    kl_shared *s   = arg;
    kl_program own;
    kn_fault   f = {0};
    size_t     k;
    bool       ok = true;
    (void)lo, (void)hi;
    pthread_mutex_lock(&s->lock);
    own = *s->p;
    pthread_mutex_unlock(&s->lock);
    own.visits = own.matches = 0;
    memset(own.spent, 0, sizeof own.spent);
    while (ok && (k = atomic_fetch_add(&s->next, 1)) < own.nkernel) {
        kl_kernel *kernel = &own.kernel[k];
        bool fitted       = s->last + 1 == KN_COUNT(pipeline) && is_fitted(&own, kernel, s->run);
        ok                = fitted ? fit_kernel(&own, kernel, s->run, s->last, &f)
                                   : lower_kernel(&own, kernel, s->run, 0, s->last, &f);
        if (!ok || !s->run->lean || !kernel->source || kernel->bound) continue;
        kg_free(kernel->g);
        kernel->g = NULL;
    }
    pthread_mutex_lock(&s->lock);
    s->p->visits += own.visits;
    s->p->matches += own.matches;
    for (int i = 0; i < KN_STAGE_COUNT; i++) s->p->spent[i] += own.spent[i];
    if (!ok && k < s->failed) {
        s->failed = k;
        *s->f     = f;
    }
    pthread_mutex_unlock(&s->lock);
    if (!ok) atomic_store(&s->next, own.nkernel); /* those before it are all taken, and get done */
}

/* The stages of the schedule first: none of them looks into kernels that others have been through. */
static bool lower_unwatched(kl_program *p, kl_run *run, int last, kn_fault *f) {
    kl_shared s = {.p = p, .run = run, .last = last, .failed = SIZE_MAX, .f = f};
    for (int i = 0; i <= last; i++)
        if (!lower_schedule(p, run, i, f)) return false;
    pthread_mutex_init(&s.lock, NULL);
    bool ok = true;
    if (run->share && p->nkernel >= KL_SHARE) ok = run->share(run->sharer, (int64_t)p->nkernel, lower_some, &s, f);
    else lower_some(&s, 0, 0);
    pthread_mutex_destroy(&s.lock);
    return ok && s.failed == SIZE_MAX;
}

bool kl_lower(kl_program *p, kl_run *run, kn_fault *f) {
    int last = 0;
    while (last + 1 < KN_COUNT(pipeline) && pipeline[last].stage != run->stop) last++;
    p->target.listing = run->seen != NULL;
    bool watched = run->seen || run->verify || run->count || kg_why(p->g) || p->fired || p->seconds || p->on_fire ||
                   p->explain;
    const kn_machine *given  = p->machine;
    kn_machine        fitted = *given; /* what the target uses of it */
    if (kt_of(&p->target)->fit) kt_of(&p->target)->fit(&p->target, &fitted);
    p->target.whole = fitted.whole;
    p->machine      = &fitted;
    bool ok    = watched ? lower_watched(p, run, last, f) : lower_unwatched(p, run, last, f);
    p->machine = given;
    return ok;
}

/* ---- programs ------------------------------------------------------------------------------------------------ */

void kl_program_init(kl_program *p, const kn_alloc *a) {
    memset(p, 0, sizeof *p);
    p->alloc   = a;
    p->machine = kn_machine_default();
    kn_arena_init(&p->args, a);
}

static void drop_kernels(kl_program *p) {
    kn_arena_free(&p->args);
    p->ncall = 0;
    for (size_t i = 0; i < p->nkernel; i++) {
        kl_kernel *k = &p->kernel[i];
        kg_free(k->g);
        if (k->source) kn_free(p->alloc, k->source, k->source_len + 1);
        if (k->listing) kn_free(p->alloc, k->listing, k->listing_len + 1);
    }
    p->nkernel = 0;
}

void kl_program_again(kl_program *p) {
    drop_kernels(p);
    p->ntemp      = 0;
    p->temp_bytes = 0;
    p->target     = (kt_choice){0};
}

void kl_program_free(kl_program *p) {
    drop_kernels(p);
    kg_free(p->g);
    kn_free(p->alloc, p->call, p->call_cap * sizeof *p->call);
    kn_free(p->alloc, p->kernel, p->kernel_cap * sizeof *p->kernel);
    kn_free(p->alloc, p->param, p->param_cap * sizeof *p->param);
    kn_free(p->alloc, p->temp, p->temp_cap * sizeof *p->temp);
    memset(p, 0, sizeof *p);
}

void kl_forget_why(kl_program *p) {
    if (p->g) kg_keep_why(p->g, NULL);
    for (size_t i = 0; i < p->nkernel; i++)
        if (p->kernel[i].g) kg_keep_why(p->kernel[i].g, NULL);
}

bool kl_stage_fault(const char *stage, kn_graph *g, kn_fault *f) {
    if (kg_fault(g)->code) return kn_fail(f, kg_fault(g)->code, "%s: %s", stage, kg_fault(g)->text);
    return f->code ? false : kn_fail(f, KN_ERR_INTERNAL, "%s: failed without a reason", stage);
}

void kl_rw_begin(const kl_program *p, kn_rw *rw, kn_graph *g, kn_fault *f) {
    kn_rw_init(rw, g, f);
    rw->fired   = p->fired;
    rw->seconds = p->seconds;
    rw->off     = p->off;
    rw->on_fire = p->on_fire;
}

void kl_rw_end(kl_program *p, kn_rw *rw) {
    p->visits += rw->visits;
    p->matches += rw->matches;
    kn_rw_free(rw);
}

bool kl_rewrite_kernel(kl_program *p, kl_kernel *k, uint64_t groups, kn_fault *f) {
    kn_rw rw;
    kl_rw_begin(p, &rw, k->g, f);
    kn_ref root = kn_rewrite(&rw, k->root, groups);
    kl_rw_end(p, &rw);
    k->sweeps++;
    if (!root) return kl_stage_fault("rewrite", k->g, f);
    k->root = root;
    return true;
}

kn_ref kl_schedule_graph(const kl_program *p, kn_graph *to) {
    kn_ref *call = kn_zalloc(p->alloc, (p->ncall + 1) * sizeof *call), r = 0;
    kn_ref *src  = NULL;
    size_t  cap  = 0;
    if (!call) return kn_oom(kg_fault(to)), 0;
    for (size_t i = 0; i < p->ncall; i++) {
        const kl_kernel *k = &p->kernel[p->call[i].kernel];
        if (!KN_GROW(p->alloc, src, cap, k->nargs + 1)) {
            kn_oom(kg_fault(to));
            goto done;
        }
        src[0] = kg_copy(to, k->g, k->root);
        kg_made_as(to, p->g, p->root); /* the call, and what it is called with */
        if (k->source && src[0]) {
            const char *text  = k->machine ? k->listing ? k->listing : "" : k->source;
            size_t      len   = k->machine ? k->listing_len : k->source_len;
            kn_ref      parts[3] = {src[0], kg_make(to, KN_OP_SOURCE, 0, kg_intern_str(to, text, len), NULL, 0)};
            int64_t     w     = kg_intern_str(to, k->name, strlen(k->name));
            if (k->machine)
                parts[2] = kg_make(to, KN_OP_BINARY, 0, kg_intern_str(to, k->source, k->source_len), NULL, 0);
            src[0] = kg_make(to, KN_OP_PROGRAM, 0, kg_intern_words(to, &w, 1), parts, k->machine ? 3 : 2);
        }
        for (size_t a = 0; a < k->nargs; a++) {
            const kl_arg *g = &p->call[i].arg[a];
            if (g->temp) src[a + 1] = kg_buffer(to, g->id, p->temp[g->id].size, p->temp[g->id].dtype, 0, KN_GLOBAL);
            else if (g->var) src[a + 1] = kg_copy(to, p->g, p->param[g->id].var);
            else src[a + 1] = kg_param(to, g->id, p->param[g->id].dtype, &p->param[g->id].size, 1);
        }
        if (!(call[i] = kg_make(to, KN_OP_CALL, 0, 0, src, (uint32_t)k->nargs + 1))) goto done;
    }
    r = kg_list(to, KN_OP_LINEAR, call, (int)p->ncall);
done:
    kg_made_as(to, to, 0);
    kn_free(p->alloc, src, cap * sizeof *src);
    kn_free(p->alloc, call, (p->ncall + 1) * sizeof *call);
    return r;
}
