/* loops.c - loops of a kernel that was cut out become those that its accesses walk.
 *
 * Takes: a kernel, simplified. Gives: the same, where two loops next to one another that every access walks as one are
 *   one, and one whose number i is used as i / d and i % d is two: what was a view is a loop again. */
#include "lower/rangeify.h"

/* ---- two become one ------------------------------------------------------------------------------------------ */

enum {
    MOST_GATES = 30, /* that ask for the number of one loop */
    ROW_MERGED = 8,  /* less than lanes want for their own */
    MOST_MOVED = 8   /* ops beside loads in what is moved, more than it is computed */
};

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

/* Whether x asks if the outer loop's number is below a constant, or above it. */
static bool is_row_gate(const kn_graph *g, kn_ref x, kn_ref outer) {
    if (kg_op(g, x) != KN_OP_CMPLT) return false;
    kn_ref a = kg_at(g, x, 0), b = kg_at(g, x, 1);
    return (a == outer && kg_op(g, b) == KN_OP_CONST) || (b == outer && kg_op(g, a) == KN_OP_CONST);
}

/* The same asked of i*J + j: i < c is that it is below c*J, and c < i that it is not below (c + 1)*J. 0: too large. */
static kn_ref row_gate_of(kn_graph *g, kn_ref x, kn_ref outer, kn_ref one, int64_t extent) {
    bool    below = kg_at(g, x, 0) == outer;
    int64_t c     = kg_const_int(g, kg_at(g, x, below ? 1 : 0)), limit;
    if (c > INT64_MAX - 1 || !kn_mul_ok(below ? c : c + 1, extent, &limit) || limit == INT64_MIN) return 0;
    return below ? kg_op2(g, KN_OP_CMPLT, one, kg_idx(g, limit)) : kg_op2(g, KN_OP_CMPLT, kg_idx(g, limit - 1), one);
}

/* Little is computed, and no function. */
static bool is_moved(const kn_graph *g, const kn_ref *order, uint32_t n) {
    int ops = 0;
    for (uint32_t i = 0; i < n; i++) {
        int op = kg_op(g, order[i]), dt = kg_dtype(g, order[i]);
        if (!kn_is_alu(op) || dt == KN_INDEX || dt == KN_BOOL) continue;
        ops += op == KN_OP_EXP2 || op == KN_OP_LOG2 || op == KN_OP_SIN || op == KN_OP_POW ? MOST_MOVED + 1 : 1;
    }
    return ops <= MOST_MOVED;
}

/* Adjacent loops that every access walks as one become one: i*J + j with both used nowhere else; but for i in the gates
 * of short rows that are only moved: where gates change within a register, what both sides compute is made for both. */
static bool mergeable(const kn_graph *g, const kn_ref *order, uint32_t n, kn_ref outer, kn_ref inner, int64_t extent,
                      bool *counted) {
    bool moved = extent <= ROW_MERGED && is_moved(g, order, n);
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
            if (moved && is_row_gate(g, x, outer)) continue;
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

/* The body of both loops as that of one. 0: too much asks for the outer one's number. */
static kn_ref walked_as_one(kn_graph *g, const kn_ref *order, uint32_t n, kn_ref body, kn_ref outer, kn_ref inner,
                            kn_ref one, int64_t extent) {
    kn_ref from[MOST_GATES + 2] = {outer, inner}, to[MOST_GATES + 2] = {kg_idx(g, 0), one};
    int    m = 2;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_row_gate(g, order[i], outer)) continue;
        if (m == KN_COUNT(from)) return 0;
        from[m] = order[i];
        to[m]   = row_gate_of(g, order[i], outer, one, extent);
        if (!to[m++]) return 0;
    }
    return kg_substitute(g, body, from, to, m);
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
                src[0] = walked_as_one(k->g, order, n, src[0], outer, inner, one, e);
                if (!src[0]) continue;
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

