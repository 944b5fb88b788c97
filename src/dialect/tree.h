/* tree.h - the bestiary's tree form: one node a line, its sources hanging below it (docs/dialect.md). */
#ifndef KN_TREE_H
#define KN_TREE_H

#include "dialect/uop.h"

/* Whether a text is in the tree form: its first statement is no "%name = ...", or a line of it hangs from another. */
bool kn_text_is_tree(const char *text, size_t len);
/* Reads the tree form; the value is the last tree's. What is left out becomes a HOLE, and so does a node that cannot be
 * made for it: its text is the line as it stood. 0 with line and column in the fault. */
kn_ref kg_parse_tree(kn_graph *g, const char *text, size_t len, kn_fault *f);
/* kg_parse or kg_parse_tree, as the text is. */
kn_ref kg_parse_any(kn_graph *g, const char *text, size_t len, kn_fault *f);
/* Prints root in the tree form and the bestiary's spellings; kg_parse_tree of it gives the same graph. */
void kg_print_tree(const kn_graph *g, kn_ref root, kn_str *out);

#endif
