/* idx.c - see idx.h. A source of bytes (plain memory, or zlib inflating it) is read twice: the header, which fixes how
 * many bytes must follow, then exactly those. */
#include "format/idx.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#if KN_HAVE_ZLIB
#include <zlib.h>
#endif

/* Deflate's best: one bit pair for 258 bytes, just under 1032 to 1. */
#define IDX_MAX_RATIO 1032

typedef struct idx_source {
    const char    *name;
    const uint8_t *data;
    size_t         size, at;
    bool           gzip;
#if KN_HAVE_ZLIB
    const kn_alloc *alloc;
    z_stream        z;
    bool            ended; /* the current gzip member is whole, its checksum right */
#endif
} idx_source;

bool kn_idx_reads_gzip(void) {
#if KN_HAVE_ZLIB
    return true;
#else
    return false;
#endif
}

#if KN_HAVE_ZLIB
/* zlib frees without saying how much; the size stands in front, in a slot that keeps the alignment. */
#define IDX_FRONT 16

static voidpf idx_zalloc(voidpf user, uInt items, uInt size) {
    size_t bytes = (size_t)items * size + IDX_FRONT;
    char  *p = kn_realloc(user, NULL, 0, bytes);
    if (!p) return Z_NULL;
    memcpy(p, &bytes, sizeof(bytes));
    return p + IDX_FRONT;
}

static void idx_zfree(voidpf user, voidpf ptr) {
    if (!ptr) return;
    char  *p = (char *)ptr - IDX_FRONT;
    size_t bytes;
    memcpy(&bytes, p, sizeof(bytes));
    kn_free(user, p, bytes);
}

/* Inflate until `want` bytes stand at dst or the input ends; concatenated members are one stream, as gzip has it. */
static bool idx_inflate(idx_source *s, uint8_t *dst, size_t want, size_t *got, kn_fault *f) {
    *got = 0;
    while (*got < want) {
        if (s->ended) {
            if (s->at == s->size) return true;
            if (inflateReset(&s->z) != Z_OK) return kn_fail(f, KN_ERR_FORMAT, "%s: gzip: cannot continue", s->name);
            s->ended = false;
        }
        size_t in = KN_MIN(s->size - s->at, (size_t)UINT_MAX), out = KN_MIN(want - *got, (size_t)UINT_MAX);
        s->z.next_in = (Bytef *)(uintptr_t)(s->data + s->at);
        s->z.avail_in = (uInt)in;
        s->z.next_out = dst + *got;
        s->z.avail_out = (uInt)out;
        int    r = inflate(&s->z, Z_NO_FLUSH);
        size_t used = in - s->z.avail_in, made = out - s->z.avail_out;
        s->at += used;
        *got += made;
        if (r == Z_MEM_ERROR) return kn_oom(f);
        if (r == Z_STREAM_END) {
            s->ended = true;
        } else if (r != Z_OK && r != Z_BUF_ERROR) {
            return kn_fail(f, KN_ERR_FORMAT, "%s: gzip: %s: the file is corrupt; fetch it again", s->name,
                           s->z.msg ? s->z.msg : "bad data");
        } else if (used == 0 && made == 0) {
            return true; /* no input left in the middle of a member: the caller sees too few bytes */
        }
    }
    return true;
}
#endif

static bool idx_open(idx_source *s, const kn_alloc *a, const char *name, const void *data, size_t size, kn_fault *f) {
    *s = (idx_source){.name = name, .data = data, .size = size};
    s->gzip = size >= 2 && s->data[0] == 0x1f && s->data[1] == 0x8b;
    if (!s->gzip) return true;
#if KN_HAVE_ZLIB
    s->alloc = a;
    s->z.zalloc = idx_zalloc;
    s->z.zfree = idx_zfree;
    s->z.opaque = (voidpf)(uintptr_t)a;
    if (inflateInit2(&s->z, 15 + 16) != Z_OK) return kn_oom(f);
    return true;
#else
    (void)a;
    return kn_fail(f, KN_ERR_UNSUPPORTED,
                   "%s: gzip, and this build has no zlib: unpack it with gunzip, or build with zlib", name);
#endif
}

static void idx_close(idx_source *s) {
#if KN_HAVE_ZLIB
    if (s->gzip) inflateEnd(&s->z);
#else
    (void)s;
#endif
}

static bool idx_take(idx_source *s, uint8_t *dst, size_t want, size_t *got, kn_fault *f) {
#if KN_HAVE_ZLIB
    if (s->gzip) return idx_inflate(s, dst, want, got, f);
#else
    (void)f;
#endif
    *got = KN_MIN(want, s->size - s->at);
    if (*got) memcpy(dst, s->data + s->at, *got);
    s->at += *got;
    return true;
}