/* ---- one becomes two ------------------------------------------------------------------------------------------ */

enum {
    RUN = 16, /* numbers of a loop that are worth lanes of their own */
    MOST_LOOPS = KN_MAX_RANK, /* of an END */
    MOST_PARTS = 16 /* that one number is taken apart into */
};

/* What gates and values are made of, besides what is loaded for them; order[] is ascending. */
static void mark_valued(const kn_graph *g, const kn_ref *order, uint32_t n, bool *valued) {
    for (uint32_t i = n; i-- > 0;) {
        kn_ref x     = order[i];
        int    start = kn_range_start(kg_op(g, x));
        if (kg_op(g, x) == KN_OP_INDEX || (kg_dtype(g, x) == KN_INDEX && !valued[x])) continue;
        for (uint32_t s = 0; s < kg_nsrc(g, x) && (start < 0 || (int)s < start); s++)
            valued[kg_at(g, x, s)] |= kg_dtype(g, kg_at(g, x, s)) == KN_INDEX;
    }
}

/* Something is stored side by side along the loop. */
static bool is_stored_along(const kn_graph *g, const kn_ref *order, uint32_t n, kn_ref range) {
    for (uint32_t i = 0; i < n; i++) {
        kn_affine f;
        if (kg_op(g, order[i]) != KN_OP_STORE || !kg_affine(g, kg_at(g, kg_at(g, order[i], 0), 1), &f)) continue;
        if (kn_affine_coef(&f, range) == 1) return true;
    }
    return false;
}

/* x is i / d or i % d of that loop's number i, for some d. */
static bool takes_apart(const kn_graph *g, kn_ref x, kn_ref range) {
    return (kg_op(g, x) == KN_OP_MOD || kg_op(g, x) == KN_OP_IDIV) && kg_at(g, x, 0) == range;
}

static bool any_taken_apart(const kn_graph *g, const kn_ref *order, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        kn_ref range = kg_nsrc(g, order[i]) ? kg_at(g, order[i], 0) : 0;
        if (range && kg_op(g, range) == KN_OP_RANGE && takes_apart(g, order[i], range)) return true;
    }
    return false;
}

/* The largest d of which i / d or i % d is part of an address; 0: there is none, or it leaves something over, or others
 * do not go into it, or gates ask for them too (optimize/phases.c), or a scan or a bound hangs on i. */
static int64_t taken_apart_by(const kn_graph *g, const kn_ref *order, uint32_t n, kn_ref range, const bool *valued) {
    int64_t most = 0, extent = kg_const_int(g, kg_at(g, range, 0));
    int     parts = 0;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref x = order[i];
        if (kg_is_prefix(g, x) && kg_at(g, x, 1) == range) return 0;
        if (kg_op(g, x) == KN_OP_RANGE && kg_depends(g, kg_at(g, x, 0), range)) return 0;
        if (!takes_apart(g, x, range)) continue;
        if (kg_op(g, kg_at(g, x, 1)) != KN_OP_CONST || valued[x] || ++parts > MOST_PARTS) return 0;
        int64_t d = kg_const_int(g, kg_at(g, x, 1));
        if (d < 2 || d >= extent || extent % d || (most && most % d && d % most)) return 0;
        most = KN_MAX(most, d);
    }
    return most;
}

