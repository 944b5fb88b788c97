/* parse_tree.c - the bestiary's tree form, read: lines, what hangs from what, and what is left out.
 *
 * Contract: that of parse.c, whose frames it fills: the innermost frame is the line above at the least depth. A line's
 * node is made when the next line stands no deeper. Heads are read by tree_head.c. */
#include "dialect/tree_line.h"
#include "dialect/why.h"

#include <string.h>

static bool tree_starts(const tree_reader *t, const char *s) {
    size_t n = strlen(s);
    return (size_t)(t->r.end - t->r.p) >= n && !memcmp(t->r.p, s, n);
}

static bool tree_take(tree_reader *t, const char *s) {
    if (!tree_starts(t, s)) return false;
    t->r.p += strlen(s);
    return true;
}

void kn_tree_blank(tree_reader *t) {
    while (t->r.p < t->r.end && (*t->r.p == ' ' || *t->r.p == '\t' || *t->r.p == '\r')) t->r.p++;
}

bool kn_tree_line_ends(tree_reader *t) {
    kn_tree_blank(t);
    return t->r.p >= t->r.end || *t->r.p == '\n' || *t->r.p == '#' || tree_starts(t, "\xe2\x80\x94");
}

/* How deep the line hangs, r.p on its head; -1: an empty line, -2: a fault. */
static int tree_depth(tree_reader *t) {
    int         depth = 0;
    const char *at    = t->r.p;
    for (;;) {
        if (tree_take(t, "\xe2\x94\x9c\xe2\x94\x80\xe2\x94\x80 ") ||
            tree_take(t, "\xe2\x94\x94\xe2\x94\x80\xe2\x94\x80 ") || tree_take(t, "|-- ") || tree_take(t, "`-- "))
            return depth + 1;
        if (!tree_take(t, "\xe2\x94\x82   ") && !tree_take(t, "|   ") && !tree_take(t, "    ")) break;
        if (depth++ > INT32_MAX / 2) return -2;
    }
    if (!tree_take(t, "\xe2\x94\x82")) tree_take(t, "|");
    if (kn_tree_line_ends(t)) return -1;
    if (!depth && t->r.p == at) return 0;
    kn_rd_fail(&t->r, t->r.p, KN_ERR_FORMAT, "expected a branch, \xe2\x94\x9c\xe2\x94\x80\xe2\x94\x80 or "
                                             "\xe2\x94\x94\xe2\x94\x80\xe2\x94\x80, four columns a level");
    return -2;
}

bool kn_tree_deliver(tree_reader *t, const char *label, size_t len, kn_ref n, kn_ref gate) {
    if (label && kn_rd_find(&t->r, label, len))
        return kn_rd_fail(&t->r, label, KN_ERR_FORMAT, "%%%.*s is defined twice", kn_rd_clip(len), label);
    if (label && !kn_rd_add(&t->r, label, len, n, gate)) return false;
    if (t->r.depth) return kn_rd_push(&t->r, n, gate);
    t->value   = n;
    t->r.gated = gate != 0;
    return true;
}

kn_ref kn_tree_hole(tree_reader *t, const char *text, size_t len, const kn_ref *src, uint32_t nsrc) {
    uint32_t id = len ? kg_intern_str(t->r.g, text, len) : 0;
    kn_ref   n  = len && !id ? 0 : kg_make(t->r.g, KN_OP_HOLE, 0, id, src, nsrc);
    if (!n) kn_oom(t->r.f);
    return n;
}

/* A node that stands for itself when it is named again without its sources. */
static bool note_known(tree_reader *t, kn_ref n) {
    int op = kg_op(t->r.g, n);
    if (op != KN_OP_RANGE && op != KN_OP_PARAM && op != KN_OP_BUFFER) return true;
    if (!KN_GROW(kg_alloc(t->r.g), t->known, t->known_cap, t->known_n + 1)) return kn_oom(t->r.f);
    t->known[t->known_n++] = n;
    return true;
}

