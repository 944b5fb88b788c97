/* linearize.c - stage 6: the graph of a kernel becomes a list in the order in which it runs.
 *
 * Takes: an expanded kernel whose ENDs close one RANGE each. Gives: LINEAR, where RANGE opens a loop and its END closes
 * it. Holds after: every node stands behind its sources, in the innermost loop that it depends on (what does not depend
 * on a loop is out of it); stores to storage that the kernel reads stand at the end of their block, behind all reads,
 * and so does what is announced, where no access is said to wait for it; or, where something is computed, before the
 * first store.
 *
 * Ids ascend from sources to users, so within one loop ascending ids are an order; a loop stands at its END. A run of
 * nodes between two loops is ordered so that few values are held at a time: depth first from its effects, in the order
 * of their ids; where that holds many, from its end, of the last nodes whose users stand already the one that lets go
 * of most; where that holds more than there are registers, the same store by store, looking ahead, or depth first from
 * the last sources on. Two stores are made in turns if registers for both are left and SPARE over: depth first, and
 * then four to memory, made of little each (BRIEF items), or eight that move what lies elsewhere; or where they are
 * made of so much that a processor sees one at a time (LONG items), in the order that holds least. So are the
 * strands of a fold, which meet in LOCAL memory; and all stores to memory, each load in one register, where too few are
 * left for depth first. Reads and writes of what is written there keep their order. */
#include "lower/lower.h"

#include <string.h>

typedef struct kl_item {
    kn_ref   node;
    bool     last; /* it stands behind the other items of its loop */
    int      loop; /* the loop it stands in, -1 outermost */
    int      opens; /* the loop it stands for, -1 none */
} kl_item;

typedef struct kl_loop {
    kn_ref range, end;
    int    depth, parent;
} kl_loop;

enum {
    NOWHERE = -1, WINDOW = 12, FEW = 8, LONG = 40, SPARE = 3, AHEAD = 8, AWAITED = 2, BRIEF = 16,
    MADE_TURNS = 4, MOST_TURNS = 8, /* stores in turns: of what is made, of what is moved */
    LOADS_LAST = -1
};
enum { SCALAR, VECTOR, MASK, BANKS };

/* A run of items without a loop among them, and what orders it. Indexed by node: its place in the run, and what of the
 * run reached this storage last. By place: what else must come first, and whether it is out. */
typedef struct kl_run_order {
    const kn_graph *g;
    const kl_item  *item;
    int             from, to;
    int            *place, *touched;   /* per node, NOWHERE: not in the run */
    int            *before, *stack;    /* per item: what reached its storage before it, NOWHERE; a stack of items */
    int            *depth_first, *at;  /* the items of the run in that order; per item: where it stands there */
    int            *effect;            /* per item: the STOREs before it there that nothing of the run awaits */
    int            *filled, *alone;    /* the items of the run in other orders */
    uint8_t        *outside;           /* per node: not of the run, and counted */
    int             all[BANKS], left[BANKS]; /* registers a bank, those for values; what is left for the run's own */
    uint32_t       *next;              /* per item: sources seen so far; then users that do not stand yet */
    uint8_t        *held;              /* per item: a register has it behind what stands */
    uint8_t        *used;              /* per item: by one of the run (1, or AWAITED); then if it takes a register */
    uint8_t        *written;           /* per node: storage that the kernel writes */
    bool            halves;            /* both halves of two registers are made at once */
} kl_run_order;

static int innermost(const kn_graph *g, kn_ref n, const kl_loop *loop, const int *of_range, int none) {
    kn_ref r[64];
    int    m = KN_MIN(kg_ranges(g, n, r, KN_COUNT(r)), KN_COUNT(r)), best = none;
    for (int i = 0; i < m; i++) {
        int l = of_range[r[i]];
        if (l >= 0 && (best < 0 || loop[l].depth > loop[best].depth)) best = l;
    }
    return best;
}

static int place_of(const kl_item *x) { return 2 * (x->loop + 1) + x->last; }

/* The items by loops, those that come last behind the others, else in the order they have. start[l + 1]: the first of
 * loop l. */
static bool sort_items(const kn_alloc *a, kl_item *item, uint32_t count, int nloop, int *start) {
    size_t    places = 2 * ((size_t)nloop + 1) + 1;
    uint32_t *at     = kn_zalloc(a, places * sizeof *at);
    kl_item  *to     = kn_realloc(a, NULL, 0, (count + 1) * sizeof *to);
    bool      ok     = at && to;
    for (uint32_t i = 0; i < count && ok; i++) at[place_of(&item[i]) + 1]++;
    for (size_t p = 1; p < places && ok; p++) at[p] += at[p - 1];
    for (int l = -1; l < nloop && ok; l++) start[l + 1] = (int)at[2 * (l + 1)];
    for (uint32_t i = 0; i < count && ok; i++) to[at[place_of(&item[i])]++] = item[i];
    if (ok) memcpy(item, to, count * sizeof *to);
    kn_free(a, to, (count + 1) * sizeof *to);
    kn_free(a, at, places * sizeof *at);
    return ok;
}

