/* test_verify.c - verify.rules by their own programs: each rule refuses what it says it does, and nothing refuses what
 * they call good. That each rule has a program is rulegen's to see to; here it is counted once more. */
#include "check.h"
#include "rewrite/rewrite.h"
#include "rules/verify.h"

#include "rules_proof.h"

#include <stdlib.h>

static bool read_program(const kn_rule_program *p, kn_graph *g, kn_ref *root) {
    kn_fault f = {0};
    *root      = kg_parse(g, p->text, strlen(p->text), &f);
    if (*root && p->as) *root = kg_make(g, KN_OP_CONST, p->as, kg_node(g, *root)->arg, NULL, 0);
    if (!CHECK(*root != 0)) fprintf(stderr, "%s:%d: %s\n", kn_rules[p->rule].file, p->line, f.text);
    return *root != 0;
}

static void test_programs(void) {
    int refused = 0;
    for (int i = 0; i < kn_rule_program_count; i++) {
        const kn_rule_program *p = &kn_rule_programs[i];
        kn_graph              *g = kg_new(NULL);
        kn_fault               f = {0};
        kn_ref                 root;
        char                   want[200];
        if (read_program(p, g, &root)) {
            bool ok = kn_verify(g, root, (kn_stage)p->stage, &f);
            const kn_rule_info *r = &kn_rules[p->rule];
            snprintf(want, sizeof want, "verify after %s: verify.%s: %%", kn_stage_names[p->stage], r->name);
            if (!CHECK_EQ(ok, !p->bad) || (p->bad && !CHECK(strstr(f.text, want) == f.text)))
                fprintf(stderr, "%s:%d: %s\n%s\n%s\n", r->file, p->line, r->name, p->text, f.text);
            refused += p->bad;
        }
        kg_free(g);
    }
    printf("     %d programs refused, %d passed\n", refused, kn_rule_program_count - refused);
}

static void test_each_rule_has_one(void) {
    int rules = 0;
    for (int r = 0; r < kn_rule_count; r++) {
        if (strcmp(kn_rules[r].group, "verify") != 0) continue;
        bool bad = false;
        for (int i = 0; i < kn_rule_program_count; i++) bad |= kn_rule_programs[i].rule == r && kn_rule_programs[i].bad;
        if (!CHECK(bad)) fprintf(stderr, "%s\n", kn_rules[r].name);
        rules++;
    }
    CHECK(rules > 30);
}

/* Judging a program leaves it as it is, and what is wrong is shown with what stands below it. */
static void test_shown(void) {
    static const char text[] = "%o = PARAM {slot=0} [4]\n%a = PARAM {slot=1} [4]\n"
                               "%x = SINK (STORE (NEG (ADD %o %a)) %a)\n";
    kn_graph *g = kg_new(NULL);
    kn_fault  f = {0};
    kn_ref    root   = kg_parse(g, text, strlen(text), &f);
    uint32_t  before = kg_count(g);
    CHECK(root && !kn_verify(g, root, KN_STAGE_TENSOR, &f));
    CHECK_EQ(kg_count(g), before);
    CHECK(strstr(f.text, "STORE: writes to something") && strstr(f.text, " = NEG ") && strstr(f.text, " = ADD ") &&
          strstr(f.text, " = PARAM {slot=1}"));
    CHECK_EQ(f.code, KN_ERR_ARG);
    kg_free(g);
}

int main(void) {
    RUN(test_programs);
    RUN(test_each_rule_has_one);
    RUN(test_shown);
    return check_result();
}
