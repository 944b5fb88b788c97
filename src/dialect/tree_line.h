/* tree_line.h - what the two files that read the tree form share: a line whose sources are being read. */
#ifndef KN_TREE_LINE_H
#define KN_TREE_LINE_H

#include "dialect/graph.h"
#include "dialect/parse.h"
#include "dialect/tree.h"

typedef struct tree_line {
    const char *at, *label; /* label NULL: none */
    size_t      label_len, head; /* where the head's text begins in tree_reader.heads */
    int         dtype, rank;     /* of the type that is written; -1: it does not say */
    int64_t     dims[KN_MAX_RANK];
    int         nsize;           /* BUFFER[2, 3], new_shape=[2, 3]; -1: none */
    int64_t     size[KN_MAX_RANK];
    int64_t     end;             /* of RANGE and SPECIAL, if `ended` */
    bool        ended, typed, slotted, sized; /* typed: the axis type, or the arg's dtype, is written */
} tree_line;

typedef struct tree_reader {
    kn_reader  r;
    tree_line *lines; /* one a frame */
    size_t     lines_cap;
    kn_str     heads;
    kn_ref    *known;
    size_t     known_cap, known_n;
    int64_t    buffers; /* without an identity so far */
    kn_ref     value;   /* of the last tree */
} tree_reader;

void   kn_tree_blank(tree_reader *t);
bool   kn_tree_line_ends(tree_reader *t); /* but for a comment */
/* A node that is done: a source of the line above, or a tree of its own. */
bool   kn_tree_deliver(tree_reader *t, const char *label, size_t len, kn_ref n, kn_ref gate);
kn_ref kn_tree_hole(tree_reader *t, const char *text, size_t len, const kn_ref *src, uint32_t nsrc);
kn_ref kn_tree_known(const tree_reader *t, int op, int64_t id, int64_t kind /* axis type, space; -1: any */);
bool   kn_tree_check(tree_reader *t, const tree_line *l, kn_ref n); /* the type that is written is n's */
bool   kn_tree_close(tree_reader *t);                               /* makes the innermost frame's node */
bool   kn_tree_head(tree_reader *t); /* tree_head.c: a line from its label to its type; opens a frame, or delivers */

#endif
