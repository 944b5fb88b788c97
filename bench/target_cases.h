/* The programs of bench_target: what users write, by name, with the shapes and dtypes of their inputs. */
#ifndef KN_BENCH_TARGET_CASES_H
#define KN_BENCH_TARGET_CASES_H

#include "target_program.h"

#define BODY(NAME, ...) \
    static kn_tensor *NAME(kn_context *kn, const program *p, kn_tensor *const in[]) { \
        return (void)kn, (void)p, (void)in, __VA_ARGS__; \
    }
BODY(matmul, kn_matmul(in[0], in[1]))
BODY(matmul_nt, kn_matmul(in[0], kn_transpose(in[1], 0, 1)))
BODY(matmul_tn, kn_matmul(kn_transpose(in[0], 0, 1), in[1]))
BODY(dense, kn_relu(kn_add(kn_matmul(in[0], in[1]), in[2])))
BODY(chain, kn_relu(kn_add(kn_mul(in[0], in[1]), in[2])))
BODY(gelu, kn_gelu(in[0]))
BODY(sine, kn_sin(in[0]))
BODY(softmax, kn_softmax(in[0], 1))
BODY(sum, kn_sum(in[0]))
BODY(rows, kn_sum(in[0], .axes = KN_AXES(1)))
BODY(columns, kn_sum(in[0], .axes = KN_AXES(0)))
BODY(norm, kn_layer_norm(in[0], 1e-5))
BODY(entropy, kn_cross_entropy(in[0], in[1]))
BODY(places, kn_argmax(in[0], 1))
BODY(prefix, kn_cumsum(in[0], 1))
BODY(gather, kn_gather(in[0], 0, in[1]))
BODY(gather_last, kn_gather(in[0], 1, in[1]))
BODY(conv, kn_conv2d(in[0], in[1], in[2], .padding = {1, 1}))
BODY(pool, kn_max_pool2d(in[0], .kernel = {2, 2}))
BODY(transpose, kn_mul_s(kn_transpose(in[0], 0, 1), 2))
BODY(swapped, kn_mul_s(kn_permute(in[0], (int[]){1, 0, 2}, 3), 2))
BODY(flipped, kn_mul_s(kn_flip(in[0], 1), 2))
BODY(strided, kn_sum(kn_reshape(in[0], (kn_dim[]){-1, 4}, 2), .axes = KN_AXES(1)))
BODY(padded, kn_pad(in[0], (kn_dim[]){1, 1}, (kn_dim[]){1, 1}, 2))
BODY(to_i32, kn_cast(kn_mul_s(in[0], 100), KN_I32))
BODY(to_u8, kn_cast(kn_mul_s(in[0], 255), KN_U8))
BODY(from_u8, kn_mul_s(kn_cast(in[0], KN_F32), 1.0 / 255))
BODY(to_f16, kn_cast(in[0], KN_F16))
BODY(to_bf16, kn_cast(in[0], KN_BF16))
BODY(twice, kn_mul_s(in[0], 2))
BODY(plus, kn_add(in[0], in[1]))
BODY(divided, kn_floordiv(in[0], kn_full(kn, 10, KN_I32, NULL, 0)))
BODY(remainder_of, kn_mod(in[0], in[1]))
BODY(chosen, kn_where(kn_gt_s(in[0], 0.5), in[0], in[1]))
BODY(drop, kn_dropout(in[0], 0.5, 1))
BODY(uniform, kn_add(kn_rand(kn, (kn_dim[]){512, 512}, 2), in[0]))
BODY(tanh_of, kn_tanh(in[0]))
BODY(erf_of, kn_erf(in[0]))
BODY(exp_of, kn_exp(in[0]))
BODY(log_of, kn_log(in[0]))
BODY(pow_of, kn_pow(in[0], in[1]))
BODY(silu, kn_silu(in[0]))
BODY(sigmoid, kn_sigmoid(in[0]))
BODY(rsqrt, kn_rsqrt(in[0]))
BODY(root, kn_sqrt(in[0]))
BODY(floor_of, kn_floor(kn_mul_s(in[0], 10)))
BODY(clip, kn_clamp(in[0], 0.2, 0.7))
BODY(quotient, kn_div(in[0], in[1]))
BODY(greatest, kn_max(in[0]))
BODY(greatest_rows, kn_max(in[0], .axes = KN_AXES(1)))
BODY(greatest_columns, kn_max(in[0], .axes = KN_AXES(0)))
BODY(least_rows, kn_min(in[0], .axes = KN_AXES(1)))
BODY(product_rows, kn_prod(in[0], .axes = KN_AXES(1)))
BODY(mean_rows, kn_mean(in[0], .axes = KN_AXES(1)))
BODY(variance, kn_var(in[0], .axes = KN_AXES(1)))
BODY(variance_columns, kn_var(in[0], .axes = KN_AXES(0)))
BODY(middle, kn_sum(in[0], .axes = KN_AXES(1)))
BODY(any_row, kn_max(kn_gt_s(in[0], 0.999), .axes = KN_AXES(1)))
BODY(all_row, kn_min(kn_gt_s(in[0], 0.001), .axes = KN_AXES(1)))
BODY(count_row, kn_sum(kn_cast(kn_gt_s(in[0], 0.5), KN_I32), .axes = KN_AXES(1)))
BODY(softmax_columns, kn_softmax(in[0], 0))
BODY(log_softmax, kn_log_softmax(in[0], 1))
BODY(rms_norm, kn_mul(in[0], kn_rsqrt(kn_add_s(kn_mean(kn_square(in[0]), .axes = KN_AXES(1), .keep = 1), 1e-5))))
BODY(batch_norm, kn_mul(kn_sub(in[0], in[1]), kn_rsqrt(in[2])))
BODY(lowest_places, kn_argmin(in[0], 1))
BODY(places_columns, kn_argmax(in[0], 0))
BODY(prefix_columns, kn_cumsum(in[0], 0))
BODY(one_hot, kn_one_hot(in[0], 100, KN_F32))
BODY(embedding, kn_matmul(kn_one_hot(in[1], 1000, KN_F32), in[0]))
BODY(scatter, kn_scatter_add(in[0], 0, in[1], in[2]))
BODY(mean_pool, kn_avg_pool2d(in[0], .kernel = {2, 2}))
BODY(overlapping_pool, kn_max_pool2d(in[0], .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}))
BODY(conv_plain, kn_conv2d(in[0], in[1], NULL))
BODY(conv_strided, kn_conv2d(in[0], in[1], NULL, .padding = {1, 1}, .stride = {2, 2}))
BODY(depthwise, kn_conv2d(in[0], in[1], NULL, .padding = {1, 1}, .groups = 32))
BODY(to_f32, kn_mul_s(kn_cast(in[0], KN_F32), 0.5))
BODY(to_f64, kn_cast(in[0], KN_F64))
BODY(to_i8, kn_cast(kn_mul_s(in[0], 100), KN_I8))
BODY(to_i16, kn_cast(in[0], KN_I16))
BODY(to_i64, kn_cast(in[0], KN_I64))
BODY(to_f8, kn_cast(in[0], KN_F8E4M3))
BODY(to_f8e5, kn_cast(in[0], KN_F8E5M2))
BODY(times, kn_mul(in[0], in[1]))
BODY(floor_divided, kn_floordiv(in[0], in[1]))
BODY(remainder_of_7, kn_mod(in[0], kn_full(kn, 7, kn_dtype_of(in[0]), NULL, 0)))
BODY(bits, kn_xor(kn_and(in[0], in[1]), kn_not(in[0])))
BODY(larger, kn_gt(in[0], in[1]))
BODY(same, kn_eq(in[0], in[1]))
BODY(either, kn_or(kn_gt_s(in[0], 0.7), kn_lt_s(in[1], 0.3)))
BODY(chosen_by, kn_where(in[0], in[1], in[2]))
BODY(absolute, kn_abs(kn_sub_s(in[0], 0.5)))
BODY(sign_of, kn_sign(kn_sub_s(in[0], 0.5)))
BODY(copied_turn, kn_contiguous(kn_transpose(in[0], 0, 1)))
BODY(heads, kn_contiguous(kn_permute(in[0], (int[]){0, 2, 1, 3}, 4)))
BODY(channels_last, kn_contiguous(kn_permute(in[0], (int[]){0, 2, 3, 1}, 4)))
BODY(flipped_rows, kn_contiguous(kn_flip(in[0], 0)))
BODY(inner, kn_mul_s(kn_shrink(in[0], (kn_dim[]){3, 5}, (kn_dim[]){500, 501}, 2), 2))
BODY(every_other, kn_max(kn_reshape(in[0], (kn_dim[]){512, 256, 2}, 3), .axes = KN_AXES(2)))
BODY(joined, kn_cat((kn_tensor *const[]){in[0], in[1]}, 2, 1))
BODY(joined_rows, kn_cat((kn_tensor *const[]){in[0], in[1]}, 2, 0))
BODY(stacked, kn_stack((kn_tensor *const[]){in[0], in[1]}, 2, 2))
BODY(repeated, kn_contiguous(kn_expand(kn_reshape(in[0], (kn_dim[]){256, 1, 256}, 3), (kn_dim[]){-1, 4, -1}, 3)))
BODY(repeated_lanes, kn_contiguous(kn_expand(kn_unsqueeze(in[0], 2), (kn_dim[]){-1, -1, 4}, 3)))
BODY(outer, kn_mul(kn_unsqueeze(in[0], 1), kn_unsqueeze(in[1], 0)))
BODY(biased, kn_add(in[0], in[1]))
BODY(cosine, kn_cos(in[0]))
BODY(shifted_mask, kn_and(kn_floordiv(in[0], kn_full(kn, 8, kn_dtype_of(in[0]), NULL, 0)), in[1]))
BODY(clamped, kn_minimum(kn_maximum(in[0], in[1]), kn_full(kn, 50, kn_dtype_of(in[0]), NULL, 0)))
BODY(chosen_row, kn_where(kn_gt_s(in[1], 0.5), in[0], kn_neg(in[0])))
BODY(outer_axes, kn_sum(in[0], .axes = KN_AXES(0, 2)))
BODY(any_column, kn_max(kn_gt_s(in[0], 0.999), .axes = KN_AXES(0)))
BODY(mean_columns, kn_mean(in[0], .axes = KN_AXES(0)))
BODY(matmul_tt, kn_matmul(kn_transpose(in[0], 0, 1), kn_transpose(in[1], 0, 1)))
BODY(matmul_batch_nt, kn_matmul(in[0], kn_transpose(in[1], 1, 2)))
BODY(normalised, kn_div(in[0], kn_std(in[0], .axes = KN_AXES(1), .keep = 1)))
BODY(l2, kn_sqrt(kn_sum(kn_square(in[0]), .axes = KN_AXES(1))))
BODY(hinge, kn_mean(kn_relu(kn_rsub_s(kn_mul(in[0], in[1]), 1))))
BODY(softplus, kn_log(kn_add_s(kn_exp(in[0]), 1)))
BODY(dilated, kn_conv2d(in[0], in[1], NULL, .padding = {2, 2}, .dilation = {2, 2}))
BODY(grouped, kn_conv2d(in[0], in[1], NULL, .padding = {1, 1}, .groups = 4))
BODY(gelu_step, gradient_of(kn_sum(kn_gelu(in[0])), in[0]))
BODY(softmax_step, gradient_of(kn_sum(kn_square(kn_softmax(in[0], 1))), in[0]))
BODY(norm_step, gradient_of(kn_sum(kn_square(kn_layer_norm(in[0], 1e-5))), in[0]))
BODY(entropy_step, gradient_of(kn_mean(kn_cross_entropy(in[0], in[1])), in[0]))
BODY(pool_step, gradient_of(kn_sum(kn_square(kn_max_pool2d(in[0], .kernel = {2, 2}))), in[0]))
BODY(gather_step, gradient_of(kn_sum(kn_square(kn_gather(in[0], 0, in[1]))), in[0]))
BODY(conv_input_step, gradient_of(kn_sum(kn_square(kn_conv2d(in[0], in[1], NULL, .padding = {1, 1}))), in[0]))
BODY(absolute_of, kn_abs(in[0]))
BODY(product_columns, kn_prod(in[0], .axes = KN_AXES(0)))
BODY(least_columns, kn_min(in[0], .axes = KN_AXES(0)))
BODY(distances, kn_sum(kn_square(kn_sub(kn_unsqueeze(in[0], 1), kn_unsqueeze(in[1], 0))), .axes = KN_AXES(2)))

