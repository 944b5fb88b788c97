/* token.c - the words, numbers, texts, names and constants of the text forms, and where in the text a fault is. */
#include "dialect/parse.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool kn_rd_fail(kn_reader *r, const char *at, kn_status code, const char *fmt, ...) {
    unsigned long line = 1, column = 1;
    for (const char *p = r->text; p < at; p++) {
        column++;
        if (*p == '\n') {
            line++;
            column = 1;
        }
    }
    char    what[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return kn_fail(r->f, code, "line %lu, column %lu: %s", line, column, what);
}

/* ---- tokens -------------------------------------------------------------------------------------------------- */

static bool is_word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

void kn_rd_space(kn_reader *r, bool newlines) {
    while (r->p < r->end) {
        char c = *r->p;
        if (c == '#') {
            while (r->p < r->end && *r->p != '\n') r->p++;
        } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && newlines)) {
            r->p++;
        } else {
            break;
        }
    }
}

char kn_rd_peek(const kn_reader *r) {
    return r->p < r->end ? *r->p : '\n';
}

bool kn_rd_expect(kn_reader *r, char c) {
    kn_rd_space(r, true);
    if (r->p < r->end && *r->p == c) {
        r->p++;
        return true;
    }
    return kn_rd_fail(r, r->p, KN_ERR_FORMAT, "expected '%c'", c);
}

/* A run of word characters; 0 if there is none. */
size_t kn_rd_word(kn_reader *r, const char **at) {
    *at = r->p;
    while (r->p < r->end && is_word_char(*r->p)) r->p++;
    return (size_t)(r->p - *at);
}

bool kn_rd_is(const char *at, size_t len, const char *text) {
    return strlen(text) == len && !memcmp(at, text, len);
}

int kn_rd_clip(size_t len) {
    return (int)KN_MIN(len, 40);
}

/* The characters of a number, sign included, 0-terminated in `out`. False: none, or too long to be one. */
size_t kn_rd_number(kn_reader *r, const char **at, char *out, size_t cap) {
    const char *p = *at = r->p;
    if (p < r->end && (*p == '-' || *p == '+')) p++;
    while (p < r->end && (is_word_char(*p) || ((*p == '-' || *p == '+') && (p[-1] == 'e' || p[-1] == 'E')))) p++;
    size_t n = (size_t)(p - *at);
    if (n + 1 > cap) n = 0;
    if (n) memcpy(out, *at, n);
    out[n] = 0;
    r->p   = p;
    return n;
}

bool kn_rd_is_integer(const char *s) {
    if (*s == '-') s++;
    if (!*s) return false;
    for (; *s; s++)
        if (*s < '0' || *s > '9') return false;
    return true;
}

static bool is_decimal_text(const char *s) {
    int digits = 0;
    if (*s == '-') s++;
    for (; *s >= '0' && *s <= '9'; s++) digits++;
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++) digits++;
    if (!digits) return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '-' || *s == '+') s++;
        if (!*s) return false;
        for (; *s; s++)
            if (*s < '0' || *s > '9') return false;
    }
    return !*s;
}

bool kn_rd_int(kn_reader *r, int64_t *v) {
    char        t[64];
    const char *at;
    kn_rd_space(r, true);
    if (!kn_rd_number(r, &at, t, sizeof t) || !kn_rd_is_integer(t))
        return kn_rd_fail(r, at, KN_ERR_FORMAT, "expected an integer");
    errno = 0;
    *v    = strtoll(t, NULL, 10);
    if (errno) return kn_rd_fail(r, at, KN_ERR_FORMAT, "%s does not fit 64 bits", t);
    return true;
}

