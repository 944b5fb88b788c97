/* rewrite.c - the driver: normal forms of nodes under a mask of rule groups.
 *
 * Contract: kn_rewrite(root, mask) gives a node in which no rule of the mask matches anywhere, equal to root as the
 * rules' marks promise. For each mask the state maps a node to its normal form; nodes are immutable and rules look only
 * below their node, so an entry never goes stale. One explicit stack; a frame is a node on its way to its normal form:
 *   sources  each source without a normal form is pushed first;
 *   rules    the node over normal sources is matched; what a rule built goes through the same frame again.
 * The nodes a frame went through all get the same entry. */
#include "rewrite/match.h"

#include "dialect/why.h"

#include <string.h>

enum { RW_MEMOS = 12, RW_TRAIL = 16 };

typedef struct rw_memo {
    uint64_t mask, used; /* mask 0: free */
    kn_ref  *map;        /* node -> normal form, 0 = not known */
    size_t   cap;
} rw_memo;

typedef struct rw_frame {
    kn_ref   node;
    uint32_t next;  /* source to look at */
    uint32_t chain; /* where this frame's earlier nodes start */
} rw_frame;

typedef struct rw_state {
    rw_memo   memo[RW_MEMOS];
    uint64_t  clock;
    rw_frame *stack;
    kn_ref   *chain, *src;
    size_t    stack_cap, chain_cap, src_cap;
    int       trail[RW_TRAIL]; /* the rules that fired last */
    unsigned  trail_at;
} rw_state;

void kn_rw_init(kn_rw *rw, kn_graph *g, kn_fault *f) {
    memset(rw, 0, sizeof *rw);
    rw->g     = g;
    rw->fault = f;
    rw->why   = kg_why(g) != NULL;
}

void kn_rw_free(kn_rw *rw) {
    rw_state *s = rw->state;
    if (!s) return;
    const kn_alloc *a = kg_alloc(rw->g);
    for (int i = 0; i < RW_MEMOS; i++) kn_free(a, s->memo[i].map, s->memo[i].cap * sizeof(kn_ref));
    kn_free(a, s->stack, s->stack_cap * sizeof *s->stack);
    kn_free(a, s->chain, s->chain_cap * sizeof *s->chain);
    kn_free(a, s->src, s->src_cap * sizeof *s->src);
    kn_free(a, s, sizeof *s);
    rw->state = NULL;
}

/* ---- what matchers call ------------------------------------------------------------------------------------------ */

bool kn_rule_const_is(const kn_node *d, int64_t v) {
    if (kn_is_float(d->dtype)) return kn_rule_const_is_float(d, (double)v);
    return (int64_t)d->arg == kn_cast_scalar((kn_scalar){.i = v}, KN_I64, d->dtype).i;
}

bool kn_rule_const_is_float(const kn_node *d, double v) {
    if (!kn_is_float(d->dtype)) return false;
    double x;
    memcpy(&x, &d->arg, sizeof x);
    return v != v ? x != x : !memcmp(&x, &v, sizeof x);
}

bool kn_dtype_fits(int64_t v, int d) {
    if (kn_is_float(d) || d == KN_VOID) return false;
    return v >= kn_dtypes[d].min && v <= kn_dtypes[d].max;
}

bool kn_dtype_holds(int to, int from) {
    static const uint8_t digits[KN_DTYPE_COUNT] = {[KN_F8E4M3] = 4, [KN_F8E5M2] = 3, [KN_F16] = 11,
                                                   [KN_BF16] = 8,   [KN_F32] = 24,   [KN_F64] = 53};
    const kn_dtype_info *t = &kn_dtypes[to], *f = &kn_dtypes[from];
    if (to == from || from == KN_BOOL) return to != KN_VOID;
    if (kn_is_float(to)) {
        if (kn_is_float(from))
            return to == KN_F64 || (to == KN_F32 && from != KN_F64) || (to == KN_F16 && f->size == 1) ||
                   (to == KN_BF16 && f->size == 1);
        return to != KN_F8E4M3 && to != KN_F8E5M2 && 8 * f->size - (f->kind == 'I') <= digits[to];
    }
    if (!kn_is_int(to) || !kn_is_int(from)) return false;
    if (f->kind == t->kind) return t->size >= f->size;
    return f->kind == 'U' && t->size > f->size;
}

kn_ref kn_rule_make_tail(kn_graph *g, int op, uint64_t arg, const kn_ref *src, uint32_t n, const kn_ref *tail,
                         uint32_t ntail) {
    kn_ref  few[16], *all = few;
    size_t  bytes = ((size_t)n + ntail) * sizeof *all;
    if (bytes > sizeof few && !(all = kn_realloc(kg_alloc(g), NULL, 0, bytes))) return kn_oom(kg_fault(g)), 0;
    if (n) memcpy(all, src, n * sizeof *all);
    if (ntail) memcpy(all + n, tail, ntail * sizeof *all);
    kn_ref r = kg_make(g, op, 0, arg, all, n + ntail);
    if (all != few) kn_free(kg_alloc(g), all, bytes);
    return r;
}

