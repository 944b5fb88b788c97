/* Random tensors: the stream itself, moments, seeds, and the same bits on every device. */
#include "dialect/uop.h"
#include "koine.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 20000 };
static const char *const devices[] = {"INTERP", "CPU"};

static kn_context *open_on(const char *device, uint64_t seed) {
    return kn_open(&(kn_config){.device = device, .seed = seed, .size = sizeof(kn_config)});
}

static bool values(kn_tensor *t, float *out, int64_t n) {
    kn_status st = kn_read(t, KN_F32, out, (size_t)n * sizeof *out);
    if (st != KN_OK) printf("%s: %s\n", kn_status_name(st), kn_error(kn_context_of(t)));
    return st == KN_OK;
}

static void the_stream(void) {
    for (int d = 0; d < KN_COUNT(devices); d++) {
        kn_context *kn = open_on(devices[d], 42);
        float       got[7];
        for (uint64_t draw = 0; draw < 3; draw++) {
            uint64_t key = kn_threefry2x32(draw, 42);
            CHECK(values(kn_rand(kn, KN_DIMS(7)), got, 7));
            for (uint64_t e = 0; e < 7; e++) {
                uint32_t word = (uint32_t)(kn_threefry2x32(e / 2, key) >> (e % 2 * 32));
                CHECK(got[e] == (float)(word >> 8) * 0x1p-24f);
            }
        }
        kn_close(kn);
    }
}

/* The bounds are some five standard deviations wide. */
static void moments(void) {
    kn_context *kn = open_on("CPU", 1);
    float      *x = malloc(N * sizeof *x);
    double      m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0, top = 0;
    bool        inside = true;
    if (!CHECK(x && values(kn_rand(kn, KN_DIMS(N)), x, N))) goto done;
    for (int i = 0; i < N; i++) {
        inside &= x[i] >= 0 && x[i] < 1;
        m1 += x[i], m2 += (x[i] - 0.5) * (x[i] - 0.5);
        if (i) lag += (x[i] - 0.5) * (x[i - 1] - 0.5);
    }
    CHECK(inside);
    CHECK_NEAR(m1 / N, 0.5, 0.01);
    CHECK_NEAR(m2 / N, 1.0 / 12, 0.003);
    CHECK_NEAR(lag / N, 0, 0.003);
    CHECK(values(kn_randn(kn, KN_DIMS(N / 4, 4)), x, N));
    m1 = m2 = 0;
    for (int i = 0; i < N; i++) m1 += x[i], m2 += x[i] * x[i], m3 += pow(x[i], 3), m4 += pow(x[i], 4);
    CHECK_NEAR(m1 / N, 0, 0.04);
    CHECK_NEAR(m2 / N, 1, 0.05);
    CHECK_NEAR(m3 / N, 0, 0.12);
    CHECK_NEAR(m4 / N, 3, 0.1);
    double bound = sqrt(6.0 / 100);
    CHECK(values(kn_kaiming_uniform(kn, KN_DIMS(100, 200)), x, N));
    for (int i = 0; i < N; i++) top = fmax(top, fabs(x[i]));
    CHECK(top <= bound * (1 + 1e-6) && top > 0.99 * bound);
    bound = sqrt(6.0 / (5 * 5 * 4)); /* a convolution's (out, in, h, w) */
    CHECK(values(kn_kaiming_uniform(kn, KN_DIMS(200, 4, 5, 5)), x, N));
    top = 0;
    for (int i = 0; i < N; i++) top = fmax(top, fabs(x[i]));
    CHECK(top <= bound * (1 + 1e-6) && top > 0.99 * bound);
done:
    free(x);
    kn_close(kn);
}

