/* cut.h - inside Select of x86-64: an expanded kernel of tiles becomes a graph of what registers hold.
 *
 * Every value of the result is a scalar, or a run of lanes that one register holds. Elementwise ops are INS nodes;
 * LOAD, STORE, BITCAST, RANGE, END and AFTER keep their ops: of a register's worth of elements they are moves, jumps
 * and names. BUFFER{REG} of a tile becomes one buffer a cell: an accumulator. Index values are scalar; what lies
 * between loops is a chain of INS{iv} (range * stride + outer part), which the allocator keeps as a running sum.
 *
 * All values of a kernel have one number of lanes, that of its widest element, so that cells of values of different
 * dtypes cover the same elements; but arithmetic of half as many bytes has twice as many: a CAST to it joins two
 * registers, one from it takes each apart. What has no vector form is done lane by lane, through LOCAL memory where it
 * must. */
#ifndef KN_X86_CUT_H
#define KN_X86_CUT_H

#include "target/target.h"
#include "target/x86/x86.h"

typedef struct kx_tile {        /* how a shape is cut: rows of chunks */
    int     rank, nchunk, full; /* chunks a row; how many of them are of all lanes */
    int64_t dims[KN_MAX_RANK], rows, lanes;
    int     width;   /* all lanes: a register of the widest dtype; of the values of `dense` twice as many */
    int     rest[8]; /* widths of the others */
    bool    laps;    /* the last of them ends with the row, wherever it starts */
} kx_tile;

typedef struct kx_tile_at {              /* where its elements lie */
    bool    plain;
    kn_ref  buffer, off;                 /* off: 0 none */
    int64_t base, coef[KN_MAX_RANK], run; /* run: it is not plain, but a row's lanes lie that far apart; 0: nor that */
} kx_tile_at;

/* What is asked of a value: a cell's register, an element's scalar, or an element on KX_WIDE lanes that are all it. */
typedef enum kx_as { KX_AS_CELL, KX_AS_ELEMENT, KX_AS_WIDE } kx_as;
enum { KX_WIDE = 4 };

typedef struct kx_need {
    kn_ref  node;
    int64_t at; /* cell, or element */
    kx_as   as;
} kx_need;

typedef struct kx_cut {
    kn_graph *g;
    kn_fault *f;
    kn_arena  arena;
    bool      avx512, pairs; /* pairs: two lanes may be a chunk */
    bool      whole;         /* units take 64 bytes (kn_machine) */
    bool      laps;          /* a row's last chunk may have lanes of the one before it: they are made twice */
    int       lanes;
    int       index;              /* what lanes of dtype index are held as: I32 or I64 */
    kn_ref  **vec, **sca, **wide; /* per node: its cells, its elements, its wide elements, as they are built; of a
                                   * REDUCE whose rows have one element: rows that are folded together */
    kn_ref  **pair;               /* per node, that is made element by element: every second with the next, as lanes */
    kn_ref   *off;                /* per index: the scalar part of an address */
    kn_ref   *table;              /* per WHERE that looks up constants: the memory that has them */
    kn_ref   *product;            /* per MULACC: the MUL of what it multiplies, if that is a value as well */
    uint8_t  *mark;               /* values that are needed as values */
    uint8_t  *dense;              /* values of half the widest's bytes, and STOREs of them: cells of twice the lanes */
    uint8_t  *sum;                /* sums of floats that began with 0, so that none is -0: another 0 changes nothing */
    uint8_t  *bits;               /* f32 and words that are computed with the bits of f32: their elements are wide */
    int      *depth;              /* of a RANGE */
    size_t    size;
    kx_need  *stack;
    size_t    nstack, stack_cap;
    int64_t   next_local, ntable;
    kn_ref    root;
} kx_cut;

