/* index.c - rules of index arithmetic, by affine forms: base + sum coef * atom, exact because nothing of dtype index
 * overflows.
 *
 * Sums are put in the order of kg_from_affine. Quotients and remainders by a positive constant lose the part that the
 * constant divides, then a common factor. Comparisons lose their constant term and a common factor. */
#include "rules/helpers.h"
#include "rewrite/match.h"

#include <string.h>

static void ix_drop_term(kn_affine *f, int i) {
    f->n--;
    memmove(f->atom + i, f->atom + i + 1, (size_t)(f->n - i) * sizeof *f->atom);
    memmove(f->coef + i, f->coef + i + 1, (size_t)(f->n - i) * sizeof *f->coef);
}

static void ix_append_term(kn_affine *f, kn_ref atom, int64_t coef) {
    f->atom[f->n]   = atom;
    f->coef[f->n++] = coef;
}

/* Bounds of base + terms; false if they are not finite in int64. */
static bool ix_affine_bounds(const kn_graph *g, const kn_affine *f, int64_t *lo, int64_t *hi) {
    *lo = *hi = f->base;
    for (int i = 0; i < f->n; i++) {
        int64_t a = kg_min(g, f->atom[i]), b = kg_max(g, f->atom[i]), x, y;
        if (a == INT64_MIN || b == INT64_MAX) return false;
        if (!kn_mul_ok(f->coef[i], f->coef[i] < 0 ? b : a, &x) || !kn_mul_ok(f->coef[i], f->coef[i] < 0 ? a : b, &y))
            return false;
        if (!kn_add_ok(*lo, x, lo) || !kn_add_ok(*hi, y, hi)) return false;
    }
    return true;
}

static bool ix_const(const kn_graph *g, kn_ref n, int64_t *v) {
    if (kg_op(g, n) != KN_OP_CONST) return false;
    *v = kg_const_int(g, n);
    return true;
}

static kn_ref ix_op_const(kn_graph *g, int op, kn_ref x, int64_t c) { return kg_op2(g, op, x, kg_idx(g, c)); }

/* ---- sums
 * ------------------------------------------------------------------------------------------------------------ */

/* Is q = y div b, for q an IDIV by a constant and y any node? Also where q = w div (a b) and y = w div a. */
static bool ix_is_quotient(const kn_graph *g, kn_ref q, kn_ref y, int64_t b) {
    int64_t c, a, ab;
    if (kg_op(g, q) != KN_OP_IDIV || !ix_const(g, kg_at(g, q, 1), &c) || c <= 0) return false;
    if (kg_at(g, q, 0) == y) return c == b;
    if (kg_op(g, y) != KN_OP_IDIV || !ix_const(g, kg_at(g, y, 1), &a) || a <= 0) return false;
    return kg_at(g, q, 0) == kg_at(g, y, 0) && kn_mul_ok(a, b, &ab) && c == ab;
}

/* k (y mod b) + k b (y div b) = k y, once; y joins the form. */
static bool ix_join_quotient(const kn_graph *g, kn_affine *f) {
    for (int i = 0; i < f->n; i++) {
        int64_t b, kb;
        kn_ref  m = f->atom[i];
        if (kg_op(g, m) != KN_OP_MOD || !ix_const(g, kg_at(g, m, 1), &b) || b <= 0 || !kn_mul_ok(f->coef[i], b, &kb))
            continue;
        for (int j = 0; j < f->n; j++) {
            if (j == i || f->coef[j] != kb || !ix_is_quotient(g, f->atom[j], kg_at(g, m, 0), b)) continue;
            int64_t k = f->coef[i];
            ix_drop_term(f, i > j ? i : j);
            ix_drop_term(f, i > j ? j : i);
            ix_append_term(f, kg_at(g, m, 0), k);
            return true;
        }
    }
    return false;
}

