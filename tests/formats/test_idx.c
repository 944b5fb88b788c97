/* test_idx.c - the idx reader: what it takes, and that no bytes whatever hurt it. */
#include "check.h"
#include "format/idx.h"

#include <stdlib.h>

#if KN_HAVE_ZLIB
#include <zlib.h>
#endif

/* Every block is counted, so that a leak or a wrong size shows. */
typedef struct counted {
    int64_t bytes, calls, fail_at; /* the call that fails; 0: none does */
    int64_t largest;
} counted;

static void *counted_resize(void *user, void *ptr, size_t old_size, size_t new_size) {
    counted *c = user;
    if (new_size) {
        if (++c->calls == c->fail_at) return NULL;
        if ((int64_t)new_size > c->largest) c->largest = (int64_t)new_size;
    }
    c->bytes += (int64_t)new_size - (int64_t)old_size;
    if (new_size) return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

static counted  count;
static kn_alloc alloc = {counted_resize, &count};

/* A copy of exactly `size` bytes, so that a sanitizer sees a read behind the end. */
static bool parse(const void *file, size_t size, kn_idx *x, kn_fault *f) {
    void *copy = malloc(size ? size : 1);
    if (size) memcpy(copy, file, size);
    *f = (kn_fault){0};
    bool ok = kn_idx_parse(&alloc, "file", copy, size, x, f);
    free(copy);
    return ok;
}

static bool refused(const void *file, size_t size) {
    kn_idx   x;
    kn_fault f;
    bool     ok = !parse(file, size, &x, &f) && f.code && f.text[0] && !x.data && count.bytes == 0;
    if (x.data) kn_idx_free(&x);
    return ok;
}

static const uint8_t small[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
static const uint8_t words[] = {0, 0, 0x0c, 1, 0, 0, 0, 2, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xfe};
static const uint8_t reals[] = {0, 0, 0x0e, 1, 0, 0, 0, 1, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0};

static void test_plain(void) {
    kn_idx   x;
    kn_fault f;
    CHECK(parse(small, sizeof(small), &x, &f));
    CHECK_EQ(x.dtype, KN_U8);
    CHECK_EQ(x.rank, 2);
    CHECK_EQ(x.dims[0], 2);
    CHECK_EQ(x.dims[1], 3);
    CHECK_EQ(x.count, 6);
    CHECK(memcmp(x.data, small + 12, 6) == 0);
    kn_idx_free(&x);
    CHECK(parse(words, sizeof(words), &x, &f));
    CHECK_EQ(x.dtype, KN_I32);
    CHECK_EQ(((int32_t *)x.data)[0], 7);
    CHECK_EQ(((int32_t *)x.data)[1], -2);
    kn_idx_free(&x);
    CHECK(parse(reals, sizeof(reals), &x, &f));
    CHECK_NEAR(*(double *)x.data, 1.5, 0);
    kn_idx_free(&x);
    CHECK_EQ(count.bytes, 0);
}

static void test_empty(void) {
    static const uint8_t none[] = {0, 0, 8, 1, 0, 0, 0, 0}, scalar[] = {0, 0, 8, 0, 42};
    kn_idx               x;
    kn_fault             f;
    CHECK(parse(none, sizeof(none), &x, &f));
    CHECK_EQ(x.count, 0);
    kn_idx_free(&x);
    CHECK(parse(scalar, sizeof(scalar), &x, &f));
    CHECK_EQ(x.count, 1);
    kn_idx_free(&x);
    CHECK_EQ(count.bytes, 0);
}

static void test_truncated(void) {
    for (size_t n = 0; n < sizeof(small); n++) CHECK(refused(small, n));
    for (size_t n = 0; n < sizeof(reals); n++) CHECK(refused(reals, n));
    uint8_t more[sizeof(small) + 1] = {0};
    memcpy(more, small, sizeof(small));
    CHECK(refused(more, sizeof(more)));
}

/* A flipped bit of the header changes type, rank or a size, so it never fits the bytes that follow. */
static void test_flipped(void) {
    uint8_t bad[sizeof(small)];
    for (size_t bit = 0; bit < 12 * 8; bit++) {
        memcpy(bad, small, sizeof(small));
        bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (bit == 2 * 8) { /* u8 to i8: as good a file */
            kn_idx   x;
            kn_fault f;
            CHECK(parse(bad, sizeof(bad), &x, &f));
            CHECK_EQ(x.dtype, KN_I8);
            kn_idx_free(&x);
        } else {
            CHECK(refused(bad, sizeof(bad)));
        }
    }
}

/* Sizes that nothing backs: refused before memory is asked for. */
static void test_huge(void) {
    uint8_t  huge[4 + 8 * 4 + 16];
    unsigned ranks[] = {1, 2, 3, 8};
    for (int i = 0; i < 4; i++) {
        memset(huge, 0xff, sizeof(huge));
        huge[0] = huge[1] = 0;
        huge[2] = 0x0e;
        huge[3] = (uint8_t)ranks[i];
        count.largest = 0;
        CHECK(refused(huge, sizeof(huge)));
        CHECK(count.largest < 100000);
    }
}

static void test_no_file(void) {
    kn_idx   x;
    kn_fault f = {0};
    CHECK(!kn_idx_read(&alloc, "there-is-no-such-file", &x, &f));
    CHECK_EQ(f.code, KN_ERR_IO);
    CHECK_EQ(count.bytes, 0);
}

static void test_read(void) {
    const char *path = "test_idx.tmp";
    kn_idx      x;
    kn_fault    f = {0};
    CHECK(kn_write_file(path, small, sizeof(small), 0600, &f));
    CHECK(kn_idx_read(&alloc, path, &x, &f));
    CHECK_EQ(x.count, 6);
    kn_idx_free(&x);
    CHECK_EQ(count.bytes, 0);
    remove(path);
}

#if KN_HAVE_ZLIB
static size_t gzip(const void *data, size_t size, uint8_t *out, size_t room) {
    z_stream z = {0};
    deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)room;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return z.total_out;
}

static void test_gzip(void) {
    uint8_t  file[200], bad[200];
    kn_idx   x;
    kn_fault f;
    size_t   n = gzip(small, sizeof(small), file, sizeof(file));
    CHECK(parse(file, n, &x, &f));
    CHECK_EQ(x.count, 6);
    CHECK(memcmp(x.data, small + 12, 6) == 0);
    kn_idx_free(&x);
    for (size_t k = 0; k < n; k++) CHECK(refused(file, k));
    /* Any flipped bit: refused, or harmless (the gzip header has a time and a hint, the last byte padding). */
    for (size_t bit = 0; bit < n * 8; bit++) {
        memcpy(bad, file, n);
        bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (parse(bad, n, &x, &f)) {
            CHECK(x.count == 6 && memcmp(x.data, small + 12, 6) == 0);
            kn_idx_free(&x);
        }
        CHECK_EQ(count.bytes, 0);
    }
    /* Two members are one stream; what follows them is not ignored. */
    size_t a = gzip(small, 7, file, sizeof(file)), b = gzip(small + 7, sizeof(small) - 7, file + a, sizeof(file) - a);
    CHECK(parse(file, a + b, &x, &f));
    CHECK_EQ(x.count, 6);
    kn_idx_free(&x);
    file[a + b] = 0;
    CHECK(refused(file, a + b + 1));
}

/* A small file that inflates to much: only what its header announces is ever held. */
static void test_bomb(void) {
    size_t   size = 8u << 20;
    uint8_t *zeros = calloc(size, 1), *file = malloc(65536);
    zeros[2] = 8;
    zeros[3] = 1;
    zeros[7] = 5;
    size_t n = gzip(zeros, size, file, 65536);
    count.largest = 0;
    CHECK(refused(file, n));
    CHECK(count.largest < 100000);
    zeros[4] = zeros[5] = 0xff; /* announces 4 GiB in 8 KiB */
    n = gzip(zeros, 20, file, 65536);
    CHECK(refused(file, n));
    CHECK(count.largest < 100000);
    free(zeros);
    free(file);
}
#else
static void test_gzip(void) {
    static const uint8_t file[] = {0x1f, 0x8b, 8, 0};
    kn_idx               x;
    kn_fault             f;
    CHECK(!parse(file, sizeof(file), &x, &f));
    CHECK_EQ(f.code, KN_ERR_UNSUPPORTED);
}
static void test_bomb(void) {
}
#endif

static void test_memory(void) {
    uint8_t file[200];
    size_t  n = sizeof(small);
    memcpy(file, small, n);
#if KN_HAVE_ZLIB
    n = gzip(small, sizeof(small), file, sizeof(file));
#endif
    for (int at = 1; at < 20; at++) {
        kn_idx   x;
        kn_fault f;
        count.calls = 0;
        count.fail_at = at;
        bool ok = parse(file, n, &x, &f);
        CHECK(ok || f.code == KN_ERR_MEMORY);
        if (ok) kn_idx_free(&x);
        CHECK_EQ(count.bytes, 0);
        if (ok && count.calls < at) break;
    }
    count.fail_at = 0;
}

int main(void) {
    RUN(test_plain);
    RUN(test_empty);
    RUN(test_truncated);
    RUN(test_flipped);
    RUN(test_huge);
    RUN(test_no_file);
    RUN(test_read);
    RUN(test_gzip);
    RUN(test_bomb);
    RUN(test_memory);
    return check_result();
}
