/* optimize.c - stage 3: options on the nest.
 *
 * Takes: a kernel over RANGEs. Gives: the same kernel with its loops split, exchanged and typed as k->opts say; chosen
 * by the heuristic first where asked. Holds after: THREAD ranges are outermost; UPCAST, GROUP_REDUCE and UNROLL ranges
 * carry the shape axis that Expand gives them. */
#include "lower/lower.h"

#include "optimize/cost.h"
#include "rules_gen.h"

#include <string.h>

static bool is_flop(const kn_graph *g, kn_ref n) {
    int cls = kn_ops[kg_op(g, n)].cls;
    return kn_is_float(kg_dtype(g, n)) && (cls == KN_CLS_BINARY || cls == KN_CLS_UNARY);
}

/* Floating operations of one step of a reduction. False: out of memory. */
static bool step_flops(kn_graph *g, kn_ref reduce, double *flops) {
    kn_fold_parts p;
    kn_ref       *order;
    uint32_t      n;
    *flops = kn_is_float(kg_dtype(g, reduce));
    if (!kg_is_fold(g, reduce) || !kg_fold_parts(g, kg_at(g, reduce, 0), &p)) return true;
    if (!kg_reach(g, &p.combine, 1, &order, &n)) return false;
    for (uint32_t i = 0; i < n; i++) *flops += is_flop(g, order[i]);
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return true;
}

/* Multiplications, additions and bytes, by the loop counts: for the statistics. */
static bool count_work(kl_kernel *k) {
    kn_ref  *order;
    uint32_t n;
    bool     ok = true;
    if (!kg_reach(k->g, &k->root, 1, &order, &n)) return false;
    k->flops = k->bytes = 0;
    for (uint32_t i = 0; i < n && ok; i++) {
        kn_ref x  = order[i], r[32];
        int    op = kg_op(k->g, x), m = kg_ranges(k->g, op == KN_OP_REDUCE ? kg_at(k->g, x, 0) : x, r, KN_COUNT(r));
        double t  = 1, each = is_flop(k->g, x);
        if (op == KN_OP_REDUCE) ok = step_flops(k->g, x, &each);
        for (int j = 0; j < KN_MIN(m, KN_COUNT(r)); j++) t *= (double)KN_MAX(kg_max(k->g, kg_at(k->g, r[j], 0)), 1);
        k->flops += t * each;
        if (op == KN_OP_PARAM && kg_space(k->g, x) != KN_REG)
            k->bytes += (double)kg_numel(k->g, x) * kn_dsize(kg_dtype(k->g, x));
    }
    kn_free(kg_alloc(k->g), order, n * sizeof *order);
    return ok;
}

static void explain_given(const kl_program *p, const kl_kernel *k, ko_model *model, const kn_nest *nest) {
    ko_cost c;
    ko_predict(model, nest, p->machine, &c);
    kn_str_putf(p->explain, "  > %-18s %12s ", "given by hand", "");
    ko_print_cost(&c, p->explain);
    kn_str_puts(p->explain, "  ");
    ko_print_opts(k->opts, k->nopts, p->explain);
    kn_str_puts(p->explain, "\n");
}

/* Kernels are told by the number of their first call; equal ones, called later, share the options. */
static void explain_kernel(const kl_program *p, const kl_kernel *k) {
    int told = 0;
    kn_str_puts(p->explain, "\noptions of kernel ");
    for (size_t i = 0; i < p->ncall; i++) {
        if (&p->kernel[p->call[i].kernel] != k) continue;
        if (told++) kn_str_putf(p->explain, "%s%d", told > 2 ? ", " : ", also of ", (int)i);
        else kn_str_putf(p->explain, "%d %s", (int)i, k->name);
    }
    if (k->choice.narrow) kn_str_putf(p->explain, ", narrowed %d times for want of registers", k->choice.narrow);
    if (k->choice.lanes > 0) kn_str_puts(p->explain, ", of other lanes, whose code is shorter");
    if (k->choice.lanes < 0) kn_str_puts(p->explain, ", with no rows joined, whose code is shorter");
    kn_str_putf(p->explain, "\n    %-18s %12s  %s\n", "lanes", "accesses", ko_cost_columns);
}

bool kl_optimize(kl_program *p, kl_kernel *k, bool choose, kn_fault *f) {
    kn_nest   nest;
    ko_panels panels = {.next = (int64_t)k->nargs};
    if (!count_work(k)) return kn_oom(f);
    if (p->explain) explain_kernel(p, k);
    if (choose) k->nopts = ko_choose(k->g, k->root, p->machine, &k->choice, k->opts, KN_MAX_OPTS, p->explain, f);
    if (f->code) return false;
    if (!k->nopts) return true;
    if (!ko_nest(k->g, k->root, &nest, f)) return false;
    ko_model *model = p->explain && !choose ? ko_model_new(k->g, k->root, &nest, f) : NULL;
    bool      ok    = !f->code;
    for (int i = 0; i < k->nopts && ok; i++) ok = ko_edit(&nest, &k->opts[i], f);
    if (ok && model) explain_given(p, k, model, &nest);
    ko_model_free(model);
    if (!ok) return false;
    kn_ref root = ko_apply(k->g, k->root, &nest, &panels, f);
    if (!root && choose && f->code != KN_ERR_MEMORY && !kg_fault(k->g)->code) {
        if (p->explain) kn_str_putf(p->explain, "  the loops stay as they are: %s\n", f->text);
        *f       = (kn_fault){0};
        k->nopts = 0;
        return true;
    }
    if (!root) return kl_stage_fault("optimize", k->g, f);
    k->root = root;
    if (!kl_rewrite_kernel(p, k, KN_GROUPS_SIMPLIFY | KN_G_bounds | KN_G_loops, f)) return false;
    return !panels.n || kl_add_panels(p, (size_t)(k - p->kernel), &panels, f);
}
