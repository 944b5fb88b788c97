/* ir.c - `koine ir`: reads a program, checks it, prints it. */
#include "cli.h"

#include "dialect/uop.h"
#include "rules/verify.h"

#include <string.h>

static bool read_and_print(cli *c, kn_graph *g, const char *text, size_t len, int stage, kn_str *out) {
    kn_ref root = kg_parse(g, text, len, &c->fault);
    if (!root) return false;
    if (stage >= 0 && !kn_verify(g, root, (kn_stage)stage, &c->fault)) return false;
    kg_print(g, root, out);
    return !out->failed || kn_oom(&c->fault);
}

int cli_run_ir(cli *c) {
    const char *name  = cli_value(c, "stage", 0);
    int         stage = cli_switch(c, "verify") ? KN_STAGE_ANY : -1;
    if (c->nargs != 1) return cli_usage(c, "expected one program: a file, or - for stdin");
    if (name) {
        stage = kn_stage_by_name(name);
        if (stage < 0) {
            const char *near = cli_nearest(name, kn_stage_names, KN_STAGE_COUNT);
            return cli_usage(c, "there is no stage '%s'%s%s%s", name, near ? "; did you mean '" : "", near ? near : "",
                             near ? "'?" : "");
        }
    }
    char  *text;
    size_t len;
    if (!cli_read_text(c->args[0], &text, &len, &c->fault)) return cli_fail(c);
    kn_graph *g = kg_new(NULL);
    kn_str    out;
    kn_str_init(&out, NULL);
    bool ok = g ? read_and_print(c, g, text, len, stage, &out) : kn_oom(&c->fault);
    if (cli_switch(c, "json")) {
        kn_str j;
        kn_str_init(&j, NULL);
        kn_str_putf(&j, "{\"ok\": %s, \"nodes\": %u, \"text\": ", ok ? "true" : "false", g ? kg_count(g) - 1 : 0);
        cli_json_text(&j, kn_str_c(&out), out.len);
        kn_str_puts(&j, ", \"error\": ");
        cli_json_text(&j, c->fault.text, strlen(c->fault.text));
        kn_str_puts(&j, "}\n");
        fputs(kn_str_c(&j), stdout);
        kn_str_free(&j);
    } else {
        fputs(kn_str_c(&out), stdout);
    }
    kn_str_free(&out);
    kg_free(g);
    kn_free(NULL, text, len + 1);
    return ok ? 0 : cli_fail(c);
}
