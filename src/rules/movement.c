/* movement.c - rules on movement ops of static shapes: what moves nothing goes, what follows its own kind merges. */
#include "rules/helpers.h"

kn_ref kn_rule_unmoved(kn_rw *rw, kn_ref n) {
    kn_graph      *g = rw->g;
    const int64_t *w, *dims;
    kn_ref         x;
    int            rank;
    switch (kg_op(g, n)) {
    case KN_OP_RESHAPE: case KN_OP_EXPAND: case KN_OP_PAD: case KN_OP_SHRINK:
        x = kg_at(g, n, 0); /* the same shape leaves no room for an offset */
        dims = kg_shape(g, n, &rank);
        for (int i = 0; i < rank; i++)
            if (dims[i] < 0 && kg_op(g, n) != KN_OP_RESHAPE && kg_op(g, n) != KN_OP_EXPAND) return 0;
        return kg_same_shape(g, n, x) ? x : 0;
    case KN_OP_BITCAST: x = kg_at(g, n, 0); return kg_dtype(g, n) == kg_dtype(g, x) ? x : 0;
    case KN_OP_PERMUTE:
        w = kg_words(g, n, &rank);
        for (int i = 0; i < rank; i++)
            if (w[i] != i) return 0;
        return kg_at(g, n, 0);
    case KN_OP_FLIP:
        w    = kg_words(g, n, &rank);
        dims = kg_shape(g, n, NULL);
        for (int i = 0; i < rank; i++)
            if (w[i] && dims[i] != 1) return 0;
        return kg_at(g, n, 0);
    default: return 0;
    }
}

kn_ref kn_rule_permute_permute(kn_rw *rw, kn_ref n) {
    kn_graph      *g = rw->g;
    kn_ref         m = kg_at(g, n, 0);
    int            rank;
    const int64_t *outer = kg_words(g, n, &rank), *inner = kg_words(g, m, NULL);
    int64_t        order[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) order[i] = inner[outer[i]];
    return kg_permute(g, kg_at(g, m, 0), order, rank);
}

kn_ref kn_rule_flip_flip(kn_rw *rw, kn_ref n) {
    kn_graph      *g = rw->g;
    kn_ref         m = kg_at(g, n, 0);
    int            rank, other;
    const int64_t *a = kg_words(g, n, &rank), *b = kg_words(g, m, &other);
    int64_t        flags[KN_MAX_RANK];
    if (rank != other) return 0;
    for (int i = 0; i < rank; i++) flags[i] = !a[i] != !b[i];
    return kg_flip(g, kg_at(g, m, 0), flags, rank);
}

/* Offsets of two boxes of the same rank, static ones only. */
static bool move_box_offsets(const kn_graph *g, kn_ref n, kn_ref m, int64_t *a, int64_t *b, int64_t *dims, int *rank) {
    int ra, rb, rd;
    *rank = kg_rank(g, n);
    return kg_read_dims(g, kg_at(g, n, 1), a, &ra) && kg_read_dims(g, kg_at(g, m, 1), b, &rb) &&
           kg_read_dims(g, kg_at(g, n, 2), dims, &rd) && ra == *rank && rb == *rank && rd == *rank;
}

typedef kn_ref (*move_box)(kn_graph *g, kn_ref x, const int64_t *offset, const int64_t *dims, int rank);

/* Two of a kind, one inside the other: their offsets add up. */
static kn_ref move_box_twice(kn_rw *rw, kn_ref n, move_box make) {
    kn_graph *g = rw->g;
    kn_ref    m = kg_at(g, n, 0);
    int64_t   a[KN_MAX_RANK], b[KN_MAX_RANK], dims[KN_MAX_RANK];
    int       rank;
    if (!move_box_offsets(g, n, m, a, b, dims, &rank)) return 0;
    for (int i = 0; i < rank; i++) a[i] += b[i];
    return make(g, kg_at(g, m, 0), a, dims, rank);
}

kn_ref kn_rule_shrink_shrink(kn_rw *rw, kn_ref n) { return move_box_twice(rw, n, kg_shrink); }
kn_ref kn_rule_pad_pad(kn_rw *rw, kn_ref n) { return move_box_twice(rw, n, kg_pad); }

/* A window of a padded value that sees none of the padding is a window of the value. */
kn_ref kn_rule_shrink_pad(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    m = kg_at(g, n, 0), x = kg_at(g, m, 0);
    int64_t   a[KN_MAX_RANK], b[KN_MAX_RANK], dims[KN_MAX_RANK];
    int       rank;
    if (!move_box_offsets(g, n, m, a, b, dims, &rank)) return 0;
    const int64_t *have = kg_shape(g, x, NULL);
    for (int i = 0; i < rank; i++) {
        a[i] -= b[i];
        if (have[i] < 0 || a[i] < 0 || a[i] + dims[i] > have[i]) return 0;
    }
    return kg_shrink(g, x, a, dims, rank);
}
