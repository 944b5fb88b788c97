/* rulegen_emit.c - writes the matchers: for each group a switch on op, for each op its rules in order.
 *
 * A rule is a block that is left by `break` at the first test that fails. Nothing is allocated to match. */
#include "rulegen.h"

#include <math.h>
#include <string.h>

/* ---- expressions ------------------------------------------------------------------------------------------------- */

int rg_proof_type(const rg_rule *r, int type) {
    int root = rg_type_root(&r->types, type), k = 0;
    for (int i = 0; i < root; i++) k += r->types.parent[i] == i;
    return k;
}

static void emit_dtype(rg_out *o, const rg_rule *r, const rg_expr *var, bool proof) {
    if (proof) rg_put(o, "p->dt[%d]", rg_proof_type(r, rg_find_var(r, var->name)->pat->type));
    else rg_put(o, "kg_dtype(g, r_%s)", var->name);
}

static void emit_call(rg_out *o, const rg_rule *r, const rg_expr *e, bool proof) {
    static const char *const of_dtype[][2] = {{"dtype", ""}, {"bytes", "kn_dsize"}, {"bits", "8 * kn_dsize"},
                                              {"is_float", "kn_is_float"}, {"is_int", "kn_is_int"},
                                              {"is_signed", "kn_dtype_signed"}, {NULL, NULL}};
    static const char *const of_values[][2] = {{"gcd", "kn_gcd"},
                                               {"abs", "kn_rule_abs"},
                                               {"add_ok", "kn_rule_add_ok"},
                                               {"mul_ok", "kn_rule_mul_ok"},
                                               {"pow2", "kn_rule_pow2"},
                                               {"log2", "kn_rule_log2"},
                                               {NULL, NULL}};
    if (!strcmp(e->name, "min") || !strcmp(e->name, "max")) {
        const char *x = e->kid[0]->name;
        if (proof) rg_put(o, "p->%s[%d]", e->name[1] == 'i' ? "lo" : "hi", (int)(rg_find_var(r, x) - r->var));
        else rg_put(o, "kg_%s(g, r_%s)", e->name, x);
        return;
    }
    for (int i = 0; of_dtype[i][0]; i++)
        if (!strcmp(of_dtype[i][0], e->name)) {
            rg_put(o, "(int64_t)%s(", of_dtype[i][1]);
            emit_dtype(o, r, e->kid[0], proof);
            rg_put(o, ")");
            return;
        }
    if (!strcmp(e->name, "fits") || !strcmp(e->name, "holds")) {
        rg_put(o, "kn_dtype_%s(", e->name);
        if (e->name[0] == 'f') rg_emit_expr(o, r, e->kid[0], proof);
        else emit_dtype(o, r, e->kid[0], proof);
        rg_put(o, ", ");
        emit_dtype(o, r, e->kid[1], proof);
        rg_put(o, ")");
        return;
    }
    const char *fn = NULL;
    for (int i = 0; of_values[i][0]; i++)
        if (!strcmp(of_values[i][0], e->name)) fn = of_values[i][1];
    rg_put(o, "%s(%s", fn ? fn : e->name, fn ? "" : "rw");
    for (int i = 0; i < e->nkid; i++) {
        rg_put(o, "%s", i || !fn ? ", " : "");
        if (fn) rg_emit_expr(o, r, e->kid[i], proof);
        else rg_put(o, "r_%s", e->kid[i]->name);
    }
    rg_put(o, ")");
}

