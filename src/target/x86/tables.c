/* tables.c - the tables of x86-64 that say which lanes of two registers a shuffle takes, and what a NEG inverts.
 *
 * A LOAD whose lanes lie apart, at known places or in turns is made of a register, the first, and of others that join
 * it one by one: each of those shuffles takes a table of places, 0..w-1 in what is there already and from w on in what
 * comes. The tables are known from the plan alone, so that registers which are free in a loop can hold them while it
 * runs (constants.c); emit_memory.c and emit_turns.c say where the lanes come from. The sign bits
 * that a NEG of floats inverts are held the same way. AVX-512. */
#include "target/x86/plan.h"

#include <string.h>

static void tb_put(kx_table *t, const int *place, int w, int size) {
    memset(t, 0, sizeof *t);
    t->bytes = (uint8_t)(w * size);
    for (int l = 0; l < w; l++) t->at[l * size] = (uint8_t)place[l];
}

int kx_find_places(int *place, int w, int step, int run, int before) {
    int start = run < step - 1 || before >= 0 ? run * w : (w - 1) * (step - 1);
    for (int l = 0; l < w; l++) {
        int at   = KN_MAX(before, 0) + l * step;
        place[l] = run == 1 && at < w ? at : at < run * w ? l : w + at - start;
        place[l] = KN_MIN(place[l], 2 * w - 1); /* of a run to come */
    }
    return start;
}

int kx_most_apart(bool avx512, int size, int w) {
    if (!avx512) return size == 4 ? 2 : 1;
    return w >= 16 ? KN_IN_TURNS : KN_NEAR;
}

int kx_runs_at(const kx_plan *p, kn_ref load, int32_t *place, int *each, int32_t *start) {
    kx_spot a;
    int     w = (int)kg_numel(p->g, load), most = KX_PLACE_RUNS, runs, half[KX_PLACE_RUNS];
    kx_address_of(p->g, kg_at(p->g, load, 0), &a);
    for (int l = 0; l < w; l++) place[l] = (int32_t)kg_const_int(p->g, kg_at(p->g, a.stack, (uint32_t)l));
    for (*each = w; (runs = kx_runs_of(place, w, *each, most, start)) > most && *each > 1;) *each /= 2;
    bool wide = *each * kn_dsize(kg_dtype(p->g, load)) == 64; /* two halves are loaded in the time of one such */
    if (wide && runs > 1 && kx_runs_of(place, w, w / 2, runs, half) == runs) {
        *each /= 2;
        memcpy(start, half, sizeof half);
    }
    return runs;
}

/* Lanes at places that are known, from runs of `each` elements. 0: they are too many, of words. */
static int tb_places(const kx_plan *p, kn_ref load, int w, int size, kx_table *out) {
    int32_t start[KX_PLACE_RUNS], place[KN_MAX_LANES];
    int     each, at[KN_MAX_LANES], runs = kx_runs_at(p, load, place, &each, start);
    if (runs > KX_PLACE_RUNS || (size == 2 && each < 4)) return 0;
    for (int r = 1; r < KN_MAX(runs, 2); r++) {
        for (int l = 0; l < w; l++) {
            bool last = r < runs && place[l] >= start[r] && place[l] < start[r] + each, first = r == 1;
            for (int k = 0; k < r; k++) last &= place[l] < start[k] || place[l] >= start[k] + each; /* not there yet */
            at[l] = last ? w + place[l] - start[r] : first ? KN_MIN(KN_MAX(place[l] - start[0], 0), w - 1) : l;
        }
        tb_put(&out[r - 1], at, w, size);
    }
    return KN_MAX(runs, 2) - 1;
}

/* Rows that are put in turns: lane l of register `part` is of row (part w + l) mod rows. */
static int tb_turns(const kx_plan *p, kn_ref load, int rows, int part, int w, kx_table *out) {
    kn_ref  row[KX_MAX_OPERANDS];
    uint8_t own[KX_MAX_OPERANDS];
    int     n = kx_registers_of(p, load, row, own), size = kn_dsize(kg_dtype(p->g, load)), at[64];
    if (size == 1 || (rows == 2 && w * size == 16)) return 0;
    for (int k = 1; k < KN_MAX(n, 2); k++) {
        for (int l = 0; l < w; l++) {
            int of = own[(part * w + l) % rows], from = (part * w + l) / rows;
            at[l] = of == k ? w + from : k == 1 ? from : l;
        }
        tb_put(&out[k - 1], at, w, size);
    }
    return KN_MAX(n, 2) - 1;
}

