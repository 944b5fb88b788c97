/* handle.c - handles, their generations, and the context's first error.
 *
 * Contract: see tensor.h. Nothing here touches the runtime; a slot's memory stays readable until the context closes, so
 * a stale handle is looked at safely. */
#include "tensor/tensor.h"

#include <stdarg.h>
#include <string.h>

enum { SLAB_SLOTS = 126, GENERATIONS = KT_ALIGN };

_Static_assert(sizeof(kt_slot) <= KT_ALIGN, "a slot and its generation share 64 bytes");

typedef struct kt_block {
    struct kt_block *next;
    size_t           size;
    void (*end)(void *object);
    int64_t data[];
} kt_block;

/* ---- slots ----------------------------------------------------------------------------------------------------- */

static kt_slot *slot_at(const void *handle) {
    return handle ? (kt_slot *)((uintptr_t)handle & ~(uintptr_t)(KT_ALIGN - 1)) : NULL;
}

static bool is_current(const void *handle, const kt_slot *s) {
    return ((uintptr_t)handle & (KT_ALIGN - 1)) == s->gen;
}

kn_tensor *kt_handle(const kt_slot *s) {
    return (kn_tensor *)((uintptr_t)s | s->gen);
}
kn_scope *kt_scope_handle(const kt_slot *s) {
    return (kn_scope *)((uintptr_t)s | s->gen);
}

kt_slot *kt_slot_of(kn_tensor *t) {
    kt_slot *s = slot_at(t);
    return s && s->kind == KT_TENSOR && is_current(t, s) ? s : NULL;
}

kt_slot *kt_scope_of(kn_scope *p) {
    kt_slot *s = slot_at(p);
    return s && s->kind == KT_SCOPE && is_current(p, s) ? s : NULL;
}

static size_t slab_bytes(void) {
    return (SLAB_SLOTS + 1) * (size_t)KT_ALIGN;
}

void kt_slab_free(kn_context *kn, void *slab) {
    kn_free(kn->alloc, slab, slab_bytes());
}

static bool slab_new(kn_context *kn) {
    if (!KN_GROW(kn->alloc, kn->slabs, kn->slabs_cap, kn->nslabs + 1)) return false;
    void *raw = kn_zalloc(kn->alloc, slab_bytes());
    if (!raw) return false;
    kn->slabs[kn->nslabs++] = raw;
    kt_slot *s              = (kt_slot *)(((uintptr_t)raw + KT_ALIGN - 1) & ~(uintptr_t)(KT_ALIGN - 1));
    for (int i = 0; i < SLAB_SLOTS; i++) {
        kt_slot *at = (kt_slot *)((char *)s + (size_t)i * KT_ALIGN);
        at->kn      = kn;
        if (kn->free_last)
            kn->free_last->next = at;
        else
            kn->free_first = at;
        kn->free_last = at;
    }
    return true;
}

kt_slot *kt_slot_new(kn_context *kn, enum kt_kind kind) {
    if (!kn->free_first && !slab_new(kn)) {
        kt_fail(kn, KN_ERR_MEMORY, "out of memory");
        return NULL;
    }
    kt_slot *s     = kn->free_first;
    kn->free_first = s->next;
    if (!kn->free_first) kn->free_last = NULL;
    uint8_t gen = s->gen;
    memset(s, 0, sizeof *s);
    s->kn   = kn;
    s->kind = (uint8_t)kind;
    s->gen  = gen;
    if (kind == KT_TENSOR) kn->ntensors++;
    return s;
}

void kt_slot_free(kt_slot *s) {
    kn_context *kn = s->kn;
    if (s->kind == KT_TENSOR) kn->ntensors--;
    if (s->kind == KT_SCOPE)
        for (kt_block *b = s->blocks, *next; b; b = next) {
            next = b->next;
            if (b->end) b->end(b->data);
            kn_free(kn->alloc, b, b->size);
        }
    s->kind = KT_FREE;
    s->gen  = (uint8_t)((s->gen + 1) % GENERATIONS);
    s->next = NULL;
    if (kn->free_last)
        kn->free_last->next = s;
    else
        kn->free_first = s;
    kn->free_last = s;
}

