/* The scalar meaning of every elementwise op, at the corners. */
#include "check.h"
#include "dialect/uop.h"

#include <math.h>
#include <string.h>

static kn_scalar si(int64_t v) { return (kn_scalar){.i = v}; }
static kn_scalar sf(double v) { return (kn_scalar){.f = v}; }

static kn_scalar alu(int op, int dt, kn_scalar a, kn_scalar b, kn_scalar c) {
    int       cmp = op >= KN_OP_CMPLT && op <= KN_OP_CMPNE;
    int       sdt[3] = {dt, dt, dt};
    kn_scalar s[3] = {a, b, c}, r = {.i = INT64_C(0x5a5a5a5a)};
    cmp |= op == KN_OP_CMPGT || op == KN_OP_CMPGE || op == KN_OP_CMPLE || op == KN_OP_CMPEQ;
    CHECK(kn_alu(op, cmp ? KN_BOOL : dt, sdt, s, &r));
    return r;
}

static int64_t ii(int op, int dt, int64_t a, int64_t b) { return alu(op, dt, si(a), si(b), si(0)).i; }
static double  ff(int op, int dt, double a, double b) { return alu(op, dt, sf(a), sf(b), sf(0)).f; }
static int64_t fb(int op, int dt, double a, double b) { return alu(op, dt, sf(a), sf(b), sf(0)).i; }

static void integers_wrap(void) {
    CHECK_EQ(ii(KN_OP_ADD, KN_I8, 127, 1), -128);
    CHECK_EQ(ii(KN_OP_MUL, KN_I16, 300, 300), (int16_t)(90000 - 65536));
    CHECK_EQ(ii(KN_OP_SUB, KN_U8, 0, 1), 255);
    CHECK_EQ(ii(KN_OP_ADD, KN_I32, INT32_MAX, 1), INT32_MIN);
    CHECK_EQ(ii(KN_OP_ADD, KN_I64, INT64_MAX, 1), INT64_MIN);
    CHECK_EQ(ii(KN_OP_MUL, KN_U64, -1, -1), 1);
    CHECK_EQ(ii(KN_OP_NEG, KN_I32, INT32_MIN, 0), INT32_MIN);
    CHECK_EQ(ii(KN_OP_NEG, KN_U32, 1, 0), UINT32_MAX);
    CHECK_EQ(ii(KN_OP_NOT, KN_U16, 1, 0), 65534);
    CHECK_EQ(ii(KN_OP_NOT, KN_I16, 1, 0), -2);
    CHECK_EQ(alu(KN_OP_MULACC, KN_I8, si(100), si(3), si(1)).i, 45);
}

static void division_floors(void) {
    CHECK_EQ(ii(KN_OP_IDIV, KN_I32, -7, 2), -4);
    CHECK_EQ(ii(KN_OP_MOD, KN_I32, -7, 2), 1);
    CHECK_EQ(ii(KN_OP_IDIV, KN_I32, 7, -2), -4);
    CHECK_EQ(ii(KN_OP_MOD, KN_I32, 7, -2), -1);
    CHECK_EQ(ii(KN_OP_IDIV, KN_I32, 7, 0), 0);
    CHECK_EQ(ii(KN_OP_MOD, KN_I32, 7, 0), 7);
    CHECK_EQ(ii(KN_OP_IDIV, KN_I32, INT32_MIN, -1), INT32_MIN);
    CHECK_EQ(ii(KN_OP_IDIV, KN_I64, INT64_MIN, -1), INT64_MIN);
    CHECK_EQ(ii(KN_OP_MOD, KN_I64, INT64_MIN, -1), 0);
    CHECK_EQ(ii(KN_OP_IDIV, KN_U64, -1, 2), INT64_MAX);
    CHECK_EQ(ii(KN_OP_MOD, KN_U64, -1, 10), 5);
    CHECK_EQ(ii(KN_OP_MOD, KN_U64, -1, 0), -1);
    for (int64_t a = -9; a <= 9; a++)
        for (int64_t b = -4; b <= 4; b++)
            if (b) CHECK_EQ(ii(KN_OP_IDIV, KN_I8, a, b) * b + ii(KN_OP_MOD, KN_I8, a, b), a);
}

