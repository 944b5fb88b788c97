/* random_ins.h - random instructions that the encoder must take. */
#ifndef KN_RANDOM_INS_H
#define KN_RANDOM_INS_H

#include "target/x86/encode.h"

uint64_t rnd_next(uint64_t *seed);
int      rnd_below(uint64_t *seed, int n);
/* How many registers an operand of this kind chooses from. */
int rnd_registers(const kx_kind *k, bool evex);
/* Random registers (from 16 on only with `evex`), an immediate, a memory operand with a base where it may be one and
 * `memory` is asked. False: the form has no memory operand, or has to have one. */
bool rnd_ins(uint64_t *seed, kx_ins *ins, int form, int size, bool memory, bool evex);
/* Of gathers: the registers that must differ do. */
bool rnd_legal(const kx_ins *ins);

#endif
