/* logic.c - of x86-64: bits of two or three values by one instruction (VPTERNLOG).
 *
 * Takes a plan whose values have no registers yet, and whose other folds are made: an AND, OR, XOR or NOT of lanes
 * stands in its one user, if that is another one, soon behind it, and both have no more than three values to read. The
 * instruction's result of each bit is a table of eight, by the bits of its destination, its second source and the
 * third, which may be memory. */
#include "target/x86/emit.h"
#include "target/x86/plan.h"

enum {
    LG_ROLES = 3, /* the destination, and two sources */
    LG_NEAR  = 6  /* places from one to its user: what it reads keeps its registers until there */
};
static const uint8_t lg_role_bits[LG_ROLES] = {0xf0, 0xcc, 0xaa};

static bool lg_is_logic(const kx_plan *p, kn_ref n) {
    const kn_graph *g = p->g;
    int             op, dt = kg_dtype(g, n);
    if (kg_op(g, n) != KN_OP_INS || !kx_is_lanes(g, n) || !kn_is_int(dt) || dt == KN_BOOL) return false;
    if (p->value[n].turned || p->value[n].step || p->value[n].same) return false;
    op = kx_op(g, n);
    return op == KN_OP_AND || op == KN_OP_OR || op == KN_OP_XOR || op == KN_OP_NOT;
}

/* It stands in n, which is logic as well. */
static bool lg_inside(const kx_plan *p, kn_ref s) {
    return kg_op(p->g, s) == KN_OP_INS && p->value[s].logic && p->value[s].folded;
}

static uint8_t lg_of(int op, uint8_t a, uint8_t b) {
    return (uint8_t)(op == KN_OP_AND ? a & b : op == KN_OP_OR ? a | b : op == KN_OP_XOR ? a ^ b : ~a);
}

/* What n reads, each once; LG_ROLES + 1: more than an instruction does. */
static int lg_leaves(const kx_plan *p, kn_ref n, kn_ref leaf[LG_ROLES]) {
    const kn_graph *g = p->g;
    int             m = 0;
    for (uint32_t k = 0; k < kg_nsrc(g, n); k++) {
        kn_ref s = kg_at(g, n, k);
        bool   in = lg_inside(p, s);
        for (uint32_t j = 0; j < (in ? kg_nsrc(g, s) : 1); j++) {
            kn_ref x = in ? kg_at(g, s, j) : s;
            int    at = 0;
            while (at < m && leaf[at] != x) at++;
            if (at < m) continue;
            if (m == LG_ROLES) return LG_ROLES + 1;
            leaf[m++] = x;
        }
    }
    return m;
}

/* n's bits by those of the roles. */
static uint8_t lg_table(const kx_plan *p, kn_ref n, const kn_ref role[LG_ROLES]) {
    const kn_graph *g = p->g;
    uint8_t         by[2] = {0};
    for (uint32_t k = 0; k < kg_nsrc(g, n); k++) {
        kn_ref  s = kg_at(g, n, k);
        bool    in = lg_inside(p, s);
        uint8_t own[2] = {0};
        for (uint32_t j = 0; j < (in ? kg_nsrc(g, s) : 1); j++) {
            int r = 0;
            while (role[r] != (in ? kg_at(g, s, j) : s)) r++;
            own[j] = lg_role_bits[r];
        }
        by[k] = in ? lg_of(kx_op(g, s), own[0], own[1]) : own[0];
    }
    return lg_of(kx_op(g, n), by[0], by[1]);
}

void kx_fold_logic(kx_plan *p) {
    const kn_graph *g = p->g;
    for (uint32_t i = 0; i < p->n && p->avx512; i++) {
        kn_ref n = p->list[i], leaf[LG_ROLES];
        if (!p->value[n].needed || p->value[n].folded || !lg_is_logic(p, n)) continue;
        for (uint32_t k = 0; k < kg_nsrc(g, n); k++) {
            kn_ref    s = kg_at(g, n, k);
            kx_value *v = &p->value[s];
            if (v->uses != 1 || v->folded || !v->at || !lg_is_logic(p, s) || v->logic) continue;
            if (p->loop_of[v->at - 1] != p->loop_of[i] || i + 1 - v->at > LG_NEAR) continue;
            v->folded = v->logic = true;
            bool fits            = lg_leaves(p, n, leaf) <= LG_ROLES;
            v->folded = v->logic = fits;
            p->value[n].logic |= fits;
        }
    }
}

static int lg_register(const kx_writer *e, kn_ref n) {
    bool none = kg_op(e->g, n) != KN_OP_CONST && e->p->value[n].folded;
    return none ? -1 : e->p->value[kx_name(e->p, n)].reg;
}

/* A source that is in the destination's register already goes there, else one that is in a register at all; what is
 * memory comes third. */
void kx_put_logic(kx_writer *e, kn_ref n, int bytes) {
    kn_ref leaf[LG_ROLES], role[LG_ROLES];
    int    m = lg_leaves(e->p, n, leaf), d = kx_dst(e, n), to = 0, third = -1, second = -1, size;
    for (int k = m; k-- > 0;)
        if (lg_register(e, leaf[k]) >= 0 && lg_register(e, leaf[to]) != d) to = k;
    for (int k = 0; k < m; k++) {
        if (k == to) continue;
        int *which = third < 0 ? &third : &second;
        *which     = k;
        if (second >= 0 && lg_register(e, leaf[third]) >= 0) second = third, third = k;
    }
    role[0] = leaf[to];
    role[1] = second < 0 ? leaf[to] : leaf[second];
    role[2] = third < 0 ? leaf[to] : leaf[third];
    size    = kn_dsize(kg_dtype(e->g, n));
    int a   = kx_get(e, role[0], bytes, d, n);
    int b   = second < 0 ? d : kx_get(e, role[1], bytes, e->v2, n);
    kx_rm c = kx_vec_rm(e, role[2], bytes, size >= 4, n);
    kx_move_vec(e, d, a, bytes);
    kx_ins i = kx_i4(size == 8 ? KX_VPTERNLOGQ : KX_VPTERNLOGD, bytes, d, b, c.mem ? KX_IN_MEM : c.reg, 0);
    kx_put(e, kx_with(kx_imm(i, lg_table(e->p, n, role)), &c));
    kx_done(e, n, d);
}
