/* emit_turns.c - Render of x86-64: rows of lanes that are put in turns, lane by lane.
 *
 * Register k of the result takes its lane p from row (k w + p) mod rows, at (k w + p) / rows. AVX-512 brings the rows
 * in one after the other, each by a shuffle of two registers, or, bytes, one that makes the other places zero; AVX2
 * moves the lanes of each row to their places and blends them. Rows that are one register, as of what is repeated, come
 * in together. Two rows of sixteen bytes are one instruction. */
#include "target/x86/emit.h"

#include <string.h>

bool kx_interleaves(bool avx512, int dtype, int rows, int64_t lanes) {
    int size = kn_dsize(dtype);
    if (dtype == KN_INDEX || dtype == KN_BOOL || kx_held_bytes(avx512, dtype) != size) return false;
    if (rows > KN_IN_TURNS || lanes * size < 16) return false;
    return size >= (avx512 ? 1 : 4) || (rows == 2 && lanes * size == 16);
}

typedef struct et_turns {
    kx_writer *e;
    kn_ref     load, row[KX_MAX_OPERANDS]; /* registers, */
    uint8_t    own[KX_MAX_OPERANDS];       /* which of them each row is in */
    int        n, rows, part, size, w, bytes; /* n: of registers; part: register of the result; size: of a lane */
} et_turns;

static int et_row(const et_turns *t, int k, int scratch) {
    return kx_get(t->e, t->row[k], t->bytes, scratch, t->load);
}

static int et_row_of(const et_turns *t, int lane) { return t->own[(t->part * t->w + lane) % t->rows]; }
static int et_place_of(const et_turns *t, int lane) { return (t->part * t->w + lane) / t->rows; }

static kx_ins et_pool(const et_turns *t, kx_ins i, const void *data) {
    kx_rm rm = {.mem = true, .at = kx_mem_label(kx_i(KX_MOV, 8), kx_pool(t->e, data, (size_t)t->bytes), 0)};
    return kx_with(i, &rm);
}

/* Lanes of two bytes and more: row k joins those before it, which are in their places. */
static void et_join(const et_turns *t, const kx_table *table, int to) {
    static const kx_form_id first[] = {[2] = KX_VPERMI2W, [4] = KX_VPERMI2PS, [8] = KX_VPERMI2PD};
    static const kx_form_id next[]  = {[2] = KX_VPERMT2W, [4] = KX_VPERMT2PS, [8] = KX_VPERMT2PD};
    kx_writer              *e       = t->e;
    int                     at      = kx_load_table(e, t->load, &table[0], to);
    if (t->n == 1 && (t->bytes > 16 || t->size == 2)) {
        static const kx_form_id alone[] = {[2] = KX_VPERMW, [4] = KX_VPERMPS, [8] = KX_VPERMPD};
        kx_put(e, kx_i3(alone[t->size], t->bytes, to, at, et_row(t, 0, e->v1)));
        return;
    }
    if (at == to) {
        int x = et_row(t, 0, e->v1), y = t->n == 1 ? x : et_row(t, 1, e->v2);
        kx_put(e, kx_i3(first[t->size], t->bytes, to, x, y));
    } else {
        kx_move_vec(e, to, et_row(t, 0, e->v1), t->bytes);
        kx_put(e, kx_i3(next[t->size], t->bytes, to, at, t->n == 1 ? to : et_row(t, 1, e->v2)));
    }
    for (int k = 2; k < t->n; k++) {
        at = kx_load_table(e, t->load, &table[k - 1], e->v2);
        kx_put(e, kx_i3(next[t->size], t->bytes, to, at, et_row(t, k, e->v1)));
    }
}

/* Two rows of sixteen bytes have an instruction for it, which of AVX2's registers does so in each half. */
static void et_unpack(const et_turns *t, int to) {
    static const uint16_t forms[9][2] = {[1] = {KX_VPUNPCKLBW, KX_VPUNPCKHBW}, [2] = {KX_VPUNPCKLWD, KX_VPUNPCKHWD},
                                         [4] = {KX_VUNPCKLPS, KX_VUNPCKHPS},   [8] = {KX_VUNPCKLPD, KX_VUNPCKHPD}};
    kx_writer *e = t->e;
    int x = et_row(t, 0, e->v1), y = t->n == 1 ? x : et_row(t, 1, e->v2);
    if (t->bytes == 16) {
        kx_put(e, kx_i3((kx_form_id)forms[t->size][t->part], 16, to, x, y));
        return;
    }
    kx_put(e, kx_i3((kx_form_id)forms[t->size][0], 32, to, x, y));
    kx_put(e, kx_i3((kx_form_id)forms[t->size][1], 32, e->v2, x, y));
    kx_put(e, kx_imm(kx_i4(KX_VPERM2F128, 0, to, to, e->v2, 0), t->part ? 0x31 : 0x20));
}

