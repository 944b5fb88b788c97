/* Every value-preserving rule is proved: the declarative ones by trying all values, those that call C (and those on ops
 * that are not elementwise) by evaluating both sides whenever they fire.
 *
 * All values: of up to three 8-bit integers, else of 4-bit integers; of f8 and f16
 * where one or two variables are left, else a list of special values; of index a range around zero. A variable whose
 * bounds a rule reads takes every interval around its value. */
#include "check.h"
#include "rewrite/match.h"
#include "rules/helpers.h"
#include "rules/reach.h"
#include "rules/validate.h"
#include "rules_gen.h"
#include "rules_proof.h"

#include <math.h>

enum { LANES = 256, VARS = 16, DEPTH = 24, TYPES = KN_PROOF_TYPES };

typedef struct domain {
    kn_scalar *v;
    int64_t   *lo, *hi;
    int64_t    n;
} domain;

typedef struct prover {
    const kn_proof *p;
    int             dt[TYPES], width[TYPES];
    bool            fast;
    domain          dom[VARS];
    kn_scalar       at[VARS];       /* of the variables outside the lanes */
    int64_t         iv[VARS], lo[VARS], hi[VARS];
    int             lane_var, lanes;
    int64_t         lane_from;
    long            cases;
    char            text[400];
} prover;

static kn_scalar stack_a[DEPTH][LANES], stack_b[DEPTH][LANES];

/* ---- integers of any width, a lane each
 * --------------------------------------------------------------------------------- */

static int64_t wrap_to(int64_t v, int dt, int width) {
    if (dt == KN_BOOL) return v != 0;
    if (width >= 64) return v;
    uint64_t u = (uint64_t)v << (64 - width);
    return kn_dtypes[dt].kind == 'I' ? (int64_t)u >> (64 - width) : (int64_t)(u >> (64 - width));
}

static int64_t shift_by(int64_t a, int64_t n, bool left, int dt, int width) {
    if (n < 0 || n >= width) return !left && kn_dtypes[dt].kind == 'I' && a < 0 ? -1 : 0;
    return left ? (int64_t)((uint64_t)a << n) : a >> n;
}

static int64_t int_op(int op, int64_t a, int64_t b, int64_t c, int dt, int width) {
    switch (op) {
    case KN_OP_ADD: return wrap_to((int64_t)((uint64_t)a + (uint64_t)b), dt, width);
    case KN_OP_SUB: return wrap_to((int64_t)((uint64_t)a - (uint64_t)b), dt, width);
    case KN_OP_MUL: return wrap_to((int64_t)((uint64_t)a * (uint64_t)b), dt, width);
    case KN_OP_NEG: return wrap_to((int64_t)(0 - (uint64_t)a), dt, width);
    case KN_OP_MAX: return a < b ? b : a;
    case KN_OP_MIN: return a < b ? a : b;
    case KN_OP_IDIV: return wrap_to(kn_floor_div(a, b), dt, width);
    case KN_OP_MOD: return wrap_to(kn_floor_mod(a, b), dt, width);
    case KN_OP_XOR: return wrap_to(a ^ b, dt, width);
    case KN_OP_OR: return wrap_to(a | b, dt, width);
    case KN_OP_AND: return wrap_to(a & b, dt, width);
    case KN_OP_NOT: return dt == KN_BOOL ? !a : wrap_to(~a, dt, width);
    case KN_OP_SHL: return wrap_to(shift_by(a, b, true, dt, width), dt, width);
    case KN_OP_SHR: return wrap_to(shift_by(a, b, false, dt, width), dt, width);
    case KN_OP_MULACC: return wrap_to((int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)c), dt, width);
    case KN_OP_TRUNC: return a;
    case KN_OP_CMPLT: return a < b;
    case KN_OP_CMPGT: return a > b;
    case KN_OP_CMPLE: return a <= b;
    case KN_OP_CMPGE: return a >= b;
    case KN_OP_CMPNE: return a != b;
    case KN_OP_CMPEQ: return a == b;
    case KN_OP_WHERE: return a ? b : c;
    default: return 0;
    }
}

/* The integer ops above mean what kn_alu says: all pairs of 8 bits. */
static void ops_agree_with_alu(void) {
    static const int dts[] = {KN_I8, KN_U8, KN_BOOL};
    for (int op = 0; op < KN_OP_COUNT; op++) {
        if (kn_ops[op].cls != KN_CLS_BINARY && kn_ops[op].cls != KN_CLS_UNARY) continue;
        if (op == KN_OP_CAST || op == KN_OP_THREEFRY) continue;
        for (int k = 0; k < 3; k++) {
            int  dt = dts[k], in[2] = {dt, dt}, out = op >= KN_OP_CMPLT ? dt : dt;
            bool compares = op == KN_OP_CMPLT || op == KN_OP_CMPGT || op == KN_OP_CMPLE || op == KN_OP_CMPGE ||
                            op == KN_OP_CMPNE || op == KN_OP_CMPEQ;
            bool same = true;
            if (compares) out = KN_BOOL;
            if (dt == KN_BOOL && (op == KN_OP_IDIV || op == KN_OP_MOD || op == KN_OP_SHL || op == KN_OP_SHR)) continue;
            for (int64_t a = kn_dtypes[dt].min; same && a <= kn_dtypes[dt].max; a++)
                for (int64_t b = kn_dtypes[dt].min; same && b <= kn_dtypes[dt].max; b++) {
                    kn_scalar s[2] = {{.i = a}, {.i = b}}, r;
                    if (!kn_alu(op, out, in, s, &r)) goto next;
                    same = r.i == int_op(op, a, b, 0, dt, 8);
                }
            if (!same) printf("     %s of %s\n", kn_ops[op].name, kn_dtypes[dt].name);
            CHECK(same);
        }
    next:;
    }
}

