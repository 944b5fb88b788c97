/* encode.c - one instruction to its bytes.
 *
 * Contract: encode.h. First the instruction is held against its form, and every departure refused; then each encoding
 * that may serve is written, and the shortest stays. Facts: Intel SDM volume 2, 2.1 (legacy), 2.3 (VEX), 2.7 (EVEX). */
#include "target/x86/encode.h"

#include <string.h>

typedef struct kx_parts { /* what the places of a form hold */
    const kx_form *form;
    const kx_ins  *ins;
    int            reg, rm, vvvv, low, is4; /* registers; -1: none. rm: the register, if memory is not */
    bool           has_mem, vsib;
    int            element; /* bytes of the memory operand */
    bool           has_imm, rel;
    int            imm_bytes;
    int64_t        imm;
} kx_parts;

typedef struct kx_bytes {
    uint8_t at[32];
    int     len;
    int     fix;  /* place of a 32-bit distance, 0: none */
    bool    wide; /* a displacement of 32 bits from a register */
} kx_bytes;

/* No form has more than 4 prefix bytes, 3 of the opcode, ModRM, SIB and 12 of displacement and immediate. */
static void put_byte(kx_bytes *b, int v) {
    b->at[b->len++] = (uint8_t)v;
}
static void put_bytes(kx_bytes *b, int64_t v, int n) {
    for (int i = 0; i < 8; i++) b->at[b->len + i] = (uint8_t)((uint64_t)v >> 8 * i & 0xff); /* one store */
    b->len += n;
}
static bool is_int8(int64_t v) {
    return v >= -128 && v <= 127;
}

/* ---- checking ------------------------------------------------------------------------------------------------ */

static int refuse_ins(const char **why, const char *reason) {
    *why = reason;
    return 0;
}

/* An immediate of n bytes may be written signed or unsigned; 8 bytes with `whole`, else their low 4 sign-extended. */
static bool imm_fits(int64_t v, int n, bool whole, int64_t *out) {
    if (n == 8) {
        *out = v;
        return whole || (v >= INT32_MIN && v <= INT32_MAX);
    }
    int64_t half = 1ll << (8 * n - 1);
    if (v < -half || v >= 2 * half) return false;
    *out = v >= half ? v - 2 * half : v;
    return true;
}

static bool check_mem(const kx_ins *ins, const kx_kind *k, const char **why) {
    bool vsib = k->cls == KX_VSIB;
    if (ins->base == KX_RIP) {
        if (vsib || ins->index != KX_NO_REG) return refuse_ins(why, "an address relative to rip has no index");
        return true;
    }
    if (ins->label) return refuse_ins(why, "a label needs rip as base");
    if (ins->base != KX_NO_REG && ins->base > 15) return refuse_ins(why, "no such base register");
    if (ins->scale != 1 && ins->scale != 2 && ins->scale != 4 && ins->scale != 8)
        return refuse_ins(why, "a scale is 1, 2, 4 or 8");
    if (vsib) return ins->index <= 31 ? true : refuse_ins(why, "the index must be a vector");
    if (ins->index == KX_NO_REG) return ins->scale == 1 ? true : refuse_ins(why, "a scale without an index");
    if (ins->index > 15) return refuse_ins(why, "no such index register");
    if (ins->index == KX_RSP && (ins->scale != 1 || ins->base == KX_RSP || ins->base == KX_NO_REG))
        return refuse_ins(why, "rsp cannot be an index");
    return true;
}

static bool check_operand(kx_parts *p, int i, const char **why) {
    const kx_ins  *ins = p->ins;
    const kx_kind *k   = KX_KIND_OF(p->form, i);
    int            reg = ins->reg[i];
    if (k->cls == KX_IMM) {
        int  n     = k->reg & KX_S ? ins->size : k->reg;
        bool whole = (p->form->operand[i] & 63) == KXK_IF;
        if (!imm_fits(ins->imm, n, whole, &p->imm)) return refuse_ins(why, "the immediate does not fit");
        p->has_imm   = true;
        p->imm_bytes = whole ? n : KN_MIN(n, 4);
        return true;
    }
    if (k->cls == KX_REL) {
        if (!ins->label && (ins->imm < INT32_MIN || ins->imm > INT32_MAX))
            return refuse_ins(why, "the jump is too far");
        p->rel = true;
        return true;
    }
    if (k->cls == KX_FIXED) {
        int fixed = (p->form->operand[i] & 63) == KXK_AX   ? KX_RAX
                    : (p->form->operand[i] & 63) == KXK_DX ? KX_RDX
                                                           : KX_RCX;
        return reg == fixed ? true : refuse_ins(why, "an implicit operand is another register");
    }
    if (reg == KX_IN_MEM) {
        if (k->cls != KX_MEM && k->cls != KX_VSIB && !k->mem) return refuse_ins(why, "this operand cannot be memory");
        p->has_mem = true;
        p->vsib    = k->cls == KX_VSIB;
        p->element = kx_mem_bytes(k, ins->size);
        return check_mem(ins, k, why);
    }
    int limit = k->cls == KX_GP ? 16 : k->cls == KX_VEC ? 32 : k->cls == KX_MASK ? 8 : 0;
    if (!limit) return refuse_ins(why, "this operand must be memory");
    if (reg >= limit) return refuse_ins(why, "no such register");
    return true;
}

