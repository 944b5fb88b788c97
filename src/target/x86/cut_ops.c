/* cut_ops.c - Select of x86-64: which elementwise ops have a form on lanes, and the INS that do them.
 *
 * forms.def says what there is; what is put together here are ops that no single form does. */
#include "target/x86/cut.h"
#include "target/x86/x86.h"

#include <string.h>

/* ---- forms ----------------------------------------------------------------------------------------------------- */

static bool co_shift_form(const kx_cut *c, int dt, int64_t count) {
    int size = kn_dsize(dt);
    if (size == 1) return false;
    if (size == 2) return c->avx512 || (count >= 0 && count < 16);
    return true;
}

static bool co_compare_form(int op, int st) {
    if (st == KN_BOOL) return op == KN_OP_CMPNE || op == KN_OP_CMPEQ;
    return !kn_is_float(st) || kn_dsize(st) >= 4;
}

static bool co_cast_form(const kx_cut *c, int dt, int st) {
    int d = kn_dsize(dt), s = kn_dsize(st);
    if (dt == st) return true;
    if (dt == KN_BOOL) return co_compare_form(KN_OP_CMPNE, st);
    if (st == KN_BOOL) return !kn_is_float(dt) || d >= 4;
    if ((dt == KN_F16 || dt == KN_BF16) && st == KN_F32) return dt == KN_F16;
    if (dt == KN_F32 && (st == KN_F16 || st == KN_BF16)) return true;
    if ((kn_is_float(dt) && d < 4) || (kn_is_float(st) && s < 4)) return false;
    if (kn_is_float(dt) && kn_is_float(st)) return true;
    if (kn_is_float(st)) return st == KN_F32 && (dt == KN_I32 || d < 4);
    return !kn_is_float(dt) || s <= 4 || c->avx512;
}

static bool co_form_of(const kx_cut *c, int op, int dt, int st, int64_t by) {
    int  size = kn_dsize(dt);
    bool fl   = kn_is_float(dt);
    if (dt == KN_INDEX) dt = c->index, size = kn_dsize(dt);
    if (st == KN_INDEX) st = c->index;
    if (op == KN_OP_CAST) return co_cast_form(c, dt, st);
    if (op == KN_OP_BITCAST) return kn_dsize(st) == size && (!fl || size >= 4) && (!kn_is_float(st) || size >= 4);
    if (dt == KN_BOOL && op >= KN_OP_CMPLT && kn_ops[op].cls == KN_CLS_BINARY &&
        (op == KN_OP_CMPLT || op == KN_OP_CMPNE || op == KN_OP_CMPGT || op == KN_OP_CMPGE || op == KN_OP_CMPLE ||
         op == KN_OP_CMPEQ))
        return co_compare_form(op, st);
    if (dt == KN_BOOL) {
        return op == KN_OP_AND || op == KN_OP_OR || op == KN_OP_XOR || op == KN_OP_NOT || op == KN_OP_ADD ||
               op == KN_OP_MUL || op == KN_OP_MAX || op == KN_OP_MIN || op == KN_OP_WHERE;
    }
    if (fl && size < 4) return false;
    switch (op) {
    case KN_OP_ADD:
    case KN_OP_SUB: return true;
    case KN_OP_MUL: return fl || size > 1;
    case KN_OP_MAX:
    case KN_OP_MIN: return fl || size < 8 || c->avx512;
    case KN_OP_MULACC:
    case KN_OP_DIV:
    case KN_OP_SQRT:
    case KN_OP_RECIP:
    case KN_OP_TRUNC: return fl;
    case KN_OP_NEG: return true;
    case KN_OP_AND:
    case KN_OP_OR:
    case KN_OP_XOR:
    case KN_OP_NOT: return !fl;
    case KN_OP_SHL:
    case KN_OP_SHR: return co_shift_form(c, dt, by);
    case KN_OP_IDIV: return kx_divides_lanes(dt, by) || (by > 0 && !(by & (by - 1)) && co_shift_form(c, dt, 0));
    case KN_OP_MOD: return kx_divides_lanes(dt, by) || (by > 0 && !(by & (by - 1)));
    case KN_OP_THREEFRY:
    case KN_OP_WHERE: return true;
    default: return false;
    }
}

