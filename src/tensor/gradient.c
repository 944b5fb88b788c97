/* gradient.c - reverse mode over the tensor graph.
 *
 * One depth-first walk from the loss finds the nodes that depend on what is asked for, in an order fixed by the form of
 * the graph (sources left to right), not by node numbers. The second walk runs that order backwards: the rules of
 * gradient.rules turn (TUPLE node g) into the gradients of the node's sources; each is summed over the axes along which
 * its source was broadcast and added to what the source has so far. Every consumer of a node comes before it in this
 * walk, so its sum is complete when its turn comes. A node's rules see its gradient with exactly the node's shape.
 *
 * A CALL of a host's function gets the gradients of its results as a TUPLE, and is asked about when its turn comes.
 *
 * AFTER is a leaf: what an assignment stored has no history. Nodes of other dtypes than floats carry no gradient. */
#include "tensor/gradient.h"

#include "dialect/why.h"

#include "rules_gen.h"

enum { KN_MAX_RESULTS = 64 };

typedef struct grad_cell {
    kn_ref sum; /* the gradient so far */
    bool   seen, asked, needed;
} grad_cell;

typedef struct grad_frame {
    kn_ref   node;
    uint32_t next;
} grad_frame;

typedef struct grad_walk {
    kn_graph       *g;
    const kn_alloc *alloc;
    kn_rw           rw;
    kn_fault       *fault;
    kn_grad_call    through; /* CALLs of the host's functions; NULL: there are none */
    void           *user;
    grad_cell      *cell; /* by node id */
    size_t          ncell;
    grad_frame     *stack;
    size_t          depth, stack_cap;
    kn_ref         *order; /* the nodes that need a gradient, sources first */
    size_t          norder, order_cap;
} grad_walk;

/* A constructor gave 0: hand on the graph's own fault. */
static bool grad_graph_failed(grad_walk *w) {
    kn_fault *gf = kg_fault(w->g);
    if (gf->code == KN_OK) return kn_oom(w->fault);
    return kn_fail(w->fault, gf->code, "%s", gf->text);
}

kn_ref kn_remade(kn_graph *g, kn_ref id, const kn_ref *map) {
    uint32_t      n = kg_nsrc(g, id);
    const kn_ref *src = kg_src(g, id);
    bool          same = true;
    for (uint32_t i = 0; i < n; i++) same = same && map[src[i]] == src[i];
    if (same || !n) return id;
    kn_ref  few[8];
    size_t  bytes = (size_t)n * sizeof *few;
    kn_ref *to = n <= 8 ? few : kn_realloc(kg_alloc(g), NULL, 0, bytes);
    if (!to) {
        kn_oom(kg_fault(g));
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) to[i] = map[src[i]];
    kn_ref r = kg_with_src(g, id, to, n);
    if (to != few) kn_free(kg_alloc(g), to, bytes);
    return r;
}

/* Node id with mapped sources; a GETTUPLE of a FUNCTION or TUPLE (not of a fold) becomes the value it stands for. */
static kn_ref grad_flat_node(grad_walk *w, kn_ref id, const kn_ref *map) {
    kn_graph *g    = w->g;
    kn_ref    from = kg_op(g, id) == KN_OP_GETTUPLE ? kg_at(g, id, 0) : 0;
    if (!from || kg_is_custom(g, from) || kg_op(g, from) == KN_OP_REDUCE) return kn_remade(g, id, map);
    kn_ref tuple = kg_op(g, from) == KN_OP_TUPLE ? from : kg_at(g, from, 0);
    kn_ref value = map[kg_at(g, tuple, (uint32_t)kg_node(g, id)->arg)];
    return from == tuple ? value : kg_inline(g, from, value, map);
}

/* Replaces the roots by the same values with every FUNCTION's arguments put into its body. Sources come first in the
 * order, so a body is flat before the arguments of the FUNCTION around it are. */
static bool grad_flatten(grad_walk *w, kn_ref *roots, int n) {
    kn_graph *g = w->g;
    kn_ref   *order;
    uint32_t  count;
    bool      any = false, ok = true;
    if (!kg_reach(g, roots, n, &order, &count)) return kn_oom(w->fault);
    for (uint32_t i = 0; i < count && !any; i++) any = kg_op(g, order[i]) == KN_OP_GETTUPLE;
    if (any) {
        size_t  bytes = (size_t)kg_count(g) * sizeof(kn_ref);
        kn_ref *map = kn_zalloc(w->alloc, bytes);
        ok = map || kn_oom(w->fault);
        for (uint32_t i = 0; ok && i < count; i++) {
            map[order[i]] = grad_flat_node(w, order[i], map);
            if (!map[order[i]]) ok = grad_graph_failed(w);
        }
        for (int i = 0; ok && i < n; i++) roots[i] = map[roots[i]];
        kn_free(w->alloc, map, bytes);
    }
    kn_free(w->alloc, order, (size_t)count * sizeof *order);
    return ok;
}

