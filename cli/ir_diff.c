/* ir_diff.c - `koine ir --diff`: what a stage changed, node by node.
 *
 * A node of the stage before and one of this stage are the same when they have the same cause and op: causes follow
 * nodes through copies and through exchanges of their sources. So a line is shown as changed only where its op, its
 * arg or what it stands on changed, and not because everything behind it has new numbers. Nodes that are gone keep
 * their number of the dump before, written %old7. */
#include "ir.h"

#include <string.h>

enum { CONTEXT = 2 };

typedef struct diff_side {
    const ir_kept *k;
    uint32_t      *number; /* as printed */
    kn_ref        *other;  /* the same node on the other side, 0: none */
    uint32_t       nodes;
} diff_side;

static bool side_open(diff_side *s, const ir_kept *k) {
    s->k      = k;
    s->number = kg_numbers(k->g, k->root);
    s->other  = kn_zalloc(NULL, ((size_t)k->root + 1) * sizeof *s->other);
    return s->number && s->other;
}

static void side_close(diff_side *s) {
    size_t n = (size_t)s->k->root + 1;
    if (s->number) kn_free(kg_alloc(s->k->g), s->number, n * sizeof *s->number);
    kn_free(NULL, s->other, n * sizeof *s->other);
}

static bool same_sources(const diff_side *a, kn_ref x, const diff_side *b, kn_ref y) {
    if (kg_nsrc(a->k->g, x) != kg_nsrc(b->k->g, y)) return false;
    for (uint32_t i = 0; i < kg_nsrc(a->k->g, x); i++) {
        kn_ref s = kg_at(a->k->g, x, i), t = kg_at(b->k->g, y, i);
        if (a->number[s] && a->other[s] != t) return false;
    }
    return true;
}

/* Nodes of one cause and op, those over the same sources first, then of as many, then in order; then those that the
 * stage made of a node of their op. */
static void match_sides(const kn_why *w, diff_side *a, diff_side *b) {
    enum { SAME, AS_MANY, ANY, MADE_OF, PASSES };
    for (int pass = 0; pass < PASSES; pass++)
        for (kn_ref y = 1; y <= b->k->root; y++) {
            uint32_t cause = kg_cause(b->k->g, y);
            if (pass == MADE_OF) cause = kn_cause_at(w, cause)->parent;
            if (!b->number[y] || b->other[y] || !cause) continue;
            for (kn_ref x = 1; x <= a->k->root; x++) {
                if (!a->number[x] || a->other[x] || kg_cause(a->k->g, x) != cause) continue;
                if (kg_op(a->k->g, x) != kg_op(b->k->g, y)) continue;
                if (pass == SAME && !same_sources(a, x, b, y)) continue;
                if (pass == AS_MANY && kg_nsrc(a->k->g, x) != kg_nsrc(b->k->g, y)) continue;
                a->other[x] = y;
                b->other[y] = x;
                break;
            }
        }
    for (kn_ref x = 1; x <= a->k->root; x++)
        if (a->number[x]) a->number[x] = a->other[x] ? b->number[a->other[x]] : a->number[x] | KN_NUMBER_OLD;
}

typedef struct diff_out {
    kn_str *out, line;
    bool    colour;
    kn_str  kept[CONTEXT]; /* context that a change may still want, the oldest first */
    int     nkept, after;  /* lines to show behind the last change */
    bool    any, gap;
} diff_out;

static void put_line(diff_out *d, char sign, const kn_str *line) {
    const char *on = sign == '+' ? "\033[32m" : sign == '-' ? "\033[31m" : "";
    bool colour = d->colour && *on;
    kn_str_putf(d->out, "%s%c %s%s\n", colour ? on : "", sign, kn_str_c(line), colour ? "\033[0m" : "");
}

static void put_change(diff_out *d, char sign, const kn_str *line) {
    if (d->gap && d->any) kn_str_puts(d->out, "  ...\n");
    for (int i = 0; i < d->nkept; i++) put_line(d, ' ', &d->kept[i]);
    d->nkept = 0;
    d->any   = true;
    d->gap   = false;
    d->after = CONTEXT;
    put_line(d, sign, line);
}

static void put_same(diff_out *d, const kn_str *line) {
    if (d->after > 0) {
        d->after--;
        put_line(d, ' ', line);
        return;
    }
    if (d->nkept == CONTEXT) {
        kn_str first = d->kept[0];
        for (int i = 1; i < CONTEXT; i++) d->kept[i - 1] = d->kept[i];
        d->kept[CONTEXT - 1] = first;
        d->nkept--;
        d->gap = true;
    }
    kn_str_clear(&d->kept[d->nkept]);
    kn_str_puts(&d->kept[d->nkept++], kn_str_c(line));
}

static void line_of(const diff_side *s, kn_ref n, kn_str *line) {
    kn_str_clear(line);
    kg_print_line(s->k->g, n, s->number, s->k->root, line);
}

bool ir_print_diff(ir_job *j, kn_stage from, kn_stage stage, kn_fault *f) {
    diff_side a = {0}, b = {0};
    diff_out  d  = {.out = &j->out, .colour = j->colour};
    kn_str    before;
    kn_ref    x  = 1;
    bool      ok = side_open(&a, &j->kept[from]);
    ok           = side_open(&b, &j->kept[stage]) && ok;
    kn_str_init(&d.line, NULL);
    kn_str_init(&before, NULL);
    for (int i = 0; i < CONTEXT; i++) kn_str_init(&d.kept[i], NULL);
    if (ok) match_sides(j->why, &a, &b);
    kn_str_putf(&j->out, "# %s, after %s\n", kn_stage_names[stage], kn_stage_names[from]);
    for (kn_ref y = 1; y <= b.k->root && ok; y++) {
        if (!b.number[y]) continue;
        for (; b.other[y] && x < b.other[y]; x++) { /* what is gone stands before what it stood before */
            if (!a.number[x] || a.other[x]) continue;
            line_of(&a, x, &d.line);
            put_change(&d, '-', &d.line);
        }
        line_of(&b, y, &d.line);
        if (b.other[y]) line_of(&a, b.other[y], &before);
        if (b.other[y] && !strcmp(kn_str_c(&before), kn_str_c(&d.line))) {
            put_same(&d, &d.line);
            continue;
        }
        if (b.other[y]) put_change(&d, '-', &before);
        put_change(&d, '+', &d.line);
    }
    for (; x <= a.k->root && ok; x++) {
        if (!a.number[x] || a.other[x]) continue;
        line_of(&a, x, &d.line);
        put_change(&d, '-', &d.line);
    }
    if (!d.any) kn_str_puts(&j->out, "  nothing changed\n");
    ok = ok && !d.line.failed && !before.failed && !j->out.failed;
    side_close(&a);
    side_close(&b);
    kn_str_free(&d.line);
    kn_str_free(&before);
    for (int i = 0; i < CONTEXT; i++) kn_str_free(&d.kept[i]);
    return ok || kn_oom(f);
}
