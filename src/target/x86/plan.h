/* plan.h - between a LINEAR of x86-64 and its bytes: where every value is.
 *
 * A value is known by its node: an INS, LOAD, RANGE or PARAM, or the BUFFER{REG} of an accumulator. It is in one
 * register from its definition to its last use, through the loops that it outlives, or else in the frame all the time.
 * Some nodes are no values of their own: a LOAD of an accumulator is its register's name, a LOAD with one use may stand
 * in that instruction's memory operand, INDEX and ADD are parts of addresses. */
#ifndef KN_X86_PLAN_H
#define KN_X86_PLAN_H

#include "target/x86/encode.h"
#include "target/x86/x86.h"

enum { KX_MAX_LOOPS = 256, KX_NO_PARTS = 1 << 30, KX_MAX_OPERANDS = 16 };
typedef enum kx_bank { KX_BANK_GP, KX_BANK_VEC, KX_BANK_MASK, KX_BANKS, KX_BANK_NONE = 255 } kx_bank;

typedef struct kx_value {
    uint8_t  bank, bytes; /* bytes: of a vector register */
    int8_t   reg;         /* -1: in the frame, or nowhere */
    bool     needed;      /* emitted */
    bool     folded;      /* stands in its one user */
    bool     whole;       /* an integer: something looks at what its register has above its bits */
    bool     unrounded;   /* INS: lanes CAST to f16 for one STORE to memory, which rounds */
    bool     step;        /* INS: a running sum over the loop of its RANGE */
    bool     inverts;     /* NOT of a comparison of floats, or of AVX-512: one of the other predicate */
    uint8_t  under;       /* AND of bools: 1 + the source that is a comparison, made under the other as its mask;
                             WHERE: 1 + the source that is arithmetic, made where it is chosen */
    bool     logic;       /* AND, OR, XOR or NOT of lanes: another one stands in it, or it in that (logic.c) */
    uint8_t  turned;      /* OR of a value shifted left by so many bits and right by the rest: a rotation */
    uint32_t uses, at;    /* at: place in the list + 1 */
    uint32_t spread;      /* LOAD of a scalar: uses that repeat it over lanes, in its loop */
    uint8_t  repeated;    /* LOAD of a scalar: it is repeated over so many bytes as it is read, for others and itself */
    uint16_t moved;       /* 1 + the innermost loop where a move changes its register last */
    uint16_t wanted;      /* 1 + the innermost loop that could make values again if this one lived through it */
    int32_t  extended;    /* it does: its end before; else 0 */
    int8_t   home;        /* of what is moved: its register where the loop opens and behind it, or where it is made */
    bool     low;         /* INS: lanes of what another one, or a LOAD, repeats, in the register of that one */
    kn_ref   same;        /* another name of this value, 0 its own */
    kn_ref   pointer;     /* step: the PARAM that it is an address in, not a number of elements. 0: a number */
                          /* PARAM: the other one that its register has the distance from. 0: its address */
    uint32_t places;      /* step: its uses in places of PARAMs */
    bool     fixed;       /* PARAM: an address, whatever steps are */
    kn_ref   part; /* LOAD: of what this STORE stored; of such a BUFFER, its STOREs, each the next. 0: of memory */
    kn_ref   other; /* LOAD of every second lane of two registers: the STORE of the second of them */
    uint8_t  within; /* LOAD of every second lane in a block that is turned: the so-manieth shuffle (blocks.c), */
    bool     across; /* the last, which exchanges halves; */
    uint32_t inside; /* others of the block that read it */
    uint8_t  even;   /* an index: a multiple of 1 << even, as far as is known (pace.c) */
    int32_t  start, end; /* twice the places in the list */
    int32_t  slot;       /* in the frame, -1 none */
    double   weight;
} kx_value;

typedef struct kx_loop {
    kn_ref   range;
    uint32_t open, close; /* places in the list */
    int      parent, depth;
    bool     writes, shared;   /* stores to GLOBAL memory; is a THREAD loop, */
    int64_t  before;           /* with so many iterations of others before it */
    bool     inner;            /* holds no loop */
    bool     roomy;            /* and no vector that it reads or makes lies in the frame */
    bool     shares[KX_BANKS]; /* moves say where its values are */
} kx_loop;