static void take_place(kx_parts *p, int i) {
    int reg = p->ins->reg[i];
    switch (p->form->places[i]) {
    case 'R': p->reg = reg; break;
    case 'M': p->rm = reg == KX_IN_MEM ? -1 : reg; break;
    case 'V': p->vvvv = reg; break;
    case 'O': p->low = reg; break;
    case 'S': p->is4 = reg; break;
    default: break;
    }
}

static bool check_mask(const kx_parts *p, const char **why) {
    const kx_ins *ins   = p->ins;
    uint32_t      flags = p->form->flags;
    if (ins->mask > 7) return refuse_ins(why, "no such mask register");
    if (ins->mask && !(flags & KXF_MASK)) return refuse_ins(why, "this form takes no mask");
    if (ins->zero && !(flags & KXF_ZERO)) return refuse_ins(why, "this form takes no {z}");
    if (ins->zero && !ins->mask) return refuse_ins(why, "{z} without a mask");
    if (ins->zero && ins->reg[0] == KX_IN_MEM) return refuse_ins(why, "{z} into memory");
    if (ins->broadcast && !(flags & (KXF_B2 | KXF_B4 | KXF_B8))) return refuse_ins(why, "this form takes no broadcast");
    if (ins->broadcast && !p->has_mem) return refuse_ins(why, "a broadcast of a register");
    if (!(flags & (KXF_GATHER | KXF_SCATTER))) return true;
    if (flags & KXF_MASK) {
        if (!ins->mask) return refuse_ins(why, "gathers and scatters need a mask");
        if (flags & KXF_GATHER && ins->reg[0] == ins->index) return refuse_ins(why, "a gather into its indices");
        return true;
    }
    if (ins->reg[0] == ins->index || ins->reg[2] == ins->index || ins->reg[0] == ins->reg[2])
        return refuse_ins(why, "destination, indices and mask of a gather must differ");
    return true;
}

static bool check_form(kx_parts *p, const char **why) {
    const kx_ins *ins = p->ins;
    if (ins->form == KX_NOTHING || ins->form >= KX_NFORMS) return refuse_ins(why, "no such form");
    const kx_form *f = p->form = &kx_forms[ins->form];
    if (f->sizes ? !ins->size || (ins->size & (ins->size - 1)) || !(f->sizes & ins->size) : ins->size != 0)
        return refuse_ins(why, "this form does not have this size");
    if (f->flags & KXF_CC ? ins->cond >= KX_NCONDS : ins->cond != 0)
        return refuse_ins(why, "a condition that cannot be");
    for (int i = 0; i < f->count; i++) {
        if (!check_operand(p, i, why)) return false;
        take_place(p, i);
    }
    if (ins->label < 0) return refuse_ins(why, "no such label");
    if (ins->label && !p->rel && !(p->has_mem && ins->base == KX_RIP))
        return refuse_ins(why, "a label nothing refers to");
    if (p->has_mem && ins->broadcast) p->element = f->flags & KXF_B2 ? 2 : f->flags & KXF_B4 ? 4 : 8;
    return check_mask(p, why);
}

/* ---- the address --------------------------------------------------------------------------------------------- */

typedef struct kx_address { /* as encoded: equal addresses have several forms, this is the shortest */
    int base, index, scale; /* -1: none */
    int disp_bytes;
} kx_address;

