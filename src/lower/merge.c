/* merge.c - kernels that only read the same values become one.
 *
 * Takes: groups, their uses, and the order they must keep. Gives: some groups merged into others: the loops they share
 *   outermost are one, each stores what it stored, at its own depth. Greedy, by descending shared bytes; a pair merges
 *   where the predicted time falls, neither waits for the other (then no circle can close), the outer loops agree, and
 *   the kernel keeps within its streams and its length.
 *
 * Time of a group: a launch; the first reading of each value, and what is written, at the level that holds all that the
 * pair touches; further readings at the level that holds one iteration of the outermost loop. */
#include "lower/rangeify.h"

#include <stdlib.h>
#include <string.h>

enum {
    STREAMS = 16, /* addresses that move on at once: what hardware prefetchers follow */
    CROWD   = 32, /* readers of one value; beyond, pairs are not looked at */
    REUSE   = 4,  /* readings of a factor that make a product one with a tile */
    SHARED  = 16, /* iterations that outer loops must keep where inner ones are not shared: threads need some */
};

typedef struct kl_seen { /* a value that a group reads */
    kn_ref node;
    double bytes, asked; /* of the value; of all readings */
} kl_seen;

typedef struct kl_side { /* a group, or several that have merged */
    kl_seen *seen;
    size_t   nseen, cap;
    double   written;
    int      stores;
    bool     sums; /* products; where their factors are asked for again and again they want a register tile */
} kl_side;

typedef struct kl_pair {
    int    a, b;
    kn_ref node; /* the largest that both read */
    double bytes, most;
} kl_pair;

typedef struct kl_merger {
    kl_fuse *z;
    kl_side *side;
    kl_pair *pair;
    size_t   npair, pair_cap;
} kl_merger;

int kl_group_of(const kl_fuse *z, int g) {
    while (z->group[g].into) g = z->group[g].into - 1;
    return g;
}

/* ---- who reads what ------------------------------------------------------------------------------------------ */

static bool side_reads(kl_merger *m, kl_side *s, kn_ref node, double bytes, double asked) {
    size_t i = 0;
    while (i < s->nseen && s->seen[i].node != node) i++;
    if (i == s->nseen) {
        if (!KN_GROW(m->z->p->alloc, s->seen, s->cap, s->nseen + 1)) return kn_oom(m->z->f);
        s->seen[s->nseen++] = (kl_seen){node, bytes, 0};
    }
    s->seen[i].asked += asked;
    return true;
}

static bool survey(kl_merger *m) {
    kl_fuse *z = m->z;
    for (size_t u = 0; u < z->nuse; u++) {
        const kl_use *use   = &z->use[u];
        int           store = z->info[use->node].storage, size = kn_dsize(kg_dtype(z->g, use->node));
        kl_side      *s     = &m->side[use->group];
        bool          reads = use->load ? !z->storage[store].stage : kg_op(z->g, use->node) == KN_OP_PARAM;
        if (!use->load) s->sums |= z->info[use->node].product && kg_op(z->g, use->node) == KN_OP_REDUCE;
        double asked = use->evals * size, bytes = (double)kg_most(z->g, use->node) * size;
        if (reads && !side_reads(m, s, use->node, KN_MIN(bytes, asked), asked)) return false;
    }
    for (size_t i = 0; i < z->nstorage; i++) {
        const kl_storage *st = &z->storage[i];
        if (st->stage) continue;
        m->side[st->group].stores++;
        m->side[st->group].written += (double)kg_most(z->g, st->node) * kn_dsize(kg_dtype(z->g, st->node));
    }
    return true;
}

typedef struct kl_reader {
    kn_ref node;
    int    group;
    double bytes;
} kl_reader;

static int by_node(const void *x, const void *y) {
    const kl_reader *a = x, *b = y;
    return a->node != b->node ? (a->node < b->node ? -1 : 1) : a->group - b->group;
}
static int by_groups(const void *x, const void *y) {
    const kl_pair *a = x, *b = y;
    return a->a != b->a ? a->a - b->a : a->b != b->b ? a->b - b->b : a->node < b->node ? -1 : a->node > b->node;
}
static int by_bytes(const void *x, const void *y) {
    const kl_pair *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes > b->bytes ? -1 : 1) : by_groups(x, y);
}

static bool may_merge(const kl_group *g) { return !g->empty && !g->copy && !g->alone && g->nrange > 0; }

