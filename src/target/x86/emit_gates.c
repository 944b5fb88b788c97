/* emit_gates.c - Render of x86-64: what scalar gates leave out.
 *
 * A jump leaves out a gated LOAD, whose value without it is made first, and the LOADs of the same gate behind it. Where
 * the gate is seldom false it goes to where those values are made, behind the function, and back. Where what it reads
 * only goes on to a STORE of the same gate, as in sums by place, the jump leaves out all of that, and a comparison that
 * is nothing but their gate stays in the flags. */
#include "target/x86/emit.h"

enum { EG_SPAN = 24, EG_VALUES = 12 };

/* Jumps past what follows where the gate, a scalar, is false. */
void kx_test_gate(kx_writer *e, kn_ref gate, int32_t past) {
    if (e->flags == gate) {
        e->flags = 0;
        kx_jcc(e, (kx_cond)(e->cond ^ 1), past);
        return;
    }
    bool  both = e->p->value[gate].folded; /* an AND */
    kx_rm rm   = kx_gp_rm(e, both ? kg_at(e->g, gate, 0) : gate, KX_A);
    if (both) {
        int other = kx_gp(e, kg_at(e->g, gate, 1), KX_D);
        kx_put(e, kx_with(kx_i2(KX_TEST, 4, rm.mem ? KX_IN_MEM : rm.reg, other), &rm));
    } else if (rm.mem)
        kx_put(e, kx_with(kx_imm(kx_i2(KX_CMPI, 8, KX_IN_MEM, 0), 0), &rm));
    else
        kx_put(e, kx_i2(KX_TEST, 4, rm.reg, rm.reg));
    kx_jcc(e, KXCC_E, past);
}

static bool eg_is_moved(const kx_writer *e, uint32_t at) {
    return e->moves < e->p->nmove && e->p->move[e->moves].at <= at;
}

/* Scalars, computed or read under no other gate, or the STORE under this one. */
static bool eg_may_be_left_out(const kx_writer *e, kn_ref x, kn_ref gate) {
    const kn_graph *g  = e->g;
    int             op = kg_op(g, x);
    if (kx_is_lanes(g, x) || e->p->value[x].step || e->p->value[x].part) return false;
    if (op == KN_OP_INS || op == KN_OP_BITCAST) return true;
    if (op != KN_OP_LOAD && op != KN_OP_STORE) return false;
    kn_ref at = kg_at(g, x, 0);
    if (kx_is_cell(g, at) || kg_rank(g, at) > 0 || kg_space(g, at) != KN_GLOBAL) return false;
    return op == KN_OP_STORE ? kg_nsrc(g, x) == 3 && kg_at(g, x, 2) == gate
                             : kg_nsrc(g, x) < 3 || kg_at(g, x, 2) == gate;
}

/* The place of the STORE that takes all that comes of the gated LOAD at `at`, and has the same gate; 0: there is none.
 * *gates: how many have it as theirs, and do not compute with it. */
static uint32_t eg_ends(const kx_writer *e, uint32_t at, uint32_t *gates) {
    const kx_plan *p    = e->p;
    kn_ref         gate = kg_at(e->g, p->list[at], 2), in[EG_VALUES], o[KX_MAX_OPERANDS];
    uint32_t       left[EG_VALUES], same = 0;
    int            n = 0;
    for (uint32_t i = at; i < p->n && i < at + EG_SPAN && p->loop_of[at] >= 0; i++) {
        kn_ref          x = p->list[i];
        const kx_value *v = &p->value[x];
        if (!v->needed || v->folded) continue;
        bool store = kg_op(e->g, x) == KN_OP_STORE, gated = store || kg_op(e->g, x) == KN_OP_LOAD;
        if (p->loop_of[i] != p->loop_of[at] || eg_is_moved(e, i) || !eg_may_be_left_out(e, x, gate)) return 0;
        int m = kx_operands(p, x, o);
        for (int k = 0; k < m; k++) {
            for (int j = 0; j < n; j++) left[j] -= in[j] == o[k];
            same += gated && o[k] == gate;
        }
        for (int j = 0; j < n && store; j++)
            if (left[j]) return 0;
        if (store && gates) *gates = same;
        if (store) return i;
        if (n == EG_VALUES) return 0;
        in[n]     = x;
        left[n++] = v->uses;
    }
    return 0;
}

/* A LOAD of nothing but general registers and a constant, the first of which stands at `from` in the list: what is set
 * up for it may be so before the loads ahead of it, which do not read its register. */
static bool eg_stands_ahead(const kx_writer *e, uint32_t from, uint32_t at) {
    const kn_graph *g = e->g;
    kn_ref          n = e->p->list[at], o[KX_MAX_OPERANDS];
    const kx_value *v = &e->p->value[n];
    kx_spot         a;
    if (kg_op(g, n) != KN_OP_LOAD || kg_nsrc(g, n) < 3 || kg_op(g, kg_at(g, n, 1)) != KN_OP_CONST) return false;
    if (!v->needed || v->folded || v->part || v->same || v->bank == KX_BANK_MASK || v->reg < 0) return false;
    for (uint32_t i = from; i < at && v->bank == KX_BANK_GP; i++)
        for (int k = kx_operands(e->p, e->p->list[i], o); k-- > 0;)
            if (e->p->value[o[k]].bank == KX_BANK_GP && e->p->value[o[k]].reg == v->reg) return false;
    kx_address_of(g, kg_at(g, n, 0), &a);
    return !a.places && !kx_is_lanes(g, kg_at(g, n, 2));
}

