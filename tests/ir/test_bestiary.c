/* test_bestiary.c - the bestiary's tree form: every tree of its pages parses and prints, the whole ones run; every row
 * of the table of spellings has a program that reads as the same nodes in both forms, and runs; its two tables of ops.
 *
 * The rows are those of docs/dialect.md: a row without a program fails, and a program without a row too. */
#include "check.h"
#include "corpus.h"
#include "dialect/spell.h"
#include "dialect/tree.h"
#include "lower/pipeline.h"

#include <stdlib.h>

#define PAGES KN_TEST_SOURCE "/tests/ir/bestiary"

static kn_ref read_tree(kn_graph *g, const char *text) {
    kn_fault f = {0};
    kn_ref   n = kn_text_is_tree(text, strlen(text)) ? kg_parse_tree(g, text, strlen(text), &f) : 0;
    if (!CHECK(n != 0)) fprintf(stderr, "%s\n%s\n", text, f.text);
    return n;
}

/* Printed in either form it reads back as the same node. */
static bool round_trips(kn_graph *g, kn_ref n, const char *name) {
    kn_fault f = {0};
    kn_str   s, l;
    kn_str_init(&s, NULL);
    kn_str_init(&l, NULL);
    kg_print_tree(g, n, &s);
    kg_print(g, n, &l);
    bool tree = kg_parse_tree(g, kn_str_c(&s), s.len, &f) == n, line = kg_parse(g, kn_str_c(&l), l.len, &f) == n;
    if (!CHECK(tree)) fprintf(stderr, "%s: %s\n%s", name, f.text, kn_str_c(&s));
    if (!CHECK(line)) fprintf(stderr, "%s: %s\n%s", name, f.text, kn_str_c(&l));
    kn_str_free(&s);
    kn_str_free(&l);
    return tree && line;
}

static bool has_hole(const kn_graph *g, kn_ref root) {
    kn_ref  *order;
    uint32_t n;
    bool     found = false;
    if (!CHECK(kg_reach(g, &root, 1, &order, &n))) return false;
    for (uint32_t i = 0; i < n; i++) found = found || kg_op(g, order[i]) == KN_OP_HOLE;
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return found;
}

/* ---- the pages --------------------------------------------------------------------------------------------------- */

/* An index is stored, along its values; a value over a BUFFER is computed from 0, 1, 2, ... in its place. */
static void run_whole(kn_graph *g, kn_ref n, const char *name) {
    enum { MOST = 256 };
    float    out[MOST] = {0}, in[MOST];
    int64_t  bound = 7;
    kn_value v     = {0};
    int      count = 1;
    kn_fault f     = {0};
    int      op    = kg_op(g, n);
    bool     index = op == KN_OP_RANGE || op == KN_OP_SPECIAL;
    for (int i = 0; i < MOST; i++) in[i] = (float)i;
    kn_array slot[1] = {{index ? out : in, MOST, KN_F32}};
    if (op == KN_OP_PARAM) slot[0] = (kn_array){&bound, 1, KN_INDEX};
    kn_ref root = n;
    if (index) {
        kn_ref o = kg_param(g, 0, KN_F32, (int64_t[]){MOST}, 1), s;
        s        = kg_store(g, kg_index(g, o, &n, 1), kg_cast(g, n, KN_F32), 0);
        if (op == KN_OP_RANGE) s = kg_end(g, s, &n, 1);
        root  = kg_sink(g, &s, 1, "k", NULL, 0);
        count = 0;
    }
    for (kn_ref b = 1; b <= n && !index; b++)
        if (kg_op(g, b) == KN_OP_BUFFER) {
            kn_ref p  = kg_param(g, 0, KN_F32, (int64_t[]){kg_numel(g, b)}, 1);
            slot[0].size = kg_numel(g, b);
            root      = kg_substitute(g, n, &b, &p, 1);
            break;
        }
    if (!CHECK(kn_eval(g, root, slot, 1, &v, &count, &(kn_eval_opts){.check = true}, &f))) {
        fprintf(stderr, "%s: %s\n", name, f.text);
        return;
    }
    for (int i = 0; i < MOST && index; i++) CHECK_NEAR(out[i], i < 128 ? i : 0, 0);
    if (op == KN_OP_PARAM) CHECK_EQ(*(int64_t *)v.data, 7);
    for (int64_t i = 0; i < v.numel && !index && op != KN_OP_PARAM; i++) {
        double at = (double)i, want = op == KN_OP_REDUCE ? 400 * at + 190 : op == KN_OP_STACK ? at + 1 : at;
        CHECK_NEAR(((float *)v.data)[i], want, 0);
    }
    CHECK_EQ(v.numel, op == KN_OP_REDUCE ? 10 : op == KN_OP_STACK ? 4 : op == KN_OP_RESHAPE ? 24 : op == KN_OP_PARAM);
    if (v.data) kn_value_free(NULL, &v);
}

