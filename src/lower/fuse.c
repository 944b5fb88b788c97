/* fuse.c - kernel boundaries by cost.
 *
 * Walks the program from results to inputs. When a node is reached, every demand for it is known as a use (group,
 * indices, gate). A node is computed in place for each of its uses (inline), in LOCAL memory inside loops that all its
 * uses share (stage), or written once to storage by one group (root) and loaded by the others. Roots are: what the
 * program stores; LOADs into GLOBAL (contiguous); and values for which writing and reading back costs less than
 * computing them again, or one by one where rows have them in common. But for the last, a root joins the group of a
 * user that walks it element by element along its outermost loops, when that makes no cycle: several outputs, one
 * kernel. At the end groups that read the same values merge (merge.c).
 *
 * Costs are picoseconds by the machine's table: whole numbers, held in doubles so that none overflows; deterministic,
 * and independent of the thread count. */
#include "lower/rangeify.h"
#include "optimize/cost.h"

#include <string.h>

/* ---- costs --------------------------------------------------------------------------------------------------- */
enum { GATE = 3 }; /* vector operations: two comparisons and a choice */
enum { CUT = 4 };
enum { FULL = 1000 }; /* operations of a kernel; the system's compiler takes the square of a function's length */

static double bytes_of(const kl_fuse *z, kn_ref n) {
    return (double)kg_most(z->g, n) * kn_dsize(kg_dtype(z->g, n));
}

double kl_read_ps(const kl_fuse *z, double bytes, kn_level from) {
    return bytes * (double)z->p->machine->read_ps[from] / (double)z->p->machine->line;
}

double kl_write_ps(const kl_fuse *z, double bytes, kn_level to) {
    return bytes * (double)z->p->machine->write_ps[to] / (double)z->p->machine->line;
}

/* Reading all of a value that lies in memory. */
static double read_back(const kl_fuse *z, kn_ref n) {
    double bytes = bytes_of(z, n);
    return kl_read_ps(z, bytes, kn_machine_level(z->p->machine, bytes));
}

/* One operation of an element, in vectors. */
static double alu_ps(const kl_fuse *z, kn_ref n) {
    const kn_machine *m     = z->p->machine;
    int64_t           bytes = kn_dsize(kg_dtype(z->g, n)), per = m->vector_bytes * m->alu_per_cycle;
    return (double)KN_MAX((m->cycle_ps * bytes + per - 1) / per, 1);
}

static double op_ps(const kl_fuse *z, kn_ref n) { return ko_op_code(kg_op(z->g, n)) * alu_ps(z, n); }

static bool is_leaf(int op) { return op == KN_OP_CONST || op == KN_OP_PARAM || op == KN_OP_RANGE; }

/* Passed through: a view, or a mark that means nothing to a kernel. */
static bool is_view(int op) {
    return (kn_is_movement(op) && op != KN_OP_STACK) || op == KN_OP_AFTER || op == KN_OP_DETACH ||
           op == KN_OP_CONTIGUOUS_BACKWARD;
}

/* A product with one, as gradients begin: it will be gone. */
static bool is_times_one(const kl_fuse *z, kn_ref n) {
    for (uint32_t k = 0; k < 2 && kg_op(z->g, n) == KN_OP_MUL; k++) {
        kn_ref x = kg_at(z->g, n, k);
        while (kg_op(z->g, x) == KN_OP_RESHAPE || kg_op(z->g, x) == KN_OP_EXPAND) x = kg_at(z->g, x, 0);
        if (kg_is_const(z->g, x, 1)) return true;
    }
    return false;
}

/* A comparison with arange, or its 0/1: gates.c turns reductions over it into bounds, so it must stay where it is. */
static bool is_mask(const kl_fuse *z, kn_ref n) {
    if (kg_op(z->g, n) == KN_OP_CAST && kg_dtype(z->g, kg_at(z->g, n, 0)) == KN_BOOL) n = kg_at(z->g, n, 0);
    return kg_dtype(z->g, n) == KN_BOOL && z->info[n].counts;
}

/* A number read from memory as an index: the load itself widens it. */
static bool is_read_index(const kl_fuse *z, kn_ref n) {
    if (kg_op(z->g, n) != KN_OP_CAST || kg_dtype(z->g, n) != KN_INDEX) return false;
    kn_ref x = kg_at(z->g, n, 0);
    while (is_view(kg_op(z->g, x))) x = kg_at(z->g, x, 0);
    return kg_op(z->g, x) == KN_OP_PARAM && kn_is_int(kg_dtype(z->g, x));
}

