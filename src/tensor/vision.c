/* vision.c - convolution, pooling and batch normalisation of images (N, C, H, W).
 *
 * Contract: compositions of movement ops, products and reductions; none is an op of its own. Windows are made so that
 * they and their gradients are affine indices: x is repeated once for each position in the window, and each repetition
 * is shifted by reading rows of one length as rows that are longer by the dilation. All repetitions (the output
 * channels too) are made by one EXPAND before any shift, so that the gradient of x is one reduction over all of them: a
 * convolution that gathers. */
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

typedef struct vision_axis { /* height or width */
    int64_t in, kernel, stride, before, dilation;
    int64_t out; /* windows */
} vision_axis;

/* One number of a pair: the second is that of the width; 0 there stands for the first, -1 for none. */
static int64_t vision_pair(const int64_t v[2], int i, int64_t dflt) {
    int64_t n = i && v[1] ? v[1] : v[0];
    return n == 0 ? dflt : n == -1 ? 0 : n;
}

static bool vision_axis_ok(const kt_call *c, kn_ref x, int i, vision_axis *a) {
    const int64_t limit = INT32_MAX;
    char          t[KT_SHAPE_TEXT];
    if (a->kernel < 1 || a->stride < 1 || a->dilation < 1 || a->before < 0 || a->kernel > limit || a->stride > limit ||
        a->dilation > limit || a->before > limit || a->in > limit * limit / 4) {
        kt_fail(c->kn, KN_ERR_ARG, "%s: %s: window %lld, stride %lld, padding %lld, dilation %lld", c->op,
                i ? "width" : "height", (long long)a->kernel, (long long)a->stride, (long long)a->before,
                (long long)a->dilation);
        return false;
    }
    int64_t room = a->in + 2 * a->before - (a->kernel - 1) * a->dilation;
    if (room < 1) {
        kt_fail(c->kn, KN_ERR_SHAPE,
                "%s: a window of %lld, dilation %lld, does not fit into the %s of %s, padding %lld", c->op,
                (long long)a->kernel, (long long)a->dilation, i ? "width" : "height", kt_shape_text(c->g, x, t),
                (long long)a->before);
        return false;
    }
    a->out = (room - 1) / a->stride + 1;
    return true;
}

/* What windows are cut from: zeros before (padding, and room for the shift back of gradients) and behind. */
static int64_t vision_lead(const vision_axis *a) { return (a->kernel - 1) * a->dilation; }
static int64_t vision_length(const vision_axis *a) {
    int64_t need = vision_lead(a) + a->out * a->stride;
    return vision_lead(a) + KN_MAX(a->in + 2 * a->before, need);
}

/* (..., kernel, length, ...) at axes at, at + 1, as one axis, longer, and as rows again, a dilation longer: element
 * (k, o) is what was (k, o + k dilation). */
static kn_ref vision_shift(kn_graph *g, kn_ref x, int at, const vision_axis *a) {
    int     rank;
    int64_t d[KN_MAX_RANK], flat[KN_MAX_RANK], off[KN_MAX_RANK] = {0}, length = vision_length(a);
    if (!x || a->kernel == 1) return x;
    memcpy(d, kg_shape(g, x, &rank), (size_t)kg_rank(g, x) * sizeof *d);
    memcpy(flat, d, (size_t)(at + 1) * sizeof *flat);
    memcpy(flat + at + 1, d + at + 2, (size_t)(rank - at - 2) * sizeof *flat);
    flat[at]  = a->kernel * length;
    x         = kg_reshape(g, x, flat, rank - 1);
    flat[at]  = a->kernel * (length + a->dilation);
    x         = kg_pad(g, x, off, flat, rank - 1);
    d[at + 1] = length + a->dilation;
    return kg_reshape(g, x, d, rank);
}

