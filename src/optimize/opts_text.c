/* opts_text.c - option lists as text.
 *
 *   SPLIT:loop:factor:TYPE[:top][:MASK|:PAD]     SWAP:loop:loop          PEEL:loop:front[:back[:part]]
 *   JOIN:loop:loop   CARRY:loop:LOCAL|OUT   STAGE:param[:loop|:GLOBAL[:pitch[:loop.loop...]]]
 *   PREFETCH:param:ahead   STREAM:param
 *
 * Loops count from the outermost, 0; options stand side by side, with spaces or commas between. */
#include "optimize/opts.h"

#include <limits.h>
#include <string.h>

static bool parse_word(const char **at, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*at, word, n) || ((*at)[n] && !strchr(": ,", (*at)[n]))) return false;
    *at += n;
    return true;
}

static bool parse_number(const char **at, int64_t *v) {
    if (**at != ':' || (*at)[1] < '0' || (*at)[1] > '9') return false;
    *v = 0;
    for (++*at; **at >= '0' && **at <= '9'; ++*at)
        if (!kn_mul_ok(*v, 10, v) || !kn_add_ok(*v, **at - '0', v)) return false;
    return true;
}

static bool parse_axis(const char **at, kn_opt *o) {
    int64_t v;
    if (!parse_number(at, &v) || v > KN_MAX_NEST) return false;
    o->axis = (int)v;
    return true;
}

static bool parse_split(const char **at, kn_opt *o) {
    bool ok = false;
    if (!parse_axis(at, o) || !parse_number(at, &o->arg) || **at != ':') return false;
    ++*at;
    for (int t = 0; t < KN_AXIS_COUNT && !ok; t++)
        if (parse_word(at, kn_axis_names[t])) o->target = t, ok = true;
    while (ok && **at == ':') {
        ++*at;
        if (parse_word(at, "top")) o->top = true;
        else if (parse_word(at, "MASK")) o->tail = KN_TAIL_MASK;
        else if (parse_word(at, "PAD")) o->tail = KN_TAIL_PAD;
        else return false;
    }
    return ok;
}

static bool parse_stage(const char **at, kn_opt *o) {
    o->axis = KN_STAGE_SUM;
    if (!parse_number(at, &o->arg)) return false;
    if (**at != ':') return true;
    const char *word = *at + 1;
    if (parse_word(&word, "GLOBAL")) {
        o->axis = KN_STAGE_GLOBAL;
        *at     = word;
    } else if (!parse_axis(at, o)) {
        return false;
    }
    if (**at == ':' && !parse_number(at, &o->more)) return false;
    if (**at != ':') return true;
    do { /* the first loop behind ':', the others behind '.' */
        int64_t     v;
        const char *digits = *at + 1;
        if (o->naxes == KN_STAGE_AXES || *digits < '0' || *digits > '9') return false;
        for (v = 0; *digits >= '0' && *digits <= '9' && v <= KN_MAX_NEST; digits++) v = v * 10 + (*digits - '0');
        o->axes[o->naxes++] = (int)v;
        *at                 = digits;
    } while (**at == '.');
    return true;
}

static bool parse_one(const char **at, kn_opt *o) {
    if (parse_word(at, "SPLIT")) return o->op = KN_OPT_SPLIT, parse_split(at, o);
    if (parse_word(at, "SWAP")) return o->op = KN_OPT_SWAP, parse_axis(at, o) && parse_number(at, &o->arg);
    if (parse_word(at, "JOIN")) return o->op = KN_OPT_JOIN, parse_axis(at, o) && parse_number(at, &o->arg);
    if (parse_word(at, "STAGE")) return o->op = KN_OPT_STAGE, parse_stage(at, o);
    if (parse_word(at, "PREFETCH"))
        return o->op = KN_OPT_PREFETCH, parse_number(at, &o->arg) && parse_number(at, &o->more);
    if (parse_word(at, "STREAM")) return o->op = KN_OPT_STREAM, parse_number(at, &o->arg);
    if (parse_word(at, "PEEL")) {
        int64_t part = 0;
        o->op        = KN_OPT_PEEL;
        if (!parse_axis(at, o) || !parse_number(at, &o->arg)) return false;
        if (**at == ':' && !parse_number(at, &o->more)) return false;
        if (**at == ':' && (!parse_number(at, &part) || part > INT_MAX)) return false;
        o->target = (int)part;
        return true;
    }
    if (parse_word(at, "CARRY")) {
        o->op = KN_OPT_CARRY;
        if (!parse_axis(at, o) || **at != ':') return false;
        ++*at;
        o->target = parse_word(at, "LOCAL") ? KN_CARRY_LOCAL : parse_word(at, "OUT") ? KN_CARRY_OUT : KN_CARRY_NONE;
        return o->target != KN_CARRY_NONE;
    }
    return false;
}

