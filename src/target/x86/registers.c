/* registers.c - registers of x86-64: which one a value gets, and when.
 *
 * Linear scan over the list: intervals by start, a free register if there is one, else the value of the least weight
 * (uses, times eight for each loop around them, by length) goes to the frame. A second round keeps registers for the
 * way to and from the frame, so that kernels that fit have the whole file. Then each innermost loop is looked at alone:
 * where what it reads and makes fits, all of it is in registers while the loop runs; else they are shared (remake.h).
 */
#include "target/x86/remake.h"

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

int kx_vectors(const kx_plan *p, bool tight) {
    return KN_MIN((p->avx512 ? 32 : 16) - (tight ? 4 : 2), p->regs ? KN_MAX(1, p->regs - 3) : 64);
}

/* Registers to give out, the ones that a callee keeps last. */
static int ra_pool_of(const kx_plan *p, kx_bank bank, bool tight, uint8_t *out) {
    static const uint8_t gp[] = {KX_RSI, KX_RDI, KX_R8,  KX_R9,  KX_R10, KX_R11,
                                 KX_RBX, KX_RBP, KX_R12, KX_R13, KX_R14, KX_R15};
    int                  n = 0, most = p->regs ? KN_MAX(1, p->regs - 3) : 64;
    if (bank == KX_BANK_GP)
        for (; n < KN_COUNT(gp) && n < most; n++) out[n] = gp[n];
    else if (bank == KX_BANK_MASK)
        for (; n < (tight ? 5 : 6) && n < most; n++) out[n] = (uint8_t)(n + 1);
    else
        for (; n < kx_vectors(p, tight); n++) out[n] = (uint8_t)n;
    return n;
}

int kx_spare_register(kx_plan *p, kx_bank bank) {
    uint8_t pool[32];
    for (int k = 0, n = ra_pool_of(p, bank, false, pool); k < n; k++) {
        if (p->used[bank] >> pool[k] & 1) continue;
        p->used[bank] |= 1u << pool[k];
        return pool[k];
    }
    return -1;
}

void kx_lay(kx_plan *p, kx_value *v) {
    int bytes = v->bank == KX_BANK_VEC ? v->bytes : 8;
    if (v->slot >= 0) return;
    p->frame = (p->frame + bytes - 1) / bytes * bytes;
    v->slot  = p->frame;
    p->frame += bytes;
}

static void ra_put_by(kx_plan *p, kx_value *v) {
    v->reg = -1;
    kx_lay(p, v);
}

int kx_wish(const kx_plan *p, kn_ref n) {
    const kn_graph *g = p->g;
    if (kg_op(g, n) != KN_OP_INS) return -1;
    kn_ref o[KX_MAX_OPERANDS];
    bool   logic = p->value[n].logic, last = kx_op(g, n) == KN_OP_MULACC;
    int    m     = logic ? kx_operands(p, n, o) : (int)kg_nsrc(g, n);
    for (int k = 0; k < m; k++) {
        kn_ref s = logic ? o[k] : kg_at(g, n, (uint32_t)(last ? m - 1 - k : k));
        if (kg_op(g, s) == KN_OP_CONST || !p->value[s].needed || p->value[s].folded) continue;
        const kx_value *v = &p->value[kx_name(p, s)];
        if (v->bank == p->value[n].bank && v->reg >= 0 && v->end == p->value[n].start) return v->reg;
    }
    return -1;
}

/* What a register holds, until when, and what its uses weigh by its length. */
typedef struct ra_held {
    kn_ref  node;
    int32_t end;
    double  rate;
} ra_held;

