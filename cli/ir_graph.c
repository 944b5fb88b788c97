/* ir_graph.c - `koine ir --graph=dot`: a stage's program for Graphviz.
 *
 * Each kernel is a cluster, each loop a cluster in that of the loop around it; a node stands in the innermost loop that
 * it depends on, and what ends a loop just outside it. Constants and shapes stand in the labels, as in the text.
 * Kernels share nodes in the schedule's graph, so a node's name begins with its kernel's: k0_12 is %12 of the dump. */
#include "ir.h"

#include <string.h>

typedef struct dot_loop {
    kn_ref range;
    int    parent, depth;
} dot_loop;

typedef struct dot {
    const kn_graph *g;
    const uint32_t *number;
    kn_str         *out;
    kn_ref          top;
    dot_loop       *loop;
    size_t          nloop, loop_cap;
    int            *of_range; /* node -> its loop, -1 */
    int             body;     /* -1: what is in no kernel */
} dot;

static void dot_name(const dot *d, kn_ref n) {
    if (d->body >= 0)
        kn_str_putf(d->out, "k%d_%u", d->body, d->number[n]);
    else
        kn_str_putf(d->out, "n%u", d->number[n]);
}

static void dot_text(kn_str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') kn_str_puts(out, "\\");
        kn_str_add(out, text, 1);
    }
}

static void pad_line(const dot *d, int depth) {
    for (int i = 0; i < depth; i++) kn_str_puts(d->out, "  ");
}

static void dot_node(const dot *d, kn_ref n, int depth) {
    kn_str s;
    int    op = kg_op(d->g, n);
    kn_str_init(&s, NULL);
    kg_print_line(d->g, n, d->number, d->top, &s);
    pad_line(d, depth);
    dot_name(d, n);
    kn_str_puts(d->out, " [label=\"");
    dot_text(d->out, kn_str_c(&s));
    kn_str_puts(d->out, "\"");
    if (op == KN_OP_STORE || op == KN_OP_ATOMIC_ADD || op == KN_OP_END || op == KN_OP_SINK)
        kn_str_puts(d->out, ", style=filled, fillcolor=mistyrose");
    else if (op == KN_OP_PARAM || op == KN_OP_BUFFER)
        kn_str_puts(d->out, ", style=filled, fillcolor=lightyellow");
    else if (op == KN_OP_RANGE)
        kn_str_puts(d->out, ", style=filled, fillcolor=lightblue");
    kn_str_puts(d->out, "];\n");
    d->out->failed |= s.failed;
    kn_str_free(&s);
}

static void dot_edges(const dot *d, kn_ref n, int depth) {
    for (uint32_t i = kg_op(d->g, n) == KN_OP_CALL; i < kg_nsrc(d->g, n); i++) {
        kn_ref s = kg_at(d->g, n, i);
        if (!d->number[s]) continue;
        pad_line(d, depth);
        dot_name(d, s);
        kn_str_puts(d->out, " -> ");
        dot_name(d, n);
        kn_str_puts(d->out, ";\n");
    }
}

static int innermost_loop(const dot *d, kn_ref n) {
    kn_ref r[64];
    int    m = KN_MIN(kg_ranges(d->g, n, r, KN_COUNT(r)), KN_COUNT(r)), best = -1;
    for (int i = 0; i < m; i++) {
        int l = d->of_range[r[i]];
        if (l >= 0 && (best < 0 || d->loop[l].depth > d->loop[best].depth)) best = l;
    }
    return best;
}

/* The loops that END and REDUCE close, the outer ones first: users stand behind what they close. */
static bool find_loops(dot *d, const kn_ref *order, uint32_t n) {
    d->nloop = 0;
    for (uint32_t i = n; i-- > 0;) {
        int start = kn_range_start(kg_op(d->g, order[i])), parent = innermost_loop(d, order[i]);
        for (uint32_t k = (uint32_t)start; start > 0 && k < kg_nsrc(d->g, order[i]); k++) {
            kn_ref r = kg_at(d->g, order[i], k);
            if (kg_op(d->g, r) != KN_OP_RANGE || d->of_range[r] >= 0) continue;
            if (!KN_GROW(NULL, d->loop, d->loop_cap, d->nloop + 1)) return false;
            d->loop[d->nloop] = (dot_loop){r, parent, parent < 0 ? 0 : d->loop[parent].depth + 1};
            d->of_range[r] = parent = (int)d->nloop++;
        }
    }
    return true;
}

static void open_cluster(const dot *d, int loop, int depth) {
    kn_ref r = d->loop[loop].range;
    pad_line(d, depth);
    kn_str_putf(d->out, "subgraph cluster_k%d_loop%d { label=\"%%%u %s", d->body, loop, d->number[r],
                kn_axis_names[kg_field(d->g, r, KN_F_RANGE_type)]);
    if (kg_op(d->g, kg_at(d->g, r, 0)) == KN_OP_CONST)
        kn_str_putf(d->out, " %lld", (long long)kg_const_int(d->g, kg_at(d->g, r, 0)));
    kn_str_puts(d->out, "\"; color=steelblue;\n");
}

