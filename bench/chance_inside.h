/* What the families of programs by chance share. A family is a plan, which draws a program, and a build, which makes
 * its tensors. Plans draw one number a full expression, since C leaves open which of two comes first. */
#ifndef KN_BENCH_CHANCE_INSIDE_H
#define KN_BENCH_CHANCE_INSIDE_H

#include "chance.h"

#define BUILD(NAME) kn_tensor *NAME(kn_context *kn, const program *p, kn_tensor *const in[])
#define CHOSEN \
    const chance *c = (const chance *)p; \
    (void)kn
#define COUNT(TABLE) ((int)(sizeof(TABLE) / sizeof *(TABLE)))

/* Most programs take 5 us to 1 ms with these. */
enum { MOST_ELEMENTS = 1 << 20, LEAST_ELEMENTS = 1 << 14, MOST_PRODUCTS = 30000000, LEAST_PRODUCTS = 1 << 18 };

/* ---- numbers and sizes (chance_parts.c) ------------------------------------------------------------------------- */

/* Its numbers depend on the key and on how many were drawn, alone. */
typedef struct stream {
    uint64_t key, at;
} stream;
uint64_t mixed(uint64_t x);
int64_t  wide_below(stream *s, int64_t n); /* 0..n-1 */
int      below(stream *s, int n);
bool     one_in(stream *s, int n);
/* A size in lo..hi as they are met: a power of two, a multiple of ten, a prime, an odd one, any. */
int64_t size(stream *s, int64_t lo, int64_t hi);
/* Sizes that make about lo..hi elements: some of them small, one what the others leave. */
void spread(stream *s, kn_dim *dims, int rank, int64_t lo, int64_t hi);
int  widest(const kn_dim *dims, int rank);
/* Nobody sums along one element: if the axis has one, it takes the largest size instead. */
void     not_one(kn_dim *dims, int rank, int axis);
kn_dtype float_type(stream *s);
kn_dtype any_type(stream *s);
bool     is_whole(kn_dtype t);

/* ---- inputs, steps and what is said of them (chance_parts.c) ---------------------------------------------------- */

void say(chance *c, const char *format, ...);
/* One more input; integers are in 0..most. */
void give(chance *c, kn_dtype dtype, int most, const kn_dim *dims, int rank);
#define GIVE(C, DTYPE, ...) give(C, DTYPE, 9, KN_DIMS(__VA_ARGS__))
int rank_of(const chance *c, int input);
/* Draws one more step: with the input `with`, or if that is below 0 with none. *whole: the value is of integers. What
 * gives truth values only comes `last`, since few things can be done with them. */
void plan_step(chance *c, stream *s, int with, bool *whole, bool last);
/* With one chance in n: a step on the value alone. */
void maybe_step(chance *c, stream *s, int n, bool whole);
/* The steps from `from` on, on x. */
kn_tensor *stepped(const chance *c, int from, kn_tensor *x, kn_tensor *const in[]);
/* The same, or without steps x as memory of its own, and no view. */
kn_tensor *stored(const chance *c, kn_tensor *x, kn_tensor *const in[]);

/* ---- families of other files ------------------------------------------------------------------------------------ */

/* Of the last two axes, what lies on one side of a diagonal; `beyond` elsewhere. */
kn_tensor *triangle_of(kn_context *kn, kn_tensor *x, int64_t shift, bool upper, double beyond);

void plan_transpose(chance *c, stream *s);
BUILD(transpose);
void plan_join(chance *c, stream *s);
BUILD(join);
void plan_pad(chance *c, stream *s);
BUILD(pad);
void plan_slice(chance *c, stream *s);
BUILD(slice);
void plan_turned(chance *c, stream *s);
BUILD(turned);
void plan_repeat(chance *c, stream *s);
BUILD(repeat);
void plan_mix(chance *c, stream *s);
BUILD(mix);
void plan_gather(chance *c, stream *s);
BUILD(gather);
void plan_places(chance *c, stream *s);
BUILD(places);
void plan_triangle(chance *c, stream *s);
BUILD(triangle);
void plan_cumsum(chance *c, stream *s);
BUILD(cumsum);
void plan_matmul(chance *c, stream *s);
BUILD(matmul);
void plan_attention(chance *c, stream *s);
BUILD(attention);
void plan_conv(chance *c, stream *s);
BUILD(conv);
void plan_conv_gradient(chance *c, stream *s);
BUILD(conv_gradient);
void plan_pool(chance *c, stream *s);
BUILD(pool);
void plan_perceptron(chance *c, stream *s);
BUILD(perceptron);

#endif
