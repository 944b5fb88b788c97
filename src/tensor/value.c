/* value.c - between tensors and the host's memory: storage tensors, reading, writing, assigning, dumping. */
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* ---- storage tensors ------------------------------------------------------------------------------------------- */

kn_tensor *kt_storage(kn_context *kn, const char *op, kn_dtype dtype, const kn_dim *user, int rank, const void *data) {
    kt_call c;
    int64_t dims[KN_MAX_RANK];
    if (!kt_begin_new(&c, op, kn)) return kt_poison(&c);
    if (!kt_dtype_ok(&c, dtype) || !kt_sizes_in(&c, user, rank, dims)) return kt_poison(&c);
    for (int i = 0; i < rank; i++)
        if (!dims[i]) return kt_wrap_created(kn, kt_fill(&c, dtype, 0, dims, rank), op);
    kn_tensor *t = kt_wrap_created(kn, kt_storage_node(kn, dtype, dims, rank, data), op);
    kt_slot   *s = kt_slot_of(t);
    if (s) s->store = s->node;
    return t;
}

kn_tensor *kn_from(kn_context *kn, const void *data, kn_dtype dtype, const kn_dim *dims, int rank) {
    if (data) return kt_storage(kn, "kn_from", dtype, dims, rank, data);
    kt_call c;
    int64_t sizes[KN_MAX_RANK];
    if (!kt_begin_new(&c, "kn_from", kn)) return kt_poison(&c);
    if (!kt_sizes_in(&c, dims, rank, sizes)) return kt_poison(&c);
    for (int i = 0; i < rank; i++)
        if (!dims[i]) return kt_storage(kn, "kn_from", dtype, dims, rank, NULL);
    return kt_fail(kn, KN_ERR_ARG, "kn_from: data is NULL: kn_empty makes zeroed storage");
}

kn_tensor *kn_empty(kn_context *kn, kn_dtype dtype, const kn_dim *dims, int rank) {
    return kt_storage(kn, "kn_empty", dtype, dims, rank, NULL);
}

kn_tensor *kn_scalar_f32(kn_context *kn, double value) {
    float v = (float)value;
    return kt_storage(kn, "kn_scalar_f32", KN_F32, NULL, 0, &v);
}

kn_tensor *kn_wrap(kn_context *kn, void *data, kn_dtype dtype, const kn_dim *user, int rank) {
    kt_call c;
    int64_t dims[KN_MAX_RANK], size = 1;
    if (!kt_begin_new(&c, "kn_wrap", kn)) return kt_poison(&c);
    if (!kt_dtype_ok(&c, dtype) || !kt_sizes_in(&c, user, rank, dims)) return kt_poison(&c);
    for (int i = 0; i < rank; i++) size *= kg_most_of(c.g, dims[i]); /* what lies behind today's is never read */
    if (!size) return kt_wrap_created(kn, kt_fill(&c, dtype, 0, dims, rank), "kn_wrap");
    if (!data) return kt_fail(kn, KN_ERR_ARG, "kn_wrap: data is NULL");
    if ((uintptr_t)data % (uintptr_t)kn_dsize(dtype))
        return kt_fail(kn, KN_ERR_ARG, "kn_wrap: data is not aligned to %d bytes: kn_from copies", kn_dsize(dtype));
    int64_t slot = kr_buffer_wrap(kn->rt, data, size, dtype, kg_fault(c.g));
    kn_ref  node = slot ? kt_stored_as(c.g, kg_buffer(c.g, slot, size, dtype, 0, KN_GLOBAL), dims, rank) : 0;
    if (slot && !node) kr_buffer_release(kn->rt, slot);
    /* Not its own storage: an assignment leaves the lender's memory alone. */
    return kt_wrap_created(kn, node, "kn_wrap");
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

kn_status kn_realize(kn_tensor *const *t, int n) {
    if (n < 0 || (n && !t)) return KN_ERR_ARG;
    kn_context *kn = NULL;
    for (int i = 0; i < n && !kn; i++) kn = kn_context_of(t[i]);
    if (!kn) return n ? KN_ERR_ARG : KN_OK;
    kt_slot **s  = kn_realloc(kn->alloc, NULL, 0, (size_t)n * sizeof *s);
    bool      ok = s != NULL;
    if (!ok) kt_error(kn, KN_ERR_MEMORY, "kn_realize: out of memory");
    for (int i = 0; ok && i < n; i++) ok = (s[i] = kt_check(kn, "kn_realize", t[i])) != NULL;
    ok = ok && kt_may_run(kn, "kn_realize") && kt_run(kn, "kn_realize", s, n, KT_NOW);
    for (int i = 0; ok && i < n; i++) s[i]->flags |= KT_OWNABLE;
    kn_free(kn->alloc, s, (size_t)n * sizeof *s);
    return ok ? KN_OK : kn->fault.code;
}

static void convert_elements(void *to, int to_dtype, const void *from, int from_dtype, int64_t n) {
    size_t a = (size_t)kn_dsize(from_dtype), b = (size_t)kn_dsize(to_dtype);
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)n * b);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        kn_scalar v = kn_load_scalar((const char *)from + (size_t)i * a, from_dtype);
        kn_store_scalar((char *)to + (size_t)i * b, to_dtype, kn_cast_scalar(v, from_dtype, to_dtype));
    }
}

