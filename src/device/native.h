/* native.h - machine code in this process: memory it runs from, and what debuggers and profilers are told of it.
 *
 * Contract: knows no instruction set; targets hand in bytes. No page is ever writable and executable at once: a batch
 * of functions is written to pages nothing else is on, which are then made executable, and not written again until all
 * of it is gone. So other threads may run what is loaded meanwhile. Calls on one arena come one at a time.
 * Where the system denies executable memory, kd_native_load fails with KN_ERR_DEVICE, and nothing else has happened. */
#ifndef KD_NATIVE_H
#define KD_NATIVE_H

#include "base/base.h"

/* How to unwind from anywhere in a function, as DWARF says it (call frame instructions; DWARF 5, 6.4). */
typedef struct kd_frame {
    uint16_t       machine;     /* e_machine of ELF */
    uint8_t        code_factor; /* code_alignment_factor */
    int8_t         data_factor; /* data_alignment_factor, -64..63 */
    uint8_t        return_reg;  /* column of the return address */
    const uint8_t *entry;       /* instructions that hold at the entry of every function of the target */
    size_t         entry_len;
    const uint8_t *body; /* and those of this one */
    size_t         body_len;
} kd_frame;

typedef struct kd_code {
    const char     *name;
    const void     *bytes; /* position-independent */
    size_t          len;
    uint32_t        align; /* a power of two, at most 4096; 0: 16 */
    const kd_frame *frame; /* NULL: nothing is known; then debuggers are told nothing */
    void           *at;    /* out */
} kd_code;

typedef struct kd_native_options {
    bool    perf_map; /* append to /tmp/perf-PID.map, which perf reads */
    bool    debugger; /* announce functions to GDB (its JIT interface) */
    uint8_t fill;     /* what stands between functions: an instruction that traps */
} kd_native_options;

/* All of *o, from the environment: KOINE_JIT is a list of "perf" and "gdb". Unknown words are a fault. */
bool kd_native_env(kd_native_options *o, kn_fault *f);

typedef struct kd_native kd_native;
kd_native *kd_native_new(const kn_alloc *a, const kd_native_options *o, kn_fault *f); /* touches nothing yet */
void       kd_native_free(kd_native *n);                                              /* with all that is loaded */
/* Loads all or none; one pair of mprotect calls. A perf map that cannot be written is reported through `warn`. */
bool kd_native_load(kd_native *n, kd_code *code, int count, void (*warn)(void *user, const char *line), void *user,
                    kn_fault *f);
/* The function at `at` will not be called again. Its pages are used anew once nothing else is on them. */
void kd_native_unload(kd_native *n, void *at);

typedef struct kd_native_stats {
    size_t functions, bytes; /* loaded now */
    size_t pages, mapped;    /* in use; mapped in all, in bytes */
    size_t protects;         /* calls of mprotect so far */
} kd_native_stats;
kd_native_stats kd_native_stat(const kd_native *n);

/* ---- for debuggers (debug.c) --------------------------------------------------------------------------------- */

/* An ELF object in memory that says where a function stands and how to unwind from it: *size bytes, NULL out of
 * memory. For a debugger in this process; it refers to the code by its address. */
void *kd_debug_object(const kn_alloc *a, const kd_code *code, size_t *size, kn_fault *f);
/* Announce it; the object must live until kd_debug_withdraw. NULL: out of memory. */
typedef struct kd_debug_entry kd_debug_entry;
kd_debug_entry               *kd_debug_announce(const kn_alloc *a, const kd_code *code, kn_fault *f);
void                          kd_debug_withdraw(const kn_alloc *a, kd_debug_entry *e);
/* One line a function to /tmp/perf-PID.map. */
bool kd_debug_perf_map(const kd_code *code, int count, kn_fault *f);

#endif
