/* main.c - the `koine` command: finds the subcommand, reads its options by the table, explains. */
#include "cli.h"

#include "koine.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct cli_flag {
    const char *command, *name, *value, *help;
    enum { SWITCH, VALUE, REPEAT, LIST } kind;
} cli_flag;

static const cli_flag cli_flags[] = {
#define COMMAND(name, arguments, summary, help)
#define RAW(name, summary)
#define FLAG(command, name, kind, value, help) {#command, #name, value, help, kind},
#include "commands.def"
#undef COMMAND
#undef RAW
#undef FLAG
};

typedef struct cli_command {
    const char *name, *arguments, *summary, *help;
    int (*run)(cli *c);
    int (*raw)(int argc, char **argv);
} cli_command;

static const cli_command cli_commands[] = {
#define COMMAND(name, arguments, summary, help) {#name, arguments, summary, help, cli_run_##name, NULL},
#define RAW(name, summary) {#name, "", summary, "", NULL, kn_cli_##name},
#define FLAG(command, name, kind, value, help)
#include "commands.def"
#undef COMMAND
#undef RAW
#undef FLAG
};

/* ---- what the subcommands use ---------------------------------------------------------------------------------- */

const char *cli_value(const cli *c, const char *name, int k) {
    for (int i = 0; i < c->nvalues; i++)
        if (!strcmp(c->values[i].flag->name, name) && k-- == 0) return c->values[i].text ? c->values[i].text : "";
    return NULL;
}

bool cli_switch(const cli *c, const char *name) {
    return cli_value(c, name, 0) != NULL;
}

int cli_fail(const cli *c) {
    fprintf(stderr, "koine %s: %s\n", c->command->name, c->fault.text);
    return 1;
}

int cli_usage(const cli *c, const char *fmt, ...) {
    const char *name = c->command ? c->command->name : "";
    va_list     ap;
    va_start(ap, fmt);
    fprintf(stderr, "koine%s%s: ", *name ? " " : "", name);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\nTry \"koine %s%s--help\".\n", name, *name ? " " : "");
    va_end(ap);
    return 2;
}

/* Edits between two words: insertions, deletions, exchanges (Levenshtein's distance). */
static int edits(const char *a, const char *b) {
    enum { LONGEST = 40 };
    int row[LONGEST + 1], n = (int)strlen(b), m = (int)strlen(a);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; i <= m; i++) {
        int diagonal = row[0];
        row[0]       = i;
        for (int j = 1; j <= n; j++) {
            int up   = row[j];
            row[j]   = KN_MIN(KN_MIN(row[j], row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = up;
        }
    }
    return row[n];
}

int cli_nearest_few(const char *name, const char *const *names, int n, const char **near, int cap) {
    enum { FEW = 8 };
    int far[FEW], count = 0, least = 1 + (int)strlen(name) / 3;
    cap = KN_MIN(cap, FEW);
    for (int i = 0; i < n; i++) {
        int  d     = edits(name, names[i]), at = count;
        bool again = false;
        if (strlen(name) >= 2 && !strncmp(name, names[i], strlen(name))) d = KN_MIN(d, 1); /* what it begins */
        for (int k = 0; k < count; k++) again |= !strcmp(near[k], names[i]);
        if (d > least || again) continue;
        while (at > 0 && far[at - 1] > d) at--;
        if (at == cap) continue;
        for (int k = KN_MIN(count, cap - 1); k > at; k--) {
            near[k] = near[k - 1];
            far[k]  = far[k - 1];
        }
        near[at] = names[i];
        far[at]  = d;
        count    = KN_MIN(count + 1, cap);
    }
    return count;
}

const char *cli_nearest(const char *name, const char *const *names, int n) {
    const char *near = NULL;
    return cli_nearest_few(name, names, n, &near, 1) ? near : NULL;
}

bool cli_read_text(const char *path, char **text, size_t *len, kn_fault *f) {
    if (strcmp(path, "-") != 0) return kn_read_file(NULL, path, text, len, f);
    kn_str s;
    char   part[4096];
    size_t n;
    kn_str_init(&s, NULL);
    while ((n = fread(part, 1, sizeof part, stdin)) > 0) kn_str_add(&s, part, n);
    bool ok = !s.failed && !ferror(stdin);
    if (s.failed)
        kn_oom(f);
    else if (!ok)
        kn_fail(f, KN_ERR_IO, "stdin: %s", strerror(errno));
    *len  = s.len;
    *text = ok ? kn_realloc(NULL, NULL, 0, s.len + 1) : NULL;
    if (ok && !*text) ok = kn_oom(f);
    if (ok) memcpy(*text, kn_str_c(&s), s.len + 1);
    kn_str_free(&s);
    return ok;
}

void cli_json_text(kn_str *out, const char *text, size_t len) {
    kn_str_puts(out, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)text[i];
        if (ch == '"' || ch == '\\')
            kn_str_putf(out, "\\%c", ch);
        else if (ch == '\n')
            kn_str_puts(out, "\\n");
        else if (ch < 32)
            kn_str_putf(out, "\\u%04x", ch);
        else
            kn_str_add(out, text + i, 1);
    }
    kn_str_puts(out, "\"");
}

