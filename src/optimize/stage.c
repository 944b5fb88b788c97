/* stage.c - what the options say of memory: panels of a PARAM copied first, what PREFETCH announces, stores that go
 * past the caches.
 *
 * A panel is what a load walks in the loops inside the one where the copy is placed. It is copied to LOCAL memory
 * there, or to GLOBAL memory by a kernel that runs before: that one threads share, and it may outlive the run. What is
 * computed of the loaded element alone (a cast, a scale) is computed while copying. */
#include "optimize/apply.h"

#include <string.h>

enum { LINE = 64 };

typedef struct ko_swaps { /* replacements collected on a walk */
    kn_ref *from, *to;
    size_t  fc, tc;
    int     n;
} ko_swaps;

static bool add_swap(ko_state *s, ko_swaps *w, kn_ref from, kn_ref to) {
    const kn_alloc *a = kg_alloc(s->g);
    if (!KN_GROW(a, w->from, w->fc, (size_t)w->n + 1) || !KN_GROW(a, w->to, w->tc, (size_t)w->n + 1))
        return kn_oom(s->f);
    w->from[w->n] = from;
    w->to[w->n++] = to;
    return true;
}

/* What stands below a replacement is replaced first: a load may be in the bound of another one's loop. */
static kn_ref do_swaps(ko_state *s, ko_swaps *w, kn_ref sink) {
    for (int i = 1; i < w->n; i++)
        for (int k = i; k > 0 && w->from[k - 1] > w->from[k]; k--) {
            kn_ref from = w->from[k], to = w->to[k];
            w->from[k]     = w->from[k - 1];
            w->to[k]       = w->to[k - 1];
            w->from[k - 1] = from;
            w->to[k - 1]   = to;
        }
    for (int i = 1; i < w->n && sink; i++)
        if (!(w->to[i] = kg_substitute(s->g, w->to[i], w->from, w->to, i))) sink = 0;
    if (sink && w->n) sink = kg_substitute(s->g, sink, w->from, w->to, w->n);
    kn_free(kg_alloc(s->g), w->from, w->fc * sizeof *w->from);
    kn_free(kg_alloc(s->g), w->to, w->tc * sizeof *w->to);
    return sink;
}

/* `at` is an INDEX of the PARAM itself. */
static bool place_in(const kn_graph *g, kn_ref at, int64_t slot) {
    if (kg_op(g, at) != KN_OP_INDEX || kg_op(g, kg_at(g, at, 0)) != KN_OP_PARAM) return false;
    return kg_field(g, kg_at(g, at, 0), KN_F_PARAM_slot) == slot;
}

/* It may have a gate, as lanes under a mask have. */
static bool any_load_of(const kn_graph *g, kn_ref l, int64_t slot) {
    return kg_op(g, l) == KN_OP_LOAD && place_in(g, kg_at(g, l, 0), slot);
}

static bool plain_load_of(const kn_graph *g, kn_ref l, int64_t slot) {
    return any_load_of(g, l, slot) && kg_nsrc(g, l) == 1;
}

static bool plain_store_to(const kn_graph *g, kn_ref n, int64_t slot) {
    return kg_op(g, n) == KN_OP_STORE && place_in(g, kg_at(g, n, 0), slot);
}

/* ---- panels -------------------------------------------------------------------------------------------------- */

/* Elements between the rows of a copy whose innermost run is not the lanes': an odd number of cache lines, so that rows
 * fall into different sets. */
static int64_t pitch_of(int64_t run, int item) {
    int64_t lines = (kn_sat_mul(run, item) + LINE - 1) / LINE;
    return (lines | 1) * LINE / item;
}

static int stage_order(const kn_opt *o, int place) {
    for (int i = 0; i < o->naxes; i++)
        if (o->axes[i] == place) return i;
    return o->naxes;
}

enum { MAX_COPIES = 32, MAX_DIMS = 32 };

typedef struct ko_copy { /* made already: what stands in it, over which loops */
    kn_ref source, fresh[MAX_DIMS], bound[MAX_DIMS], memory, filled; /* filled 0: before the kernel runs */
    int    n;
    bool   lanes; /* ends in lanes: its rows stand close */
} ko_copy;

typedef struct ko_copies {
    ko_copy copy[MAX_COPIES];
    int     n;
    bool    threads, large; /* why some could not be */
} ko_copies;