/* All the elements were read: nothing may follow, and a gzip member must have ended with a right checksum. */
static bool idx_at_end(idx_source *s, kn_fault *f) {
    uint8_t extra;
    size_t  got;
    if (!idx_take(s, &extra, 1, &got, f)) return false;
    if (got) return kn_fail(f, KN_ERR_FORMAT, "%s: more bytes than its header announces", s->name);
#if KN_HAVE_ZLIB
    if (s->gzip && !s->ended) return kn_fail(f, KN_ERR_FORMAT, "%s: gzip: truncated before its checksum", s->name);
#endif
    return true;
}

static const struct {
    uint8_t  code;
    kn_dtype dtype;
    int      size;
} idx_types[] = {{0x08, KN_U8, 1},  {0x09, KN_I8, 1},  {0x0b, KN_I16, 2},
                 {0x0c, KN_I32, 4}, {0x0d, KN_F32, 4}, {0x0e, KN_F64, 8}};

/* Big-endian elements to the host's order. */
static void idx_swap(uint8_t *p, int64_t count, int size) {
    const uint16_t probe = 1;
    if (size == 1 || *(const uint8_t *)&probe == 0) return;
    for (int64_t i = 0; i < count; i++, p += size) {
        for (int k = 0; k < size / 2; k++) {
            uint8_t t = p[k];
            p[k] = p[size - 1 - k];
            p[size - 1 - k] = t;
        }
    }
}

static bool idx_header(idx_source *s, kn_idx *x, int *elem, kn_fault *f) {
    uint8_t head[4 + 4 * KN_IDX_MAX_RANK];
    size_t  got;
    if (!idx_take(s, head, 4, &got, f)) return false;
    if (got < 4) return kn_fail(f, KN_ERR_FORMAT, "%s: truncated: no idx header", s->name);
    *elem = 0;
    for (int i = 0; i < KN_COUNT(idx_types) && head[0] == 0 && head[1] == 0; i++) {
        if (idx_types[i].code != head[2]) continue;
        x->dtype = idx_types[i].dtype;
        *elem = idx_types[i].size;
    }
    if (!*elem || head[3] > KN_IDX_MAX_RANK)
        return kn_fail(f, KN_ERR_FORMAT, "%s: not an idx file: it begins %02x %02x %02x %02x", s->name, head[0],
                       head[1], head[2], head[3]);
    x->rank = head[3];
    if (!idx_take(s, head, 4 * (size_t)x->rank, &got, f)) return false;
    if (got < 4 * (size_t)x->rank) return kn_fail(f, KN_ERR_FORMAT, "%s: truncated within its header", s->name);
    int64_t bytes = *elem;
    for (int i = 0; i < x->rank; i++) {
        const uint8_t *b = head + 4 * i;
        x->dims[i] = (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
        if (!kn_mul_ok(bytes, x->dims[i], &bytes))
            return kn_fail(f, KN_ERR_FORMAT, "%s: its sizes overflow: the header is corrupt", s->name);
    }
    x->count = bytes / *elem;
    x->bytes = (size_t)bytes;
    uint64_t most = s->gzip ? (uint64_t)s->size * IDX_MAX_RATIO : (uint64_t)(s->size - s->at);
    if ((uint64_t)bytes > most)
        return kn_fail(f, KN_ERR_FORMAT, "%s: truncated: its header announces %lld bytes of elements, there are %s%llu",
                       s->name, (long long)bytes, s->gzip ? "at most " : "", (unsigned long long)most);
    return true;
}

static bool idx_body(idx_source *s, kn_idx *x, kn_fault *f) {
    int    elem = 0;
    size_t got;
    if (!idx_header(s, x, &elem, f)) return false;
    if (x->bytes) {
        x->data = kn_realloc(x->alloc, NULL, 0, x->bytes);
        if (!x->data) return kn_oom(f);
        if (!idx_take(s, x->data, x->bytes, &got, f)) return false;
        if (got < x->bytes)
            return kn_fail(f, KN_ERR_FORMAT, "%s: truncated: %llu of %llu bytes of elements", s->name,
                           (unsigned long long)got, (unsigned long long)x->bytes);
    }
    if (!idx_at_end(s, f)) return false;
    idx_swap(x->data, x->count, elem);
    return true;
}

bool kn_idx_parse(const kn_alloc *a, const char *name, const void *file, size_t size, kn_idx *out, kn_fault *f) {
    idx_source s;
    *out = (kn_idx){.alloc = a};
    if (!idx_open(&s, a, name, file, size, f)) return false;
    bool ok = idx_body(&s, out, f);
    idx_close(&s);
    if (!ok) kn_idx_free(out);
    return ok;
}

bool kn_idx_read(const kn_alloc *a, const char *path, kn_idx *out, kn_fault *f) {
    char  *data;
    size_t size;
    *out = (kn_idx){.alloc = a};
    if (!kn_read_file(a, path, &data, &size, f)) return false;
    bool ok = kn_idx_parse(a, path, data, size, out, f);
    kn_free(a, data, size + 1);
    return ok;
}

void kn_idx_free(kn_idx *x) {
    if (x->data) kn_free(x->alloc, x->data, x->bytes);
    *x = (kn_idx){.alloc = x->alloc};
}

#undef IDX_MAX_RATIO
#undef IDX_FRONT