/* ---- evaluation
 * ------------------------------------------------------------------------------------------------------------ */

static void literal(prover *q, const kn_proof_step *s, kn_scalar *out) {
    int dt = q->dt[s->type];
    if (s->kind == KN_PROOF_FLOAT) *out = kn_cast_scalar((kn_scalar){.f = s->real}, KN_F64, dt);
    else *out = kn_cast_scalar((kn_scalar){.i = s->num}, KN_I64, dt);
    if (!kn_is_float(dt)) out->i = wrap_to(out->i, dt, q->width[s->type]);
}

static void set_lane(prover *q, int i) {
    int j     = q->lane_var;
    q->iv[j]  = q->dom[j].v[q->lane_from + i].i;
    q->lo[j]  = q->dom[j].lo ? q->dom[j].lo[q->lane_from + i] : q->iv[j];
    q->hi[j]  = q->dom[j].hi ? q->dom[j].hi[q->lane_from + i] : q->iv[j];
}

static void apply(prover *q, const kn_proof_step *s, kn_scalar (*st)[LANES], const int *types) {
    int  n = s->nsrc, dt = q->dt[s->type], in[3] = {0};
    bool fl = kn_is_float(dt);
    for (int k = 0; k < n; k++) in[k] = q->dt[types[k]], fl = fl || kn_is_float(in[k]);
    kn_scalar *a = st[0], *b = st[n > 1 ? 1 : 0], *c = st[n > 2 ? 2 : 0];
    if (fl) {
        for (int i = 0; i < q->lanes; i++) {
            kn_scalar v[3] = {a[i], b[i], c[i]}, r = {0};
            kn_alu(s->op, dt, in, v, &r);
            a[i] = r;
        }
        return;
    }
    int width = q->width[s->type], kind = s->op == KN_OP_WHERE || s->op == KN_OP_CAST ? dt : in[0];
    if (s->op != KN_OP_WHERE && s->op != KN_OP_CAST && dt == KN_BOOL) width = q->width[types[0]];
    if (s->op == KN_OP_CAST) {
        for (int i = 0; i < q->lanes; i++) a[i].i = wrap_to(a[i].i, dt, width);
        return;
    }
#define LANE_LOOP(OP) \
    case OP:          \
        for (int i = 0; i < q->lanes; i++) a[i].i = int_op(OP, a[i].i, b[i].i, c[i].i, kind, width); \
        return
    switch (s->op) {
        LANE_LOOP(KN_OP_ADD);
        LANE_LOOP(KN_OP_MUL);
        LANE_LOOP(KN_OP_CMPLT);
        LANE_LOOP(KN_OP_CMPNE);
        LANE_LOOP(KN_OP_AND);
        LANE_LOOP(KN_OP_OR);
        LANE_LOOP(KN_OP_WHERE);
    default:
        for (int i = 0; i < q->lanes; i++) a[i].i = int_op(s->op, a[i].i, b[i].i, c[i].i, kind, width);
    }
#undef LANE_LOOP
}

static void evaluate(prover *q, const kn_proof_step *steps, int n, kn_scalar (*st)[LANES]) {
    int top = 0, types[DEPTH];
    for (int k = 0; k < n; k++) {
        const kn_proof_step *s = &steps[k];
        kn_scalar           *to = st[top], v;
        switch (s->kind) {
        case KN_PROOF_VAR:
            if (s->at == q->lane_var) memcpy(to, q->dom[s->at].v + q->lane_from, (size_t)q->lanes * sizeof *to);
            else
                for (int i = 0; i < q->lanes; i++) to[i] = q->at[s->at];
            types[top++] = s->type;
            break;
        case KN_PROOF_EXPR:
            for (int i = 0; i < q->lanes; i++) {
                set_lane(q, i);
                const kn_proof_in in = {q->iv, q->lo, q->hi, q->dt};
                to[i]                = kn_cast_scalar((kn_scalar){.i = q->p->expr[s->at](&in)}, KN_I64, q->dt[s->type]);
                if (!kn_is_float(q->dt[s->type])) to[i].i = wrap_to(to[i].i, q->dt[s->type], q->width[s->type]);
            }
            types[top++] = s->type;
            break;
        case KN_PROOF_OP:
            top -= s->nsrc;
            apply(q, s, st + top, types + top);
            types[top++] = s->type;
            break;
        default:
            literal(q, s, &v);
            for (int i = 0; i < q->lanes; i++) to[i] = v;
            types[top++] = s->type;
            break;
        }
    }
}