/* Of the axis `at` of out * stride elements, each stride's first. */
static kn_ref vision_stride(kn_graph *g, kn_ref x, int at, const vision_axis *a) {
    int     rank;
    int64_t d[KN_MAX_RANK], cut[KN_MAX_RANK], zero[KN_MAX_RANK] = {0};
    if (!x || a->stride == 1) return x;
    memcpy(d, kg_shape(g, x, &rank), (size_t)kg_rank(g, x) * sizeof *d);
    memcpy(cut, d, (size_t)at * sizeof *cut);
    cut[at]     = a->out;
    cut[at + 1] = a->stride;
    memcpy(cut + at + 2, d + at + 1, (size_t)(rank - at - 1) * sizeof *cut);
    x           = kg_reshape(g, x, cut, rank + 1);
    cut[at + 1] = 1;
    d[at]       = a->out;
    return kg_reshape(g, kg_shrink(g, x, zero, cut, rank + 1), d, rank);
}

/* x, of shape (front..., H, W) given as `front` (nfront sizes, with x's own elements in `own`, both of that rank), to
 * (front..., kh, oh, kw, ow). */
static kn_ref vision_windows(kn_graph *g, kn_ref x, const int64_t *own, const int64_t *front, int nfront,
                             const vision_axis a[2]) {
    int64_t d[KN_MAX_RANK], off[KN_MAX_RANK] = {0};
    int     rank = nfront + 4;
    memcpy(d, own, (size_t)nfront * sizeof *d);
    for (int i = 0; i < 2; i++) d[nfront + 2 * i] = 1, d[nfront + 2 * i + 1] = a[i].in;
    x        = kg_reshape(g, x, d, rank);
    bool pad = false;
    for (int i = 0; i < 2; i++) {
        off[nfront + 2 * i + 1] = vision_lead(&a[i]) + a[i].before;
        d[nfront + 2 * i + 1]   = vision_length(&a[i]);
        pad |= vision_length(&a[i]) != a[i].in;
    }
    if (pad) x = kg_pad(g, x, off, d, rank);
    memcpy(d, front, (size_t)nfront * sizeof *d);
    for (int i = 0; i < 2; i++) d[nfront + 2 * i] = a[i].kernel;
    x = kg_expand(g, x, d, rank);
    x = vision_shift(g, vision_shift(g, x, nfront, &a[0]), nfront + 2, &a[1]);
    if (!x) return 0;
    memcpy(d, kg_shape(g, x, NULL), (size_t)rank * sizeof *d);
    memset(off, 0, sizeof off);
    bool cut = false;
    for (int i = 0; i < 2; i++) { /* both at once: so are the zeros of the gradient */
        int at  = nfront + 2 * i + 1;
        off[at] = vision_lead(&a[i]);
        cut |= d[at] != a[i].out * a[i].stride;
        d[at] = a[i].out * a[i].stride;
    }
    if (cut) x = kg_shrink(g, x, off, d, rank);
    return vision_stride(g, vision_stride(g, x, nfront + 1, &a[0]), nfront + 3, &a[1]);
}

static bool vision_image(const kt_call *c, kn_ref x) {
    char           t[KT_SHAPE_TEXT];
    const int64_t *s = kg_shape(c->g, x, NULL);
    if (kg_rank(c->g, x) == 4 && s[1] >= 0 && s[2] >= 0 && s[3] >= 0) return true;
    if (kg_rank(c->g, x) == 4) {
        kt_fail(c->kn, KN_ERR_UNSUPPORTED, "%s: %s: of (N, C, H, W) only N may be symbolic", c->op,
                kt_shape_text(c->g, x, t));
        return false;
    }
    kt_fail(c->kn, KN_ERR_SHAPE, "%s: %s is not (N, C, H, W)", c->op, kt_shape_text(c->g, x, t));
    return false;
}

/* ---- convolution ----------------------------------------------------------------------------------------------- */

static const kn_conv2d_opts conv_defaults = {.size = sizeof conv_defaults};

