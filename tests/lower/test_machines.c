/* test_machines.c - one table, one set of kernels: what is chosen follows the machine's table and nothing else, fits
 * its registers, and computes the same. */
#define _GNU_SOURCE
#include "api/api.h"
#include "base/machine.h"
#include "lower/pipeline.h"

#include <stdlib.h>

/* For programs that are looked at and not run: the target is the widest, whatever this CPU has. */
static kn_context *open_for(const char *machine, int threads) {
    kn_config cfg = {.device = "NULL", .machine = machine, .threads = threads, .size = sizeof cfg};
#if KN_TARGET_X86
    cfg.target = "x86:avx512";
#endif
    return kn_open(&cfg);
}

static kn_tensor *product(kn_context *kn, kn_dim m, kn_dim k, kn_dim n) {
    return kn_matmul(kn_empty(kn, KN_F32, KN_DIMS(m, k)), kn_empty(kn, KN_F32, KN_DIMS(k, n)));
}

/* The text of t's program after Optimize; free it. */
static char *optimized(kn_tensor *t) {
    char  *text = NULL;
    size_t size = 0;
    FILE  *f    = open_memstream(&text, &size);
    CHECK_EQ(kn_dump(t, "optimize", f), KN_OK);
    fclose(f);
    return text;
}

static char *program_for(const char *machine, int threads) {
    kn_context *kn = open_for(machine, threads);
    kn_scope   *s  = kn_begin(kn);
    kn_tensor  *x  = product(kn, 300, 200, 400);
    char       *t  = optimized(kn_softmax(kn_add(x, kn_mul_s(product(kn, 300, 64, 400), 2)), -1));
    CHECK_EQ(kn_end(s), KN_OK);
    kn_close(kn);
    return t;
}

static void test_same_table_same_kernels(void) {
    char *first[8] = {0};
    int   n        = 0;
    for (; kn_machine_names[n]; n++) {
        char *again = program_for(kn_machine_names[n], 4);
        first[n]    = program_for(kn_machine_names[n], 1);
        CHECK_STR(again, first[n]);
        free(again);
    }
    CHECK(strcmp(first[1], first[2])); /* avx512, avx2 */
    CHECK(strcmp(first[2], first[3]));
    for (int i = 0; i < n; i++) free(first[i]);
}

/* A tile's accumulators, one row of the other operand and what is broadcast: mr nv + nv <= registers - 2. */
static void tiles_fit(const kn_machine *m) {
    static const char text[] = "%%a = PARAM {slot=0} [%d, %d]\n%%b = PARAM {slot=1} [%d, %d]\n"
                               "%%1 = REDUCE {op=ADD, axes=(1)} (MUL (RESHAPE %%a [%d, %d, 1]) "
                               "(RESHAPE %%b [1, %d, %d]))\n";
    static const int sizes[][3] = {{1024, 1024, 1024}, {1000, 1000, 1000}, {14, 300, 32}, {128, 64, 10}, {7, 9, 64}};
    for (int i = 0; i < KN_COUNT(sizes); i++) {
        char       program[1024];
        kn_fault   f = {0};
        kn_graph  *g = kg_new(NULL);
        kl_program p;
        kl_run     run = {.stop = KN_STAGE_OPTIMIZE};
        int        out[2], nout;
        int a = sizes[i][0], b = sizes[i][1], c = sizes[i][2];
        snprintf(program, sizeof program, text, a, b, b, c, a, b, b, c);
        kl_program_init(&p, NULL);
        p.machine = m;
        kn_ref r  = kg_parse(g, program, strlen(program), &f);
        if (CHECK(r && kl_program_from(&p, g, r, out, 2, &nout, &f) && kl_lower(&p, &run, &f))) {
            int64_t lanes = m->vector_bytes / 4, tile[2] = {1, 1}; /* rows, then the lanes: the last UPCAST */
            for (int o = 0; o < p.kernel[0].nopts; o++) {
                const kn_opt *opt = &p.kernel[0].opts[o];
                if (opt->op != KN_OPT_SPLIT || opt->target != KN_AXIS_UPCAST) continue;
                tile[0] *= tile[1];
                tile[1] = opt->arg;
            }
            int64_t nv = (tile[1] + lanes - 1) / lanes;
            if (!CHECK(tile[0] * nv + nv <= m->vector_registers - 2))
                printf("  %s, %d by %d by %d: %d by %d\n", m->name, a, b, c, (int)tile[0], (int)tile[1]);
            if (i == 0) CHECK(tile[0] * nv >= 8); /* enough chains to hide an FMA's latency */
        } else printf("  %s\n", f.text);
        kl_program_free(&p);
        kg_free(g);
    }
}

