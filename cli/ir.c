/* ir.c - `koine ir`: reads a program, takes it through the stages asked for, checks and prints it. */
#define _POSIX_C_SOURCE 200809L
#include "ir.h"
#include "dialect/tree.h"

#include <string.h>
#include <unistd.h>

static bool run_stages(ir_job *j, kn_graph *g, kn_ref root) {
    int few[256], nout;
    kl_program_init(&j->p, NULL);
    j->p.fired   = j->fired;
    j->p.seconds = j->seconds;
    j->p.off     = j->off;
    j->p.machine = &j->machine;
    j->p.target  = j->target;
    j->p.explain = j->explain ? &j->out : NULL;
    return kl_program_from(&j->p, g, root, few, KN_COUNT(few), &nout, &j->c->fault) &&
           kl_lower(&j->p, &j->run, &j->c->fault);
}

/* The stage that the text says it is at: "# after rangeify" above the first statement, as koine ir writes it. -1: it
 * does not say. */
static int stage_said(const char *text) {
    static const char mark[] = "# after ";
    while (*text == '#' || *text == '\n' || *text == ' ') {
        if (!strncmp(text, mark, sizeof mark - 1)) {
            char        name[32];
            const char *at = text + sizeof mark - 1;
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " \r\n"), at);
            return kn_stage_by_name(name);
        }
        if (*text == '#') text += strcspn(text, "\n");
        if (*text) text++;
    }
    return -1;
}

