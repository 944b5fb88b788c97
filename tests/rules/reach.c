/* reach.c - all values while the cases are those of three 8-bit integers, then fewer. */
#include "rules/reach.h"

#include <math.h>

#include "rules/widths.h"

#if KN_SANITIZED
enum { BUDGET = 1 << 16 };
#else
enum { BUDGET = 1 << 24 };
#endif

kn_reach kn_reach_of(const kn_proof *p, const int *dt) {
#if KN_SANITIZED
    static const int index_reach[] = {0, 1000, 60, 12, 6, 3, 2, 2, 2};
#else
    static const int index_reach[] = {0, 100000, 900, 70, 20, 8, 4, 3, 2};
#endif
    kn_reach r     = {.casts = p->ntypes > 2};
    int      index = 0;
    double   cases = 1;
    for (int k = 0; k < p->nvars; k++) {
        int  d  = dt[p->var_type[k]];
        bool iv = p->bounds >> k & 1;
        if (kn_is_float(d))
            r.floats++;
        else if (d == KN_INDEX)
            index += iv ? 3 : 1;
        else
            cases *= iv ? 256.0 * 256 * 256 / 6 : ldexp(1, d == KN_BOOL ? 1 : 8);
    }
    r.narrow = cases > BUDGET && !r.casts;
    r.index  = index_reach[KN_MIN(index, 8)];
    if (r.casts) r.floats = 2;
    return r;
}

bool kn_reach_all(const kn_reach *r, int bytes) {
#if KN_SANITIZED
    if (r->floats > 1) return false;
#endif
    return (bytes == 1 && r->floats <= 2) || (bytes == 2 && r->floats == 1);
}

bool kn_reach_f32(const kn_proof *p) {
    const kn_width *w = kn_width_of(p->rule);
    return p->nvars == 1 && p->type_mask[p->var_type[0]] >> KN_F32 & 1 && w && !w->floats;
}

void kn_reach_text(const kn_proof *p, char *text, size_t cap) {
    size_t n                    = 0;
    bool   said[KN_DTYPE_COUNT] = {false};
    text[0]                     = 0;
    for (int pass = 0; pass < 3; pass++) { /* integers, index, floats: each by its smallest dtype */
        static const int of[3] = {KN_I8, KN_INDEX, KN_F8E5M2};
        int              dt[KN_PROOF_TYPES], have = 0;
        for (int t = 0; t < p->ntypes; t++) {
            uint32_t m = p->type_mask[t];
            dt[t]      = m >> of[pass] & 1 ? of[pass] : m >> KN_BOOL & 1 ? KN_BOOL : of[0];
            have += m >> of[pass] & 1;
        }
        kn_reach r = kn_reach_of(p, dt);
        if (!have || said[of[pass]] || (pass == 1 && (r.casts || said[KN_I8]))) continue;
        said[of[pass]]  = true;
        const char *sep = n ? "; " : "";
        if (r.casts && pass == 0)
            n += (size_t)snprintf(text + n, cap - n, "%sends of integers", sep);
        else if (pass == 0)
            n += (size_t)snprintf(text + n, cap - n, "%s%d-bit integers", sep, r.narrow ? 4 : 8);
        else if (pass == 1)
            n += (size_t)snprintf(text + n, cap - n, "%sindex to %lld", sep, (long long)r.index);
        else
            n += (size_t)snprintf(text + n, cap - n, "%s%s", sep,
                                  kn_reach_f32(p)       ? "f8, f16, f32"
                                  : kn_reach_all(&r, 2) ? "f8, f16"
                                  : kn_reach_all(&r, 1) ? "f8, samples of f16"
                                                        : "samples of f8, f16");
    }
    if (!n) snprintf(text, cap, "bools");
}
