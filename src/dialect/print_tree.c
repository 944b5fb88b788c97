/* print_tree.c - the bestiary's tree form, written: which nodes hang where.
 *
 * A node that hangs in several places has a label, %1 = ..., and is named by it from then on; a tree that grows deep is
 * cut: what stands deeper comes before it as a tree of its own, so that a text is not longer than its graph asks for.
 * What heads say is in print_head.c. */
#include "dialect/tree_print.h"

#include <inttypes.h>
#include <string.h>

enum { TREE_DEEP = 24 };

typedef struct tree_item {
    kn_ref  n, gate;
    uint8_t depth;
    bool    last;
} tree_item;

bool kn_tree_kid(tree_printer *t, kn_ref n, kn_ref gate) {
    if (!KN_GROW(kg_alloc(t->g), t->kid, t->kid_cap, t->kids + 1)) return t->out->failed = true, false;
    t->kid[t->kids++] = (tree_kid){n, gate};
    return true;
}

static bool may_inline(const kn_graph *g, kn_ref n) {
    switch (kg_op(g, n)) {
    case KN_OP_CONST:
    case KN_OP_BUFFER: return true;
    case KN_OP_STACK: return kn_tree_is_shape(g, n);
    case KN_OP_PARAM: return kn_tree_is_shape(g, kg_at(g, n, 0));
    case KN_OP_RANGE: return kg_op(g, kg_at(g, n, 0)) == KN_OP_CONST;
    case KN_OP_HOLE: return kg_nsrc(g, n) == 0;
    default: return false;
    }
}

/* The kids of n, and of an INDEX that is printed with a gate the gate too. */
static void note_kids(tree_printer *t, kn_ref n, kn_ref gate, uint8_t *height) {
    size_t first = t->kids;
    kn_tree_kids(t, n, gate);
    uint8_t h = 0;
    for (size_t i = first; i < t->kids && !t->out->failed; i++) {
        tree_kid k = t->kid[i];
        if (k.gate) {
            uint8_t own = 0;
            note_kids(t, k.n, k.gate, &own);
            h = KN_MAX(h, own);
        } else {
            uint32_t *uses = &t->uses[k.n];
            if (*uses < UINT32_MAX) ++*uses;
            h = KN_MAX(h, t->height[k.n]);
        }
    }
    t->kids = first;
    *height = (uint8_t)(h + 1);
}

/* Which RANGEs and PARAMs have a name that another has too. */
static void find_twins(tree_printer *t, kn_ref root) {
    for (kn_ref n = 1; n <= root; n++) {
        int op = kg_op(t->g, n);
        if (!t->uses[n] || (op != KN_OP_RANGE && op != KN_OP_PARAM)) continue;
        t->has_short = true;
        if (!kn_tree_kid(t, n, 0)) return;
    }
    for (size_t i = 0; i < t->kids; i++)
        for (size_t k = 0; k < i; k++) {
            kn_ref a = t->kid[i].n, b = t->kid[k].n;
            if (kg_op(t->g, a) == kg_op(t->g, b) && kn_tree_same_short(t->g, a, b)) t->twin[a] = t->twin[b] = true;
        }
    t->kids = 0;
}

/* How often each node hangs somewhere, from the root down; then, upwards, how deep each tree is and where it is cut. */
static bool plan_trees(tree_printer *t, kn_ref root) {
    uint8_t none;
    t->uses[root] = 1;
    for (kn_ref n = root; n; n--)
        if (t->uses[n]) note_kids(t, n, 0, &none);
    find_twins(t, root);
    uint32_t *uses = kn_zalloc(kg_alloc(t->g), ((size_t)root + 1) * sizeof *uses);
    if (!uses) return false;
    memcpy(uses, t->uses, ((size_t)root + 1) * sizeof *uses);
    for (kn_ref n = 1; n <= root && !t->out->failed; n++) {
        if (!uses[n]) continue;
        note_kids(t, n, 0, &t->height[n]);
        if (t->height[n] >= TREE_DEEP && n != root) t->height[n] = 0, t->cut[n] = true;
    }
    memcpy(t->uses, uses, ((size_t)root + 1) * sizeof *uses);
    kn_free(kg_alloc(t->g), uses, ((size_t)root + 1) * sizeof *uses);
    return !t->out->failed;
}

