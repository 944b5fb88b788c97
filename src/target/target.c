/* target.c - the targets of this build, by name, and what they all ask of tiles. */
#include "target/target.h"

#include <string.h>

const kt_target *kt_of(const kt_choice *c) {
    return c->target ? c->target : &kt_c;
}

bool kt_runs(const kt_choice *c, kn_fault *f) {
    const kt_target *t = kt_of(c);
    return !t->runs || t->runs(c, f);
}

bool kt_find(const char *name, kt_choice *out, kn_fault *f) {
    *out = (kt_choice){.target = &kt_c};
#if KN_TARGET_X86
    kt_choice own = {.target = &kt_x86};
    if (!name && kt_x86_options("", &own, f) && kt_runs(&own, &(kn_fault){0})) return *out = own, true;
#endif
    if (!name || !strcmp(name, "c")) return true;
#if KN_TARGET_X86
    if (!strncmp(name, "x86", 3) && (!name[3] || name[3] == ':')) {
        out->target = &kt_x86;
        return kt_x86_options(name + 3, out, f);
    }
    return kn_fail(f, KN_ERR_DEVICE, "no target \"%s\": this build has c and x86", name);
#else
    return kn_fail(f, KN_ERR_DEVICE, "no target \"%s\": this build has c", name);
#endif
}

bool kt_is_shared(const kn_graph *g, kn_ref range, kn_ref last) {
    if (kg_field(g, range, KN_F_RANGE_type) != KN_AXIS_THREAD) return false;
    return !last || (kg_op(g, kg_at(g, last, 0)) == KN_OP_CONST && kg_op(g, kg_at(g, range, 0)) == KN_OP_CONST);
}

bool kt_is_written(const kn_graph *g, const kn_ref *list, uint32_t n, kn_ref place) {
    kn_ref storage = kg_storage(g, place);
    for (uint32_t i = 0; i < n; i++)
        if (kg_op(g, list[i]) == KN_OP_STORE && kg_storage(g, kg_at(g, list[i], 0)) == storage) return true;
    return false;
}

int64_t kt_row_in(int srank, const int64_t *sdims, int drank, const int64_t *ddims, int64_t row) {
    int64_t r = 0, stride = 1;
    for (int i = drank - 2; i >= 0; i--) {
        int64_t at = row % ddims[i];
        row /= ddims[i];
        int k = i - (drank - srank);
        if (k < 0 || k > srank - 2) continue;
        if (sdims[k] > 1) r += at * stride;
        stride *= sdims[k];
    }
    return r;
}

bool kt_row_falls_on(int rank, const int64_t *sdims, const int64_t *ddims, int64_t from, int64_t row) {
    for (int i = rank - 2; i >= 0; i--) {
        if (ddims[i] > 1 && row % ddims[i] != from % sdims[i]) return false;
        row /= ddims[i];
        from /= sdims[i];
    }
    return true;
}
