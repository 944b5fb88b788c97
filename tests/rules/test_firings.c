/* The corpus through the compiler: every firing of a value-preserving rule evaluated, and no rule that never fires or
 * that nothing proves.
 *
 *   test_rules_firings --write FILE   the page about the rules, where all of this holds */
#include "check.h"
#include "rules/book.h"

static kn_firings firings;

static void firings_keep_values(void) {
    CHECK(kn_firings_of_corpus(&firings));
    printf("     %d programs, %d gradients, %d kernels: %ld firings evaluated on %ld assignments\n", firings.programs,
           firings.gradients, firings.kernels, firings.checks.firings, firings.checks.trials);
}

static void name_rule(int r, const char *what) {
    printf("     %s:%d %s.%s: %s\n", kn_rules[r].file, kn_rules[r].line, kn_rules[r].group, kn_rules[r].name, what);
}

static void every_rule_fires(void) {
    for (int r = 0; r < kn_rule_count; r++)
        if (kn_how_proved(&firings, r) != KN_PROVED_REFUSES && !CHECK(firings.fired[r]))
            name_rule(r, "nothing in the corpus fires it");
}

static void every_rule_is_proved(void) {
    for (int r = 0; r < kn_rule_count; r++)
        if (!CHECK(kn_how_proved(&firings, r) != KN_PROVED_NOT))
            name_rule(r, "no row in widths.def, or a firing that could not be evaluated");
}

static void write_book(const char *file) {
    kn_str   text;
    kn_fault f = {0};
    kn_str_init(&text, NULL);
    kn_book_write(&firings, &text);
    if (!CHECK(kn_write_file(file, kn_str_c(&text), text.len, 0644, &f))) printf("%s\n", f.text);
    kn_str_free(&text);
}

int main(int argc, char **argv) {
    RUN(firings_keep_values);
    RUN(every_rule_fires);
    RUN(every_rule_is_proved);
    if (argc > 2 && !strcmp(argv[1], "--write") && !check_result()) write_book(argv[2]);
    kn_firings_free(&firings);
    return check_result();
}