/* Of registers that the plan takes in place of memory. */
static int tb_of_parts(const kx_plan *p, kn_ref load, const kx_spot *a, int w, kx_table *out) {
    const kn_graph *g = p->g;
    kx_spot         from;
    int             rows = kx_rows_of(p, load), size = kx_held_size(p, kg_dtype(g, load)), at[64];
    if (rows > 1) return tb_turns(p, load, rows, (int)a->disp / w, w, out);
    if (!p->value[load].other || a->step == 1 || (size > 2 && w * size == 16)) return 0;
    kx_address_of(g, kg_at(g, p->value[load].part, 0), &from);
    for (int l = 0; l < w; l++) at[l] = 2 * l + (int)(a->disp - from.disp);
    tb_put(out, at, w, size);
    return 1;
}

/* The bits that a NEG of floats inverts are one as well; of less than sixteen bytes, those of sixteen. */
static int tb_signs(const kx_plan *p, kn_ref neg, kx_table *out) {
    int size = kx_held_size(p, kg_dtype(p->g, neg)), w = KN_MAX((int)kg_numel(p->g, neg), 16 / size);
    if (!p->avx512 || !kn_is_float(kg_dtype(p->g, neg))) return 0;
    memset(out, 0, sizeof *out);
    out->bytes = (uint8_t)(w * size);
    for (int l = 0; l < w; l++) out->at[(l + 1) * size - 1] = 0x80;
    return 1;
}

static int tb_of_load(const kx_plan *p, kn_ref load, kx_table *out) {
    const kn_graph *g = p->g;
    kx_spot         a;
    int             w = (int)kg_numel(g, load), size = kn_dsize(kg_dtype(g, load)), at[KN_MAX_LANES];
    if (!p->avx512 || kg_op(g, load) != KN_OP_LOAD || !kx_is_lanes(g, load)) return 0;
    if (kx_is_cell(g, kg_at(g, load, 0))) return 0;
    kx_address_of(g, kg_at(g, load, 0), &a);
    if (p->value[load].part) return tb_of_parts(p, load, &a, w, out);
    bool masked = kg_nsrc(g, load) == 3 && kx_is_lanes(g, kg_at(g, load, 2));
    if (a.places || size < 2 || w * size < 16) return 0;
    if (size == 2 && (masked || (!a.stack && a.step < 3))) return 0; /* emit_narrow.c does that */
    if (masked && (a.step < 2 || a.step > KN_NEAR)) return 0;
    if (a.stack) return tb_places(p, load, w, size, out);
    if (a.step == -1 && w > 4) {
        for (int l = 0; l < w; l++) at[l] = w - 1 - l;
        tb_put(out, at, w, size);
        return 1;
    }
    if (a.step < 2 || a.step > kx_most_apart(p->avx512, size, w)) return 0;
    if (!masked && a.step == 2 && w * size == 16 && size == 4) return 0; /* another shuffle does that */
    for (int run = 1; run < a.step; run++) {
        kx_find_places(at, w, (int)a.step, run, masked ? 0 : kx_first_run(g, load, (int)a.step));
        tb_put(&out[run - 1], at, w, size);
    }
    return (int)a.step - 1;
}

int kx_tables_of(const kx_plan *p, kn_ref n, kx_table *out) {
    bool negates = kg_op(p->g, n) == KN_OP_INS && kx_op(p->g, n) == KN_OP_NEG;
    return negates ? tb_signs(p, n, out) : tb_of_load(p, n, out);
}

bool kx_within(const kx_plan *p, int l, int of) {
    while (l >= 0 && l != of) l = p->loop[l].parent;
    return l == of;
}

/* ---- which register holds one ---------------------------------------------------------------------------------- */

bool kx_same_table(const kx_table *a, const kx_table *b) {
    return a->bytes == b->bytes && !memcmp(a->at, b->at, a->bytes);
}

int kx_table_register(const kx_plan *p, kn_ref load, const kx_table *t) {
    kx_table has[KX_MAX_TABLES];
    int      reg = -1;
    for (size_t k = 0; k < p->nsplit; k++) {
        const kx_split *s = &p->split[k];
        if (!s->table || !kx_within(p, p->loop_of[p->value[load].at - 1], s->loop)) continue;
        if (kx_tables_of(p, s->value, has) >= s->table && kx_same_table(&has[s->table - 1], t)) reg = s->reg;
    }
    return reg;
}