/* Clones of a loop copy the same panel where it does not depend on the loop: they share one. */
static const ko_copy *find_copy(kn_graph *g, const ko_copies *all, kn_ref value, const kn_ref *in, int n, bool lanes) {
    for (int i = 0; i < all->n; i++) {
        const ko_copy *c = &all->copy[i];
        bool           same = c->n == n && c->lanes == lanes;
        for (int k = 0; k < n && same; k++) same = c->bound[k] == kg_at(g, in[k], 0);
        if (same && kg_substitute(g, value, in, c->fresh, n) == c->source) return c;
    }
    return NULL;
}

/* The copy's own loops over in[0..n-1]: fresh[i] stands for in[i]. A copy that ends in a loop, not in lanes, walks it
 * in as many lanes as divide it; one that is a kernel of its own gets its lanes there. False: not over these loops, or
 * a fault. */
static bool copy_loops(ko_state *s, const kn_ref *in, int n, int item, bool global, ko_copy *c, kn_ref *loop,
                       int *nloop) {
    kn_graph *g     = s->g;
    bool      lanes = ko_is_lane((int)kg_field(g, in[n - 1], KN_F_RANGE_type));
    int       last  = 0;
    *nloop          = 0;
    for (int l = 0; l < s->nest->nloop; l++)
        if (ko_is_lane(s->nest->loop[l].type)) last = KN_MAX(last, s->slot[l]);
    for (int i = 0; i < n; i++) { /* outer ones first: bounds may be read from them */
        kn_ref b = i ? kg_substitute(g, kg_at(g, in[i], 0), in, c->fresh, i) : kg_at(g, in[i], 0);
        for (int k = i; k < n; k++)
            if (!b || kg_depends(g, b, in[k])) return false; /* stored outside the loop its bound is read from */
        int64_t size = kg_op(g, b) == KN_OP_CONST ? kg_const_int(g, b) : 0, wide = 1;
        int     type = (int)kg_field(g, in[i], KN_F_RANGE_type), axis = (int)kg_field(g, in[i], KN_F_RANGE_axis);
        type         = type == KN_AXIS_GROUP_REDUCE || type == KN_AXIS_UPCAST ? KN_AXIS_UPCAST : KN_AXIS_LOOP;
        if (!lanes || global) type = KN_AXIS_LOOP;
        if (global && !size) return false;
        while (!lanes && !global && i == n - 1 && size && size % (2 * wide) == 0 && 2 * wide * item <= LINE) wide *= 2;
        c->bound[i] = kg_at(g, in[i], 0);
        kn_ref r    = c->fresh[i] = wide > 1 && wide == size ? kg_idx(g, 0)
                                                             : ko_new_range(s, wide > 1 ? kg_idx(g, size / wide) : b,
                                                                            type, axis, KN_MAX_NEST);
        if (!r) return false;
        if (kg_op(g, r) == KN_OP_RANGE) loop[(*nloop)++] = r;
        if (wide == 1) continue;
        kn_ref lane = loop[(*nloop)++] = ko_new_range(s, kg_idx(g, wide), KN_AXIS_UPCAST, last, KN_MAX_NEST);
        c->fresh[i] = lane ? kg_op2(g, KN_OP_ADD, kg_op2(g, KN_OP_MUL, r, kg_idx(g, wide)), lane) : 0;
        if (!c->fresh[i]) return false;
    }
    return true;
}

/* A kernel of its own has the PARAM and nothing else: no other array, no stage, no variable. A copy in this one reads
 * no stage that is filled in the loops it copies over, and no sum computed there: the stage would be filled twice, and
 * two sums would have one loop. */
static bool reads_apart(ko_state *s, kn_ref x, int64_t slot, bool global, const kn_ref *in, int n) {
    kn_graph *g = s->g;
    kn_ref   *order;
    uint32_t  count;
    bool      apart = true;
    if (!kg_reach(g, &x, 1, &order, &count)) return kn_oom(s->f);
    for (uint32_t i = 0; i < count && apart; i++) {
        int op = kg_op(g, order[i]);
        if (global) apart = op == KN_OP_PARAM ? kg_field(g, order[i], KN_F_PARAM_slot) == slot : op != KN_OP_BUFFER;
        for (int k = 0; k < n && (op == KN_OP_STORE || op == KN_OP_REDUCE); k++)
            apart &= !kg_depends(g, order[i], in[k]);
    }
    kn_free(kg_alloc(g), order, count * sizeof *order);
    return apart;
}