static bool ra_scan(kx_plan *p, bool *fits) {
    const kn_alloc *a  = kg_alloc(p->g);
    ra_interval    *in = kn_zalloc(a, (p->size + 1) * sizeof *in);
    ra_held         held[KX_BANKS][32];
    uint32_t        busy[KX_BANKS] = {0};
    int             count = 0, npool[KX_BANKS];
    uint8_t         pool[KX_BANKS][32];
    if (!in) return kn_oom(p->f);
    *fits = true;
    for (kn_ref n = 1; n < p->size; n++)
        if (p->value[n].bank != KX_BANK_NONE && !p->value[n].same) in[count++] = (ra_interval){n, p->value[n].start};
    qsort(in, (size_t)count, sizeof *in, ra_by_start);
    for (int b = 0; b < KX_BANKS; b++) npool[b] = ra_pool_of(p, (kx_bank)b, p->tight, pool[b]);
    memset(p->used, 0, sizeof p->used);
    for (int i = 0; i < count; i++) {
        kn_ref    n = in[i].node;
        kx_value *v = &p->value[n];
        int       b = v->bank, reg = -1;
        double    rate = v->weight / (v->end - v->start + 1);
        for (uint32_t m = busy[b]; m; m &= m - 1)
            if (held[b][__builtin_ctz(m)].end <= v->start) busy[b] &= ~(m & -m);
        int wish = kx_wish(p, n);
        for (int k = 0; k < npool[b]; k++) {
            if (busy[b] >> pool[b][k] & 1) continue;
            if (reg < 0 || pool[b][k] == wish) reg = pool[b][k];
            if (wish < 0 || reg == wish) break;
        }
        if (reg < 0) {
            double least = rate;
            *fits        = false;
            for (int k = 0; k < npool[b]; k++)
                if (held[b][pool[b][k]].rate < least) least = held[b][reg = pool[b][k]].rate;
            if (reg < 0) {
                ra_put_by(p, v);
                continue;
            }
            ra_put_by(p, &p->value[held[b][reg].node]);
        }
        v->reg       = (int8_t)reg;
        held[b][reg] = (ra_held){n, v->end, rate};
        busy[b] |= 1u << reg;
        p->used[b] |= 1u << reg;
    }
    kn_free(a, in, (p->size + 1) * sizeof *in);
    return true;
}

/* ---- innermost loops ------------------------------------------------------------------------------------------- */

static bool ra_is_const(const kn_graph *g, kn_ref n, bool large) { /* large: no immediate */
    if (kg_op(g, n) != KN_OP_CONST || kn_is_float(kg_dtype(g, n))) return false;
    return !large || kg_const_int(g, n) != (int32_t)kg_const_int(g, n);
}

/* They are for sequences of scalars. */
bool kx_spares(const kx_plan *p, kn_ref x) {
    const kn_graph *g  = p->g;
    int             op = kg_op(g, x), dt = kg_dtype(g, x), ints = 0, reals = kn_is_float(dt);
    kx_spot         a;
    if (op == KN_OP_END) return !ra_is_const(g, kg_at(g, kg_at(g, x, 1), 0), true);
    if (op == KN_OP_LOAD || op == KN_OP_STORE || op == KN_OP_PREFETCH) {
        if (kx_is_cell(g, kg_at(g, x, 0))) return true;
        kx_address_of(g, kg_at(g, x, 0), &a);
        return a.disp < 1 << 26 && a.disp > -(1 << 26);
    }
    if (op != KN_OP_INS || kx_is_lanes(g, x)) return true;
    op = kx_op(g, x);
    for (uint32_t k = 0; k < kg_nsrc(g, x); k++) {
        kn_ref s  = kg_at(g, x, k);
        bool   fl = kn_is_float(kg_dtype(g, s));
        if (ra_is_const(g, s, true) || (fl && kn_dsize(kg_dtype(g, s)) < 4)) return false;
        ints += !fl;
        reals += fl;
    }
    if (reals && (ints || (kn_is_float(dt) && kn_dsize(dt) < 4))) return false;
    switch (op) {
    case KN_OP_SHL:
    case KN_OP_SHR: return ra_is_const(g, kg_at(g, x, 1), false);
    case KN_OP_WHERE: return !ra_is_const(g, kg_at(g, x, 0), false) && !ra_is_const(g, kg_at(g, x, 1), false);
    case KN_OP_MAX:
    case KN_OP_MIN: return !ra_is_const(g, kg_at(g, x, 1), false);
    case KN_OP_ADD:
    case KN_OP_SUB:
    case KN_OP_MUL:
    case KN_OP_MULACC:
    case KN_OP_AND:
    case KN_OP_OR:
    case KN_OP_XOR:
    case KN_OP_NOT:
    case KN_OP_NEG:
    case KN_OP_CMPLT:
    case KN_OP_CMPGT:
    case KN_OP_CMPLE:
    case KN_OP_CMPGE:
    case KN_OP_CMPEQ:
    case KN_OP_CMPNE: return true;
    case KN_OP_CAST: return !reals;
    default: return false;
    }
}