static void shifts(void) {
    CHECK_EQ(ii(KN_OP_SHL, KN_I32, 1, 31), INT32_MIN);
    CHECK_EQ(ii(KN_OP_SHL, KN_I32, 1, 32), 0);
    CHECK_EQ(ii(KN_OP_SHL, KN_U8, 1, 8), 0);
    CHECK_EQ(ii(KN_OP_SHL, KN_U8, 255, 1), 254);
    CHECK_EQ(ii(KN_OP_SHL, KN_I64, 1, -1), 0);
    CHECK_EQ(ii(KN_OP_SHR, KN_I32, -8, 1), -4);
    CHECK_EQ(ii(KN_OP_SHR, KN_I32, -8, 40), -1);
    CHECK_EQ(ii(KN_OP_SHR, KN_I32, 8, 40), 0);
    CHECK_EQ(ii(KN_OP_SHR, KN_I32, -8, -3), -1);
    CHECK_EQ(ii(KN_OP_SHR, KN_U64, -1, 63), 1);
    CHECK_EQ(ii(KN_OP_SHR, KN_U64, -1, 64), 0);
    CHECK_EQ(ii(KN_OP_SHR, KN_U32, UINT32_MAX, 31), 1);
}

static void bools(void) {
    CHECK_EQ(ii(KN_OP_ADD, KN_BOOL, 1, 1), 1);
    CHECK_EQ(ii(KN_OP_MUL, KN_BOOL, 1, 1), 1);
    CHECK_EQ(ii(KN_OP_MUL, KN_BOOL, 1, 0), 0);
    CHECK_EQ(ii(KN_OP_NOT, KN_BOOL, 1, 0), 0);
    CHECK_EQ(ii(KN_OP_XOR, KN_BOOL, 1, 1), 0);
    CHECK_EQ(ii(KN_OP_MAX, KN_BOOL, 0, 1), 1);
}

static void unsigned_order(void) {
    CHECK_EQ(ii(KN_OP_CMPLT, KN_U64, 1, -1), 1);
    CHECK_EQ(ii(KN_OP_CMPLT, KN_I64, 1, -1), 0);
    CHECK_EQ(ii(KN_OP_MAX, KN_U64, 1, -1), -1);
    CHECK_EQ(ii(KN_OP_MIN, KN_U64, 1, -1), 1);
    CHECK_EQ(ii(KN_OP_CMPGE, KN_I32, 3, 3), 1);
    CHECK_EQ(ii(KN_OP_CMPEQ, KN_I32, 3, 3), 1);
    CHECK_EQ(ii(KN_OP_CMPNE, KN_I32, 3, 3), 0);
}

static void nan_rules(void) {
    double nan = (double)NAN;
    for (int dt = KN_F8E4M3; dt <= KN_F64; dt++) {
        CHECK(isnan(ff(KN_OP_MAX, dt, nan, 1)) && isnan(ff(KN_OP_MAX, dt, 1, nan)));
        CHECK(isnan(ff(KN_OP_MIN, dt, nan, 1)) && isnan(ff(KN_OP_MIN, dt, 1, nan)));
        CHECK_EQ(fb(KN_OP_CMPNE, dt, nan, nan), 1);
        CHECK_EQ(fb(KN_OP_CMPEQ, dt, nan, nan), 0);
        CHECK_EQ(fb(KN_OP_CMPLT, dt, nan, 1), 0);
        CHECK_EQ(fb(KN_OP_CMPGE, dt, nan, 1), 0);
        CHECK_EQ(fb(KN_OP_CMPLE, dt, 1, nan), 0);
    }
    kn_scalar r = alu(KN_OP_DIV, KN_F32, sf(0), sf(0), sf(0));
    CHECK_EQ(r.i, INT64_C(0x7ff8000000000000)); /* the one NaN, whatever sign the machine gives */
    int       sdt[3] = {KN_BOOL, KN_F32, KN_F32};
    kn_scalar s[3] = {si(0), sf(1), sf(2)};
    CHECK(kn_alu(KN_OP_WHERE, KN_F32, sdt, s, &r) && r.f == 2);
    CHECK(!kn_alu(KN_OP_SQRT, KN_I32, sdt, s, &r) && !kn_alu(KN_OP_STORE, KN_I32, sdt, s, &r));
}