/* The nodes of one loop (-1: of none), then its inner loops: walked with the stack of the clusters that are open. */
static bool dot_body(dot *d, const kn_ref *order, uint32_t n, int depth) {
    int  at = -1, base = depth;
    int *next = kn_zalloc(NULL, (d->nloop + 2) * sizeof *next); /* of a loop: the child to look at */
    if (!next) return false;
    for (bool enter = true;;) {
        for (uint32_t i = 0; i < n && enter; i++)
            if (d->number[order[i]] && innermost_loop(d, order[i]) == at) dot_node(d, order[i], depth);
        int child = next[at + 1];
        while (child < (int)d->nloop && d->loop[child].parent != at) child++;
        next[at + 1] = child + 1;
        if ((enter = child < (int)d->nloop)) {
            open_cluster(d, child, depth++);
            at = child;
            continue;
        }
        if (at < 0) break;
        pad_line(d, --depth);
        kn_str_puts(d->out, "}\n");
        at = d->loop[at].parent;
    }
    for (uint32_t i = 0; i < n; i++)
        if (d->number[order[i]]) dot_edges(d, order[i], base);
    kn_free(NULL, next, (d->nloop + 2) * sizeof *next);
    return true;
}

/* The body of the schedule's k-th kernel, or the whole of a program that is no schedule. */
static bool dot_kernel(dot *d, kn_ref root, int body) {
    kn_ref  *order;
    uint32_t n;
    size_t   size = (size_t)d->top + 1;
    bool     ok   = kg_reach(d->g, &root, 1, &order, &n);
    if (!ok) return false;
    if (!(d->of_range = kn_realloc(NULL, NULL, 0, size * sizeof *d->of_range))) ok = false;
    for (size_t i = 0; i < size && ok; i++) d->of_range[i] = -1;
    d->body = body;
    if (body >= 0) kn_str_putf(d->out, "  subgraph cluster_k%d { label=\"kernel %d\";\n", body, body);
    ok = ok && find_loops(d, order, n) && dot_body(d, order, n, body < 0 ? 1 : 2);
    if (body >= 0) kn_str_puts(d->out, "  }\n");
    kn_free(NULL, d->of_range, size * sizeof *d->of_range);
    d->of_range = NULL;
    kn_free(kg_alloc(d->g), order, n * sizeof *order);
    return ok;
}

static kn_ref kernel_body(const kn_graph *g, kn_ref call) {
    kn_ref body = kg_at(g, call, 0);
    while (kg_op(g, body) == KN_OP_PROGRAM && kg_nsrc(g, body)) body = kg_at(g, body, 0);
    return body;
}

/* Each body once, however many calls it has; then the calls in order. */
static bool dot_schedule(dot *d, kn_ref root) {
    const kn_graph *g = d->g;
    uint32_t        n = kg_nsrc(g, root);
    bool            ok = true;
    int            *body = kn_zalloc(NULL, (n + 1u) * sizeof *body), bodies = 0;
    if (!body) return false;
    for (uint32_t i = 0; i < n && ok; i++) {
        body[i] = -1;
        for (uint32_t k = 0; k < i; k++)
            if (kernel_body(g, kg_at(g, root, k)) == kernel_body(g, kg_at(g, root, i))) body[i] = body[k];
        if (body[i] >= 0) continue;
        body[i] = bodies++;
        ok      = dot_kernel(d, kernel_body(g, kg_at(g, root, i)), body[i]);
    }
    d->body       = -1;
    uint8_t *done = kn_zalloc(NULL, (size_t)root + 1);
    ok            = ok && done;
    for (uint32_t i = 0; i < n && ok; i++) {
        kn_ref call = kg_at(g, root, i);
        for (uint32_t k = 1; k < kg_nsrc(g, call); k++) {
            kn_ref a = kg_at(g, call, k);
            if (!done[a]) dot_node(d, a, 1);
            done[a] = 1;
        }
        if (!done[call]) {
            dot_node(d, call, 1);
            dot_edges(d, call, 1);
            kn_str_putf(d->out, "  k%d_%u -> ", body[i], d->number[kernel_body(g, call)]);
            dot_name(d, call);
            kn_str_puts(d->out, " [style=dashed];\n");
        }
        done[call] = 1;
    }
    if (ok) {
        dot_node(d, root, 1);
        dot_edges(d, root, 1);
    }
    kn_free(NULL, done, (size_t)root + 1);
    kn_free(NULL, body, (n + 1u) * sizeof *body);
    return ok;
}

bool ir_print_graph(ir_job *j, kn_stage stage, const kn_graph *g, kn_ref root, kn_fault *f) {
    uint32_t *number = kg_numbers(g, root);
    dot       d      = {.g = g, .number = number, .out = &j->out, .top = root, .body = -1};
    bool      calls  = kg_op(g, root) == KN_OP_LINEAR && kg_nsrc(g, root) > 0, ok = number != NULL;
    for (uint32_t i = 0; i < kg_nsrc(g, root) && calls; i++) calls = kg_op(g, kg_at(g, root, i)) == KN_OP_CALL;
    kn_str_putf(&j->out, "digraph \"%s\" {\n", kn_stage_names[stage]);
    kn_str_puts(&j->out, "  node [shape=box, fontname=monospace, fontsize=10];\n  edge [arrowsize=0.6];\n");
    ok = ok && (calls ? dot_schedule(&d, root) : dot_kernel(&d, root, -1));
    kn_str_puts(&j->out, "}\n");
    if (number) kn_free(kg_alloc(g), number, ((size_t)root + 1) * sizeof *number);
    kn_free(NULL, d.loop, d.loop_cap * sizeof *d.loop);
    return (ok && !j->out.failed) || kn_oom(f);
}