/* The value through which a gradient enters node n from its i-th source; 0: that source cannot carry one. Past the
 * last source *end is set. */
static kn_ref grad_source(const grad_walk *w, kn_ref n, uint32_t i, bool *end) {
    const kn_graph *g = w->g;
    kn_ref          s;
    *end = false;
    switch (kg_op(g, n)) {
    case KN_OP_AFTER:
    case KN_OP_DETACH:
    case KN_OP_PARAM:
    case KN_OP_BUFFER:
    case KN_OP_CONST:
        *end = true;
        return 0;
    case KN_OP_GETTUPLE:
        s    = kg_at(g, n, 0); /* a CALL or fold (the rest was flattened) */
        *end = i > 0;
        if (kg_is_custom(g, s)) return *end ? 0 : s;
        if (kg_op(g, s) == KN_OP_REDUCE) s = kg_at(g, s, 0); /* opaque; its arguments tell whether it matters */
        *end = i >= kg_nsrc(g, s);
        return *end ? 0 : kn_is_float(kg_dtype(g, kg_at(g, s, i))) ? kg_at(g, s, i) : 0;
    default:
        *end = i >= kg_nsrc(g, n);
        if (*end) return 0;
        s = kg_at(g, n, i);
        return kn_is_float(kg_dtype(g, s)) ? s : 0;
    }
}

static bool grad_push(grad_walk *w, kn_ref n) {
    if (!KN_GROW(w->alloc, w->stack, w->stack_cap, w->depth + 1)) return kn_oom(w->fault);
    w->stack[w->depth++] = (grad_frame){n, 0};
    w->cell[n].seen = true;
    return true;
}

static bool grad_find(grad_walk *w, kn_ref loss) {
    if (!grad_push(w, loss)) return false;
    while (w->depth) {
        grad_frame *top = &w->stack[w->depth - 1];
        kn_ref      n = top->node;
        bool        end;
        kn_ref      s = grad_source(w, n, top->next++, &end);
        if (!end) {
            if (s && !w->cell[s].seen && !grad_push(w, s)) return false;
            continue;
        }
        w->depth--;
        grad_cell *c = &w->cell[n];
        c->needed = c->asked;
        for (uint32_t i = 0; !c->needed; i++) {
            s = grad_source(w, n, i, &end);
            if (end) break;
            c->needed = s && w->cell[s].needed;
        }
        if (!c->needed) continue;
        if (!KN_GROW(w->alloc, w->order, w->order_cap, w->norder + 1)) return kn_oom(w->fault);
        w->order[w->norder++] = n;
    }
    return true;
}

kn_ref kn_broadcast_like(kn_graph *g, kn_ref x, kn_ref like) {
    if (!x || !like || kg_same_shape(g, x, like)) return x;
    int            rank, xrank;
    const int64_t *dims = kg_shape(g, like, &rank), *xd = kg_shape(g, x, &xrank);
    int64_t        full[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int j = i - (rank - xrank);
        full[i] = j < 0 ? 1 : xd[j];
    }
    if (xrank < rank) x = kg_reshape(g, x, full, rank);
    return kg_expand(g, x, dims, rank);
}

/* grad, of the shape of a node, summed down to the shape of one of the node's sources. */
static kn_ref grad_unbroadcast(kn_graph *g, kn_ref grad, kn_ref source) {
    if (!grad || kg_same_shape(g, grad, source)) return grad;
    int            rank, srank, naxes = 0;
    const int64_t *dims = kg_shape(g, grad, &rank), *sd = kg_shape(g, source, &srank);
    int64_t        axes[KN_MAX_RANK], want[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int j = i - (rank - srank);
        if (j < 0 || (sd[j] == 1 && dims[i] != 1)) axes[naxes++] = i;
    }
    for (int j = 0; j < srank; j++) want[j] = sd[j];
    if (naxes) grad = kg_reduce(g, grad, KN_OP_ADD, axes, naxes);
    return rank == srank ? grad : kg_reshape(g, grad, want, srank);
}

