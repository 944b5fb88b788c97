/* callify.c - stage 1: a tensor graph becomes one stateless function over PARAMs.
 *
 * Takes: roots in the context's graph, each a value or an assignment (AFTER(view, STORE(view, value)), perhaps
 * reshaped). Gives: a fresh graph whose SINK stores every root into a PARAM. BUFFERs, and row slices of them, have
 * become PARAMs numbered in the order of a depth-first walk, so that programs of one form give one graph, node by node.
 * Reductions across devices are written out (sharding.rules); of devices nothing is left then.
 * Holds after: no BUFFER, no ALLREDUCE, no FUNCTION but what folds apply, no BIND: a variable is a PARAM, one for each
 * value it is bound to; every STORE targets a PARAM (under RESHAPE and AFTER), or its first elements where their number
 * is symbolic.
 *
 * Explicit stack: graphs may be deeper than the C stack. */
#include "lower/lower.h"

#include "rules_gen.h"

#include <string.h>

typedef struct kl_copy {
    kn_graph     *from;
    const kn_ref *realized;
    uint32_t      nrealized;
    kl_program   *p;
    kl_binding   *b;
    kn_ref       *map; /* from -> p->g */
    size_t        map_cap;
    bool          text; /* a program of the text form: PARAMs are inputs, and keep their slots */
    kn_fault     *f;
} kl_copy;

static kn_ref follow(const kl_copy *c, kn_ref n) {
    while (n < c->nrealized && c->realized[n] && c->realized[n] != n) n = c->realized[n];
    return n;
}

static bool add_param(kl_copy *c, kn_ref bound, int64_t size, int dtype, kn_ref *node) {
    kl_program *p = c->p;
    if (!KN_GROW(p->alloc, p->param, p->param_cap, p->nparam + 1) ||
        !KN_GROW(p->alloc, c->b->bound, c->b->cap, p->nparam + 1))
        return kn_oom(c->f);
    p->param[p->nparam]    = (kl_param){.size = size, .dtype = dtype};
    c->b->bound[p->nparam] = bound;
    *node                  = kg_param(p->g, (int64_t)p->nparam++, dtype, &size, 1);
    return *node != 0;
}

/* SHRINK of stored rows: a run of the buffer, which can be bound as it is. */
static bool row_slice(const kl_copy *c, kn_ref n, kn_ref *buffer, int64_t *offset) {
    const kn_graph *g = c->from;
    if (kg_op(g, n) != KN_OP_SHRINK || kg_numel(g, n) < 0) return false;
    kn_ref x = follow(c, kg_at(g, n, 0)), b = x;
    while (kg_op(g, b) == KN_OP_RESHAPE) b = follow(c, kg_at(g, b, 0));
    if (kg_op(g, b) != KN_OP_BUFFER) return false;
    int64_t off[KN_MAX_RANK], pitch = 1;
    int     rank, k = 0;
    if (!kg_read_dims(g, kg_at(g, n, 1), off, &rank)) return false;
    const int64_t *xs = kg_shape(g, x, NULL), *ns = kg_shape(g, n, NULL);
    while (k < rank && xs[k] == 1) k++;
    for (int i = k + 1; i < rank; i++) {
        if (xs[i] != ns[i]) return false;
        pitch *= xs[i];
    }
    *buffer = b;
    *offset = k < rank ? off[k] * pitch : 0;
    return true;
}

bool kl_row_slice(kn_graph *g, const kn_ref *realized, uint32_t nrealized, kn_ref n, kn_ref *buffer, int64_t *offset) {
    return row_slice(&(kl_copy){.from = g, .realized = realized, .nrealized = nrealized}, n, buffer, offset);
}

static int64_t image_dim(const kl_copy *c, kn_ref d) {
    kn_ref m = c->map[d];
    return m && kg_op(c->p->g, m) == KN_OP_CONST ? kg_const_int(c->p->g, m) : -(int64_t)m;
}

static bool slot_room(kl_copy *c, int64_t slot) {
    kl_program *p = c->p;
    if (slot < 0 || slot > 4095) return kn_fail(c->f, KN_ERR_ARG, "callify: PARAM slots are 0 to 4095");
    if (!KN_GROW(p->alloc, p->param, p->param_cap, (size_t)slot + 1)) return kn_oom(c->f);
    for (; p->nparam <= (size_t)slot; p->nparam++) p->param[p->nparam] = (kl_param){.dtype = KN_U8};
    return true;
}