void rg_emit_expr(rg_out *o, const rg_rule *r, const rg_expr *e, bool proof) {
    static const char *const fn[][2] = {{"+", "kn_rule_add"}, {"-", "kn_rule_sub"}, {"*", "kn_rule_mul"},
                                        {"/", "kn_floor_div"}, {"%", "kn_floor_mod"}, {"<<", "kn_rule_shl"},
                                        {">>", "kn_rule_shr"}, {NULL, NULL}};
    switch (e->kind) {
    case E_NUM: rg_put(o, "INT64_C(%lld)", (long long)e->num); return;
    case E_VAR:
        if (proof) rg_put(o, "p->v[%d]", (int)(rg_find_var(r, e->name) - r->var));
        else rg_put(o, "v_%s", e->name);
        return;
    case E_CALL: emit_call(o, r, e, proof); return;
    case E_UN:
        rg_put(o, e->name[0] == '-' ? "kn_rule_sub(0, " : "(%s", e->name);
        rg_emit_expr(o, r, e->kid[0], proof);
        rg_put(o, ")");
        return;
    case E_BIN:
        for (int i = 0; fn[i][0]; i++)
            if (!strcmp(fn[i][0], e->name)) {
                rg_put(o, "%s(", fn[i][1]);
                rg_emit_expr(o, r, e->kid[0], proof);
                rg_put(o, ", ");
                rg_emit_expr(o, r, e->kid[1], proof);
                rg_put(o, ")");
                return;
            }
        rg_put(o, "(");
        rg_emit_expr(o, r, e->kid[0], proof);
        rg_put(o, " %s ", e->name);
        rg_emit_expr(o, r, e->kid[1], proof);
        rg_put(o, ")");
        return;
    }
}

/* ---- building
 * -------------------------------------------------------------------------------------------------------- */

static const char *int_text(int64_t v) {
    return v == INT64_MIN ? "INT64_MIN" : rg_format("INT64_C(%lld)", (long long)v);
}

static const char *const_dtype(rg_build *b, const rg_pat *p) {
    const char *t = b->dtype_of(b->user, p->type);
    if (!t) rg_die(b->rule->file, p->line, "rule %s: nothing tells the dtype of a constant", b->rule->name);
    return t;
}

static const char *arg_text(rg_build *b, const rg_pat *p) {
    const char  *kind = rg_ops[p->op].arg;
    const rg_arg *a   = p->arg;
    if (a && a->from) return rg_format("kg_node(g, %s)->arg", b->bound(b->user, a->from));
    if (a && a->expr) {
        rg_out e = {0};
        rg_emit_expr(&e, b->rule, a->expr, false);
        return rg_format("(uint64_t)%s", e.data);
    }
    if (a && !strcmp(kind, "DTYPE")) return rg_format("(uint64_t)%s", a->value[0]);
    const char *node = a ? NULL : b->arg_of(b->user, p->op);
    if (node) return rg_format("%s->arg", node);
    if (!rg_words(p->op)) return "0";
    const rg_field *f;
    int             n = rg_fields(kind, &f), id = b->next++;
    rg_put(b->o, "%sconst int64_t w%d[] = {", b->indent, id);
    for (int i = 0; i < n; i++) {
        const char *value = f[i].dflt;
        for (int k = 0; a && k < a->n; k++)
            if (!strcmp(a->field[k], f[i].name)) value = a->value[k];
        rg_put(b->o, "%s%s", i ? ", " : "", value);
    }
    rg_put(b->o, "};\n");
    return rg_format("kg_intern_words(g, w%d, %d)", id, n);
}

