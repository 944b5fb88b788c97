/* emit_memory.c - Render of x86-64: loads and stores of scalars and of lanes, under gates too. */
#include "target/x86/emit.h"

#include <string.h>

enum { EL_AWAY = 4096 }; /* bytes */

static kx_ins el_place(kx_writer *e, kx_ins i, kn_ref at) {
    return kx_at_place(e, i, at);
}

static kx_ins el_like(kx_ins i, const kx_ins *m) {
    kx_rm rm = {.mem = true, .at = *m};
    return kx_with(i, &rm);
}

/* ---- scalars --------------------------------------------------------------------------------------------------- */

/* `whole`: something looks at what the register has above its bits. To extend a sign takes a processor longer. */
static void el_load_integer(kx_writer *e, int d, int dt, bool whole, const kx_ins *m) {
    if (!whole && dt == KN_I8) dt = KN_U8;
    if (!whole && dt == KN_I16) dt = KN_U16;
    if (!whole && dt == KN_I32) dt = KN_U32;
    switch (dt) {
    case KN_BOOL:
    case KN_U8: kx_put(e, el_like(kx_i2(KX_MOVZX8, 4, d, KX_IN_MEM), m)); return;
    case KN_I8: kx_put(e, el_like(kx_i2(KX_MOVSX8, 8, d, KX_IN_MEM), m)); return;
    case KN_U16: kx_put(e, el_like(kx_i2(KX_MOVZX16, 4, d, KX_IN_MEM), m)); return;
    case KN_I16: kx_put(e, el_like(kx_i2(KX_MOVSX16, 8, d, KX_IN_MEM), m)); return;
    case KN_I32: kx_put(e, el_like(kx_i2(KX_MOVSXD, 0, d, KX_IN_MEM), m)); return;
    case KN_U32: kx_put(e, el_like(kx_i2(KX_MOV, 4, d, KX_IN_MEM), m)); return;
    default: kx_put(e, el_like(kx_i2(KX_MOV, 8, d, KX_IN_MEM), m)); return;
    }
}

static void el_load_real(kx_writer *e, int d, int dt, const kx_ins *m) {
    switch (dt) {
    case KN_F32:
    case KN_F64: kx_load_bits(e, d, kn_dsize(dt), *m); return;
    case KN_F16:
        kx_put(e, el_like(kx_i2(KX_MOVZX16, 4, KX_A, KX_IN_MEM), m));
        kx_put(e, kx_i2(KX_VMOVD, 0, d, KX_A));
        kx_put(e, kx_i2(KX_VCVTPH2PS, 16, d, d));
        return;
    case KN_BF16:
        kx_put(e, el_like(kx_i2(KX_MOVZX16, 4, KX_A, KX_IN_MEM), m));
        kx_put(e, kx_imm(kx_i2(KX_SHLI, 4, KX_A, 0), 16));
        kx_put(e, kx_i2(KX_VMOVD, 0, d, KX_A));
        return;
    default:
        kx_put(e, el_like(kx_i2(KX_MOVZX8, 4, KX_A, KX_IN_MEM), m));
        kx_put(e, kx_mem(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, KX_A), KX_RSP, e->args));
        kx_call(e, dt == KN_F8E4M3 ? KX_H_from_f8e4m3 : KX_H_from_f8e5m2);
        kx_load_bits(e, d, 8, kx_mem(kx_i(KX_MOV, 8), KX_RSP, e->args));
        kx_put(e, kx_i3(KX_VCVTSD2SS, 0, d, d, d));
    }
}

static void el_store_real(kx_writer *e, int v, int dt, const kx_ins *m) {
    switch (dt) {
    case KN_F32: kx_put(e, el_like(kx_i2(KX_VMOVSS_ST, 0, KX_IN_MEM, v), m)); return;
    case KN_F64: kx_put(e, el_like(kx_i2(KX_VMOVSD_ST, 0, KX_IN_MEM, v), m)); return;
    case KN_F16:
        kx_put(e, kx_imm(kx_i2(KX_VCVTPS2PH, 16, e->v0, v), 4));
        kx_put(e, el_like(kx_imm(kx_i2(KX_VPEXTRW_ST, 0, KX_IN_MEM, e->v0), 0), m));
        return;
    case KN_BF16:
        kx_put(e, kx_i2(KX_VMOVD_ST, 0, KX_A, v));
        kx_put(e, kx_imm(kx_i2(KX_SHRI, 4, KX_A, 0), 16));
        kx_put(e, el_like(kx_i2(KX_MOV_ST, 2, KX_IN_MEM, KX_A), m));
        return;
    default:
        kx_put(e, kx_i3(KX_VCVTSS2SD, 0, e->v0, v, v));
        kx_put(e, kx_mem(kx_i2(KX_VMOVSD_ST, 0, KX_IN_MEM, e->v0), KX_RSP, e->args));
        kx_call(e, dt == KN_F8E4M3 ? KX_H_to_f8e4m3 : KX_H_to_f8e5m2);
        kx_put(e, kx_mem(kx_i2(KX_MOV, 8, KX_A, KX_IN_MEM), KX_RSP, e->args));
        kx_put(e, el_like(kx_i2(KX_MOV_ST, 1, KX_IN_MEM, KX_A), m));
    }
}

/* ---- lanes ----------------------------------------------------------------------------------------------------- */

static kx_ins el_pool_of(kx_writer *e, kx_ins i, uint64_t bits, int size, int bytes) {
    return kx_mem_label(i, kx_pool_lanes(e, bits, size, bytes), 0);
}

/* A byte at the top of a word is an f16 (e5m2), or one of 2^-8 as much (e4m3), all but its NaN. m NULL: d has them. */
static void el_load_f8(kx_writer *e, int d, int dt, int w, const kx_ins *m) {
    int  words = w * 2 <= 16 ? 16 : 32, held = KN_MAX(16, w * 4), from = m ? e->v0 : d;
    bool four = dt == KN_F8E4M3, there = !m || w < 8;
    if (m && there) kx_load_bits(e, from, w, *m);
    kx_ins widen = kx_i2(KX_VPMOVSXBW, words, d, there ? from : KX_IN_MEM);
    kx_put(e, there ? widen : el_like(widen, m));
    kx_put(e, kx_imm(kx_i3(KX_VPSLLWI, words, d, d, 0), four ? 7 : 8));
    if (four) /* the sign stands in two bits */
        kx_put(e, el_pool_of(e, kx_i3(e->avx512 ? KX_VPANDD : KX_VPAND, words, d, d, KX_IN_MEM), 0xbfff, 2, words));
    kx_put(e, kx_i2(KX_VCVTPH2PS, held, d, d));
    if (!four) return;
    kx_put(e, el_pool_of(e, kx_i3(KX_VMULPS, held, d, d, KX_IN_MEM), 0x43800000, 4, held));
    kx_put(e, el_pool_of(e, kx_i3(e->avx512 ? KX_VPANDD : KX_VPAND, held, e->v0, d, KX_IN_MEM), 0x7fffffff, 4, held));
    if (e->avx512) {
        kx_put(e, kx_imm(el_pool_of(e, kx_i4(KX_VCMPPS_K, held, KX_K0, e->v0, KX_IN_MEM, 0), 0x43f00000, 4, held), 0));
        kx_put(e, kx_masked(el_pool_of(e, kx_i2(KX_VMOVDQU32, held, d, KX_IN_MEM), 0x7fc00000, 4, held), KX_K0, false));
    } else {
        kx_put(e, kx_imm(el_pool_of(e, kx_i4(KX_VCMPPS, held, e->v0, e->v0, KX_IN_MEM, 0), 0x43f00000, 4, held), 0));
        kx_put(e, kx_i3(KX_VPOR, held, d, d, e->v0));
    }
}

