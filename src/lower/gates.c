/* gates.c - gate -> bounds: REDUCE{ADD} over r of a value that is zero unless a condition on r holds.
 *
 * Takes: a reduction over ranges in normal form. Gives: the same sum with r replaced by the one value that counts
 * (loads that depended on r get the gate that this value is in range), with r's loop cut to constant bounds, or with r
 * in steps of a number that divides what it is part of; 0 where none of these fits. */
#include "lower/gates.h"

#include <math.h>
#include <string.h>

enum { MAX_TERMS = 16 };

typedef struct kl_conds { /* of a conjunction */
    kn_ref c[MAX_TERMS];
    int    n;
} kl_conds;

static kn_ref unwrap_not(const kn_graph *g, kn_ref c) { return kg_op(g, c) == KN_OP_NOT ? kg_at(g, c, 0) : 0; }

static bool collect(const kn_graph *g, kn_ref c, kl_conds *out) {
    int n = kg_conjuncts(g, c, out->c + out->n, MAX_TERMS - out->n);
    if (n < 0) return false;
    out->n += n;
    return true;
}

static kn_ref negate(kn_graph *g, kn_ref c) {
    kn_ref inner = unwrap_not(g, c);
    return inner ? inner : kg_op1(g, KN_OP_NOT, c);
}

/* x = 0 unless the conjunction holds, then *rest. Looks through one WHERE with a zero arm, a gated load, a bool as a
 * number, or one factor that is such. *kept: a load, in *rest with its gate, so that it is 0 there without more. */
static bool split_gate(kn_graph *g, kn_ref x, kl_conds *conds, kn_ref *rest, bool *kept) {
    *kept = kg_op(g, x) == KN_OP_LOAD;
    if (kg_op(g, x) == KN_OP_WHERE) {
        kn_ref c = kg_at(g, x, 0), a = kg_at(g, x, 1), b = kg_at(g, x, 2);
        if (kg_is_const(g, b, 0)) return *rest = a, collect(g, c, conds);
        if (kg_is_const(g, a, 0)) return *rest = b, collect(g, negate(g, c), conds);
        return false;
    }
    if (kg_op(g, x) == KN_OP_LOAD) { /* keeps its gate, which goes when the new bounds imply it */
        *rest = x;
        return kg_nsrc(g, x) == 3 && kg_is_const(g, kg_at(g, x, 1), 0) && collect(g, kg_at(g, x, 2), conds);
    }
    if (kg_op(g, x) == KN_OP_CAST && kg_dtype(g, kg_at(g, x, 0)) == KN_BOOL) {
        *rest = kg_int(g, kg_dtype(g, x), 1);
        return collect(g, kg_at(g, x, 0), conds);
    }
    if (kg_op(g, x) != KN_OP_MUL || kg_dtype(g, x) == KN_BOOL) return false;
    for (uint32_t k = 0; k < 2; k++) {
        kl_conds part = {.n = 0};
        kn_ref   inner;
        int      op = kg_op(g, kg_at(g, x, k));
        if ((op == KN_OP_CAST || op == KN_OP_WHERE || op == KN_OP_LOAD) &&
            split_gate(g, kg_at(g, x, k), &part, &inner, kept)) {
            *conds = part;
            *rest  = kg_is_const(g, inner, 1) ? kg_at(g, x, 1 - k) : kg_op2(g, KN_OP_MUL, inner, kg_at(g, x, 1 - k));
            return true;
        }
    }
    return false;
}

/* The integer below casts that keep every value it can have. */
static kn_ref below_casts(const kn_graph *g, kn_ref x) {
    while (kg_op(g, x) == KN_OP_CAST && kn_is_int(kg_dtype(g, kg_at(g, x, 0)))) {
        kn_ref s = kg_at(g, x, 0);
        if (kg_min(g, s) < kn_dtypes[kg_dtype(g, x)].min || kg_max(g, s) > kn_dtypes[kg_dtype(g, x)].max) break;
        x = s;
    }
    return x;
}

