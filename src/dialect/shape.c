/* shape.c - dtype and shape of every op, by the rule its line in ops.def names.
 *
 * Contract: sources are already made; what does not fit is refused here, once, with the op, the shapes and why. */
#include "dialect/graph.h"

#include <string.h>

enum { DT_ARG, DT_SRC0, DT_SRC1, DT_SRC2, DT_BOOL, DT_VOID, DT_INDEX, DT_U8, DT_STACK, DT_REDUCE, DT_GETTUPLE };
enum {
    SH_NIL, SH_SRC0, SH_SRC2, SH_CAST, SH_PARAM, SH_BUFFER, SH_BYTES, SH_PERMUTE, SH_SHAPE, SH_EXPAND, SH_PAD,
    SH_SHRINK, SH_INDEX, SH_STACK, SH_COLLAPSE, SH_SLICE, SH_BITCAST, SH_REDUCE, SH_GETTUPLE, SH_RANGE, SH_BUFFERIZE,
    SH_INS, SH_ALLREDUCE
};
static const uint8_t dtype_rule[KN_OP_COUNT] = {
#define OP(name, lo, hi, arg, cls, dt, sh, doc) DT_##dt,
#include "dialect/ops.def"
#undef OP
};
static const uint8_t shape_rule[KN_OP_COUNT] = {
#define OP(name, lo, hi, arg, cls, dt, sh, doc) SH_##sh,
#include "dialect/ops.def"
#undef OP
};

static bool bad(kn_graph *g, kn_status code, const kn_node *nd, const char *what) {
    return kn_fail(&g->fault, code, "%s: %s", kn_ops[nd->op].name, what);
}

static void kg_shape_text(const kn_graph *g, kn_ref n, char *out, size_t cap) {
    const int64_t *s = kg_prop(g, n)->shape;
    size_t         at = 0;
    if (cap) out[0] = 0;
    for (int i = 0; i <= s[0] && at + 24 < cap; i++) {
        if (i == s[0]) snprintf(out + at, cap - at, "%s)", s[0] ? "" : "(");
        else if (s[i + 1] < 0) at += (size_t)snprintf(out + at, cap - at, "%s%%%d", i ? "," : "(", (int)-s[i + 1]);
        else at += (size_t)snprintf(out + at, cap - at, "%s%lld", i ? "," : "(", (long long)s[i + 1]);
    }
}

static bool bad_shapes(kn_graph *g, const kn_node *nd, kn_ref a, kn_ref b, const char *what) {
    char ta[120], tb[120];
    kg_shape_text(g, a, ta, sizeof ta);
    kg_shape_text(g, b, tb, sizeof tb);
    return kn_fail(&g->fault, KN_ERR_SHAPE, "%s: %s and %s: %s", kn_ops[nd->op].name, ta, tb, what);
}

/* ---- dtype --------------------------------------------------------------------------------------------------- */

static int arg_dtype(const kn_graph *g, const kn_node *nd) {
    switch (nd->op) {
    case KN_OP_PARAM: return (int)g->at.words[nd->arg][KN_F_PARAM_dtype];
    case KN_OP_BUFFER: return (int)g->at.words[nd->arg][KN_F_BUFFER_dtype];
    case KN_OP_SLICE: return (int)g->at.words[nd->arg][KN_F_SLICE_dtype];
    case KN_OP_INS: return (int)g->at.words[nd->arg][KN_F_INS_dtype];
    default: return (int)nd->arg; /* CAST, BITCAST */
    }
}

