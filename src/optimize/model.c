/* model.c - what is known of a kernel before any option: the sites of cost.c, and the buffers that they access.
 *
 * Takes: a kernel's SINK and its nest, as it stands before edits. Gives: for each site the origins that it moves with,
 * by how much, and what it computes or accesses. The graph is read once for all candidates. */
#include "optimize/model.h"

#include <string.h>

enum { MOST_PHASES = 16 }; /* the largest number that quotients and remainders are strides by */

int ko_op_weight(int op) {
    switch (op) {
    case KN_OP_RECIP: return 7;
    case KN_OP_DIV: case KN_OP_SQRT: return 14;
    case KN_OP_EXP2: case KN_OP_LOG2: return 24;
    case KN_OP_IDIV: case KN_OP_MOD: return 20;
    case KN_OP_THREEFRY: return 60;
    case KN_OP_POW: return 110;
    case KN_OP_SIN: return 130;
    case KN_OP_REDUCE: return 1;
    default: return kn_is_alu(op);
    }
}

int ko_op_code(int op) {
    return op == KN_OP_RECIP || op == KN_OP_DIV || op == KN_OP_SQRT ? 4 : ko_op_weight(op);
}

int64_t ko_reach(const kn_graph *g, const kn_affine *form, kn_ref range, int64_t count) {
    int64_t reach = 0;
    for (int t = 0; t < form->n; t++) {
        kn_ref  x = form->atom[t], of[2];
        int     op = kg_op(g, x);
        int64_t c = form->coef[t] < 0 ? -form->coef[t] : form->coef[t], steps = count - 1;
        if (!kg_depends(g, x, range)) continue;
        if (x != range) {
            bool part = op == KN_OP_IDIV || op == KN_OP_MOD;
            if (!part || kg_op(g, kg_at(g, x, 1)) != KN_OP_CONST || kg_ranges(g, x, of, 2) != 1) return INT64_MAX;
            steps = kg_max(g, x) - kg_min(g, x);
        }
        reach = kn_sat_add(reach, kn_sat_mul(c, steps));
    }
    return reach;
}

void ko_where_true(const kn_graph *g, const kn_origin *o, kn_ref x, int64_t *lo, int64_t *hi) {
    kn_affine        f[2];
    int64_t          most = 0, c = 0, sign = 1;
    if (!kg_depends(g, x, o->range)) return;
    for (int k = 0; k < 2; k++, sign = -1) { /* a - b at most */
        if (!kg_affine(g, kg_at(g, x, (uint32_t)k), &f[k])) {
            *hi = 0;
            return;
        }
        most = kn_sat_add(most, kn_sat_mul(sign, f[k].base));
        for (int t = 0; t < f[k].n; t++) {
            kn_ref  atom = f[k].atom[t];
            int64_t coef = kn_sat_mul(sign, f[k].coef[t]), other = coef < 0 ? kg_min(g, atom) : kg_max(g, atom);
            if (atom == o->range) c = kn_sat_add(c, coef);
            else if (kg_depends(g, atom, o->range)) *hi = 0;
            else most = kn_sat_add(most, kn_sat_mul(coef, other));
        }
    }
    if (!c) return;
    int64_t at = c > 0 ? kn_floor_div(kn_sat_add(kn_sat_mul(most, -1), -1), c) : kn_floor_div(most, kn_sat_mul(c, -1));
    at         = KN_MAX(KN_MIN(at, o->extent - 1), (int64_t)-1) + 1;
    *(c > 0 ? hi : lo) = c > 0 ? KN_MIN(*hi, at) : KN_MAX(*lo, at);
}

static uint64_t model_origins(const kn_graph *g, kn_ref n, const kn_nest *nest) {
    uint64_t set = 0;
    for (int o = 0; o < nest->norigin; o++)
        if (kg_depends(g, n, nest->origin[o].range)) set |= (uint64_t)1 << o;
    return set;
}

/* Outer ones come first, as in the nest. */
static void model_closers(kn_graph *g, const kn_nest *nest, ko_model *m) {
    kn_ref seen[KN_MAX_NEST];
    for (int o = 0; o < nest->norigin; o++) {
        kn_ref c = nest->origin[o].closer;
        int    i = 0;
        while (i < m->ncloser && seen[i] != c) i++;
        if (i == m->ncloser) {
            seen[i]  = c;
            m->in[i] = model_origins(g, c, nest);
            m->ncloser++;
        }
        m->own[i] |= (uint64_t)1 << o;
    }
}

