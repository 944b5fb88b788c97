/* emit_scalar.c - Render of x86-64: scalars. Integers in general registers, extended to 64 bits; floats in vector
 * registers, those narrower than f32 as f32, rounded after every op. rax, rcx and rdx are for sequences. */
#include "target/x86/emit.h"

#include <math.h>
#include <string.h>

static kn_ref es_src(const kx_writer *e, kn_ref n, uint32_t k) {
    return kg_at(e->g, n, k);
}
static bool es_is_const(const kx_writer *e, kn_ref n) {
    return kg_op(e->g, n) == KN_OP_CONST;
}

/* A constant that fits a signed 32-bit immediate. */
static bool es_small(const kx_writer *e, kn_ref n, int64_t *v) {
    if (!es_is_const(e, n)) return false;
    *v = kg_const_int(e->g, n);
    return *v == (int32_t)*v;
}

static void es_mov(kx_writer *e, int to, int from) {
    if (to != from) kx_put(e, kx_i2(KX_MOV, 8, to, from));
}

static void es_jump(kx_writer *e, int cond, int32_t to) {
    kx_jcc(e, (kx_cond)cond, to);
}

/* ---- integers -------------------------------------------------------------------------------------------------- */

/* An integer as its dtype has it, unless its low bits are all that is looked at. */
static void es_extend(kx_writer *e, kn_ref n, int reg) {
    if (e->p->value[n].whole) kx_extend(e, reg, kg_dtype(e->g, n));
}

static void es_finish(kx_writer *e, kn_ref n, int reg, int d) {
    es_extend(e, n, reg);
    es_mov(e, d, reg);
    kx_done(e, n, d);
}

static void es_two_imm(kx_writer *e, kn_ref n, kx_form_id form, kx_form_id imm_form, kn_ref a, int64_t v) {
    int  d = kx_dst(e, n), x = kx_gp(e, a, d);
    bool power = v > 1 && !(v & (v - 1));
    if (form == KX_ADD && x != d)
        kx_put(e, kx_mem(kx_i2(KX_LEA, 8, d, KX_IN_MEM), x, (int32_t)v));
    else if (form == KX_IMUL && !power)
        kx_put(e, kx_imm(kx_i3(KX_IMULI, 8, d, x, 0), v));
    else {
        if (form == KX_IMUL) imm_form = KX_SHLI, v = __builtin_ctzll((unsigned long long)v);
        es_mov(e, d, x);
        kx_put(e, kx_imm(kx_i2(imm_form, 8, d, 0), v));
    }
    es_finish(e, n, d, d);
}

static void es_two(kx_writer *e, kn_ref n, kx_form_id form, kx_form_id imm_form) {
    kn_ref  a = es_src(e, n, 0), b = es_src(e, n, 1);
    int     d = kx_dst(e, n), t;
    int64_t v;
    if (es_is_const(e, a) && form != KX_SUB) {
        kn_ref x = a;
        a        = b;
        b        = x;
    }
    if (es_small(e, b, &v) && imm_form) {
        es_two_imm(e, n, form, imm_form, a, v);
        return;
    }
    kx_rm rb = kx_gp_rm(e, b, KX_D);
    bool  in = !rb.mem && rb.reg == d;
    t        = in ? KX_A : d;
    int ra   = kx_gp(e, a, t);
    if (in && form != KX_SUB) { /* in place, from the right */
        kx_put(e, kx_i2(form, 8, d, ra));
        es_finish(e, n, d, d);
        return;
    }
    if (form == KX_ADD && !rb.mem && ra != t && !in)
        kx_put(e, kx_mem_index(kx_i2(KX_LEA, 8, t, KX_IN_MEM), ra, rb.reg, 1, 0));
    else {
        es_mov(e, t, ra);
        kx_put(e, kx_with(kx_i2(form, 8, t, rb.mem ? KX_IN_MEM : rb.reg), &rb));
    }
    es_finish(e, n, t, d);
}

/* Compared as numbers without a sign: shorter ones are below a register's. */
static bool es_is_below(const kx_writer *e, kn_ref n) {
    return kg_dtype(e->g, n) == KN_U64 || kg_dtype(e->g, n) == KN_U32;
}

/* Of four bytes what lies above them is not looked at (pl_takes_low). */
static int es_compared_bytes(const kx_writer *e, kn_ref n) {
    return kx_compares_low(kg_dtype(e->g, n)) ? 4 : 8;
}

static void es_compare(kx_writer *e, kn_ref a, kn_ref b) {
    int64_t v;
    int     ra = kx_gp(e, a, KX_A), bytes = es_compared_bytes(e, a);
    if (es_small(e, b, &v)) {
        kx_put(e, kx_imm(kx_i2(KX_CMPI, bytes, ra, 0), v));
        return;
    }
    kx_rm rb = kx_gp_rm(e, b, KX_D);
    kx_put(e, kx_with(kx_i2(KX_CMP, bytes, ra, rb.mem ? KX_IN_MEM : rb.reg), &rb));
}

static int es_condition(int op, bool below) {
    switch (op) {
    case KN_OP_CMPLT: return below ? KXCC_B : KXCC_L;
    case KN_OP_CMPGT: return below ? KXCC_A : KXCC_G;
    case KN_OP_CMPLE: return below ? KXCC_BE : KXCC_LE;
    case KN_OP_CMPGE: return below ? KXCC_AE : KXCC_GE;
    case KN_OP_CMPEQ: return KXCC_E;
    default: return KXCC_NE;
    }
}

