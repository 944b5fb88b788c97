/* rulegen.c - turns .rules files into C: rulegen -o DIR FILE...
 *
 * Writes rules_gen.h (group bits), rules_gen.c (matchers and the table of rules), rules_proof.h and rules_proof.c (what
 * the proofs and the rules' own tests run, and what the page about the rules shows) into DIR. The files may come in any
 * order and from any folder: the output depends on their contents and their paths below src/ alone. */
#include "rulegen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables -------------------------------------------------------------------------------------------------- */

const rg_op rg_ops[OP_COUNT] = {
#define OP(name, lo, hi, arg, cls, dt, sh, doc) {#name, lo, hi, #arg, #cls, #dt},
#include "dialect/ops.def"
#undef OP
};

typedef struct dtype_row {
    const char *symbol, *text;
} dtype_row;
static const dtype_row dtype_rows[17] = {
#define DTYPE(name, text, value, bytes, kind, min, max) [value] = {"KN_" #name, text},
#include "dialect/dtypes.def"
#undef DTYPE
};
enum { DTYPE_COUNT = (int)(sizeof dtype_rows / sizeof *dtype_rows) };
const uint32_t rg_all = 0x1fffe, rg_ints = 0x103fc, rg_floats = 0xfc00;

static const rg_field field_rows[] = {
#define INLINE(name)
#define WORDS(name) {#name, NULL, NULL, NULL},
#define FIELD(kind, name, type, dflt) {#kind, #name, #type, #dflt},
#define LIST(kind, name)
#define FIXED(kind)
#include "dialect/args.def"
#undef FIXED
#undef INLINE
#undef WORDS
#undef FIELD
#undef LIST
};
enum { FIELD_COUNT = (int)(sizeof field_rows / sizeof *field_rows) };

const char *const rg_stage_names[RG_STAGES] = {
#define STAGE(symbol, name) #name,
#include "rules/stages.def"
#undef STAGE
};

const char *const rg_mark_names[] = {"", "int", "index", "bool", "exact", "fast"};

static bool same_text(const char *a, const char *b, size_t len) { return strlen(a) == len && !memcmp(a, b, len); }

int rg_op_by_name(const char *name, size_t len) {
    for (int i = 1; i < OP_COUNT; i++)
        if (same_text(rg_ops[i].name, name, len)) return i;
    return -1;
}

bool rg_is_alu(int op) {
    const char *c = rg_ops[op].cls;
    return !strcmp(c, "UNARY") || !strcmp(c, "BINARY") || !strcmp(c, "TERNARY");
}

bool rg_commutes(int op) {
    switch (op) {
    case OP_ADD: case OP_MUL: case OP_MAX: case OP_MIN: case OP_XOR: case OP_OR: case OP_AND: case OP_CMPNE:
    case OP_CMPEQ: return true;
    default: return false;
    }
}

int rg_fields(const char *kind, const rg_field **first) {
    for (int i = 0; i < FIELD_COUNT; i++)
        if (!strcmp(field_rows[i].kind, kind)) {
            int n = 0;
            *first = &field_rows[i + 1];
            while (i + 1 + n < FIELD_COUNT && field_rows[i + 1 + n].name) n++;
            return n;
        }
    return -1;
}

bool rg_words(int op) {
    const rg_field *f;
    return rg_fields(rg_ops[op].arg, &f) >= 0;
}

int rg_dtype_by_name(const char *name, size_t len) {
    for (int i = 1; i < DTYPE_COUNT; i++)
        if (same_text(dtype_rows[i].text, name, len)) return i;
    return -1;
}

const char *rg_dtype_symbol(int d) { return dtype_rows[d].symbol; }

/* ---- memory and text ------------------------------------------------------------------------------------------ */

typedef struct block {
    struct block *next;
    size_t        pad;
} block;
static block *blocks; /* of this one-shot tool, so that leak checkers see a clean exit */

static void free_blocks(void) {
    while (blocks) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

void *rg_new(size_t size) {
    block *b = calloc(1, sizeof *b + size);
    if (!b) rg_die("rulegen", 0, "out of memory");
    b->next = blocks;
    blocks  = b;
    return b + 1;
}

char *rg_text(const char *s, size_t len) {
    char *t = rg_new(len + 1);
    memcpy(t, s, len);
    return t;
}

char *rg_format(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *t = rg_new((size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(t, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return t;
}

void rg_die(const char *file, int line, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (line) fprintf(stderr, "%s:%d: error: ", file, line);
    else fprintf(stderr, "%s: error: ", file);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    free_blocks();
    exit(1);
}

void rg_put(rg_out *o, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (o->len + (size_t)n + 1 > o->cap) {
        size_t cap  = (o->len + (size_t)n + 1) * 2;
        char  *data = rg_new(cap);
        if (o->len) memcpy(data, o->data, o->len);
        o->data = data;
        o->cap  = cap;
    }
    va_start(ap, fmt);
    vsnprintf(o->data + o->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    o->len += (size_t)n;
}

/* ---- files --------------------------------------------------------------------------------------------------- */

static char *read_all(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) rg_die(path, 0, "%s", strerror(errno));
    size_t cap = 4096, len = 0, got;
    char  *buf = rg_new(cap);
    while ((got = fread(buf + len, 1, cap - len - 1, f)) > 0) {
        len += got;
        if (len + 1 < cap) continue;
        char *more = rg_new(cap * 2);
        memcpy(more, buf, len);
        buf = more;
        cap *= 2;
    }
    bool bad = ferror(f) != 0;
    fclose(f);
    if (bad) rg_die(path, 0, "cannot read");
    buf[len] = 0;
    return buf;
}

static void write_all(const char *dir, const char *name, const rg_out *o) {
    const char *path = rg_format("%s/%s", dir, name);
    FILE       *f    = fopen(path, "wb");
    if (!f) rg_die(path, 0, "%s", strerror(errno));
    bool ok = fwrite(o->data, 1, o->len, f) == o->len;
    ok      = fclose(f) == 0 && ok;
    if (!ok) rg_die(path, 0, "cannot write");
}

/* The path below the last src/, so that messages and output do not depend on where the tree lies. */
static const char *short_path(const char *path) {
    const char *best = path, *slash = strrchr(path, '/');
    if (slash) best = slash + 1;
    for (const char *p = path; (p = strstr(p, "src/")); p++)
        if (p == path || p[-1] == '/') best = p;
    return best;
}

static int by_short_path(const void *a, const void *b) {
    return strcmp(short_path(*(char *const *)a), short_path(*(char *const *)b));
}

int main(int argc, char **argv) {
    const char *dir = NULL;
    int         n = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-o") && i + 1 < argc) dir = argv[++i];
        else argv[n++] = argv[i];
    }
    if (!dir) {
        fprintf(stderr, "usage: rulegen -o DIR FILE.rules...\n");
        return 2;
    }
    qsort(argv, (size_t)n, sizeof *argv, by_short_path);
    rg_set *set = rg_new(sizeof *set);
    set->tail   = &set->rules;
    for (int i = 0; i < n; i++) rg_parse(set, short_path(argv[i]), read_all(argv[i]));
    rg_check(set);
    rg_out c = {0}, h = {0}, pc = {0}, ph = {0};
    rg_emit_match(set, &c, &h);
    rg_emit_proof(set, &pc, &ph);
    write_all(dir, "rules_gen.c", &c);
    write_all(dir, "rules_gen.h", &h);
    write_all(dir, "rules_proof.c", &pc);
    write_all(dir, "rules_proof.h", &ph);
    free_blocks();
    return 0;
}
