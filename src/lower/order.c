/* order.c - which kernel runs before which.
 *
 * Takes: groups and, once fuse.c is through, the list of who reads which version of a PARAM.
 * Gives: a topological order. A reader of old contents runs before the group that overwrites them; where that would be
 * a cycle, or the writer itself reads them elsewhere than it writes, the STORE goes to a temporary that is copied
 * after. */
#include "lower/rangeify.h"

#include <string.h>

bool kl_group_new(kl_fuse *z, int *group) {
    const kn_alloc *a = z->p->alloc;
    if (!KN_GROW(a, z->group, z->group_cap, z->ngroup + 1) || !KN_GROW(a, z->before, z->before_cap, z->ngroup + 1))
        return kn_oom(z->f);
    size_t words = z->ngroup / 64 + 1;
    if (words > z->before_words) { /* every set grows together, in doubling steps */
        size_t wide = KN_MAX(words, z->before_words * 2);
        for (size_t i = 0; i < z->ngroup; i++) {
            uint64_t *s = kn_arena_get(&z->arena, wide * sizeof *s);
            if (!s) return kn_oom(z->f);
            memset(s, 0, wide * sizeof *s);
            memcpy(s, z->before[i], z->before_words * sizeof *s);
            z->before[i] = s;
        }
        z->before_words = wide;
    }
    uint64_t *s = kn_arena_get(&z->arena, z->before_words * sizeof *s);
    if (!s) return kn_oom(z->f);
    memset(s, 0, z->before_words * sizeof *s);
    z->before[z->ngroup] = s;
    z->group[z->ngroup]  = (kl_group){0};
    *group               = (int)z->ngroup++;
    return true;
}

bool kl_group_before(const kl_fuse *z, int a, int b) { return z->before[b][a / 64] >> (a % 64) & 1; }

bool kl_group_edge(kl_fuse *z, int a, int b) {
    if (a == b || kl_group_before(z, a, b)) return true;
    if (kl_group_before(z, b, a)) return kn_fail(z->f, KN_ERR_INTERNAL, "rangeify: kernels wait for each other");
    bool more = false; /* most groups are new when they get an edge: nothing stands before them */
    for (size_t w = 0; w < z->before_words && !more; w++) more = z->before[a][w] != 0;
    for (size_t x = 0; x < z->ngroup; x++) {
        if ((int)x != b && !kl_group_before(z, b, (int)x)) continue;
        for (size_t w = 0; w < z->before_words && more; w++) z->before[x][w] |= z->before[a][w];
        z->before[x][a / 64] |= (uint64_t)1 << (a % 64);
    }
    return true;
}

/* The writer's own reads of the old contents are harmless when each is at the very element it then writes. */
static bool in_place(kl_fuse *z, const kl_read *rd, const kl_storage *st) {
    kn_ref    rf = kl_flat(z, rd->use), wf = kl_flat(z, st->use);
    kn_affine a, b;
    if (z->use[rd->use].gate || !rf || !wf || !kg_affine(z->r, rf, &a) || !kg_affine(z->r, wf, &b)) return false;
    if (a.base != b.base || a.n != b.n) return false;
    for (int i = 0; i < a.n; i++)
        if (a.atom[i] != b.atom[i] || a.coef[i] != b.coef[i]) return false;
    return true;
}

/* Does the STORE have to wait for `group` (a reader of what it overwrites), and can it? */
static bool must_detour(kl_fuse *z, const kl_read *rd, const kl_storage *st) {
    if (rd->group != st->group) return kl_group_before(z, st->group, rd->group);
    return st->use < 0 || !in_place(z, rd, st);
}

static bool overwrites(const kl_out *o, const kl_read *rd) { return rd->slot == o->slot && rd->version == o->before; }

