/* A program outside the project: links the library, computes something, and says so. */
#include <koine.h>
#include <stdio.h>

int main(void) {
    float       data[] = {1, 2, 3, 4, 5, 6};
    kn_config   cfg    = {.device = "INTERP", .size = sizeof cfg};
    kn_context *kn     = kn_open(&cfg);
    kn_tensor  *x      = kn_from(kn, data, KN_F32, KN_DIMS(2, 3));
    double      sum    = kn_item(kn_sum(kn_mul_s(x, 2.0)));
    printf("koine %s: %g %s\n", kn_version_text(), sum, kn_error(kn));
    kn_close(kn);
    return sum == 42.0 && kn_version() == KN_VERSION_MAJOR * 10000 + KN_VERSION_MINOR * 100 + KN_VERSION_PATCH ? 0 : 1;
}
