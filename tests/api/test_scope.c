/* Scopes, state and errors: who lives how long, which value a reader sees, what an error says, and that a loop of
 * steps neither grows nor schedules anew. */
#include "api.h"

static kn_stats stats_of(kn_context *kn) {
    kn_stats s = {.size = sizeof s};
    CHECK_EQ(kn_get_stats(kn, &s), KN_OK);
    return s;
}

static void lifetimes(kn_context *kn) {
    kn_tensor *x = F32S(kn, 1, 2, 3);
    kn_scope  *s = kn_begin(kn);
    kn_tensor *a = kn_mul_s(x, 2), *b = kn_keep(kn_add_s(a, 1));
    CHECK(kn_ok(a) && kn_ok(b));
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK(!kn_ok(a));
    CHECK(kn_ok(b) && kn_ok(x));
    CHECK_VALUES(b, 3, 5, 7);
    CHECK_FAILS(kn, kn_add(a, x), KN_ERR_STATE, "kn_add: the scope of a tensor has ended");
    CHECK_EQ(kn_rank(a), -1);
    CHECK(isnan(kn_item(a)));
    CHECK_EQ(kn_error_code(kn), KN_ERR_STATE);
    kn_clear_error(kn);
    CHECK_EQ(kn_end(s), KN_ERR_STATE);
    CHECK_EQ(kn_end(NULL), KN_ERR_ARG);

    /* One scope out at a time; an outer end ends inner scopes. */
    kn_scope  *outer = kn_begin(kn), *inner = kn_begin(kn);
    kn_tensor *c = kn_keep(kn_neg(x)), *d = kn_keep(kn_keep(kn_abs(x)));
    CHECK_EQ(kn_end(inner), KN_OK);
    CHECK_VALUES(c, -1, -2, -3);
    kn_keep(d);
    kn_scope  *open = kn_begin(kn);
    kn_tensor *e    = kn_keep(kn_square(x));
    CHECK_EQ(kn_end(outer), KN_OK);
    CHECK(!kn_ok(c) && kn_ok(d) && !kn_ok(e));
    CHECK_EQ(kn_end(open), KN_ERR_STATE);
    CHECK_VALUES(d, 1, 2, 3);

    /* Handles are told apart through many reuses. */
    kn_tensor *old = NULL;
    for (int i = 0; i < 40; i++) {
        s   = kn_begin(kn);
        old = old ? old : kn_neg(x);
        for (int k = 0; k < 100; k++) kn_add_s(x, k);
        CHECK_EQ(kn_end(s), KN_OK);
        CHECK(!kn_ok(old));
    }
    CHECK_VALUES(kn_neg(x), -1, -2, -3);
}

static void realizing(kn_context *kn) {
    kn_tensor *x = F32S(kn, 1, 2, 3), *y = kn_mul_s(x, 2), *z = kn_add(y, x);
    CHECK_EQ(kn_realize((kn_tensor *[]){y, z}, 2), KN_OK);
    uint64_t before = stats_of(kn).kernels_run;
    CHECK_VALUES(y, 2, 4, 6);
    CHECK_VALUES(z, 3, 6, 9);
    CHECK_EQ(stats_of(kn).kernels_run, before);
    CHECK_VALUES(kn_sub(z, y), 1, 2, 3);
    CHECK_EQ(kn_realize(NULL, 0), KN_OK);
    CHECK_EQ(kn_realize(&(kn_tensor *){NULL}, 1), KN_ERR_ARG);
    float one[2];
    CHECK_FAILS(kn, kn_read(x, KN_F32, one, sizeof one), KN_ERR_ARG,
                "kn_read: 3 elements of f32 need 12 bytes, dst has 8");
    CHECK_FAILS(kn, kn_read(x, KN_VOID, one, sizeof one), KN_ERR_DTYPE, "kn_read");
    CHECK_FAILS(kn, kn_item(x), KN_ERR_SHAPE, "kn_item: (3) is not one element");
    int8_t narrow[3];
    CHECK_EQ(kn_read(kn_mul_s(x, 100), KN_I8, narrow, sizeof narrow), KN_OK);
    CHECK_EQ(narrow[0], 100);
    CHECK_EQ(narrow[2], 127);
}

