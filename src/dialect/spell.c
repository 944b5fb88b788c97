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
};
#undef NAME
const kn_spelling kn_spell_pad    = {"PAD", KN_OP_PAD, KN_ARG_AXES, KN_SPELL_BOX, -1, -1};
const kn_spelling kn_spell_shrink = {"SHRINK", KN_OP_SHRINK, KN_ARG_AXES, KN_SPELL_BOX, -1, -1};

const kn_spelling *kn_spelling_of(const char *name, size_t len) {
    for (int i = 0; i < KN_COUNT(spellings); i++)
        if (strlen(spellings[i].name) == len && !memcmp(spellings[i].name, name, len)) return &spellings[i];
    return NULL;
}

int kn_spelled_dtype(const char *name, size_t len) {
    static const struct {
        const char *name;
        int         dtype;
    } names[] = {{"Bool", KN_BOOL},     {"Int8", KN_I8},        {"Int16", KN_I16},      {"Int32", KN_I32},
                 {"Int64", KN_I64},     {"UInt8", KN_U8},       {"UInt16", KN_U16},     {"UInt32", KN_U32},
                 {"UInt64", KN_U64},    {"FP8E4M3", KN_F8E4M3}, {"FP8E5M2", KN_F8E5M2}, {"Float16", KN_F16},
                 {"BFloat16", KN_BF16}, {"Float32", KN_F32},    {"Float64", KN_F64},    {"Index", KN_INDEX},
                 {"Void", KN_VOID}};
    for (int i = 0; i < KN_COUNT(names); i++)
        if (strlen(names[i].name) == len && !memcmp(names[i].name, name, len)) return names[i].dtype;
    return -1;
}

static kn_ref spell_refuse(kn_graph *g, const char *name, const char *what) {
    kn_fail(&g->fault, KN_ERR_ARG, "%s: %s", name, what);
    return 0;
}

/* (before, behind) of each axis becomes the offset and the shape. */
static kn_ref spell_box(kn_graph *g, int op, uint64_t arg, const kn_ref *src, uint32_t nsrc) {
    const int64_t *w = g->words[arg];
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
    const int64_t *w = g->words[arg];
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

/* Vectors end to end: lane by lane. */
static kn_ref spell_cat(kn_graph *g, const kn_ref *src, uint32_t nsrc) {
    enum { MOST = 4096 };
    int64_t lanes = 0;
    kn_ref  n     = 0;
    for (uint32_t i = 0; i < nsrc; i++) {
        int64_t size = kg_numel(g, src[i]);
        if (kg_rank(g, src[i]) > 1 || size < 0 || size > MOST || (lanes += size) > MOST)
            return spell_refuse(g, "CAT", "takes scalars and vectors, of 4096 lanes in all");
    }
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

/* blockIdx.x is gidx0, threadIdx.y is lidx1. */
static uint64_t special_name(kn_graph *g, uint64_t arg) {
    size_t      len;
    const char *t = kg_str(g, (uint32_t)arg, &len);
    char        name[8];
    bool        block = len == 10 && !memcmp(t, "blockIdx.", 9), thread = len == 11 && !memcmp(t, "threadIdx.", 10);
    if ((!block && !thread) || t[len - 1] < 'x' || t[len - 1] > 'z') return arg;
    snprintf(name, sizeof name, "%cidx%d", block ? 'g' : 'l', t[len - 1] - 'x');
    return kg_intern_str(g, name, strlen(name));
}

/* Forms that need no other name: the sources tell them apart. */
static kn_ref spell_op(kn_graph *g, int op, int dtype, uint16_t tag, uint64_t arg, kn_ref *src, uint32_t n) {
    bool index = n >= 2 && kg_op(g, src[1]) == KN_OP_INDEX && kg_at(g, src[1], 0) == src[0];
    if (op == KN_OP_LOAD && n == 2 && index) return kg_make_tag(g, op, dtype, tag, arg, src + 1, 1);
    if (op == KN_OP_STORE && n >= 3 && index) { /* (buffer, index, value, ranges...) */
        kn_ref s = kg_make_tag(g, op, dtype, tag, arg, src + 1, 2);
        return s ? kg_end(g, s, src + 3, (int)n - 3) : 0;
    }
    if (op == KN_OP_BARRIER && n >= 1 && kg_dtype(g, src[0]) != KN_VOID) { /* (value, deps...) */
        kn_ref b = kg_make_tag(g, op, dtype, tag, arg, n > 1 ? src + 1 : NULL, n - 1);
        return b ? kg_after(g, src[0], &b, 1) : 0;
    }
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
    case KN_SPELL_BOX: return spell_box(g, op, arg, src, n);
    default: return spell_op(g, op, dtype, tag, arg, src, n);
    }
}