typedef struct ra_inner { /* an innermost loop, one bank of it */
    int      loop, bank;
    int32_t  from; /* where it opens */
    kn_ref  *ref;  /* values it reads or makes: first those from outside, then its own, by start */
    int8_t  *was;  /* of those, the register before */
    uint8_t *mark; /* per value: KX_SEEN, KX_WRITTEN in this loop */
    int      nouter, nref;
    uint32_t kept, openers; /* registers: of values from outside; of what is read while the loop opens */
    uint32_t more;          /* registers beyond the pool, for values that live where no sequence takes them */
    bool     gave;          /* some of them may be taken: what is made again now must not be such a sequence */
    int     *taken;         /* per place: how many places before it take those */
} ra_inner;

static void ra_note(const kx_plan *p, ra_inner *in, kn_ref n, int flags) {
    kn_ref          v = kx_name(p, n);
    const kx_value *x = &p->value[v];
    if (x->bank != in->bank) return;
    if (!in->mark[v]) in->ref[in->nref++] = v;
    in->mark[v] |= (uint8_t)(KX_SEEN | flags);
}

/* What is read while the loop opens is no reference of its body. */
static void ra_find_openers(const kx_plan *p, ra_inner *in) {
    const kx_loop *l = &p->loop[in->loop];
    kn_ref         o[KX_MAX_OPERANDS];
    for (uint32_t i = l->open; i < l->close; i++) {
        kn_ref x = p->list[i];
        if (i > l->open && (!p->value[x].step || !p->value[x].needed || kg_at(p->g, x, 0) != l->range)) continue;
        int m = kx_operands(p, x, o);
        for (int k = 0; k < m; k++) {
            const kx_value *v = &p->value[kx_name(p, o[k])];
            if (v->bank == in->bank && v->reg >= 0) in->openers |= 1u << v->reg;
        }
        ra_note(p, in, x, KX_WRITTEN);
    }
}

static void ra_find_references(const kx_plan *p, ra_inner *in) {
    const kx_loop *l = &p->loop[in->loop];
    kn_ref         o[KX_MAX_OPERANDS], own;
    ra_find_openers(p, in);
    for (uint32_t i = l->open + 1; i <= l->close; i++) {
        kn_ref x = p->list[i];
        if (!p->value[x].needed || p->value[x].folded || p->value[x].step) continue;
        int m = kx_operands(p, x, o);
        for (int k = 0; k < m; k++) ra_note(p, in, o[k], 0);
        if (kg_op(p->g, x) == KN_OP_STORE && kx_is_cell(p->g, kg_at(p->g, x, 0)))
            ra_note(p, in, kx_root_of(p->g, kg_at(p->g, x, 0)), KX_WRITTEN);
        else if (kg_dtype(p->g, x) != KN_VOID)
            ra_note(p, in, x, KX_WRITTEN);
    }
    for (int k = 0; k < in->nref; k++) { /* those from outside to the front */
        const kx_value *v = &p->value[in->ref[k]];
        if (v->start >= in->from) continue;
        own                   = in->ref[k];
        in->ref[k]            = in->ref[in->nouter];
        in->ref[in->nouter++] = own;
        if (v->reg >= 0) in->kept |= 1u << v->reg;
    }
    for (int k = in->nouter + 1; k < in->nref; k++) { /* almost sorted: in the order of the list */
        int at = k;
        for (own = in->ref[k]; at > in->nouter && p->value[in->ref[at - 1]].start > p->value[own].start; at--)
            in->ref[at] = in->ref[at - 1];
        in->ref[at] = own;
    }
}

/* A value holds its register across the loop, which does not look at it. */
static bool ra_waits(const kx_plan *p, const ra_inner *in, kn_ref n) {
    const kx_value *v = &p->value[n];
    return v->bank == in->bank && v->reg >= 0 && !v->same && !in->mark[n] && v->start < in->from && v->end > in->from;
}

static uint32_t ra_idle(const kx_plan *p, const ra_inner *in) {
    uint32_t idle = 0;
    for (kn_ref n = 1; n < p->size; n++)
        if (ra_waits(p, in, n)) idle |= 1u << p->value[n].reg;
    return idle;
}

static int ra_pick(uint32_t of, uint32_t rather, int wish) {
    if (wish >= 0 && of >> wish & 1) return wish;
    if (of & rather) of &= rather;
    return of ? __builtin_ctz(of) : -1;
}

/* Registers beyond the pool for a value. They are set when the loop has opened. */
static uint32_t ra_more(const ra_inner *in, const kx_value *v) {
    return v->start > in->from && in->taken[v->start / 2] == in->taken[v->end / 2 + 1] ? in->more : 0;
}

