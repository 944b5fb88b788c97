/* cpuid.c - what an x86 CPU says of itself: vectors the system saves, caches and who shares them, the clock.
 *
 * Contract: CPUID and XGETBV alone; no clock is read, no file touched. Leaf numbers and fields: Intel SDM volume 2,
 * CPUID, leaves 1, 4, 7 and 16h; AMD APM volume 3, appendix E, functions 8000_0001h, 8000_0005h, 8000_0006h and
 * 8000_001Dh. */
#include "base/machine.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#include <cpuid.h>

enum {
    GUESTS       = 8, /* cores of a host that share an L3, where a hypervisor shows a guest only its own */
    FAMILY_ZEN_4 = 0x19, /* and Zen 3 */
    FAMILY_ZEN_5 = 0x1a
};

/* `last`: the last leaf of the range that `leaf` is in. Each question costs a few microseconds below a hypervisor. */
static bool cpuid(uint32_t last, uint32_t leaf, uint32_t sub, uint32_t r[4]) {
    if (leaf > last) return false;
    __cpuid_count(leaf, sub, r[0], r[1], r[2], r[3]);
    return true;
}

int kn_cpuid_vector_bytes(void) {
    uint32_t a[4], b[4], low = 0, high = 0, last = __get_cpuid_max(0, NULL);
    if (!cpuid(last, 1, 0, a)) return 16;
    if (a[2] >> 27 & 1) __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* OSXSAVE: XCR0 can be read */
    bool ymm = (low & 0x06) == 0x06, zmm = (low & 0xe6) == 0xe6;
    if (!ymm || !cpuid(last, 7, 0, b)) return 16;
    bool avx2 = (b[1] >> 5 & 1) && (a[2] >> 12 & 1); /* and FMA */
    bool wide = (b[1] >> 16 & 1) && (b[1] >> 17 & 1) && (b[1] >> 30 & 1) && (b[1] >> 31 & 1); /* F DQ BW VL */
    return wide && avx2 && zmm ? 64 : avx2 ? 32 : 16;
}

/* A leaf in the form that both makers share; false: it lists no cache. */
static bool listed_caches(kn_machine *m, uint32_t last, uint32_t leaf, bool guest) {
    uint32_t r[4];
    bool     any = false;
    for (uint32_t i = 0; i < 16 && cpuid(last, leaf, i, r) && (r[0] & 31); i++) {
        uint32_t type = r[0] & 31, level = r[0] >> 5 & 7;
        int64_t  shared = (r[0] >> 14 & 0xfff) + 1, line = (r[1] & 0xfff) + 1, parts = (r[1] >> 12 & 0x3ff) + 1,
                ways = (r[1] >> 22) + 1, bytes = line * parts * ways * ((int64_t)r[2] + 1);
        if (type == 2 || level < 1 || level > 3) continue; /* instructions */
        m->line             = line;
        m->cache[level - 1] = level < 3 ? bytes : bytes / (guest ? KN_MAX(shared, (int64_t)GUESTS) : shared);
        any                 = true;
    }
    return any;
}

/* The family and the model, and whether AMD says so. */
static bool is_amd(uint32_t last, uint32_t *family, uint32_t *model) {
    uint32_t maker[4] = {0}, is[4] = {0};
    if (!cpuid(last, 0, 0, maker) || !cpuid(last, 1, 0, is) || maker[1] != 0x68747541 /* "Auth" */) return false;
    *family = (is[0] >> 8 & 15) + (is[0] >> 20 & 0xff);
    *model  = (is[0] >> 4 & 15) | (is[0] >> 12 & 0xf0);
    return true;
}

/* Whether the second unit of FMAs takes 64 bytes too, which no bit says: Intel's servers have it, its clients with
 * AVX-512 have not (Intel's optimization manual, the chapters of Skylake Server and Ice Lake Client); a Zen 4 works in
 * halves. What has AMX (leaf 7, EDX bit 24) is a server, whatever model a hypervisor shows. */
static bool two_wide_fma(uint32_t last) {
    static const uint8_t clients[] = {0x66, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7}; /* Cannon, Ice, Tiger, Rocket Lake */
    uint32_t             maker[4] = {0}, is[4] = {0}, has[4] = {0};
    if (!cpuid(last, 0, 0, maker) || !cpuid(last, 1, 0, is) || maker[1] != 0x756e6547 /* "Genu" */) return false;
    uint32_t family = is[0] >> 8 & 15, model = (is[0] >> 4 & 15) | (is[0] >> 12 & 0xf0);
    for (int i = 0; i < KN_COUNT(clients); i++)
        if (clients[i] == model) return cpuid(last, 7, 0, has) && has[3] >> 24 & 1;
    return family == 6;
}

void kn_cpuid_fill(kn_machine *m) {
    uint32_t r[4], last = __get_cpuid_max(0, NULL), far = __get_cpuid_max(0x80000000, NULL);
    bool     guest = cpuid(last, 1, 0, r) && r[2] >> 31;
    uint32_t family, model;
    if (m->vector_bytes == 64 && two_wide_fma(last)) m->fma_per_cycle = 2;
    if (is_amd(last, &family, &model)) { /* docs/decisions-measured.md */
        if (family == FAMILY_ZEN_4) m->announces = 0;
        if (family == FAMILY_ZEN_5) m->announces_from = 1400 << 10, m->announces = 11 << 20, m->reads_from = 1800 << 10;
        /* of servers and desktops; some for laptops have units of 32 bytes */
        m->whole = family == FAMILY_ZEN_5 && m->vector_bytes == 64 && (model < 0x20 || model >> 4 == 4);
    }
    bool     amd   = cpuid(far, 0x80000001, 0, r) && r[2] >> 22 & 1; /* topology extensions: 8000_001Dh is there */
    if (!(amd && listed_caches(m, far, 0x8000001d, guest)) && !listed_caches(m, last, 4, guest)) {
        if (cpuid(far, 0x80000005, 0, r) && r[2] >> 24) m->cache[KN_L1] = (int64_t)(r[2] >> 24) << 10;
        if (cpuid(far, 0x80000006, 0, r) && r[2] >> 16) m->cache[KN_L2] = (int64_t)(r[2] >> 16) << 10;
    }
    for (int l = KN_L2; l < KN_DRAM; l++) m->cache[l] = KN_MAX(m->cache[l], m->cache[l - 1]);
    if (cpuid(last, 0x16, 0, r) && (r[1] & 0xffff)) /* the highest clock, in MHz */
        m->cycle_ps = 1000000 / (int64_t)(r[1] & 0xffff);
}

#else
int  kn_cpuid_vector_bytes(void) { return 0; }
void kn_cpuid_fill(kn_machine *m) { (void)m; }
#endif
