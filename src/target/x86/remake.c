/* remake.c - an innermost loop that holds more than the file: registers place by place.
 *
 * Takes: a loop whose values have intervals and do not all fit. Gives: moves, each before an item of the list: a value
 * leaves its register, and has one again where it is read next. What is made of what the loop holds anyway, or lies in
 * memory that nothing writes meanwhile, is made again there, by REMAKES instructions at most; only what cannot goes by
 * way of a register that another bank has over, or of the frame. The value that is read last leaves first, those that
 * can be made again before all others.
 * What a round finds in registers it leaves there: values from outside and sums over the loop, in the same ones. */
#include "target/x86/remake.h"

#include <string.h>

enum { REMAKES = 3, NEVER = INT32_MAX, REGISTERS = 32, FEWEST = 6 };

typedef struct rm_state { /* of a value */
    int32_t next;         /* where it is read next, NEVER: no more in this round */
    int32_t overwritten;  /* LOAD: where its memory is written first behind it */
    int8_t  was, first;   /* its register before; the one that it gets where it is made */
    int8_t  top;          /* that it has at the start and the end of a round; -1: none */
    int8_t  side;         /* of another bank, kept for it; -1: none */
    bool    clean;        /* the frame has it, or its side */
    bool    lent, gone;   /* from outside: lies in the frame elsewhere; leaves its register while the loop runs */
} rm_state;

typedef struct rm {
    kx_plan        *p;
    const kn_graph *g;
    const kx_crowd *c;
    uint32_t        open, close;
    rm_state       *at;    /* per node */
    kn_ref         *read;  /* of this bank, place by place: values it reads */
    int32_t        *then;  /* of each: where that value is read next */
    uint32_t       *start; /* per place of the loop: the first of its */
    uint32_t        nread;
    kn_ref          holds[REGISTERS];
    uint32_t        beside, sides, sided; /* of the bank beside: that the loop does not take; of these left; used */
    uint32_t        busy, pinned, taken;  /* registers: that hold; that must not change now; that held something */
    bool            ok;
} rm;

/* ---- what can be made again ------------------------------------------------------------------------------------ */

static bool rm_is_cell(const rm *r, kn_ref v) {
    return kg_op(r->g, v) == KN_OP_BUFFER;
}

/* Instructions that node n takes, whenever it is made; 0: too many, or not always the same. */
static int rm_instructions(const rm *r, kn_ref n) {
    const kn_graph *g  = r->g;
    int             op = kg_op(g, n), dt = kg_dtype(g, n);
    kx_spot         a;
    if (r->c->tidy && !kx_spares(r->p, n)) return 0;
    if (op == KN_OP_LOAD) {
        if (kx_is_cell(g, kg_at(g, n, 0)) || (kn_is_float(dt) && kn_dsize(dt) < 4)) return 0;
        if (r->p->value[n].part) return kx_rows_of(r->p, n) > 1 ? 0 : r->p->value[n].other ? 2 : 1;
        kx_address_of(g, kg_at(g, n, 0), &a);
        return a.places || a.step != 1 ? 0 : kg_nsrc(g, n) > 1 || dt == KN_BOOL ? 2 : 1;
    }
    if (op == KN_OP_BITCAST) return 1;
    if (op != KN_OP_INS || r->p->value[n].step) return 0;
    switch (kx_op(g, n)) {
    case KN_OP_ADD:
    case KN_OP_SUB:
    case KN_OP_MUL:
    case KN_OP_MULACC:
    case KN_OP_NEG:
    case KN_OP_MAX:
    case KN_OP_MIN: return kn_is_float(dt) && kn_dsize(dt) < 4 ? 0 : 1;
    case KN_OP_AND:
    case KN_OP_OR:
    case KN_OP_XOR:
    case KN_OP_NOT:
    case KN_OP_SHL:
    case KN_OP_SHR:
    case KN_OP_WHERE:
    case KN_OP_CMPLT:
    case KN_OP_CMPGT:
    case KN_OP_CMPLE:
    case KN_OP_CMPGE:
    case KN_OP_CMPEQ:
    case KN_OP_CMPNE: return 1;
    case KN_OP_CAST: return kn_is_float(dt) && kn_dsize(dt) < 4 ? 0 : 1;
    default: return 0;
    }
}

/* The LOAD finds the same at `place`: of this round if the loop makes it, else of any round of the loops between. */
static bool rm_same_memory(const rm *r, kn_ref load, int32_t place) {
    const kx_plan *p   = r->p;
    uint32_t       at  = p->value[load].at - 1;
    int32_t        end = place;
    for (int l = r->c->loop; l >= 0 && p->loop[l].open > at; l = p->loop[l].parent) end = (int32_t)p->loop[l].close;
    return p->value[load].part || r->at[load].overwritten > end;
}