const char *rg_emit_build(rg_build *b, const rg_pat *p) {
    if (p->kind == P_VAR) return b->bound(b->user, p->name);
    const char *src[RG_KIDS], *t;
    for (int i = 0; i < p->nkid; i++)
        src[i] = p->kid[i]->kind == P_TAIL ? b->bound(b->user, p->kid[i]->name) : rg_emit_build(b, p->kid[i]);
    t = rg_format("t%d", b->next++);
    if (p->kind == P_INT) {
        rg_put(b->o, "%sconst kn_ref %s = kg_int(g, %s, %s);\n", b->indent, t, const_dtype(b, p), int_text(p->num));
    } else if (p->kind == P_FLOAT) {
        const char *v = isnan(p->real) ? "(double)NAN"
                        : isinf(p->real) ? p->real < 0 ? "-(double)INFINITY" : "(double)INFINITY"
                                         : rg_format("%.17g", p->real);
        if (!strpbrk(v, ".en(")) v = rg_format("%s.0", v);
        rg_put(b->o, "%sconst kn_ref %s = kg_float(g, %s, %s);\n", b->indent, t, const_dtype(b, p), v);
    } else if (p->kind == P_EXPR) {
        rg_put(b->o, "%sconst kn_ref %s = kg_int(g, %s, ", b->indent, t, const_dtype(b, p));
        rg_emit_expr(b->o, b->rule, p->expr, false);
        rg_put(b->o, ");\n");
    } else if (p->op == OP_CAST && p->arg && p->arg->from) {
        rg_put(b->o, "%sconst kn_ref %s = kg_cast(g, %s, kg_dtype(g, %s));\n", b->indent, t, src[0],
               b->bound(b->user, p->arg->from));
    } else {
        const char *arg  = arg_text(b, p);
        bool        tail = p->nkid && p->kid[p->nkid - 1]->kind == P_TAIL;
        int         n    = p->nkid - tail;
        rg_put(b->o, "%sconst kn_ref %s = %s(g, KN_OP_%s, %s%s, ", b->indent, t, tail ? "kn_rule_make_tail" : "kg_make",
               rg_ops[p->op].name, tail ? "" : "0, ", arg);
        if (n) rg_put(b->o, "(const kn_ref[]){");
        else rg_put(b->o, "NULL");
        for (int i = 0; i < n; i++) rg_put(b->o, "%s%s", i ? ", " : "", src[i]);
        rg_put(b->o, "%s, %d%s%s);\n", n ? "}" : "", n, tail ? ", " : "", tail ? src[n] : "");
    }
    return t;
}

/* ---- matching
 * -------------------------------------------------------------------------------------------------------- */

typedef struct spot {
    const char *name, *ref, *node; /* node NULL: not read yet */
} spot;

typedef struct matcher {
    rg_out        *o;
    const rg_rule *r;
    spot           var[RG_NAMES];
    int            nvar, preload;
    struct { int op; const char *node; } seen[RG_NAMES];
    int            nseen;
    const char    *dtype[RG_TYPES]; /* of a class of the left side: where it can be read */
} matcher;

static const char *const PAD = "            ";

static spot *find_spot(matcher *m, const char *name) {
    for (int i = 0; i < m->nvar; i++)
        if (!strcmp(m->var[i].name, name)) return &m->var[i];
    return NULL;
}

static void note_dtype(matcher *m, const rg_pat *p, const char *ref, const char *node) {
    int root = rg_type_root(&m->r->lhs_types, p->type);
    if (!m->dtype[root]) m->dtype[root] = node ? rg_format("%s->dtype", node) : rg_format("kg_dtype(g, %s)", ref);
}

static void test_class(matcher *m, rg_class cls, int op, const char *node) {
    switch (cls) {
    case C_NONE: return;
    case C_CONST: rg_put(m->o, "%sif (%s->op != KN_OP_CONST) break;\n", PAD, node); return;
    case C_ALU: rg_put(m->o, "%sif (!kn_is_alu(%s->op)) break;\n", PAD, node); return;
    case C_COMM: rg_put(m->o, "%sif (!kn_is_commutative(%s->op)) break;\n", PAD, node); return;
    case C_OP: rg_put(m->o, "%sif (%s->op != KN_OP_%s) break;\n", PAD, node, rg_ops[op].name); return;
    }
}

static void match_arg(matcher *m, const rg_pat *p, const char *ref, const char *node) {
    if (!p->arg) return;
    if (p->arg->expr) {
        rg_put(m->o, "%sif ((int64_t)%s->arg != ", PAD, node);
        rg_emit_expr(m->o, m->r, p->arg->expr, false);
        rg_put(m->o, ") break;\n");
    }
    for (int i = 0; i < p->arg->n; i++) {
        if (!p->arg->field[i]) rg_put(m->o, "%sif (%s->arg != (uint64_t)%s) break;\n", PAD, node, p->arg->value[i]);
        else
            rg_put(m->o, "%sif (kg_field(g, %s, KN_F_%s_%s) != %s) break;\n", PAD, ref, rg_ops[p->op].arg,
                   p->arg->field[i], p->arg->value[i]);
    }
}

