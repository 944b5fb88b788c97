/* rulegen_parse.c - reads .rules files into the tree of rulegen.h. docs/add-a-rule.md is the language's reference. */
#include "rulegen.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef enum tok { T_END, T_NAME, T_INT, T_REAL, T_STRING, T_PUNCT } tok;

typedef struct lexer {
    const char *file, *p, *start; /* start of the current token */
    const char *prev_end;         /* end of the token before it */
    int         line, tok_line;
    tok         kind;
    size_t      len;
    int64_t     num;
    double      real;
    const char *for_name, *for_op; /* the rule's `for NAME in ...`, one op at a time */
} lexer;

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void advance(lexer *l) {
    static const char *const two[] = {"=>", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "..", NULL};
    l->prev_end = l->p;
    for (;;) {
        if (*l->p == '#') while (*l->p && *l->p != '\n') l->p++;
        else if (*l->p == '\n') l->line++, l->p++;
        else if (*l->p == ' ' || *l->p == '\t' || *l->p == '\r') l->p++;
        else break;
    }
    l->start    = l->p;
    l->tok_line = l->line;
    if (!*l->p) l->kind = T_END;
    else if (isalpha((unsigned char)*l->p) || *l->p == '_') {
        l->kind = T_NAME;
        while (is_name_char(*l->p)) l->p++;
    } else if (isdigit((unsigned char)*l->p)) {
        char *end;
        l->kind = T_INT;
        l->num  = (int64_t)strtoull(l->p, &end, 0);
        if ((*end == '.' && end[1] != '.') || *end == 'e') {
            l->kind = T_REAL;
            l->real = strtod(l->p, &end);
        }
        l->p = end;
    } else if (*l->p == '"') {
        l->kind = T_STRING;
        for (l->p++; *l->p && *l->p != '"' && *l->p != '\n'; l->p++) l->p += *l->p == '\\' && l->p[1] == '"';
        if (*l->p != '"') rg_die(l->file, l->line, "a text is not closed");
        l->p++;
    } else {
        l->kind = T_PUNCT;
        l->p++;
        for (int i = 0; two[i]; i++)
            if (l->start[0] == two[i][0] && l->start[1] == two[i][1]) {
                l->p++;
                break;
            }
        if (l->start[0] == '.' && l->start[1] == '.' && l->start[2] == '.') l->p = l->start + 3;
    }
    l->len = (size_t)(l->p - l->start);
}

static bool at(const lexer *l, const char *text) {
    return (l->kind == T_PUNCT || l->kind == T_NAME) && strlen(text) == l->len && !memcmp(l->start, text, l->len);
}

static bool accept(lexer *l, const char *text) {
    if (!at(l, text)) return false;
    advance(l);
    return true;
}

static _Noreturn void unexpected(const lexer *l, const char *want) {
    rg_die(l->file, l->tok_line, "expected %s, found '%.*s'", want, l->kind == T_END ? 3 : (int)l->len,
           l->kind == T_END ? "end" : l->start);
}

static void expect(lexer *l, const char *text) {
    if (!accept(l, text)) unexpected(l, text);
}

static const char *take_name(lexer *l, const char *what) {
    if (l->kind != T_NAME) unexpected(l, what);
    const char *s = rg_text(l->start, l->len);
    advance(l);
    return s;
}

static int64_t take_int(lexer *l) {
    bool neg = accept(l, "-");
    if (l->kind != T_INT) unexpected(l, "an integer");
    int64_t v = neg ? (int64_t)(0 - (uint64_t)l->num) : l->num;
    advance(l);
    return v;
}

/* ---- expressions ---------------------------------------------------------------------------------------------- */

