/* verify.c - the specification of the stages, as a table of rules that a sweep over the graph checks.
 *
 * Contract: refuses only what is wrong. dtypes, arities and shapes were checked when the nodes were made (shape.c);
 * here is what no single constructor can know: which ops belong to which stage, and how effects, loops and memory fit
 * together. No rule changes the graph. */
#include "rules/verify.h"

#include <string.h>

const char *const kn_stage_names[KN_STAGE_COUNT] = {"any",    "tensor", "callify",   "rangeify", "optimize",
                                                    "expand", "select", "linearize", "plan",     "render"};

int kn_stage_by_name(const char *name) {
    for (int i = 0; i < KN_STAGE_COUNT; i++)
        if (!strcmp(name, kn_stage_names[i])) return i;
    return -1;
}

/* Ops that live between two stages only; any other op may stand anywhere. ANY admits all but INVALID. */
typedef struct vf_life {
    uint8_t op, first, last;
} vf_life;
static const vf_life vf_lives[] = {
    {KN_OP_DETACH, KN_STAGE_TENSOR, KN_STAGE_CALLIFY},
    {KN_OP_CONTIGUOUS_BACKWARD, KN_STAGE_TENSOR, KN_STAGE_CALLIFY},
    {KN_OP_BIND, KN_STAGE_TENSOR, KN_STAGE_TENSOR},
    {KN_OP_FUNCTION, KN_STAGE_TENSOR, KN_STAGE_CALLIFY},
    {KN_OP_ALLREDUCE, KN_STAGE_TENSOR, KN_STAGE_TENSOR},
    {KN_OP_REPLICATED, KN_STAGE_TENSOR, KN_STAGE_CALLIFY},
    {KN_OP_PAD, KN_STAGE_TENSOR, KN_STAGE_CALLIFY},
    {KN_OP_SHRINK, KN_STAGE_TENSOR, KN_STAGE_CALLIFY},
    {KN_OP_FLIP, KN_STAGE_TENSOR, KN_STAGE_CALLIFY},
    {KN_OP_END, KN_STAGE_RANGEIFY, KN_STAGE_RENDER},
    {KN_OP_BARRIER, KN_STAGE_RANGEIFY, KN_STAGE_RENDER},
    {KN_OP_BUFFERIZE, KN_STAGE_RANGEIFY, KN_STAGE_OPTIMIZE},
    {KN_OP_WMMA, KN_STAGE_OPTIMIZE, KN_STAGE_RENDER},
    {KN_OP_PREFETCH, KN_STAGE_OPTIMIZE, KN_STAGE_RENDER},
    {KN_OP_SPECIAL, KN_STAGE_RANGEIFY, KN_STAGE_RENDER},
    {KN_OP_INS, KN_STAGE_SELECT, KN_STAGE_RENDER},
    {KN_OP_IF, KN_STAGE_LINEARIZE, KN_STAGE_RENDER},
    {KN_OP_ENDIF, KN_STAGE_LINEARIZE, KN_STAGE_RENDER},
    {KN_OP_SOURCE, KN_STAGE_RENDER, KN_STAGE_RENDER},
    {KN_OP_HOLE, KN_STAGE_COUNT, 0}, /* something left out: prints, never runs */
};

typedef struct verifier {
    kn_graph *g;
    kn_stage  stage;
    kn_fault *f;
    bool      calls; /* a CALL stands in the graph */
} verifier;

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

static bool violation(verifier *v, kn_ref n, const char *rule, const char *what) {
    kn_str s;
    kn_str_init(&s, kg_alloc(v->g));
    show_below(v->g, n, &s);
    /* A graph that a stage made is our fault; one that came in from outside is not. */
    kn_status code = v->stage <= KN_STAGE_TENSOR ? KN_ERR_ARG : KN_ERR_INTERNAL;
    kn_fail(v->f, code, "verify after %s: %s: %%%u %s: %s%s", kn_stage_names[v->stage], rule, n,
            kn_ops[kg_op(v->g, n)].name, what, kn_str_c(&s));
    kn_str_free(&s);
    return false;
}

/* ---- rules: each looks at one node and says what is wrong with it, or NULL -------------------------------------- */

