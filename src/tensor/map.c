/* map.c - kn_map: files as tensors. */
#include "device/disk.h"
#include "tensor/tensor.h"

#include <string.h>

/* dims with its -1, if it has one, replaced by what the rest of the file holds. */
static bool map_dims(const kt_call *c, const char *path, kn_dtype dtype, const kn_dim *dims, int rank, int64_t offset,
                     int64_t *out) {
    kn_fault f    = {KN_OK, ""};
    int      open = -1;
    int64_t  rest = kn_dsize(dtype), size;
    for (int i = 0; i < rank; i++) {
        out[i] = dims[i];
        if (dims[i] < -1)
            return kt_fail(c->kn, KN_ERR_UNSUPPORTED, "kn_map: sizes are numbers, and one may be -1"), false;
        if (dims[i] != -1) {
            rest = kn_sat_mul(rest, dims[i]);
            continue;
        }
        if (open >= 0) return kt_fail(c->kn, KN_ERR_SHAPE, "kn_map: only one size may be -1"), false;
        open = i;
    }
    if (open < 0) return true;
    if (!kd_file_size(path, &size, &f)) return kt_fail(c->kn, f.code, "kn_map: %s", f.text), false;
    int64_t left = size - offset;
    if (rest <= 0 || left < 0 || left % rest) {
        kt_fail(c->kn, KN_ERR_IO, "kn_map: %s: %lld bytes from byte %lld on are no whole number of rows of %lld bytes",
                path, (long long)left, (long long)offset, (long long)rest);
        return false;
    }
    out[open] = left / rest;
    return true;
}

kn_tensor *kn_map_opt(kn_context *kn, const char *path, kn_dtype dtype, const kn_dim *dims, int rank,
                      const kn_map_opts *user) {
    kn_map_opts o = {0};
    kt_call     c;
    int64_t     d[KN_MAX_RANK] = {0}, size = 1;
    if (!kt_begin_new(&c, "kn_map", kn)) return kt_poison(&c);
    if (user && (!user->size || user->size > sizeof o))
        return kt_fail(kn, KN_ERR_ARG, "kn_map: the options' size is %zu, not %zu: set .size = sizeof(options)",
                       user->size, sizeof o);
    if (user) memcpy(&o, user, user->size);
    if (!path) return kt_fail(kn, KN_ERR_ARG, "kn_map: path is NULL");
    if (!strncmp(path, "DISK:", 5)) path += 5;
    if (!kt_dtype_ok(&c, dtype)) return kt_poison(&c);
    if (rank < 0 || rank > KN_MAX_RANK || (rank && !dims)) return kt_dims_ok(&c, dims, rank), kt_poison(&c);
    if (o.offset < 0 || o.offset % kn_dsize(dtype))
        return kt_fail(kn, KN_ERR_ARG, "kn_map: an offset of %lld: it is a multiple of the %d bytes of %s",
                       (long long)o.offset, kn_dsize(dtype), kn_dtypes[dtype].name);
    if (!map_dims(&c, path, dtype, dims, rank, o.offset, d) || !kt_dims_ok(&c, d, rank)) return kt_poison(&c);
    for (int i = 0; i < rank; i++) size *= d[i];
    if (!size) return kt_wrap_created(kn, kt_fill(&c, dtype, 0, d, rank), "kn_map");
    bool    write = o.writable || o.create;
    int64_t slot  = kr_buffer_map(kn->rt, path, o.offset, size, dtype, write, o.create, kg_fault(c.g));
    kn_ref  node  = slot ? kg_reshape(c.g, kg_buffer(c.g, slot, size, dtype, 0, KN_GLOBAL), d, rank) : 0;
    if (slot && !node) kr_buffer_release(kn->rt, slot);
    kn_tensor *t = kt_wrap_created(kn, node, "kn_map");
    kt_slot   *s = kt_slot_of(t);
    if (s && write) s->store = s->node; /* else it is borrowed, as by kn_wrap */
    return t;
}
