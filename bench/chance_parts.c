/* What every family draws with: numbers, sizes, dtypes, elementwise steps, and what a program is said to be. */
#include "chance_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- chance ----------------------------------------------------------------------------------------------------- */

/* The last step of SplitMix64 (Steele, Lea and Flood, 2014). */
uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}
int64_t wide_below(stream *s, int64_t n) {
    return (int64_t)(mixed(s->key + ++s->at * 0x9e3779b97f4a7c15) % (uint64_t)n);
}
int below(stream *s, int n) {
    return (int)wide_below(s, n);
}
bool one_in(stream *s, int n) {
    return below(s, n) == 0;
}

/* As many below 2 lo as between hi / 2 and hi. */
static int64_t magnitude(stream *s, int64_t lo, int64_t hi) {
    if (lo >= hi) return lo;
    int low = 0, high = 0;
    while (lo >> low > 1) low++;
    while (hi >> high > 1) high++;
    for (;;) {
        int     bits = low + below(s, high - low + 1);
        int64_t n    = ((int64_t)1 << bits) + wide_below(s, (int64_t)1 << bits);
        if (n >= lo && n <= hi) return n;
    }
}
static bool prime(int64_t n) {
    for (int64_t k = 2; k * k <= n; k++)
        if (n % k == 0) return false;
    return n > 1;
}
int64_t size(stream *s, int64_t lo, int64_t hi) {
    if (hi <= lo) return lo;
    int64_t n = magnitude(s, lo, hi), m = n;
    switch (below(s, 5)) {
    case 0:
        while (m & (m - 1)) m &= m - 1;
        break;
    case 1: m -= m % 10; break;
    case 2:
        while (m > 2 && !prime(m)) m--;
        break;
    case 3: m |= 1; break;
    default: break;
    }
    return m < lo || m > hi ? n : m;
}
void spread(stream *s, kn_dim *dims, int rank, int64_t lo, int64_t hi) {
    int64_t rest = magnitude(s, lo, hi), most = rank > 2 ? 400 : 2048;
    int     wide = below(s, rank);
    for (int k = 0; k < rank; k++) {
        if (k == wide) continue;
        bool small = one_in(s, 3);
        dims[k]    = small ? size(s, 1, rest < 8 ? rest : 8) : size(s, 2, rest / 2 < most ? rest / 2 : most);
        rest /= dims[k];
    }
    if (rest < 1) rest = 1;
    dims[wide] = size(s, (rest + 1) / 2, rest);
}
int widest(const kn_dim *dims, int rank) {
    int at = 0;
    for (int k = 1; k < rank; k++)
        if (dims[k] > dims[at]) at = k;
    return at;
}
void not_one(kn_dim *dims, int rank, int axis) {
    int at = widest(dims, rank);
    if (dims[axis] > 1) return;
    dims[axis] = dims[at];
    dims[at]   = 1;
}
kn_dtype float_type(stream *s) {
    static const kn_dtype types[] = {KN_F32, KN_F32, KN_F32, KN_F32, KN_F32, KN_F32, KN_F64, KN_F64, KN_F16, KN_BF16};
    return types[below(s, sizeof types / sizeof *types)];
}
kn_dtype any_type(stream *s) {
    static const kn_dtype types[] = {KN_F64, KN_F64, KN_I32, KN_I32, KN_I64,  KN_U8, KN_U8,
                                     KN_I16, KN_I8,  KN_F16, KN_F16, KN_BF16, KN_U16};
    return one_in(s, 2) ? KN_F32 : types[below(s, sizeof types / sizeof *types)];
}
bool is_whole(kn_dtype t) {
    return t < KN_F16;
}

/* ---- what a program is said to be ------------------------------------------------------------------------------- */

void say(chance *c, const char *format, ...) {
    size_t  n = strlen(c->name);
    va_list args;
    va_start(args, format);
    vsnprintf(c->name + n, sizeof c->name - n, format, args);
    va_end(args);
}
void give(chance *c, kn_dtype dtype, int most, const kn_dim *dims, int rank) {
    input *in = &c->program.in[c->nin++];
    *in       = (input){dtype, is_whole(dtype) ? most : 0, {0}};
    memcpy(in->dims, dims, (size_t)rank * sizeof *dims);
    say(c, c->nin > 1 ? ", " : " ");
    for (int k = 0; k < rank; k++) say(c, k ? "x%d" : "%d", (int)dims[k]);
    if (dtype != KN_F32) say(c, " %s", kn_dtype_name(dtype));
}
int rank_of(const chance *c, int k) {
    int rank = 0;
    while (rank < CHANCE_AXES && c->program.in[k].dims[rank]) rank++;
    return rank;
}

/* ---- elementwise ops -------------------------------------------------------------------------------------------- */

typedef struct chance_op {
    const char *name;
    kn_tensor *(*one)(kn_tensor *);
    kn_tensor *(*by)(kn_tensor *, double);
    kn_tensor *(*two)(kn_tensor *, kn_tensor *);
    enum { SAME, FLOATS, TRUTHS } gives;
    bool whole; /* for integers alone */
} op;