kn_ref kn_tree_known(const tree_reader *t, int op, int64_t id, int64_t kind) {
    for (size_t i = t->known_n; i--;) {
        kn_ref n = t->known[i];
        if (kg_op(t->r.g, n) != op) continue;
        int64_t is   = kg_field(t->r.g, n, 0); /* RANGE's id, the slot of PARAM and BUFFER */
        int64_t type = kg_field(t->r.g, n, op == KN_OP_RANGE   ? KN_F_RANGE_type
                                           : op == KN_OP_PARAM ? KN_F_PARAM_space
                                                               : KN_F_BUFFER_space);
        if (is == id && (kind < 0 || kind == type)) return n;
    }
    return 0;
}

static bool set_word(tree_reader *t, kn_rd_frame *fr, int field, int64_t v) {
    const int64_t *w = t->r.g->at.words[fr->arg];
    t->r.words_n     = 0;
    for (int64_t i = 0; i < w[-1]; i++)
        if (!kn_rd_push_word(&t->r, i == field ? v : w[i])) return false;
    return (fr->arg = kg_intern_words(t->r.g, t->r.words, (int)t->r.words_n)) || kn_oom(t->r.f);
}

/* What the head said in place of a source. *known: the node that a head without any sources names. */
static bool complete(tree_reader *t, tree_line *l, kn_ref *known, bool *cut) {
    kn_rd_frame *fr = &t->r.frames[t->r.depth - 1];
    kn_graph    *g  = t->r.g;
    size_t       n  = t->r.src_n - fr->base;
    int          op = fr->op;
    bool         by_name = fr->spelling && fr->spelling->how == KN_SPELL_VAR;
    const int64_t *w     = kn_arg_is_words(kn_ops[op].arg) && fr->arg ? g->at.words[fr->arg] : NULL;
    *known = 0;
    *cut   = false;
    if (op == KN_OP_RANGE && !n && !l->ended) {
        *known = kn_tree_known(t, op, w[KN_F_RANGE_id], l->typed ? w[KN_F_RANGE_type] : -1);
    } else if (op == KN_OP_PARAM && !n && !by_name && l->nsize < 0) {
        *known = kn_tree_known(t, op, w[KN_F_PARAM_slot], w[KN_F_PARAM_space]);
    } else if (op == KN_OP_BUFFER && l->nsize < 0 && !l->sized) {
        *known = l->slotted && !n ? kn_tree_known(t, op, w[KN_F_BUFFER_slot], w[KN_F_BUFFER_space]) : 0;
        *cut   = !*known;
    } else if (op == KN_OP_BUFFER) {
        int64_t size = 1;
        for (int i = 0; i < l->nsize; i++)
            if (l->size[i] < 0 || !kn_mul_ok(size, l->size[i], &size))
                return kn_rd_fail(&t->r, l->at, KN_ERR_FORMAT, "the buffer's size is out of range");
        if (l->nsize >= 0 && !l->sized && !set_word(t, fr, KN_F_BUFFER_size, size)) return false;
        if (!l->slotted && !set_word(t, fr, KN_F_BUFFER_slot, t->buffers++)) return false;
    }
    if (*known) return true;
    if (l->ended && (op == KN_OP_RANGE || op == KN_OP_SPECIAL)) {
        if (!n && !kn_rd_push(&t->r, kg_idx(g, l->end), 0)) return false;
        if (n && !kg_is_const(g, t->r.src[fr->base], l->end) && kg_op(g, t->r.src[fr->base]) != KN_OP_HOLE)
            return kn_rd_fail(&t->r, l->at, KN_ERR_FORMAT, "end= is not what hangs below it");
    }
    bool shape = op == KN_OP_PARAM ? !n : (op == KN_OP_RESHAPE || op == KN_OP_EXPAND) && n == 1;
    if (shape && l->nsize >= 0 && !kn_rd_push(&t->r, kg_dims_node(g, l->size, l->nsize), 0)) return false;
    if (l->nsize >= 0 && n == 2 && (op == KN_OP_RESHAPE || op == KN_OP_EXPAND) &&
        kg_dims_node(g, l->size, l->nsize) != t->r.src[fr->base + 1])
        return kn_rd_fail(&t->r, l->at, KN_ERR_FORMAT, "new_shape= is not what hangs below it");
    bool may_have_none = kn_ops[op].lo == 0 && op != KN_OP_STACK;
    if (t->r.src_n == fr->base && !may_have_none && !by_name) {
        kn_ref hole = kn_tree_hole(t, NULL, 0, NULL, 0);
        if (!hole || !kn_rd_push(&t->r, hole, 0)) return false;
    }
    int dtype = -1; /* a type that is written says what the arg left open */
    for (int k = 0; w && kn_arg_field(kn_ops[op].arg, k); k++)
        if (!strcmp(kn_arg_field(kn_ops[op].arg, k)->name, "dtype")) dtype = k;
    return dtype < 0 || l->dtype < 0 || l->typed || set_word(t, fr, dtype, l->dtype);
}

