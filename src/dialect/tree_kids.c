/* tree_kids.c - what hangs below a node in the tree form: its sources, or what the bestiary's form of it has. Each form
 * here is one that kn_spell_node turns back into the node. */
#include "dialect/tree_print.h"

bool kn_tree_is_shape(const kn_graph *g, kn_ref n) {
    if (kg_op(g, n) != KN_OP_STACK || kg_node(g, n)->tag) return false;
    for (uint32_t i = 0; i < kg_nsrc(g, n); i++)
        if (kg_op(g, kg_at(g, n, i)) != KN_OP_CONST || kg_node(g, kg_at(g, n, i))->tag) return false;
    return true;
}

static bool is_storage(const kn_graph *g, kn_ref n) {
    while (kg_nsrc(g, n) && (kn_is_movement(kg_op(g, n)) || kg_op(g, n) == KN_OP_AFTER) && kg_op(g, n) != KN_OP_STACK)
        n = kg_at(g, n, 0);
    return kg_op(g, n) == KN_OP_BUFFER || (kg_op(g, n) == KN_OP_PARAM && kg_space(g, n) != KN_REG);
}

/* STACK of the lanes of vectors, one after the other, of which not all are equally wide: CAT makes that of them. The
 * vector whose lanes begin at source i, and *next the source behind them; a scalar stands for itself. */
static kn_ref lanes_at(const kn_graph *g, kn_ref n, uint32_t i, uint32_t *next) {
    kn_ref x = kg_at(g, n, i), v = kg_op(g, x) == KN_OP_INDEX && kg_nsrc(g, x) == 2 ? kg_at(g, x, 0) : 0;
    *next = i + 1;
    if (!v || kg_rank(g, v) != 1 || kg_node(g, x)->arg || kg_node(g, x)->tag || is_storage(g, v)) return x;
    int64_t width = kg_numel(g, v);
    if (width < 1 || width > kg_nsrc(g, n) - i) return x;
    for (int64_t l = 0; l < width; l++) {
        kn_ref y = kg_at(g, n, i + (uint32_t)l);
        bool lane = kg_op(g, y) == KN_OP_INDEX && kg_nsrc(g, y) == 2 && !kg_node(g, y)->arg && !kg_node(g, y)->tag;
        if (!lane || kg_at(g, y, 0) != v || !kg_is_const(g, kg_at(g, y, 1), l)) return x;
    }
    *next = i + (uint32_t)width;
    return v;
}

static bool is_lanes(const kn_graph *g, kn_ref n) {
    uint32_t next, some = 0, parts = 0;
    bool     equal = true;
    int64_t  width = -1;
    if (kg_rank(g, n) != 1) return false;
    for (uint32_t i = 0; i < kg_nsrc(g, n); i = next, parts++) {
        kn_ref  v = lanes_at(g, n, i, &next);
        int64_t w = kg_rank(g, v) ? kg_numel(g, v) : -1;
        some += w > 0;
        equal = equal && w > 0 && (width < 0 || w == width);
        width = w;
    }
    return some && parts > 1 && !equal && kg_nsrc(g, n) <= 4096; /* what spell_cat takes */
}

static kn_tree_form stack_form(const kn_graph *g, kn_ref n) {
    if (kn_tree_is_shape(g, n)) return kg_dtype(g, n) == KN_INDEX ? KN_TREE_SHAPE : KN_TREE_VCONST;
    bool addresses = true;
    for (uint32_t i = 0; i < kg_nsrc(g, n); i++)
        addresses = addresses && kg_op(g, kg_at(g, n, i)) == KN_OP_INDEX && is_storage(g, kg_at(g, n, i));
    return addresses ? KN_TREE_PTRCAT : is_lanes(g, n) ? KN_TREE_LANES : KN_TREE_PLAIN;
}