static void page(const corpus_program *p, void *user) {
    int *pages = user;
    if (strcmp(p->file, "pages.kn") != 0) return;
    kn_graph *g     = kg_new(NULL);
    kn_fault  f     = {0};
    kn_ref    n     = read_tree(g, p->text);
    bool      whole = !strncmp(p->name, "whole ", 6);
    pages[whole]++;
    if (n && round_trips(g, n, p->name) && CHECK(has_hole(g, n) != whole)) {
        if (whole) {
            if (!CHECK(kn_verify(g, n, KN_STAGE_ANY, &f))) fprintf(stderr, "%s: %s\n", p->name, f.text);
            run_whole(g, n, p->name);
        } else { /* what is left out neither verifies as a program nor runs */
            CHECK(!kn_verify(g, n, KN_STAGE_TENSOR, &f));
        }
    }
    kg_free(g);
}

static void test_pages(void) {
    int pages[2] = {0, 0};
    CHECK(corpus_each(PAGES, page, pages) > 0);
    CHECK_EQ(pages[0], 15);
    CHECK_EQ(pages[1], 6);
}

/* ---- the rows ---------------------------------------------------------------------------------------------------- */

enum { ROWS = 64 };
typedef struct rows {
    char key[ROWS][80];
    int  n, programs[ROWS], run;
} rows;

/* Row keys: the text in backquotes that a line of the table begins with. */
static bool read_rows(rows *r) {
    char    *text;
    size_t   size;
    kn_fault f = {0};
    if (!CHECK(kn_read_file(NULL, KN_TEST_SOURCE "/docs/dialect.md", &text, &size, &f))) return false;
    const char *p = strstr(text, "| the bestiary's | the dialect's |");
    if (CHECK(p != NULL))
        for (p = strchr(p, '\n') + 1; *p == '|'; p = strchr(p, '\n') + 1) {
            if (p[1] == '-' || !strncmp(p, "|---", 4)) continue;
            size_t len = strcspn(p + 2, "|") - 1;
            if (CHECK(r->n < ROWS && len < sizeof r->key[0])) {
                char *k = r->key[r->n++];
                for (size_t i = 0; i < len; i++)
                    if (p[2 + i] != '`') *k++ = p[2 + i];
            }
        }
    kn_free(NULL, text, size + 1);
    return r->n > 0;
}

static void run_row(rows *r, kn_graph *g, kn_ref n, const char *want, const char *name) {
    float    x[6] = {1, 2, 3, 4, 5, 6}, v[4] = {0, 1, 2, 3}, out[8] = {0};
    int64_t  three   = 3;
    kn_array slot[4] = {{x, 6, KN_F32}, {v, 4, KN_F32}, {out, 8, KN_F32}, {&three, 1, KN_INDEX}};
    bool     effect  = !strncmp(want, "out ", 4);
    kn_value y       = {0};
    int      count   = effect ? 0 : 1;
    kn_fault f       = {0};
    if (!strncmp(want, "none", 4)) return;
    r->run++;
    if (!CHECK(kn_eval(g, n, slot, 4, &y, &count, NULL, &f))) {
        fprintf(stderr, "%s: %s\n", name, f.text);
        return;
    }
    int64_t size = effect ? 8 : y.numel, i = 0;
    int     dt   = effect ? KN_F32 : y.dtype;
    for (char *p = strchr(want, ' '), *end; p && *p == ' ' && i < size; p = end, i++) {
        kn_scalar s = kn_load_scalar((char *)(effect ? (void *)out : y.data) + i * kn_dsize(dt), dt);
        if (!CHECK_NEAR(kn_is_float(dt) ? s.f : (double)s.i, strtod(p, &end), 0))
            fprintf(stderr, "%s: element %lld\n", name, (long long)i);
    }
    CHECK_EQ(i, size);
    if (y.data) kn_value_free(NULL, &y);
}

