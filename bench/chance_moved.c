/* Families whose programs move elements about, and cumsum. */
#include "chance_inside.h"

void plan_transpose(chance *c, stream *s) {
    kn_dim   dims[CHANCE_AXES], turned[CHANCE_AXES];
    int      rank = 2 + below(s, 3), moved = 0;
    kn_dtype dtype = any_type(s);
    bool     whole = is_whole(dtype);
    spread(s, dims, rank, LEAST_ELEMENTS, MOST_ELEMENTS);
    for (int k = 0; k < rank; k++) c->order[k] = k;
    while (!moved) {
        for (int k = rank - 1; k > 0; k--) {
            int j = below(s, k + 1), was = c->order[k];
            c->order[k] = c->order[j], c->order[j] = was;
        }
        for (int k = 0; k < rank; k++) moved += c->order[k] != k;
    }
    for (int k = 0; k < rank; k++) say(c, k ? "%d" : " %d", c->order[k]), turned[k] = dims[c->order[k]];
    say(c, " of");
    give(c, dtype, 99, dims, rank);
    c->variant = below(s, 4); /* 0: alone; 1: of what a step gives; 2: below a step; 3: beside another operand */
    if (c->variant == 3) give(c, dtype, 99, turned, rank);
    if (c->variant) say(c, c->variant == 1 ? " behind" : ":"), plan_step(c, s, c->variant == 3 ? 1 : -1, &whole, false);
}
BUILD(transpose) {
    CHOSEN;
    int rank = rank_of(c, 0);
    if (c->variant == 1) return kn_contiguous(kn_permute(stepped(c, 0, in[0], in), c->order, rank));
    return stored(c, kn_permute(in[0], c->order, rank), in);
}

/* What is moved about: a dtype, with one chance in three a step behind, and sizes. */
static kn_dtype give_moved(chance *c, stream *s, const kn_dim *dims, int rank) {
    kn_dtype dtype = any_type(s);
    give(c, dtype, 99, dims, rank);
    maybe_step(c, s, 3, is_whole(dtype));
    return dtype;
}
static kn_dtype plan_moved(chance *c, stream *s, kn_dim *dims, int rank, int64_t most) {
    spread(s, dims, rank, LEAST_ELEMENTS / 2, most);
    return give_moved(c, s, dims, rank);
}

void plan_join(chance *c, stream *s) {
    kn_dim dims[CHANCE_AXES];
    int    n   = 2 + below(s, 2);
    c->variant = one_in(s, 3); /* 1: on an axis of their own */
    int rank   = 1 + below(s, CHANCE_AXES - c->variant);
    c->axis    = below(s, rank + c->variant);
    say(c, c->variant ? " stack %d of" : " %d of", c->axis);
    kn_dtype dtype = plan_moved(c, s, dims, rank, MOST_ELEMENTS / 2);
    kn_dim   first = c->variant ? 0 : dims[c->axis];
    for (int k = 1; k < n; k++) {
        if (first) dims[c->axis] = size(s, 1, 2 * first);
        give(c, dtype, 99, dims, rank);
    }
}
BUILD(join) {
    CHOSEN;
    return stored(c, c->variant ? kn_stack(in, c->nin, c->axis) : kn_cat(in, c->nin, c->axis), in);
}

void plan_pad(chance *c, stream *s) {
    kn_dim dims[CHANCE_AXES];
    int    rank = 1 + below(s, CHANCE_AXES), always = below(s, rank);
    plan_moved(c, s, dims, rank, MOST_ELEMENTS);
    for (int k = 0; k < rank; k++) {
        c->before[k] = below(s, 4);
        c->after[k]  = below(s, 4) + (k == always);
        say(c, " +%d+%d", (int)c->before[k], (int)c->after[k]);
    }
}
BUILD(pad) {
    CHOSEN;
    return stored(c, kn_pad(in[0], c->before, c->after, rank_of(c, 0)), in);
}

void plan_slice(chance *c, stream *s) {
    kn_dim dims[CHANCE_AXES];
    int    rank = 1 + below(s, 3);
    plan_moved(c, s, dims, rank, MOST_ELEMENTS);
    c->axis   = widest(dims, rank);
    c->stride = one_in(s, 2) ? 1 : 2 + below(s, 3);
    for (int k = 0; k < rank; k++) {
        int64_t spare = dims[k] / 4;
        c->before[k]  = below(s, spare < 9 ? (int)spare + 1 : 9);
        c->after[k]   = dims[k] - below(s, spare < 9 ? (int)spare + 1 : 9);
        if (k == c->axis) c->after[k] -= (c->after[k] - c->before[k]) % c->stride;
        say(c, " [%d:%d]", (int)c->before[k], (int)c->after[k]);
    }
    if (c->stride > 1) say(c, " every %d of %d", c->stride, c->axis);
}
BUILD(slice) {
    CHOSEN;
    kn_dim     none[CHANCE_AXES + 1] = {0}, split[CHANCE_AXES + 1], first[CHANCE_AXES + 1], out[CHANCE_AXES];
    int        rank                  = rank_of(c, 0);
    kn_tensor *x                     = kn_shrink(in[0], c->before, c->after, rank);
    if (c->stride == 1) return stored(c, x, in);
    for (int k = 0, to = 0; k < rank; k++) {
        int step = k == c->axis ? c->stride : 1;
        out[k] = first[to] = split[to] = (c->after[k] - c->before[k]) / step, to++;
        if (step > 1) split[to] = step, first[to++] = 1;
    }
    return stored(c, kn_reshape(kn_shrink(kn_reshape(x, split, rank + 1), none, first, rank + 1), out, rank), in);
}

