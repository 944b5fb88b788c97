/* validate.c - both sides of a firing evaluated on random values. */
#include "rules/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/eval.h"

enum { TRIALS = 24, TRIES = 100 * TRIALS }; /* of deep arithmetic most tries end in a NaN, whose bits are no one's */

/* How near both sides must be. */
typedef enum validate_as { VALIDATE_BITS, VALIDATE_FAST, VALIDATE_UNITS } validate_as;

static kn_validation *current;

static uint64_t next_random(uint64_t *seed) {
    *seed      = *seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *seed;
    x          = (x ^ (x >> 32)) * 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
}

static kn_scalar random_value(const kn_graph *g, kn_ref n, uint64_t *seed) {
    static const double special[] = {0.0,         -0.0,  1.0,  -1.0, 0.5, 2.0, (double)INFINITY, -(double)INFINITY,
                                     (double)NAN, 1e-30, -3.75};
    int                 dt = kg_dtype(g, n);
    uint64_t            r  = next_random(seed);
    kn_scalar           s  = {0};
    if (kn_is_float(dt)) {
        s.f = r & 1 ? special[(r >> 8) % (sizeof special / sizeof *special)]
                    : ldexp((double)(int64_t)(r >> 11), -60 + (int)(r % 30)) - 0.5;
        return kn_cast_scalar(s, KN_F64, dt);
    }
    int64_t lo = kg_min(g, n), hi = kg_max(g, n);
    if (dt == KN_INDEX) { /* the sums and products of indices must not overflow */
        lo = KN_MAX(lo, -20000);
        hi = KN_MAX(KN_MIN(hi, 20000), lo);
    }
    switch (r & 7) {
    case 0: s.i = lo; break;
    case 1: s.i = hi; break;
    case 2: s.i = (int64_t)((r >> 8) % 5) - 2; break;
    default: {
        uint64_t span = (uint64_t)hi - (uint64_t)lo;
        s.i           = (int64_t)((uint64_t)lo + (span == UINT64_MAX ? r >> 3 : (r >> 3) % (span + 1)));
        break;
    }
    }
    if (s.i < lo || s.i > hi) s.i = lo;
    return s;
}

static bool looks_through(const kn_graph *g, kn_ref n) {
    int op = kg_op(g, n);
    if (op == KN_OP_EXPAND || op == KN_OP_RESHAPE) {
        kn_ref x = kg_at(g, n, 0);
        return kg_op(g, x) == KN_OP_CONST || kg_op(g, x) == KN_OP_RESHAPE || kg_op(g, x) == KN_OP_EXPAND;
    }
    return false;
}

/* A BITCAST that keeps the number of elements: of one value. */
static bool reinterprets(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_BITCAST && kn_dsize(kg_dtype(g, n)) == kn_dsize(kg_dtype(g, kg_at(g, n, 0)));
}

static kn_scalar reinterpret(kn_scalar v, int from, int to) {
    uint64_t bits = 0;
    kn_store_scalar(&bits, from, v);
    return kn_load_scalar(&bits, to);
}

/* One assignment of the leaves; values by node. False: it says nothing, for the bits of a NaN are not defined. */
static bool compute(const kn_graph *g, const kn_ref *order, uint32_t n, kn_scalar *value, uint64_t *seed) {
    bool defined = true;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref         id = order[i];
        const kn_node *nd = kg_node(g, id);
        const kn_ref  *s  = kg_src(g, id);
        if (nd->op == KN_OP_CONST) {
            memcpy(&value[id], &nd->arg, sizeof value[id]);
        } else if (kn_is_alu(nd->op)) {
            kn_scalar in[3] = {{0}};
            int       dt[3] = {0};
            for (uint32_t k = 0; k < nd->nsrc; k++) in[k] = value[s[k]], dt[k] = kg_dtype(g, s[k]);
            kn_alu(nd->op, nd->dtype, dt, in, &value[id]);
        } else if (reinterprets(g, id)) {
            int from  = kg_dtype(g, s[0]);
            value[id] = reinterpret(value[s[0]], from, nd->dtype);
            if (kn_is_float(from) && !kn_is_float(nd->dtype) && value[s[0]].f != value[s[0]].f) defined = false;
        } else if (looks_through(g, id)) {
            value[id] = value[s[0]];
        } else if (nd->op == KN_OP_LOAD && nd->nsrc == 3 && !value[s[2]].i) {
            value[id] = value[s[1]];
        } else if (nd->op == KN_OP_LOAD && kg_op(g, s[0]) == KN_OP_INDEX) {
            value[id] = value[s[0]]; /* what stands there */
        } else if (nd->dtype != KN_VOID) {
            value[id] = random_value(g, id, seed);
        }
    }
    return defined;
}

