/* fill.c - the values of fill.h. Random ones are Threefry of (element, seed), so element i does not depend on n. */
#include "dialect/fill.h"

static kn_scalar fill_value(int64_t i, int dtype, kn_fill_kind kind, uint64_t seed) {
    uint64_t  r    = kind == KN_FILL_RAND ? kn_threefry2x32((uint64_t)i, seed) >> 20 : 0;
    char      type = kn_dtypes[dtype].kind;
    kn_scalar s    = {.i = 0};
    if (type == 'F') {
        s.f = kind == KN_FILL_SEQ ? (double)(i % 256) : kind == KN_FILL_RAND ? (double)(int64_t)(r % 256) / 64 - 2 : 0;
        return kn_cast_scalar(s, KN_F64, dtype);
    }
    if (kind == KN_FILL_SEQ) s.i = type == 'B' ? i & 1 : i;
    if (kind == KN_FILL_RAND) s.i = (int64_t)(type == 'B' ? r % 2 : type == 'U' || dtype == KN_INDEX ? r % 16 : r % 17);
    if (kind == KN_FILL_RAND && type == 'I' && dtype != KN_INDEX) s.i -= 8;
    return kn_cast_scalar(s, KN_I64, dtype);
}

void kn_fill(void *data, int64_t n, int dtype, kn_fill_kind kind, uint64_t seed) {
    char *p = data;
    for (int64_t i = 0; i < n; i++) kn_store_scalar(p + i * kn_dsize(dtype), dtype, fill_value(i, dtype, kind, seed));
}