/* One element on all lanes of so many bytes. */
static kx_ins el_repeat(int d, int bytes, int size, const kx_ins *m) {
    return el_like(kx_i2(size == 8 ? KX_VPBROADCASTQ : KX_VPBROADCASTD, bytes, d, KX_IN_MEM), m);
}

/* A run of lanes; m NULL: d has their bytes already. */
static void el_load_run(kx_writer *e, int d, int dt, int w, const kx_ins *m) {
    int  bytes = w * kn_dsize(dt), held = w * kx_held_size(e->p, dt) <= 16 ? 16 : w * kx_held_size(e->p, dt);
    int  from = m ? e->v0 : d;
    bool there = !m || w < 4;
    switch (dt) {
    case KN_F16:
    case KN_BF16: {
        kx_form_id form = dt == KN_F16 ? KX_VCVTPH2PS : KX_VPMOVZXWD;
        if (m && there) kx_load_bits(e, from, 4, *m);
        kx_put(e, there ? kx_i2(form, held, d, from) : el_like(kx_i2(form, held, d, KX_IN_MEM), m));
        if (dt == KN_BF16) kx_put(e, kx_imm(kx_i3(KX_VPSLLDI, held, d, d, 0), 16));
        return;
    }
    case KN_F8E4M3:
    case KN_F8E5M2: el_load_f8(e, d, dt, w, m); return;
    default:
        if (m) kx_load_bits(e, d, bytes, *m);
    }
}

static kx_ins el_further(const kx_ins *m, int64_t bytes) {
    kx_ins i = *m;
    i.disp += (int32_t)bytes;
    return i;
}

void kx_put_table(kx_writer *e, const kx_table *t, int reg) {
    kx_load_bits(e, reg, t->bytes, kx_mem_label(kx_i(KX_MOV, 8), kx_pool(e, t->at, t->bytes), 0));
}

int kx_load_table(kx_writer *e, kn_ref load, const kx_table *t, int scratch) {
    int reg = kx_table_register(e->p, load, t);
    if (reg >= 0) return reg;
    kx_put_table(e, t, scratch);
    return scratch;
}

kx_rm kx_signs(kx_writer *e, kn_ref neg, int bytes) {
    kx_table t;
    int      size = kg_dtype(e->g, neg) == KN_F64 ? 8 : 4;
    kx_rm    m    = {.reg = kx_tables_of(e->p, neg, &t) ? kx_table_register(e->p, neg, &t) : -1};
    if (m.reg >= 0) return m;
    m.mem = true;
    m.at  = kx_mem_label(kx_i(KX_VMOVUPS, 16), kx_pool_lanes(e, (uint64_t)1 << (8 * size - 1), size, bytes), 0);
    return m;
}

/* The lanes of register d, and of x, that table k of the LOAD says, into d. */
static kx_ins el_shuffle(kx_writer *e, kn_ref n, const kx_table *t, int d, int x) {
    static const kx_form_id form[] = {[2] = KX_VPERMT2W, [4] = KX_VPERMT2PS, [8] = KX_VPERMT2PD};
    return kx_i3(form[kn_dsize(kg_dtype(e->g, n))], t->bytes, d, kx_load_table(e, n, t, e->v0), x);
}

/* Lanes `step` apart, of four or eight bytes, one by one: sixteen bytes, or two lanes, and those into the register.
 * Two that are the first and the last of four come with what is between them. */
void kx_load_lanes(kx_writer *e, int d, int size, int w, int64_t step, const kx_ins *m) {
    if (w == 2 && step == 3) {
        kx_form_id form = size == 8 ? KX_VPERMPDI : KX_VPERMILPSI;
        kx_put(e, el_like(kx_imm(kx_i3(form, 4 * size, d, KX_IN_MEM, 0), 0x0c), m));
        return;
    }
    for (int l = 0; l < w; l += 16 / size) {
        int    part = l ? e->v0 : d;
        kx_ins at   = el_further(m, l * step * size);
        kx_load_bits(e, part, size, at);
        for (int k = 1; k < KN_MIN(16 / size, w); k++) {
            at = el_further(m, (l + k) * step * size);
            kx_put(e, el_like(size == 8 ? kx_i3(KX_VMOVHPS, 0, part, part, KX_IN_MEM)
                                        : kx_imm(kx_i4(KX_VINSERTPS, 0, part, part, KX_IN_MEM, 0), k * 16),
                              &at));
        }
        int to = l * size / 16;
        if (to && e->avx512)
            kx_put(e, kx_imm(kx_i4(KX_VINSERTF32X4, w * size, d, d, part, 0), to));
        else if (to)
            kx_put(e, kx_imm(kx_i4(KX_VINSERTF128, 0, d, d, part, 0), to));
    }
}

/* Lanes from the last to the first, the table of which is in a register. False: it is not. */
static bool el_load_by_table(kx_writer *e, kn_ref n, int d, int64_t step, const kx_ins *m) {
    kx_table table[KX_MAX_TABLES];
    int      size = kn_dsize(kg_dtype(e->g, n)), w = (int)kg_numel(e->g, n), reg = -1;
    if (step == -1 && kx_tables_of(e->p, n, table)) reg = kx_table_register(e->p, n, table);
    if (reg < 0) return false;
    kx_ins all = el_further(m, (1 - w) * size);
    kx_put(e, el_like(kx_i3(size == 8 ? KX_VPERMPD : KX_VPERMPS, w * size, d, reg, KX_IN_MEM), &all));
    return true;
}

/* Lanes `step` apart, of two bytes or more: 2 to 4 runs of w, 8 of sixteen, of which nothing lies outside the buffer;
 * each shuffle takes a run's lanes to their places. */
static void el_load_apart(kx_writer *e, kn_ref n, int d, int step, const kx_ins *m) {
    int      size = kn_dsize(kg_dtype(e->g, n)), w = (int)kg_numel(e->g, n), before = kx_first_run(e->g, n, step);
    int      bytes = w * size, place[KN_MAX_LANES];
    kx_table table[KX_MAX_TABLES];
    kx_ins   first = el_further(m, -KN_MAX(before, 0) * size);
    if (!kx_tables_of(e->p, n, table)) {
        kx_load_bits(e, e->v0, bytes, first);
        kx_ins last = el_further(&first, bytes - (before < 0) * size);
        int    pick = before < 0 ? 0xd8 : before ? 0xdd : 0x88; /* 0 2 1 3, 1 3 1 3, 0 2 0 2 */
        kx_put(e, el_like(kx_imm(kx_i4(KX_VSHUFPS, bytes, d, e->v0, KX_IN_MEM, 0), pick), &last));
        if (bytes == 32) kx_put(e, kx_imm(kx_i3(KX_VPERMQI, 32, d, d, 0), 0xd8));
        return;
    }
    kx_load_bits(e, d, bytes, first);
    for (int run = 1; run < step; run++) {
        kx_ins next = el_further(&first, (int64_t)kx_find_places(place, w, step, run, before) * size);
        kx_put(e, el_like(el_shuffle(e, n, &table[run - 1], d, KX_IN_MEM), &next));
    }
}

/* AVX2, whole registers of lanes an odd number apart: of as many registers that follow one another each has lanes at
 * places that the others have none at, so they are blended, and put in order once. False: memory ends before. */
