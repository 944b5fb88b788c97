/* print_head.c - a line of the tree form: the bestiary's name of a node, what its arg says, its type. */
#include "dialect/print.h"
#include "dialect/spell.h"
#include "dialect/tree_print.h"

#include <inttypes.h>
#include <string.h>

/* ---- what is left out -------------------------------------------------------------------------------------------- */

static size_t first_word(const char *s) {
    size_t n = 0;
    while ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') || (s[n] >= '0' && s[n] <= '9') ||
           s[n] == '_' || s[n] == '.')
        n++;
    return n;
}

static int named_op(const char *s, size_t n) {
    int                op = kn_op_by_name(s, n);
    const kn_spelling *as = op < 0 ? kn_spelling_of(s, n) : NULL;
    return as ? as->op : op;
}

/* Whether a node of this op with these sources, one of them a HOLE, cannot be made, so that it reads as a HOLE. */
static bool is_refused(const kn_graph *g, int op, const kn_ref *src, uint32_t n) {
    uint32_t holes = 0, first = n && kg_op(g, src[0]) == KN_OP_HOLE;
    for (uint32_t i = 0; i < n; i++) holes += kg_op(g, src[i]) == KN_OP_HOLE;
    if (!holes) return false;
    if (kn_is_alu(op)) return true;
    switch (op) {
    case KN_OP_STACK: case KN_OP_INDEX: case KN_OP_LOAD: case KN_OP_REDUCE: case KN_OP_BUFFERIZE: case KN_OP_RANGE:
    case KN_OP_PARAM: case KN_OP_RESHAPE: case KN_OP_EXPAND: case KN_OP_PAD: case KN_OP_SHRINK: case KN_OP_GETTUPLE:
        return true;
    case KN_OP_PERMUTE: case KN_OP_FLIP: case KN_OP_ALLREDUCE: case KN_OP_BIND: return first;
    case KN_OP_END: return holes > first;
    case KN_OP_WMMA: return n == 3 && kg_op(g, src[2]) == KN_OP_HOLE;
    case KN_OP_STORE: return n == 2 ? holes == 1 : n != 3 || kg_dtype(g, src[2]) != KN_BOOL;
    default: return false;
    }
}

kn_tree_gap kn_tree_gap_of(const tree_printer *t, kn_ref n) {
    size_t         len;
    const kn_node *nd   = kg_node(t->g, n);
    const char    *s    = kg_str(t->g, (uint32_t)nd->arg, &len);
    size_t         word = first_word(s);
    bool           small = false;
    if (!nd->arg) return nd->nsrc || nd->tag ? KN_GAP_QUOTED : KN_GAP_DOTS;
    if (!word || len != strlen(s) || s[len - 1] == ' ' || nd->tag || s[0] == '.') return KN_GAP_QUOTED;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < ' ' || s[i] > '~' || s[i] == '#') return KN_GAP_QUOTED;
        small = small || (s[i] >= 'a' && s[i] <= 'z') || s[i] == ':';
    }
    int op = named_op(s, word);
    if (!nd->nsrc) return op < 0 && small ? KN_GAP_WORDS : KN_GAP_QUOTED;
    if (op < 0 || (s[word] && s[word] != '(' && s[word] != '[' && strncmp(s + word, " : ", 3) != 0))
        return KN_GAP_QUOTED;
    if (t->has_short && (op == KN_OP_RANGE || op == KN_OP_PARAM)) return KN_GAP_QUOTED;
    if (!is_refused(t->g, op, kg_src(t->g, n), nd->nsrc)) return KN_GAP_QUOTED;
    const kn_node *only = kg_node(t->g, kg_at(t->g, n, 0));
    return nd->nsrc == 1 && !only->arg && !only->nsrc && !only->tag ? KN_GAP_ALONE : KN_GAP_HEAD;
}

static void print_gap(tree_printer *t, kn_ref n) {
    const kn_node *nd  = kg_node(t->g, n);
    kn_tree_gap    gap = kn_tree_gap_of(t, n);
    const char    *s   = kg_str(t->g, (uint32_t)nd->arg, NULL);
    if (gap == KN_GAP_DOTS) {
        kn_str_puts(t->out, "...");
    } else if (gap == KN_GAP_QUOTED) {
        kn_str_puts(t->out, "HOLE");
        if (nd->tag) kn_str_putf(t->out, "!%u", nd->tag);
        if (!nd->arg) return;
        kn_str_puts(t->out, "(");
        kn_print_text(t->g, (uint32_t)nd->arg, t->out);
        kn_str_puts(t->out, ")");
    } else {
        kn_str_puts(t->out, s);
        if (gap == KN_GAP_ALONE && !s[first_word(s)]) kn_str_puts(t->out, "(...)");
    }
}

