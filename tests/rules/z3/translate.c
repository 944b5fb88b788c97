/* translate.c - ops, conditions and rules as terms of Z3.
 *
 * Integers are bit-vectors that wrap; an index of @index rules is one of the width asked for, or an integer, and where
 * it is a bit-vector its arithmetic is supposed not to overflow. Floats are given by their bits:
 * Z3_mk_fpa_numeral_double loses subnormals (4.8.12). */
#include "rules/z3/translate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/match.h"

/* ---- sorts and numerals ------------------------------------------------------------------------------------------ */

static int bits_of(const kz_prover *q, int dt) {
    return dt == KN_BOOL ? 1 : dt == KN_INDEX ? q->index : 8 * kn_dsize(dt);
}

static bool is_signed(int dt) {
    return kn_dtypes[dt].kind == 'I';
}

static bool unbounded(const kz_prover *q, int dt) {
    return dt == KN_INDEX && q->index == KN_WIDTH_ALL;
}

static Z3_sort sort_of(kz_prover *q, int dt) {
    switch (dt) {
    case KN_BOOL: return Z3_mk_bool_sort(q->c);
    case KN_F8E5M2: return Z3_mk_fpa_sort(q->c, 5, 3);
    case KN_F16: return Z3_mk_fpa_sort(q->c, 5, 11);
    case KN_BF16: return Z3_mk_fpa_sort(q->c, 8, 8);
    case KN_F32: return Z3_mk_fpa_sort(q->c, 8, 24);
    case KN_F64: return Z3_mk_fpa_sort(q->c, 11, 53);
    default: break;
    }
    return unbounded(q, dt) ? Z3_mk_int_sort(q->c) : Z3_mk_bv_sort(q->c, (unsigned)bits_of(q, dt));
}

Z3_ast kz_numeral(kz_prover *q, int dt, kn_scalar v) {
    if (dt == KN_BOOL) return v.i ? Z3_mk_true(q->c) : Z3_mk_false(q->c);
    if (!kn_is_float(dt)) return Z3_mk_int64(q->c, v.i, sort_of(q, dt));
    uint64_t bits = 0;
    kn_store_scalar(&bits, dt, v);
    return Z3_mk_fpa_to_fp_bv(q->c, Z3_mk_unsigned_int64(q->c, bits, Z3_mk_bv_sort(q->c, (unsigned)bits_of(q, dt))),
                              sort_of(q, dt));
}

Z3_ast kz_whole(kz_prover *q, int bits, int64_t v) {
    return Z3_mk_int64(q->c, v, bits == KN_WIDTH_ALL ? Z3_mk_int_sort(q->c) : Z3_mk_bv_sort(q->c, (unsigned)bits));
}

static Z3_ast both(kz_prover *q, Z3_ast a, Z3_ast b) {
    return Z3_mk_and(q->c, 2, (Z3_ast[]){a, b});
}
static Z3_ast either(kz_prover *q, Z3_ast a, Z3_ast b) {
    return Z3_mk_or(q->c, 2, (Z3_ast[]){a, b});
}

