/* reach.h - over which values test_proofs tries a rule. */
#ifndef KN_REACH_H
#define KN_REACH_H

#include "check.h"
#include "rules_proof.h"

enum { KN_PROOF_TYPES = 64 };

/* Of a rule with a choice of dtypes. */
typedef struct kn_reach {
    bool    casts;  /* of several dtypes at once: the ends of every width, and what is near them */
    bool    narrow; /* 4 of the 8 bits of an integer */
    int64_t index;  /* all of -index..index */
    int     floats; /* variables that a float's values are combined with, itself included */
} kn_reach;

kn_reach kn_reach_of(const kn_proof *p, const int *dt);
/* Are all values of a float of so many bytes tried, not samples? */
bool kn_reach_all(const kn_reach *r, int bytes);
/* All of f32 too, in `make check-full`: a rule of one float that Z3 has no words for. */
bool kn_reach_f32(const kn_proof *p);
/* In words: "8-bit integers; all of f8 and f16". */
void kn_reach_text(const kn_proof *p, char *text, size_t cap);

#endif
