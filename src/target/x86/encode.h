/* encode.h - instructions of x86-64: their forms (x86.def), one instruction as a value, and its bytes.
 *
 * Contract: kx_encode gives the shortest encoding of exactly what is asked, or refuses with a reason; it never encodes
 * something else. It keeps no state and allocates nothing. Code with labels, jumps and constants: code.h. */
#ifndef KX_ENCODE_H
#define KX_ENCODE_H

#include "dialect/uop.h"

/* ---- forms -------------------------------------------------------------------------------------------------- */

typedef enum kx_form_id {
    KX_NOTHING,
#define GP(NAME, ...) KX_##NAME,
#define VX(NAME, ...) KX_##NAME,
#include "target/x86/x86.def"
#undef GP
#undef VX
    KX_NFORMS
} kx_form_id;

/* What a CPU has; a set of them is a mask of KX_HAS(feature). */
typedef enum kx_feature {
    KXC_BASE, /* every x86-64 */
#define FEATURE(NAME, ...) KXC_##NAME,
#include "target/x86/x86.def"
#undef FEATURE
    KXC_NFEATURES,
    KXC_NO = 255 /* no encoding of this kind */
} kx_feature;
#define KX_HAS(NAME) (1ull << KXC_##NAME)
/* The two levels kernels are compiled for; KX_LEVEL_AVX2 is the least this target works with. */
#define KX_LEVEL_AVX2 \
    (KX_HAS(BASE) | KX_HAS(AVX) | KX_HAS(AVX2) | KX_HAS(FMA) | KX_HAS(F16C) | KX_HAS(BMI1) | KX_HAS(BMI2))
#define KX_LEVEL_AVX512 (KX_LEVEL_AVX2 | KX_HAS(F) | KX_HAS(BW) | KX_HAS(DQ) | KX_HAS(VL))

typedef enum kx_cond {
#define COND(NAME, TEXT) KXCC_##NAME,
#include "target/x86/x86.def"
#undef COND
    KX_NCONDS
} kx_cond;

typedef enum kx_class { KX_GP, KX_VEC, KX_MASK, KX_MEM, KX_VSIB, KX_FIXED, KX_IMM, KX_REL } kx_class;
enum { KX_S = 0x80, KX_S2, KX_S4, KX_S8 }; /* bytes: the instruction's size, shifted right by the low bits */

typedef enum kx_kind_id {
    KXK__,
#define KIND(NAME, ...) KXK_##NAME,
#include "target/x86/x86.def"
#undef KIND
    KXK_COUNT
} kx_kind_id;

typedef struct kx_kind {
    const char *name;
    uint8_t     cls, reg, mem; /* class; bytes of the register, of the memory operand: 0 cannot be one, or KX_S.. */
} kx_kind;

/* clang-format off */
enum { /* roles of an operand */
    KX_DEF = 1,
    KX_USE = 2
};

