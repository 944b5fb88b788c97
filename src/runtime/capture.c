/* capture.c - runs repeated without a graph.
 *
 * Contract: a capture holds the schedule of its roots and, for every PARAM, the buffer behind it and the place in it. A
 * replay looks the bytes up and calls the kernels: it builds no nodes, matches nothing and allocates nothing. Buffers
 * that the caller has released are noticed, by their slots. */
#include "runtime/inside.h"

typedef struct capture_param {
    int     source; /* of a variable: its number */
    int64_t offset; /* bytes into the source */
} capture_param;

struct kr_capture {
    kr_context    *rt;
    kr_schedule   *s;
    capture_param *param;
    kr_place      *at; /* a replay's: what stands behind each PARAM */
    size_t         nparam;
    kr_source     *source;
    size_t         nsource, source_cap;
    kr_variable   *var;
    size_t         nvar, var_cap;
};

void kr_capture_free(kr_capture *c) {
    if (!c) return;
    const kn_alloc *a = c->rt->a;
    kn_free(a, c->param, (c->nparam + 1) * sizeof *c->param);
    kn_free(a, c->at, (c->nparam + 1) * sizeof *c->at);
    kn_free(a, c->source, c->source_cap * sizeof *c->source);
    kn_free(a, c->var, c->var_cap * sizeof *c->var);
    kn_free(a, c, sizeof *c);
}

kr_source *kr_capture_sources(kr_capture *c, int *n) {
    *n = (int)c->nsource;
    return c->source;
}

kr_variable *kr_capture_variables(kr_capture *c, int *n) {
    *n = (int)c->nvar;
    return c->var;
}

static bool capture_variable(kr_capture *c, const kn_graph *g, kn_ref bind, size_t k, kn_fault *f) {
    kn_ref var = kg_at(g, bind, 0);
    if (!KN_GROW(c->rt->a, c->var, c->var_cap, c->nvar + 1)) return kn_oom(f);
    kr_variable *v = &c->var[c->nvar];
    *v             = (kr_variable){.min   = kg_field(g, var, KN_F_PARAM_min),
                                   .max   = kg_field(g, var, KN_F_PARAM_max),
                                   .value = kg_const_int(g, kg_at(g, bind, 1))};
    snprintf(v->name, sizeof v->name, "%s", kg_variable_name(g, var));
    c->param[k].source = (int)c->nvar++;
    return true;
}

static int capture_source(kr_capture *c, int64_t slot, kn_ref node) {
    for (size_t i = 0; i < c->nsource; i++)
        if (c->source[i].slot == slot) return (int)i;
    if (!KN_GROW(c->rt->a, c->source, c->source_cap, c->nsource + 1)) return -1;
    c->source[c->nsource] = (kr_source){.slot = slot, .node = node};
    return (int)c->nsource++;
}

/* The buffer behind PARAM k: the one it is bound to, or a new one for the value of a root. */
static bool capture_bind(kr_capture *c, kn_graph *g, const kl_binding *b, size_t k, kn_fault *f) {
    const kl_param *p    = &c->s->p.param[k];
    kn_ref          node = b->bound[k];
    int64_t         slot = 0, offset = 0;
    if (p->var) return capture_variable(c, g, node, k, f);
    if (!node) {
        uint32_t dev = kg_intern_str(g, kn_str_c(&c->rt->device), c->rt->device.len);
        if (!(slot = kr_buffer_new(c->rt, p->size, p->dtype, f))) return false;
        if (!(b->bound[k] = node = kg_buffer(g, slot, p->size, p->dtype, dev, KN_GLOBAL))) {
            kr_buffer_release(c->rt, slot);
            return kl_stage_fault("capture", g, f);
        }
    } else if (kg_op(g, node) == KN_OP_SLICE) {
        offset = kg_const_int(g, kg_at(g, node, 1)) * kn_dsize(p->dtype);
        node   = kg_at(g, node, 0);
    }
    slot        = kg_field(g, node, KN_F_BUFFER_slot);
    c->param[k] = (capture_param){capture_source(c, slot, node), offset};
    return c->param[k].source >= 0 || kn_oom(f);
}

kr_capture *kr_capture_new(kr_context *rt, kn_graph *g, const kn_ref *realized, uint32_t nrealized, const kn_ref *roots,
                           int n, kn_ref *results, kn_fault *f) {
    kl_program  p;
    kl_binding  b     = {0};
    size_t      bytes = ((size_t)KN_MAX(n, 0) + 1) * sizeof *b.out_slot;
    kr_capture *c     = kn_zalloc(rt->a, sizeof *c);
    bool        ok    = c && (b.out_slot = kn_zalloc(rt->a, bytes));
    if (!ok) kn_oom(f);
    if (c) c->rt = rt;
    if (ok) {
        kl_program_init(&p, rt->shared->a);
        ok = kl_callify(g, realized, nrealized, roots, n, &p, &b, f);
        if (!ok) kl_program_free(&p);
    }
    ok = ok && (c->s = kr_schedule_get(rt, &p, f)) != NULL;
    if (ok) {
        c->nparam = c->s->p.nparam;
        c->param  = kn_zalloc(rt->a, (c->nparam + 1) * sizeof *c->param);
        c->at     = kn_zalloc(rt->a, (c->nparam + 1) * sizeof *c->at);
        ok        = (c->param && c->at) || kn_oom(f);
    }
    for (size_t k = 0; ok && k < c->nparam; k++) ok = capture_bind(c, g, &b, k, f);
    for (int i = 0; ok && i < n; i++) {
        c->source[c->param[b.out_slot[i]].source].written = true;
        results[i]                                        = b.bound[b.out_slot[i]];
    }
    kn_free(rt->shared->a, b.bound, b.cap * sizeof *b.bound);
    kn_free(rt->a, b.out_slot, bytes);
    if (ok) return c;
    kr_capture_free(c); /* buffers made for results go with the sweep: no tensor reaches them */
    return NULL;
}

bool kr_replay(kr_capture *c, kn_fault *f) {
    for (size_t k = 0; k < c->nparam; k++) {
        if (c->s->p.param[k].var) {
            c->at[k] = (kr_place){&c->var[c->param[k].source].value, 0};
            continue;
        }
        const kr_source *s = &c->source[c->param[k].source];
        if (!kr_buffer_at(c->rt, s->slot, s->offset + c->param[k].offset, c->s->p.param[k].written, &c->at[k], f))
            return false;
    }
    return kr_schedule_run(c->rt, c->s, c->at, f);
}
