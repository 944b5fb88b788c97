/* captured_step.c - a training step that is traced once and then replayed, on batches of a larger data set.
 *
 *   cc captured_step.c $(pkg-config --cflags --libs koine) -lm -o captured_step && ./captured_step */
#include <koine.h>
#include <stdio.h>

enum { ROWS = 256, WIDTH = 8, BATCH = 32, STEPS = 200 };

typedef struct model {
    kn_tensor *w, *b;
    kn_optim  *adam;
} model;

/* Called once, to see what it builds. */
static kn_status step(kn_context *kn, void *user, int nin, kn_tensor *const in[], int nout, kn_tensor *out[]) {
    model     *m = user;
    kn_tensor *y = kn_add(kn_matmul(in[0], m->w), m->b);
    (void)kn, (void)nin, (void)nout;
    out[0] = kn_mean(kn_square(kn_sub(y, in[1])));
    return kn_minimize(m->adam, out[0]);
}

int main(void) {
    kn_context *kn = kn_open(NULL);
    kn_tensor  *x = kn_randn(kn, KN_DIMS(ROWS, WIDTH)), *t = kn_add_s(kn_sum(x, .axes = KN_AXES(1), .keep = 1), 3);
    model       m = {.w = kn_kaiming_uniform(kn, KN_DIMS(WIDTH, 1)), .b = kn_zeros(kn, KN_F32, KN_DIMS(1))};
    kn_realize((kn_tensor *[]){x, t}, 2);
    m.adam        = kn_adam(kn, ((kn_tensor *[]){m.w, m.b}), 2, .lr = 0.1);
    kn_jit *run   = kn_jit_new(kn, step, &m);
    double  first = 0, last = 0;
    for (int i = 0; i < STEPS; i++) {
        kn_scope  *s    = kn_begin(kn);
        int        row  = i * BATCH % ROWS;
        kn_tensor *in[] = {kn_rows(x, row, BATCH), kn_rows(t, row, BATCH)}, *loss;
        kn_call(run, 2, in, 1, &loss);
        if (i == 0) first = kn_item(loss);
        if (i == STEPS - 1) last = kn_item(loss);
        if (kn_end(s) != KN_OK) {
            fprintf(stderr, "%s\n", kn_error(kn));
            return 1;
        }
    }
    kn_stats stats = {.size = sizeof stats};
    kn_get_stats(kn, &stats);
    printf("loss %.3f, after %d steps %.6f; %d kernels a step, %d schedules compiled\n", first, STEPS, last,
           (int)stats.kernels_last, (int)stats.schedules);
    kn_close(kn);
    return last < 0.01 ? 0 : 1;
}
