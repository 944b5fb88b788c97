/* rangeify.c - stage 2: movement ops become index arithmetic over RANGEs, and the program becomes kernels.
 *
 * Takes: the callified SINK of STOREs. Gives: kernels in an order in which they can run, each a SINK of ENDs over
 *   STOREs of scalar expressions; values written once and read by other kernels live in temporaries.
 * Holds after: no movement op but INDEX; every RANGE is closed by one END or REDUCE; axis ids are dense in each kernel,
 *   output loops first; kernels of one form are one kernel, called several times.
 *
 * fuse.c decides what is computed where; here the decided values are built and the kernels cut out. */
#include "lower/rangeify.h"

#include "rules_gen.h"

#include <string.h>

/* ---- values -------------------------------------------------------------------------------------------------- */

static kn_ref slot_param(kl_fuse *z, int64_t slot) {
    const kl_program *p    = z->p;
    bool              temp = slot >= (int64_t)p->nparam;
    int64_t           size = temp ? p->temp[(size_t)slot - p->nparam].size : p->param[slot].size;
    int               dt   = temp ? p->temp[(size_t)slot - p->nparam].dtype : p->param[slot].dtype;
    return kg_param(z->r, slot, dt, &size, 1);
}

/* The gate is for the memory's sake alone (what stands outside a PAD chooses its zeros): an index that is in bounds
 * without it needs none. */
static kn_ref read_slot(kl_fuse *z, int64_t slot, kn_ref flat, kn_ref gate) {
    kn_ref param = slot_param(z, slot), at = kg_index(z->r, param, &flat, 1);
    if (!gate || !at || kg_in_bounds(z->r, at)) return kg_load(z->r, at);
    return kg_load_gated(z->r, at, kg_int(z->r, kg_dtype(z->r, at), 0), gate);
}

static kn_ref build_bitcast(kl_fuse *z, const kl_use *u, kn_ref n, int dt) {
    static const uint8_t by_size[9] = {[1] = KN_U8, [2] = KN_U16, [4] = KN_U32, [8] = KN_U64};
    kn_graph *r    = z->r;
    int from = kn_dsize(kg_dtype(z->g, kg_at(z->g, n, 0))), to = kn_dsize(dt), us = by_size[from], ut = by_size[to];
    kn_ref    x    = z->use[u->src[0]].value;
    if (from == to) return kg_bitcast(r, x, dt);
    if (from > to) {
        kn_ref piece = kg_op2(r, KN_OP_MOD, u->idx[kg_rank(z->g, n) - 1], kg_idx(r, from / to));
        kn_ref shift = kg_cast(r, kg_op2(r, KN_OP_MUL, piece, kg_idx(r, 8 * to)), us);
        return kg_bitcast(r, kg_cast(r, kg_op2(r, KN_OP_SHR, kg_bitcast(r, x, us), shift), ut), dt);
    }
    kn_ref sum = 0;
    for (int k = 0; k < to / from; k++) {
        kn_ref part = kg_cast(r, kg_bitcast(r, z->use[u->src[k]].value, us), ut);
        part        = k ? kg_op2(r, KN_OP_SHL, part, kg_int(r, ut, 8 * from * k)) : part;
        sum         = sum ? kg_op2(r, KN_OP_OR, sum, part) : part;
    }
    return kg_bitcast(r, sum, dt);
}

/* The element of a stage's buffer that a use, or the use that fills it, speaks of. */
static kn_ref stage_index(kl_fuse *z, const kl_storage *st, const kl_use *u) {
    int            rank;
    const int64_t *dims = kg_shape(z->g, st->node, &rank);
    kn_ref         flat = kg_idx(z->r, 0);
    int64_t        stride = 1;
    for (int a = rank; a-- > 0;) {
        if (!st->staged[a]) continue;
        flat = kg_op2(z->r, KN_OP_ADD, flat, kg_op2(z->r, KN_OP_MUL, u->idx[a], kg_idx(z->r, stride)));
        stride *= kg_most_of(z->g, dims[a]);
    }
    return kl_simplify(z, flat);
}

