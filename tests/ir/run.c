/* run.c - see run.h. */
#include "ir/run.h"

#include "check.h"
#include "rules/verify.h"

bool run_text(const char *text, const kn_array *slots, int nslots, kn_value *out, kn_fault *f) {
    kn_graph *g    = kg_new(NULL);
    kn_ref    root = kg_parse(g, text, strlen(text), f);
    int       n    = out ? 1 : 0;
    bool      ok   = root && kn_eval(g, root, slots, nslots, out, &n, &(kn_eval_opts){.check = true}, f);
    if (root && !kn_verify(g, root, KN_STAGE_ANY, f)) ok = false;
    kg_free(g);
    return ok;
}

void run_refused(const char *text, const kn_array *slots, int nslots, kn_status code, const char *word) {
    kn_fault f = {0};
    kn_value v = {0};
    CHECK(!run_text(text, slots, nslots, &v, &f));
    CHECK_EQ(f.code, code);
    if (!CHECK(strstr(f.text, word) != NULL)) fprintf(stderr, "  %s\n", f.text);
    kn_value_free(NULL, &v);
}