static void test_tiles_fit_registers(void) {
    for (int i = 1; kn_machine_names[i]; i++) tiles_fit(kn_machine_named(kn_machine_names[i]));
}

/* Kernels shaped for another machine's vectors compute the same. */
static void test_values_stay(void) {
    static float a[37 * 53], b[53 * 70], want[37 * 70], y[37 * 70];
    for (int i = 0; i < KN_COUNT(a); i++) a[i] = (float)(i * 7 % 31 - 15) / 16;
    for (int i = 0; i < KN_COUNT(b); i++) b[i] = (float)(i * 5 % 29 - 14) / 16;
    for (int i = -1; i < 0 || kn_machine_names[i]; i++) {
        kn_config   cfg = {.device = i < 0 ? "INTERP" : "CPU", .machine = i < 0 ? NULL : kn_machine_names[i],
                           .size = sizeof cfg};
        kn_context *kn  = kn_open(&cfg);
        kn_tensor  *t   = kn_softmax(kn_matmul(kn_from(kn, a, KN_F32, KN_DIMS(37, 53)),
                                               kn_from(kn, b, KN_F32, KN_DIMS(53, 70))), -1);
        CHECK_EQ(kn_read(t, KN_F32, i < 0 ? want : y, sizeof y), KN_OK);
        for (int k = 0; i >= 0 && k < KN_COUNT(y); k++)
            if (!CHECK_NEAR(y[k], want[k], 1e-5)) break;
        kn_close(kn);
    }
}

/* A block that is turned stores no more rows than a set of the L1 has lines, where they lie a multiple of a page
 * apart: eight of f64, of which else sixteen go side by side. */
static void test_rows_fit_sets(void) {
    static const struct {
        kn_dim columns;
        bool   many;
    } turned[] = {{512, false}, {1024, false}, {500, true}, {256, true}};
    for (int i = 0; i < KN_COUNT(turned); i++) {
        kn_context *kn = open_for("avx512", 1);
        kn_scope   *s  = kn_begin(kn);
        kn_tensor  *x  = kn_empty(kn, KN_F64, KN_DIMS(turned[i].columns, 755));
        char       *t  = optimized(kn_contiguous(kn_transpose(x, 0, 1)));
        CHECK(strstr(t, "type=UPCAST, axis=1} 8 : index") && !strstr(t, "} 16 : index") == !turned[i].many);
        free(t);
        CHECK_EQ(kn_end(s), KN_OK);
        kn_close(kn);
    }
}

/* Of a product of few terms, whose rows lie such a distance apart, more is stored of each row before the next one. */
static void test_longer_rows(void) {
    static const struct {
        kn_dim      columns, terms;
        const char *lanes;
    } product_of[] = {{1000, 12, "UPCAST, axis=1} 32 : index"},
                      {1024, 12, "UPCAST, axis=1} 128 : index"},
                      {1024, 20, "UPCAST, axis=1} 64 : index"},
                      {1024, 32, "UPCAST, axis=1} 32 : index"}};
    for (int i = 0; i < KN_COUNT(product_of); i++) {
        kn_context *kn = open_for("avx512", 1);
        kn_scope   *s  = kn_begin(kn);
        kn_tensor  *a  = kn_empty(kn, KN_F32, KN_DIMS(300, product_of[i].terms));
        kn_tensor  *b  = kn_empty(kn, KN_F32, KN_DIMS(product_of[i].columns, product_of[i].terms));
        char       *t  = optimized(kn_matmul(a, kn_transpose(b, 0, 1)));
        CHECK(strstr(t, product_of[i].lanes));
        free(t);
        CHECK_EQ(kn_end(s), KN_OK);
        kn_close(kn);
    }
}

static bool optimized_has(kn_tensor *t, const char *part) {
    char *text = optimized(t);
    bool  has  = strstr(text, part) != NULL;
    free(text);
    return has;
}

#if KN_TARGET_X86
/* A window over few channels has rows beside one another: fewer where registers do not hold as many, not none. */
static void test_fewer_rows_beside(void) {
    kn_context *kn = open_for("avx512", 1);
    kn_scope   *s  = kn_begin(kn);
    kn_tensor  *x  = kn_empty(kn, KN_F32, KN_DIMS(8, 16, 32, 9));
    kn_tensor  *w  = kn_empty(kn, KN_F32, KN_DIMS(2, 16, 3, 3));
    CHECK(optimized_has(kn_conv2d(x, w, NULL, .padding = {1, 1}), "type=UPCAST, axis=1} 3 : index"));
    CHECK_EQ(kn_end(s), KN_OK);
    kn_close(kn);
}

