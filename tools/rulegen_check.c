/* rulegen_check.c - names, dtypes, growth and reachability of rules; after it every rule can be emitted. */
#include "rulegen.h"

#include <ctype.h>
#include <string.h>

/* ---- type classes ---------------------------------------------------------------------------------------------- */

int rg_type_root(const rg_types *t, int type) {
    while (t->parent[type] != type) type = t->parent[type];
    return type;
}

uint32_t rg_type_mask(const rg_types *t, int type) {
    int root = rg_type_root(t, type);
    return t->given[root] & t->want[root];
}

static int new_type(const rg_rule *r, rg_types *t, int line) {
    if (t->n == RG_TYPES) rg_die(r->file, line, "the rule is too large");
    t->parent[t->n] = t->n;
    t->given[t->n] = t->want[t->n] = rg_all | 1;
    return t->n++;
}

static void unify(rg_types *t, int a, int b) {
    a = rg_type_root(t, a);
    b = rg_type_root(t, b);
    if (a == b) return;
    if (a > b) {
        int c = a;
        a     = b;
        b     = c;
    }
    t->parent[b] = a;
    t->given[a] &= t->given[b];
    t->want[a] &= t->want[b];
}

static void give(rg_types *t, int type, uint32_t mask) { t->given[rg_type_root(t, type)] &= mask; }

/* The dtypes an elementwise op takes (shape.c refuses the others). */
static uint32_t operand_dtypes(int op) {
    switch (op) {
    case OP_RECIP: case OP_TRUNC: case OP_EXP2: case OP_LOG2: case OP_SIN: case OP_SQRT: case OP_DIV: case OP_POW:
        return rg_floats;
    case OP_IDIV: case OP_MOD: case OP_SHL: case OP_SHR: return rg_ints;
    case OP_AND: case OP_OR: case OP_XOR: case OP_NOT: return rg_ints | RG_BIT(RG_BOOL);
    case OP_THREEFRY: return RG_BIT(RG_U64);
    default: return rg_all;
    }
}

/* Where a name's type is looked up: the rule's variables, or a test's own. */
typedef struct scope {
    const rg_rule *rule;
    rg_types      *types;
    const char    *name[RG_NAMES];
    int            type[RG_NAMES], n;
} scope;

static int name_type(scope *s, const char *name, int line) {
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->name[i], name)) return s->type[i];
    if (s->n == RG_NAMES) rg_die(s->rule->file, line, "too many names");
    s->name[s->n] = name;
    return s->type[s->n++] = new_type(s->rule, s->types, line);
}

static void infer(scope *s, rg_pat *p) {
    rg_types *t = s->types;
    for (int i = 0; i < p->nkid; i++) infer(s, p->kid[i]);
    p->type = p->name ? name_type(s, p->name, p->line) : new_type(s->rule, t, p->line);
    int root = rg_type_root(t, p->type);
    if (p->kind == P_INT) {
        t->given[root] &= rg_all;
        t->want[root] &= p->dtypes | (p->dtypes == rg_all); /* of true and false: matching a number does not imply it */
    }
    if (p->kind == P_FLOAT) t->given[root] &= rg_floats;
    if (p->kind != P_NODE) return;
    const char *dt = rg_ops[p->op].dt;
    if (rg_is_alu(p->op)) {
        int first = p->op == OP_WHERE;
        if (first) give(t, p->kid[0]->type, RG_BIT(RG_BOOL));
        for (int i = first; i < p->nkid; i++) {
            if (p->op != OP_CAST) unify(t, p->kid[first]->type, p->kid[i]->type);
            give(t, p->kid[i]->type, operand_dtypes(p->op) & rg_all);
        }
        if (!strcmp(dt, "BOOL")) give(t, p->type, RG_BIT(RG_BOOL));
        else if (p->op != OP_CAST) unify(t, p->type, p->kid[first]->type);
        else give(t, p->type, rg_all);
    } else if (!strncmp(dt, "SRC", 3)) {
        int k = dt[3] - '0';
        if (k < p->nkid && p->kid[k]->kind != P_TAIL) unify(t, p->type, p->kid[k]->type);
    } else if (!strcmp(dt, "VOID")) {
        give(t, p->type, 1);
    } else if (!strcmp(dt, "BOOL") || !strcmp(dt, "INDEX") || !strcmp(dt, "U8")) {
        give(t, p->type, dt[0] == 'B' ? RG_BIT(RG_BOOL) : dt[0] == 'I' ? RG_BIT(RG_INDEX) : RG_BIT(6));
    } else if (!strcmp(dt, "STACK")) {
        for (int i = 0; i < p->nkid; i++)
            if (p->kid[i]->kind != P_TAIL) unify(t, p->type, p->kid[i]->type);
    }
    if (p->arg && !strcmp(rg_ops[p->op].arg, "DTYPE")) {
        if (p->arg->from) unify(t, p->type, name_type(s, p->arg->from, p->line));
        else
            for (int d = 1; d <= RG_INDEX; d++)
                if (!strcmp(rg_dtype_symbol(d), p->arg->value[0])) give(t, p->type, RG_BIT(d));
    }
}