/* Registers of `free` for the loop's own values. False: they do not suffice, and all is as it was. */
static bool ra_colour(kx_plan *p, const ra_inner *in, uint32_t free, uint32_t idle) {
    kn_ref   active[32];
    int      nactive = 0, k = in->nouter;
    uint32_t busy = 0;
    for (; k < in->nref; k++) {
        kx_value *v = &p->value[in->ref[k]];
        for (int a = 0; a < nactive; a++)
            if (p->value[active[a]].end <= v->start) {
                busy &= ~(1u << p->value[active[a]].reg);
                active[a--] = active[--nactive];
            }
        uint32_t of  = (free | ra_more(in, v)) & ~busy & ~(v->start <= in->from ? in->openers : 0);
        int      reg = ra_pick(of, ~idle, kx_wish(p, in->ref[k]));
        if (reg < 0) break;
        in->was[k] = v->reg;
        v->reg     = (int8_t)reg;
        busy |= 1u << reg;
        active[nactive++] = in->ref[k];
    }
    if (k == in->nref) return true;
    while (k-- > in->nouter) p->value[in->ref[k]].reg = in->was[k];
    return false;
}

bool kx_put_split(kx_plan *p, kn_ref n, int loop, int reg, bool away, bool written) {
    kx_value *v = &p->value[n];
    if (!KN_GROW(kg_alloc(p->g), p->split, p->split_cap, p->nsplit + 1)) return kn_oom(p->f);
    kx_lay(p, v);
    p->split[p->nsplit++] = (kx_split){.value = n, .loop = loop, .reg = reg, .away = away, .written = written};
    p->used[v->bank] |= 1u << reg;
    return true;
}

static bool ra_split(kx_plan *p, const ra_inner *in, kn_ref n, int reg, bool away) {
    return kx_put_split(p, n, in->loop, reg, away, !away && in->mark[n] & KX_WRITTEN);
}

/* Where all that the loop reads and makes fits, it is in registers: what lies in the frame is lent one while the loop
 * runs, and what only waits gives its own away. *fits: it was done. */
static bool ra_settle(kx_plan *p, ra_inner *in, bool *fits) {
    uint8_t  pool[32];
    uint32_t all = 0, idle = ra_idle(p, in), lent = 0;
    bool     whole = in->taken[p->loop[in->loop].open + 1] == in->taken[p->loop[in->loop].close + 1];
    for (int k = ra_pool_of(p, (kx_bank)in->bank, false, pool); k-- > 0;) all |= 1u << pool[k];
    *fits = true;
    for (int k = 0; k < in->nouter && *fits; k++) {
        if (p->value[in->ref[k]].reg >= 0) continue;
        int reg = ra_pick((whole ? all | in->more : all) & ~in->kept & ~lent, ~idle, -1);
        *fits   = reg >= 0;
        if (*fits) lent |= 1u << reg;
    }
    in->more &= ~lent;
    *fits = *fits && ra_colour(p, in, all & ~in->kept & ~lent, idle);
    if (!*fits) return true;
    uint32_t taken = lent;
    for (int k = in->nouter; k < in->nref; k++) taken |= 1u << p->value[in->ref[k]].reg;
    for (int k = 0; k < in->nouter; k++) {
        if (p->value[in->ref[k]].reg >= 0) continue;
        if (!ra_split(p, in, in->ref[k], __builtin_ctz(lent), false)) return false;
        lent &= lent - 1;
    }
    for (kn_ref v = 1; v < p->size; v++)
        if (ra_waits(p, in, v) && taken >> p->value[v].reg & 1 && !ra_split(p, in, v, p->value[v].reg, true))
            return false;
    p->used[in->bank] |= taken;
    return true;
}

/* Else they are shared. */
static bool ra_share(kx_plan *p, const ra_inner *in, bool *done) {
    uint8_t  pool[32];
    uint32_t all   = 0;
    bool     whole = in->taken[p->loop[in->loop].open + 1] == in->taken[p->loop[in->loop].close + 1];
    for (int k = ra_pool_of(p, (kx_bank)in->bank, false, pool); k-- > 0;) all |= 1u << pool[k];
    uint32_t beside = 0;
    int      other  = in->bank == KX_BANK_GP ? KX_BANK_VEC : KX_BANK_GP;
    for (int k = ra_pool_of(p, (kx_bank)other, false, pool); k-- > 0;) beside |= 1u << pool[k];
    kx_crowd c = {.loop    = in->loop,
                  .bank    = in->bank,
                  .ref     = in->ref,
                  .nouter  = in->nouter,
                  .nref    = in->nref,
                  .pool    = whole ? all | in->more : all,
                  .always  = all,
                  .rather  = ~ra_idle(p, in),
                  .openers = in->openers,
                  .mark    = in->mark,
                  .beside  = beside,
                  .tidy    = in->bank == KX_BANK_GP ? whole && in->more : in->gave};
    if (!kx_share_crowded(p, &c, done)) return false;
    p->loop[in->loop].shares[in->bank] = *done;
    return true;
}

