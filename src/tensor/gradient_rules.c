/* gradient_rules.c - the rules of gradient.rules that need the shapes: movement, reductions, loads.
 *
 * Each takes (TUPLE node g), where g has exactly the shape of node, and gives (TUPLE g0 ...), a gradient a source, with
 * exactly the source's shape; 0 declines, or fails with the graph's fault set. */
#include "tensor/gradient.h"

#include <math.h>
#include <string.h>

static kn_ref grad_hole(kn_graph *g) { return kg_make(g, KN_OP_HOLE, 0, 0, NULL, 0); }

/* (TUPLE first HOLE ...), an element a source of node. */
static kn_ref grad_first(kn_graph *g, kn_ref node, kn_ref first) {
    uint32_t n = kg_nsrc(g, node);
    kn_ref   part[4], hole = grad_hole(g);
    if (n > 4) n = 4;
    for (uint32_t i = 0; i < n; i++) part[i] = i ? hole : first;
    return kg_list(g, KN_OP_TUPLE, part, (int)n);
}

/* The sizes of n in dims. */
static void grad_dims(const kn_graph *g, kn_ref n, int64_t *dims, int *rank) {
    const int64_t *d = kg_shape(g, n, rank);
    for (int i = 0; i < *rank; i++) dims[i] = d[i];
}

/* A list of offsets, as sizes: numbers, or nodes. */
static void grad_offsets(const kn_graph *g, kn_ref list, int64_t *offset) {
    for (uint32_t i = 0; i < kg_nsrc(g, list); i++) {
        kn_ref x  = kg_at(g, list, i);
        offset[i] = kg_op(g, x) == KN_OP_CONST ? kg_const_int(g, x) : -(int64_t)x;
    }
}

/* A gradient that is a product with a broadcast factor (what MUL gives of a convolution's weights): the movement of the
 * product is the product of the moved. The sum that comes at last then has the zeros of a PAD on one factor alone. */
static bool grad_factors(kn_graph *g, kn_ref grad, kn_ref *whole, kn_ref *part) {
    if (kg_op(g, grad) != KN_OP_MUL || !kn_is_float(kg_dtype(g, grad))) return false;
    kn_ref a = kg_at(g, grad, 0), b = kg_at(g, grad, 1);
    if (kg_rank(g, a) != kg_rank(g, grad) || kg_rank(g, b) != kg_rank(g, grad)) return false;
    bool first = kg_same_shape(g, a, grad);
    *whole     = first ? a : b;
    *part      = first ? b : a;
    return kg_same_shape(g, *whole, grad) && !kg_same_shape(g, *part, grad);
}

kn_ref kn_grad_reshape(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), grad = kg_at(g, n, 1), whole, part;
    int64_t   dims[KN_MAX_RANK], from[KN_MAX_RANK];
    int       rank, frank;
    grad_dims(g, kg_at(g, y, 0), dims, &rank);
    if (!grad_factors(g, grad, &whole, &part)) return grad_first(g, y, kg_reshape(g, grad, dims, rank));
    grad_dims(g, grad, from, &frank);
    part = kg_reshape(g, kg_expand(g, part, from, frank), dims, rank);
    return grad_first(g, y, kg_op2(g, KN_OP_MUL, kg_reshape(g, whole, dims, rank), part));
}

kn_ref kn_grad_expand(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0);
    int64_t   from[KN_MAX_RANK], to[KN_MAX_RANK], axes[KN_MAX_RANK];
    int       rank, naxes = 0;
    grad_dims(g, kg_at(g, y, 0), from, &rank);
    grad_dims(g, y, to, &rank);
    for (int i = 0; i < rank; i++) {
        if (from[i] == 1 && to[i] != 1) axes[naxes++] = i;
    }
    kn_ref grad = kg_at(g, n, 1);
    return grad_first(g, y, naxes ? kg_reduce(g, grad, KN_OP_ADD, axes, naxes) : grad);
}