static kx_ins es_with_cond(kx_ins i, int cond) {
    i.cond = (uint8_t)cond;
    return i;
}

static int es_flags(kx_writer *e, kn_ref n) {
    kn_ref a = es_src(e, n, 0), b = es_src(e, n, 1);
    bool   swap = es_is_const(e, a); /* an immediate stands on the right */
    es_compare(e, swap ? b : a, swap ? a : b);
    int op = swap ? kx_from_right(kx_op(e->g, n)) : kx_op(e->g, n);
    return es_condition(op, es_is_below(e, a));
}

void kx_set_flag(kx_writer *e, kn_ref n, int d) {
    kx_put(e, es_with_cond(kx_i1(KX_SETCC, 0, KX_A), es_flags(e, n)));
    kx_put(e, kx_i2(KX_MOVZX8, 4, d, KX_A));
}

/* 0, 1, 2 ...: the predicates of vcmp. */
int kx_predicate(int op) {
    switch (op) {
    case KN_OP_CMPLT: return 0x11;
    case KN_OP_CMPLE: return 0x12;
    case KN_OP_CMPGE: return 0x1d;
    case KN_OP_CMPGT: return 0x1e;
    case KN_OP_CMPEQ: return 0;
    default: return 4; /* NE, true for NaN */
    }
}

int kx_from_right(int op) {
    switch (op) {
    case KN_OP_CMPLT: return KN_OP_CMPGT;
    case KN_OP_CMPGT: return KN_OP_CMPLT;
    case KN_OP_CMPLE: return KN_OP_CMPGE;
    case KN_OP_CMPGE: return KN_OP_CMPLE;
    default: return op;
    }
}

static void es_compare_reals(kx_writer *e, kn_ref n) {
    kn_ref a = es_src(e, n, 0), b = es_src(e, n, 1);
    int    st = kg_dtype(e->g, a), d = kx_dst(e, n), pr = kx_predicate(kx_op(e->g, n));
    bool   dbl = st == KN_F64;
    int    ra  = kx_get(e, a, 16, e->v2, a);
    kx_rm  rb  = kx_vec_rm(e, b, 16, false, b);
    int    vb  = rb.mem ? KX_IN_MEM : rb.reg;
    if (e->avx512) {
        kx_put(e, kx_with(kx_imm(kx_i4(dbl ? KX_VCMPSD_K : KX_VCMPSS_K, 0, KX_K0, ra, vb, 0), pr), &rb));
        kx_put(e, kx_i2(KX_KMOVB_RK, 0, d, KX_K0));
    } else {
        kx_put(e, kx_with(kx_imm(kx_i4(dbl ? KX_VCMPSD : KX_VCMPSS, 0, e->v0, ra, vb, 0), pr), &rb));
        kx_put(e, kx_i2(KX_VMOVD_ST, 0, d, e->v0));
        kx_put(e, kx_imm(kx_i2(KX_ANDI, 4, d, 0), 1));
    }
    kx_done(e, n, d);
}

static void es_select_integer(kx_writer *e, kn_ref n) { /* WHERE */
    bool   swap = es_is_const(e, es_src(e, n, 1)) && !es_is_const(e, es_src(e, n, 2)); /* a constant comes first */
    kn_ref from = es_src(e, n, swap ? 1 : 2);
    int    d    = kx_dst(e, n);
    kx_rm  a = kx_gp_rm(e, es_src(e, n, swap ? 2 : 1), KX_D), p = kx_gp_rm(e, es_src(e, n, 0), KX_C);
    int    t = (!a.mem && a.reg == d) || (!p.mem && p.reg == d) ? KX_A : d;
    es_mov(e, t, kx_gp(e, from, t));
    if (p.mem)
        kx_put(e, kx_with(kx_imm(kx_i2(KX_CMPI, 8, KX_IN_MEM, 0), 0), &p));
    else
        kx_put(e, kx_i2(KX_TEST, 4, p.reg, p.reg));
    kx_ins move = kx_with(kx_i2(KX_CMOVCC, 8, t, a.mem ? KX_IN_MEM : a.reg), &a);
    kx_put(e, es_with_cond(move, swap ? KXCC_E : KXCC_NE));
    es_mov(e, d, t);
    kx_done(e, n, d);
}

static void es_extreme(kx_writer *e, kn_ref n) { /* MAX, MIN */
    bool  below = es_is_below(e, n), max = kx_op(e->g, n) == KN_OP_MAX;
    int   cond = max ? below ? KXCC_B : KXCC_L : below ? KXCC_A : KXCC_G;
    int   d = kx_dst(e, n), bytes = es_compared_bytes(e, n);
    kx_rm b = kx_gp_rm(e, es_src(e, n, 1), KX_D);
    int   t = !b.mem && b.reg == d ? KX_A : d;
    es_mov(e, t, kx_gp(e, es_src(e, n, 0), t));
    kx_put(e, kx_with(kx_i2(KX_CMP, bytes, t, b.mem ? KX_IN_MEM : b.reg), &b));
    kx_put(e, es_with_cond(kx_with(kx_i2(KX_CMOVCC, bytes, t, b.mem ? KX_IN_MEM : b.reg), &b), cond));
    es_finish(e, n, t, d);
}

