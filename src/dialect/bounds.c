/* bounds.c - min and max of integers, the set of open ranges, affine forms.
 *
 * Contract: bounds are sound (dialect.md, 13): what a node can be lies within [min, max]; int64's ends read as "no
 * bound". Floats have none. The range set holds the RANGEs a value depends on that nothing below it has closed. */
#include "dialect/graph.h"

#include <string.h>

/* ---- bounds -------------------------------------------------------------------------------------------------- */

/* The exact interval if the dtype holds it, else (it would wrap) the dtype's whole range. */
static void fit(kn_prop *p, int dtype, int64_t lo, int64_t hi) {
    const kn_dtype_info *d = &kn_dtypes[dtype];
    if (lo < d->min || hi > d->max || (d->size == 8 && dtype != KN_INDEX && (lo == INT64_MIN || hi == INT64_MAX)))
        lo = d->min, hi = d->max;
    p->min = lo;
    p->max = hi;
}

static void join(const kn_graph *g, kn_prop *p, kn_ref n) {
    const kn_prop *s = kg_prop(g, n);
    p->min           = KN_MIN(p->min, s->min);
    p->max           = KN_MAX(p->max, s->max);
}

static void bool_bounds(kn_prop *p, bool can_be_false, bool can_be_true) {
    p->min = can_be_false ? 0 : 1;
    p->max = can_be_true ? 1 : 0;
}

static void binary_bounds(const kn_graph *g, int op, int dt, kn_ref x, kn_ref y, kn_prop *p) {
    int64_t a = kg_prop(g, x)->min, A = kg_prop(g, x)->max, b = kg_prop(g, y)->min, B = kg_prop(g, y)->max;
    bool    wide = dt == KN_U64 && (A == INT64_MAX || B == INT64_MAX); /* beyond int64: nothing is known */
    switch (op) {
    case KN_OP_ADD:
        if (dt == KN_BOOL) bool_bounds(p, !(a | b), A | B);
        else if (!wide) fit(p, dt, kn_sat_add(a, b), kn_sat_add(A, B));
        return;
    case KN_OP_SUB:
        if (!wide && b != INT64_MIN) fit(p, dt, kn_sat_add(a, -B), kn_sat_add(A, -b));
        return;
    case KN_OP_MUL: {
        if (dt == KN_BOOL) {
            bool_bounds(p, !(a & b), A & B);
            return;
        }
        if (wide) return;
        int64_t v[4] = {kn_sat_mul(a, b), kn_sat_mul(a, B), kn_sat_mul(A, b), kn_sat_mul(A, B)};
        int64_t lo = v[0], hi = v[0];
        for (int i = 1; i < 4; i++) lo = KN_MIN(lo, v[i]), hi = KN_MAX(hi, v[i]);
        fit(p, dt, lo, hi);
        return;
    }
    case KN_OP_MAX: p->min = KN_MAX(a, b), p->max = KN_MAX(A, B); return;
    case KN_OP_MIN: p->min = KN_MIN(a, b), p->max = KN_MIN(A, B); return;
    case KN_OP_IDIV:
        if (b < 0 || wide) return; /* by a negative: rare, nothing said */
        {
            int64_t d = KN_MAX(b, 1), D = KN_MAX(B, 1); /* by zero: zero */
            int64_t v[5] = {kn_floor_div(a, d), kn_floor_div(a, D), kn_floor_div(A, d), kn_floor_div(A, D)};
            p->min = p->max = v[0];
            for (int i = 1; i < (b ? 4 : 5); i++) p->min = KN_MIN(p->min, v[i]), p->max = KN_MAX(p->max, v[i]);
        }
        return;
    case KN_OP_MOD:
        if (b < 0 || wide) return;
        if (b == 0) p->min = KN_MIN(a, 0), p->max = a >= 0 ? A : KN_MAX(A, KN_MAX(B - 1, 0)); /* by zero: a */
        else if (a >= 0 && A < b) p->min = a, p->max = A;
        else p->min = 0, p->max = a >= 0 ? KN_MIN(A, B - 1) : B - 1;
        return;
    case KN_OP_AND:
        if (a >= 0 && b >= 0) p->min = 0, p->max = KN_MIN(A, B);
        else if (a >= 0) p->min = 0, p->max = A;
        else if (b >= 0) p->min = 0, p->max = B;
        return;
    case KN_OP_OR: case KN_OP_XOR:
        if (dt == KN_BOOL && op == KN_OP_OR) bool_bounds(p, !(a | b), A | B);
        else if (a >= 0 && b >= 0 && A != INT64_MAX && B != INT64_MAX) {
            uint64_t m = (uint64_t)(A | B);
            for (int s = 1; s < 64; s *= 2) m |= m >> s;
            p->min = 0, p->max = (int64_t)m;
        }
        return;
    case KN_OP_SHR:
        if (a >= 0 && b >= 0 && !wide) p->min = 0, p->max = b < 63 ? A >> b : 0;
        return;
    case KN_OP_SHL:
        if (a >= 0 && b >= 0 && B < 62 && !wide) fit(p, dt, 0, kn_sat_mul(A, (int64_t)1 << B));
        return;
    default: return;
    }
}

