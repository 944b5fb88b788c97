/* x86.c - the target x86-64: its options and its hooks. */
#include "target/x86/x86.h"

#include "rules_gen.h"
#include "target/x86/cpu.h"

#include <stdlib.h>
#include <string.h>

#if KN_TARGET_X86

#define KX_GROUPS (KN_G_decomp | KN_G_decomp_random | KN_G_select_x86)

static bool kt_x86_runs(const kt_choice *c, kn_fault *f) {
    uint64_t lacks = (c->level == KX_AVX512 ? KX_LEVEL_AVX512 : KX_LEVEL_AVX2) & ~kx_cpu_features();
    kn_str   names;
    if (!lacks) return true;
    kn_str_init(&names, NULL);
    kx_features_text(&names, lacks);
    kn_fail(f, KN_ERR_DEVICE, "target x86: this CPU has no %s: %s", kn_str_c(&names),
            c->level == KX_AVX512 ? "x86:avx2 may run" : "the target c runs everywhere");
    kn_str_free(&names);
    return false;
}

static void kt_x86_fit(const kt_choice *c, kn_machine *m) {
    const kn_machine *half = kn_machine_named("avx2");
    m->masks = m->turns = m->beside = c->level != KX_SCALAR;
    if (c->level == KX_AVX512 || m->vector_bytes <= half->vector_bytes) return;
    m->vector_bytes     = half->vector_bytes;
    m->vector_registers = half->vector_registers;
    m->mask_registers   = half->mask_registers;
    m->alu_per_cycle    = half->alu_per_cycle;
    m->fma_per_cycle    = half->fma_per_cycle;
    m->whole            = false; /* no register has 64 bytes */
}

static bool kt_x86_cut(kn_graph *g, kn_ref *root, const kt_choice *c, kn_fault *f) {
    int bytes = c->level == KX_AVX512 ? 64 : c->level == KX_AVX2 ? 32 : 0;
    return kx_cut_kernel(g, root, c->whole, bytes, f);
}

static bool kt_x86_render(const kn_graph *g, kn_ref linear, const char *symbol, const kt_choice *c, kt_output *out,
                          kn_fault *f) {
    return kx_render(g, linear, symbol, c, out, f);
}

const kt_target kt_x86 = {.name    = "x86",
                          .machine = true,
                          .groups  = {[KX_SCALAR] = KX_GROUPS,
                                      [KX_AVX2]   = KX_GROUPS | KN_G_select_x86_lanes | KN_G_select_x86_avx2,
                                      [KX_AVX512] = KX_GROUPS | KN_G_select_x86_lanes | KN_G_select_x86_avx512},
                          .runs    = kt_x86_runs,
                          .fit     = kt_x86_fit,
                          .cut     = kt_x86_cut,
                          .render  = kt_x86_render};

#undef KX_GROUPS

bool kt_x86_options(const char *text, kt_choice *c, kn_fault *f) {
    static const struct {
        const char *name;
        int         level;
    } levels[] = {{":scalar", KX_SCALAR}, {":avx2", KX_AVX2}, {":avx512", KX_AVX512}};
    while (*text) {
        size_t n = 0;
        for (int k = 0; k < KN_COUNT(levels) && !n; k++) {
            size_t len = strlen(levels[k].name);
            if (strncmp(text, levels[k].name, len) || (text[len] && text[len] != ':')) continue;
            c->level = levels[k].level;
            n        = len;
        }
        if (!n && !strncmp(text, ":regs=", 6)) {
            char *end;
            c->regs = (int)strtol(text + 6, &end, 10);
            if (c->regs >= 4 && c->regs <= 32 && (!*end || *end == ':')) n = (size_t)(end - text);
        }
        if (!n)
            return kn_fail(f, KN_ERR_ARG, "target x86%s: options are :avx2, :avx512, :scalar and :regs=4 to 32", text);
        text += n;
    }
    if (!c->level) c->level = (kx_cpu_features() & KX_LEVEL_AVX512) == KX_LEVEL_AVX512 ? KX_AVX512 : KX_AVX2;
    return true;
}

#endif
