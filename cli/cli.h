/* cli.h - what the subcommands share: their arguments, read by the table of commands.def, and how to report.
 *
 * Exit codes: 0 done, 1 failed, 2 not understood. Messages go to stderr, results to stdout. */
#ifndef KN_CLI_H
#define KN_CLI_H

#include "base/base.h"

typedef struct cli {
    const struct cli_command *command;
    char                    **args; /* what is no option, in order */
    int                       nargs;
    struct cli_value { /* options as given, in order */
        const struct cli_flag *flag;
        const char            *text; /* NULL of a SWITCH */
    } * values;
    int      nvalues;
    kn_fault fault;
} cli;

/* The k-th value of an option, NULL behind the last. */
const char *cli_value(const cli *c, const char *name, int k);
bool        cli_switch(const cli *c, const char *name);
/* Prints "koine eval: ..." to stderr; returns the exit code. */
int cli_fail(const cli *c);                                        /* c->fault, 1 */
int cli_usage(const cli *c, const char *fmt, ...) KN_PRINTF(2, 3); /* and where to look, 2 */
/* The nearest of the names to one that does not exist, NULL if none is near. */
const char *cli_nearest(const char *name, const char *const *names, int n);
/* The nearest few of them, the nearest first; how many, up to cap. */
int cli_nearest_few(const char *name, const char *const *names, int n, const char **near, int cap);
/* PATH, or stdin for "-". 0-terminated; kn_free(NULL, *text, *len + 1). */
bool cli_read_text(const char *path, char **text, size_t *len, kn_fault *f);
/* The folder of compiled kernels: $KOINE_CACHE ("off": none), else koine in the user's cache folder. NULL: none. */
const char *cli_cache_dir(char *room, size_t cap);
void        cli_log(void *user, const char *line); /* a kn_config's log: to stderr */
/* A text as a JSON string, quotes included. */
void cli_json_text(kn_str *out, const char *text, size_t len);

#define COMMAND(name, arguments, summary, help) int cli_run_##name(cli *c);
#define RAW(name, summary) int kn_cli_##name(int argc, char **argv);
#define FLAG(command, name, kind, value, help)
#include "commands.def"
#undef COMMAND
#undef RAW
#undef FLAG

#endif