/* Bytes: sixteen of the result are of sixteen of each row. */
static void et_join_bytes(const et_turns *t, int to) {
    kx_writer *e = t->e;
    for (int k = 0; k < t->n; k++) {
        uint8_t block[64] = {0}, pick[64];
        int     x = et_row(t, k, e->v1), at = k ? e->v2 : to;
        bool    moves = false;
        for (int l = 0; l < t->bytes; l++) {
            pick[l] = et_row_of(t, l) == k ? et_place_of(t, l) % 16 : 0x80;
            int b   = et_place_of(t, l / 16 * 16) / 16;
            if (l % 16 == 0) block[l] = (uint8_t)(2 * b), block[l + 8] = (uint8_t)(2 * b + 1);
            moves |= b != l / 16;
        }
        if (moves) {
            kx_load_bits(e, at, t->bytes, kx_mem_label(kx_i(KX_MOV, 8), kx_pool(e, block, (size_t)t->bytes), 0));
            kx_put(e, kx_i3(KX_VPERMQ, t->bytes, at, at, x));
            x = at;
        }
        kx_put(e, et_pool(t, kx_i3(KX_VPSHUFB, t->bytes, at, x, KX_IN_MEM), pick));
        if (k) kx_put(e, kx_i3(KX_VPORD, t->bytes, to, to, at));
    }
}

/* Lanes of four bytes stay in their half of the register, and go to one place of it in both: *pick says to which. */
static bool et_stays(const et_turns *t, int k, int *pick) {
    int from[4] = {-1, -1, -1, -1};
    for (int l = 0; l < t->w; l++) {
        if (et_row_of(t, l) != k) continue;
        int place = et_place_of(t, l), *at = &from[l % 4];
        if (place / 4 != l / 4 || (*at >= 0 && *at != place % 4)) return false;
        *at = place % 4;
    }
    *pick = 0;
    for (int l = 0; l < 4; l++) *pick |= (from[l] < 0 ? l : from[l]) << 2 * l;
    return true;
}

/* AVX2, lanes of four and eight bytes. */
static void et_blend(const et_turns *t, int to) {
    kx_writer *e = t->e;
    for (int k = 0; k < t->n; k++) {
        uint32_t place[8] = {0};
        int      mask = 0, pick = 0, x = et_row(t, k, e->v1), at = k ? e->v2 : to;
        for (int l = 0; l < t->w; l++) {
            if (et_row_of(t, l) != k) continue;
            place[l] = (uint32_t)et_place_of(t, l);
            mask |= 1 << l;
            pick |= et_place_of(t, l) << (t->bytes == 32 || t->size == 4 ? 2 * l : l);
        }
        if (t->size == 4 && t->bytes == 32 && et_stays(t, k, &pick)) {
            kx_put(e, kx_imm(kx_i3(KX_VPERMILPSI, 32, at, x, 0), pick));
        } else if (t->size == 4 && t->bytes == 32) {
            kx_load_bits(e, at, 32, kx_mem_label(kx_i(KX_MOV, 8), kx_pool(e, place, sizeof place), 0));
            kx_put(e, kx_i3(KX_VPERMPS, 32, at, at, x));
        } else {
            kx_form_id move = t->size == 4 ? KX_VPERMILPSI : t->bytes == 32 ? KX_VPERMPDI : KX_VPERMILPDI;
            kx_put(e, kx_imm(kx_i3(move, t->bytes, at, x, 0), pick));
        }
        if (k) kx_put(e, kx_imm(kx_i4(t->size == 4 ? KX_VBLENDPS : KX_VBLENDPD, t->bytes, to, to, at, 0), mask));
    }
}

void kx_emit_turns(kx_writer *e, kn_ref load) {
    et_turns t = {.e = e, .load = load, .size = kn_dsize(kg_dtype(e->g, load)), .w = (int)kg_numel(e->g, load)};
    kx_table table[KX_MAX_TABLES];
    kx_spot  spot;
    kx_address_of(e->g, kg_at(e->g, load, 0), &spot);
    t.rows  = kx_rows_of(e->p, load);
    t.n     = kx_registers_of(e->p, load, t.row, t.own);
    t.part  = (int)spot.disp / t.w;
    t.bytes = t.w * t.size;
    int to  = kx_dst(e, load) == e->v1 ? e->v0 : kx_dst(e, load);
    if (t.rows == 2 && (t.bytes == 16 || (t.n == 2 && !e->avx512)))
        et_unpack(&t, to);
    else if (!e->avx512)
        et_blend(&t, to);
    else if (kx_tables_of(e->p, load, table))
        et_join(&t, table, to);
    else
        et_join_bytes(&t, to);
    kx_done(e, load, to);
}

bool kx_slides(bool avx512, int dtype, int64_t lanes) {
    int held = kx_held_bytes(avx512, dtype), bytes = (int)lanes * held;
    return avx512 && dtype != KN_INDEX && dtype != KN_BOOL && held >= 4 && (bytes == 16 || bytes == 32 || bytes == 64);
}

/* Lanes of register a from `from` on, and behind them those of b. */
void kx_emit_slide(kx_writer *e, kn_ref n, kn_ref a, kn_ref b, int from) {
    int bytes = kx_vec_bytes(e->p, a), size = kx_held_size(e->p, kg_dtype(e->g, n)), d = kx_dst(e, n);
    int x = kx_get(e, a, bytes, e->v1, n);
    int y = a == b ? x : kx_get(e, b, KN_MIN(bytes, kx_vec_bytes(e->p, b)), e->v2, n);
    kx_put(e, kx_imm(kx_i4(size == 8 ? KX_VALIGNQ : KX_VALIGND, bytes, d, y, x, 0), from));
    kx_done(e, n, d);
}