kn_tensor *kn_conv2d_opt(kn_tensor *x, kn_tensor *w, kn_tensor *bias, const kn_conv2d_opts *o) {
    kt_call     c;
    kn_ref      n[3];
    vision_axis a[2];
    char        tx[KT_SHAPE_TEXT], tw[KT_SHAPE_TEXT];
    if (!kt_begin(&c, "kn_conv2d", (kn_tensor *[]){x, w, bias}, bias ? 3 : 2, n)) return kt_poison(&c);
    if (!o) o = &conv_defaults;
    if (o->size != sizeof *o)
        return kt_fail(c.kn, KN_ERR_ARG, "kn_conv2d: the options' .size is not sizeof(kn_conv2d_opts)");
    if (!vision_image(&c, n[0])) return kt_poison(&c);
    int            wr;
    const int64_t *s = kg_shape(c.g, n[0], NULL), *ws = kg_shape(c.g, n[1], &wr);
    int64_t        groups = o->groups ? o->groups : 1;
    if (groups < 1 || wr != 4 || kg_numel(c.g, n[1]) < 0 || ws[0] % groups || s[1] % groups || ws[1] != s[1] / groups)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_conv2d: %s with weights %s in %lld groups: (N, C, H, W) takes "
                       "(O, C / groups, KH, KW)", kt_shape_text(c.g, n[0], tx), kt_shape_text(c.g, n[1], tw),
                       (long long)groups);
    for (int i = 0; i < 2; i++) {
        a[i] = (vision_axis){.in = s[2 + i], .kernel = ws[2 + i], .stride = vision_pair(o->stride, i, 1),
                             .before = vision_pair(o->padding, i, 0), .dilation = vision_pair(o->dilation, i, 1)};
        if (!vision_axis_ok(&c, n[0], i, &a[i])) return kt_poison(&c);
    }
    if (bias && (kg_rank(c.g, n[2]) != 1 || kg_shape(c.g, n[2], NULL)[0] != ws[0]))
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_conv2d: a bias of shape %s for %lld channels",
                       kt_shape_text(c.g, n[2], tx), (long long)ws[0]);
    int dt = kt_promote((kn_dtype)kg_dtype(c.g, n[0]), (kn_dtype)kg_dtype(c.g, n[1]));
    if (bias) dt = kt_promote((kn_dtype)dt, (kn_dtype)kg_dtype(c.g, n[2]));
    int     acc = kt_acc_dtype(dt), rank = 8;
    int64_t oc = ws[0] / groups, ic = ws[1], batch = s[0];
    int64_t y[4] = {batch, ws[0], a[0].out, a[1].out};
    int64_t own[4] = {batch, groups, 1, ic}, front[4] = {batch, groups, oc, ic};
    int64_t wd[8] = {1, groups, oc, ic, a[0].kernel, 1, a[1].kernel, 1}, axes[3] = {3, 4, 6};
    if (!kg_numel(c.g, n[0]) || !kg_numel(c.g, n[1])) {
        kn_ref none = kt_fill(&c, (kn_dtype)acc, 0, y, 4);
        return kt_wrap(c.kn, kg_cast(c.g, none, kt_sum_dtype(dt)), "kn_conv2d");
    }
    kn_ref win = vision_windows(c.g, kg_cast(c.g, n[0], acc), own, front, 4, a);
    kn_ref wgt = kg_reshape(c.g, kg_cast(c.g, n[1], acc), wd, rank);
    kn_ref sum = kg_reduce(c.g, kg_op2(c.g, KN_OP_MUL, win, wgt), KN_OP_ADD, axes, 3);
    sum        = kg_reshape(c.g, sum, y, 4);
    if (bias) {
        int64_t bd[4] = {1, y[1], 1, 1};
        sum           = kg_op2(c.g, KN_OP_ADD, sum, kg_reshape(c.g, kg_cast(c.g, n[2], acc), bd, 4));
    }
    return kt_wrap(c.kn, kg_cast(c.g, sum, kt_sum_dtype(dt)), "kn_conv2d");
}

/* ---- pooling --------------------------------------------------------------------------------------------------- */

static const kn_pool_opts pool_defaults = {.size = sizeof pool_defaults};

typedef struct pooling {
    kt_call     c;
    kn_ref      x;
    int64_t     dims[2]; /* N, C */
    vision_axis a[2];
} pooling;

