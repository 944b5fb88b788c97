/* uop.c - nodes and their interning.
 *
 * Contract: kg_make returns the one node of that (op, dtype, tag, arg, sources), making it and its eager properties if
 * it is new. Nothing made is ever changed or moved. A failure leaves the graph as it was, but for the fault. */
#include "dialect/graph.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(kn_node) == 32, "a node is 32 bytes: two to a cache line");

const kn_op_info kn_ops[KN_OP_COUNT] = {
#define OP(name, lo, hi, arg, cls, dt, sh, doc) {#name, lo, hi, KN_ARG_##arg, KN_CLS_##cls, doc},
#include "dialect/ops.def"
#undef OP
};

const kn_dtype_info kn_dtypes[KN_DTYPE_COUNT] = {
#define DTYPE(name, text, value, bytes, kind, min, max) {text, bytes, #kind[0], min, max},
#include "dialect/dtypes.def"
#undef DTYPE
};

/* A word kind's fields, in order: expanded once a kind, keeping only the lines that name it. */
#define KN_TYPE_INT 'i'
#define KN_TYPE_DTYPE 't'
#define KN_TYPE_SPACE 'a'
#define KN_TYPE_STR 's'
#define KN_TYPE_OP 'o'
#define KN_TYPE_AXIS 'x'
#define KN_TYPE_BOOL 'b'
typedef struct kn_field_row {
    kn_arg_kind kind;
    kn_field    field;
} kn_field_row;
#define INLINE(name)
#define WORDS(name) {KN_ARG_##name, {NULL, 0, 0}},
#define FIELD(kind, name, type, dflt) {KN_ARG_##kind, {#name, KN_TYPE_##type, dflt}},
#define LIST(kind, name) {KN_ARG_##kind, {#name, 'l', 0}},
/* One list of all rows; a kind's fields are a run in it that starts behind its WORDS row and ends at the next. */
static const kn_field_row field_rows[] = {
#define FIXED(kind)
#include "dialect/args.def"
#undef FIXED
    {KN_ARG_COUNT, {NULL, 0, 0}},
};
#undef INLINE
#undef WORDS
#undef FIELD
#undef LIST

static const char *const arg_names[KN_ARG_COUNT] = {
#define INLINE(name) #name,
#define WORDS(name) #name,
#define FIELD(kind, name, type, dflt)
#define LIST(kind, name)
#define FIXED(kind)
#include "dialect/args.def"
#undef FIXED
#undef INLINE
#undef WORDS
#undef FIELD
#undef LIST
};

kn_arg_info kn_arg_info_of(kn_arg_kind kind) {
    kn_arg_info info = {arg_names[kind], false, 0, false};
    for (int i = 0; i < KN_COUNT(field_rows); i++) {
        const kn_field_row *r = &field_rows[i];
        if (r->kind != kind) continue;
        info.words = true;
        if (!r->field.name) continue;
        if (r->field.type == 'l') info.list = true;
        else info.fixed++;
    }
    return info;
}

const kn_field *kn_arg_field(kn_arg_kind kind, int index) {
    for (int i = 0; i < KN_COUNT(field_rows); i++) {
        const kn_field_row *r = &field_rows[i];
        if (r->kind == kind && r->field.name && index-- == 0) return &r->field;
    }
    return NULL;
}

const char *const kn_space_names[KN_SPACE_COUNT] = {"GLOBAL", "LOCAL", "REG"};
const char *const kn_axis_names[KN_AXIS_COUNT]   = {"DEVICE", "OUTER", "LOOP",   "GLOBAL", "THREAD", "WARP",
                                                    "LOCAL",  "GROUP_REDUCE", "UPCAST", "REDUCE", "UNROLL"};

int kn_op_by_name(const char *name, size_t len) {
    for (int i = 0; i < KN_OP_COUNT; i++)
        if (strlen(kn_ops[i].name) == len && !memcmp(kn_ops[i].name, name, len)) return i;
    return -1;
}

int kn_dtype_by_name(const char *name, size_t len) {
    for (int i = 0; i < KN_DTYPE_COUNT; i++)
        if (strlen(kn_dtypes[i].name) == len && !memcmp(kn_dtypes[i].name, name, len)) return i;
    return -1;
}

