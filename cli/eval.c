/* eval.c - `koine eval`: runs a text program on .npy files and prints or writes its values. */
#include "cli.h"

#include "dialect/eval.h"
#include "dialect/fill.h"
#include "dialect/tree.h"
#include "format/npy.h"
#include "runtime/program.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_SLOTS = 4096, ELIDE_ABOVE = 1000, SHOWN_ENDS = 3 };

typedef struct eval_slot {
    kn_ref param; /* 0: no PARAM of this number */
    bool   written;
    size_t bytes;
} eval_slot;

typedef struct eval_job {
    cli       *c;
    kn_graph  *g;
    kn_ref     root;
    eval_slot *slots;
    kn_array  *arrays;
    int        nslots;
    kn_value  *values;
    int        nvalues;
} eval_job;

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

static bool add_slot(eval_job *j, kn_ref n) {
    kn_fault *f    = &j->c->fault;
    int64_t   slot = kg_field(j->g, n, KN_F_PARAM_slot), bytes;
    if (slot < 0 || slot >= MOST_SLOTS)
        return kn_fail(f, KN_ERR_ARG, "PARAM slot %" PRId64 ": there are 0 to %d", slot, MOST_SLOTS - 1);
    eval_slot *s = &j->slots[slot];
    if (s->param && (kg_dtype(j->g, s->param) != kg_dtype(j->g, n) || kg_numel(j->g, s->param) != kg_numel(j->g, n)))
        return kn_fail(f, KN_ERR_ARG, "PARAM slot %" PRId64 " stands for two different arrays", slot);
    if (s->param) return true;
    if (kg_numel(j->g, n) < 0)
        return kn_fail(f, KN_ERR_UNSUPPORTED, "PARAM slot %" PRId64 " has a symbolic size", slot);
    if (!kn_mul_ok(kg_numel(j->g, n), kn_dsize(kg_dtype(j->g, n)), &bytes) || bytes > (int64_t)1 << 40)
        return kn_fail(f, KN_ERR_MEMORY, "PARAM slot %" PRId64 " is too large", slot);
    s->param  = n;
    s->bytes  = (size_t)bytes;
    j->nslots = KN_MAX(j->nslots, (int)slot + 1);
    return true;
}

/* The PARAM behind a view, 0 if none. */
static kn_ref viewed_param(const kn_graph *g, kn_ref n) {
    while (kg_op(g, n) != KN_OP_PARAM) {
        if ((!kn_is_movement(kg_op(g, n)) && kg_op(g, n) != KN_OP_AFTER) || !kg_nsrc(g, n)) return 0;
        n = kg_at(g, n, 0);
    }
    return n;
}

static void mark_written(eval_job *j, kn_ref n) {
    const kn_graph *g  = j->g;
    int             op = kg_op(g, n);
    if (op != KN_OP_STORE && op != KN_OP_ATOMIC_ADD && op != KN_OP_CALL) return;
    for (uint32_t k = op == KN_OP_CALL; k < (op == KN_OP_CALL ? kg_nsrc(g, n) : 1); k++) {
        kn_ref p = viewed_param(g, kg_at(g, n, k));
        if (p) j->slots[kg_field(g, p, KN_F_PARAM_slot)].written = true;
    }
}

/* The PARAMs of the program itself; those of FUNCTION and CALL bodies are theirs. */
static bool find_slots(eval_job *j) {
    size_t   size = (size_t)j->root + 1;
    uint8_t *mark = kn_zalloc(NULL, size);
    bool     ok   = true;
    if (!mark) return kn_oom(&j->c->fault);
    mark[j->root] = 1;
    for (kn_ref id = j->root; id > 0 && ok; id--) {
        if (!mark[id]) continue;
        int op = kg_op(j->g, id);
        for (uint32_t k = op == KN_OP_FUNCTION || op == KN_OP_CALL; k < kg_nsrc(j->g, id); k++)
            mark[kg_at(j->g, id, k)] = 1;
        if (op == KN_OP_PARAM) ok = add_slot(j, id);
    }
    for (kn_ref id = j->root; id > 0 && ok; id--)
        if (mark[id]) mark_written(j, id);
    kn_free(NULL, mark, size);
    return ok;
}