void kt_link(kt_slot *scope, kt_slot *t) {
    t->scope = scope;
    t->prev  = NULL;
    t->next  = scope->first;
    if (t->next) t->next->prev = t;
    scope->first = t;
}

void kt_unlink(kt_slot *t) {
    if (t->prev)
        t->prev->next = t->next;
    else
        t->scope->first = t->next;
    if (t->next) t->next->prev = t->prev;
}

void *kt_own(kn_context *kn, size_t size) {
    return kt_own_object(kn, size, NULL);
}

void *kt_own_object(kn_context *kn, size_t size, void (*end)(void *object)) {
    size_t    bytes = sizeof(kt_block) + size;
    kt_block *b     = kn_zalloc(kn->alloc, bytes);
    if (!b) {
        kt_error(kn, KN_ERR_MEMORY, "out of memory");
        return NULL;
    }
    b->size           = bytes;
    b->end            = end;
    b->next           = kn->scope->blocks;
    kn->scope->blocks = b;
    return b->data;
}

/* ---- errors ---------------------------------------------------------------------------------------------------- */

static void record_fault(kn_context *kn, kn_status code, bool sited, const char *fmt, va_list ap) {
    if (kn->fault.code != KN_OK) return;
    kn_vfail(&kn->fault, code, fmt, ap);
    kn->sited = sited;
    snprintf(kn->text, sizeof kn->text, "%s", kn->fault.text);
}

kn_tensor *kt_fail(kn_context *kn, kn_status code, const char *fmt, ...) {
    if (!kn) return NULL;
    va_list ap;
    va_start(ap, fmt);
    record_fault(kn, code, false, fmt, ap);
    va_end(ap);
    return kn->poison ? kt_handle(kn->poison) : NULL;
}

kn_status kt_error(kn_context *kn, kn_status code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (kn) record_fault(kn, code, true, fmt, ap);
    va_end(ap);
    return code;
}

kn_status kt_take_fault(kn_context *kn, kn_fault *f, const char *op) {
    kn_status code = f->code == KN_OK ? KN_ERR_INTERNAL : f->code;
    kt_error(kn, code, "%s: %s", op, f->code == KN_OK ? "failed without a reason; please report it" : f->text);
    f->code    = KN_OK;
    f->text[0] = 0;
    return code;
}

kn_tensor *kn_here(kn_tensor *t, const char *file, int line) {
    kt_slot *s = slot_at(t);
    if (!s) return t;
    kn_context *kn = s->kn;
    if (kn->why) {
        kg_made_at(kn->g, kn->placed, file ? file : "?", line);
        kn->placed = kg_count(kn->g);
    }
    if (s->kind != KT_POISON) return t;
    if (kn->fault.code == KN_OK || kn->sited) return t;
    kn->sited = true;
    snprintf(kn->text, sizeof kn->text, "%s:%d: %s", file ? file : "?", line, kn->fault.text);
    return t;
}

const char *kn_error(kn_context *kn) {
    if (!kn) return "kn_error: the context is NULL";
    return kn->text;
}

kn_status kn_error_code(kn_context *kn) {
    return kn ? kn->fault.code : KN_ERR_ARG;
}

void kn_clear_error(kn_context *kn) {
    if (!kn) return;
    kn->fault.code    = KN_OK;
    kn->fault.text[0] = kn->text[0] = 0;
}

/* ---- operands -------------------------------------------------------------------------------------------------- */

kt_slot *kt_check(kn_context *kn, const char *op, kn_tensor *t) {
    kt_slot *s = slot_at(t);
    if (!s) {
        kt_fail(kn, KN_ERR_ARG, "%s: a tensor is NULL", op);
        return NULL;
    }
    if (!kn) kn = s->kn;
    if (s->kind == KT_POISON) {
        /* The failed call had no site, and this one is not it. */
        if (s->kn->fault.code != KN_OK) s->kn->sited = true;
        kt_fail(kn, KN_ERR_ARG, "%s: an operand is the result of a call that failed", op);
        return NULL;
    }
    if (s->kind != KT_TENSOR || !is_current(t, s)) {
        kt_fail(kn, KN_ERR_STATE, "%s: the scope of a tensor has ended: kn_keep it, or make it outside the scope", op);
        return NULL;
    }
    if (s->kn != kn) {
        kt_fail(kn, KN_ERR_ARG, "%s: tensors of different contexts: read one and kn_from it into the other", op);
        return NULL;
    }
    if (kn->trace && !kt_trace_operand(kn, s)) return NULL;
    return s;
}

