/* cost.c - the predicted cost of a nest: loads by stride, arithmetic, trips, and the cache that holds each panel.
 *
 * A site (model.h) stands in the innermost loop that it depends on, inside all loops around that one; the lane loops
 * (UPCAST, GROUP_REDUCE) that it depends on are vectors if the last of them is walked by one, else element by element.
 *
 * Memory: for each cache, the outermost loop is found whose one iteration touches no more than the cache holds; what
 * the loops outside of it ask for again comes from the next level, except by loops just outside along which a buffer
 * stands still. Several sites of one buffer share what they touch. Overlap of windows is bounded by the buffer's size
 * alone, so convolutions are overestimated. Gates are taken to be open, but in pieces of a loop where none is. */
#include "optimize/model.h"

#include <string.h>

enum {
    WAY         = 4096, /* bytes of an L1 that lie in one set with no other of them */
    LATENCY     = 4, /* cycles until an accumulator can be added to again, of integers 1; */
    SHORT_CHAIN = 32, /* terms of which the next sum's begin meanwhile; */
    SHORT_SCAN  = 8,  /* of a scan, which stores each */
    INSERT      = 1, /* cycles to load one lane of a vector, */
    EXTRACT     = 2, /* and to store one; */
    PAIRS       = 4, /* lanes at most that are joined in registers, after the first */
    RAGGED      = 3, /* times that to store them where lanes are no whole vectors, but a half, a quarter and so on */
    A_JUMP      = 1, /* cycles behind a gate, */
    SPREAD      = 2 /* and cycles until a mask of lanes is one of what lies between them as well */
};

#define A_RUN 1.75 /* cycles for one of several that a register of words is shuffled from, */
#define A_PART 0.5 /* and for fewer than it takes, which are loaded in parts that nothing else be read */
#define A_GATHER 1.6 /* cycles for a lane of those that are wherever a register of numbers says, */
#define WORDS 16 /* cycles for a register of two bytes a lane, up to seven apart, by shuffles of eight and ors */
#define MANY_ROWS 1.5 /* times that five rows to seven in turns take, as they were measured */
#define COPY 0.5 /* cycles a byte, of what is copied as it is turned */
#define BESIDE 0.0625 /* of what loads and stores issue, that arithmetic which takes longer does not hide */
#define UNHIDDEN 0.12 /* of the lesser of arithmetic and memory, that the other does not hide */

int64_t ko_vectors(int64_t lanes, int64_t each) {
    return lanes / each + __builtin_popcountll((unsigned long long)(lanes % each));
}

/* ---- a candidate --------------------------------------------------------------------------------------------- */

typedef struct ko_shape { /* the nest, loop by loop */
    const kn_nest  *nest;
    const ko_model *model;
    uint64_t        origin[KN_MAX_NEST]; /* a bit */
    bool            lane[KN_MAX_NEST];
    double          extent[KN_MAX_NEST];
    double          run[KN_MAX_NEST]; /* numbers of another loop that its lanes have between two of its own, 1 none */
    uint64_t        around[KN_MAX_NEST]; /* per END or REDUCE: the loops it stands in */
    int             chain[KN_MAX_NEST], nchain; /* output loops whose lanes are one run, the inner ones first */
    int64_t         each[KN_MAX_NEST];          /* lanes of each */
    uint64_t        joined;                     /* their origins */
    bool            moves; /* nothing is computed: what is read one by one is stored so, and no vector made of it */
} ko_shape;

/* The loops that stand around what depends on those origins; lane loops of the same ENDs and REDUCEs among them. */
static uint64_t loop_set_around(const ko_shape *h, uint64_t on, bool alone) {
    uint64_t set = 0;
    for (int c = 0; c < h->model->ncloser; c++) {
        uint64_t own  = h->model->own[c];
        int      last = -1;
        if (!(on & own)) continue;
        if (!alone) set |= h->around[c];
        for (int l = 0; l < h->nest->nloop; l++)
            if (!h->lane[l] && on & own & h->origin[l]) last = l;
        for (int l = 0; l < h->nest->nloop; l++)
            if (own & h->origin[l] && (h->lane[l] || l <= last)) set |= (uint64_t)1 << l;
    }
    return set;
}

/* A load of lanes of a sum in copies: registers have them all while loops inside, which it does not move with, run. */
static bool is_held(const ko_shape *h, const ko_site *s, const kn_machine *m) {
    double registers = 1, lanes = 1;
    bool   copies = s->base >= 0 && !s->store, moves = false;
    for (int l = 0; l < h->nest->nloop && copies; l++) {
        const kn_loop *at = &h->nest->loop[l];
        if (h->nest->origin[at->origin].reduce) copies = at->type == KN_AXIS_UNROLL;
        if (!(s->on & h->origin[l])) continue;
        if (h->lane[l]) registers *= lanes, lanes = h->extent[l], moves = s->stride[at->origin] > 1;
        if (at->type == KN_AXIS_UNROLL) registers *= h->extent[l];
    }
    registers *= (double)ko_vectors((int64_t)lanes, KN_MAX(m->vector_bytes / s->size, 1));
    return copies && moves && 2 * registers <= (double)m->vector_registers;
}