/* Bytes that are turned and stored as words go by the blocks of bytes that registers turn: not as eight bytes each,
 * nor where much is left over. */
static void test_turned_bytes(void) {
    static const struct {
        kn_dim   rows;
        kn_dtype stored;
        bool     block;
    } of[] = {{512, KN_F32, true}, {512, KN_I32, true}, {512, KN_F64, false}, {512, KN_I16, false},
              {20, KN_F32, false}};
    for (int i = 0; i < KN_COUNT(of); i++) {
        kn_context *kn = open_for("avx512", 1);
        kn_scope   *s  = kn_begin(kn);
        kn_tensor  *x  = kn_transpose(kn_empty(kn, KN_I8, KN_DIMS(of[i].rows, 367)), 0, 1);
        char       *t  = optimized(kn_cast(x, of[i].stored));
        bool block = strstr(t, "type=UPCAST} 16 : index") && strstr(t, "type=UPCAST, axis=1} 16 : index");
        if (!CHECK_EQ(block, of[i].block)) printf("  case %d\n", i);
        free(t);
        CHECK_EQ(kn_end(s), KN_OK);
        kn_close(kn);
    }
}
#endif

/* A row of up to sixteen registers, of which little is computed, is one body's: no tile for what is left over. */
static void test_rows_with_a_rest(void) {
    kn_context *kn = open_for("avx512", 1);
    kn_scope   *s  = kn_begin(kn);
    for (kn_dim columns = 16; columns < 300; columns += 82) {
        char       whole[64];
        kn_tensor *x = kn_empty(kn, KN_F32, KN_DIMS(30, 1373, columns));
        snprintf(whole, sizeof whole, "type=UPCAST} %d : index", (int)columns);
        CHECK_EQ(optimized_has(kn_contiguous(kn_transpose(x, 0, 1)), whole), columns <= 256);
    }
    CHECK_EQ(kn_end(s), KN_OK);
    kn_close(kn);
}

/* Axes in the opposite order, of which the first and the last are short: all of both are rows of the tile, since what
 * lies between lanes is in the registers that are loaded for them; but of more registers than there are none is. */
static void test_what_lies_between(void) {
    kn_context *kn = open_for("avx512", 1);
    kn_scope   *s  = kn_begin(kn);
    for (kn_dim last = 5; last < 10; last += 2) {
        char       all[64];
        kn_tensor *x = kn_empty(kn, KN_F32, KN_DIMS(3, 20480, last));
        snprintf(all, sizeof all, "type=UPCAST, axis=1} %d : index", (int)last);
        CHECK_EQ(optimized_has(kn_contiguous(kn_permute(x, (int[]){2, 1, 0}, 3)), all), last == 5);
    }
    CHECK_EQ(kn_end(s), KN_OK);
    kn_close(kn);
}

/* Rows beside others in a line, of which three are put in turns: as many as fit beside them and leave no rest. */
static void test_rows_beside_turns(void) {
    kn_context *kn = open_for("avx512", 1);
    kn_scope   *s  = kn_begin(kn);
    kn_tensor  *x  = kn_permute(kn_empty(kn, KN_F32, KN_DIMS(3, 573, 100)), (int[]){2, 1, 0}, 3);
    CHECK(optimized_has(kn_sqrt(x), "type=UPCAST} 4 : index"));
    CHECK_EQ(kn_end(s), KN_OK);
    kn_close(kn);
}

/* Rows of 32 bytes that are put in another order: eight of them that lie side by side where all along the loop that is
 * joined are more than the L1, and not where much is computed of them, where they are few, or others are. */
static void test_longer_pieces(void) {
    kn_context *kn  = open_for("avx512", 1);
    kn_scope   *s   = kn_begin(kn);
    kn_tensor  *x   = kn_permute(kn_empty(kn, KN_F32, KN_DIMS(160, 128, 8)), (int[]){1, 0, 2}, 3);
    kn_tensor  *few = kn_permute(kn_empty(kn, KN_F64, KN_DIMS(128, 60, 8, 4)), (int[]){0, 2, 1, 3}, 4);
    kn_tensor  *y   = kn_permute(kn_empty(kn, KN_I32, KN_DIMS(130, 7, 64, 4)), (int[]){2, 1, 0, 3}, 4);
    const char *eight = "type=UPCAST} 8 : index";
    CHECK(optimized_has(kn_neg(x), eight));
    CHECK(!optimized_has(kn_sin(x), eight));
    CHECK(!optimized_has(kn_neg(few), eight));
    CHECK(optimized_has(kn_neg(y), eight));
    CHECK(!optimized_has(kn_mul(y, kn_empty(kn, KN_I32, KN_DIMS(64, 7, 130, 4))), eight));
    CHECK_EQ(kn_end(s), KN_OK);
    kn_close(kn);
}

