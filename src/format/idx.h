/* idx.h - reader of idx files, the format of the MNIST digits: plain, or gzip where zlib is built in (KN_HAVE_ZLIB).
 *
 * Layout: two zero bytes, a type code, the rank, then each size as a big-endian u32, then the elements, big-endian and
 * row-major, and nothing behind them. Contract: any bytes in give a whole array or an error; a size is believed only
 * after it was compared with the bytes there are, so a small file cannot ask for much memory. */
#ifndef KN_FORMAT_IDX_H
#define KN_FORMAT_IDX_H

#include "base/base.h"

#define KN_IDX_MAX_RANK 8

typedef struct kn_idx {
    const kn_alloc *alloc;
    kn_dtype        dtype; /* u8, i8, i16, i32, f32 or f64; the host's byte order */
    int             rank;
    int64_t         dims[KN_IDX_MAX_RANK];
    int64_t         count; /* elements */
    void           *data;
    size_t          bytes;
} kn_idx;

/* On failure nothing is kept and *out is empty. The allocator must outlive the array. */
bool kn_idx_read(const kn_alloc *a, const char *path, kn_idx *out, kn_fault *f);
/* The same from memory; `name` is for messages. */
bool kn_idx_parse(const kn_alloc *a, const char *name, const void *file, size_t size, kn_idx *out, kn_fault *f);
void kn_idx_free(kn_idx *x);
/* Can this build read .gz files? */
bool kn_idx_reads_gzip(void);

#endif
