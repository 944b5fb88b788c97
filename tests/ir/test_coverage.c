/* test_coverage.c - what is there for every op: read and printed, verified, interpreted, lowered, differentiated.
 *
 * Each op has a program under its name in ops/ops.kn; a column's mark is what happened when that program was run:
 *   text       printed in both forms it reads back as the same graph
 *   verify     some stage's rules accept it
 *   interpret  the interpreter gives the numbers that stand below it
 *   C, x86     "yes": as a tensor program it goes through all stages, and on x86-64 machine code gives those numbers
 * too; "made": a stage makes the op of some of the programs that do gradient   of a float result, by a float input; "."
 * where there is none to be had A hole is argued for in coverage.def, or a failure. --write FILE: the table as a page.
 */
#include "check.h"
#include "corpus.h"
#include "dialect/tree.h"
#include "lower/pipeline.h"
#include "rules/verify.h"
#include "runtime/program.h"
#include "target/target.h"
#include "tensor/gradient.h"

#include <stdlib.h>

enum column { TEXT, VERIFY, INTERPRET, C, X86, GRADIENT, COLUMNS };
static const char *const column_names[COLUMNS] = {"text", "verify", "interpret", "C", "x86", "gradient"};

typedef struct gap {
    int         op, column;
    const char *why;
    bool        used;
} gap;
static gap gaps[] = {
#define GAP(op, column, why) {KN_OP_##op, column, why, false},
#include "ir/coverage.def"
#undef GAP
    {KN_OP_INVALID, 0, NULL, true},
};

static struct {
    int         programs[KN_OP_COUNT]; /* below its name */
    const char *mark[KN_OP_COUNT][COLUMNS];
    int         corpus[KN_OP_COUNT]; /* programs of the corpus that have it */
} table;

/* ---- a program -----------------------------------------------------------------------------------------------------
 */

static struct {
    float   x[6], v[4], out[8];
    int32_t i[6];
    int64_t n;
} data;

static kn_array slots[5];

static void fill(void) {
    static const int32_t some[6] = {7, -7, 5, -5, 12, 3};
    memset(&data, 0, sizeof data);
    for (int i = 0; i < 6; i++) data.x[i] = (float)i + 1, data.i[i] = some[i];
    for (int i = 0; i < 4; i++) data.v[i] = (float)i;
    data.n   = 3;
    slots[0] = (kn_array){data.x, 6, KN_F32};
    slots[1] = (kn_array){data.v, 4, KN_F32};
    slots[2] = (kn_array){data.out, 8, KN_F32};
    slots[3] = (kn_array){data.i, 6, KN_I32};
    slots[4] = (kn_array){&data.n, 1, KN_INDEX};
}

static kn_status twice(void *user, const kn_custom_args *a) {
    (void)user;
    for (int64_t i = 0; i < a->in[0].numel; i++) ((float *)a->out[0].data)[i] = 2 * ((const float *)a->in[0].data)[i];
    return KN_OK;
}

static bool host(void *user, const char *name, const kn_custom_args *a, kn_fault *f) {
    (void)user;
    return strcmp(name, "twice") ? kn_fail(f, KN_ERR_UNSUPPORTED, "no function %s", name) : twice(NULL, a) == KN_OK;
}

/* "value 1 2" or "out 1 2". */
static bool as_wanted(const char *want, const kn_value *v) {
    bool    effect = !strncmp(want, "out ", 4);
    int64_t size = effect ? 8 : v->numel, i = 0;
    int     dt = effect ? KN_F32 : v->dtype;
    for (const char *p = strchr(want, ' '); p && *p == ' ' && i < size; i++) {
        char     *end;
        double    w   = strtod(p, &end);
        kn_scalar s   = kn_load_scalar((const char *)(effect ? (void *)data.out : v->data) + i * kn_dsize(dt), dt);
        double    got = kn_is_float(dt) ? s.f : (double)s.i, near = 1e-6 * (w < 0 ? -w : w);
        if (!(got >= w - near && got <= w + near)) return false;
        p = end;
    }
    return i == size;
}

