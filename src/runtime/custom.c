/* custom.c - functions of the host: their names, and kernels that call them.
 *
 * Contract: programs know a function by its name, contexts what stands behind it; so schedules, which contexts share,
 * hold no address of the host's. */
#include "runtime/inside.h"

#include <string.h>

bool kr_define(kr_context *rt, const char *name, const kn_custom_def *def, kn_fault *f) {
    size_t    len = strlen(name);
    kr_custom c   = {.def = *def};
    if (!len || len >= sizeof c.name)
        return kn_fail(f, KN_ERR_ARG, "a name has 1 to %zu characters", sizeof c.name - 1);
    const kn_custom_def *old = kr_defined(rt, name);
    if (old && old->run == def->run && old->gradient == def->gradient && old->user == def->user) return true;
    if (old) return kn_fail(f, KN_ERR_STATE, "\"%s\" is another function already", name);
    if (!KN_GROW(rt->a, rt->custom, rt->custom_cap, rt->ncustom + 1)) return kn_oom(f);
    memcpy(c.name, name, len + 1);
    rt->custom[rt->ncustom++] = c;
    return true;
}

const kn_custom_def *kr_defined(const kr_context *rt, const char *name) {
    for (size_t i = 0; i < rt->ncustom; i++)
        if (!strcmp(rt->custom[i].name, name)) return &rt->custom[i].def;
    return NULL;
}

bool kr_run_custom(void *context, const char *name, const kn_custom_args *args, kn_fault *f) {
    const kr_context    *rt  = context;
    const kn_custom_def *def = kr_defined(rt, name);
    if (!def || !def->run)
        return kn_fail(f, KN_ERR_UNSUPPORTED, "the program calls \"%s\", and no function of that name is defined",
                       name);
    kn_status st = def->run(def->user, args);
    return st == KN_OK || kn_fail(f, st, "the function \"%s\" returned %s", name, kn_status_name(st));
}

static void describe(const kn_graph *g, kn_ref n, void *data, kn_custom_array *a) {
    *a      = (kn_custom_array){.data = data, .dtype = (kn_dtype)kg_dtype(g, n), .numel = kg_numel(g, n)};
    a->dims = kg_shape(g, n, &a->rank);
}

bool kr_call_custom(kr_context *rt, const kl_kernel *k, void *const *bufs, kn_custom_array *room, kn_fault *f) {
    const kn_graph *g    = k->g;
    kn_ref          body = kg_at(g, k->custom, 0);
    int             nout = (int)kg_nsrc(g, body), nin = (int)kg_nsrc(g, k->custom) - 1;
    for (int i = 0; i < nout; i++) describe(g, kg_at(g, body, (uint32_t)i), bufs[i], &room[i]);
    for (int i = 0; i < nin; i++) describe(g, kg_at(g, k->custom, (uint32_t)i + 1), bufs[nout + i], &room[nout + i]);
    return kr_run_custom(rt, kg_str(g, (uint32_t)kg_node(g, body)->arg, NULL),
                         &(kn_custom_args){nout, nin, room, room + nout}, f);
}
