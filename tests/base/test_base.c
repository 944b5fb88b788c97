/* The allocator, arenas, sizes, hashing, text and numbers of base.h. */
#include "base/base.h"
#include "check.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

/* Counts what is held, and fails from the n-th request on. */
typedef struct counting {
    size_t held;
    long   left; /* requests until failure; -1: never */
} counting;

static void *counting_resize(void *user, void *ptr, size_t old_size, size_t new_size) {
    counting *c = user;
    if (!new_size) {
        free(ptr);
        c->held -= old_size;
        return NULL;
    }
    if (c->left == 0) return NULL;
    if (c->left > 0) c->left--;
    void *p = realloc(ptr, new_size);
    if (p) c->held += new_size - old_size;
    return p;
}

static void test_sizes(void) {
    CHECK_EQ(kn_floor_div(-7, 2), -4);
    CHECK_EQ(kn_floor_div(7, -2), -4);
    CHECK_EQ(kn_floor_div(-8, 2), -4);
    CHECK_EQ(kn_floor_div(5, 0), 0);
    CHECK_EQ(kn_floor_div(INT64_MIN, -1), INT64_MIN);
    CHECK_EQ(kn_floor_mod(-7, 2), 1);
    CHECK_EQ(kn_floor_mod(7, -2), -1);
    CHECK_EQ(kn_floor_mod(5, 0), 5);
    CHECK_EQ(kn_floor_mod(INT64_MIN, -1), 0);
    for (int64_t a = -20; a <= 20; a++)
        for (int64_t b = -5; b <= 5; b++)
            if (b) CHECK_EQ(kn_floor_div(a, b) * b + kn_floor_mod(a, b), a);
    CHECK_EQ(kn_sat_add(INT64_MAX, 1), INT64_MAX);
    CHECK_EQ(kn_sat_add(INT64_MIN, -1), INT64_MIN);
    CHECK_EQ(kn_sat_mul(INT64_MAX, -2), INT64_MIN);
    CHECK_EQ(kn_sat_mul(INT64_MIN, -2), INT64_MAX);
    int64_t r = 7;
    CHECK(!kn_mul_ok(INT64_MAX, 2, &r) && r == 7);
    CHECK(!kn_add_ok(INT64_MAX, 1, &r) && r == 7);
    CHECK(kn_mul_ok(6, 7, &r) && r == 42);
}

static void test_arena(void) {
    counting c = {0, -1};
    kn_alloc a = {counting_resize, &c};
    kn_arena ar;
    kn_arena_init(&ar, &a);
    unsigned char *block[600];
    for (int i = 0; i < 600; i++) {
        block[i] = kn_arena_get(&ar, (size_t)i);
        if (!CHECK(block[i] && (uintptr_t)block[i] % 16 == 0)) break;
        memset(block[i], i & 255, (size_t)i);
    }
    for (int i = 1; i < 600; i++) CHECK(block[i][0] == (i & 255) && block[i][i - 1] == (i & 255));
    CHECK(kn_arena_get(&ar, SIZE_MAX) == NULL);
    CHECK_STR(kn_arena_copy(&ar, "seven", 6), "seven");
    kn_arena_free(&ar);
    CHECK_EQ(c.held, 0);
    c.left = 0;
    CHECK(kn_arena_get(&ar, 8) == NULL);
    kn_arena_free(&ar);
}

#ifdef __linux__
/* Whether the operating system was asked for large pages at p: 1 and 0, or -1 where it has none or does not say. */
static int is_advised(const void *p) {
    FILE *f    = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    FILE *maps = f ? fopen("/proc/self/smaps", "r") : NULL;
    int   is = -1, inside = 0;
    char  line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) inside = (uintptr_t)p >= from && (uintptr_t)p < to;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0) is = strstr(line, " hg") != NULL;
    }
    if (maps) fclose(maps);
    if (f) fclose(f);
    return is;
}
#else
static int is_advised(const void *p) { return p ? -1 : 0; }
#endif