static int rm_beside(int bank) {
    return bank == KX_BANK_GP ? KX_BANK_VEC : KX_BANK_GP;
}

/* A register has value s there, or will have it again. */
static bool rm_is_there(const rm *r, kn_ref s, int32_t place) {
    const kx_value *v = &r->p->value[s];
    if (v->bank == KX_BANK_NONE || rm_is_cell(r, s) || v->end < 2 * place) return false;
    if (v->bank == r->c->bank) return r->c->mark[s] & KX_SEEN;
    int reg = v->bank < r->c->bank ? kx_reg_within(r->p, s, r->c->loop) : -1;
    return reg >= 0 && (v->bank != rm_beside(r->c->bank) || !(r->beside >> reg & 1));
}

/* x repeats a scalar over lanes. */
static bool rm_repeats(const rm *r, kn_ref x) {
    return kg_op(r->g, x) == KN_OP_INS && kx_op(r->g, x) == KN_OP_CAST && kx_is_lanes(r->g, x) &&
           !kx_is_lanes(r->g, kg_at(r->g, x, 0)) && kg_dtype(r->g, kg_at(r->g, x, 0)) != KN_BOOL;
}

/* How v is made there: nodes, the last of them first. Each but the first is a source of the one before it and nothing
 * else, and made in the same register; a scalar that is repeated over lanes in rax. Returns instructions, 0: it is not.
 */
static int rm_recipe(const rm *r, kn_ref v, int32_t place, kn_ref *node, int *n) {
    int cost = 0;
    node[0]  = v;
    for (*n = 1;; ++*n) {
        kn_ref x = node[*n - 1], o[KX_MAX_OPERANDS], missing = 0;
        int    own = rm_instructions(r, x), m = own ? kx_operands(r->p, x, o) : 0;
        if (!own || (kg_op(r->g, x) == KN_OP_LOAD && !rm_same_memory(r, x, place))) return 0;
        cost += own;
        if (cost > REMAKES) return 0;
        for (int k = 0; k < m; k++) {
            kn_ref s = kx_name(r->p, o[k]);
            if (rm_is_there(r, s, place) && s != v) continue;
            if (missing && missing != s) return 0;
            missing = s;
        }
        if (!missing) return cost;
        int  bank    = r->p->value[missing].bank;
        bool repeats = bank == KX_BANK_GP && rm_repeats(r, x);
        if (*n == REMAKES || missing == v || rm_is_cell(r, missing)) return 0;
        if (r->p->value[missing].moved == r->c->loop + 1) return 0; /* it is elsewhere, and stays there */
        if (!repeats && (bank != r->c->bank || kx_writes_early(r->p, x))) return 0;
        if (bank != r->p->value[x].bank && !repeats) return 0;
        node[*n] = missing;
    }
}

/* ---- moves ----------------------------------------------------------------------------------------------------- */

static void rm_move(rm *r, int32_t place, kn_ref node, int reg, kx_way way) {
    kx_plan *p = r->p;
    if (!KN_GROW(kg_alloc(r->g), p->move, p->move_cap, p->nmove + 1)) {
        r->ok = kn_oom(p->f);
        return;
    }
    bool aside = way == KX_TO_FRAME || way == KX_FROM_FRAME || way == KX_ASIDE;
    p->move[p->nmove++] =
        (kx_move){(uint32_t)place, node, (int8_t)reg, (int8_t)(aside ? r->at[node].side : -1), (uint8_t)way};
}

/* Value v, which the loop does not look at, holds that register while it runs. */
static bool rm_waits(const rm *r, kn_ref v, int bank, int reg) {
    const kx_value *x    = &r->p->value[v];
    int32_t         from = (int32_t)(2 * r->open);
    return x->bank == bank && x->reg == reg && !x->same && x->start < from && x->end > from;
}