/* Pairs of groups, each with the bytes that both read, most first. */
static bool find_pairs(kl_merger *m) {
    kl_fuse   *z      = m->z;
    kl_reader *who = NULL;
    size_t     n = 0, cap = 0, kept = 0;
    bool       ok = true;
    for (size_t g = 0; g < z->ngroup && ok; g++)
        for (size_t i = 0; i < m->side[g].nseen && may_merge(&z->group[g]); i++) {
            if (!(ok = KN_GROW(z->p->alloc, who, cap, n + 1))) break;
            who[n++] = (kl_reader){m->side[g].seen[i].node, (int)g, m->side[g].seen[i].bytes};
        }
    if (n) qsort(who, n, sizeof *who, by_node);
    for (size_t i = 0, end; i < n && ok; i = end) {
        for (end = i + 1; end < n && who[end].node == who[i].node;) end++;
        if (end - i > CROWD) continue;
        for (size_t a = i; a < end && ok; a++)
            for (size_t b = a + 1; b < end && (ok = KN_GROW(z->p->alloc, m->pair, m->pair_cap, m->npair + 1)); b++) {
                double bytes         = KN_MIN(who[a].bytes, who[b].bytes);
                m->pair[m->npair++] = (kl_pair){who[a].group, who[b].group, who[i].node, bytes, bytes};
            }
    }
    kn_free(z->p->alloc, who, cap * sizeof *who);
    if (!ok) return kn_oom(z->f);
    if (m->npair) qsort(m->pair, m->npair, sizeof *m->pair, by_groups);
    for (size_t i = 0; i < m->npair; i++) { /* one entry a pair */
        kl_pair *last = kept ? &m->pair[kept - 1] : NULL;
        if (!last || last->a != m->pair[i].a || last->b != m->pair[i].b) {
            m->pair[kept++] = m->pair[i];
            continue;
        }
        last->bytes += m->pair[i].bytes;
        if (m->pair[i].most > last->most) last->most = m->pair[i].most, last->node = m->pair[i].node;
    }
    m->npair = kept;
    if (kept) qsort(m->pair, kept, sizeof *m->pair, by_bytes);
    return true;
}

/* ---- costs and legality -------------------------------------------------------------------------------------- */

static kn_ref bound_of(const kl_fuse *z, kn_ref range) { return kg_at(z->r, range, 0); }

/* The most iterations there can be. */
static int64_t extent_of(const kl_fuse *z, kn_ref range) { return KN_MAX(kg_max(z->r, bound_of(z, range)), 1); }

typedef struct kl_traffic { double first, again, once, written; } kl_traffic; /* once: of an outermost iteration */

/* Of one group's values, or with `more` of two groups' together. */
static kl_traffic traffic_of(const kl_side *s, const kl_side *more, int64_t outer) {
    kl_traffic t = {.written = s->written + (more ? more->written : 0)};
    t.once       = t.written / (double)outer;
    for (int k = 0; k < (more ? 2 : 1); k++) {
        const kl_side *side = k ? more : s;
        for (size_t i = 0; i < side->nseen; i++) {
            const kl_seen *v    = &side->seen[i];
            bool           both = false;
            for (size_t j = 0; k && j < s->nseen && !both; j++) both = s->seen[j].node == v->node;
            t.again += both ? v->asked : KN_MAX(v->asked - v->bytes, 0);
            if (both) continue;
            t.first += v->bytes;
            t.once += KN_MIN(v->bytes, v->asked / (double)outer);
        }
    }
    return t;
}

static double time_of(const kl_fuse *z, const kl_traffic *t, kn_level whole) {
    return (double)z->p->machine->launch_ps + kl_read_ps(z, t->first, whole) + kl_write_ps(z, t->written, whole) +
           kl_read_ps(z, t->again, kn_machine_level(z->p->machine, t->once));
}

static size_t streams_of(const kl_side *s, const kl_side *more) {
    size_t n = s->nseen + (size_t)s->stores + (size_t)more->stores;
    for (size_t i = 0; i < more->nseen; i++) {
        size_t j = 0;
        while (j < s->nseen && s->seen[j].node != more->seen[i].node) j++;
        n += j == s->nseen;
    }
    return n;
}

static bool is_tiled(const kl_side *s) {
    bool again = false;
    for (size_t i = 0; i < s->nseen; i++) again |= s->seen[i].asked >= REUSE * s->seen[i].bytes && s->seen[i].asked > 0;
    return s->sums && again;
}

