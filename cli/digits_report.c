/* digits_report.c - what the demo shows when the training is over. Widths are in columns: every character printed here
 * takes one. */
#include "digits.h"

#include <string.h>

/* ---- the confusion table ------------------------------------------------------------------------------------- */

void digits_print_confusion(FILE *out, const digits_palette *p, const digits_result *r) {
    fprintf(out, "%sread as:", p->dim);
    for (int k = 0; k < DIGITS_CLASSES; k++) fprintf(out, k ? "%6d" : "%4d", k);
    fprintf(out, "%s\n", p->off);
    for (int i = 0; i < DIGITS_CLASSES; i++) {
        int64_t all = 0, worst = 0;
        for (int k = 0; k < DIGITS_CLASSES; k++) {
            all += r->confusion[i][k];
            if (k != i) worst = KN_MAX(worst, r->confusion[i][k]);
        }
        fprintf(out, "%s%s%d%s", p->dim, i ? "      " : "is    ", i, p->off);
        for (int k = 0; k < DIGITS_CLASSES; k++) {
            int64_t n = r->confusion[i][k];
            if (n == 0)
                fprintf(out, "%s     \302\267%s", p->dim, p->off);
            else
                fprintf(out, "%s%6lld%s", k == i ? p->good : n == worst && n > 1 ? p->bad : "", (long long)n, p->off);
        }
        if (all) fprintf(out, "%s%8.1f %%%s", p->dim, 100.0 * (double)r->confusion[i][i] / (double)all, p->off);
        fputc('\n', out);
    }
}

/* ---- misread digits ------------------------------------------------------------------------------------------- */

enum { MISREAD_SHOWN = 6, MISREAD_CAPTION = 12, MISREAD_GAP = 3, MISREAD_INK = 64 };

typedef struct misread_digit {
    const uint8_t *image;
    int            is, read;
    int            x0, x1, y0, y1; /* where there is ink */
    int            width;          /* columns, the caption's at least */
} misread_digit;

static void misread_frame(misread_digit *m) {
    m->x0 = m->y0 = DIGITS_SIDE;
    m->x1 = m->y1 = 0;
    for (int y = 0; y < DIGITS_SIDE; y++) {
        for (int x = 0; x < DIGITS_SIDE; x++) {
            if (m->image[y * DIGITS_SIDE + x] < MISREAD_INK) continue;
            m->x0 = KN_MIN(m->x0, x), m->x1 = KN_MAX(m->x1, x + 1);
            m->y0 = KN_MIN(m->y0, y), m->y1 = KN_MAX(m->y1, y + 1);
        }
    }
    if (m->x0 >= m->x1) m->x0 = m->y0 = 0, m->x1 = m->y1 = 1;
    m->width = KN_MAX(m->x1 - m->x0, (int)MISREAD_CAPTION);
}

/* Different digits first, so that the six are not six times the same trouble. */
static int misread_pick(const digits_data *d, const digits_result *r, misread_digit *m) {
    int  n = 0;
    bool seen[DIGITS_CLASSES] = {false};
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < d->test.n && n < MISREAD_SHOWN; i++) {
            const uint8_t *image = d->test.images + i * DIGITS_PIXELS;
            int            is = d->test.labels[i];
            bool           had = false;
            if (is == r->read[i] || (pass == 0 && seen[is])) continue;
            for (int k = 0; k < n; k++) had |= m[k].image == image;
            if (had) continue;
            seen[is] = true;
            m[n] = (misread_digit){.image = image, .is = is, .read = r->read[i]};
            misread_frame(&m[n++]);
        }
    }
    return n;
}

static int misread_pixel(const misread_digit *m, int x, int y) {
    return x < m->x1 && y < m->y1 ? m->image[y * DIGITS_SIDE + x] : 0;
}

/* One line of one digit: two rows of pixels. With colours each half has its grey, else it has ink or none. */
static void misread_line(FILE *out, const digits_palette *p, const misread_digit *m, int row) {
    static const char *const half[4] = {" ", "\342\226\200", "\342\226\204", "\342\226\210"};
    for (int c = 0; c < m->width; c++) {
        int x = m->x0 + c - (m->width - (m->x1 - m->x0)) / 2, y = m->y0 + 2 * row;
        int top = x < m->x0 ? 0 : misread_pixel(m, x, y), low = x < m->x0 ? 0 : misread_pixel(m, x, y + 1);
        if (!*p->off)
            fputs(half[(top >= MISREAD_INK) + 2 * (low >= MISREAD_INK)], out);
        else if (top < 16 && low < 16)
            fputc(' ', out);
        else /* the 24 greys of a 256-colour terminal */
            fprintf(out, "\033[38;5;%d;48;5;%dm%s%s", 232 + top * 23 / 255, 232 + low * 23 / 255, half[1], p->off);
    }
}