/* Floats of a dtype in order, neighbours one apart. */
static int64_t in_order(kn_scalar v, int dt) {
    uint64_t bits = 0, sign = (uint64_t)1 << (8 * kn_dsize(dt) - 1);
    kn_store_scalar(&bits, dt, v);
    return bits & sign ? -(int64_t)(bits ^ sign) : (int64_t)bits;
}

static bool same_value(int dt, kn_scalar a, kn_scalar b, validate_as as) {
    if (!kn_is_float(dt)) return a.i == b.i;
    if (a.f != a.f || b.f != b.f) return as == VALIDATE_FAST || (a.f != a.f && b.f != b.f);
    if (as == VALIDATE_FAST) return a.f == b.f || isinf(a.f) || isinf(b.f) || fabs(a.f - b.f) <= 1e-2 * fabs(a.f);
    if (as == VALIDATE_UNITS) return llabs(in_order(a, dt) - in_order(b, dt)) <= KN_VALIDATE_UNITS;
    return !memcmp(&a.f, &b.f, sizeof a.f);
}

/* ---- whole tensors ----------------------------------------------------------------------------------------------- */

static bool run_tensor(kn_graph *g, kn_ref root, const kn_array *slots, int nslots, kn_value *out) {
    kn_fault f = {0};
    int      n = 1;
    return kn_eval(g, root, slots, nslots, out, &n, NULL, &f) && n == 1;
}

