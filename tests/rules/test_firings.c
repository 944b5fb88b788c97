/* The corpus through the compiler: every firing of a value-preserving rule evaluated, and no rule that never fires. */
#include "check.h"
#include "rules/firings.h"

static kn_firings firings;

static void firings_keep_values(void) {
    CHECK(kn_firings_of_corpus(&firings));
    printf("     %d programs, %d gradients, %d kernels: %ld firings evaluated on %ld assignments\n", firings.programs,
           firings.gradients, firings.kernels, firings.checks.firings, firings.checks.trials);
}

static void every_rule_fires(void) {
    for (int r = 0; r < kn_rule_count; r++) {
        if (!strcmp(kn_rules[r].group, "verify") || firings.fired[r]) continue;
        printf("     %s:%d %s.%s\n", kn_rules[r].file, kn_rules[r].line, kn_rules[r].group, kn_rules[r].name);
        CHECK(!"a rule that nothing in the corpus fires");
    }
}

int main(void) {
    RUN(firings_keep_values);
    RUN(every_rule_fires);
    kn_firings_free(&firings);
    return check_result();
}
