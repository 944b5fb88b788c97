/* test_cost.c - predictions of nests: they order option lists as machines do, follow the machine's table, and are quick
 * to make. */
#include "check.h"
#include "lower/pipeline.h"
#include "optimize/cost.h"

typedef struct subject {
    kn_graph  *g;
    kl_program p;
    kn_nest    nest;
    ko_model  *model;
} subject;

static bool subject_open(subject *s, const char *text) {
    kn_fault f   = {0};
    kl_run   run = {.stop = KN_STAGE_RANGEIFY};
    int      out[4], n;
    s->g     = kg_new(NULL);
    s->model = NULL;
    kl_program_init(&s->p, NULL);
    kn_ref root = kg_parse(s->g, text, strlen(text), &f);
    bool   ok   = root && kl_program_from(&s->p, s->g, root, out, 4, &n, &f) && kl_lower(&s->p, &run, &f) &&
              s->p.nkernel == 1 && ko_nest(s->p.kernel[0].g, s->p.kernel[0].root, &s->nest, &f) &&
              (s->model = ko_model_new(s->p.kernel[0].g, s->p.kernel[0].root, &s->nest, &f)) != NULL;
    return CHECK(ok) || (printf("  %s\n", f.text), false);
}

static void subject_close(subject *s) {
    ko_model_free(s->model);
    kl_program_free(&s->p);
    kg_free(s->g);
}

static ko_cost cost_under(subject *s, const char *options, const kn_machine *m) {
    kn_opt   opts[KN_MAX_OPTS];
    int      n    = 0;
    kn_fault f    = {0};
    kn_nest  nest = s->nest;
    ko_cost  c    = {0};
    bool     ok   = !*options || ko_parse_opts(options, opts, &n, &f);
    for (int i = 0; i < n && ok; i++) ok = ko_edit(&nest, &opts[i], &f);
    if (!CHECK(ok)) printf("  %s: %s\n", options, f.text);
    ko_predict(s->model, &nest, m, &c);
    return c;
}

#define PRODUCT(m, k, n)                                                                                        \
    "%a = PARAM {slot=0} [" #m ", " #k "]\n%b = PARAM {slot=1} [" #k ", " #n "]\n"                              \
    "%1 = REDUCE {op=ADD, axes=(1)} (MUL (RESHAPE %a [" #m ", " #k ", 1]) (RESHAPE %b [1, " #k ", " #n "]))\n"

static void test_product(void) {
    static const char *const better_first[] = {
        "SPLIT:0:8:UPCAST SPLIT:2:32:UPCAST SWAP:0:2", /* a tile, panels of the second operand outermost */
        "SPLIT:0:8:UPCAST SPLIT:2:32:UPCAST",          /* the whole second operand again for each row of tiles */
        "SPLIT:1:32:UPCAST",                           /* no rows: each vector is loaded for one multiplication */
        "SPLIT:0:32:UPCAST",                           /* lanes that jump */
        "",
    };
    const kn_machine *m = kn_machine_default();
    subject           s;
    if (subject_open(&s, PRODUCT(1024, 1024, 1024))) {
        double before = 0;
        for (int i = 0; i < KN_COUNT(better_first); i++) {
            ko_cost c = cost_under(&s, better_first[i], m);
            if (!CHECK(c.ps > before)) printf("  %s: %.0f ns is no more\n", better_first[i], c.ps / 1e3);
            before = c.ps;
        }
        /* 2^30 multiplications and additions, 16 lanes, one a cycle. */
        ko_cost best = cost_under(&s, better_first[0], m), narrow;
        CHECK_NEAR(best.arithmetic / (1073741824.0 / 16 * (double)m->cycle_ps), 1, 1e-9);
        CHECK(best.ps < 1.3 * best.arithmetic);
        narrow = cost_under(&s, "SPLIT:0:6:UPCAST SPLIT:2:16:UPCAST SWAP:0:2", kn_machine_named("sse2"));
        CHECK(narrow.arithmetic > 1.9 * best.arithmetic);
    }
    subject_close(&s);
}