static bool round_trips(kn_graph *g, kn_ref root) {
    kn_fault f = {0};
    kn_str   line, tree;
    kn_str_init(&line, NULL);
    kn_str_init(&tree, NULL);
    kg_print(g, root, &line);
    kg_print_tree(g, root, &tree);
    bool same =
        kg_parse(g, kn_str_c(&line), line.len, &f) == root && kg_parse_tree(g, kn_str_c(&tree), tree.len, &f) == root;
    kn_str_free(&line);
    kn_str_free(&tree);
    return same;
}

static bool interpreted(kn_graph *g, kn_ref root, const char *want) {
    kn_value     v[4] = {0};
    int          n    = !strncmp(want, "out ", 4) ? 0 : 4;
    kn_fault     f    = {0};
    kn_eval_opts o    = {.check = true, .custom = host};
    fill();
    bool ok = kn_eval(g, root, slots, 5, v, &n, &o, &f) && as_wanted(want, &v[0]);
    for (int k = 0; k < n; k++) kn_value_free(NULL, &v[k]);
    return ok;
}

/* ---- stages --------------------------------------------------------------------------------------------------------
 */

typedef struct lowered {
    bool seen[KN_OP_COUNT];
} lowered;

static bool note_ops(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    lowered *l = user;
    kn_ref  *order;
    uint32_t n;
    (void)stage;
    if (!kg_reach(g, &root, 1, &order, &n)) return kn_oom(f);
    for (uint32_t i = 0; i < n; i++) l->seen[kg_op(g, order[i])] = true;
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return true;
}

/* Through all stages for a target; the ops that its stages made get a mark. */
static bool lowers(kn_graph *g, kn_ref root, const char *target, enum column column) {
    kl_program p;
    lowered    l = {0};
    kn_fault   f = {0};
    int        out[CORPUS_MAX], nout;
    kl_run     run = {.verify = true, .seen = note_ops, .user = &l};
    kl_program_init(&p, NULL);
    bool ok = kt_find(target, &p.target, &f) && kl_program_from(&p, g, root, out, CORPUS_MAX, &nout, &f) &&
              kl_lower(&p, &run, &f);
    kl_program_free(&p);
    for (int op = 1; ok && op < KN_OP_COUNT; op++)
        if (l.seen[op] && !table.mark[op][column]) table.mark[op][column] = "made";
    return ok;
}

/* On the machine: where it has no machine code of ours, by the C compiler's. */
static bool runs(kn_graph *g, kn_ref root, const char *want) {
    static const kn_custom_def def  = {twice, NULL, NULL, sizeof def};
    kn_value                   v[4] = {0};
    int                        n    = 4;
    kn_fault                   f    = {0};
    kr_context                *rt   = kr_new(NULL, &(kn_config){.device = "CPU", .threads = 1}, &f);
    fill();
    bool ok = rt && kr_define(rt, "twice", &def, &f) && kr_run_program(rt, g, root, slots, 5, v, &n, &f) &&
              as_wanted(want, &v[0]);
    if (!ok) fprintf(stderr, "  %s\n", f.text);
    for (int k = 0; k < n; k++) kn_value_free(NULL, &v[k]);
    if (rt) kr_free(rt);
    return ok;
}

/* Of "twice". */
static bool own_gradient(void *user, kn_ref call, kn_ref grads, kn_ref *parts, kn_fault *f) {
    kn_graph *g = user;
    int       rank;
    int64_t   dims[KN_MAX_RANK];
    memcpy(dims, kg_shape(g, kg_at(g, call, 1), &rank), sizeof(int64_t) * (size_t)kg_rank(g, kg_at(g, call, 1)));
    kn_ref d = kg_reshape(g, kg_op2(g, KN_OP_MUL, kg_at(g, grads, 0), kg_float(g, KN_F32, 2)), dims, rank);
    *parts   = kg_list(g, KN_OP_TUPLE, &d, 1);
    return *parts || kn_fail(f, KN_ERR_INTERNAL, "%s", kg_fault(g)->text);
}