/* ---- help ------------------------------------------------------------------------------------------------------ */

static void print_all(FILE *to) {
    fputs("usage: koine COMMAND [options]\n\n", to);
    for (int i = 0; i < KN_COUNT(cli_commands); i++)
        fprintf(to, "  %-10s %s\n", cli_commands[i].name, cli_commands[i].summary);
    fputs("\n\"koine COMMAND --help\" explains one.\n", to);
}

static void print_command(const cli_command *cmd) {
    printf("usage: koine %s%s%s [options]\n\n%s\n", cmd->name, *cmd->arguments ? " " : "", cmd->arguments, cmd->help);
    for (int i = 0; i < KN_COUNT(cli_flags); i++) {
        const cli_flag *f = &cli_flags[i];
        char            left[64];
        if (strcmp(f->command, cmd->name) != 0) continue;
        snprintf(left, sizeof left, "--%s%s%s%s", f->name, *f->value ? " " : "", f->value,
                 f->kind == LIST ? " ..." : "");
        printf("  %-24s %s\n", left, f->help);
    }
    printf("  %-24s %s\n", "--help", "this");
}

static const cli_command *find_command(const char *name) {
    for (int i = 0; i < KN_COUNT(cli_commands); i++)
        if (!strcmp(cli_commands[i].name, name)) return &cli_commands[i];
    return NULL;
}

