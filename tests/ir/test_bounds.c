/* Derived bounds against the interpreter: random integer programs run with every value checked (kn_eval_opts.check). */
#include "check.h"
#include "dialect/eval.h"

enum { POOL = 40, ELEMENTS = 16 };
static uint64_t draws;
static uint64_t draw(uint64_t n) { return kn_threefry2x32(draws++, 0x6b6f696e65) % n; }

static const int dtypes[] = {KN_BOOL, KN_I8, KN_U8, KN_I16, KN_U16, KN_I32, KN_U32, KN_I64, KN_U64, KN_INDEX};
static const int ops[] = {KN_OP_ADD,   KN_OP_SUB,   KN_OP_MUL,   KN_OP_MAX,   KN_OP_MIN,   KN_OP_IDIV,  KN_OP_MOD,
                          KN_OP_XOR,   KN_OP_OR,    KN_OP_AND,   KN_OP_SHR,   KN_OP_SHL,   KN_OP_CMPLT, KN_OP_CMPNE,
                          KN_OP_CMPGT, KN_OP_CMPGE, KN_OP_CMPLE, KN_OP_CMPEQ, KN_OP_NEG,   KN_OP_NOT,   KN_OP_TRUNC,
                          KN_OP_WHERE, KN_OP_CAST,  KN_OP_CAST,  KN_OP_CAST,  KN_OP_MULACC, KN_OP_BITCAST};

