/* digits_journey.c - one kernel's journey: the first layer from the line of the program to the loop that ran.
 *
 * The callified program is lowered once more, for show: the same stages, the same choices, the same source. */
#include "digits.h"

#include "lower/pipeline.h"

#include <string.h>

enum { JOURNEY_RANGED = 24, JOURNEY_LOOP = 24, JOURNEY_RULES = 8, JOURNEY_WIDTH = 116 };

/* ---- text by lines -------------------------------------------------------------------------------------------- */

/* A line of text and where the next begins; false at the end. */
static bool journey_next(const char **at, const char **line, int *len) {
    if (!**at) return false;
    const char *end = strchr(*at, '\n');
    *line = *at;
    *len = (int)(end ? (size_t)(end - *at) : strlen(*at));
    *at = end ? end + 1 : *at + *len;
    return true;
}

static bool journey_has(const char *line, int len, const char *word) {
    int n = (int)strlen(word);
    for (int i = 0; i + n <= len; i++)
        if (memcmp(line + i, word, (size_t)n) == 0) return true;
    return false;
}

static int journey_indent(const char *line, int len) {
    int n = 0;
    while (n < len && line[n] == ' ') n++;
    return n;
}

static bool journey_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Lines that differ in their numbers alone are of one kind. */
static bool journey_alike(const char *a, int na, const char *b, int nb) {
    int i = 0, k = 0;
    while (i < na && k < nb) {
        bool number = journey_digit(a[i]);
        if (number != journey_digit(b[k]) || (!number && a[i] != b[k])) return false;
        i++, k++;
        while (number && i < na && journey_digit(a[i])) i++;
        while (number && k < nb && journey_digit(b[k])) k++;
    }
    return i == na && k == nb;
}

static void journey_line(FILE *out, const char *line, int len, int base) {
    int skip = KN_MIN(base, journey_indent(line, len)), room = KN_MIN(len - skip, (int)JOURNEY_WIDTH);
    fprintf(out, "  %.*s%s\n", room, line + skip, room < len - skip ? "..." : "");
}

/* Lines [from, to) of a text, at most `most`, without their common indent and without those that hold `without`. Of
 * three and more of one kind in a row the first stands for all. */
static void journey_lines(FILE *out, const digits_palette *p, const char *text, int from, int to, int most,
                          const char *without) {
    const char *at = text, *line, *kind = NULL, *last = NULL;
    int         len, kind_len = 0, last_len = 0, base = -1, shown = 0, more = 0;
    for (int row = 0; row <= to; row++) {
        bool end = row == to || !journey_next(&at, &line, &len);
        if (!end && (row < from || (without && journey_has(line, len, without)))) continue;
        if (!end && kind && journey_alike(kind, kind_len, line, len)) {
            last = line;
            last_len = len;
            more++;
            continue;
        }
        if (more == 1) journey_line(out, last, last_len, base);
        if (more > 1)
            fprintf(out, "  %*s%s... %d more like it%s\n", KN_MAX(journey_indent(last, last_len) - base, 0), "", p->dim,
                    more, p->off);
        more = 0;
        if (end) return;
        if (shown++ == most) {
            fprintf(out, "  %s...%s\n", p->dim, p->off);
            return;
        }
        kind = line;
        kind_len = len;
        if (base < 0) base = journey_indent(line, len);
        journey_line(out, line, len, base);
    }
}

/* ---- what is shown --------------------------------------------------------------------------------------------- */

typedef struct journey {
    kl_program program;
    kn_str     ranged, opts;
} journey;

static bool journey_seen(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    journey *j = user;
    if (stage == KN_STAGE_RANGEIFY) kg_print(g, root, &j->ranged);
    return !j->ranged.failed || kn_oom(f);
}

/* Lines of the first kernel, up to the END of its last loop. */
static int journey_body(const char *text) {
    const char *at = text, *line;
    int         len, row = 0, to = 0;
    for (; journey_next(&at, &line, &len) && !journey_has(line, len, " = CALL "); row++)
        if (journey_has(line, len, " = END ")) to = row + 1;
    return to ? to : row;
}

static bool journey_is_loop(const char *line, int len) {
    int at = journey_indent(line, len);
    return len - at > 4 && memcmp(line + at, "for ", 4) == 0 && line[len - 1] == '{';
}