static bool check_elementwise(kn_graph *g, const kn_node *nd, const kn_ref *src) {
    int a = kg_dtype(g, src[0]);
    for (uint32_t i = 0; i < nd->nsrc; i++)
        if (kg_dtype(g, src[i]) == KN_VOID) return bad(g, KN_ERR_DTYPE, nd, "a source has no value");
    if (nd->op == KN_OP_WHERE) {
        if (a != KN_BOOL) return bad(g, KN_ERR_DTYPE, nd, "the condition must be bool");
        if (kg_dtype(g, src[1]) != kg_dtype(g, src[2])) goto differ;
        return true;
    }
    for (uint32_t i = 1; i < nd->nsrc; i++)
        if (kg_dtype(g, src[i]) != a) goto differ;
    switch (nd->op) {
    case KN_OP_RECIP: case KN_OP_TRUNC: case KN_OP_EXP2: case KN_OP_LOG2: case KN_OP_SIN: case KN_OP_SQRT:
    case KN_OP_DIV: case KN_OP_POW:
        if (!kn_is_float(a)) return bad(g, KN_ERR_DTYPE, nd, "needs floats");
        break;
    case KN_OP_IDIV: case KN_OP_MOD: case KN_OP_SHL: case KN_OP_SHR:
        if (!kn_is_int(a)) return bad(g, KN_ERR_DTYPE, nd, "needs integers");
        break;
    case KN_OP_AND: case KN_OP_OR: case KN_OP_XOR: case KN_OP_NOT:
        if (kn_is_float(a)) return bad(g, KN_ERR_DTYPE, nd, "needs integers or bools");
        break;
    case KN_OP_THREEFRY:
        if (a != KN_U64) return bad(g, KN_ERR_DTYPE, nd, "needs u64");
        break;
    default: break;
    }
    return true;
differ:
    return kn_fail(&g->fault, KN_ERR_DTYPE, "%s: sources are %s and %s", kn_ops[nd->op].name,
                   kn_dtypes[kg_dtype(g, src[nd->nsrc - 2])].name, kn_dtypes[kg_dtype(g, src[nd->nsrc - 1])].name);
}

bool kg_infer_dtype(kn_graph *g, const kn_node *nd, const kn_ref *src, int wanted, int *dtype) {
    if (kn_is_alu(nd->op) && !check_elementwise(g, nd, src)) return false;
    switch (dtype_rule[nd->op]) {
    case DT_ARG: {
        int d = nd->op == KN_OP_CONST ? wanted : arg_dtype(g, nd);
        if (d <= KN_VOID || d >= KN_DTYPE_COUNT) return bad(g, KN_ERR_DTYPE, nd, "unknown dtype");
        *dtype = d;
        return true;
    }
    case DT_SRC0: *dtype = kg_dtype(g, src[0]); break;
    case DT_SRC1: *dtype = kg_dtype(g, src[1]); break;
    case DT_SRC2: *dtype = kg_dtype(g, src[2]); break;
    case DT_REDUCE:
        *dtype = kg_dtype(g, src[0]);
        if (g->at.words[nd->arg][KN_F_REDUCE_op] != KN_OP_FUNCTION) break;
        *dtype = KN_VOID;
        return true;
    case DT_BOOL: *dtype = KN_BOOL; return true;
    case DT_VOID: *dtype = KN_VOID; return true;
    case DT_INDEX: *dtype = KN_INDEX; return true;
    case DT_U8: *dtype = KN_U8; return true;
    case DT_STACK:
        *dtype = nd->nsrc ? kg_dtype(g, src[0]) : KN_INDEX;
        for (uint32_t i = 1; i < nd->nsrc; i++)
            if (kg_dtype(g, src[i]) != *dtype) return bad(g, KN_ERR_DTYPE, nd, "sources differ in dtype");
        break;
    case DT_GETTUPLE: {
        kn_ref t = src[0];
        if (kg_op(g, t) == KN_OP_REDUCE && kg_dtype(g, t) == KN_VOID) t = kg_at(g, t, 0);
        if (kg_is_custom(g, t)) {
            t = nd->arg < INT32_MAX ? kg_custom_result(g, t, (int)nd->arg) : 0;
            if (!t) return bad(g, KN_ERR_ARG, nd, "the function has no such result");
            *dtype = kg_dtype(g, t);
            return true;
        }
        if (kg_op(g, t) != KN_OP_TUPLE) t = kg_nsrc(g, t) ? kg_at(g, t, 0) : t;
        if (kg_op(g, t) != KN_OP_TUPLE || (int64_t)nd->arg < 0 || (int64_t)nd->arg >= kg_nsrc(g, t))
            return bad(g, KN_ERR_ARG, nd, "needs a TUPLE (or a FUNCTION or fold of one, or a CALL) with that element");
        *dtype = kg_dtype(g, kg_at(g, t, (uint32_t)nd->arg));
        return true;
    }
    default: return bad(g, KN_ERR_INTERNAL, nd, "no dtype rule");
    }
    if (*dtype == KN_VOID && nd->op != KN_OP_AFTER) return bad(g, KN_ERR_DTYPE, nd, "the source has no value");
    return true;
}

