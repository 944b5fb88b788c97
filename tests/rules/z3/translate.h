/* translate.h - a rule in the words of Z3: variables, both sides and the condition as its terms, and the question
 * whether any assignment tells the sides apart. Ops mean what kn_alu says, conditions what the matcher computes. Built
 * where there is Z3. */
#ifndef KN_TRANSLATE_H
#define KN_TRANSLATE_H

#include <z3.h>

#include "rules/widths.h"
#include "rules_proof.h"

enum { KZ_VARS = 16, KZ_TYPES = 64, KZ_DEPTH = 32, KZ_ASSUME = 96, KZ_CASES = 64 };

typedef enum kz_verdict { KZ_HOLDS, KZ_NOTHING, KZ_UNKNOWN, KZ_WRONG } kz_verdict; /* of several: the largest */

/* A rule with its dtypes chosen. */
typedef struct kz_prover {
    const kn_proof *p;
    Z3_context      c;
    int             dt[KZ_TYPES];
    int             index; /* bits of an index; KN_WIDTH_ALL: an integer */
    bool            no_overflow;
    unsigned        bools; /* bits of variables: bools are tried one by one, which leaves straight arithmetic */
    Z3_ast          var[KZ_VARS], lo[KZ_VARS], hi[KZ_VARS];
    Z3_ast          assume[KZ_ASSUME];
    int             nassume;
    Z3_ast          split[KZ_CASES]; /* the cases of a power of two, proved one by one */
    int             nsplit;
    bool            cannot; /* an op or a condition that Z3 has no words for */
} kz_prover;

/* A fault of Z3's ends the program. What is made in it goes with it. */
Z3_context kz_context(void);
/* No assignment under the condition tells the sides apart, for the dtypes in q; NOTHING if the condition never holds.
 * `text` says where they differ. */
kz_verdict kz_prove(kz_prover *q, double until, char *text, size_t cap);

/* The parts, over q->var, q->lo and q->hi, which may be numerals. */
Z3_ast kz_numeral(kz_prover *q, int dt, kn_scalar v);
Z3_ast kz_whole(kz_prover *q, int bits, int64_t v); /* of an expression */
Z3_ast kz_apply(kz_prover *q, int op, int out, const int *in, const Z3_ast *s, int n);
Z3_ast kz_condition(kz_prover *q);
Z3_ast kz_constant(kz_prover *q, const kn_proof_term *t, int dt);
bool   kz_compares(int op);

#endif
