/* opts_text.c - option lists as text. */
#include "optimize/opts.h"

#include <string.h>

static bool parse_word(const char **at, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*at, word, n) || ((*at)[n] && (*at)[n] != ':' && (*at)[n] != ' ' && (*at)[n] != ',')) return false;
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

bool ko_parse_opts(const char *text, kn_opt *opts, int *n, kn_fault *f) {
    *n = 0;
    for (const char *at = text; *at;) {
        if (*at == ' ' || *at == ',') {
            at++;
            continue;
        }
        kn_opt  o = {0};
        int64_t axis;
        bool    ok = false;
        if (*n == KN_MAX_OPTS) return kn_fail(f, KN_ERR_ARG, "options: more than %d", KN_MAX_OPTS);
        const char *start = at;
        if (parse_word(&at, "SWAP")) {
            o.op = KN_OPT_SWAP;
            ok   = parse_number(&at, &axis) && parse_number(&at, &o.arg);
        } else if (parse_word(&at, "STAGE")) {
            o.op = KN_OPT_STAGE;
            axis = 0;
            ok   = parse_number(&at, &o.arg);
        } else if (parse_word(&at, "SPLIT")) {
            ok = parse_number(&at, &axis) && parse_number(&at, &o.arg) && *at == ':';
            if (ok) {
                at++;
                ok = false;
                for (int t = 0; t < KN_AXIS_COUNT && !ok; t++)
                    if (parse_word(&at, kn_axis_names[t])) o.target = t, ok = true;
                if (ok && !strncmp(at, ":top", 4)) o.top = true, at += 4;
            }
        }
        if (!ok || axis > KN_MAX_NEST || (*at && *at != ' ' && *at != ','))
            return kn_fail(
                f, KN_ERR_ARG,
                "options: cannot read \"%.40s\"; an option is SPLIT:loop:factor:TYPE[:top], SWAP:loop:loop or "
                "STAGE:param",
                start);
        o.axis        = (int)axis;
        opts[(*n)++] = o;
    }
    return true;
}

void ko_print_opts(const kn_opt *opts, int n, kn_str *out) {
    for (int i = 0; i < n; i++) {
        const kn_opt *o = &opts[i];
        if (i) kn_str_puts(out, " ");
        if (o->op == KN_OPT_STAGE) kn_str_putf(out, "STAGE:%lld", (long long)o->arg);
        else if (o->op == KN_OPT_SWAP) kn_str_putf(out, "SWAP:%d:%lld", o->axis, (long long)o->arg);
        else
            kn_str_putf(out, "SPLIT:%d:%lld:%s%s", o->axis, (long long)o->arg, kn_axis_names[o->target],
                        o->top ? ":top" : "");
    }
}
