/* indices.c - what a demand for a node's elements asks of its sources: movement ops become index arithmetic.
 *
 * Takes: a use, its node's indices over its output axes. Gives: uses of the sources; of a REDUCE, a fresh RANGE for
 * each reduced axis; of a PAD, the gate under which the source is read at all. Indices are kept in normal form by the
 * index rules, so that equal demands are equal nodes. */
#include "lower/rangeify.h"

#include "rules_gen.h"

#include <string.h>

kn_ref kl_simplify(kl_fuse *z, kn_ref n) { return n ? kn_rewrite(&z->rw, n, KN_GROUPS_SIMPLIFY) : 0; }

static kn_ref add(kl_fuse *z, kn_ref a, kn_ref b) { return kg_op2(z->r, KN_OP_ADD, a, b); }
static kn_ref scale(kl_fuse *z, kn_ref a, int64_t c) {
    return c == 1 ? a : kg_op2(z->r, KN_OP_MUL, a, kg_idx(z->r, c));
}

/* In normal form, or a RANGE with that bound would be another one once it is rewritten. */
kn_ref kl_dim(kl_fuse *z, int64_t dim) {
    return dim < 0 ? kl_simplify(z, kg_copy(z->r, z->g, (kn_ref)-dim)) : kg_idx(z->r, dim);
}

/* A product of dims, without the ones. */
typedef struct kl_stride {
    int64_t fixed;
    kn_ref  some; /* the symbolic ones, 0: none */
} kl_stride;

static void stride_by(kl_fuse *z, kl_stride *s, int64_t dim) {
    if (dim >= 0) s->fixed = kn_sat_mul(s->fixed, dim);
    else s->some = s->some ? kg_op2(z->r, KN_OP_MUL, s->some, kl_dim(z, dim)) : kl_dim(z, dim);
}

static kn_ref times_stride(kl_fuse *z, kn_ref a, kl_stride s) {
    return scale(z, s.some ? kg_op2(z->r, KN_OP_MUL, a, s.some) : a, s.fixed);
}

static bool is_one(kl_stride s) { return s.fixed == 1 && !s.some; }
static kn_ref stride_node(kl_fuse *z, kl_stride s) {
    return s.some ? scale(z, s.some, s.fixed) : kg_idx(z->r, s.fixed);
}

/* ---- ranges -------------------------------------------------------------------------------------------------- */

static bool set_insert(int *set, int *n, int cap, int v) {
    int i = *n;
    for (int k = 0; k < *n; k++)
        if (set[k] == v) return true;
    if (*n == cap) return false;
    while (i > 0 && set[i - 1] > v) set[i] = set[i - 1], i--;
    set[i] = v;
    ++*n;
    return true;
}

int kl_closure(kl_fuse *z, const kn_ref *idx, int n, kn_ref gate, int *out, int cap) {
    int count = 0;
    for (int i = 0; i <= n; i++) {
        kn_ref x = i < n ? idx[i] : gate, r[64];
        if (!x) continue;
        int k = KN_MIN(kg_ranges(z->r, x, r, KN_COUNT(r)), KN_COUNT(r));
        while (k-- > 0) {
            const kl_range *rg = &z->range[kg_field(z->r, r[k], KN_F_RANGE_id)];
            for (int c = 0; c < rg->nclosure; c++) set_insert(out, &count, cap, rg->closure[c]);
        }
    }
    return count;
}

bool kl_new_range(kl_fuse *z, int64_t dim, bool reduce, const int *around, int naround, kn_ref *out) {
    if (!KN_GROW(z->p->alloc, z->range, z->range_cap, z->nrange + 1)) return kn_oom(z->f);
    int id   = (int)z->nrange;
    int *set = kn_arena_get(&z->arena, ((size_t)naround + 1) * sizeof *set);
    if (!set) return kn_oom(z->f);
    if (naround) memcpy(set, around, (size_t)naround * sizeof *set);
    set[naround] = id;
    kn_ref r     = kg_range(z->r, kl_dim(z, dim), id, reduce ? KN_AXIS_REDUCE : KN_AXIS_LOOP);
    if (!r) return false;
    z->range[z->nrange++] = (kl_range){r, kg_most_of(z->g, dim), reduce, set, naround + 1};
    *out                  = r;
    return true;
}

