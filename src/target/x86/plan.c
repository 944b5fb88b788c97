/* plan.c - between a LINEAR of x86-64 and its bytes: what is a value, what stands in its user, how long it lives. */
#include "target/x86/plan.h"

#include <string.h>

/* ---- what nodes are -------------------------------------------------------------------------------------------- */

bool kx_is_lanes(const kn_graph *g, kn_ref n) {
    if (kg_op(g, n) == KN_OP_BUFFER) return kg_numel(g, n) > 1;
    return kg_rank(g, n) > 0;
}

int kx_held_size(const kx_plan *p, int dt) {
    return dt == KN_BOOL && !p->avx512 ? p->flag : kx_held_bytes(p->avx512, dt);
}

int kx_vec_bytes(const kx_plan *p, kn_ref n) {
    if (!kx_is_lanes(p->g, n)) return 16;
    int64_t b = kg_numel(p->g, n) * kx_held_size(p, kg_dtype(p->g, n));
    return b <= 16 ? 16 : b <= 32 ? 32 : 64;
}

static kx_bank pl_bank_of(const kx_plan *p, kn_ref n) {
    int dt = kg_dtype(p->g, n);
    if (kg_op(p->g, n) == KN_OP_PARAM) return KX_BANK_GP;
    if (dt == KN_BOOL && kx_is_lanes(p->g, n)) return p->avx512 ? KX_BANK_MASK : KX_BANK_VEC;
    return kx_is_lanes(p->g, n) || kn_is_float(dt) ? KX_BANK_VEC : KX_BANK_GP;
}

kn_ref kx_root_of(const kn_graph *g, kn_ref n) {
    while (kg_op(g, n) != KN_OP_PARAM && kg_op(g, n) != KN_OP_BUFFER) n = kg_at(g, n, 0);
    return n;
}

bool kx_compares_integers(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_INS && kx_compares(kx_op(g, n)) && !kx_is_lanes(g, n) &&
           !kn_is_float(kg_dtype(g, kg_at(g, n, 0)));
}

bool kx_is_place(const kn_graph *g, kn_ref n) {
    int op = kg_op(g, n);
    if (op == KN_OP_PARAM) return !kg_is_variable(g, n);
    return op == KN_OP_INDEX || op == KN_OP_AFTER || op == KN_OP_BUFFER;
}

static bool pl_is_iota(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_RANGE && kg_field(g, n, KN_F_RANGE_rank) > 0;
}

static bool pl_is_loop(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_RANGE && kg_field(g, n, KN_F_RANGE_rank) == 0;
}

static bool pl_is_lane_number(const kn_graph *g, kn_ref n) { /* or a multiple of it */
    return pl_is_iota(g, n) || (kg_op(g, n) == KN_OP_MUL && pl_is_iota(g, kg_at(g, n, 0)));
}

/* An address multiplies by 2, 4 or 8: t is so often what is returned. */
static kn_ref pl_multiple(const kn_graph *g, kn_ref t, int size, int *times) {
    if (kg_op(g, t) != KN_OP_INS || kx_op(g, t) != KN_OP_MULACC || kg_dtype(g, t) != KN_INDEX) return t;
    kn_ref  x = kg_at(g, t, 0), by = kg_at(g, t, 1), more = kg_at(g, t, 2);
    if (kg_op(g, by) != KN_OP_CONST || kg_op(g, more) != KN_OP_CONST || kg_const_int(g, more)) return t;
    int64_t n = kg_const_int(g, by);
    if (kg_op(g, x) == KN_OP_CONST || n < 2 || n * size > 8 || (n & (n - 1))) return t;
    *times = (int)n;
    return x;
}

void kx_address_of(const kn_graph *g, kn_ref place, kx_spot *a) {
    kn_ref t = kg_at(g, place, 1), lanes = t;
    a->storage = kx_root_of(g, place);
    a->off     = 0;
    a->places  = 0;
    a->stack   = 0;
    a->times   = 1;
    a->disp    = 0;
    a->step    = 1;
    bool stack = kg_op(g, t) == KN_OP_ADD && kg_op(g, kg_at(g, t, 1)) == KN_OP_STACK;
    if (stack || kg_op(g, t) == KN_OP_STACK) {
        a->stack = stack ? kg_at(g, t, 1) : t;
        a->step  = 0;
        if (!stack) return;
        t = lanes = kg_at(g, t, 0);
    } else if (kg_op(g, t) == KN_OP_ADD && pl_is_lane_number(g, kg_at(g, t, 1))) {
        lanes = kg_at(g, t, 1);
        t     = kg_at(g, t, 0);
    }
    if (kg_rank(g, t) && !pl_is_lane_number(g, t)) {
        a->places = kg_op(g, t) == KN_OP_INS ? kg_at(g, t, 0) : t; /* a CAST says that it is an index */
        return;
    }
    if (!stack && kg_op(g, lanes) == KN_OP_MUL) a->step = kg_const_int(g, kg_at(g, lanes, 1));
    if (pl_is_lane_number(g, t)) return;
    if (kg_op(g, t) == KN_OP_ADD && kg_op(g, kg_at(g, t, 1)) == KN_OP_CONST) {
        a->disp = kg_const_int(g, kg_at(g, t, 1));
        t       = kg_at(g, t, 0);
    }
    if (kg_op(g, t) == KN_OP_CONST)
        a->disp += kg_const_int(g, t);
    else
        a->off = pl_multiple(g, t, kn_dsize(kg_dtype(g, a->storage)), &a->times);
}

int kx_first_run(const kn_graph *g, kn_ref load, int step) {
    kn_ref  at = kg_at(g, load, 0), idx = kg_at(g, at, 1);
    int64_t before = kg_min(g, idx) % step, rest = step - 1 - before, most = kg_max(g, idx);
    return before >= 0 && most < kg_numel(g, kg_at(g, at, 0)) - rest ? (int)before : -1;
}

bool kx_is_cell(const kn_graph *g, kn_ref place) { /* of an accumulator */
    kn_ref st = kx_root_of(g, place);
    return kg_op(g, st) == KN_OP_BUFFER && kg_field(g, st, KN_F_BUFFER_space) == KN_REG;
}

kn_ref kx_name(const kx_plan *p, kn_ref n) {
    while (p->value[n].same) n = p->value[n].same;
    return n;
}

/* ---- operands -------------------------------------------------------------------------------------------------- */

static int pl_place_operands(const kx_plan *p, kn_ref place, kn_ref *out) {
    kx_spot a;
    int     n = 0;
    if (kx_is_cell(p->g, place)) {
        out[n++] = kx_root_of(p->g, place);
        return n;
    }
    kx_address_of(p->g, place, &a);
    bool param = kg_op(p->g, a.storage) == KN_OP_PARAM;
    if (param && (!a.off || p->value[a.off].pointer != a.storage)) out[n++] = a.storage;
    if (param && !a.off && p->value[a.storage].pointer) out[n++] = p->value[a.storage].pointer;
    if (a.off) out[n++] = a.off;
    if (a.places) out[n++] = a.places;
    return n;
}

kn_ref kx_term(const kn_graph *g, kn_ref n, uint32_t k, bool *minus) {
    kn_ref s    = kg_at(g, n, k);
    bool   done = kg_op(g, n) == KN_OP_INS && kx_op(g, n) == KN_OP_MULACC && kn_is_float(kg_dtype(g, n)) &&
                kn_dsize(kg_dtype(g, n)) >= 4;
    for (; done && kg_op(g, s) == KN_OP_INS && kx_op(g, s) == KN_OP_NEG; s = kg_at(g, s, 0)) *minus = !*minus;
    return s;
}

