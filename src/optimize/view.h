/* view.h - inside the heuristic: a kernel as it is looked at while its list of options grows.
 *
 * heuristic.c weighs the lists, lanes.c makes what is of output loops, reduce_lanes.c what is of reductions. A list is
 * opts[0..*n), of `cap` at most; v->nest is the nest it gives. What is refused is left out. */
#ifndef KN_OPTIMIZE_VIEW_H
#define KN_OPTIMIZE_VIEW_H

#include "optimize/cost.h"

enum {
    KO_TILE_ROWS = 8, /* registers high */
    KO_BLOCK     = 8, /* of a transposition */
    KO_PIECE_OPS = 16, /* in a body that copies of are made of */
    KO_SHORT_SUM = 4, /* terms */
    KO_MANY_ROWS = 16 /* for which a factor is turned first */
};

typedef struct ko_access {
    kn_ref    node, reduce; /* the INDEX; the REDUCE it stands in, 0 none */
    double    trips;
    kn_affine form;
    bool      affine, stored; /* stored: with no gate */
} ko_access;

typedef struct ko_view {
    kn_graph  *g;
    kn_nest   *nest;
    ko_access *access;
    int        naccess;
    kn_ref     gate[64]; /* of LOADs, as many as there is room for */
    int        ngate;
    kn_ref     limit[64]; /* comparisons of indices, as many as there is room for */
    int        nlimit;
    const kn_machine *machine;
    int        narrow; /* ko_choice's */
    bool       joins; /* it may join rows, or its lanes are those of joined rows */
    bool       unjoined; /* it may not (ko_choice.lanes below 0) */
    bool       chosen; /* what the list is for will not be weighed against others */
    bool       phased; /* the list is to be one of phases, or is */
    bool       turned, apart; /* the list has a block that is turned; it is to have none */
    bool       byte_products; /* there are some */
    int64_t    lanes, wide; /* of the widest dtype: in a vector register, and in the two of a tile's row */
    int        outputs; /* origins that ENDs close: they come first */
    int        ops, work; /* that compute values, not indices; what a body has for them (ko_op_code) */
    int        behind; /* of `work` what stands in no reduction */
    int        divided; /* operations that take a divider */
    kn_ref     tile;    /* the END whose loops may carry lanes, 0 none */
    bool       streams; /* memory sets the pace: a line of each buffer a round */
    kn_str    *refused; /* what was refused, a line each; NULL: not asked for */
} ko_view;

/* view.c: the graph is read once. */
bool ko_look(ko_view *v, kn_ref sink, kn_fault *f);
/* Output loops of the innermost END; of an ordered kernel those of the outermost, which are around all of it. */
void ko_find_tile(ko_view *v);
/* Of an access, elements from one iteration of an origin to the next: 0: it does not move with the loop; 1: next
 * element; INT64_MAX: no such number. */
int64_t ko_stride_in(const ko_view *v, const ko_access *a, int origin);
bool    ko_may_be_lane(const ko_view *v, int o);
/* The access is the same one for all numbers of the outputs' loops, but for those of loop `but` (-1 none). */
bool    ko_stays_still(const ko_view *v, const ko_access *a, int but);
/* Floats of two bytes, which are converted: one by one that takes longer than the model knows. */
bool    ko_reads_halves(const ko_view *v);
int64_t ko_terms(const ko_view *v); /* of all sums in it, multiplied; 1: there are none */
bool    ko_is_gated(const ko_view *v, int origin); /* a LOAD asks whether it may, by that loop's number */
/* The loop whose rows a store puts in turns, lane by lane; all of it, and nothing else, lies between two lanes. Of sums
 * those of few terms alone: beside many it does not matter how they are stored. */
const kn_origin *ko_rows_in_turns(const ko_view *v, const ko_access *a, int lane);
/* The first loop of that origin, and type if that is not -1; -1: there is none. */
int     ko_position(const kn_nest *nest, int origin, int type);
bool    ko_push(ko_view *v, kn_opt o, kn_opt *opts, int *n, int cap);
bool    ko_split(ko_view *v, int at, int64_t by, int type, kn_opt *opts, int *n, int cap);
bool    ko_stage(ko_view *v, int64_t slot, kn_opt *opts, int *n, int cap); /* of that PARAM, where the sum begins */
int64_t ko_lane_vectors(const ko_view *v, int64_t w);
int64_t ko_tile_rows(int64_t extent, int64_t most); /* a divisor, if one is not much less */
/* Vector registers for accumulators and what is loaded for them: two are the target's own; with sixteen there are no
 * instructions that broadcast from memory, so one more holds that. */
int64_t ko_tile_registers(const ko_view *v);

/* lanes.c */
void ko_output_lanes(ko_view *v, int lane, int row, kn_opt *opts, int *n, int cap);
void ko_side_lanes(ko_view *v, kn_ref closer, kn_opt *opts, int *n, int cap);
/* A loop around the lanes whose iterations gates tell from one another, as those of parts that are joined, falls into
 * pieces which know on which side they are. */
void ko_pieces_of_gates(ko_view *v, int lane, kn_opt *opts, int *n, int cap);
/* So does one of windows, at whose edges terms lie outside. */
void ko_edges_of_windows(ko_view *v, int lane, kn_opt *opts, int *n, int cap);
/* The iteration of that loop from which on x, a comparison of indices of this loop alone, has its other value; 0: none.
 */
int64_t ko_turning_point(const ko_view *v, kn_ref x, int origin);
/* The loop along which short rows that are read share lines of memory, where each number of `row`, the one next to the
 * lanes, has most of a line for itself, and *rows, as many as a line has; -1: there is none. */
int ko_row_of_lines(const ko_view *v, int lane, int row, int64_t *rows);

/* join.c: lanes of short rows and of the loops around them are one run. False: they are none of those; the list may
 * have grown nevertheless. */
bool ko_join_rows(ko_view *v, int lane, kn_opt *opts, int *n, int cap);
/* Rows of that loop may be so short: less than a register, or of much arithmetic one and a half, of which the half
 * would take as long as one. */
bool ko_may_join(const ko_view *v, int lane);

/* phases.c: lanes, rows and terms of a sum that asks for remainders of output loops. False: this one does not; the list
 * may have grown nevertheless. */
bool ko_phase_lanes(ko_view *v, int lane, kn_opt *opts, int *n, int cap);

/* reduce_lanes.c */
double ko_sum_accesses(const ko_view *v, int64_t extent); /* that walk so many elements of a sum */
/* The reduction's own last loop could carry lanes: everything in it walks by one, or stands still. */
bool ko_reduce_lanes(const ko_view *v, kn_ref closer, int *origin);
/* The output loop whose numbers lie, all of them, between two terms of the sum's loop `own`, as of sums of columns of
 * which there are few: those lanes can be joined. -1: there is none. */
int ko_columns_of(const ko_view *v, kn_ref closer, int own);
/* The loop fills a row of a few registers that sums run along: it is all lanes, and stays in registers. */
bool ko_is_held_row(const ko_view *v, int origin);
/* Lanes of the reductions that the output's do not run through. */
void ko_sums_lanes(ko_view *v, int lane, int row, kn_opt *opts, int *n, int cap);
/* A loop of a sum whose terms other iterations of that row have for other terms, as of a window that goes down with the
 * rows: in copies for all of its terms rows of a tile load each once. -1: none, or it is long. */
int ko_shared_terms(const ko_view *v, int row);
/* A sum of few terms, as of a pool's window or in a product of small matrices, runs through them without a loop. */
void ko_unroll_sums(ko_view *v, bool product, kn_opt *opts, int *n, int cap);

#endif
