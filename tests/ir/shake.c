/* shake.c - a program off by some last bits: a value that moves with them by much tells engines apart that are both
 * right. */
#include "corpus.h"

#include <math.h>
#include <stdlib.h>

typedef struct shaker {
    const corpus_case *c;
    uint8_t           *combine; /* by node: stands in the combine of a fold, */
    uint8_t           *fed;     /* or is what the fold combines, or a sum adds up: it stands for the rounding there */
    uint64_t           seed;
} shaker;

static double last_bits(int dt) {
    switch (dt) {
    case KN_F64: return ldexp(1, -50);
    case KN_F16: return ldexp(1, -10);
    case KN_BF16: return ldexp(1, -7);
    case KN_F8E4M3: return ldexp(1, -3);
    case KN_F8E5M2: return ldexp(1, -2);
    default: return ldexp(1, -21);
    }
}

/* Floats by 1 + some last bits and 1 - as many, in a pattern along the axes that is the node's own; and off by some
 * last bits of 1/8: what is 0 because two values are the same is nearly 0 where they are summed in another
 * order. */
static kn_ref shake(void *user, kn_graph *g, kn_ref was, kn_ref now) {
    const shaker *s  = user;
    int           op = kg_op(g, was), dt = kg_dtype(g, was), rank;
    bool          fed = s->fed[was];
    if (!kn_is_float(dt) || s->combine[was] || (was <= s->c->now_root && s->c->exact[was] && !fed)) return now;
    if (!kn_is_alu(op) && op != KN_OP_REDUCE && op != KN_OP_GETTUPLE && !fed) return now;
    if (op == KN_OP_NEG || op == KN_OP_WHERE || op == KN_OP_MAX || op == KN_OP_MIN) return now;
    uint64_t       bits = kn_threefry2x32(s->seed, was) & INT32_MAX;
    const int64_t *d    = kg_shape(g, now, &rank);
    double         e    = last_bits(dt) * (double)(1 + bits % 3);
    kn_ref         at   = kg_idx(g, 0);
    for (int a = rank; a-- > 0;) {
        kn_ref i = kg_iota(g, d[a], a, KN_AXIS_LOOP, rank, a);
        at       = a == rank - 1 ? i : kg_op2(g, KN_OP_ADD, at, kg_op2(g, KN_OP_MUL, i, kg_idx(g, 7 * (rank - a))));
    }
    at = kg_op2(g, KN_OP_MOD, at, kg_idx(g, 31));
    kn_ref up = kg_op2(g, KN_OP_MOD, kg_op2(g, KN_OP_SHR, kg_idx(g, (int64_t)bits), at), kg_idx(g, 2));
    up        = kg_op2(g, KN_OP_CMPNE, up, kg_idx(g, 0));
    now       = kg_op2(g, KN_OP_MUL, now, kg_op3(g, KN_OP_WHERE, up, kg_float(g, dt, 1 + e), kg_float(g, dt, 1 - e)));
    return kg_op2(g, KN_OP_ADD, now, kg_op3(g, KN_OP_WHERE, up, kg_float(g, dt, e / 8), kg_float(g, dt, -e / 8)));
}

bool corpus_shaken(corpus_case *c, uint64_t seed, kn_value *value, int *n, kn_fault *f) {
    kn_graph *g     = c->now;
    shaker    s     = {c, calloc((size_t)kg_count(g) + 1, 1), calloc((size_t)kg_count(g) + 1, 1), seed};
    kn_ref    src[CORPUS_MAX], root = c->now_root;
    uint32_t  count = 0;
    if (!s.combine || !s.fed) {
        free(s.combine);
        free(s.fed);
        return kn_oom(f);
    }
    for (kn_ref id = root; id > 0; id--) {
        kn_fold_parts p;
        if (kg_is_fold(g, id) && kg_fold_parts(g, kg_at(g, id, 0), &p)) {
            s.combine[kg_at(g, kg_at(g, id, 0), 0)] = 1;
            for (int k = 0; k < p.n; k++) s.fed[p.element[k]] = 1;
        }
        bool sum = kg_op(g, id) == KN_OP_REDUCE && kg_field(g, id, KN_F_REDUCE_op) == KN_OP_ADD;
        if (sum) s.fed[kg_at(g, id, 0)] = 1; /* terms may be exact, and cancel one another in one order alone */
        for (uint32_t k = 0; s.combine[id] && k < kg_nsrc(g, id); k++) s.combine[kg_at(g, id, k)] = 1;
    }
    if (kg_op(g, root) == KN_OP_SINK) {
        for (; count < kg_nsrc(g, root) && count < CORPUS_MAX; count++) src[count] = kg_at(g, kg_at(g, root, count), 1);
        root = kg_list(g, KN_OP_TUPLE, src, (int)count);
    }
    kn_ref now = kg_edit(g, root, shake, &s);
    free(s.combine);
    free(s.fed);
    *n = CORPUS_MAX;
    return now ? kn_eval(g, now, c->slot, c->nslots, value, n, NULL, f)
               : kn_fail(f, kg_fault(g)->code, "%s", kg_fault(g)->text);
}
