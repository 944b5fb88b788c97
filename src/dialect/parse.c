/* parse.c - the text form, read.
 *
 * Contract: any bytes give a graph or a fault with line and column, never a crash; nesting is bounded by memory alone.
 * A type that is written is checked against the derived one. A node that kg_make refuses is an error at its statement;
 * the graph's own fault stays as it was, so that a bad text does not poison the graph it was read into.
 *
 *   program   = { [ statement ] newline }           statement = "%" name "=" node [ ":" type ]
 *   node      = OP [ "!" tag ] [ "{" arg "}" ] { operand }
 *   operand   = "%" name | constant | "[" [ operand { "," operand } ] "]" | "(" node [ ":" type ] ")"
 *   constant  = integer | number ":" dtype | "true" | "false"
 *   type      = dtype [ "[" size { "," size } "]" ] with size = integer | "%" name | "?"
 * "#" starts a comment. A newline ends a statement, except inside brackets. The bestiary's spellings are in spell.c. An
 * INDEX whose last source is a bool is a gated one: the gate goes to the LOAD or STORE that uses it. */
#include "dialect/parse.h"
#include "dialect/why.h"

#include <string.h>

/* ---- args ---------------------------------------------------------------------------------------------------- */

static bool one_of(kn_reader *r, const char *const *names, int n, const char *what, int64_t *v) {
    const char *at;
    kn_rd_space(r, true);
    size_t len = kn_rd_word(r, &at);
    for (int i = 0; i < n; i++)
        if (kn_rd_is(at, len, names[i])) {
            *v = i;
            return true;
        }
    return kn_rd_fail(r, at, KN_ERR_FORMAT, "'%.*s' is not %s", kn_rd_clip(len), at, what);
}

static bool read_dtype(kn_reader *r, int64_t *v) {
    const char *at;
    kn_rd_space(r, true);
    size_t len = kn_rd_word(r, &at);
    *v         = kn_rd_dtype_named(at, len);
    return *v >= 0 || kn_rd_fail(r, at, KN_ERR_FORMAT, "'%.*s' is not a dtype", kn_rd_clip(len), at);
}

static bool read_quoted(kn_reader *r, uint32_t *id) {
    kn_rd_space(r, true);
    if (kn_rd_peek(r) != '"') return kn_rd_fail(r, r->p, KN_ERR_FORMAT, "expected a text in double quotes");
    return kn_rd_string(r, id);
}

static bool read_field(kn_reader *r, const kn_field *f, int64_t *v) {
    static const char *const bools[] = {"false", "true"};
    const char              *at;
    uint32_t                 id;
    switch (f->type) {
    case 'i': return kn_rd_int(r, v);
    case 't': return read_dtype(r, v);
    case 'a': return one_of(r, kn_space_names, KN_SPACE_COUNT, "an address space", v);
    case 'x': return one_of(r, kn_axis_names, KN_AXIS_COUNT, "an axis type", v);
    case 'b': return one_of(r, bools, 2, "true or false", v);
    case 's':
        if (!read_quoted(r, &id)) return false;
        *v = id;
        return true;
    default: {
        kn_rd_space(r, true);
        size_t len = kn_rd_word(r, &at);
        *v         = kn_op_by_name(at, len);
        return *v > 0 || kn_rd_fail(r, at, KN_ERR_FORMAT, "'%.*s' is not an op", kn_rd_clip(len), at);
    }
    }
}

bool kn_rd_push_word(kn_reader *r, int64_t v) {
    if (!KN_GROW(kg_alloc(r->g), r->words, r->words_cap, r->words_n + 1)) return kn_oom(r->f);
    r->words[r->words_n++] = v;
    return true;
}

static bool read_list(kn_reader *r) {
    int64_t v;
    if (!kn_rd_expect(r, '(')) return false;
    kn_rd_space(r, true);
    if (kn_rd_peek(r) == ')') {
        r->p++;
        return true;
    }
    for (;;) {
        if (!kn_rd_int(r, &v) || !kn_rd_push_word(r, v)) return false;
        kn_rd_space(r, true);
        if (kn_rd_peek(r) != ',') return kn_rd_expect(r, ')');
        r->p++;
    }
}