static const char *rule_stage_ops(verifier *v, kn_ref n) {
    int op = kg_op(v->g, n);
    if (op == KN_OP_INVALID) return "node 0 stands in the graph";
    if (v->stage == KN_STAGE_ANY) return NULL;
    for (int i = 0; i < KN_COUNT(vf_lives); i++) {
        if (vf_lives[i].op != op) continue;
        if (v->stage < (kn_stage)vf_lives[i].first) return "this op does not exist yet";
        if (v->stage > (kn_stage)vf_lives[i].last) return "this op should be gone";
    }
    return NULL;
}

static const char *rule_const(verifier *v, kn_ref n) {
    if (kg_op(v->g, n) != KN_OP_CONST) return NULL;
    const kn_node *nd = kg_node(v->g, n);
    if (kn_is_float(nd->dtype)) {
        kn_scalar s = {.f = kg_const_float(v->g, n)}, r = kn_cast_scalar(s, KN_F64, nd->dtype);
        return s.f != s.f || s.f == r.f ? NULL : "not rounded to its dtype";
    }
    if (nd->dtype == KN_U64) return NULL;
    int64_t i = (int64_t)nd->arg;
    return i >= kn_dtypes[nd->dtype].min && i <= kn_dtypes[nd->dtype].max ? NULL : "out of the range of its dtype";
}

/* The storage behind a view, 0 if there is none. */
static kn_ref storage_of(const kn_graph *g, kn_ref n) {
    for (;;) {
        int op = kg_op(g, n);
        if (op == KN_OP_PARAM || op == KN_OP_BUFFER) return n;
        if (op == KN_OP_GETTUPLE) return n; /* of a CALL */
        bool view = (kn_is_movement(op) && kg_nsrc(g, n)) || op == KN_OP_AFTER || op == KN_OP_BIND;
        if (!view) return 0;
        n = kg_at(g, n, 0); /* of a STACK of places, the first stands for all */
    }
}

static const char *rule_store(verifier *v, kn_ref n) {
    int op = kg_op(v->g, n);
    if (op != KN_OP_STORE && op != KN_OP_ATOMIC_ADD) return NULL;
    kn_ref t = kg_at(v->g, n, 0);
    if (storage_of(v->g, t)) return NULL;
    if (v->stage == KN_STAGE_ANY && kg_op(v->g, t) == KN_OP_HOLE) return NULL;
    return "writes to something that is no view of a BUFFER or PARAM";
}

static const char *rule_load(verifier *v, kn_ref n) {
    if (kg_op(v->g, n) != KN_OP_LOAD) return NULL;
    return storage_of(v->g, kg_at(v->g, n, 0)) ? NULL : "reads something that is no view of a BUFFER or PARAM";
}

static const char *rule_tensor_loops(verifier *v, kn_ref n) {
    int op = kg_op(v->g, n);
    if (op == KN_OP_RANGE && kg_field(v->g, n, KN_F_RANGE_rank) == 0) return "a loop in a tensor program";
    if (op == KN_OP_REDUCE && kg_nsrc(v->g, n) > 1) return "reduces over loops in a tensor program";
    return NULL;
}

static const char *rule_tensor_gates(verifier *v, kn_ref n) {
    return kg_op(v->g, n) == KN_OP_LOAD && kg_nsrc(v->g, n) > 1
               ? "a gate in a tensor program; WHERE chooses among values"
               : NULL;
}

static const char *rule_stateless(verifier *v, kn_ref n) {
    if (kg_op(v->g, n) != KN_OP_BUFFER || v->calls) return NULL;
    return kg_field(v->g, n, KN_F_BUFFER_space) == KN_GLOBAL
               ? "a GLOBAL buffer in a stateless program; it must be a PARAM"
               : NULL;
}

static const char *rule_kernel_movement(verifier *v, kn_ref n) {
    int  op    = kg_op(v->g, n);
    bool moves = op == KN_OP_RESHAPE || op == KN_OP_PERMUTE || op == KN_OP_EXPAND;
    return moves ? "movement must have become index arithmetic" : NULL;
}

static const char *rule_expanded(verifier *v, kn_ref n) {
    int op = kg_op(v->g, n);
    if (op == KN_OP_REDUCE && kg_nsrc(v->g, n) > 1) return "a reduction over loops must have become an accumulator";
    if (op != KN_OP_RANGE || kg_field(v->g, n, KN_F_RANGE_rank) > 0) return NULL;
    int64_t type = kg_field(v->g, n, KN_F_RANGE_type);
    return type == KN_AXIS_UPCAST || type == KN_AXIS_UNROLL ? "an UPCAST or UNROLL loop must have become a shape"
                                                            : NULL;
}

