/* widths.h - what widths.def records of each rule that Z3 proves (test_z3.c says what a width is). */
#ifndef KN_WIDTHS_H
#define KN_WIDTHS_H

enum { KN_WIDTH_ALL = 1000 }; /* integers without any bound */

typedef struct kn_width {
    const char *group, *rule;
    int         ints, floats;
    int         quick; /* `make check` proves it at no more than this */
} kn_width;

/* The row of a rule by its number, NULL if there is none. */
const kn_width *kn_width_of(int rule);

#endif
