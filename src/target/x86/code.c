/* code.c - instructions appended to a buffer; labels, constants and alignment resolved. Contract: code.h. */
#include "target/x86/code.h"

#include <string.h>

struct kx_open { /* 32 bits at `at` become label - end, plus what stands there */
    size_t  at, end;
    int32_t label;
};
struct kx_const {
    int32_t label;
    size_t  at, size;
};

void kx_code_init(kx_code *c, const kn_alloc *a, uint64_t features, kn_fault *f) {
    *c = (kx_code){.alloc = a, .fault = f, .features = features, .alignment = 1};
}

void kx_code_free(kx_code *c) {
    kn_free(c->alloc, c->bytes, c->cap);
    kn_free(c->alloc, c->label, c->label_cap * sizeof *c->label);
    kn_free(c->alloc, c->open, c->open_cap * sizeof *c->open);
    kn_free(c->alloc, c->pool, c->pool_cap);
    kn_free(c->alloc, c->constant, c->constant_cap * sizeof *c->constant);
    kx_code_init(c, c->alloc, c->features, c->fault);
}

static bool code_oom(kx_code *c) {
    c->failed = true;
    return kn_oom(c->fault);
}
static bool code_fail(kx_code *c, const char *form, const char *why) {
    c->failed = true;
    return kn_fail(c->fault, KN_ERR_INTERNAL, "x86: %s: %s: report this", form, why);
}

static bool code_append(kx_code *c, const void *data, size_t size) {
    if (!size) return true;
    if (!KN_GROW(c->alloc, c->bytes, c->cap, c->len + size)) return code_oom(c);
    memcpy(c->bytes + c->len, data, size);
    c->len += size;
    return true;
}

/* ---- labels -------------------------------------------------------------------------------------------------- */

int32_t kx_label(kx_code *c) {
    if (c->failed) return 0;
    if (c->nlabel >= INT32_MAX - 1) return code_fail(c, "label", "too many");
    if (!KN_GROW(c->alloc, c->label, c->label_cap, c->nlabel + 1)) return code_oom(c);
    c->label[c->nlabel++] = 0;
    return (int32_t)c->nlabel;
}

static bool label_known(kx_code *c, int32_t label) {
    if (label >= 1 && (size_t)label <= c->nlabel) return true;
    return code_fail(c, "label", "it does not exist");
}

static bool bind_label(kx_code *c, int32_t label, size_t place) {
    if (c->failed || !label_known(c, label)) return false;
    if (c->label[label - 1]) return code_fail(c, "label", "bound twice");
    c->label[label - 1] = place + 1;
    return true;
}

bool kx_bind(kx_code *c, int32_t label) {
    return bind_label(c, label, c->len);
}

/* ---- instructions -------------------------------------------------------------------------------------------- */

bool kx_emit(kx_code *c, const kx_ins *in) {
    if (c->failed) return false;
    kx_ins ins = *in;
    if (ins.label && !label_known(c, ins.label)) return false;
    if (ins.label && ins.base != KX_RIP && c->label[ins.label - 1]) { /* a jump back: two bytes if it is near */
        int64_t distance = (int64_t)c->label[ins.label - 1] - 1 - (int64_t)(c->len + 2);
        if (distance >= -128 && ins.form < KX_NFORMS && kx_forms[ins.form].flags & KXF_SHORT) {
            ins.label = 0;
            ins.imm   = distance;
        }
    }
    uint8_t     out[KX_MAX_BYTES];
    kx_fix      fix;
    const char *why = NULL;
    int         len = kx_encode(&ins, c->features, out, &fix, &why);
    if (!len) return code_fail(c, ins.form < KX_NFORMS ? kx_forms[ins.form].name : "form", why);
    if (fix.at) {
        if (!KN_GROW(c->alloc, c->open, c->open_cap, c->nopen + 1)) return code_oom(c);
        c->open[c->nopen++] = (struct kx_open){c->len + fix.at, c->len + fix.size, ins.label};
    }
    c->count++;
    return code_append(c, out, (size_t)len);
}

