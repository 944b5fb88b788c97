/* attention.c - causal self-attention of several heads, checked against plain loops and timed.
 *
 *   cc attention.c $(pkg-config --cflags --libs koine) -lm -o attention && ./attention */
#include <koine.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 8, LENGTH = 128, WIDTH = 32, ROUNDS = 20 };

/* softmax(q k^T / sqrt(width), positions ahead masked) v, per head */
static kn_tensor *attention(kn_context *kn, kn_tensor *q, kn_tensor *k, kn_tensor *v) {
    kn_tensor *score = kn_mul_s(kn_matmul(q, kn_transpose(k, -1, -2)), 1 / sqrt((double)WIDTH));
    kn_tensor *at = kn_arange(kn, 0, LENGTH, 1, KN_I32);
    kn_tensor *ahead = kn_gt(at, kn_reshape(at, KN_DIMS(LENGTH, 1))); /* (LENGTH, LENGTH), never stored */
    kn_tensor *masked = kn_where(ahead, kn_full(kn, -INFINITY, KN_F32, NULL, 0), score);
    return kn_matmul(kn_softmax(masked, -1), v);
}

static double reference(const float *q, const float *k, const float *v, int head, int row, int col) {
    double top = -INFINITY, sum = 0, out = 0, p[LENGTH];
    for (int j = 0; j <= row; j++) {
        p[j] = 0;
        for (int i = 0; i < WIDTH; i++)
            p[j] += (double)q[(head * LENGTH + row) * WIDTH + i] * (double)k[(head * LENGTH + j) * WIDTH + i];
        p[j] /= sqrt((double)WIDTH);
        top = fmax(top, p[j]);
    }
    for (int j = 0; j <= row; j++) sum += p[j] = exp(p[j] - top);
    for (int j = 0; j <= row; j++) out += p[j] / sum * (double)v[(head * LENGTH + j) * WIDTH + col];
    return out;
}

int main(void) {
    static float host[4][HEADS * LENGTH * WIDTH];
    kn_context  *kn = kn_open(NULL);
    kn_tensor   *in[3], *out = NULL;
    kn_seed(kn, 7);
    for (int i = 0; i < 3; i++) {
        in[i] = kn_randn(kn, KN_DIMS(HEADS, LENGTH, WIDTH));
        kn_read(in[i], KN_F32, host[i], sizeof(host[i]));
    }
    kn_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
    for (int round = 0; round <= ROUNDS; round++) { /* compiled in the first round, only run in the others */
        kn_scope *s = kn_begin(kn);
        out = attention(kn, in[0], in[1], in[2]);
        kn_read(out, KN_F32, host[3], sizeof(host[3]));
        if (kn_end(s) != KN_OK) break;
        kn_get_stats(kn, round ? &after : &before);
    }
    double worst = 0;
    for (int h = 0; h < HEADS; h++)
        for (int r = 0; r < LENGTH; r += 7)
            for (int c = 0; c < WIDTH; c++) {
                double want = reference(host[0], host[1], host[2], h, r, c);
                worst = fmax(worst, fabs((double)host[3][(h * LENGTH + r) * WIDTH + c] - want));
            }
    if (*kn_error(kn)) fprintf(stderr, "%s\n", kn_error(kn));
    printf("%d heads of %dx%d: %llu kernels, %.0f us a run, largest error %.1e\n", (int)HEADS, (int)LENGTH, (int)WIDTH,
           (unsigned long long)after.kernels_last, (after.run_seconds - before.run_seconds) / ROUNDS * 1e6, worst);
    kn_close(kn);
    return worst < 1e-5 ? 0 : 1;
}
