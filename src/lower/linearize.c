/* linearize.c - stage 6: the graph of a kernel becomes a list in the order in which it runs.
 *
 * Takes: an expanded kernel whose ENDs close one RANGE each. Gives: LINEAR, where RANGE opens a loop and its END closes
 * it. Holds after: every node stands behind its sources, in the innermost loop that it depends on (what does not depend
 * on a loop is out of it); stores to GLOBAL stand at the end of their block, behind all reads.
 *
 * Ids ascend from sources to users, so within one loop ascending ids are an order; a loop stands at its END. */
#include "lower/lower.h"

#include <stdlib.h>
#include <string.h>

typedef struct kl_item {
    kn_ref   node;
    uint32_t key;  /* position among the items of its loop */
    int      loop; /* the loop it stands in, -1 outermost */
    int      opens; /* the loop it stands for, -1 none */
} kl_item;

typedef struct kl_loop {
    kn_ref range, end;
    int    depth, parent;
} kl_loop;

static int innermost(const kn_graph *g, kn_ref n, const kl_loop *loop, const int *of_range, int none) {
    kn_ref r[64];
    int    m = KN_MIN(kg_ranges(g, n, r, KN_COUNT(r)), KN_COUNT(r)), best = none;
    for (int i = 0; i < m; i++) {
        int l = of_range[r[i]];
        if (l >= 0 && (best < 0 || loop[l].depth > loop[best].depth)) best = l;
    }
    return best;
}

static int by_place(const void *a, const void *b) {
    const kl_item *x = a, *y = b;
    if (x->loop != y->loop) return x->loop < y->loop ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
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
    uint8_t *awaited  = kn_zalloc(p->alloc, size); /* by an AFTER or END: must not be put off */
    kl_loop *loop     = kn_zalloc(p->alloc, (n + 1) * sizeof *loop);
    kl_item *item     = kn_zalloc(p->alloc, (n + 1) * sizeof *item);
    int     *start    = kn_zalloc(p->alloc, (n + 2) * sizeof *start);
    struct { int at, loop; } stack[KN_MAX_NEST + 2];
    if (!of_range || !awaited || !loop || !item || !start ||
        !(out = kn_zalloc(p->alloc, (2 * (size_t)n + 1) * sizeof *out))) {
        kn_oom(f);
        goto done;
    }
    for (size_t i = 0; i < size; i++) of_range[i] = -1;
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
        kl_item it = {x, x, innermost(g, x, loop, of_range, -1), -1};
        if (op == KN_OP_END) it.opens = of_range[kg_at(g, x, 1)];
        bool writes = op == KN_OP_STORE && kg_space(g, kg_at(g, x, 0)) == KN_GLOBAL;
        if ((writes || op == KN_OP_GROUP) && !awaited[x]) it.key += kg_count(g);
        item[count++] = it;
    }
    qsort(item, count, sizeof *item, by_place);
    /* start[l + 1]: the first item of loop l. */
    for (int l = -1, i = 0; l < nloop; l++) {
        start[l + 1] = i;
        while (i < (int)count && item[i].loop == l) i++;
    }
    int top = 0, m = 0;
    stack[top].at     = start[0];
    stack[top++].loop = -1;
    while (top) {
        int at = stack[top - 1].at++, l = stack[top - 1].loop;
        if (at >= (int)count || item[at].loop != l) {
            if (l >= 0) out[m++] = loop[l].end;
            top--;
        } else if (item[at].opens >= 0) {
            out[m++]          = loop[item[at].opens].range;
            stack[top].at     = start[item[at].opens + 1];
            stack[top++].loop = item[at].opens;
        } else {
            out[m++] = item[at].node;
        }
    }
    k->root = kg_list(g, KN_OP_LINEAR, out, m);
    ok      = k->root != 0;
done:
    if (!ok) kl_stage_fault("linearize", g, f);
    kn_free(p->alloc, of_range, size * sizeof *of_range);
    kn_free(p->alloc, awaited, size);
    kn_free(p->alloc, loop, (n + 1) * sizeof *loop);
    kn_free(p->alloc, item, (n + 1) * sizeof *item);
    kn_free(p->alloc, start, (n + 2) * sizeof *start);
    if (out) kn_free(p->alloc, out, (2 * (size_t)n + 1) * sizeof *out);
    kn_free(p->alloc, order, n * sizeof *order);
    return ok;
}
