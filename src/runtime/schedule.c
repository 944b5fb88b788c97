/* schedule.c - the schedule cache, and running a schedule's kernels.
 *
 * Contract: a program of a form seen before, by any context of the runtime, is neither lowered nor compiled; a form
 * that another context is at is waited for. A kernel is called with buffers and a run of its THREAD loop; its results
 * do not depend on how that loop is shared out. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "dialect/eval.h"
#include "runtime/inside.h"

#include <string.h>
#include <time.h>

void kr_schedule_free(kn_runtime *shared, kr_schedule *s) {
    if (!s) return;
    kr_unload_code(shared, &s->p);
    kl_program_free(&s->p);
    kn_str_free(&s->opts);
    pthread_mutex_destroy(&s->turn);
    kn_free(shared->a, s, sizeof *s);
}

void kr_room_free(kr_context *rt, kr_room *room) {
    kr_aligned_free(rt->a, room->block, room->temp_bytes);
    kn_free(rt->a, room->bufs, room->nbufs * sizeof *room->bufs);
    kn_free(rt->a, room->vars, room->nbufs * sizeof *room->vars);
    kn_free(rt->a, room->kept, room->nkept * sizeof *room->kept);
    kn_free(rt->a, room->arrays, room->nbufs * sizeof *room->arrays);
    *room = (kr_room){0};
}

/* Made when the schedule is first got, so that runs allocate nothing. */
static bool make_room(kr_context *rt, const kr_schedule *s, kn_fault *f) {
    size_t old = rt->room_cap;
    if (s->id >= old) {
        if (!KN_GROW(rt->a, rt->room, rt->room_cap, s->id + 1)) return kn_oom(f);
        memset(rt->room + old, 0, (rt->room_cap - old) * sizeof *rt->room);
    }
    kr_room *r = &rt->room[s->id];
    if (r->made) return true;
    r->temp_bytes = (size_t)KN_MAX(s->p.temp_bytes, 1);
    for (size_t i = 0; i < s->p.nkernel; i++) r->nbufs = KN_MAX(r->nbufs, s->p.kernel[i].nargs);
    for (size_t i = 0; i < s->p.ntemp; i++)
        if (s->p.temp[i].kept) r->nkept = i + 1;
    r->made = (!s->p.temp_bytes || (r->temp = kr_aligned(rt->a, r->temp_bytes, &r->block))) &&
              (!r->nbufs || (r->bufs = kn_zalloc(rt->a, r->nbufs * sizeof *r->bufs))) &&
              (!r->nbufs || (r->vars = kn_zalloc(rt->a, r->nbufs * sizeof *r->vars))) &&
              (!r->nkept || (r->kept = kn_zalloc(rt->a, r->nkept * sizeof *r->kept))) &&
              (!r->nbufs || (r->arrays = kn_zalloc(rt->a, r->nbufs * sizeof *r->arrays)));
    if (r->made) return true;
    kr_room_free(rt, r);
    return kn_oom(f);
}

static bool compile_source(kr_context *rt, kl_program *p, kn_fault *f) {
    kd_cc *cc = kr_compiler(rt->shared, f);
    if (!cc) return false;
    kd_unit *u = kn_zalloc(p->alloc, p->nkernel * sizeof *u);
    int      n = 0, at = 0;
    if (!u) return kn_oom(f);
    for (size_t i = 0; i < p->nkernel; i++) {
        const kl_kernel *k = &p->kernel[i];
        if (!k->custom) u[n++] = (kd_unit){.name = k->name, .source = k->source, .len = k->source_len};
    }
    bool ok = !n || kd_cc_compile(cc, u, n, kn_cpu_count(), rt->cfg.log, rt->cfg.log_user,
                                  &rt->stats.kernels_compiled, &rt->stats.kernels_loaded, f);
    for (size_t i = 0; i < p->nkernel && ok; i++)
        if (!p->kernel[i].custom) p->kernel[i].fn = u[at++].fn;
    kn_free(p->alloc, u, p->nkernel * sizeof *u);
    return ok;
}

