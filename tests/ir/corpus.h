/* corpus.h - the corpus of text programs: one set of programs for every engine.
 *
 * tests/ir/corpus/FILE.kn holds many programs, each below a line "--- name". hand_*.kn are written by hand; gen_*.kn
 * are what gen_corpus.c makes (test_ir_corpus --write). A program is a value, a TUPLE of values, or a SINK of STOREs
 * into PARAMs, over PARAMs 0, 1, ...; a PARAM that is a variable has a value within its bounds. */
#ifndef KN_CORPUS_H
#define KN_CORPUS_H

#include "dialect/eval.h"

enum { CORPUS_MAX = 32 }; /* PARAMs, and values, of a program */

typedef struct corpus_program {
    const char *file, *name, *text; /* text is 0-terminated */
} corpus_program;

/* A program read, with its inputs filled. */
typedef struct corpus_case {
    kn_graph *g;
    kn_ref    root;
    kn_ref    param[CORPUS_MAX];
    kn_array  slot[CORPUS_MAX];
    int       nslots;
    kn_graph *now; /* the program with numbers for its variables; g and root where it has none */
    kn_ref    now_root;
    uint8_t  *exact; /* corpus_judge's, by node of now: every engine computes the same bits */
    double    tolerance; /* what two correct engines may differ by, relative to max(1, |value|) */
} corpus_case;

/* fn(program, user) for each program of the folder's .kn files, in a fixed order; how many, -1 with a message when a
 * file cannot be read. */
#define CORPUS_DIR KN_TEST_SOURCE "/tests/ir/corpus"
int  corpus_each(const char *folder, void (*fn)(const corpus_program *p, void *user), void *user);
bool corpus_open(const char *text, corpus_case *c, kn_fault *f);
/* The same at other values of its variables: the least, the largest, and two between, by the last two bits of point. */
bool corpus_open_at(const char *text, unsigned point, corpus_case *c, kn_fault *f);
void corpus_close(corpus_case *c);

/* The program's values, as the interpreter has them at tensor level: its root, the elements of its TUPLE, what its
 * STOREs store; *n of them, at most CORPUS_MAX. False with `why`, of `cap` bytes: it does not run (*n is -1), or some
 * value depends on rounding: an overflow, a division near zero, a comparison or conversion to an integer that a last
 * bit could flip. */
bool corpus_judge(corpus_case *c, kn_value *value, int *n, char *why, size_t cap);
/* The same without the values. */
bool corpus_conditioned(corpus_case *c, char *why, size_t cap);

/* shake.c: the values again, after corpus_judge, with every float operation that engines may round in their own way off
 * by some last bits, by chance. What differs much from the program's own values says nothing about an engine. */
bool corpus_shaken(corpus_case *c, uint64_t seed, kn_value *value, int *n, kn_fault *f);

/* The same over the programs of one file's text, which is cut up. */
int corpus_each_in(const char *file, char *text, void (*fn)(const corpus_program *p, void *user), void *user);

/* gen_corpus.c: `count` programs (0: as many as the corpus keeps) of a family, as the text of a file; family <
 * gen_corpus_files. False: too few were fit. */
extern const int gen_corpus_files;
const char      *gen_corpus_name(int family);
bool             gen_corpus(int family, uint64_t seed, int count, kn_str *out);

#endif