static kn_ref reached(const kn_graph *g, kn_ref x) {
    int op = kg_op(g, x);
    return op == KN_OP_LOAD || op == KN_OP_STORE ? kg_storage(g, kg_at(g, x, 0)) : 0;
}

/* What item `at` needs and does not stand yet, its first source first or its last; NOWHERE: nothing. */
static int next_need(kl_run_order *o, int at, bool last_first) {
    kn_ref   x    = o->item[at].node;
    uint32_t n    = kg_nsrc(o->g, x);
    int      need = NOWHERE;
    while (o->next[at] <= n && need == NOWHERE) {
        uint32_t s = o->next[at]++;
        need       = s == 0 ? o->before[at] : o->place[kg_at(o->g, x, last_first ? n - s : s - 1)];
        if (need != NOWHERE && o->next[need] == UINT32_MAX) need = NOWHERE;
    }
    return need;
}

/* What two STOREs put into LOCAL memory, as registers that are put in turns are, and x loads a half of: the AFTER; 0:
 * it does not. */
static kn_ref both_halves(const kn_graph *g, kn_ref x) {
    kn_ref from = kg_op(g, x) == KN_OP_LOAD ? kg_at(g, kg_at(g, x, 0), 0) : 0;
    if (!from || kg_op(g, from) != KN_OP_AFTER || kg_nsrc(g, from) != 3 || kg_space(g, from) != KN_LOCAL) return 0;
    return kg_op(g, kg_at(g, from, 1)) == KN_OP_STORE && kg_op(g, kg_at(g, from, 2)) == KN_OP_STORE ? from : 0;
}

/* The LOAD of the other half of what item `at` loads, where nothing has asked for it yet; NOWHERE: there is none. */
static int other_half(const kl_run_order *o, int at) {
    enum { NEAR = 4 }; /* made one after the other */
    kn_ref from = both_halves(o->g, o->item[at].node);
    for (int i = KN_MAX(at - NEAR, o->from); from && i < KN_MIN(at + NEAR + 1, o->to); i++)
        if (both_halves(o->g, o->item[i].node) == from && !o->next[i]) return i;
    return NOWHERE;
}

/* Item `root` of the run, behind what it needs. Returns how many items are in order then. */
static int put_run(kl_run_order *o, int root, int *effect, int m) {
    int top = 0;
    if (o->next[root] == UINT32_MAX) return m;
    o->stack[top++] = root;
    while (top) {
        int at = o->stack[top - 1], need = next_need(o, at, false);
        if (need != NOWHERE) {
            o->stack[top++] = need;
            continue;
        }
        o->depth_first[m] = at;
        o->at[at]         = m++;
        o->effect[at]     = *effect;
        *effect += kg_op(o->g, o->item[at].node) == KN_OP_STORE && o->used[at] != AWAITED;
        o->next[at]       = UINT32_MAX;
        top--;
        int other = o->halves ? other_half(o, at) : NOWHERE;
        if (other != NOWHERE) o->stack[top++] = other;
    }
    return m;
}

/* Does a node's value take a register? Addresses are parts of what uses them, loads of accumulators their names. */
static bool takes_register(const kn_graph *g, kn_ref x) {
    int op = kg_op(g, x);
    if (op == KN_OP_LOAD) return kg_space(g, kg_at(g, x, 0)) != KN_REG;
    return op == KN_OP_INS || op == KN_OP_BITCAST || (kn_is_alu(op) && kg_dtype(g, x) != KN_INDEX);
}

static int bank_of(const kl_run_order *o, kn_ref x) {
    int dt = kg_dtype(o->g, x);
    if (kg_rank(o->g, x)) return o->all[MASK] > 0 && dt == KN_BOOL ? MASK : VECTOR;
    return kn_is_float(dt) ? VECTOR : SCALAR;
}

/* Registers that are held before item i and not behind it, less those behind it and not before. */
static int more_before(const kl_run_order *o, int i) {
    kn_ref x    = o->item[i].node;
    int    more = -(int)o->used[i];
    for (uint32_t k = 0; k < kg_nsrc(o->g, x); k++) {
        int s = o->place[kg_at(o->g, x, k)];
        more += s != NOWHERE && !o->held[s] && o->used[s] && (!k || kg_at(o->g, x, k) != kg_at(o->g, x, k - 1));
    }
    return more;
}

/* Item `at` is used behind what stands: a register has it. */
static void hold(kl_run_order *o, int at, int *live) {
    if (!o->held[at]) live[bank_of(o, o->item[at].node)] += o->used[at];
    o->held[at] = 1;
}

/* Of a run in that order: users in the run, and whether a value takes a register; the most values that are held at a
 * time, by bank. `through`: of what both halves are made as well, until they are. */
