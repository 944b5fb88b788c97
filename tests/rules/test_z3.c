/* test_z3.c - every declarative value-preserving rule, proved by Z3.
 *
 * widths.def has a row a rule: how wide the values are for which Z3 finds that no assignment tells the sides apart.
 *   ints    every choice of the rule's dtypes among bool and the integers of at most so many bits (index has 64);
 *           for @index rules: index of so many bits, or ALL, the integers without any bound
 *   floats  likewise f16 and bf16 (16), f32 (32), f64 (64); 0: exhaustion alone (test_proofs), which has all of f8
 * Index arithmetic is proved where nothing overflows, on either side: that is what @index says, and what the verifier's
 * rule index_overflow sees to. All other integers wrap. Ops mean here what kn_alu says, conditions what the matcher
 * computes: both are compared on samples first.
 *
 *   test_rules_z3                 rows that are proved within a blink
 *   test_rules_z3 --all [NAME]    every row at its width; NAME: those of a rule or group
 *   test_rules_z3 --search [NAME] the widest that is proved within 60 s, as rows */
#include "check.h"

#ifndef KN_HAVE_Z3
int main(void) {
    printf("     built without Z3 (libz3-dev)\n");
    return 77;
}
#else

#include "rules/z3/translate.h"

#include <math.h>

#include "rewrite/rewrite.h"

/* ---- a rule at a width ------------------------------------------------------------------------------------------- */

static bool speaks_of(const kn_proof *p, bool floats) {
    for (int t = 0; t < p->ntypes; t++)
        for (int d = 1; d < KN_DTYPE_COUNT; d++)
            if (p->type_mask[t] >> d & 1 && d != KN_BOOL && kn_is_float(d) == floats) return true;
    return false;
}

static bool dtype_is_in(const kn_proof *p, int t, int d, int ints, int floats, bool narrow) {
    if (!(p->type_mask[t] >> d & 1) || d == KN_VOID) return false;
    if (d == KN_BOOL) return true;
    if (kn_is_float(d)) return kn_dsize(d) > 1 && 8 * kn_dsize(d) <= floats;
    return d == KN_INDEX && narrow ? ints > 0 : 8 * kn_dsize(d) <= ints;
}

/* Every choice of dtypes. */
static kz_verdict prove(const kn_proof *p, int ints, int floats, double seconds, char *text, size_t cap) {
    static kz_prover q;
    bool             narrow = !strcmp(kn_rules[p->rule].exact, "index");
    int              list[KZ_TYPES][KN_DTYPE_COUNT], count[KZ_TYPES] = {0}, at[KZ_TYPES] = {0}, tried = 0;
    double           until = kn_now() + seconds;
    kz_verdict       worst = KZ_HOLDS;
    if (p->nvars > KZ_VARS) return KZ_UNKNOWN;
    q = (kz_prover){.p = p, .index = narrow ? ints : 64};
    for (int t = 0; t < p->ntypes; t++) {
        for (int d = 1; d < KN_DTYPE_COUNT; d++)
            if (dtype_is_in(p, t, d, ints, floats, narrow)) list[t][count[t]++] = d;
        if (!count[t]) return KZ_NOTHING;
    }
    q.c = kz_context();
    for (;;) {
        for (int t = 0; t < p->ntypes; t++) q.dt[t] = list[t][at[t]];
        kz_verdict v = kz_prove(&q, until, text, cap);
        if (v == KZ_HOLDS) tried++;
        if (v == KZ_WRONG || v == KZ_UNKNOWN) {
            size_t n = strlen(text);
            for (int t = 0; t < p->ntypes && n + 20 < cap; t++)
                n += (size_t)snprintf(text + n, cap - n, " %s", kn_dtypes[q.dt[t]].name);
            worst = v;
            break;
        }
        int t = 0;
        while (t < p->ntypes && ++at[t] == count[t]) at[t++] = 0;
        if (t == p->ntypes) break;
    }
    Z3_del_context(q.c);
    return worst == KZ_HOLDS && !tried ? KZ_NOTHING : worst;
}

/* ---- the modes --------------------------------------------------------------------------------------------------- */

static const char *const words[] = {"proved", "nothing to prove", "not decided", "wrong"};