/* Arithmetic of dtype index must not overflow. Sources without bounds (data, unbounded sizes) say nothing. */
static const char *rule_index_overflow(verifier *v, kn_ref n) {
    int op = kg_op(v->g, n);
    if ((op != KN_OP_ADD && op != KN_OP_SUB && op != KN_OP_MUL) || kg_dtype(v->g, n) != KN_INDEX) return NULL;
    int64_t lo[2], hi[2], t;
    for (uint32_t i = 0; i < 2; i++) {
        lo[i] = kg_min(v->g, kg_at(v->g, n, i));
        hi[i] = kg_max(v->g, kg_at(v->g, n, i));
        if (lo[i] == INT64_MIN || hi[i] == INT64_MAX) return NULL;
    }
    bool over = false;
    for (int i = 0; i < 4; i++) {
        int64_t a = i & 1 ? hi[0] : lo[0], b = i & 2 ? hi[1] : lo[1];
        if (op == KN_OP_ADD) over |= __builtin_add_overflow(a, b, &t);
        if (op == KN_OP_SUB) over |= __builtin_sub_overflow(a, b, &t);
        if (op == KN_OP_MUL) over |= __builtin_mul_overflow(a, b, &t);
    }
    return over ? "index arithmetic may overflow" : NULL;
}

typedef struct vf_rule {
    const char *name;
    uint8_t     first, last; /* stages */
    const char *(*check)(verifier *v, kn_ref n);
} vf_rule;
static const vf_rule vf_rules[] = {
    {"op-of-stage", KN_STAGE_ANY, KN_STAGE_RENDER, rule_stage_ops},
    {"constant", KN_STAGE_ANY, KN_STAGE_RENDER, rule_const},
    {"store-target", KN_STAGE_ANY, KN_STAGE_RENDER, rule_store},
    {"index-overflow", KN_STAGE_ANY, KN_STAGE_RENDER, rule_index_overflow},
    {"no-loops-yet", KN_STAGE_TENSOR, KN_STAGE_CALLIFY, rule_tensor_loops},
    {"no-gates-yet", KN_STAGE_TENSOR, KN_STAGE_CALLIFY, rule_tensor_gates},
    {"stateless", KN_STAGE_CALLIFY, KN_STAGE_RENDER, rule_stateless},
    {"load-source", KN_STAGE_RANGEIFY, KN_STAGE_RENDER, rule_load},
    {"no-movement", KN_STAGE_RANGEIFY, KN_STAGE_OPTIMIZE, rule_kernel_movement},
    {"expanded", KN_STAGE_EXPAND, KN_STAGE_RENDER, rule_expanded},
};

/* ---- whole-graph rules ----------------------------------------------------------------------------------------- */

/* Every loop that root stands in, or leaves open: none. */
static bool check_closed(verifier *v, kn_ref root) {
    if (v->stage < KN_STAGE_RANGEIFY || kg_op(v->g, root) != KN_OP_SINK || kg_closed(v->g, root)) return true;
    kn_ref open[1];
    kg_ranges(v->g, root, open, 1);
    return violation(v, open[0], "loops-closed", "no END or REDUCE closes this loop");
}

