/* digits_model.c - the programs that `koine demo digits` trains: a perceptron, and a convolutional net. */
#include "digits.h"

const digits_model *digits_model_of(int model) {
    static const digits_model models[DIGITS_MODELS] = {
        [DIGITS_MLP] = {.name = "mlp", .title = "784-128-10, relu",
                        .first = "h = kn_relu(kn_add(kn_matmul(x, w1), b1));"},
        [DIGITS_CONV] = {.name = "conv", .title = "conv 16 3x3, relu, pool, conv 32 3x3, norm, relu, pool, linear 10",
                         .first = "h = kn_relu(kn_conv2d(x, w1, b1));"},
    };
    return model >= 0 && model < DIGITS_MODELS ? &models[model] : NULL;
}

/* A weight, (in, out) or (O, C, H, W), is drawn; anything else is a shift of zeros or, `one`, a scale of ones. */
typedef struct model_param {
    int     rank, one;
    kn_dim  dims[4];
} model_param;

static int model_params(int model, const model_param **p) {
    static const model_param mlp[] = {{2, 0, {DIGITS_PIXELS, DIGITS_HIDDEN}}, {1, 0, {DIGITS_HIDDEN}},
                                      {2, 0, {DIGITS_HIDDEN, DIGITS_CLASSES}}, {1, 0, {DIGITS_CLASSES}}};
    static const model_param conv[] = {{4, 0, {16, 1, 3, 3}}, {1, 0, {16}}, {4, 0, {32, 16, 3, 3}}, {1, 0, {32}},
                                       {1, 1, {32}}, {1, 0, {32}}, {2, 0, {32 * 5 * 5, DIGITS_CLASSES}},
                                       {1, 0, {DIGITS_CLASSES}}};
    *p = model == DIGITS_CONV ? conv : mlp;
    return model == DIGITS_CONV ? (int)KN_COUNT(conv) : (int)KN_COUNT(mlp);
}

void digits_net_new(digits_net *m, kn_context *kn, int model) {
    const model_param *p;
    *m = (digits_net){.model = model, .nparam = model_params(model, &p)};
    for (int i = 0; i < m->nparam; i++) m->param[i] = kn_empty(kn, KN_F32, p[i].dims, p[i].rank);
    if (model != DIGITS_CONV) return;
    m->mean = kn_empty(kn, KN_F32, KN_DIMS(32));
    m->var  = kn_empty(kn, KN_F32, KN_DIMS(32));
}

void digits_net_init(digits_net *m, kn_context *kn) {
    const model_param *p;
    model_params(m->model, &p);
    for (int i = 0; i < m->nparam; i++) {
        if (p[i].rank > 1) kn_assign(m->param[i], kn_kaiming_uniform(kn, p[i].dims, p[i].rank));
        if (p[i].one) kn_assign(m->param[i], kn_ones(kn, KN_F32, p[i].dims, p[i].rank));
    }
    if (m->var) kn_assign(m->var, kn_ones(kn, KN_F32, KN_DIMS(32)));
}

kn_tensor *digits_first(const digits_net *m, kn_tensor *x) {
    kn_tensor *const *p = m->param;
    if (m->model == DIGITS_MLP) return kn_relu(kn_add(kn_matmul(x, p[0]), p[1]));
    return kn_relu(kn_conv2d(kn_reshape(x, KN_DIMS(-1, 1, DIGITS_SIDE, DIGITS_SIDE)), p[0], p[1]));
}

kn_tensor *digits_logits(const digits_net *m, kn_tensor *x, bool training) {
    kn_tensor *const *p = m->param, *h = digits_first(m, x);
    if (m->model == DIGITS_MLP) return kn_add(kn_matmul(h, p[2]), p[3]);
    h = kn_conv2d(kn_max_pool2d(h), p[2], p[3]);
    h = kn_batch_norm(h, p[4], p[5], .mean = m->mean, .var = m->var, .training = training);
    h = kn_max_pool2d(kn_relu(h));
    return kn_add(kn_matmul(kn_flatten(h, 1), p[6]), p[7]);
}