/* Whoever read before an assignment or a write keeps the old value, whoever reads after gets the new one. */
static void assigning(kn_context *kn) {
    kn_tensor *w = F32S(kn, 1, 2, 3), *outer = kn_mul_s(w, 10);
    kn_scope  *s      = kn_begin(kn);
    kn_tensor *before = kn_add_s(w, 0.5), *kept = kn_keep(kn_sub_s(w, 1));
    CHECK(kn_assign(w, kn_mul_s(w, 2)) == w);
    kn_tensor *after = kn_keep(kn_add_s(w, 0.5));
    CHECK_VALUES(before, 1.5, 2.5, 3.5);
    kn_assign(w, kn_add_s(w, 1)); /* assignments chain */
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_VALUES(w, 3, 5, 7);
    CHECK_VALUES(kept, 0, 1, 2);
    CHECK_VALUES(after, 2.5, 4.5, 6.5);
    CHECK_VALUES(outer, 10, 20, 30);

    /* The same expression again means the new contents. */
    for (int i = 0; i < 3; i++) {
        s               = kn_begin(kn);
        kn_tensor *read = kn_keep(kn_mul_s(w, 10));
        kn_assign(w, kn_add_s(w, 1));
        CHECK_EQ(kn_end(s), KN_OK);
        CHECK_VALUES(read, 30 + 10 * i, 50 + 10 * i, 70 + 10 * i);
    }
    CHECK_VALUES(w, 6, 8, 10);
    CHECK_VALUES(kn_mul_s(w, 10), 60, 80, 100);

    /* A value assigned unchanged, a swap, a cast, storage shared by two handles. */
    kn_tensor *u = kn_zeros(kn, KN_I32, KN_DIMS(3)), *v = kn_ones(kn, KN_F32, KN_DIMS(3));
    s = kn_begin(kn);
    kn_assign(u, kn_add_s(w, 0.75));
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_VALUES(u, 6, 8, 10);
    s            = kn_begin(kn);
    kn_tensor *t = kn_keep(kn_mul_s(w, 1.5));
    kn_assign(w, v);
    kn_assign(v, t);
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_VALUES(w, 1, 1, 1);
    CHECK_VALUES(v, 9, 12, 15);
    s = kn_begin(kn);
    kn_assign(v, kn_neg(v));
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_VALUES(v, -9, -12, -15);
    CHECK_VALUES(t, 9, 12, 15);
    kn_tensor *p = kn_mul_s(w, 3), *q = kn_mul_s(w, 3);
    CHECK_EQ(kn_realize((kn_tensor *[]){p, q}, 2), KN_OK);
    kn_assign(p, kn_add_s(p, 1));
    kn_assign(q, kn_sub_s(q, 1));
    CHECK_VALUES(p, 4, 4, 4);
    CHECK_VALUES(q, 2, 2, 2);

    s = kn_begin(kn);
    p = kn_keep(kn_mul_s(w, 5)), q = kn_keep(kn_mul_s(w, 5));
    CHECK_EQ(kn_end(s), KN_OK); /* one value, two handles */
    s = kn_begin(kn);
    kn_assign(p, kn_add_s(p, 1));
    kn_assign(q, kn_sub_s(q, 1));
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_VALUES(p, 6, 6, 6);
    CHECK_VALUES(q, 4, 4, 4);

    /* Within one scope, too, what was computed before an assignment is not taken for what comes after. */
    kn_tensor *z = F32S(kn, 1, 2, 3), *z9 = NULL;
    s = kn_begin(kn);
    z9 = kn_mul_s(z, 9);
    kn_assign(z, kn_from(kn, (const float[]){5, 6, 7}, KN_F32, KN_DIMS(3)));
    CHECK_EQ(kn_realize((kn_tensor *[]){z9, z}, 2), KN_OK);
    CHECK_VALUES(z9, 9, 18, 27);
    CHECK_VALUES(kn_mul_s(z, 9), 45, 54, 63);
    CHECK_EQ(kn_end(s), KN_OK);
    s  = kn_begin(kn);
    z9 = kn_add_s(z, 1);
    kn_assign(z, z9);
    CHECK_EQ(kn_realize((kn_tensor *[]){z, z9}, 2), KN_OK);
    CHECK_VALUES(z9, 6, 7, 8);
    CHECK_VALUES(z, 6, 7, 8);
    CHECK_VALUES(kn_add_s(z, 1), 7, 8, 9);
    CHECK_EQ(kn_end(s), KN_OK);

    /* Without scopes a reader of the tensor brings the assignment about. */
    kn_tensor *sum = kn_scalar_f32(kn, 0);
    for (int i = 1; i <= 5; i++) kn_assign(sum, kn_add_s(sum, i));
    CHECK_NEAR(kn_item(kn_mul_s(sum, 1)), 15, 0);
    CHECK_NEAR(kn_item(sum), 15, 0);

    CHECK_FAILS(kn, kn_assign(kn_rows(w, 0, 1), F32S(kn, 1)), KN_ERR_STATE, "kn_assign: the tensor is a view");
    CHECK_FAILS(kn, kn_assign(w, F32S(kn, 1)), KN_ERR_SHAPE, "kn_assign: the tensor is (3), the value (1)");
}

