/* trace.c - calling a kn_fn to see what it builds.
 *
 * Contract: while a trace goes on nothing of the function's own runs. Its tensors belong to a scope of their own, and
 * its assignments stay pending there; what it uses from outside is noted, in the order of first use. Afterwards no
 * handle outside knows of the trace's inputs. */
#include "tensor/tensor.h"

#include <string.h>

bool kt_may_run(kn_context *kn, const char *op) {
    if (!kn->trace) return true;
    kt_error(kn, KN_ERR_STATE,
             "%s: a function is being traced and has no values yet: return the tensor and read it from the caller", op);
    return false;
}

bool kt_may_assign(kn_context *kn, const char *op, const kt_slot *s) {
    if (!kn->trace) return true;
    if (kn->trace->function)
        kt_fail(kn, KN_ERR_STATE, "%s: a kn_function has no effects: return the value, and assign it in the caller",
                op);
    else if (s->scope->depth >= kn->trace->depth)
        kt_fail(kn, KN_ERR_STATE,
                "%s: the tensor was made inside the function being traced: assign one made outside, or use the value "
                "itself",
                op);
    else
        return true;
    return false;
}

bool kt_trace_operand(kn_context *kn, kt_slot *s) {
    kt_trace *t = kn->trace;
    if (s->scope->depth >= t->depth || s->flags & KT_OUTER) return true;
    if (!KN_GROW(kn->alloc, t->outer, t->outer_cap, t->nouter + 1)) {
        kt_error(kn, KN_ERR_MEMORY, "out of memory");
        return false;
    }
    s->flags |= KT_OUTER;
    t->outer[t->nouter++] = s;
    if (t->function) return true;
    /* What it is has to be storage, to be found again by later runs. It does not depend on the trace. */
    size_t pending = kn->npending;
    kn->trace      = NULL;
    kn->npending   = 0;
    bool ok        = kt_run(kn, "kn_call", &s, 1, KT_NOW);
    kn->npending   = pending;
    kn->trace      = t;
    return ok;
}

bool kt_trace_draw(kn_context *kn, kn_ref node) {
    kt_trace *t   = kn->trace;
    kn_ref    buf = kt_buffer_of(kn->g, node);
    if (!buf) return false;
    if (!KN_GROW(kn->alloc, t->draw, t->draw_cap, t->ndraw + 1)) return kn_oom(kg_fault(kn->g));
    t->draw[t->ndraw++] = kg_field(kn->g, buf, KN_F_BUFFER_slot);
    return true;
}

bool kt_trace_begin(kn_context *kn, kt_trace *t, bool function) {
    *t = (kt_trace){.function = function};
    if (!kn_begin(kn)) return false;
    t->depth  = kn->scope->depth;
    kn->trace = t;
    return true;
}

kn_status kt_trace_call(kn_context *kn, const char *op, kn_fn fn, void *user, int nin, kn_tensor *const *in, int nout,
                        kn_tensor **out) {
    for (int i = 0; i < nout; i++) out[i] = NULL;
    kn_status st = fn(kn, user, nin, in, nout, out);
    if (kn->fault.code != KN_OK) return kn->fault.code;
    if (st != KN_OK) { /* what a kn_end in it failed with is the better text */
        if (kn->text[0]) return kt_error(kn, st, "%s", kn->text);
        return kt_error(kn, st, "%s: the function returned %s", op, kn_status_name(st));
    }
    for (int i = 0; i < nout; i++) {
        if (!out[i]) return kt_error(kn, KN_ERR_ARG, "%s: the function did not set out[%d]", op, i);
        if (!kt_check(kn, op, out[i])) return kn->fault.code;
    }
    for (kt_slot *s = kn->scope; kn->trace && s && s->depth >= kn->trace->depth; s = s->scope)
        for (kt_slot *x = s->first; x; x = x->next)
            if (x->flags & KT_KEEP)
                return kt_error(kn, KN_ERR_STATE,
                                "%s: a tensor of the function is kept: return it in out[], or assign it", op);
    return KN_OK;
}

kn_status kt_trace_inline(kn_context *kn, const char *op, kn_fn fn, void *user, int nin, kn_tensor *const *in, int nout,
                          kn_tensor **out) {
    size_t      bytes = ((size_t)nin + (size_t)nout + 1) * sizeof(kn_tensor *);
    kn_tensor **arg   = kn_realloc(kn->alloc, NULL, 0, bytes),
              **res   = arg ? arg + nin : NULL; /* in and out may be the same array */
    if (!arg) return kt_error(kn, KN_ERR_MEMORY, "%s: out of memory", op);
    for (int i = 0; i < nin; i++) arg[i] = in[i];
    kn_status st = kt_trace_call(kn, op, fn, user, nin, arg, nout, res);
    for (int i = 0; st == KN_OK && i < nout; i++) out[i] = res[i];
    kn_free(kn->alloc, arg, bytes);
    return st;
}

void kt_trace_end(kn_context *kn, kt_trace *t, const kn_ref *inputs, int ninputs) {
    kt_slot *s = kn->scope;
    while (s->depth > t->depth) s = s->scope;
    kt_abandon(kn, s);
    kn->trace = NULL;
    for (size_t i = 0; i < t->nouter; i++) t->outer[i]->flags &= (uint8_t)~KT_OUTER;
    uint32_t count = kg_count(kn->g);
    uint8_t *dep   = kn_zalloc(kn->alloc, count);
    if (!dep) {
        kt_error(kn, KN_ERR_MEMORY, "out of memory");
        return;
    }
    /* kn_backward gives gradients to the scopes of their tensors. */
    kt_dependents(kn->g, inputs, ninputs, dep, count);
    for (kt_slot *x = kt_first(kn), *next; x; x = next) {
        next = kt_next(x);
        if (!dep[x->node] || x->node == x->store) continue;
        kt_drop_pending(kn, x);
        kt_unlink(x);
        kt_slot_free(x);
    }
    kn_free(kn->alloc, dep, count);
}

void kt_trace_free(kn_context *kn, kt_trace *t) {
    kn_free(kn->alloc, t->outer, t->outer_cap * sizeof *t->outer);
    kn_free(kn->alloc, t->draw, t->draw_cap * sizeof *t->draw);
}
