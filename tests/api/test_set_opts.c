/* kn_set_opts: options by kernel name reach the kernels they name, part schedules by them, and are refused with a
 * reason. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "api.h"

enum { M = 48 };

static float data[2][M * M];

static kn_tensor *product(kn_context *kn) {
    return kn_matmul(kn_wrap(kn, data[0], KN_F32, KN_DIMS(M, M)), kn_wrap(kn, data[1], KN_F32, KN_DIMS(M, M)));
}

/* The product's sum and, in `name`, its kernel's. */
static double run(kn_context *kn, bool *split) {
    char      *text = NULL;
    size_t     size = 0;
    kn_scope  *s    = kn_begin(kn);
    kn_tensor *t    = product(kn);
    FILE      *out  = open_memstream(&text, &size);
    kn_status  st   = kn_dump(t, "optimize", out);
    fclose(out);
    *split   = st == KN_OK && strstr(text, "UPCAST") != NULL;
    double v = st == KN_OK ? kn_item(kn_sum(kn_contiguous(t))) : NAN;
    free(text);
    if (kn_error_code(kn) == KN_OK) kn_end(s);
    return v;
}

static uint64_t schedules(kn_context *kn) {
    kn_stats st = {.size = sizeof st};
    CHECK_EQ(kn_get_stats(kn, &st), KN_OK);
    return st.schedules;
}

static void reaches_kernels(kn_context *kn) {
    bool   split;
    double want = 0;
    for (int i = 0; i < M * M; i++) data[0][i] = (float)(i % 7), data[1][i] = (float)(i % 5);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++)
            for (int k = 0; k < M; k++) want += (double)data[0][i * M + k] * data[1][k * M + j];
    CHECK_NEAR(run(kn, &split), want, 0);
    CHECK(split); /* the heuristic's choice */
    uint64_t before = schedules(kn);
    CHECK_EQ(kn_set_opts(kn, "r_48_48*", ""), KN_OK);
    CHECK_NEAR(run(kn, &split), want, 0);
    CHECK(!split);
    CHECK_EQ(schedules(kn), before + 1);
    CHECK_EQ(kn_set_opts(kn, "?_48_*_48", "SPLIT:1:16:UPCAST SPLIT:0:4:UPCAST"), KN_OK);
    CHECK_NEAR(run(kn, &split), want, 0);
    CHECK(split);
    CHECK_EQ(schedules(kn), before + 2);
    CHECK_EQ(kn_set_opts(kn, "?_48_*_48", NULL), KN_OK); /* the one before it counts again */
    CHECK_NEAR(run(kn, &split), want, 0);
    CHECK(!split);
    CHECK_EQ(kn_set_opts(kn, "E_*", "SPLIT:7:2:LOOP"), KN_OK); /* names none of these */
    CHECK_NEAR(run(kn, &split), want, 0);
    CHECK_EQ(kn_set_opts(kn, "E_*", NULL), KN_OK);
    CHECK_EQ(kn_set_opts(kn, "r_48_48*", NULL), KN_OK);
    CHECK_EQ(kn_set_opts(kn, "never set", NULL), KN_OK);
    before = schedules(kn);
    CHECK_NEAR(run(kn, &split), want, 0);
    CHECK(split);
    CHECK_EQ(schedules(kn), before); /* seen at the start */
}
API_RUN(reaches_kernels)

/* Past the caches, into storage that lies at a multiple of a register. */
static void streams(kn_context *kn) {
    enum { N = 4096 };
    static float in[N], back[N];
    for (int i = 0; i < N; i++) in[i] = (float)(i % 91);
    CHECK_EQ(kn_set_opts(kn, "E_*", "STREAM:0 SPLIT:0:16:UPCAST"), KN_OK);
    kn_scope  *s = kn_begin(kn);
    kn_tensor *x = kn_wrap(kn, in, KN_F32, KN_DIMS(N));
    CHECK_EQ(kn_read(kn_sub(x, kn_flip(x, 0)), KN_F32, back, sizeof back), KN_OK);
    for (int i = 0; i < N; i++)
        if (!CHECK_NEAR(back[i], in[i] - in[N - 1 - i], 0)) break;
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_EQ(kn_set_opts(kn, "E_*", NULL), KN_OK);
}
API_RUN(streams)

