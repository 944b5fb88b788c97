/* ir_show.c - what `koine ir` prints: a stage's program or source, times, the JSON object. */
#include "ir.h"

#include <string.h>

bool ir_show_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    ir_job *j = user;
    if (j->after != KN_STAGE_ANY && j->after != (int)stage) return true;
    j->nodes = kg_count(g) - 1;
    if (j->after == KN_STAGE_ANY) kn_str_putf(&j->out, "# after %s\n", kn_stage_names[stage]);
    for (uint32_t i = 0; stage == KN_STAGE_RENDER && i < kg_nsrc(g, root); i++) { /* source reads better as source */
        kn_ref program = kg_at(g, kg_at(g, root, i), 0);
        if (kg_op(g, program) != KN_OP_PROGRAM) continue;
        size_t      len;
        const char *text = kg_str(g, (uint32_t)kg_node(g, kg_at(g, program, 1))->arg, &len);
        kn_str_add(&j->out, text, len);
    }
    if (stage != KN_STAGE_RENDER) kg_print(g, root, &j->out);
    return j->out.failed ? kn_oom(f) : true;
}

void ir_print_json(const ir_job *j, bool ok) {
    kn_str s;
    kn_str_init(&s, NULL);
    kn_str_putf(&s, "{\"ok\": %s, \"nodes\": %u, \"text\": ", ok ? "true" : "false", j->nodes);
    cli_json_text(&s, kn_str_c(&j->out), j->out.len);
    kn_str_puts(&s, ", \"error\": ");
    cli_json_text(&s, j->c->fault.text, strlen(j->c->fault.text));
    if (cli_switch(j->c, "time")) {
        kn_str_puts(&s, ", \"seconds\": {");
        for (int k = KN_STAGE_CALLIFY; k < KN_STAGE_COUNT; k++)
            kn_str_putf(&s, "%s\"%s\": %.6f", k > KN_STAGE_CALLIFY ? ", " : "", kn_stage_names[k], j->run.seconds[k]);
        kn_str_puts(&s, "}");
    }
    kn_str_puts(&s, "}\n");
    fputs(kn_str_c(&s), stdout);
    kn_str_free(&s);
}

void ir_print_times(const ir_job *j) {
    for (int k = KN_STAGE_CALLIFY; k < KN_STAGE_COUNT; k++)
        fprintf(stderr, "%-10s %9.1f us\n", kn_stage_names[k], j->run.seconds[k] * 1e6);
}
