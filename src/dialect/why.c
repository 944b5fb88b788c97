/* why.c - the log of causes, and who is making nodes. why.h says what it is for.
 *
 * Contract: a log that has no memory left gives cause 0, "not known", and never fails what it watches. */
#include "dialect/why.h"

#include "dialect/graph.h"

#include <string.h>

struct kn_why {
    const kn_alloc *alloc;
    bool            source;
    kn_graph       *texts; /* holds the names: a graph interns texts */
    kn_cause       *cause;
    size_t          n, cap;
    uint32_t       *slot; /* open addressing: cause numbers, 0 free */
    size_t          slots;
    kn_cause        now; /* what a new node gets, nth counting up; of kind NOBODY: nothing */
    uint32_t        as;  /* or this very cause, if not 0 */
    uint32_t        stage;
};

kn_why *kn_why_new(const kn_alloc *a, bool source) {
    kn_why *w = kn_zalloc(a, sizeof *w);
    if (!w) return NULL;
    w->alloc  = a;
    w->source = source;
    w->n      = 1;
    w->texts  = kg_new(a);
    if (w->texts && KN_GROW(a, w->cause, w->cap, 64)) {
        memset(w->cause, 0, sizeof *w->cause);
        return w;
    }
    kn_why_free(w);
    return NULL;
}

void kn_why_free(kn_why *w) {
    if (!w) return;
    kg_free(w->texts);
    kn_free(w->alloc, w->cause, w->cap * sizeof *w->cause);
    kn_free(w->alloc, w->slot, w->slots * sizeof *w->slot);
    kn_free(w->alloc, w, sizeof *w);
}

bool            kn_why_in_source(const kn_why *w) { return w && w->source; }
kn_why         *kg_why(const kn_graph *g) { return g->why; }
const kn_cause *kn_cause_at(const kn_why *w, uint32_t cause) { return &w->cause[cause < w->n ? cause : 0]; }
const char     *kn_cause_text(const kn_why *w, uint32_t text) { return kg_str(w->texts, text, NULL); }
uint32_t        kg_cause(const kn_graph *g, kn_ref n) { return n < g->cause_cap ? g->cause[n] : 0; }

void kg_keep_why(kn_graph *g, kn_why *w) { g->why = w; }

static uint32_t why_text(kn_why *w, const char *text) { return kg_intern_str(w->texts, text, strlen(text)); }

/* ---- interning --------------------------------------------------------------------------------------------------- */

static size_t place_of_cause(const kn_why *w, const kn_cause *c) {
    size_t at = (size_t)kn_hash(c, sizeof *c, 3) & (w->slots - 1);
    while (w->slot[at] && memcmp(&w->cause[w->slot[at]], c, sizeof *c) != 0) at = (at + 1) & (w->slots - 1);
    return at;
}

static bool cause_room(kn_why *w) {
    if (2 * (w->n + 1) > w->slots) {
        size_t    old = w->slots, size = KN_MAX(2 * old, 256u);
        uint32_t *slot = kn_zalloc(w->alloc, size * sizeof *slot);
        if (!slot) return false;
        kn_free(w->alloc, w->slot, old * sizeof *slot);
        w->slot  = slot;
        w->slots = size;
        for (uint32_t i = 1; i < w->n; i++) w->slot[place_of_cause(w, &w->cause[i])] = i;
    }
    return KN_GROW(w->alloc, w->cause, w->cap, w->n + 1);
}