static void count_held(kl_run_order *o, const int *order, int n, bool through, int *most) {
    int live[BANKS] = {0};
    memset(most, 0, BANKS * sizeof *most);
    for (int k = 0; k < n; k++) {
        int i      = order[k];
        o->next[i] = 0;
        o->held[i] = 0;
        o->used[i] = takes_register(o->g, o->item[i].node);
    }
    for (int k = n; k-- > 0;) {
        int    i = order[k];
        kn_ref x = o->item[i].node;
        if (o->before[i] != NOWHERE) o->next[o->before[i]]++;
        for (uint32_t s = 0; s < kg_nsrc(o->g, x); s++) {
            int at = o->place[kg_at(o->g, x, s)];
            if (at == NOWHERE) continue;
            o->next[at]++;
            hold(o, at, live);
        }
        kn_ref both = through ? both_halves(o->g, x) : 0;
        for (uint32_t s = 1; both && s < kg_nsrc(o->g, both); s++) {
            int at = o->place[kg_at(o->g, kg_at(o->g, both, s), 1)];
            if (at != NOWHERE) hold(o, at, live);
        }
        for (int b = 0; b < BANKS; b++) most[b] = KN_MAX(most[b], live[b]);
        live[bank_of(o, x)] -= o->used[i] && o->held[i];
        o->held[i] = 0;
    }
}

static void count_users(kl_run_order *o, const int *order, int n, int *most) { count_held(o, order, n, false, most); }

/* One user less; what waits for none any more is ready, in depth-first order. */
static int let_stand(kl_run_order *o, int i, int nready) {
    o->held[i] = 1;
    if (--o->next[i]) return nready;
    int at = nready;
    for (; at > 0 && o->at[o->stack[at - 1]] > o->at[i]; at--) o->stack[at] = o->stack[at - 1];
    o->stack[at] = i;
    return nready + 1;
}

/* How low the number of held registers gets, less what it is now, when item i is placed and then the best of what that
 * makes ready, and so on. */
static int look_ahead(kl_run_order *o, int i) {
    int list[2 * AHEAD], done[AHEAD], held[4 * AHEAD], nlist = 0, ndone = 0, nheld = 0, live = 0, low = INT32_MAX;
    list[nlist++] = i;
    while (nlist && ndone < AHEAD) {
        int best = 0, least = INT32_MAX;
        for (int k = 0; k < nlist; k++) {
            int more = more_before(o, list[k]);
            if (more < least) least = more, best = k;
        }
        int at = done[ndone++] = list[best];
        list[best]             = list[--nlist];
        live += least;
        low      = KN_MIN(low, live);
        kn_ref x = o->item[at].node;
        for (uint32_t s = 0; s < kg_nsrc(o->g, x); s++) {
            int of = o->place[kg_at(o->g, x, s)];
            if (of == NOWHERE) continue;
            if (!o->held[of] && nheld < KN_COUNT(held)) o->held[of] = 1, held[nheld++] = of;
            if (!--o->next[of] && nlist < KN_COUNT(list)) list[nlist++] = of;
        }
    }
    while (ndone) { /* and all as it was */
        kn_ref x = o->item[done[--ndone]].node;
        for (uint32_t s = 0; s < kg_nsrc(o->g, x); s++)
            if (o->place[kg_at(o->g, x, s)] != NOWHERE) o->next[o->place[kg_at(o->g, x, s)]]++;
    }
    while (nheld) o->held[held[--nheld]] = 0;
    return low;
}

/* `alone`: one store after another. Else what they are made of mixes, and a processor finds more to do at a time. */
static void fill_backwards(kl_run_order *o, int *out, int n, bool alone) {
    int nready = 0;
    for (int k = 0; k < n; k++)
        if (!o->next[o->depth_first[k]]) o->stack[nready++] = o->depth_first[k];
    while (nready) {
        int best = nready - 1, least = more_before(o, o->stack[best]), of = o->effect[o->stack[best]];
        for (int k = nready - 1; k-- > 0 && k >= nready - WINDOW && least > -1;) {
            if (alone && o->effect[o->stack[k]] != of) break;
            int more = more_before(o, o->stack[k]);
            if (more < least) least = more, best = k;
        }
        if (alone && least > 0) { /* all hold more: which of them leads to less */
            int low = INT32_MAX;
            for (int k = nready; k-- > 0 && k >= nready - WINDOW && o->effect[o->stack[k]] == of;) {
                int ahead = look_ahead(o, o->stack[k]);
                if (ahead < low) low = ahead, best = k;
            }
        }
        int    i = o->stack[best];
        kn_ref x = o->item[i].node;
        memmove(&o->stack[best], &o->stack[best + 1], (size_t)(--nready - best) * sizeof *o->stack);
        out[--n] = i;
        if (o->before[i] != NOWHERE) {
            bool held            = o->held[o->before[i]];
            nready               = let_stand(o, o->before[i], nready);
            o->held[o->before[i]] = held;
        }
        for (uint32_t s = 0; s < kg_nsrc(o->g, x); s++)
            if (o->place[kg_at(o->g, x, s)] != NOWHERE) nready = let_stand(o, o->place[kg_at(o->g, x, s)], nready);
    }
}

