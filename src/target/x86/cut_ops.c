/* cut_ops.c - Select of x86-64: which elementwise ops have a form on lanes, and the INS that do them.
 *
 * What has none has been rewritten in terms of others by select.rules, or is made lane by lane. Floats narrower than
 * f32 are f32 in registers. */
#include "target/x86/cut.h"

#include "rules/decomp.h"
#include "target/x86/x86.h"

#include <string.h>

/* ---- forms ----------------------------------------------------------------------------------------------------- */

static bool co_shift_form(const kx_cut *c, int dt, int64_t count) {
    int size = kn_dsize(dt);
    return size > 2 || (size == 2 && (c->avx512 || count >= 0)) || (dt == KN_U8 && count >= 0);
}

static bool co_compare_form(int op, int st) {
    return st != KN_BOOL || op == KN_OP_CMPNE || op == KN_OP_CMPEQ;
}

/* Registers hold them as f32. */
static bool co_is_narrow(int dt) {
    return kn_is_float(dt) && kn_dsize(dt) < 4;
}

static bool co_cast_form(const kx_cut *c, int dt, int st) {
    int d = kn_dsize(dt), s = kn_dsize(st);
    if (dt == st) return true;
    if (dt == KN_BOOL) return false;
    if (st == KN_BOOL) return true;
    if (co_is_narrow(dt)) return st == KN_F32;
    if (kn_is_float(dt) && kn_is_float(st)) return true;
    if (kn_is_float(st)) return d >= 4 && (c->avx512 || dt == KN_I32);
    return !kn_is_float(dt) || s == 4 || (c->avx512 && s == 8);
}

static bool co_form_of(const kx_cut *c, int op, int dt, int st, int64_t by) {
    int  size = kn_dsize(dt);
    bool fl   = kn_is_float(dt);
    if (dt == KN_INDEX) dt = c->index, size = kn_dsize(dt);
    if (st == KN_INDEX) st = c->index;
    if (op == KN_OP_CAST) return co_cast_form(c, dt, st);
    if (op == KN_OP_BITCAST) return kn_dsize(st) == size && (!fl || size >= 4) && (!kn_is_float(st) || size >= 4);
    if (kx_compares(op)) return co_compare_form(op, st);
    if (dt == KN_BOOL) {
        return op == KN_OP_AND || op == KN_OP_OR || op == KN_OP_XOR || op == KN_OP_NOT || op == KN_OP_ADD ||
               op == KN_OP_MUL || op == KN_OP_MAX || op == KN_OP_MIN;
    }
    bool whole = !co_is_narrow(dt); /* what is rounded to fewer bits is not what the f32 op gives */
    switch (op) {
    case KN_OP_ADD:
    case KN_OP_SUB:
    case KN_OP_MUL: return whole;
    case KN_OP_MAX:
    case KN_OP_MIN: return true;
    case KN_OP_MULACC:
    case KN_OP_DIV:
    case KN_OP_SQRT:
    case KN_OP_RECIP: return fl && whole;
    case KN_OP_TRUNC: return fl;
    case KN_OP_NEG: return true;
    case KN_OP_AND:
    case KN_OP_OR:
    case KN_OP_XOR:
    case KN_OP_NOT: return !fl;
    case KN_OP_SHL:
    case KN_OP_SHR: return co_shift_form(c, dt, by);
    case KN_OP_IDIV:
    case KN_OP_MOD: return kx_divides_lanes(dt, by, c->avx512);
    case KN_OP_WHERE: return true;
    default: return false;
    }
}

static int64_t co_by(const kn_graph *g, kn_ref n) { /* the constant that n shifts or divides by; -1: none */
    if (kg_nsrc(g, n) < 2 || kg_op(g, kg_at(g, n, 1)) != KN_OP_CONST || !kn_is_int(kg_dtype(g, kg_at(g, n, 1))))
        return -1;
    return kg_const_int(g, kg_at(g, n, 1));
}

bool kx_has_form(const kx_cut *c, kn_ref n) {
    const kn_graph *g  = c->g;
    int             op = kg_op(g, n), dt = kg_dtype(g, n);
    if (op == KN_OP_LOAD) return true;
    /* Of what a rule has rounded. */
    if (op == KN_OP_CAST && co_is_narrow(dt) && dt != KN_F16 && kg_dtype(g, kg_at(g, n, 0)) == KN_F32)
        return kn_decomp_is_rounded(c->g, kg_at(g, n, 0), dt);
    if (op == KN_OP_REDUCE) return co_form_of(c, (int)kg_field(g, n, KN_F_REDUCE_op), dt, dt, -1);
    return co_form_of(c, op, dt, kg_dtype(g, kg_at(g, n, 0)), co_by(g, n));
}

/* ---- instructions ---------------------------------------------------------------------------------------------- */