/* ---- args -------------------------------------------------------------------------------------------------------- */

/* "(a, b": each call gives the next separator. */
static void next_arg(tree_printer *t, int *count) {
    kn_str_puts(t->out, (*count)++ ? ", " : "(");
}

static void print_ints(const int64_t *v, int64_t n, kn_str *out) {
    kn_str_puts(out, "[");
    for (int64_t i = 0; i < n; i++) kn_str_putf(out, "%s%" PRId64, i ? ", " : "", v[i]);
    kn_str_puts(out, "]");
}

static void print_shape_of(tree_printer *t, kn_ref shape) {
    kn_str_puts(t->out, "[");
    for (uint32_t i = 0; i < kg_nsrc(t->g, shape); i++) {
        if (i) kn_str_puts(t->out, ", ");
        kn_print_value(t->g, kg_at(t->g, shape, i), t->out);
    }
    kn_str_puts(t->out, "]");
}

static void print_pairs(const int64_t *v, int64_t n, kn_str *out) {
    kn_str_puts(out, "[");
    for (int64_t i = 0; i + 1 < n; i += 2)
        kn_str_putf(out, "%s(%" PRId64 ", %" PRId64 ")", i ? ", " : "", v[i], v[i + 1]);
    kn_str_puts(out, "]");
}

static void print_named(tree_printer *t, const char *name, const kn_field *f, int64_t v) {
    kn_str_putf(t->out, "%s=", name);
    switch (f->type) {
    case 't': kn_str_puts(t->out, kn_dtype_spelling((int)v)); break;
    case 'a': kn_str_puts(t->out, kn_space_spelling[v]); break;
    case 's': kn_print_text(t->g, (uint32_t)v, t->out); break;
    case 'o': kn_str_puts(t->out, kn_op_spelling((int)v)); break;
    case 'x': kn_str_puts(t->out, kn_axis_spelling[v]); break;
    case 'b': kn_str_puts(t->out, v ? "true" : "false"); break;
    default: kn_str_putf(t->out, "%" PRId64, v); break;
    }
}

/* The fields from `from` on that are not their defaults, and the list; `skip` are said otherwise. */
static void print_fields(tree_printer *t, kn_ref n, int from, uint32_t skip, int *count) {
    int            words, op = kg_op(t->g, n);
    const int64_t *w    = kg_words(t->g, n, &words);
    kn_arg_kind    kind = kn_ops[op].arg;
    kn_arg_info    info = kn_arg_info_of(kind);
    for (int k = from; k < info.fixed; k++) {
        const kn_field *f = kn_arg_field(kind, k);
        if (w[k] == f->dflt || skip >> k & 1) continue;
        const char *name = !strcmp(f->name, "space") ? "addrspace" : !strcmp(f->name, "devices") ? "device" : f->name;
        next_arg(t, count);
        print_named(t, name, f, w[k]);
    }
    if (!info.list || words == info.fixed || skip >> info.fixed & 1) return;
    next_arg(t, count);
    kn_str_putf(t->out, "%s=", kn_arg_field(kind, info.fixed)->name);
    print_ints(w + info.fixed, words - info.fixed, t->out);
}

static void print_reduce_op(tree_printer *t, int64_t op, int *count) {
    next_arg(t, count);
    const char *name = op == KN_OP_ADD   ? "Add"
                       : op == KN_OP_MUL ? "Mul"
                       : op == KN_OP_MAX ? "Max"
                       : op == KN_OP_MIN ? "Min"
                                         : kn_op_spelling((int)op);
    kn_str_puts(t->out, name);
}

static void print_wmma(tree_printer *t, kn_ref n, int *count) {
    int            words;
    const int64_t *w = kg_words(t->g, n, &words), *list = w + KN_WMMA_WORDS;
    int64_t        rest = words - KN_WMMA_WORDS - 1;
    bool           two  = rest >= 0 && list[0] >= 0 && list[0] <= rest / 2 && rest % 2 == 0;
    uint32_t       dims = 1u << KN_F_WMMA_n | 1u << KN_F_WMMA_m | 1u << KN_F_WMMA_k;
    next_arg(t, count);
    kn_str_putf(t->out, "dims=(%" PRId64 ", %" PRId64 ", %" PRId64 ")", w[KN_F_WMMA_n], w[KN_F_WMMA_m], w[KN_F_WMMA_k]);
    print_fields(t, n, 0, dims | (two ? 1u << KN_WMMA_WORDS : 0), count);
    if (!two) return;
    kn_str_puts(t->out, ", upcast_axes=");
    print_pairs(list + 1, 2 * list[0], t->out);
    if (rest == 2 * list[0]) return;
    kn_str_puts(t->out, ", reduce_axes=");
    print_pairs(list + 1 + 2 * list[0], rest - 2 * list[0], t->out);
}