static bool compile(kr_context *rt, kl_program *p, kn_fault *f) {
    if (rt->interpret || !p->nkernel) return true;
    bool   machine = kt_of(&p->target)->machine;
    double start   = kn_now();
    bool   ok = machine ? kr_load_code(rt->shared, p, rt->cfg.log, rt->cfg.log_user, f) : compile_source(rt, p, f);
    for (size_t i = 0; ok && machine && i < p->nkernel; i++) rt->stats.kernels_compiled += !p->kernel[i].custom;
    p->loading += kn_now() - start;
    return ok;
}

static bool progress(kr_context *rt, const char *what, double fraction, kn_fault *f) {
    if (rt->cfg.progress && rt->cfg.progress(rt->cfg.progress_user, what, fraction)) atomic_store(&rt->cancelled, 1);
    if (!atomic_exchange(&rt->cancelled, 0)) return true;
    return kn_fail(f, KN_ERR_CANCELLED, "cancelled while %s", what);
}

/* ---- the cache ------------------------------------------------------------------------------------------------- */

/* The schedule of p's form, or NULL. Under the lock. Of one that is not ready only the hash may be looked at: *busy
 * says that it may turn out to be the one. */
static kr_schedule *find_schedule(const kr_context *rt, const kl_program *p, uint64_t key, bool *busy) {
    const kn_runtime *sh = rt->shared;
    *busy                = false;
    for (size_t i = 0; i < sh->nschedule; i++) {
        kr_schedule *s = sh->schedule[i];
        if (s->key != key || memcmp(&s->target, &rt->target, sizeof s->target) || s->interpret != rt->interpret ||
            strcmp(kn_str_c(&s->opts), kn_str_c(&rt->hand_key)))
            continue;
        if (!s->ready)
            *busy = true;
        else if (kg_graph_equal(s->p.g, p->g))
            return s;
    }
    return NULL;
}

static void remove_schedule(kn_runtime *sh, const kr_schedule *s) {
    for (size_t i = 0; i < sh->nschedule; i++)
        if (sh->schedule[i] == s) {
            sh->schedule[i] = sh->schedule[--sh->nschedule];
            return;
        }
}

/* Waits a while for another context to finish what it lowers; not for ever, so that a cancel is heard. */
static void await_settled(kn_runtime *sh) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 20000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&sh->settled, &sh->lock, &t);
}

/* A place in the cache for a form that is not there, not ready; NULL: out of memory. Under the lock. */
static kr_schedule *claim_schedule(kr_context *rt, uint64_t key) {
    kn_runtime  *sh = rt->shared;
    kr_schedule *s  = kn_zalloc(sh->a, sizeof *s);
    if (!s || !KN_GROW(sh->a, sh->schedule, sh->schedule_cap, sh->nschedule + 1)) {
        kn_free(sh->a, s, sizeof *s);
        return NULL;
    }
    s->key       = key;
    s->id        = sh->next_id++;
    s->interpret = rt->interpret;
    s->target    = rt->target;
    pthread_mutex_init(&s->turn, NULL);
    kn_str_init(&s->opts, sh->a);
    kn_str_puts(&s->opts, kn_str_c(&rt->hand_key));
    if (s->opts.failed) {
        kr_schedule_free(sh, s);
        return NULL;
    }
    return sh->schedule[sh->nschedule++] = s;
}

/* What has no machine code here (an op the target lacks, or no executable memory to be had) goes to the C target. */
static void fall_back(kr_context *rt, kn_fault *f) {
    char line[sizeof f->text + 96];
    snprintf(line, sizeof line, "%s; the C target compiles this program", f->text);
    if (rt->cfg.log) rt->cfg.log(rt->cfg.log_user, line);
    *f = (kn_fault){0};
}

static bool share_lowering(void *runtime, int64_t n, kn_pool_fn fn, void *arg, kn_fault *f) {
    return kr_share_out(runtime, n, fn, arg, f);
}

