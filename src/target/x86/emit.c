/* emit.c - Render of x86-64: operands, the frame, loops.
 *
 * Takes: a LINEAR of cut.h with its plan. Gives: position-independent bytes of a function of the System V ABI. Integers
 * in general registers are extended to 64 bits as their dtype says; floats narrower than f32 are f32 in registers. */
#include "target/x86/emit.h"

#include "dialect/why.h"
#include "target/x86/disasm.h"
#include "target/x86/helpers.h"

#include <string.h>

void kx_refused(kx_writer *e, kn_ref n, const char *what) {
    kn_fail(e->f, KN_ERR_UNSUPPORTED, "render x86: %s of %s: %s", kn_ops[kx_op(e->g, n)].name,
            kn_dtypes[kg_dtype(e->g, n)].name, what);
}

void kx_put(kx_writer *e, kx_ins i) {
    kx_emit(&e->code, &i);
    kx_pace_add(&e->pace, &i);
    if (!e->list) return;
    kn_str_puts(e->list, "    ");
    kx_print(e->list, &i);
    kn_str_puts(e->list, "\n");
}

void kx_here(kx_writer *e, int32_t label) {
    kx_bind(&e->code, label);
    if (e->list) kn_str_putf(e->list, ".L%d:\n", (int)label);
}

void kx_jcc(kx_writer *e, kx_cond cond, int32_t label) {
    kx_ins i = kx_i(KX_JCC, 0);
    i.cond   = (uint8_t)cond;
    i.label  = label;
    kx_put(e, i);
}

void kx_jump(kx_writer *e, int32_t label) {
    kx_ins i = kx_i(KX_JMP, 0);
    i.label  = label;
    kx_put(e, i);
}

/* ---- constants ------------------------------------------------------------------------------------------------- */

int32_t kx_pool(kx_writer *e, const void *data, size_t size) {
    return kx_constant(&e->code, data, size);
}

uint64_t kx_lane_bits(const kx_plan *p, kn_ref n, int *size) {
    int dt = kg_dtype(p->g, n);
    *size  = kx_held_size(p, dt);
    if (dt == KN_BOOL) return kg_const_int(p->g, n) ? ~(uint64_t)0 : 0;
    if (!kn_is_float(dt)) return (uint64_t)kg_const_int(p->g, n);
    double   v = kg_const_float(p->g, n);
    uint64_t u = 0;
    float    w = (float)v;
    if (*size == 8)
        memcpy(&u, &v, 8);
    else
        memcpy(&u, &w, 4);
    return u;
}

int32_t kx_pool_lanes(kx_writer *e, uint64_t bits, int size, int bytes) {
    uint8_t data[64];
    for (int k = 0; k < bytes; k += size) memcpy(data + k, &bits, (size_t)size);
    return kx_pool(e, data, (size_t)bytes);
}

/* ---- operands -------------------------------------------------------------------------------------------------- */

static kx_value *em_value_of(kx_writer *e, kn_ref n) {
    return &e->p->value[kx_name(e->p, n)];
}

static bool em_is_const(const kx_writer *e, kn_ref n) {
    return kg_op(e->g, n) == KN_OP_CONST;
}

static kx_ins em_in_frame(kx_ins i, int32_t slot) {
    return kx_mem(i, KX_RSP, slot);
}

int kx_gp(kx_writer *e, kn_ref n, int scratch) {
    if (em_is_const(e, n)) {
        kx_put(e, kx_mov_const(scratch, kg_const_int(e->g, n)));
        return scratch;
    }
    kx_value *v = em_value_of(e, n);
    if (v->reg >= 0) return v->reg;
    kx_put(e, em_in_frame(kx_i2(KX_MOV, 8, scratch, KX_IN_MEM), v->slot));
    return scratch;
}

kx_rm kx_gp_rm(kx_writer *e, kn_ref n, int scratch) {
    kx_rm r = {.reg = 0};
    if (!em_is_const(e, n) && em_value_of(e, n)->reg < 0) {
        r.mem = true;
        r.at  = em_in_frame(kx_i(KX_MOV, 8), em_value_of(e, n)->slot);
        return r;
    }
    r.reg = kx_gp(e, n, scratch);
    return r;
}

kx_ins kx_with(kx_ins i, const kx_rm *rm) {
    if (!rm->mem) return i;
    i.base      = rm->at.base;
    i.index     = rm->at.index;
    i.scale     = rm->at.scale;
    i.disp      = rm->at.disp;
    i.label     = rm->at.label;
    i.ragged    = rm->at.ragged;
    i.broadcast = rm->bcast;
    return i;
}

void kx_move_vec(kx_writer *e, int to, int from, int bytes) {
    if (to != from) kx_put(e, kx_i2(KX_VMOVAPS, bytes, to, from));
}

/* `bytes` (2, 4, 8, or a register's) from memory; what is above them becomes zero. */
void kx_load_bits(kx_writer *e, int vec, int bytes, kx_ins at) {
    kx_rm rm = {.mem = true, .at = at};
    if (bytes <= 2) {
        kx_put(e, kx_i3(e->avx512 ? KX_VPXORD : KX_VPXOR, 16, vec, vec, vec));
        kx_put(e, kx_with(kx_imm(kx_i4(bytes == 1 ? KX_VPINSRB : KX_VPINSRW, 0, vec, vec, KX_IN_MEM, 0), 0), &rm));
    } else if (bytes == 4)
        kx_put(e, kx_with(kx_i2(KX_VMOVSS, 0, vec, KX_IN_MEM), &rm));
    else if (bytes == 8)
        kx_put(e, kx_with(kx_i2(KX_VMOVSD, 0, vec, KX_IN_MEM), &rm));
    else
        kx_put(e, kx_with(kx_i2(KX_VMOVUPS, bytes, vec, KX_IN_MEM), &rm));
}