static void row(const corpus_program *p, void *user) {
    rows *r = user;
    int   k = 0;
    if (strcmp(p->file, "rows.kn") != 0) return;
    while (k < r->n && strcmp(r->key[k], p->name) != 0) k++;
    if (!CHECK(k < r->n)) {
        fprintf(stderr, "docs/dialect.md has no row '%s'\n", p->name);
        return;
    }
    r->programs[k]++;
    char     *tree = malloc(strlen(p->text) + 1), *ours, *want;
    kn_graph *g    = kg_new(NULL);
    kn_fault  f    = {0};
    strcpy(tree, p->text);
    ours = strstr(tree, "\n== ours\n");
    want = ours ? strstr(ours + 9, "\n== ") : NULL;
    if (CHECK(want != NULL)) {
        ours[1] = 0; /* the tree keeps its last line's end */
        want[1] = 0;
        ours += 9;
        want += 4;
        kn_ref n = read_tree(g, tree), m = kg_parse(g, ours, strlen(ours), &f);
        CHECK_STR(f.text, "");
        if (n && !CHECK_EQ(n, m)) {
            kn_str s;
            kn_str_init(&s, NULL);
            kg_print(g, n, &s);
            fprintf(stderr, "%s:\n%s", p->name, kn_str_c(&s));
            kn_str_free(&s);
        }
        if (n && round_trips(g, n, p->name)) run_row(r, g, n, want, p->name);
    }
    kg_free(g);
    free(tree);
}

static void test_rows(void) {
    static rows r;
    if (!read_rows(&r)) return;
    CHECK(corpus_each(PAGES, row, &r) > 0);
    for (int k = 0; k < r.n; k++)
        if (!CHECK(r.programs[k] > 0)) fprintf(stderr, "no program for the row '%s'\n", r.key[k]);
    printf("     %d rows, %d programs run\n", r.n, r.run);
}

/* ---- the corpus, and bad texts ----------------------------------------------------------------------------------- */

static void whole_corpus(const corpus_program *p, void *user) {
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    kn_ref    n = kg_parse(g, p->text, strlen(p->text), &f);
    (void)user;
    if (CHECK(n != 0)) round_trips(g, n, p->name);
    kg_free(g);
}

static void test_corpus(void) {
    CHECK(corpus_each(CORPUS_DIR, whole_corpus, NULL) > 100);
}

/* A chain that would hang a thousand levels deep stays a text of bounded width. */
static void test_deep(void) {
    kn_graph *g = kg_new(NULL);
    kn_ref    n = kg_param(g, 0, KN_F32, (int64_t[]){4}, 1);
    kn_fault  f = {0};
    kn_str    s;
    kn_str_init(&s, NULL);
    for (int i = 0; i < 5000; i++) n = kg_op1(g, i % 2 ? KN_OP_SIN : KN_OP_NEG, n);
    kg_print_tree(g, n, &s);
    CHECK(s.len < 5000 * 400);
    CHECK_EQ(kg_parse_tree(g, kn_str_c(&s), s.len, &f), n);
    kn_str_free(&s);
    kg_free(g);
}

static void refuse(const char *text, const char *why) {
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    CHECK_EQ(kg_parse_tree(g, text, strlen(text), &f), 0);
    if (!strstr(f.text, why)) CHECK_STR(f.text, why);
    CHECK_EQ(kg_fault(g)->code, KN_OK);
    kg_free(g);
}

static void test_errors(void) {
    refuse("", "line 1, column 1: no tree");
    refuse("NAG\n", "'NAG' is not an op");
    refuse("SINK\n        \xe2\x94\x94\xe2\x94\x80\xe2\x94\x80 CONST(1)\n", "line 2, column 19: nothing stands above");
    refuse("SINK\n    CONST(1)\n", "expected a branch");
    refuse("CONST(1.5) : Int32\n", "'1.5' is not an integer");
    refuse("CONST(1\n", "no ')' closes this");
    refuse("RANGE(end=4, axis_id=R0, type=Loop)\n`-- CONST(5)\n", "end= is not what hangs below");
    refuse("RANGE(end=4, axis_id=R0, type=Lop)\n", "'Lop' is not a value of type");
    refuse("NEG : Int32\n`-- CONST(1.0)\n", "the node's type is f32");
    refuse("ADD\n|-- CONST(1.0)\n`-- CONST(1)\n", "sources are f32 and index");
    refuse("BUFFER[4294967296, 4294967296] : Float32\n", "size is out of range");
    refuse("%a = CONST(1)\n%a = CONST(2)\n", "%a is defined twice");
    refuse("SINK\n`-- %b\n", "%b is not defined above");
    refuse("PAD(end_pads=[1], begin_pads=[0])\n", "expected begin_pads");
    refuse("UNROLL(unroll_axes=[(0, 3)])\n`-- VCONST([1, 2, 3, 4]) : <4 x Int32>\n", "do not divide");
    refuse("CAST\n`-- CONST(1)\n", "needs a dtype");
    refuse("INDEX\n|-- DEFINE_GLOBAL(0)[4]\n|-- CONST(1)\n`-- CONST(true)\n", "a gated INDEX is no value");
}

