/* What kernels were predicted to cost, and what they cost: for each kernel of some programs, nanoseconds and bytes from
 * beyond L2, by the table of this machine, beside what the thread's clock says, and last-level misses where the system
 * lets them be counted. One thread; the least of several runs. bench_traffic [RUNS] */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "koine.h"
#include "optimize/cost.h"
#include "runtime/inside.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { MOST = 128 };

typedef struct meter {
    int      fd;       /* of the counter of misses, -1: none */
    int      kernels, now;
    double   at, best[MOST];
    uint64_t count, misses[MOST]; /* the least */
} meter;

/* ---- misses -------------------------------------------------------------------------------------------------- */

static int open_misses(void) {
#ifdef __linux__
    struct perf_event_attr a = {.type = PERF_TYPE_HARDWARE, .size = sizeof a, .config = PERF_COUNT_HW_CACHE_MISSES,
                                .exclude_kernel = 1, .exclude_hv = 1};
    int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
    if (fd < 0) printf("misses are not counted: perf_event_open: %s\n", strerror(errno));
    return fd;
#else
    printf("misses are not counted: this system has no perf_event_open\n");
    return -1;
#endif
}

static uint64_t read_misses(const meter *m) {
    uint64_t n = 0;
#ifdef __linux__
    if (m->fd >= 0 && read(m->fd, &n, sizeof n) != sizeof n) n = 0;
#endif
    (void)m;
    return n;
}

/* ---- the clock ----------------------------------------------------------------------------------------------- */

/* The thread's own time: what others do on the machine costs it caches, not seconds. */
static double own_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void meter_close(meter *m) {
    double   at    = own_now();
    uint64_t count = read_misses(m);
    if (m->now >= 0 && m->now < MOST) {
        m->best[m->now]   = KN_MIN(m->best[m->now], at - m->at);
        m->misses[m->now] = KN_MIN(m->misses[m->now], count - m->count);
    }
    m->now   = -1;
    m->count = read_misses(m);
    m->at    = own_now();
}

/* Called before each kernel. */
static int meter_step(void *user, const char *what, double fraction) {
    meter *m = user;
    meter_close(m);
    if (m->kernels && !strcmp(what, "running")) m->now = (int)(fraction * m->kernels + 0.5);
    return 0;
}

/* ---- programs ------------------------------------------------------------------------------------------------ */

typedef struct net {
    kn_tensor *x, *labels, *p[10];
    kn_optim  *adam;
} net;

static kn_tensor *filled(kn_context *kn, const kn_dim *dims, int rank) {
    kn_tensor *t = kn_empty(kn, KN_F32, dims, rank);
    kn_scope  *s = kn_begin(kn);
    kn_assign(t, kn_mul_s(kn_sub_s(kn_rand(kn, dims, rank), 0.5), 0.1));
    kn_end(s);
    return t;
}
#define FILLED(kn, ...) \
    filled((kn), (const kn_dim[]){__VA_ARGS__}, (int)(sizeof((const kn_dim[]){__VA_ARGS__}) / sizeof(kn_dim)))