/* Or what it reads from the frame and does not make is lent registers that nothing holds while it runs. */
static bool ra_lend(kx_plan *p, ra_inner *in) {
    uint8_t  pool[32];
    uint32_t free = 0, busy = in->kept | ra_idle(p, in);
    for (int k = in->nouter; k < in->nref; k++)
        if (p->value[in->ref[k]].reg >= 0) busy |= 1u << p->value[in->ref[k]].reg;
    for (int k = ra_pool_of(p, (kx_bank)in->bank, p->tight, pool); k-- > 0;) free |= 1u << pool[k];
    free &= ~busy;
    for (int k = 0; k < in->nouter && free; k++) {
        if (p->value[in->ref[k]].reg >= 0) continue;
        if (!ra_split(p, in, in->ref[k], __builtin_ctz(free), false)) return false;
        free &= free - 1;
    }
    return true;
}

static bool ra_settle_inner_loops(kx_plan *p) {
    ra_inner in = {0};
    in.ref      = kn_zalloc(kg_alloc(p->g), p->size * sizeof *in.ref);
    in.mark     = kn_zalloc(kg_alloc(p->g), p->size);
    in.was      = kn_zalloc(kg_alloc(p->g), p->size);
    in.taken    = kn_zalloc(kg_alloc(p->g), (p->n + 2) * sizeof *in.taken);
    bool ok     = (in.ref && in.mark && in.was && in.taken) || kn_oom(p->f);
    for (uint32_t i = 0; i < p->n && ok; i++)
        in.taken[i + 1] = in.taken[i] + (p->value[p->list[i]].needed && !kx_spares(p, p->list[i]));
    for (int l = 0; l < p->nloop && ok; l++) {
        bool fit[KX_BANKS] = {false};
        in.gave            = false;
        for (int k = 0; k < 2 * KX_BANKS && ok && p->loop[l].inner; k++) { /* each that fits, then the others */
            int  b       = k % KX_BANKS;
            bool spilled = false, again = k >= KX_BANKS, fits = !again;
            if (fit[b]) continue;
            in.loop = l, in.bank = b, in.from = (int32_t)(2 * p->loop[l].open);
            in.nref = in.nouter = 0, in.kept = in.openers = 0;
            in.more = b == KX_BANK_GP && !p->regs ? 1u << KX_RCX | 1u << KX_RDX : 0;
            ra_find_references(p, &in);
            for (int v = 0; v < in.nref; v++) spilled |= p->value[in.ref[v]].reg < 0;
            if (spilled && !again) ok = ra_settle(p, &in, &fits);
            if (again) ok = ra_share(p, &in, &fits);
            in.gave |= b == KX_BANK_GP && (spilled || again) && !p->regs;
            if (again && !fits) ok = ok && ra_lend(p, &in);
            fit[b] = fits;
            for (int v = 0; v < in.nref; v++) in.mark[in.ref[v]] = 0;
        }
        p->loop[l].roomy = fit[KX_BANK_VEC];
    }
    kn_free(kg_alloc(p->g), in.ref, p->size * sizeof *in.ref);
    kn_free(kg_alloc(p->g), in.mark, p->size);
    kn_free(kg_alloc(p->g), in.was, p->size);
    kn_free(kg_alloc(p->g), in.taken, (p->n + 2) * sizeof *in.taken);
    return ok;
}

/* By place; those of one place and bank stay as they are. */
static void ra_sort_moves(kx_plan *p) {
    for (size_t k = 1; k < p->nmove; k++) {
        kx_move m  = p->move[k];
        size_t  at = k;
        for (; at > 0 && p->move[at - 1].at > m.at; at--) p->move[at] = p->move[at - 1];
        p->move[at] = m;
    }
}