/* Of bools with a constant: that, or the other. */
static kn_ref co_known_bool(const kn_graph *g, int op, const kn_ref *src) {
    bool any = op == KN_OP_OR || op == KN_OP_MAX || op == KN_OP_ADD;
    bool all = op == KN_OP_AND || op == KN_OP_MIN || op == KN_OP_MUL;
    for (int k = 0; k < 2 && (any || all); k++)
        if (kg_op(g, src[k]) == KN_OP_CONST) return src[(kg_const_int(g, src[k]) != 0) == any ? k : 1 - k];
    return 0;
}

/* What an op leaves as it is: parts of counters are often 0. */
static kn_ref co_neutral(const kn_graph *g, int op, int dtype, const kn_ref *src, int n) {
    if (n == 2 && dtype == KN_BOOL && kg_dtype(g, src[0]) == KN_BOOL) return co_known_bool(g, op, src);
    bool either = op == KN_OP_ADD || op == KN_OP_OR || op == KN_OP_XOR;
    if (n != 2 || !kn_is_int(dtype) || (!either && op != KN_OP_SUB && op != KN_OP_SHL && op != KN_OP_SHR)) return 0;
    for (int k = 0; k < 1 + either; k++)
        if (kg_op(g, src[1 - k]) == KN_OP_CONST && !kg_const_int(g, src[1 - k]) && kg_dtype(g, src[k]) == dtype)
            return src[k];
    return 0;
}

/* So many lane numbers from `first` on are what they count to: as that dtype has them, none has wrapped. */
static bool co_counts(int dtype, int64_t first, int lanes) {
    return first >= kn_dtypes[dtype].min && first <= kn_dtypes[dtype].max - lanes;
}

/* Lanes that hold their numbers from a constant on: the RANGE of these, and *first. 0: they do not. */
static kn_ref co_lane_numbers(const kn_graph *g, kn_ref x, int64_t *first) {
    if (kg_op(g, x) != KN_OP_INS || kg_field(g, x, KN_F_INS_op) != KN_OP_CAST) return 0;
    kn_ref n = kg_at(g, x, 0);
    *first   = 0;
    if (kx_is_iota(g, n)) return n;
    if (kg_op(g, n) != KN_OP_ADD || !kx_is_iota(g, kg_at(g, n, 0)) || kg_op(g, kg_at(g, n, 1)) != KN_OP_CONST) return 0;
    *first = kg_const_int(g, kg_at(g, n, 1));
    return kg_at(g, n, 0);
}

/* Those from what else they begin with, as x has them. */
static kn_ref co_numbers_from(kx_cut *c, kn_ref x, kn_ref iota, int64_t first, int lanes) {
    kn_ref from = kg_op2(c->g, KN_OP_ADD, iota, kg_idx(c->g, first));
    return kx_node(c, KN_OP_CAST, kg_dtype(c->g, x), lanes, &from, 1);
}

/* Of lane numbers the low bits: those from what these bits are of the first. As of rows whose lanes are joined,
 * registers have them in common then. A constant more: others, which need no instruction. 0: it is something else. */
static kn_ref co_of_numbers(kx_cut *c, int op, int dtype, int lanes, const kn_ref *src) {
    kn_graph *g = c->g;
    int64_t   first, all;
    kn_ref    iota = lanes && kg_op(g, src[1]) == KN_OP_CONST ? co_lane_numbers(g, src[0], &first) : 0;
    if (!iota || !kn_is_int(dtype) || !co_counts(dtype, first, lanes)) return 0;
    if (op == KN_OP_ADD) {
        bool counts = kn_add_ok(first, kg_const_int(g, src[1]), &all) && co_counts(dtype, all, lanes);
        return counts ? co_numbers_from(c, src[0], iota, all, lanes) : 0;
    }
    if (op != KN_OP_AND && op != KN_OP_MOD) return 0;
    int64_t by = kg_const_int(g, src[1]) + (op == KN_OP_AND);
    if (by < 1 || by & (by - 1) || first < by) return 0;
    return kx_node(c, op, dtype, lanes, (kn_ref[]){co_numbers_from(c, src[0], iota, first % by, lanes), src[1]}, 2);
}

/* Lanes that repeat the low bytes of a scalar, which what narrowed it has too. */
static kn_ref co_before_narrowed(const kn_graph *g, int dtype, kn_ref x) {
    if (kg_op(g, x) != KN_OP_INS || kg_rank(g, x) || kg_field(g, x, KN_F_INS_op) != KN_OP_CAST) return x;
    int mid = kg_dtype(g, x), of = kg_dtype(g, kg_at(g, x, 0));
    bool ints = kn_is_int(dtype) && kn_is_int(mid) && kn_is_int(of);
    return ints && kn_dsize(dtype) <= kn_dsize(mid) && kn_dsize(mid) <= kn_dsize(of) ? kg_at(g, x, 0) : x;
}

