/* ir_why.c - where nodes come from: `koine ir --why`, and the stages it remembers for that. */
#include "ir.h"

#include <stdlib.h>
#include <string.h>

bool ir_why_begin(ir_job *j, kn_graph *g) {
    if (!j->provenance && !j->why_node && !j->diff) return true;
    if (!(j->why = kn_why_new(NULL, j->provenance))) return false;
    kg_keep_why(g, j->why);
    kn_why_line(j->why, strcmp(j->c->args[0], "-") != 0 ? j->c->args[0] : "stdin", 1);
    return true;
}

void ir_why_free(ir_job *j) {
    for (int s = 0; s < KN_STAGE_COUNT; s++) kg_free(j->kept[s].g);
    kn_why_free(j->why);
}

bool ir_keep_stage(ir_job *j, kn_stage stage, const kn_graph *g, kn_ref root, kn_fault *f) {
    ir_kept *k = &j->kept[stage];
    if (!j->why_node && !j->diff) return true;
    if (!(k->g = kg_new(NULL))) return kn_oom(f);
    kg_keep_why(k->g, j->why);
    k->root = kg_copy(k->g, g, root);
    return k->root || kn_oom(f);
}

/* Up to 3 nodes of the stage that have the cause, as its dump prints them; how many were printed. */
static int print_nodes(const ir_job *j, int stage, uint32_t cause, kn_ref but, kn_str *out) {
    const ir_kept *k      = &j->kept[stage];
    uint32_t      *number = k->g ? kg_numbers(k->g, k->root) : NULL;
    int            n      = 0;
    for (kn_ref id = 1; number && id <= k->root && n < 3; id++) {
        if (!number[id] || id == but || kg_cause(k->g, id) != cause) continue;
        kn_str_putf(out, "after %-10s", kn_stage_names[stage]);
        kg_print_line(k->g, id, number, k->root, out);
        kn_str_puts(out, "\n");
        n++;
    }
    if (number) kn_free(kg_alloc(k->g), number, ((size_t)k->root + 1) * sizeof *number);
    return n;
}

static void print_source_line(const ir_job *j, uint32_t line, kn_str *out) {
    const char *p = j->text;
    while (line > 1 && *p)
        if (*p++ == '\n') line--;
    kn_str_puts(out, "  ");
    kn_str_add(out, p, strcspn(p, "\n"));
    kn_str_puts(out, "\n");
}

static void print_chain(const ir_job *j, int stage, kn_ref node, kn_str *out) {
    const kn_why *w     = j->why;
    uint32_t      cause = kg_cause(j->kept[stage].g, node);
    if (!cause) kn_str_puts(out, "  not known\n");
    while (cause) {
        const kn_cause *c = kn_cause_at(w, cause);
        switch (c->kind) {
        case KN_BY_RULE:
            kn_str_putf(out, "  by the rule %s (%s:%u) in %s, of\n", kn_cause_text(w, c->name),
                        kn_cause_text(w, c->file), c->line, kn_cause_text(w, c->stage));
            break;
        case KN_BY_STAGE: kn_str_putf(out, "  by %s, of\n", kn_cause_text(w, c->name)); break;
        default:
            kn_str_putf(out, "%s:%u\n", kn_cause_text(w, c->file), c->line);
            print_source_line(j, c->line, out);
            break;
        }
        cause = c->parent;
        for (int s = stage; s >= KN_STAGE_TENSOR && cause; s--) {
            if (!print_nodes(j, s, cause, s == stage ? node : 0, out)) continue;
            stage = s;
            node  = 0;
            break;
        }
    }
}

/* --why %12, or 12: the node of that number in the dump of the stage asked for. */
bool ir_print_why(ir_job *j, kn_fault *f) {
    const char    *text = j->why_node + (*j->why_node == '%');
    char          *end;
    int            stage = j->after == KN_STAGE_ANY ? KN_STAGE_TENSOR : j->after;
    const ir_kept *k     = &j->kept[stage];
    unsigned long  want  = strtoul(text, &end, 10);
    uint32_t      *number, most = 0;
    kn_ref         node = 0;
    if (!*text || *end)
        return kn_fail(f, KN_ERR_ARG, "--why %s: a node is named by its number, as in %%12", j->why_node);
    if (!(number = kg_numbers(k->g, k->root))) return kn_oom(f);
    for (kn_ref id = 1; id <= k->root; id++) {
        if (number[id] == want) node = id;
        most = KN_MAX(most, number[id]);
    }
    if (node && want) {
        kn_str_putf(&j->out, "after %-10s", kn_stage_names[stage]);
        kg_print_line(k->g, node, number, k->root, &j->out);
        kn_str_puts(&j->out, "\n");
        print_chain(j, stage, node, &j->out);
    }
    kn_free(kg_alloc(k->g), number, ((size_t)k->root + 1) * sizeof *number);
    if (!node || !want)
        return kn_fail(f, KN_ERR_ARG, "--why %s: after %s there are %%1 to %%%u", j->why_node, kn_stage_names[stage],
                       most);
    return j->out.failed ? kn_oom(f) : true;
}
