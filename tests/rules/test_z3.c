/* test_z3.c - every declarative value-preserving rule, proved by Z3.
 *
 * widths.def has a row a rule: how wide the values are for which Z3 finds that no assignment tells the sides apart.
 *   ints    every choice of the rule's dtypes among bool and the integers of at most so many bits (index has 64);
 *           for @index rules: index of so many bits, or ALL, the integers without any bound
 *   floats  likewise f16 and bf16 (16), f32 (32), f64 (64); 0: exhaustion alone (test_proofs), which has all of f8
 * Index arithmetic is proved where nothing overflows, on either side: that is what @index says, and what the verifier's
 * rule index_overflow sees to. All other integers wrap. Ops mean here what kn_alu says, conditions what the matcher
 * computes: both are compared on samples first.
 *
 *   test_rules_z3                 rows that are proved within a blink
 *   test_rules_z3 --all [NAME]    every row at its width; NAME: those of a rule or group
 *   test_rules_z3 --search [NAME] the widest that is proved within 60 s, as rows */
#include "check.h"
#include "rules/widths.h"
#include "rules_proof.h"

#ifndef KN_HAVE_Z3
int main(void) {
    printf("     built without Z3 (libz3-dev)\n");
    return 77;
}
#else

#include "rewrite/match.h"
#include "rewrite/rewrite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <z3.h>

enum { VARS = 16, TYPES = 64, DEPTH = 32, ASSUME = 96, CASES = 64 };

typedef enum verdict { HOLDS, NOTHING, UNKNOWN, WRONG } verdict; /* the worst of several is the largest */

typedef struct prover {
    const kn_proof *p;
    Z3_context      c;
    int             dt[TYPES];
    int             index; /* bits of an index; KN_WIDTH_ALL: an integer */
    bool            no_overflow;
    unsigned        bools; /* bits of variables: bools are tried one by one, which leaves straight arithmetic */
    Z3_ast          var[VARS], lo[VARS], hi[VARS];
    Z3_ast          assume[ASSUME];
    int             nassume;
    Z3_ast          split[CASES]; /* the cases of a power of two, proved one by one */
    int             nsplit;
    bool            cannot; /* an op or a condition that Z3 has no words for */
} prover;

/* ---- sorts and numerals ------------------------------------------------------------------------------------------ */

static int bits_of(const prover *q, int dt) {
    return dt == KN_BOOL ? 1 : dt == KN_INDEX ? q->index : 8 * kn_dsize(dt);
}

static bool is_signed(int dt) {
    return kn_dtypes[dt].kind == 'I';
}

static bool unbounded(const prover *q, int dt) {
    return dt == KN_INDEX && q->index == KN_WIDTH_ALL;
}