static void matmul_open(kn_context *kn, net *m) { m->x = FILLED(kn, 1024, 1024), m->p[0] = FILLED(kn, 1024, 1024); }
static void matmul_step(net *m) { kn_keep(kn_matmul(m->x, m->p[0])); }
static void rows_open(kn_context *kn, net *m) { m->x = FILLED(kn, 4096, 4096); }
static void softmax_step(net *m) { kn_keep(kn_softmax(m->x, -1)); }
static void norm_open(kn_context *kn, net *m) { m->x = FILLED(kn, 4096, 1024); }
static void norm_step(net *m) { kn_keep(kn_layer_norm(m->x, 1e-5)); }
static void chain_open(kn_context *kn, net *m) {
    m->x = FILLED(kn, 4194304), m->p[0] = FILLED(kn, 4194304), m->p[1] = FILLED(kn, 4194304);
}
static void chain_step(net *m) { kn_keep(kn_gelu(kn_add(kn_mul(m->x, m->p[0]), m->p[1]))); }
static void mlp_open(kn_context *kn, net *m) {
    m->x = FILLED(kn, 512, 784), m->labels = kn_empty(kn, KN_I32, KN_DIMS(512));
    m->p[0] = FILLED(kn, 784, 128), m->p[1] = FILLED(kn, 128), m->p[2] = FILLED(kn, 128, 10), m->p[3] = FILLED(kn, 10);
    m->adam = kn_adam(kn, m->p, 4, .lr = 1e-3);
}
static void mlp_step(net *m) {
    kn_tensor *h = kn_relu(kn_add(kn_matmul(m->x, m->p[0]), m->p[1]));
    kn_minimize(m->adam, kn_mean(kn_cross_entropy(kn_add(kn_matmul(h, m->p[2]), m->p[3]), m->labels)));
}
static void conv_open(kn_context *kn, net *m) {
    m->x = FILLED(kn, 64, 1, 28, 28), m->labels = kn_empty(kn, KN_I32, KN_DIMS(64));
    m->p[0] = FILLED(kn, 16, 1, 3, 3), m->p[1] = FILLED(kn, 16), m->p[2] = FILLED(kn, 32, 16, 3, 3);
    m->p[3] = FILLED(kn, 32), m->p[4] = FILLED(kn, 32), m->p[5] = FILLED(kn, 32), m->p[6] = FILLED(kn, 1568, 10);
    m->p[7] = FILLED(kn, 10), m->p[8] = FILLED(kn, 32), m->p[9] = FILLED(kn, 32);
    m->adam = kn_adam(kn, m->p, 8, .lr = 1e-3);
}
static void conv_step(net *m) {
    kn_tensor *h = kn_max_pool2d(kn_relu(kn_conv2d(m->x, m->p[0], m->p[1], .padding = {1, 1})));
    h = kn_relu(kn_batch_norm(kn_conv2d(h, m->p[2], m->p[3], .padding = {1, 1}), m->p[4], m->p[5], .mean = m->p[8],
                              .var = m->p[9], .training = 1));
    h = kn_add(kn_matmul(kn_flatten(kn_max_pool2d(h), 1), m->p[6]), m->p[7]);
    kn_minimize(m->adam, kn_mean(kn_cross_entropy(h, m->labels)));
}

static const struct {
    const char *name;
    void (*open)(kn_context *kn, net *m);
    void (*step)(net *m);
} programs[] = {
    {"matmul 1024x1024x1024", matmul_open, matmul_step},
    {"softmax 4096x4096", rows_open, softmax_step},
    {"layer_norm 4096x1024", norm_open, norm_step},
    {"gelu(a b + c), 4194304", chain_open, chain_step},
    {"perceptron 784-128-10, step of 512", mlp_open, mlp_step},
    {"convolutional net, step of 64", conv_open, conv_step},
};

/* ---- predictions --------------------------------------------------------------------------------------------- */

/* The schedule's program up to its kernels, and what each is predicted to cost. */
static bool predict_all(const kl_program *from, kl_program *p, ko_cost *cost, kn_fault *f) {
    kl_run run = {.stop = KN_STAGE_RANGEIFY};
    kl_program_init(p, NULL);
    p->machine = from->machine;
    p->g       = kg_new(NULL);
    p->root    = p->g ? kg_copy(p->g, from->g, from->root) : 0;
    if (!p->root || !KN_GROW(NULL, p->param, p->param_cap, from->nparam + 1)) return kn_oom(f);
    memcpy(p->param, from->param, from->nparam * sizeof *p->param);
    p->nparam = from->nparam;
    if (!kl_lower(p, &run, f)) return false;
    for (size_t k = 0; k < p->nkernel && k < MOST; k++) {
        kl_kernel *x = &p->kernel[k];
        kn_opt     opts[KN_MAX_OPTS];
        kn_nest    nest;
        if (!ko_nest(x->g, x->root, &nest, f)) return false;
        ko_model *model = ko_model_new(x->g, x->root, &nest, f);
        int       n     = model ? ko_choose(x->g, x->root, p->machine, opts, KN_MAX_OPTS, NULL, f) : 0;
        bool      ok    = model && !f->code;
        for (int i = 0; i < n && ok; i++) ok = ko_edit(&nest, &opts[i], f);
        if (ok) ko_predict(model, &nest, p->machine, &cost[k]);
        ko_model_free(model);
        if (!ok) return false;
    }
    return true;
}