static void casts(void) {
#define C(v, from, to) kn_cast_scalar(v, from, to)
    CHECK_EQ(C(sf(300), KN_F32, KN_I8).i, 127);
    CHECK_EQ(C(sf(-300), KN_F32, KN_I8).i, -128);
    CHECK_EQ(C(sf(-1.9), KN_F64, KN_I8).i, -1);
    CHECK_EQ(C(sf(-1.9), KN_F64, KN_U8).i, 0);
    CHECK_EQ(C(sf((double)NAN), KN_F32, KN_I32).i, 0);
    CHECK_EQ(C(sf((double)INFINITY), KN_F32, KN_I64).i, INT64_MAX);
    CHECK_EQ(C(sf(9.3e18), KN_F64, KN_I64).i, INT64_MAX);
    CHECK_EQ((uint64_t)C(sf(9.3e18), KN_F64, KN_U64).i, UINT64_C(9300000000000000000));
    CHECK_EQ(C(sf(1e30), KN_F64, KN_U64).i, -1);
    CHECK_EQ(C(si(-1), KN_I32, KN_U8).i, 255);
    CHECK_EQ(C(si(200), KN_U8, KN_I8).i, -56);
    CHECK_EQ(C(si(-1), KN_I8, KN_U64).i, -1);
    CHECK_EQ(C(si(2), KN_I32, KN_BOOL).i, 1);
    CHECK_EQ(C(sf(0.5), KN_F32, KN_BOOL).i, 1);
    CHECK(C(si(-1), KN_U64, KN_F64).f == 18446744073709551616.0);
    CHECK(C(si(-1), KN_I64, KN_F64).f == -1.0);
    CHECK(C(si(16777217), KN_I32, KN_F32).f == 16777216.0);
    /* just above the middle of two floats: rounding by way of f64 would tie to even and go down */
    CHECK(C(si((INT64_C(1) << 60) + (INT64_C(1) << 36) + 1), KN_I64, KN_F32).f ==
          (double)((INT64_C(1) << 60) + (INT64_C(1) << 37)));
    CHECK(C(si(70000), KN_I32, KN_F16).f == (double)INFINITY);
#undef C
}

static void narrow_floats(void) {
    uint16_t h;
    uint8_t  q;
#define H(v) (kn_store_scalar(&h, KN_F16, sf(v)), (int)h)
    CHECK_EQ(H(1), 0x3c00);
    CHECK_EQ(H(-2), 0xc000);
    CHECK_EQ(H(65504), 0x7bff);
    CHECK_EQ(H(65519.99), 0x7bff);
    CHECK_EQ(H(65520), 0x7c00);
    CHECK_EQ(H(0x1p-24), 1);
    CHECK_EQ(H(0x1p-25), 0);
    CHECK_EQ(H(0x1.8p-25), 1);
    CHECK_EQ(H(0x1.ff8p-15), 0x3ff);
    CHECK_EQ(H(0x1.ffcp-15), 0x400);
    CHECK_EQ(H(1 + 0x1p-11), 0x3c00);
    CHECK_EQ(H(1 + 0x1p-11 + 0x1p-40), 0x3c01);
#undef H
#define B(v) (kn_store_scalar(&h, KN_BF16, sf(v)), (int)h)
    CHECK_EQ(B(1), 0x3f80);
    CHECK_EQ(B(1 + 0x1p-8), 0x3f80);
    CHECK_EQ(B(1 + 0x1.8p-7), 0x3f82);
    CHECK_EQ(B((double)INFINITY), 0x7f80);
    CHECK_EQ(B(3.4e38), 0x7f80);
#undef B
#define E4(v) (kn_store_scalar(&q, KN_F8E4M3, sf(v)), (int)q)
    CHECK_EQ(E4(448), 0x7e);
    CHECK_EQ(E4(464), 0x7e);
    CHECK_EQ(E4(465), 0x7f);
    CHECK_EQ(E4((double)NAN) & 0x7f, 0x7f);
    CHECK_EQ(E4(-(double)INFINITY) & 0x7f, 0x7f);
    CHECK_EQ(E4(0x1p-9), 1);
    CHECK_EQ(E4(0x1p-10), 0);
    CHECK_EQ(E4(-1), 0xb8);
#undef E4
#define E5(v) (kn_store_scalar(&q, KN_F8E5M2, sf(v)), (int)q)
    CHECK_EQ(E5(57344), 0x7b);
    CHECK_EQ(E5(61440), 0x7c);
    CHECK_EQ(E5((double)INFINITY), 0x7c);
    CHECK_EQ(E5(0x1p-16), 1);
#undef E5
    /* every pattern comes back, but NaN payloads */
    for (int dt = KN_F8E4M3; dt <= KN_BF16; dt++) {
        int bytes = kn_dsize(dt), bad = 0;
        for (uint32_t u = 0; u < 1u << (8 * bytes); u++) {
            uint16_t in = (uint16_t)u, out = 0;
            uint8_t  in8 = (uint8_t)u, out8 = 0;
            void    *pi = bytes == 1 ? (void *)&in8 : (void *)&in, *po = bytes == 1 ? (void *)&out8 : (void *)&out;
            kn_scalar v = kn_load_scalar(pi, dt);
            if (isnan(v.f)) continue;
            kn_store_scalar(po, dt, v);
            bad += memcmp(pi, po, (size_t)bytes) != 0;
        }
        CHECK_EQ(bad, 0);
    }
}

