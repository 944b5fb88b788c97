/* Mapped files as tensors, read and written; and what a file that is not as said gives. */
#include "api.h"

static const char path[] = "api_disk.bin";

static void put(const void *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    if (CHECK(f != NULL)) {
        CHECK_EQ(fwrite(data, 1, bytes, f), bytes);
        fclose(f);
    }
}

static size_t get(float *to, size_t n) {
    FILE  *f   = fopen(path, "rb");
    size_t got = f ? fread(to, sizeof *to, n, f) : 0;
    if (f) fclose(f);
    return got;
}

static void reading(kn_context *kn) {
    put((float[]){1, 2, 3, 4, 5, 6}, 24);
    kn_tensor *all  = kn_map(kn, path, KN_F32, KN_DIMS(3, 2)),
              *some = kn_map(kn, path, KN_F32, KN_DIMS(2), .offset = 12);
    CHECK_VALUES(all, 1, 2, 3, 4, 5, 6);
    CHECK_VALUES(kn_add(some, kn_rows(all, 2, 1)), 9, 11);
    kn_tensor *rest = kn_map(kn, "DISK:api_disk.bin", KN_F32, KN_DIMS(-1, 2), .offset = 8);
    CHECK_SHAPE(rest, 2, 2);
    CHECK_VALUES(kn_sum(rest, .axes = KN_AXES(0)), 8, 10);
    CHECK_VALUES(kn_map(kn, path, KN_U8, KN_DIMS(2), .offset = 3), 63, 0);
    /* Not writable: what changes is a copy. */
    CHECK_EQ(kn_write(some, (float[]){8, 9}, 8), KN_OK);
    kn_assign(all, kn_neg(all));
    CHECK_VALUES(some, 8, 9);
    CHECK_VALUES(all, -1, -2, -3, -4, -5, -6);
    float back[8];
    CHECK_EQ(get(back, 8), 6);
    CHECK_NEAR(back[3], 4, 0);
    CHECK_SHAPE(kn_map(kn, path, KN_F32, KN_DIMS(0, 4)), 0, 4);
}
API_RUN(reading)

static void writing(kn_context *kn) {
    float back[8] = {0};
    put((float[]){1, 2, 3, 4}, 16);
    kn_scope  *s = kn_begin(kn);
    kn_tensor *t = kn_map(kn, path, KN_F32, KN_DIMS(2), .offset = 4, .writable = 1);
    kn_assign(t, kn_mul_s(t, 10));
    CHECK_VALUES(t, 20, 30);
    kn_tensor *lazy = kn_add_s(t, 1);
    kn_tensor *view = kn_flatten(kn_reshape(t, KN_DIMS(2, 1)), 0), *row = kn_rows(t, 1, 1);
    CHECK_EQ(get(back, 4), 4);
    CHECK_NEAR(back[2], 30, 0);
    kn_assign(t, kn_mul_s(t, 2)); /* a file stays where it is: its readers are computed before */
    CHECK_VALUES(t, 40, 60);
    CHECK_VALUES(lazy, 21, 31);
    CHECK_VALUES(view, 20, 30);
    CHECK_VALUES(row, 30);
    CHECK_EQ(get(back, 4), 4);
    CHECK_NEAR(back[2], 60, 0);
    lazy = kn_add_s(t, 1), view = kn_reshape(t, KN_DIMS(2, 1));
    kn_assign(t, lazy);
    kn_write(t, (float[]){7, 8}, 8);
    CHECK_VALUES(lazy, 41, 61);
    CHECK_VALUES(view, 40, 60);
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_EQ(get(back, 8), 4);
    CHECK_NEAR(back[0], 1, 0);
    CHECK_NEAR(back[1], 7, 0);
    CHECK_NEAR(back[2], 8, 0);
    CHECK_NEAR(back[3], 4, 0);
    s = kn_begin(kn);
    t = kn_map(kn, path, KN_F32, KN_DIMS(2), .offset = 24, .create = 1); /* longer */
    kn_assign(t, kn_ones(kn, KN_F32, KN_DIMS(2)));
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK_EQ(get(back, 8), 8);
    CHECK_NEAR(back[5], 0, 0);
    CHECK_NEAR(back[7], 1, 0);
    remove(path);
    CHECK_VALUES(kn_map(kn, path, KN_F32, KN_DIMS(3), .create = 1), 0, 0, 0);
    CHECK_EQ(get(back, 8), 3);
}
API_RUN(writing)

