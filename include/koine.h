/* koine.h - Koine: one dialect from tensor programs to machine code.
 *
 * A program of tensors is built lazily, op by op, and runs when a value is read or a scope ends. It is compiled to
 * fused, vectorised, multi-threaded code; a program of the same form is compiled once.
 *
 * Ownership. A kn_context owns everything made with it. A tensor belongs to the scope that was open when it was made
 * (kn_begin ... kn_end); nothing is freed by hand. Tensors made outside any scope live until kn_close.
 *
 * Errors. A failed op gives a poison tensor, which later ops pass on; the context keeps the first error (kn_error) with
 * op, shapes and the line of the call. Every function accepts NULL where a tensor is expected: that is an error of the
 * same kind. Functions that return kn_status return it as a value; nothing aborts and nothing is printed.
 *
 * Threads. A context is used by one thread at a time. There are no globals. Only kn_cancel may be called from
 * another thread. What contexts in several threads may share is a kn_runtime.
 *
 * Shapes are row-major; sizes are int64_t; a negative axis counts from the end. */
#ifndef KOINE_H
#define KOINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(_WIN32) || !defined(__GNUC__)
#define KN_API extern
#else
#define KN_API extern __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define KN_VERSION_MAJOR 0
#define KN_VERSION_MINOR 1
#define KN_VERSION_PATCH 0

typedef struct kn_context kn_context;
typedef struct kn_tensor  kn_tensor;
typedef struct kn_scope   kn_scope;
typedef struct kn_optim   kn_optim;
typedef struct kn_jit     kn_jit;
typedef struct kn_runtime kn_runtime;

typedef enum kn_status {
    KN_OK              = 0,
    KN_ERR_ARG         = 1,  /* an argument is NULL, out of range or malformed */
    KN_ERR_SHAPE       = 2,  /* shapes do not fit together */
    KN_ERR_DTYPE       = 3,  /* the op is not defined for this element type */
    KN_ERR_DEVICE      = 4,  /* no such device, or it cannot do this */
    KN_ERR_IO          = 5,  /* a file could not be read or written */
    KN_ERR_FORMAT      = 6,  /* a file or text is malformed */
    KN_ERR_MEMORY      = 7,  /* out of memory */
    KN_ERR_COMPILE     = 8,  /* the system's compiler is missing or failed */
    KN_ERR_CANCELLED   = 9,  /* kn_cancel, or a progress hook that returned non-zero */
    KN_ERR_STATE       = 10, /* a handle used after its scope ended, or calls in the wrong order */
    KN_ERR_UNSUPPORTED = 11, /* meaningful, but not built yet */
    KN_ERR_INTERNAL    = 12  /* a fault of the library's own; please report it */
} kn_status;

/* Element types; the numbers are pinned. */
typedef enum kn_dtype {
    KN_VOID   = 0,
    KN_BOOL   = 1,
    KN_I8     = 2,
    KN_I16    = 3,
    KN_I32    = 4,
    KN_I64    = 5,
    KN_U8     = 6,
    KN_U16    = 7,
    KN_U32    = 8,
    KN_U64    = 9,
    KN_F8E4M3 = 10,
    KN_F8E5M2 = 11,
    KN_F16    = 12,
    KN_BF16   = 13,
    KN_F32    = 14,
    KN_F64    = 15,
    KN_INDEX  = 16, /* sizes and indices; 64 bits, never overflows */
    KN_DTYPE_COUNT
} kn_dtype;

/* A size of a dimension: a number, or a symbolic size (kn_sym), which is a number below -1 to be passed on as it is. */
typedef int64_t kn_dim;

/* ---- contexts ------------------------------------------------------------------------------------------------ */

/* Everything optional; zero is the default. */
typedef struct kn_config {
    const char *device;    /* "CPU" (default); "INTERP", the reference interpreter; or "NULL", which compiles kernels,
                              runs none and gives zeros: to measure everything else */
    const char *target;    /* code generator of the CPU: "x86", machine code without a compiler (the default on x86-64
                              with AVX2; "x86:avx2" and "x86:avx512" choose its instructions, KN_ERR_DEVICE where the
                              CPU has them not), or "c", by way of a C compiler. A program that the first cannot
                              do, or may not run, goes to the second; `log` is told. NULL: KOINE_TARGET if set */
    const char *machine;   /* what kernels are shaped for: "host" (default), what the CPU says of itself; or "avx512",
                              "avx2", "sse2", "neon", fixed tables that give the same kernels on every machine */
    const char *cache_dir; /* folder for compiled kernels; NULL: nothing is written outside a temporary file */
    const char *cc;        /* the C compiler to run; default $CC or "cc". Options behind it, as in "cc -O3", win */
    int         threads;   /* 0: KOINE_THREADS if set, else what affinity and cgroup allow */
    uint64_t    seed;      /* of kn_rand and friends; see kn_seed */
    /* resize(user, NULL, 0, n) allocates, (p, n, 0) frees, else resizes; NULL result means out of memory. */
    void *(*alloc)(void *user, void *ptr, size_t old_size, size_t new_size);
    void *alloc_user;
    /* Called now and then during long compiles and runs; non-zero cancels. */
    int (*progress)(void *user, const char *what, double fraction);
    void *progress_user;
    /* Warnings and notices, a line each; NULL: dropped. */
    void (*log)(void *user, const char *line);
    void  *log_user;
    kn_runtime *runtime; /* what to share with other contexts; NULL: nothing. machine, cache_dir, cc and threads are
                            then the runtime's, and not read here */
    /* Non-zero: each node remembers the call (function, and file and line where the macros below told them) and the
     * rules it comes from; kn_dump and KOINE_DUMP print that behind each node, and generated code has it as comments.
     * KOINE_DUMP=STAGE+why asks for it from outside.
     * Code with other comments is other code to the cache of compiled kernels, and compiling takes longer. Of contexts
     * that share a runtime, the code has the comments of the one that compiled it. */
    int    provenance;
    size_t size; /* sizeof(kn_config); set last */
} kn_config;

/* Programs and compiled kernels, the cache folder and the threads, for several contexts: what one of them has compiled
 * the others find. Contexts that share a runtime may be used in threads of their own; a kernel runs in the runtime's
 * threads if no other context's does, else in its caller's, with the same result. Of cfg (may be NULL) it takes
 * machine, cache_dir, cc, threads and the allocator, which is then called from all those threads. NULL: out of memory
 * or a malformed config. Tensors are not shared: memory that contexts only read is, by kn_wrap and kn_map in each. */
KN_API kn_runtime *kn_runtime_new(const kn_config *cfg);
/* The contexts that use it keep it; it goes with the last of them. */
KN_API void kn_runtime_close(kn_runtime *rt);

/* Open a context. cfg may be NULL. Probes nothing, starts no thread and touches no file. NULL: out of memory or a
 * malformed config (unknown size); a device that does not exist is reported by kn_error on the context. */
