/* emit.h - inside Render of x86-64: a planned list becomes instructions. */
#ifndef KN_X86_EMIT_H
#define KN_X86_EMIT_H

#include "target/x86/code.h"
#include "target/x86/plan.h"
#include "target/x86/unwind.h"

/* A source as an instruction takes it: a register, or memory. */
typedef struct kx_rm {
    bool   mem, bcast;
    int    reg;
    kx_ins at; /* its memory operand */
} kx_rm;

typedef enum kx_helper {
#define HELPER(name) KX_H_##name,
#include "target/x86/helpers.def"
#undef HELPER
    KX_HELPERS
} kx_helper;

/* pace.c: how long what is written takes. */
typedef enum kx_unit {
    KX_UNIT_FRONT, KX_UNIT_LOAD, KX_UNIT_STORE, KX_UNIT_VECTOR, KX_UNIT_MULTIPLY, KX_UNIT_SHUFFLE, KX_UNIT_DIVIDER,
    KX_UNITS
} kx_unit;
typedef struct kx_pace {
    double busy[KX_UNITS]; /* cycles, of the body in hand, */
    double times;          /* which runs so often */
    double cycles;         /* of all before it */
    bool   whole;          /* units take 64 bytes (kn_machine) */
} kx_pace;
void kx_pace_places(kx_plan *p);
int  kx_pace_ragged(const kx_plan *p, const kx_spot *a, int size); /* for kx_ins.ragged */
void kx_pace_add(kx_pace *t, const kx_ins *i);
/* What comes now is of that loop's body; -1: of none. */
void kx_pace_turn(kx_pace *t, const kx_plan *p, int loop);

/* A gated LOAD's value without it, made behind the function: at `label`, 0 with the one before it; on at `past`. */
typedef struct kx_detour {
    kn_ref  load;
    int     reg;
    int32_t label, past;
} kx_detour;

typedef struct kx_writer {
    kx_plan        *p;
    const kn_graph *g;
    kx_code         code;
    kn_fault       *f;
    bool            avx512, calls;
    bool            streams;               /* stores went past the caches: they are seen before the kernel ends */
    int32_t         pushed;                /* bytes of the return address and what stands below it */
    int32_t         low, high, args, save; /* in the frame: lo, hi; what helpers take; registers around a call */
    int32_t         first, last;           /* of lo..hi, what the THREAD loop in hand runs */
    int             bound;                 /* register of `last`, where such loops compare with it, -1: none is left */
    int32_t        *local;                 /* in the frame: of a BUFFER{LOCAL} */
    int32_t         thunk[KX_HELPERS];     /* labels, 0: not called */
    uint32_t        at;                    /* the place in the list: of the item, or what is made before it */
    uint32_t        copied;                /* copies before that place are made */
    size_t          moves;                 /* of the plan's, made so far */
    kn_ref          under;                 /* the last that a jump to `past` leaves out, 0: none is open */
    int32_t         past;
    kx_detour      *detour;
    size_t          ndetour, detour_cap;
    kn_ref          flags; /* a comparison that stands in the flags alone, as `cond`; 0: none */
    int             cond;
    int32_t         top[KX_MAX_LOOPS], out[KX_MAX_LOOPS];
    kx_unwind       unwind;
    kx_pace         pace;
    kn_str         *list;           /* the instructions as text, or NULL */
    int             v0, v1, v2, v3; /* scratch: of sequences, of a result, of sources */
} kx_writer;

enum { KX_A = KX_RAX, KX_D = KX_RDX, KX_C = KX_RCX, KX_K0 = 7, KX_K1 = 6 }; /* scratch; K1 where they do not all fit */

/* emit.c: operands */
void kx_put(kx_writer *e, kx_ins i);
void kx_here(kx_writer *e, int32_t label);
void kx_jcc(kx_writer *e, kx_cond cond, int32_t label);
void kx_jump(kx_writer *e, int32_t label);
void kx_refused(kx_writer *e, kn_ref n, const char *what);
/* a * b + c of lanes or of scalars, with the signs of the product and of what is added: 213 is a = a * b + c, 231 adds
 * to the first. */
kx_form_id kx_fused_form(bool lanes, bool to_third, bool dbl, bool minus, bool less);
int        kx_predicate(int op);  /* of vcmp, for a comparison of floats */
int        kx_from_right(int op); /* a comparison as it is of its sources the other way round */
/* Registers that hold n: `scratch` where it is in the frame or a constant. */
int kx_gp(kx_writer *e, kn_ref n, int scratch);
int kx_get(kx_writer *e, kn_ref n, int bytes, int scratch, kn_ref user);
int kx_mask(kx_writer *e, kn_ref n, int scratch);
/* As the last source: memory where it lies there. bcast: the form takes {1toN}. */
kx_rm kx_vec_rm(kx_writer *e, kn_ref n, int bytes, bool bcast, kn_ref user);
kx_rm kx_gp_rm(kx_writer *e, kn_ref n, int scratch);
/* Where n's result is made, and the end of it. */
int     kx_dst(kx_writer *e, kn_ref n);
void    kx_done(kx_writer *e, kn_ref n, int reg);
kx_ins  kx_at_place(kx_writer *e, kx_ins i, kn_ref place);
kx_ins  kx_with(kx_ins i, const kx_rm *rm);
int32_t kx_pool(kx_writer *e, const void *data, size_t size);
/* bits of a scalar constant in a lane of n's dtype; its lane size. */
uint64_t kx_lane_bits(const kx_plan *p, kn_ref n, int *size);
int32_t  kx_pool_lanes(kx_writer *e, uint64_t bits, int size, int bytes);
void     kx_extend(kx_writer *e, int reg, int dtype);
void     kx_move_vec(kx_writer *e, int to, int from, int bytes);
void     kx_load_bits(kx_writer *e, int vec, int bytes, kx_ins at);
/* Lanes of four or eight bytes, `step` apart, one by one. */
void kx_load_lanes(kx_writer *e, int d, int size, int w, int64_t step, const kx_ins *m);
void kx_call(kx_writer *e, kx_helper h);

