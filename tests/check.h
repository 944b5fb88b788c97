/* check.h - the smallest test library that is enough.
 *
 * A test is a function of no arguments; main calls RUN on each and returns check_result(). A failed check prints file,
 * line and values, and the test goes on. SKIP says why a program's tests cannot run here and ends it. */
#ifndef KN_CHECK_H
#define KN_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Built with a sanitizer of memory or threads: all takes ten times as long, and loops over cases take fewer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KN_SANITIZED 1
#elif defined(__has_feature) /* clang does not define the two above */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KN_SANITIZED 1
#endif
#endif
#ifndef KN_SANITIZED
#define KN_SANITIZED 0
#endif

bool check_true(bool ok, const char *text, const char *file, int line);
bool check_eq(long long a, long long b, const char *text, const char *file, int line);
bool check_near(double a, double b, double tolerance, const char *text, const char *file, int line);
bool check_str(const char *a, const char *b, const char *text, const char *file, int line);
void check_run(void (*fn)(void), const char *name);
int  check_result(void);
_Noreturn void check_skip(const char *why);

/* Each is an expression: true when the check holds. */
#define CHECK(cond) check_true((cond) ? true : false, #cond, __FILE__, __LINE__)
#define CHECK_EQ(a, b) check_eq((long long)(a), (long long)(b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_STR(a, b) check_str((a), (b), #a " == " #b, __FILE__, __LINE__)
/* |a - b| <= tolerance * max(1, |b|); NaN is near NaN alone, an infinity itself alone. */
#define CHECK_NEAR(a, b, tolerance) check_near((a), (b), (tolerance), #a " ~ " #b, __FILE__, __LINE__)
#define RUN(fn) check_run((fn), #fn)
#define SKIP(why) check_skip(why)

#endif