/* A sum that a mask will cut to the elements that count. */
static bool is_gather(const kl_fuse *z, kn_ref n) {
    if (kg_op(z->g, n) != KN_OP_REDUCE || kg_field(z->g, n, KN_F_REDUCE_op) != KN_OP_ADD) return false;
    kn_ref x  = kg_at(z->g, n, 0);
    int    op = kg_op(z->g, x);
    if (op == KN_OP_CAST) return is_mask(z, x);
    if (op != KN_OP_MUL && op != KN_OP_WHERE) return false;
    for (uint32_t k = 0; k < 2; k++) {
        kn_ref m = kg_at(z->g, x, k);
        while (kg_op(z->g, m) == KN_OP_RESHAPE || kg_op(z->g, m) == KN_OP_EXPAND) m = kg_at(z->g, m, 0);
        if (is_mask(z, m)) return true;
    }
    return false;
}

/* A result of a fold; its REDUCE has no value of its own. */
static bool is_result(const kn_graph *g, kn_ref n) { return kg_op(g, n) == KN_OP_GETTUPLE; }

/* A reduction along a mask of what does not move with the other side of it: prefix sums. In loops of a kernel's own it
 * is one visit an element (scan.c), in any other place a triangle. */
static bool is_scan(const kl_fuse *z, kn_ref n) {
    if (kg_op(z->g, n) != KN_OP_REDUCE || kg_nsrc(z->g, n) != 1 || kg_op(z->g, kg_at(z->g, n, 0)) != KN_OP_WHERE)
        return false;
    kn_ref x = kg_at(z->g, n, 0), mask = kg_at(z->g, x, 0);
    while (kg_op(z->g, mask) == KN_OP_RESHAPE || kg_op(z->g, mask) == KN_OP_EXPAND) mask = kg_at(z->g, mask, 0);
    for (uint32_t k = 1; k < 3 && is_mask(z, mask); k++) {
        kn_ref y = kg_at(z->g, x, k);
        while (kg_op(z->g, y) == KN_OP_RESHAPE || kg_op(z->g, y) == KN_OP_EXPAND) y = kg_at(z->g, y, 0);
        if (kg_op(z->g, y) != KN_OP_CONST && kg_numel(z->g, y) >= kg_numel(z->g, x)) return false;
    }
    return is_mask(z, mask) && kg_numel(z->g, mask) > 1;
}

/* A product with reuse: worth a kernel of its own rather than a loop inside another reduction. */
static bool is_product(const kn_graph *g, kn_ref n) {
    if (kg_op(g, n) != KN_OP_REDUCE || kg_field(g, n, KN_F_REDUCE_op) != KN_OP_ADD) return false;
    kn_ref x = kg_at(g, n, 0);
    while (kg_op(g, x) == KN_OP_CAST) x = kg_at(g, x, 0);
    return kg_op(g, x) == KN_OP_MUL && kg_most(g, x) / 8 >= kg_most(g, n);
}

/* The products that sums are made of: one instruction multiplies and adds. */
static void mark_terms(kl_fuse *z) {
    for (uint32_t i = 0; i < z->norder; i++) {
        kn_ref n = z->order[i];
        if (kg_op(z->g, n) != KN_OP_REDUCE || kg_field(z->g, n, KN_F_REDUCE_op) != KN_OP_ADD) continue;
        kn_ref x = kg_at(z->g, n, 0);
        while (is_view(kg_op(z->g, x)) && z->info[x].users == 1) x = kg_at(z->g, x, 0);
        z->info[x].term = kg_op(z->g, x) == KN_OP_MUL && z->info[x].users == 1 && kn_is_float(kg_dtype(z->g, x));
    }
}

/* The operations of a node itself; a fold runs its combine for each element. */
static double own_ps(const kl_fuse *z, kn_ref n) {
    kn_fold_parts p;
    if (kg_is_fold(z->g, n) && kg_fold_parts(z->g, kg_at(z->g, n, 0), &p))
        return (double)kg_most(z->g, p.element[0]) * z->info[p.combine].work;
    return op_ps(z, n) * (double)kg_most(z->g, kg_op(z->g, n) == KN_OP_REDUCE ? kg_at(z->g, n, 0) : n);
}

/* Work to compute each node once, with what stands below it in place. What has other users too is at worst read back:
 * were it dear, it would be a root. */
