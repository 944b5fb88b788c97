/* eval_custom.c - the reference interpreter: functions of the host.
 *
 * Contract. The function gets copies of its arguments and fresh memory for its results, filled with a pattern so that
 * what it does not write shows. */
#include "dialect/eval_inside.h"

#include <string.h>

/* A value's memory of the type that node n has. */
static bool custom_room(ev *e, kn_ref n, kn_value *v) {
    int            rank;
    const int64_t *dims = kg_shape(e->g, n, &rank);
    int64_t        bytes;
    *v = (kn_value){.numel = kg_numel(e->g, n), .dtype = kg_dtype(e->g, n), .rank = rank};
    if (v->numel < 0 || !kn_mul_ok(KN_MAX(v->numel, 1), kn_dsize(v->dtype), &bytes))
        return kn_fail(e->fault, KN_ERR_SHAPE, "CUSTOM_FUNCTION: a result of no size that can be stored");
    memcpy(v->dims, dims, (size_t)rank * sizeof *dims);
    if (!(v->data = kn_realloc(e->alloc, NULL, 0, (size_t)bytes))) return kn_oom(e->fault);
    memset(v->data, 0xA5, (size_t)bytes);
    return true;
}

static void custom_array(kn_custom_array *a, const kn_value *v) {
    *a = (kn_custom_array){.data = v->data, .dtype = (kn_dtype)v->dtype, .rank = v->rank, .dims = v->dims,
                           .numel = v->numel};
}

/* The first arguments are the results. */
static bool custom_pass(ev *e, ev_cell *c, kn_value *v, int n) {
    for (int k = 0; k < n; k++)
        if (!kn_ev_export(e, &e->cell[c->src[k + 1]], &v[k])) return false;
    return true;
}

/* Room for the results, copies of the arguments, and the function. */
static bool custom_run(ev *e, ev_cell *c, kn_value *v, kn_custom_array *a, int nout, int nin) {
    kn_ref      body = kg_at(e->g, c->id, 0);
    const char *name = kg_str(e->g, (uint32_t)kg_node(e->g, body)->arg, NULL);
    bool        ok   = true;
    if (!e->shared->custom)
        return kn_fail(e->fault, KN_ERR_UNSUPPORTED, "CUSTOM_FUNCTION \"%s\": the host has no function of that name",
                       name);
    for (int k = 0; ok && k < nout; k++) ok = custom_room(e, kg_at(e->g, body, (uint32_t)k), &v[k]);
    for (int k = 0; ok && k < nin; k++) ok = kn_ev_export(e, &e->cell[c->src[k + 1]], &v[nout + k]);
    for (int k = 0; ok && k < nin + nout; k++) custom_array(&a[k], &v[k]);
    return ok && e->shared->custom(e->shared->custom_user, name, &(kn_custom_args){nout, nin, a, a + nout}, e->fault);
}

bool kn_ev_custom(ev *e, ev_cell *c) {
    int              nin = (int)c->nsrc - 1, nout = kg_custom_results(e->g, c->id);
    size_t           size = (size_t)(nin + nout) + 1;
    kn_custom_array *a = kn_zalloc(e->alloc, size * sizeof *a);
    kn_value        *v = kn_zalloc(e->alloc, size * sizeof *v); /* results, then arguments */
    bool             ok = (a && v) || kn_oom(e->fault);
    for (int k = 0; k < c->ntuple; k++) kn_value_free(e->alloc, &c->tuple[k]);
    c->ntuple = 0;
    if (ok && !c->tuple && !(c->tuple = kn_arena_get(&e->arena, ((size_t)nout + 1) * sizeof *c->tuple)))
        ok = kn_oom(e->fault);
    if (ok) ok = kg_custom_passes(e->g, c->id) ? custom_pass(e, c, v, nout) : custom_run(e, c, v, a, nout, nin);
    for (int k = 0; ok && k < nout; k++) {
        c->tuple[k] = v[k];
        v[k]        = (kn_value){0};
    }
    if (ok) c->ntuple = nout;
    for (int k = 0; v && k < nin + nout; k++) kn_value_free(e->alloc, &v[k]);
    kn_free(e->alloc, v, size * sizeof *v);
    kn_free(e->alloc, a, size * sizeof *a);
    return ok;
}