bool kn_is_commutative(int op) {
    switch (op) {
    case KN_OP_ADD: case KN_OP_MUL: case KN_OP_MAX: case KN_OP_MIN: case KN_OP_XOR: case KN_OP_OR: case KN_OP_AND:
    case KN_OP_CMPNE: case KN_OP_CMPEQ: return true;
    default: return false;
    }
}

int kn_range_start(int op) {
    switch (op) {
    case KN_OP_BUFFERIZE: case KN_OP_REDUCE: case KN_OP_END: return 1;
    case KN_OP_WMMA: return 3;
    default: return -1;
    }
}

bool kn_is_expandable(int op) {
    switch (op) {
    case KN_OP_BITCAST: case KN_OP_STACK: case KN_OP_INDEX: case KN_OP_LOAD: case KN_OP_STORE: case KN_OP_REDUCE:
    case KN_OP_END: case KN_OP_AFTER: case KN_OP_BUFFERIZE: case KN_OP_WMMA: return true;
    default: return kn_is_alu(op); /* CAST is one */
    }
}

/* ---- tables -------------------------------------------------------------------------------------------------- */

static uint32_t fold_hash(uint64_t h) {
#if defined(KN_HOSTILE) && KN_HOSTILE
    (void)h;
    return 1; /* one chain: every lookup must compare */
#else
    return (uint32_t)(h ^ (h >> 32));
#endif
}

static bool table_room(kn_table *t, const kn_alloc *a) {
    if (2 * (t->used + 1) <= t->cap) return true;
    size_t    cap  = !t->cap ? 256 : t->cap < 4096 ? t->cap * 4 : t->cap * 2; /* small graphs are made by the score */
    uint64_t *slot = kn_zalloc(a, cap * sizeof *slot);
    if (!slot) return false;
    for (size_t i = 0; i < t->cap; i++) {
        if (!(uint32_t)t->slot[i]) continue;
        size_t at = (t->slot[i] >> 32) & (cap - 1);
        while ((uint32_t)slot[at]) at = (at + 1) & (cap - 1);
        slot[at] = t->slot[i];
    }
    kn_free(a, t->slot, t->cap * sizeof *slot);
    t->slot = slot;
    t->cap  = cap;
    return true;
}

