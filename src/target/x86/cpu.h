/* cpu.h - what this CPU has. */
#ifndef KX_CPU_H
#define KX_CPU_H

#include "target/x86/encode.h"

/* A mask of KX_HAS: what CPUID reports and the system keeps (XGETBV); 0 where this is no x86-64. Asks anew each time:
 * under a microsecond, some 20 where a hypervisor answers; keep it. */
uint64_t kx_cpu_features(void);

/* The names in a set, for messages: "x86-64 popcnt avx2". */
void kx_features_text(kn_str *out, uint64_t features);

#endif
