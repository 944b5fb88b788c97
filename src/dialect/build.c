/* build.c - the constructors of single ops: thin shapes over kg_make, each a line of the dialect. */
#include "dialect/graph.h"

#include <math.h>
#include <string.h>

kn_ref kg_op1(kn_graph *g, int op, kn_ref a) { return kg_make(g, op, 0, 0, &a, 1); }
kn_ref kg_op2(kn_graph *g, int op, kn_ref a, kn_ref b) { return kg_make(g, op, 0, 0, (kn_ref[]){a, b}, 2); }
kn_ref kg_op3(kn_graph *g, int op, kn_ref a, kn_ref b, kn_ref c) {
    return kg_make(g, op, 0, 0, (kn_ref[]){a, b, c}, 3);
}

kn_ref kg_float(kn_graph *g, int dtype, double v) {
    kn_scalar s = {.f = v};
    s           = kn_cast_scalar(s, KN_F64, dtype);
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    return kg_make(g, KN_OP_CONST, dtype, bits, NULL, 0);
}

kn_ref kg_int(kn_graph *g, int dtype, int64_t v) {
    if (kn_is_float(dtype)) return kg_float(g, dtype, (double)v);
    kn_scalar s = {.i = v};
    s           = kn_cast_scalar(s, KN_I64, dtype);
    return kg_make(g, KN_OP_CONST, dtype, (uint64_t)s.i, NULL, 0);
}

kn_ref kg_fold_consts(kn_graph *g, int op, int dtype, const kn_ref *src, uint32_t n) {
    int       dt[3] = {0};
    kn_scalar in[3] = {{0}}, out;
    if (n < 1 || n > 3) return 0;
    for (uint32_t i = 0; i < n; i++) {
        if (kg_op(g, src[i]) != KN_OP_CONST) return 0;
        memcpy(&in[i], &kg_node(g, src[i])->arg, sizeof in[i]);
        dt[i] = kg_dtype(g, src[i]);
    }
    if (!kn_alu(op, dtype, dt, in, &out)) return 0;
    return kn_is_float(dtype) ? kg_float(g, dtype, out.f) : kg_int(g, dtype, out.i);
}

kn_ref kg_idx(kn_graph *g, int64_t v) { return kg_make(g, KN_OP_CONST, KN_INDEX, (uint64_t)v, NULL, 0); }

kn_ref kg_cast(kn_graph *g, kn_ref x, int dtype) {
    if (x && kg_dtype(g, x) == dtype) return x;
    return kg_make(g, KN_OP_CAST, 0, (uint64_t)dtype, &x, 1);
}

kn_ref kg_bitcast(kn_graph *g, kn_ref x, int dtype) {
    if (x && kg_dtype(g, x) == dtype) return x;
    return kg_make(g, KN_OP_BITCAST, 0, (uint64_t)dtype, &x, 1);
}

kn_ref kg_dims_node(kn_graph *g, const int64_t *dims, int rank) {
    if (rank < 0 || rank > KN_MAX_RANK) {
        kn_fail(&g->fault, KN_ERR_SHAPE, "rank %d is more than %d", rank, KN_MAX_RANK);
        return 0;
    }
    kn_ref d[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) d[i] = dims[i] < 0 ? (kn_ref)-dims[i] : kg_idx(g, dims[i]);
    return kg_make(g, KN_OP_STACK, 0, 0, d, (uint32_t)rank);
}

static kn_ref make_words(kn_graph *g, int op, const int64_t *w, int count, const kn_ref *src, int nsrc) {
    uint64_t arg = kg_intern_words(g, w, count);
    return arg ? kg_make(g, op, 0, arg, src, (uint32_t)nsrc) : 0;
}

kn_ref kg_param(kn_graph *g, int64_t slot, int dtype, const int64_t *dims, int rank) {
    kn_ref  s                 = kg_dims_node(g, dims, rank);
    int64_t w[KN_PARAM_WORDS] = {slot, dtype, 0, KN_GLOBAL, 0, INT64_MIN, INT64_MAX};
    return make_words(g, KN_OP_PARAM, w, KN_PARAM_WORDS, &s, 1);
}

kn_ref kg_buffer(kn_graph *g, int64_t slot, int64_t size, int dtype, uint32_t device, int space) {
    int64_t w[KN_BUFFER_WORDS] = {slot, size, dtype, device, space};
    return make_words(g, KN_OP_BUFFER, w, KN_BUFFER_WORDS, NULL, 0);
}

kn_ref kg_reshape(kn_graph *g, kn_ref x, const int64_t *dims, int rank) {
    int            xr;
    const int64_t *xs = kg_shape(g, x, &xr);
    if (x && xr == rank && (!rank || !memcmp(xs, dims, (size_t)rank * sizeof *dims))) return x;
    return kg_op2(g, KN_OP_RESHAPE, x, kg_dims_node(g, dims, rank));
}