/* prev + a * c, and a * b + c. */
static void es_multiply_add(kx_writer *e, kn_ref n) {
    kn_ref  a = es_src(e, n, 0), b = es_src(e, n, 1), c = es_src(e, n, 2);
    int     d = kx_dst(e, n), t = d;
    int64_t v, w;
    bool    ends = es_small(e, c, &w); /* with a constant */
    if (es_small(e, b, &v) && v > 0 && v <= 8 && !(v & (v - 1)) && (!ends || v > 1)) { /* an address */
        int x = kx_gp(e, a, KX_A), y = ends ? KX_NO_REG : kx_gp(e, c, KX_D);
        kx_put(e, kx_mem_index(kx_i2(KX_LEA, 8, d, KX_IN_MEM), y, x, (int)v, ends ? (int32_t)w : 0));
        es_finish(e, n, d, d);
        return;
    }
    if (!ends && (es_is_const(e, c) || e->p->value[kx_name(e->p, c)].reg == d)) t = KX_A;
    if (es_small(e, b, &v) && v > 0 && !(v & (v - 1))) {
        es_mov(e, t, kx_gp(e, a, t));
        if (v > 1) kx_put(e, kx_imm(kx_i2(KX_SHLI, 8, t, 0), __builtin_ctzll((unsigned long long)v)));
    } else if (es_small(e, b, &v)) {
        kx_rm ra = kx_gp_rm(e, a, KX_A);
        kx_put(e, kx_with(kx_imm(kx_i3(KX_IMULI, 8, t, ra.mem ? KX_IN_MEM : ra.reg, 0), v), &ra));
    } else {
        t = KX_A;
        es_mov(e, t, kx_gp(e, a, t));
        kx_rm rb = kx_gp_rm(e, b, KX_D);
        kx_put(e, kx_with(kx_i2(KX_IMUL, 8, t, rb.mem ? KX_IN_MEM : rb.reg), &rb));
    }
    if (ends) {
        if (w) kx_put(e, kx_imm(kx_i2(KX_ADDI, 8, t, 0), w));
    } else {
        kx_rm rc = kx_gp_rm(e, c, KX_D);
        kx_put(e, kx_with(kx_i2(KX_ADD, 8, t, rc.mem ? KX_IN_MEM : rc.reg), &rc));
    }
    es_extend(e, n, t);
    es_mov(e, d, t);
    kx_done(e, n, d);
}

static void es_shift(kx_writer *e, kn_ref n) {
    int    op = kx_op(e->g, n), dt = kg_dtype(e->g, n), width = 8 * kn_dsize(dt), d = kx_dst(e, n);
    bool   left = op == KN_OP_SHL, es_arithmetic = !left && kn_dtypes[dt].kind == 'I';
    kn_ref by = es_src(e, n, 1);
    if (es_is_const(e, by)) {
        int64_t c   = kg_const_int(e->g, by);
        bool    out = c < 0 || c >= width;
        if (out && !es_arithmetic) {
            kx_put(e, kx_i2(KX_XOR, 4, d, d));
        } else {
            es_mov(e, d, kx_gp(e, es_src(e, n, 0), d));
            if (out) c = 63;
            if (c) kx_put(e, kx_imm(kx_i2(left ? KX_SHLI : es_arithmetic ? KX_SARI : KX_SHRI, 8, d, 0), c));
            if (left) kx_extend(e, d, dt);
        }
        kx_done(e, n, d);
        return;
    }
    es_mov(e, KX_D, kx_gp(e, by, KX_D));
    int a = kx_gp(e, es_src(e, n, 0), KX_A);
    if (es_arithmetic) {
        kx_put(e, kx_mov_const(KX_C, 63));
        kx_put(e, kx_imm(kx_i2(KX_CMPI, 8, KX_D, 0), width));
        kx_put(e, es_with_cond(kx_i2(KX_CMOVCC, 8, KX_D, KX_C), KXCC_AE));
        kx_put(e, kx_i3(KX_SARX, 8, KX_A, a, KX_D));
    } else {
        kx_put(e, kx_i3(left ? KX_SHLX : KX_SHRX, 8, KX_A, a, KX_D));
        kx_put(e, kx_mov_const(KX_C, 0));
        kx_put(e, kx_imm(kx_i2(KX_CMPI, 8, KX_D, 0), width));
        kx_put(e, es_with_cond(kx_i2(KX_CMOVCC, 8, KX_A, KX_C), KXCC_AE));
        if (left) kx_extend(e, KX_A, dt);
    }
    es_mov(e, d, KX_A);
    kx_done(e, n, d);
}

/* ---- floats to integers ---------------------------------------------------------------------------------------- */

static kx_ins es_at_double(kx_writer *e, kx_ins i, double v) {
    return kx_mem_label(i, kx_pool(e, &v, 8), 0);
}

