/* test_npy.c - .npy files: what is written reads back, what numpy writes is read, and no bytes crash the reader. */
#define _GNU_SOURCE
#include "check.h"
#include "format/npy.h"

#include <stdlib.h>
#include <unistd.h>

/* A version 1 file: header text padded as numpy does, then the elements. */
static size_t make(char *out, const char *header, const void *data, size_t bytes) {
    size_t n = 10 + strlen(header);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    memcpy(out + 10, header, strlen(header));
    while ((n + 1) % 64) out[n++] = ' ';
    out[n++] = '\n';
    out[8]   = (char)((n - 10) & 255);
    out[9]   = (char)((n - 10) >> 8);
    if (bytes) memcpy(out + n, data, bytes);
    return n + bytes;
}

static void test_parse(void) {
    char     file[1024];
    float    v[6] = {1, 2, 3, 4, 5, 6};
    kn_npy   x;
    kn_fault f = {0};
    size_t   n = make(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", v, sizeof v);
    CHECK(kn_npy_parse(NULL, "a", file, n, &x, &f));
    CHECK_EQ(x.dtype, KN_F32);
    CHECK_EQ(x.rank, 2);
    CHECK_EQ(x.dims[0] * 10 + x.dims[1], 23);
    CHECK_EQ(x.count, 6);
    CHECK(x.data && !memcmp(x.data, v, sizeof v));
    kn_npy_free(&x);
    uint8_t b[2] = {0, 7};
    n            = make(file, "{\"shape\":(2,),\"fortran_order\":True,\"descr\":\"|b1\"}", b, 2);
    CHECK(kn_npy_parse(NULL, "b", file, n, &x, &f));
    CHECK(x.data && ((uint8_t *)x.data)[1] == 1);
    kn_npy_free(&x);
    n = make(file, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", v, 8);
    CHECK(kn_npy_parse(NULL, "c", file, n, &x, &f));
    CHECK_EQ(x.rank, 0);
    CHECK_EQ(x.count, 1);
    kn_npy_free(&x);
    CHECK_STR(f.text, "");
}

static void refuse(const char *header, size_t bytes, const char *why) {
    static char file[4096], data[2048];
    kn_npy      x;
    kn_fault    f = {0};
    size_t      n = make(file, header, data, bytes);
    CHECK(!kn_npy_parse(NULL, "bad.npy", file, n, &x, &f));
    CHECK(x.data == NULL);
    if (!strstr(f.text, why)) CHECK_STR(f.text, why);
    kn_npy_free(&x);
}

static void test_errors(void) {
    refuse("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", 8, "big-endian");
    refuse("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1)}", 8, "Fortran order");
    refuse("{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", 16, "'<c8'");
    refuse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8, "structured");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 8, "asks for 12 bytes");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 8, "asks for 4 bytes");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 8, "out of range");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9223372036854775807)}", 0,
           "out of range");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 8, "out of range");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 8, "not a number");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", 8, "not a tuple");
    refuse("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}", 8, "neither True nor False");
    refuse("{'descr': '<f4', 'shape': (2,)}", 8, "lacks");
    refuse("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8, "repeated");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8, "behind");
    refuse("nothing", 8, "dictionary");
}

/* Every truncation and every flipped bit gives an array or an error. */
static void test_hostile(void) {
    char   file[256], copy[256];
    float  v[3] = {1, 2, 3};
    size_t n    = make(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", v, sizeof v);
    for (size_t cut = 0; cut < n; cut++) {
        kn_npy   x;
        kn_fault f     = {0};
        char    *exact = malloc(cut + !cut);
        memcpy(exact, file, cut);
        CHECK(!kn_npy_parse(NULL, "cut", exact, cut, &x, &f));
        CHECK(f.code != KN_OK);
        free(exact);
    }
    for (size_t bit = 0; bit < 8 * n; bit++) {
        kn_npy   x;
        kn_fault f = {0};
        memcpy(copy, file, n);
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
        bool ok       = kn_npy_parse(NULL, "bit", copy, n, &x, &f);
        CHECK_EQ(ok, f.code == KN_OK);
        kn_npy_free(&x);
    }
}

static void test_write(void) {
    char name[] = "test_npy.XXXXXX";
    int  fd     = mkstemp(name);
    CHECK(fd >= 0);
    close(fd);
    for (int dt = KN_BOOL; dt < KN_DTYPE_COUNT; dt++) {
        kn_fault f = {0};
        kn_npy   x;
        uint8_t  data[48];
        int64_t  dims[2] = {2, 3};
        for (int i = 0; i < 48; i++) data[i] = (uint8_t)(i & 1);
        bool has = dt != KN_BF16 && dt != KN_F8E4M3 && dt != KN_F8E5M2;
        CHECK_EQ(kn_npy_write(NULL, name, (kn_dtype)dt, dims, 2, data, &f), has);
        if (!has) continue;
        CHECK(kn_npy_read(NULL, name, &x, &f));
        CHECK_EQ(x.dtype, dt == KN_INDEX ? KN_I64 : dt);
        CHECK_EQ(x.rank * 100 + x.dims[0] * 10 + x.dims[1], 223);
        CHECK(x.data && !memcmp(x.data, data, x.bytes));
        kn_npy_free(&x);
    }
    unlink(name);
    kn_fault f = {0};
    kn_npy   x;
    CHECK(!kn_npy_read(NULL, name, &x, &f));
    CHECK_EQ(f.code, KN_ERR_IO);
}

int main(void) {
    RUN(test_parse);
    RUN(test_errors);
    RUN(test_hostile);
    RUN(test_write);
    return check_result();
}