kn_ref kg_expand(kn_graph *g, kn_ref x, const int64_t *dims, int rank) {
    int            xr;
    const int64_t *xs = kg_shape(g, x, &xr);
    if (x && xr == rank && (!rank || !memcmp(xs, dims, (size_t)rank * sizeof *dims))) return x;
    return kg_op2(g, KN_OP_EXPAND, x, kg_dims_node(g, dims, rank));
}

kn_ref kg_permute(kn_graph *g, kn_ref x, const int64_t *order, int rank) {
    return make_words(g, KN_OP_PERMUTE, order, rank, &x, 1);
}

kn_ref kg_flip(kn_graph *g, kn_ref x, const int64_t *flags, int rank) {
    return make_words(g, KN_OP_FLIP, flags, rank, &x, 1);
}

bool kg_custom_passes(const kn_graph *g, kn_ref call) {
    kn_ref body = kg_at(g, call, 0);
    return kg_nsrc(g, body) == 1 && kg_op(g, kg_at(g, body, 0)) == KN_OP_CONST;
}

int kg_custom_results(const kn_graph *g, kn_ref call) {
    kn_ref body = kg_at(g, call, 0);
    if (!kg_custom_passes(g, call)) return (int)kg_nsrc(g, body);
    double n = kg_const_float(g, kg_at(g, body, 0));
    return n >= 0 && n < kg_nsrc(g, call) ? (int)n : 0;
}

kn_ref kg_custom_result(const kn_graph *g, kn_ref call, int k) {
    if (k < 0 || k >= kg_custom_results(g, call)) return 0;
    return kg_custom_passes(g, call) ? kg_at(g, call, (uint32_t)k + 1) : kg_at(g, kg_at(g, call, 0), (uint32_t)k);
}

kn_ref kg_custom_call(kn_graph *g, const char *name, const kn_ref *types, int ntypes, const kn_ref *args, int nargs) {
    uint32_t id    = kg_intern_str(g, name, strlen(name));
    size_t   bytes = ((size_t)nargs + 1) * sizeof(kn_ref);
    kn_ref  *src   = kn_realloc(kg_alloc(g), NULL, 0, bytes), r = 0;
    if (!src) return kn_oom(kg_fault(g)), 0;
    src[0] = id ? kg_make(g, KN_OP_CUSTOM_FUNCTION, 0, id, types, (uint32_t)ntypes) : 0;
    for (int i = 0; i < nargs; i++) src[i + 1] = args[i];
    r = kg_make(g, KN_OP_CALL, 0, 0, src, (uint32_t)nargs + 1);
    kn_free(kg_alloc(g), src, bytes);
    return r;
}

kn_ref kg_replicated(kn_graph *g, kn_ref x, const int64_t *axes, int naxes) {
    return make_words(g, KN_OP_REPLICATED, axes, naxes, &x, 1);
}

kn_ref kg_pad(kn_graph *g, kn_ref x, const int64_t *offset, const int64_t *dims, int rank) {
    return kg_op3(g, KN_OP_PAD, x, kg_dims_node(g, offset, rank), kg_dims_node(g, dims, rank));
}

kn_ref kg_shrink(kn_graph *g, kn_ref x, const int64_t *offset, const int64_t *dims, int rank) {
    return kg_op3(g, KN_OP_SHRINK, x, kg_dims_node(g, offset, rank), kg_dims_node(g, dims, rank));
}

kn_ref kg_reduce(kn_graph *g, kn_ref x, int op, const int64_t *axes, int naxes) {
    int64_t w[KN_MAX_RANK + KN_REDUCE_WORDS] = {[KN_F_REDUCE_op] = op};
    if (naxes > KN_MAX_RANK) return kn_fail(&g->fault, KN_ERR_ARG, "REDUCE: %d axes", naxes), 0;
    if (naxes) memcpy(w + KN_REDUCE_WORDS, axes, (size_t)naxes * sizeof *w);
    return make_words(g, KN_OP_REDUCE, w, naxes + KN_REDUCE_WORDS, &x, 1);
}

/* x followed by n more sources, as one op. */
static kn_ref with_tail(kn_graph *g, int op, uint64_t arg, kn_ref x, const kn_ref *tail, int n) {
    kn_ref  few[16];
    kn_ref *src = n < KN_COUNT(few) ? few : kn_realloc(g->alloc, NULL, 0, ((size_t)n + 1) * sizeof *src);
    if (!src) return kn_oom(&g->fault), 0;
    src[0] = x;
    if (n) memcpy(src + 1, tail, (size_t)n * sizeof *src);
    kn_ref r = kg_make(g, op, 0, arg, src, (uint32_t)n + 1);
    if (src != few) kn_free(g->alloc, src, ((size_t)n + 1) * sizeof *src);
    return r;
}