static void compare_bounds(const kn_graph *g, int op, kn_ref x, kn_ref y, kn_prop *p) {
    bool_bounds(p, true, true);
    int dt = kg_dtype(g, x);
    if (kn_is_float(dt)) return;
    int64_t a = kg_prop(g, x)->min, A = kg_prop(g, x)->max, b = kg_prop(g, y)->min, B = kg_prop(g, y)->max;
    if (dt == KN_U64 && (A == INT64_MAX || B == INT64_MAX)) { /* the maximum is only a lower bound of it */
        if (A == INT64_MAX && B == INT64_MAX) return;
        if (A == INT64_MAX) A = INT64_MAX; /* compares above every int64 */
    }
    switch (op) {
    case KN_OP_CMPLT: bool_bounds(p, A >= b, a < B); break;
    case KN_OP_CMPGT: bool_bounds(p, B >= a, b < A); break;
    case KN_OP_CMPGE: bool_bounds(p, a < B, A >= b); break;
    case KN_OP_CMPLE: bool_bounds(p, b < A, B >= a); break;
    case KN_OP_CMPNE: bool_bounds(p, !(A < b || B < a), !(a == A && b == B && a == b)); break;
    case KN_OP_CMPEQ: bool_bounds(p, !(a == A && b == B && a == b), !(A < b || B < a)); break;
    default: break;
    }
}