bool kn_tree_check(tree_reader *t, const tree_line *l, kn_ref n) {
    int            rank;
    const int64_t *dims = kg_shape(t->r.g, n, &rank);
    bool           fits = l->dtype < 0 || l->dtype == kg_dtype(t->r.g, n);
    if (kg_op(t->r.g, n) == KN_OP_HOLE) return true;
    if (l->rank >= 0) {
        fits = fits && l->rank == rank;
        for (int i = 0; i < rank && fits; i++) fits = l->dims[i] < 0 ? dims[i] < 0 : l->dims[i] == dims[i];
    }
    if (fits) return true;
    kn_str s;
    kn_str_init(&s, kg_alloc(t->r.g));
    kg_print_node(t->r.g, n, &s);
    const char *type = strrchr(kn_str_c(&s), ':');
    kn_rd_fail(&t->r, l->at, KN_ERR_FORMAT, "the node's type is%.80s", type ? type + 1 : " void");
    kn_str_free(&s);
    return false;
}

/* The node of the innermost frame, or the HOLE that stands for it where a source is left out. */
static kn_ref make_line(tree_reader *t, tree_line *l, bool cut, kn_ref *gate) {
    kn_reader      *r    = &t->r;
    const kn_alloc *a    = kg_alloc(r->g);
    kn_rd_frame    *fr   = &r->frames[r->depth - 1];
    size_t          base = fr->base, n = r->src_n - base;
    bool            hole = cut, gated = false;
    kn_fault        own = {0}, *f = r->f;
    kn_ref         *copy = n ? kn_realloc(a, NULL, 0, n * sizeof *copy) : NULL, made = 0;
    if (n && !copy) return kn_oom(f), 0;
    for (size_t i = 0; i < n; i++) {
        copy[i] = r->src[base + i];
        hole    = hole || kg_op(r->g, copy[i]) == KN_OP_HOLE;
        gated   = gated || r->gate[base + i];
    }
    if (cut) {
        r->src_n = base;
        r->depth--;
        *gate = 0;
    } else {
        r->f = &own;
        made = kn_rd_make(r, gate);
        r->f = f;
        kg_fault(r->g)->code = KN_OK;
    }
    if (!made && hole && !gated && own.code != KN_ERR_MEMORY) {
        *gate = 0;
        made  = kn_tree_hole(t, kn_str_c(&t->heads) + l->head, t->heads.len - l->head, copy, (uint32_t)n);
    } else if (!made) {
        kn_fail(f, own.code ? own.code : KN_ERR_INTERNAL, "%s", own.text);
    }
    kn_free(a, copy, n * sizeof *copy);
    return made;
}