/* A LOAD of that gate is made again, where flags are long gone. */
static bool eg_is_asked_again(const kx_writer *e, kn_ref gate) {
    for (size_t k = 0; k < e->p->nmove; k++) {
        kn_ref x = e->p->move[k].value;
        if (e->p->move[k].way != KX_AGAIN || kg_op(e->g, x) != KN_OP_LOAD || kg_nsrc(e->g, x) != 3) continue;
        if (kg_at(e->g, x, 2) == gate) return true;
    }
    return false;
}

bool kx_is_gate_alone(const kx_writer *e, kn_ref n) {
    const kx_plan *p = e->p;
    uint32_t       at = e->at + 1, gates;
    if (p->list[e->at] != n) return false; /* made again */
    if (eg_is_asked_again(e, n)) return false;
    while (at < p->n && (!p->value[p->list[at]].needed || p->value[p->list[at]].folded)) at++;
    if (at == p->n || eg_is_moved(e, at)) return false;
    kn_ref x = p->list[at];
    if (kx_copied_under(p, x) == n) return p->loop_of[at] >= 0; /* else it is asked first who stores */
    if (kg_op(e->g, x) != KN_OP_LOAD || kg_nsrc(e->g, x) != 3 || kg_at(e->g, x, 2) != n) return false;
    if (eg_ends(e, at, &gates)) return gates == p->value[n].uses;
    if (p->value[n].uses == 1) return kg_op(e->g, kg_at(e->g, x, 1)) == KN_OP_CONST; /* made without a flag changed */
    uint32_t to = at; /* or of LOADs one behind the other, for all of which it is tested once */
    for (; to < p->n && eg_stands_ahead(e, at, to) && kg_at(e->g, p->list[to], 2) == n; to++)
        if (eg_is_moved(e, to)) break;
    return to - at == p->value[n].uses;
}

/* The gate asks for what was read, as that a number lies within a table, which nearly all do; those of edges are the
 * same for many a round, and false for many. */
bool kx_asks_for_read(const kn_graph *g, kn_ref gate) {
    for (int k = 0; k < EG_SPAN && kg_op(g, gate) != KN_OP_LOAD; k++) {
        uint32_t n = kg_nsrc(g, gate);
        if (!n || kg_op(g, gate) == KN_OP_RANGE) return false;
        gate = kg_at(g, gate, n > 1 && kg_op(g, kg_at(g, gate, 0)) == KN_OP_CONST ? 1 : 0);
    }
    return kg_op(g, gate) == KN_OP_LOAD && kg_space(g, kg_at(g, gate, 0)) == KN_GLOBAL;
}

static void eg_add_detour(kx_writer *e, kx_detour a) {
    if (KN_GROW(kg_alloc(e->g), e->detour, e->detour_cap, e->ndetour + 1))
        e->detour[e->ndetour++] = a;
    else
        kn_oom(e->f);
}

int32_t kx_take_detour(kx_writer *e, kn_ref copied, int reg, int32_t past) {
    int32_t label = kx_label(&e->code);
    eg_add_detour(e, (kx_detour){copied, reg, label, past});
    return label;
}

/* What n is without its gate is made: here, or on a detour, which begins at `label` (0: with the one before it). */
static void eg_set_to(kx_writer *e, kn_ref n, bool detour, int32_t label) {
    int d = kx_dst(e, n);
    if (detour)
        eg_add_detour(e, (kx_detour){n, d, label, e->past});
    else
        kx_set_to(e, n, kg_at(e->g, n, 1), d);
}

/* Starts to leave out n where its gate is false, with all that goes on to a STORE; else with the LOADs behind it that
 * have the same gate. */
void kx_open_gate(kx_writer *e, kn_ref n) {
    const kn_graph *g    = e->g;
    kn_ref          gate = kg_at(g, n, 2);
    uint32_t        at   = e->at + 1;
    bool            here = e->p->list[e->at] == n; /* not made again for another */
    uint32_t        end  = here && !kx_is_lanes(g, gate) ? eg_ends(e, e->at, NULL) : 0;
    e->past              = kx_label(&e->code);
    if (end) {
        e->under = e->p->list[end];
        kx_test_gate(e, gate, e->past);
        return;
    }
    bool    detour = kg_op(g, kg_at(g, n, 1)) == KN_OP_CONST && kx_asks_for_read(g, gate);
    int32_t label  = detour ? kx_label(&e->code) : e->past;
    eg_set_to(e, n, detour, label);
    e->under = n;
    here = here && eg_stands_ahead(e, e->at, e->at);
    for (; here && at < e->p->n && eg_stands_ahead(e, e->at, at); at++) {
        if (eg_is_moved(e, at) || kg_at(g, e->p->list[at], 2) != gate) break;
        e->under = e->p->list[at];
        eg_set_to(e, e->under, detour, 0);
    }
    kx_test_gate(e, gate, label);
}

void kx_close_gate(kx_writer *e, kn_ref n) {
    if (e->under != n) return;
    kx_here(e, e->past);
    e->under = 0;
}

void kx_emit_detours(kx_writer *e) {
    kx_pace pace = e->pace; /* few take this way */
    for (size_t i = 0; i < e->ndetour; i++) {
        const kx_detour *a = &e->detour[i];
        if (a->label) kx_here(e, a->label);
        if (e->p->value[a->load].folded) /* into its STORE: it is 0, in a general register */
            kx_put(e, kx_mov_const(a->reg, 0));
        else
            kx_set_to(e, a->load, kg_at(e->g, a->load, 1), a->reg);
        if (i + 1 == e->ndetour || a[1].label) kx_jump(e, a->past);
    }
    e->pace = pace;
}