/* ---- uses ---------------------------------------------------------------------------------------------------- */

bool kl_add_use(kl_fuse *z, kn_ref node, int group, const kn_ref *idx, kn_ref gate, int *out) {
    int            rank;
    const int64_t *dims = kg_shape(z->g, node, &rank);
    kn_ref         norm[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        norm[i] = dims[i] == 1 ? kg_idx(z->r, 0) : kl_simplify(z, idx[i]);
        if (!norm[i]) return false;
    }
    if (gate && !(gate = kl_simplify(z, gate))) return false;
    if (gate && kg_is_const(z->r, gate, 1)) gate = 0;
    kl_info *info = &z->info[node];
    for (int u = info->use; u >= 0; u = z->use[u].next) {
        const kl_use *o = &z->use[u];
        if (o->group != group || o->gate != gate || memcmp(o->idx, norm, (size_t)rank * sizeof *norm)) continue;
        *out = u;
        return true;
    }
    kl_use u = {.node = node, .next = info->use, .group = group, .gate = gate, .evals = 1};
    if (!KN_GROW(z->p->alloc, z->use, z->use_cap, z->nuse + 1)) return kn_oom(z->f);
    if (!(u.idx = kn_arena_copy(&z->arena, norm, (size_t)KN_MAX(rank, 1) * sizeof *norm))) return kn_oom(z->f);
    int loops[128], n = kl_closure(z, norm, rank, gate, loops, KN_COUNT(loops));
    for (int i = 0; i < n; i++) u.evals *= (double)z->range[loops[i]].extent;
    info->use          = (int)z->nuse;
    info->nuse++;
    z->use[z->nuse]    = u;
    *out               = (int)z->nuse++;
    return true;
}

static kn_ref flat_index(kl_fuse *z, const kn_ref *idx, const int64_t *dims, int rank) {
    kn_ref sum = kg_idx(z->r, 0);
    kl_stride s   = {1, 0};
    for (int i = rank; i-- > 0;) {
        if (dims[i] != 1) sum = add(z, sum, times_stride(z, idx[i], s));
        stride_by(z, &s, dims[i]);
    }
    return sum;
}

kn_ref kl_flat(kl_fuse *z, int use) {
    int            rank;
    const int64_t *dims = kg_shape(z->g, z->use[use].node, &rank);
    return kl_simplify(z, flat_index(z, z->use[use].idx, dims, rank));
}

/* The next run of axes from i and j on whose products are equal whatever the variables are: up to *i and *j. What is
 * not seen to be equal is one run with all that follows. */
static void next_run(const kl_fuse *z, const int64_t *from, int nfrom, const int64_t *to, int nto, int *i, int *j) {
    kn_factors a = {.fixed = 1}, b = {.fixed = 1};
    bool    ok = (*i == nfrom || kg_factor(z->g, &a, from[(*i)++])) && (*j == nto || kg_factor(z->g, &b, to[(*j)++]));
    while (ok && !kg_same_factors(&a, &b)) {
        bool less = a.n != b.n ? a.n < b.n : a.fixed < b.fixed; /* which one still has to grow, most likely */
        if (*i < nfrom && (less || *j == nto)) ok = kg_factor(z->g, &a, from[(*i)++]);
        else if (*j < nto) ok = kg_factor(z->g, &b, to[(*j)++]);
        else break;
    }
    if (ok && kg_same_factors(&a, &b)) return;
    *i = nfrom;
    *j = nto;
}