/* a == b solved for r: *value = e with r == e. */
static bool solve_equal(kn_graph *g, kn_ref c, kn_ref r, kn_ref *value) {
    kn_ref cmp = c, a, b;
    if (kg_op(g, c) == KN_OP_NOT) cmp = kg_at(g, c, 0);
    if (kg_op(g, cmp) != (cmp == c ? KN_OP_CMPEQ : KN_OP_CMPNE) || !kn_is_int(kg_dtype(g, kg_at(g, cmp, 0))))
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        a = below_casts(g, kg_at(g, cmp, k));
        b = kg_at(g, cmp, 1 - k);
        kn_affine f;
        if (!kg_depends(g, a, r) || kg_depends(g, b, r) || kg_dtype(g, a) != KN_INDEX || !kg_affine(g, a, &f)) continue;
        int64_t coef = kn_affine_coef(&f, r);
        if (coef != 1 && coef != -1) continue;
        if (kg_dtype(g, b) == KN_U64 && kg_max(g, b) == INT64_MAX) continue;
        for (int t = 0; t < f.n; t++) { /* the rest of a, negated */
            if (f.atom[t] == r) f.coef[t] = 0;
            else if (kg_depends(g, f.atom[t], r)) coef = 0;
            else f.coef[t] = -f.coef[t];
        }
        if (!coef) continue;
        f.base = -f.base;
        int n = 0;
        for (int t = 0; t < f.n; t++)
            if (f.coef[t]) f.atom[n] = f.atom[t], f.coef[n++] = f.coef[t];
        f.n        = n;
        kn_ref sum = kg_op2(g, KN_OP_ADD, kg_cast(g, b, KN_INDEX), kg_from_affine(g, &f));
        *value     = coef == 1 ? sum : kg_op2(g, KN_OP_MUL, sum, kg_idx(g, -1));
        return *value != 0;
    }
    return false;
}

static kn_ref conjunction(kn_graph *g, const kl_conds *conds, int without) {
    kn_ref all = 0;
    for (int i = 0; i < conds->n; i++)
        if (i != without) all = all ? kg_op2(g, KN_OP_AND, all, conds->c[i]) : conds->c[i];
    return all;
}

typedef struct kl_gating { kn_ref r, gate; } kl_gating;

static kn_ref gate_load(void *user, kn_graph *g, kn_ref was, kn_ref now) {
    const kl_gating *by = user;
    return kg_op(g, was) == KN_OP_LOAD && kg_depends(g, was, by->r) ? kg_gate_access(g, now, by->gate) : now;
}

kn_ref kl_gate_loads(kn_graph *g, kn_ref x, kn_ref r, kn_ref gate) {
    return kg_edit(g, x, gate_load, &(kl_gating){r, gate});
}

typedef struct kl_met { /* conditions that bounds imply, where another one holds; 0: anywhere */
    kn_ref c[MAX_TERMS], beside[MAX_TERMS];
    int    n;
} kl_met;

typedef struct kl_limits { /* lo <= r < hi, as values; 0: no such limit */
    kn_ref lo, hi;
} kl_limits;

static kn_ref tighter(kn_graph *g, int op, kn_ref a, kn_ref b) { /* MAX or MIN, where the bounds do not tell */
    if (!a) return b;
    if (op == KN_OP_MAX ? kg_min(g, a) >= kg_max(g, b) : kg_max(g, a) <= kg_min(g, b)) return a;
    if (op == KN_OP_MAX ? kg_min(g, b) >= kg_max(g, a) : kg_max(g, b) <= kg_min(g, a)) return b;
    return kg_op2(g, op, a, b);
}

/* Depends on a range that becomes lanes, or is unrolled: no bound for a loop around them. */
static bool gate_has_lanes(const kn_graph *g, kn_ref x) {
    kn_ref r[64];
    int    n = KN_MIN(kg_ranges(g, x, r, KN_COUNT(r)), KN_COUNT(r));
    while (n-- > 0) {
        int64_t type = kg_field(g, r[n], KN_F_RANGE_type);
        if (type == KN_AXIS_UPCAST || type == KN_AXIS_GROUP_REDUCE || type == KN_AXIS_UNROLL) return true;
    }
    return false;
}

/* f / by, and `more`. */
static kn_ref part_of(kn_graph *g, const kn_affine *f, int64_t by, int64_t more) {
    kn_ref x = kg_from_affine(g, f);
    if (x && by > 1) x = kg_op2(g, KN_OP_IDIV, x, kg_idx(g, by));
    return x && more ? kg_op2(g, KN_OP_ADD, x, kg_idx(g, more)) : x;
}