enum { /* flags of a form */
    KXF_OP8      = 1 << 0,  /* size 1: the opcode with its low bit cleared */
    KXF_LOWB     = 1 << 1,  /* mov to a register: size 1 has the opcode less 8, size 8 a form with 4 bytes */
    KXF_IMM8     = 1 << 2,  /* an immediate within int8 is one byte, with the opcode + 2 */
    KXF_ACC      = 1 << 3,  /* with al, ax, eax, rax a shorter opcode without ModRM */
    KXF_ONE      = 1 << 4,  /* shift by 1: the opcode + 0x10 and no immediate */
    KXF_SHORT    = 1 << 5,  /* jump: there is an 8-bit displacement */
    KXF_CC       = 1 << 6,  /* takes a condition */
    KXF_D64      = 1 << 7,  /* 64 bits by default, no REX.W */
    KXF_REXW     = 1 << 8,  /* always REX.W */
    KXF_SWAP1    = 1 << 9,  /* a move: opcode ^ 1 has the operands exchanged; */
    KXF_SWAP16   = 1 << 10, /* so has opcode ^ 16; */
    KXF_SWAPQ    = 1 << 11, /* so has 66 0F D6. Used for a shorter prefix */
    KXF_TOREG    = 1 << 12, /* to a register of less than 8 bytes: the opcode 0xb8 + register */
    KXF_FR       = 1 << 13, /* reads the flags register */
    KXF_FW       = 1 << 14, /* writes it */
    KXF_COMM     = 1 << 15, /* the last two sources may change places (of floats: but for which NaN comes out) */
    KXF_MASK     = 1 << 16, /* may take k1..k7: lanes whose bit is 0 keep the destination (of a mask: become 0) */
    KXF_ZERO     = 1 << 17, /* and {z}: become 0 */
    KXF_B2       = 1 << 18, /* memory may be one element of 2, 4 or 8 bytes, repeated: {1toN} */
    KXF_B4       = 1 << 19,
    KXF_B8       = 1 << 20,
    KXF_NT       = 1 << 21, /* non-temporal */
    KXF_ALIGN    = 1 << 22, /* memory must be aligned to its size */
    KXF_EVEXMEM  = 1 << 23, /* a memory operand needs the EVEX encoding */
    KXF_GATHER   = 1 << 24, /* mask required, and consumed (becomes 0); destination, indices and mask all differ */
    KXF_SCATTER  = 1 << 25,
    KXF_SELECT   = 1 << 26, /* the mask selects between the sources; without {z} the destination is not read */
    KXF_CALLS    = 1 << 27, /* call, vzeroupper: registers beyond the operands change */
    KXF_INRANGE  = 1 << 28, /* the meaning holds where the count is below the width, or the value fits the result */
    KXF_UNSIGNED = 1 << 29, /* integers of dtype VOID are unsigned; otherwise signed */
    KXF_SHUFFLES = 1 << 30  /* moves lanes from place to place */
};
/* clang-format on */

typedef struct kx_form {
    const char *name, *mnemonic, *places, *meaning;
    uint32_t    flags;
    uint8_t     operand[4];  /* kind | role << 6; 0: none */
    uint8_t     count;       /* operands */
    uint8_t     prefix, map; /* 0 NP, 1 66, 2 F3, 3 F2; 0 one byte, 1 0F, 2 0F38, 3 0F3A, 5 and 6 */
    uint8_t     opcode;
    int8_t      digit;
    uint8_t     sizes;         /* mask of sizes in bytes; 0: no choice */
    bool        len1, by_size; /* 256 bits where there is no choice; W follows the size */
    uint8_t     vex_w, evex_w;
    uint8_t     vex, evex, need; /* kx_feature: KXC_NO where there is no such encoding; need: of forms without either */
    uint8_t     op, dt, st;      /* kn_op, dtype of result and of sources: see x86.def */
} kx_form;

extern const kx_form     kx_forms[KX_NFORMS];
extern const kx_kind     kx_kinds[KXK_COUNT];
extern const char *const kx_cond_text[KX_NCONDS];
extern const char *const kx_feature_text[KXC_NFEATURES];

#define KX_KIND_OF(form, i) (&kx_kinds[(form)->operand[i] & 63])
/* The form named `name` ("VADDPS"), KX_NOTHING if there is none. */
kx_form_id kx_form_find(const char *name);
/* Bytes of a memory operand of this kind at this size; kx_reg_bytes: of a register. */
int kx_mem_bytes(const kx_kind *k, int size);
int kx_reg_bytes(const kx_kind *k, int size);

/* ---- instructions ------------------------------------------------------------------------------------------- */

/* clang-format off */
enum {
    KX_RAX, KX_RCX, KX_RDX, KX_RBX, KX_RSP, KX_RBP, KX_RSI, KX_RDI,
    KX_R8, KX_R9, KX_R10, KX_R11, KX_R12, KX_R13, KX_R14, KX_R15
};
enum {
    KX_RIP    = 0xfd, /* as base: the address of `label` + disp */
    KX_IN_MEM = 0xfe, /* as reg[i]: operand i is the memory operand */
    KX_NO_REG = 0xff  /* as base or index: none */
};
/* clang-format on */

/* Zero-initialised it is harmless: no mask, no label. reg[i] of an immediate or a jump's target is not looked at; of an
 * implicit operand it is that register's number. Register numbers: 0-15 gp (size 1: 4-7 are spl bpl sil dil; ah.. do
 * not exist here), 0-31 vectors, 0-7 masks. */
