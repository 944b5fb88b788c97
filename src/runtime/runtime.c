/* runtime.c - buffers, and the way from roots to results.
 *
 * Contract: a run callifies the roots, takes the schedule of that form from the cache (or makes it), binds buffers to
 * its PARAMs and runs its kernels. Nothing of the caller's graph changes but for new BUFFER and SLICE nodes. */
#include "runtime/inside.h"

#include "dialect/why.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------------------------------------------- */

kr_context *kr_new(const kn_alloc *a, const kn_config *cfg, kn_fault *f) {
    static const kn_config none = {0};
    kr_context            *rt   = kn_zalloc(a, sizeof *rt);
    if (!rt) return kn_oom(f), NULL;
    if (a) rt->alloc = *a, rt->a = &rt->alloc;
    rt->cfg = cfg ? *cfg : none;
    kn_str_init(&rt->device, rt->a);
    kn_str_puts(&rt->device, rt->cfg.device ? rt->cfg.device : "CPU");
    rt->interpret = !strcmp(kn_str_c(&rt->device), "INTERP");
    rt->idle      = !strcmp(kn_str_c(&rt->device), "NULL");
    rt->next_slot = 1;
    kn_str_init(&rt->hand_key, rt->a);
    rt->shared    = rt->cfg.runtime ? kr_shared_take(rt->cfg.runtime) : kr_shared_new(rt->a, &rt->cfg, f);
    if (rt->device.failed) kn_oom(f);
    else if (rt->shared && kt_find(rt->cfg.target, &rt->target, f)) return rt;
    kr_free(rt);
    return NULL;
}

static void drop_bytes(kr_context *rt, kr_buffer *b) {
    kr_aligned_free(rt->a, b->block, KN_MAX(b->bytes, 1u));
    if (b->map.base) kd_unmap(&b->map);
    b->block = b->data = b->map.base = NULL;
}

void kr_free(kr_context *rt) {
    if (!rt) return;
    kn_alloc        own = rt->alloc;
    const kn_alloc *a   = rt->a ? &own : NULL;
    for (size_t i = 0; i < rt->nbuffer; i++) drop_bytes(rt, &rt->buffer[i]);
    for (size_t i = 0; i < rt->room_cap; i++) kr_room_free(rt, &rt->room[i]);
    kn_free(rt->a, rt->room, rt->room_cap * sizeof *rt->room);
    kn_free(rt->a, rt->buffer, rt->buffer_cap * sizeof *rt->buffer);
    kr_forget_opts(rt);
    kn_free(rt->a, rt->custom, rt->custom_cap * sizeof *rt->custom);
    kn_str_free(&rt->device);
    kr_shared_drop(rt->shared);
    kn_free(a, rt, sizeof *rt);
}

void kr_cancel(kr_context *rt) { atomic_store(&rt->cancelled, 1); }

void kr_stats(kr_context *rt, kn_stats *out) {
    size_t size = out->size;
    *out        = rt->stats;
    out->size   = size;
}

/* ---- buffers ------------------------------------------------------------------------------------------------- */

void *kr_aligned(const kn_alloc *a, size_t bytes, void **block) {
    size_t align = kn_array_align(bytes), size = bytes + align;
    if (size < bytes || !(*block = kn_zalloc(a, size))) return NULL;
    return (void *)(((uintptr_t)*block + align - 1) & ~(uintptr_t)(align - 1));
}

void kr_aligned_free(const kn_alloc *a, void *block, size_t bytes) {
    if (block) kn_free(a, block, bytes + kn_array_align(bytes));
}

kr_buffer *kr_find(kr_context *rt, int64_t slot) {
    size_t lo = 0, hi = rt->nbuffer;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (rt->buffer[mid].slot < slot) lo = mid + 1;
        else hi = mid;
    }
    return lo < rt->nbuffer && rt->buffer[lo].slot == slot && rt->buffer[lo].live ? &rt->buffer[lo] : NULL;
}