/* cut.c */
void kx_tile_of(const kx_cut *c, kn_ref n, kx_tile *t);
int  kx_chunk_start(const kx_tile *t, int chunk);
int  kx_chunk_width(const kx_tile *t, int chunk);
/* The REDUCE folds lanes with one another: it takes registers of any number of them. */
bool kx_folds(const kx_cut *c, kn_ref reduce);
/* What is built of a node already; else 0, and it is asked for: the caller comes back later. */
kn_ref kx_vec(kx_cut *c, kn_ref n, int64_t cell);
kn_ref kx_sca(kx_cut *c, kn_ref n, int64_t element);
kn_ref kx_wide(kx_cut *c, kn_ref n, int64_t element);
/* The element of `s` that broadcasts to (row, lane) of `d`; its row. */
int64_t kx_row_in(const kx_tile *s, const kx_tile *d, int64_t row);
int64_t kx_element_in(const kx_tile *s, const kx_tile *d, int64_t row, int64_t lane);
/* n as an operand of cell (row, chunk) of d: a register of lanes, or a CONST. */
kn_ref kx_operand(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk);
kn_ref kx_splat(kx_cut *c, kn_ref scalar, int lanes);
/* Room for what is built of a node, `count` of it, in one of the tables; NULL: no memory. */
kn_ref *kx_slots_of(kx_cut *c, kn_ref **table, kn_ref n, int64_t count);
bool    kx_refuse(kx_cut *c, kn_ref n, const char *what);
/* The dtype a value of n's dtype has as lanes. */
static inline int kx_lane_dtype(const kx_cut *c, int dt) {
    return dt == KN_INDEX ? c->index : dt;
}

static inline int kx_value_size(const kx_cut *c, int dt) { /* bytes of a lane */
    return kx_held_bytes(c->avx512, kx_lane_dtype(c, dt));
}
/* Lanes are chosen by their bits where it is known which: what a mask is computed of, their numbers, has more bytes. */
static inline bool kx_by_bits(const kx_cut *c, int dt) {
    return !c->avx512 && dt != KN_BOOL && kn_is_int(dt) && kn_dsize(dt) < 4;
}

/* By a constant: a quotient, or a remainder. */
static inline bool kx_is_part(int op) {
    return op == KN_OP_IDIV || op == KN_OP_MOD || op == KN_OP_SHR || op == KN_OP_AND;
}

/* Numbers along an axis of a tile, not a loop. */
static inline bool kx_is_iota(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_RANGE && kg_field(g, n, KN_F_RANGE_rank) > 0;
}

/* A constant whose bits are all 0: of floats not -0. */
static inline bool kx_is_zero(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_CONST && !kg_node(g, n)->arg;
}

/* cut_pack.c: all of a buffer of w lanes; the lanes of a register as scalars. */
kn_ref kx_run_of(kx_cut *c, kn_ref buffer, int w);
bool   kx_lanes(kx_cut *c, kn_ref v, int w, kn_ref *out);
/* Cell (row, chunk) of n, made element by element. 0: elements are asked for. */
kn_ref kx_pack_elements(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk);
/* The cell of a LOAD, joined of runs of lanes that lie side by side; *none: they are no runs, or too many. */
kn_ref kx_pack_runs(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk, bool *none);
/* Lanes at those places, from the first one on, are shuffled from a few runs. */
bool kx_shuffles(const kx_cut *c, int dtype, const int32_t *place, int w);
/* Lanes from..from + count of a register. */
kn_ref kx_part(kx_cut *c, kn_ref v, int w, int from, int count);
/* Two registers of w lanes, or two scalars (1), one behind the other: where loads find both; as one register. */
kn_ref kx_behind(kx_cut *c, int dtype, kn_ref low, kn_ref high, int w);
kn_ref kx_join(kx_cut *c, int dtype, kn_ref low, kn_ref high, int w);
/* Of what lies behind one another the even lanes of both, or the odd ones. */
kn_ref kx_every_second(kx_cut *c, kn_ref both, int odd, int w);

/* cut_reduce.c: cell (row, chunk) of a REDUCE, or where it folds lanes the row's element; the element without registers
 * of lanes. */
kn_ref kx_reduce_row(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk);
kn_ref kx_reduce_element(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int64_t lane);
/* How many rows of a REDUCE are folded together with that one, and the first of them; 1: it is folded alone. as_lanes:
 * nobody asks for one of them alone. */
