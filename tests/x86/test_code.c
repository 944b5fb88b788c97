/* Code with labels, jumps, constants and alignment: the bytes, the faults, and, where the CPU can, the run. */
#include "base/base.h"
#include "check.h"
#include "target/x86/emit.h"

#include <stdlib.h>

static const uint64_t avx2 = KX_LEVEL_AVX2;

static void put(kx_code *c, kx_ins ins) {
    CHECK(kx_emit(c, &ins));
}

static void jumps(void) {
    kn_fault f = {0};
    kx_code  c;
    kx_code_init(&c, NULL, avx2, &f);
    int32_t back = kx_label(&c), ahead = kx_label(&c);
    CHECK(kx_bind(&c, back));
    CHECK(kx_emit_jcc(&c, KXCC_NE, ahead));                                 /* 6 bytes: it cannot know */
    for (int i = 0; i < 30; i++) put(&c, kx_i2(KX_MOV, 4, KX_RAX, KX_RCX)); /* 60 */
    CHECK(kx_emit_jump(&c, back));                                          /* 2: -68 */
    for (int i = 0; i < 30; i++) put(&c, kx_i2(KX_MOV, 4, KX_RAX, KX_RCX));
    CHECK(kx_emit_jcc(&c, KXCC_L, back)); /* 6: -134 - 6 */
    CHECK(kx_bind(&c, ahead));
    put(&c, kx_i(KX_RET, 0));
    CHECK(kx_code_end(&c));
    CHECK_EQ(c.len, 6 + 60 + 2 + 60 + 6 + 1);
    CHECK_EQ(c.count, 64);
    static const uint8_t first[] = {0x0f, 0x85, 128, 0, 0, 0}, near[] = {0xeb, 0xbc},
                         far[] = {0x0f, 0x8c, 0x7a, 0xff, 0xff, 0xff};
    if (c.len == 135) {
        CHECK(!memcmp(c.bytes, first, 6));
        CHECK(!memcmp(c.bytes + 66, near, 2));
        CHECK(!memcmp(c.bytes + 128, far, 6));
    }
    kx_code_free(&c);
    /* -128 is the last that fits. */
    for (int pad = 125; pad <= 127; pad++) {
        kx_code_init(&c, NULL, avx2, &f);
        back = kx_label(&c);
        kx_bind(&c, back);
        for (int i = 0; i < pad; i++) put(&c, kx_i(KX_INT3, 0));
        CHECK(kx_emit_jump(&c, back));
        CHECK_EQ(c.len, pad + (pad <= 126 ? 2 : 5));
        kx_code_free(&c);
    }
    CHECK_EQ(f.code, 0);
}

