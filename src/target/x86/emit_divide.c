/* emit_divide.c - Render of x86-64: IDIV and MOD, which floor; x / 0 = 0, x mod 0 = x.
 *
 * By a constant c > 0 that is no power of two, division is the high half of a product: with 2^(l-1) < c < 2^l and
 * m = floor(2^(b+l-1) / c) + 1 < 2^b, floor(n / c) = floor(n m / 2^(b+l-1)) for 0 <= n < 2^(b-1), since m c exceeds the
 * power by at most 2^l (Granlund and Montgomery, PLDI 1994, theorem 4.2). Of n < 0, floor(n / c) = ~floor(~n / c). b is
 * 64, or 32 where n is known to be below 2^31. */
#include "target/x86/emit.h"

static void ed_move(kx_writer *e, int to, int from) {
    if (to != from) kx_put(e, kx_i2(KX_MOV, 8, to, from));
}

static int ed_log(int64_t c) { /* l of above */
    return 64 - __builtin_clzll((unsigned long long)(c - 1));
}

static bool ed_is_power(int64_t c) {
    return c > 0 && !(c & (c - 1));
}

/* floor(2^(63 + l) / c), bit by bit from 2^63 / c on. */
static uint64_t ed_quotient(uint64_t c, int l) {
    uint64_t q = ((uint64_t)1 << 63) / c, rest = ((uint64_t)1 << 63) % c;
    for (int i = 0; i < l; i++) {
        bool one = 2 * rest >= c;
        q        = 2 * q + one;
        rest     = 2 * rest - (one ? c : 0);
    }
    return q;
}

/* ---- scalars --------------------------------------------------------------------------------------------------- */

static void ed_by_power(kx_writer *e, kn_ref n, int64_t c, bool sign) {
    int d = kx_dst(e, n), s = __builtin_ctzll((unsigned long long)c);
    ed_move(e, KX_A, kx_gp(e, kg_at(e->g, n, 0), KX_A));
    if (kx_op(e->g, n) == KN_OP_MOD)
        kx_put(e, kx_imm(kx_i2(KX_ANDI, 8, KX_A, 0), c - 1));
    else if (s)
        kx_put(e, kx_imm(kx_i2(sign ? KX_SARI : KX_SHRI, 8, KX_A, 0), s));
    ed_move(e, d, KX_A);
    kx_done(e, n, d);
}

/* Of 0 <= n < 2^31 all of the product fits. */
static void ed_by_short_product(kx_writer *e, kn_ref n, int64_t c) {
    int      l = ed_log(c), x = kx_gp(e, kg_at(e->g, n, 0), KX_C), d = kx_dst(e, n);
    uint64_t m = (ed_quotient((uint64_t)c, l) >> 32) + 1;
    kx_put(e, kx_mov_const(KX_A, (int64_t)m));
    kx_put(e, kx_i2(KX_IMUL, 8, KX_A, x));
    kx_put(e, kx_imm(kx_i2(KX_SHRI, 8, KX_A, 0), 31 + l));
    if (kx_op(e->g, n) == KN_OP_MOD) {
        kx_put(e, kx_imm(kx_i3(KX_IMULI, 8, KX_A, KX_A, 0), c));
        int rest = d == KX_A ? KX_C : d;
        ed_move(e, rest, x);
        kx_put(e, kx_i2(KX_SUB, 8, rest, KX_A));
        ed_move(e, d, rest);
    } else
        ed_move(e, d, KX_A);
    kx_done(e, n, d);
}

static void ed_by_product(kx_writer *e, kn_ref n, int64_t c, bool sign) {
    int      d = kx_dst(e, n), l = ed_log(c);
    uint64_t m = ed_quotient((uint64_t)c, l) + 1;
    ed_move(e, KX_C, kx_gp(e, kg_at(e->g, n, 0), KX_C));
    ed_move(e, KX_A, KX_C);
    if (sign) {
        kx_put(e, kx_imm(kx_i2(KX_SARI, 8, KX_A, 0), 63));
        kx_put(e, kx_i2(KX_XOR, 8, KX_A, KX_C));
    }
    kx_put(e, kx_mov_const(KX_D, (int64_t)m));
    kx_put(e, kx_i3(KX_MUL, 8, KX_A, KX_D, KX_D));
    if (l > 1) kx_put(e, kx_imm(kx_i2(KX_SHRI, 8, KX_D, 0), l - 1));
    if (sign) {
        ed_move(e, KX_A, KX_C);
        kx_put(e, kx_imm(kx_i2(KX_SARI, 8, KX_A, 0), 63));
        kx_put(e, kx_i2(KX_XOR, 8, KX_D, KX_A));
    }
    if (kx_op(e->g, n) == KN_OP_MOD) {
        kx_put(e, kx_imm(kx_i3(KX_IMULI, 8, KX_A, KX_D, 0), c));
        kx_put(e, kx_i2(KX_SUB, 8, KX_C, KX_A));
    }
    ed_move(e, d, kx_op(e->g, n) == KN_OP_MOD ? KX_C : KX_D);
    kx_done(e, n, d);
}

