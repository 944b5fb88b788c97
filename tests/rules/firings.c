/* firings.c - runs the corpus, counting. */
#include "rules/firings.h"

#include <string.h>

#include "ir/corpus.h"
#include "lower/pipeline.h"
#include "rules_gen.h"
#include "tensor/gradient.h"

static const char *const folders[] = {CORPUS_DIR, KN_TEST_SOURCE "/tests/kernels", KN_TEST_SOURCE "/tests/ir/effects",
                                      KN_TEST_SOURCE "/tests/ir/symbolic", KN_TEST_SOURCE "/tests/ir/storage"};

/* How a program is lowered, and what its kernels are rewritten with behind it. */
typedef struct firing_way {
    const char *target;
    kn_stage    stop;
    uint64_t    groups;
} firing_way;
static const firing_way ways[] = {
    {"c", KN_STAGE_SELECT, 0},
#if KN_TARGET_X86
    {"x86:avx2", KN_STAGE_SELECT, 0},
    {"x86:avx512", KN_STAGE_SELECT, 0},
#elif defined(KN_G_select_x86) /* its rules at least, on another machine */
    {"c", KN_STAGE_EXPAND, KN_G_decomp | KN_G_select_x86 | KN_G_select_x86_lanes |
                               KN_G_select_x86_avx2 | KN_G_select_x86_avx512},
#endif
    /* a target without any function, roots included */
    {"c", KN_STAGE_EXPAND, KN_G_decomp | KN_G_decomp_round | KN_G_decomp_random},
    {"c", KN_STAGE_RANGEIFY, KN_GROUPS_SIMPLIFY | KN_RW_FAST},
};

typedef struct firing_run {
    kn_firings *f;
    bool        ok;
} firing_run;

static bool firing_fault(firing_run *r, const corpus_program *cp, const kn_fault *f) {
    printf("     %s: %s: %s\n", cp->file, cp->name, f->text);
    r->ok = false;
    return false;
}

/* `hand`: with the options that stand in the text. */
static bool lower_for(firing_run *r, const corpus_program *cp, kn_graph *g, kn_ref root, const firing_way *way,
                      bool hand) {
    kl_program  p;
    kn_fault    f   = {0};
    kl_run      run = {.stop = way->stop};
    kn_opt      opts[KN_MAX_OPTS];
    const char *given = hand ? strstr(cp->text, "# opts:") : NULL;
    int         out[CORPUS_MAX], nout;
    kl_program_init(&p, NULL);
    p.on_fire = kn_validate_hook;
    p.fired   = r->f->fired;
    bool ok   = kt_find(way->target, &p.target, &f);
    if (ok && given) {
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(given + 7, "\n"), given + 7);
        ok       = ko_parse_opts(line, opts, &run.nopts, &f);
        run.opts = opts;
    }
    ok = ok && kl_program_from(&p, g, root, out, CORPUS_MAX, &nout, &f) && kl_lower(&p, &run, &f);
    for (size_t i = 0; ok && way->groups && i < p.nkernel; i++)
        ok = kl_rewrite_kernel(&p, &p.kernel[i], way->groups, &f);
    r->f->kernels += (int)p.nkernel;
    kl_program_free(&p);
    return ok || f.code == KN_ERR_UNSUPPORTED || firing_fault(r, cp, &f);
}

/* The gradient of the sum of all float values by all float inputs; 0 where there is none. */
static kn_ref gradient_of(firing_run *r, corpus_case *c) {
    kn_graph *g    = c->g;
    kn_ref    loss = 0, wrt[CORPUS_MAX], grads[CORPUS_MAX];
    kn_fault  f    = {0};
    int       n    = 0;
    if (kg_op(g, c->root) == KN_OP_SINK) return 0;
    bool     tuple = kg_op(g, c->root) == KN_OP_TUPLE;
    uint32_t count = tuple ? kg_nsrc(g, c->root) : 1;
    for (uint32_t k = 0; k < count; k++) {
        kn_ref  v   = tuple ? kg_at(g, c->root, k) : c->root;
        int64_t one = 1, size = kg_numel(g, v);
        if (!kn_is_float(kg_dtype(g, v)) || size <= 0) continue;
        kn_ref sum = kg_reduce(g, kg_reshape(g, v, &size, 1), KN_OP_ADD, (int64_t[]){0}, 1);
        sum        = kg_cast(g, kg_reshape(g, sum, &one, 1), KN_F32);
        loss       = loss ? kg_op2(g, KN_OP_ADD, loss, sum) : sum;
    }
    for (int k = 0; k < c->nslots; k++)
        if (kn_is_float(kg_dtype(g, c->param[k]))) wrt[n++] = c->param[k];
    if (!loss || !n || !kn_gradient_nodes(g, loss, wrt, n, grads, r->f->fired, &f)) return 0;
    r->f->gradients++;
    return kg_list(g, KN_OP_TUPLE, grads, n);
}

static void run_one(const corpus_program *cp, void *user) {
    firing_run *r      = user;
    corpus_case c      = {0};
    kn_fault    f      = {0};
    bool        filled = corpus_open(cp->text, &c, &f); /* symbolic sizes have no data here */
    if (!c.root) {
        firing_fault(r, cp, &f);
        corpus_close(&c);
        return;
    }
    for (int w = 0; w < KN_COUNT(ways); w++) lower_for(r, cp, c.g, c.root, &ways[w], true);
    kn_ref grads = filled ? gradient_of(r, &c) : 0;
    if (grads) lower_for(r, cp, c.g, grads, &ways[0], false);
    if (r->f->checks.failures) {
        printf("     %s: %s: %s\n", cp->file, cp->name, r->f->checks.text);
        r->f->checks.failures = 0;
        r->ok                 = false;
    }
    r->f->programs++;
    corpus_close(&c);
}

bool kn_firings_of_corpus(kn_firings *f) {
    firing_run r = {f, true};
    f->fired     = kn_zalloc(NULL, (size_t)(kn_rule_count + 1) * sizeof *f->fired);
    if (!f->fired) return false;
    kn_validate_begin(&f->checks);
    for (int k = 0; k < KN_COUNT(folders); k++) r.ok = corpus_each(folders[k], run_one, &r) > 0 && r.ok;
    kn_validate_end();
    return r.ok;
}

void kn_firings_free(kn_firings *f) {
    kn_free(NULL, f->fired, (size_t)(kn_rule_count + 1) * sizeof *f->fired);
    memset(f, 0, sizeof *f);
}