/* A PARAM of the text form, flat as buffers are. */
static bool input_param(kl_copy *c, kn_ref n, kn_ref *out) {
    kl_program    *p    = c->p;
    int64_t        slot = kg_field(c->from, n, KN_F_PARAM_slot), size = kg_most(c->from, n);
    int            rank, dtype = kg_dtype(c->from, n);
    const int64_t *from = kg_shape(c->from, n, &rank);
    int64_t        dims[KN_MAX_RANK];
    kn_factors     count = {.fixed = 1};
    if (size == INT64_MAX) return kn_fail(c->f, KN_ERR_ARG, "callify: a PARAM of a size without a bound");
    if (!slot_room(c, slot)) return false;
    if (kg_is_variable(c->from, n)) {
        *out           = kg_copy(p->g, c->from, n);
        p->param[slot] = (kl_param){.size = 1, .dtype = dtype, .var = *out};
        return *out != 0;
    }
    p->param[slot] = (kl_param){.size = size, .dtype = dtype};
    for (int i = 0; i < rank; i++) { /* the sizes have been copied before */
        dims[i] = from[i] < 0 ? image_dim(c, (kn_ref)-from[i]) : from[i];
        if (!kg_factor(p->g, &count, dims[i])) return kn_fail(c->f, KN_ERR_UNSUPPORTED, "callify: too many sizes");
    }
    kn_ref flat = kg_first_of(p->g, kg_param(p->g, slot, dtype, &size, 1), kg_product(p->g, &count));
    *out        = kg_reshape(p->g, flat, dims, rank);
    return *out != 0;
}

/* BIND: the variable becomes a PARAM whose value is given at the run. Of a text program it is what it binds. */
static bool variable_param(kl_copy *c, kn_ref n, kn_ref *out) {
    kl_program     *p   = c->p;
    const kn_graph *g   = c->from;
    kn_ref          var = kg_at(g, n, 0), v = kg_at(g, n, 1);
    if (!kg_is_variable(g, var) || kg_op(g, v) != KN_OP_CONST)
        return kn_fail(c->f, KN_ERR_ARG, "callify: BIND takes a number for a variable: a named PARAM of shape ()");
    if (!kg_check_variable(g, var, kg_const_int(g, v), c->f)) return false;
    if (c->text) return (*out = kg_copy(p->g, g, v)) != 0;
    int64_t     w[KN_PARAM_WORDS];
    const char *name = kg_variable_name(g, var);
    if (!add_param(c, n, 1, kg_dtype(g, var), out)) return false;
    memcpy(w, kg_words(g, var, NULL), sizeof w);
    w[KN_F_PARAM_slot] = (int64_t)p->nparam - 1;
    w[KN_F_PARAM_name] = kg_intern_str(p->g, name, strlen(name));
    kn_ref shape       = kg_dims_node(p->g, NULL, 0);
    *out               = kg_make(p->g, KN_OP_PARAM, 0, kg_intern_words(p->g, w, KN_PARAM_WORDS), &shape, 1);
    p->param[p->nparam - 1].var = *out;
    return *out != 0;
}

/* A BUFFER or a slice of one becomes a PARAM; *out stays 0 for any other node. */
static bool make_leaf(kl_copy *c, kn_ref n, kn_ref *out) {
    kn_graph *g = c->from;
    kn_ref    buffer, param;
    int64_t   offset;
    if (kg_op(g, n) == KN_OP_PARAM && kg_space(g, n) == KN_REG) return true; /* something's own: copied */
    if (kg_op(g, n) == KN_OP_PARAM) {
        if (c->text) return input_param(c, n, out);
        if (kg_is_variable(g, n))
            return kn_fail(c->f, KN_ERR_STATE, "the size %s has no value: kn_bind gives it one",
                           kg_variable_name(g, n));
        return kn_fail(c->f, KN_ERR_ARG, "callify: a PARAM outside a FUNCTION");
    }
    if (kg_op(g, n) == KN_OP_BIND) return variable_param(c, n, out);
    if (kg_op(g, n) == KN_OP_BUFFER) return add_param(c, n, kg_field(g, n, KN_F_BUFFER_size), kg_dtype(g, n), out);
    if (!row_slice(c, n, &buffer, &offset)) return true;
    int            rank;
    const int64_t *dims               = kg_shape(g, n, &rank);
    int64_t        w[KN_SLICE_WORDS] = {kg_numel(g, n), kg_dtype(g, n)};
    uint64_t       arg               = kg_intern_words(g, w, KN_SLICE_WORDS);
    kn_ref         off               = kg_idx(g, offset);
    kn_ref         slice = arg ? kg_make(g, KN_OP_SLICE, 0, arg, (kn_ref[]){buffer, off}, 2) : 0;
    if (!slice || !add_param(c, slice, w[0], (int)w[1], &param)) return false;
    *out = kg_reshape(c->p->g, param, dims, rank);
    return *out != 0;
}

