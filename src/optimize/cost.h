/* cost.h - what a kernel under an edited nest is predicted to cost: counts of vector operations and of the bytes that
 * each level of memory serves, by the machine's table. Nothing is run. */
#ifndef KN_COST_H
#define KN_COST_H

#include "optimize/opts.h"

/* Elements from the first to the last that `count` numbers of a range reach, in an index of that form: of quotients and
 * remainders of the range all that they can be. INT64_MAX: no such number. */
int64_t ko_reach(const kn_graph *g, const kn_affine *form, kn_ref range, int64_t count);
/* Steps of the range after which x, an index, asks for the same of that range alone, or goes on by one: a quotient or a
 * remainder by so many, `most` at most; negative where it counts down. 0: x is none. */
int64_t ko_period(const kn_graph *g, kn_ref x, kn_ref range, int64_t most);
/* Of the origin's numbers from *lo on, to *hi, those for which the comparison of indices is true whatever the others
 * are. */
void    ko_where_true(const kn_graph *g, const kn_origin *o, kn_ref x, int64_t *lo, int64_t *hi);
int64_t ko_places_span(const int64_t *place, int64_t lanes); /* from the first of so many places to the last */
/* Runs of `lanes` elements that have all of so many places; more than `most`: they are more. */
int ko_runs(const int64_t *place, int64_t lanes, int most);
enum { KO_RUNS = 4 }; /* that a register's lanes are shuffled from, at most */
/* Lines so many bytes apart that the L1 has a place for: they lie in some of its sets alone. */
int64_t ko_lines_held(const kn_machine *m, int64_t apart);
/* Vector operations that an op takes as long as: 0 what is no arithmetic. Powers, logarithms and sines as counted in
 * the machine code for x86-64, of f32 (docs/decisions-measured.md). */
int ko_op_weight(int op);
int ko_op_code(int op); /* operations that a body has for it: as many, but few for what waits for a divider */

typedef struct ko_cost {
    double ps;              /* of one thread: the longer of arithmetic and memory, and the loops' own steps, */
    double unhidden;        /* with this of the shorter, which the longer does not hide */
    double arithmetic, memory, loops;
    double issue;           /* of loads and stores, shuffles included; memory takes as long at least */
    double beyond;          /* of memory, what the caches beyond the first take: instructions know nothing of it */
    double bytes[KN_LEVELS]; /* served by L1, L2, L3, DRAM: loads, then stores */
    double stored[KN_LEVELS];
} ko_cost;

/* What is known of a kernel before any option: made once, asked for each candidate. */
typedef struct ko_model ko_model;
ko_model *ko_model_new(kn_graph *g, kn_ref sink, const kn_nest *nest, kn_fault *f); /* the nest before edits */
void      ko_model_free(ko_model *m);
/* The nest as options have it. Deterministic, allocates nothing; the model is scratch as well. */
void      ko_predict(ko_model *m, const kn_nest *nest, const kn_machine *machine, ko_cost *out);

/* Registers of `each` lanes that so many take: whole ones, and of what is left over one for each power of two in it. */
int64_t ko_vectors(int64_t lanes, int64_t each);

/* A time in ns, us or ms, in 9 columns. */
void ko_print_time(double ps, kn_str *out);
/* "arithmetic memory loops total", in columns; ko_cost_columns names them. */
void ko_print_cost(const ko_cost *c, kn_str *out);
extern const char ko_cost_columns[];

#endif