/* Registers that are left beside what the run reads and does not make. */
static void count_left(kl_run_order *o, int n) {
    const kn_graph *g     = o->g;
    int             count = 0;
    memcpy(o->left, o->all, sizeof o->left);
    for (int k = 0; k < n; k++) {
        kn_ref x = o->item[o->depth_first[k]].node;
        for (uint32_t s = 0; s < kg_nsrc(g, x); s++) {
            kn_ref at = kg_op(g, kg_at(g, x, s)) == KN_OP_INDEX ? kg_storage(g, kg_at(g, x, s)) : kg_at(g, x, s);
            bool   pointer = kg_op(g, at) == KN_OP_PARAM, cell = kg_op(g, at) == KN_OP_BUFFER;
            if (o->place[at] != NOWHERE || o->outside[at] || (cell && kg_space(g, at) == KN_LOCAL)) continue;
            if (!pointer && !cell && !takes_register(g, at)) continue;
            o->outside[at]    = 1;
            o->stack[count++] = (int)at;
            o->left[pointer ? SCALAR : cell && kg_numel(g, at) > 1 ? VECTOR : bank_of(o, at)]--;
        }
    }
    while (count) o->outside[o->stack[--count]] = 0;
}

/* Values that no register is left for. */
static int too_many(const kl_run_order *o, const int *most) {
    int many = 0;
    for (int b = 0; b < BANKS; b++) many += KN_MAX(most[b] - o->left[b], 0);
    return many;
}

/* What item i waits for stands already: marked in `held`. */
static bool stands_behind(const kl_run_order *o, int i) {
    kn_ref x = o->item[i].node;
    if (o->before[i] != NOWHERE && !o->held[o->before[i]]) return false;
    for (uint32_t s = 0; s < kg_nsrc(o->g, x); s++) {
        int at = o->place[kg_at(o->g, x, s)];
        if (at != NOWHERE && !o->held[at]) return false;
    }
    return true;
}

/* It holds more than before, and so waits until nothing else is ready: a load, its lanes, an address. */
static bool is_read(const kl_run_order *o, int i) {
    const kn_graph *g = o->g;
    kn_ref          x = o->item[i].node;
    if (kg_op(g, x) == KN_OP_STORE) return false;
    return !takes_register(g, x) || kg_op(g, x) == KN_OP_LOAD ||
           (kg_nsrc(g, x) == 1 && kg_op(g, kg_at(g, x, 0)) == KN_OP_LOAD);
}

/* What so many stores are made of, an item of each in turn, in the order that each has alone. The one that has most
 * left goes on, a later one at a tie, or so far behind: what it reads lies behind what the first reads, and caches that
 * are asked for the later line first were measured to be faster (docs/decisions.md), but where all is only moved.
 * LOADS_LAST: something is read when nothing can be made of what was, and all that have a use for it take it. */
static void put_in_turns(kl_run_order *o, const int *base, int *out, int n, int stores, int ways, int lag) {
    int *start = (int *)&o->next[o->from], *by_store = o->stack, m = 0; /* of this run: counted anew behind */
    memset(start, 0, (size_t)n * sizeof *start);
    for (int k = 0; k < n; k++) start[o->effect[base[k]]]++, o->held[base[k]] = 0;
    for (int s = stores, end = n; s >= 0; s--) end = start[s] = end - start[s];
    for (int k = 0; k < n; k++) by_store[start[o->effect[base[k]]]++] = base[k]; /* start: now the end */
    for (int s = 0, from = 0; s <= stores; s += ways) {
        int at[MOST_TURNS] = {0}, end[MOST_TURNS] = {0}, last = KN_MIN(ways, stores + 1 - s);
        for (int t = 0; t < last; t++) at[t] = t ? end[t - 1] : from, end[t] = start[s + t];
        for (from = end[last - 1]; m < from;) {
            int best = 0, made = NOWHERE;
            while (at[best] == end[best]) best++;
            for (int t = best; t < last; t++) {
                int left = end[t] - at[t];
                if (!left || !stands_behind(o, by_store[at[t]])) continue;
                if (lag != LOADS_LAST) best = left >= end[best] - at[best] + lag ? t : best;
                else if ((made == NOWHERE || left > end[made] - at[made]) && !is_read(o, by_store[at[t]])) made = t;
            }
            if (made != NOWHERE) best = made;
            o->held[by_store[at[best]]] = 1;
            out[m++]                    = by_store[at[best]++];
        }
    }
}

/* Stores in turns take no more registers than are left, some to spare counted: of few the count errs by more, of what
 * is short by less. */
static bool turns_fit(kl_run_order *o, const int *paired, int n, bool brief) {
    int most[BANKS];
    count_users(o, paired, n, most);
    most[VECTOR] += o->all[VECTOR] <= 16 ? 2 * SPARE : brief ? 1 : SPARE;
    most[SCALAR] += SPARE;
    return !too_many(o, most);
}

