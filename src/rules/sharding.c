/* sharding.c - reductions across devices: the sharded axis is split into (devices, share); devices come first. */
#include "rules/sharding.h"

/* dims with axis (n m) as two axes, n and m; returns the rank, -1: there are too many. */
static int split_axis(const int64_t *dims, int rank, int axis, int64_t n, int64_t *out) {
    if (rank + 1 > KN_MAX_RANK) return -1;
    for (int i = 0; i < rank; i++) out[i + (i > axis)] = dims[i];
    out[axis]     = n;
    out[axis + 1] = dims[axis] / n;
    return rank + 1;
}

kn_ref kn_rule_allreduce(kn_rw *rw, kn_ref a) {
    kn_graph      *g = rw->g;
    kn_ref         x = kg_at(g, a, 0);
    uint32_t       devices = (uint32_t)kg_field(g, a, KN_F_ALLREDUCE_devices);
    int            axis = kg_axis(g, x), rank;
    const int64_t *dims = kg_shape(g, x, &rank);
    int64_t        n = kg_device_count(g, devices), split[KN_MAX_RANK], order[KN_MAX_RANK], flat, whole[KN_MAX_RANK];
    if (n == 1) return x;
    flat = kg_numel(g, x);
    if (flat < 0 || (rank = split_axis(dims, rank, axis, n, split)) < 0) return 0;
    order[0] = axis;
    for (int i = 1; i < rank; i++) order[i] = i <= axis ? i - 1 : i;
    x              = kg_reshape(g, kg_permute(g, kg_reshape(g, x, split, rank), order, rank), &flat, 1);
    x              = kg_coll_allreduce(g, x, devices, (int)kg_field(g, a, KN_F_ALLREDUCE_op));
    dims           = kg_shape(g, a, &rank);
    for (int i = 0; i < rank; i++) whole[i] = dims[i];
    return kg_reshape(g, x, whole, rank);
}

kn_ref kn_rule_reduce_shards(kn_rw *rw, kn_ref r) {
    kn_graph      *g = rw->g;
    kn_ref         x = kg_at(g, r, 0);
    int            axis = kg_axis(g, x), rank, count;
    const int64_t *w = kg_words(g, r, &count), *dims = kg_shape(g, x, &rank);
    int64_t        split[KN_MAX_RANK], axes[KN_MAX_RANK], part[KN_MAX_RANK];
    if (axis < 0 || kg_axis(g, r) >= 0 || kg_nsrc(g, r) > 1 || kg_is_fold(g, r)) return 0;
    uint32_t devices = kg_device(g, x);
    int64_t  n = kg_device_count(g, devices);
    int      op = (int)w[KN_F_REDUCE_op], naxes = count - KN_REDUCE_WORDS;
    for (int i = 0; i < naxes; i++) axes[i] = w[KN_REDUCE_WORDS + i] + (w[KN_REDUCE_WORDS + i] >= axis);
    for (int i = 0; i < rank; i++) part[i] = kg_shape(g, r, NULL)[i];
    part[axis] = n;
    if (split_axis(dims, rank, axis, n, split) < 0) return 0;
    x = kg_reduce(g, kg_reshape(g, x, split, rank + 1), op, axes, naxes);
    return kg_allreduce(g, kg_reshape(g, x, part, rank), devices, op);
}
