/* run.h - a program of the text form through the interpreter, bounds and overflows checked. */
#ifndef KN_TEST_IR_RUN_H
#define KN_TEST_IR_RUN_H

#include "dialect/eval.h"

/* out: the program's one value, to be freed; NULL where it has effects alone. False: *f says why. */
bool run_text(const char *text, const kn_array *slots, int nslots, kn_value *out, kn_fault *f);
/* It fails with that code, and the text has that word. */
void run_refused(const char *text, const kn_array *slots, int nslots, kn_status code, const char *word);

#endif
