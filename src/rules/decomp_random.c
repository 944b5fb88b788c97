/* decomp_random.c - the words of a Threefry block by themselves, in 32-bit integers: lanes of 64 bits, which the block
 * is, would halve how many a vector has. Rotations and key schedule: Salmon, Moraes, Dror, Shaw, SC 2011. */
#include "rules/decomp.h"

typedef kn_ref R;

static R random_word(kn_graph *g, R n, bool high) { /* of a u64 */
    bool low_only = kg_min(g, n) >= 0 && kg_max(g, n) <= UINT32_MAX;
    if (high) return low_only ? xp_u32(g, 0) : kg_cast(g, kg_op2(g, KN_OP_SHR, n, kg_int(g, KN_U64, 32)), KN_U32);
    if (kg_op(g, n) == KN_OP_CAST && low_only && kg_dtype(g, kg_at(g, n, 0)) == KN_INDEX) n = kg_at(g, n, 0);
    return kg_cast(g, n, KN_U32);
}

/* CAST{u32} of THREEFRY, or of it shifted right by 32. */
kn_ref kn_decomp_threefry(kn_rw *rw, kn_ref node) {
    static const int rot[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    kn_graph        *g         = rw->g;
    R                n         = kg_at(g, node, 0), key[3];
    bool             high      = kg_op(g, n) == KN_OP_SHR;
    if (high && (kg_op(g, kg_at(g, n, 1)) != KN_OP_CONST || kg_const_int(g, kg_at(g, n, 1)) != 32)) return 0;
    if (high) n = kg_at(g, n, 0);
    if (kg_op(g, n) != KN_OP_THREEFRY || kg_dtype(g, node) != KN_U32) return 0;
    for (int i = 0; i < 2; i++) key[i] = random_word(g, kg_at(g, n, 1), i);
    key[2] = xp_xor(g, xp_xor(g, key[0], key[1]), xp_u32(g, 0x1BD11BDA));
    R x    = xp_add(g, random_word(g, kg_at(g, n, 0), false), key[0]);
    R y    = xp_add(g, random_word(g, kg_at(g, n, 0), true), key[1]);
    for (int group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            int by = rot[group & 1][i];
            x      = xp_add(g, x, y);
            y      = xp_xor(g, xp_or(g, xp_shl(g, y, xp_u32(g, by)), xp_shr(g, y, xp_u32(g, 32 - by))), x);
        }
        x = xp_add(g, x, key[(group + 1) % 3]);
        y = xp_add(g, y, xp_add(g, key[(group + 2) % 3], xp_u32(g, group + 1)));
    }
    return high ? y : x;
}
