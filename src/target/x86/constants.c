/* constants.c - registers of x86-64 that are left: constants are held in them, of innermost loops and of what stands
 * behind the loops of another, as what is computed of a product.
 *
 * A constant stands in the code's memory, where an instruction takes it from; some, and shuffles their tables, take it
 * from registers only, and a load beside those of data is one too many where little is computed. Takes a plan whose
 * values have their registers. What no value has goes to the constants of innermost loops, those worth most first,
 * while the outermost loop runs through which the register is free. They are lent as values of the frame are
 * (kx_split). */
#include "target/x86/plan.h"

#include <stdlib.h>

enum { PART = 1, LOADED = 4 };

typedef struct kc_use {
    kn_ref  node;
    int     worth;
    uint8_t table; /* kx_split's */
} kc_use;

static int kc_by_worth(const void *a, const void *b) {
    const kc_use *x = a, *y = b;
    if (x->worth != y->worth) return x->worth > y->worth ? -1 : 1;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->table < y->table ? -1 : x->table > y->table;
}

static bool kc_is_zero(const kn_graph *g, kn_ref n) {
    return kn_is_float(kg_dtype(g, n)) ? kg_const_float(g, n) == 0 : !kg_const_int(g, n);
}

/* What it costs that source k of x, a constant, is no register: it is loaded first, or is a part of the instruction.
 * 0: that does not take it from a vector register. */
static int kc_worth(const kx_plan *p, kn_ref x, uint32_t k) {
    const kn_graph *g = p->g;
    kn_ref          s = kg_at(g, x, k);
    if (kg_op(g, s) != KN_OP_CONST || kg_dtype(g, s) == KN_BOOL) return 0;
    if (!kx_is_lanes(g, x) && !kn_is_float(kg_dtype(g, s))) return 0;
    if (kx_compares(kx_op(g, x)) && p->value[kg_at(g, x, 1 - k)].folded) return LOADED;
    switch (kx_op(g, x)) {
    case KN_OP_WHERE: return k == 1 ? PART : kc_is_zero(g, s) ? 0 : LOADED; /* 0 is made by the mask */
    case KN_OP_SUB:
    case KN_OP_DIV: return k == 0 ? LOADED : PART;
    case KN_OP_MUL: return kn_dsize(kg_dtype(g, x)) == 1 ? LOADED : PART;
    case KN_OP_ADD:
    case KN_OP_MULACC:
    case KN_OP_MAX:
    case KN_OP_MIN:
    case KN_OP_AND:
    case KN_OP_OR:
    case KN_OP_XOR:
    case KN_OP_CMPLT:
    case KN_OP_CMPGT:
    case KN_OP_CMPLE:
    case KN_OP_CMPGE:
    case KN_OP_CMPEQ:
    case KN_OP_CMPNE: return PART;
    default: return 0;
    }
}

/* Whoever has that table already: a place in `use`, or `count`. */
static int kc_table_of(const kx_plan *p, const kx_table *t, const kc_use *use, int count) {
    kx_table has[KX_MAX_TABLES];
    for (int at = 0; at < count; at++)
        if (use[at].table && kx_tables_of(p, use[at].node, has) >= use[at].table &&
            kx_same_table(&has[use[at].table - 1], t))
            return at;
    return count;
}

/* The constants and tables of these places, those worth most first, `cap` at most. `seen`: per node its place in `use`
 * + 1; 0 before and after. */
static int kc_find(const kx_plan *p, uint32_t from, uint32_t to, kc_use *use, int cap, uint32_t *seen) {
    kx_table table[KX_MAX_TABLES];
    int      count = 0;
    for (uint32_t i = from; i < to; i++) {
        kn_ref x = p->list[i];
        if (!p->value[x].needed) continue;
        int tables = p->value[x].same ? 0 : kx_tables_of(p, x, table);
        for (int k = 0; k < tables; k++) {
            int at = kc_table_of(p, &table[k], use, count);
            if (at == count && count == cap) continue;
            if (at == count) use[count++] = (kc_use){x, 0, (uint8_t)(k + 1)};
            use[at].worth += kg_op(p->g, x) == KN_OP_LOAD ? LOADED : PART;
        }
        if (kg_op(p->g, x) != KN_OP_INS || p->value[x].step) continue;
        for (uint32_t k = 0; k < kg_nsrc(p->g, x); k++) {
            int    worth = kc_worth(p, x, k);
            kn_ref c     = kg_at(p->g, x, k);
            if (!worth) continue;
            if (!seen[c] && count == cap) continue;
            if (!seen[c]) use[count] = (kc_use){c, 0, 0}, seen[c] = (uint32_t)++count;
            use[seen[c] - 1].worth += worth;
        }
    }
    for (int k = 0; k < count; k++) seen[use[k].node] = 0;
    qsort(use, (size_t)count, sizeof *use, kc_by_worth);
    return count;
}