/* A comparison that bounds r, or a multiple of it, by what does not depend on it, from one side: narrows the limits.
 * `moving`: by what other loops' numbers say as well. */
static bool narrow(kn_graph *g, kn_ref c, kn_ref r, bool moving, bool multiple, kl_limits *l) {
    kn_ref    inner = unwrap_not(g, c), cmp = inner ? inner : c;
    kn_affine a, b;
    if (kg_op(g, cmp) != KN_OP_CMPLT || kg_dtype(g, kg_at(g, cmp, 0)) != KN_INDEX) return false;
    if (!kg_affine(g, kg_at(g, cmp, 0), &a) || !kg_affine(g, kg_at(g, cmp, 1), &b)) return false;
    int64_t  k = kn_affine_coef(&b, r) - kn_affine_coef(&a, r); /* b - a = k r + rest */
    kn_affine rest = {.n = 0};
    if (k == 0 || k == INT64_MIN || (!multiple && k != 1 && k != -1)) return false;
    int64_t sign = k > 0 ? -1 : 1, by = k > 0 ? k : -k; /* rest of the same side as r's limit */
    if (a.base == INT64_MIN || !kn_add_ok(b.base, -a.base, &rest.base) || rest.base <= INT64_MIN + 1) return false;
    rest.base *= sign; /* by r > rest, or by r < rest; under a NOT by r <= rest, or by r >= rest */
    if (k < 0 && !kn_add_ok(rest.base, by - 1, &rest.base)) return false;
    for (int side = 0; side < 2; side++) {
        const kn_affine *f = side ? &a : &b;
        for (int t = 0; t < f->n; t++) {
            if (f->atom[t] == r) continue;
            if (!moving || kg_depends(g, f->atom[t], r) || gate_has_lanes(g, f->atom[t]) || rest.n == KN_AFFINE_MAX)
                return false;
            int at = 0;
            while (at < rest.n && rest.atom[at] != f->atom[t]) at++;
            if (at == rest.n) rest.atom[rest.n] = f->atom[t], rest.coef[rest.n++] = 0;
            int64_t add = side ? -sign : sign, more;
            if (!kn_mul_ok(f->coef[t], add, &more) || !kn_add_ok(rest.coef[at], more, &rest.coef[at])) return false;
        }
    }
    kn_affine kept = {.base = rest.base};
    for (int t = 0; t < rest.n; t++)
        if (rest.coef[t]) kept.atom[kept.n] = rest.atom[t], kept.coef[kept.n++] = rest.coef[t];
    kn_ref limit = part_of(g, &kept, by, k > 0);
    if (!limit) return false;
    if ((k < 0) != (inner != 0)) l->hi = tighter(g, KN_OP_MIN, l->hi, limit);
    else l->lo = tighter(g, KN_OP_MAX, l->lo, limit);
    return true;
}

/* The sum of x over its ranges but the k-th, which is `at` now, over `fresh` if that is given; bounds read from it. */
static kn_ref close_rest(kn_graph *g, kn_ref n, kn_ref x, uint32_t k, kn_ref at, kn_ref fresh) {
    kn_ref   src[KN_MAX_RANK * 2], r = kg_at(g, n, k);
    uint32_t m = 1;
    src[0]     = kg_substitute(g, x, &r, &at, 1);
    for (uint32_t i = 1; i < kg_nsrc(g, n); i++) {
        if (i == k && !fresh) continue;
        src[m++] = i == k ? fresh : kg_substitute(g, kg_at(g, n, i), &r, &at, 1);
    }
    return m == 1 || !src[0] ? src[0] : kg_with_src(g, n, src, m);
}

/* c leaves a lane's or a copy's range one number. */
static bool leaves_one(const kn_graph *g, kn_ref c, kn_ref *range, int64_t *value) {
    kn_affine a, b;
    if (kg_op(g, c) != KN_OP_CMPLT || kg_dtype(g, kg_at(g, c, 0)) != KN_INDEX) return false;
    if (!kg_affine(g, kg_at(g, c, 0), &a) || !kg_affine(g, kg_at(g, c, 1), &b) || a.n + b.n != 1) return false;
    kn_affine *f = a.n ? &a : &b;
    if (f->coef[0] != 1 || f->base || kg_op(g, *range = f->atom[0]) != KN_OP_RANGE) return false;
    *value = a.n ? 0 : kg_max(g, *range);
    return gate_has_lanes(g, *range) && (a.n ? b.base == 1 : a.base == *value - 1);
}

