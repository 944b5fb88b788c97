/* emit_avx2.c - Render of x86-64: what AVX-512 has an instruction for, and AVX2 a sequence. */
#include "target/x86/emit.h"

#include <string.h>

static int ea_full(int bytes) {
    return bytes <= 16 ? 16 : bytes <= 32 ? 32 : 64;
}

static void ea_with(kx_writer *e, kx_form_id form, int bytes, int d, int a, int32_t label) {
    kx_rm m = {.mem = true, .at = kx_mem_label(kx_i(KX_VMOVUPS, 16), label, 0)};
    kx_put(e, kx_with(kx_i3(form, bytes, d, a, KX_IN_MEM), &m));
}

/* d is no source: a b, the low halves' product with the two mixed ones added to its high half. */
void kx_avx2_multiply(kx_writer *e, kn_ref n, int bytes) {
    int d = kx_dst(e, n), t = e->v0, a = kx_get(e, kg_at(e->g, n, 0), bytes, e->v2, n),
        b = kx_get(e, kg_at(e->g, n, 1), bytes, e->v3, n);
    kx_put(e, kx_imm(kx_i3(KX_VPSHUFD, bytes, t, b, 0), 0xb1));
    kx_put(e, kx_i3(KX_VPMULLD, bytes, t, t, a));
    kx_put(e, kx_imm(kx_i3(KX_VPSRLQI, bytes, d, t, 0), 32));
    kx_put(e, kx_i3(KX_VPADDD, bytes, d, d, t));
    kx_put(e, kx_imm(kx_i3(KX_VPSLLQI, bytes, d, d, 0), 32));
    kx_put(e, kx_i3(KX_VPMULUDQ, bytes, t, a, b));
    kx_put(e, kx_i3(KX_VPADDQ, bytes, d, d, t));
    kx_done(e, n, d);
}

/* The greater of two is chosen; those without a sign are compared as others once their first bits are turned. d is no
 * source. */
void kx_avx2_extreme(kx_writer *e, kn_ref n, int bytes) {
    int d = kx_dst(e, n), t = e->v0, a = kx_get(e, kg_at(e->g, n, 0), bytes, e->v2, n),
        b = kx_get(e, kg_at(e->g, n, 1), bytes, e->v3, n);
    bool max = kx_op(e->g, n) == KN_OP_MAX;
    if (kn_dtypes[kg_dtype(e->g, n)].kind == 'U') {
        int32_t top = kx_pool_lanes(e, (uint64_t)1 << 63, 8, bytes);
        ea_with(e, KX_VPXOR, bytes, t, a, top);
        ea_with(e, KX_VPXOR, bytes, d, b, top);
        kx_put(e, kx_i3(KX_VPCMPGTQ, bytes, t, t, d));
    } else
        kx_put(e, kx_i3(KX_VPCMPGTQ, bytes, t, a, b));
    kx_put(e, kx_i4(KX_VBLENDVPD, bytes, d, max ? b : a, max ? a : b, t));
    kx_done(e, n, d);
}

/* ((x ^ s) >> count) ^ s, where s is x's sign on all bits; d is not the count. */
void kx_avx2_shift_right(kx_writer *e, kn_ref n, int bytes) {
    kn_ref by = kg_at(e->g, n, 1);
    int    d = kx_dst(e, n), s = e->v0, x = kx_get(e, kg_at(e->g, n, 0), bytes, e->v2, n);
    kx_put(e, kx_i3(KX_VPXOR, bytes, s, s, s));
    kx_put(e, kx_i3(KX_VPCMPGTQ, bytes, s, s, x));
    kx_put(e, kx_i3(KX_VPXOR, bytes, d, x, s));
    if (kg_op(e->g, by) == KN_OP_CONST) {
        int64_t c = kg_const_int(e->g, by);
        kx_put(e, kx_imm(kx_i3(KX_VPSRLQI, bytes, d, d, 0), c < 0 || c > 63 ? 64 : c));
    } else
        kx_put(e, kx_i3(KX_VPSRLVQ, bytes, d, d, kx_get(e, by, bytes, e->v3, n)));
    kx_put(e, kx_i3(KX_VPXOR, bytes, d, d, s));
    kx_done(e, n, d);
}

/* The low bytes of each lane, by one shuffle in each half of the register. d may be v0, and x v2. */
void kx_avx2_narrow(kx_writer *e, int d, int x, int w, int from, int to) {
    uint8_t pick[32];
    int     bytes = ea_full(w * from), ratio = from / to;
    memset(pick, 0x80, sizeof pick);
    for (int half = 0; half < 32; half += 16)
        for (int k = 0; k < 16 / ratio; k++) pick[half + k] = (uint8_t)(k / to * from + k % to);
    ea_with(e, KX_VPSHUFB, bytes, d, x, kx_pool(e, pick, (size_t)bytes));
    if (bytes == 16) return;
    if (ratio == 2) {
        kx_put(e, kx_imm(kx_i3(KX_VPERMQI, 32, d, d, 0), 8));
        return;
    }
    kx_put(e, kx_imm(kx_i3(KX_VEXTRACTI128, 0, e->v2, d, 0), 1));
    kx_put(e, kx_i3(ratio == 4 ? KX_VPUNPCKLDQ : KX_VPUNPCKLWD, 16, d, d, e->v2));
}