/* FUNCTION(TUPLE, args...), and the CALL of a TUPLE, is inlined where GETTUPLE asks for an element. */
static kn_ref inline_element(kl_copy *c, kn_ref get) {
    kn_graph *g  = c->from;
    kn_ref    fn = kg_at(g, get, 0), tuple = kg_op(g, fn) == KN_OP_TUPLE ? fn : kg_at(g, fn, 0);
    kn_ref    element = kg_at(g, tuple, (uint32_t)kg_node(g, get)->arg);
    return fn == tuple ? element : kg_inline(g, fn, element, NULL);
}

/* Of a reduction across devices what it is made of, else n. */
static kn_ref write_out(kl_copy *c, kn_ref n) {
    const kn_graph *g  = c->from;
    int             op = kg_op(g, n);
    if (op != KN_OP_ALLREDUCE && (op != KN_OP_REDUCE || kg_axis(g, kg_at(g, n, 0)) < 0)) return n;
    kn_rw rw;
    kl_rw_begin(c->p, &rw, c->from, c->f);
    n = kn_rewrite_step(&rw, n, KN_G_sharding);
    kl_rw_end(c->p, &rw);
    return n;
}

/* What a STORE stores, as large as its target. */
static kn_ref stored_value(kn_graph *g, kn_ref target, kn_ref value) {
    int            rank, have;
    const int64_t *to = kg_shape(g, target, &rank), *from = kg_shape(g, value, &have);
    int64_t        dims[KN_MAX_RANK], full[KN_MAX_RANK];
    if (kg_numel(g, target) < 0 || kg_numel(g, target) == kg_numel(g, value)) return value;
    for (int i = 0; i < rank; i++) {
        full[i] = to[i];
        dims[i] = i < rank - have ? 1 : from[i - (rank - have)];
    }
    return kg_expand(g, kg_reshape(g, value, dims, rank), full, rank);
}

static bool map_room(kl_copy *c) { /* inlining makes nodes as the walk goes */
    size_t old = c->map_cap;
    if (kg_count(c->from) <= old) return true;
    if (!KN_GROW(c->p->alloc, c->map, c->map_cap, kg_count(c->from))) return kn_oom(c->f);
    memset(c->map + old, 0, (c->map_cap - old) * sizeof *c->map);
    return true;
}

static void callify_begins(kn_graph *to, const kn_graph *from) {
    kg_keep_why(to, kg_why(from));
    kn_why_stage(kg_why(to), "callify");
}

