/* functions.c - elementary functions built on EXP2 and LOG2, of f32 and f64 nodes.
 *
 * Contract: the value is within the bounds that docs/numerics.md states, also where an intermediate result would lose
 * digits or overflow; no gradient meets inf * 0, because the branch that a WHERE does not take stays finite. */
#include "tensor/tensor.h"

#define LOG2_E 1.4426950408889634074
#define LN_2 0.69314718055994530942

static kn_ref fn_op(const kt_call *c, int op, kn_ref a, kn_ref b) {
    return kg_op2(c->g, op, a, b);
}
static kn_ref fn_num(const kt_call *c, kn_ref like, double v) {
    return kt_const(c, kg_dtype(c->g, like), v);
}

static kn_ref fn_fma(const kt_call *c, kn_ref a, kn_ref b, kn_ref sum) {
    return kg_op3(c->g, KN_OP_MULACC, a, b, sum);
}

static kn_ref fn_polynomial(const kt_call *c, kn_ref x, const double *k, int n) {
    kn_ref y = fn_num(c, x, k[n - 1]);
    for (int i = n - 1; i-- > 0;) y = fn_fma(c, y, x, fn_num(c, x, k[i]));
    return y;
}

/* x rounded to a multiple of a power of two: `magic` is 1.5 times as large as the last place asks for. */
static kn_ref fn_grid(const kt_call *c, kn_ref x, double magic) {
    return fn_op(c, KN_OP_SUB, fn_op(c, KN_OP_ADD, x, fn_num(c, x, magic)), fn_num(c, x, magic));
}

/* e^x = 2^a e^b: x log2(e) rounded to f32 would be off by 2^-18 where x is 88, 50 units in the last place. So a is that
 * product on a grid, and b what is left of it, by products of few bits that are exact; b is computed of an x within
 * bounds beyond which e^x is 0 or infinite, and is a constant to the gradient, which 2^a has. 2^a is halved, and finite
 * where e^x is; the other factor is below 2, where it has one more digit. Some grid steps more make that factor one
 * that the dtype holds to 2^-34 (2^-70). */
static void fn_exp_factors(const kt_call *c, kn_ref x, kn_ref *two_a, kn_ref *e_b) {
    bool   wide = kg_dtype(c->g, x) == KN_F64;
    double lead = wide ? 0x1.715476p0 : 0x1.714p0; /* of log2(e): 25 and 11 bits */
    double tail = wide ? 1.9259629911266174681e-8 : LOG2_E - 0x1.714p0;
    double grid = wide ? 0x1.8p22 : 0x1.8p9, steps = wide ? 2223 * 0x1p-30 : 48 * 0x1p-14;
    double two  = wide ? 0x1.ffffcfd91452ap0 : 0x1.fef61ap0; /* 2^(1 - steps) */
    kn_ref log2e = fn_num(c, x, LOG2_E), at = fn_num(c, x, grid);
    kn_ref half = fn_op(c, KN_OP_SUB, fn_fma(c, x, log2e, at), fn_num(c, x, grid + 1 - steps));
    kn_ref d    = fn_op(c, KN_OP_MAX, x, fn_num(c, x, wide ? -746 : -105));
    d           = fn_op(c, KN_OP_MIN, d, fn_num(c, x, wide ? 710.125 : 89));
    kn_ref minus_a = fn_op(c, KN_OP_SUB, at, fn_fma(c, d, log2e, at));
    kn_ref d1 = fn_grid(c, d, wide ? 0x1.8p36 : 0x1.8p18), d2 = fn_op(c, KN_OP_SUB, d, d1);
    kn_ref b = fn_fma(c, d1, fn_num(c, x, tail), fn_fma(c, d1, fn_num(c, x, lead), minus_a));
    b        = fn_fma(c, fn_fma(c, d2, log2e, b), fn_num(c, x, two * LN_2), fn_num(c, x, two));
    *two_a   = kg_op1(c->g, KN_OP_EXP2, half);
    *e_b     = kg_op1(c->g, KN_OP_DETACH, b);
}