static bool pooling_begin(pooling *p, const char *op, kn_tensor *x, const kn_pool_opts *o) {
    if (!kt_begin(&p->c, op, &x, 1, &p->x)) return false;
    if (!o) o = &pool_defaults;
    if (o->size != sizeof *o) {
        kt_fail(p->c.kn, KN_ERR_ARG, "%s: the options' .size is not sizeof(kn_pool_opts)", op);
        return false;
    }
    if (!vision_image(&p->c, p->x)) return false;
    const int64_t *s = kg_shape(p->c.g, p->x, NULL);
    p->dims[0]       = s[0];
    p->dims[1]       = s[1];
    for (int i = 0; i < 2; i++) {
        int64_t k = vision_pair(o->kernel, i, 2);
        p->a[i]   = (vision_axis){.in = s[2 + i], .kernel = k, .stride = vision_pair(o->stride, i, k),
                                  .before = vision_pair(o->padding, i, 0), .dilation = vision_pair(o->dilation, i, 1)};
        if (!vision_axis_ok(&p->c, p->x, i, &p->a[i])) return false;
        if (2 * p->a[i].before > k * p->a[i].dilation) {
            kt_fail(p->c.kn, KN_ERR_ARG, "%s: padding %lld is more than half the window", op,
                    (long long)p->a[i].before);
            return false;
        }
    }
    return true;
}

/* Windows that lie side by side are a RESHAPE; else they are shifted repetitions. Axes: (N, C, h, h, w, w); *axes are
 * the two within windows. */
static kn_ref pooling_windows(const pooling *p, kn_ref x, int64_t axes[2]) {
    kn_graph *g    = p->c.g;
    bool      tile = true;
    for (int i = 0; i < 2; i++) {
        const vision_axis *a = &p->a[i];
        tile &= a->kernel == a->stride && (a->dilation == 1 || a->kernel == 1) && !a->before;
    }
    axes[0] = tile ? 3 : 2;
    axes[1] = tile ? 5 : 4;
    if (!tile) return vision_windows(g, x, p->dims, p->dims, 2, p->a);
    int64_t zero[4] = {0}, d[6] = {p->dims[0], p->dims[1]}, cut[4] = {p->dims[0], p->dims[1]};
    bool    whole   = true;
    for (int i = 0; i < 2; i++) {
        d[2 + 2 * i] = p->a[i].out;
        d[3 + 2 * i] = p->a[i].kernel;
        cut[2 + i]   = p->a[i].out * p->a[i].kernel;
        whole &= cut[2 + i] == p->a[i].in;
    }
    return kg_reshape(g, whole ? x : kg_shrink(g, x, zero, cut, 4), d, 6);
}

static kn_tensor *pooling_end(const pooling *p, kn_ref y, int dtype) {
    int64_t d[4] = {p->dims[0], p->dims[1], p->a[0].out, p->a[1].out};
    return kt_wrap(p->c.kn, kg_cast(p->c.g, kg_reshape(p->c.g, y, d, 4), dtype), p->c.op);
}

kn_tensor *kn_max_pool2d_opt(kn_tensor *x, const kn_pool_opts *o) {
    pooling p;
    int64_t axes[2];
    if (!pooling_begin(&p, "kn_max_pool2d", x, o)) return kt_poison(&p.c);
    int    dt  = kg_dtype(p.c.g, p.x);
    kn_ref win = pooling_windows(&p, p.x, axes);
    if (p.a[0].before || p.a[1].before) { /* padding is never the largest */
        int64_t   d[4] = {1, 1, p.a[0].in, p.a[1].in};
        kn_scalar least = kn_identity(KN_OP_MAX, dt);
        pooling   q     = p;
        q.dims[0] = q.dims[1] = 1;
        kn_ref inside = pooling_windows(&q, kt_fill(&p.c, KN_BOOL, 1, d, 4), axes);
        kn_ref low    = kn_is_float(dt) ? kg_float(p.c.g, dt, least.f) : kg_int(p.c.g, dt, least.i);
        win           = kg_op3(p.c.g, KN_OP_WHERE, inside, win, low);
    }
    return pooling_end(&p, win ? kg_reduce(p.c.g, win, KN_OP_MAX, axes, 2) : 0, dt);
}

