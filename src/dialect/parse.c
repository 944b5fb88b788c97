/* parse.c - the text form, read.
 *
 * Contract: any bytes give a graph or a fault with line and column, never a crash; nesting is bounded by memory alone.
 * A type that is written is checked against the derived one. A node that kg_make refuses is an error at its statement;
 * the graph's own fault stays as it was, so that a bad text does not poison the graph it was read into.
 *
 *   program   = { [ statement ] newline }           statement = "%" name "=" node [ ":" type ]
 *   node      = OP [ "!" tag ] [ "{" arg "}" ] { operand }
 *   operand   = "%" name | constant | "[" [ operand { "," operand } ] "]" | "(" node [ ":" type ] ")"
 *   constant  = integer | number ":" dtype | "true" | "false"
 *   type      = dtype [ "[" size { "," size } "]" ] with size = integer | "%" name | "?"
 * "#" starts a comment. A newline ends a statement, except inside brackets. The bestiary's spellings are in spell.c. An
 * INDEX whose last source is a bool is a gated one: the gate goes to the LOAD or STORE that uses it. */
#include "dialect/spell.h"
#include "dialect/why.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct text_name {
    const char *at;
    size_t      len;
    kn_ref      ref, gate;
} text_name;

/* A node whose sources are being read. */
typedef struct text_frame {
    int                op, dtype;
    uint16_t           tag;
    uint64_t           arg;
    size_t             base;  /* of its sources in reader.src */
    char               close; /* what ends it: '\n' (a statement), ')' or ']' */
    bool               comma; /* in a list: the next thing is a comma or the end */
    const char        *at;
    const kn_spelling *spelling; /* NULL: the dialect's own */
} text_frame;

typedef struct reader {
    kn_graph   *g;
    kn_fault   *f;
    const char *text, *p, *end;
    text_name  *names;
    size_t      names_cap, names_n;
    uint32_t   *table; /* hash -> name + 1; a power of two */
    size_t      table_cap;
    text_frame *frames;
    size_t      frames_cap, depth;
    kn_ref     *src, *gate; /* gate[i]: of a gated INDEX src[i], else 0 */
    size_t      src_cap, gate_cap, src_n;
    int64_t    *words;
    size_t      words_cap, words_n;
    bool        gated; /* the last statement is a gated INDEX */
} reader;

