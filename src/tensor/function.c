/* function.c - kn_function, kn_function_kept: a traced function as a node.
 *
 * Contract: FUNCTION(TUPLE(results over PARAMs), arguments...), or a CALL of the same. PARAM k stands for argument k:
 * the distinct tensors among in[], in order, then the tensors made outside that the function used, then storage that it
 * made (constants, keys of random numbers). So the body is stateless and the same for every call of the same form.
 * Within another trace the function is inlined: bodies never nest. */
#include "tensor/tensor.h"

typedef struct function_args {
    kn_context *kn;
    kn_ref     *node, *param; /* what is passed, and its PARAM */
    size_t      n, node_cap, param_cap;
    bool        kept;
    const char *op; /* who asks */
} function_args;

/* The PARAM of a node, made at its first use; 0 on failure, in the graph's fault. */
static kn_ref function_param(function_args *a, kn_ref node) {
    kn_context    *kn = a->kn;
    int            rank;
    const int64_t *dims = kg_shape(kn->g, node, &rank);
    for (size_t i = 0; i < a->n; i++)
        if (a->node[i] == node) return a->param[i];
    if (!KN_GROW(kn->alloc, a->node, a->node_cap, a->n + 1) || !KN_GROW(kn->alloc, a->param, a->param_cap, a->n + 1)) {
        kn_oom(kg_fault(kn->g));
        return 0;
    }
    kn_ref p = kg_param(kn->g, (int64_t)a->n, kg_dtype(kn->g, node), dims, rank);
    if (!p) return 0;
    a->node[a->n]    = node;
    a->param[a->n++] = p;
    return p;
}

/* Everything the results use that is not theirs becomes an argument. */
static kn_ref function_body(function_args *a, const kt_trace *t, kn_ref tuple) {
    kn_context *kn = a->kn;
    kn_ref     *order;
    uint32_t    count;
    for (size_t i = 0; i < t->nouter; i++)
        if (!function_param(a, kt_node(t->outer[i]))) return 0;
    tuple = kg_substitute(kn->g, tuple, a->node, a->param, (int)a->n);
    if (!tuple) return 0;
    size_t before = a->n;
    if (!kg_reach(kn->g, &tuple, 1, &order, &count)) {
        kn_oom(kg_fault(kn->g));
        return 0;
    }
    bool ok = true;
    for (uint32_t i = 0; ok && i < count; i++)
        if (kg_op(kn->g, order[i]) == KN_OP_BUFFER) ok = function_param(a, order[i]) != 0;
    kn_free(kg_alloc(kn->g), order, count * sizeof *order);
    if (!ok) return 0;
    return kg_substitute(kn->g, tuple, a->node + before, a->param + before, (int)(a->n - before));
}

/* FUNCTION over the arguments that the body uses or not; res[] are the traced results. */
static kn_ref function_node(function_args *a, const kt_trace *t, kn_tensor *const *res, int nout) {
    kn_context *kn    = a->kn;
    kn_ref     *value = kn_zalloc(kn->alloc, ((size_t)nout + 1) * sizeof *value), *src = NULL, fn = 0;
    if (!value) return kn_oom(kg_fault(kn->g)), 0;
    for (int i = 0; i < nout; i++) value[i] = kt_node(kt_slot_of(res[i]));
    kn_ref tuple = kg_list(kn->g, KN_OP_TUPLE, value, nout);
    kn_ref body  = tuple ? function_body(a, t, tuple) : 0;
    size_t bytes = (a->n + 1) * sizeof *src;
    if (body && !(src = kn_realloc(kn->alloc, NULL, 0, bytes))) kn_oom(kg_fault(kn->g));
    if (src) {
        src[0] = body;
        for (size_t i = 0; i < a->n; i++) src[i + 1] = a->node[i];
        fn = kg_make(kn->g, a->kept ? KN_OP_CALL : KN_OP_FUNCTION, 0, 0, src, (uint32_t)a->n + 1);
    }
    kn_free(kn->alloc, src, bytes);
    kn_free(kn->alloc, value, ((size_t)nout + 1) * sizeof *value);
    return fn;
}