/* c where another of the conditions, *beside, holds and leaves a range one number: the range is that number. */
static kn_ref beside_other(kn_graph *g, kn_ref c, const kl_conds *conds, kn_ref *beside) {
    *beside = 0;
    for (int i = 0; i < conds->n; i++) {
        kn_ref  r;
        int64_t value;
        if (conds->c[i] == c || !leaves_one(g, conds->c[i], &r, &value) || !kg_depends(g, c, r)) continue;
        kn_ref only = kg_idx(g, value);
        *beside     = conds->c[i];
        return kg_substitute(g, c, &r, &only, 1);
    }
    return c;
}

enum { SHORT = 8 }; /* iterations: such loops may yet be unrolled, and their gates fold there */

static kn_ref negated(kn_graph *g, kn_ref x) { return kg_op2(g, KN_OP_MUL, x, kg_idx(g, -1)); }

/* The limits that conditions set on the sum's k-th range, and those conditions gone. False: none that changes it.
 * `loops`: what is no lane and no copy now is a loop for good. */
static bool narrow_range(kn_graph *g, kn_ref n, kl_conds *conds, uint32_t k, bool loops, kl_limits *l,
                         kl_met *met) {
    kn_ref r = kg_at(g, n, k), bound = kg_at(g, r, 0);
    bool   moving = (loops || kg_max(g, bound) > SHORT) && kg_field(g, r, KN_F_RANGE_type) == KN_AXIS_REDUCE;
    *l            = (kl_limits){0, bound};
    for (int i = conds->n; i-- > 0;) {
        kl_limits with = *l;
        if (!kg_depends(g, conds->c[i], r)) continue;
        kn_ref beside = 0, c = loops ? beside_other(g, conds->c[i], conds, &beside) : conds->c[i];
        if (!c || !narrow(g, c, r, moving, loops, &with)) continue;
        bool inside = false; /* the limit is read in a loop of the sum further in */
        for (uint32_t s = k + 1; s < kg_nsrc(g, n); s++)
            inside |= (with.lo && kg_depends(g, with.lo, kg_at(g, n, s))) || kg_depends(g, with.hi, kg_at(g, n, s));
        if (inside) continue;
        met->beside[met->n] = beside;
        met->c[met->n++]    = conds->c[i];
        conds->c[i]         = conds->c[--conds->n];
        *l               = with;
    }
    if (l->lo && kg_max(g, l->lo) <= 0) l->lo = 0;
    if (l->lo && kg_min(g, l->lo) < 0) l->lo = kg_op2(g, KN_OP_MAX, l->lo, kg_idx(g, 0));
    return met->n > 0;
}

static bool among(const kl_conds *conds, kn_ref c) {
    for (int i = 0; i < conds->n; i++)
        if (conds->c[i] == c) return true;
    return false;
}

static kn_ref drop_gate(void *user, kn_graph *g, kn_ref was, kn_ref now) {
    const kl_met *met = user;
    kl_conds      own = {.n = 0};
    (void)was;
    if (kg_op(g, now) != KN_OP_LOAD || kg_nsrc(g, now) != 3 || !collect(g, kg_at(g, now, 2), &own)) return now;
    int all = own.n;
    for (int k = own.n; k-- > 0;)
        for (int m = 0; m < met->n; m++)
            if (own.c[k] == met->c[m] && (!met->beside[m] || among(&own, met->beside[m]))) {
                own.c[k] = own.c[--own.n];
                break;
            }
    if (own.n == all) return now;
    kn_ref left = conjunction(g, &own, -1);
    return left ? kg_load_gated(g, kg_at(g, now, 0), kg_at(g, now, 1), left) : kg_load(g, kg_at(g, now, 0));
}

/* x where the conditions hold anyway: loads in it need not look at them, but for one that stands without the other. */
static kn_ref drop_gates(kn_graph *g, kn_ref x, kl_met *met) { return kg_edit(g, x, drop_gate, met); }