KN_API kn_context *kn_open(const kn_config *cfg);
KN_API void        kn_close(kn_context *kn);
/* The first error of the open scopes, "" if none: "train.c:4: kn_matmul: (64,784) x (100,10): ...". After a kn_end that
 * failed, what it failed with, until the next kn_begin or kn_clear_error. Valid until the next call with kn. */
KN_API const char *kn_error(kn_context *kn);
KN_API kn_status   kn_error_code(kn_context *kn);
KN_API void        kn_clear_error(kn_context *kn);
KN_API const char *kn_status_name(kn_status s); /* "KN_ERR_SHAPE" */
KN_API int         kn_version(void);            /* major * 10000 + minor * 100 + patch */
KN_API const char *kn_version_text(void);
/* Ask a running call of this context to stop; it returns KN_ERR_CANCELLED. From any thread. */
KN_API void kn_cancel(kn_context *kn);
/* Names of the devices this build has, NULL behind the last. */
KN_API const char *const *kn_devices(void);

/* Options for the loops of kernels by name, instead of what the compiler would choose: "SPLIT:0:16:THREAD:top
 * SPLIT:1:8:UPCAST SWAP:1:2 STAGE:2", or "" for none at all. Loops are counted from the outermost, 0, as they are when
 * the option is applied; reductions come last. A SPLIT makes a loop of the given factor inside the given one (":top":
 * around it), of type LOOP, THREAD or UPCAST, of a reduction REDUCE, UNROLL or GROUP_REDUCE; SWAP exchanges two loops;
 * STAGE copies the part of a PARAM that the innermost loops read. `kernel` is a name as kn_dump shows it, or a pattern
 * with * and ?; of several that fit, the last one set counts. opts NULL takes back what was set for just that pattern.
 * Applies to what runs from now on, captured steps too. KN_ERR_ARG: a text that cannot be read, at once; a list that a
 * kernel cannot take, from the call that runs it, with the reason. Results differ at most by the order of sums. */
KN_API kn_status kn_set_opts(kn_context *kn, const char *kernel, const char *opts);

/* What the context has done so far. */
typedef struct kn_stats {
    uint64_t schedules;        /* graphs lowered to a schedule: 0 for a graph seen before */
    uint64_t schedule_hits;    /* runs that reused one */
    uint64_t kernels_compiled; /* by the code generator, disk cache hits not counted */
    uint64_t kernels_loaded;   /* from the disk cache */
    uint64_t kernels_run;
    uint64_t kernels_last;     /* kernels of the schedule that ran last */
    double   compile_seconds;  /* lowering and compiling, wall clock */
    double   run_seconds;      /* inside kernels, wall clock */
    uint64_t flops;            /* multiplications and additions of the kernels run, by their loop counts */
    uint64_t buffer_bytes;     /* held now */
    uint64_t buffer_peak;
    size_t   size; /* sizeof(kn_stats), set by the caller */
} kn_stats;
KN_API kn_status kn_get_stats(kn_context *kn, kn_stats *out);

/* ---- scopes -------------------------------------------------------------------------------------------------- */

/* Open a scope; tensors made from here on belong to it. */
KN_API kn_scope *kn_begin(kn_context *kn);
/* Keep t one scope out: kn_end computes it. Returns t. */
KN_API kn_tensor *kn_keep(kn_tensor *t);
/* Run kept tensors and pending assignments, drop everything else of the scope (and scopes opened inside it and not
 * ended), return and clear the first error. After an error nothing runs: the scope's assignments do not happen, and
 * tensors that were kept stay unevaluated. */
KN_API kn_status kn_end(kn_scope *s);
/* Run now what these tensors need. */
KN_API kn_status kn_realize(kn_tensor *const *t, int n);

/* The macros below attach the line of the call to the first error. */
KN_API kn_tensor *kn_here(kn_tensor *t, const char *file, int line);

/* ---- creation ------------------------------------------------------------------------------------------------ */

/* Copies `data`, row-major, dims[rank] of dtype. rank 0: a scalar (dims may be NULL). */
KN_API kn_tensor *kn_from(kn_context *kn, const void *data, kn_dtype dtype, const kn_dim *dims, int rank);
/* Borrows: data must stay valid and unchanged until the tensor's scope ends (or kn_close). */
KN_API kn_tensor *kn_wrap(kn_context *kn, void *data, kn_dtype dtype, const kn_dim *dims, int rank);
typedef struct kn_map_opts {
    int64_t offset;   /* where the tensor begins in the file, in bytes: a multiple of the element size */
    int     writable; /* non-zero: assigning and kn_write change the file; else it is never written */
    int     create;   /* non-zero: writable, and the file is made, or made longer with zeros, as needed */
    size_t  size;
} kn_map_opts;
/* A file, or part of one, as a tensor: kn_map(kn, path, dtype, KN_DIMS(2, 3), .offset = 8). Nothing is read before it
 * is used. path may begin with "DISK:". One size may be -1: what the file has. KN_ERR_IO: it is missing or too short.
 * The file must not be cut short by others while it is mapped. */
KN_API kn_tensor *kn_map_opt(kn_context *kn, const char *path, kn_dtype dtype, const kn_dim *dims, int rank,
                             const kn_map_opts *o);
/* Storage of its own, zeroed: what kn_write refills and kn_assign updates. */
KN_API kn_tensor *kn_empty(kn_context *kn, kn_dtype dtype, const kn_dim *dims, int rank);
KN_API kn_tensor *kn_full(kn_context *kn, double value, kn_dtype dtype, const kn_dim *dims, int rank);
KN_API kn_tensor *kn_zeros(kn_context *kn, kn_dtype dtype, const kn_dim *dims, int rank);
KN_API kn_tensor *kn_ones(kn_context *kn, kn_dtype dtype, const kn_dim *dims, int rank);
KN_API kn_tensor *kn_scalar_f32(kn_context *kn, double value); /* shape () */
/* start, start+step, ... below stop (above, for a negative step). */
KN_API kn_tensor *kn_arange(kn_context *kn, double start, double stop, double step, kn_dtype dtype);
KN_API kn_tensor *kn_eye(kn_context *kn, int64_t n, kn_dtype dtype);
/* Random numbers: Threefry 2x32 (Salmon et al., SC 2011), keyed by the seed and a counter of calls; the same on every
 * device. rand: uniform in [0,1). randn: standard normal (Box-Muller). kaiming: uniform in +-sqrt(6 / fan_in) (He et
 * al., 2015), fan_in the product of all sizes but the last for rank <= 2 (an (in,out) weight), of all but the first for
 * more. Kept values do not change; each call draws anew. */
KN_API void       kn_seed(kn_context *kn, uint64_t seed);
KN_API kn_tensor *kn_rand(kn_context *kn, const kn_dim *dims, int rank);
KN_API kn_tensor *kn_randn(kn_context *kn, const kn_dim *dims, int rank);
KN_API kn_tensor *kn_kaiming_uniform(kn_context *kn, const kn_dim *dims, int rank);
#ifndef __cplusplus
#define KN_DIMS(...) \
    ((const kn_dim[]){__VA_ARGS__}), ((int)(sizeof((const kn_dim[]){__VA_ARGS__}) / sizeof(kn_dim)))