static void measure(kl_fuse *z) {
    for (uint32_t i = 0; i < z->norder; i++) {
        kn_ref n = z->order[i];
        for (uint32_t k = 0; k < kg_nsrc(z->g, n); k++) {
            z->info[kg_at(z->g, n, k)].users++;
            z->info[n].counts |= z->info[kg_at(z->g, n, k)].counts && kg_op(z->g, n) != KN_OP_REDUCE;
        }
        int op = kg_op(z->g, n);
        z->info[n].counts |= op == KN_OP_RANGE;
        bool var   = kg_is_variable(z->g, n);
        bool index = op == KN_OP_RANGE || op == KN_OP_CONST || kn_is_alu(op) || is_view(op) || var;
        for (uint32_t k = 0; k < kg_nsrc(z->g, n) && op != KN_OP_RANGE && !var; k++)
            index = index && (kg_op(z->g, kg_at(z->g, n, k)) == KN_OP_STACK || z->info[kg_at(z->g, n, k)].index);
        z->info[n].index = index && !kn_is_float(kg_dtype(z->g, n));
    }
    mark_terms(z);
    for (uint32_t i = 0; i < z->norder; i++) {
        kn_ref   n    = z->order[i];
        kl_info *info = &z->info[n];
        int      op   = kg_op(z->g, n);
        double   size = (double)kg_most(z->g, n);
        if (op == KN_OP_SINK || op == KN_OP_STORE || op == KN_OP_CONST || op == KN_OP_CUSTOM_FUNCTION) continue;
        if (kg_is_custom(z->g, n)) continue;
        bool loaded = op == KN_OP_PARAM || op == KN_OP_LOAD || kl_is_call_result(z->g, n);
        info->plain = loaded || kn_is_alu(op) || is_view(op);
        for (uint32_t k = 0; k < kg_nsrc(z->g, n) && info->plain && !loaded; k++) {
            kn_ref s    = kg_at(z->g, n, k);
            info->plain = z->info[s].plain || kg_op(z->g, s) == KN_OP_CONST || kg_op(z->g, s) == KN_OP_STACK;
        }
        if (loaded) {
            bool own    = op == KN_OP_PARAM && kg_space(z->g, n) == KN_REG; /* of a combine */
            info->work  = own ? 0 : read_back(z, n);
            if (op == KN_OP_PARAM) z->moved += info->work;
            continue;
        }
        int64_t n_src =
            op == KN_OP_RESHAPE || op == KN_OP_EXPAND || op == KN_OP_PAD || op == KN_OP_SHRINK || op == KN_OP_AFTER
                ? 1
                : (int64_t)kg_nsrc(z->g, n);
        double own = own_ps(z, n), alu = own;
        z->arithmetic += own;
        if (is_times_one(z, n)) own = alu = 0;
        for (int64_t k = 0; k < n_src; k++) {
            kn_ref s = kg_at(z->g, n, (uint32_t)k);
            double w = z->info[s].work, c = z->info[s].alu, read = read_back(z, s);
            double part = op == KN_OP_SHRINK ? size / KN_MAX((double)kg_most(z->g, s), 1.0) : 1;
            if (z->info[s].users > 1 && w > read) w = read, c = 0;
            own += w * part;
            alu += c * part;
        }
        if (op == KN_OP_AFTER) own = read_back(z, n), alu = 0;
        info->product = is_product(z->g, n) && !is_gather(z, n);
        for (int64_t k = 0; k < n_src && (kn_is_alu(op) || is_view(op)); k++) {
            kn_ref s = kg_at(z->g, n, (uint32_t)k); /* its epilogue; what spreads it over more elements reads it */
            info->product |= z->info[s].product && z->info[s].users == 1 && kg_most(z->g, n) <= kg_most(z->g, s);
        }
        if (is_gather(z, n)) own = kl_read_ps(z, bytes_of(z, n), KN_L2) + size * alu_ps(z, n), alu = own;
        info->work = own;
        info->alu  = alu;
        if (info->out >= 0) z->moved += kl_write_ps(z, bytes_of(z, n), kn_machine_level(z->p->machine, bytes_of(z, n)));
    }
}

/* ---- deciding ------------------------------------------------------------------------------------------------ */

static bool reduced_along(const kl_fuse *z, kn_ref idx) {
    kn_ref r[64];
    for (int k = KN_MIN(kg_ranges(z->r, idx, r, KN_COUNT(r)), KN_COUNT(r)); k-- > 0;)
        if (z->range[kg_field(z->r, r[k], KN_F_RANGE_id)].reduce) return true;
    return false;
}

