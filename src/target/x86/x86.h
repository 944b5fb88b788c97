/* x86.h - inside the target x86-64: what its files hand each other. */
#ifndef KN_X86_H
#define KN_X86_H

#include "target/target.h"

enum { KX_SCALAR = 1, KX_AVX2, KX_AVX512 }; /* kt_choice.level */

static inline bool kx_compares(int op) {
    return op == KN_OP_CMPLT || op == KN_OP_CMPNE || op == KN_OP_CMPGT || op == KN_OP_CMPGE || op == KN_OP_CMPLE ||
           op == KN_OP_CMPEQ;
}

/* Bytes of a lane of the dtype in a register: floats are f32 at least, bools a bit of a mask (1), or a word, and less
 * where they are more lanes than a register has words (kx_plan.flag). */
static inline int kx_held_bytes(bool avx512, int dtype) {
    if (dtype == KN_BOOL) return avx512 ? 1 : 4;
    return kn_is_float(dtype) ? KN_MAX(kn_dsize(dtype), 4) : kn_dsize(dtype);
}

/* Select's last part (cut.c). bytes: of a vector register, 0: scalars only; whole: as kn_machine has it. */
bool kx_cut_kernel(kn_graph *g, kn_ref *root, bool whole, int bytes, kn_fault *f);

/* Slots of the LOCAL buffers that Select adds, from here on: lanes by way of memory. */
#define KX_LOCALS ((int64_t)1 << 40)
/* Bytes and words are shuffled into sixteen bytes of a register if they lie within so many (emit_narrow.c). */
enum { KX_NEAR = 64 };
/* Runs of `each` elements that have all w places, none of them beyond the first place and the last: where they start,
 * in order, and how many; more than `most`: they are not enough, or all places lie within less than a run. */
int kx_runs_of(const int32_t *place, int w, int each, int most, int32_t *start);
/* Loads of lanes at places that are known but for what all have: so many runs, shuffled. */
enum { KX_PLACE_RUNS = 6 };
/* Of a STORE's number, beside {1} for streaming: it stores lanes again that another one of the same value has. */
enum { KX_LAPS = 2 };
/* Lanes of the dtype have a form of IDIV and MOD by this constant, which is no power of two (emit_divide.c). */
bool kx_divides_lanes(int dtype, int64_t by, bool avx512);
/* Every second lane of two such registers takes a shuffle or two (emit_memory.c). Bytes, and words on AVX2, do not. */
bool kx_alternates(bool avx512, int dtype, int64_t lanes);
/* A register of so many lanes is made of two of half as many, or two scalars, by one instruction (emit_memory.c); of
 * integers that are scalars by two. */
bool kx_joins(bool avx512, int dtype, int64_t lanes);
/* Lanes of a register of so many, and of one that begins behind it, are shifted to the first (emit_turns.c). */
bool kx_slides(bool avx512, int dtype, int64_t lanes);
/* So many rows of lanes can be put in turns, in registers (emit_turns.c). */
bool kx_interleaves(bool avx512, int dtype, int rows, int64_t lanes);
/* Render (emit.c). */
bool kx_render(const kn_graph *g, kn_ref linear, const char *symbol, const kt_choice *c, kt_output *out, kn_fault *f);

#endif