static int64_t some_int(int dt) {
    static const int64_t odd[] = {0,  1,   -1,  2,   3,         7,         8,         31,       63,
                                  64, 127, 128, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    if (dt == KN_INDEX) return (int64_t)draw(20) - 6;
    return draw(2) ? odd[draw(KN_COUNT(odd))] : (int64_t)draw(40) - 20;
}

/* Index values stay far from the ends of int64, as the dialect asks. */
static bool tame(const kn_graph *g, kn_ref n) {
    return kg_dtype(g, n) != KN_INDEX || (kg_min(g, n) > -(INT64_C(1) << 40) && kg_max(g, n) < INT64_C(1) << 40);
}

static kn_ref grow(kn_graph *g, const kn_ref *pool, int n) {
    int    op = ops[draw(KN_COUNT(ops))];
    kn_ref a = pool[draw((uint64_t)n)], b = pool[draw((uint64_t)n)], c = pool[draw((uint64_t)n)];
    int    dt = kg_dtype(g, a);
    if (op == KN_OP_CAST) return kg_cast(g, a, dtypes[draw(KN_COUNT(dtypes))]);
    if (op == KN_OP_BITCAST) {
        int to = dtypes[draw(KN_COUNT(dtypes))];
        return kn_dsize(to) == kn_dsize(dt) && to != KN_BOOL && to != KN_INDEX ? kg_bitcast(g, a, to) : a;
    }
    if (dt == KN_BOOL && (op == KN_OP_IDIV || op == KN_OP_MOD || op == KN_OP_SHL || op == KN_OP_SHR)) return a;
    if (dt == KN_INDEX && (op == KN_OP_SHL || op == KN_OP_MULACC)) return a;
    if (op == KN_OP_TRUNC) return a;
    if (kn_ops[op].cls == KN_CLS_UNARY) return kg_op1(g, op, a);
    if (op == KN_OP_WHERE) return kg_op3(g, op, kg_cast(g, c, KN_BOOL), a, kg_cast(g, b, dt));
    if (op == KN_OP_MULACC) return kg_op3(g, op, a, kg_cast(g, b, dt), kg_cast(g, c, dt));
    return kg_op2(g, op, a, kg_cast(g, b, dt));
}

static void one_program(int seed) {
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    int64_t   data[2][ELEMENTS];
    kn_array  slots[2] = {{data[0], ELEMENTS, KN_I64}, {data[1], ELEMENTS, KN_I64}};
    kn_ref    range[3], pool[POOL];
    int       n = 0;
    draws = (uint64_t)seed * 100000;
    for (int i = 0; i < ELEMENTS; i++) data[0][i] = some_int(KN_I64);
    range[0] = kg_range(g, kg_idx(g, (int64_t)draw(5)), 0, KN_AXIS_LOOP);
    range[1] = kg_range(g, kg_op2(g, KN_OP_ADD, range[0], kg_idx(g, 1)), 1, KN_AXIS_LOOP);
    range[2] = kg_range(g, kg_idx(g, 1 + (int64_t)draw(6)), 2, KN_AXIS_REDUCE);
    for (int i = 0; i < 3; i++) pool[n++] = range[i];
    kn_ref x = kg_param(g, 0, KN_I64, (int64_t[]){ELEMENTS}, 1), out = kg_param(g, 1, KN_I64, (int64_t[]){ELEMENTS}, 1);
    pool[n++] = kg_load(g, kg_index(g, x, &range[1], 1));
    pool[n++] = kg_load(g, kg_index(g, x, (kn_ref[]){kg_op2(g, KN_OP_ADD, range[0], range[2])}, 1));
    for (int i = 0; i < 6; i++) {
        int dt = dtypes[draw(KN_COUNT(dtypes))];
        pool[n++] = kg_int(g, dt, some_int(dt));
    }
    while (n < POOL) {
        kn_ref v = grow(g, pool, n);
        if (!CHECK(v)) break;
        if (draw(12) == 0 && tame(g, v) && kg_dtype(g, v) != KN_INDEX && kg_dtype(g, v) != KN_BOOL)
            v = kg_reduce_ranges(g, v, (int[]){KN_OP_ADD, KN_OP_MUL, KN_OP_MAX, KN_OP_MIN}[draw(4)], &range[2], 1);
        pool[n++] = tame(g, v) ? v : range[0];
    }
    kn_ref body[POOL];
    for (int i = 0; i < n; i++) {
        kn_ref v = pool[i];
        body[i] = kg_store(g, kg_index(g, out, (kn_ref[]){kg_idx(g, i % ELEMENTS)}, 1), kg_cast(g, v, KN_I64), 0);
    }
    kn_ref       end = kg_end(g, kg_list(g, KN_OP_GROUP, body, n), range, 3), root = kg_list(g, KN_OP_SINK, &end, 1);
    kn_eval_opts opts = {.check = true};
    bool         ok = root && kn_eval(g, root, slots, 2, NULL, NULL, &opts, &f);
    if (!CHECK(ok)) {
        kn_str s;
        kn_str_init(&s, NULL);
        if (root) kg_print(g, root, &s);
        fprintf(stderr, "  program %d: %s%s\n%s", seed, kg_fault(g)->text, f.text, kn_str_c(&s));
        kn_str_free(&s);
    }
    kg_free(g);
}

static void random_programs(void) {
    for (int i = 1; i <= 400; i++) one_program(i);
}

/* Sums of random ranges out of many, some of them closed again: the sets, held against a table. */
static void sets_of_ranges(void) {
    enum { RANGES = 300, NODES = 400 };
    static bool has[NODES][RANGES];
    kn_graph   *g = kg_new(NULL);
    kn_ref      range[RANGES], node[NODES];
    memset(has, 0, sizeof has);
    for (int i = 0; i < RANGES; i++) range[i] = kg_range(g, kg_idx(g, 2), i, KN_AXIS_LOOP);
    for (int n = 0; n < NODES; n++) {
        int a = (int)draw((uint64_t)n + 1) - 1, r = (int)draw(RANGES);
        kn_ref x = a < 0 ? kg_int(g, KN_INDEX, n) : node[a];
        if (a >= 0) memcpy(has[n], has[a], sizeof has[n]);
        if (draw(4)) {
            node[n]   = kg_op2(g, KN_OP_ADD, kg_op2(g, KN_OP_MUL, x, kg_idx(g, 3)), range[r]);
            has[n][r] = true;
        } else {
            node[n]   = kg_reduce_ranges(g, x, KN_OP_ADD, &range[r], 1);
            has[n][r] = false;
        }
        if (n && draw(3) == 0) {
            int b   = (int)draw((uint64_t)n);
            node[n] = kg_op2(g, KN_OP_ADD, node[n], node[b]);
            for (int k = 0; k < RANGES; k++) has[n][k] |= has[b][k];
        }
        kn_ref listed[RANGES];
        int    count = 0, got = kg_ranges(g, node[n], listed, RANGES);
        for (int k = 0; k < RANGES; k++) {
            if (!CHECK_EQ(kg_depends(g, node[n], range[k]), has[n][k])) break;
            if (has[n][k] && count < got) CHECK_EQ(listed[count], range[k]);
            count += has[n][k];
        }
        CHECK_EQ(got, count);
        for (int b = 0; b < n; b += 7) {
            bool within = true;
            for (int k = 0; k < RANGES; k++) within = within && (!has[b][k] || has[n][k]);
            CHECK_EQ(kg_ranges_within(g, node[b], node[n]), within);
        }
    }
    kg_free(g);
}

int main(void) {
    RUN(random_programs);
    RUN(sets_of_ranges);
    return check_result();
}