/* Why a and b, of which a has the more loops, stay apart; NULL: they may merge. */
static const char *kept_apart(const kl_merger *m, int a, int b) {
    const kl_fuse  *z  = m->z;
    const kl_group *ga = &z->group[a], *gb = &z->group[b];
    int64_t         common = 1, inner = 1;
    if (kl_group_before(z, a, b) || kl_group_before(z, b, a)) return "one waits for the other";
    for (int i = 0; i < ga->nrange; i++) {
        int64_t e = extent_of(z, ga->range[i]);
        if (i < gb->nrange && bound_of(z, ga->range[i]) != bound_of(z, gb->range[i])) return "their outer loops differ";
        if (i < gb->nrange) common *= e;
        else inner *= e;
    }
    if (is_tiled(&m->side[a]) || is_tiled(&m->side[b])) return "a product wants loops of its own";
    if (inner > 1 && common < SHARED) return "too few iterations would be left to share out";
    if (inner > 1 && inner < z->p->machine->vector_bytes / 4) return "the inner loop would be shorter than a vector";
    if (streams_of(&m->side[a], &m->side[b]) > STREAMS) return "more than 16 streams";
    if (kl_group_full(z, a) || kl_group_full(z, b)) return "its kernel is full";
    return NULL;
}

/* ---- merging ------------------------------------------------------------------------------------------------- */

/* a and b are one from now on: what one waits for both do, and who waits for one waits for both. */
static void unite(kl_fuse *z, int a, int b) {
    for (size_t x = 0; x < z->ngroup; x++) {
        if (!kl_group_before(z, a, (int)x) && !kl_group_before(z, b, (int)x)) continue;
        for (size_t w = 0; w < z->before_words; w++) z->before[x][w] |= z->before[a][w] | z->before[b][w];
        z->before[x][a / 64] |= (uint64_t)1 << (a % 64);
        z->before[x][b / 64] |= (uint64_t)1 << (b % 64);
    }
    for (size_t w = 0; w < z->before_words; w++) z->before[a][w] = z->before[b][w] |= z->before[a][w];
    z->group[b].into = a + 1;
    z->group[a].size += z->group[b].size;
    z->group[a].staged += z->group[b].staged;
}

static bool absorb(kl_merger *m, int a, int b) {
    kl_side *s = &m->side[a], *t = &m->side[b];
    for (size_t i = 0; i < t->nseen; i++)
        if (!side_reads(m, s, t->seen[i].node, t->seen[i].bytes, t->seen[i].asked)) return false;
    s->sums |= t->sums;
    s->written += t->written;
    s->stores += t->stores;
    unite(m->z, a, b);
    return true;
}

static bool note_merge(kl_fuse *z, kl_merge_note note) {
    if (!z->p->explain) return true;
    if (!KN_GROW(z->p->alloc, z->note, z->note_cap, z->nnote + 1)) return kn_oom(z->f);
    z->note[z->nnote++] = note;
    return true;
}

static bool weigh_pair(kl_merger *m, const kl_pair *p) {
    kl_fuse *z = m->z;
    int      a = kl_group_of(z, p->a), b = kl_group_of(z, p->b);
    if (a == b) return true;
    if (z->group[b].nrange > z->group[a].nrange || (z->group[b].nrange == z->group[a].nrange && b < a)) {
        int t = a;
        a     = b;
        b     = t;
    }
    kl_merge_note note = {.a = a, .b = b, .node = p->node, .bytes = p->bytes, .why = kept_apart(m, a, b)};
    if (!note.why) {
        int64_t    oa = extent_of(z, z->group[a].range[0]), ob = extent_of(z, z->group[b].range[0]);
        kl_traffic x = traffic_of(&m->side[a], NULL, oa), y = traffic_of(&m->side[b], NULL, ob),
                   both = traffic_of(&m->side[a], &m->side[b], oa);
        /* One after the other they pass as much through the caches as together. */
        kn_level whole = kn_machine_level(z->p->machine, both.first + both.written);
        note.apart     = time_of(z, &x, whole) + time_of(z, &y, whole);
        note.together  = time_of(z, &both, whole);
        if (note.together >= note.apart) note.why = "it would take longer";
    }
    return note_merge(z, note) && (note.why || absorb(m, a, b));
}

bool kl_merge(kl_fuse *z) {
    kl_merger m  = {.z = z};
    bool      ok = true;
    if (z->ngroup < 2) return true;
    if (!(m.side = kn_zalloc(z->p->alloc, z->ngroup * sizeof *m.side))) return kn_oom(z->f);
    ok = survey(&m) && find_pairs(&m);
    for (size_t i = 0; i < m.npair && ok; i++) ok = weigh_pair(&m, &m.pair[i]);
    for (size_t g = 0; g < z->ngroup; g++)
        kn_free(z->p->alloc, m.side[g].seen, m.side[g].cap * sizeof *m.side[g].seen);
    kn_free(z->p->alloc, m.side, z->ngroup * sizeof *m.side);
    kn_free(z->p->alloc, m.pair, m.pair_cap * sizeof *m.pair);
    return ok;
}