/* Lanes that lie side by side in memory, or a scalar. */
static bool is_run(const kn_graph *g, kn_ref at) {
    kn_affine f;
    if (kg_op(g, at) != KN_OP_INDEX || kg_nsrc(g, at) != 2 || !kg_affine(g, kg_at(g, at, 1), &f)) return false;
    for (int t = 0; t < f.n; t++)
        if (kg_rank(g, f.atom[t]) && f.coef[t] != 1) return false;
    return kg_space(g, at) == KN_GLOBAL;
}

/* A STORE of what was just read as it lies in memory. */
static bool moves_it(const kn_graph *g, kn_ref store) {
    kn_ref x = kg_at(g, store, 1);
    return kg_op(g, x) == KN_OP_LOAD && is_run(g, kg_at(g, x, 0)) && is_run(g, kg_at(g, store, 0));
}

/* Whole lines go to memory by so many stores: of little each, or that only move what lies elsewhere. */
static bool stores_lines(const kl_run_order *o, int n, int stores, int ways) {
    if (stores % ways || n > BRIEF * stores) return false;
    for (int k = 0; k < n; k++) {
        kn_ref x = o->item[o->depth_first[k]].node;
        if (kg_op(o->g, x) != KN_OP_STORE) continue;
        if (kg_space(o->g, kg_at(o->g, x, 0)) == KN_REG || (ways > MADE_TURNS && !moves_it(o->g, x))) return false;
    }
    return true;
}

/* Depth first, the last source first: what is chosen among comes before the choice, and of a chain of choices each is
 * made when it is used. The items' users are counted. */
static void put_last_first(kl_run_order *o, int *out) {
    int top = 0, m = 0;
    for (int i = o->from; i < o->to; i++) o->held[i] = !o->next[i], o->next[i] = 0;
    for (int i = o->from; i < o->to; i++) {
        if (o->held[i]) o->stack[top++] = i;
        while (top) {
            int at = o->stack[top - 1], need = next_need(o, at, true);
            if (need != NOWHERE) {
                o->stack[top++] = need;
                continue;
            }
            if (o->next[at] != UINT32_MAX) out[m++] = at;
            o->next[at] = UINT32_MAX;
            top--;
        }
    }
}

/* All that is stored is only moved: its lines are read in their order (docs/decisions-measured.md). */
static bool all_move(const kl_run_order *o, int n) {
    bool all = true;
    for (int k = 0; k < n && all; k++) {
        kn_ref x = o->item[o->depth_first[k]].node;
        all = kg_op(o->g, x) != KN_OP_STORE || moves_it(o->g, x);
    }
    return all;
}

/* The LOCAL memory that item i stores lanes in, 0: none. */
static kn_ref strand_in(const kl_run_order *o, int i) {
    kn_ref x = o->item[i].node, st = kg_op(o->g, x) == KN_OP_STORE ? reached(o->g, x) : 0;
    return st && kg_space(o->g, st) == KN_LOCAL ? st : 0;
}

/* How many strands the lanes of the run's first fold are stored by, each made by itself; 0: no fold, or strands made of
 * little. An item's effect is then the first strand that needs it, of this or another storage of as many; or, where
 * none does, their number. */
static int find_strands(kl_run_order *o, int n) {
    int      strands = 0, made[MOST_TURNS] = {0};
    uint8_t *stored = o->outside; /* per storage */
    for (int k = n; k-- > 0;) {
        kn_ref st = strand_in(o, o->depth_first[k]);
        if (st) strands = stored[st] += stored[st] <= MOST_TURNS; /* last: of the first one */
        o->effect[o->depth_first[k]] = INT32_MAX;
    }
    for (int k = 0; k < n && strands; k++) {
        kn_ref st = strand_in(o, o->depth_first[k]);
        if (st && stored[st] != strands) stored[st] = 0;
    }
    for (int k = n; k-- > 0 && strands;) {
        int    i = o->depth_first[k];
        kn_ref x = o->item[i].node, st = strand_in(o, i);
        int    strand = st && stored[st] ? --stored[st] : strands;
        o->effect[i] = strand = KN_MIN(o->effect[i], strand);
        if (strand < KN_MIN(strands, MOST_TURNS)) made[strand]++;
        for (uint32_t s = 0; s <= kg_nsrc(o->g, x); s++) {
            int at = s ? o->place[kg_at(o->g, x, s - 1)] : o->before[i];
            if (at != NOWHERE) o->effect[at] = KN_MIN(o->effect[at], strand);
        }
    }
    if (strands > MOST_TURNS) return 0;
    for (int t = 0; t < strands; t++)
        if (made[t] < LONG) return 0;
    return strands;
}

/* A fold's strands in turns: each step of one waits for the step before it, and a processor does not see far enough for
 * the next strand. What lies outside of the run does not count, as it is read where it is used if no register is left;
 * and there may be twice as many masks, as a comparison under a mask replaces it. */
