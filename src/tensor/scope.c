/* scope.c - scopes: what lives how long, and the sweep at their ends.
 *
 * Contract: after kn_end no handle of the scope is live but those kept, everything assigned has its new value, every
 * buffer that remains is reached by a live handle, and the graph is at most about twice what the live handles reach. */
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { COMPACT_SLACK = 8192 };

kn_scope *kn_begin(kn_context *kn) {
    if (!kn) return NULL;
    if (kn->fault.code == KN_OK) kn->text[0] = 0;
    kt_slot *s = kt_slot_new(kn, KT_SCOPE);
    if (!s) return NULL;
    s->scope  = kn->scope;
    s->depth  = kn->scope->depth + 1;
    kn->scope = s;
    return kt_scope_handle(s);
}

kn_tensor *kn_keep(kn_tensor *t) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_keep", &t, 1, &n)) return kt_poison(&c);
    kt_slot_of(t)->flags |= KT_KEEP;
    return t;
}

/* Ends the innermost scope: kept tensors go to its parent, into keep[], the others die. */
static void end_innermost(kn_context *kn, kt_slot **keep, int *nkeep) {
    kt_slot *s = kn->scope, *parent = s->scope;
    for (kt_slot *t = s->first, *next; t; t = next) {
        next = t->next;
        if (t->flags & KT_KEEP && keep) {
            kt_unlink(t);
            kt_link(parent, t);
            t->flags         = (uint8_t)((t->flags & ~KT_KEEP) | KT_OWNABLE);
            keep[(*nkeep)++] = t;
        } else {
            kt_drop_pending(kn, t);
            kt_slot_free(t);
        }
    }
    s->first  = NULL;
    kn->scope = parent;
    kt_slot_free(s);
}

void kt_abandon(kn_context *kn, kt_slot *s) {
    kt_undo_pending(kn, s->depth);
    while (kn->scope != s) end_innermost(kn, NULL, NULL);
    end_innermost(kn, NULL, NULL);
}

/* Whether a tensor that is about to die is assigned and is a file, which others will see. */
static bool writes_file(kn_context *kn, uint32_t depth) {
    for (size_t i = 0; i < kn->npending; i++) {
        const kt_slot *t = kn->pending[i].t;
        kn_ref         b = t->scope->depth >= depth ? kt_buffer_of(kn->g, t->store) : 0;
        if (b && kr_buffer_is_file(kn->rt, kg_field(kn->g, b, KN_F_BUFFER_slot))) return true;
    }
    return false;
}

kn_status kn_end(kn_scope *p) {
    kt_slot *s = kt_scope_of(p);
    if (!s) return p ? KN_ERR_STATE : KN_ERR_ARG;
    kn_context *kn = s->kn;
    if (kn->trace && s->depth <= kn->trace->depth)
        return kt_error(kn, KN_ERR_STATE, "kn_end: a function being traced ends a scope it has not begun");
    uint32_t    depth = s->depth;
    size_t      cap   = (size_t)kn->ntensors + 1;
    int         nkeep = 0;
    kt_slot   **keep  = kn_realloc(kn->alloc, NULL, 0, cap * sizeof *keep);
    if (!keep) kt_error(kn, KN_ERR_MEMORY, "kn_end: out of memory");
    if (kn->fault.code == KN_OK && !kn->trace && writes_file(kn, depth)) kt_run(kn, "kn_end", NULL, 0, depth);
    while (kn->scope != s) end_innermost(kn, NULL, NULL);
    end_innermost(kn, keep, &nkeep);
    if (kn->fault.code != KN_OK)
        kt_undo_pending(kn, depth);
    else if (kn->trace) /* what would run becomes part of the trace */
        for (size_t i = 0; i < kn->npending; i++) kn->pending[i].depth = KN_MIN(kn->pending[i].depth, depth - 1);
    else
        kt_run(kn, "kn_end", keep, nkeep, depth);
    if (!kn->trace) kt_sweep(kn);
    kn_free(kn->alloc, keep, cap * sizeof *keep);
    kn_status code    = kn->fault.code;
    kn->fault.code    = KN_OK; /* the text stays for kn_error until the next kn_begin */
    kn->fault.text[0] = 0;
    if (code == KN_OK) kn->text[0] = 0;
    return code;
}