static bool pl_puts_constant(const kx_plan *p, kn_ref store) {
    return kg_op(p->g, kg_at(p->g, store, 1)) == KN_OP_CONST;
}

int kx_operands(const kx_plan *p, kn_ref n, kn_ref *out) {
    const kn_graph *g = p->g;
    int             m = 0, op = kg_op(g, n);
    if (p->value[n].low) return out[0] = p->value[n].same, 1;
    if (p->value[n].step) {
        kn_ref prev = kg_at(g, n, 2);
        if (kg_op(g, prev) != KN_OP_CONST) out[m++] = prev;
        if (p->value[n].pointer) out[m++] = p->value[n].pointer;
        return m;
    }
    if (op == KN_OP_LOAD && p->value[n].part) {
        kx_spot a;
        int     rows = kx_rows_of(p, n);
        for (kn_ref s = p->value[n].part; rows > 1 && s; s = p->value[s].part) {
            kx_address_of(g, kg_at(g, s, 0), &a);
            out[a.disp] = kg_at(g, s, 1);
        }
        if (rows > 1) return rows;
        kn_ref half[] = {p->value[n].part, p->value[n].other};
        for (int k = 0; k < 2; k++)
            if (half[k] && !pl_puts_constant(p, half[k])) out[m++] = kg_at(g, half[k], 1);
        return m;
    }
    if (p->value[n].turned) {
        out[0] = kg_at(g, kg_at(g, n, 0), 0);
        return 1;
    }
    if (p->value[n].inverts) n = kg_at(g, n, 0);
    switch (op) {
    case KN_OP_LOAD:
    case KN_OP_PREFETCH: m += pl_place_operands(p, kg_at(g, n, 0), out + m); break;
    case KN_OP_STORE:
        if (!kx_is_cell(g, kg_at(g, n, 0))) m += pl_place_operands(p, kg_at(g, n, 0), out + m);
        break;
    case KN_OP_END: out[m++] = kg_at(g, n, 1), n = kg_at(g, n, 1); break; /* the counter, and its bound */
    case KN_OP_RANGE:
    case KN_OP_INS:
    case KN_OP_BITCAST: break;
    default: return 0;
    }
    for (uint32_t k = op == KN_OP_LOAD || op == KN_OP_STORE || op == KN_OP_PREFETCH; k < kg_nsrc(g, n); k++) {
        bool   minus = false;
        kn_ref s     = kx_term(g, n, k, &minus);
        if (kg_op(g, s) == KN_OP_CONST || pl_is_iota(g, s) || kg_op(g, s) == KN_OP_ADD || kg_op(g, s) == KN_OP_STACK)
            continue; /* numbers of lanes */
        out[m++] = s;
    }
    for (int k = 0; k < m; k++) { /* what stands in this instruction brings its own */
        kn_ref s = out[k];
        if (!p->value[s].folded || m + 2 > KX_MAX_OPERANDS) continue;
        kn_ref own[KX_MAX_OPERANDS];
        int    c = kx_operands(p, s, own); /* a fold stands in a fold at most twice */
        out[k--] = out[--m];
        for (int j = 0; j < c && m < KX_MAX_OPERANDS; j++) out[m++] = own[j];
    }
    return m;
}

/* ---- loops, needs, folds --------------------------------------------------------------------------------------- */

static bool pl_find_loops(kx_plan *p) {
    const kn_graph *g   = p->g;
    int             top = -1;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x       = p->list[i];
        p->value[x].at = i + 1;
        if (pl_is_loop(g, x)) {
            if (p->nloop == KX_MAX_LOOPS) return kn_fail(p->f, KN_ERR_UNSUPPORTED, "plan x86: too many loops");
            if (top >= 0) p->loop[top].inner = false;
            p->loop[p->nloop] = (kx_loop){
                .range = x, .open = i, .parent = top, .inner = true, .depth = top < 0 ? 0 : p->loop[top].depth + 1};
            p->loop_of[i] = top;
            top           = p->nloop++;
        } else if (kg_op(g, x) == KN_OP_END) {
            p->loop[top].close = i;
            top                = p->loop[top].parent;
            p->loop_of[i]      = top;
        } else {
            p->loop_of[i] = top;
            if (kg_op(g, x) == KN_OP_STORE && kg_space(g, kg_at(g, x, 0)) == KN_GLOBAL)
                for (int l = top; l >= 0; l = p->loop[l].parent) p->loop[l].writes = true;
        }
    }
    kn_ref last = 0;
    for (int l = 0; l < p->nloop; l++) {
        if (p->loop[l].parent >= 0 || !kt_is_shared(g, p->loop[l].range, last)) continue;
        last              = p->loop[l].range;
        p->loop[l].shared = true;
        p->loop[l].before = p->chunks;
        p->chunks += kg_max(g, kg_at(g, last, 0));
        p->nshared++;
    }
    return true;
}

static int pl_loop_numbered(const kx_plan *p, kn_ref range) {
    int l = 0;
    while (l < p->nloop && p->loop[l].range != range) l++;
    return l < p->nloop ? l : -1;
}

/* range * stride + outer, right inside the range's loop: kept by an addition a round. */
static bool pl_is_step(const kx_plan *p, kn_ref n) {
    const kn_graph *g = p->g;
    if (kg_op(g, n) != KN_OP_INS || kx_op(g, n) != KN_OP_MULACC || kg_dtype(g, n) != KN_INDEX) return false;
    kn_ref r = kg_at(g, n, 0);
    if (!pl_is_loop(g, r) || kg_op(g, kg_at(g, n, 1)) != KN_OP_CONST || kg_depends(g, kg_at(g, n, 2), r)) return false;
    int l = pl_loop_numbered(p, r);
    return l >= 0 && p->loop_of[p->value[n].at - 1] == l;
}

static int64_t pl_shift_of(const kn_graph *g, kn_ref n, int op) { /* 0: by no constant */
    bool by = kg_op(g, n) == KN_OP_INS && kx_op(g, n) == op && kg_op(g, kg_at(g, n, 1)) == KN_OP_CONST;
    return by ? kg_const_int(g, kg_at(g, n, 1)) : 0;
}

/* AVX-512 has rotations; of u32 and u64. */
static uint8_t pl_turns(const kx_plan *p, kn_ref n) {
    const kn_graph *g    = p->g;
    int             bits = 8 * kn_dsize(kg_dtype(g, n));
    if (!p->avx512 || kg_op(g, n) != KN_OP_INS || kx_op(g, n) != KN_OP_OR || !kx_is_lanes(g, n) || bits < 32) return 0;
    if (kn_dtypes[kg_dtype(g, n)].kind != 'U') return 0;
    kn_ref  a = kg_at(g, n, 0), b = kg_at(g, n, 1);
    int64_t left = pl_shift_of(g, a, KN_OP_SHL), right = pl_shift_of(g, b, KN_OP_SHR);
    bool    turns = left > 0 && right > 0 && left + right == bits && kg_at(g, a, 0) == kg_at(g, b, 0);
    return turns && kg_op(g, kg_at(g, a, 0)) != KN_OP_CONST ? (uint8_t)left : 0;
}

static bool pl_inverts(const kx_plan *p, kn_ref n) {
    const kn_graph *g = p->g;
    if (kg_op(g, n) != KN_OP_INS || kx_op(g, n) != KN_OP_NOT || !kx_is_lanes(g, n)) return false;
    kn_ref c = kg_at(g, n, 0);
    if (kg_op(g, c) != KN_OP_INS || kg_nsrc(g, c) != 2 || kg_dtype(g, c) != KN_BOOL) return false;
    int dt = kg_dtype(g, kg_at(g, c, 0));
    return kn_is_float(dt) || (p->avx512 && dt != KN_BOOL);
}

