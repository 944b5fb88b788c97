/* debug.c - what debuggers and profilers are told of code made at run time.
 *
 * GDB's JIT interface (GDB manual, "JIT Compilation Interface") is a list in this process that starts at a global of a
 * given name, and a function of a given name that GDB stops at. They are the only globals here that change: without
 * them there is no such interface. Weak, so that a host that has another code generator links, and shares the list.
 * The object is ELF (System V ABI) with .text where the code is, its symbol, and .eh_frame as DWARF 5, 6.4 has it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "device/native.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* ---- the object ---------------------------------------------------------------------------------------------- */

enum { SECTION_NULL, SECTION_TEXT, SECTION_FRAME, SECTION_SYMBOLS, SECTION_STRINGS, SECTION_NAMES, SECTIONS };
enum { HEADER_SIZE = 64, SECTION_SIZE = 64, SYMBOL_SIZE = 24 };

static void elf_put(kn_str *s, uint64_t v, int bytes) { /* in this machine's order, as ELF of it has */
    uint8_t  b[8];
    uint16_t half = (uint16_t)v;
    uint32_t word = (uint32_t)v;
    memcpy(b, bytes == 2 ? (void *)&half : bytes == 4 ? (void *)&word : (void *)&v, (size_t)(bytes == 1 ? 0 : bytes));
    if (bytes == 1) b[0] = (uint8_t)v;
    kn_str_add(s, (const char *)b, (size_t)bytes);
}
static void elf_align(kn_str *s, size_t to, char fill) {
    while (s->len % to && !s->failed) kn_str_add(s, &fill, 1);
}

static void dwarf_uleb(kn_str *s, uint64_t v) {
    do {
        elf_put(s, (v & 127) | (v > 127) << 7, 1);
        v >>= 7;
    } while (v);
}

/* A record: its length, then what `kind` begins. The length is known at the end. */
static size_t frame_begin(kn_str *s, uint32_t kind) {
    size_t at = s->len;
    elf_put(s, 0, 4);
    elf_put(s, kind, 4);
    return at;
}
static void frame_end(kn_str *s, size_t at) {
    while ((s->len - at - 4) % 8 && !s->failed) elf_put(s, 0, 1); /* DW_CFA_nop */
    uint32_t len = (uint32_t)(s->len - at - 4);
    if (!s->failed) memcpy(s->data + at, &len, 4);
}

static void put_frame(kn_str *s, const kd_code *code) {
    const kd_frame *fr    = code->frame;
    size_t          start = s->len, cie = frame_begin(s, 0);
    elf_put(s, 1, 1); /* version */
    elf_put(s, 0, 1); /* no augmentation: addresses are absolute */
    dwarf_uleb(s, fr->code_factor);
    elf_put(s, (uint8_t)fr->data_factor & 0x7f, 1); /* one byte of SLEB128 */
    elf_put(s, fr->return_reg, 1);
    kn_str_add(s, (const char *)fr->entry, fr->entry_len);
    frame_end(s, cie);
    size_t fde = frame_begin(s, (uint32_t)(s->len + 4 - start)); /* back to the CIE */
    elf_put(s, (uint64_t)(uintptr_t)code->at, 8);
    elf_put(s, code->len, 8);
    kn_str_add(s, (const char *)fr->body, fr->body_len);
    frame_end(s, fde);
    elf_put(s, 0, 4);
}

typedef struct elf_section {
    uint32_t name, type;
    uint64_t flags, address, offset, size;
    uint32_t link, info;
    uint64_t align, entry;
} elf_section;

static uint32_t section_name(kn_str *names, const char *text) {
    uint32_t at = (uint32_t)names->len;
    kn_str_add(names, text, strlen(text) + 1);
    return at;
}