/* emit_scalar.c, emit_vector.c, emit_memory.c, emit_divide.c, emit_avx2.c */
void kx_emit_integer(kx_writer *e, kn_ref n); /* a scalar in a GP register */
void kx_set_flag(kx_writer *e, kn_ref n, int d); /* 1 or 0 in register d, for a comparison of integers */
void kx_emit_real(kx_writer *e, kn_ref n);    /* a float scalar */
void kx_emit_lanes(kx_writer *e, kn_ref n);   /* an INS on lanes */
void kx_put_logic(kx_writer *e, kn_ref n, int bytes); /* logic.c: with what stands in it */
void kx_emit_bits(kx_writer *e, kn_ref n);    /* BITCAST */
void kx_emit_load(kx_writer *e, kn_ref n);
/* The table of a LOAD's shuffle: the register that holds it, or `scratch`, which has it now. */
int  kx_load_table(kx_writer *e, kn_ref load, const kx_table *t, int scratch);
void kx_put_table(kx_writer *e, const kx_table *t, int reg);
kx_rm kx_signs(kx_writer *e, kn_ref neg, int bytes); /* what a NEG of floats inverts */
void kx_emit_store(kx_writer *e, kn_ref n);
bool kx_is_silent(const kx_plan *p, kn_ref n); /* no instruction comes of the item but as a part of others */
bool kx_emit_copy(kx_writer *e, kn_ref store); /* copies.c. False: its value is no such LOAD */
bool kx_emit_fill(kx_writer *e, kn_ref store); /* copies.c. False: it is no constant, or none that follow one another */
kn_ref kx_copied_under(const kx_plan *p, kn_ref store); /* copies.c. The gate of such a LOAD; 0: there is none */
void kx_emit_divide(kx_writer *e, kn_ref n);
void kx_set_to(kx_writer *e, kn_ref n, kn_ref alt, int d); /* d = alt, which n is without its gate */
/* emit_gates.c: jumps to `past` where the gate is false */
void kx_test_gate(kx_writer *e, kn_ref gate, int32_t past);
void kx_open_gate(kx_writer *e, kn_ref load);
void kx_close_gate(kx_writer *e, kn_ref n);
bool kx_asks_for_read(const kn_graph *g, kn_ref gate);
/* Where to go for a copied LOAD without its gate: `reg` is 0 then, and the way goes on at `past`. */
int32_t kx_take_detour(kx_writer *e, kn_ref copied, int reg, int32_t past);
void    kx_emit_detours(kx_writer *e); /* behind the function */
bool kx_is_gate_alone(const kx_writer *e, kn_ref n); /* of what comes next: the flags are enough */
void kx_emit_turns(kx_writer *e, kn_ref load); /* of rows that are put in turns (emit_turns.c) */
void kx_emit_slide(kx_writer *e, kn_ref load, kn_ref a, kn_ref b, int from); /* of two registers (emit_turns.c) */
/* emit_narrow.c: lanes of one or two bytes, `step` apart, eight bytes of them at least; of a LOAD its bytes alone. */
void kx_load_narrow(kx_writer *e, kn_ref load, int d, int64_t step, const int32_t *place, const kx_ins *m);
void kx_store_narrow(kx_writer *e, int v, int size, int w, int64_t step, const kx_ins *m);
void kx_emit_divide_lanes(kx_writer *e, kn_ref n, int bytes);
/* What AVX2 has no instruction for. */
void kx_avx2_multiply(kx_writer *e, kn_ref n, int bytes);                 /* of eight bytes */
void kx_avx2_extreme(kx_writer *e, kn_ref n, int bytes);                  /* MAX, MIN of eight bytes */
void kx_avx2_shift_right(kx_writer *e, kn_ref n, int bytes);              /* of i64 */
void kx_avx2_compare(kx_writer *e, kn_ref n, int w);                      /* of integers */
void kx_avx2_choose(kx_writer *e, kn_ref n, int w);                       /* WHERE */
void kx_avx2_narrow(kx_writer *e, int d, int x, int w, int from, int to); /* lanes of `from` bytes */
void kx_avx2_mask(kx_writer *e, int d, int x, int w, int size);           /* a mask for lanes of that size */
void kx_avx2_from_u32(kx_writer *e, int d, int x, int w, bool dbl);       /* to floats */
void kx_round(kx_writer *e, int vec, int dtype);                          /* an f32 to a narrower float, in place */

#endif
