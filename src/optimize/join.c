/* join.c - options of short rows: lanes of several loops that are one run.
 *
 * Rows that fill no register, of what lies side by side where it is stored and near where it is read, as of a small
 * block that is turned, flipped or repeated: their lanes are joined with those of the loop around, and so on, until
 * they fill registers. Loads take all that they reach in a few runs, and shuffle it. */
#include "optimize/view.h"

enum {
    RUNS        = 4, /* that a register's lanes are shuffled from, at most */
    FEW_JOINED  = 4, /* registers of all lanes, */
    MOST_JOINED = 8, /* and at most */
    NARROW      = 16 /* bytes, of which shuffles of bytes and words take their own */
};

/* The loop of which what is stored has `apart` elements between two numbers; -1: there is none. */
static int loop_apart(const ko_view *v, int64_t apart) {
    for (int o = 0; o < v->outputs; o++) {
        bool all = ko_may_be_lane(v, o);
        for (int i = 0; i < v->naccess && all; i++)
            all = !v->access[i].stored || ko_stride_in(v, &v->access[i], o) == apart;
        if (all) return o;
    }
    return -1;
}

/* What a register's lanes read lies in a few runs; count: numbers of each of the loops, the inner ones first. */
static bool reads_near(const ko_view *v, const int *loop, const int64_t *count, int n) {
    for (int i = 0; i < v->naccess; i++) {
        const ko_access *a = &v->access[i];
        int64_t          size = kn_dsize(kg_dtype(v->g, a->node)), reach = 1;
        int64_t          lanes = size < 4 ? NARROW / size : v->machine->vector_bytes / size, left = lanes;
        if (a->stored) continue;
        if (!a->affine || (size >= 4 && !v->machine->mask_registers)) return false;
        for (int k = 0; k < n; k++) {
            int64_t some = KN_MIN(left, count[k]);
            reach        = kn_sat_add(reach, ko_reach(v->g, &a->form, v->nest->origin[loop[k]].range, some));
            left         = left % count[k] ? left / count[k] + 2 : left / count[k];
        }
        if (reach > RUNS * lanes) return false;
    }
    return true;
}

/* Numbers of the loop, each of which is of so many lanes, that make a few whole registers, or waste little. */
static int64_t some_of(const ko_view *v, int64_t extent, int64_t lanes) {
    for (int64_t k = 1; k <= extent && k * lanes <= MOST_JOINED * v->lanes; k++)
        if (k * lanes % v->lanes == 0) {
            while (2 * k <= extent && 2 * k * lanes <= FEW_JOINED * v->lanes) k *= 2;
            return k;
        }
    return KN_MIN(extent, KN_MAX(FEW_JOINED * v->lanes / lanes, (int64_t)1));
}

/* A comparison of indices moves with the loop. */
static bool is_limited(const ko_view *v, int origin) {
    for (int k = 0; k < v->nlimit; k++)
        if (kg_depends(v->g, v->limit[k], v->nest->origin[origin].range)) return true;
    return false;
}

/* What is read lies one after the other, as what is stored does: a mask of lanes is one of what is read. */
static bool reads_in_order(const ko_view *v, const int *loop, const int64_t *count, int n) {
    for (int i = 0; i < v->naccess; i++) {
        int64_t next = 1;
        for (int k = 0; k < n; next *= count[k++])
            if (ko_stride_in(v, &v->access[i], loop[k]) != next) return false;
    }
    return true;
}

bool ko_join_rows(ko_view *v, int lane, kn_opt *opts, int *n, int cap) {
    int     loop[3] = {lane}, count = 1;
    int64_t some[3] = {v->nest->origin[lane].extent}, lanes = some[0];
    bool    narrow = v->machine->vector_bytes / v->lanes < 4, masked = v->ngate > 0;
    if (!v->machine->turns || v->narrow || v->outputs < v->nest->norigin) return false;
    if (lanes >= v->lanes || loop_apart(v, 1) != lane) return false;
    while (count < KN_COUNT(loop) && lanes % v->lanes) {
        int o = loop_apart(v, lanes);
        if (o < 0) break;
        int64_t e    = v->nest->origin[o].extent;
        bool    last = e * lanes > MOST_JOINED * v->lanes || count + 1 == KN_COUNT(loop);
        loop[count]  = o;
        some[count]  = last ? some_of(v, e, lanes) : e;
        if (!reads_near(v, loop, some, count + 1)) break;
        lanes *= some[count++];
        if (last) break;
    }
    for (int k = 0; k < count && narrow; k++) masked |= is_limited(v, loop[k]);
    if (masked && !reads_in_order(v, loop, some, count)) return false; /* what lies apart goes one by one then */
    if (count < 2 || lanes < v->lanes / 2) return false;
    for (int k = 0; k < count; k++) { /* the inner ones last, so that the others are around them */
        int at = ko_position(v->nest, loop[k], KN_AXIS_LOOP);
        if (at < 0 || !ko_split(v, at, some[k], KN_AXIS_UPCAST, opts, n, cap)) return false;
    }
    for (int k = 1; k < count; k++) {
        kn_opt join = {.op = KN_OPT_JOIN, .axis = ko_position(v->nest, loop[k], KN_AXIS_UPCAST),
                       .arg = ko_position(v->nest, loop[k - 1], KN_AXIS_UPCAST)};
        if (!ko_push(v, join, opts, n, cap)) return false;
    }
    return true;
}