static int64_t add_buffer(kr_context *rt, kr_buffer b, kn_fault *f) {
    int64_t bytes;
    if (b.size < 0 || !kn_mul_ok(b.size, kn_dsize(b.dtype), &bytes) || bytes > INT64_MAX / 2)
        return kn_fail(f, KN_ERR_SHAPE, "a buffer of %lld elements is out of range", (long long)b.size), 0;
    if (!KN_GROW(rt->a, rt->buffer, rt->buffer_cap, rt->nbuffer + 1)) return kn_oom(f), 0;
    b.bytes = (size_t)bytes;
    b.slot  = rt->next_slot++;
    b.live  = true;
    rt->buffer[rt->nbuffer++] = b;
    return b.slot;
}

int64_t kr_buffer_new(kr_context *rt, int64_t size, int dtype, kn_fault *f) {
    return add_buffer(rt, (kr_buffer){.size = size, .dtype = dtype, .owned = true}, f);
}

int64_t kr_buffer_wrap(kr_context *rt, void *data, int64_t size, int dtype, kn_fault *f) {
    return add_buffer(rt, (kr_buffer){.size = size, .dtype = dtype, .data = data}, f);
}

int64_t kr_buffer_map(kr_context *rt, const char *path, int64_t offset, int64_t size, int dtype, bool writable,
                      bool create, kn_fault *f) {
    kr_buffer b = {.size = size, .dtype = dtype};
    int64_t   bytes;
    if (!kn_mul_ok(size, kn_dsize(dtype), &bytes))
        return kn_fail(f, KN_ERR_SHAPE, "%s: too many elements", path), 0;
    if (!kd_map_file(path, offset, bytes, writable, create, &b.map, f)) return 0;
    b.data       = b.map.data;
    int64_t slot = add_buffer(rt, b, f);
    if (!slot) kd_unmap(&b.map);
    return slot;
}

bool kr_buffer_is_file(kr_context *rt, int64_t slot) {
    kr_buffer *b = kr_find(rt, slot);
    return b && b->map.base;
}

static bool have_bytes(kr_context *rt, kr_buffer *b, kn_fault *f) {
    if (!b) return kn_fail(f, KN_ERR_STATE, "the storage has been released");
    if (b->data) return true;
    if (!(b->data = kr_aligned(rt->a, KN_MAX(b->bytes, 1u), &b->block)))
        return kn_fail(f, KN_ERR_MEMORY, "out of memory for %zu bytes", b->bytes);
    rt->stats.buffer_bytes += b->bytes;
    rt->stats.buffer_peak = KN_MAX(rt->stats.buffer_peak, rt->stats.buffer_bytes);
    return true;
}

bool kr_buffer_at(kr_context *rt, int64_t slot, int64_t offset, bool write, kr_place *at, kn_fault *f) {
    kr_buffer *b = kr_find(rt, slot);
    if (!have_bytes(rt, b, f)) return false;
    if (b->owned && (write || !b->stamp)) b->stamp = ++rt->stamp;
    *at = (kr_place){(char *)b->data + offset, b->stamp};
    return true;
}

void *kr_buffer_data(kr_context *rt, int64_t slot, kn_fault *f) {
    kr_place at;
    return kr_buffer_at(rt, slot, 0, true, &at, f) ? at.data : NULL;
}

const void *kr_buffer_read(kr_context *rt, int64_t slot, kn_fault *f) {
    kr_place at;
    return kr_buffer_at(rt, slot, 0, false, &at, f) ? at.data : NULL;
}

int64_t kr_buffer_size(kr_context *rt, int64_t slot) {
    kr_buffer *b = kr_find(rt, slot);
    return b ? b->size : 0;
}

void kr_buffer_release(kr_context *rt, int64_t slot) {
    kr_buffer *b = kr_find(rt, slot);
    if (!b) return;
    if (b->block) rt->stats.buffer_bytes -= b->bytes;
    drop_bytes(rt, b);
    b->live = false;
    if (++rt->dead * 2 < rt->nbuffer) return;
    size_t n = 0;
    for (size_t i = 0; i < rt->nbuffer; i++)
        if (rt->buffer[i].live) rt->buffer[n++] = rt->buffer[i];
    rt->nbuffer = n;
    rt->dead    = 0;
}

