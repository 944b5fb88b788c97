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