static bool same_tensors(kn_graph *g, kn_ref from, kn_ref to, const kn_ref *order, uint32_t n, uint64_t *seed,
                         bool *comparable) {
    enum { SLOTS = 8 };
    static const int64_t most = 1 << 16;
    kn_array             slots[SLOTS] = {{0}};
    kn_value             a = {0}, b = {0};
    int                  nslots = 0;
    bool                 same = true;
    *comparable               = false;
    for (uint32_t i = 0; i < n; i++) {
        int op = kg_op(g, order[i]);
        if (op == KN_OP_BUFFER || op == KN_OP_RANGE || kg_numel(g, order[i]) > most || kg_numel(g, order[i]) < 0)
            return true;
        if (op != KN_OP_PARAM) continue;
        int64_t slot = kg_field(g, order[i], KN_F_PARAM_slot);
        if (slot < 0 || slot >= SLOTS) return true;
        int dt = kg_dtype(g, order[i]);
        if (slots[slot].data) {
            if (slots[slot].dtype != dt || slots[slot].size != kg_numel(g, order[i])) goto done;
            continue;
        }
        slots[slot].size  = kg_numel(g, order[i]);
        slots[slot].dtype = dt;
        slots[slot].data  = kn_zalloc(NULL, (size_t)(slots[slot].size * kn_dsize(dt)) + 1);
        if (!slots[slot].data) goto done;
        for (int64_t k = 0; k < slots[slot].size; k++)
            kn_store_scalar((char *)slots[slot].data + k * kn_dsize(dt), dt, random_value(g, order[i], seed));
        nslots = KN_MAX(nslots, (int)slot + 1);
    }
    if (run_tensor(g, from, slots, nslots, &a) && run_tensor(g, to, slots, nslots, &b)) {
        *comparable = true;
        same        = a.numel == b.numel && a.dtype == b.dtype && a.rank == b.rank;
        for (int64_t k = 0; same && k < a.numel; k++) {
            int64_t at = k * kn_dsize(a.dtype);
            same       = same_value(a.dtype, kn_load_scalar((char *)a.data + at, a.dtype),
                                    kn_load_scalar((char *)b.data + at, a.dtype), VALIDATE_BITS);
        }
    }
done:
    kn_value_free(kg_alloc(g), &a);
    kn_value_free(kg_alloc(g), &b);
    for (int i = 0; i < SLOTS; i++)
        kn_free(NULL, slots[i].data, (size_t)(slots[i].size * kn_dsize(slots[i].dtype)) + 1);
    return same;
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

/* Evaluates both; false with a text when they differ. *trials counts what was compared, 0 when nothing could be. */
static bool validate_pair(kn_graph *g, kn_ref from, kn_ref to, validate_as as, uint64_t *seed, long *trials, char *text,
                          size_t cap) {
    kn_ref     roots[2] = {from, to}, *order = NULL;
    uint32_t   n;
    kn_scalar *value = NULL;
    bool       same = true, comparable = false,
               scalar = kn_is_alu(kg_op(g, from)) || reinterprets(g, from) ||
                        (kg_op(g, from) == KN_OP_LOAD && kg_op(g, kg_at(g, from, 0)) == KN_OP_INDEX);
    size_t     room = (size_t)KN_MAX(from, to) + 1;
    *trials         = 0;
    text[0]         = 0;
    if (!kg_reach(g, roots, 2, &order, &n)) return true;
    if (!scalar) {
        same    = same_tensors(g, from, to, order, n, seed, &comparable);
        *trials = comparable;
        if (!same) snprintf(text, cap, "tensors differ");
        goto done;
    }
    if (!(value = kn_zalloc(NULL, room * sizeof *value))) goto done;
    for (int t = 0; t < TRIES && *trials < TRIALS && same; t++) {
        if (!compute(g, order, n, value, seed)) continue;
        ++*trials;
        same = same_value(kg_dtype(g, from), value[from], value[to], as);
        if (same) continue;
        bool fl = kn_is_float(kg_dtype(g, from));
        int  at = snprintf(text, cap, "%.17g, not %.17g, where", fl ? value[to].f : (double)value[to].i,
                           fl ? value[from].f : (double)value[from].i);
        for (uint32_t i = 0; i < n && (size_t)at + 60 < cap; i++)
            if (!kn_is_alu(kg_op(g, order[i])) && kg_op(g, order[i]) != KN_OP_CONST && kg_dtype(g, order[i]) != KN_VOID)
                at += snprintf(text + at, cap - (size_t)at, " #%u = %.17g", order[i],
                               kn_is_float(kg_dtype(g, order[i])) ? value[order[i]].f : (double)value[order[i]].i);
    }
    kn_free(NULL, value, room * sizeof *value);
done:
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return same;
}

void kn_validate_begin(kn_validation *v) {
    memset(v, 0, sizeof *v);
    v->seed = 1;
    current = v;
}

void kn_validate_end(void) { current = NULL; }

void kn_validate_hook(kn_rw *rw, int rule, kn_ref from, kn_ref to) {
    const char *mark = kn_rules[rule].exact;
    validate_as as   = !strcmp(mark, "fast") ? VALIDATE_FAST : VALIDATE_BITS;
    if (!current) return;
    if (!*mark) {
        if (strncmp(kn_rules[rule].group, "decomp", 6) != 0) return;
        as = VALIDATE_UNITS;
    }
    long trials;
    char text[600];
    current->firings++;
    if (validate_pair(rw->g, from, to, as, &current->seed, &trials, text, sizeof text)) {
        current->trials += trials;
        if (trials && rule < 4096) current->checked[rule]++;
        return;
    }
    if (current->failures++) return;
    kn_str a, b;
    kn_str_init(&a, NULL);
    kn_str_init(&b, NULL);
    kg_print(rw->g, from, &a);
    kg_print(rw->g, to, &b);
    snprintf(current->text, sizeof current->text, "%s.%s: %.300s\n%.300s=>\n%.300s", kn_rules[rule].group,
             kn_rules[rule].name, text, kn_str_c(&a), kn_str_c(&b));
    kn_str_free(&a);
    kn_str_free(&b);
}
