/* optim.c - optimisers: gradients and updates as graphs.
 *
 * kn_minimize adds assignments of the parameters and of the optimiser's state; they run with the scope, so a training
 * step is one schedule. What is assigned for one parameter has the parameter's index space, so that it fuses into one
 * kernel. Hyperparameters are constants, state is storage: every step has the same form and is compiled once. */
#include "tensor/gradient.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

struct kn_optim {
    kn_context *kn;
    const char *op;
    bool        adam;
    union {
        kn_sgd_opts  sgd;
        kn_adam_opts ad;
    };
    int         n;
    kn_tensor **param, **m, **v; /* v: Adam alone; m: Adam, or SGD with momentum */
    kn_tensor  *c1, *c2;         /* Adam's bias corrections, see adam_update */
};

/* A number option: 0 stands for the default, KN_ZERO for 0. */
static double optim_number(double given, double usual) {
    if (given != 0) return given;
    return signbit(given) ? 0 : usual;
}

static kn_tensor *optim_state(kn_optim *o, kn_tensor *like) {
    int            rank = kn_rank(like);
    kn_dim         dims[KN_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = kn_size(like, i);
    return kn_empty(o->kn, kn_dtype_of(like) == KN_F64 ? KN_F64 : KN_F32, dims, rank);
}

static kn_optim *optim_new(kn_context *kn, const char *op, kn_tensor *const *params, int n, bool first, bool second) {
    if (!kn) return NULL;
    if (n < 0 || (n && !params)) {
        kt_error(kn, KN_ERR_ARG, "%s: %d parameters at %s", op, n, params ? "an address" : "NULL");
        return NULL;
    }
    size_t     each = (size_t)n * sizeof(kn_tensor *);
    kn_optim  *o = kt_own(kn, sizeof *o + 3 * each + (size_t)n * sizeof(kt_slot *));
    if (!o) return NULL;
    o->kn = kn;
    o->op = op;
    o->n = n;
    o->param = (kn_tensor **)(void *)(o + 1);
    o->m = o->param + n;
    o->v = o->m + n;
    kt_slot **slots = (kt_slot **)(void *)(o->v + n);
    for (int i = 0; i < n; i++) {
        if (!(slots[i] = kt_check(kn, op, params[i]))) return NULL;
        o->param[i] = params[i];
        if (!kn_is_float((int)kn_dtype_of(params[i]))) {
            kt_error(kn, KN_ERR_DTYPE, "%s: parameter %d is %s: only floats can be trained", op, i,
                     kn_dtype_name(kn_dtype_of(params[i])));
            return NULL;
        }
    }
    /* An initial value that was computed, not a view of another tensor's. */
    for (int i = 0; i < n; i++) {
        bool computed = !slots[i]->store && !kn_is_movement(kg_op(kn->g, kt_node(slots[i])));
        if (computed && kn_realize(&params[i], 1) != KN_OK) return NULL;
    }
    if (n && !kt_make_storage(kn, op, slots, n)) return NULL;
    for (int i = 0; i < n; i++) {
        if (first && !kn_ok(o->m[i] = optim_state(o, params[i]))) return NULL;
        if (second && !kn_ok(o->v[i] = optim_state(o, params[i]))) return NULL;
    }
    return o;
}

/* Options as this version knows them: a caller built against an older header gives fewer. */
static bool optim_options(kn_context *kn, const char *op, void *to, size_t to_size, const void *from,
                          size_t from_size) {
    if (from && (!from_size || from_size > to_size)) {
        kt_error(kn, KN_ERR_ARG, "%s: the options' size is %zu, not %zu: set .size = sizeof(options)", op, from_size,
                 to_size);
        return false;
    }
    if (from) memcpy(to, from, from_size);
    return true;
}

kn_optim *kn_sgd_opt(kn_context *kn, kn_tensor *const *params, int n, const kn_sgd_opts *o) {
    kn_sgd_opts s = {0};
    if (!kn || !optim_options(kn, "kn_sgd", &s, sizeof s, o, o ? o->size : 0)) return NULL;
    kn_optim *r = optim_new(kn, "kn_sgd", params, n, s.momentum != 0, false);
    if (!r) return NULL;
    s.lr = optim_number(s.lr, 0.01);
    r->sgd = s;
    return r;
}

kn_optim *kn_adam_opt(kn_context *kn, kn_tensor *const *params, int n, const kn_adam_opts *o) {
    kn_adam_opts s = {0};
    if (!kn || !optim_options(kn, "kn_adam", &s, sizeof s, o, o ? o->size : 0)) return NULL;
    kn_optim *r = optim_new(kn, "kn_adam", params, n, true, true);
    if (!r) return NULL;
    r->adam = true;
    s.lr = optim_number(s.lr, 0.001);
    s.beta1 = optim_number(s.beta1, 0.9);
    s.beta2 = optim_number(s.beta2, 0.999);
    s.eps = optim_number(s.eps, 1e-8);
    r->ad = s;
    if (!kn_ok(r->c1 = kn_empty(kn, KN_F32, NULL, 0)) || !kn_ok(r->c2 = kn_empty(kn, KN_F32, NULL, 0))) return NULL;
    return r;
}

/* ---- one step ------------------------------------------------------------------------------------------------ */

typedef struct optim_step {
    kn_optim *o;
    kn_graph *g;
    int       dt; /* what the update is computed in: the state's dtype */
} optim_step;

static kn_ref step_scale(const optim_step *s, kn_ref x, double k) {
    return k == 1 ? x : kg_op2(s->g, KN_OP_MUL, x, kg_float(s->g, s->dt, k));
}

static kn_ref step_state(kn_tensor *t) {
    kt_slot *slot = kt_slot_of(t);
    return slot ? kt_node(slot) : 0;
}

static bool step_assign(const optim_step *s, kn_tensor *t, kn_ref value) {
    kt_slot *slot = kt_check(s->o->kn, s->o->op, t);
    value = slot ? kg_cast(s->g, value, kg_dtype(s->g, slot->store)) : 0;
    if (!slot || !kt_may_assign(s->o->kn, s->o->op, slot)) return false;
    if (!value) return kt_take_fault(s->o->kn, kg_fault(s->g), s->o->op) == KN_OK;
    return kt_add_pending(s->o->kn, slot, value);
}

/* a decayed towards x: beta a + (1 - beta) x. */
static kn_ref step_average(const optim_step *s, kn_ref a, kn_ref x, double beta) {
    return kg_op2(s->g, KN_OP_ADD, step_scale(s, a, beta), step_scale(s, x, 1 - beta));
}

/* Sutskever, Martens, Dahl, Hinton: On the importance of initialization and momentum (2013), in the form that keeps the
 * learning rate out of the velocity:  v = momentum v + g;  w -= lr (nesterov ? g + momentum v : v). */
static bool sgd_update(const optim_step *s, int i, kn_ref w, kn_ref grad) {
    const kn_sgd_opts *k = &s->o->sgd;
    kn_graph          *g = s->g;
    if (k->weight_decay != 0) grad = kg_op2(g, KN_OP_ADD, grad, step_scale(s, w, k->weight_decay));
    if (k->momentum != 0) {
        kn_ref m = kg_op2(g, KN_OP_ADD, step_scale(s, step_state(s->o->m[i]), k->momentum), grad);
        if (!step_assign(s, s->o->m[i], m)) return false;
        grad = k->nesterov ? kg_op2(g, KN_OP_ADD, grad, step_scale(s, m, k->momentum)) : m;
    }
    return step_assign(s, s->o->param[i], kg_op2(g, KN_OP_ADD, w, step_scale(s, grad, -k->lr)));
}

/* Kingma, Ba: Adam (2015), algorithm 1; decay of weights apart from the moments as in Loshchilov, Hutter: Decoupled
 * weight decay regularization (2019):
 *   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w -= lr (m / c1 / (sqrt(v / c2) + eps) + decay w)
 * c = 1 - b^t is kept as state: it is the average of ones, c = b c + (1 - b), which needs no power and, unlike 1 - b^t
 * in f32, loses nothing at small t. c1, c2 are the corrections of this step. */
static bool adam_update(const optim_step *s, int i, kn_ref w, kn_ref grad, kn_ref c1, kn_ref c2) {
    const kn_adam_opts *k = &s->o->ad;
    kn_graph           *g = s->g;
    kn_ref              m = step_average(s, step_state(s->o->m[i]), grad, k->beta1);
    kn_ref              v = step_average(s, step_state(s->o->v[i]), kg_op2(g, KN_OP_MUL, grad, grad), k->beta2);
    kn_ref              per_c2 = kg_op1(g, KN_OP_RECIP, kg_cast(g, c2, s->dt)); /* a scalar: outside the loop */
    kn_ref              root = kg_op1(g, KN_OP_SQRT, kg_op2(g, KN_OP_MUL, v, per_c2));
    kn_ref              rate = kg_op2(g, KN_OP_DIV, kg_float(g, s->dt, -k->lr), kg_cast(g, c1, s->dt));
    kn_ref              move = kg_op2(g, KN_OP_DIV, kg_op2(g, KN_OP_MUL, m, rate),
                                      kg_op2(g, KN_OP_ADD, root, kg_float(g, s->dt, k->eps)));
    if (k->weight_decay != 0) w = step_scale(s, w, 1 - k->lr * k->weight_decay);
    return step_assign(s, s->o->m[i], m) && step_assign(s, s->o->v[i], v) &&
           step_assign(s, s->o->param[i], kg_op2(g, KN_OP_ADD, w, move));
}

kn_status kn_minimize(kn_optim *o, kn_tensor *loss) {
    if (!o) {
        kn_context *kn = kn_context_of(loss);
        return kn ? kt_error(kn, KN_ERR_ARG, "kn_minimize: the optimiser is NULL") : KN_ERR_ARG;
    }
    kn_context *kn = o->kn;
    size_t      bytes = (size_t)(o->n + 1) * sizeof(kn_ref);
    kn_ref     *grad = kn_zalloc(kn->alloc, bytes);
    if (!grad) return kt_error(kn, KN_ERR_MEMORY, "kn_minimize: out of memory");
    kn_status st = kt_gradient(kn, "kn_minimize", loss, o->param, o->n, grad);
    if (st == KN_OK) {
        optim_step s = {.o = o, .g = kn->g, .dt = KN_F32};
        kn_ref     c1 = 0, c2 = 0;
        bool       ok = true;
        if (o->adam) {
            c1 = step_average(&s, step_state(o->c1), kg_float(s.g, KN_F32, 1), o->ad.beta1);
            c2 = step_average(&s, step_state(o->c2), kg_float(s.g, KN_F32, 1), o->ad.beta2);
        }
        for (int i = 0; ok && i < o->n; i++) {
            kn_ref w = step_state(o->param[i]);
            s.dt = w && kg_dtype(s.g, w) == KN_F64 ? KN_F64 : KN_F32;
            w = kg_cast(s.g, w, s.dt);
            grad[i] = kg_cast(s.g, grad[i], s.dt);
            ok = o->adam ? adam_update(&s, i, w, grad[i], c1, c2) : sgd_update(&s, i, w, grad[i]);
        }
        if (ok && o->adam) ok = step_assign(&s, o->c1, c1) && step_assign(&s, o->c2, c2);
        if (!ok) st = kn_error_code(kn);
    }
    kn_free(kn->alloc, grad, bytes);
    return st;
}