static const int *strands_in_turns(kl_run_order *o, const int *base, int n) {
    int most[BANKS], strands = find_strands(o, n), *out = base == o->filled ? o->alone : o->filled;
    for (int ways = KN_MIN(strands, MADE_TURNS); ways > 1; ways /= 2) {
        put_in_turns(o, base, out, n, strands, ways, 0);
        count_users(o, out, n, most);
        bool fit = most[SCALAR] <= o->left[SCALAR] && most[VECTOR] + SPARE <= o->all[VECTOR];
        if (fit && most[MASK] <= 2 * o->all[MASK]) return out;
    }
    return base;
}

/* No STORE is to an accumulator or a part of a fold. */
static bool all_to_memory(const kl_run_order *o, int n) {
    bool all = true;
    for (int k = 0; k < n && all; k++) {
        kn_ref x = o->item[o->depth_first[k]].node;
        all = kg_op(o->g, x) != KN_OP_STORE || kg_space(o->g, kg_at(o->g, x, 0)) == KN_GLOBAL;
    }
    return all;
}

static const int *choose_order(kl_run_order *o, int n) {
    int        most[BANKS], mixed, stores = n ? o->effect[o->depth_first[n - 1]] : 0;
    bool       wide = stores > 1 && n / stores >= LONG;
    const int *best = o->filled;
    count_left(o, n);
    if (stores > 1 && !wide) {
        int lag = all_move(o, n); /* 1: at a tie the first goes on */
        for (int ways = MOST_TURNS; ways > 1; ways /= 2) {
            if (ways > 2 && !stores_lines(o, n, stores, ways)) continue;
            put_in_turns(o, o->depth_first, o->alone, n, stores, ways, lag);
            if (turns_fit(o, o->alone, n, ways > 2)) return o->alone;
        }
    }
    count_users(o, o->depth_first, n, most);
    if (most[SCALAR] + most[VECTOR] + most[MASK] <= FEW && !wide) return o->depth_first;
    int many = too_many(o, most);
    if (many && stores > 1 && !wide && all_to_memory(o, n)) {
        put_last_first(o, o->filled);
        put_in_turns(o, o->filled, o->alone, n, stores, MOST_TURNS, LOADS_LAST);
        count_users(o, o->alone, n, most);
        if (too_many(o, most) < many) return o->alone;
        count_users(o, o->depth_first, n, most);
    }
    fill_backwards(o, o->filled, n, false);
    count_users(o, o->filled, n, most);
    mixed = too_many(o, most);
    if (!mixed && !wide) return strands_in_turns(o, o->filled, n);
    fill_backwards(o, o->alone, n, true);
    count_users(o, o->alone, n, most);
    if (too_many(o, most) < mixed) best = o->alone, mixed = too_many(o, most);
    for (int lag = 0; wide && lag < KN_MAX(3 * LONG, n / stores); lag += LONG / 2) {
        int *paired = best == o->filled ? o->depth_first : o->filled;
        put_in_turns(o, o->alone, paired, n, stores, 2, lag);
        if (turns_fit(o, paired, n, false)) return paired;
    }
    if (mixed) {
        int *other = best == o->filled ? o->alone : o->filled;
        count_users(o, best, n, most);
        put_last_first(o, other);
        count_users(o, other, n, most);
        if (too_many(o, most) < mixed) best = other;
    }
    return strands_in_turns(o, best, n);
}

/* The run, depth first from what nothing of it uses. Returns how many items are in order. */
static int put_all(kl_run_order *o, bool halves) {
    const kn_graph *g = o->g;
    int             n = 0, effect = 0;
    o->halves         = halves;
    memset(&o->used[o->from], 0, (size_t)(o->to - o->from) * sizeof *o->used);
    memset(&o->next[o->from], 0, (size_t)(o->to - o->from) * sizeof *o->next);
    for (int i = o->from; i < o->to; i++) {
        kn_ref x = o->item[i].node;
        for (uint32_t k = 0; k < kg_nsrc(g, x); k++) {
            int s = o->place[kg_at(g, x, k)];
            if (s != NOWHERE) o->used[s] = k && kg_op(g, x) == KN_OP_AFTER ? AWAITED : KN_MAX(o->used[s], 1);
        }
    }
    for (int i = o->from; i < o->to; i++)
        if (!o->used[i]) n = put_run(o, i, &effect, n);
    return n;
}

/* The order of a run, of *n items. Where registers are put in turns, each half stands where it is wanted, or, if that
 * takes more registers than are left and this fewer, both at once. */
static const int *order_of(kl_run_order *o, bool halves, int *n) {
    int most[2][BANKS];
    *n               = put_all(o, false);
    const int *order = choose_order(o, *n);
    if (!halves) return order;
    count_held(o, order, *n, true, most[0]);
    if (!too_many(o, most[0])) return order;
    put_all(o, true);
    count_held(o, o->depth_first, *n, true, most[1]);
    if (too_many(o, most[1]) < too_many(o, most[0])) return o->depth_first;
    put_all(o, false);
    return choose_order(o, *n);
}

