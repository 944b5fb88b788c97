/* opts.h - the OptOps and the nest they edit.
 *
 * OptOps do not rewrite: they edit a nest summary derived from the kernel's graph (loops, extents, strides into the
 * original ranges), where legality is a look-up; ko_apply turns the edited nest into the graph by one substitution at
 * the end. */
#ifndef KN_OPTS_H
#define KN_OPTS_H

#include "base/machine.h"
#include "dialect/uop.h"

typedef enum kn_opt_op {
    KN_OPT_SPLIT,    /* loop `axis` by `arg` into outer and inner; the inner (`top`: the outer) is of type target */
    KN_OPT_SWAP,     /* loops `axis` and `arg` change places */
    KN_OPT_PEEL,     /* `arg` iterations at the front of loop `axis` and `more` at its end get loops of their own,
                      * each `target` of them one, 0: all at an end */
    KN_OPT_STAGE,    /* panels of PARAM `arg` are copied in loop `axis`, in rows `more` apart: to LOCAL memory, or
                      * before all loops, by a kernel of their own, to GLOBAL memory */
    KN_OPT_JOIN,     /* UPCAST or GROUP_REDUCE loop `axis` and UPCAST loop `arg` are one run of lanes; those of `arg`
                      * follow one another in it */
    KN_OPT_CARRY,    /* the sums of reduce loop `axis` are kept in `target` and may outlive output loops inside it */
    KN_OPT_PREFETCH, /* loads of PARAM `arg` announce what they read `more` iterations later */
    KN_OPT_STREAM    /* stores to PARAM `arg` go past the caches */
} kn_opt_op;

typedef enum kn_tail { /* of a SPLIT whose factor leaves iterations over */
    KN_TAIL_PEEL,      /* they get a loop of their own, a copy of the body */
    KN_TAIL_MASK,      /* one more round, in which loads, stores and sums look whether their iteration exists */
    KN_TAIL_PAD        /* one more round that reads the last iteration's elements again and keeps nothing of it */
} kn_tail;

typedef enum kn_carry { KN_CARRY_NONE, KN_CARRY_LOCAL, KN_CARRY_OUT } kn_carry;

enum { KN_MAX_OPTS = 24, KN_MAX_NEST = 64, KN_MAX_STAGES = 8, KN_STAGE_AXES = 8, KN_STAGE_BYTES = 256 << 10 };
enum { KN_STAGE_SUM = -1, KN_STAGE_GLOBAL = -2 }; /* of a STAGE, instead of a loop */

typedef struct kn_opt {
    kn_opt_op op;
    int       axis;   /* position in the nest, outermost 0; of STAGE also KN_STAGE_SUM: where the reduction begins */
    int64_t   arg, more;
    int       target; /* SPLIT: THREAD, LOOP, UPCAST; of reductions REDUCE, GROUP_REDUCE, UNROLL. CARRY: a kn_carry */
    bool      top;
    kn_tail   tail;
    int       naxes, axes[KN_STAGE_AXES]; /* STAGE: positions, as the copy is stored; none: as in the nest */
} kn_opt;

typedef struct kn_origin { /* a range of the kernel before optimisation */
    kn_ref      range, closer; /* closer: the END or REDUCE that ends it */
    int64_t     id;
    int64_t     extent;    /* the most there can be */
    bool        moving;    /* the bound is no constant */
    uint64_t    on;        /* origins that the bound depends on, a bit each */
    bool        reduce;
    bool        carried;   /* closed by an END, yet iterations must run in order: they meet in memory */
    bool        staged;    /* a LOCAL stage is filled anew in each iteration */
    bool        fills;     /* closed by an END that fills LOCAL memory */
    bool        scanned;   /* a prefix runs along it */
    bool        sums;      /* of a REDUCE: another one in it depends on it */
    bool        meets;     /* its iterations store to places that do not move with it */
    int64_t     idle;      /* of so many of its numbers one alone has terms of the sums in it; 0: all have */
    kn_ref      end;       /* of a REDUCE: the END whose one store holds it, 0 none */
    const char *no_carry;  /* of a REDUCE: why its sums cannot outlive output loops, or NULL */
    int64_t     front, back; /* elements peeled off */
    int64_t     part;      /* of these in one loop, 0: all at an end */
    int64_t     round; /* of these in one iteration of the loop they were peeled off; above 1 a tail is behind them */
    bool        split;     /* by a factor that left a tail */
    kn_tail     tail_kind;
    int64_t     tail;      /* PEEL: elements left over; of a moving bound the factor, which leaves any number */
    int         tail_type;
} kn_origin;