/* ---- shape --------------------------------------------------------------------------------------------------- */

const int64_t *kg_shape(const kn_graph *g, kn_ref n, int *rank) {
    const int64_t *s = kg_prop(g, n)->shape;
    if (rank) *rank = (int)s[0];
    return s + 1;
}

int kg_rank(const kn_graph *g, kn_ref n) { return (int)kg_prop(g, n)->shape[0]; }

int64_t kg_numel(const kn_graph *g, kn_ref n) {
    const int64_t *s = kg_prop(g, n)->shape;
    int64_t        t = 1;
    for (int i = 1; i <= s[0]; i++) {
        if (s[i] < 0) return -1;
        t = kn_sat_mul(t, s[i]);
    }
    return t;
}

/* Shapes are interned, so equal shapes are one run. */
bool kg_same_shape(const kn_graph *g, kn_ref a, kn_ref b) {
    const int64_t *x = kg_prop(g, a)->shape, *y = kg_prop(g, b)->shape;
    return x == y || (x[0] == y[0] && !memcmp(x, y, (size_t)(x[0] + 1) * sizeof *x));
}

bool kg_read_dims(const kn_graph *g, kn_ref s, int64_t *dims, int *rank) {
    if (kg_op(g, s) != KN_OP_STACK || kg_nsrc(g, s) > KN_MAX_RANK) return false;
    const kn_ref *src = kg_src(g, s);
    *rank             = (int)kg_nsrc(g, s);
    for (int i = 0; i < *rank; i++) {
        if (kg_op(g, src[i]) != KN_OP_CONST || kg_dtype(g, src[i]) != KN_INDEX) return false;
        dims[i] = kg_const_int(g, src[i]);
    }
    return true;
}

/* A shape source into shape[]: sizes, or negated nodes where symbolic. */
static bool dims_of(kn_graph *g, const kn_node *nd, kn_ref s, int64_t *shape, bool sizes) {
    if (kg_op(g, s) != KN_OP_STACK || kg_dtype(g, s) != KN_INDEX || kg_rank(g, s) != 1)
        return bad(g, KN_ERR_SHAPE, nd, "a shape must be a list of sizes, [a, b]");
    uint32_t n = kg_nsrc(g, s);
    if (n > KN_MAX_RANK) return bad(g, KN_ERR_SHAPE, nd, "too many dimensions");
    shape[0] = n;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref d = kg_at(g, s, i);
        if (kg_op(g, d) != KN_OP_CONST) {
            shape[i + 1] = -(int64_t)d;
            continue;
        }
        shape[i + 1] = kg_const_int(g, d);
        if (sizes && shape[i + 1] < 0) return bad(g, KN_ERR_SHAPE, nd, "a size is negative");
    }
    int64_t t = 1;
    for (uint32_t i = 0; sizes && i < n; i++)
        if (shape[i + 1] > 0 && !kn_mul_ok(t, shape[i + 1], &t)) return bad(g, KN_ERR_SHAPE, nd, "too many elements");
    return true;
}

/* -1: not known. Where a dim is 0 it is, whatever the others are. */
static int64_t product(const int64_t *shape) {
    int64_t t        = 1;
    bool    symbolic = false;
    for (int i = 1; i <= shape[0]; i++) {
        symbolic |= shape[i] < 0;
        t = kn_sat_mul(t, shape[i] < 0 ? 1 : shape[i]);
    }
    return symbolic && t ? -1 : t;
}

static bool broadcast(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *out) {
    const int64_t *first = kg_prop(g, src[0])->shape;
    memcpy(out, first, (size_t)(first[0] + 1) * sizeof *out);
    for (uint32_t k = 1; k < nd->nsrc; k++) {
        const int64_t *s = kg_prop(g, src[k])->shape;
        if (s == first) continue;
        int64_t old = out[0], rank = KN_MAX(old, s[0]);
        if (rank > old) memmove(out + 1 + (rank - old), out + 1, (size_t)old * sizeof *out);
        for (int64_t i = 0; i < rank - old; i++) out[i + 1] = 1;
        out[0] = rank;
        for (int64_t i = 0; i < s[0]; i++) {
            int64_t *o = &out[rank - s[0] + i + 1], v = s[i + 1];
            if (*o == v || v == 1) continue;
            if (*o != 1) return bad_shapes(g, nd, src[0], src[k], "do not broadcast");
            *o = v;
        }
    }
    return true;
}

