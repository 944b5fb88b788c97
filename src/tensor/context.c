/* context.c - opening and closing, configuration, counters.
 *
 * Contract: kn_open probes nothing and starts nothing; what cannot work (an unknown device) is an error value on the
 * context, and every call that would need it fails with the same words. */
#include "target/target.h"
#include "tensor/tensor.h"

#include "base/machine.h"

#include <stdlib.h>
#include <string.h>

#define CONTEXT_TEXT_(x) #x
#define CONTEXT_TEXT(x) CONTEXT_TEXT_(x)

static const char *const device_names[] = {"CPU", "INTERP", "NULL", "DISK", NULL};

const char *const *kn_devices(void) {
    return device_names;
}

int kn_version(void) {
    return KN_VERSION_MAJOR * 10000 + KN_VERSION_MINOR * 100 + KN_VERSION_PATCH;
}

const char *kn_version_text(void) {
    return CONTEXT_TEXT(KN_VERSION_MAJOR) "." CONTEXT_TEXT(KN_VERSION_MINOR) "." CONTEXT_TEXT(KN_VERSION_PATCH);
}

const char *kn_status_name(kn_status s) {
    static const char *const names[] = {
        "KN_OK",        "KN_ERR_ARG",         "KN_ERR_SHAPE",    "KN_ERR_DTYPE",   "KN_ERR_DEVICE",
        "KN_ERR_IO",    "KN_ERR_FORMAT",      "KN_ERR_MEMORY",   "KN_ERR_COMPILE", "KN_ERR_CANCELLED",
        "KN_ERR_STATE", "KN_ERR_UNSUPPORTED", "KN_ERR_INTERNAL",
    };
    return (unsigned)s < (unsigned)KN_COUNT(names) ? names[s] : "unknown status";
}

/* A private copy of a config string; NULL stays NULL. */
static bool keep_text(kn_context *kn, const char **text) {
    if (!*text) return true;
    *text = kn_arena_copy(&kn->arena, *text, strlen(*text) + 1);
    return *text != NULL;
}

static bool known_machine(const char *name) {
    bool known = !name;
    for (int i = 0; kn_machine_names[i] && !known; i++) known = !strcmp(name, kn_machine_names[i]);
    return known;
}

static bool check_names(const kn_config *cfg, kn_fault *f) {
    const char *dev   = cfg->device ? cfg->device : "CPU";
    bool        found = false;
    if (!strncmp(dev, "DISK", 4))
        return kn_fail(f, KN_ERR_DEVICE, "kn_open: %s holds tensors and computes nothing: kn_map maps files", dev);
    for (int i = 0; device_names[i]; i++) found |= !strcmp(dev, device_names[i]);
    if (!found) return kn_fail(f, KN_ERR_DEVICE, "kn_open: no device \"%s\": this build has CPU, INTERP and NULL", dev);
    kt_choice target;
    kn_fault  why = {0};
    if (!kt_find(cfg->target, &target, &why) || (!strcmp(dev, "CPU") && !kt_runs(&target, &why)))
        return kn_fail(f, why.code, "kn_open: %s", why.text);
    if (!known_machine(cfg->machine))
        return kn_fail(f, KN_ERR_ARG, "kn_open: no machine \"%s\": there are host, avx512, avx2, sse2 and neon",
                       cfg->machine);
    if (cfg->threads < 0) return kn_fail(f, KN_ERR_ARG, "kn_open: %d threads: 0 chooses", cfg->threads);
    return true;
}

kn_runtime *kn_runtime_new(const kn_config *user) {
    kn_config cfg = {.size = sizeof cfg};
    kn_fault  f   = {0};
    if (user) cfg = *user;
    if (cfg.size != sizeof cfg || cfg.threads < 0 || !known_machine(cfg.machine)) return NULL;
    kn_alloc a = {cfg.alloc, cfg.alloc_user};
    return kr_shared_new(cfg.alloc ? &a : NULL, &cfg, &f);
}

void kn_runtime_close(kn_runtime *rt) {
    kr_shared_drop(rt);
}

/* KOINE_DUMP=STAGE+why[:FILE] asks for provenance from outside. */
static bool dump_says_why(void) {
    const char *want = getenv("KOINE_DUMP");
    size_t      n    = want ? strcspn(want, ":") : 0;
    return n > 4 && !memcmp(want + n - 4, "+why", 4);
}

