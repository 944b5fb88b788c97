/* test_budgets.c - what lowering may cost: sweeps a kernel and nodes out of it, for the programs that are measured.
 *
 * The budgets are the compiler's design's: at most 6 sweeps a kernel (lower.h says what a sweep is) and 900 nodes out.
 * Counts, not times: the same on every machine. */
#include "api/api.h"
#include "lower/pipeline.h"
#include "runtime/inside.h"
#include "tensor/tensor.h"

enum { SWEEPS = 6, NODES_OUT = 900, VISITS = 3 /* a node in or out */ };

/* Once a schedule is lowered nothing has to run. */
static int stop_running(void *user, const char *what, double fraction) {
    (void)user, (void)fraction;
    return !strcmp(what, "running");
}

static kn_context *open_idle(void) {
    kn_config cfg = {.device = "INTERP", .progress = stop_running, .threads = 1, .size = sizeof cfg};
    return kn_open(&cfg);
}

/* Lowers the schedule's program once more, counting. */
static bool lower_again(const kl_program *from, kl_program *p, kl_stage_count *count) {
    kn_fault f   = {0};
    kl_run   run = {.stop = KN_STAGE_PLAN, .count = count};
    kl_program_init(p, NULL);
    p->g    = kg_new(NULL);
    p->root = kg_copy(p->g, from->g, from->root);
    if (!KN_GROW(NULL, p->param, p->param_cap, from->nparam + 1)) return false;
    memcpy(p->param, from->param, from->nparam * sizeof *p->param);
    p->nparam = from->nparam;
    return CHECK(kl_lower(p, &run, &f)) || (printf("  %s\n", f.text), false);
}

static void within(const char *name, const kl_program *from) {
    kl_program p;
    kl_stage_count   count[KN_STAGE_COUNT] = {0};
    if (lower_again(from, &p, count)) {
        int sweeps = 0;
        for (size_t k = 0; k < p.nkernel; k++) { /* the index expressions' sweep is all kernels' */
            sweeps = KN_MAX(sweeps, p.kernel[k].sweeps + 1);
            if (!CHECK(p.kernel[k].sweeps + 1 <= SWEEPS)) printf("  %s: %s\n", name, p.kernel[k].name);
        }
        CHECK(sweeps > 1);
        printf("     %s: %d kernels, at most %d sweeps each\n", name, (int)p.nkernel, sweeps);
        for (int s = KN_STAGE_RANGEIFY; s <= KN_STAGE_LINEARIZE; s++) {
            const kl_stage_count *c = &count[s];
            printf("       %-10s nodes %5d to %5d, %4d in the largest; %5d visits, %4d firings\n", kn_stage_names[s],
                   (int)c->nodes_in, (int)c->nodes_out, (int)c->largest, (int)c->visits, (int)c->matches);
            CHECK(c->visits <= VISITS * (c->nodes_in + c->nodes_out));
            CHECK(c->matches <= c->visits);
            if (s > KN_STAGE_RANGEIFY) CHECK_EQ(c->nodes_in, count[s - 1].nodes_out);
        }
        CHECK(count[KN_STAGE_LINEARIZE].largest <= NODES_OUT);
        CHECK(count[KN_STAGE_RANGEIFY].visits > 0 && count[KN_STAGE_SELECT].visits > 0);
        CHECK_EQ(count[KN_STAGE_LINEARIZE].visits, 0);
    }
    kl_program_free(&p);
}

static void all_schedules(kn_context *kn, const char *name) {
    if (!CHECK(kn->rt->shared->nschedule > 0)) printf("  %s: %s\n", name, kn_error(kn));
    for (size_t i = 0; i < kn->rt->shared->nschedule; i++) within(name, &kn->rt->shared->schedule[i]->p);
    kn_close(kn);
}

static void ends_cancelled(kn_scope *s) { CHECK_EQ(kn_end(s), KN_ERR_CANCELLED); }

static void test_rows(void) {
    kn_context *kn = open_idle();
    kn_scope   *s  = kn_begin(kn);
    kn_keep(kn_softmax(kn_empty(kn, KN_F32, KN_DIMS(4096, 1000)), -1));
    ends_cancelled(s);
    all_schedules(kn, "softmax 4096x1000");
    kn = open_idle();
    s  = kn_begin(kn);
    kn_keep(kn_layer_norm(kn_empty(kn, KN_F32, KN_DIMS(4096, 1024)), 1e-5));
    ends_cancelled(s);
    all_schedules(kn, "layer_norm 4096x1024");
}