static void seeds(void) {
    kn_context *a = open_on("CPU", 7), *b = open_on("CPU", 7), *c = open_on("CPU", 8);
    float       x[4][40];
    CHECK(values(kn_rand(a, KN_DIMS(8, 5)), x[0], 40));
    CHECK(values(kn_rand(b, KN_DIMS(8, 5)), x[1], 40));
    CHECK(values(kn_rand(c, KN_DIMS(8, 5)), x[2], 40));
    CHECK(values(kn_rand(a, KN_DIMS(8, 5)), x[3], 40));
    CHECK(!memcmp(x[0], x[1], sizeof x[0]));
    CHECK(memcmp(x[0], x[2], sizeof x[0]) != 0);
    CHECK(memcmp(x[0], x[3], sizeof x[0]) != 0); /* each call draws anew */
    kn_seed(a, 7);
    CHECK(values(kn_rand(a, KN_DIMS(20)), x[3], 20));
    CHECK(!memcmp(x[0], x[3], 20 * sizeof(float))); /* a shorter draw begins a longer one */
    kn_scope  *s = kn_begin(a);
    kn_tensor *t = kn_randn(a, KN_DIMS(9));
    CHECK(values(t, x[0], 9) && values(t, x[1], 9));
    CHECK(!memcmp(x[0], x[1], 9 * sizeof(float)));
    kn_keep(t);
    CHECK_EQ(kn_end(s), KN_OK);
    CHECK(values(t, x[1], 9));
    CHECK(!memcmp(x[0], x[1], 9 * sizeof(float)));
    kn_close(a);
    kn_close(b);
    kn_close(c);
}

static void devices_agree(void) {
    float x[2][2][100];
    for (int d = 0; d < 2; d++) {
        kn_context *kn = open_on(devices[d], 3);
        CHECK(values(kn_rand(kn, KN_DIMS(100)), x[d][0], 100));
        CHECK(values(kn_randn(kn, KN_DIMS(100)), x[d][1], 100));
        kn_close(kn);
    }
    CHECK(!memcmp(x[0][0], x[1][0], sizeof x[0][0]));
    for (int i = 0; i < 100; i++) CHECK_NEAR(x[1][1][i], x[0][1][i], 1e-5);
}

static void same_form_compiled_once(void) {
    kn_context *kn = open_on("CPU", 0);
    kn_stats    before = {.size = sizeof before}, after = {.size = sizeof after};
    float       x[64];
    CHECK(values(kn_randn(kn, KN_DIMS(64)), x, 64));
    CHECK_EQ(kn_get_stats(kn, &before), KN_OK);
    for (int i = 0; i < 3; i++) CHECK(values(kn_randn(kn, KN_DIMS(64)), x, 64));
    CHECK_EQ(kn_get_stats(kn, &after), KN_OK);
    CHECK_EQ(after.schedules, before.schedules);
    kn_close(kn);
}

static void misuse(void) {
    kn_context *kn = open_on("CPU", 0);
    CHECK(kn_rand(NULL, KN_DIMS(3)) == NULL);
    kn_seed(NULL, 1);
    CHECK(!kn_ok(kn_rand(kn, KN_DIMS(3, -1))));
    CHECK_EQ(kn_error_code(kn), KN_ERR_SHAPE);
    CHECK(strstr(kn_error(kn), "kn_rand") != NULL);
    kn_clear_error(kn);
    CHECK(!kn_ok(kn_randn(kn, NULL, 2)));
    CHECK_EQ(kn_error_code(kn), KN_ERR_ARG);
    kn_clear_error(kn);
    CHECK_EQ(kn_numel(kn_rand(kn, KN_DIMS(3, 0))), 0);
    CHECK_EQ(kn_rank(kn_rand(kn, NULL, 0)), 0);
    CHECK_EQ(kn_numel(kn_kaiming_uniform(kn, KN_DIMS(0, 4))), 0);
    CHECK_EQ(kn_error_code(kn), KN_OK);
    kn_close(kn);
}

int main(void) {
    RUN(the_stream);
    RUN(moments);
    RUN(seeds);
    RUN(devices_agree);
    RUN(same_form_compiled_once);
    RUN(misuse);
    return check_result();
}
