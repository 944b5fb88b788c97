/* size.c - sizes: numbers, symbols, and what is computed of both.
 *
 * Contract: within the front end a size is what kg_shape says, a number or minus a node of the context's graph. To the
 * user a symbolic one is a number below KT_DIM_BASE, by its node in a graph of the context's own that holds nothing
 * else, so that it stays what it is when the context's graph is swept. A symbol's value stands in the shape itself, as
 * BIND(variable, value): tensors made at two values are two expressions, and Callify makes of both the same program. */
#include "tensor/tensor.h"

#include <string.h>

#define KT_DIM_BASE (-((int64_t)1 << 40))

/* ---- between the user's numbers and nodes ------------------------------------------------------------------------ */

static bool symbolic_dim(const kn_context *kn, kn_dim d) {
    return kn->sizes && d < KT_DIM_BASE && d > KT_DIM_BASE - (int64_t)kg_count(kn->sizes);
}

static kn_ref user_node(kn_dim d) { return (kn_ref)(KT_DIM_BASE - d); }

bool kt_size_in(kn_context *kn, kn_dim d, int64_t *out) {
    *out = d;
    if (d >= 0 || !symbolic_dim(kn, d)) return true;
    kn_ref n = kg_copy(kn->g, kn->sizes, user_node(d));
    *out     = -(int64_t)n;
    return n != 0;
}

kn_dim kt_size_out(kn_context *kn, int64_t dim) {
    if (dim >= 0) return dim;
    if (!kn->sizes && !(kn->sizes = kg_new(kn->alloc))) return -1;
    kn_ref n = kg_copy(kn->sizes, kn->g, (kn_ref)-dim);
    return n ? KT_DIM_BASE - (int64_t)n : -1;
}