static kn_tensor *over(kn_tensor *x, double n) {
    return kn_where(kn_gt_s(x, n), x, kn_neg(x));
}
static kn_tensor *limited(kn_tensor *x, double n) {
    return kn_clamp(x, n / 2, n);
}
static kn_tensor *cast_to(kn_tensor *x, double dtype) {
    return kn_cast(x, (kn_dtype)dtype);
}
static kn_tensor *greater_or_half(kn_tensor *a, kn_tensor *b) {
    return kn_where(kn_gt(a, b), a, kn_mul_s(b, 0.5));
}
static kn_tensor *quotient(kn_tensor *a, kn_tensor *b) {
    return kn_floordiv(a, kn_maximum_s(b, 1));
}
static kn_tensor *rest(kn_tensor *a, kn_tensor *b) {
    return kn_mod(a, kn_maximum_s(b, 1));
}

static const op ops[] = {
    {.name = "neg", .one = kn_neg},
    {.name = "abs", .one = kn_abs},
    {.name = "square", .one = kn_square},
    {.name = "relu", .one = kn_relu},
    {.name = "sqrt", .one = kn_sqrt, .gives = FLOATS},
    {.name = "exp", .one = kn_exp, .gives = FLOATS},
    {.name = "log", .one = kn_log, .gives = FLOATS},
    {.name = "tanh", .one = kn_tanh, .gives = FLOATS},
    {.name = "sigmoid", .one = kn_sigmoid, .gives = FLOATS},
    {.name = "gelu", .one = kn_gelu, .gives = FLOATS},
    {.name = "silu", .one = kn_silu, .gives = FLOATS},
    {.name = "sin", .one = kn_sin, .gives = FLOATS},
    {.name = "not", .one = kn_not, .whole = true},
    {.name = "+", .by = kn_add_s},
    {.name = "-", .by = kn_sub_s},
    {.name = "*", .by = kn_mul_s},
    {.name = "/", .by = kn_div_s, .gives = FLOATS},
    {.name = "max ", .by = kn_maximum_s},
    {.name = "min ", .by = kn_minimum_s},
    {.name = "clamp ", .by = limited, .gives = FLOATS},
    {.name = "where >", .by = over},
    {.name = "to ", .by = cast_to},
    {.name = "add", .two = kn_add},
    {.name = "add", .two = kn_add},
    {.name = "sub", .two = kn_sub},
    {.name = "mul", .two = kn_mul},
    {.name = "mul", .two = kn_mul},
    {.name = "div", .two = kn_div, .gives = FLOATS},
    {.name = "max", .two = kn_maximum},
    {.name = "min", .two = kn_minimum},
    {.name = "where >", .two = greater_or_half, .gives = FLOATS},
    {.name = "and", .two = kn_and, .whole = true},
    {.name = "or", .two = kn_or, .whole = true},
    {.name = "xor", .two = kn_xor, .whole = true},
    {.name = "floordiv", .two = quotient, .whole = true},
    {.name = "mod", .two = rest, .whole = true},
    {.name = "less", .two = kn_lt, .gives = TRUTHS},
    {.name = "equal", .two = kn_eq, .gives = TRUTHS},
};

void plan_step(chance *c, stream *s, int with, bool *whole, bool last) {
    static const double numbers[] = {0.5, 2, 0.1, 3, 1.5, 0.01}, integers[] = {1, 2, 3, 5, 7, 10};
    bool                fits_whole = *whole && (with < 0 || is_whole(c->program.in[with].dtype));
    chance_step        *step       = &c->steps[c->nsteps++];
    do step->op = &ops[below(s, sizeof ops / sizeof *ops)];
    while (!step->op->two != (with < 0) || (step->op->whole && !fits_whole) || (step->op->gives == TRUTHS && !last));
    int n        = below(s, 6);
    step->with   = with;
    step->number = *whole ? integers[n] : numbers[n];
    *whole       = fits_whole && step->op->gives == SAME;
    if (step->op->by == cast_to) {
        kn_dtype t   = any_type(s);
        step->number = t;
        *whole       = is_whole(t);
        say(c, " to %s", kn_dtype_name(t));
    } else {
        say(c, " %s", step->op->name);
        if (with >= 0) say(c, " %c", 'a' + with);
        if (step->op->by) say(c, "%g", step->number);
    }
}
void maybe_step(chance *c, stream *s, int n, bool whole) {
    if (one_in(s, n)) plan_step(c, s, -1, &whole, false);
}
kn_tensor *stepped(const chance *c, int from, kn_tensor *x, kn_tensor *const in[]) {
    for (int k = from; k < c->nsteps; k++) {
        const chance_step *p = &c->steps[k];
        x = p->op->one ? p->op->one(x) : p->op->by ? p->op->by(x, p->number) : p->op->two(x, in[p->with]);
    }
    return x;
}
kn_tensor *stored(const chance *c, kn_tensor *x, kn_tensor *const in[]) {
    return c->nsteps ? stepped(c, 0, x, in) : kn_contiguous(x);
}
