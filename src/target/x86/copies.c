/* copies.c - of x86-64: what is loaded to be stored again goes through a general register.
 *
 * Two, four or eight bytes, as pieces of short rows are, take a vector register as any lanes do; but some processors
 * store from general registers twice as often. Takes a plan whose values have no registers yet, and whose other folds
 * are made; such a LOAD stands in its STORE then, and takes no register of the plan's. Writes both: of copies that
 * follow one another as many as there are registers for scratch are read before any of them is written, and those that
 * do so in memory as well go together through a register of vectors. So do short pieces of one constant. Where its gate
 * is false a LOAD is 0 here, which is made on a detour. */
#include "target/x86/emit.h"
#include "target/x86/plan.h"

enum { COPY_MAX = 8, ROW_MAX = 8 /* copies: a register */, FILL_LEAST = 4, FILLS_MAX = 64 / FILL_LEAST };

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

/* The copies from the one in hand on, up to `most`, that can all be read before any is written; their places. */
static int cp_together(const kx_writer *e, kn_ref *store, int most, uint32_t *place) {
    const kx_plan *p = e->p;
    int            n = 0;
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
        store[n]   = x;
        place[n++] = j;
        if (!free) break;
    }
    return n;
}

/* Place b is so many bytes behind a. */
static bool cp_follows(const kx_plan *p, kn_ref a, kn_ref b, int64_t bytes) {
    kx_spot s, t;
    kx_address_of(p->g, a, &s);
    kx_address_of(p->g, b, &t);
    return s.storage == t.storage && s.off == t.off && s.times == t.times &&
           (t.disp - s.disp) * kn_dsize(kg_dtype(p->g, s.storage)) == bytes;
}

/* Of so many pieces in a row those that a register takes; 1: they do not fill sixteen bytes. */
static int cp_fit(const kx_writer *e, int row, int64_t bytes) {
    int fit = 1;
    while (2 * fit <= row && 2 * fit * bytes <= (e->avx512 ? 64 : 32)) fit *= 2;
    return fit * bytes >= 16 ? fit : 1;
}

/* How many of them are one row where they are read and where they are written, and fill a register. */
static int cp_row(const kx_writer *e, const kn_ref *store, int n) {
    const kn_graph *g     = e->g;
    int64_t         bytes = cp_bytes(e->p, store[0]);
    int             row   = 1;
    for (; row < n && cp_bytes(e->p, store[row]) == bytes; row++) {
        kn_ref from[2], to[2];
        for (int k = 0; k < 2; k++) {
            to[k]   = kg_at(g, store[k ? row : 0], 0);
            from[k] = kg_at(g, kg_at(g, store[k ? row : 0], 1), 0);
        }
        if (!cp_follows(e->p, from[0], from[1], row * bytes) || !cp_follows(e->p, to[0], to[1], row * bytes)) break;
    }
    return cp_fit(e, row, bytes);
}

/* A STORE of a constant to a few bytes of memory, all of them the same number. */
static bool cp_is_fill(const kx_plan *p, kn_ref store) {
    const kn_graph *g = p->g;
    if (kg_op(g, store) != KN_OP_STORE || kg_nsrc(g, store) != 2 || !p->value[store].needed) return false;
    kn_ref at = kg_at(g, store, 0), x = kg_at(g, store, 1);
    int    dt = kg_dtype(g, x);
    if (kg_op(g, x) != KN_OP_CONST || kg_rank(g, at) == 0 || dt == KN_BOOL || dt == KN_INDEX) return false;
    if (kg_op(g, kx_root_of(g, at)) != KN_OP_PARAM || kx_held_size(p, dt) != kn_dsize(dt)) return false;
    int64_t bytes = cp_bytes(p, store);
    return bytes >= FILL_LEAST && bytes <= COPY_MAX && !(bytes & (bytes - 1));
}

bool kx_emit_fill(kx_writer *e, kn_ref store) {
    const kx_plan  *p = e->p;
    const kn_graph *g = e->g;
    if (!cp_is_fill(p, store)) return false;
    if (e->copied > e->at) return true;
    int64_t  bytes = cp_bytes(p, store);
    uint32_t place[FILLS_MAX] = {e->at};
    int      row = 1, size;
    for (uint32_t j = e->at + 1; j < p->n && row < FILLS_MAX; j++) {
        kn_ref x = p->list[j];
        if (e->moves < p->nmove && p->move[e->moves].at <= j) break;
        if (kx_is_silent(p, x)) continue;
        bool next = cp_is_fill(p, x) && kg_at(g, x, 1) == kg_at(g, store, 1) && cp_bytes(p, x) == bytes;
        if (!next || !cp_follows(p, kg_at(g, store, 0), kg_at(g, x, 0), row * bytes)) break;
        place[row++] = j;
    }
    int      fit  = cp_fit(e, row, bytes);
    uint64_t bits = kx_lane_bits(p, kg_at(g, store, 1), &size);
    bool     held = p->value[kg_at(g, store, 1)].reg >= 0; /* the lanes of one STORE, unless it is 0 */
    if (fit == 1 || (bits && held)) return false;
    int v = kx_get(e, kg_at(g, store, 1), fit * (int)bytes, e->v0, kg_at(g, store, 0));
    kx_put(e, kx_at_place(e, kx_i2(KX_VMOVUPS_ST, fit * (int)bytes, KX_IN_MEM, v), kg_at(g, store, 0)));
    e->copied = place[fit - 1] + 1;
    return true;
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
    kn_ref           of[ROW_MAX] = {0};
    uint32_t         place[ROW_MAX];
    if (!cp_is_copy(e->p, store)) return false;
    if (e->copied > e->at) return true;
    int n = cp_together(e, of, ROW_MAX, place), row = cp_row(e, of, n);
    if (row > 1) {
        int bytes = row * (int)cp_bytes(e->p, store);
        kx_load_bits(e, e->v0, bytes, kx_at_place(e, kx_i(KX_MOV, 8), kg_at(e->g, kg_at(e->g, store, 1), 0)));
        kx_put(e, kx_at_place(e, kx_i2(KX_VMOVUPS_ST, bytes, KX_IN_MEM, e->v0), kg_at(e->g, store, 0)));
        e->copied = place[row - 1] + 1;
        return true;
    }
    n = KN_MIN(n, cp_has_scratch(e->p, e->p->loop_of[e->at]) ? KN_COUNT(scratch) : 1);
    for (int k = 0; k < n; k++) cp_read(e, kg_at(e->g, of[k], 1), (int)cp_bytes(e->p, of[k]), scratch[k]);
    for (int k = 0; k < n; k++) {
        kx_ins put = kx_i2(KX_MOV_ST, (int)cp_bytes(e->p, of[k]), KX_IN_MEM, scratch[k]);
        kx_put(e, kx_at_place(e, put, kg_at(e->g, of[k], 0)));
    }
    e->copied = place[n - 1] + 1;
    return true;
}