/* Registers of the bank beside that the loop neither reads nor fills; none if that bank is to be settled yet. */
static uint32_t rm_find_sides(const rm *r) {
    const kx_plan *p     = r->p;
    int            bank  = rm_beside(r->c->bank);
    uint32_t       taken = 0;
    kn_ref         o[KX_MAX_OPERANDS + 1];
    for (uint32_t i = r->open; i <= r->close; i++) {
        kn_ref x = p->list[i];
        if (!p->value[x].needed || p->value[x].folded) continue;
        int m  = kx_operands(p, x, o);
        o[m++] = kg_op(r->g, x) == KN_OP_STORE ? kx_root_of(r->g, kg_at(r->g, x, 0)) : x;
        for (int k = 0; k < m; k++) {
            const kx_value *v = &p->value[kx_name(p, o[k])];
            if (v->bank != bank) continue;
            if (v->reg >= 0)
                taken |= 1u << v->reg;
            else if (bank > r->c->bank && kx_reg_within(p, kx_name(p, o[k]), r->c->loop) < 0)
                return 0;
        }
    }
    for (kn_ref v = 1; v < p->size; v++) /* lives on to be read where something is made again */
        if (p->value[v].extended && p->value[v].reg >= 0 && rm_waits(r, v, bank, p->value[v].reg))
            taken |= 1u << p->value[v].reg;
    for (size_t k = 0; k < p->nsplit; k++)
        if (p->split[k].loop == r->c->loop && p->value[p->split[k].value].bank == bank) taken |= 1u << p->split[k].reg;
    for (size_t k = 0; k < p->nmove; k++) {
        const kx_move *m   = &p->move[k];
        int            own = p->value[m->value].bank;
        if (m->at < r->open || m->at > r->close) continue;
        if (m->reg >= 0 && own == bank) taken |= 1u << m->reg;
        if (m->side >= 0 && rm_beside(own) == bank) taken |= 1u << m->side;
    }
    return r->c->beside & ~taken;
}

static void rm_hold(rm *r, kn_ref v, int reg) {
    kx_value *x   = &r->p->value[v];
    x->reg        = (int8_t)reg;
    r->holds[reg] = v;
    r->busy |= 1u << reg;
    r->taken |= 1u << reg;
}

static void rm_let_go(rm *r, kn_ref v) {
    kx_value *x = &r->p->value[v];
    r->busy &= ~(1u << x->reg);
    r->holds[x->reg] = 0;
    x->reg           = -1;
}

/* v is read no more in this round. What it waited in is free again, if the next round does not start with it there. */
static void rm_end(rm *r, kn_ref v) {
    rm_state *s = &r->at[v];
    rm_let_go(r, v);
    if (s->side < 0 || r->p->value[v].start <= (int32_t)(2 * r->open)) return;
    r->sides |= 1u << s->side;
    s->side = -1;
}

static int rm_pick(uint32_t of, uint32_t rather, int wish) {
    if (wish >= 0 && of >> wish & 1) return wish;
    if (of & rather) of &= rather;
    return of ? __builtin_ctz(of) : -1;
}

/* Registers of the bank beside that v may wait in. What is there when the loop opens shares its own with nothing.
 * Vectors of lanes have no room there, nor scalars that are repeated over some, and sums that start each round in the
 * frame are there. */
static uint32_t rm_room_beside(const rm *r, kn_ref v) {
    const rm_state *s = &r->at[v];
    if (r->c->bank == KX_BANK_VEC && (kx_is_lanes(r->g, v) || r->p->value[v].repeated)) return 0;
    if (r->c->mark[v] & KX_WRITTEN && (s->clean || (s->lent && s->top < 0))) return 0;
    return s->clean ? r->sides & ~r->sided : r->sides;
}

/* One of them is kept for v; what the frame has is there when the loop opens. */
static void rm_find_side(rm *r, kn_ref v) {
    rm_state *s  = &r->at[v];
    uint32_t  of = rm_room_beside(r, v);
    if (s->side >= 0 || !of) return;
    s->side = (int8_t)rm_pick(of, r->sided, -1);
    r->sides &= ~(1u << s->side);
    r->sided |= 1u << s->side;
    r->p->used[rm_beside(r->c->bank)] |= 1u << s->side;
    if (s->clean) rm_move(r, (int32_t)r->open, v, -1, KX_ASIDE);
}

/* A register that nothing that may change holds: for what is read next the latest, in relation to what it costs to make
 * it again. -1: there is none. */
