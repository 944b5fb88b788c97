/* match.h - what generated matchers and the driver share. Included by rules_gen.c and src/rewrite alone. */
#ifndef KN_MATCH_H
#define KN_MATCH_H

#include "rewrite/rewrite.h"

/* The first rule of the groups that fires at n: what it built, with its number in *rule; else 0. */
kn_ref kn_rules_match(kn_rw *rw, kn_ref n, uint64_t groups, int *rule);
/* A rule's result on trial: 0 if it is nothing, or n again, or would change a value's shape; else what replaces n. */
kn_ref kn_rule_done(kn_rw *rw, int rule, kn_ref n, kn_ref result, bool preserves, uint64_t mask);
/* op over n sources and then `ntail` more. */
kn_ref kn_rule_make_tail(kn_graph *g, int op, uint64_t arg, const kn_ref *src, uint32_t n, const kn_ref *tail,
                         uint32_t ntail);

static inline const kn_ref *kn_sources(const kn_node *d) { return d->nsrc > 4 ? d->s.run : d->s.src; }
/* A CONST of integer literal v: of an integer the value wrapped to its dtype, of a float that very double (not -0 for
 * 0). */
bool kn_rule_const_is(const kn_node *d, int64_t v);
bool kn_rule_const_is_float(const kn_node *d, double v);
static inline bool kn_rule_is(const kn_node *d, int64_t v) { return d->op == KN_OP_CONST && kn_rule_const_is(d, v); }
static inline bool kn_rule_is_float(const kn_node *d, double v) {
    return d->op == KN_OP_CONST && kn_rule_const_is_float(d, v);
}
static inline bool kn_rule_lanes(const kn_graph *g, kn_ref n) {
    int            rank;
    const int64_t *dims = kg_shape(g, n, &rank);
    return rank && dims[rank - 1] > 1;
}
/* u64 values beyond int64 have no upper bound to reason with. */
static inline bool kn_rule_unbounded(const kn_graph *g, kn_ref n) {
    return kg_dtype(g, n) == KN_U64 && kg_max(g, n) == INT64_MAX;
}

/* The expression language: int64 that wraps; / and % round towards minus infinity. */
static inline int64_t kn_rule_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t kn_rule_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t kn_rule_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline int64_t kn_rule_shl(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); }
static inline int64_t kn_rule_shr(int64_t a, int64_t b) { return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b; }
static inline int64_t kn_rule_abs(int64_t a) { return a < 0 ? kn_rule_sub(0, a) : a; }
static inline bool    kn_rule_add_ok(int64_t a, int64_t b) { return kn_add_ok(a, b, &a); }
static inline bool    kn_rule_mul_ok(int64_t a, int64_t b) { return kn_mul_ok(a, b, &a); }
static inline bool    kn_rule_pow2(int64_t a) { return a > 0 && (a & (a - 1)) == 0; }
static inline int64_t kn_rule_log2(int64_t a) { return a > 0 ? 63 - __builtin_clzll((unsigned long long)a) : -1; }
/* Dtypes: signed integer; can hold the value v; can hold, exactly, every value of the other. */
static inline bool kn_dtype_signed(int d) { return kn_dtypes[d].kind == 'I'; }
bool kn_dtype_fits(int64_t v, int d);
bool kn_dtype_holds(int to, int from);

#endif