/* Lowers and compiles what has been claimed. An allocator of the host's is called from this thread alone. */
static bool build_schedule(kr_context *rt, kr_schedule *s, kn_fault *f) {
    double start = kn_now();
    kl_run run   = {.stop = rt->interpret ? KN_STAGE_PLAN : KN_STAGE_ANY, .hand = rt->hand, .nhand = rt->nhand,
                    .lean = true, .share = rt->shared->a ? NULL : share_lowering, .sharer = rt->shared};
#if defined(KN_DEBUG_VERIFY) && KN_DEBUG_VERIFY
    run.verify = true;
#endif
    bool ok = progress(rt, "compiling", 0, f) && kl_lower(&s->p, &run, f) && compile(rt, &s->p, f);
    if (!ok && kt_of(&s->p.target)->machine && (f->code == KN_ERR_UNSUPPORTED || f->code == KN_ERR_DEVICE)) {
        fall_back(rt, f);
        kl_program_again(&s->p);
        ok = kl_lower(&s->p, &run, f) && compile(rt, &s->p, f);
    }
    ok = ok && progress(rt, "compiling", 1, f);
    kl_forget_why(&s->p); /* the schedule may outlive this context */
    rt->stats.compile_seconds += kn_now() - start;
    rt->stats.schedules += ok;
    return ok;
}

kr_schedule *kr_schedule_get(kr_context *rt, kl_program *p, kn_fault *f) {
    kn_runtime  *sh  = rt->shared;
    uint64_t     key = kg_graph_hash(p->g);
    kr_schedule *s   = NULL;
    bool         busy, ok = true, mine = false;
    pthread_mutex_lock(&sh->lock);
    while (!(s = find_schedule(rt, p, key, &busy)) && busy && ok) {
        await_settled(sh);
        pthread_mutex_unlock(&sh->lock);
        ok = progress(rt, "compiling", 0, f);
        pthread_mutex_lock(&sh->lock);
    }
    if (!s && ok) {
        mine = (s = claim_schedule(rt, key)) != NULL;
        if (!mine) kn_oom(f);
    }
    pthread_mutex_unlock(&sh->lock);
    if (!mine) {
        kl_program_free(p);
        rt->stats.schedule_hits += s != NULL;
        return s && make_room(rt, s, f) ? s : NULL;
    }
    s->p         = *p;
    s->p.machine = kr_machine(sh);
    s->p.target  = rt->target;
    ok           = build_schedule(rt, s, f);
    pthread_mutex_lock(&sh->lock);
    s->ready = ok;
    if (!ok) remove_schedule(sh, s);
    pthread_cond_broadcast(&sh->settled);
    pthread_mutex_unlock(&sh->lock);
    if (ok) return make_room(rt, s, f) ? s : NULL;
    kr_schedule_free(sh, s);
    return NULL;
}

