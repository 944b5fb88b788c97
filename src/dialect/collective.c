/* collective.c - the collectives of n devices, as compositions of LOAD, REPLICATED, REDUCE and views.
 *
 * Contract. What is whole has shape (s,); what is shared out among the devices of a tuple has shape (n s,), of which
 * each holds s elements in a row. A shape that does not fit fails in the graph, as a constructor does. */
#include "dialect/uop.h"

#include <string.h>

/* x is flat, of a known size that divides into so many parts; *s is the size of one. */
static bool flat_parts(kn_graph *g, kn_ref x, int64_t parts, const char *what, int64_t *s) {
    *s = 0;
    if (!x) return false;
    if (kg_rank(g, x) != 1 || kg_numel(g, x) < 0 || kg_numel(g, x) % parts)
        return kn_fail(kg_fault(g), KN_ERR_SHAPE, "%s: needs a flat value of a multiple of %lld elements", what,
                       (long long)parts);
    *s = kg_numel(g, x) / parts;
    return true;
}

static uint32_t first_device(kn_graph *g, uint32_t devices) {
    size_t      len;
    const char *d = kg_str(g, devices, &len), *comma = memchr(d, ',', len);
    return kg_intern_str(g, d, comma ? (size_t)(comma - d) : len);
}

/* (s,) to all of n devices: n copies, one after the other, of which each gets its own. */
static kn_ref copies(kn_graph *g, kn_ref x, int64_t s, int64_t n, uint32_t devices) {
    kn_ref y = kg_expand(g, kg_reshape(g, x, (int64_t[]){1, s}, 2), (int64_t[]){n, s}, 2);
    y        = kg_replicated(g, kg_load_to(g, y, devices, KN_GLOBAL), (int64_t[]){0}, 1);
    return kg_reshape(g, y, &s, 1);
}

kn_ref kg_coll_broadcast(kn_graph *g, kn_ref x, uint32_t devices) {
    int64_t s;
    return flat_parts(g, x, 1, "broadcast", &s) ? copies(g, x, s, kg_device_count(g, devices), devices) : 0;
}

kn_ref kg_coll_scatter(kn_graph *g, kn_ref x, uint32_t devices) {
    int64_t s;
    return flat_parts(g, x, kg_device_count(g, devices), "scatter", &s) ? kg_load_to(g, x, devices, KN_GLOBAL) : 0;
}

kn_ref kg_coll_gather(kn_graph *g, kn_ref x, uint32_t devices) {
    int64_t s;
    if (!flat_parts(g, x, kg_device_count(g, devices), "gather", &s)) return 0;
    return kg_load_to(g, x, first_device(g, devices), KN_GLOBAL);
}

kn_ref kg_coll_reduce(kn_graph *g, kn_ref x, uint32_t devices, int op) {
    int64_t s, n = kg_device_count(g, devices);
    if (!flat_parts(g, x, n, "reduce", &s)) return 0;
    kn_ref y = kg_reshape(g, kg_coll_gather(g, x, devices), (int64_t[]){n, s}, 2);
    return kg_reshape(g, kg_reduce(g, y, op, (int64_t[]){0}, 1), &s, 1);
}

kn_ref kg_coll_allgather(kn_graph *g, kn_ref x, uint32_t devices) {
    int64_t s, n = kg_device_count(g, devices);
    return flat_parts(g, x, n, "allgather", &s) ? copies(g, x, n * s, n, devices) : 0;
}

kn_ref kg_coll_reduce_scatter(kn_graph *g, kn_ref x, uint32_t devices, int op) {
    int64_t s, part, n = kg_device_count(g, devices);
    if (!flat_parts(g, x, n, "reduce_scatter", &s)) return 0;
    if (s % n) {
        kn_fail(kg_fault(g), KN_ERR_SHAPE, "reduce_scatter: %lld elements do not divide among %lld devices",
                (long long)s, (long long)n);
        return 0;
    }
    part     = s / n;
    kn_ref y = kg_permute(g, kg_reshape(g, x, (int64_t[]){n, n, part}, 3), (int64_t[]){1, 0, 2}, 3);
    y        = kg_reduce(g, kg_load_to(g, y, devices, KN_GLOBAL), op, (int64_t[]){1}, 1);
    return kg_reshape(g, y, &s, 1);
}

/* Where a share does not divide by n it is filled up with zeros, which are reduced among themselves and cut off. */
kn_ref kg_coll_allreduce(kn_graph *g, kn_ref x, uint32_t devices, int op) {
    int64_t s, n = kg_device_count(g, devices);
    if (!flat_parts(g, x, n, "allreduce", &s)) return 0;
    int64_t full = (s + n - 1) / n * n, zero[2] = {0, 0};
    if (full != s) {
        x = kg_pad(g, kg_reshape(g, x, (int64_t[]){n, s}, 2), zero, (int64_t[]){n, full}, 2);
        x = kg_reshape(g, x, (int64_t[]){n * full}, 1);
    }
    x = kg_coll_allgather(g, kg_coll_reduce_scatter(g, x, devices, op), devices);
    return full == s ? x : kg_shrink(g, x, zero, &s, 1);
}

kn_ref kg_allreduce(kn_graph *g, kn_ref x, uint32_t devices, int op) {
    int64_t  w[KN_ALLREDUCE_WORDS] = {[KN_F_ALLREDUCE_op] = op, [KN_F_ALLREDUCE_devices] = devices};
    uint64_t arg                   = kg_intern_words(g, w, KN_ALLREDUCE_WORDS);
    return arg ? kg_make(g, KN_OP_ALLREDUCE, 0, arg, &x, 1) : 0;
}
