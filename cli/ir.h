/* ir.h - what the files of `koine ir` share: the job, and what each of them does of it. */
#ifndef KN_CLI_IR_H
#define KN_CLI_IR_H

#include "cli.h"
#include "lower/pipeline.h"

typedef struct ir_kept { /* a stage's program, remembered */
    kn_graph *g;
    kn_ref    root;
} ir_kept;

typedef struct ir_job {
    cli     *c;
    int      after, stop; /* -1: not given; after ANY: all of them */
    int      stage;       /* the stage the program read is at */
    bool     json, time, count, diff, provenance, graph, colour, explain;
    bool     bestiary;    /* programs are printed as the bestiary writes them */
    kn_machine  machine;
    const char *why_node;  /* NULL: --why is not given */
    const char *text;      /* the program read */
    uint32_t nodes;
    kn_why  *why;          /* where nodes come from, where an option asks */
    ir_kept  kept[KN_STAGE_COUNT];
    kt_choice target;
    kl_run   run;
    kn_str   out;              /* what goes to stdout, or into the JSON object as its text */
    kn_str   times, counts;    /* of the stages so far: lines for people, or members of JSON objects */
    kl_program p;              /* as it goes through the stages */
    uint64_t *fired;           /* of the stage that is running: per rule, or NULL */
    double   *seconds;         /* and per group, or NULL */
    bool     *off;             /* rules that must not fire, or NULL */
    kl_stage_count  total[KN_STAGE_COUNT];
} ir_job;

/* ir_show.c: a kl_run's `seen`, which prints the stages asked for into j->out; and what follows the run. */
bool ir_show_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f);
void ir_print_json(const ir_job *j, bool ok);

/* ir_why.c: g keeps to a log where an option wants it; stages are remembered for --why and --diff; the chain of the
 * node that --why names. */
bool ir_why_begin(ir_job *j, kn_graph *g);
bool ir_keep_stage(ir_job *j, kn_stage stage, const kn_graph *g, kn_ref root, kn_fault *f);
bool ir_print_why(ir_job *j, kn_fault *f);
void ir_why_free(ir_job *j);
/* ir_diff.c: what `stage` changed of what was there after `from`; both are remembered. */
bool ir_print_diff(ir_job *j, kn_stage from, kn_stage stage, kn_fault *f);
/* ir_graph.c: a stage's program as a Graphviz digraph. */
bool ir_print_graph(ir_job *j, kn_stage stage, const kn_graph *g, kn_ref root, kn_fault *f);

/* ir_rules.c: what the rules did. Room for it; what a stage did, added to j->times and j->counts; and the end. */
bool ir_rules_begin(ir_job *j);
void ir_rules_stage(ir_job *j, kn_stage stage);
void ir_rules_free(ir_job *j);
/* --disable-rule: 0, or the exit code with a message that names the nearest rules. */
int ir_rules_off(ir_job *j);

#endif
