/* amalgamate.c - makes one koine.c of all sources.
 *
 *   amalgamate -o koine.c [-I DIR]... [-k koine.h] FILE.c...
 *
 * Files follow each other in the order given. An #include "..." is replaced by the file's text: a .h once, a .def
 * every time; the header named by -k stays an #include. A header met inside a conditional is put in each time it is
 * met there, under its own guard, since the first place may be compiled out. Host tool: C17 and nothing else. */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIRS = 16, MAX_SEEN = 1024, MAX_DEPTH = 32, PATH_SIZE = 1024, LINE_SIZE = 8192 };

typedef struct job {
    FILE       *out;
    const char *dirs[MAX_DIRS];
    int         ndirs;
    const char *keep;
    char       *seen[MAX_SEEN];
    int         nseen;
} job;

static _Noreturn void die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("amalgamate: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static void path_of(char path[PATH_SIZE], const char *dir, size_t dir_len, const char *name) {
    if (dir_len + strlen(name) + 2 > PATH_SIZE) die("the path of \"%s\" is too long", name);
    memcpy(path, dir, dir_len);
    path[dir_len] = '/';
    strcpy(path + dir_len + 1, name);
}

static bool exists(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}

/* Looks beside the including file, then in the folders of -I. */
static void resolve(const job *j, const char *from, const char *name, int line, char path[PATH_SIZE]) {
    const char *slash = strrchr(from, '/');
    if (slash) {
        path_of(path, from, (size_t)(slash - from), name);
        if (exists(path)) return;
    }
    for (int i = 0; i < j->ndirs; i++) {
        path_of(path, j->dirs[i], strlen(j->dirs[i]), name);
        if (exists(path)) return;
    }
    die("%s:%d: no file \"%s\"", from, line, name);
}

static bool was_seen(const job *j, const char *path) {
    for (int i = 0; i < j->nseen; i++)
        if (strcmp(j->seen[i], path) == 0) return true;
    return false;
}

static void mark_seen(job *j, const char *path) {
    if (j->nseen == MAX_SEEN) die("more than %d headers", MAX_SEEN);
    char *copy = malloc(strlen(path) + 1);
    if (!copy) die("out of memory");
    strcpy(copy, path);
    j->seen[j->nseen++] = copy;
}

/* The word behind '#', or NULL when the line is not a directive. */
static const char *directive(const char *line) {
    while (*line == ' ' || *line == '\t') line++;
    if (*line != '#') return NULL;
    line++;
    while (*line == ' ' || *line == '\t') line++;
    return line;
}

static bool word_is(const char *at, const char *word) {
    size_t n = strlen(word);
    return strncmp(at, word, n) == 0 && !isalnum((unsigned char)at[n]) && at[n] != '_';
}

/* `inside`: an enclosing file has this one inside a conditional. Depth is bounded, so recursion is. */
static void put_file(job *j, const char *path, int depth, bool inside) {
    if (depth > MAX_DEPTH) die("%s: includes itself", path);
    FILE *in = fopen(path, "rb");
    if (!in) die("cannot read %s", path);
    char line[LINE_SIZE];
    int  number = 0, nest = 0;
    int  guard = ends_with(path, ".h") ? 1 : 0; /* a header's own guard is no condition */
    while (fgets(line, sizeof line, in)) {
        number++;
        if (!strchr(line, '\n') && !feof(in)) die("%s:%d: a line of more than %d bytes", path, number, LINE_SIZE);
        const char *d = directive(line);
        if (d && (word_is(d, "if") || word_is(d, "ifdef") || word_is(d, "ifndef"))) nest++;
        if (d && word_is(d, "endif")) nest--;
        const char *open = d && word_is(d, "include") ? strchr(d, '"') : NULL;
        if (!open) {
            fputs(line, j->out);
            if (!strchr(line, '\n')) fputc('\n', j->out);
            continue;
        }
        char *close = strchr(open + 1, '"');
        if (!close) die("%s:%d: malformed #include", path, number);
        *close           = 0;
        const char *name = open + 1;
        char        found[PATH_SIZE];
        if (j->keep && strcmp(name, j->keep) == 0) continue;
        resolve(j, path, name, number, found);
        bool conditional = inside || nest > guard;
        if (ends_with(name, ".h")) {
            if (was_seen(j, found)) continue;
            if (!conditional) mark_seen(j, found);
        } else if (!ends_with(name, ".def")) {
            die("%s:%d: only .h and .def files can be included, not \"%s\"", path, number, name);
        }
        put_file(j, found, depth + 1, conditional);
    }
    if (nest) die("%s: #if and #endif do not match", path);
    fclose(in);
}

int main(int argc, char **argv) {
    static job  j;
    const char *out  = NULL;
    int         file = 1;
    for (; file + 1 < argc && argv[file][0] == '-'; file += 2) {
        const char *value = argv[file + 1];
        if (strcmp(argv[file], "-o") == 0)
            out = value;
        else if (strcmp(argv[file], "-k") == 0)
            j.keep = value;
        else if (strcmp(argv[file], "-I") == 0 && j.ndirs < MAX_DIRS)
            j.dirs[j.ndirs++] = value;
        else
            die("unknown option %s", argv[file]);
    }
    if (!out || file >= argc) die("usage: amalgamate -o OUT [-I DIR]... [-k HEADER] FILE.c...");
    j.out = fopen(out, "wb");
    if (!j.out) die("cannot write %s", out);
    fputs("/* Koine in one file: all of its sources in a row. Made by tools/amalgamate; not for editing.\n"
          " * Build: cc -O2 -c koine.c; link with -lm -lpthread -ldl. MIT licence, the Koine authors. */\n"
          "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n",
          j.out);
    if (j.keep) fprintf(j.out, "#ifndef KN_NO_CALLSITE\n#define KN_NO_CALLSITE\n#endif\n#include \"%s\"\n", j.keep);
    for (; file < argc; file++) {
        const char *base = strrchr(argv[file], '/');
        fprintf(j.out, "\n/* ==== %s ==== */\n", base ? base + 1 : argv[file]);
        put_file(&j, argv[file], 0, false);
    }
    bool failed = ferror(j.out) != 0;
    if (fclose(j.out) != 0 || failed) die("cannot write %s", out);
    for (int i = 0; i < j.nseen; i++) free(j.seen[i]);
    return 0;
}