static const char *rule_name(int rule) {
    static char text[120];
    snprintf(text, sizeof text, "%s.%s", kn_rules[rule].group, kn_rules[rule].name);
    return text;
}

/* Is it what was asked for: a rule or a group; NULL: all? */
static bool is_called(int rule, const char *name) {
    return !name || !strcmp(kn_rules[rule].name, name) || !strcmp(kn_rules[rule].group, name);
}

static void prove_row(const kn_proof *p, int ints, int floats, double seconds) {
    char text[600] = "";
    if (!ints && !floats) return; /* exhaustion alone */
    double     start = kn_now();
    kz_verdict v     = prove(p, ints, floats, seconds, text, sizeof text);
    double     took  = kn_now() - start;
    if (v != KZ_HOLDS)
        printf("     %s:%d %s at %d and %d bits: %s, %.1f s: %s\n", kn_rules[p->rule].file, kn_rules[p->rule].line,
               rule_name(p->rule), ints, floats, words[v], took, text);
    else if (took > 2)
        printf("     %s: %.1f s\n", rule_name(p->rule), took);
    CHECK(v == KZ_HOLDS);
}

static int climb(const kn_proof *p, const int *widths, int n, int other, bool floats, double *took) {
    int best = 0;
    for (int k = 0; k < n; k++) {
        char       text[600] = "";
        double     start     = kn_now();
        kz_verdict v         = prove(p, floats ? other : widths[k], floats ? widths[k] : other, 60, text, sizeof text);
        double     t         = kn_now() - start;
        if (v == KZ_WRONG) printf("# %s at %d: %s\n", rule_name(p->rule), widths[k], text);
        if (v == KZ_NOTHING || v == KZ_WRONG)
            continue; /* what holds of an index of 64 bits need not of a narrower one */
        if (v != KZ_HOLDS) break;
        best  = widths[k];
        *took = t;
    }
    return best;
}

static void search(const kn_proof *p) {
    static const int all[] = {KN_WIDTH_ALL}, ladder[] = {8, 16, 32, 64}, wide[] = {16, 32, 64}, bools[] = {1};
    double           took = 0;
    int              ints = 0, floats = 0;
    if (speaks_of(p, false)) {
        if (!strcmp(kn_rules[p->rule].exact, "index")) ints = climb(p, all, 1, 0, false, &took);
        if (!ints) ints = climb(p, ladder, KN_COUNT(ladder), 0, false, &took);
        if (!ints && speaks_of(p, true)) ints = climb(p, ladder, KN_COUNT(ladder), 16, false, &took); /* needs both */
    } else if (!speaks_of(p, true)) {
        ints = climb(p, bools, 1, 0, false, &took);
    }
    if (speaks_of(p, true)) floats = climb(p, wide, KN_COUNT(wide), ints, true, &took);
    printf("WIDTH(%s, %s, ", kn_rules[p->rule].group, kn_rules[p->rule].name);
    printf(ints == KN_WIDTH_ALL ? "ALL" : "%d", ints);
    printf(", %d, %d)\n", floats, took < 0.05 ? 64 : took < 1 ? 32 : 16);
    fflush(stdout);
}