/* Its sum, differentiated by the first float PARAM; 1: it was, 0: it was not, -1: there is nothing to be had. */
static int differentiated(kn_graph *g, kn_ref root) {
    kn_ref  *order, param = 0, grad;
    uint32_t n;
    int64_t  axes[KN_MAX_RANK];
    kn_fault f = {0};
    if (kg_op(g, root) == KN_OP_TUPLE) root = kg_at(g, root, 0);
    if (!kn_is_float(kg_dtype(g, root)) || !kg_reach(g, &root, 1, &order, &n)) return -1;
    for (uint32_t i = 0; i < n && !param; i++)
        if (kg_op(g, order[i]) == KN_OP_PARAM && kg_space(g, order[i]) != KN_REG && kn_is_float(kg_dtype(g, order[i])))
            param = order[i];
    kn_free(NULL, order, n * sizeof *order);
    if (!param) return -1;
    int rank = kg_rank(g, root);
    for (int i = 0; i < rank; i++) axes[i] = i;
    kn_ref sum = kg_reduce(g, root, KN_OP_ADD, axes, rank);
    return kn_gradient_through(g, kg_reshape(g, sum, NULL, 0), &param, 1, &grad, own_gradient, g, NULL, &f);
}

static void mark(int op, enum column c, bool there) {
    if (there) table.mark[op][c] = "yes";
}

static void one_op(const corpus_program *p, void *user) {
    int       op   = kn_op_by_name(p->name, strlen(p->name));
    char     *text = malloc(strlen(p->text) + 1), *want;
    kn_graph *g    = kg_new(NULL);
    kn_fault  f    = {0};
    (void)user;
    strcpy(text, p->text);
    want = strstr(text, "\n== ");
    if (CHECK(op > 0 && want != NULL)) {
        *want = 0;
        want += 4;
        kn_ref root = kg_parse(g, text, strlen(text), &f);
        if (!CHECK(root)) fprintf(stderr, "%s: %s\n", p->name, f.text);
        table.programs[op]++;
        bool known = false, tensor = root && kn_verify(g, root, KN_STAGE_TENSOR, &f);
        for (int s = KN_STAGE_ANY; root && s < KN_STAGE_COUNT && !known; s++)
            known = s != KN_STAGE_ANY && kn_verify(g, root, (kn_stage)s, &(kn_fault){0});
        mark(op, TEXT, root && round_trips(g, root));
        mark(op, VERIFY, known);
        mark(op, INTERPRET, root && interpreted(g, root, want));
        if (tensor && strncmp(want, "none", 4) != 0) {
            bool machine = kt_find("x86", &(kt_choice){0}, &f);
            mark(op, C, lowers(g, root, "c", C));
            mark(op, X86, machine && lowers(g, root, "x86:avx512", X86));
            bool run = table.mark[op][C] && table.mark[op][C][0] == 'y'; /* the programs that are lowered */
            if (run && !CHECK(runs(g, root, want))) fprintf(stderr, "  %s\n", p->name);
        }
        int d = root ? differentiated(g, root) : -1;
        if (d >= 0)
            mark(op, GRADIENT, d);
        else if (!table.mark[op][GRADIENT])
            table.mark[op][GRADIENT] = ".";
    }
    kg_free(g);
    free(text);
}

/* Larger programs, for what only they have. */
static void lower_kernels(const corpus_program *p, void *user) {
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    kn_ref    n = kg_parse(g, p->text, strlen(p->text), &f);
    (void)user;
    if (CHECK(n)) lowers(g, n, "c", C), lowers(g, n, "x86:avx512", X86);
    kg_free(g);
}