kn_ref kn_grad_permute(kn_rw *rw, kn_ref n) {
    kn_graph      *g = rw->g;
    kn_ref         y = kg_at(g, n, 0);
    int            rank;
    const int64_t *order = kg_words(g, y, &rank);
    int64_t        inverse[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) inverse[order[i]] = i;
    return grad_first(g, y, kg_permute(g, kg_at(g, n, 1), inverse, rank));
}

kn_ref kn_grad_flip(kn_rw *rw, kn_ref n) {
    kn_graph      *g = rw->g;
    kn_ref         y = kg_at(g, n, 0);
    int            rank;
    const int64_t *words = kg_words(g, y, &rank);
    int64_t        flags[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) flags[i] = words[i];
    return grad_first(g, y, kg_flip(g, kg_at(g, n, 1), flags, rank));
}

/* PAD, below an EXPAND of other axes: what is padded stays small. */
static kn_ref grad_padded(kn_graph *g, kn_ref x, const int64_t *offset, const int64_t *dims, int rank) {
    bool    below = kg_op(g, x) == KN_OP_EXPAND && kg_rank(g, kg_at(g, x, 0)) == rank;
    int64_t at[KN_MAX_RANK], size[KN_MAX_RANK];
    if (!below) return kg_pad(g, x, offset, dims, rank);
    const int64_t *full = kg_shape(g, x, NULL), *small = kg_shape(g, kg_at(g, x, 0), NULL);
    for (int i = 0; i < rank; i++) {
        bool one = small[i] != full[i];
        below &= !one || full[i] == dims[i];
        at[i]   = one ? 0 : offset[i];
        size[i] = one ? small[i] : dims[i];
    }
    if (!below) return kg_pad(g, x, offset, dims, rank);
    return kg_expand(g, kg_pad(g, kg_at(g, x, 0), at, size, rank), dims, rank);
}

static kn_ref grad_window(kn_rw *rw, kn_ref n, bool shrink) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), grad = kg_at(g, n, 1);
    int64_t   dims[KN_MAX_RANK], offset[KN_MAX_RANK];
    int       rank;
    grad_dims(g, kg_at(g, y, 0), dims, &rank);
    grad_offsets(g, kg_at(g, y, 1), offset);
    kn_ref whole, part;
    bool   factors = grad_factors(g, grad, &whole, &part);
    if (factors) { /* an axis that `part` broadcasts stays as it is; one that is padded must be such */
        const int64_t *from = kg_shape(g, grad, NULL), *have = kg_shape(g, part, NULL);
        int64_t        at[KN_MAX_RANK], size[KN_MAX_RANK];
        for (int i = 0; i < rank; i++) {
            bool one = have[i] == 1;
            at[i]    = one ? 0 : offset[i];
            size[i]  = one ? 1 : dims[i];
            factors &= one || shrink || from[i] == dims[i];
        }
        if (factors && shrink) part = kg_shrink(g, part, at, size, rank);
    }
    if (!factors) whole = grad;
    whole = shrink ? kg_shrink(g, whole, offset, dims, rank) : grad_padded(g, whole, offset, dims, rank);
    return grad_first(g, y, factors ? kg_op2(g, KN_OP_MUL, whole, part) : whole);
}

kn_ref kn_grad_pad(kn_rw *rw, kn_ref n) { return grad_window(rw, n, true); }
kn_ref kn_grad_shrink(kn_rw *rw, kn_ref n) { return grad_window(rw, n, false); }

/* A SLICE of the same dtype at a constant offset is a window of the flat tensor. */
kn_ref kn_grad_slice(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), x = kg_at(g, y, 0), at = kg_at(g, y, 1);
    int64_t   dims[KN_MAX_RANK], total = kg_numel(g, x);
    int       rank;
    if (kg_op(g, at) != KN_OP_CONST || kg_dtype(g, x) != kg_dtype(g, y) || total < 0)
        return 0;
    grad_dims(g, x, dims, &rank);
    int64_t offset = kg_const_int(g, at);
    kn_ref  grad = kg_pad(g, kg_at(g, n, 1), &offset, &total, 1);
    return grad_first(g, y, rank == 1 ? grad : kg_reshape(g, grad, dims, rank));
}