/* -0 is added to the product, which it leaves as it is: where that is subnormal, a Zen 4 takes twenty cycles for a
 * product and none for a sum (docs/decisions.md). */
static kn_ref fn_exp_of(const kt_call *c, kn_ref two_a, kn_ref e_b) {
    return fn_fma(c, two_a, e_b, fn_num(c, two_a, -0.0));
}

kn_ref kt_exp(const kt_call *c, kn_ref x) {
    if (!x) return 0;
    kn_ref two_a, e_b;
    fn_exp_factors(c, x, &two_a, &e_b);
    return fn_exp_of(c, two_a, e_b);
}

/* e^z of a softmax, where z <= 0 and values far below 1 do not matter: off by |z| half units in the last place. */
kn_ref kt_exp_share(const kt_call *c, kn_ref z) {
    if (!z) return 0;
    return kg_op1(c->g, KN_OP_EXP2, fn_op(c, KN_OP_MUL, z, fn_num(c, z, LOG2_E)));
}

kn_ref kt_log(const kt_call *c, kn_ref x) {
    if (!x) return 0;
    return fn_op(c, KN_OP_MUL, kg_op1(c->g, KN_OP_LOG2, x), fn_num(c, x, LN_2));
}

/* -|x|, of slope -1 at 0, and whether x is below 0. */
static kn_ref fn_minus_abs(const kt_call *c, kn_ref x, kn_ref *below) {
    *below = fn_op(c, KN_OP_CMPLT, x, fn_num(c, x, 0));
    return kg_op3(c->g, KN_OP_WHERE, *below, x, kg_op1(c->g, KN_OP_NEG, x));
}

/* 1/(1 + t) or t/(1 + t), t = e^-|x|: nothing overflows, and small values keep their digits. In the sum no t is
 * subnormal, for which an Intel takes two hundred cycles: it is 1 all the same. */
kn_ref kt_sigmoid(const kt_call *c, kn_ref x) {
    if (!x) return 0;
    kn_ref below, two_a, e_b, one = fn_num(c, x, 1);
    fn_exp_factors(c, fn_minus_abs(c, x, &below), &two_a, &e_b);
    kn_ref some = fn_op(c, KN_OP_MAX, two_a, fn_num(c, x, kg_dtype(c->g, x) == KN_F64 ? 0x1p-1022 : 0x1p-126));
    kn_ref up   = kg_op3(c->g, KN_OP_WHERE, below, fn_exp_of(c, two_a, e_b), one);
    return fn_op(c, KN_OP_DIV, up, fn_fma(c, some, e_b, one));
}

/* Near 0 an odd polynomial (minimax, relative errors 2^-28.4 and 2^-57.8), else (1 - t)/(1 + t), t = e^(-2 |x|). */
kn_ref kt_tanh(const kt_call *c, kn_ref x) {
    static const double k32[] = {-0.33333298, 0.133319241, -0.0537838305, 0.0207959722, -0.00589515856};
    static const double k64[] = {-0.33333333333333125,     0.133333333332996588,     -0.0539682539492939764,
                                 0.0218694880025278403,    -0.00886322677705346174,  0.00359203737647448069,
                                 -0.00145521535023341397,  0.000587188367708935069,  -0.000230396739503712826,
                                 0.0000793138727332734038, -0.0000171786879993153679};
    if (!x) return 0;
    bool   wide = kg_dtype(c->g, x) == KN_F64;
    kn_ref one = fn_num(c, x, 1), below, least = fn_minus_abs(c, x, &below);
    kn_ref near = fn_op(c, KN_OP_CMPLT, fn_num(c, x, -0.6), least);
    kn_ref s = kg_op3(c->g, KN_OP_WHERE, near, x, fn_num(c, x, 0)), z = fn_op(c, KN_OP_MUL, s, s);
    kn_ref p  = fn_polynomial(c, z, wide ? k64 : k32, wide ? KN_COUNT(k64) : KN_COUNT(k32));
    p         = fn_op(c, KN_OP_MUL, s, fn_fma(c, z, p, one)); /* of -0 it is -0 */
    kn_ref t  = kt_exp(c, fn_op(c, KN_OP_MUL, least, fn_num(c, x, 2)));
    kn_ref up = kg_op3(c->g, KN_OP_WHERE, below, fn_op(c, KN_OP_SUB, t, one), fn_op(c, KN_OP_SUB, one, t));
    return kg_op3(c->g, KN_OP_WHERE, near, p, fn_op(c, KN_OP_DIV, up, fn_op(c, KN_OP_ADD, t, one)));
}