BODY(logsumexp, kn_log(kn_sum(kn_exp(in[0]), .axes = KN_AXES(1))))
BODY(std_rows, kn_std(in[0], .axes = KN_AXES(1)))
BODY(std_columns, kn_std(in[0], .axes = KN_AXES(0)))
BODY(huber, kn_mean(kn_where(kn_lt_s(kn_abs(kn_sub(in[0], in[1])), 1), kn_mul_s(kn_square(kn_sub(in[0], in[1])), .5),
                             kn_sub_s(kn_abs(kn_sub(in[0], in[1])), .5))))
BODY(square_error, kn_mean(kn_square(kn_sub(in[0], in[1]))))
BODY(dot, kn_sum(kn_mul(in[0], in[1])))
BODY(cosine_of_rows, kn_div(kn_sum(kn_mul(in[0], in[1]), .axes = KN_AXES(1)),
                            kn_mul(kn_sqrt(kn_sum(kn_square(in[0]), .axes = KN_AXES(1))),
                                   kn_sqrt(kn_sum(kn_square(in[1]), .axes = KN_AXES(1))))))
BODY(between, kn_add(in[0], kn_mul(in[2], kn_sub(in[1], in[0]))))
BODY(hypotenuse, kn_sqrt(kn_add(kn_square(in[0]), kn_square(in[1]))))
BODY(leaky, kn_where(kn_gt_s(in[0], .5), in[0], kn_mul_s(in[0], .01)))
BODY(elu, kn_where(kn_gt_s(in[0], .5), in[0], kn_sub_s(kn_exp(in[0]), 1)))
BODY(mish, kn_mul(in[0], kn_tanh(kn_log(kn_add_s(kn_exp(in[0]), 1)))))
BODY(rolled, kn_cat((kn_tensor *[]){kn_shrink(in[0], (kn_dim[]){0, 100}, (kn_dim[]){512, 512}, 2),
                                    kn_shrink(in[0], (kn_dim[]){0, 0}, (kn_dim[]){512, 100}, 2)},
                    2, 1))
BODY(joined_3, kn_cat((kn_tensor *[]){in[0], in[1], in[2]}, 3, 1))
BODY(joined_3_rows, kn_cat((kn_tensor *[]){in[0], in[1], in[2]}, 3, 0))
BODY(stacked_1, kn_stack((kn_tensor *[]){in[0], in[1]}, 2, 1))
BODY(stacked_2, kn_stack((kn_tensor *[]){in[0], in[1]}, 2, 2))
BODY(doubled, kn_contiguous(kn_reshape(kn_expand(kn_reshape(in[0], (kn_dim[]){16, 32, 1, 32, 1}, 5),
                                                 (kn_dim[]){16, 32, 2, 32, 2}, 5),
                                       (kn_dim[]){16, 64, 64}, 3)))