/* The deepest loop of the source, and of those the longest: [from, to) in lines. */
static void journey_inner_loop(const char *text, int *from, int *to) {
    const char *at = text, *line;
    int         len, row = 0, open = -1, open_indent = 0, best_indent = -1;
    *from = *to = 0;
    for (; journey_next(&at, &line, &len); row++) {
        int indent = journey_indent(line, len);
        if (journey_is_loop(line, len)) {
            open = row;
            open_indent = indent;
        } else if (open >= 0 && len > indent && indent <= open_indent && line[indent] == '}') {
            bool longer = open_indent == best_indent && row + 1 - open > *to - *from;
            if (open_indent > best_indent || longer) {
                *from = open;
                *to = row + 1;
                best_indent = open_indent;
            }
            open = -1;
        }
    }
}

static void journey_rules(FILE *out, const uint64_t *fired) {
    int      best[JOURNEY_RULES], n = 0, kinds = 0;
    uint64_t all = 0;
    for (int i = 0; i < kn_rule_count; i++) kinds += fired[i] > 0, all += fired[i];
    for (; n < JOURNEY_RULES; n++) {
        int most = -1;
        for (int i = 0; i < kn_rule_count; i++) {
            bool had = false;
            for (int k = 0; k < n; k++) had |= best[k] == i;
            if (!had && fired[i] && (most < 0 || fired[i] > fired[most])) most = i;
        }
        if (most < 0) break;
        best[n] = most;
    }
    fprintf(out, "  %d rules fired %llu times:", kinds, (unsigned long long)all);
    for (int k = 0; k < n; k++)
        fprintf(out, "%s %s %llu", k ? "," : "", kn_rules[best[k]].name, (unsigned long long)fired[best[k]]);
    fputs(kinds > n ? ", ...\n" : "\n", out);
}

static void journey_print(FILE *out, const digits_palette *p, const char *line, const journey *j) {
    int              from, to;
    const kl_kernel *k = &j->program.kernel[0];
    fprintf(out, "%sOne kernel's journey.%s The program says:\n  %s\n", p->bold, p->off, line);
    fprintf(out, "%sRanged:%s movement became index arithmetic, and all of it one kernel:\n", p->bold, p->off);
    to = journey_body(kn_str_c(&j->ranged));
    journey_lines(out, p, kn_str_c(&j->ranged), 0, to, JOURNEY_RANGED, " = PARAM ");
    fprintf(out, "%sOptimized:%s %s\n", p->bold, p->off, kn_str_c(&j->opts));
    journey_rules(out, j->program.fired);
    journey_inner_loop(k->source, &from, &to);
    double seconds = 0;
    for (int s = 0; s < KN_STAGE_COUNT; s++) seconds += j->program.spent[s];
    fprintf(out, "%sRendered:%s its inner loop, %.1f ms after the line above:\n", p->bold, p->off, 1e3 * seconds);
    journey_lines(out, p, k->source, from, to, JOURNEY_LOOP, NULL);
}

bool digits_print_journey(FILE *out, const digits_palette *p, const char *line, const char *program, kn_fault *f) {
    journey   j = {0};
    int       slot, n;
    size_t    bytes = (size_t)kn_rule_count * sizeof(uint64_t);
    uint64_t *fired = kn_zalloc(NULL, bytes);
    kn_graph *g = kg_new(NULL);
    kl_run    run = {.stop = KN_STAGE_ANY, .seen = journey_seen, .user = &j};
    kl_program_init(&j.program, NULL);
    kn_str_init(&j.ranged, NULL);
    kn_str_init(&j.opts, NULL);
    bool   ok = (g && fired) || kn_oom(f);
    kn_ref root = ok ? kg_parse(g, program, strlen(program), f) : 0;
    ok = root && kl_program_from(&j.program, g, root, &slot, 1, &n, f);
    j.program.fired = fired;
    ok = ok && kl_lower(&j.program, &run, f);
    ok = ok && (j.program.nkernel > 0 || kn_fail(f, KN_ERR_INTERNAL, "the layer has no kernel"));
    if (ok) {
        ko_print_opts(j.program.kernel[0].opts, j.program.kernel[0].nopts, &j.opts);
        journey_print(out, p, line, &j);
    }
    kl_program_free(&j.program);
    kn_str_free(&j.ranged);
    kn_str_free(&j.opts);
    kg_free(g);
    kn_free(NULL, fired, bytes);
    return ok;
}
