/* api.h - what the tests of the public API share: every test runs on every device that computes. */
#ifndef KN_TEST_API_H
#define KN_TEST_API_H

#include "koine.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>

static inline kn_context *api_open(const char *device) {
    kn_config   cfg = {.device = device, .threads = 2, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    CHECK(kn != NULL);
    CHECK_STR(kn_error(kn), "");
    return kn;
}

/* Runs test(kn) on a context of each device; nothing may be left in kn_error but what the test cleared. */
static inline void api_each(void (*test)(kn_context *kn)) {
    for (const char *const *d = kn_devices(); *d; d++) {
        if (!strcmp(*d, "NULL") || !strcmp(*d, "DISK")) continue; /* they compute nothing */
        kn_context *kn = api_open(*d);
        test(kn);
        if (!CHECK_STR(kn_error(kn), "")) printf("  on %s\n", *d);
        kn_close(kn);
    }
}
#define API_RUN(test)                              \
    static void test##_on_each_device(void) {      \
        api_each(test);                            \
    }

/* t has this shape and these values, to a relative tolerance. */
static inline bool api_values(kn_tensor *t, const double *want, int n, double tolerance, const char *file, int line) {
    double got[512];
    bool   ok = check_eq(kn_numel(t), n, "elements", file, line) && n <= 512;
    if (ok) ok = check_eq(kn_read(t, KN_F64, got, sizeof got), KN_OK, "kn_read", file, line);
    for (int i = 0; ok && i < n; i++) ok = check_near(got[i], want[i], tolerance, "value", file, line);
    if (!ok) printf("  %s\n", kn_error(kn_context_of(t)));
    return ok;
}
static inline bool api_shape(kn_tensor *t, const int64_t *dims, int rank, const char *file, int line) {
    bool ok = check_eq(kn_rank(t), rank, "rank", file, line);
    for (int i = 0; ok && i < rank; i++) ok = check_eq(kn_size(t, i), dims[i], "size", file, line);
    if (!ok) printf("  %s\n", kn_error(kn_context_of(t)));
    return ok;
}
#define API_COUNT(...) ((int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
#define CHECK_VALUES(t, ...) \
    api_values((t), (const double[]){__VA_ARGS__}, API_COUNT(__VA_ARGS__), 2e-6, __FILE__, __LINE__)
#define CHECK_SHAPE(t, ...) api_shape((t), KN_DIMS(__VA_ARGS__), __FILE__, __LINE__)
/* The call failed with this code and a text that holds `part`; the error is cleared. */
static inline bool api_fails(kn_context *kn, kn_status code, const char *part, const char *file, int line) {
    bool ok = check_eq(kn_error_code(kn), code, "error code", file, line);
    if (!check_true(strstr(kn_error(kn), part) != NULL, part, file, line)) {
        printf("  the error is: %s\n", kn_error(kn));
        ok = false;
    }
    kn_clear_error(kn);
    return ok;
}
#define CHECK_FAILS(kn, expr, code, part) \
    ((void)(expr), api_fails((kn), (code), (part), __FILE__, __LINE__))

#define F32S(kn, ...) kn_from((kn), (const float[]){__VA_ARGS__}, KN_F32, KN_DIMS(API_COUNT(__VA_ARGS__)))
#define I32S(kn, ...) kn_from((kn), (const int[]){__VA_ARGS__}, KN_I32, KN_DIMS(API_COUNT(__VA_ARGS__)))

#endif