/* Memory of the frame that n accesses, 0 none; where in it, in elements, in the simplest of cases, else -1; every
 * how-manieth element. */
static kn_ref pl_local(const kx_plan *p, kn_ref n, int64_t *at, int64_t *step) {
    kx_spot a;
    int     op = kg_op(p->g, n);
    if (op != KN_OP_LOAD && op != KN_OP_STORE) return 0;
    kn_ref place = kg_at(p->g, n, 0), b = kx_root_of(p->g, place);
    if (kg_op(p->g, b) != KN_OP_BUFFER || kg_field(p->g, b, KN_F_BUFFER_space) != KN_LOCAL) return 0;
    kx_address_of(p->g, place, &a);
    bool gate = kg_nsrc(p->g, n) > (op == KN_OP_STORE ? 2 : 1);
    bool far  = a.step < 1 || a.step > (op == KN_OP_STORE ? KN_IN_TURNS : 2);
    *at       = gate || a.off || a.places || far ? -1 : a.disp;
    *step     = a.step;
    return b;
}

int kx_rows_of(const kx_plan *p, kn_ref load) {
    kx_spot a;
    if (!p->value[load].part) return 1;
    kx_address_of(p->g, kg_at(p->g, p->value[load].part, 0), &a);
    return (int)a.step;
}

int kx_registers_of(const kx_plan *p, kn_ref load, kn_ref *row, uint8_t *own) {
    int rows = kx_operands(p, load, row), n = 0;
    for (int k = 0; k < rows; k++) {
        own[k] = 0;
        while (own[k] < n && kx_name(p, row[own[k]]) != kx_name(p, row[k])) own[k]++;
        if (own[k] == n) row[n++] = row[k];
    }
    return n;
}

static bool pl_same_run(const kx_plan *p, kn_ref store, kn_ref load) {
    if (pl_puts_constant(p, store)) return true; /* the same in every run */
    return p->loop_of[p->value[store].at - 1] == p->loop_of[p->value[load].at - 1];
}

/* STORE `last`, whose lanes lie `rows` apart, and those before it are all that a load takes of the buffer, in turns. */
static bool pl_in_turns(const kx_plan *p, kn_ref last, kn_ref load, int64_t at, int64_t rows) {
    int64_t count = 0, lanes = kg_numel(p->g, load), from, step;
    for (kn_ref s = last; s; s = p->value[s].part, count++) {
        pl_local(p, s, &from, &step);
        if (kg_numel(p->g, kg_at(p->g, s, 0)) != lanes || step != rows || !pl_same_run(p, s, load)) return false;
    }
    return count == rows && at % lanes == 0 && at < rows * lanes &&
           kx_interleaves(p->avx512, kg_dtype(p->g, load), (int)rows, lanes);
}

/* Two stores to one buffer meet nowhere, or have in common what one of them stores again as it is: runs, or rows of one
 * distance. */
static bool pl_apart(const kx_plan *p, kn_ref a, kn_ref b) {
    int64_t from, at, step, rows;
    pl_local(p, a, &from, &rows);
    pl_local(p, b, &at, &step);
    if (rows != step) return false;
    if (rows > 1) return from != at && from < rows && at < rows;
    if ((kg_node(p->g, a)->arg | kg_node(p->g, b)->arg) & KX_LAPS) return true;
    return at >= from + kg_numel(p->g, kg_at(p->g, a, 0)) || from >= at + kg_numel(p->g, kg_at(p->g, b, 0));
}

/* The STORE of buffer b that has so many lanes from `at` on, made in the same run of the list as the load. They are all
 * of it, a half, a quarter and so on: no instruction takes others. */
static kn_ref pl_store_with(const kx_plan *p, kn_ref b, kn_ref load, int64_t at, int64_t lanes) {
    for (kn_ref s = p->value[b].part; s; s = p->value[s].part) {
        int64_t from, step;
        pl_local(p, s, &from, &step);
        if (at >= from && at + lanes <= from + kg_numel(p->g, kg_at(p->g, s, 0)) && (at - from) % lanes == 0)
            return pl_same_run(p, s, load) ? s : 0;
    }
    return 0;
}

/* The STORE of whose lanes a load takes some, from `at` on, that are no half, quarter and so on of it; other: the one
 * behind it that has the rest of them, itself where there is none. */
static kn_ref pl_slid(const kx_plan *p, kn_ref b, kn_ref load, int64_t at, kn_ref *other) {
    int64_t lanes = kg_numel(p->g, load), from, step;
    for (kn_ref s = p->value[b].part; s; s = p->value[s].part) {
        int64_t n = kg_numel(p->g, kg_at(p->g, s, 0));
        pl_local(p, s, &from, &step);
        if (at < from || at >= from + n) continue;
        if (lanes < 2 || lanes > n || !pl_same_run(p, s, load)) return 0;
        if (!kx_slides(p->avx512, kg_dtype(p->g, load), n)) return 0;
        bool one = at + lanes <= from + n;
        kn_ref t = one ? s : pl_store_with(p, b, load, from + n, at + lanes - from - n);
        if (t && t != s) { /* one that laps over the first has the rest further on */
            int64_t begins;
            pl_local(p, t, &begins, &step);
            if (begins != from + n) return 0;
        }
        if (t && pl_puts_constant(p, t)) return 0;
        if (t && !kx_is_lanes(p->g, kg_at(p->g, t, 1)) && !kn_is_float(kg_dtype(p->g, load))) return 0;
        return *other = t, t ? s : 0;
    }
    return 0;
}

/* The STORE that has what a load from `at` on takes. Two: where it takes every second lane of as many, one behind the
 * other, all of both halves, or the last lanes of one and the first of the other. */
static kn_ref pl_store_of(const kx_plan *p, kn_ref b, kn_ref load, int64_t at, int64_t step, kn_ref *other) {
    int64_t lanes = kg_numel(p->g, load), from, rows = 1;
    kn_ref  last  = p->value[b].part;
    *other        = 0;
    if (last) pl_local(p, last, &from, &rows);
    if (rows > 1) return step == 1 && pl_in_turns(p, last, load, at, rows) ? last : 0;
    if (step == 2) {
        if (!kx_alternates(p->avx512, kg_dtype(p->g, load), lanes)) return 0;
        kn_ref s = pl_store_with(p, b, load, at & ~(int64_t)1, lanes);
        kn_ref t = s ? pl_store_with(p, b, load, (at & ~(int64_t)1) + lanes, lanes) : 0;
        bool   all = t && kg_numel(p->g, kg_at(p->g, s, 0)) == lanes && kg_numel(p->g, kg_at(p->g, t, 0)) == lanes;
        return *other = all ? t : 0, all ? s : 0;
    }
    kn_ref s = pl_store_with(p, b, load, at, lanes);
    if (s) return pl_puts_constant(p, s) ? 0 : s;
    bool   all = kx_joins(p->avx512, kg_dtype(p->g, load), lanes);
    kn_ref low = all ? pl_store_with(p, b, load, at, lanes / 2) : 0;
    kn_ref high = low ? pl_store_with(p, b, load, at + lanes / 2, lanes / 2) : 0;
    all = high && low != high;
    for (int k = 0; k < 2 && all; k++) all = kg_numel(p->g, kg_at(p->g, k ? high : low, 0)) == lanes / 2;
    return all ? (*other = high, low) : pl_slid(p, b, load, at, other);
}