bool kx_has_form(const kx_cut *c, kn_ref n) {
    const kn_graph *g  = c->g;
    int             op = kg_op(g, n), dt = kg_dtype(g, n);
    int64_t         by = -1;
    if (op == KN_OP_LOAD) return true;
    if (op == KN_OP_REDUCE) return co_form_of(c, (int)kg_field(g, n, KN_F_REDUCE_op), dt, dt, -1);
    if (kg_nsrc(g, n) > 1 && kg_op(g, kg_at(g, n, 1)) == KN_OP_CONST && kn_is_int(kg_dtype(g, kg_at(g, n, 1))))
        by = kg_const_int(g, kg_at(g, n, 1));
    return co_form_of(c, op, dt, kg_dtype(g, kg_at(g, n, 0)), by);
}

/* ---- instructions ---------------------------------------------------------------------------------------------- */

kn_ref kx_node(kx_cut *c, int op, int dtype, int lanes, const kn_ref *src, int n) {
    kn_ref known = lanes ? 0 : kg_fold_consts(c->g, op, dtype, src, (uint32_t)n); /* as lane numbers make many */
    if (known) return known;
    int64_t w[KN_INS_WORDS] = {[KN_F_INS_op] = op, [KN_F_INS_dtype] = dtype, [KN_F_INS_lanes] = lanes};
    return kg_make(c->g, KN_OP_INS, 0, kg_intern_words(c->g, w, KN_INS_WORDS), src, (uint32_t)n);
}

kn_ref kx_combine(kx_cut *c, int op, int dtype, int lanes, kn_ref a, kn_ref b) {
    return kx_node(c, op, dtype, lanes, (kn_ref[]){a, b}, 2);
}

static kn_ref co_ins2(kx_cut *c, int op, int dt, int lanes, kn_ref a, kn_ref b) {
    return kx_node(c, op, dt, lanes, (kn_ref[]){a, b}, 2);
}

static kn_ref co_constant(kx_cut *c, int dt, int64_t v) {
    return kg_int(c->g, dt, v);
}

/* Threefry 2x32 on lanes of u32 (scalars: of u32 too). */
static kn_ref co_threefry(kx_cut *c, int lanes, kn_ref counter, kn_ref key) {
    static const int rot[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    kn_ref           word[4], k[3];
    for (int i = 0; i < 4; i++) {
        kn_ref s = i < 2 ? counter : key;
        if (i & 1) s = co_ins2(c, KN_OP_SHR, KN_U64, lanes, s, co_constant(c, KN_U64, 32));
        word[i] = kx_node(c, KN_OP_CAST, KN_U32, lanes, &s, 1);
    }
    k[0]     = word[2];
    k[1]     = word[3];
    k[2]     = co_ins2(c, KN_OP_XOR, KN_U32, lanes, co_ins2(c, KN_OP_XOR, KN_U32, lanes, k[0], k[1]),
                       co_constant(c, KN_U32, 0x1BD11BDA));
    kn_ref x = co_ins2(c, KN_OP_ADD, KN_U32, lanes, word[0], k[0]),
           y = co_ins2(c, KN_OP_ADD, KN_U32, lanes, word[1], k[1]);
    for (int group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            int n        = rot[group & 1][i];
            x            = co_ins2(c, KN_OP_ADD, KN_U32, lanes, x, y);
            kn_ref left  = co_ins2(c, KN_OP_SHL, KN_U32, lanes, y, co_constant(c, KN_U32, n)),
                   right = co_ins2(c, KN_OP_SHR, KN_U32, lanes, y, co_constant(c, KN_U32, 32 - n));
            y            = co_ins2(c, KN_OP_XOR, KN_U32, lanes, co_ins2(c, KN_OP_OR, KN_U32, lanes, left, right), x);
        }
        x = co_ins2(c, KN_OP_ADD, KN_U32, lanes, x, k[(group + 1) % 3]);
        y = co_ins2(c, KN_OP_ADD, KN_U32, lanes, y, k[(group + 2) % 3]);
        y = co_ins2(c, KN_OP_ADD, KN_U32, lanes, y, co_constant(c, KN_U32, group + 1));
    }
    kn_ref hi = kx_node(c, KN_OP_CAST, KN_U64, lanes, &y, 1), lo = kx_node(c, KN_OP_CAST, KN_U64, lanes, &x, 1);
    return co_ins2(c, KN_OP_OR, KN_U64, lanes, co_ins2(c, KN_OP_SHL, KN_U64, lanes, hi, co_constant(c, KN_U64, 32)),
                   lo);
}