/* name=value, ... up to the brace; `present`: there is a brace at all. */
static bool read_words(kn_reader *r, kn_arg_kind kind, const kn_spelling *s, bool present, uint64_t *arg) {
    kn_arg_info info = kn_arg_info_of(kind);
    uint32_t    seen = 0;
    r->words_n       = 0;
    for (int i = 0; i < info.fixed; i++) {
        const kn_field *f = kn_arg_field(kind, i);
        bool            a = s && f->type == 'a' && s->space >= 0, t = s && f->type == 't' && s->dtype >= 0;
        if (!kn_rd_push_word(r, a ? s->space : t ? s->dtype : f->dflt)) return false;
    }
    if (present) kn_rd_space(r, true);
    if (present && kn_rd_peek(r) != '}')
        for (;;) {
            const char *at;
            kn_rd_space(r, true);
            size_t          len = kn_rd_word(r, &at);
            int             k   = 0;
            const kn_field *f;
            while ((f = kn_arg_field(kind, k)) && !kn_rd_is(at, len, f->name)) k++;
            if (!f)
                return kn_rd_fail(r, at, KN_ERR_FORMAT, "'%.*s' is not a field of %s", kn_rd_clip(len), at, info.name);
            if (seen >> k & 1) return kn_rd_fail(r, at, KN_ERR_FORMAT, "%s is given twice", f->name);
            seen |= 1u << k;
            int64_t v = 0;
            if (!kn_rd_expect(r, '=')) return false;
            if (f->type == 'l' ? !read_list(r) : !read_field(r, f, &v)) return false;
            if (f->type != 'l') r->words[k] = v;
            kn_rd_space(r, true);
            if (kn_rd_peek(r) != ',') break;
            r->p++;
        }
    *arg = kg_intern_words(r->g, r->words, (int)r->words_n);
    return *arg || kn_oom(r->f);
}

/* {begin_pads=(1, 0), end_pads=(0, 2)} of PAD, {begins=(1, 0), ends=(3, 2)} of SHRINK: both lists in one run of words.
 */
static bool read_box(kn_reader *r, kn_rd_frame *fr) {
    static const char *const names[2][2] = {{"begin_pads", "end_pads"}, {"begins", "ends"}};
    fr->spelling                         = fr->op == KN_OP_PAD ? &kn_spell_pad : &kn_spell_shrink;
    r->words_n                           = 0;
    for (int k = 0; k < 2; k++) {
        const char *at, *want = names[fr->op == KN_OP_SHRINK][k];
        kn_rd_space(r, true);
        size_t len = kn_rd_word(r, &at);
        if (!kn_rd_is(at, len, want)) return kn_rd_fail(r, at, KN_ERR_FORMAT, "expected %s", want);
        if (!kn_rd_expect(r, '=') || !read_list(r) || (k == 0 && !kn_rd_expect(r, ','))) return false;
    }
    fr->arg = kg_intern_words(r->g, r->words, (int)r->words_n);
    return fr->arg || kn_oom(r->f);
}