static bool reader_fail(reader *r, const char *at, kn_status code, const char *fmt, ...) KN_PRINTF(4, 5);
static bool reader_fail(reader *r, const char *at, kn_status code, const char *fmt, ...) {
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

static void skip_space(reader *r, bool newlines) {
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

static char peek(const reader *r) {
    return r->p < r->end ? *r->p : '\n';
}

static bool expect(reader *r, char c) {
    skip_space(r, true);
    if (r->p < r->end && *r->p == c) {
        r->p++;
        return true;
    }
    return reader_fail(r, r->p, KN_ERR_FORMAT, "expected '%c'", c);
}

/* A run of word characters; 0 if there is none. */
static size_t word(reader *r, const char **at) {
    *at = r->p;
    while (r->p < r->end && is_word_char(*r->p)) r->p++;
    return (size_t)(r->p - *at);
}

static bool word_is(const char *at, size_t len, const char *text) {
    return strlen(text) == len && !memcmp(at, text, len);
}

static int clip(size_t len) {
    return (int)KN_MIN(len, 40);
}

/* The characters of a number, sign included, 0-terminated in `out`. False: none, or too long to be one. */
static size_t number_text(reader *r, const char **at, char *out, size_t cap) {
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

static bool is_integer_text(const char *s) {
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

static bool read_int(reader *r, int64_t *v) {
    char        t[64];
    const char *at;
    skip_space(r, true);
    if (!number_text(r, &at, t, sizeof t) || !is_integer_text(t))
        return reader_fail(r, at, KN_ERR_FORMAT, "expected an integer");
    errno = 0;
    *v    = strtoll(t, NULL, 10);
    if (errno) return reader_fail(r, at, KN_ERR_FORMAT, "%s does not fit 64 bits", t);
    return true;
}

static bool read_string(reader *r, uint32_t *id) {
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
                reader_fail(r, r->p - 1, KN_ERR_FORMAT, "unknown escape; there are \\n \\t \\\" \\\\ and \\x00");
                goto done;
            }
        }
        kn_str_add(&s, &c, 1);
    }
    if (r->p >= r->end || *r->p != '"') {
        reader_fail(r, at, KN_ERR_FORMAT, "the text has no end");
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

static size_t name_slot(const reader *r, const char *at, size_t len) {
    size_t i = (size_t)kn_hash(at, len, 3) & (r->table_cap - 1);
    while (r->table[i]) {
        const text_name *n = &r->names[r->table[i] - 1];
        if (n->len == len && !memcmp(n->at, at, len)) break;
        i = (i + 1) & (r->table_cap - 1);
    }
    return i;
}

static const text_name *find_name(const reader *r, const char *at, size_t len) {
    if (!r->table_cap) return NULL;
    size_t i = name_slot(r, at, len);
    return r->table[i] ? &r->names[r->table[i] - 1] : NULL;
}

static bool add_name(reader *r, const char *at, size_t len, kn_ref ref, kn_ref gate) {
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
    r->names[r->names_n++]          = (text_name){at, len, ref, gate};
    r->table[name_slot(r, at, len)] = (uint32_t)r->names_n;
    return true;
}

/* "%name", which must be defined. */
static bool read_name(reader *r, kn_ref *ref, kn_ref *gate) {
    const char *at, *percent = r->p++;
    size_t      len = word(r, &at);
    if (!len) return reader_fail(r, percent, KN_ERR_FORMAT, "expected a name after '%%'");
    const text_name *found = find_name(r, at, len);
    *ref                   = found ? found->ref : 0;
    *gate                  = found ? found->gate : 0;
    if (!*ref) return reader_fail(r, percent, KN_ERR_FORMAT, "%%%.*s is not defined above", clip(len), at);
    return true;
}

static int text_dtype(const char *at, size_t len) {
    int dt = kn_dtype_by_name(at, len);
    return dt >= 0 ? dt : kn_spelled_dtype(at, len);
}

/* ---- constants ----------------------------------------------------------------------------------------------- */

static bool const_integer(reader *r, const char *at, const char *t, int dt, uint64_t *bits) {
    const kn_dtype_info *d = &kn_dtypes[dt];
    errno                  = 0;
    if (dt == KN_U64) {
        *bits = strtoull(t, NULL, 10);
        if (errno || *t == '-') return reader_fail(r, at, KN_ERR_FORMAT, "%s is out of range of u64", t);
        return true;
    }
    int64_t v = strtoll(t, NULL, 10);
    if (errno || v < d->min || v > d->max)
        return reader_fail(r, at, KN_ERR_FORMAT, "%s is out of range of %s", t, d->name);
    *bits = (uint64_t)v;
    return true;
}

static bool const_float(reader *r, const char *at, const char *t, int dt, uint64_t *bits) {
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
        if (!isfinite(s.f)) return reader_fail(r, at, KN_ERR_FORMAT, "%s is out of range of %s", t, kn_dtypes[dt].name);
    } else {
        return reader_fail(r, at, KN_ERR_FORMAT, "'%s' is not a number", t);
    }
    memcpy(bits, &s.f, sizeof *bits);
    return true;
}

/* "nan(0x...)", a NaN that is not the usual one. `at` stands on "nan". */
static bool nan_bits(reader *r, const char *at, uint64_t *bits) {
    uint64_t v = 0;
    int      n = 0;
    r->p++; /* ( */
    if (r->end - r->p < 2 || r->p[0] != '0' || r->p[1] != 'x')
        return reader_fail(r, r->p, KN_ERR_FORMAT, "expected 0x");
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
    if (n != 16 || !isnan(d)) return reader_fail(r, at, KN_ERR_FORMAT, "not the 16 hexadecimal digits of a NaN");
    *bits = v;
    return expect(r, ')');
}

static bool read_const(reader *r, int *dtype, uint64_t *bits) {
    char        t[64];
    const char *at;
    size_t      n = number_text(r, &at, t, sizeof t);
    if (!n) return reader_fail(r, at, KN_ERR_FORMAT, r->p == at ? "unexpected character" : "not a number");
    if (!strcmp(t, "true") || !strcmp(t, "false")) {
        *dtype = KN_BOOL;
        *bits  = t[0] == 't';
        return true;
    }
    bool odd_nan = !strcmp(t, "nan") && peek(r) == '(';
    if (odd_nan && !nan_bits(r, at, bits)) return false;
    if (peek(r) != ':') {
        if (!is_integer_text(t))
            return reader_fail(r, at, KN_ERR_FORMAT,
                               "'%s': expected an operand; a number that is no index needs its dtype, "
                               "as in 2.5:f32",
                               t);
        *dtype = KN_INDEX;
        return const_integer(r, at, t, KN_INDEX, bits);
    }
    r->p++;
    const char *name;
    size_t      len = word(r, &name);
    int         dt  = text_dtype(name, len);
    if (dt <= KN_VOID) return reader_fail(r, name, KN_ERR_FORMAT, "'%.*s' is not a dtype", clip(len), name);
    *dtype = dt;
    if (kn_is_float(dt)) return odd_nan || const_float(r, at, t, dt, bits);
    if (odd_nan || !is_integer_text(t)) return reader_fail(r, at, KN_ERR_FORMAT, "'%s' is not an integer", t);
    return const_integer(r, at, t, dt, bits);
}

/* ---- args ---------------------------------------------------------------------------------------------------- */

static bool one_of(reader *r, const char *const *names, int n, const char *what, int64_t *v) {
    const char *at;
    skip_space(r, true);
    size_t len = word(r, &at);
    for (int i = 0; i < n; i++)
        if (word_is(at, len, names[i])) {
            *v = i;
            return true;
        }
    return reader_fail(r, at, KN_ERR_FORMAT, "'%.*s' is not %s", clip(len), at, what);
}

static bool read_dtype(reader *r, int64_t *v) {
    const char *at;
    skip_space(r, true);
    size_t len = word(r, &at);
    *v         = text_dtype(at, len);
    return *v >= 0 || reader_fail(r, at, KN_ERR_FORMAT, "'%.*s' is not a dtype", clip(len), at);
}

static bool read_quoted(reader *r, uint32_t *id) {
    skip_space(r, true);
    if (peek(r) != '"') return reader_fail(r, r->p, KN_ERR_FORMAT, "expected a text in double quotes");
    return read_string(r, id);
}

static bool read_field(reader *r, const kn_field *f, int64_t *v) {
    static const char *const bools[] = {"false", "true"};
    const char              *at;
    uint32_t                 id;
    switch (f->type) {
    case 'i': return read_int(r, v);
    case 't': return read_dtype(r, v);
    case 'a': return one_of(r, kn_space_names, KN_SPACE_COUNT, "an address space", v);
    case 'x': return one_of(r, kn_axis_names, KN_AXIS_COUNT, "an axis type", v);
    case 'b': return one_of(r, bools, 2, "true or false", v);
    case 's':
        if (!read_quoted(r, &id)) return false;
        *v = id;
        return true;
    default: {
        skip_space(r, true);
        size_t len = word(r, &at);
        *v         = kn_op_by_name(at, len);
        return *v > 0 || reader_fail(r, at, KN_ERR_FORMAT, "'%.*s' is not an op", clip(len), at);
    }
    }
}

static bool push_word(reader *r, int64_t v) {
    if (!KN_GROW(kg_alloc(r->g), r->words, r->words_cap, r->words_n + 1)) return kn_oom(r->f);
    r->words[r->words_n++] = v;
    return true;
}

static bool read_list(reader *r) {
    int64_t v;
    if (!expect(r, '(')) return false;
    skip_space(r, true);
    if (peek(r) == ')') {
        r->p++;
        return true;
    }
    for (;;) {
        if (!read_int(r, &v) || !push_word(r, v)) return false;
        skip_space(r, true);
        if (peek(r) != ',') return expect(r, ')');
        r->p++;
    }
}

/* name=value, ... up to the brace; `present`: there is a brace at all. */
static bool read_words(reader *r, kn_arg_kind kind, const kn_spelling *s, bool present, uint64_t *arg) {
    kn_arg_info info = kn_arg_info_of(kind);
    uint32_t    seen = 0;
    r->words_n       = 0;
    for (int i = 0; i < info.fixed; i++) {
        const kn_field *f = kn_arg_field(kind, i);
        bool            a = s && f->type == 'a' && s->space >= 0, t = s && f->type == 't' && s->dtype >= 0;
        if (!push_word(r, a ? s->space : t ? s->dtype : f->dflt)) return false;
    }
    if (present) skip_space(r, true);
    if (present && peek(r) != '}')
        for (;;) {
            const char *at;
            skip_space(r, true);
            size_t          len = word(r, &at);
            int             k   = 0;
            const kn_field *f;
            while ((f = kn_arg_field(kind, k)) && !word_is(at, len, f->name)) k++;
            if (!f) return reader_fail(r, at, KN_ERR_FORMAT, "'%.*s' is not a field of %s", clip(len), at, info.name);
            if (seen >> k & 1) return reader_fail(r, at, KN_ERR_FORMAT, "%s is given twice", f->name);
            seen |= 1u << k;
            int64_t v = 0;
            if (!expect(r, '=')) return false;
            if (f->type == 'l' ? !read_list(r) : !read_field(r, f, &v)) return false;
            if (f->type != 'l') r->words[k] = v;
            skip_space(r, true);
            if (peek(r) != ',') break;
            r->p++;
        }
    *arg = kg_intern_words(r->g, r->words, (int)r->words_n);
    return *arg || kn_oom(r->f);
}

/* {begin_pads=(1, 0), end_pads=(0, 2)} of PAD, {begins=(1, 0), ends=(3, 2)} of SHRINK: both lists in one run of words.
 */
static bool read_box(reader *r, text_frame *fr) {
    static const char *const names[2][2] = {{"begin_pads", "end_pads"}, {"begins", "ends"}};
    fr->spelling                         = fr->op == KN_OP_PAD ? &kn_spell_pad : &kn_spell_shrink;
    r->words_n                           = 0;
    for (int k = 0; k < 2; k++) {
        const char *at, *want = names[fr->op == KN_OP_SHRINK][k];
        skip_space(r, true);
        size_t len = word(r, &at);
        if (!word_is(at, len, want)) return reader_fail(r, at, KN_ERR_FORMAT, "expected %s", want);
        if (!expect(r, '=') || !read_list(r) || (k == 0 && !expect(r, ','))) return false;
    }
    fr->arg = kg_intern_words(r->g, r->words, (int)r->words_n);
    return fr->arg || kn_oom(r->f);
}

static bool read_arg(reader *r, text_frame *fr, bool present) {
    kn_arg_kind kind = fr->spelling && fr->spelling->arg != KN_ARG_COUNT ? fr->spelling->arg : kn_ops[fr->op].arg;
    const char *at   = r->p;
    int64_t     v    = 0;
    uint32_t    id   = 0;
    fr->arg          = 0;
    if (kn_arg_is_words(kind)) return read_words(r, kind, fr->spelling, present, &fr->arg);
    if (!present) {
        if (kind == KN_ARG_DTYPE)
            return reader_fail(r, at, KN_ERR_FORMAT, "%s needs a dtype, as in {f32}", kn_ops[fr->op].name);
        if (kind == KN_ARG_CONST) return reader_fail(r, at, KN_ERR_FORMAT, "CONST needs a value, as in {2.5:f32}");
        return true;
    }
    switch (kind) {
    case KN_ARG_NONE:
        if (fr->op == KN_OP_PAD || fr->op == KN_OP_SHRINK) return read_box(r, fr);
        return reader_fail(r, at, KN_ERR_FORMAT, "%s takes no arg", kn_ops[fr->op].name);
    case KN_ARG_INT:
        if (!read_int(r, &v)) return false;
        break;
    case KN_ARG_DTYPE:
        if (!read_dtype(r, &v)) return false;
        break;
    case KN_ARG_CONST: skip_space(r, true); return read_const(r, &fr->dtype, &fr->arg);
    default:
        if (!read_quoted(r, &id)) return false;
        v = id;
        break;
    }
    fr->arg = (uint64_t)v;
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

static bool push_src(reader *r, kn_ref n, kn_ref gate) {
    if (!KN_GROW(kg_alloc(r->g), r->src, r->src_cap, r->src_n + 1) ||
        !KN_GROW(kg_alloc(r->g), r->gate, r->gate_cap, r->src_n + 1))
        return kn_oom(r->f);
    r->gate[r->src_n]  = gate;
    r->src[r->src_n++] = n;
    return true;
}

static text_frame *push_frame(reader *r, int op, char close) {
    if (!KN_GROW(kg_alloc(r->g), r->frames, r->frames_cap, r->depth + 1)) return kn_oom(r->f), NULL;
    text_frame *fr = &r->frames[r->depth++];
    *fr            = (text_frame){.op = op, .base = r->src_n, .close = close, .at = r->p};
    return fr;
}

/* OP !tag {arg}: opens a frame. */
static bool read_head(reader *r, char close) {
    const char *at;
    skip_space(r, true);
    size_t len = word(r, &at);
    int    op  = kn_op_by_name(at, len);

    const kn_spelling *spelling = op < 0 ? kn_spelling_of(at, len) : NULL;
    if (spelling) op = spelling->op;
    if (op <= 0)
        return reader_fail(r, at, KN_ERR_FORMAT, len ? "'%.*s' is not an op" : "expected an op%.*s", clip(len), at);
    text_frame *fr = push_frame(r, op, close);
    if (!fr) return false;
    fr->at       = at;
    fr->spelling = spelling;
    skip_space(r, close != '\n');
    if (peek(r) == '!') {
        int64_t tag;
        at = r->p++;
        if (!read_int(r, &tag)) return false;
        if (tag < 0 || tag > UINT16_MAX) return reader_fail(r, at, KN_ERR_FORMAT, "a tag is 0 to 65535");
        fr->tag = (uint16_t)tag;
        skip_space(r, close != '\n');
    }
    bool present = r->p < r->end && *r->p == '{';
    if (present) r->p++;
    if (!read_arg(r, fr, present)) return false;
    return !present || expect(r, '}');
}

/* Takes the gate of a gated INDEX among the frame's sources to where the dialect has it. *gate: of the node to be made,
 * if that is a gated INDEX itself. False: it is used otherwise. */
static bool move_gate(reader *r, text_frame *fr, kn_ref *gate) {
    size_t n = r->src_n - fr->base;
    *gate    = 0;
    if (fr->op == KN_OP_INDEX && n >= 3 && kg_dtype(r->g, r->src[r->src_n - 1]) == KN_BOOL) *gate = r->src[--r->src_n];
    for (size_t i = fr->base; i < r->src_n; i++) {
        kn_ref at = r->gate[i], x = r->src[i];
        if (!at) continue;
        r->gate[i] = 0;
        bool first = i == fr->base, last = i + 1 == r->src_n; /* LOAD(buffer, index) repeats the buffer */
        if (fr->op == KN_OP_LOAD && last && n <= 2) {
            int    dt        = kg_dtype(r->g, x);
            kn_ref zero      = kn_is_float(dt) ? kg_float(r->g, dt, 0) : kg_int(r->g, dt, 0);
            r->src[fr->base] = x;
            r->src_n         = fr->base + 1;
            if (!push_src(r, zero, 0) || !push_src(r, at, 0)) return false;
            return true;
        }
        if (fr->op == KN_OP_STORE && first && n == 2) return push_src(r, at, 0);
        if (fr->op == KN_OP_STORE && i == fr->base + 1 && n >= 3) { /* (buffer, index, value, ranges...) */
            kn_ref *s = r->src + fr->base;
            s[0]      = kg_store(r->g, x, s[2], at);
            memmove(s + 1, s + 3, (n - 3) * sizeof *s);
            r->src_n -= 2;
            fr->op = n > 3 ? KN_OP_END : KN_OP_GROUP;
            return true;
        }
        return reader_fail(r, fr->at, KN_ERR_FORMAT, "a gated INDEX is read by LOAD or written by STORE, nothing else");
    }
    return true;
}

/* Closes the innermost frame; its node. */
static kn_ref make_frame(reader *r, kn_ref *gate) {
    text_frame *fr = &r->frames[r->depth - 1];
    kn_fault   *gf = kg_fault(r->g);
    kn_ref      n  = 0;
    if (move_gate(r, fr, gate)) {
        uint32_t k = (uint32_t)(r->src_n - fr->base);
        n = kn_spell_node(r->g, fr->spelling, fr->op, fr->dtype, fr->tag, fr->arg, k ? r->src + fr->base : NULL, k);
    }
    if (!n)
        reader_fail(r, fr->at, gf->code ? gf->code : KN_ERR_INTERNAL, "%s",
                    gf->code ? gf->text : "the node was refused");
    r->src_n = fr->base;
    r->depth--;
    return n;
}

/* ": type", of node n. */
static bool check_type(reader *r, kn_ref n) {
    const char *at = r->p++;
    int64_t     dt, v;
    int         rank, k = 0;
    if (!read_dtype(r, &dt)) return false;
    const int64_t *dims = kg_shape(r->g, n, &rank);
    bool           fits = dt == kg_dtype(r->g, n);
    if (peek(r) == '[') {
        r->p++;
        for (;; r->p++, k++) {
            skip_space(r, true);
            if (peek(r) == ']' && k == 0) break;
            if (peek(r) == '?') {
                r->p++;
                fits = fits && k < rank && dims[k] < 0;
            } else if (peek(r) == '%') {
                kn_ref s, gate;
                if (!read_name(r, &s, &gate)) return false;
                fits = fits && k < rank && dims[k] == -(int64_t)s;
            } else {
                if (!read_int(r, &v)) return false;
                fits = fits && k < rank && dims[k] == v;
            }
            skip_space(r, true);
            if (peek(r) != ',') {
                k++;
                break;
            }
        }
        if (!expect(r, ']')) return false;
    }
    if (fits && k == rank) return true;
    kn_str s;
    kn_str_init(&s, kg_alloc(r->g));
    kg_print_node(r->g, n, &s);
    const char *type = strrchr(kn_str_c(&s), ':');
    reader_fail(r, at, KN_ERR_FORMAT, "the node's type is%.80s", type ? type + 1 : " void");
    kn_str_free(&s);
    return false;
}

/* The operands of the frames above and including a statement's; its node. */
static kn_ref read_operands(reader *r, kn_ref *out_gate) {
    while (r->depth) {
        text_frame *fr     = &r->frames[r->depth - 1];
        bool        nested = fr->close != '\n';
        skip_space(r, nested);
        char   c = peek(r);
        kn_ref n = 0, gate = 0;
        if (r->p >= r->end && nested) {
            reader_fail(r, fr->at, KN_ERR_FORMAT, "no '%c' closes this", fr->close);
            return 0;
        }
        if (c == fr->close || (c == ':' && fr->close != ']')) {
            if (fr->close == ']' && !fr->comma && r->src_n > fr->base) {
                reader_fail(r, r->p, KN_ERR_FORMAT, "expected an entry after the comma");
                return 0;
            }
            char close = fr->close;
            if (!(n = make_frame(r, &gate))) return 0;
            if (c == ':' && !check_type(r, n)) return 0;
            skip_space(r, nested);
            if (peek(r) != close) {
                reader_fail(r, r->p, KN_ERR_FORMAT, close == '\n' ? "expected the end of the line" : "expected '%c'",
                            close);
                return 0;
            }
            if (!r->depth) {
                *out_gate = gate;
                return n;
            }
            r->p++;
            fr = &r->frames[r->depth - 1];
        } else if (fr->close == ']' && fr->comma) {
            if (c != ',') {
                reader_fail(r, r->p, KN_ERR_FORMAT, "expected ',' or ']'");
                return 0;
            }
            r->p++;
            fr->comma = false;
            continue;
        } else if (c == '%') {
            if (!read_name(r, &n, &gate)) return 0;
        } else if (c == '[') {
            if (!push_frame(r, KN_OP_STACK, ']')) return 0;
            r->p++;
            continue;
        } else if (c == '(') {
            r->p++;
            if (!read_head(r, ')')) return 0;
            continue;
        } else {
            int         dt;
            uint64_t    bits;
            const char *at = r->p;
            if (!read_const(r, &dt, &bits)) return 0;
            n = kg_make(r->g, KN_OP_CONST, dt, bits, NULL, 0);
            if (!n) {
                reader_fail(r, at, kg_fault(r->g)->code, "%s", kg_fault(r->g)->text);
                return 0;
            }
        }
        if (!push_src(r, n, gate)) return 0;
        fr->comma = true;
    }
    return 0;
}

static kn_ref read_statement(reader *r) {
    const char *percent = r->p, *name;
    if (peek(r) != '%') {
        reader_fail(r, r->p, KN_ERR_FORMAT, "expected a statement, as in %%1 = ADD %%2 %%3");
        return 0;
    }
    r->p++;
    size_t len = word(r, &name);
    if (!len) {
        reader_fail(r, percent, KN_ERR_FORMAT, "expected a name after '%%'");
        return 0;
    }
    if (find_name(r, name, len)) {
        reader_fail(r, percent, KN_ERR_FORMAT, "%%%.*s is defined twice", clip(len), name);
        return 0;
    }
    kn_ref gate = 0, n = expect(r, '=') && read_head(r, '\n') ? read_operands(r, &gate) : 0;
    r->gated = gate != 0;
    return n && add_name(r, name, len, n, gate) ? n : 0;
}

kn_ref kg_parse(kn_graph *g, const char *text, size_t len, kn_fault *f) {
    reader      r       = {.g = g, .f = f, .text = text, .p = text, .end = text + len};
    const char *counted = text;
    int         line    = 1; /* of `counted` */
    kn_fault saved = *kg_fault(g);
    kn_ref   n     = 0;
    if (len > INT32_MAX) return kn_fail(f, KN_ERR_FORMAT, "the program is longer than 2 GiB"), 0;
    kg_fault(g)->code = KN_OK;
    for (;;) {
        skip_space(&r, true);
        if (r.p >= r.end) {
            if (!n) reader_fail(&r, r.p, KN_ERR_FORMAT, "no statement: a program ends with the one that is its value");
            if (n && r.gated) n = 0, reader_fail(&r, r.p, KN_ERR_FORMAT, "a gated INDEX is no value: LOAD it");
            break;
        }
        for (; counted < r.p; counted++) line += *counted == '\n';
        kn_why_line(kg_why(g), NULL, line);
        if (!(n = read_statement(&r))) break;
    }
    const kn_alloc *a = kg_alloc(g);
    kn_free(a, r.names, r.names_cap * sizeof *r.names);
    kn_free(a, r.table, r.table_cap * sizeof *r.table);
    kn_free(a, r.frames, r.frames_cap * sizeof *r.frames);
    kn_free(a, r.src, r.src_cap * sizeof *r.src);
    kn_free(a, r.gate, r.gate_cap * sizeof *r.gate);
    kn_free(a, r.words, r.words_cap * sizeof *r.words);
    *kg_fault(g) = saved;
    return n;
}
