/* Sharding, on n = 1 to 8 simulated devices: the collectives against plain loops, for all reductions and some dtypes;
 * ALLREDUCE and sums over the sharded axis, as nodes and written out; and the axis, which must say of every element
 * that a view or an operation gives which device holds it. */
#include "check.h"
#include "ir/run.h"
#include "rules/verify.h"
#include "rules_gen.h"

#include "rewrite/rewrite.h"

enum { MOST = 8, SIZES = 6 };

/* "D0,D1,..." as a string of the graph. */
static uint32_t devices(kn_graph *g, int n) {
    char   text[64];
    size_t at = 0;
    for (int i = 0; i < n; i++) at += (size_t)snprintf(text + at, sizeof text - at, "%sD%d", i ? "," : "", i);
    return kg_intern_str(g, text, at);
}

static kn_ref param(kn_graph *g, int dtype, uint32_t device, const int64_t *dims, int rank) {
    int64_t w[KN_PARAM_WORDS];
    kn_ref  shape = kg_dims_node(g, dims, rank), p = kg_param(g, 0, dtype, dims, rank);
    memcpy(w, kg_words(g, p, NULL), sizeof w);
    w[KN_F_PARAM_device] = device;
    return kg_make(g, KN_OP_PARAM, 0, kg_intern_words(g, w, KN_PARAM_WORDS), &shape, 1);
}

/* Small numbers, of which every reduction is exact. */
static kn_scalar element(int dtype, int64_t i) {
    int64_t v = (i * 7 + 3) % 5 - 2;
    v         = v == 0 ? 1 : v;
    return kn_is_float(dtype) ? (kn_scalar){.f = (double)v / 2} : (kn_scalar){.i = v};
}

static kn_scalar combine(int op, int dtype, kn_scalar a, kn_scalar b) {
    kn_scalar in[2] = {a, b}, out = {.i = 0};
    CHECK(kn_alu(op, dtype, (int[]){dtype, dtype}, in, &out));
    return out;
}

typedef struct made {
    kn_graph *g;
    kn_ref    x; /* the PARAM */
    int       dtype;
    kn_array  in;
    char      data[8 * 1024];
} made;

static void begin(made *m, int dtype, int n, bool whole, const int64_t *dims, int rank) {
    int64_t size = 1;
    m->g         = kg_new(NULL);
    m->dtype     = dtype;
    m->x         = param(m->g, dtype, devices(m->g, whole ? 1 : n), dims, rank);
    for (int i = 0; i < rank; i++) size *= dims[i];
    for (int64_t i = 0; i < size; i++) kn_store_scalar(m->data + i * kn_dsize(dtype), dtype, element(dtype, i));
    m->in = (kn_array){m->data, size, dtype};
}

/* The program's value is want[size], its device is named so (NULL: not looked at), its axis is that. */
static void ends(made *m, kn_ref root, const kn_scalar *want, int64_t size, const char *device, int axis) {
    kn_value v = {0};
    int      n = 1;
    kn_fault f = *kg_fault(m->g);
    bool done  = root && kn_verify(m->g, root, KN_STAGE_TENSOR, &f) && kn_eval(m->g, root, &m->in, 1, &v, &n, NULL, &f);
    if (!CHECK(done)) {
        fprintf(stderr, "  %s\n", f.text);
        return;
    }
    CHECK_EQ(v.numel, size);
    for (int64_t i = 0; i < KN_MIN(v.numel, size); i++) {
        kn_scalar s = kn_load_scalar((char *)v.data + i * kn_dsize(m->dtype), m->dtype);
        if (kn_is_float(m->dtype))
            CHECK_NEAR(s.f, want[i].f, 0);
        else
            CHECK_EQ(s.i, want[i].i);
    }
    if (device) CHECK_STR(kg_str(m->g, kg_device(m->g, root), NULL), device);
    CHECK_EQ(kg_axis(m->g, root), axis);
    kn_value_free(NULL, &v);
}

static const int ops[]    = {KN_OP_ADD, KN_OP_MUL, KN_OP_MAX, KN_OP_MIN};
static const int dtypes[] = {KN_F32, KN_I32, KN_F16};

/* want[i] for i below s: element i of n runs of s reduced. */
static void reduce_runs(int op, int dtype, int64_t s, int n, kn_scalar *want) {
    for (int64_t i = 0; i < s; i++) {
        want[i] = element(dtype, i);
        for (int k = 1; k < n; k++) want[i] = combine(op, dtype, want[i], element(dtype, k * s + i));
    }
}

