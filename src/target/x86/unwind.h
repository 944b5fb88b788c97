/* unwind.h - what a function's prologue and epilogue do to the stack, as DWARF for debuggers (kd_frame).
 *
 * Contract: calls come in the order of the code; `at` is the offset behind the instruction that made the change. At
 * entry the frame address is rsp + 8 and the return address is on top of the stack, as SysV has it. */
#ifndef KX_UNWIND_H
#define KX_UNWIND_H

#include "device/native.h"
#include "target/target.h"
#include "target/x86/encode.h"

typedef struct kx_unwind {
    uint8_t  body[KT_UNWIND];
    size_t   len;
    uint32_t at;
    bool     failed; /* more than fits, or a register with no place */
} kx_unwind;

void kx_unwind_init(kx_unwind *u);
void kx_unwind_frame(kx_unwind *u, uint32_t at, int reg, int32_t offset); /* the frame address is now reg + offset */
/* The frame address is what memory holds at reg + offset, and `plus`. */
void kx_unwind_kept(kx_unwind *u, uint32_t at, int reg, int32_t offset, uint32_t plus);
void kx_unwind_saved(kx_unwind *u, uint32_t at, int reg, int32_t offset); /* reg is kept offset (< 0) from it */
void kx_unwind_restored(kx_unwind *u, uint32_t at, int reg);
void kx_unwind_remember(kx_unwind *u, uint32_t at); /* for an epilogue in the middle: what holds here */
void kx_unwind_recall(kx_unwind *u, uint32_t at);   /* holds again behind it */
/* Filled in for kd_code; points into *u. False: it did not fit, and the function goes without. */
bool kx_unwind_end(const kx_unwind *u, kd_frame *out);

#endif