void kr_each_program(kr_context *rt, void (*each)(void *user, const kl_program *p), void *user) {
    kn_runtime *sh = rt->shared;
    pthread_mutex_lock(&sh->lock);
    for (size_t i = 0; i < sh->nschedule; i++)
        if (sh->schedule[i]->ready) each(user, &sh->schedule[i]->p);
    pthread_mutex_unlock(&sh->lock);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

typedef struct kr_call {
    kd_fn          fn;
    void         **bufs;
    const int64_t *vars;
} kr_call;

static void call_part(void *arg, int64_t lo, int64_t hi) {
    kr_call *c = arg;
    if (lo < hi) c->fn(c->bufs, c->vars, lo, hi);
}

static bool interpret(kr_context *rt, kr_schedule *s, const kl_call *c, void **bufs, kn_fault *f) {
    const kl_program *p = &s->p;
    const kl_kernel  *k = &p->kernel[c->kernel];
    kn_array *slot = kn_zalloc(rt->a, (k->nargs + 1) * sizeof *slot);
    if (!slot) return kn_oom(f);
    for (size_t i = 0; i < k->nargs; i++) {
        const kl_arg *g = &c->arg[i];
        slot[i] = g->temp ? (kn_array){bufs[i], p->temp[g->id].size, p->temp[g->id].dtype}
                          : (kn_array){bufs[i], p->param[g->id].size, p->param[g->id].dtype};
    }
    int none = 0;
    pthread_mutex_lock(&s->turn);
    bool ok = kn_eval(k->g, k->root, slot, (int)k->nargs, NULL, &none, NULL, f);
    pthread_mutex_unlock(&s->turn);
    kn_free(rt->a, slot, (k->nargs + 1) * sizeof *slot);
    return ok;
}

/* Waking a thread costs as much as a few hundred thousand operations. */
enum { SHARE_WORK = 200000 };

/* The value of a size in a kernel; false: it is more than a few operations. Allocates nothing. */
static bool size_now(const kn_graph *g, kn_ref n, const int64_t *vars, int depth, int64_t *value) {
    kn_scalar v[3], out;
    int       dt[3];
    if (kg_op(g, n) == KN_OP_CONST) return *value = kg_const_int(g, n), true;
    if (kg_is_variable(g, n)) return *value = vars[kg_field(g, n, KN_F_PARAM_slot)], true;
    if (!depth || !kn_is_alu(kg_op(g, n)) || kg_nsrc(g, n) > 3) return false;
    for (uint32_t k = 0; k < kg_nsrc(g, n); k++) {
        dt[k] = kg_dtype(g, kg_at(g, n, k));
        if (!size_now(g, kg_at(g, n, k), vars, depth - 1, &v[k].i)) return false;
    }
    if (!kn_alu(kg_op(g, n), kg_dtype(g, n), dt, v, &out)) return false;
    *value = out.i;
    return true;
}

/* How many iterations the THREAD loop has today. One that is not there does nothing. */
static int64_t chunks_now(const kl_kernel *k, const int64_t *vars) {
    int64_t v;
    return size_now(k->g, k->bound, vars, 8, &v) ? KN_MAX(KN_MIN(v, k->chunks), 1) : k->chunks;
}

/* What the panel that the call fills is known to be of; NULL: it is not kept. */
static kr_place *kept_of(const kr_room *room, const kr_schedule *s, const kl_call *c) {
    return s->p.kernel[c->kernel].panel && s->p.temp[c->arg[0].id].kept ? &room->kept[c->arg[0].id] : NULL;
}

bool kr_schedule_run(kr_context *rt, kr_schedule *s, const kr_place *at, kn_fault *f) {
    double         start = kn_now();
    const kr_room *room  = &rt->room[s->id];
    void         **bufs  = room->bufs;
    bool           ok    = true;
    for (size_t i = 0; i < s->p.ncall && ok; i++) {
        const kl_call   *call = &s->p.call[i];
        const kl_kernel *k    = &s->p.kernel[call->kernel];
        kr_place        *kept = kept_of(room, s, call);
        const kr_place  *of   = kept ? &at[call->arg[1].id] : NULL;
        if (kept && of->stamp && kept->stamp == of->stamp && kept->data == of->data) continue;
        if (kept) *kept = (kr_place){0};
        for (size_t a = 0; a < k->nargs; a++) {
            const kl_arg *arg = &call->arg[a];
            bufs[a]           = arg->temp ? (char *)room->temp + s->p.temp[arg->id].offset : at[arg->id].data;
            if (arg->var) room->vars[a] = *(const int64_t *)bufs[a];
        }
        ok = progress(rt, "running", (double)i / (double)s->p.ncall, f);
        if (!ok) break;
        kr_call c = {k->fn, bufs, room->vars};
        int64_t chunks = k->bound ? chunks_now(k, room->vars) : k->chunks;
        bool    share  = chunks > 1 && k->flops + k->bytes > SHARE_WORK && !rt->idle && !rt->interpret;
        if (k->custom) ok = rt->idle || kr_call_custom(rt, k, bufs, room->arrays, f);
        else if (rt->interpret) ok = interpret(rt, s, call, bufs, f);
        else if (share) ok = kr_share_out(rt->shared, chunks, call_part, &c, f);
        else if (!rt->idle) call_part(&c, 0, chunks);
        if (kept && ok) *kept = *of;
        rt->stats.kernels_run++;
        rt->stats.flops += (uint64_t)k->flops;
    }
    rt->stats.kernels_last = s->p.ncall;
    rt->stats.run_seconds += kn_now() - start;
    return ok;
}
