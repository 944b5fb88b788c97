/* target.c - the targets of this build, by name. */
#include "target/target.h"

#include <string.h>

const kt_target *kt_of(const kt_choice *c) {
    return c->target ? c->target : &kt_c;
}

bool kt_find(const char *name, kt_choice *out, kn_fault *f) {
    *out = (kt_choice){.target = &kt_c};
#if KN_TARGET_X86
    if (!name) name = kt_x86_runs() ? "x86" : "c";
#endif
    if (!name || !strcmp(name, "c")) return true;
#if KN_TARGET_X86
    if (!strncmp(name, "x86", 3) && (!name[3] || name[3] == ':')) {
        out->target = &kt_x86;
        return kt_x86_options(name + 3, out, f);
    }
    return kn_fail(f, KN_ERR_DEVICE, "no target \"%s\": this build has c and x86", name);
#else
    return kn_fail(f, KN_ERR_DEVICE, "no target \"%s\": this build has c", name);
#endif
}
