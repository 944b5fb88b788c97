/* tree_head.c - a line of the tree form: label, op, what stands in parentheses and brackets, type. Fields go into the
 * arg or the line, `...` and names that nothing defines become HOLEs among the sources. */
#include "dialect/tree_line.h"

#include <math.h>
#include <string.h>

enum { TREE_FIXED = 16 };

/* The arg of the head being read. */
typedef struct tree_arg {
    kn_arg_kind kind;
    bool        words, box, given;
    int         fixed;
    int64_t     word[TREE_FIXED];
    uint64_t    value; /* of an inline kind */
} tree_arg;

static bool head_fail(tree_reader *t, const char *at, const char *what) {
    return kn_rd_fail(&t->r, at, KN_ERR_FORMAT, "%s", what);
}

/* Whether a word is this name, letters of either case and without underscores. */
static bool same_name(const char *at, size_t len, const char *name) {
    size_t i = 0;
    for (;; name++) {
        while (*name == '_') name++;
        while (i < len && at[i] == '_') i++;
        if (!*name || i == len) return !*name && i == len;
        char a = at[i++], b = *name;
        if ((a >= 'A' && a <= 'Z' ? a + 32 : a) != (b >= 'A' && b <= 'Z' ? b + 32 : b)) return false;
    }
}

static int named_one_of(const char *const *names, int n, const char *at, size_t len) {
    for (int i = 0; i < n; i++)
        if (same_name(at, len, names[i])) return i;
    return -1;
}

static int op_named(const char *at, size_t len) {
    int op = kn_op_by_name(at, len);
    for (int i = 1; i < KN_OP_COUNT && op < 0; i++)
        if (same_name(at, len, kn_ops[i].name) || same_name(at, len, kn_op_spelling(i))) op = i;
    return op;
}

/* R3, or U3 before the kernels are split; -1: it is no axis. */
static int64_t axis_named(const char *at, size_t len) {
    int64_t v = 0;
    if (len < 2 || len > 18 || (*at != 'R' && *at != 'U')) return -1;
    for (size_t i = 1; i < len; i++) {
        if (at[i] < '0' || at[i] > '9') return -1;
        v = v * 10 + (at[i] - '0');
    }
    return v;
}

static char head_peek(tree_reader *t) {
    kn_tree_blank(t);
    return kn_rd_peek(&t->r);
}

static bool head_expect(tree_reader *t, char c) {
    char what[] = "expected ' '";
    what[10]    = c;
    if (head_peek(t) != c) return head_fail(t, t->r.p, what);
    t->r.p++;
    return true;
}

static bool head_int(tree_reader *t, int64_t *v) {
    char        c = head_peek(t);
    const char *at;
    if (c == '-' || (c >= '0' && c <= '9')) return kn_rd_int(&t->r, v);
    size_t len = kn_rd_word(&t->r, &at);
    *v         = kn_rd_is(at, len, "true");
    return *v || kn_rd_is(at, len, "false") || head_fail(t, at, "expected an integer");
}

/* [1, 2], (1, 2) or [(0, 4), (1, 2)], flat, behind what is in r.words. */
static bool head_list(tree_reader *t) {
    int depth = 0;
    do {
        char    c = head_peek(t);
        int64_t v;
        if (c == '[' || c == '(') {
            depth++;
            t->r.p++;
        } else if (depth && (c == ']' || c == ')')) {
            depth--;
            t->r.p++;
        } else if (depth && c == ',') {
            t->r.p++;
        } else if (!depth) {
            return head_fail(t, t->r.p, "expected a list, as in [0, 1]");
        } else if (!head_int(t, &v) || !kn_rd_push_word(&t->r, v)) {
            return false;
        }
    } while (depth);
    return true;
}

static bool head_dims(tree_reader *t, int64_t *dims, int *n, bool unknown) {
    if (!head_expect(t, '[')) return false;
    for (*n = 0; head_peek(t) != ']';) {
        if (*n && !head_expect(t, ',')) return false;
        if (*n == KN_MAX_RANK) return head_fail(t, t->r.p, "too many dimensions");
        if (unknown && head_peek(t) == '?') {
            t->r.p++;
            dims[*n] = -1;
        } else if (!head_int(t, &dims[*n])) {
            return false;
        } else if (dims[*n] < 0) {
            return head_fail(t, t->r.p, "a size is negative");
        }
        ++*n;
    }
    t->r.p++;
    return true;
}