void kx_emit_divide(kx_writer *e, kn_ref n) {
    int     op = kx_op(e->g, n), dt = kg_dtype(e->g, n), r = op == KN_OP_IDIV ? KX_A : KX_D;
    bool    sign = kn_dtypes[dt].kind == 'I';
    kn_ref  b    = kg_at(e->g, n, 1);
    int64_t v    = kg_op(e->g, b) == KN_OP_CONST ? kg_const_int(e->g, b) : 0;
    if (ed_is_power(v) && (op == KN_OP_IDIV || v == 1 || v - 1 == (int32_t)(v - 1))) {
        ed_by_power(e, n, v, sign);
        return;
    }
    if (v > 2 && v == (int32_t)v && !ed_is_power(v) && (sign || kn_dsize(dt) < 8)) {
        kn_ref x   = kg_at(e->g, n, 0);
        bool   any = kg_min(e->g, x) < 0;
        if (any || kg_max(e->g, x) > INT32_MAX) ed_by_product(e, n, v, sign && any);
        else ed_by_short_product(e, n, v);
        return;
    }
    int     d        = kx_dst(e, n);
    bool    one_less = sign && (v == 0 || v == -1); /* the least number by -1 is none that a processor divides */
    int32_t done = kx_label(&e->code), zero = kx_label(&e->code), minus = kx_label(&e->code);
    ed_move(e, KX_C, kx_gp(e, b, KX_C));
    ed_move(e, KX_A, kx_gp(e, kg_at(e->g, n, 0), KX_A));
    if (!v && sign) { /* by 0 or -1: one branch, as most are by neither */
        kx_put(e, kx_mem(kx_i2(KX_LEA, 8, KX_D, KX_IN_MEM), KX_C, 1));
        kx_put(e, kx_imm(kx_i2(KX_CMPI, 8, KX_D, 0), 1));
        kx_jcc(e, KXCC_BE, zero);
    } else if (!v) {
        kx_put(e, kx_i2(KX_TEST, 8, KX_C, KX_C));
        kx_jcc(e, KXCC_E, zero);
    } else if (one_less)
        kx_jump(e, minus);
    if (!sign) {
        kx_put(e, kx_i2(KX_XOR, 4, KX_D, KX_D));
        kx_put(e, kx_i3(KX_DIV, 8, KX_A, KX_D, KX_C));
    } else {
        kx_put(e, kx_i2(KX_CQO, 0, KX_D, KX_A));
        kx_put(e, kx_i3(KX_IDIV, 8, KX_A, KX_D, KX_C));
        /* Where signs of remainder and divisor differ: one below. No branch: nobody could foresee it. */
        int mend = op == KN_OP_IDIV ? KX_C : KX_A;
        ed_move(e, mend, KX_C);
        kx_put(e, kx_i2(KX_XOR, 8, mend, KX_D));
        kx_put(e, kx_imm(kx_i2(KX_SARI, 8, mend, 0), 63));
        if (op == KN_OP_MOD) kx_put(e, kx_i2(KX_AND, 8, KX_A, KX_C));
        kx_put(e, kx_i2(KX_TEST, 8, KX_D, KX_D));
        kx_ins none = kx_i2(KX_CMOVCC, 8, mend, KX_D); /* of 0 */
        none.cond   = KXCC_E;
        kx_put(e, none);
        kx_put(e, kx_i2(KX_ADD, 8, r, mend));
    }
    if (!v || one_less) kx_jump(e, done);
    if (!v) {
        kx_here(e, zero);
        if (sign) {
            kx_put(e, kx_i2(KX_TEST, 8, KX_C, KX_C));
            kx_jcc(e, KXCC_NE, minus);
        }
        if (op == KN_OP_IDIV)
            kx_put(e, kx_i2(KX_XOR, 4, KX_A, KX_A));
        else
            ed_move(e, KX_D, KX_A);
        if (sign) kx_jump(e, done);
    }
    if (one_less) {
        kx_here(e, minus);
        if (op == KN_OP_IDIV)
            kx_put(e, kx_i1(KX_NEG, 8, KX_A));
        else
            kx_put(e, kx_i2(KX_XOR, 4, KX_D, KX_D));
    }
    kx_here(e, done);
    if (sign) kx_extend(e, r, dt);
    ed_move(e, d, r);
    kx_done(e, n, d);
}

/* ---- lanes ----------------------------------------------------------------------------------------------------- */

bool kx_divides_lanes(int dtype, int64_t by, bool avx512) {
    return (dtype == KN_I32 || (dtype == KN_I64 && avx512)) && by > 2 && by == (int32_t)by && !ed_is_power(by);
}

static void ed_with(kx_writer *e, kx_form_id form, int bytes, int d, int a, uint64_t bits, int size) {
    kx_rm m = {.mem = true};
    m.at    = kx_mem_label(kx_i(KX_VMOVUPS, 16), kx_pool_lanes(e, bits, size, bytes), 0);
    kx_put(e, kx_with(kx_i3(form, bytes, d, a, KX_IN_MEM), &m));
}

