/* test_share.c - kernels lowered in several threads: the same code, the same counts, the same fault. */
#include "check.h"
#include "lower/pipeline.h"

#include <stdlib.h>

enum { KERNELS = 12, ROUNDS = 20 };

/* A row times one matrix after another, each wider by one, so that no two kernels are equal. */
static kn_ref program(kn_graph *g, kn_fault *f) {
    char   text[8192] = "%x0 = PARAM {slot=0} [1, 64, 1]\n";
    size_t at         = strlen(text);
    for (int i = 0; i < KERNELS; i++) {
        int in = 64 + i, out = in + 1;
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "%%w%d = PARAM {slot=%d} [1, %d, %d]\n"
                               "%%x%d = RESHAPE (REDUCE {op=ADD, axes=(1)} (MUL %%x%d %%w%d)) [1, %d, 1]\n",
                               i, i + 1, in, out, i + 1, i, i, out);
    }
    return kg_parse(g, text, strlen(text), f);
}

static bool in_pool(void *pool, int64_t n, kn_pool_fn fn, void *arg, kn_fault *f) {
    (void)f;
    kn_pool_run(pool, n, fn, arg);
    return true;
}

static bool lower(kl_program *p, kl_run *run, kn_fault *f) {
    int       slot[2], n;
    kn_graph *g = kg_new(NULL);
    kl_program_init(p, NULL);
    CHECK(kt_find(NULL, &p->target, f));
    kn_ref root = program(g, f);
    bool   ok   = root && kl_program_from(p, g, root, slot, 2, &n, f) && kl_lower(p, run, f);
    kg_free(g);
    return ok;
}

static void same_code(kn_pool *pool, const kl_program *want) {
    kl_program p;
    kn_fault   f   = {0};
    kl_run     run = {.lean = true, .share = in_pool, .sharer = pool};
    if (!CHECK(lower(&p, &run, &f))) printf("  %s\n", f.text);
    CHECK_EQ(p.nkernel, want->nkernel);
    CHECK_EQ(p.visits, want->visits);
    CHECK_EQ(p.matches, want->matches);
    for (size_t k = 0; k < p.nkernel && k < want->nkernel; k++) {
        const kl_kernel *a = &p.kernel[k], *b = &want->kernel[k];
        CHECK(a->source_len == b->source_len && !memcmp(a->source, b->source, a->source_len));
        CHECK(!a->g && b->g); /* lean */
    }
    kl_program_free(&p);
}

static void test_code(void) {
    kn_fault   f    = {0};
    kn_pool   *pool = kn_pool_new(NULL, 4, &f);
    kl_program one;
    kl_run     run = {.stop = KN_STAGE_ANY};
    if (!CHECK(pool && lower(&one, &run, &f))) printf("  %s\n", f.text);
    CHECK_EQ(one.nkernel, KERNELS);
    for (int i = 0; i < ROUNDS; i++) same_code(pool, &one);
    kl_program_free(&one);
    kn_pool_free(pool);
}

/* Who looks on sees the graphs after every stage. */
static void test_watched(void) {
    kn_fault   f   = {0};
    kl_run     run = {.lean = true, .verify = true};
    kl_program p;
    if (!CHECK(lower(&p, &run, &f))) printf("  %s\n", f.text);
    for (size_t k = 0; k < p.nkernel; k++) CHECK(p.kernel[k].g != NULL);
    kl_program_free(&p);
}

/* Options that no kernel can take: the first kernel's fault is told, whoever is the first to fail. */
static void test_fault(void) {
    kn_fault   f = {0}, want = {0};
    kn_pool   *pool = kn_pool_new(NULL, 4, &f);
    char       any[] = "*";
    kl_hand    hand  = {.pattern = any, .nopts = 1, .opts = {{.op = KN_OPT_SPLIT, .axis = 9, .arg = 4}}};
    kl_run     run   = {.hand = &hand, .nhand = 1};
    kl_program p;
    CHECK(!lower(&p, &run, &want) && want.code == KN_ERR_ARG && strstr(want.text, "r_65_64"));
    kl_program_free(&p);
    run.share  = in_pool;
    run.sharer = pool;
    for (int i = 0; i < ROUNDS; i++) {
        f = (kn_fault){0};
        CHECK(!lower(&p, &run, &f));
        CHECK_EQ(f.code, want.code);
        CHECK_STR(f.text, want.text);
        kl_program_free(&p);
    }
    kn_pool_free(pool);
}

int main(void) {
    RUN(test_code);
    RUN(test_watched);
    RUN(test_fault);
    return check_result();
}