/* ": type": <4 x Float32>, Float32[2, 3], or Float32 of any shape; Shape of shapes. */
static bool head_type(tree_reader *t, tree_line *l) {
    const char *at;
    l->dtype = l->rank = -1;
    if (head_peek(t) != ':') return true;
    t->r.p++;
    bool vector = head_peek(t) == '<';
    if (vector) {
        t->r.p++;
        if (!head_int(t, &l->dims[0])) return false;
        kn_tree_blank(t);
        if (kn_rd_word(&t->r, &at) != 1 || *at != 'x') return head_fail(t, at, "expected x, as in <4 x Float32>");
        l->rank = 1;
    }
    kn_tree_blank(t);
    size_t len = kn_rd_word(&t->r, &at);
    l->dtype   = kn_rd_is(at, len, "Shape") && !vector ? -2 : kn_rd_dtype_named(at, len);
    if (l->dtype == -1)
        return kn_rd_fail(&t->r, at, KN_ERR_FORMAT, "'%.*s' is not a dtype", kn_rd_clip(len), at);
    if (vector) return head_expect(t, '>');
    return head_peek(t) != '[' || head_dims(t, l->dims, &l->rank, true);
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

/* "1.0", "[1, 2]" of CONST and VCONST: the numbers follow from the type, which stands behind them. */
static bool head_const(tree_reader *t, tree_line *l, uint16_t tag, kn_ref *n) {
    kn_reader  *r = &t->r;
    const char *open, *behind;
    size_t      base = r->src_n;
    bool        list;
    if (!head_expect(t, '(')) return false;
    open = r->p;
    for (int depth = 1; depth; r->p++) {
        if (r->p >= r->end || *r->p == '\n') return head_fail(t, open, "no ')' closes this");
        depth += (*r->p == '(') - (*r->p == ')');
    }
    if (!head_type(t, l)) return false;
    behind = r->p;
    r->p   = open;
    list   = head_peek(t) == '[';
    int over = r->depth ? r->frames[r->depth - 1].op : 0, dtype = l->dtype;
    if (dtype == -1 && over == KN_OP_STACK) dtype = t->lines[r->depth - 1].dtype;
    if (list) r->p++;
    while (head_peek(t) != (list ? ']' : ')')) {
        char        text[64];
        const char *at;
        uint64_t    bits;
        if (list && r->src_n > base && !head_expect(t, ',')) return false;
        kn_tree_blank(t);
        if (!kn_rd_number(r, &at, text, sizeof text)) return head_fail(t, at, "expected a number");
        bool whole = kn_rd_is_integer(text), truth = !strcmp(text, "true") || !strcmp(text, "false");
        int  dt    = dtype >= 0 ? dtype : dtype == -2 || whole ? KN_INDEX : truth ? KN_BOOL : KN_F32;
        if (dt == KN_VOID) return head_fail(t, at, "a constant has a value");
        if (dt == KN_BOOL && truth)
            bits = text[0] == 't';
        else if (kn_is_float(dt) && !strcmp(text, "nan") && kn_rd_peek(r) == '(') {
            if (!kn_rd_nan(r, at, &bits)) return false;
        } else if (kn_is_float(dt)) {
            if (!kn_rd_float(r, at, text, dt, &bits)) return false;
        } else if (!whole) {
            return kn_rd_fail(r, at, KN_ERR_FORMAT, "'%s' is not an integer", text);
        } else if (!kn_rd_integer(r, at, text, dt, &bits)) {
            return false;
        }
        kn_ref c = kg_make_tag(r->g, KN_OP_CONST, dt, list ? 0 : tag, bits, NULL, 0);
        if (!c) return kn_oom(r->f);
        if (!kn_rd_push(r, c, 0)) return false;
        if (!list && head_peek(t) != ')') return head_fail(t, r->p, "expected ')'");
    }
    size_t count = r->src_n - base;
    if (!list && count != 1) return head_fail(t, open, "expected a number");
    if (list) {
        r->p++;
        if (!head_expect(t, ')')) return false;
    }
    *n       = list ? kg_list(r->g, KN_OP_STACK, count ? r->src + base : NULL, (int)count) : r->src[base];
    r->src_n = base;
    r->p     = behind;
    return *n || kn_rd_fail(r, l->at, KN_ERR_FORMAT, "%s", kg_fault(r->g)->text);
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static bool head_value(tree_reader *t, const kn_field *f, int64_t *v) {
    const char *at;
    uint32_t    id;
    kn_tree_blank(t);
    if (f->type == 'i' && axis_named(t->r.p, (size_t)KN_MIN(t->r.end - t->r.p, 2)) >= 0) {
        size_t len = kn_rd_word(&t->r, &at);
        *v         = axis_named(at, len);
        return *v >= 0 || head_fail(t, at, "expected an axis, as in R0");
    }
    if (f->type == 'i' || f->type == 'b') return head_int(t, v);
    if (f->type == 's') {
        if (kn_rd_peek(&t->r) != '"') return head_fail(t, t->r.p, "expected a text in double quotes");
        if (!kn_rd_string(&t->r, &id)) return false;
        *v = id;
        return true;
    }
    size_t len = kn_rd_word(&t->r, &at);
    *v         = f->type == 't'   ? kn_rd_dtype_named(at, len)
                 : f->type == 'a' ? named_one_of(kn_space_names, KN_SPACE_COUNT, at, len)
                 : f->type == 'x' ? named_one_of(kn_axis_names, KN_AXIS_COUNT, at, len)
                                  : op_named(at, len);
    return *v >= 0 || kn_rd_fail(&t->r, at, KN_ERR_FORMAT, "'%.*s' is not a value of %s", kn_rd_clip(len), at, f->name);
}

static bool head_word(tree_reader *t, tree_arg *a, tree_line *l, int k) {
    const kn_field *f = kn_arg_field(a->kind, k);
    if (!head_value(t, f, &a->word[k])) return false;
    l->typed   = l->typed || f->type == 'x' || !strcmp(f->name, "dtype");
    l->slotted = l->slotted || !strcmp(f->name, "slot");
    l->sized   = l->sized || !strcmp(f->name, "size");
    return true;
}

/* name=value. */
static bool head_field(tree_reader *t, tree_arg *a, tree_line *l, int op, const char *at, size_t len) {
    static const struct {
        const char *theirs, *ours;
        int         op;
    } other[] = {{"axis_id", "id", KN_OP_RANGE},           {"unique", "slot", KN_OP_BUFFER},
                 {"addrspace", "space", 0},                {"reduce_op", "op", 0},
                 {"device", "devices", KN_OP_ALLREDUCE},   {"unroll_axes", "axes", KN_OP_RESHAPE},
                 {"upcast_ranges", "axes", KN_OP_RESHAPE}};
    for (int i = 0; i < KN_COUNT(other); i++)
        if (kn_rd_is(at, len, other[i].theirs) && (!other[i].op || other[i].op == op))
            at = other[i].ours, len = strlen(at);
    if (kn_rd_is(at, len, "opts") && op == KN_OP_BUFFERIZE) {
        if (!head_expect(t, '{')) return false;
        while (head_peek(t) != '}') {
            const char *name;
            size_t      n = kn_rd_word(&t->r, &name);
            if (kn_rd_is(name, n, "opts")) return head_fail(t, name, "opts within opts");
            if (!head_expect(t, '=') || !head_field(t, a, l, op, name, n)) return false;
            if (head_peek(t) == ',') t->r.p++;
        }
        t->r.p++;
        return true;
    }
    if (kn_rd_is(at, len, "end") && (op == KN_OP_RANGE || op == KN_OP_SPECIAL))
        return l->ended = true, head_int(t, &l->end);
    if (kn_rd_is(at, len, "new_shape") && (op == KN_OP_RESHAPE || op == KN_OP_EXPAND))
        return head_dims(t, l->size, &l->nsize, false);
    if (kn_rd_is(at, len, "name") && op == KN_OP_SPECIAL) {
        uint32_t id;
        if (head_peek(t) != '"') return head_fail(t, t->r.p, "expected a text in double quotes");
        return kn_rd_string(&t->r, &id) && (a->value = id);
    }
    if (kn_rd_is(at, len, "streaming") && op == KN_OP_STORE) return head_int(t, (int64_t *)&a->value);
    if (op == KN_OP_WMMA && kn_rd_is(at, len, "dims")) {
        size_t was = t->r.words_n;
        if (!head_list(t)) return false;
        if (t->r.words_n - was != 3) return head_fail(t, at, "dims are (N, M, K)");
        memcpy(a->word + KN_F_WMMA_n, t->r.words + was, 3 * sizeof *a->word);
        t->r.words_n = was;
        return true;
    }
    if (op == KN_OP_WMMA && (kn_rd_is(at, len, "upcast_axes") || kn_rd_is(at, len, "reduce_axes"))) {
        size_t was = t->r.words_n;
        bool   up  = *at == 'u';
        if (up && was) return head_fail(t, at, "upcast_axes stand before reduce_axes");
        if (!was && !kn_rd_push_word(&t->r, 0)) return false;
        if (!head_list(t)) return false;
        if (up) t->r.words[0] = (int64_t)(t->r.words_n - 1) / 2;
        return true;
    }
    if (op == KN_OP_PAD || op == KN_OP_SHRINK) {
        static const char *const names[2][2] = {{"begin_pads", "end_pads"}, {"begins", "ends"}};
        int                      k           = t->r.words_n > 0;
        if (!kn_rd_is(at, len, names[op == KN_OP_SHRINK][k]))
            return kn_rd_fail(&t->r, at, KN_ERR_FORMAT, "expected %s", names[op == KN_OP_SHRINK][k]);
        a->box = true;
        return head_list(t);
    }
    for (int k = 0; a->words && k < a->fixed; k++)
        if (kn_rd_is(at, len, kn_arg_field(a->kind, k)->name)) return head_word(t, a, l, k);
    const kn_field *list = a->words ? kn_arg_field(a->kind, a->fixed) : NULL;
    if (list && kn_rd_is(at, len, list->name)) return head_list(t);
    return kn_rd_fail(&t->r, at, KN_ERR_FORMAT, "'%.*s' is not a field of %s", kn_rd_clip(len), at, kn_ops[op].name);
}

/* A source that stands in the head: a label, a number, an axis, or a name for what is left out. */
static bool head_source(tree_reader *t) {
    kn_ref      n = 0, gate = 0;
    const char *at;
    char        c = head_peek(t);
    if (c == '%') {
        if (!kn_rd_name(&t->r, &n, &gate)) return false;
        return kn_rd_push(&t->r, n, gate);
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        int64_t v;
        return kn_rd_int(&t->r, &v) && kn_rd_push(&t->r, kg_idx(t->r.g, v), 0);
    }
    size_t len = kn_rd_word(&t->r, &at); /* dots are of a word */
    if (!len) return head_fail(t, at, "unexpected character");
    if (axis_named(at, len) >= 0) n = kn_tree_known(t, KN_OP_RANGE, axis_named(at, len), -1);
    if (!n) n = kn_tree_hole(t, at, kn_rd_is(at, len, "...") ? 0 : len, NULL, 0);
    return n && kn_rd_push(&t->r, n, 0);
}

/* What stands in the parentheses without a name. *source: it is a source, no part of the head. */
static bool head_place(tree_reader *t, tree_arg *a, tree_line *l, int op, bool *source) {
    kn_reader  *r = &t->r;
    const char *p = r->p, *at;
    uint32_t    id;
    char        c = head_peek(t);
    *source       = false;
    if (c == '"' && a->kind == KN_ARG_STR) {
        if (!kn_rd_string(r, &id)) return false;
        a->value = id;
        return true;
    }
    bool number = c == '-' || (c >= '0' && c <= '9');
    if (number && a->kind == KN_ARG_INT) return head_int(t, (int64_t *)&a->value);
    if (number && (op == KN_OP_PARAM || op == KN_OP_BUFFER)) return head_word(t, a, l, 0);
    if (c == '[' && a->words && kn_arg_field(a->kind, a->fixed)) return head_list(t);
    size_t len = kn_rd_word(r, &at);
    r->p       = p;
    if (len && a->kind == KN_ARG_DTYPE) {
        int64_t dt;
        if (!head_value(t, &(kn_field){"the op", 't', 0}, &dt)) return false;
        a->value = (uint64_t)dt;
        a->given = true;
        return true;
    }
    if (!kn_rd_is(at, len, "...") && len) {
        if (op == KN_OP_REDUCE || op == KN_OP_ALLREDUCE) return head_word(t, a, l, 0);
        if (op == KN_OP_RANGE) return head_word(t, a, l, axis_named(at, len) >= 0 ? KN_F_RANGE_id : KN_F_RANGE_type);
    }
    *source = true;
    return head_source(t);
}

static bool head_parens(tree_reader *t, tree_arg *a, tree_line *l, int op) {
    kn_reader *r    = &t->r;
    bool       some = false;
    r->p++;
    while (head_peek(t) != ')') {
        const char *at, *from = r->p;
        bool        source;
        size_t      len = kn_rd_word(r, &at);
        if (len && head_peek(t) == '=') {
            r->p++;
            source = false;
            if (!head_field(t, a, l, op, at, len)) return false;
        } else {
            r->p = from;
            if (!head_place(t, a, l, op, &source)) return false;
        }
        if (!source) { /* the head as it reads without its sources */
            kn_str_puts(&t->heads, some ? ", " : "(");
            kn_str_add(&t->heads, from, (size_t)(r->p - from));
            some = true;
        }
        if (head_peek(t) == ')') break;
        if (!head_expect(t, ',')) return false;
    }
    r->p++;
    if (some) kn_str_puts(&t->heads, ")");
    return true;
}

/* [R0, R1] of an INDEX: into the buffer of the LOAD or STORE above, which they repeat. */
static bool head_indices(tree_reader *t) {
    kn_reader *r = &t->r;
    kn_ref     n = 0;
    if (r->depth > 1) {
        const kn_rd_frame *over = &r->frames[r->depth - 2];
        if ((over->op == KN_OP_LOAD || over->op == KN_OP_STORE) && r->frames[r->depth - 1].base > over->base)
            n = r->src[over->base];
    }
    if (!n && !(n = kn_tree_hole(t, NULL, 0, NULL, 0))) return false;
    if (!kn_rd_push(r, n, 0)) return false;
    r->p++;
    while (head_peek(t) != ']') {
        if (!head_source(t)) return false;
        if (head_peek(t) == ']') break;
        if (!head_expect(t, ',')) return false;
    }
    r->p++;
    return true;
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

/* Words that are no op: a name for what is left out. Names in capitals alone are ops that there are not. */
static bool head_words(tree_reader *t, const char *label, size_t label_len, const char *at, size_t len) {
    kn_reader *r     = &t->r;
    bool       small = axis_named(at, len) >= 0;
    r->p             = at;
    while (!kn_tree_line_ends(t)) {
        small = small || (*r->p >= 'a' && *r->p <= 'z') || *r->p == ':';
        r->p++;
    }
    const char *end = r->p;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) end--;
    if (!len || !small)
        return kn_rd_fail(r, at, KN_ERR_FORMAT, len ? "'%.*s' is not an op" : "expected an op%.*s", kn_rd_clip(len),
                          at);
    kn_ref n = axis_named(at, (size_t)(end - at)) >= 0
                   ? kn_tree_known(t, KN_OP_RANGE, axis_named(at, (size_t)(end - at)), -1)
                   : 0;
    if (!n) n = kn_tree_hole(t, at, (size_t)(end - at), NULL, 0);
    return n && kn_tree_deliver(t, label, label_len, n, 0);
}

static bool head_tag(tree_reader *t, kn_rd_frame *fr) {
    int64_t     tag;
    const char *at = t->r.p;
    t->r.p++;
    if (!head_int(t, &tag)) return false;
    if (tag < 0 || tag > UINT16_MAX) return head_fail(t, at, "a tag is 0 to 65535");
    fr->tag = (uint16_t)tag;
    return true;
}

static bool open_line(tree_reader *t, const tree_line *l, int op, const kn_spelling *s) {
    kn_rd_frame *fr = kn_rd_open(&t->r, op, 0);
    if (!fr) return false;
    fr->at       = l->at;
    fr->spelling = s;
    if (!KN_GROW(kg_alloc(t->r.g), t->lines, t->lines_cap, t->r.depth)) return kn_oom(t->r.f);
    return true;
}

/* The op's name is read: the rest of the line. */
static bool head_op(tree_reader *t, tree_line *l, int op, const kn_spelling *s) {
    kn_reader *r = &t->r;
    tree_arg   a = {.kind = s && s->arg != KN_ARG_COUNT ? s->arg : kn_ops[op].arg};
    if (!open_line(t, l, op, s)) return false;
    a.words      = kn_arg_is_words(a.kind);
    a.fixed      = a.words ? kn_arg_info_of(a.kind).fixed : 0;
    r->words_n   = 0;
    l->nsize     = -1;
    for (int k = 0; k < a.fixed; k++) {
        const kn_field *f = kn_arg_field(a.kind, k);
        bool space = s && f->type == 'a' && s->space >= 0, dtype = s && f->type == 't' && s->dtype >= 0;
        a.word[k]  = space ? s->space : dtype ? s->dtype : f->dflt;
    }
    if (kn_rd_peek(r) == '!' && !head_tag(t, &r->frames[r->depth - 1])) return false;
    if (kn_rd_peek(r) == '(' && !head_parens(t, &a, l, op)) return false;
    if (kn_rd_peek(r) == '[') {
        const char *from = r->p;
        if (op == KN_OP_INDEX && !s) {
            if (!head_indices(t)) return false;
        } else if (op != KN_OP_PARAM && op != KN_OP_BUFFER) {
            return head_fail(t, from, "only INDEX, BUFFER and what they read are followed by a list");
        } else if (!head_dims(t, l->size, &l->nsize, false)) {
            return false;
        }
        if (op != KN_OP_INDEX) kn_str_add(&t->heads, from, (size_t)(r->p - from));
    }
    kn_tree_blank(t);
    const char *type = r->p;
    if (!head_type(t, l)) return false;
    if (r->p > type) {
        kn_str_puts(&t->heads, " ");
        kn_str_add(&t->heads, type, (size_t)(r->p - type));
    }
    kn_rd_frame *fr = &r->frames[r->depth - 1];
    if (a.kind == KN_ARG_DTYPE && !a.given && l->dtype > KN_VOID) a.value = (uint64_t)l->dtype, a.given = true;
    if (a.kind == KN_ARG_DTYPE && !a.given) return head_fail(t, l->at, "needs a dtype, as in CAST(Float32)");
    fr->arg = a.value;
    if (a.box) {
        fr->spelling = op == KN_OP_PAD ? &kn_spell_pad : &kn_spell_shrink;
        fr->arg      = kg_intern_words(r->g, r->words, (int)r->words_n);
    } else if (a.words) {
        size_t n = r->words_n;
        for (int k = 0; k < a.fixed; k++)
            if (!kn_rd_push_word(r, 0)) return false;
        if (n && a.fixed) memmove(r->words + a.fixed, r->words, n * sizeof *r->words);
        if (a.fixed) memcpy(r->words, a.word, (size_t)a.fixed * sizeof *r->words);
        fr->arg = kg_intern_words(r->g, r->words, (int)r->words_n);
    }
    if ((a.box || a.words) && !fr->arg) return kn_oom(r->f);
    t->lines[r->depth - 1] = *l;
    return true;
}

bool kn_tree_head(tree_reader *t) {
    kn_reader  *r = &t->r;
    const char *at;
    tree_line   l = {.head = t->heads.len, .dtype = -1, .rank = -1, .nsize = -1};
    if (head_peek(t) == '%') {
        const char *percent = r->p++;
        size_t      len     = kn_rd_word(r, &at);
        if (head_peek(t) != '=') { /* a node named before */
            kn_ref n, gate;
            r->p = percent;
            return kn_rd_name(r, &n, &gate) && kn_tree_deliver(t, NULL, 0, n, gate);
        }
        if (!len) return head_fail(t, percent, "expected a name after '%'");
        l.label     = at;
        l.label_len = len;
        r->p++;
        kn_tree_blank(t);
    }
    l.at       = r->p;
    size_t len = kn_rd_word(r, &at);
    if (kn_rd_is(at, len, "...")) {
        kn_ref n = kn_tree_hole(t, NULL, 0, NULL, 0);
        return n && kn_tree_deliver(t, l.label, l.label_len, n, 0);
    }
    int                op = kn_op_by_name(at, len);
    const kn_spelling *s  = op < 0 ? kn_spelling_of(at, len) : NULL;
    if (s) op = s->op;
    if (op <= 0) return head_words(t, l.label, l.label_len, at, len);
    if (op == KN_OP_CONST && !(s && s->how == KN_SPELL_UNIQUE)) goto constant;
    if (s && kn_rd_is(at, len, "VCONST")) goto constant;
    kn_str_add(&t->heads, at, len);
    return head_op(t, &l, op, s);
constant:;
    kn_ref      n   = 0;
    kn_rd_frame own = {0};
    if (kn_rd_peek(r) == '!' && !head_tag(t, &own)) return false;
    return head_const(t, &l, own.tag, &n) && kn_tree_check(t, &l, n) && kn_tree_deliver(t, l.label, l.label_len, n, 0);
}