typedef struct kn_loop {
    int      origin;
    int64_t  extent, stride; /* contributes stride * i to its origin */
    int      type;
    int      with;           /* of lanes: 1 + the origin of those they are joined with, 0 none */
    bool     whole;          /* of a moving origin: the piece that has the moving bound */
    kn_carry carry;
} kn_loop;

typedef struct kn_nest {
    kn_origin origin[KN_MAX_NEST];
    int       norigin;
    kn_loop   loop[KN_MAX_NEST]; /* outermost first; output loops before the reductions inside them */
    int       nloop;
    kn_opt    memory[KN_MAX_STAGES]; /* STAGE, PREFETCH and STREAM, which leave the loops as they are */
    int       nmemory;
    bool in_place; /* a PARAM that is stored to is read as well */
    bool ordered; /* a GLOBAL store is read again in the kernel: only loops around all of it may be shared by threads */
} kn_nest;

/* Rows and lanes of bytes that registers turn; terms of a window from one row's to the next one's, which registers hold
 * until then. */
enum { KO_BYTE_BLOCK = 16, KO_SHARED_APART = 3 };

/* Ranges that Expand turns into shape. */
static inline bool ko_is_lane(int type) { return type == KN_AXIS_UPCAST || type == KN_AXIS_GROUP_REDUCE; }

enum { KO_MOST_PARTS = 14, KO_MAX_PARTS = 64 }; /* of what PEEL cuts off at one end; copies of a body in all */
int64_t ko_peeled(const kn_nest *nest, int loop); /* rounds that PEEL cut off that loop */
/* The UPCAST loop that a loop's lanes are joined with, -1 none. */
int ko_lanes_with(const kn_nest *nest, int loop);
/* The last of those that are joined with it, one with the other; the loop itself where there are none. */
int ko_innermost_of(const kn_nest *nest, int loop);

/* The nest of a ranged kernel. False with a reason: too many loops. */
bool ko_nest(kn_graph *g, kn_ref sink, kn_nest *nest, kn_fault *f);
/* One OptOp on the nest; a refusal says why and leaves the nest alone. */
bool ko_edit(kn_nest *nest, const kn_opt *opt, kn_fault *f);
/* A GLOBAL panel that the kernel reads: PARAM `slot`, filled from PARAM `source` by the END `fill`. */
typedef struct ko_panel {
    kn_ref  fill, memory; /* memory: the PARAM */
    int64_t slot, source, size;
    int     dtype;
} ko_panel;

typedef struct ko_panels {
    ko_panel panel[KN_MAX_STAGES];
    int      n;
    int64_t  next; /* slot of the next PARAM; the caller sets the first */
} ko_panels;

/* The kernel of the edited nest; panels: what has to be copied before it. 0 on failure, with the graph's fault or f
 * set. */
kn_ref ko_apply(kn_graph *g, kn_ref sink, const kn_nest *nest, ko_panels *panels, kn_fault *f);
/* What is asked of a choice, and what it tells of itself. `narrow`, up to KO_NARROWEST: how often the target has found
 * the kernel to hold more than there are registers; then it is of fewer rows and vectors at a time, beyond
 * KO_WHOLE_VECTORS of parts of vectors. `lanes`: 2 and the number of the output loop (origin) whose lanes it is to
 * have, 1: those of the sums, 0: whichever seem best; below 0: the same with no rows joined. */
enum { KO_WHOLE_VECTORS = 4, KO_NARROWEST = 6, KO_OTHERS = 2 };
typedef struct ko_choice {
    int    narrow, lanes;
    /* picoseconds that the kernel is predicted to take, to compute alone, and of that what further caches take */
    double ps, arithmetic, beyond;
    int    took; /* numbered as `lanes`: what it chose, */
    int    other[KO_OTHERS]; /* of the lists that are predicted to take the least beside it, */
    double other_ps[KO_OTHERS], other_arithmetic[KO_OTHERS]; /* and what they are, and to compute alone */
} ko_choice;
/* A simple choice of options for the machine's vectors and caches; returns how many (0: leave as it is). What it
 * weighed and what was refused is written to `explain`, which may be NULL. */
int ko_choose(kn_graph *g, kn_ref sink, const kn_machine *m, ko_choice *choice, kn_opt *opts, int cap, kn_str *explain,
              kn_fault *f);

/* "SPLIT:0:8:UPCAST SWAP:1:2 SPLIT:0:16:THREAD:top STAGE:2" and back (opts_text.c has the grammar). */
bool ko_parse_opts(const char *text, kn_opt *opts, int *n, kn_fault *f);
void ko_print_opts(const kn_opt *opts, int n, kn_str *out);

#endif