static bool in_reduce_loop(const kl_fuse *z, const kl_use *u) {
    int rank = kg_rank(z->g, u->node);
    for (int i = 0; i < rank; i++)
        if (reduced_along(z, u->idx[i])) return true;
    return false;
}

/* The program itself asks for a stage: LOAD into LOCAL. */
static bool asks_stage(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_LOAD && kg_field(g, n, KN_F_LOAD_space) == KN_LOCAL;
}

/* The axes that the uses walk apart (of a stage that was asked for: in reductions too); the rest is shared. False: the
 * uses do not stand in common loops of one group, or in those of a reduction, which run anew for each of its tiles. */
static bool stage_axes(const kl_fuse *z, kn_ref n, bool *staged, int64_t *held) {
    int            first = z->info[n].use, rank;
    const int64_t *dims  = kg_shape(z->g, n, &rank);
    bool           shared = false;
    *held                 = 1;
    for (int a = 0; a < rank; a++) staged[a] = false;
    if (first < 0) return false;
    for (int u = first; u >= 0; u = z->use[u].next) {
        if (z->use[u].group != z->use[first].group || z->use[u].gate) return false;
        for (int a = 0; a < rank; a++)
            staged[a] |= z->use[u].idx[a] != z->use[first].idx[a] ||
                         (asks_stage(z->g, n) && reduced_along(z, z->use[u].idx[a]));
    }
    for (int a = 0; a < rank; a++) {
        if (staged[a]) *held = kn_sat_mul(*held, kg_most_of(z->g, dims[a]));
        else if (!asks_stage(z->g, n) && reduced_along(z, z->use[first].idx[a])) return false;
        else shared |= kg_most_of(z->g, dims[a]) > 1 && !kg_closed(z->r, z->use[first].idx[a]);
    }
    return shared && *held > 1;
}

bool kl_group_full(const kl_fuse *z, int group) { return z->group[group].size >= FULL; }

/* Written by a kernel of its own and read by those of `readers` groups. */
static double stored_ps(const kl_fuse *z, kn_ref n, int readers) {
    double   bytes = bytes_of(z, n);
    kn_level level = KN_MAX(kn_machine_level(z->p->machine, bytes), KN_L3);
    return kl_write_ps(z, bytes, level) + readers * kl_read_ps(z, bytes, level) + (double)z->p->machine->launch_ps;
}

/* Zeros around what a reduction reads again and again: laid out once, its loops have no gates. */
static bool wants_margin(const kl_fuse *z, kn_ref n) {
    double evals = 0, size = (double)kg_most(z->g, n);
    bool   reduced = false;
    if (kg_op(z->g, n) != KN_OP_PAD || z->info[n].index || is_mask(z, n)) return false;
    for (int u = z->info[n].use; u >= 0; u = z->use[u].next) {
        evals += z->use[u].evals;
        reduced |= in_reduce_loop(z, &z->use[u]);
    }
    return reduced && evals >= 8 * size && evals * GATE * alu_ps(z, n) > stored_ps(z, n, 1);
}

/* What is held for each iteration of the shared loops is a column: neighbours, which lanes would take, belong to other
 * iterations. */
static bool holds_columns(const kl_fuse *z, kn_ref n, const bool *staged) {
    int            rank;
    const int64_t *dims = kg_shape(z->g, n, &rank);
    while (rank && kg_most_of(z->g, dims[rank - 1]) == 1) rank--;
    return rank && !staged[rank - 1];
}

/* A sum and what is made of it ask for n, and no loop is around both: it is no row, and not near any more. */
static bool sums_all(const kl_fuse *z, kn_ref n) {
    bool    staged[KN_MAX_RANK], summed = false, other = false;
    int64_t held;
    for (int u = z->info[n].use; u >= 0; u = z->use[u].next)
        *(in_reduce_loop(z, &z->use[u]) ? &summed : &other) = true;
    return summed && other && (!stage_axes(z, n, staged, &held) || holds_columns(z, n, staged));
}