static bool type_is(const kn_graph *g, kn_ref n, int dtype, const int64_t *dims, int rank) {
    int            r;
    const int64_t *d    = kg_shape(g, n, &r);
    int            dt   = kg_dtype(g, n);
    bool           same = dt == dtype || (dt == KN_INDEX && dtype == KN_I64) ||
                /* what .npy cannot hold is read as f32 */
                ((dt == KN_BF16 || dt == KN_F8E4M3 || dt == KN_F8E5M2) && dtype == KN_F32);
    return same && r == rank && (r == 0 || !memcmp(d, dims, (size_t)r * sizeof *d));
}

static void type_text(char *out, size_t cap, int dtype, const int64_t *dims, int rank) {
    size_t at = (size_t)snprintf(out, cap, "%s%s", kn_dtypes[dtype].name, rank ? "[" : "");
    for (int i = 0; i < rank && at + 24 < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%" PRId64 "%s", dims[i], i + 1 < rank ? "," : "]");
}

static bool read_input(eval_job *j, int slot, const char *path) {
    kn_ref    n = j->slots[slot].param;
    kn_npy    x;
    kn_fault *f  = &j->c->fault;
    kn_array *to = &j->arrays[slot];
    if (!kn_npy_read(NULL, path, &x, f)) return false;
    bool ok = type_is(j->g, n, x.dtype, x.dims, x.rank);
    if (!ok) {
        char           have[200], want[200];
        int            rank;
        const int64_t *dims = kg_shape(j->g, n, &rank);
        type_text(want, sizeof want, kg_dtype(j->g, n), dims, rank);
        type_text(have, sizeof have, x.dtype, x.dims, x.rank);
        kn_fail(f, KN_ERR_SHAPE, "%.100s: it is %s, and PARAM slot %d is %s", path, have, slot, want);
    } else if (to->dtype == (int)x.dtype || to->dtype == KN_INDEX) {
        if (x.bytes) memcpy(to->data, x.data, x.bytes);
    } else {
        int item = kn_dsize(to->dtype);
        for (int64_t i = 0; i < x.count; i++)
            kn_store_scalar((char *)to->data + i * item, to->dtype,
                            kn_cast_scalar(kn_load_scalar((char *)x.data + 4 * i, KN_F32), KN_F32, to->dtype));
    }
    kn_npy_free(&x);
    return ok;
}