/* The last lane loop that stands around the site, -1: none. */
static int lane_of(const ko_shape *h, const ko_site *s) {
    int lane = -1;
    for (int l = 0; l < h->nest->nloop; l++)
        if (h->lane[l] && s->around >> l & 1) lane = l;
    return lane;
}

/* Each number of the origin has copies of its own: rows of a tile, and terms of a sum. */
static bool is_copied(const ko_shape *h, const ko_site *s, int origin) {
    int     lane   = lane_of(h, s);
    int64_t copies = 1;
    for (int l = 0; l < h->nest->nloop; l++) {
        const kn_loop *at = &h->nest->loop[l];
        if (at->origin != origin || at->extent <= 1) continue;
        if (l == lane || (!h->lane[l] && at->type != KN_AXIS_UNROLL)) return false;
        copies *= at->extent;
    }
    return copies == h->nest->origin[origin].extent; /* lanes that are joined with others are a loop of one */
}

/* Of the numbers of its part's origin as many as pieces walk that have some of the part: in others it is left out. */
static double in_pieces(const ko_shape *h, const ko_site *s) {
    if (s->part.origin < 0) return 1;
    const kn_origin *o      = &h->nest->origin[s->part.origin];
    int64_t          walked = 0, size = 0;
    if (s->base < 0 && is_copied(h, s, s->part.origin))
        return (double)KN_MAX(s->part.to - s->part.from, (int64_t)0) / (double)o->extent;
    for (int64_t from = 0; from < o->extent; from += size) {
        bool    main = from == o->front;
        int64_t end  = from < o->front ? o->front : main ? o->extent - o->back : o->extent;
        size         = o->part && !main ? KN_MIN(o->part, end - from) : end - from;
        if (s->part.from < from + size && s->part.to > from) walked += size;
    }
    return (double)walked / (double)o->extent;
}

/* How often the site is reached. */
static double trips_around(const ko_shape *h, const ko_site *s) {
    double trips = in_pieces(h, s);
    for (int l = 0; l < h->nest->nloop; l++)
        if (!h->lane[l] && s->around >> l & 1) trips *= h->extent[l];
    return trips;
}

/* How the origin goes in phases, NULL: it does not. */
static const ko_phase *phase_of(const ko_site *s, int origin) {
    for (int k = 0; k < s->nphase; k++)
        if (s->phase[k].origin == origin) return &s->phase[k];
    return NULL;
}

static double step_bytes(const ko_shape *h, const ko_site *s, int l) {
    const kn_loop  *at     = &h->nest->loop[l];
    const ko_phase *p      = phase_of(s, at->origin);
    int64_t         stride = s->stride[at->origin];
    if (p) {
        bool many = at->stride * at->extent > p->every && !p->within && !(s->gate & h->origin[l]);
        if (at->stride % p->every == 0 || many) /* of many phases as much on average */
            return (double)stride * (double)at->stride / (double)p->every * s->size / h->run[l];
        stride = at->stride * at->extent <= p->every ? p->within : KO_JUMPS;
    }
    return stride >= KO_JUMPS ? 1e18 : (double)stride * (double)at->stride * s->size / h->run[l];
}

/* The site moves with the loop, or with another one whose lanes are joined with it. */
static bool moves_with(const ko_shape *h, const ko_site *s, int lane) {
    return s->on & (h->nchain && lane == h->chain[0] ? h->joined : h->origin[lane]);
}

/* Of joined lanes: they lie one after the other. */
static bool in_order(const ko_shape *h, const ko_site *s) {
    int64_t next = 1;
    for (int k = 0; k < h->nchain; next *= h->each[k++])
        if (s->stride[h->nest->loop[h->chain[k]].origin] != next) return false;
    return true;
}

/* The element that number n of the loop's origin is at, where it begins with the loop. */
static int64_t element_at(const ko_shape *h, const ko_site *s, int l, int64_t n) {
    int            o = h->nest->loop[l].origin;
    const ko_phase *p = phase_of(s, o);
    int64_t        at = p ? n / p->every * s->stride[o] + n % p->every * p->within : n * s->stride[o];
    if (!p && s->stride[o] >= KO_JUMPS) return n * s->reach[o] / KN_MAX(h->nest->origin[o].extent - 1, (int64_t)1);
    return s->down >> o & 1 ? -at : at;
}

int64_t ko_places_span(const int64_t *place, int64_t lanes) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (int64_t l = 0; l < lanes; l++) first = KN_MIN(first, place[l]), last = KN_MAX(last, place[l]);
    return kn_sat_add(last, -first);
}

int ko_runs(const int64_t *place, int64_t lanes, int most) {
    int64_t next = INT64_MAX;
    int     runs = 0;
    for (int64_t l = 0; l < lanes; l++) next = KN_MIN(next, place[l]);
    while (next < INT64_MAX && runs <= most) {
        int64_t from = next;
        runs++;
        next = INT64_MAX;
        for (int64_t l = 0; l < lanes; l++)
            if (place[l] - from >= lanes) next = KN_MIN(next, place[l]);
    }
    return runs;
}

/* Cycles for a register of joined lanes, which a few runs are shuffled for; 0: they are far apart. Most are as the
 * first two. */