/* What it costs to hold n in LOCAL memory in the loops its uses share; false: it cannot be, c says why. */
static bool stage_cost(const kl_fuse *z, kn_ref n, kl_choice *c) {
    const kl_info    *info = &z->info[n];
    const kn_machine *m    = z->p->machine;
    bool              staged[KN_MAX_RANK];
    int64_t           held, size = kn_dsize(kg_dtype(z->g, n));
    const char       *why = NULL;
    c->cost[KL_STAGE] = -1;
    if (info->nuse < 2) why = "one use alone";
    else if (info->product) why = "a product wants loops of its own";
    else if (!stage_axes(z, n, staged, &held)) why = "its uses share no loop";
    else if (holds_columns(z, n, staged)) why = "it would hold columns";
    if (!why) {
        /* The axes the uses walk apart are held for each iteration of the others, beside what is held already. */
        double   live  = (double)held * (double)size + (double)z->group[z->use[info->use].group].staged;
        kn_level level = kn_machine_level(m, live);
        double   bytes = bytes_of(z, n);
        c->cost[KL_STAGE] = kl_write_ps(z, bytes, level) + info->nuse * kl_read_ps(z, bytes, level);
        if (live > (double)KN_MIN(m->cache[KN_L2] / 2, (int64_t)KN_STAGE_BYTES)) why = "too much for LOCAL memory";
    }
    c->illegal[KL_STAGE] = why;
    return !why;
}

/* The arithmetic of n and of what stands below it in place, each node once; of the first some nodes alone. */
static double below_ps(const kl_fuse *z, kn_ref n) {
    enum { SOME = 64 };
    kn_ref seen[SOME] = {n};
    double ps         = 0;
    for (int i = 0, count = 1; i < count; i++) {
        int op = kg_op(z->g, seen[i]);
        if (!kn_is_alu(op) && !is_view(op)) continue;
        if (kn_is_alu(op)) ps += own_ps(z, seen[i]);
        for (uint32_t k = 0; k < kg_nsrc(z->g, seen[i]) && (k == 0 || kn_is_alu(op)); k++) {
            int at = 0;
            while (at < count && seen[at] != kg_at(z->g, seen[i], k)) at++;
            if (at == count && count < SOME) seen[count++] = kg_at(z->g, seen[i], k);
        }
    }
    return ps;
}

/* How many times as long as in lanes a use takes that computes n as what all of a row have in common: one by one, or
 * for each of the row's lanes. 1: it does not. */
static int64_t along_rows(const kl_fuse *z, kn_ref n, const kl_use *u) {
    const kl_group *gr  = &z->group[u->group];
    int64_t         row = 1, lanes = z->p->machine->vector_bytes / kn_dsize(kg_dtype(z->g, n));
    int             last = -1; /* of its loops */
    if (!z->info[n].plain || gr->call) return 1;
    for (int i = 0; i < kg_rank(z->g, n); i++) {
        kn_ref in[KN_MAX_RANK];
        int    count = kg_ranges(z->r, u->idx[i], in, KN_MAX_RANK);
        for (int k = 0, at; k < KN_MIN(count, KN_MAX_RANK); k++) {
            for (at = 0; at < gr->nrange && gr->range[at] != in[k];) at++;
            if (at == gr->nrange) return 1; /* a sum's loop, or a stage's */
            last = KN_MAX(last, at);
        }
    }
    for (int r = last + 1; last >= 0 && r < gr->nrange; r++)
        row = kn_sat_mul(row, z->range[kg_field(z->r, gr->range[r], KN_F_RANGE_id)].extent);
    return KN_MIN(row, lanes);
}

/* Arithmetic done again stays within half of the program's own, what its memory traffic hides, and a launch. */
static bool too_much_again(const kl_fuse *z, double again) {
    return z->again + again > z->arithmetic / 2 + z->moved + (double)z->p->machine->launch_ps;
}

/* What the program wants in storage of its own: a border between kernels. */
static bool is_stored(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_LOAD && kg_field(g, n, KN_F_LOAD_space) == KN_GLOBAL;
}

