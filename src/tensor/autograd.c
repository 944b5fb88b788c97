/* autograd.c - gradients of handles: kn_gradient, kn_backward and what they leave behind.
 *
 * A value that was computed while its scope is open stands as storage in what was built since. The context's notes of
 * what is computed tell which node that storage holds, so history is looked up there: reading a loss, or a value on the
 * way to it, does not cut the gradient. */
#include "tensor/gradient.h"
#include "tensor/tensor.h"

/* By node id, for the nodes there are when the gradient is asked for. */
typedef struct history {
    kn_context *kn;
    uint32_t    count;
    kn_ref     *origin; /* of a storage node: the node whose value it holds */
    kn_ref     *map;    /* what a node becomes */
    kn_ref     *stack;
    uint8_t    *mark; /* bits of enum history_mark */
} history;

enum history_mark { HISTORY_SEEN = 1, HISTORY_ASKED = 2, HISTORY_DEPENDS = 4 };

static bool history_begin(history *h, kn_context *kn) {
    size_t n = kg_count(kn->g);
    *h = (history){.kn = kn, .count = (uint32_t)n};
    h->origin = kn_zalloc(kn->alloc, 3 * n * sizeof(kn_ref) + n);
    if (!h->origin) return false;
    h->map = h->origin + n;
    h->stack = h->map + n;
    h->mark = (uint8_t *)(h->stack + n);
    return true;
}

static void history_end(history *h) {
    kn_free(h->kn->alloc, h->origin, (size_t)h->count * (3 * sizeof(kn_ref) + 1));
}

static void history_visit(history *h, kn_ref root) {
    const kn_graph *g = h->kn->g;
    size_t          top = 0;
    if (h->mark[root] & HISTORY_SEEN) return;
    h->mark[root] |= HISTORY_SEEN;
    h->stack[top++] = root;
    while (top) {
        kn_ref        id = h->stack[--top], from = h->origin[id];
        const kn_ref *src = kg_src(g, id);
        for (uint32_t i = kg_nsrc(g, id); i-- > 0;) {
            if (h->mark[src[i]] & HISTORY_SEEN) continue;
            h->mark[src[i]] |= HISTORY_SEEN;
            h->stack[top++] = src[i];
        }
        if (from && !(h->mark[from] & HISTORY_SEEN)) {
            h->mark[from] |= HISTORY_SEEN;
            h->stack[top++] = from;
        }
    }
}

static bool history_depends(const history *h, kn_ref id) {
    const kn_graph *g = h->kn->g;
    const kn_ref   *src = kg_src(g, id);
    for (uint32_t i = kg_nsrc(g, id); i-- > 0;)
        if (h->mark[src[i]] & HISTORY_DEPENDS) return true;
    return false;
}

/* The loss, and x[], with storage replaced by what it was computed from where that depends on some x[]. */
static kn_ref history_restore(history *h, kn_ref loss, kn_ref *x, int n) {
    kn_context *kn = h->kn;
    kn_graph   *g = kn->g;
    for (int i = 0; i < n; i++) h->mark[x[i]] |= HISTORY_ASKED;
    for (size_t i = 0; i < kn->nknown; i++) {
        kn_ref node = kn->known[i], storage = kn->realized[node];
        /* A node newer than its storage was assigned to it: not what older readers of the storage saw. */
        if (storage > node && (!h->origin[storage] || node < h->origin[storage])) h->origin[storage] = node;
        if (storage && h->mark[storage] & HISTORY_ASKED) h->mark[node] |= HISTORY_ASKED;
    }
    history_visit(h, loss);
    for (int i = 0; i < n; i++) history_visit(h, x[i]);
    for (kn_ref id = 1; id < h->count; id++) {
        if (!(h->mark[id] & HISTORY_SEEN)) continue;
        bool   asked = h->mark[id] & HISTORY_ASKED, depends = history_depends(h, id);
        kn_ref from = h->origin[id], storage = id < kn->realized_cap ? kn->realized[id] : 0;
        if (from && h->mark[from] & HISTORY_DEPENDS && h->map[from] != id) {
            h->map[id] = h->map[from];
            depends = true;
        } else if (asked && !depends && storage) {
            h->map[id] = storage; /* the start of a history: both names of it become one */
        } else if (!(h->map[id] = kn_remade(g, id, h->map))) {
            return 0;
        }
        if (asked || depends) h->mark[id] |= HISTORY_DEPENDS;
    }
    for (int i = 0; i < n; i++) x[i] = h->map[x[i]];
    return h->map[loss];
}

