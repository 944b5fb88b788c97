/* preamble.c - the types and helper functions of rendered C: the dialect's integer and conversion semantics where C
 * differs. */
#include "target/target.h"

static void vector_types(kn_str *out) {
    static const struct { const char *name, *c; int size;
    } types[] = {
        {"i8", "signed char", 1}, {"u8", "unsigned char", 1}, {"i16", "short", 2},     {"u16", "unsigned short", 2},
        {"i32", "int", 4},        {"u32", "unsigned", 4},     {"i64", "long long", 8}, {"u64", "unsigned long long", 8},
        {"f32", "float", 4},      {"f64", "double", 8},
    };
    for (int t = 0; t < KN_COUNT(types); t++) {
        kn_str_putf(out, "typedef %s %s;\n", types[t].c, types[t].name);
        for (int lanes = 2; lanes <= 16; lanes *= 2) {
            int bytes = lanes * types[t].size;
            kn_str_putf(out, "typedef %s %sx%d __attribute__((vector_size(%d)));\n", types[t].c, types[t].name, lanes,
                        bytes);
            kn_str_putf(out, "typedef %s %sx%du __attribute__((vector_size(%d), aligned(%d), may_alias));\n",
                        types[t].c, types[t].name, lanes, bytes, types[t].size);
        }
    }
}

