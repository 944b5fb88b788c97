/* shared.c - what contexts share: its life, the compiler, the threads.
 *
 * Contract: a kn_runtime lives as long as who made it and the contexts that use it. Every function here may be called
 * from several threads at once. */
#include "runtime/inside.h"
#include "target/target.h"

#include <stdlib.h>
#include <string.h>

kn_runtime *kr_shared_new(const kn_alloc *a, const kn_config *cfg, kn_fault *f) {
    kn_runtime *s = kn_zalloc(a, sizeof *s);
    if (!s) return kn_oom(f), NULL;
    if (a) s->alloc = *a, s->a = &s->alloc;
    kn_str_init(&s->cache_dir, s->a);
    kn_str_init(&s->cc_name, s->a);
    kn_str_puts(&s->cache_dir, cfg->cache_dir ? cfg->cache_dir : "");
    kn_str_puts(&s->cc_name, cfg->cc ? cfg->cc : "");
    s->threads = cfg->threads;
    if (cfg->machine && kn_machine_named(cfg->machine)) s->machine = *kn_machine_named(cfg->machine);
    atomic_init(&s->users, 1);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->running, NULL);
    pthread_cond_init(&s->settled, NULL);
    if (!s->cache_dir.failed && !s->cc_name.failed) return s;
    kr_shared_drop(s);
    return kn_oom(f), NULL;
}

kn_runtime *kr_shared_take(kn_runtime *s) {
    atomic_fetch_add(&s->users, 1);
    return s;
}

void kr_shared_drop(kn_runtime *s) {
    if (!s || atomic_fetch_sub(&s->users, 1) != 1) return;
    kn_alloc        own = s->alloc;
    const kn_alloc *a   = s->a ? &own : NULL;
    kn_pool_free(s->pool);
    for (size_t i = 0; i < s->nschedule; i++) kr_schedule_free(s, s->schedule[i]);
    kn_free(s->a, s->schedule, s->schedule_cap * sizeof *s->schedule);
    kd_cc_free(s->cc);
    kd_native_free(s->native);
    kn_str_free(&s->cache_dir);
    kn_str_free(&s->cc_name);
    pthread_cond_destroy(&s->settled);
    pthread_mutex_destroy(&s->running);
    pthread_mutex_destroy(&s->lock);
    kn_free(a, s, sizeof *s);
}

const kn_machine *kr_machine(kn_runtime *s) {
    pthread_mutex_lock(&s->lock);
    if (!*s->machine.name) kn_machine_host(&s->machine);
    pthread_mutex_unlock(&s->lock);
    return &s->machine;
}

kd_cc *kr_compiler(kn_runtime *s, kn_fault *f) {
    pthread_mutex_lock(&s->lock);
    if (!s->cc) {
        kn_str pre;
        kn_str_init(&pre, s->a);
        kt_c_preamble(&pre);
        if (!pre.failed)
            s->cc = kd_cc_new(s->a, s->cc_name.len ? kn_str_c(&s->cc_name) : NULL,
                              s->cache_dir.len ? kn_str_c(&s->cache_dir) : NULL, kn_str_c(&pre), f);
        else
            kn_oom(f);
        kn_str_free(&pre);
    }
    kd_cc *cc = s->cc;
    pthread_mutex_unlock(&s->lock);
    return cc;
}

bool kr_load_code(kn_runtime *s, kl_program *p, void (*warn)(void *user, const char *line), void *user, kn_fault *f) {
    kd_native_options o;
    kd_code          *code = kn_zalloc(p->alloc, p->nkernel * sizeof *code);
    int               n = 0, at = 0;
    if (!code) return kn_oom(f);
    for (size_t i = 0; i < p->nkernel; i++) {
        kl_kernel *k = &p->kernel[i];
        if (k->custom) continue;
        k->frame.body = k->unwind;
        code[n++]     = (kd_code){.name  = k->name,
                                  .bytes = k->source,
                                  .len   = k->source_len,
                                  .align = 64,
                                  .frame = k->frame.body_len ? &k->frame : NULL};
    }
    pthread_mutex_lock(&s->lock);
    bool ok = s->native || (kd_native_env(&o, f) && (s->native = kd_native_new(s->a, &o, f)));
    ok = ok && kd_native_load(s->native, code, n, warn, user, f);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < p->nkernel && ok; i++)
        if (!p->kernel[i].custom) memcpy(&p->kernel[i].fn, &code[at++].at, sizeof p->kernel[i].fn);
    kn_free(p->alloc, code, p->nkernel * sizeof *code);
    return ok;
}

void kr_unload_code(kn_runtime *s, kl_program *p) {
    bool any = false; /* a schedule that was never compiled is dropped under the lock */
    for (size_t i = 0; i < p->nkernel; i++) any |= p->kernel[i].machine && p->kernel[i].fn;
    if (!any) return;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < p->nkernel; i++) {
        void *at;
        if (!p->kernel[i].machine || !p->kernel[i].fn) continue;
        memcpy(&at, &p->kernel[i].fn, sizeof at);
        kd_native_unload(s->native, at);
        p->kernel[i].fn = NULL;
    }
    pthread_mutex_unlock(&s->lock);
}

int kr_threads(int asked) {
    const char *env = getenv("KOINE_THREADS");
    int         n   = asked > 0 ? asked : env && atoi(env) > 0 ? atoi(env) : kn_cpu_count();
    return KN_MIN(n, 256);
}

/* Waiting for the pool would idle this thread, and a second pool would set more threads to work than were asked for:
 * so a context that finds it taken does its kernel alone. Results do not depend on it. */
bool kr_share_out(kn_runtime *s, int64_t n, kn_pool_fn fn, void *arg, kn_fault *f) {
    if (pthread_mutex_trylock(&s->running) != 0) {
        fn(arg, 0, n);
        return true;
    }
    if (!s->pool) s->pool = kn_pool_new(s->a, kr_threads(s->threads), f);
    if (s->pool) kn_pool_run(s->pool, n, fn, arg);
    bool ok = s->pool != NULL;
    pthread_mutex_unlock(&s->running);
    return ok;
}