/* While an innermost loop runs, a value of the frame is in a register (`written`: and goes back), or a value of a
 * register that the loop does not look at is `away`, in the frame. While a loop runs, a constant is in a register, or
 * the `table` of a LOAD; or a constant behind the loops in it, from place `behind` on. */
typedef struct kx_split {
    kn_ref   value;
    int      loop, reg;
    bool     away, written;
    uint8_t  table; /* 1 + the number of it among the LOAD's, 0: no table */
    uint32_t behind; /* 0: all the time */
} kx_split;

/* Before the item at a place of an innermost loop: a value leaves its register; goes to the frame, and comes from it;
 * is made there again; goes over to another register; has one from now on, which the item fills. In place of the frame
 * it may be `side`: a register of vectors for general ones, else a general one. KX_ASIDE: it is there when the loop
 * opens. */
typedef enum kx_way { KX_AWAY, KX_TO_FRAME, KX_FROM_FRAME, KX_AGAIN, KX_OVER, KX_HERE, KX_ASIDE } kx_way;
typedef struct kx_move {
    uint32_t at;
    kn_ref   value;     /* KX_AGAIN: the node that makes it */
    int8_t   reg, side; /* side: -1 none */
    uint8_t  way;
} kx_move;

typedef struct kx_plan {
    const kn_graph *g;
    const kn_ref   *list;
    uint32_t        n;
    kn_fault       *f;
    bool            avx512;
    int             flag; /* bytes of a lane of a mask of AVX2 */
    int             regs;  /* kt_choice's */
    bool            tight; /* values lie in the frame: more registers are kept for their way */
    kx_value       *value; /* per node */
    size_t          size;
    int            *loop_of; /* per place: the loop it stands in, -1 none */
    kx_loop         loop[KX_MAX_LOOPS];
    int             nloop, nshared;
    int64_t         chunks; /* iterations of those that are shared */
    kx_split       *split;
    size_t          nsplit, split_cap;
    kx_move        *move; /* by place */
    size_t          nmove, move_cap;
    int32_t         frame;          /* bytes of it so far */
    uint32_t        used[KX_BANKS]; /* registers */
    uint32_t        spills;         /* uses and definitions in the frame, in innermost loops */
    uint32_t        remade;         /* what is made again there, or moved between registers */
    uint8_t         scratch[4];     /* vectors: for sequences; of a result; of sources */
} kx_plan;

/* Memory operand of a place: storage, scalar (0 none) that many times and constant, in elements; from lane to lane,
 * `step` of them, or each lane where a register of lanes says, or a STACK of constants (step 0). */
typedef struct kx_spot {
    kn_ref  storage, off, places, stack;
    int     times; /* 1; more where the address does it */
    int64_t disp, step;
} kx_spot;
void   kx_address_of(const kn_graph *g, kn_ref place, kx_spot *a);
/* Lanes `step` apart are taken from so many runs side by side, in which all of memory is: how far before the first lane
 * they begin, so that loads of what lies between those lanes take them from the same runs. -1: memory ends before. */
int kx_first_run(const kn_graph *g, kn_ref load, int step);
kn_ref kx_name(const kx_plan *p, kn_ref n); /* the value that n is a name of */
bool   kx_is_place(const kn_graph *g, kn_ref n);
bool   kx_is_lanes(const kn_graph *g, kn_ref n);
bool   kx_compares_integers(const kn_graph *g, kn_ref n); /* scalars */
/* Source k of a MULACC of f32 or f64, without the NEG that the instruction does; *minus changes where there is one. */
kn_ref kx_term(const kn_graph *g, kn_ref n, uint32_t k, bool *minus);
int    kx_held_size(const kx_plan *p, int dtype); /* of a lane */
int    kx_vec_bytes(const kx_plan *p, kn_ref n);
kn_ref kx_root_of(const kn_graph *g, kn_ref place);
/* Scalars that are compared in four bytes, whatever a register has above them. */
static inline bool kx_compares_low(int dtype) {
    return dtype == KN_I32 || dtype == KN_U32;
}
/* INS: op and dtype; of a value the op it means */
static inline int kx_op(const kn_graph *g, kn_ref n) {
    int op = kg_op(g, n);
    return op == KN_OP_INS ? (int)kg_field(g, n, KN_F_INS_op) : op;
}

