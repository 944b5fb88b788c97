/* decomp_random.c - a Threefry block in its words, 32-bit integers: lanes of 64 bits, which the block is, would halve
 * how many a vector has; where a word of it is all that is wanted, there are none. Rotations and key schedule: Salmon,
 * Moraes, Dror, Shaw, SC 2011. */
#include "rules/decomp.h"

typedef kn_ref R;

static R random_word(kn_graph *g, R n, bool high) { /* of a u64 */
    bool low_only = kg_min(g, n) >= 0 && kg_max(g, n) <= UINT32_MAX;
    if (high) return low_only ? xp_u32(g, 0) : kg_cast(g, kg_op2(g, KN_OP_SHR, n, kg_int(g, KN_U64, 32)), KN_U32);
    if (kg_op(g, n) == KN_OP_CAST && low_only && kg_dtype(g, kg_at(g, n, 0)) == KN_INDEX) n = kg_at(g, n, 0);
    return kg_cast(g, n, KN_U32);
}

/* Of a tile no lanes are left over, to be computed as scalars. */
static bool fills_vectors(const kn_graph *g, R n) {
    int            rank;
    const int64_t *dims = kg_shape(g, n, &rank);
    return rank && dims[rank - 1] % 4 == 0;
}

/* THREEFRY: its high word shifted over the low one. Of whole vectors the sums of words of the key and a constant are
 * computed once, before the loops: an addition a group less for five registers more, which scalars would not have. */
kn_ref kn_decomp_threefry(kn_rw *rw, kn_ref node) {
    static const int rot[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    kn_graph        *g         = rw->g;
    R                key[3];
    bool             whole = fills_vectors(g, node);
    for (int i = 0; i < 2; i++) key[i] = random_word(g, kg_at(g, node, 1), i);
    key[2] = xp_xor(g, xp_xor(g, key[0], key[1]), xp_u32(g, 0x1BD11BDA));
    R x    = xp_add(g, random_word(g, kg_at(g, node, 0), false), key[0]);
    R y    = xp_add(g, random_word(g, kg_at(g, node, 0), true), key[1]);
    for (int group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            int by = rot[group & 1][i];
            x      = xp_add(g, x, y);
            y      = xp_xor(g, xp_or(g, xp_shl(g, y, xp_u32(g, by)), xp_shr(g, y, xp_u32(g, 32 - by))), x);
        }
        x   = xp_add(g, x, key[(group + 1) % 3]);
        R k = key[(group + 2) % 3], by = xp_u32(g, group + 1);
        y = whole ? xp_add(g, y, xp_add(g, k, by)) : xp_add(g, xp_add(g, y, k), by);
    }
    return xp_or(g, xp_shl(g, kg_cast(g, y, KN_U64), kg_int(g, KN_U64, 32)), kg_cast(g, x, KN_U64));
}