static ko_site *model_site(ko_model *m, kn_graph *g, kn_ref n, const kn_nest *nest) {
    if (!KN_GROW(m->alloc, m->site, m->cap, (size_t)m->nsite + 1)) return NULL;
    ko_site *s = &m->site[m->nsite++];
    memset(s, 0, sizeof *s);
    s->base = -1;
    s->node = n;
    s->on   = model_origins(g, n, nest);
    s->size = KN_MAX(kn_dsize(kg_dtype(g, n)), 1); /* a tuple has no type */
    return s;
}

int64_t ko_period(const kn_graph *g, kn_ref x, kn_ref range, int64_t most) {
    kn_ref    of[2];
    kn_affine f;
    if (kg_op(g, x) != KN_OP_IDIV && kg_op(g, x) != KN_OP_MOD) return 0;
    if (kg_op(g, kg_at(g, x, 1)) != KN_OP_CONST || !kg_depends(g, x, range)) return 0;
    if (kg_ranges(g, x, of, 2) != 1 || !kg_affine(g, kg_at(g, x, 0), &f)) return 0;
    int64_t by = kg_const_int(g, kg_at(g, x, 1));
    if (f.n != 1 || (f.coef[0] != 1 && f.coef[0] != -1) || by < 2 || by > most) return 0;
    return by * f.coef[0];
}

/* What the form makes of the origin's number is quotients and remainders of it by one number. */
static bool moves_in_phases(const kn_graph *g, const kn_affine *form, kn_ref r, ko_site *s, int o) {
    int64_t by = 0, own = kn_affine_coef(form, r), whole = 0, within = own;
    for (int t = 0; t < form->n; t++) {
        kn_ref x = form->atom[t];
        if (x == r || !kg_depends(g, x, r)) continue;
        int64_t period = ko_period(g, x, r, MOST_PHASES);
        if (period <= 0 || (by && period != by)) return false;
        by            = period;
        int64_t *part = kg_op(g, x) == KN_OP_IDIV ? &whole : &within;
        *part         = kn_sat_add(*part, form->coef[t]);
    }
    whole = kn_sat_add(whole, kn_sat_mul(own, by));
    if (!by || s->nphase == KO_PHASES) return false;
    if (KN_MAX(whole, within) >= KO_JUMPS || KN_MIN(whole, within) <= -KO_JUMPS) return false;
    s->stride[o]          = (int32_t)(whole < 0 ? -whole : whole);
    s->phase[s->nphase++] = (ko_phase){o, (int32_t)by, (int32_t)(within < 0 ? -within : within)};
    return true;
}

/* What gates an access is a conjunction of comparisons. */
static void model_gate(const kn_graph *g, kn_ref gate, ko_site *s, const kn_nest *nest) {
    kn_ref part[16];
    int    n = kg_conjuncts(g, gate, part, KN_COUNT(part));
    if (n < 0) part[0] = gate, n = 1; /* too many to be told apart */
    for (int i = 0; i < n; i++) {
        uint64_t own = model_origins(g, part[i], nest);
        int      k   = 0;
        while (k < KO_LIMITS - 1 && s->limit[k] && s->limit[k] != own) k++;
        s->limit[k] |= own;
        s->gate |= own;
    }
}

static bool model_access(ko_model *m, kn_graph *g, kn_ref at, kn_ref whole, bool store, const kn_nest *nest) {
    ko_site  *s = model_site(m, g, whole, nest);
    kn_affine form;
    kn_ref    base = kg_at(g, at, 0);
    if (!s) return false;
    s->size = KN_MAX(kn_dsize(kg_dtype(g, at)), 1);
    while (kg_op(g, base) == KN_OP_AFTER) base = kg_at(g, base, 0);
    for (s->base = 0; s->base < m->nbase && m->base[s->base].node != base;) s->base++;
    if (s->base == m->nbase) {
        if (!KN_GROW(m->alloc, m->base, m->base_cap, (size_t)m->nbase + 1)) return false;
        int64_t slot        = kg_op(g, base) == KN_OP_PARAM ? kg_field(g, base, KN_F_PARAM_slot) : -1;
        m->base[m->nbase++] = (ko_base){base, (double)KN_MAX(kg_numel(g, base), 1) * s->size, slot, false, {0}};
    }
    s->store    = store;
    s->narrow   = s->size < 4 && (kn_is_float(kg_dtype(g, at)) || kg_dtype(g, at) == KN_BOOL);
    if (kg_nsrc(g, whole) == 3) model_gate(g, kg_at(g, whole, 2), s, nest);
    bool affine = kg_affine(g, kg_at(g, at, 1), &form);
    for (int o = 0; o < nest->norigin; o++) {
        kn_ref  r = nest->origin[o].range;
        int64_t c = affine ? kn_affine_coef(&form, r) : KO_JUMPS;
        if (!kg_depends(g, at, r)) c = 0;
        else if (!kg_depends(g, kg_at(g, at, 1), r)) c = 1; /* what was staged: each lane has its own */
        else if (!c) c = KO_JUMPS;
        for (int t = 0; affine && c && t < form.n; t++)
            if (form.atom[t] != r && kg_depends(g, form.atom[t], r)) c = KO_JUMPS;
        int64_t all = affine ? ko_reach(g, &form, r, nest->origin[o].extent) : KO_JUMPS;
        s->reach[o]  = (int32_t)KN_MIN(all, (int64_t)KO_JUMPS);
        if (c == KO_JUMPS && affine && moves_in_phases(g, &form, r, s, o)) continue;
        s->picks |= c == KO_JUMPS;
        if (c < -1) s->down |= (uint64_t)1 << o;
        s->stride[o] = (int32_t)(c < 0 ? KN_MIN(-c, (int64_t)KO_JUMPS) : KN_MIN(c, (int64_t)KO_JUMPS));
    }
    return true;
}