#endif

/* ---- symbolic sizes: one program for all of them -------------------------------------------------------------- */

/* A size that may differ from run to run without the program being compiled anew: a name, and what it may be, 0 <= min
 * <= max <= 2^31 - 1. The same name is the same symbol, and has the same bounds. -1: an error, and kn_error says which.
 * Storage of a tensor with symbolic sizes has room for the most elements they can make. */
KN_API kn_dim kn_sym(kn_context *kn, const char *name, int64_t min, int64_t max);
/* The symbol with a value: n = kn_bind(kn, kn_sym(kn, "n", 1, 4096), 17), then kn_from(kn, data, KN_F32, KN_DIMS(n, 8))
 * copies 17 rows. Tensors of unequal values do not broadcast. A captured step is traced once for all values: within it
 * symbols that its inputs' shapes have take the inputs' values, others the value they were last bound to. The value
 * being out of bounds is KN_ERR_ARG. */
KN_API kn_dim kn_bind(kn_context *kn, kn_dim sym, int64_t value);
/* a + b, where b may be a negative number as long as the bounds show that the sum is not; a * b. Sizes that are equal
 * whatever the symbols are compare equal. */
KN_API kn_dim kn_dim_add(kn_context *kn, kn_dim a, kn_dim b);
KN_API kn_dim kn_dim_mul(kn_context *kn, kn_dim a, kn_dim b);
KN_API int64_t kn_dim_value(kn_context *kn, kn_dim d); /* its number; -1: a symbol without a value */
/* A size as a tensor of shape (); and 0, 1, ... n - 1. */
KN_API kn_tensor *kn_dim_scalar(kn_context *kn, kn_dim d, kn_dtype dtype);
KN_API kn_tensor *kn_iota(kn_context *kn, kn_dim n, kn_dtype dtype);

/* ---- looking ------------------------------------------------------------------------------------------------- */

KN_API int         kn_rank(kn_tensor *t);         /* -1 for poison or NULL */
KN_API kn_dim      kn_size(kn_tensor *t, int axis);
KN_API int64_t     kn_numel(kn_tensor *t); /* at the sizes' values; -1 where one has none */
KN_API kn_dtype    kn_dtype_of(kn_tensor *t);
KN_API const char *kn_dtype_name(kn_dtype d);
KN_API kn_context *kn_context_of(kn_tensor *t);
KN_API int         kn_ok(kn_tensor *t);           /* 0 for poison, NULL or a handle whose scope has ended */
/* Computes t and copies it out as `dtype`, converting; `bytes` is the room at dst and must be enough. */
KN_API kn_status kn_read(kn_tensor *t, kn_dtype dtype, void *dst, size_t bytes);
/* The value of a tensor of one element; NaN on error. */
KN_API double kn_item(kn_tensor *t);
/* Refills, now, a tensor that was created, kept or realized (not a view) from `bytes` bytes of its dtype. Reads of t
 * made before keep the old contents. */
KN_API kn_status kn_write(kn_tensor *t, const void *src, size_t bytes);
/* Writes the program that computes t, in the text form, as it is after `stage`: "tensor", "callify", "rangeify",
 * "optimize", "expand", "select", "linearize", "plan", "render". */
KN_API kn_status kn_dump(kn_tensor *t, const char *stage, FILE *out);

/* ---- movement: views, nothing is copied until needed --------------------------------------------------------- */

KN_API kn_tensor *kn_reshape(kn_tensor *x, const kn_dim *dims, int rank); /* one size may be -1 */
KN_API kn_tensor *kn_expand(kn_tensor *x, const kn_dim *dims, int rank); /* -1 keeps a size; leading axes may be new */
KN_API kn_tensor *kn_permute(kn_tensor *x, const int *order, int rank);
KN_API kn_tensor *kn_transpose(kn_tensor *x, int a, int b);
KN_API kn_tensor *kn_flip(kn_tensor *x, int axis);
KN_API kn_tensor *kn_pad(kn_tensor *x, const kn_dim *before, const kn_dim *after, int rank); /* with zeros */
KN_API kn_tensor *kn_shrink(kn_tensor *x, const kn_dim *begin, const kn_dim *end, int rank);
KN_API kn_tensor *kn_rows(kn_tensor *x, kn_dim begin, kn_dim count); /* of axis 0 */
KN_API kn_tensor *kn_unsqueeze(kn_tensor *x, int axis);
KN_API kn_tensor *kn_squeeze(kn_tensor *x, int axis); /* the axis has size 1 */
KN_API kn_tensor *kn_flatten(kn_tensor *x, int from_axis); /* axes from_axis.. become one */
KN_API kn_tensor *kn_cat(kn_tensor *const *x, int n, int axis);
KN_API kn_tensor *kn_stack(kn_tensor *const *x, int n, int axis);

/* ---- elementwise, with broadcasting (NumPy's rules) ----------------------------------------------------------- */
/* Operands of different dtypes are promoted: bool < integers < floats, then by width; signed with unsigned gives the
 * next wider signed (i64 where there is none). The scalar of the _s forms takes x's dtype (weakly typed); a fractional
 * one makes an integer x f32, a number makes a bool x i32, and one out of x's range is an error. */