static void writing(kn_context *kn) {
    float      lent[3] = {1, 2, 3}, next[3] = {4, 5, 6};
    kn_tensor *x = F32S(kn, 1, 2, 3), *lazy = kn_mul_s(x, 2), *view = kn_reshape(x, KN_DIMS(3, 1));
    CHECK_EQ(kn_write(x, next, sizeof next), KN_OK);
    CHECK_VALUES(x, 4, 5, 6);
    CHECK_VALUES(lazy, 2, 4, 6);
    CHECK_VALUES(view, 1, 2, 3);
    CHECK_VALUES(kn_mul_s(x, 2), 8, 10, 12);
    kn_tensor *w = kn_wrap(kn, lent, KN_F32, KN_DIMS(3));
    CHECK_EQ(kn_write(w, next, sizeof next), KN_OK);
    CHECK_VALUES(w, 4, 5, 6);
    kn_tensor *l = kn_wrap(kn, lent, KN_F32, KN_DIMS(3));
    kn_scope  *s = kn_begin(kn);
    kn_assign(l, kn_neg(l));
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_VALUES(l, -1, -2, -3);
    CHECK(lent[0] == 1);
    /* Nodes already computed from the old contents are not believed after a write. */
    s = kn_begin(kn);
    CHECK_NEAR(kn_item(kn_sum(x)), 15, 0);
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_EQ(kn_write(x, lent, sizeof lent), KN_OK);
    CHECK_NEAR(kn_item(kn_sum(x)), 6, 0);
    CHECK_FAILS(kn, kn_write(x, lent, 4), KN_ERR_ARG, "kn_write: (3) of f32 is 12 bytes, 4 given");
    CHECK_FAILS(kn, kn_write(lazy, NULL, 12), KN_ERR_ARG, "kn_write: src is NULL");
    CHECK_FAILS(kn, kn_write(kn_rows(x, 0, 2), lent, 8), KN_ERR_STATE, "kn_write: the tensor is a view");
}

/* A step like those of training: batches are written, parameters and sums assigned, one result is kept. */
static kn_status step(kn_context *kn, kn_tensor *x, kn_tensor *w, kn_tensor *total, int i, double *loss) {
    float batch[4] = {(float)i, 1, 2, 3};
    CHECK_EQ(kn_write(x, batch, sizeof batch), KN_OK);
    kn_scope  *s = kn_begin(kn);
    kn_tensor *y = kn_matmul(kn_reshape(x, KN_DIMS(2, 2)), w), *l = kn_keep(kn_mean(kn_square(y)));
    kn_assign(w, kn_sub(w, kn_mul_s(kn_mul(w, l), 0.001)));
    kn_assign(total, kn_add(total, l));
    kn_status code = kn_end(s);
    *loss          = kn_item(l);
    return code;
}

static void steady_state(kn_context *kn) {
    kn_tensor *x     = kn_empty(kn, KN_F32, KN_DIMS(4)),
              *w     = kn_from(kn, (const float[]){1, 2, 3, 4}, KN_F32, KN_DIMS(2, 2));
    kn_tensor *total = kn_scalar_f32(kn, 0);
    double     rw[4] = {1, 2, 3, 4}, rtotal = 0;
    kn_stats   then = stats_of(kn);
    for (int i = 0; i < 30; i++) {
        kn_scope *s = kn_begin(kn);
        double    loss, xs[4] = {i, 1, 2, 3}, l = 0;
        CHECK_EQ(step(kn, x, w, total, i, &loss), KN_OK);
        CHECK_EQ(kn_end(s), KN_OK);
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < 2; c++) {
                double y = xs[2 * r] * rw[c] + xs[2 * r + 1] * rw[2 + c];
                l += y * y / 4;
            }
        CHECK_NEAR(loss, l, 1e-5);
        for (int k = 0; k < 4; k++) rw[k] -= 0.001 * rw[k] * l;
        rtotal += l;
        if (i == 2) then = stats_of(kn);
    }
    kn_stats now = stats_of(kn);
    CHECK_EQ(now.schedules, then.schedules);
    CHECK_EQ(now.kernels_compiled, then.kernels_compiled);
    CHECK_EQ(now.buffer_bytes, then.buffer_bytes);
    CHECK_NEAR(kn_item(total), rtotal, 1e-4);
    for (int k = 0; k < 4; k++) CHECK_NEAR(kn_item(kn_rows(kn_flatten(w, 0), k, 1)), rw[k], 1e-4);
}

