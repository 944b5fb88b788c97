/* pace.c - how long a kernel's instructions take, counted as they are written.
 *
 * Of each loop's body it is what keeps one of the processor's parts busy the longest: the front end, loads, stores, the
 * units of vectors, the divider; times how often the body runs. What waits for what and what the caches serve is left
 * out, optimize/cost.c predicts that: this tells lists of options apart whose code came out longer than predicted. The
 * rates are those of a Zen 4, whose units take 32 bytes at a time (AMD, Software Optimization Guide for the Zen4
 * Microarchitecture). */
#include "target/x86/emit.h"

#include <string.h>

#define PACE_FRONT 0.2        /* cycles for an instruction, of which six go at once at best, */
#define PACE_LOAD 0.5         /* and for 32 bytes and less of a load, */
#define PACE_STORE 0.5        /* for a store, */
#define PACE_VECTOR_STORE 1.0 /* of 32 bytes and less of a vector; */
#define PACE_VECTOR (1.0 / 3) /* for what is computed of them: instructions go to two, three or all of four units; */
#define PACE_DIVIDE 4.0       /* for quotients and roots */
#define PACE_GATHER 8.0       /* loads of a gather, for 32 bytes */
#define PACE_CALL 50.0        /* instructions of a helper */

void kx_pace_add(kx_pace *t, const kx_ins *i) {
    const kx_form *f    = &kx_forms[i->form];
    double         w    = i->size == 64 ? 2 : 1;
    bool           load = false, store = false, vector = false;
    for (int k = 0; k < f->count; k++) {
        const kx_kind *kind = KX_KIND_OF(f, k);
        vector |= kind->cls == KX_VEC || kind->cls == KX_MASK || kind->cls == KX_VSIB;
        if (i->reg[k] != KX_IN_MEM || kind->cls == KX_IMM || kind->cls == KX_REL || kind->cls == KX_FIXED) continue;
        if (!kx_mem_bytes(kind, i->size)) continue; /* an address */
        store |= (kx_role(i, k) & KX_DEF) != 0;
        load |= (kx_role(i, k) & KX_USE) != 0;
    }
    bool moves = f->op == KN_OP_INVALID && f->count == 2; /* to a register as it is, or each lane made longer */
    t->busy[KX_UNIT_FRONT] += PACE_FRONT * (f->flags & KXF_CALLS ? PACE_CALL : 1);
    if (f->flags & (KXF_GATHER | KXF_SCATTER)) {
        t->busy[KX_UNIT_FRONT] += PACE_FRONT * PACE_GATHER * w;
        t->busy[KX_UNIT_LOAD] += PACE_LOAD * PACE_GATHER * w;
    } else if (load) {
        t->busy[KX_UNIT_LOAD] += PACE_LOAD * (vector && !i->broadcast ? w : 1);
    }
    if (store) t->busy[KX_UNIT_STORE] += vector ? PACE_VECTOR_STORE * w : PACE_STORE;
    if (f->op == KN_OP_DIV || f->op == KN_OP_SQRT) t->busy[KX_UNIT_DIVIDER] += PACE_DIVIDE * w;
    else if (vector && !((load || store) && moves)) t->busy[KX_UNIT_VECTOR] += PACE_VECTOR * w;
}

void kx_pace_turn(kx_pace *t, const kx_plan *p, int loop) {
    double most = 0;
    for (int u = 0; u < KX_UNITS; u++) most = KN_MAX(most, t->busy[u]);
    t->cycles += most * t->times;
    memset(t->busy, 0, sizeof t->busy);
    t->times = 1;
    for (; loop >= 0; loop = p->loop[loop].parent)
        t->times *= (double)KN_MAX(kg_max(p->g, kg_at(p->g, p->loop[loop].range, 0)), (int64_t)1);
}