static bool shape_permute(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *out) {
    const int64_t *in = kg_prop(g, src[0])->shape, *pi = g->at.words[nd->arg];
    uint32_t       seen = 0;
    if (pi[-1] != in[0]) return bad(g, KN_ERR_SHAPE, nd, "the order names another number of axes than the source has");
    out[0] = in[0];
    for (int i = 0; i < in[0]; i++) {
        if (pi[i] < 0 || pi[i] >= in[0] || seen >> pi[i] & 1) return bad(g, KN_ERR_ARG, nd, "not a permutation");
        seen |= 1u << pi[i];
        out[i + 1] = in[pi[i] + 1];
    }
    return true;
}

static bool shape_box(kn_graph *g, const kn_node *nd, const kn_ref *src, bool pad, int64_t *out) {
    const int64_t *in = kg_prop(g, src[0])->shape;
    int64_t        off[KN_MAX_RANK + 1], end;
    if (!dims_of(g, nd, src[1], off, true) || !dims_of(g, nd, src[2], out, true)) return false;
    if (off[0] != in[0] || out[0] != in[0])
        return bad(g, KN_ERR_SHAPE, nd, "offset and shape need as many entries as the source has axes");
    for (int i = 1; i <= in[0]; i++) {
        if (in[i] < 0 || out[i] < 0 || off[i] < 0) continue; /* symbolic: checked when the program runs */
        int64_t inner = pad ? in[i] : out[i], outer = pad ? out[i] : in[i];
        if (!kn_add_ok(off[i], inner, &end) || end > outer) return bad(g, KN_ERR_SHAPE, nd, "reaches beyond the end");
    }
    return true;
}

static bool shape_index(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *out) {
    const int64_t *in = kg_prop(g, src[0])->shape;
    int64_t        n = (int64_t)nd->nsrc - 1, rank = 0;
    if (n > in[0]) return bad(g, KN_ERR_SHAPE, nd, "more indices than axes");
    for (int64_t k = 0; k <= n; k++) {
        const int64_t *s = k < n ? kg_prop(g, src[k + 1])->shape : in + n; /* the axes left over */
        int64_t        r = k < n ? s[0] : in[0] - n;
        if (k < n && kg_dtype(g, src[k + 1]) != KN_INDEX)
            return bad(g, KN_ERR_DTYPE, nd, "an index must be of dtype index");
        if (rank + r > KN_MAX_RANK) return bad(g, KN_ERR_SHAPE, nd, "too many dimensions");
        memcpy(out + 1 + rank, s + 1, (size_t)r * sizeof *out);
        rank += r;
    }
    out[0] = rank;
    return true;
}

static bool shape_collapse(kn_graph *g, const kn_node *nd, const kn_ref *src, const int64_t *axes, int n,
                           int64_t *out) {
    const int64_t *in = kg_prop(g, src[0])->shape;
    memcpy(out, in, (size_t)(in[0] + 1) * sizeof *out);
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0 || axes[i] >= in[0]) return bad(g, KN_ERR_ARG, nd, "no such axis");
        out[axes[i] + 1] = 1;
    }
    return true;
}

/* A fold: the combine's results, the identities and the elements agree one by one; the elements are of one shape. */
static bool shape_fold(kn_graph *g, const kn_node *nd, const kn_ref *src, const int64_t *axes, int naxes,
                       int64_t *out) {
    kn_fold_parts p;
    if (g->at.words[nd->arg][KN_F_REDUCE_prefix]) return bad(g, KN_ERR_ARG, nd, "a fold has no prefix form");
    if (!kg_fold_parts(g, src[0], &p))
        return bad(g, KN_ERR_ARG, nd, "a fold needs FUNCTION(TUPLE, identities, elements), as many as the TUPLE has");
    for (int k = 0; k < p.n; k++) {
        kn_ref y = kg_at(g, p.combine, (uint32_t)k), id = p.identity[k], x = p.element[k];
        if (kg_dtype(g, y) != kg_dtype(g, id) || kg_dtype(g, y) != kg_dtype(g, x))
            return bad(g, KN_ERR_DTYPE, nd, "a result of the combine, its identity and its element differ in dtype");
        if (kg_rank(g, y)) return bad(g, KN_ERR_SHAPE, nd, "the combine is of scalars");
        if (kg_op(g, id) != KN_OP_CONST) return bad(g, KN_ERR_ARG, nd, "an identity must be a constant");
        if (!kg_same_shape(g, x, p.element[0])) return bad_shapes(g, nd, x, p.element[0], "must be equal");
    }
    for (uint32_t i = 1; i < nd->nsrc; i++)
        if (kg_op(g, src[i]) != KN_OP_RANGE) return bad(g, KN_ERR_ARG, nd, "closes only ranges");
    return shape_collapse(g, nd, p.element, axes, naxes, out);
}

