/* trial.h - one text program through the engines, against the interpreter at tensor level. */
#ifndef KN_TRIAL_H
#define KN_TRIAL_H

#include "base/base.h"

typedef struct trial_how {
    const char *target; /* machine code of this target is made and run; NULL: the C target, no code */
    uint64_t    opts;   /* options of kernels are chosen by chance from this; 0: by the heuristic */
    const char *lists;  /* or these: "[SPLIT:0:8:UPCAST SWAP:0:1] []", a list a kernel; the last for those behind */
    bool        stages; /* the graph after every stage is interpreted too */
} trial_how;

typedef enum trial_verdict {
    TRIAL_FINE,
    TRIAL_LEFT_OUT, /* its values depend on rounding */
    TRIAL_FAILED
} trial_verdict;

typedef struct trial_engine {
    unsigned  point; /* of the program's variables, see corpus_open_at */
    uint64_t  stages, runs, refused, shaken; /* comparisons so far; lists of options refused as a whole; of those left
                                                out what was found only once something differed */
    trial_how how;      /* of the last trial: what it was at */
    char      why[320]; /* what failed, or why it was left out */
    char      opts[1600]; /* the options that were chosen, kernel by kernel */
    void     *code;     /* memory that code runs from */
    size_t    room;
} trial_engine;

trial_verdict trial_run(trial_engine *e, const char *text, const trial_how *how, int n);
void          trial_free(trial_engine *e);

#endif
