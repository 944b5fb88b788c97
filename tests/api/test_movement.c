/* Views, joins and creation: shapes and where each element goes. */
#include "api.h"

static kn_tensor *counting(kn_context *kn, const kn_dim *dims, int rank) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    return kn_reshape(kn_arange(kn, 0, (double)n, 1, KN_F32), dims, rank);
}

static void creation(kn_context *kn) {
    CHECK_VALUES(kn_full(kn, 2.5, KN_F32, KN_DIMS(2, 2)), 2.5, 2.5, 2.5, 2.5);
    CHECK_VALUES(kn_zeros(kn, KN_I64, KN_DIMS(3)), 0, 0, 0);
    CHECK_VALUES(kn_ones(kn, KN_BOOL, KN_DIMS(2)), 1, 1);
    CHECK_VALUES(kn_empty(kn, KN_F16, KN_DIMS(3)), 0, 0, 0);
    CHECK_VALUES(kn_scalar_f32(kn, 0.1), (double)0.1f);
    CHECK_EQ(kn_rank(kn_scalar_f32(kn, 1)), 0);
    CHECK_VALUES(kn_arange(kn, 0, 4, 1, KN_I32), 0, 1, 2, 3);
    CHECK_VALUES(kn_arange(kn, 5, -1, -2, KN_I64), 5, 3, 1);
    CHECK_VALUES(kn_arange(kn, 0, 1, 0.25, KN_F32), 0, 0.25, 0.5, 0.75);
    CHECK_VALUES(kn_arange(kn, 250, 256, 1, KN_U8), 250, 251, 252, 253, 254, 255);
    CHECK_EQ(kn_numel(kn_arange(kn, 3, 3, 1, KN_I32)), 0);
    CHECK_VALUES(kn_eye(kn, 3, KN_F32), 1, 0, 0, 0, 1, 0, 0, 0, 1);
    CHECK_VALUES(kn_full(kn, 18446744073709549568.0, KN_U64, NULL, 0), 18446744073709549568.0);
    float data[] = {1, 2, 3};
    kn_tensor *copy = kn_from(kn, data, KN_F32, KN_DIMS(3)), *lent = kn_wrap(kn, data, KN_F32, KN_DIMS(3));
    CHECK_VALUES(kn_sub(copy, lent), 0, 0, 0);
    data[0] = 10;
    CHECK_VALUES(copy, 1, 2, 3);
    CHECK_VALUES(kn_mul_s(lent, 2), 20, 4, 6);
    CHECK_EQ(kn_numel(kn_from(kn, NULL, KN_F32, KN_DIMS(2, 0))), 0);
    CHECK_FAILS(kn, kn_from(kn, NULL, KN_F32, KN_DIMS(2)), KN_ERR_ARG, "kn_from: data is NULL");
    CHECK_FAILS(kn, kn_wrap(kn, (char *)data + 1, KN_F32, KN_DIMS(1)), KN_ERR_ARG, "kn_wrap: data is not aligned");
    CHECK_FAILS(kn, kn_zeros(kn, KN_F32, KN_DIMS(2, -1)), KN_ERR_SHAPE, "kn_zeros: (2,-1) has a negative size");
    CHECK_FAILS(kn, kn_zeros(kn, KN_F32, KN_DIMS(1L << 40, 1L << 40)), KN_ERR_SHAPE, "too many elements");
    CHECK_FAILS(kn, kn_zeros(kn, KN_INDEX, KN_DIMS(2)), KN_ERR_DTYPE, "dtype index");
    CHECK_FAILS(kn, kn_zeros(kn, KN_F32, NULL, 17), KN_ERR_ARG, "kn_zeros");
    CHECK_FAILS(kn, kn_full(kn, 0.5, KN_I32, KN_DIMS(2)), KN_ERR_DTYPE, "kn_full: 0.5 is no value of i32");
    CHECK_FAILS(kn, kn_full(kn, 256, KN_U8, KN_DIMS(2)), KN_ERR_DTYPE, "kn_full: 256 is no value of u8");
    CHECK_FAILS(kn, kn_arange(kn, 0, 1, 0, KN_F32), KN_ERR_ARG, "never ends");
    CHECK_FAILS(kn, kn_arange(kn, 0, 1, 0.5, KN_I32), KN_ERR_DTYPE, "a step of 0.5 needs a float dtype");
    CHECK_FAILS(kn, kn_arange(kn, 0, 300, 1, KN_U8), KN_ERR_DTYPE, "299 is no value of u8");
}