static int precedence(const lexer *l) {
    static const struct { const char *op; int p; } table[] = {
        {"||", 1}, {"&&", 2}, {"|", 3}, {"^", 4}, {"&", 5}, {"==", 6}, {"!=", 6}, {"<", 7}, {">", 7}, {"<=", 7},
        {">=", 7}, {"<<", 8}, {">>", 8}, {"+", 9}, {"-", 9}, {"*", 10}, {"/", 10}, {"%", 10}, {NULL, 0}};
    if (l->kind != T_PUNCT) return 0;
    for (int i = 0; table[i].op; i++)
        if (at(l, table[i].op)) return table[i].p;
    return 0;
}

static rg_expr *new_expr(const lexer *l, rg_ekind kind) {
    rg_expr *e = rg_new(sizeof *e);
    e->kind    = kind;
    e->line    = l->tok_line;
    return e;
}

static rg_expr *parse_expr(lexer *l, int least);

static rg_expr *parse_operand(lexer *l) {
    rg_expr *e;
    if (at(l, "-") || at(l, "!") || at(l, "~")) {
        e         = new_expr(l, E_UN);
        e->name   = rg_text(l->start, l->len);
        advance(l);
        e->kid[0] = parse_operand(l);
        e->nkid   = 1;
        return e;
    }
    if (accept(l, "(")) {
        e = parse_expr(l, 1);
        expect(l, ")");
        return e;
    }
    if (l->kind == T_INT) {
        e      = new_expr(l, E_NUM);
        e->num = l->num;
        advance(l);
        return e;
    }
    e       = new_expr(l, E_VAR);
    e->name = take_name(l, "a variable, a number or a function");
    if (!accept(l, "(")) return e;
    e->kind = E_CALL;
    while (!accept(l, ")")) {
        if (e->nkid == 4) rg_die(l->file, l->tok_line, "%s: too many arguments", e->name);
        e->kid[e->nkid++] = parse_expr(l, 1);
        if (!at(l, ")")) expect(l, ",");
    }
    return e;
}

static rg_expr *parse_expr(lexer *l, int least) {
    rg_expr *left = parse_operand(l);
    for (int p; (p = precedence(l)) >= least && p > 0;) {
        rg_expr *e = new_expr(l, E_BIN);
        e->name    = rg_text(l->start, l->len);
        advance(l);
        e->kid[0] = left;
        e->kid[1] = parse_expr(l, p + 1);
        e->nkid   = 2;
        left      = e;
    }
    return left;
}

/* ---- patterns -------------------------------------------------------------------------------------------------- */

static rg_pat *new_pat(const lexer *l, rg_pkind kind) {
    rg_pat *p = rg_new(sizeof *p);
    p->kind   = kind;
    p->line   = l->tok_line;
    p->op     = -1;
    p->type   = -1;
    p->dtypes = rg_all;
    return p;
}

static int take_op(lexer *l, const char *name) {
    if (l->for_name && !strcmp(name, l->for_name)) name = l->for_op;
    int op = rg_op_by_name(name, strlen(name));
    if (op < 0) rg_die(l->file, l->tok_line, "no op is called %s", name);
    return op;
}

static const char *take_arg_value(lexer *l, const char *type) {
    if (l->kind == T_INT || at(l, "-")) {
        int64_t v = take_int(l);
        return v == INT64_MIN ? "INT64_MIN" : rg_format("INT64_C(%lld)", (long long)v);
    }
    int         line = l->tok_line;
    const char *name = take_name(l, "a value");
    if (!strcmp(type, "DTYPE")) {
        int d = rg_dtype_by_name(name, strlen(name));
        if (d < 0) rg_die(l->file, line, "no dtype is called %s", name);
        return rg_dtype_symbol(d);
    }
    if (!strcmp(type, "SPACE")) return rg_format("KN_%s", name);
    if (!strcmp(type, "AXIS")) return rg_format("KN_AXIS_%s", name);
    if (!strcmp(type, "BOOL") && (!strcmp(name, "true") || !strcmp(name, "false"))) return name;
    if (!strcmp(type, "OP")) return rg_format("KN_OP_%s", rg_ops[take_op(l, name)].name);
    rg_die(l->file, line, "'%s' is not a value of type %s", name, type);
}