/* Of a run that computes what it stores, what is announced comes before the first of its stores, not last: behind them
 * it was measured to be of no use in some loops (docs/decisions-measured.md). */
static void announce_before_stores(kl_run_order *o, const int *order, int n, kn_ref *out) {
    const kn_graph *g = o->g;
    uint8_t        *early = o->used; /* per item: it or what it takes */
    int             first = NOWHERE, m = 0;
    bool            any = false;
    for (int k = n; k-- > 0;) {
        kn_ref x = o->item[order[k]].node;
        early[order[k]] = kg_op(g, x) == KN_OP_PREFETCH && o->item[order[k]].last;
        any |= early[order[k]];
        if (kg_op(g, x) == KN_OP_STORE && kg_space(g, kg_at(g, x, 0)) == KN_GLOBAL) first = k;
    }
    bool moves = !any || first == NOWHERE || all_move(o, n);
    for (int k = n; k-- > 0 && !moves;) {
        kn_ref x = o->item[order[k]].node;
        if (!early[order[k]]) continue;
        moves = k >= first && reached(g, x) != 0; /* a LOAD, whose place the stores might change */
        for (uint32_t s = 0; s < kg_nsrc(g, x); s++)
            if (o->place[kg_at(g, x, s)] != NOWHERE) early[o->place[kg_at(g, x, s)]] = 1;
    }
    for (int k = 0; k < n && (moves || k < first); k++) out[m++] = o->item[order[k]].node;
    for (int k = m; k < n; k++)
        if (early[order[k]]) out[m++] = o->item[order[k]].node;
    for (int k = first; k < n && !moves; k++)
        if (!early[order[k]]) out[m++] = o->item[order[k]].node;
}

static int order_run(kl_run_order *o, kn_ref *out, int m) {
    const kn_graph *g = o->g;
    bool            halves = false;
    for (int i = o->from; i < o->to; i++) o->place[o->item[i].node] = i;
    for (int i = o->from; i < o->to; i++) {
        kn_ref x = o->item[i].node, st = reached(g, x);
        o->before[i] = NOWHERE;
        if (st && o->written[st]) {
            o->before[i]   = o->touched[st];
            o->touched[st] = i;
        }
        halves |= both_halves(g, x) != 0;
    }
    int        n;
    const int *order = order_of(o, halves, &n);
    announce_before_stores(o, order, n, out + m);
    for (int i = o->from; i < o->to; i++) {
        kn_ref st = reached(g, o->item[i].node);
        o->place[o->item[i].node] = NOWHERE;
        if (st) o->touched[st] = NOWHERE;
    }
    return m + n;
}