bool kx_emit_jump(kx_code *c, int32_t label) {
    kx_ins ins = kx_i(KX_JMP, 0);
    ins.label  = label;
    return kx_emit(c, &ins);
}

bool kx_emit_jcc(kx_code *c, kx_cond cond, int32_t label) {
    kx_ins ins = kx_i(KX_JCC, 0);
    ins.cond   = (uint8_t)cond;
    ins.label  = label;
    return kx_emit(c, &ins);
}

bool kx_align(kx_code *c, uint32_t to) {
    /* The forms the manuals of Intel (NOP) and AMD recommend, by length. */
    static const uint8_t nop[9][9] = {
        {0x90},
        {0x66, 0x90},
        {0x0f, 0x1f, 0x00},
        {0x0f, 0x1f, 0x40, 0x00},
        {0x0f, 0x1f, 0x44, 0x00, 0x00},
        {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
        {0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
        {0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
        {0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
    };
    if (c->failed) return false;
    if (!to || to & (to - 1) || to > 64) return code_fail(c, "align", "not a power of two up to 64");
    c->alignment = KN_MAX(c->alignment, to);
    for (size_t gap = (0 - c->len) & (to - 1); gap;) {
        size_t n = KN_MIN(gap, 9);
        if (!code_append(c, nop[n - 1], n)) return false;
        gap -= n;
    }
    return true;
}

/* ---- constants ----------------------------------------------------------------------------------------------- */

int32_t kx_constant(kx_code *c, const void *data, size_t size) {
    if (c->failed) return 0;
    if (!size || size & (size - 1) || size > 64)
        return code_fail(c, "constant", "its size is no power of two up to 64");
    for (size_t i = 0; i < c->nconstant; i++)
        if (c->constant[i].size == size && memcmp(c->pool + c->constant[i].at, data, size) == 0)
            return c->constant[i].label;
    size_t at = (c->pool_len + size - 1) & ~(size - 1);
    if (!KN_GROW(c->alloc, c->pool, c->pool_cap, at + size) ||
        !KN_GROW(c->alloc, c->constant, c->constant_cap, c->nconstant + 1))
        return code_oom(c);
    int32_t label = kx_label(c);
    if (!label) return 0;
    memset(c->pool + c->pool_len, 0, at - c->pool_len);
    memcpy(c->pool + at, data, size);
    c->pool_len                 = at + size;
    c->alignment                = KN_MAX(c->alignment, (uint32_t)size);
    c->constant[c->nconstant++] = (struct kx_const){label, at, size};
    return label;
}

static bool put_constants(kx_code *c) {
    if (!c->nconstant) return true;
    static const uint8_t trap[64] = {0}; /* between code and data; never run */
    size_t               largest  = 1;
    for (size_t i = 0; i < c->nconstant; i++) largest = KN_MAX(largest, c->constant[i].size);
    if (!code_append(c, trap, (0 - c->len) & (largest - 1))) return false;
    for (size_t i = 0; i < c->nconstant; i++)
        if (!bind_label(c, c->constant[i].label, c->len + c->constant[i].at)) return false;
    return code_append(c, c->pool, c->pool_len);
}

bool kx_code_end(kx_code *c) {
    if (c->failed) return false;
    c->text_len = c->len;
    if (!put_constants(c)) return false;
    for (size_t i = 0; i < c->nopen; i++) {
        const struct kx_open *o     = &c->open[i];
        uint64_t              place = c->label[o->label - 1];
        if (!place) return code_fail(c, "label", "never bound");
        int32_t had;
        memcpy(&had, c->bytes + o->at, 4);
        int64_t distance = (int64_t)place - 1 - (int64_t)o->end + had;
        if (distance < INT32_MIN || distance > INT32_MAX) return code_fail(c, "label", "too far away");
        for (int k = 0; k < 4; k++) c->bytes[o->at + (size_t)k] = (uint8_t)((uint64_t)distance >> 8 * k & 0xff);
    }
    c->nopen = 0;
    return true;
}