static kx_ins em_at_label(int32_t label) {
    return kx_mem_label(kx_i(KX_VMOVUPS, 16), label, 0);
}

int kx_get(kx_writer *e, kn_ref n, int bytes, int scratch, kn_ref user) {
    if (em_is_const(e, n) && e->p->value[n].reg < 0) {
        int      size;
        uint64_t bits  = kx_lane_bits(e->p, n, &size);
        bool     lanes = kx_is_lanes(e->g, user);
        if (!bits)
            kx_put(e, e->avx512 ? kx_i3(KX_VPXORD, 16, scratch, scratch, scratch)
                                : kx_i3(KX_VPXOR, 16, scratch, scratch, scratch));
        else if (!lanes)
            kx_load_bits(e, scratch, size, em_at_label(kx_pool(e, &bits, (size_t)size)));
        else if (size == 4) {
            kx_rm rm = {.mem = true, .at = em_at_label(kx_pool(e, &bits, 4))};
            kx_put(e, kx_with(kx_i2(KX_VBROADCASTSS, bytes, scratch, KX_IN_MEM), &rm));
        } else
            kx_load_bits(e, scratch, bytes, em_at_label(kx_pool_lanes(e, bits, size, bytes)));
        return scratch;
    }
    kx_value *v = em_value_of(e, n);
    if (v->folded) {
        kx_rm rm = kx_vec_rm(e, n, bytes, true, user);
        if (rm.bcast) {
            rm.bcast = false;
            kx_put(e, kx_with(kx_i2(kn_dsize(kg_dtype(e->g, n)) == 8 ? bytes == 16 ? KX_VMOVDDUP_X : KX_VBROADCASTSD
                                                                     : KX_VBROADCASTSS,
                                    bytes, scratch, KX_IN_MEM),
                              &rm));
        } else
            kx_load_bits(e, scratch, kx_is_lanes(e->g, n) ? bytes : kn_dsize(kg_dtype(e->g, n)), rm.at);
        return scratch;
    }
    if (v->reg >= 0) return v->reg;
    kx_put(e, em_in_frame(kx_i2(KX_VMOVUPS, KN_MAX(v->bytes, 16), scratch, KX_IN_MEM), v->slot));
    return scratch;
}

kx_rm kx_vec_rm(kx_writer *e, kn_ref n, int bytes, bool bcast, kn_ref user) {
    kx_rm r = {.mem = true};
    if (em_is_const(e, n) && e->p->value[n].reg < 0) {
        int      size;
        uint64_t bits  = kx_lane_bits(e->p, n, &size);
        bool     lanes = kx_is_lanes(e->g, user);
        r.bcast        = lanes && bcast && e->avx512 && size >= 4;
        r.at = em_at_label(r.bcast || !lanes ? kx_pool(e, &bits, (size_t)size) : kx_pool_lanes(e, bits, size, bytes));
        return r;
    }
    kx_value *v = em_value_of(e, n);
    if (v->folded) {
        kn_ref load = kg_op(e->g, n) == KN_OP_INS ? kg_at(e->g, n, 0) : n;
        r.bcast     = load != n;
        r.at        = kx_at_place(e, kx_i(KX_VMOVUPS, 16), kg_at(e->g, load, 0));
        return r;
    }
    r.mem = v->reg < 0;
    r.reg = r.mem ? KX_IN_MEM : v->reg;
    if (r.mem) r.at = em_in_frame(kx_i(KX_VMOVUPS, 16), v->slot);
    return r;
}

int kx_mask(kx_writer *e, kn_ref n, int scratch) {
    if (em_is_const(e, n)) {
        kx_put(e, kx_mov_const(KX_A, kg_const_int(e->g, n) ? -1 : 0));
        kx_put(e, kx_i2(KX_KMOVQ_KR, 0, scratch, KX_A));
        return scratch;
    }
    kx_value *v = em_value_of(e, n);
    if (v->reg >= 0) return v->reg;
    kx_put(e, em_in_frame(kx_i2(KX_KMOVQ, 0, scratch, KX_IN_MEM), v->slot));
    return scratch;
}

int kx_dst(kx_writer *e, kn_ref n) {
    kx_value *v = em_value_of(e, n);
    if (v->reg >= 0) return v->reg;
    return v->bank == KX_BANK_GP ? KX_A : v->bank == KX_BANK_VEC ? e->v1 : KX_K1;
}

void kx_done(kx_writer *e, kn_ref n, int reg) {
    kx_value *v = em_value_of(e, n);
    if (v->reg == reg) return;
    switch (v->bank) {
    case KX_BANK_GP:
        kx_put(e,
               v->reg >= 0 ? kx_i2(KX_MOV, 8, v->reg, reg) : em_in_frame(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, reg), v->slot));
        return;
    case KX_BANK_VEC:
        if (v->reg >= 0)
            kx_move_vec(e, v->reg, reg, v->bytes);
        else
            kx_put(e, em_in_frame(kx_i2(KX_VMOVUPS_ST, v->bytes, KX_IN_MEM, reg), v->slot));
        return;
    default:
        kx_put(e, v->reg >= 0 ? kx_i2(KX_KMOVQ, 0, v->reg, reg)
                              : em_in_frame(kx_i2(KX_KMOVQ_ST, 0, KX_IN_MEM, reg), v->slot));
    }
}

