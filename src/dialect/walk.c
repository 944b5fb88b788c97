/* walk.c - walks over graphs: what is reachable, substitution, copies. Explicit stacks only.
 *
 * Ids ascend from sources to users, so one pass over a set of bits, a bit a node, replaces a sort; what a walk does not
 * reach costs it a bit. */
#include "dialect/graph.h"

#include <string.h>

static bool is_in(const uint64_t *set, kn_ref n) { return set[n / 64] >> (n % 64) & 1; }
static void put_in(uint64_t *set, kn_ref n) { set[n / 64] |= UINT64_C(1) << (n % 64); }
static size_t set_bytes(kn_ref top) { return ((size_t)top / 64 + 1) * sizeof(uint64_t); }

/* What the nodes of `set`, none above `top`, reach, added to it; not through those of `stop` (may be NULL), and not
 * into bodies unless they are asked for. Returns how many there are. */
static uint32_t close_set(const kn_graph *g, uint64_t *set, kn_ref top, const uint64_t *stop, bool bodies) {
    uint32_t n = 0;
    for (size_t w = (size_t)top / 64 + 1; w-- > 0;) {
        uint64_t seen = w ? 0 : 1; /* node 0 is none */
        for (uint64_t left; (left = set[w] & ~seen); n++) { /* sources have lower bits, or stand in words to come */
            unsigned bit = 63 - (unsigned)__builtin_clzll(left);
            kn_ref   id  = (kn_ref)(w * 64 + bit);
            seen |= UINT64_C(1) << bit;
            if (stop && is_in(stop, id)) continue;
            const kn_ref *src = kg_src(g, id);
            for (uint32_t k = !bodies && kn_calls(kg_op(g, id)); k < kg_nsrc(g, id); k++) put_in(set, src[k]);
        }
    }
    set[0] &= ~UINT64_C(1);
    return n;
}

static void list_set(const uint64_t *set, kn_ref top, kn_ref *out) {
    for (size_t w = 0; w <= (size_t)top / 64; w++)
        for (uint64_t left = set[w]; left; left &= left - 1)
            *out++ = (kn_ref)(w * 64 + (unsigned)__builtin_ctzll(left));
}

static bool reach(const kn_graph *g, const kn_ref *roots, int nroots, bool bodies, kn_ref **order, uint32_t *count) {
    kn_ref top = 0;
    *order     = NULL;
    *count     = 0;
    for (int i = 0; i < nroots; i++) top = KN_MAX(top, roots[i]);
    uint64_t *set = kn_zalloc(g->alloc, set_bytes(top));
    if (!set) return false;
    for (int i = 0; i < nroots; i++) put_in(set, roots[i]);
    uint32_t n = close_set(g, set, top, NULL, bodies);
    if (n && (*order = kn_realloc(g->alloc, NULL, 0, n * sizeof **order))) list_set(set, top, *order);
    kn_free(g->alloc, set, set_bytes(top));
    if (n && !*order) return false;
    *count = n;
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

static kn_ref substitute(kn_graph *g, kn_ref root, const kn_ref *from, const kn_ref *to, int n, kg_edit_fn edit,
                         void *user) {
    if (!root) return 0;
    size_t    bytes = set_bytes(root), map_bytes = ((size_t)root + 1) * sizeof(kn_ref);
    uint64_t *set = kn_zalloc(g->alloc, bytes), *fixed = kn_zalloc(g->alloc, bytes);
    kn_ref   *map = kn_realloc(g->alloc, NULL, 0, map_bytes), *order = NULL, r = 0;
    uint32_t  count = 0;
    if (!map || !set || !fixed) goto oom;
    for (int i = 0; i < n; i++) {
        if (!to[i]) goto done;
        if (from[i] <= root) put_in(fixed, from[i]);
    }
    put_in(set, root);
    count = close_set(g, set, root, fixed, false);
    if (!(order = kn_realloc(g->alloc, NULL, 0, count * sizeof *order))) goto oom;
    list_set(set, root, order);
    for (uint32_t i = 0; i < count; i++) map[order[i]] = 0;
    for (int i = 0; i < n; i++)
        if (from[i] <= root) map[from[i]] = to[i];
    r = rebuild(g, g, order, count, map, false, edit, user);
    goto done;
oom:
    kn_oom(&g->fault);
done:
    kn_free(g->alloc, order, count * sizeof *order);
    kn_free(g->alloc, fixed, bytes);
    kn_free(g->alloc, set, bytes);
    kn_free(g->alloc, map, map_bytes);
    return r;
}

kn_ref kg_substitute(kn_graph *g, kn_ref root, const kn_ref *from, const kn_ref *to, int n) {
    return substitute(g, root, from, to, n, NULL, NULL);
}

kn_ref kg_edit_above(kn_graph *g, kn_ref root, const kn_ref *keep, int n, kg_edit_fn edit, void *user) {
    return substitute(g, root, keep, keep, n, edit, user);
}

/* All below root again, in `to`. */
static kn_ref again(kn_graph *to, const kn_graph *from, kn_ref root, kg_edit_fn edit, void *user) {
    kn_ref  *order, r = 0;
    uint32_t count;
    size_t   bytes = ((size_t)root + 1) * sizeof(kn_ref);
    if (!root) return 0;
    if (!kg_reach(from, &root, 1, &order, &count)) return kn_oom(&to->fault), 0;
    kn_ref *map = kn_realloc(to->alloc, NULL, 0, bytes);
    for (uint32_t i = 0; i < count && map; i++) map[order[i]] = 0;
    if (map) r = rebuild(to, from, order, count, map, true, edit, user);
    else kn_oom(&to->fault);
    kn_free(to->alloc, map, bytes);
    kn_free(from->alloc, order, count * sizeof *order);
    return r;
}

kn_ref kg_copy(kn_graph *to, const kn_graph *from, kn_ref root) { return again(to, from, root, NULL, NULL); }

kn_ref kg_edit(kn_graph *g, kn_ref root, kg_edit_fn edit, void *user) { return again(g, g, root, edit, user); }