/* A mask of lanes of `from` bytes as one of lanes of `to`. */
static void ea_resize_mask(kx_writer *e, int d, int x, int w, int from, int to) {
    if (to > from)
        kx_put(e, kx_i2(from == 1   ? to == 2 ? KX_VPMOVSXBW : to == 4 ? KX_VPMOVSXBD : KX_VPMOVSXBQ
                        : from == 2 ? to == 4 ? KX_VPMOVSXWD : KX_VPMOVSXWQ
                                    : KX_VPMOVSXDQ,
                        ea_full(w * to), d, x));
    else if (to < from)
        kx_avx2_narrow(e, d, x, w, from, to);
    else
        kx_move_vec(e, d, x, ea_full(w * to));
}

void kx_avx2_mask(kx_writer *e, int d, int x, int w, int size) {
    ea_resize_mask(e, d, x, w, e->p->flag, size);
}

/* Equal, or greater of signed ones; the rest by exchange and inversion. */
void kx_avx2_compare(kx_writer *e, kn_ref n, int w) {
    static const uint16_t equals[] = {KX_VPCMPEQB, KX_VPCMPEQW, KX_VPCMPEQD, KX_VPCMPEQQ},
                          above[]  = {KX_VPCMPGTB, KX_VPCMPGTW, KX_VPCMPGTD, KX_VPCMPGTQ};
    kn_ref a = kg_at(e->g, n, 0), b = kg_at(e->g, n, 1);
    int    op = kx_op(e->g, n), d = kx_dst(e, n), st = kg_dtype(e->g, a), size = kn_dsize(st);
    int    log = __builtin_ctz((unsigned)size), bytes = ea_full(w * size);
    bool   swap = op == KN_OP_CMPLT || op == KN_OP_CMPGE,
         invert = op == KN_OP_CMPNE || op == KN_OP_CMPLE || op == KN_OP_CMPGE;
    bool equal  = op == KN_OP_CMPEQ || op == KN_OP_CMPNE;
    int  x      = kx_get(e, swap ? b : a, bytes, e->v2, n);
    if (kn_dtypes[st].kind == 'U' && !equal) { /* signed, once the first bits are turned */
        int32_t top = kx_pool_lanes(e, (uint64_t)1 << (8 * size - 1), size, bytes);
        ea_with(e, KX_VPXOR, bytes, e->v0, x, top);
        ea_with(e, KX_VPXOR, bytes, d, kx_get(e, swap ? a : b, bytes, e->v3, n), top);
        kx_put(e, kx_i3((kx_form_id)above[log], bytes, d, e->v0, d));
    } else {
        kx_rm y = kx_vec_rm(e, swap ? a : b, bytes, false, n);
        kx_put(e,
               kx_with(kx_i3((kx_form_id)(equal ? equals : above)[log], bytes, d, x, y.mem ? KX_IN_MEM : y.reg), &y));
    }
    int flag = e->p->flag, held = ea_full(w * flag);
    if (size != flag) ea_resize_mask(e, d, d, w, size, flag);
    if (invert) ea_with(e, KX_VPXOR, held, d, d, kx_pool_lanes(e, ~(uint64_t)0, 8, held));
    kx_done(e, n, d);
}

void kx_avx2_choose(kx_writer *e, kn_ref n, int w) {
    int    size = kx_held_size(e->p, kg_dtype(e->g, n)), bytes = ea_full(w * size), d = kx_dst(e, n);
    kn_ref mask = kg_at(e->g, n, 0);
    int    m    = kx_get(e, mask, ea_full(w * e->p->flag), e->v0, n);
    if (size != e->p->flag) {
        ea_resize_mask(e, e->v0, m, w, e->p->flag, size);
        m = e->v0;
    }
    int   b = kx_get(e, kg_at(e->g, n, 2), bytes, e->v2, n);
    kx_rm a = kx_vec_rm(e, kg_at(e->g, n, 1), bytes, false, n);
    kx_put(e, kx_with(kx_i4(size < 4    ? KX_VPBLENDVB
                            : size == 8 ? KX_VBLENDVPD
                                        : KX_VBLENDVPS,
                            bytes, d, b, a.mem ? KX_IN_MEM : a.reg, m),
                      &a));
    kx_done(e, n, d);
}

/* f32: the high half, times 2^16, plus the low one, rounded once. f64: as i32, once moved by 2^31. */
void kx_avx2_from_u32(kx_writer *e, int d, int x, int w, bool dbl) {
    int      bytes = ea_full(w * 4);
    double   moved = 2147483648.0;
    uint64_t back;
    memcpy(&back, &moved, 8);
    if (dbl) {
        ea_with(e, KX_VPXOR, bytes, d, x, kx_pool_lanes(e, 0x80000000u, 4, bytes));
        kx_put(e, kx_i2(KX_VCVTDQ2PD, ea_full(w * 8), d, d));
        ea_with(e, KX_VADDPD, ea_full(w * 8), d, d, kx_pool_lanes(e, back, 8, ea_full(w * 8)));
        return;
    }
    kx_put(e, kx_imm(kx_i3(KX_VPSRLDI, bytes, e->v0, x, 0), 16));
    kx_put(e, kx_i2(KX_VCVTDQ2PS, bytes, e->v0, e->v0));
    ea_with(e, KX_VPAND, bytes, d, x, kx_pool_lanes(e, 0xffff, 4, bytes));
    kx_put(e, kx_i2(KX_VCVTDQ2PS, bytes, d, d));
    ea_with(e, KX_VFMADD231PS, bytes, d, e->v0, kx_pool_lanes(e, 0x47800000u, 4, bytes));
}