/* The same for other ops: x is their identity unless the conjunction holds. */
static bool split_identity(kn_graph *g, kn_ref x, kn_ref none, kl_conds *conds, kn_ref *rest) {
    if (kg_op(g, x) != KN_OP_WHERE) return false;
    kn_ref c = kg_at(g, x, 0), a = kg_at(g, x, 1), b = kg_at(g, x, 2);
    *rest = b == none ? a : b;
    return (a == none || b == none) && collect(g, b == none ? c : negate(g, c), conds);
}

/* c says that a number divides a sum with r or -r in it: *apart, and the first r that it does so for. */
static bool solve_divides(kn_graph *g, kn_ref c, kn_ref r, int64_t *apart, kn_ref *first) {
    kn_affine f;
    kn_ref    mod = kg_op(g, c) == KN_OP_CMPLT ? kg_at(g, c, 0) : 0;
    if (!mod || !kg_is_const(g, kg_at(g, c, 1), 1) || kg_op(g, mod) != KN_OP_MOD || kg_dtype(g, mod) != KN_INDEX)
        return false;
    if (kg_op(g, kg_at(g, mod, 1)) != KN_OP_CONST || !kg_affine(g, kg_at(g, mod, 0), &f)) return false;
    *apart       = kg_const_int(g, kg_at(g, mod, 1));
    int64_t coef = kn_affine_coef(&f, r);
    if (*apart < 2 || (coef != 1 && coef != -1) || f.base == INT64_MIN) return false;
    kn_affine rest = {.base = f.base * -coef};
    for (int t = 0; t < f.n; t++) {
        if (f.atom[t] == r) continue;
        if (kg_depends(g, f.atom[t], r) || f.coef[t] == INT64_MIN) return false;
        rest.atom[rest.n] = f.atom[t], rest.coef[rest.n++] = f.coef[t] * -coef;
    }
    kn_ref sum = kg_from_affine(g, &rest);
    *first     = sum ? kg_op2(g, KN_OP_MOD, sum, kg_idx(g, *apart)) : 0;
    return *first != 0;
}

/* The sum where its k-th range goes in steps, over every `apart`-th of what has zeros between, as what a window with a
 * stride hands back. 0: no condition says so. */
static kn_ref step_over(kn_graph *g, kn_ref n, kn_ref rest, const kl_conds *conds, uint32_t k, kn_ref zero) {
    kn_ref r = kg_at(g, n, k), bound = kg_at(g, r, 0), first;
    for (int i = 0; i < conds->n; i++) {
        int64_t  apart, most;
        kl_met   met = {.c = {conds->c[i]}, .n = 1};
        kl_conds left = *conds;
        if (kg_op(g, bound) != KN_OP_CONST || !kg_depends(g, conds->c[i], r)) continue;
        if (!solve_divides(g, conds->c[i], r, &apart, &first)) continue;
        bool inside = false; /* it begins elsewhere for each iteration of a loop of the sum further in */
        for (uint32_t s = k + 1; s < kg_nsrc(g, n); s++) inside |= kg_depends(g, first, kg_at(g, n, s));
        if (inside) continue;
        most         = kg_const_int(g, bound);
        left.c[i]    = left.c[--left.n];
        kn_ref fresh = kg_range(g, kg_idx(g, most / apart + (most % apart != 0)), kg_field(g, r, KN_F_RANGE_id),
                                (int)kg_field(g, r, KN_F_RANGE_type));
        kn_ref at    = kg_op2(g, KN_OP_ADD, kg_op2(g, KN_OP_MUL, fresh, kg_idx(g, apart)), first);
        kn_ref all   = conjunction(g, &left, -1);
        if (!(rest = drop_gates(g, rest, &met))) return 0;
        if (most % apart) { /* the last step may go too far */
            kn_ref in = kg_op2(g, KN_OP_CMPLT, at, bound);
            if (!(rest = kl_gate_loads(g, rest, r, in))) return 0;
            all = all ? kg_op2(g, KN_OP_AND, all, in) : in;
        }
        kn_ref x = all ? kg_op3(g, KN_OP_WHERE, all, rest, zero) : rest;
        return close_rest(g, n, x, k, at, fresh);
    }
    return 0;
}

