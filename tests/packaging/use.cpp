// koine.h from C++. Compiled, not run.
#include "koine.h"
#include "koine.h"

kn_status use(kn_context *kn, kn_tensor *x);
kn_status use(kn_context *kn, kn_tensor *x) {
    const kn_dim dims[] = {2, 3};
    kn_tensor   *y      = kn_add(x, kn_zeros(kn, KN_F32, dims, 2));
    kn_tensor   *z      = kn_sum_opt(y, nullptr);
    return kn_realize(&z, 1);
}