bool kn_tree_close(tree_reader *t) {
    tree_line l = t->lines[t->r.depth - 1];
    kn_ref    n, gate = 0;
    bool      cut;
    if (t->heads.failed) return kn_oom(t->r.f);
    int op = t->r.frames[t->r.depth - 1].op;
    if (!complete(t, &l, &n, &cut)) return false;
    if (n) {
        t->r.src_n = t->r.frames[--t->r.depth].base;
    } else {
        if (!(n = make_line(t, &l, cut, &gate)) || !note_known(t, n)) return false;
        if (kg_op(t->r.g, n) == KN_OP_BUFFER && op == KN_OP_BUFFER && l.nsize >= 0 &&
            !(n = kg_reshape(t->r.g, n, l.size, l.nsize)))
            return kn_rd_fail(&t->r, l.at, KN_ERR_FORMAT, "%s", kg_fault(t->r.g)->text);
    }
    t->heads.len = l.head;
    return kn_tree_check(t, &l, n) && kn_tree_deliver(t, l.label, l.label_len, n, gate);
}

static bool tree_program(tree_reader *t) {
    const char *counted = t->r.text;
    int         line    = 1;
    while (t->r.p < t->r.end) {
        const char *at = t->r.p;
        for (; counted < at; counted++) line += *counted == '\n';
        int depth = tree_depth(t);
        if (depth == -2) return false;
        if (depth >= 0) {
            if ((size_t)depth > t->r.depth)
                return kn_rd_fail(&t->r, t->r.p, KN_ERR_FORMAT, "nothing stands above that this could hang from");
            while (t->r.depth > (size_t)depth)
                if (!kn_tree_close(t)) return false;
            kn_why_line(kg_why(t->r.g), NULL, line);
            if (!kn_tree_head(t)) return false;
            if (!kn_tree_line_ends(t)) return kn_rd_fail(&t->r, t->r.p, KN_ERR_FORMAT, "expected the end of the line");
        }
        while (t->r.p < t->r.end && *t->r.p != '\n') t->r.p++;
        if (t->r.p < t->r.end) t->r.p++;
    }
    while (t->r.depth)
        if (!kn_tree_close(t)) return false;
    if (!t->value)
        return kn_rd_fail(&t->r, t->r.p, KN_ERR_FORMAT, "no tree: a program ends with the one that is its value");
    return !t->r.gated || kn_rd_fail(&t->r, t->r.p, KN_ERR_FORMAT, "a gated INDEX is no value: LOAD it");
}

kn_ref kg_parse_tree(kn_graph *g, const char *text, size_t len, kn_fault *f) {
    tree_reader t     = {.r = {.g = g, .f = f, .text = text, .p = text, .end = text + len}};
    kn_fault    saved = *kg_fault(g);
    if (len > INT32_MAX) return kn_fail(f, KN_ERR_FORMAT, "the program is longer than 2 GiB"), 0;
    kg_fault(g)->code = KN_OK;
    kn_str_init(&t.heads, kg_alloc(g));
    bool ok = tree_program(&t);
    kn_str_free(&t.heads);
    kn_free(kg_alloc(g), t.lines, t.lines_cap * sizeof *t.lines);
    kn_free(kg_alloc(g), t.known, t.known_cap * sizeof *t.known);
    kn_rd_free(&t.r);
    *kg_fault(g) = saved;
    return ok ? t.value : 0;
}

bool kn_text_is_tree(const char *text, size_t len) {
    bool first = true;
    for (const char *p = text, *end = text + len; p < end; p++) {
        const char *line = p;
        while (p < end && *p != '\n') p++;
        while (line < p && (*line == ' ' || *line == '\t' || *line == '\r')) line++;
        if (line == p || *line == '#') continue;
        if (first && *line != '%') return true;
        first = false;
        if (p - line >= 9 && (!memcmp(line, "\xe2\x94\x9c\xe2\x94\x80\xe2\x94\x80", 9) ||
                              !memcmp(line, "\xe2\x94\x94\xe2\x94\x80\xe2\x94\x80", 9)))
            return true;
    }
    return false;
}

kn_ref kg_parse_any(kn_graph *g, const char *text, size_t len, kn_fault *f) {
    return kn_text_is_tree(text, len) ? kg_parse_tree(g, text, len, f) : kg_parse(g, text, len, f);
}