static kx_address shortest_address(const kx_parts *p, int n) {
    const kx_ins *ins = p->ins;
    kx_address a = {ins->base == KX_NO_REG ? -1 : ins->base, ins->index == KX_NO_REG ? -1 : ins->index, ins->scale, 0};
    if (ins->base == KX_RIP) return (kx_address){KX_RIP, -1, 1, 4};
    if (!p->vsib && a.base < 0 && a.index >= 0 && a.scale <= 2) { /* without a base there would be 32 bits of disp */
        a.base = a.index;
        if (a.scale == 1) a.index = -1;
        a.scale = 1;
    }
    if (!p->vsib && a.base >= 0 && a.index >= 0 && a.scale == 1) {
        /* The base is no index if it is rsp, and has no form without disp if it is rbp or r13: they change places. */
        bool better = (a.base & 7) == 5 && (a.index & 7) != 5 && ins->disp == 0 && a.base != KX_RSP;
        if (a.index == KX_RSP || better) {
            int other = a.base;
            a.base    = a.index;
            a.index   = other;
        }
    }
    if (a.base < 0)
        a.disp_bytes = 4;
    else if (ins->disp == 0 && (a.base & 7) != 5)
        a.disp_bytes = 0;
    else
        a.disp_bytes = ins->disp % n == 0 && is_int8(ins->disp / n) ? 1 : 4;
    return a;
}

static int log2_of(int scale) {
    return scale == 8 ? 3 : scale == 4 ? 2 : scale == 2;
}

/* ModRM, SIB, displacement; a displacement of one byte counts in units of n. */
static void put_modrm(kx_bytes *b, const kx_parts *p, const kx_address *a, int reg, int n) {
    int mid = (reg & 7) << 3;
    if (!p->has_mem) {
        put_byte(b, 0xc0 | mid | (KN_MAX(p->rm, 0) & 7));
        return;
    }
    if (a->base == KX_RIP) {
        put_byte(b, mid | 5);
        b->fix = p->ins->label ? b->len : 0;
        put_bytes(b, p->ins->disp, 4);
        return;
    }
    int mod = a->base < 0 || a->disp_bytes == 0 ? 0 : a->disp_bytes == 1 ? 0x40 : 0x80;
    if (a->base < 0 || a->index >= 0 || (a->base & 7) == 4) {
        put_byte(b, mod | mid | 4);
        put_byte(b, log2_of(a->scale) << 6 | (a->index < 0 ? 4 : a->index & 7) << 3 | (a->base < 0 ? 5 : a->base & 7));
    } else {
        put_byte(b, mod | mid | (a->base & 7));
    }
    if (a->disp_bytes == 1) put_byte(b, p->ins->disp / n & 0xff);
    if (a->disp_bytes == 4) put_bytes(b, p->ins->disp, 4);
    b->wide = a->disp_bytes == 4;
}

static void put_tail(kx_bytes *b, const kx_parts *p) {
    if (p->is4 >= 0) put_byte(b, p->is4 << 4);
    if (p->has_imm) put_bytes(b, p->imm, p->imm_bytes);
}

/* ---- the three kinds of encoding ------------------------------------------------------------------------------ */

static void put_map(kx_bytes *b, int map) {
    if (map >= 1) put_byte(b, 0x0f);
    if (map == 2) put_byte(b, 0x38);
    if (map == 3) put_byte(b, 0x3a);
}

static void encode_legacy(kx_bytes *b, kx_parts *p) {
    static const uint8_t prefix[] = {0, 0x66, 0xf3, 0xf2};
    const kx_form       *f        = p->form;
    const kx_ins        *ins      = p->ins;
    kx_address           a        = p->has_mem ? shortest_address(p, 1) : (kx_address){-1, -1, 1, 0};
    int                  opcode   = f->opcode;
    bool                 modrm    = p->has_mem || p->rm >= 0 || p->reg >= 0 || f->digit >= 0;
    if (ins->size == 1 && f->flags & KXF_OP8) opcode -= 1;
    if (ins->size == 1 && f->flags & KXF_LOWB) opcode -= 8;
    if (f->flags & KXF_ONE && ins->imm == 1) {
        opcode += 0x10;
        p->has_imm = false;
    }
    if (f->flags & KXF_IMM8 && ins->size != 1 && is_int8(p->imm)) {
        opcode += 2;
        p->imm_bytes = 1;
    } else if (f->flags & KXF_ACC && p->rm == KX_RAX) {
        opcode = (f->opcode == 0x81 ? f->digit * 8 + 5 : 0xa9) - (ins->size == 1);
        modrm  = false;
        p->rm  = -1;
    }
    if (f->flags & KXF_TOREG && p->rm >= 0 && ins->size < 8) {
        opcode = ins->size == 1 ? 0xb0 : 0xb8;
        modrm  = false;
        p->low = p->rm;
        p->rm  = -1;
    } else if (f->flags & KXF_LOWB && ins->size == 8 && p->imm >= INT32_MIN && p->imm <= INT32_MAX) {
        opcode       = 0xc7; /* its other form: 4 bytes less */
        p->imm_bytes = 4;
        p->rm        = p->low;
        p->low       = -1;
        modrm        = true;
    }
    if (f->flags & KXF_CC) opcode += ins->cond;
    if (p->rel) {
        bool near = !ins->label && f->flags & KXF_SHORT && is_int8(ins->imm);
        if (near) {
            put_byte(b, f->flags & KXF_CC ? opcode - 0x10 : opcode + 2);
            put_bytes(b, ins->imm, 1);
            return;
        }
        put_map(b, f->map);
        put_byte(b, opcode);
        b->fix = ins->label ? b->len : 0;
        put_bytes(b, ins->label ? 0 : ins->imm, 4);
        return;
    }
    int rex = 0;
    if ((ins->size == 8 && !(f->flags & KXF_D64)) || f->flags & KXF_REXW) rex |= 0x48;
    if (p->reg >= 8) rex |= 0x44;
    if (p->has_mem && a.index >= 8) rex |= 0x42;
    if ((p->has_mem && a.base >= 8 && a.base < 16) || p->rm >= 8 || p->low >= 8) rex |= 0x41;
    for (int i = 0; i < f->count; i++) { /* without REX these would be ah ch dh bh */
        const kx_kind *k = KX_KIND_OF(f, i);
        if (k->cls == KX_GP && kx_reg_bytes(k, ins->size) == 1 && ins->reg[i] >= 4 && ins->reg[i] <= 7) rex |= 0x40;
    }
    if (ins->size == 2) put_byte(b, 0x66);
    if (f->prefix) put_byte(b, prefix[f->prefix]);
    if (rex) put_byte(b, rex);
    put_map(b, f->map);
    put_byte(b, p->low >= 0 ? opcode + (p->low & 7) : opcode);
    if (modrm) put_modrm(b, p, &a, f->digit >= 0 ? f->digit : KN_MAX(p->reg, 0), 1);
    put_tail(b, p);
}

