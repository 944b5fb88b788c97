/* verify.c - the sweep that asks verify.rules about every node, and what those rules ask back.
 *
 * Contract: refuses only what is wrong, by rules alone; a fault names the first node in the program's order that one
 * refuses. No rule changes the graph. */
#include "rules/verify.h"

#include "rules/verify_rules.h"
#include "rules_gen.h"

#include <string.h>

const char *const kn_stage_names[KN_STAGE_COUNT] = {
#define STAGE(symbol, name) #name,
#include "rules/stages.def"
#undef STAGE
};

int kn_stage_by_name(const char *name) {
    for (int i = 0; i < KN_STAGE_COUNT; i++)
        if (!strcmp(name, kn_stage_names[i])) return i;
    return -1;
}

typedef struct verifier { /* kn_rw.user */
    bool calls; /* a CALL stands in the program */
} verifier;

/* ---- conditions ------------------------------------------------------------------------------------------------ */

bool kn_verify_unrounded(kn_rw *rw, kn_ref c) {
    kn_scalar s = {.f = kg_const_float(rw->g, c)}, r = kn_cast_scalar(s, KN_F64, kg_dtype(rw->g, c));
    return s.f == s.f && s.f != r.f;
}

bool kn_verify_out_of_range(kn_rw *rw, kn_ref c) {
    int     dt = kg_dtype(rw->g, c);
    int64_t i  = (int64_t)kg_node(rw->g, c)->arg;
    return dt != KN_U64 && (i < kn_dtypes[dt].min || i > kn_dtypes[dt].max);
}

/* The storage behind a view, 0 if there is none. */
static kn_ref storage_of(const kn_graph *g, kn_ref n) {
    for (;;) {
        int op = kg_op(g, n);
        if (op == KN_OP_PARAM && kg_field(g, n, KN_F_PARAM_space) == KN_REG) return 0; /* of a combine */
        if (op == KN_OP_PARAM || op == KN_OP_BUFFER) return n;
        if (op == KN_OP_GETTUPLE) return n; /* of a CALL */
        bool moved = kn_is_movement(op) && op != KN_OP_REPLICATED && kg_nsrc(g, n);
        if (!moved && op != KN_OP_AFTER && op != KN_OP_BIND) return 0;
        n = kg_at(g, n, 0); /* of a STACK of places, the first stands for all */
    }
}

bool kn_verify_no_storage(kn_rw *rw, kn_ref x) {
    return !storage_of(rw->g, x);
}

bool kn_verify_no_target(kn_rw *rw, kn_ref x) {
    return !storage_of(rw->g, x) && !(rw->stage == KN_STAGE_ANY && kg_op(rw->g, x) == KN_OP_HOLE);
}

bool kn_verify_cuts_shards(kn_rw *rw, kn_ref view) {
    return kg_cuts_shards(rw->g, view);
}

bool kn_verify_alone(kn_rw *rw, kn_ref n) {
    (void)n;
    return !((const verifier *)rw->user)->calls;
}

bool kn_verify_shaped(kn_rw *rw, kn_ref n) {
    return kg_rank(rw->g, n) > 0;
}

bool kn_verify_no_vector(kn_rw *rw, kn_ref n) {
    return kg_rank(rw->g, n) > 1 && !((const verifier *)rw->user)->calls;
}

bool kn_verify_no_fold(kn_rw *rw, kn_ref function) {
    kn_fold_parts p;
    return !kg_fold_parts(rw->g, function, &p);
}

const char *kn_verify_combine(kn_rw *rw, kn_ref reduce) {
    kn_fold_parts p;
    return kg_is_fold(rw->g, reduce) && kg_fold_parts(rw->g, kg_at(rw->g, reduce, 0), &p)
               ? kg_combine_flaw(rw->g, &p)
               : NULL;
}

