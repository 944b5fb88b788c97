/* hello.c - tensors, laziness, errors, and what the compiler makes of a program.
 *
 *   cc hello.c $(pkg-config --cflags --libs koine) -o hello && ./hello */
#include <koine.h>
#include <stdio.h>

static void print(const char *name, kn_tensor *t) {
    float v[64];
    int   cols = (int)kn_size(t, -1);
    if (kn_read(t, KN_F32, v, sizeof(v)) != KN_OK) return; /* computed here, at the first look */
    printf("%s:", name);
    for (int i = 0; i < (int)kn_numel(t); i++) printf("%s%6.2f", i % cols ? " " : "\n  ", (double)v[i]);
    printf("\n");
}

int main(void) {
    kn_context *kn = kn_open(NULL);
    const float data[] = {1, 2, 3, 4, 5, 6};
    kn_tensor  *x = kn_from(kn, data, KN_F32, KN_DIMS(2, 3));

    /* Every row to mean 0 and variance 1; sizes of 1 broadcast. */
    kn_tensor *mean = kn_mean(x, .axes = KN_AXES(1), .keep = 1);
    kn_tensor *dev = kn_std(x, .axes = KN_AXES(1), .keep = 1, .biased = 1);
    kn_tensor *y = kn_div(kn_sub(x, mean), dev);
    print("normalised", y);
    print("x times its transpose", kn_matmul(x, kn_transpose(x, 0, 1)));

    /* The same five ops as one loop over the rows. */
    printf("\nas the compiler sees the first program:\n");
    kn_tensor *again = kn_div(kn_sub(kn_mul_s(x, 2), kn_mean(x, .axes = KN_AXES(1), .keep = 1)), dev);
    kn_dump(again, "rangeify", stdout);

    /* A mistake is a value: nothing stops, and the first one is remembered with its line. */
    kn_tensor *wrong = kn_relu(kn_matmul(x, x));
    printf("\n%s\nand so is what follows from it: %s\n", kn_error(kn), kn_ok(wrong) ? "no" : "a poison tensor");
    kn_clear_error(kn);
    kn_close(kn);
    return 0;
}