static bool is_gep(const kn_graph *g, kn_ref n) {
    kn_ref i = kg_nsrc(g, n) == 2 ? kg_at(g, n, 1) : 0;
    if (!i || kg_node(g, n)->arg || is_storage(g, kg_at(g, n, 0))) return false;
    if (kg_op(g, i) == KN_OP_CONST) return !kg_node(g, i)->tag;
    return kn_tree_is_shape(g, i) && kg_nsrc(g, i) > 1;
}

/* (buffer, index, value, ranges...) of STORE or END(STORE, ranges); the STORE. */
static kn_ref store_of(const kn_graph *g, kn_ref n) {
    kn_ref s = kg_op(g, n) == KN_OP_END ? kg_at(g, n, 0) : n;
    if (kg_op(g, s) != KN_OP_STORE || kg_op(g, kg_at(g, s, 0)) != KN_OP_INDEX) return 0;
    if (kg_nsrc(g, s) == 3 && kg_nsrc(g, kg_at(g, s, 0)) < 2) return 0;
    if (s != n && (kg_nsrc(g, n) < 2 || kg_node(g, n)->tag)) return 0;
    /* the bestiary's STORE puts its tag on the STORE; three sources that end with a bool would read as a gate */
    kn_ref v = kg_at(g, s, 1), b = kg_at(g, kg_at(g, s, 0), 0);
    return s == n && kg_dtype(g, v) == KN_BOOL && kg_dtype(g, b) != KN_BOOL ? 0 : s;
}

static bool is_box(const kn_graph *g, kn_ref n) {
    int            rank, orank, srank;
    int64_t        o[KN_MAX_RANK], s[KN_MAX_RANK];
    const int64_t *in = kg_shape(g, kg_at(g, n, 0), &rank);
    if (!kg_read_dims(g, kg_at(g, n, 1), o, &orank) || !kg_read_dims(g, kg_at(g, n, 2), s, &srank)) return false;
    if (!kn_tree_is_shape(g, kg_at(g, n, 1)) || !kn_tree_is_shape(g, kg_at(g, n, 2))) return false;
    for (int i = 0; i < rank; i++)
        if (in[i] < 0) return false;
    return orank == rank && srank == rank;
}

static bool is_cat(const kn_graph *g, kn_ref n) {
    kn_ref s = kg_at(g, n, 0);
    if (kg_op(g, s) != KN_OP_STACK || kg_node(g, s)->tag || kg_rank(g, s) != 2 || kg_rank(g, n) != 1) return false;
    return kg_nsrc(g, s) > 1 && stack_form(g, s) == KN_TREE_PLAIN;
}

