/* axis.c - where a value lives: device, address space, and the axis along which devices share it. */
#include "dialect/graph.h"

static bool is_tuple(const kn_graph *g, uint32_t device) {
    for (const char *d = kg_str(g, device, NULL); *d; d++)
        if (*d == ',') return true;
    return false;
}

/* The axis of the result at which the shard boundary of the source lies: as many elements before it as before. */
static int reshaped_axis(const int64_t *from, const int64_t *to, int axis) {
    int64_t before = 1, t = 1;
    for (int i = 0; i < axis; i++) before = kn_sat_mul(before, from[i + 1]);
    for (int i = 0; i < to[0]; i++) {
        if (t == before && (to[i + 1] > 1 || from[axis + 1] == 1)) return i;
        t = kn_sat_mul(t, to[i + 1]);
    }
    return -1;
}

bool kg_infer_place(kn_graph *g, const kn_node *nd, const kn_ref *src, kn_prop *p) {
    const int64_t *w = kn_arg_is_words(kn_ops[nd->op].arg) ? g->at.words[nd->arg] : NULL;
    p->axis          = -1;
    switch (nd->op) {
    case KN_OP_PARAM: p->device = (uint32_t)w[KN_F_PARAM_device]; break;
    case KN_OP_BUFFER: p->device = (uint32_t)w[KN_F_BUFFER_device]; break;
    case KN_OP_LOAD: p->device = (uint32_t)w[KN_F_LOAD_device]; break;
    default: break;
    }
    if (p->device) {
        if (is_tuple(g, p->device)) p->axis = 0;
        return true;
    }
    for (uint32_t i = 0; i < nd->nsrc; i++) {
        const kn_prop *s = kg_prop(g, src[i]);
        if (!s->device) continue;
        if (!p->device) {
            p->device = s->device;
            p->axis   = s->axis;
        } else if (kn_is_alu(nd->op) && s->device != p->device) {
            return kn_fail(&g->fault, KN_ERR_DEVICE, "%s: sources live on %s and %s; copy one first",
                           kn_ops[nd->op].name, kg_str(g, p->device, NULL), kg_str(g, s->device, NULL));
        } else if (p->axis < 0) {
            p->axis = s->axis;
        }
    }
    if (p->axis < 0 || !nd->nsrc) return true;
    const int64_t *from = kg_prop(g, src[0])->shape;
    switch (nd->op) {
    case KN_OP_PERMUTE:
        for (int i = 0; i < from[0]; i++)
            if (w[i] == p->axis) {
                p->axis = (int16_t)i;
                break;
            }
        break;
    case KN_OP_RESHAPE: p->axis = (int16_t)reshaped_axis(from, p->shape, p->axis); break;
    case KN_OP_REDUCE: case KN_OP_REPLICATED:
        for (int i = nd->op == KN_OP_REDUCE ? KN_REDUCE_WORDS : 0; i < w[-1]; i++)
            if (w[i] == p->axis) {
                p->axis = -1;
                break;
            }
        break;
    case KN_OP_INDEX: case KN_OP_SLICE: p->axis = -1; break;
    default: break;
    }
    return true;
}

uint32_t kg_device(const kn_graph *g, kn_ref n) { return kg_prop(g, n)->device; }
int      kg_axis(const kn_graph *g, kn_ref n) { return kg_prop(g, n)->axis; }

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
