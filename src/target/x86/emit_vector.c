/* emit_vector.c - Render of x86-64: INS on lanes.
 *
 * A value of w lanes is in the low bytes of a register; what is above them is anything. Bools are masks: k registers
 * with AVX-512, else lanes of four bytes, 0 or -1. */
#include "target/x86/emit.h"

#include <math.h>
#include <string.h>

static kn_ref en_src(const kx_writer *e, kn_ref n, uint32_t k) {
    return kg_at(e->g, n, k);
}

static int en_full(int bytes) {
    return bytes <= 16 ? 16 : bytes <= 32 ? 32 : 64;
}

static void en_put_rm(kx_writer *e, kx_ins i, const kx_rm *rm) {
    kx_put(e, kx_with(i, rm));
}

static int en_field(const kx_rm *rm) {
    return rm->mem ? KX_IN_MEM : rm->reg;
}

static kx_rm en_pool_lanes(kx_writer *e, uint64_t bits, int size, int bytes) {
    kx_rm m = {.mem = true};
    m.at    = kx_mem_label(kx_i(KX_VMOVUPS, 16), kx_pool_lanes(e, bits, size, bytes), 0);
    return m;
}

/* ---- which form ------------------------------------------------------------------------------------------------ */

enum { KX_L1, KX_L2, KX_L4, KX_L8 };
static int en_log_size(int dt) {
    int s = kn_dsize(dt);
    return s == 1 ? KX_L1 : s == 2 ? KX_L2 : s == 4 ? KX_L4 : KX_L8;
}

/* A move under a mask, of lanes of that size. */
static kx_form_id en_move_form(int size) {
    return size == 1 ? KX_VMOVDQU8 : size == 2 ? KX_VMOVDQU16 : size == 4 ? KX_VMOVDQU32 : KX_VMOVDQU64;
}

static kx_form_id en_blend_form(int dt) {
    static const uint16_t blend[] = {KX_VPBLENDMB, KX_VPBLENDMW, KX_VPBLENDMD, KX_VPBLENDMQ};
    int                   s       = en_log_size(dt);
    return (kx_form_id)blend[kn_is_float(dt) ? KN_MAX(s, (int)KX_L4) : s];
}

/* A form of two sources, 0: none. bcast: it takes {1toN}. */
static kx_form_id en_form2(const kx_writer *e, int op, int dt, bool *bcast) {
    static const uint16_t real[][2] = {
        {KX_VADDPS, KX_VADDPD}, {KX_VSUBPS, KX_VSUBPD}, {KX_VMULPS, KX_VMULPD}, {KX_VDIVPS, KX_VDIVPD}};
    static const uint16_t integer[][4] = {
        {KX_VPADDB, KX_VPADDW, KX_VPADDD, KX_VPADDQ},
        {KX_VPSUBB, KX_VPSUBW, KX_VPSUBD, KX_VPSUBQ},
        {0, KX_VPMULLW, KX_VPMULLD, KX_VPMULLQ},
    };
    static const uint16_t extremes[4][4] = {{KX_VPMAXSB, KX_VPMAXSW, KX_VPMAXSD, KX_VPMAXSQ},
                                            {KX_VPMAXUB, KX_VPMAXUW, KX_VPMAXUD, KX_VPMAXUQ},
                                            {KX_VPMINSB, KX_VPMINSW, KX_VPMINSD, KX_VPMINSQ},
                                            {KX_VPMINUB, KX_VPMINUW, KX_VPMINUD, KX_VPMINUQ}};
    int                   s              = en_log_size(dt);
    bool                  fl             = kn_is_float(dt);
    *bcast                               = e->avx512 && s >= KX_L4;
    switch (op) {
    case KN_OP_ADD: return (kx_form_id)(fl ? real[0][s == KX_L8] : integer[0][s]);
    case KN_OP_SUB: return (kx_form_id)(fl ? real[1][s == KX_L8] : integer[1][s]);
    case KN_OP_MUL: return (kx_form_id)(fl ? real[2][s == KX_L8] : integer[2][s]);
    case KN_OP_DIV: return (kx_form_id)(fl ? real[3][s == KX_L8] : 0);
    case KN_OP_MAX:
    case KN_OP_MIN: return (kx_form_id)extremes[2 * (op == KN_OP_MIN) + (kn_dtypes[dt].kind == 'U')][s];
    case KN_OP_AND: return e->avx512 ? s == KX_L8 ? KX_VPANDQ : KX_VPANDD : KX_VPAND;
    case KN_OP_OR: return e->avx512 ? s == KX_L8 ? KX_VPORQ : KX_VPORD : KX_VPOR;
    case KN_OP_XOR: return e->avx512 ? s == KX_L8 ? KX_VPXORQ : KX_VPXORD : KX_VPXOR;
    default: return KX_NOTHING;
    }
}

static bool en_commutes(int op) {
    return op == KN_OP_ADD || op == KN_OP_MUL || op == KN_OP_AND || op == KN_OP_OR || op == KN_OP_XOR ||
           op == KN_OP_MAX || op == KN_OP_MIN;
}

/* Stands in the instruction as memory, which is its last source. */
static bool en_in_memory(const kx_writer *e, kn_ref n) {
    return kg_op(e->g, n) != KN_OP_CONST && e->p->value[n].folded;
}

/* Of two that may change places the one that may be memory comes second. */
static void en_memory_last(const kx_writer *e, kn_ref *a, kn_ref *b) {
    if (kg_op(e->g, *a) != KN_OP_CONST && !en_in_memory(e, *a)) return;
    kn_ref x = *a;
    *a       = *b;
    *b       = x;
}

static void en_two(kx_writer *e, kn_ref n, kx_form_id form, bool bcast, int bytes) {
    kn_ref a = en_src(e, n, 0), b = en_src(e, n, 1);
    if (en_commutes(kx_op(e->g, n))) en_memory_last(e, &a, &b);
    int   d = kx_dst(e, n), ra = kx_get(e, a, bytes, e->v2, n);
    kx_rm rb = kx_vec_rm(e, b, bytes, bcast, n);
    en_put_rm(e, kx_i3(form, bytes, d, ra, en_field(&rb)), &rb);
    kx_done(e, n, d);
}