static bool grad_add(grad_walk *w, kn_ref source, kn_ref grad) {
    if (!grad) return grad_graph_failed(w);
    kn_ref sum = w->cell[source].sum;
    if (sum) grad = kg_op2(w->g, KN_OP_ADD, sum, grad);
    if (!grad) return grad_graph_failed(w);
    w->cell[source].sum = grad;
    return true;
}

/* The gradient of result n of a CALL, beside those of its other results. */
static bool grad_into_call(grad_walk *w, kn_ref n) {
    kn_graph *g    = w->g;
    kn_ref    call = kg_at(g, n, 0), sum = w->cell[call].sum, part[KN_MAX_RESULTS], hole = 0;
    uint32_t  nout = (uint32_t)kg_custom_results(g, call);
    if (nout > KN_MAX_RESULTS)
        return kn_fail(w->fault, KN_ERR_UNSUPPORTED, "kn_gradient: a function of more than %d results", KN_MAX_RESULTS);
    if (!sum) hole = kg_make(g, KN_OP_HOLE, 0, 0, NULL, 0);
    for (uint32_t k = 0; k < nout; k++) part[k] = sum ? kg_at(g, sum, k) : hole;
    part[kg_node(g, n)->arg] = w->cell[n].sum;
    w->cell[call].sum        = kg_list(g, KN_OP_TUPLE, part, (int)nout);
    return w->cell[call].sum || grad_graph_failed(w);
}

static bool grad_through_call(grad_walk *w, kn_ref call) {
    kn_graph *g = w->g;
    kn_ref    parts;
    if (!w->through)
        return kn_fail(w->fault, KN_ERR_UNSUPPORTED, "kn_gradient: CALL has no gradient: put kn_detach around it");
    if (!w->through(w->user, call, w->cell[call].sum, &parts, w->fault)) return false;
    for (uint32_t i = 0; i < kg_nsrc(g, parts); i++) {
        kn_ref s = kg_at(g, call, i + 1), part = kg_at(g, parts, i);
        if (s >= w->ncell || !w->cell[s].needed || kg_op(g, part) == KN_OP_HOLE) continue;
        if (!grad_add(w, s, part)) return false;
    }
    return true;
}

static bool grad_pass_on(grad_walk *w, kn_ref n) {
    kn_graph *g = w->g;
    kn_ref    grad = w->cell[n].sum, s;
    bool      end, any = false;
    if (!grad) return true; /* every path to it was cut by an op without a gradient */
    for (uint32_t i = 0; !any; i++) {
        s = grad_source(w, n, i, &end);
        if (end) return true; /* a leaf */
        any = s && w->cell[s].needed;
    }
    kg_made_of(g, g, n);
    if (kg_is_custom(g, n)) return grad_through_call(w, n);
    if (kg_op(g, n) == KN_OP_GETTUPLE && kg_is_custom(g, kg_at(g, n, 0))) return grad_into_call(w, n);
    kn_ref pair = kg_list(g, KN_OP_TUPLE, (kn_ref[]){n, grad}, 2);
    if (!pair) return grad_graph_failed(w);
    kn_ref parts = kn_rewrite_step(&w->rw, pair, KN_G_gradient);
    if (!parts) return w->fault->code == KN_OK ? grad_graph_failed(w) : false;
    if (parts == pair) {
        if (kg_fault(g)->code != KN_OK) return grad_graph_failed(w);
        return kn_fail(w->fault, KN_ERR_UNSUPPORTED, "kn_gradient: %s has no gradient: put kn_detach around it",
                       kn_ops[kg_op(g, n)].name);
    }
    for (uint32_t i = 0; i < kg_nsrc(g, parts) && i < kg_nsrc(g, n); i++) {
        s = kg_at(g, n, i);
        kn_ref part = kg_at(g, parts, i);
        if (!kn_is_float(kg_dtype(g, s)) || !w->cell[s].needed || kg_op(g, part) == KN_OP_HOLE) continue;
        if (kn_is_alu(kg_op(g, n))) part = grad_unbroadcast(g, kn_broadcast_like(g, part, n), s);
        if (!grad_add(w, s, part)) return false;
    }
    return true;
}

/* What stands for every view of the storage that n is a plain view of; n itself if it is none. */
static kn_ref grad_storage(const kn_graph *g, kn_ref n) {
    kn_ref b = n;
    while (kg_op(g, b) == KN_OP_RESHAPE) b = kg_at(g, b, 0);
    int op = kg_op(g, b);
    return op == KN_OP_BUFFER || op == KN_OP_AFTER || op == KN_OP_PARAM ? b : n;
}