/* gidx0 is blockIdx.x, lidx1 is threadIdx.y. */
static void print_special(tree_printer *t, kn_ref n, int *count) {
    size_t      len;
    uint32_t    id = (uint32_t)kg_node(t->g, n)->arg;
    const char *s  = kg_str(t->g, id, &len);
    kn_ref      end = kg_at(t->g, n, 0);
    if (id) {
        next_arg(t, count);
        kn_str_puts(t->out, "name=");
        if (len == 5 && (*s == 'g' || *s == 'l') && !memcmp(s + 1, "idx", 3) && s[4] >= '0' && s[4] <= '2')
            kn_str_putf(t->out, "\"%s.%c\"", *s == 'g' ? "blockIdx" : "threadIdx", "xyz"[s[4] - '0']);
        else
            kn_print_text(t->g, id, t->out);
    }
    if (kg_op(t->g, end) != KN_OP_CONST) return;
    next_arg(t, count);
    kn_str_putf(t->out, "end=%" PRId64, kg_const_int(t->g, end));
}

static void print_range(tree_printer *t, kn_ref n, int *count) {
    const int64_t *w   = kg_words(t->g, n, NULL);
    kn_ref         end = kg_at(t->g, n, 0);
    next_arg(t, count);
    if (kg_op(t->g, end) == KN_OP_CONST) kn_str_putf(t->out, "end=%" PRId64 ", ", kg_const_int(t->g, end));
    if (w[KN_F_RANGE_id] >= 0)
        kn_str_putf(t->out, "axis_id=R%" PRId64, w[KN_F_RANGE_id]);
    else
        kn_str_putf(t->out, "axis_id=%" PRId64, w[KN_F_RANGE_id]);
    kn_str_putf(t->out, ", type=%s", kn_axis_spelling[w[KN_F_RANGE_type]]);
    print_fields(t, n, KN_F_RANGE_rank, 0, count);
}

static void print_box(tree_printer *t, kn_ref n, int *count) {
    int            rank;
    int64_t        o[KN_MAX_RANK], s[KN_MAX_RANK], end[KN_MAX_RANK];
    bool           pad = kg_op(t->g, n) == KN_OP_PAD;
    const int64_t *in  = kg_shape(t->g, kg_at(t->g, n, 0), &rank);
    kg_read_dims(t->g, kg_at(t->g, n, 1), o, &rank);
    kg_read_dims(t->g, kg_at(t->g, n, 2), s, &rank);
    for (int i = 0; i < rank; i++) end[i] = pad ? s[i] - o[i] - in[i] : o[i] + s[i];
    next_arg(t, count);
    kn_str_puts(t->out, pad ? "begin_pads=" : "begins=");
    print_ints(o, rank, t->out);
    kn_str_puts(t->out, pad ? ", end_pads=" : ", ends=");
    print_ints(end, rank, t->out);
}

static void print_buffer(tree_printer *t, kn_ref n, int *count) {
    kn_ref         b = kg_op(t->g, n) == KN_OP_BUFFER ? n : kg_at(t->g, n, 0);
    const int64_t *w = kg_words(t->g, b, NULL);
    int            rank;
    const int64_t *dims = kg_shape(t->g, n, &rank);
    bool           flat = w[KN_F_BUFFER_size] == kg_numel(t->g, b); /* on one device */
    next_arg(t, count);
    kn_str_putf(t->out, "%s%" PRId64, w[KN_F_BUFFER_space] == KN_GLOBAL ? "unique=" : "", w[KN_F_BUFFER_slot]);
    uint32_t said = 1u << KN_F_BUFFER_space | 1u << KN_F_BUFFER_dtype | (flat ? 1u << KN_F_BUFFER_size : 0);
    print_fields(t, b, 1, said, count);
    if (!flat && w[KN_F_BUFFER_size] == 0) kn_str_puts(t->out, ", size=0");
    kn_str_puts(t->out, ")");
    *count = -1;
    if (b != n || flat) print_ints(dims, rank, t->out);
}

static void print_bufferize(tree_printer *t, kn_ref n, int *count) {
    const int64_t *w   = kg_words(t->g, n, NULL);
    int            own = 1;
    next_arg(t, count);
    kn_str_putf(t->out, "opts={addrspace=%s", kn_space_spelling[w[KN_F_BUFFERIZE_space]]);
    print_fields(t, n, 0, 1u << KN_F_BUFFERIZE_space, &own);
    kn_str_puts(t->out, "}");
}