static void test_product(void) {
    static const kn_dim sizes[][3] = {{64, 64, 64}, {1024, 1024, 1024}, {1000, 1000, 1000},
                                      {1, 4096, 4096}, {37, 5, 11}};
    for (int i = 0; i < KN_COUNT(sizes); i++) {
        char        name[64];
        kn_context *kn = open_idle();
        kn_scope   *s  = kn_begin(kn);
        kn_keep(kn_matmul(kn_empty(kn, KN_F32, KN_DIMS(sizes[i][0], sizes[i][1])),
                          kn_empty(kn, KN_F32, KN_DIMS(sizes[i][1], sizes[i][2]))));
        ends_cancelled(s);
        snprintf(name, sizeof name, "matmul %dx%dx%d", (int)sizes[i][0], (int)sizes[i][1], (int)sizes[i][2]);
        all_schedules(kn, name);
    }
}

static void train(kn_context *kn, kn_tensor *const *p, int n, kn_tensor *(*f)(kn_tensor *const *p, kn_tensor *x),
                  kn_tensor *x, kn_tensor *labels) {
    kn_optim *adam = kn_adam(kn, p, n, .lr = 1e-3);
    kn_scope *s    = kn_begin(kn);
    CHECK_EQ(kn_minimize(adam, kn_mean(kn_cross_entropy(f(p, x), labels))), KN_OK);
    ends_cancelled(s);
}

static kn_tensor *perceptron(kn_tensor *const *p, kn_tensor *x) {
    return kn_add(kn_matmul(kn_relu(kn_add(kn_matmul(x, p[0]), p[1])), p[2]), p[3]);
}

static void test_perceptron_step(void) {
    kn_context *kn  = open_idle();
    kn_tensor  *p[] = {kn_empty(kn, KN_F32, KN_DIMS(784, 128)), kn_empty(kn, KN_F32, KN_DIMS(128)),
                       kn_empty(kn, KN_F32, KN_DIMS(128, 10)), kn_empty(kn, KN_F32, KN_DIMS(10))};
    train(kn, p, 4, perceptron, kn_empty(kn, KN_F32, KN_DIMS(512, 784)), kn_empty(kn, KN_I32, KN_DIMS(512)));
    all_schedules(kn, "perceptron, training step");
}

static kn_tensor *convnet(kn_tensor *const *p, kn_tensor *x) {
    kn_tensor *h = kn_max_pool2d(kn_relu(kn_conv2d(x, p[0], p[1], .padding = {1, 1})));
    h = kn_relu(kn_batch_norm(kn_conv2d(h, p[2], p[3], .padding = {1, 1}), p[4], p[5], .mean = p[8], .var = p[9],
                              .training = 1));
    return kn_add(kn_matmul(kn_flatten(kn_max_pool2d(h), 1), p[6]), p[7]);
}

static void test_convnet_step(void) {
    kn_context *kn  = open_idle();
    kn_tensor  *p[] = {kn_empty(kn, KN_F32, KN_DIMS(16, 1, 3, 3)),  kn_empty(kn, KN_F32, KN_DIMS(16)),
                       kn_empty(kn, KN_F32, KN_DIMS(32, 16, 3, 3)), kn_empty(kn, KN_F32, KN_DIMS(32)),
                       kn_empty(kn, KN_F32, KN_DIMS(32)),           kn_empty(kn, KN_F32, KN_DIMS(32)),
                       kn_empty(kn, KN_F32, KN_DIMS(1568, 10)),     kn_empty(kn, KN_F32, KN_DIMS(10)),
                       kn_empty(kn, KN_F32, KN_DIMS(32)),           kn_empty(kn, KN_F32, KN_DIMS(32))};
    train(kn, p, 8, convnet, kn_empty(kn, KN_F32, KN_DIMS(64, 1, 28, 28)), kn_empty(kn, KN_I32, KN_DIMS(64)));
    all_schedules(kn, "convolutional net, training step");
}

int main(void) {
    RUN(test_rows);
    RUN(test_product);
    RUN(test_perceptron_step);
    RUN(test_convnet_step);
    return check_result();
}
