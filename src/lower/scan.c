/* scan.c - sums whose number of terms grows with an output loop become prefixes: the last sum and one term more.
 *
 * Takes: END(body, l...) with reductions in the body whose bound is i + c or c - i for one of the l. Gives: the END
 * with that loop innermost, walked in the direction in which the sums grow, and the reductions as REDUCE{prefix} along
 * it. A loop has one direction: what grows against it stays as it was. */
#include "lower/gates.h"

#include <string.h>

typedef struct kl_growth {
    kn_ref i;        /* the output loop */
    bool   rising;   /* the sum grows with i, else against it */
    kn_ref at;       /* the value of the reduced range at which the term lies that i adds */
    bool   starts;   /* the first sum of all has a term; else it is empty */
    kn_ref bound;
} kl_growth;

/* x stands on r and i through r + sign * i alone, in every index it uses. */
static bool slides(const kn_graph *g, kn_ref x, kn_ref r, kn_ref i, int sign, bool *oom) {
    kn_ref  *order;
    uint32_t n;
    bool     ok = true;
    if (!kg_reach(g, &x, 1, &order, &n)) return *oom = true, false;
    for (uint32_t k = 0; k < n && ok; k++) {
        kn_ref y = order[k];
        int    op = kg_op(g, y);
        if (kg_dtype(g, y) == KN_INDEX && op != KN_OP_INDEX && op != KN_OP_LOAD) continue; /* its users ask */
        for (uint32_t s = 0; s < kg_nsrc(g, y) && ok; s++) {
            kn_ref    z = kg_at(g, y, s);
            kn_affine f;
            if (kg_dtype(g, z) != KN_INDEX || !(kg_depends(g, z, r) || kg_depends(g, z, i))) continue;
            ok = kg_affine(g, z, &f) && kn_affine_coef(&f, i) == sign * kn_affine_coef(&f, r);
            for (int t = 0; t < f.n && ok; t++)
                ok = f.atom[t] == r || f.atom[t] == i || !(kg_depends(g, f.atom[t], r) || kg_depends(g, f.atom[t], i));
        }
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return ok;
}

bool kl_holds_prefix(const kn_graph *g, kn_ref x, kn_ref end, kn_ref on, bool *oom) {
    kn_ref  *order;
    uint32_t n;
    bool     holds = false;
    if (!kg_reach(g, &x, 1, &order, &n)) return *oom = true, false;
    for (uint32_t k = 0; k < n && !holds; k++) {
        if (!kg_is_prefix(g, order[k]) || (on && !kg_depends(g, order[k], on))) continue;
        holds = end == 0;
        for (uint32_t s = 1; end && s < kg_nsrc(g, end); s++) holds |= kg_at(g, end, s) == kg_at(g, order[k], 1);
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return holds;
}

/* Does the reduction grow by one term with each iteration of i, along its k-th range? */
static bool growth_of(kn_graph *g, kn_ref reduce, uint32_t k, kn_ref i, kl_growth *out, bool *oom) {
    kn_ref    x = kg_at(g, reduce, 0), r = kg_at(g, reduce, k), b = kg_at(g, r, 0), extent = kg_at(g, i, 0);
    kn_affine f;
    if (kg_op(g, extent) != KN_OP_CONST || !kg_depends(g, b, i) || !kg_affine(g, b, &f) || f.n != 1) return false;
    if (f.atom[0] != i || (f.coef[0] != 1 && f.coef[0] != -1)) return false;
    for (uint32_t s = 1; s < kg_nsrc(g, reduce); s++) /* the other ranges are the same for every term */
        if (s != k && (kg_depends(g, kg_at(g, kg_at(g, reduce, s), 0), i) ||
                       kg_depends(g, kg_at(g, kg_at(g, reduce, s), 0), r)))
            return false;
    kn_ref  first_term = kg_idx(g, 0);
    kn_ref  fixed      = kg_substitute(g, x, &r, &first_term, 1); /* r's own bound would make any x depend on i */
    bool    rising = f.coef[0] == 1, still = fixed && !kg_depends(g, fixed, i);
    int64_t first  = rising ? f.base : f.base - kg_const_int(g, extent) + 1; /* terms of the first sum */
    if (first > 1 || first < 0 || kl_holds_prefix(g, x, 0, 0, oom)) return false;
    if (!still && !slides(g, x, r, i, rising ? -1 : 1, oom)) return false;
    /* a still x gains the term at the end, a sliding one at its start */
    *out = (kl_growth){i, rising, still ? kg_op2(g, KN_OP_ADD, b, kg_idx(g, -1)) : kg_idx(g, 0), first == 1, b};
    return true;
}

/* The prefix along `loop` that stands for the reduction; i is `turned` there. */
static kn_ref as_prefix(kn_graph *g, kn_ref reduce, uint32_t k, const kl_growth *w, kn_ref loop, kn_ref turned) {
    int       op = (int)kg_field(g, reduce, KN_F_REDUCE_op);
    kn_ref    x   = kg_at(g, reduce, 0), r = kg_at(g, reduce, k), rest[KN_MAX_RANK];
    int       n   = 0;
    kn_ref    none = kg_identity(g, op, kg_dtype(g, reduce));
    if (!w->starts) { /* the first sum of all is empty: what would be its term does not exist */
        kn_ref there = kg_op2(g, KN_OP_CMPLT, kg_idx(g, 0), w->bound);
        if (!(x = kl_gate_loads(g, x, r, there))) return 0;
        x = kg_op3(g, KN_OP_WHERE, there, x, none);
    }
    x = kg_substitute(g, x, &r, &w->at, 1);
    for (uint32_t s = 1; s < kg_nsrc(g, reduce); s++)
        if (s != k) rest[n++] = kg_at(g, reduce, s);
    if (x && n) x = kg_reduce_ranges(g, x, op, rest, n);
    if (x && turned != w->i) x = kg_substitute(g, x, &w->i, &turned, 1);
    return x ? kg_prefix(g, x, op, &loop, 1) : 0;
}

kn_ref kl_scan(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref   *order, i = 0, loop = 0, turned = 0, body = kg_at(g, n, 0), src[KN_MAX_RANK + 1];
    uint32_t  count, m = 1;
    bool      rising = false, oom = false;
    if (kg_nsrc(g, n) > KN_MAX_RANK) return 0;
    for (uint32_t k = 1; k < kg_nsrc(g, n); k++) /* its iterations meet in memory: another order would change them */
        if (kg_field(g, kg_at(g, n, k), KN_F_RANGE_type) == KN_AXIS_REDUCE) return 0;
    if (kl_holds_prefix(g, body, n, 0, &oom)) return 0; /* its loop has a direction */
    if (oom || !kg_reach(g, &body, 1, &order, &count)) return kn_oom(kg_fault(g)), 0;
    for (uint32_t at = count; at-- > 0 && body;) {
        kn_ref reduce = order[at], now;
        bool   done   = false;
        if (kg_op(g, reduce) != KN_OP_REDUCE || kg_is_prefix(g, reduce) || kg_nsrc(g, reduce) > KN_MAX_RANK) continue;
        if (kg_is_fold(g, reduce)) continue; /* it has no prefix form */
        if (!kg_ranges_within(g, reduce, body)) continue; /* in a loop of its own inside */
        for (uint32_t s = 1; s < kg_nsrc(g, reduce) && !done; s++)
            for (uint32_t k = 1; k < kg_nsrc(g, n) && !done; k++) {
                kl_growth w;
                if (!growth_of(g, reduce, s, kg_at(g, n, k), &w, &oom)) continue;
                done = true;
                if (i && (w.i != i || w.rising != rising)) continue;
                if (!i) { /* from the end: a loop of its own, i is what its number says from behind */
                    i      = w.i;
                    rising = w.rising;
                    loop   = rising ? i : kg_range(g, kg_at(g, i, 0), kl_fresh_id(g),
                                                   (int)kg_field(g, i, KN_F_RANGE_type));
                    turned = i;
                    if (!rising)
                        turned = kg_op2(g, KN_OP_ADD, kg_op2(g, KN_OP_MUL, loop, kg_idx(g, -1)),
                                        kg_idx(g, kg_const_int(g, kg_at(g, i, 0)) - 1));
                }
                now    = as_prefix(g, reduce, s, &w, loop, turned);
                body   = now ? kg_substitute(g, body, &reduce, &now, 1) : 0;
            }
    }
    kn_free(kg_alloc(g), order, count * sizeof *order);
    if (oom) return kn_oom(kg_fault(g)), 0;
    if (!i || !body) return 0;
    for (uint32_t k = 1; k < kg_nsrc(g, n); k++)
        if (kg_at(g, n, k) != i) src[m++] = kg_at(g, n, k);
    src[m++] = loop;
    src[0]   = loop == i ? body : kg_substitute(g, body, &i, &turned, 1);
    return src[0] ? kg_with_src(g, n, src, m) : 0;
}