/* ---- the translation against the interpreter --------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed) {
    *seed      = *seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *seed;
    x          = (x ^ (x >> 32)) * 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
}

static kn_scalar random_of(int dt, uint64_t *seed) {
    static const double few[] = {0.0, -0.0, 1, -1, 0.5, 3, -127.5, 65504, 3e38, 1e-45, 2147483647.5, 1e19, -1e19};
    static const double odd[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};
    uint64_t            r     = next_random(seed);
    kn_scalar           v     = {.i = (int64_t)(next_random(seed) >> (r >> 8 & 63))};
    if (kn_is_float(dt)) {
        v.f = r & 3 ? few[(r >> 20) % KN_COUNT(few)] * (r & 4 ? 1 : 1.25) : odd[(r >> 20) % KN_COUNT(odd)];
        return kn_cast_scalar(v, KN_F64, dt);
    }
    if (r & 1) v.i = (int64_t)(r >> 20 & 15) - 8;
    if (!(r & 14)) v.i = kn_dtypes[dt].min;
    return kn_cast_scalar(v, KN_I64, dt);
}

static void ops_mean_what_kn_alu_says(void) {
    static const int dts[] = {KN_BOOL, KN_I8,    KN_U8,  KN_I16,  KN_U32, KN_I64,
                              KN_U64,  KN_INDEX, KN_F16, KN_BF16, KN_F32, KN_F64};
    uint64_t         seed  = 1;
    long             cases = 0;
    for (int op = 0; op < KN_OP_COUNT; op++) {
        if (!kn_is_alu(op) || op == KN_OP_THREEFRY) continue;
        for (int k = 0; k < KN_COUNT(dts); k++) {
            static kz_prover q;
            bool             ok = true;
            q                   = (kz_prover){.c = kz_context(), .index = 64};
            for (int i = 0; i < 40 && ok; i++) {
                int       from = op == KN_OP_CAST ? dts[next_random(&seed) % KN_COUNT(dts)] : dts[k], n = 1;
                int       out = kz_compares(op) ? KN_BOOL : dts[k], in[3] = {from, from, from};
                kn_scalar v[3], want;
                Z3_ast    a[3];
                if (kn_ops[op].cls == KN_CLS_BINARY) n = 2;
                if (kn_ops[op].cls == KN_CLS_TERNARY) n = 3;
                if (op == KN_OP_WHERE) in[0] = KN_BOOL;
                for (int s = 0; s < 3; s++) v[s] = random_of(in[s], &seed), a[s] = kz_numeral(&q, in[s], v[s]);
                if (from == KN_BOOL && (op == KN_OP_IDIV || op == KN_OP_MOD || op == KN_OP_SHL || op == KN_OP_SHR))
                    break;
                if (!kn_alu(op, out, in, v, &want)) break;
                Z3_ast got = kz_apply(&q, op, out, in, a, n);
                if (q.cannot) break;
                ok = Z3_is_eq_ast(q.c, Z3_simplify(q.c, got), Z3_simplify(q.c, kz_numeral(&q, out, want)));
                if (!ok)
                    printf("     %s of %s: %s\n", kn_ops[op].name, kn_dtypes[from].name, Z3_ast_to_string(q.c, got));
                cases++;
            }
            CHECK(ok);
            Z3_del_context(q.c);
        }
    }
    printf("     %ld samples\n", cases);
    CHECK(cases > 5000);
}

/* Conditions and computed constants, on numbers in the place of variables. */
static void conditions_mean_what_the_matcher_computes(void) {
    uint64_t seed  = 2;
    long     cases = 0, held = 0;
    for (int i = 0; i < kn_proof_count; i++) {
        static kz_prover q;
        const kn_proof  *p = &kn_proofs[i];
        if (!p->cond_terms && !p->expr_terms[0]) continue;
        q = (kz_prover){.p = p, .c = kz_context(), .index = 64};
        for (int round = 0; round < 100; round++) {
            int64_t v[KZ_VARS] = {0};
            bool    ok         = true;
            q.nsplit           = 0;
            for (int t = 0; t < p->ntypes; t++) do
                    q.dt[t] = 1 + (int)(next_random(&seed) % (KN_DTYPE_COUNT - 1));
                while (!(p->type_mask[t] >> q.dt[t] & 1) || (kn_is_float(q.dt[t]) && kn_dsize(q.dt[t]) == 1));
            for (int k = 0; k < p->nvars; k++) {
                int       dt = q.dt[p->var_type[k]];
                kn_scalar s  = random_of(dt, &seed);
                if (dt == KN_U64 && (p->by_value >> k & 1)) s.i &= INT64_MAX;
                v[k]     = s.i;
                q.var[k] = kz_numeral(&q, dt, s);
                q.lo[k] = q.hi[k] = kz_whole(&q, 64, s.i);
            }
            const kn_proof_in in = {v, v, v, q.dt};
            if (p->cond_terms) {
                Z3_ast got  = Z3_simplify(q.c, kz_condition(&q));
                bool   want = p->cond(&in);
                ok          = q.cannot || Z3_get_bool_value(q.c, got) == (want ? Z3_L_TRUE : Z3_L_FALSE);
                held += want;
                cases++;
            }
            for (int k = 0, e = 0; k < p->nrhs && ok; k++) {
                if (p->rhs[k].kind != KN_PROOF_EXPR) continue;
                int dt         = q.dt[p->rhs[k].type];
                q.nsplit       = 0;
                e              = p->rhs[k].at;
                Z3_ast    got  = Z3_simplify(q.c, kz_constant(&q, p->expr_terms[e], dt));
                kn_scalar want = kn_cast_scalar((kn_scalar){.i = p->expr[e](&in)}, KN_I64, dt);
                ok             = q.cannot || Z3_is_eq_ast(q.c, got, Z3_simplify(q.c, kz_numeral(&q, dt, want)));
                cases++;
            }
            if (!ok) printf("     %s\n", rule_name(p->rule));
            if (!CHECK(ok)) break;
        }
        Z3_del_context(q.c);
    }
    printf("     %ld samples, %ld where a condition held\n", cases, held);
    CHECK(cases > 1000 && held > 100);
}