static double from_runs(const ko_shape *h, const ko_site *s, const kn_machine *m) {
    int64_t bytes = m->vector_bytes, lanes = (s->size < 4 ? KN_MIN(bytes, 16) : bytes) / s->size, place[64];
    int64_t all = h->nest->loop[h->chain[0]].extent, whole = ko_vectors(all, KN_MAX(bytes / s->size, 1));
    double  parts = (double)ko_vectors(all, KN_MAX(lanes, 1)) / (double)whole; /* bytes go by sixteen */
    int     runs = 1;
    bool    part = false;
    if (s->store || (s->size >= 4 && !m->mask_registers) || lanes < 1 || lanes > KN_COUNT(place)) return 0;
    for (int k = 0; k < h->nchain; k++)
        if (s->reach[h->nest->loop[h->chain[k]].origin] >= KO_JUMPS) return 0;
    for (int64_t r = 0; r < KN_MIN(2 * lanes, all); r += lanes) {
        for (int64_t l = 0; l < lanes; l++) {
            int64_t n = KN_MIN(r + l, all - 1);
            place[l]  = 0;
            for (int k = 0; k < h->nchain; n /= h->each[k++]) place[l] += element_at(h, s, h->chain[k], n % h->each[k]);
        }
        int64_t some = ko_places_span(place, lanes) + 1; /* fewer than a register's: in parts, nothing else is read */
        part |= some < lanes && some & (some - 1);
        runs = KN_MAX(runs, ko_runs(place, lanes, KO_RUNS));
    }
    if (runs > KO_RUNS) return 0;
    double cycles = s->size < 4 || runs == 1 ? runs + 0.5 : runs * A_RUN;
    return parts * cycles + (part && s->size >= 4 ? A_PART : 0);
}

/* An access that takes its lanes one by one. */
static bool jumps(const ko_shape *h, const ko_site *s, int lane) {
    if (s->base >= 0 && h->model->base[s->base].copied) return false;
    if (h->nchain && lane == h->chain[0]) return s->base >= 0 && moves_with(h, s, lane) && !in_order(h, s);
    return s->base >= 0 && lane >= 0 && s->on & h->origin[lane] && step_bytes(h, s, lane) > s->size;
}

/* Lanes of another loop that have side by side what these have apart: a block that registers turn. 0: there are none.
 */
static double beside(const ko_shape *h, const ko_site *s, const kn_machine *m, int lane) {
    for (int l = 0; l < h->nest->nloop && m->turns && !s->gate; l++)
        if (h->lane[l] && l != lane && s->on & h->origin[l] && step_bytes(h, s, l) <= s->size) return h->extent[l];
    return 0;
}

/* The largest distance of lanes that a load has shuffled to their places: sixteen one by one take more, but in a
 * block. */
static int most_near(const ko_shape *h, const ko_site *s, const kn_machine *m, int lane) {
    if (m->vector_bytes < 64) return KN_NEAR / 2;
    return s->size == 4 && h->nest->loop[lane].extent >= 16 && !beside(h, s, m, lane) ? KN_IN_TURNS : KN_NEAR;
}

/* Cycles for the gate of a load whose lanes are shuffled: a jump, and a mask of what lies between the lanes as well,
 * but where that is a number, as all that its lanes' comparisons ask for are lanes as well, or copies. */
static double with_gate(const ko_shape *h, const ko_site *s, int lane) {
    for (int k = 0; k < KO_LIMITS; k++) {
        if (!(s->limit[k] & h->origin[lane])) continue;
        for (int l = 0; l < h->nest->nloop; l++) {
            bool known = h->lane[l] || h->nest->loop[l].type == KN_AXIS_UNROLL || h->extent[l] <= 1;
            if (s->limit[k] & h->origin[l] && !known) return SPREAD;
        }
    }
    return s->gate ? A_JUMP : 0;
}

/* What jumps so little that registers are made of whole ones by shuffles: rows of a store, whose lanes lie in turns
 * without a gap; registers that a load's lanes are in. 0: it is not so. */
static double in_turns(const ko_shape *h, const ko_site *s, const kn_machine *m, int lane) {
    double rows = m->turns ? step_bytes(h, s, lane) / s->size : 0;
    bool   words = !s->store && s->size == 2 && m->mask_registers;
    if ((s->narrow && !words) || rows > KN_IN_TURNS || rows >= h->extent[lane] || s->down & h->origin[lane]) return 0;
    if (s->store && s->gate) return 0;
    bool near = m->mask_registers && s->size >= 4 && rows <= KN_NEAR;
    if (s->gate & h->origin[lane]) return near ? rows + with_gate(h, s, lane) : 0;
    bool halves = rows == 2 || rows == 4;
    if (!s->store && s->size == 2) return words ? rows : halves || rows == 8 ? 0 : WORDS;
    if (!s->store) return s->size >= 4 && rows <= most_near(h, s, m, lane) ? rows : 0;
    for (int l = 0; l < h->nest->nloop; l++)
        if (h->lane[l] && l != lane && s->on & h->origin[l] && step_bytes(h, s, l) <= s->size && h->extent[l] == rows)
            return rows > 4 && rows < 8 ? MANY_ROWS * rows : rows;
    return 0;
}

/* Shuffles for each vector of a block of bytes, 0: it is none. Blocks of longer ones cost what lanes one by one do:
 * measured (docs/decisions.md). */