static bool el_load_blended(kx_writer *e, kn_ref n, int d, int64_t step, const kx_ins *m) {
    enum { MOST = 7 };
    int size = kn_dsize(kg_dtype(e->g, n)), w = (int)kg_numel(e->g, n), before;
    if (e->avx512 || w * size != 32 || step < 3 || step > MOST || step % 2 == 0) return false;
    if ((before = kx_first_run(e->g, n, (int)step)) < 0) return false;
    uint32_t order[8];
    int      mask[MOST] = {0}, pick = 0;
    kx_ins   first = el_further(m, -before * size);
    for (int l = 0; l < w; l++) {
        int at = before + l * (int)step;
        mask[at / w] |= 1 << at % w;
        order[l] = (uint32_t)(at % w);
        pick |= at % w << 2 * l;
    }
    kx_load_bits(e, d, 32, first);
    for (int run = 1; run < step; run++) {
        kx_ins next = el_further(&first, run * 32);
        kx_form_id form = size == 4 ? KX_VBLENDPS : KX_VBLENDPD;
        kx_put(e, el_like(kx_imm(kx_i4(form, 32, d, d, KX_IN_MEM, 0), mask[run]), &next));
    }
    if (size == 8) {
        kx_put(e, kx_imm(kx_i3(KX_VPERMPDI, 32, d, d, 0), pick));
        return true;
    }
    kx_load_bits(e, e->v0, 32, kx_mem_label(kx_i(KX_MOV, 8), kx_pool(e, order, sizeof order), 0));
    kx_put(e, kx_i3(KX_VPERMPS, 32, d, e->v0, d));
    return true;
}

/* Lanes of two, four or eight bytes at places that are known, from a few runs; a run of fewer than all lanes where
 * they lie so near. AVX-512. */
static void el_load_places(kx_writer *e, kn_ref n, int d, const kx_ins *m) {
    int      size = kn_dsize(kg_dtype(e->g, n)), w = (int)kg_numel(e->g, n), each;
    int32_t  start[KX_PLACE_RUNS], place[KN_MAX_LANES];
    int      runs = kx_runs_at(e->p, n, place, &each, start);
    kx_table table[KX_MAX_TABLES];
    int      count = kx_tables_of(e->p, n, table);
    kx_load_bits(e, d, each * size, el_further(m, (int64_t)start[0] * size));
    for (int k = 0; k < count; k++) {
        kx_ins run = el_further(m, (int64_t)start[KN_MIN(k + 1, runs - 1)] * size);
        if (runs > 1 && each == w) {
            kx_put(e, el_like(el_shuffle(e, n, &table[k], d, KX_IN_MEM), &run));
            continue;
        }
        if (runs > 1) kx_load_bits(e, e->v2, each * size, run);
        kx_put(e, el_shuffle(e, n, &table[k], d, runs > 1 ? e->v2 : d));
    }
}

/* The sixteen bytes of a register from the last to the first. */
static void el_turn_blocks(kx_writer *e, int d, int bytes) {
    if (bytes == 32) kx_put(e, kx_imm(kx_i3(KX_VPERMQI, 32, d, d, 0), 0x4e));
    if (bytes == 64) kx_put(e, kx_imm(kx_i4(KX_VSHUFI64X2, 64, d, d, d, 0), 0x1b));
}

/* Lanes from the last to the first, within sixteen bytes and then those: a place for each would be a second load. m is
 * where the first lane is. */
static void el_load_turned(kx_writer *e, int d, int size, int w, const kx_ins *m) {
    int    bytes = w * size;
    bool   dbl   = size == 8;
    kx_ins first = el_further(m, size - bytes);
    if (size <= 2) {
        uint8_t pick[64];
        for (int l = 0; l < bytes; l++) pick[l] = (uint8_t)(15 - (l ^ (size - 1)) % 16);
        kx_rm rm = {.mem = true, .at = kx_mem_label(kx_i(KX_VMOVUPS, 16), kx_pool(e, pick, (size_t)bytes), 0)};
        kx_load_bits(e, d, bytes, first);
        kx_put(e, kx_with(kx_i3(KX_VPSHUFB, bytes, d, d, KX_IN_MEM), &rm));
        el_turn_blocks(e, d, bytes);
        return;
    }
    if (bytes == 32 && dbl) {
        kx_put(e, el_like(kx_imm(kx_i3(KX_VPERMPDI, 32, d, KX_IN_MEM, 0), 0x1b), &first));
        return;
    }
    kx_put(e, el_like(kx_imm(kx_i3(dbl ? KX_VPERMILPDI : KX_VPERMILPSI, bytes, d, KX_IN_MEM, 0), dbl ? 0x55 : 0x1b),
                      &first));
    el_turn_blocks(e, d, bytes);
}

/* Of memory that a register takes whole lanes at places that another one holds are one shuffle. */
static bool el_looks_up(const kx_writer *e, kn_ref n, kn_ref places) {
    const kn_graph *g  = e->g;
    kn_ref          st = kx_root_of(g, kg_at(g, n, 0));
    int             w  = (int)kg_numel(g, n), size = kn_dsize(kg_dtype(g, n));
    bool            own = kg_op(g, st) == KN_OP_BUFFER && kg_numel(g, st) == w * size / 4 && kg_nsrc(g, n) == 1;
    bool            two = size == 8 && w * size == 64 && e->avx512; /* registers */
    return own && (size == 4 || two) && kn_dsize(kg_dtype(g, places)) == size && w * size >= 32;
}

/* Lanes of a table of one register, of eight bytes of two. */
static void el_look_up(kx_writer *e, kn_ref n, kn_ref places, int d, const kx_ins *m) {
    int bytes = kx_vec_bytes(e->p, n), x = kx_get(e, places, bytes, e->v2, n), to = d == x ? e->v0 : d;
    if (kn_dsize(kg_dtype(e->g, n)) == 4) {
        kx_put(e, el_like(kx_i3(KX_VPERMPS, bytes, d, x, KX_IN_MEM), m));
        return;
    }
    kx_ins high = el_further(m, bytes);
    kx_load_bits(e, to, bytes, *m);
    kx_put(e, el_like(kx_i3(KX_VPERMT2Q, bytes, to, x, KX_IN_MEM), &high));
    kx_move_vec(e, d, to, bytes);
}

/* Lanes from places that a register holds, under a mask that the instruction uses up: without a gate all of them.
 * places 0: `step` apart. */