/* Row-major reinterpretation, run by run of axes whose products agree, so that untouched axes stay as they are. */
static void reshape_indices(kl_fuse *z, const int64_t *from, int nfrom, const int64_t *to, int nto, const kn_ref *idx,
                            kn_ref *out) {
    int i = 0, j = 0;
    while (i < nfrom || j < nto) { /* to: the node's axes, which idx speaks of; from: the source's */
        int i0 = i, j0 = j;
        next_run(z, from, nfrom, to, nto, &i, &j);
        if (i - i0 == 1 && j - j0 == 1) {
            out[i0] = idx[j0];
            continue;
        }
        kn_ref flat = kl_simplify(z, flat_index(z, idx + j0, to + j0, j - j0));
        kl_stride s    = {1, 0};
        for (int k = i; k-- > i0;) {
            kn_ref q = is_one(s) ? flat : kg_op2(z->r, KN_OP_IDIV, flat, stride_node(z, s));
            out[k]   = k == i0 ? q : kg_op2(z->r, KN_OP_MOD, q, kl_dim(z, from[k]));
            stride_by(z, &s, from[k]);
        }
    }
}

static kn_ref both(kl_fuse *z, kn_ref a, kn_ref b) { return !a ? b : !b ? a : kg_op2(z->r, KN_OP_AND, a, b); }

/* An element of a list of offsets. */
static kn_ref offset_node(kl_fuse *z, kn_ref list, int a) {
    return kg_copy(z->r, z->g, kg_at(z->g, list, (uint32_t)a));
}

static kn_ref at_least(kl_fuse *z, kn_ref x, kn_ref lo) { /* lo <= x, as lo - 1 < x */
    if (kg_op(z->r, lo) == KN_OP_CONST) return kg_op2(z->r, KN_OP_CMPLT, kg_idx(z->r, kg_const_int(z->r, lo) - 1), x);
    return kg_op2(z->r, KN_OP_CMPLT, add(z, lo, kg_idx(z->r, -1)), x);
}

static kn_ref minus(kl_fuse *z, kn_ref x, kn_ref y) {
    if (kg_op(z->r, y) == KN_OP_CONST) return add(z, x, kg_idx(z->r, -kg_const_int(z->r, y)));
    return add(z, x, scale(z, y, -1));
}

/* Sources of one shape, asked for at the same indices. */
static bool same_sources(kl_fuse *z, int use, const kn_ref *src, int n, const kn_ref *idx, kn_ref gate) {
    int *s = kn_arena_get(&z->arena, (size_t)n * sizeof *s);
    if (!s) return kn_oom(z->f);
    for (int k = 0; k < n; k++)
        if (!kl_add_use(z, src[k], z->use[use].group, idx, gate, &s[k])) return false;
    z->use[use].src = s;
    return true;
}

static bool one_source(kl_fuse *z, int use, kn_ref src, const kn_ref *idx, kn_ref gate) {
    return same_sources(z, use, &src, 1, idx, gate);
}

/* The sources of a REDUCE: one, or the elements of a fold. */
static bool spread_reduce(kl_fuse *z, int use, const kn_ref *srcs, int nsrc, const int64_t *w, int naxes, kn_ref *idx) {
    kn_ref         src = srcs[0];
    const kl_use   u = z->use[use];
    int            rank, around[128];
    const int64_t *dims = kg_shape(z->g, src, &rank);
    int            n    = kl_closure(z, u.idx, rank, u.gate, around, KN_COUNT(around));
    kn_ref        *r    = kn_arena_get(&z->arena, (size_t)(naxes + 1) * sizeof *r);
    int            nr   = 0;
    if (!r) return kn_oom(z->f);
    memcpy(idx, u.idx, (size_t)rank * sizeof *idx);
    bool reduced[KN_MAX_RANK] = {false};
    for (int i = 0; i < naxes; i++) reduced[w[i]] = true;
    for (int a = 0; a < rank; a++) {
        if (!reduced[a] || dims[a] == 1) continue;
        if (n == KN_COUNT(around)) return kn_fail(z->f, KN_ERR_UNSUPPORTED, "rangeify: loops nest too deep");
        if (!kl_new_range(z, dims[a], true, around, n, &r[nr])) return false;
        around[n++] = (int)z->nrange - 1;
        idx[a]      = r[nr++];
    }
    z->use[use].range  = r;
    z->use[use].nrange = nr;
    return same_sources(z, use, srcs, nsrc, idx, u.gate);
}