void kg_infer_bounds(kn_graph *g, const kn_node *nd, const kn_ref *src, kn_prop *p) {
    int dt = nd->dtype;
    p->min = kn_dtypes[dt].min;
    p->max = kn_dtypes[dt].max;
    if (kn_is_float(dt)) return;
    if (dt == KN_VOID) return;
    switch (nd->op) {
    case KN_OP_CONST:
        if (dt == KN_U64 && (int64_t)nd->arg < 0) break; /* beyond int64 */
        p->min = p->max = (int64_t)nd->arg;
        break;
    case KN_OP_PARAM: {
        const int64_t *w = g->at.words[nd->arg];
        p->min           = KN_MAX(p->min, w[KN_F_PARAM_min]);
        p->max           = KN_MIN(p->max, w[KN_F_PARAM_max]);
        break;
    }
    case KN_OP_RANGE: case KN_OP_SPECIAL: {
        int64_t hi = kg_prop(g, src[0])->max;
        p->min     = 0;
        p->max     = hi == INT64_MAX ? hi : KN_MAX(hi - 1, 0);
        /* A loop that may run once or not at all: were its range the constant 0, what stands in it would seem not to
         * depend on it, and be moved out. */
        if (nd->op == KN_OP_RANGE && kg_op(g, src[0]) != KN_OP_CONST && hi <= 1) p->max = 1;
        break;
    }
    case KN_OP_PERMUTE: case KN_OP_FLIP: case KN_OP_RESHAPE: case KN_OP_EXPAND: case KN_OP_SHRINK: case KN_OP_INDEX:
    case KN_OP_REPLICATED: case KN_OP_AFTER: case KN_OP_BUFFERIZE: case KN_OP_BIND: case KN_OP_DETACH:
    case KN_OP_CONTIGUOUS_BACKWARD:
        p->min = kg_prop(g, src[0])->min;
        p->max = kg_prop(g, src[0])->max;
        break;
    case KN_OP_INS: { /* of the op that it does */
        kn_node as = *nd;
        as.op      = (uint8_t)g->at.words[nd->arg][KN_F_INS_op];
        if (kn_is_alu(as.op)) kg_infer_bounds(g, &as, src, p);
        break;
    }
    case KN_OP_PAD:
        p->min = KN_MIN(kg_prop(g, src[0])->min, 0);
        p->max = KN_MAX(kg_prop(g, src[0])->max, 0);
        break;
    case KN_OP_LOAD:
        p->min = kg_prop(g, src[0])->min;
        p->max = kg_prop(g, src[0])->max;
        if (nd->nsrc == 3) join(g, p, src[1]);
        break;
    case KN_OP_STACK:
        if (!nd->nsrc) break;
        p->min = INT64_MAX, p->max = INT64_MIN;
        for (uint32_t i = 0; i < nd->nsrc; i++) join(g, p, src[i]);
        break;
    case KN_OP_WHERE:
        p->min = INT64_MAX, p->max = INT64_MIN;
        join(g, p, src[1]);
        join(g, p, src[2]);
        break;
    case KN_OP_CAST: {
        int from = kg_dtype(g, src[0]);
        if (kn_is_float(from)) break;
        if (dt == KN_BOOL) {
            bool_bounds(p, kg_prop(g, src[0])->min <= 0 && kg_prop(g, src[0])->max >= 0,
                        kg_prop(g, src[0])->min != 0 || kg_prop(g, src[0])->max != 0);
            break;
        }
        if (from == KN_U64 && kg_prop(g, src[0])->max == INT64_MAX) break;
        if (kg_prop(g, src[0])->min >= p->min && kg_prop(g, src[0])->max <= p->max) {
            p->min = kg_prop(g, src[0])->min;
            p->max = kg_prop(g, src[0])->max;
        }
        break;
    }
    case KN_OP_MULACC: {
        kn_prop product = *p, *c = kg_prop(g, src[2]);
        if (dt == KN_BOOL || dt == KN_U64) break;
        binary_bounds(g, KN_OP_MUL, dt, src[0], src[1], &product);
        fit(p, dt, kn_sat_add(product.min, c->min), kn_sat_add(product.max, c->max));
        break;
    }
    case KN_OP_NEG:
        if (dt != KN_U64 && kg_prop(g, src[0])->min != INT64_MIN)
            fit(p, dt, -kg_prop(g, src[0])->max, -kg_prop(g, src[0])->min);
        break;
    case KN_OP_NOT:
        if (dt == KN_BOOL) bool_bounds(p, kg_prop(g, src[0])->max, !kg_prop(g, src[0])->min);
        break;
    case KN_OP_REDUCE: {
        int64_t op = g->at.words[nd->arg][KN_F_REDUCE_op];
        if (op != KN_OP_MAX && op != KN_OP_MIN) break;
        /* of an empty range the identity comes out, so only one side is kept */
        if (op == KN_OP_MAX) p->max = KN_MAX(kg_prop(g, src[0])->max, p->min);
        else p->min = KN_MIN(kg_prop(g, src[0])->min, p->max);
        break;
    }
    case KN_OP_CMPLT: case KN_OP_CMPNE: case KN_OP_CMPGT: case KN_OP_CMPGE: case KN_OP_CMPLE: case KN_OP_CMPEQ:
        compare_bounds(g, nd->op, src[0], src[1], p);
        break;
    default:
        if (kn_ops[nd->op].cls == KN_CLS_BINARY) binary_bounds(g, nd->op, dt, src[0], src[1], p);
        break;
    }
}

int64_t kg_min(const kn_graph *g, kn_ref n) { return kg_prop(g, n)->min; }
int64_t kg_max(const kn_graph *g, kn_ref n) { return kg_prop(g, n)->max; }

bool kg_in_bounds(const kn_graph *g, kn_ref index) {
    return kg_op(g, index) == KN_OP_INDEX && kg_nsrc(g, index) == 2 && kg_min(g, kg_at(g, index, 1)) >= 0 &&
           kg_max(g, kg_at(g, index, 1)) < kg_numel(g, kg_at(g, index, 0));
}

/* ---- range sets ---------------------------------------------------------------------------------------------- */

