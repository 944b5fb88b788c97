/* cpu.h - what this CPU has, and how to ask for less. */
#ifndef KX_CPU_H
#define KX_CPU_H

#include "target/x86/encode.h"

/* A mask of KX_HAS: what CPUID reports and the system keeps (XGETBV); 0 where this is no x86-64. Asks anew each time:
 * under a microsecond, some 20 where a hypervisor answers; keep it. */
uint64_t kx_cpu_features(void);

/* What `text` leaves of the features in `have`. NULL or "": all. Else a list with commas: "avx2" allows what needs no
 * AVX-512, "avx512" asks for it (all of it that there is), "-NAME" takes a feature away and what builds on it.
 * KN_ERR_DEVICE: `have` is below the level asked for, which is at least AVX2. KN_ERR_ARG: an unknown word, or a feature
 * this target cannot do without. */
bool kx_features_named(const char *text, uint64_t have, uint64_t *out, kn_fault *f);

/* The names in a set, for messages: "x86-64 popcnt avx2". */
void kx_features_text(kn_str *out, uint64_t features);

#endif
