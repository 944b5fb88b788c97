/* cache.c - where the command keeps compiled kernels, and how it tells what goes wrong there. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cli_cache_dir(char *room, size_t cap) {
    const char *own = getenv("KOINE_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int         n;
    if (own && *own) n = strcmp(own, "off") ? snprintf(room, cap, "%s", own) : 0;
    else if (xdg && *xdg == '/') n = snprintf(room, cap, "%s/koine", xdg);
    else n = home && *home == '/' ? snprintf(room, cap, "%s/.cache/koine", home) : 0;
    return n > 0 && (size_t)n < cap ? room : NULL;
}

void cli_log(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "koine: %s\n", line);
}
