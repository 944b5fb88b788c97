/* ir_show.c - what `koine ir` prints: a stage's program or source, and the JSON object. */
#include "ir.h"
#include "dialect/tree.h"

#include <string.h>

/* Source reads better as source. */
static void show_source(kn_graph *g, kn_ref root, kn_str *out) {
    for (uint32_t i = 0; i < kg_nsrc(g, root); i++) {
        kn_ref program = kg_at(g, kg_at(g, root, i), 0);
        if (kg_op(g, program) != KN_OP_PROGRAM) continue;
        size_t      len;
        const char *text = kg_str(g, (uint32_t)kg_node(g, kg_at(g, program, 1))->arg, &len);
        kn_str_add(out, text, len);
    }
}

/* The changes of a stage; Render's are the source itself. */
static bool show_diff(ir_job *j, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    if (stage <= KN_STAGE_TENSOR) return true;
    if (stage < KN_STAGE_RENDER) return ir_print_diff(j, (kn_stage)(stage - 1), stage, f);
    kn_str_puts(&j->out, "# render, after plan\n");
    show_source(g, root, &j->out);
    return !j->out.failed || kn_oom(f);
}

bool ir_show_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    ir_job *j = user;
    ir_rules_stage(j, stage);
    if (!ir_keep_stage(j, stage, g, root, f)) return false;
    if (j->after != KN_STAGE_ANY && j->after != (int)stage) return true;
    j->nodes = kg_count(g) - 1;
    if (j->why_node) return true;
    if (j->diff) return show_diff(j, stage, g, root, f);
    if (j->graph) return ir_print_graph(j, stage, g, root, f);
    /* What a reader of the text, and --verify, need to know; source would not compile with it. */
    if (j->after == KN_STAGE_ANY || (stage > KN_STAGE_TENSOR && stage < KN_STAGE_RENDER))
        kn_str_putf(&j->out, "# after %s\n", kn_stage_names[stage]);
    if (stage == KN_STAGE_RENDER && j->stage < KN_STAGE_RENDER)
        show_source(g, root, &j->out);
    else if (j->bestiary)
        kg_print_tree(g, root, &j->out);
    else
        kg_print_why(g, root, &j->out);
    return j->out.failed ? kn_oom(f) : true;
}

void ir_print_json(const ir_job *j, bool ok) {
    kn_str s;
    kn_str_init(&s, NULL);
    kn_str_putf(&s, "{\"ok\": %s, \"nodes\": %u, \"text\": ", ok ? "true" : "false", j->nodes);
    cli_json_text(&s, kn_str_c(&j->out), j->out.len);
    kn_str_puts(&s, ", \"error\": ");
    cli_json_text(&s, j->c->fault.text, strlen(j->c->fault.text));
    if (j->time) {
        kn_str_puts(&s, ", \"seconds\": {");
        for (int k = KN_STAGE_CALLIFY; k < KN_STAGE_COUNT; k++)
            kn_str_putf(&s, "%s\"%s\": %.6f", k > KN_STAGE_CALLIFY ? ", " : "", kn_stage_names[k],
                        j->p.spent[k]);
        kn_str_putf(&s, "}, \"rule_seconds\": {%s}", kn_str_c(&j->times));
    }
    if (j->count) kn_str_putf(&s, ", \"counts\": {%s}", kn_str_c(&j->counts));
    kn_str_puts(&s, "}\n");
    fputs(kn_str_c(&s), stdout);
    kn_str_free(&s);
}