/* Near 0 an odd polynomial (minimax, 2^-31 and 2^-59), else 1 - 2^-q(|x|), q another (2^-34 and 2^-65 of erf). Beyond
 * the last argument q was fitted to the result is 1. */
kn_ref kt_erf(const kt_call *c, kn_ref x) {
    static const double near32[] = {1.12837917,    -0.376126332,    0.112836872,  -0.0268589415,
                                    0.00519990665, -0.000813001229, 8.31677327e-5};
    static const double near64[] = {1.12837916709551257,     -0.376126389031837031,     0.112837916709524387,
                                    -0.0268661706445569577,  0.00522397761908394328,    -0.000854832660701320559,
                                    0.000120553156414031523, -0.0000149251733575282581, 1.64533177432206629e-6,
                                    -1.62578407859578664e-7, 1.39535025466019775e-8,    -8.27242581644203454e-10};
    static const double far32[]  = {-0.000255838774, 1.62956393,    0.913689442,     0.156255791,
                                    -0.0362659122,   0.00602752167, -0.000628847937, 3.06109192e-5};
    static const double far64[]  = {-3.81015386741124532e-8,   1.6279075150664886,       0.918445250998444249,
                                    0.148280687329049614,      -0.0276264678024091286,   -0.000241436472228638198,
                                    0.00235223963033199153,    -0.000732307835168688238, -0.0000838156561371259307,
                                    0.000193808475969117872,   -0.000111482258259229676, 0.0000428471069923569202,
                                    -0.0000125429857161288661, 2.90637633823368692e-6,   -5.37688741250290536e-7,
                                    7.88645537937940204e-8,    -8.99066107019965916e-9,  7.69004252589308235e-10,
                                    -4.64468971301096609e-11,  1.76599154993327522e-12,  -3.17747976907855606e-14};
    if (!x) return 0;
    bool   wide = kg_dtype(c->g, x) == KN_F64;
    kn_ref zero = fn_num(c, x, 0), one = fn_num(c, x, 1), below, least = fn_minus_abs(c, x, &below);
    kn_ref near = fn_op(c, KN_OP_CMPLT, fn_num(c, x, -0.93), least);
    kn_ref s = kg_op3(c->g, KN_OP_WHERE, near, x, zero), z = fn_op(c, KN_OP_MUL, s, s);
    kn_ref p = fn_polynomial(c, z, wide ? near64 : near32, wide ? KN_COUNT(near64) : KN_COUNT(near32));
    kn_ref r = kg_op2(c->g, KN_OP_MIN, kg_op1(c->g, KN_OP_NEG, least), fn_num(c, x, wide ? 6.0 : 3.95));
    kn_ref q = fn_polynomial(c, r, wide ? far64 : far32, wide ? KN_COUNT(far64) : KN_COUNT(far32));
    kn_ref t = kg_op1(c->g, KN_OP_EXP2, kg_op1(c->g, KN_OP_NEG, q));
    kn_ref y = kg_op3(c->g, KN_OP_WHERE, below, fn_op(c, KN_OP_SUB, t, one), fn_op(c, KN_OP_SUB, one, t));
    return kg_op3(c->g, KN_OP_WHERE, near, fn_op(c, KN_OP_MUL, s, p), y);
}

#undef LOG2_E
#undef LN_2
