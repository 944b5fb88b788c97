/* custom.c - inside stage 2: functions of the host.
 *
 * Takes: GETTUPLE k of CALL(CUSTOM_FUNCTION, arguments...). Gives: a group without loops for each CALL, which reads its
 *   arguments from storage and writes its results to storage; nothing is computed in it. Its kernel is a SINK of STOREs
 *   of the results, over PARAMs of the shapes that the function knows: those of the results, then the arguments'.
 * Holds after: such a kernel goes through the later stages as it is. */
#include "lower/rangeify.h"

#include <string.h>

bool kl_is_call_result(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_GETTUPLE && kg_is_custom(g, kg_at(g, n, 0));
}

/* The group of a CALL, -1: nobody has asked for a result. */
static int group_of_call(const kl_fuse *z, kn_ref call) {
    for (size_t g = 0; g < z->ngroup; g++)
        if (z->group[g].call == call) return (int)g;
    return -1;
}

static bool has_size(kl_fuse *z, kn_ref n) {
    if (kg_numel(z->g, n) > 0 && !kg_is_variable(z->g, n)) return true;
    return kn_fail(z->f, KN_ERR_UNSUPPORTED,
                   "rangeify: CUSTOM_FUNCTION: symbolic sizes, and values without elements, are not for it");
}

bool kl_call_result(kl_fuse *z, kn_ref n) {
    kn_ref   call  = kg_at(z->g, n, 0);
    kl_info *info  = &z->info[n];
    int      group = group_of_call(z, call);
    if (info->use < 0 && info->out < 0) return true;
    if (group < 0) {
        if (!kl_group_new(z, &group)) return false;
        z->group[group].call = call;
    }
    for (int o = info->out < 0 ? -1 : z->out[info->out].next; o >= 0; o = z->out[o].next)
        z->out[o].via_temp = true; /* it writes to one place */
    return kl_add_storage(z, &(kl_storage){.node = n, .use = -1, .group = group, .out = info->out});
}

/* What an argument is read from: a PARAM as it is, or a value that is stored. */
static kn_ref argument(const kl_fuse *z, kn_ref call, uint32_t k) {
    kn_ref x = kg_at(z->g, call, k);
    while (kg_op(z->g, x) == KN_OP_RESHAPE) x = kg_at(z->g, x, 0);
    return x;
}

bool kl_spread_call(kl_fuse *z, kn_ref call) {
    int group = group_of_call(z, call);
    for (uint32_t k = 1; group >= 0 && k < kg_nsrc(z->g, call); k++) {
        kn_ref         x = argument(z, call, k), idx[KN_MAX_RANK];
        int            rank, around[KN_MAX_RANK], n = 0, use;
        const int64_t *dims = kg_shape(z->g, x, &rank);
        if (!has_size(z, x)) return false;
        for (int i = 0; i < rank; i++) {
            if (dims[i] == 1) {
                idx[i] = kg_idx(z->r, 0);
                continue;
            }
            if (!kl_new_range(z, dims[i], false, around, n, &idx[i])) return false;
            around[n++] = (int)z->nrange - 1;
        }
        if (!kl_add_use(z, x, group, idx, 0, &use)) return false;
    }
    return true;
}

bool kl_read_by_call(const kl_fuse *z, kn_ref n) {
    for (int u = z->info[n].use; u >= 0; u = z->use[u].next)
        if (z->group[z->use[u].group].call) return true;
    return false;
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

static kl_arg storage_arg(const kl_program *p, int64_t slot, bool written) {
    bool temp = slot >= (int64_t)p->nparam;
    return (kl_arg){.temp = temp, .id = temp ? slot - (int64_t)p->nparam : slot, .written = written};
}

/* Where result k goes; what nobody wants goes to memory of its own. */
static bool result_slot(kl_fuse *z, int g, uint32_t k, int64_t *slot) {
    kl_program *p    = z->p;
    kn_ref      type = kg_at(z->g, kg_at(z->g, z->group[g].call, 0), k);
    for (size_t s = 0; s < z->nstorage; s++)
        if (z->storage[s].group == g && kg_node(z->g, z->storage[s].node)->arg == k)
            return *slot = z->storage[s].slot, true;
    if (!KN_GROW(p->alloc, p->temp, p->temp_cap, p->ntemp + 1)) return kn_oom(z->f);
    p->temp[p->ntemp] = (kl_temp){.size = kg_numel(z->g, type), .dtype = kg_dtype(z->g, type)};
    *slot             = (int64_t)(p->nparam + p->ntemp++);
    return true;
}

static kn_ref shaped_param(kl_fuse *z, kl_kernel *k, kn_ref like) {
    int            rank;
    const int64_t *dims = kg_shape(z->g, like, &rank);
    return kg_param(k->g, (int64_t)k->nargs++, kg_dtype(z->g, like), dims, rank);
}

bool kl_cut_call(kl_fuse *z, int g, kl_kernel *k, kl_arg **arg) {
    kn_ref   call = z->group[g].call, body = kg_at(z->g, call, 0);
    uint32_t nout = kg_nsrc(z->g, body), n = kg_nsrc(z->g, call);
    kn_ref  *src = kn_arena_get(&z->arena, (n + nout) * sizeof *src), *store = src ? src + n : NULL;
    kl_arg  *a   = kn_arena_get(&z->p->args, (n + nout) * sizeof *a);
    if (!src || !a || !(k->g = kg_new(z->p->alloc))) return kn_oom(z->f);
    kg_keep_why(k->g, kg_why(z->g));
    kg_made_of(k->g, z->g, call);
    snprintf(k->name, sizeof k->name, "%s", kg_str(z->g, (uint32_t)kg_node(z->g, body)->arg, NULL));
    for (uint32_t i = 0; i < nout; i++) {
        int64_t slot = 0;
        if (!has_size(z, kg_at(z->g, body, i)) || !result_slot(z, g, i, &slot)) return false;
        a[i]     = storage_arg(z->p, slot, true);
        store[i] = shaped_param(z, k, kg_at(z->g, body, i));
    }
    src[0] = kg_copy(k->g, z->g, body);
    for (uint32_t i = 1; i < n; i++) {
        kn_ref  x    = argument(z, call, i);
        bool    held = kg_op(z->g, x) == KN_OP_PARAM;
        int64_t slot = held ? kg_field(z->g, x, KN_F_PARAM_slot) : z->storage[z->info[x].storage].slot;
        a[k->nargs]  = storage_arg(z->p, slot, false);
        src[i]       = shaped_param(z, k, kg_at(z->g, call, i));
    }
    k->custom = kg_import(k->g, z->g, call, src, n);
    for (uint32_t i = 0; i < nout; i++)
        store[i] = kg_store(k->g, store[i], kg_make(k->g, KN_OP_GETTUPLE, 0, i, &k->custom, 1), 0);
    k->root = k->cut = kg_sink(k->g, store, (int)nout, k->name, NULL, 0);
    *arg             = a;
    return k->root || kl_stage_fault("rangeify", k->g, z->f);
}