static void says_what_is_wrong(kn_context *kn) {
    bool split;
    CHECK_FAILS(kn, kn_set_opts(kn, "r_*", "SPLIT:0"), KN_ERR_ARG, "kn_set_opts: options: cannot read \"SPLIT:0\"");
    CHECK_FAILS(kn, kn_set_opts(kn, "r_*", "SWAP:0:1 TURN:2"), KN_ERR_ARG, "cannot read \"TURN:2\"");
    CHECK_FAILS(kn, kn_set_opts(kn, "", "SWAP:0:1"), KN_ERR_ARG, "1 to 200 characters");
    CHECK_FAILS(kn, kn_set_opts(kn, NULL, "SWAP:0:1"), KN_ERR_ARG, "NULL");
    CHECK_EQ(kn_set_opts(NULL, "r_*", ""), KN_ERR_ARG);
    CHECK_EQ(kn_set_opts(kn, "r_*", "SPLIT:5:8:UPCAST"), KN_OK);
    CHECK_FAILS(kn, run(kn, &split), KN_ERR_ARG, "no such loop");
    CHECK_EQ(kn_set_opts(kn, "r_*", "SPLIT:2:8:UPCAST"), KN_OK);
    CHECK_FAILS(kn, run(kn, &split), KN_ERR_ARG,
                "\"r_*\" do not suit the kernel r_48_48_48: SPLIT:2:8:UPCAST: a reduction splits into");
    CHECK_EQ(kn_set_opts(kn, "r_*", "SPLIT:1:8:LOOP SWAP:0:1 SPLIT:1:8:THREAD:top STAGE:1:0"), KN_OK);
    CHECK_FAILS(kn, run(kn, &split), KN_ERR_ARG, "for each thread: STAGE:1:GLOBAL copies it first");
    CHECK_EQ(kn_set_opts(kn, "r_*", NULL), KN_OK);
    static const char *const joins[][2] = {
        {"SPLIT:1:4:UPCAST SPLIT:3:4:UNROLL JOIN:4:2",
         "only lanes, with those of an output loop, which are all of its"},
        {"SPLIT:1:4:UPCAST SPLIT:3:4:GROUP_REDUCE STAGE:1:2 JOIN:4:2", "what a stage holds is not joined"},
        {"SPLIT:1:4:UPCAST SPLIT:3:4:GROUP_REDUCE JOIN:4:2 STAGE:1:2", "what a stage holds is not joined"},
        {"SPLIT:1:4:UPCAST SPLIT:3:4:GROUP_REDUCE JOIN:4:2 SPLIT:4:2:GROUP_REDUCE", "its lanes are joined with others"},
        {"SPLIT:1:4:UPCAST SPLIT:3:4:GROUP_REDUCE JOIN:4:2 SPLIT:1:3:UPCAST", "its lanes are joined with others"},
        {"SPLIT:1:4:UPCAST SPLIT:3:4:GROUP_REDUCE JOIN:4:2 SPLIT:3:2:GROUP_REDUCE", "its lanes are joined with others"},
        {"SPLIT:1:4:UPCAST SPLIT:0:4:UPCAST JOIN:1:3 SPLIT:4:4:GROUP_REDUCE", "its lanes are joined with others"},
        {"SPLIT:1:4:UPCAST SPLIT:0:4:UPCAST JOIN:1:3 JOIN:3:1", "its lanes are joined"},
        {"SPLIT:1:4:UPCAST SPLIT:3:4:GROUP_REDUCE JOIN:4:2 CARRY:3:LOCAL", "the sum's lanes are joined with others"}};
    for (int i = 0; i < (int)(sizeof joins / sizeof *joins); i++) {
        CHECK_EQ(kn_set_opts(kn, "r_48_48_48", joins[i][0]), KN_OK);
        CHECK_FAILS(kn, run(kn, &split), KN_ERR_ARG, joins[i][1]);
    }
    CHECK_EQ(kn_set_opts(kn, "r_48_48_48", "SPLIT:1:4:UPCAST SPLIT:3:4:GROUP_REDUCE JOIN:4:2"), KN_OK);
    CHECK(run(kn, &split) > 0);
    CHECK_EQ(kn_set_opts(kn, "r_48_48_48", NULL), KN_OK);
    CHECK(run(kn, &split) > 0);
}
API_RUN(says_what_is_wrong)

static kn_status step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)user, (void)nin, (void)nout;
    out[0] = kn_matmul(in[0], in[0]);
    return KN_OK;
}

