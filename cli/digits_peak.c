/* digits_peak.c - what the processor can do at most, to set a program's speed beside: independent chains of f32
 * multiply-adds in registers, as wide as the processor has them, on every thread at once. */
#include "digits.h"

#include <stdatomic.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define PEAK_X86 1
#else
#define PEAK_X86 0
#endif

/* So many chains hide the latency of a multiply-add on every processor we know (4 cycles, 2 a cycle), and fit the
 * registers; a call runs this many links of each. */
enum { PEAK_CHAINS = 12, PEAK_LINKS = 4096 };

typedef double (*peak_fn)(float seed); /* runs one block, returns its flop */

typedef struct peak_job {
    peak_fn        fn;
    double         seconds;
    _Atomic double flop;
} peak_job;

/* The chains are unrolled by the compiler (a constant, small loop) and live in registers. `sink` keeps them alive. */
#define PEAK_BODY(vec, lanes, set, fma, store)                                        \
    vec   a[PEAK_CHAINS], b = set(0.999f), c = set(seed);                             \
    float sink[lanes];                                                                \
    for (int k = 0; k < PEAK_CHAINS; k++) a[k] = set(seed + (float)k);                \
    for (int i = 0; i < PEAK_LINKS; i++) {                                            \
        _Pragma("GCC unroll 12") for (int k = 0; k < PEAK_CHAINS; k++) a[k] = fma(a[k], b, c); \
    }                                                                                 \
    for (int k = 1; k < PEAK_CHAINS; k++) a[0] = fma(a[k], b, a[0]);                  \
    store(sink, a[0]);                                                                \
    double flop = 2.0 * (lanes) * PEAK_CHAINS * PEAK_LINKS;                           \
    return sink[0] == -1.0f ? flop + 1 : flop;

#if PEAK_X86
__attribute__((target("avx512f"))) static double peak_avx512(float seed) {
    PEAK_BODY(__m512, 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps)
}

__attribute__((target("avx2,fma"))) static double peak_avx2(float seed) {
    PEAK_BODY(__m256, 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps)
}

#define PEAK_SSE_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
static double peak_sse(float seed) {
    PEAK_BODY(__m128, 4, _mm_set1_ps, PEAK_SSE_FMA, _mm_storeu_ps)
}
#undef PEAK_SSE_FMA
#else
#define PEAK_SET(v) (v)
#define PEAK_FMA(a, b, c) ((a) * (b) + (c))
#define PEAK_STORE(p, v) (*(p) = (v))
static double peak_scalar(float seed) {
    PEAK_BODY(float, 1, PEAK_SET, PEAK_FMA, PEAK_STORE)
}
#undef PEAK_SET
#undef PEAK_FMA
#undef PEAK_STORE
#endif
#undef PEAK_BODY

static peak_fn peak_choose(const char **isa) {
#if PEAK_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return *isa = "AVX-512", peak_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return *isa = "AVX2", peak_avx2;
    return *isa = "SSE", peak_sse;
#else
    return *isa = "scalar", peak_scalar;
#endif
}

static void peak_run(void *arg, int64_t lo, int64_t hi) {
    peak_job *job = arg;
    double    flop = 0, end = kn_now() + job->seconds;
    (void)lo;
    (void)hi;
    do flop += job->fn(1e-3f);
    while (kn_now() < end);
    double seen = atomic_load(&job->flop);
    while (!atomic_compare_exchange_weak(&job->flop, &seen, seen + flop)) continue;
}

double digits_peak(int threads, const char **isa, kn_fault *f) {
    kn_pool *pool = kn_pool_new(NULL, threads, f);
    if (!pool) return 0;
    peak_job job = {.fn = peak_choose(isa)};
    double   best = 0;
    /* The first rounds wake the threads and the wide units; of the others the best counts. */
    for (int round = 0; round < 6; round++) {
        job.seconds = round < 2 ? 0.004 : 0.012;
        atomic_store(&job.flop, 0);
        double start = kn_now();
        kn_pool_run(pool, threads, peak_run, &job);
        double rate = atomic_load(&job.flop) / (kn_now() - start);
        if (round >= 2 && rate > best) best = rate;
    }
    kn_pool_free(pool);
    return best;
}
#undef PEAK_X86