static void es_real_to_integer(kx_writer *e, kn_ref n) {
    kn_ref  a  = es_src(e, n, 0);
    int     st = kg_dtype(e->g, a), dt = kg_dtype(e->g, n), d = kx_dst(e, n), x = kx_get(e, a, 16, e->v2, a);
    int32_t done = kx_label(&e->code), big = kx_label(&e->code);
    if (st != KN_F64)
        kx_put(e, kx_i3(KX_VCVTSS2SD, 0, e->v0, x, x));
    else
        kx_move_vec(e, e->v0, x, 16);
    x = e->v0;
    kx_put(e, kx_mov_const(KX_A, 0));
    if (dt == KN_U64) {
        kx_put(e, es_at_double(e, kx_i2(KX_VUCOMISD, 0, x, KX_IN_MEM), 0));
        es_jump(e, KXCC_BE, done); /* NaN too */
        kx_put(e, kx_mov_const(KX_A, -1));
        kx_put(e, es_at_double(e, kx_i2(KX_VUCOMISD, 0, x, KX_IN_MEM), 18446744073709551616.0));
        es_jump(e, KXCC_AE, done);
        kx_put(e, es_at_double(e, kx_i2(KX_VUCOMISD, 0, x, KX_IN_MEM), 9223372036854775808.0));
        es_jump(e, KXCC_AE, big);
        kx_put(e, kx_i2(KX_VCVTTSD2SI, 8, KX_A, x));
        kx_jump(e, done);
        kx_here(e, big);
        kx_put(e, es_at_double(e, kx_i3(KX_VSUBSD, 0, x, x, KX_IN_MEM), 9223372036854775808.0));
        kx_put(e, kx_i2(KX_VCVTTSD2SI, 8, KX_A, x));
        kx_put(e, kx_mov_const(KX_D, INT64_MIN));
        kx_put(e, kx_i2(KX_XOR, 8, KX_A, KX_D));
    } else {
        kx_put(e, kx_i2(KX_VUCOMISD, 0, x, x));
        es_jump(e, KXCC_P, done);
        if (kn_dsize(dt) == 8) {
            kx_put(e, kx_mov_const(KX_A, INT64_MAX));
            kx_put(e, es_at_double(e, kx_i2(KX_VUCOMISD, 0, x, KX_IN_MEM), 9223372036854775808.0));
            es_jump(e, KXCC_AE, done);
        } else {
            kx_put(e, es_at_double(e, kx_i3(KX_VMAXSD, 0, x, x, KX_IN_MEM), (double)kn_dtypes[dt].min));
            kx_put(e, es_at_double(e, kx_i3(KX_VMINSD, 0, x, x, KX_IN_MEM), (double)kn_dtypes[dt].max));
        }
        kx_put(e, kx_i2(KX_VCVTTSD2SI, 8, KX_A, x));
    }
    kx_here(e, done);
    es_mov(e, d, KX_A);
    kx_done(e, n, d);
}

void kx_emit_integer(kx_writer *e, kn_ref n) {
    const kn_graph *g  = e->g;
    int             op = kx_op(g, n), dt = kg_dtype(g, n), st = kg_dtype(g, es_src(e, n, 0)), d;
    switch (op) {
    case KN_OP_ADD: es_two(e, n, dt == KN_BOOL ? KX_OR : KX_ADD, dt == KN_BOOL ? KX_ORI : KX_ADDI); return;
    case KN_OP_SUB: es_two(e, n, dt == KN_BOOL ? KX_XOR : KX_SUB, dt == KN_BOOL ? KX_XORI : KX_SUBI); return;
    case KN_OP_MUL: es_two(e, n, dt == KN_BOOL ? KX_AND : KX_IMUL, dt == KN_BOOL ? KX_ANDI : KX_IMULI); return;
    case KN_OP_AND: es_two(e, n, KX_AND, KX_ANDI); return;
    case KN_OP_OR: es_two(e, n, KX_OR, KX_ORI); return;
    case KN_OP_XOR: es_two(e, n, KX_XOR, KX_XORI); return;
    case KN_OP_MAX:
    case KN_OP_MIN: es_extreme(e, n); return;
    case KN_OP_MULACC: es_multiply_add(e, n); return;
    case KN_OP_SHL:
    case KN_OP_SHR: es_shift(e, n); return;
    case KN_OP_IDIV:
    case KN_OP_MOD: kx_emit_divide(e, n); return;
    case KN_OP_WHERE: es_select_integer(e, n); return;
    case KN_OP_CMPLT:
    case KN_OP_CMPGT:
    case KN_OP_CMPLE:
    case KN_OP_CMPGE:
    case KN_OP_CMPNE:
    case KN_OP_CMPEQ:
        if (kn_is_float(st)) {
            es_compare_reals(e, n);
            return;
        }
        if (kx_is_gate_alone(e, n)) {
            e->cond  = es_flags(e, n);
            e->flags = n;
            return;
        }
        d = kx_dst(e, n);
        kx_set_flag(e, n, d);
        kx_done(e, n, d);
        return;
    case KN_OP_NEG:
    case KN_OP_NOT:
        d = kx_dst(e, n);
        es_mov(e, d, kx_gp(e, es_src(e, n, 0), d));
        if (dt == KN_BOOL && op == KN_OP_NOT)
            kx_put(e, kx_imm(kx_i2(KX_XORI, 4, d, 0), 1));
        else if (dt != KN_BOOL)
            kx_put(e, kx_i1(op == KN_OP_NEG ? KX_NEG : KX_NOT, 8, d));
        es_extend(e, n, d);
        kx_done(e, n, d);
        return;
    case KN_OP_TRUNC:
    case KN_OP_CAST:
        if (kn_is_float(st)) {
            es_real_to_integer(e, n);
            return;
        }
        d = kx_dst(e, n);
        es_mov(e, d, kx_gp(e, es_src(e, n, 0), d));
        if (kn_dsize(dt) < kn_dsize(st) || kn_dtypes[dt].kind != kn_dtypes[st].kind) kx_extend(e, d, dt);
        kx_done(e, n, d);
        return;
    default: kx_refused(e, n, "no integer form");
    }
}