/* What a step of a fold does, and the widest of its values. */
static bool fold_step(kn_graph *g, kn_ref n, int *ops, int *size) {
    kn_fold_parts p;
    kn_ref       *order;
    uint32_t      count;
    if (!kg_is_fold(g, n) || !kg_fold_parts(g, kg_at(g, n, 0), &p)) return true;
    if (!kg_reach(g, &p.combine, 1, &order, &count)) return false;
    *ops = *size = 0;
    for (uint32_t i = 0; i < count; i++) *ops += ko_op_weight(kg_op(g, order[i]));
    for (int k = 0; k < p.n; k++) *size = KN_MAX(*size, kn_dsize(kg_dtype(g, p.element[k])));
    kn_free(kg_alloc(g), order, count * sizeof *order);
    return true;
}

/* Quotients and remainders by this number are shifts and masks. */
static bool model_shifts(const kn_graph *g, kn_ref by) {
    int64_t n = kg_op(g, by) == KN_OP_CONST && kn_is_int(kg_dtype(g, by)) ? kg_const_int(g, by) : 0;
    return n > 0 && !(n & (n - 1));
}

/* The greater or the less of floats is NaN where either is, which an instruction gives of the second alone. */
static bool model_sees_nan(const kn_graph *g, kn_ref n) {
    int op = kg_op(g, n), by = op == KN_OP_REDUCE ? (int)kg_field(g, n, KN_F_REDUCE_op) : op;
    if ((by != KN_OP_MAX && by != KN_OP_MIN) || !kn_is_float(kg_dtype(g, n))) return false;
    for (int k = 0; op != KN_OP_REDUCE && k < 2; k++)
        if (kg_op(g, kg_at(g, n, k)) == KN_OP_CONST || kg_op(g, kg_at(g, n, k)) == KN_OP_NEG) return false;
    return true;
}

/* f64 to a float of two bytes, by f32, whose last bit is set where something was lost (rules/decomp_narrow.c). */
static bool model_rounds_odd(const kn_graph *g, kn_ref n) {
    int dt = kg_dtype(g, n);
    return kg_op(g, n) == KN_OP_CAST && kg_dtype(g, kg_at(g, n, 0)) == KN_F64 && kn_is_float(dt) && kn_dsize(dt) == 2;
}

/* Floats to integers: NaN is 0, and what is out of bounds the bound, by some instructions of the float's lanes. */
static bool model_clamps(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_CAST && kn_is_int(kg_dtype(g, n)) && kn_is_float(kg_dtype(g, kg_at(g, n, 0)));
}

