/* train_mlp.c - learn two spirals with a small network: the whole of a training loop.
 *
 *   cc train_mlp.c $(pkg-config --cflags --libs koine) -lm -o train_mlp && ./train_mlp */
#include <koine.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 512, HIDDEN = 64, STEPS = 500 };

/* Two arms of a spiral around the origin, alternately labelled 0 and 1. */
static void spirals(float x[POINTS][2], int32_t label[POINTS]) {
    for (int i = 0; i < POINTS; i++) {
        double turn = 0.5 + 9.0 * i / POINTS;
        label[i] = i % 2;
        x[i][0] = (float)(turn / 9 * cos(turn + 3.14159265 * label[i]));
        x[i][1] = (float)(turn / 9 * sin(turn + 3.14159265 * label[i]));
    }
}

int main(void) {
    static float   points[POINTS][2];
    static int32_t labels[POINTS];
    spirals(points, labels);

    kn_context *kn = kn_open(NULL);
    kn_tensor  *x = kn_from(kn, points, KN_F32, KN_DIMS(POINTS, 2));
    kn_tensor  *t = kn_from(kn, labels, KN_I32, KN_DIMS(POINTS));

    /* Parameters have storage; what a scope assigns to them stays. */
    kn_tensor *w1 = kn_empty(kn, KN_F32, KN_DIMS(2, HIDDEN)), *b1 = kn_empty(kn, KN_F32, KN_DIMS(HIDDEN));
    kn_tensor *w2 = kn_empty(kn, KN_F32, KN_DIMS(HIDDEN, HIDDEN)), *b2 = kn_empty(kn, KN_F32, KN_DIMS(HIDDEN));
    kn_tensor *w3 = kn_empty(kn, KN_F32, KN_DIMS(HIDDEN, 2)), *b3 = kn_empty(kn, KN_F32, KN_DIMS(2));
    kn_tensor *params[] = {w1, b1, w2, b2, w3, b3};
    kn_scope  *s = kn_begin(kn);
    kn_assign(w1, kn_kaiming_uniform(kn, KN_DIMS(2, HIDDEN)));
    kn_assign(w2, kn_kaiming_uniform(kn, KN_DIMS(HIDDEN, HIDDEN)));
    kn_assign(w3, kn_kaiming_uniform(kn, KN_DIMS(HIDDEN, 2)));
    kn_status status = kn_end(s);

    kn_adam_opts opts = {.lr = 0.005, .size = sizeof(opts)};
    kn_optim    *adam = kn_adam_opt(kn, params, 6, &opts);
    for (int step = 1; step <= STEPS && status == KN_OK; step++) {
        s = kn_begin(kn); /* everything made from here is gone at kn_end */
        kn_tensor *h = kn_relu(kn_add(kn_matmul(x, w1), b1));
        h = kn_relu(kn_add(kn_matmul(h, w2), b2));
        kn_tensor *y = kn_add(kn_matmul(h, w3), b3);
        kn_tensor *loss = kn_mean(kn_cross_entropy(y, t));
        kn_minimize(adam, loss);
        if (step % 100 == 0) {
            static float logits[POINTS][2];
            kn_read(y, KN_F32, logits, sizeof(logits));
            int right = 0;
            for (int i = 0; i < POINTS; i++) right += (logits[i][1] > logits[i][0]) == labels[i];
            printf("step %4d  loss %.4f  %d of %d right\n", step, kn_item(loss), right, (int)POINTS);
        }
        status = kn_end(s); /* runs the update; the graph is compiled once, at the first step */
    }
    if (status != KN_OK) fprintf(stderr, "%s\n", kn_error(kn));
    kn_close(kn);
    return status != KN_OK;
}