int64_t kr_buffer_next(kr_context *rt, int64_t after_slot) {
    size_t lo = 0, hi = rt->nbuffer;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (rt->buffer[mid].slot <= after_slot) lo = mid + 1;
        else hi = mid;
    }
    while (lo < rt->nbuffer && !rt->buffer[lo].live) lo++;
    return lo < rt->nbuffer ? rt->buffer[lo].slot : 0;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static bool bind(kr_context *rt, kn_graph *g, const kl_program *p, const kl_binding *b, kr_place *at, int64_t *made,
                 int64_t *value, kn_fault *f) {
    for (size_t k = 0; k < p->nparam; k++) {
        kn_ref  n      = b->bound[k];
        int64_t offset = 0, slot;
        if (p->param[k].var) {
            value[k] = kg_const_int(g, kg_at(g, n, 1));
            at[k]    = (kr_place){&value[k], 0};
            continue;
        }
        if (!n) {
            if (!(slot = made[k] = kr_buffer_new(rt, p->param[k].size, p->param[k].dtype, f))) return false;
        } else {
            if (kg_op(g, n) == KN_OP_SLICE) {
                offset = kg_const_int(g, kg_at(g, n, 1));
                n      = kg_at(g, n, 0);
            }
            slot = kg_field(g, n, KN_F_BUFFER_slot);
        }
        if (!kr_buffer_at(rt, slot, offset * kn_dsize(p->param[k].dtype), p->param[k].written, &at[k], f)) return false;
    }
    return true;
}

static void dump_new(kr_context *rt, kn_graph *g, const kn_ref *realized, uint32_t nrealized, const kn_ref *roots,
                     int n) {
    const char *want = getenv("KOINE_DUMP"); /* STAGE[+why][:FILE]; kn_open looks for the +why */
    if (!want || !*want) return;
    char        stage[32];
    const char *file = strchr(want, ':');
    snprintf(stage, sizeof stage, "%.*s", (int)strcspn(want, "+:"), want);
    kn_str   s;
    kn_fault f = {0};
    kn_str_init(&s, rt->a);
    if (!kr_dump(rt, g, realized, nrealized, roots, n, stage, &s, &f)) kn_str_putf(&s, "# KOINE_DUMP: %s\n", f.text);
    FILE *out = fopen(file ? file + 1 : "/dev/stderr", "a");
    if (out) fputs(kn_str_c(&s), out);
    if (out) fclose(out);
    kn_str_free(&s);
}

bool kr_run(kr_context *rt, kn_graph *g, const kn_ref *realized, uint32_t nrealized, const kn_ref *roots, int n,
            kn_ref *results, kn_fault *f) {
    kl_program p;
    kl_binding b    = {0};
    kr_place  *at   = NULL;
    int64_t   *made = NULL, *value = NULL; /* buffers for values of roots; values of variables */
    size_t     nparam = 0;
    bool       ok = false;
    kl_program_init(&p, rt->shared->a);
    if (n <= 0) return true;
    if (!(b.out_slot = kn_zalloc(rt->a, (size_t)n * sizeof *b.out_slot))) return kn_oom(f);
    if (!kl_callify(g, realized, nrealized, roots, n, &p, &b, f)) {
        kl_program_free(&p);
        goto done;
    }
    uint64_t before = rt->stats.schedules;
    kr_schedule *s  = kr_schedule_get(rt, &p, f);
    if (!s) goto done;
    if (rt->stats.schedules != before) dump_new(rt, g, realized, nrealized, roots, n);
    nparam = s->p.nparam;
    at     = kn_zalloc(rt->a, (nparam + 1) * sizeof *at);
    made   = kn_zalloc(rt->a, (nparam + 1) * sizeof *made);
    value  = kn_zalloc(rt->a, (nparam + 1) * sizeof *value);
    if (!at || !made || !value) {
        kn_oom(f);
        goto done;
    }
    ok = bind(rt, g, &s->p, &b, at, made, value, f) && kr_schedule_run(rt, s, at, f);
    for (int i = 0; i < n && ok; i++) {
        kn_ref bound = b.bound[b.out_slot[i]];
        uint32_t dev = kg_intern_str(g, kn_str_c(&rt->device), rt->device.len);
        if (!bound) {
            size_t k = (size_t)b.out_slot[i];
            bound    = kg_buffer(g, made[k], s->p.param[k].size, s->p.param[k].dtype, dev, KN_GLOBAL);
        }
        if (!(results[i] = bound)) ok = kl_stage_fault("run", g, f);
    }
done:
    if (!ok && made)
        for (size_t k = 0; k < nparam; k++)
            if (made[k]) kr_buffer_release(rt, made[k]);
    kn_free(rt->a, at, (nparam + 1) * sizeof *at);
    kn_free(rt->a, made, (nparam + 1) * sizeof *made);
    kn_free(rt->a, value, (nparam + 1) * sizeof *value);
    kn_free(rt->shared->a, b.bound, b.cap * sizeof *b.bound);
    kn_free(rt->a, b.out_slot, (size_t)n * sizeof *b.out_slot);
    return ok;
}