static bool model_node(ko_model *m, kn_graph *g, kn_ref n, const kn_nest *nest) {
    int op = kg_op(g, n);
    if (op == KN_OP_STORE || op == KN_OP_LOAD) {
        kn_ref at = kg_at(g, n, 0);
        if (kg_op(g, at) != KN_OP_INDEX || kg_nsrc(g, at) < 2) return true;
        return model_access(m, g, at, n, op == KN_OP_STORE, nest);
    }
    int ops = kg_dtype(g, n) == KN_INDEX ? 0 : ko_op_weight(op), size = kn_dsize(kg_dtype(g, n));
    if (!ops) return true;
    if ((op == KN_OP_IDIV || op == KN_OP_MOD) && model_shifts(g, kg_at(g, n, 1))) ops = 1;
    if (model_sees_nan(g, n)) ops = 3;
    if (model_rounds_odd(g, n)) ops = 12, size = 8;
    if (model_clamps(g, n)) ops = 6, size = KN_MAX(size, kn_dsize(kg_dtype(g, kg_at(g, n, 0))));
    if (!fold_step(g, n, &ops, &size)) return false;
    kn_ref   in = op == KN_OP_REDUCE ? kg_at(g, n, 0) : n;
    ko_site *s  = model_site(m, g, in, nest);
    if (!s) return false;
    s->ops   = ops;
    s->size  = size;
    s->chain = op == KN_OP_REDUCE;
    s->sum   = s->chain ? n : 0;
    s->quick = s->chain && kn_is_int(kg_dtype(g, n)) && kg_field(g, n, KN_F_REDUCE_op) != KN_OP_MUL;
    s->fma   = s->chain && kg_op(g, in) == KN_OP_MUL && kg_field(g, n, KN_F_REDUCE_op) == KN_OP_ADD;
    bool flags = s->chain && kg_op(g, in) == KN_OP_CAST && kg_dtype(g, kg_at(g, in, 0)) == KN_BOOL; /* are counted */
    for (int k = 0; (s->fma || flags) && k < m->nsite - 1; k++)
        if (m->site[k].node == in) m->site[k].ops = 0;
    for (uint32_t k = 1; s->chain && k < kg_nsrc(g, n); k++) /* its loops, whether the value moves with them or not */
        for (int o = 0; o < nest->norigin; o++)
            if (nest->origin[o].range == kg_at(g, n, k)) s->on |= (uint64_t)1 << o;
    return true;
}

/* ---- what is asked for in some numbers alone ----------------------------------------------------------------- */

static const ko_where everywhere = {.origin = -1};

static ko_where part_of_both(ko_where a, ko_where b) {
    if (a.origin >= 0 && a.from >= a.to) return b;
    if (b.origin >= 0 && b.from >= b.to) return a;
    if (a.origin != b.origin || a.origin < 0) return everywhere;
    return (ko_where){a.origin, KN_MIN(a.from, b.from), KN_MAX(a.to, b.to)};
}

/* Of its origin's numbers. */
static double part_share(const kn_nest *nest, ko_where p) {
    return (double)KN_MAX(p.to - p.from, (int64_t)0) / (double)KN_MAX(nest->origin[p.origin].extent, (int64_t)1);
}

/* Of two origins the one of which it is less: a part has one. */
static ko_where part_within(const kn_nest *nest, ko_where a, ko_where b) {
    if (b.origin < 0) return a;
    if (a.origin < 0) return b;
    if (a.origin != b.origin) return part_share(nest, b) < part_share(nest, a) ? b : a;
    return (ko_where){a.origin, KN_MAX(a.from, b.from), KN_MIN(a.to, b.to)};
}

/* Where a comparison of one origin's number alone holds. */
static ko_where part_of_leaf(const kn_graph *g, const kn_nest *nest, kn_ref x) {
    kn_ref of[2];
    if (kg_op(g, x) != KN_OP_CMPLT || kg_dtype(g, kg_at(g, x, 0)) != KN_INDEX || kg_ranges(g, x, of, 2) != 1)
        return everywhere;
    for (int o = 0; o < nest->norigin; o++) {
        if (nest->origin[o].range != of[0]) continue;
        ko_where p = {o, 0, nest->origin[o].extent};
        ko_where_true(g, &nest->origin[o], x, &p.from, &p.to);
        return p.from < p.to ? p : everywhere;
    }
    return everywhere;
}

/* Where the condition may hold: comparisons that all have to. */
static ko_where part_of_condition(const kn_graph *g, const kn_nest *nest, kn_ref x) {
    ko_where part = everywhere;
    kn_ref  wait[16];
    int     n = 0;
    for (wait[n++] = x; n > 0;) {
        x = wait[--n];
        if (kg_op(g, x) == KN_OP_AND && n + 2 <= KN_COUNT(wait)) wait[n++] = kg_at(g, x, 0), wait[n++] = kg_at(g, x, 1);
        else part = part_within(nest, part, part_of_leaf(g, nest, x));
    }
    return part;
}

/* Where it does not, if that is one comparison. */
static ko_where part_without(const kn_graph *g, const kn_nest *nest, kn_ref x) {
    ko_where part = part_of_leaf(g, nest, x);
    if (part.origin < 0) return part;
    int64_t extent = nest->origin[part.origin].extent;
    if (part.from == 0) return part.to < extent ? (ko_where){part.origin, part.to, extent} : everywhere;
    return part.to == extent ? (ko_where){part.origin, 0, part.from} : everywhere;
}