/* root[0] is the loss, root[1..n] what it is differentiated by; on success root[1..n] are the gradients. */
static bool grad_run(grad_walk *w, kn_ref *root, int n) {
    kn_graph *g = w->g;
    if (!grad_flatten(w, root, n + 1)) return false;
    kn_ref loss = root[0], *wrt = root + 1;
    w->ncell = kg_count(g);
    w->cell = kn_zalloc(w->alloc, w->ncell * sizeof *w->cell);
    if (!w->cell) return kn_oom(w->fault);
    for (int i = 0; i < n; i++) w->cell[grad_storage(g, wrt[i])].asked = true;
    if (!grad_find(w, loss)) return false;
    if (w->cell[loss].needed) w->cell[loss].sum = kn_broadcast_like(g, kg_float(g, kg_dtype(g, loss), 1.0), loss);
    for (size_t i = w->norder; i-- > 0;) {
        if (!grad_pass_on(w, w->order[i])) return false;
    }
    for (int i = 0; i < n; i++) {
        kn_ref base = grad_storage(g, wrt[i]), sum = w->cell[base].sum;
        if (!sum) {
            sum = kn_broadcast_like(g, kg_float(g, kg_dtype(g, wrt[i]), 0.0), wrt[i]);
        } else if (base != wrt[i]) {
            int            rank;
            const int64_t *dims = kg_shape(g, wrt[i], &rank);
            int64_t        copy[KN_MAX_RANK];
            for (int k = 0; k < rank; k++) copy[k] = dims[k];
            while (kg_op(g, sum) == KN_OP_RESHAPE && !kg_same_shape(g, sum, wrt[i])) sum = kg_at(g, sum, 0);
            sum = kg_reshape(g, sum, copy, rank);
        }
        if (!sum) return grad_graph_failed(w);
        wrt[i] = sum;
    }
    return true;
}

bool kn_gradient_nodes(kn_graph *g, kn_ref loss, const kn_ref *wrt, int n, kn_ref *grads, uint64_t *fired,
                       kn_fault *f) {
    return kn_gradient_through(g, loss, wrt, n, grads, NULL, NULL, fired, f);
}

bool kn_gradient_through(kn_graph *g, kn_ref loss, const kn_ref *wrt, int n, kn_ref *grads, kn_grad_call through,
                         void *user, uint64_t *fired, kn_fault *f) {
    if (!loss) return kn_fail(f, KN_ERR_ARG, "kn_gradient: the loss is missing");
    if (!kn_is_float(kg_dtype(g, loss)))
        return kn_fail(f, KN_ERR_DTYPE, "kn_gradient: the loss is %s: only floats have gradients",
                       kn_dtypes[kg_dtype(g, loss)].name);
    if (kg_numel(g, loss) != 1)
        return kn_fail(f, KN_ERR_SHAPE,
                       "kn_gradient: the loss has %lld elements: reduce it to one, with kn_sum or kn_mean",
                       (long long)kg_numel(g, loss));
    for (int i = 0; i < n; i++) {
        if (!wrt[i]) return kn_fail(f, KN_ERR_ARG, "kn_gradient: tensor %d is missing", i);
        if (!kn_is_float(kg_dtype(g, wrt[i])))
            return kn_fail(f, KN_ERR_DTYPE, "kn_gradient: tensor %d is %s: only floats have gradients", i,
                           kn_dtypes[kg_dtype(g, wrt[i])].name);
    }
    grad_walk w = {.g = g, .alloc = kg_alloc(g), .fault = f, .through = through, .user = user};
    size_t    bytes = (size_t)(n + 1) * sizeof(kn_ref);
    kn_ref   *root = kn_realloc(w.alloc, NULL, 0, bytes);
    if (!root) return kn_oom(f);
    root[0] = loss;
    for (int i = 0; i < n; i++) root[i + 1] = wrt[i];
    kn_rw_init(&w.rw, g, f);
    w.rw.fired = fired;
    bool ok = grad_run(&w, root, n);
    kn_rw_free(&w.rw);
    for (int i = 0; ok && i < n; i++) grads[i] = root[i + 1];
    kn_free(w.alloc, root, bytes);
    kn_free(w.alloc, w.cell, w.ncell * sizeof *w.cell);
    kn_free(w.alloc, w.stack, w.stack_cap * sizeof *w.stack);
    kn_free(w.alloc, w.order, w.order_cap * sizeof *w.order);
    return ok;
}