/* Where n is computed. Costs are filled in only where they are weighed. */
static void choose(const kl_fuse *z, kn_ref n, kl_choice *c) {
    const kl_info *info = &z->info[n];
    int            op   = kg_op(z->g, n);
    *c = (kl_choice){.place = KL_ROOT};
    if (info->out >= 0) c->settled = "the program stores it";
    else if (is_stored(z->g, n)) c->settled = "contiguous";
    else if (op != KN_OP_PARAM && kl_read_by_call(z, n)) c->settled = "a function of the host reads it";
    else if (wants_margin(z, n)) c->settled = "its zeros are laid out once";
    if (c->settled) return;
    c->place = KL_INLINE;
    if (is_leaf(op) || is_view(op) || is_times_one(z, n)) c->settled = "a view";
    else if (kg_dtype(z->g, n) == KN_VOID) c->settled = "no value";
    else if (is_mask(z, n) || info->index) c->settled = "index arithmetic";
    else if (is_read_index(z, n)) c->settled = "its load widens it";
    else if (!kg_most(z->g, n)) c->settled = "no elements";
    bool    axes[KN_MAX_RANK];
    int64_t held;
    if (!c->settled && asks_stage(z->g, n) && info->use >= 0 && stage_axes(z, n, axes, &held)) {
        c->place   = KL_STAGE;
        c->settled = "the program asks for it";
    }
    if (c->settled) return;
    double size = (double)kg_most(z->g, n), evals = 0;
    int    groups = 0, last = -1;
    bool   nested = false;
    for (int u = info->use; u >= 0; u = z->use[u].next) {
        evals += z->use[u].evals;
        if (z->use[u].group != last) groups++;
        last = z->use[u].group;
        if (kl_group_full(z, last) && kg_dtype(z->g, n) != KN_INDEX) {
            c->place   = KL_ROOT;
            c->settled = "its kernel is full";
            return;
        }
    }
    double spared = info->term ? own_ps(z, n) : 0; /* done again, it is part of what is done again anyway */
    double again  = evals / size - 1, inlined = again > 0 ? again * (info->work - spared) : 0;
    if (info->product)
        for (int u = info->use; u >= 0 && !nested; u = z->use[u].next) nested = in_reduce_loop(z, &z->use[u]);
    if (nested) inlined += 7 * info->work; /* no register tile inside another reduction */
    int64_t rows = groups == 1 && again < 0.5 ? along_rows(z, n, &z->use[info->use]) : 1;
    if (rows > 1) {
        inlined += (double)(rows - 1) * below_ps(z, n);
        c->apart = true;
    }
    c->cost[KL_INLINE] = inlined;
    c->cost[KL_ROOT]   = stored_ps(z, n, groups);
    c->again           = again > 0 ? again * (info->alu - spared) : 0;
    if (is_scan(z, n)) {
        bool inside = again > 1e-6;
        for (int u = info->use; u >= 0; u = z->use[u].next) inside |= in_reduce_loop(z, &z->use[u]);
        if (inside) {
            c->place   = KL_ROOT;
            c->settled = "a scan wants a loop of its own";
            return;
        }
    }
    if ((op == KN_OP_REDUCE || is_result(z->g, n)) && again > 1e-6 && !is_gather(z, n))
        c->illegal[KL_INLINE] = "a reduction is not done twice";
    else if (again > 1e-6 && too_much_again(z, c->again))
        c->illegal[KL_INLINE] = "too much would be computed again";
    bool stage = stage_cost(z, n, c) && c->cost[KL_STAGE] < c->cost[KL_ROOT];
    if (!c->illegal[KL_INLINE] && inlined <= (stage ? c->cost[KL_STAGE] : c->cost[KL_ROOT])) return;
    if (stage) {
        c->place = KL_STAGE;
        return;
    }
    /* One kernel computes it again while its row is near, in vectors; storing it would cut that kernel in two, and what
     * both halves read would be read twice. */
    c->cost[KL_ROOT] *= groups == 1 && again < 1.5 && !sums_all(z, n) ? CUT : 1;
    c->place = c->illegal[KL_INLINE] || inlined > c->cost[KL_ROOT] ? KL_ROOT : KL_INLINE;
}

/* Does the use walk the node along the group's outermost loops, each axis one loop, in order? */
static bool walks_prefix(const kl_fuse *z, const kl_use *u) {
    const kl_group *gr = &z->group[u->group];
    int             rank, at = 0;
    const int64_t  *dims = kg_shape(z->g, u->node, &rank);
    if (u->gate || gr->call) return false;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 1) continue;
        if (at == gr->nrange || u->idx[i] != gr->range[at]) return false;
        if (!kg_is_const(z->r, kg_at(z->r, gr->range[at], 0), dims[i])) return false; /* a part of it, perhaps */
        at++;
    }
    return at > 0 || gr->nrange == 0;
}

static int joinable(const kl_fuse *z, kn_ref n) {
    int best = -1;
    for (int u = z->info[n].use; u >= 0; u = z->use[u].next) {
        if (!walks_prefix(z, &z->use[u]) || kl_group_full(z, z->use[u].group)) continue;
        int  grp = z->use[u].group;
        bool ok  = true;
        for (int v = z->info[n].use; v >= 0 && ok; v = z->use[v].next)
            if (v != u) ok = z->use[v].group != grp && !kl_group_before(z, z->use[v].group, grp);
        if (ok && (best < 0 || grp > z->use[best].group)) best = u;
    }
    return best;
}

