/* The encoder against Zydis: every form with every register, address, mask and broadcast it takes, decoded again and
 * compared operand by operand; and instructions damaged at random, which must be refused or mean what they say. */
#include "base/base.h"
#include "check.h"
#include "target/x86/disasm.h"
#include "target/x86/encode.h"
#include "x86/random_ins.h"

#ifdef KN_HAVE_ZYDIS
#include <Zydis/Zydis.h>

typedef struct bench {
    ZydisDecoder decoder;
    long long    good, refused, bad, request;
    uint64_t     seed;
} bench;

/* ---- what Zydis calls things ----------------------------------------------------------------------------------- */

static const char *zydis_cond(int cond) {
    static const char *const text[] = {"o", "no", "b", "nb", "z", "nz", "be", "nbe",
                                       "s", "ns", "p", "np", "l", "nl", "le", "nle"};
    return text[cond];
}

static ZydisRegister zydis_reg(kx_class cls, int bytes, int reg) {
    if (cls == KX_MASK) return ZydisRegisterEncode(ZYDIS_REGCLASS_MASK, (ZyanU8)reg);
    if (cls == KX_VEC || cls == KX_VSIB)
        return ZydisRegisterEncode(bytes == 64   ? ZYDIS_REGCLASS_ZMM
                                   : bytes == 32 ? ZYDIS_REGCLASS_YMM
                                                 : ZYDIS_REGCLASS_XMM,
                                   (ZyanU8)reg);
    switch (bytes) {
    case 1: return ZydisRegisterEncode(ZYDIS_REGCLASS_GPR8, (ZyanU8)(reg >= 4 ? reg + 4 : reg)); /* past ah..bh */
    case 2: return ZydisRegisterEncode(ZYDIS_REGCLASS_GPR16, (ZyanU8)reg);
    case 4: return ZydisRegisterEncode(ZYDIS_REGCLASS_GPR32, (ZyanU8)reg);
    default: return ZydisRegisterEncode(ZYDIS_REGCLASS_GPR64, (ZyanU8)reg);
    }
}

/* An address as a sum: what each register counts. The encoder may write another form of the same one. */
static void add_term(int count[64], kx_class cls, ZydisRegister reg, int scale) {
    if (reg == ZYDIS_REGISTER_NONE) return;
    int id = ZydisRegisterGetId(reg);
    count[cls == KX_VEC ? id + 32 : id] += scale;
}

static const char *differs_mem(const kx_ins *ins, const kx_kind *k, const ZydisDecodedOperand *op) {
    bool vsib  = k->cls == KX_VSIB;
    int  bytes = kx_mem_bytes(k, ins->size);
    if (op->type != ZYDIS_OPERAND_TYPE_MEMORY) return "no memory operand";
    if (bytes && !ins->broadcast && !vsib && op->size != bytes * 8) return "width of the memory operand";
    if (ins->base == KX_RIP) {
        if (op->mem.base != ZYDIS_REGISTER_RIP || op->mem.index != ZYDIS_REGISTER_NONE) return "rip";
        return op->mem.disp.value == ins->disp ? NULL : "distance";
    }
    if (op->mem.base == ZYDIS_REGISTER_RIP) return "base is rip";
    int want[64] = {0}, got[64] = {0};
    if (ins->base != KX_NO_REG) want[ins->base] += 1;
    if (ins->index != KX_NO_REG) want[vsib ? 32 + ins->index : ins->index] += ins->scale;
    add_term(got, KX_GP, op->mem.base, 1);
    add_term(got, vsib ? KX_VEC : KX_GP, op->mem.index, op->mem.scale);
    if (memcmp(want, got, sizeof want) != 0) return "address";
    if (vsib && op->mem.index != zydis_reg(KX_VSIB, kx_reg_bytes(k, ins->size), ins->index)) return "vector of indices";
    return op->mem.disp.value == ins->disp ? NULL : "displacement";
}