/* The condition behind which the node, or what it picks, stands; 0: none. */
static kn_ref condition_of(const kn_graph *g, kn_ref n) {
    int op = kg_op(g, n);
    if (op == KN_OP_WHERE) return kg_at(g, n, 0);
    return (op == KN_OP_LOAD || op == KN_OP_STORE) && kg_nsrc(g, n) == 3 ? kg_at(g, n, 2) : 0;
}

/* Where the node is no number that is known when the kernel is compiled, by where those are that it is made of. */
static ko_where part_unknown(const kn_graph *g, const kn_nest *nest, kn_ref x, const ko_where *part) {
    static const ko_where nowhere = {0};
    int      op = kg_op(g, x);
    kn_ref   c  = condition_of(g, x);
    ko_where all = nowhere;
    if (op == KN_OP_CONST) return nowhere;
    if (op == KN_OP_WHERE)
        return part_of_both(part_within(nest, part[kg_at(g, x, 1)], part_of_condition(g, nest, c)),
                            part_within(nest, part[kg_at(g, x, 2)], part_without(g, nest, c)));
    if (op == KN_OP_LOAD && c) return part_of_both(part[kg_at(g, x, 1)], part_of_condition(g, nest, c));
    if (!kn_is_alu(op) && op != KN_OP_CAST) return everywhere;
    for (uint32_t k = 0; k < kg_nsrc(g, x); k++) all = part_of_both(all, part[kg_at(g, x, k)]);
    return all;
}

/* Of each site, where it is asked for, by what all that has a use for it asks for, and is not known. */
static bool model_parts(ko_model *m, const kn_graph *g, const kn_nest *nest, const kn_ref *order, uint32_t n) {
    bool any = false;
    for (uint32_t i = 0; i < n && !any; i++) {
        kn_ref c = condition_of(g, order[i]);
        any      = c && part_of_condition(g, nest, c).origin >= 0;
    }
    for (int i = 0; i < m->nsite; i++) m->site[i].part = everywhere;
    if (!any) return true;
    size_t   size = (size_t)order[n - 1] + 1; /* the SINK, which all others stand before */
    ko_where *part = kn_zalloc(m->alloc, size * sizeof *part);
    if (!part) return false;
    for (uint32_t i = 0; i < n; i++) part[order[i]] = part_unknown(g, nest, order[i], part);
    for (int i = 0; i < m->nsite; i++)
        if (m->site[i].ops) m->site[i].part = part[m->site[i].node];
    memset(part, 0, size * sizeof *part); /* nowhere */
    part[order[n - 1]] = everywhere;
    for (uint32_t i = n; i-- > 0;) {
        kn_ref  x = order[i], c = condition_of(g, x);
        int     op = kg_op(g, x);
        ko_where yes = everywhere;
        if (c) yes = part_of_condition(g, nest, c);
        if (op != KN_OP_WHERE) part[x] = part_within(nest, part[x], yes);
        for (uint32_t k = 0; k < kg_nsrc(g, x); k++) {
            ko_where asked = part[x];
            if (op == KN_OP_WHERE && k) asked = part_within(nest, asked, k == 1 ? yes : part_without(g, nest, c));
            part[kg_at(g, x, k)] = part_of_both(part[kg_at(g, x, k)], asked);
        }
    }
    for (int i = 0; i < m->nsite; i++)
        m->site[i].part = part_within(nest, part[m->site[i].node], m->site[i].part);
    kn_free(m->alloc, part, size * sizeof *part);
    return true;
}

ko_model *ko_model_new(kn_graph *g, kn_ref sink, const kn_nest *nest, kn_fault *f) {
    kn_ref   *order;
    uint32_t  n;
    ko_model *m = kn_zalloc(kg_alloc(g), sizeof *m);
    if (!m || !kg_reach(g, &sink, 1, &order, &n)) {
        kn_free(kg_alloc(g), m, sizeof *m);
        return kn_oom(f), NULL;
    }
    bool ok  = true;
    m->alloc = kg_alloc(g);
    model_closers(g, nest, m);
    for (uint32_t i = 0; i < n && ok; i++) ok = model_node(m, g, order[i], nest);
    ok = ok && model_parts(m, g, nest, order, n);
    kn_free(m->alloc, order, n * sizeof *order);
    if (ok) return m;
    ko_model_free(m);
    return kn_oom(f), NULL;
}

void ko_model_free(ko_model *m) {
    if (!m) return;
    kn_free(m->alloc, m->site, m->cap * sizeof *m->site);
    kn_free(m->alloc, m->base, m->base_cap * sizeof *m->base);
    kn_free(m->alloc, m, sizeof *m);
}
