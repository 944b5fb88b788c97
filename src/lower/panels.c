/* panels.c - kernels that copy what another kernel reads many times into the order in which it is read.
 *
 * Takes: a kernel's GLOBAL panels, as ENDs of its graph (STAGE:param:GLOBAL). Gives: each as a kernel of its own,
 *   with lanes and threads of its own choice, called in front of it, into a temporary that becomes an argument of the
 *   reader. The border between the two calls is the barrier.
 * A panel of an argument that the program never writes is kept (Plan): the runtime copies again only after a write. */
#include "lower/lower.h"

#include <string.h>

/* The END of the reader's graph over PARAM 0, the panel, and PARAM 1, what is copied. */
static bool panel_kernel(kl_program *p, kl_kernel *k, kn_graph *from, const ko_panel *panel, kn_fault *f) {
    kn_ref   mine[2] = {panel->memory, 0}, its[2], *order;
    uint32_t n;
    if (!kg_reach(from, &panel->fill, 1, &order, &n)) return kn_oom(f);
    for (uint32_t i = 0; i < n; i++)
        if (kg_op(from, order[i]) == KN_OP_PARAM && kg_field(from, order[i], KN_F_PARAM_slot) == panel->source)
            mine[1] = order[i];
    kn_free(kg_alloc(from), order, n * sizeof *order);
    int64_t size = kg_numel(from, mine[1]);
    its[0]       = kg_param(from, 0, panel->dtype, &panel->size, 1);
    its[1]       = kg_param(from, 1, kg_dtype(from, mine[1]), &size, 1);
    kn_ref end   = its[0] && its[1] ? kg_substitute(from, panel->fill, mine, its, 2) : 0;
    if (!end) return kl_stage_fault("optimize", from, f);
    if (!(k->g = kg_new(p->alloc))) return kn_oom(f);
    kg_keep_why(k->g, kg_why(from));
    kn_ref body = kg_copy(k->g, from, end);
    k->root     = body ? kg_sink(k->g, &body, 1, NULL, NULL, 0) : 0;
    return (k->root && kl_name_kernel(p, k, "p")) || kl_stage_fault("optimize", k->g, f);
}

/* The panel of each call of the reader, whose arguments grow by it, is a temporary filled by a call in front. */
static bool insert_calls(kl_program *p, size_t reader, size_t filler, const ko_panel *panel, kn_fault *f) {
    for (size_t i = 0; i < p->ncall; i++) {
        if (p->call[i].kernel != reader) continue;
        size_t  nargs = (size_t)panel->slot;
        kl_arg *arg   = kn_arena_get(&p->args, (nargs + 1) * sizeof *arg);
        kl_arg *fill  = kn_arena_get(&p->args, 2 * sizeof *fill);
        if (!arg || !fill || !KN_GROW(p->alloc, p->call, p->call_cap, p->ncall + 1) ||
            !KN_GROW(p->alloc, p->temp, p->temp_cap, p->ntemp + 1))
            return kn_oom(f);
        memcpy(arg, p->call[i].arg, nargs * sizeof *arg);
        arg[nargs]      = (kl_arg){.temp = true, .id = (int64_t)p->ntemp};
        fill[0]         = arg[nargs];
        fill[0].written = true;
        fill[1]         = arg[panel->source];
        fill[1].written = false;
        p->temp[p->ntemp++] = (kl_temp){.size = panel->size, .dtype = panel->dtype};
        memmove(p->call + i + 1, p->call + i, (p->ncall++ - i) * sizeof *p->call);
        p->call[i]       = (kl_call){filler, fill};
        p->call[++i].arg = arg;
    }
    return true;
}

bool kl_add_panels(kl_program *p, size_t at, const ko_panels *panels, kn_fault *f) {
    for (int i = 0; i < panels->n; i++) {
        kl_kernel k = {.chunks = 1, .panel = true, .nargs = 2};
        if (!KN_GROW(p->alloc, p->kernel, p->kernel_cap, p->nkernel + 1)) return kn_oom(f);
        bool ok = panel_kernel(p, &k, p->kernel[at].g, &panels->panel[i], f);
        if (ok) p->kernel[p->nkernel++] = k;
        else kg_free(k.g);
        if (!ok || !insert_calls(p, at, p->nkernel - 1, &panels->panel[i], f)) return false;
        p->kernel[at].nargs++;
    }
    return true;
}
