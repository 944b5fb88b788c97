/* cut_dense.c - inside Select of x86-64: values of half the widest's bytes that have twice the lanes.
 *
 * Takes: a kernel whose lanes are chosen, those of its widest values. Gives: c->dense. All that uses a dense value is
 * dense as well, or takes its registers apart: a CAST that widens, a REDUCE that folds lanes. All that a dense value is
 * made of is dense, or the same for all lanes, or what a CAST narrows. A CAST that has no form on lanes takes
 * elements. */
#include "target/x86/cut.h"

#include <string.h>

enum { DENSE_LEAST = 4 /* ops: fewer do not pay for what is joined and taken apart */ };

/* Has a form for twice the lanes, whatever its sources have. */
static bool cd_has_dense_form(const kx_cut *c, kn_ref n) {
    const kn_graph *g  = c->g;
    int             op = kg_op(g, n);
    kx_tile         s, d;
    kn_affine       f;
    kn_ref          at = kg_nsrc(g, n) ? kg_at(g, n, 0) : 0;
    switch (op) {
    case KN_OP_LOAD:
    case KN_OP_STORE:
        if (kx_is_register(g, at)) return c->dense[kg_storage(g, at)];
        return kg_nsrc(g, n) == 1 + (op == KN_OP_STORE) && kx_plain(g, kg_at(g, at, 1), &f);
    case KN_OP_EXPAND: return true;
    case KN_OP_REDUCE: return kx_has_form(c, n) && !kx_folds(c, n);
    case KN_OP_RESHAPE:
        kx_tile_of(c, at, &s);
        kx_tile_of(c, n, &d);
        return s.lanes == d.lanes && s.rows == d.rows;
    case KN_OP_RANGE: return kx_is_iota(g, n) && kg_field(g, n, KN_F_RANGE_axis) + 1 == kg_rank(g, n);
    case KN_OP_CAST: return true;
    default: return (kn_is_alu(op) || op == KN_OP_BITCAST) && kx_has_form(c, n);
    }
}

static int cd_dense_size(const kx_cut *c, int dt) { /* bytes */
    return 2 * c->lanes * kx_value_size(c, dt);
}

/* Could be computed with twice the lanes, of sources that are. */
static bool cd_could_be_dense(const kx_cut *c, kn_ref n, int bytes) {
    const kn_graph *g  = c->g;
    int             op = kg_op(g, n), dt = op == KN_OP_STORE ? kg_dtype(g, kg_at(g, n, 1)) : kg_dtype(g, n);
    kx_tile         t;
    if (!c->mark[n] || dt == KN_VOID || (dt == KN_INDEX && (c->index == KN_I64 || op == KN_OP_LOAD))) return false;
    if (!cd_has_dense_form(c, n)) return false;
    kx_tile_of(c, n, &t);
    if (t.lanes < 2 * c->lanes || cd_dense_size(c, dt) > bytes) return false;
    if (op == KN_OP_LOAD || op == KN_OP_CAST || op == KN_OP_RANGE) return true;
    uint32_t from = op == KN_OP_STORE, to = op == KN_OP_EXPAND || op == KN_OP_RESHAPE ? 1 : kg_nsrc(g, n);
    for (uint32_t k = from; k < to; k++) {
        kn_ref s = kg_at(g, n, k);
        kx_tile_of(c, s, &t);
        if (cd_dense_size(c, kg_dtype(g, s)) > bytes) return false; /* of one for all lanes too */
        if (kg_op(g, s) != KN_OP_CONST && t.lanes > 1 && !c->dense[s]) return false;
    }
    return true;
}

/* Takes registers of its source apart, whatever lanes they have. */
static bool cd_takes_apart(const kx_cut *c, kn_ref n) {
    int op = kg_op(c->g, n);
    return op == KN_OP_CAST || (op == KN_OP_REDUCE && kx_has_form(c, n) && kx_folds(c, n));
}

/* n is not dense: what it uses can't be either, but of what takes registers apart, or waits for their lanes. */
static void cd_keep_sparse(kx_cut *c, kn_ref n) {
    const kn_graph *g  = c->g;
    int             op = kg_op(g, n);
    if (op == KN_OP_AFTER || (kg_dtype(g, n) == KN_VOID && op != KN_OP_STORE) || cd_takes_apart(c, n)) return;
    if ((op == KN_OP_LOAD || op == KN_OP_STORE) && kx_is_register(g, kg_at(g, n, 0)))
        c->dense[kg_storage(g, kg_at(g, n, 0))] = 0; /* all that reach it, or none */
    for (uint32_t k = 0; k < kg_nsrc(g, n); k++)
        if (kg_op(g, kg_at(g, n, k)) != KN_OP_BUFFER) c->dense[kg_at(g, n, k)] = 0;
}

/* Values of half the bytes of those that the lanes are chosen for: where a CAST makes them of those, or those of them,
 * they would leave half of their registers empty. */
void kx_find_dense(kx_cut *c, const kn_ref *order, uint32_t n, int bytes) {
    const kn_graph *g   = c->g;
    int             ops = 0;
    bool            apart = false, more;
    for (uint32_t i = 0; i < n && !apart; i++) { /* most kernels have none */
        kn_ref x = order[i];
        apart    = kg_op(g, x) == KN_OP_CAST &&
                (cd_dense_size(c, kg_dtype(g, kg_at(g, x, 0))) <= bytes || cd_dense_size(c, kg_dtype(g, x)) <= bytes);
    }
    if (!apart) return;
    for (uint32_t i = 0; i < n; i++)
        c->dense[order[i]] = kg_op(g, order[i]) == KN_OP_BUFFER || cd_could_be_dense(c, order[i], bytes);
    do { /* all that uses one is one as well, or takes it apart: else its sources are none */
        more = false;
        for (uint32_t i = n; i-- > 0;)
            if (!c->dense[order[i]]) cd_keep_sparse(c, order[i]);
        for (uint32_t i = 0; i < n; i++) {
            kn_ref x = order[i];
            if (!c->dense[x] || kg_op(g, x) == KN_OP_BUFFER || cd_could_be_dense(c, x, bytes)) continue;
            c->dense[x] = 0, more = true;
        }
    } while (more);
    for (uint32_t i = 0; i < n; i++) {
        int op = kg_op(g, order[i]);
        if (op == KN_OP_BUFFER) c->dense[order[i]] = 0;
        if (!c->dense[order[i]] || !kn_is_alu(op) || op == KN_OP_CAST) continue;
        ops += !kn_takes_divider(op) ? 1 : c->whole ? DENSE_LEAST : 0; /* half of a unit takes half of the lanes */
    }
    if (ops < DENSE_LEAST) memset(c->dense, 0, c->size);
}
