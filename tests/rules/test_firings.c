/* The programs of the corpus through the stages of the compiler, every firing of a value-preserving rule evaluated. */
#include "check.h"
#include "ir/corpus.h"
#include "lower/pipeline.h"
#include "rules/validate.h"

static kn_validation validation;
static int           programs, kernels;

static void lower_one(const corpus_program *cp, void *user) {
    corpus_case c = {0};
    kl_program  p;
    kn_fault    f = {0};
    int         out[CORPUS_MAX], nout;
    kl_run      run = {.stop = KN_STAGE_SELECT};
    (void)user;
    if (!CHECK(corpus_open(cp->text, &c, &f))) return;
    kl_program_init(&p, NULL);
    p.on_fire = kn_validate_hook;
    bool ok   = kl_program_from(&p, c.g, c.root, out, CORPUS_MAX, &nout, &f) && kl_lower(&p, &run, &f);
    if (!CHECK(ok)) printf("     %s: %s: %s\n", cp->file, cp->name, f.text);
    if (validation.failures) {
        printf("     %s: %s: %s\n", cp->file, cp->name, validation.text);
        CHECK_EQ(validation.failures, 0);
        validation.failures = 0;
    }
    programs++;
    kernels += (int)p.nkernel;
    kl_program_free(&p);
    corpus_close(&c);
}

static void firings_in_the_compiler(void) {
    kn_validate_begin(&validation);
    CHECK(corpus_each(CORPUS_DIR, lower_one, NULL) > 0);
    kn_validate_end();
    printf("     %d programs, %d kernels: %ld firings evaluated on %ld assignments\n", programs, kernels,
           validation.firings, validation.trials);
}

int main(void) {
    RUN(firings_in_the_compiler);
    return check_result();
}