/* Everything in the parentheses; count is -1 where they are closed already. */
static void print_args(tree_printer *t, kn_ref n, kn_tree_form form, int *count) {
    const kn_graph *g  = t->g;
    const kn_node  *nd = kg_node(g, n);
    switch (nd->op) {
    case KN_OP_RANGE: print_range(t, n, count); return;
    case KN_OP_SPECIAL: print_special(t, n, count); return;
    case KN_OP_REDUCE:
    case KN_OP_ALLREDUCE:
        print_reduce_op(t, kg_field(g, n, 0), count);
        print_fields(t, n, 1, 0, count);
        return;
    case KN_OP_WMMA: print_wmma(t, n, count); return;
    case KN_OP_BUFFERIZE: print_bufferize(t, n, count); return;
    case KN_OP_PARAM: {
        bool global = kg_field(g, n, KN_F_PARAM_space) == KN_GLOBAL, shown = form == KN_TREE_VAR;
        if (!shown) {
            next_arg(t, count);
            kn_str_putf(t->out, "%" PRId64, kg_field(g, n, 0));
        }
        print_fields(t, n, shown ? 0 : 1, 1u << KN_F_PARAM_dtype | (global ? 1u << KN_F_PARAM_space : 0), count);
        if (form != KN_TREE_SHAPED) return;
        kn_str_puts(t->out, ")");
        print_shape_of(t, kg_at(g, n, 0));
        *count = -1;
        return;
    }
    case KN_OP_LOAD: {
        bool named = kg_field(g, n, KN_F_LOAD_space) == KN_GLOBAL; /* COPY, CONTIGUOUS */
        print_fields(t, n, 0, named ? 1u << KN_F_LOAD_space : 0, count);
        return;
    }
    default: break;
    }
    switch (form) {
    case KN_TREE_SHAPE:
    case KN_TREE_VCONST:
        next_arg(t, count);
        print_shape_of(t, n);
        return;
    case KN_TREE_GEP: {
        kn_ref i = kg_at(g, n, 1);
        next_arg(t, count);
        if (kg_op(g, i) == KN_OP_STACK)
            print_shape_of(t, i);
        else
            kn_str_putf(t->out, "[%" PRId64 "]", kg_const_int(g, i));
        return;
    }
    case KN_TREE_SHAPED:
        next_arg(t, count);
        kn_str_puts(t->out, "new_shape=");
        print_shape_of(t, kg_at(g, n, 1));
        return;
    case KN_TREE_BUFFER: print_buffer(t, n, count); return;
    case KN_TREE_BOX: print_box(t, n, count); return;
    case KN_TREE_CAT:
    case KN_TREE_LANES:
    case KN_TREE_POINTER: return;
    default: break;
    }
    switch (kn_ops[nd->op].arg) {
    case KN_ARG_NONE: break;
    case KN_ARG_INT:
        if (!nd->arg && nd->op != KN_OP_GETTUPLE) break;
        next_arg(t, count);
        kn_str_putf(t->out, "%s%" PRId64, nd->op == KN_OP_STORE ? "streaming=" : "", (int64_t)nd->arg);
        break;
    case KN_ARG_DTYPE:
        next_arg(t, count);
        kn_str_puts(t->out, kn_dtype_spelling((int)nd->arg));
        break;
    case KN_ARG_CONST:
        next_arg(t, count);
        kn_print_value(g, n, t->out);
        break;
    case KN_ARG_STR:
        if (!nd->arg) break;
        next_arg(t, count);
        kn_print_text(g, (uint32_t)nd->arg, t->out);
        break;
    default: print_fields(t, n, 0, 0, count); break;
    }
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

static const char *tree_name(const kn_graph *g, kn_ref n, kn_tree_form form) {
    int op = kg_op(g, n);
    switch (form) {
    case KN_TREE_SHAPE: return "CONST";
    case KN_TREE_VCONST: return "VCONST";
    case KN_TREE_PTRCAT: return "PTRCAT";
    case KN_TREE_CAT:
    case KN_TREE_LANES: return "CAT";
    case KN_TREE_GEP: return "GEP";
    case KN_TREE_POINTER: return "POINTER_INDEX";
    case KN_TREE_STORE: return "STORE";
    case KN_TREE_BARRIER: return "BARRIER";
    case KN_TREE_KERNEL: return "KERNEL";
    case KN_TREE_VAR: return "DEFINE_VAR";
    case KN_TREE_BUFFER: {
        int64_t space = kg_field(g, op == KN_OP_BUFFER ? n : kg_at(g, n, 0), KN_F_BUFFER_space);
        return space == KN_LOCAL ? "DEFINE_LOCAL" : space == KN_REG ? "DEFINE_REG" : "BUFFER";
    }
    default: break;
    }
    switch (op) {
    case KN_OP_STACK: return "VECTORIZE";
    case KN_OP_REDUCE: return kg_nsrc(g, n) == 1 ? "REDUCE_AXIS" : "REDUCE";
    case KN_OP_PARAM: return kg_field(g, n, KN_F_PARAM_space) == KN_GLOBAL ? "DEFINE_GLOBAL" : "PARAM";
    case KN_OP_LOAD:
        if (kg_field(g, n, KN_F_LOAD_space) != KN_GLOBAL) return "LOAD";
        return kg_field(g, n, KN_F_LOAD_device) ? "COPY" : "CONTIGUOUS";
    default: return kn_op_spelling(op);
    }
}

static void print_tree_type(tree_printer *t, kn_ref n, kn_tree_form form) {
    int            rank, dt = kg_dtype(t->g, n);
    const int64_t *dims = kg_shape(t->g, n, &rank);
    if (dt == KN_VOID) return;
    kn_str_puts(t->out, " : ");
    if (form == KN_TREE_SHAPE) {
        kn_str_puts(t->out, "Shape");
        return;
    }
    bool said = form == KN_TREE_BUFFER || form == KN_TREE_VAR || kg_op(t->g, n) == KN_OP_PARAM;
    if (rank == 1 && dims[0] >= 0 && kg_space(t->g, n) == KN_REG && !said) {
        kn_str_putf(t->out, "<%" PRId64 " x %s>", dims[0], kn_dtype_spelling(dt));
        return;
    }
    kn_str_puts(t->out, kn_dtype_spelling(dt));
    for (int i = 0; i < rank && !said; i++) {
        kn_str_puts(t->out, i ? ", " : "[");
        if (dims[i] >= 0)
            kn_str_putf(t->out, "%" PRId64, dims[i]);
        else
            kn_str_puts(t->out, "?");
    }
    if (rank && !said) kn_str_puts(t->out, "]");
}

void kn_tree_print_head(tree_printer *t, kn_ref n, bool gated) {
    const kn_graph *g     = t->g;
    kn_tree_form    form  = kn_tree_form_of(g, n);
    kn_ref          own   = n; /* whose tag and arg stand in the line */
    int             count = 0;
    if (kg_op(g, n) == KN_OP_HOLE) {
        print_gap(t, n);
        return;
    }
    if (gated && form == KN_TREE_GEP) form = KN_TREE_PLAIN;
    if (form == KN_TREE_STORE && kg_op(g, n) == KN_OP_END) own = kg_at(g, n, 0);
    if (form == KN_TREE_BARRIER) own = kg_at(g, n, 1);
    kn_str_puts(t->out, tree_name(g, n, form));
    if (kg_node(g, own)->tag) kn_str_putf(t->out, "!%u", kg_node(g, own)->tag);
    print_args(t, own, own == n ? form : KN_TREE_PLAIN, &count);
    if (count > 0) kn_str_puts(t->out, ")");
    print_tree_type(t, n, form);
}

bool kn_tree_same_short(const kn_graph *g, kn_ref a, kn_ref b) {
    int kind = kg_op(g, a) == KN_OP_RANGE ? KN_F_RANGE_type : KN_F_PARAM_space;
    return kg_field(g, a, 0) == kg_field(g, b, 0) && kg_field(g, a, kind) == kg_field(g, b, kind);
}

bool kn_tree_short(tree_printer *t, kn_ref n) {
    if (kg_node(t->g, n)->tag) return false;
    int64_t id = kg_op(t->g, n) == KN_OP_RANGE || kg_op(t->g, n) == KN_OP_PARAM ? kg_field(t->g, n, 0) : -1;
    if (id < 0) return false;
    if (kg_op(t->g, n) == KN_OP_RANGE) {
        kn_str_putf(t->out, "RANGE(R%" PRId64 ", %s)", id, kn_axis_spelling[kg_field(t->g, n, KN_F_RANGE_type)]);
        return true;
    }
    if (kg_field(t->g, n, KN_F_PARAM_space) != KN_GLOBAL || kn_tree_form_of(t->g, n) != KN_TREE_SHAPED) return false;
    kn_str_putf(t->out, "DEFINE_GLOBAL(%" PRId64 ")", id);
    return true;
}
