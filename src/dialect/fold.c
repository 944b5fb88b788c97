/* fold.c - reductions with a FUNCTION for a combine: their parts, and the combine applied.
 *
 * Contract: uop.h says what a fold is. What is common to folds and to plain reductions is said once here, so that the
 * stages that split and join reductions need not tell them apart. */
#include "dialect/graph.h"

#include <string.h>

bool kg_fold_parts(const kn_graph *g, kn_ref function, kn_fold_parts *out) {
    if (kg_op(g, function) != KN_OP_FUNCTION || kg_op(g, kg_at(g, function, 0)) != KN_OP_TUPLE) return false;
    const kn_ref *src = kg_src(g, function);
    uint32_t      n   = kg_nsrc(g, src[0]);
    if (n < 1 || n > KN_MAX_FOLD || kg_nsrc(g, function) != 2 * n + 1) return false;
    *out = (kn_fold_parts){(int)n, src[0], src + 1, src + 1 + n};
    return true;
}

/* Exactly what kg_fold_param makes. */
static bool is_plain_param(const kn_graph *g, kn_ref x, int dtype) {
    const int64_t *w = kg_words(g, x, NULL);
    return !kg_rank(g, x) && !kg_node(g, x)->tag && w[KN_F_PARAM_dtype] == dtype && !w[KN_F_PARAM_device] &&
           !w[KN_F_PARAM_name] && w[KN_F_PARAM_min] == INT64_MIN && w[KN_F_PARAM_max] == INT64_MAX;
}

static const char *node_flaw(const kn_graph *g, kn_ref x, const kn_ref *element, int n) {
    int op = kg_op(g, x);
    if (op == KN_OP_CONST) return NULL;
    if (kn_is_alu(op)) return kg_rank(g, x) ? "the combine is of scalars" : NULL;
    if (op != KN_OP_PARAM || kg_field(g, x, KN_F_PARAM_space) != KN_REG)
        return "the combine may hold arithmetic, constants and PARAMs of space REG";
    int64_t slot = kg_field(g, x, KN_F_PARAM_slot);
    if (slot < 0 || slot >= 2 * n) return "the combine has no such PARAM";
    return is_plain_param(g, x, kg_dtype(g, element[slot % n]))
               ? NULL
               : "a PARAM of the combine must be a plain scalar of its element's dtype";
}

const char *kg_combine_flaw(const kn_graph *g, const kn_fold_parts *p) {
    kn_ref      seen[KN_MAX_COMBINE];
    int         count = 0;
    const char *flaw  = NULL;
    for (int at = -1; at < count && !flaw; at++) { /* the combine itself first */
        kn_ref x = at < 0 ? p->combine : seen[at];
        if (at >= 0) flaw = node_flaw(g, x, p->element, p->n);
        if (kg_op(g, x) == KN_OP_PARAM) continue; /* its source is its shape */
        for (uint32_t i = 0; i < kg_nsrc(g, x) && !flaw; i++) {
            bool known = false;
            for (int k = 0; k < count && !known; k++) known = seen[k] == kg_at(g, x, i);
            if (known) continue;
            if (count == KN_MAX_COMBINE) return "the combine is too large";
            seen[count++] = kg_at(g, x, i);
        }
    }
    return flaw;
}

kn_ref kg_own_param(kn_graph *g, int64_t slot, int dtype, const int64_t *dims, int rank) {
    kn_ref   s                 = kg_dims_node(g, dims, rank);
    int64_t  w[KN_PARAM_WORDS] = {slot, dtype, 0, KN_REG, 0, INT64_MIN, INT64_MAX};
    uint64_t arg               = kg_intern_words(g, w, KN_PARAM_WORDS);
    return arg ? kg_make(g, KN_OP_PARAM, 0, arg, &s, 1) : 0;
}

kn_ref kg_fold_param(kn_graph *g, int64_t slot, int dtype) {
    return kg_own_param(g, slot, dtype, NULL, 0);
}

kn_ref kg_fold(kn_graph *g, kn_ref combine, const kn_ref *identity, const kn_ref *element, int n, const int64_t *axes,
               int naxes) {
    kn_ref  src[2 * KN_MAX_FOLD + 1]         = {combine};
    int64_t w[KN_MAX_RANK + KN_REDUCE_WORDS] = {[KN_F_REDUCE_op] = KN_OP_FUNCTION};
    if (n < 1 || n > KN_MAX_FOLD || naxes > KN_MAX_RANK)
        return kn_fail(&g->fault, KN_ERR_ARG, "REDUCE: a fold of %d values over %d axes", n, naxes), 0;
    memcpy(src + 1, identity, (size_t)n * sizeof *src);
    memcpy(src + 1 + n, element, (size_t)n * sizeof *src);
    if (naxes) memcpy(w + KN_REDUCE_WORDS, axes, (size_t)naxes * sizeof *w);
    kn_ref   fn  = kg_make(g, KN_OP_FUNCTION, 0, 0, src, 2 * (uint32_t)n + 1);
    uint64_t arg = kg_intern_words(g, w, naxes + KN_REDUCE_WORDS);
    return fn && arg ? kg_make(g, KN_OP_REDUCE, 0, arg, &fn, 1) : 0;
}

