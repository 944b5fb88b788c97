/* emit_narrow.c - Render of x86-64: bytes and words that lie apart, to and from registers of lanes.
 *
 * Sixteen bytes of a register at a time. Those that lie near are in a few loads, of which a shuffle each takes what it
 * has to its places and makes the other places zero; nothing is read beyond the first lane and the last. Four or eight
 * side by side are loaded as one. Those that lie far apart go one by one. AVX-512 narrows every second one where the
 * buffer has all of the others, and shuffles words by tables (emit_memory.c). */
#include "target/x86/emit.h"

#include <string.h>

static kx_ins eb_at(const kx_ins *m, kx_ins i, int64_t bytes) {
    kx_rm rm = {.mem = true, .at = *m};
    rm.at.disp += (int32_t)bytes;
    return kx_with(i, &rm);
}

/* `lanes` of them, a block, to the low bytes of `to`, from so many runs of `each` elements. */
static void eb_shuffle(kx_writer *e, int to, int size, int lanes, const int32_t *place, int each, int runs,
                       const int32_t *start, const kx_ins *m) {
    bool put[16] = {0};
    for (int r = 0; r < runs; r++) {
        int     part = r ? e->v0 : to;
        uint8_t pick[16];
        memset(pick, 0x80, sizeof pick);
        for (int l = 0; l < lanes; l++) {
            if (put[l] || place[l] < start[r] || place[l] >= start[r] + each) continue;
            put[l] = true;
            int from = (place[l] - start[r]) * size, to_byte = l * size;
            for (int k = 0; k < size && to_byte + k < 16; k++) pick[to_byte + k] = (uint8_t)(from + k);
        }
        kx_load_bits(e, part, each * size, eb_at(m, kx_i(KX_MOV, 8), (int64_t)start[r] * size));
        kx_ins places = kx_mem_label(kx_i3(KX_VPSHUFB, 16, part, part, KX_IN_MEM), kx_pool(e, pick, 16), 0);
        kx_put(e, places);
        if (r) kx_put(e, kx_i3(e->avx512 ? KX_VPORD : KX_VPOR, 16, to, to, part));
    }
}

static void eb_insert(kx_writer *e, int to, int size, int lanes, const int32_t *place, const kx_ins *m) {
    kx_put(e, kx_i3(e->avx512 ? KX_VPXORD : KX_VPXOR, 16, to, to, to));
    for (int l = 0; l < lanes; l++) {
        kx_ins i = kx_imm(kx_i4(size == 1 ? KX_VPINSRB : KX_VPINSRW, 0, to, to, KX_IN_MEM, 0), l);
        kx_put(e, eb_at(m, i, (int64_t)place[l] * size));
    }
}

/* Bytes that lie side by side wherever lanes begin anew after so many: eight, four; 0: fewer. */
static int eb_piece(int size, int lanes, const int32_t *place) {
    for (int piece = 8; piece >= 4; piece /= 2) {
        bool all = lanes * size >= 2 * piece;
        for (int l = 0; l < lanes && all; l++) all = l * size % piece == 0 || place[l] == place[l - 1] + 1;
        if (all) return piece;
    }
    return 0;
}

/* A block of such pieces. */
static void eb_load_pieces(kx_writer *e, int to, int piece, int size, int lanes, const int32_t *place,
                           const kx_ins *m) {
    for (int k = 0; k < lanes * size / piece; k++) {
        int64_t at = (int64_t)place[k * piece / size] * size;
        kx_ins  in = piece == 8 ? kx_i3(KX_VMOVHPS, 0, to, to, KX_IN_MEM)
                                : kx_imm(kx_i4(KX_VPINSRD, 0, to, to, KX_IN_MEM, 0), k);
        if (!k) kx_load_bits(e, to, piece, eb_at(m, kx_i(KX_MOV, 8), at));
        else kx_put(e, eb_at(m, in, at));
    }
}

/* Every second lane: each has a place of twice its size to itself, of which it is the low half, or the high one. */
static void eb_load_halves(kx_writer *e, int d, int size, int w, int before, const kx_ins *m) {
    int from = KN_MIN(2 * w * size, 64);
    for (int at = 0; at < 2 * w * size; at += from) {
        int part = at ? e->v0 : d;
        kx_load_bits(e, part, from, eb_at(m, kx_i(KX_MOV, 8), at - before * size));
        if (before) kx_put(e, kx_imm(kx_i3(size == 1 ? KX_VPSRLWI : KX_VPSRLDI, from, part, part, 0), 8 * size));
        kx_put(e, kx_i2(size == 1 ? KX_VPMOVWB : KX_VPMOVDW, from, part, part));
        if (at) kx_put(e, kx_imm(kx_i4(KX_VINSERTI64X4, 64, d, d, part, 0), 1));
    }
}

void kx_load_narrow(kx_writer *e, kn_ref load, int d, int64_t step, const int32_t *place, const kx_ins *m) {
    int size = kn_dsize(kg_dtype(e->g, load)), w = (int)kg_numel(e->g, load);
    int before = e->avx512 && step == 2 && w * size >= 16 ? kx_first_run(e->g, load, 2) : -1;
    if (before >= 0) {
        eb_load_halves(e, d, size, w, before, m);
        return;
    }
    int lanes = KN_MIN(w, 16 / size);
    for (int l = 0; l < w; l += lanes) {
        int     part = l ? e->v2 : d, each = 16 / size, runs;
        int     piece = eb_piece(size, lanes, place + l);
        int32_t start[KX_PLACE_RUNS];
        while ((runs = kx_runs_of(place + l, lanes, each, KX_PLACE_RUNS, start)) > KX_PLACE_RUNS && each > 1) each /= 2;
        if (piece && runs >= 16 / piece - (piece == 4)) /* a shuffle and an or for each run take longer */
            eb_load_pieces(e, part, piece, size, lanes, place + l, m);
        else if (runs <= KX_PLACE_RUNS)
            eb_shuffle(e, part, size, lanes, place + l, each, runs, start, m);
        else
            eb_insert(e, part, size, lanes, place + l, m);
        if (l)
            kx_put(e, kx_imm(e->avx512 ? kx_i4(KX_VINSERTI32X4, w * size, d, d, part, 0)
                                       : kx_i4(KX_VINSERTI128, 0, d, d, part, 0),
                             l / lanes));
    }
}

void kx_store_narrow(kx_writer *e, int v, int size, int w, int64_t step, const kx_ins *m) {
    int lanes = KN_MIN(w, 16 / size);
    for (int l = 0; l < w; l++) {
        int block = l / lanes, x = block ? e->v0 : v;
        if (block && l % lanes == 0)
            kx_put(e, kx_imm(e->avx512 ? kx_i3(KX_VEXTRACTI32X4, w * size, x, v, 0)
                                       : kx_i3(KX_VEXTRACTI128, 0, x, v, 0),
                             block));
        kx_ins i = kx_imm(kx_i3(size == 1 ? KX_VPEXTRB : KX_VPEXTRW_ST, 0, KX_IN_MEM, x, 0), l % lanes);
        kx_put(e, eb_at(m, i, l * step * size));
    }
}