/* inner elements from off on lie within outer, whatever the variables are: code checks nothing when it runs. */
static bool box_fits(kl_fuse *z, kn_ref n, kn_ref off, int64_t inner, int64_t outer) {
    if (kg_op(z->r, off) == KN_OP_CONST && inner >= 0 && outer >= 0) return true; /* the shape's rule has seen to it */
    kn_ref room = minus(z, kl_dim(z, outer), off);
    if (room) room = kl_simplify(z, minus(z, room, kl_dim(z, inner)));
    if (!room) return false;
    if (kg_min(z->r, room) >= 0 && kg_min(z->r, off) >= 0) return true;
    return kn_fail(z->f, KN_ERR_UNSUPPORTED,
                   "rangeify: %s: the bounds of a symbolic size do not show that it stays within the axis",
                   kn_ops[kg_op(z->g, n)].name);
}

static bool spread_pad(kl_fuse *z, int use, kn_ref n, kn_ref src, kn_ref *idx) {
    const kl_use   u = z->use[use];
    int            rank;
    const int64_t *in    = kg_shape(z->g, src, &rank), *out = kg_shape(z->g, n, NULL);
    kn_ref         valid = 0, list = kg_at(z->g, n, 1);
    for (int a = 0; a < rank; a++) {
        kn_ref x = u.idx[a], off = offset_node(z, list, a), end = off ? add(z, off, kl_dim(z, in[a])) : 0;
        if (!(end = kl_simplify(z, end))) return false;
        if (!box_fits(z, n, off, in[a], out[a])) return false;
        bool none = kg_is_const(z->r, off, 0);
        if (!none) valid = both(z, valid, at_least(z, x, off));
        if (!(none && in[a] == out[a]) && kg_max(z->r, x) >= kg_min(z->r, end))
            valid = both(z, valid, kg_op2(z->r, KN_OP_CMPLT, x, end));
        idx[a] = none ? x : minus(z, x, off);
    }
    if (valid && !(valid = kl_simplify(z, valid))) return false;
    z->use[use].valid = valid;
    if (valid && kg_is_const(z->r, valid, 0)) return true; /* padding everywhere: the source is not asked */
    return one_source(z, use, src, idx, both(z, u.gate, valid));
}

static bool spread_many(kl_fuse *z, int use, kn_ref n, uint32_t nsrc, int drop) {
    int *s = kn_arena_get(&z->arena, (size_t)(nsrc + 1) * sizeof *s);
    if (!s) return kn_oom(z->f);
    int rank = kg_rank(z->g, n);
    for (uint32_t k = 0; k < nsrc; k++) {
        kn_ref         src = kg_at(z->g, n, k), idx[KN_MAX_RANK];
        int            sr;
        const int64_t *dims = kg_shape(z->g, src, &sr);
        for (int a = 0; a < sr; a++)
            idx[a] = dims[a] == 1 ? kg_idx(z->r, 0) : z->use[use].idx[drop + a + (rank - drop - sr)];
        if (!kl_add_use(z, src, z->use[use].group, idx, z->use[use].gate, &s[k])) return false;
    }
    z->use[use].src = s;
    return true;
}