/* Memory that is filled by whole registers, once each, and read by parts of one, by two as one, by every second lane
 * of two, or by runs of what lies in turns: the loads take them from there, and nothing is stored. Not where many lanes
 * are read one by one: memory does that better. */
static void pl_find_parts(kx_plan *p) {
    enum { STORES = 64 };
    const kn_graph *g = p->g;
    int64_t         at, step;
    kn_ref          other;
    for (uint32_t i = 0; i < p->n;
         i++) { /* of each buffer a chain of its STOREs; uses: what is not so simple, and loads */
        kn_ref x = p->list[i], b = pl_local(p, x, &at, &step);
        if (!b) continue;
        uint32_t *uses = &p->value[b].uses;
        if (kg_op(g, x) == KN_OP_LOAD) {
            bool ok = at >= 0 && p->value[b].part && *uses < KX_NO_PARTS && pl_store_of(p, b, x, at, step, &other);
            *uses   = ok ? *uses + 1 : KX_NO_PARTS;
            int most = ok ? KN_MAX(kx_rows_of(p, b), 2) : 0; /* the buffer's own chain starts with the last store */
            if (kg_field(g, b, KN_F_BUFFER_slot) >= KX_LOCALS && *uses > (uint32_t)most) *uses = KX_NO_PARTS;
            continue;
        }
        int m = 0;
        for (kn_ref s = p->value[b].part; s; s = p->value[s].part) m += pl_apart(p, s, x) ? 1 : STORES;
        kn_ref v    = kg_at(g, x, 1);
        bool   none = pl_puts_constant(p, x) && (kx_is_lanes(g, v) || !kn_is_float(kg_dtype(g, v))); /* in a register */
        if (at < 0 || m >= STORES || *uses || none) *uses = KX_NO_PARTS;
        p->value[x].part = p->value[b].part;
        p->value[b].part = x;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], b = kg_op(g, x) == KN_OP_LOAD ? pl_local(p, x, &at, &step) : 0;
        if (!b || p->value[b].uses >= KX_NO_PARTS) continue;
        p->value[x].part  = pl_store_of(p, b, x, at, step, &other);
        p->value[x].other = other;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], b = kg_op(g, x) == KN_OP_STORE ? pl_local(p, x, &at, &step) : 0;
        if (b && p->value[b].uses >= KX_NO_PARTS) p->value[b].part = 0;
    }
}

static bool pl_is_effect(const kx_plan *p, kn_ref n) {
    int op = kg_op(p->g, n);
    if (op == KN_OP_STORE) return !p->value[kx_root_of(p->g, kg_at(p->g, n, 0))].part;
    return op == KN_OP_PREFETCH || op == KN_OP_END || pl_is_loop(p->g, n);
}

/* The CAST to f16 of lanes that the STORE alone takes, to memory, which rounds; 0: there is none. */
static kn_ref pl_rounded_there(const kx_plan *p, kn_ref store) {
    const kn_graph *g = p->g;
    kn_ref          x = kg_at(g, store, 1);
    bool            cast = kg_op(g, x) == KN_OP_INS && kg_field(g, x, KN_F_INS_op) == KN_OP_CAST;
    if (!cast || kg_dtype(g, x) != KN_F16 || !kx_is_lanes(g, x) || p->value[x].uses != 1) return 0;
    bool memory = pl_is_effect(p, store) && !kx_is_cell(g, kg_at(g, store, 0)); /* an effect: no register has it */
    return memory ? x : 0;
}

static void pl_count_uses(kx_plan *p) {
    kn_ref o[KX_MAX_OPERANDS];
    for (uint32_t i = p->n; i-- > 0;) {
        kn_ref x = p->list[i];
        if (pl_is_effect(p, x)) p->value[x].needed = true;
        if (!p->value[x].needed) continue;
        p->value[x].step    = pl_is_step(p, x);
        p->value[x].turned  = pl_turns(p, x);
        p->value[x].inverts = pl_inverts(p, x);
        int m = kx_operands(p, x, o);
        for (int k = 0; k < m; k++) {
            p->value[o[k]].needed = true;
            p->value[o[k]].uses++;
        }
    }
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = kg_op(p->g, p->list[i]) == KN_OP_STORE ? pl_rounded_there(p, p->list[i]) : 0;
        if (x) p->value[x].unrounded = true;
    }
}

/* What x gives, or stores, has no bit that hangs on what src has above its own. */
static bool pl_takes_low(const kx_plan *p, kn_ref x, kn_ref src) {
    const kn_graph *g = p->g;
    const kx_value *v = &p->value[x];
    if (kg_op(g, x) == KN_OP_LOAD && kx_is_cell(g, kg_at(g, x, 0))) return !v->whole;
    if (kg_op(g, x) == KN_OP_STORE) {
        kn_ref place = kg_at(g, x, 0);
        return src == kg_at(g, x, 1) && (!kx_is_cell(g, place) || !p->value[kx_root_of(g, place)].whole);
    }
    if (kg_op(g, x) != KN_OP_INS || v->turned || v->inverts || v->step) return false;
    int op = kx_op(g, x), dt = kg_dtype(g, src);
    if (kx_compares(op)) return kx_compares_low(dt);
    if (dt != kg_dtype(g, x)) return false;
    switch (op) {
    case KN_OP_MAX:
    case KN_OP_MIN: return kx_compares_low(dt);
    case KN_OP_NEG:
    case KN_OP_NOT: return dt != KN_BOOL;
    case KN_OP_ADD:
    case KN_OP_SUB:
    case KN_OP_MUL:
    case KN_OP_MULACC:
    case KN_OP_AND:
    case KN_OP_OR:
    case KN_OP_XOR: return true;
    default: return false;
    }
}

/* Integers of which something looks at what a register has above their bits; of others that need not be set. A sum's
 * accumulator is looked at before and behind what is stored to it: it takes another pass, if it turns out to be one. */
static void pl_find_whole(kx_plan *p) {
    const kn_graph *g = p->g;
    kn_ref          o[KX_MAX_OPERANDS];
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = p->n; i-- > 0;) {
            kn_ref x = p->list[i];
            if (!p->value[x].needed) continue;
            int m = kx_operands(p, x, o);
            for (int k = 0; k < m; k++) {
                if (pl_takes_low(p, x, o[k])) continue;
                again |= kg_op(g, o[k]) == KN_OP_BUFFER && !p->value[o[k]].whole;
                p->value[o[k]].whole = true;
            }
        }
    }
}

static bool pl_plain_load(const kx_plan *p, kn_ref n) {
    kx_spot a;
    if (kg_op(p->g, n) != KN_OP_LOAD || kg_nsrc(p->g, n) > 1 || kx_is_cell(p->g, kg_at(p->g, n, 0))) return false;
    if (p->value[n].part) return false;
    if (kn_is_float(kg_dtype(p->g, n)) && kn_dsize(kg_dtype(p->g, n)) < 4) return false; /* converted on its way */
    kx_address_of(p->g, kg_at(p->g, n, 0), &a);
    return a.step == 1 && !a.places;
}

/* Lanes that one instruction converts on their way from memory. */
static bool pl_converts(const kx_plan *p, int dt, int st) {
    int d = kn_dsize(dt), s = kn_dsize(st);
    if (dt == KN_BOOL || st == KN_BOOL || dt == KN_INDEX || st == KN_INDEX) return false;
    if (kn_is_float(dt) && kn_is_float(st)) return d >= 4 && s >= 4 && d != s;
    if (kn_is_float(dt)) return d >= 4 && s >= 4 && (p->avx512 || st == KN_I32);
    return !kn_is_float(st) && d > s;
}

