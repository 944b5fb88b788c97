/* docfill.c - runs the commands of a page and writes it with what they print: docfill KOINE PAGE.md OUT.md
 *
 * A line "$ koine ARGS" of a code block is run as KOINE ARGS in the page's folder; stdout, then stderr, stand below it.
 * A command that fails ends the build: a page whose commands no longer work is wrong. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run(const char *koine, const char *args, FILE *out) {
    char line[8192], part[4096];
    if (snprintf(line, sizeof line, "'%s' %s 2>&1", koine, args) >= (int)sizeof line) return 1;
    FILE *p = popen(line, "r");
    if (!p) return 1;
    for (size_t n; (n = fread(part, 1, sizeof part, p)) > 0;) fwrite(part, 1, n, out);
    return pclose(p);
}

int main(int argc, char **argv) {
    static const char mark[] = "$ koine ";
    char              line[4096], dir[4096];
    if (argc != 4) {
        fprintf(stderr, "usage: docfill KOINE PAGE.md OUT.md\n");
        return 2;
    }
    FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "wb");
    if (!in || !out) {
        perror(in ? argv[3] : argv[2]);
        return 1;
    }
    snprintf(dir, sizeof dir, "%s", argv[2]);
    char *slash = strrchr(dir, '/');
    if (slash) *slash = 0;
    if (slash && chdir(dir) != 0) {
        perror(dir);
        return 1;
    }
    int failed = 0, code = 0;
    for (int at = 1; !failed && fgets(line, sizeof line, in); at++) {
        fputs(line, out);
        if (strncmp(line, mark, sizeof mark - 1) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        fflush(out);
        if ((code = run(argv[1], line + sizeof mark - 1, out)) != 0) {
            fprintf(stderr, "%s:%d: failed with status %d: %s\n", argv[2], at, code, line + 2);
            failed = 1;
        }
    }
    failed |= ferror(in) || ferror(out);
    fclose(in);
    if (fclose(out) != 0) failed = 1;
    if (failed) remove(argv[3]);
    return failed;
}