static kn_ref gate_to_bounds(kn_graph *g, kn_ref n, bool loops) {
    kl_conds  conds = {.n = 0};
    kl_limits limits;
    int       op = (int)kg_field(g, n, KN_F_REDUCE_op), dt = kg_dtype(g, n);
    bool      kept = false;
    kn_ref    rest, value, zero;
    if (kg_is_fold(g, n) || kg_is_prefix(g, n) || kg_nsrc(g, n) < 2 || kg_nsrc(g, n) > KN_MAX_RANK) return 0;
    zero = kg_identity(g, op, dt);
    if (op == KN_OP_ADD ? !split_gate(g, kg_at(g, n, 0), &conds, &rest, &kept)
                        : !split_identity(g, kg_at(g, n, 0), zero, &conds, &rest))
        return 0;
    for (uint32_t k = 1; k < kg_nsrc(g, n); k++) {
        kn_ref  r = kg_at(g, n, k), bound = kg_at(g, r, 0);
        int64_t type = kg_field(g, r, KN_F_RANGE_type);
        if (type != KN_AXIS_REDUCE && type != KN_AXIS_UNROLL) continue; /* lanes stay as wide as they are */
        for (int i = 0; i < conds.n; i++) {
            if (!kg_depends(g, conds.c[i], r) || !solve_equal(g, conds.c[i], r, &value)) continue;
            kn_ref in   = kg_op2(g, KN_OP_AND, kg_op2(g, KN_OP_CMPLT, kg_idx(g, -1), value),
                                 kg_op2(g, KN_OP_CMPLT, value, bound));
            kn_ref more = conjunction(g, &conds, i), gate = more ? kg_op2(g, KN_OP_AND, in, more) : in;
            kn_ref x    = kl_gate_loads(g, rest, r, gate);
            if (x) x = kg_op3(g, KN_OP_WHERE, gate, x, zero);
            return x ? close_rest(g, n, x, k, value, 0) : 0;
        }
        kl_met met = {.n = 0};
        if (!narrow_range(g, n, &conds, k, loops, &limits, &met)) {
            if ((value = step_over(g, n, rest, &conds, k, zero))) return value;
            continue;
        }
        if (!(rest = drop_gates(g, rest, &met))) return 0;
        kn_ref lo = limits.lo, hi = limits.hi, size = lo ? kg_op2(g, KN_OP_ADD, hi, negated(g, lo)) : hi;
        if (kg_max(g, size) <= 0) return zero;
        kn_ref all   = kept ? 0 : conjunction(g, &conds, -1);
        kn_ref fresh = kg_range(g, size, kg_field(g, r, KN_F_RANGE_id), (int)kg_field(g, r, KN_F_RANGE_type));
        kn_ref at    = lo ? kg_op2(g, KN_OP_ADD, fresh, lo) : fresh;
        kn_ref x     = all ? kg_op3(g, KN_OP_WHERE, all, rest, zero) : rest;
        return close_rest(g, n, x, k, at, fresh);
    }
    return 0;
}

kn_ref kl_gate_to_bounds(kn_rw *rw, kn_ref n) { return gate_to_bounds(rw->g, n, false); }
kn_ref kl_gate_to_loops(kn_rw *rw, kn_ref n) { return gate_to_bounds(rw->g, n, true); }

/* Whole numbers up to here, and their sums, are exact. */
static double exact_to(int dt) {
    switch (dt) {
    case KN_F64: return 9007199254740992.0;
    case KN_F32: return 16777216.0;
    case KN_F16: return 2048;
    case KN_BF16: return 256;
    default: return 0;
    }
}

/* The k'th operand of n is a loop of its own that neither what is reduced nor the bound of a later loop sees. */
static bool goes_unseen(const kn_graph *g, kn_ref n, uint32_t k) {
    kn_ref r    = kg_at(g, n, k);
    bool   seen = kg_depends(g, kg_at(g, n, 0), r);
    for (uint32_t s = k + 1; s < kg_nsrc(g, n); s++) seen |= kg_depends(g, kg_at(g, kg_at(g, n, s), 0), r);
    return !seen && kg_field(g, r, KN_F_RANGE_type) == KN_AXIS_REDUCE;
}

