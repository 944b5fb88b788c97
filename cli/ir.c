/* ir.c - `koine ir`: reads a program, takes it through the stages asked for, checks and prints it. */
#include "ir.h"

#include <string.h>

static bool run_stages(ir_job *j, kn_graph *g, kn_ref root) {
    kl_program p;
    int        few[256], nout;
    kl_program_init(&p, NULL);
    bool ok =
        kl_program_from(&p, g, root, few, KN_COUNT(few), &nout, &j->c->fault) && kl_lower(&p, &j->run, &j->c->fault);
    kl_program_free(&p);
    return ok;
}

static bool run_ir(ir_job *j, kn_graph *g, const char *text, size_t len, int stage) {
    kn_fault *f    = &j->c->fault;
    kn_ref    root = kg_parse(g, text, len, f);
    if (!root) return false;
    j->nodes = kg_count(g) - 1;
    if (stage >= 0 && !kn_verify(g, root, (kn_stage)stage, f)) return false;
    if (j->after <= KN_STAGE_TENSOR && !ir_show_stage(j, KN_STAGE_TENSOR, g, root, f)) return false;
    if (j->after == KN_STAGE_TENSOR && j->stop < KN_STAGE_CALLIFY) return true;
    j->run.stop   = (kn_stage)(j->stop > 0 ? j->stop : j->after > 0 ? j->after : KN_STAGE_RENDER);
    j->run.verify = true;
    j->run.seen   = ir_show_stage;
    j->run.user   = j;
    return kn_verify(g, root, KN_STAGE_TENSOR, f) && run_stages(j, g, root);
}

/* The stage an option names, -1 if it is not given; -2, with a message, if there is none of that name. */
static int stage_option(const cli *c, const char *option, bool all) {
    const char *name = cli_value(c, option, 0);
    if (!name) return -1;
    if (all && !strcmp(name, "all")) return KN_STAGE_ANY;
    int stage = kn_stage_by_name(name);
    if (stage >= 0 && (stage > 0 || !all)) return stage;
    const char *near = cli_nearest(name, kn_stage_names, KN_STAGE_COUNT);
    cli_usage(c, "there is no stage '%s'%s%s%s", name, near ? "; did you mean '" : "", near ? near : "",
              near ? "'?" : "");
    return -2;
}

int cli_run_ir(cli *c) {
    ir_job j = {.c = c, .json = cli_switch(c, "json")};
    kn_opt opts[KN_MAX_OPTS];
    int    stage = stage_option(c, "stage", false);
    j.after      = stage_option(c, "after", true);
    j.stop       = stage_option(c, "stop-after", true);
    if (stage == -2 || j.after == -2 || j.stop == -2) return 2;
    if (c->nargs != 1) return cli_usage(c, "expected one program: a file, or - for stdin");
    if (j.stop == KN_STAGE_ANY) return cli_usage(c, "--stop-after needs one stage");
    if (j.after < 0) j.after = j.stop < 0 ? KN_STAGE_TENSOR : j.stop;
    if (stage < 0 && cli_switch(c, "verify")) stage = KN_STAGE_ANY;
    const char *text_opts = cli_value(c, "opts", 0);
    if (text_opts && !ko_parse_opts(text_opts, opts, &j.run.nopts, &c->fault)) return cli_fail(c);
    j.run.opts = text_opts ? opts : NULL;
    char  *text;
    size_t len;
    if (!cli_read_text(c->args[0], &text, &len, &c->fault)) return cli_fail(c);
    kn_graph *g = kg_new(NULL);
    kn_str_init(&j.out, NULL);
    bool ok = g ? run_ir(&j, g, text, len, stage) : kn_oom(&c->fault);
    if (j.json)
        ir_print_json(&j, ok);
    else
        fputs(kn_str_c(&j.out), stdout);
    if (!j.json && cli_switch(c, "time")) ir_print_times(&j);
    kn_str_free(&j.out);
    kg_free(g);
    kn_free(NULL, text, len + 1);
    return ok ? 0 : cli_fail(c);
}
