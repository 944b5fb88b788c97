/* corpus.c - reads the corpus and judges whether its programs are fit to compare engines by. */
#define _GNU_SOURCE
#include "corpus.h"
#include "dialect/fill.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ----------------------------------------------------------------------------------------------------- */

int corpus_each_in(const char *file, char *text, void (*fn)(const corpus_program *, void *), void *user) {
    char *p = strstr(text, "--- ");
    int   n = 0;
    while (p) {
        char *name = p + 4, *end = strchr(name, '\n');
        if (!end) return n;
        *end       = 0;
        char *next = strstr(end + 1, "\n--- ");
        if (next) *next = 0;
        fn(&(corpus_program){file, name, end + 1}, user);
        n++;
        p = next ? next + 1 : NULL;
    }
    return n;
}

static int is_program_file(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 3 && !strcmp(e->d_name + n - 3, ".kn");
}

int corpus_each(const char *folder, void (*fn)(const corpus_program *p, void *user), void *user) {
    struct dirent **files;
    int             n = 0, count = scandir(folder, &files, is_program_file, alphasort);
    if (count < 0) {
        fprintf(stderr, "%s: no corpus\n", folder);
        return -1;
    }
    for (int i = 0; i < count; i++) {
        char     path[1024], *text;
        size_t   size;
        kn_fault f = {0};
        snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name);
        if (kn_read_file(NULL, path, &text, &size, &f)) {
            if (n >= 0) n += corpus_each_in(files[i]->d_name, text, fn, user);
            kn_free(NULL, text, size + 1);
        } else {
            fprintf(stderr, "%s\n", f.text);
            n = -1;
        }
        free(files[i]);
    }
    free(files);
    return n;
}

/* ---- programs -------------------------------------------------------------------------------------------------- */

static double dtype_tolerance(int dt) {
    switch (dt) {
    case KN_F64: return 1e-9;
    case KN_F16: return 4e-3;
    case KN_BF16: return 3e-2;
    case KN_F8E4M3: return 0.2;
    case KN_F8E5M2: return 0.5;
    default: return 2e-4;
    }
}

static int64_t variable_at(const kn_graph *g, kn_ref var, unsigned point) {
    int64_t lo = kg_min(g, var), hi = kg_max(g, var);
    switch (point % 4) {
    case 0: return (lo + hi) / 2;
    case 1: return lo;
    case 2: return hi;
    default: return KN_MIN(lo + 1, hi);
    }
}

bool corpus_open(const char *text, corpus_case *c, kn_fault *f) { return corpus_open_at(text, 0, c, f); }

bool corpus_open_at(const char *text, unsigned point, corpus_case *c, kn_fault *f) {
    *c = (corpus_case){.g = kg_new(NULL)};
    if (!c->g) return kn_oom(f);
    if (!(c->root = kg_parse(c->g, text, strlen(text), f))) return false;
    uint32_t n;
    kn_ref  *node;
    bool     symbolic = false;
    if (!kg_reach_own(c->g, &c->root, 1, &node, &n)) return kn_oom(f);
    for (uint32_t i = 0; i < n; i++) {
        int dt = kg_dtype(c->g, node[i]);
        if (kn_is_float(dt)) c->tolerance = fmax(c->tolerance, dtype_tolerance(dt));
        if (kg_op(c->g, node[i]) != KN_OP_PARAM) continue;
        int64_t k = kg_field(c->g, node[i], KN_F_PARAM_slot), size = kg_most(c->g, node[i]);
        if (k < 0 || k >= CORPUS_MAX || size < 0 || size > 1 << 22) {
            kn_fail(f, KN_ERR_ARG, "PARAM slot %lld is not fit for the corpus", (long long)k);
            break;
        }
        if (c->param[k] && (c->slot[k].size != size || c->slot[k].dtype != dt)) {
            kn_fail(f, KN_ERR_ARG, "PARAM slot %lld stands for two arrays", (long long)k);
            break;
        }
        if (c->param[k]) continue;
        c->param[k] = node[i];
        c->slot[k]  = (kn_array){calloc((size_t)size + 1, (size_t)kn_dsize(dt)), size, dt};
        c->nslots   = KN_MAX(c->nslots, (int)k + 1);
        if (kg_is_variable(c->g, node[i])) {
            symbolic = true;
            kn_store_scalar(c->slot[k].data, dt, (kn_scalar){.i = variable_at(c->g, node[i], point + (unsigned)k)});
        } else {
            kn_fill(c->slot[k].data, size, dt, KN_FILL_RAND, (uint64_t)k + 1);
        }
    }
    kn_free(NULL, node, n * sizeof *node);
    for (int k = 0; k < c->nslots && !f->code; k++)
        if (!c->param[k]) kn_fail(f, KN_ERR_ARG, "PARAM slot %d is missing", k);
    c->now      = c->g;
    c->now_root = c->root;
    if (symbolic && !f->code) {
        c->now      = kg_new(NULL);
        c->now_root = c->now ? kn_eval_special(c->now, c->g, c->root, c->slot, c->nslots) : 0;
        if (!c->now_root) kn_fail(f, KN_ERR_ARG, "at its variables' values: %s", kg_fault(c->now)->text);
    }
    return f->code == KN_OK;
}

