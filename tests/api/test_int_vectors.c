/* Vectors of integers on the CPU against plain C: division and remainder by powers of two and by others. */
#include "base/base.h"
#include "koine.h"
#include "check.h"

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

int main(void) {
    RUN(floor_division);
    return check_result();
}