static void el_gather(kx_writer *e, kn_ref n, int d, kn_ref places, int64_t step, kn_ref gate, const kx_ins *m) {
    static const uint16_t forms[2][2][2] = {{{KX_VGATHERDPS, KX_VGATHERDPD}, {KX_VGATHERQPS, KX_VGATHERQPD}},
                                            {{KX_VGATHERDPS_K, KX_VGATHERDPD_K}, {KX_VGATHERQPS_K, KX_VGATHERQPD_K}}};
    int        w = (int)kg_numel(e->g, n), size = kn_dsize(kg_dtype(e->g, n));
    int        far   = places ? kn_dsize(kg_dtype(e->g, places)) : 4;
    int        bytes = KN_MAX(16, w * KN_MAX(size, far)), own = KN_MAX(16, w * size), v = e->v0;
    kx_form_id form = (kx_form_id)forms[e->avx512][far == 8][size == 8];
    kx_ins     i    = el_like(kx_i3(form, bytes, d, KX_IN_MEM, e->avx512 ? 0 : v), m);
    i.scale         = (uint8_t)size;
    if (!places) { /* the index of a place is one of the lanes */
        int32_t apart[16];
        kx_put(e, el_like(kx_i2(KX_LEA, 8, KX_A, KX_IN_MEM), m));
        i.base = KX_A;
        i.disp = 0;
        for (int l = 0; l < w; l++) apart[l] = (int32_t)step * l;
        kx_load_bits(e, e->v2, w * 4, kx_mem_label(kx_i(KX_MOV, 8), kx_pool(e, apart, (size_t)w * 4), 0));
    }
    i.index = (uint8_t)(places ? kx_get(e, places, KN_MAX(16, w * far), e->v2, n) : e->v2);
    if (!gate) kx_put(e, kx_i3(e->avx512 ? KX_VPXORD : KX_VPXOR, 16, d, d, d)); /* or it waits for what d was */
    if (e->avx512) {
        if (gate)
            kx_put(e, kx_i2(KX_KMOVQ, 0, KX_K0, kx_mask(e, gate, KX_K0)));
        else
            kx_put(e, kx_i3(KX_KXNORQ, 0, KX_K0, KX_K0, KX_K0));
        kx_put(e, kx_masked(i, KX_K0, false));
        return;
    }
    if (gate)
        kx_avx2_mask(e, v, kx_get(e, gate, KN_MAX(16, w * e->p->flag), v, n), w, size);
    else
        kx_put(e, kx_i3(KX_VPCMPEQD, own, v, v, v));
    kx_put(e, i);
}

/* Lanes of four or eight bytes, `step` apart, under a mask, 0 where it is closed: as el_load_apart, each run under what
 * the mask says of the lanes that it has. rcx and rdx stay what they are: m may stand on them. */
static void el_load_apart_masked(kx_writer *e, kn_ref n, int d, int step, const kx_ins *m) {
    int        size = kn_dsize(kg_dtype(e->g, n)), w = (int)kg_numel(e->g, n), bytes = w * size;
    int        k = kx_mask(e, kg_at(e->g, n, 2), KX_K0);
    kx_form_id form = size == 8 ? KX_VMOVDQU64 : KX_VMOVUPS;
    kx_table   table[KX_MAX_TABLES];
    uint64_t   lanes = 0;
    kx_tables_of(e->p, n, table);
    for (int l = 0; l < w; l++) lanes |= (uint64_t)1 << l * step;
    kx_put(e, kx_i2(KX_KMOVQ_RK, 0, KX_A, k));
    kx_put(e, el_pool_of(e, kx_i3(KX_PDEP, 8, KX_A, KX_A, KX_IN_MEM), lanes, 8, 8));
    for (int run = 0; run < step; run++) {
        int    into = run ? e->v2 : d;
        kx_ins at   = el_further(m, (int64_t)run * bytes);
        if (run) kx_put(e, kx_imm(kx_i2(KX_SHRI, 8, KX_A, 0), w));
        kx_put(e, kx_i2(KX_KMOVQ_KR, 0, KX_K0, KX_A));
        kx_put(e, kx_masked(el_like(kx_i2(form, bytes, into, KX_IN_MEM), &at), KX_K0, true));
        if (run) kx_put(e, el_shuffle(e, n, &table[run - 1], d, into));
    }
}

/* One element for all lanes whose gate is open; the others stay. */
static void el_repeat_masked(kx_writer *e, int d, int w, int size, kn_ref gate, const kx_ins *m) {
    int    k = kx_mask(e, gate, KX_K1);
    kx_ins i = el_repeat(d, w * size, size, m);
    kx_put(e, kx_masked(i, k, false));
}

static void el_load_bools(kx_writer *e, int d, int w, const kx_ins *m) {
    if (e->avx512) {
        kx_load_bits(e, e->v0, w, *m);
        kx_put(e, kx_i3(KX_VPTESTMB_K, KN_MAX(16, w), d, e->v0, e->v0));
        return;
    }
    static const uint16_t widen[] = {[2] = KX_VPMOVZXBW, [4] = KX_VPMOVZXBD},
                          minus[] = {[1] = KX_VPSUBB, [2] = KX_VPSUBW, [4] = KX_VPSUBD};
    int  flag = e->p->flag, held = KN_MAX(16, w * flag);
    bool bits = flag == 1 || w * flag < 16; /* fewer than what widens them reads */
    if (bits) kx_load_bits(e, d, w, *m);
    if (flag > 1)
        kx_put(e, bits ? kx_i2((kx_form_id)widen[flag], held, d, d)
                       : el_like(kx_i2((kx_form_id)widen[flag], held, d, KX_IN_MEM), m));
    kx_put(e, kx_i3(KX_VPXOR, 16, e->v0, e->v0, e->v0));
    kx_put(e, kx_i3((kx_form_id)minus[flag], held, d, e->v0, d));
}

static void el_store_bits(kx_writer *e, int v, int bytes, const kx_ins *m) {
    if (bytes == 2)
        kx_put(e, el_like(kx_imm(kx_i3(KX_VPEXTRW_ST, 0, KX_IN_MEM, v, 0), 0), m));
    else if (bytes == 4)
        kx_put(e, el_like(kx_i2(KX_VMOVSS_ST, 0, KX_IN_MEM, v), m));
    else if (bytes == 8)
        kx_put(e, el_like(kx_i2(KX_VMOVSD_ST, 0, KX_IN_MEM, v), m));
    else
        kx_put(e, el_like(kx_i2(KX_VMOVUPS_ST, bytes, KX_IN_MEM, v), m));
}

/* What f8 has, as it was loaded. */
static void el_store_f8(kx_writer *e, int v, int dt, int w, const kx_ins *m) {
    int        words = w * 2 <= 16 ? 16 : 32, held = KN_MAX(16, w * 4), a = e->v0, b = e->v1;
    kx_form_id both = e->avx512 ? KX_VPANDD : KX_VPAND;
    if (dt == KN_F8E4M3) {
        kx_put(e, el_pool_of(e, kx_i3(KX_VMULPS, held, a, v, KX_IN_MEM), 0x3b800000, 4, held));
        kx_put(e, kx_imm(kx_i2(KX_VCVTPS2PH, held, a, a), 0));
        kx_put(e, kx_imm(kx_i3(KX_VPSRLWI, words, b, a, 0), 8));
        kx_put(e, el_pool_of(e, kx_i3(both, words, b, b, KX_IN_MEM), 0x80, 2, words));
        kx_put(e, el_pool_of(e, kx_i3(both, words, a, a, KX_IN_MEM), 0x7fff, 2, words));
        kx_put(e, el_pool_of(e, kx_i3(KX_VPMINUW, words, a, a, KX_IN_MEM), 0x3f80, 2, words)); /* NaN */
        kx_put(e, kx_imm(kx_i3(KX_VPSRLWI, words, a, a, 0), 7));
        kx_put(e, kx_i3(e->avx512 ? KX_VPORD : KX_VPOR, words, a, a, b));
    } else {
        kx_put(e, kx_imm(kx_i2(KX_VCVTPS2PH, held, a, v), 0));
        kx_put(e, kx_imm(kx_i3(KX_VPSRLWI, words, a, a, 0), 8));
    }
    if (e->avx512)
        kx_put(e, kx_i2(KX_VPMOVWB, words, a, a));
    else
        kx_put(e, kx_i3(KX_VPACKUSWB, 16, a, a, a));
    el_store_bits(e, a, w, m);
}

