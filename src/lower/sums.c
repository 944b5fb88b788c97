/* sums.c - reductions side by side that walk the same loops share them.
 *
 * Takes: an expanded kernel, each reduction a chain of ENDs around its STOREs to registers. Gives: chains over equal
 * bounds inside the same loops, of which neither waits for the other, as one chain around all their STOREs, where they
 * read something in common and their accumulators fit the registers together. What both load is loaded once. */
#include "lower/lower.h"

#include <string.h>

enum { MAX_CHAIN = 8, MAX_CHAINS = 32 };

typedef struct kl_chain {
    kn_ref   end, range[MAX_CHAIN], body; /* outermost first */
    int      n;
    int64_t  taken; /* vector registers */
} kl_chain;

static bool to_register(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_STORE && kg_space(g, kg_at(g, n, 0)) == KN_REG;
}

static int64_t registers_of(const kn_graph *g, kn_ref store, const kn_machine *m) {
    kn_ref  x     = kg_at(g, store, 1);
    int64_t bytes = kn_sat_mul(KN_MAX(kg_numel(g, x), 1), kn_dsize(kg_dtype(g, x)));
    return (bytes + m->vector_bytes - 1) / m->vector_bytes;
}

/* The chain that ends at n; false: n is not the outermost END of a reduction. */
static bool chain_at(const kn_graph *g, kn_ref n, const kn_machine *m, kl_chain *c) {
    *c = (kl_chain){.end = n};
    for (; kg_op(g, n) == KN_OP_END; n = kg_at(g, n, 0)) {
        if (c->n == MAX_CHAIN || kg_op(g, kg_at(g, kg_at(g, n, 1), 0)) != KN_OP_CONST) return false;
        c->range[c->n++] = kg_at(g, n, 1);
    }
    c->body  = n;
    bool all = kg_op(g, n) == KN_OP_GROUP || to_register(g, n);
    for (uint32_t k = 0; kg_op(g, n) == KN_OP_GROUP && k < kg_nsrc(g, n); k++) all &= to_register(g, kg_at(g, n, k));
    if (!all) return false;
    if (kg_op(g, n) != KN_OP_GROUP) c->taken = registers_of(g, n, m);
    for (uint32_t k = 0; kg_op(g, n) == KN_OP_GROUP && k < kg_nsrc(g, n); k++)
        c->taken += registers_of(g, kg_at(g, n, k), m);
    return true;
}

static bool same_loops(const kn_graph *g, const kl_chain *a, const kl_chain *b) {
    if (a->n != b->n || !kg_ranges_within(g, a->end, b->end) || !kg_ranges_within(g, b->end, a->end)) return false;
    for (int i = 0; i < a->n; i++) {
        kn_ref x = a->range[i], y = b->range[i];
        if (kg_at(g, x, 0) != kg_at(g, y, 0) || kg_field(g, x, KN_F_RANGE_type) != kg_field(g, y, KN_F_RANGE_type))
            return false;
    }
    return true;
}

/* Whether b waits for a, and whether both read some memory. False: out of memory. */
static bool compare_chains(const kn_graph *g, const kl_chain *a, const kl_chain *b, bool *waits, bool *share) {
    kn_ref  *from_a, *from_b;
    uint32_t na, nb, j = 0;
    *waits = *share = false;
    if (!kg_reach(g, &a->body, 1, &from_a, &na)) return false;
    if (!kg_reach(g, &b->body, 1, &from_b, &nb)) {
        kn_free(kg_alloc(g), from_a, na * sizeof *from_a);
        return false;
    }
    for (uint32_t i = 0; i < nb; i++) { /* both ascending */
        *waits |= from_b[i] == a->end;
        while (j < na && from_a[j] < from_b[i]) j++;
        bool memory = kg_op(g, from_b[i]) == KN_OP_PARAM || kg_op(g, from_b[i]) == KN_OP_BUFFER;
        *share |= memory && j < na && from_a[j] == from_b[i] && kg_space(g, from_b[i]) != KN_REG;
    }
    kn_free(kg_alloc(g), from_a, na * sizeof *from_a);
    kn_free(kg_alloc(g), from_b, nb * sizeof *from_b);
    return true;
}

static kn_ref merged(kn_graph *g, const kl_chain *a, const kl_chain *b) {
    kn_ref   body = kg_substitute(g, b->body, b->range, a->range, b->n), all[KN_MAX_NEST];
    kn_ref   of[2] = {a->body, body};
    int      n     = 0;
    if (!body) return 0;
    for (int i = 0; i < 2; i++) {
        bool     group = kg_op(g, of[i]) == KN_OP_GROUP;
        uint32_t m     = group ? kg_nsrc(g, of[i]) : 1;
        if (n + (int)m > KN_COUNT(all)) return 0;
        for (uint32_t k = 0; k < m; k++) all[n++] = group ? kg_at(g, of[i], k) : of[i];
    }
    kn_ref end = kg_list(g, KN_OP_GROUP, all, n);
    for (int i = a->n; i-- > 0 && end;) end = kg_end(g, end, &a->range[i], 1);
    return end;
}

/* Merges one pair; *again: there was one. */
static bool merge_pair(kl_program *p, kl_kernel *k, bool *again, kn_fault *f) {
    kn_graph *g = k->g;
    kl_chain  chain[MAX_CHAINS];
    kn_ref   *order;
    uint32_t  n;
    int       count = 0;
    *again          = false;
    if (!kg_reach(g, &k->root, 1, &order, &n)) return kn_oom(f);
    for (uint32_t i = n; i-- > 0 && count < MAX_CHAINS;) { /* outer ENDs first: inner ones are part of their chains */
        bool inner = false;
        if (kg_op(g, order[i]) != KN_OP_END || !chain_at(g, order[i], p->machine, &chain[count])) continue;
        for (int c = 0; c < count; c++) inner |= chain[c].body == chain[count].body;
        count += !inner;
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    for (int i = 0; i < count && !*again; i++)
        for (int j = i + 1; j < count && !*again; j++) {
            const kl_chain *a = &chain[j], *b = &chain[i]; /* a is the earlier one */
            bool            waits, share;
            if (!same_loops(g, a, b) || a->taken + b->taken > p->machine->vector_registers / 2) continue;
            if (!compare_chains(g, a, b, &waits, &share)) return kn_oom(f);
            if (waits || !share) continue;
            kn_ref from[2] = {a->end, b->end}, one = merged(g, a, b), to[2] = {one, one};
            kn_ref root = one ? kg_substitute(g, k->root, from, to, 2) : 0;
            if (!root) return kl_stage_fault("expand", g, f);
            k->root = root;
            *again  = true;
        }
    return true;
}

bool kl_share_sums(kl_program *p, kl_kernel *k, kn_fault *f) {
    for (bool again = true; again;)
        if (!merge_pair(p, k, &again, f)) return false;
    return true;
}