bool kn_rd_string(kn_reader *r, uint32_t *id) {
    const char *at = r->p;
    kn_str      s;
    kn_str_init(&s, kg_alloc(r->g));
    r->p++; /* the opening quote */
    bool ok = false;
    while (r->p < r->end && *r->p != '"' && *r->p != '\n') {
        char c = *r->p++;
        if (c == '\\') {
            char e = r->p < r->end ? *r->p++ : 0;
            if (e == 'n')
                c = '\n';
            else if (e == 't')
                c = '\t';
            else if (e == '"' || e == '\\')
                c = e;
            else if (e == 'x' && r->end - r->p >= 2) {
                unsigned v = 0;
                for (int i = 0; i < 2; i++, r->p++) {
                    char h = *r->p;
                    if (h >= '0' && h <= '9')
                        v = v * 16 + (unsigned)(h - '0');
                    else if (h >= 'a' && h <= 'f')
                        v = v * 16 + (unsigned)(h - 'a') + 10;
                    else
                        goto bad_escape;
                }
                c = (char)v;
            } else {
            bad_escape:
                kn_rd_fail(r, r->p - 1, KN_ERR_FORMAT, "unknown escape; there are \\n \\t \\\" \\\\ and \\x00");
                goto done;
            }
        }
        kn_str_add(&s, &c, 1);
    }
    if (r->p >= r->end || *r->p != '"') {
        kn_rd_fail(r, at, KN_ERR_FORMAT, "the text has no end");
        goto done;
    }
    r->p++;
    if (s.failed || !(*id = kg_intern_str(r->g, kn_str_c(&s), s.len))) {
        kn_oom(r->f);
        goto done;
    }
    ok = true;
done:
    kn_str_free(&s);
    return ok;
}

/* ---- names --------------------------------------------------------------------------------------------------- */

static size_t name_slot(const kn_reader *r, const char *at, size_t len) {
    size_t i = (size_t)kn_hash(at, len, 3) & (r->table_cap - 1);
    while (r->table[i]) {
        const kn_rd_named *n = &r->names[r->table[i] - 1];
        if (n->len == len && !memcmp(n->at, at, len)) break;
        i = (i + 1) & (r->table_cap - 1);
    }
    return i;
}

const kn_rd_named *kn_rd_find(const kn_reader *r, const char *at, size_t len) {
    if (!r->table_cap) return NULL;
    size_t i = name_slot(r, at, len);
    return r->table[i] ? &r->names[r->table[i] - 1] : NULL;
}

bool kn_rd_add(kn_reader *r, const char *at, size_t len, kn_ref ref, kn_ref gate) {
    const kn_alloc *a = kg_alloc(r->g);
    if (!KN_GROW(a, r->names, r->names_cap, r->names_n + 1)) return kn_oom(r->f);
    if (2 * (r->names_n + 1) > r->table_cap) {
        size_t    cap = r->table_cap ? 2 * r->table_cap : 64, old = r->table_cap;
        uint32_t *t = kn_zalloc(a, cap * sizeof *t);
        if (!t) return kn_oom(r->f);
        kn_free(a, r->table, old * sizeof *t);
        r->table     = t;
        r->table_cap = cap;
        for (size_t i = 0; i < r->names_n; i++)
            r->table[name_slot(r, r->names[i].at, r->names[i].len)] = (uint32_t)i + 1;
    }
    r->names[r->names_n++]          = (kn_rd_named){at, len, ref, gate};
    r->table[name_slot(r, at, len)] = (uint32_t)r->names_n;
    return true;
}

/* "%name", which must be defined. */
bool kn_rd_name(kn_reader *r, kn_ref *ref, kn_ref *gate) {
    const char *at, *percent = r->p++;
    size_t      len = kn_rd_word(r, &at);
    if (!len) return kn_rd_fail(r, percent, KN_ERR_FORMAT, "expected a name after '%%'");
    const kn_rd_named *found = kn_rd_find(r, at, len);
    *ref                   = found ? found->ref : 0;
    *gate                  = found ? found->gate : 0;
    if (!*ref) return kn_rd_fail(r, percent, KN_ERR_FORMAT, "%%%.*s is not defined above", kn_rd_clip(len), at);
    return true;
}

int kn_rd_dtype_named(const char *at, size_t len) {
    int dt = kn_dtype_by_name(at, len);
    return dt >= 0 ? dt : kn_spelled_dtype(at, len);
}

/* ---- constants ----------------------------------------------------------------------------------------------- */

bool kn_rd_integer(kn_reader *r, const char *at, const char *t, int dt, uint64_t *bits) {
    const kn_dtype_info *d = &kn_dtypes[dt];
    errno                  = 0;
    if (dt == KN_U64) {
        *bits = strtoull(t, NULL, 10);
        if (errno || *t == '-') return kn_rd_fail(r, at, KN_ERR_FORMAT, "%s is out of range of u64", t);
        return true;
    }
    int64_t v = strtoll(t, NULL, 10);
    if (errno || v < d->min || v > d->max)
        return kn_rd_fail(r, at, KN_ERR_FORMAT, "%s is out of range of %s", t, d->name);
    *bits = (uint64_t)v;
    return true;
}

