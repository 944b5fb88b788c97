/* Every macro of koine.h, used as a C99 program would. Compiled, not run. */
#include "koine.h"
#include "koine.h" /* twice does no harm */

kn_status use(kn_context *kn, kn_tensor *x, kn_tensor *w);
kn_status use(kn_context *kn, kn_tensor *x, kn_tensor *w) {
    kn_tensor *shaped = kn_zeros(kn, KN_F32, KN_DIMS(2, 3, 4));
    kn_tensor *y      = kn_add(kn_matmul(x, w), kn_mul_s(shaped, 2.0));
    kn_tensor *all    = kn_sum(y);
    kn_tensor *some   = kn_mean(y, .axes = KN_AXES(0, -1), .keep = 1);
    kn_tensor *spread = kn_var(kn_max(y, .axes = KN_AXES(0)), .biased = 1);
    kn_tensor *others = kn_add(kn_add(kn_prod(y), kn_min(y)), kn_std(y));
    kn_reduce_opts o  = {.keep = 1, .size = sizeof o};
    kn_tensor     *p  = kn_sum_opt(y, &o);
    kn_tensor     *q  = kn_sum_opt(y, NULL);
    kn_tensor     *results[] = {all, some, spread, others, p, q};
    kn_status      s  = kn_realize(results, (int)(sizeof results / sizeof results[0]));
    kn_adam_opts   a  = {.lr = 1e-3, .beta1 = KN_ZERO, .size = sizeof a};
    kn_optim      *opt = kn_adam_opt(kn, &w, 1, &a);
    kn_optim      *sgd = kn_sgd(kn, &w, 1, .lr = 0.1, .momentum = 0.9), *adam = kn_adam(kn, &w, 1);
    if (kn_minimize(sgd, all) != KN_OK || kn_minimize(adam, all) != KN_OK) return kn_error_code(kn);
    return s == KN_OK ? kn_minimize(opt, kn_mean(all)) : s;
}
