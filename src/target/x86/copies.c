/* copies.c - of x86-64: what is loaded to be stored again goes through a general register.
 *
 * Two, four or eight bytes, as pieces of short rows are, take a vector register as any lanes do; but some processors
 * store from general registers twice as often. Takes a plan whose values have no registers yet, and whose other folds
 * are made; such a LOAD stands in its STORE then, and takes no register of the plan's. Writes both: of copies that
 * follow one another as many as there are registers for scratch are read before any of them is written. Where its gate
 * is false a LOAD is 0 here, which is made on a detour. */
#include "target/x86/emit.h"
#include "target/x86/plan.h"

enum { COPY_MAX = 8 };

/* The gate of a LOAD; 0: it has none. */
static kn_ref cp_gate(const kn_graph *g, kn_ref load) {
    return kg_nsrc(g, load) == 3 ? kg_at(g, load, 2) : 0;
}

/* A jump leaves the LOAD out, and few take it; what is read then is 0, to the last bit. */
static bool cp_gate_is_plain(const kx_plan *p, kn_ref load) {
    const kn_graph *g    = p->g;
    kn_ref          gate = cp_gate(g, load), alt = gate ? kg_at(g, load, 1) : 0;
    if (!gate) return true;
    if (kx_is_lanes(g, gate) || p->value[gate].uses > 1 || !kx_asks_for_read(g, gate)) return false;
    int size;
    return kg_op(g, alt) == KN_OP_CONST && !kx_lane_bits(p, alt, &size);
}

/* Bytes of n, a LOAD or a STORE, that follow one another where it says; 0: they do not, or not plainly. */
static int64_t cp_bytes(const kx_plan *p, kn_ref n) {
    const kn_graph *g  = p->g;
    kn_ref          at = kg_at(g, n, 0);
    kx_spot         a;
    int             size = kn_dsize(kg_dtype(g, at));
    if ((kg_op(g, n) == KN_OP_STORE && kg_nsrc(g, n) != 2) || kx_is_cell(g, at)) return 0;
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
        if (!cp_gate_is_plain(p, l)) continue;
        int64_t bytes = cp_bytes(p, l);
        if (bytes < 2 || bytes > COPY_MAX || (bytes & (bytes - 1)) || cp_bytes(p, x) != bytes) continue;
        p->value[l].folded = cp_stays(p, l, i);
    }
}

/* The STORE has what it stores from a LOAD that stands in it. */
static bool cp_is_copy(const kx_plan *p, kn_ref store) {
    kn_ref l = kg_at(p->g, store, 1);
    return kg_op(p->g, l) == KN_OP_LOAD && p->value[l].folded;
}

/* A register, none of those for scratch, has n. */
static bool cp_is_held(const kx_plan *p, kn_ref n) {
    int reg = p->value[n].reg;
    return reg >= 0 && reg != KX_A && reg != KX_D && reg != KX_C;
}

/* So it is with what a place is made of. */
static bool cp_in_registers(const kx_plan *p, kn_ref place) {
    kx_spot a;
    kx_address_of(p->g, place, &a);
    kn_ref from = p->value[a.storage].pointer;
    return cp_is_held(p, a.storage) && (!a.off || cp_is_held(p, a.off)) && (!from || cp_is_held(p, from));
}

/* In that loop rcx and rdx are for scratch: no value has one of them, its own or lent to it. */
static bool cp_has_scratch(const kx_plan *p, int loop) {
    const uint32_t both = 1u << KX_C | 1u << KX_D;
    if (loop < 0 || p->loop[loop].shares[KX_BANK_GP]) return false;
    for (uint32_t i = p->loop[loop].open; i <= p->loop[loop].close && p->used[KX_BANK_GP] & both; i++) {
        const kx_value *v = &p->value[p->list[i]];
        if (v->bank == KX_BANK_GP && v->reg >= 0 && both >> v->reg & 1) return false;
    }
    for (size_t k = 0; k < p->nsplit; k++) {
        const kx_split *s  = &p->split[k];
        bool            gp = !s->table && p->value[s->value].bank == KX_BANK_GP;
        if (gp && (s->reg == KX_C || s->reg == KX_D) && kx_within(p, loop, s->loop)) return false;
    }
    return true;
}

/* The copies from the one in hand on, up to `most`, that can all be read before any is written. */
static int cp_together(const kx_writer *e, kn_ref *store, int most, uint32_t *last) {
    const kx_plan *p = e->p;
    int            n = 0;
    if (!cp_has_scratch(p, p->loop_of[e->at])) most = 1;
    for (uint32_t j = e->at; j < p->n && n < most; j++) {
        kn_ref x = p->list[j];
        if (j > e->at && e->moves < p->nmove && p->move[e->moves].at <= j) break;
        if (j > e->at && kx_is_silent(p, x)) continue;
        if (kg_op(p->g, x) != KN_OP_STORE || kg_nsrc(p->g, x) != 2 || !cp_is_copy(p, x)) break;
        kn_ref from = kg_at(p->g, kg_at(p->g, x, 1), 0);
        bool   free = cp_in_registers(p, from) && cp_in_registers(p, kg_at(p->g, x, 0));
        free &= !cp_gate(p->g, kg_at(p->g, x, 1)); /* a gated one is alone */
        for (int k = 0; k < n && free; k++)
            free = kx_root_of(p->g, from) != kx_root_of(p->g, kg_at(p->g, store[k], 0));
        if (!free && n) break;
        store[n++] = x;
        *last      = j;
        if (!free) break;
    }
    return n;
}

kn_ref kx_copied_under(const kx_plan *p, kn_ref store) {
    return kg_op(p->g, store) == KN_OP_STORE && cp_is_copy(p, store) ? cp_gate(p->g, kg_at(p->g, store, 1)) : 0;
}

/* `reg`, for scratch, has what a LOAD reads. */
static void cp_read(kx_writer *e, kn_ref load, int bytes, int reg) {
    kn_ref  gate = cp_gate(e->g, load);
    int32_t past = gate ? kx_label(&e->code) : 0;
    if (gate) kx_test_gate(e, gate, kx_take_detour(e, load, reg, past));
    kx_put(e, kx_at_place(e, kx_i2(bytes == 2 ? KX_MOVZX16 : KX_MOV, KN_MAX(bytes, 4), reg, KX_IN_MEM),
                          kg_at(e->g, load, 0)));
    if (gate) kx_here(e, past);
}

bool kx_emit_copy(kx_writer *e, kn_ref store) {
    static const int scratch[] = {KX_A, KX_D, KX_C};
    kn_ref           of[KN_COUNT(scratch)];
    if (!cp_is_copy(e->p, store)) return false;
    if (e->copied > e->at) return true;
    uint32_t last = e->at;
    int      n    = cp_together(e, of, KN_COUNT(of), &last);
    for (int k = 0; k < n; k++) cp_read(e, kg_at(e->g, of[k], 1), (int)cp_bytes(e->p, of[k]), scratch[k]);
    for (int k = 0; k < n; k++) {
        kx_ins put = kx_i2(KX_MOV_ST, (int)cp_bytes(e->p, of[k]), KX_IN_MEM, scratch[k]);
        kx_put(e, kx_at_place(e, put, kg_at(e->g, of[k], 0)));
    }
    e->copied = last + 1;
    return true;
}