static kn_ref read_stage(kl_fuse *z, kl_storage *st, const kl_use *u) {
    if (!st->filled) {
        const kl_use *own = &z->use[st->use];
        kn_ref        loop[KN_MAX_RANK], flat = stage_index(z, st, own);
        int64_t       size = 1;
        int           n    = 0, rank;
        const int64_t *dims = kg_shape(z->g, st->node, &rank);
        for (int a = 0; a < rank; a++)
            if (st->staged[a]) loop[n++] = own->idx[a], size *= kg_most_of(z->g, dims[a]);
        st->buffer = kg_buffer(z->r, st->slot, size, kg_dtype(z->g, st->node), 0, KN_LOCAL);
        st->filled = kg_end(z->r, kg_store(z->r, kg_index(z->r, st->buffer, &flat, 1), own->value, 0), loop, n);
    }
    kn_ref at = stage_index(z, st, u);
    return kg_load(z->r, kg_index(z->r, kg_after(z->r, st->buffer, &st->filled, 1), &at, 1));
}

/* A TUPLE, or a REDUCE that GETTUPLE takes. */
static kn_ref build_fold(kl_fuse *z, const kl_use *u, kn_ref n) {
    kn_graph     *r = z->r;
    kn_fold_parts p;
    kn_ref        id[KN_MAX_FOLD], x[KN_MAX_FOLD];
    if (!kg_fold_parts(z->g, kg_at(z->g, n, 0), &p)) return 0;
    for (int k = 0; k < p.n; k++) {
        id[k] = kg_import(r, z->g, p.identity[k], NULL, 0);
        x[k]  = u->src ? z->use[u->src[k]].value : id[k];
        if (!id[k] || !x[k]) return 0;
    }
    if (!u->nrange) return kg_list(r, KN_OP_TUPLE, x, p.n);
    kn_ref one = kg_fold(r, kg_copy(r, z->g, p.combine), id, x, p.n, NULL, 0);
    return one ? kg_reduce_again(r, one, kg_at(r, one, 0), u->range, u->nrange) : 0;
}

static kn_ref build(kl_fuse *z, const kl_use *u, int id) {
    kn_ref n = u->node, v[4];
    int    op = kg_op(z->g, n), dt = kg_dtype(z->g, n);
    if (u->load && z->storage[z->info[n].storage].stage) return read_stage(z, &z->storage[z->info[n].storage], u);
    if (u->load) return read_slot(z, z->storage[z->info[n].storage].slot, kl_flat(z, id), u->gate);
    switch (op) {
    case KN_OP_PARAM:
        if (kg_is_variable(z->g, n)) return kg_copy(z->r, z->g, n);
        return read_slot(z, kg_field(z->g, n, KN_F_PARAM_slot), kl_flat(z, id), u->gate);
    case KN_OP_CONST: return kg_make(z->r, KN_OP_CONST, dt, kg_node(z->g, n)->arg, NULL, 0);
    case KN_OP_RANGE: return u->idx[kg_field(z->g, n, KN_F_RANGE_axis)];
    case KN_OP_PAD: {
        kn_ref zero = kg_int(z->r, dt, 0);
        if (!u->src) return zero;
        return u->valid ? kg_op3(z->r, KN_OP_WHERE, u->valid, z->use[u->src[0]].value, zero) : z->use[u->src[0]].value;
    }
    case KN_OP_STACK: {
        kn_ref x = 0;
        if (!kg_nsrc(z->g, n) || !u->src) return kg_int(z->r, dt, 0); /* never asked for an element */
        for (uint32_t k = kg_nsrc(z->g, n); k-- > 0;) {
            kn_ref val = z->use[u->src[k]].value;
            x = x ? kg_op3(z->r, KN_OP_WHERE, kg_op2(z->r, KN_OP_CMPLT, u->idx[0], kg_idx(z->r, (int64_t)k + 1)), val,
                           x)
                  : val;
        }
        return x;
    }
    case KN_OP_GETTUPLE: return kg_element(z->r, z->use[u->src[0]].value, (int)kg_node(z->g, n)->arg);
    case KN_OP_REDUCE: {
        if (kg_is_fold(z->g, n)) return build_fold(z, u, n);
        int rop = (int)kg_field(z->g, n, KN_F_REDUCE_op);
        if (!u->src) return kg_identity(z->r, rop, dt);
        v[0] = z->use[u->src[0]].value;
        return u->nrange ? kg_reduce_ranges(z->r, v[0], rop, u->range, u->nrange) : v[0];
    }
    case KN_OP_BITCAST: return u->src ? build_bitcast(z, u, n, dt) : kg_int(z->r, dt, 0);
    default: break;
    }
    if (!u->src) return kg_int(z->r, dt, 0); /* of something without elements: never asked for */
    if (!kn_is_alu(op)) return z->use[u->src[0]].value; /* a view: its source at other indices */
    for (uint32_t k = 0; k < kg_nsrc(z->g, n); k++) v[k] = z->use[u->src[k]].value;
    return kg_import(z->r, z->g, n, v, kg_nsrc(z->g, n));
}

