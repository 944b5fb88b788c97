/* pace.c - how long a kernel's instructions take, counted as they are written.
 *
 * Of each loop's body it is what keeps one of the processor's parts busy the longest: the front end, loads, stores, the
 * units of vectors and those that multiply, or move lanes, the divider; times how often the body runs. What waits for
 * what and what the caches serve is left out, optimize/cost.c predicts that: this tells lists of options apart
 * (lower/pipeline.c). The rates are those of a Zen 4, whose units take 32 bytes at a time (AMD, Software Optimization
 * Guide for the Zen4 Microarchitecture); a Zen 5's take 64. */
#include "target/x86/emit.h"

#include <string.h>

#define PACE_FRONT 0.2        /* cycles for an instruction, of which six go at once at best, */
#define PACE_LOAD 0.5         /* and for 32 bytes and less of a load, twice where they go on to the next line; */
#define PACE_STORE 0.5        /* for a store, */
#define PACE_VECTOR_STORE 1.0 /* of 32 bytes and less of a vector; */
#define PACE_VECTOR (1.0 / 3) /* for what is computed of them: instructions go to two, three or all of four units, */
#define PACE_MULTIPLY 0.5     /* of which two multiply floats; */
#define PACE_SHUFFLE 0.5      /* and two move lanes; */
#define PACE_DIVIDE 4.0       /* for quotients and roots */
#define PACE_GATHER 3.5       /* loads, or stores, that a lane of a gather or a scatter takes as long as */
#define PACE_CALL 50.0        /* instructions of a helper */

enum { OF_LINE = 6 }; /* a line is 1 << OF_LINE bytes */

static int even_of(const kx_plan *p, kn_ref n) {
    if (kg_op(p->g, n) != KN_OP_CONST) return p->value[n].even;
    uint64_t v = (uint64_t)kg_const_int(p->g, n);
    return v ? KN_MIN(__builtin_ctzll(v), OF_LINE) : OF_LINE;
}

/* Of all numbers that places are made of. Loops count from 0 by 1. */
void kx_pace_places(kx_plan *p) {
    const kn_graph *g = p->g;
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref n = p->list[i];
        if (kg_op(g, n) != KN_OP_INS || kg_dtype(g, n) != KN_INDEX || kg_nsrc(g, n) < 2) continue;
        int a = even_of(p, kg_at(g, n, 0)), b = even_of(p, kg_at(g, n, 1));
        switch (kx_op(g, n)) {
        case KN_OP_MUL: p->value[n].even = (uint8_t)KN_MIN(a + b, OF_LINE); break;
        case KN_OP_ADD: case KN_OP_SUB: p->value[n].even = (uint8_t)KN_MIN(a, b); break;
        case KN_OP_MULACC: p->value[n].even = (uint8_t)KN_MIN(a + b, even_of(p, kg_at(g, n, 2))); break;
        default: break;
        }
    }
}

int kx_pace_ragged(const kx_plan *p, const kx_spot *a, int size) {
    int even = a->off ? even_of(p, a->off) + __builtin_ctz((unsigned)a->times) : OF_LINE;
    if (a->disp) even = KN_MIN(even, __builtin_ctzll((uint64_t)a->disp));
    return KN_MAX(OF_LINE - even - __builtin_ctz((unsigned)size), 0);
}

/* Of the places where so many bytes may lie, the share that goes on to the next line. */
static double share_across(const kx_ins *i, int bytes) {
    int step = (1 << OF_LINE) >> i->ragged;
    return bytes > step ? (double)(bytes - step) / (1 << OF_LINE) : 0;
}

/* Of a gather or a scatter, whose data are its one vector, or of AVX2 as long as its mask. */
static int lanes_moved(const kx_form *f, int size) {
    int k = 0;
    while (KX_KIND_OF(f, k)->cls != KX_VEC) k++;
    return kx_reg_bytes(KX_KIND_OF(f, k), size) / kn_dsize(f->dt);
}

void kx_pace_add(kx_pace *t, const kx_ins *i) {
    const kx_form *f    = &kx_forms[i->form];
    double         w    = i->size == 64 && !t->whole ? 2 : 1;
    bool           store = false, vector = false;
    int            load = 0; /* bytes */
    for (int k = 0; k < f->count; k++) {
        const kx_kind *kind = KX_KIND_OF(f, k);
        vector |= kind->cls == KX_VEC || kind->cls == KX_MASK || kind->cls == KX_VSIB;
        if (i->reg[k] != KX_IN_MEM || kind->cls == KX_IMM || kind->cls == KX_REL || kind->cls == KX_FIXED) continue;
        int bytes = kx_mem_bytes(kind, i->size);
        if (!bytes) continue; /* an address */
        store |= (kx_role(i, k) & KX_DEF) != 0;
        if (kx_role(i, k) & KX_USE) load = i->broadcast ? 1 : bytes;
    }
    bool moves = f->op == KN_OP_INVALID && f->count == 2; /* to a register as it is, or each lane made longer */
    t->busy[KX_UNIT_FRONT] += PACE_FRONT * (f->flags & KXF_CALLS ? PACE_CALL : 1);
    if (f->flags & (KXF_GATHER | KXF_SCATTER)) {
        int lanes = lanes_moved(f, i->size);
        t->busy[KX_UNIT_FRONT] += PACE_FRONT * PACE_GATHER * lanes;
        t->busy[KX_UNIT_LOAD] += PACE_LOAD * PACE_GATHER * lanes;
    } else if (load) {
        t->busy[KX_UNIT_LOAD] += PACE_LOAD * (load > 32 && !t->whole ? 2 : 1) * (1 + share_across(i, load));
    }
    if (store) t->busy[KX_UNIT_STORE] += vector ? PACE_VECTOR_STORE * w : PACE_STORE;
    if (f->vex == KXC_FMA || (f->op == KN_OP_MUL && kn_is_float(f->dt))) t->busy[KX_UNIT_MULTIPLY] += PACE_MULTIPLY * w;
    if (f->flags & KXF_SHUFFLES) t->busy[KX_UNIT_SHUFFLE] += PACE_SHUFFLE * w;
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
