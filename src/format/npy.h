/* npy.h - reader and writer of NumPy's .npy files: versions 1 and 2, little-endian, C order.
 *
 * Contract: any bytes in give a whole array or an error that names the file and the reason; sizes are believed only
 * after they were compared with the bytes there are. Files are written whole or not at all. */
#ifndef KN_FORMAT_NPY_H
#define KN_FORMAT_NPY_H

#include "base/base.h"

#define KN_NPY_MAX_RANK 16

typedef struct kn_npy {
    const kn_alloc *alloc;
    kn_dtype        dtype; /* bool, i8 ... u64, f16, f32, f64 */
    int             rank;
    int64_t         dims[KN_NPY_MAX_RANK];
    int64_t         count; /* elements */
    void           *data;  /* row-major, the host's byte order */
    size_t          bytes;
} kn_npy;

/* On failure nothing is kept and *out is empty. The allocator must outlive the array. */
bool kn_npy_read(const kn_alloc *a, const char *path, kn_npy *out, kn_fault *f);
/* The same from memory; `name` is for messages. */
bool kn_npy_parse(const kn_alloc *a, const char *name, const void *file, size_t size, kn_npy *out, kn_fault *f);
void kn_npy_free(kn_npy *x);
/* index is written as i64. The format has no bf16 and no fp8: KN_ERR_UNSUPPORTED, cast first. */
bool kn_npy_write(const kn_alloc *a, const char *path, kn_dtype dtype, const int64_t *dims, int rank, const void *data,
                  kn_fault *f);

#endif