BODY(evens, kn_contiguous(kn_reshape(kn_shrink(kn_reshape(in[0], (kn_dim[]){512, 256, 2}, 3), (kn_dim[]){0, 0, 0},
                                               (kn_dim[]){512, 256, 1}, 3),
                                     (kn_dim[]){512, 256}, 2)))
BODY(grey, kn_sum(kn_mul(kn_cast(in[0], KN_F32), in[1]), .axes = KN_AXES(2)))
BODY(planes, kn_div_s(kn_cast(kn_permute(in[0], (int[]){2, 0, 1}, 3), KN_F32), 255))
BODY(pixels, kn_cast(kn_permute(kn_mul_s(in[0], 255), (int[]){1, 2, 0}, 3), KN_U8))
BODY(whitened, kn_div(kn_sub(in[0], in[1]), in[2]))
BODY(quotients, kn_floordiv(in[0], in[1]))
BODY(rests, kn_mod(in[0], in[1]))
BODY(floored_third, kn_floor(kn_div_s(in[0], 3)))
BODY(binary_entropy,
     kn_neg(kn_mean(kn_add(kn_mul(in[1], kn_log(in[0])), kn_mul(kn_rsub_s(in[1], 1), kn_log(kn_rsub_s(in[0], 1)))))))
BODY(divergence, kn_sum(kn_mul(in[0], kn_sub(kn_log(in[0]), kn_log(in[1]))), .axes = KN_AXES(1)))
BODY(gate_of_gru, kn_add(kn_mul(kn_sigmoid(in[0]), in[1]), kn_mul(kn_rsub_s(kn_sigmoid(in[0]), 1), kn_tanh(in[2]))))
BODY(glu, kn_mul(kn_shrink(in[0], (kn_dim[]){0, 0}, (kn_dim[]){512, 256}, 2),
                 kn_sigmoid(kn_shrink(in[0], (kn_dim[]){0, 256}, (kn_dim[]){512, 512}, 2))))
BODY(swiglu, kn_mul(kn_silu(kn_matmul(in[0], in[1])), kn_matmul(in[0], in[2])))
BODY(masked_softmax, kn_softmax(kn_where(in[1], in[0], kn_sub_s(kn_mul_s(in[0], 0), 1e9)), 1))
BODY(prefix_product, kn_exp(kn_cumsum(kn_log(in[0]), 1)))
BODY(differences, kn_sub(kn_shrink(in[0], (kn_dim[]){0, 1}, (kn_dim[]){512, 512}, 2),
                         kn_shrink(in[0], (kn_dim[]){0, 0}, (kn_dim[]){512, 511}, 2)))
BODY(laplace, kn_sub(kn_add(kn_add(kn_shrink(in[0], (kn_dim[]){0, 1}, (kn_dim[]){510, 511}, 2),
                                   kn_shrink(in[0], (kn_dim[]){2, 1}, (kn_dim[]){512, 511}, 2)),
                            kn_add(kn_shrink(in[0], (kn_dim[]){1, 0}, (kn_dim[]){511, 510}, 2),
                                   kn_shrink(in[0], (kn_dim[]){1, 2}, (kn_dim[]){511, 512}, 2))),
                     kn_mul_s(kn_shrink(in[0], (kn_dim[]){1, 1}, (kn_dim[]){511, 511}, 2), 4)))
BODY(max_middle, kn_max(in[0], .axes = KN_AXES(1)))
BODY(mean_planes, kn_mean(in[0], .axes = KN_AXES(1, 2)))
BODY(mean_channels, kn_mean(in[0], .axes = KN_AXES(0, 2)))
BODY(sum_first, kn_sum(in[0], .axes = KN_AXES(0)))
BODY(sum_second, kn_sum(in[0], .axes = KN_AXES(1)))
BODY(sum_third, kn_sum(in[0], .axes = KN_AXES(2)))
BODY(turned_021, kn_contiguous(kn_permute(in[0], (int[]){0, 2, 1}, 3)))
BODY(turned_201, kn_contiguous(kn_permute(in[0], (int[]){2, 0, 1}, 3)))
BODY(turned_120, kn_contiguous(kn_permute(in[0], (int[]){1, 2, 0}, 3)))
BODY(least_places_columns, kn_argmin(in[0], 0))
BODY(count_larger, kn_sum(kn_cast(kn_ge(in[0], in[1]), KN_I32)))
BODY(equal_rows, kn_min(kn_eq(in[0], in[1]), .axes = KN_AXES(1)))
BODY(differing_bits, kn_xor(in[0], in[1]))
BODY(but_not, kn_and(in[0], kn_not(in[1])))
BODY(cube, kn_pow_s(in[0], 3))
BODY(power_of_3_2, kn_pow_s(in[0], 1.5))
BODY(log2_of, kn_log2(kn_add_s(in[0], 1)))
BODY(exp2_of, kn_exp2(in[0]))
BODY(bell, kn_exp(kn_neg(kn_mul_s(kn_square(in[0]), .5))))
BODY(noisy, kn_add(kn_randn(kn, (kn_dim[]){512, 512}, 2), in[0]))
BODY(plus_arange, kn_add(in[0], kn_reshape(kn_arange(kn, 0, 512, 1, KN_F32), (kn_dim[]){1, 512}, 2)))
BODY(plus_eye, kn_add(in[0], kn_eye(kn, 512, KN_F32)))
BODY(bits_in_common, kn_bitcast(kn_and(kn_bitcast(in[0], KN_I32), kn_bitcast(in[1], KN_I32)), KN_F32))
BODY(halved_pictures, kn_avg_pool2d(in[0], .kernel = {2, 2}))
BODY(mean_of_pictures, kn_mean(in[0], .axes = KN_AXES(2, 3)))
BODY(biased_channels, kn_relu(kn_add(in[0], in[1])))
BODY(outer_of_rows, kn_mul(kn_unsqueeze(in[0], 2), kn_unsqueeze(in[1], 1)))
BODY(logsumexp_columns, kn_log(kn_sum(kn_exp(in[0]), .axes = KN_AXES(0))))
BODY(one_hot_100, kn_one_hot(in[0], 100, KN_F32))
BODY(less_the_largest, kn_sub(in[0], kn_max(in[0], .axes = KN_AXES(1), .keep = 1)))
BODY(sgd, kn_sub(in[0], kn_mul_s(kn_add(kn_mul_s(in[1], .9), in[2]), .01)))
BODY(clipped_norm, kn_mul(in[0], kn_minimum_s(kn_rdiv_s(kn_add_s(kn_sqrt(kn_sum(kn_square(in[0]))), 1e-6), 1), 1)))
BODY(conv_flat, kn_conv2d(in[0], in[1], NULL, .padding = {0, 4}))
BODY(conv_inside, kn_conv2d(in[0], in[1], NULL))

static kn_tensor *attention(kn_context *kn, const program *p, kn_tensor *const in[]) {
    (void)kn, (void)p;
    return kn_matmul(kn_softmax(kn_mul_s(kn_matmul(in[0], kn_transpose(in[1], 1, 2)), 0.125), 2), in[2]);
}