typedef struct kx_ins {
    uint16_t form;
    uint8_t  size;
    uint8_t  cond;               /* kx_cond, of CC forms */
    uint8_t  reg[4];             /* operand i: a register, or KX_IN_MEM */
    uint8_t  mask;               /* k1..k7; 0 none */
    bool     zero;               /* {z} */
    bool     broadcast;          /* {1toN} */
    uint8_t  base, index, scale; /* of the memory operand; scale 1 2 4 8; index: gp, or a vector of VSIB kinds */
    int32_t  disp;
    int32_t label; /* of jumps and KX_RIP: a label of kx_code, from 1; 0: imm is the distance, from the next instruction
                    * (KX_RIP: disp is) */
    int64_t imm;
    uint8_t ragged; /* its memory may lie at any multiple of 64 >> ragged bytes: which the bytes do not tell (pace.c) */
} kx_ins;

/* What operand i does here: KX_DEF | KX_USE. A destination merged under a mask is used too. */
int kx_role(const kx_ins *ins, int i);
/* The features this instruction needs as it would be encoded with `features`; 0 if it cannot be. */
uint64_t kx_needs(const kx_ins *ins, uint64_t features);

/* Shorthands: operands in Intel's order; kx_mem* set the memory operand of what kx_i* made, which has KX_IN_MEM there.
 */
static inline kx_ins kx_i4(kx_form_id form, int size, int a, int b, int c, int d) {
    return (kx_ins){.form  = (uint16_t)form,
                    .size  = (uint8_t)size,
                    .reg   = {(uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d},
                    .base  = KX_NO_REG,
                    .index = KX_NO_REG,
                    .scale = 1};
}
static inline kx_ins kx_i(kx_form_id form, int size) { /* no operand, or only immediates */
    return kx_i4(form, size, 0, 0, 0, 0);
}
static inline kx_ins kx_i1(kx_form_id form, int size, int a) {
    return kx_i4(form, size, a, 0, 0, 0);
}
static inline kx_ins kx_i2(kx_form_id form, int size, int a, int b) {
    return kx_i4(form, size, a, b, 0, 0);
}
static inline kx_ins kx_i3(kx_form_id form, int size, int a, int b, int c) {
    return kx_i4(form, size, a, b, c, 0);
}
static inline kx_ins kx_imm(kx_ins ins, int64_t imm) {
    ins.imm = imm;
    return ins;
}
static inline kx_ins kx_mem_index(kx_ins ins, int base, int index, int scale,
                                  int32_t disp) { /* each may be KX_NO_REG */
    ins.base  = (uint8_t)base;
    ins.index = (uint8_t)index;
    ins.scale = (uint8_t)scale;
    ins.disp  = disp;
    return ins;
}
static inline kx_ins kx_mem(kx_ins ins, int base, int32_t disp) {
    return kx_mem_index(ins, base, KX_NO_REG, 1, disp);
}
static inline kx_ins kx_mem_label(kx_ins ins, int32_t label, int32_t disp) {
    ins       = kx_mem_index(ins, KX_RIP, KX_NO_REG, 1, disp);
    ins.label = label;
    return ins;
}
static inline kx_ins kx_masked(kx_ins ins, int k, bool zero) {
    ins.mask = (uint8_t)k;
    ins.zero = zero;
    return ins;
}
static inline kx_ins kx_bcast(kx_ins ins) { /* {1toN} */
    ins.broadcast = true;
    return ins;
}
/* The shortest move of a constant into a 64-bit register that leaves the flags alone. */
kx_ins kx_mov_const(int reg, int64_t value);

/* ---- bytes -------------------------------------------------------------------------------------------------- */

enum { KX_MAX_BYTES = 15 };
/* Where a 32-bit distance from the end of the instruction to ins->label has to be added; at 0: nowhere. */
typedef struct kx_fix {
    uint8_t at, size;
} kx_fix;

/* The bytes of one instruction, using only encodings that `features` has; 0: refused, *why says why (constant text).
 * Jumps and KX_RIP with a label leave 32 bits to be fixed (fix; NULL if there can be none). */
int kx_encode(const kx_ins *ins, uint64_t features, uint8_t out[KX_MAX_BYTES], kx_fix *fix, const char **why);

#endif
