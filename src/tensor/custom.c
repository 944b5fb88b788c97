/* custom.c - kn_define, kn_custom: functions of the host as nodes, and their gradients.
 *
 * Contract. A call is GETTUPLE k of CALL(CUSTOM_FUNCTION{name}(types...), inputs...): a value like any other, that is
 * known by its name and its inputs. kn_custom_gradient's results are its y, passed through such a CALL. The function is
 * looked up when the program runs, its gradient when one is asked for; that is traced, so that it builds nodes and runs
 * nothing. */
#include "tensor/gradient.h"
#include "tensor/tensor.h"

#include <string.h>

static kn_status define(kn_context *kn, const char *name, const kn_custom_def *def) {
    kn_fault f = {0};
    if (kn->fault.code != KN_OK) return kn->fault.code;
    if (!name || !def || (!def->run && !def->gradient))
        return kt_error(kn, KN_ERR_ARG, "kn_define: %s is NULL",
                        name ? def ? "the function, and so is its gradient," : "the definition" : "name");
    if (def->size != sizeof *def)
        return kt_error(kn, KN_ERR_ARG, "kn_define: the definition's size is %zu, not %zu: set .size = sizeof(def)",
                        def->size, sizeof *def);
    if (!kn->rt) return kt_error(kn, kn->open_fault.code, "%s", kn->open_fault.text);
    return kr_define(kn->rt, name, def, &f) ? KN_OK : kt_take_fault(kn, &f, "kn_define");
}