/* Lanes of a real of two bytes as memory has them: in `to`, side by side. Others are so already. */
static int el_as_stored(kx_writer *e, int to, int v, int dt, int w) {
    int held = w * 4 <= 16 ? 16 : w * 4;
    if (dt == KN_F16) kx_put(e, kx_imm(kx_i2(KX_VCVTPS2PH, held, to, v), 4));
    if (dt == KN_BF16) {
        kx_put(e, kx_imm(kx_i3(KX_VPSRLDI, held, to, v, 0), 16));
        if (e->avx512)
            kx_put(e, kx_i2(KX_VPMOVDW, held, to, to));
        else {
            kx_put(e, kx_i3(KX_VPACKUSDW, held, to, to, to));
            if (held == 32) kx_put(e, kx_imm(kx_i2(KX_VPERMQI, 32, to, to), 8));
        }
    }
    return dt == KN_F16 || dt == KN_BF16 ? to : v;
}

static void el_store_run(kx_writer *e, int v, int dt, int w, const kx_ins *m) {
    if (dt == KN_F8E4M3 || dt == KN_F8E5M2)
        el_store_f8(e, v, dt, w, m);
    else
        el_store_bits(e, el_as_stored(e, e->v0, v, dt, w), w * kn_dsize(dt), m);
}

/* A whole register past the caches, where its place is aligned: only that can go so. */
static void el_stream(kx_writer *e, int v, int bytes, const kx_ins *m) {
    int32_t plain = kx_label(&e->code), past = kx_label(&e->code);
    kx_put(e, el_like(kx_i2(KX_LEA, 8, KX_A, KX_IN_MEM), m));
    kx_put(e, kx_imm(kx_i2(KX_TESTI, 4, KX_A, 0), bytes - 1));
    kx_jcc(e, KXCC_NE, plain);
    kx_put(e, kx_mem(kx_i2(KX_VMOVNTPS, bytes, KX_IN_MEM, v), KX_A, 0));
    kx_jump(e, past);
    kx_here(e, plain);
    kx_put(e, kx_mem(kx_i2(KX_VMOVUPS_ST, bytes, KX_IN_MEM, v), KX_A, 0));
    kx_here(e, past);
    e->streams = true;
}

/* Lanes of four or eight bytes, `step` apart, one by one. */
static void el_store_lanes(kx_writer *e, int v, int size, int w, int64_t step, const kx_ins *m) {
    int bytes = w * size;
    for (int l = 0; l < w; l++) {
        kx_ins at    = el_further(m, l * step * size);
        int    block = l * size / 16, within = l * size % 16 / size, x = block ? e->v0 : v;
        if (block && !within)
            kx_put(e, kx_imm(e->avx512 ? kx_i3(KX_VEXTRACTI32X4, bytes, x, v, 0) : kx_i3(KX_VEXTRACTI128, 0, x, v, 0),
                             block));
        if (!within)
            el_store_bits(e, x, size, &at);
        else
            kx_put(e, el_like(size == 8 ? kx_i2(KX_VMOVHPS_ST, 0, KX_IN_MEM, x)
                                        : kx_imm(kx_i3(KX_VEXTRACTPS, 0, KX_IN_MEM, x, 0), within),
                              &at));
    }
}

