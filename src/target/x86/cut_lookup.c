/* cut_lookup.c - Select of x86-64: which of a few constants, chosen by bits of a number, as of a table.
 *
 * A value that WHEREs choose by some bits of one number that follow one another, constants in the end, is one of a
 * table of as many constants as a register has lanes at most, or two of eight bytes each. The table is LOCAL memory,
 * filled before all loops, and a load from it by a register of places is one shuffle (Render), where every choice takes
 * a blend, and every bit a test. */
#include "target/x86/cut.h"

enum {
    MOST_CHOICES  = 64, /* that are followed */
    LEAST_CHOICES = 3,  /* that a table is worth */
    MOST_ENTRIES  = 16
};

/* cond asks for one bit of a number: which, of which. */
static bool cl_asks_bit(const kn_graph *g, kn_ref cond, kn_ref *of, int *bit) {
    kn_ref and = kg_op(g, cond) == KN_OP_CMPNE ? kg_at(g, cond, 0) : 0;
    int    dt  = and ? kg_dtype(g, and) : KN_VOID;
    if (dt == KN_VOID || kg_op(g, and) != KN_OP_AND || !kn_is_int(dt) || kn_dsize(dt) < 4) return false;
    if (!kg_is_const(g, kg_at(g, cond, 1), 0) || kg_op(g, kg_at(g, and, 1)) != KN_OP_CONST) return false;
    uint64_t all  = (uint64_t)kg_const_int(g, kg_at(g, and, 1));
    uint32_t mask = (uint32_t)all;
    *of           = kg_at(g, and, 0);
    *bit          = __builtin_ctz(mask | 1u << 31);
    return mask && !(mask & (mask - 1)) && (all == mask || kn_dsize(dt) == 4);
}

/* The bits that choose n, 0: it is no table; *of: the number's. */
static uint32_t cl_bits_of(const kx_cut *c, kn_ref n, kn_ref *of) {
    const kn_graph *g = c->g;
    kn_ref          stack[MOST_CHOICES + 2];
    uint32_t        bits = 0;
    int             count = 0, choices = 0;
    stack[count++] = n;
    while (count) {
        kn_ref x = stack[--count], from;
        int    bit;
        if (kg_op(g, x) == KN_OP_CONST) continue;
        if (kg_op(g, x) != KN_OP_WHERE || ++choices > MOST_CHOICES) return 0;
        if (!cl_asks_bit(g, kg_at(g, x, 0), &from, &bit) || (bits && from != *of)) return 0;
        *of = from;
        bits |= 1u << bit;
        if (count + 2 > KN_COUNT(stack)) return 0;
        stack[count++] = kg_at(g, x, 1);
        stack[count++] = kg_at(g, x, 2);
    }
    return choices < LEAST_CHOICES ? 0 : bits;
}

/* What n is where the number has these bits. */
static kn_ref cl_chosen(const kn_graph *g, kn_ref n, uint32_t bits) {
    kn_ref from;
    int    bit = 0;
    while (kg_op(g, n) == KN_OP_WHERE && cl_asks_bit(g, kg_at(g, n, 0), &from, &bit))
        n = kg_at(g, n, bits >> bit & 1 ? 1 : 2);
    return n;
}

/* LOCAL memory of w elements that has those constants; its number is below those of which Plan makes registers. */
static kn_ref cl_filled(kx_cut *c, kn_ref n, int w, int low, int count) {
    kn_graph *g    = c->g;
    kn_ref    put[MOST_ENTRIES], memory = kg_buffer(g, KX_LOCALS / 2 + c->ntable++, w, kg_dtype(g, n), 0, KN_LOCAL);
    for (int k = 0; k < count; k++) {
        kn_ref at = kg_idx(g, k);
        put[k]    = kg_store(g, kg_index(g, memory, &at, 1), cl_chosen(g, n, (uint32_t)k << low), 0);
    }
    return kg_after(g, memory, put, count);
}

kn_ref kx_lookup(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk, bool *is) {
    kn_graph *g = c->g;
    int       dt = kg_dtype(g, n), w = kx_chunk_width(d, chunk), size = kn_dsize(dt), low, count;
    kn_ref    of = 0, x, places;
    bool      has = w * size == (c->avx512 ? 64 : 32) && (size == 4 || (size == 8 && c->avx512 && kn_is_int(dt)));
    uint32_t  bits = has ? cl_bits_of(c, n, &of) : 0;
    *is = false;
    if (!bits || kn_dsize(kg_dtype(g, of)) != size) return 0;
    low = __builtin_ctz(bits);
    if (bits >> low >= (uint32_t)KN_MIN(w * size / 4, MOST_ENTRIES)) return 0;
    count = (int)(bits >> low) + 1;
    if (count & (count - 1)) return 0; /* the bits do not follow one another */
    *is = true;
    if (!(x = kx_operand(c, of, d, row, chunk))) return 0;
    if (kg_op(g, x) == KN_OP_CONST) return cl_chosen(g, n, (uint32_t)kg_const_int(g, x));
    int    xt = kg_dtype(g, x);
    kn_ref filled, shift = kg_int(g, xt, low), mask = kg_int(g, xt, count - 1);
    if (!c->table[n]) c->table[n] = cl_filled(c, n, w * size / 4, low, count);
    filled = c->table[n];
    if (low) x = kx_node(c, KN_OP_SHR, xt, w, (kn_ref[]){x, shift}, 2);
    x      = kx_node(c, KN_OP_AND, xt, w, (kn_ref[]){x, mask}, 2);
    places = kx_node(c, KN_OP_CAST, KN_INDEX, w, &x, 1);
    return kg_load(g, kg_index(g, filled, &places, 1));
}