static uint32_t cause_id(kn_why *w, const kn_cause *c) {
    if (c->kind == KN_BY_NOBODY) return 0;
    if (!cause_room(w)) return 0;
    size_t at = place_of_cause(w, c);
    if (w->slot[at]) return w->slot[at];
    w->cause[w->n] = *c;
    w->slot[at]    = (uint32_t)w->n;
    return (uint32_t)w->n++;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static bool cause_of_node_room(kn_graph *g, kn_ref n) {
    size_t old = g->cause_cap;
    if (n < old) return true;
    if (!KN_GROW(g->alloc, g->cause, g->cause_cap, (size_t)n + 1)) return false;
    memset(g->cause + old, 0, (g->cause_cap - old) * sizeof *g->cause);
    return true;
}

void kg_note_cause(kn_graph *g, kn_ref n) {
    kn_why *w = g->why;
    if (!cause_of_node_room(g, n)) return;
    g->cause[n] = w->as ? w->as : cause_id(w, &w->now);
    w->now.nth += !w->as;
}

uint32_t kg_swap_cause(kn_graph *g, uint32_t cause) {
    uint32_t before = g->why->as;
    g->why->as      = cause;
    return before;
}

static void made_by(kn_why *w, kn_cause_kind kind, const char *name, const char *file, int line) {
    if (!w) return;
    w->now = (kn_cause){.kind = (uint32_t)kind,
                        .name = name ? why_text(w, name) : 0,
                        .file = file ? why_text(w, file) : 0,
                        .line = (uint32_t)line};
    w->as  = 0;
}

void kn_why_call(kn_why *w, const char *function, bool placed) {
    made_by(w, KN_BY_CALL, function, placed ? "" : NULL, 0);
}
void kn_why_line(kn_why *w, const char *file, int line) {
    if (w) made_by(w, KN_BY_LINE, NULL, file ? file : kn_cause_text(w, w->now.file), line);
}
void kn_why_stage(kn_why *w, const char *stage) {
    made_by(w, KN_BY_STAGE, stage, NULL, 0);
    if (w) w->stage = w->now.name;
}

void kg_made_of(kn_graph *g, const kn_graph *from, kn_ref n) {
    kn_why *w = g->why;
    if (!w) return;
    w->now = (kn_cause){.kind = KN_BY_STAGE, .name = w->stage, .parent = from->why == w ? kg_cause(from, n) : 0};
    w->as  = 0;
}

void kg_made_as(kn_graph *g, const kn_graph *from, kn_ref n) {
    if (g->why) g->why->as = n && from->why == g->why ? kg_cause(from, n) : 0;
}

void kg_made_at(kn_graph *g, kn_ref first, const char *file, int line) {
    kn_why *w = g->why;
    if (!w) return;
    uint32_t text = why_text(w, file);
    for (kn_ref n = first; n < g->count; n++) {
        kn_cause c = *kn_cause_at(w, kg_cause(g, n));
        if (c.kind != KN_BY_CALL || c.file) continue;
        c.file      = text;
        c.line      = (uint32_t)line;
        g->cause[n] = cause_id(w, &c);
    }
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

void kg_rule_begin(kn_graph *g, kn_making *m) {
    kn_why *w = g->why;
    *m        = (kn_making){g->count, w->now, w->as};
    w->now    = (kn_cause){0};
    w->as     = 0;
}

/* A node that was copied or changed meanwhile has a cause, and came of that; any other came of n. */
void kg_rule_end(kn_graph *g, kn_making *m, kn_ref n, const char *group, const char *rule, const char *file, int line) {
    kn_why  *w = g->why;
    uint32_t of = kg_cause(g, n);
    kn_cause c  = {.kind = KN_BY_RULE, .line = (uint32_t)line, .stage = w->stage};
    w->now      = m->now;
    w->as       = m->as;
    if (m->first == g->count || !cause_of_node_room(g, g->count)) return;
    if (rule) {
        char name[128];
        snprintf(name, sizeof name, "%s.%s", group, rule);
        c.name = why_text(w, name);
        c.file = why_text(w, file);
    }
    for (kn_ref i = m->first; i < g->count; i++, c.nth++) {
        c.parent    = g->cause[i] ? g->cause[i] : of;
        g->cause[i] = rule ? cause_id(w, &c) : c.parent;
    }
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

enum { WHY_SHOWN = 12 };

static void print_cause_step(const kn_why *w, const kn_cause *c, kn_str *out) {
    if (c->kind == KN_BY_CALL || c->kind == KN_BY_LINE) {
        const char *file = kn_cause_text(w, c->file);
        if (*file) kn_str_putf(out, "%s:%u%s", file, c->line, c->name ? " " : "");
    }
    if (c->name) kn_str_puts(out, kn_cause_text(w, c->name));
}

void kn_print_cause(const kn_why *w, uint32_t cause, kn_str *out) {
    const kn_cause *step[WHY_SHOWN], *first = NULL;
    int             n = 0, left_out = 0;
    for (uint32_t at = cause; at; at = first->parent) { /* what follows its like says nothing more */
        first = kn_cause_at(w, at);
        const kn_cause *last = n ? step[n - 1] : NULL;
        if (last && first->name == last->name && first->file == last->file && first->line == last->line) continue;
        if (n < WHY_SHOWN) step[n++] = first;
        else left_out++;
    }
    if (!n) {
        kn_str_puts(out, "?");
        return;
    }
    if (left_out) {
        print_cause_step(w, first, out);
        kn_str_puts(out, " > ...");
    }
    for (int i = n; i-- > 0;) {
        if (left_out || i < n - 1) kn_str_puts(out, " > ");
        print_cause_step(w, step[i], out);
    }
}
