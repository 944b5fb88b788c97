/* book.h - the page about the rules, docs/rules.md of a build: each rule, how it is proved, how often it fires. */
#ifndef KN_BOOK_H
#define KN_BOOK_H

#include "rules/firings.h"

/* What holds of a rule. */
typedef enum kn_proved {
    KN_PROVED_NOT,        /* a marked rule that nothing proves */
    KN_PROVED_TRIED,      /* all values, by test_proofs; and Z3, as far as widths.def says */
    KN_PROVED_AT_FIRINGS, /* both sides evaluated whenever the corpus fires it */
    KN_PROVED_NEAR,       /* not marked: the same to KN_VALIDATE_UNITS whenever the corpus fires it */
    KN_PROVED_RUN,        /* not marked: what it makes is run and compared */
    KN_PROVED_GRADIENT,   /* not marked: a derivative, compared with differences */
    KN_PROVED_REFUSES,    /* a rule of the verifier: programs that it refuses, and that it passes */
    KN_PROVED_COUNT
} kn_proved;
kn_proved kn_how_proved(const kn_firings *f, int rule);

void kn_book_write(const kn_firings *f, kn_str *out);

#endif
