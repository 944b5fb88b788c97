/* str.c - growing text, and numbers as text whatever the host's locale.
 *
 * Contract: base.h. Numbers never go through a radix character: digits are taken from "%e" and placed here, and what
 * is read is handed to strtod as whole digits with an exponent. */
#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---------------------------------------------------------------------------------------------------- */

void kn_str_init(kn_str *s, const kn_alloc *a) {
    *s = (kn_str){.alloc = a};
}

void kn_str_free(kn_str *s) {
    kn_free(s->alloc, s->data, s->cap);
    kn_str_init(s, s->alloc);
}

void kn_str_clear(kn_str *s) {
    s->len    = 0;
    s->failed = false;
    if (s->data) s->data[0] = 0;
}

static bool str_room(kn_str *s, size_t more) {
    if (s->failed) return false;
    if (more > SIZE_MAX - s->len - 1 || !KN_GROW(s->alloc, s->data, s->cap, s->len + more + 1)) s->failed = true;
    return !s->failed;
}

void kn_str_add(kn_str *s, const char *data, size_t len) {
    if (!str_room(s, len)) return;
    if (len) memcpy(s->data + s->len, data, len);
    s->len += len;
    s->data[s->len] = 0;
}

void kn_str_puts(kn_str *s, const char *text) {
    kn_str_add(s, text, strlen(text));
}

void kn_str_vputf(kn_str *s, const char *fmt, va_list ap) {
    if (!str_room(s, 64)) return;
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(s->data + s->len, s->cap - s->len, fmt, ap);
    if (n >= 0 && (size_t)n >= s->cap - s->len && str_room(s, (size_t)n))
        n = vsnprintf(s->data + s->len, s->cap - s->len, fmt, again);
    va_end(again);
    if (n < 0) s->failed = true;
    if (s->failed)
        s->data[s->len] = 0; /* nothing half-written stays */
    else
        s->len += (size_t)n;
}

void kn_str_putf(kn_str *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    kn_str_vputf(s, fmt, ap);
    va_end(ap);
}

const char *kn_str_c(const kn_str *s) {
    return s->data ? s->data : "";
}

/* ---- numbers to text ----------------------------------------------------------------------------------------- */

/* |v| as decimal digits d1 d2 ... and exponent e: d1.d2d3... * 10^e, rounded to `want` digits. Returns the digits
 * left when trailing zeros are dropped. `v` is finite. */
static int num_digits(double v, int want, char *digits, int *exponent) {
    char text[48];
    snprintf(text, sizeof text, "%.*e", want - 1, v);
    int         n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p; /* skips sign and radix, which may be any bytes */
    *exponent = *p ? (int)strtol(p + 1, NULL, 10) : 0;
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
    return n;
}

/* Lays the digits out: plain while that is short, else with an exponent; always with a point or an exponent. */
static void num_layout(char *out, const char *digits, int n, int e) {
    if (e < -5 || e > 16) {
        *out++ = digits[0];
        if (n > 1) {
            *out++ = '.';
            memcpy(out, digits + 1, (size_t)(n - 1));
            out += n - 1;
        }
        snprintf(out, 8, "e%d", e);
        return;
    }
    if (e < 0) {
        *out++ = '0';
        *out++ = '.';
        for (int i = -1; i > e; i--) *out++ = '0';
        memcpy(out, digits, (size_t)n);
        out += n;
    } else {
        for (int i = 0; i <= e; i++) *out++ = i < n ? digits[i] : '0';
        *out++ = '.';
        if (n <= e + 1) *out++ = '0';
        for (int i = e + 1; i < n; i++) *out++ = digits[i];
    }
    *out = 0;
}

void kn_double_text(char *out, double v, bool is_float) {
    if (isnan(v)) {
        memcpy(out, "nan", 4);
        return;
    }
    if (signbit(v)) {
        *out++ = '-';
        v      = -v;
    }
    if (isinf(v)) {
        memcpy(out, "inf", 4);
        return;
    }
    char digits[24];
    int  e = 0, n = 0, last = is_float ? 9 : 17;
    for (int want = 1; want <= last; want++) {
        n = num_digits(v, want, digits, &e);
        char back[40];
        snprintf(back, sizeof back, "%se%d", digits, e - (n - 1));
        double r = strtod(back, NULL);
        if (is_float ? (float)r == (float)v : r == v) break;
    }
    num_layout(out, digits, n, e);
}

const char *kn_num(char *out, double v) {
    kn_double_text(out, v, false);
    size_t n = strlen(out);
    if (n > 2 && out[n - 2] == '.' && out[n - 1] == '0') out[n - 2] = 0;
    return out;
}

/* ---- text to numbers ----------------------------------------------------------------------------------------- */

static bool num_is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Whether s begins with the lower-case word, in any case. */
static bool num_word(const char *s, const char *word) {
    for (; *word; s++, word++)
        if (*s != *word && *s != *word - 'a' + 'A') return false;
    return true;
}

double kn_text_double(const char *s, char **end) {
    const char *p = s;
    if (end) *end = (char *)s;
    while (*p == ' ' || (*p >= '\t' && *p <= '\r')) p++;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    if (num_word(p, "inf") || num_word(p, "nan")) {
        double v = num_word(p, "inf") ? (double)INFINITY : (double)NAN;
        p += num_word(p, "infinity") ? 8 : 3;
        if (end) *end = (char *)p;
        return negative ? -v : v;
    }
    /* 800 digits decide the rounding of any double (the longest halfway case has 768); of more, only whether any is
     * not zero matters. */
    enum { KEEP = 800 };
    char    digits[KEEP + 32];
    int     n    = 0;
    int64_t exp  = 0;
    bool    any = false, point = false, sticky = false;
    for (; num_is_digit(*p) || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        any = true;
        if (n == 0 && *p == '0') {
            exp -= point;
        } else if (n < KEEP) {
            digits[n++] = *p;
            exp -= point;
        } else {
            sticky |= *p != '0';
            exp += !point;
        }
    }
    if (!any) return 0.0;
    if (*p == 'e' || *p == 'E') {
        const char *q   = p + 1;
        bool        neg = *q == '-';
        if (*q == '-' || *q == '+') q++;
        if (num_is_digit(*q)) {
            int64_t x = 0;
            for (; num_is_digit(*q); q++)
                if (x < 100000000) x = x * 10 + (*q - '0');
            exp += neg ? -x : x;
            p = q;
        }
    }
    if (end) *end = (char *)p;
    double v = 0.0;
    if (n) {
        if (sticky) {
            digits[n++] = '1';
            exp--;
        }
        exp = KN_MAX(-1000000, KN_MIN(exp, 1000000));
        snprintf(digits + n, sizeof digits - (size_t)n, "e%d", (int)exp);
        v = strtod(digits, NULL);
    }
    return negative ? -v : v;
}