/* The value of an index tensor, before it is built: a leaf that depends on the loops of its use. */
static kn_ref promise(kl_fuse *z, int use, int64_t dim) {
    char   name[32];
    kn_ref loops[128], b = kl_dim(z, dim);
    int    ids[128],
        n = kl_closure(z, z->use[use].idx, kg_rank(z->g, z->use[use].node), z->use[use].gate, ids, KN_COUNT(ids));
    for (int i = 0; i < n; i++) loops[i] = z->range[ids[i]].node;
    snprintf(name, sizeof name, "use %d", use);
    kn_ref leaf = kg_make(z->r, KN_OP_SPECIAL, 0, kg_intern_str(z->r, name, strlen(name)), &b, 1);
    if (!KN_GROW(z->p->alloc, z->promise, z->promise_cap, z->npromise + 1)) return kn_oom(z->f), 0;
    leaf                      = kg_after(z->r, leaf, loops, n);
    z->promise[z->npromise++] = (kl_promise){leaf, use};
    return leaf;
}

static bool spread_index(kl_fuse *z, int use, kn_ref n, kn_ref src, kn_ref *idx) {
    const kl_use   u    = z->use[use];
    int            ni = (int)kg_nsrc(z->g, n) - 1, at = 0, rank = kg_rank(z->g, src);
    const int64_t *dims = kg_shape(z->g, src, NULL);
    for (int k = 0; k < rank; k++) {
        kn_ref i = k < ni ? kg_at(z->g, n, (uint32_t)k + 1) : 0;
        if (!i) idx[k] = u.idx[at++];
        else if (kg_op(z->g, i) == KN_OP_CONST) idx[k] = kg_idx(z->r, kg_const_int(z->g, i));
        else {
            int ir = kg_rank(z->g, i), v;
            if (!kl_add_use(z, i, u.group, u.idx + at, u.gate, &v)) return false;
            at += ir;
            if (!(idx[k] = promise(z, v, dims[k]))) return false;
        }
    }
    return one_source(z, use, src, idx, u.gate);
}

/* Items of another size: a wide item is cut into pieces, narrow ones are put together; low bytes first. */
static bool spread_bitcast(kl_fuse *z, int use, kn_ref n, kn_ref src, kn_ref *idx) {
    const kl_use u    = z->use[use];
    int          from = kn_dsize(kg_dtype(z->g, src)), to = kn_dsize(kg_dtype(z->g, n)), last = kg_rank(z->g, n) - 1;
    if (from == to) return one_source(z, use, src, u.idx, u.gate);
    memcpy(idx, u.idx, (size_t)(last + 1) * sizeof *idx);
    if (from > to) {
        idx[last] = kg_op2(z->r, KN_OP_IDIV, u.idx[last], kg_idx(z->r, from / to));
        return one_source(z, use, src, idx, u.gate);
    }
    int *s = kn_arena_get(&z->arena, (size_t)(to / from) * sizeof *s);
    if (!s) return kn_oom(z->f);
    for (int k = 0; k < to / from; k++) {
        idx[last] = add(z, scale(z, u.idx[last], to / from), kg_idx(z->r, k));
        if (!kl_add_use(z, src, u.group, idx, u.gate, &s[k])) return false;
    }
    z->use[use].src = s;
    return true;
}

