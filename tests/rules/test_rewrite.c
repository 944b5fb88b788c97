/* The driver: normal forms, memo, loops, shapes; over the rules of the library. */
#include "check.h"
#include "rewrite/rewrite.h"
#include "rules_gen.h"

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

int main(void) {
    g = kg_new(NULL);
    if (!g) return 1;
    RUN(chains_fold);
    RUN(shapes_are_kept);
    RUN(float_zeros_differ);
    RUN(deep_graphs_need_no_recursion);
    CHECK_STR(fault.text, "");
    kg_free(g);
    return check_result();
}