/* What a program that does not say is at: a tensor program, if it has neither loops nor a schedule. */
static bool stage_seen(const kn_graph *g, kn_ref root, int *stage, kn_fault *f) {
    kn_ref  *order;
    uint32_t n;
    if (!kg_reach(g, &root, 1, &order, &n)) return kn_oom(f);
    *stage = KN_STAGE_TENSOR;
    for (uint32_t i = 0; i < n; i++) {
        int op = kg_op(g, order[i]);
        if ((op == KN_OP_RANGE && kg_field(g, order[i], KN_F_RANGE_rank) == 0) || op == KN_OP_LINEAR ||
            op == KN_OP_CALL || op == KN_OP_PROGRAM)
            *stage = KN_STAGE_ANY;
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return true;
}

static bool run_ir(ir_job *j, kn_graph *g, const char *text, size_t len) {
    kn_fault *f     = &j->c->fault;
    if (!ir_why_begin(j, g)) return kn_oom(f);
    kn_ref    root  = kg_parse_any(g, text, len, f);
    bool      given = j->stage >= 0;
    if (!root) return false;
    j->nodes = kg_count(g) - 1;
    if (!given) j->stage = stage_said(text);
    if (j->stage < 0 && !stage_seen(g, root, &j->stage, f)) return false;
    if (cli_switch(j->c, "verify") && !kn_verify(g, root, (kn_stage)j->stage, f)) return false;
    if (j->stage > KN_STAGE_TENSOR) { /* it can be checked and printed, not lowered once more */
        if (j->after >= 0 && j->after != j->stage)
            return kn_fail(f, KN_ERR_ARG,
                           "the program is as it is after %s: only tensor programs go through the stages",
                           kn_stage_names[j->stage]);
        if (j->diff) return kn_fail(f, KN_ERR_ARG, "--diff shows what stages change: it wants a tensor program");
        if (j->explain) return kn_fail(f, KN_ERR_ARG, "--explain shows what stages choose: it wants a tensor program");
        j->after = j->stage;
        return ir_show_stage(j, (kn_stage)j->stage, g, root, f) && (!j->why_node || ir_print_why(j, f));
    }
    if (j->explain) {
        if (j->stop < 0) j->stop = KN_STAGE_OPTIMIZE;
        j->after = KN_STAGE_COUNT; /* none is printed */
    }
    if (j->after < 0) j->after = j->stop < 0 ? j->diff ? KN_STAGE_ANY : KN_STAGE_TENSOR : j->stop;
    if (!ir_show_stage(j, KN_STAGE_TENSOR, g, root, f)) return false;
    if (j->after == KN_STAGE_TENSOR && j->why_node && !ir_print_why(j, f)) return false;
    if (j->after == KN_STAGE_TENSOR && j->stop < KN_STAGE_CALLIFY && !j->time && !j->count) return true;
    j->run.stop   = (kn_stage)(j->stop > 0 ? j->stop : j->after > KN_STAGE_TENSOR ? j->after : KN_STAGE_RENDER);
    j->run.verify = true;
    j->run.seen   = ir_show_stage;
    j->run.user   = j;
    return kn_verify(g, root, KN_STAGE_TENSOR, f) && run_stages(j, g, root) &&
           (!j->why_node || j->after == KN_STAGE_TENSOR || ir_print_why(j, f));
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

/* 0, or the exit code of options that were not understood. */
static int read_job(ir_job *j, kn_opt *opts) {
    cli *c   = j->c;
    j->json  = cli_switch(c, "json");
    j->time  = cli_switch(c, "time");
    j->count = cli_switch(c, "count");
    j->diff  = cli_switch(c, "diff");
    j->explain    = cli_switch(c, "explain");
    j->provenance = cli_switch(c, "provenance");
    j->why_node   = cli_value(c, "why", 0);
    j->colour     = isatty(STDOUT_FILENO) != 0 && !j->json;
    j->stage = stage_option(c, "stage", false);
    j->after = stage_option(c, "after", true);
    j->stop  = stage_option(c, "stop-after", true);
    const char *graph = cli_value(c, "graph", 0), *dialect = cli_value(c, "dialect", 0);
    j->graph          = graph != NULL;
    j->bestiary       = dialect && !strcmp(dialect, "bestiary");
    if (dialect && !j->bestiary && strcmp(dialect, "koine") != 0)
        return cli_usage(c, "--dialect is koine or bestiary, not '%s'", dialect);
    if (j->bestiary && (j->diff || j->provenance || j->why_node))
        return cli_usage(c, "--diff, --why and --provenance speak of lines: they want --dialect koine");
    if (graph && strcmp(graph, "dot") != 0) return cli_usage(c, "--graph is dot, not '%s'", graph);
    if (j->graph + j->diff + j->explain + (j->why_node != NULL) > 1)
        return cli_usage(c, "--graph, --diff, --why and --explain are printed in place of the program: choose one");
    if (j->stage == -2 || j->after == -2 || j->stop == -2) return 2;
    if (c->nargs != 1) return cli_usage(c, "expected one program: a file, or - for stdin");
    if (j->why_node && j->after == KN_STAGE_ANY)
        return cli_usage(c, "--why needs one stage: the node's number is of it");
    if (j->stop == KN_STAGE_ANY) return cli_usage(c, "--stop-after needs one stage");
    if (j->stop >= 0 && j->after > j->stop)
        return cli_usage(c, "--stop-after %s comes before --after %s", kn_stage_names[j->stop],
                         kn_stage_names[j->after]);
    const char *machine = cli_value(c, "machine", 0), *text = cli_value(c, "opts", 0);
    if (!kn_machine_find(machine ? machine : kn_machine_default()->name, &j->machine, &c->fault)) return cli_fail(c);
    const char *target = cli_value(c, "target", 0); /* what is shown does not depend on the machine */
    if (!kt_find(target ? target : "c", &j->target, &c->fault)) return cli_fail(c);
    if (text && !ko_parse_opts(text, opts, &j->run.nopts, &c->fault)) return cli_fail(c);
    j->run.opts = text ? opts : NULL;
    return ir_rules_off(j);
}

int cli_run_ir(cli *c) {
    ir_job j = {.c = c};
    kn_opt opts[KN_MAX_OPTS];
    char  *text;
    size_t len;
    int    code = read_job(&j, opts);
    kn_str_init(&j.out, NULL);
    if (!code && !cli_read_text(c->args[0], &text, &len, &c->fault)) code = cli_fail(c);
    if (!code) {
        kn_graph *g = kg_new(NULL);
        j.text      = text;
        bool ok = g && ir_rules_begin(&j) ? run_ir(&j, g, text, len) : kn_oom(&c->fault);
        if (j.json)
            ir_print_json(&j, ok);
        else
            fputs(kn_str_c(&j.out), stdout);
        fflush(stdout); /* first the program, then what is said of it */
        if (!j.json) fprintf(stderr, "%s%s", kn_str_c(&j.times), kn_str_c(&j.counts));
        code = ok ? 0 : cli_fail(c);
        kl_program_free(&j.p);
        kg_free(g);
        kn_free(NULL, text, len + 1);
    }
    kn_str_free(&j.out);
    ir_why_free(&j);
    ir_rules_free(&j);
    return code;
}