/* ---- dumps --------------------------------------------------------------------------------------------------- */

typedef struct kr_dumper {
    kn_str  *out;
    kn_stage want; /* ANY: all of them */
} kr_dumper;

static bool dump_stage(void *user, kn_stage stage, kn_graph *g, kn_ref root, kn_fault *f) {
    kr_dumper *d = user;
    if (d->want != KN_STAGE_ANY && d->want != stage) return true;
    kn_str_putf(d->out, "# after %s\n", kn_stage_names[stage]);
    if (stage == KN_STAGE_RENDER) { /* source reads better as source */
        for (uint32_t i = 0; i < kg_nsrc(g, root); i++) {
            kn_ref program = kg_at(g, kg_at(g, root, i), 0);
            if (kg_op(g, program) == KN_OP_PROGRAM)
                kn_str_puts(d->out, kg_str(g, (uint32_t)kg_node(g, kg_at(g, program, 1))->arg, NULL));
        }
    } else {
        kg_print_why(g, root, d->out);
    }
    return d->out->failed ? kn_oom(f) : true;
}

bool kr_dump(kr_context *rt, kn_graph *g, const kn_ref *realized, uint32_t nrealized, const kn_ref *roots, int n,
             const char *stage, kn_str *out, kn_fault *f) {
    int        want = !strcmp(stage, "all") ? KN_STAGE_ANY : kn_stage_by_name(stage);
    kl_program p;
    kl_binding b = {0};
    if (want < 0)
        return kn_fail(f, KN_ERR_ARG,
                       "no stage \"%s\"; stages are tensor, callify, rangeify, optimize, expand, select, linearize, "
                       "plan, render and all",
                       stage);
    if (want == KN_STAGE_TENSOR) {
        kn_ref root = n == 1 ? roots[0] : kg_list(g, KN_OP_TUPLE, roots, n);
        if (!root) return kl_stage_fault("dump", g, f);
        kg_print_why(g, root, out);
        return out->failed ? kn_oom(f) : true;
    }
    kl_program_init(&p, rt->shared->a);
    if (!(b.out_slot = kn_zalloc(rt->a, (size_t)KN_MAX(n, 1) * sizeof *b.out_slot))) return kn_oom(f);
    p.target      = rt->target;
    kr_dumper d   = {out, (kn_stage)want};
    p.machine     = kr_machine(rt->shared);
    kl_run    run = {.stop = (kn_stage)want, .seen = dump_stage, .user = &d,
                   .hand = rt->hand, .nhand = rt->nhand};
    bool      ok  = kl_callify(g, realized, nrealized, roots, n, &p, &b, f) && kl_lower(&p, &run, f);
    kl_program_free(&p);
    kn_free(rt->shared->a, b.bound, b.cap * sizeof *b.bound);
    kn_free(rt->a, b.out_slot, (size_t)KN_MAX(n, 1) * sizeof *b.out_slot);
    return ok;
}
