/* axis.c - where a value lives: device, address space, and the axis along which devices share it.
 *
 * Contract. Of n devices each has an equal run of the sharded axis. Views and arithmetic keep every element with its
 * device: the axis that is derived is the one along which the elements lie in n runs, one a device. A view that cannot
 * keep it so has axis -1, and the verifier refuses it (kg_cuts_shards); sources that are shared out along different
 * axes are refused here. Only LOAD moves elements between devices. */
#include "dialect/graph.h"

int64_t kg_device_count(const kn_graph *g, uint32_t device) {
    int64_t n = 1;
    for (const char *d = kg_str(g, device, NULL); *d; d++) n += *d == ',';
    return n;
}

/* The axis of the result at which the shard boundary of the source lies: as many elements before it as before, and
 * dividing into as many runs; -1: there is none. */
static int reshaped_axis(const int64_t *from, const int64_t *to, int axis, int64_t n) {
    int64_t before = 1, t = 1;
    for (int i = 0; i < axis; i++) before = kn_sat_mul(before, from[i + 1]);
    for (int i = 0; i < to[0] && t <= before; i++) {
        if (t == before && to[i + 1] != 1) return to[i + 1] >= 0 && to[i + 1] % n == 0 ? i : -1;
        t = kn_sat_mul(t, to[i + 1]);
    }
    return -1;
}

/* Whether a PAD or SHRINK leaves an axis as it is. */
static bool whole_axis(const kn_graph *g, const kn_ref *src, const int64_t *from, const int64_t *to, int axis) {
    int64_t offset[KN_MAX_RANK];
    int     rank;
    return kg_read_dims(g, src[1], offset, &rank) && offset[axis] == 0 && from[axis + 1] == to[axis + 1];
}

/* INDEX: indices from the left take the place of axes; one of the sharded axis itself chooses among devices. */
static int indexed_axis(const kn_graph *g, const kn_node *nd, const kn_ref *src, int axis) {
    int n = (int)nd->nsrc - 1, rank = 0;
    if (axis < n) return -1;
    for (int k = 1; k <= n; k++) rank += kg_rank(g, src[k]);
    return axis - n + rank;
}

/* The axis of a view, or of what keeps the shape of src[0], which is shared out along `axis` among n devices. */
static int view_axis(const kn_graph *g, const kn_node *nd, const kn_ref *src, const int64_t *to, int axis, int64_t n) {
    const int64_t *w = kn_arg_is_words(kn_ops[nd->op].arg) ? g->at.words[nd->arg] : NULL;
    const int64_t *from = kg_prop(g, src[0])->shape;
    switch (nd->op) {
    case KN_OP_PERMUTE: {
        int i = 0;
        while (w[i] != axis) i++;
        return i;
    }
    case KN_OP_RESHAPE: return reshaped_axis(from, to, axis, n);
    case KN_OP_PAD: case KN_OP_SHRINK: return whole_axis(g, src, from, to, axis) ? axis : -1;
    case KN_OP_FLIP: return w[axis] ? -1 : axis;
    case KN_OP_INDEX: return indexed_axis(g, nd, src, axis);
    case KN_OP_SLICE: return -1;
    case KN_OP_BITCAST: return to[axis + 1] % n == 0 ? axis : -1;
    case KN_OP_REDUCE: case KN_OP_REPLICATED:
        for (int i = nd->op == KN_OP_REDUCE ? KN_REDUCE_WORDS : 0; i < w[-1]; i++)
            if (w[i] == axis) return -1;
        return axis;
    case KN_OP_ALLREDUCE: return -1;
    default: return axis;
    }
}

bool kg_cuts_shards(const kn_graph *g, kn_ref n) {
    const kn_node *nd = kg_node(g, n);
    const kn_ref  *src = kg_src(g, n);
    if (!kn_is_movement(nd->op) || nd->op == KN_OP_REPLICATED || nd->op == KN_OP_STACK || kg_axis(g, src[0]) < 0)
        return false;
    int64_t n_devices = kg_device_count(g, kg_device(g, src[0]));
    return view_axis(g, nd, src, kg_prop(g, n)->shape, kg_axis(g, src[0]), n_devices) < 0;
}

static bool place_fault(kn_graph *g, const kn_node *nd, const char *what, const char *a, const char *b) {
    return kn_fail(&g->fault, KN_ERR_DEVICE, "%s: %s%s%s%s", kn_ops[nd->op].name, what, a, *b ? " and " : "", b);
}

/* Chosen by the arg: of a tuple the first axis is shared out. */
static bool place_given(kn_graph *g, const kn_node *nd, kn_prop *p) {
    int64_t n = kg_device_count(g, p->device);
    if (n == 1 || nd->op == KN_OP_ALLREDUCE) return true;
    if (!p->shape[0] || p->shape[1] < 0 || p->shape[1] % n)
        return place_fault(g, nd, "its first axis is not a multiple of the number of devices: ",
                           kg_str(g, p->device, NULL), "");
    p->axis = 0;
    return true;
}

