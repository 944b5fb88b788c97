/* target.h - what a target adds to the pipeline: its select rules, how tiles become what it holds, and how a LINEAR
 * turns into code. A kernel is a function void SYMBOL(void *const *bufs, const int64_t *vars, int64_t lo, int64_t hi):
 * it runs iterations lo..hi of its THREAD loops, which count on from one to the next, *chunks of them in all (1 if it
 * has none); where the bound is symbolic there is one such loop, *chunks is the most, and iterations that are not there
 * do nothing. What is not inside those loops and writes runs where lo is 0. bufs[k] is what stands behind PARAM k;
 * where that is a variable, vars[k] is its value. */
#ifndef KN_TARGET_H
#define KN_TARGET_H

#include "base/machine.h"
#include "device/native.h"
#include "rewrite/rewrite.h"

/* The build defines KN_NO_X86 where src/target/x86 is not there. */
#if defined(__x86_64__) && !defined(_WIN32) && !defined(KN_NO_X86)
#define KN_TARGET_X86 1
#else
#define KN_TARGET_X86 0
#endif

typedef struct kt_target kt_target;

/* A target and what it may use. Zeroed: the C target. */
typedef struct kt_choice {
    const kt_target *target;
    int              level; /* features, as the target counts them */
    bool             listing; /* Render shows machine code as text too */
    int              regs;  /* registers of a class to use at most, 0: all; for tests of spilling */
    bool             whole; /* as kn_machine has it */
} kt_choice;

enum { KT_UNWIND = 512 };

/* Render's result: source text, or machine code. Owned by the caller, from the graph's allocator. */
typedef struct kt_output {
    char    *text; /* 0-terminated, size + 1 bytes; machine code: size bytes */
    size_t   size;
    char    *listing; /* 0-terminated, listing_size + 1 bytes, where it was asked for of machine code; else NULL */
    size_t   listing_size;
    int64_t  chunks;
    /* Of machine code: how to unwind from it. The frame's body is `unwind`, of length 0 where that is unknown. */
    kd_frame frame;
    uint8_t  unwind[KT_UNWIND];
    uint32_t spills; /* of machine code: registers that were put by in an innermost loop, stores and loads */
    uint32_t remade; /* instructions that make a value again there, for want of registers */
    double   cycles; /* of machine code: that its instructions take in all iterations, if they wait for nothing */
} kt_output;

struct kt_target {
    const char *name;
    bool        machine; /* gives machine code, not source */
    uint64_t    groups[4]; /* rules of Select, by level */
    /* Code of that choice runs on this machine; KN_ERR_DEVICE: what the machine lacks. NULL: it does. */
    bool (*runs)(const kt_choice *c, kn_fault *f);
    /* Cuts the table of the machine down to what the target uses of it. NULL: all. */
    void (*fit)(const kt_choice *c, kn_machine *m);
    /* Select, after the rules. NULL: tiles stay whole until Render. */
    bool (*cut)(kn_graph *g, kn_ref *root, const kt_choice *c, kn_fault *f);
    bool (*render)(const kn_graph *g, kn_ref linear, const char *symbol, const kt_choice *c, kt_output *out,
                   kn_fault *f);
};

/* "c"; "x86" where this build has it, with ":avx2" or ":avx512" and ":regs=N" behind it. NULL:
 * x86 where the machine has what it needs, else c. */
bool kt_find(const char *name, kt_choice *out, kn_fault *f);
/* The target of a choice: the C target if none was made. */
const kt_target *kt_of(const kt_choice *c);
/* What it makes runs on this machine. False: KN_ERR_DEVICE says what the machine lacks. */
bool kt_runs(const kt_choice *c, kn_fault *f);

/* Whether that loop, at the top of a kernel, is one whose iterations are shared out; `last`: the one before it that is,
 * 0 none. */
bool kt_is_shared(const kn_graph *g, kn_ref range, kn_ref last);
/* What is announced at that INDEX is written: a STORE of the list goes to the same storage. */
bool kt_is_written(const kn_graph *g, const kn_ref *list, uint32_t n, kn_ref place);

/* Rows of a tile are all its axes but the last, row-major. The row of s that broadcasts to a row of d. */
int64_t kt_row_in(int srank, const int64_t *sdims, int drank, const int64_t *ddims, int64_t row);
/* Does row `from` of s fall on `row` of d, which is s with some axes folded to 1? */
bool    kt_row_falls_on(int rank, const int64_t *sdims, const int64_t *ddims, int64_t from, int64_t row);

/* C source (target/c): what kernels of one translation unit share, types and helper functions. */
void                   kt_c_preamble(kn_str *out);
extern const kt_target kt_c;
#if KN_TARGET_X86
extern const kt_target kt_x86;
/* Reads ":avx2", ":regs=4" and so on. */
bool kt_x86_options(const char *text, kt_choice *c, kn_fault *f);
#endif

#endif