void plan_turned(chance *c, stream *s) { /* flips and rolls */
    kn_dim dims[CHANCE_AXES];
    int    rank = 1 + below(s, CHANCE_AXES);
    plan_moved(c, s, dims, rank, MOST_ELEMENTS);
    c->axis = widest(dims, rank);
    if (one_in(s, 2))
        c->amount = 1 + wide_below(s, dims[c->axis] - 1);
    else
        c->axis = below(s, rank);
    c->variant = below(s, rank + 2); /* a second axis to flip, if there is one */
    if (c->amount)
        say(c, ", roll %d by %d", c->axis, (int)c->amount);
    else
        say(c, c->variant < rank && c->variant != c->axis ? ", flip %d,%d" : ", flip %d", c->axis, c->variant);
}
BUILD(turned) {
    CHOSEN;
    int        rank              = rank_of(c, 0);
    kn_dim     none[CHANCE_AXES] = {0}, at[CHANCE_AXES] = {0}, all[CHANCE_AXES], until[CHANCE_AXES];
    kn_tensor *x = kn_flip(in[0], c->axis);
    if (!c->amount) return stored(c, c->variant < rank && c->variant != c->axis ? kn_flip(x, c->variant) : x, in);
    for (int k = 0; k < rank; k++) all[k] = until[k] = c->program.in[0].dims[k];
    at[c->axis] = until[c->axis] = c->amount;
    kn_tensor *parts[]           = {kn_shrink(in[0], at, all, rank), kn_shrink(in[0], none, until, rank)};
    return stored(c, kn_cat(parts, 2, c->axis), in);
}

void plan_repeat(chance *c, stream *s) {
    kn_dim dims[CHANCE_AXES];
    int    rank = 1 + below(s, 3);
    plan_moved(c, s, dims, rank, MOST_ELEMENTS / 8);
    c->amount  = 2 + below(s, 6);
    c->axis    = below(s, rank + 1);
    c->variant = below(s, 2); /* 1: joined with the axis beside it, so elements or blocks are repeated */
    say(c, c->variant ? ", %d times at %d, flat" : ", %d times at %d", (int)c->amount, c->axis);
}
BUILD(repeat) {
    CHOSEN;
    int    rank = rank_of(c, 0);
    kn_dim out[CHANCE_AXES], flat[CHANCE_AXES];
    for (int k = 0; k <= rank; k++) out[k] = k == c->axis ? c->amount : c->program.in[0].dims[k - (k > c->axis)];
    for (int k = 0; k < rank; k++) flat[k] = c->program.in[0].dims[k];
    flat[c->axis < rank ? c->axis : rank - 1] *= c->amount;
    kn_tensor *x = kn_expand(kn_unsqueeze(in[0], c->axis), out, rank + 1);
    return stored(c, c->variant ? kn_reshape(x, flat, rank) : x, in);
}

/* Axes of which some are one in the input, in another order, and some are one in the result. */
static const struct mix {
    const char *name;
    int         rank, order[6], in[4], out[4]; /* in, out: how many of the axes are one */
    unsigned    small;                         /* axes of one and the same small size, as bits */
} mixes[] = {{"pixel shuffle", 6, {0, 1, 4, 2, 5, 3}, {1, 3, 1, 1}, {1, 1, 2, 2}, 1 << 2 | 1 << 3},
             {"patches", 6, {0, 2, 4, 1, 3, 5}, {1, 1, 2, 2}, {1, 2, 3}, 1 << 3 | 1 << 5},
             {"into heads", 4, {0, 2, 1, 3}, {1, 1, 2}, {1, 1, 1, 1}, 0},
             {"out of heads", 4, {0, 2, 1, 3}, {1, 1, 1, 1}, {1, 1, 2}, 0},
             {"channel shuffle", 4, {0, 2, 1, 3}, {1, 2, 1}, {1, 2, 1}, 0},
             {"turned and flat", 2, {1, 0}, {1, 1}, {2}, 0}};
