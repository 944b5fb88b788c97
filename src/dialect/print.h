/* print.h - what the printers of the text forms share (print.c). */
#ifndef KN_PRINT_H
#define KN_PRINT_H

#include "dialect/uop.h"

void kn_print_text(const kn_graph *g, uint32_t id, kn_str *out);  /* in double quotes */
void kn_print_value(const kn_graph *g, kn_ref c, kn_str *out);    /* of a CONST, without its dtype */

#endif
