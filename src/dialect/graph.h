/* graph.h - the inside of a kn_graph, for the files of this folder only. */
#ifndef KN_GRAPH_H
#define KN_GRAPH_H

#include "dialect/why.h"

/* A set of ranges, a bit each in the order in which the graph made them. */
typedef struct kn_set {
    uint32_t first, words; /* the words there are, what lies outside them is not in it; words 0: empty; 1: `one` */
    union {
        uint64_t        one;
        const uint64_t *many;
    } u;
} kn_set;

typedef struct kn_prop {
    const int64_t *shape; /* [0] is the rank, then the sizes */
    int64_t        min, max;
    kn_set         set;
    uint32_t       device;
    int16_t        axis;
    uint32_t       bit; /* of a RANGE that loops: its number, counted from 1 */
} kn_prop;

typedef struct kn_text {
    const char *data;
    size_t      len;
} kn_text;

/* Open-addressing table of (hash, id); the owner compares. */
typedef struct kn_table {
    uint64_t *slot; /* hash << 32 | id; id 0 is free */
    size_t    cap, used;
} kn_table;

struct kn_graph {
    kn_graph_at     at;
    const kn_alloc *alloc;
    kn_fault        fault;
    kn_prop       **prop; /* in chunks, as nodes are */
    size_t          chunk_cap, prop_cap;
    uint32_t        count, chunks;
    kn_table        nodes, word_table, str_table;
    size_t          words_cap, words_n;
    kn_text        *strs;
    size_t          strs_cap, strs_n;
    kn_ref         *ranges; /* bit - 1 -> RANGE */
    size_t          ranges_cap, ranges_n;
    kn_arena        arena;
    bool            placed; /* some node names a device */
    kn_why         *why;   /* NULL: nobody asks where nodes come from */
    uint32_t       *cause; /* per node */
    size_t          cause_cap;
};

static inline kn_prop *kg_prop(const kn_graph *g, kn_ref n) {
    return &g->prop[n >> KN_CHUNK_BITS][n & (KN_CHUNK - 1)];
}

/* shape.c: dtype and shape of a node about to be made. False with the graph's fault set when sources do not fit. */
bool kg_infer_dtype(kn_graph *g, const kn_node *nd, const kn_ref *src, int wanted, int *dtype);
bool kg_infer_shape(kn_graph *g, const kn_node *nd, const kn_ref *src, int64_t *shape /* [0] rank */);
/* bounds.c: fills min and max, the range set and, of a RANGE, the bit. */
void kg_infer_bounds(kn_graph *g, const kn_node *nd, const kn_ref *src, kn_prop *p);
bool kg_infer_ranges(kn_graph *g, const kn_node *nd, const kn_ref *src, kn_prop *p);
/* why.c, of graphs that have a log: the cause of a node just made; the cause that nodes made from now on have (0: what
 * the log says), which returns the one before. */
void     kg_note_cause(kn_graph *g, kn_ref n);
uint32_t kg_swap_cause(kn_graph *g, uint32_t cause);
/* axis.c: device and sharding axis. False on a conflict. */
bool kg_infer_place(kn_graph *g, const kn_node *nd, const kn_ref *src, kn_prop *p);

#endif