/* Bytes 0 and 1. */
static void el_store_bools(kx_writer *e, kn_ref at, kn_ref x, int w, const kx_ins *m) {
    if (e->avx512) {
        int k = kx_mask(e, x, KX_K0), bytes = KN_MAX(16, w);
        kx_put(e, kx_masked(el_pool_of(e, kx_i2(KX_VMOVDQU8, bytes, e->v0, KX_IN_MEM), 1, 1, bytes), k, true));
    } else {
        int flag = e->p->flag, held = KN_MAX(16, w * flag), v = kx_get(e, x, held, e->v2, at);
        if (flag == 1) kx_put(e, el_pool_of(e, kx_i3(KX_VPAND, held, e->v0, v, KX_IN_MEM), 1, 1, held));
        if (flag == 2) kx_put(e, kx_imm(kx_i3(KX_VPSRLWI, held, e->v0, v, 0), 15));
        if (flag == 4) kx_put(e, kx_imm(kx_i3(KX_VPSRLDI, held, e->v0, v, 0), 31));
        if (flag == 4) kx_put(e, kx_i3(KX_VPACKSSDW, held, e->v0, e->v0, e->v0));
        if (flag == 2) kx_put(e, kx_i3(KX_VPACKUSWB, held, e->v0, e->v0, e->v0));
        if (flag > 1 && held == 32) kx_put(e, kx_imm(kx_i2(KX_VPERMQI, 32, e->v0, e->v0), 8));
        if (flag == 4) kx_put(e, kx_i3(KX_VPACKUSWB, 16, e->v0, e->v0, e->v0));
    }
    el_store_bits(e, e->v0, w, m);
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static kx_form_id el_masked_move(const kx_writer *e, int dt, bool store) {
    static const uint16_t forms[2][2][2] = {
        {{KX_VPMASKMOVD, KX_VPMASKMOVD_ST}, {KX_VPMASKMOVQ, KX_VPMASKMOVQ_ST}},
        {{KX_VMASKMOVPS, KX_VMASKMOVPS_ST}, {KX_VMASKMOVPD, KX_VMASKMOVPD_ST}},
    };
    static const uint16_t moves[4][2] = {{KX_VMOVDQU8, KX_VMOVDQU8_ST},
                                         {KX_VMOVDQU16, KX_VMOVDQU16_ST},
                                         {KX_VMOVUPS, KX_VMOVUPS_ST},
                                         {KX_VMOVUPD, KX_VMOVUPD_ST}};
    int                   size        = kn_dsize(dt);
    return (kx_form_id)(e->avx512 ? moves[__builtin_ctz((unsigned)size)][store]
                                  : forms[kn_is_float(dt)][size == 8][store]);
}

/* A gate of lanes as a mask in a register of AVX2. */
static int el_mask_of(kx_writer *e, kn_ref gate, int w, int size) {
    int m = kx_get(e, gate, KN_MAX(16, w * e->p->flag), e->v0, gate);
    if (size == e->p->flag) return m;
    kx_avx2_mask(e, e->v0, m, w, size);
    return e->v0;
}

/* The mask has a bit for lanes alone: it compares what fills a register. */
static bool el_has_lanes_alone(const kn_graph *g, kn_ref gate, int w) {
    if (kg_op(g, gate) != KN_OP_INS || !kx_compares(kx_op(g, gate))) return false;
    int st = kg_dtype(g, kg_at(g, gate, 0));
    return st != KN_BOOL && w * (st == KN_INDEX ? 4 : kn_dsize(st)) >= 16;
}

/* A gate of lanes as a mask of AVX-512. It says nothing of what is above the lanes, where they fill no register. */
static int el_lanes_of(kx_writer *e, kn_ref gate, int w, int size) {
    int k = kx_mask(e, gate, KX_K0), above = 64 - w;
    if (w * size >= 16 || el_has_lanes_alone(e->g, gate, w)) return k;
    kx_put(e, kx_imm(kx_i3(KX_KSHIFTLQ, 0, KX_K0, k, 0), above));
    kx_put(e, kx_imm(kx_i3(KX_KSHIFTRQ, 0, KX_K0, KX_K0, 0), above));
    return KX_K0;
}

/* The place is pages away from what is there, for some numbers of the loops: nothing is let through then, but where no
 * memory is mapped a processor takes hundreds of cycles to find that out. */
static bool el_is_away(const kn_graph *g, kn_ref place) {
    int64_t size = kn_dsize(kg_dtype(g, place)), away = EL_AWAY / size;
    kn_ref  idx = kg_at(g, place, 1);
    return kg_min(g, idx) < -away || kg_max(g, idx) - away > kg_numel(g, kg_at(g, place, 0));
}

/* Lanes under a mask into d; the others are 0, or (AVX-512) what d has already. */
static void el_load_masked(kx_writer *e, kn_ref n, int d, bool zero) {
    kn_ref gate = kg_at(e->g, n, 2);
    int    dt = kg_dtype(e->g, n), w = (int)kg_numel(e->g, n), bytes = KN_MAX(16, w * kn_dsize(dt));
    kx_ins i = kx_i2(el_masked_move(e, dt, false), bytes, d, KX_IN_MEM);
    bool    away = el_is_away(e->g, kg_at(e->g, n, 0));
    int32_t past = away ? kx_label(&e->code) : 0;
    if (e->avx512) {
        int k = el_lanes_of(e, gate, w, kn_dsize(dt));
        if (away && zero) kx_put(e, kx_i3(KX_VPXORD, bytes, d, d, d));
        if (away) kx_put(e, kx_i2(w <= 16 ? KX_KORTESTW : KX_KORTESTQ, 0, k, k)), kx_jcc(e, KXCC_E, past);
        kx_put(e, kx_masked(el_place(e, i, kg_at(e->g, n, 0)), k, zero));
        if (away) kx_here(e, past);
        if (kn_dsize(dt) == 2 && kn_is_float(dt)) el_load_run(e, d, dt, w, NULL);
        return;
    }
    int m = el_mask_of(e, gate, w, kn_dsize(dt));
    if (away) {
        kx_put(e, kx_i2(KX_VPTEST, bytes, m, m));
        kx_move_vec(e, d, m, bytes); /* none is let through: 0, as all of the mask is */
        kx_jcc(e, KXCC_E, past);
    }
    i = kx_i3((kx_form_id)i.form, bytes, d, m, KX_IN_MEM);
    kx_put(e, el_place(e, i, kg_at(e->g, n, 0)));
    if (away) kx_here(e, past);
}

static void el_store_masked(kx_writer *e, kn_ref n) {
    kn_ref at = kg_at(e->g, n, 0), x = kg_at(e->g, n, 1), gate = kg_at(e->g, n, 2);
    int    dt = kg_dtype(e->g, x), w = (int)kg_numel(e->g, at), bytes = KN_MAX(16, w * kn_dsize(dt));
    if (e->avx512) {
        int k = el_lanes_of(e, gate, w, kn_dsize(dt)), v = kx_get(e, x, kx_vec_bytes(e->p, at), e->v2, at);
        v = el_as_stored(e, e->v0, v, dt, w);
        kx_put(e, kx_masked(el_place(e, kx_i2(el_masked_move(e, dt, true), bytes, KX_IN_MEM, v), at), k, false));
        return;
    }
    int m = el_mask_of(e, gate, w, kn_dsize(dt)), v = kx_get(e, x, bytes, e->v2, at);
    kx_put(e, el_place(e, kx_i3(el_masked_move(e, dt, true), bytes, KX_IN_MEM, m, v), at));
}

void kx_set_to(kx_writer *e, kn_ref n, kn_ref alt, int d) {
    int bytes = kx_vec_bytes(e->p, n);
    switch (e->p->value[kx_name(e->p, n)].bank) {
    case KX_BANK_GP: {
        int a = kx_gp(e, alt, d);
        if (a != d) kx_put(e, kx_i2(KX_MOV, 8, d, a));
        return;
    }
    case KX_BANK_VEC: kx_move_vec(e, d, kx_get(e, alt, bytes, d, n), bytes); return;
    default: {
        int a = kx_mask(e, alt, d);
        if (a != d) kx_put(e, kx_i2(KX_KMOVQ, 0, d, a));
    }
    }
}

/* Lanes of a register: shifted down to the first. */
static void el_part(kx_writer *e, kn_ref n, kn_ref v, int from) {
    const kn_graph *g  = e->g;
    int             dt = kg_dtype(g, n), held = kx_held_size(e->p, dt), d = kx_dst(e, n), x;
    bool            lanes = kx_is_lanes(g, n), vec = lanes || kn_is_float(dt);
    if (!kx_is_lanes(g, v) && !vec) {
        x = kx_gp(e, v, d);
        if (x != d) kx_put(e, kx_i2(KX_MOV, 8, d, x));
        kx_done(e, n, d);
        return;
    }
    if (dt == KN_BOOL && e->avx512) {
        x = kx_mask(e, v, KX_K0);
        if (lanes && (from || d != x))
            kx_put(e, from ? kx_imm(kx_i3(KX_KSHIFTRQ, 0, d, x, 0), from) : kx_i2(KX_KMOVQ, 0, d, x));
        if (!lanes) {
            kx_put(e, kx_i2(KX_KMOVQ_RK, 0, d, x));
            if (from) kx_put(e, kx_imm(kx_i2(KX_SHRI, 8, d, 0), from));
            kx_put(e, kx_imm(kx_i2(KX_ANDI, 4, d, 0), 1));
        }
        kx_done(e, n, d);
        return;
    }
    int bytes = kx_vec_bytes(e->p, v), at = from * held, t = vec ? d : e->v0;
    x = kx_get(e, v, bytes, e->v2, n);
    if (lanes && kg_numel(g, n) * held > 16) {
        if (at) kx_put(e, kx_imm(kx_i3(KX_VEXTRACTI64X4, 64, d, x, 0), at / 32)), x = d;
    } else {
        if (at >= 16)
            kx_put(e, kx_imm(e->avx512 ? kx_i3(KX_VEXTRACTI32X4, bytes, t, x, 0) : kx_i3(KX_VEXTRACTI128, 0, t, x, 0),
                             at / 16)),
                x = t;
        if (at % 16) kx_put(e, kx_imm(kx_i3(KX_VPSRLDQI, 16, t, x, 0), at % 16)), x = t;
    }
    if (vec)
        kx_move_vec(e, d, x, lanes ? kx_vec_bytes(e->p, n) : 16);
    else {
        kx_put(e, held == 8 ? kx_i2(KX_VMOVQ_R, 0, d, x) : kx_i2(KX_VMOVD_ST, 0, d, x));
        if (dt == KN_BOOL)
            kx_put(e, kx_imm(kx_i2(KX_ANDI, 4, d, 0), 1));
        else if (e->p->value[n].whole)
            kx_extend(e, d, dt);
    }
    kx_done(e, n, d);
}

bool kx_alternates(bool avx512, int dtype, int64_t lanes) {
    int held = kx_held_bytes(avx512, dtype);
    return dtype != KN_INDEX && dtype != KN_BOOL && held >= (avx512 ? 2 : 4) && lanes >= 2 && lanes * held >= 16;
}

/* Every second lane of registers a and b, one behind the other: the even ones, or the odd ones. */
static void el_alternate(kx_writer *e, kn_ref n, kn_ref a, kn_ref b, int odd) {
    int      size = kx_held_size(e->p, kg_dtype(e->g, n)), w = (int)kg_numel(e->g, n), bytes = w * size;
    kx_table table[KX_MAX_TABLES];
    int      d = kx_dst(e, n), x = kx_get(e, a, bytes, e->v1, n), y = kx_get(e, b, bytes, e->v2, n);
    const kx_value *v = &e->p->value[n];
    if (v->across) {
        kx_put(e, kx_imm(kx_i4(KX_VPERM2F128, 0, d, x, y, 0), odd ? 0x31 : 0x20));
        kx_done(e, n, d);
        return;
    }
    if (!kx_tables_of(e->p, n, table)) {
        kx_put(e, size == 8 ? kx_i3(odd ? KX_VUNPCKHPD : KX_VUNPCKLPD, bytes, d, x, y)
                            : kx_imm(kx_i4(KX_VSHUFPS, bytes, d, x, y, 0), odd ? 0xdd : 0x88));
        if (bytes == 32 && !v->within) kx_put(e, kx_imm(kx_i3(KX_VPERMQI, 32, d, d, 0), 0xd8)); /* halves in order */
        kx_done(e, n, d);
        return;
    }
    static const kx_form_id over_places[] = {[2] = KX_VPERMI2W, [4] = KX_VPERMI2PS, [8] = KX_VPERMI2PD};
    static const kx_form_id over_lanes[]  = {[2] = KX_VPERMT2W, [4] = KX_VPERMT2PS, [8] = KX_VPERMT2PD};
    int held = kx_table_register(e->p, n, table);
    if (held < 0 && d == y && d != x) /* a table of its own: what is there already is the second */
        for (int l = 0; l < w; l++) table->at[l * size] ^= (uint8_t)w;
    int at = held >= 0 ? held : d == x || d == y ? e->v0 : d, to = held >= 0 && d == y && d != x ? e->v0 : d;
    if (held < 0) kx_put_table(e, table, at);
    if (held >= 0 && d != x) kx_move_vec(e, to, x, bytes);
    kx_put(e, at == d ? kx_i3(over_places[size], bytes, d, x, y)
                      : kx_i3(over_lanes[size], bytes, to, at, held < 0 && d != x ? x : y));
    kx_move_vec(e, d, to, bytes);
    kx_done(e, n, d);
}

bool kx_joins(bool avx512, int dtype, int64_t lanes) {
    int  bytes = (int)(lanes * kx_held_bytes(avx512, dtype));
    bool pair  = lanes == 2 && (kn_dsize(dtype) >= 4 || kn_is_int(dtype)); /* of scalars; else of registers */
    return dtype != KN_INDEX && dtype != KN_BOOL && (pair || lanes >= 4) && bytes <= (avx512 ? 64 : 32);
}

/* Two integers as lanes. Short ones are one number first. */
static void el_join_integers(kx_writer *e, kn_ref n, kn_ref a, kn_ref b) {
    int   size = kn_dsize(kg_dtype(e->g, n)), d = kx_dst(e, n);
    kx_rm x, y;
    if (size < 4) {
        int r = kx_gp(e, b, KX_A);
        if (r != KX_A) kx_put(e, kx_i2(KX_MOV, 4, KX_A, r));
        kx_put(e, kx_imm(kx_i2(KX_SHLI, 4, KX_A, 0), 8 * size));
        x = kx_gp_rm(e, a, KX_A);
        kx_put(e, kx_with(kx_i2(KX_MOV, size, KX_A, x.mem ? KX_IN_MEM : x.reg), &x));
        kx_put(e, kx_i2(KX_VMOVD, 0, d, KX_A));
    } else {
        kx_put(e, kx_i2(size == 4 ? KX_VMOVD : KX_VMOVQ, 0, d, kx_gp(e, a, KX_A)));
        y = kx_gp_rm(e, b, KX_A);
        kx_ins put = kx_i4(size == 4 ? KX_VPINSRD : KX_VPINSRQ, 0, d, d, y.mem ? KX_IN_MEM : y.reg, 0);
        kx_put(e, kx_with(kx_imm(put, 1), &y));
    }
    kx_done(e, n, d);
}

/* The lanes of register a, or a scalar, and behind them those of b. */
static void el_join(kx_writer *e, kn_ref n, kn_ref a, kn_ref b) {
    if (!kx_is_lanes(e->g, a) && kn_is_int(kg_dtype(e->g, n))) {
        el_join_integers(e, n, a, b);
        return;
    }
    int bytes = (int)kg_numel(e->g, n) * kx_held_size(e->p, kg_dtype(e->g, n)), half = KN_MAX(bytes / 2, 16);
    int d = kx_dst(e, n), x = kx_get(e, a, half, e->v0, n), y = kx_get(e, b, half, e->v2, n); /* v1 may be v2 */
    switch (bytes) {
    case 4: kx_put(e, kx_i3(KX_VPUNPCKLWD, 16, d, x, y)); break;
    case 8: kx_put(e, kx_i3(KX_VUNPCKLPS, 16, d, x, y)); break;
    case 16: kx_put(e, kx_i3(KX_VPUNPCKLQDQ, 16, d, x, y)); break;
    case 32:
        kx_put(e, kx_imm(e->avx512 ? kx_i4(KX_VINSERTI32X4, 32, d, x, y, 0) : kx_i4(KX_VINSERTI128, 0, d, x, y, 0), 1));
        break;
    default: kx_put(e, kx_imm(kx_i4(KX_VINSERTI64X4, 64, d, x, y, 0), 1));
    }
    kx_done(e, n, d);
}

void kx_emit_load(kx_writer *e, kn_ref n) {
    const kn_graph *g  = e->g;
    kn_ref          at = kg_at(g, n, 0), st = kx_root_of(g, at), gate = kg_nsrc(g, n) == 3 ? kg_at(g, n, 2) : 0;
    int             dt = kg_dtype(g, n), d = kx_dst(e, n), w = (int)kg_numel(g, n);
    bool            lanes = kx_is_lanes(g, n);
    if (kg_op(g, st) == KN_OP_BUFFER && kg_field(g, st, KN_F_BUFFER_space) == KN_REG) { /* a copy of an accumulator */
        kx_value *v = &e->p->value[st];
        if (v->bank == KX_BANK_GP)
            kx_done(e, n, kx_gp(e, st, KX_A));
        else if (v->bank == KX_BANK_VEC)
            kx_done(e, n, kx_get(e, st, v->bytes, e->v1, n));
        else
            kx_done(e, n, kx_mask(e, st, KX_K1));
        return;
    }
    kx_spot spot;
    kx_address_of(g, at, &spot);
    if (kx_rows_of(e->p, n) > 1) {
        kx_emit_turns(e, n);
        return;
    }
    if (e->p->value[n].part) {
        kx_spot from;
        kx_address_of(g, kg_at(g, e->p->value[n].part, 0), &from);
        kn_ref a = kg_at(g, e->p->value[n].part, 1), b = e->p->value[n].other;
        bool slid = b && spot.step == 1 && kg_numel(g, a) >= w;
        if (slid)
            kx_emit_slide(e, n, a, kg_at(g, b, 1), (int)(spot.disp - from.disp));
        else if (b && spot.step == 1)
            el_join(e, n, a, kg_at(g, b, 1));
        else if (b)
            el_alternate(e, n, a, kg_at(g, b, 1), (int)(spot.disp - from.disp));
        else
            el_part(e, n, a, (int)(spot.disp - from.disp));
        return;
    }
    if (gate && !e->under) {
        int  held;
        bool far  = spot.places || spot.step != 1;
        bool runs = far && !spot.places && spot.step > 1 && spot.step <= 4 && e->avx512 && kn_dsize(dt) >= 4 &&
                     w * kn_dsize(dt) >= 16;
        bool zero = kx_is_lanes(g, gate) && (!far || runs) && kg_op(g, kg_at(g, n, 1)) == KN_OP_CONST &&
                    !kx_lane_bits(e->p, kg_at(g, n, 1), &held); /* the mask makes it */
        if (!zero && kx_is_lanes(g, gate)) kx_set_to(e, n, kg_at(g, n, 1), d);
        if (kx_is_lanes(g, gate) && far) {
            kx_ins m = el_place(e, kx_i(KX_MOV, 8), at);
            if (runs && zero)
                el_load_apart_masked(e, n, d, (int)spot.step, &m);
            else if (spot.step == 0 && e->avx512)
                el_repeat_masked(e, d, w, kn_dsize(dt), gate, &m);
            else
                el_gather(e, n, d, spot.places, spot.step, gate, &m);
            kx_done(e, n, d);
            return;
        }
        if (kx_is_lanes(g, gate)) {
            el_load_masked(e, n, d, zero);
            kx_done(e, n, d);
            return;
        }
        kx_open_gate(e, n);
    }
    kx_ins   m = el_place(e, kx_i(KX_MOV, 8), at);
    int32_t  place[KN_MAX_LANES];
    kx_table table[KX_MAX_TABLES];
    for (int l = 0; l < w && lanes; l++)
        place[l] = spot.stack ? (int32_t)kg_const_int(g, kg_at(g, spot.stack, (uint32_t)l)) : (int32_t)(l * spot.step);
    if (spot.places && el_looks_up(e, n, spot.places))
        el_look_up(e, n, spot.places, d, &m);
    else if (spot.places)
        el_gather(e, n, d, spot.places, 0, 0, &m);
    else if (spot.stack && (kn_dsize(dt) >= 4 || (kn_dsize(dt) == 2 && kx_tables_of(e->p, n, table))))
        el_load_places(e, n, d, &m), el_load_run(e, d, dt, w, NULL);
    else if (lanes && dt == KN_BOOL && (spot.stack || spot.step != 1)) {
        kx_load_narrow(e, n, e->v1, spot.step, place, &m);
        kx_put(e, kx_i3(KX_VPTESTMB_K, KN_MAX(16, w), d, e->v1, e->v1));
    } else if (lanes && dt == KN_BOOL)
        el_load_bools(e, d, w, &m);
    else if (lanes && kn_dsize(dt) == 2 && spot.step > 1 && kx_tables_of(e->p, n, table))
        el_load_apart(e, n, d, (int)spot.step, &m), el_load_run(e, d, dt, w, NULL);
    else if (lanes && spot.step != 1 && kn_dsize(dt) < 4 && (spot.step != -1 || w * kn_dsize(dt) < 16))
        kx_load_narrow(e, n, d, spot.step, place, &m), el_load_run(e, d, dt, w, NULL);
    else if (lanes && spot.step != 1 && w * kn_dsize(dt) < 16)
        kx_load_lanes(e, d, kn_dsize(dt), w, spot.step, &m);
    else if (lanes && el_load_by_table(e, n, d, spot.step, &m))
        ;
    else if (lanes && spot.step == -1)
        el_load_turned(e, d, kn_dsize(dt), w, &m), el_load_run(e, d, dt, w, NULL);
    else if (lanes && spot.step > 1 && spot.step <= kx_most_apart(e->avx512, kn_dsize(dt), w))
        el_load_apart(e, n, d, (int)spot.step, &m);
    else if (lanes && el_load_blended(e, n, d, spot.step, &m))
        ;
    else if (lanes && spot.step != 1)
        kx_load_lanes(e, d, kn_dsize(dt), w, spot.step, &m);
    else if (lanes)
        el_load_run(e, d, dt, w, &m);
    else if (e->p->value[n].repeated)
        kx_put(e, el_repeat(d, e->p->value[n].repeated, kn_dsize(dt), &m));
    else if (kn_is_float(dt))
        el_load_real(e, d, dt, &m);
    else
        el_load_integer(e, d, dt, e->p->value[n].whole, &m);
    kx_close_gate(e, n);
    kx_done(e, n, d);
}

/* An accumulator takes a value. */
static void el_store_cell(kx_writer *e, kn_ref cell, kn_ref x) {
    kx_value *v = &e->p->value[cell];
    if (kg_op(e->g, x) != KN_OP_CONST && kx_name(e->p, x) == cell) return; /* made in place */
    int d = kx_dst(e, cell);
    if (v->bank == KX_BANK_GP)
        kx_done(e, cell, kx_gp(e, x, d));
    else if (v->bank == KX_BANK_VEC)
        kx_done(e, cell, kx_get(e, x, v->bytes, d, cell));
    else
        kx_done(e, cell, kx_mask(e, x, d));
}

void kx_emit_store(kx_writer *e, kn_ref n) {
    const kn_graph *g  = e->g;
    kn_ref          at = kg_at(g, n, 0), x = kg_at(g, n, 1), st = kx_root_of(g, at);
    kn_ref          gate = kg_nsrc(g, n) == 3 ? kg_at(g, n, 2) : 0;
    int             dt = kg_dtype(g, x), w = (int)kg_numel(g, at);
    bool            lanes = kg_rank(g, at) > 0;
    int32_t         past  = 0;
    if (kg_op(g, st) == KN_OP_BUFFER && kg_field(g, st, KN_F_BUFFER_space) == KN_REG) {
        el_store_cell(e, st, x);
        return;
    }
    if (gate && kx_is_lanes(g, gate)) {
        el_store_masked(e, n);
        return;
    }
    if (kx_emit_copy(e, n) || kx_emit_fill(e, n)) return;
    if (gate && e->under != n) {
        past = kx_label(&e->code);
        kx_test_gate(e, gate, past);
    }
    kx_spot spot;
    kx_address_of(g, at, &spot);
    kx_ins m = el_place(e, kx_i(KX_MOV, 8), at);
    if (lanes && dt == KN_BOOL)
        el_store_bools(e, at, x, w, &m);
    else if (lanes && spot.step != 1 && kn_dsize(dt) < 4)
        kx_store_narrow(e, el_as_stored(e, e->v2, kx_get(e, x, kx_vec_bytes(e->p, at), e->v2, at), dt, w), kn_dsize(dt),
                        w, spot.step, &m);
    else if (lanes && spot.step != 1)
        el_store_lanes(e, kx_get(e, x, kx_vec_bytes(e->p, at), e->v2, at), kn_dsize(dt), w, spot.step, &m);
    else if (lanes && kg_node(g, n)->arg & 1 && kx_held_size(e->p, dt) == kn_dsize(dt) && w * kn_dsize(dt) >= 16)
        el_stream(e, kx_get(e, x, kx_vec_bytes(e->p, at), e->v2, at), w * kn_dsize(dt), &m);
    else if (lanes)
        el_store_run(e, kx_get(e, x, kx_vec_bytes(e->p, at), e->v2, at), dt, w, &m);
    else if (kn_is_float(dt))
        el_store_real(e, kx_get(e, x, 16, e->v2, at), dt, &m);
    else if (kg_op(g, x) == KN_OP_CONST && kg_const_int(g, x) == (int32_t)kg_const_int(g, x))
        kx_put(e,
               el_like(kx_imm(kx_i2(KX_MOVI, kn_dsize(dt), KX_IN_MEM, 0), dt == KN_U8    ? (int8_t)kg_const_int(g, x)
                                                                          : dt == KN_U16 ? (int16_t)kg_const_int(g, x)
                                                                                         : kg_const_int(g, x)),
                       &m));
    else
        kx_put(e, el_like(kx_i2(KX_MOV_ST, kn_dsize(dt), KX_IN_MEM, kx_gp(e, x, KX_A)), &m));
    if (past) kx_here(e, past);
    kx_close_gate(e, n);
}