/* What is read once comes from where its size puts it; all of it and no more. */
static void test_traffic(void) {
    const kn_machine *m = kn_machine_default();
    subject           s;
    if (subject_open(&s, "%a = PARAM {slot=0} [4000000]\n%1 = MUL %a 2.0:f32\n")) {
        ko_cost c = cost_under(&s, "SPLIT:0:32:UPCAST", m);
        CHECK_NEAR(c.bytes[KN_DRAM], 16e6, 1e-9);
        CHECK_NEAR(c.stored[KN_DRAM], 16e6, 1e-9);
        CHECK_NEAR(c.bytes[KN_L1] + c.bytes[KN_L2] + c.bytes[KN_L3], 0, 1e-9);
        CHECK_NEAR(c.memory, 16e6 * (double)(m->read_ps[KN_DRAM] + m->write_ps[KN_DRAM]) / 64, 1e-9);
    }
    subject_close(&s);
    if (subject_open(&s, "%a = PARAM {slot=0} [2000]\n%1 = MUL %a 2.0:f32\n")) {
        ko_cost c = cost_under(&s, "SPLIT:0:16:UPCAST", m);
        CHECK_NEAR(c.bytes[KN_L1], 8000, 1e-9);
        CHECK_NEAR(c.bytes[KN_DRAM], 0, 1e-9);
    }
    subject_close(&s);
    /* Two walks over a row, which stays in L1: the second costs DRAM nothing. */
    if (subject_open(&s, "%x = PARAM {slot=0} [4096, 1024]\n%1 = SUB %x (REDUCE {op=MAX, axes=(1)} %x)\n")) {
        ko_cost c = cost_under(&s, "SPLIT:1:32:UPCAST SPLIT:3:32:GROUP_REDUCE", m);
        CHECK_NEAR(c.bytes[KN_DRAM], 4096 * 4096.0, 1e-9);
        CHECK_NEAR(c.bytes[KN_L1], 4096 * 4096.0, 1e-9);
    }
    subject_close(&s);
    /* Columns read down: a line an element, unless lanes take the lines whole. */
    if (subject_open(&s, "%x = PARAM {slot=0} [4096, 4096]\n%1 = REDUCE {op=ADD, axes=(0)} %x\n")) {
        ko_cost one = cost_under(&s, "", m), lanes = cost_under(&s, "SPLIT:0:32:UPCAST", m);
        CHECK_NEAR(lanes.bytes[KN_DRAM], 4096 * 4096 * 4.0, 1e-9);
        CHECK(one.ps > 4 * lanes.ps);
    }
    subject_close(&s);
}

/* Lanes a page apart are lines of one set of an L1, which has fewer of it: a line is fetched for each element, or for
 * each pair. One line more between two of them, and they stay. */
static void test_sets(void) {
    static const struct {
        const char *program, *opts;
    } turned[] = {
        {"%a = PARAM {slot=0} [1024, 256]\n%1 = NEG (PERMUTE {axes=(1, 0)} %a)\n", "SWAP:0:1 SPLIT:1:32:UPCAST"},
        {"%a = PARAM {slot=0} [1040, 256]\n%1 = NEG (PERMUTE {axes=(1, 0)} %a)\n", "SWAP:0:1 SPLIT:1:32:UPCAST"},
        {"%a = PARAM {slot=0} [512, 64, 2]\n%1 = NEG (PERMUTE {axes=(1, 0, 2)} %a)\n",
         "SWAP:0:1 SPLIT:2:2:UPCAST SPLIT:1:32:UPCAST"},
        {"%a = PARAM {slot=0} [520, 64, 2]\n%1 = NEG (PERMUTE {axes=(1, 0, 2)} %a)\n",
         "SWAP:0:1 SPLIT:2:2:UPCAST SPLIT:1:32:UPCAST"},
    };
    const kn_machine *m = kn_machine_default();
    subject           s;
    double            beyond[4] = {0};
    for (int i = 0; i < KN_COUNT(turned); i++) {
        if (subject_open(&s, turned[i].program)) beyond[i] = cost_under(&s, turned[i].opts, m).beyond;
        subject_close(&s);
    }
    CHECK(beyond[0] > 4 * beyond[1]);
    CHECK(beyond[2] > 4 * beyond[3]);
}