/* Loops as the source lies in memory: what is far apart outside, so that rows are read one after the other. */
static bool source_order(ko_state *s, kn_ref source, int64_t slot, kn_ref *loop, int n) {
    kn_graph *g = s->g;
    kn_ref   *order;
    uint32_t  count;
    kn_affine f = {.n = 0};
    if (!kg_reach(g, &source, 1, &order, &count)) return kn_oom(s->f);
    for (uint32_t i = 0; i < count; i++)
        if (plain_load_of(g, order[i], slot) && !kg_affine(g, kg_at(g, kg_at(g, order[i], 0), 1), &f)) f.n = 0;
    kn_free(kg_alloc(g), order, count * sizeof *order);
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0; k--) {
            int64_t a = kn_affine_coef(&f, loop[k - 1]), b = kn_affine_coef(&f, loop[k]);
            if ((a < 0 ? -a : a) >= (b < 0 ? -b : b)) break;
            kn_ref t    = loop[k];
            loop[k]     = loop[k - 1];
            loop[k - 1] = t;
        }
    return true;
}

/* The copy becomes a kernel before this one. */
static bool add_panel(ko_state *s, ko_copy *c, int64_t source, int64_t size) {
    if (s->panels->n == KN_MAX_STAGES) return false;
    s->panels->panel[s->panels->n++] = (ko_panel){.fill   = c->filled,
                                                  .memory = c->memory,
                                                  .slot   = kg_field(s->g, c->memory, KN_F_PARAM_slot),
                                                  .source = source,
                                                  .size   = size,
                                                  .dtype  = kg_dtype(s->g, c->source)};
    c->filled = 0;
    return true;
}

