/* text.h - a text program as Rangeify leaves it, for tests of its kernels. */
#ifndef KN_TESTS_TEXT_H
#define KN_TESTS_TEXT_H

#include "check.h"
#include "lower/pipeline.h"

/* *p over *g, which the caller frees in any case; what was weighed goes to `explain`, NULL nowhere. False: it failed,
 * and the test with it. */
static inline bool rangeify_text(const char *text, kn_str *explain, kl_program *p, kn_graph **g) {
    kn_fault f   = {0};
    kl_run   run = {.stop = KN_STAGE_RANGEIFY};
    int      slot[32], n;
    *g = kg_new(NULL);
    kl_program_init(p, NULL);
    p->explain  = explain;
    kn_ref root = kg_parse(*g, text, strlen(text), &f);
    bool   ok   = CHECK(root && kl_program_from(p, *g, root, slot, 32, &n, &f) && kl_lower(p, &run, &f));
    if (!ok) printf("  %s\n", f.text);
    return ok;
}

#endif