static double in_block(const ko_shape *h, const ko_site *s, const kn_machine *m, int lane) {
    bool block = s->size == 1 && h->extent[lane] == KO_BYTE_BLOCK && beside(h, s, m, lane) >= KO_BYTE_BLOCK;
    return block ? __builtin_ctz(KO_BYTE_BLOCK) : 0;
}

/* Shuffles for each vector of an access that jumps; 0: it takes its lanes one by one. */
static double shuffles(const ko_shape *h, const ko_site *s, const kn_machine *m, int lane) {
    if (h->nchain && lane == h->chain[0]) return from_runs(h, s, m);
    double turns = in_turns(h, s, m, lane);
    return turns > 0 ? turns : in_block(h, s, m, lane) * (s->store ? EXTRACT : INSERT);
}

/* All of the loop's numbers are of one phase, for which it is the same, or the same whatever the phase. */
static bool stands_still(const ko_shape *h, const ko_site *s, int l) {
    return s->base >= 0 && phase_of(s, h->nest->loop[l].origin) && step_bytes(h, s, l) <= 0;
}

/* Instructions each time it is reached: vectors, or elements where the lanes jump, of `bytes` each; *rows: apart from
 * the lanes. */
static double vectors_of(const ko_shape *h, const ko_site *s, const kn_machine *m, double *rows, double *bytes) {
    int lane = lane_of(h, s);
    *rows    = 1;
    *bytes   = s->size;
    for (int l = 0; l < h->nest->nloop; l++)
        if (h->lane[l] && l != lane && s->on & h->origin[l] && !stands_still(h, s, l)) *rows *= h->extent[l];
    if (lane < 0 || !moves_with(h, s, lane) || stands_still(h, s, lane)) return 1;
    if (jumps(h, s, lane) && !shuffles(h, s, m, lane)) return h->extent[lane];
    int64_t lanes = h->nest->loop[lane].extent, n = ko_vectors(lanes, KN_MAX(m->vector_bytes / s->size, 1));
    bool joined = s->base >= 0 && h->nchain && lane == h->chain[0];
    if (joined) lanes = 1; /* what lanes have in common is read once */
    for (int k = 0; k < h->nchain && joined; k++) lanes *= s->on & h->origin[h->chain[k]] ? h->each[k] : 1;
    *bytes = (double)(lanes * s->size) / (double)n;
    return (double)n;
}

/* Times that what the pieces of main parts do is done, with what factors left over. */
static double with_tails(const ko_shape *h, const ko_site *s, const kn_machine *m) {
    int    lane  = lane_of(h, s);
    double times = 1;
    bool   apart = lane < 0 || (jumps(h, s, lane) && !shuffles(h, s, m, lane));
    for (int l = 0; l < h->nest->nloop; l++) {
        const kn_loop   *at = &h->nest->loop[l];
        const kn_origin *o  = &h->nest->origin[at->origin];
        int64_t          w = at->extent, each = KN_MAX(m->vector_bytes / s->size, 1);
        int64_t          run  = (int64_t)h->run[l];
        int64_t          left = o->split && o->tail_kind == KN_TAIL_PEEL ? o->tail * run : 0;
        int64_t          full = o->extent * run - left;
        if (at->stride != 1 || !(s->around >> l & 1) || !left || full <= 0 || o->moving) continue;
        if (l == lane && !apart) left = ko_vectors(left, each), full = full / w * ko_vectors(w, each);
        times *= 1 + (double)left / (double)full;
    }
    return times;
}

/* Of a load in rows of a tile, and in copies for terms of a sum, the share that no other row has for another term: as
 * of a window that goes down with the rows. */
static double not_shared(const ko_shape *h, const ko_site *s, int lane) {
    double share = 1;
    for (int l = 0; l < h->nest->nloop && !s->store; l++) {
        if (!h->lane[l] || l == lane || !(s->on & h->origin[l])) continue;
        for (int k = 0; k < h->nest->nloop; k++) {
            if (h->nest->loop[k].type != KN_AXIS_UNROLL || !(s->on & h->origin[k])) continue;
            double row = step_bytes(h, s, l), term = step_bytes(h, s, k);
            double least = KN_MIN(row, term), apart = KN_MAX(row, term) / least;
            if (least <= 0 || apart > KO_SHARED_APART || apart != (double)(int)apart) continue;
            double few = row < term ? h->extent[k] : h->extent[l], many = row < term ? h->extent[l] : h->extent[k];
            share *= (many + (few - 1) * KN_MIN(apart, many)) / (few * many);
        }
    }
    return share;
}

/* All of the origin's numbers are in one body: as rows or lanes of a tile, or as copies. */
static bool is_all_here(const ko_shape *h, int o) {
    for (int l = 0; l < h->nest->nloop; l++)
        if (h->nest->loop[l].origin == o && !h->lane[l] && h->nest->loop[l].type != KN_AXIS_UNROLL) return false;
    return true;
}

/* The terms of a sum's copies are what the tile's rows load themselves: x - min(x) of short rows. */
static bool is_read_again(const ko_shape *h, const ko_site *s) {
    for (int i = 0; i < h->model->nsite; i++) {
        const ko_site *row = &h->model->site[i];
        int            own = -1, other = -1, apart = 0;
        if (row == s || row->base != s->base || row->size != s->size || row->store || row->gate) continue;
        for (int o = 0; o < h->nest->norigin; o++) {
            if (s->stride[o] == row->stride[o]) continue;
            apart++;
            *(s->stride[o] ? &own : &other) = o;
        }
        if (apart != 2 || own < 0 || other < 0 || !h->nest->origin[own].reduce || row->stride[own]) continue;
        const kn_origin *sum = &h->nest->origin[own], *out = &h->nest->origin[other];
        bool same = !out->reduce && s->stride[own] == row->stride[other] && sum->extent == out->extent;
        if (same && is_all_here(h, own) && is_all_here(h, other)) return true;
    }
    return false;
}