/* t = u, x without its sign: x of x >= 0, ~x of others. */
static void ed_without_sign(kx_writer *e, int bytes, int t, int x) {
    kx_put(e, kx_imm(kx_i3(KX_VPSRAQI, bytes, t, x, 0), 63));
    kx_put(e, kx_i3(KX_VPXORQ, bytes, t, t, x));
}

/* Of i64: the high half of the product with m = h 2^32 + k, by four products of halves. d is no source; there are two
 * registers beside it, so u is made twice. */
static void ed_wide_lanes(kx_writer *e, kn_ref n, int bytes) {
    int64_t  c = kg_const_int(e->g, kg_at(e->g, n, 1));
    int      l = ed_log(c), d = kx_dst(e, n), x = kx_get(e, kg_at(e->g, n, 0), bytes, e->v2, n), t = e->v0, s = e->v3;
    uint64_t m = ed_quotient((uint64_t)c, l) + 1, h = m >> 32, k = m & UINT32_MAX;
    ed_without_sign(e, bytes, t, x);
    kx_put(e, kx_imm(kx_i3(KX_VPSRLQI, bytes, s, t, 0), 32));
    ed_with(e, KX_VPMULUDQ, bytes, d, t, k, 8);
    kx_put(e, kx_imm(kx_i3(KX_VPSRLQI, bytes, d, d, 0), 32));
    ed_with(e, KX_VPMULUDQ, bytes, t, s, k, 8);
    kx_put(e, kx_i3(KX_VPADDQ, bytes, d, d, t));
    ed_with(e, KX_VPMULUDQ, bytes, s, s, h, 8);
    kx_put(e, kx_imm(kx_i3(KX_VPSRLQI, bytes, t, d, 0), 32));
    kx_put(e, kx_i3(KX_VPADDQ, bytes, s, s, t));
    ed_with(e, KX_VPANDQ, bytes, d, d, UINT32_MAX, 8);
    ed_without_sign(e, bytes, t, x);
    ed_with(e, KX_VPMULUDQ, bytes, t, t, h, 8);
    kx_put(e, kx_i3(KX_VPADDQ, bytes, d, d, t));
    kx_put(e, kx_imm(kx_i3(KX_VPSRLQI, bytes, d, d, 0), 32));
    kx_put(e, kx_i3(KX_VPADDQ, bytes, d, d, s));
    if (l > 1) kx_put(e, kx_imm(kx_i3(KX_VPSRLQI, bytes, d, d, 0), l - 1));
    kx_put(e, kx_imm(kx_i3(KX_VPSRAQI, bytes, t, x, 0), 63));
    kx_put(e, kx_i3(KX_VPXORQ, bytes, d, d, t));
    if (kx_op(e->g, n) == KN_OP_MOD) {
        ed_with(e, KX_VPMULLQ, bytes, d, d, (uint64_t)c, 8);
        kx_put(e, kx_i3(KX_VPSUBQ, bytes, d, x, d));
    }
    kx_done(e, n, d);
}

/* By a constant that kx_divides_lanes takes; d is no source. Of i32 products of even lanes, then of odd ones. */
void kx_emit_divide_lanes(kx_writer *e, kn_ref n, int bytes) {
    if (kn_dsize(kg_dtype(e->g, n)) == 8) {
        ed_wide_lanes(e, n, bytes);
        return;
    }
    int64_t    c = kg_const_int(e->g, kg_at(e->g, n, 1));
    int        l = ed_log(c), d = kx_dst(e, n), x = kx_get(e, kg_at(e->g, n, 0), bytes, e->v2, n), t = e->v0;
    kx_form_id exclusive = e->avx512 ? KX_VPXORD : KX_VPXOR, both = e->avx512 ? KX_VPANDD : KX_VPAND;
    uint64_t   m = ((uint64_t)1 << (31 + l)) / (uint64_t)c + 1;
    kx_put(e, kx_imm(kx_i3(KX_VPSRADI, bytes, t, x, 0), 31));
    kx_put(e, kx_i3(exclusive, bytes, d, t, x));
    kx_put(e, kx_imm(kx_i3(KX_VPSRLQI, bytes, t, d, 0), 32));
    ed_with(e, KX_VPMULUDQ, bytes, t, t, m, 8);
    ed_with(e, KX_VPMULUDQ, bytes, d, d, m, 8);
    ed_with(e, both, bytes, t, t, 0xffffffff00000000u, 8);
    kx_put(e, kx_imm(kx_i3(KX_VPSRLQI, bytes, d, d, 0), 32));
    kx_put(e, kx_i3(exclusive, bytes, d, d, t));
    if (l > 1) kx_put(e, kx_imm(kx_i3(KX_VPSRLDI, bytes, d, d, 0), l - 1));
    kx_put(e, kx_imm(kx_i3(KX_VPSRADI, bytes, t, x, 0), 31));
    kx_put(e, kx_i3(exclusive, bytes, d, d, t));
    if (kx_op(e->g, n) == KN_OP_MOD) {
        ed_with(e, KX_VPMULLD, bytes, d, d, (uint64_t)c, 4);
        kx_put(e, kx_i3(KX_VPSUBD, bytes, d, x, d));
    }
    kx_done(e, n, d);
}