/* Of a square: what lies on and above the diagonal. */
static kn_tensor *upper(kn_context *kn, const program *p, kn_tensor *const in[]) {
    (void)p;
    kn_tensor *i = kn_iota(kn, kn_size(in[0], 0), KN_I32), *j = kn_iota(kn, kn_size(in[0], 1), KN_I32);
    return kn_where(kn_le(kn_unsqueeze(i, 1), kn_unsqueeze(j, 0)), in[0], kn_full(kn, 0, KN_F32, NULL, 0));
}
/* Adam's step: of a weight, its gradient and the two means. */
static kn_tensor *adam(kn_context *kn, const program *p, kn_tensor *const in[]) {
    (void)kn, (void)p;
    kn_tensor *m = kn_add(kn_mul_s(in[2], 0.9), kn_mul_s(in[1], 0.1)),
              *v = kn_add(kn_mul_s(in[3], 0.999), kn_mul_s(kn_square(in[1]), 0.001));
    return kn_sub(in[0], kn_mul_s(kn_div(m, kn_add_s(kn_sqrt(v), 1e-8)), 1e-3));
}
/* Rotary positions: halves of the last axis are turned by the angle. */
static kn_tensor *rotary(kn_context *kn, const program *p, kn_tensor *const in[]) {
    (void)kn, (void)p;
    kn_tensor *a       = kn_shrink(in[0], (kn_dim[]){0, 0}, (kn_dim[]){512, 64}, 2),
              *b       = kn_shrink(in[0], (kn_dim[]){0, 64}, (kn_dim[]){512, 128}, 2);
    kn_tensor *parts[] = {kn_sub(kn_mul(a, kn_cos(in[1])), kn_mul(b, kn_sin(in[1]))),
                          kn_add(kn_mul(a, kn_sin(in[1])), kn_mul(b, kn_cos(in[1])))};
    return kn_cat(parts, 2, 1);
}

static kn_tensor *mlp_step(kn_context *kn, const program *p, kn_tensor *const in[]) {
    (void)kn, (void)p;
    kn_tensor *hidden = kn_relu(kn_matmul(in[0], in[1]));
    return gradient_of(kn_mean(kn_square(kn_matmul(hidden, in[2]))), in[1]);
}
static kn_tensor *conv_step(kn_context *kn, const program *p, kn_tensor *const in[]) {
    (void)kn, (void)p;
    kn_tensor *y = kn_max_pool2d(kn_relu(kn_conv2d(in[0], in[1], in[2], .padding = {1, 1})), .kernel = {2, 2});
    return gradient_of(kn_mean(kn_square(y)), in[1]);
}

#define F(...) \
    { \
        KN_F32, 0, { \
            __VA_ARGS__ \
        } \
    }
#define T(DTYPE, ...) \
    { \
        DTYPE, 0, { \
            __VA_ARGS__ \
        } \
    }
#define N(DTYPE, MOST, ...) \
    { \
        DTYPE, MOST, { \
            __VA_ARGS__ \
        } \
    }
#define MEGA 1024, 1024