static kn_status read_into(const char *op, kn_tensor *t, kn_dtype dtype, void *dst, size_t bytes) {
    kn_context *kn = kn_context_of(t);
    if (!kn) return KN_ERR_ARG;
    kt_slot *s = kt_check(kn, op, t);
    if (!s) return kn->fault.code;
    if (dtype <= KN_VOID || dtype >= KN_DTYPE_COUNT)
        return kt_error(kn, KN_ERR_DTYPE, "%s: no dtype %d", op, (int)dtype);
    int64_t  dims[KN_MAX_RANK], numel;
    kn_fault f = {KN_OK, ""};
    if (!kt_sizes_now(kn->g, s->node, dims, &numel, &f)) return kt_take_fault(kn, &f, op);
    int64_t need = kn_sat_mul(numel, kn_dsize(dtype));
    if ((uint64_t)need > bytes)
        return kt_error(kn, KN_ERR_ARG, "%s: %lld elements of %s need %lld bytes, dst has %zu", op, (long long)numel,
                        kn_dtypes[dtype].name, (long long)need, bytes);
    if (!numel) return KN_OK;
    if (!dst) return kt_error(kn, KN_ERR_ARG, "%s: dst is NULL", op);
    if (!kt_may_run(kn, op)) return kn->fault.code;
    if (!kt_run(kn, op, &s, 1, KT_NOW)) return kn->fault.code;
    kn_ref      buf  = kt_buffer_of(kn->g, s->node);
    const void *data = buf ? kr_buffer_read(kn->rt, kg_field(kn->g, buf, KN_F_BUFFER_slot), &f) : NULL;
    if (!data) return kt_take_fault(kn, &f, op);
    convert_elements(dst, dtype, data, kg_dtype(kn->g, s->node), numel);
    return KN_OK;
}

kn_status kn_read(kn_tensor *t, kn_dtype dtype, void *dst, size_t bytes) {
    return read_into("kn_read", t, dtype, dst, bytes);
}

double kn_item(kn_tensor *t) {
    double   v = NAN;
    kt_slot *s = kt_slot_of(t);
    if (s && kn_numel(t) != 1) {
        char a[KT_SHAPE_TEXT];
        kt_error(s->kn, KN_ERR_SHAPE, "kn_item: %s is not one element", kt_shape_text(s->kn->g, s->node, a));
        return NAN;
    }
    return read_into("kn_item", t, KN_F64, &v, sizeof v) == KN_OK ? v : NAN;
}