static const char *differs_operand(const kx_ins *ins, int i, int shown, const ZydisDecodedOperand *op) {
    const kx_form *f = &kx_forms[ins->form];
    const kx_kind *k = KX_KIND_OF(f, i);
    if (k->cls == KX_IMM) {
        int bytes = k->reg & KX_S ? ins->size : k->reg;
        if (op->type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return "no immediate";
        uint64_t mask = bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
        return ((op->imm.value.u ^ (uint64_t)ins->imm) & mask) == 0 ? NULL : "immediate";
    }
    if (k->cls == KX_REL)
        return op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op->imm.value.s == ins->imm ? NULL : "distance of the jump";
    int  actions = op->actions, role = f->operand[i] >> 6;
    bool reads   = actions & (ZYDIS_OPERAND_ACTION_MASK_READ | ZYDIS_OPERAND_ACTION_CONDWRITE),
         writes  = actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
    bool special = f->flags & (KXF_GATHER | KXF_SCATTER | KXF_SELECT);
    if (!ins->mask && !special && k->cls != KX_MEM && reads != (role >> 1 & 1)) return "read or not";
    if (!ins->mask && !special && (k->cls != KX_MEM || k->mem) && writes != (role & 1)) return "written or not";
    if (ins->mask && shown == 0 && k->cls == KX_VEC && !special && !ins->zero && ins->reg[i] != KX_IN_MEM &&
        !(kx_role(ins, i) & KX_USE))
        return "a merge reads";
    if (ins->reg[i] == KX_IN_MEM) return differs_mem(ins, k, op);
    if (op->type != ZYDIS_OPERAND_TYPE_REGISTER) return "no register";
    kx_class cls = k->cls == KX_FIXED ? KX_GP : (kx_class)k->cls;
    return op->reg.value == zydis_reg(cls, kx_reg_bytes(k, ins->size), ins->reg[i]) ? NULL : "register";
}

static uint64_t features_of(const char *set) {
    static const struct {
        const char *prefix;
        uint64_t    features;
    } names[] = {
        {"AVX512F_", KX_HAS(F)},
        {"AVX512BW_", KX_HAS(F) | KX_HAS(BW)},
        {"AVX512DQ_", KX_HAS(F) | KX_HAS(DQ)},
        {"AVX512_VBMI_", KX_HAS(F) | KX_HAS(VBMI)},
        {"AVX512_BF16_", KX_HAS(F) | KX_HAS(BF16)},
        {"AVX512_VNNI_", KX_HAS(F) | KX_HAS(VNNI)},
        {"AVX512_FP16_", KX_HAS(F) | KX_HAS(FP16)},
    };
    const char *end = strrchr(set, '_');
    bool        vl  = end && (!strcmp(end, "_128") || !strcmp(end, "_256"));
    for (int i = 0; i < KN_COUNT(names); i++)
        if (!strncmp(set, names[i].prefix, strlen(names[i].prefix))) return names[i].features | (vl ? KX_HAS(VL) : 0);
    if (!strcmp(set, "AVX")) return KX_HAS(AVX);
    if (!strcmp(set, "AVX2") || !strcmp(set, "AVX2GATHER")) return KX_HAS(AVX2);
    if (!strcmp(set, "AVX_VNNI")) return KX_HAS(AVXVNNI);
    if (!strcmp(set, "FMA")) return KX_HAS(FMA);
    if (!strcmp(set, "F16C")) return KX_HAS(F16C);
    if (!strcmp(set, "BMI1")) return KX_HAS(BMI1);
    if (!strcmp(set, "BMI2")) return KX_HAS(BMI2);
    if (!strcmp(set, "LZCNT")) return KX_HAS(LZCNT);
    if (!strcmp(set, "POPCNT") || !strcmp(set, "SSE4_2") || !strcmp(set, "SSE42")) return KX_HAS(POPCNT);
    if (!strcmp(set, "PREFETCHW") || !strcmp(set, "PREFETCH_NOP")) return KX_HAS(PREFETCHW);
    return KX_HAS(BASE);
}

/* NULL: the bytes are the instruction. */
static const char *differs(const bench *t, const kx_ins *ins, uint64_t features, const uint8_t *code, int len,
                           ZydisDecodedInstruction *in, ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT]) {
    const kx_form *f = &kx_forms[ins->form];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&t->decoder, code, (ZyanUSize)len, in, op))) return "it does not decode";
    if (in->length != len) return "length";
    char want[40];
    snprintf(want, sizeof want, "%s%s", f->mnemonic, f->flags & KXF_CC ? zydis_cond(ins->cond) : "");
    if (strcmp(want, ZydisMnemonicGetString(in->mnemonic)) != 0) return "mnemonic";
    int at = 0, shown = 0;
    for (int i = 0; i < f->count; i++) {
        const kx_kind *k = KX_KIND_OF(f, i);
        if (k->cls == KX_FIXED && k->reg != 1) continue;
        while (at < in->operand_count && op[at].encoding == ZYDIS_OPERAND_ENCODING_MASK) at++;
        if (at == in->operand_count || op[at].visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN) return "too few operands";
        const char *what = differs_operand(ins, i, shown++, &op[at++]);
        if (what) return what;
    }
    while (at < in->operand_count && op[at].encoding == ZYDIS_OPERAND_ENCODING_MASK) at++;
    if (at < in->operand_count && op[at].visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN) return "too many operands";
    for (int i = 0; i < f->count; i++) { /* rax and rdx, among the hidden ones */
        const kx_kind *k = KX_KIND_OF(f, i);
        if (k->cls != KX_FIXED || k->reg == 1) continue;
        bool found = false;
        for (int n = 0; n < in->operand_count; n++)
            found |= op[n].visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && op[n].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                     ZydisRegisterGetId(op[n].reg.value) == ins->reg[i] &&
                     ((op[n].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0) == (f->operand[i] >> 6 & 1) &&
                     ((op[n].actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0) == (f->operand[i] >> 7);
        if (!found) return "implicit operand";
    }
    ZydisRegister mask = ins->mask ? ZydisRegisterEncode(ZYDIS_REGCLASS_MASK, ins->mask) : ZYDIS_REGISTER_NONE;
    if (in->encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX) {
        ZydisRegister got = in->avx.mask.reg == ZYDIS_REGISTER_K0 ? ZYDIS_REGISTER_NONE : in->avx.mask.reg;
        if (got != mask) return "mask";
        bool zero =
            in->avx.mask.mode == ZYDIS_MASK_MODE_ZEROING || in->avx.mask.mode == ZYDIS_MASK_MODE_CONTROL_ZEROING;
        if (ins->mask && KX_KIND_OF(f, 0)->cls != KX_MASK && zero != ins->zero) return "{z}";
        if (!in->avx.broadcast.is_static && (in->avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID) != ins->broadcast)
            return "broadcast";
    } else if (mask != ZYDIS_REGISTER_NONE || ins->broadcast) {
        return "mask or broadcast lost";
    }
    enum { STATUS = 0x8d5 }; /* carry, parity, adjust, zero, sign, overflow */
    const ZydisAccessedFlags *fl     = in->cpu_flags;
    bool                      reads  = fl && fl->tested & STATUS;
    bool                      writes = fl && (fl->modified | fl->set_0 | fl->set_1 | fl->undefined) & STATUS;
    if (reads != ((f->flags & KXF_FR) != 0)) return "flags read";
    if (writes != ((f->flags & KXF_FW) != 0)) return "flags written";
    uint64_t needs = kx_needs(ins, features), must = features_of(ZydisISASetGetString(in->meta.isa_set));
    if (needs & ~features) return "features it was not given";
    if (needs != must && !(must == KX_HAS(AVX) && needs == KX_HAS(AVX2))) return "features";
    return NULL;
}

static bool report(bench *t, const kx_ins *ins, const char *what, const uint8_t *code, int len) {
    if (t->bad++ < 40) {
        kn_str s;
        kn_str_init(&s, NULL);
        kx_print(&s, ins);
        printf("%s size %d: %s: %s:", kx_forms[ins->form].name, ins->size, kn_str_c(&s), what);
        for (int i = 0; i < len; i++) printf(" %02x", code[i]);
        printf("\n");
        kn_str_free(&s);
    }
    return false;
}

/* Encodes and compares; `must`: it may not be refused. Every so often Zydis writes it too: ours is not longer. */
static bool try_ins(bench *t, const kx_ins *ins, uint64_t features, bool must) {
    uint8_t                 code[KX_MAX_BYTES];
    kx_fix                  fix;
    const char             *why = NULL;
    ZydisDecodedInstruction in;
    ZydisDecodedOperand     op[ZYDIS_MAX_OPERAND_COUNT];
    int                     len = kx_encode(ins, features, code, &fix, &why);
    if (!len) {
        t->refused++;
        if (!why || kx_needs(ins, features)) return report(t, ins, "refused without a reason", code, 0);
        return must ? report(t, ins, why, code, 0) : true;
    }
    t->good++;
    const char *what = differs(t, ins, features, code, len, &in, op);
    if (what) return report(t, ins, what, code, len);
    if (t->good % 8 == 0 && (ins->base != KX_NO_REG || ins->index != KX_NO_REG)) { /* not mov from a bare address */
        ZydisEncoderRequest request;
        ZyanU8              other[ZYDIS_MAX_INSTRUCTION_LENGTH];
        ZyanUSize           size = sizeof other;
        if (ZYAN_SUCCESS(ZydisEncoderDecodedInstructionToEncoderRequest(&in, op, in.operand_count_visible, &request)) &&
            ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&request, other, &size))) {
            t->request++;
            if ((int)size < len) return report(t, ins, "there is a shorter encoding", code, len);
        }
    }
    return true;
}

