/* npy.c - .npy files. Format: NumPy's "A simple file format for NumPy arrays" (NEP 1): magic, version, header length, a
 * Python dictionary with descr, fortran_order and shape, padded to a multiple of 64 bytes, then the elements. */
#include "format/npy.h"

#include <string.h>

typedef struct npy_type {
    char     kind; /* as in descr: b i u f */
    uint8_t  size;
    kn_dtype dtype;
} npy_type;
static const npy_type npy_types[] = {
    {'b', 1, KN_BOOL}, {'i', 1, KN_I8},  {'i', 2, KN_I16}, {'i', 4, KN_I32}, {'i', 8, KN_I64}, {'u', 1, KN_U8},
    {'u', 2, KN_U16},  {'u', 4, KN_U32}, {'u', 8, KN_U64}, {'f', 2, KN_F16}, {'f', 4, KN_F32}, {'f', 8, KN_F64},
};
static const char npy_magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static bool npy_host_is_big(void) {
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 0;
}

/* Between the file's little-endian items and the host's, in place. */
static void npy_order(void *data, size_t bytes, size_t item) {
    if (!npy_host_is_big() || item < 2) return;
    for (uint8_t *p = data, *end = p + bytes; p < end; p += item)
        for (size_t i = 0; i < item / 2; i++) {
            uint8_t t       = p[i];
            p[i]            = p[item - 1 - i];
            p[item - 1 - i] = t;
        }
}

/* ---- the header: a small Python literal -------------------------------------------------------------------------- */

typedef struct npy_reader {
    const char *name, *p, *end;
    kn_fault   *f;
} npy_reader;

static bool npy_bad(npy_reader *r, const char *what) {
    return kn_fail(r->f, KN_ERR_FORMAT, "%.200s: not a readable .npy file: %s", r->name, what);
}

static void npy_space(npy_reader *r) {
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r')) r->p++;
}

static bool npy_take(npy_reader *r, char c) {
    npy_space(r);
    if (r->p >= r->end || *r->p != c) return false;
    r->p++;
    return true;
}

static bool npy_word(npy_reader *r, const char *word) {
    size_t n = strlen(word);
    npy_space(r);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0) return false;
    r->p += n;
    return true;
}

/* A quoted string without escapes, into `out`. */
static bool npy_quoted(npy_reader *r, char *out, size_t cap) {
    npy_space(r);
    if (r->p >= r->end || (*r->p != '\'' && *r->p != '"')) return false;
    char   quote = *r->p++;
    size_t n     = 0;
    while (r->p < r->end && *r->p != quote && n + 1 < cap) out[n++] = *r->p++;
    out[n] = 0;
    return npy_take(r, quote);
}

static bool npy_descr(npy_reader *r, kn_npy *x, size_t *item) {
    char d[16];
    npy_space(r);
    if (r->p < r->end && *r->p == '[') return npy_bad(r, "structured elements; only plain numbers are read");
    if (!npy_quoted(r, d, sizeof d)) return npy_bad(r, "descr is not a text");
    for (int i = 0; i < KN_COUNT(npy_types); i++) {
        if (strlen(d) != 3 || d[1] != npy_types[i].kind || d[2] != '0' + npy_types[i].size) continue;
        if (d[0] == '>' && npy_types[i].size > 1)
            return npy_bad(r, "big-endian; save it little-endian, as in a.astype('<f4')");
        if (!strchr("<>|=", d[0])) break;
        x->dtype = npy_types[i].dtype;
        *item    = npy_types[i].size;
        return true;
    }
    return kn_fail(r->f, KN_ERR_FORMAT, "%.200s: elements of type '%s' are not read; there are b1 i1-i8 u1-u8 f2-f8",
                   r->name, d);
}

static bool npy_shape(npy_reader *r, kn_npy *x) {
    if (!npy_take(r, '(')) return npy_bad(r, "shape is not a tuple");
    while (!npy_take(r, ')')) {
        int64_t v = 0;
        npy_space(r);
        if (r->p >= r->end || *r->p < '0' || *r->p > '9') return npy_bad(r, "a size is not a number");
        for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
            if (!kn_mul_ok(v, 10, &v) || !kn_add_ok(v, *r->p - '0', &v)) return npy_bad(r, "a size is out of range");
        if (x->rank == KN_NPY_MAX_RANK) return npy_bad(r, "more than 16 axes");
        x->dims[x->rank++] = v;
        if (!npy_take(r, ',')) {
            if (x->rank == 1) return npy_bad(r, "shape is not a tuple");
            if (!npy_take(r, ')')) return npy_bad(r, "the shape has no end");
            break;
        }
    }
    return true;
}

static bool npy_header(npy_reader *r, kn_npy *x, size_t *item) {
    bool descr = false, order = false, shape = false, fortran = false;
    if (!npy_take(r, '{')) return npy_bad(r, "the header is not a dictionary");
    while (!npy_take(r, '}')) {
        char  key[24];
        bool *seen, ok;
        if (!npy_quoted(r, key, sizeof key) || !npy_take(r, ':')) return npy_bad(r, "the header is not a dictionary");
        seen = !strcmp(key, "descr")           ? &descr
               : !strcmp(key, "fortran_order") ? &order
               : !strcmp(key, "shape")         ? &shape
                                               : NULL;
        if (!seen || *seen) return npy_bad(r, "an unknown or repeated header entry");
        *seen = true;
        if (seen == &descr) {
            ok = npy_descr(r, x, item);
        } else if (seen == &shape) {
            ok = npy_shape(r, x);
        } else {
            fortran = npy_word(r, "True");
            ok      = fortran || npy_word(r, "False") || npy_bad(r, "fortran_order is neither True nor False");
        }
        if (!ok) return false;
        if (!npy_take(r, ',')) {
            if (!npy_take(r, '}')) return npy_bad(r, "the header has no end");
            break;
        }
    }
    npy_space(r);
    if (r->p != r->end) return npy_bad(r, "something stands behind the header's dictionary");
    if (!descr || !order || !shape) return npy_bad(r, "the header lacks descr, fortran_order or shape");
    if (fortran && x->rank > 1) return npy_bad(r, "Fortran order; save it in C order, as in np.ascontiguousarray(a)");
    return true;
}

