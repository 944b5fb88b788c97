/* loops.c - loops of a kernel that was cut out become those that its accesses walk.
 *
 * Takes: a kernel, simplified. Gives: the same with fewer loops: two next to one another that every access walks as one
 *   are one. */
#include "lower/rangeify.h"

/* Whether x is made of the number of one of two loops, which it does not close; what is loaded has a place that is. */
static bool is_counted(const kn_graph *g, kn_ref x, kn_ref outer, kn_ref inner, const bool *counted) {
    int  start = kn_range_start(kg_op(g, x));
    bool any   = x == outer || x == inner;
    for (uint32_t s = 0; s < kg_nsrc(g, x) && kg_op(g, x) != KN_OP_LOAD; s++) {
        bool closes = start >= 0 && (int)s >= start;
        if (closes && kg_at(g, x, s) == outer) return false;
        any |= counted[closes ? kg_at(g, kg_at(g, x, s), 0) : kg_at(g, x, s)];
    }
    return any;
}

/* Adjacent loops that every access walks as one become one: i*J + j with both used nowhere else. */
static bool mergeable(const kn_graph *g, const kn_ref *order, uint32_t n, kn_ref outer, kn_ref inner, int64_t extent,
                      bool *counted) {
    for (uint32_t i = 0; i < n; i++) {
        kn_ref x   = order[i];
        counted[x] = is_counted(g, x, outer, inner, counted);
        if (kg_is_prefix(g, x) && (kg_at(g, x, 1) == outer || kg_at(g, x, 1) == inner)) return false;
        if (kg_op(g, x) == KN_OP_RANGE && counted[kg_at(g, x, 0)]) return false;
        if (kg_op(g, x) == KN_OP_INDEX) {
            kn_affine f;
            if (!kg_affine(g, kg_at(g, x, 1), &f)) return false;
            if (kn_affine_coef(&f, outer) != extent * kn_affine_coef(&f, inner)) return false;
            for (int t = 0; t < f.n; t++)
                if (f.atom[t] != outer && f.atom[t] != inner && counted[f.atom[t]]) return false;
        } else if (kg_dtype(g, x) != KN_INDEX) { /* used as a number: arange, gates */
            for (uint32_t s = 0; s < kg_nsrc(g, x); s++) {
                kn_ref y = kg_at(g, x, s);
                if (kg_dtype(g, y) != KN_INDEX || kg_op(g, y) == KN_OP_INDEX ||
                    (kg_op(g, y) == KN_OP_RANGE && kn_range_start(kg_op(g, x)) >= 0))
                    continue;
                if (counted[y]) return false;
            }
        }
    }
    return true;
}

bool kl_merge_loops(kl_program *p, kl_kernel *k) {
    for (bool again = true; again;) {
        kn_ref  *order;
        uint32_t n;
        again = false;
        if (!kg_reach(k->g, &k->root, 1, &order, &n)) return kn_oom(kg_fault(k->g));
        size_t size    = (size_t)k->root + 1;
        bool  *counted = kn_zalloc(p->alloc, size * sizeof *counted);
        for (uint32_t i = 0; i < n && !again && counted; i++) {
            int op = kg_op(k->g, order[i]);
            if (op != KN_OP_END && op != KN_OP_REDUCE) continue;
            for (uint32_t s = 1; s + 1 < kg_nsrc(k->g, order[i]) && !again; s++) {
                kn_ref  outer = kg_at(k->g, order[i], s), inner = kg_at(k->g, order[i], s + 1);
                kn_ref  eb = kg_at(k->g, inner, 0), ob = kg_at(k->g, outer, 0);
                int64_t e = kg_const_int(k->g, eb), total;
                if (kg_op(k->g, eb) != KN_OP_CONST || kg_op(k->g, ob) != KN_OP_CONST) continue;
                if (!kn_mul_ok(e, kg_const_int(k->g, ob), &total)) continue;
                if (!mergeable(k->g, order, n, outer, inner, e, counted)) continue;
                kg_made_of(k->g, k->g, inner);
                kn_ref one = kg_range(k->g, kg_idx(k->g, total), kg_field(k->g, inner, KN_F_RANGE_id),
                                      (int)kg_field(k->g, inner, KN_F_RANGE_type));
                kn_ref src[KN_MAX_RANK * 2], m = 0;
                if (kg_nsrc(k->g, order[i]) > KN_COUNT(src)) continue;
                for (uint32_t t = 0; t < kg_nsrc(k->g, order[i]); t++)
                    if (t != s) src[m++] = t == s + 1 ? one : kg_at(k->g, order[i], t);
                kn_ref from[2] = {outer, inner}, to[2] = {kg_idx(k->g, 0), one};
                src[0]         = kg_substitute(k->g, src[0], from, to, 2);
                kn_ref closer  = kg_with_src(k->g, order[i], src, m);
                k->root        = kg_substitute(k->g, k->root, &order[i], &closer, 1);
                again          = true;
            }
        }
        kn_free(p->alloc, order, n * sizeof *order);
        kn_free(p->alloc, counted, size * sizeof *counted);
        if (!counted) return kn_oom(kg_fault(k->g));
        if (!k->root) return false;
    }
    return true;
}
