// koine.h from C++: every macro and overload. Compiled, not run.
#include "koine.h"
#include "koine.h"

kn_status use(kn_context *kn, kn_tensor *x);
kn_status use(kn_context *kn, kn_tensor *x) {
    const kn_dim dims[] = {2, 3};
    kn_tensor   *y      = kn_add(x, kn_zeros(kn, KN_F32, dims, 2));
    kn_tensor   *z      = kn_add(kn_reshape(y, KN_DIMS(3, -1)), kn_full(kn, 2.0, KN_F32, KN_DIMS(3, 2)));
    kn_tensor   *all    = kn_sum(z);
    kn_reduce_opts o    = kn_reduce_opts();
    o.axes              = KN_AXES(0, -1);
    o.keep              = 1;
    kn_tensor *some     = kn_mean(z, o);
    kn_tensor *others   = kn_add(kn_add(kn_prod(z), kn_min(z, o)), kn_add(kn_max(z), kn_add(kn_var(z), kn_std(z, o))));
    kn_tensor *plain    = (kn_matmul)(x, kn_sum_opt(y, nullptr));
    kn_tensor *params[] = {x, y};
    kn_adam_opts a      = kn_adam_opts();
    a.lr                = 0.002;
    kn_optim *adam      = kn_adam(kn, params, 2, a);
    kn_optim *sgd       = kn_sgd(kn, params, 2);
    kn_tensor *(*fn)(kn_tensor *, kn_tensor *) = kn_add;
    if (kn_minimize(adam, all) != KN_OK || kn_minimize(sgd, some) != KN_OK) return kn_error_code(kn);
    kn_tensor *last[] = {others, plain, fn(x, y)};
    return kn_realize(last, 3);
}