/* Two rows of six registers beside one another have no loop; five of them do. */
static void test_few_rows_beside(void) {
    kn_context *kn = open_for("avx512", 1);
    kn_scope   *s  = kn_begin(kn);
    kn_tensor  *two = kn_permute(kn_empty(kn, KN_F32, KN_DIMS(2, 371, 96)), (int[]){1, 0, 2}, 3);
    kn_tensor  *five = kn_permute(kn_empty(kn, KN_F32, KN_DIMS(5, 371, 96)), (int[]){1, 0, 2}, 3);
    CHECK(optimized_has(kn_neg(two), "type=UPCAST} 2 : index"));
    CHECK(!optimized_has(kn_neg(five), "type=UPCAST} 5 : index"));
    CHECK_EQ(kn_end(s), KN_OK);
    kn_close(kn);
}

/* Of a row that is filled a sine is computed of what is no filler, where the row's lanes are copies, of which five of
 * seven are numbers; what is not computed is lanes of all rows joined. */
static void test_filler_is_known(void) {
    static const kn_dim before[] = {2, 1}, after[] = {2, 4};
    kn_context         *kn = open_for("avx512", 1);
    kn_scope           *s  = kn_begin(kn);
    kn_tensor          *x  = kn_pad(kn_empty(kn, KN_F32, KN_DIMS(65536, 2)), before, after, 2);
    CHECK(optimized_has(kn_sin(x), "type=UPCAST, axis=1} 16 : index"));
    CHECK(!optimized_has(kn_neg(x), "type=UPCAST, axis=1} 16 : index"));
    CHECK_EQ(kn_end(s), KN_OK);
    kn_close(kn);
}

static void test_unknown(void) {
    kn_context *kn = open_for("z80", 1);
    CHECK(kn && strstr(kn_error(kn), "no machine \"z80\"") != NULL);
    CHECK_EQ(kn_error_code(kn), KN_ERR_ARG);
    kn_close(kn);
    CHECK(kn_runtime_new(&(kn_config){.machine = "z80", .size = sizeof(kn_config)}) == NULL);
}

/* What streams from beyond the L2 goes by halves of registers, with one number beside it as well; not where to
 * compute a line takes more than half as long as to read what it is made of, or three quarters of one array. */
static void test_streams_beside_a_number(void) {
    kn_context *kn = open_for("avx512", 1);
    kn_scope   *s  = kn_begin(kn);
    kn_tensor  *x = kn_empty(kn, KN_F32, KN_DIMS(1 << 20)), *one = kn_empty(kn, KN_F32, KN_DIMS(1));
    kn_tensor  *little = kn_mul(x, one), *much = kn_div(kn_div(little, one), x);
    CHECK(optimized_has(little, "type=UPCAST, axis=1} 8 : index"));
    CHECK(!optimized_has(much, "type=UPCAST, axis=1} 8 : index"));
    /* More may be computed of one array by one loop. */
    kn_tensor *y = kn_empty(kn, KN_F32, KN_DIMS(1 << 20)), *rows = kn_empty(kn, KN_F32, KN_DIMS(1 << 10, 1040));
    kn_tensor *part = kn_shrink(rows, (kn_dim[]){0, 16}, (kn_dim[]){1 << 10, 1040}, 2);
    CHECK(optimized_has(kn_minimum(x, one), "type=UPCAST, axis=1} 8 : index"));
    CHECK(!optimized_has(kn_minimum(kn_minimum(x, one), y), "type=UPCAST, axis=1} 8 : index"));
    CHECK(!optimized_has(kn_minimum(part, one), "type=UPCAST, axis=1} 8 : index"));
    CHECK_EQ(kn_end(s), KN_OK);
    kn_close(kn);
}

int main(void) {
    RUN(test_same_table_same_kernels);
    RUN(test_tiles_fit_registers);
    RUN(test_values_stay);
    RUN(test_rows_fit_sets);
    RUN(test_longer_rows);
    RUN(test_rows_with_a_rest);
    RUN(test_what_lies_between);
    RUN(test_rows_beside_turns);
    RUN(test_longer_pieces);
    RUN(test_few_rows_beside);
    RUN(test_filler_is_known);
    RUN(test_streams_beside_a_number);
#if KN_TARGET_X86
    RUN(test_fewer_rows_beside);
    RUN(test_turned_bytes);
#endif
    RUN(test_unknown);
    return check_result();
}
