/* disasm.h - an instruction as a line of text, in Intel's syntax as assemblers read it. */
#ifndef KX_DISASM_H
#define KX_DISASM_H

#include "target/x86/encode.h"

/* "vfmadd231ps zmm0{k1}, zmm1, dword ptr [rax + rcx*4 + 64]{1to16}". Labels are .L1, .L2, ...; a jump without one
 * shows its distance from the next instruction. What kx_encode would refuse prints too, with ? for what cannot be. */
void kx_print(kn_str *out, const kx_ins *ins);
/* The name of a register of `bytes` bytes; "?" if there is none. Masks have 0 bytes. `name` takes 16 bytes. */
const char *kx_reg_name(char name[16], kx_class cls, int bytes, int reg);

#endif