static int length_bits(const kx_parts *p) {
    return p->ins->size == 64 ? 2 : p->ins->size == 32 || p->form->len1;
}

static void encode_vex(kx_bytes *b, const kx_parts *in) {
    kx_parts       p = *in;
    const kx_form *f = p.form;
    kx_address     a = p.has_mem ? shortest_address(&p, 1) : (kx_address){-1, -1, 1, 0};
    int opcode = f->opcode, w = f->by_size ? p.ins->size == 8 : f->vex_w, reg = f->digit >= 0 ? f->digit : p.reg;
    int prefix = f->prefix;
    if (f->flags & (KXF_SWAP1 | KXF_SWAP16 | KXF_SWAPQ) && p.rm >= 8 && reg < 8) { /* backwards it needs no VEX.B */
        opcode = f->flags & KXF_SWAPQ ? 0xd6 : opcode ^ (f->flags & KXF_SWAP1 ? 1 : 16);
        if (f->flags & KXF_SWAPQ) prefix = 1;
        reg  = p.rm;
        p.rm = p.reg;
    }
    bool r = reg >= 8, x = p.has_mem && a.index >= 8, bb = p.has_mem ? a.base >= 8 && a.base < 16 : p.rm >= 8;
    int  tail = (~KN_MAX(p.vvvv, 0) & 15) << 3 | length_bits(&p) << 2 | prefix;
    if (f->map == 1 && !x && !bb && !w) {
        put_byte(b, 0xc5);
        put_byte(b, !r << 7 | tail);
    } else {
        put_byte(b, 0xc4);
        put_byte(b, !r << 7 | !x << 6 | !bb << 5 | f->map);
        put_byte(b, w << 7 | tail);
    }
    put_byte(b, opcode);
    if (p.reg >= 0 || p.rm >= 0 || p.has_mem) put_modrm(b, &p, &a, reg, 1); /* vzeroupper has none */
    put_tail(b, &p);
}

static void encode_evex(kx_bytes *b, const kx_parts *p) {
    const kx_form *f   = p->form;
    const kx_ins  *ins = p->ins;
    int            n   = KN_MAX(p->element, 1);
    kx_address     a   = p->has_mem ? shortest_address(p, n) : (kx_address){-1, -1, 1, 0};
    int            reg = KN_MAX(f->digit >= 0 ? f->digit : p->reg, 0), v = KN_MAX(p->vvvv, 0);
    int            w = f->by_size ? ins->size == 8 : f->evex_w;
    if (p->vsib) v = a.index & 16; /* its fifth bit */
    bool x  = p->has_mem ? a.index >= 0 && a.index & 8 : p->rm >= 0 && p->rm & 16;
    bool bb = p->has_mem ? a.base >= 0 && a.base < 16 && a.base & 8 : p->rm >= 0 && p->rm & 8;
    put_byte(b, 0x62);
    put_byte(b, !(reg & 8) << 7 | !x << 6 | !bb << 5 | !(reg & 16) << 4 | f->map);
    put_byte(b, w << 7 | (~v & 15) << 3 | 4 | f->prefix);
    put_byte(b, ins->zero << 7 | length_bits(p) << 5 | ins->broadcast << 4 | !(v & 16) << 3 | ins->mask);
    put_byte(b, f->opcode);
    put_modrm(b, p, &a, reg, n);
    put_tail(b, p);
}