bool kl_spread(kl_fuse *z, int use) {
    const kl_use u   = z->use[use];
    kn_ref       n   = u.node, idx[KN_MAX_RANK], src = kg_nsrc(z->g, n) ? kg_at(z->g, n, 0) : 0;
    int          op  = kg_op(z->g, n), rank = kg_rank(z->g, n);
    if (u.load) return true;
    switch (op) {
    case KN_OP_PARAM:
        if (kg_space(z->g, n) != KN_REG) return true;
        return kn_fail(z->f, KN_ERR_ARG, "rangeify: a PARAM of space REG outside a fold's combine");
    case KN_OP_CONST: case KN_OP_RANGE: return true;
    case KN_OP_RESHAPE: {
        int            sr;
        const int64_t *sd = kg_shape(z->g, src, &sr), *nd = kg_shape(z->g, n, NULL);
        reshape_indices(z, sd, sr, nd, rank, u.idx, idx);
        return one_source(z, use, src, idx, u.gate);
    }
    case KN_OP_EXPAND: case KN_OP_REPLICATED: case KN_OP_DETACH: case KN_OP_CONTIGUOUS_BACKWARD: case KN_OP_LOAD:
    case KN_OP_GETTUPLE:
        return one_source(z, use, src, u.idx, u.gate);
    case KN_OP_PERMUTE: {
        const int64_t *pi = kg_words(z->g, n, NULL);
        for (int a = 0; a < rank; a++) idx[pi[a]] = u.idx[a];
        return one_source(z, use, src, idx, u.gate);
    }
    case KN_OP_FLIP: {
        const int64_t *flag = kg_words(z->g, n, NULL), *dims = kg_shape(z->g, n, NULL);
        for (int a = 0; a < rank; a++)
            idx[a] = flag[a] ? add(z, add(z, kl_dim(z, dims[a]), kg_idx(z->r, -1)), scale(z, u.idx[a], -1)) : u.idx[a];
        return one_source(z, use, src, idx, u.gate);
    }
    case KN_OP_SHRINK: {
        for (int a = 0; a < rank; a++) {
            kn_ref off = offset_node(z, kg_at(z->g, n, 1), a);
            if (!off || !box_fits(z, n, off, kg_shape(z->g, n, NULL)[a], kg_shape(z->g, src, NULL)[a])) return false;
            idx[a]     = kg_is_const(z->r, off, 0) ? u.idx[a] : add(z, u.idx[a], off);
        }
        return one_source(z, use, src, idx, u.gate);
    }
    case KN_OP_SLICE: /* of what is flat and of its dtype; others are storage alone, and bound as such */
        if (rank != kg_rank(z->g, src) || kg_dtype(z->g, n) != kg_dtype(z->g, src)) break;
        if (kg_op(z->g, kg_at(z->g, n, 1)) != KN_OP_CONST) break;
        idx[0] = add(z, u.idx[0], kg_idx(z->r, kg_const_int(z->g, kg_at(z->g, n, 1))));
        return one_source(z, use, src, idx, u.gate);
    case KN_OP_PAD: return spread_pad(z, use, n, src, idx);
    case KN_OP_INDEX: return spread_index(z, use, n, src, idx);
    case KN_OP_STACK: return spread_many(z, use, n, kg_nsrc(z->g, n), 1);
    case KN_OP_AFTER:
        for (uint32_t i = 1; i < kg_nsrc(z->g, n); i++)
            if (kg_op(z->g, kg_at(z->g, n, i)) == KN_OP_STORE) {
                kn_ref v = kg_at(z->g, kg_at(z->g, n, i), 1);
                if (!kg_same_shape(z->g, v, n))
                    return kn_fail(z->f, KN_ERR_UNSUPPORTED, "rangeify: an assignment must store the whole buffer");
                return one_source(z, use, v, u.idx, u.gate);
            }
        return one_source(z, use, src, u.idx, u.gate);
    case KN_OP_REDUCE: {
        int            count;
        const int64_t *w = kg_words(z->g, n, &count);
        kn_fold_parts  p;
        bool           fold = kg_is_fold(z->g, n) && kg_fold_parts(z->g, src, &p);
        if (kg_nsrc(z->g, n) > 1) break;
        const char *flaw = fold ? kg_combine_flaw(z->g, &p) : NULL;
        if (flaw) return kn_fail(z->f, KN_ERR_ARG, "rangeify: REDUCE: %s", flaw);
        if (kg_numel(z->g, fold ? p.element[0] : src) == 0) return true; /* the identity */
        return spread_reduce(z, use, fold ? p.element : &src, fold ? p.n : 1, w + KN_REDUCE_WORDS,
                             count - KN_REDUCE_WORDS, idx);
    }
    case KN_OP_BITCAST: return spread_bitcast(z, use, n, src, idx);
    default:
        if (kn_is_alu(op)) return spread_many(z, use, n, kg_nsrc(z->g, n), 0);
        break;
    }
    return kn_fail(z->f, KN_ERR_UNSUPPORTED, "rangeify: %s is not lowered from tensor level", kn_ops[op].name);
}