/* The memory operand of a place. Base and index in the frame come by way of rcx and rdx. */
kx_ins kx_at_place(kx_writer *e, kx_ins i, kn_ref place) {
    kx_spot a;
    kx_address_of(e->g, place, &a);
    int     size = kn_dsize(kg_dtype(e->g, a.storage)), scale = size * a.times, base = KX_RSP, index = KX_NO_REG;
    int64_t disp = a.disp * size;
    kn_ref  pointer = a.off ? e->p->value[a.off].pointer : 0, from = e->p->value[a.storage].pointer;
    bool    param = kg_op(e->g, a.storage) == KN_OP_PARAM;
    if (pointer)
        base = kx_gp(e, a.off, KX_C);
    else if (param)
        base = kx_gp(e, from ? from : a.storage, KX_C);
    else
        disp += e->local[a.storage];
    if (param && from)
        index = kx_gp(e, a.storage, KX_D), scale = 1; /* a distance */
    else if (a.off && !pointer)
        index = kx_gp(e, a.off, KX_D);
    if (disp != (int32_t)disp) {
        kx_put(e, kx_mov_const(KX_A, disp));
        kx_put(e, kx_mem_index(kx_i2(KX_LEA, 8, KX_C, KX_IN_MEM), base, KX_A, 1, 0));
        base = KX_C;
        disp = 0;
    }
    i.ragged = (uint8_t)kx_pace_ragged(e->p, &a, size);
    return kx_mem_index(i, base, index, index == KX_NO_REG ? 1 : scale, (int32_t)disp);
}

