/* random_ins.c - random instructions for the tests of the encoder. */
#include "x86/random_ins.h"

uint64_t rnd_next(uint64_t *seed) { /* splitmix64, Steele and others 2014 */
    uint64_t z = *seed += 0x9e3779b97f4a7c15ull;
    z          = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z          = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

int rnd_below(uint64_t *seed, int n) {
    return (int)(rnd_next(seed) % (uint64_t)n);
}

int rnd_registers(const kx_kind *k, bool evex) {
    return k->cls == KX_GP ? 16 : k->cls == KX_MASK ? 8 : k->cls == KX_VEC ? (evex ? 32 : 16) : 0;
}

static int random_reg(uint64_t *seed, const kx_kind *k, bool evex) {
    int n = rnd_registers(k, evex);
    return n ? rnd_below(seed, n) : 0;
}

bool rnd_ins(uint64_t *seed, kx_ins *ins, int form, int size, bool memory, bool evex) {
    const kx_form *f       = &kx_forms[form];
    bool           has_mem = false;
    *ins                   = kx_i((kx_form_id)form, size);
    ins->cond              = f->flags & KXF_CC ? (uint8_t)rnd_below(seed, 16) : 0;
    for (int i = 0; i < f->count; i++) {
        const kx_kind *k    = KX_KIND_OF(f, i);
        bool           only = k->cls == KX_MEM || k->cls == KX_VSIB;
        ins->reg[i]         = (uint8_t)random_reg(seed, k, evex);
        if (k->cls == KX_FIXED) ins->reg[i] = k->reg == 1 ? KX_RCX : (f->operand[i] & 63) == KXK_AX ? KX_RAX : KX_RDX;
        if (only || (memory && k->mem)) {
            ins->reg[i] = KX_IN_MEM;
            has_mem     = true;
            ins->base   = (uint8_t)rnd_below(seed, 16);
            if (k->cls == KX_VSIB) ins->index = (uint8_t)rnd_below(seed, evex ? 32 : 16);
        }
        if (k->cls == KX_IMM || k->cls == KX_REL) {
            int bytes = k->reg & KX_S ? size : k->reg;
            if (bytes == 8 && (f->operand[i] & 63) == KXK_IS) bytes = 4;
            int64_t bits = (int64_t)rnd_next(seed);
            ins->imm     = bytes == 8                                     ? bits
                           : bytes == 1 && (f->operand[i] & 63) == KXK_I8 ? bits & 255
                                                                          : bits >> (64 - 8 * bytes);
            if (k->cls == KX_REL && bytes == 4 && rnd_below(seed, 2)) ins->imm = (int8_t)bits;
        }
    }
    if (memory && !has_mem) return false;
    if (!memory && has_mem) return false;
    if (f->flags & (KXF_GATHER | KXF_SCATTER)) {
        if (f->flags & KXF_MASK) ins->mask = (uint8_t)(1 + rnd_below(seed, 7));
        while (ins->index == ins->reg[0] || (!(f->flags & KXF_MASK) && (ins->index == ins->reg[2])))
            ins->index = (uint8_t)rnd_below(seed, 16);
        while (!(f->flags & KXF_MASK) && (ins->reg[2] == ins->reg[0] || ins->reg[2] == ins->index))
            ins->reg[2] = (uint8_t)rnd_below(seed, 16);
    }
    return true;
}

bool rnd_legal(const kx_ins *ins) {
    const kx_form *f = &kx_forms[ins->form];
    if (!(f->flags & KXF_GATHER)) return true;
    if (f->flags & KXF_MASK) return ins->reg[0] != ins->index;
    return ins->reg[0] != ins->index && ins->reg[2] != ins->index && ins->reg[0] != ins->reg[2];
}