/* ---- every form ------------------------------------------------------------------------------------------------ */

static void all_registers(bench *t, int form, int size, bool memory, bool evex, uint64_t features) {
    kx_ins ins;
    for (int i = 0; i < kx_forms[form].count; i++) {
        const kx_kind *k = KX_KIND_OF(&kx_forms[form], i);
        for (int r = 0; r < rnd_registers(k, evex); r++) {
            if (!rnd_ins(&t->seed, &ins, form, size, memory, evex)) return;
            if (ins.reg[i] == KX_IN_MEM) break;
            ins.reg[i] = (uint8_t)r;
            if (rnd_legal(&ins)) try_ins(t, &ins, features, true);
        }
    }
    for (int r = 0; r < 16; r++)
        if (rnd_ins(&t->seed, &ins, form, size, memory, evex)) try_ins(t, &ins, features, true);
}

static void all_addresses(bench *t, int form, int size, bool evex, uint64_t features) {
    kx_ins ins;
    if (!rnd_ins(&t->seed, &ins, form, size, true, evex)) return;
    int mem = 0;
    while (ins.reg[mem] != KX_IN_MEM) mem++;
    const kx_kind *k      = KX_KIND_OF(&kx_forms[form], mem);
    bool           vsib   = k->cls == KX_VSIB;
    int32_t        n      = KN_MAX(1, kx_mem_bytes(k, size));
    const int32_t  disp[] = {0,  1,       -1,      127,      128,      -128,       -129,      n,
                             -n, 127 * n, 128 * n, -128 * n, -129 * n, 64 * n + 1, INT32_MAX, INT32_MIN};
    for (int base = -1; base < 16; base++)
        for (int d = 0; d < KN_COUNT(disp); d++) {
            rnd_ins(&t->seed, &ins, form, size, true, evex);
            int index = vsib ? ins.index : rnd_below(&t->seed, 2) ? KX_NO_REG : rnd_below(&t->seed, 16);
            if (index == KX_RSP && !vsib) index = KX_RBP;
            int scale = index == KX_NO_REG ? 1 : 1 << rnd_below(&t->seed, 4);
            ins       = kx_mem_index(ins, base < 0 ? KX_NO_REG : base, index, scale, disp[d]);
            if (rnd_legal(&ins)) try_ins(t, &ins, features, true);
        }
    for (int index = 0; index < (vsib ? evex ? 32 : 16 : 16); index++)
        for (int scale = 1; scale <= 8; scale *= 2) {
            rnd_ins(&t->seed, &ins, form, size, true, evex);
            int  base = rnd_below(&t->seed, 4) ? rnd_below(&t->seed, 16) : KX_NO_REG;
            bool can  = vsib || index != KX_RSP || (scale == 1 && base != KX_RSP && base != KX_NO_REG);
            ins       = kx_mem_index(ins, base, index, scale, disp[rnd_below(&t->seed, KN_COUNT(disp))]);
            if (rnd_legal(&ins)) try_ins(t, &ins, features, can);
        }
    if (vsib) return;
    for (int d = 0; d < KN_COUNT(disp); d++) {
        rnd_ins(&t->seed, &ins, form, size, true, evex);
        ins = kx_mem_label(ins, 0, disp[d]);
        try_ins(t, &ins, features, true);
    }
}