static void parse_arg(lexer *l, rg_pat *p) {
    const char     *kind = rg_ops[p->op].arg;
    const rg_field *field;
    rg_arg         *a = p->arg = rg_new(sizeof *a);
    int             nfield = rg_fields(kind, &field), line = l->tok_line;
    if (accept(l, "=")) {
        a->from = take_name(l, "the name of a node");
    } else if (!strcmp(kind, "DTYPE")) {
        a->value[a->n++] = take_arg_value(l, "DTYPE");
    } else if (!strcmp(kind, "INT")) {
        a->expr = parse_expr(l, 1);
    } else if (nfield >= 0) {
        while (!at(l, "}")) {
            if (a->n == RG_ARGS) rg_die(l->file, line, "too many settings");
            const char *name = take_name(l, "a field");
            int         k    = 0;
            if (!accept(l, "=")) { /* {ADD}: the op of a REDUCE */
                if (strcmp(kind, "REDUCE") && strcmp(kind, "ALLREDUCE")) rg_die(l->file, line, "expected field=value");
                a->field[a->n]   = "op";
                a->value[a->n++] = rg_format("KN_OP_%s", rg_ops[take_op(l, name)].name);
            } else {
                while (k < nfield && strcmp(field[k].name, name)) k++;
                if (k == nfield) rg_die(l->file, line, "%s has no field %s", rg_ops[p->op].name, name);
                a->field[a->n]   = field[k].name;
                a->value[a->n++] = take_arg_value(l, field[k].type);
            }
            if (!at(l, "}")) expect(l, ",");
        }
    } else {
        rg_die(l->file, line, "%s takes no {...} here but {=name}", rg_ops[p->op].name);
    }
    expect(l, "}");
}

static void parse_constraint(lexer *l, rg_pat *p) {
    static const struct { const char *name; rg_class cls; } classes[] = {
        {"const", C_CONST}, {"alu", C_ALU}, {"comm", C_COMM}, {NULL, C_NONE}};
    int         line = l->tok_line;
    const char *name = take_name(l, "a constraint");
    for (int i = 0; classes[i].name; i++)
        if (!strcmp(classes[i].name, name)) {
            p->cls = classes[i].cls;
            return;
        }
    int d = rg_dtype_by_name(name, strlen(name));
    if (!strcmp(name, "int")) p->dtypes &= rg_ints;
    else if (!strcmp(name, "float")) p->dtypes &= rg_floats;
    else if (d >= 0) p->dtypes &= RG_BIT(d);
    else if (isupper((unsigned char)*name)) {
        p->cls = C_OP;
        p->op  = take_op(l, name);
    } else rg_die(l->file, line, "no constraint is called %s", name);
}

