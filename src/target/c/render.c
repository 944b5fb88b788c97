/* render.c - stage 8 of the C target: a LINEAR becomes a C function.
 *
 * Takes: a linearised kernel of scalars and tiles. Gives: its source. A tile is cut here, straight into native vectors:
 * a value of shape (8, 32) is a row-major grid of cells, each a compiler vector of 16, 8, 4 or 2 lanes (or a scalar),
 * named t<node>_<cell>; nothing is taken apart lane by lane but what has no vector form (gathers, lane-wise gates,
 * integer division, library functions).
 *
 * A bool is an int 0 or 1 as a scalar, a mask of i32 lanes, 0 or -1, as a vector, and a byte in memory. */
#include "target/target.h"

#include "dialect/why.h"

#include "rules_gen.h"

#include <math.h>
#include <string.h>

enum { LANE_MAX = 16 };

typedef struct kc_tile { /* how a shape is cut */
    int     rank, nchunk;
    int64_t dims[KN_MAX_RANK], rows, lanes;
    int     start[64], width[64]; /* of a row's chunks */
} kc_tile;

typedef struct kc_out {
    const kn_graph *g;
    kn_str         *s;
    kn_fault       *f;
    const kn_ref   *list;
    uint32_t        count;
    uint8_t        *needed;
    int             indent, most; /* lanes of a cell */
    bool            failed;
} kc_out;

static void c_fail(kc_out *c, kn_ref n, const char *what) {
    c->failed = true;
    kn_fail(c->f, KN_ERR_UNSUPPORTED, "render c: %s: %s", kn_ops[kg_op(c->g, n)].name, what);
}

/* Floats narrower than f32 are f32 in variables, rounded after every op, and integers of their size in memory. */
static bool is_narrow(int dt) { return kn_is_float(dt) && kn_dsize(dt) < 4; }
static int  held_as(int dt) { return dt == KN_BOOL ? KN_I32 : dt == KN_INDEX ? KN_I64 : is_narrow(dt) ? KN_F32 : dt; }

static const char *c_type(int dt) { /* in memory */
    if (is_narrow(dt)) return kn_dsize(dt) == 1 ? "u8" : "u16";
    return dt == KN_BOOL ? "u8" : kn_dtypes[held_as(dt)].name;
}
static const char *c_value_type(int dt) { return kn_dtypes[held_as(dt)].name; }
static const char *c_mask_type(int dt) { /* the integer as wide as the dtype */
    static const char *const by_size[9] = {"", "i8", "i16", "", "i32", "", "", "", "i64"};
    return by_size[kn_dsize(held_as(dt))];
}

static bool cut(kc_out *c, kn_ref n, kc_tile *t) {
    int            rank;
    const int64_t *dims = kg_shape(c->g, n, &rank);
    memset(t, 0, sizeof *t);
    t->rank  = rank;
    t->rows  = 1;
    t->lanes = rank ? dims[rank - 1] : 1;
    for (int i = 0; i < rank; i++) t->dims[i] = dims[i];
    for (int i = 0; i + 1 < rank; i++) t->rows *= dims[i];
    for (int64_t at = 0; at < t->lanes;) {
        int w = c->most;
        while (w > t->lanes - at) w /= 2;
        if (t->nchunk == KN_COUNT(t->start)) return c_fail(c, n, "a tile is too wide"), false;
        t->start[t->nchunk]   = (int)at;
        t->width[t->nchunk++] = w;
        at += w;
    }
    return true;
}

static int64_t cell_of(const kc_tile *t, int64_t row, int chunk) { return row * t->nchunk + chunk; }

/* The row of `s` that broadcasts to row `row` of `d`. */
static int64_t row_in(const kc_tile *s, const kc_tile *d, int64_t row) {
    return kt_row_in(s->rank, s->dims, d->rank, d->dims, row);
}