void *kd_debug_object(const kn_alloc *a, const kd_code *code, size_t *size, kn_fault *f) {
    elf_section t[SECTIONS] = {{0}};
    kn_str      s, names;
    kn_str_init(&s, a);
    kn_str_init(&names, a);
    kn_str_add(&names, "", 1);
    for (int i = 0; i < HEADER_SIZE / 8; i++) elf_put(&s, 0, 8);

    const int alloc = 2, exec = 4; /* SHF_ALLOC, SHF_EXECINSTR */
    t[SECTION_TEXT]  = (elf_section){.name    = section_name(&names, ".text"),
                                     .type    = 8, /* SHT_NOBITS */
                                     .flags   = alloc | exec,
                                     .address = (uint64_t)(uintptr_t)code->at,
                                     .offset  = s.len,
                                     .size    = code->len,
                                     .align   = 16};
    t[SECTION_FRAME] = (elf_section){
        .name = section_name(&names, ".eh_frame"), .type = 1, .flags = alloc, .offset = s.len, .align = 8};
    if (code->frame) put_frame(&s, code);
    t[SECTION_FRAME].size = s.len - t[SECTION_FRAME].offset;

    elf_align(&s, 8, 0);
    t[SECTION_SYMBOLS] = (elf_section){.name   = section_name(&names, ".symtab"),
                                       .type   = 2,
                                       .offset = s.len,
                                       .size   = 2 * SYMBOL_SIZE,
                                       .link   = SECTION_STRINGS,
                                       .info   = 1, /* the first global one */
                                       .align  = 8,
                                       .entry  = SYMBOL_SIZE};
    for (int i = 0; i < SYMBOL_SIZE / 8; i++) elf_put(&s, 0, 8);
    elf_put(&s, 1, 4);
    elf_put(&s, 1 << 4 | 2, 1); /* global function */
    elf_put(&s, 0, 1);
    elf_put(&s, SECTION_TEXT, 2);
    elf_put(&s, 0, 8); /* relative to the section */
    elf_put(&s, code->len, 8);

    t[SECTION_STRINGS] = (elf_section){.name = section_name(&names, ".strtab"), .type = 3, .offset = s.len, .align = 1};
    kn_str_add(&s, "", 1);
    kn_str_add(&s, code->name, strlen(code->name) + 1);
    t[SECTION_STRINGS].size = s.len - t[SECTION_STRINGS].offset;
    t[SECTION_NAMES] = (elf_section){.name = section_name(&names, ".shstrtab"), .type = 3, .offset = s.len, .align = 1};
    t[SECTION_NAMES].size = names.len;
    if (!names.failed) kn_str_add(&s, names.data, names.len);
    elf_align(&s, 8, 0);

    size_t table = s.len;
    for (int i = 0; i < SECTIONS; i++) {
        elf_put(&s, t[i].name, 4);
        elf_put(&s, t[i].type, 4);
        elf_put(&s, t[i].flags, 8);
        elf_put(&s, t[i].address, 8);
        elf_put(&s, t[i].offset, 8);
        elf_put(&s, t[i].size, 8);
        elf_put(&s, t[i].link, 4);
        elf_put(&s, t[i].info, 4);
        elf_put(&s, t[i].align, 8);
        elf_put(&s, t[i].entry, 8);
    }
    bool failed = s.failed || names.failed;
    kn_str_free(&names);
    size_t end = s.len;
    kn_str h;
    kn_str_init(&h, a);
    const uint16_t one   = 1;
    const bool     small = *(const uint8_t *)&one == 1; /* little endian */
    elf_put(&h, small ? 0x464c457f : 0x7f454c46, 4);
    elf_put(&h, 2, 1); /* 64 bits */
    elf_put(&h, small ? 1 : 2, 1);
    elf_put(&h, 1, 1);
    for (int i = 0; i < 9; i++) elf_put(&h, 0, 1);
    elf_put(&h, 1, 2); /* ET_REL: symbols are relative to their sections */
    elf_put(&h, code->frame ? code->frame->machine : 0, 2);
    elf_put(&h, 1, 4);
    elf_put(&h, 0, 8);
    elf_put(&h, 0, 8);
    elf_put(&h, table, 8);
    elf_put(&h, 0, 4);
    elf_put(&h, HEADER_SIZE, 2);
    elf_put(&h, 0, 2);
    elf_put(&h, 0, 2);
    elf_put(&h, SECTION_SIZE, 2);
    elf_put(&h, SECTIONS, 2);
    elf_put(&h, SECTION_NAMES, 2);
    failed |= h.failed;
    void *out = failed ? NULL : kn_realloc(a, NULL, 0, end);
    if (out) {
        memcpy(out, s.data, end);
        memcpy(out, h.data, HEADER_SIZE);
        *size = end;
    } else {
        kn_oom(f);
    }
    kn_str_free(&h);
    kn_str_free(&s);
    return out;
}

