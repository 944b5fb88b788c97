/* tree_print.h - what the two files that print the tree form share. */
#ifndef KN_TREE_PRINT_H
#define KN_TREE_PRINT_H

#include "dialect/tree.h"

typedef struct tree_kid {
    kn_ref n, gate; /* gate: of an INDEX, printed with it; 0: none */
} tree_kid;

typedef struct tree_printer {
    const kn_graph *g;
    kn_str         *out;
    tree_kid       *kid;
    size_t          kid_cap, kids;
    /* by node */
    uint32_t *uses, *label;
    uint8_t  *height;
    bool     *cut, *done, *twin; /* twin: another node has the same short name */
    uint32_t  labels;
    bool      has_short; /* there are RANGEs or PARAMs */
} tree_printer;

/* tree_kids.c: what hangs below n (with its gate, if it is an INDEX that has one), added to t->kid. */
void kn_tree_kids(tree_printer *t, kn_ref n, kn_ref gate);
bool kn_tree_kid(tree_printer *t, kn_ref n, kn_ref gate);
/* Forms that the bestiary has and the dialect writes otherwise. */
typedef enum kn_tree_form {
    KN_TREE_PLAIN, KN_TREE_SHAPE, KN_TREE_VCONST, KN_TREE_PTRCAT, KN_TREE_CAT, KN_TREE_LANES, KN_TREE_GEP,
    KN_TREE_POINTER, KN_TREE_LOAD, KN_TREE_STORE, KN_TREE_BARRIER, KN_TREE_KERNEL, KN_TREE_BOX, KN_TREE_SHAPED,
    KN_TREE_BUFFER, KN_TREE_VAR
} kn_tree_form;
kn_tree_form kn_tree_form_of(const kn_graph *g, kn_ref n);
bool         kn_tree_is_shape(const kn_graph *g, kn_ref n); /* a STACK of constants: written in one line */

/* print_head.c: a node's line. */
void kn_tree_print_head(tree_printer *t, kn_ref n, bool gated);
/* A HOLE as it is written: `...`, words that are no op, a line whose node could not be made, the same with nothing but
 * `...` below it, or HOLE("text"), which is right for all. */
typedef enum kn_tree_gap { KN_GAP_DOTS, KN_GAP_WORDS, KN_GAP_HEAD, KN_GAP_ALONE, KN_GAP_QUOTED } kn_tree_gap;
kn_tree_gap kn_tree_gap_of(const tree_printer *t, kn_ref n);
/* RANGE(R0, Global), DEFINE_GLOBAL(0): nodes named again. False: n has no such name. */
bool kn_tree_short(tree_printer *t, kn_ref n);
bool kn_tree_same_short(const kn_graph *g, kn_ref a, kn_ref b);

#endif