/* A sum over a range that its terms do not see is a product; of floats only where every partial sum is exact. */
kn_ref kl_count(kn_rw *rw, kn_ref n) {
    kn_graph *g  = rw->g;
    kn_ref    x  = kg_at(g, n, 0);
    int       dt = kg_dtype(g, n);
    if (kg_is_prefix(g, n) || kg_nsrc(g, n) > KN_MAX_RANK || dt == KN_BOOL) return 0;
    if (kg_is_const(g, x, 0)) return kg_identity(g, KN_OP_ADD, dt);
    for (uint32_t k = 1; k < kg_nsrc(g, n); k++) {
        kn_ref bound = kg_at(g, kg_at(g, n, k), 0);
        if (!goes_unseen(g, n, k)) continue;
        if (kg_min(g, bound) < 1 && kg_op(g, x) != KN_OP_CONST) continue; /* not to be read where it does not run */
        if (kn_is_float(dt)) {
            double c = kg_op(g, x) == KN_OP_CONST ? kg_const_float(g, x) : 0.5;
            if (kg_nsrc(g, n) != 2 || c != trunc(c) || isinf(c)) return 0; /* none of them is 0, not inf * 0 */
            if (fabs(c) * (double)KN_MAX(kg_max(g, bound), 0) > exact_to(dt)) return 0;
        }
        if (kg_min(g, bound) < 0) bound = kg_op2(g, KN_OP_MAX, bound, kg_idx(g, 0));
        return close_rest(g, n, kg_op2(g, KN_OP_MUL, x, kg_cast(g, bound, dt)), k, kg_idx(g, 0), 0);
    }
    return 0;
}

/* The greatest or least of what a range does not change is that; a loop that may not run has none. */
kn_ref kl_same_throughout(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    if (kg_is_prefix(g, n) || kg_nsrc(g, n) > KN_MAX_RANK) return 0;
    for (uint32_t k = 1; k < kg_nsrc(g, n); k++)
        if (goes_unseen(g, n, k) && kg_min(g, kg_at(g, kg_at(g, n, k), 0)) > 0)
            return close_rest(g, n, kg_at(g, n, 0), k, kg_idx(g, 0), 0);
    return 0;
}

/* ---- scatter ------------------------------------------------------------------------------------------------- */

enum { MAX_LOOPS = 12 };

typedef struct kl_loops { /* a copy of some loops under fresh ids */
    kn_ref from[MAX_LOOPS], to[MAX_LOOPS];
    int    n;
} kl_loops;

static bool copy_loop(kn_graph *g, kl_loops *l, kn_ref r, int64_t id, int type) {
    if (l->n == MAX_LOOPS) return false;
    l->from[l->n] = r;
    l->to[l->n]   = kg_range(g, kg_at(g, r, 0), id, type);
    return l->to[l->n++] != 0;
}

int64_t kl_fresh_id(const kn_graph *g) {
    int64_t top = -1;
    for (kn_ref n = 1; n < kg_count(g); n++)
        if (kg_op(g, n) == KN_OP_RANGE) top = KN_MAX(top, kg_field(g, n, KN_F_RANGE_id));
    return top + 1;
}

/* The loops l (all but v, outermost) around: set p[v] to 0 for all v; then for each i: p[e] += x where e is in range.
 * The i loops carry a dependence through p, which their type REDUCE under an END says. */