/* ---- floats ---------------------------------------------------------------------------------------------------- */

/* An f32 rounded to the nearest value of a narrower float, ties to even. */
void kx_round(kx_writer *e, int v, int dt) {
    if (dt == KN_F16) {
        kx_put(e, kx_imm(kx_i2(KX_VCVTPS2PH, 16, v, v), 0));
        kx_put(e, kx_i2(KX_VCVTPH2PS, 16, v, v));
    } else if (dt == KN_BF16) {
        int32_t nan = kx_label(&e->code);
        kx_put(e, kx_i2(KX_VUCOMISS, 0, v, v));
        es_jump(e, KXCC_P, nan);
        kx_put(e, kx_i2(KX_VMOVD_ST, 0, KX_A, v));
        kx_put(e, kx_i2(KX_MOV, 4, KX_D, KX_A));
        kx_put(e, kx_imm(kx_i2(KX_SHRI, 4, KX_D, 0), 16));
        kx_put(e, kx_imm(kx_i2(KX_ANDI, 4, KX_D, 0), 1));
        kx_put(e, kx_mem_index(kx_i2(KX_LEA, 4, KX_A, KX_IN_MEM), KX_A, KX_D, 1, 0x7fff));
        kx_put(e, kx_imm(kx_i2(KX_ANDI, 4, KX_A, 0), -65536));
        kx_put(e, kx_i2(KX_VMOVD, 0, v, KX_A));
        kx_here(e, nan);
    } else {
        kx_put(e, kx_i3(KX_VCVTSS2SD, 0, v, v, v));
        kx_put(e, kx_mem(kx_i2(KX_VMOVSD_ST, 0, KX_IN_MEM, v), KX_RSP, e->args));
        kx_call(e, dt == KN_F8E4M3 ? KX_H_round_f8e4m3 : KX_H_round_f8e5m2);
        kx_load_bits(e, v, 8, kx_mem(kx_i(KX_MOV, 8), KX_RSP, e->args));
        kx_put(e, kx_i3(KX_VCVTSD2SS, 0, v, v, v));
    }
}

static void es_arithmetic(kx_writer *e, kn_ref n, kx_form_id single, kx_form_id dbl, bool reversed) {
    int    dt = kg_dtype(e->g, n), d = kx_dst(e, n);
    kn_ref a = es_src(e, n, reversed), b = es_src(e, n, !reversed);
    int    ra = kx_get(e, a, 16, e->v2, n);
    kx_rm  rb = kx_vec_rm(e, b, 16, false, n);
    kx_put(e, kx_with(kx_i3(dt == KN_F64 ? dbl : single, 0, d, ra, rb.mem ? KX_IN_MEM : rb.reg), &rb));
    if (kn_dsize(dt) < 4) kx_round(e, d, dt);
    kx_done(e, n, d);
}

static void es_fused(kx_writer *e, kn_ref n) {
    bool       dbl = kg_dtype(e->g, n) == KN_F64, minus = false, less = false;
    int        d = kx_dst(e, n);
    kn_ref     a = kx_term(e->g, n, 0, &minus), b = kx_term(e->g, n, 1, &minus), c = kx_term(e->g, n, 2, &less);
    int        ra   = kx_get(e, a, 16, e->v2, n);
    kx_rm      rb   = kx_vec_rm(e, b, 16, false, n);
    kx_form_id form;
    if (ra == d || (!rb.mem && rb.reg == d)) { /* 213, of the one that ends here: d = d * x + c */
        int   x  = ra != d ? ra : rb.mem ? kx_get(e, b, 16, e->v2, n) : rb.reg;
        kx_rm rc = kx_vec_rm(e, c, 16, false, n);
        form     = kx_fused_form(false, false, dbl, minus, less);
        kx_put(e, kx_with(kx_i3(form, 0, d, x, rc.mem ? KX_IN_MEM : rc.reg), &rc));
    } else { /* 231: d = a * b + d */
        form = kx_fused_form(false, true, dbl, minus, less);
        kx_move_vec(e, d, kx_get(e, c, 16, d, n), 16);
        kx_put(e, kx_with(kx_i3(form, 0, d, ra, rb.mem ? KX_IN_MEM : rb.reg), &rb));
    }
    kx_done(e, n, d);
}

/* The larger or smaller, the first of equal ones, NaN if either is: as on lanes. d is none of the sources. */
static void es_extreme_real(kx_writer *e, kn_ref n) {
    bool    max = kx_op(e->g, n) == KN_OP_MAX, dbl = kg_dtype(e->g, n) == KN_F64;
    kn_ref  y = es_src(e, n, 1);
    int     d = kx_dst(e, n), b = kx_get(e, y, 16, e->v2, n);
    int32_t done = kx_label(&e->code);
    kx_rm   a    = kx_vec_rm(e, es_src(e, n, 0), 16, false, n);
    kx_put(e, kx_with(kx_i3(max   ? dbl ? KX_VMAXSD : KX_VMAXSS
                            : dbl ? KX_VMINSD
                                  : KX_VMINSS,
                            0, d, b, a.mem ? KX_IN_MEM : a.reg),
                      &a));
    if (!es_is_const(e, y) || isnan(kg_const_float(e->g, y))) {
        kx_put(e, kx_i2(dbl ? KX_VUCOMISD : KX_VUCOMISS, 0, b, b));
        es_jump(e, KXCC_NP, done);
        kx_move_vec(e, d, b, 16);
    }
    kx_here(e, done);
    kx_done(e, n, d);
}