bool ko_parse_opts(const char *text, kn_opt *opts, int *n, kn_fault *f) {
    *n = 0;
    for (const char *at = text; *at;) {
        if (*at == ' ' || *at == ',') {
            at++;
            continue;
        }
        kn_opt      o     = {0};
        const char *start = at;
        if (*n == KN_MAX_OPTS) return kn_fail(f, KN_ERR_ARG, "options: more than %d", KN_MAX_OPTS);
        if (!parse_one(&at, &o) || (*at && *at != ' ' && *at != ','))
            return kn_fail(f, KN_ERR_ARG,
                           "options: cannot read \"%.40s\"; an option is SPLIT:loop:factor:TYPE[:top][:MASK|:PAD], "
                           "SWAP:loop:loop, JOIN:loop:loop, PEEL:loop:front[:back[:part]], "
                           "STAGE:param[:loop|:GLOBAL[:pitch[:order]]], CARRY:loop:LOCAL|OUT, PREFETCH:param:ahead "
                           "or STREAM:param",
                           start);
        opts[(*n)++] = o;
    }
    return true;
}

static void print_stage(const kn_opt *o, kn_str *out) {
    kn_str_putf(out, "STAGE:%lld", (long long)o->arg);
    if (o->axis >= 0) kn_str_putf(out, ":%d", o->axis);
    if (o->axis == KN_STAGE_GLOBAL) kn_str_puts(out, ":GLOBAL");
    if (o->axis != KN_STAGE_SUM && (o->more || o->naxes)) kn_str_putf(out, ":%lld", (long long)o->more);
    for (int i = 0; i < o->naxes; i++) kn_str_putf(out, i ? ".%d" : ":%d", o->axes[i]);
}

void ko_print_opts(const kn_opt *opts, int n, kn_str *out) {
    static const char *const tails[] = {"", ":MASK", ":PAD"}, *const spaces[] = {"", "LOCAL", "OUT"};
    for (int i = 0; i < n; i++) {
        const kn_opt *o = &opts[i];
        if (i) kn_str_puts(out, " ");
        switch (o->op) {
        case KN_OPT_STAGE: print_stage(o, out); break;
        case KN_OPT_SWAP: kn_str_putf(out, "SWAP:%d:%lld", o->axis, (long long)o->arg); break;
        case KN_OPT_JOIN: kn_str_putf(out, "JOIN:%d:%lld", o->axis, (long long)o->arg); break;
        case KN_OPT_PEEL:
            kn_str_putf(out, "PEEL:%d:%lld:%lld", o->axis, (long long)o->arg, (long long)o->more);
            if (o->target) kn_str_putf(out, ":%d", o->target);
            break;
        case KN_OPT_CARRY: kn_str_putf(out, "CARRY:%d:%s", o->axis, spaces[o->target]); break;
        case KN_OPT_PREFETCH: kn_str_putf(out, "PREFETCH:%lld:%lld", (long long)o->arg, (long long)o->more); break;
        case KN_OPT_STREAM: kn_str_putf(out, "STREAM:%lld", (long long)o->arg); break;
        default:
            kn_str_putf(out, "SPLIT:%d:%lld:%s%s%s", o->axis, (long long)o->arg, kn_axis_names[o->target],
                        o->top ? ":top" : "", tails[o->tail]);
        }
    }
}
