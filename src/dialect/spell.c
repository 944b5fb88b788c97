/* spell.c - the bestiary's spellings as nodes of the one dialect. */
#include "dialect/spell.h"

#include "dialect/graph.h"

#include <string.h>

#define NAME(name, op) \
    { name, KN_OP_##op, KN_ARG_COUNT, KN_SPELL_NAME, -1, -1 }
static const kn_spelling spellings[] = {
    NAME("LT", CMPLT),
    NAME("NE", CMPNE),
    NAME("GT", CMPGT),
    NAME("GE", CMPGE),
    NAME("LE", CMPLE),
    NAME("EQ", CMPEQ),
    NAME("REDUCE_AXIS", REDUCE),
    NAME("VECTORIZE", STACK),
    NAME("VCONST", STACK),
    NAME("PTRCAT", STACK),
    NAME("DEFINE_GLOBAL", PARAM),
    {"DEFINE_LOCAL", KN_OP_BUFFER, KN_ARG_BUFFER, KN_SPELL_NAME, KN_LOCAL, -1},
    {"DEFINE_REG", KN_OP_BUFFER, KN_ARG_BUFFER, KN_SPELL_NAME, KN_REG, -1},
    {"DEFINE_VAR", KN_OP_PARAM, KN_ARG_PARAM, KN_SPELL_VAR, -1, KN_INDEX},
    {"COPY", KN_OP_LOAD, KN_ARG_LOAD, KN_SPELL_NAME, KN_GLOBAL, -1},
    {"CONTIGUOUS", KN_OP_LOAD, KN_ARG_LOAD, KN_SPELL_NAME, KN_GLOBAL, -1},
    {"KERNEL", KN_OP_CALL, KN_ARG_NONE, KN_SPELL_KERNEL, -1, -1},
    {"POINTER_INDEX", KN_OP_INDEX, KN_ARG_NONE, KN_SPELL_POINTER, -1, -1},
    {"GEP", KN_OP_INDEX, KN_ARG_AXES, KN_SPELL_GEP, -1, -1},
    {"CAT", KN_OP_STACK, KN_ARG_NONE, KN_SPELL_CAT, -1, -1},
    {"UNIQUE", KN_OP_CONST, KN_ARG_INT, KN_SPELL_UNIQUE, -1, -1},
    NAME("DEVICE", SOURCE),
    {"UNROLL", KN_OP_RESHAPE, KN_ARG_AXES, KN_SPELL_UNROLL, -1, -1},
    {"CONTRACT", KN_OP_RESHAPE, KN_ARG_AXES, KN_SPELL_CONTRACT, -1, -1},
};
#undef NAME
const kn_spelling kn_spell_pad    = {"PAD", KN_OP_PAD, KN_ARG_AXES, KN_SPELL_BOX, -1, -1};
const kn_spelling kn_spell_shrink = {"SHRINK", KN_OP_SHRINK, KN_ARG_AXES, KN_SPELL_BOX, -1, -1};

const kn_spelling *kn_spelling_of(const char *name, size_t len) {
    for (int i = 0; i < KN_COUNT(spellings); i++)
        if (strlen(spellings[i].name) == len && !memcmp(spellings[i].name, name, len)) return &spellings[i];
    return NULL;
}

static const char *const dtype_spelling[KN_DTYPE_COUNT] = {
    [KN_VOID] = "Void",       [KN_BOOL] = "Bool",       [KN_I8] = "Int8",     [KN_I16] = "Int16",
    [KN_I32] = "Int32",       [KN_I64] = "Int64",       [KN_U8] = "UInt8",    [KN_U16] = "UInt16",
    [KN_U32] = "UInt32",      [KN_U64] = "UInt64",      [KN_F8E4M3] = "FP8E4M3", [KN_F8E5M2] = "FP8E5M2",
    [KN_F16] = "Float16",     [KN_BF16] = "BFloat16",   [KN_F32] = "Float32", [KN_F64] = "Float64",
    [KN_INDEX] = "Index"};
const char *const kn_axis_spelling[KN_AXIS_COUNT]   = {"Device", "Outer", "Loop",   "Global", "Thread", "Warp",
                                                       "Local",  "GroupReduce", "Upcast", "Reduce", "Unroll"};
const char *const kn_space_spelling[KN_SPACE_COUNT] = {"Global", "Local", "Reg"};

const char *kn_dtype_spelling(int dtype) {
    return dtype_spelling[dtype];
}

int kn_spelled_dtype(const char *name, size_t len) {
    for (int i = 0; i < KN_DTYPE_COUNT; i++)
        if (strlen(dtype_spelling[i]) == len && !memcmp(dtype_spelling[i], name, len)) return i;
    return -1;
}

const char *kn_op_spelling(int op) {
    return op == KN_OP_CMPLT   ? "LT"
           : op == KN_OP_CMPNE ? "NE"
           : op == KN_OP_CMPGT ? "GT"
           : op == KN_OP_CMPGE ? "GE"
           : op == KN_OP_CMPLE ? "LE"
           : op == KN_OP_CMPEQ ? "EQ"
                               : kn_ops[op].name;
}

int kn_spelled_range_start(const char *name, size_t len) {
    int op = kn_op_by_name(name, len);
    return op == KN_OP_STORE ? 3 : op < 0 ? -1 : kn_range_start(op);
}

static kn_ref spell_refuse(kn_graph *g, const char *name, const char *what) {
    kn_fail(&g->fault, KN_ERR_ARG, "%s: %s", name, what);
    return 0;
}

/* (before, behind) of each axis becomes the offset and the shape. */
static kn_ref spell_box(kn_graph *g, int op, uint64_t arg, const kn_ref *src, uint32_t nsrc) {
    const int64_t *w = g->at.words[arg];
    int64_t        dims[KN_MAX_RANK];
    if (nsrc != 1) return spell_refuse(g, kn_ops[op].name, "takes one source when its arg has the extents");
    int            rank;
    const int64_t *in = kg_shape(g, src[0], &rank);
    if (w[-1] != 2 * rank) return spell_refuse(g, kn_ops[op].name, "the lists need an entry an axis");
    for (int i = 0; i < rank; i++) {
        int64_t begin = w[i], end = w[rank + i];
        if (begin < 0 || end < 0 || in[i] < 0)
            return spell_refuse(g, kn_ops[op].name, "an extent is negative or symbolic");
        if (op == KN_OP_SHRINK)
            dims[i] = end - begin; /* begins and ends are places */
        else if (!kn_add_ok(in[i], begin, &dims[i]) || !kn_add_ok(dims[i], end, &dims[i]))
            return spell_refuse(g, kn_ops[op].name, "a size is out of range");
        if (dims[i] < 0) return spell_refuse(g, kn_ops[op].name, "an end lies before its begin");
    }
    kn_ref offset = kg_dims_node(g, w, rank), shape = kg_dims_node(g, dims, rank);
    return kg_op3(g, op, src[0], offset, shape);
}

static kn_ref spell_gep(kn_graph *g, uint64_t arg, const kn_ref *src, uint32_t nsrc) {
    const int64_t *w = g->at.words[arg];
    if (nsrc != 1 || w[-1] < 1 || w[-1] > INT32_MAX)
        return spell_refuse(g, "GEP", "takes one source and at least one place");
    if (w[-1] == 1) {
        kn_ref i = kg_idx(g, w[0]);
        return kg_index(g, src[0], &i, 1);
    }
    size_t  size = (size_t)w[-1] * sizeof(kn_ref);
    kn_ref *at = kn_realloc(g->alloc, NULL, 0, size), n = 0;
    if (!at) return kn_oom(&g->fault), 0;
    for (int64_t i = 0; i < w[-1]; i++) at[i] = kg_idx(g, w[i]);
    kn_ref list = kg_list(g, KN_OP_STACK, at, (int)w[-1]);
    if (list) n = kg_index(g, src[0], &list, 1);
    kn_free(g->alloc, at, size);
    return n;
}

/* Vectors end to end: of one width a stack of them, laid out flat; else lane by lane. */
static kn_ref spell_cat(kn_graph *g, const kn_ref *src, uint32_t nsrc) {
    enum { MOST = 4096 };
    int64_t lanes = 0;
    kn_ref  n     = 0;
    for (uint32_t i = 0; i < nsrc; i++) {
        int64_t size = kg_numel(g, src[i]);
        if (kg_rank(g, src[i]) > 1 || size < 0 || size > MOST || (lanes += size) > MOST)
            return spell_refuse(g, "CAT", "takes scalars and vectors, of 4096 lanes in all");
    }
    bool equal = nsrc > 1;
    for (uint32_t i = 0; i < nsrc; i++) equal = equal && kg_rank(g, src[i]) == 1 && kg_same_shape(g, src[i], src[0]);
    if (equal) return kg_reshape(g, kg_list(g, KN_OP_STACK, src, (int)nsrc), &lanes, 1);
    size_t  size = ((size_t)lanes + 1) * sizeof(kn_ref);
    kn_ref *lane = kn_realloc(g->alloc, NULL, 0, size);
    int     k    = 0;
    if (!lane) return kn_oom(&g->fault), 0;
    for (uint32_t i = 0; i < nsrc; i++) {
        int64_t width = kg_rank(g, src[i]) ? kg_numel(g, src[i]) : 1;
        for (int64_t l = 0; l < width; l++) {
            kn_ref at = kg_idx(g, l);
            lane[k++] = kg_rank(g, src[i]) ? kg_index(g, src[i], &at, 1) : src[i];
        }
    }
    n = kg_list(g, KN_OP_STACK, lane, k);
    kn_free(g->alloc, lane, size);
    return n;
}

/* (axis, factor) pairs. The lanes of x's last axis, row-major in the order of the pairs, become leading axes; what is
 * left of that axis stays, unless it is one. CONTRACT takes leading axes back behind the others; one of size 1, along
 * which a value does not change, is repeated. */
static kn_ref spell_unroll(kn_graph *g, uint64_t arg, const kn_ref *src, uint32_t nsrc, bool contract) {
    const int64_t *w    = g->at.words[arg];
    const char    *name = contract ? "CONTRACT" : "UNROLL";
    int            n    = (int)(w[-1] / 2), rank;
    int64_t        dims[KN_MAX_RANK + 1], order[KN_MAX_RANK + 1], lanes = 1;
    if (nsrc != 1 || w[-1] % 2 || n < 1 || n > KN_MAX_RANK)
        return spell_refuse(g, name, "takes one source and (axis, factor) pairs");
    const int64_t *in = kg_shape(g, src[0], &rank);
    if (rank + n > KN_MAX_RANK) return spell_refuse(g, name, "too many dimensions");
    for (int i = 0; i < n; i++) {
        bool ascends = w[2 * i] >= 0 && (!i || w[2 * i] > w[2 * i - 2]);
        if (!ascends || w[2 * i + 1] < 1 || !kn_mul_ok(lanes, w[2 * i + 1], &lanes))
            return spell_refuse(g, name, "axes ascend, and factors are at least 1");
    }
    if (!contract) {
        int64_t last = rank ? in[rank - 1] : 1;
        if (last < 0 || last % lanes) return spell_refuse(g, name, "the factors do not divide the last axis");
        if (!rank && lanes > 1) return spell_refuse(g, name, "the source has no lanes");
        int outer = rank ? rank - 1 : 0, rest = last / lanes > 1;
        for (int i = 0; i < outer; i++) dims[i] = in[i];
        for (int i = 0; i < n; i++) dims[outer + i] = w[2 * i + 1];
        dims[outer + n] = last / lanes;
        for (int i = 0; i < outer + n + rest; i++) order[i] = i < n ? outer + i : i < n + outer ? i - n : i;
        kn_ref x = kg_reshape(g, src[0], dims, outer + n + rest);
        return outer ? kg_permute(g, x, order, outer + n + rest) : x;
    }
    if (rank < n) return spell_refuse(g, name, "the source lacks the leading axes");
    bool grow = false;
    for (int i = 0; i < rank; i++) {
        dims[i] = i < n ? w[2 * i + 1] : in[i];
        if (in[i] < 0 || (in[i] != dims[i] && in[i] != 1)) return spell_refuse(g, name, "an axis has another size");
        grow     = grow || in[i] != dims[i];
        order[i] = i < rank - n ? n + i : i - (rank - n);
    }
    kn_ref x = grow ? kg_expand(g, src[0], dims, rank) : src[0];
    if (rank > n) x = kg_permute(g, x, order, rank);
    for (int i = 0; i < rank - n; i++) dims[i] = dims[n + i];
    dims[rank - n] = lanes;
    return kg_reshape(g, x, dims, rank - n + 1);
}

/* IF(condition, body...): what it brackets in a LINEAR. What the condition needs stands before it. */
static kn_ref spell_if(kn_graph *g, uint16_t tag, const kn_ref *src, uint32_t nsrc) {
    kn_ref  *before = NULL, *inside = NULL, *list = NULL, r = 0;
    uint32_t nbefore = 0, ninside = 0;
    kn_ref   open    = kg_make_tag(g, KN_OP_IF, 0, tag, 0, src, 1);
    kn_ref   close   = open ? kg_op1(g, KN_OP_ENDIF, open) : 0;
    size_t   cap     = 0;
    if (!close) return 0;
    if (kg_reach(g, src, 1, &before, &nbefore) && kg_reach(g, src + 1, (int)nsrc - 1, &inside, &ninside)) {
        cap  = (size_t)nbefore + ninside + 2;
        list = kn_realloc(g->alloc, NULL, 0, cap * sizeof *list);
    }
    if (list) {
        int n = 0;
        for (uint32_t i = 0; i < nbefore; i++)
            if (kg_op(g, before[i]) != KN_OP_CONST && kg_op(g, before[i]) != KN_OP_STACK) list[n++] = before[i];
        list[n++] = open;
        for (uint32_t i = 0, k = 0; i < ninside; i++) {
            while (k < nbefore && before[k] < inside[i]) k++;
            bool there = (k < nbefore && before[k] == inside[i]) || kg_op(g, inside[i]) == KN_OP_CONST ||
                         kg_op(g, inside[i]) == KN_OP_STACK;
            if (!there) list[n++] = inside[i];
        }
        list[n++] = close;
        r         = kg_list(g, KN_OP_LINEAR, list, n);
    } else {
        kn_oom(&g->fault);
    }
    kn_free(g->alloc, before, nbefore * sizeof *before);
    kn_free(g->alloc, inside, ninside * sizeof *inside);
    kn_free(g->alloc, list, cap * sizeof *list);
    return r;
}

/* The UNIQUE and DEVICE sources of a BUFFER, and the DEVICE of COPY and ALLREDUCE, go into the arg. */
static uint64_t fold_place(kn_graph *g, int op, uint64_t arg, const kn_ref *src, uint32_t *n) {
    int64_t        w[16];
    const int64_t *was  = g->at.words[arg];
    int            keep = op == KN_OP_BUFFER ? 0 : 1, count = (int)was[-1];
    int            at   = op == KN_OP_BUFFER   ? KN_F_BUFFER_device
                          : op == KN_OP_LOAD   ? KN_F_LOAD_device
                                               : KN_F_ALLREDUCE_devices;
    bool           changed = false;
    if (count > KN_COUNT(w)) return arg;
    memcpy(w, was, (size_t)count * sizeof *w);
    while ((int)*n > keep) {
        kn_ref x = src[*n - 1];
        if (kg_op(g, x) == KN_OP_SOURCE)
            w[at] = (int64_t)kg_node(g, x)->arg;
        else if (op == KN_OP_BUFFER && kg_op(g, x) == KN_OP_CONST && kg_dtype(g, x) == KN_INDEX)
            w[KN_F_BUFFER_slot] = kg_const_int(g, x);
        else
            break;
        changed = true;
        --*n;
    }
    return changed ? kg_intern_words(g, w, count) : arg;
}

/* blockIdx.x is gidx0, threadIdx.y is lidx1. */
static uint64_t special_name(kn_graph *g, uint64_t arg) {
    size_t      len;
    const char *t = kg_str(g, (uint32_t)arg, &len);
    char        name[16];
    bool        block = len == 10 && !memcmp(t, "blockIdx.", 9), thread = len == 11 && !memcmp(t, "threadIdx.", 10);
    if ((!block && !thread) || t[len - 1] < 'x' || t[len - 1] > 'z') return arg;
    snprintf(name, sizeof name, "%cidx%d", block ? 'g' : 'l', t[len - 1] - 'x');
    return kg_intern_str(g, name, strlen(name));
}

/* Forms that need no other name: the sources tell them apart. */
static kn_ref spell_op(kn_graph *g, int op, int dtype, uint16_t tag, uint64_t arg, kn_ref *src, uint32_t n) {
    bool index = n >= 2 && kg_op(g, src[1]) == KN_OP_INDEX && kg_at(g, src[1], 0) == src[0];
    if (op == KN_OP_LOAD && n == 2 && index) return kg_make_tag(g, op, dtype, tag, arg, src + 1, 1);
    bool gated = n == 3 && kg_dtype(g, src[2]) == KN_BOOL && kg_dtype(g, src[0]) != KN_BOOL; /* (target, value, gate) */
    if (op == KN_OP_STORE && n >= 3 && index && !gated) { /* (buffer, index, value, ranges...) */
        kn_ref s = kg_make_tag(g, op, dtype, tag, arg, src + 1, 2);
        return s ? kg_end(g, s, src + 3, (int)n - 3) : 0;
    }
    if (op == KN_OP_BARRIER && n >= 1 && kg_dtype(g, src[0]) != KN_VOID) { /* (value, deps...) */
        kn_ref b = kg_make_tag(g, op, dtype, tag, arg, n > 1 ? src + 1 : NULL, n - 1);
        return b ? kg_after(g, src[0], &b, 1) : 0;
    }
    if (op == KN_OP_IF && n > 1) return spell_if(g, tag, src, n);
    if (op == KN_OP_ENDIF && n == 1 && kg_op(g, src[0]) == KN_OP_LINEAR) return src[0]; /* it has its ENDIF */
    if ((op == KN_OP_BUFFER || op == KN_OP_LOAD || op == KN_OP_ALLREDUCE) &&
        !(arg = fold_place(g, op, arg, src, &n)))
        return 0;
    if (op == KN_OP_SPECIAL && arg && !(arg = special_name(g, arg))) return 0;
    return kg_make_tag(g, op, dtype, tag, arg, src, n);
}

kn_ref kn_spell_node(kn_graph *g, const kn_spelling *s, int op, int dtype, uint16_t tag, uint64_t arg, kn_ref *src,
                     uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!src[i]) return 0;
    switch (s ? s->how : KN_SPELL_NAME) {
    case KN_SPELL_VAR: {
        kn_ref scalar = kg_dims_node(g, NULL, 0);
        return kg_make_tag(g, op, dtype, tag, arg, n ? src : &scalar, n ? n : 1);
    }
    case KN_SPELL_KERNEL:
        if (n) {
            kn_ref body = src[n - 1];
            memmove(src + 1, src, (n - 1) * sizeof *src);
            src[0] = body;
        }
        return kg_make_tag(g, op, dtype, tag, arg, src, n);
    case KN_SPELL_POINTER: return kg_make_tag(g, op, dtype, tag, 1, src, n);
    case KN_SPELL_GEP: return spell_gep(g, arg, src, n);
    case KN_SPELL_CAT: return spell_cat(g, src, n);
    case KN_SPELL_UNIQUE: return kg_idx(g, (int64_t)arg);
    case KN_SPELL_UNROLL:
    case KN_SPELL_CONTRACT: return spell_unroll(g, arg, src, n, s->how == KN_SPELL_CONTRACT);
    case KN_SPELL_BOX: return spell_box(g, op, arg, src, n);
    default: return spell_op(g, op, dtype, tag, arg, src, n);
    }
}