void kx_extend(kx_writer *e, int reg, int dt) {
    switch (dt) {
    case KN_I8: kx_put(e, kx_i2(KX_MOVSX8, 8, reg, reg)); return;
    case KN_U8: kx_put(e, kx_i2(KX_MOVZX8, 4, reg, reg)); return;
    case KN_I16: kx_put(e, kx_i2(KX_MOVSX16, 8, reg, reg)); return;
    case KN_U16: kx_put(e, kx_i2(KX_MOVZX16, 4, reg, reg)); return;
    case KN_I32: kx_put(e, kx_i2(KX_MOVSXD, 0, reg, reg)); return;
    case KN_U32: kx_put(e, kx_i2(KX_MOV, 4, reg, reg)); return;
    default: return;
    }
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

void kx_call(kx_writer *e, kx_helper h) {
    if (!e->thunk[h]) e->thunk[h] = kx_label(&e->code);
    kx_ins i = kx_i(KX_CALL, 0);
    i.label  = e->thunk[h];
    kx_put(e, i);
}

/* In a thunk the frame is that much further away. */
static void em_unwind_thunk(kx_writer *e, int32_t further) {
    kx_unwind_kept(&e->unwind, (uint32_t)e->code.len, KX_RSP, e->args + 48 + further, (uint32_t)e->pushed);
}

/* A helper leaves every register of the kernel as it was. */
static void em_emit_thunks(kx_writer *e) {
    static const uint8_t gp[]  = {KX_RCX, KX_RDX, KX_RSI, KX_RDI, KX_R8, KX_R9, KX_R10, KX_R11};
    int                  bytes = e->avx512 ? 64 : 32;
    for (int h = 0; h < KX_HELPERS; h++) {
        if (!e->thunk[h]) continue;
        kx_here(e, e->thunk[h]);
        em_unwind_thunk(e, 8);
        for (int back = 0; back < 2; back++) {
            int32_t at = e->save + 8; /* the return address lies below the frame */
            for (int k = 0; k < KN_COUNT(gp); k++, at += 8)
                if (k < 2 || e->p->used[KX_BANK_GP] >> gp[k] & 1)
                    kx_put(e, kx_mem(back ? kx_i2(KX_MOV, 8, gp[k], KX_IN_MEM) : kx_i2(KX_MOV_ST, 8, KX_IN_MEM, gp[k]),
                                     KX_RSP, at));
            for (int k = 1; k < 8; k++, at += 8)
                if (e->p->used[KX_BANK_MASK] >> k & 1)
                    kx_put(e, kx_mem(back ? kx_i2(KX_KMOVQ, 0, k, KX_IN_MEM) : kx_i2(KX_KMOVQ_ST, 0, KX_IN_MEM, k),
                                     KX_RSP, at));
            for (int k = 0; k < (e->avx512 ? 32 : 16); k++, at += bytes)
                if (e->p->used[KX_BANK_VEC] >> k & 1)
                    kx_put(e, kx_mem(back ? kx_i2(KX_VMOVUPS, bytes, k, KX_IN_MEM)
                                          : kx_i2(KX_VMOVUPS_ST, bytes, KX_IN_MEM, k),
                                     KX_RSP, at));
            if (back) break;
            kx_put(e, kx_mem(kx_i2(KX_LEA, 8, KX_RDI, KX_IN_MEM), KX_RSP, 8 + e->args));
            kx_put(e, kx_mov_const(KX_A, (int64_t)(intptr_t)kx_helper_fn[h]));
            kx_put(e, kx_imm(kx_i2(KX_SUBI, 8, KX_RSP, 0), 8));
            em_unwind_thunk(e, 16);
            kx_put(e, kx_i(KX_VZEROUPPER, 0));
            kx_put(e, kx_i1(KX_CALL_R, 0, KX_A));
            kx_put(e, kx_imm(kx_i2(KX_ADDI, 8, KX_RSP, 0), 8));
            em_unwind_thunk(e, 8);
        }
        kx_put(e, kx_i(KX_RET, 0));
    }
}

/* ---- loops ----------------------------------------------------------------------------------------------------- */

static int em_loop_of_range(const kx_writer *e, kn_ref range) {
    int l = 0;
    while (e->p->loop[l].range != range) l++;
    return l;
}

/* Bytes that a step counts in. */
static int em_element(const kx_writer *e, kn_ref step) {
    kn_ref of = e->p->value[step].pointer;
    return of ? kn_dsize(kg_dtype(e->g, of)) : 1;
}

/* v += c, where v lies */
static void em_add_const(kx_writer *e, const kx_value *v, int64_t c) {
    kx_ins i;
    if (c != (int32_t)c) {
        kx_put(e, kx_mov_const(KX_A, c));
        i = v->reg >= 0 ? kx_i2(KX_ADD, 8, v->reg, KX_A) : em_in_frame(kx_i2(KX_ADD_ST, 8, KX_IN_MEM, KX_A), v->slot);
    } else {
        i = kx_imm(v->reg >= 0 ? kx_i2(KX_ADDI, 8, v->reg, 0) : em_in_frame(kx_i2(KX_ADDI, 8, KX_IN_MEM, 0), v->slot),
                   c);
    }
    kx_put(e, i);
}

static void em_compare_bound(kx_writer *e, const kx_loop *l) {
    const kx_value *v = em_value_of(e, l->range);
    kn_ref          b = kg_at(e->g, l->range, 0);
    if (l->shared) {
        int r = kx_gp(e, l->range, KX_A);
        kx_put(e, e->bound < 0 ? em_in_frame(kx_i2(KX_CMP, 8, r, KX_IN_MEM), e->last) : kx_i2(KX_CMP, 8, r, e->bound));
    } else if (em_is_const(e, b) && kg_const_int(e->g, b) == (int32_t)kg_const_int(e->g, b)) {
        kx_ins i = v->reg >= 0 ? kx_i2(KX_CMPI, 8, v->reg, 0) : em_in_frame(kx_i2(KX_CMPI, 8, KX_IN_MEM, 0), v->slot);
        kx_put(e, kx_imm(i, kg_const_int(e->g, b)));
    } else {
        int   r  = kx_gp(e, l->range, KX_A);
        kx_rm rm = kx_gp_rm(e, b, KX_D);
        kx_put(e, kx_with(kx_i2(KX_CMP, 8, r, rm.mem ? KX_IN_MEM : rm.reg), &rm));
    }
}

/* Nothing asks for the loop's number, and how many there are is known before it: the turns that are left are counted
 * down to 0, which flags tell. Of a shared loop the run that was asked for tells how many. */
static bool em_counts_down(const kx_writer *e, const kx_loop *l) {
    kn_ref b = kg_at(e->g, l->range, 0);
    if (e->p->value[l->range].uses != 1) return false;
    return l->shared || (em_is_const(e, b) && kg_const_int(e->g, b) > 0 &&
                         kg_const_int(e->g, b) == (int32_t)kg_const_int(e->g, b));
}

/* A register for the end of the run that was asked for, where an innermost loop compares with it. */
static int em_bound_register(kx_writer *e) {
    for (int l = 0; l < e->p->nloop; l++)
        if (e->p->loop[l].shared && e->p->loop[l].inner && !em_counts_down(e, &e->p->loop[l]))
            return kx_spare_register(e->p, KX_BANK_GP);
    return -1;
}

static void em_skip_unless_first(kx_writer *e, int32_t to) {
    kx_put(e, kx_imm(em_in_frame(kx_i2(KX_CMPI, 8, KX_IN_MEM, 0), e->low), 0));
    kx_jcc(e, KXCC_NE, to);
}

/* A constant on all lanes, whatever takes it. */
static void em_hold(kx_writer *e, kn_ref n, int reg) {
    int      size, bytes = e->avx512 ? 64 : 32;
    uint64_t bits = kx_lane_bits(e->p, n, &size);
    if (!bits) {
        kx_put(e, kx_i3(e->avx512 ? KX_VPXORD : KX_VPXOR, bytes, reg, reg, reg));
        return;
    }
    if (size < 4) {
        kx_load_bits(e, reg, bytes, em_at_label(kx_pool_lanes(e, bits, size, bytes)));
        return;
    }
    kx_rm rm = {.mem = true, .at = em_at_label(kx_pool(e, &bits, (size_t)size))};
    kx_put(e, kx_with(kx_i2(size == 8 ? KX_VBROADCASTSD : KX_VBROADCASTSS, bytes, reg, KX_IN_MEM), &rm));
}

/* A value's register from its place in the frame, or back. */
static void em_move_frame(kx_writer *e, kn_ref value, int reg, bool back) {
    const kx_value *v     = &e->p->value[value];
    int             bytes = KN_MAX(v->bytes, 16);
    switch (v->bank) {
    case KX_BANK_GP:
        kx_put(e, em_in_frame(back ? kx_i2(KX_MOV_ST, 8, KX_IN_MEM, reg) : kx_i2(KX_MOV, 8, reg, KX_IN_MEM), v->slot));
        return;
    case KX_BANK_VEC:
        kx_put(e, em_in_frame(back ? kx_i2(KX_VMOVUPS_ST, bytes, KX_IN_MEM, reg)
                                   : kx_i2(KX_VMOVUPS, bytes, reg, KX_IN_MEM),
                              v->slot));
        return;
    default:
        kx_put(e,
               em_in_frame(back ? kx_i2(KX_KMOVQ_ST, 0, KX_IN_MEM, reg) : kx_i2(KX_KMOVQ, 0, reg, KX_IN_MEM), v->slot));
    }
}

/* Sequences need fewer registers where nothing lies in the frame. */
static void em_set_scratch(kx_writer *e, bool roomy) {
    const uint8_t *of = e->p->scratch;
    int            v  = of[0] - 1;
    e->v0             = of[0];
    e->v1             = of[1];
    e->v2             = roomy ? v : of[2];
    e->v3             = roomy ? v : of[3];
}

/* The splits of a loop: what is away goes before it opens and comes after its end, whether it runs or not; what is lent
 * comes when it runs, and goes back behind its last round. */
static void em_put_away(kx_writer *e, int loop, bool back) {
    for (size_t k = 0; k < e->p->nsplit; k++)
        if (e->p->split[k].loop == loop && e->p->split[k].away)
            em_move_frame(e, e->p->split[k].value, e->p->split[k].reg, !back);
}

static void em_lend(kx_writer *e, int loop, uint32_t behind) {
    for (size_t k = 0; k < e->p->nsplit; k++) {
        const kx_split *s = &e->p->split[k];
        if (s->loop != loop || s->away || s->behind != behind) continue;
        if (s->table) {
            kx_table t[KX_MAX_TABLES];
            if (kx_tables_of(e->p, s->value, t) >= s->table) kx_put_table(e, &t[s->table - 1], s->reg);
            continue;
        }
        if (em_is_const(e, s->value))
            em_hold(e, s->value, s->reg);
        else
            em_move_frame(e, s->value, s->reg, false);
        e->p->value[s->value].reg = (int8_t)s->reg;
    }
    if (e->p->loop[loop].roomy) em_set_scratch(e, true);
}

static void em_take_back(kx_writer *e, int loop) {
    em_set_scratch(e, false);
    for (size_t k = 0; k < e->p->nsplit; k++) {
        const kx_split *s = &e->p->split[k];
        if (s->loop != loop || s->away || s->table) continue;
        if (s->written) em_move_frame(e, s->value, s->reg, true);
        e->p->value[s->value].reg = -1;
    }
    for (size_t k = e->moves; k-- > 0 && e->p->move[k].at > e->p->loop[loop].open;) {
        kx_value *v = &e->p->value[e->p->move[k].value];
        v->reg      = v->home;
    }
}

static void em_emit_value(kx_writer *e, kn_ref n) {
    int op = kg_op(e->g, n);
    if (op == KN_OP_LOAD)
        kx_emit_load(e, n);
    else if (op == KN_OP_BITCAST)
        kx_emit_bits(e, n);
    else if (op != KN_OP_INS)
        kx_refused(e, n, "is no instruction");
    else if (kx_is_lanes(e->g, n))
        kx_emit_lanes(e, n);
    else if (kn_is_float(kg_dtype(e->g, n)))
        kx_emit_real(e, n);
    else
        kx_emit_integer(e, n);
}

static void em_list_node(kx_writer *e, kn_ref n) {
    if (!e->list) return;
    kn_str_puts(e->list, "  ; ");
    kg_print_node(e->g, n, e->list);
    if (kg_cause(e->g, n) && kn_why_in_source(kg_why(e->g))) {
        kn_str_puts(e->list, "  # ");
        kn_print_cause(kg_why(e->g), kg_cause(e->g, n), e->list);
    }
    kn_str_puts(e->list, "\n");
}

/* A value's register to the one kept for it beside, or back. */
static void em_move_aside(kx_writer *e, const kx_move *m, bool back) {
    static const uint16_t to[KX_BANKS]   = {KX_VMOVQ, KX_VMOVQ_R, KX_KMOVQ_RK},
                          from[KX_BANKS] = {KX_VMOVQ_R, KX_VMOVQ, KX_KMOVQ_KR};
    int bank                             = e->p->value[m->value].bank;
    kx_put(e,
           back ? kx_i2((kx_form_id)from[bank], 0, m->reg, m->side) : kx_i2((kx_form_id)to[bank], 0, m->side, m->reg));
}

static void em_set_aside(kx_writer *e, const kx_move *m) {
    const kx_value *v    = &e->p->value[m->value];
    kx_move         held = *m;
    held.reg             = v->reg;
    if (v->reg >= 0)
        em_move_aside(e, &held, false);
    else
        kx_put(e, em_in_frame(v->bank == KX_BANK_GP ? kx_i2(KX_VMOVSD, 0, m->side, KX_IN_MEM)
                                                    : kx_i2(KX_MOV, 8, m->side, KX_IN_MEM),
                              v->slot));
}

/* What has to be done before the item at that place. A scalar that is made again in rax is there for what repeats it
 * alone: it is where it was, behind that. */
static void em_make_moves(kx_writer *e, uint32_t at) {
    struct { kx_value *value; int reg; } was[4];
    int passing = 0;
    for (; e->moves < e->p->nmove && e->p->move[e->moves].at <= at; e->moves++) {
        const kx_move *m    = &e->p->move[e->moves];
        kx_value      *v    = &e->p->value[m->value];
        int            from = v->reg;
        if (m->way == KX_ASIDE || m->way == KX_TO_FRAME) {
            if (m->way == KX_ASIDE)
                em_set_aside(e, m);
            else if (m->side >= 0)
                em_move_aside(e, m, false);
            else
                em_move_frame(e, m->value, m->reg, true);
            continue;
        }
        v->reg = m->reg;
        if (m->way == KX_FROM_FRAME && m->side >= 0)
            em_move_aside(e, m, true);
        else if (m->way == KX_FROM_FRAME)
            em_move_frame(e, m->value, m->reg, false);
        if (m->way == KX_AGAIN) {
            em_list_node(e, m->value);
            em_emit_value(e, m->value);
            if (v->bank == KX_BANK_GP && m->reg == KX_RAX && passing < KN_COUNT(was)) {
                was[passing].value = v;
                was[passing++].reg = from;
            } else
                for (; passing; passing--) was[passing - 1].value->reg = (int8_t)was[passing - 1].reg;
        }
        if (m->way != KX_OVER) continue;
        kx_put(e, v->bank == KX_BANK_GP    ? kx_i2(KX_MOV, 8, m->reg, from)
                  : v->bank == KX_BANK_VEC ? kx_i2(KX_VMOVAPS, v->bytes, m->reg, from)
                                           : kx_i2(KX_KMOVQ, 0, m->reg, from));
    }
}

/* Its part of the iterations that are asked for, where there are several THREAD loops. */
static void em_find_part(kx_writer *e, const kx_loop *l) {
    int64_t extent = kg_const_int(e->g, kg_at(e->g, l->range, 0));
    int32_t begins = kx_label(&e->code), ends = kx_label(&e->code);
    kx_put(e, em_in_frame(kx_i2(KX_MOV, 8, KX_A, KX_IN_MEM), e->low));
    kx_put(e, kx_mov_const(KX_D, l->before));
    kx_put(e, kx_i2(KX_SUB, 8, KX_A, KX_D));
    kx_jcc(e, KXCC_GE, begins);
    kx_put(e, kx_i2(KX_XOR, 4, KX_A, KX_A));
    kx_here(e, begins);
    kx_put(e, em_in_frame(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, KX_A), e->first));
    kx_put(e, kx_mov_const(KX_A, l->before + extent));
    kx_put(e, em_in_frame(kx_i2(KX_CMP, 8, KX_A, KX_IN_MEM), e->high));
    kx_jcc(e, KXCC_L, ends);
    kx_put(e, em_in_frame(kx_i2(KX_MOV, 8, KX_A, KX_IN_MEM), e->high));
    kx_here(e, ends);
    kx_put(e, kx_i2(KX_SUB, 8, KX_A, KX_D));
    kx_put(e, em_in_frame(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, KX_A), e->last));
}