static void pad(kc_out *c) {
    for (int i = 0; i < c->indent; i++) kn_str_puts(c->s, "    ");
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

static void scalar_text(int dt, kn_scalar x, char *out, size_t cap) {
    if (kn_is_float(dt)) {
        char t[48];
        if (isnan(x.f)) snprintf(out, cap, "__builtin_nan%s(\"\")", held_as(dt) == KN_F32 ? "f" : "");
        else if (isinf(x.f))
            snprintf(out, cap, "(%s__builtin_inf%s())", x.f < 0 ? "-" : "", held_as(dt) == KN_F32 ? "f" : "");
        else {
            kn_double_text(t, x.f, held_as(dt) == KN_F32);
            snprintf(out, cap, "(%s%s%s)", t, strpbrk(t, ".e") ? "" : ".0", held_as(dt) == KN_F32 ? "f" : "");
        }
    } else if (dt == KN_U64) {
        snprintf(out, cap, "%lluull", (unsigned long long)x.i);
    } else if (x.i == INT64_MIN) {
        snprintf(out, cap, "(-9223372036854775807ll - 1)");
    } else {
        snprintf(out, cap, x.i < 0 ? "(%s)(%lldll)" : "(%s)%lldll", c_value_type(dt), (long long)x.i);
    }
}

static void literal(const kn_graph *g, kn_ref n, char *out, size_t cap) {
    int dt = kg_dtype(g, n);
    scalar_text(
        dt, kn_is_float(dt) ? (kn_scalar){.f = kg_const_float(g, n)} : (kn_scalar){.i = (int64_t)kg_node(g, n)->arg},
        out, cap);
}

typedef struct kc_text { char s[96]; } kc_text;

/* The name of a node's cell. */
static kc_text name_of(kc_out *c, kn_ref n, int64_t cell, int64_t ncell) {
    kc_text t;
    int     op = kg_op(c->g, n);
    if (op == KN_OP_CONST) literal(c->g, n, t.s, sizeof t.s);
    else if (op == KN_OP_RANGE && kg_field(c->g, n, KN_F_RANGE_rank) == 0) snprintf(t.s, sizeof t.s, "n%u", n);
    else if (op == KN_OP_PARAM) snprintf(t.s, sizeof t.s, "v%lld", (long long)kg_field(c->g, n, KN_F_PARAM_slot));
    else if (ncell == 1) snprintf(t.s, sizeof t.s, "t%u", n);
    else snprintf(t.s, sizeof t.s, "t%u_%lld", n, (long long)cell);
    return t;
}

/* n as an operand of cell (row, chunk) of tile d: its cell, and whether that is a vector. */
static kc_text operand(kc_out *c, kn_ref n, const kc_tile *d, int64_t row, int chunk, bool *vector) {
    kc_tile s;
    *vector = false;
    if (!cut(c, n, &s)) return (kc_text){""};
    int ch  = s.lanes > 1 ? chunk : 0;
    *vector = s.width[ch] > 1;
    return name_of(c, n, cell_of(&s, row_in(&s, d, row), ch), s.rows * s.nchunk);
}

/* The same as a vector of `lanes`: a scalar is spread. x - 0 keeps -0. */
static void spread(kc_out *c, kn_ref n, kc_text x, bool vector, int lanes, kn_str *out) {
    const char *t = c_value_type(kg_dtype(c->g, n));
    if (vector) kn_str_puts(out, x.s);
    else if (kg_dtype(c->g, n) == KN_BOOL) kn_str_putf(out, "((i32x%d){0} - (i32)%s)", lanes, x.s);
    else kn_str_putf(out, "((%s)%s - (%sx%d){0})", t, x.s, t, lanes);
}

/* ---- elementwise --------------------------------------------------------------------------------------------- */

static const char *binary_sign(int op) {
    switch (op) {
    case KN_OP_ADD: return "+";
    case KN_OP_SUB: return "-";
    case KN_OP_MUL: return "*";
    case KN_OP_DIV: return "/";
    case KN_OP_AND: return "&";
    case KN_OP_OR: return "|";
    case KN_OP_XOR: return "^";
    case KN_OP_CMPLT: return "<";
    case KN_OP_CMPGT: return ">";
    case KN_OP_CMPLE: return "<=";
    case KN_OP_CMPGE: return ">=";
    case KN_OP_CMPNE: return "!=";
    case KN_OP_CMPEQ: return "==";
    default: return NULL;
    }
}

static const char *libm_name(int op) {
    switch (op) {
    case KN_OP_TRUNC: return "trunc";
    case KN_OP_EXP2: return "exp2";
    case KN_OP_LOG2: return "log2";
    case KN_OP_SIN: return "sin";
    case KN_OP_SQRT: return "sqrt";
    case KN_OP_POW: return "pow";
    default: return NULL;
    }
}

/* a op b of a reduction's op; a NaN in either comes out. */
static void scalar_combine(int op, int dt, const char *a, const char *b, kn_str *s) {
    const char *t = c_value_type(dt);
    if (op == KN_OP_MAX || op == KN_OP_MIN) {
        const char *sign = op == KN_OP_MAX ? ">=" : "<="; /* of equals the first: 0 and -0 are */
        if (kn_is_float(dt)) kn_str_putf(s, "%s %s %s || %s != %s ? %s : %s", a, sign, b, a, a, a, b);
        else kn_str_putf(s, "%s %s %s ? %s : %s", a, sign, b, a, b);
    } else if (dt == KN_BOOL) {
        kn_str_putf(s, "%s %s %s", a, op == KN_OP_ADD ? "|" : "&", b);
    } else {
        kn_str_putf(s, kn_is_float(dt) ? "%s%s %s %s" : "(%s)(%s %s %s)", kn_is_float(dt) ? "" : t, a,
                    op == KN_OP_ADD ? "+" : "*", b);
    }
}

/* One scalar result from scalar operand texts, not yet rounded to a narrow dtype. */
static void wide_expr(kc_out *c, kn_ref n, const char *a, const char *b, const char *p, kn_str *s) {
    const kn_graph *g  = c->g;
    int             op = kg_op(g, n), dt = kg_dtype(g, n), st = kg_dtype(g, kg_at(g, n, 0));
    const char     *t = c_value_type(dt), *f = held_as(dt) == KN_F32 ? "f" : "";
    bool            fl = kn_is_float(st);
    switch (op) {
    case KN_OP_NEG: kn_str_putf(s, st == KN_BOOL ? "%s%s" : "(%s)-%s", st == KN_BOOL ? "" : t, a); return;
    case KN_OP_NOT: kn_str_putf(s, st == KN_BOOL ? "!%s" : "(%s)~%s", st == KN_BOOL ? a : t, a); return;
    case KN_OP_RECIP: kn_str_putf(s, "1 / %s", a); return;
    case KN_OP_WHERE: kn_str_putf(s, "%s ? %s : %s", a, b, p); return;
    case KN_OP_MULACC:
        kn_str_putf(s, is_narrow(dt) ? "%.0skn_fma_odd(%s, %s, %s)" : "(%s)(%s * %s + %s)", t, a, b, p);
        return;
    case KN_OP_MAX: case KN_OP_MIN: case KN_OP_ADD: case KN_OP_MUL: scalar_combine(op, dt, a, b, s); return;
    case KN_OP_IDIV: case KN_OP_MOD:
        if (kg_min(g, kg_at(g, n, 0)) >= 0 && kg_min(g, kg_at(g, n, 1)) > 0 && dt != KN_U64)
            kn_str_putf(s, "(%s)(%s %s %s)", t, a, op == KN_OP_IDIV ? "/" : "%", b);
        else kn_str_putf(s, "kn_%s_%s(%s, %s)", op == KN_OP_IDIV ? "div" : "mod", t, a, b);
        return;
    case KN_OP_SHL:
    case KN_OP_SHR: kn_str_putf(s, "kn_%s_%s(%s, %s)", op == KN_OP_SHL ? "shl" : "shr", t, a, b); return;
    case KN_OP_THREEFRY: kn_str_putf(s, "kn_threefry(%s, %s)", a, b); return;
    case KN_OP_CAST:
        if (dt == KN_BOOL) kn_str_putf(s, "%s != 0", a);
        else if (fl && !kn_is_float(dt)) kn_str_putf(s, "kn_sat_%s(%s)", t, a);
        else if (is_narrow(dt) && !fl && kn_dsize(st) == 8) kn_str_putf(s, "kn_odd_%s(%s)", c_value_type(st), a);
        else if (is_narrow(dt)) kn_str_putf(s, "(f64)%s", a); /* which holds it: it is rounded once */
        else kn_str_putf(s, "(%s)%s", t, a);
        return;
    case KN_OP_BITCAST:
        if (is_narrow(dt)) kn_str_putf(s, "kn_get_%s((%s)%s)", kn_dtypes[dt].name, c_type(dt), a);
        else if (is_narrow(st)) kn_str_putf(s, "(%s)kn_put_%s(%s)", t, kn_dtypes[st].name, a);
        else kn_str_putf(s, "((union { %s from; %s to; }){.from = %s}).to", c_type(st), c_type(dt), a);
        return;
    case KN_OP_POW: kn_str_putf(s, "__builtin_pow%s(%s, %s)", f, a, b); return;
    default: break;
    }
    if (libm_name(op)) {
        kn_str_putf(s, "__builtin_%s%s(%s)", libm_name(op), f, a);
    } else if (binary_sign(op)) {
        if (dt == KN_BOOL || fl) kn_str_putf(s, "%s %s %s", a, binary_sign(op), b);
        else kn_str_putf(s, "(%s)(%s %s %s)", t, a, binary_sign(op), b);
    } else {
        c_fail(c, n, "has no C form");
    }
}

static void scalar_expr(kc_out *c, kn_ref n, const char *a, const char *b, const char *p, kn_str *s) {
    int  dt = kg_dtype(c->g, n);
    bool rounds = is_narrow(dt) && kg_op(c->g, n) != KN_OP_BITCAST;
    if (rounds) kn_str_putf(s, "kn_round_%s(", kn_dtypes[dt].name);
    wide_expr(c, n, a, b, p, s);
    if (rounds) kn_str_puts(s, ")");
}

static void as_mask(kn_str *s, int dt, int lanes, const char *expr) {
    if (kn_dsize(held_as(dt)) == 4) kn_str_putf(s, "(i32x%d)(%s)", lanes, expr);
    else kn_str_putf(s, "__builtin_convertvector(%s, i32x%d)", expr, lanes);
}

static void choose_lanes(kn_str *s, int dt, int lanes, const char *mask, bool narrow, const char *a, const char *b) {
    const char *m = c_mask_type(dt), *t = c_value_type(dt);
    kn_str      mm;
    kn_str_init(&mm, s->alloc);
    if (narrow && kn_dsize(held_as(dt)) != 4) kn_str_putf(&mm, "__builtin_convertvector(%s, %sx%d)", mask, m, lanes);
    else kn_str_putf(&mm, "(%sx%d)(%s)", m, lanes, mask);
    kn_str_putf(s, "(%sx%d)((%s & (%sx%d)%s) | (~%s & (%sx%d)%s))", t, lanes, kn_str_c(&mm), m, lanes, a, kn_str_c(&mm),
                m, lanes, b);
    s->failed |= mm.failed;
    kn_str_free(&mm);
}

static void vector_combine(int op, int dt, int lanes, const char *a, const char *b, kn_str *s) {
    if ((op == KN_OP_MAX || op == KN_OP_MIN) && dt != KN_BOOL) {
        kn_str e;
        kn_str_init(&e, s->alloc);
        const char *sign = op == KN_OP_MAX ? ">=" : "<=";
        kn_str_putf(&e, kn_is_float(dt) ? "(%s %s %s) | (%s != %s)" : "%s %s %s", a, sign, b, a, a);
        choose_lanes(s, dt, lanes, kn_str_c(&e), false, a, b);
        s->failed |= e.failed;
        kn_str_free(&e);
    } else if (dt == KN_BOOL) {
        kn_str_putf(s, "%s %s %s", a, op == KN_OP_MAX || op == KN_OP_ADD ? "|" : "&", b);
    } else {
        kn_str_putf(s, "%s %s %s", a, op == KN_OP_ADD ? "+" : "*", b);
    }
}

/* A vector result from vector operand texts; false: there is no vector form. */
static bool vector_expr(kc_out *c, kn_ref n, int lanes, const char *a, const char *b, const char *p, kn_str *s) {
    const kn_graph *g  = c->g;
    int             op = kg_op(g, n), dt = kg_dtype(g, n), st = kg_dtype(g, kg_at(g, n, 0));
    const char     *t = c_value_type(dt);
    kn_str          e;
    if (is_narrow(dt) || (op == KN_OP_BITCAST && is_narrow(st))) return false;
    switch (op) {
    case KN_OP_NEG: kn_str_putf(s, st == KN_BOOL ? "%s" : "-%s", a); return true;
    case KN_OP_NOT: kn_str_putf(s, "~%s", a); return true;
    case KN_OP_RECIP: kn_str_putf(s, "1 / %s", a); return true;
    case KN_OP_WHERE: choose_lanes(s, dt, lanes, a, true, b, p); return true;
    case KN_OP_MULACC: kn_str_putf(s, "%s * %s + %s", a, b, p); return true;
    case KN_OP_MAX: case KN_OP_MIN: case KN_OP_ADD: case KN_OP_MUL: vector_combine(op, dt, lanes, a, b, s); return true;
    case KN_OP_CAST:
        if (dt == KN_BOOL && st == KN_BOOL) kn_str_puts(s, a);
        else if (dt == KN_BOOL) {
            kn_str_init(&e, s->alloc);
            kn_str_putf(&e, "%s != 0", a);
            as_mask(s, st, lanes, kn_str_c(&e));
            kn_str_free(&e);
        } else if (st == KN_BOOL) kn_str_putf(s, "__builtin_convertvector(-%s, %sx%d)", a, t, lanes);
        else if (st == KN_F32 && dt == KN_I32) kn_str_putf(s, "KN_SAT(%s, f32x%d, i32x%d)", a, lanes, lanes);
        else if (kn_is_float(st) && !kn_is_float(dt)) return false;
        else kn_str_putf(s, "__builtin_convertvector(%s, %sx%d)", a, t, lanes);
        return true;
    case KN_OP_BITCAST: kn_str_putf(s, "(%sx%d)%s", t, lanes, a); return true;
    case KN_OP_CMPLT: case KN_OP_CMPGT: case KN_OP_CMPLE: case KN_OP_CMPGE: case KN_OP_CMPNE: case KN_OP_CMPEQ:
        kn_str_init(&e, s->alloc);
        /* false is 0 and true -1: the order of bools turns around */
        if (st == KN_BOOL) kn_str_putf(&e, "-%s %s -%s", a, binary_sign(op), b);
        else kn_str_putf(&e, "%s %s %s", a, binary_sign(op), b);
        as_mask(s, st, lanes, kn_str_c(&e));
        kn_str_free(&e);
        return true;
    case KN_OP_TRUNC:
        if (dt != KN_F32) return false;
        kn_str_putf(s, "KN_TRUNC(%s, f32x%d, i32x%d)", a, lanes, lanes);
        return true;
    case KN_OP_THREEFRY: kn_str_putf(s, "kn_threefry_x%d(%s, %s)", lanes, a, b); return true;
    case KN_OP_SHL: case KN_OP_SHR: {
        kn_ref count = kg_at(g, n, 1);
        if (kg_min(g, count) < 0 || kg_max(g, count) >= 8 * kn_dsize(dt)) return false;
        kn_str_putf(s, "%s %s %s", a, op == KN_OP_SHL ? "<<" : ">>", b);
        return true;
    }
    case KN_OP_IDIV: case KN_OP_MOD: {
        kn_ref  by = kg_at(g, n, 1);
        int64_t v  = kg_op(g, by) == KN_OP_CONST ? kg_const_int(g, by) : 0;
        if (v <= 0 || (v & (v - 1))) return false;
        if (op == KN_OP_MOD) kn_str_putf(s, "%s & (%s)%lld", a, t, (long long)(v - 1)); /* floors, of negatives too */
        else kn_str_putf(s, "%s >> %d", a, __builtin_ctzll((unsigned long long)v));
        return true;
    }
    default: break;
    }
    if (binary_sign(op)) kn_str_putf(s, "%s %s %s", a, binary_sign(op), b);
    else return false;
    return true;
}

static void elementwise(kc_out *c, kn_ref n) {
    kc_tile d;
    kn_str  x[3];
    if (!cut(c, n, &d)) return;
    uint32_t k = KN_MIN(kg_nsrc(c->g, n), 3u);
    for (int i = 0; i < 3; i++) kn_str_init(&x[i], c->s->alloc);
    const char *t = c_value_type(kg_dtype(c->g, n));
    for (int64_t row = 0; row < d.rows && !c->failed; row++)
        for (int ch = 0; ch < d.nchunk && !c->failed; ch++) {
            int     w    = d.width[ch];
            kc_text self = name_of(c, n, cell_of(&d, row, ch), d.rows * d.nchunk), raw[3];
            bool    vec[3] = {false, false, false};
            for (uint32_t i = 0; i < k; i++) raw[i] = operand(c, kg_at(c->g, n, i), &d, row, ch, &vec[i]);
            for (uint32_t i = 0; i < k; i++) {
                kn_str_clear(&x[i]);
                if (w > 1) spread(c, kg_at(c->g, n, i), raw[i], vec[i], w, &x[i]);
                else kn_str_puts(&x[i], raw[i].s);
            }
            pad(c);
            size_t before = c->s->len;
            if (w == 1) {
                kn_str_putf(c->s, "const %s %s = ", t, self.s);
                scalar_expr(c, n, kn_str_c(&x[0]), kn_str_c(&x[1]), kn_str_c(&x[2]), c->s);
                kn_str_puts(c->s, ";\n");
                continue;
            }
            kn_str_putf(c->s, "const %sx%d %s = ", t, w, self.s);
            if (vector_expr(c, n, w, kn_str_c(&x[0]), kn_str_c(&x[1]), kn_str_c(&x[2]), c->s)) {
                kn_str_puts(c->s, ";\n");
                continue;
            }
            c->s->len = before; /* lane by lane */
            for (uint32_t i = 0; i < k; i++) {
                kn_str_clear(&x[i]);
                bool mask = vec[i] && kg_dtype(c->g, kg_at(c->g, n, i)) == KN_BOOL;
                kn_str_putf(&x[i], vec[i] ? mask ? "(%s[l] & 1)" : "%s[l]" : "%s", raw[i].s);
            }
            kn_str_putf(c->s, "%sx%d %s; for (int l = 0; l < %d; l++) %s[l] = %s", t, w, self.s, w, self.s,
                        kg_dtype(c->g, n) == KN_BOOL ? "-(" : "(");
            scalar_expr(c, n, kn_str_c(&x[0]), kn_str_c(&x[1]), kn_str_c(&x[2]), c->s);
            kn_str_puts(c->s, ");\n");
        }
    for (int i = 0; i < 3; i++) kn_str_free(&x[i]);
}

/* Lanes folded into one: chunks of full width first, then lane after lane. */
static void render_reduce_lanes(kc_out *c, kn_ref n) {
    const kn_graph *g   = c->g;
    kn_ref          src = kg_at(g, n, 0);
    kc_tile         d, s;
    if (!cut(c, n, &d) || !cut(c, src, &s)) return;
    int         rop = (int)kg_field(g, n, KN_F_REDUCE_op), dt = kg_dtype(g, n);
    const char *t   = c_value_type(dt);
    for (int64_t row = 0; row < d.rows; row++)
        for (int ch = 0; ch < d.nchunk; ch++) {
            kc_text   self = name_of(c, n, cell_of(&d, row, ch), d.rows * d.nchunk);
            bool      fold = s.lanes > d.lanes;
            kc_text   zt;
            scalar_text(dt, kn_identity(rop, dt), zt.s, sizeof zt.s);
            pad(c);
            if (d.width[ch] > 1)
                kn_str_putf(c->s, "%sx%d %s = %s%s - (%sx%d){0};\n", t, d.width[ch], self.s, dt == KN_BOOL ? "-" : "",
                            zt.s, t, d.width[ch]);
            else kn_str_putf(c->s, "%s %s = %s;\n", t, self.s, zt.s);
            for (int64_t sr = 0; sr < s.rows; sr++) {
                if (!kt_row_falls_on(s.rank, s.dims, d.dims, sr, row)) continue;
                for (int sc = fold ? 0 : ch; sc < (fold ? s.nchunk : ch + 1); sc++) {
                    kc_text x    = name_of(c, src, cell_of(&s, sr, sc), s.rows * s.nchunk);
                    bool    lane = fold && s.width[sc] > 1;
                    char    item[120];
                    snprintf(item, sizeof item, lane ? dt == KN_BOOL ? "(%s[l] & 1)" : "%s[l]" : "%s", x.s);
                    pad(c);
                    if (lane) kn_str_putf(c->s, "for (int l = 0; l < %d; l++) ", s.width[sc]);
                    kn_str_putf(c->s, is_narrow(dt) && d.width[ch] == 1 ? "%s = kn_round_%s(" : "%s = ", self.s,
                                kn_dtypes[dt].name);
                    if (d.width[ch] > 1) vector_combine(rop, dt, d.width[ch], self.s, item, c->s);
                    else scalar_combine(rop, dt, self.s, item, c->s);
                    kn_str_puts(c->s, is_narrow(dt) && d.width[ch] == 1 ? ");\n" : ";\n");
                }
            }
        }
}

/* A value seen in another shape: cells map one to one, or broadcast. */
static void reshaped(kc_out *c, kn_ref n) {
    kn_ref  src = kg_at(c->g, n, 0);
    kc_tile d, s;
    if (!cut(c, n, &d) || !cut(c, src, &s)) return;
    bool same = kg_op(c->g, n) == KN_OP_RESHAPE;
    if (same && (s.lanes != d.lanes || s.rows != d.rows)) {
        c_fail(c, n, "changes the lanes of a tile");
        return;
    }
    for (int64_t row = 0; row < d.rows; row++)
        for (int ch = 0; ch < d.nchunk; ch++) {
            bool    vec;
            kc_text self = name_of(c, n, cell_of(&d, row, ch), d.rows * d.nchunk), x;
            if (same) x = name_of(c, src, cell_of(&s, row, ch), s.rows * s.nchunk), vec = s.width[ch] > 1;
            else x = operand(c, src, &d, row, ch, &vec);
            pad(c);
            const char *t = c_value_type(kg_dtype(c->g, n));
            if (d.width[ch] > 1)
                kn_str_putf(c->s, "const %sx%d %s = ", t, d.width[ch], self.s),
                    spread(c, src, x, vec, d.width[ch], c->s);
            else kn_str_putf(c->s, "const %s %s = %s", t, self.s, x.s);
            kn_str_puts(c->s, ";\n");
        }
}

/* An expanded range used as a number. */
static void iota(kc_out *c, kn_ref n) {
    kc_tile d;
    if (!cut(c, n, &d)) return;
    bool lanes = kg_field(c->g, n, KN_F_RANGE_axis) == d.rank - 1;
    for (int64_t row = 0; row < d.rows; row++)
        for (int ch = 0; ch < d.nchunk; ch++) {
            pad(c);
            kc_text self = name_of(c, n, cell_of(&d, row, ch), d.rows * d.nchunk);
            if (d.width[ch] > 1) {
                kn_str_putf(c->s, "const i64x%d %s = {", d.width[ch], self.s);
                for (int l = 0; l < d.width[ch]; l++) kn_str_putf(c->s, l ? ", %d" : "%d", d.start[ch] + l);
                kn_str_puts(c->s, "};\n");
            } else {
                kn_str_putf(c->s, "const i64 %s = %lld;\n", self.s, (long long)(lanes ? d.start[ch] : row));
            }
        }
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

static bool expanded(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_RANGE && kg_field(g, n, KN_F_RANGE_rank) > 0;
}

/* index = scalars + coefficients of shape axes, or false. */
static bool plain_address(const kn_graph *g, kn_ref idx, kn_affine *f) {
    if (!kg_affine(g, idx, f)) return false;
    for (int t = 0; t < f->n; t++)
        if (!expanded(g, f->atom[t]) && kg_rank(g, f->atom[t])) return false;
    return true;
}

typedef struct kc_address {
    kn_ref    idx;
    bool      plain;
    kn_affine form;
    char      base[24];  /* the variable that holds the scalar part */
    char      buf[24];
    int64_t   coef[KN_MAX_RANK]; /* per axis of the tile */
} kc_address;

static bool address(kc_out *c, kn_ref at, kn_ref self, const kc_tile *d, kc_address *a) {
    const kn_graph *g = c->g;
    if (kg_op(g, at) != KN_OP_INDEX || kg_nsrc(g, at) != 2)
        return c_fail(c, at, "memory must be reached through one INDEX"), false;
    kn_ref st = kg_storage(g, at);
    snprintf(a->buf, sizeof a->buf, kg_op(g, st) == KN_OP_PARAM ? "b%lld" : "l%lld",
             (long long)kg_field(g, st, kg_op(g, st) == KN_OP_PARAM ? KN_F_PARAM_slot : KN_F_BUFFER_slot));
    a->idx   = kg_at(g, at, 1);
    a->plain = plain_address(g, a->idx, &a->form);
    memset(a->coef, 0, sizeof a->coef);
    if (!a->plain) return true;
    snprintf(a->base, sizeof a->base, "o%u", self);
    pad(c);
    kn_str_putf(c->s, "const i64 %s = %lld", a->base, (long long)a->form.base);
    for (int t = 0; t < a->form.n; t++) {
        kn_ref x = a->form.atom[t];
        if (expanded(g, x)) {
            int64_t shift = d->rank - kg_field(g, x, KN_F_RANGE_rank);
            a->coef[kg_field(g, x, KN_F_RANGE_axis) + shift] = a->form.coef[t];
        } else {
            kn_str_putf(c->s, " + %s * %lldll", name_of(c, x, 0, 1).s, (long long)a->form.coef[t]);
        }
    }
    kn_str_puts(c->s, ";\n");
    return true;
}

/* The element number of cell (row, chunk), lane 0; with `lane` lane l's. */
static void element(kc_out *c, const kc_address *a, const kc_tile *d, int64_t row, int ch, bool lane, kn_str *s) {
    if (!a->plain) {
        bool    vec;
        kc_text x = operand(c, a->idx, d, row, ch, &vec);
        kn_str_putf(s, vec ? "%s[%s]" : "%s", x.s, lane ? "l" : "0");
        return;
    }
    int64_t off = a->coef[d->rank ? d->rank - 1 : 0] * d->start[ch], rest = row;
    for (int i = d->rank - 2; i >= 0; i--) {
        off += a->coef[i] * (rest % d->dims[i]);
        rest /= d->dims[i];
    }
    kn_str_putf(s, "%s + %lldll", a->base, (long long)off);
    if (lane && d->rank && a->coef[d->rank - 1]) kn_str_putf(s, " + l * %lldll", (long long)a->coef[d->rank - 1]);
}

static bool is_register(const kn_graph *g, kn_ref at) {
    kn_ref st = kg_storage(g, at);
    return kg_op(g, st) == KN_OP_BUFFER && kg_field(g, st, KN_F_BUFFER_space) == KN_REG;
}

static kc_text reg_name(kc_out *c, kn_ref st, int64_t cell) {
    kc_text t;
    snprintf(t.s, sizeof t.s, "r%lld_%lld", (long long)kg_field(c->g, st, KN_F_BUFFER_slot), (long long)cell);
    return t;
}

static void fetch(kc_out *c, int dt, const char *sign, const kc_address *a, const kc_tile *d, int64_t row, int ch,
                  bool lane) {
    kn_str_putf(c->s, is_narrow(dt) ? "kn_get_%s(%s%s[" : "%.0s%s%s[", kn_dtypes[dt].name, sign, a->buf);
    element(c, a, d, row, ch, lane, c->s);
    kn_str_puts(c->s, is_narrow(dt) ? "])" : "]");
}

static void load(kc_out *c, kn_ref n) {
    const kn_graph *g  = c->g;
    kn_ref at = kg_at(g, n, 0), gate = kg_nsrc(g, n) == 3 ? kg_at(g, n, 2) : 0, alt = gate ? kg_at(g, n, 1) : 0;
    int             dt = kg_dtype(g, n);
    const char     *t = c_value_type(dt), *m = c_type(dt);
    kc_tile         d;
    kc_address      a;
    if (!cut(c, n, &d)) return;
    bool reg = is_register(g, at);
    if (!reg && !address(c, at, n, &d, &a)) return;
    for (int64_t row = 0; row < d.rows && !c->failed; row++)
        for (int ch = 0; ch < d.nchunk && !c->failed; ch++) {
            int     w    = d.width[ch];
            kc_text self = name_of(c, n, cell_of(&d, row, ch), d.rows * d.nchunk);
            char    type[32];
            snprintf(type, sizeof type, w > 1 ? "%sx%d" : "%s", t, w);
            pad(c);
            if (reg) {
                kn_str_putf(c->s, "const %s %s = %s;\n", type, self.s,
                            reg_name(c, kg_storage(g, at), cell_of(&d, row, ch)).s);
                continue;
            }
            bool    gv = false, av = false, lanes = w > 1 && (is_narrow(dt) || !(a.plain && a.coef[d.rank - 1] == 1));
            kc_text gt = {""}, alttext = {""};
            if (gate) {
                gt      = operand(c, gate, &d, row, ch, &gv);
                alttext = operand(c, alt, &d, row, ch, &av);
            }
            kn_str_putf(c->s, gate || lanes ? "%s %s; " : "const %s %s = ", type, self.s);
            if (w > 1 && (lanes || gv)) {
                kn_str_putf(c->s, "for (int l = 0; l < %d; l++) %s[l] = ", w, self.s);
                if (gate) kn_str_putf(c->s, gv ? "%s[l] ? " : "%s ? ", gt.s);
                fetch(c, dt, dt == KN_BOOL ? "-(i32)" : "", &a, &d, row, ch, true);
                if (gate) kn_str_putf(c->s, av ? " : %s[l]" : " : %s", alttext.s);
                kn_str_puts(c->s, ";\n");
                continue;
            }
            if (gate) kn_str_putf(c->s, "if (%s) %s = ", gt.s, self.s);
            if (w == 1) {
                fetch(c, dt, "", &a, &d, row, ch, false);
            } else {
                kn_str_puts(c->s, dt == KN_BOOL ? "-__builtin_convertvector(" : "");
                kn_str_putf(c->s, "*(const %sx%du *)(%s + ", m, w, a.buf);
                element(c, &a, &d, row, ch, false, c->s);
                kn_str_puts(c->s, ")");
                if (dt == KN_BOOL) kn_str_putf(c->s, ", i32x%d)", w);
            }
            if (gate) {
                kn_str_putf(c->s, "; else %s = ", self.s);
                if (w > 1) spread(c, alt, alttext, av, w, c->s);
                else kn_str_puts(c->s, alttext.s);
            }
            kn_str_puts(c->s, ";\n");
        }
}

static void store(kc_out *c, kn_ref n, bool guard) {
    const kn_graph *g  = c->g;
    kn_ref          at = kg_at(g, n, 0), val = kg_at(g, n, 1), gate = kg_nsrc(g, n) == 3 ? kg_at(g, n, 2) : 0;
    int             dt = kg_dtype(g, val);
    const char     *m  = c_type(dt);
    kc_tile         d;
    kc_address      a;
    if (!cut(c, at, &d)) return;
    bool reg = is_register(g, at);
    if (guard) pad(c), kn_str_puts(c->s, "if (lo == 0) {\n"), c->indent++;
    if (!reg && !address(c, at, n, &d, &a)) return;
    for (int64_t row = 0; row < d.rows && !c->failed; row++)
        for (int ch = 0; ch < d.nchunk && !c->failed; ch++) {
            int     w = d.width[ch];
            bool    vv, gv = false;
            kc_text x = operand(c, val, &d, row, ch, &vv), gt = {""};
            if (gate) gt = operand(c, gate, &d, row, ch, &gv);
            pad(c);
            if (reg) {
                kn_str_putf(c->s, "%s = ", reg_name(c, kg_storage(g, at), cell_of(&d, row, ch)).s);
                if (w > 1) spread(c, val, x, vv, w, c->s);
                else kn_str_puts(c->s, x.s);
                kn_str_puts(c->s, ";\n");
                continue;
            }
            bool lanes = w > 1 && (gv || is_narrow(dt) || !(a.plain && a.coef[d.rank - 1] == 1));
            if (lanes) kn_str_putf(c->s, "for (int l = 0; l < %d; l++) ", w);
            if (gate) kn_str_putf(c->s, gv ? "if (%s[l]) " : "if (%s) ", gt.s);
            if (w == 1 || lanes) {
                kn_str_putf(c->s, "%s[", a.buf);
                element(c, &a, &d, row, ch, lanes, c->s);
                if (is_narrow(dt))
                    kn_str_putf(c->s, vv ? "] = kn_put_%s(%s[l]);\n" : "] = kn_put_%s(%s);\n", kn_dtypes[dt].name, x.s);
                else kn_str_putf(c->s, vv ? dt == KN_BOOL ? "] = %s[l] & 1;\n" : "] = %s[l];\n" : "] = %s;\n", x.s);
                continue;
            }
            bool stream = kg_node(g, n)->arg == 1 && dt != KN_BOOL;
            kn_str_putf(c->s, stream ? "KN_STREAM(%sx%d, %s + " : "*(%sx%du *)(%s + ", m, w, a.buf);
            element(c, &a, &d, row, ch, false, c->s);
            kn_str_puts(c->s, stream ? ", " : dt == KN_BOOL ? ") = __builtin_convertvector(-" : ") = ");
            spread(c, val, x, vv, w, c->s);
            if (dt == KN_BOOL) kn_str_putf(c->s, ", u8x%d)", w);
            kn_str_puts(c->s, stream ? ");\n" : ";\n");
        }
    if (guard) c->indent--, pad(c), kn_str_puts(c->s, "}\n");
}

/* The line of each cell's first lane, and those of 64 bytes that its run goes on to. */
static void prefetch(kc_out *c, kn_ref n) {
    kn_ref     at = kg_at(c->g, n, 0);
    kc_tile    d;
    kc_address a;
    if (!cut(c, at, &d) || !address(c, at, n, &d, &a)) return;
    bool written = kt_is_written(c->g, c->list, c->count, at), run = a.plain && d.rank && a.coef[d.rank - 1] == 1;
    int  line    = KN_MAX(64 / kn_dsize(kg_dtype(c->g, at)), 1);
    for (int64_t row = 0; row < d.rows && !c->failed; row++)
        for (int ch = 0; ch < d.nchunk; ch++)
            for (int from = 0; from < (run ? d.width[ch] : 1); from += line) {
                pad(c);
                kn_str_putf(c->s, "__builtin_prefetch(%s + ", a.buf);
                element(c, &a, &d, row, ch, false, c->s);
                kn_str_putf(c->s, " + %d%s);\n", from, written ? ", 1" : "");
            }
}

/* ---- the function -------------------------------------------------------------------------------------------- */

/* What must have a name: an address asks for its scalars only, unless it is not affine. */
static void mark_needed(kc_out *c, const kn_ref *list, uint32_t n) {
    const kn_graph *g = c->g;
    for (uint32_t i = n; i-- > 0;) {
        kn_ref x  = list[i];
        int    op = kg_op(g, x);
        if (op == KN_OP_STORE || op == KN_OP_PREFETCH) c->needed[x] = 1;
        if (!c->needed[x] && op != KN_OP_RANGE) continue;
        uint32_t first = 0;
        if (op == KN_OP_LOAD || op == KN_OP_STORE || op == KN_OP_PREFETCH) {
            first     = 1;
            kn_ref at = kg_at(g, x, 0);
            if (!is_register(g, at) && kg_op(g, at) == KN_OP_INDEX) {
                kn_affine f;
                kn_ref    idx = kg_at(g, at, 1);
                if (!plain_address(g, idx, &f)) c->needed[idx] = 1;
                else
                    for (int t = 0; t < f.n; t++)
                        if (!expanded(g, f.atom[t])) c->needed[f.atom[t]] = 1;
            }
        }
        for (uint32_t s = first; s < kg_nsrc(g, x); s++)
            if (kg_op(g, x) != KN_OP_RESHAPE && kg_op(g, x) != KN_OP_EXPAND) c->needed[kg_at(g, x, s)] = 1;
            else if (s == 0) c->needed[kg_at(g, x, 0)] = 1;
    }
}

static void declare(kc_out *c, const kn_ref *list, uint32_t n) {
    const kn_graph *g = c->g;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref x = list[i];
        if (kg_op(g, x) == KN_OP_PARAM) {
            const char *t = c_type(kg_dtype(g, x));
            long long   k = (long long)kg_field(g, x, KN_F_PARAM_slot);
            if (kg_is_variable(g, x)) kn_str_putf(c->s, "    const %s v%lld = (%s)vars[%lld];\n", t, k, t, k);
            else kn_str_putf(c->s, "    %s *restrict b%lld = bufs[%lld];\n", t, k, k);
        }
        if (kg_op(g, x) == KN_OP_BUFFER && kg_field(g, x, KN_F_BUFFER_space) == KN_LOCAL) /* of this call alone */
            kn_str_putf(c->s, "    %s l%lld[%lld] __attribute__((aligned(64)));\n", c_type(kg_dtype(g, x)),
                        (long long)kg_field(g, x, KN_F_BUFFER_slot), (long long)kg_field(g, x, KN_F_BUFFER_size));
        if (kg_op(g, x) != KN_OP_STORE || !is_register(g, kg_at(g, x, 0))) continue;
        kn_ref st   = kg_storage(g, kg_at(g, x, 0));
        bool   seen = false;
        for (uint32_t j = 0; j < i && !seen; j++)
            seen = kg_op(g, list[j]) == KN_OP_STORE && kg_storage(g, kg_at(g, list[j], 0)) == st;
        kc_tile d;
        if (seen || !cut(c, kg_at(g, x, 0), &d)) continue;
        for (int64_t row = 0; row < d.rows; row++)
            for (int ch = 0; ch < d.nchunk; ch++) {
                kn_str_putf(c->s, d.width[ch] > 1 ? "    %sx%d " : "    %s ", c_value_type(kg_dtype(g, st)),
                            d.width[ch]);
                kn_str_putf(c->s, "%s;\n", reg_name(c, st, cell_of(&d, row, ch)).s);
            }
    }
}

static bool writes_inside(const kn_graph *g, const kn_ref *list, uint32_t n, uint32_t open) {
    int depth = 0;
    for (uint32_t i = open; i < n; i++) {
        int op = kg_op(g, list[i]);
        if (op == KN_OP_RANGE && kg_field(g, list[i], KN_F_RANGE_rank) == 0) depth++;
        if (op == KN_OP_END && --depth == 0) return false;
        if (op == KN_OP_STORE && kg_space(g, kg_at(g, list[i], 0)) == KN_GLOBAL) return true;
    }
    return false;
}

static void statement(kc_out *c, kn_ref n, int depth) {
    int op = kg_op(c->g, n);
    if (op == KN_OP_STORE) {
        store(c, n, depth == 0 && kg_space(c->g, kg_at(c->g, n, 0)) == KN_GLOBAL);
        return;
    }
    if (!c->needed[n]) return;
    switch (op) {
    case KN_OP_CONST:
    case KN_OP_PARAM:
    case KN_OP_BUFFER:
    case KN_OP_AFTER:
    case KN_OP_GROUP:
    case KN_OP_INDEX:
    case KN_OP_STACK: return;
    case KN_OP_LOAD: load(c, n); return;
    case KN_OP_PREFETCH: prefetch(c, n); return;
    case KN_OP_REDUCE: render_reduce_lanes(c, n); return;
    case KN_OP_RESHAPE: case KN_OP_EXPAND: reshaped(c, n); return;
    case KN_OP_RANGE: iota(c, n); return;
    default:
        if (kn_is_alu(op) || op == KN_OP_BITCAST) elementwise(c, n);
        else c_fail(c, n, "has no C form");
    }
}

/* Where x comes from, unless the line above said so; *said is what that was. */
static KN_RARE void comment(kc_out *c, kn_ref x, uint32_t *said) {
    const kn_why *w     = kg_why(c->g);
    uint32_t      cause = kg_cause(c->g, x);
    kn_str        s;
    int           op = kg_op(c->g, x);
    if (cause == *said || !cause || op == KN_OP_SINK || op == KN_OP_GROUP || op == KN_OP_CONST || op == KN_OP_PARAM)
        return;
    *said = cause;
    kn_str_init(&s, kg_alloc(c->g));
    kn_print_cause(w, cause, &s);
    for (size_t i = 0; i + 1 < s.len; i++) /* a file's name may have anything in it */
        if ((s.data[i] == '*' && s.data[i + 1] == '/') || (s.data[i] == '/' && s.data[i + 1] == '*')) s.data[i] = '?';
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] == '\n' || s.data[i] == '\\') s.data[i] = '?';
    pad(c);
    kn_str_putf(c->s, "/* %s */\n", kn_str_c(&s));
    kn_str_free(&s);
}