/* Bytes: of words, the low bytes of a * b; the high ones of (a >> 8) * (b with its low bytes 0). d is no source. */
static void en_multiply_bytes(kx_writer *e, kn_ref n, int bytes) {
    int d = kx_dst(e, n), t = e->v0, a = kx_get(e, en_src(e, n, 0), bytes, e->v2, n),
        b    = kx_get(e, en_src(e, n, 1), bytes, e->v3, n);
    kx_rm low = en_pool_lanes(e, 0x00ff, 2, bytes), high = en_pool_lanes(e, 0xff00, 2, bytes);
    kx_put(e, kx_imm(kx_i3(KX_VPSRLWI, bytes, t, a, 0), 8));
    en_put_rm(e, kx_i3(e->avx512 ? KX_VPANDD : KX_VPAND, bytes, d, b, KX_IN_MEM), &high);
    kx_put(e, kx_i3(KX_VPMULLW, bytes, t, t, d));
    kx_put(e, kx_i3(KX_VPMULLW, bytes, d, a, b));
    if (e->avx512) { /* d & low | t */
        en_put_rm(e, kx_imm(kx_i4(KX_VPTERNLOGD, bytes, d, t, KX_IN_MEM, 0), 0xec), &low);
    } else {
        en_put_rm(e, kx_i3(KX_VPAND, bytes, d, d, KX_IN_MEM), &low);
        kx_put(e, kx_i3(KX_VPOR, bytes, d, d, t));
    }
    kx_done(e, n, d);
}

/* ---- floats ---------------------------------------------------------------------------------------------------- */