static int rm_evict(rm *r, int32_t place, uint32_t of) {
    int    best      = -1;
    bool   best_made = false;
    double most      = 0;
    kn_ref node[REMAKES];
    int    n;
    of &= r->busy & ~r->pinned;
    for (; of; of &= of - 1) {
        int       reg  = __builtin_ctz(of), cost;
        kn_ref    v    = r->holds[reg];
        rm_state *s    = &r->at[v];
        int32_t   next = s->next == NEVER ? (int32_t)r->close : s->next;
        cost           = s->next == NEVER ? 1 : rm_recipe(r, v, next, node, &n);
        if (!cost && (s->side >= 0 || rm_room_beside(r, v))) cost = s->clean ? 1 : 2;
        bool   made  = cost > 0;
        double worth = (double)(next - place + 1) / (made ? cost : s->clean ? 1 : 2);
        if (best >= 0 && (made < best_made || (made == best_made && worth <= most))) continue;
        best      = reg;
        best_made = made;
        most      = worth;
    }
    if (best < 0) return -1;
    kn_ref    v    = r->holds[best];
    rm_state *s    = &r->at[v];
    bool      read = s->next != NEVER && !rm_recipe(r, v, s->next, node, &n);
    if (read) rm_find_side(r, v);
    if (read && !s->clean) {
        if (s->side < 0) kx_lay(r->p, &r->p->value[v]);
        rm_move(r, place, v, best, KX_TO_FRAME);
        s->clean = true;
    }
    rm_move(r, place, v, -1, KX_AWAY);
    r->p->value[v].moved = (uint16_t)(r->c->loop + 1);
    rm_let_go(r, v);
    return best;
}

/* A register for v; its own where it has one at the start of a round, and what is there goes on to another. */
static int rm_room(rm *r, kn_ref v, int32_t place) {
    uint32_t free = r->c->pool & ~r->busy;
    int      top  = r->at[v].top, reg;
    if (top < 0) {
        reg = rm_pick(free, r->c->rather, -1);
        return reg < 0 ? rm_evict(r, place, r->c->pool) : reg;
    }
    if (!(r->busy >> top & 1)) return top;
    kn_ref w = r->holds[top];
    reg      = rm_pick(free, r->c->rather, -1);
    if (reg < 0) reg = rm_evict(r, place, r->c->pool);
    if (reg < 0 || reg == top) return reg;
    rm_move(r, place, w, reg, KX_OVER);
    r->p->value[w].moved = (uint16_t)(r->c->loop + 1);
    bool pinned          = r->pinned >> top & 1;
    rm_let_go(r, w);
    rm_hold(r, w, reg);
    if (pinned) r->pinned = (r->pinned & ~(1u << top)) | 1u << reg;
    return top;
}

/* The sources of x that are not there, at most two; -1: there are more, or not all can be. */
static int rm_find_missing(const rm *r, kn_ref x, int32_t place, kn_ref *missing) {
    kn_ref o[KX_MAX_OPERANDS];
    int    m = kx_operands(r->p, x, o), n = 0;
    for (int k = 0; k < m; k++) {
        kn_ref          s = kx_name(r->p, o[k]);
        const kx_value *y = &r->p->value[s];
        if (rm_is_there(r, s, place) || (n && s == missing[0])) continue;
        if (n == 2 || rm_is_cell(r, s) || y->bank == KX_BANK_NONE) return -1;
        missing[n++] = s;
    }
    return n;
}

/* Value v comes from the frame: it could be made again if what it is made of outside lived through the loop, and took
 * registers of a bank that has more of them. What is far back is part of more values. */
static void rm_want_sources(rm *r, kn_ref v, int32_t place) {
    kn_ref want[2] = {0}, missing[2];
    int    n = 0, cost = 0;
    for (kn_ref x = v;; x = missing[0]) {
        int  own   = rm_instructions(r, x);
        bool other = true;
        cost += own;
        if (!own || cost > REMAKES || (kg_op(r->g, x) == KN_OP_LOAD && !rm_same_memory(r, x, place))) break;
        int m = rm_find_missing(r, x, place, missing);
        if (m <= 0) break;
        for (int k = 0; k < m; k++)
            other &= r->p->value[missing[k]].bank < r->c->bank || kg_op(r->g, missing[k]) == KN_OP_PARAM;
        if (other && (!n || m <= n)) memcpy(want, missing, sizeof want), n = m;
        if (m > 1 || (other && !rm_repeats(r, x))) break;
    }
    for (int k = 0; k < n; k++) r->p->value[want[k]].wanted = (uint16_t)(r->c->loop + 1);
}

/* The register that x has at the end of a round, which a source of it holds that the round has no more use for: x is
 * made over it. -1: it is not so. */
static int rm_room_of_source(const rm *r, kn_ref x, kn_ref *source) {
    kn_ref o[KX_MAX_OPERANDS];
    int    top = r->at[x].top, m = top < 0 || kx_writes_early(r->p, x) ? 0 : kx_operands(r->p, x, o);
    *source = top < 0 ? 0 : r->holds[top];
    for (int k = 0; k < m; k++)
        if (kx_name(r->p, o[k]) == *source && r->at[*source].top < 0 && r->at[*source].clean) return top;
    *source = 0;
    return -1;
}

