/* special.c - symbolic sizes: variables, their largest values, and a program at given values of them.
 *
 * Contract: a variable is a PARAM of shape () with a name, and bounds; a symbolic size is an expression of dtype index
 * over variables and BINDs. Specialised, a program has sizes where it had expressions. */
#include "dialect/graph.h"

#include <string.h>

bool kg_is_variable(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_PARAM && kg_rank(g, n) == 0 && kg_field(g, n, KN_F_PARAM_name);
}

int64_t kg_most_of(const kn_graph *g, int64_t dim) { return dim < 0 ? KN_MAX(kg_max(g, (kn_ref)-dim), 0) : dim; }

int64_t kg_most(const kn_graph *g, kn_ref n) {
    int            rank;
    const int64_t *dims = kg_shape(g, n, &rank);
    int64_t        t    = 1;
    for (int i = 0; i < rank; i++) t = kn_sat_mul(t, kg_most_of(g, dims[i]));
    return t;
}

bool kg_check_variable(const kn_graph *g, kn_ref var, int64_t value, kn_fault *f) {
    int64_t lo = kg_field(g, var, KN_F_PARAM_min), hi = kg_field(g, var, KN_F_PARAM_max);
    if (value >= lo && value <= hi) return true;
    return kn_fail(f, KN_ERR_ARG, "%s is %lld, out of its bounds %lld to %lld", kg_variable_name(g, var),
                   (long long)value, (long long)lo, (long long)hi);
}

const char *kg_variable_name(const kn_graph *g, kn_ref var) {
    return kg_str(g, (uint32_t)kg_field(g, var, KN_F_PARAM_name), NULL);
}

bool kg_factor(const kn_graph *g, kn_factors *f, int64_t dim) {
    kn_ref stack[KN_MAX_RANK];
    int    top = 0;
    if (dim >= 0) return f->fixed = kn_sat_mul(f->fixed, dim), true;
    stack[top++] = (kn_ref)-dim;
    while (top) {
        kn_ref n = stack[--top];
        if (kg_op(g, n) == KN_OP_MUL && top + 2 <= KN_COUNT(stack)) {
            stack[top++] = kg_at(g, n, 0);
            stack[top++] = kg_at(g, n, 1);
        } else if (kg_op(g, n) == KN_OP_CONST) {
            f->fixed = kn_sat_mul(f->fixed, kg_const_int(g, n));
        } else {
            if (f->n == KN_COUNT(f->some)) return false;
            int i = f->n++;
            while (i > 0 && f->some[i - 1] > n) f->some[i] = f->some[i - 1], i--;
            f->some[i] = n;
        }
    }
    return true;
}

bool kg_same_factors(const kn_factors *a, const kn_factors *b) {
    return a->fixed == b->fixed && a->n == b->n && !memcmp(a->some, b->some, (size_t)a->n * sizeof *a->some);
}

bool kg_divide(kn_factors *a, const kn_factors *b) {
    if (!b->fixed || a->fixed % b->fixed) return false;
    a->fixed /= b->fixed;
    for (int i = 0; i < b->n; i++) {
        int k = 0;
        while (k < a->n && a->some[k] != b->some[i]) k++;
        if (k == a->n) return false;
        memmove(&a->some[k], &a->some[k + 1], (size_t)(--a->n - k) * sizeof *a->some);
    }
    return true;
}

int64_t kg_product(kn_graph *g, const kn_factors *f) {
    kn_ref all = f->n ? f->some[0] : 0;
    if (!all || !f->fixed) return f->fixed;
    for (int i = 1; i < f->n; i++) all = kg_op2(g, KN_OP_MUL, all, f->some[i]);
    if (f->fixed != 1) all = kg_op2(g, KN_OP_MUL, all, kg_idx(g, f->fixed));
    return -(int64_t)all;
}

int64_t kg_count_of(kn_graph *g, kn_ref n) {
    int            rank;
    const int64_t *dims = kg_shape(g, n, &rank);
    kn_factors     f    = {.fixed = 1};
    for (int i = 0; i < rank; i++)
        if (!kg_factor(g, &f, dims[i])) {
            kn_fail(&g->fault, KN_ERR_UNSUPPORTED, "a shape of more than %d symbolic factors", KN_COUNT(f.some));
            return 0;
        }
    return kg_product(g, &f);
}