bool kg_fold_apply(kn_graph *g, kn_ref combine, int n, const kn_ref *a, const kn_ref *b, kn_ref *out) {
    kn_ref from[2 * KN_MAX_FOLD], to[2 * KN_MAX_FOLD];
    for (int k = 0; k < 2 * n; k++) {
        to[k] = k < n ? a[k] : b[k - n];
        if (!to[k] || !(from[k] = kg_fold_param(g, k, kg_dtype(g, to[k])))) return false;
    }
    kn_ref r = kg_substitute(g, combine, from, to, 2 * n);
    for (int k = 0; r && k < n; k++) out[k] = kg_at(g, r, (uint32_t)k);
    return r != 0;
}

kn_ref kg_element(kn_graph *g, kn_ref tuple, int k) {
    if (!tuple) return 0;
    return kg_op(g, tuple) == KN_OP_TUPLE ? kg_at(g, tuple, (uint32_t)k)
                                          : kg_make(g, KN_OP_GETTUPLE, 0, (uint64_t)k, &tuple, 1);
}

kn_ref kg_reduce_again(kn_graph *g, kn_ref reduce, kn_ref x, const kn_ref *ranges, int n) {
    kn_ref src[2 * KN_MAX_RANK + 1] = {x}, *all = src;
    size_t bytes = ((size_t)n + 1) * sizeof *all;
    if (!x) return 0;
    if (!n) {
        kn_fold_parts p;
        if (!kg_is_fold(g, reduce)) return x;
        return kg_fold_parts(g, x, &p) ? kg_list(g, KN_OP_TUPLE, p.element, p.n) : 0;
    }
    if (bytes > sizeof src && !(all = kn_realloc(g->alloc, NULL, 0, bytes))) return kn_oom(&g->fault), 0;
    all[0] = x;
    memcpy(all + 1, ranges, (size_t)n * sizeof *all);
    kn_ref r = kg_with_src(g, reduce, all, (uint32_t)n + 1);
    if (all != src) kn_free(g->alloc, all, bytes);
    return r;
}

kn_ref kg_identity(kn_graph *g, int op, int dtype) {
    kn_scalar id = kn_identity(op, dtype);
    return kn_is_float(dtype) ? kg_float(g, dtype, id.f) : kg_make(g, KN_OP_CONST, dtype, (uint64_t)id.i, NULL, 0);
}

kn_ref kg_reduce_gated(kn_graph *g, kn_ref reduce, kn_ref x, kn_ref gate) {
    kn_fold_parts p;
    kn_ref        src[2 * KN_MAX_FOLD + 1];
    if (!x || !gate) return 0;
    if (!kg_is_fold(g, reduce)) {
        int op = (int)kg_field(g, reduce, KN_F_REDUCE_op);
        return kg_op3(g, KN_OP_WHERE, gate, x, kg_identity(g, op, kg_dtype(g, x)));
    }
    if (!kg_fold_parts(g, x, &p)) return 0;
    memcpy(src, kg_src(g, x), kg_nsrc(g, x) * sizeof *src);
    for (int k = 0; k < p.n; k++)
        src[1 + p.n + k] = kg_op3(g, KN_OP_WHERE, gate, p.element[k], p.identity[k]);
    return kg_with_src(g, x, src, 2 * (uint32_t)p.n + 1);
}

kn_ref kg_reduce_join(kn_graph *g, kn_ref reduce, kn_ref a, kn_ref b) {
    kn_fold_parts p;
    kn_ref        x[KN_MAX_FOLD], y[KN_MAX_FOLD], out[KN_MAX_FOLD];
    if (!kg_is_fold(g, reduce)) return kg_op2(g, (int)kg_field(g, reduce, KN_F_REDUCE_op), a, b);
    if (!a || !b || !kg_fold_parts(g, kg_at(g, reduce, 0), &p)) return 0;
    for (int k = 0; k < p.n; k++) {
        x[k] = kg_element(g, a, k);
        y[k] = kg_element(g, b, k);
    }
    return kg_fold_apply(g, p.combine, p.n, x, y, out) ? kg_list(g, KN_OP_TUPLE, out, p.n) : 0;
}

kn_ref kg_reduce_replace(kn_graph *g, kn_ref root, kn_ref reduce, kn_ref by) {
    kn_fold_parts p;
    kn_ref        from[KN_MAX_FOLD], to[KN_MAX_FOLD];
    if (!by || !kg_is_fold(g, reduce)) return by ? kg_substitute(g, root, &reduce, &by, 1) : 0;
    if (!kg_fold_parts(g, kg_at(g, reduce, 0), &p)) return 0;
    for (int k = 0; k < p.n; k++) {
        from[k] = kg_element(g, reduce, k);
        if (!from[k] || !(to[k] = kg_element(g, by, k))) return 0;
    }
    return kg_substitute(g, root, from, to, p.n);
}
