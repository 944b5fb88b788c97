/* Vectors of integers on the CPU against plain C: division and remainder by powers of two and by others. */
#include "base/base.h"
#include "koine.h"
#include "check.h"

#include <stdlib.h>

enum { N = 100 };

static void floor_division(void) {
    static const kn_dtype dtypes[] = {KN_I8, KN_I16, KN_I32, KN_I64, KN_U8, KN_U16, KN_U32, KN_U64};
    static const int64_t  by[] = {1, 2, 4, 64, 3, 7};
    kn_context           *kn = kn_open(NULL);
    for (int d = 0; d < KN_COUNT(dtypes); d++) {
        int64_t    x[N], q[N], r[N];
        bool       is_signed = d < 4, same = true;
        for (int i = 0; i < N; i++) x[i] = is_signed ? i * 2 - N : i * 2;
        kn_tensor *t = kn_cast(kn_from(kn, x, KN_I64, KN_DIMS(N)), dtypes[d]);
        for (int k = 0; k < KN_COUNT(by); k++) {
            kn_tensor *b = kn_full(kn, (double)by[k], dtypes[d], NULL, 0);
            CHECK_EQ(kn_read(kn_floordiv(t, b), KN_I64, q, sizeof q), KN_OK);
            CHECK_EQ(kn_read(kn_mod(t, b), KN_I64, r, sizeof r), KN_OK);
            for (int i = 0; i < N; i++)
                same &= q[i] == kn_floor_div(x[i], by[k]) && r[i] == kn_floor_mod(x[i], by[k]);
        }
        if (!CHECK(same)) printf("%s\n", kn_dtype_name(dtypes[d]));
    }
    kn_close(kn);
}

/* Of i64 what an f64 does not have: about every power of two, by the same and by others; and what a product is, one
 * more and one less. */
static void wide_division(void) {
    enum { POWERS = 63, AROUND = 3, VALUES = 2 * POWERS * AROUND + 1, ALL = 2 * VALUES * VALUES };
    int64_t    *v = malloc(VALUES * sizeof *v), *a = malloc(ALL * sizeof *a), *b = malloc(ALL * sizeof *b);
    int64_t    *q = malloc(ALL * sizeof *q), *r = malloc(ALL * sizeof *r), n = 0, m = 0, bad = 0;
    kn_context *kn = kn_open(NULL);
    for (int p = 0; p < POWERS; p++)
        for (int k = -1; k < AROUND - 1; k++) {
            v[n++] = (INT64_C(1) << p) + k;
            v[n++] = -(INT64_C(1) << p) - k;
        }
    v[n++] = INT64_MIN;
    for (int i = 0; i < VALUES; i++)
        for (int k = 0; k < VALUES; k++) {
            a[m] = v[i], b[m++] = v[k];
            a[m] = (int64_t)((uint64_t)v[i] * (uint64_t)v[k] + (uint64_t)(k % 3 - 1)), b[m++] = v[k];
        }
    kn_tensor *x = kn_from(kn, a, KN_I64, KN_DIMS(ALL)), *y = kn_from(kn, b, KN_I64, KN_DIMS(ALL));
    CHECK_EQ(kn_read(kn_floordiv(x, y), KN_I64, q, ALL * sizeof *q), KN_OK);
    CHECK_EQ(kn_read(kn_mod(x, y), KN_I64, r, ALL * sizeof *r), KN_OK);
    for (int i = 0; i < ALL; i++) bad += q[i] != kn_floor_div(a[i], b[i]) || r[i] != kn_floor_mod(a[i], b[i]);
    CHECK_EQ(bad, 0);
    kn_close(kn);
    free(v), free(a), free(b), free(q), free(r);
}

int main(void) {
    RUN(floor_division);
    RUN(wide_division);
    return check_result();
}