/* A choice whose condition its own loop makes: lanes that are not chosen need not be read, nor lines of nothing else.
 * By a mask that stands they are read each time, which took longer where it was measured. */
static bool pl_asks_each_time(const kx_plan *p, kn_ref choice) {
    uint32_t asked = p->value[kg_at(p->g, choice, 0)].at, at = p->value[choice].at;
    return asked && at && p->loop_of[asked - 1] == p->loop_of[at - 1];
}

/* The operand of n that may be memory. */
static int pl_memory_operand(const kx_plan *p, kn_ref n, int k) {
    const kn_graph *g  = p->g;
    int             dt = kg_dtype(g, n), op = kx_op(g, n), st = kg_dtype(g, kg_at(g, n, 0));
    bool            fl = kn_is_float(dt) && kn_dsize(dt) >= 4, lanes = kx_is_lanes(g, n);
    if (kg_op(g, n) != KN_OP_INS) return 0;
    if (op == KN_OP_CAST && lanes && kx_is_lanes(g, kg_at(g, n, 0))) return pl_converts(p, dt, st);
    if (op == KN_OP_CAST && !lanes && !kn_is_float(st)) return fl && (st == KN_I32 || st == KN_I64);
    if (op == KN_OP_CAST) return lanes && st == dt && kn_dsize(dt) >= 4 && dt != KN_BOOL;
    if (kn_is_int(dt) && !lanes) return 0;
    if (lanes && p->avx512 && kx_compares(op)) return kn_dsize(st) >= 4 && st != KN_INDEX; /* from either side */
    bool ints = lanes && kn_is_int(dt) && dt != KN_BOOL, first = lanes && fl && k == 0; /* factors change places */
    switch (op) {
    case KN_OP_MUL: return (fl && k == 1) || first || (ints && (kn_dsize(dt) == 2 || kn_dsize(dt) == 4) && k < 2);
    case KN_OP_ADD: return (fl && k == 1) || first || (ints && k < 2);
    case KN_OP_MAX:
    case KN_OP_MIN: return ints && (p->avx512 || kn_dsize(dt) < 8) && k < 2;
    case KN_OP_SUB: return (fl || ints) && k == 1;
    case KN_OP_AND:
    case KN_OP_OR:
    case KN_OP_XOR: return ints && k == 1 && !p->value[n].turned;
    case KN_OP_DIV: return fl && k == 1;
    case KN_OP_MULACC: return (fl && k == 1) || first;
    case KN_OP_WHERE: return (fl || ints) && lanes && k == 1 && p->avx512 && pl_asks_each_time(p, n);
    default: return 0;
    }
}

static bool pl_repeats(const kx_plan *p, kn_ref n) { /* a scalar, over lanes of a whole register and more */
    const kn_graph *g = p->g;
    if (!p->value[n].needed || kg_op(g, n) != KN_OP_INS || kx_op(g, n) != KN_OP_CAST) return false;
    kn_ref s = kg_at(g, n, 0);
    return kx_is_lanes(g, n) && !kx_is_lanes(g, s) && kg_op(g, s) != KN_OP_CONST && pl_memory_operand(p, n, 0);
}

enum {
    BESIDE = 2, /* vector registers, for what a loop has beside sums and repetitions */
    WIDTHS = 4  /* loads of a scalar for as many numbers of lanes cost less than shuffles */
};

/* It is repeated over x's lanes as it is read, and x is a name of it. */
static void pl_repeat_as_read(kx_plan *p, kn_ref s, kn_ref x) {
    p->value[s].repeated = (uint8_t)KN_MAX((int)p->value[s].repeated, kx_vec_bytes(p, x));
    p->value[x].same     = s;
    p->value[x].low      = true;
}

/* A scalar that innermost loops read, and both repeat over lanes and take as it is, is repeated as it is read: no
 * shuffle is needed then, and no second register. */
static void pl_repeat_loads(kx_plan *p) {
    const kn_graph *g = p->g;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], s = pl_repeats(p, x) ? kg_at(g, x, 0) : 0;
        if (s && p->value[s].at && p->loop_of[p->value[s].at - 1] == p->loop_of[i]) p->value[s].spread++;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], s = pl_repeats(p, x) ? kg_at(g, x, 0) : 0;
        int    l = p->loop_of[i];
        if (!s || l < 0 || !p->loop[l].inner || !pl_plain_load(p, s) || !kn_is_float(kg_dtype(g, s))) continue;
        if (p->value[s].spread >= p->value[s].uses || p->loop_of[p->value[s].at - 1] != l) continue;
        pl_repeat_as_read(p, s, x);
    }
    for (uint32_t i = 0; i < p->n; i++) p->value[p->list[i]].spread = 0;
}

/* A scalar that innermost loops repeat over lanes twice: the fewer are the low ones of a register that has the more,
 * and it is read once, as it is read where the more come second. As long as there are registers for what then lives
 * until there. */
static bool pl_share_lanes(kx_plan *p) {
    const kn_graph *g                  = p->g;
    kn_ref         *wide               = kn_zalloc(kg_alloc(g), p->size * sizeof *wide); /* of a scalar, the first */
    bool           *shared             = kn_zalloc(kg_alloc(g), p->size * sizeof *shared);
    bool            ok                 = (wide && shared) || kn_oom(p->f);
    int             held[KX_MAX_LOOPS] = {0};
    for (int count = 1; count >= 0 && ok; count--)
        for (uint32_t i = 0; i < p->n; i++) {
            kn_ref x = p->list[i];
            int    l = p->loop_of[i];
            if (l < 0 || !p->loop[l].inner) continue;
            if (count && kg_op(g, x) == KN_OP_STORE && kx_is_cell(g, kg_at(g, x, 0))) held[l]++;
            if (!pl_repeats(p, x) || p->value[x].low) continue;
            kn_ref   s = kg_at(g, x, 0), y = wide[s];
            uint32_t at  = y ? p->value[y].at : 0;
            bool     both = y && i >= at && p->loop_of[at - 1] == l;
            bool     low  = both && kg_numel(g, x) < kg_numel(g, y), high = both && kg_numel(g, x) > kg_numel(g, y);
            high &= kn_is_float(kg_dtype(g, s)) && pl_plain_load(p, s) && p->loop_of[p->value[s].at - 1] == l;
            if (!low) wide[s] = x;
            if ((low || high) && count) held[l] += !shared[s], shared[s] = true;
            if (!(low || high) || count || held[l] + BESIDE > kx_vectors(p, p->tight)) continue;
            if (low)
                p->value[x].same = y, p->value[x].low = true, p->value[y].uses++, p->value[s].uses--;
            else
                pl_repeat_as_read(p, s, x), pl_repeat_as_read(p, s, y);
        }
    kn_free(kg_alloc(g), wide, p->size * sizeof *wide);
    kn_free(kg_alloc(g), shared, p->size * sizeof *shared);
    return ok;
}

/* One operand an instruction: a load of one use in the same loop, or its repetition over lanes; a scalar that is only
 * repeated is loaded again for each number of lanes, which costs less than to shuffle it. */
