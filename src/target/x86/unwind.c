/* unwind.c - call frame instructions. Contract: unwind.h. Facts: DWARF 5, 6.4.2 and 7.24; the registers' numbers from
 * the System V ABI for x86-64, figure 3.36. */
#include "target/x86/unwind.h"

enum { DATA_FACTOR = 8, EM_OF_X86_64 = 62, RETURN_COLUMN = 16 };

static const uint8_t unwind_entry[] = {
    0x0c,      7, 8, /* def_cfa rsp, 8 */
    0x80 | 16, 1,    /* the return address at -1 * 8 */
};

static int unwind_column(int reg) {
    static const uint8_t low[8] = {0, 2, 1, 3, 7, 6, 4, 5}; /* rax rcx rdx rbx rsp rbp rsi rdi */
    return reg < 8 ? low[reg] : reg;
}

static void unwind_byte(kx_unwind *u, int v) {
    if (u->len < sizeof u->body)
        u->body[u->len++] = (uint8_t)v;
    else
        u->failed = true;
}

static void unwind_uleb(kx_unwind *u, uint32_t v) {
    for (; v > 127; v >>= 7) unwind_byte(u, (int)(v & 127) | 128);
    unwind_byte(u, (int)v);
}

static bool unwind_advance(kx_unwind *u, uint32_t at, int reg) {
    if (at < u->at || reg < 0 || reg > 15) u->failed = true;
    if (u->failed) return false;
    uint32_t by = at - u->at;
    u->at       = at;
    if (!by) return true;
    if (by < 64) {
        unwind_byte(u, 0x40 | (int)by);
        return !u->failed;
    }
    unwind_byte(u, 0x04); /* advance_loc4 */
    for (int i = 0; i < 4; i++) unwind_byte(u, (int)(by >> 8 * i & 255));
    return !u->failed;
}

void kx_unwind_init(kx_unwind *u) {
    *u = (kx_unwind){.len = 0};
}

void kx_unwind_frame(kx_unwind *u, uint32_t at, int reg, int32_t offset) {
    if (!unwind_advance(u, at, reg)) return;
    unwind_byte(u, 0x0c); /* def_cfa */
    unwind_uleb(u, (uint32_t)unwind_column(reg));
    if (offset < 0) u->failed = true;
    unwind_uleb(u, (uint32_t)offset);
}

void kx_unwind_kept(kx_unwind *u, uint32_t at, int reg, int32_t offset, uint32_t plus) {
    if (!unwind_advance(u, at, reg)) return;
    unwind_byte(u, 0x0f); /* def_cfa_expression: its length comes first */
    size_t length = u->len;
    unwind_byte(u, 0);
    unwind_byte(u, 0x70 + unwind_column(reg)); /* breg */
    uint32_t rest = (uint32_t)offset;
    if (offset < 0) u->failed = true;
    for (; rest > 63; rest >>= 7) unwind_byte(u, (int)(rest & 127) | 128);
    unwind_byte(u, (int)rest);
    unwind_byte(u, 0x06); /* deref */
    unwind_byte(u, 0x23); /* plus_uconst */
    unwind_uleb(u, plus);
    if (!u->failed) u->body[length] = (uint8_t)(u->len - length - 1);
}

void kx_unwind_saved(kx_unwind *u, uint32_t at, int reg, int32_t offset) {
    if (!unwind_advance(u, at, reg)) return;
    if (offset >= 0 || offset % DATA_FACTOR) u->failed = true;
    unwind_byte(u, 0x80 | unwind_column(reg));
    unwind_uleb(u, (uint32_t)(-(int64_t)offset / DATA_FACTOR));
}

void kx_unwind_restored(kx_unwind *u, uint32_t at, int reg) {
    if (unwind_advance(u, at, reg)) unwind_byte(u, 0xc0 | unwind_column(reg));
}

void kx_unwind_remember(kx_unwind *u, uint32_t at) {
    if (unwind_advance(u, at, 0)) unwind_byte(u, 0x0a);
}

void kx_unwind_recall(kx_unwind *u, uint32_t at) {
    if (unwind_advance(u, at, 0)) unwind_byte(u, 0x0b);
}

bool kx_unwind_end(const kx_unwind *u, kd_frame *out) {
    *out = (kd_frame){.machine     = EM_OF_X86_64,
                      .code_factor = 1,
                      .data_factor = -DATA_FACTOR,
                      .return_reg  = RETURN_COLUMN,
                      .entry       = unwind_entry,
                      .entry_len   = sizeof unwind_entry,
                      .body        = u->body,
                      .body_len    = u->len};
    return !u->failed;
}