kn_status kn_define(kn_context *kn, const char *name, const kn_custom_def *def) {
    return kn ? define(kn, name, def) : KN_ERR_ARG;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bool sizes_ok(kt_call *c, const char *what, int k, const int64_t *dims, int rank) {
    for (int i = 0; i < rank; i++) {
        if (dims[i] > 0) continue;
        kt_fail(c->kn, KN_ERR_UNSUPPORTED, "kn_custom: %s %d: its sizes must be numbers above 0", what, k);
        return false;
    }
    return true;
}

/* The tensors' nodes; false: recorded. */
static bool operands(kt_call *c, int n, kn_tensor *const *t, kn_ref *node) {
    kn_context *kn = c->kn;
    for (int k = 0; k < n; k++) {
        kt_slot *s = kt_check(kn, c->op, t[k]);
        if (!s || (kn->trace && !kt_trace_operand(kn, s))) return false;
        node[k] = kt_node(s);
    }
    return true;
}

static kn_ref custom_type(kt_call *c, int k, const kn_custom_type *t) {
    if (!kt_dtype_ok(c, t->dtype)) return 0;
    if (t->rank < 0 || t->rank > KN_MAX_RANK || (t->rank && !t->dims)) {
        kt_fail(c->kn, KN_ERR_ARG, "kn_custom: result %d: %d sizes at %s", k, t->rank, t->dims ? "an address" : "NULL");
        return 0;
    }
    if (!sizes_ok(c, "result", k, t->dims, t->rank)) return 0;
    kn_ref n = kg_own_param(c->g, k, t->dtype, t->dims, t->rank);
    if (!n) kt_take_fault(c->kn, kg_fault(c->g), "kn_custom");
    return n;
}

static kn_status custom_call(kt_call *c, const char *name, int nin, kn_tensor *const *in, int nout,
                             const kn_custom_type *type, kn_tensor **out) {
    kn_context *kn    = c->kn;
    size_t      bytes = ((size_t)nin + (size_t)nout + 1) * sizeof(kn_ref);
    kn_ref     *node  = kn_zalloc(kn->alloc, bytes), call = 0;
    bool        ok    = node != NULL;
    if (!ok) kt_error(kn, KN_ERR_MEMORY, "kn_custom: out of memory");
    for (int k = 0; ok && k < nout; k++) ok = (node[nin + k] = custom_type(c, k, &type[k])) != 0;
    ok = ok && operands(c, nin, in, node);
    for (int k = 0; ok && k < nin; k++) {
        int            rank;
        const int64_t *dims = kg_shape(c->g, node[k], &rank);
        ok                  = sizes_ok(c, "input", k, dims, rank);
    }
    if (ok && !(call = kg_custom_call(c->g, name, node + nin, nout, node, nin))) {
        kt_take_fault(kn, kg_fault(c->g), "kn_custom");
        ok = false;
    }
    for (int k = 0; ok && k < nout; k++)
        ok = kn_ok(out[k] = kt_wrap(kn, kg_make(c->g, KN_OP_GETTUPLE, 0, (uint64_t)k, &call, 1), "kn_custom"));
    kn_free(kn->alloc, node, bytes);
    return ok ? KN_OK : kn->fault.code;
}

static kn_status custom(kn_context *kn, const char *name, int nin, kn_tensor *const *in, int nout,
                        const kn_custom_type *type, kn_tensor **out) {
    kt_call c;
    if (!name || nin < 0 || nout < 1 || (nin && !in) || !type || !out)
        return kt_error(kn, KN_ERR_ARG, "kn_custom: name at %s, %d inputs at %s, %d results of types at %s, at %s",
                        name ? "an address" : "NULL", nin, in ? "an address" : "NULL", nout,
                        type ? "an address" : "NULL", out ? "an address" : "NULL");
    if (kn->fault.code != KN_OK || !kt_begin_new(&c, "kn_custom", kn)) return kn->fault.code;
    const kn_custom_def *def = kr_defined(kn->rt, name);
    if (!def || !def->run)
        return kt_error(kn, KN_ERR_ARG, "kn_custom: no function \"%s\": kn_define gives it one", name);
    return custom_call(&c, name, nin, in, nout, type, out);
}

kn_status kn_custom(kn_context *kn, const char *name, int nin, kn_tensor *const *in, int nout,
                    const kn_custom_type *type, kn_tensor **out) {
    kn_status st = kn ? custom(kn, name, nin, in, nout, type, out) : KN_ERR_ARG;
    for (int i = 0; st != KN_OK && out && i < nout; i++) out[i] = kn ? kt_handle(kn->poison) : NULL;
    return st;
}

static kn_status own_gradient(kn_context *kn, const char *name, int nin, kn_tensor *const *in, int nout,
                              kn_tensor *const *y, kn_tensor **out) {
    kt_call c;
    if (!name || nin < 1 || nout < 1 || !in || !y || !out)
        return kt_error(kn, KN_ERR_ARG, "kn_custom_gradient: name at %s, %d inputs at %s, %d results at %s",
                        name ? "an address" : "NULL", nin, in ? "an address" : "NULL", nout, y ? "an address" : "NULL");
    if (kn->fault.code != KN_OK || !kt_begin_new(&c, "kn_custom_gradient", kn)) return kn->fault.code;
    const kn_custom_def *def = kr_defined(kn->rt, name);
    if (!def || !def->gradient)
        return kt_error(kn, KN_ERR_ARG, "kn_custom_gradient: no gradient \"%s\": kn_define gives it one", name);
    size_t  bytes = ((size_t)nin + (size_t)nout) * sizeof(kn_ref);
    kn_ref *node  = kn_zalloc(kn->alloc, bytes), count, call = 0;
    bool    ok    = node != NULL;
    if (!ok) kt_error(kn, KN_ERR_MEMORY, "kn_custom_gradient: out of memory");
    ok = ok && operands(&c, nout, y, node) && operands(&c, nin, in, node + nout);
    if (ok && (!(count = kg_idx(c.g, nout)) || !(call = kg_custom_call(c.g, name, &count, 1, node, nin + nout)))) {
        kt_take_fault(kn, kg_fault(c.g), "kn_custom_gradient");
        ok = false;
    }
    for (int k = 0; ok && k < nout; k++)
        ok = kn_ok(out[k] = kt_wrap(kn, kg_make(c.g, KN_OP_GETTUPLE, 0, (uint64_t)k, &call, 1), c.op));
    kn_free(kn->alloc, node, bytes);
    return ok ? KN_OK : kn->fault.code;
}

kn_status kn_custom_gradient(kn_context *kn, const char *name, int nin, kn_tensor *const *in, int nout,
                             kn_tensor *const *y, kn_tensor **out) {
    kn_status st = kn ? own_gradient(kn, name, nin, in, nout, y, out) : KN_ERR_ARG;
    for (int i = 0; st != KN_OK && out && i < nout; i++) out[i] = kn ? kt_handle(kn->poison) : NULL;
    return st;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* in[]: the inputs, the results, their gradients. False: recorded. */
static bool gradient_inputs(kn_context *kn, kn_ref call, kn_ref grads, int nin, int nout, kn_tensor **in) {
    kn_graph *g      = kn->g;
    bool      passes = kg_custom_passes(g, call), ok = true;
    uint32_t  first  = passes ? 1 + (uint32_t)nout : 1;
    for (int k = 0; ok && k < nin; k++)
        ok = kn_ok(in[k] = kt_wrap(kn, kg_at(g, call, first + (uint32_t)k), "kn_gradient"));
    for (int k = 0; ok && k < nout; k++) {
        kn_ref y = passes ? kg_custom_result(g, call, k) : kg_make(g, KN_OP_GETTUPLE, 0, (uint64_t)k, &call, 1);
        kn_ref d = y ? kg_at(g, grads, (uint32_t)k) : 0;
        if (d && kg_op(g, d) == KN_OP_HOLE) d = kn_broadcast_like(g, kg_int(g, kg_dtype(g, y), 0), y);
        ok = kn_ok(in[nin + k] = kt_wrap(kn, y, "kn_gradient")) &&
             kn_ok(in[nin + nout + k] = kt_wrap(kn, d, "kn_gradient"));
    }
    return ok;
}

/* The gradients that the host gave, as nodes. False: recorded. */
static bool gradient_parts(kn_context *kn, const char *name, kn_ref call, int nin, kn_tensor *const *out,
                           kn_ref *part) {
    kn_graph *g = kn->g;
    for (int k = 0; k < nin; k++) {
        kn_ref   x = kg_at(g, call, kg_nsrc(g, call) - (uint32_t)(nin - k));
        kt_slot *s = out[k] ? kt_check(kn, "kn_gradient", out[k]) : NULL;
        if (out[k] && !s) return false;
        part[k] = s ? kt_node(s) : kg_make(g, KN_OP_HOLE, 0, 0, NULL, 0);
        if (!s || !kn_is_float(kg_dtype(g, x))) continue;
        if (kg_dtype(g, part[k]) == kg_dtype(g, x) && kg_same_shape(g, part[k], x)) continue;
        char want[KT_SHAPE_TEXT], got[KT_SHAPE_TEXT];
        kt_error(kn, KN_ERR_SHAPE, "kn_gradient: \"%s\": the gradient of input %d is %s %s, the input %s %s", name, k,
                 kn_dtypes[kg_dtype(g, part[k])].name, kt_shape_text(g, part[k], got), kn_dtypes[kg_dtype(g, x)].name,
                 kt_shape_text(g, x, want));
        return false;
    }
    return true;
}

/* Calls the host's function in a trace, if none is going on. */
static bool gradient_call(kn_context *kn, const kn_custom_def *def, const char *name, kn_ref call, kn_ref grads,
                          int nin, int nout, kn_tensor **in, kn_tensor **out, kn_ref *part) {
    kt_trace t     = {0};
    bool     begun = !kn->trace && kt_trace_begin(kn, &t, true), ok = begun || kn->trace;
    ok = ok && gradient_inputs(kn, call, grads, nin, nout, in);
    if (ok) {
        kn_status st = def->gradient(kn, def->user, nin + 2 * nout, in, nin, out);
        if (st != KN_OK && kn->fault.code == KN_OK)
            kt_error(kn, st, "kn_gradient: the gradient of \"%s\" returned %s", name, kn_status_name(st));
        ok = kn->fault.code == KN_OK && gradient_parts(kn, name, call, nin, out, part);
    }
    if (begun) {
        kt_trace_end(kn, &t, NULL, 0);
        kt_trace_free(kn, &t);
    }
    return ok;
}

bool kt_gradient_through(void *context, kn_ref call, kn_ref grads, kn_ref *parts, kn_fault *f) {
    kn_context          *kn   = context;
    kn_graph            *g    = kn->g;
    int                  nout = kg_custom_results(g, call), all = (int)kg_nsrc(g, call) - 1;
    int                  nin  = kg_custom_passes(g, call) ? all - nout : all;
    const char          *name = kg_str(g, (uint32_t)kg_node(g, kg_at(g, call, 0))->arg, NULL);
    const kn_custom_def *def   = kr_defined(kn->rt, name);
    size_t               bytes = ((size_t)nin * 2 + 2 * (size_t)nout + 1) * sizeof(kn_tensor *);
    size_t               size  = ((size_t)all + 1) * sizeof(kn_ref);
    if (!def || !def->gradient)
        return kn_fail(f, KN_ERR_UNSUPPORTED, "kn_gradient: \"%s\" has no gradient: put kn_detach around it", name);
    kn_tensor **in   = kn_zalloc(kn->alloc, bytes), **out = in ? in + nin + 2 * nout : NULL;
    kn_ref     *part = kn_zalloc(kn->alloc, size);
    bool        ok   = (in && part) || kn_oom(f);
    for (int k = 0; ok && k < all - nin; k++) part[k] = kg_make(g, KN_OP_HOLE, 0, 0, NULL, 0);
    if (ok && !(ok = gradient_call(kn, def, name, call, grads, nin, nout, in, out, part + all - nin)))
        kn_fail(f, kn->fault.code, "%s", kn->fault.text);
    if (ok && !(*parts = kg_list(g, KN_OP_TUPLE, part, all)))
        ok = kn_fail(f, kg_fault(g)->code, "%s", kg_fault(g)->text);
    kn_free(kn->alloc, in, bytes);
    kn_free(kn->alloc, part, size);
    return ok;
}