kn_context *kn_open(const kn_config *user) {
    kn_config cfg = {.size = sizeof cfg};
    if (user) {
        if (user->size != sizeof cfg) return NULL;
        cfg = *user;
    }
    if (!cfg.target && getenv("KOINE_TARGET") && *getenv("KOINE_TARGET")) cfg.target = getenv("KOINE_TARGET");
    kn_alloc    a  = {cfg.alloc, cfg.alloc_user};
    kn_context *kn = kn_zalloc(cfg.alloc ? &a : NULL, sizeof *kn);
    if (!kn) return NULL;
    kn->own   = a;
    kn->alloc = cfg.alloc ? &kn->own : NULL;
    kn->seed  = cfg.seed;
    kn_arena_init(&kn->arena, kn->alloc);
    bool ok = keep_text(kn, &cfg.device) && keep_text(kn, &cfg.target) && keep_text(kn, &cfg.machine) &&
              keep_text(kn, &cfg.cache_dir) && keep_text(kn, &cfg.cc);
    ok = ok && (!(cfg.provenance || dump_says_why()) || (kn->why = kn_why_new(kn->alloc, true)));
    ok = ok && (kn->g = kg_new(kn->alloc)) && (kn->poison = kt_slot_new(kn, KT_POISON)) &&
         (kn->root = kt_slot_new(kn, KT_SCOPE));
    if (ok) kg_keep_why(kn->g, kn->why);
    if (ok && check_names(&cfg, &kn->open_fault)) {
        kn->rt = kr_new(kn->alloc, &cfg, &kn->open_fault);
        ok     = kn->rt || kn->open_fault.code != KN_ERR_MEMORY;
    }
    if (!ok) {
        kn_close(kn);
        return NULL;
    }
    kn->scope = kn->root;
    if (!kn->rt) kt_error(kn, kn->open_fault.code, "%s", kn->open_fault.text);
    return kn;
}

void kn_close(kn_context *kn) {
    if (!kn) return;
    while (kn->scope) { /* what scopes and objects own; the slots go with their slabs */
        kt_slot *parent = kn->scope->scope;
        kt_slot_free(kn->scope);
        kn->scope = parent;
    }
    if (kn->rt) kr_free(kn->rt);
    if (kn->g) kg_free(kn->g);
    kn_why_free(kn->why);
    kg_free(kn->sizes);
    kn_free(kn->alloc, kn->symbol, kn->symbol_cap * sizeof *kn->symbol);
    for (size_t i = 0; i < kn->nslabs; i++) kt_slab_free(kn, kn->slabs[i]);
    kn_free(kn->alloc, kn->slabs, kn->slabs_cap * sizeof *kn->slabs);
    kn_free(kn->alloc, kn->realized, kn->realized_cap * sizeof *kn->realized);
    kn_free(kn->alloc, kn->known, kn->known_cap * sizeof *kn->known);
    kn_free(kn->alloc, kn->pending, kn->pending_cap * sizeof *kn->pending);
    kn_arena_free(&kn->arena);
    kn_alloc own = kn->own;
    kn_free(own.resize ? &own : NULL, kn, sizeof *kn);
}

kn_status kn_get_stats(kn_context *kn, kn_stats *out) {
    if (!kn || !out) return kt_error(kn, KN_ERR_ARG, "kn_get_stats: a NULL argument");
    if (out->size != sizeof *out) return kt_error(kn, KN_ERR_ARG, "kn_get_stats: set .size to sizeof(kn_stats)");
    *out = (kn_stats){.size = sizeof *out};
    if (kn->rt) kr_stats(kn->rt, out);
    out->size = sizeof *out;
    return KN_OK;
}

kn_status kn_set_opts(kn_context *kn, const char *kernel, const char *opts) {
    kt_call  c;
    kn_fault f = {0};
    if (!kn) return KN_ERR_ARG;
    if (!kernel) return kt_error(kn, KN_ERR_ARG, "kn_set_opts: the kernel's name is NULL");
    if (!kt_begin_new(&c, "kn_set_opts", kn)) return kn->fault.code;
    return kr_set_opts(kn->rt, kernel, opts, &f) ? KN_OK : kt_take_fault(kn, &f, "kn_set_opts");
}

void kn_cancel(kn_context *kn) {
    if (kn && kn->rt) kr_cancel(kn->rt);
}

#undef CONTEXT_TEXT
#undef CONTEXT_TEXT_