const char *kn_verify_wmma(kn_rw *rw, kn_ref wmma) {
    const kn_graph *g = rw->g;
    const int64_t  *w = kg_words(g, wmma, NULL);
    const int64_t   n = w[KN_F_WMMA_n], m = w[KN_F_WMMA_m], k = w[KN_F_WMMA_k];
    const int64_t   whole[3] = {kn_sat_mul(m, k), kn_sat_mul(k, n), kn_sat_mul(m, n)};
    for (uint32_t i = 0; i < 3; i++) {
        kn_ref s = kg_at(g, wmma, i);
        if (kg_dtype(g, s) != w[i < 2 ? KN_F_WMMA_dtype_in : KN_F_WMMA_dtype_out]) return "a source of another dtype";
        if (whole[i] <= 0 || kn_sat_mul(kg_numel(g, s), w[KN_F_WMMA_threads]) != whole[i])
            return "the fragments of its threads do not make up matrices of its dims";
    }
    return NULL;
}

bool kn_verify_overflows(kn_rw *rw, kn_ref n) {
    const kn_graph *g  = rw->g;
    int             op = kg_op(g, n);
    int64_t         lo[2], hi[2], t;
    for (uint32_t i = 0; i < 2; i++) {
        lo[i] = kg_min(g, kg_at(g, n, i));
        hi[i] = kg_max(g, kg_at(g, n, i));
        if (lo[i] == INT64_MIN || hi[i] == INT64_MAX) return false;
    }
    bool over = false;
    for (int i = 0; i < 4; i++) {
        int64_t a = i & 1 ? hi[0] : lo[0], b = i & 2 ? hi[1] : lo[1];
        if (op == KN_OP_ADD) over |= __builtin_add_overflow(a, b, &t);
        if (op == KN_OP_SUB) over |= __builtin_sub_overflow(a, b, &t);
        if (op == KN_OP_MUL) over |= __builtin_mul_overflow(a, b, &t);
    }
    return over;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static const char *blame(kn_rw *rw, kn_ref n, const char *what) {
    rw->refused = n;
    return what;
}

const char *kn_verify_open(kn_rw *rw, kn_ref sink) {
    kn_ref open[1];
    if (kg_closed(rw->g, sink)) return NULL;
    kg_ranges(rw->g, sink, open, 1);
    return blame(rw, open[0], "no END or REDUCE closes this loop");
}

/* Where each node stands in a LINEAR: at[n] is 1 + its place, 0: not listed. NULL: out of memory. */
static uint32_t *places(kn_rw *rw, kn_ref linear, kn_ref *twice) {
    uint32_t *at = kn_zalloc(kg_alloc(rw->g), ((size_t)linear + 1) * sizeof *at);
    *twice       = 0;
    if (!at) kn_oom(rw->fault);
    for (uint32_t i = 0; at && i < kg_nsrc(rw->g, linear); i++) {
        kn_ref s = kg_at(rw->g, linear, i);
        if (at[s]) *twice = s;
        at[s] = i + 1;
    }
    return at;
}

const char *kn_verify_order(kn_rw *rw, kn_ref linear) {
    const kn_graph *g = rw->g;
    const char     *wrong = NULL;
    kn_ref          twice;
    uint32_t       *at = places(rw, linear, &twice);
    if (at && twice) wrong = blame(rw, twice, "listed twice");
    for (uint32_t i = 0; at && !wrong && i < kg_nsrc(g, linear); i++) {
        kn_ref s = kg_at(g, linear, i);
        for (uint32_t k = 0; k < kg_nsrc(g, s); k++)
            if (at[kg_at(g, s, k)] > i + 1 && kg_op(g, s) != KN_OP_GROUP) /* a GROUP does nothing of its own */
                wrong = blame(rw, s, "listed before one of its sources");
    }
    kn_free(kg_alloc(g), at, ((size_t)linear + 1) * sizeof *at);
    return wrong;
}

/* What s closes must be the innermost loop or IF that is open. */
static const char *close_blocks(kn_rw *rw, kn_ref s, const uint32_t *at, const kn_ref *open, uint32_t *depth) {
    int op = kg_op(rw->g, s);
    if (op != KN_OP_ENDIF && op != KN_OP_END) return NULL;
    for (uint32_t k = kg_nsrc(rw->g, s); k-- > (op == KN_OP_END ? 1u : 0u);) {
        kn_ref what = kg_at(rw->g, s, k);
        if (!at[what]) continue;
        if (!*depth || open[*depth - 1] != what)
            return blame(rw, s, "closes something that is not the innermost open loop or IF");
        --*depth;
    }
    return NULL;
}

/* Loops and IFs nest, and nothing stands outside the loops it needs. */
const char *kn_verify_nesting(kn_rw *rw, kn_ref linear) {
    const kn_graph *g = rw->g;
    const kn_alloc *a = kg_alloc(g);
    const char     *wrong = NULL;
    uint32_t        n = kg_nsrc(g, linear), depth = 0;
    kn_ref          twice, ranges[64], *open = kn_zalloc(a, ((size_t)n + 1) * sizeof *open);
    uint32_t       *at = places(rw, linear, &twice);
    if (!open) kn_oom(rw->fault);
    for (uint32_t i = 0; at && open && !wrong && i < n; i++) {
        kn_ref s  = kg_at(g, linear, i);
        int    op = kg_op(g, s), count = kg_ranges(g, s, ranges, KN_COUNT(ranges));
        wrong = close_blocks(rw, s, at, open, &depth);
        for (int k = 0; !wrong && k < KN_MIN(count, KN_COUNT(ranges)); k++) {
            bool found = ranges[k] == s || !at[ranges[k]];
            for (uint32_t d = 0; d < depth; d++) found |= open[d] == ranges[k];
            if (!found) wrong = blame(rw, s, "stands outside a loop it depends on");
        }
        if (op == KN_OP_IF || (op == KN_OP_RANGE && kg_field(g, s, KN_F_RANGE_rank) == 0)) open[depth++] = s;
    }
    if (at && open && !wrong && depth) wrong = blame(rw, open[depth - 1], "never closed");
    kn_free(a, at, ((size_t)linear + 1) * sizeof *at);
    kn_free(a, open, ((size_t)n + 1) * sizeof *open);
    return wrong;
}

const char *kn_verify_custom(kn_rw *rw, kn_ref call) {
    const kn_graph *g    = rw->g;
    kn_ref          body = kg_at(g, call, 0);
    if (!kg_is_custom(g, call)) return NULL;
    bool passes = kg_custom_passes(g, call);
    if (passes && !kg_custom_results(g, call)) return "it passes on more arguments than it has, or none";
    for (uint32_t k = 0; !passes && k < kg_nsrc(g, body); k++) {
        kn_ref type = kg_at(g, body, k);
        if (kg_op(g, type) != KN_OP_PARAM || kg_space(g, type) != KN_REG || kg_field(g, type, KN_F_PARAM_slot) != k)
            return "a function's results are like PARAMs of space REG, numbered from 0";
    }
    for (uint32_t k = 1; k < kg_nsrc(g, call); k++)
        if (kg_dtype(g, kg_at(g, call, k)) == KN_VOID) return "an argument has no value";
    return NULL;
}

const char *kn_verify_ins(kn_rw *rw, kn_ref ins) {
    const kn_graph *g     = rw->g;
    int64_t         lanes = kg_field(g, ins, KN_F_INS_lanes);
    for (uint32_t k = 0; lanes && kg_field(g, ins, KN_F_INS_op) != KN_OP_CAST && k < kg_nsrc(g, ins); k++)
        if (kg_op(g, kg_at(g, ins, k)) != KN_OP_CONST && !kg_rank(g, kg_at(g, ins, k)))
            return "of lanes, an operand that is no register of them, nor a constant: a CAST repeats it";
    return NULL;
}

const char *kn_verify_call(kn_rw *rw, kn_ref call) {
    for (uint32_t k = 1; k < kg_nsrc(rw->g, call); k++)
        if (!storage_of(rw->g, kg_at(rw->g, call, k))) return "an argument is no storage";
    return NULL;
}

/* ---- the sweep --------------------------------------------------------------------------------------------------- */

/* A few levels below n, a node a line, as far as the fault has room. */
static void show_below(const kn_graph *g, kn_ref n, kn_str *out) {
    enum { SHOWN = 6 };
    kn_ref queue[SHOWN] = {n};
    int    count        = 1;
    for (int i = 0; i < count; i++) {
        kn_str_puts(out, "\n  ");
        kg_print_node(g, queue[i], out);
        for (uint32_t k = 0; k < kg_nsrc(g, queue[i]); k++) {
            kn_ref s   = kg_at(g, queue[i], k);
            bool   old = kg_op(g, s) == KN_OP_CONST || kg_op(g, s) == KN_OP_STACK;
            for (int j = 0; j < count; j++) old |= queue[j] == s;
            if (!old && count < SHOWN) queue[count++] = s;
        }
    }
}

/* Whether a rule refuses n: then the fault says which, where and why. */
static bool refused(kn_rw *rw, kn_ref n) {
    int rule = kn_rules_refuse(rw, n, KN_G_verify);
    if (rule < 0) return rw->fault->code != KN_OK; /* out of memory */
    kn_str s;
    kn_str_init(&s, kg_alloc(rw->g));
    show_below(rw->g, rw->refused, &s);
    /* A graph that a stage made is our fault; one that came in from outside is not. */
    kn_fail(rw->fault, rw->stage <= KN_STAGE_TENSOR ? KN_ERR_ARG : KN_ERR_INTERNAL,
            "verify after %s: %s.%s: %%%u %s: %s%s", kn_stage_names[rw->stage], kn_rules[rule].group,
            kn_rules[rule].name, rw->refused, kn_ops[kg_op(rw->g, rw->refused)].name, rw->refusal, kn_str_c(&s));
    kn_str_free(&s);
    return true;
}

static bool verify_body(kn_rw *rw, kn_ref root) {
    const kn_alloc *a    = kg_alloc(rw->g);
    size_t          size = (size_t)root + 1;
    uint8_t        *mark = kn_zalloc(a, size);
    verifier       *v    = rw->user;
    bool            ok   = mark || kn_oom(rw->fault);
    v->calls             = false;
    if (mark) mark[root] = 1;
    for (kn_ref id = root; id > 0 && ok; id--) {
        if (!mark[id]) continue;
        /* a CALL's body is a program of its own, with PARAMs of its own */
        uint32_t from = kg_op(rw->g, id) == KN_OP_CALL;
        if (from) v->calls = true;
        for (uint32_t k = from; k < kg_nsrc(rw->g, id); k++) mark[kg_at(rw->g, id, k)] = 1;
    }
    for (kn_ref id = 1; id <= root && ok; id++) ok = !mark[id] || !refused(rw, id);
    kn_free(a, mark, size);
    return ok;
}

bool kn_verify(kn_graph *g, kn_ref root, kn_stage stage, kn_fault *f) {
    verifier v = {false};
    kn_fault own = {0};
    kn_rw    rw;
    if (!root) return kn_fail(f, KN_ERR_INTERNAL, "verify after %s: there is no graph", kn_stage_names[stage]);
    kn_rw_init(&rw, g, &own);
    rw.user  = &v;
    rw.stage = (int)stage;
    while (kg_op(g, root) == KN_OP_PROGRAM && kg_nsrc(g, root)) root = kg_at(g, root, 0);
    bool schedule = kg_op(g, root) == KN_OP_LINEAR && stage >= KN_STAGE_RANGEIFY, ok = true;
    for (uint32_t i = 0; i < kg_nsrc(g, root) && schedule; i++) schedule = kg_op(g, kg_at(g, root, i)) == KN_OP_CALL;
    if (!schedule) ok = verify_body(&rw, root);
    for (uint32_t i = 0; i < kg_nsrc(g, root) && schedule && ok; i++) {
        kn_ref call = kg_at(g, root, i), body = kg_at(g, call, 0);
        while (kg_op(g, body) == KN_OP_PROGRAM && kg_nsrc(g, body)) body = kg_at(g, body, 0);
        ok = !refused(&rw, call) && verify_body(&rw, body);
    }
    kn_rw_free(&rw);
    return ok || kn_fail(f, own.code, "%s", own.text);
}