bool kx_is_cell(const kn_graph *g, kn_ref place); /* of an accumulator */
/* The values that node n reads where it stands, at most KX_MAX_OPERANDS: not those of a loop's open or a step's own
 * loop. */
int kx_operands(const kx_plan *p, kn_ref n, kn_ref *out);

/* A LOAD from registers that are put in turns: how many, which are its operands; else 1. */
int kx_rows_of(const kx_plan *p, kn_ref load);
/* The registers that those rows are in, each once, and of each row which it is. */
int kx_registers_of(const kx_plan *p, kn_ref load, kn_ref *row, uint8_t *own);

/* Sequences that write the result before they have read all sources. */
bool kx_writes_early(const kx_plan *p, kn_ref n);

/* registers.c: of values whose intervals are known. */
bool kx_give_registers(kx_plan *p);
int  kx_spare_register(kx_plan *p, kx_bank bank); /* that no value has, from now on used; -1: there is none */
void kx_lay(kx_plan *p, kx_value *v);       /* has a place in the frame */
int  kx_wish(const kx_plan *p, kn_ref n);   /* a register that n would like: that of a source which ends here */
bool kx_spares(const kx_plan *p, kn_ref x); /* leaves rcx and rdx alone if nothing that it reads lies in the frame */
bool kx_put_split(kx_plan *p, kn_ref v, int loop, int reg, bool away, bool written);
int  kx_vectors(const kx_plan *p, bool tight); /* how many vector registers values may have: 0 to that */
/* constants.c: what is left of the vector registers is lent to constants. */
bool kx_hold_constants(kx_plan *p);
bool kx_within(const kx_plan *p, int loop, int of); /* the loop is that one, or stands in it */

/* copies.c: LOADs that stand in their STOREs. */
void kx_fold_copies(kx_plan *p);

/* logic.c: bits of two or three values that are made at once. */
void kx_fold_logic(kx_plan *p);

/* blocks.c: registers that are turned, and exchange their halves once. */
void kx_find_blocks(kx_plan *p);

/* tables.c: the places that shuffles of a LOAD take, a byte for each, at the lowest of a lane; the bits that a NEG of
 * floats inverts. */
enum { KX_MAX_TABLES = KN_IN_TURNS };
typedef struct kx_table {
    uint8_t bytes, at[64];
} kx_table;
/* The largest distance of w lanes of `size` bytes that are shuffled to their places: further apart they are loaded one
 * by one. */
int  kx_most_apart(bool avx512, int size, int w);
int  kx_tables_of(const kx_plan *p, kn_ref n, kx_table *out); /* how many; 0: it is made otherwise */
bool kx_same_table(const kx_table *a, const kx_table *b);
int  kx_table_register(const kx_plan *p, kn_ref load, const kx_table *t); /* that holds it there, -1 none */
/* Of w lanes `step` apart, where they are when runs before that one are in the first register, in their places, and
 * that run is in the second; returns where in memory it starts, by the first run, which begins `before` the first lane.
 * Without that (-1) the last run ends with the last lane. */
int kx_find_places(int *place, int w, int step, int run, int before);
/* The runs of a LOAD from known places, as kx_runs_of: of *each elements. More than KX_PLACE_RUNS: words, of more. */
int kx_runs_at(const kx_plan *p, kn_ref load, int32_t *place, int *each, int32_t *start);

bool kx_plan_make(kx_plan *p, const kn_graph *g, kn_ref linear, const kt_choice *c, kn_fault *f);
void kx_plan_free(kx_plan *p);

#endif
