/* cpu.c - features of the CPU. Contract: cpu.h. Facts: Intel SDM volume 2, CPUID; volume 1, 14.3 and 15.2. */
#include "target/x86/cpu.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct kx_feature_bit { /* FEATURE of x86.def */
    uint32_t leaf, subleaf;
    uint8_t  reg, bit, state;
} kx_feature_bit;

static const kx_feature_bit feature_bits[KXC_NFEATURES] = {
#define FEATURE(NAME, TEXT, LEAF, SUBLEAF, REG, BIT, STATE) [KXC_##NAME] = {LEAF, SUBLEAF, REG, BIT, STATE},
#include "target/x86/x86.def"
#undef FEATURE
};

/* Without what stands on something that is missing. */
static uint64_t without_orphans(uint64_t features) {
    uint64_t wide = 0; /* what needs zmm and masks kept */
    for (int i = 1; i < KXC_NFEATURES; i++)
        if (feature_bits[i].state >= 2) wide |= 1ull << i;
    if (!(features & KX_HAS(AVX2))) features &= ~(KX_HAS(FMA) | KX_HAS(F16C) | KX_HAS(AVXVNNI) | wide);
    return features & KX_HAS(F) ? features : features & ~wide;
}

#if defined(__x86_64__)
/* 0: the system keeps no vector registers beyond xmm, 1: ymm, 2: zmm and masks too. */
static int kept_state(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0; /* OSXSAVE */
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    if ((low & 0x06) != 0x06) return 0;
    return (low & 0xe0) == 0xe0 ? 2 : 1;
}

static void cpuid_leaf(uint32_t leaf, uint32_t subleaf, unsigned r[4]) {
    memset(r, 0, 4 * sizeof *r);
    if (!__get_cpuid_count(leaf, 0, &r[0], &r[1], &r[2], &r[3]) || !subleaf) return;
    if (leaf == 7 && r[0] < subleaf)
        memset(r, 0, 4 * sizeof *r); /* eax: the last one there is */
    else
        __get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3]);
}

uint64_t kx_cpu_features(void) {
    uint64_t              out   = KX_HAS(BASE);
    int                   state = kept_state();
    unsigned              r[4]  = {0};
    const kx_feature_bit *asked = NULL;
    for (int i = 1; i < KXC_NFEATURES; i++) {
        const kx_feature_bit *b = &feature_bits[i];
        if (!asked || b->leaf != asked->leaf || b->subleaf != asked->subleaf) cpuid_leaf(b->leaf, b->subleaf, r);
        asked = b;
        if (r[b->reg] >> b->bit & 1 && state >= b->state) out |= 1ull << i;
    }
    return without_orphans(out);
}
#else
uint64_t kx_cpu_features(void) {
    return 0;
}
#endif

void kx_features_text(kn_str *out, uint64_t features) {
    bool some = false;
    for (int i = 0; i < KXC_NFEATURES; i++)
        if (features >> i & 1) {
            kn_str_putf(out, "%s%s", some ? " " : "", kx_feature_text[i]);
            some = true;
        }
}