static void all_masks(bench *t, int form, int size, bool memory, uint64_t features) {
    uint32_t flags = kx_forms[form].flags;
    kx_ins   ins;
    for (int k = 0; k < 8; k++)
        for (int z = 0; z < 2; z++)
            for (int b = 0; b < 2; b++) {
                if (!rnd_ins(&t->seed, &ins, form, size, memory, true)) return;
                ins      = kx_masked(ins, k, z);
                ins.disp = rnd_below(&t->seed, 2) ? 0 : 4 * rnd_below(&t->seed, 1000) - 2000;
                if (b) ins = kx_bcast(ins);
                bool can = (!k || flags & KXF_MASK) && (!z || (k && flags & KXF_ZERO && ins.reg[0] != KX_IN_MEM)) &&
                           (!b || (memory && flags & (KXF_B2 | KXF_B4 | KXF_B8))) &&
                           (k || !(flags & (KXF_GATHER | KXF_SCATTER) && flags & KXF_MASK));
                if (rnd_legal(&ins)) try_ins(t, &ins, features, can);
                if (!can) { /* what it cannot have was refused, not dropped */
                    const char *why;
                    uint8_t     code[KX_MAX_BYTES];
                    kx_fix      fix;
                    if (kx_encode(&ins, features, code, &fix, &why)) report(t, &ins, "not refused", code, 0);
                }
            }
}