/* k y - k (y mod b) = k b (y div b); y's terms, which may be several, leave the form. */
static bool ix_whole_quotient(kn_graph *g, kn_affine *f) {
    for (int i = 0; i < f->n; i++) {
        int64_t   b, kb, k, more;
        kn_affine y;
        kn_ref    m = f->atom[i];
        if (kg_op(g, m) != KN_OP_MOD || !ix_const(g, kg_at(g, m, 1), &b) || b <= 0 || f->coef[i] == INT64_MIN) continue;
        k = -f->coef[i];
        if (!kn_mul_ok(k, b, &kb) || !kg_affine(g, kg_at(g, m, 0), &y) || !y.n) continue;
        kn_affine with = *f;
        bool      all = kn_mul_ok(y.base, k, &more) && more != INT64_MIN && kn_add_ok(f->base, -more, &with.base);
        for (int t = 0; t < y.n && all; t++)
            all = kn_mul_ok(y.coef[t], k, &more) && more && kn_affine_coef(f, y.atom[t]) == more;
        if (!all) continue;
        ix_drop_term(&with, i);
        for (int t = 0; t < with.n; t++)
            if (kn_affine_coef(&y, with.atom[t])) ix_drop_term(&with, t--);
        ix_append_term(&with, ix_op_const(g, KN_OP_IDIV, kg_at(g, m, 0), b), kb);
        *f = with;
        return true;
    }
    return false;
}

/* The affine form of a sum of terms as it stands in f, whose atoms may themselves be sums or stand twice. */
static bool ix_flatten(kn_graph *g, kn_affine *f) {
    kn_ref sum = kg_from_affine(g, f);
    return sum && kg_affine(g, sum, f);
}

kn_ref kn_rule_index_sum(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_affine f;
    if (!kg_affine(g, n, &f)) return 0;
    if (f.n == 1 && f.atom[0] == n) return 0;
    while (ix_join_quotient(g, &f) || ix_whole_quotient(g, &f))
        if (!ix_flatten(g, &f)) return 0;
    return kg_from_affine(g, &f);
}

/* ---- quotients and remainders
 * ------------------------------------------------------------------------------------------- */

/* x = c * q + rest, term by term and by the base: rest keeps the terms c does not divide and the base mod c. */
static void ix_split_by(const kn_affine *x, int64_t c, kn_affine *q, kn_affine *rest) {
    q->n = rest->n = 0;
    q->base        = kn_floor_div(x->base, c);
    rest->base     = kn_floor_mod(x->base, c);
    for (int i = 0; i < x->n; i++) {
        bool whole = x->coef[i] % c == 0;
        ix_append_term(whole ? q : rest, x->atom[i], whole ? x->coef[i] / c : x->coef[i]);
    }
}

/* The largest d that divides c and every coefficient. */
static int64_t ix_common_factor(const kn_affine *f, int64_t c) {
    for (int i = 0; i < f->n; i++) c = kn_gcd(c, f->coef[i]);
    return c;
}

static void ix_divide_terms(kn_affine *f, int64_t d) {
    for (int i = 0; i < f->n; i++) f->coef[i] /= d;
    f->base = kn_floor_div(f->base, d);
}

/* f lies in [k c, (k + 1) c) for one k. */
static bool ix_in_one_block(const kn_graph *g, const kn_affine *f, int64_t c, int64_t *k) {
    int64_t lo, hi;
    if (!ix_affine_bounds(g, f, &lo, &hi)) return false;
    *k = kn_floor_div(lo, c);
    return *k == kn_floor_div(hi, c);
}

/* x = c * q + rest with each coefficient of rest the nearest to zero, where that leaves rest in [k c, (k + 1) c): rows
 * of one length read as rows of another. False: it does not, or the terms are not small numbers. */
static bool ix_split_near(const kn_graph *g, const kn_affine *x, int64_t c, kn_affine *q, kn_affine *rest, int64_t *k) {
    bool moved = false;
    q->n = rest->n = 0;
    q->base        = kn_floor_div(x->base, c);
    rest->base     = kn_floor_mod(x->base, c);
    for (int i = 0; i < x->n; i++) {
        int64_t twice, n;
        if (!kn_mul_ok(x->coef[i], 2, &twice) || !kn_add_ok(twice, c, &twice) || c > INT64_MAX / 2) return false;
        n = kn_floor_div(twice, 2 * c);
        if (n) ix_append_term(q, x->atom[i], n);
        if (x->coef[i] != n * c) ix_append_term(rest, x->atom[i], x->coef[i] - n * c);
        moved |= n && x->coef[i] != n * c;
    }
    return moved && ix_in_one_block(g, rest, c, k);
}

/* f = d s + t with t in [0, d), for the largest such d > 1 that divides c; 0 if there is none. Then
 * f div c = s div (c / d) and f mod c = d (s mod (c / d)) + t. */