/* Is x + a constant the constant `by`? Rather: is x what is left of that. Sums of indices wrap as the constants do. */
static bool co_compare_rest(const kx_cut *c, int op, const kn_ref *src, int64_t *rest) {
    const kn_graph *g = c->g;
    bool            same = op == KN_OP_CMPNE || op == KN_OP_CMPEQ;
    if (!same || kg_op(g, src[1]) != KN_OP_CONST || kg_op(g, src[0]) != KN_OP_INS) return false;
    if (kg_field(g, src[0], KN_F_INS_op) != KN_OP_ADD || kg_dtype(g, src[0]) != KN_INDEX) return false;
    kn_ref by = kg_at(g, src[0], 1);
    if (kg_op(g, by) != KN_OP_CONST || kg_const_int(g, by) == INT64_MIN) return false;
    return kn_add_ok(kg_const_int(g, src[1]), -kg_const_int(g, by), rest) && *rest == (int32_t)*rest;
}

/* Registers hold narrow floats as f32: their CASTs do nothing. */
static kn_ref co_held(const kn_graph *g, kn_ref x) {
    bool cast = kg_op(g, x) == KN_OP_INS && kg_field(g, x, KN_F_INS_op) == KN_OP_CAST && kg_dtype(g, x) == KN_F32;
    return cast && kg_rank(g, x) && kg_rank(g, kg_at(g, x, 0)) && co_is_narrow(kg_dtype(g, kg_at(g, x, 0)))
               ? kg_at(g, x, 0)
               : x;
}

static bool co_is_chosen(const kn_graph *g, kn_ref x) {
    return kg_op(g, x) == KN_OP_INS && kg_field(g, x, KN_F_INS_op) == KN_OP_WHERE;
}

/* What it chooses was chosen by the same flags, as of a load that has lanes left out: rule where_in_then, which ends
 * before there are lanes of registers. */
static bool co_same_choice(const kn_graph *g, const kn_ref *src) {
    return co_is_chosen(g, src[1]) && kg_at(g, src[1], 0) == src[0];
}

kn_ref kx_node(kx_cut *c, int op, int dtype, int lanes, const kn_ref *src, int n) {
    /* As lane numbers make many. A constant is CAST to lanes of its dtype where a register of them is asked for. */
    bool   spread = lanes && op == KN_OP_CAST && kg_dtype(c->g, src[0]) == dtype;
    kn_ref known  = spread ? 0 : kg_fold_consts(c->g, op, dtype, src, (uint32_t)n);
    if (!known) known = co_neutral(c->g, op, dtype, src, n);
    if (!known && op == KN_OP_WHERE && kg_op(c->g, src[0]) == KN_OP_CONST)
        known = src[kg_const_int(c->g, src[0]) ? 1 : 2];
    if (!known && n == 2) known = co_of_numbers(c, op, dtype, lanes, src);
    if (known) return known;
    kn_ref  held[3];
    int64_t rest;
    if (op == KN_OP_WHERE && co_same_choice(c->g, src)) {
        memcpy(held, src, sizeof held);
        held[1] = kg_at(c->g, src[1], 1);
        src     = held;
    }
    if (co_compare_rest(c, op, src, &rest)) {
        held[0] = kg_at(c->g, src[0], 0);
        held[1] = kg_int(c->g, KN_INDEX, rest);
        src     = held;
    }
    if (lanes && op == KN_OP_CAST) {
        held[0] = co_before_narrowed(c->g, dtype, src[0]);
        src     = held;
    } else if (lanes) {
        for (int k = 0; k < n; k++) held[k] = co_held(c->g, src[k]);
        src = held;
    }
    int64_t w[KN_INS_WORDS] = {[KN_F_INS_op] = op, [KN_F_INS_dtype] = dtype, [KN_F_INS_lanes] = lanes};
    kn_ref x   = kg_make(c->g, KN_OP_INS, 0, kg_intern_words(c->g, w, KN_INS_WORDS), src, (uint32_t)n);
    bool   one = x && dtype == KN_BOOL && kg_min(c->g, x) == kg_max(c->g, x); /* as of lanes beyond a row's */
    return one ? kg_int(c->g, KN_BOOL, kg_min(c->g, x)) : x;
}

/* The bits of x in another dtype: of a constant a constant, which lanes take as it is. */
static kn_ref co_bits(kx_cut *c, kn_ref x, int dt) {
    unsigned char bits[8];
    int           st = kg_dtype(c->g, x);
    if (kg_op(c->g, x) != KN_OP_CONST) return kg_bitcast(c->g, x, dt);
    kn_store_scalar(bits, st,
                    kn_is_float(st) ? (kn_scalar){.f = kg_const_float(c->g, x)}
                                    : (kn_scalar){.i = kg_const_int(c->g, x)});
    kn_scalar v = kn_load_scalar(bits, dt);
    return kn_is_float(dt) ? kg_float(c->g, dt, v.f) : kg_int(c->g, dt, v.i);
}