static void match_node(matcher *m, const rg_pat *p, const char *ref, const char *node) {
    const rg_op *op   = &rg_ops[p->op];
    bool         tail = p->nkid && p->kid[p->nkid - 1]->kind == P_TAIL;
    int          n    = p->nkid - tail;
    if (op->lo != op->hi && !tail) rg_put(m->o, "%sif (%s->nsrc != %d) break;\n", PAD, node, n);
    if (tail && n > op->lo) rg_put(m->o, "%sif (%s->nsrc < %d) break;\n", PAD, node, n);
    match_arg(m, p, ref, node);
    if (m->nseen < RG_NAMES) {
        m->seen[m->nseen].op     = p->op;
        m->seen[m->nseen++].node = node;
    }
    bool        few = op->hi >= 0 && op->hi <= 4;
    const char *kref[RG_KIDS] = {0}, *knode[RG_KIDS] = {0};
    for (int i = 0; i < p->nkid; i++) {
        const rg_pat *k    = p->kid[i];
        const rg_var *v    = k->name ? rg_find_var(m->r, k->name) : NULL;
        const rg_pat *w    = v ? v->pat : k; /* where the constraints stand */
        spot         *had  = k->name ? find_spot(m, k->name) : NULL;
        bool          here = p->id == 0 && i < m->preload;
        const char   *from = rg_format(few ? "%s->s.src[%d]" : "kn_sources(%s)[%d]", node, i);
        if (k->kind == P_ANY) continue;
        if (k->kind == P_TAIL) {
            m->var[m->nvar++] =
                (spot){k->name, rg_format("kn_sources(%s) + %d, %s->nsrc - %d", node, i, node, i), NULL};
            continue;
        }
        if (had) {
            rg_put(m->o, "%sif (%s != %s) break;\n", PAD, here ? rg_format("c%d", i) : from, had->ref);
            continue;
        }
        bool look = k->kind != P_VAR || w->cls != C_NONE;
        kref[i]   = here ? rg_format("c%d", i) : look ? rg_format("e%d", k->id) : from;
        if (!here && look) rg_put(m->o, "%sconst kn_ref %s = %s;\n", PAD, kref[i], from);
        if (here) knode[i] = rg_format("q%d", i);
        else if (look) {
            knode[i] = rg_format("d%d", k->id);
            rg_put(m->o, "%sconst kn_node *const %s = kg_node(g, %s);\n", PAD, knode[i], kref[i]);
        }
        if (k->name) m->var[m->nvar++] = (spot){k->name, kref[i], knode[i]};
        note_dtype(m, k, kref[i], knode[i]);
        switch (k->kind) {
        case P_NODE: rg_put(m->o, "%sif (%s->op != KN_OP_%s) break;\n", PAD, knode[i], rg_ops[k->op].name); break;
        case P_VAR: test_class(m, w->cls, w->op, knode[i]); break;
        case P_INT: rg_put(m->o, "%sif (!kn_rule_is(%s, %s)) break;\n", PAD, knode[i], int_text(k->num)); break;
        case P_FLOAT:
            rg_put(m->o, "%sif (!kn_rule_is_float(%s, %s)) break;\n", PAD, knode[i],
                   isnan(k->real)   ? "(double)NAN"
                   : isinf(k->real) ? k->real < 0 ? "-(double)INFINITY" : "(double)INFINITY"
                                    : rg_format("%a", k->real));
            break;
        default: break;
        }
    }
    for (int i = 0; i < p->nkid; i++)
        if (p->kid[i]->kind == P_NODE) match_node(m, p->kid[i], kref[i], knode[i]);
}

static bool single(uint32_t mask, int *d) {
    for (*d = 1; *d <= RG_INDEX; ++*d)
        if (mask == RG_BIT(*d)) return true;
    return false;
}

static const char *mask_text(uint32_t mask) {
    int d;
    if (single(mask, &d)) return rg_format("== %s", rg_dtype_symbol(d));
    return NULL;
}