static Z3_sort sort_of(prover *q, int dt) {
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

static Z3_ast numeral(prover *q, int dt, kn_scalar v) {
    if (dt == KN_BOOL) return v.i ? Z3_mk_true(q->c) : Z3_mk_false(q->c);
    if (!kn_is_float(dt)) return Z3_mk_int64(q->c, v.i, sort_of(q, dt));
    uint64_t bits = 0; /* by its bits: Z3_mk_fpa_numeral_double loses subnormals */
    kn_store_scalar(&bits, dt, v);
    return Z3_mk_fpa_to_fp_bv(q->c, Z3_mk_unsigned_int64(q->c, bits, Z3_mk_bv_sort(q->c, (unsigned)bits_of(q, dt))),
                              sort_of(q, dt));
}

static Z3_ast whole(prover *q, int bits, int64_t v) {
    return Z3_mk_int64(q->c, v, bits == KN_WIDTH_ALL ? Z3_mk_int_sort(q->c) : Z3_mk_bv_sort(q->c, (unsigned)bits));
}

static Z3_ast both(prover *q, Z3_ast a, Z3_ast b) {
    return Z3_mk_and(q->c, 2, (Z3_ast[]){a, b});
}
static Z3_ast either(prover *q, Z3_ast a, Z3_ast b) {
    return Z3_mk_or(q->c, 2, (Z3_ast[]){a, b});
}

static void suppose(prover *q, Z3_ast a) {
    if (q->nassume == ASSUME)
        q->cannot = true;
    else
        q->assume[q->nassume++] = a;
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static Z3_ast less(prover *q, int dt, Z3_ast a, Z3_ast b) {
    if (dt == KN_BOOL) return both(q, Z3_mk_not(q->c, a), b);
    if (kn_is_float(dt)) return Z3_mk_fpa_lt(q->c, a, b);
    if (unbounded(q, dt)) return Z3_mk_lt(q->c, a, b);
    return is_signed(dt) ? Z3_mk_bvslt(q->c, a, b) : Z3_mk_bvult(q->c, a, b);
}

static Z3_ast equal(prover *q, int dt, Z3_ast a, Z3_ast b) {
    return kn_is_float(dt) ? Z3_mk_fpa_eq(q->c, a, b) : Z3_mk_eq(q->c, a, b);
}

static bool compares(int op) {
    return op == KN_OP_CMPLT || op == KN_OP_CMPGT || op == KN_OP_CMPLE || op == KN_OP_CMPGE || op == KN_OP_CMPEQ ||
           op == KN_OP_CMPNE;
}

static Z3_ast compare(prover *q, int op, int dt, Z3_ast a, Z3_ast b) {
    switch (op) {
    case KN_OP_CMPLT: return less(q, dt, a, b);
    case KN_OP_CMPGT: return less(q, dt, b, a);
    case KN_OP_CMPLE: return either(q, less(q, dt, a, b), equal(q, dt, a, b));
    case KN_OP_CMPGE: return either(q, less(q, dt, b, a), equal(q, dt, a, b));
    case KN_OP_CMPEQ: return equal(q, dt, a, b);
    default: return Z3_mk_not(q->c, equal(q, dt, a, b));
    }
}

static Z3_ast bool_op(prover *q, int op, Z3_ast a, Z3_ast b) {
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

static Z3_ast float_op(prover *q, int op, int dt, Z3_ast a, Z3_ast b, Z3_ast d) {
    Z3_context c    = q->c;
    Z3_ast     near = Z3_mk_fpa_rne(c), nan = Z3_mk_fpa_is_nan(c, a);
    switch (op) {
    case KN_OP_ADD: return Z3_mk_fpa_add(c, near, a, b);
    case KN_OP_SUB: return Z3_mk_fpa_sub(c, near, a, b);
    case KN_OP_MUL: return Z3_mk_fpa_mul(c, near, a, b);
    case KN_OP_DIV: return Z3_mk_fpa_div(c, near, a, b);
    case KN_OP_RECIP: return Z3_mk_fpa_div(c, near, numeral(q, dt, (kn_scalar){.f = 1}), a);
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
static Z3_ast divide(prover *q, bool mod, int dt, Z3_ast a, Z3_ast b) {
    Z3_context c    = q->c;
    int        bits = bits_of(q, dt);
    Z3_ast     zero = whole(q, bits, 0), none = Z3_mk_eq(c, b, zero), r;
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
        r           = Z3_mk_ite(c, down, Z3_mk_bvsub(c, r, whole(q, bits, 1)), r);
    }
    return Z3_mk_ite(c, none, mod ? a : zero, r);
}

static Z3_ast unbounded_op(prover *q, int op, Z3_ast a, Z3_ast b, Z3_ast d) {
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

static Z3_ast wrapping_op(prover *q, int op, int dt, Z3_ast a, Z3_ast b, Z3_ast d) {
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

static Z3_ast resize(prover *q, Z3_ast a, int from, int to, bool sign) {
    if (from > to) return Z3_mk_extract(q->c, (unsigned)to - 1, 0, a);
    if (from == to) return a;
    return sign ? Z3_mk_sign_ext(q->c, (unsigned)(to - from), a) : Z3_mk_zero_ext(q->c, (unsigned)(to - from), a);
}

/* Rounds towards zero; what is out of range becomes the nearest that is in it, NaN 0. */
static Z3_ast float_to_int(prover *q, int from, int to, Z3_ast a) {
    Z3_context c    = q->c;
    Z3_ast     near = Z3_mk_fpa_rne(c), wide = a, zero = numeral(q, to, (kn_scalar){0}), v;
    int        bits = bits_of(q, to);
    double     top = ldexp(1, is_signed(to) ? bits - 1 : bits), low = is_signed(to) ? -top : 0;
    kn_scalar  most = {.i = to == KN_U64 ? -1 : kn_dtypes[to].max}, least = {.i = kn_dtypes[to].min};
    if (from != KN_F64) wide = Z3_mk_fpa_to_fp_float(c, near, a, sort_of(q, KN_F64));
    v = is_signed(to) ? Z3_mk_fpa_to_sbv(c, Z3_mk_fpa_rtz(c), a, (unsigned)bits)
                      : Z3_mk_fpa_to_ubv(c, Z3_mk_fpa_rtz(c), a, (unsigned)bits);
    v = Z3_mk_ite(c, Z3_mk_fpa_geq(c, wide, numeral(q, KN_F64, (kn_scalar){.f = top})), numeral(q, to, most), v);
    v = Z3_mk_ite(c, Z3_mk_fpa_leq(c, wide, numeral(q, KN_F64, (kn_scalar){.f = low})), numeral(q, to, least), v);
    return Z3_mk_ite(c, Z3_mk_fpa_is_nan(c, a), zero, v);
}

static Z3_ast cast(prover *q, int from, int to, Z3_ast a) {
    Z3_context c = q->c;
    if (from == to) return a;
    if (unbounded(q, from) || unbounded(q, to)) {
        q->cannot = true;
        return a;
    }
    if (to == KN_BOOL) return Z3_mk_not(c, equal(q, from, a, numeral(q, from, (kn_scalar){0})));
    if (from == KN_BOOL) {
        kn_scalar one = {.i = 1};
        if (kn_is_float(to)) one.f = 1;
        return Z3_mk_ite(c, a, numeral(q, to, one), numeral(q, to, (kn_scalar){0}));
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
static Z3_ast does_not_overflow(prover *q, int op, int bits, Z3_ast a, Z3_ast b) {
    int    wide = op == KN_OP_MUL ? 2 * bits : bits + 1;
    Z3_ast x = resize(q, a, bits, wide, true), y = resize(q, b, bits, wide, true);
    Z3_ast r = wrapping_op(q, op, KN_INDEX, x, y, y);
    return Z3_mk_eq(q->c, r, resize(q, resize(q, r, wide, bits, true), bits, wide, true));
}

static Z3_ast apply(prover *q, int op, int out, const int *in, const Z3_ast *s, int n) {
    Z3_ast a = s[0], b = s[n > 1 ? 1 : 0], d = s[n > 2 ? 2 : 0];
    if (op == KN_OP_WHERE) return Z3_mk_ite(q->c, a, b, d);
    if (op == KN_OP_CAST) return cast(q, in[0], out, a);
    if (compares(op)) return compare(q, op, in[0], a, b);
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

static Z3_ast as_number(prover *q, term t, int bits) {
    return t.truth ? Z3_mk_ite(q->c, t.a, whole(q, bits, 1), whole(q, bits, 0)) : t.a;
}

static Z3_ast as_truth(prover *q, term t, int bits) {
    return t.truth ? t.a : Z3_mk_not(q->c, Z3_mk_eq(q->c, t.a, whole(q, bits, 0)));
}

static Z3_ast in_expression(prover *q, int dt, Z3_ast a, int bits) {
    if (dt == KN_BOOL) return as_number(q, (term){a, true}, bits);
    if (bits == KN_WIDTH_ALL) return a;
    return resize(q, a, bits_of(q, dt), bits, is_signed(dt));
}

static void split_cases(prover *q, Z3_ast t, int bits, bool shift) {
    if (q->nsplit) {
        q->cannot = true;
        return;
    }
    for (int k = 0; k < (shift ? bits : bits - 1); k++)
        q->split[q->nsplit++] = Z3_mk_eq(q->c, t, whole(q, bits, shift ? k : (int64_t)1 << k));
}

static Z3_ast call_term(prover *q, const char *name, const Z3_ast *s, int bits, bool *truth) {
    Z3_context c   = q->c;
    bool       all = bits == KN_WIDTH_ALL;
    *truth         = true;
    if (!strcmp(name, "add_ok") || !strcmp(name, "mul_ok")) /* of integers nothing overflows, and nothing is supposed */
        return all ? Z3_mk_true(c) : does_not_overflow(q, name[0] == 'a' ? KN_OP_ADD : KN_OP_MUL, bits, s[0], s[1]);
    if (!strcmp(name, "pow2") && !all) {
        split_cases(q, s[0], bits, false);
        return Z3_mk_or(c, (unsigned)q->nsplit, q->split);
    }
    q->cannot = true;
    return Z3_mk_true(c);
}

static Z3_ast number_op(prover *q, const char *op, Z3_ast a, Z3_ast b, int bits) {
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

static term operator_term(prover *q, const char *op, const term *s, int n, int bits) {
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

static term compute(prover *q, const kn_proof_term *t, int bits) {
    term st[DEPTH];
    int  top = 0;
    for (; t->kind != KN_TERM_END; t++) {
        term  *s = st + top - t->n;
        Z3_ast a[4];
        term   r = {0};
        switch (t->kind) {
        case KN_TERM_NUM: r.a = whole(q, bits, t->num); break;
        case KN_TERM_VAR: r.a = in_expression(q, q->dt[q->p->var_type[t->at]], q->var[t->at], bits); break;
        case KN_TERM_MIN: r.a = q->lo[t->at]; break;
        case KN_TERM_MAX: r.a = q->hi[t->at]; break;
        case KN_TERM_OF_DTYPE: r.a = whole(q, bits, of_dtype(t->name, q->dt[t->type])); break;
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
                r.a = both(q, Z3_mk_bvsge(q->c, v, whole(q, 64, d->min)), Z3_mk_bvsle(q->c, v, whole(q, 64, d->max)));
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
static int expression_bits(const prover *q) {
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

static Z3_ast constant(prover *q, const kn_proof_term *t, int dt) {
    int bits = expression_bits(q);
    if (dt == KN_BOOL) return as_truth(q, compute(q, t, bits), bits);
    int to = bits_of(q, dt);
    if (bits == KN_WIDTH_ALL || !keeps_low_bits(t)) {
        Z3_ast v = as_number(q, compute(q, t, bits), bits);
        return bits == KN_WIDTH_ALL ? v : resize(q, v, bits, to, true);
    }
    return as_number(q, compute(q, t, to), to);
}

/* ---- a rule with its dtypes chosen ------------------------------------------------------------------------------- */

static Z3_ast evaluate(prover *q, const kn_proof_step *steps, int n) {
    Z3_ast st[DEPTH];
    int    top = 0, types[DEPTH] = {0};
    for (int k = 0; k < n; k++) {
        const kn_proof_step *s  = &steps[k];
        int                  dt = q->dt[s->type], in[3] = {0};
        kn_scalar            v;
        top -= s->nsrc;
        for (int i = 0; i < s->nsrc && i < 3; i++) in[i] = types[top + i];
        switch (s->kind) {
        case KN_PROOF_VAR: st[top] = q->var[s->at]; break;
        case KN_PROOF_EXPR: st[top] = constant(q, q->p->expr_terms[s->at], dt); break;
        case KN_PROOF_OP: st[top] = apply(q, s->op, dt, in, st + top, s->nsrc); break;
        default:
            v       = s->kind == KN_PROOF_FLOAT ? kn_cast_scalar((kn_scalar){.f = s->real}, KN_F64, dt)
                                                : kn_cast_scalar((kn_scalar){.i = s->num}, KN_I64, dt);
            st[top] = numeral(q, dt, v);
        }
        types[top++] = dt;
    }
    return st[0];
}

static void declare_variables(prover *q, bool fast) {
    Z3_context c    = q->c;
    int        bits = expression_bits(q);
    for (int k = 0; k < q->p->nvars; k++) {
        int     dt = q->dt[q->p->var_type[k]];
        Z3_sort e  = bits == KN_WIDTH_ALL ? Z3_mk_int_sort(c) : Z3_mk_bv_sort(c, (unsigned)bits);
        q->var[k]  = dt == KN_BOOL ? numeral(q, dt, (kn_scalar){.i = q->bools >> k & 1})
                                   : Z3_mk_const(c, Z3_mk_int_symbol(c, 3 * k), sort_of(q, dt));
        q->lo[k]   = Z3_mk_const(c, Z3_mk_int_symbol(c, 3 * k + 1), e);
        q->hi[k]   = Z3_mk_const(c, Z3_mk_int_symbol(c, 3 * k + 2), e);
        if (fast && kn_is_float(dt))
            suppose(q, Z3_mk_not(c, either(q, Z3_mk_fpa_is_nan(c, q->var[k]), Z3_mk_fpa_is_infinite(c, q->var[k]))));
        if (kn_is_float(dt)) continue;
        Z3_ast v    = in_expression(q, dt, q->var[k], bits);
        bool   read = q->p->bounds >> k & 1, value = q->p->by_value >> k & 1;
        if (dt == KN_U64 && (read || value)) suppose(q, Z3_mk_bvsge(c, v, whole(q, bits, 0)));
        if (!read) continue;
        bool all = bits == KN_WIDTH_ALL;
        suppose(q, all ? Z3_mk_le(c, q->lo[k], v) : Z3_mk_bvsle(c, q->lo[k], v));
        suppose(q, all ? Z3_mk_le(c, v, q->hi[k]) : Z3_mk_bvsle(c, v, q->hi[k]));
    }
}

/* A pattern's literal that the dtype does not have never matches there. */
static bool literal_exists(const prover *q) {
    for (int i = 0; i < q->p->nlhs; i++) {
        const kn_proof_step *s = &q->p->lhs[i];
        if (s->kind == KN_PROOF_FLOAT && kn_cast_scalar((kn_scalar){.f = s->real}, KN_F64, q->dt[s->type]).f != s->real)
            return false;
    }
    return true;
}

static const char *logic_of(const prover *q) {
    for (int t = 0; t < q->p->ntypes; t++) {
        if (kn_is_float(q->dt[t])) return "QF_FPBV";
        if (unbounded(q, q->dt[t])) return "QF_NIA";
    }
    return "QF_BV";
}

static verdict ask(prover *q, Z3_ast differs, double until, char *text, size_t cap) {
    Z3_context c    = q->c;
    Z3_params  p    = Z3_mk_params(c);
    double     left = until - kn_now();
    Z3_params_inc_ref(c, p);
    Z3_params_set_bool(c, p, Z3_mk_string_symbol(c, "som"), true);
    differs = Z3_simplify_ex(c, differs, p);
    text[0] = 0;
    if (Z3_get_bool_value(c, differs) == Z3_L_FALSE) return HOLDS;
    if (Z3_get_bool_value(c, differs) == Z3_L_TRUE) return WRONG;
    if (left <= 0) return UNKNOWN;
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
    return r == Z3_L_FALSE ? HOLDS : r == Z3_L_TRUE ? WRONG : UNKNOWN;
}

static void z3_failed(Z3_context c, Z3_error_code e) {
    fprintf(stderr, "Z3: %s\n", Z3_get_error_msg(c, e));
    exit(1);
}

static Z3_context new_context(void) {
    Z3_config  config = Z3_mk_config();
    Z3_context c      = Z3_mk_context(config);
    Z3_del_config(config);
    Z3_set_error_handler(c, z3_failed);
    return c;
}

/* No assignment under the condition tells the sides apart, for the dtypes and bools in q. */
static verdict prove_case(prover *q, double until, char *text, size_t cap) {
    const kn_proof *p     = q->p;
    const char     *mark  = kn_rules[p->rule].exact;
    verdict         worst = HOLDS;
    q->nassume = q->nsplit = 0;
    q->cannot              = false;
    q->no_overflow         = !strcmp(mark, "index");
    bool fast              = !strcmp(mark, "fast");
    int  dt                = q->dt[p->lhs[p->nlhs - 1].type];
    declare_variables(q, fast);
    if (p->cond_terms) {
        int bits = expression_bits(q);
        suppose(q, as_truth(q, compute(q, p->cond_terms, bits), bits));
    }
    Z3_ast l = evaluate(q, p->lhs, p->nlhs), r = evaluate(q, p->rhs, p->nrhs);
    Z3_ast same    = fast ? equal(q, dt, l, r) : Z3_mk_eq(q->c, l, r);
    Z3_ast given   = Z3_mk_and(q->c, (unsigned)q->nassume, q->assume);
    Z3_ast differs = both(q, given, Z3_mk_not(q->c, same));
    if (q->cannot)
        worst = UNKNOWN;
    else if (!q->nsplit)
        worst = ask(q, differs, until, text, cap);
    else { /* no case but these, and each of these */
        Z3_ast other = Z3_mk_not(q->c, Z3_mk_or(q->c, (unsigned)q->nsplit, q->split));
        worst        = ask(q, both(q, given, other), until, text, cap);
        for (int k = 0; k < q->nsplit && worst == HOLDS; k++)
            worst = ask(q, both(q, q->split[k], differs), until, text, cap);
    }
    /* What can never be so proves nothing. */
    if (worst == HOLDS && q->nassume && ask(q, given, kn_now() + 5, text, cap) != WRONG) worst = NOTHING;
    return worst;
}

static verdict prove_with(prover *q, double until, char *text, size_t cap) {
    unsigned mask  = 0;
    verdict  found = NOTHING;
    if (!literal_exists(q)) return NOTHING;
    for (int k = 0; k < q->p->nvars; k++) mask |= (unsigned)(q->dt[q->p->var_type[k]] == KN_BOOL) << k;
    q->bools = 0;
    do {
        verdict v = prove_case(q, until, text, cap);
        if (v > NOTHING) return v;
        if (v == HOLDS) found = HOLDS;
        q->bools = (q->bools - mask) & mask; /* the next subset */
    } while (q->bools);
    return found;
}

/* ---- a rule at a width ------------------------------------------------------------------------------------------- */

static bool speaks_of(const kn_proof *p, bool floats) {
    for (int t = 0; t < p->ntypes; t++)
        for (int d = 1; d < KN_DTYPE_COUNT; d++)
            if (p->type_mask[t] >> d & 1 && d != KN_BOOL && kn_is_float(d) == floats) return true;
    return false;
}

static bool dtype_is_in(const kn_proof *p, int t, int d, int ints, int floats, bool narrow) {
    if (!(p->type_mask[t] >> d & 1) || d == KN_VOID) return false;
    if (d == KN_BOOL) return true;
    if (kn_is_float(d)) return kn_dsize(d) > 1 && 8 * kn_dsize(d) <= floats;
    return d == KN_INDEX && narrow ? ints > 0 : 8 * kn_dsize(d) <= ints;
}

/* Every choice of dtypes. */
static verdict prove(const kn_proof *p, int ints, int floats, double seconds, char *text, size_t cap) {
    static prover q;
    bool          narrow = !strcmp(kn_rules[p->rule].exact, "index");
    int           list[TYPES][KN_DTYPE_COUNT], count[TYPES] = {0}, at[TYPES] = {0}, tried = 0;
    double        until = kn_now() + seconds;
    verdict       worst = HOLDS;
    if (p->nvars > VARS) return UNKNOWN;
    q = (prover){.p = p, .index = narrow ? ints : 64};
    for (int t = 0; t < p->ntypes; t++) {
        for (int d = 1; d < KN_DTYPE_COUNT; d++)
            if (dtype_is_in(p, t, d, ints, floats, narrow)) list[t][count[t]++] = d;
        if (!count[t]) return NOTHING;
    }
    q.c = new_context();
    for (;;) {
        for (int t = 0; t < p->ntypes; t++) q.dt[t] = list[t][at[t]];
        verdict v = prove_with(&q, until, text, cap);
        if (v == HOLDS) tried++;
        if (v == WRONG || v == UNKNOWN) {
            size_t n = strlen(text);
            for (int t = 0; t < p->ntypes && n + 20 < cap; t++)
                n += (size_t)snprintf(text + n, cap - n, " %s", kn_dtypes[q.dt[t]].name);
            worst = v;
            break;
        }
        int t = 0;
        while (t < p->ntypes && ++at[t] == count[t]) at[t++] = 0;
        if (t == p->ntypes) break;
    }
    Z3_del_context(q.c);
    return worst == HOLDS && !tried ? NOTHING : worst;
}

/* ---- the modes --------------------------------------------------------------------------------------------------- */

static const char *const words[] = {"proved", "nothing to prove", "not decided", "wrong"};

static const char *rule_name(int rule) {
    static char text[120];
    snprintf(text, sizeof text, "%s.%s", kn_rules[rule].group, kn_rules[rule].name);
    return text;
}

/* Is it what was asked for: a rule or a group; NULL: all? */
static bool is_called(int rule, const char *name) {
    return !name || !strcmp(kn_rules[rule].name, name) || !strcmp(kn_rules[rule].group, name);
}

static void prove_row(const kn_proof *p, int ints, int floats, double seconds) {
    char text[600] = "";
    if (!ints && !floats) return; /* exhaustion alone */
    double  start = kn_now();
    verdict v     = prove(p, ints, floats, seconds, text, sizeof text);
    double  took  = kn_now() - start;
    if (v != HOLDS)
        printf("     %s:%d %s at %d and %d bits: %s, %.1f s: %s\n", kn_rules[p->rule].file, kn_rules[p->rule].line,
               rule_name(p->rule), ints, floats, words[v], took, text);
    else if (took > 2)
        printf("     %s: %.1f s\n", rule_name(p->rule), took);
    CHECK(v == HOLDS);
}

static int climb(const kn_proof *p, const int *widths, int n, int other, bool floats, double *took) {
    int best = 0;
    for (int k = 0; k < n; k++) {
        char    text[600] = "";
        double  start     = kn_now();
        verdict v         = prove(p, floats ? other : widths[k], floats ? widths[k] : other, 60, text, sizeof text);
        double  t         = kn_now() - start;
        if (v == WRONG) printf("# %s at %d: %s\n", rule_name(p->rule), widths[k], text);
        if (v == NOTHING || v == WRONG) continue; /* what holds of an index of 64 bits need not of a narrower one */
        if (v != HOLDS) break;
        best  = widths[k];
        *took = t;
    }
    return best;
}

static void search(const kn_proof *p) {
    static const int all[] = {KN_WIDTH_ALL}, ladder[] = {8, 16, 32, 64}, wide[] = {16, 32, 64}, bools[] = {1};
    double           took = 0;
    int              ints = 0, floats = 0;
    if (speaks_of(p, false)) {
        if (!strcmp(kn_rules[p->rule].exact, "index")) ints = climb(p, all, 1, 0, false, &took);
        if (!ints) ints = climb(p, ladder, KN_COUNT(ladder), 0, false, &took);
    } else if (!speaks_of(p, true)) {
        ints = climb(p, bools, 1, 0, false, &took);
    }
    if (speaks_of(p, true)) floats = climb(p, wide, KN_COUNT(wide), ints, true, &took);
    printf("WIDTH(%s, %s, ", kn_rules[p->rule].group, kn_rules[p->rule].name);
    printf(ints == KN_WIDTH_ALL ? "ALL" : "%d", ints);
    printf(", %d, %d)\n", floats, took < 0.05 ? 64 : took < 1 ? 32 : 16);
    fflush(stdout);
}

/* ---- the translation against the interpreter --------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed) {
    *seed      = *seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *seed;
    x          = (x ^ (x >> 32)) * 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
}

static kn_scalar random_of(int dt, uint64_t *seed) {
    static const double few[] = {0.0, -0.0, 1, -1, 0.5, 3, -127.5, 65504, 3e38, 1e-45, 2147483647.5, 1e19, -1e19};
    static const double odd[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};
    uint64_t            r     = next_random(seed);
    kn_scalar           v     = {.i = (int64_t)(next_random(seed) >> (r >> 8 & 63))};
    if (kn_is_float(dt)) {
        v.f = r & 3 ? few[(r >> 20) % KN_COUNT(few)] * (r & 4 ? 1 : 1.25) : odd[(r >> 20) % KN_COUNT(odd)];
        return kn_cast_scalar(v, KN_F64, dt);
    }
    if (r & 1) v.i = (int64_t)(r >> 20 & 15) - 8;
    if (!(r & 14)) v.i = kn_dtypes[dt].min;
    return kn_cast_scalar(v, KN_I64, dt);
}

static void ops_mean_what_kn_alu_says(void) {
    static const int dts[] = {KN_BOOL, KN_I8,    KN_U8,  KN_I16,  KN_U32, KN_I64,
                              KN_U64,  KN_INDEX, KN_F16, KN_BF16, KN_F32, KN_F64};
    uint64_t         seed  = 1;
    long             cases = 0;
    for (int op = 0; op < KN_OP_COUNT; op++) {
        if (!kn_is_alu(op) || op == KN_OP_THREEFRY) continue;
        for (int k = 0; k < KN_COUNT(dts); k++) {
            static prover q;
            bool          ok = true;
            q                = (prover){.c = new_context(), .index = 64};
            for (int i = 0; i < 40 && ok; i++) {
                int       from = op == KN_OP_CAST ? dts[next_random(&seed) % KN_COUNT(dts)] : dts[k], n = 1;
                int       out = compares(op) ? KN_BOOL : dts[k], in[3] = {from, from, from};
                kn_scalar v[3], want;
                Z3_ast    a[3];
                if (kn_ops[op].cls == KN_CLS_BINARY) n = 2;
                if (kn_ops[op].cls == KN_CLS_TERNARY) n = 3;
                if (op == KN_OP_WHERE) in[0] = KN_BOOL;
                for (int s = 0; s < 3; s++) v[s] = random_of(in[s], &seed), a[s] = numeral(&q, in[s], v[s]);
                if (from == KN_BOOL && (op == KN_OP_IDIV || op == KN_OP_MOD || op == KN_OP_SHL || op == KN_OP_SHR))
                    break;
                if (!kn_alu(op, out, in, v, &want)) break;
                Z3_ast got = apply(&q, op, out, in, a, n);
                if (q.cannot) break;
                ok = Z3_is_eq_ast(q.c, Z3_simplify(q.c, got), Z3_simplify(q.c, numeral(&q, out, want)));
                if (!ok)
                    printf("     %s of %s: %s\n", kn_ops[op].name, kn_dtypes[from].name, Z3_ast_to_string(q.c, got));
                cases++;
            }
            CHECK(ok);
            Z3_del_context(q.c);
        }
    }
    printf("     %ld samples\n", cases);
    CHECK(cases > 5000);
}

/* Conditions and computed constants, on numbers in the place of variables. */
static void conditions_mean_what_the_matcher_computes(void) {
    uint64_t seed  = 2;
    long     cases = 0, held = 0;
    for (int i = 0; i < kn_proof_count; i++) {
        static prover   q;
        const kn_proof *p = &kn_proofs[i];
        if (!p->cond_terms && !p->expr_terms[0]) continue;
        q = (prover){.p = p, .c = new_context(), .index = 64};
        for (int round = 0; round < 100; round++) {
            int64_t v[VARS] = {0};
            bool    ok      = true;
            q.nsplit        = 0;
            for (int t = 0; t < p->ntypes; t++) do
                    q.dt[t] = 1 + (int)(next_random(&seed) % (KN_DTYPE_COUNT - 1));
                while (!(p->type_mask[t] >> q.dt[t] & 1) || (kn_is_float(q.dt[t]) && kn_dsize(q.dt[t]) == 1));
            for (int k = 0; k < p->nvars; k++) {
                int       dt = q.dt[p->var_type[k]];
                kn_scalar s  = random_of(dt, &seed);
                if (dt == KN_U64 && (p->by_value >> k & 1)) s.i &= INT64_MAX;
                v[k]     = s.i;
                q.var[k] = numeral(&q, dt, s);
                q.lo[k] = q.hi[k] = whole(&q, 64, s.i);
            }
            const kn_proof_in in = {v, v, v, q.dt};
            if (p->cond_terms) {
                Z3_ast got  = Z3_simplify(q.c, as_truth(&q, compute(&q, p->cond_terms, 64), 64));
                bool   want = p->cond(&in);
                ok          = q.cannot || Z3_get_bool_value(q.c, got) == (want ? Z3_L_TRUE : Z3_L_FALSE);
                held += want;
                cases++;
            }
            for (int k = 0, e = 0; k < p->nrhs && ok; k++) {
                if (p->rhs[k].kind != KN_PROOF_EXPR) continue;
                int dt         = q.dt[p->rhs[k].type];
                q.nsplit       = 0;
                e              = p->rhs[k].at;
                Z3_ast    got  = Z3_simplify(q.c, constant(&q, p->expr_terms[e], dt));
                kn_scalar want = kn_cast_scalar((kn_scalar){.i = p->expr[e](&in)}, KN_I64, dt);
                ok             = q.cannot || Z3_is_eq_ast(q.c, got, Z3_simplify(q.c, numeral(&q, dt, want)));
                cases++;
            }
            if (!ok) printf("     %s\n", rule_name(p->rule));
            if (!CHECK(ok)) break;
        }
        Z3_del_context(q.c);
    }
    printf("     %ld samples, %ld where a condition held\n", cases, held);
    CHECK(cases > 1000 && held > 100);
}

/* Rules with an op of their right side turned into another are found wrong, but for the few that it leaves right. */
static void wrong_rules_are_found(void) {
    static const int turned[][2] = {{KN_OP_ADD, KN_OP_SUB},     {KN_OP_SUB, KN_OP_ADD},     {KN_OP_AND, KN_OP_OR},
                                    {KN_OP_OR, KN_OP_AND},      {KN_OP_MIN, KN_OP_MAX},     {KN_OP_MAX, KN_OP_MIN},
                                    {KN_OP_MUL, KN_OP_ADD},     {KN_OP_CMPLT, KN_OP_CMPGE}, {KN_OP_XOR, KN_OP_OR},
                                    {KN_OP_CMPNE, KN_OP_CMPEQ}, {KN_OP_IDIV, KN_OP_MOD},    {KN_OP_MOD, KN_OP_IDIV}};
    int              wrong = 0, right = 0;
    for (int i = 0; i < kn_proof_count; i++) {
        kn_proof_step   step[DEPTH];
        kn_proof        p = kn_proofs[i];
        const kn_width *w = kn_width_of(p.rule);
        char            text[600];
        int             at = -1;
        memcpy(step, p.rhs, (size_t)p.nrhs * sizeof *step);
        for (int k = 0; k < p.nrhs && at < 0; k++)
            for (int t = 0; t < KN_COUNT(turned) && at < 0; t++)
                if (step[k].kind == KN_PROOF_OP && step[k].op == turned[t][0]) step[at = k].op = (uint8_t)turned[t][1];
        if (at < 0 || !w) continue;
        p.rhs     = step;
        verdict v = prove(&p, KN_MIN(w->ints, 8), KN_MIN(w->floats, 16), 5, text, sizeof text);
        wrong += v == WRONG;
        right += v == HOLDS;
        if (v == HOLDS) printf("     %s stays right\n", rule_name(p.rule));
    }
    printf("     %d found\n", wrong);
    CHECK(wrong >= 60 && right <= 3);
}

static bool        every; /* at its recorded width, whatever it takes */
static const char *only;  /* the rule or group that was asked for */

static void rules_are_proved(void) {
    int n = 0;
    for (int i = 0; i < kn_proof_count; i++) {
        const kn_proof *p = &kn_proofs[i];
        const kn_width *w = kn_width_of(p->rule);
        if (!is_called(p->rule, only)) continue;
        if (!CHECK(w != NULL)) {
            printf("     %s has no row in widths.def\n", rule_name(p->rule));
            continue;
        }
        if (every)
            prove_row(p, w->ints, w->floats, 240);
        else
            prove_row(p, KN_MIN(w->ints, w->quick), KN_MIN(w->floats, w->quick), 20);
        n += w->ints || w->floats;
    }
    printf("     %d rules\n", n);
}

int main(int argc, char **argv) {
    const char *name = argc > 2 ? argv[2] : NULL;
    if (argc > 1 && !strcmp(argv[1], "--search")) {
        for (int i = 0; i < kn_proof_count; i++)
            if (is_called(kn_proofs[i].rule, name)) search(&kn_proofs[i]);
        return 0;
    }
    every = argc > 1 && !strcmp(argv[1], "--all");
    only  = name;
    RUN(ops_mean_what_kn_alu_says);
    RUN(conditions_mean_what_the_matcher_computes);
    if (!every) RUN(wrong_rules_are_found);
    RUN(rules_are_proved);
    return check_result();
}
#endif
