/* rulegen.h - what the parts of rulegen share: the syntax tree of a .rules file and the text writers.
 *
 * rulegen is a host tool: libc alone, output that depends on nothing but its input files. A fault in the input ends it
 * with "file:line: what" and exit code 1. */
#ifndef RULEGEN_H
#define RULEGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
#define OP(name, lo, hi, arg, cls, dt, sh, doc) OP_##name,
#include "dialect/ops.def"
#undef OP
    OP_COUNT
};

typedef struct rg_op {
    const char *name;
    int         lo, hi;
    const char *arg, *cls, *dt;
} rg_op;
extern const rg_op rg_ops[OP_COUNT];
int  rg_op_by_name(const char *name, size_t len); /* -1: none */
bool rg_is_alu(int op);
bool rg_commutes(int op);
bool rg_words(int op);                              /* the arg is a run of words */

/* Dtypes are bits of a mask, numbered by their pinned public value. */
enum { RG_BOOL = 1, RG_INDEX = 16, RG_U64 = 9 };
#define RG_BIT(d) (1u << (d))
extern const uint32_t rg_all, rg_ints, rg_floats;
int         rg_dtype_by_name(const char *name, size_t len); /* -1: none */
const char *rg_dtype_symbol(int d);                         /* "KN_F32" */

typedef struct rg_field {
    const char *kind, *name, *type, *dflt;
} rg_field;
/* The fixed fields of a word kind, in order: how many, and the first of them. */
int rg_fields(const char *kind, const rg_field **first);

/* ---- expressions over constants ------------------------------------------------------------------------------ */
typedef enum rg_ekind { E_NUM, E_VAR, E_CALL, E_UN, E_BIN } rg_ekind;
typedef struct rg_expr {
    rg_ekind        kind;
    int             line;
    int64_t         num;
    const char     *name; /* variable, function, or operator */
    struct rg_expr *kid[4];
    int             nkid;
} rg_expr;

/* ---- patterns ------------------------------------------------------------------------------------------------ */
typedef enum rg_pkind { P_NODE, P_VAR, P_INT, P_FLOAT, P_ANY, P_EXPR, P_TAIL } rg_pkind;
typedef enum rg_class { C_NONE, C_CONST, C_ALU, C_COMM, C_OP } rg_class;
enum { RG_KIDS = 8, RG_ARGS = 8, RG_NAMES = 32, RG_TYPES = 64 };

typedef struct rg_arg {
    int         n;             /* settings: value[i] for field[i]; an inline arg has one, without a field */
    const char *field[RG_ARGS];
    const char *value[RG_ARGS]; /* C text */
    rg_expr    *expr;          /* an inline INT computed on the right */
    const char *from;          /* {=x}: the arg of node x, or for CAST and BITCAST the dtype of x */
} rg_arg;

typedef struct rg_pat {
    rg_pkind       kind;
    int            line, op, type, nkid, id;
    const char    *name; /* of a variable or tail; of a node: the name it is bound to, or NULL */
    rg_class       cls;  /* of a variable */
    uint32_t       dtypes;
    int64_t        num;
    double         real;
    rg_expr       *expr;
    rg_arg        *arg;
    struct rg_pat *kid[RG_KIDS];
} rg_pat;

/* Type classes: nodes that must have the same dtype. `given` follows from the ops, `want` is what the rule asks for. */
typedef struct rg_types {
    int      n, parent[RG_TYPES];
    uint32_t given[RG_TYPES], want[RG_TYPES];
} rg_types;

typedef struct rg_var {
    const char *name;
    rg_pat     *pat; /* where it is first bound */
    bool        is_const, is_tail, is_node, in_expr, bounds;
    bool        by_value; /* an expression reads more of it than its bits */
} rg_var;

typedef struct rg_test_var {
    const char *name;
    int         dtype; /* -1: from inference, else index */
    bool        bounded;
    int64_t     lo, hi;
} rg_test_var;

/* `test`: lhs becomes rhs. Of a rule that refuses, `bad` and `good`: a program, and the stage it is checked at. */
typedef struct rg_test {
    struct rg_test *next;
    int             line, nvar;
    const char     *program;
    int             stage, as; /* as: the dtype that the CONST it ends with is given, 0: its own */
    bool            bad;
    rg_pat         *lhs, *rhs; /* rhs NULL: stays as it is */
    rg_test_var     var[RG_NAMES];
    rg_types        types;
} rg_test;