static int unknown_command(const char *name) {
    const char *names[KN_COUNT(cli_commands)];
    for (int i = 0; i < KN_COUNT(names); i++) names[i] = cli_commands[i].name;
    const char *near = cli_nearest(name, names, KN_COUNT(names));
    fprintf(stderr, "koine: there is no command '%s'%s%s%s\nTry \"koine --help\".\n", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return 2;
}

int cli_run_help(cli *c) {
    if (c->nargs == 0) {
        print_all(stdout);
        return 0;
    }
    const cli_command *cmd = find_command(c->args[0]);
    if (!cmd) return unknown_command(c->args[0]);
    char word[] = "--help", *argv[] = {c->args[0], word, NULL};
    if (cmd->raw) return cmd->raw(2, argv);
    print_command(cmd);
    return 0;
}

int cli_run_version(cli *c) {
    printf(cli_switch(c, "json") ? "{\"version\": \"%s\"}\n" : "koine %s\n", kn_version_text());
    return 0;
}

int cli_run_devices(cli *c) {
    bool json = cli_switch(c, "json");
    if (json) printf("{\"devices\": [");
    for (const char *const *d = kn_devices(); *d; d++) {
        bool cpu = !strcmp(*d, "CPU");
        if (json)
            printf("%s{\"name\": \"%s\", \"threads\": %d}", d == kn_devices() ? "" : ", ", *d,
                   cpu ? kr_threads(0) : 1);
        else if (cpu)
            printf("%-8s this machine's processor, up to %d threads\n", *d, kr_threads(0));
        else
            printf("%-8s %s\n", *d,
                   !strcmp(*d, "INTERP") ? "the reference interpreter"
                   : !strcmp(*d, "NULL") ? "compiles kernels and runs none, to measure the rest"
                                         : "files as tensors (kn_map); it computes nothing");
    }
    if (json) printf("]}\n");
    return 0;
}

/* ---- options --------------------------------------------------------------------------------------------------- */

static int unknown_option(const cli *c, const char *name) {
    const char *names[KN_COUNT(cli_flags) + 1];
    int         n = 0;
    for (int i = 0; i < KN_COUNT(cli_flags); i++)
        if (!strcmp(cli_flags[i].command, c->command->name)) names[n++] = cli_flags[i].name;
    names[n++]       = "help";
    const char *near = cli_nearest(name, names, n);
    if (near) return cli_usage(c, "there is no option '--%s'; did you mean '--%s'?", name, near);
    return cli_usage(c, "there is no option '--%s'", name);
}

/* 0, or the exit code of a line that was not understood. *help: --help was given. */
static int read_options(cli *c, int argc, char **argv, bool *help) {
    bool only_args = false;
    for (int i = 0; i < argc; i++) {
        char *a = argv[i];
        if (only_args || a[0] != '-' || !a[1]) {
            c->args[c->nargs++] = a;
            continue;
        }
        if (!strcmp(a, "--")) {
            only_args = true;
            continue;
        }
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
            *help = true;
            continue;
        }
        if (a[1] != '-') return cli_usage(c, "there is no option '%s'; options begin with two dashes", a);
        const char     *eq  = strchr(a, '=');
        size_t          len = eq ? (size_t)(eq - a) - 2 : strlen(a + 2);
        const cli_flag *f   = NULL;
        char            name[64];
        snprintf(name, sizeof name, "%.*s", (int)KN_MIN(len, sizeof name - 1), a + 2);
        for (int k = 0; k < KN_COUNT(cli_flags); k++)
            if (!strcmp(cli_flags[k].command, c->command->name) && !strcmp(cli_flags[k].name, name)) f = &cli_flags[k];
        if (!f) return unknown_option(c, name);
        if (f->kind == SWITCH) {
            if (eq) return cli_usage(c, "--%s takes no value", name);
            c->values[c->nvalues++] = (struct cli_value){f, NULL};
        } else if (eq) {
            c->values[c->nvalues++] = (struct cli_value){f, eq + 1};
        } else {
            int first = i + 1;
            while (i + 1 < argc && (argv[i + 1][0] != '-' || !argv[i + 1][1]) && (f->kind == LIST || i + 1 == first))
                c->values[c->nvalues++] = (struct cli_value){f, argv[++i]};
            if (i < first) return cli_usage(c, "--%s needs a value, %s", name, f->value);
        }
        if (f->kind == VALUE && cli_value(c, name, 1)) return cli_usage(c, "--%s is given twice", name);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_all(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    if (!strcmp(name, "--version")) name = "version";
    const cli_command *cmd = find_command(name);
    if (!cmd) return unknown_command(name);
    int code = 0;
    if (cmd->raw) {
        code = cmd->raw(argc - 1, argv + 1);
    } else {
        size_t room = (size_t)argc;
        cli    c    = {.command = cmd};
        bool   help = false;
        c.args      = kn_zalloc(NULL, room * sizeof *c.args);
        c.values    = kn_zalloc(NULL, room * sizeof *c.values);
        if (!c.args || !c.values) {
            fputs("koine: out of memory\n", stderr);
            code = 1;
        } else if (!(code = read_options(&c, argc - 2, argv + 2, &help))) {
            if (help)
                print_command(cmd);
            else
                code = cmd->run(&c);
        }
        kn_free(NULL, c.args, room * sizeof *c.args);
        kn_free(NULL, c.values, room * sizeof *c.values);
    }
    if ((fflush(stdout) != 0 || ferror(stdout)) && !code) {
        fprintf(stderr, "koine: writing to stdout: %s\n", strerror(errno));
        code = 1;
    }
    return code;
}
