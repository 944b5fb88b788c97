/* ir_rules.c - rules as `koine ir` sees them: what fired where and for how long, and which must not fire. */
#include "ir.h"

#include <string.h>

bool ir_rules_begin(ir_job *j) {
    size_t n = (size_t)kn_rule_count, groups = (size_t)kn_group_count;
    kn_str_init(&j->times, NULL);
    kn_str_init(&j->counts, NULL);
    j->fired   = j->count ? kn_zalloc(NULL, n * sizeof *j->fired) : NULL;
    j->seconds = j->time ? kn_zalloc(NULL, groups * sizeof *j->seconds) : NULL;
    if (j->count) j->run.count = j->total;
    return (j->fired || !j->count) && (j->seconds || !j->time);
}

void ir_rules_free(ir_job *j) {
    kn_str_free(&j->times);
    kn_str_free(&j->counts);
    kn_free(NULL, j->fired, (size_t)kn_rule_count * sizeof *j->fired);
    kn_free(NULL, j->seconds, (size_t)kn_group_count * sizeof *j->seconds);
    kn_free(NULL, j->off, (size_t)kn_rule_count * sizeof *j->off);
}

/* The stage's time, then that of each group that had some, the longest first. */
static void stage_times(ir_job *j, kn_stage stage) {
    kn_str *s     = &j->times;
    double  total = j->p.spent[stage];
    if (j->json)
        kn_str_putf(s, "%s\"%s\": {", s->len ? ", " : "", kn_stage_names[stage]);
    else
        kn_str_putf(s, "%-22s %9.1f us\n", kn_stage_names[stage], total * 1e6);
    for (const char *sep = "";; sep = ", ") {
        int most = 0;
        for (int i = 1; i < kn_group_count; i++)
            if (j->seconds[i] > j->seconds[most]) most = i;
        if (j->seconds[most] <= 0) break;
        if (j->json)
            kn_str_putf(s, "%s\"%s\": %.9f", sep, kn_group_names[most], j->seconds[most]);
        else
            kn_str_putf(s, "  rules %-14s %9.1f us\n", kn_group_names[most], j->seconds[most] * 1e6);
        j->seconds[most] = 0;
    }
    if (j->json) kn_str_puts(s, "}");
}

/* Nodes, visits, and the rules that fired, the busiest first. */
static void stage_counts(ir_job *j, kn_stage stage) {
    kn_str         *s = &j->counts;
    const kl_stage_count *n = &j->total[stage];
    if (j->json)
        kn_str_putf(s,
                    "%s\"%s\": {\"nodes_in\": %llu, \"nodes_out\": %llu, \"visits\": %llu, \"fired\": %llu, "
                    "\"rules\": {",
                    s->len ? ", " : "", kn_stage_names[stage], (unsigned long long)n->nodes_in,
                    (unsigned long long)n->nodes_out, (unsigned long long)n->visits, (unsigned long long)n->matches);
    else
        kn_str_putf(s, "%-10s %5llu -> %llu nodes, %llu visited, %llu rules fired\n", kn_stage_names[stage],
                    (unsigned long long)n->nodes_in, (unsigned long long)n->nodes_out, (unsigned long long)n->visits,
                    (unsigned long long)n->matches);
    for (const char *sep = "";; sep = ", ") {
        int most = 0;
        for (int i = 1; i < kn_rule_count; i++)
            if (j->fired[i] > j->fired[most]) most = i;
        if (!j->fired[most]) break;
        if (j->json)
            kn_str_putf(s, "%s\"%s.%s\": %llu", sep, kn_rules[most].group, kn_rules[most].name,
                        (unsigned long long)j->fired[most]);
        else
            kn_str_putf(s, "%16llu %s.%s\n", (unsigned long long)j->fired[most], kn_rules[most].group,
                        kn_rules[most].name);
        j->fired[most] = 0;
    }
    if (j->json) kn_str_puts(s, "}}");
}

void ir_rules_stage(ir_job *j, kn_stage stage) {
    if (stage < KN_STAGE_CALLIFY) return;
    if (j->time) stage_times(j, stage);
    if (j->count) stage_counts(j, stage);
}

/* A rule's name as it was asked for: with its group, or alone. */
static const char *rule_name(int rule, bool with_group, char *room, size_t cap) {
    if (!with_group) return kn_rules[rule].name;
    snprintf(room, cap, "%s.%s", kn_rules[rule].group, kn_rules[rule].name);
    return room;
}

static int no_rule(const ir_job *j, const char *name, bool with_group) {
    enum { NEAR = 3, LONGEST = 80 };
    char        (*room)[LONGEST] = kn_zalloc(NULL, (size_t)kn_rule_count * sizeof *room);
    const char **names           = kn_zalloc(NULL, (size_t)kn_rule_count * sizeof *names), *near[NEAR];
    int          n               = 0;
    char         list[NEAR * (LONGEST + 8)] = "";
    for (int i = 0; room && names && i < kn_rule_count; i++)
        names[i] = rule_name(i, with_group, room[i], sizeof room[i]);
    if (room && names) n = cli_nearest_few(name, names, kn_rule_count, near, NEAR);
    for (int i = 0; i < n; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s'%s'", i == 0 ? "" : i + 1 < n ? ", " : " or ", near[i]);
    }
    int code = n ? cli_usage(j->c, "there is no rule '%s'; did you mean %s?", name, list)
                 : cli_usage(j->c, "there is no rule '%s'; build/docs/rules.md lists them", name);
    kn_free(NULL, room, (size_t)kn_rule_count * sizeof *room);
    kn_free(NULL, names, (size_t)kn_rule_count * sizeof *names);
    return code;
}

int ir_rules_off(ir_job *j) {
    const char *name;
    for (int k = 0; (name = cli_value(j->c, "disable-rule", k)); k++) {
        bool with_group = strchr(name, '.') != NULL, found = false;
        if (!j->off && !(j->off = kn_zalloc(NULL, (size_t)kn_rule_count * sizeof *j->off))) {
            kn_oom(&j->c->fault);
            return cli_fail(j->c);
        }
        for (int i = 0; i < kn_rule_count; i++) {
            char room[80];
            if (strcmp(name, rule_name(i, with_group, room, sizeof room)) != 0) continue;
            j->off[i] = found = true;
        }
        if (!found) return no_rule(j, name, with_group);
    }
    return 0;
}
