/* book.c - writes the page about the rules. */
#include "rules/book.h"

#include <string.h>

#include "rules/reach.h"
#include "rules/widths.h"

static const kn_proof *proof_of(int rule) {
    for (int i = 0; i < kn_proof_count; i++)
        if (kn_proofs[i].rule == rule) return &kn_proofs[i];
    return NULL;
}

kn_proved kn_how_proved(const kn_firings *f, int rule) {
    if (kn_rule_pages[rule].refuses) return KN_PROVED_REFUSES;
    if (!strcmp(kn_rules[rule].group, "gradient")) return KN_PROVED_GRADIENT;
    bool near = !strncmp(kn_rules[rule].group, "decomp", 6), marked = *kn_rules[rule].exact;
    if (!marked && !near) return KN_PROVED_RUN;
    if (proof_of(rule)) return kn_width_of(rule) ? KN_PROVED_TRIED : KN_PROVED_NOT;
    if (!f->checks.checked[rule] || f->checks.checked[rule] != f->fired[rule]) return KN_PROVED_NOT;
    return near ? KN_PROVED_NEAR : KN_PROVED_AT_FIRINGS;
}

/* "64 bits, f64" */
static void width_text(const kn_width *w, kn_str *out) {
    if (w->ints == KN_WIDTH_ALL)
        kn_str_puts(out, "all integers");
    else if (w->ints == 1)
        kn_str_puts(out, "bools");
    else if (w->ints)
        kn_str_putf(out, "%d bits", w->ints);
    if (w->floats) kn_str_putf(out, "%sf%d", w->ints ? ", " : "", w->floats);
}

static void proof_text(const kn_firings *f, int rule, kn_str *out) {
    const kn_width *w = kn_width_of(rule);
    char            text[200];
    switch (kn_how_proved(f, rule)) {
    case KN_PROVED_TRIED:
        kn_reach_text(proof_of(rule), text, sizeof text);
        kn_str_puts(out, text);
        if (!w->ints && !w->floats) return;
        kn_str_puts(out, "; Z3: ");
        width_text(w, out);
        return;
    case KN_PROVED_AT_FIRINGS: kn_str_puts(out, "at every firing"); return;
    case KN_PROVED_NEAR: kn_str_putf(out, "at every firing, to %d units", KN_VALIDATE_UNITS); return;
    case KN_PROVED_RUN: kn_str_puts(out, "run and compared"); return;
    case KN_PROVED_GRADIENT: kn_str_puts(out, "against differences"); return;
    case KN_PROVED_REFUSES: kn_str_puts(out, "programs"); return;
    default: kn_str_puts(out, "NOT PROVED"); return;
    }
}

static void totals(const kn_firings *f, kn_str *out) {
    int n[KN_PROVED_COUNT] = {0}, never = 0, all = 0, wide = 0, narrow = 0, bools = 0, real = 0, half = 0, only = 0;
    uint64_t fired = 0, checked = 0, nearly = 0;
    for (int r = 0; r < kn_rule_count; r++) {
        kn_proved       how = kn_how_proved(f, r);
        const kn_width *w   = kn_width_of(r);
        n[how]++;
        never += !f->fired[r] && how != KN_PROVED_REFUSES;
        fired += f->fired[r];
        if (how == KN_PROVED_AT_FIRINGS) checked += f->checks.checked[r];
        if (how == KN_PROVED_NEAR) nearly += f->checks.checked[r];
        if (how != KN_PROVED_TRIED) continue;
        all += w->ints == KN_WIDTH_ALL;
        wide += w->ints == 64;
        narrow += w->ints > 1 && w->ints < 64;
        bools += w->ints == 1;
        real += w->floats == 64;
        half += w->floats && w->floats < 64;
        only += !w->ints && !w->floats;
    }
    kn_str_putf(out,
                "| rules | how they are known to be right |\n|---|---|\n"
                "| %d | declarative and value-preserving: all values of narrow types (`rules.proofs`)",
                n[KN_PROVED_TRIED]);
    kn_str_putf(
        out,
        ", and Z3 (`rules.z3`): %d over all integers, %d over every integer dtype up to 64 bits, %d narrower, %d "
        "over bools; %d over every float dtype up to f64, %d narrower; %d by all values alone, those of f32 included "
        "(`rules.f32`) |\n",
        all, wide, narrow, bools, real, half, only);
    kn_str_putf(out,
                "| %d | value-preserving, but C or not elementwise: both sides evaluated at each of %llu firings "
                "(`rules.firings`) |\n",
                n[KN_PROVED_AT_FIRINGS], (unsigned long long)checked);
    kn_str_putf(out,
                "| %d | functions as polynomials: the same to %d units in the last place at each of %llu firings; "
                "bounds over all f32 (`api.accuracy`, `rules.bare`) |\n",
                n[KN_PROVED_NEAR], KN_VALIDATE_UNITS, (unsigned long long)nearly);
    kn_str_putf(out,
                "| %d | of lowering: every program is run by the interpreter after each stage and compared "
                "(`ir.stages`) |\n",
                n[KN_PROVED_RUN]);
    kn_str_putf(out, "| %d | derivatives: against differences (`ir.gradient_rules`) |\n", n[KN_PROVED_GRADIENT]);
    kn_str_putf(out, "| %d | of the verifier: programs that each refuses and passes (`rules.verify`) |\n",
                n[KN_PROVED_REFUSES]);
    kn_str_putf(out, "| %d | not proved |\n\n", n[KN_PROVED_NOT]);
    kn_str_putf(
        out,
        "%d programs, %d gradients and %d kernels of the corpus fire rules %llu times, the rules' own tests not "
        "counted. Rules that rewrite and never fire there: %d.\n\n",
        f->programs, f->gradients, f->kernels, (unsigned long long)fired, never);
    kn_str_puts(out, "Off unless `KN_RW_FAST` is asked for:");
    for (int r = 0; r < kn_rule_count; r++)
        if (!strcmp(kn_rules[r].exact, "fast")) kn_str_putf(out, " `%s.%s`", kn_rules[r].group, kn_rules[r].name);
    kn_str_puts(out, ".\n");
}

void kn_book_write(const kn_firings *f, kn_str *out) {
    kn_str_putf(out,
                "# Rules\n\n%d rules in %d groups, from the .rules files. `int`: exact for integers of every width; "
                "`index`: exact where nothing overflows;\n`bool`: of bools; `exact`: every dtype, floats bit for bit; "
                "`fast`: only under the fast-math flag.\n\n",
                kn_rule_count, kn_group_count);
    totals(f, out);
    for (int g = 0; g < kn_group_count; g++) {
        kn_str_putf(out,
                    "\n## %s\n\n%s\n\n| name | rule | exact | proof | fired | where |\n|---|---|---|---|---|---|\n",
                    kn_group_names[g], kn_group_docs[g]);
        for (int r = 0; r < kn_rule_count; r++) {
            if (strcmp(kn_rules[r].group, kn_group_names[g]) != 0) continue;
            kn_str_putf(out, "| %s | `", kn_rules[r].name);
            for (const char *s = kn_rule_pages[r].text; *s; s++) kn_str_putf(out, *s == '|' ? "\\|" : "%c", *s);
            kn_str_putf(out, "` | %s | ", kn_rules[r].exact);
            proof_text(f, r, out);
            if (kn_rule_pages[r].refuses)
                kn_str_puts(out, " | ");
            else
                kn_str_putf(out, " | %llu", (unsigned long long)f->fired[r]);
            kn_str_putf(out, " | %s:%d |\n", kn_rules[r].file, kn_rules[r].line);
        }
    }
}