static void moving(int dtype, int n, int64_t s) {
    kn_scalar   want[MOST * 64];
    const char *all = NULL;
    char        name[64];
    made        m;
    int64_t     whole = n * s;
    for (int64_t i = 0; i < whole; i++) want[i] = element(dtype, i);
    for (int k = 0; k < 4; k++) {
        bool from_one = k < 2; /* broadcast of s elements, scatter of n s; else what is shared out */
        begin(&m, dtype, n, from_one, k == 0 ? &s : &whole, 1);
        uint32_t d = devices(m.g, n);
        snprintf(name, sizeof name, "%s", kg_str(m.g, d, NULL));
        all = name;
        if (k == 0) ends(&m, kg_coll_broadcast(m.g, m.x, d), want, s, all, -1);
        if (k == 1) ends(&m, kg_coll_scatter(m.g, m.x, d), want, whole, all, n > 1 ? 0 : -1);
        if (k == 2) ends(&m, kg_coll_gather(m.g, m.x, d), want, whole, "D0", -1);
        if (k == 3) ends(&m, kg_coll_allgather(m.g, m.x, d), want, whole, all, -1);
        kg_free(m.g);
    }
}

static void reducing(int op, int dtype, int n, int64_t s) {
    kn_scalar want[MOST * 64];
    char      all[64];
    made      m;
    int64_t   whole = n * s;
    reduce_runs(op, dtype, s, n, want);
    for (int k = 0; k < 5; k++) {
        begin(&m, dtype, n, false, &whole, 1);
        uint32_t d = devices(m.g, n);
        snprintf(all, sizeof all, "%s", kg_str(m.g, d, NULL));
        if (k == 0) ends(&m, kg_coll_reduce(m.g, m.x, d, op), want, s, "D0", -1);
        if (k == 1 && s % n == 0) ends(&m, kg_coll_reduce_scatter(m.g, m.x, d, op), want, s, all, n > 1 ? 0 : -1);
        if (k == 1 && s % n != 0) {
            CHECK_EQ(kg_coll_reduce_scatter(m.g, m.x, d, op), 0);
            CHECK_EQ(kg_fault(m.g)->code, KN_ERR_SHAPE);
        }
        if (k == 2) ends(&m, kg_coll_allreduce(m.g, m.x, d, op), want, s, all, -1);
        kn_ref node = k >= 3 ? kg_allreduce(m.g, m.x, d, op) : 0;
        if (k == 4) { /* written out */
            kn_rw    rw;
            kn_fault f = {0};
            kn_rw_init(&rw, m.g, &f);
            kn_ref out = kn_rewrite_step(&rw, node, KN_G_sharding);
            CHECK(out != node && out);
            node = out;
            kn_rw_free(&rw);
        }
        if (k >= 3) ends(&m, node, want, s, n > 1 ? all : NULL, -1);
        kg_free(m.g);
    }
}

static void collectives(void) {
    static const int64_t size[SIZES] = {1, 2, 5, 8, 12, 35};
    for (int n = 1; n <= MOST; n++)
        for (int k = 0; k < SIZES; k++)
            for (int d = 0; d < KN_COUNT(dtypes); d++) {
                moving(dtypes[d], n, size[k]);
                for (int o = 0; o < KN_COUNT(ops); o++) reducing(ops[o], dtypes[d], n, size[k]);
            }
}

/* A REDUCE over axes of which one is shared out, and the same written out: (2, 3 n, 2), and the shares are along the
 * second axis; beside it the first, the last, or both are reduced. */
static void sums_over_the_sharded_axis(void) {
    static const int64_t sets[4][3] = {{1}, {0, 1}, {1, 2}, {0, 1, 2}};
    static const int     counts[4]  = {1, 2, 2, 3};
    for (int n = 1; n <= MOST; n++)
        for (int o = 0; o < KN_COUNT(ops); o++)
            for (int k = 0; k < 4; k++) {
                made      m;
                int64_t   dims[3] = {3 * n, 2, 2}, size = 1, at[3];
                kn_scalar want[4];
                bool      set[4] = {false}, gone[3] = {false};
                begin(&m, KN_I32, n, false, dims, 3);
                kn_ref y = kg_reduce(m.g, kg_permute(m.g, m.x, (int64_t[]){1, 0, 2}, 3), ops[o], sets[k], counts[k]);
                for (int i = 0; i < counts[k]; i++) gone[sets[k][i]] = true;
                for (int i = 0; i < 3; i += 2) size *= gone[i] ? 1 : 2;
                for (int64_t i = 0; i < 12 * n; i++) {
                    at[0]     = gone[0] ? 0 : i / 2 % 2;
                    at[2]     = gone[2] ? 0 : i % 2;
                    int64_t w = at[0] * (gone[2] ? 1 : 2) + at[2];
                    want[w]   = set[w] ? combine(ops[o], KN_I32, want[w], element(KN_I32, i)) : element(KN_I32, i);
                    set[w]    = true;
                }
                ends(&m, y, want, size, NULL, -1);
                for (int step = 0; n > 1 && step < 2; step++) { /* to ALLREDUCE, to what that is made of */
                    kn_rw    rw;
                    kn_fault f = {0};
                    kn_rw_init(&rw, m.g, &f);
                    kn_ref z = kn_rewrite_step(&rw, y, KN_G_sharding);
                    CHECK(z != y);
                    CHECK(step || kg_op(m.g, z) == KN_OP_ALLREDUCE);
                    kn_rw_free(&rw);
                    ends(&m, y = z, want, size, NULL, -1);
                }
                kg_free(m.g);
            }
}