static rg_pat *parse_pat(lexer *l) {
    rg_pat *p;
    if (accept(l, "(")) {
        p       = new_pat(l, P_NODE);
        p->op   = take_op(l, take_name(l, "an op"));
        if (l->start == l->prev_end && accept(l, "{")) parse_arg(l, p); /* behind a blank it is a computed operand */
        while (!accept(l, ")")) {
            if (p->nkid == RG_KIDS) rg_die(l->file, l->tok_line, "%s: too many operands", rg_ops[p->op].name);
            p->kid[p->nkid++] = parse_pat(l);
        }
        if (accept(l, ":")) {
            p->name = take_name(l, "a name");
            while (accept(l, ":")) parse_constraint(l, p);
        }
        return p;
    }
    if (accept(l, "{")) {
        p       = new_pat(l, P_EXPR);
        p->expr = parse_expr(l, 1);
        expect(l, "}");
        return p;
    }
    bool neg = accept(l, "-");
    if (l->kind == T_INT || l->kind == T_REAL) {
        p       = new_pat(l, l->kind == T_INT ? P_INT : P_FLOAT);
        p->num  = neg ? (int64_t)(0 - (uint64_t)l->num) : l->num;
        p->real = neg ? -l->real : l->real;
        advance(l);
        return p;
    }
    int         line = l->tok_line;
    const char *name = take_name(l, "a pattern");
    if (!strcmp(name, "inf") || !strcmp(name, "nan")) {
        p       = new_pat(l, P_FLOAT);
        p->real = name[0] == 'n' ? strtod("nan", NULL) : neg ? -strtod("inf", NULL) : strtod("inf", NULL);
    } else if (neg) {
        unexpected(l, "a number");
    } else if (!strcmp(name, "true") || !strcmp(name, "false")) {
        p         = new_pat(l, P_INT);
        p->num    = name[0] == 't';
        p->dtypes = RG_BIT(RG_BOOL);
    } else if (!strcmp(name, "_")) {
        p = new_pat(l, P_ANY);
    } else {
        p       = new_pat(l, P_VAR);
        p->name = name;
        if (accept(l, "...")) p->kind = P_TAIL;
        while (accept(l, ":")) parse_constraint(l, p);
    }
    p->line = line;
    return p;
}

/* ---- statements ------------------------------------------------------------------------------------------------ */

static bool at_statement(const lexer *l) {
    return l->kind == T_END || at(l, "rule") || at(l, "test") || at(l, "bad") || at(l, "good") || at(l, "group") ||
           at(l, "include");
}

static void parse_test(lexer *l, rg_rule *r) {
    rg_test *t = rg_new(sizeof *t), **tail = &r->tests;
    t->line    = l->tok_line;
    t->lhs     = parse_pat(l);
    if (accept(l, "where")) do {
            if (t->nvar == RG_NAMES) rg_die(l->file, l->tok_line, "too many variables");
            rg_test_var *v = &t->var[t->nvar++];
            v->name        = take_name(l, "a variable");
            v->dtype       = -1;
            if (!at(l, "in") && l->kind == T_NAME) {
                v->dtype = rg_dtype_by_name(l->start, l->len);
                if (v->dtype < 0) unexpected(l, "a dtype");
                advance(l);
            }
            if (accept(l, "in")) {
                v->bounded = true;
                v->lo      = take_int(l);
                expect(l, "..");
                v->hi = take_int(l);
            }
        } while (accept(l, ","));
    expect(l, "=>");
    if (!accept(l, "same")) t->rhs = parse_pat(l);
    while (*tail) tail = &(*tail)->next;
    *tail = t;
}

/* One text or several, a line each. `$OP` is the op of `for OP in ...`. */
static char *take_text(lexer *l, const char *what) {
    char *all = rg_text("", 0);
    if (l->kind != T_STRING) unexpected(l, what);
    for (; l->kind == T_STRING; advance(l)) {
        char *line = rg_text(l->start + 1, l->len - 2), *at_op;
        while ((at_op = strstr(line, "\\\""))) memmove(at_op, at_op + 1, strlen(at_op));
        while (l->for_name && (at_op = strchr(line, '$')) && !strncmp(at_op + 1, l->for_name, strlen(l->for_name)))
            line = rg_format("%.*s%s%s", (int)(at_op - line), line, l->for_op, at_op + 1 + strlen(l->for_name));
        all = rg_format("%s%s%s", all, *all ? "\n" : "", line);
    }
    return all;
}

static int take_stage(lexer *l) {
    int         line = l->tok_line, i = 0;
    const char *name = take_name(l, "a stage");
    while (i < RG_STAGES && strcmp(rg_stage_names[i], name)) i++;
    if (i == RG_STAGES) rg_die(l->file, line, "no stage is called %s", name);
    return i;
}