/* Rounds that were cut off ask the caches for as much as those that are left. */
static void test_peeled(void) {
    const kn_machine *m = kn_machine_default();
    const char       *p = "%a = PARAM {slot=0} [8, 16384, 16]\n%1 = NEG (PERMUTE {axes=(1, 0, 2)} %a)\n";
    subject           s;
    double            beyond[2] = {0};
    for (int i = 0; i < 2; i++) {
        if (subject_open(&s, p))
            beyond[i] = cost_under(&s, i ? "SPLIT:2:16:UPCAST PEEL:1:3:3" : "SPLIT:2:16:UPCAST", m).beyond;
        subject_close(&s);
    }
    CHECK(beyond[1] >= beyond[0]);
}

/* What one piece of a loop has a use for the others do not read: parts that are joined are read once each. All of what
 * is padded lies in the one piece, and is read whole. */
static void test_parts(void) {
    static const struct {
        const char *program, *opts;
        double      read;
    } joined[] = {
        {"%a = PARAM {slot=0} [1, 65536]\n%b = PARAM {slot=1} [1, 65536]\n%c = PARAM {slot=2} [1, 65536]\n"
         "%d = PAD {begin_pads=(0, 0), end_pads=(2, 0)} %a\n%e = PAD {begin_pads=(1, 0), end_pads=(1, 0)} %b\n"
         "%f = PAD {begin_pads=(2, 0), end_pads=(0, 0)} %c\n%1 = ADD (ADD %d %e) %f\n",
         "SPLIT:1:32:UPCAST PEEL:0:1:1", 3 * 65536 * 4.0},
        {"%a = PARAM {slot=0} [16384, 2, 16]\n%1 = NEG (PAD {begin_pads=(0, 3, 0), end_pads=(0, 3, 0)} %a)\n",
         "SPLIT:2:16:UPCAST PEEL:1:3:3", 16384 * 2 * 16 * 4.0},
    };
    const kn_machine *m = kn_machine_default();
    subject           s;
    for (int i = 0; i < KN_COUNT(joined); i++) {
        if (subject_open(&s, joined[i].program)) {
            ko_cost c   = cost_under(&s, joined[i].opts, m);
            double  all = 0;
            for (int l = 0; l < KN_LEVELS; l++) all += c.bytes[l];
            CHECK_NEAR(all, joined[i].read, 1e-9);
        }
        subject_close(&s);
    }
}

/* What factors leave over counts: a row less than a tile's costs that much less, and lanes that fill no register a
 * register for each power of two in them. */
static void test_tails(void) {
    const kn_machine *m = kn_machine_default();
    subject           s;
    const char       *tile = "SPLIT:0:8:UPCAST SPLIT:2:32:UPCAST";
    ko_cost           full = {0}, rows = {0}, lanes = {0};
    bool              ok = subject_open(&s, PRODUCT(64, 256, 64));
    if (ok) full = cost_under(&s, tile, m);
    subject_close(&s);
    if (ok && subject_open(&s, PRODUCT(63, 256, 64))) rows = cost_under(&s, tile, m);
    subject_close(&s);
    if (ok && subject_open(&s, PRODUCT(64, 256, 63))) lanes = cost_under(&s, tile, m);
    subject_close(&s);
    if (!CHECK(ok)) return;
    CHECK_NEAR(rows.arithmetic / full.arithmetic, 63.0 / 64, 1e-9);
    CHECK_NEAR(lanes.arithmetic / full.arithmetic, (2 + 1 + 4) / 4.0, 1e-9); /* 32; 16, and 8, 4, 2 and 1 */
}

/* An accumulator waits for itself; more of them, or lanes, hide it. The lanes of a sum are folded, by halves. */
static void test_chains(void) {
    const kn_machine *m = kn_machine_default();
    subject           s;
    if (subject_open(&s, "%x = PARAM {slot=0} [8, 4096]\n%1 = REDUCE {op=ADD, axes=(1)} %x\n")) {
        ko_cost one = cost_under(&s, "", m), lanes = cost_under(&s, "SPLIT:1:16:GROUP_REDUCE", m),
                wide = cost_under(&s, "SPLIT:1:64:GROUP_REDUCE", m);
        double folds = 8.0 * 4 * 2 * (double)m->cycle_ps / (double)m->alu_per_cycle;
        CHECK_NEAR(one.arithmetic / (lanes.arithmetic - folds), 16, 1e-9);
        CHECK_NEAR((lanes.arithmetic - folds) / (wide.arithmetic - folds), 4, 1e-9);
    }
    subject_close(&s);
}