static const uint64_t *set_bits(const kn_set *s) { return s->words == 1 ? &s->u.one : s->u.many; }
static uint64_t        set_part(const kn_set *s, uint32_t word) {
    return word - s->first < s->words ? set_bits(s)[word - s->first] : 0;
}
static bool set_has(const kn_set *s, uint32_t bit) { return set_part(s, bit / 64) >> (bit % 64) & 1; }

static bool set_within(const kn_set *a, const kn_set *b) {
    const uint64_t *x = set_bits(a);
    for (uint32_t i = 0; i < a->words; i++)
        if (x[i] & ~set_part(b, a->first + i)) return false;
    return true;
}

/* A copy of a, with room for the words first..last too. */
static uint64_t *set_room(kn_graph *g, const kn_set *a, uint32_t first, uint32_t last, kn_set *r) {
    r->first       = a->words ? KN_MIN(a->first, first) : first;
    r->words       = (a->words ? KN_MAX(a->first + a->words - 1, last) : last) - r->first + 1;
    uint64_t *bits = &r->u.one;
    if (r->words > 1) r->u.many = bits = kn_arena_get(&g->arena, r->words * sizeof *bits);
    for (uint32_t i = 0; bits && i < r->words; i++) bits[i] = set_part(a, r->first + i);
    return bits;
}

static bool set_union(kn_graph *g, kn_set *a, const kn_set *b) {
    if (a->words == 1 && b->words == 1 && a->first == b->first) { /* nearly always */
        a->u.one |= b->u.one;
        return true;
    }
    if (!b->words || set_within(b, a)) return true;
    if (!a->words || set_within(a, b)) {
        *a = *b;
        return true;
    }
    kn_set    r;
    uint64_t *bits = set_room(g, a, b->first, b->first + b->words - 1, &r);
    if (!bits) return false;
    for (uint32_t i = 0; i < b->words; i++) bits[b->first - r.first + i] |= set_bits(b)[i];
    *a = r;
    return true;
}

static bool set_change(kn_graph *g, kn_set *a, uint32_t bit, bool in) {
    if (set_has(a, bit) == in) return true;
    kn_set    r;
    uint64_t *bits = set_room(g, a, bit / 64, bit / 64, &r);
    if (!bits) return false;
    bits[bit / 64 - r.first] ^= (uint64_t)1 << (bit % 64);
    *a = r;
    return true;
}

bool kg_infer_ranges(kn_graph *g, const kn_node *nd, const kn_ref *src, kn_prop *p) {
    int start = kn_range_start(nd->op);
    if (nd->op == KN_OP_REDUCE && g->at.words[nd->arg][KN_F_REDUCE_prefix]) start = -1;
    for (uint32_t i = 0; i < nd->nsrc; i++) {
        const kn_set *s = &kg_prop(g, src[i])->set;
        if (start >= 0 && (int)i >= start)
            s = &kg_prop(g, kg_at(g, src[i], 0))->set; /* of a range it closes: the bound's */
        if (!set_union(g, &p->set, s)) return false;
    }
    if (start >= 0)
        for (uint32_t i = (uint32_t)start; i < nd->nsrc; i++)
            if (kg_prop(g, src[i])->bit && !set_change(g, &p->set, kg_prop(g, src[i])->bit - 1, false)) return false;
    if (nd->op == KN_OP_RANGE && g->at.words[nd->arg][KN_F_RANGE_rank] == 0) {
        if (!KN_GROW(g->alloc, g->ranges, g->ranges_cap, g->ranges_n + 1)) return false;
        p->bit = (uint32_t)++g->ranges_n;
        if (!set_change(g, &p->set, p->bit - 1, true)) return false;
    }
    return true;
}

bool kg_depends(const kn_graph *g, kn_ref n, kn_ref range) {
    uint32_t bit = kg_prop(g, range)->bit;
    return bit && set_has(&kg_prop(g, n)->set, bit - 1);
}

bool kg_ranges_within(const kn_graph *g, kn_ref a, kn_ref b) {
    return set_within(&kg_prop(g, a)->set, &kg_prop(g, b)->set);
}
bool kg_closed(const kn_graph *g, kn_ref n) { return kg_ranges(g, n, NULL, 0) == 0; }

int kg_ranges(const kn_graph *g, kn_ref n, kn_ref *out, int cap) {
    const kn_set   *s    = &kg_prop(g, n)->set;
    const uint64_t *bits = set_bits(s);
    int             k    = 0;
    for (uint32_t i = 0; i < s->words; i++)
        for (uint64_t m = bits[i]; m; m &= m - 1, k++)
            if (k < cap) out[k] = g->ranges[(s->first + i) * 64 + (uint32_t)__builtin_ctzll(m)];
    return k;
}