/* Any bytes give a graph or an error. */
static void test_noise(void) {
    char    *text;
    size_t   size;
    kn_fault f = {0};
    uint64_t s = 1;
    int      valid = 0;
    if (!CHECK(kn_read_file(NULL, PAGES "/rows.kn", &text, &size, &f))) return;
    for (int i = 0; i < 6000; i++) {
        char     piece[600];
        uint64_t r[4];
        for (int k = 0; k < 4; k++) r[k] = kn_threefry2x32(s++, 7);
        size_t at = r[0] % (size - 1), n = KN_MIN(size - at, 1 + r[1] % sizeof piece);
        while (at && (text[at - 1] != '\n' || at < 5 || text[at] == '-')) at--; /* a line; most often, a tree's first */
        for (size_t b = at; r[3] % 4 && b; b--)
            if (!memcmp(text + b, "--- ", 4)) {
                at = b + strcspn(text + b, "\n") + 1;
                n  = (size_t)(strstr(text + at, "\n== ") - (text + at)) + 1;
                break;
            }
        n = KN_MIN(KN_MIN(size - at, n), sizeof piece);
        memcpy(piece, text + at, n);
        for (uint64_t k = 0; k < r[2] % 3; k++) {
            piece[kn_threefry2x32(s, 8) % n] = (char)kn_threefry2x32(s, 9);
            s++;
        }
        kn_graph *g = kg_new(NULL);
        kn_fault  e = {0};
        char     *copy = malloc(n); /* so that a read behind the end shows */
        memcpy(copy, piece, n);
        kn_ref root = kg_parse_tree(g, copy, n, &e);
        CHECK((root != 0) == (e.code == KN_OK));
        valid += root != 0;
        if (root) round_trips(g, root, "noise");
        free(copy);
        kg_free(g);
    }
    printf("     %d of 6000 pieces were valid\n", valid);
    kn_free(NULL, text, size + 1);
}

/* ---- its two tables ---------------------------------------------------------------------------------------------- */

static void test_tables(void) {
    for (int op = 1; op < KN_OP_COUNT; op++) {
        bool ends = op == KN_OP_BUFFERIZE || op == KN_OP_REDUCE || op == KN_OP_END;
        CHECK_EQ(kn_range_start(op), ends ? 1 : op == KN_OP_WMMA ? 3 : -1);
    }
    CHECK_EQ(kn_spelled_range_start("BUFFERIZE", 9), 1);
    CHECK_EQ(kn_spelled_range_start("REDUCE", 6), 1);
    CHECK_EQ(kn_spelled_range_start("STORE", 5), 3); /* (buffer, index, value, ranges...) is the bestiary's alone */
    CHECK_EQ(kn_spelled_range_start("WMMA", 4), 3);
    CHECK_EQ(kn_spelled_range_start("END", 3), 1);
    CHECK_EQ(kn_spelled_range_start("LOAD", 4), -1);
    CHECK_EQ(kn_spelled_range_start("VECTORIZE", 9), -1);
    static const int expandable[] = {KN_OP_CAST,  KN_OP_BITCAST, KN_OP_INDEX, KN_OP_STACK,     KN_OP_LOAD, KN_OP_STORE,
                                     KN_OP_REDUCE, KN_OP_END,    KN_OP_AFTER, KN_OP_BUFFERIZE, KN_OP_WMMA};
    for (int op = 1; op < KN_OP_COUNT; op++) {
        bool listed = kn_is_alu(op);
        for (int i = 0; i < KN_COUNT(expandable); i++) listed = listed || op == expandable[i];
        if (!CHECK_EQ(kn_is_expandable(op), listed)) fprintf(stderr, "%s\n", kn_ops[op].name);
    }
    for (int i = 0; i < 2; i++) { /* GEP and POINTER_INDEX are INDEX, VECTORIZE is STACK */
        const kn_spelling *s = kn_spelling_of(i ? "POINTER_INDEX" : "GEP", i ? 13 : 3);
        CHECK(s && kn_is_expandable(s->op));
    }
}

int main(void) {
    RUN(test_pages);
    RUN(test_rows);
    RUN(test_corpus);
    RUN(test_deep);
    RUN(test_errors);
    RUN(test_noise);
    RUN(test_tables);
    return check_result();
}