/* A step of a fold is all of its combine: here two comparisons, two of logic, two choices; in lanes as in scalars. */
static void test_folds(void) {
    const kn_machine *m = kn_machine_default();
    subject           s;
    ko_cost           one[2], wide[2], most;
    bool              ok;
    ok = subject_open(&s, "%x = PARAM {slot=0} [64, 4096]\n%1 = REDUCE {op=ADD, axes=(1)} %x\n");
    if (ok) one[0] = cost_under(&s, "", m), wide[0] = cost_under(&s, "SPLIT:1:256:GROUP_REDUCE", m);
    subject_close(&s);
    ok = ok && subject_open(&s, "%x = PARAM {slot=0} [64, 4096]\n%1 = REDUCE {op=MAX, axes=(1)} %x\n");
    if (ok) most = cost_under(&s, "SPLIT:1:256:GROUP_REDUCE", m);
    if (ok) CHECK(most.arithmetic > 2 * wide[0].arithmetic && most.arithmetic < 3 * wide[0].arithmetic); /* NaN */
    subject_close(&s);
    ok = ok && subject_open(&s, "%x = PARAM {slot=0} [64, 4096]\n"
                                "%i = EXPAND (CAST {i32} (RANGE {id=0, type=LOOP, rank=2, axis=1} 4096)) [64, 4096]\n"
                                "%a = PARAM {slot=0, space=REG} []\n%ai = PARAM {slot=1, dtype=i32, space=REG} []\n"
                                "%b = PARAM {slot=2, space=REG} []\n%bi = PARAM {slot=3, dtype=i32, space=REG} []\n"
                                "%t = OR (CMPLT %a %b) (AND (CMPNE %a %b) (CMPLT %bi %ai))\n"
                                "%c = TUPLE (WHERE %t %b %a) (WHERE %t %bi %ai)\n"
                                "%f = REDUCE {op=FUNCTION, axes=(1)} (FUNCTION %c -inf:f32 9:i32 %x %i)\n"
                                "%1 = GETTUPLE {1} %f\n");
    if (ok) {
        one[1]  = cost_under(&s, "", m);
        wide[1] = cost_under(&s, "SPLIT:1:256:GROUP_REDUCE", m);
        CHECK(one[1].arithmetic >= one[0].arithmetic); /* one by one, both wait for their accumulators */
        CHECK(wide[1].arithmetic > 4 * wide[0].arithmetic && wide[1].arithmetic < 12 * wide[0].arithmetic);
        CHECK(wide[1].ps > wide[0].ps && wide[1].ps < one[1].ps / 8);
    }
    subject_close(&s);
}

/* A cast to integers takes some instructions of the float's lanes, for NaN and bounds; one to floats is one of them. */
static void test_casts(void) {
    static const char *const texts[] = {"%1 = NEG (PARAM {slot=0, dtype=f64} [65536])\n",
                                        "%1 = CAST {f64} (PARAM {slot=0, dtype=i64} [65536])\n",
                                        "%1 = CAST {i64} (PARAM {slot=0, dtype=f64} [65536])\n",
                                        "%1 = CAST {u16} (PARAM {slot=0, dtype=f64} [65536])\n"};
    double arithmetic[KN_COUNT(texts)] = {0};
    for (int i = 0; i < KN_COUNT(texts); i++) {
        subject s;
        if (subject_open(&s, texts[i]))
            arithmetic[i] = cost_under(&s, "SPLIT:0:16:UPCAST", kn_machine_default()).arithmetic;
        subject_close(&s);
    }
    CHECK(arithmetic[0] > 0 && arithmetic[1] == arithmetic[0]);
    CHECK(arithmetic[2] == 6 * arithmetic[0] && arithmetic[3] == arithmetic[2]);
}

