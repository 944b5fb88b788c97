/* What registers of lanes have no instruction for and is put together - products of bytes, quotients, floats narrower
 * than f32, integers of floats - against the interpreter's scalars, on every level that this machine has. */
#include "check.h"
#include "dialect/uop.h"
#include "koine.h"
#include "target/target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if KN_TARGET_X86

enum { MOST = 1 << 18 };

static kn_scalar a_value[MOST], b_value[MOST];
static uint8_t   a_bytes[MOST * 8], b_bytes[MOST * 8], got[MOST * 8];

static kn_tensor *tensor_of(kn_context *kn, kn_scalar *value, uint8_t *bytes, int dt, int n) {
    for (int i = 0; i < n; i++) {
        kn_store_scalar(bytes + i * kn_dsize(dt), dt, value[i]);
        value[i] = kn_load_scalar(bytes + i * kn_dsize(dt), dt);
    }
    return kn_from(kn, bytes, (kn_dtype)dt, KN_DIMS(n));
}

/* Bits of t's n elements against op of the values (CAST: of the first). */
static void compare(kn_tensor *t, int op, int from, int to, int n) {
    int  size = kn_dsize(to);
    bool read = kn_read(t, (kn_dtype)to, got, (size_t)(n * size)) == KN_OK;
    if (!CHECK(read)) return;
    for (int i = 0; i < n; i++) {
        kn_scalar want = {0}, x[2] = {a_value[i], b_value[i]}, y = kn_load_scalar(got + i * size, to);
        uint8_t   bits[8] = {0};
        if (op == KN_OP_CAST)
            want = kn_cast_scalar(x[0], from, to);
        else
            kn_alu(op, to, (int[]){from, from}, x, &want);
        if (kn_is_float(to) && want.f != want.f && y.f != y.f) continue;
        kn_store_scalar(bits, to, want);
        if (memcmp(bits, got + i * size, (size_t)size) == 0) continue;
        CHECK(!"the interpreter's value");
        printf("%s of %s to %s: ", kn_ops[op].name, kn_dtypes[from].name, kn_dtypes[to].name);
        if (kn_is_float(from))
            printf("%a %a: %a, not %a\n", x[0].f, x[1].f, y.f, want.f);
        else
            printf("%lld %lld: %lld, not %lld\n", (long long)x[0].i, (long long)x[1].i, (long long)y.i,
                   (long long)want.i);
        return;
    }
}

static void cast(kn_context *kn, int from, int to, int n) {
    kn_tensor *x = tensor_of(kn, a_value, a_bytes, from, n);
    compare(kn_cast(x, (kn_dtype)to), KN_OP_CAST, from, to, n);
}

static void narrow_floats(kn_context *kn) {
    static const int      to[]  = {KN_F16, KN_BF16, KN_F8E4M3, KN_F8E5M2};
    static const uint32_t low[] = {0, 1, 0x8000, 0xffff};
    for (int i = 0; i < MOST; i++) {
        uint32_t u = (uint32_t)(i / 4) << 16 | low[i % 4];
        float    v;
        memcpy(&v, &u, sizeof v);
        a_value[i].f = v;
    }
    for (int k = 0; k < KN_COUNT(to); k++) cast(kn, KN_F32, to[k], MOST);
    for (int k = 0; k < KN_COUNT(to); k++)
        for (int j = 0; j < KN_COUNT(to); j++) {
            int n = 1 << 8 * kn_dsize(to[k]);
            for (int i = 0; i < n; i++) {
                uint16_t u = (uint16_t)i;
                a_value[i] = kn_load_scalar(&u, to[k]);
            }
            cast(kn, to[k], j == k ? KN_F32 : to[j], n);
        }
}

static void narrow_arithmetic(kn_context *kn) {
    static const int dtypes[] = {KN_F16, KN_BF16, KN_F8E4M3, KN_F8E5M2};
    for (int k = 0; k < KN_COUNT(dtypes); k++) {
        int      dt = dtypes[k], n = 1 << 16;
        uint32_t seed = 1;
        for (int i = 0; i < n; i++) {
            uint16_t u = (uint16_t)(kn_dsize(dt) == 1 ? i & 255 : i), v;
            seed       = seed * 1664525 + 1013904223;
            v          = (uint16_t)(kn_dsize(dt) == 1 ? (uint32_t)i >> 8 : seed >> 16);
            a_value[i] = kn_load_scalar(&u, dt);
            b_value[i] = kn_load_scalar(&v, dt);
        }
        kn_tensor *a = tensor_of(kn, a_value, a_bytes, dt, n), *b = tensor_of(kn, b_value, b_bytes, dt, n);
        compare(kn_add(a, b), KN_OP_ADD, dt, dt, n);
        compare(kn_mul(a, b), KN_OP_MUL, dt, dt, n);
        compare(kn_div(a, b), KN_OP_DIV, dt, dt, n);
        compare(kn_maximum(a, b), KN_OP_MAX, dt, dt, n);
        compare(kn_lt(a, b), KN_OP_CMPLT, dt, KN_BOOL, n);
    }
}