static void print_branch(const bool *last, int depth, kn_str *out) {
    for (int d = 1; d <= depth; d++)
        kn_str_puts(out, d < depth ? last[d] ? "    " : "\xe2\x94\x82   "
                         : last[d] ? "\xe2\x94\x94\xe2\x94\x80\xe2\x94\x80 "
                                   : "\xe2\x94\x9c\xe2\x94\x80\xe2\x94\x80 ");
}

/* The tree of n; a labelled one that stands elsewhere is only named. */
static void print_one(tree_printer *t, kn_ref root) {
    tree_item *stack = NULL;
    size_t     cap = 0, n = 0;
    bool       last[256];
    if (!KN_GROW(kg_alloc(t->g), stack, cap, 1)) {
        t->out->failed = true;
        return;
    }
    stack[n++] = (tree_item){root, 0, 0, true};
    while (n && !t->out->failed) {
        tree_item it   = stack[--n];
        last[it.depth] = it.last;
        print_branch(last, it.depth, t->out);
        bool done = t->done[it.n] && !it.gate;
        if (done && t->label[it.n]) {
            kn_str_putf(t->out, "%%%" PRIu32 "\n", t->label[it.n]);
            continue;
        }
        bool labelled = !it.gate && (t->cut[it.n] || (t->uses[it.n] > 1 && !may_inline(t->g, it.n)));
        if (labelled) kn_str_putf(t->out, "%%%" PRIu32 " = ", t->label[it.n] = ++t->labels);
        if (done && !t->twin[it.n] && kn_tree_short(t, it.n)) {
            kn_str_puts(t->out, "\n");
            continue;
        }
        if (!it.gate) t->done[it.n] = true;
        kn_tree_print_head(t, it.n, it.gate != 0);
        kn_str_puts(t->out, "\n");
        t->kids = 0;
        kn_tree_kids(t, it.n, it.gate);
        if (!KN_GROW(kg_alloc(t->g), stack, cap, n + t->kids)) t->out->failed = true;
        for (size_t i = t->kids; i-- && !t->out->failed;)
            stack[n++] = (tree_item){t->kid[i].n, t->kid[i].gate, (uint8_t)(it.depth + 1), i + 1 == t->kids};
    }
    kn_free(kg_alloc(t->g), stack, cap * sizeof *stack);
}

void kg_print_tree(const kn_graph *g, kn_ref root, kn_str *out) {
    tree_printer    t    = {.g = g, .out = out};
    const kn_alloc *a    = kg_alloc(g);
    size_t          size = (size_t)root + 1;
    if (!root) return;
    t.uses   = kn_zalloc(a, size * sizeof *t.uses);
    t.label  = kn_zalloc(a, size * sizeof *t.label);
    t.height = kn_zalloc(a, size);
    t.cut    = kn_zalloc(a, size);
    t.done   = kn_zalloc(a, size);
    t.twin   = kn_zalloc(a, size);
    if (t.uses && t.label && t.height && t.cut && t.done && t.twin && plan_trees(&t, root)) {
        for (kn_ref n = 1; n < root; n++)
            if (t.cut[n] && !t.done[n]) print_one(&t, n);
        print_one(&t, root);
    } else {
        out->failed = true;
    }
    kn_free(a, t.uses, size * sizeof *t.uses);
    kn_free(a, t.label, size * sizeof *t.label);
    kn_free(a, t.height, size);
    kn_free(a, t.cut, size);
    kn_free(a, t.done, size);
    kn_free(a, t.twin, size);
    kn_free(a, t.kid, t.kid_cap * sizeof *t.kid);
}
