/* gradient.h - reverse-mode differentiation of the tensor graph.
 *
 * Takes a graph of values as the front end builds it (broadcasting still implicit), gives nodes of the same graph. */
#ifndef KN_GRADIENT_H
#define KN_GRADIENT_H

#include "rewrite/rewrite.h"

/* d loss / d wrt[i] into grads[i], with the shape and dtype of wrt[i]; zeros where loss does not depend on it. loss is
 * a float of one element. wrt[i] is a float: a node between, or a view of storage (RESHAPEs of a BUFFER, a PARAM or an
 * AFTER), which stands for every view of that storage. Contributions to a node are summed in an order that depends on
 * the form of the graph alone, so equal programs get equal gradients, bit for bit. `fired` counts firings by rule, or
 * is NULL. False, with f set and grads untouched, on failure. */
/* What it asks about a CALL of a host's function: `grads` is a TUPLE of the gradients of its results, HOLE where there
 * is none; *parts becomes one of the gradients of its arguments, HOLE where none flows. False: f is set. */
typedef bool (*kn_grad_call)(void *user, kn_ref call, kn_ref grads, kn_ref *parts, kn_fault *f);
bool kn_gradient_through(kn_graph *g, kn_ref loss, const kn_ref *wrt, int n, kn_ref *grads, kn_grad_call through,
                         void *user, uint64_t *fired, kn_fault *f);
/* The same where no such CALL is. */
bool kn_gradient_nodes(kn_graph *g, kn_ref loss, const kn_ref *wrt, int n, kn_ref *grads, uint64_t *fired,
                       kn_fault *f);

/* C rules of gradient.rules: n is (TUPLE node g), the answer (TUPLE g0 g1 ...), a gradient a source, HOLE for none. */
kn_ref kn_grad_reshape(kn_rw *rw, kn_ref n);
kn_ref kn_grad_expand(kn_rw *rw, kn_ref n);
kn_ref kn_grad_permute(kn_rw *rw, kn_ref n);
kn_ref kn_grad_flip(kn_rw *rw, kn_ref n);
kn_ref kn_grad_pad(kn_rw *rw, kn_ref n);
kn_ref kn_grad_shrink(kn_rw *rw, kn_ref n);
kn_ref kn_grad_slice(kn_rw *rw, kn_ref n);
kn_ref kn_grad_stack(kn_rw *rw, kn_ref n);
kn_ref kn_grad_index(kn_rw *rw, kn_ref n);
kn_ref kn_grad_reduce(kn_rw *rw, kn_ref n);
kn_ref kn_grad_allreduce(kn_rw *rw, kn_ref n);
kn_ref kn_grad_replicated(kn_rw *rw, kn_ref n);
kn_ref kn_grad_load(kn_rw *rw, kn_ref n);
kn_ref kn_grad_cast(kn_rw *rw, kn_ref n);
kn_ref kn_grad_scale(kn_rw *rw, kn_ref n);
kn_ref kn_grad_log2(kn_rw *rw, kn_ref n);
kn_ref kn_grad_extremum(kn_rw *rw, kn_ref n);
kn_ref kn_grad_contiguous_backward(kn_rw *rw, kn_ref n);

/* The same for handles: d loss / d x[i] as nodes of kn's graph into grad[i]; the first failure is kn's, under `op`.
 * Values of this scope that were already computed still have their history. */
kn_status kt_gradient(kn_context *kn, const char *op, kn_tensor *loss, kn_tensor *const *x, int n, kn_ref *grad);

/* Node id with map[s] for each source s; itself if all stay. */
kn_ref kn_remade(kn_graph *g, kn_ref id, const kn_ref *map);

/* x, broadcast and reshaped to the shape of `like`; 0 with the graph's fault set on failure. */
kn_ref kn_broadcast_like(kn_graph *g, kn_ref x, kn_ref like);

#endif