/* Through the affine form, in which n + 1 - n is 1. */
bool kg_plus(kn_graph *g, int64_t a, int64_t b, int64_t sign, int64_t *out) {
    kn_ref    x = a < 0 ? (kn_ref)-a : kg_idx(g, a), y = b < 0 ? (kn_ref)-b : kg_idx(g, b);
    kn_ref    sum = kg_op2(g, KN_OP_ADD, x, sign == 1 ? y : kg_op2(g, KN_OP_MUL, y, kg_idx(g, sign)));
    kn_affine f;
    if (sum && kg_affine(g, sum, &f)) {
        int n = 0;
        for (int i = 0; i < f.n; i++)
            if (f.coef[i]) f.atom[n] = f.atom[i], f.coef[n++] = f.coef[i];
        f.n = n;
        sum = kg_from_affine(g, &f);
    }
    if (!sum || kg_min(g, sum) < 0) return false;
    *out = kg_op(g, sum) == KN_OP_CONST ? kg_const_int(g, sum) : -(int64_t)sum;
    return true;
}

kn_ref kg_first_of(kn_graph *g, kn_ref x, int64_t count) {
    int64_t zero = 0;
    return kg_numel(g, x) == count ? x : kg_shrink(g, x, &zero, &count, 1);
}

typedef struct sp_walk {
    kn_graph       *to;
    const kn_graph *from;
    kg_value_fn     value;
    void           *user;
    kn_ref         *map[2];  /* images: of nodes on top, of nodes in bodies, where PARAMs are arguments */
    uint8_t        *mark[2];
    kn_ref         *src;
    size_t          cap;
} sp_walk;

static kn_ref specialised(sp_walk *w, kn_ref id, int body) {
    const kn_graph *g   = w->from;
    uint32_t        n   = kg_nsrc(g, id);
    const kn_ref   *old = kg_src(g, id);
    int64_t         v;
    if (!KN_GROW(w->to->alloc, w->src, w->cap, (size_t)n + 1)) return kn_oom(&w->to->fault), 0;
    if (!body && kg_is_variable(g, id) && w->value(w->user, g, id, &v))
        return kg_check_variable(g, id, v, &w->to->fault) ? kg_int(w->to, kg_dtype(g, id), v) : 0;
    for (uint32_t k = 0; k < n; k++) w->src[k] = w->map[body || (!k && kn_calls(kg_op(g, id)))][old[k]];
    if (kg_op(g, id) == KN_OP_BIND && kg_op(w->to, w->src[1]) == KN_OP_CONST)
        return kg_check_variable(g, old[0], kg_const_int(w->to, w->src[1]), &w->to->fault) ? w->src[1] : 0;
    kn_ref c = kn_is_alu(kg_op(g, id)) && kn_is_int(kg_dtype(g, id))
                   ? kg_fold_consts(w->to, kg_op(g, id), kg_dtype(g, id), w->src, n)
                   : 0;
    return c ? c : kg_import(w->to, g, id, w->src, n);
}

kn_ref kg_specialise(kn_graph *to, const kn_graph *from, kn_ref root, kg_value_fn value, void *user) {
    sp_walk w    = {.to = to, .from = from, .value = value, .user = user};
    size_t  size = (size_t)root + 1;
    kn_ref  r    = 0;
    for (int k = 0; k < 2; k++) {
        w.map[k]  = kn_zalloc(to->alloc, size * sizeof *w.map[k]);
        w.mark[k] = kn_zalloc(to->alloc, size);
    }
    if (!w.map[0] || !w.map[1] || !w.mark[0] || !w.mark[1]) goto oom;
    w.mark[0][root] = 1;
    for (kn_ref id = root; id > 0; id--)
        for (int body = 0; body < 2; body++) {
            const kn_ref *src = kg_src(from, id);
            for (uint32_t k = 0; w.mark[body][id] && k < kg_nsrc(from, id); k++)
                w.mark[body || (!k && kn_calls(kg_op(from, id)))][src[k]] = 1;
        }
    for (kn_ref id = 1; id <= root; id++)
        for (int body = 2; body-- > 0;)
            if (w.mark[body][id] && !(w.map[body][id] = specialised(&w, id, body))) goto done;
    r = w.map[0][root];
    goto done;
oom:
    kn_oom(&to->fault);
done:
    for (int k = 0; k < 2; k++) {
        kn_free(to->alloc, w.map[k], size * sizeof *w.map[k]);
        kn_free(to->alloc, w.mark[k], size);
    }
    kn_free(to->alloc, w.src, w.cap * sizeof *w.src);
    return r;
}
