/* test_machine.c - the machine tables: named ones are fixed, the host's is sane and the same each time. */
#include "base/machine.h"
#include "check.h"

static void sane(const kn_machine *m) {
    CHECK(m->cache[KN_L1] >= 4 << 10 && m->cache[KN_L1] <= m->cache[KN_L2] && m->cache[KN_L2] <= m->cache[KN_L3]);
    CHECK(m->line >= 16 && m->line <= 512 && (m->line & (m->line - 1)) == 0);
    for (int l = KN_L1; l < KN_LEVELS; l++) {
        CHECK(m->read_ps[l] > 0 && m->write_ps[l] >= m->read_ps[l]);
        CHECK(!l || (m->read_ps[l] >= m->read_ps[l - 1] && m->write_ps[l] >= m->write_ps[l - 1]));
    }
    CHECK(m->cycle_ps >= 100 && m->cycle_ps <= 10000);
    CHECK(m->vector_bytes == 16 || m->vector_bytes == 32 || m->vector_bytes == 64);
    CHECK(m->vector_registers == 16 || m->vector_registers == 32);
    CHECK(m->alu_per_cycle >= 1 && m->fma_per_cycle >= 1 && m->launch_ps > 0);
}

static void test_named(void) {
    kn_fault f = {0};
    for (int i = 0; kn_machine_names[i]; i++) {
        kn_machine m;
        if (!CHECK(kn_machine_find(kn_machine_names[i], &m, &f))) continue;
        CHECK_STR(m.name, kn_machine_names[i]);
        sane(&m);
    }
    kn_machine m;
    CHECK(!kn_machine_find("z80", &m, &f));
    CHECK_EQ(f.code, KN_ERR_ARG);
    CHECK(strstr(f.text, "avx2") != NULL);
    CHECK_STR(kn_machine_default()->name, "avx512");
}

/* Asked, not measured: two answers are one. */
static void test_host(void) {
    kn_machine a, b;
    kn_str     s;
    memset(&a, 0x55, sizeof a);
    memset(&b, 0xaa, sizeof b);
    kn_machine_host(&a);
    double best = 1;
    for (int i = 0; i < 5; i++) {
        double start = kn_now();
        kn_machine_host(&b);
        best = KN_MIN(best, kn_now() - start);
    }
    CHECK(!memcmp(&a, &b, sizeof a));
    sane(&a);
    CHECK(best < 1e-3);
    kn_str_init(&s, NULL);
    kn_machine_print(&a, &s);
    printf("     asked in %.0f us\n%s", best * 1e6, kn_str_c(&s));
    kn_str_free(&s);
}

static void test_levels(void) {
    const kn_machine *m = kn_machine_default();
    CHECK_EQ(kn_machine_level(m, 0), KN_L1);
    CHECK_EQ(kn_machine_level(m, 32 << 10), KN_L1);
    CHECK_EQ(kn_machine_level(m, (32 << 10) + 1), KN_L2);
    CHECK_EQ(kn_machine_level(m, 3e6), KN_L3);
    CHECK_EQ(kn_machine_level(m, 1e12), KN_DRAM);
}

int main(void) {
    RUN(test_named);
    RUN(test_host);
    RUN(test_levels);
    return check_result();
}
