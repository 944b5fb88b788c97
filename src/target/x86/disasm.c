/* disasm.c - prints instructions. Contract: disasm.h. */
#include "target/x86/disasm.h"

#include <inttypes.h>

const char *kx_reg_name(char name[16], kx_class cls, int bytes, int reg) {
    static const char low[8][4]  = {"ax", "cx", "dx", "bx", "sp", "bp", "si", "di"};
    static const char byte[8][4] = {"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil"};
    int               count      = cls == KX_MASK ? 8 : cls == KX_VEC ? 32 : cls == KX_GP ? 16 : 0;
    if (reg < 0 || reg >= count)
        snprintf(name, 16, "?");
    else if (cls == KX_MASK)
        snprintf(name, 16, "k%d", reg);
    else if (cls == KX_VEC)
        snprintf(name, 16, "%cmm%d", bytes == 64 ? 'z' : bytes == 32 ? 'y' : 'x', reg);
    else if (reg >= 8)
        snprintf(name, 16, "r%d%s", reg, bytes == 1 ? "b" : bytes == 2 ? "w" : bytes == 4 ? "d" : "");
    else if (bytes == 1)
        snprintf(name, 16, "%s", byte[reg]);
    else
        snprintf(name, 16, "%s%s", bytes == 2 ? "" : bytes == 4 ? "e" : "r", low[reg]);
    return name;
}

static void print_number(kn_str *out, int64_t v) {
    if (v > -10 && v < 10)
        kn_str_putf(out, "%d", (int)v);
    else
        kn_str_putf(out, "%s0x%" PRIx64, v < 0 ? "-" : "", v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

static void print_memory(kn_str *out, const kx_ins *ins, const kx_kind *k) {
    static const struct {
        int         bytes;
        const char *text;
    } width[]        = {{1, "byte"},     {2, "word"},     {4, "dword"},   {8, "qword"},
                        {16, "xmmword"}, {32, "ymmword"}, {64, "zmmword"}};
    uint32_t flags   = kx_forms[ins->form].flags;
    int      whole   = kx_mem_bytes(k, ins->size);
    int      element = flags & KXF_B2 ? 2 : flags & KXF_B4 ? 4 : 8;
    int      bytes   = ins->broadcast ? element : whole;
    char     name[16];
    for (int i = 0; i < KN_COUNT(width); i++)
        if (width[i].bytes == bytes) kn_str_putf(out, "%s ptr ", width[i].text);
    kn_str_puts(out, "[");
    bool some = true;
    if (ins->base == KX_RIP)
        kn_str_puts(out, "rip");
    else if (ins->base != KX_NO_REG)
        kn_str_puts(out, kx_reg_name(name, KX_GP, 8, ins->base));
    else
        some = false;
    if (ins->index != KX_NO_REG && ins->base != KX_RIP) {
        bool vector = k->cls == KX_VSIB;
        kx_reg_name(name, vector ? KX_VEC : KX_GP, vector ? kx_reg_bytes(k, ins->size) : 8, ins->index);
        kn_str_putf(out, "%s%s*%d", some ? " + " : "", name, ins->scale);
        some = true;
    }
    if (ins->label) kn_str_putf(out, " + .L%d", (int)ins->label);
    if (!some) {
        print_number(out, ins->disp);
    } else if (ins->disp) {
        kn_str_puts(out, ins->disp < 0 ? " - " : " + ");
        print_number(out, ins->disp < 0 ? -(int64_t)ins->disp : ins->disp);
    }
    kn_str_puts(out, "]");
    if (ins->broadcast) kn_str_putf(out, "{1to%d}", whole / element);
}

static void print_mask(kn_str *out, const kx_ins *ins) {
    if (ins->mask) kn_str_putf(out, "{k%d}%s", ins->mask, ins->zero ? "{z}" : "");
}

void kx_print(kn_str *out, const kx_ins *ins) {
    if (ins->form == KX_NOTHING || ins->form >= KX_NFORMS) {
        kn_str_puts(out, "?");
        return;
    }
    const kx_form *f = &kx_forms[ins->form];
    kn_str_puts(out, f->mnemonic);
    if (f->flags & KXF_CC) kn_str_puts(out, ins->cond < KX_NCONDS ? kx_cond_text[ins->cond] : "?");
    int shown = 0;
    for (int i = 0; i < f->count; i++) {
        const kx_kind *k = KX_KIND_OF(f, i);
        if (k->cls == KX_FIXED && k->reg != 1) continue; /* rax and rdx are not written, cl is */
        kn_str_puts(out, shown++ ? ", " : " ");
        char name[16];
        if (k->cls == KX_IMM)
            print_number(out, ins->imm);
        else if (k->cls == KX_REL && ins->label)
            kn_str_putf(out, ".L%d", (int)ins->label);
        else if (k->cls == KX_REL)
            kn_str_putf(out, "%+" PRId64, ins->imm);
        else if (k->cls == KX_FIXED)
            kn_str_puts(out, "cl");
        else if (ins->reg[i] == KX_IN_MEM)
            print_memory(out, ins, k);
        else
            kn_str_puts(out, kx_reg_name(name, (kx_class)k->cls, kx_reg_bytes(k, ins->size), ins->reg[i]));
        if (i == 0) print_mask(out, ins);
    }
}