static void em_open_loop(kx_writer *e, int number) {
    kx_plan *p     = e->p;
    kx_loop *l     = &p->loop[number];
    kn_ref   b     = kg_at(e->g, l->range, 0);
    e->top[number] = kx_label(&e->code);
    e->out[number] = kx_label(&e->code);
    em_put_away(e, number, false);
    em_make_moves(e, l->open);
    if (l->depth == 0 && l->writes && !l->shared) em_skip_unless_first(e, e->out[number]);
    if (l->shared && p->nshared > 1) em_find_part(e, l);
    bool down = em_counts_down(e, l);
    if (l->shared && !em_is_const(e, b)) { /* the run that was asked for ends where the loop does */
        int32_t within = kx_label(&e->code);
        int     most   = kx_gp(e, b, KX_A);
        kx_put(e, em_in_frame(kx_i2(KX_CMP, 8, most, KX_IN_MEM), e->high));
        kx_jcc(e, KXCC_GE, within);
        kx_put(e, em_in_frame(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, most), e->high));
        kx_here(e, within);
    }
    int r = kx_dst(e, l->range);
    if (l->shared)
        kx_put(e, em_in_frame(kx_i2(KX_MOV, 8, r, KX_IN_MEM), down ? e->last : e->first));
    else if (down)
        kx_put(e, kx_mov_const(r, kg_const_int(e->g, b)));
    else
        kx_put(e, kx_i2(KX_XOR, 4, r, r));
    if (l->shared && down) kx_put(e, em_in_frame(kx_i2(KX_SUB, 8, r, KX_IN_MEM), e->first));
    kx_done(e, l->range, r);
    if (l->shared && down)
        kx_jcc(e, KXCC_LE, e->out[number]);
    else if (l->shared || !em_is_const(e, b) || kg_const_int(e->g, b) <= 0) {
        if (l->shared && e->bound >= 0) kx_put(e, em_in_frame(kx_i2(KX_MOV, 8, e->bound, KX_IN_MEM), e->last));
        em_compare_bound(e, l);
        kx_jcc(e, KXCC_GE, e->out[number]);
    }
    for (uint32_t j = l->open; j < l->close; j++) { /* steps start */
        kn_ref s = p->list[j];
        if (!p->value[s].step || !p->value[s].needed || kg_at(e->g, s, 0) != l->range) continue;
        kn_ref  prev = kg_at(e->g, s, 2);
        int64_t c    = kg_const_int(e->g, kg_at(e->g, s, 1));
        int     d    = kx_dst(e, s);
        if (!l->shared) {
            if (em_is_const(e, prev) && !kg_const_int(e->g, prev))
                kx_put(e, kx_i2(KX_XOR, 4, d, d));
            else {
                int q = kx_gp(e, prev, d);
                if (q != d) kx_put(e, kx_i2(KX_MOV, 8, d, q));
            }
        } else {
            if (c == (int32_t)c)
                kx_put(e, kx_imm(em_in_frame(kx_i3(KX_IMULI, 8, KX_A, KX_IN_MEM, 0), e->first), c));
            else {
                kx_put(e, kx_mov_const(KX_A, c));
                kx_put(e, em_in_frame(kx_i2(KX_IMUL, 8, KX_A, KX_IN_MEM), e->first));
            }
            if (!em_is_const(e, prev) || kg_const_int(e->g, prev)) {
                kx_rm rm = kx_gp_rm(e, prev, KX_D);
                kx_put(e, kx_with(kx_i2(KX_ADD, 8, KX_A, rm.mem ? KX_IN_MEM : rm.reg), &rm));
            }
            d = KX_A;
        }
        if (p->value[s].pointer) {
            int base = kx_gp(e, p->value[s].pointer, KX_C), size = em_element(e, s);
            kx_put(e, kx_mem_index(kx_i2(KX_LEA, 8, d, KX_IN_MEM), base, d, size, 0));
        }
        kx_done(e, s, d);
    }
    em_lend(e, number, 0);
    kx_pace_turn(&e->pace, p, number);
    if (l->inner) kx_align(&e->code, 64); /* a short one does not lie in two lines */
    kx_here(e, e->top[number]);
}

