/* schedule.c - the schedule cache, and running a schedule's kernels.
 *
 * Contract: a program of a form seen before is neither lowered nor compiled. A kernel is called with buffers and a run
 * of its THREAD loop; its results do not depend on how that loop is shared out. */
#include "dialect/eval.h"
#include "runtime/inside.h"
#include "target/target.h"

#include "rules_gen.h"

#include <stdlib.h>
#include <string.h>

void kr_schedule_free(kr_context *rt, kr_schedule *s) {
    if (!s) return;
    kr_aligned_free(rt->a, s->temp_block, (size_t)KN_MAX(s->p.temp_bytes, 1));
    kn_free(rt->a, s->bufs, s->nbufs * sizeof *s->bufs);
    kl_program_free(&s->p);
    kn_free(rt->a, s, sizeof *s);
}

static bool compile(kr_context *rt, kl_program *p, kn_fault *f) {
    if (rt->interpret || !p->nkernel) return true;
    if (!rt->cc) {
        kn_str pre;
        kn_str_init(&pre, rt->a);
        kt_c_preamble(&pre);
        if (!pre.failed)
            rt->cc = kd_cc_new(rt->a, rt->cc_name.len ? kn_str_c(&rt->cc_name) : NULL,
                               rt->cache_dir.len ? kn_str_c(&rt->cache_dir) : NULL, kn_str_c(&pre), f);
        else kn_oom(f);
        kn_str_free(&pre);
        if (!rt->cc) return false;
    }
    kd_unit *u = kn_zalloc(rt->a, p->nkernel * sizeof *u);
    if (!u) return kn_oom(f);
    for (size_t i = 0; i < p->nkernel; i++) {
        u[i].name   = p->kernel[i].name;
        u[i].source = p->kernel[i].source;
        u[i].len    = p->kernel[i].source_len;
    }
    bool ok = kd_cc_compile(rt->cc, u, (int)p->nkernel, kn_cpu_count(), rt->cfg.log, rt->cfg.log_user,
                            &rt->stats.kernels_compiled, &rt->stats.kernels_loaded, f);
    for (size_t i = 0; i < p->nkernel && ok; i++) p->kernel[i].fn = u[i].fn;
    kn_free(rt->a, u, p->nkernel * sizeof *u);
    return ok;
}

static bool progress(kr_context *rt, const char *what, double fraction, kn_fault *f) {
    if (rt->cfg.progress && rt->cfg.progress(rt->cfg.progress_user, what, fraction)) atomic_store(&rt->cancelled, 1);
    if (!atomic_exchange(&rt->cancelled, 0)) return true;
    return kn_fail(f, KN_ERR_CANCELLED, "cancelled while %s", what);
}

