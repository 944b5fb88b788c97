/* parse.h - what the readers of the text forms share: the place in the text, tokens, names, constants (token.c), and
 * the nodes whose sources are being read (parse.c). For these files only. */
#ifndef KN_PARSE_H
#define KN_PARSE_H

#include "dialect/spell.h"

typedef struct kn_rd_named {
    const char *at;
    size_t      len;
    kn_ref      ref, gate;
} kn_rd_named;

/* A node whose sources are being read. */
typedef struct kn_rd_frame {
    int                op, dtype;
    uint16_t           tag;
    uint64_t           arg;
    size_t             base;  /* of its sources in kn_reader.src */
    char               close; /* what ends it: '\n' (a statement), ')' or ']' */
    bool               comma; /* in a list: the next thing is a comma or the end */
    const char        *at;
    const kn_spelling *spelling; /* NULL: the dialect's own */
} kn_rd_frame;

typedef struct kn_reader {
    kn_graph    *g;
    kn_fault    *f;
    const char  *text, *p, *end;
    kn_rd_named *names;
    size_t       names_cap, names_n;
    uint32_t    *table; /* hash -> name + 1; a power of two */
    size_t       table_cap;
    kn_rd_frame *frames;
    size_t       frames_cap, depth;
    kn_ref      *src, *gate; /* gate[i]: of a gated INDEX src[i], else 0 */
    size_t       src_cap, gate_cap, src_n;
    int64_t     *words;
    size_t       words_cap, words_n;
    bool         gated; /* the last statement is a gated INDEX */
} kn_reader;
void kn_rd_free(kn_reader *r); /* its lists */

/* A fault with line and column of `at`; returns false. */
bool kn_rd_fail(kn_reader *r, const char *at, kn_status code, const char *fmt, ...) KN_PRINTF(4, 5);

/* ---- tokens (token.c) -------------------------------------------------------------------------------------------- */
void   kn_rd_space(kn_reader *r, bool newlines); /* past blanks and comments, and ends of lines */
char   kn_rd_peek(const kn_reader *r);           /* '\n' behind the end */
bool   kn_rd_expect(kn_reader *r, char c);
size_t kn_rd_word(kn_reader *r, const char **at); /* a run of word characters; 0 if there is none */
bool   kn_rd_is(const char *at, size_t len, const char *text);
int    kn_rd_clip(size_t len); /* of a word in a message */
/* The characters of a number, sign included, 0-terminated in `out`; 0: none, or too long to be one. */
size_t kn_rd_number(kn_reader *r, const char **at, char *out, size_t cap);
bool   kn_rd_is_integer(const char *s);
bool   kn_rd_int(kn_reader *r, int64_t *v);
bool   kn_rd_string(kn_reader *r, uint32_t *id); /* r->p stands on the opening quote */

const kn_rd_named *kn_rd_find(const kn_reader *r, const char *at, size_t len);
bool               kn_rd_add(kn_reader *r, const char *at, size_t len, kn_ref ref, kn_ref gate);
bool               kn_rd_name(kn_reader *r, kn_ref *ref, kn_ref *gate); /* "%name", which must be defined */

int  kn_rd_dtype_named(const char *at, size_t len); /* in either spelling; -1: none */
bool kn_rd_integer(kn_reader *r, const char *at, const char *t, int dt, uint64_t *bits);
bool kn_rd_float(kn_reader *r, const char *at, const char *t, int dt, uint64_t *bits);
bool kn_rd_nan(kn_reader *r, const char *at, uint64_t *bits); /* "(0x...)" behind a nan */
bool kn_rd_const(kn_reader *r, int *dtype, uint64_t *bits);

/* ---- nodes (parse.c) --------------------------------------------------------------------------------------------- */
bool         kn_rd_push_word(kn_reader *r, int64_t v);
bool         kn_rd_push(kn_reader *r, kn_ref n, kn_ref gate); /* a source of the innermost frame */
kn_rd_frame *kn_rd_open(kn_reader *r, int op, char close);    /* NULL: out of memory */
kn_ref       kn_rd_make(kn_reader *r, kn_ref *gate);          /* closes the innermost frame; its node */

#endif