kx_form_id kx_fused_form(bool lanes, bool to_third, bool dbl, bool minus, bool less) {
#define FORMS(KIND) \
    { \
        {{KX_VFMADD##KIND##SS, KX_VFMADD##KIND##SD}, {KX_VFMADD##KIND##PS, KX_VFMADD##KIND##PD}}, \
            {{KX_VFMSUB##KIND##SS, KX_VFMSUB##KIND##SD}, {KX_VFMSUB##KIND##PS, KX_VFMSUB##KIND##PD}}, \
            {{KX_VFNMADD##KIND##SS, KX_VFNMADD##KIND##SD}, {KX_VFNMADD##KIND##PS, KX_VFNMADD##KIND##PD}}, { \
            {KX_VFNMSUB##KIND##SS, KX_VFNMSUB##KIND##SD}, { \
                KX_VFNMSUB##KIND##PS, KX_VFNMSUB##KIND##PD \
            } \
        } \
    }
    static const uint16_t forms[2][4][2][2] = {FORMS(213), FORMS(231)};
#undef FORMS
    return (kx_form_id)forms[to_third][2 * minus + less][lanes][dbl];
}

/* n in register d, of the lanes of that mask, 0: of all. zero: others become 0. */
static void en_put_fused(kx_writer *e, kn_ref n, int d, int bytes, int mask, bool zero) {
    bool   dbl = kg_dtype(e->g, n) == KN_F64, minus = false, less = false;
    kn_ref a = kx_term(e->g, n, 0, &minus), b = kx_term(e->g, n, 1, &minus), c = kx_term(e->g, n, 2, &less);
    bool   ca = kg_op(e->g, a) == KN_OP_CONST;
    if (ca || en_in_memory(e, a)) {
        kn_ref x = a;
        a        = b;
        b        = x;
        ca       = kg_op(e->g, a) == KN_OP_CONST;
    }
    int             ra    = ca ? -1 : e->p->value[kx_name(e->p, a)].reg;
    const kx_value *vb    = &e->p->value[kx_name(e->p, b)];
    bool            b_reg = kg_op(e->g, b) != KN_OP_CONST && !vb->folded && vb->reg >= 0;
    if (b_reg && vb->reg == d && ra != d) { /* the one that ends here is multiplied in place */
        kn_ref x = a;
        a        = b;
        b        = x;
        ra       = d;
    }
    if (ra == d && ra >= 0) { /* 213: a = a * b + c */
        int   rb = kx_get(e, b, bytes, e->v2, n);
        kx_rm rc = kx_vec_rm(e, c, bytes, true, n);
        kx_ins i = kx_i3(kx_fused_form(true, false, dbl, minus, less), bytes, d, rb, en_field(&rc));
        en_put_rm(e, kx_masked(i, mask, zero), &rc);
    } else { /* 231: c = a * b + c */
        ra       = kx_get(e, a, bytes, e->v2, n);
        kx_rm rb = kx_vec_rm(e, b, bytes, true, n);
        int   rc = kx_get(e, c, bytes, d, n);
        kx_move_vec(e, d, rc, bytes);
        kx_ins i = kx_i3(kx_fused_form(true, true, dbl, minus, less), bytes, d, ra, en_field(&rb));
        en_put_rm(e, kx_masked(i, mask, zero), &rb);
    }
}

static void en_fused(kx_writer *e, kn_ref n, int bytes) {
    int d = kx_dst(e, n);
    en_put_fused(e, n, d, bytes, 0, false);
    kx_done(e, n, d);
}

static bool en_is_number(const kx_writer *e, kn_ref n, bool zero) { /* a constant, not NaN */
    double v = kg_op(e->g, n) == KN_OP_CONST ? kg_const_float(e->g, n) : 0.0 / 0.0;
    return v == v && (zero || v != 0);
}

static bool en_is_negated(const kx_writer *e, kn_ref x, kn_ref of) {
    return kg_op(e->g, x) == KN_OP_INS && kx_op(e->g, x) == KN_OP_NEG && en_src(e, x, 0) == of;
}

/* vmax gives its second source if either is NaN or they are equal. Of equal ones, 0 and -0, the dialect takes the
 * first: so max(a, b) is vmax(b, a), and what is left to see to is a NaN in b. d is no source. */
static void en_extreme_real(kx_writer *e, kn_ref n, int bytes) {
    bool       max = kx_op(e->g, n) == KN_OP_MAX, dbl = kg_dtype(e->g, n) == KN_F64;
    kx_form_id form = max ? dbl ? KX_VMAXPD : KX_VMAXPS : dbl ? KX_VMINPD : KX_VMINPS;
    kn_ref     a = en_src(e, n, 0), b = en_src(e, n, 1);
    int        d    = kx_dst(e, n);
    bool       swap = en_is_number(e, a, false) && !en_is_number(e, b, true);
    int        rb   = kx_get(e, swap ? a : b, bytes, e->v2, n);
    kx_rm      ra   = kx_vec_rm(e, swap ? b : a, bytes, true, n);
    en_put_rm(e, kx_i3(form, bytes, d, rb, en_field(&ra)), &ra);
    bool both = en_is_negated(e, a, b) || en_is_negated(e, b, a); /* are NaN, or none is */
    if (swap || both || en_is_number(e, b, true)) {
        kx_done(e, n, d);
        return;
    }
    if (e->avx512) {
        kx_put(e, kx_imm(kx_i4(dbl ? KX_VCMPPD_K : KX_VCMPPS_K, bytes, KX_K0, rb, rb, 0), 3));
        kx_put(e, kx_masked(kx_i2(dbl ? KX_VMOVAPD : KX_VMOVAPS, bytes, d, rb), KX_K0, false));
    } else {
        kx_put(e, kx_imm(kx_i4(dbl ? KX_VCMPPD : KX_VCMPPS, bytes, e->v0, rb, rb, 0), 3));
        kx_put(e, kx_i4(dbl ? KX_VBLENDVPD : KX_VBLENDVPS, bytes, d, d, rb, e->v0));
    }
    kx_done(e, n, d);
}

static void en_one_real(kx_writer *e, kn_ref n, int bytes) {
    int      op = kx_op(e->g, n), d = kx_dst(e, n);
    bool     dbl  = kg_dtype(e->g, n) == KN_F64;
    uint64_t one  = dbl ? 0x3ff0000000000000u : 0x3f800000u;
    int      size = dbl ? 8 : 4;
    if (op == KN_OP_NEG) {
        int   x = kx_get(e, en_src(e, n, 0), bytes, e->v2, n);
        kx_rm m = kx_signs(e, n, bytes);
        en_put_rm(e, kx_i3(e->avx512 ? KX_VPXORD : KX_VPXOR, bytes, d, x, en_field(&m)), &m);
    } else if (op == KN_OP_RECIP) {
        kx_rm m = en_pool_lanes(e, one, size, bytes), x = kx_vec_rm(e, en_src(e, n, 0), bytes, true, n);
        kx_load_bits(e, e->v0, bytes, m.at);
        en_put_rm(e, kx_i3(dbl ? KX_VDIVPD : KX_VDIVPS, bytes, d, e->v0, en_field(&x)), &x);
    } else {
        kx_rm x = kx_vec_rm(e, en_src(e, n, 0), bytes, true, n);
        if (op == KN_OP_SQRT)
            en_put_rm(e, kx_i2(dbl ? KX_VSQRTPD : KX_VSQRTPS, bytes, d, en_field(&x)), &x);
        else {
            kx_form_id f = e->avx512 ? dbl ? KX_VRNDSCALEPD : KX_VRNDSCALEPS : dbl ? KX_VROUNDPD : KX_VROUNDPS;
            en_put_rm(e, kx_imm(kx_i3(f, bytes, d, en_field(&x), 0), 3), &x);
        }
    }
    kx_done(e, n, d);
}

/* ---- bools ----------------------------------------------------------------------------------------------------- */

static void en_bools(kx_writer *e, kn_ref n, int bytes) {
    static const uint16_t equal[] = {[1] = KX_VPCMPEQB, [2] = KX_VPCMPEQW, [4] = KX_VPCMPEQD};
    int op = kx_op(e->g, n), d = kx_dst(e, n);
    if (op == KN_OP_ADD || op == KN_OP_MAX) op = KN_OP_OR;
    if (op == KN_OP_MUL || op == KN_OP_MIN) op = KN_OP_AND;
    if (e->avx512) {
        int a = kx_mask(e, en_src(e, n, 0), KX_K0);
        if (op == KN_OP_NOT)
            kx_put(e, kx_i2(KX_KNOTQ, 0, d, a));
        else {
            int b = kx_mask(e, en_src(e, n, 1), a == KX_K0 ? d : KX_K0);
            kx_put(e, kx_i3(op == KN_OP_AND     ? KX_KANDQ
                            : op == KN_OP_OR    ? KX_KORQ
                            : op == KN_OP_CMPEQ ? KX_KXNORQ
                                                : KX_KXORQ,
                            0, d, a, b));
        }
    } else if (op == KN_OP_NOT) {
        kx_rm m = en_pool_lanes(e, ~(uint64_t)0, 8, bytes);
        en_put_rm(e, kx_i3(KX_VPXOR, bytes, d, kx_get(e, en_src(e, n, 0), bytes, e->v2, n), KX_IN_MEM), &m);
    } else {
        int   a = kx_get(e, en_src(e, n, 0), bytes, e->v2, n);
        kx_rm b = kx_vec_rm(e, en_src(e, n, 1), bytes, false, n);
        en_put_rm(e,
                  kx_i3(op == KN_OP_AND     ? KX_VPAND
                        : op == KN_OP_OR    ? KX_VPOR
                        : op == KN_OP_CMPEQ ? (kx_form_id)equal[e->p->flag]
                                            : KX_VPXOR,
                        bytes, d, a, en_field(&b)),
                  &b);
    }
    kx_done(e, n, d);
}

static int en_integer_predicate(int op) {
    switch (op) {
    case KN_OP_CMPEQ: return 0;
    case KN_OP_CMPLT: return 1;
    case KN_OP_CMPLE: return 2;
    case KN_OP_CMPNE: return 4;
    case KN_OP_CMPGE: return 5;
    default: return 6;
    }
}

/* `of` is n, or what stands in it; inverted: the other predicate is the fourth after, or before. Under a mask, 0: none.
 */
static void en_compare(kx_writer *e, kn_ref n, kn_ref of, bool invert, int mask, int w) {
    static const uint16_t with_sign[] = {KX_VPCMPB_K, KX_VPCMPW_K, KX_VPCMPD_K, KX_VPCMPQ_K},
                          without[]   = {KX_VPCMPUB_K, KX_VPCMPUW_K, KX_VPCMPUD_K, KX_VPCMPUQ_K};
    int  op = kx_op(e->g, of), st = kg_dtype(e->g, en_src(e, of, 0)), d, bytes = en_full(w * kx_held_size(e->p, st));
    int  pr = kx_predicate(op) ^ (invert ? 4 : 0);
    bool fl = kn_is_float(st), dbl = st == KN_F64;
    if (st == KN_BOOL) {
        en_bools(e, n, en_full(w * e->p->flag));
        return;
    }
    if (!e->avx512 && !fl) {
        kx_avx2_compare(e, n, w);
        return;
    }
    if (!e->avx512 && dbl) bytes = en_full(w * 8);
    kn_ref left = en_src(e, of, 0), right = en_src(e, of, 1);
    bool fixed = kg_op(e->g, left) == KN_OP_CONST && !en_in_memory(e, right);
    if (fixed || en_in_memory(e, left)) { /* memory, or what may stand there, is last: as seen from there */
        kn_ref t = left;
        left     = right;
        right    = t;
        op       = kx_from_right(op);
        pr       = kx_predicate(op) ^ (invert ? 4 : 0);
    }
    d       = kx_dst(e, n);
    int   a = kx_get(e, left, bytes, e->v2, n);
    kx_rm b = kx_vec_rm(e, right, bytes, fl || en_log_size(st) >= KX_L4, n);
    if (e->avx512) {
        kx_form_id form = fl ? dbl ? KX_VCMPPD_K : KX_VCMPPS_K
                             : (kx_form_id)(kn_dtypes[st].kind == 'U' ? without : with_sign)[en_log_size(st)];
        if (!fl) pr = en_integer_predicate(op) ^ (invert ? 4 : 0);
        kx_ins i = kx_imm(kx_i4(form, bytes, d, a, en_field(&b), 0), pr);
        en_put_rm(e, kx_masked(i, mask, false), &b);
    } else {
        en_put_rm(e, kx_imm(kx_i4(dbl ? KX_VCMPPD : KX_VCMPPS, bytes, d, a, en_field(&b), 0), pr), &b);
        if (dbl && bytes == 32) { /* lanes of eight bytes to lanes of four */
            kx_put(e, kx_imm(kx_i3(KX_VEXTRACTF128, 0, e->v0, d, 0), 1));
            kx_put(e, kx_imm(kx_i4(KX_VSHUFPS, 16, d, d, e->v0, 0), 0x88));
        } else if (dbl)
            kx_put(e, kx_imm(kx_i4(KX_VSHUFPS, 16, d, d, d, 0), 0x88));
        if (e->p->flag < 4) kx_avx2_narrow(e, d, d, w, 4, e->p->flag);
    }
    kx_done(e, n, d);
}

/* All bits of a lane where the choice is the first, none where it is the second. */
static bool en_is_mask(const kx_writer *e, kn_ref n) {
    kn_ref a = en_src(e, n, 1), b = en_src(e, n, 2);
    if (kn_is_float(kg_dtype(e->g, n)) || kg_op(e->g, a) != KN_OP_CONST || kg_op(e->g, b) != KN_OP_CONST) return false;
    return kg_const_int(e->g, a) == -1 && kg_const_int(e->g, b) == 0;
}

/* 0 of that dtype, of which nothing is read: a mask makes it. */
static bool en_is_nothing(kx_writer *e, kn_ref n) {
    int size;
    return kg_op(e->g, n) == KN_OP_CONST && !kx_lane_bits(e->p, n, &size);
}

static int en_register_of(const kx_writer *e, kn_ref n) { /* -1: it is in none, or none yet */
    if (kg_op(e->g, n) == KN_OP_CONST && e->p->value[n].reg < 0) return -1;
    const kx_value *v = &e->p->value[kx_name(e->p, n)];
    return v->folded ? -1 : v->reg;
}

/* A MULACC whose third source matters; else it is -0, and what is left a product. */
static bool en_adds(const kx_writer *e, kn_ref s) {
    bool minus = false;
    if (kx_op(e->g, s) != KN_OP_MULACC) return false;
    kn_ref c = kx_term(e->g, s, 2, &minus);
    bool   none  = kg_op(e->g, c) == KN_OP_CONST && kg_const_float(e->g, c) == 0 && signbit(kg_const_float(e->g, c));
    bool   plain = kx_term(e->g, s, 0, &minus) == en_src(e, s, 0) && kx_term(e->g, s, 1, &minus) == en_src(e, s, 1);
    return !none || !plain || minus;
}

/* What one instruction makes of s, in register d under mask k; zero: other lanes become 0, else they are what d has (a
 * sum of a product: its last term). */
static void en_put_under(kx_writer *e, kn_ref s, int d, int bytes, int k, bool zero) {
    if (en_adds(e, s)) {
        en_put_fused(e, s, d, bytes, k, zero);
        return;
    }
    bool       bcast;
    int        op   = kx_op(e->g, s) == KN_OP_MULACC ? KN_OP_MUL : kx_op(e->g, s);
    kx_form_id form = en_form2(e, op, kg_dtype(e->g, s), &bcast);
    kn_ref     a = en_src(e, s, 0), b = en_src(e, s, 1);
    if (en_commutes(op)) en_memory_last(e, &a, &b);
    int   ra = kx_get(e, a, bytes, e->v2, s);
    kx_rm rb = kx_vec_rm(e, b, bytes, bcast, s);
    en_put_rm(e, kx_masked(kx_i3(form, bytes, d, ra, en_field(&rb)), k, zero), &rb);
}

/* Arithmetic whose lanes are chosen, under the mask that chooses: the others are not computed, which takes long where
 * they are subnormal. They are put where it is made before, if it does not read that register. */
static void en_choose_made(kx_writer *e, kn_ref n, int bytes, int k) {
    kn_ref s = en_src(e, n, 1), other = en_src(e, n, 2);
    int    d = kx_dst(e, n), was = en_register_of(e, other);
    bool   adds = en_adds(e, s), reads = false, minus = false;
    for (uint32_t j = 0; j < (kx_op(e->g, s) == KN_OP_MULACC ? 2 : kg_nsrc(e->g, s)); j++) {
        reads |= en_register_of(e, kx_term(e->g, s, j, &minus)) == d;
    }
    bool there = adds ? other == kx_term(e->g, s, 2, &minus) && !reads : was == d || !reads;
    if (en_is_nothing(e, other)) {
        en_put_under(e, s, d, bytes, k, true);
    } else if (there) {
        if (!adds) kx_move_vec(e, d, kx_get(e, other, bytes, d, n), bytes);
        en_put_under(e, s, d, bytes, k, false);
    } else {
        int t = was == d ? e->v0 : d;
        en_put_under(e, s, t, bytes, k, false);
        int y = kx_get(e, other, bytes, t == e->v0 ? e->v1 : e->v0, n);
        kx_put(e, kx_masked(kx_i3(en_blend_form(kg_dtype(e->g, n)), bytes, d, y, t), k, false));
    }
    kx_done(e, n, d);
}

static void en_choose(kx_writer *e, kn_ref n, int bytes) {
    int d = kx_dst(e, n), b, s = en_log_size(kg_dtype(e->g, n));
    if (kn_is_float(kg_dtype(e->g, n)) && s < KX_L4) s = KX_L4;
    int k = kx_mask(e, en_src(e, n, 0), KX_K0);
    if (e->p->value[n].under) {
        en_choose_made(e, n, bytes, k);
        return;
    }
    if (en_is_mask(e, n)) {
        static const uint16_t ones[] = {KX_VPMOVM2B, KX_VPMOVM2W, KX_VPMOVM2D, KX_VPMOVM2Q};
        kx_put(e, kx_i2((kx_form_id)ones[s], bytes, d, k));
        kx_done(e, n, d);
        return;
    }
    if (en_is_nothing(e, en_src(e, n, 2))) {
        kx_rm      x    = kx_vec_rm(e, en_src(e, n, 1), bytes, s == KX_L4, n);
        kx_form_id form = x.bcast ? KX_VPBROADCASTD : en_move_form(1 << s);
        x.bcast         = false;
        en_put_rm(e, kx_masked(kx_i2(form, bytes, d, en_field(&x)), k, true), &x);
        kx_done(e, n, d);
        return;
    }
    b       = kx_get(e, en_src(e, n, 2), bytes, e->v2, n);
    kx_rm a = kx_vec_rm(e, en_src(e, n, 1), bytes, s >= KX_L4, n);
    en_put_rm(e, kx_masked(kx_i3(en_blend_form(kg_dtype(e->g, n)), bytes, d, b, en_field(&a)), k, false), &a);
    kx_done(e, n, d);
}

/* ---- integers -------------------------------------------------------------------------------------------------- */

static void en_shift(kx_writer *e, kn_ref n, int bytes) {
    static const uint16_t by_const[3][4] = {{0, KX_VPSLLWI, KX_VPSLLDI, KX_VPSLLQI},
                                            {0, KX_VPSRLWI, KX_VPSRLDI, KX_VPSRLQI},
                                            {0, KX_VPSRAWI, KX_VPSRADI, KX_VPSRAQI}};
    static const uint16_t by_lane[3][4]  = {{0, KX_VPSLLVW, KX_VPSLLVD, KX_VPSLLVQ},
                                            {0, KX_VPSRLVW, KX_VPSRLVD, KX_VPSRLVQ},
                                            {0, KX_VPSRAVW, KX_VPSRAVD, KX_VPSRAVQ}};
    int                   dt = kg_dtype(e->g, n), s = en_log_size(dt), d = kx_dst(e, n), width = 8 * kn_dsize(dt);
    int                   kind = kx_op(e->g, n) == KN_OP_SHL ? 0 : kn_dtypes[dt].kind == 'I' ? 2 : 1;
    kn_ref                by   = en_src(e, n, 1);
    int                   a    = kx_get(e, en_src(e, n, 0), bytes, e->v2, n);
    if (kg_op(e->g, by) == KN_OP_CONST) {
        int64_t c = kg_const_int(e->g, by);
        if (c < 0 || c >= width) c = kind == 2 ? width - 1 : width; /* the instruction gives 0 from the width on */
        kx_put(e, kx_imm(kx_i3((kx_form_id)by_const[kind][KN_MAX(s, 1)], bytes, d, a, 0), c));
        if (!s) { /* without what came from the other byte of a word */
            kx_rm m = en_pool_lanes(e, kind ? 0xff >> c : 0xff << c & 0xff, 1, bytes);
            en_put_rm(e, kx_i3(e->avx512 ? KX_VPANDD : KX_VPAND, bytes, d, d, KX_IN_MEM), &m);
        }
    } else {
        kx_rm b = kx_vec_rm(e, by, bytes, s >= KX_L4, n);
        en_put_rm(e, kx_i3((kx_form_id)by_lane[kind][s], bytes, d, a, en_field(&b)), &b);
    }
    kx_done(e, n, d);
}

static void en_turn(kx_writer *e, kn_ref n, int bytes) {
    int d = kx_dst(e, n), x = kx_get(e, en_src(e, en_src(e, n, 0), 0), bytes, e->v2, n);
    kx_put(e, kx_imm(kx_i3(kn_dsize(kg_dtype(e->g, n)) == 8 ? KX_VPROLQI : KX_VPROLDI, bytes, d, x, 0),
                     e->p->value[n].turned));
    kx_done(e, n, d);
}

static void en_one_integer(kx_writer *e, kn_ref n, int bytes) {
    bool bcast;
    int  d = kx_dst(e, n), dt = kg_dtype(e->g, n);
    if (kx_op(e->g, n) == KN_OP_NOT) {
        kx_rm m = en_pool_lanes(e, ~(uint64_t)0, 8, bytes);
        en_put_rm(
            e,
            kx_i3(en_form2(e, KN_OP_XOR, dt, &bcast), bytes, d, kx_get(e, en_src(e, n, 0), bytes, e->v2, n), KX_IN_MEM),
            &m);
    } else { /* 0 - x */
        kx_rm x = kx_vec_rm(e, en_src(e, n, 0), bytes, false, n);
        kx_put(e, kx_i3(e->avx512 ? KX_VPXORD : KX_VPXOR, 16, e->v0, e->v0, e->v0));
        en_put_rm(e, kx_i3(en_form2(e, KN_OP_SUB, dt, &bcast), bytes, d, e->v0, en_field(&x)), &x);
    }
    kx_done(e, n, d);
}

/* ---- conversions ----------------------------------------------------------------------------------------------- */

/* Floats of `from` bytes in all to integers of `bytes`; they saturate, NaN gives 0; d is not the source. */
static void en_saturate(kx_writer *e, kn_ref n, int from, int bytes) {
    static const uint16_t forms[2][4] = {{KX_VCVTTPS2DQ, KX_VCVTTPS2UDQ, KX_VCVTTPS2QQ, KX_VCVTTPS2UQQ},
                                         {KX_VCVTTPD2DQ, KX_VCVTTPD2UDQ, KX_VCVTTPD2QQ, KX_VCVTTPD2UQQ}};
    int                   d = kx_dst(e, n), x = kx_get(e, en_src(e, n, 0), from, e->v2, n), dt = kg_dtype(e->g, n);
    bool dbl = kg_dtype(e->g, en_src(e, n, 0)) == KN_F64, wide = kn_dsize(dt) == 8, sign = kn_dtypes[dt].kind == 'I';
    int  field     = dbl ? wide ? 0x43e : 0x41e : wide ? 0xbe : 0x9e; /* of 2^63, 2^31 */
    uint64_t limit = (uint64_t)field << (dbl ? 52 : 23);
    kx_rm    big = en_pool_lanes(e, limit, dbl ? 8 : 4, from), zero = en_pool_lanes(e, 0, 8, from);
    kx_rm    most = en_pool_lanes(e, wide ? INT64_MAX : INT32_MAX, wide ? 8 : 4, bytes);
    if (e->avx512) {
        kx_form_id compare = dbl ? KX_VCMPPD_K : KX_VCMPPS_K;
        if (sign)
            kx_put(e, kx_imm(kx_i4(compare, from, KX_K0, x, x, 0), 7)); /* ordered */
        else
            en_put_rm(e, kx_imm(kx_i4(compare, from, KX_K0, x, KX_IN_MEM, 0), 0x1d),
                      &zero); /* what is too large: all ones */
        kx_put(e, kx_masked(kx_i2((kx_form_id)forms[dbl][2 * wide + !sign], KN_MAX(bytes, from), d, x), KX_K0, true));
        if (sign) {
            en_put_rm(e, kx_imm(kx_i4(compare, from, KX_K0, x, KX_IN_MEM, 0), 0x1d), &big);
            en_put_rm(e, kx_masked(kx_i2(wide ? KX_VMOVDQU64 : KX_VMOVDQU32, bytes, d, KX_IN_MEM), KX_K0, false),
                      &most);
        }
    } else if (dbl) { /* what is too small gives the least anyway */
        kx_rm high = en_pool_lanes(e, 0x41dfffffffc00000, 8, from); /* 2^31 - 1 */
        kx_put(e, kx_imm(kx_i4(KX_VCMPPD, from, e->v0, x, x, 0), 7));
        kx_put(e, kx_i3(KX_VPAND, from, e->v0, e->v0, x));
        en_put_rm(e, kx_i3(KX_VMINPD, from, e->v0, e->v0, KX_IN_MEM), &high);
        kx_put(e, kx_i2(KX_VCVTTPD2DQ, from, d, e->v0));
    } else {
        kx_put(e, kx_i2(KX_VCVTTPS2DQ, bytes, d, x));
        en_put_rm(e, kx_imm(kx_i4(KX_VCMPPS, bytes, e->v0, x, KX_IN_MEM, 0), 0x1d), &big);
        kx_put(e, kx_i3(KX_VPXOR, bytes, d, d, e->v0));
        kx_put(e, kx_imm(kx_i4(KX_VCMPPS, bytes, e->v0, x, x, 0), 7));
        kx_put(e, kx_i3(KX_VPAND, bytes, d, d, e->v0));
    }
    kx_done(e, n, d);
}

static kx_form_id en_widen_form(int from, int to, bool sign) {
    static const uint16_t f[2][4][4] = {{{0, KX_VPMOVZXBW, KX_VPMOVZXBD, KX_VPMOVZXBQ},
                                         {0, 0, KX_VPMOVZXWD, KX_VPMOVZXWQ},
                                         {0, 0, 0, KX_VPMOVZXDQ},
                                         {0}},
                                        {{0, KX_VPMOVSXBW, KX_VPMOVSXBD, KX_VPMOVSXBQ},
                                         {0, 0, KX_VPMOVSXWD, KX_VPMOVSXWQ},
                                         {0, 0, 0, KX_VPMOVSXDQ},
                                         {0}}};
    return (kx_form_id)f[sign][from][to];
}

static kx_form_id en_narrow_form(int from, int to) {
    static const uint16_t f[4][4] = {{0}, {KX_VPMOVWB}, {KX_VPMOVDB, KX_VPMOVDW}, {KX_VPMOVQB, KX_VPMOVQW, KX_VPMOVQD}};
    return (kx_form_id)f[from][to];
}

/* A scalar on all lanes. */
static void en_repeat(kx_writer *e, kn_ref n, int bytes) {
    kn_ref x  = en_src(e, n, 0);
    int    dt = kg_dtype(e->g, n), st = kg_dtype(e->g, x), d = kx_dst(e, n), size = kx_held_size(e->p, dt);
    if (dt == KN_BOOL) {
        if (e->p->value[x].folded)
            kx_set_flag(e, x, KX_A);
        else
            kx_put(e, kx_i2(KX_MOV, 8, KX_A, kx_gp(e, x, KX_A)));
        kx_put(e, kx_i1(KX_NEG, 8, KX_A));
        if (e->avx512)
            kx_put(e, kx_i2(KX_KMOVQ_KR, 0, d, KX_A));
        else {
            kx_put(e, kx_i2(KX_VMOVD, 0, d, KX_A));
            kx_put(e, kx_i2(KX_VPBROADCASTD, bytes, d, d));
        }
        kx_done(e, n, d);
        return;
    }
    static const uint16_t spread[] = {KX_VPBROADCASTB, KX_VPBROADCASTW, KX_VPBROADCASTD, KX_VPBROADCASTQ};
    int                   s        = size == 1 ? KX_L1 : size == 2 ? KX_L2 : size == 4 ? KX_L4 : KX_L8;
    if (e->p->value[x].folded) {
        kx_rm m = kx_vec_rm(e, x, 16, false, x);
        en_put_rm(e, kx_i2((kx_form_id)spread[s], bytes, d, KX_IN_MEM), &m);
    } else if (kn_is_float(st)) {
        kx_put(e, kx_i2((kx_form_id)spread[s], bytes, d, kx_get(e, x, 16, e->v2, x)));
    } else {
        int r = kx_gp(e, x, KX_A);
        kx_put(e, size == 8 ? kx_i2(KX_VMOVQ, 0, d, r) : kx_i2(KX_VMOVD, 0, d, r));
        kx_put(e, kx_i2((kx_form_id)spread[s], bytes, d, d));
    }
    kx_done(e, n, d);
}

/* Lanes of a number each, or their own, from a constant on. */
static void en_numbers(kx_writer *e, kn_ref n, int w, int bytes) {
    uint8_t data[64] = {0};
    kn_ref  x = en_src(e, n, 0);
    int     size = kn_dsize(kg_dtype(e->g, n)), d = kx_dst(e, n);
    bool    each = kg_op(e->g, x) == KN_OP_STACK;
    for (int l = 0; l < w; l++) {
        int64_t v = each ? kg_const_int(e->g, kg_at(e->g, x, (uint32_t)l)) : kg_const_int(e->g, kg_at(e->g, x, 1)) + l;
        memcpy(data + l * size, &v, (size_t)size);
    }
    kx_load_bits(e, d, bytes, kx_mem_label(kx_i(KX_MOV, 8), kx_pool(e, data, (size_t)bytes), 0));
    kx_done(e, n, d);
}

static void en_convert(kx_writer *e, kn_ref n, int w) {
    kn_ref x  = en_src(e, n, 0);
    int    dt = kg_dtype(e->g, n), st = kg_dtype(e->g, x), ds = kx_held_size(e->p, dt), ss = kx_held_size(e->p, st);
    int    bytes = en_full(w * ds), from = en_full(w * ss), most = KN_MAX(bytes, from), d;
    bool   fd = kn_is_float(dt), fs = kn_is_float(st);
    if (kg_op(e->g, x) == KN_OP_ADD || kg_op(e->g, x) == KN_OP_STACK) {
        en_numbers(e, n, w, bytes);
        return;
    }
    if (!kx_is_lanes(e->g, x)) {
        en_repeat(e, n, bytes);
        return;
    }
    if (fs && !fd) {
        en_saturate(e, n, from, bytes);
        return;
    }
    d = kx_dst(e, n);
    if (st == KN_BOOL) {
        uint64_t one = dt == KN_F64 ? 0x3ff0000000000000u : fd ? 0x3f800000u : 1;
        kx_rm    m   = en_pool_lanes(e, one, ds, bytes);
        if (e->avx512)
            en_put_rm(e, kx_masked(kx_i2(en_move_form(ds), bytes, d, KX_IN_MEM), kx_mask(e, x, KX_K0), true), &m);
        else {
            int flags = kx_get(e, x, from, e->v2, n);
            if (ds != e->p->flag) kx_avx2_mask(e, d, flags, w, ds), flags = d;
            en_put_rm(e, kx_i3(KX_VPAND, bytes, d, flags, KX_IN_MEM), &m);
        }
        kx_done(e, n, d);
        return;
    }
    kx_rm      mem  = {.mem = false};
    bool       once = e->p->value[x].folded; /* pl_converts */
    kx_form_id form = KX_NOTHING;
    int        v    = once ? -1 : kx_get(e, x, from, e->v2, n);
    if (once) mem = kx_vec_rm(e, x, from, false, n);
    if (fd && fs) {
        form = ds > ss ? KX_VCVTPS2PD : ds < ss ? KX_VCVTPD2PS : KX_NOTHING;
    } else if (fd) {
        bool u = kn_dtypes[st].kind == 'U';
        if (u && !e->avx512) {
            kx_avx2_from_u32(e, d, v, w, ds == 8);
            kx_done(e, n, d);
            return;
        }
        if (ss == 8)
            form = ds == 8 ? u ? KX_VCVTUQQ2PD : KX_VCVTQQ2PD : u ? KX_VCVTUQQ2PS : KX_VCVTQQ2PS;
        else
            form = ds == 8 ? u ? KX_VCVTUDQ2PD : KX_VCVTDQ2PD : u ? KX_VCVTUDQ2PS : KX_VCVTDQ2PS;
    } else if (ds > ss) {
        form = en_widen_form(en_log_size(st), en_log_size(dt), kn_dtypes[st].kind == 'I');
    } else if (ds < ss && e->avx512) {
        form = en_narrow_form(en_log_size(st), en_log_size(dt));
    } else if (ds < ss && !fs) {
        kx_avx2_narrow(e, d, v, w, ss, ds);
        kx_done(e, n, d);
        return;
    } else if (ds != ss || fs) {
        kx_refused(e, n, "no conversion of lanes");
        return;
    }
    if (form && mem.mem)
        en_put_rm(e, kx_i2(form, most, d, KX_IN_MEM), &mem);
    else if (form)
        kx_put(e, kx_i2(form, most, d, v));
    else
        kx_move_vec(e, d, v, bytes);
    if (dt == KN_F16 && st != KN_F16 && !e->p->value[n].unrounded) {
        kx_put(e, kx_imm(kx_i2(KX_VCVTPS2PH, bytes, d, d), 0));
        kx_put(e, kx_i2(KX_VCVTPH2PS, bytes, d, d));
    }
    kx_done(e, n, d);
}

/* An integer that the low half of its bits gives: extended by zeros, or by the sign. */
static bool en_is_half(const kx_writer *e, kn_ref n, bool sign) {
    const kn_graph *g    = e->g;
    int             half = kn_dsize(kg_dtype(g, n)) / 2;
    int64_t         most = ((int64_t)1 << (8 * half - sign)) - 1, v = 0;
    if (kg_op(g, n) == KN_OP_CONST) {
        v = kg_const_int(g, n);
        return v >= (sign ? -most - 1 : 0) && v <= most;
    }
    if (kg_op(g, n) != KN_OP_INS) return false;
    int    st = kg_dtype(g, en_src(e, n, 0)), size = kn_dsize(st);
    kn_ref by = kg_nsrc(g, n) > 1 ? en_src(e, n, 1) : 0;
    if (by && kg_op(g, by) == KN_OP_CONST) v = kg_const_int(g, by);
    switch (kx_op(g, n)) {
    case KN_OP_CAST:
        return (size <= half && kn_dtypes[st].kind == (sign ? 'I' : 'U')) ||
               (size < half && sign && kn_dtypes[st].kind == 'U');
    case KN_OP_AND: return v > 0 && v <= most;
    case KN_OP_SHR: return v >= 8 * half && !sign && kn_dtypes[st].kind == 'U';
    default: return false;
    }
}

static bool en_are_halves(const kx_writer *e, kn_ref n, bool sign) {
    return en_is_half(e, en_src(e, n, 0), sign) && en_is_half(e, en_src(e, n, 1), sign);
}

void kx_emit_lanes(kx_writer *e, kn_ref n) {
    int  op = kx_op(e->g, n), dt = kg_dtype(e->g, n), w = (int)kg_numel(e->g, n), bytes = kx_vec_bytes(e->p, n);
    bool fl = kn_is_float(dt), bcast;
    switch (op) {
    case KN_OP_CAST: en_convert(e, n, w); return;
    case KN_OP_CMPLT:
    case KN_OP_CMPGT:
    case KN_OP_CMPLE:
    case KN_OP_CMPGE:
    case KN_OP_CMPNE:
    case KN_OP_CMPEQ: en_compare(e, n, n, false, 0, w); return;
    default: break;
    }
    if (e->p->value[n].inverts) {
        en_compare(e, n, en_src(e, n, 0), true, 0, w);
        return;
    }
    if (e->p->value[n].logic) {
        kx_put_logic(e, n, bytes);
        return;
    }
    if (e->p->value[n].under && dt == KN_BOOL) {
        uint32_t k      = e->p->value[n].under - 1;
        kn_ref   s      = en_src(e, n, k);
        bool     invert = e->p->value[s].inverts;
        en_compare(e, n, invert ? en_src(e, s, 0) : s, invert, kx_mask(e, en_src(e, n, 1 - k), KX_K0), w);
        return;
    }
    if (dt == KN_BOOL) {
        en_bools(e, n, en_full(w * e->p->flag));
        return;
    }
    switch (op) {
    case KN_OP_WHERE:
        if (e->avx512)
            en_choose(e, n, bytes);
        else
            kx_avx2_choose(e, n, w);
        return;
    case KN_OP_MULACC: en_fused(e, n, bytes); return;
    case KN_OP_SHL:
    case KN_OP_SHR:
        if (!e->avx512 && op == KN_OP_SHR && dt == KN_I64)
            kx_avx2_shift_right(e, n, bytes);
        else
            en_shift(e, n, bytes);
        return;
    case KN_OP_OR:
        if (!e->p->value[n].turned) break;
        en_turn(e, n, bytes);
        return;
    case KN_OP_IDIV:
    case KN_OP_MOD: kx_emit_divide_lanes(e, n, bytes); return;
    case KN_OP_MUL:
        if (fl || kn_dsize(dt) == 2) break;
        if (kn_dsize(dt) == 4) { /* the sum of two products of words, one 0, takes half as long */
            if (!en_are_halves(e, n, true)) break;
            if (!en_is_half(e, en_src(e, n, 0), false) && !en_is_half(e, en_src(e, n, 1), false)) break;
            en_two(e, n, KX_VPMADDWD, false, bytes);
        } else if (kn_dsize(dt) == 1)
            en_multiply_bytes(e, n, bytes);
        else if (en_are_halves(e, n, false))
            en_two(e, n, KX_VPMULUDQ, e->avx512, bytes);
        else if (en_are_halves(e, n, true))
            en_two(e, n, KX_VPMULDQ, e->avx512, bytes);
        else if (!e->avx512)
            kx_avx2_multiply(e, n, bytes);
        else
            break;
        return;
    case KN_OP_NOT: en_one_integer(e, n, bytes); return;
    case KN_OP_NEG:
        if (fl)
            en_one_real(e, n, bytes);
        else
            en_one_integer(e, n, bytes);
        return;
    case KN_OP_SQRT:
    case KN_OP_RECIP:
    case KN_OP_TRUNC: en_one_real(e, n, bytes); return;
    case KN_OP_MAX:
    case KN_OP_MIN:
        if (fl) {
            en_extreme_real(e, n, bytes);
            return;
        }
        if (e->avx512 || kn_dsize(dt) < 8) break;
        kx_avx2_extreme(e, n, bytes);
        return;
    default: break;
    }
    kx_form_id form = en_form2(e, op, dt, &bcast);
    if (form == KX_NOTHING)
        kx_refused(e, n, "no form on lanes");
    else
        en_two(e, n, form, bcast, bytes);
}