kr_schedule *kr_schedule_get(kr_context *rt, kl_program *p, kn_fault *f) {
    uint64_t key = kg_graph_hash(p->g);
    for (size_t i = 0; i < rt->nschedule; i++)
        if (rt->schedule[i]->key == key && kg_graph_equal(rt->schedule[i]->p.g, p->g)) {
            kl_program_free(p);
            rt->stats.schedule_hits++;
            return rt->schedule[i];
        }
    double       start = kn_now();
    kr_schedule *s     = kn_zalloc(rt->a, sizeof *s);
    kl_run       run   = {.stop = rt->interpret ? KN_STAGE_PLAN : KN_STAGE_ANY};
#if defined(KN_DEBUG_VERIFY) && KN_DEBUG_VERIFY
    run.verify = true;
#endif
    bool ok = s && KN_GROW(rt->a, rt->schedule, rt->schedule_cap, rt->nschedule + 1);
    if (!ok) {
        kn_oom(f);
        kl_program_free(p);
        kn_free(rt->a, s, sizeof *s);
        return NULL;
    }
    s->key = key;
    s->p   = *p;
    ok     = progress(rt, "compiling", 0, f) && kl_lower(&s->p, &run, f) && compile(rt, &s->p, f) &&
         progress(rt, "compiling", 1, f);
    if (ok && s->p.temp_bytes && !(s->temp = kr_aligned(rt->a, (size_t)s->p.temp_bytes, &s->temp_block)))
        ok = kn_oom(f);
    for (size_t i = 0; i < s->p.nkernel; i++) s->nbufs = KN_MAX(s->nbufs, s->p.kernel[i].nargs);
    if (ok && s->nbufs && !(s->bufs = kn_zalloc(rt->a, s->nbufs * sizeof *s->bufs))) ok = kn_oom(f);
    rt->stats.compile_seconds += kn_now() - start;
    if (!ok) {
        kr_schedule_free(rt, s);
        return NULL;
    }
    rt->stats.schedules++;
    rt->schedule[rt->nschedule++] = s;
    return s;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

typedef struct kr_call {
    kd_fn fn;
    void **bufs;
} kr_call;

static void call_part(void *arg, int64_t lo, int64_t hi) {
    kr_call *c = arg;
    if (lo < hi) c->fn(c->bufs, NULL, lo, hi);
}

static bool interpret(kr_context *rt, kl_kernel *k, const kl_program *p, void **bufs, kn_fault *f) {
    kn_array *slot = kn_zalloc(rt->a, (k->nargs + 1) * sizeof *slot);
    if (!slot) return kn_oom(f);
    for (size_t i = 0; i < k->nargs; i++) {
        const kl_arg *g = &k->arg[i];
        slot[i] = g->temp ? (kn_array){bufs[i], p->temp[g->id].size, p->temp[g->id].dtype}
                          : (kn_array){bufs[i], p->param[g->id].size, p->param[g->id].dtype};
    }
    int  none = 0;
    bool ok   = kn_eval(k->g, k->root, slot, (int)k->nargs, NULL, &none, NULL, f);
    kn_free(rt->a, slot, (k->nargs + 1) * sizeof *slot);
    return ok;
}

/* Waking a thread costs as much as a few hundred thousand operations. */
enum { SHARE_WORK = 200000 };

int kr_threads(int asked) {
    const char *env = getenv("KOINE_THREADS");
    int         n   = asked > 0 ? asked : env && atoi(env) > 0 ? atoi(env) : kn_cpu_count();
    return KN_MIN(n, 256);
}

static kn_pool *pool_of(kr_context *rt, kn_fault *f) {
    if (!rt->pool) rt->pool = kn_pool_new(rt->a, kr_threads(rt->threads), f);
    return rt->pool;
}

bool kr_schedule_run(kr_context *rt, kr_schedule *s, void *const *data, kn_fault *f) {
    double start = kn_now();
    void **bufs  = s->bufs;
    bool   ok    = true;
    for (size_t i = 0; i < s->p.nkernel && ok; i++) {
        kl_kernel *k = &s->p.kernel[i];
        for (size_t a = 0; a < k->nargs; a++)
            bufs[a] = k->arg[a].temp ? (char *)s->temp + s->p.temp[k->arg[a].id].offset : data[k->arg[a].id];
        ok = progress(rt, "running", (double)i / (double)s->p.nkernel, f);
        if (!ok) break;
        kr_call c = {k->fn, bufs};
        bool    share = k->chunks > 1 && k->flops + k->bytes > SHARE_WORK && !rt->idle && !rt->interpret;
        if (rt->interpret) ok = interpret(rt, k, &s->p, bufs, f);
        else if (share && pool_of(rt, f)) kn_pool_run(rt->pool, k->chunks, call_part, &c);
        else if (!f->code && !rt->idle) call_part(&c, 0, k->chunks);
        ok = ok && !f->code;
        rt->stats.kernels_run++;
        rt->stats.flops += (uint64_t)k->flops;
    }
    rt->stats.kernels_last = s->p.nkernel;
    rt->stats.run_seconds += kn_now() - start;
    return ok;
}