static void test_quick(void) {
    static const char *const programs[] = {
        PRODUCT(1024, 1024, 1024),
        "%x = PARAM {slot=0} [4096, 1000]\n%m = REDUCE {op=MAX, axes=(1)} %x\n%e = EXP2 (SUB %x %m)\n"
        "%1 = MUL %e (RECIP (REDUCE {op=ADD, axes=(1)} %e))\n"};
    for (int i = 0; i < KN_COUNT(programs); i++) {
        subject s;
        ko_cost c;
        double  best = 1;
        if (subject_open(&s, programs[i]))
            for (int r = 0; r < 200; r++) {
                double start = kn_now();
                ko_predict(s.model, &s.nest, kn_machine_default(), &c);
                best = KN_MIN(best, kn_now() - start);
            }
        printf("     program %d: a candidate in %.1f us\n", i, best * 1e6);
        CHECK(best < 200e-6); /* 5 us in a release build; sanitizers and a busy machine take longer */
        subject_close(&s);
    }
}

/* The list that is chosen for the machine is not refused once it is applied, or the loops would stay as they are. */
static void applies(const char *text, const kn_machine *m) {
    kn_fault   f   = {0};
    kl_run     run = {.stop = KN_STAGE_OPTIMIZE};
    kn_graph  *g   = kg_new(NULL);
    kl_program p;
    kn_str     told;
    int        out[4], n;
    kn_str_init(&told, NULL);
    kl_program_init(&p, NULL);
    p.machine   = m;
    p.explain   = &told;
    kn_ref root = kg_parse(g, text, strlen(text), &f);
    CHECK(root && kl_program_from(&p, g, root, out, 4, &n, &f) && kl_lower(&p, &run, &f));
    if (!CHECK(!strstr(kn_str_c(&told), "stay as they are"))) printf("  %s%s\n", text, kn_str_c(&told));
    kl_program_free(&p);
    kg_free(g);
    kn_str_free(&told);
}

#define SQUARES(to, x) "%" #to " = MUL (SIN (ADD (MUL %" #x " %" #x ") %" #x ")) (ADD %" #x " 1.5:f32)\n"

/* A machine's table says from how many bytes on loads are announced: 1,536 bytes before, each PARAM once, and nothing
 * that the L2 has, that is read again, or of which much is computed, nor by lanes under a mask. */
static void test_announced_loads(void) {
    static const struct {
        const char *text;
        int         loads, ahead, rows; /* rows: what is announced by any machine */
    } of[] = {{"%a = PARAM {slot=1} [400000]\n%b = PARAM {slot=2} [400000]\n%1 = ADD (SIN %a) (MUL %a %b)\n", 0, 0, 0},
              {"%a = PARAM {slot=1} [400000]\n%b = PARAM {slot=2} [400000]\n%1 = ADD %b (MUL %a %b)\n", 2, 24, 0},
              {"%a = PARAM {slot=1} [100000]\n%b = PARAM {slot=2} [100000]\n%1 = ADD %b (MUL %a %b)\n", 0, 0, 0},
              {"%a = PARAM {slot=1} [9000000]\n%b = PARAM {slot=2} [9000000]\n%1 = ADD %b (MUL %a %b)\n", 0, 0, 0},
              {"%a = PARAM {slot=1} [4000, 110]\n%1 = FLIP {axes=(1, 0)} %a\n", 1, 24, 0},
              {"%a = PARAM {slot=1} [4000, 110]\n%1 = FLIP {axes=(0, 1)} %a\n", 1, 24, 0},
              {"%a = PARAM {slot=1} [400000]\n%b = PARAM {slot=2} [400000]\n"
               "%1 = REDUCE {op=ADD, axes=(0)} (MUL %a %b)\n", 2, 6, 0},
              {"%a = PARAM {slot=1} [900, 700]\n%1 = REDUCE {op=MAX, axes=(1)} %a\n", 1, 6, 0},
              {"%a = PARAM {slot=1} [100000]\n%1 = REDUCE {op=MAX, axes=(0)} %a\n", 0, 0, 0},
              {"%a = PARAM {slot=1} [400000]\n%b = PARAM {slot=2} [400000]\n"
               "%1 = DIV (SQRT (SQRT (DIV %a %b))) (SQRT %b)\n", 2, 6, 0},
              {"%a = PARAM {slot=1} [110, 9, 512]\n%1 = NEG (PERMUTE {axes=(1, 0, 2)} %a)\n", 0, 0, 0},
              {"%a = PARAM {slot=1} [110, 9, 1024]\n%1 = NEG (PERMUTE {axes=(1, 0, 2)} %a)\n", 1, 24, 0},
              {"%a = PARAM {slot=1} [330, 3, 512]\n%1 = NEG (PERMUTE {axes=(1, 0, 2)} %a)\n", 0, 0, 0},
              {"%a = PARAM {slot=1} [3, 330, 512]\n%1 = NEG (PERMUTE {axes=(1, 0, 2)} %a)\n", 1, 24, 0},
              {PRODUCT(1, 3000, 200), 1, 2, 0},
              {PRODUCT(5, 3620, 200), 1, 2, 0},
              {PRODUCT(2, 2878, 190), 0, 0, 0},
              {PRODUCT(300, 3000, 200), 0, 0, 0},
              {PRODUCT(1, 3958, 256) SQUARES(2, 1) SQUARES(3, 2) SQUARES(4, 3) SQUARES(5, 4), 1, 2, 1}};
    kn_machine m = *kn_machine_default();
    m.masks      = true;
    for (int i = 0; i < 2 * KN_COUNT(of); i++) {
        kn_fault  f = {0};
        kn_opt    opts[KN_MAX_OPTS];
        ko_choice choice = {0};
        subject   s;
        int       loads = 0;
        bool      asks  = i % 2;
        m.reads_from    = asks ? 1800 << 10 : INT64_MAX;
        m.announces     = asks ? 11 << 20 : INT64_MAX;
        if (subject_open(&s, of[i / 2].text)) {
            int n = ko_choose(s.p.kernel[0].g, s.p.kernel[0].root, &m, &choice, opts, KN_MAX_OPTS, NULL, &f);
            for (int k = 0; k < n; k++) {
                if (opts[k].op != KN_OPT_PREFETCH || !opts[k].arg) continue;
                loads++;
                CHECK_EQ(opts[k].more, of[i / 2].ahead);
            }
            if (!CHECK_EQ(loads, asks ? of[i / 2].loads : of[i / 2].rows)) printf("  program %d\n", i / 2);
        }
        subject_close(&s);
        applies(of[i / 2].text, &m);
    }
}

