/* widths.c - the table of widths.def. */
#include "rules/widths.h"

#include <string.h>

#include "rewrite/rewrite.h"

enum { ALL = KN_WIDTH_ALL };

static const kn_width widths[] = {
#define WIDTH(group, rule, ints, floats, quick) {#group, #rule, ints, floats, quick},
#include "rules/widths.def"
#undef WIDTH
};

const kn_width *kn_width_of(int rule) {
    for (int i = 0; i < KN_COUNT(widths); i++)
        if (!strcmp(widths[i].group, kn_rules[rule].group) && !strcmp(widths[i].rule, kn_rules[rule].name))
            return &widths[i];
    return 0;
}