/* Copy root depth first, sources in order; *out is its image. */
static bool copy_tree(kl_copy *c, kn_ref root, kn_ref *out) {
    kn_graph *g = c->from;
    kn_ref   *stack = NULL, *src = NULL;
    size_t    cap = 0, top = 0, src_cap = 0;
    bool      ok = false;
    root         = follow(c, root);
    if (!KN_GROW(c->p->alloc, stack, cap, 64) || !KN_GROW(c->p->alloc, src, src_cap, 8)) goto oom;
    stack[top++] = root;
    while (top) {
        kn_ref n = stack[top - 1], leaf = 0;
        if (!map_room(c)) goto done;
        if (c->map[n]) {
            top--;
            continue;
        }
        if (kg_op(g, n) == KN_OP_PARAM && kg_numel(g, n) < 0 && !c->map[kg_at(g, n, 0)]) { /* its sizes first */
            if (!KN_GROW(c->p->alloc, stack, cap, top + 1)) goto oom;
            stack[top++] = kg_at(g, n, 0);
            continue;
        }
        kg_made_as(c->p->g, g, n);
        if (!make_leaf(c, n, &leaf)) goto done;
        kg_made_as(c->p->g, g, 0);
        if (leaf) {
            if (!map_room(c)) goto done;
            c->map[n] = leaf;
            top--;
            continue;
        }
        uint32_t k = kg_nsrc(g, n);
        if (!KN_GROW(c->p->alloc, stack, cap, top + k + 1) || !KN_GROW(c->p->alloc, src, src_cap, k)) goto oom;
        kn_ref tuple = kg_op(g, n) == KN_OP_GETTUPLE ? kg_at(g, n, 0) : 0;
        bool   host  = tuple && kg_is_custom(g, tuple), passes = host && kg_custom_passes(g, tuple);
        if (tuple && kg_op(g, tuple) != KN_OP_REDUCE && (!host || passes)) {
            kn_ref e = passes ? kg_custom_result(g, tuple, (int)kg_node(g, n)->arg) : inline_element(c, n);
            if (!e || !map_room(c)) goto done;
            e = follow(c, e);
            if ((c->map[n] = c->map[e])) top--;
            else stack[top++] = e;
            continue;
        }
        kn_ref whole = write_out(c, n);
        if (whole != n) {
            if (!whole || !map_room(c)) goto done;
            if ((c->map[n] = c->map[whole])) top--;
            else stack[top++] = whole;
            continue;
        }
        const kn_ref *old   = kg_src(g, n);
        bool          ready = true;
        for (uint32_t i = k; i-- > 0;) {
            kn_ref s = follow(c, old[i]);
            if (c->map[s]) continue;
            stack[top++] = s;
            ready        = false;
        }
        if (!ready) continue;
        for (uint32_t i = 0; i < k; i++) src[i] = c->map[follow(c, old[i])];
        if (kg_op(g, n) == KN_OP_STORE && !(src[1] = stored_value(c->p->g, src[0], src[1]))) goto done;
        if (!(c->map[n] = kg_import(c->p->g, g, n, src, k))) goto done;
        top--;
    }
    *out = c->map[root];
    ok   = true;
    goto done;
oom:
    kn_oom(c->f);
done:
    if (!ok && !kg_fault(c->p->g)->code) kl_stage_fault("callify", g, c->f);
    kn_free(c->p->alloc, stack, cap * sizeof *stack);
    kn_free(c->p->alloc, src, src_cap * sizeof *src);
    return ok;
}

/* The STORE of an assignment root, 0 for a value; *target is the PARAM it writes. */
static kn_ref root_store(const kn_graph *g, kn_ref r, kn_ref *target) {
    while (kg_op(g, r) == KN_OP_RESHAPE) r = kg_at(g, r, 0);
    if (kg_op(g, r) != KN_OP_AFTER) return 0;
    for (uint32_t i = 1; i < kg_nsrc(g, r); i++) {
        kn_ref s = kg_at(g, r, i);
        if (kg_op(g, s) != KN_OP_STORE) continue;
        kn_ref t = kg_at(g, s, 0);
        while (kg_op(g, t) == KN_OP_RESHAPE || kg_op(g, t) == KN_OP_AFTER) t = kg_at(g, t, 0);
        if (kg_op(g, t) != KN_OP_PARAM) return 0;
        *target = t;
        return s;
    }
    return 0;
}

/* STORE(param, value), flat. */
static kn_ref store_result(kl_copy *c, kn_ref value, int *slot) {
    kl_program *p    = c->p;
    int64_t     size = kg_most(p->g, value), count = kg_count_of(p->g, value);
    kn_ref      param;
    if (size == INT64_MAX) return kn_fail(c->f, KN_ERR_SHAPE, "callify: a result of a size without a bound"), 0;
    *slot = (int)p->nparam;
    if (!add_param(c, 0, size, kg_dtype(p->g, value), &param)) return 0;
    return kg_store(p->g, kg_first_of(p->g, param, count), kg_reshape(p->g, value, &count, 1), 0);
}