/* ---- GDB ------------------------------------------------------------------------------------------------------ */

struct kd_debug_entry { /* the first four are GDB's struct jit_code_entry */
    struct kd_debug_entry *next, *prev;
    const void            *object;
    uint64_t               object_size;
};

typedef struct kd_debug_list {       /* struct jit_descriptor */
    uint32_t        version, action; /* action: 0 nothing, 1 registered, 2 unregistered */
    kd_debug_entry *relevant, *first;
} kd_debug_list;

extern kd_debug_list                 __jit_debug_descriptor;
extern void                          __jit_debug_register_code(void);
__attribute__((weak)) kd_debug_list  __jit_debug_descriptor = {1, 0, NULL, NULL};
__attribute__((weak, noinline)) void __jit_debug_register_code(void) { /* GDB has a breakpoint here */
    __asm__ volatile("" ::: "memory");
}
static atomic_flag kd_jit_lock = ATOMIC_FLAG_INIT; /* contexts of several threads share the list */

static void debug_tell(kd_debug_entry *e, uint32_t action) {
    while (atomic_flag_test_and_set_explicit(&kd_jit_lock, memory_order_acquire)) {
    }
    kd_debug_list *list = &__jit_debug_descriptor;
    if (action == 1) {
        e->next = list->first;
        if (e->next) e->next->prev = e;
        list->first = e;
    } else {
        if (e->prev)
            e->prev->next = e->next;
        else
            list->first = e->next;
        if (e->next) e->next->prev = e->prev;
    }
    list->relevant = e;
    list->action   = action;
    __jit_debug_register_code();
    list->relevant = NULL;
    list->action   = 0;
    atomic_flag_clear_explicit(&kd_jit_lock, memory_order_release);
}

kd_debug_entry *kd_debug_announce(const kn_alloc *a, const kd_code *code, kn_fault *f) {
    size_t          size;
    void           *object = kd_debug_object(a, code, &size, f);
    kd_debug_entry *e      = object ? kn_zalloc(a, sizeof *e) : NULL;
    if (!e) {
        if (object) kn_free(a, object, size);
        return kn_oom(f), NULL;
    }
    e->object      = object;
    e->object_size = size;
    debug_tell(e, 1);
    return e;
}

void kd_debug_withdraw(const kn_alloc *a, kd_debug_entry *e) {
    if (!e) return;
    debug_tell(e, 2);
    kn_free(a, (void *)(uintptr_t)e->object, (size_t)e->object_size);
    kn_free(a, e, sizeof *e);
}

/* ---- perf ----------------------------------------------------------------------------------------------------- */

bool kd_debug_perf_map(const kd_code *code, int count, kn_fault *f) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return kn_fail(f, KN_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    bool ok = true;
    for (int i = 0; i < count && ok; i++) {
        char line[256];
        int  len =
            snprintf(line, sizeof line, "%" PRIxPTR " %zx %.180s\n", (uintptr_t)code[i].at, code[i].len, code[i].name);
        ok = write(fd, line, (size_t)len) == len;
    }
    int reason = errno;
    close(fd);
    return ok ? true : kn_fail(f, KN_ERR_IO, "%s: cannot be written: %s", path, strerror(reason));
}
