/* compare.c - whole graphs as keys: equal node by node, in the order in which they were made.
 *
 * Callify makes programs of one form in one order, so equality of form is equality of the arrays; no search. */
#include "dialect/graph.h"

#include <string.h>

uint64_t kg_graph_hash(const kn_graph *g) {
    uint64_t h = g->count;
    for (kn_ref n = 1; n < g->count; n++) {
        const kn_node *nd = kg_node(g, n);
        uint64_t       w[2] = {
                  (uint64_t)nd->op | (uint64_t)nd->dtype << 8 | (uint64_t)nd->tag << 16 | (uint64_t)nd->nsrc << 32,
                  nd->arg};
        h = kn_hash(w, sizeof w, h);
        h = kn_hash(kg_src(g, n), nd->nsrc * sizeof(kn_ref), h);
    }
    for (size_t i = 1; i < g->words_n; i++) h = kn_hash(g->at.words[i], (size_t)g->at.words[i][-1] * sizeof(int64_t), h);
    return h;
}

bool kg_graph_equal(const kn_graph *a, const kn_graph *b) {
    if (a->count != b->count || a->words_n != b->words_n || a->strs_n != b->strs_n) return false;
    for (kn_ref n = 1; n < a->count; n++) {
        const kn_node *x = kg_node(a, n), *y = kg_node(b, n);
        if (x->op != y->op || x->dtype != y->dtype || x->tag != y->tag || x->nsrc != y->nsrc || x->arg != y->arg ||
            memcmp(kg_src(a, n), kg_src(b, n), x->nsrc * sizeof(kn_ref)))
            return false;
    }
    for (size_t i = 1; i < a->words_n; i++)
        if (a->at.words[i][-1] != b->at.words[i][-1] ||
            memcmp(a->at.words[i], b->at.words[i], (size_t)a->at.words[i][-1] * sizeof(int64_t)))
            return false;
    for (size_t i = 1; i < a->strs_n; i++)
        if (a->strs[i].len != b->strs[i].len || memcmp(a->strs[i].data, b->strs[i].data, a->strs[i].len)) return false;
    return true;
}