/* value (a load, or something computed of it alone) read from a copy; 0: not there, or too large. */
static kn_ref stage_value(ko_state *s, kn_ref value, const kn_opt *o, ko_copies *copies) {
    kn_graph *g = s->g;
    kn_ref    open[MAX_DIMS], in[MAX_DIMS], out[MAX_DIMS], mine = kg_idx(g, 0), its = kg_idx(g, 0);
    int       all = kg_ranges(g, value, open, KN_COUNT(open)), n = 0, nout = 0, item = kn_dsize(kg_dtype(g, value));
    bool      sums = false, global = o->axis == KN_STAGE_GLOBAL;
    int64_t   size = 1;
    if (all > KN_COUNT(open)) return 0;
    for (int pass = 0; pass < 2; pass++) /* lanes last: they walk by one */
        for (int i = 0; i < all; i++) {
            int  type = (int)kg_field(g, open[i], KN_F_RANGE_type), place = ko_place(s, open[i]);
            bool lane = ko_is_lane(type), sum = type == KN_AXIS_REDUCE || type == KN_AXIS_UNROLL;
            bool inside = lane || global || (o->axis >= 0 ? place > o->axis : sum);
            if (place < 0 || lane != (pass == 1)) continue;
            if (type == KN_AXIS_THREAD && inside && !global) return copies->threads = true, 0;
            sums |= sum || type == KN_AXIS_GROUP_REDUCE;
            if (!inside) out[nout++] = open[i];
            if (!inside) continue;
            int at = n++;
            in[at] = open[i];
            for (; at > 0 && !lane && ko_place(s, in[at - 1]) > place; at--) in[at] = in[at - 1], in[at - 1] = open[i];
        }
    for (int i = 0; i < nout; i++)
        for (int k = 0; k < n; k++)
            if (kg_depends(g, kg_at(g, out[i], 0), in[k])) return 0; /* it would stand around what bounds it */
    if (!n || (o->axis == KN_STAGE_SUM && (!sums || n < 2))) return 0;
    if (!reads_apart(s, value, o->arg, global, in, n)) return 0;
    for (int i = 1; i < n && o->naxes; i++) /* stable, by the order that was asked for */
        for (int k = i; k > 0 && stage_order(o, ko_place(s, in[k - 1])) > stage_order(o, ko_place(s, in[k])); k--) {
            kn_ref t  = in[k];
            in[k]     = in[k - 1];
            in[k - 1] = t;
        }
    bool           lanes = ko_is_lane((int)kg_field(g, in[n - 1], KN_F_RANGE_type));
    const ko_copy *made  = find_copy(g, copies, value, in, n, lanes);
    ko_copy        fill  = {.n = n, .lanes = lanes};
    kn_ref         loop[MAX_DIMS + 1];
    int            nloop = 0;
    if (!made && !copy_loops(s, in, n, item, global, &fill, loop, &nloop)) return 0;
    for (int i = n; i-- > 0;) {
        int64_t extent = KN_MAX(kg_max(g, kg_at(g, in[i], 0)), 0);
        kn_ref  st = kg_idx(g, size);
        if (!made) mine = kg_op2(g, KN_OP_ADD, mine, kg_op2(g, KN_OP_MUL, fill.fresh[i], st));
        its  = kg_op2(g, KN_OP_ADD, its, kg_op2(g, KN_OP_MUL, in[i], st));
        size = kn_sat_mul(size, extent);
        if (i == n - 1 && n > 1 && o->more >= size) size = o->more;
        else if (i == n - 1 && n > 1 && !o->more && !lanes) size = pitch_of(size, item);
    }
    if (size < 1 || size > (global ? INT64_MAX : (int64_t)KN_STAGE_BYTES) / item) return copies->large = true, 0;
    if (!made) {
        int dt      = kg_dtype(g, value);
        fill.source = kg_substitute(g, value, in, fill.fresh, n);
        fill.memory = global ? kg_param(g, s->panels->next++, dt, &size, 1)
                             : kg_buffer(g, s->next_local++, size, dt, 0, KN_LOCAL);
        if (global && fill.source && !source_order(s, fill.source, o->arg, loop, nloop)) return 0;
        kn_ref put  = fill.source ? kg_store(g, kg_index(g, fill.memory, &mine, 1), fill.source, 0) : 0;
        if (!put || !(fill.filled = kg_end(g, put, loop, nloop))) return 0;
        if (global && !add_panel(s, &fill, o->arg, size)) return 0;
        copies->copy[KN_MIN(copies->n, MAX_COPIES - 1)] = fill; /* of many the last stands for those that follow */
        made = &copies->copy[KN_MIN(copies->n, MAX_COPIES - 1)];
        if (copies->n < MAX_COPIES) copies->n++;
    }
    kn_ref memory = made->filled ? kg_after(g, made->memory, &made->filled, 1) : made->memory;
    return kg_load(g, kg_index(g, memory, &its, 1));
}

/* Of each node the one load it is computed of, with constants; 0: of none, or of more. */
static kn_ref *single_loads(ko_state *s, const kn_ref *order, uint32_t n, kn_ref sink, int64_t slot) {
    kn_graph *g   = s->g;
    kn_ref   *own = kn_zalloc(kg_alloc(g), ((size_t)sink + 1) * sizeof *own);
    for (uint32_t i = 0; i < n && own; i++) {
        kn_ref x = order[i], of = 0;
        bool   ok = kn_is_alu(kg_op(g, x)) || kg_op(g, x) == KN_OP_BITCAST;
        if (plain_load_of(g, x, slot)) own[x] = x;
        for (uint32_t k = 0; k < kg_nsrc(g, x) && ok; k++) {
            kn_ref y = kg_at(g, x, k);
            if (kg_op(g, y) == KN_OP_CONST) continue;
            ok = own[y] && (!of || of == own[y]);
            of = own[y];
        }
        if (ok && of) own[x] = of;
    }
    return own;
}