/* Dtype tests: what the rule asks beyond what the ops imply, and equality of classes that only the right side joins. */
static void match_dtypes(matcher *m) {
    const rg_rule *r = m->r;
    const char    *joined[RG_TYPES] = {0};
    for (int i = 0; i < r->lhs_types.n; i++) {
        if (r->lhs_types.parent[i] != i || !m->dtype[i]) continue;
        int      root = rg_type_root(&r->types, i);
        uint32_t have = r->lhs_types.given[i], need = r->types.given[root] & r->types.want[root];
        if (have & rg_all & ~need) {
            const char *one = mask_text(need);
            if (one) rg_put(m->o, "%sif (!(%s %s)) break;\n", PAD, m->dtype[i], one);
            else rg_put(m->o, "%sif (!(UINT32_C(0x%x) >> %s & 1)) break;\n", PAD, need, m->dtype[i]);
        }
        if (joined[root]) rg_put(m->o, "%sif (%s != %s) break;\n", PAD, m->dtype[i], joined[root]);
        else joined[root] = m->dtype[i];
    }
}

static const char *bound_ref(const void *user, const char *name) {
    const matcher *m = user;
    for (int i = 0; i < m->nvar; i++)
        if (!strcmp(m->var[i].name, name)) return m->var[i].ref;
    return "0";
}

static const char *bound_arg(const void *user, int op) {
    const matcher *m = user;
    const char    *t = NULL;
    for (int i = 0; i < m->nseen; i++)
        if (m->seen[i].op == op) {
            if (t) return NULL;
            t = m->seen[i].node;
        }
    return t;
}

static const char *bound_dtype(const void *user, int type) {
    const matcher  *m    = user;
    const rg_types *t    = &m->r->types;
    int             root = rg_type_root(t, type), d;
    if (single(rg_type_mask(t, type) & rg_all, &d)) return rg_dtype_symbol(d);
    for (int i = 0; i < m->r->lhs_types.n; i++)
        if (m->r->lhs_types.parent[i] == i && m->dtype[i] && rg_type_root(t, i) == root) return m->dtype[i];
    return NULL;
}

static bool names_node(const rg_expr *e, const char *name) {
    if (e->kind == E_CALL) {
        const char *sig = rg_builtin(e->name);
        for (int i = 0; i < e->nkid; i++)
            if ((!sig || sig[i] == 'n') && !strcmp(e->kid[i]->name ? e->kid[i]->name : "", name)) return true;
    }
    for (int i = 0; i < e->nkid; i++)
        if (names_node(e->kid[i], name)) return true;
    return false;
}

static bool pat_names_node(const rg_pat *p, const char *name) {
    if (p->kind == P_EXPR && names_node(p->expr, name)) return true;
    if (p->arg && p->arg->expr && names_node(p->arg->expr, name)) return true;
    for (int i = 0; i < p->nkid; i++)
        if (pat_names_node(p->kid[i], name)) return true;
    return false;
}

static void emit_values(matcher *m) {
    const rg_rule *r = m->r;
    for (int i = 0; i < r->nvar; i++) {
        const rg_var *v = &r->var[i];
        const spot   *s = find_spot(m, v->name);
        if (!s || v->is_tail) continue;
        bool u64 = rg_type_mask(&r->types, v->pat->type) & RG_BIT(RG_U64);
        if ((r->cond && names_node(r->cond, v->name)) || (r->rhs && pat_names_node(r->rhs, v->name)))
            rg_put(m->o, "%sconst kn_ref r_%s = %s;\n", PAD, v->name, s->ref);
        if (v->in_expr) {
            rg_put(m->o, "%sconst int64_t v_%s = (int64_t)%s->arg;\n", PAD, v->name, s->node);
            if (u64 && v->by_value)
                rg_put(m->o, "%sif (v_%s < 0 && %s->dtype == KN_U64) break;\n", PAD, v->name, s->node);
        }
        if (v->bounds && u64) rg_put(m->o, "%sif (kn_rule_unbounded(g, %s)) break;\n", PAD, s->ref);
    }
}