static void schedules_once(kn_context *kn) {
    kn_tensor *x = F32S(kn, 1, 2, 3);
    kn_stats   first = {0}, last;
    for (int i = 0; i < 5; i++) {
        kn_scope *s = kn_begin(kn);
        CHECK_NEAR(kn_item(kn_sum(kn_mul(x, x))), 14, 0);
        CHECK_EQ(kn_end(s), KN_OK);
        if (i == 0) first = stats_of(kn);
    }
    last = stats_of(kn);
    CHECK_EQ(last.schedules, first.schedules);
    CHECK_EQ(last.schedule_hits - first.schedule_hits, 4);
    kn_stats wrong = {.size = 1};
    CHECK_FAILS(kn, kn_get_stats(kn, &wrong), KN_ERR_ARG, ".size");
}

/* Values of nodes that the graph's compaction moved. */
static void compaction(kn_context *kn) {
    kn_tensor *x = F32S(kn, 1, 2, 3), *lazy = kn_mul_s(x, 7), *known = kn_add_s(x, 1), *over = kn_mul_s(known, 2);
    CHECK_VALUES(known, 2, 3, 4);
    for (int round = 0; round < 2; round++) {
        kn_scope  *s = kn_begin(kn);
        kn_tensor *y = x;
        for (int i = 0; i < 9000; i++) y = kn_add_s(y, 1 + round * 10000 + i); /* never run */
        CHECK(kn_ok(y));
        CHECK_EQ(kn_end(s), KN_OK);
        CHECK_VALUES(kn_add(lazy, x), 8, 16, 24);
    }
    CHECK_VALUES(lazy, 7, 14, 21);
    CHECK_VALUES(over, 4, 6, 8);
    kn_assign(x, over);
    CHECK_VALUES(x, 4, 6, 8);
    CHECK_VALUES(kn_mul_s(x, 7), 28, 42, 56);
    CHECK_VALUES(lazy, 7, 14, 21);
}

static void errors(kn_context *kn) {
    kn_tensor *a = kn_zeros(kn, KN_F32, KN_DIMS(64, 784)), *b = kn_zeros(kn, KN_F32, KN_DIMS(100, 10));
    kn_scope  *s = kn_begin(kn);
    kn_tensor *kept = kn_keep(kn_add_s(kn_sum(b), 1)), *w = kn_assign(kn_contiguous(b), kn_add_s(b, 1));
    CHECK(w != NULL);
    int        line = __LINE__ + 1;
    kn_tensor *bad  = kn_matmul(a, b);
    char       want[400];
    snprintf(want, sizeof want, "%s:%d: kn_matmul: (64,784) x (100,10): inner sizes differ", __FILE__, line);
    CHECK_STR(kn_error(kn), want);
    CHECK(!kn_ok(bad));
    CHECK_EQ(kn_rank(bad), -1);
    CHECK_EQ(kn_dtype_of(bad), KN_VOID);
    CHECK(kn_context_of(bad) == kn);
    kn_tensor *later = kn_relu(kn_add(bad, b)); /* passes it on: the first error stays */
    CHECK(!kn_ok(later));
    kn_add(a, b);
    CHECK_STR(kn_error(kn), want);
    CHECK_EQ(kn_error_code(kn), KN_ERR_SHAPE);
    CHECK_EQ(kn_read(later, KN_F32, NULL, 0), KN_ERR_SHAPE);
    CHECK_EQ(kn_end(s), KN_ERR_SHAPE);
    CHECK_STR(kn_error(kn), want); /* readable behind kn_end */
    CHECK_EQ(kn_error_code(kn), KN_OK);
    CHECK_NEAR(kn_item(kept), 1, 0);
    s = kn_begin(kn);
    CHECK_STR(kn_error(kn), "");
    CHECK_FAILS(kn, kn_relu(bad), KN_ERR_ARG, "an operand is the result of a call that failed");
    CHECK_FAILS(kn, kn_add(a, NULL), KN_ERR_ARG, "kn_add: a tensor is NULL");
    CHECK(kn_relu(NULL) == NULL);
    CHECK(kn_add(NULL, NULL) == NULL);
    CHECK(isnan(kn_item(NULL)));
    CHECK_EQ(kn_read(NULL, KN_F32, NULL, 0), KN_ERR_ARG);
    CHECK_EQ(kn_write(NULL, NULL, 0), KN_ERR_ARG);
    CHECK_EQ(kn_dump(NULL, "tensor", stdout), KN_ERR_ARG);
    CHECK(kn_keep(NULL) == NULL && kn_assign(NULL, NULL) == NULL && kn_here(NULL, "", 0) == NULL);
    CHECK(kn_zeros(NULL, KN_F32, NULL, 0) == NULL && kn_begin(NULL) == NULL);
    CHECK_EQ(kn_rank(NULL), -1);
    CHECK_EQ(kn_end(s), KN_OK);
    /* The plain function leaves no line, and a later call does not lend it its own. */
    kn_relu((kn_matmul)(a, b));
    CHECK_STR(kn_error(kn), "kn_matmul: (64,784) x (100,10): inner sizes differ");
    kn_clear_error(kn);

    /* After an error the scope's assignments do not happen. */
    kn_tensor *x = F32S(kn, 1, 2);
    s            = kn_begin(kn);
    kn_assign(x, kn_mul_s(x, 2));
    kn_matmul(a, b);
    CHECK_EQ(kn_end(s), KN_ERR_SHAPE);
    CHECK_VALUES(x, 1, 2);
    kn_clear_error(kn);

    kn_context *other = api_open("INTERP");
    kn_tensor  *y     = F32S(other, 1, 2);
    CHECK_FAILS(kn, kn_add(x, y), KN_ERR_ARG, "kn_add: tensors of different contexts");
    CHECK_FAILS(kn, kn_realize((kn_tensor *[]){x, y}, 2), KN_ERR_ARG, "different contexts");
    kn_close(other);
}