/* ---- the axis ---------------------------------------------------------------------------------------------------- */

/* Elements hold the number of the device that has them; of every value that is built, the axis says so too. */
static void owners(kn_graph *g, kn_ref root, const kn_array *in, int n, const char *what) {
    kn_value v    = {0};
    int      axis = kg_axis(g, root), count = 1, rank;
    kn_fault f = {0};
    if (!CHECK(kn_verify(g, root, KN_STAGE_TENSOR, &f)) || !CHECK(kn_eval(g, root, in, 1, &v, &count, NULL, &f))) {
        fprintf(stderr, "  %s: %s\n", what, f.text);
        return;
    }
    const int64_t *dims = kg_shape(g, root, &rank);
    if (CHECK(axis >= 0 && axis < rank && dims[axis] % n == 0)) {
        int64_t inner = 1;
        for (int i = axis + 1; i < rank; i++) inner *= dims[i];
        bool ok = true;
        for (int64_t i = 0; i < v.numel; i++)
            ok = ok && ((int32_t *)v.data)[i] == i / inner % dims[axis] / (dims[axis] / n);
        if (!CHECK(ok)) fprintf(stderr, "  %s, %d devices: axis %d\n", what, n, axis);
    } else {
        fprintf(stderr, "  %s, %d devices: axis %d\n", what, n, axis);
    }
    kn_value_free(NULL, &v);
}

/* One step of a chain by chance: a view or an operation that keeps every element where it is; 0: it would not. */
static kn_ref chance_step(kn_graph *g, kn_ref x, uint64_t r, int n) {
    int            rank, axis = kg_axis(g, x), other;
    const int64_t *dims = kg_shape(g, x, &rank);
    int64_t        a[KN_MAX_RANK], b[KN_MAX_RANK];
    memcpy(b, dims, (size_t)rank * sizeof *b);
    for (int i = 0; i < rank; i++) a[i] = 0;
    other = (int)(r >> 8 & 255) % rank;
    switch (r % 11) {
    case 0: /* the axes turned round */
        for (int i = 0; i < rank; i++) a[i] = (i + 1 + other) % rank;
        return kg_permute(g, x, a, rank);
    case 1: /* an axis of size 1 in front of another */
        if (rank > 4) return 0;
        for (int i = rank; i > other; i--) b[i] = b[i - 1];
        b[other] = 1;
        return kg_reshape(g, x, b, rank + 1);
    case 2: /* two axes as one */
        if (other + 1 >= rank || axis == other + 1) return 0;
        b[other] *= b[other + 1];
        for (int i = other + 1; i + 1 < rank; i++) b[i] = b[i + 1];
        return kg_reshape(g, x, b, rank - 1);
    case 3: /* the sharded one apart */
        if (rank > 4) return 0;
        for (int i = rank; i > axis + 1; i--) b[i] = b[i - 1];
        b[axis + 1] = b[axis] / n;
        b[axis]     = n;
        return kg_reshape(g, x, b, rank + 1);
    case 4:
        if (other == axis || b[other] > 6) return 0;
        a[other] = 1;
        return kg_flip(g, x, a, rank);
    case 5: /* repeats what is there once */
        if (b[other] != 1) return 0;
        b[other] = 2;
        return kg_expand(g, x, b, rank);
    case 6:
        if (other == axis || b[other] < 2) return 0;
        a[other] = 1;
        b[other]--;
        return kg_shrink(g, x, a, b, rank);
    case 7:
        if (other == axis) return 0;
        return kg_reduce(g, x, KN_OP_MAX, (int64_t[]){other}, 1);
    case 8: return rank > 4 || kg_numel(g, x) > 600 ? 0 : kg_list(g, KN_OP_STACK, (kn_ref[]){x, x}, 2);
    case 9: { /* an axis in front of the sharded one, at one place, or at two */
        kn_ref i[2] = {kg_idx(g, 0), kg_idx(g, b[0] - 1)};
        kn_ref two  = kg_list(g, KN_OP_STACK, i, 2);
        return axis == 0 || rank < 2 ? 0 : kg_index(g, x, r >> 16 & 1 ? &two : &i[1], 1);
    }
    default: { /* with what is everywhere; broadcast to one axis more */
        int64_t more[KN_MAX_RANK] = {2};
        if (rank > 4 || kg_numel(g, x) > 600) return 0;
        for (int i = 0; i < rank; i++) more[i + 1] = 1;
        return kg_op2(g, KN_OP_ADD, x, kg_expand(g, kg_reshape(g, kg_int(g, KN_I32, 0), more + 1, rank), b, rank));
    }
    }
}

