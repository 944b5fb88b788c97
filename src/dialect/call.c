/* call.c - what a FUNCTION or a CALL of a body gives: the body's values with the arguments in place of its PARAMs.
 *
 * A FUNCTION is arithmetic like any other, which may be fused with what is around it. A CALL of a TUPLE is kept: what
 * goes in and what comes out is stored (LOAD to GLOBAL memory), so that equal calls become equal kernels. */
#include "dialect/graph.h"
#include "dialect/why.h"

bool kg_is_kept(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_CALL && kg_op(g, kg_at(g, n, 0)) == KN_OP_TUPLE;
}

kn_ref kg_stored(kn_graph *g, kn_ref x) {
    kn_ref s = x;
    while (kg_op(g, s) == KN_OP_RESHAPE || kg_op(g, s) == KN_OP_AFTER) s = kg_at(g, s, 0);
    int op = kg_op(g, s);
    if (op == KN_OP_PARAM || op == KN_OP_BUFFER || op == KN_OP_SLICE || op == KN_OP_BIND || op == KN_OP_CONST) return x;
    if (op == KN_OP_GETTUPLE && kg_op(g, kg_at(g, s, 0)) == KN_OP_CALL) return x;
    if (op == KN_OP_LOAD && kg_space(g, s) == KN_GLOBAL) return x;
    if (kg_dtype(g, x) == KN_INDEX) return x;
    kg_made_as(g, g, x);
    s = kg_load_to(g, x, 0, KN_GLOBAL);
    kg_made_as(g, g, 0);
    return s;
}

kn_ref kg_inline(kn_graph *g, kn_ref fn, kn_ref value, const kn_ref *map) {
    const kn_alloc *a = kg_alloc(g);
    kn_ref         *order, *to, r = 0;
    uint32_t        count, n = 0;
    bool            kept = kg_is_kept(g, fn), ok = true;
    if (!value || !kg_reach_own(g, &value, 1, &order, &count)) return kn_oom(kg_fault(g)), 0;
    if (!(to = kn_realloc(a, NULL, 0, count * sizeof *to))) ok = kn_oom(kg_fault(g));
    for (uint32_t i = 0; i < count && ok; i++) {
        bool own = kg_space(g, order[i]) == KN_REG || kg_is_variable(g, order[i]); /* a combine's, a size */
        if (kg_op(g, order[i]) != KN_OP_PARAM || own) continue;
        int64_t slot = kg_field(g, order[i], KN_F_PARAM_slot);
        if (slot < 0 || slot + 1 >= kg_nsrc(g, fn)) {
            ok = kn_fail(kg_fault(g), KN_ERR_ARG, "%s: no argument for PARAM %lld", kn_ops[kg_op(g, fn)].name,
                         (long long)slot);
            break;
        }
        kn_ref x = kg_at(g, fn, (uint32_t)slot + 1);
        if (map) x = map[x];
        order[n] = order[i]; /* n <= i */
        to[n++]  = kept ? kg_stored(g, x) : x;
    }
    if (ok) r = kg_substitute(g, value, order, to, (int)n);
    if (r && kept) r = kg_stored(g, r);
    kn_free(a, to, count * sizeof *to);
    kn_free(a, order, count * sizeof *order);
    return r;
}