void corpus_close(corpus_case *c) {
    for (int k = 0; k < CORPUS_MAX; k++) free(c->slot[k].data);
    free(c->exact);
    if (c->now != c->g) kg_free(c->now);
    kg_free(c->g);
}

/* ---- conditioning ---------------------------------------------------------------------------------------------- */

typedef struct judge {
    corpus_case *c;
    kn_value    *value; /* by node; data NULL: none */
    uint8_t     *exact; /* every engine computes the same bits */
    double      *rough; /* what a float may be off by, relatively */
} judge;

static kn_scalar value_at(const judge *j, kn_ref n, const kn_value *of, int64_t flat) {
    const kn_value *v     = &j->value[n];
    int64_t         index = 0, stride = 1;
    for (int d = v->rank - 1, e = of->rank - 1; d >= 0; d--, e--) { /* broadcast: axes aligned at the end */
        int64_t at = flat % of->dims[e];
        flat /= of->dims[e];
        if (v->dims[d] != 1) index += at * stride;
        stride *= v->dims[d];
    }
    return kn_load_scalar((const char *)v->data + index * kn_dsize(v->dtype), v->dtype);
}

/* A constant that is a small multiple of 1/8. */
static bool is_round(const kn_graph *g, kn_ref n) {
    double v = kg_op(g, n) == KN_OP_CONST ? kg_const_float(g, n) * 8 : 0.5;
    return v == nearbyint(v) && fabs(v) <= 8192;
}

/* Values of so few digits that no rounding can have made them. */
static bool is_short(const judge *j, kn_ref n) {
    const kn_value *v = &j->value[n];
    if (v->dtype != KN_F32 && v->dtype != KN_F64) return false;
    for (int64_t i = 0; i < v->numel; i++) {
        int    e;
        double m = ldexp(frexp(kn_load_scalar((const char *)v->data + i * kn_dsize(v->dtype), v->dtype).f, &e), 20);
        if (m != nearbyint(m)) return false;
    }
    return true;
}

static bool is_exact(const judge *j, kn_ref n) {
    const kn_graph *g  = j->c->now;
    int             op = kg_op(g, n);
    if (!kn_is_float(kg_dtype(g, n))) return true; /* integers and bools: their float sources are judged apart */
    for (uint32_t k = 0; k < kg_nsrc(g, n); k++)
        if (!j->exact[kg_at(g, n, k)]) return false;
    if (kn_is_movement(op) && op != KN_OP_BITCAST) return true;
    switch (op) {
    case KN_OP_PARAM:
    case KN_OP_CONST:
    case KN_OP_NEG:
    case KN_OP_MAX:
    case KN_OP_MIN:
    case KN_OP_WHERE:
    case KN_OP_CAST:
    case KN_OP_TRUNC:
    case KN_OP_DETACH:
    case KN_OP_LOAD:
    case KN_OP_CONTIGUOUS_BACKWARD: return true;
    /* inputs are small multiples of 1/64: sums, and products with simple constants, do not round in a wide type */
    case KN_OP_ADD:
    case KN_OP_SUB: return is_short(j, n);
    case KN_OP_REDUCE:
        return kg_field(g, n, KN_F_REDUCE_op) == KN_OP_MAX || kg_field(g, n, KN_F_REDUCE_op) == KN_OP_MIN;
    case KN_OP_MUL: return is_short(j, n) && (is_round(g, kg_at(g, n, 0)) || is_round(g, kg_at(g, n, 1)));
    default: return false;
    }
}