/* One array by one loop, of which more is computed, streams by half registers where it is announced before it is
 * loaded: not of a sine, nor by a compiler, nor of two arrays. */
static void test_streams_of_announced(void) {
#define OPS(X) "%1 = MUL (ADD (MUL (ADD " X " 1.0:f32) 3.0:f32) 2.0:f32) 5.0:f32\n"
    static const struct {
        const char *text;
        bool        announces, masks, halves;
    } of[] = {{"%a = PARAM {slot=1} [400000]\n" OPS("%a"), true, true, true},
              {"%a = PARAM {slot=1} [400000]\n" OPS("%a"), false, true, false},
              {"%a = PARAM {slot=1} [400000]\n" OPS("%a"), true, false, false},
              {"%a = PARAM {slot=1} [400000]\n" OPS("(SIN %a)"), true, true, false},
              {"%a = PARAM {slot=1} [400000]\n%b = PARAM {slot=2} [400000]\n" OPS("(ADD %a %b)"), true, true, false}};
    for (int i = 0; i < KN_COUNT(of); i++) {
        kn_machine m      = *kn_machine_default();
        kn_fault   f      = {0};
        ko_choice  choice = {0};
        kn_opt     opts[KN_MAX_OPTS];
        subject    s;
        m.masks      = of[i].masks;
        m.reads_from = of[i].announces ? 1800 << 10 : INT64_MAX;
        if (subject_open(&s, of[i].text)) {
            int  n      = ko_choose(s.p.kernel[0].g, s.p.kernel[0].root, &m, &choice, opts, KN_MAX_OPTS, NULL, &f);
            bool halves = false;
            for (int k = 0; k < n; k++) halves |= opts[k].op == KN_OPT_SPLIT && opts[k].arg == m.vector_bytes / 8;
            if (!CHECK_EQ(halves, of[i].halves)) printf("  program %d\n", i);
        }
        subject_close(&s);
    }
#undef OPS
}

int main(void) {
    RUN(test_product);
    RUN(test_tails);
    RUN(test_traffic);
    RUN(test_sets);
    RUN(test_peeled);
    RUN(test_parts);
    RUN(test_chains);
    RUN(test_folds);
    RUN(test_casts);
    RUN(test_quick);
    RUN(test_announced_loads);
    RUN(test_streams_of_announced);
    return check_result();
}