static kn_ref stage_param(ko_state *s, kn_ref sink, const kn_opt *o) {
    kn_graph *g = s->g;
    kn_ref   *order, *own;
    uint32_t  n;
    ko_swaps  w      = {0};
    ko_copies copies = {.n = 0};
    if (!kg_reach(g, &sink, 1, &order, &n)) return kn_oom(s->f), 0;
    size_t size = (size_t)sink + 1;
    /* last[l]: the one value of l that what depends on more uses; 0: several, so the load itself is staged */
    kn_ref *last = kn_zalloc(kg_alloc(g), size * sizeof *last);
    if (!(own = single_loads(s, order, n, sink, o->arg)) || !last) kn_oom(s->f);
    for (uint32_t i = 0; i < n && !s->f->code; i++)
        for (uint32_t k = 0; k < kg_nsrc(g, order[i]); k++) {
            kn_ref y = kg_at(g, order[i], k);
            if (!own[y] || own[order[i]]) continue;
            last[own[y]] = last[own[y]] && last[own[y]] != y ? own[y] : y;
        }
    for (uint32_t i = 0; i < n && !s->f->code; i++) {
        if (!plain_load_of(g, order[i], o->arg) || !last[order[i]]) continue;
        kn_ref value = last[order[i]], staged = stage_value(s, value, o, &copies);
        if (staged) add_swap(s, &w, value, staged);
    }
    if (!w.n && !s->f->code) {
        long long   param = (long long)o->arg;
        const char *what  = copies.threads ? " for each thread" : copies.large ? " that fits LOCAL memory" : NULL;
        if (what)
            kn_fail(s->f, KN_ERR_ARG,
                    "STAGE: no load of PARAM %lld has a panel there%s: STAGE:%lld:GLOBAL copies it first", param, what,
                    param);
        else kn_fail(s->f, KN_ERR_ARG, "STAGE: no load of PARAM %lld has a panel there", param);
    }
    sink = do_swaps(s, &w, sink);
    if (own) kn_free(kg_alloc(g), own, size * sizeof *own);
    if (last) kn_free(kg_alloc(g), last, size * sizeof *last);
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return s->f->code ? 0 : sink;
}

/* ---- hints --------------------------------------------------------------------------------------------------- */

/* The innermost loop the index moves with. */
static kn_ref innermost_loop(const ko_state *s, kn_ref idx) {
    const kn_graph *g = s->g;
    kn_ref          r[32], best = 0;
    int             n = KN_MIN(kg_ranges(g, idx, r, KN_COUNT(r)), KN_COUNT(r));
    for (int i = 0; i < n; i++) {
        int type = (int)kg_field(g, r[i], KN_F_RANGE_type);
        if (ko_is_lane(type) || type == KN_AXIS_UNROLL) continue;
        bool inside = best && (ko_place(s, r[i]) > ko_place(s, best) || kg_depends(g, r[i], best)); /* by its bound */
        if (!best || inside) best = r[i];
    }
    return best;
}

enum { READS_NOTHING, READS_PARAMS, READS_OWN }; /* own: what the kernel itself puts there first, or sums */

static int reads_memory(ko_state *s, kn_ref x) {
    kn_ref  *order;
    uint32_t n;
    int      reads = READS_NOTHING;
    if (!kg_reach(s->g, &x, 1, &order, &n)) return kn_oom(s->f), READS_OWN;
    for (uint32_t i = 0; i < n; i++) {
        if (kg_op(s->g, order[i]) == KN_OP_LOAD) reads = KN_MAX(reads, READS_PARAMS);
        if (kg_op(s->g, order[i]) == KN_OP_STORE || kg_op(s->g, order[i]) == KN_OP_REDUCE) reads = READS_OWN;
    }
    kn_free(kg_alloc(s->g), order, n * sizeof *order);
    return reads;
}

/* What is read at idx `more` iterations of r later. 0: that is not known in time, or not worth it, or a fault. */
static kn_ref fetch_ahead(ko_state *s, kn_ref p, kn_ref idx, kn_ref r, int64_t more) {
    kn_graph *g     = s->g;
    int       reads = reads_memory(s, idx);
    if (reads == READS_OWN) return 0; /* what is read later is not there yet; a sum costs more than its wait */
    if (reads == READS_PARAMS && kg_min(g, kg_at(g, r, 0)) < 1) return 0; /* nor in a loop that never runs */
    kn_ref ahead = kg_op2(g, KN_OP_ADD, r, kg_idx(g, more));
    if (reads == READS_PARAMS) /* what it reads must be there */
        ahead = kg_op2(g, KN_OP_MIN, ahead, kg_op2(g, KN_OP_ADD, kg_at(g, r, 0), kg_idx(g, -1)));
    ahead        = kg_substitute(g, idx, &r, &ahead, 1);
    kn_ref place = ahead ? kg_index(g, p, &ahead, 1) : 0;
    return place ? kg_op1(g, KN_OP_PREFETCH, place) : 0;
}