void kt_c_preamble(kn_str *out) {
    vector_types(out);
    /* Stores past the caches, where the compiler has them and the address is a whole vector's. What tells others
     * that the kernel is done is a locked instruction or a fence, which they do not pass. */
    kn_str_puts(
        out, "#ifdef __has_builtin\n#if __has_builtin(__builtin_nontemporal_store)\n"
             "#define KN_STREAM(V, p, x) ({ void *p_ = (p); V x_ = (x); if ((u64)p_ % sizeof x_) *(V##u *)p_ = x_; \\\n"
             "    else __builtin_nontemporal_store(x_, (V *)p_); })\n"
             "#endif\n#endif\n#ifndef KN_STREAM\n#define KN_STREAM(V, p, x) (*(V##u *)(p) = (x))\n#endif\n");
    /* Floor division, shifts past the width, saturating conversions: dialect.md, 12. */
    kn_str_puts(
        out, "#define KN_SIGNED(T, U, W, MIN) \\\n"
             "static inline T kn_div_##T(T a, T b) { if (b == 0) return 0; if (b == -1) return (T)(0 - (U)a); \\\n"
             "    T q = (T)(a / b); return (T)(q - ((a % b != 0) & ((a < 0) != (b < 0)))); } \\\n"
             "static inline T kn_mod_##T(T a, T b) { if (b == 0) return a; if (b == -1) return 0; \\\n"
             "    T r = (T)(a % b); return (T)(r != 0 && ((r < 0) != (b < 0)) ? r + b : r); } \\\n"
             "static inline T kn_shl_##T(T a, T b) { return (u64)(i64)b < W ? (T)((U)a << b) : 0; } \\\n"
             "static inline T kn_shr_##T(T a, T b) { return (u64)(i64)b < W ? (T)(a >> b) : (T)(a < 0 ? -1 : 0); } \\\n"
             "static inline T kn_sat_##T(f64 x) { return x != x ? 0 : x <= (f64)MIN ? MIN : \\\n"
             "    x >= -(f64)MIN ? (T)(-(MIN + 1)) : (T)x; }\n"
             "#define KN_UNSIGNED(T, W) \\\n"
             "static inline T kn_div_##T(T a, T b) { return b ? (T)(a / b) : 0; } \\\n"
             "static inline T kn_mod_##T(T a, T b) { return b ? (T)(a % b) : a; } \\\n"
             "static inline T kn_shl_##T(T a, T b) { return b < W ? (T)((u64)a << b) : 0; } \\\n"
             "static inline T kn_shr_##T(T a, T b) { return b < W ? (T)(a >> b) : 0; } \\\n"
             "static inline T kn_sat_##T(f64 x) { return !(x > 0) ? 0 : x >= 2.0 * (f64)(1ull << (W - 1)) ? (T)-1 : "
             "(T)x; }\n"
             "KN_SIGNED(i8, u8, 8, (-127 - 1))\nKN_SIGNED(i16, u16, 16, (-32767 - 1))\n"
             "KN_SIGNED(i32, u32, 32, (-2147483647 - 1))\nKN_SIGNED(i64, u64, 64, (-9223372036854775807ll - 1))\n"
             "KN_UNSIGNED(u8, 8)\nKN_UNSIGNED(u16, 16)\nKN_UNSIGNED(u32, 32)\nKN_UNSIGNED(u64, 64)\n"
             "#define KN_R(N) x += y, y = (y << N | y >> (32 - N)) ^ x;\n"
             "#define KN_ROUNDS KN_R(13) KN_R(15) KN_R(26) KN_R(6) x += k1, y += k2 + 1; \\\n"
             "    KN_R(17) KN_R(29) KN_R(16) KN_R(24) x += k2, y += k0 + 2; \\\n"
             "    KN_R(13) KN_R(15) KN_R(26) KN_R(6) x += k0, y += k1 + 3; \\\n"
             "    KN_R(17) KN_R(29) KN_R(16) KN_R(24) x += k1, y += k2 + 4; \\\n"
             "    KN_R(13) KN_R(15) KN_R(26) KN_R(6) x += k2, y += k0 + 5;\n"
             "#define KN_THREEFRY(L) static inline __attribute__((always_inline)) \\\n"
             "u64x##L kn_threefry_x##L(u64x##L c, u64x##L k) { \\\n"
             "    u32x##L k0 = __builtin_convertvector(k, u32x##L); \\\n"
             "    u32x##L k1 = __builtin_convertvector(k >> 32, u32x##L); \\\n"
             "    u32x##L k2 = 0x1BD11BDAu ^ k0 ^ k1, x = __builtin_convertvector(c, u32x##L) + k0; \\\n"
             "    u32x##L y = __builtin_convertvector(c >> 32, u32x##L) + k1; \\\n"
             "    KN_ROUNDS \\\n"
             "    return __builtin_convertvector(y, u64x##L) << 32 | __builtin_convertvector(x, u64x##L); }\n"
             "KN_THREEFRY(2)\nKN_THREEFRY(4)\nKN_THREEFRY(8)\nKN_THREEFRY(16)\n"
             "static inline u64 kn_threefry(u64 c, u64 k) {\n"
             "    u32 k0 = (u32)k, k1 = (u32)(k >> 32), k2 = 0x1BD11BDAu ^ k0 ^ k1;\n"
             "    u32 x = (u32)c + k0, y = (u32)(c >> 32) + k1;\n"
             "    KN_ROUNDS\n"
             "    return (u64)y << 32 | x;\n"
             "}\n");
    /* Vectors of f32 to i32, saturating, NaN to 0; and towards zero, beyond 2^23 (whole already) as they are. */
    kn_str_puts(
        out,
        "#define KN_SAT(x, F, I) ({ F v_ = (x); I big_ = v_ >= 2147483648.0f, num_ = v_ == v_; \\\n"
        "    I c_ = __builtin_convertvector((F)((I)v_ & num_ & ~big_), I); (c_ & ~big_) | (big_ & 2147483647); })\n"
        "#define KN_TRUNC(x, F, I) ({ F v_ = (x); I s_ = (I)v_ & (-2147483647 - 1), k_ = (F)((I)v_ ^ s_) < 8388608.0f; "
        "\\\n"
        "    I t_ = (I)__builtin_convertvector(__builtin_convertvector((F)((I)v_ & k_), I), F) | s_; \\\n"
        "    (F)((t_ & k_) | ((I)v_ & ~k_)); })\n");
    /* Rounded to odd: what is cut off sets the last bit, so rounding again, to a narrow float, is rounding once. */
    kn_str_puts(
        out,
        "static inline f64 kn_odd_u64(u64 m) {\n"
        "    return (f64)(m >> 53 ? (m & ~0x7ffull) | (u64)((m & 0x7ff) != 0) << 11 : m);\n"
        "}\n"
        "static inline f64 kn_odd_i64(i64 v) { return v < 0 ? -kn_odd_u64(0 - (u64)v) : kn_odd_u64((u64)v); }\n"
        "static inline f64 kn_fma_odd(f32 a, f32 b, f32 c) {\n"
        "    f64 p = (f64)a * (f64)b, s = p + (f64)c, part = s - p, lost = (p - (s - part)) + ((f64)c - part);\n"
        "    union { f64 f; u64 u; } r = {s};\n"
        "    if (!__builtin_isfinite(s) || lost == 0 || (r.u & 1)) return s;\n"
        "    r.u += (lost > 0) == (s > 0) ? 1 : -1ull;\n"
        "    return r.f;\n"
        "}\n");
    /* Narrow floats: E exponent and M mantissa bits, round to nearest even. F8E4M3 has one NaN and no infinity. */
    kn_str_puts(
        out,
        "static inline u32 kn_narrow(f64 x, int E, int M, int ocp) {\n"
        "    int bias = (1 << (E - 1)) - 1, top = (1 << E) - 1, e;\n"
        "    u32 sign = (u32)(__builtin_signbit(x) ? 1 : 0) << (E + M), man = (1u << M) - 1;\n"
        "    if (x != x) return ocp ? sign | (u32)top << M | man : sign | (u32)top << M | 1u << (M - 1);\n"
        "    f64 a = __builtin_fabs(x);\n"
        "    if (a == 0) return sign;\n"
        "    if (__builtin_isinf(a)) return sign | (u32)top << M | (ocp ? man : 0);\n"
        "    e = __builtin_ilogb(a);\n"
        "    if (e < 1 - bias) e = 1 - bias;\n"
        "    u64 r = (u64)__builtin_rint(__builtin_ldexp(a, M - e));\n"
        "    if (r >> (M + 1)) r >>= 1, e++;\n"
        "    if (!(r >> M)) return sign | (u32)r;\n"
        "    if (ocp ? e + bias > top || (e + bias == top && (r & man) == man) : e + bias >= top)\n"
        "        return sign | (u32)top << M | (ocp ? man : 0);\n"
        "    return sign | (u32)(e + bias) << M | ((u32)r & man);\n"
        "}\n"
        "static inline f32 kn_widen(u32 b, int E, int M, int ocp) {\n"
        "    int bias = (1 << (E - 1)) - 1, top = (1 << E) - 1, e = (int)(b >> M) & top;\n"
        "    u32 m = b & ((1u << M) - 1);\n"
        "    f64 v = e ? __builtin_ldexp((f64)(m | 1u << M), e - bias - M) : __builtin_ldexp((f64)m, 1 - bias - M);\n"
        "    if (e == top && !ocp) v = m ? __builtin_nan(\"\") : __builtin_inf();\n"
        "    if (e == top && ocp && m == (1u << M) - 1) v = __builtin_nan(\"\");\n"
        "    return (f32)(b >> (E + M) & 1 ? -v : v);\n"
        "}\n"
        "#define KN_NARROW(T, U, E, M, OCP) \\\n"
        "static inline U kn_put_##T(f64 x) { return (U)kn_narrow(x, E, M, OCP); } \\\n"
        "static inline f32 kn_get_##T(U b) { return kn_widen(b, E, M, OCP); } \\\n"
        "static inline f32 kn_round_##T(f64 x) { return kn_get_##T(kn_put_##T(x)); }\n"
        "KN_NARROW(f16, u16, 5, 10, 0)\nKN_NARROW(bf16, u16, 8, 7, 0)\n"
        "KN_NARROW(f8e4m3, u8, 4, 3, 1)\nKN_NARROW(f8e5m2, u8, 5, 2, 0)\n");
}