static const uint64_t all_features = (1ull << KXC_NFEATURES) - 1;

static void every_form(void) {
    bench t = {.seed = 1};
    ZydisDecoderInit(&t.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    int forms = 0, shapes = 0;
    for (int form = 1; form < KX_NFORMS; form++) {
        const kx_form *f = &kx_forms[form];
        forms++;
        for (int size = 0; size <= 64; size = size ? size * 2 : 1) {
            if (f->sizes ? !(f->sizes & size) : size) continue;
            shapes++;
            long long before = t.good;
            bool by_vex = f->vex != KXC_NO && size != 64, by_evex = f->evex != KXC_NO, gp = !by_vex && !by_evex;
            /* With the features of AVX2 alone a form of both encodings has to take VEX. */
            uint64_t avx2 = KX_LEVEL_AVX2 | (f->vex == KXC_NO ? 0 : 1ull << f->vex) |
                            (f->vex != KXC_NO && f->vex > KXC_F ? KX_HAS(F) : 0); /* of masks */
            for (int evex = 0; evex < 2; evex++) {
                if (evex ? !by_evex : !by_vex && !gp) continue;
                uint64_t features = evex || gp ? all_features : avx2;
                bool     reg_only = f->flags & KXF_EVEXMEM && !evex;
                all_registers(&t, form, size, false, evex, features);
                if (!reg_only) all_registers(&t, form, size, true, evex, features);
                if (!reg_only) all_addresses(&t, form, size, evex, features);
            }
            if (f->flags & KXF_MASK || by_evex) all_masks(&t, form, size, false, all_features);
            if (f->flags & KXF_MASK || by_evex) all_masks(&t, form, size, true, all_features);
            check_true(t.good >= before + 8, f->name, __FILE__, __LINE__); /* none goes untried */
        }
    }
    printf("%d forms, %d with their sizes: %lld encodings compared with Zydis, %lld of them with its encoder; %lld "
           "refused\n",
           forms, shapes, t.good, t.request, t.refused);
    CHECK_EQ(t.bad, 0);
    CHECK(t.good >= 200000);
    CHECK(t.request >= 20000);
}

/* One or two fields of a good instruction are set to anything. */
static void damaged(void) {
    static const uint8_t odd[] = {0,  1,  2,  3,  4,  5,  7,   8,      12,        13,
                                  15, 16, 31, 32, 63, 64, 128, KX_RIP, KX_IN_MEM, KX_NO_REG};
    bench                t     = {.seed = 2};
    ZydisDecoderInit(&t.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (int round = 0; round < 200000; round++) {
        kx_ins ins;
        int    form = 1 + rnd_below(&t.seed, KX_NFORMS - 1), size = 0;
        while (kx_forms[form].sizes && !(kx_forms[form].sizes & (size = 1 << rnd_below(&t.seed, 7)))) {
        }
        bool memory = rnd_below(&t.seed, 2), evex = rnd_below(&t.seed, 2);
        if (!rnd_ins(&t.seed, &ins, form, size, memory, evex)) continue;
        for (int n = 1 + rnd_below(&t.seed, 3); n--;) {
            uint8_t v = rnd_below(&t.seed, 8) ? odd[rnd_below(&t.seed, KN_COUNT(odd))] : (uint8_t)rnd_next(&t.seed);
            switch (rnd_below(&t.seed, 12)) {
            case 0: ins.size = v; break;
            case 1: ins.cond = v; break;
            case 2: ins.mask = v; break;
            case 3: ins.zero = v & 1; break;
            case 4: ins.broadcast = v & 1; break;
            case 5: ins.base = v; break;
            case 6: ins.index = v; break;
            case 7: ins.scale = v; break;
            case 8: ins.imm = (int64_t)rnd_next(&t.seed) >> rnd_below(&t.seed, 64); break;
            case 9: ins.disp = (int32_t)((int64_t)rnd_next(&t.seed) >> (32 + rnd_below(&t.seed, 32))); break;
            case 10: ins.form = (uint16_t)(rnd_below(&t.seed, 4) ? ins.form : v * 256 + v); break;
            default: ins.reg[rnd_below(&t.seed, 4)] = v; break;
            }
        }
        if (ins.form == KX_NOTHING || ins.form >= KX_NFORMS) {
            const char *why;
            uint8_t     code[KX_MAX_BYTES];
            CHECK(!kx_encode(&ins, all_features, code, NULL, &why) && why);
            continue;
        }
        uint64_t features = rnd_below(&t.seed, 2) ? all_features : rnd_next(&t.seed) | KX_LEVEL_AVX2;
        try_ins(&t, &ins, features & all_features, false);
    }
    printf("%lld damaged instructions refused, %lld still good and right\n", t.refused, t.good);
    CHECK_EQ(t.bad, 0);
    CHECK(t.refused > 20000 && t.good > 20000);
}

int main(void) {
    RUN(every_form);
    RUN(damaged);
    return check_result();
}
#else
int main(void) {
    SKIP("built without Zydis");
}
#endif