static int64_t ix_factor_out(const kn_graph *g, const kn_affine *f, int64_t c, kn_affine *s, kn_affine *t) {
    int64_t best = 0, lo, hi;
    for (int i = 0; i < f->n; i++) {
        kn_affine whole, part;
        int64_t   d = kn_gcd(c, f->coef[i]);
        if (d <= 1 || d <= best) continue;
        ix_split_by(f, d, &whole, &part);
        if (!ix_affine_bounds(g, &part, &lo, &hi) || lo < 0 || hi >= d) continue;
        best = d;
        *s   = whole;
        *t   = part;
    }
    return best;
}

/* Modulo c, k (y mod a) is k y where c divides k a. */
static bool ix_open_remainders(kn_graph *g, kn_affine *f, int64_t c) {
    bool any = false;
    for (int i = 0; i < f->n; i++) {
        int64_t a, ka;
        kn_ref  m = f->atom[i];
        if (kg_op(g, m) != KN_OP_MOD || !ix_const(g, kg_at(g, m, 1), &a) || a <= 0) continue;
        if (!kn_mul_ok(f->coef[i], a, &ka) || ka % c) continue;
        f->atom[i] = kg_at(g, m, 0);
        any        = true;
    }
    return any && ix_flatten(g, f);
}

kn_ref kn_rule_index_div(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_affine x, q, rest, s, t;
    int64_t   c = kg_const_int(g, kg_at(g, n, 1)), k, d;
    if (c <= 0 || !kg_affine(g, kg_at(g, n, 0), &x)) return 0;
    ix_split_by(&x, c, &q, &rest);
    bool whole = ix_in_one_block(g, &rest, c, &k);
    if (!whole && ix_split_near(g, &x, c, &s, &t, &k)) q = s, whole = true;
    if (whole) {
        if (!kn_add_ok(q.base, k, &q.base)) return 0;
        return kg_from_affine(g, &q);
    }
    d = ix_factor_out(g, &rest, c, &s, &t);
    if (!d && q.n == 0 && q.base == 0) return 0;
    kn_ref r = kg_from_affine(g, d ? &s : &rest);
    if (!d || c / d > 1) r = ix_op_const(g, KN_OP_IDIV, r, d ? c / d : c);
    if (q.n == 0 && q.base == 0) return r;
    return q.n ? kg_op2(g, KN_OP_ADD, kg_from_affine(g, &q), r) : ix_op_const(g, KN_OP_ADD, r, q.base);
}

kn_ref kn_rule_index_mod(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_affine x, q, rest, s, t;
    int64_t   c = kg_const_int(g, kg_at(g, n, 1)), k, d;
    if (c <= 0 || !kg_affine(g, kg_at(g, n, 0), &x)) return 0;
    ix_split_by(&x, c, &q, &rest);
    bool whole = ix_in_one_block(g, &rest, c, &k);
    if (!whole && ix_split_near(g, &x, c, &s, &t, &k)) rest = t, whole = true;
    if (whole) {
        if (!kn_mul_ok(k, c, &k) || k == INT64_MIN || !kn_add_ok(rest.base, -k, &rest.base)) return 0;
        return kg_from_affine(g, &rest);
    }
    if (ix_open_remainders(g, &rest, c)) return ix_op_const(g, KN_OP_MOD, kg_from_affine(g, &rest), c);
    d = ix_factor_out(g, &rest, c, &s, &t);
    if (!d) return q.n || q.base ? ix_op_const(g, KN_OP_MOD, kg_from_affine(g, &rest), c) : 0;
    if (c / d == 1) return kg_from_affine(g, &t);
    kn_ref m = ix_op_const(g, KN_OP_MOD, kg_from_affine(g, &s), c / d);
    m        = ix_op_const(g, KN_OP_MUL, m, d);
    return t.n ? kg_op2(g, KN_OP_ADD, m, kg_from_affine(g, &t)) : t.base ? ix_op_const(g, KN_OP_ADD, m, t.base) : m;
}

/* ---- comparisons
 * ------------------------------------------------------------------------------------------------------------- */

static int64_t ix_ceil_div(int64_t a, int64_t b) { return kn_floor_div(a, b) + (kn_floor_mod(a, b) != 0); }