static void reshaping(kn_context *kn) {
    kn_tensor *x = counting(kn, KN_DIMS(2, 3));
    CHECK_SHAPE(kn_reshape(x, KN_DIMS(3, -1)), 3, 2);
    CHECK_VALUES(kn_reshape(x, KN_DIMS(3, 2)), 0, 1, 2, 3, 4, 5);
    CHECK_VALUES(kn_transpose(x, 0, -1), 0, 3, 1, 4, 2, 5);
    CHECK_SHAPE(kn_permute(counting(kn, KN_DIMS(2, 3, 4)), (int[]){2, 0, 1}, 3), 4, 2, 3);
    CHECK_VALUES(kn_permute(counting(kn, KN_DIMS(1, 2, 3)), (int[]){2, -2, 0}, 3), 0, 3, 1, 4, 2, 5);
    CHECK_VALUES(kn_expand(kn_reshape(kn_rows(kn_flatten(x, 0), 0, 2), KN_DIMS(2, 1)), KN_DIMS(2, -1, 2)), 0, 0, 1, 1,
                 0, 0, 1, 1);
    CHECK_VALUES(kn_flip(x, 1), 2, 1, 0, 5, 4, 3);
    CHECK_VALUES(kn_flip(x, -2), 3, 4, 5, 0, 1, 2);
    CHECK_VALUES(kn_pad(x, (kn_dim[]){0, 1}, (kn_dim[]){1, 0}, 2), 0, 0, 1, 2, 0, 3, 4, 5, 0, 0, 0, 0);
    CHECK_VALUES(kn_shrink(x, (kn_dim[]){1, 0}, (kn_dim[]){2, 2}, 2), 3, 4);
    CHECK_VALUES(kn_rows(x, 1, 1), 3, 4, 5);
    CHECK_SHAPE(kn_rows(x, 2, 0), 0, 3);
    CHECK_SHAPE(kn_unsqueeze(x, -1), 2, 3, 1);
    CHECK_SHAPE(kn_unsqueeze(x, 0), 1, 2, 3);
    CHECK_SHAPE(kn_squeeze(kn_unsqueeze(x, 1), 1), 2, 3);
    CHECK_SHAPE(kn_flatten(counting(kn, KN_DIMS(2, 3, 4)), 1), 2, 12);
    CHECK_SHAPE(kn_flatten(kn_scalar_f32(kn, 1), 0), 1);
    CHECK_EQ(kn_size(x, -1), 3);
    CHECK_FAILS(kn, kn_reshape(x, KN_DIMS(4, 2)), KN_ERR_SHAPE, "kn_reshape: (2,3) has 6 elements, (4,2) asks for 8");
    CHECK_FAILS(kn, kn_reshape(x, KN_DIMS(4, -1)), KN_ERR_SHAPE, "kn_reshape: (2,3) has 6 elements");
    CHECK_FAILS(kn, kn_reshape(x, KN_DIMS(-1, -1)), KN_ERR_SHAPE, "kn_reshape");
    CHECK_FAILS(kn, kn_reshape(x, NULL, 2), KN_ERR_ARG, "dims is NULL");
    CHECK_FAILS(kn, kn_expand(x, KN_DIMS(4, 3)), KN_ERR_SHAPE, "kn_expand: (2,3) does not expand to (4,3)");
    CHECK_FAILS(kn, kn_permute(x, (int[]){0, 0}, 2), KN_ERR_ARG, "axis 0 appears twice");
    CHECK_FAILS(kn, kn_transpose(x, 0, 2), KN_ERR_ARG, "kn_transpose: no axis 2: the tensor is (2,3)");
    CHECK_FAILS(kn, kn_rows(x, 1, 2), KN_ERR_SHAPE, "kn_rows: (2,3) has no 2 rows from 1 on");
    CHECK_FAILS(kn, kn_squeeze(x, 0), KN_ERR_SHAPE, "kn_squeeze: axis 0 of (2,3) is not of size 1");
    CHECK_FAILS(kn, kn_shrink(x, (kn_dim[]){0, 2}, (kn_dim[]){2, 4}, 2), KN_ERR_SHAPE, "kn_shrink: 2 to 4");
    CHECK_FAILS(kn, kn_pad(x, (kn_dim[]){0, -1}, (kn_dim[]){0, 0}, 2), KN_ERR_ARG, "kn_pad: axis 1");
}