static bool closes(const kn_graph *g, kn_ref end, kn_ref r) {
    bool found = false;
    for (uint32_t k = 1; k < kg_nsrc(g, end) && !found; k++) found = kg_at(g, end, k) == r;
    return found;
}

/* The END that closes r, and can hold what is announced; 0: there is none, as a sum closes r, or lanes beside it. */
static kn_ref end_around(const kn_graph *g, const kn_ref *order, uint32_t n, kn_ref r, kn_ref fetch) {
    kn_ref all[64], end = 0;
    int    m = kg_ranges(g, fetch, all, KN_COUNT(all));
    for (uint32_t i = n; i-- > 0 && !end;)
        if (kg_op(g, order[i]) == KN_OP_END && closes(g, order[i], r)) end = order[i];
    if (m > KN_COUNT(all)) return 0;
    for (int i = 0; i < m && end; i++)
        if (!closes(g, end, all[i]) && !kg_depends(g, end, all[i])) end = 0;
    return end;
}

/* An END's body does that as well, behind all loads: those that are announced before others of their round were
 * measured to be slower (docs/decisions-measured.md). */
static bool add_to_end(ko_state *s, ko_swaps *w, kn_ref end, kn_ref fetch) {
    kn_graph *g  = s->g;
    int       at = 0;
    while (at < w->n && w->from[at] != end) at++;
    kn_ref body = kg_at(g, at < w->n ? w->to[at] : end, 0);
    kn_ref both = kg_list(g, KN_OP_GROUP, (kn_ref[]){body, fetch}, 2);
    kn_ref now  = both ? kg_end(g, both, kg_src(g, end) + 1, (int)kg_nsrc(g, end) - 1) : 0;
    if (at == w->n) return now && add_swap(s, w, end, now);
    w->to[at] = now;
    return now != 0;
}

static kn_ref hint(ko_state *s, kn_ref sink, const kn_opt *o) {
    kn_graph *g = s->g;
    kn_ref   *order;
    uint32_t  n;
    int       found = 0;
    ko_swaps  w = {0};
    bool      ok = true;
    if (!kg_reach(g, &sink, 1, &order, &n)) return kn_oom(s->f), 0;
    for (uint32_t i = 0; i < n && ok; i++) {
        kn_ref l = order[i], at = kg_nsrc(g, l) ? kg_at(g, l, 0) : 0;
        bool   store = plain_store_to(g, l, o->arg);
        if (o->op == KN_OPT_PREFETCH && (store || any_load_of(g, l, o->arg))) {
            kn_ref p = kg_at(g, at, 0), idx = kg_at(g, at, 1), r = innermost_loop(s, idx), src[3];
            kn_ref fetch = r ? fetch_ahead(s, p, idx, r, o->more) : 0;
            kn_ref end   = fetch ? end_around(g, order, n, r, fetch) : 0;
            if (!fetch) continue;
            found++;
            if (end && !store) {
                ok = add_to_end(s, &w, end, fetch);
                continue;
            }
            memcpy(src, kg_src(g, l), kg_nsrc(g, l) * sizeof *src); /* the access as it was, at a place behind that */
            src[0] = kg_index(g, kg_after(g, p, &fetch, 1), &idx, 1);
            ok     = add_swap(s, &w, l, kg_with_src(g, l, src, kg_nsrc(g, l)));
        } else if (o->op == KN_OPT_STREAM && store) {
            found++;
            ok = add_swap(s, &w, l, kg_make(g, KN_OP_STORE, 0, 1, kg_src(g, l), kg_nsrc(g, l)));
        }
    }
    if (ok && !found)
        kn_fail(s->f, KN_ERR_ARG, "%s: no plain %s of PARAM %lld in a loop",
                o->op == KN_OPT_STREAM ? "STREAM" : "PREFETCH", o->op == KN_OPT_STREAM ? "store" : "access",
                (long long)o->arg);
    sink = do_swaps(s, &w, ok ? sink : 0);
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return s->f->code ? 0 : sink;
}

kn_ref ko_apply_memory(ko_state *s, kn_ref sink, const kn_opt *o) {
    return o->op == KN_OPT_STAGE ? stage_param(s, sink, o) : hint(s, sink, o);
}
