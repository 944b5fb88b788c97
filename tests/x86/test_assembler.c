/* The encoder and the printer against the system's assembler: what is printed assembles to the bytes that were encoded.
 * A pseudo prefix says which of several encodings of one text is meant. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"
#include "check.h"
#include "target/x86/disasm.h"
#include "x86/random_ins.h"

#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 20000, SLOT = 16 };

/* The assembler keeps an address as it is written; the encoder takes a shorter form where there is one. */
static bool rewritten(const kx_ins *ins) {
    if (ins->base == KX_RIP || ins->index == KX_NO_REG || kx_forms[ins->form].flags & (KXF_GATHER | KXF_SCATTER))
        return false;
    if (ins->base == KX_NO_REG) return ins->scale <= 2;
    return ins->scale == 1 && (ins->index == KX_RSP || ((ins->base & 7) == 5 && ins->disp == 0));
}

static const char *pseudo_prefix(const kx_ins *ins, const uint8_t *code) {
    const kx_form *f = &kx_forms[ins->form];
    if (code[0] == 0x62) return f->vex == KXC_NO ? "" : "{evex} ";
    if (f->vex == KXC_AVXVNNI) return "{vex} ";
    if (f->vex == KXC_NO && f->evex == KXC_NO && !strcmp(f->places, "RM")) return "{load} ";
    return "";
}

static bool random_for_assembler(uint64_t *seed, kx_ins *ins) {
    int            form = 1 + rnd_below(seed, KX_NFORMS - 1), size = 0;
    const kx_form *f = &kx_forms[form];
    while (f->sizes && !(f->sizes & (size = 1 << rnd_below(seed, 7)))) {
    }
    bool memory = rnd_below(seed, 2), evex = size == 64 || rnd_below(seed, 2);
    if (!rnd_ins(seed, ins, form, size, memory, evex) || !rnd_legal(ins)) return false;
    if (f->places[0] == 'D') return false; /* a distance prints relative to the next instruction: test_code has jumps */
    if (memory && rnd_below(seed, 2) && !(f->flags & (KXF_GATHER | KXF_SCATTER))) {
        int base = rnd_below(seed, 8) ? ins->base : KX_NO_REG, index = rnd_below(seed, 16);
        *ins = kx_mem_index(*ins, base, index, 1 << rnd_below(seed, 4), 0);
    }
    int32_t disp = 16 * (rnd_below(seed, 2001) - 1000);
    if (!rnd_below(seed, 2)) disp /= 16;
    if (memory && rnd_below(seed, 3)) ins->disp = disp;
    if (f->flags & KXF_MASK && evex) {
        ins->mask = (uint8_t)rnd_below(seed, 8);
        if (f->flags & (KXF_GATHER | KXF_SCATTER) && !ins->mask) ins->mask = 1;
        ins->zero = ins->mask && f->flags & KXF_ZERO && ins->reg[0] != KX_IN_MEM && rnd_below(seed, 2);
        if (memory && f->flags & (KXF_B2 | KXF_B4 | KXF_B8)) ins->broadcast = rnd_below(seed, 2);
    }
    if (memory && (form == KX_VMOVQ_X || form == KX_VMOVQ_ST)) return false; /* two opcodes of one length */
    return !(memory && rewritten(ins));
}

static void same_bytes(void) {
    static uint8_t code[COUNT][KX_MAX_BYTES];
    static int     length[COUNT];
    static kx_ins  made[COUNT];
    char           text[] = "/tmp/koine-asm-XXXXXX", command[400], path[64];
    uint64_t       seed = 3, features = (1ull << KXC_NFEATURES) - 1;
    int            fd = mkstemp(text), n = 0, bad = 0;
    FILE          *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!CHECK(out != NULL)) return;
    fprintf(out, ".intel_syntax noprefix\n.text\n");
    while (n < COUNT) {
        kx_ins *ins = &made[n];
        if (!random_for_assembler(&seed, ins)) continue;
        const char *why = NULL;
        kx_fix      fix;
        length[n] = kx_encode(ins, features, code[n], &fix, &why);
        if (!length[n]) continue; /* rsp as an index */
        kn_str line;
        kn_str_init(&line, NULL);
        kx_print(&line, ins);
        fprintf(out, ".balign %d, 0xf4\n%s%s\n", SLOT, pseudo_prefix(ins, code[n]), kn_str_c(&line));
        kn_str_free(&line);
        n++;
    }
    fprintf(out, ".balign %d, 0xf4\n", SLOT);
    fclose(out);
    snprintf(path, sizeof path, "%s.bin", text);
    snprintf(command, sizeof command, "as --64 -o %s.o %s && objcopy -O binary -j .text %s.o %s", text, text, text,
             path);
    if (CHECK_EQ(system(command), 0)) {
        char    *bin;
        size_t   size;
        kn_fault f = {0};
        if (CHECK(kn_read_file(NULL, path, &bin, &size, &f)) && CHECK_EQ(size, (size_t)COUNT * SLOT))
            for (int i = 0; i < COUNT; i++) {
                const uint8_t *theirs = (const uint8_t *)bin + (size_t)i * SLOT;
                int            len    = SLOT;
                while (len > 0 && theirs[len - 1] == 0xf4) len--;
                /* An immediate may end in the filling byte. */
                if (memcmp(theirs, code[i], (size_t)length[i]) == 0 && len <= length[i]) continue;
                if (bad++ > 30) continue;
                kn_str line;
                kn_str_init(&line, NULL);
                kx_print(&line, &made[i]);
                printf("%s (%s):\n  ours  ", kn_str_c(&line), kx_forms[made[i].form].name);
                for (int b = 0; b < length[i]; b++) printf(" %02x", code[i][b]);
                printf("\n  theirs");
                for (int b = 0; b < len; b++) printf(" %02x", theirs[b]);
                printf("\n");
                kn_str_free(&line);
            }
        kn_free(NULL, bin, size + 1);
        CHECK_EQ(bad, 0);
        printf("%d instructions assembled to the same bytes\n", COUNT - bad);
    }
    snprintf(command, sizeof command, "rm -f %s %s.o %s", text, text, path);
    CHECK_EQ(system(command), 0);
}

int main(void) {
    const char *probe = "echo 'vaddph %zmm0, %zmm1, %zmm2' | as --64 -o /dev/null - 2>/dev/null && "
                        "objcopy --version >/dev/null 2>&1";
    if (system(probe) != 0) SKIP("no assembler here that knows all of the table (binutils 2.38)");
    RUN(same_bytes);
    return check_result();
}