static void count_ops(const corpus_program *p, void *user) {
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    lowered   l = {0};
    kn_ref    n = kg_parse(g, p->text, strlen(p->text), &f);
    (void)user;
    if (CHECK(n) && CHECK(note_ops(&l, KN_STAGE_TENSOR, g, n, &f)))
        for (int op = 1; op < KN_OP_COUNT; op++) table.corpus[op] += l.seen[op];
    kg_free(g);
}

/* ---- the table -----------------------------------------------------------------------------------------------------
 */

static gap *gap_of(int op, int column) {
    for (gap *g = gaps; g->why; g++)
        if (g->op == op && g->column == column) return g;
    return NULL;
}

static void fill_table(void) {
    CHECK(corpus_each(KN_TEST_SOURCE "/tests/ir/ops", one_op, NULL) > 0);
    CHECK(corpus_each(KN_TEST_SOURCE "/tests/kernels", lower_kernels, NULL) > 0);
    CHECK(corpus_each(CORPUS_DIR, count_ops, NULL) > 0);
}

static void no_hole_without_a_reason(void) {
    bool machine = kt_find("x86", &(kt_choice){0}, &(kn_fault){0});
    for (int op = 1; op < KN_OP_COUNT; op++) {
        if (!CHECK(table.programs[op] > 0)) fprintf(stderr, "%s has no program in ops.kn\n", kn_ops[op].name);
        for (int c = 0; c < COLUMNS; c++) {
            gap *g = gap_of(op, c);
            if (c == X86 && !machine) continue;
            if (g) g->used = true;
            if (!CHECK(!table.mark[op][c] == (g != NULL)))
                fprintf(stderr, "%s, %s: %s\n", kn_ops[op].name, column_names[c],
                        g ? "argued for, and there" : "a hole");
        }
    }
    for (const gap *g = gaps; g->why; g++) CHECK(g->used || !machine);
}

static bool write_page(const char *path) {
    kn_str   s;
    kn_fault f     = {0};
    int      notes = 0;
    kn_str_init(&s, NULL);
    kn_str_puts(&s, "# What there is for each op\n\nMade by `ir.coverage` from what happens to the programs of "
                    "`tests/ir/ops/ops.kn`, one an op; what the marks\nmean is told in `tests/ir/test_coverage.c`. A "
                    "number is a reason, below. The last column counts the programs of\n`tests/ir/corpus` that have "
                    "the op.\n\n| op |");
    for (int c = 0; c < COLUMNS; c++) kn_str_putf(&s, " %s |", column_names[c]);
    kn_str_puts(&s, " corpus |\n|---|---|---|---|---|---|---|---|\n");
    for (int op = 1; op < KN_OP_COUNT; op++) {
        kn_str_putf(&s, "| %s |", kn_ops[op].name);
        for (int c = 0; c < COLUMNS; c++) {
            if (gap_of(op, c))
                kn_str_putf(&s, " %d |", (int)(gap_of(op, c) - gaps) + 1);
            else
                kn_str_putf(&s, " %s |", table.mark[op][c] ? table.mark[op][c] : "");
        }
        kn_str_putf(&s, " %d |\n", table.corpus[op]);
    }
    kn_str_puts(&s, "\n");
    for (const gap *g = gaps; g->why; g++)
        kn_str_putf(&s, "%d. %s, %s: %s\n", ++notes, kn_ops[g->op].name, column_names[g->column], g->why);
    bool ok = kn_write_file(path, kn_str_c(&s), s.len, 0644, &f);
    if (!ok) fprintf(stderr, "%s\n", f.text);
    kn_str_free(&s);
    return ok;
}

int main(int argc, char **argv) {
    RUN(fill_table);
    if (argc == 3 && !strcmp(argv[1], "--write")) return write_page(argv[2]) ? check_result() : 1;
    RUN(no_hole_without_a_reason);
    return check_result();
}