/* Value v is in a register there, and what it is made of meanwhile. */
static void rm_bring(rm *r, kn_ref v, int32_t place) {
    kn_ref stack[16], node[REMAKES], o[KX_MAX_OPERANDS];
    int    top   = 0, n;
    stack[top++] = v;
    while (top && r->ok) {
        kn_ref x = stack[top - 1], out = 0, over = 0;
        int    cost = r->p->value[x].reg < 0 ? rm_recipe(r, x, place, node, &n) : 0, reg;
        for (int k = 0; cost && k < n && !out; k++) {
            int m = kx_operands(r->p, node[k], o);
            for (int j = 0; j < m && !out; j++) {
                kn_ref s = kx_name(r->p, o[j]);
                if (r->p->value[s].bank != r->c->bank || (k + 1 < n && s == node[k + 1])) continue;
                if (r->p->value[s].reg < 0)
                    out = s;
                else
                    r->pinned |= 1u << r->p->value[s].reg;
            }
        }
        if (out) {
            if (top == KN_COUNT(stack))
                r->ok = false;
            else
                stack[top++] = out;
            continue;
        }
        if (r->p->value[x].reg < 0) {
            reg = rm_room(r, x, place);
            if (reg < 0 && cost && n == 1) reg = rm_room_of_source(r, x, &over);
            if (reg < 0 || (!cost && !r->at[x].clean)) {
                r->ok = false;
                return;
            }
            for (int k = cost ? n : 0; k-- > 0;)
                rm_move(r, place, node[k], r->p->value[node[k]].bank != r->c->bank ? KX_RAX : reg, KX_AGAIN);
            if (over) {
                rm_move(r, place, over, -1, KX_AWAY);
                r->p->value[over].moved = (uint16_t)(r->c->loop + 1);
                rm_let_go(r, over);
            }
            if (!cost) {
                rm_find_side(r, x);
                if (r->at[x].side < 0 && r->p->value[x].start < (int32_t)(2 * r->open)) rm_want_sources(r, x, place);
                rm_move(r, place, x, reg, KX_FROM_FRAME);
            }
            r->p->value[x].moved = (uint16_t)(r->c->loop + 1);
            rm_hold(r, x, reg);
        }
        r->pinned |= 1u << r->p->value[x].reg;
        top--;
    }
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static bool rm_is_item(const rm *r, kn_ref x) {
    const kx_value *v = &r->p->value[x];
    return v->needed && !v->folded && !v->step;
}

/* The value of this bank that x makes, or gives another: 0 none. */
static kn_ref rm_made(const rm *r, kn_ref x) {
    kn_ref v = 0;
    if (kg_op(r->g, x) == KN_OP_STORE && kx_is_cell(r->g, kg_at(r->g, x, 0)))
        v = kx_root_of(r->g, kg_at(r->g, x, 0));
    else if (kg_dtype(r->g, x) != KN_VOID)
        v = kx_name(r->p, x);
    return v && r->p->value[v].bank == r->c->bank && r->c->mark[v] & KX_SEEN ? v : 0;
}

/* What each place reads, and where that is read next. */
static bool rm_find_reads(rm *r) {
    kn_ref o[KX_MAX_OPERANDS];
    for (int pass = 0; pass < 2; pass++) {
        r->nread = 0;
        for (uint32_t i = r->open + 1; i <= r->close; i++) {
            kn_ref x = r->p->list[i];
            if (pass) r->start[i - r->open] = r->nread;
            int m = rm_is_item(r, x) ? kx_operands(r->p, x, o) : 0;
            for (int k = 0; k < m; k++) {
                kn_ref s = kx_name(r->p, o[k]);
                if (r->p->value[s].bank != r->c->bank) continue;
                if (pass) r->read[r->nread] = s;
                r->nread++;
            }
        }
        if (pass) break;
        r->read = kn_zalloc(kg_alloc(r->g), (r->nread + 1) * sizeof *r->read);
        r->then = kn_zalloc(kg_alloc(r->g), (r->nread + 1) * sizeof *r->then);
        if (!r->read || !r->then) return kn_oom(r->p->f);
    }
    r->start[r->close + 1 - r->open] = r->nread;
    return true;
}

static void rm_find_next(rm *r) {
    for (int k = 0; k < r->c->nref; k++) { /* what goes on from round to round is wanted at the end of each */
        rm_state *s       = &r->at[r->c->ref[k]];
        bool      goes_on = s->top >= 0 || (k < r->c->nouter && r->c->mark[r->c->ref[k]] & KX_WRITTEN);
        s->next           = goes_on ? (int32_t)r->close : NEVER;
    }
    for (uint32_t i = r->close + 1; i-- > r->open + 1;) {
        for (uint32_t k = r->start[i - r->open]; k < r->start[i - r->open + 1]; k++)
            r->then[k] = r->at[r->read[k]].next;
        for (uint32_t k = r->start[i - r->open]; k < r->start[i - r->open + 1]; k++)
            r->at[r->read[k]].next = (int32_t)i;
    }
}

/* Where the memory of each LOAD is written first behind it. */
static void rm_find_writes(rm *r) {
    kx_plan *p = r->p;
    for (size_t n = 1; n < p->size; n++) r->at[n].overwritten = NEVER;
    for (uint32_t i = p->n; i-- > 0;) {
        kn_ref x  = p->list[i];
        int    op = kg_op(r->g, x);
        if (op != KN_OP_LOAD && op != KN_OP_STORE) continue;
        kn_ref st = kx_root_of(r->g, kg_at(r->g, x, 0));
        if (op == KN_OP_STORE)
            r->at[st].overwritten = (int32_t)i;
        else
            r->at[x].overwritten = r->at[st].overwritten;
    }
}

/* The end of a round reads v. */
static bool rm_ends_with(const rm *r, kn_ref v) {
    for (uint32_t k = r->start[r->close - r->open]; k < r->nread; k++)
        if (r->read[k] == v) return true;
    return false;
}

/* Value v has a register at the start of every round: one that is left, or that of the value from outside that is read
 * last. `opens`: it is set while the loop opens. */
static bool rm_keep_top(rm *r, kn_ref v, bool opens, uint32_t *kept) {
    const kx_crowd *c    = r->c;
    uint32_t        of   = opens ? c->always & ~c->openers : UINT32_MAX;
    int             most = -1, reg = rm_pick(c->pool & of & ~*kept, c->rather, -1);
    for (int j = 0; reg < 0 && j < c->nouter; j++) {
        rm_state *s = &r->at[c->ref[j]];
        if (s->top < 0 || !(of >> s->top & 1) || c->mark[c->ref[j]] & KX_WRITTEN || rm_ends_with(r, c->ref[j]))
            continue;
        if (most < 0 || s->next > r->at[c->ref[most]].next) most = j;
    }
    if (reg < 0 && most < 0) return false;
    if (reg < 0) {
        rm_state *s = &r->at[c->ref[most]];
        reg         = s->top;
        s->top      = -1;
        s->gone     = s->was >= 0;
    }
    *kept |= 1u << reg;
    r->at[v].top = (int8_t)reg;
    return true;
}

/* Registers that values have at the start of every round. Sums over the loop need one, and what its end reads; then
 * come those from outside that are read first. False: there are too few. */
static bool rm_settle_tops(rm *r) {
    const kx_crowd *c    = r->c;
    uint32_t        kept = 0;
    for (int k = 0; k < c->nref; k++) {
        kn_ref    v = c->ref[k];
        rm_state *s = &r->at[v];
        s->was      = r->p->value[v].reg;
        s->first = s->side = -1;
        s->top             = (int8_t)(k < c->nouter ? s->was : -1);
        s->lent            = k < c->nouter && s->was < 0;
        s->gone            = false;
        if (k >= c->nouter)
            r->p->value[v].reg = -1;
        else if (s->top >= 0)
            kept |= 1u << s->top;
    }
    rm_find_next(r);
    for (int k = c->nouter; k < c->nref && r->p->value[c->ref[k]].start <= (int32_t)(2 * r->open); k++)
        if (!rm_keep_top(r, c->ref[k], true, &kept)) return false;
    for (int k = 0; k < c->nouter; k++)
        if (r->at[c->ref[k]].top < 0 && rm_ends_with(r, c->ref[k]) && !rm_keep_top(r, c->ref[k], false, &kept))
            return false;
    for (uint32_t free = c->pool & ~kept; free;) {
        int best = -1, reg = rm_pick(free, c->rather, -1);
        for (int k = 0; k < c->nouter; k++) {
            rm_state *s = &r->at[c->ref[k]];
            if (s->top >= 0 || s->gone) continue;
            bool written = c->mark[c->ref[k]] & KX_WRITTEN, before = best >= 0 && c->mark[c->ref[best]] & KX_WRITTEN;
            if (best < 0 || written > before || (written == before && s->next < r->at[c->ref[best]].next)) best = k;
        }
        if (best < 0) break;
        r->at[c->ref[best]].top = (int8_t)reg;
        free &= ~(1u << reg);
    }
    rm_find_next(r); /* what has a register at the start has it at the end */
    for (int k = 0; k < c->nref; k++) {
        kn_ref v       = c->ref[k];
        r->at[v].clean = k < c->nouter && (r->at[v].top < 0 || !(c->mark[v] & KX_WRITTEN));
        if (r->at[v].gone) {
            r->p->value[v].reg = -1;
            rm_move(r, (int32_t)r->open + 1, v, -1, KX_AWAY);
            r->p->value[v].moved = (uint16_t)(c->loop + 1);
        } else if (r->at[v].top >= 0)
            rm_hold(r, v, r->at[v].top);
    }
    return r->ok;
}

/* The register of what item x makes. Those of sources that end here are free for it. */
static void rm_make(rm *r, kn_ref v, int32_t place) {
    kx_value *x     = &r->p->value[v];
    bool      first = r->at[v].first < 0 && x->start >= 2 * place - 1;
    r->at[v].clean  = false;
    if (x->reg >= 0) return;
    uint32_t ends = 0;
    for (uint32_t b = r->busy; b; b &= b - 1) {
        const kx_value *o = &r->p->value[r->holds[__builtin_ctz(b)]];
        if (o->end <= (first ? x->start : 2 * place - 1) && r->at[r->holds[__builtin_ctz(b)]].top < 0)
            ends |= 1u << __builtin_ctz(b);
    }
    int top = r->at[v].top, reg = top;
    if (top < 0) {
        reg = rm_pick(r->c->pool & (~r->busy | ends), r->c->rather, first ? kx_wish(r->p, v) : -1);
        if (reg < 0) reg = rm_evict(r, place, r->c->pool);
    } else
        reg = rm_room(r, v, place);
    if (reg < 0) {
        r->ok = false;
        return;
    }
    if (r->busy >> reg & 1) rm_end(r, r->holds[reg]);
    if (first)
        r->at[v].first = (int8_t)reg;
    else {
        rm_move(r, place, v, reg, KX_HERE);
        x->moved = (uint16_t)(r->c->loop + 1);
    }
    rm_hold(r, v, reg);
}

/* What item i reads stays where it is, and at the end of a round what is back in its own register. */
static void rm_pin(rm *r, uint32_t i) {
    r->pinned = 0;
    for (uint32_t k = r->start[i - r->open]; k < r->start[i - r->open + 1]; k++)
        if (r->p->value[r->read[k]].reg >= 0) r->pinned |= 1u << r->p->value[r->read[k]].reg;
    for (uint32_t b = i == r->close ? r->busy : 0; b; b &= b - 1) {
        int reg = __builtin_ctz(b);
        if (r->at[r->holds[reg]].top == reg) r->pinned |= 1u << reg;
    }
}

static void rm_bring_pinned(rm *r, kn_ref v, uint32_t i) {
    rm_pin(r, i);
    rm_bring(r, v, (int32_t)i);
}

static void rm_run(rm *r) {
    const kx_crowd *c = r->c;
    for (uint32_t i = r->open + 1; i <= r->close && r->ok; i++) {
        kn_ref   x    = r->p->list[i], made;
        uint32_t from = r->start[i - r->open], to = r->start[i - r->open + 1];
        if (!rm_is_item(r, x)) continue;
        for (uint32_t k = from; k < to && r->ok; k++) rm_bring_pinned(r, r->read[k], i);
        for (int k = 0; k < c->nref && i == r->close && r->ok; k++)
            if (r->at[c->ref[k]].top >= 0) rm_bring_pinned(r, c->ref[k], i);
        rm_pin(r, i);
        for (int k = 0; k < c->nouter && i == r->close && r->ok; k++) { /* sums that no register is kept for */
            kn_ref v = c->ref[k];
            if (r->at[v].top >= 0 || r->p->value[v].reg < 0 || r->at[v].clean) continue;
            rm_move(r, (int32_t)i, v, r->p->value[v].reg, KX_TO_FRAME);
            rm_move(r, (int32_t)i, v, -1, KX_AWAY);
            rm_let_go(r, v);
        }
        made = rm_made(r, x);
        if (made && r->ok && i < r->close) rm_make(r, made, (int32_t)i);
        for (uint32_t k = from; k < to; k++) r->at[r->read[k]].next = r->then[k];
        for (uint32_t b = r->busy; b && i < r->close; b &= b - 1) { /* what is read no more */
            kn_ref v = r->holds[__builtin_ctz(b)];
            if (r->at[v].top >= 0 || v == made) continue;
            if (r->p->value[v].start < (int32_t)(2 * r->open) && !(c->mark[v] & KX_WRITTEN)) {
                if (r->at[v].next != NEVER) continue;
                rm_move(r, (int32_t)i + 1, v, -1, KX_AWAY);
            } else if (r->p->value[v].end > (int32_t)(2 * i))
                continue;
            rm_end(r, v);
        }
    }
}

/* What the loop's splits say: values of the frame that registers have at the start, what leaves its own, and what waits
 * and lends its own. */
static bool rm_split(rm *r) {
    kx_plan        *p = r->p;
    const kx_crowd *c = r->c;
    for (int k = 0; k < c->nouter; k++) {
        kn_ref          v    = c->ref[k];
        const rm_state *s    = &r->at[v];
        bool            away = false;
        for (size_t m = 0; m < p->nmove && s->was >= 0 && !(c->mark[v] & KX_WRITTEN) && !away; m++)
            away = p->move[m].value == v && p->move[m].at > r->open && p->move[m].at <= r->close;
        if (s->lent && s->top >= 0 && !kx_put_split(p, v, c->loop, s->top, false, c->mark[v] & KX_WRITTEN))
            return false;
        if (away && !kx_put_split(p, v, c->loop, s->was, true, false)) return false;
    }
    for (kn_ref v = 1; v < p->size; v++) {
        const kx_value *x = &p->value[v];
        if (x->reg < 0 || (x->bank == c->bank && c->mark[v]) || !rm_waits(r, v, x->bank, x->reg)) continue;
        uint32_t given = x->bank == c->bank ? r->taken : x->bank == rm_beside(c->bank) ? r->sided : 0;
        if (given >> x->reg & 1 && !kx_put_split(p, v, c->loop, x->reg, true, false)) return false;
    }
    p->used[c->bank] |= r->taken;
    return true;
}

int kx_reg_within(const kx_plan *p, kn_ref v, int loop) {
    if (p->value[v].moved == loop + 1) return -1;
    for (size_t k = 0; k < p->nsplit; k++)
        if (p->split[k].value == v && p->split[k].loop == loop) return p->split[k].away ? -1 : p->split[k].reg;
    return p->value[v].reg;
}

bool kx_share_crowded(kx_plan *p, const kx_crowd *c, bool *done) {
    const kn_alloc *a = kg_alloc(p->g);
    rm     r = {.p = p, .g = p->g, .c = c, .open = p->loop[c->loop].open, .close = p->loop[c->loop].close, .ok = true};
    size_t before = p->nmove, nstart = r.close - r.open + 2;
    *done = false;
    if (__builtin_popcount(c->pool) < FEWEST) return true;
    r.at      = kn_zalloc(a, p->size * sizeof *r.at);
    r.start   = kn_zalloc(a, nstart * sizeof *r.start);
    bool fine = (r.at && r.start) || kn_oom(p->f);
    fine      = fine && rm_find_reads(&r);
    if (fine) {
        rm_find_writes(&r);
        r.sides = r.beside = rm_find_sides(&r);
        r.ok               = rm_settle_tops(&r);
        rm_run(&r);
        fine = !p->f->code;
    }
    if (fine && r.ok) { /* a value has its home where the loop opens, or where it is made */
        for (int k = 0; k < c->nref; k++) {
            kn_ref          v = c->ref[k];
            const rm_state *s = &r.at[v];
            p->value[v].reg   = k < c->nouter ? s->was : s->top >= 0 ? s->top : s->first;
        }
        for (size_t m = before; m < p->nmove; m++) {
            kx_value *v = &p->value[p->move[m].value];
            v->home     = v->reg;
        }
        fine  = rm_split(&r);
        *done = fine;
    } else if (fine) {
        for (int k = 0; k < c->nref; k++) p->value[c->ref[k]].reg = r.at[c->ref[k]].was;
        for (int k = 0; k < c->nref; k++) p->value[c->ref[k]].moved = 0;
        p->nmove = before;
    }
    kn_free(a, r.at, p->size * sizeof *r.at);
    kn_free(a, r.start, nstart * sizeof *r.start);
    if (r.read) kn_free(a, r.read, (r.nread + 1) * sizeof *r.read);
    if (r.then) kn_free(a, r.then, (r.nread + 1) * sizeof *r.then);
    return fine;
}