static void es_select_real(kx_writer *e, kn_ref n) { /* d is none of the sources; nobody could foresee a branch */
    int d = kx_dst(e, n);
    if (e->avx512)
        kx_put(e, kx_i2(KX_KMOVW_KR, 0, KX_K0, kx_gp(e, es_src(e, n, 0), KX_A)));
    else { /* its lowest bit, as the sign */
        kx_rm p = kx_gp_rm(e, es_src(e, n, 0), KX_A);
        kx_put(e, kx_with(kx_i2(KX_VMOVD, 0, e->v0, p.mem ? KX_IN_MEM : p.reg), &p));
        kx_put(e, kx_imm(kx_i3(KX_VPSLLQI, 16, e->v0, e->v0, 0), 63));
    }
    int   b = kx_get(e, es_src(e, n, 2), 16, e->v2, n);
    kx_rm a = kx_vec_rm(e, es_src(e, n, 1), 16, false, n);
    if (a.mem) kx_load_bits(e, d, kn_dsize(kg_dtype(e->g, n)) == 8 ? 8 : 4, a.at);
    int x = a.mem ? d : a.reg;
    kx_put(e, e->avx512 ? kx_masked(kx_i3(KX_VPBLENDMQ, 16, d, b, x), KX_K0, false)
                        : kx_i4(KX_VBLENDVPD, 16, d, b, x, e->v0));
    kx_done(e, n, d);
}

/* The double in v, rounded once to a narrow float, as an f32. */
static void es_round_double(kx_writer *e, int v, int dt) {
    kx_put(e, kx_mem(kx_i2(KX_VMOVSD_ST, 0, KX_IN_MEM, v), KX_RSP, e->args));
    kx_call(e, dt == KN_F16      ? KX_H_round_f16
               : dt == KN_BF16   ? KX_H_round_bf16
               : dt == KN_F8E4M3 ? KX_H_round_f8e4m3
                                 : KX_H_round_f8e5m2);
    kx_load_bits(e, v, 8, kx_mem(kx_i(KX_MOV, 8), KX_RSP, e->args));
    kx_put(e, kx_i3(KX_VCVTSD2SS, 0, v, v, v));
}

/* MULACC of narrow floats rounds once: a call. */
static void es_fused_narrow(kx_writer *e, kn_ref n) {
    int dt = kg_dtype(e->g, n), d = kx_dst(e, n);
    for (uint32_t k = 0; k < 3; k++) {
        int x = kx_get(e, es_src(e, n, k), 16, e->v2, n);
        kx_put(e, kx_i3(KX_VCVTSS2SD, 0, e->v0, x, x));
        kx_put(e, kx_mem(kx_i2(KX_VMOVSD_ST, 0, KX_IN_MEM, e->v0), KX_RSP, e->args + 8 * (int)k));
    }
    kx_call(e, dt == KN_F16      ? KX_H_mulacc_f16
               : dt == KN_BF16   ? KX_H_mulacc_bf16
               : dt == KN_F8E4M3 ? KX_H_mulacc_f8e4m3
                                 : KX_H_mulacc_f8e5m2);
    kx_load_bits(e, d, 8, kx_mem(kx_i(KX_MOV, 8), KX_RSP, e->args));
    kx_put(e, kx_i3(KX_VCVTSD2SS, 0, d, d, d));
    kx_done(e, n, d);
}

/* Of an integer of more than 53 bits the last is set if any below is: what rounds the double then rounds right. */
static void es_integer_to_narrow(kx_writer *e, kn_ref n) {
    kn_ref  a  = es_src(e, n, 0);
    int     st = kg_dtype(e->g, a), d = kx_dst(e, n);
    int32_t small = kx_label(&e->code), even = kx_label(&e->code), done = kx_label(&e->code);
    bool    wide = kn_dsize(st) == 8;
    es_mov(e, KX_A, kx_gp(e, a, KX_A));
    kx_put(e, e->avx512 ? kx_i3(KX_VPXORD, 16, d, d, d) : kx_i3(KX_VPXOR, 16, d, d, d));
    if (wide) {
        es_mov(e, KX_D, KX_A);
        kx_put(e, kx_imm(kx_i2(st == KN_U64 ? KX_SHRI : KX_SARI, 8, KX_D, 0), 53));
        kx_put(e, kx_imm(kx_i2(KX_ADDI, 8, KX_D, 0), 1)); /* 0 and -1 are small */
        kx_put(e, kx_imm(kx_i2(KX_CMPI, 8, KX_D, 0), 1));
        es_jump(e, KXCC_BE, small);
        es_mov(e, KX_D, KX_A);
        kx_put(e, kx_imm(kx_i2(KX_ANDI, 4, KX_D, 0), 0x7ff));
        kx_put(e, kx_imm(kx_i2(KX_ANDI, 8, KX_A, 0), -0x800));
        kx_put(e, kx_i2(KX_TEST, 4, KX_D, KX_D));
        es_jump(e, KXCC_E, even);
        kx_put(e, kx_imm(kx_i2(KX_ORI, 8, KX_A, 0), 0x800));
        kx_here(e, even);
        if (st == KN_U64) { /* half of it, then twice that */
            kx_put(e, kx_imm(kx_i2(KX_SHRI, 8, KX_A, 0), 1));
            kx_put(e, kx_i3(KX_VCVTSI2SD, 8, d, d, KX_A));
            kx_put(e, kx_i3(KX_VADDSD, 0, d, d, d));
            kx_jump(e, done);
        }
    }
    kx_here(e, small);
    kx_put(e, kx_i3(KX_VCVTSI2SD, 8, d, d, KX_A));
    kx_here(e, done);
    es_round_double(e, d, kg_dtype(e->g, n));
    kx_done(e, n, d);
}