bool kt_sizes_in(const kt_call *c, const kn_dim *dims, int rank, int64_t *out) {
    char a[KT_SHAPE_TEXT];
    for (int i = 0; rank <= KN_MAX_RANK && dims && i < rank; i++) {
        if (dims[i] < 0 && !symbolic_dim(c->kn, dims[i])) {
            kt_fail(c->kn, KN_ERR_SHAPE, "%s: %s has a negative size", c->op, kt_dims_text(dims, rank, a));
            return false;
        }
        if (!kt_size_in(c->kn, dims[i], &out[i])) return kt_wrap(c->kn, 0, c->op), false;
    }
    return kt_dims_ok(c, dims ? out : NULL, rank);
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static bool no_value(void *user, const kn_graph *g, kn_ref var, int64_t *value) {
    const char **name = user;
    (void)value;
    *name = kg_variable_name(g, var);
    return false;
}

bool kt_size_value(const kn_graph *g, int64_t dim, int64_t *value, kn_fault *f) {
    const char *unbound = NULL;
    *value              = dim;
    if (dim >= 0) return true;
    if (kg_op(g, (kn_ref)-dim) == KN_OP_BIND && kg_op(g, kg_at(g, (kn_ref)-dim, 1)) == KN_OP_CONST)
        return *value = kg_const_int(g, kg_at(g, (kn_ref)-dim, 1)), true;
    kn_graph *to = kg_new(kg_alloc(g));
    kn_ref    n  = to ? kg_specialise(to, g, (kn_ref)-dim, no_value, &unbound) : 0;
    bool      ok = n && kg_op(to, n) == KN_OP_CONST;
    if (ok) *value = kg_const_int(to, n);
    else if (!to) kn_oom(f);
    else if (unbound) kn_fail(f, KN_ERR_STATE, "the size %s has no value: kn_bind gives it one", unbound);
    else kn_fail(f, n ? KN_ERR_INTERNAL : kg_fault(to)->code, "%s", n ? "a size has no value" : kg_fault(to)->text);
    kg_free(to);
    return ok;
}

bool kt_sizes_now(const kn_graph *g, kn_ref n, int64_t *dims, int64_t *numel, kn_fault *f) {
    int            rank;
    const int64_t *s = kg_shape(g, n, &rank);
    *numel           = 1;
    for (int i = 0; i < rank; i++) {
        if (!kt_size_value(g, s[i], &dims[i], f)) return false;
        *numel = kn_sat_mul(*numel, dims[i]);
    }
    return true;
}

/* "n=5" of a bound symbol, "n" of one that is not, "5" in parentheses of what is computed of them. */
int kt_size_text(const kn_graph *g, int64_t dim, char *out, size_t cap) {
    kn_fault f = {0};
    int64_t  v;
    kn_ref   n = dim < 0 ? (kn_ref)-dim : 0, var = n && kg_op(g, n) == KN_OP_BIND ? kg_at(g, n, 0) : n;
    if (!n) return snprintf(out, cap, "%lld", (long long)dim);
    bool bound = kt_size_value(g, dim, &v, &f), named = kg_is_variable(g, var);
    if (named && bound) return snprintf(out, cap, "%s=%lld", kg_variable_name(g, var), (long long)v);
    if (named) return snprintf(out, cap, "%s", kg_variable_name(g, var));
    return bound ? snprintf(out, cap, "(%lld)", (long long)v) : snprintf(out, cap, "(?)");
}

/* ---- symbols --------------------------------------------------------------------------------------------------- */

static kn_dim failed_size(kn_context *kn, kn_status code, const char *op, const char *text) {
    kt_error(kn, code, "%s: %s", op, text);
    return -1;
}

static int find_symbol(const kn_context *kn, const char *name) {
    for (size_t i = 0; i < kn->nsymbol; i++)
        if (!strcmp(kn->symbol[i].name, name)) return (int)i;
    return -1;
}

static kn_ref symbol_node(kn_graph *g, const kt_symbol *s) {
    int64_t w[KN_PARAM_WORDS] = {0, KN_INDEX, 0, KN_GLOBAL, kg_intern_str(g, s->name, strlen(s->name)), s->min, s->max};
    kn_ref  shape             = kg_dims_node(g, NULL, 0);
    return kg_make(g, KN_OP_PARAM, 0, kg_intern_words(g, w, KN_PARAM_WORDS), &shape, 1);
}

kn_dim kn_sym(kn_context *kn, const char *name, int64_t min, int64_t max) {
    if (!kn) return -1;
    if (!name || !*name || strlen(name) >= sizeof kn->symbol->name)
        return failed_size(kn, KN_ERR_ARG, "kn_sym", "a name of 1 to 47 characters");
    if (min < 0 || max < min || max > INT32_MAX) {
        kt_error(kn, KN_ERR_ARG, "kn_sym: %s from %lld to %lld: sizes are 0 to 2147483647", name, (long long)min,
                 (long long)max);
        return -1;
    }
    int at = find_symbol(kn, name);
    if (at >= 0 && (kn->symbol[at].min != min || kn->symbol[at].max != max)) {
        kt_error(kn, KN_ERR_ARG, "kn_sym: %s is there already, from %lld to %lld", name, (long long)kn->symbol[at].min,
                 (long long)kn->symbol[at].max);
        return -1;
    }
    if (at < 0) {
        if (!KN_GROW(kn->alloc, kn->symbol, kn->symbol_cap, kn->nsymbol + 1))
            return failed_size(kn, KN_ERR_MEMORY, "kn_sym", "out of memory");
        at                    = (int)kn->nsymbol++;
        kn->symbol[at]        = (kt_symbol){.min = min, .max = max, .value = -1};
        memcpy(kn->symbol[at].name, name, strlen(name) + 1);
    }
    kn_ref n   = symbol_node(kn->g, &kn->symbol[at]);
    kn_dim out = n ? kt_size_out(kn, -(int64_t)n) : -1;
    return out == -1 ? failed_size(kn, KN_ERR_MEMORY, "kn_sym", "out of memory") : out;
}

int kt_symbol_of(const kn_context *kn, const kn_graph *g, int64_t dim, int64_t *value) {
    kn_ref n = dim < 0 ? (kn_ref)-dim : 0;
    if (!n || kg_op(g, n) != KN_OP_BIND || kg_op(g, kg_at(g, n, 1)) != KN_OP_CONST) return -1;
    *value = kg_const_int(g, kg_at(g, n, 1));
    return find_symbol(kn, kg_variable_name(g, kg_at(g, n, 0)));
}

int64_t kt_bound_size(kn_context *kn, int symbol, int64_t value) {
    kn_ref var = symbol_node(kn->g, &kn->symbol[symbol]), n = kg_op2(kn->g, KN_OP_BIND, var, kg_idx(kn->g, value));
    return n ? -(int64_t)n : INT64_MIN;
}

kn_dim kn_bind(kn_context *kn, kn_dim sym, int64_t value) {
    int64_t  dim = 0;
    kn_fault f   = {0};
    if (!kn) return -1;
    bool   known = sym < 0 && symbolic_dim(kn, sym) && kt_size_in(kn, sym, &dim);
    kn_ref var   = known ? (kn_ref)-dim : 0;
    if (var && kg_op(kn->g, var) == KN_OP_BIND) var = kg_at(kn->g, var, 0);
    if (!var || !kg_is_variable(kn->g, var))
        return failed_size(kn, KN_ERR_ARG, "kn_bind", "the size is not a symbol: kn_sym makes one");
    if (!kg_check_variable(kn->g, var, value, &f)) return kt_take_fault(kn, &f, "kn_bind"), -1;
    int at               = find_symbol(kn, kg_variable_name(kn->g, var));
    kn->symbol[at].value = value;
    dim                  = kt_bound_size(kn, at, value);
    kn_dim out           = dim == INT64_MIN ? -1 : kt_size_out(kn, dim);
    return out == -1 ? failed_size(kn, KN_ERR_MEMORY, "kn_bind", "out of memory") : out;
}

/* ---- arithmetic ------------------------------------------------------------------------------------------------ */

int64_t kn_dim_value(kn_context *kn, kn_dim d) {
    int64_t  dim, v;
    kn_fault f = {0};
    if (d >= 0) return d;
    if (!kn) return -1;
    if (!symbolic_dim(kn, d) || !kt_size_in(kn, d, &dim))
        return failed_size(kn, KN_ERR_ARG, "kn_dim_value", "no size of this context");
    if (!kt_size_value(kn->g, dim, &v, &f)) return kt_take_fault(kn, &f, "kn_dim_value"), -1;
    return v;
}

static kn_dim dim_arithmetic(kn_context *kn, const char *op, kn_dim a, kn_dim b, bool product) {
    int64_t    x, y = 0, r = 0;
    kn_factors p = {.fixed = 1};
    if (!kn) return -1;
    bool minus = !product && b < 0 && b >= -INT32_MAX; /* a number may be taken away */
    if ((a < 0 && !symbolic_dim(kn, a)) || (b < 0 && !minus && !symbolic_dim(kn, b)))
        return failed_size(kn, KN_ERR_ARG, op, "no size of this context");
    if (!kt_size_in(kn, a, &x) || (!minus && !kt_size_in(kn, b, &y)))
        return failed_size(kn, KN_ERR_MEMORY, op, "out of memory");
    if (product && !(kg_factor(kn->g, &p, x) && kg_factor(kn->g, &p, y)))
        return failed_size(kn, KN_ERR_UNSUPPORTED, op, "too many symbols");
    if (product) r = kg_product(kn->g, &p);
    else if (!kg_plus(kn->g, x, minus ? -b : y, minus ? -1 : 1, &r))
        return failed_size(kn, KN_ERR_ARG, op, "the size may be below 0");
    kn_dim out = kt_size_out(kn, r);
    return out == -1 ? failed_size(kn, KN_ERR_MEMORY, op, "out of memory") : out;
}

kn_dim kn_dim_add(kn_context *kn, kn_dim a, kn_dim b) { return dim_arithmetic(kn, "kn_dim_add", a, b, false); }
kn_dim kn_dim_mul(kn_context *kn, kn_dim a, kn_dim b) { return dim_arithmetic(kn, "kn_dim_mul", a, b, true); }

/* ---- sizes as values ------------------------------------------------------------------------------------------- */

kn_tensor *kn_dim_scalar(kn_context *kn, kn_dim d, kn_dtype dtype) {
    kt_call c;
    int64_t dim;
    if (!kt_begin_new(&c, "kn_dim_scalar", kn)) return kt_poison(&c);
    if (!kt_dtype_ok(&c, dtype) || !kt_sizes_in(&c, &d, 1, &dim)) return kt_poison(&c);
    return kt_wrap(kn, kt_size_as(&c, dim, dtype), "kn_dim_scalar");
}

kn_ref kt_one_over(const kt_call *c, int64_t dim, int dtype) {
    if (dim >= 0) return kt_const(c, dtype, 1.0 / (double)dim);
    return kg_op1(c->g, KN_OP_RECIP, kt_size_as(c, dim, dtype));
}

kn_ref kt_size_as(const kt_call *c, int64_t dim, int dtype) {
    return kg_cast(c->g, dim < 0 ? (kn_ref)-dim : kg_idx(c->g, dim), dtype);
}

kn_tensor *kn_iota(kn_context *kn, kn_dim n, kn_dtype dtype) {
    kt_call c;
    int64_t dim;
    if (!kt_begin_new(&c, "kn_iota", kn)) return kt_poison(&c);
    if (!kt_dtype_ok(&c, dtype) || !kt_sizes_in(&c, &n, 1, &dim)) return kt_poison(&c);
    if (dtype == KN_BOOL) return kt_fail(kn, KN_ERR_DTYPE, "kn_iota: bool does not count");
    if (!dim) return kt_wrap(kn, kt_fill(&c, dtype, 0, &dim, 1), "kn_iota");
    return kt_wrap(kn, kg_cast(c.g, kt_iota(&c, dim, 1, 0), dtype), "kn_iota");
}

#undef KT_DIM_BASE
