/* Random programs of lazy values, assignments, writes, reads and scopes against a model that computes at once: whatever
 * runs when, every handle has the value it was given. */
#include "api.h"

enum { SIZE = 3, MOST = 60, DEPTH = 4 };

typedef struct item {
    kn_tensor *t;
    double     v[SIZE];
    int        depth; /* of the scope it belongs to */
    bool       keep, owns;
} item;

typedef struct world {
    kn_context *kn;
    uint64_t    state;
    item        it[MOST];
    int         n, depth;
    kn_scope   *scope[DEPTH];
    int         checks;
} world;

static uint32_t pick(world *w, uint32_t n) {
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->state >> 33) % n;
}

static void add(world *w, kn_tensor *t, const double *v, bool owns) {
    item *x = &w->it[w->n++];
    *x      = (item){.t = t, .depth = w->depth, .owns = owns};
    memcpy(x->v, v, sizeof x->v);
}

static bool check_item(world *w, item *x) {
    double got[SIZE];
    w->checks++;
    if (kn_read(x->t, KN_F64, got, sizeof got) != KN_OK) return false;
    for (int i = 0; i < SIZE; i++)
        if (got[i] != x->v[i]) return false;
    return true;
}

static void end_scope(world *w) {
    kn_scope *s = w->scope[--w->depth];
    CHECK_EQ(kn_end(s), KN_OK);
    int at = 0;
    for (int i = 0; i < w->n; i++) {
        item x = w->it[i];
        if (x.depth > w->depth) {
            if (!x.keep) {
                CHECK(!kn_ok(x.t));
                continue;
            }
            x.keep  = false;
            x.owns  = true;
            x.depth = w->depth;
        }
        w->it[at++] = x;
    }
    w->n = at;
}

/* The value of op k on a and b, and the same as a tensor. */
static kn_tensor *apply(world *w, uint32_t k, const item *a, const item *b, double *v) {
    double s = (double)pick(w, 5);
    for (int i = 0; i < SIZE; i++) {
        double x = a->v[i], y = b->v[i];
        v[i] = k == 0   ? x + s
               : k == 1 ? -x
               : k == 2 ? x + y
               : k == 3 ? x - y
               : k == 4 ? a->v[SIZE - 1 - i]
                        : fmax(x, y);
    }
    switch (k) {
    case 0: return kn_add_s(a->t, s);
    case 1: return kn_neg(a->t);
    case 2: return kn_add(a->t, b->t);
    case 3: return kn_sub(a->t, b->t);
    case 4: return kn_flip(a->t, 0);
    default: return kn_maximum(a->t, b->t);
    }
}

static bool small(const double *v) {
    for (int i = 0; i < SIZE; i++)
        if (fabs(v[i]) > 1e5) return false;
    return true;
}

static void random_program(world *w, int steps) {
    for (int step = 0; step < steps; step++) {
        uint32_t what = pick(w, 20);
        double   v[SIZE];
        float    f[SIZE];
        for (int i = 0; i < SIZE; i++) v[i] = f[i] = (float)pick(w, 9);
        if (w->n < 2 || (what == 0 && w->n < MOST)) {
            if (w->n < MOST) add(w, kn_from(w->kn, f, KN_F32, KN_DIMS(SIZE)), v, true);
            continue;
        }
        item *a = &w->it[pick(w, (uint32_t)w->n)], *b = &w->it[pick(w, (uint32_t)w->n)];
        bool  ok = true;
        switch (what) {
        case 1: case 2: case 3: case 4: case 5: case 6: case 7: {
            if (w->n == MOST) break;
            kn_tensor *t = apply(w, pick(w, 6), a, b, v);
            if (small(v)) add(w, t, v, false);
            break;
        }
        case 8: case 9: case 10: { /* assign an expression */
            kn_tensor *t = apply(w, pick(w, 6), a, b, v);
            item      *to = &w->it[pick(w, (uint32_t)w->n)];
            if (!to->owns || !small(v)) break;

            ok = kn_assign(to->t, t) == to->t;
            memcpy(to->v, v, sizeof v);
            break;
        }
        case 11: /* assign another tensor's value */
            if (!a->owns) break;
            ok = kn_assign(a->t, b->t) == a->t;
            memcpy(a->v, b->v, sizeof v);
            break;
        case 12: case 13:
            if (!a->owns) break;
            ok = kn_write(a->t, f, sizeof f) == KN_OK;
            memcpy(a->v, v, sizeof v);
            break;
        case 14:
            ok      = kn_realize((kn_tensor *[]){a->t, b->t}, 2) == KN_OK;
            a->owns = b->owns = true;
            break;
        case 15:
            if (w->depth) ok = kn_keep(a->t) == a->t, a->keep = a->depth > 0;
            break;
        case 16:
            if (w->depth < DEPTH) w->scope[w->depth++] = kn_begin(w->kn);
            break;
        case 17:
            if (w->depth) end_scope(w);
            break;
        default: ok = check_item(w, a); break;
        }
        if (!CHECK(ok)) {
            printf("  step %d, action %u: %s\n", step, what, kn_error(w->kn));
            return;
        }
    }
    while (w->depth) end_scope(w);
    for (int i = 0; i < w->n; i++)
        if (!CHECK(check_item(w, &w->it[i]))) return;
}

static void programs(const char *device, int count, int steps) {
    int checks = 0;
    for (int seed = 1; seed <= count; seed++) {
        world *w = calloc(1, sizeof *w);
        w->kn    = api_open(device);
        w->state = (uint64_t)seed * 77;
        random_program(w, steps);
        checks += w->checks;
        bool bad = *kn_error(w->kn);
        if (bad) printf("  seed %d: %s\n", seed, kn_error(w->kn));
        kn_close(w->kn);
        free(w);
        if (bad) break;
    }
    printf("  %d programs, %d values compared\n", count, checks);
}

static void random_programs(void) { programs("INTERP", 200, 300); }
static void random_programs_compiled(void) { programs("CPU", 1, 60); }

int main(void) {
    RUN(random_programs);
    RUN(random_programs_compiled);
    return check_result();
}