/* ---- affine forms -------------------------------------------------------------------------------------------- */

int64_t kn_affine_coef(const kn_affine *f, kn_ref atom) {
    for (int i = 0; i < f->n; i++)
        if (f->atom[i] == atom) return f->coef[i];
    return 0;
}

static bool affine_add(kn_affine *f, kn_ref atom, int64_t coef) {
    int i = 0;
    while (i < f->n && f->atom[i] < atom) i++;
    if (i < f->n && f->atom[i] == atom) {
        if (!kn_add_ok(f->coef[i], coef, &f->coef[i])) return false;
        if (f->coef[i]) return true;
        f->n--;
        memmove(f->atom + i, f->atom + i + 1, (size_t)(f->n - i) * sizeof *f->atom);
        memmove(f->coef + i, f->coef + i + 1, (size_t)(f->n - i) * sizeof *f->coef);
        return true;
    }
    if (coef == 0) return true;
    if (f->n == KN_AFFINE_MAX) return false;
    memmove(f->atom + i + 1, f->atom + i, (size_t)(f->n - i) * sizeof *f->atom);
    memmove(f->coef + i + 1, f->coef + i, (size_t)(f->n - i) * sizeof *f->coef);
    f->atom[i] = atom;
    f->coef[i] = coef;
    f->n++;
    return true;
}

bool kg_affine(const kn_graph *g, kn_ref n, kn_affine *out) {
    struct { kn_ref n; int64_t c; } stack[96];
    int top = 0, steps = 0;
    out->base = out->n = 0;
    stack[top].n   = n;
    stack[top++].c = 1;
    while (top) {
        kn_ref         x  = stack[--top].n;
        int64_t        c  = stack[top].c, k;
        const kn_node *nd = kg_node(g, x);
        if (++steps > 512 || top + 2 > KN_COUNT(stack)) return false;
        switch (nd->op) {
        case KN_OP_CONST:
            if (!kn_mul_ok(c, kg_const_int(g, x), &k) || !kn_add_ok(out->base, k, &out->base)) return false;
            continue;
        case KN_OP_ADD: case KN_OP_SUB:
            if (nd->op == KN_OP_SUB && !kn_mul_ok(c, -1, &k)) return false;
            stack[top].n   = nd->s.src[1];
            stack[top++].c = nd->op == KN_OP_SUB ? k : c;
            stack[top].n   = nd->s.src[0];
            stack[top++].c = c;
            continue;
        case KN_OP_NEG:
            if (!kn_mul_ok(c, -1, &k)) return false;
            stack[top].n   = nd->s.src[0];
            stack[top++].c = k;
            continue;
        case KN_OP_MUL: case KN_OP_SHL: {
            int con = -1;
            if (kg_op(g, nd->s.src[1]) == KN_OP_CONST) con = 1;
            else if (nd->op == KN_OP_MUL && kg_op(g, nd->s.src[0]) == KN_OP_CONST) con = 0;
            if (con < 0) break;
            int64_t v = kg_const_int(g, nd->s.src[con]);
            if (nd->op == KN_OP_SHL) {
                if (v < 0 || v > 61) break;
                v = (int64_t)1 << v;
            }
            if (!kn_mul_ok(c, v, &k)) return false;
            stack[top].n   = nd->s.src[1 - con];
            stack[top++].c = k;
            continue;
        }
        default: break;
        }
        if (!affine_add(out, x, c)) return false;
    }
    return true;
}

kn_ref kg_from_affine(kn_graph *g, const kn_affine *f) {
    kn_ref sum = 0;
    for (int i = 0; i < f->n; i++) {
        kn_ref t = f->coef[i] == 1 ? f->atom[i] : kg_op2(g, KN_OP_MUL, f->atom[i], kg_idx(g, f->coef[i]));
        if (!t) return 0;
        sum = sum ? kg_op2(g, KN_OP_ADD, sum, t) : t;
    }
    if (!sum) return kg_idx(g, f->base);
    return f->base ? kg_op2(g, KN_OP_ADD, sum, kg_idx(g, f->base)) : sum;
}