int kx_rows_reduced(const kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, bool as_lanes, int64_t *first);
/* Such rows as a register of as many lanes. */
kn_ref kx_reduce_rows(kx_cut *c, kn_ref n, const kx_tile *d, int64_t first, int count);

/* cut_dense.c: marks c->dense; `order` has the kernel's n nodes, sources first. */
void kx_find_dense(kx_cut *c, const kn_ref *order, uint32_t n, int bytes);

/* cut_ops.c: the value ops. */
kn_ref kx_node(kx_cut *c, int op, int dtype, int lanes, const kn_ref *src, int n);
/* n has a form on lanes; else it is made lane by lane. */
bool kx_has_form(const kx_cut *c, kn_ref n);
kn_ref kx_alu(kx_cut *c, kn_ref n, int lanes, const kn_ref *src, uint32_t k);
/* Marks c->sum; `order` has the kernel's n nodes, sources first. */
void kx_find_sums(kx_cut *c, const kn_ref *order, uint32_t n);

/* cut_lookup.c: cell (row, chunk) of a WHERE, if it is one of a table of constants. 0: *is says whether it waits. */
kn_ref kx_lookup(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk, bool *is);

/* cut_gates.c: a gate of a cell's lanes that is a conjunction of what is known of their numbers, and of what all lanes
 * share. */
typedef struct kx_let {
    kn_ref   known[8], rest[8];
    int      nknown, nrest;
    uint64_t lanes; /* that the known parts let through */
} kx_let;
/* Of each lane x is known: it is computed of their numbers, and of constants. */
bool kx_is_told(const kn_graph *g, kn_ref x);
/* So is each part of the conjunction, or all lanes share it. */
bool kx_tells_lanes(const kn_graph *g, kn_ref gate);
/* Cell (row, chunk) of a WHERE that is told what to choose, and has no masks; *is: it is one. 0: asked for. */
kn_ref kx_choose_told(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk, bool *is);
/* 1: the gate is one, and *out it. 0: asked for; -1: it is none. */
int kx_known_gate(kx_cut *c, kn_ref gate, const kx_tile *d, int64_t row, int from, int w, kx_let *out);
/* Lanes whose places are known but for what all have: a few runs are shuffled; of what is not among `lanes` anything is
 * read that lies between the others. *none: they are too far apart. */
kn_ref kx_load_places(kx_cut *c, kn_ref n, kx_tile_at *a, const kx_tile *d, int64_t row, int chunk, uint64_t lanes,
                      bool *none);
/* The lanes that a gate lets through of a LOAD of what is shuffled; the others have what it says in their place. Where
 * a part that all share is false nothing is read. */
kn_ref kx_load_let(kx_cut *c, kn_ref n, kn_ref load, const kx_let *t, const kx_tile *d, int64_t row, int chunk);
/* The one lane that a gate lets through: its element is in all of them, and the others have what the LOAD says. */
kn_ref kx_load_only(kx_cut *c, kn_ref n, const kx_let *t, const kx_tile *d, int64_t row, int chunk);

/* cut_memory.c: where the elements of a tile lie; its parts as they are asked for (0, false), but for *none: there are
 * no scalars. */
bool   kx_find_at(kx_cut *c, kn_ref at, const kx_tile *d, kx_tile_at *a);
kn_ref kx_scalar_part(kx_cut *c, kn_ref idx, const kn_affine *f, bool *none);
/* Operand n for (row, lane): a scalar. */
kn_ref kx_element_operand(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int64_t lane);
bool   kx_lanes_share(const kx_cut *c, kn_ref n);
bool   kx_is_register(const kn_graph *g, kn_ref at);
bool   kx_plain(const kn_graph *g, kn_ref idx, kn_affine *f);
int64_t kx_apart_of(const kn_graph *g, kn_ref idx, int rank);
kn_ref kx_place(kx_cut *c, kn_ref at, int64_t cell, int w, int dtype);
kn_ref kx_load_cell(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int chunk);
kn_ref kx_load_element(kx_cut *c, kn_ref n, const kx_tile *d, int64_t row, int64_t lane);
kn_ref kx_store(kx_cut *c, kn_ref n);
kn_ref kx_prefetch(kx_cut *c, kn_ref n);

#endif