/* Cycles from one term to the next where an accumulator takes more of them, of a prefix all of its loop, than a
 * processor looks ahead; else 0. */
static double waits(const ko_shape *h, const ko_site *s) {
    double terms = 1;
    bool   scan  = false;
    for (int l = 0; l < h->nest->nloop; l++) {
        const kn_origin *o = &h->nest->origin[h->nest->loop[l].origin];
        if (h->lane[l] || (o->closer != s->sum && !o->scanned)) continue;
        terms *= h->extent[l];
        scan |= o->scanned;
    }
    if (terms <= (scan ? SHORT_SCAN : SHORT_CHAIN)) return 0;
    return s->quick && !scan ? 1 : LATENCY;
}

/* Registers of all halves down to the lanes that a run's numbers meet in; runs of no power of two lie across
 * registers, and are shifted, or go by way of memory. */
static double halves_of_run(const ko_shape *h, int l, int64_t each) {
    int64_t w = h->nest->loop[l].extent, run = (int64_t)h->run[l], n = 0;
    for (w /= 2; w >= run; w /= 2) n += ko_vectors(w, each);
    return (double)(run & (run - 1) ? n * RAGGED : n);
}

/* Instructions to fold the lanes of a sum into one, by halves, over all its results: `rows` each time. Of rows that are
 * folded together two registers become one by three instructions, once each has as many lanes as there are rows. */
static double folding(const ko_shape *h, const ko_site *s, const kn_machine *m, double rows) {
    double  results = rows, halves = 0;
    int64_t together = 1, most = m->vector_bytes / KN_MAX(s->size, 4);
    for (int l = 0; l < h->nest->nloop; l++) {
        const kn_loop *at  = &h->nest->loop[l];
        bool           own = h->nest->origin[at->origin].closer == s->sum;
        int64_t        each = KN_MAX(m->vector_bytes / s->size, 1), w = KN_MIN(at->extent, each);
        if (!h->lane[l] && s->around >> l & 1 && !own) results *= h->extent[l];
        if (!h->lane[l] && s->around >> l & 1 && !own && at->type == KN_AXIS_UPCAST)
            together = kn_sat_mul(together, at->extent);
        if (own && h->run[l] > 1) halves += halves_of_run(h, l, each);
        else
            for (; at->type == KN_AXIS_GROUP_REDUCE && own && w > 1; w /= 2) halves++;
    }
    together = KN_MIN(kn_pow2_within(together), most);
    if (!m->beside || together * s->size < 16) together = 1;
    double shared = 0; /* of the halves */
    for (int64_t r = together; r > 1 && shared < halves; r /= 2) shared++;
    double each = (halves - shared) * (1 + s->ops); /* lanes move, and are combined */
    return results * (each + (shared > 0 ? (2 + s->ops) * (double)(together - 1) / (double)together : 0));
}

/* Cycles for lanes that fill no register, where a half of one takes so many: two are loaded one by one. */
static double of_parts(int64_t lanes, double half) {
    double larger = (double)__builtin_popcountll((unsigned long long)lanes >> 2);
    return larger * half + (double)(lanes & 2) * INSERT + (double)(lanes & 1) * 0.5;
}

/* Of one of the instructions of a load or store. */
static double issue_cycles(const ko_shape *h, const ko_site *s, const kn_machine *m) {
    int lane = lane_of(h, s);
    if (!jumps(h, s, lane)) return s->store ? 0.75 : 0.5;
    double  turns = shuffles(h, s, m, lane);
    int64_t lanes = h->nest->loop[lane].extent, each = KN_MAX(m->vector_bytes / s->size, 1);
    double  n     = (double)ko_vectors(lanes, each), alone = (lanes % each & 1) && !h->nchain;
    bool    few = turns > 0 && lanes < each && !s->store;
    /* half of the shuffles; of a gate that they count all, of another one half a jump */
    if (few && !h->nchain) return of_parts(lanes, (turns + with_gate(h, s, lane)) / 2) / n;
    if (few) turns /= 2;
    if (turns > 0) return (turns * (n - alone) + alone * 0.5) / n; /* each shuffles the others; a lane alone does not */
    bool    ragged = s->store && (lanes < each ? (lanes & (lanes - 1)) != 0 && !h->moves : lanes % each != 0);
    if (s->size > 1 && beside(h, s, m, lane) * s->size >= m->vector_bytes / 2) ragged = false;
    double  lane_cycles = s->store ? EXTRACT : s->picks && s->size >= 4 ? A_GATHER : INSERT;
    if (!s->store && s->size >= 4 && lanes <= PAIRS) lane_cycles *= (double)(lanes - 1) / (double)lanes; /* joined */
    return lane_cycles * (ragged ? RAGGED : 1);
}

/* Rounds that were cut off the loop, where they are most of it: else the model knows the loop alone, as its lists were
 * measured. */
