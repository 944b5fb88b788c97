/* gradient_switch.c - the elementwise rules by hand. */
#include "tensor/gradient.h"

#define U(op, a) kg_op1(g, KN_OP_##op, a)
#define B(op, a, b) kg_op2(g, KN_OP_##op, a, b)
#define W(p, a, b) kg_op3(g, KN_OP_WHERE, p, a, b)
#define K(v) kg_float(g, dt, v)

kn_ref kn_gradient_rule(kn_rw *rw, kn_ref n) {
    kn_graph     *g = rw->g;
    kn_ref        y = kg_at(g, n, 0), d = kg_at(g, n, 1), hole = kg_make(g, KN_OP_HOLE, 0, 0, NULL, 0), p[3] = {0};
    const kn_ref *s = kg_src(g, y);
    int           dt = kg_dtype(g, y), count = (int)kg_nsrc(g, y);
    kn_ref        a = s[0], b = count > 1 ? s[1] : 0;
    switch (kg_op(g, y)) {
    case KN_OP_ADD: p[0] = p[1] = d; break;
    case KN_OP_SUB: p[0] = d, p[1] = U(NEG, d); break;
    case KN_OP_MUL: p[0] = B(MUL, d, b), p[1] = B(MUL, d, a); break;
    case KN_OP_MULACC: p[0] = B(MUL, d, b), p[1] = B(MUL, d, a), p[2] = d; break;
    case KN_OP_DIV: p[0] = B(DIV, d, b), p[1] = U(NEG, B(MUL, p[0], y)); break;
    case KN_OP_NEG: p[0] = U(NEG, d); break;
    case KN_OP_RECIP: p[0] = U(NEG, B(MUL, B(MUL, d, y), y)); break;
    case KN_OP_SQRT: p[0] = B(DIV, B(MUL, d, K(0.5)), y); break;
    case KN_OP_EXP2: p[0] = B(MUL, B(MUL, d, y), K(0.6931471805599453)); break;
    case KN_OP_LOG2: p[0] = B(DIV, B(MUL, d, K(1.4426950408889634)), a); break;
    case KN_OP_SIN: p[0] = B(MUL, d, U(SIN, B(ADD, a, K(1.5707963267948966)))); break;
    case KN_OP_POW:
        p[0] = B(MUL, d, W(B(CMPEQ, b, K(0)), K(0), B(MUL, b, B(POW, a, B(SUB, b, K(1))))));
        p[1] = B(MUL, d, W(B(AND, B(CMPEQ, a, K(0)), B(CMPGE, b, K(0))), K(0),
                           B(MUL, y, B(MUL, U(LOG2, a), K(0.6931471805599453)))));
        break;
    case KN_OP_MAX: case KN_OP_MIN: return kn_grad_extremum(rw, n);
    case KN_OP_WHERE: p[0] = hole, p[1] = W(a, d, K(0)), p[2] = W(a, K(0), d); break;
    case KN_OP_TRUNC: case KN_OP_BITCAST: p[0] = hole; break;
    case KN_OP_CAST: return kn_grad_cast(rw, n);
    case KN_OP_RESHAPE: return kn_grad_reshape(rw, n);
    case KN_OP_EXPAND: return kn_grad_expand(rw, n);
    case KN_OP_PERMUTE: return kn_grad_permute(rw, n);
    case KN_OP_FLIP: return kn_grad_flip(rw, n);
    case KN_OP_PAD: return kn_grad_pad(rw, n);
    case KN_OP_SHRINK: return kn_grad_shrink(rw, n);
    case KN_OP_SLICE: return kn_grad_slice(rw, n);
    case KN_OP_STACK: return kn_grad_stack(rw, n);
    case KN_OP_INDEX: return kn_grad_index(rw, n);
    case KN_OP_REDUCE: return kn_grad_reduce(rw, n);
    case KN_OP_LOAD: return kn_grad_load(rw, n);
    case KN_OP_CONTIGUOUS_BACKWARD: return kn_grad_contiguous_backward(rw, n);
    default: return 0;
    }
    return kg_list(g, KN_OP_TUPLE, p, count);
}
#undef U
#undef B
#undef W
#undef K