static bool shape_stack(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *out) {
    const int64_t *in = nd->nsrc ? kg_prop(g, src[0])->shape : (const int64_t[]){0};
    if (in[0] >= KN_MAX_RANK) return bad(g, KN_ERR_SHAPE, nd, "too many dimensions");
    for (uint32_t i = 1; i < nd->nsrc; i++)
        if (!kg_same_shape(g, src[0], src[i])) return bad_shapes(g, nd, src[0], src[i], "must be equal");
    out[0] = in[0] + 1;
    out[1] = nd->nsrc;
    memcpy(out + 2, in + 1, (size_t)in[0] * sizeof *out);
    return true;
}

static bool shape_bitcast(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *out) {
    const int64_t *in = kg_prop(g, src[0])->shape;
    int            from = kn_dsize(kg_dtype(g, src[0])), to = kn_dsize((int)nd->arg);
    memcpy(out, in, (size_t)(in[0] + 1) * sizeof *out);
    if (from == to) return true;
    if (in[0] == 0) return bad(g, KN_ERR_SHAPE, nd, "a scalar keeps its item size");
    int64_t *last = &out[in[0]], bytes;
    if (*last < 0 || !kn_mul_ok(*last, from, &bytes) || bytes % to)
        return bad(g, KN_ERR_SHAPE, nd, "the last axis does not divide into items of the new dtype");
    *last = bytes / to;
    return true;
}

static bool shape_buffer(kn_graph *g, const kn_node *nd, int64_t *out) {
    const int64_t *w = g->at.words[nd->arg];
    int64_t        n = kg_device_count(g, (uint32_t)w[KN_F_BUFFER_device]), size = w[KN_F_BUFFER_size];
    if (size < 0 || !kn_mul_ok(size, n, &size)) return bad(g, KN_ERR_SHAPE, nd, "size out of range");
    out[0] = 1;
    out[1] = size;
    return true;
}

/* The shards, one after the other along the sharded axis, become one. */
static bool shape_allreduce(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *out) {
    const int64_t *w = g->at.words[nd->arg], *in = kg_prop(g, src[0])->shape, op = w[KN_F_ALLREDUCE_op];
    int64_t        n = kg_device_count(g, (uint32_t)w[KN_F_ALLREDUCE_devices]);
    int            axis = kg_axis(g, src[0]);
    if (op != KN_OP_ADD && op != KN_OP_MUL && op != KN_OP_MAX && op != KN_OP_MIN)
        return bad(g, KN_ERR_ARG, nd, "op must be ADD, MUL, MAX or MIN");
    memcpy(out, in, (size_t)(in[0] + 1) * sizeof *out);
    if (n == 1) return true;
    if (axis < 0 || kg_device(g, src[0]) != (uint32_t)w[KN_F_ALLREDUCE_devices])
        return bad(g, KN_ERR_DEVICE, nd, "its source must be shared out among its devices");
    out[axis + 1] /= n; /* a number: a sharded axis is one */
    return true;
}

static bool shape_range(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *out) {
    const int64_t *w = g->at.words[nd->arg];
    if (kg_dtype(g, src[0]) != KN_INDEX || kg_rank(g, src[0]))
        return bad(g, KN_ERR_DTYPE, nd, "the bound must be an index scalar");
    int64_t rank = w[KN_F_RANGE_rank], axis = w[KN_F_RANGE_axis];
    if (rank < 0 || rank > KN_MAX_RANK || axis < 0 || (rank && axis >= rank))
        return bad(g, KN_ERR_ARG, nd, "no such axis");
    if (w[KN_F_RANGE_type] < 0 || w[KN_F_RANGE_type] >= KN_AXIS_COUNT)
        return bad(g, KN_ERR_ARG, nd, "unknown axis type");
    out[0] = rank;
    for (int64_t i = 0; i < rank; i++) out[i + 1] = 1;
    if (!rank) return true;
    bool fixed = kg_op(g, src[0]) == KN_OP_CONST;
    if (fixed && kg_const_int(g, src[0]) < 0) return bad(g, KN_ERR_SHAPE, nd, "the bound is negative");
    out[axis + 1] = fixed ? kg_const_int(g, src[0]) : -(int64_t)src[0];
    return true;
}