kn_ref kn_grad_stack(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), grad = kg_at(g, n, 1), result = 0;
    int       count = (int)kg_nsrc(g, y), rank;
    int64_t   dims[KN_MAX_RANK], offset[KN_MAX_RANK] = {0};
    grad_dims(g, y, dims, &rank);
    size_t  bytes = (size_t)(count + 1) * sizeof(kn_ref);
    kn_ref *part = kn_realloc(kg_alloc(g), NULL, 0, bytes);
    if (!part) {
        kn_oom(kg_fault(g));
        return 0;
    }
    dims[0] = 1;
    for (int i = 0; i < count; i++) {
        offset[0] = i;
        part[i] = kg_reshape(g, kg_shrink(g, grad, offset, dims, rank), dims + 1, rank - 1);
    }
    result = kg_list(g, KN_OP_TUPLE, part, count);
    kn_free(kg_alloc(g), part, bytes);
    return result;
}

/* INDEX by constants from the left: the gradient goes back to the one place it came from. */
kn_ref kn_grad_index(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), x = kg_at(g, y, 0);
    int64_t   dims[KN_MAX_RANK], one[KN_MAX_RANK], offset[KN_MAX_RANK] = {0};
    int       rank, count = (int)kg_nsrc(g, y) - 1;
    grad_dims(g, x, dims, &rank);
    for (int i = 0; i < rank; i++) {
        one[i] = i < count ? 1 : dims[i];
        if (i >= count) continue;
        kn_ref at = kg_at(g, y, (uint32_t)i + 1);
        if (kg_op(g, at) != KN_OP_CONST) return 0;
        offset[i] = kg_const_int(g, at);
    }
    kn_ref grad = kg_pad(g, kg_reshape(g, kg_at(g, n, 1), one, rank), offset, dims, rank), part[KN_MAX_RANK + 1];
    part[0] = grad;
    for (int i = 1; i <= count; i++) part[i] = grad_hole(g);
    return kg_list(g, KN_OP_TUPLE, part, count + 1);
}

/* The number of true elements along the reduced axes of y, as a float of dtype dt. Counted in f32 at least, which a
 * half could not do above 2048. */
static kn_ref grad_count(kn_graph *g, kn_ref mask, const int64_t *axes, int naxes, int dt) {
    int wide = dt == KN_F64 ? KN_F64 : KN_F32;
    return kg_cast(g, kg_reduce(g, kg_cast(g, mask, wide), KN_OP_ADD, axes, naxes), dt);
}

/* MAX, MIN: the gradient is shared evenly by the elements that equal the result. MUL: the product of the others, which
 * is y / x but where x or another element is zero. */
kn_ref kn_grad_reduce(kn_rw *rw, kn_ref n) {
    kn_graph      *g = rw->g;
    kn_ref         y = kg_at(g, n, 0), grad = kg_at(g, n, 1), x = kg_at(g, y, 0), r;
    int            words, naxes, dt = kg_dtype(g, y);
    const int64_t *w = kg_words(g, y, &words);
    int64_t        axes[KN_MAX_RANK];
    if (kg_nsrc(g, y) != 1) return 0; /* over ranges: no longer a tensor graph */
    naxes = words - KN_REDUCE_WORDS;
    for (int i = 0; i < naxes; i++) axes[i] = w[KN_REDUCE_WORDS + i];
    kn_ref zero = kg_float(g, dt, 0), one = kg_float(g, dt, 1);
    switch (w[KN_F_REDUCE_op]) {
    case KN_OP_ADD:
        return grad_first(g, y, kn_broadcast_like(g, grad, x));
    case KN_OP_MAX:
    case KN_OP_MIN: {
        kn_ref hit = kg_op2(g, KN_OP_CMPEQ, x, y);
        r = kg_op2(g, KN_OP_DIV, grad, grad_count(g, hit, axes, naxes, dt));
        return grad_first(g, y, kg_op3(g, KN_OP_WHERE, hit, r, zero));
    }
    case KN_OP_MUL: {
        kn_ref is0 = kg_op2(g, KN_OP_CMPEQ, x, zero), zeros = grad_count(g, is0, axes, naxes, dt);
        kn_ref rest = kg_reduce(g, kg_op3(g, KN_OP_WHERE, is0, one, x), KN_OP_MUL, axes, naxes);
        kn_ref gr = kg_op2(g, KN_OP_MUL, grad, rest);
        kn_ref at0 = kg_op3(g, KN_OP_WHERE, kg_op2(g, KN_OP_CMPEQ, zeros, one), gr, zero);
        kn_ref others = kg_op3(g, KN_OP_WHERE, kg_op2(g, KN_OP_CMPEQ, zeros, zero), gr, zero);
        r = kg_op3(g, KN_OP_WHERE, is0, at0, kg_op2(g, KN_OP_DIV, others, kg_op3(g, KN_OP_WHERE, is0, one, x)));
        return grad_first(g, y, r);
    }
    default:
        return 0;
    }
}