/* gcc does a comparison of vectors wider than 64 bytes lane by lane: kernels that compare lanes of 8 bytes have cells
 * of half as many. */
static int most_lanes(const kn_graph *g, const kn_ref *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        int rank, op = kg_op(g, list[i]), dt = kg_dtype(g, list[i]);
        if (kn_ops[op].cls != KN_CLS_BINARY || (dt != KN_BOOL && op != KN_OP_MAX && op != KN_OP_MIN)) continue;
        int of = kg_dtype(g, kg_at(g, list[i], 0));
        if (of != KN_INDEX && kn_dsize(of) == 8 && (kg_shape(g, list[i], &rank), rank > 0)) return LANE_MAX / 2;
    }
    return LANE_MAX;
}

/* Whether a THREAD loop comes behind that place of the list. */
static bool shared_after(const kn_graph *g, const kn_ref *list, uint32_t n, uint32_t at) {
    int depth = 0;
    for (uint32_t i = at; i < n; i++) {
        bool loop = kg_op(g, list[i]) == KN_OP_RANGE && kg_field(g, list[i], KN_F_RANGE_rank) == 0;
        if (loop && depth == 0 && i > at && kt_is_shared(g, list[i], list[at])) return true;
        depth += loop ? 1 : kg_op(g, list[i]) == KN_OP_END ? -1 : 0;
    }
    return false;
}