static bool order_store(kl_fuse *z, kl_out *o, const kl_storage *st) {
    for (size_t i = 0; i < z->nread && !o->via_temp; i++)
        if (overwrites(o, &z->read[i])) o->via_temp = must_detour(z, &z->read[i], st);
    for (size_t i = 0; i < z->nread && !o->via_temp; i++) {
        if (!overwrites(o, &z->read[i]) || z->read[i].group == st->group) continue;
        if (kl_group_before(z, st->group, z->read[i].group))
            o->via_temp = true; /* an edge made just now closed a circle */
        else if (!kl_group_edge(z, z->read[i].group, st->group)) return false;
    }
    for (size_t i = 0; i < z->nout && !o->via_temp; i++) { /* the version before is written before */
        if (z->out[i].store != o->before) continue;
        int w = z->storage[z->info[kl_stored_value(z->g, o->before)].storage].group;
        if (w == st->group || kl_group_before(z, st->group, w)) o->via_temp = true;
        else if (!kl_group_edge(z, w, st->group)) return false;
    }
    return true;
}

/* A group that copies the temporary into the PARAM, after everything that still wants the old contents. */
static bool add_copy(kl_fuse *z, kl_out *o, kl_storage *st) {
    kl_program *p = z->p;
    int         c;
    if (!kl_group_new(z, &c) || !kl_new_range(z, p->param[o->slot].size, false, NULL, 0, &z->group[c].range[0]))
        return false;
    z->group[c].nrange = 1;
    z->group[c].copy   = (int)(o - z->out) + 1;
    if (st->out == (int)(o - z->out)) { /* what held the value no longer does */
        if (!KN_GROW(p->alloc, p->temp, p->temp_cap, p->ntemp + 1)) return kn_oom(z->f);
        p->temp[p->ntemp] = (kl_temp){.size = kg_most(z->g, st->node), .dtype = kg_dtype(z->g, st->node)};
        st->slot          = (int64_t)(p->nparam + p->ntemp++);
    }
    if (!kl_group_edge(z, st->group, c)) return false;
    for (size_t i = 0; i < z->nread; i++)
        if (overwrites(o, &z->read[i]) && z->read[i].group != c && !kl_group_edge(z, z->read[i].group, c)) return false;
    return true;
}

bool kl_hazards(kl_fuse *z) {
    for (size_t s = 0; s < z->nout; s++) {
        kl_out *o       = &z->out[s];
        int     storage = z->info[kl_stored_value(z->g, o->store)].storage;
        if (storage >= 0 && !order_store(z, o, &z->storage[storage])) return false;
    }
    for (size_t s = 0; s < z->nout; s++) {
        kl_out *o       = &z->out[s];
        int     storage = z->info[kl_stored_value(z->g, o->store)].storage;
        if (storage >= 0 && o->via_temp && !add_copy(z, o, &z->storage[storage])) return false;
    }
    return true;
}

bool kl_group_order(kl_fuse *z, int *order, int *count) {
    /* A group after all that must precede it: sizes of closed sets ascend along every edge. */
    int n = (int)z->ngroup;
    int *size = kn_arena_get(&z->arena, (size_t)(n + 1) * sizeof *size);
    int *at   = kn_arena_get(&z->arena, (size_t)(n + 1) * sizeof *at);
    if (!size || !at) return kn_oom(z->f);
    memset(at, 0, (size_t)(n + 1) * sizeof *at);
    for (int i = 0; i < n; i++) {
        size[i] = 0;
        for (size_t w = 0; w < z->before_words; w++) size[i] += __builtin_popcountll(z->before[i][w]);
        if (size[i] >= n) return kn_fail(z->f, KN_ERR_INTERNAL, "rangeify: no order of the kernels");
        at[size[i] + 1]++;
    }
    for (int s = 1; s <= n; s++) at[s] += at[s - 1];
    /* Among equals the group made last (its results lie nearest the inputs) runs first. */
    for (int i = n; i-- > 0;) order[at[size[i]]++] = i;
    *count = n;
    return true;
}