static void dumping(kn_context *kn) {
    FILE *f = tmpfile();
    if (!CHECK(f != NULL)) return;
    kn_tensor *x = kn_add_s(F32S(kn, 1, 2), 3);
    CHECK_EQ(kn_dump(x, "tensor", f), KN_OK);
    CHECK(ftell(f) > 0);
    rewind(f);
    char text[4096];
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n]  = 0;
    CHECK(strstr(text, "ADD") != NULL);
    CHECK_FAILS(kn, kn_dump(x, NULL, f), KN_ERR_ARG, "kn_dump");
    fclose(f);
}

static void opening(void) {
    kn_config cfg = {.device = "ABACUS", .size = sizeof cfg};
    kn_context *kn = kn_open(&cfg);
    CHECK_EQ(kn_error_code(kn), KN_ERR_DEVICE);
    CHECK(strstr(kn_error(kn), "ABACUS") != NULL);
    kn_clear_error(kn);
    CHECK_FAILS(kn, kn_zeros(kn, KN_F32, NULL, 0), KN_ERR_DEVICE, "ABACUS");
    kn_scope *s = kn_begin(kn);
    F32S(kn, 1);
    CHECK_EQ(kn_end(s), KN_ERR_DEVICE);
    kn_close(kn);
    cfg.size = 3;
    CHECK(kn_open(&cfg) == NULL);
    kn_close(NULL);
    CHECK_STR(kn_error(NULL), "kn_error: the context is NULL");
    CHECK_EQ(kn_version(), KN_VERSION_MAJOR * 10000 + KN_VERSION_MINOR * 100 + KN_VERSION_PATCH);
    CHECK_STR(kn_status_name(KN_ERR_SHAPE), "KN_ERR_SHAPE");
    CHECK_STR(kn_status_name(KN_ERR_INTERNAL), "KN_ERR_INTERNAL");
    CHECK_STR(kn_status_name((kn_status)99), "unknown status");
    CHECK_STR(kn_dtype_name(KN_BF16), "bf16");
    CHECK_STR(kn_dtype_name((kn_dtype)-1), "unknown");
    kn_cancel(NULL);
}

API_RUN(lifetimes)
API_RUN(realizing)
API_RUN(assigning)
API_RUN(writing)
API_RUN(steady_state)
API_RUN(schedules_once)
API_RUN(compaction)
API_RUN(errors)
API_RUN(dumping)

int main(void) {
    RUN(opening);
    RUN(lifetimes_on_each_device);
    RUN(realizing_on_each_device);
    RUN(assigning_on_each_device);
    RUN(writing_on_each_device);
    RUN(steady_state_on_each_device);
    RUN(schedules_once_on_each_device);
    RUN(compaction_on_each_device);
    RUN(errors_on_each_device);
    RUN(dumping_on_each_device);
    return check_result();
}
