/* forms.c - the tables of encode.h, made from x86.def, and the small questions asked of them. */
#include "target/x86/encode.h"

#include <string.h>

enum { /* operands as x86.def writes them: role and kind */
       KXO__ = 0,
#define KIND(NAME, ...) \
    KXO_d##NAME = KXK_##NAME | KX_DEF << 6, KXO_u##NAME = KXK_##NAME | KX_USE << 6, \
    KXO_x##NAME = KXK_##NAME | (KX_DEF | KX_USE) << 6,
#include "target/x86/x86.def"
#undef KIND
};

enum { /* sizes */
       KXS_S0   = 0,
       KXS_L0   = 0,
       KXS_LIG  = 0,
       KXS_L1   = 0x100,
       KXS_DQ   = 12,
       KXS_WDQ  = 14,
       KXS_BWDQ = 15,
       KXS_X    = 16,
       KXS_Y    = 32,
       KXS_Z    = 64,
       KXS_XY   = 48,
       KXS_YZ   = 96,
       KXS_XYZ  = 112
};
enum { KXP_NP, KXP_66, KXP_F3, KXP_F2 };
enum { KXM_M1 = 0, KXM_M0F = 1, KXM_M38 = 2, KXM_M3A = 3, KXM_M5 = 5, KXM_M6 = 6 };
enum { KXW_W00 = 0, KXW_W11 = 3, KXW_W01 = 2, KXW_WS = 4 }; /* bit 0 VEX, bit 1 EVEX */

#define OP8 KXF_OP8
#define LOWB KXF_LOWB
#define IMM8 KXF_IMM8
#define ACC KXF_ACC
#define ONE KXF_ONE
#define SHORT KXF_SHORT
#define CC KXF_CC
#define D64 KXF_D64
#define REXW KXF_REXW
#define SWAP1 KXF_SWAP1
#define SWAP16 KXF_SWAP16
#define FR KXF_FR
#define FW KXF_FW
#define COMM KXF_COMM
#define MASK KXF_MASK
#define ZERO KXF_ZERO
#define B2 KXF_B2
#define B4 KXF_B4
#define B8 KXF_B8
#define NT KXF_NT
#define ALIGN KXF_ALIGN
#define EVEXMEM KXF_EVEXMEM
#define GATHER KXF_GATHER
#define SCATTER KXF_SCATTER
#define SELECT KXF_SELECT
#define CALLS KXF_CALLS
#define INRANGE KXF_INRANGE
#define TOREG KXF_TOREG
#define SWAPQ KXF_SWAPQ
#define UNSIGNED KXF_UNSIGNED
#define SHUFFLES KXF_SHUFFLES