static bool function_trace(function_args *a, kn_fn fn, void *user, int nin, kn_tensor *const *in, int nout,
                           kn_tensor **out) {
    kn_context *kn    = a->kn;
    size_t      bytes = ((size_t)nin + (size_t)nout + 1) * sizeof(kn_tensor *);
    kn_tensor **arg = kn_zalloc(kn->alloc, bytes), **res = arg ? arg + nin : NULL;
    kt_trace    t     = {0};
    kn_ref      f     = 0;
    bool        begun = false, ok = arg != NULL;
    if (!ok) kt_error(kn, KN_ERR_MEMORY, "%s: out of memory", a->op);
    for (int i = 0; ok && i < nin; i++)
        if (!(ok = function_param(a, kt_node(kt_slot_of(in[i]))) != 0))
            kt_take_fault(kn, kg_fault(kn->g), a->op);
    ok           = ok && (begun = kt_trace_begin(kn, &t, true));
    size_t given = a->n;
    for (int i = 0; ok && i < nin; i++)
        ok = kn_ok(arg[i] = kt_wrap(kn, function_param(a, kt_slot_of(in[i])->node), a->op));
    ok = ok && kt_trace_call(kn, a->op, fn, user, nin, arg, nout, res) == KN_OK;
    if (ok && !(f = function_node(a, &t, res, nout))) kt_take_fault(kn, kg_fault(kn->g), a->op);
    if (begun) kt_trace_end(kn, &t, a->param, (int)given);
    ok = ok && f && kn->fault.code == KN_OK;
    kt_trace_free(kn, &t);
    kn_free(kn->alloc, arg, bytes);
    for (int i = 0; ok && i < nout; i++)
        ok = kn_ok(out[i] = kt_wrap(kn, kg_make(kn->g, KN_OP_GETTUPLE, 0, (uint64_t)i, &f, 1), a->op));
    return ok;
}

/* Within another trace: the function's own nodes, between values that are stored. */
static kn_status function_kept_inline(kn_context *kn, kn_fn fn, void *user, int nin, kn_tensor *const *in, int nout,
                                      kn_tensor **out) {
    static const char op[]  = "kn_function_kept";
    size_t            bytes = ((size_t)nin + 1) * sizeof(kn_tensor *);
    kn_tensor       **arg   = kn_realloc(kn->alloc, NULL, 0, bytes);
    if (!arg) return kt_error(kn, KN_ERR_MEMORY, "%s: out of memory", op);
    for (int i = 0; i < nin; i++) arg[i] = kt_wrap(kn, kg_stored(kn->g, kt_node(kt_slot_of(in[i]))), op);
    kn_status st = kn->fault.code;
    if (st == KN_OK) st = kt_trace_inline(kn, op, fn, user, nin, arg, nout, out);
    for (int i = 0; st == KN_OK && i < nout; i++) {
        out[i] = kt_wrap(kn, kg_stored(kn->g, kt_node(kt_slot_of(out[i]))), op);
        st     = kn->fault.code;
    }
    kn_free(kn->alloc, arg, bytes);
    return st;
}

static kn_status function_call(kn_context *kn, bool kept, kn_fn fn, void *user, int nin, kn_tensor *const *in, int nout,
                               kn_tensor **out) {
    function_args a = {.kn = kn, .kept = kept, .op = kept ? "kn_function_kept" : "kn_function"};
    kt_call       c;
    if (!fn || nin < 0 || nout < 0 || (nin && !in) || (nout && !out))
        return kt_error(kn, KN_ERR_ARG, "%s: the function at %s, %d inputs at %s, %d results at %s", a.op,
                        fn ? "an address" : "NULL", nin, in ? "an address" : "NULL", nout, out ? "an address" : "NULL");
    if (kn->fault.code != KN_OK || !kt_begin_new(&c, a.op, kn)) return kn->fault.code;
    for (int i = 0; i < nin; i++)
        if (!kt_check(kn, a.op, in[i])) return kn->fault.code;
    if (kn->trace && kept) return function_kept_inline(kn, fn, user, nin, in, nout, out);
    if (kn->trace) return kt_trace_inline(kn, a.op, fn, user, nin, in, nout, out);
    bool ok = function_trace(&a, fn, user, nin, in, nout, out);
    kn_free(kn->alloc, a.node, a.node_cap * sizeof *a.node);
    kn_free(kn->alloc, a.param, a.param_cap * sizeof *a.param);
    return ok ? KN_OK : kn->fault.code;
}

static kn_status function_status(kn_context *kn, bool kept, kn_fn fn, void *user, int nin, kn_tensor *const *in,
                                 int nout, kn_tensor **out) {
    kn_status st = kn ? function_call(kn, kept, fn, user, nin, in, nout, out) : KN_ERR_ARG;
    for (int i = 0; st != KN_OK && out && i < nout; i++) out[i] = kn ? kt_handle(kn->poison) : NULL;
    return st;
}

kn_status kn_function(kn_context *kn, kn_fn fn, void *user, int nin, kn_tensor *const *in, int nout, kn_tensor **out) {
    return function_status(kn, false, fn, user, nin, in, nout, out);
}

kn_status kn_function_kept(kn_context *kn, kn_fn fn, void *user, int nin, kn_tensor *const *in, int nout,
                           kn_tensor **out) {
    return function_status(kn, true, fn, user, nin, in, nout, out);
}