static void pl_fold_loads(kx_plan *p) {
    const kn_graph *g = p->g;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], s = kg_op(g, x) == KN_OP_INS && kx_op(g, x) == KN_OP_CAST ? kg_at(g, x, 0) : 0;
        if (s && kx_is_lanes(g, x) && p->value[x].needed && !p->value[x].low && pl_memory_operand(p, x, 0) &&
            p->value[s].at)
            p->value[s].spread += p->loop_of[p->value[s].at - 1] == p->loop_of[i];
    }
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i];
        if (!p->value[x].needed || p->value[x].low || kg_op(g, x) != KN_OP_INS) continue;
        for (uint32_t k = 0; k < kg_nsrc(g, x); k++) {
            kn_ref   s = kg_at(g, x, k), l = s;
            uint32_t uses = p->value[s].uses;
            if (!pl_memory_operand(p, x, (int)k) || !p->value[s].at || p->value[s].low) continue;
            if (uses != 1 && (uses > WIDTHS || p->value[s].spread != uses)) continue;
            bool repeats = kg_op(g, s) == KN_OP_INS && kx_op(g, s) == KN_OP_CAST && kx_is_lanes(g, s) &&
                           !kx_is_lanes(g, kg_at(g, s, 0)) && p->value[kg_at(g, s, 0)].folded;
            bool alone = kx_op(g, x) == KN_OP_CAST || kx_op(g, x) == KN_OP_WHERE; /* of whole registers */
            if (repeats && (!p->avx512 || alone)) continue;
            if (!repeats && !pl_plain_load(p, l)) continue;
            if (p->loop_of[p->value[s].at - 1] != p->loop_of[i]) continue;
            if (!repeats && kx_is_lanes(g, s) && kg_numel(g, s) * kn_dsize(kg_dtype(g, s)) < 16) continue;
            p->value[s].folded = true;
            break;
        }
    }
}

/* The PARAM that an access of memory is to, and the step of an innermost loop that it is reached by, if any. 0: not one
 * of those that pl_find_pointers looks at. */
static kn_ref pl_access(const kx_plan *p, kn_ref x, kn_ref *step, bool *plain) {
    const kn_graph *g = p->g;
    kx_spot         a;
    int             op = kg_op(g, x);
    if (!p->value[x].needed || (op != KN_OP_LOAD && op != KN_OP_STORE && op != KN_OP_PREFETCH)) return 0;
    if (kx_is_cell(g, kg_at(g, x, 0)) || p->value[x].part) return 0;
    kx_address_of(g, kg_at(g, x, 0), &a);
    if (kg_op(g, a.storage) != KN_OP_PARAM) return 0;
    bool is_step = a.off && a.times == 1 && p->value[a.off].step && p->loop[p->loop_of[p->value[a.off].at - 1]].inner;
    *step        = is_step ? a.off : 0;
    *plain       = !a.off && !a.places;
    return a.storage;
}

/* Which PARAMs could be distances from another: all that reaches them is a step that is an address in that one, or no
 * index, and both have elements of one size. The others are marked. */
static void pl_find_distances(kx_plan *p) {
    const kn_graph *g = p->g;
    kn_ref          s, st;
    bool            plain;
    for (uint32_t i = 0; i < p->n; i++)
        if (kg_op(g, p->list[i]) == KN_OP_PARAM) p->value[p->list[i]].pointer = 0, p->value[p->list[i]].fixed = false;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!(st = pl_access(p, p->list[i], &s, &plain))) continue;
        kn_ref    from = s ? p->value[s].pointer : 0;
        kx_value *v    = &p->value[st];
        if (from) p->value[from].fixed = true;
        if (from == st) continue;
        v->fixed |= (!from && !plain) || (from && v->pointer && v->pointer != from) ||
                    (from && kn_dsize(kg_dtype(g, from)) != kn_dsize(kg_dtype(g, st)));
        if (from) v->pointer = from;
    }
}

/* Arithmetic whose operand is memory at a base and an index counts twice where instructions are issued (measured on
 * Intel, docs/decisions.md): the step of an innermost loop that has such users is an address in their PARAM, and other
 * PARAMs that it reaches are their distances from that one. */
static void pl_find_pointers(kx_plan *p) {
    kn_ref s, st;
    bool   plain;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!(st = pl_access(p, p->list[i], &s, &plain)) || !s) continue;
        p->value[s].places++;
        if (p->value[p->list[i]].folded && !p->value[s].pointer) p->value[s].pointer = st;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        kx_value *v = &p->value[p->list[i]];
        if (v->places != v->uses) v->pointer = 0;
    }
    for (bool changed = true; changed;) {
        changed = false;
        pl_find_distances(p);
        for (uint32_t i = 0; i < p->n; i++) {
            if (!(st = pl_access(p, p->list[i], &s, &plain)) || !s || !p->value[s].pointer) continue;
            kn_ref from = p->value[s].pointer;
            if (st == from || (p->value[st].pointer == from && !p->value[st].fixed)) continue;
            p->value[s].pointer = 0;
            changed             = true;
        }
    }
}

static bool pl_compares(const kn_graph *g, kn_ref n) { /* lanes, to a mask */
    int op = kg_op(g, n) == KN_OP_INS ? kx_op(g, n) : KN_OP_INVALID;
    return kx_compares(op) && kx_is_lanes(g, n) && kg_dtype(g, kg_at(g, n, 0)) != KN_BOOL;
}

static bool pl_stands_in(const kx_plan *p, kn_ref s, uint32_t user) { /* it may: its one use, in the same loop */
    return p->value[s].uses == 1 && p->value[s].at && p->loop_of[p->value[s].at - 1] == p->loop_of[user];
}

/* One instruction, of lanes that have a bit each under a mask. */
static bool pl_is_masked(const kx_plan *p, kn_ref s) {
    const kn_graph *g = p->g;
    if (kg_op(g, s) != KN_OP_INS || !kx_is_lanes(g, s) || p->value[s].step || p->value[s].turned) return false;
    int  dt = kg_dtype(g, s);
    bool fl = kn_is_float(dt);
    if (kn_dsize(dt) < 4 || dt == KN_INDEX) return false;
    switch (kx_op(g, s)) {
    case KN_OP_ADD:
    case KN_OP_SUB: return true;
    case KN_OP_MUL:
    case KN_OP_DIV:
    case KN_OP_MULACC: return fl;
    case KN_OP_AND:
    case KN_OP_OR:
    case KN_OP_XOR: return !fl;
    default: return false;
    }
}

/* AVX-512 works under a mask: a comparison of one use stands in its AND, and arithmetic in the choice of its lanes. */
static void pl_fold_masks(kx_plan *p) {
    const kn_graph *g = p->g;
    for (uint32_t i = 0; i < p->n && p->avx512; i++) {
        kn_ref x = p->list[i];
        if (!p->value[x].needed || kg_op(g, x) != KN_OP_INS || !kx_is_lanes(g, x)) continue;
        bool choice = kx_op(g, x) == KN_OP_WHERE && kg_op(g, kg_at(g, x, 0)) != KN_OP_CONST;
        if (!choice && (kx_op(g, x) != KN_OP_AND || kg_dtype(g, x) != KN_BOOL)) continue;
        for (uint32_t k = choice; k < 2 && !p->value[x].under; k++) {
            kn_ref s = kg_at(g, x, k);
            if (!pl_stands_in(p, s, i)) continue;
            if (choice ? !pl_is_masked(p, s) : !pl_compares(g, s) && !p->value[s].inverts) continue;
            p->value[s].folded = true;
            p->value[x].under  = (uint8_t)(k + 1);
        }
    }
}

/* Flags become a mask at once: a comparison of scalars that is only repeated stands in the repetition. */
static void pl_fold_flags(kx_plan *p) {
    const kn_graph *g = p->g;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], s;
        if (!p->value[x].needed || kg_op(g, x) != KN_OP_INS || kx_op(g, x) != KN_OP_CAST) continue;
        if (!kx_is_lanes(g, x) || kg_dtype(g, x) != KN_BOOL || kg_op(g, s = kg_at(g, x, 0)) != KN_OP_INS) continue;
        if (pl_stands_in(p, s, i)) p->value[s].folded = kx_compares_integers(g, s);
    }
}