/* Does some group compute the fold that n is a result of, and may it store n too? One loop then gives all results. */
static bool join_fold(kl_fuse *z, kn_ref n, int *own) {
    if (!is_result(z->g, n)) return true;
    for (int u = z->info[kg_at(z->g, n, 0)].use; u >= 0; u = z->use[u].next) {
        int  grp = z->use[u].group;
        bool ok  = walks_prefix(z, &z->use[u]) && !kl_group_full(z, grp);
        for (int v = z->info[n].use; v >= 0 && ok; v = z->use[v].next)
            ok = z->use[v].group != grp && !kl_group_before(z, z->use[v].group, grp);
        if (ok) return kl_add_use(z, n, grp, z->use[u].idx, 0, own);
    }
    return true;
}

/* Scalars that no loop needs apart share a kernel. */
static bool join_scalars(kl_fuse *z, kn_ref n, int *own) {
    if (kg_numel(z->g, n) != 1) return true;
    for (size_t g = 0; g < z->ngroup; g++) {
        bool ok = z->group[g].nrange == 0 && !z->group[g].empty && !z->group[g].call && !kl_group_full(z, (int)g);
        for (int u = z->info[n].use; u >= 0 && ok; u = z->use[u].next)
            ok = z->use[u].group != (int)g && !kl_group_before(z, z->use[u].group, (int)g);
        if (!ok) continue;
        kn_ref idx[KN_MAX_RANK];
        for (int i = 0; i < kg_rank(z->g, n); i++) idx[i] = kg_idx(z->r, 0);
        return kl_add_use(z, n, (int)g, idx, 0, own);
    }
    return true;
}

bool kl_add_storage(kl_fuse *z, const kl_storage *given) {
    kl_storage  st   = *given;
    kl_info    *info = &z->info[st.node];
    kl_program *p    = z->p;
    if (st.out >= 0) {
        st.slot = z->out[st.out].slot;
    } else {
        if (!KN_GROW(p->alloc, p->temp, p->temp_cap, p->ntemp + 1)) return kn_oom(z->f);
        p->temp[p->ntemp] = (kl_temp){.size = kg_most(z->g, st.node), .dtype = kg_dtype(z->g, st.node)};
        st.slot           = (int64_t)(p->nparam + p->ntemp++);
    }
    if (!KN_GROW(p->alloc, z->storage, z->storage_cap, z->nstorage + 1)) return kn_oom(z->f);
    info->storage             = (int)z->nstorage;
    z->storage[z->nstorage++] = st;
    for (int u = info->use; u >= 0; u = z->use[u].next) {
        if (u == st.use) continue;
        z->use[u].load = true;
        if (!kl_group_edge(z, st.group, z->use[u].group)) return false;
    }
    return true;
}

static bool make_root(kl_fuse *z, kn_ref n, bool apart) {
    kl_info *info = &z->info[n];
    bool     alone = is_stored(z->g, n);
    int      own   = alone || apart ? -1 : joinable(z, n);
    if (own < 0 && !join_fold(z, n, &own)) return false;
    if (own < 0 && !alone && !join_scalars(z, n, &own)) return false;
    if (own < 0) {
        int            group, rank;
        const int64_t *dims = kg_shape(z->g, n, &rank);
        kn_ref         idx[KN_MAX_RANK];
        int            around[KN_MAX_RANK];
        if (!kl_group_new(z, &group)) return false;
        z->group[group].alone = alone;
        for (int i = 0; i < rank; i++) {
            if (!kg_most_of(z->g, dims[i])) z->group[group].empty = true;
            if (dims[i] == 0 || dims[i] == 1) {
                idx[i] = kg_idx(z->r, 0);
                continue;
            }
            kl_group *gr = &z->group[group];
            if (!kl_new_range(z, dims[i], false, around, gr->nrange, &idx[i])) return false;
            around[gr->nrange]      = (int)z->nrange - 1;
            gr->range[gr->nrange++] = idx[i];
        }
        if (z->group[group].empty) return true;
        if (!kl_add_use(z, n, group, idx, 0, &own)) return false;
    }
    kl_storage st = {.node = n, .use = own, .group = z->use[own].group, .out = info->out};
    return kl_add_storage(z, &st) && kl_spread(z, own);
}

