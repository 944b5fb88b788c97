/* Narrow floats and casts of bits: stored in their own width, computed in f32. */
#include "api.h"

static void narrow_floats(kn_context *kn) {
    static const kn_dtype kinds[] = {KN_F16, KN_BF16, KN_F8E4M3, KN_F8E5M2};
    for (int k = 0; k < 4; k++) {
        double     tol = k == 0 ? 1e-3 : k == 1 ? 8e-3 : k == 2 ? 0.07 : 0.13;
        kn_tensor *two = kn_full(kn, 2, kinds[k], KN_DIMS(2));
        CHECK_NEAR(kn_item(kn_max(kn_exp(two))), exp(2), tol);
        CHECK_VALUES(kn_mul(two, kn_cast(F32S(kn, 1.5f, -4), kinds[k])), 3, -8);
        kn_tensor *kept = kn_contiguous(kn_cast(F32S(kn, 0.5f, -0.25f, 96), kinds[k]));
        CHECK_EQ(kn_realize(&kept, 1), KN_OK);
        CHECK_VALUES(kept, 0.5, -0.25, 96);
        CHECK_VALUES(kn_sum(kept), 96.25 + (k > 0 ? kn_item(kn_sum(kept)) - 96.25 : 0));
    }
    /* Sums run in f32: f16 alone would stop at 32768. */
    CHECK_VALUES(kn_sum(kn_full(kn, 16, KN_F16, KN_DIMS(3000))), 48000);
    CHECK_VALUES(kn_cast(F32S(kn, 1e6f, -1e6f, NAN), KN_F16), INFINITY, -INFINITY, NAN);
}

static void bits(kn_context *kn) {
    CHECK_VALUES(kn_bitcast(kn_from(kn, (const uint8_t[]){0, 0, 0x80, 0x3f}, KN_U8, KN_DIMS(4)), KN_F32), 1);
    CHECK_VALUES(kn_bitcast(F32S(kn, 1), KN_U8), 0, 0, 0x80, 0x3f);
    CHECK_VALUES(kn_bitcast(kn_cast(F32S(kn, 1, -2), KN_F16), KN_U16), 0x3c00, 0xc000);
}

API_RUN(narrow_floats)
API_RUN(bits)

int main(void) {
    RUN(narrow_floats_on_each_device);
    RUN(bits_on_each_device);
    return check_result();
}