static bool shape_bufferize(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *out) {
    const int64_t *in = kg_prop(g, src[0])->shape;
    if (in[0] + nd->nsrc - 1 > KN_MAX_RANK) return bad(g, KN_ERR_SHAPE, nd, "too many dimensions");
    out[0] = in[0] + nd->nsrc - 1;
    for (uint32_t i = 1; i < nd->nsrc; i++) {
        if (kg_op(g, src[i]) != KN_OP_RANGE) return bad(g, KN_ERR_ARG, nd, "closes only ranges");
        kn_ref b = kg_at(g, src[i], 0);
        out[i]   = kg_op(g, b) == KN_OP_CONST ? kg_const_int(g, b) : -(int64_t)b;
    }
    memcpy(out + nd->nsrc, in + 1, (size_t)in[0] * sizeof *out);
    return true;
}

static bool check_ranges(kn_graph *g, const kn_node *nd, const kn_ref *src) {
    for (uint32_t i = 1; i < nd->nsrc; i++)
        if (kg_op(g, src[i]) != KN_OP_RANGE) return bad(g, KN_ERR_ARG, nd, "closes only ranges");
    return true;
}

/* A BARRIER whose first source has a value is the bestiary's. */
static bool check_effects(kn_graph *g, const kn_node *nd, const kn_ref *src) {
    for (uint32_t i = 0; i < nd->nsrc; i++)
        if (kg_dtype(g, src[i]) != KN_VOID)
            return bad(g, KN_ERR_DTYPE, nd, "waits for effects; GROUP makes one of a value");
    return true;
}