/* s < c for s = sum of terms without a base. Divides by a factor of every term, or of those terms that matter: in
 * d s' + rest < c with rest in [0, d) and d | c only s' < c / d counts. */
static bool ix_reduce_upper(const kn_graph *g, kn_affine *s, int64_t *c) {
    int64_t d = ix_common_factor(s, 0);
    if (d > 1) {
        ix_divide_terms(s, d);
        *c = ix_ceil_div(*c, d);
        return true;
    }
    for (int i = 0; i < s->n; i++) {
        kn_affine rest = {0}, whole = {0};
        int64_t   lo, hi;
        d = s->coef[i] < 0 ? -s->coef[i] : s->coef[i];
        if (d <= 1 || *c % d) continue;
        for (int j = 0; j < s->n; j++) {
            bool w = s->coef[j] % d == 0;
            ix_append_term(w ? &whole : &rest, s->atom[j], w ? s->coef[j] / d : s->coef[j]);
        }
        if (!ix_affine_bounds(g, &rest, &lo, &hi) || lo < 0 || hi >= d) continue;
        *s = whole;
        *c /= d;
        return true;
    }
    return false;
}

static void ix_negate(kn_affine *f) {
    for (int i = 0; i < f->n; i++) f->coef[i] = -f->coef[i];
}

/* Both sides as one form x - y without base; the base goes to *base. False if it does not fit. */
static bool ix_difference(const kn_graph *g, kn_ref x, kn_ref y, kn_affine *f, int64_t *base) {
    kn_affine b;
    if (!kg_affine(g, x, f) || !kg_affine(g, y, &b)) return false;
    for (int i = 0; i < b.n; i++) {
        int64_t k;
        int     j = 0;
        if (!kn_mul_ok(b.coef[i], -1, &k)) return false;
        while (j < f->n && f->atom[j] != b.atom[i]) j++;
        if (j == f->n) {
            if (f->n == KN_AFFINE_MAX) return false;
            ix_append_term(f, b.atom[i], k);
        } else {
            if (!kn_add_ok(f->coef[j], k, &f->coef[j])) return false;
            if (!f->coef[j]) ix_drop_term(f, j);
        }
    }
    for (int i = 0; i < f->n; i++)
        if (f->coef[i] == INT64_MIN) return false;
    if (b.base == INT64_MIN || !kn_add_ok(f->base, -b.base, base)) return false;
    f->base = 0;
    return true;
}

static void ix_order_terms(kn_affine *f) {
    for (int i = 1; i < f->n; i++)
        for (int j = i; j > 0 && f->atom[j] < f->atom[j - 1]; j--) {
            kn_ref  a = f->atom[j];
            int64_t c = f->coef[j];
            f->atom[j] = f->atom[j - 1], f->coef[j] = f->coef[j - 1];
            f->atom[j - 1] = a, f->coef[j - 1] = c;
        }
}

/* The sign that makes a form's first coefficient positive. */
static bool ix_leads_negative(const kn_affine *f) { return f->n && f->coef[0] < 0; }

kn_ref kn_rule_index_lt(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_affine f;
    int64_t   base, c, ignored;
    kn_ref    x = kg_at(g, n, 0), y = kg_at(g, n, 1);
    bool      with_const = ix_const(g, x, &ignored) || ix_const(g, y, &ignored);
    if (!ix_difference(g, x, y, &f, &base) || base == INT64_MIN) return 0;
    if (!f.n) return kg_int(g, KN_BOOL, base < 0);
    ix_order_terms(&f);
    c = -base; /* f < c */
    if (!with_const) {
        /* Two sides of unknowns: only what they share goes, and constants gather on the right. */
        kn_affine l = {0}, r = {0};
        for (int i = 0; i < f.n; i++)
            ix_append_term(f.coef[i] > 0 ? &l : &r, f.atom[i], f.coef[i] > 0 ? f.coef[i] : -f.coef[i]);
        if (l.n && r.n) {
            r.base = c;
            return kg_op2(g, KN_OP_CMPLT, kg_from_affine(g, &l), kg_from_affine(g, &r));
        }
    }
    while (ix_reduce_upper(g, &f, &c)) {}
    if (ix_leads_negative(&f)) { /* -s < c: 1 - c <= s, so that both directions name s alike: -c < s */
        ix_negate(&f);
        if (c == INT64_MIN) return 0;
        /* a factor of some terms reads the same from this side: d s' + rest > -c, when d | (1 - c), is s' > -c / d */
        for (int i = 0; i < f.n; i++) {
            kn_affine rest = {0}, whole = {0};
            int64_t   lo, hi, d = f.coef[i] < 0 ? -f.coef[i] : f.coef[i], at_least;
            if (d <= 1 || !kn_add_ok(1, -c, &at_least) || at_least % d) continue;
            for (int j = 0; j < f.n; j++) {
                bool w = f.coef[j] % d == 0;
                ix_append_term(w ? &whole : &rest, f.atom[j], w ? f.coef[j] / d : f.coef[j]);
            }
            if (!ix_affine_bounds(g, &rest, &lo, &hi) || lo < 0 || hi >= d) continue;
            return kg_op2(g, KN_OP_CMPLT, kg_idx(g, at_least / d - 1), kg_from_affine(g, &whole));
        }
        return kg_op2(g, KN_OP_CMPLT, kg_idx(g, -c), kg_from_affine(g, &f));
    }
    return kg_op2(g, KN_OP_CMPLT, kg_from_affine(g, &f), kg_idx(g, c));
}

