/* constants.c - registers of x86-64 that are left: constants of innermost loops are held in them.
 *
 * A constant stands in the code's memory, where an instruction takes it from; some take it from registers only, and a
 * load beside those of data is one too many where little is computed. Takes a plan whose values have their registers.
 * What no value has goes to the constants of innermost loops, those worth most first, while the outermost loop runs
 * through which the register is free. They are lent as values of the frame are (kx_split). */
#include "target/x86/plan.h"

#include <stdlib.h>

typedef struct kc_use {
    kn_ref node;
    int    worth;
} kc_use;

static int kc_by_worth(const void *a, const void *b) {
    const kc_use *x = a, *y = b;
    if (x->worth != y->worth) return x->worth > y->worth ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static bool kc_is_zero(const kn_graph *g, kn_ref n) {
    return kn_is_float(kg_dtype(g, n)) ? kg_const_float(g, n) == 0 : !kg_const_int(g, n);
}

/* What it costs that source k of x, a constant, is no register: it is loaded first, or is a part of the instruction.
 * 0: that does not take it from a vector register. */
static int kc_worth(const kn_graph *g, kn_ref x, uint32_t k) {
    enum { PART = 1, LOADED = 4 };
    kn_ref s = kg_at(g, x, k);
    if (kg_op(g, s) != KN_OP_CONST || kg_dtype(g, s) == KN_BOOL) return 0;
    if (!kx_is_lanes(g, x) && !kn_is_float(kg_dtype(g, s))) return 0;
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

/* The constants of a loop, those worth most first. `seen`: per node its place in `use` + 1; 0 before and after. */
static int kc_find(const kx_plan *p, const kx_loop *l, kc_use *use, uint32_t *seen) {
    int count = 0;
    for (uint32_t i = l->open + 1; i < l->close; i++) {
        kn_ref x = p->list[i];
        if (kg_op(p->g, x) != KN_OP_INS || !p->value[x].needed || p->value[x].step) continue;
        for (uint32_t k = 0; k < kg_nsrc(p->g, x); k++) {
            int    worth = kc_worth(p->g, x, k);
            kn_ref c     = kg_at(p->g, x, k);
            if (!worth) continue;
            if (!seen[c]) use[count] = (kc_use){c, 0}, seen[c] = (uint32_t)++count;
            use[seen[c] - 1].worth += worth;
        }
    }
    for (int k = 0; k < count; k++) seen[use[k].node] = 0;
    qsort(use, (size_t)count, sizeof *use, kc_by_worth);
    return count;
}

static bool kc_within(const kx_plan *p, int l, int of) {
    while (l >= 0 && l != of) l = p->loop[l].parent;
    return l == of;
}

/* Vector registers that something has while the loop runs. */
static uint32_t kc_taken(const kx_plan *p, int l) {
    int32_t  from = (int32_t)(2 * p->loop[l].open) - 1, to = (int32_t)(2 * p->loop[l].close) + 1;
    uint32_t taken = 0;
    for (kn_ref n = 1; n < p->size; n++) {
        const kx_value *v = &p->value[n];
        if (v->bank == KX_BANK_VEC && v->reg >= 0 && !v->same && v->start <= to && v->end >= from)
            taken |= 1u << v->reg;
    }
    for (int k = 0; k < p->nloop; k++) /* registers change hands there, those for vectors wait for scalars too */
        for (int b = 0; b < KX_BANKS; b++)
            if (p->loop[k].shares[b] && kc_within(p, k, l)) return UINT32_MAX;
    for (size_t k = 0; k < p->nsplit; k++) {
        const kx_split *s    = &p->split[k];
        int             bank = p->value[s->value].bank;
        if (bank != KX_BANK_VEC && kg_op(p->g, s->value) != KN_OP_CONST) continue;
        if (kc_within(p, s->loop, l) || kc_within(p, l, s->loop)) taken |= 1u << s->reg;
    }
    return taken;
}

static bool kc_is_held(const kx_plan *p, kn_ref c, int l) {
    for (size_t k = 0; k < p->nsplit; k++)
        if (p->split[k].value == c && kc_within(p, l, p->split[k].loop)) return true;
    return false;
}

/* Constants of innermost loop `inner` in registers that are free all through `l`, around it. */
static bool kc_hold(kx_plan *p, int inner, int l, const kc_use *use, int count) {
    uint32_t all = 0, taken = kc_taken(p, l);
    for (int k = 0; k < kx_vectors(p, p->tight); k++) all |= 1u << k;
    for (int k = 0; k < count && all & ~taken; k++) {
        if (kc_is_held(p, use[k].node, inner)) continue;
        int reg = __builtin_ctz(all & ~taken);
        if (!KN_GROW(kg_alloc(p->g), p->split, p->split_cap, p->nsplit + 1)) return kn_oom(p->f);
        p->split[p->nsplit++] = (kx_split){use[k].node, l, reg, false, false};
        p->used[KX_BANK_VEC] |= 1u << reg;
        taken |= 1u << reg;
    }
    return true;
}

bool kx_hold_constants(kx_plan *p) {
    kc_use   *use  = kn_zalloc(kg_alloc(p->g), p->size * sizeof *use);
    uint32_t *seen = kn_zalloc(kg_alloc(p->g), p->size * sizeof *seen);
    bool      ok   = (use && seen) || kn_oom(p->f);
    for (int l = 0; l < p->nloop && ok; l++) {
        if (!p->loop[l].inner) continue;
        int count = kc_find(p, &p->loop[l], use, seen), around[KX_MAX_LOOPS], n = 0;
        for (int a = l; a >= 0 && count; a = p->loop[a].parent) around[n++] = a;
        while (n-- > 0 && ok) ok = kc_hold(p, l, around[n], use, count);
    }
    kn_free(kg_alloc(p->g), use, p->size * sizeof *use);
    kn_free(kg_alloc(p->g), seen, p->size * sizeof *seen);
    return ok;
}