static void constants(void) {
    kn_fault f = {0};
    kx_code  c;
    kx_code_init(&c, NULL, KX_LEVEL_AVX512, &f);
    const float  one[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const double pi      = 3.14;
    int32_t      a = kx_constant(&c, one, 4), b = kx_constant(&c, one, 64), d = kx_constant(&c, &pi, 8);
    CHECK(a && b && d && a != b && b != d);
    CHECK_EQ(kx_constant(&c, one, 4), a);
    CHECK_EQ(kx_constant(&c, one, 64), b);
    put(&c, kx_mem_label(kx_i2(KX_VMOVUPS, 64, 3, KX_IN_MEM), b, 0));
    put(&c, kx_mem_label(kx_i2(KX_VMOVSD, 0, 1, KX_IN_MEM), d, 0));
    put(&c, kx_imm(kx_mem_label(kx_i2(KX_CMPI, 4, KX_IN_MEM, 0), a, 0), 7)); /* an immediate after the distance */
    put(&c, kx_i(KX_RET, 0));
    CHECK(kx_code_end(&c));
    CHECK_EQ(c.alignment, 64);
    CHECK(c.text_len < c.len && c.len % 8 == 0);
    size_t  place[3], at[3] = {6, 14, 20}, end[3] = {10, 18, 25};
    int     n    = 0;
    int32_t want = 0;
    for (int i = 0; i < 3; i++) { /* where the three instructions look */
        memcpy(&want, c.bytes + at[i], 4);
        place[i] = end[i] + (size_t)want;
        n += place[i] < c.len;
    }
    if (CHECK_EQ(n, 3)) {
        CHECK(place[0] % 64 == 0 && !memcmp(c.bytes + place[0], one, 64));
        CHECK(place[1] % 8 == 0 && !memcmp(c.bytes + place[1], &pi, 8));
        CHECK(place[2] % 4 == 0 && !memcmp(c.bytes + place[2], one, 4));
    }
    kx_code_free(&c);
    CHECK_EQ(f.code, 0);
}

static void alignment(void) {
    for (int at = 0; at < 70; at++)
        for (uint32_t to = 1; to <= 64; to *= 2) {
            kn_fault f = {0};
            kx_code  c;
            kx_code_init(&c, NULL, avx2, &f);
            for (int i = 0; i < at; i++) put(&c, kx_i(KX_INT3, 0));
            CHECK(kx_align(&c, to) && c.len % to == 0 && c.len < (size_t)at + to);
            kx_code_free(&c);
        }
}

/* Every way of going wrong is a fault, is told once, and leaves nothing behind. */
static void faults(void) {
    for (int way = 0; way < 10; way++) {
        kn_fault f = {0};
        kx_code  c;
        kx_ins   ins = kx_i2(KX_VADDPS, 64, 1, 2);
        kx_code_init(&c, NULL, avx2, &f);
        int32_t l  = kx_label(&c);
        bool    ok = true;
        switch (way) {
        case 0: ok = kx_emit_jump(&c, 99); break;
        case 1: ok = kx_bind(&c, l) && kx_bind(&c, l); break;
        case 2: ok = kx_emit_jump(&c, l) && kx_code_end(&c); break;
        case 3: ok = kx_emit(&c, &ins); break; /* 512 bits without AVX-512 */
        case 4: ok = kx_align(&c, 3); break;
        case 5: ok = kx_align(&c, 128); break;
        case 6: ok = kx_constant(&c, &f, 12) != 0; break;
        case 7: ok = kx_bind(&c, 0); break;
        case 8:
            ins.form = 60000;
            ok       = kx_emit(&c, &ins);
            break;
        default:
            ins.form = KX_NOTHING;
            ok       = kx_emit(&c, &ins);
            break;
        }
        CHECK(!ok);
        CHECK_EQ(f.code, KN_ERR_INTERNAL);
        CHECK(!kx_code_end(&c) && !kx_emit_jump(&c, l) && !kx_label(&c));
        kx_code_free(&c);
    }
}

static size_t left; /* allocations until one fails */
static void  *starve(void *user, void *ptr, size_t old_size, size_t new_size) {
     (void)user;
     (void)old_size;
     if (!new_size) return free(ptr), NULL;
    if (!left) return NULL;
    left--;
     return realloc(ptr, new_size);
}

static bool build(kx_code *c) {
    double  values[40];
    int32_t l = kx_label(c), out = kx_label(c);
    bool    ok = l && out && kx_bind(c, l);
    for (int i = 0; i < 40 && ok; i++) {
        values[i]     = i;
        int32_t label = kx_constant(c, &values[i], 8);
        kx_ins  ins   = kx_mem_label(kx_i3(KX_VADDSD, 0, 1, 1, KX_IN_MEM), label, 0);
        ok            = label && kx_emit(c, &ins) && kx_emit_jcc(c, KXCC_E, out);
    }
    return ok && kx_bind(c, out) && kx_code_end(c);
}

static void memory_runs_out(void) {
    kn_alloc a = {starve, NULL};
    for (size_t n = 0;; n++) {
        kn_fault f = {0};
        kx_code  c;
        left = n;
        kx_code_init(&c, &a, avx2, &f);
        bool ok = build(&c);
        kx_code_free(&c);
        CHECK_EQ(f.code, ok ? 0 : KN_ERR_MEMORY);
        if (ok) {
            CHECK(n > 5);
            break;
        }
    }
}

static void shortest_constant(void) {
    static const struct {
        int64_t value;
        int     len;
    } moves[] = {{0, 5},
                 {1, 5},
                 {INT32_MAX, 5},
                 {UINT32_MAX, 5},
                 {-1, 7},
                 {INT32_MIN, 7},
                 {(int64_t)INT32_MIN - 1, 10},
                 {1ll << 32, 10},
                 {INT64_MIN, 10},
                 {INT64_MAX, 10}};
    for (int i = 0; i < KN_COUNT(moves); i++) {
        kx_ins      ins = kx_mov_const(KX_RDX, moves[i].value);
        uint8_t     code[KX_MAX_BYTES];
        const char *why = NULL;
        CHECK_EQ(kx_encode(&ins, avx2, code, NULL, &why), moves[i].len);
    }
}

/* What keeps a unit busy the longest, once for each time that the body runs. */
static void pace(void) {
    kx_pace t = {0};
    kx_plan p = {0};
    kx_pace_turn(&t, &p, -1);
    CHECK_EQ(t.cycles, 0);
    kx_ins jump = kx_i(KX_JMP, 0), address = kx_mem(kx_i2(KX_LEA, 8, KX_RAX, KX_IN_MEM), KX_RCX, 8);
    kx_pace_add(&t, &jump);
    kx_pace_add(&t, &address);
    CHECK(t.busy[KX_UNIT_LOAD] == 0 && t.busy[KX_UNIT_STORE] == 0 && t.busy[KX_UNIT_VECTOR] == 0);
    kx_ins store = kx_mem(kx_i2(KX_VMOVUPS_ST, 64, KX_IN_MEM, 3), KX_RCX, 0);
    kx_pace_add(&t, &store);
    CHECK(t.busy[KX_UNIT_STORE] == 2 && t.busy[KX_UNIT_LOAD] == 0 && t.busy[KX_UNIT_VECTOR] == 0);
    kx_ins add = kx_mem(kx_i3(KX_VADDPS, 64, 1, 2, KX_IN_MEM), KX_RCX, 0), root = kx_i2(KX_VSQRTPS, 32, 1, 2);
    kx_pace_add(&t, &add);
    CHECK(t.busy[KX_UNIT_LOAD] == 1 && t.busy[KX_UNIT_VECTOR] > 0.6 && t.busy[KX_UNIT_VECTOR] < 0.7);
    kx_pace_add(&t, &root);
    CHECK(t.busy[KX_UNIT_DIVIDER] == 4 && t.busy[KX_UNIT_VECTOR] < 0.7);
    t.times = 10;
    kx_pace_turn(&t, &p, -1);
    CHECK(t.cycles == 40 && t.times == 1 && t.busy[KX_UNIT_DIVIDER] == 0);
    kx_pace whole = {.whole = true}; /* the same of 64 bytes, by units that take them at once */
    kx_pace_turn(&whole, &p, -1);
    kx_pace_add(&whole, &store);
    kx_pace_add(&whole, &add);
    CHECK(whole.busy[KX_UNIT_STORE] == 1 && whole.busy[KX_UNIT_LOAD] == 0.5 && whole.busy[KX_UNIT_VECTOR] < 0.4);
}

int main(void) {
    RUN(jumps);
    RUN(constants);
    RUN(alignment);
    RUN(faults);
    RUN(memory_runs_out);
    RUN(shortest_constant);
    RUN(pace);
    return check_result();
}