kn_tensor *kn_avg_pool2d_opt(kn_tensor *x, const kn_pool_opts *o) {
    pooling p;
    int64_t axes[2];
    if (!pooling_begin(&p, "kn_avg_pool2d", x, o)) return kt_poison(&p.c);
    int    dt  = kg_dtype(p.c.g, p.x);
    kn_ref w   = kt_wide(&p.c, p.x);
    kn_ref win = w ? pooling_windows(&p, w, axes) : 0;
    kn_ref sum = win ? kg_reduce(p.c.g, win, KN_OP_ADD, axes, 2) : 0;
    if (!sum) return kt_wrap(p.c.kn, 0, p.c.op);
    double k = 1.0 / (double)(p.a[0].kernel * p.a[1].kernel);
    sum      = kg_op2(p.c.g, KN_OP_MUL, sum, kt_const(&p.c, kg_dtype(p.c.g, sum), k));
    return pooling_end(&p, sum, kn_is_float(dt) ? dt : KN_F32);
}

/* ---- batch normalisation --------------------------------------------------------------------------------------- */

static const kn_batch_norm_opts norm_defaults = {.size = sizeof norm_defaults};

/* (C) as (1, C, 1, ...), of dtype dt. */
static kn_ref norm_per_channel(const kt_call *c, kn_ref v, int dt, int rank) {
    int64_t d[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) d[i] = i == 1 ? kg_shape(c->g, v, NULL)[0] : 1;
    return kg_reshape(c->g, kg_cast(c->g, v, dt), d, rank);
}

/* running := running + momentum (batch - running) */
static kn_status norm_update(const kt_call *c, kn_tensor *running, kn_ref node, kn_ref batch, double momentum) {
    int    dt   = kg_dtype(c->g, batch), channels = (int)kg_rank(c->g, node);
    kn_ref old  = kg_cast(c->g, node, dt), now = kg_reshape(c->g, batch, kg_shape(c->g, node, NULL), channels);
    kn_ref step = kg_op2(c->g, KN_OP_MUL, kg_op2(c->g, KN_OP_SUB, now, old), kt_const(c, dt, momentum));
    kn_ref next = kg_op1(c->g, KN_OP_DETACH, kg_op2(c->g, KN_OP_ADD, old, step));
    return kn_ok(kn_assign(running, kt_wrap(c->kn, next, c->op))) ? KN_OK : KN_ERR_STATE;
}

/* n / (n - 1), or 1 where there is but one. */
static kn_ref norm_unbias(const kt_call *c, int64_t n, int dt) {
    if (n >= 0) return kt_const(c, dt, n > 1 ? (double)n / (double)(n - 1) : 1);
    kn_ref one = kt_const(c, dt, 1), many = kt_size_as(c, n, dt);
    kn_ref less = kg_op2(c->g, KN_OP_MAX, kg_op2(c->g, KN_OP_SUB, many, one), one);
    return kg_op2(c->g, KN_OP_MUL, many, kg_op1(c->g, KN_OP_RECIP, less));
}

