/* check.c - counts and prints what check.h promises. */
#include "check.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

static struct {
    int failures, tests, failed_tests;
} check_state;

/* After so many lines the rest of a test's failures are only counted. */
enum { CHECK_SHOWN = 20 };

static bool check_fail(const char *file, int line) {
    if (++check_state.failures > CHECK_SHOWN) return false;
    fprintf(stderr, "%s:%d: ", file, line);
    return true;
}

bool check_true(bool ok, const char *text, const char *file, int line) {
    if (!ok && check_fail(file, line)) fprintf(stderr, "CHECK(%s)\n", text);
    return ok;
}

bool check_eq(long long a, long long b, const char *text, const char *file, int line) {
    if (a == b) return true;
    if (check_fail(file, line)) fprintf(stderr, "%s: %lld, %lld\n", text, a, b);
    return false;
}

bool check_near(double a, double b, double tolerance, const char *text, const char *file, int line) {
    bool ok = isnan(b) ? isnan(a) : a == b || fabs(a - b) <= tolerance * fmax(1.0, fabs(b));
    if (isinf(b) && a != b) ok = false;
    if (!ok && check_fail(file, line)) fprintf(stderr, "%s: %.17g, %.17g (tolerance %g)\n", text, a, b, tolerance);
    return ok;
}

bool check_str(const char *a, const char *b, const char *text, const char *file, int line) {
    if (a && b && strcmp(a, b) == 0) return true;
    if (check_fail(file, line))
        fprintf(stderr, "%s:\n--- got\n%s\n--- wanted\n%s\n", text, a ? a : "(null)", b ? b : "(null)");
    return false;
}

void check_run(void (*fn)(void), const char *name) {
    int before = check_state.failures;
    fflush(stdout);
    const char *locale = getenv("KN_TEST_LOCALE"); /* what a host program may have done */
    if (locale) setlocale(LC_ALL, locale);
    fn();
    int failed = check_state.failures - before;
    check_state.tests++;
    if (failed) {
        check_state.failed_tests++;
        printf("FAIL %s (%d failed checks)\n", name, failed);
    } else {
        printf("ok   %s\n", name);
    }
    fflush(stdout);
}

int check_result(void) {
    if (check_state.failures) printf("%d of %d tests failed\n", check_state.failed_tests, check_state.tests);
    return check_state.failures ? 1 : 0;
}

void check_skip(const char *why) {
    printf("skipped: %s\n", why);
    exit(check_state.failures ? 1 : 77);
}