kn_ref kn_rule_index_ne(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_affine f;
    int64_t   base;
    if (!ix_difference(g, kg_at(g, n, 0), kg_at(g, n, 1), &f, &base) || base == INT64_MIN) return 0;
    if (!f.n) return kg_int(g, KN_BOOL, base != 0);
    ix_order_terms(&f);
    int64_t d = ix_common_factor(&f, 0);
    if (base % d) return kg_int(g, KN_BOOL, 1);
    ix_divide_terms(&f, d);
    base /= d;
    if (ix_leads_negative(&f)) ix_negate(&f), base = -base;
    if (f.n == 2 && f.coef[0] == 1 && f.coef[1] == -1) { /* a != b + c reads better than a - b != c */
        kn_affine r = {.base = -base, .n = 1, .atom = {f.atom[1]}, .coef = {1}};
        return kg_op2(g, KN_OP_CMPNE, f.atom[0], kg_from_affine(g, &r));
    }
    return kg_op2(g, KN_OP_CMPNE, kg_from_affine(g, &f), kg_idx(g, -base));
}

/* ---- lanes against a scalar
 * ------------------------------------------------------------------------------------------------------------- */

/* Lanes s + l < c is l < c - s, of four bytes, where s and c are scalars: s is then added to no lane. */
kn_ref kn_rule_index_lanes(kn_rw *rw, kn_ref n) {
    enum { FEW = 64 }; /* constants, which registers and memory hold */
    kn_graph *g      = rw->g;
    int       scalar = kg_numel(g, kg_at(g, n, 0)) == 1 ? 0 : 1;
    kn_affine f, lanes = {0}, rest = {0};
    int64_t   base, lo, hi, numel = kg_numel(g, kg_at(g, n, !scalar));
    if (kg_numel(g, kg_at(g, n, scalar)) != 1 || numel == 1 || numel > FEW) return 0;
    if (kg_op(g, kg_at(g, n, scalar)) == KN_OP_CONST) return 0; /* the sum may have others beside it */
    if (!ix_difference(g, kg_at(g, n, !scalar), kg_at(g, n, scalar), &f, &base) || base == INT64_MIN) return 0;
    for (int i = 0; i < f.n; i++) {
        bool own = kg_numel(g, f.atom[i]) > 1;
        ix_append_term(own ? &lanes : &rest, f.atom[i], own ? f.coef[i] : -f.coef[i]);
    }
    rest.base = -base;
    if (!ix_affine_bounds(g, &rest, &lo, &hi) || !kn_dtype_fits(lo, KN_I32) || !kn_dtype_fits(hi, KN_I32)) return 0;
    if (!ix_affine_bounds(g, &lanes, &lo, &hi) || !kn_dtype_fits(lo, KN_I32) || !kn_dtype_fits(hi, KN_I32)) return 0;
    kn_ref x = kg_cast(g, kg_from_affine(g, &lanes), KN_I32), y = kg_cast(g, kg_from_affine(g, &rest), KN_I32);
    if (!x || !y || kg_numel(g, x) != numel) return 0;
    return scalar == 0 ? kg_op2(g, KN_OP_CMPLT, y, x) : kg_op2(g, KN_OP_CMPLT, x, y);
}
