/* registers.c - registers of x86-64: which one a value gets, and when.
 *
 * Linear scan over the list: intervals by start, a free register if there is one, else the value of the least weight
 * (uses, times eight for each loop around them, by length) goes to the frame. A second round keeps registers for the
 * way to and from the frame, so that kernels that fit have the whole file. */
#include "target/x86/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct ra_interval {
    kn_ref  node;
    int32_t start;
} ra_interval;

static int ra_by_start(const void *a, const void *b) {
    const ra_interval *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Registers to give out, the ones that a callee keeps last. */
static int ra_pool_of(const kx_plan *p, kx_bank bank, uint8_t *out) {
    static const uint8_t gp[] = {KX_RSI, KX_RDI, KX_R8,  KX_R9,  KX_R10, KX_R11,
                                 KX_RBX, KX_RBP, KX_R12, KX_R13, KX_R14, KX_R15};
    int                  n = 0, most = p->regs ? KN_MAX(1, p->regs - 3) : 64;
    if (bank == KX_BANK_GP)
        for (; n < KN_COUNT(gp) && n < most; n++) out[n] = gp[n];
    else if (bank == KX_BANK_MASK)
        for (; n < (p->tight ? 5 : 6) && n < most; n++) out[n] = (uint8_t)(n + 1);
    else
        for (; n < (p->avx512 ? 32 : 16) - (p->tight ? 4 : 2) && n < most; n++) out[n] = (uint8_t)n;
    return n;
}

static void ra_put_by(kx_plan *p, kx_value *v) {
    int bytes = v->bank == KX_BANK_VEC ? v->bytes : 8;
    v->reg    = -1;
    p->frame  = (p->frame + bytes - 1) / bytes * bytes;
    v->slot   = p->frame;
    p->frame += bytes;
}

/* A register that x would like: that of a source which ends here. */
static int ra_wish(const kx_plan *p, kn_ref n) {
    const kn_graph *g = p->g;
    if (kg_op(g, n) != KN_OP_INS) return -1;
    int op = kx_op(g, n);
    for (uint32_t k = 0; k < kg_nsrc(g, n); k++) {
        kn_ref s = op == KN_OP_MULACC ? kg_at(g, n, 2 - k) : kg_at(g, n, k);
        if (kg_op(g, s) == KN_OP_CONST || !p->value[s].needed || p->value[s].folded) continue;
        const kx_value *v = &p->value[kx_name(p, s)];
        if (v->bank == p->value[n].bank && v->reg >= 0 && v->end == p->value[n].start) return v->reg;
    }
    return -1;
}

static bool ra_scan(kx_plan *p, bool *fits) {
    const kn_alloc *a  = kg_alloc(p->g);
    ra_interval    *in = kn_zalloc(a, (p->size + 1) * sizeof *in);
    kn_ref          active[KX_BANKS][32];
    int             nactive[KX_BANKS] = {0}, count = 0, npool[KX_BANKS];
    uint8_t         pool[KX_BANKS][32];
    if (!in) return kn_oom(p->f);
    *fits = true;
    for (kn_ref n = 1; n < p->size; n++)
        if (p->value[n].bank != KX_BANK_NONE && !p->value[n].same) in[count++] = (ra_interval){n, p->value[n].start};
    qsort(in, (size_t)count, sizeof *in, ra_by_start);
    for (int b = 0; b < KX_BANKS; b++) npool[b] = ra_pool_of(p, (kx_bank)b, pool[b]);
    memset(p->used, 0, sizeof p->used);
    for (int i = 0; i < count; i++) {
        kn_ref    n = in[i].node;
        kx_value *v = &p->value[n];
        int       b = v->bank, reg = -1, hint;
        uint32_t  busy = 0;
        for (int k = 0; k < nactive[b]; k++) {
            kx_value *o = &p->value[active[b][k]];
            if (o->end <= v->start)
                active[b][k--] = active[b][--nactive[b]];
            else
                busy |= 1u << o->reg;
        }
        hint = ra_wish(p, n);
        for (int k = 0; k < npool[b] && reg < 0; k++)
            if (!(busy >> pool[b][k] & 1) && (hint < 0 || pool[b][k] == hint)) reg = pool[b][k];
        for (int k = 0; k < npool[b] && reg < 0; k++)
            if (!(busy >> pool[b][k] & 1)) reg = pool[b][k];
        if (reg < 0) {
            int least = -1;
            *fits     = false;
            for (int k = 0; k < nactive[b]; k++) {
                kx_value *o = &p->value[active[b][k]];
                double    w = o->weight / (o->end - o->start + 1);
                kx_value *m = least < 0 ? v : &p->value[active[b][least]];
                if (w < m->weight / (m->end - m->start + 1)) least = k;
            }
            if (least < 0) {
                ra_put_by(p, v);
                continue;
            }
            reg = p->value[active[b][least]].reg;
            ra_put_by(p, &p->value[active[b][least]]);
            active[b][least] = active[b][--nactive[b]];
        }
        v->reg = (int8_t)reg;
        p->used[b] |= 1u << reg;
        active[b][nactive[b]++] = n;
    }
    kn_free(a, in, (p->size + 1) * sizeof *in);
    return true;
}

/* Registers of a bank that some value holds at one time or another from place `from` to `to`, and those of splits. */
static uint32_t ra_busy(const kx_plan *p, int bank, int loop) {
    int32_t  from = (int32_t)(2 * p->loop[loop].open), to = (int32_t)(2 * p->loop[loop].close + 1);
    uint32_t busy = 0;
    for (kn_ref n = 1; n < p->size; n++) {
        const kx_value *v = &p->value[n];
        if (v->bank == bank && v->reg >= 0 && !v->same && v->start <= to && v->end >= from) busy |= 1u << v->reg;
    }
    for (size_t k = 0; k < p->nsplit; k++)
        if (p->split[k].loop == loop && p->value[p->split[k].value].bank == bank) busy |= 1u << p->split[k].reg;
    return busy;
}

static bool ra_is_split(const kx_plan *p, kn_ref v, int loop) {
    for (size_t k = p->nsplit; k-- > 0 && p->split[k].loop == loop;)
        if (p->split[k].value == v) return true;
    return false;
}

/* What innermost loops read from the frame they may read from registers that nothing else in them takes. */
static bool ra_split_invariants(kx_plan *p) {
    kn_ref  o[KX_MAX_OPERANDS];
    uint8_t pool[32];
    for (int l = 0; l < p->nloop; l++) {
        int32_t from = (int32_t)(2 * p->loop[l].open);
        for (uint32_t i = p->loop[l].open + 1; i <= p->loop[l].close && p->loop[l].inner; i++) {
            kn_ref x = p->list[i];
            if (!p->value[x].needed || p->value[x].folded || p->value[x].step) continue;
            int m = kx_operands(p, x, o);
            for (int k = 0; k < m; k++) {
                kn_ref          v = kx_name(p, o[k]);
                const kx_value *u = &p->value[v];
                if (u->bank == KX_BANK_NONE || u->reg >= 0 || u->start >= from || kg_op(p->g, v) == KN_OP_BUFFER ||
                    ra_is_split(p, v, l))
                    continue;
                int      n = ra_pool_of(p, (kx_bank)u->bank, pool), free = 0;
                uint32_t busy = ra_busy(p, u->bank, l);
                while (free < n && busy >> pool[free] & 1) free++;
                if (free == n) continue;
                if (!KN_GROW(kg_alloc(p->g), p->split, p->split_cap, p->nsplit + 1)) return kn_oom(p->f);
                p->split[p->nsplit++] = (kx_split){v, l, pool[free]};
                p->used[u->bank] |= 1u << pool[free];
            }
        }
    }
    return true;
}

/* Uses and definitions in the frame, in innermost loops. */
static void ra_count_spills(kx_plan *p) {
    kn_ref o[KX_MAX_OPERANDS];
    for (uint32_t i = 0; i < p->n; i++) {
        kn_ref x = p->list[i];
        if (p->loop_of[i] < 0 || !p->loop[p->loop_of[i]].inner || !p->value[x].needed || p->value[x].folded) continue;
        int m = kx_operands(p, x, o);
        if (m < KX_MAX_OPERANDS && kg_dtype(p->g, x) != KN_VOID) o[m++] = x;
        for (int k = 0; k < m; k++) {
            const kx_value *v = &p->value[kx_name(p, o[k])];
            p->spills += v->bank != KX_BANK_NONE && v->reg < 0 && !ra_is_split(p, kx_name(p, o[k]), p->loop_of[i]);
        }
    }
}

bool kx_give_registers(kx_plan *p) {
    bool fits = false, ok = ra_scan(p, &fits);
    if (ok && !fits && !p->tight) {
        p->tight = true;
        p->frame = 0;
        for (size_t i = 0; i < p->size; i++) p->value[i].reg = -1, p->value[i].slot = -1;
        ok = ra_scan(p, &fits);
    }
    int last = p->avx512 ? 31 : 15;
    for (int k = 0; k < 4; k++) p->scratch[k] = (uint8_t)(p->tight ? last - k : last - (k > 0));
    ok = ok && (!p->tight || ra_split_invariants(p));
    if (ok) ra_count_spills(p);
    return ok;
}