/* Of blocks of 4 MB and more, and of an arena's of 1 MB and more, whole large pages are asked for. */
static void test_large(void) {
    enum { MB = 1 << 20 };
    size_t size = 9 * MB;
    char  *p    = kn_zalloc(NULL, size);
    if (!CHECK(p)) return;
    char *page = p + (-(uintptr_t)p & (KN_LARGE_PAGE - 1));
    CHECK(page[0] == 0 && page[5 * MB] == 0 && p[size - 1] == 0);
    CHECK(is_advised(page) != 0 && is_advised(page + 5 * MB) != 0);
    page[5 * MB] = 7;
    size_t at    = (size_t)(page + 5 * MB - p);
    char  *grown = kn_realloc(NULL, p, size, 3 * size);
    if (CHECK(grown)) CHECK(grown[at] == 7 && grown[size - 1] == 0);
    kn_free(NULL, grown ? grown : p, grown ? 3 * size : size);
    kn_arena ar;
    kn_arena_init(&ar, NULL);
    for (int i = 0; i < 5; i++) {
        char *large = kn_arena_get(&ar, (size_t)i * MB + MB + 1), *small = kn_arena_get(&ar, 64);
        if (!CHECK(large && small)) break;
        CHECK(is_advised(large) != 0);
        memset(large, i, (size_t)i * MB + MB + 1);
        memset(small, 99, 64);
        CHECK(large[0] == i && large[(size_t)i * MB + MB] == i);
    }
    kn_arena_free(&ar);
}

static void test_grow(void) {
    counting c = {0, -1};
    kn_alloc a = {counting_resize, &c};
    int     *v = NULL;
    size_t   cap = 0;
    for (int i = 0; i < 100; i++) {
        if (!CHECK(KN_GROW(&a, v, cap, (size_t)i + 1))) break;
        v[i] = i;
    }
    for (int i = 0; i < 100; i++) CHECK_EQ(v[i], i);
    size_t before = cap;
    CHECK(!KN_GROW(&a, v, cap, SIZE_MAX / 2));
    c.left = 0;
    CHECK(!KN_GROW(&a, v, cap, before + 1));
    CHECK(cap == before && v[99] == 99);
    kn_free(&a, v, cap * sizeof *v);
    CHECK_EQ(c.held, 0);
    CHECK(kn_realloc(NULL, NULL, 0, 0) == NULL);
    char *z = kn_zalloc(NULL, 32);
    CHECK(z && z[0] == 0 && z[31] == 0);
    kn_free(NULL, z, 32);
    kn_free(NULL, NULL, 0);
}

static void test_hash(void) {
    CHECK(kn_hash("abc", 3, 1) == kn_hash("abc", 3, 1));
    CHECK(kn_checksum("abc", 3) == kn_checksum("abc", 3) && kn_checksum("abc", 3) != kn_checksum("abd", 3));
#if !KN_HOSTILE
    CHECK(kn_hash("abc", 3, 1) != kn_hash("abd", 3, 1));
    CHECK(kn_hash("abc", 3, 1) != kn_hash("abc", 3, 2));
    CHECK(kn_hash("a\0", 2, 1) != kn_hash("a", 1, 1));
    /* Small integers fall evenly into the low bits, where tables look. */
    int bucket[256] = {0}, most = 0;
    for (uint64_t i = 0; i < 4096; i++) {
        int *b = &bucket[kn_hash(&i, sizeof i, 0) & 255];
        ++*b;
        most = KN_MAX(most, *b);
    }
    CHECK(most < 48);
#endif
}

static void test_text(void) {
    counting c = {0, -1};
    kn_alloc a = {counting_resize, &c};
    kn_str   s;
    kn_str_init(&s, &a);
    CHECK_STR(kn_str_c(&s), "");
    for (int i = 0; i < 100; i++) kn_str_putf(&s, "%d,", i);
    CHECK(s.len == 290 && !s.failed && strncmp(kn_str_c(&s), "0,1,2,", 6) == 0);
    kn_str_clear(&s);
    kn_str_putf(&s, "%0200d", 7);
    CHECK_EQ(s.len, 200);
    kn_str_puts(&s, "end");
    CHECK_STR(kn_str_c(&s) + 199, "7end");
    c.left        = 0;
    size_t before = s.len;
    kn_str_putf(&s, "%05000d", 7);
    CHECK(s.failed && s.len == before);
    kn_str_puts(&s, "no");
    CHECK(s.len == before && kn_str_c(&s)[before] == 0);
    kn_str_free(&s);
    CHECK_EQ(c.held, 0);
}

static void test_faults(void) {
    kn_fault f = {0};
    CHECK(!kn_fail(&f, KN_ERR_SHAPE, "(%d,%d)", 2, 3));
    CHECK(!kn_fail(&f, KN_ERR_ARG, "later"));
    CHECK_EQ(f.code, KN_ERR_SHAPE);
    CHECK_STR(f.text, "(2,3)");
    kn_fault g = {0};
    kn_fail(&g, KN_ERR_ARG, "%01000d", 1);
    CHECK_EQ(strlen(g.text), sizeof g.text - 1);
    kn_fault h = {0};
    CHECK(!kn_oom(&h) && h.code == KN_ERR_MEMORY);
}

static const char *text_of(double v, bool is_float) {
    static char out[40];
    kn_double_text(out, v, is_float);
    return out;
}