static void es_integer_to_real(kx_writer *e, kn_ref n) {
    if (kn_dsize(kg_dtype(e->g, n)) < 4) {
        es_integer_to_narrow(e, n);
        return;
    }
    kn_ref     a  = es_src(e, n, 0);
    int        st = kg_dtype(e->g, a), dt = kg_dtype(e->g, n), d = kx_dst(e, n);
    bool       dbl  = dt == KN_F64;
    kx_form_id form = dbl ? KX_VCVTSI2SD : KX_VCVTSI2SS;
    kx_put(e, e->avx512 ? kx_i3(KX_VPXORD, 16, d, d, d) : kx_i3(KX_VPXOR, 16, d, d, d));
    if (e->p->value[a].folded) {
        kx_rm m = kx_vec_rm(e, a, 16, false, n);
        kx_put(e, kx_with(kx_i3(form, kn_dsize(st), d, d, KX_IN_MEM), &m));
        kx_done(e, n, d);
        return;
    }
    int x = kx_gp(e, a, KX_A);
    if (st == KN_U64 && e->avx512) form = dbl ? KX_VCVTUSI2SD : KX_VCVTUSI2SS;
    if (st == KN_U64 && !e->avx512) { /* the upper half by half of it, its last bit kept for the rounding */
        int32_t big = kx_label(&e->code), done = kx_label(&e->code);
        kx_put(e, kx_i2(KX_TEST, 8, x, x));
        es_jump(e, KXCC_S, big);
        kx_put(e, kx_i3(form, 8, d, d, x));
        kx_jump(e, done);
        kx_here(e, big);
        es_mov(e, KX_D, x);
        es_mov(e, KX_A, x);
        kx_put(e, kx_imm(kx_i2(KX_SHRI, 8, KX_D, 0), 1));
        kx_put(e, kx_imm(kx_i2(KX_ANDI, 4, KX_A, 0), 1));
        kx_put(e, kx_i2(KX_OR, 8, KX_D, KX_A));
        kx_put(e, kx_i3(form, 8, d, d, KX_D));
        kx_put(e, kx_i3(dbl ? KX_VADDSD : KX_VADDSS, 0, d, d, d));
        kx_here(e, done);
    } else {
        kx_put(e, kx_i3(form, 8, d, d, x));
    }
    if (kn_dsize(dt) < 4) kx_round(e, d, dt);
    kx_done(e, n, d);
}

static void es_real_to_real(kx_writer *e, kn_ref n) {
    int dt = kg_dtype(e->g, n), st = kg_dtype(e->g, es_src(e, n, 0)), d = kx_dst(e, n);
    int x = kx_get(e, es_src(e, n, 0), 16, d, es_src(e, n, 0));
    if (kn_dsize(dt) < 4 && st == KN_F64) {
        kx_move_vec(e, d, x, 16);
        es_round_double(e, d, dt);
        kx_done(e, n, d);
        return;
    }
    if (dt == KN_F64 && st != KN_F64)
        kx_put(e, kx_i3(KX_VCVTSS2SD, 0, d, x, x));
    else if (dt != KN_F64 && st == KN_F64)
        kx_put(e, kx_i3(KX_VCVTSD2SS, 0, d, x, x));
    else
        kx_move_vec(e, d, x, 16);
    if (kn_dsize(dt) < 4) kx_round(e, d, dt);
    kx_done(e, n, d);
}

static void es_negate(kx_writer *e, kn_ref n) {
    int   d = kx_dst(e, n), x = kx_get(e, es_src(e, n, 0), 16, e->v2, n);
    kx_rm m = kx_signs(e, n, 16);
    kx_put(e, kx_with(kx_i3(e->avx512 ? KX_VPXORD : KX_VPXOR, 16, d, x, m.mem ? KX_IN_MEM : m.reg), &m));
    kx_done(e, n, d);
}