/* What is wrong with element i of node n, NULL if nothing. */
static const char *judge_element(const judge *j, kn_ref n, int64_t i) {
    const kn_graph *g   = j->c->now;
    const kn_value *of  = &j->value[n];
    const kn_ref   *src = kg_src(g, n);
    int             op = kg_op(g, n), dt = kg_dtype(g, n);
    double          most    = dt == KN_F8E4M3 ? 200 : dt == KN_F16 || dt == KN_F8E5M2 ? 2000 : 1e5;
    bool            counted = op == KN_OP_CAST && !kn_is_float(kg_dtype(g, src[0])); /* rounds once, alike everywhere */
    if (kn_is_float(dt) && !(fabs(value_at(j, n, of, i).f) <= (counted ? 1e20 : most)) && !j->exact[n])
        return "is too large or no number";
    if (!kg_nsrc(g, n) || !kn_is_float(kg_dtype(g, src[0]))) return NULL;
    double coarse = j->rough[src[0]] * 4;
    if (kn_ops[op].cls == KN_CLS_BINARY) coarse = fmax(coarse, j->rough[src[1]] * 4);
    double a      = kn_is_alu(op) ? value_at(j, src[0], of, i).f : 0;
    double b      = kn_ops[op].cls == KN_CLS_BINARY ? value_at(j, src[1], of, i).f : 0;
    switch (op) {
    case KN_OP_CMPLT:
    case KN_OP_CMPNE:
    case KN_OP_CMPGT:
    case KN_OP_CMPGE:
    case KN_OP_CMPLE:
    case KN_OP_CMPEQ:
        if (j->exact[src[0]] && j->exact[src[1]]) return NULL;
        if (a == b && (kg_op(g, src[1]) == KN_OP_MAX && kg_at(g, src[1], 1) == src[0])) return NULL; /* relu's 0 */
        return fabs(a - b) > coarse * fmax(1, fmax(fabs(a), fabs(b))) ? NULL : "compares values that are nearly equal";
    case KN_OP_CAST:
    case KN_OP_TRUNC:
        if (j->exact[src[0]] || (op == KN_OP_CAST && kn_is_float(dt))) return NULL;
        return fabs(a - nearbyint(a)) > coarse * fmax(1, fabs(a)) ? NULL : "converts a value that is nearly an integer";
    case KN_OP_DIV: return fabs(b) > 0.05 ? NULL : "divides by nearly zero";
    case KN_OP_RECIP: return fabs(a) > 0.05 ? NULL : "divides by nearly zero";
    case KN_OP_LOG2:
    case KN_OP_POW: return a > 0.05 ? NULL : "takes the logarithm of nearly zero";
    case KN_OP_SQRT: return a > 0.001 || (a == 0 && j->exact[src[0]]) ? NULL : "takes the root of nearly zero";
    case KN_OP_SIN: return fabs(a) < 100 ? NULL : "takes the sine of a large value";
    case KN_OP_EXP2: return a < 16 ? NULL : "raises 2 to a large value";
    default: return NULL;
    }
}

/* A body that compares floats wants numbers, for what is none has no identity, and exact ones where integers hang on
 * it. NULL: fine. */