static uint64_t next_random(uint64_t *s) {
    *s += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *s;
    z          = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void test_numbers(void) {
    CHECK_STR(KN_NUM(2.0), "2");
    CHECK_STR(KN_NUM(-0.5), "-0.5");
    CHECK_STR(text_of(0.0, false), "0.0");
    CHECK_STR(text_of(-0.0, false), "-0.0");
    CHECK_STR(text_of(2.0, true), "2.0");
    CHECK_STR(text_of(-2.5, true), "-2.5");
    CHECK_STR(text_of(0.1, false), "0.1");
    CHECK_STR(text_of((double)0.1f, true), "0.1");
    CHECK_STR(text_of((double)0.1f, false), "0.10000000149011612");
    CHECK_STR(text_of(100.0, true), "100.0");
    CHECK_STR(text_of(1e16, false), "10000000000000000.0");
    CHECK_STR(text_of(1e17, false), "1e17");
    CHECK_STR(text_of(1.5e-7, false), "1.5e-7");
    CHECK_STR(text_of(0.00001234, false), "0.00001234");
    CHECK_STR(text_of(INFINITY, false), "inf");
    CHECK_STR(text_of(-INFINITY, true), "-inf");
    CHECK_STR(text_of(NAN, true), "nan");
    CHECK_STR(text_of(1.7976931348623157e308, false), "1.7976931348623157e308");
    CHECK_STR(text_of(5e-324, false), "5e-324");
    CHECK_STR(text_of(1.401298464324817e-45, true), "1e-45");
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random(&seed);
        double   v;
        memcpy(&v, &bits, 8);
        if (isfinite(v)) {
            const char *t = text_of(v, false);
            char       *end;
            CHECK(strlen(t) < 40 && kn_text_double(t, &end) == v && *end == 0);
        }
        uint32_t low = (uint32_t)bits;
        float    w;
        memcpy(&w, &low, 4);
        if (isfinite(w)) CHECK((float)kn_text_double(text_of((double)w, true), NULL) == w);
    }
}

static void check_parse(const char *text, double v, int used) {
    char  *end;
    double r = kn_text_double(text, &end);
    CHECK_NEAR(r, v, 0.0);
    if (!CHECK_EQ(end - text, used)) fprintf(stderr, "  of \"%s\"\n", text);
}

static void test_parsing(void) {
    check_parse("1", 1, 1);
    check_parse("  -1.25e2x", -125, 9);
    check_parse("+.5", 0.5, 3);
    check_parse("5.", 5, 2);
    check_parse("1e", 1, 1);
    check_parse("1e+", 1, 1);
    check_parse("1.2.3", 1.2, 3);
    check_parse("1,5", 1, 1);
    check_parse("", 0, 0);
    check_parse(".", 0, 0);
    check_parse("-", 0, 0);
    check_parse("x", 0, 0);
    check_parse("inf", INFINITY, 3);
    check_parse("-Infinity", -INFINITY, 9);
    check_parse("nan", NAN, 3);
    check_parse("1e400", INFINITY, 5);
    check_parse("1e-400", 0, 6);
    check_parse("0e999999999999", 0, 14);
    check_parse("1e99999999999999999999", INFINITY, 22);
    check_parse("0.000000000000000000000000000001", 1e-30, 32);
    CHECK(signbit(kn_text_double("-0.0", NULL)));
    /* 1 + 2^-53 is halfway between two doubles; a digit far behind it decides. */
    char text[2001];
    strcpy(text, "1.00000000000000011102230246251565404236316680908203125");
    CHECK(kn_text_double(text, NULL) == 1.0);
    size_t n = strlen(text);
    memset(text + n, '0', sizeof text - n);
    text[1999] = '1';
    text[2000] = 0;
    CHECK(kn_text_double(text, NULL) == 1.0000000000000002);
    memset(text, '0', 2000);
    text[1999] = '7';
    CHECK(kn_text_double(text, NULL) == 7.0);
    memset(text, '1', 300);
    text[300] = 0;
    CHECK_NEAR(kn_text_double(text, NULL) / 1.1111111111111112e299, 1.0, 1e-15);
}

/* A host may have set a locale with another radix; the numbers must not change. */
static void test_locale(void) {
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        printf("     (left out: no de_DE.UTF-8 here)\n");
        return;
    }
    char comma[16];
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    CHECK_STR(comma, "0,5");
    test_numbers();
    test_parsing();
    setlocale(LC_ALL, "C");
}

int main(void) {
    RUN(test_sizes);
    RUN(test_arena);
    RUN(test_large);
    RUN(test_grow);
    RUN(test_hash);
    RUN(test_text);
    RUN(test_faults);
    RUN(test_numbers);
    RUN(test_parsing);
    RUN(test_locale);
    return check_result();
}
