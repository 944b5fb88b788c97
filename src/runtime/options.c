/* options.c - options given by hand for kernels by name.
 *
 * Contract: a rule is a pattern and a list of options, already read; the last rule whose pattern fits a kernel's name
 * counts. All rules of a context, as text, are part of the key of its schedules. */
#include "runtime/inside.h"

#include <string.h>

enum { PATTERN_MAX = 200 };

/* The rules as text: equal texts, equal rules. */
static bool write_key(kr_context *rt) {
    kn_str_clear(&rt->hand_key);
    for (size_t i = 0; i < rt->nhand; i++) {
        kn_str_putf(&rt->hand_key, "%s = ", rt->hand[i].pattern);
        ko_print_opts(rt->hand[i].opts, rt->hand[i].nopts, &rt->hand_key);
        kn_str_puts(&rt->hand_key, "\n");
    }
    return !rt->hand_key.failed;
}

static void remove_rule(kr_context *rt, const char *pattern) {
    for (size_t i = 0; i < rt->nhand; i++) {
        if (strcmp(rt->hand[i].pattern, pattern)) continue;
        kn_free(rt->a, rt->hand[i].pattern, strlen(pattern) + 1);
        memmove(&rt->hand[i], &rt->hand[i + 1], (rt->nhand - i - 1) * sizeof *rt->hand);
        rt->nhand--;
        return;
    }
}

bool kr_set_opts(kr_context *rt, const char *pattern, const char *text, kn_fault *f) {
    size_t  len = strlen(pattern);
    kl_hand h   = {.nopts = 0};
    if (!len || len > PATTERN_MAX)
        return kn_fail(f, KN_ERR_ARG, "a kernel's name, or a pattern of such with * and ?, has 1 to %d characters",
                       PATTERN_MAX);
    if (text && !ko_parse_opts(text, h.opts, &h.nopts, f)) return false;
    if (text && !KN_GROW(rt->a, rt->hand, rt->hand_cap, rt->nhand + 1)) return kn_oom(f);
    if (text && !(h.pattern = kn_realloc(rt->a, NULL, 0, len + 1))) return kn_oom(f);
    remove_rule(rt, pattern);
    rt->hand_version++;
    if (text) {
        memcpy(h.pattern, pattern, len + 1);
        rt->hand[rt->nhand++] = h;
    }
    return write_key(rt) || kn_oom(f);
}

uint64_t kr_opts_version(const kr_context *rt) { return rt->hand_version; }

void kr_forget_opts(kr_context *rt) {
    while (rt->nhand) remove_rule(rt, rt->hand[0].pattern);
    kn_free(rt->a, rt->hand, rt->hand_cap * sizeof *rt->hand);
    kn_str_free(&rt->hand_key);
}
