/* blocks.c - of x86-64: blocks of lanes that are turned by AVX2, whose shuffles of two registers stay within halves.
 *
 * Takes a plan whose uses are counted. Every second lane of two registers is one shuffle within the halves, and another
 * that puts the halves in order. Where those of such registers are all that is taken of them, and so on until each lane
 * of the result is from another register, the order of halves is left as it is, and the last shuffle exchanges them: n
 * shuffles in place of 2 n. Lanes are those that they were but in between; what is computed of two such registers lane
 * by lane, as where rows are folded, has them in the same order. */
#include "target/x86/plan.h"

enum { BK_BYTES = 32 };

/* Registers that a LOAD takes every second lane of, all of both; false: it does not, or needs one shuffle alone. */
static bool bk_sources(const kx_plan *p, kn_ref n, kn_ref from[KX_MAX_OPERANDS]) {
    const kn_graph *g = p->g;
    kx_spot         a;
    if (kg_op(g, n) != KN_OP_LOAD || !p->value[n].needed || !p->value[n].other) return false;
    if (kx_vec_bytes(p, n) != BK_BYTES) return false;
    kx_address_of(g, kg_at(g, n, 0), &a);
    return a.step == 2 && kx_operands(p, n, from) == 2;
}

/* Two registers that each lane of n is computed of; false: it is something else. */
static bool bk_combines(const kx_plan *p, kn_ref n, kn_ref from[KX_MAX_OPERANDS]) {
    const kn_graph *g = p->g;
    if (kg_op(g, n) != KN_OP_INS || !kx_is_lanes(g, n) || !p->value[n].needed || p->value[n].folded) return false;
    int  op  = kx_op(g, n);
    bool all = op == KN_OP_ADD || op == KN_OP_MUL || op == KN_OP_MAX || op == KN_OP_MIN || op == KN_OP_AND ||
               op == KN_OP_OR || op == KN_OP_XOR;
    if (!all || kx_vec_bytes(p, n) != BK_BYTES || kg_dtype(g, n) == KN_BOOL) return false;
    return kx_operands(p, n, from) == 2 && from[0] != from[1];
}

static int bk_last(const kx_plan *p, kn_ref n) { /* how often, until each lane is from another register */
    return __builtin_ctz((unsigned)kg_numel(p->g, n));
}

/* How many of these shuffles a LOAD is made of, one behind the other. */
static void bk_count(kx_plan *p) {
    kn_ref from[KX_MAX_OPERANDS];
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref n = p->list[i];
        bool takes = bk_sources(p, n, from);
        if (!takes && !bk_combines(p, n, from)) continue;
        int before = p->value[from[0]].within;
        if (before != p->value[from[1]].within || before == bk_last(p, n)) before = 0;
        p->value[n].within = (uint8_t)(before + takes);
    }
}

/* Forgets those that are not parts of whole blocks; whether there was one. */
static bool bk_forget(kx_plan *p) {
    kn_ref from[KX_MAX_OPERANDS];
    bool   any = false;
    for (uint32_t i = 0; i < p->n; i++) p->value[p->list[i]].inside = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref n      = p->list[i];
        int    before = p->value[n].within;
        if (!before) continue;
        if (bk_sources(p, n, from)) before--;
        else if (!bk_combines(p, n, from)) continue;
        if (!before) continue;
        if (p->value[from[0]].within != before || p->value[from[1]].within != before) {
            p->value[n].within = 0;
            any                = true;
            continue;
        }
        for (int k = 0; k < 2; k++) p->value[from[k]].inside++;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref    n = p->list[i];
        kx_value *v = &p->value[n];
        if (!v->within || v->within == bk_last(p, n) || v->inside == v->uses) continue;
        v->within = 0;
        any       = true;
    }
    return any;
}

void kx_find_blocks(kx_plan *p) {
    if (p->avx512) return;
    bk_count(p);
    while (bk_forget(p)) {}
    for (uint32_t i = 0; i < p->n; i++) {
        kx_value *v = &p->value[p->list[i]];
        if (v->within) v->across = v->within == bk_last(p, p->list[i]);
    }
}
