/* print.c - the text form, written: one line a node, in ascending ids; constants and shapes stand inline.
 *
 * Contract: kg_parse of what kg_print wrote makes the same graph, and printing that gives the same text. Every fact of
 * a node that its interning compares is in the text: op, tag, arg, sources, and of a CONST the dtype and the bits.
 * Needs nothing but the tables of ops.def and args.def. Failed allocations show as out->failed. */
#include "dialect/print.h"
#include "dialect/why.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void kn_print_text(const kn_graph *g, uint32_t id, kn_str *out) {
    size_t      len;
    const char *s = kg_str(g, id, &len);
    kn_str_puts(out, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            kn_str_putf(out, "\\%c", c);
        else if (c == '\n')
            kn_str_puts(out, "\\n");
        else if (c == '\t')
            kn_str_puts(out, "\\t");
        else if (c < 32 || c >= 127)
            kn_str_putf(out, "\\x%02x", c);
        else
            kn_str_add(out, s + i, 1);
    }
    kn_str_puts(out, "\"");
}

static void print_float(double v, int dtype, kn_str *out) {
    char t[64];
    if (isnan(v)) {
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        if (bits == UINT64_C(0x7ff8000000000000))
            kn_str_puts(out, "nan");
        else
            kn_str_putf(out, "nan(0x%016" PRIx64 ")", bits);
        return;
    }
    /* Every narrower float is exact in f32, and its shortest f32 text reads back to it. */
    kn_double_text(t, v, dtype != KN_F64 && (double)(float)v == v);
    kn_str_puts(out, t);
}

void kn_print_value(const kn_graph *g, kn_ref n, kn_str *out) {
    const kn_node *nd = kg_node(g, n);
    int            dt = nd->dtype;
    if (dt == KN_BOOL)
        kn_str_puts(out, nd->arg ? "true" : "false");
    else if (kn_is_float(dt))
        print_float(kg_const_float(g, n), dt, out);
    else if (dt == KN_U64)
        kn_str_putf(out, "%" PRIu64, nd->arg);
    else
        kn_str_putf(out, "%" PRId64, (int64_t)nd->arg);
}

static void print_const(const kn_graph *g, kn_ref n, kn_str *out) {
    int dt = kg_dtype(g, n);
    kn_print_value(g, n, out);
    if (dt != KN_INDEX && dt != KN_BOOL) kn_str_putf(out, ":%s", kn_dtypes[dt].name);
}

static void print_field(const kn_graph *g, const kn_field *f, int64_t v, kn_str *out) {
    kn_str_putf(out, "%s=", f->name);
    switch (f->type) {
    case 't': kn_str_puts(out, kn_dtypes[v].name); break;
    case 'a': kn_str_puts(out, kn_space_names[v]); break;
    case 's': kn_print_text(g, (uint32_t)v, out); break;
    case 'o': kn_str_puts(out, kn_ops[v].name); break;
    case 'x': kn_str_puts(out, kn_axis_names[v]); break;
    case 'b': kn_str_puts(out, v ? "true" : "false"); break;
    default: kn_str_putf(out, "%" PRId64, v); break;
    }
}

static void print_words(const kn_graph *g, kn_ref n, kn_arg_kind kind, kn_str *out) {
    int            count;
    const int64_t *w    = kg_words(g, n, &count);
    kn_arg_info    info = kn_arg_info_of(kind);
    const char    *sep  = " {";
    for (int i = 0; i < info.fixed; i++) {
        const kn_field *f = kn_arg_field(kind, i);
        /* What says which one this is (a slot, an id, the op, the axis type) is shown even where it is the default. */
        bool identity = f->type == 'o' || f->type == 'x' || (i == 0 && f->type == 'i');
        if (w[i] == f->dflt && !identity) continue;
        kn_str_puts(out, sep);
        print_field(g, f, w[i], out);
        sep = ", ";
    }
    if (info.list && count > info.fixed) {
        kn_str_putf(out, "%s%s=(", sep, kn_arg_field(kind, info.fixed)->name);
        for (int i = info.fixed; i < count; i++) kn_str_putf(out, "%s%" PRId64, i > info.fixed ? ", " : "", w[i]);
        kn_str_puts(out, ")");
        sep = ", ";
    }
    if (sep[0] == ',') kn_str_puts(out, "}");
}

static void print_arg(const kn_graph *g, kn_ref n, kn_str *out) {
    const kn_node *nd = kg_node(g, n);
    switch (kn_ops[nd->op].arg) {
    case KN_ARG_NONE: break;
    case KN_ARG_INT:
        if (nd->arg || nd->op == KN_OP_GETTUPLE) kn_str_putf(out, " {%" PRId64 "}", (int64_t)nd->arg);
        break;
    case KN_ARG_DTYPE: kn_str_putf(out, " {%s}", kn_dtypes[nd->arg].name); break;
    case KN_ARG_CONST:
        kn_str_puts(out, " {");
        print_const(g, n, out);
        kn_str_puts(out, "}");
        break;
    case KN_ARG_STR:
        if (!nd->arg) break;
        kn_str_puts(out, " {");
        kn_print_text(g, (uint32_t)nd->arg, out);
        kn_str_puts(out, "}");
        break;
    default: print_words(g, n, kn_ops[nd->op].arg, out); break;
    }
}