/* r broadcast to the shape of n; 0 if that shape is not static. */
static kn_ref rw_expand_to(kn_graph *g, kn_ref r, kn_ref n) {
    int            rank, from;
    const int64_t *dims = kg_shape(g, n, &rank), *have = kg_shape(g, r, &from);
    int64_t        ones[KN_MAX_RANK];
    if (from > rank) return 0;
    for (int i = 0; i < rank; i++) {
        ones[i] = i < rank - from ? 1 : have[i - (rank - from)];
        if (dims[i] < 0 || (ones[i] != dims[i] && ones[i] != 1)) return 0;
    }
    return kg_expand(g, kg_reshape(g, r, ones, rank), dims, rank);
}

kn_ref kn_rule_done(kn_rw *rw, int rule, kn_ref n, kn_ref result, bool preserves, uint64_t mask) {
    kn_graph *g = rw->g;
    if (!result || result == n || (rw->off && rw->off[rule])) return 0;
    if (preserves) {
        if (kg_dtype(g, result) != kg_dtype(g, n)) {
            kn_fail(rw->fault, KN_ERR_INTERNAL, "rule %s.%s: made %s of %s", kn_rules[rule].group, kn_rules[rule].name,
                    kn_dtypes[kg_dtype(g, result)].name, kn_dtypes[kg_dtype(g, n)].name);
            return 0;
        }
        if (!kg_same_shape(g, result, n)) {
            if (!(mask & KN_RW_EXPAND)) return 0;
            result = rw_expand_to(g, result, n);
            if (!result || result == n || (rw->off && rw->off[rule])) return 0;
        }
    }
    rw->matches++;
    if (rw->fired) rw->fired[rule]++;
    if (rw->on_fire) rw->on_fire(rw, rule, n, result);
    return result;
}

/* ---- the walk
 * -------------------------------------------------------------------------------------------------------- */

static rw_state *rw_state_of(kn_rw *rw) {
    if (!rw->state) rw->state = kn_zalloc(kg_alloc(rw->g), sizeof(rw_state));
    return rw->state;
}

static rw_memo *rw_memo_of(kn_rw *rw, rw_state *s, uint64_t mask) {
    rw_memo *m = &s->memo[0];
    for (int i = 0; i < RW_MEMOS; i++) {
        if (s->memo[i].mask == mask) {
            m = &s->memo[i];
            break;
        }
        if (s->memo[i].used < m->used) m = &s->memo[i];
    }
    if (m->mask != mask) {
        if (m->map) memset(m->map, 0, m->cap * sizeof *m->map);
        m->mask = mask;
    }
    m->used = ++s->clock;
    (void)rw;
    return m;
}

/* Room for every node there is. */
static bool rw_memo_room(kn_rw *rw, rw_memo *m) {
    size_t need = kg_count(rw->g), old = m->cap;
    if (need <= old) return true;
    if (!KN_GROW(kg_alloc(rw->g), m->map, m->cap, need)) return false;
    memset(m->map + old, 0, (m->cap - old) * sizeof *m->map);
    return true;
}

static bool rw_graph_failed(kn_rw *rw) {
    const kn_fault *gf = kg_fault(rw->g);
    if (gf->code != KN_OK) kn_fail(rw->fault, gf->code, "%s", gf->text);
    return rw->fault->code != KN_OK;
}

static void rw_loops(kn_rw *rw, const rw_state *s) {
    char   text[300];
    size_t at = 0;
    text[0]   = 0;
    for (unsigned i = 0; i < RW_TRAIL && i < s->trail_at; i++) {
        int  r    = s->trail[(s->trail_at - 1 - i) % RW_TRAIL];
        bool seen = false;
        for (unsigned k = 0; k < i; k++) seen = seen || s->trail[(s->trail_at - 1 - k) % RW_TRAIL] == r;
        if (seen || at + 60 > sizeof text) continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s.%s", at ? ", " : "", kn_rules[r].group,
                               kn_rules[r].name);
    }
    kn_fail(rw->fault, KN_ERR_INTERNAL, "rewrite: no end of firings; the last rules were %s", text);
}

/* The node over its sources' normal forms. */
static kn_ref rw_over_sources(kn_rw *rw, rw_state *s, const kn_ref *map, kn_ref n) {
    uint32_t      k   = kg_nsrc(rw->g, n), i = 0;
    const kn_ref *src = kg_src(rw->g, n);
    while (i < k && map[src[i]] == src[i]) i++;
    if (i == k) return n;
    if (!KN_GROW(kg_alloc(rw->g), s->src, s->src_cap, k)) {
        kn_oom(rw->fault);
        return 0;
    }
    for (i = 0; i < k; i++) s->src[i] = map[src[i]];
    return kg_with_src(rw->g, n, s->src, k);
}