kn_ref kg_reduce_ranges(kn_graph *g, kn_ref x, int op, const kn_ref *ranges, int nranges) {
    int64_t  w[KN_REDUCE_WORDS] = {[KN_F_REDUCE_op] = op};
    uint64_t arg                = kg_intern_words(g, w, KN_REDUCE_WORDS);
    return arg ? with_tail(g, KN_OP_REDUCE, arg, x, ranges, nranges) : 0;
}

kn_ref kg_prefix(kn_graph *g, kn_ref x, int op, const kn_ref *ranges, int nranges) {
    int64_t  w[KN_REDUCE_WORDS] = {[KN_F_REDUCE_op] = op, [KN_F_REDUCE_prefix] = 1};
    uint64_t arg                = kg_intern_words(g, w, KN_REDUCE_WORDS);
    return arg ? with_tail(g, KN_OP_REDUCE, arg, x, ranges, nranges) : 0;
}

bool kg_is_prefix(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_REDUCE && kg_field(g, n, KN_F_REDUCE_prefix);
}

kn_ref kg_range(kn_graph *g, kn_ref bound, int64_t id, int type) {
    int64_t w[KN_RANGE_WORDS] = {id, type, 0, 0};
    return make_words(g, KN_OP_RANGE, w, KN_RANGE_WORDS, &bound, 1);
}

kn_ref kg_iota(kn_graph *g, int64_t n, int64_t id, int type, int rank, int axis) {
    int64_t w[KN_RANGE_WORDS] = {id, type, rank, axis};
    kn_ref  bound             = n < 0 ? (kn_ref)-n : kg_idx(g, n);
    return make_words(g, KN_OP_RANGE, w, KN_RANGE_WORDS, &bound, 1);
}

kn_ref kg_index(kn_graph *g, kn_ref x, const kn_ref *idx, int nidx) {
    return with_tail(g, KN_OP_INDEX, 0, x, idx, nidx);
}

kn_ref kg_gate_access(kn_graph *g, kn_ref access, kn_ref gate) {
    uint32_t n   = kg_nsrc(g, access);
    kn_ref   own = n == 3 ? kg_op2(g, KN_OP_AND, kg_at(g, access, 2), gate) : gate;
    kn_ref   alt = n > 1 ? kg_at(g, access, 1) : kg_int(g, kg_dtype(g, access), 0);
    return kg_with_src(g, access, (kn_ref[]){kg_at(g, access, 0), alt, own}, 3);
}

kn_ref kg_load_to(kn_graph *g, kn_ref x, uint32_t device, int space) {
    int64_t w[KN_LOAD_WORDS] = {device, space};
    return make_words(g, KN_OP_LOAD, w, KN_LOAD_WORDS, &x, 1);
}

kn_ref kg_load(kn_graph *g, kn_ref x) { return kg_load_to(g, x, 0, KN_REG); }

kn_ref kg_load_gated(kn_graph *g, kn_ref x, kn_ref alt, kn_ref gate) {
    int64_t w[KN_LOAD_WORDS] = {0, KN_REG};
    return make_words(g, KN_OP_LOAD, w, KN_LOAD_WORDS, (kn_ref[]){x, alt, gate}, 3);
}

kn_ref kg_store(kn_graph *g, kn_ref target, kn_ref value, kn_ref gate) {
    return kg_make(g, KN_OP_STORE, 0, 0, (kn_ref[]){target, value, gate}, gate ? 3 : 2);
}

kn_ref kg_after(kn_graph *g, kn_ref x, const kn_ref *deps, int n) {
    return n ? with_tail(g, KN_OP_AFTER, 0, x, deps, n) : x;
}

kn_ref kg_end(kn_graph *g, kn_ref body, const kn_ref *ranges, int n) {
    return n ? with_tail(g, KN_OP_END, 0, body, ranges, n) : body;
}

kn_ref kg_list(kn_graph *g, int op, const kn_ref *src, int n) {
    uint64_t arg = 0;
    if (kn_ops[op].arg == KN_ARG_KERNEL) {
        int64_t w = 0;
        if (!(arg = kg_intern_words(g, &w, 1))) return 0;
    }
    return kg_make(g, op, 0, arg, src, (uint32_t)n);
}

kn_ref kg_sink(kn_graph *g, const kn_ref *src, int n, const char *name, const int64_t *nest, int nnest) {
    int64_t  few[64];
    int64_t *w = nnest + 1 <= KN_COUNT(few) ? few : kn_arena_get(&g->arena, ((size_t)nnest + 1) * sizeof *w);
    if (!w) return kn_oom(&g->fault), 0;
    w[0] = name ? kg_intern_str(g, name, strlen(name)) : 0;
    if (nnest) memcpy(w + 1, nest, (size_t)nnest * sizeof *w);
    uint64_t arg = kg_intern_words(g, w, nnest + 1);
    return arg ? kg_make(g, KN_OP_SINK, 0, arg, src, (uint32_t)n) : 0;
}