/* As of a REDUCE over an axis of its own for the devices. */
kn_ref kn_grad_allreduce(kn_rw *rw, kn_ref n) {
    kn_graph      *g = rw->g;
    kn_ref         y = kg_at(g, n, 0), x = kg_at(g, y, 0), parts;
    int            axis = kg_axis(g, x), rank;
    int64_t        dims[KN_MAX_RANK], split[KN_MAX_RANK + 1], one[KN_MAX_RANK + 1], at;
    int64_t        devices = kg_device_count(g, (uint32_t)kg_field(g, y, KN_F_ALLREDUCE_devices));
    if (devices == 1) return grad_first(g, y, kg_at(g, n, 1));
    grad_dims(g, x, dims, &rank);
    if (rank == KN_MAX_RANK) return 0;
    for (int i = 0; i < rank; i++) split[i + (i > axis)] = dims[i];
    split[axis]     = devices;
    split[axis + 1] = dims[axis] / devices;
    memcpy(one, split, sizeof one);
    one[axis]  = 1;
    at         = axis;
    kn_ref r   = kg_reduce(g, kg_reshape(g, x, split, rank + 1), (int)kg_field(g, y, KN_F_ALLREDUCE_op), &at, 1);
    kn_ref in[2] = {r, kg_reshape(g, kg_at(g, n, 1), one, rank + 1)}, pair = kg_list(g, KN_OP_TUPLE, in, 2);
    if (!pair || !(parts = kn_grad_reduce(rw, pair))) return 0;
    return grad_first(g, y, kg_reshape(g, kg_at(g, parts, 0), dims, rank));
}

/* The first of the copies has it all; they are equal, so that no other needs any. */
kn_ref kn_grad_replicated(kn_rw *rw, kn_ref n) {
    kn_graph      *g = rw->g;
    kn_ref         y = kg_at(g, n, 0), x = kg_at(g, y, 0), grad = kg_at(g, n, 1), first = 0;
    int            rank, count;
    const int64_t *axes = kg_words(g, y, &count);
    int64_t        dims[KN_MAX_RANK];
    grad_dims(g, x, dims, &rank);
    for (int i = 0; i < count; i++) {
        if (dims[axes[i]] == 1) continue;
        kn_ref at = kg_iota(g, dims[axes[i]], 0, KN_AXIS_LOOP, rank, (int)axes[i]);
        at        = kg_op2(g, KN_OP_CMPEQ, at, kg_idx(g, 0));
        first     = first ? kg_op2(g, KN_OP_AND, first, at) : at;
    }
    if (!first) return grad_first(g, y, grad);
    kn_ref zero = kg_float(g, kg_dtype(g, y), 0);
    return grad_first(g, y, kg_op3(g, KN_OP_WHERE, first, kn_broadcast_like(g, grad, x), zero));
}