/* Group by group, in the order of the mask's bits, with a look at the clock after each. */
static kn_ref rw_timed_match(kn_rw *rw, kn_ref n, uint64_t mask, int *rule) {
    kn_ref r    = 0;
    double then = kn_now();
    for (int i = 0; i < kn_group_count && !r; i++) {
        if (!(mask >> i & 1)) continue;
        r = kn_rules_match(rw, n, (mask & (KN_RW_FAST | KN_RW_EXPAND)) | UINT64_C(1) << i, rule);
        double now = kn_now();
        rw->seconds[i] += now - then;
        then = now;
    }
    return r;
}

/* The same with a look at the clock, or with what the rule made put down as its. */
static KN_RARE kn_ref rw_watched_match(kn_rw *rw, kn_ref n, uint64_t mask, int *rule) {
    kn_making m;
    if (rw->why) kg_rule_begin(rw->g, &m);
    kn_ref r = rw->seconds ? rw_timed_match(rw, n, mask, rule) : kn_rules_match(rw, n, mask, rule);
    if (rw->why) {
        const kn_rule_info *i = r ? &kn_rules[*rule] : NULL;
        kg_rule_end(rw->g, &m, n, i ? i->group : NULL, i ? i->name : NULL, i ? i->file : NULL, i ? i->line : 0);
    }
    return r;
}

static kn_ref rw_match(kn_rw *rw, kn_ref n, uint64_t mask, int *rule) {
    rw->visits++;
    return rw->seconds || rw->why ? rw_watched_match(rw, n, mask, rule) : kn_rules_match(rw, n, mask, rule);
}

static kn_ref rw_normal_form(kn_rw *rw, rw_state *s, rw_memo *m, kn_ref root, uint64_t mask) {
    const kn_alloc *a     = kg_alloc(rw->g);
    uint64_t        bound = rw->matches + 20000 + 100 * (uint64_t)kg_count(rw->g);
    size_t          depth = 0, links = 0;
    if (!rw_memo_room(rw, m)) goto oom;
    if (m->map[root]) return m->map[root];
    if (!KN_GROW(a, s->stack, s->stack_cap, 1)) goto oom;
    s->stack[depth++] = (rw_frame){root, 0, 0};
    while (depth) {
        rw_frame     *f    = &s->stack[depth - 1];
        kn_ref        n    = f->node, done = m->map[n];
        uint32_t      k    = kg_nsrc(rw->g, n);
        const kn_ref *src  = kg_src(rw->g, n);
        int           rule = 0;
        while (!done && f->next < k && m->map[src[f->next]]) f->next++;
        if (!done && f->next < k) {
            kn_ref below = src[f->next];
            if (!KN_GROW(a, s->stack, s->stack_cap, depth + 1)) goto oom;
            s->stack[depth++] = (rw_frame){below, 0, (uint32_t)links};
            continue;
        }
        if (!done) {
            if (!KN_GROW(a, s->chain, s->chain_cap, links + 2)) goto oom;
            s->chain[links++] = n;
            kn_ref over       = rw_over_sources(rw, s, m->map, n);
            if (!over) goto failed;
            if (over != n) {
                if (!rw_memo_room(rw, m)) goto oom;
                n               = over;
                done            = m->map[n];
                s->chain[links] = n;
                links += !done;
            }
        }
        if (!done) {
            kn_ref r = rw_match(rw, n, mask, &rule);
            if (rw_graph_failed(rw)) return 0;
            if (r) {
                s->trail[s->trail_at++ % RW_TRAIL] = rule;
                if (rw->matches > bound) {
                    rw_loops(rw, s);
                    return 0;
                }
                if (!rw_memo_room(rw, m)) goto oom;
                f->node = r;
                f->next = 0;
                continue;
            }
            done = n;
        }
        m->map[done] = done;
        while (links > f->chain) m->map[s->chain[--links]] = done;
        m->map[f->node] = done;
        depth--;
    }
    return m->map[root];
oom:
    kn_oom(rw->fault);
    return 0;
failed:
    rw_graph_failed(rw);
    return 0;
}

kn_ref kn_rewrite(kn_rw *rw, kn_ref root, uint64_t groups) {
    return root && kn_rewrite_all(rw, &root, 1, groups) ? root : 0;
}

bool kn_rewrite_all(kn_rw *rw, kn_ref *roots, int n, uint64_t groups) {
    rw_state *s = rw_state_of(rw);
    if (!s) return kn_oom(rw->fault);
    if (rw_graph_failed(rw)) return false;
    rw_memo *m = rw_memo_of(rw, s, groups);
    for (int i = 0; i < n; i++) {
        kn_ref r = rw_normal_form(rw, s, m, roots[i], groups);
        if (!r) return false;
        roots[i] = r;
    }
    return true;
}

kn_ref kn_rewrite_step(kn_rw *rw, kn_ref root, uint64_t groups) {
    int rule;
    if (!root || rw_graph_failed(rw)) return 0;
    kn_ref r = rw_match(rw, root, groups, &rule);
    if (rw_graph_failed(rw)) return 0;
    return r ? r : root;
}

int kn_rules_refuse(kn_rw *rw, kn_ref n, uint64_t groups) {
    int rule = -1;
    return kn_rules_match(rw, n, groups, &rule) ? rule : -1;
}