static void em_close_loop(kx_writer *e, int number) {
    kx_plan *p = e->p;
    kx_loop *l = &p->loop[number];
    for (uint32_t j = l->open; j < l->close; j++) {
        kn_ref s = p->list[j];
        if (p->value[s].step && p->value[s].needed && kg_at(e->g, s, 0) == l->range)
            em_add_const(e, em_value_of(e, s), kg_const_int(e->g, kg_at(e->g, s, 1)) * em_element(e, s));
    }
    bool down = em_counts_down(e, l);
    em_add_const(e, em_value_of(e, l->range), down ? -1 : 1);
    if (!down) em_compare_bound(e, l);
    kx_jcc(e, down ? KXCC_NE : KXCC_L, e->top[number]);
    kx_pace_turn(&e->pace, p, l->parent);
    em_take_back(e, number);
    kx_here(e, e->out[number]);
    em_put_away(e, number, true);
    if (l->parent >= 0) em_lend(e, l->parent, l->close + 1);
}

/* ---- the function ---------------------------------------------------------------------------------------------- */

bool kx_is_silent(const kx_plan *p, kn_ref n) {
    const kx_value *v  = &p->value[n];
    int             op = kg_op(p->g, n);
    if (!v->needed || v->folded || v->step || op == KN_OP_PARAM || op == KN_OP_BUFFER) return true;
    return (op == KN_OP_BITCAST && v->same) || v->low;
}