static bool same_result(const prover *q, int dt, kn_scalar a, kn_scalar b) {
    if (!kn_is_float(dt)) return a.i == b.i;
    if (a.f != a.f || b.f != b.f) return a.f != a.f && b.f != b.f;
    return q->fast ? a.f == b.f : !memcmp(&a.f, &b.f, sizeof a.f);
}

static bool run_lanes(prover *q) {
    const kn_proof *p  = q->p;
    int             dt = q->dt[p->lhs[p->nlhs - 1].type], hold = 0;
    bool            on[LANES];
    for (int i = 0; i < q->lanes; i++) {
        if (p->cond) set_lane(q, i);
        const kn_proof_in in = {q->iv, q->lo, q->hi, q->dt};
        on[i]                = !p->cond || p->cond(&in);
        hold += on[i];
    }
    if (!hold) return true;
    q->cases += hold;
    evaluate(q, p->lhs, p->nlhs, stack_a);
    evaluate(q, p->rhs, p->nrhs, stack_b);
    for (int i = 0; i < q->lanes; i++) {
        if (!on[i] || same_result(q, dt, stack_a[0][i], stack_b[0][i])) continue;
        set_lane(q, i);
        int n = snprintf(q->text, sizeof q->text, "%s: left", kn_dtypes[dt].name);
        n += snprintf(q->text + n, sizeof q->text - (size_t)n, " %.17g, right %.17g, of",
                      kn_is_float(dt) ? stack_a[0][i].f : (double)stack_a[0][i].i,
                      kn_is_float(dt) ? stack_b[0][i].f : (double)stack_b[0][i].i);
        for (int k = 0; k < p->nvars && (size_t)n + 80 < sizeof q->text; k++) {
            kn_scalar v = k == q->lane_var ? q->dom[k].v[q->lane_from + i] : q->at[k];
            int       d = q->dt[p->var_type[k]];
            n += snprintf(q->text + n, sizeof q->text - (size_t)n, " %.17g:%s", kn_is_float(d) ? v.f : (double)v.i,
                          kn_dtypes[d].name);
            if (p->bounds >> k & 1)
                n += snprintf(q->text + n, sizeof q->text - (size_t)n, " in %lld..%lld", (long long)q->lo[k],
                              (long long)q->hi[k]);
        }
        return false;
    }
    return true;
}

/* All assignments: the variables but the lane variable count up like an odometer. */
static bool run_all(prover *q) {
    int64_t at[VARS] = {0};
    q->lane_var      = 0;
    for (int k = 1; k < q->p->nvars; k++)
        if (q->dom[k].n > q->dom[q->lane_var].n) q->lane_var = k;
    for (;;) {
        for (int k = 0; k < q->p->nvars; k++) {
            if (k == q->lane_var) continue;
            q->at[k] = q->dom[k].v[at[k]];
            q->iv[k] = q->at[k].i;
            q->lo[k] = q->dom[k].lo ? q->dom[k].lo[at[k]] : q->iv[k];
            q->hi[k] = q->dom[k].hi ? q->dom[k].hi[at[k]] : q->iv[k];
        }
        int64_t n = q->p->nvars ? q->dom[q->lane_var].n : 1;
        for (q->lane_from = 0; q->lane_from < n; q->lane_from += LANES) {
            q->lanes = (int)KN_MIN(n - q->lane_from, LANES);
            if (!run_lanes(q)) return false;
        }
        int k = 0;
        for (; k < q->p->nvars; k++) {
            if (k == q->lane_var) continue;
            if (++at[k] < q->dom[k].n) break;
            at[k] = 0;
        }
        if (k >= q->p->nvars) return true;
    }
}

/* ---- domains
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct pool {
    kn_arena ar;
} pool;

static void fill_ints(pool *m, domain *d, int64_t lo, int64_t hi, bool intervals) {
    int64_t n = hi - lo + 1, count = 0;
    if (!intervals) {
        d->n = n;
        d->v = kn_arena_get(&m->ar, (size_t)n * sizeof *d->v);
        for (int64_t i = 0; i < n; i++) d->v[i].i = lo + i;
        return;
    }
    for (int64_t i = 0; i < n; i++) count += (i + 1) * (n - i);
    d->n  = count;
    d->v  = kn_arena_get(&m->ar, (size_t)count * sizeof *d->v);
    d->lo = kn_arena_get(&m->ar, (size_t)count * sizeof *d->lo);
    d->hi = kn_arena_get(&m->ar, (size_t)count * sizeof *d->hi);
    count = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 0; a <= i; a++)
            for (int64_t b = i; b < n; b++, count++)
                d->v[count].i = lo + i, d->lo[count] = lo + a, d->hi[count] = lo + b;
}

/* The ends of every width up to the dtype's, and what is near them. */
static void fill_edges(pool *m, domain *d, int dt, bool intervals) {
    int64_t v[128], n = 0;
    for (int bits = 0; bits <= 33; bits++) {
        if (bits > 2 && bits != 7 && bits != 8 && bits != 15 && bits != 16 && bits != 31 && bits != 32) continue;
        for (int s = -1; s <= 1; s += 2)
            for (int64_t k = -1; k <= 1; k++) {
                int64_t x    = s * ((int64_t)1 << bits) + k;
                bool    have = x < kn_dtypes[dt].min || x > kn_dtypes[dt].max;
                for (int64_t i = 0; i < n; i++) have = have || v[i] == x;
                if (!have) v[n++] = x;
            }
    }
    int64_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        count = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t a = 0; a < (intervals ? n : 1); a++)
                for (int64_t b = 0; b < (intervals ? n : 1); b++) {
                    if (intervals && (v[a] > v[i] || v[b] < v[i])) continue;
                    if (pass) {
                        d->v[count].i = v[i];
                        if (intervals) d->lo[count] = v[a], d->hi[count] = v[b];
                    }
                    count++;
                }
        if (pass) break;
        d->n = count;
        d->v = kn_arena_get(&m->ar, (size_t)count * sizeof *d->v);
        if (intervals) {
            d->lo = kn_arena_get(&m->ar, (size_t)count * sizeof *d->lo);
            d->hi = kn_arena_get(&m->ar, (size_t)count * sizeof *d->hi);
        }
    }
}