/* Computed once into LOCAL memory, in the loops its uses share; each use then reads it there. */
static bool make_stage(kl_fuse *z, kn_ref n) {
    kl_info       *info = &z->info[n];
    kl_storage     st   = {.node = n, .out = -1, .stage = true, .slot = z->nstage++};
    int            rank, around[128], count;
    int64_t        held;
    const int64_t *dims = kg_shape(z->g, n, &rank);
    kn_ref         idx[KN_MAX_RANK], common[KN_MAX_RANK] = {0};
    if (!stage_axes(z, n, st.staged, &held))
        return kn_fail(z->f, KN_ERR_INTERNAL, "rangeify: a stage without shared loops");
    const kl_use *first = &z->use[info->use];
    st.group            = first->group;
    for (int a = 0; a < rank; a++) common[a] = st.staged[a] ? kg_idx(z->r, 0) : first->idx[a];
    memcpy(idx, common, sizeof idx);
    count = kl_closure(z, common, rank, 0, around, KN_COUNT(around));
    for (int a = 0; a < rank; a++) {
        if (!st.staged[a]) continue;
        if (count == KN_COUNT(around)) return kn_fail(z->f, KN_ERR_UNSUPPORTED, "rangeify: loops nest too deep");
        if (!kl_new_range(z, dims[a], false, around, count, &idx[a])) return false;
        around[count++] = (int)z->nrange - 1;
    }
    z->group[st.group].staged += held * kn_dsize(kg_dtype(z->g, n));
    for (int u = info->use; u >= 0; u = z->use[u].next) z->use[u].load = true;
    if (!kl_add_use(z, n, st.group, idx, 0, &st.use))
        return false; /* the list's first: built before those that read it */
    if (!KN_GROW(z->p->alloc, z->storage, z->storage_cap, z->nstorage + 1)) return kn_oom(z->f);
    info->storage             = (int)z->nstorage;
    z->storage[z->nstorage++] = st;
    return kl_spread(z, st.use);
}

static bool note_read(kl_fuse *z, int use, int64_t slot, kn_ref version) {
    if (!KN_GROW(z->p->alloc, z->read, z->read_cap, z->nread + 1)) return kn_oom(z->f);
    z->read[z->nread++] = (kl_read){z->use[use].group, slot, version, use};
    return true;
}

/* First contents of a PARAM are read by all its uses or, when it is itself stored elsewhere, by what copies it. */
static bool note_param_reads(kl_fuse *z, kn_ref n) {
    int64_t slot = kg_field(z->g, n, KN_F_PARAM_slot);
    if (kg_is_variable(z->g, n)) return true; /* nothing writes it */
    for (int u = z->info[n].use; u >= 0; u = z->use[u].next)
        if (!z->use[u].load && !note_read(z, u, slot, 0)) return false;
    return true;
}

bool kl_decide(kl_fuse *z) {
    measure(z);
    for (uint32_t i = z->norder; i-- > 0;) {
        kn_ref   n    = z->order[i];
        int      op   = kg_op(z->g, n);
        kl_info *info = &z->info[n];
        if (op == KN_OP_SINK || op == KN_OP_STORE || op == KN_OP_CUSTOM_FUNCTION) continue;
        kl_choice c;
        kg_made_of(z->r, z->g, n);
        if (kl_is_call_result(z->g, n) || kg_is_custom(z->g, n)) {
            if (!(op == KN_OP_CALL ? kl_spread_call(z, n) : kl_call_result(z, n))) return false;
            continue;
        }
        choose(z, n, &c);
        if (z->p->explain && !(info->choice = kn_arena_copy(&z->arena, &c, sizeof c))) return kn_oom(z->f);
        if (c.place == KL_STAGE) {
            if (!make_stage(z, n)) return false;
            continue;
        }
        /* Its own part: what stands below counts when it is reached. */
        if (c.place == KL_INLINE && c.again > 0 && !info->term)
            z->again += c.again * (op_ps(z, n) * (double)kg_most(z->g, n) / info->alu);
        if (c.place == KL_ROOT) {
            if (!make_root(z, n, c.apart) || (op == KN_OP_PARAM && !note_param_reads(z, n))) return false;
            continue;
        }
        if (op == KN_OP_PARAM && !note_param_reads(z, n)) return false;
        for (int u = info->use; u >= 0; u = z->use[u].next) {
            if (!is_leaf(op) && !is_view(op)) z->group[z->use[u].group].size++;
            if (!kl_spread(z, u)) return false;
        }
    }
    /* Loads of stored values are reads of the version their STORE made. */
    for (size_t s = 0; s < z->nstorage; s++) {
        const kl_storage *st = &z->storage[s];
        if (st->out < 0) continue;
        for (int u = z->info[st->node].use; u >= 0; u = z->use[u].next) {
            if (z->use[u].load && !note_read(z, u, st->slot, z->out[st->out].store)) return false;
        }
    }
    return true;
}