static void suppose(kz_prover *q, Z3_ast a) {
    if (q->nassume == KZ_ASSUME)
        q->cannot = true;
    else
        q->assume[q->nassume++] = a;
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static Z3_ast less(kz_prover *q, int dt, Z3_ast a, Z3_ast b) {
    if (dt == KN_BOOL) return both(q, Z3_mk_not(q->c, a), b);
    if (kn_is_float(dt)) return Z3_mk_fpa_lt(q->c, a, b);
    if (unbounded(q, dt)) return Z3_mk_lt(q->c, a, b);
    return is_signed(dt) ? Z3_mk_bvslt(q->c, a, b) : Z3_mk_bvult(q->c, a, b);
}

static Z3_ast equal(kz_prover *q, int dt, Z3_ast a, Z3_ast b) {
    return kn_is_float(dt) ? Z3_mk_fpa_eq(q->c, a, b) : Z3_mk_eq(q->c, a, b);
}

bool kz_compares(int op) {
    return op == KN_OP_CMPLT || op == KN_OP_CMPGT || op == KN_OP_CMPLE || op == KN_OP_CMPGE || op == KN_OP_CMPEQ ||
           op == KN_OP_CMPNE;
}

static Z3_ast compare(kz_prover *q, int op, int dt, Z3_ast a, Z3_ast b) {
    switch (op) {
    case KN_OP_CMPLT: return less(q, dt, a, b);
    case KN_OP_CMPGT: return less(q, dt, b, a);
    case KN_OP_CMPLE: return either(q, less(q, dt, a, b), equal(q, dt, a, b));
    case KN_OP_CMPGE: return either(q, less(q, dt, b, a), equal(q, dt, a, b));
    case KN_OP_CMPEQ: return equal(q, dt, a, b);
    default: return Z3_mk_not(q->c, equal(q, dt, a, b));
    }
}

static Z3_ast bool_op(kz_prover *q, int op, Z3_ast a, Z3_ast b) {
    switch (op) {
    case KN_OP_ADD:
    case KN_OP_MAX:
    case KN_OP_OR: return either(q, a, b);
    case KN_OP_MUL:
    case KN_OP_MIN:
    case KN_OP_AND: return both(q, a, b);
    case KN_OP_SUB:
    case KN_OP_XOR: return Z3_mk_xor(q->c, a, b);
    case KN_OP_NEG:
    case KN_OP_TRUNC: return a;
    case KN_OP_NOT: return Z3_mk_not(q->c, a);
    default: break;
    }
    q->cannot = true;
    return a;
}

static Z3_ast float_op(kz_prover *q, int op, int dt, Z3_ast a, Z3_ast b, Z3_ast d) {
    Z3_context c    = q->c;
    Z3_ast     near = Z3_mk_fpa_rne(c), nan = Z3_mk_fpa_is_nan(c, a);
    switch (op) {
    case KN_OP_ADD: return Z3_mk_fpa_add(c, near, a, b);
    case KN_OP_SUB: return Z3_mk_fpa_sub(c, near, a, b);
    case KN_OP_MUL: return Z3_mk_fpa_mul(c, near, a, b);
    case KN_OP_DIV: return Z3_mk_fpa_div(c, near, a, b);
    case KN_OP_RECIP: return Z3_mk_fpa_div(c, near, kz_numeral(q, dt, (kn_scalar){.f = 1}), a);
    case KN_OP_NEG: return Z3_mk_fpa_neg(c, a);
    case KN_OP_SQRT: return Z3_mk_fpa_sqrt(c, near, a);
    case KN_OP_TRUNC: return Z3_mk_fpa_round_to_integral(c, Z3_mk_fpa_rtz(c), a);
    case KN_OP_MULACC: return Z3_mk_fpa_fma(c, near, a, b, d);
    case KN_OP_MAX: return Z3_mk_ite(c, either(q, nan, Z3_mk_fpa_geq(c, a, b)), a, b);
    case KN_OP_MIN: return Z3_mk_ite(c, either(q, nan, Z3_mk_fpa_leq(c, a, b)), a, b);
    default: break;
    }
    q->cannot = true;
    return a;
}

/* Quotients round towards minus infinity; by zero the quotient is 0 and the remainder all. */
static Z3_ast divide(kz_prover *q, bool mod, int dt, Z3_ast a, Z3_ast b) {
    Z3_context c    = q->c;
    int        bits = bits_of(q, dt);
    Z3_ast     zero = kz_whole(q, bits, 0), none = Z3_mk_eq(c, b, zero), r;
    if (unbounded(q, dt)) { /* Z3's leave no negative remainder */
        Z3_ast up = Z3_mk_gt(c, b, zero), na = Z3_mk_unary_minus(c, a), nb = Z3_mk_unary_minus(c, b);
        if (mod)
            r = Z3_mk_ite(c, up, Z3_mk_mod(c, a, b), Z3_mk_unary_minus(c, Z3_mk_mod(c, na, nb)));
        else
            r = Z3_mk_ite(c, up, Z3_mk_div(c, a, b), Z3_mk_div(c, na, nb));
    } else if (!is_signed(dt)) {
        r = mod ? Z3_mk_bvurem(c, a, b) : Z3_mk_bvudiv(c, a, b);
    } else if (mod) {
        r = Z3_mk_bvsmod(c, a, b);
    } else {
        Z3_ast part = Z3_mk_not(c, Z3_mk_eq(c, Z3_mk_bvsrem(c, a, b), zero));
        Z3_ast down = both(q, part, Z3_mk_xor(c, Z3_mk_bvslt(c, a, zero), Z3_mk_bvslt(c, b, zero)));
        r           = Z3_mk_bvsdiv(c, a, b);
        r           = Z3_mk_ite(c, down, Z3_mk_bvsub(c, r, kz_whole(q, bits, 1)), r);
    }
    return Z3_mk_ite(c, none, mod ? a : zero, r);
}

static Z3_ast unbounded_op(kz_prover *q, int op, Z3_ast a, Z3_ast b, Z3_ast d) {
    Z3_context c = q->c;
    switch (op) {
    case KN_OP_ADD: return Z3_mk_add(c, 2, (Z3_ast[]){a, b});
    case KN_OP_SUB: return Z3_mk_sub(c, 2, (Z3_ast[]){a, b});
    case KN_OP_MUL: return Z3_mk_mul(c, 2, (Z3_ast[]){a, b});
    case KN_OP_NEG: return Z3_mk_unary_minus(c, a);
    case KN_OP_MULACC: return Z3_mk_add(c, 2, (Z3_ast[]){Z3_mk_mul(c, 2, (Z3_ast[]){a, b}), d});
    case KN_OP_TRUNC: return a;
    default: break;
    }
    q->cannot = true;
    return a;
}

static Z3_ast wrapping_op(kz_prover *q, int op, int dt, Z3_ast a, Z3_ast b, Z3_ast d) {
    Z3_context c = q->c;
    switch (op) {
    case KN_OP_ADD: return Z3_mk_bvadd(c, a, b);
    case KN_OP_SUB: return Z3_mk_bvsub(c, a, b);
    case KN_OP_MUL: return Z3_mk_bvmul(c, a, b);
    case KN_OP_NEG: return Z3_mk_bvneg(c, a);
    case KN_OP_XOR: return Z3_mk_bvxor(c, a, b);
    case KN_OP_OR: return Z3_mk_bvor(c, a, b);
    case KN_OP_AND: return Z3_mk_bvand(c, a, b);
    case KN_OP_NOT: return Z3_mk_bvnot(c, a);
    case KN_OP_SHL: return Z3_mk_bvshl(c, a, b); /* a count out of range, or below 0, is a large one to Z3 */
    case KN_OP_SHR: return is_signed(dt) ? Z3_mk_bvashr(c, a, b) : Z3_mk_bvlshr(c, a, b);
    case KN_OP_MULACC: return Z3_mk_bvadd(c, Z3_mk_bvmul(c, a, b), d);
    case KN_OP_TRUNC: return a;
    default: break;
    }
    q->cannot = true;
    return a;
}

static Z3_ast resize(kz_prover *q, Z3_ast a, int from, int to, bool sign) {
    if (from > to) return Z3_mk_extract(q->c, (unsigned)to - 1, 0, a);
    if (from == to) return a;
    return sign ? Z3_mk_sign_ext(q->c, (unsigned)(to - from), a) : Z3_mk_zero_ext(q->c, (unsigned)(to - from), a);
}

/* Rounds towards zero; what is out of range becomes the nearest that is in it, NaN 0. */
static Z3_ast float_to_int(kz_prover *q, int from, int to, Z3_ast a) {
    Z3_context c    = q->c;
    Z3_ast     near = Z3_mk_fpa_rne(c), wide = a, zero = kz_numeral(q, to, (kn_scalar){0}), v;
    int        bits = bits_of(q, to);
    double     top = ldexp(1, is_signed(to) ? bits - 1 : bits), low = is_signed(to) ? -top : 0;
    kn_scalar  most = {.i = to == KN_U64 ? -1 : kn_dtypes[to].max}, least = {.i = kn_dtypes[to].min};
    if (from != KN_F64) wide = Z3_mk_fpa_to_fp_float(c, near, a, sort_of(q, KN_F64));
    v = is_signed(to) ? Z3_mk_fpa_to_sbv(c, Z3_mk_fpa_rtz(c), a, (unsigned)bits)
                      : Z3_mk_fpa_to_ubv(c, Z3_mk_fpa_rtz(c), a, (unsigned)bits);
    v = Z3_mk_ite(c, Z3_mk_fpa_geq(c, wide, kz_numeral(q, KN_F64, (kn_scalar){.f = top})), kz_numeral(q, to, most), v);
    v = Z3_mk_ite(c, Z3_mk_fpa_leq(c, wide, kz_numeral(q, KN_F64, (kn_scalar){.f = low})), kz_numeral(q, to, least), v);
    return Z3_mk_ite(c, Z3_mk_fpa_is_nan(c, a), zero, v);
}

static Z3_ast cast(kz_prover *q, int from, int to, Z3_ast a) {
    Z3_context c = q->c;
    if (from == to) return a;
    if (unbounded(q, from) || unbounded(q, to)) {
        q->cannot = true;
        return a;
    }
    if (to == KN_BOOL) return Z3_mk_not(c, equal(q, from, a, kz_numeral(q, from, (kn_scalar){0})));
    if (from == KN_BOOL) {
        kn_scalar one = {.i = 1};
        if (kn_is_float(to)) one.f = 1;
        return Z3_mk_ite(c, a, kz_numeral(q, to, one), kz_numeral(q, to, (kn_scalar){0}));
    }
    if (kn_is_float(from)) {
        if (!kn_is_float(to)) return float_to_int(q, from, to, a);
        return Z3_mk_fpa_to_fp_float(c, Z3_mk_fpa_rne(c), a, sort_of(q, to));
    }
    if (!kn_is_float(to)) return resize(q, a, bits_of(q, from), bits_of(q, to), is_signed(from));
    return is_signed(from) ? Z3_mk_fpa_to_fp_signed(c, Z3_mk_fpa_rne(c), a, sort_of(q, to))
                           : Z3_mk_fpa_to_fp_unsigned(c, Z3_mk_fpa_rne(c), a, sort_of(q, to));
}

/* The exact result fits. (By wider numbers: Z3's own predicate is wrong about some products of constants.) */
static Z3_ast does_not_overflow(kz_prover *q, int op, int bits, Z3_ast a, Z3_ast b) {
    int    wide = op == KN_OP_MUL ? 2 * bits : bits + 1;
    Z3_ast x = resize(q, a, bits, wide, true), y = resize(q, b, bits, wide, true);
    Z3_ast r = wrapping_op(q, op, KN_INDEX, x, y, y);
    return Z3_mk_eq(q->c, r, resize(q, resize(q, r, wide, bits, true), bits, wide, true));
}

Z3_ast kz_apply(kz_prover *q, int op, int out, const int *in, const Z3_ast *s, int n) {
    Z3_ast a = s[0], b = s[n > 1 ? 1 : 0], d = s[n > 2 ? 2 : 0];
    if (op == KN_OP_WHERE) return Z3_mk_ite(q->c, a, b, d);
    if (op == KN_OP_CAST) return cast(q, in[0], out, a);
    if (kz_compares(op)) return compare(q, op, in[0], a, b);
    if (out == KN_BOOL) return bool_op(q, op, a, b);
    if (kn_is_float(out)) return float_op(q, op, out, a, b, d);
    if (op == KN_OP_MAX) return Z3_mk_ite(q->c, less(q, out, a, b), b, a);
    if (op == KN_OP_MIN) return Z3_mk_ite(q->c, less(q, out, a, b), a, b);
    bool wraps = !unbounded(q, out);
    if (wraps && q->no_overflow && (op == KN_OP_ADD || op == KN_OP_SUB || op == KN_OP_MUL || op == KN_OP_NEG))
        suppose(q, does_not_overflow(q, op, bits_of(q, out), a, b));
    if (op == KN_OP_IDIV || op == KN_OP_MOD) return divide(q, op == KN_OP_MOD, out, a, b);
    return wraps ? wrapping_op(q, op, out, a, b, d) : unbounded_op(q, op, a, b, d);
}

/* ---- conditions and computed constants --------------------------------------------------------------------------- */

/* An expression is computed in `bits` bits, or in integers. A truth is a Bool until a number is asked for. */
typedef struct term {
    Z3_ast a;
    bool   truth;
} term;

static Z3_ast as_number(kz_prover *q, term t, int bits) {
    return t.truth ? Z3_mk_ite(q->c, t.a, kz_whole(q, bits, 1), kz_whole(q, bits, 0)) : t.a;
}

static Z3_ast as_truth(kz_prover *q, term t, int bits) {
    return t.truth ? t.a : Z3_mk_not(q->c, Z3_mk_eq(q->c, t.a, kz_whole(q, bits, 0)));
}

static Z3_ast in_expression(kz_prover *q, int dt, Z3_ast a, int bits) {
    if (dt == KN_BOOL) return as_number(q, (term){a, true}, bits);
    if (bits == KN_WIDTH_ALL) return a;
    return resize(q, a, bits_of(q, dt), bits, is_signed(dt));
}

static void split_cases(kz_prover *q, Z3_ast t, int bits, bool shift) {
    if (q->nsplit) {
        q->cannot = true;
        return;
    }
    for (int k = 0; k < (shift ? bits : bits - 1); k++)
        q->split[q->nsplit++] = Z3_mk_eq(q->c, t, kz_whole(q, bits, shift ? k : (int64_t)1 << k));
}

static Z3_ast call_term(kz_prover *q, const char *name, const Z3_ast *s, int bits, bool *truth) {
    Z3_context c   = q->c;
    bool       all = bits == KN_WIDTH_ALL;
    *truth         = true;
    if (!strcmp(name, "add_ok") || !strcmp(name, "mul_ok")) /* of integers nothing overflows, and nothing is supposed */
        return all ? Z3_mk_true(c) : does_not_overflow(q, name[0] == 'a' ? KN_OP_ADD : KN_OP_MUL, bits, s[0], s[1]);
    if (!strcmp(name, "pow2") && !all) {
        split_cases(q, s[0], bits, false);
        return Z3_mk_or(c, (unsigned)q->nsplit, q->split);
    }
    if (!strcmp(name, "log2") && !all) {
        Z3_ast r = kz_whole(q, bits, -1);
        for (int k = 0; k < bits - 1; k++)
            r = Z3_mk_ite(c, Z3_mk_bvsge(c, s[0], kz_whole(q, bits, (int64_t)1 << k)), kz_whole(q, bits, k), r);
        *truth = false;
        return r;
    }
    q->cannot = true;
    return Z3_mk_true(c);
}

static Z3_ast number_op(kz_prover *q, const char *op, Z3_ast a, Z3_ast b, int bits) {
    Z3_context c   = q->c;
    bool       all = bits == KN_WIDTH_ALL;
    int        as = KN_INDEX, had = q->index;
    Z3_ast     r = a;
    q->index     = bits; /* an expression's numbers are like an index of its width */
    if (op[1] == '<' || op[1] == '>') {
        if (all)
            q->cannot = true;
        else if (op[0] == '<') {
            split_cases(q, b, bits, true);
            r = Z3_mk_bvshl(c, a, b);
        } else
            r = Z3_mk_bvashr(c, a, b);
    } else if (op[0] == '/' || op[0] == '%')
        r = divide(q, op[0] == '%', as, a, b);
    else {
        int dialect = op[0] == '+'   ? KN_OP_ADD
                      : op[0] == '-' ? KN_OP_SUB
                      : op[0] == '*' ? KN_OP_MUL
                      : op[0] == '&' ? KN_OP_AND
                      : op[0] == '|' ? KN_OP_OR
                                     : KN_OP_XOR;
        r           = all ? unbounded_op(q, dialect, a, b, b) : wrapping_op(q, dialect, as, a, b, b);
    }
    q->index = had;
    return r;
}

static term operator_term(kz_prover *q, const char *op, const term *s, int n, int bits) {
    Z3_context c   = q->c;
    bool       all = bits == KN_WIDTH_ALL;
    if (!strcmp(op, "&&")) return (term){both(q, as_truth(q, s[0], bits), as_truth(q, s[1], bits)), true};
    if (!strcmp(op, "||") || !strcmp(op, "!")) {
        if (all) q->cannot = true; /* add_ok may be taken as true where nothing turns it */
        Z3_ast a = as_truth(q, s[0], bits);
        return (term){op[0] == '!' ? Z3_mk_not(c, a) : either(q, a, as_truth(q, s[1], bits)), true};
    }
    Z3_ast a = as_number(q, s[0], bits), b = as_number(q, s[n > 1 ? 1 : 0], bits);
    if (n == 1 && op[0] == '-') return (term){all ? Z3_mk_unary_minus(c, a) : Z3_mk_bvneg(c, a), false};
    if (n == 1) {
        if (all) q->cannot = true;
        return (term){all ? a : Z3_mk_bvnot(c, a), false};
    }
    static const struct {
        const char *name;
        int         op;
    } table[] = {{"==", KN_OP_CMPEQ}, {"!=", KN_OP_CMPNE}, {"<", KN_OP_CMPLT},
                 {"<=", KN_OP_CMPLE}, {">", KN_OP_CMPGT},  {">=", KN_OP_CMPGE}};
    for (int k = 0; k < KN_COUNT(table); k++) {
        if (strcmp(table[k].name, op) != 0) continue;
        int had  = q->index;
        q->index = bits;
        Z3_ast r = compare(q, table[k].op, KN_INDEX, a, b);
        q->index = had;
        return (term){r, true};
    }
    return (term){number_op(q, op, a, b, bits), false};
}

static int64_t of_dtype(const char *name, int dt) {
    if (!strcmp(name, "dtype")) return dt;
    if (!strcmp(name, "bytes")) return kn_dsize(dt);
    if (!strcmp(name, "bits")) return 8 * kn_dsize(dt);
    if (!strcmp(name, "is_float")) return kn_is_float(dt);
    return !strcmp(name, "is_int") ? kn_is_int(dt) : kn_dtype_signed(dt);
}

static term compute(kz_prover *q, const kn_proof_term *t, int bits) {
    term st[KZ_DEPTH];
    int  top = 0;
    for (; t->kind != KN_TERM_END; t++) {
        term  *s = st + top - t->n;
        Z3_ast a[4];
        term   r = {0};
        switch (t->kind) {
        case KN_TERM_NUM: r.a = kz_whole(q, bits, t->num); break;
        case KN_TERM_VAR: r.a = in_expression(q, q->dt[q->p->var_type[t->at]], q->var[t->at], bits); break;
        case KN_TERM_MIN: r.a = q->lo[t->at]; break;
        case KN_TERM_MAX: r.a = q->hi[t->at]; break;
        case KN_TERM_OF_DTYPE: r.a = kz_whole(q, bits, of_dtype(t->name, q->dt[t->type])); break;
        case KN_TERM_HOLDS:
            r = (term){kn_dtype_holds(q->dt[t->type], q->dt[t->at]) ? Z3_mk_true(q->c) : Z3_mk_false(q->c), true};
            break;
        case KN_TERM_FITS: {
            const kn_dtype_info *d = &kn_dtypes[q->dt[t->type]];
            Z3_ast               v = as_number(q, s[0], bits);
            r.truth                = true;
            if (bits != 64)
                r.a = Z3_mk_true(q->c); /* of an index that is all there is */
            else if (kn_is_float(q->dt[t->type]))
                r.a = Z3_mk_false(q->c);
            else
                r.a = both(q, Z3_mk_bvsge(q->c, v, kz_whole(q, 64, d->min)),
                           Z3_mk_bvsle(q->c, v, kz_whole(q, 64, d->max)));
            break;
        }
        case KN_TERM_CALL:
            for (int i = 0; i < t->n; i++) a[i] = as_number(q, s[i], bits);
            r.a = call_term(q, t->name, a, bits, &r.truth);
            break;
        default: r = operator_term(q, t->name, s, t->n, bits); break;
        }
        top -= t->n;
        st[top++] = r;
    }
    return st[0];
}

/* The width that expressions are computed in: 64 bits, but for an index that is given fewer, or none. */
static int expression_bits(const kz_prover *q) {
    for (int t = 0; t < q->p->ntypes; t++)
        if (q->dt[t] == KN_INDEX) return q->index;
    return 64;
}

/* + - * and the bit operations can be computed in the bits that are kept. */
static bool keeps_low_bits(const kn_proof_term *t) {
    for (; t->kind != KN_TERM_END; t++)
        if (t->kind != KN_TERM_NUM && t->kind != KN_TERM_VAR &&
            (t->kind != KN_TERM_OP || t->name[1] || !strchr("+-*&|^~", t->name[0])))
            return false;
    return true;
}

Z3_ast kz_constant(kz_prover *q, const kn_proof_term *t, int dt) {
    int bits = expression_bits(q);
    if (dt == KN_BOOL) return as_truth(q, compute(q, t, bits), bits);
    int to = bits_of(q, dt);
    if (bits == KN_WIDTH_ALL || !keeps_low_bits(t)) {
        Z3_ast v = as_number(q, compute(q, t, bits), bits);
        return bits == KN_WIDTH_ALL ? v : resize(q, v, bits, to, true);
    }
    return as_number(q, compute(q, t, to), to);
}

Z3_ast kz_condition(kz_prover *q) {
    int bits = expression_bits(q);
    return as_truth(q, compute(q, q->p->cond_terms, bits), bits);
}

/* ---- a rule with its dtypes chosen ------------------------------------------------------------------------------- */

static Z3_ast evaluate(kz_prover *q, const kn_proof_step *steps, int n) {
    Z3_ast st[KZ_DEPTH];
    int    top = 0, types[KZ_DEPTH] = {0};
    for (int k = 0; k < n; k++) {
        const kn_proof_step *s  = &steps[k];
        int                  dt = q->dt[s->type], in[3] = {0};
        kn_scalar            v;
        top -= s->nsrc;
        for (int i = 0; i < s->nsrc && i < 3; i++) in[i] = types[top + i];
        switch (s->kind) {
        case KN_PROOF_VAR: st[top] = q->var[s->at]; break;
        case KN_PROOF_EXPR: st[top] = kz_constant(q, q->p->expr_terms[s->at], dt); break;
        case KN_PROOF_OP: st[top] = kz_apply(q, s->op, dt, in, st + top, s->nsrc); break;
        default:
            v       = s->kind == KN_PROOF_FLOAT ? kn_cast_scalar((kn_scalar){.f = s->real}, KN_F64, dt)
                                                : kn_cast_scalar((kn_scalar){.i = s->num}, KN_I64, dt);
            st[top] = kz_numeral(q, dt, v);
        }
        types[top++] = dt;
    }
    return st[0];
}

static void declare_variables(kz_prover *q, bool fast) {
    Z3_context c    = q->c;
    int        bits = expression_bits(q);
    for (int k = 0; k < q->p->nvars; k++) {
        int     dt = q->dt[q->p->var_type[k]];
        Z3_sort e  = bits == KN_WIDTH_ALL ? Z3_mk_int_sort(c) : Z3_mk_bv_sort(c, (unsigned)bits);
        q->var[k]  = dt == KN_BOOL ? kz_numeral(q, dt, (kn_scalar){.i = q->bools >> k & 1})
                                   : Z3_mk_const(c, Z3_mk_int_symbol(c, 3 * k), sort_of(q, dt));
        q->lo[k]   = Z3_mk_const(c, Z3_mk_int_symbol(c, 3 * k + 1), e);
        q->hi[k]   = Z3_mk_const(c, Z3_mk_int_symbol(c, 3 * k + 2), e);
        if (fast && kn_is_float(dt))
            suppose(q, Z3_mk_not(c, either(q, Z3_mk_fpa_is_nan(c, q->var[k]), Z3_mk_fpa_is_infinite(c, q->var[k]))));
        if (kn_is_float(dt)) continue;
        Z3_ast v    = in_expression(q, dt, q->var[k], bits);
        bool   read = q->p->bounds >> k & 1, value = q->p->by_value >> k & 1;
        if (dt == KN_U64 && (read || value)) suppose(q, Z3_mk_bvsge(c, v, kz_whole(q, bits, 0)));
        if (!read) continue;
        bool all = bits == KN_WIDTH_ALL;
        suppose(q, all ? Z3_mk_le(c, q->lo[k], v) : Z3_mk_bvsle(c, q->lo[k], v));
        suppose(q, all ? Z3_mk_le(c, v, q->hi[k]) : Z3_mk_bvsle(c, v, q->hi[k]));
    }
}

/* A pattern's literal that the dtype does not have never matches there. */
static bool literal_exists(const kz_prover *q) {
    for (int i = 0; i < q->p->nlhs; i++) {
        const kn_proof_step *s = &q->p->lhs[i];
        if (s->kind == KN_PROOF_FLOAT && kn_cast_scalar((kn_scalar){.f = s->real}, KN_F64, q->dt[s->type]).f != s->real)
            return false;
    }
    return true;
}

static const char *logic_of(const kz_prover *q) {
    for (int t = 0; t < q->p->ntypes; t++) {
        if (kn_is_float(q->dt[t])) return "QF_FPBV";
        if (unbounded(q, q->dt[t])) return "QF_NIA";
    }
    return "QF_BV";
}

static kz_verdict ask(kz_prover *q, Z3_ast differs, double until, char *text, size_t cap) {
    Z3_context c    = q->c;
    Z3_params  p    = Z3_mk_params(c);
    double     left = until - kn_now();
    Z3_params_inc_ref(c, p);
    Z3_params_set_bool(c, p, Z3_mk_string_symbol(c, "som"), true);
    differs = Z3_simplify_ex(c, differs, p);
    text[0] = 0;
    if (Z3_get_bool_value(c, differs) == Z3_L_FALSE) return KZ_HOLDS;
    if (Z3_get_bool_value(c, differs) == Z3_L_TRUE) return KZ_WRONG;
    if (left <= 0) return KZ_UNKNOWN;
    p = Z3_mk_params(c);
    Z3_params_inc_ref(c, p);
    Z3_params_set_uint(c, p, Z3_mk_string_symbol(c, "timeout"), (unsigned)(left * 1000) + 1);
    Z3_solver s = Z3_mk_solver_for_logic(c, Z3_mk_string_symbol(c, logic_of(q)));
    Z3_solver_inc_ref(c, s);
    Z3_solver_set_params(c, s, p);
    Z3_solver_assert(c, s, differs);
    Z3_lbool r = Z3_solver_check(c, s);
    if (r == Z3_L_TRUE) snprintf(text, cap, "%.300s", Z3_model_to_string(c, Z3_solver_get_model(c, s)));
    Z3_solver_dec_ref(c, s);
    return r == Z3_L_FALSE ? KZ_HOLDS : r == Z3_L_TRUE ? KZ_WRONG : KZ_UNKNOWN;
}

static void z3_failed(Z3_context c, Z3_error_code e) {
    fprintf(stderr, "Z3: %s\n", Z3_get_error_msg(c, e));
    exit(1);
}

Z3_context kz_context(void) {
    Z3_config  config = Z3_mk_config();
    Z3_context c      = Z3_mk_context(config);
    Z3_del_config(config);
    Z3_set_error_handler(c, z3_failed);
    return c;
}

/* No assignment under the condition tells the sides apart, for the dtypes and bools in q. */
static kz_verdict prove_case(kz_prover *q, double until, char *text, size_t cap) {
    const kn_proof *p     = q->p;
    const char     *mark  = kn_rules[p->rule].exact;
    kz_verdict      worst = KZ_HOLDS;
    q->nassume = q->nsplit = 0;
    q->cannot              = false;
    q->no_overflow         = !strcmp(mark, "index");
    bool fast              = !strcmp(mark, "fast");
    int  dt                = q->dt[p->lhs[p->nlhs - 1].type];
    declare_variables(q, fast);
    if (p->cond_terms) {
        suppose(q, kz_condition(q));
    }
    Z3_ast l = evaluate(q, p->lhs, p->nlhs), r = evaluate(q, p->rhs, p->nrhs);
    Z3_ast same    = fast ? equal(q, dt, l, r) : Z3_mk_eq(q->c, l, r);
    Z3_ast given   = Z3_mk_and(q->c, (unsigned)q->nassume, q->assume);
    Z3_ast differs = both(q, given, Z3_mk_not(q->c, same));
    if (q->cannot)
        worst = KZ_UNKNOWN;
    else if (!q->nsplit)
        worst = ask(q, differs, until, text, cap);
    else { /* no case but these, and each of these */
        Z3_ast other = Z3_mk_not(q->c, Z3_mk_or(q->c, (unsigned)q->nsplit, q->split));
        worst        = ask(q, both(q, given, other), until, text, cap);
        for (int k = 0; k < q->nsplit && worst == KZ_HOLDS; k++)
            worst = ask(q, both(q, q->split[k], differs), until, text, cap);
    }
    /* What can never be so proves nothing. */
    if (worst == KZ_HOLDS && q->nassume && ask(q, given, kn_now() + 5, text, cap) != KZ_WRONG) worst = KZ_NOTHING;
    return worst;
}

kz_verdict kz_prove(kz_prover *q, double until, char *text, size_t cap) {
    unsigned   mask  = 0;
    kz_verdict found = KZ_NOTHING;
    if (!literal_exists(q)) return KZ_NOTHING;
    for (int k = 0; k < q->p->nvars; k++) mask |= (unsigned)(q->dt[q->p->var_type[k]] == KN_BOOL) << k;
    q->bools = 0;
    do {
        kz_verdict v = prove_case(q, until, text, cap);
        if (v > KZ_NOTHING) return v;
        if (v == KZ_HOLDS) found = KZ_HOLDS;
        q->bools = (q->bools - mask) & mask; /* the next subset */
    } while (q->bools);
    return found;
}