/* ---- the choice ---------------------------------------------------------------------------------------------- */

/* What of EVEX alone the instruction uses; NULL: nothing. */
static const char *beyond_vex(const kx_parts *p) {
    const kx_ins *ins = p->ins;
    if (ins->mask) return "a mask needs AVX-512";
    if (ins->broadcast) return "a broadcast needs AVX-512";
    if (ins->size == 64) return "512 bits need AVX-512";
    if (p->has_mem && p->form->flags & KXF_EVEXMEM) return "a memory operand here needs AVX-512";
    if (p->vsib && ins->index > 15) return "registers from 16 on need AVX-512";
    for (int i = 0; i < p->form->count; i++)
        if (KX_KIND_OF(p->form, i)->cls == KX_VEC && ins->reg[i] != KX_IN_MEM && ins->reg[i] > 15)
            return "registers from 16 on need AVX-512";
    return NULL;
}

static uint64_t vex_needs(const kx_parts *p) {
    int feature = p->form->vex;
    if (feature == KXC_NO) return 0;
    return 1ull << feature | (feature > KXC_F ? KX_HAS(F) : 0); /* instructions on masks */
}
static uint64_t evex_needs(const kx_parts *p) {
    if (p->form->evex == KXC_NO) return 0;
    bool vl = p->ins->size == 16 || p->ins->size == 32;
    return 1ull << p->form->evex | (vl ? KX_HAS(VL) : 0) | KX_HAS(F);
}

/* The chosen bytes, and in *needs the features they need. */
static bool choose_encoding(const kx_ins *ins, uint64_t features, kx_bytes *best, uint64_t *needs, const char **why) {
    kx_parts p = {.ins = ins, .reg = -1, .rm = -1, .vvvv = -1, .low = -1, .is4 = -1};
    if (!check_form(&p, why)) return false;
    features |= KX_HAS(BASE);
    best->len = best->fix = 0;
    best->wide            = false;
    if (p.form->vex == KXC_NO && p.form->evex == KXC_NO) {
        *needs = 1ull << p.form->need;
        if (!(features & *needs)) return refuse_ins(why, "the CPU's features do not include it");
        encode_legacy(best, &p);
        return true;
    }
    const char *beyond = beyond_vex(&p);
    uint64_t    by_vex = beyond ? 0 : vex_needs(&p), by_evex = evex_needs(&p);
    bool        can_vex  = by_vex && (features & by_vex) == by_vex;
    bool        can_evex = by_evex && (features & by_evex) == by_evex;
    if (!can_vex && !can_evex) {
        if (beyond && !by_evex) return refuse_ins(why, beyond);
        return refuse_ins(why, "the CPU's features do not include it");
    }
    if (can_vex) {
        encode_vex(best, &p);
        *needs = by_vex;
    }
    if (can_evex && (!can_vex || best->wide)) { /* a displacement in units of the operand can be shorter */
        kx_bytes other;
        other.len = other.fix = 0;
        encode_evex(&other, &p);
        if (!can_vex || other.len < best->len) {
            *best  = other;
            *needs = by_evex;
        }
    }
    return true;
}

int kx_encode(const kx_ins *ins, uint64_t features, uint8_t out[KX_MAX_BYTES], kx_fix *fix, const char **why) {
    const char *reason = NULL;
    uint64_t    needs  = 0;
    kx_bytes    b;
    if (!why) why = &reason;
    *why = NULL;
    if (!choose_encoding(ins, features, &b, &needs, why)) return 0;
    if (b.len > KX_MAX_BYTES) return refuse_ins(why, "more than 15 bytes");
    if (b.fix && !fix) return refuse_ins(why, "a label here cannot be resolved");
    memcpy(out, b.at, (size_t)b.len);
    if (fix) *fix = (kx_fix){(uint8_t)b.fix, (uint8_t)b.len};
    return b.len;
}

uint64_t kx_needs(const kx_ins *ins, uint64_t features) {
    const char *why   = NULL;
    uint64_t    needs = 0;
    kx_bytes    b;
    return choose_encoding(ins, features, &b, &needs, &why) ? needs : 0;
}