/* A captured step takes options that are set between its calls. */
static void captured(kn_context *kn) {
    kn_tensor *x = kn_from(kn, data[0], KN_F32, KN_DIMS(M, M)), *y;
    kn_jit    *j = kn_jit_new(kn, step, NULL);
    CHECK_EQ(kn_call(j, 1, &x, 1, &y), KN_OK);
    double want = kn_item(kn_sum(y));
    CHECK_EQ(kn_set_opts(kn, "r_48_48_48", "SPLIT:0:100:LOOP"), KN_OK);
    CHECK_FAILS(kn, kn_call(j, 1, &x, 1, &y), KN_ERR_ARG, "the factor must be between 1 and the loop's extent");
    CHECK_EQ(kn_set_opts(kn, "r_48_48_48", "SPLIT:0:12:LOOP"), KN_OK);
    CHECK_EQ(kn_call(j, 1, &x, 1, &y), KN_OK);
    CHECK_NEAR(kn_item(kn_sum(y)), want, 0);
    uint64_t before = schedules(kn);
    CHECK_EQ(kn_call(j, 1, &x, 1, &y), KN_OK);
    CHECK_EQ(schedules(kn), before);
}
API_RUN(captured)

static uint64_t kernels(kn_context *kn) {
    kn_stats st = {.size = sizeof st};
    CHECK_EQ(kn_get_stats(kn, &st), KN_OK);
    return st.kernels_run;
}

static double row_product(const float *a, const float *b) {
    double sum = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++)
            for (int k = 0; k < M; k++) sum += (double)a[i * M + k] * b[k * M + j];
    return sum;
}

static kn_status weighted(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    (void)kn, (void)user, (void)nin, (void)nout;
    out[0] = kn_matmul(in[0], in[1]);
    return KN_OK;
}

/* A panel of weights is copied once, and again after whatever may have changed them: a write, an assignment, another
 * tensor in their place. */
static void panels_are_kept(kn_context *kn) {
    static float other[M * M];
    for (int i = 0; i < M * M; i++) other[i] = (float)(i % 3) - 1;
    kn_tensor *x = kn_from(kn, data[0], KN_F32, KN_DIMS(M, M)), *w = kn_from(kn, data[1], KN_F32, KN_DIMS(M, M)), *y;
    kn_tensor *v = kn_from(kn, other, KN_F32, KN_DIMS(M, M));
    double     want = row_product(data[0], data[1]), now = row_product(data[0], other);
    CHECK_EQ(kn_set_opts(kn, "r_48_48_48", "SPLIT:1:16:UPCAST SPLIT:0:4:UPCAST STAGE:2:GLOBAL:0:2.4.3"), KN_OK);
    for (int way = 0; way < 2; way++) {
        kn_jit *j = way ? kn_jit_new(kn, weighted, NULL) : NULL;
        CHECK_EQ(kn_write(w, data[1], sizeof other), KN_OK);
        for (int i = 0; i < 6; i++) {
            kn_scope *s      = kn_begin(kn);
            uint64_t  before = kernels(kn);
            if (i == 3) CHECK_EQ(kn_write(w, other, sizeof other), KN_OK);
            kn_tensor *in[2] = {x, i == 5 ? v : w};
            if (j) CHECK_EQ(kn_call(j, 2, in, 1, &y), KN_OK);
            else CHECK_EQ(kn_realize(&(kn_tensor *){y = kn_matmul(in[0], in[1])}, 1), KN_OK);
            bool fresh = i == 0 || i == 3 || i == 5;
            if (!j || i > 1) CHECK_EQ(kernels(kn) - before, 1 + fresh); /* a capture's first call traces and runs */
            CHECK_NEAR(kn_item(kn_sum(y)), i < 3 ? want : now, 0);
            CHECK_EQ(kn_end(s), KN_OK);
        }
        kn_scope *s = kn_begin(kn);
        CHECK(kn_assign(w, kn_add(v, v)) != NULL);
        CHECK_EQ(kn_end(s), KN_OK);
        s = kn_begin(kn);
        CHECK_NEAR(kn_item(kn_sum(kn_matmul(x, w))), 2 * now, 0);
        CHECK_EQ(kn_end(s), KN_OK);
    }
    CHECK_EQ(kn_set_opts(kn, "r_48_48_48", NULL), KN_OK);
}
API_RUN(panels_are_kept)

int main(void) {
    RUN(reaches_kernels_on_each_device);
    RUN(streams_on_each_device);
    RUN(says_what_is_wrong_on_each_device);
    RUN(captured_on_each_device);
    RUN(panels_are_kept_on_each_device);
    return check_result();
}
