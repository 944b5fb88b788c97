/* ir.h - what the files of `koine ir` share: the job, and what each of them does of it. */
#ifndef KN_CLI_IR_H
#define KN_CLI_IR_H

#include "cli.h"
#include "lower/pipeline.h"

typedef struct ir_job {
    cli     *c;
    int      after, stop; /* -1: not given; after ANY: all of them */
    bool     verify, json;
    uint32_t nodes;
    kl_run   run;
    kn_str   out;
} ir_job;

/* ir_show.c: a kl_run's `seen`, which prints the stages asked for into j->out; and what follows the run. */
bool ir_show_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f);
void ir_print_json(const ir_job *j, bool ok);
void ir_print_times(const ir_job *j);

#endif
