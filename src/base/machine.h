/* machine.h - what the compiler believes of the machine it compiles for: one table of whole numbers.
 *
 * Contract: nothing is measured. A table comes from a name, or from what the CPU says of itself (CPUID); what it does
 * not say is the named table's of its vector width. Choices depend on the program and on this table alone, so the same
 * table gives the same kernels, on any machine and at any number of threads. */
#ifndef KN_MACHINE_H
#define KN_MACHINE_H

#include "base/base.h"

/* Where bytes are found. */
typedef enum kn_level { KN_L1, KN_L2, KN_L3, KN_DRAM, KN_LEVELS } kn_level;

/* What targets that turn lanes in registers do, and Optimize counts on: elements from the first to the last of which
 * the lanes of one register are loaded, as parts of one address; rows that are put in turns, lane by lane, as they are
 * stored, at most, and as far apart sixteen lanes are loaded by shuffles; how far fewer lanes, by one a register. */
enum { KN_PLACES_APART = 1 << 24, KN_IN_TURNS = 8, KN_NEAR = 4 };

typedef struct kn_machine {
    char    name[24];
    int64_t cache[KN_DRAM]; /* bytes: L1 data, L2, and the share of L3 that one core can count on */
    int64_t line;           /* bytes */
    int64_t read_ps[KN_LEVELS], write_ps[KN_LEVELS]; /* of a line, streaming, one thread */
    int64_t cycle_ps;
    int64_t vector_bytes, vector_registers, scalar_registers, mask_registers; /* masks: bools of lanes; 0, in vectors */
    int64_t alu_per_cycle, fma_per_cycle; /* vector operations; loads of an FMA's operands keep up */
    int64_t launch_ps;                    /* of a kernel */
    bool    whole; /* vectors of 64 bytes are one operation and one load each, where other machines make two of them */
    /* Bytes that a kernel moves from which, and up to which, stores are faster if their lines are asked for before. */
    int64_t announces_from, announces;
    int64_t reads_from; /* and from which loads are, up to that as well */
    /* Not what the CPU, but what a target makes of it: */
    bool masks; /* lanes are read under a gate as one */
    bool turns; /* a block whose rows lie side by side in memory is turned in registers, and rows are put in turns */
    bool beside; /* what lanes are folded to of several rows are lanes of one register */
} kn_machine;

/* "avx512" "avx2" "sse2" "neon": fixed tables, on any machine. NULL: there is none of that name. */
const kn_machine *kn_machine_named(const char *name);
extern const char *const kn_machine_names[]; /* NULL behind the last */
/* What programs are lowered for where nobody says anything: "avx512". */
const kn_machine *kn_machine_default(void);
/* The machine this runs on, named "host". */
void kn_machine_host(kn_machine *m);
/* "host" or a name. False: there is no such machine; the fault lists those there are. */
bool kn_machine_find(const char *name, kn_machine *m, kn_fault *f);
/* The nearest level that holds so many bytes. */
kn_level kn_machine_level(const kn_machine *m, double bytes);
extern const char *const kn_level_names[KN_LEVELS]; /* "L1" ... "DRAM" */
/* The table, a line each. */
void kn_machine_print(const kn_machine *m, kn_str *out);

/* cpuid.c: what the CPU says of its caches, vectors and clock, over what m holds. Returns whether vectors of 64, 32 or
 * 16 bytes may be used; 0, and nothing is set: no CPUID here. */
int kn_cpuid_vector_bytes(void);
void kn_cpuid_fill(kn_machine *m);

#endif