bool kg_infer_shape(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *out) {
    const int64_t *w  = kn_arg_is_words(kn_ops[nd->op].arg) ? g->at.words[nd->arg] : NULL;
    const int64_t *in = nd->nsrc ? kg_prop(g, src[0])->shape : NULL;
    switch (shape_rule[nd->op]) {
    case SH_NIL:
        out[0] = 0;
        if (nd->op == KN_OP_END) return check_ranges(g, nd, src);
        if (nd->op == KN_OP_BARRIER) return check_effects(g, nd, src);
        if (nd->op == KN_OP_STORE) {
            int64_t t[KN_MAX_RANK + 1];
            if (kg_dtype(g, src[0]) != kg_dtype(g, src[1]))
                return bad(g, KN_ERR_DTYPE, nd, "value and target differ in dtype");
            if (nd->nsrc > 2 && kg_dtype(g, src[2]) != KN_BOOL)
                return bad(g, KN_ERR_DTYPE, nd, "the gate must be bool");
            if (!broadcast(g, nd, src, t)) return false;
            if (product(t) != product(in))
                return bad_shapes(g, nd, src[0], src[1], "the value is larger than the target");
        }
        return true;
    case SH_SRC0:
        memcpy(out, in, (size_t)(in[0] + 1) * sizeof *out);
        if (nd->op == KN_OP_FLIP && w[-1] != in[0]) return bad(g, KN_ERR_SHAPE, nd, "needs a flag an axis");
        if (nd->op == KN_OP_LOAD && nd->nsrc > 1) {
            if (nd->nsrc != 3) return bad(g, KN_ERR_ARG, nd, "takes 1 source, or 3 with alt and gate");
            if (kg_dtype(g, src[1]) != kg_dtype(g, src[0]) || kg_dtype(g, src[2]) != KN_BOOL)
                return bad(g, KN_ERR_DTYPE, nd, "alt must have the buffer's dtype and gate be bool");
            return broadcast(g, nd, src, out);
        }
        return true;
    case SH_SRC2: in = kg_prop(g, src[2])->shape; memcpy(out, in, (size_t)(in[0] + 1) * sizeof *out); return true;
    case SH_CAST: return broadcast(g, nd, src, out);
    case SH_PARAM: return dims_of(g, nd, src[0], out, true);
    case SH_BUFFER: return shape_buffer(g, nd, out);
    case SH_INS:
        if (w[KN_F_INS_lanes] < 0 || w[KN_F_INS_lanes] > KN_MAX_LANES || !kn_is_alu((int)w[KN_F_INS_op]))
            return bad(g, KN_ERR_ARG, nd, "needs an elementwise op and a number of lanes that a register may hold");
        out[0] = w[KN_F_INS_lanes] > 0;
        out[1] = w[KN_F_INS_lanes];
        return true;
    case SH_BYTES: {
        size_t len;
        kg_str(g, (uint32_t)nd->arg, &len);
        out[0] = 1;
        out[1] = (int64_t)len;
        return true;
    }
    case SH_PERMUTE: return shape_permute(g, nd, src, out);
    case SH_SHAPE:
        if (!dims_of(g, nd, src[1], out, true)) return false;
        if (product(out) != product(in)) {
            char t[120];
            kg_shape_text(g, src[0], t, sizeof t);
            return kn_fail(&g->fault, KN_ERR_SHAPE, "RESHAPE: %s has %lld elements, the new shape asks for %lld", t,
                           (long long)product(in), (long long)product(out));
        }
        return true;
    case SH_EXPAND:
        if (!dims_of(g, nd, src[1], out, true)) return false;
        if (out[0] != in[0]) return bad(g, KN_ERR_SHAPE, nd, "needs a size an axis");
        for (int i = 1; i <= in[0]; i++)
            if (in[i] != out[i] && in[i] != 1) return bad(g, KN_ERR_SHAPE, nd, "only axes of size 1 can grow");
        return true;
    case SH_PAD: return shape_box(g, nd, src, true, out);
    case SH_SHRINK: return shape_box(g, nd, src, false, out);
    case SH_INDEX: return shape_index(g, nd, src, out);
    case SH_STACK: return shape_stack(g, nd, src, out);
    case SH_COLLAPSE: return shape_collapse(g, nd, src, w, (int)w[-1], out);
    case SH_SLICE:
        if (w[KN_F_SLICE_size] < 0) return bad(g, KN_ERR_SHAPE, nd, "size is negative");
        out[0] = 1;
        out[1] = w[KN_F_SLICE_size];
        return true;
    case SH_BITCAST: return shape_bitcast(g, nd, src, out);
    case SH_REDUCE:
        if (w[KN_F_REDUCE_op] == KN_OP_FUNCTION)
            return shape_fold(g, nd, src, w + KN_REDUCE_WORDS, (int)w[-1] - KN_REDUCE_WORDS, out);
        if (w[0] != KN_OP_ADD && w[0] != KN_OP_MUL && w[0] != KN_OP_MAX && w[0] != KN_OP_MIN)
            return bad(g, KN_ERR_ARG, nd, "op must be ADD, MUL, MAX, MIN or FUNCTION");
        if (w[KN_F_REDUCE_prefix] && (nd->nsrc < 2 || w[-1] != KN_REDUCE_WORDS))
            return bad(g, KN_ERR_ARG, nd, "a prefix runs along ranges");
        return check_ranges(g, nd, src) &&
               shape_collapse(g, nd, src, w + KN_REDUCE_WORDS, (int)w[-1] - KN_REDUCE_WORDS, out);
    case SH_GETTUPLE: {
        if (kg_op(g, src[0]) == KN_OP_REDUCE) { /* a fold: its results are of one shape, its own */
            in = kg_prop(g, src[0])->shape;
            memcpy(out, in, (size_t)(in[0] + 1) * sizeof *out);
            return true;
        }
        kn_ref t = kg_op(g, src[0]) == KN_OP_TUPLE ? src[0] : kg_at(g, src[0], 0);
        t        = kg_is_custom(g, src[0]) ? kg_custom_result(g, src[0], (int)nd->arg) : kg_at(g, t, (uint32_t)nd->arg);
        in       = kg_prop(g, t)->shape;
        memcpy(out, in, (size_t)(in[0] + 1) * sizeof *out);
        return true;
    }
    case SH_ALLREDUCE: return shape_allreduce(g, nd, src, out);
    case SH_RANGE: return shape_range(g, nd, src, out);
    case SH_BUFFERIZE: return shape_bufferize(g, nd, src, out);
    default: return bad(g, KN_ERR_INTERNAL, nd, "no shape rule");
    }
}