static void fill_floats(pool *m, domain *d, int dt, const kn_reach *r, bool fast) {
    static const double special[] = {0.0,
                                     -0.0,
                                     1.0,
                                     -1.0,
                                     2.0,
                                     -2.0,
                                     0.5,
                                     -0.5,
                                     1.5,
                                     3.0,
                                     -3.0,
                                     0.25,
                                     7.0,
                                     0x1p-9,
                                     -0x1p-9,
                                     0x1p-14,
                                     0x1p-24,
                                     57344.0,
                                     -57344.0,
                                     65504.0,
                                     448.0,
                                     -448.0,
                                     3e38,
                                     1e-45,
                                     255.0,
                                     1.1,
                                     (double)INFINITY,
                                     -(double)INFINITY,
                                     (double)NAN,
                                     100.0,
                                     -127.5};
    int bytes = kn_dsize(dt), all = !kn_reach_all(r, bytes) ? 0 : bytes == 1 ? 256 : 65536;
    d->v = kn_arena_get(&m->ar, (size_t)(all ? all : (int)(sizeof special / sizeof *special)) * sizeof *d->v);
    d->n = 0;
    for (int i = 0; i < (all ? all : (int)(sizeof special / sizeof *special)); i++) {
        uint8_t   one = (uint8_t)i;
        uint16_t  two = (uint16_t)i;
        kn_scalar v   = !all ? kn_cast_scalar((kn_scalar){.f = special[i]}, KN_F64, dt)
                        : bytes == 1 ? kn_load_scalar(&one, dt)
                                     : kn_load_scalar(&two, dt);
        if (fast && !isfinite(v.f)) continue;
        d->v[d->n++] = v;
    }
}

/* A pattern's float literal that the dtype does not have never matches there. */
static bool literals_exist(const prover *q) {
    for (int i = 0; i < q->p->nlhs; i++) {
        const kn_proof_step *s = &q->p->lhs[i];
        if (s->kind == KN_PROOF_FLOAT && kn_cast_scalar((kn_scalar){.f = s->real}, KN_F64, q->dt[s->type]).f != s->real)
            return false;
    }
    return true;
}

/* The variable stands for a value, not for a dtype alone. */
static bool has_value(const kn_proof *p, int k) {
    for (int i = 0; i < p->nlhs; i++)
        if (p->lhs[i].kind == KN_PROOF_VAR && p->lhs[i].at == k) return true;
    for (int i = 0; i < p->nrhs; i++)
        if (p->rhs[i].kind == KN_PROOF_VAR && p->rhs[i].at == k) return true;
    return p->bounds >> k & 1;
}

static bool prove_with(prover *q, pool *m) {
    const kn_proof *p = q->p;
    if (!literals_exist(q)) return true;
    kn_reach r = kn_reach_of(p, q->dt);
    for (int t = 0; t < p->ntypes; t++)
        q->width[t] = r.narrow && kn_dsize(q->dt[t]) == 1 ? 4 : 8 * kn_dsize(q->dt[t]);
    for (int k = 0; k < p->nvars; k++) {
        int  dt = q->dt[p->var_type[k]], width = q->width[p->var_type[k]];
        bool iv = p->bounds >> k & 1;
        q->dom[k] = (domain){0};
        if (kn_is_float(dt)) fill_floats(m, &q->dom[k], dt, &r, q->fast);
        else if (dt == KN_BOOL) fill_ints(m, &q->dom[k], 0, 1, iv);
        else if (dt == KN_INDEX && !r.casts) fill_ints(m, &q->dom[k], -r.index, r.index, iv);
        else if (r.casts || width > 8) fill_edges(m, &q->dom[k], dt, iv);
        else if (kn_dtypes[dt].kind == 'U') fill_ints(m, &q->dom[k], 0, ((int64_t)1 << width) - 1, iv);
        else fill_ints(m, &q->dom[k], -((int64_t)1 << (width - 1)), ((int64_t)1 << (width - 1)) - 1, iv);
        if (!has_value(p, k)) q->dom[k].n = 1;
    }
    return run_all(q);
}