bool kt_begin_new(kt_call *c, const char *op, kn_context *kn) {
    *c = (kt_call){kn, kn ? kn->g : NULL, op};
    if (!kn) return false;
    kn_why_call(kn->why, op, false);
    if (kn->rt) return true;
    kt_fail(kn, kn->open_fault.code, "%s", kn->open_fault.text);
    return false;
}

bool kt_begin(kt_call *c, const char *op, kn_tensor *const *in, int n, kn_ref *node) {
    *c = (kt_call){.op = op};
    for (int i = 0; i < n && !c->kn; i++) c->kn = in[i] ? slot_at(in[i])->kn : NULL;
    if (!c->kn) return false;
    c->g = c->kn->g;
    kn_why_call(c->kn->why, op, false);
    for (int i = 0; i < n; i++) {
        kt_slot *s = kt_check(c->kn, op, in[i]);
        if (!s) return false;
        node[i] = kt_node(s);
    }
    return true;
}

kn_tensor *kt_poison(const kt_call *c) {
    return c->kn ? kt_handle(c->kn->poison) : NULL;
}

kn_tensor *kt_wrap(kn_context *kn, kn_ref node, const char *op) {
    kn_fault *f = kg_fault(kn->g);
    if (!node) {
        kn_status code = f->code == KN_OK ? KN_ERR_INTERNAL : f->code;
        kt_fail(kn, code, "%s: %s", op, f->code == KN_OK ? "failed without a reason; please report it" : f->text);
        f->code    = KN_OK;
        f->text[0] = 0;
        return kt_handle(kn->poison);
    }
    kt_slot *s = kt_slot_new(kn, KT_TENSOR);
    if (!s) return kt_handle(kn->poison);
    s->node = node;
    kt_link(kn->scope, s);
    return kt_handle(s);
}

kn_tensor *kt_wrap_created(kn_context *kn, kn_ref node, const char *op) {
    kn_tensor *t = kt_wrap(kn, node, op);
    kt_slot   *s = kt_slot_of(t);
    if (s) s->flags |= KT_OWNABLE;
    return t;
}

/* ---- looking --------------------------------------------------------------------------------------------------- */

int kn_ok(kn_tensor *t) {
    return kt_slot_of(t) != NULL;
}

kn_context *kn_context_of(kn_tensor *t) {
    return t ? slot_at(t)->kn : NULL;
}

int kn_rank(kn_tensor *t) {
    kt_slot *s = kt_slot_of(t);
    return s ? kg_rank(s->kn->g, s->node) : -1;
}

kn_dim kn_size(kn_tensor *t, int axis) {
    kt_call c;
    kn_ref  n;
    if (!kt_begin(&c, "kn_size", &t, 1, &n)) return -1;
    int a = kt_axis(&c, n, axis);
    return a < 0 ? -1 : kt_size_out(c.kn, kg_shape(c.g, n, NULL)[a]);
}

int64_t kn_numel(kn_tensor *t) {
    kt_slot *s = kt_slot_of(t);
    kn_fault f = {0};
    int64_t  dims[KN_MAX_RANK], numel;
    return s && kt_sizes_now(s->kn->g, s->node, dims, &numel, &f) ? numel : -1;
}

kn_dtype kn_dtype_of(kn_tensor *t) {
    kt_slot *s = kt_slot_of(t);
    return s ? (kn_dtype)kg_dtype(s->kn->g, s->node) : KN_VOID;
}

const char *kn_dtype_name(kn_dtype d) {
    return d >= KN_VOID && d < KN_DTYPE_COUNT ? kn_dtypes[d].name : "unknown";
}
