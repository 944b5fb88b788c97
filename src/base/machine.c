/* machine.c - the named machines, and the one this runs on. */
#include "base/machine.h"

#include <string.h>

/* avx512 and avx2: measured on a Zen 4 server core at 3.65 GHz, one thread: L1 206, L2 116, L3 98, DRAM 32 GB/s read;
 * copies at 29 GB/s give the cost of a write to DRAM; one FMA of 64 bytes, or two of 32, a cycle; L3 as a core of a
 * shared host finds it; stores are announced as Intel's processors like it, by which a Zen 4 loses, and loads are not.
 * sse2 and neon: the same clock and caches with narrower vectors, so that no choice rests on luck; a quarter of L2 and
 * a slower DRAM for neon, as small cores have it. A launch is a call, its argument array and the turn of the pool. */
#define MACHINE_CACHES .cache = {32 << 10, 1 << 20, 4 << 20}, .line = 64, .read_ps = {310, 550, 650, 2000}, \
                       .write_ps = {550, 1100, 1600, 2400}, .cycle_ps = 274, .launch_ps = 1000000, \
                       .announces = INT64_MAX, .reads_from = INT64_MAX
static const kn_machine machines[] = {
    {.name = "avx512", MACHINE_CACHES, .vector_bytes = 64, .vector_registers = 32, .scalar_registers = 16,
     .mask_registers = 8, .alu_per_cycle = 2, .fma_per_cycle = 1},
    {.name = "avx2", MACHINE_CACHES, .vector_bytes = 32, .vector_registers = 16, .scalar_registers = 16,
     .alu_per_cycle = 3, .fma_per_cycle = 2},
    {.name = "sse2", MACHINE_CACHES, .vector_bytes = 16, .vector_registers = 16, .scalar_registers = 16,
     .alu_per_cycle = 3, .fma_per_cycle = 2},
    {.name = "neon", .cache = {64 << 10, 256 << 10, 2 << 20}, .line = 64, .read_ps = {500, 900, 1500, 4000},
     .write_ps = {800, 1500, 2200, 5000}, .cycle_ps = 400, .vector_bytes = 16, .vector_registers = 32,
     .scalar_registers = 31, .alu_per_cycle = 2, .fma_per_cycle = 2, .launch_ps = 1000000, .announces = INT64_MAX,
     .reads_from = INT64_MAX},
};
#undef MACHINE_CACHES
const char *const kn_machine_names[] = {"host", "avx512", "avx2", "sse2", "neon", NULL};
const char *const kn_level_names[KN_LEVELS] = {"L1", "L2", "L3", "DRAM"};

const kn_machine *kn_machine_named(const char *name) {
    for (int i = 0; i < KN_COUNT(machines); i++)
        if (!strcmp(machines[i].name, name)) return &machines[i];
    return NULL;
}

const kn_machine *kn_machine_default(void) { return &machines[0]; }

void kn_machine_host(kn_machine *m) {
    int bytes = kn_cpuid_vector_bytes();
    *m        = *kn_machine_named(bytes == 64 ? "avx512" : bytes == 32 ? "avx2" : bytes ? "sse2" : "neon");
    strcpy(m->name, "host");
    if (bytes) kn_cpuid_fill(m);
}

bool kn_machine_find(const char *name, kn_machine *m, kn_fault *f) {
    if (!strcmp(name, "host")) return kn_machine_host(m), true;
    const kn_machine *named = kn_machine_named(name);
    if (!named)
        return kn_fail(f, KN_ERR_ARG, "no machine \"%s\": there are host, avx512, avx2, sse2 and neon", name);
    *m = *named;
    return true;
}

kn_level kn_machine_level(const kn_machine *m, double bytes) {
    int level = KN_L1;
    while (level < KN_DRAM && bytes > (double)m->cache[level]) level++;
    return (kn_level)level;
}

void kn_machine_print(const kn_machine *m, kn_str *out) {
    kn_str_putf(out,
                "machine %s: vectors of %d bytes, %d registers, a cycle of %d ps with %d vector operations or %d FMA"
                "%s\n",
                m->name, (int)m->vector_bytes, (int)m->vector_registers, (int)m->cycle_ps, (int)m->alu_per_cycle,
                (int)m->fma_per_cycle, m->whole ? ", units of 64 bytes" : "");
    for (int l = KN_L1; l < KN_LEVELS; l++) {
        kn_str_putf(out, "  %-4s", kn_level_names[l]);
        if (l < KN_DRAM) kn_str_putf(out, " %6d KiB", (int)(m->cache[l] >> 10));
        else kn_str_puts(out, "           ");
        kn_str_putf(out, "   read %4d, write %4d ps a line of %d\n", (int)m->read_ps[l], (int)m->write_ps[l],
                    (int)m->line);
    }
    kn_str_putf(out, "  a launch %d ns\n", (int)(m->launch_ps / 1000));
}
