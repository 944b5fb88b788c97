/* program.c - a text program through the schedule cache: its PARAMs stand over the caller's arrays. */
#include "runtime/program.h"

#include "rules/verify.h"
#include "runtime/inside.h"

#include <string.h>

/* Machine code checks no index: one that bounds do not show to be inside is not compiled. */
static bool program_index(const kn_graph *g, kn_ref n, kn_fault *f) {
    const int64_t *dims = kg_shape(g, kg_at(g, n, 0), NULL);
    for (uint32_t k = 1; k < kg_nsrc(g, n); k++) {
        kn_ref  i     = kg_at(g, n, k);
        int64_t least = dims[k - 1] < 0 ? kg_min(g, (kn_ref)-dims[k - 1]) : dims[k - 1];
        if (kg_numel(g, i) == 0 || (kg_min(g, i) >= 0 && kg_max(g, i) < least)) continue;
        return kn_fail(f, KN_ERR_UNSUPPORTED,
                       "INDEX: index %u may lie outside 0..%lld: bound it by MAX and MIN, or use INTERP", k,
                       (long long)least - 1);
    }
    return true;
}

/* What the compiler makes is not what it takes: a tensor program, of no storage but its PARAMs. */
static bool program_fits(kn_graph *g, kn_ref root, kn_fault *f) {
    kn_ref  *order;
    uint32_t n;
    int      op  = kg_op(g, root);
    kn_fault own = {0};
    if (kg_dtype(g, root) == KN_VOID && op != KN_OP_SINK && op != KN_OP_TUPLE)
        return kn_fail(f, KN_ERR_UNSUPPORTED, "%s has no value: a program ends with a value, a TUPLE or a SINK",
                       kn_ops[op].name);
    if (!kn_verify(g, root, KN_STAGE_TENSOR, &own))
        return kn_fail(f, own.code == KN_ERR_ARG ? KN_ERR_UNSUPPORTED : own.code,
                       "only tensor programs are compiled; INTERP runs any stage: %s", own.text);
    bool ok = true;
    if (!kg_reach(g, &root, 1, &order, &n)) return kn_oom(f);
    for (uint32_t i = 0; i < n && ok; i++) {
        op = kg_op(g, order[i]);
        if (op == KN_OP_INDEX)
            ok = program_index(g, order[i], f);
        else if ((op == KN_OP_CALL && !kg_is_custom(g, order[i]) && !kg_is_kept(g, order[i])) ||
                 op == KN_OP_LINEAR || op == KN_OP_PROGRAM || op == KN_OP_BUFFER ||
                 (op == KN_OP_BIND && !kg_is_variable(g, kg_at(g, order[i], 0))))
            ok =
                kn_fail(f, KN_ERR_UNSUPPORTED, "%s: a program over PARAMs is wanted; INTERP runs any", kn_ops[op].name);
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return ok;
}

/* The value that element i of the program has, its data still to come. */
static bool program_value(const kn_graph *g, kn_ref root, int i, kn_value *v, const kn_alloc *a, kn_fault *f) {
    kn_ref         n     = kg_op(g, root) == KN_OP_TUPLE ? kg_at(g, root, (uint32_t)i) : root;
    const int64_t *dims  = kg_shape(g, n, &v->rank);
    int64_t        bytes = 0;
    v->dtype             = kg_dtype(g, n);
    v->numel             = kg_numel(g, n);
    if (v->rank) memcpy(v->dims, dims, (size_t)v->rank * sizeof *dims);
    if (v->numel < 0 || !kn_mul_ok(KN_MAX(v->numel, 1), kn_dsize(v->dtype), &bytes))
        return kn_fail(f, KN_ERR_SHAPE, "value %d has no size that can be stored", i);
    v->data = kn_zalloc(a, (size_t)bytes); /* as kn_value_free has it */
    return v->data || kn_oom(f);
}

/* What stands behind PARAM k: the caller's array, if it is what the program at these values (now) takes there. */
static bool program_input(const kr_schedule *s, size_t k, const kn_graph *now, kn_ref root, const kn_array *slots,
                          int nslots, kr_place *at, kn_fault *f) {
    const kl_param *q = &s->p.param[k];
    bool            fits = k < (size_t)nslots && slots[k].data;
    int64_t         size = q->size;
    if (q->var) {
        fits = fits && slots[k].size >= 1 && (slots[k].dtype == KN_INDEX || slots[k].dtype == KN_I64);
        if (fits && !kg_check_variable(s->p.g, q->var, *(const int64_t *)slots[k].data, f)) return false;
    } else {
        for (kn_ref n = 1; n <= root; n++)
            if (kg_op(now, n) == KN_OP_PARAM && kg_field(now, n, KN_F_PARAM_slot) == (int64_t)k)
                size = kg_numel(now, n);
        fits = fits && (slots[k].size == size || slots[k].size == q->size) && slots[k].dtype == q->dtype;
    }
    if (!fits) return kn_fail(f, KN_ERR_ARG, "PARAM slot %zu has no array of its size and type", k);
    *at = (kr_place){slots[k].data, 0};
    return true;
}

bool kr_run_program(kr_context *rt, kn_graph *g, kn_ref root, const kn_array *slots, int nslots, kn_value *out,
                    int *nout, kn_fault *f) {
    const kn_alloc *a = kg_alloc(g);
    kl_program      p;
    kr_schedule    *s   = NULL;
    int             cap = *nout, n = 0, made = 0;
    size_t          room = ((size_t)KN_MAX(cap, 0) + 1) * sizeof(int), nparam = 0;
    int            *slot = kn_zalloc(a, room);
    kr_place       *data = NULL;
    kn_graph       *now  = kg_new(a); /* the program at the variables' values, for its sizes */
    kn_ref          at   = 0;
    bool            ok   = slot && now ? program_fits(g, root, f) : kn_oom(f);
    *nout                = 0;
    if (ok) {
        kl_program_init(&p, rt->shared->a);
        if (kl_program_from(&p, g, root, slot, cap, &n, f))
            s = kr_schedule_get(rt, &p, f); /* takes p over */
        else
            kl_program_free(&p);
        ok = s != NULL;
    }
    if (ok && !(at = kn_eval_special(now, g, root, slots, nslots)))
        ok = kn_fail(f, kg_fault(now)->code, "%s", kg_fault(now)->text);
    if (ok) {
        nparam = s->p.nparam;
        data   = kn_zalloc(a, (nparam + 1) * sizeof *data);
        ok     = data || kn_oom(f);
    }
    for (; ok && made < n; made++) {
        memset(&out[made], 0, sizeof *out);
        ok               = program_value(now, at, made, &out[made], a, f);
        data[slot[made]].data = out[made].data;
    }
    for (size_t k = 0; ok && k < nparam; k++) {
        if (data[k].data || !s->p.param[k].size) continue;
        ok = program_input(s, k, now, at, slots, nslots, &data[k], f);
    }
    ok = ok && kr_schedule_run(rt, s, data, f);
    if (ok) *nout = n;
    while (!ok && made-- > 0) kn_value_free(a, &out[made]);
    kn_free(a, data, (nparam + 1) * sizeof *data);
    kn_free(a, slot, room);
    kg_free(now);
    return ok;
}