bool kn_rd_float(kn_reader *r, const char *at, const char *t, int dt, uint64_t *bits) {
    kn_scalar s;
    if (!strcmp(t, "inf") || !strcmp(t, "-inf")) {
        s.f = t[0] == '-' ? -INFINITY : INFINITY;
    } else if (!strcmp(t, "nan")) {
        uint64_t quiet = UINT64_C(0x7ff8000000000000);
        memcpy(bits, &quiet, sizeof quiet);
        return true;
    } else if (is_decimal_text(t)) {
        s.f = kn_text_double(t, NULL);
        s   = kn_cast_scalar(s, KN_F64, dt);
        if (!isfinite(s.f)) return kn_rd_fail(r, at, KN_ERR_FORMAT, "%s is out of range of %s", t, kn_dtypes[dt].name);
    } else {
        return kn_rd_fail(r, at, KN_ERR_FORMAT, "'%s' is not a number", t);
    }
    memcpy(bits, &s.f, sizeof *bits);
    return true;
}

/* "nan(0x...)", a NaN that is not the usual one. `at` stands on "nan". */
bool kn_rd_nan(kn_reader *r, const char *at, uint64_t *bits) {
    uint64_t v = 0;
    int      n = 0;
    r->p++; /* ( */
    if (r->end - r->p < 2 || r->p[0] != '0' || r->p[1] != 'x')
        return kn_rd_fail(r, r->p, KN_ERR_FORMAT, "expected 0x");
    for (r->p += 2; n < 17 && r->p < r->end; r->p++, n++) {
        char c = *r->p;
        if (c >= '0' && c <= '9')
            v = v * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v * 16 + (uint64_t)(c - 'a') + 10;
        else
            break;
    }
    double d;
    memcpy(&d, &v, sizeof d);
    if (n != 16 || !isnan(d)) return kn_rd_fail(r, at, KN_ERR_FORMAT, "not the 16 hexadecimal digits of a NaN");
    *bits = v;
    return kn_rd_expect(r, ')');
}

bool kn_rd_const(kn_reader *r, int *dtype, uint64_t *bits) {
    char        t[64];
    const char *at;
    size_t      n = kn_rd_number(r, &at, t, sizeof t);
    if (!n) return kn_rd_fail(r, at, KN_ERR_FORMAT, r->p == at ? "unexpected character" : "not a number");
    if (!strcmp(t, "true") || !strcmp(t, "false")) {
        *dtype = KN_BOOL;
        *bits  = t[0] == 't';
        return true;
    }
    bool odd_nan = !strcmp(t, "nan") && kn_rd_peek(r) == '(';
    if (odd_nan && !kn_rd_nan(r, at, bits)) return false;
    if (kn_rd_peek(r) != ':') {
        if (!kn_rd_is_integer(t))
            return kn_rd_fail(r, at, KN_ERR_FORMAT,
                               "'%s': expected an operand; a number that is no index needs its dtype, "
                               "as in 2.5:f32",
                               t);
        *dtype = KN_INDEX;
        return kn_rd_integer(r, at, t, KN_INDEX, bits);
    }
    r->p++;
    const char *name;
    size_t      len = kn_rd_word(r, &name);
    int         dt  = kn_rd_dtype_named(name, len);
    if (dt <= KN_VOID) return kn_rd_fail(r, name, KN_ERR_FORMAT, "'%.*s' is not a dtype", kn_rd_clip(len), name);
    *dtype = dt;
    if (kn_is_float(dt)) return odd_nan || kn_rd_float(r, at, t, dt, bits);
    if (odd_nan || !kn_rd_is_integer(t)) return kn_rd_fail(r, at, KN_ERR_FORMAT, "'%s' is not an integer", t);
    return kn_rd_integer(r, at, t, dt, bits);
}

void kn_rd_free(kn_reader *r) {
    const kn_alloc *a = kg_alloc(r->g);
    kn_free(a, r->names, r->names_cap * sizeof *r->names);
    kn_free(a, r->table, r->table_cap * sizeof *r->table);
    kn_free(a, r->frames, r->frames_cap * sizeof *r->frames);
    kn_free(a, r->src, r->src_cap * sizeof *r->src);
    kn_free(a, r->gate, r->gate_cap * sizeof *r->gate);
    kn_free(a, r->words, r->words_cap * sizeof *r->words);
}