static const program cases[] = {
    {"matmul 128", matmul, {F(128, 128), F(128, 128)}},
    {"matmul 512", matmul, {F(512, 512), F(512, 512)}},
    {"matmul 1000", matmul, {F(1000, 1000), F(1000, 1000)}},
    {"matmul 100x90x70", matmul, {F(100, 90), F(90, 70)}},
    {"matmul a b' 256", matmul_nt, {F(256, 256), F(256, 256)}},
    {"matmul a' b 256", matmul_tn, {F(256, 256), F(256, 256)}},
    {"matmul f64 256", matmul, {T(KN_F64, 256, 256), T(KN_F64, 256, 256)}},
    {"dense 64x784x128", dense, {F(64, 784), F(784, 128), F(1, 128)}},
    {"matvec 1x2048x2048", matmul, {F(1, 2048), F(2048, 2048)}},
    {"matvec 2048x2048x1", matmul, {F(2048, 2048), F(2048, 1)}},
    {"attention 8x128x64", attention, {F(8, 128, 64), F(8, 128, 64), F(8, 128, 64)}},
    {"conv 3x3 16x28x28", conv, {F(8, 16, 28, 28), F(16, 16, 3, 3), F(16)}},
    {"max pool 16x28x28", pool, {F(32, 16, 28, 28)}},
    {"mlp step 64", mlp_step, {F(64, 784), F(784, 128), F(128, 10)}},
    {"conv step 16", conv_step, {F(16, 1, 28, 28), F(8, 1, 3, 3), F(8)}},
    {"relu(a*b+c) 1M", chain, {F(MEGA), F(MEGA), F(MEGA)}},
    {"relu(a*b+c) 64k", chain, {F(256, 256), F(256, 256), F(256, 256)}},
    {"2 a f64 256k", twice, {T(KN_F64, 512, 512)}},
    {"2 a f16 256k", twice, {T(KN_F16, 512, 512)}},
    {"2 a bf16 256k", twice, {T(KN_BF16, 512, 512)}},
    {"a + b i32 256k", plus, {N(KN_I32, 99, 512, 512), N(KN_I32, 99, 512, 512)}},
    {"a + b u8 1M", plus, {N(KN_U8, 99, MEGA), N(KN_U8, 99, MEGA)}},
    {"a // 10 i32 256k", divided, {N(KN_I32, 999, 512, 512)}},
    {"a mod b i32 64k", remainder_of, {N(KN_I32, 999, 256, 256), N(KN_I32, 9, 256, 256)}},
    {"where 256k", chosen, {F(512, 512), F(512, 512)}},
    {"to i32 256k", to_i32, {F(512, 512)}},
    {"to u8 256k", to_u8, {F(512, 512)}},
    {"from u8 256k", from_u8, {N(KN_U8, 255, 512, 512)}},
    {"to f16 256k", to_f16, {F(512, 512)}},
    {"to bf16 256k", to_bf16, {F(512, 512)}},
    {"gelu 1M", gelu, {F(MEGA)}},
    {"sin 256k", sine, {F(512, 512)}},
    {"dropout 256k", drop, {F(512, 512)}},
    {"softmax 1024x1024", softmax, {F(MEGA)}},
    {"softmax 4096x10", softmax, {F(4096, 10)}},
    {"layer norm 256x768", norm, {F(256, 768)}},
    {"cross entropy 512x10", entropy, {F(512, 10), N(KN_I32, 9, 512)}},
    {"cross entropy 256x1000", entropy, {F(256, 1000), N(KN_I32, 999, 256)}},
    {"argmax 1024x1024", places, {F(MEGA)}},
    {"cumsum 512x512", prefix, {F(512, 512)}},
    {"sum 1M", sum, {F(MEGA)}},
    {"sum rows 1024", rows, {F(MEGA)}},
    {"sum columns 1024", columns, {F(MEGA)}},
    {"sum fours 256k", strided, {F(512, 512)}},
    {"gather rows", gather, {F(1000, 64), N(KN_I32, 999, 2048, 64)}},
    {"gather along", gather_last, {F(64, 64), N(KN_I32, 63, 64, 64)}},
    {"transpose 1024", transpose, {F(MEGA)}},
    {"swap axes", swapped, {F(64, 64, 64)}},
    {"flip 512", flipped, {F(512, 512)}},
    {"pad 510", padded, {F(510, 510)}},
    {"random 256k", uniform, {F(512, 512)}},
    {"tanh 256k", tanh_of, {F(512, 512)}},
    {"erf 256k", erf_of, {F(512, 512)}},
    {"exp 256k", exp_of, {F(512, 512)}},
    {"log 256k", log_of, {F(512, 512)}},
    {"silu 256k", silu, {F(512, 512)}},
    {"sigmoid 256k", sigmoid, {F(512, 512)}},
    {"rsqrt 256k", rsqrt, {F(512, 512)}},
    {"sqrt 256k", root, {F(512, 512)}},
    {"floor 256k", floor_of, {F(512, 512)}},
    {"clip 256k", clip, {F(512, 512)}},
    {"abs 256k", absolute, {F(512, 512)}},
    {"sign 256k", sign_of, {F(512, 512)}},
    {"pow 256k", pow_of, {F(512, 512), F(512, 512)}},
    {"exp f64 64k", exp_of, {T(KN_F64, 256, 256)}},
    {"sin f64 64k", sine, {T(KN_F64, 256, 256)}},
    {"exp f16 256k", exp_of, {T(KN_F16, 512, 512)}},
    {"gelu bf16 256k", gelu, {T(KN_BF16, 512, 512)}},
    {"a / b 256k", quotient, {F(512, 512), F(512, 512)}},
    {"a / b f64 256k", quotient, {T(KN_F64, 512, 512), T(KN_F64, 512, 512)}},
    {"sum rows f64", rows, {T(KN_F64, 512, 512)}},
    {"sum columns f64", columns, {T(KN_F64, 512, 512)}},
    {"max rows f64", greatest_rows, {T(KN_F64, 512, 512)}},
    {"sum rows f16", rows, {T(KN_F16, 512, 512)}},
    {"sum columns f16", columns, {T(KN_F16, 512, 512)}},
    {"max rows f16", greatest_rows, {T(KN_F16, 512, 512)}},
    {"sum rows bf16", rows, {T(KN_BF16, 512, 512)}},
    {"sum columns bf16", columns, {T(KN_BF16, 512, 512)}},
    {"max rows bf16", greatest_rows, {T(KN_BF16, 512, 512)}},
    {"sum rows i32", rows, {N(KN_I32, 9, 512, 512)}},
    {"sum columns i32", columns, {N(KN_I32, 9, 512, 512)}},
    {"max rows i32", greatest_rows, {N(KN_I32, 9, 512, 512)}},
    {"sum rows i64", rows, {N(KN_I64, 9, 512, 512)}},
    {"sum columns i64", columns, {N(KN_I64, 9, 512, 512)}},
    {"max rows i64", greatest_rows, {N(KN_I64, 9, 512, 512)}},
    {"sum rows u8", rows, {N(KN_U8, 9, 512, 512)}},
    {"sum columns u8", columns, {N(KN_U8, 9, 512, 512)}},
    {"max rows u8", greatest_rows, {N(KN_U8, 9, 512, 512)}},
    {"sum rows i16", rows, {N(KN_I16, 9, 512, 512)}},
    {"sum columns i16", columns, {N(KN_I16, 9, 512, 512)}},
    {"max rows i16", greatest_rows, {N(KN_I16, 9, 512, 512)}},
    {"max 1M", greatest, {F(MEGA)}},
    {"max rows 512", greatest_rows, {F(512, 512)}},
    {"max columns 512", greatest_columns, {F(512, 512)}},
    {"min rows 512", least_rows, {F(512, 512)}},
    {"prod rows 512", product_rows, {F(512, 512)}},
    {"mean rows 512", mean_rows, {F(512, 512)}},
    {"mean rows 8192x32", mean_rows, {F(8192, 32)}},
    {"var rows 512", variance, {F(512, 512)}},
    {"var columns 512", variance_columns, {F(512, 512)}},
    {"sum middle", middle, {F(64, 64, 64)}},
    {"any rows", any_row, {F(512, 512)}},
    {"all rows", all_row, {F(512, 512)}},
    {"count rows", count_row, {F(512, 512)}},
    {"softmax columns", softmax_columns, {F(512, 512)}},
    {"softmax f64", softmax, {T(KN_F64, 256, 256)}},
    {"log softmax 512", log_softmax, {F(512, 512)}},
    {"rms norm 256x768", rms_norm, {F(256, 768)}},
    {"layer norm bf16", norm, {T(KN_BF16, 256, 768)}},
    {"batch norm", batch_norm, {F(32, 32, 28, 28), F(1, 32, 1, 1), F(1, 32, 1, 1)}},
    {"argmin 512", lowest_places, {F(512, 512)}},
    {"argmin i32", lowest_places, {N(KN_I32, 9999, 512, 512)}},
    {"argmax f64", places, {T(KN_F64, 512, 512)}},
    {"argmax 4096x10", places, {F(4096, 10)}},
    {"argmax columns", places_columns, {F(512, 512)}},
    {"cumsum columns 512", prefix_columns, {F(512, 512)}},
    {"cumsum f64 512", prefix, {T(KN_F64, 512, 512)}},
    {"cumsum i32 512", prefix, {N(KN_I32, 9, 512, 512)}},
    {"cumsum i64 512", prefix, {N(KN_I64, 9, 512, 512)}},
    {"cumsum 64x64", prefix, {F(64, 64)}},
    {"cumsum columns f64", prefix_columns, {T(KN_F64, 512, 512)}},
    {"one hot 4096", one_hot, {N(KN_I32, 99, 4096)}},
    {"embedding", embedding, {F(1000, 64), N(KN_I32, 999, 1024)}},
    {"embedding i64", embedding, {F(1000, 64), N(KN_I64, 999, 1024)}},
    {"gather rows i64", gather, {F(1000, 64), N(KN_I64, 999, 2048)}},
    {"gather rows f64", gather, {T(KN_F64, 1000, 64), N(KN_I32, 999, 2048)}},
    {"gather u8", gather, {N(KN_U8, 99, 1000, 64), N(KN_I32, 999, 2048)}},
    {"gather bf16", gather, {T(KN_BF16, 1000, 64), N(KN_I32, 999, 2048)}},
    {"gather last 512", gather_last, {F(256, 512), N(KN_I32, 511, 512)}},
    {"gather last i64", gather_last, {F(256, 512), N(KN_I64, 511, 512)}},
    {"gather list", gather, {F(4096), N(KN_I32, 4095, 65536)}},
    {"scatter add", scatter, {F(1000, 64), N(KN_I32, 999, 256), F(256, 64)}},
    {"avg pool", mean_pool, {F(32, 16, 28, 28)}},
    {"max pool 3x3/2", overlapping_pool, {F(8, 32, 56, 56)}},
    {"conv 1x1", conv_plain, {F(4, 64, 28, 28), F(64, 64, 1, 1)}},
    {"conv 3x3/2", conv_strided, {F(4, 16, 56, 56), F(32, 16, 3, 3)}},
    {"conv 5x5", conv_plain, {F(4, 8, 32, 32), F(16, 8, 5, 5)}},
    {"conv depthwise", depthwise, {F(4, 32, 28, 28), F(32, 1, 3, 3)}},
    {"from i8 256k", to_f32, {N(KN_I8, 99, 512, 512)}},
    {"from i16 256k", to_f32, {N(KN_I16, 999, 512, 512)}},
    {"from u16 256k", to_f32, {N(KN_U16, 999, 512, 512)}},
    {"from i32 256k", to_f32, {N(KN_I32, 999, 512, 512)}},
    {"from u32 256k", to_f32, {N(KN_U32, 999, 512, 512)}},
    {"from i64 256k", to_f32, {N(KN_I64, 999, 512, 512)}},
    {"from f16 256k", to_f32, {T(KN_F16, 512, 512)}},
    {"from bf16 256k", to_f32, {T(KN_BF16, 512, 512)}},
    {"from f8e4m3 256k", to_f32, {T(KN_F8E4M3, 512, 512)}},
    {"from f8e5m2 256k", to_f32, {T(KN_F8E5M2, 512, 512)}},
    {"from f64 256k", to_f32, {T(KN_F64, 512, 512)}},
    {"to f64 256k", to_f64, {F(512, 512)}},
    {"to i8 256k", to_i8, {F(512, 512)}},
    {"to i64 256k", to_i64, {F(512, 512)}},
    {"to f8e4m3 64k", to_f8, {F(256, 256)}},
    {"to f8e5m2 64k", to_f8e5, {F(256, 256)}},
    {"i32 to i64", to_i64, {N(KN_I32, 999, 512, 512)}},
    {"i64 to i32", to_i32, {N(KN_I64, 999, 512, 512)}},
    {"i32 to i8", to_i8, {N(KN_I32, 1, 512, 512)}},
    {"u8 to i16", to_i16, {N(KN_U8, 99, 512, 512)}},
    {"bool to f32", to_f32, {T(KN_BOOL, 512, 512)}},
    {"a * b i8 256k", times, {N(KN_I8, 9, 512, 512), N(KN_I8, 9, 512, 512)}},
    {"a * b u8 256k", times, {N(KN_U8, 9, 512, 512), N(KN_U8, 9, 512, 512)}},
    {"a * b i16 256k", times, {N(KN_I16, 9, 512, 512), N(KN_I16, 9, 512, 512)}},
    {"a * b i64 256k", times, {N(KN_I64, 9, 512, 512), N(KN_I64, 9, 512, 512)}},
    {"a * b u32 256k", times, {N(KN_U32, 9, 512, 512), N(KN_U32, 9, 512, 512)}},
    {"a + b i64 256k", plus, {N(KN_I64, 9, 512, 512), N(KN_I64, 9, 512, 512)}},
    {"a + b f16 256k", plus, {T(KN_F16, 512, 512), T(KN_F16, 512, 512)}},
    {"a + b bf16 256k", plus, {T(KN_BF16, 512, 512), T(KN_BF16, 512, 512)}},
    {"a + b f8 64k", plus, {T(KN_F8E4M3, 256, 256), T(KN_F8E4M3, 256, 256)}},
    {"a // b i32 64k", floor_divided, {N(KN_I32, 999, 256, 256), N(KN_I32, 9, 256, 256)}},
    {"a // b i64 64k", floor_divided, {N(KN_I64, 999, 256, 256), N(KN_I64, 9, 256, 256)}},
    {"a // b u8 64k", floor_divided, {N(KN_U8, 99, 256, 256), N(KN_U8, 9, 256, 256)}},
    {"a mod 7 i32", remainder_of_7, {N(KN_I32, 999, 512, 512)}},
    {"a mod 7 i64", remainder_of_7, {N(KN_I64, 999, 512, 512)}},
    {"a mod 7 u8", remainder_of_7, {N(KN_U8, 99, 512, 512)}},
    {"bits i32", bits, {N(KN_I32, 999, 512, 512), N(KN_I32, 999, 512, 512)}},
    {"bits u8", bits, {N(KN_U8, 99, 512, 512), N(KN_U8, 99, 512, 512)}},
    {"a > b f32", larger, {F(512, 512), F(512, 512)}},
    {"a > b f64", larger, {T(KN_F64, 512, 512), T(KN_F64, 512, 512)}},
    {"a > b i64", larger, {N(KN_I64, 99, 512, 512), N(KN_I64, 99, 512, 512)}},
    {"a > b u8", larger, {N(KN_U8, 99, 512, 512), N(KN_U8, 99, 512, 512)}},
    {"a == b i32", same, {N(KN_I32, 99, 512, 512), N(KN_I32, 99, 512, 512)}},
    {"a | b bool", either, {F(512, 512), F(512, 512)}},
    {"where bool", chosen_by, {T(KN_BOOL, 512, 512), F(512, 512), F(512, 512)}},
    {"where bool u8", chosen_by, {T(KN_BOOL, 512, 512), N(KN_U8, 99, 512, 512), N(KN_U8, 99, 512, 512)}},
    {"where bool f64", chosen_by, {T(KN_BOOL, 512, 512), T(KN_F64, 512, 512), T(KN_F64, 512, 512)}},
    {"transpose f64", copied_turn, {T(KN_F64, 512, 512)}},
    {"transpose u8", copied_turn, {N(KN_U8, 99, 512, 512)}},
    {"transpose i16", copied_turn, {N(KN_I16, 99, 512, 512)}},
    {"transpose 1000x333", copied_turn, {F(1000, 333)}},
    {"heads", heads, {F(4, 128, 8, 64)}},
    {"channels last", channels_last, {F(8, 32, 28, 28)}},
    {"flip u8", flipped, {N(KN_U8, 9, 512, 512)}},
    {"flip f64", flipped, {T(KN_F64, 512, 512)}},
    {"flip rows", flipped_rows, {F(512, 512)}},
    {"slice", inner, {F(512, 512)}},
    {"slice u8", inner, {N(KN_U8, 9, 512, 512)}},
    {"max of pairs", every_other, {F(512, 512)}},
    {"cat columns", joined, {F(512, 512), F(512, 512)}},
    {"cat rows", joined_rows, {F(512, 512), F(512, 512)}},
    {"stack", stacked, {F(512, 512), F(512, 512)}},
    {"repeat rows", repeated, {F(256, 256)}},
    {"repeat lanes", repeated_lanes, {F(256, 256)}},
    {"pad u8", padded, {N(KN_U8, 9, 510, 510)}},
    {"pad f64", padded, {T(KN_F64, 510, 510)}},
    {"upper triangle", upper, {F(512, 512)}},
    {"outer product", outer, {F(512), F(512)}},
    {"bias columns", biased, {F(512, 512), F(512, 1)}},
    {"bias rows", biased, {F(512, 512), F(512)}},
    {"distances", distances, {F(128, 64), F(128, 64)}},
    {"adam", adam, {F(512, 512), F(512, 512), F(512, 512), F(512, 512)}},
    {"rotary", rotary, {F(512, 128), F(512, 64)}},
    {"matmul batch 64x32", matmul, {F(64, 32, 32), F(64, 32, 32)}},
    {"matmul batch 256x8", matmul, {F(256, 8, 8), F(256, 8, 8)}},
    {"matmul i32 128", matmul, {N(KN_I32, 9, 128, 128), N(KN_I32, 9, 128, 128)}},
    {"matmul bf16 256", matmul, {T(KN_BF16, 256, 256), T(KN_BF16, 256, 256)}},
    {"matmul f16 256", matmul, {T(KN_F16, 256, 256), T(KN_F16, 256, 256)}},
    {"matmul 7x1000x7", matmul, {F(7, 1000), F(1000, 7)}},
    {"matvec f64", matmul, {T(KN_F64, 512, 512), T(KN_F64, 512, 1)}},
    {"vecmat f64", matmul, {T(KN_F64, 1, 512), T(KN_F64, 512, 512)}},
    {"log f64 64k", log_of, {T(KN_F64, 256, 256)}},
    {"tanh f64 64k", tanh_of, {T(KN_F64, 256, 256)}},
    {"erf f64 64k", erf_of, {T(KN_F64, 256, 256)}},
    {"silu f64 64k", silu, {T(KN_F64, 256, 256)}},
    {"gelu f64 64k", gelu, {T(KN_F64, 256, 256)}},
    {"sigmoid f64 64k", sigmoid, {T(KN_F64, 256, 256)}},
    {"pow f64 64k", pow_of, {T(KN_F64, 256, 256), T(KN_F64, 256, 256)}},
    {"cos 256k", cosine, {F(512, 512)}},
    {"softplus 256k", softplus, {F(512, 512)}},
    {"hinge", hinge, {F(512, 512), F(512, 512)}},
    {"clamp i32", clamped, {N(KN_I32, 99, 512, 512), N(KN_I32, 99, 512, 512)}},
    {"shift and mask i32", shifted_mask, {N(KN_I32, 99, 512, 512), N(KN_I32, 99, 512, 512)}},
    {"abs i32", absolute_of, {N(KN_I32, 99, 512, 512)}},
    {"max columns i32", greatest_columns, {N(KN_I32, 99, 512, 512)}},
    {"clamp i64", clamped, {N(KN_I64, 99, 512, 512), N(KN_I64, 99, 512, 512)}},
    {"shift and mask i64", shifted_mask, {N(KN_I64, 99, 512, 512), N(KN_I64, 99, 512, 512)}},
    {"abs i64", absolute_of, {N(KN_I64, 99, 512, 512)}},
    {"max columns i64", greatest_columns, {N(KN_I64, 99, 512, 512)}},
    {"clamp u8", clamped, {N(KN_U8, 99, 512, 512), N(KN_U8, 99, 512, 512)}},
    {"shift and mask u8", shifted_mask, {N(KN_U8, 99, 512, 512), N(KN_U8, 99, 512, 512)}},
    {"abs u8", absolute_of, {N(KN_U8, 99, 512, 512)}},
    {"max columns u8", greatest_columns, {N(KN_U8, 99, 512, 512)}},
    {"clamp i16", clamped, {N(KN_I16, 99, 512, 512), N(KN_I16, 99, 512, 512)}},
    {"shift and mask i16", shifted_mask, {N(KN_I16, 99, 512, 512), N(KN_I16, 99, 512, 512)}},
    {"abs i16", absolute_of, {N(KN_I16, 99, 512, 512)}},
    {"max columns i16", greatest_columns, {N(KN_I16, 99, 512, 512)}},
    {"where row", chosen_row, {F(512, 512), F(512)}},
    {"sum axes 0 2", outer_axes, {F(64, 64, 64)}},
    {"any columns", any_column, {F(512, 512)}},
    {"mean columns u8", mean_columns, {N(KN_U8, 99, 512, 512)}},
    {"mean columns i32", mean_columns, {N(KN_I32, 99, 512, 512)}},
    {"matmul a' b' 256", matmul_tt, {F(256, 256), F(256, 256)}},
    {"matmul batch nt", matmul_batch_nt, {F(16, 64, 64), F(16, 64, 64)}},
    {"divide by deviation", normalised, {F(512, 512)}},
    {"l2 of rows", l2, {F(512, 512)}},
    {"l2 of rows f64", l2, {T(KN_F64, 512, 512)}},
    {"conv dilated", dilated, {F(4, 16, 28, 28), F(16, 16, 3, 3)}},
    {"conv grouped", grouped, {F(4, 32, 28, 28), F(32, 8, 3, 3)}},
    {"gelu backwards", gelu_step, {F(512, 512)}},
    {"softmax backwards", softmax_step, {F(512, 512)}},
    {"layer norm backwards", norm_step, {F(256, 768)}},
    {"cross entropy backwards", entropy_step, {F(256, 1000), N(KN_I32, 999, 256)}},
    {"max pool backwards", pool_step, {F(8, 16, 28, 28)}},
    {"gather backwards", gather_step, {F(1000, 64), N(KN_I32, 999, 256)}},
    {"conv backwards", conv_input_step, {F(4, 16, 28, 28), F(16, 16, 3, 3)}},
    {"f64 to i64", to_i64, {T(KN_F64, 512, 512)}},
    {"f64 to i16", to_i16, {T(KN_F64, 512, 512)}},
    {"f64 to f32", to_f32, {T(KN_F64, 512, 512)}},
    {"f64 to bf16", to_bf16, {T(KN_F64, 512, 512)}},
    {"f64 to f16", to_f16, {T(KN_F64, 512, 512)}},
    {"i64 to f64", to_f64, {N(KN_I64, 99, 512, 512)}},
    {"u8 to f64", to_f64, {N(KN_U8, 99, 512, 512)}},
    {"bf16 to f16", to_f16, {T(KN_BF16, 512, 512)}},
    {"f16 to i16", to_i16, {T(KN_F16, 512, 512)}},
    {"a > b f16", larger, {T(KN_F16, 512, 512), T(KN_F16, 512, 512)}},
    {"a == b u8", same, {N(KN_U8, 9, 512, 512), N(KN_U8, 9, 512, 512)}},
    {"softmax f16", softmax, {T(KN_F16, 512, 512)}},
    {"argmax u8", places, {N(KN_U8, 99, 512, 512)}},
    {"cumsum columns i32", prefix_columns, {N(KN_I32, 9, 512, 512)}},
    {"cumsum 4096x16", prefix, {F(4096, 16)}},
    {"prod columns f64", product_columns, {T(KN_F64, 512, 512)}},
    {"min columns u8", least_columns, {N(KN_U8, 99, 512, 512)}},
    {"transpose i64", copied_turn, {N(KN_I64, 99, 512, 512)}},
    {"transpose bf16", copied_turn, {T(KN_BF16, 512, 512)}},
    {"transpose 8192x16", copied_turn, {F(8192, 16)}},
    {"transpose 16x8192", copied_turn, {F(16, 8192)}},
    {"outer product f64", outer, {T(KN_F64, 512), T(KN_F64, 512)}},
    {"bias columns bf16", biased, {T(KN_BF16, 512, 512), T(KN_BF16, 512, 1)}},
    {"matmul 64x64x64", matmul, {F(64, 64), F(64, 64)}},
    {"matmul 33x257x65", matmul, {F(33, 257), F(257, 65)}},
    {"matmul f64 100", matmul, {T(KN_F64, 100, 100), T(KN_F64, 100, 100)}},
    {"matmul 1000x10", matmul, {F(1000, 256), F(256, 10)}},
    {"attention 4x256x32", attention, {F(4, 256, 32), F(4, 256, 32), F(4, 256, 32)}},
    {"logsumexp", logsumexp, {F(512, 512)}},
    {"logsumexp cols", logsumexp_columns, {F(512, 512)}},
    {"std rows", std_rows, {F(512, 512)}},
    {"std cols", std_columns, {F(512, 512)}},
    {"std rows f64", std_rows, {T(KN_F64, 512, 512)}},
    {"std cols f64", std_columns, {T(KN_F64, 512, 512)}},
    {"huber", huber, {F(512, 512), F(512, 512)}},
    {"mse", square_error, {F(512, 512), F(512, 512)}},
    {"mse f64", square_error, {T(KN_F64, 512, 512), T(KN_F64, 512, 512)}},
    {"dot 1M", dot, {F(MEGA), F(MEGA)}},
    {"dot f64", dot, {T(KN_F64, 512, 512), T(KN_F64, 512, 512)}},
    {"dot i32", dot, {N(KN_I32, 9, 512, 512), N(KN_I32, 9, 512, 512)}},
    {"dot i64", dot, {N(KN_I64, 9, 512, 512), N(KN_I64, 9, 512, 512)}},
    {"cosine sim", cosine_of_rows, {F(512, 512), F(512, 512)}},
    {"lerp", between, {F(512, 512), F(512, 512), F(512, 512)}},
    {"hypot", hypotenuse, {F(512, 512), F(512, 512)}},
    {"leaky", leaky, {F(512, 512)}},
    {"elu", elu, {F(512, 512)}},
    {"mish", mish, {F(512, 512)}},
    {"roll", rolled, {F(512, 512)}},
    {"cat3 cols", joined_3, {F(512, 100), F(512, 200), F(512, 212)}},
    {"cat3 rows", joined_3_rows, {F(100, 512), F(200, 512), F(212, 512)}},
    {"stack 1", stacked_1, {F(512, 512), F(512, 512)}},
    {"stack 2", stacked_2, {F(512, 512), F(512, 512)}},
    {"upsample", doubled, {F(16, 32, 32)}},
    {"evens", evens, {F(512, 512)}},
    {"evens f64", evens, {T(KN_F64, 512, 512)}},
    {"evens i16", evens, {N(KN_I16, 9, 512, 512)}},
    {"evens u8", evens, {N(KN_U8, 9, 512, 512)}},
    {"rgb to grey", grey, {N(KN_U8, 255, 256, 256, 3), F(3)}},
    {"hwc to chw", planes, {N(KN_U8, 255, 256, 256, 3)}},
    {"chw to hwc", pixels, {F(3, 256, 256)}},
    {"normalise img", whitened, {F(3, 256, 256), F(3, 1, 1), F(3, 1, 1)}},
    {"floordiv i32", quotients, {N(KN_I32, 999, 512, 512), N(KN_I32, 9, 512, 1)}},
    {"mod u32", rests, {N(KN_U32, 999, 512, 512), N(KN_U32, 9, 512, 512)}},
    {"floor x/3", floored_third, {F(512, 512)}},
    {"bce", binary_entropy, {F(512, 512), F(512, 512)}},
    {"kl", divergence, {F(512, 512), F(512, 512)}},
    {"gru gate", gate_of_gru, {F(512, 512), F(512, 512), F(512, 512)}},
    {"glu", glu, {F(512, 512)}},
    {"swiglu", swiglu, {F(64, 256), F(256, 256), F(256, 256)}},
    {"masked softmax", masked_softmax, {F(512, 512), N(KN_BOOL, 1, 512, 512)}},
    {"cumprod", prefix_product, {F(512, 512)}},
    {"diff", differences, {F(512, 512)}},
    {"laplace", laplace, {F(512, 512)}},
    {"max axis 1 of 3", max_middle, {F(64, 64, 64)}},
    {"mean 12", mean_planes, {F(64, 64, 64)}},
    {"mean 02", mean_channels, {F(64, 64, 64)}},
    {"sum 0 of 3", sum_first, {F(64, 64, 64)}},
    {"sum 1 of 3", sum_second, {F(64, 64, 64)}},
    {"sum 2 of 3", sum_third, {F(64, 64, 64)}},
    {"sum 2 short", sum_third, {F(256, 256, 3)}},
    {"sum 2 of 7", sum_third, {F(256, 128, 7)}},
    {"sum 1 short", sum_second, {F(256, 3, 256)}},
    {"perm 021", turned_021, {F(64, 64, 64)}},
    {"perm 201", turned_201, {F(64, 64, 64)}},
    {"perm 120", turned_120, {F(64, 64, 64)}},
    {"perm 021 f64", turned_021, {T(KN_F64, 64, 64, 64)}},
    {"perm 021 i16", turned_021, {N(KN_I16, 9, 64, 64, 64)}},
    {"perm 021 u8", turned_021, {N(KN_U8, 9, 64, 64, 64)}},
    {"perm 021 short", turned_021, {F(1024, 64, 3)}},
    {"argmin cols", least_places_columns, {F(512, 512)}},
    {"count a>=b", count_larger, {F(512, 512), F(512, 512)}},
    {"equal rows", equal_rows, {N(KN_I32, 2, 512, 512), N(KN_I32, 2, 512, 512)}},
    {"equal rows u8", equal_rows, {N(KN_U8, 2, 512, 512), N(KN_U8, 2, 512, 512)}},
    {"xor i32", differing_bits, {N(KN_I32, 99, 512, 512), N(KN_I32, 99, 512, 512)}},
    {"xor u8 1M", differing_bits, {N(KN_U8, 99, MEGA), N(KN_U8, 99, MEGA)}},
    {"and not bool", but_not, {N(KN_BOOL, 1, MEGA), N(KN_BOOL, 1, MEGA)}},
    {"x^3", cube, {F(512, 512)}},
    {"x^1.5", power_of_3_2, {F(512, 512)}},
    {"log2", log2_of, {F(512, 512)}},
    {"exp2", exp2_of, {F(512, 512)}},
    {"gauss", bell, {F(512, 512)}},
    {"randn", noisy, {F(512, 512)}},
    {"arange add", plus_arange, {F(512, 512)}},
    {"eye add", plus_eye, {F(512, 512)}},
    {"bitcast and", bits_in_common, {F(512, 512), F(512, 512)}},
    {"avg pool 2", halved_pictures, {F(32, 16, 28, 28)}},
    {"global pool", mean_of_pictures, {F(32, 64, 14, 14)}},
    {"bias4", biased_channels, {F(8, 64, 28, 28), F(1, 64, 1, 1)}},
    {"outer3", outer_of_rows, {F(64, 64), F(64, 64)}},
    {"scatter rows", scatter, {F(1000, 64), N(KN_I32, 999, 512), F(512, 64)}},
    {"one hot 100", one_hot_100, {N(KN_I32, 99, 4096)}},
    {"x - max", less_the_largest, {F(512, 512)}},
    {"sgd", sgd, {F(512, 512), F(512, 512), F(512, 512)}},
    {"clip norm", clipped_norm, {F(512, 512)}},
    {"conv 1x9", conv_flat, {F(8, 16, 28, 28), F(16, 16, 1, 9)}},
    {"conv valid", conv_inside, {F(8, 16, 28, 28), F(32, 16, 3, 3)}},
    {"conv 7x7", conv_inside, {F(2, 3, 64, 64), F(16, 3, 7, 7)}},
    {"conv 4x4", conv_inside, {F(4, 8, 32, 32), F(8, 8, 4, 4)}},
    {"mm 17x300x200", matmul, {F(17, 300), F(300, 200)}},
    {"mm 1000x3x1000", matmul, {F(1000, 3), F(3, 1000)}},
    {"mm 500x500x5", matmul, {F(500, 500), F(500, 5)}},
    {"mm 5x500x500", matmul, {F(5, 500), F(500, 500)}},
    {"mm 255", matmul, {F(255, 255), F(255, 255)}},
    {"mm f64 63", matmul, {T(KN_F64, 63, 200), T(KN_F64, 200, 77)}},
    {"mm nt 100x64x100", matmul_nt, {F(100, 64), F(100, 64)}},
    {"mm tn 300", matmul_tn, {F(300, 100), F(300, 150)}},
    {"mm i64 100", matmul, {N(KN_I64, 9, 100, 100), N(KN_I64, 9, 100, 100)}},
    {"mm u8 128", matmul, {N(KN_U8, 9, 128, 128), N(KN_U8, 9, 128, 128)}},
    {"mm batch 12x64", matmul, {F(12, 64, 64), F(12, 64, 64)}},
    {"mm batch nt 12", matmul_batch_nt, {F(12, 128, 32), F(12, 128, 32)}},
    {"flip u8 4M", flipped, {N(KN_U8, 9, 2048, 2048)}},
    {"flip i16", flipped, {N(KN_I16, 9, 1024, 1024)}},
    {"gather u8 8x", gather, {N(KN_U8, 99, 1000, 64), N(KN_I32, 999, 16384)}},
    {"repeat lanes x", repeated_lanes, {F(256, 256)}},
    {"diff u8", differences, {N(KN_U8, 9, 512, 512)}},
    {"a*b u8 4M", times, {N(KN_U8, 9, 2048, 2048), N(KN_U8, 9, 2048, 2048)}},
};

#endif