static void whole_numbers_of_floats(kn_context *kn) {
    static const int    from[] = {KN_F32, KN_F64, KN_F16, KN_F8E4M3};
    static const int    to[]   = {KN_I8, KN_U8, KN_I16, KN_U16, KN_I32, KN_U32, KN_I64, KN_U64};
    static const double edge[] = {0,     0.5,   1,      127,    128,    255,    256,  32767,    32768,
                                  65535, 65536, 0x1p31, 0x1p32, 0x1p63, 0x1p64, 1e30, INFINITY, NAN};
    int                 n      = 0;
    for (int k = 0; k < KN_COUNT(edge); k++)
        for (int s = -1; s <= 1; s += 2)
            for (int j = -2; j <= 2; j++) {
                double v = edge[k];
                for (int r = 0; r < abs(j); r++) v = nextafter(v, j < 0 ? -INFINITY : INFINITY);
                a_value[n++].f = s * (j == 2 ? edge[k] + 0.75 : j == -2 ? edge[k] - 0.75 : v);
            }
    kn_scalar kept[256];
    memcpy(kept, a_value, (size_t)n * sizeof *kept);
    for (int k = 0; k < KN_COUNT(from); k++)
        for (int j = 0; j < KN_COUNT(to); j++) {
            memcpy(a_value, kept, (size_t)n * sizeof *kept);
            cast(kn, from[k], to[j], n);
        }
}

static void integers(kn_context *kn) {
    static const int dtypes[] = {KN_I8, KN_U8, KN_I16, KN_U16, KN_I32, KN_U32, KN_I64};
    for (int k = 0; k < KN_COUNT(dtypes); k++) {
        int      dt = dtypes[k], n = 1 << 16, shift = kn_dsize(dt) == 8 ? 0 : 32;
        uint64_t seed = 1;
        for (int i = 0; i < n; i++) {
            static const int64_t least[] = {0,     1,      -1,        2,         -2,        127,      -128,
                                            32767, -32768, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 7};
            seed                         = seed * 6364136223846793005u + 1442695040888963407u;
            a_value[i].i = kn_dsize(dt) == 1 ? i & 255 : i % 5 ? (int64_t)(seed >> shift) : least[i / 5 % 14];
            b_value[i].i = kn_dsize(dt) == 1 ? i >> 8 : i % 3 ? (int64_t)(seed >> (i % 61)) : least[i / 3 % 14];
        }
        kn_tensor *a = tensor_of(kn, a_value, a_bytes, dt, n), *b = tensor_of(kn, b_value, b_bytes, dt, n);
        compare(kn_mul(a, b), KN_OP_MUL, dt, dt, n);
        compare(kn_floordiv(a, b), KN_OP_IDIV, dt, dt, n);
        compare(kn_mod(a, b), KN_OP_MOD, dt, dt, n);
        static const int64_t by[] = {1,    3, 7, 10,  100,   127,   -1,         -3,
                                     -128, 8, 0, 251, 10007, 65535, 1000000007, -1000003};
        for (int j = 0; j < KN_COUNT(by); j++) {
            kn_scalar c = kn_cast_scalar((kn_scalar){.i = by[j]}, KN_I64, dt);
            for (int i = 0; i < n; i++) b_value[i] = c;
            b = kn_full(kn, (double)c.i, (kn_dtype)dt, NULL, 0);
            compare(kn_floordiv(a, b), KN_OP_IDIV, dt, dt, n);
            compare(kn_mod(a, b), KN_OP_MOD, dt, dt, n);
        }
    }
}

/* Of every width, by places of every width, some of them outside. */
static void gathers(kn_context *kn) {
    static const int held[] = {KN_F32, KN_F64, KN_I32, KN_U64, KN_I16, KN_BF16}, by[] = {KN_I32, KN_I64, KN_U8};
    enum { ROWS = 3, WIDTH = 50, PLACES = 77 };
    for (int k = 0; k < KN_COUNT(held); k++)
        for (int j = 0; j < KN_COUNT(by); j++) {
            float y[ROWS * PLACES];
            for (int i = 0; i < PLACES; i++) b_value[i].i = (i * 37 + 11) % 71 - (by[j] == KN_U8 ? 0 : 10);
            for (int i = 0; i < ROWS * WIDTH; i++) a_value[i].i = i + 1;
            kn_tensor *x = kn_cast(tensor_of(kn, a_value, a_bytes, KN_I64, ROWS * WIDTH), (kn_dtype)held[k]);
            kn_tensor *p = tensor_of(kn, b_value, b_bytes, by[j], PLACES);
            x            = kn_contiguous(kn_reshape(x, KN_DIMS(ROWS, WIDTH)));
            if (!CHECK(kn_read(kn_gather(x, 1, p), KN_F32, y, sizeof y) == KN_OK)) return;
            for (int i = 0; i < ROWS * PLACES; i++) {
                int64_t at = b_value[i % PLACES].i;
                if (!CHECK_EQ(y[i], at < 0 || at >= WIDTH ? 0 : i / PLACES * WIDTH + at + 1)) return;
            }
        }
}

static void on(const char *target) {
    kt_choice c;
    kn_fault  f = {0};
    if (!kt_find(target, &c, &f) || !kt_runs(&c, &f)) {
        printf("left out: %s: %s\n", target, f.text);
        return;
    }
    kn_config   cfg = {.target = target, .threads = 1, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    narrow_floats(kn);
    narrow_arithmetic(kn);
    whole_numbers_of_floats(kn);
    integers(kn);
    gathers(kn);
    CHECK_EQ(kn_error_code(kn), KN_OK);
    kn_close(kn);
}

static void on_avx512(void) {
    on("x86:avx512");
}
static void on_avx2(void) {
    on("x86:avx2");
}
static void on_four_registers(void) {
    on("x86:avx512:regs=4");
    on("x86:avx2:regs=4");
}

int main(void) {
    RUN(on_avx2);
    RUN(on_avx512);
    RUN(on_four_registers);
    return check_result();
}
#else
int main(void) {
    printf("left out: this build has no target x86\n");
    return 0;
}
#endif