/* The nodes of a LINEAR in order: sources first, loops and IFs properly nested, nothing outside the loops it needs. */
static bool check_linear(verifier *v, kn_ref root) {
    const kn_alloc *a = kg_alloc(v->g);
    uint32_t        n = kg_nsrc(v->g, root), depth = 0;
    size_t          at_size = ((size_t)root + 1) * sizeof(uint32_t), open_size = ((size_t)n + 1) * sizeof(kn_ref);
    uint32_t       *at   = kn_zalloc(a, at_size); /* node -> 1 + its place */
    kn_ref         *open = kn_zalloc(a, open_size), ranges[64];
    bool            ok   = at && open;
    if (!ok) kn_oom(v->f);
    for (uint32_t i = 0; ok && i < n; i++) {
        kn_ref s = kg_at(v->g, root, i);
        if (at[s]) ok = violation(v, s, "linear-order", "listed twice");
        at[s] = i + 1;
    }
    for (uint32_t i = 0; ok && i < n; i++) {
        kn_ref        s   = kg_at(v->g, root, i);
        const kn_ref *src = kg_src(v->g, s);
        for (uint32_t k = 0; ok && k < kg_nsrc(v->g, s); k++)
            if (at[src[k]] > i + 1 && kg_op(v->g, s) != KN_OP_GROUP) /* a GROUP does nothing of its own */
                ok = violation(v, s, "linear-order", "listed before one of its sources");
        int op = kg_op(v->g, s), count = kg_ranges(v->g, s, ranges, KN_COUNT(ranges));
        if (op == KN_OP_ENDIF || op == KN_OP_END) {
            for (uint32_t k = kg_nsrc(v->g, s); ok && k-- > (op == KN_OP_END ? 1u : 0u);) {
                if (!at[src[k]]) continue;
                if (!depth || open[depth - 1] != src[k])
                    ok =
                        violation(v, s, "linear-nesting", "closes something that is not the innermost open loop or IF");
                else
                    depth--;
            }
        }
        for (int k = 0; ok && k < KN_MIN(count, KN_COUNT(ranges)); k++) {
            bool found = ranges[k] == s || !at[ranges[k]];
            for (uint32_t d = 0; d < depth; d++) found |= open[d] == ranges[k];
            if (!found) ok = violation(v, s, "linear-nesting", "stands outside a loop it depends on");
        }
        if (ok && (op == KN_OP_IF || (op == KN_OP_RANGE && kg_field(v->g, s, KN_F_RANGE_rank) == 0))) open[depth++] = s;
    }
    if (ok && depth) ok = violation(v, open[depth - 1], "linear-nesting", "never closed");
    kn_free(a, at, at_size);
    kn_free(a, open, open_size);
    return ok;
}

static bool verify_body(verifier *v, kn_ref root) {
    const kn_alloc *a    = kg_alloc(v->g);
    size_t          size = (size_t)root + 1;
    uint8_t        *mark = kn_zalloc(a, size);
    bool            ok   = true;
    if (!mark) return kn_oom(v->f);
    v->calls   = false;
    mark[root] = 1;
    for (kn_ref id = root; id > 0; id--) {
        if (!mark[id]) continue;
        /* a CALL's body is a program of its own, with PARAMs of its own */
        uint32_t from = kg_op(v->g, id) == KN_OP_CALL;
        if (from) v->calls = true;
        for (uint32_t k = from; k < kg_nsrc(v->g, id); k++) mark[kg_at(v->g, id, k)] = 1;
    }
    for (kn_ref id = 1; id <= root && ok; id++) {
        if (!mark[id]) continue;
        for (int r = 0; r < KN_COUNT(vf_rules) && ok; r++) {
            if (v->stage < (kn_stage)vf_rules[r].first || v->stage > (kn_stage)vf_rules[r].last) continue;
            const char *what = vf_rules[r].check(v, id);
            if (what) ok = violation(v, id, vf_rules[r].name, what);
        }
    }
    kn_free(a, mark, size);
    if (ok && kg_op(v->g, root) == KN_OP_LINEAR && v->stage >= KN_STAGE_LINEARIZE) ok = check_linear(v, root);
    return ok && check_closed(v, root);
}

bool kn_verify(kn_graph *g, kn_ref root, kn_stage stage, kn_fault *f) {
    verifier v = {g, stage, f, false};
    if (!root) return kn_fail(f, KN_ERR_INTERNAL, "verify after %s: there is no graph", kn_stage_names[stage]);
    while (kg_op(g, root) == KN_OP_PROGRAM && kg_nsrc(g, root)) root = kg_at(g, root, 0);
    bool schedule = kg_op(g, root) == KN_OP_LINEAR && stage >= KN_STAGE_RANGEIFY;
    for (uint32_t i = 0; i < kg_nsrc(g, root) && schedule; i++) schedule = kg_op(g, kg_at(g, root, i)) == KN_OP_CALL;
    if (!schedule) return verify_body(&v, root);
    for (uint32_t i = 0; i < kg_nsrc(g, root); i++) {
        kn_ref call = kg_at(g, root, i), body = kg_at(g, call, 0);
        for (uint32_t k = 1; k < kg_nsrc(g, call); k++)
            if (!storage_of(g, kg_at(g, call, k))) return violation(&v, call, "call-args", "an argument is no storage");
        while (kg_op(g, body) == KN_OP_PROGRAM && kg_nsrc(g, body)) body = kg_at(g, body, 0);
        if (!verify_body(&v, body)) return false;
    }
    return true;
}
