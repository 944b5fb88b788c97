/* code.h - a run of instructions with labels, jumps, aligned places and constants, as bytes that can stand anywhere.
 *
 * Contract: instructions are appended in order; labels are bound once, before or after they are used. kx_code_end puts
 * the constants behind the code and resolves what is open; then bytes[0..len) is position-independent. The first fault
 * stays: after it every call does nothing and returns false.
 * A jump backwards is as short as it can be; one forwards has 32 bits: the sizes of what lies between are not known
 * when it is written, forward jumps of kernels run once a loop, and code that is written once needs no second pass. */
#ifndef KX_CODE_H
#define KX_CODE_H

#include "target/x86/encode.h"

typedef struct kx_code {
    const kn_alloc  *alloc;
    kn_fault        *fault; /* where a refusal is told; kept by the caller */
    uint64_t         features;
    uint8_t         *bytes;
    size_t           len, cap;
    size_t           text_len; /* after kx_code_end: instructions end here, constants follow */
    uint64_t        *label;    /* place + 1 of each label, 0: not bound */
    size_t           nlabel, label_cap;
    struct kx_open  *open;
    size_t           nopen, open_cap;
    uint8_t         *pool; /* constants: each at a multiple of its size */
    size_t           pool_len, pool_cap;
    struct kx_const *constant;
    size_t           nconstant, constant_cap;
    size_t           count;     /* instructions */
    uint32_t         alignment; /* what the first byte must be aligned to */
    bool             failed;
} kx_code;

void kx_code_init(kx_code *c, const kn_alloc *a, uint64_t features, kn_fault *f);
void kx_code_free(kx_code *c);

int32_t kx_label(kx_code *c);               /* a new label; 0: out of memory */
bool    kx_bind(kx_code *c, int32_t label); /* here */
bool    kx_emit(kx_code *c, const kx_ins *ins);
bool    kx_emit_jump(kx_code *c, int32_t label);
bool    kx_emit_jcc(kx_code *c, kx_cond cond, int32_t label);
bool    kx_align(kx_code *c, uint32_t to); /* a power of two, at most 64; filled with nops of several bytes */
/* The label of a constant of 1, 2, 4 .. 64 bytes, aligned to its size; equal ones are stored once. 0: fault. */
int32_t kx_constant(kx_code *c, const void *data, size_t size);
bool    kx_code_end(kx_code *c);

#endif