/* Sizes of axes put together: groups[k] of dims each. Returns how many there are. */
static int joined(const kn_dim *dims, const int groups[4], kn_dim out[4]) {
    int n = 0, at = 0;
    for (; n < 4 && groups[n]; n++) {
        out[n] = 1;
        for (int k = 0; k < groups[n]; k++) out[n] *= dims[at++];
    }
    return n;
}
void plan_mix(chance *c, stream *s) {
    kn_dim            free[CHANCE_AXES], dims[CHANCE_AXES];
    const struct mix *m     = &mixes[c->kind = below(s, COUNT(mixes))];
    int               small = 2 + below(s, 4);
    kn_dtype          dtype = any_type(s);
    spread(s, free, m->small ? 4 : m->rank, LEAST_ELEMENTS / 8, m->small ? MOST_ELEMENTS / 16 : MOST_ELEMENTS);
    for (int k = 0, at = 0; k < m->rank; k++) c->dims[k] = m->small >> k & 1 ? small : free[at++];
    int rank = joined(c->dims, m->in, dims);
    say(c, " %s", m->name);
    if (m->small) say(c, " %d", small);
    say(c, " of");
    give(c, dtype, 99, dims, rank);
    maybe_step(c, s, 3, is_whole(dtype));
}
BUILD(mix) {
    CHOSEN;
    const struct mix *m = &mixes[c->kind];
    kn_dim            turned[6], out[4];
    for (int k = 0; k < m->rank; k++) turned[k] = c->dims[m->order[k]];
    kn_tensor *x = kn_permute(kn_reshape(in[0], c->dims, m->rank), m->order, m->rank);
    return stored(c, kn_reshape(x, out, joined(turned, m->out, out)), in);
}

void plan_gather(chance *c, stream *s) {
    kn_dim  dims[CHANCE_AXES], index[2];
    int     rank = 1 + below(s, 3);
    int64_t rest = 1;
    c->axis      = one_in(s, 2) ? 0 : below(s, rank);
    say(c, " %d of", c->axis);
    plan_moved(c, s, dims, rank, MOST_ELEMENTS / 4);
    for (int k = 0; k < rank; k++) rest *= k == c->axis ? 1 : dims[k];
    index[0] = size(s, 4, rest < MOST_ELEMENTS / 64 ? MOST_ELEMENTS / 2 / rest : 32);
    index[1] = 1 + below(s, 3);
    give(c, KN_I32, (int)dims[c->axis] - 1, index, 1 + (index[1] > 1));
}
BUILD(gather) {
    CHOSEN;
    return stored(c, kn_gather(in[0], c->axis, in[1]), in);
}

/* Numbers beside an arange: one-hot rows, rows of truth values, and rows cut to a length each. */
void plan_places(chance *c, stream *s) {
    static const char *const names[] = {" one-hot", " equal", " cut"};
    kn_dim                   dims[2];
    spread(s, dims, 2, LEAST_ELEMENTS, MOST_ELEMENTS);
    c->kind   = below(s, 3);
    c->amount = dims[1];
    c->dtype  = float_type(s);
    say(c, "%s %d %s of", names[c->kind], (int)dims[1], kn_dtype_name(c->dtype));
    kn_dtype index = one_in(s, 3) ? KN_I64 : KN_I32;
    give(c, index, (int)dims[1] - 1, dims, 1);
    if (c->kind == 2) give(c, c->dtype, 0, dims, 2);
}
BUILD(places) {
    CHOSEN;
    if (c->kind == 0) return kn_one_hot(in[0], c->amount, c->dtype);
    kn_tensor *at = kn_unsqueeze(in[0], 1), *each = kn_iota(kn, c->amount, kn_dtype_of(in[0]));
    return c->kind == 1 ? kn_eq(at, each) : kn_where(kn_lt(each, at), in[1], kn_full(kn, 0, c->dtype, NULL, 0));
}

kn_tensor *triangle_of(kn_context *kn, kn_tensor *x, int64_t shift, bool upper, double beyond) {
    kn_tensor *i = kn_unsqueeze(kn_iota(kn, kn_size(x, -2), KN_I32), 1), *j = kn_iota(kn, kn_size(x, -1), KN_I32);
    if (shift) i = kn_add_s(i, (double)shift);
    return kn_where(upper ? kn_ge(j, i) : kn_le(j, i), x, kn_full(kn, beyond, kn_dtype_of(x), NULL, 0));
}
void plan_triangle(chance *c, stream *s) {
    kn_dim dims[CHANCE_AXES];
    int    rank = 2 + below(s, 2);
    c->variant  = below(s, 2);
    c->amount   = below(s, 4) - 1;
    say(c, c->variant ? " upper %d of" : " lower %d of", (int)c->amount);
    spread(s, dims, rank, LEAST_ELEMENTS, MOST_ELEMENTS);
    if (rank == 2 && !one_in(s, 4)) dims[0] = dims[1] = size(s, 40, 1000);
    give_moved(c, s, dims, rank);
}
BUILD(triangle) {
    CHOSEN;
    return stepped(c, 0, triangle_of(kn, in[0], c->amount, c->variant, 0), in);
}

void plan_cumsum(chance *c, stream *s) {
    kn_dim dims[CHANCE_AXES];
    int    rank = 1 + below(s, 3);
    c->axis     = one_in(s, 3) ? 0 : rank - 1;
    say(c, " %d of", c->axis);
    spread(s, dims, rank, LEAST_ELEMENTS / 2, MOST_ELEMENTS / 2);
    not_one(dims, rank, c->axis);
    give_moved(c, s, dims, rank);
}
BUILD(cumsum) {
    CHOSEN;
    return kn_cumsum(stepped(c, 0, in[0], in), c->axis);
}