/* ---- the sweep ------------------------------------------------------------------------------------------------- */

static int by_slot(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool release_buffers(kn_context *kn, const uint8_t *mark, uint32_t count) {
    kn_graph *g     = kn->g;
    int64_t  *slots = NULL;
    size_t    cap = 0, n = 0;
    for (kn_ref id = 1; id < count; id++) {
        if (!mark[id] || kg_op(g, id) != KN_OP_BUFFER) continue;
        if (!KN_GROW(kn->alloc, slots, cap, n + 1)) {
            kn_free(kn->alloc, slots, cap * sizeof *slots);
            return false;
        }
        slots[n++] = kg_field(g, id, KN_F_BUFFER_slot);
    }
    if (n) qsort(slots, n, sizeof *slots, by_slot);
    for (int64_t at = kr_buffer_next(kn->rt, 0), next; at; at = next) {
        next = kr_buffer_next(kn->rt, at);
        if (!n || !bsearch(&at, slots, n, sizeof *slots, by_slot)) kr_buffer_release(kn->rt, at);
    }
    kn_free(kn->alloc, slots, cap * sizeof *slots);
    return true;
}

/* The live part of the graph in a new one, realized nodes replaced by their storage. False: the old one stays. */
static bool compact_graph(kn_context *kn, const uint8_t *mark, uint32_t count) {
    kn_graph *from = kn->g, *to = kg_new(kn->alloc);
    kn_ref   *map = kn_zalloc(kn->alloc, count * sizeof *map);
    bool      ok  = to && map;
    if (to) kg_keep_why(to, kn->why);
    for (size_t i = 0; ok && i < kn->nknown; i++)
        ok = (map[kn->known[i]] = kg_copy(to, from, kn->realized[kn->known[i]])) != 0;
    kn_ref *src = NULL;
    size_t  cap = 0;
    for (kn_ref id = 1; ok && id < count; id++) {
        if (!mark[id] || map[id]) continue;
        uint32_t      n   = kg_nsrc(from, id);
        const kn_ref *old = kg_src(from, id);
        if (!(ok = KN_GROW(kn->alloc, src, cap, (size_t)n + 1))) break;
        for (uint32_t k = 0; k < n; k++) src[k] = map[old[k]];
        ok = (map[id] = kg_import(to, from, id, src, n)) != 0;
    }
    kn_free(kn->alloc, src, cap * sizeof *src);
    if (ok) {
        for (kt_slot *s = kt_first(kn); s; s = kt_next(s)) {
            s->node  = map[s->node];
            s->store = map[s->store];
        }
        kn_free(kn->alloc, kn->realized, kn->realized_cap * sizeof *kn->realized);
        kn->realized     = NULL;
        kn->realized_cap = kn->nknown = 0;
        kn->g                         = to;
        kn->placed                    = kg_count(to);
        to                            = from;
    }
    kn_free(kn->alloc, map, count * sizeof *map);
    if (to) kg_free(to);
    return ok;
}

/* Out of memory: nothing is swept this time. */
void kt_sweep(kn_context *kn) {
    if (!kn->rt) return;
    uint32_t count = kg_count(kn->g), live = 0;
    size_t   at = 0, cap = 2 * (size_t)kn->ntensors + 1;
    kn_ref  *nodes = kn_realloc(kn->alloc, NULL, 0, cap * sizeof *nodes);
    uint8_t *mark  = kn_zalloc(kn->alloc, count);
    bool     ok    = nodes && mark;
    for (kt_slot *s = kt_first(kn); ok && s; s = kt_next(s)) {
        nodes[at++] = kt_node(s);
        nodes[at++] = s->store;
    }
    ok = ok && kt_mark(kn, nodes, at, true, mark, count) && release_buffers(kn, mark, count);
    kn_free(kn->alloc, nodes, cap * sizeof *nodes);
    if (ok) {
        size_t keep = 0;
        for (size_t i = 0; i < kn->nknown; i++) {
            kn_ref n = kn->known[i];
            if (mark[n])
                kn->known[keep++] = n;
            else
                kn->realized[n] = 0;
        }
        kn->nknown = keep;
        for (kn_ref id = 1; id < count; id++) live += mark[id];
        if (count > 2 * live + COMPACT_SLACK) compact_graph(kn, mark, count);
    }
    kn_free(kn->alloc, mark, count);
}