kn_status kt_gradient(kn_context *kn, const char *op, kn_tensor *loss, kn_tensor *const *x, int n, kn_ref *grad) {
    kt_slot *l = kt_check(kn, op, loss);
    if (!l) return kn_error_code(kn);
    if (n < 0 || (n && !x)) return kt_error(kn, KN_ERR_ARG, "%s: %d tensors at %s", op, n, x ? "an address" : "NULL");
    for (int i = 0; i < n; i++) {
        kt_slot *s = kt_check(kn, op, x[i]);
        if (!s) return kn_error_code(kn);
        grad[i] = kt_node(s);
    }
    kn_why_stage(kn->why, op); /* each gradient comes from what it is the gradient of */
    kn_fault f = {0};
    kn_ref   root = l->node;
    if (kn->nknown) {
        history h;
        if (!history_begin(&h, kn)) return kt_error(kn, KN_ERR_MEMORY, "%s: out of memory", op);
        root = history_restore(&h, root, grad, n);
        history_end(&h);
        if (!root) return kt_take_fault(kn, kg_fault(kn->g), op);
    }
    bool ok = kn_gradient_through(kn->g, root, grad, n, grad, kt_gradient_through, kn, NULL, &f);
    kn_why_call(kn->why, op, true);
    if (!ok) {
        kg_fault(kn->g)->code = KN_OK; /* f has it */
        return kt_take_fault(kn, &f, op);
    }
    return KN_OK;
}

kn_status kn_gradient(kn_tensor *loss, kn_tensor *const *x, int n, kn_tensor **grad) {
    kn_context *kn = kn_context_of(loss);
    if (!kn) return KN_ERR_ARG;
    if (n < 0 || (n && !grad)) return kt_error(kn, KN_ERR_ARG, "kn_gradient: %d gradients to NULL", n);
    size_t    bytes = (size_t)(n + 1) * sizeof(kn_ref);
    kn_ref   *node = kn_zalloc(kn->alloc, bytes);
    kn_status st = node ? kt_gradient(kn, "kn_gradient", loss, x, n, node)
                        : kt_error(kn, KN_ERR_MEMORY, "kn_gradient: out of memory");
    for (int i = 0; i < n; i++) {
        grad[i] = st == KN_OK ? kt_wrap(kn, node[i], "kn_gradient") : kt_poison(&(kt_call){.kn = kn, .g = kn->g});
        if (st == KN_OK && !kn_ok(grad[i])) st = kn_error_code(kn);
    }
    kn_free(kn->alloc, node, bytes);
    return st;
}

kn_tensor *kn_requires_grad(kn_tensor *t) {
    kt_call c;
    kn_ref  node;
    if (!kt_begin(&c, "kn_requires_grad", &t, 1, &node)) return kt_poison(&c);
    if (!kn_is_float(kg_dtype(c.g, node)))
        return kt_fail(c.kn, KN_ERR_DTYPE, "kn_requires_grad: the tensor is %s: only floats have gradients",
                       kn_dtypes[kg_dtype(c.g, node)].name);
    /* Constants of one value are one node: storage makes this one a variable. */
    kt_slot *s = kt_slot_of(t);
    if (kt_is_constant(c.g, node) && s->flags & KT_OWNABLE && !kt_make_storage(c.kn, "kn_requires_grad", &s, 1))
        return kt_poison(&c);
    s->flags |= KT_REQUIRES_GRAD;
    return t;
}

kn_status kn_backward(kn_tensor *loss) {
    kn_context *kn = kn_context_of(loss);
    if (!kn) return KN_ERR_ARG;
    size_t n = 0, cap = (size_t)kn->ntensors + 1;
    size_t bytes = cap * (2 * sizeof(kn_tensor *) + sizeof(kt_slot *));
    kn_tensor **x = kn_zalloc(kn->alloc, bytes), **grad = x + cap;
    if (!x) return kt_error(kn, KN_ERR_MEMORY, "kn_backward: out of memory");
    kt_slot **slot = (kt_slot **)(void *)(grad + cap);
    for (kt_slot *s = kt_first(kn); s; s = kt_next(s)) {
        if (!(s->flags & KT_REQUIRES_GRAD)) continue;
        slot[n] = s;
        x[n++] = kt_handle(s);
    }
    kn_status st = n ? kn_gradient(loss, x, (int)n, grad)
                     : kt_error(kn, KN_ERR_STATE, "kn_backward: no tensor is marked: mark some with kn_requires_grad");
    for (size_t i = 0; i < n && st == KN_OK; i++) slot[i]->grad = grad[i];
    kn_free(kn->alloc, x, bytes);
    return st;
}

kn_tensor *kn_grad(kn_tensor *t) {
    kt_call c;
    kn_ref  node;
    if (!kt_begin(&c, "kn_grad", &t, 1, &node)) return NULL;
    kn_tensor *grad = kt_slot_of(t)->grad;
    if (grad && kt_slot_of(grad)) return grad;
    kt_error(c.kn, KN_ERR_STATE,
             "kn_grad: no gradient: kn_backward has not run in this scope, or the tensor is not marked");
    return NULL;
}