static bool ra_is_split(const kx_plan *p, kn_ref v, int loop) {
    for (size_t k = 0; k < p->nsplit; k++)
        if (p->split[k].value == v && p->split[k].loop == loop && !p->split[k].away) return true;
    return false;
}

/* Uses and definitions in the frame, in each round of innermost loops. */
static void ra_count_spills(kx_plan *p) {
    kn_ref o[KX_MAX_OPERANDS + 1];
    for (int l = 0; l < p->nloop; l++)
        for (uint32_t i = p->loop[l].open + 1; i <= p->loop[l].close && p->loop[l].inner; i++) {
            kn_ref x = p->list[i];
            if (!p->value[x].needed || p->value[x].folded) continue;
            int m = p->value[x].step ? 0 : kx_operands(p, x, o); /* a step starts before the loop */
            if (kg_op(p->g, x) == KN_OP_STORE && kx_is_cell(p->g, kg_at(p->g, x, 0)))
                o[m++] = kx_root_of(p->g, kg_at(p->g, x, 0));
            else if (kg_dtype(p->g, x) != KN_VOID)
                o[m++] = x;
            for (int k = 0; k < m; k++) {
                const kx_value *v = &p->value[kx_name(p, o[k])];
                if (v->bank == KX_BANK_NONE || p->loop[l].shares[v->bank]) continue;
                p->spills += v->reg < 0 && !ra_is_split(p, kx_name(p, o[k]), l);
            }
        }
    for (size_t k = 0; k < p->nmove; k++) {
        bool aside = p->move[k].way == KX_TO_FRAME || p->move[k].way == KX_FROM_FRAME;
        p->spills += aside && p->move[k].side < 0;
        p->remade += p->move[k].way == KX_AGAIN || (aside && p->move[k].side >= 0);
    }
}

/* From intervals to registers; what was given before is forgotten. */
static bool ra_give(kx_plan *p) {
    bool fits = false, ok = true;
    p->nsplit = p->nmove = 0;
    p->spills = p->remade = 0;
    for (p->tight = p->regs != 0;; p->tight = true) {
        p->frame = 0;
        for (size_t i = 0; i < p->size; i++) {
            p->value[i].reg = p->value[i].slot = -1;
            p->value[i].moved                  = 0;
        }
        ok = ra_scan(p, &fits);
        if (!ok || fits || p->tight) break;
    }
    int last = p->avx512 ? 31 : 15;
    for (int k = 0; k < 4; k++) p->scratch[k] = (uint8_t)(p->tight ? last - k : last - (k > 0));
    for (int l = 0; l < p->nloop; l++) memset(p->loop[l].shares, 0, sizeof p->loop[l].shares);
    ok = ok && (!p->tight || ra_settle_inner_loops(p));
    ra_sort_moves(p);
    if (ok) ra_count_spills(p);
    return ok;
}

enum { RA_WANTED = 1 << 12 }; /* its weight: as of a value that an inner loop reads */

/* What innermost loops could make values again of lives through them; false: there is nothing more. */
static bool ra_extend(kx_plan *p) {
    bool any = false;
    for (kn_ref v = 1; v < p->size; v++) {
        kx_value *x = &p->value[v];
        if (!x->wanted || x->extended) continue;
        x->extended = x->end;
        x->weight += RA_WANTED;
        for (int l = x->wanted - 1; l >= 0 && (int32_t)(2 * p->loop[l].open) > x->start; l = p->loop[l].parent)
            x->end = KN_MAX(x->end, (int32_t)(2 * p->loop[l].close + 1));
        any = true;
    }
    return any;
}

/* What lives longer since the last time stays so, or does not. */
static void ra_settle_lives(kx_plan *p, bool longer) {
    for (kn_ref v = 1; v < p->size; v++) {
        kx_value *x = &p->value[v];
        if (x->extended && x->wanted && !longer) {
            x->end = x->extended;
            x->weight -= RA_WANTED;
            x->extended = 0;
        }
        if (x->extended || !longer) x->wanted = 0;
    }
}

bool kx_give_registers(kx_plan *p) {
    bool ok = ra_give(p);
    while (ok && p->spills && ra_extend(p)) {
        uint32_t spills = p->spills, all = p->spills + p->remade;
        ok          = ra_give(p);
        bool better = p->spills < spills || (p->spills == spills && p->spills + p->remade < all);
        ra_settle_lives(p, better);
        if (!better) return ok && ra_give(p);
    }
    return ok;
}