KN_API kn_tensor *kn_add(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_sub(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_mul(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_div(kn_tensor *a, kn_tensor *b);      /* integers become f32 */
KN_API kn_tensor *kn_floordiv(kn_tensor *a, kn_tensor *b); /* integers */
KN_API kn_tensor *kn_mod(kn_tensor *a, kn_tensor *b);      /* integers; sign of b */
KN_API kn_tensor *kn_maximum(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_minimum(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_pow(kn_tensor *a, kn_tensor *b); /* floats */
KN_API kn_tensor *kn_add_s(kn_tensor *x, double s);
KN_API kn_tensor *kn_sub_s(kn_tensor *x, double s);  /* x - s */
KN_API kn_tensor *kn_rsub_s(kn_tensor *x, double s); /* s - x */
KN_API kn_tensor *kn_mul_s(kn_tensor *x, double s);
KN_API kn_tensor *kn_div_s(kn_tensor *x, double s);  /* x / s */
KN_API kn_tensor *kn_rdiv_s(kn_tensor *x, double s); /* s / x */
KN_API kn_tensor *kn_maximum_s(kn_tensor *x, double s);
KN_API kn_tensor *kn_minimum_s(kn_tensor *x, double s);
KN_API kn_tensor *kn_pow_s(kn_tensor *x, double s);
KN_API kn_tensor *kn_eq(kn_tensor *a, kn_tensor *b); /* comparisons give bool */
KN_API kn_tensor *kn_ne(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_lt(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_le(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_gt(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_ge(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_lt_s(kn_tensor *x, double s);
KN_API kn_tensor *kn_gt_s(kn_tensor *x, double s);
KN_API kn_tensor *kn_eq_s(kn_tensor *x, double s);
KN_API kn_tensor *kn_and(kn_tensor *a, kn_tensor *b); /* bitwise; of bools logical */
KN_API kn_tensor *kn_or(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_xor(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_not(kn_tensor *x);
KN_API kn_tensor *kn_where(kn_tensor *p, kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_neg(kn_tensor *x);
KN_API kn_tensor *kn_abs(kn_tensor *x);
KN_API kn_tensor *kn_sign(kn_tensor *x);
KN_API kn_tensor *kn_square(kn_tensor *x);
KN_API kn_tensor *kn_sqrt(kn_tensor *x);  /* from here to kn_log2: floats; integers become f32 */
KN_API kn_tensor *kn_rsqrt(kn_tensor *x);
KN_API kn_tensor *kn_recip(kn_tensor *x);
KN_API kn_tensor *kn_exp(kn_tensor *x);
KN_API kn_tensor *kn_exp2(kn_tensor *x);
KN_API kn_tensor *kn_log(kn_tensor *x);
KN_API kn_tensor *kn_log2(kn_tensor *x);
KN_API kn_tensor *kn_sin(kn_tensor *x);
KN_API kn_tensor *kn_cos(kn_tensor *x);
KN_API kn_tensor *kn_floor(kn_tensor *x);
KN_API kn_tensor *kn_trunc(kn_tensor *x);
KN_API kn_tensor *kn_clamp(kn_tensor *x, double lo, double hi);
KN_API kn_tensor *kn_relu(kn_tensor *x);
KN_API kn_tensor *kn_gelu(kn_tensor *x); /* tanh form (Hendrycks & Gimpel, 2016) */
KN_API kn_tensor *kn_tanh(kn_tensor *x);
KN_API kn_tensor *kn_erf(kn_tensor *x);
KN_API kn_tensor *kn_sigmoid(kn_tensor *x);
KN_API kn_tensor *kn_silu(kn_tensor *x);
KN_API kn_tensor *kn_cast(kn_tensor *x, kn_dtype dtype);
KN_API kn_tensor *kn_bitcast(kn_tensor *x, kn_dtype dtype); /* the last axis scales with the item size */
KN_API kn_tensor *kn_detach(kn_tensor *x);                  /* no gradient flows through */
KN_API kn_tensor *kn_contiguous(kn_tensor *x);              /* stored on its own: a border between kernels */

/* ---- reductions ---------------------------------------------------------------------------------------------- */

typedef struct kn_axes {
    int n; /* 0: all axes */
    int a[8];
} kn_axes;
#ifndef __cplusplus
#define KN_AXES(...) \
    { (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)), { __VA_ARGS__ } }
#endif

typedef struct kn_reduce_opts {
    kn_axes axes;       /* empty: all */
    int     keep;       /* non-zero: reduced axes stay, with size 1 */
    int     biased;     /* kn_var, kn_std: non-zero divides by n instead of n - 1 */
    size_t  size;       /* sizeof(kn_reduce_opts); set last */
} kn_reduce_opts;

/* kn_sum, kn_prod: bool and integers narrower than 32 bits give i32 or u32. */
KN_API kn_tensor *kn_sum_opt(kn_tensor *x, const kn_reduce_opts *o);
KN_API kn_tensor *kn_prod_opt(kn_tensor *x, const kn_reduce_opts *o);
KN_API kn_tensor *kn_mean_opt(kn_tensor *x, const kn_reduce_opts *o); /* integers become f32 */
KN_API kn_tensor *kn_max_opt(kn_tensor *x, const kn_reduce_opts *o);
KN_API kn_tensor *kn_min_opt(kn_tensor *x, const kn_reduce_opts *o);
KN_API kn_tensor *kn_var_opt(kn_tensor *x, const kn_reduce_opts *o);  /* two passes; n - 1 unless .biased */
KN_API kn_tensor *kn_std_opt(kn_tensor *x, const kn_reduce_opts *o);

/* ---- products and layers -------------------------------------------------------------------------------------- */

/* (..., M, K) x (..., K, N) -> (..., M, N); leading axes broadcast; a rank-1 operand is a row, or a column, that is
 * dropped from the result. Narrow floats are summed in f32 and rounded once; narrow integers give what kn_sum gives. */
KN_API kn_tensor *kn_matmul(kn_tensor *a, kn_tensor *b);
KN_API kn_tensor *kn_softmax(kn_tensor *x, int axis);
KN_API kn_tensor *kn_log_softmax(kn_tensor *x, int axis);
/* x / sqrt(mean-centred variance + eps) over the last axis; no scale or shift. */
KN_API kn_tensor *kn_layer_norm(kn_tensor *x, double eps);
/* logits (..., C), labels of shape (...), integers in 0..C-1: -log softmax(logits)[label], of shape (...). A label out
 * of range contributes the log of the sum only. */
KN_API kn_tensor *kn_cross_entropy(kn_tensor *logits, kn_tensor *labels);
/* x[..., index, ...]: rows of `axis` picked by the integers in idx (any shape, which replaces the axis). An index out
 * of 0..n-1 gives 0. */
KN_API kn_tensor *kn_gather(kn_tensor *x, int axis, kn_tensor *idx);
KN_API kn_tensor *kn_one_hot(kn_tensor *idx, int64_t classes, kn_dtype dtype); /* a new last axis */
/* x with `values` added at the places idx names along `axis`, all that name one place summed: the transpose of
 * kn_gather. values has x's shape with idx's in place of the axis; an index out of 0..n-1 adds nowhere. */
KN_API kn_tensor *kn_scatter_add(kn_tensor *x, int axis, kn_tensor *idx, kn_tensor *values);
/* Position (i32) of the largest element along an axis, which is dropped: the first of equals, or the first NaN. */
KN_API kn_tensor *kn_argmax(kn_tensor *x, int axis);
/* Position (i32) of the least element, likewise. Both read x once. */
KN_API kn_tensor *kn_argmin(kn_tensor *x, int axis);
/* Sums up to and with each element along an axis; dtypes as kn_sum. */
KN_API kn_tensor *kn_cumsum(kn_tensor *x, int axis);
/* While `training`: each element 0 with probability p, else x / (1 - p) (Srivastava et al., 2014); x otherwise. Floats;
 * each call draws anew, as kn_rand does. */
KN_API kn_tensor *kn_dropout(kn_tensor *x, double p, int training);

/* ---- images: (N, C, H, W) ------------------------------------------------------------------------------------- */

/* Pairs are {height, width}; a width of 0 stands for the height's number, -1 for none (0). */
typedef struct kn_conv2d_opts {
    int64_t stride[2];   /* {0}: 1 */
    int64_t padding[2];  /* zeros on both sides */
    int64_t dilation[2]; /* {0}: 1 */
    int64_t groups;      /* 0: 1; divides C and O */
    size_t  size;
} kn_conv2d_opts;
typedef struct kn_pool_opts {
    int64_t kernel[2];   /* {0}: 2 */
    int64_t stride[2];   /* {0}: the kernel */
    int64_t padding[2];  /* at most half the window */
    int64_t dilation[2]; /* {0}: 1 */
    size_t  size;
} kn_pool_opts;
typedef struct kn_batch_norm_opts {
    kn_tensor *mean, *var; /* running statistics, (C), with storage */
    double     eps;        /* 0: 1e-5; KN_ZERO for 0 */
    double     momentum;   /* 0: 0.1; KN_ZERO for 0 */
    int        training;
    size_t     size;
} kn_batch_norm_opts;
/* Cross-correlation: y[n,o,i,j] = bias[o] + sum over c,p,q of x[n,c, i stride + p dilation - padding, likewise]
 * w[o,c,p,q]. x (N, C, H, W), w (O, C / groups, KH, KW), bias (O) or NULL; sizes floor((H + 2 padding - dilation (KH -
 * 1) - 1) / stride) + 1. Dtypes and sums as kn_matmul. */
KN_API kn_tensor *kn_conv2d_opt(kn_tensor *x, kn_tensor *w, kn_tensor *bias, const kn_conv2d_opts *o);
/* The largest of each window, padding left out; its gradient is shared evenly by equals. Sizes as kn_conv2d. */
KN_API kn_tensor *kn_max_pool2d_opt(kn_tensor *x, const kn_pool_opts *o);
/* The mean of each window, padding counted as zeros; integers become f32. */
KN_API kn_tensor *kn_avg_pool2d_opt(kn_tensor *x, const kn_pool_opts *o);
/* gamma (x - mean) / sqrt(var + eps) + beta for each channel of x (N, C, ...) (Ioffe & Szegedy, 2015); gamma and beta
 * (C) or NULL. Training: mean and biased variance of the batch; .mean and .var, if given, move towards its mean and
 * unbiased variance by `momentum`, with kn_assign. Otherwise .mean and .var are used. */
KN_API kn_tensor *kn_batch_norm_opt(kn_tensor *x, kn_tensor *gamma, kn_tensor *beta, const kn_batch_norm_opts *o);

/* ---- state, gradients, optimisers ------------------------------------------------------------------------------ */

/* t := value when the scope ends (or a reader of t is computed). t is a tensor that was created, kept or realized, not
 * a view, and has value's shape; value is cast to its dtype. Reads of t made before keep the old contents, reads made
 * after see the new ones. Memory lent by kn_wrap is not written. Returns t. */
KN_API kn_tensor *kn_assign(kn_tensor *t, kn_tensor *value);
/* d loss / d x[i] for each of n tensors into grad[i]; loss has one element. A tensor loss does not depend on gets
 * zeros. A gradient belongs to the current scope. An x made by kn_full and its like is a variable of its own once it is
 * realized, marked or a parameter of an optimiser; until then all constants of one value are one. */
KN_API kn_status kn_gradient(kn_tensor *loss, kn_tensor *const *x, int n, kn_tensor **grad);
/* As above for the tensors marked with kn_requires_grad; read with kn_grad. */
KN_API kn_tensor *kn_requires_grad(kn_tensor *t);
KN_API kn_status  kn_backward(kn_tensor *loss);
KN_API kn_tensor *kn_grad(kn_tensor *t); /* of the last kn_backward; NULL and an error before */

typedef struct kn_sgd_opts {
    double lr;       /* 0: 0.01 */
    double momentum; /* 0: none */
    double weight_decay;
    int    nesterov;
    size_t size;
} kn_sgd_opts;
typedef struct kn_adam_opts {
    double lr;    /* 0: 0.001 */
    double beta1; /* 0: 0.9; KN_ZERO for 0 */
    double beta2; /* 0: 0.999 */
    double eps;   /* 0: 1e-8 */
    double weight_decay; /* decoupled (AdamW) */
    size_t size;
} kn_adam_opts;
#define KN_ZERO (-0.0) /* a number option that is meant to be 0 where 0 stands for the default */
/* Adam: Kingma & Ba, 2015, algorithm 1. The parameters and the moments are tensors with storage. The optimiser and its
 * state belong to the scope open now. */
KN_API kn_optim *kn_sgd_opt(kn_context *kn, kn_tensor *const *params, int n, const kn_sgd_opts *o);
KN_API kn_optim *kn_adam_opt(kn_context *kn, kn_tensor *const *params, int n, const kn_adam_opts *o);
/* Gradients of loss and the assignments of one step; they run at kn_end (or kn_realize of a parameter). */
KN_API kn_status kn_minimize(kn_optim *opt, kn_tensor *loss);

/* ---- functions and captured steps ------------------------------------------------------------------------------ */

/* A piece of a program: nout results from nin inputs, built with the functions above. It may use tensors made outside,
 * by way of `user`. It is called to see what it builds (traced), not each time its values are wanted, so reading a
 * value in it is KN_ERR_STATE, and so is kn_keep. What it makes is gone afterwards but for out[]. */
typedef kn_status (*kn_fn)(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]);

/* A step that is traced at its first call with inputs of given shapes and dtypes and then replayed: a replay calls the
 * compiled kernels, and builds, matches and allocates nothing. The step belongs to the scope open now; NULL only for a
 * NULL argument or out of memory. fn may be called again, to trace inputs of other shapes, or when what it used is no
 * longer what it was. */
KN_API kn_jit *kn_jit_new(kn_context *kn, kn_fn fn, void *user);
/* One step, now. Inputs that are storage, or rows of it (kn_rows), are bound where they are; others are computed first.
 * Assignments that fn made (kn_minimize too) happen at each call, to the tensors it made them to; in[] cannot be
 * assigned. Tensors made outside that fn used are read as they are at the time of each call, refilled by kn_write or
 * assigned since; random numbers are drawn anew. out[] are the same tensors at each call with these shapes, overwritten
 * by the next one (lazy tensors built from them keep the values they were built from); they live as long as the step.
 * After a failure out[] is poison; assignments did not happen unless a kernel was stopped (kn_cancel). While another
 * function is traced, fn becomes part of it. */
KN_API kn_status kn_call(kn_jit *jit, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]);
/* The results of fn as a FUNCTION of the dialect: traced once, lazy, differentiable, and inlined where it is compiled.
 * Tensors made outside that fn uses become further arguments. It has no effects: kn_assign in it is KN_ERR_STATE. */
KN_API kn_status kn_function(kn_context *kn, kn_fn fn, void *user, int nin, kn_tensor *const in[], int nout,
                             kn_tensor *out[]);
/* The same, kept as a CALL: what goes in and what comes out is stored, and nothing in it is fused with what is around
 * it. Calls on equal shapes, as of the layers of one network, become the same kernels, which are compiled once. */
KN_API kn_status kn_function_kept(kn_context *kn, kn_fn fn, void *user, int nin, kn_tensor *const in[], int nout,
                                  kn_tensor *out[]);

/* ---- the host's own kernels and gradients ----------------------------------------------------------------------- */

/* Memory of an argument or a result, row-major, of exactly these sizes. */
typedef struct kn_custom_array {
    void          *data; /* of an argument: not to be written */
    kn_dtype       dtype;
    int            rank;
    const int64_t *dims;
    int64_t        numel;
} kn_custom_array;
typedef struct kn_custom_args {
    int                    nout, nin;
    const kn_custom_array *out, *in; /* out: to be written in full; it holds anything before */
} kn_custom_args;
/* Results from arguments, and from nothing else: a value that was computed may be used again, one that nobody needs is
 * not computed, and a captured step calls it at every replay. Called in the thread of the call that runs the program;
 * it must not call into that context. Anything but KN_OK ends the run with that status. */
typedef kn_status (*kn_custom_fn)(void *user, const kn_custom_args *args);
typedef struct kn_custom_def {
    kn_custom_fn run; /* NULL: the name stands for a gradient alone */
    /* The gradients of the inputs, out[nin], built with the functions above from in[]: the inputs, the results, and the
     * gradients of the results (zeros where nobody asked). out[k] may stay NULL: no gradient flows to input k. It is
     * traced (kn_fn). NULL: a gradient through the function is KN_ERR_UNSUPPORTED; kn_detach stops it before. */
    kn_fn  gradient;
    void  *user; /* handed to both; must stay valid as long as the context */
    size_t size; /* sizeof(kn_custom_def) */
} kn_custom_def;
/* Gives the context a function under a name, by which programs know it (CUSTOM_FUNCTION). A name that stands for
 * something else already is KN_ERR_STATE. Contexts that share a runtime have names of their own. */
KN_API kn_status kn_define(kn_context *kn, const char *name, const kn_custom_def *def);
typedef struct kn_custom_type {
    kn_dtype      dtype;
    int           rank;
    const kn_dim *dims; /* numbers; not NULL but for rank 0 */
} kn_custom_type;
/* out[nout] of the given types: the results of the function of that name, lazy as all tensors; a kernel of its own
 * between those around it, on every device. Sizes are numbers above 0, of inputs too (KN_ERR_UNSUPPORTED). */
KN_API kn_status kn_custom(kn_context *kn, const char *name, int nin, kn_tensor *const in[], int nout,
                           const kn_custom_type type[], kn_tensor *out[]);
/* out[k] is y[k], as it is, but for its gradient: that goes through the gradient of that name to in[], and not to what
 * y was made of. So a function that is built of tensors gets a gradient of the host's own. */
KN_API kn_status kn_custom_gradient(kn_context *kn, const char *name, int nin, kn_tensor *const in[], int nout,
                                    kn_tensor *const y[], kn_tensor *out[]);

#ifdef __cplusplus
}

/* The sizes, and the axes, as C++ writes them; a KN_DIMS lives until the end of the full expression it stands in. */
template <int n> struct kn_dims_ {
    kn_dim        d[n];
    const kn_dim *at() const { return d; }
};
template <class... T> inline kn_dims_<(int)sizeof...(T)> kn_dims_of_(T... d) {
    return kn_dims_<(int)sizeof...(T)>{{(kn_dim)d...}};
}
template <class... T> inline int kn_count_(T...) { return (int)sizeof...(T); }
template <class... T> inline kn_axes kn_axes_of_(T... a) { return kn_axes{(int)sizeof...(T), {(int)a...}}; }
#define KN_DIMS(...) kn_dims_of_(__VA_ARGS__).at(), kn_count_(__VA_ARGS__)
#define KN_AXES(...) kn_axes_of_(__VA_ARGS__)
#endif

/* ---- options and call sites ----------------------------------------------------------------------------------- */
/* C: options are named behind the operands, kn_mean(x, .axes = KN_AXES(0), .keep = 1). C++: kn_mean(x, options), where
 * KN_AXES(0) is an expression. The macros of tensor functions attach file and line of a call to its failure; a
 * function's name without parentheses is the plain function. KN_NO_CALLSITE leaves the files and lines out. */
#ifdef KN_NO_CALLSITE
#define KN_HERE_(...) __VA_ARGS__
#else
#define KN_HERE_(...) kn_here(__VA_ARGS__, __FILE__, __LINE__)
#endif

#ifndef __cplusplus
#define KN_HEAD_(a, ...) a
#define KN_TAIL_(a, ...) __VA_ARGS__
#define KN_OPT_(fn, type, ...) \
    fn(KN_HEAD_(__VA_ARGS__, 0), &(const type){KN_TAIL_(__VA_ARGS__, .size = sizeof(type))})
#define KN_OPT3_(fn, type, a, b, ...) \
    fn(a, b, KN_HEAD_(__VA_ARGS__, 0), &(const type){KN_TAIL_(__VA_ARGS__, .size = sizeof(type))})
#define kn_sum(...) KN_HERE_(KN_OPT_(kn_sum_opt, kn_reduce_opts, __VA_ARGS__))
#define kn_prod(...) KN_HERE_(KN_OPT_(kn_prod_opt, kn_reduce_opts, __VA_ARGS__))
#define kn_mean(...) KN_HERE_(KN_OPT_(kn_mean_opt, kn_reduce_opts, __VA_ARGS__))
#define kn_max(...) KN_HERE_(KN_OPT_(kn_max_opt, kn_reduce_opts, __VA_ARGS__))
#define kn_min(...) KN_HERE_(KN_OPT_(kn_min_opt, kn_reduce_opts, __VA_ARGS__))
#define kn_var(...) KN_HERE_(KN_OPT_(kn_var_opt, kn_reduce_opts, __VA_ARGS__))
#define kn_std(...) KN_HERE_(KN_OPT_(kn_std_opt, kn_reduce_opts, __VA_ARGS__))
/* kn_conv2d(x, w, bias, .stride = {2}), kn_max_pool2d(x, .kernel = {3, 3}), kn_batch_norm(x, gamma, beta, .training =
 * 1) */
#define kn_conv2d(x, w, ...) KN_HERE_(KN_OPT3_(kn_conv2d_opt, kn_conv2d_opts, x, w, __VA_ARGS__))
#define kn_batch_norm(x, g, ...) KN_HERE_(KN_OPT3_(kn_batch_norm_opt, kn_batch_norm_opts, x, g, __VA_ARGS__))
#define kn_max_pool2d(...) KN_HERE_(KN_OPT_(kn_max_pool2d_opt, kn_pool_opts, __VA_ARGS__))
#define kn_avg_pool2d(...) KN_HERE_(KN_OPT_(kn_avg_pool2d_opt, kn_pool_opts, __VA_ARGS__))
/* kn_sgd(kn, params, n, .lr = 0.1), kn_adam(kn, params, n) */
#define kn_sgd(kn, params, ...) KN_OPT3_(kn_sgd_opt, kn_sgd_opts, kn, params, __VA_ARGS__)
#define kn_adam(kn, params, ...) KN_OPT3_(kn_adam_opt, kn_adam_opts, kn, params, __VA_ARGS__)
/* kn_map(kn, path, dtype, dims, rank, .offset = 8): the sizes are two arguments once KN_DIMS is replaced */
#define kn_map(...) KN_HERE_(KN_MAP_(__VA_ARGS__))
#define KN_MAP_(kn, path, dtype, dims, ...)                           \
    kn_map_opt(kn, path, dtype, dims, KN_HEAD_(__VA_ARGS__, 0),       \
               &(const kn_map_opts){KN_TAIL_(__VA_ARGS__, .size = sizeof(kn_map_opts))})
#else
static inline kn_tensor *kn_sum(kn_tensor *x, kn_reduce_opts o = kn_reduce_opts()) {
    o.size = sizeof o;
    return kn_sum_opt(x, &o);
}
static inline kn_tensor *kn_prod(kn_tensor *x, kn_reduce_opts o = kn_reduce_opts()) {
    o.size = sizeof o;
    return kn_prod_opt(x, &o);
}
static inline kn_tensor *kn_mean(kn_tensor *x, kn_reduce_opts o = kn_reduce_opts()) {
    o.size = sizeof o;
    return kn_mean_opt(x, &o);
}
static inline kn_tensor *kn_max(kn_tensor *x, kn_reduce_opts o = kn_reduce_opts()) {
    o.size = sizeof o;
    return kn_max_opt(x, &o);
}
static inline kn_tensor *kn_min(kn_tensor *x, kn_reduce_opts o = kn_reduce_opts()) {
    o.size = sizeof o;
    return kn_min_opt(x, &o);
}
static inline kn_tensor *kn_var(kn_tensor *x, kn_reduce_opts o = kn_reduce_opts()) {
    o.size = sizeof o;
    return kn_var_opt(x, &o);
}
static inline kn_tensor *kn_std(kn_tensor *x, kn_reduce_opts o = kn_reduce_opts()) {
    o.size = sizeof o;
    return kn_std_opt(x, &o);
}
static inline kn_tensor *kn_conv2d(kn_tensor *x, kn_tensor *w, kn_tensor *bias, kn_conv2d_opts o = kn_conv2d_opts()) {
    o.size = sizeof o;
    return kn_conv2d_opt(x, w, bias, &o);
}
static inline kn_tensor *kn_batch_norm(kn_tensor *x, kn_tensor *gamma, kn_tensor *beta,
                                       kn_batch_norm_opts o = kn_batch_norm_opts()) {
    o.size = sizeof o;
    return kn_batch_norm_opt(x, gamma, beta, &o);
}
static inline kn_tensor *kn_max_pool2d(kn_tensor *x, kn_pool_opts o = kn_pool_opts()) {
    o.size = sizeof o;
    return kn_max_pool2d_opt(x, &o);
}
static inline kn_tensor *kn_avg_pool2d(kn_tensor *x, kn_pool_opts o = kn_pool_opts()) {
    o.size = sizeof o;
    return kn_avg_pool2d_opt(x, &o);
}
static inline kn_optim *kn_sgd(kn_context *kn, kn_tensor *const *params, int n, kn_sgd_opts o = kn_sgd_opts()) {
    o.size = sizeof o;
    return kn_sgd_opt(kn, params, n, &o);
}
static inline kn_optim *kn_adam(kn_context *kn, kn_tensor *const *params, int n, kn_adam_opts o = kn_adam_opts()) {
    o.size = sizeof o;
    return kn_adam_opt(kn, params, n, &o);
}
static inline kn_tensor *kn_map(kn_context *kn, const char *path, kn_dtype dtype, const kn_dim *dims, int rank,
                                kn_map_opts o = kn_map_opts()) {
    o.size = sizeof o;
    return kn_map_opt(kn, path, dtype, dims, rank, &o);
}
#ifndef KN_NO_CALLSITE
#define kn_map(...) KN_HERE_(kn_map(__VA_ARGS__))
#define kn_sum(...) KN_HERE_(kn_sum(__VA_ARGS__))
#define kn_prod(...) KN_HERE_(kn_prod(__VA_ARGS__))
#define kn_mean(...) KN_HERE_(kn_mean(__VA_ARGS__))
#define kn_max(...) KN_HERE_(kn_max(__VA_ARGS__))
#define kn_min(...) KN_HERE_(kn_min(__VA_ARGS__))
#define kn_var(...) KN_HERE_(kn_var(__VA_ARGS__))
#define kn_std(...) KN_HERE_(kn_std(__VA_ARGS__))
#define kn_conv2d(...) KN_HERE_(kn_conv2d(__VA_ARGS__))
#define kn_batch_norm(...) KN_HERE_(kn_batch_norm(__VA_ARGS__))
#define kn_max_pool2d(...) KN_HERE_(kn_max_pool2d(__VA_ARGS__))
#define kn_avg_pool2d(...) KN_HERE_(kn_avg_pool2d(__VA_ARGS__))
#endif
#endif

#ifndef KN_NO_CALLSITE
#define kn_keep(...) KN_HERE_(kn_keep(__VA_ARGS__))
#define kn_from(...) KN_HERE_(kn_from(__VA_ARGS__))
#define kn_wrap(...) KN_HERE_(kn_wrap(__VA_ARGS__))
#define kn_empty(...) KN_HERE_(kn_empty(__VA_ARGS__))
#define kn_full(...) KN_HERE_(kn_full(__VA_ARGS__))
#define kn_zeros(...) KN_HERE_(kn_zeros(__VA_ARGS__))
#define kn_ones(...) KN_HERE_(kn_ones(__VA_ARGS__))
#define kn_scalar_f32(...) KN_HERE_(kn_scalar_f32(__VA_ARGS__))
#define kn_arange(...) KN_HERE_(kn_arange(__VA_ARGS__))
#define kn_iota(...) KN_HERE_(kn_iota(__VA_ARGS__))
#define kn_dim_scalar(...) KN_HERE_(kn_dim_scalar(__VA_ARGS__))
#define kn_eye(...) KN_HERE_(kn_eye(__VA_ARGS__))
#define kn_rand(...) KN_HERE_(kn_rand(__VA_ARGS__))
#define kn_randn(...) KN_HERE_(kn_randn(__VA_ARGS__))
#define kn_kaiming_uniform(...) KN_HERE_(kn_kaiming_uniform(__VA_ARGS__))
#define kn_reshape(...) KN_HERE_(kn_reshape(__VA_ARGS__))
#define kn_expand(...) KN_HERE_(kn_expand(__VA_ARGS__))
#define kn_permute(...) KN_HERE_(kn_permute(__VA_ARGS__))
#define kn_transpose(...) KN_HERE_(kn_transpose(__VA_ARGS__))
#define kn_flip(...) KN_HERE_(kn_flip(__VA_ARGS__))
#define kn_pad(...) KN_HERE_(kn_pad(__VA_ARGS__))
#define kn_shrink(...) KN_HERE_(kn_shrink(__VA_ARGS__))
#define kn_rows(...) KN_HERE_(kn_rows(__VA_ARGS__))
#define kn_unsqueeze(...) KN_HERE_(kn_unsqueeze(__VA_ARGS__))
#define kn_squeeze(...) KN_HERE_(kn_squeeze(__VA_ARGS__))
#define kn_flatten(...) KN_HERE_(kn_flatten(__VA_ARGS__))
#define kn_cat(...) KN_HERE_(kn_cat(__VA_ARGS__))
#define kn_stack(...) KN_HERE_(kn_stack(__VA_ARGS__))
#define kn_add(...) KN_HERE_(kn_add(__VA_ARGS__))
#define kn_sub(...) KN_HERE_(kn_sub(__VA_ARGS__))
#define kn_mul(...) KN_HERE_(kn_mul(__VA_ARGS__))
#define kn_div(...) KN_HERE_(kn_div(__VA_ARGS__))
#define kn_floordiv(...) KN_HERE_(kn_floordiv(__VA_ARGS__))
#define kn_mod(...) KN_HERE_(kn_mod(__VA_ARGS__))
#define kn_maximum(...) KN_HERE_(kn_maximum(__VA_ARGS__))
#define kn_minimum(...) KN_HERE_(kn_minimum(__VA_ARGS__))
#define kn_pow(...) KN_HERE_(kn_pow(__VA_ARGS__))
#define kn_add_s(...) KN_HERE_(kn_add_s(__VA_ARGS__))
#define kn_sub_s(...) KN_HERE_(kn_sub_s(__VA_ARGS__))
#define kn_rsub_s(...) KN_HERE_(kn_rsub_s(__VA_ARGS__))
#define kn_mul_s(...) KN_HERE_(kn_mul_s(__VA_ARGS__))
#define kn_div_s(...) KN_HERE_(kn_div_s(__VA_ARGS__))
#define kn_rdiv_s(...) KN_HERE_(kn_rdiv_s(__VA_ARGS__))
#define kn_maximum_s(...) KN_HERE_(kn_maximum_s(__VA_ARGS__))
#define kn_minimum_s(...) KN_HERE_(kn_minimum_s(__VA_ARGS__))
#define kn_pow_s(...) KN_HERE_(kn_pow_s(__VA_ARGS__))
#define kn_eq(...) KN_HERE_(kn_eq(__VA_ARGS__))
#define kn_ne(...) KN_HERE_(kn_ne(__VA_ARGS__))
#define kn_lt(...) KN_HERE_(kn_lt(__VA_ARGS__))
#define kn_le(...) KN_HERE_(kn_le(__VA_ARGS__))
#define kn_gt(...) KN_HERE_(kn_gt(__VA_ARGS__))
#define kn_ge(...) KN_HERE_(kn_ge(__VA_ARGS__))
#define kn_lt_s(...) KN_HERE_(kn_lt_s(__VA_ARGS__))
#define kn_gt_s(...) KN_HERE_(kn_gt_s(__VA_ARGS__))
#define kn_eq_s(...) KN_HERE_(kn_eq_s(__VA_ARGS__))
#define kn_and(...) KN_HERE_(kn_and(__VA_ARGS__))
#define kn_or(...) KN_HERE_(kn_or(__VA_ARGS__))
#define kn_xor(...) KN_HERE_(kn_xor(__VA_ARGS__))
#define kn_not(...) KN_HERE_(kn_not(__VA_ARGS__))
#define kn_where(...) KN_HERE_(kn_where(__VA_ARGS__))
#define kn_neg(...) KN_HERE_(kn_neg(__VA_ARGS__))
#define kn_abs(...) KN_HERE_(kn_abs(__VA_ARGS__))
#define kn_sign(...) KN_HERE_(kn_sign(__VA_ARGS__))
#define kn_square(...) KN_HERE_(kn_square(__VA_ARGS__))
#define kn_sqrt(...) KN_HERE_(kn_sqrt(__VA_ARGS__))
#define kn_rsqrt(...) KN_HERE_(kn_rsqrt(__VA_ARGS__))
#define kn_recip(...) KN_HERE_(kn_recip(__VA_ARGS__))
#define kn_exp(...) KN_HERE_(kn_exp(__VA_ARGS__))
#define kn_exp2(...) KN_HERE_(kn_exp2(__VA_ARGS__))
#define kn_log(...) KN_HERE_(kn_log(__VA_ARGS__))
#define kn_log2(...) KN_HERE_(kn_log2(__VA_ARGS__))
#define kn_sin(...) KN_HERE_(kn_sin(__VA_ARGS__))
#define kn_cos(...) KN_HERE_(kn_cos(__VA_ARGS__))
#define kn_floor(...) KN_HERE_(kn_floor(__VA_ARGS__))
#define kn_trunc(...) KN_HERE_(kn_trunc(__VA_ARGS__))
#define kn_clamp(...) KN_HERE_(kn_clamp(__VA_ARGS__))
#define kn_relu(...) KN_HERE_(kn_relu(__VA_ARGS__))
#define kn_gelu(...) KN_HERE_(kn_gelu(__VA_ARGS__))
#define kn_tanh(...) KN_HERE_(kn_tanh(__VA_ARGS__))
#define kn_erf(...) KN_HERE_(kn_erf(__VA_ARGS__))
#define kn_sigmoid(...) KN_HERE_(kn_sigmoid(__VA_ARGS__))
#define kn_silu(...) KN_HERE_(kn_silu(__VA_ARGS__))
#define kn_cast(...) KN_HERE_(kn_cast(__VA_ARGS__))
#define kn_bitcast(...) KN_HERE_(kn_bitcast(__VA_ARGS__))
#define kn_detach(...) KN_HERE_(kn_detach(__VA_ARGS__))
#define kn_contiguous(...) KN_HERE_(kn_contiguous(__VA_ARGS__))
#define kn_matmul(...) KN_HERE_(kn_matmul(__VA_ARGS__))
#define kn_softmax(...) KN_HERE_(kn_softmax(__VA_ARGS__))
#define kn_log_softmax(...) KN_HERE_(kn_log_softmax(__VA_ARGS__))
#define kn_layer_norm(...) KN_HERE_(kn_layer_norm(__VA_ARGS__))
#define kn_cross_entropy(...) KN_HERE_(kn_cross_entropy(__VA_ARGS__))
#define kn_gather(...) KN_HERE_(kn_gather(__VA_ARGS__))
#define kn_one_hot(...) KN_HERE_(kn_one_hot(__VA_ARGS__))
#define kn_scatter_add(...) KN_HERE_(kn_scatter_add(__VA_ARGS__))
#define kn_argmax(...) KN_HERE_(kn_argmax(__VA_ARGS__))
#define kn_argmin(...) KN_HERE_(kn_argmin(__VA_ARGS__))
#define kn_cumsum(...) KN_HERE_(kn_cumsum(__VA_ARGS__))
#define kn_dropout(...) KN_HERE_(kn_dropout(__VA_ARGS__))
#define kn_assign(...) KN_HERE_(kn_assign(__VA_ARGS__))
#define kn_requires_grad(...) KN_HERE_(kn_requires_grad(__VA_ARGS__))
#define kn_grad(...) KN_HERE_(kn_grad(__VA_ARGS__))
#endif

#endif
