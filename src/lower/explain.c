/* explain.c - what fuse.c weighed, as text: a line a value that could have been put elsewhere.
 *
 * Takes: the choices kept while they were made, and the kernels that came of them. Values are numbered as a dump after
 * Callify numbers them; E says for each kernel how often it evaluates or reads an element. */
#include "lower/rangeify.h"
#include "optimize/cost.h"

#include <string.h>

static const char *const place_names[KL_PLACES] = {"in place", "stage", "store"};

/* Nothing to decide: one use and no reduction, or nothing that storage could hold. */
static bool is_plain(const kl_fuse *z, kn_ref n) {
    const kl_choice *c = z->info[n].choice;
    if (c->settled) return c->place == KL_INLINE;
    return c->place == KL_INLINE && kg_op(z->g, n) != KN_OP_REDUCE && z->info[n].nuse < 2 && c->cost[KL_INLINE] <= 0;
}

static void put_value(const kl_fuse *z, kn_ref n, uint32_t number, kn_str *out) {
    size_t         start = out->len;
    int            rank;
    const int64_t *dims = kg_shape(z->g, n, &rank);
    kn_str_putf(out, "  %%%-4u %s", (unsigned)number, kn_ops[kg_op(z->g, n)].name);
    if (kg_op(z->g, n) == KN_OP_REDUCE) kn_str_putf(out, " %s", kn_ops[kg_field(z->g, n, KN_F_REDUCE_op)].name);
    kn_str_putf(out, " %s", kn_dtypes[kg_dtype(z->g, n)].name);
    for (int i = 0; i < rank; i++) kn_str_putf(out, "%s%lld", i ? "," : "[", (long long)dims[i]);
    kn_str_puts(out, rank ? "]" : "");
    do kn_str_puts(out, " ");
    while (out->len - start < 38 && !out->failed);
}

/* "0: 1, 2: 3.50": who evaluates or reads how often. */
static void put_users(const kl_fuse *z, kn_ref n, const int *kernel_of, kn_str *out) {
    const kl_info *info   = &z->info[n];
    double         size   = (double)kg_most(z->g, n);
    bool           loaded = info->choice->place != KL_INLINE;
    size_t         start  = out->len;
    int            shown  = 0;
    for (int g = 0; g < (int)z->ngroup; g++) {
        double evals = 0;
        for (int u = info->use; u >= 0; u = z->use[u].next)
            if (z->use[u].group == g && z->use[u].load == loaded) evals += z->use[u].evals;
        if (evals <= 0) continue;
        if (shown++ == 3) {
            kn_str_puts(out, " ...");
            break;
        }
        int64_t hundredths = (int64_t)KN_MIN(evals / size * 100 + 0.5, 1e15);
        kn_str_putf(out, "%s%d: %lld.%02lld", shown > 1 ? " " : "", kernel_of[g], (long long)(hundredths / 100),
                    (long long)(hundredths % 100));
    }
    while (out->len - start < 22 && !out->failed) kn_str_puts(out, " ");
}

static void put_choice(const kl_fuse *z, kn_ref n, const int *kernel_of, kn_str *out) {
    const kl_choice *c   = z->info[n].choice;
    const char      *sep = " (";
    for (int p = 0; p < KL_PLACES; p++) {
        kn_str_puts(out, "  ");
        if (c->settled || c->cost[p] < 0) kn_str_puts(out, "        -");
        else ko_print_time(c->cost[p], out);
    }
    int storage = z->info[n].storage;
    if (c->place == KL_ROOT && storage >= 0)
        kn_str_putf(out, "  in kernel %d", kernel_of[z->storage[storage].group]);
    else kn_str_putf(out, "  %s", place_names[c->place]);
    if (c->settled) kn_str_putf(out, " (%s)", c->settled);
    for (int p = 0; p < KL_PLACES && !c->settled; p++) {
        if (!c->illegal[p]) continue;
        kn_str_putf(out, "%s%s: %s", sep, place_names[p], c->illegal[p]);
        sep = "; ";
    }
    kn_str_puts(out, *sep == ';' ? ")\n" : "\n");
}

/* Of kernels that have merged since, a refusal stands for all their pairs. */
static bool told_before(const kl_fuse *z, const int *kernel_of, size_t i) {
    const kl_merge_note *n = &z->note[i];
    int                  a = kernel_of[n->a], b = kernel_of[n->b];
    for (size_t j = 0; j < i; j++) {
        int c = kernel_of[z->note[j].a], d = kernel_of[z->note[j].b];
        if (z->note[j].why == n->why && ((a == c && b == d) || (a == d && b == c))) return true;
    }
    return a == b;
}

static void explain_merges(const kl_fuse *z, const int *kernel_of, const uint32_t *number, kn_str *out) {
    if (!z->nnote) return;
    kn_str_putf(out, "\n%-38s%12s  %9s  %9s  %s\n", "kernels that read the same", "bytes", "apart", "as one",
                "outcome");
    for (size_t i = 0; i < z->nnote; i++) {
        const kl_merge_note *n = &z->note[i];
        if (n->why && told_before(z, kernel_of, i)) continue;
        put_value(z, n->node, number[n->node], out);
        kn_str_putf(out, "%12.0f  ", n->bytes);
        if (n->apart > 0) ko_print_time(n->apart, out);
        else kn_str_puts(out, "        -");
        kn_str_puts(out, "  ");
        if (n->apart > 0) ko_print_time(n->together, out);
        else kn_str_puts(out, "        -");
        if (n->why) kn_str_putf(out, "  kernels %d and %d: %s\n", kernel_of[n->a], kernel_of[n->b], n->why);
        else kn_str_putf(out, "  merged into kernel %d\n", kernel_of[n->a]);
    }
}

bool kl_explain(kl_fuse *z, const int *kernel_of) {
    kn_str   *out    = z->p->explain;
    uint32_t *number = kg_numbers(z->g, z->p->root);
    int       plain  = 0;
    if (!number) return kn_oom(z->f);
    kn_machine_print(z->p->machine, out);
    kn_str_putf(out, "\n%-38s%-22s  %9s  %9s  %9s  %s\n", "values", "kernel: E", "in place", "stage", "store",
                "chosen");
    for (uint32_t i = 0; i < z->norder; i++) {
        kn_ref n = z->order[i];
        if (!z->info[n].choice) continue;
        if (is_plain(z, n)) {
            plain++;
            continue;
        }
        put_value(z, n, number[n], out);
        put_users(z, n, kernel_of, out);
        put_choice(z, n, kernel_of, out);
    }
    kn_str_putf(out, "  %d others: views, index arithmetic, and values of one use, in place\n", plain);
    explain_merges(z, kernel_of, number, out);
    kn_free(kg_alloc(z->g), number, ((size_t)z->p->root + 1) * sizeof *number);
    return !out->failed || kn_oom(z->f);
}