kn_tree_form kn_tree_form_of(const kn_graph *g, kn_ref n) {
    const kn_node *nd  = kg_node(g, n);
    const kn_ref  *src = kg_src(g, n);
    switch (nd->op) {
    case KN_OP_STACK: return nd->tag ? KN_TREE_PLAIN : stack_form(g, n);
    case KN_OP_INDEX: return nd->arg == 1 ? KN_TREE_POINTER : !nd->tag && is_gep(g, n) ? KN_TREE_GEP : KN_TREE_PLAIN;
    case KN_OP_LOAD: {
        if (kg_op(g, src[0]) != KN_OP_INDEX) return KN_TREE_PLAIN;
        const kn_node *alt  = kg_node(g, src[nd->nsrc == 3]);
        bool           zero = nd->nsrc == 3 && alt->op == KN_OP_CONST && !alt->tag && !alt->arg;
        return nd->nsrc == 1 || (zero && kg_nsrc(g, src[0]) > 1) ? KN_TREE_LOAD : KN_TREE_PLAIN;
    }
    case KN_OP_STORE:
    case KN_OP_END: return store_of(g, n) ? KN_TREE_STORE : KN_TREE_PLAIN;
    case KN_OP_AFTER: {
        bool barrier = nd->nsrc == 2 && !nd->tag && nd->dtype != KN_VOID && kg_op(g, src[1]) == KN_OP_BARRIER;
        return barrier ? KN_TREE_BARRIER : KN_TREE_PLAIN;
    }
    case KN_OP_CALL: return KN_TREE_KERNEL;
    case KN_OP_PAD:
    case KN_OP_SHRINK: return !nd->tag && is_box(g, n) ? KN_TREE_BOX : KN_TREE_PLAIN;
    case KN_OP_RESHAPE:
        if (!nd->tag && kg_op(g, src[0]) == KN_OP_BUFFER && !kg_node(g, src[0])->tag && kn_tree_is_shape(g, src[1]) &&
            !kg_same_shape(g, n, src[0]))
            return KN_TREE_BUFFER;
        if (!nd->tag && is_cat(g, n)) return KN_TREE_CAT;
        return kn_tree_is_shape(g, src[1]) ? KN_TREE_SHAPED : KN_TREE_PLAIN;
    case KN_OP_EXPAND: return kn_tree_is_shape(g, src[1]) ? KN_TREE_SHAPED : KN_TREE_PLAIN;
    case KN_OP_PARAM: {
        if (!kn_tree_is_shape(g, src[0])) return KN_TREE_PLAIN;
        return kg_field(g, n, KN_F_PARAM_name) && !kg_nsrc(g, src[0]) ? KN_TREE_VAR : KN_TREE_SHAPED;
    }
    case KN_OP_BUFFER: return KN_TREE_BUFFER;
    default: return KN_TREE_PLAIN;
    }
}

static void all_kids(tree_printer *t, kn_ref n, uint32_t from) {
    for (uint32_t i = from; i < kg_nsrc(t->g, n); i++)
        if (!kn_tree_kid(t, kg_at(t->g, n, i), 0)) return;
}

void kn_tree_kids(tree_printer *t, kn_ref n, kn_ref gate) {
    const kn_graph *g    = t->g;
    const kn_ref   *src  = kg_src(g, n);
    kn_tree_form    form = gate ? KN_TREE_PLAIN : kn_tree_form_of(g, n);
    switch (form) {
    case KN_TREE_SHAPE:
    case KN_TREE_VCONST:
    case KN_TREE_BUFFER:
    case KN_TREE_VAR: break;
    case KN_TREE_SHAPED:
    case KN_TREE_BOX:
    case KN_TREE_GEP:
        if (kg_op(g, n) != KN_OP_PARAM) kn_tree_kid(t, src[0], 0);
        break;
    case KN_TREE_CAT: all_kids(t, src[0], 0); break;
    case KN_TREE_LANES:
        for (uint32_t i = 0, next; i < kg_nsrc(g, n); i = next)
            if (!kn_tree_kid(t, lanes_at(g, n, i, &next), 0)) return;
        break;
    case KN_TREE_LOAD:
        kn_tree_kid(t, kg_at(g, src[0], 0), 0);
        kn_tree_kid(t, src[0], kg_nsrc(g, n) == 3 ? src[2] : 0);
        break;
    case KN_TREE_STORE: {
        kn_ref s = store_of(g, n), at = kg_at(g, s, 0);
        kn_tree_kid(t, kg_at(g, at, 0), 0);
        kn_tree_kid(t, at, kg_nsrc(g, s) == 3 ? kg_at(g, s, 2) : 0);
        kn_tree_kid(t, kg_at(g, s, 1), 0);
        if (s != n) all_kids(t, n, 1);
        break;
    }
    case KN_TREE_BARRIER:
        kn_tree_kid(t, src[0], 0);
        all_kids(t, src[1], 0);
        break;
    case KN_TREE_KERNEL:
        all_kids(t, n, 1);
        kn_tree_kid(t, src[0], 0);
        break;
    default:
        if (kg_op(g, n) == KN_OP_HOLE && kn_tree_gap_of(t, n) == KN_GAP_ALONE) break;
        all_kids(t, n, 0);
        if (gate) kn_tree_kid(t, gate, 0);
        break;
    }
}