static bool render_text(const kn_graph *g, kn_ref linear, const char *symbol, int64_t *chunks, kn_str *out,
                        kn_fault *f) {
    uint32_t      n     = kg_nsrc(g, linear);
    const kn_ref *list  = kg_src(g, linear);
    kc_out        c     = {g, out, f, list, n, .indent = 1, .most = most_lanes(g, list, n)};
    size_t        size  = kg_count(g);
    kn_ref        shared = 0;
    int           depth = 0;
    uint32_t      said = 0;
    *chunks             = 1;
    if (!(c.needed = kn_zalloc(kg_alloc(g), size))) return kn_oom(f);
    mark_needed(&c, list, n);
    kn_str_putf(out,
                "void %s(void *const *bufs, const i64 *vars, i64 lo, i64 hi) {\n    (void)bufs, (void)vars, (void)lo, "
                "(void)hi;\n",
                symbol);
    declare(&c, list, n);
    for (uint32_t i = 0; i < n && !c.failed; i++) {
        kn_ref x = list[i];
        if (kg_op(g, x) == KN_OP_RANGE && kg_field(g, x, KN_F_RANGE_rank) == 0) {
            kc_text b = name_of(&c, kg_at(g, x, 0), 0, 1);
            pad(&c);
            if (depth == 0 && kt_is_shared(g, x, shared)) {
                bool    ends = kg_op(g, kg_at(g, x, 0)) == KN_OP_CONST && !shared_after(g, list, n, i);
                int64_t before = shared ? *chunks : 0;
                shared         = x;
                *chunks        = before + kg_max(g, kg_at(g, x, 0));
                kn_str_putf(out, "for (i64 n%u = ", x);
                if (before) kn_str_putf(out, "lo > %lld ? lo - %lld : 0", (long long)before, (long long)before);
                else kn_str_puts(out, "lo");
                kn_str_putf(out, "; n%u < hi", x);
                if (before) kn_str_putf(out, " - %lld", (long long)before);
                if (!ends) kn_str_putf(out, " && n%u < %s", x, b.s);
                kn_str_putf(out, "; n%u++) {\n", x);
            } else {
                if (depth == 0 && writes_inside(g, list, n, i)) kn_str_puts(out, "if (lo == 0) ");
                kn_str_putf(out, "for (i64 n%u = 0; n%u < %s; n%u++) {\n", x, x, b.s, x);
            }
            depth++;
            c.indent++;
        } else if (kg_op(g, x) == KN_OP_END) {
            depth--;
            c.indent--;
            pad(&c);
            kn_str_puts(out, "}\n");
        } else {
            if (c.needed[x] && kn_why_in_source(kg_why(g))) comment(&c, x, &said);
            statement(&c, x, depth);
        }
    }
    kn_str_puts(out, "}\n");
    kn_free(kg_alloc(g), c.needed, size);
    if (out->failed) kn_oom(f);
    return !c.failed && !out->failed;
}

static bool render_c(const kn_graph *g, kn_ref linear, const char *symbol, const kt_choice *choice, kt_output *out,
                     kn_fault *f) {
    kn_str s;
    (void)choice;
    kn_str_init(&s, kg_alloc(g));
    bool ok = render_text(g, linear, symbol, &out->chunks, &s, f);
    if (ok && !(out->text = kn_realloc(kg_alloc(g), NULL, 0, s.len + 1))) ok = kn_oom(f);
    if (ok) {
        memcpy(out->text, kn_str_c(&s), s.len + 1);
        out->size = s.len;
    }
    kn_str_free(&s);
    return ok;
}

const kt_target kt_c = {.name = "c", .groups = {KN_G_decomp | KN_G_select_c}, .render = render_c};