static const char *judge_body(const judge *j, kn_ref function) {
    const kn_graph *g    = j->c->now;
    kn_ref          body = kg_at(g, function, 0), *order;
    uint32_t        n;
    bool            compares = false, picks = false;
    if (!kg_reach(g, &body, 1, &order, &n)) return "is too large";
    for (uint32_t i = 0; i < n; i++) {
        int op = kg_op(g, order[i]);
        compares |= (op == KN_OP_CMPLT || op == KN_OP_CMPNE || op == KN_OP_CMPGT || op == KN_OP_CMPGE ||
                     op == KN_OP_CMPLE || op == KN_OP_CMPEQ) &&
                    kn_is_float(kg_dtype(g, kg_at(g, order[i], 0)));
        picks |= op == KN_OP_WHERE && !kn_is_float(kg_dtype(g, order[i]));
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    for (uint32_t k = 1; compares && k < kg_nsrc(g, function); k++) {
        kn_ref          x = kg_at(g, function, k);
        const kn_value *v = &j->value[x];
        if (!kn_is_float(kg_dtype(g, x))) continue;
        if (picks && !j->exact[x]) return "compares in its body what was rounded";
        for (int64_t i = 0; v->data && i < v->numel; i++)
            if (isnan(kn_load_scalar((const char *)v->data + i * kn_dsize(v->dtype), v->dtype).f))
                return "compares in its body what is no number";
    }
    return NULL;
}

bool corpus_conditioned(corpus_case *c, char *why, size_t cap) {
    kn_value value[CORPUS_MAX];
    int      n;
    bool     ok = corpus_judge(c, value, &n, why, cap);
    for (int k = 0; k < n; k++) kn_value_free(NULL, &value[k]);
    return ok;
}

/* The node that is the program's k-th value, 0 behind the last. */
static kn_ref result_node(const kn_graph *g, kn_ref root, uint32_t k) {
    int op = kg_op(g, root);
    if (op != KN_OP_TUPLE && op != KN_OP_SINK) return k ? 0 : root;
    if (k >= kg_nsrc(g, root)) return 0;
    kn_ref x = kg_at(g, root, k);
    return op == KN_OP_SINK ? kg_at(g, x, 1) : x;
}

static void take_results(const corpus_case *c, const kn_value *value, kn_value *result, int *n) {
    for (*n = 0; *n < CORPUS_MAX; ++*n) {
        kn_ref x = result_node(c->now, c->now_root, (uint32_t)*n);
        if (!x) break;
        size_t bytes = (size_t)value[x].numel * (size_t)kn_dsize(value[x].dtype);
        result[*n]      = value[x];
        result[*n].data = kn_realloc(NULL, NULL, 0, bytes + 1);
        if (bytes) memcpy(result[*n].data, value[x].data, bytes);
    }
}

enum { BODIES = 64 };

/* The body of a function, 0: n is none, or a fold's combine. */
static kn_ref body_of(const kn_graph *g, kn_ref n, const kn_ref *node, uint32_t count) {
    if (kg_is_kept(g, n)) return kg_at(g, n, 0);
    if (kg_op(g, n) != KN_OP_FUNCTION || kg_op(g, kg_at(g, n, 0)) != KN_OP_TUPLE) return 0;
    for (uint32_t i = 0; i < count; i++)
        if (kg_op(g, node[i]) == KN_OP_REDUCE && kg_at(g, node[i], 0) == n) return 0;
    return kg_at(g, n, 0);
}

/* The program, and behind it what functions compute inside; how many. 0: no memory. */
static int with_bodies(kn_graph *g, kn_ref *all) {
    kn_ref  *node;
    uint32_t n;
    int      m = 1;
    for (int k = 0; k < m; k++) {
        if (!kg_reach_own(g, &all[k], 1, &node, &n)) return 0;
        for (uint32_t i = 0; i < n && m; i++) {
            kn_ref body = body_of(g, node[i], node, n);
            for (uint32_t r = 0; body && r < kg_nsrc(g, body) && m && m < BODIES; r++)
                if (!(all[m++] = kg_inline(g, node[i], kg_at(g, body, r), NULL))) m = 0;
        }
        kn_free(kg_alloc(g), node, n * sizeof *node);
        if (!m) return 0;
    }
    return m;
}

bool corpus_judge(corpus_case *c, kn_value *result, int *nresult, char *why, size_t cap) {
    kn_graph *g = c->now;
    uint32_t  n;
    kn_ref   *node, all[BODIES] = {c->now_root};
    int       bodies = with_bodies(g, all);
    *nresult = 0;
    if (!bodies || !kg_reach_own(g, all, bodies, &node, &n)) return snprintf(why, cap, "out of memory"), false;
    kn_ref   *src = calloc(n, sizeof *src);
    kn_value *value = calloc(kg_count(g), sizeof *value), *out = calloc(n, sizeof *out);
    double   *rough = calloc(kg_count(g), sizeof *rough);
    c->exact        = calloc(kg_count(g), 1);
    judge    j      = {c, value, c->exact, rough};
    kn_fault f      = {0};
    int      count = 0, got;
    bool     ok;
    for (uint32_t i = 0; i < n; i++)
        if (kg_dtype(g, node[i]) != KN_VOID) src[count++] = node[i];
    got = count;
    ok  = kn_eval(g, kg_list(g, KN_OP_TUPLE, src, count), c->slot, c->nslots, out, &got, NULL, &f);
    if (!ok) snprintf(why, cap, "%s", f.text), *nresult = -1;
    for (int k = 0; ok && k < got; k++) value[src[k]] = out[k];
    for (uint32_t i = 0; ok && i < n; i++) {
        int dt            = kg_dtype(g, node[i]);
        c->exact[node[i]] = dt == KN_VOID || is_exact(&j, node[i]);
        if (c->exact[node[i]] && dt != KN_VOID) continue; /* a fold passes on what it is given */
        rough[node[i]] = dt == KN_VOID ? 0 : dtype_tolerance(dt);
        for (uint32_t k = 0; k < kg_nsrc(g, node[i]); k++)
            rough[node[i]] = fmax(rough[node[i]], rough[kg_at(g, node[i], k)]);
    }
    for (int k = 0; ok && k < got; k++)
        for (int64_t i = 0; ok && i < out[k].numel; i++) {
            const char *what = judge_element(&j, src[k], i);
            if (!what) continue;
            kn_str s;
            kn_str_init(&s, NULL);
            kg_print_node(g, src[k], &s);
            snprintf(why, cap, "%s: element %lld %s", kn_str_c(&s), (long long)i, what);
            kn_str_free(&s);
            ok = false;
        }
    for (uint32_t i = 0; ok && i < n; i++) {
        const char *what = kg_op(c->now, node[i]) == KN_OP_FUNCTION ? judge_body(&j, node[i]) : NULL;
        if (what) snprintf(why, cap, "a FUNCTION %s", what), ok = false;
    }
    if (ok) take_results(c, value, result, nresult);
    for (int k = 0; k < got && !f.code; k++) kn_value_free(NULL, &out[k]);
    kn_free(NULL, node, n * sizeof *node);
    free(src);
    free(value);
    free(out);
    free(rough);
    return ok;
}