static void the_axis_says_who_has_it(void) {
    int steps = 0;
    for (int n = 2; n <= MOST; n++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            kn_graph *g       = kg_new(NULL);
            int64_t   dims[2] = {3 * n, 4};
            int32_t   data[3 * MOST * 4];
            kn_array  in = {data, 12 * n, KN_I32};
            for (int i = 0; i < 12 * n; i++) data[i] = i / 12;
            kn_ref x = param(g, KN_I32, devices(g, n), dims, 2);
            for (uint64_t s = 0; s < 8; s++) {
                uint64_t r = kn_threefry2x32(seed * 64 + s, (uint64_t)n);
                kn_ref   y = chance_step(g, x, r, n);
                if (!y || kg_numel(g, y) > 4096) continue;
                char what[80];
                snprintf(what, sizeof what, "seed %d, step %d: %s", (int)seed, (int)s, kn_ops[kg_op(g, y)].name);
                owners(g, x = y, &in, n, what);
                steps++;
            }
            CHECK_STR(kg_fault(g)->text, "");
            kg_free(g);
        }
    CHECK(steps > 1000);
}

static void refused(void) {
    static const char *const text[][2] = {
        {"%x = PARAM {slot=0, device=\"A,B\"} [3]", "multiple of the number of devices"},
        {"%x = PARAM {slot=0, device=\"A,B\"} []", "multiple of the number of devices"},
        {"%x = LOAD {device=\"A,B,C\", space=GLOBAL} (PARAM {slot=0} [4])", "multiple of the number of devices"},
        {"%x = PARAM {slot=0, device=\"A,B\"} [2, 2]\n%y = ADD %x (PERMUTE {axes=(1, 0)} %x)", "along different axes"},
        {"%x = PARAM {slot=0, device=\"A,B\"} [2]\n%y = PARAM {slot=1, device=\"A,C\"} [2]\n%z = ADD %x %y",
         "different devices"},
        {"%x = PARAM {slot=0, device=\"A,B\"} [2]\n%y = PARAM {slot=1, device=\"C\"} [2]\n%z = STACK %x %y",
         "different devices"},
        {"%x = PARAM {slot=0} [4]\n%y = ALLREDUCE {op=ADD, devices=\"A,B\"} %x", "shared out among its devices"},
        {"%x = PARAM {slot=0, device=\"A,C\"} [4]\n%y = ALLREDUCE {op=ADD, devices=\"A,B\"} %x",
         "shared out among its devices"},
        {"%x = PARAM {slot=0, device=\"A,B\"} [4]\n%y = ALLREDUCE {op=SUB, devices=\"A,B\"} %x", "op must be"},
    };
    for (int i = 0; i < KN_COUNT(text); i++) {
        kn_graph *g = kg_new(NULL);
        kn_fault  f = {0};
        CHECK_EQ(kg_parse(g, text[i][0], strlen(text[i][0]), &f), 0);
        if (!strstr(f.text, text[i][1])) CHECK_STR(f.text, text[i][1]);
        kg_free(g);
    }
    float    x[4] = {1, 2, 1, 3};
    kn_array s[]  = {{x, 4, KN_F32}};
    run_refused("%1 = REPLICATED {axes=(0)} (NEG (PARAM {slot=0} [2, 2]))", s, 1, KN_ERR_ARG, "the copies differ");
    run_refused("%1 = SINK (STORE (REPLICATED {axes=(0)} (PARAM {slot=0} [1, 4])) 1.0:f32)", s, 1, KN_ERR_ARG,
                "not a view");
}

int main(void) {
    RUN(collectives);
    RUN(sums_over_the_sharded_axis);
    RUN(the_axis_says_who_has_it);
    RUN(refused);
    return check_result();
}