bool kl_linearize(kl_program *p, kl_kernel *k, kn_fault *f) {
    kn_graph *g = k->g;
    kn_ref   *order, *out = NULL;
    uint32_t  n, count = 0;
    int       nloop = 0;
    size_t    size = (size_t)k->root + 1;
    bool      ok = false;
    if (!kg_reach(g, &k->root, 1, &order, &n)) return kn_oom(f);
    int     *of_range = kn_realloc(p->alloc, NULL, 0, size * sizeof *of_range);
    int     *by_node  = kn_realloc(p->alloc, NULL, 0, 2 * size * sizeof *by_node);
    int     *by_item  = kn_zalloc(p->alloc, 7 * ((size_t)n + 1) * sizeof *by_item);
    uint32_t *next    = kn_zalloc(p->alloc, ((size_t)n + 1) * sizeof *next);
    uint8_t *awaited  = kn_zalloc(p->alloc, size); /* by an AFTER or END: must not be put off */
    uint8_t *seen     = kn_zalloc(p->alloc, 3 * size + 2 * (n + 1)); /* storage that is read, is written; flags of o */
    kl_loop *loop     = kn_zalloc(p->alloc, (n + 1) * sizeof *loop);
    kl_item *item     = kn_zalloc(p->alloc, (n + 1) * sizeof *item);
    int     *start    = kn_zalloc(p->alloc, (n + 2) * sizeof *start);
    struct { int at, loop; } stack[KN_MAX_NEST + 2];
    if (!of_range || !by_node || !by_item || !next || !awaited || !seen || !loop || !item || !start ||
        !(out = kn_zalloc(p->alloc, (2 * (size_t)n + 1) * sizeof *out))) {
        kn_oom(f);
        goto done;
    }
    for (size_t i = 0; i < size; i++) of_range[i] = by_node[i] = by_node[size + i] = NOWHERE;
    uint8_t     *read = seen, *written = seen + size;
    kl_run_order o    = {.g = g, .item = item, .place = by_node, .touched = by_node + size, .before = by_item,
                         .stack = by_item + n + 1, .depth_first = by_item + 2 * (n + 1), .at = by_item + 3 * (n + 1),
                         .effect = by_item + 4 * (n + 1), .filled = by_item + 5 * (n + 1),
                         .alone = by_item + 6 * (n + 1), .next = next, .used = seen + 2 * size,
                         .held = seen + 2 * size + n + 1, .written = written, .outside = seen + 2 * size + 2 * (n + 1)};
    const int64_t registers[BANKS] = {p->machine->scalar_registers, p->machine->vector_registers,
                                      p->machine->mask_registers};
    static const int own[BANKS] = {4, 2, 2}; /* a target's: of scalars the stack's and three to compute in */
    for (int b = 0; b < BANKS; b++) o.all[b] = KN_MAX((int)registers[b] - own[b], 0);
    for (uint32_t i = 0; i < n; i++) {
        kn_ref st = reached(g, order[i]);
        if (st) (kg_op(g, order[i]) == KN_OP_STORE ? written : read)[st] = 1;
    }
    for (uint32_t i = n; i-- > 0;) { /* outer ENDs have higher ids than inner ones */
        kn_ref e = order[i];
        if (kg_op(g, e) == KN_OP_AFTER)
            for (uint32_t s = 1; s < kg_nsrc(g, e); s++) awaited[kg_at(g, e, s)] = 1;
        if (awaited[e] && (kg_op(g, e) == KN_OP_GROUP || kg_op(g, e) == KN_OP_END)) /* and with it what it is made of */
            for (uint32_t s = 0; s < (kg_op(g, e) == KN_OP_END ? 1 : kg_nsrc(g, e)); s++) awaited[kg_at(g, e, s)] = 1;
        if (kg_op(g, e) != KN_OP_END) continue;
        kn_ref r = kg_at(g, e, 1);
        if (kg_nsrc(g, e) != 2 || of_range[r] >= 0) {
            kn_fail(f, KN_ERR_INTERNAL, "linearize: a RANGE is closed twice, or an END closes several");
            goto done;
        }
        int parent  = innermost(g, e, loop, of_range, -1);
        loop[nloop] = (kl_loop){r, e, parent < 0 ? 1 : loop[parent].depth + 1, parent};
        if (loop[nloop].depth > KN_MAX_NEST) {
            kn_fail(f, KN_ERR_UNSUPPORTED, "linearize: loops nest too deep");
            goto done;
        }
        of_range[r] = nloop++;
    }
    for (uint32_t i = 0; i < n; i++) {
        kn_ref x  = order[i];
        int    op = kg_op(g, x), rank0 = op == KN_OP_RANGE && kg_field(g, x, KN_F_RANGE_rank) == 0;
        if (op == KN_OP_SINK || rank0) continue;
        kl_item it = {x, false, innermost(g, x, loop, of_range, -1), -1};
        if (op == KN_OP_END) it.opens = of_range[kg_at(g, x, 1)];
        bool writes = op == KN_OP_STORE && kg_space(g, kg_at(g, x, 0)) == KN_GLOBAL && read[reached(g, x)];
        it.last = (writes || op == KN_OP_GROUP || op == KN_OP_PREFETCH) && !awaited[x];
        item[count++] = it;
    }
    if (!sort_items(p->alloc, item, count, nloop, start)) {
        kn_oom(f);
        goto done;
    }
    int top = 0, m = 0;
    stack[top].at     = start[0];
    stack[top++].loop = -1;
    while (top) {
        int at = stack[top - 1].at, l = stack[top - 1].loop, to = at;
        while (to < (int)count && item[to].loop == l && item[to].opens < 0) to++;
        stack[top - 1].at = to + (to == at);
        if (to > at) {
            o.from = at;
            o.to   = to;
            m      = order_run(&o, out, m);
        } else if (at >= (int)count || item[at].loop != l) {
            if (l >= 0) out[m++] = loop[l].end;
            top--;
        } else {
            out[m++]          = loop[item[at].opens].range;
            stack[top].at     = start[item[at].opens + 1];
            stack[top++].loop = item[at].opens;
        }
    }
    k->root = kg_list(g, KN_OP_LINEAR, out, m);
    ok      = k->root != 0;
done:
    if (!ok) kl_stage_fault("linearize", g, f);
    kn_free(p->alloc, of_range, size * sizeof *of_range);
    kn_free(p->alloc, by_node, 2 * size * sizeof *by_node);
    kn_free(p->alloc, by_item, 7 * ((size_t)n + 1) * sizeof *by_item);
    kn_free(p->alloc, next, ((size_t)n + 1) * sizeof *next);
    kn_free(p->alloc, awaited, size);
    kn_free(p->alloc, seen, 3 * size + 2 * (n + 1));
    kn_free(p->alloc, loop, (n + 1) * sizeof *loop);
    kn_free(p->alloc, item, (n + 1) * sizeof *item);
    kn_free(p->alloc, start, (n + 2) * sizeof *start);
    if (out) kn_free(p->alloc, out, (2 * (size_t)n + 1) * sizeof *out);
    kn_free(p->alloc, order, n * sizeof *order);
    return ok;
}