void rg_emit_text(rg_out *o, const char *s) {
    rg_put(o, "\"");
    for (; *s; s++)
        if (*s == '\n') rg_put(o, "\\n");
        else rg_put(o, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    rg_put(o, "\"");
}

static void emit_rule(rg_out *o, const rg_rule *r, const rg_pat *lhs, int preload) {
    matcher m = {.o = o, .r = r, .preload = preload};
    rg_put(o, "        do { /* %s:%d %s */\n", r->file, r->line, r->name);
    if (r->mark == M_FAST) rg_put(o, "%sif (!(mask & KN_RW_FAST)) break;\n", PAD);
    if (r->refuses) rg_put(o, "%sif (!(UINT32_C(0x%x) >> rw->stage & 1)) break;\n", PAD, r->stages);
    note_dtype(&m, lhs, "n", "nd");
    if (lhs->name) m.var[m.nvar++] = (spot){lhs->name, "n", "nd"};
    if (lhs->kind == P_NODE) match_node(&m, lhs, "n", "nd");
    match_dtypes(&m);
    emit_values(&m);
    if (r->cond) {
        rg_put(o, "%sif (!(", PAD);
        rg_emit_expr(o, r, r->cond, false);
        rg_put(o, ")) break;\n");
    }
    if (r->refuses) {
        rg_put(o, "%srw->refused = n;\n%sif (!(rw->refusal = ", PAD, PAD);
        if (r->cfun) rg_put(o, "%s(rw, n)", r->cfun);
        else rg_emit_text(o, r->refusal);
        rg_put(o, ")) break;\n%s*rule = %d;\n%sreturn n;\n        } while (0);\n", PAD, r->id, PAD);
        return;
    }
    const char *result;
    if (r->cfun) result = rg_format("%s(rw, n)", r->cfun);
    else {
        rg_build b = {.o = o, .rule = r, .types = &r->types, .bound = bound_ref, .arg_of = bound_arg,
                      .dtype_of = bound_dtype, .user = &m, .indent = PAD};
        result     = rg_emit_build(&b, r->rhs);
    }
    rg_put(o, "%sconst kn_ref out = kn_rule_done(rw, %d, n, %s, %s, mask);\n", PAD, r->id, result,
           r->mark == M_NONE ? "false" : "true");
    rg_put(o, "%sif (!out) break;\n%s*rule = %d;\n%sreturn out;\n        } while (0);\n", PAD, PAD, r->id, PAD);
}

/* ---- files
 * ----------------------------------------------------------------------------------------------------------------- */

static bool roots_at(const rg_rule *r, int op) {
    const rg_pat *p = r->lhs;
    if (p->kind == P_NODE) return p->op == op;
    switch (p->cls) {
    case C_NONE: return op != OP_INVALID;
    case C_CONST: return op == OP_CONST;
    case C_ALU: return rg_is_alu(op);
    case C_COMM: return rg_commutes(op);
    case C_OP: return op == p->op;
    }
    return false;
}

static bool emit_op(const rg_set *set, rg_out *c, int group, int op) {
    bool any = false;
    for (const rg_rule *r = set->rules; r && !any; r = r->next) any = r->group == group && roots_at(r, op);
    if (!any) return false;
    int preload = rg_ops[op].lo > 3 ? 3 : rg_ops[op].lo;
    rg_put(c, "static kn_ref match_%s_%s(kn_rw *rw, kn_ref n, const kn_node *nd, uint64_t mask, int *rule) {\n"
              "    kn_graph *const g = rw->g;\n    (void)nd;\n    (void)mask;\n    (void)g;\n",
           set->group[group].symbol, rg_ops[op].name);
    for (int i = 0; i < preload; i++)
        rg_put(c,
               "    const kn_ref c%d = kn_sources(nd)[%d];\n    const kn_node *const q%d = kg_node(g, c%d);\n    "
               "(void)q%d;\n",
               i, i, i, i, i);
    for (const rg_rule *r = set->rules; r; r = r->next) {
        if (r->group != group || !roots_at(r, op)) continue;
        rg_pat *v[64];
        int     n = rg_variants(r, v, 64);
        for (int i = 0; i < n; i++) emit_rule(c, r, v[i], preload);
    }
    rg_put(c, "    return 0;\n}\n\n");
    return true;
}

void rg_emit_match(const rg_set *set, rg_out *c, rg_out *h) {
    static uint8_t has[RG_GROUPS][OP_COUNT];
    rg_put(h, "/* rules_gen.h - generated by rulegen: a bit a group of rules. */\n#ifndef KN_RULES_GEN_H\n#define "
              "KN_RULES_GEN_H\n\n");
    for (int g = 0; g < set->ngroups; g++)
        rg_put(h, "#define KN_G_%s (UINT64_C(1) << %d)\n", set->group[g].symbol, g);
    rg_put(h, "#define KN_RULE_COUNT %d\n\n#endif\n", set->nrules);

    rg_put(c, "/* rules_gen.c - generated by rulegen: the matchers and the table of rules. */\n#include "
              "\"rewrite/match.h\"\n");
    for (int i = 0; i < set->nincludes; i++) rg_put(c, "#include \"%s\"\n", set->include[i]);
    rg_put(c, "\n#include <math.h>\n#include <stddef.h>\n\n");
    for (int g = 0; g < set->ngroups; g++)
        for (int op = 1; op < OP_COUNT; op++) has[g][op] = emit_op(set, c, g, op);
    for (int g = 0; g < set->ngroups; g++) {
        rg_put(c, "static kn_ref match_%s(kn_rw *rw, kn_ref n, const kn_node *nd, uint64_t mask, int *rule) {\n"
                  "%s    switch (nd->op) {\n",
               set->group[g].symbol, set->group[g].lanes ? "    if (!kn_rule_lanes(rw->g, n)) return 0;\n" : "");
        for (int op = 1; op < OP_COUNT; op++)
            if (has[g][op])
                rg_put(c, "    case KN_OP_%s: return match_%s_%s(rw, n, nd, mask, rule);\n", rg_ops[op].name,
                       set->group[g].symbol, rg_ops[op].name);
        rg_put(c, "    default: return 0;\n    }\n}\n\n");
    }
    rg_put(c, "kn_ref kn_rules_match(kn_rw *rw, kn_ref n, uint64_t mask, int *rule) {\n"
              "    static const uint64_t groups[KN_OP_COUNT] = {\n");
    for (int op = 1; op < OP_COUNT; op++) {
        uint64_t m = 0;
        for (int g = 0; g < set->ngroups; g++) m |= (uint64_t)has[g][op] << g;
        if (m) rg_put(c, "        [KN_OP_%s] = UINT64_C(0x%llx),\n", rg_ops[op].name, (unsigned long long)m);
    }
    rg_put(c, "        [0] = 0,\n    };\n    const kn_node *const nd = kg_node(rw->g, n);\n"
              "    for (uint64_t m = mask & groups[nd->op]; m; m &= m - 1) {\n        kn_ref r = 0;\n"
              "        switch (__builtin_ctzll(m)) {\n");
    for (int g = 0; g < set->ngroups; g++)
        rg_put(c, "        case %d: r = match_%s(rw, n, nd, mask, rule); break;\n", g, set->group[g].symbol);
    rg_put(
        c,
        "        default: break;\n        }\n        if (r) return r;\n    }\n    (void)rule;\n    return 0;\n}\n\n");
    rg_put(c, "const int kn_rule_count = %d;\nconst kn_rule_info kn_rules[] = {\n", set->nrules);
    for (const rg_rule *r = set->rules; r; r = r->next) {
        rg_put(c, "    {");
        rg_emit_text(c, r->name);
        rg_put(c, ", \"%s\", \"%s\", \"%s\", %d, %s},\n", set->group[r->group].name, rg_mark_names[r->mark], r->file,
               r->line, r->calls_c ? "true" : "false");
    }
    rg_put(c, "    {NULL, NULL, NULL, NULL, 0, false},\n};\n\nconst int kn_group_count = %d;\n"
              "const char *const kn_group_names[] = {\n", set->ngroups);
    for (int g = 0; g < set->ngroups; g++) rg_put(c, "    \"%s\",\n", set->group[g].name);
    uint64_t lanes = 0;
    for (int g = 0; g < set->ngroups; g++) lanes |= (uint64_t)set->group[g].lanes << g;
    rg_put(c, "    NULL,\n};\nconst uint64_t kn_lane_groups = UINT64_C(0x%llx);\n", (unsigned long long)lanes);
}