static void rounded_once(void) {
    /* a*b is 1 + 2^-11 - 2^-24 or so: rounded before the sum, the result would be 0 */
    double a = 1 + 0x1p-12, r = alu(KN_OP_MULACC, KN_F32, sf(a), sf(a), sf(-(1 + 0x1p-11))).f;
    CHECK(r == 0x1p-24);
    CHECK(ff(KN_OP_ADD, KN_F32, 16777216, 1) == 16777216);
    CHECK(ff(KN_OP_ADD, KN_F16, 2048, 1) == 2048);
    CHECK(ff(KN_OP_MUL, KN_F16, 300, 300) == (double)INFINITY);
    CHECK(isnan(ff(KN_OP_MUL, KN_F8E4M3, 300, 300)));
    CHECK(alu(KN_OP_MULACC, KN_F64, sf(a), sf(a), sf(-1)).f == 0x1p-11 + 0x1p-24);
    uint32_t seed = 1;
    int      bad = 0;
    for (int i = 0; i < 20000; i++) { /* against the C library's fused operation */
        float x[3];
        for (int k = 0; k < 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            uint32_t u = (seed & 0x807fffff) | ((seed >> 8) % 60 + 97) << 23;
            memcpy(&x[k], &u, 4);
        }
        double m = alu(KN_OP_MULACC, KN_F32, sf((double)x[0]), sf((double)x[1]), sf((double)x[2])).f;
        bad += m != (double)fmaf(x[0], x[1], x[2]);
    }
    CHECK_EQ(bad, 0);
}

static void functions(void) {
    CHECK(ff(KN_OP_EXP2, KN_F32, 10, 0) == 1024);
    CHECK(ff(KN_OP_LOG2, KN_F64, 8, 0) == 3);
    CHECK(ff(KN_OP_SQRT, KN_F32, 2, 0) == (double)sqrtf(2));
    CHECK(ff(KN_OP_SIN, KN_F32, 1, 0) == (double)(float)sin(1));
    CHECK(ff(KN_OP_POW, KN_F64, 2, 0.5) == pow(2, 0.5));
    CHECK(ff(KN_OP_RECIP, KN_F32, 3, 0) == (double)(1.0f / 3.0f));
    CHECK(ff(KN_OP_TRUNC, KN_F32, -1.5, 0) == -1);
    CHECK_EQ(ii(KN_OP_TRUNC, KN_I32, -3, 0), -3);
}

static void identities(void) {
    CHECK(kn_identity(KN_OP_MAX, KN_F32).f == -(double)INFINITY &&
          kn_identity(KN_OP_MIN, KN_F16).f == (double)INFINITY);
    CHECK(kn_identity(KN_OP_MAX, KN_F8E4M3).f == -448 && kn_identity(KN_OP_MUL, KN_F64).f == 1);
    CHECK_EQ(kn_identity(KN_OP_MIN, KN_U64).i, -1);
    CHECK_EQ(kn_identity(KN_OP_MIN, KN_I8).i, 127);
    CHECK_EQ(kn_identity(KN_OP_MAX, KN_U8).i, 0);
    CHECK_EQ(kn_identity(KN_OP_MIN, KN_BOOL).i, 1);
    CHECK_EQ(kn_identity(KN_OP_ADD, KN_I32).i, 0);
}

/* The known-answer vectors of Random123 for threefry2x32 with 20 rounds; low word first. */
static void threefry(void) {
    static const uint64_t kat[][3] = {
        {0, 0, UINT64_C(0x99ba4efe6b200159)},
        {UINT64_MAX, UINT64_MAX, UINT64_C(0xbb002be71cb996fc)},
        {UINT64_C(0x85a308d3243f6a88), UINT64_C(0x0370734413198a2e), UINT64_C(0x483df7a0c4923a9c)},
    };
    for (int i = 0; i < KN_COUNT(kat); i++) {
        CHECK_EQ(kn_threefry2x32(kat[i][0], kat[i][1]), kat[i][2]);
        CHECK_EQ((uint64_t)ii(KN_OP_THREEFRY, KN_U64, (int64_t)kat[i][0], (int64_t)kat[i][1]), kat[i][2]);
    }
}

int main(void) {
    RUN(integers_wrap);
    RUN(division_floors);
    RUN(shifts);
    RUN(bools);
    RUN(unsigned_order);
    RUN(nan_rules);
    RUN(casts);
    RUN(narrow_floats);
    RUN(rounded_once);
    RUN(functions);
    RUN(identities);
    RUN(threefry);
    return check_result();
}