static bool build_values(kl_fuse *z) {
    for (uint32_t i = 0; i < z->norder; i++) {
        kg_made_of(z->r, z->g, z->order[i]);
        for (int u = z->info[z->order[i]].use; u >= 0; u = z->use[u].next)
            if (!(z->use[u].value = build(z, &z->use[u], u))) return false;
    }
    return true;
}

/* Promised index values in a finished expression; they may hold promises themselves. */
static kn_ref keep_promises(kl_fuse *z, kn_ref root) {
    if (!z->npromise) return root;
    kn_ref *from = kn_arena_get(&z->arena, z->npromise * sizeof *from),
           *to   = kn_arena_get(&z->arena, z->npromise * sizeof *to);
    if (!from || !to) return kn_oom(z->f), 0;
    for (size_t i = 0; i < z->npromise; i++) {
        from[i] = z->promise[i].leaf;
        to[i]   = kg_cast(z->r, z->use[z->promise[i].use].value, KN_INDEX);
    }
    for (kn_ref before = 0; root && root != before;) {
        before = root;
        root   = kg_substitute(z->r, root, from, to, (int)z->npromise);
    }
    return root;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

static int depth_of(const kl_fuse *z, const kl_use *u) {
    int            rank, d = 0;
    const int64_t *dims = kg_shape(z->g, u->node, &rank);
    for (int i = 0; i < rank; i++) d += dims[i] != 1;
    return d;
}

typedef struct kl_stores {
    kn_ref *store;
    int    *depth;
    size_t  n, cap, dcap;
} kl_stores;

static bool add_store(kl_fuse *z, kl_stores *s, int64_t slot, kn_ref flat, kn_ref value, int depth) {
    kn_ref st = kg_store(z->r, kg_index(z->r, slot_param(z, slot), &flat, 1), value, 0);
    if (!st) return false;
    if (!KN_GROW(z->p->alloc, s->store, s->cap, s->n + 1) || !KN_GROW(z->p->alloc, s->depth, s->dcap, s->n + 1))
        return kn_oom(z->f);
    s->store[s->n]   = st;
    s->depth[s->n++] = depth;
    return true;
}

/* Stores at loop depths, wrapped in the group's loops from the innermost out. */
static kn_ref nest_stores(kl_fuse *z, const kl_group *gr, const kl_stores *s) {
    kn_ref *body = kn_arena_get(&z->arena, (s->n + 1) * sizeof *body), inner = 0;
    int     closed = gr->nrange;
    if (!body) return kn_oom(z->f), 0;
    for (int d = gr->nrange; d >= 0; d--) {
        int n = 0;
        for (size_t i = 0; i < s->n; i++)
            if (s->depth[i] == d) body[n++] = s->store[i];
        if (!n) continue;
        if (inner) {
            inner     = kg_end(z->r, inner, gr->range + d, closed - d);
            body[n++] = inner;
        }
        inner  = n == 1 ? body[0] : kg_list(z->r, KN_OP_GROUP, body, n);
        closed = d;
    }
    inner = kg_end(z->r, inner, gr->range, closed);
    return inner ? kg_list(z->r, KN_OP_SINK, &inner, 1) : 0;
}

/* A value of `group` in the loops of the group that it has merged with. */
static kn_ref in_loops_of(kl_fuse *z, kn_ref value, int group, int g) {
    if (group == g || !(value = keep_promises(z, value))) return value;
    return kg_substitute(z->r, value, z->group[group].range, z->group[g].range, z->group[group].nrange);
}

static kn_ref group_sink(kl_fuse *z, int g) {
    const kl_group *gr = &z->group[g];
    kl_stores       s  = {0};
    kn_ref          sink = 0;
    bool            ok   = true;
    if (gr->copy) {
        const kl_out *o = &z->out[gr->copy - 1];
        kg_made_of(z->r, z->g, o->store);
        int64_t       from = z->storage[z->info[kl_stored_value(z->g, o->store)].storage].slot;
        ok = add_store(z, &s, o->slot, gr->range[0], read_slot(z, from, gr->range[0], 0), 1);
    }
    for (int i = gr->copy ? -1 : gr->storage; i >= 0 && ok; i = z->storage[i].next) {
        const kl_storage *st = &z->storage[i];
        if (st->stage) continue;
        kg_made_of(z->r, z->g, st->node);
        const kl_use *u    = &z->use[st->use];
        kn_ref        flat = in_loops_of(z, kl_flat(z, st->use), st->group, g);
        kn_ref        v    = in_loops_of(z, u->value, st->group, g);
        bool          own  = st->out < 0 || z->out[st->out].via_temp;
        if (own) ok = add_store(z, &s, st->slot, flat, v, depth_of(z, u));
        for (int o = z->info[st->node].out; o >= 0 && ok; o = z->out[o].next)
            if (!z->out[o].via_temp) ok = add_store(z, &s, z->out[o].slot, flat, v, depth_of(z, u));
    }
    if (ok && s.n) sink = nest_stores(z, gr, &s);
    kn_free(z->p->alloc, s.store, s.cap * sizeof *s.store);
    kn_free(z->p->alloc, s.depth, s.dcap * sizeof *s.depth);
    return sink;
}

typedef struct kl_cut { /* copying kernels out of the ranged graph, with a map that is never cleared */
    kn_ref   *map, *stamp, *stack;
    size_t    map_cap, stamp_cap, stack_cap;
    uint32_t  now;
    int64_t   next_axis, next_local;
    kl_arg   *arg; /* of the kernel that is being cut */
    size_t    arg_cap;
} kl_cut;

/* A variable of the kernel: that of the program under the number of an argument. */
static kn_ref variable_arg(kl_kernel *k, const kn_graph *from, kn_ref n, const kn_ref *src) {
    int64_t     w[KN_PARAM_WORDS];
    const char *name = kg_variable_name(from, n);
    memcpy(w, kg_words(from, n, NULL), sizeof w);
    w[KN_F_PARAM_slot] = (int64_t)k->nargs++;
    w[KN_F_PARAM_name] = kg_intern_str(k->g, name, strlen(name));
    return kg_make(k->g, KN_OP_PARAM, 0, kg_intern_words(k->g, w, KN_PARAM_WORDS), src, 1);
}

static kn_ref cut_node(kl_fuse *z, kl_kernel *k, kl_cut *c, kn_ref n, const kn_ref *src, uint32_t nsrc) {
    kl_program *p = z->p;
    if (kg_op(z->r, n) == KN_OP_PARAM && kg_space(z->r, n) != KN_REG) {
        int64_t slot = kg_field(z->r, n, KN_F_PARAM_slot), size = kg_numel(z->r, n);
        if (!KN_GROW(p->alloc, c->arg, c->arg_cap, k->nargs + 1)) return kn_oom(z->f), 0;
        bool temp        = slot >= (int64_t)p->nparam, var = kg_is_variable(z->r, n);
        c->arg[k->nargs] = (kl_arg){temp, temp ? slot - (int64_t)p->nparam : slot, false, var};
        k->symbolic |= var;
        if (var) return variable_arg(k, z->r, n, src);
        return kg_param(k->g, (int64_t)k->nargs++, kg_dtype(z->r, n), &size, 1);
    }
    if (kg_op(z->r, n) == KN_OP_BUFFER)
        return kg_buffer(k->g, c->next_local++, kg_numel(z->r, n), kg_dtype(z->r, n), 0, KN_LOCAL);
    if (kg_op(z->r, n) == KN_OP_RANGE)
        return kg_range(k->g, src[0], c->next_axis++, (int)kg_field(z->r, n, KN_F_RANGE_type));
    return kg_import(k->g, z->r, n, src, nsrc);
}

static kn_ref cut_tree(kl_fuse *z, kl_kernel *k, kl_cut *c, kn_ref root) {
    const kn_alloc *a   = z->p->alloc;
    size_t          top = 0, src_cap = 0;
    kn_ref         *src = NULL, r = 0;
    if (!KN_GROW(a, c->stack, c->stack_cap, 64) || !KN_GROW(a, src, src_cap, 8)) goto oom;
    c->stack[top++] = root;
    while (top) {
        kn_ref n = c->stack[top - 1];
        if (c->stamp[n] == c->now) {
            top--;
            continue;
        }
        uint32_t      m   = kg_nsrc(z->r, n);
        const kn_ref *old = kg_src(z->r, n);
        if (!KN_GROW(a, c->stack, c->stack_cap, top + m + 1) || !KN_GROW(a, src, src_cap, m)) goto oom;
        bool ready = true;
        for (uint32_t i = m; i-- > 0;)
            if (c->stamp[old[i]] != c->now) {
                c->stack[top++] = old[i];
                ready           = false;
            }
        if (!ready) continue;
        for (uint32_t i = 0; i < m; i++) src[i] = c->map[old[i]];
        kg_made_as(k->g, z->r, n);
        if (!(c->map[n] = cut_node(z, k, c, n, src, m))) goto done;
        c->stamp[n] = c->now;
        top--;
    }
    r = c->map[root];
    goto done;
oom:
    kn_oom(z->f);
done:
    kg_made_as(k->g, z->r, 0);
    kn_free(a, src, src_cap * sizeof *src);
    return r;
}

bool kl_name_kernel(kl_program *p, kl_kernel *k, const char *kind) {
    kn_ref  *order;
    uint32_t n;
    bool     reduces = false;
    char text[63] = "";
    size_t   at       = 0;
    if (!kg_reach(k->g, &k->root, 1, &order, &n)) return kn_oom(kg_fault(k->g));
    for (int pass = 0; pass < 2; pass++) /* the loops of ENDs, then those of REDUCEs */
        for (uint32_t i = n; i-- > 0;) {
            int op = kg_op(k->g, order[i]);
            if (op != (pass ? KN_OP_REDUCE : KN_OP_END)) continue;
            reduces |= op == KN_OP_REDUCE;
            for (uint32_t s = 1; s < kg_nsrc(k->g, order[i]); s++) {
                kn_ref b = kg_at(k->g, kg_at(k->g, order[i], s), 0);
                if (at < 40) at += (size_t)snprintf(text + at, sizeof text - at, "_%lld", (long long)kg_max(k->g, b));
            }
        }
    kn_free(p->alloc, order, n * sizeof *order);
    snprintf(k->name, sizeof k->name, "%s%s", kind ? kind : reduces ? "r" : "E", text);
    kn_ref few[1] = {kg_at(k->g, k->root, 0)};
    kg_made_as(k->g, k->g, k->root);
    k->root       = kg_sink(k->g, few, 1, k->name, NULL, 0);
    kg_made_as(k->g, k->g, 0);
    return k->root != 0;
}

/* The group's graph as a kernel's own, and c->arg. */
static bool cut_graph(kl_fuse *z, kl_cut *c, const kl_group *gr, kn_ref sink, kl_kernel *k) {
    if (!(k->g = kg_new(z->p->alloc))) return kn_oom(z->f);
    kg_keep_why(k->g, kg_why(z->r));
    c->now++;
    c->next_axis = c->next_local = 0;
    for (int i = 0; i < gr->nrange; i++)
        if (!cut_tree(z, k, c, gr->range[i])) return kl_stage_fault("rangeify", k->g, z->f);
    /* Outputs are the first PARAMs. */
    kn_ref  *order;
    uint32_t n;
    if (!kg_reach(z->r, &sink, 1, &order, &n)) return kn_oom(z->f);
    bool ok = true;
    for (uint32_t i = 0; i < n && ok; i++)
        if (kg_op(z->r, order[i]) == KN_OP_STORE) ok = cut_tree(z, k, c, kg_at(z->r, kg_at(z->r, order[i], 0), 0));
    for (size_t i = 0; i < k->nargs; i++) c->arg[i].written = true;
    kn_free(z->p->alloc, order, n * sizeof *order);
    ok = ok && (k->root = k->cut = cut_tree(z, k, c, sink));
    return ok || kl_stage_fault("rangeify", k->g, z->f);
}

/* The number of a kernel cut like k, nkernel if there is none. Graphs that know where their nodes come from are all
 * apart. What lowering has added to an older kernel stands behind what was cut. */
static size_t find_kernel(const kl_program *p, const kl_kernel *k) {
    size_t i = kg_why(k->g) ? p->nkernel : 0;
    while (i < p->nkernel && (p->kernel[i].hash != k->hash || p->kernel[i].cut != k->cut ||
                              !kg_graph_begins(p->kernel[i].g, k->g)))
        i++;
    return i;
}

/* One call more: of a kernel like k, which is given up then, or of k itself. True: of a known one. */
static bool add_call(kl_program *p, kl_kernel *k, kl_arg *arg) {
    k->hash             = kg_graph_hash(k->g);
    size_t which        = find_kernel(p, k);
    p->call[p->ncall++] = (kl_call){which, arg};
    bool known          = which < p->nkernel;
    if (known) kg_free(k->g);
    else p->nkernel++;
    return known;
}

static bool cut_kernel(kl_fuse *z, kl_cut *c, int g) {
    kl_program *p    = z->p;
    kn_ref      call = z->group[g].call, sink = call ? 0 : keep_promises(z, group_sink(z, g));
    if (!sink && !call) return z->group[g].empty || (!z->f->code && !kg_fault(z->r)->code);
    size_t old_map = c->map_cap, old_stamp = c->stamp_cap;
    if (!KN_GROW(p->alloc, c->map, c->map_cap, kg_count(z->r)) ||
        !KN_GROW(p->alloc, c->stamp, c->stamp_cap, kg_count(z->r)) ||
        !KN_GROW(p->alloc, p->kernel, p->kernel_cap, p->nkernel + 1) ||
        !KN_GROW(p->alloc, p->call, p->call_cap, p->ncall + 1))
        return kn_oom(z->f);
    memset(c->map + old_map, 0, (c->map_cap - old_map) * sizeof *c->map);
    memset(c->stamp + old_stamp, 0, (c->stamp_cap - old_stamp) * sizeof *c->stamp);
    kl_kernel *k = &p->kernel[p->nkernel];
    *k           = (kl_kernel){.chunks = 1};
    kl_arg *arg  = NULL;
    bool    ok = call ? kl_cut_call(z, g, k, &arg) : cut_graph(z, c, &z->group[g], sink, k);
    if (ok && !call) ok = (arg = kn_arena_copy(&p->args, c->arg, k->nargs * sizeof *arg)) != NULL;
    if (!ok) {
        kg_free(k->g);
        return z->f->code ? false : kn_oom(z->f);
    }
    if (add_call(p, k, arg) || call) return true;
    if (!kl_rewrite_kernel(p, k, KN_GROUPS_SIMPLIFY | KN_G_bounds | KN_G_scans, z->f)) return false;
    if (!kl_merge_loops(p, k) || !kl_split_loops(p, k) || !kl_name_kernel(p, k, NULL))
        return kl_stage_fault("rangeify", k->g, z->f);
    return kl_rewrite_kernel(p, k, KN_GROUPS_SIMPLIFY, z->f);
}

/* ---- the stage ----------------------------------------------------------------------------------------------- */

kn_ref kl_stored_value(const kn_graph *g, kn_ref store) {
    kn_ref v = kg_at(g, store, 1);
    while (kg_op(g, v) == KN_OP_RESHAPE) v = kg_at(g, v, 0);
    return v;
}

/* The first elements of a flat value, as many as a symbolic size says. */
static bool is_first_of(const kn_graph *g, kn_ref n) {
    return kg_op(g, n) == KN_OP_SHRINK && kg_numel(g, n) < 0 && kg_rank(g, n) == 1 &&
           kg_is_const(g, kg_at(g, kg_at(g, n, 1), 0), 0);
}

static bool find_stores(kl_fuse *z) {
    for (uint32_t i = 0; i < z->norder; i++) {
        kn_ref n = z->order[i];
        if (kg_op(z->g, n) != KN_OP_STORE) continue;
        kl_out o = {.store = n, .next = -1};
        kn_ref t = kg_at(z->g, n, 0);
        while (kg_op(z->g, t) == KN_OP_RESHAPE || kg_op(z->g, t) == KN_OP_AFTER || is_first_of(z->g, t)) {
            if (kg_op(z->g, t) == KN_OP_AFTER && !o.before && kg_op(z->g, kg_at(z->g, t, 1)) == KN_OP_STORE)
                o.before = kg_at(z->g, t, 1);
            t = kg_at(z->g, t, 0);
        }
        if (kg_op(z->g, t) != KN_OP_PARAM || kg_nsrc(z->g, n) > 2)
            return kn_fail(z->f, KN_ERR_UNSUPPORTED, "rangeify: a STORE must write a whole buffer");
        o.slot          = kg_field(z->g, t, KN_F_PARAM_slot);
        kl_info *info   = &z->info[kl_stored_value(z->g, n)];
        o.next          = info->out;
        if (!KN_GROW(z->p->alloc, z->out, z->out_cap, z->nout + 1)) return kn_oom(z->f);
        info->out          = (int)z->nout;
        z->out[z->nout++] = o;
    }
    return true;
}

static void fuse_free(kl_fuse *z) {
    const kn_alloc *a = z->p->alloc;
    kn_free(a, z->order, z->norder * sizeof *z->order);
    kn_free(a, z->info, z->ninfo * sizeof *z->info);
    kn_free(a, z->use, z->use_cap * sizeof *z->use);
    kn_free(a, z->out, z->out_cap * sizeof *z->out);
    kn_free(a, z->storage, z->storage_cap * sizeof *z->storage);
    kn_free(a, z->group, z->group_cap * sizeof *z->group);
    kn_free(a, z->read, z->read_cap * sizeof *z->read);
    kn_free(a, z->note, z->note_cap * sizeof *z->note);
    kn_free(a, z->promise, z->promise_cap * sizeof *z->promise);
    kn_free(a, z->range, z->range_cap * sizeof *z->range);
    kn_free(a, z->before, z->before_cap * sizeof *z->before);
    kn_arena_free(&z->arena);
    kl_rw_end(z->p, &z->rw);
    kg_free(z->r);
}

/* What each group writes, values first: the inner ones were met last. */
static void list_storage(kl_fuse *z) {
    for (size_t g = 0; g < z->ngroup; g++) z->group[g].storage = -1;
    for (size_t i = 0; i < z->nstorage; i++) {
        kl_group *gr       = &z->group[kl_group_of(z, z->storage[i].group)];
        z->storage[i].next = gr->storage;
        gr->storage        = (int)i;
    }
}

bool kl_rangeify(kl_program *p, kn_fault *f) {
    kl_fuse z     = {.p = p, .g = p->g, .f = f};
    kl_cut  c     = {0};
    int    *order = NULL, *kernel_of = NULL, count = 0;
    bool    ok    = false;
    kn_arena_init(&z.arena, p->alloc);
    if (!(z.r = kg_new(p->alloc))) return kn_oom(f);
    kg_keep_why(z.r, kg_why(z.g));
    kg_made_of(z.r, z.g, p->root);
    kl_rw_begin(p, &z.rw, z.r, f);
    z.ninfo      = kg_count(z.g);
    if (!kg_reach(z.g, &p->root, 1, &z.order, &z.norder) || !(z.info = kn_zalloc(p->alloc, z.ninfo * sizeof *z.info)))
        goto oom;
    for (size_t i = 0; i < z.ninfo; i++) z.info[i].use = z.info[i].storage = z.info[i].out = -1;
    if (!find_stores(&z) || !kl_decide(&z) || !kl_hazards(&z) || !kl_merge(&z) || !build_values(&z)) goto done;
    if (!(order = kn_arena_get(&z.arena, (z.ngroup + 1) * sizeof *order))) goto oom;
    if (!kl_group_order(&z, order, &count)) goto done;
    list_storage(&z);
    if (!(kernel_of = kn_arena_get(&z.arena, (z.ngroup + 1) * sizeof *kernel_of))) goto oom;
    ok = true;
    for (int i = 0; i < count && ok; i++) {
        size_t before       = p->ncall;
        kernel_of[order[i]] = -1;
        if (z.group[order[i]].into) continue;
        ok = cut_kernel(&z, &c, order[i]);
        if (p->ncall > before) kernel_of[order[i]] = (int)before;
    }
    for (size_t g = 0; g < z.ngroup; g++) kernel_of[g] = kernel_of[kl_group_of(&z, (int)g)];
    if (ok && p->explain) ok = kl_explain(&z, kernel_of);
    goto done;
oom:
    kn_oom(f);
done:
    if (!ok) kl_stage_fault("rangeify", z.r, f);
    kn_free(p->alloc, c.map, c.map_cap * sizeof *c.map);
    kn_free(p->alloc, c.stamp, c.stamp_cap * sizeof *c.stamp);
    kn_free(p->alloc, c.stack, c.stack_cap * sizeof *c.stack);
    kn_free(p->alloc, c.arg, c.arg_cap * sizeof *c.arg);
    fuse_free(&z);
    return ok;
}