/* A list of index scalars: what the text writes as [a, b]. */
static bool is_list(const kn_graph *g, kn_ref n) {
    const kn_node *nd = kg_node(g, n);
    return nd->op == KN_OP_STACK && !nd->tag && nd->dtype == KN_INDEX && kg_rank(g, n) == 1;
}

static bool is_inline(const kn_graph *g, kn_ref n) {
    const kn_node *nd = kg_node(g, n);
    return (nd->op == KN_OP_CONST && !nd->tag) || is_list(g, n);
}

/* number: id -> the name printed for it; NULL: ids themselves. */
static void print_name(kn_ref n, const uint32_t *number, kn_str *out) {
    uint32_t name = number ? number[n] : n;
    kn_str_putf(out, "%%%s%" PRIu32, number && name & KN_NUMBER_OLD ? "old" : "", number ? name & ~KN_NUMBER_OLD : n);
}

static void print_operand(const kn_graph *g, kn_ref n, const uint32_t *number, kn_str *out) {
    if (!is_inline(g, n)) {
        print_name(n, number, out);
        return;
    }
    if (kg_op(g, n) == KN_OP_CONST) {
        print_const(g, n, out);
        return;
    }
    kn_str_puts(out, "[");
    for (uint32_t i = 0; i < kg_nsrc(g, n); i++) {
        kn_ref e = kg_at(g, n, i);
        if (i) kn_str_puts(out, ", ");
        if (is_inline(g, e))
            print_const(g, e, out); /* an entry has rank 0, so it is no list */
        else
            print_name(e, number, out);
    }
    kn_str_puts(out, "]");
}

static void print_type(const kn_graph *g, kn_ref n, const uint32_t *number, kn_ref top, kn_str *out) {
    int            rank;
    const int64_t *dims = kg_shape(g, n, &rank);
    kn_str_putf(out, " : %s", kn_dtypes[kg_dtype(g, n)].name);
    if (!rank) return;
    for (int i = 0; i < rank; i++) {
        kn_str_puts(out, i ? "," : "[");
        if (dims[i] >= 0)
            kn_str_putf(out, "%" PRId64, dims[i]);
        else if (!number)
            print_name((kn_ref)-dims[i], NULL, out);
        else if ((kn_ref)-dims[i] <= top && number[-dims[i]])
            print_name((kn_ref)-dims[i], number, out);
        else
            kn_str_puts(out, "?"); /* a symbolic size that no node below the root is */
    }
    kn_str_puts(out, "]");
}

static void print_line(const kn_graph *g, kn_ref n, const uint32_t *number, kn_ref top, kn_str *out) {
    const kn_node *nd = kg_node(g, n);
    print_name(n, number, out);
    kn_str_putf(out, " = %s", kn_ops[nd->op].name);
    if (nd->tag) kn_str_putf(out, " !%u", nd->tag);
    print_arg(g, n, out);
    const kn_ref *src = kg_src(g, n);
    for (uint32_t i = 0; i < nd->nsrc; i++) {
        kn_str_puts(out, " ");
        print_operand(g, src[i], number, out);
    }
    if (nd->dtype != KN_VOID) print_type(g, n, number, top, out);
}

uint32_t *kg_numbers(const kn_graph *g, kn_ref root) {
    kn_ref   *order;
    uint32_t  count, next = 0;
    uint32_t *number = kn_zalloc(kg_alloc(g), ((size_t)root + 1) * sizeof *number);
    if (!number || !kg_reach(g, &root, 1, &order, &count)) {
        kn_free(kg_alloc(g), number, ((size_t)root + 1) * sizeof *number);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!is_inline(g, order[i]) || order[i] == root) number[order[i]] = ++next;
    kn_free(kg_alloc(g), order, count * sizeof *order);
    return number;
}

static void print_all(const kn_graph *g, kn_ref root, bool why, kn_str *out) {
    if (!root) return;
    uint32_t *number = kg_numbers(g, root);
    if (!number) out->failed = true;
    for (kn_ref n = 1; n <= root && number; n++) {
        if (!number[n]) continue;
        print_line(g, n, number, root, out);
        if (why) {
            kn_str_puts(out, "  # ");
            kn_print_cause(kg_why(g), kg_cause(g, n), out);
        }
        kn_str_puts(out, "\n");
    }
    kn_free(kg_alloc(g), number, ((size_t)root + 1) * sizeof *number);
}

void kg_print(const kn_graph *g, kn_ref root, kn_str *out) {
    print_all(g, root, false, out);
}

void kg_print_why(const kn_graph *g, kn_ref root, kn_str *out) {
    print_all(g, root, kg_why(g) != NULL, out);
}

void kg_print_line(const kn_graph *g, kn_ref n, const uint32_t *number, kn_ref top, kn_str *out) {
    print_line(g, n, number, top, out);
}

void kg_print_node(const kn_graph *g, kn_ref n, kn_str *out) {
    if (n)
        print_line(g, n, NULL, n, out);
    else
        kn_str_puts(out, "%0");
}