static void em_emit_node(kx_writer *e, uint32_t at) {
    kn_ref    n  = e->p->list[at];
    kx_value *v  = &e->p->value[n];
    int       op = kg_op(e->g, n);
    if (kx_is_silent(e->p, n)) return;
    em_list_node(e, n);
    if (op == KN_OP_RANGE)
        em_open_loop(e, em_loop_of_range(e, n));
    else if (op == KN_OP_END)
        em_close_loop(e, em_loop_of_range(e, kg_at(e->g, n, 1)));
    else if (op == KN_OP_PREFETCH) {
        bool written = kt_is_written(e->g, e->p->list, e->p->n, kg_at(e->g, n, 0));
        kx_put(e, kx_at_place(e, kx_i1(written ? KX_PREFETCHW : KX_PREFETCHT0, 0, KX_IN_MEM), kg_at(e->g, n, 0)));
    } else if (op == KN_OP_STORE) {
        bool    guard = e->p->loop_of[at] < 0 && kg_space(e->g, kg_at(e->g, n, 0)) == KN_GLOBAL;
        int32_t past  = guard ? kx_label(&e->code) : 0;
        if (guard) em_skip_unless_first(e, past);
        kx_emit_store(e, n);
        if (guard) kx_here(e, past);
    } else if (op != KN_OP_LOAD || v->same != kx_root_of(e->g, kg_at(e->g, n, 0)))
        em_emit_value(e, n);
}

/* The next place so many bytes before a cache line. */
static int64_t em_before_line(int64_t at, int bytes) {
    return (at + bytes + 63) / 64 * 64 - bytes;
}

static bool em_lay_frame(kx_writer *e) {
    kx_plan *p  = e->p;
    int64_t  at = p->frame;
    if (!(e->local = kn_zalloc(kg_alloc(e->g), p->size * sizeof *e->local))) return kn_oom(e->f);
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x  = p->list[i];
        int    dt = kg_dtype(e->g, x);
        e->calls |= kn_is_float(dt) && kn_dsize(dt) < 4;
        if (kg_op(e->g, x) != KN_OP_BUFFER || kg_field(e->g, x, KN_F_BUFFER_space) != KN_LOCAL) continue;
        at          = (at + 63) / 64 * 64;
        e->local[x] = (int32_t)at;
        at += kg_field(e->g, x, KN_F_BUFFER_size) * kn_dsize(dt);
        if (at > 1 << 24) return kn_fail(e->f, KN_ERR_UNSUPPORTED, "render x86: LOCAL buffers are too large");
    }
    at       = (at + 15) / 16 * 16;
    e->args  = (int32_t)at;
    e->low   = (int32_t)at + 32;
    e->high  = (int32_t)at + 40;
    e->first = p->nshared > 1 ? (int32_t)at + 56 : e->low;
    e->last  = p->nshared > 1 ? (int32_t)at + 64 : e->high;
    e->save  = (int32_t)em_before_line(at + 80, 8 * 8 + 7 * 8); /* +48: the stack pointer of before */
    p->frame = e->save + (e->calls ? 8 * 8 + 7 * 8 + (e->avx512 ? 32 * 64 : 16 * 32) : 0);
    p->frame = (p->frame + 63) / 64 * 64;
    return true;
}

static const uint8_t em_kept[] = {KX_RBX, KX_RBP, KX_R12, KX_R13, KX_R14, KX_R15};

/* The kernel's arguments from the array at KX_C: the values of variables, or the addresses of buffers, and then the
 * distances of those that have one from another. */
static void em_arguments(kx_writer *e, bool variables, bool distances) {
    const kx_plan *p = e->p;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], from = p->value[x].pointer;
        if (kg_op(e->g, x) != KN_OP_PARAM || !p->value[x].needed || kg_is_variable(e->g, x) != variables) continue;
        if ((from != 0) != distances) continue;
        int d = kx_dst(e, x);
        kx_put(e, kx_mem(kx_i2(KX_MOV, 8, d, KX_IN_MEM), KX_C, (int32_t)(8 * kg_field(e->g, x, KN_F_PARAM_slot))));
        if (from) kx_put(e, kx_i2(KX_SUB, 8, d, kx_gp(e, from, KX_D)));
        kx_done(e, x, d);
    }
}

static uint32_t em_at(const kx_writer *e) {
    return (uint32_t)e->code.len;
}