static void joining(kn_context *kn) {
    kn_tensor *a = counting(kn, KN_DIMS(2, 2)), *b = kn_add_s(counting(kn, KN_DIMS(2, 1)), 10);
    CHECK_VALUES(kn_cat((kn_tensor *[]){a, b}, 2, 1), 0, 1, 10, 2, 3, 11);
    CHECK_VALUES(kn_cat((kn_tensor *[]){a, a, a}, 3, -2), 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
    CHECK_VALUES(kn_cat((kn_tensor *[]){a}, 1, 0), 0, 1, 2, 3);
    kn_tensor *none = kn_zeros(kn, KN_F32, KN_DIMS(2, 0));
    CHECK_VALUES(kn_cat((kn_tensor *[]){none, a, none}, 3, 1), 0, 1, 2, 3);
    CHECK_SHAPE(kn_cat((kn_tensor *[]){none, none}, 2, 1), 2, 0);
    kn_tensor *x = F32S(kn, 1, NAN), *y = F32S(kn, INFINITY, 4);
    CHECK_SHAPE(kn_stack((kn_tensor *[]){x, y}, 2, 0), 2, 2);
    CHECK_VALUES(kn_stack((kn_tensor *[]){x, y}, 2, 0), 1, NAN, INFINITY, 4);
    CHECK_VALUES(kn_stack((kn_tensor *[]){x, y}, 2, -1), 1, INFINITY, NAN, 4);
    CHECK_VALUES(kn_cat((kn_tensor *[]){kn_eq_s(x, 1), kn_eq_s(y, 4)}, 2, 0), 1, 0, 0, 1);
    CHECK_EQ(kn_dtype_of(kn_cat((kn_tensor *[]){I32S(kn, 1), y}, 2, 0)), KN_F32);
    CHECK_FAILS(kn, kn_cat((kn_tensor *[]){a, kn_zeros(kn, KN_F32, KN_DIMS(3, 3))}, 2, 0), KN_ERR_SHAPE,
                "kn_cat: (2,2) and (3,3) differ in more than axis 0");
    CHECK_FAILS(kn, kn_stack((kn_tensor *[]){a, b}, 2, 0), KN_ERR_SHAPE, "kn_stack: (2,2) and (2,1)");
    CHECK_FAILS(kn, kn_cat((kn_tensor *[]){a, NULL}, 2, 0), KN_ERR_ARG, "kn_cat: a tensor is NULL");
    CHECK(kn_cat(NULL, 0, 0) == NULL);
}

API_RUN(creation)
API_RUN(reshaping)
API_RUN(joining)

int main(void) {
    RUN(creation_on_each_device);
    RUN(reshaping_on_each_device);
    RUN(joining_on_each_device);
    return check_result();
}