static void put_time(double ps) {
    kn_str s;
    kn_str_init(&s, NULL);
    ko_print_time(ps, &s);
    printf(" %10s", kn_str_c(&s));
    kn_str_free(&s);
}

static double beyond_l2(const ko_cost *c) {
    return c->bytes[KN_L3] + c->bytes[KN_DRAM] + c->stored[KN_L3] + c->stored[KN_DRAM];
}

static void report(const char *name, const kl_program *from, const meter *m) {
    static ko_cost cost[MOST];
    kl_program     p;
    kn_fault       f = {0};
    double         sum[2] = {0};
    memset(cost, 0, sizeof cost);
    printf("\n%s\n  %-34s %10s %10s %6s %12s %12s", name, "kernel", "predicted", "measured", "ratio", "beyond L2",
           "from DRAM");
    printf(m->fd >= 0 ? " %12s\n" : "\n", "LLC misses");
    if (!predict_all(from, &p, cost, &f)) printf("  %s\n", f.text);
    for (size_t k = 0; k < p.ncall && k < MOST; k++) {
        const ko_cost *c    = &cost[p.call[k].kernel];
        double         took = m->best[k] * 1e12;
        printf("  %-34s", p.kernel[p.call[k].kernel].name);
        put_time(c->ps);
        put_time(took);
        printf(" %6.2f %10.0f K %10.0f K", c->ps / took, beyond_l2(c) / 1024,
               (c->bytes[KN_DRAM] + c->stored[KN_DRAM]) / 1024);
        if (m->fd >= 0) printf(" %10.0f K", (double)m->misses[k] * (double)p.machine->line / 1024);
        printf("\n");
        sum[0] += c->ps;
        sum[1] += took;
    }
    printf("  %-34s", "all");
    put_time(sum[0]);
    put_time(sum[1]);
    printf(" %6.2f\n", sum[0] / sum[1]);
    kl_program_free(&p);
}

int main(int argc, char **argv) {
    int   runs = KN_MAX(3, argc > 1 ? atoi(argv[1]) : 15);
    meter m    = {.fd = open_misses(), .now = -1};
    for (int i = 0; i < KN_COUNT(programs); i++) {
        kn_config   cfg = {.threads = 1, .progress = meter_step, .progress_user = &m, .size = sizeof cfg};
        kn_context *kn  = kn_open(&cfg);
        net         n   = {0};
        kn_stats    st  = {.size = sizeof st};
        if (!kn) return 2;
        m.kernels = 0;
        programs[i].open(kn, &n);
        for (int k = 0; k < MOST; k++) m.best[k] = 1e9, m.misses[k] = UINT64_MAX;
        for (int r = 0; r < runs; r++) { /* the first compiles */
            kn_scope *s = kn_begin(kn);
            programs[i].step(&n);
            if (kn_end(s)) {
                fprintf(stderr, "%s\n", kn_error(kn));
                return 1;
            }
            meter_close(&m);
            kn_get_stats(kn, &st);
            m.kernels = (int)st.kernels_last;
        }
        const kn_runtime *shared = kn->rt->shared;
        const kl_program *ran    = &shared->schedule[shared->nschedule - 1]->p;
        if (!i) {
            kn_str s;
            kn_str_init(&s, NULL);
            kn_machine_print(ran->machine, &s);
            fputs(kn_str_c(&s), stdout);
            kn_str_free(&s);
        }
        report(programs[i].name, ran, &m);
        m.kernels = 0;
        kn_close(kn);
    }
    return 0;
}