static void em_prologue(kx_writer *e) {
    kx_plan *p = e->p;
    e->pushed  = 8; /* the return address */
    for (int k = 0; k < KN_COUNT(em_kept); k++) {
        if (!(p->used[KX_BANK_GP] >> em_kept[k] & 1)) continue;
        kx_put(e, kx_i1(KX_PUSH, 0, em_kept[k]));
        e->pushed += 8;
        kx_unwind_frame(&e->unwind, em_at(e), KX_RSP, e->pushed);
        kx_unwind_saved(&e->unwind, em_at(e), em_kept[k], -e->pushed);
    }
    kx_put(e, kx_i2(KX_MOV, 8, KX_R11, KX_RSP));
    kx_unwind_frame(&e->unwind, em_at(e), KX_R11, e->pushed);
    if (p->frame > 4096) { /* pages of the stack are touched in order */
        int32_t top = kx_label(&e->code);
        kx_put(e, kx_mov_const(KX_A, p->frame / 4096));
        kx_here(e, top);
        kx_put(e, kx_imm(kx_i2(KX_SUBI, 8, KX_RSP, 0), 4096));
        kx_put(e, kx_mem(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, KX_A), KX_RSP, 0));
        kx_put(e, kx_i1(KX_DEC, 8, KX_A));
        kx_jcc(e, KXCC_NE, top);
    }
    kx_put(e, kx_imm(kx_i2(KX_SUBI, 8, KX_RSP, 0), p->frame % 4096 + (p->frame > 4096 ? 0 : p->frame / 4096 * 4096)));
    kx_put(e, kx_imm(kx_i2(KX_ANDI, 8, KX_RSP, 0), -64));
    kx_put(e, em_in_frame(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, KX_R11), e->args + 48));
    kx_unwind_kept(&e->unwind, em_at(e), KX_RSP, e->args + 48, (uint32_t)e->pushed);
    kx_put(e, em_in_frame(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, KX_RDX), e->low));
    kx_put(e, em_in_frame(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, KX_RCX), e->high));
    kx_put(e, em_in_frame(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, KX_RDI), e->args));
    kx_put(e, kx_i2(KX_MOV, 8, KX_C, KX_RSI));
    em_arguments(e, true, false);
    kx_put(e, em_in_frame(kx_i2(KX_MOV, 8, KX_C, KX_IN_MEM), e->args));
    em_arguments(e, false, false);
    em_arguments(e, false, true);
}

static void em_epilogue(kx_writer *e) {
    if (e->streams) kx_put(e, kx_i(KX_SFENCE, 0));
    kx_put(e, kx_i(KX_VZEROUPPER, 0));
    kx_put(e, em_in_frame(kx_i2(KX_MOV, 8, KX_RSP, KX_IN_MEM), e->args + 48));
    int32_t left = e->pushed;
    kx_unwind_frame(&e->unwind, em_at(e), KX_RSP, left);
    for (int k = KN_COUNT(em_kept); k-- > 0;) {
        if (!(e->p->used[KX_BANK_GP] >> em_kept[k] & 1)) continue;
        kx_put(e, kx_i1(KX_POP, 0, em_kept[k]));
        left -= 8;
        kx_unwind_restored(&e->unwind, em_at(e), em_kept[k]);
        kx_unwind_frame(&e->unwind, em_at(e), KX_RSP, left);
    }
    kx_put(e, kx_i(KX_RET, 0));
}

bool kx_render(const kn_graph *g, kn_ref linear, const char *symbol, const kt_choice *c, kt_output *out, kn_fault *f) {
    kn_str    list;
    kx_plan   p;
    kx_writer e = {.p = &p, .g = g, .f = f, .avx512 = c->level == KX_AVX512, .pace.whole = c->whole};
    if (!kx_plan_make(&p, g, linear, c, f)) return false;
    uint64_t level = e.avx512 ? KX_LEVEL_AVX512 : KX_LEVEL_AVX2;
    kx_code_init(&e.code, kg_alloc(g), level | KX_HAS(PREFETCHW), f); /* which does nothing where a CPU lacks it */
    kn_str_init(&list, kg_alloc(g));
    if (c->listing) {
        e.list = &list;
        kn_str_putf(&list, "%s:\n", symbol);
    }
    em_set_scratch(&e, false);
    e.bound = em_bound_register(&e);
    bool ok = em_lay_frame(&e);
    if (ok) {
        kx_pace_places(&p);
        kx_pace_turn(&e.pace, &p, -1);
        em_prologue(&e);
        for (e.at = 0; e.at < p.n && !f->code; e.at++) {
            if (kg_op(g, p.list[e.at]) != KN_OP_RANGE) em_make_moves(&e, e.at);
            em_emit_node(&e, e.at);
        }
        kx_unwind_remember(&e.unwind, (uint32_t)e.code.len);
        em_epilogue(&e);
        kx_pace_turn(&e.pace, &p, -1);
        kx_unwind_recall(&e.unwind, (uint32_t)e.code.len);
        kx_emit_detours(&e);
        em_emit_thunks(&e);
        ok = !f->code && kx_code_end(&e.code);
    }
    if (ok && p.chunks) out->chunks = p.chunks;
    if (ok && !(out->text = kn_zalloc(kg_alloc(g), e.code.len + 1))) ok = kn_oom(f);
    if (ok) {
        memcpy(out->text, e.code.bytes, e.code.len);
        out->size   = e.code.len;
        out->spills = p.spills;
        out->remade = p.remade;
        out->cycles = e.pace.cycles;
        memcpy(out->unwind, e.unwind.body, e.unwind.len);
        if (!kx_unwind_end(&e.unwind, &out->frame)) out->frame.body_len = 0;
        out->frame.body = NULL; /* where `unwind` is then */
    }
    if (ok && c->listing && (list.failed || !(out->listing = kn_zalloc(kg_alloc(g), list.len + 1)))) ok = kn_oom(f);
    if (ok && c->listing) {
        memcpy(out->listing, kn_str_c(&list), list.len);
        out->listing_size = list.len;
    }
    kn_str_free(&list);
    kx_code_free(&e.code);
    kn_free(kg_alloc(g), e.local, p.size * sizeof *e.local);
    kn_free(kg_alloc(g), e.detour, e.detour_cap * sizeof *e.detour);
    kx_plan_free(&p);
    return ok;
}