kn_tensor *kn_batch_norm_opt(kn_tensor *x, kn_tensor *gamma, kn_tensor *beta, const kn_batch_norm_opts *o) {
    kt_call     c;
    kn_ref      n[5];
    kn_tensor  *in[5] = {x};
    const char *name[5] = {"x", "gamma", "beta", "running mean", "running variance"};
    int         at[5] = {0}, count = 1;
    char        t[KT_SHAPE_TEXT], ts[KT_SHAPE_TEXT];
    if (!o) o = &norm_defaults;
    kn_tensor *const given[5] = {x, gamma, beta, o->mean, o->var};
    bool             sized = o->size == sizeof *o;
    for (int i = 1; i < (sized ? 5 : 3); i++)
        if (given[i]) at[i] = count, in[count++] = given[i];
    if (!kt_begin(&c, "kn_batch_norm", in, count, n)) return kt_poison(&c);
    if (!sized)
        return kt_fail(c.kn, KN_ERR_ARG, "kn_batch_norm: the options' .size is not sizeof(kn_batch_norm_opts)");
    int            rank;
    const int64_t *s   = kg_shape(c.g, n[0], &rank);
    double         eps = o->eps == 0 && !signbit(o->eps) ? 1e-5 : o->eps;
    double         momentum = o->momentum == 0 && !signbit(o->momentum) ? 0.1 : o->momentum;
    if (rank < 2)
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_batch_norm: %s is not (N, C, ...)", kt_shape_text(c.g, n[0], t));
    if (!(eps >= 0) || !(momentum >= 0 && momentum <= 1))
        return kt_fail(c.kn, KN_ERR_ARG, "kn_batch_norm: eps is %s, momentum %s", KN_NUM(eps), KN_NUM(momentum));
    for (int i = 1; i < 5; i++)
        if (at[i] && (kg_rank(c.g, n[at[i]]) != 1 || kg_shape(c.g, n[at[i]], NULL)[0] != s[1]))
            return kt_fail(c.kn, KN_ERR_SHAPE, "kn_batch_norm: %s of shape %s for %s: one a channel", name[i],
                           kt_shape_text(c.g, n[at[i]], ts), kt_shape_text(c.g, n[0], t));
    if (!at[3] != !at[4] || (!o->training && !at[3]))
        return kt_fail(c.kn, KN_ERR_ARG, "kn_batch_norm: %s", o->training ?
                       ".mean and .var come together" : "needs .mean and .var when it is not training");
    kn_ref w = kt_wide(&c, n[0]), mean, var;
    if (!w) return kt_wrap(c.kn, 0, "kn_batch_norm");
    int    dt = kg_dtype(c.g, w);
    kn_ref d;
    if (o->training) {
        int64_t    axes[KN_MAX_RANK];
        int        naxes = 0;
        kn_factors all   = {.fixed = 1};
        for (int i = 0; i < rank; i++)
            if (i != 1) axes[naxes++] = i, kg_factor(c.g, &all, s[i]);
        int64_t each = kg_product(c.g, &all);
        if (!each)
            return kt_fail(c.kn, KN_ERR_SHAPE, "kn_batch_norm: %s has no elements", kt_shape_text(c.g, n[0], t));
        kn_ref k = kt_one_over(&c, each, dt);
        mean     = kg_op2(c.g, KN_OP_MUL, kg_reduce(c.g, w, KN_OP_ADD, axes, naxes), k);
        d        = kg_op2(c.g, KN_OP_SUB, w, mean);
        var      = kg_op2(c.g, KN_OP_MUL, kg_reduce(c.g, kg_op2(c.g, KN_OP_MUL, d, d), KN_OP_ADD, axes, naxes), k);
        if (at[3]) { /* the running variance is the unbiased one */
            kn_ref running = kg_op2(c.g, KN_OP_MUL, var, norm_unbias(&c, each, dt));
            if (!mean || !running) return kt_wrap(c.kn, 0, "kn_batch_norm");
            if (norm_update(&c, o->mean, n[at[3]], mean, momentum) ||
                norm_update(&c, o->var, n[at[4]], running, momentum))
                return kt_poison(&c);
        }
    } else {
        mean = norm_per_channel(&c, n[at[3]], dt, rank);
        var  = norm_per_channel(&c, n[at[4]], dt, rank);
        d    = kg_op2(c.g, KN_OP_SUB, w, mean);
    }
    kn_ref root  = kg_op1(c.g, KN_OP_SQRT, kg_op2(c.g, KN_OP_ADD, var, kt_const(&c, dt, eps)));
    kn_ref scale = kg_op1(c.g, KN_OP_RECIP, root);
    if (at[1]) scale = kg_op2(c.g, KN_OP_MUL, scale, norm_per_channel(&c, n[at[1]], dt, rank));
    kn_ref y = kg_op2(c.g, KN_OP_MUL, d, scale);
    if (at[2]) y = kg_op2(c.g, KN_OP_ADD, y, norm_per_channel(&c, n[at[2]], dt, rank));
    int out = kn_is_float(kg_dtype(c.g, n[0])) ? kg_dtype(c.g, n[0]) : KN_F32;
    return kt_wrap(c.kn, kg_cast(c.g, y, out), "kn_batch_norm");
}