static int64_t peeled_rounds(const kn_nest *nest, int loop) {
    int64_t ends = ko_peeled(nest, loop);
    return ends > nest->loop[loop].extent ? ends : 0;
}

/* Numbers of the loop's origin for each that the loops from `from` on and its lanes walk, with what is left over of
 * them; 1 but for the last of the origin's loops, where all of them are walked. */
static double with_rest(const ko_shape *h, int loop, int from) {
    const kn_loop   *at = &h->nest->loop[loop];
    const kn_origin *o  = &h->nest->origin[at->origin];
    if (at->stride != 1 || !o->split || o->tail_kind != KN_TAIL_PEEL || o->moving || !o->tail) return 1;
    for (int l = 0; l < from; l++)
        if (!h->lane[l] && h->nest->loop[l].origin == at->origin) return 1;
    return o->extent > o->tail ? (double)o->extent / (double)(o->extent - o->tail) : 1;
}

int64_t ko_lines_held(const kn_machine *m, int64_t apart) {
    return m->cache[KN_L1] / KN_MAX(KN_MIN(apart & -apart, (int64_t)WAY), m->line);
}

/* Of the lines that the site touches while the loops before `from` stand still, as many are those of one set of an L1
 * as its ways do not hold. A way is as large as a page, as where a page begins is not known when it is looked up. */
static bool overflows_set(const ko_shape *h, const ko_site *s, int from, const kn_machine *m) {
    double lines = 1;
    for (int l = 0; l < h->nest->nloop; l++) {
        if (!(h->lane[l] || l >= from) || !(s->on & h->origin[l]) || (h->nchain && l == h->chain[0])) continue;
        double step = step_bytes(h, s, l);
        if (step < (double)m->line || step >= 1e18) continue;
        int64_t apart = (int64_t)step & -(int64_t)step; /* sets are WAY / apart */
        lines *= KN_MAX(h->extent[l] * (double)KN_MIN(apart, WAY) / WAY, 1);
    }
    return lines > (double)(m->cache[KN_L1] / WAY);
}

/* Bytes of its buffer that the site touches while the loops before `from` stand still; in whole lines where it jumps,
 * unless the loop just outside walks along them, and `along` asks for what of them is new. */
static double touched(const ko_shape *h, const ko_site *s, const ko_base *b, int from, const kn_machine *m,
                      bool along) {
    double elements = 1, step = 1e18, lines = 1;
    int    outside  = from - along;
    while (along && outside > 0 && h->lane[outside]) outside--;
    for (int l = 0; l < h->nest->nloop; l++) {
        if ((!h->lane[l] && l < outside) || !(s->on & h->origin[l]) || !s->stride[h->nest->loop[l].origin]) continue;
        if (h->nchain && l == h->chain[0]) continue;
        double own = step_bytes(h, s, l);
        if (h->lane[l] || l >= from) {
            elements *= h->extent[l] * with_rest(h, l, from);
            if (own >= (double)m->line && (own < 1e18 || s->picks)) lines *= h->extent[l];
        } else if (own < (double)m->line) lines = 0; /* it walks along them */
        step = KN_MIN(step, own);
    }
    for (int k = 0; k < h->nchain; k++) { /* lanes that are joined: each loop's own */
        int64_t stride = s->stride[h->nest->loop[h->chain[k]].origin];
        if (!(s->on & h->origin[h->chain[k]]) || !stride) continue;
        double own = (double)stride * s->size;
        elements *= (double)h->each[k];
        if (own >= (double)m->line) lines *= (double)h->each[k];
        step = KN_MIN(step, own);
    }
    double unit = KN_MAX((double)s->size, KN_MIN(step, (double)m->line));
    return KN_MIN(KN_MAX(elements * unit, lines * (double)m->line), b->bytes);
}

/* Of all buffers: what the sites of each touch, once; more than any L1 holds where `sets` asks for its sets. */
static double touched_by_all(const ko_shape *h, ko_model *k, int from, const kn_machine *m, bool along, bool sets) {
    double sum = 0;
    for (int b = 0; b < k->nbase; b++) k->base[b].most[0] = 0;
    for (int i = 0; i < k->nsite; i++) {
        if (k->site[i].base < 0) continue;
        ko_base *b     = &k->base[k->site[i].base];
        double   bytes = touched(h, &k->site[i], b, from, m, along), more = bytes - b->most[0];
        if (sets && overflows_set(h, &k->site[i], from, m)) sum += (double)m->cache[KN_L1];
        if (more > 0) sum += more, b->most[0] = bytes;
    }
    return sum;
}

/* How often what lies inside loop `from` is fetched anew; not for loops just outside that it does not move with. */
static double fetches(const ko_shape *h, const ko_site *s, int from) {
    double n   = 1;
    bool   hot = true;
    for (int l = from; l-- > 0;) {
        if (h->lane[l] || !(s->around >> l & 1)) continue;
        hot = hot && !(s->on & h->origin[l] && s->stride[h->nest->loop[l].origin]);
        if (!hot) n *= h->extent[l];
    }
    return n;
}

/* Bytes that each level hands to the one before it, over all sites. `along`: of lines that the loop just outside walks
 * along a cache holds what is new, not all. */