static uint32_t parse_stages(lexer *l) {
    uint32_t mask = 0;
    do {
        int line = l->tok_line, first = take_stage(l), last = accept(l, "..") ? take_stage(l) : first;
        if (last < first) rg_die(l->file, line, "%s comes after %s", rg_stage_names[first], rg_stage_names[last]);
        for (int i = first; i <= last; i++) mask |= UINT32_C(1) << i;
    } while (accept(l, ","));
    return mask;
}

static void parse_program(lexer *l, rg_rule *r, bool bad) {
    rg_test *t = rg_new(sizeof *t), **tail = &r->tests;
    t->line    = l->tok_line;
    t->bad     = bad;
    t->stage   = take_stage(l);
    t->program = take_text(l, "a program in quotes");
    if (accept(l, "as")) {
        t->as = l->kind == T_NAME ? rg_dtype_by_name(l->start, l->len) : -1;
        if (t->as < 0) unexpected(l, "a dtype");
        advance(l);
    }
    if (accept(l, "for")) { /* of some of the rule's ops only */
        bool mine = false;
        if (!l->for_name) rg_die(l->file, t->line, "rule %s is not for several ops", r->name);
        while (l->kind == T_NAME && !at_statement(l)) mine |= !strcmp(take_name(l, "an op"), l->for_op);
        if (!mine) return;
    }
    if (!r->refuses) rg_die(l->file, t->line, "rule %s refuses nothing: `test` is for rules that rewrite", r->name);
    if (bad && !(r->stages >> t->stage & 1))
        rg_die(l->file, t->line, "rule %s does not hold at %s", r->name, rg_stage_names[t->stage]);
    while (*tail) tail = &(*tail)->next;
    *tail = t;
}

/* One line of text, runs of blanks made one. */
static char *one_line(const char *s, size_t len) {
    char  *out = rg_new(len + 1);
    size_t n   = 0;
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '#') while (i + 1 < len && s[i + 1] != '\n') i++;
        else if (!isspace((unsigned char)s[i])) out[n++] = s[i];
        else if (n && out[n - 1] != ' ') out[n++] = ' ';
    }
    while (n && out[n - 1] == ' ') n--;
    out[n] = 0;
    return out;
}

static void parse_rule_body(rg_set *set, lexer *l, rg_rule *r) {
    bool staged = false;
    r->lhs      = parse_pat(l);
    r->stages   = (UINT32_C(1) << RG_STAGES) - 1;
    for (;;) {
        if (accept(l, "if")) {
            r->cond = parse_expr(l, 1);
        } else if (accept(l, "canon")) {
            r->canon = true;
        } else if (accept(l, "@")) {
            int         line = l->tok_line, m = M_INT;
            const char *name = take_name(l, "a mark");
            while (m <= M_FAST && strcmp(rg_mark_names[m], name)) m++;
            if (m > M_FAST) rg_die(l->file, line, "no mark is called @%s", name);
            r->mark = (rg_mark)m;
        } else if (accept(l, "in")) {
            staged    = true;
            r->stages = parse_stages(l);
        } else break;
    }
    expect(l, "=>");
    if ((r->refuses = accept(l, "refuse"))) {
        if (r->mark || r->canon) rg_die(l->file, r->line, "rule %s refuses: it keeps no value", r->name);
        if (!accept(l, "C")) r->refusal = take_text(l, "what is wrong, in quotes");
        else r->cfun = take_name(l, "a function");
    } else if (staged) {
        rg_die(l->file, r->line, "rule %s: only rules that refuse stand under stages", r->name);
    } else if (accept(l, "C")) r->cfun = take_name(l, "a function");
    else r->rhs = parse_pat(l);
    r->text = one_line(r->text, (size_t)(l->prev_end - r->text));
    if (!at_statement(l)) unexpected(l, "rule, test, bad, good, group or include");
    for (bool bad; at(l, "test") || at(l, "bad") || at(l, "good");) {
        if (accept(l, "test")) {
            if (r->refuses) rg_die(l->file, r->line, "rule %s refuses: it is tried by `bad` and `good`", r->name);
            parse_test(l, r);
            continue;
        }
        bad = at(l, "bad");
        advance(l);
        parse_program(l, r, bad);
    }
    *set->tail = r;
    set->tail  = &r->next;
    r->id      = set->nrules++;
}