/* ---- files --------------------------------------------------------------------------------------------------- */

static bool npy_parse(npy_reader *r, const uint8_t *file, size_t size, kn_npy *x) {
    size_t item = 0, at;
    if (size < 10 || memcmp(file, npy_magic, sizeof npy_magic) != 0) return npy_bad(r, "it does not begin as one");
    size_t length = (size_t)file[8] | (size_t)file[9] << 8;
    at            = 10;
    if (file[6] == 2) {
        if (size < 12) return npy_bad(r, "it is cut off in the header");
        length |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
        at = 12;
    } else if (file[6] != 1) {
        return kn_fail(r->f, KN_ERR_FORMAT, "%.200s: .npy version %d; versions 1 and 2 are read", r->name, file[6]);
    }
    if (length > size - at) return npy_bad(r, "it is cut off in the header");
    r->p   = (const char *)file + at;
    r->end = r->p + length;
    if (!npy_header(r, x, &item)) return false;
    at += length;
    int64_t bytes = (int64_t)item;
    x->count      = 1;
    for (int i = 0; i < x->rank; i++) /* a 0 among the sizes must not hide an overflow of the others */
        if (x->dims[i] && !kn_mul_ok(bytes, x->dims[i], &bytes)) return npy_bad(r, "the shape is out of range");
    for (int i = 0; i < x->rank; i++) x->count *= x->dims[i];
    bytes = x->count * (int64_t)item;
    if ((uint64_t)bytes != size - at)
        return kn_fail(r->f, KN_ERR_FORMAT, "%.200s: the shape asks for %lld bytes of elements, the file has %llu",
                       r->name, (long long)bytes, (unsigned long long)(size - at));
    x->bytes = (size_t)bytes;
    x->data  = kn_realloc(x->alloc, NULL, 0, KN_MAX(x->bytes, 1));
    if (!x->data) return kn_oom(r->f);
    if (x->bytes) memcpy(x->data, file + at, x->bytes);
    npy_order(x->data, x->bytes, item);
    if (x->dtype == KN_BOOL)
        for (size_t i = 0; i < x->bytes; i++) ((uint8_t *)x->data)[i] = ((uint8_t *)x->data)[i] != 0;
    return true;
}

bool kn_npy_parse(const kn_alloc *a, const char *name, const void *file, size_t size, kn_npy *out, kn_fault *f) {
    npy_reader r = {.name = name, .f = f};
    *out         = (kn_npy){.alloc = a};
    if (npy_parse(&r, file, size, out)) return true;
    *out = (kn_npy){.alloc = a};
    return false;
}

bool kn_npy_read(const kn_alloc *a, const char *path, kn_npy *out, kn_fault *f) {
    char  *file;
    size_t size;
    *out = (kn_npy){.alloc = a};
    if (!kn_read_file(a, path, &file, &size, f)) return false;
    bool ok = kn_npy_parse(a, path, file, size, out, f);
    kn_free(a, file, size + 1);
    return ok;
}

void kn_npy_free(kn_npy *x) {
    if (x->data) kn_free(x->alloc, x->data, KN_MAX(x->bytes, 1));
    *x = (kn_npy){.alloc = x->alloc};
}

bool kn_npy_write(const kn_alloc *a, const char *path, kn_dtype dtype, const int64_t *dims, int rank, const void *data,
                  kn_fault *f) {
    const npy_type *t = NULL;
    for (int i = 0; i < KN_COUNT(npy_types); i++)
        if (npy_types[i].dtype == (dtype == KN_INDEX ? KN_I64 : dtype)) t = &npy_types[i];
    if (!t) return kn_fail(f, KN_ERR_UNSUPPORTED, "%.200s: .npy has no such element type: cast to f32 first", path);
    if (rank < 0 || rank > KN_NPY_MAX_RANK) return kn_fail(f, KN_ERR_ARG, "%.200s: rank %d", path, rank);
    char    head[600];
    int64_t count = t->size;
    int     n     = snprintf(head + 10, sizeof head - 10, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
                     t->size > 1 ? '<' : '|', t->kind, t->size) +
            10;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0 || !kn_mul_ok(count, dims[i], &count))
            return kn_fail(f, KN_ERR_SHAPE, "%.200s: bad shape", path);
        n += snprintf(head + n, sizeof head - (size_t)n,
                      rank == 1      ? "%lld,"
                      : i + 1 < rank ? "%lld, "
                                     : "%lld",
                      (long long)dims[i]);
    }
    n += snprintf(head + n, sizeof head - (size_t)n, "), }");
    while ((n + 1) % 64) head[n++] = ' ';
    head[n++] = '\n';
    memcpy(head, npy_magic, sizeof npy_magic);
    head[6]     = 1;
    head[7]     = 0;
    head[8]     = (char)((n - 10) & 255);
    head[9]     = (char)((n - 10) >> 8);
    size_t size = (size_t)n + (size_t)count;
    char  *file = kn_realloc(a, NULL, 0, size);
    if (!file) return kn_oom(f);
    memcpy(file, head, (size_t)n);
    if (count) memcpy(file + n, data, (size_t)count);
    npy_order(file + n, (size_t)count, t->size);
    bool ok = kn_write_file(path, file, size, 0644, f);
    kn_free(a, file, size);
    return ok;
}