/* A scalar gate of two conditions is one test of both. */
static void pl_fold_gates(kx_plan *p) {
    const kn_graph *g = p->g;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], s = kg_nsrc(g, x) == 3 ? kg_at(g, x, 2) : 0;
        if (!p->value[x].needed || (kg_op(g, x) != KN_OP_LOAD && kg_op(g, x) != KN_OP_STORE)) continue;
        if (kx_is_lanes(g, s) || kg_op(g, s) != KN_OP_INS || kx_op(g, s) != KN_OP_AND) continue;
        p->value[s].folded |= pl_stands_in(p, s, i);
    }
}

static bool pl_gathers(const kx_plan *p, kn_ref load) {
    kx_spot a;
    if (kx_is_cell(p->g, kg_at(p->g, load, 0))) return false;
    kx_address_of(p->g, kg_at(p->g, load, 0), &a);
    return a.places != 0;
}

bool kx_writes_early(const kx_plan *p, kn_ref n) {
    const kn_graph *g  = p->g;
    int             op = kx_op(g, n), dt = kg_dtype(g, n);
    if (kg_op(g, n) == KN_OP_LOAD)
        return kg_nsrc(g, n) > 1 || kx_rows_of(p, n) > 1 || (kx_is_lanes(g, n) && pl_gathers(p, n));
    if (kg_op(g, n) != KN_OP_INS) return false;
    bool fl = kn_is_float(dt), lanes = kx_is_lanes(g, n);
    switch (op) {
    case KN_OP_ADD:
    case KN_OP_SUB:
    case KN_OP_DIV: return fl && kn_dsize(dt) < 4;
    case KN_OP_MUL:
        if (fl) return kn_dsize(dt) < 4;
        return lanes && (kn_dsize(dt) == 1 || (kn_dsize(dt) == 8 && !p->avx512));
    case KN_OP_MULACC: return fl && kn_dsize(dt) < 4;
    case KN_OP_AND:
    case KN_OP_OR:
    case KN_OP_XOR: return false;
    case KN_OP_CAST: return fl || kn_is_float(kg_dtype(g, kg_at(g, n, 0))) || dt == KN_BOOL;
    case KN_OP_NOT: return p->value[n].inverts;
    case KN_OP_NEG:
    case KN_OP_SHL: return false;
    case KN_OP_SHR: return lanes && dt == KN_I64 && !p->avx512;
    case KN_OP_WHERE: return !lanes || !p->avx512;
    case KN_OP_MAX:
    case KN_OP_MIN: return fl || (lanes && kn_dsize(dt) == 8 && !p->avx512);
    default: return true;
    }
}

/* ---- names of accumulators ------------------------------------------------------------------------------------- */

/* Vectors that are read as another dtype are the same register, and integers of eight bytes: shorter ones are extended
 * by their dtype. A cell's load has a name already, or is a copy. */
static void pl_name_bits(kx_plan *p) {
    const kn_graph *g = p->g;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], s = kg_op(g, x) == KN_OP_BITCAST ? kg_at(g, x, 0) : 0;
        if (!s || !p->value[x].needed || !p->value[s].at || p->value[s].folded || p->value[s].step) continue;
        if (kg_op(g, s) == KN_OP_LOAD && kx_is_cell(g, kg_at(g, s, 0))) continue;
        bool    whole = (kg_op(g, s) == KN_OP_INS || kg_op(g, s) == KN_OP_LOAD) && kn_dsize(kg_dtype(g, x)) == 8;
        kx_bank bank = pl_bank_of(p, x);
        if (bank != pl_bank_of(p, s)) continue;
        if (bank == KX_BANK_VEC ? kx_vec_bytes(p, x) == kx_vec_bytes(p, s) : bank == KX_BANK_GP && whole)
            p->value[x].same = s;
    }
}

enum { NEAR_CELL = 16 /* places: what is looked through between a value and its use */ };

/* Whether v, whose one use is at place `user`, can be made in the cell's register; `last` and `named` as below. */
static bool pl_fits_cell(const kx_plan *p, kn_ref v, uint32_t user, kn_ref cell, const uint32_t *last,
                         const kn_ref *named, uint32_t count) {
    const kn_graph *g = p->g;
    kn_ref          o[KX_MAX_OPERANDS], y = p->list[user];
    uint32_t        at = p->value[v].at;
    int             op = v ? kg_op(g, v) : KN_OP_INVALID;
    bool            chain = kg_op(g, y) != KN_OP_STORE, read = chain && kx_writes_early(p, y);
    if ((op != KN_OP_INS && op != KN_OP_LOAD) || !at || user - at > NEAR_CELL) return false;
    if (p->value[v].same || p->value[v].step || p->value[v].uses != 1) return false;
    if (p->loop_of[at - 1] != p->loop_of[user]) return false;
    if (chain && (p->value[v].folded || op != KN_OP_INS || kg_numel(g, v) != kg_numel(g, y))) return false;
    for (int m = kx_writes_early(p, v) ? kx_operands(p, v, o) : 0; m-- > 0;) read |= kx_name(p, o[m]) == cell;
    for (uint32_t j = at; j < user + chain && !read; j++) {
        y = p->list[j];
        if (!p->value[y].needed || p->value[y].folded) continue;
        int m = kx_operands(p, y, o);
        for (int k = 0; k < m; k++) read |= kx_name(p, o[k]) == cell;
        if (kg_op(g, y) == KN_OP_STORE) read |= kx_root_of(g, kg_at(g, y, 0)) == cell;
    }
    /* a load that was named before it and is read behind its making */
    for (uint32_t j = 0; j < count && p->value[named[j]].at < at && !read; j++)
        read = p->value[named[j]].same == cell && last[named[j]] >= at && (chain || last[named[j]] != user);
    return !read;
}

/* The sum that v goes on with, in its register; 0: v is none, or of those that need not be in one. */
static kn_ref pl_continues(const kn_graph *g, kn_ref v) {
    return kg_op(g, v) == KN_OP_INS && kx_op(g, v) == KN_OP_MULACC ? kg_at(g, v, 2) : 0;
}

/* Loads of a cell are its register, unless it is overwritten while they are still read; what is stored in a cell is
 * made in its register, if nothing reads the cell in between. */
static bool pl_name_cells(kx_plan *p) {
    const kn_graph *g = p->g;
    kn_ref          o[KX_MAX_OPERANDS];
    uint32_t       *last  = kn_zalloc(kg_alloc(g), p->size * sizeof *last); /* of a load: its last use, as a place */
    kn_ref         *named = kn_zalloc(kg_alloc(g), (p->n + 1) * sizeof *named); /* the loads that have been, in order */
    bool            ok    = (last && named) || kn_oom(p->f);
    uint32_t        count = 0;
    if (!ok) goto done;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i];
        if (!p->value[x].needed || p->value[x].folded) continue;
        int m = kx_operands(p, x, o);
        for (int k = 0; k < m; k++) {
            uint32_t at = i;
            if (p->value[x].step) at = p->loop[pl_loop_numbered(p, kg_at(g, x, 0))].open;
            last[o[k]] = KN_MAX(last[o[k]], at);
        }
    }
    for (uint32_t i = 0; i < p->n; i++) { /* loads */
        kn_ref x = p->list[i];
        if (kg_op(g, x) != KN_OP_LOAD || !p->value[x].needed || !kx_is_cell(g, kg_at(g, x, 0))) continue;
        kn_ref cell = kx_root_of(g, kg_at(g, x, 0));
        bool   over = false;
        for (uint32_t j = i + 1; j < last[x] && !over; j++)
            over = kg_op(g, p->list[j]) == KN_OP_STORE && kx_root_of(g, kg_at(g, p->list[j], 0)) == cell;
        if (over) continue;
        p->value[x].same = cell;
        last[cell]       = KN_MAX(last[cell], last[x]);
        named[count++]   = x;
    }
    for (uint32_t i = 0; i < p->n; i++) { /* stores, and what a chain of sums makes on its way to one */
        kn_ref x = p->list[i];
        if (kg_op(g, x) != KN_OP_STORE || !kx_is_cell(g, kg_at(g, x, 0))) continue;
        kn_ref   cell = kx_root_of(g, kg_at(g, x, 0));
        uint32_t user = i;
        for (kn_ref v = kg_at(g, x, 1); pl_fits_cell(p, v, user, cell, last, named, count); v = pl_continues(g, v)) {
            p->value[v].same = cell;
            user             = p->value[v].at - 1;
        }
    }