/* Every choice of dtypes for the rule's classes, among the smallest of each kind (more where it casts). */
static bool prove(prover *q) {
    static const int small[] = {KN_BOOL, KN_I8, KN_U8, KN_F8E4M3, KN_F8E5M2, KN_F16};
    static const int wide[]  = {KN_BOOL,   KN_I8,  KN_U8,   KN_I16, KN_U16,  KN_I32,
                                KN_F8E5M2, KN_F16, KN_BF16, KN_F32, KN_INDEX};
    static const int few[]   = {KN_BOOL, KN_I8, KN_U8, KN_I16, KN_F16, KN_F32};
    const kn_proof  *p = q->p;
    bool             heavy = p->bounds || p->nvars > 2; /* and of two dtypes at once */
    int              list[TYPES][20], count[TYPES], at[TYPES] = {0};
    for (int t = 0; t < p->ntypes; t++) {
        bool       many = p->ntypes > 2;
        const int *from = !many ? small : heavy ? few : wide;
        int        n    = !many ? KN_COUNT(small) : heavy ? KN_COUNT(few) : KN_COUNT(wide);
        count[t]        = 0;
        for (int i = 0; i < n; i++)
            if (p->type_mask[t] >> from[i] & 1) list[t][count[t]++] = from[i];
        for (int d = 1; !count[t] && d < KN_DTYPE_COUNT; d++)
            if (p->type_mask[t] >> d & 1) list[t][count[t]++] = d;
    }
    for (;;) {
        pool m;
        kn_arena_init(&m.ar, NULL);
        for (int t = 0; t < p->ntypes; t++) q->dt[t] = list[t][at[t]];
        bool ok = prove_with(q, &m);
        kn_arena_free(&m.ar);
        if (!ok) return false;
        int t = 0;
        while (t < p->ntypes && ++at[t] == count[t]) at[t++] = 0;
        if (t == p->ntypes) return true;
    }
}

static bool       *proved;
static const char *only;  /* a rule's name, given to the program: nothing else is tried; NULL: all */
static int         tried; /* proofs and tests of it */

static bool left_out(int rule) {
    if (only && strcmp(kn_rules[rule].name, only) != 0) return true;
    tried++;
    return false;
}

static void declarative_rules_hold(void) {
    long cases = 0;
    for (int i = 0; i < kn_proof_count; i++) {
        static prover q;
        if (left_out(kn_proofs[i].rule)) continue;
        q      = (prover){.p = &kn_proofs[i]};
        q.fast = !strcmp(kn_rules[q.p->rule].exact, "fast");
        double start = kn_now();
        bool   ok    = q.p->nvars <= VARS && prove(&q);
        if (!ok || !q.cases)
            printf("     %s:%d %s: %s\n", kn_rules[q.p->rule].file, kn_rules[q.p->rule].line, kn_rules[q.p->rule].name,
                   ok ? "its condition never held" : q.text);
        if (kn_now() - start > 1)
            printf("     %s: %ld cases, %.1f s\n", kn_rules[q.p->rule].name, q.cases, kn_now() - start);
        CHECK(ok && q.cases > 0);
        proved[q.p->rule] = ok && q.cases > 0;
        cases += q.cases;
    }
    printf("     %d rules proved over %ld cases\n", only ? tried : kn_proof_count, cases);
}

/* All of f32, for what Z3 does not prove. */
static bool prove_f32(prover *q) {
    enum { BLOCK = 1 << 16 };
    static kn_scalar v[BLOCK];
    for (int t = 0; t < q->p->ntypes; t++) {
        q->dt[t] = KN_F32;
        for (int d = 1; !(q->p->type_mask[t] >> q->dt[t] & 1); d++) q->dt[t] = d;
        q->width[t] = 32;
    }
    if (!literals_exist(q)) return true;
    q->dom[0] = (domain){.v = v, .n = BLOCK};
    for (uint32_t high = 0; high < BLOCK; high++) {
        for (uint32_t low = 0; low < BLOCK; low++) {
            uint32_t bits = high << 16 | low;
            v[low]        = kn_load_scalar(&bits, KN_F32);
        }
        if (!run_all(q)) return false;
    }
    return true;
}

static void floats_hold(void) {
    int n = 0;
    for (int i = 0; i < kn_proof_count; i++) {
        static prover q;
        if (!kn_reach_f32(&kn_proofs[i]) || (only && strcmp(kn_rules[kn_proofs[i].rule].name, only) != 0)) continue;
        q = (prover){.p = &kn_proofs[i]};
        n++;
        bool ok = prove_f32(&q);
        printf("     %s: %ld cases %s\n", kn_rules[q.p->rule].name, q.cases, q.text);
        CHECK(ok && q.cases >= (long)UINT32_MAX);
    }
    CHECK(n > 0);
}

/* ---- the rules' own tests, and C rules at every firing
 * -------------------------------------------------------------------------- */

static kn_validation validation;

static uint64_t *ever; /* firings of each rule in all tests here */

static void note_fired(uint64_t *fired) {
    for (int r = 0; r < kn_rule_count; r++) ever[r] += fired[r];
    memset(fired, 0, (size_t)kn_rule_count * sizeof *fired);
}

