/* compare.c - whole graphs as keys: equal node by node, in the order in which they were made.
 *
 * Callify makes programs of one form in one order, so equality of form is equality of the arrays; no search. */
#include "dialect/graph.h"

#include <string.h>

static uint64_t mixed(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

uint64_t kg_graph_hash(const kn_graph *g) {
    uint64_t h = g->count;
    for (kn_ref n = 1; n < g->count; n++) {
        const kn_node *nd  = kg_node(g, n);
        const kn_ref  *src = kg_src(g, n);
        h = mixed(h, (uint64_t)nd->op | (uint64_t)nd->dtype << 8 | (uint64_t)nd->tag << 16 | (uint64_t)nd->nsrc << 32);
        h = mixed(h, nd->arg);
        for (uint32_t i = 0; i < nd->nsrc; i++) h = mixed(h, src[i]);
    }
    for (size_t i = 1; i < g->words_n; i++)
        for (int64_t k = -1; k < g->at.words[i][-1]; k++) h = mixed(h, (uint64_t)g->at.words[i][k]);
    return kn_hash(&h, sizeof h, 0);
}

bool kg_graph_begins(const kn_graph *g, const kn_graph *as) {
    if (g->count < as->count || g->words_n < as->words_n || g->strs_n < as->strs_n) return false;
    for (kn_ref n = 1; n < as->count; n++) {
        const kn_node *x = kg_node(g, n), *y = kg_node(as, n);
        if (x->op != y->op || x->dtype != y->dtype || x->tag != y->tag || x->nsrc != y->nsrc || x->arg != y->arg ||
            memcmp(kg_src(g, n), kg_src(as, n), x->nsrc * sizeof(kn_ref)))
            return false;
    }
    for (size_t i = 1; i < as->words_n; i++)
        if (g->at.words[i][-1] != as->at.words[i][-1] ||
            memcmp(g->at.words[i], as->at.words[i], (size_t)as->at.words[i][-1] * sizeof(int64_t)))
            return false;
    for (size_t i = 1; i < as->strs_n; i++)
        if (g->strs[i].len != as->strs[i].len || memcmp(g->strs[i].data, as->strs[i].data, as->strs[i].len))
            return false;
    return true;
}

bool kg_graph_equal(const kn_graph *a, const kn_graph *b) {
    return a->count == b->count && a->words_n == b->words_n && a->strs_n == b->strs_n && kg_graph_begins(a, b);
}