static kn_ref build_scatter(kn_graph *g, kn_ref end, kn_ref v, kn_ref e, kn_ref rest, kn_ref more) {
    kn_ref store = kg_at(g, end, 0), at = kg_at(g, store, 0), sum = kg_at(g, store, 1), p = kg_at(g, at, 0),
           flat   = kg_at(g, at, 1);
    kl_loops fill = {.n = 0}, carry = {.n = 0};
    kn_ref   outer[MAX_LOOPS], zero = kg_int(g, kg_dtype(g, sum), 0), bound = kg_at(g, v, 0);
    int      nouter = 0;
    int64_t  id     = kl_fresh_id(g);
    for (uint32_t k = 1; k < kg_nsrc(g, end); k++)
        if (kg_at(g, end, k) != v) outer[nouter++] = kg_at(g, end, k);
    if (!copy_loop(g, &fill, v, id++, KN_AXIS_LOOP)) return 0;
    for (uint32_t k = 1; k < kg_nsrc(g, sum); k++)
        if (!copy_loop(g, &carry, kg_at(g, sum, k), id++, KN_AXIS_REDUCE)) return 0;
    kn_ref cleared = kg_end(
        g, kg_store(g, kg_index(g, p, (kn_ref[]){kg_substitute(g, flat, fill.from, fill.to, fill.n)}, 1), zero, 0),
        fill.to, 1);
    kn_ref gate    = kg_op2(g, KN_OP_AND, kg_op2(g, KN_OP_CMPLT, kg_idx(g, -1), e), kg_op2(g, KN_OP_CMPLT, e, bound));
    if (more) gate = kg_op2(g, KN_OP_AND, gate, more);
    kn_ref x    = kl_gate_loads(g, rest, v, gate), deps[MAX_LOOPS * 2 + 1] = {cleared};
    int     nd   = 1;
    for (int i = 0; i < carry.n; i++) deps[nd++] = carry.to[i];
    for (int i = 0; i < nouter; i++) deps[nd++] = outer[i];
    kn_ref where = x ? kg_substitute(g, flat, &v, &e, 1) : 0;
    if (!where) return 0;
    x              = kg_substitute(g, x, &v, &e, 1);
    x              = kg_substitute(g, x, carry.from, carry.to, carry.n);
    where          = kg_substitute(g, where, carry.from, carry.to, carry.n);
    gate           = kg_substitute(g, gate, carry.from, carry.to, carry.n);
    kn_ref address = kg_index(g, kg_after(g, p, deps, nd), &where, 1);
    kn_ref added   = kg_op2(g, KN_OP_ADD, kg_load_gated(g, address, zero, gate), x);
    kn_ref body    = kg_end(g, kg_store(g, address, added, gate), carry.to, carry.n);
    for (int i = 0; i < carry.n; i++) /* inside a loop that may not run nothing is sure to be cleared */
        if (kg_min(g, kg_at(g, carry.to[i], 0)) < 1) {
            body = kg_list(g, KN_OP_GROUP, (kn_ref[]){cleared, body}, 2);
            break;
        }
    return kg_end(g, body, outer, nouter);
}

/* x reads the storage p: it has to find there what was there before the kernel stored anything. */
static bool reads_storage(kn_graph *g, kn_ref x, kn_ref p, bool *oom) {
    kn_ref  *order;
    uint32_t n;
    bool     reads = false;
    if ((*oom = !kg_reach(g, &x, 1, &order, &n))) return false;
    for (uint32_t i = 0; i < n && !reads; i++)
        reads = kg_op(g, order[i]) == KN_OP_LOAD && kg_storage(g, kg_at(g, order[i], 0)) == p;
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return reads;
}

kn_ref kl_scatter(kn_rw *rw, kn_ref n) {
    kn_graph *g     = rw->g;
    kn_ref    store = kg_at(g, n, 0), sum = kg_at(g, store, 1), rest, e;
    kl_conds  conds = {.n = 0};
    if (kg_nsrc(g, store) != 2 || kg_nsrc(g, n) > MAX_LOOPS || kg_nsrc(g, sum) < 2 || kg_nsrc(g, sum) > MAX_LOOPS)
        return 0;
    if (kg_nsrc(g, kg_at(g, store, 0)) != 2 || kg_op(g, kg_at(g, kg_at(g, store, 0), 0)) != KN_OP_PARAM) return 0;
    if (!split_gate(g, kg_at(g, sum, 0), &conds, &rest, &(bool){false})) return 0;
    for (uint32_t k = 1; k < kg_nsrc(g, n); k++) {
        kn_ref v = kg_at(g, n, k);
        for (int i = 0; i < conds.n; i++) {
            if (!kg_depends(g, conds.c[i], v) || !solve_equal(g, conds.c[i], v, &e)) continue;
            bool moves = false; /* e goes with the sum: else every v would be visited once all the same */
            for (uint32_t s = 1; s < kg_nsrc(g, sum); s++) moves |= kg_depends(g, e, kg_at(g, sum, s));
            if (!moves) continue;
            bool oom = false, scans = kl_holds_prefix(g, rest, n, v, &oom); /* at each i it would be another scan */
            bool own = !oom && reads_storage(g, sum, kg_at(g, kg_at(g, store, 0), 0), &oom); /* it is cleared first */
            if (oom) return kn_oom(kg_fault(g)), 0;
            if (!scans && !own) return build_scatter(g, n, v, e, rest, conjunction(g, &conds, i));
        }
    }
    return 0;
}