static void table_put(kn_table *t, uint32_t hash, uint32_t id) {
    size_t at = hash & (t->cap - 1);
    while ((uint32_t)t->slot[at]) at = (at + 1) & (t->cap - 1);
    t->slot[at] = (uint64_t)hash << 32 | id;
    t->used++;
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static bool push_chunk(kn_graph *g) {
    if (g->count < g->chunks * KN_CHUNK) return true;
    if (!KN_GROW(g->alloc, g->at.chunk, g->chunk_cap, g->chunks + 1u) ||
        !KN_GROW(g->alloc, g->prop, g->prop_cap, g->chunks + 1u))
        return false;
    kn_node *c = kn_realloc(g->alloc, NULL, 0, KN_CHUNK * sizeof *c);
    kn_prop *p = kn_realloc(g->alloc, NULL, 0, KN_CHUNK * sizeof *p);
    if (!c || !p) {
        kn_free(g->alloc, c, KN_CHUNK * sizeof *c);
        kn_free(g->alloc, p, KN_CHUNK * sizeof *p);
        return false;
    }
    g->at.chunk[g->chunks] = c;
    g->prop[g->chunks++]   = p;
    return true;
}

kn_graph *kg_new(const kn_alloc *a) {
    kn_graph *g = kn_zalloc(a, sizeof *g);
    if (!g) return NULL;
    g->alloc = a;
    kn_arena_init(&g->arena, a);
    g->words_n = g->strs_n = 1; /* id 0 means none */
    static const int64_t scalar[1] = {0};
    if (!push_chunk(g)) {
        kg_free(g);
        return NULL;
    }
    g->count          = 1;
    g->at.chunk[0][0] = (kn_node){0}; /* node 0: INVALID */
    g->prop[0][0]     = (kn_prop){.shape = scalar, .axis = -1};
    return g;
}

void kg_free(kn_graph *g) {
    if (!g) return;
    const kn_alloc *a = g->alloc;
    for (uint32_t i = 0; i < g->chunks; i++) {
        kn_free(a, g->at.chunk[i], KN_CHUNK * sizeof(kn_node));
        kn_free(a, g->prop[i], KN_CHUNK * sizeof(kn_prop));
    }
    kn_free(a, g->at.chunk, g->chunk_cap * sizeof *g->at.chunk);
    kn_free(a, g->prop, g->prop_cap * sizeof *g->prop);
    kn_free(a, g->nodes.slot, g->nodes.cap * sizeof(uint64_t));
    kn_free(a, g->word_table.slot, g->word_table.cap * sizeof(uint64_t));
    kn_free(a, g->str_table.slot, g->str_table.cap * sizeof(uint64_t));
    kn_free(a, g->at.words, g->words_cap * sizeof *g->at.words);
    kn_free(a, g->strs, g->strs_cap * sizeof *g->strs);
    kn_free(a, g->ranges, g->ranges_cap * sizeof *g->ranges);
    kn_free(a, g->cause, g->cause_cap * sizeof *g->cause);
    kn_arena_free(&g->arena);
    kn_free(a, g, sizeof *g);
}

uint32_t        kg_count(const kn_graph *g) { return g->count; }
kn_fault       *kg_fault(kn_graph *g) { return &g->fault; }
const kn_alloc *kg_alloc(const kn_graph *g) { return g->alloc; }

/* ---- words and strings --------------------------------------------------------------------------------------- */

uint64_t kg_intern_words(kn_graph *g, const int64_t *words, int count) {
    size_t   bytes = (size_t)count * sizeof *words;
    uint32_t hash  = fold_hash(kn_hash(words, bytes, (uint64_t)count));
    if (g->word_table.cap)
        for (size_t at = hash & (g->word_table.cap - 1); (uint32_t)g->word_table.slot[at];
             at        = (at + 1) & (g->word_table.cap - 1)) {
            if (g->word_table.slot[at] >> 32 != hash) continue;
            uint32_t id = (uint32_t)g->word_table.slot[at];
            if (g->at.words[id][-1] == count && !memcmp(g->at.words[id], words, bytes)) return id;
        }
    int64_t *run = NULL;
    if (!table_room(&g->word_table, g->alloc) || !KN_GROW(g->alloc, g->at.words, g->words_cap, g->words_n + 1) ||
        !(run = kn_arena_get(&g->arena, bytes + sizeof *run))) {
        kn_oom(&g->fault);
        return 0;
    }
    run[0] = count;
    if (bytes) memcpy(run + 1, words, bytes);
    uint32_t id  = (uint32_t)g->words_n++;
    g->at.words[id] = run + 1;
    table_put(&g->word_table, hash, id);
    return id;
}

uint32_t kg_intern_str(kn_graph *g, const char *text, size_t len) {
    uint32_t hash = fold_hash(kn_hash(text, len, 7));
    if (g->str_table.cap)
        for (size_t at = hash & (g->str_table.cap - 1); (uint32_t)g->str_table.slot[at];
             at        = (at + 1) & (g->str_table.cap - 1)) {
            if (g->str_table.slot[at] >> 32 != hash) continue;
            uint32_t id = (uint32_t)g->str_table.slot[at];
            if (g->strs[id].len == len && !memcmp(g->strs[id].data, text, len)) return id;
        }
    char *copy = NULL;
    if (!table_room(&g->str_table, g->alloc) || !KN_GROW(g->alloc, g->strs, g->strs_cap, g->strs_n + 1) ||
        !(copy = kn_arena_get(&g->arena, len + 1))) {
        kn_oom(&g->fault);
        return 0;
    }
    if (len) memcpy(copy, text, len);
    copy[len]   = 0;
    uint32_t id = (uint32_t)g->strs_n++;
    g->strs[id] = (kn_text){copy, len};
    table_put(&g->str_table, hash, id);
    return id;
}

const char *kg_str(const kn_graph *g, uint32_t id, size_t *len) {
    bool ok = id > 0 && id < g->strs_n;
    if (len) *len = ok ? g->strs[id].len : 0;
    return ok ? g->strs[id].data : "";
}

int64_t kg_const_int(const kn_graph *g, kn_ref n) {
    const kn_node *nd = kg_node(g, n);
    if (!kn_is_float(nd->dtype)) return (int64_t)nd->arg;
    return (int64_t)kg_const_float(g, n);
}

double kg_const_float(const kn_graph *g, kn_ref n) {
    const kn_node *nd = kg_node(g, n);
    if (nd->dtype == KN_U64) return (double)nd->arg;
    if (!kn_is_float(nd->dtype)) return (double)(int64_t)nd->arg;
    double v;
    memcpy(&v, &nd->arg, sizeof v);
    return v;
}

int kg_conjuncts(const kn_graph *g, kn_ref c, kn_ref *out, int cap) {
    kn_ref stack[16] = {c};
    int    n = 0;
    for (int top = 1; top > 0;) {
        kn_ref x = stack[--top];
        bool   all = (kg_op(g, x) == KN_OP_AND || kg_op(g, x) == KN_OP_MUL) && kg_dtype(g, x) == KN_BOOL;
        if (all && top + 2 <= KN_COUNT(stack)) {
            stack[top++] = kg_at(g, x, 0);
            stack[top++] = kg_at(g, x, 1);
            continue;
        }
        if (n == cap) return -1;
        out[n++] = x;
    }
    return n;
}

bool kg_is_const(const kn_graph *g, kn_ref n, int64_t v) {
    const kn_node *nd = kg_node(g, n);
    if (nd->op != KN_OP_CONST) return false;
    return kn_is_float(nd->dtype) ? kg_const_float(g, n) == (double)v : (int64_t)nd->arg == v;
}

/* ---- making -------------------------------------------------------------------------------------------------- */

static uint32_t hash_node(const kn_node *nd, const kn_ref *src) {
    uint64_t h = ((uint64_t)nd->op | (uint64_t)nd->dtype << 8 | (uint64_t)nd->tag << 16 | (uint64_t)nd->nsrc << 32) *
                 0x9E3779B97F4A7C15u;
    h = (h ^ (h >> 29) ^ nd->arg) * 0xBF58476D1CE4E5B9u;
    for (uint32_t i = 0; i < nd->nsrc; i++) h = (h ^ (h >> 31) ^ src[i]) * 0x94D049BB133111EBu;
    return fold_hash(h ^ (h >> 30));
}

static bool same_node(const kn_graph *g, kn_ref id, const kn_node *nd, const kn_ref *src) {
    const kn_node *o = kg_node(g, id);
    return o->op == nd->op && (o->dtype == nd->dtype || nd->op != KN_OP_CONST) && o->tag == nd->tag &&
           o->arg == nd->arg && o->nsrc == nd->nsrc &&
           (!nd->nsrc || !memcmp(kg_src(g, id), src, nd->nsrc * sizeof *src));
}

kn_ref kg_make_tag(kn_graph *g, int op, int dtype, uint16_t tag, uint64_t arg, const kn_ref *src, uint32_t nsrc) {
    for (uint32_t i = 0; i < nsrc; i++)
        if (!src[i]) return 0;
    const kn_op_info *info = &kn_ops[op];
    if ((int64_t)nsrc < info->lo || (info->hi >= 0 && (int64_t)nsrc > info->hi)) {
        kn_fail(&g->fault, KN_ERR_ARG, "%s takes %s%d source%s, got %u", info->name,
                info->hi < 0 || info->hi != info->lo ? "at least " : "", info->lo, info->lo == 1 ? "" : "s", nsrc);
        return 0;
    }
    if (kn_arg_is_words(info->arg) && (arg == 0 || arg >= g->words_n)) {
        kn_fail(&g->fault, KN_ERR_ARG, "%s needs an arg", info->name);
        return 0;
    }
    /* A CONST's dtype is as given, any other's follows from the rest: a node that is there need not infer it again. */
    kn_node  nd   = {.op = (uint8_t)op, .dtype = (uint8_t)(op == KN_OP_CONST ? dtype : 0), .tag = tag, .nsrc = nsrc,
                     .arg = arg};
    uint32_t hash = hash_node(&nd, src);
    if (g->nodes.cap)
        for (size_t at = hash & (g->nodes.cap - 1); (uint32_t)g->nodes.slot[at]; at = (at + 1) & (g->nodes.cap - 1))
            if (g->nodes.slot[at] >> 32 == hash && same_node(g, (kn_ref)g->nodes.slot[at], &nd, src))
                return (kn_ref)g->nodes.slot[at];

    int64_t shape[KN_MAX_RANK + 1];
    kn_prop p = {0};
    int     dt;
    if (!kg_infer_dtype(g, &nd, src, dtype, &dt)) return 0;
    nd.dtype = (uint8_t)dt;
    if (!kg_infer_shape(g, &nd, src, shape)) return 0;
    const int64_t *like = nsrc ? kg_prop(g, src[0])->shape : NULL;
    if (like && like[0] == shape[0] && !memcmp(like, shape, ((size_t)shape[0] + 1) * sizeof *shape)) {
        p.shape = like;
    } else {
        uint64_t sid = kg_intern_words(g, shape, (int)shape[0] + 1);
        if (!sid) return 0;
        p.shape = g->at.words[sid];
    }
    if (!kg_infer_place(g, &nd, src, &p)) return 0;
    if (nsrc > 4) {
        if (!(nd.s.run = kn_arena_copy(&g->arena, src, nsrc * sizeof *src))) goto oom;
    } else if (nsrc) {
        memcpy(nd.s.src, src, nsrc * sizeof *src);
    }
    if (!table_room(&g->nodes, g->alloc) || !push_chunk(g)) goto oom;
    if (!kg_infer_ranges(g, &nd, src, &p)) goto oom;
    kg_infer_bounds(g, &nd, src, &p);
    kn_ref id = g->count++;
    if (p.bit) g->ranges[p.bit - 1] = id;
    g->at.chunk[id >> KN_CHUNK_BITS][id & (KN_CHUNK - 1)] = nd;
    *kg_prop(g, id)                                    = p;
    table_put(&g->nodes, hash, id);
    if (g->why) kg_note_cause(g, id);
    return id;
oom:
    kn_oom(&g->fault);
    return 0;
}

kn_ref kg_make(kn_graph *g, int op, int dtype, uint64_t arg, const kn_ref *src, uint32_t nsrc) {
    return kg_make_tag(g, op, dtype, 0, arg, src, nsrc);
}

static KN_RARE kn_ref make_caused(kn_graph *g, const kn_node *nd, uint64_t arg, const kn_ref *src, uint32_t nsrc,
                                  uint32_t cause) {
    uint32_t before = kg_swap_cause(g, cause);
    kn_ref   r      = kg_make_tag(g, nd->op, nd->dtype, nd->tag, arg, src, nsrc);
    kg_swap_cause(g, before);
    return r;
}

kn_ref kg_with_src(kn_graph *g, kn_ref n, const kn_ref *src, uint32_t nsrc) {
    const kn_node *nd = kg_node(g, n);
    return g->why ? make_caused(g, nd, nd->arg, src, nsrc, kg_cause(g, n))
                  : kg_make_tag(g, nd->op, nd->dtype, nd->tag, nd->arg, src, nsrc);
}

kn_ref kg_import(kn_graph *g, const kn_graph *from, kn_ref n, const kn_ref *src, uint32_t nsrc) {
    const kn_node *nd  = kg_node(from, n);
    uint64_t       arg = nd->arg;
    kn_arg_kind    k   = kn_ops[nd->op].arg;
    if (k == KN_ARG_STR && arg) {
        size_t      len;
        const char *s = kg_str(from, (uint32_t)arg, &len);
        if (!(arg = kg_intern_str(g, s, len))) return 0;
    } else if (kn_arg_is_words(k)) {
        int            count;
        const int64_t *w = kg_words(from, n, &count);
        int64_t        fixed[16];
        kn_arg_info    info = kn_arg_info_of(k);
        bool           text = false; /* string ids differ from graph to graph */
        for (int i = 0; i < info.fixed; i++) text |= kn_arg_field(k, i)->type == 's' && w[i];
        if (text) {
            int64_t *copy = count <= KN_COUNT(fixed) ? fixed : kn_arena_get(&g->arena, (size_t)count * sizeof *copy);
            if (!copy) return kn_oom(&g->fault), 0;
            memcpy(copy, w, (size_t)count * sizeof *copy);
            for (int i = 0; i < info.fixed; i++)
                if (kn_arg_field(k, i)->type == 's' && w[i]) {
                    size_t      len;
                    const char *s = kg_str(from, (uint32_t)w[i], &len);
                    if (!(copy[i] = kg_intern_str(g, s, len))) return 0;
                }
            w = copy;
        }
        if (!(arg = kg_intern_words(g, w, count))) return 0;
    }
    return g->why && g->why == from->why ? make_caused(g, nd, arg, src, nsrc, kg_cause(from, n))
                                         : kg_make_tag(g, nd->op, nd->dtype, nd->tag, arg, src, nsrc);
}