static bool fill_inputs(eval_job *j) {
    const char  *fill  = cli_value(j->c, "fill", 0);
    kn_fill_kind kind  = fill && !strcmp(fill, "seq")    ? KN_FILL_SEQ
                         : fill && !strcmp(fill, "rand") ? KN_FILL_RAND
                                                         : KN_FILL_ZERO;
    int          given = 0;
    while (cli_value(j->c, "in", given)) given++;
    for (int k = 0; k < KN_MAX(j->nslots, given); k++) {
        const char *path = cli_value(j->c, "in", k);
        if (k >= j->nslots || !j->slots[k].param) {
            if (path) return kn_fail(&j->c->fault, KN_ERR_ARG, "%.100s: the program has no PARAM slot %d", path, k);
            continue;
        }
        kn_ref n     = j->slots[k].param;
        j->arrays[k] = (kn_array){kn_zalloc(NULL, KN_MAX(j->slots[k].bytes, 1)), kg_numel(j->g, n), kg_dtype(j->g, n)};
        if (!j->arrays[k].data) return kn_oom(&j->c->fault);
        if (path) {
            if (!read_input(j, k, path)) return false;
        } else if (fill) {
            kn_fill(j->arrays[k].data, j->arrays[k].size, j->arrays[k].dtype, kind, (uint64_t)k + 1);
        } else if (!j->slots[k].written) {
            return kn_fail(&j->c->fault, KN_ERR_ARG,
                           "PARAM slot %d has no input: give --in, or --fill seq, rand or zero", k);
        }
    }
    return true;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static void print_scalar(kn_str *out, const kn_value *v, int64_t i, bool json) {
    kn_scalar s = kn_load_scalar((const char *)v->data + i * kn_dsize(v->dtype), v->dtype);
    if (kn_is_float(v->dtype)) {
        char t[64];
        kn_double_text(t, s.f, v->dtype != KN_F64);
        bool quote = json && !isfinite(s.f);
        kn_str_putf(out, "%s%s%s", quote ? "\"" : "", t, quote ? "\"" : "");
    } else if (v->dtype == KN_BOOL) {
        kn_str_puts(out, s.i ? "true" : "false");
    } else if (v->dtype == KN_U64) {
        kn_str_putf(out, "%" PRIu64, (uint64_t)s.i);
    } else {
        kn_str_putf(out, "%" PRId64, s.i);
    }
}

/* Nested brackets, row-major; `elide`: of long axes the ends alone. */
static void print_nested(kn_str *out, const kn_value *v, bool elide, bool json) {
    int64_t at[KN_MAX_RANK] = {0}, empty = 0;
    if (v->rank == 0) {
        print_scalar(out, v, 0, json);
        return;
    }
    for (int d = 0; d < v->rank; d++) empty |= v->dims[d] == 0;
    if (empty) {
        for (int d = 0; d < v->rank; d++) kn_str_puts(out, "[");
        for (int d = 0; d < v->rank; d++) kn_str_puts(out, "]");
        return;
    }
    for (int d = 0; d < v->rank; d++) kn_str_puts(out, "[");
    for (;;) {
        int64_t i = 0;
        int     d;
        for (d = 0; d < v->rank; d++) i = i * v->dims[d] + at[d];
        print_scalar(out, v, i, json);
        for (d = v->rank - 1; d >= 0 && ++at[d] == v->dims[d]; d--) at[d] = 0; /* d: the axis that moved on */
        int closed = v->rank - 1 - KN_MAX(d, -1);
        for (int k = 0; k < KN_MIN(closed, v->rank); k++) kn_str_puts(out, "]");
        if (d < 0) break;
        kn_str_puts(out, ",");
        bool jump = elide && at[d] == SHOWN_ENDS && v->dims[d] > 2 * SHOWN_ENDS;
        if (jump) {
            at[d] = v->dims[d] - SHOWN_ENDS;
            if (!closed) kn_str_puts(out, " ...,");
        }
        if (closed && !json)
            kn_str_putf(out, "\n%s%*s", jump ? " ...\n" : "", d + 1, "");
        else
            kn_str_puts(out, " ");
        for (int k = 0; k < closed; k++) kn_str_puts(out, "[");
    }
}

static void print_values(eval_job *j) {
    bool   json = cli_switch(j->c, "json");
    kn_str s;
    kn_str_init(&s, NULL);
    if (json) kn_str_puts(&s, "{\"values\": [");
    for (int k = 0; k < j->nvalues; k++) {
        const kn_value *v = &j->values[k];
        char            type[300];
        type_text(type, sizeof type, v->dtype, v->dims, v->rank);
        if (json) {
            kn_str_putf(&s, "%s{\"dtype\": \"%s\", \"shape\": [", k ? ", " : "", kn_dtypes[v->dtype].name);
            for (int d = 0; d < v->rank; d++) kn_str_putf(&s, "%s%" PRId64, d ? ", " : "", v->dims[d]);
            kn_str_puts(&s, "], \"data\": ");
            print_nested(&s, v, false, true);
            kn_str_puts(&s, "}");
        } else {
            if (j->nvalues > 1) kn_str_putf(&s, "%d: ", k);
            kn_str_putf(&s, "%s\n", type);
            print_nested(&s, v, v->numel > ELIDE_ABOVE && !cli_switch(j->c, "full"), false);
            kn_str_puts(&s, "\n");
        }
    }
    if (json) kn_str_puts(&s, "]}\n");
    fputs(kn_str_c(&s), stdout);
    if (s.failed) kn_oom(&j->c->fault);
    kn_str_free(&s);
}

/* Of a program of effects, the slots it writes are its values. */
static bool collect_written(eval_job *j) {
    for (int k = 0; k < j->nslots; k++) {
        eval_slot *s = &j->slots[k];
        if (!s->param || !s->written) continue;
        kn_value      *v    = &j->values[j->nvalues];
        const int64_t *dims = kg_shape(j->g, s->param, &v->rank);
        v->data             = kn_realloc(NULL, NULL, 0, KN_MAX(s->bytes, 1));
        if (!v->data) return kn_oom(&j->c->fault);
        if (s->bytes) memcpy(v->data, j->arrays[k].data, s->bytes);
        v->numel = j->arrays[k].size;
        v->dtype = j->arrays[k].dtype;
        if (v->rank) memcpy(v->dims, dims, (size_t)v->rank * sizeof *dims);
        j->nvalues++;
    }
    return true;
}

static bool write_values(eval_job *j) {
    int n = 0;
    while (cli_value(j->c, "out", n)) n++;
    if (n != j->nvalues)
        return kn_fail(&j->c->fault, KN_ERR_ARG, "the program has %d values, --out names %d files", j->nvalues, n);
    for (int k = 0; k < n; k++) {
        const kn_value *v = &j->values[k];
        if (!kn_npy_write(NULL, cli_value(j->c, "out", k), (kn_dtype)v->dtype, v->dims, v->rank, v->data, &j->c->fault))
            return false;
    }
    return true;
}

static bool run_program(eval_job *j) {
    const char *device = cli_value(j->c, "device", 0);
    kn_fault   *f      = &j->c->fault;
    if (device && !strcmp(device, "INTERP"))
        return kn_eval(j->g, j->root, j->arrays, j->nslots, j->values, &j->nvalues, NULL, f);
    char        room[4096];
    kn_config cfg = {.device = device ? device : "CPU", .target = cli_value(j->c, "target", 0),
                     .cache_dir = cli_cache_dir(room, sizeof room), .log = cli_log};
    kr_context *rt  = kr_new(NULL, &cfg, f);
    bool        ok = rt && kr_run_program(rt, j->g, j->root, j->arrays, j->nslots, j->values, &j->nvalues, f);
    kr_free(rt);
    return ok;
}

static bool run_job(eval_job *j, const char *text, size_t len) {
    cli *c = j->c;
    if (!(j->root = kg_parse_any(j->g, text, len, &c->fault)) || !find_slots(j) || !fill_inputs(j)) return false;
    int  room = kg_op(j->g, j->root) == KN_OP_TUPLE ? (int)kg_nsrc(j->g, j->root) : MOST_SLOTS;
    bool ok   = false;
    j->values = kn_zalloc(NULL, (size_t)(room + 1) * sizeof *j->values);
    if (!j->values) return kn_oom(&c->fault);
    j->nvalues = room;
    if (run_program(j)) {
        ok = j->nvalues || collect_written(j);
        if (ok && cli_value(c, "out", 0))
            ok = write_values(j);
        else if (ok)
            print_values(j);
        for (int k = 0; k < j->nvalues; k++) kn_value_free(NULL, &j->values[k]);
    }
    kn_free(NULL, j->values, (size_t)(room + 1) * sizeof *j->values);
    return ok && !c->fault.code;
}

static bool known_device(const char *name) {
    for (const char *const *d = kn_devices(); *d; d++)
        if (!strcmp(*d, name)) return strcmp(name, "DISK") != 0; /* it computes nothing */
    return false;
}

int cli_run_eval(cli *c) {
    const char *fill = cli_value(c, "fill", 0), *device = cli_value(c, "device", 0);
    if (c->nargs != 1) return cli_usage(c, "expected one program: a file, or - for stdin; inputs follow --in");
    if (fill && strcmp(fill, "seq") != 0 && strcmp(fill, "rand") != 0 && strcmp(fill, "zero") != 0)
        return cli_usage(c, "--fill is seq, rand or zero");
    if (device && !known_device(device))
        return cli_usage(c, "there is no device '%s'; \"koine devices\" lists them", device);
    eval_job j = {.c = c, .g = kg_new(NULL)};
    char    *text;
    size_t   len;
    bool     ok = cli_read_text(c->args[0], &text, &len, &c->fault);
    if (ok) {
        j.slots  = kn_zalloc(NULL, MOST_SLOTS * sizeof *j.slots);
        j.arrays = kn_zalloc(NULL, MOST_SLOTS * sizeof *j.arrays);
        ok       = j.g && j.slots && j.arrays ? run_job(&j, text, len) : kn_oom(&c->fault);
        for (int k = 0; k < j.nslots && j.arrays; k++) kn_free(NULL, j.arrays[k].data, KN_MAX(j.slots[k].bytes, 1));
        kn_free(NULL, j.slots, MOST_SLOTS * sizeof *j.slots);
        kn_free(NULL, j.arrays, MOST_SLOTS * sizeof *j.arrays);
        kn_free(NULL, text, len + 1);
    }
    kg_free(j.g);
    return ok ? 0 : cli_fail(c);
}