static bool read_arg(kn_reader *r, kn_rd_frame *fr, bool present) {
    kn_arg_kind kind = fr->spelling && fr->spelling->arg != KN_ARG_COUNT ? fr->spelling->arg : kn_ops[fr->op].arg;
    const char *at   = r->p;
    int64_t     v    = 0;
    uint32_t    id   = 0;
    fr->arg          = 0;
    if (kn_arg_is_words(kind)) return read_words(r, kind, fr->spelling, present, &fr->arg);
    if (!present) {
        if (kind == KN_ARG_DTYPE)
            return kn_rd_fail(r, at, KN_ERR_FORMAT, "%s needs a dtype, as in {f32}", kn_ops[fr->op].name);
        if (kind == KN_ARG_CONST) return kn_rd_fail(r, at, KN_ERR_FORMAT, "CONST needs a value, as in {2.5:f32}");
        return true;
    }
    switch (kind) {
    case KN_ARG_NONE:
        if (fr->op == KN_OP_PAD || fr->op == KN_OP_SHRINK) return read_box(r, fr);
        return kn_rd_fail(r, at, KN_ERR_FORMAT, "%s takes no arg", kn_ops[fr->op].name);
    case KN_ARG_INT:
        if (!kn_rd_int(r, &v)) return false;
        break;
    case KN_ARG_DTYPE:
        if (!read_dtype(r, &v)) return false;
        break;
    case KN_ARG_CONST: kn_rd_space(r, true); return kn_rd_const(r, &fr->dtype, &fr->arg);
    default:
        if (!read_quoted(r, &id)) return false;
        v = id;
        break;
    }
    fr->arg = (uint64_t)v;
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

bool kn_rd_push(kn_reader *r, kn_ref n, kn_ref gate) {
    if (!KN_GROW(kg_alloc(r->g), r->src, r->src_cap, r->src_n + 1) ||
        !KN_GROW(kg_alloc(r->g), r->gate, r->gate_cap, r->src_n + 1))
        return kn_oom(r->f);
    r->gate[r->src_n]  = gate;
    r->src[r->src_n++] = n;
    return true;
}

kn_rd_frame *kn_rd_open(kn_reader *r, int op, char close) {
    if (!KN_GROW(kg_alloc(r->g), r->frames, r->frames_cap, r->depth + 1)) return kn_oom(r->f), NULL;
    kn_rd_frame *fr = &r->frames[r->depth++];
    *fr            = (kn_rd_frame){.op = op, .base = r->src_n, .close = close, .at = r->p};
    return fr;
}

/* OP !tag {arg}: opens a frame. */
static bool read_head(kn_reader *r, char close) {
    const char *at;
    kn_rd_space(r, true);
    size_t len = kn_rd_word(r, &at);
    int    op  = kn_op_by_name(at, len);

    const kn_spelling *spelling = op < 0 ? kn_spelling_of(at, len) : NULL;
    if (spelling) op = spelling->op;
    if (op <= 0)
        return kn_rd_fail(r, at, KN_ERR_FORMAT, len ? "'%.*s' is not an op" : "expected an op%.*s", kn_rd_clip(len),
                          at);
    kn_rd_frame *fr = kn_rd_open(r, op, close);
    if (!fr) return false;
    fr->at       = at;
    fr->spelling = spelling;
    kn_rd_space(r, close != '\n');
    if (kn_rd_peek(r) == '!') {
        int64_t tag;
        at = r->p++;
        if (!kn_rd_int(r, &tag)) return false;
        if (tag < 0 || tag > UINT16_MAX) return kn_rd_fail(r, at, KN_ERR_FORMAT, "a tag is 0 to 65535");
        fr->tag = (uint16_t)tag;
        kn_rd_space(r, close != '\n');
    }
    bool present = r->p < r->end && *r->p == '{';
    if (present) r->p++;
    if (!read_arg(r, fr, present)) return false;
    return !present || kn_rd_expect(r, '}');
}

/* Takes the gate of a gated INDEX among the frame's sources to where the dialect has it. *gate: of the node to be made,
 * if that is a gated INDEX itself. False: it is used otherwise. */
static bool move_gate(kn_reader *r, kn_rd_frame *fr, kn_ref *gate) {
    size_t n = r->src_n - fr->base;
    *gate    = 0;
    if (fr->op == KN_OP_INDEX && n >= 3 && kg_dtype(r->g, r->src[r->src_n - 1]) == KN_BOOL) *gate = r->src[--r->src_n];
    for (size_t i = fr->base; i < r->src_n; i++) {
        kn_ref at = r->gate[i], x = r->src[i];
        if (!at) continue;
        r->gate[i] = 0;
        bool first = i == fr->base, last = i + 1 == r->src_n; /* LOAD(buffer, index) repeats the buffer */
        if (fr->op == KN_OP_LOAD && last && n <= 2) {
            int    dt        = kg_dtype(r->g, x);
            kn_ref zero      = kn_is_float(dt) ? kg_float(r->g, dt, 0) : kg_int(r->g, dt, 0);
            r->src[fr->base] = x;
            r->src_n         = fr->base + 1;
            if (!kn_rd_push(r, zero, 0) || !kn_rd_push(r, at, 0)) return false;
            return true;
        }
        if (fr->op == KN_OP_STORE && first && n == 2) return kn_rd_push(r, at, 0);
        if (fr->op == KN_OP_STORE && i == fr->base + 1 && n >= 3) { /* (buffer, index, value, ranges...) */
            kn_ref *s = r->src + fr->base, store[3] = {x, s[2], at};
            if (n == 3) {
                memcpy(s, store, sizeof store);
                return true;
            }
            s[0] = kg_make_tag(r->g, fr->op, 0, fr->tag, fr->arg, store, 3);
            memmove(s + 1, s + 3, (n - 3) * sizeof *s);
            memmove(r->gate + i, r->gate + i + 2, (n - 3) * sizeof *r->gate);
            r->src_n -= 2;
            fr->op  = KN_OP_END;
            fr->tag = 0;
            fr->arg = 0;
            return true;
        }
        return kn_rd_fail(r, fr->at, KN_ERR_FORMAT, "a gated INDEX is read by LOAD or written by STORE, nothing else");
    }
    return true;
}

/* Closes the innermost frame; its node. */
kn_ref kn_rd_make(kn_reader *r, kn_ref *gate) {
    kn_rd_frame *fr = &r->frames[r->depth - 1];
    kn_fault   *gf = kg_fault(r->g);
    kn_ref      n  = 0;
    if (move_gate(r, fr, gate)) {
        uint32_t k = (uint32_t)(r->src_n - fr->base);
        n = kn_spell_node(r->g, fr->spelling, fr->op, fr->dtype, fr->tag, fr->arg, k ? r->src + fr->base : NULL, k);
    }
    if (!n)
        kn_rd_fail(r, fr->at, gf->code ? gf->code : KN_ERR_INTERNAL, "%s",
                    gf->code ? gf->text : "the node was refused");
    r->src_n = fr->base;
    r->depth--;
    return n;
}

/* ": type", of node n. */
static bool check_type(kn_reader *r, kn_ref n) {
    const char *at = r->p++;
    int64_t     dt, v;
    int         rank, k = 0;
    if (!read_dtype(r, &dt)) return false;
    const int64_t *dims = kg_shape(r->g, n, &rank);
    bool           fits = dt == kg_dtype(r->g, n);
    if (kn_rd_peek(r) == '[') {
        r->p++;
        for (;; r->p++, k++) {
            kn_rd_space(r, true);
            if (kn_rd_peek(r) == ']' && k == 0) break;
            if (kn_rd_peek(r) == '?') {
                r->p++;
                fits = fits && k < rank && dims[k] < 0;
            } else if (kn_rd_peek(r) == '%') {
                kn_ref s, gate;
                if (!kn_rd_name(r, &s, &gate)) return false;
                fits = fits && k < rank && dims[k] == -(int64_t)s;
            } else {
                if (!kn_rd_int(r, &v)) return false;
                fits = fits && k < rank && dims[k] == v;
            }
            kn_rd_space(r, true);
            if (kn_rd_peek(r) != ',') {
                k++;
                break;
            }
        }
        if (!kn_rd_expect(r, ']')) return false;
    }
    if (fits && k == rank) return true;
    kn_str s;
    kn_str_init(&s, kg_alloc(r->g));
    kg_print_node(r->g, n, &s);
    const char *type = strrchr(kn_str_c(&s), ':');
    kn_rd_fail(r, at, KN_ERR_FORMAT, "the node's type is%.80s", type ? type + 1 : " void");
    kn_str_free(&s);
    return false;
}

/* The operands of the frames above and including a statement's; its node. */
static kn_ref read_operands(kn_reader *r, kn_ref *out_gate) {
    while (r->depth) {
        kn_rd_frame *fr     = &r->frames[r->depth - 1];
        bool        nested = fr->close != '\n';
        kn_rd_space(r, nested);
        char   c = kn_rd_peek(r);
        kn_ref n = 0, gate = 0;
        if (r->p >= r->end && nested) {
            kn_rd_fail(r, fr->at, KN_ERR_FORMAT, "no '%c' closes this", fr->close);
            return 0;
        }
        if (c == fr->close || (c == ':' && fr->close != ']')) {
            if (fr->close == ']' && !fr->comma && r->src_n > fr->base) {
                kn_rd_fail(r, r->p, KN_ERR_FORMAT, "expected an entry after the comma");
                return 0;
            }
            char close = fr->close;
            if (!(n = kn_rd_make(r, &gate))) return 0;
            if (c == ':' && !check_type(r, n)) return 0;
            kn_rd_space(r, nested);
            if (kn_rd_peek(r) != close) {
                kn_rd_fail(r, r->p, KN_ERR_FORMAT, close == '\n' ? "expected the end of the line" : "expected '%c'",
                            close);
                return 0;
            }
            if (!r->depth) {
                *out_gate = gate;
                return n;
            }
            r->p++;
            fr = &r->frames[r->depth - 1];
        } else if (fr->close == ']' && fr->comma) {
            if (c != ',') {
                kn_rd_fail(r, r->p, KN_ERR_FORMAT, "expected ',' or ']'");
                return 0;
            }
            r->p++;
            fr->comma = false;
            continue;
        } else if (c == '%') {
            if (!kn_rd_name(r, &n, &gate)) return 0;
        } else if (c == '[') {
            if (!kn_rd_open(r, KN_OP_STACK, ']')) return 0;
            r->p++;
            continue;
        } else if (c == '(') {
            r->p++;
            if (!read_head(r, ')')) return 0;
            continue;
        } else {
            int         dt;
            uint64_t    bits;
            const char *at = r->p;
            if (!kn_rd_const(r, &dt, &bits)) return 0;
            n = kg_make(r->g, KN_OP_CONST, dt, bits, NULL, 0);
            if (!n) {
                kn_rd_fail(r, at, kg_fault(r->g)->code, "%s", kg_fault(r->g)->text);
                return 0;
            }
        }
        if (!kn_rd_push(r, n, gate)) return 0;
        fr->comma = true;
    }
    return 0;
}

static kn_ref read_statement(kn_reader *r) {
    const char *percent = r->p, *name;
    if (kn_rd_peek(r) != '%') {
        kn_rd_fail(r, r->p, KN_ERR_FORMAT, "expected a statement, as in %%1 = ADD %%2 %%3");
        return 0;
    }
    r->p++;
    size_t len = kn_rd_word(r, &name);
    if (!len) {
        kn_rd_fail(r, percent, KN_ERR_FORMAT, "expected a name after '%%'");
        return 0;
    }
    if (kn_rd_find(r, name, len)) {
        kn_rd_fail(r, percent, KN_ERR_FORMAT, "%%%.*s is defined twice", kn_rd_clip(len), name);
        return 0;
    }
    kn_ref gate = 0, n = kn_rd_expect(r, '=') && read_head(r, '\n') ? read_operands(r, &gate) : 0;
    r->gated = gate != 0;
    return n && kn_rd_add(r, name, len, n, gate) ? n : 0;
}

kn_ref kg_parse(kn_graph *g, const char *text, size_t len, kn_fault *f) {
    kn_reader   r       = {.g = g, .f = f, .text = text, .p = text, .end = text + len};
    const char *counted = text;
    int         line    = 1; /* of `counted` */
    kn_fault    saved   = *kg_fault(g);
    kn_ref      n       = 0;
    if (len > INT32_MAX) return kn_fail(f, KN_ERR_FORMAT, "the program is longer than 2 GiB"), 0;
    kg_fault(g)->code = KN_OK;
    for (;;) {
        kn_rd_space(&r, true);
        if (r.p >= r.end) {
            if (!n) kn_rd_fail(&r, r.p, KN_ERR_FORMAT, "no statement: a program ends with the one that is its value");
            if (n && r.gated) n = 0, kn_rd_fail(&r, r.p, KN_ERR_FORMAT, "a gated INDEX is no value: LOAD it");
            break;
        }
        for (; counted < r.p; counted++) line += *counted == '\n';
        kn_why_line(kg_why(g), NULL, line);
        if (!(n = read_statement(&r))) break;
    }
    kn_rd_free(&r);
    *kg_fault(g) = saved;
    return n;
}