static void tests_of_rules_hold(void) {
    uint64_t *fired = kn_zalloc(NULL, (size_t)(kn_rule_count + 1) * sizeof *fired);
    if (!CHECK(fired)) return;
    for (int i = 0; i < kn_rule_test_count; i++) {
        const kn_rule_test *t = &kn_rule_tests[i];
        if (left_out(t->rule)) continue;
        kn_ref              v[VARS];
        kn_fault            f = {0};
        kn_rw               rw;
        kn_graph *g = kg_new(NULL); /* its own, so that the order of nodes is that of the test */
        if (!CHECK(g)) break;
        for (int k = 0; k < t->nvars; k++) {
            bool          lanes = t->groups & kn_lane_groups;
            kn_ref        shape = kg_dims_node(g, (int64_t[]){8}, lanes);
            const int64_t w[KN_PARAM_WORDS] = {k,
                                               t->var[k].dtype,
                                               0,
                                               KN_GLOBAL,
                                               0,
                                               t->var[k].bounded ? t->var[k].lo : INT64_MIN,
                                               t->var[k].bounded ? t->var[k].hi : INT64_MAX};
            bool          range = !lanes && t->var[k].bounded && t->var[k].lo == 0 && t->var[k].dtype == KN_INDEX;
            v[k] = range ? kg_range(g, kg_idx(g, t->var[k].hi + 1), k, KN_AXIS_LOOP)
                         : kg_make(g, KN_OP_PARAM, 0, kg_intern_words(g, w, KN_PARAM_WORDS), &shape, 1);
        }
        kn_rw_init(&rw, g, &f);
        rw.fired     = fired;
        rw.on_fire   = kn_validate_hook;
        kn_ref from = t->lhs(g, v), to = kn_rewrite(&rw, from, t->groups);
        bool   did = fired[t->rule] > 0, ok;
        if (t->rhs) {
            kn_ref want = kn_rewrite(&rw, t->rhs(g, v), t->groups);
            ok          = did && to && to == want;
        } else {
            ok = !did && to == from;
        }
        if (!ok) {
            kn_str s;
            kn_str_init(&s, NULL);
            if (to) kg_print(g, to, &s);
            printf("     %s:%d: %s%s\n%s", kn_rules[t->rule].file, t->line,
                   did ? "it gave" : "the rule did not fire: it gave", f.text, kn_str_c(&s));
            kn_str_free(&s);
        }
        CHECK(ok);
        CHECK_STR(kg_fault(g)->text, "");
        note_fired(fired);
        kn_rw_free(&rw);
        kg_free(g);
    }
    kn_free(NULL, fired, (size_t)(kn_rule_count + 1) * sizeof *fired);
}

/* ---- programs that make the rest fire
 * ------------------------------------------------------------------------------------------ */

static const char *const programs[] = {
    "%1 = PARAM {slot=0} [3, 4]\n%2 = BITCAST {u32} %1\n%3 = BITCAST {i32} %2\n",
    "%1 = PARAM {slot=0} [3, 4]\n%2 = BITCAST {u32} %1\n%3 = BITCAST {f32} %2\n",
    ("%1 = PARAM {slot=0} [9]\n%2 = RANGE {id=1} 9\n%3 = CMPLT %2 4\n%4 = LOAD (INDEX %1 %2) 0.0:f32 %3\n"
     "%5 = WHERE %3 %4 0.0:f32\n"),
    ("%1 = PARAM {slot=0} [9]\n%2 = PARAM {slot=1} [9]\n%3 = RANGE {id=1} 9\n%4 = CMPLT %3 4\n"
     "%5 = MUL (LOAD (INDEX %1 %3) 0.0:f32 %4) (LOAD (INDEX %2 %3) 0.0:f32 %4)\n%6 = WHERE %4 %5 0.0:f32\n"),
    "%1 = PARAM {slot=0} [9]\n%2 = LOAD (INDEX %1 3) 0.0:f32 true\n%3 = ADD %2 (LOAD (INDEX %1 4) 1.0:f32 false)\n",
    ("%1 = PARAM {slot=0, device=\"A,B\"} [4, 3]\n%2 = PERMUTE {axes=(1, 0)} %1\n"
     "%3 = ALLREDUCE {op=ADD, devices=\"A,B\"} %2\n"),
    "%1 = PARAM {slot=0, device=\"A,B\"} [4, 3]\n%2 = ALLREDUCE {op=MAX, devices=\"A,B\"} %1\n",
};

static void programs_keep_values(void) {
    for (int i = 0; i < KN_COUNT(programs); i++) {
        kn_graph *g = kg_new(NULL);
        kn_fault  f = {0};
        kn_rw     rw;
        if (!CHECK(g)) return;
        kn_ref root = kg_parse(g, programs[i], strlen(programs[i]), &f);
        kn_rw_init(&rw, g, &f);
        rw.on_fire = kn_validate_hook;
        rw.fired   = ever;
        CHECK(root && kn_rewrite(&rw, root, KN_GROUPS_SIMPLIFY | KN_G_sharding));
        CHECK_STR(f.text, "");
        kn_rw_free(&rw);
        kg_free(g);
    }
}

