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
typedef struct cpu_answers { /* below a hypervisor each question takes as long as compiling 20 instructions */
    struct {
        uint32_t leaf, subleaf;
        unsigned r[4];
    } got[8];
    int n;
} cpu_answers;

/* eax, ebx, ecx, edx; all 0 of a leaf that there is not. */
static const unsigned *answer(cpu_answers *all, uint32_t leaf, uint32_t subleaf) {
    static const unsigned none[4];
    uint32_t              range = leaf & 0x80000000;
    for (int i = 0; i < all->n; i++)
        if (all->got[i].leaf == leaf && all->got[i].subleaf == subleaf) return all->got[i].r;
    if (leaf != range && answer(all, range, 0)[0] < leaf) return none;
    if (leaf == 7 && subleaf && answer(all, leaf, 0)[0] < subleaf) return none;
    if (all->n == KN_COUNT(all->got)) return none;
    unsigned *r = all->got[all->n].r;
    __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
    all->got[all->n].leaf      = leaf;
    all->got[all->n++].subleaf = subleaf;
    return r;
}

/* 0: the system keeps no vector registers beyond xmm, 1: ymm, 2: zmm and masks too. */
static int kept_state(cpu_answers *all) {
    if (!(answer(all, 1, 0)[2] >> 27 & 1)) return 0; /* OSXSAVE */
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    if ((low & 0x06) != 0x06) return 0;
    return (low & 0xe0) == 0xe0 ? 2 : 1;
}

uint64_t kx_cpu_features(void) {
    cpu_answers all   = {.n = 0};
    uint64_t    out   = KX_HAS(BASE);
    int         state = kept_state(&all);
    for (int i = 1; i < KXC_NFEATURES; i++) {
        const kx_feature_bit *b = &feature_bits[i];
        if (answer(&all, b->leaf, b->subleaf)[b->reg] >> b->bit & 1 && state >= b->state) out |= 1ull << i;
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