static void traffic(const ko_shape *h, ko_model *k, const kn_machine *m, bool along, double *read, double *written) {
    int    from = 0, n = h->nest->nloop;
    bool   outside = false; /* of what lies there: a loop */
    double held = touched_by_all(h, k, 0, m, along, false);
    for (int level = KN_L3; level >= KN_L1; level--) { /* the smaller the cache, the further in */
        if (level == KN_L1) held = touched_by_all(h, k, from, m, along, true);
        while (from < n && (h->lane[from] || held > (double)m->cache[level])) {
            outside |= !h->lane[from];
            held = touched_by_all(h, k, ++from, m, along, level == KN_L1);
        }
        read[level + 1] = written[level + 1] = 0;
        if (!outside) continue; /* all of it lies there already */
        for (int b = 0; b < k->nbase; b++) k->base[b].most[0] = k->base[b].most[1] = 0;
        for (int i = 0; i < k->nsite; i++) {
            const ko_site *s = &k->site[i];
            if (s->base < 0) continue;
            ko_base *b        = &k->base[s->base];
            bool     stay     = level != KN_L1 || !overflows_set(h, s, from, m);
            double   bytes    = touched(h, s, b, from, m, stay) * fetches(h, s, from), some = bytes * in_pieces(h, s);
            bytes             = KN_MAX(some, KN_MIN(bytes, b->bytes)); /* all of a buffer may lie in its part */
            if (s->picks && 4 * b->bytes < (double)m->cache[level]) bytes = KN_MIN(bytes, b->bytes); /* it stays */
            b->most[s->store] = KN_MAX(b->most[s->store], bytes);
        }
        for (int b = 0; b < k->nbase; b++) {
            read[level + 1] += k->base[b].most[0];
            written[level + 1] += k->base[b].most[1];
        }
    }
}

/* A LOCAL or GLOBAL byte served by a level counts there alone. */
static double by_level(const double *moved, const int64_t *ps, int64_t line, double *bytes) {
    double t = 0;
    for (int l = KN_L1; l < KN_LEVELS; l++) {
        bytes[l] = KN_MAX(moved[l] - (l < KN_DRAM ? moved[l + 1] : 0), 0);
        t += bytes[l] * (double)ps[l] / (double)line;
    }
    return t;
}

/* Of levels, of which the first is asked for so much: what each hands on, no more than the one before it. */
static double of_caches(const ko_shape *h, ko_model *k, const kn_machine *m, bool along, double *read, double *written,
                        ko_cost *out) {
    traffic(h, k, m, along, read, written);
    for (int l = KN_L3; l < KN_LEVELS; l++) {
        read[l]    = KN_MIN(read[l], read[l - 1]);
        written[l] = KN_MIN(written[l], written[l - 1]);
    }
    return by_level(read, m->read_ps, m->line, out->bytes) + by_level(written, m->write_ps, m->line, out->stored);
}

/* Lanes that are joined are one run: those of a sum have others between them, and the others are a loop of one; of
 * output loops the innermost has the lanes of all. False: there are none. */
static bool as_one_run(const kn_nest *nest, kn_nest *one, ko_shape *h) {
    bool any = false;
    for (int l = 0; l < nest->nloop; l++) {
        int u = nest->loop[l].with ? ko_lanes_with(nest, l) : -1;
        if (u < 0) continue;
        if (!any) *one = *nest;
        any     = true;
        int all = nest->loop[l].type == KN_AXIS_GROUP_REDUCE ? l : ko_innermost_of(nest, l), gone = all == l ? u : l;
        one->loop[all].extent *= nest->loop[gone].extent;
        one->loop[gone].extent = 1;
        if (all == l) continue;
        h->chain[0] = all;
        h->nchain   = 1;
    }
    for (int in = 0; h->nchain && in < nest->nloop; in++) { /* who is joined with the last one of the chain */
        if (!nest->loop[in].with || ko_lanes_with(nest, in) != h->chain[h->nchain - 1]) continue;
        h->chain[h->nchain++] = in;
        in                    = -1;
    }
    for (int k = 0; k < h->nchain; k++) {
        h->each[k] = nest->loop[h->chain[k]].extent;
        h->joined |= (uint64_t)1 << nest->loop[h->chain[k]].origin;
    }
    return any;
}

/* Of that many phases of those origins one alone has terms. */
static double idle_phases(const ko_shape *h, uint64_t on) {
    double all = 1;
    for (int o = 0; o < h->nest->norigin; o++)
        if (on >> o & 1 && h->nest->origin[o].idle) all *= (double)h->nest->origin[o].idle;
    return all;
}