/* What has been rounded already, as what it is. */
static kn_ref co_retyped(kx_cut *c, kn_ref x, int dt, int lanes) {
    return kx_node(c, (int)kg_field(c->g, x, KN_F_INS_op), dt, lanes, kg_src(c->g, x), (int)kg_nsrc(c->g, x));
}

/* A sum that began with 0, of which `x` is not; 0: neither source is one. */
static kn_ref co_sum_beside(const kx_cut *c, kn_ref add, int x) {
    kn_ref s = kg_at(c->g, add, (uint32_t)(1 - x));
    return kg_op(c->g, add) == KN_OP_ADD && c->sum[s] ? s : 0;
}

/* What is added to a number that is not -0 gives none. An accumulator begins with 0, and all that is stored to it are
 * sums of what it was; where one is not so, none of its loads is taken for one. */
void kx_find_sums(kx_cut *c, const kn_ref *order, uint32_t n) {
    const kn_graph *g = c->g;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < n; i++) {
            kn_ref x = order[i], at = kg_nsrc(g, x) ? kg_at(g, x, 0) : 0;
            int    op = kg_op(g, x);
            if (op == KN_OP_LOAD && kn_is_float(kg_dtype(g, x)) && kx_is_register(g, at))
                c->sum[x] = !c->sum[kg_storage(g, at)]; /* of a BUFFER: it is no accumulator of that kind */
            else if (op == KN_OP_ADD)
                c->sum[x] = co_sum_beside(c, x, 0) || co_sum_beside(c, x, 1);
        }
        for (uint32_t i = 0; i < n; i++) {
            kn_ref x = order[i], to = kg_op(g, x) == KN_OP_STORE ? kg_storage(g, kg_at(g, x, 0)) : 0;
            if (!to || !kx_is_register(g, to) || c->sum[to] || c->sum[kg_at(g, x, 1)]) continue;
            if (kx_is_zero(g, kg_at(g, x, 1))) continue;
            c->sum[to] = again = true;
        }
    }
}

/* Of what one mask leaves of two, if it puts what changes nothing in place of the others, the op is what it leaves of
 * that of all: so it is taken once. */
static kn_ref co_chosen_once(kx_cut *c, int op, int dtype, int lanes, const kn_ref *src) {
    const kn_graph *g = c->g;
    if (!co_is_chosen(g, src[0]) || !co_is_chosen(g, src[1])) return 0;
    kn_ref let = kg_at(g, src[0], 0), alt = kg_at(g, src[0], 2);
    if (let != kg_at(g, src[1], 0) || alt != kg_at(g, src[1], 2)) return 0;
    if (op == KN_OP_ADD ? !kx_is_zero(g, alt) : op != KN_OP_MAX && op != KN_OP_MIN) return 0;
    kn_ref all = kx_node(c, op, dtype, lanes, (kn_ref[]){kg_at(g, src[0], 1), kg_at(g, src[1], 1)}, 2);
    return kx_node(c, KN_OP_WHERE, dtype, lanes, (kn_ref[]){let, all, alt}, 3);
}

kn_ref kx_alu(kx_cut *c, kn_ref n, int lanes, const kn_ref *src, uint32_t k) {
    kn_graph *g  = c->g;
    int       op = kg_op(g, n), dt = lanes ? kx_lane_dtype(c, kg_dtype(g, n)) : kg_dtype(g, n);
    int       st = kg_dtype(g, src[0]);
    if (op == KN_OP_BITCAST)
        return co_bits(c, src[0], dt);
    if (op == KN_OP_CAST && st == dt) return src[0];
    for (int i = 0; i < 2 && op == KN_OP_ADD; i++)
        if (kx_is_zero(g, src[i]) && co_sum_beside(c, n, i) && kg_dtype(g, src[1 - i]) == dt) return src[1 - i];
    if (op == KN_OP_CAST && dt == KN_BOOL) return kx_refuse(c, n, "a bool is made by the rule cast_to_bool"), 0;
    if (lanes && op == KN_OP_CAST && st == KN_F32 && co_is_narrow(dt) && dt != KN_F16 && kg_op(g, src[0]) == KN_OP_INS)
        return co_retyped(c, src[0], dt, lanes);
    kn_ref once = lanes && k == 2 ? co_chosen_once(c, op, dt, lanes, src) : 0;
    return once ? once : kx_node(c, op, dt, lanes, src, (int)k);
}