#define COMMON(NAME, MNEMONIC, PREFIX, MAP, OPCODE, DIGIT, PLACES, A, B, C, D, SIZES, FLAGS, OP, MEANING) \
    .name = #NAME, .mnemonic = MNEMONIC, .places = PLACES, .meaning = MEANING, .flags = FLAGS, \
    .operand = {KXO_##A, KXO_##B, KXO_##C, KXO_##D}, \
    .count = (KXO_##A != 0) + (KXO_##B != 0) + (KXO_##C != 0) + (KXO_##D != 0), .prefix = KXP_##PREFIX, \
    .map = KXM_##MAP, .opcode = OPCODE, .digit = DIGIT, .sizes = KXS_##SIZES & 0xff, .len1 = KXS_##SIZES == KXS_L1, \
    .op = KN_OP_##OP

const kx_form kx_forms[KX_NFORMS] = {
    [KX_NOTHING] = {.name = "NOTHING", .mnemonic = "", .places = "", .meaning = "", .vex = KXC_NO, .evex = KXC_NO},
#define GP(NAME, MNEMONIC, PREFIX, MAP, OPCODE, DIGIT, PLACES, A, B, C, D, SIZES, NEED, FLAGS, OP, MEANING) \
    [KX_##NAME] = {COMMON(NAME, MNEMONIC, PREFIX, MAP, OPCODE, DIGIT, PLACES, A, B, C, D, SIZES, FLAGS, OP, MEANING), \
                   .vex  = KXC_NO, \
                   .evex = KXC_NO, \
                   .need = KXC_##NEED, \
                   .dt   = KN_VOID, \
                   .st   = KN_VOID},
#define VX(NAME, MNEMONIC, PREFIX, MAP, OPCODE, DIGIT, PLACES, A, B, C, D, SIZES, W, VEX, EVEX, FLAGS, OP, DT, ST, \
           MEANING) \
    [KX_##NAME] = {COMMON(NAME, MNEMONIC, PREFIX, MAP, OPCODE, DIGIT, PLACES, A, B, C, D, SIZES, FLAGS, OP, MEANING), \
                   .by_size = KXW_##W == KXW_WS, \
                   .vex_w   = KXW_##W & 1, \
                   .evex_w  = KXW_##W >> 1 & 1, \
                   .vex     = KXC_##VEX, \
                   .evex    = KXC_##EVEX, \
                   .dt      = KN_##DT, \
                   .st      = KN_##ST},
#include "target/x86/x86.def"
#undef GP
#undef VX
};

#undef COMMON
#undef OP8
#undef LOWB
#undef IMM8
#undef ACC
#undef ONE
#undef SHORT
#undef CC
#undef D64
#undef REXW
#undef SWAP1
#undef SWAP16
#undef FR
#undef FW
#undef COMM
#undef MASK
#undef ZERO
#undef B2
#undef B4
#undef B8
#undef NT
#undef ALIGN
#undef EVEXMEM
#undef GATHER
#undef SCATTER
#undef SELECT
#undef CALLS
#undef INRANGE
#undef TOREG
#undef SWAPQ
#undef UNSIGNED
#undef SHUFFLES

const kx_kind kx_kinds[KXK_COUNT] = {
#define S KX_S
#define S2 KX_S2
#define S4 KX_S4
#define S8 KX_S8
#define KIND(NAME, CLASS, REG, MEM) [KXK_##NAME] = {#NAME, KX_##CLASS, REG, MEM},
#include "target/x86/x86.def"
#undef KIND
#undef S
#undef S2
#undef S4
#undef S8
};

const char *const kx_cond_text[KX_NCONDS] = {
#define COND(NAME, TEXT) [KXCC_##NAME] = TEXT,
#include "target/x86/x86.def"
#undef COND
};

const char *const kx_feature_text[KXC_NFEATURES] = {
    [KXC_BASE] = "x86-64",
#define FEATURE(NAME, TEXT, ...) [KXC_##NAME] = TEXT,
#include "target/x86/x86.def"
#undef FEATURE
};

kx_form_id kx_form_find(const char *name) {
    for (int i = 1; i < KX_NFORMS; i++)
        if (strcmp(kx_forms[i].name, name) == 0) return (kx_form_id)i;
    return KX_NOTHING;
}

static int kind_bytes(uint8_t n, int size) {
    return n & KX_S ? size >> (n & 7) : n;
}
int kx_mem_bytes(const kx_kind *k, int size) {
    return kind_bytes(k->mem, size);
}
int kx_reg_bytes(const kx_kind *k, int size) {
    int n = kind_bytes(k->reg, size);
    return k->cls == KX_VEC || k->cls == KX_VSIB ? KN_MAX(n, 16) : n;
}

int kx_role(const kx_ins *ins, int i) {
    const kx_form *f    = &kx_forms[ins->form];
    int            role = f->operand[i] >> 6;
    /* Lanes that a mask leaves alone keep what the destination held. */
    bool merges = ins->mask && !ins->zero && KX_KIND_OF(f, i)->cls == KX_VEC && !(f->flags & KXF_SELECT);
    return role == KX_DEF && merges && ins->reg[i] != KX_IN_MEM ? KX_DEF | KX_USE : role;
}

kx_ins kx_mov_const(int reg, int64_t value) {
    if (value >= 0 && value <= UINT32_MAX) return kx_imm(kx_i1(KX_MOVRI, 4, reg), value);
    if (value >= INT32_MIN && value < 0) return kx_imm(kx_i1(KX_MOVI, 8, reg), value);
    return kx_imm(kx_i1(KX_MOVRI, 8, reg), value);
}