typedef enum rg_mark { M_NONE, M_INT, M_INDEX, M_BOOL, M_EXACT, M_FAST } rg_mark;
extern const char *const rg_mark_names[];

typedef struct rg_rule {
    struct rg_rule *next;
    const char     *name, *file, *text, *cfun;
    bool            refuses; /* what it matches is wrong: `refusal` says how, or cfun finds out */
    const char     *refusal;
    uint32_t        stages;  /* bits: where it holds */
    int             line, group, id, nvar;
    rg_mark         mark;
    bool            canon, calls_c, provable;
    rg_pat         *lhs, *rhs;
    rg_expr        *cond;
    rg_types        types, lhs_types; /* of both sides; of the left side alone, before what the mark asks for */
    rg_var          var[RG_NAMES];
    rg_test        *tests;
} rg_rule;

typedef struct rg_group {
    const char *name, *symbol, *doc;
    bool        lanes; /* its rules match values of lanes alone */
} rg_group;

enum { RG_GROUPS = 60 };
typedef struct rg_set {
    rg_rule    *rules, **tail;
    int         nrules, ngroups, nincludes;
    rg_group    group[RG_GROUPS];
    const char *include[32];
} rg_set;

enum {
#define STAGE(symbol, name) RG_STAGE_##symbol,
#include "rules/stages.def"
#undef STAGE
    RG_STAGES
};
extern const char *const rg_stage_names[RG_STAGES];

/* ---- services (rulegen.c) ------------------------------------------------------------------------------------ */
#define RG_PRINTF(f, a) __attribute__((format(printf, f, a)))
void *rg_new(size_t size); /* zeroed, freed at exit */
char *rg_text(const char *s, size_t len);
char *rg_format(const char *fmt, ...) RG_PRINTF(1, 2);
_Noreturn void rg_die(const char *file, int line, const char *fmt, ...) RG_PRINTF(3, 4);

typedef struct rg_out {
    char  *data;
    size_t len, cap;
} rg_out;
void rg_put(rg_out *o, const char *fmt, ...) RG_PRINTF(2, 3);

/* ---- parts --------------------------------------------------------------------------------------------------- */
void    rg_parse(rg_set *set, const char *file, const char *text);           /* rulegen_parse.c */
void    rg_check(rg_set *set);                                               /* rulegen_check.c */
int     rg_type_root(const rg_types *t, int type);
uint32_t rg_type_mask(const rg_types *t, int type); /* the dtypes its class can have */
rg_var *rg_find_var(const rg_rule *r, const char *name);
/* What a function of the expression language takes: 'n' a node, 'v' a value, a letter an argument; NULL: not one. */
const char *rg_builtin(const char *name);
/* Every order of the commutative nodes of the left side that can match something new. */
int     rg_variants(const rg_rule *r, rg_pat **out, int cap);
void    rg_emit_match(const rg_set *set, rg_out *c, rg_out *h);              /* rulegen_emit.c */
/* An expression as C: over v_NAME and r_NAME of a matcher, or, for a proof, over the arrays of its input. */
void    rg_emit_expr(rg_out *o, const rg_rule *r, const rg_expr *e, bool proof);
int     rg_proof_type(const rg_rule *r, int type); /* the number of its class among the rule's classes */
/* Statements that build a pattern. The callbacks give C text: a variable's ref; where in the left side the one node of
 * an op stands (its kn_node), or NULL; the dtype of a type class, or NULL. */
typedef struct rg_build {
    rg_out         *o;
    const rg_rule  *rule;
    const rg_types *types;
    const char     *(*bound)(const void *user, const char *name);
    const char     *(*arg_of)(const void *user, int op);
    const char     *(*dtype_of)(const void *user, int type);
    const void     *user;
    int             next;
    const char     *indent;
} rg_build;
void        rg_emit_text(rg_out *o, const char *s); /* as a C string */
const char *rg_emit_build(rg_build *b, const rg_pat *p); /* the text of the ref */
void    rg_emit_proof(const rg_set *set, rg_out *c, rg_out *h);              /* rulegen_proof.c */

#endif