/* Index expressions over three short ranges, compared at every point. */
static kn_ref random_index(kn_graph *g, const kn_ref *r, uint32_t *seed, int depth) {
    *seed      = *seed * 1664525u + 1013904223u;
    uint32_t k = *seed >> 16, c = *seed >> 8 & 15;
    if (depth == 0) return k % 5 == 4 ? kg_idx(g, (int64_t)c - 4) : r[k % 3];
    kn_ref a = random_index(g, r, seed, depth - 1);
    switch (k % 8) {
    case 0: case 1: return kg_op2(g, KN_OP_ADD, a, random_index(g, r, seed, depth - 1));
    case 2: return kg_op2(g, KN_OP_SUB, a, random_index(g, r, seed, depth - 1));
    case 3: case 4: return kg_op2(g, KN_OP_MUL, a, kg_idx(g, (int64_t)c - 3));
    case 5: return kg_op2(g, KN_OP_IDIV, a, kg_idx(g, 1 + (int64_t)c));
    case 6: return kg_op2(g, KN_OP_MOD, a, kg_idx(g, 1 + (int64_t)c));
    default: {
        kn_ref b = random_index(g, r, seed, depth - 1), p;
        p        = kg_op2(g, c & 1 ? KN_OP_CMPLT : c & 2 ? KN_OP_CMPGE : KN_OP_CMPEQ, a, c & 4 ? b : kg_idx(g, c));
        if (c & 8) p = kg_op2(g, KN_OP_AND, p, kg_op2(g, KN_OP_CMPLT, b, kg_idx(g, 3)));
        return kg_op3(g, KN_OP_WHERE, p, a, b);
    }
    }
}

static int64_t value_at(const kn_graph *g, kn_ref n, const kn_ref *r, const int64_t *at) {
    const kn_node *nd = kg_node(g, n);
    kn_scalar      in[3] = {{0}}, out = {0};
    int            dt[3] = {0};
    if (nd->op == KN_OP_CONST) return (int64_t)nd->arg;
    for (int i = 0; i < 3; i++)
        if (n == r[i]) return at[i];
    for (uint32_t i = 0; i < nd->nsrc; i++)
        in[i].i = value_at(g, nd->s.src[i], r, at), dt[i] = kg_dtype(g, nd->s.src[i]);
    kn_alu(nd->op, nd->dtype, dt, in, &out);
    return out.i;
}

static void index_expressions_keep_values(void) {
    uint32_t seed = 7;
    long     before = 0, after = 0;
#if KN_SANITIZED
    enum { ROUNDS = 1000 };
#else
    enum { ROUNDS = 4000 };
#endif
    for (int i = 0; i < ROUNDS; i++) {
        static const int sizes[][3] = {{4, 3, 5}, {2, 8, 3}, {6, 1, 4}, {3, 4, 7}};
        kn_graph        *g = kg_new(NULL);
        kn_fault         f = {0};
        kn_rw            rw;
        kn_ref           r[3], *order;
        int64_t          at[3];
        uint32_t         n;
        bool             same = true;
        if (!CHECK(g)) return;
        const int *size = sizes[i % 4];
        for (int k = 0; k < 3; k++) r[k] = kg_range(g, kg_idx(g, size[k]), k, KN_AXIS_LOOP);
        kn_ref from = random_index(g, r, &seed, 2 + i % 3), to;
        kn_rw_init(&rw, g, &f);
        rw.on_fire = i % 8 ? NULL : kn_validate_hook;
        rw.fired   = ever;
        to         = kn_rewrite(&rw, from, KN_GROUPS_SIMPLIFY);
        if (!CHECK(to) || !CHECK_STR(f.text, "")) return;
        for (at[0] = 0; at[0] < size[0]; at[0]++)
            for (at[1] = 0; at[1] < size[1]; at[1]++)
                for (at[2] = 0; at[2] < size[2]; at[2]++)
                    same = same && value_at(g, from, r, at) == value_at(g, to, r, at);
        if (kg_reach(g, &from, 1, &order, &n)) before += n, kn_free(NULL, order, n * sizeof *order);
        if (kg_reach(g, &to, 1, &order, &n)) after += n, kn_free(NULL, order, n * sizeof *order);
        if (!same) {
            kn_str s;
            kn_str_init(&s, NULL);
            kg_print(g, from, &s);
            kn_str_puts(&s, "=>\n");
            kg_print(g, to, &s);
            printf("%s", kn_str_c(&s));
            kn_str_free(&s);
        }
        CHECK(same);
        kn_rw_free(&rw);
        kg_free(g);
        if (!same) return;
    }
    printf("     %ld nodes became %ld\n", before, after);
}

