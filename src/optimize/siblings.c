/* siblings.c - the pieces of an END side by side: loops around what was cut stay one loop, and what is computed there,
 * or staged, stays one computation.
 *
 * Takes: the pieces made so far, outermost loop first. Gives: a new piece over the loops that it has in common with one
 * of them; then all of them as a tree of ENDs. Pieces store different elements, so their order does not matter. */
#include "optimize/apply.h"

#include <string.h>

/* Loops at the front that the piece has in common with v. */
static int in_common(ko_state *s, const ko_variant *v, const int *piece, const ko_part *p) {
    kn_graph *g = s->g;
    kn_ref    from[KN_MAX_NEST], to[KN_MAX_NEST];
    int       l = 0;
    for (; l < v->nloop && l < p->nloop; l++) {
        kn_ref a = v->loop[l].range, b = p->loop[l];
        int    type = (int)kg_field(g, a, KN_F_RANGE_type);
        if (v->loop[l].place != p->place[l] || piece[v->loop[l].closed] != p->piece[v->loop[l].closed]) break;
        if (ko_is_lane(type) || type != (int)kg_field(g, b, KN_F_RANGE_type)) break;
        if ((l ? kg_substitute(g, kg_at(g, a, 0), from, to, l) : kg_at(g, a, 0)) != kg_at(g, b, 0)) break;
        from[l] = a;
        to[l]   = b;
    }
    return l;
}

bool ko_share_loops(ko_state *s, ko_variant *v, const int *piece, int nrange, const ko_part *part, int np) {
    kn_graph *g    = s->g;
    int       most = 0, with = 0;
    kn_ref    from[KN_MAX_NEST], to[KN_MAX_NEST];
    for (int i = 0; i < np; i++) {
        int n = in_common(s, v, piece, &part[i]);
        if (n > most) most = n, with = i;
    }
    if (!most) return true;
    v->with = &part[with];
    for (int l = 0; l < most; l++) {
        from[l]          = v->loop[l].range;
        to[l]            = part[with].loop[l];
        v->loop[l].range = to[l];
    }
    for (int l = most; l < v->nloop; l++) {
        kn_ref r = v->loop[l].range, now = kg_substitute(g, r, from, to, most);
        if (!now) return false;
        if (now == r) continue;
        for (int k = 0; k < nrange; k++)
            if (!(v->to[k] = kg_substitute(g, v->to[k], &r, &now, 1))) return false;
        v->loop[l].range = now;
    }
    for (int k = 0; k < nrange; k++) {
        bool all = piece[k] == part[with].piece[k]; /* the loops of this range, if it has any, are the other piece's */
        for (int l = most; l < v->nloop; l++) all &= v->loop[l].closed != k;
        v->own[k] &= !all;
        v->to[k]   = kg_substitute(g, v->to[k], from, to, most);
        v->base[k] = kg_substitute(g, v->base[k], from, to, most);
        if (v->gate[k] && !(v->gate[k] = kg_substitute(g, v->gate[k], from, to, most))) return false;
        if (!v->to[k] || !v->base[k]) return false;
    }
    return true;
}

static int same_front(const ko_part *a, const ko_part *b) {
    int l = 0;
    while (l < a->nloop && l < b->nloop && a->loop[l] == b->loop[l]) l++;
    return l;
}

static kn_ref inner_end(kn_graph *g, const ko_part *p, int from) {
    return from == p->nloop ? p->body : kg_end(g, p->body, p->loop + from, p->nloop - from);
}

kn_ref ko_join_parts(kn_graph *g, ko_part *part, int np) {
    kn_ref all[KO_MAX_PARTS];
    for (;;) {
        int most = 0, a = 0, b = 0;
        for (int i = 0; i < np; i++)
            for (int k = i + 1; k < np; k++) {
                int n = same_front(&part[i], &part[k]);
                if (n > most) most = n, a = i, b = k;
            }
        if (!most) break;
        kn_ref both[2] = {inner_end(g, &part[a], most), inner_end(g, &part[b], most)};
        part[a].nloop  = most;
        part[a].body   = both[0] && both[1] ? kg_list(g, KN_OP_GROUP, both, 2) : 0;
        if (!part[a].body) return 0;
        memmove(part + b, part + b + 1, (size_t)(--np - b) * sizeof *part);
    }
    for (int i = 0; i < np; i++)
        if (!(all[i] = inner_end(g, &part[i], 0))) return 0;
    return np == 1 ? all[0] : kg_list(g, KN_OP_GROUP, all, np);
}