void kx_emit_real(kx_writer *e, kn_ref n) {
    const kn_graph *g  = e->g;
    int             op = kx_op(g, n), dt = kg_dtype(g, n), d, x;
    bool            dbl = dt == KN_F64;
    switch (op) {
    case KN_OP_ADD: es_arithmetic(e, n, KX_VADDSS, KX_VADDSD, false); return;
    case KN_OP_SUB: es_arithmetic(e, n, KX_VSUBSS, KX_VSUBSD, false); return;
    case KN_OP_MUL: es_arithmetic(e, n, KX_VMULSS, KX_VMULSD, false); return;
    case KN_OP_DIV: es_arithmetic(e, n, KX_VDIVSS, KX_VDIVSD, false); return;
    case KN_OP_MULACC:
        if (kn_dsize(dt) < 4)
            es_fused_narrow(e, n);
        else
            es_fused(e, n);
        return;
    case KN_OP_MAX:
    case KN_OP_MIN: es_extreme_real(e, n); return;
    case KN_OP_WHERE: es_select_real(e, n); return;
    case KN_OP_NEG: es_negate(e, n); return;
    case KN_OP_CAST:
        if (kn_is_float(kg_dtype(g, es_src(e, n, 0))))
            es_real_to_real(e, n);
        else
            es_integer_to_real(e, n);
        return;
    default: break;
    }
    d = kx_dst(e, n);
    x = kx_get(e, es_src(e, n, 0), 16, e->v2, n);
    if (op == KN_OP_SQRT)
        kx_put(e, kx_i3(dbl ? KX_VSQRTSD : KX_VSQRTSS, 0, d, x, x));
    else if (op == KN_OP_RECIP) {
        double one  = 1;
        float  onef = 1;
        kx_load_bits(e, e->v0, dbl ? 8 : 4,
                     kx_mem_label(kx_i(KX_MOV, 8), dbl ? kx_pool(e, &one, 8) : kx_pool(e, &onef, 4), 0));
        kx_put(e, kx_i3(dbl ? KX_VDIVSD : KX_VDIVSS, 0, d, e->v0, x));
    } else if (op == KN_OP_TRUNC) {
        kx_form_id form = e->avx512 ? dbl ? KX_VRNDSCALESD : KX_VRNDSCALESS : dbl ? KX_VROUNDSD : KX_VROUNDSS;
        kx_put(e, kx_imm(kx_i4(form, 0, d, x, x, 0), 3));
    } else {
        kx_refused(e, n, "no form of a float");
        return;
    }
    if (kn_dsize(dt) < 4) kx_round(e, d, dt);
    kx_done(e, n, d);
}

/* ---- bits ------------------------------------------------------------------------------------------------------ */

void kx_emit_bits(kx_writer *e, kn_ref n) {
    const kn_graph *g  = e->g;
    kn_ref          a  = es_src(e, n, 0);
    int             dt = kg_dtype(g, n), st = kg_dtype(g, a), d = kx_dst(e, n), size = kn_dsize(dt);
    bool            fd = kn_is_float(dt), fs = kn_is_float(st);
    if (kx_is_lanes(g, n)) { /* of equal lane sizes: the same bits */
        int bytes = kx_vec_bytes(e->p, n);
        kx_move_vec(e, d, kx_get(e, a, bytes, d, n), bytes);
        kx_done(e, n, d);
        return;
    }
    if (fd && fs && size >= 4) {
        kx_move_vec(e, d, kx_get(e, a, 16, d, a), 16);
        kx_done(e, n, d);
        return;
    }
    /* by way of rax */
    if (fs) {
        int v = kx_get(e, a, 16, e->v2, a);
        if (size == 8)
            kx_put(e, kx_i2(KX_VMOVQ_R, 0, KX_A, v));
        else if (size == 4)
            kx_put(e, kx_i2(KX_VMOVD_ST, 0, KX_A, v));
        else if (st == KN_F16) {
            kx_put(e, kx_imm(kx_i2(KX_VCVTPS2PH, 16, e->v0, v), 0));
            kx_put(e, kx_i2(KX_VMOVD_ST, 0, KX_A, e->v0));
        } else if (st == KN_BF16) {
            kx_put(e, kx_i2(KX_VMOVD_ST, 0, KX_A, v));
            kx_put(e, kx_imm(kx_i2(KX_SHRI, 4, KX_A, 0), 16));
        } else {
            kx_put(e, kx_i3(KX_VCVTSS2SD, 0, e->v0, v, v));
            kx_put(e, kx_mem(kx_i2(KX_VMOVSD_ST, 0, KX_IN_MEM, e->v0), KX_RSP, e->args));
            kx_call(e, st == KN_F8E4M3 ? KX_H_to_f8e4m3 : KX_H_to_f8e5m2);
            kx_put(e, kx_mem(kx_i2(KX_MOV, 8, KX_A, KX_IN_MEM), KX_RSP, e->args));
        }
    } else {
        es_mov(e, KX_A, kx_gp(e, a, KX_A));
    }
    if (!fd) {
        kx_extend(e, KX_A, dt == KN_BOOL ? KN_U8 : dt);
        es_mov(e, d, KX_A);
    } else if (size == 8)
        kx_put(e, kx_i2(KX_VMOVQ, 0, d, KX_A));
    else if (size == 4)
        kx_put(e, kx_i2(KX_VMOVD, 0, d, KX_A));
    else if (dt == KN_F16) {
        kx_put(e, kx_i2(KX_VMOVD, 0, d, KX_A));
        kx_put(e, kx_i2(KX_VCVTPH2PS, 16, d, d));
    } else if (dt == KN_BF16) {
        kx_put(e, kx_imm(kx_i2(KX_SHLI, 4, KX_A, 0), 16));
        kx_put(e, kx_i2(KX_VMOVD, 0, d, KX_A));
    } else {
        kx_extend(e, KX_A, KN_U8);
        kx_put(e, kx_mem(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, KX_A), KX_RSP, e->args));
        kx_call(e, dt == KN_F8E4M3 ? KX_H_from_f8e4m3 : KX_H_from_f8e5m2);
        kx_load_bits(e, d, 8, kx_mem(kx_i(KX_MOV, 8), KX_RSP, e->args));
        kx_put(e, kx_i3(KX_VCVTSD2SS, 0, d, d, d));
    }
    kx_done(e, n, d);
}
