/* docgen.c - writes docs/ops.md and docs/command.md of a build from the tables that the program is made from.
 *
 *   docgen -o DIR
 *
 * A host tool: nothing but the C library and the .def files. Output is the same on every host. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct op_row {
    const char *name, *arg, *cls, *dtype, *shape, *doc;
    int         lo, hi;
} op_row;
static const op_row ops[] = {
#define OP(name, lo, hi, arg, cls, dt, sh, doc) {#name, #arg, #cls, #dt, #sh, doc, lo, hi},
#include "dialect/ops.def"
#undef OP
};

typedef struct arg_row {
    const char *kind, *field, *type, *dflt; /* field NULL: the kind's own line; type "" of an inline kind */
} arg_row;
static const arg_row args[] = {
#define INLINE(name) {#name, NULL, "", NULL},
#define WORDS(name) {#name, NULL, NULL, NULL},
#define FIELD(kind, name, type, dflt) {#kind, #name, #type, #dflt},
#define LIST(kind, name) {#kind, #name, "LIST", ""},
#define FIXED(kind)
#include "dialect/args.def"
#undef FIXED
#undef INLINE
#undef WORDS
#undef FIELD
#undef LIST
};

typedef struct dtype_row {
    const char *name, *text, *kind;
    int         value, bytes;
} dtype_row;
static const dtype_row dtypes[] = {
#define DTYPE(name, text, value, bytes, kind, min, max) {#name, text, #kind, value, bytes},
#include "dialect/dtypes.def"
#undef DTYPE
};

typedef struct command_row {
    const char *name, *arguments, *summary, *help; /* of a FLAG: command, name, value, help */
    int         flag;
} command_row;
static const command_row commands[] = {
#define COMMAND(name, arguments, summary, help) {#name, arguments, summary, help, 0},
#define RAW(name, summary) {#name, "", summary, "", 0},
#define FLAG(command, name, kind, value, help) {#command, #name, value, help, 1},
#include "../cli/commands.def"
#undef COMMAND
#undef RAW
#undef FLAG
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Text in a table's cell: a bar would end it. */
static void cell(FILE *f, const char *text) {
    for (; *text; text++) {
        if (*text == '|') fputc('\\', f);
        fputc(*text == '\n' ? ' ' : *text, f);
    }
}

static void write_ops(FILE *f) {
    static const char *const classes[][2] = {
        {"SOURCE", "Sources"},       {"MOVEMENT", "Movement"}, {"REDUCE", "Reduction"}, {"CALL", "Calls"},
        {"LOAD", "Memory: reading"}, {"STORE", "Memory: writing"}, {"ORDER", "Order and loops"},
        {"UNARY", "Elementwise, one source"}, {"BINARY", "Elementwise, two sources"},
        {"TERNARY", "Elementwise, three sources"}, {"MARKER", "Markers"}, {"CODEGEN", "Code generation"},
    };
    fprintf(f, "# Ops\n\nMade from `src/dialect/*.def`. How they are written: `docs/dialect.md`.\n");
    for (size_t c = 0; c < COUNT(classes); c++) {
        fprintf(f, "\n## %s\n\n| op | sources | arg | dtype | shape | meaning |\n|---|---|---|---|---|---|\n",
                classes[c][1]);
        for (size_t i = 0; i < COUNT(ops); i++) {
            const op_row *o = &ops[i];
            if (strcmp(o->cls, classes[c][0]) != 0) continue;
            fprintf(f, "| `%s` | ", o->name);
            if (o->hi < 0) fprintf(f, "%d+", o->lo);
            else if (o->hi != o->lo) fprintf(f, "%d-%d", o->lo, o->hi);
            else fprintf(f, "%d", o->lo);
            fprintf(f, " | %s | %s | %s | ", strcmp(o->arg, "NONE") ? o->arg : "", o->dtype, o->shape);
            cell(f, o->doc);
            fprintf(f, " |\n");
        }
    }
    fprintf(f, "\n## Args\n\n| kind | field | type | default |\n|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT(args); i++) {
        const arg_row *a = &args[i];
        if (a->field) fprintf(f, "| %s | `%s` | %s | %s |\n", a->kind, a->field, a->type, a->dflt);
        else if (a->type) fprintf(f, "| %s | | one value | |\n", a->kind);
    }
    fprintf(f, "\n## Dtypes\n\n| dtype | number | bytes | kind |\n|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT(dtypes); i++)
        fprintf(f, "| `%s` | %d | %d | %s |\n", dtypes[i].text, dtypes[i].value, dtypes[i].bytes, dtypes[i].kind);
}

static void write_command(FILE *f) {
    fprintf(
        f,
        "# The koine command\n\nMade from `cli/commands.def`. Exit codes: 0 done, 1 failed, 2 not understood. `--help` "
        "explains any command.\n");
    for (size_t i = 0; i < COUNT(commands); i++) {
        const command_row *c = &commands[i];
        if (!c->flag) {
            fprintf(f, "\n## koine %s%s%s\n\n%s\n", c->name, *c->arguments ? " " : "", c->arguments,
                    *c->help ? c->help : c->summary);
            if (i + 1 < COUNT(commands) && commands[i + 1].flag) fprintf(f, "| option | |\n|---|---|\n");
            continue;
        }
        fprintf(f, "| `--%s%s", c->arguments, *c->summary ? " " : "");
        cell(f, c->summary);
        fprintf(f, "` | ");
        cell(f, c->help);
        fprintf(f, " |\n");
    }
}

static int write_file(const char *dir, const char *name, void (*write)(FILE *)) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) return 1;
    FILE *f = fopen(path, "wb");
    if (!f) {
        perror(path);
        return 1;
    }
    write(f);
    int bad = ferror(f);
    if (fclose(f) != 0 || bad) {
        fprintf(stderr, "%s: cannot write\n", path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3 || strcmp(argv[1], "-o") != 0) {
        fprintf(stderr, "usage: docgen -o DIR\n");
        return 2;
    }
    return write_file(argv[2], "ops.md", write_ops) || write_file(argv[2], "command.md", write_command);
}