static void failing(kn_context *kn) {
    put((float[]){1, 2, 3}, 12);
    CHECK_FAILS(kn, kn_map(kn, "api_no_such.bin", KN_F32, KN_DIMS(2)), KN_ERR_IO, "api_no_such.bin: cannot open");
    CHECK_FAILS(kn, kn_map(kn, "api_no_such.bin", KN_F32, KN_DIMS(-1)), KN_ERR_IO, "api_no_such.bin: cannot open");
    CHECK_FAILS(kn, kn_map(kn, path, KN_F32, KN_DIMS(4)), KN_ERR_IO, "the file has 12 bytes, 16 are needed");
    CHECK_FAILS(kn, kn_map(kn, path, KN_F32, KN_DIMS(2), .offset = 8), KN_ERR_IO, "8 from byte 8 on");
    CHECK_FAILS(kn, kn_map(kn, path, KN_F32, KN_DIMS(-1, 2)), KN_ERR_IO, "no whole number of rows");
    CHECK_FAILS(kn, kn_map(kn, path, KN_F32, KN_DIMS(-1, -1)), KN_ERR_SHAPE, "only one size");
    CHECK_FAILS(kn, kn_map(kn, path, KN_F32, KN_DIMS(1), .offset = 2), KN_ERR_ARG, "a multiple of the 4 bytes");
    CHECK_FAILS(kn, kn_map(kn, path, KN_F32, KN_DIMS(1), .offset = -4), KN_ERR_ARG, "an offset of -4");
    CHECK_FAILS(kn, kn_map(kn, path, KN_F32, KN_DIMS(INT64_MAX, 4)), KN_ERR_SHAPE, "too many elements");
    CHECK_FAILS(kn, kn_map(kn, NULL, KN_F32, KN_DIMS(1)), KN_ERR_ARG, "path is NULL");
    CHECK_FAILS(kn, kn_map(kn, "/", KN_U8, KN_DIMS(1)), KN_ERR_IO, "/: is no regular file");
    CHECK_FAILS(kn, kn_map(kn, path, KN_INDEX, KN_DIMS(1)), KN_ERR_DTYPE, "kn_map");
    CHECK_FAILS(kn, kn_map(kn, path, KN_F32, NULL, 1), KN_ERR_ARG, "dims is NULL");
    CHECK(!(kn_map_opt)(NULL, path, KN_F32, NULL, 0, NULL));
    kn_config   cfg = {.device = "DISK:/tmp", .size = sizeof cfg};
    kn_context *bad = kn_open(&cfg);
    CHECK_FAILS(bad, 0, KN_ERR_DEVICE, "computes nothing");
    kn_close(bad);
    remove(path);
}
API_RUN(failing)

/* A mapped data set through a captured step. */
static kn_status scaled(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    kn_tensor *state = user;
    (void)kn, (void)nin, (void)nout;
    kn_assign(state, kn_add(state, in[0]));
    out[0] = kn_sum(in[0]);
    return KN_OK;
}

static void steps(kn_context *kn) {
    float back[2];
    put((float[]){0, 0}, 8);
    kn_tensor *state = kn_map(kn, path, KN_F32, KN_DIMS(2), .writable = 1), *x = F32S(kn, 1, 2, 3, 4, 5, 6), *out;
    kn_jit    *j = kn_jit_new(kn, scaled, state);
    for (int i = 0; i < 3; i++) {
        kn_tensor *in = kn_rows(x, 2 * i, 2);
        CHECK_EQ(kn_call(j, 1, &in, 1, &out), KN_OK);
        CHECK_NEAR(kn_item(out), 4 * i + 3, 1e-6);
    }
    CHECK_EQ(get(back, 2), 2);
    CHECK_NEAR(back[0], 9, 0);
    CHECK_NEAR(back[1], 12, 0);
    remove(path);
}
API_RUN(steps)

int main(void) {
    RUN(reading_on_each_device);
    RUN(writing_on_each_device);
    RUN(failing_on_each_device);
    RUN(steps_on_each_device);
    return check_result();
}