/* Vector registers that something has from that place of the loop on: its first, or the first behind the loops in it.
 */
static uint32_t kc_taken(const kx_plan *p, int l, uint32_t start) {
    int32_t  from = (int32_t)(2 * start) - 1, to = (int32_t)(2 * p->loop[l].close) + 1;
    bool     whole = start == p->loop[l].open;
    uint32_t taken = 0;
    for (kn_ref n = 1; n < p->size; n++) {
        const kx_value *v = &p->value[n];
        if (v->bank == KX_BANK_VEC && v->reg >= 0 && !v->same && v->start <= to && v->end >= from)
            taken |= 1u << v->reg;
    }
    for (int k = 0; k < p->nloop; k++) /* registers change hands there, those for vectors wait for scalars too */
        for (int b = 0; b < KX_BANKS; b++)
            if (p->loop[k].shares[b] && kx_within(p, k, l)) return UINT32_MAX;
    for (size_t k = 0; k < p->nsplit; k++) {
        const kx_split *s    = &p->split[k];
        int             bank = p->value[s->value].bank;
        if (bank != KX_BANK_VEC && kg_op(p->g, s->value) != KN_OP_CONST) continue;
        if (s->loop == l || (whole && kx_within(p, s->loop, l)) || (!s->behind && kx_within(p, l, s->loop)))
            taken |= 1u << s->reg;
    }
    return taken;
}

static bool kc_is_held(const kx_plan *p, const kc_use *use, int l) {
    kx_table has[KX_MAX_TABLES];
    if (use->table) {
        kx_tables_of(p, use->node, has);
        return kx_table_register(p, use->node, &has[use->table - 1]) >= 0;
    }
    for (size_t k = 0; k < p->nsplit; k++)
        if (!p->split[k].behind && kx_within(p, l, p->split[k].loop) && p->split[k].value == use->node) return true;
    return false;
}

/* Of these constants those that no loop around `at` holds yet and that are worth that much, in registers that are free
 * in loop l from its place `start` on. */
static bool kc_hold(kx_plan *p, int at, int l, uint32_t start, const kc_use *use, int count, int least) {
    uint32_t all = 0, taken = kc_taken(p, l, start);
    bool     whole = start == p->loop[l].open;
    for (int k = 0; k < kx_vectors(p, p->tight); k++) all |= 1u << k;
    for (int k = 0; k < count && all & ~taken && use[k].worth >= least; k++) {
        if (kc_is_held(p, &use[k], at) || (use[k].table && !whole)) continue;
        int reg = __builtin_ctz(all & ~taken);
        if (!KN_GROW(kg_alloc(p->g), p->split, p->split_cap, p->nsplit + 1)) return kn_oom(p->f);
        p->split[p->nsplit++] = (kx_split){.value = use[k].node, .loop = l, .reg = reg, .table = use[k].table,
                                           .behind = whole ? 0 : start};
        p->used[KX_BANK_VEC] |= 1u << reg;
        taken |= 1u << reg;
    }
    return true;
}

/* The place behind the last loop in l; 0: there is none. */
static uint32_t kc_behind(const kx_plan *p, int l) {
    uint32_t at = 0;
    for (int k = 0; k < p->nloop; k++)
        if (p->loop[k].parent == l) at = KN_MAX(at, p->loop[k].close + 1);
    return at;
}

bool kx_hold_constants(kx_plan *p) {
    int       cap  = (int)p->size;
    kc_use   *use  = kn_zalloc(kg_alloc(p->g), p->size * sizeof *use);
    uint32_t *seen = kn_zalloc(kg_alloc(p->g), p->size * sizeof *seen);
    bool      ok   = (use && seen) || kn_oom(p->f);
    for (int l = 0; l < p->nloop && ok; l++) {
        if (!p->loop[l].inner) continue;
        int around[KX_MAX_LOOPS], n = 0, count = kc_find(p, p->loop[l].open + 1, p->loop[l].close, use, cap, seen);
        for (int a = l; a >= 0 && count; a = p->loop[a].parent) around[n++] = a;
        while (n-- > 0 && ok) ok = kc_hold(p, l, around[n], p->loop[around[n]].open, use, count, 0);
    }
    for (int l = 0; l < p->nloop && ok; l++) { /* then what is loaded several times each round */
        uint32_t behind = kc_behind(p, l);
        int      count  = behind ? kc_find(p, behind, p->loop[l].close, use, cap, seen) : 0;
        if (count) ok = kc_hold(p, l, l, behind, use, count, 3 * LOADED);
    }
    kn_free(kg_alloc(p->g), use, p->size * sizeof *use);
    kn_free(kg_alloc(p->g), seen, p->size * sizeof *seen);
    return ok;
}