kn_status kn_dump(kn_tensor *t, const char *stage, FILE *out) {
    kn_context *kn = kn_context_of(t);
    if (!kn) return KN_ERR_ARG;
    if (!stage || !out) return kt_error(kn, KN_ERR_ARG, "kn_dump: a NULL argument");
    kt_slot *s = kt_check(kn, "kn_dump", t);
    if (!s) return kn->fault.code;
    kn_ref   node = kt_node(s);
    kn_fault f    = {KN_OK, ""};
    kn_str   text;
    kn_str_init(&text, kn->alloc);
    bool ok = kr_dump(kn->rt, kn->g, kn->realized, (uint32_t)kn->realized_cap, &node, 1, stage, &text, &f);
    if (ok && text.failed) ok = kn_oom(&f);
    if (ok && text.len && fwrite(text.data, 1, text.len, out) != text.len)
        ok = kn_fail(&f, KN_ERR_IO, "writing failed");
    kn_str_free(&text);
    return ok ? KN_OK : kt_take_fault(kn, &f, "kn_dump");
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* Whether a live handle other than t reads t's buffer. False in *ok: out of memory. */
static bool read_by_others(kn_context *kn, const kt_slot *t, bool *ok) {
    uint32_t count = kg_count(kn->g);
    size_t   at = 0, cap = (size_t)kn->ntensors + 1;
    kn_ref  *nodes = kn_realloc(kn->alloc, NULL, 0, cap * sizeof *nodes);
    uint8_t *mark  = kn_zalloc(kn->alloc, count);
    bool     read  = false;
    *ok            = nodes && mark;
    for (kt_slot *s = kt_first(kn); *ok && s; s = kt_next(s))
        if (s != t) nodes[at++] = s->node;
    *ok = *ok && kt_mark(kn, nodes, at, false, mark, count);
    if (*ok) read = mark[kt_buffer_of(kn->g, t->store)];
    kn_free(kn->alloc, nodes, cap * sizeof *nodes);
    kn_free(kn->alloc, mark, count);
    return read;
}

static bool is_file(kn_context *kn, const kt_slot *t) {
    return kr_buffer_is_file(kn->rt, kg_field(kn->g, kt_buffer_of(kn->g, t->store), KN_F_BUFFER_slot));
}

/* A file stays where it is: who reads it gets what it holds now. An assignment to t itself does not happen. */
static bool save_readers(kn_context *kn, kt_slot *t) {
    uint32_t  count = kg_count(kn->g);
    size_t    cap   = (size_t)kn->ntensors + 1;
    kt_slot **list  = kn_realloc(kn->alloc, NULL, 0, cap * sizeof *list);
    uint8_t  *file  = kn_zalloc(kn->alloc, count);
    int       n     = 0;
    bool      ok    = (list && file) || kn_oom(kg_fault(kn->g));
    kt_drop_pending(kn, t);
    t->node = t->store;
    if (ok) file[kt_buffer_of(kn->g, t->store)] = 1;
    ok = ok && kt_readers(kn, file, list, &n);
    for (int i = 0; ok && i < n; i++)
        if (kt_buffer_of(kn->g, list[i]->node)) ok = kt_unshare(kn, list[i]);
    if (!ok) kt_take_fault(kn, kg_fault(kn->g), "kn_write");
    ok = ok && kt_run(kn, "kn_write", list, n, KT_NOW);
    kn_free(kn->alloc, list, cap * sizeof *list);
    kn_free(kn->alloc, file, count);
    return ok;
}

kn_status kn_write(kn_tensor *t, const void *src, size_t bytes) {
    kn_context *kn = kn_context_of(t);
    if (!kn) return KN_ERR_ARG;
    kt_slot *s = kt_check(kn, "kn_write", t);
    if (!s || !kt_may_run(kn, "kn_write")) return kn->fault.code;
    int            rank, dtype = kg_dtype(kn->g, s->node);
    const int64_t *dims = kg_shape(kn->g, s->node, &rank);
    int64_t        now[KN_MAX_RANK], numel;
    char           text[KT_SHAPE_TEXT];
    kn_fault       own = {KN_OK, ""};
    if (!kt_sizes_now(kn->g, s->node, now, &numel, &own)) return kt_take_fault(kn, &own, "kn_write");
    int64_t want = numel * kn_dsize(dtype);
    if ((uint64_t)want != bytes)
        return kt_error(kn, KN_ERR_ARG, "kn_write: %s of %s is %lld bytes, %zu given",
                        kt_shape_text(kn->g, s->node, text), kn_dtypes[dtype].name, (long long)want, bytes);
    if (!bytes) return KN_OK;
    if (!src) return kt_error(kn, KN_ERR_ARG, "kn_write: src is NULL");
    if (!s->store && !(s->flags & KT_OWNABLE))
        return kt_error(kn, KN_ERR_STATE, "kn_write: the tensor is a view or a lazy result and owns no storage");
    bool      ok    = true;
    bool      fresh = !s->store || read_by_others(kn, s, &ok);
    kn_fault *f     = kg_fault(kn->g);
    if (!ok) return kt_error(kn, KN_ERR_MEMORY, "kn_write: out of memory");
    if (fresh && s->store && is_file(kn, s)) {
        if (!save_readers(kn, s)) return kn->fault.code;
        fresh = false;
    }
    if (fresh) { /* the old contents live on for their readers */
        kn_ref st = kt_storage_node(kn, (kn_dtype)dtype, dims, rank, src);
        if (!st) return kt_take_fault(kn, f, "kn_write");
        s->store = st;
    } else {
        kn_ref buf = kt_buffer_of(kn->g, s->store);
        void  *to  = kr_buffer_data(kn->rt, kg_field(kn->g, buf, KN_F_BUFFER_slot), f);
        if (!to || !kt_overwritten(kn, &buf, 1)) return kt_take_fault(kn, f, "kn_write");
        memcpy(to, src, bytes);
    }
    kt_drop_pending(kn, s);
    s->node = s->store;
    return KN_OK;
}

kn_tensor *kn_assign(kn_tensor *t, kn_tensor *value) {
    kt_call c;
    kn_ref  n[2];
    if (!kt_begin(&c, "kn_assign", (kn_tensor *[]){t, value}, 2, n)) return kt_poison(&c);
    kt_slot *s = kt_slot_of(t);
    char     a[KT_SHAPE_TEXT], b[KT_SHAPE_TEXT];
    if (!kg_same_shape(c.g, n[0], n[1]))
        return kt_fail(c.kn, KN_ERR_SHAPE, "kn_assign: the tensor is %s, the value %s", kt_shape_text(c.g, n[0], a),
                       kt_shape_text(c.g, n[1], b));
    if (!kg_numel(c.g, n[0])) return t;
    if (kg_numel(c.g, n[0]) < 0)
        return kt_fail(c.kn, KN_ERR_UNSUPPORTED, "kn_assign: %s: a tensor that is assigned has numbers for sizes",
                       kt_shape_text(c.g, n[0], a));
    if (!kt_may_assign(c.kn, "kn_assign", s)) return kt_poison(&c);
    bool first = c.kn->fault.code == KN_OK;
    if (!kt_make_storage(c.kn, "kn_assign", &s, 1)) {
        if (first) c.kn->sited = false;
        return kt_poison(&c);
    }
    kn_ref v = kg_cast(c.g, kt_node(kt_slot_of(value)), kg_dtype(c.g, n[0]));
    if (!v) return kt_wrap(c.kn, 0, "kn_assign");
    if (v == s->store) {
        kt_drop_pending(c.kn, s);
        s->node = v;
        return t;
    }
    return kt_add_pending(c.kn, s, v) ? t : kt_poison(&c);
}