static void want_constraints(rg_types *t, const rg_pat *p) {
    if (p->kind != P_INT) t->want[rg_type_root(t, p->type)] &= p->dtypes | (p->dtypes == rg_all);
    for (int i = 0; i < p->nkid; i++) want_constraints(t, p->kid[i]);
}

/* What the mark asks of the classes it can speak of: those that the ops have not already fixed to something else. */
static void want_mark(rg_types *t, rg_mark mark) {
    static const uint32_t one = 1;
    uint32_t m = mark == M_INT     ? rg_ints
                 : mark == M_INDEX ? one << RG_INDEX
                 : mark == M_BOOL  ? one << RG_BOOL
                 : mark == M_FAST  ? rg_floats
                                   : rg_all;
    if (mark == M_NONE) return;
    for (int i = 0; i < t->n; i++)
        if (t->parent[i] == i && (t->given[i] & t->want[i] & m)) t->want[i] &= m;
}

static void check_types(rg_rule *r) {
    scope s = {.rule = r, .types = &r->types};
    infer(&s, r->lhs);
    r->lhs_types = r->types;
    want_constraints(&r->types, r->lhs);
    want_mark(&r->types, r->mark);
    if (r->rhs) {
        infer(&s, r->rhs);
        if (r->mark) unify(&r->types, r->lhs->type, r->rhs->type);
    }
    for (int i = 0; i < r->types.n; i++)
        if (!rg_type_mask(&r->types, i)) rg_die(r->file, r->line, "rule %s: its dtypes contradict each other", r->name);
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

rg_var *rg_find_var(const rg_rule *r, const char *name) {
    for (int i = 0; i < r->nvar; i++)
        if (!strcmp(r->var[i].name, name)) return (rg_var *)&r->var[i];
    return NULL;
}

const char *rg_builtin(const char *name) {
    static const char *const table[][2] = {
        {"min", "n"}, {"max", "n"}, {"dtype", "n"}, {"bytes", "n"}, {"bits", "n"}, {"is_float", "n"}, {"is_int", "n"},
        {"is_signed", "n"}, {"fits", "vn"}, {"holds", "nn"}, {"gcd", "vv"}, {"abs", "v"}, {"add_ok", "vv"},
        {"mul_ok", "vv"}, {"pow2", "v"}, {"log2", "v"}, {NULL, NULL}};
    for (int i = 0; table[i][0]; i++)
        if (!strcmp(table[i][0], name)) return table[i][1];
    return NULL;
}

static void bind(rg_rule *r, rg_pat *p, int *id) {
    p->id = (*id)++;
    if (p->kind == P_EXPR) rg_die(r->file, p->line, "rule %s: {...} stands on the right only", r->name);
    if (p->kind == P_NODE) {
        const rg_op *o = &rg_ops[p->op];
        int          n = p->nkid;
        bool         tail = n && p->kid[n - 1]->kind == P_TAIL;
        if ((o->hi >= 0 && n > o->hi) || (!tail && n < o->lo))
            rg_die(r->file, p->line, "rule %s: %s does not take %d operands", r->name, o->name, n);
        if (p->arg && p->arg->from) rg_die(r->file, p->line, "rule %s: {=...} stands on the right only", r->name);
    }
    for (int i = 0; i < p->nkid; i++) {
        if (p->kid[i]->kind == P_TAIL && i + 1 != p->nkid)
            rg_die(r->file, p->line, "rule %s: a tail comes last", r->name);
        bind(r, p->kid[i], id);
    }
    if (!p->name) return;
    if (isupper((unsigned char)*p->name))
        rg_die(r->file, p->line, "rule %s: '%s': variables are lower case, ops stand in parentheses", r->name, p->name);
    rg_var *v = rg_find_var(r, p->name);
    if (v) {
        if (p->kind == P_NODE || v->is_tail || p->kind == P_TAIL)
            rg_die(r->file, p->line, "rule %s: %s is bound twice", r->name, p->name);
        if (p->cls)
            rg_die(r->file, p->line, "rule %s: a constraint of %s stands where it is first named", r->name, p->name);
        return;
    }
    if (r->nvar == RG_NAMES) rg_die(r->file, p->line, "rule %s: too many names", r->name);
    r->var[r->nvar++] = (rg_var){.name     = p->name,
                                 .pat      = p,
                                 .is_const = p->kind == P_VAR && p->cls == C_CONST,
                                 .is_tail  = p->kind == P_TAIL,
                                 .is_node  = p->kind == P_NODE};
}

/* + - * and the bit operations see a u64 beyond int64 by its bits and are right all the same. */
static bool is_modular(const rg_expr *e) {
    return e->kind == E_VAR || e->kind == E_NUM || (e->kind == E_UN && e->name[0] != '!') ||
           (e->kind == E_BIN && strchr("+-*&|^", e->name[0]) && !e->name[1]);
}

static void check_expr(rg_rule *r, rg_expr *e, bool modular) {
    modular = modular && is_modular(e);
    if (e->kind == E_VAR) {
        rg_var *v = rg_find_var(r, e->name);
        if (!v) rg_die(r->file, e->line, "rule %s: %s is not bound", r->name, e->name);
        if (!v->is_const)
            rg_die(r->file, e->line, "rule %s: %s has no value here: it is not a :const", r->name, e->name);
        v->in_expr = true;
        if (!modular) v->by_value = true;
    }
    if (e->kind != E_CALL) {
        for (int i = 0; i < e->nkid; i++) check_expr(r, e->kid[i], modular);
        return;
    }
    const char *sig = rg_builtin(e->name);
    if (!sig) r->calls_c = true;
    else if ((int)strlen(sig) != e->nkid)
        rg_die(r->file, e->line, "rule %s: %s takes %d arguments", r->name, e->name, (int)strlen(sig));
    for (int i = 0; i < e->nkid; i++) {
        if (sig && sig[i] == 'v') {
            check_expr(r, e->kid[i], modular);
            continue;
        }
        rg_var *v = e->kid[i]->kind == E_VAR ? rg_find_var(r, e->kid[i]->name) : NULL;
        if (e->kid[i]->kind != E_VAR || !v || v->is_tail)
            rg_die(r->file, e->line, "rule %s: %s needs the name of a bound node", r->name, e->name);
        if (!strcmp(e->name, "min") || !strcmp(e->name, "max")) {
            v->bounds = true;
            if (v->is_node) r->provable = false;
        }
    }
}

static int unique_node(const rg_pat *p, int op) {
    int n = p->kind == P_NODE && p->op == op;
    for (int i = 0; i < p->nkid; i++) n += unique_node(p->kid[i], op);
    return n;
}

static void check_rhs(rg_rule *r, rg_pat *p) {
    if (p->kind == P_EXPR) check_expr(r, p->expr, true);
    if (p->kind == P_ANY) rg_die(r->file, p->line, "rule %s: _ stands on the left only", r->name);
    if ((p->kind == P_VAR && p->cls) || (p->kind != P_INT && p->dtypes != rg_all))
        rg_die(r->file, p->line, "rule %s: constraints stand on the left only", r->name);
    if (p->kind == P_VAR || p->kind == P_TAIL) {
        rg_var *v = rg_find_var(r, p->name);
        if (!v) rg_die(r->file, p->line, "rule %s: %s is not bound on the left", r->name, p->name);
        if (v->is_tail != (p->kind == P_TAIL)) rg_die(r->file, p->line, "rule %s: %s... is a tail", r->name, p->name);
    }
    if (p->kind == P_NODE) {
        if (p->name) rg_die(r->file, p->line, "rule %s: a name is bound on the left only", r->name);
        const char *kind = rg_ops[p->op].arg;
        if (p->arg && p->arg->from) {
            rg_var *v = rg_find_var(r, p->arg->from);
            if (!v) rg_die(r->file, p->line, "rule %s: %s is not bound on the left", r->name, p->arg->from);
            if (strcmp(kind, "DTYPE") && (!v->is_node || strcmp(rg_ops[v->pat->op].arg, kind)))
                rg_die(r->file, p->line, "rule %s: %s has no arg of this kind", r->name, v->name);
        }
        if (p->arg && p->arg->expr) check_expr(r, p->arg->expr, false);
        if (!p->arg && strcmp(kind, "NONE") && strcmp(kind, "INT") && strcmp(kind, "STR") && !rg_words(p->op) &&
            unique_node(r->lhs, p->op) != 1)
            rg_die(r->file, p->line, "rule %s: %s needs an arg: {...} or {=node}", r->name, rg_ops[p->op].name);
        for (int i = 0; i < p->nkid; i++)
            if (p->kid[i]->kind == P_TAIL && i + 1 != p->nkid)
                rg_die(r->file, p->line, "rule %s: a tail comes last", r->name);
    }
    for (int i = 0; i < p->nkid; i++) check_rhs(r, p->kid[i]);
}

/* ---- what can be proved by evaluation ---------------------------------------------------------------------------- */

static bool scalar_only(const rg_pat *p) {
    if (p->kind == P_TAIL) return false;
    if (p->kind == P_VAR && p->cls > C_CONST) return false;
    if (p->kind == P_NODE && (!rg_is_alu(p->op) || p->op == OP_THREEFRY)) return false;
    for (int i = 0; i < p->nkid; i++)
        if (!scalar_only(p->kid[i])) return false;
    return true;
}

/* ---- growth and reachability ------------------------------------------------------------------------------------- */

static int size_of(const rg_pat *p) {
    int n = p->kind == P_NODE;
    for (int i = 0; i < p->nkid; i++) n += size_of(p->kid[i]);
    return n;
}

static bool same_pat(const rg_pat *a, const rg_pat *b) {
    if (a->kind != b->kind || a->op != b->op || a->nkid != b->nkid || a->num != b->num ||
        memcmp(&a->real, &b->real, sizeof a->real) || (a->arg == NULL) != (b->arg == NULL))
        return false;
    if ((a->kind == P_VAR || a->kind == P_TAIL) && strcmp(a->name, b->name)) return false;
    for (int i = 0; i < a->nkid; i++)
        if (!same_pat(a->kid[i], b->kid[i])) return false;
    return a->kind != P_ANY;
}

static bool same_arg(const rg_arg *a, const rg_arg *b) {
    if (!a) return true;
    if (!b || a->n != b->n || a->expr || b->expr) return false;
    for (int i = 0; i < a->n; i++)
        if ((a->field[i] && (!b->field[i] || strcmp(a->field[i], b->field[i]))) || strcmp(a->value[i], b->value[i]))
            return false;
    return true;
}

typedef struct cover {
    const rg_rule *a, *b;
    const char    *name[RG_NAMES];
    const rg_pat  *to[RG_NAMES];
    int            n;
} cover;

static bool in_class(rg_class cls, int need, int op) {
    switch (cls) {
    case C_NONE: return true;
    case C_CONST: return op == OP_CONST;
    case C_ALU: return rg_is_alu(op);
    case C_COMM: return rg_commutes(op);
    case C_OP: return op == need;
    }
    return false;
}

/* Does a's pattern match everything that b's matches? */
static bool covers(cover *c, const rg_pat *a, const rg_pat *b) {
    if (rg_type_mask(&c->b->types, b->type) & ~rg_type_mask(&c->a->types, a->type)) return false;
    switch (a->kind) {
    case P_ANY: return b->kind != P_TAIL;
    case P_TAIL: return true;
    case P_VAR:
        for (int i = 0; i < c->n; i++)
            if (!strcmp(c->name[i], a->name)) return same_pat(c->to[i], b);
        c->name[c->n] = a->name;
        c->to[c->n++] = b;
        if (a->cls == C_NONE) return b->kind != P_TAIL;
        if (b->kind == P_NODE) return in_class(a->cls, a->op, b->op);
        if (b->kind == P_INT || b->kind == P_FLOAT) return a->cls == C_CONST;
        return b->kind == P_VAR && b->cls == a->cls && b->op == a->op;
    case P_INT: return b->kind == P_INT && a->num == b->num;
    case P_FLOAT: return b->kind == P_FLOAT && !memcmp(&a->real, &b->real, sizeof a->real);
    case P_NODE:
        if (b->kind != P_NODE || a->op != b->op || !same_arg(a->arg, b->arg)) return false;
        for (int i = 0; i < a->nkid; i++) {
            if (a->kid[i]->kind == P_TAIL) return true;
            if (i >= b->nkid || !covers(c, a->kid[i], b->kid[i])) return false;
        }
        return a->nkid == b->nkid;
    case P_EXPR: break;
    }
    return false;
}

static bool merges_left_classes(const rg_rule *r) {
    for (int i = 0; i < r->lhs_types.n; i++)
        for (int j = 0; j < i; j++)
            if (rg_type_root(&r->types, i) == rg_type_root(&r->types, j) &&
                rg_type_root(&r->lhs_types, i) != rg_type_root(&r->lhs_types, j))
                return true;
    return false;
}

static void check_reachable(const rg_rule *first, const rg_rule *b) {
    for (const rg_rule *a = first; a != b; a = a->next) {
        if (a->group != b->group || a->cond || a->cfun || merges_left_classes(a)) continue;
        if (b->stages & ~a->stages) continue;
        if (a->mark == M_FAST && b->mark != M_FAST) continue;
        rg_pat *v[64];
        int     n = rg_variants(a, v, 64);
        for (int i = 0; i < n; i++) {
            cover c = {.a = a, .b = b};
            if (covers(&c, v[i], b->lhs))
                rg_die(b->file, b->line, "rule %s can never fire: %s (%s:%d) matches all it does", b->name, a->name,
                       a->file, a->line);
        }
    }
}

/* ---- commutative variants
 * -------------------------------------------------------------------------------------------- */

static int count_commuting(const rg_pat *p) {
    int n = p->kind == P_NODE && p->nkid == 2 && rg_commutes(p->op);
    for (int i = 0; i < p->nkid; i++) n += count_commuting(p->kid[i]);
    return n;
}

static rg_pat *copy_swapped(const rg_pat *p, unsigned *mask) {
    rg_pat *q    = rg_new(sizeof *q);
    *q           = *p;
    bool    comm = p->kind == P_NODE && p->nkid == 2 && rg_commutes(p->op), swap = comm && (*mask & 1);
    if (comm) *mask >>= 1;
    for (int i = 0; i < p->nkid; i++) q->kid[swap ? 1 - i : i] = copy_swapped(p->kid[i], mask);
    return q;
}

/* The pattern as text; by position instead of by name unless `names`. */
static void form(rg_out *o, const rg_pat *p, const char **seen, int *n, bool names) {
    if (p->kind == P_VAR || p->kind == P_TAIL) {
        int i = 0;
        while (i < *n && strcmp(seen[i], p->name)) i++;
        if (i == *n && *n < RG_NAMES) seen[(*n)++] = p->name;
        if (names) rg_put(o, " %s", p->name);
        else rg_put(o, " v%d/%d/%d/%x/%d", i, (int)p->cls, p->op, p->dtypes, (int)p->kind);
        return;
    }
    rg_put(o, " (%d %d %lld %a", (int)p->kind, p->op, (long long)p->num, p->real);
    if (p->arg)
        for (int i = 0; i < p->arg->n; i++)
            rg_put(o, "{%s=%s}", p->arg->field[i] ? p->arg->field[i] : "", p->arg->value[i]);
    for (int i = 0; i < p->nkid; i++) form(o, p->kid[i], seen, n, names);
    rg_put(o, ")");
}

static int number(rg_pat *p, int id) {
    p->id = id++;
    for (int i = 0; i < p->nkid; i++) id = number(p->kid[i], id);
    return id;
}

int rg_variants(const rg_rule *r, rg_pat **out, int cap) {
    int   k = count_commuting(r->lhs), n = 0;
    char *text[64];
    if (k > 6) rg_die(r->file, r->line, "rule %s: too many commutative nodes", r->name);
    for (unsigned mask = 0; mask < 1u << k && n < cap; mask++) {
        unsigned    m = mask;
        rg_pat     *p = copy_swapped(r->lhs, &m);
        rg_out      o = {0};
        const char *seen[RG_NAMES];
        int         ns = 0, i = 0;
        form(&o, p, seen, &ns, r->cond != NULL);
        while (i < n && strcmp(text[i], o.data)) i++;
        if (i < n) continue;
        number(p, 0);
        text[n]  = o.data;
        out[n++] = p;
    }
    return n;
}

/* ---- tests and all
 * ------------------------------------------------------------------------------------------------------ */

static void check_test_pat(const rg_rule *r, rg_test *t, rg_pat *p) {
    if (p->kind == P_EXPR || p->kind == P_ANY || p->kind == P_TAIL || (p->kind == P_VAR && p->cls))
        rg_die(r->file, p->line, "a test is made of ops, variables and numbers");
    if (p->kind == P_VAR) {
        int i = 0;
        while (i < t->nvar && strcmp(t->var[i].name, p->name)) i++;
        if (i == RG_NAMES) rg_die(r->file, p->line, "too many variables");
        if (i == t->nvar) t->var[t->nvar++] = (rg_test_var){.name = p->name, .dtype = -1};
    }
    for (int i = 0; i < p->nkid; i++) check_test_pat(r, t, p->kid[i]);
}

static void check_test(const rg_rule *r, rg_test *t) {
    scope s = {.rule = r, .types = &t->types};
    check_test_pat(r, t, t->lhs);
    infer(&s, t->lhs);
    if (t->rhs) {
        check_test_pat(r, t, t->rhs);
        infer(&s, t->rhs);
        if (r->mark) unify(&t->types, t->lhs->type, t->rhs->type);
    }
    if (r->mark == M_BOOL) want_mark(&t->types, r->mark);
    for (int i = 0; i < t->nvar; i++)
        if (t->var[i].dtype >= 0)
            t->types.want[rg_type_root(&t->types, name_type(&s, t->var[i].name, t->line))] &= RG_BIT(t->var[i].dtype);
    for (int i = 0; i < t->nvar; i++) {
        uint32_t m = rg_type_mask(&t->types, name_type(&s, t->var[i].name, t->line));
        if (!m) rg_die(r->file, t->line, "the dtypes of the test contradict each other");
        if (t->var[i].dtype >= 0) continue;
        t->var[i].dtype = m & RG_BIT(RG_INDEX) ? RG_INDEX : 0;
        for (int d = 1; !t->var[i].dtype && d < RG_INDEX; d++)
            if (m & RG_BIT(d)) t->var[i].dtype = d;
    }
}

void rg_check(rg_set *set) {
    for (rg_rule *r = set->rules; r; r = r->next) {
        for (const rg_rule *o = set->rules; o != r; o = o->next)
            if (o->group == r->group && !strcmp(o->name, r->name))
                rg_die(r->file, r->line, "rule %s: the name is taken by %s:%d", r->name, o->file, o->line);
        for (const rg_rule *o = set->rules; o != r; o = o->next)
            if (o->group == r->group && o->refuses != r->refuses)
                rg_die(r->file, r->line, "rule %s: a group either rewrites or refuses, and %s (%s:%d) does not",
                       r->name, o->name, o->file, o->line);
        bool bad = !r->refuses;
        for (const rg_test *t = r->tests; t; t = t->next) bad |= t->bad;
        if (!bad) rg_die(r->file, r->line, "rule %s: no `bad` program violates it", r->name);
        if (r->lhs->kind != P_NODE && !(r->lhs->kind == P_VAR))
            rg_die(r->file, r->line, "rule %s: the left side must be a node or a variable", r->name);
        int id      = 0;
        r->provable = r->mark != M_NONE && !r->cfun && scalar_only(r->lhs) && r->lhs->kind == P_NODE;
        r->calls_c  = r->cfun != NULL;
        bind(r, r->lhs, &id);
        if (r->cond) check_expr(r, r->cond, false);
        if (r->rhs) {
            check_rhs(r, r->rhs);
            r->provable = r->provable && scalar_only(r->rhs);
        }
        check_types(r);
        if (r->calls_c) r->provable = false;
        for (int i = 0; i < r->nvar; i++)
            if (r->var[i].in_expr && rg_type_mask(&r->types, r->var[i].pat->type) & ~(rg_ints | RG_BIT(RG_BOOL)))
                rg_die(r->file, r->line, "rule %s: %s is used in an expression, so it must be an integer (%s:int)",
                       r->name, r->var[i].name, r->var[i].name);
        if (r->mark && r->rhs && !r->canon && size_of(r->rhs) > size_of(r->lhs))
            rg_die(r->file, r->line, "rule %s grows the graph; if it brings it to canonical order, mark it canon",
                   r->name);
        check_reachable(set->rules, r);
        for (rg_test *t = r->tests; t; t = t->next)
            if (!t->program) check_test(r, t);
    }
}