/* `rule NAME for OP in ADD MUL ... (body)`: the body is read once for each op, as the rule NAME_ADD, NAME_MUL, ... */
static void parse_rule(rg_set *set, lexer *l, int group) {
    rg_rule     proto = {.file = l->file, .line = l->tok_line, .group = group};
    const char *name  = take_name(l, "the rule's name");
    if (group < 0) rg_die(l->file, proto.line, "rule %s stands before any group", name);
    proto.name = name;
    proto.text = l->start;
    if (!accept(l, "for")) {
        rg_rule *r = rg_new(sizeof *r);
        *r         = proto;
        parse_rule_body(set, l, r);
        return;
    }
    const char *ops[32];
    int         n = 0;
    l->for_name   = take_name(l, "a name for the op");
    expect(l, "in");
    while (l->kind == T_NAME && n < 32) {
        ops[n] = take_name(l, "an op");
        if (rg_op_by_name(ops[n], strlen(ops[n])) < 0) rg_die(l->file, l->tok_line, "no op is called %s", ops[n]);
        n++;
    }
    lexer body = *l;
    for (int i = 0; i < n; i++) {
        rg_rule *r = rg_new(sizeof *r);
        *l         = body;
        *r         = proto;
        r->name    = rg_format("%s_%s", name, ops[i]);
        l->for_op  = ops[i];
        parse_rule_body(set, l, r);
    }
    l->for_name = NULL;
}

static int parse_group(rg_set *set, lexer *l) {
    const char *start = l->start;
    take_name(l, "the group's name");
    while (accept(l, ".")) take_name(l, "the rest of the group's name");
    char *name = rg_text(start, (size_t)(l->prev_end - start)), *symbol = rg_text(name, strlen(name));
    for (char *p = symbol; *p; p++)
        if (*p == '.') *p = '_';
    bool lanes = accept(l, "lanes");
    for (int i = 0; i < set->ngroups; i++) {
        if (strcmp(set->group[i].symbol, symbol) != 0) continue;
        set->group[i].lanes |= lanes;
        if (l->kind != T_STRING) return i;
        if (*set->group[i].doc) rg_die(l->file, l->tok_line, "group %s has been described already", name);
        set->group[i].doc = rg_text(l->start + 1, l->len - 2);
        advance(l);
        return i;
    }
    if (set->ngroups == RG_GROUPS) rg_die(l->file, l->tok_line, "more than %d groups", RG_GROUPS);
    const char *doc = "";
    if (l->kind == T_STRING) {
        doc = rg_text(l->start + 1, l->len - 2);
        advance(l);
    }
    set->group[set->ngroups] = (rg_group){name, symbol, doc, lanes};
    return set->ngroups++;
}

void rg_parse(rg_set *set, const char *file, const char *text) {
    lexer l     = {.file = file, .p = text, .line = 1};
    int   group = -1;
    advance(&l);
    while (l.kind != T_END) {
        if (accept(&l, "group")) {
            group = parse_group(set, &l);
        } else if (accept(&l, "include")) {
            if (l.kind != T_STRING) unexpected(&l, "a header in quotes");
            const char *name = rg_text(l.start + 1, l.len - 2);
            int         i    = 0;
            while (i < set->nincludes && strcmp(set->include[i], name)) i++;
            if (i == 32) rg_die(file, l.tok_line, "too many includes");
            if (i == set->nincludes) set->include[set->nincludes++] = name;
            advance(&l);
        } else if (accept(&l, "rule")) {
            parse_rule(set, &l, group);
        } else {
            unexpected(&l, "rule, test, group or include");
        }
    }
}
