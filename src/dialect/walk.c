/* walk.c - walks over graphs: what is reachable, substitution, copies. Explicit stacks only.
 *
 * Ids ascend from sources to users, so a mark array and one pass over it replace a sort. */
#include "dialect/graph.h"

#include <string.h>

static bool reach(const kn_graph *g, const kn_ref *roots, int nroots, bool bodies, kn_ref **order, uint32_t *count) {
    *order       = NULL;
    *count       = 0;
    kn_ref top   = 0;
    for (int i = 0; i < nroots; i++) top = KN_MAX(top, roots[i]);
    uint8_t *mark = kn_zalloc(g->alloc, (size_t)top + 1);
    if (!mark) return false;
    uint32_t n = 0;
    for (int i = 0; i < nroots; i++) mark[roots[i]] = 1;
    mark[0] = 0;
    for (kn_ref id = top; id > 0; id--) {
        if (!mark[id]) continue;
        n++;
        const kn_ref *src = kg_src(g, id);
        for (uint32_t k = !bodies && kn_calls(kg_op(g, id)); k < kg_nsrc(g, id); k++) mark[src[k]] = 1;
    }
    mark[0] = 0;
    kn_ref *out = n ? kn_realloc(g->alloc, NULL, 0, n * sizeof *out) : NULL;
    if (n && !out) {
        kn_free(g->alloc, mark, (size_t)top + 1);
        return false;
    }
    for (kn_ref id = 1; id <= top && n; id++)
        if (mark[id]) out[(*count)++] = id;
    kn_free(g->alloc, mark, (size_t)top + 1);
    *order = out;
    return true;
}

bool kg_reach(const kn_graph *g, const kn_ref *roots, int nroots, kn_ref **order, uint32_t *count) {
    return reach(g, roots, nroots, true, order, count);
}

bool kg_reach_own(const kn_graph *g, const kn_ref *roots, int nroots, kn_ref **order, uint32_t *count) {
    return reach(g, roots, nroots, false, order, count);
}

/* Rebuild `order` (ascending) in `to` under map; entries of map already set are kept. bodies: they are
 * rebuilt too. edit: see kg_edit, or NULL. */
static kn_ref rebuild(kn_graph *to, const kn_graph *from, const kn_ref *order, uint32_t n, kn_ref *map,
                      bool bodies, kg_edit_fn edit, void *user) {
    kn_ref  few[32], *src = few, r = 0;
    size_t  cap = KN_COUNT(few);
    kn_ref *big = NULL;
    size_t  big_cap = 0;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref id = order[i];
        if (map[id]) {
            r = map[id];
            continue;
        }
        uint32_t      k    = kg_nsrc(from, id);
        const kn_ref *old  = kg_src(from, id);
        bool          same = to == from;
        if (k > cap) {
            if (!KN_GROW(to->alloc, big, big_cap, k)) {
                kn_oom(&to->fault);
                r = 0;
                break;
            }
            src = big;
            cap = big_cap;
        }
        for (uint32_t j = 0; j < k; j++) {
            src[j] = !j && !bodies && kn_calls(kg_op(from, id)) ? old[j] : map[old[j]];
            same   = same && src[j] == old[j];
        }
        r = same ? id : to == from ? kg_with_src(to, id, src, k) : kg_import(to, from, id, src, k);
        if (r && edit) r = edit(user, to, id, r);
        if (!(map[id] = r)) break;
    }
    kn_free(to->alloc, big, big_cap * sizeof *big);
    return r;
}

kn_ref kg_substitute(kn_graph *g, kn_ref root, const kn_ref *from, const kn_ref *to, int n) {
    if (!root) return 0;
    size_t  size = (size_t)root + 1;
    kn_ref *map  = kn_zalloc(g->alloc, size * sizeof *map);
    uint8_t *mark = kn_zalloc(g->alloc, size);
    kn_ref  *order = NULL, r = 0;
    uint32_t count = 0;
    if (!map || !mark) goto oom;
    for (int i = 0; i < n; i++) {
        if (!to[i]) goto done;
        if (from[i] <= root) map[from[i]] = to[i];
    }
    mark[root] = 1;
    for (kn_ref id = root; id > 0; id--) {
        if (!mark[id]) continue;
        count++;
        if (map[id]) continue;
        const kn_ref *src = kg_src(g, id);
        for (uint32_t k = kn_calls(kg_op(g, id)); k < kg_nsrc(g, id); k++) mark[src[k]] = 1;
    }
    if (!(order = kn_realloc(g->alloc, NULL, 0, count * sizeof *order))) goto oom;
    uint32_t at = 0;
    for (kn_ref id = 1; id <= root; id++)
        if (mark[id]) order[at++] = id;
    r = rebuild(g, g, order, count, map, false, NULL, NULL);
    goto done;
oom:
    kn_oom(&g->fault);
done:
    kn_free(g->alloc, order, count * sizeof *order);
    kn_free(g->alloc, mark, size);
    kn_free(g->alloc, map, size * sizeof *map);
    return r;
}

/* All below root again, in `to`. */
static kn_ref again(kn_graph *to, const kn_graph *from, kn_ref root, kg_edit_fn edit, void *user) {
    kn_ref  *order, r = 0;
    uint32_t count;
    if (!root) return 0;
    if (!kg_reach(from, &root, 1, &order, &count)) return kn_oom(&to->fault), 0;
    kn_ref *map = kn_zalloc(to->alloc, ((size_t)root + 1) * sizeof *map);
    if (map) r = rebuild(to, from, order, count, map, true, edit, user);
    else kn_oom(&to->fault);
    kn_free(to->alloc, map, ((size_t)root + 1) * sizeof *map);
    kn_free(from->alloc, order, count * sizeof *order);
    return r;
}

kn_ref kg_copy(kn_graph *to, const kn_graph *from, kn_ref root) { return again(to, from, root, NULL, NULL); }

kn_ref kg_edit(kn_graph *g, kn_ref root, kg_edit_fn edit, void *user) { return again(g, g, root, edit, user); }
