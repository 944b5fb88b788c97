/* run.h - the koine command run by a test, and what it said. */
#ifndef KN_TEST_CLI_RUN_H
#define KN_TEST_CLI_RUN_H

#include "check.h"

#include <stdlib.h>
#include <sys/wait.h>

static char output[1 << 18];

/* Runs `koine ARGS` in a shell, stdout and stderr together into `output`; the exit code. */
static int koine(const char *args) {
    char line[2048];
    snprintf(line, sizeof line, "%s/koine %s 2>&1", KN_TEST_BUILD, args);
    FILE *p = popen(line, "r");
    if (!p) return -1;
    size_t n  = fread(output, 1, sizeof output - 1, p);
    output[n] = 0;
    int rc    = pclose(p);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void expect_koine(const char *args, int code, const char *text) {
    int got = koine(args);
    if (!CHECK_EQ(got, code) || !strstr(output, text)) {
        fprintf(stderr, "koine %s\n", args);
        CHECK_STR(output, text);
    }
}

#endif
