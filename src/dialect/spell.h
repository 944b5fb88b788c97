/* spell.h - other names that the reader takes: those of the bestiary. What they mean is in the table of
 * docs/dialect.md. */
#ifndef KN_SPELL_H
#define KN_SPELL_H

#include "dialect/uop.h"

typedef enum kn_spell_how {
    KN_SPELL_NAME,    /* another name, perhaps with other defaults */
    KN_SPELL_VAR,     /* PARAM of shape () */
    KN_SPELL_KERNEL,  /* CALL with the body last */
    KN_SPELL_POINTER, /* INDEX by bytes */
    KN_SPELL_GEP,     /* INDEX by the axes list: one entry a scalar, more a shape */
    KN_SPELL_CAT,     /* STACK of lanes */
    KN_SPELL_UNIQUE,  /* the identity of a BUFFER: a number */
    KN_SPELL_UNROLL,  /* lanes become leading axes; the axes list: (axis, factor) pairs, axes ascending */
    KN_SPELL_CONTRACT, /* the inverse */
    KN_SPELL_BOX      /* PAD or SHRINK by what stands before and behind; arg: the two lists, one after the other */
} kn_spell_how;

typedef struct kn_spelling {
    const char  *name;
    int          op;
    kn_arg_kind  arg;
    kn_spell_how how;
    int          space, dtype; /* defaults of the arg's fields, -1: the table's */
} kn_spelling;
extern const kn_spelling kn_spell_pad, kn_spell_shrink;

const kn_spelling *kn_spelling_of(const char *name, size_t len);   /* NULL: none */
int                kn_spelled_dtype(const char *name, size_t len); /* "Float32"; -1: none */
const char        *kn_dtype_spelling(int dtype);
const char        *kn_op_spelling(int op); /* LT of CMPLT; most are called the same */
extern const char *const kn_axis_spelling[KN_AXIS_COUNT];
extern const char *const kn_space_spelling[KN_SPACE_COUNT];

/* kn_range_start of an op as the bestiary writes it: its STORE has ranges too. */
int kn_spelled_range_start(const char *name, size_t len);

/* The node that (s, op, ...) stands for; s may be NULL. Sources may be reordered in place. 0 with the graph's fault. */
kn_ref kn_spell_node(kn_graph *g, const kn_spelling *s, int op, int dtype, uint16_t tag, uint64_t arg, kn_ref *src,
                     uint32_t nsrc);

#endif