void digits_print_misread(FILE *out, const digits_palette *p, const digits_data *d, const digits_result *r,
                          int columns) {
    misread_digit m[MISREAD_SHOWN];
    int           n = misread_pick(d, r, m);
    for (int from = 0, to; from < n; from = to) {
        int width = m[from].width, rows = 0;
        for (to = from + 1; to < n && width + MISREAD_GAP + m[to].width <= columns; to++)
            width += MISREAD_GAP + m[to].width;
        for (int i = from; i < to; i++) rows = KN_MAX(rows, (m[i].y1 - m[i].y0 + 1) / 2);
        for (int row = 0; row < rows; row++) {
            for (int i = from; i < to; i++) {
                if (i > from) fprintf(out, "%*s", MISREAD_GAP, "");
                misread_line(out, p, &m[i], row);
            }
            fputc('\n', out);
        }
        for (int i = from; i < to; i++) {
            int left = (m[i].width - MISREAD_CAPTION) / 2, right = m[i].width - MISREAD_CAPTION - left;
            if (i > from) fprintf(out, "%*s", MISREAD_GAP, "");
            fprintf(out, "%*s%sread %s%d%s%s, is %s%d%s%*s", left, "", p->dim, p->bad, m[i].read, p->off, p->dim,
                    p->good, m[i].is, p->off, i + 1 < to ? right : 0, "");
        }
        fputs(to < n ? "\n\n" : "\n", out);
    }
}

/* ---- one kernel's journey ------------------------------------------------------------------------------------- */

enum { JOURNEY_RANGED = 14, JOURNEY_LOOP = 18 };

/* A line of text and where the next begins; false at the end. */
static bool journey_next(const char **at, const char **line, int *len) {
    if (!*at || !**at) return false;
    const char *end = strchr(*at, '\n');
    *line = *at;
    *len = (int)(end ? (size_t)(end - *at) : strlen(*at));
    *at = end ? end + 1 : *at + *len;
    return true;
}

static int journey_indent(const char *line, int len) {
    int n = 0;
    while (n < len && line[n] == ' ') n++;
    return n;
}

static bool journey_is_loop(const char *line, int len) {
    int at = journey_indent(line, len);
    return len - at > 4 && memcmp(line + at, "for ", 4) == 0;
}

/* The deepest loop of the text, and of those the longest: [from, to) in lines. */
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

/* Lines [from, to) of text, at most `most` of them, two spaces in; what is left out in the middle is said. */
static void journey_lines(FILE *out, const digits_palette *p, const char *text, int from, int to, int most) {
    const char *at = text, *line;
    int         len, tail = 3, head = to - from > most ? most - tail : to - from, base = -1;
    for (int row = 0; row < to && journey_next(&at, &line, &len); row++) {
        if (row < from) continue;
        if (base < 0) base = journey_indent(line, len);
        if (row - from == head && to - tail > row)
            fprintf(out, "  %s... %d lines ...%s\n", p->dim, to - tail - row, p->off);
        if (row - from >= head && row < to - tail) continue;
        int skip = KN_MIN(base, journey_indent(line, len));
        fprintf(out, "  %.*s%s\n", KN_MIN(len - skip, 116), line + skip, len - skip > 116 ? "..." : "");
    }
}

static int journey_count(const char *text) {
    const char *at = text, *line;
    int         len, n = 0;
    while (journey_next(&at, &line, &len)) n++;
    return n;
}

void digits_print_journey(FILE *out, const digits_palette *p, const digits_result *r) {
    fprintf(out, "%sThe program says%s\n  h = kn_relu(kn_add(kn_matmul(x, w1), b1));\n", p->bold, p->off);
    if (r->ranged) {
        int n = journey_count(r->ranged);
        fprintf(out, "%sRanged%s %s(one kernel: index arithmetic over ranges; koine ir --after=rangeify)%s\n", p->bold,
                p->off, p->dim, p->off);
        journey_lines(out, p, r->ranged, 0, n, JOURNEY_RANGED);
    }
    if (r->rendered) {
        int from, to;
        journey_inner_loop(r->rendered, &from, &to);
        if (from == to) to = journey_count(r->rendered);
        fprintf(out, "%sIts inner loop, as it ran%s\n", p->bold, p->off);
        journey_lines(out, p, r->rendered, from, to, JOURNEY_LOOP);
    }
}