done:
    kn_free(kg_alloc(g), last, p->size * sizeof *last);
    kn_free(kg_alloc(g), named, (p->n + 1) * sizeof *named);
    return ok;
}

/* ---- intervals ------------------------------------------------------------------------------------------------- */

static void pl_touch(kx_plan *p, kn_ref n, int32_t at, int place_loop) {
    kn_ref    v   = kx_name(p, n);
    kx_value *x   = &p->value[v];
    int32_t   end = at;
    double    w   = 1;
    for (int l = place_loop; l >= 0; l = p->loop[l].parent) {
        w *= 8;
        if ((int32_t)(2 * p->loop[l].open) > x->start || x->start < 0) /* defined outside: lives through it */
            end = KN_MAX(end, (int32_t)(2 * p->loop[l].close + 1));
    }
    x->end = KN_MAX(x->end, end);
    x->weight += w;
}

static void pl_define(kx_plan *p, kn_ref n, int32_t at, int place_loop) {
    kn_ref    v = kx_name(p, n);
    kx_value *x = &p->value[v];
    if (x->bank == KX_BANK_NONE) {
        x->bank  = (uint8_t)pl_bank_of(p, v);
        x->bytes = (uint8_t)KN_MAX(kx_vec_bytes(p, v), (int)x->repeated);
        x->start = at;
        x->end   = at;
    }
    pl_touch(p, n, at, place_loop);
}

static void pl_find_intervals(kx_plan *p) {
    const kn_graph *g = p->g;
    kn_ref          o[KX_MAX_OPERANDS];
    for (uint32_t i = 0; i < p->n; i++)
        if (kg_op(g, p->list[i]) == KN_OP_PARAM && p->value[p->list[i]].needed) pl_define(p, p->list[i], -1, -1);
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i];
        int    l = p->loop_of[i], op = kg_op(g, x);
        if (!p->value[x].needed || p->value[x].folded || op == KN_OP_PARAM || op == KN_OP_BUFFER) continue;
        int32_t at = (int32_t)(2 * i);
        if (op == KN_OP_RANGE) { /* what its steps start from is read before it opens, and they live through it */
            int own = pl_loop_numbered(p, x);
            int m   = kx_operands(p, x, o);
            for (int k = 0; k < m; k++) pl_touch(p, o[k], at, l);
            pl_define(p, x, at, l);
            pl_touch(p, x, (int32_t)(2 * p->loop[own].close), own);
            for (uint32_t j = i; j < p->loop[own].close; j++) {
                kn_ref s = p->list[j];
                if (!p->value[s].step || p->value[s].folded || !p->value[s].needed || kg_at(g, s, 0) != x) continue;
                m = kx_operands(p, s, o);
                for (int k = 0; k < m; k++) pl_touch(p, o[k], at + 1, l); /* other steps are set while it is read */
                pl_define(p, s, at, l);
                pl_touch(p, s, (int32_t)(2 * p->loop[own].close), own);
            }
            continue;
        }
        if (p->value[x].step) continue;
        int m = kx_operands(p, x, o);
        if (op == KN_OP_END) l = pl_loop_numbered(p, kg_at(g, x, 1));
        for (int k = 0; k < m; k++) pl_touch(p, o[k], at, l);
        if (op == KN_OP_STORE && kx_is_cell(g, kg_at(g, x, 0)))
            pl_define(p, kx_root_of(g, kg_at(g, x, 0)), at, l);
        else if (op != KN_OP_STORE && op != KN_OP_PREFETCH && op != KN_OP_END)
            pl_define(p, x, kx_writes_early(p, x) ? at - 1 : at, l);
    }
}

/* Bytes of a lane of a mask that AVX2 holds: as many as its most lanes leave it, four at most. */
static void pl_find_flag(kx_plan *p) {
    const kn_graph *g    = p->g;
    int64_t         most = 8;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i], at = kg_op(g, x) == KN_OP_STORE ? kg_at(g, x, 0) : x;
        bool   is = at != x || kg_op(g, x) == KN_OP_INS || kg_op(g, x) == KN_OP_LOAD;
        if (is && kg_dtype(g, at == x ? x : kg_at(g, x, 1)) == KN_BOOL) most = KN_MAX(most, kg_numel(g, at));
    }
    p->flag = (int)KN_MAX(32 / most, 1);
}

bool kx_plan_make(kx_plan *p, const kn_graph *g, kn_ref linear, const kt_choice *c, kn_fault *f) {
    memset(p, 0, sizeof *p);
    p->g       = g;
    p->list    = kg_src(g, linear);
    p->n       = kg_nsrc(g, linear);
    p->f       = f;
    p->avx512  = c->level == KX_AVX512;
    p->regs    = c->regs;
    p->tight   = c->regs != 0;
    p->size    = kg_count(g);
    p->value   = kn_zalloc(kg_alloc(g), p->size * sizeof *p->value);
    p->loop_of = kn_zalloc(kg_alloc(g), (p->n + 1) * sizeof *p->loop_of);
    bool ok    = (p->value && p->loop_of) || kn_oom(f);
    for (size_t i = 0; ok && i < p->size; i++) {
        p->value[i].bank = KX_BANK_NONE;
        p->value[i].reg  = -1;
        p->value[i].slot = -1;
    }
    ok = ok && pl_find_loops(p);
    if (ok) {
        pl_find_flag(p);
        pl_find_parts(p);
        pl_count_uses(p);
        kx_find_blocks(p);
        pl_find_whole(p);
        pl_fold_masks(p);
        pl_fold_flags(p);
        pl_fold_gates(p);
    }
    if (ok) pl_repeat_loads(p);
    ok = ok && pl_share_lanes(p);
    if (ok) {
        pl_fold_loads(p);
        kx_fold_logic(p);
        pl_find_pointers(p);
        kx_fold_copies(p);
    }
    if (ok) pl_name_bits(p);
    ok = ok && pl_name_cells(p);
    if (ok) pl_find_intervals(p);
    ok = ok && kx_give_registers(p) && kx_hold_constants(p);
    if (!ok) kx_plan_free(p);
    return ok;
}

void kx_plan_free(kx_plan *p) {
    kn_free(kg_alloc(p->g), p->value, p->size * sizeof *p->value);
    kn_free(kg_alloc(p->g), p->loop_of, (p->n + 1) * sizeof *p->loop_of);
    kn_free(kg_alloc(p->g), p->split, p->split_cap * sizeof *p->split);
    kn_free(kg_alloc(p->g), p->move, p->move_cap * sizeof *p->move);
    p->value   = NULL;
    p->loop_of = NULL;
}