/* Rules with an op of their right side turned into another are found wrong, but for the few that it leaves right. */
static void wrong_rules_are_found(void) {
    static const int turned[][2] = {{KN_OP_ADD, KN_OP_SUB},     {KN_OP_SUB, KN_OP_ADD},     {KN_OP_AND, KN_OP_OR},
                                    {KN_OP_OR, KN_OP_AND},      {KN_OP_MIN, KN_OP_MAX},     {KN_OP_MAX, KN_OP_MIN},
                                    {KN_OP_MUL, KN_OP_ADD},     {KN_OP_CMPLT, KN_OP_CMPGE}, {KN_OP_XOR, KN_OP_OR},
                                    {KN_OP_CMPNE, KN_OP_CMPEQ}, {KN_OP_IDIV, KN_OP_MOD},    {KN_OP_MOD, KN_OP_IDIV}};
    int              wrong = 0, right = 0;
    for (int i = 0; i < kn_proof_count; i++) {
        kn_proof_step   step[KZ_DEPTH];
        kn_proof        p = kn_proofs[i];
        const kn_width *w = kn_width_of(p.rule);
        char            text[600];
        int             at = -1;
        memcpy(step, p.rhs, (size_t)p.nrhs * sizeof *step);
        for (int k = 0; k < p.nrhs && at < 0; k++)
            for (int t = 0; t < KN_COUNT(turned) && at < 0; t++)
                if (step[k].kind == KN_PROOF_OP && step[k].op == turned[t][0]) step[at = k].op = (uint8_t)turned[t][1];
        if (at < 0 || !w) continue;
        p.rhs        = step;
        kz_verdict v = prove(&p, KN_MIN(w->ints, 8), KN_MIN(w->floats, 16), 5, text, sizeof text);
        wrong += v == KZ_WRONG;
        right += v == KZ_HOLDS;
        if (v == KZ_HOLDS) printf("     %s stays right\n", rule_name(p.rule));
    }
    printf("     %d found\n", wrong);
    CHECK(wrong >= 60 && right <= 3);
}

static bool        every; /* at its recorded width, whatever it takes */
static const char *only;  /* the rule or group that was asked for */

static void rules_are_proved(void) {
    int n = 0;
    for (int i = 0; i < kn_proof_count; i++) {
        const kn_proof *p = &kn_proofs[i];
        const kn_width *w = kn_width_of(p->rule);
        if (!is_called(p->rule, only)) continue;
        if (!CHECK(w != NULL)) {
            printf("     %s has no row in widths.def\n", rule_name(p->rule));
            continue;
        }
        if (every)
            prove_row(p, w->ints, w->floats, 240);
        else
            prove_row(p, KN_MIN(w->ints, w->quick), KN_MIN(w->floats, w->quick), 20);
        n += w->ints || w->floats;
    }
    printf("     %d rules\n", n);
}

int main(int argc, char **argv) {
    const char *name = argc > 2 ? argv[2] : NULL;
    if (argc > 1 && !strcmp(argv[1], "--search")) {
        for (int i = 0; i < kn_proof_count; i++)
            if (is_called(kn_proofs[i].rule, name)) search(&kn_proofs[i]);
        return 0;
    }
    every = argc > 1 && !strcmp(argv[1], "--all");
    only  = name;
    RUN(ops_mean_what_kn_alu_says);
    RUN(conditions_mean_what_the_matcher_computes);
    if (!every) RUN(wrong_rules_are_found);
    RUN(rules_are_proved);
    return check_result();
}
#endif
