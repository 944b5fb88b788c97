/* copies.c - of x86-64: what is loaded to be stored again goes through a general register.
 *
 * Two, four or eight bytes, as pieces of short rows are, take a vector register as any lanes do; but some processors
 * store from general registers twice as often. Takes a plan whose values have no registers yet, and whose other folds
 * are made; such a LOAD stands in its STORE then, and takes no register of the plan's. Writes both. */
#include "target/x86/emit.h"
#include "target/x86/plan.h"

enum { COPY_MAX = 8 };

/* Bytes of n, a LOAD or a STORE, that follow one another where it says; 0: they do not, or not plainly. */
static int64_t cp_bytes(const kx_plan *p, kn_ref n) {
    const kn_graph *g  = p->g;
    kn_ref          at = kg_at(g, n, 0);
    kx_spot         a;
    int             size = kn_dsize(kg_dtype(g, at));
    if (kg_nsrc(g, n) != (kg_op(g, n) == KN_OP_LOAD ? 1 : 2) || kx_is_cell(g, at)) return 0;
    kx_address_of(g, at, &a);
    int64_t far = a.disp * size;
    if (a.places || a.stack || far != (int32_t)far || (kg_rank(g, at) > 0 && a.step != 1)) return 0;
    return kg_numel(g, at) * size;
}

/* Nothing is stored to where the LOAD is from until then. */
static bool cp_stays(const kx_plan *p, kn_ref load, uint32_t until) {
    kn_ref from = kx_root_of(p->g, kg_at(p->g, load, 0));
    for (uint32_t i = p->value[load].at; i < until; i++) {
        kn_ref x = p->list[i];
        if (kg_op(p->g, x) == KN_OP_STORE && kx_root_of(p->g, kg_at(p->g, x, 0)) == from) return false;
    }
    return true;
}

void kx_fold_copies(kx_plan *p) {
    const kn_graph *g = p->g;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], l = kg_op(g, x) == KN_OP_STORE ? kg_at(g, x, 1) : 0;
        if (!l || kg_op(g, l) != KN_OP_LOAD || !p->value[x].needed) continue;
        if (kg_op(g, kx_root_of(g, kg_at(g, x, 0))) != KN_OP_PARAM) continue; /* in LOCAL memory it may be a register */
        const kx_value *v  = &p->value[l];
        int             dt = kg_dtype(g, l);
        if (v->uses != 1 || !v->at || v->part || v->same || v->repeated || kx_rows_of(p, l) > 1) continue;
        if (dt == KN_BOOL || (!kx_is_lanes(g, l) && !kn_is_float(dt))) continue;
        if (p->loop_of[v->at - 1] != p->loop_of[i]) continue;
        int64_t bytes = cp_bytes(p, l);
        if (bytes < 2 || bytes > COPY_MAX || (bytes & (bytes - 1)) || cp_bytes(p, x) != bytes) continue;
        p->value[l].folded = cp_stays(p, l, i);
    }
}

bool kx_emit_copy(kx_writer *e, kn_ref store) {
    kn_ref l = kg_at(e->g, store, 1);
    if (kg_op(e->g, l) != KN_OP_LOAD || !e->p->value[l].folded) return false;
    int        bytes = (int)cp_bytes(e->p, store);
    kx_form_id form  = bytes == 2 ? KX_MOVZX16 : KX_MOV;
    kx_put(e, kx_at_place(e, kx_i2(form, KN_MAX(bytes, 4), KX_A, KX_IN_MEM), kg_at(e->g, l, 0)));
    kx_put(e, kx_at_place(e, kx_i2(KX_MOV_ST, bytes, KX_IN_MEM, KX_A), kg_at(e->g, store, 0)));
    return true;
}
