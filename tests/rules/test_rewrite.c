/* The driver: normal forms, memo, loops, shapes; over the rules of the library. */
#include "check.h"
#include "rewrite/rewrite.h"
#include "rules/helpers.h"
#include "rules_gen.h"

#include <stdlib.h>

#if KN_HOSTILE
enum { DEPTH = 3000 }; /* one hash chain: building is quadratic */
#else
enum { DEPTH = 200000 };
#endif

static kn_graph *g;
static kn_fault  fault;

static kn_ref var(int64_t slot, int dtype) { return kg_param(g, slot, dtype, NULL, 0); }

static void chains_fold(void) {
    kn_rw rw;
    kn_rw_init(&rw, g, &fault);
    kn_ref x = var(0, KN_I32), n = x;
    for (int i = 0; i < 1000; i++) n = kg_op2(g, KN_OP_ADD, n, kg_int(g, KN_I32, 1));
    kn_ref r = kn_rewrite(&rw, n, KN_G_algebra);
    CHECK_EQ(r, kg_op2(g, KN_OP_ADD, x, kg_int(g, KN_I32, 1000)));
    uint64_t visits = rw.visits;
    CHECK_EQ(kn_rewrite(&rw, n, KN_G_algebra), r);
    CHECK_EQ(kn_rewrite(&rw, r, KN_G_algebra), r);
    CHECK_EQ(rw.visits, visits);
    kn_rw_free(&rw);
}

static void deep_graphs_need_no_recursion(void) {
    kn_rw rw;
    kn_rw_init(&rw, g, &fault);
    kn_ref n = var(1, KN_F32);
    for (int i = 0; i < DEPTH; i++) n = kg_op1(g, KN_OP_SIN, n);
    CHECK_EQ(kn_rewrite(&rw, n, KN_G_algebra), n);
    kn_rw_free(&rw);
}

static void shapes_are_kept(void) {
    kn_rw         rw;
    const int64_t dims[] = {2, 3};
    kn_rw_init(&rw, g, &fault);
    kn_ref x = kg_param(g, 0, KN_I32, dims, 2), zero = kg_int(g, KN_I32, 0), n = kg_op2(g, KN_OP_MUL, x, zero);
    CHECK_EQ(kn_rewrite(&rw, kg_op2(g, KN_OP_ADD, x, zero), KN_G_algebra), x);
    CHECK_EQ(kn_rewrite(&rw, n, KN_G_algebra), n);
    kn_ref r = kn_rewrite(&rw, n, KN_G_algebra | KN_RW_EXPAND);
    CHECK_EQ(kg_op(g, r), KN_OP_EXPAND);
    CHECK(kg_same_shape(g, r, n));
    kn_rw_free(&rw);
}

static void float_zeros_differ(void) {
    kn_rw rw;
    kn_rw_init(&rw, g, &fault);
    kn_ref x = var(3, KN_F32), n = kg_op2(g, KN_OP_ADD, x, kg_float(g, KN_F32, 0));
    CHECK_EQ(kn_rewrite(&rw, n, KN_G_algebra), n);
    CHECK_EQ(kn_rewrite(&rw, kg_op2(g, KN_OP_MUL, x, kg_float(g, KN_F32, 1)), KN_G_algebra), x);
    kn_rw_free(&rw);
}

/* An allocator that fails from its n-th call on, and counts what is held. */
typedef struct failing {
    long left, held;
} failing;

static void *failing_resize(void *user, void *ptr, size_t old_size, size_t new_size) {
    failing *a = user;
    if (new_size && a->left-- <= 0) return NULL;
    a->held += (long)new_size - (long)old_size;
    if (new_size) return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

static void out_of_memory_is_a_fault(void) {
    int failed = 0;
    for (long n = 0; n < 400; n++) {
        failing  a     = {n, 0};
        kn_alloc alloc = {failing_resize, &a};
        kn_graph *h    = kg_new(&alloc);
        if (h) {
            kn_fault f = {0};
            kn_rw    rw;
            kn_ref   r = kg_range(h, kg_idx(h, 9), 0, KN_AXIS_LOOP), x = r;
            for (int i = 0; i < 60; i++) {
                x = kg_op2(h, KN_OP_MUL, x, kg_idx(h, i));
                x = kg_op2(h, i & 1 ? KN_OP_MOD : KN_OP_ADD, x, kg_idx(h, i + 5));
            }
            kn_rw_init(&rw, h, &f);
            kn_ref y = kn_rewrite(&rw, x, KN_GROUPS_SIMPLIFY);
            CHECK(y || !x || f.code == KN_ERR_MEMORY);
            failed += !y;
            kn_rw_free(&rw);
            kg_free(h);
        }
        CHECK_EQ(a.held, 0);
    }
    CHECK(failed > 0 && failed < 400);
}

static void rules_can_be_off(void) {
    kn_rw rw;
    bool *off = calloc((size_t)kn_rule_count, sizeof *off);
    if (!CHECK(off)) return;
    kn_rw_init(&rw, g, &fault);
    for (int i = 0; i < kn_rule_count; i++) off[i] = !strcmp(kn_rules[i].name, "mul_one");
    rw.off   = off;
    kn_ref x = var(0, KN_F32), n = kg_op2(g, KN_OP_MUL, x, kg_float(g, KN_F32, 1));
    CHECK_EQ(kn_rewrite(&rw, n, KN_G_algebra), n);
    kn_rw_free(&rw);
    free(off);
}

int main(void) {
    g = kg_new(NULL);
    if (!g) return 1;
    RUN(chains_fold);
    RUN(shapes_are_kept);
    RUN(float_zeros_differ);
    RUN(rules_can_be_off);
    RUN(out_of_memory_is_a_fault);
    RUN(deep_graphs_need_no_recursion);
    CHECK_STR(fault.text, "");
    kg_free(g);
    return check_result();
}