/* A copy or a contiguous: the gradient goes back to where the source lives. */
kn_ref kn_grad_load(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), grad = kg_at(g, n, 1), x = kg_at(g, y, 0);
    if (kg_nsrc(g, y) != 1) return 0;
    if (kg_device(g, x) && kg_device(g, x) != kg_device(g, y)) grad = kg_load_to(g, grad, kg_device(g, x), KN_GLOBAL);
    return grad_first(g, y, grad);
}

kn_ref kn_grad_contiguous_backward(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    return grad_first(g, kg_at(g, n, 0), kg_load_to(g, kg_at(g, n, 1), 0, KN_GLOBAL));
}

kn_ref kn_grad_cast(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), x = kg_at(g, y, 0);
    if (!kn_is_float(kg_dtype(g, x)) || !kn_is_float(kg_dtype(g, y))) return grad_first(g, y, grad_hole(g));
    return grad_first(g, y, kg_cast(g, kg_at(g, n, 1), kg_dtype(g, x)));
}

/* k x, with k and a factor x has already made one: the factors of exp and log, log2 e and ln 2, cancel. */
static kn_ref grad_scaled(kn_graph *g, kn_ref x, double k) {
    if (kg_op(g, x) == KN_OP_MUL && kg_op(g, kg_at(g, x, 1)) == KN_OP_CONST && kg_same_shape(g, x, kg_at(g, x, 0))) {
        k *= kg_const_float(g, kg_at(g, x, 1));
        x = kg_at(g, x, 0);
    }
    kn_ref c = kg_float(g, kg_dtype(g, x), k);
    return !c || fabs(k - 1) < 0x1p-51 || kg_is_const(g, c, 1) ? x : kg_op2(g, KN_OP_MUL, x, c);
}

/* MUL by a constant. */
kn_ref kn_grad_scale(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), a = kg_at(g, y, 0), b = kg_at(g, y, 1), hole = grad_hole(g);
    bool      first = kg_op(g, a) == KN_OP_CONST;
    if (!first && kg_op(g, b) != KN_OP_CONST) return 0;
    kn_ref grad = grad_scaled(g, kg_at(g, n, 1), kg_const_float(g, first ? a : b));
    return kg_list(g, KN_OP_TUPLE, first ? (kn_ref[]){hole, grad} : (kn_ref[]){grad, hole}, 2);
}

kn_ref kn_grad_log2(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), grad = grad_scaled(g, kg_at(g, n, 1), 1.44269504088896340736);
    return grad_first(g, y, kg_op2(g, KN_OP_DIV, grad, kg_at(g, y, 0)));
}

/* MAX, MIN. Against a constant (relu, clamp) a tie counts as the constant's, and the result tells; otherwise the two
 * sides share a tie evenly. */
kn_ref kn_grad_extremum(kn_rw *rw, kn_ref n) {
    kn_graph *g = rw->g;
    kn_ref    y = kg_at(g, n, 0), grad = kg_at(g, n, 1), part[2];
    kn_ref    zero = kg_float(g, kg_dtype(g, y), 0), half = kg_float(g, kg_dtype(g, y), 0.5);
    for (uint32_t i = 0; i < 2; i++) {
        kn_ref x = kg_at(g, y, i), other = kg_at(g, y, 1 - i);
        if (kg_op(g, x) == KN_OP_CONST) {
            part[i] = grad_hole(g);
        } else if (kg_op(g, other) == KN_OP_CONST) {
            bool max = kg_op(g, y) == KN_OP_MAX;
            part[i] = kg_op3(g, KN_OP_WHERE, kg_op2(g, KN_OP_CMPLT, max ? other : y, max ? y : other), grad, zero);
        } else {
            kn_ref tie = kg_op2(g, KN_OP_CMPEQ, kg_at(g, y, 0), kg_at(g, y, 1));
            kn_ref share = kg_op3(g, KN_OP_WHERE, tie, kg_op2(g, KN_OP_MUL, grad, half), grad);
            part[i] = kg_op3(g, KN_OP_WHERE, kg_op2(g, KN_OP_CMPEQ, x, y), share, zero);
        }
    }
    return kg_list(g, KN_OP_TUPLE, part, 2);
}