/* closer's loop number s as two, the inner one of d numbers; all that takes it apart becomes what it is of them. */
static void split_loop(kl_kernel *k, const kn_ref *order, uint32_t n, kn_ref closer, uint32_t s, int64_t d,
                       int64_t id) {
    kn_graph *g     = k->g;
    kn_ref    range = kg_at(g, closer, s), src[MOST_LOOPS + 2], from[MOST_PARTS + 1], to[MOST_PARTS + 1];
    int       type  = (int)kg_field(g, range, KN_F_RANGE_type), parts = 0;
    int64_t   e     = kg_const_int(g, kg_at(g, range, 0));
    uint32_t  nsrc  = kg_nsrc(g, closer), m = 0;
    kg_made_of(g, g, range);
    kn_ref outer = kg_range(g, kg_idx(g, e / d), kg_field(g, range, KN_F_RANGE_id), type);
    kn_ref inner = kg_range(g, kg_idx(g, d), id, type);
    for (uint32_t i = 0; i < n; i++) {
        kn_ref x = order[i];
        if (x != range && !takes_apart(g, x, range)) continue;
        int64_t by  = x == range ? 1 : kg_const_int(g, kg_at(g, x, 1)); /* which goes into d */
        kn_ref  low = x == range || by == d ? inner : kg_op2(g, kg_op(g, x), inner, kg_idx(g, by));
        kn_ref  all = kg_op2(g, KN_OP_MUL, outer, kg_idx(g, d / by));
        if (kg_op(g, x) != KN_OP_MOD) low = by == d ? outer : kg_op2(g, KN_OP_ADD, all, low);
        from[parts] = x;
        to[parts++] = low;
    }
    for (uint32_t t = 0; t < nsrc; t++) {
        src[m++] = t == s ? outer : kg_at(g, closer, t);
        if (t == s) src[m++] = inner;
    }
    src[0]     = kg_substitute(g, src[0], from, to, parts);
    kn_ref now = kg_with_src(g, closer, src, m);
    k->root    = kg_substitute(g, k->root, &closer, &now, 1);
}

/* The innermost loop of an END that is to be two is: *split. One whose parts are both short stays whole where something
 * is stored side by side along it, and then around it too: lanes and rows are put together from short runs. */
static bool split_first(kl_program *p, kl_kernel *k, bool *split) {
    kn_ref  *order;
    uint32_t n;
    int64_t  id = 0;
    *split = false;
    if (!kg_reach(k->g, &k->root, 1, &order, &n)) return kn_oom(kg_fault(k->g));
    if (!any_taken_apart(k->g, order, n)) { /* as in most kernels */
        kn_free(p->alloc, order, n * sizeof *order);
        return true;
    }
    size_t size   = (size_t)k->root + 1;
    bool  *valued = kn_zalloc(p->alloc, size * sizeof *valued);
    if (valued) mark_valued(k->g, order, n, valued);
    for (uint32_t i = 0; i < n; i++)
        if (kg_op(k->g, order[i]) == KN_OP_RANGE) id = KN_MAX(id, kg_field(k->g, order[i], KN_F_RANGE_id) + 1);
    for (uint32_t i = 0; i < n && !*split && valued; i++) {
        kn_ref x     = order[i];
        bool   whole = false;
        if (kg_op(k->g, x) != KN_OP_END || kg_nsrc(k->g, x) > MOST_LOOPS) continue;
        for (uint32_t s = kg_nsrc(k->g, x); s-- > 1 && !*split;) {
            kn_ref range = kg_at(k->g, x, s), e = kg_at(k->g, range, 0);
            if (kg_op(k->g, e) != KN_OP_CONST) continue;
            int64_t d    = taken_apart_by(k->g, order, n, range, valued);
            bool    runs = d >= RUN || (d && kg_const_int(k->g, e) / d >= RUN);
            whole |= d && !runs && is_stored_along(k->g, order, n, range);
            if (!d || (whole && !runs)) continue;
            split_loop(k, order, n, x, s, d, id);
            *split = true;
        }
    }
    kn_free(p->alloc, order, n * sizeof *order);
    kn_free(p->alloc, valued, size * sizeof *valued);
    return valued ? k->root != 0 : kn_oom(kg_fault(k->g));
}

bool kl_split_loops(kl_program *p, kl_kernel *k) {
    bool again = true, any = false;
    for (; again; any |= again)
        if (!split_first(p, k, &again)) return false;
    return !any || kl_merge_loops(p, k); /* what no longer is taken apart may be walked as one */
}