static bool co_by_way_of_i32(const kx_cut *c, int dt, int st) {
    if (st == KN_BOOL) return kn_dsize(dt) != 4 && (!c->avx512 || kn_dsize(dt) < 4);
    if (kn_is_float(st)) return kn_is_int(dt) && kn_dsize(dt) < 4;
    return kn_is_float(dt) && kn_dsize(st) < 4;
}

kn_ref kx_alu(kx_cut *c, kn_ref n, int lanes, const kn_ref *src, uint32_t k) {
    kn_graph *g  = c->g;
    int       op = kg_op(g, n), dt = lanes ? kx_lane_dtype(c, kg_dtype(g, n)) : kg_dtype(g, n);
    int       st = kg_dtype(g, src[0]);
    if (op == KN_OP_BITCAST) return kg_bitcast(g, src[0], dt);
    if (op == KN_OP_CAST && st == dt) return src[0];
    if (op == KN_OP_CAST && dt == KN_BOOL) {
        kn_ref zero = kn_is_float(st) ? kg_float(g, st, 0) : kg_int(g, st, 0);
        return co_ins2(c, KN_OP_CMPNE, KN_BOOL, lanes, src[0], zero);
    }
    if (lanes && op == KN_OP_CAST && dt != KN_I32 && co_by_way_of_i32(c, dt, st)) {
        kn_ref wide = kx_node(c, KN_OP_CAST, KN_I32, lanes, src, 1);
        if (kn_is_float(st)) { /* both saturate */
            bool    sign = kn_dtypes[dt].kind == 'I';
            int64_t most = ((int64_t)1 << (8 * kn_dsize(dt) - sign)) - 1;
            wide = co_ins2(c, KN_OP_MAX, KN_I32, lanes, wide, co_constant(c, KN_I32, sign ? -most - 1 : 0));
            wide = co_ins2(c, KN_OP_MIN, KN_I32, lanes, wide, co_constant(c, KN_I32, most));
        }
        return kx_node(c, KN_OP_CAST, dt, lanes, &wide, 1);
    }
    if (lanes && op == KN_OP_WHERE && dt == KN_BOOL) {
        kn_ref not = kx_node(c, KN_OP_NOT, KN_BOOL, lanes, src, 1);
        return co_ins2(c, KN_OP_OR, KN_BOOL, lanes, co_ins2(c, KN_OP_AND, KN_BOOL, lanes, src[0], src[1]),
                       co_ins2(c, KN_OP_AND, KN_BOOL, lanes, not, src[2]));
    }
    if (op == KN_OP_THREEFRY) return co_threefry(c, lanes, src[0], src[1]);
    if (lanes && (op == KN_OP_IDIV || op == KN_OP_MOD) && !kx_divides_lanes(dt, kg_const_int(g, src[1]))) {
        int64_t by = kg_const_int(g, src[1]);
        if (op == KN_OP_MOD) return co_ins2(c, KN_OP_AND, dt, lanes, src[0], co_constant(c, dt, by - 1)); /* floors */
        return co_ins2(c, KN_OP_SHR, dt, lanes, src[0], co_constant(c, dt, __builtin_ctzll((unsigned long long)by)));
    }
    return kx_node(c, op, dt, lanes, src, (int)k);
}