void ko_predict(ko_model *k, const kn_nest *nest, const kn_machine *m, ko_cost *out) {
    kn_nest  one;
    ko_shape h = {.nest = nest, .model = k};
    double   read[KN_LEVELS] = {0}, written[KN_LEVELS] = {0}, issue = 0;
    memset(out, 0, sizeof *out);
    if (as_one_run(nest, &one, &h)) h.nest = &one;
    for (int l = 0; l < nest->nloop; l++) {
        bool sum = nest->loop[l].type == KN_AXIS_GROUP_REDUCE && nest->loop[l].with;
        h.run[l] = sum ? (double)(h.nest->loop[l].extent / KN_MAX(nest->loop[l].extent, 1)) : 1;
    }
    nest = h.nest;
    for (int l = 0; l < nest->nloop; l++) {
        h.origin[l] = (uint64_t)1 << nest->loop[l].origin;
        h.lane[l]   = ko_is_lane(nest->loop[l].type);
        h.extent[l] = (double)KN_MAX(nest->loop[l].extent + peeled_rounds(nest, l), 1);
    }
    for (int c = 0; c < k->ncloser; c++) h.around[c] = loop_set_around(&h, k->in[c], false);
    h.moves = true;
    for (int i = 0; i < k->nsite; i++) {
        k->site[i].around = loop_set_around(&h, k->site[i].on, is_held(&h, &k->site[i], m));
        h.moves &= k->site[i].base >= 0;
    }
    double cycle = (double)m->cycle_ps, copies = 0, idle = idle_phases(&h, ~(uint64_t)0);
    for (int b = 0; b < k->nbase; b++) {
        k->base[b].copied = false;
        bool staged = false, turned = false;
        for (int i = 0; i < nest->nmemory; i++)
            staged |= nest->memory[i].op == KN_OPT_STAGE && nest->memory[i].arg == k->base[b].slot;
        for (int i = 0; i < k->nsite && staged; i++)
            turned |= k->site[i].base == b && jumps(&h, &k->site[i], lane_of(&h, &k->site[i]));
        if ((k->base[b].copied = turned)) copies += k->base[b].bytes * COPY * cycle;
    }
    for (int i = 0; i < k->nsite; i++) {
        const ko_site *s = &k->site[i];
        double rows, each, trips = trips_around(&h, s), v = vectors_of(&h, s, m, &rows, &each);
        if (s->base >= 0) trips *= idle / idle_phases(&h, s->on); /* what all phases ask for is loaded once */
        double n = trips * rows * v * with_tails(&h, s, m) * (s->base < 0 ? 1 : not_shared(&h, s, lane_of(&h, s)));
        if (s->base >= 0) {
            if (!s->store && !s->gate && is_read_again(&h, s)) continue;
            (s->store ? written : read)[KN_L1] += n * each;
            issue += n * issue_cycles(&h, s, m) * cycle;
            continue;
        }
        /* Units that take a whole vector each cycle take two of half of one, and of less. */
        double rate = (double)(s->fma ? m->fma_per_cycle : m->alu_per_cycle);
        if (each * 2 <= (double)m->vector_bytes) rate = KN_MAX(rate, 2);
        double t = n * s->ops * cycle / rate;
        if (s->chain) t = KN_MAX(t, trips * waits(&h, s) * cycle); /* its accumulators wait for one another in turn */
        if (s->chain && rows * v > (double)m->vector_registers - 2) t *= 2; /* and are spilled */
        if (s->chain) t += folding(&h, s, m, rows) * cycle / m->alu_per_cycle;
        out->arithmetic += t;
    }
    out->beyond = of_caches(&h, k, m, false, read, written, out);
    out->beyond -= out->bytes[KN_L1] * (double)m->read_ps[KN_L1] / (double)m->line;
    out->beyond -= out->stored[KN_L1] * (double)m->write_ps[KN_L1] / (double)m->line;
    for (int l = 0; l < nest->nloop; l++) /* rounds that were cut off ask for as much */
        out->beyond *= (double)KN_MAX(nest->loop[l].extent + ko_peeled(nest, l), 1) / h.extent[l];
    out->memory = KN_MAX(of_caches(&h, k, m, true, read, written, out), issue);
    out->issue  = issue / idle;
    for (int l = 0; l < nest->nloop; l++) { /* a step of a loop: count, compare, jump */
        double   steps  = h.lane[l] ? 0 : cycle;
        uint64_t around = loop_set_around(&h, h.origin[l], false);
        for (int o = 0; o <= l; o++)
            if (!h.lane[o] && around >> o & 1) steps *= h.extent[o];
        out->loops += steps;
    }
    out->arithmetic /= idle;
    out->memory /= idle;
    out->beyond /= idle;
    out->loops /= idle;
    out->ps = KN_MAX(out->arithmetic, out->memory) + out->loops + copies;
    out->ps += KN_MIN(out->arithmetic, out->issue) * BESIDE; /* of lists that take as long, the one that does less */
    out->ps += out->unhidden = KN_MIN(out->arithmetic, out->memory) * UNHIDDEN;
}

/* ---- as text ------------------------------------------------------------------------------------------------- */

void ko_print_time(double ps, kn_str *out) {
    static const char *const unit[] = {"ns", "us", "ms", "s "};
    int64_t                  tenths = ps < 1e17 ? (int64_t)(ps / 100 + 0.5) : INT64_C(1000000000000000);
    int                      u      = 0;
    for (; u < 3 && tenths >= 100000; u++) tenths = (tenths + 500) / 1000;
    kn_str_putf(out, "%4lld.%lld %s", (long long)(tenths / 10), (long long)(tenths % 10), unit[u]);
}

const char ko_cost_columns[] = "arithmetic    memory     loops     total";

void ko_print_cost(const ko_cost *c, kn_str *out) {
    const double part[] = {c->arithmetic, c->memory, c->loops, c->ps};
    for (int i = 0; i < KN_COUNT(part); i++) {
        kn_str_puts(out, " ");
        ko_print_time(part[i], out);
    }
}