bool kl_callify(kn_graph *g, const kn_ref *realized, uint32_t nrealized, const kn_ref *roots, int n, kl_program *p,
                kl_binding *b, kn_fault *f) {
    kl_copy c     = {.from = g, .realized = realized, .nrealized = nrealized, .p = p, .b = b, .f = f};
    size_t  bytes = (size_t)(n + 1) * sizeof(kn_ref);
    kn_ref *effects = kn_zalloc(p->alloc, bytes), *image = kn_zalloc(p->alloc, bytes);
    bool    ok = false;
    double  start = kn_now();
    if (!effects || !image || !(p->g = kg_new(p->alloc))) {
        kn_oom(f);
        goto done;
    }
    callify_begins(p->g, g);
    for (int i = 0; i < n; i++)
        if (!copy_tree(&c, roots[i], &image[i])) goto done;
    for (int i = 0; i < n; i++) {
        kn_ref target, store = root_store(p->g, image[i], &target);
        kg_made_of(p->g, p->g, image[i]);
        if (store) {
            effects[i]     = store;
            b->out_slot[i] = (int)kg_field(p->g, target, KN_F_PARAM_slot);
            continue;
        }
        if (!(effects[i] = store_result(&c, image[i], &b->out_slot[i]))) goto done;
    }
    p->root = kg_list(p->g, KN_OP_SINK, effects, n);
    ok      = p->root != 0;
done:
    if (!ok && p->g) kl_stage_fault("callify", p->g, f);
    kn_free(p->alloc, c.map, c.map_cap * sizeof *c.map);
    kn_free(p->alloc, effects, bytes);
    kn_free(p->alloc, image, bytes);
    p->spent[KN_STAGE_CALLIFY] = kn_now() - start;
    return ok;
}

/* Inputs keep their slots, those too that no result needs. */
static bool keep_slots(kl_copy *c, kn_ref root) {
    kl_program *p = c->p;
    kn_ref     *order;
    uint32_t    count;
    bool        ok = true;
    if (!kg_reach_own(c->from, &root, 1, &order, &count)) return kn_oom(c->f);
    for (uint32_t i = 0; i < count && ok; i++) {
        kn_ref n = order[i];
        if (kg_op(c->from, n) != KN_OP_PARAM || kg_space(c->from, n) == KN_REG) continue;
        ok = slot_room(c, kg_field(c->from, n, KN_F_PARAM_slot));
    }
    kn_free(p->alloc, order, count * sizeof *order);
    return ok;
}

bool kl_program_from(kl_program *p, kn_graph *g, kn_ref root, int *out_slot, int cap, int *nout, kn_fault *f) {
    kl_binding b = {0};
    kl_copy    c = {.from = g, .p = p, .b = &b, .text = true, .f = f};
    kn_ref     image = 0, *effects = NULL;
    int        n  = 0;
    bool       ok = false;
    double     start = kn_now();
    *nout         = 0;
    if (!(p->g = kg_new(p->alloc))) return kn_oom(f);
    callify_begins(p->g, g);
    if (!keep_slots(&c, root) || !copy_tree(&c, root, &image)) goto done;
    if (kg_op(p->g, image) == KN_OP_SINK) {
        p->root = image;
        ok      = true;
        goto done;
    }
    kg_made_of(p->g, p->g, image);
    n = kg_op(p->g, image) == KN_OP_TUPLE ? (int)kg_nsrc(p->g, image) : 1;
    if (n > cap) {
        kn_fail(f, KN_ERR_ARG, "callify: more than %d results", cap);
        goto done;
    }
    if (!(effects = kn_zalloc(p->alloc, (size_t)(n + 1) * sizeof *effects))) {
        kn_oom(f);
        goto done;
    }
    for (int i = 0; i < n; i++)
        if (!(effects[i] = store_result(&c, kg_op(p->g, image) == KN_OP_TUPLE ? kg_at(p->g, image, (uint32_t)i) : image,
                                        &out_slot[i])))
            goto done;
    *nout = n;
    ok    = (p->root = kg_list(p->g, KN_OP_SINK, effects, n)) != 0;
done:
    if (!ok) kl_stage_fault("callify", p->g, f);
    kn_free(p->alloc, effects, (size_t)(n + 1) * sizeof *effects);
    kn_free(p->alloc, b.bound, b.cap * sizeof *b.bound);
    kn_free(p->alloc, c.map, c.map_cap * sizeof *c.map);
    p->spent[KN_STAGE_CALLIFY] = kn_now() - start;
    return ok;
}