/* The axis of the result that source i brings, shared out along `axis` of its own. */
static int brought_axis(const kn_graph *g, const kn_node *nd, const kn_ref *src, uint32_t i, const int64_t *to) {
    const kn_prop *s = kg_prop(g, src[i]);
    int            axis = s->axis;
    if (axis < 0) return -1;
    if (kn_is_alu(nd->op)) return axis + (int)(to[0] - s->shape[0]); /* broadcast: aligned at the end */
    if (nd->op == KN_OP_STACK) return axis + 1;
    if (i == 0) return view_axis(g, nd, src, to, axis, kg_device_count(g, s->device));
    for (uint32_t k = 1; nd->op == KN_OP_INDEX && k < i; k++) axis += kg_rank(g, src[k]);
    return axis;
}

bool kg_infer_place(kn_graph *g, const kn_node *nd, const kn_ref *src, kn_prop *p) {
    const int64_t *w = kn_arg_is_words(kn_ops[nd->op].arg) ? g->at.words[nd->arg] : NULL;
    /* sources whose elements meet */
    bool joins = kn_is_alu(nd->op) || nd->op == KN_OP_STACK || nd->op == KN_OP_INDEX;
    p->axis    = -1;
    switch (nd->op) {
    case KN_OP_PARAM: p->device = (uint32_t)w[KN_F_PARAM_device]; break;
    case KN_OP_BUFFER: p->device = (uint32_t)w[KN_F_BUFFER_device]; break;
    case KN_OP_LOAD: p->device = (uint32_t)w[KN_F_LOAD_device]; break;
    case KN_OP_ALLREDUCE: p->device = (uint32_t)w[KN_F_ALLREDUCE_devices]; break;
    default: break;
    }
    g->placed |= p->device != 0;
    if (!g->placed) return true;
    if (p->device) return place_given(g, nd, p);
    if (nd->op == KN_OP_GETTUPLE && kg_dtype(g, src[0]) == KN_VOID && kg_op(g, src[0]) != KN_OP_REDUCE) {
        kn_ref t = kg_op(g, src[0]) == KN_OP_TUPLE ? src[0] : kg_at(g, src[0], 0);
        t = kg_is_custom(g, src[0]) ? kg_custom_result(g, src[0], (int)nd->arg) : kg_at(g, t, (uint32_t)nd->arg);
        const kn_prop *e = kg_prop(g, t);
        p->device        = e->device ? e->device : kg_device(g, src[0]);
        p->axis          = e->device ? e->axis : -1;
        return true;
    }
    for (uint32_t i = 0; i < nd->nsrc; i++) {
        const kn_prop *s = kg_prop(g, src[i]);
        if (!s->device) continue;
        int axis = brought_axis(g, nd, src, i, p->shape);
        if (!p->device) {
            p->device = s->device;
            p->axis   = (int16_t)axis;
        } else if (!joins) {
            continue;
        } else if (s->device != p->device) {
            return place_fault(g, nd, "sources live on different devices; load one first: ", kg_str(g, p->device, NULL),
                               kg_str(g, s->device, NULL));
        } else if (p->axis >= 0 && axis >= 0 && axis != p->axis) {
            return place_fault(g, nd, "sources are shared out along different axes; load one first", "", "");
        } else if (p->axis < 0) {
            p->axis = (int16_t)axis;
        }
    }
    return true;
}

uint32_t kg_device(const kn_graph *g, kn_ref n) { return kg_prop(g, n)->device; }
int      kg_axis(const kn_graph *g, kn_ref n) { return kg_prop(g, n)->axis; }

kn_ref kg_storage(const kn_graph *g, kn_ref place) {
    for (int op = kg_op(g, place); op == KN_OP_INDEX || op == KN_OP_AFTER || op == KN_OP_RESHAPE; op = kg_op(g, place))
        place = kg_at(g, place, 0);
    return place;
}

int kg_space(const kn_graph *g, kn_ref n) {
    for (;;) {
        const kn_node *nd = kg_node(g, n);
        switch (nd->op) {
        case KN_OP_PARAM: return (int)g->at.words[nd->arg][KN_F_PARAM_space];
        case KN_OP_BUFFER: return (int)g->at.words[nd->arg][KN_F_BUFFER_space];
        case KN_OP_LOAD: return (int)g->at.words[nd->arg][KN_F_LOAD_space];
        case KN_OP_BUFFERIZE: return (int)g->at.words[nd->arg][KN_F_BUFFERIZE_space];
        default:
            if (nd->op == KN_OP_AFTER || (kn_is_movement(nd->op) && nd->nsrc)) {
                n = kg_at(g, n, 0);
                continue;
            }
            return KN_REG;
        }
    }
}