/* Elementwise programs of every dtype, each node over two of the last few; every firing is evaluated. */
static void random_programs_keep_values(void) {
    static const int dts[] = {KN_BOOL, KN_I8, KN_U8, KN_I32, KN_U32, KN_I64, KN_U64, KN_F16, KN_F32, KN_F64};
    uint64_t         seed = 3;
    kn_fault         f    = {0};
    enum { ROUNDS = 1500, NODES = 60 };
    for (int i = 0; i < ROUNDS; i++) {
        kn_graph *g = kg_new(NULL);
        kn_rw     rw;
        kn_ref    last[KN_DTYPE_COUNT][4];
        if (!CHECK(g)) return;
        for (int k = 0; k < KN_COUNT(dts); k++)
            for (int j = 0; j < 4; j++)
                last[dts[k]][j] = j < 2 ? kg_param(g, k * 4 + j, dts[k], NULL, 0) : kg_int(g, dts[k], j - 2);
        kn_ref n = 0;
        for (int k = 0; k < NODES; k++) {
            seed       = seed * 6364136223846793005u + 1442695040888963407u;
            uint32_t r = (uint32_t)(seed >> 33), op = r % KN_OP_COUNT;
            int      dt = dts[(r >> 8) % KN_COUNT(dts)], from = dts[(r >> 12) % KN_COUNT(dts)];
            kn_ref   a = last[dt][r >> 16 & 3], b = last[dt][r >> 18 & 3];
            uint32_t pick = r >> 20 & 15;
            bool     fl = kn_is_float(dt), bl = dt == KN_BOOL;
            if (pick < 2) n = kg_int(g, dt, (int64_t)(r >> 24) % 5 - 2);
            else if (pick < 4) n = kg_cast(g, last[from][r >> 16 & 3], dt);
            else if (pick < 6) n = kg_op3(g, KN_OP_WHERE, last[KN_BOOL][r >> 24 & 3], a, b);
            else if (kn_ops[op].cls != KN_CLS_BINARY && op != KN_OP_NEG && op != KN_OP_NOT) continue;
            else if (op == KN_OP_POW || op == KN_OP_THREEFRY || (op == KN_OP_DIV && !fl) || (op == KN_OP_NOT && fl))
                continue;
            else if ((fl || bl) && (op == KN_OP_IDIV || op == KN_OP_MOD || op == KN_OP_SHL || op == KN_OP_SHR))
                continue;
            else if (fl && (op == KN_OP_AND || op == KN_OP_OR || op == KN_OP_XOR)) continue;
            else n = kn_ops[op].cls == KN_CLS_BINARY ? kg_op2(g, (int)op, a, b) : kg_op1(g, (int)op, a);
            last[kg_dtype(g, n)][r >> 28 & 3] = n;
        }
        kn_rw_init(&rw, g, &f);
        rw.on_fire = kn_validate_hook;
        rw.fired   = ever;
        for (int k = 0; k < KN_COUNT(dts); k++)
            CHECK(kn_rewrite_all(&rw, last[dts[k]], 4, KN_GROUPS_SIMPLIFY | (i % 4 == 0 ? KN_RW_FAST : 0)));
        CHECK_STR(kg_fault(g)->text, "");
        kn_rw_free(&rw);
        kg_free(g);
        if (!CHECK_STR(f.text, "") || !CHECK_STR(validation.text, "")) return;
    }
}

static void firings_keep_values(void) {
    CHECK_STR(validation.text, "");
    CHECK_EQ(validation.failures, 0);
    printf("     %ld firings evaluated on %ld assignments\n", validation.firings, validation.trials);
}

static void no_rule_goes_unproved(void) {
    for (int r = 0; r < kn_rule_count; r++) {
        if (!*kn_rules[r].exact || proved[r] || (r < 4096 && validation.checked[r])) continue;
        printf("     %s:%d %s: neither proved nor evaluated at a firing; give it a test\n", kn_rules[r].file,
               kn_rules[r].line, kn_rules[r].name);
        CHECK(!"every marked rule is proved");
    }
}

static void every_rule_fires(void) {
    for (int r = 0; r < kn_rule_count; r++) {
        if (!*kn_rules[r].exact || ever[r]) continue;
        printf("     %s:%d %s\n", kn_rules[r].file, kn_rules[r].line, kn_rules[r].name);
        CHECK(!"a rule never fired here: give it a test that makes it");
    }
}

/* NAME: the proof and the tests of the rules of that name alone. --f32 [NAME]: over all of f32, what Z3 does not
 * prove. */
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--f32")) {
        only = argc > 2 ? argv[2] : NULL;
        RUN(floats_hold);
        return check_result();
    }
    only   = argc > 1 ? argv[1] : NULL;
    ever   = kn_zalloc(NULL, (size_t)(kn_rule_count + 1) * sizeof *ever);
    if (!ever) return 1;
    proved = kn_zalloc(NULL, (size_t)kn_rule_count + 1);
    if (!proved) return 1;
    kn_validate_begin(&validation);
    if (!only) RUN(ops_agree_with_alu);
    RUN(declarative_rules_hold);
    RUN(tests_of_rules_hold);
    if (only && !CHECK(tried > 0)) fprintf(stderr, "no rule called %s has a proof or a test\n", only);
    if (!only) {
        RUN(programs_keep_values);
        RUN(index_expressions_keep_values);
        RUN(random_programs_keep_values);
        RUN(firings_keep_values);
        RUN(no_rule_goes_unproved);
        RUN(every_rule_fires);
    }
    kn_validate_end();
    kn_free(NULL, ever, (size_t)(kn_rule_count + 1) * sizeof *ever);
    kn_free(NULL, proved, (size_t)kn_rule_count + 1);
    return check_result();
}
