/* opts.c - the nest summary, the OptOps on it, and the one substitution that applies them. */
#include "optimize/opts.h"

#include <string.h>

/* ---- the nest ------------------------------------------------------------------------------------------------ */

bool ko_nest(kn_graph *g, kn_ref sink, kn_nest *nest, kn_fault *f) {
    kn_ref  *order;
    uint32_t n;
    bool     ok = true;
    nest->norigin = nest->nloop = nest->nstage = 0;
    if (!kg_reach(g, &sink, 1, &order, &n)) return kn_oom(f);
    for (int pass = 0; pass < 2 && ok; pass++)       /* outer ENDs first: they have the higher ids; then reductions */
        for (uint32_t i = n; i-- > 0 && ok;) {
            kn_ref c = order[i];
            if (kg_op(g, c) != (pass ? KN_OP_REDUCE : KN_OP_END)) continue;
            for (uint32_t s = 1; s < kg_nsrc(g, c) && ok; s++) {
                kn_ref r = kg_at(g, c, s), b = kg_at(g, r, 0);
                if (kg_op(g, b) != KN_OP_CONST)
                    ok = kn_fail(f, KN_ERR_UNSUPPORTED, "optimize: a loop bound is not constant");
                else if (nest->nloop == KN_MAX_NEST)
                    ok = kn_fail(f, KN_ERR_UNSUPPORTED, "optimize: more than %d loops", KN_MAX_NEST);
                else {
                    int64_t e = kg_const_int(g, b);
                    int     type = (int)kg_field(g, r, KN_F_RANGE_type);
                    nest->origin[nest->norigin] =
                        (kn_origin){r, c, e, pass == 1, pass == 0 && type == KN_AXIS_REDUCE, false, 0, KN_AXIS_LOOP};
                    nest->loop[nest->nloop++] = (kn_loop){nest->norigin++, e, 1, type};
                }
            }
        }
    nest->ordered = false;
    for (uint32_t i = 0; i < n; i++) {
        if (kg_op(g, order[i]) == KN_OP_AFTER) nest->ordered |= kg_op(g, kg_at(g, order[i], 0)) == KN_OP_PARAM;
        if (kg_op(g, order[i]) != KN_OP_STORE || kg_space(g, kg_at(g, order[i], 0)) != KN_LOCAL) continue;
        for (int o = 0; o < nest->norigin;
             o++) /* the stage is filled in this loop, and its address does not tell iterations apart */
            nest->origin[o].staged |= kg_depends(g, order[i], nest->origin[o].range) &&
                                      !kg_depends(g, kg_at(g, kg_at(g, order[i], 0), 1), nest->origin[o].range);
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return ok;
}

static bool refuse(kn_fault *f, const kn_opt *o, const char *why) {
    return kn_fail(f, KN_ERR_ARG, "%s of loop %d by %lld: %s", o->op == KN_OPT_SPLIT ? "SPLIT" : "SWAP", o->axis,
                   (long long)o->arg, why);
}

static bool edit_split(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    kn_loop   *l  = &nest->loop[o->axis];
    kn_origin *or = &nest->origin[l->origin];
    bool ok       = or->reduce
                        ? o->target == KN_AXIS_REDUCE || o->target == KN_AXIS_GROUP_REDUCE ||
                              o->target == KN_AXIS_UNROLL
                        : o->target == KN_AXIS_LOOP || o->target == KN_AXIS_THREAD || o->target == KN_AXIS_UPCAST;
    if (!ok)
        return refuse(f, o, or->reduce ? "a reduction splits into REDUCE, GROUP_REDUCE or UNROLL"
                                       : "an output loop splits into LOOP, THREAD or UPCAST");
    if (l->type != KN_AXIS_LOOP && l->type != KN_AXIS_REDUCE && l->type != KN_AXIS_GLOBAL)
        return refuse(f, o, "the loop is already expanded or parallel");
    if (o->arg < 1 || o->arg > l->extent) return refuse(f, o, "the factor must be between 1 and the loop's extent");
    if (or->staged && ko_is_lane(o->target))
        return refuse(f, o, "values staged in LOCAL memory belong to one iteration of it");
    if (or->carried) return refuse(f, o, "its iterations meet in memory and must run in order");
    if (o->target == KN_AXIS_THREAD && nest->ordered && or->closer != nest->origin[0].closer)
        return refuse(f, o, "a thread could read what another has yet to write");
    if (o->target == KN_AXIS_THREAD)
        for (int i = 0; i < nest->nloop; i++)
            if (nest->loop[i].type == KN_AXIS_THREAD) return refuse(f, o, "the kernel has a THREAD loop already");
    if (nest->nloop + 1 > KN_MAX_NEST) return refuse(f, o, "too many loops");
    int64_t rest = l->extent / o->arg, left = l->extent % o->arg;
    if (left) { /* PEEL: what is left over runs in a loop of its own */
        int64_t covered = 0;
        for (int i = 0; i < nest->nloop; i++) covered += nest->loop[i].origin == l->origin;
        if (covered > 1 || or->tail) return refuse(f, o, "the factor must divide a loop that was split before");
        or->tail      = left;
        or->tail_type = or->reduce ? KN_AXIS_REDUCE : o->target == KN_AXIS_UPCAST ? KN_AXIS_UPCAST : KN_AXIS_LOOP;
    }
    int64_t outer = o->top ? o->arg : rest, inner = o->top ? rest : o->arg;
    kn_loop out = *l, in = *l;
    out.extent  = outer;
    out.stride  = l->stride * inner;
    in.extent   = inner;
    (o->top ? &out : &in)->type = o->target;
    if (outer == 1) {
        *l = in;
    } else if (inner == 1) {
        *l = out;
    } else {
        memmove(l + 2, l + 1, (size_t)(nest->nloop - o->axis - 1) * sizeof *l);
        l[0] = out;
        l[1] = in;
        nest->nloop++;
    }
    return true;
}

bool ko_edit(kn_nest *nest, const kn_opt *o, kn_fault *f) {
    if (o->op == KN_OPT_STAGE) {
        if (nest->nstage == KN_MAX_STAGES) return kn_fail(f, KN_ERR_ARG, "STAGE: more than %d", KN_MAX_STAGES);
        nest->stage[nest->nstage++] = o->arg;
        return true;
    }
    if (o->axis < 0 || o->axis >= nest->nloop) return refuse(f, o, "no such loop");
    if (o->op == KN_OPT_SPLIT) return edit_split(nest, o, f);
    if (o->arg < 0 || o->arg >= nest->nloop) return refuse(f, o, "no such loop");
    kn_loop *a = &nest->loop[o->axis], *b = &nest->loop[o->arg];
    if (nest->origin[a->origin].closer != nest->origin[b->origin].closer)
        return refuse(f, o, "the loops belong to different nests");
    kn_loop t = *a;
    *a        = *b;
    *b        = t;
    return true;
}

/* ---- applying ------------------------------------------------------------------------------------------------ */

typedef struct ko_variant { /* one combination of main and tail pieces of a closer's ranges */
    kn_ref from[KN_MAX_NEST], to[KN_MAX_NEST], loop[KN_MAX_NEST];
    int    nsub, nloop;
} ko_variant;

typedef struct ko_state {
    kn_graph      *g;
    const kn_nest *nest;
    int64_t        next_id, next_local;
    int            slot[KN_MAX_NEST]; /* per loop: its shape axis once expanded */
    int            tail_slot[KN_MAX_NEST];
} ko_state;

static kn_ref new_range(ko_state *s, int64_t extent, int type, int slot) {
    int64_t w[KN_RANGE_WORDS] = {s->next_id++, type, 0, ko_is_lane(type) ? slot : 0};
    kn_ref  bound             = kg_idx(s->g, extent);
    return kg_make(s->g, KN_OP_RANGE, 0, kg_intern_words(s->g, w, KN_RANGE_WORDS), &bound, 1);
}

/* Pieces chosen by the bits of `tails`: bit k set takes the tail of the closer's k-th range. */
static bool make_variant(ko_state *s, const int *origins, int n, unsigned tails, ko_variant *v) {
    const kn_nest *nest = s->nest;
    kn_graph      *g    = s->g;
    v->nsub = v->nloop = 0;
    kn_ref sum[KN_MAX_NEST] = {0};
    for (int l = 0; l < nest->nloop; l++) { /* nest order, so that the loops come out outermost first */
        int k = 0;
        while (k < n && origins[k] != nest->loop[l].origin) k++;
        if (k == n || tails >> k & 1) continue;
        kn_ref r = new_range(s, nest->loop[l].extent, nest->loop[l].type, s->slot[l]);
        kn_ref t = nest->loop[l].stride == 1 ? r : kg_op2(g, KN_OP_MUL, r, kg_idx(g, nest->loop[l].stride));
        sum[k]   = sum[k] ? kg_op2(g, KN_OP_ADD, sum[k], t) : t;
        v->loop[v->nloop++] = r;
    }
    for (int k = 0; k < n; k++) {
        const kn_origin *o = &nest->origin[origins[k]];
        if (tails >> k & 1) {
            kn_ref base = kg_idx(g, o->extent - o->tail);
            if (o->tail == 1) {
                sum[k] = base;
            } else {
                kn_ref r = new_range(s, o->tail, o->tail_type, s->tail_slot[origins[k]]);
                sum[k]   = kg_op2(g, KN_OP_ADD, r, base);
                v->loop[v->nloop++] = r;
            }
        }
        v->from[v->nsub] = o->range;
        v->to[v->nsub++] = sum[k];
        if (!sum[k]) return false;
    }
    return true;
}

/* A copy of the body fills stages of its own: their LOCAL buffers get new slots. */
static bool own_stages(ko_state *s, kn_ref body, ko_variant *v) {
    kn_graph *g = s->g;
    kn_ref   *order;
    uint32_t  n;
    bool      ok = true;
    if (!kg_reach(g, &body, 1, &order, &n)) return false;
    for (uint32_t i = 0; i < n && ok; i++) {
        kn_ref st = order[i], b;
        if (kg_op(g, st) != KN_OP_STORE || kg_space(g, kg_at(g, st, 0)) != KN_LOCAL) continue;
        bool moves = false, known = false;
        for (int k = 0; k < v->nsub; k++) /* filled anew for each value of the range, which the address does not tell */
            moves |= kg_op(g, v->from[k]) == KN_OP_RANGE && kg_depends(g, st, v->from[k]) &&
                     !kg_depends(g, kg_at(g, kg_at(g, st, 0), 1), v->from[k]);
        for (b = kg_at(g, st, 0); kg_op(g, b) != KN_OP_BUFFER;) b = kg_at(g, b, 0);
        for (int k = 0; k < v->nsub; k++) known |= v->from[k] == b;
        if (!moves || known) continue;
        if (!(ok = v->nsub < KN_MAX_NEST)) break;
        v->from[v->nsub]  = b;
        v->to[v->nsub++] = kg_buffer(g, s->next_local++, kg_numel(g, b), kg_dtype(g, b), 0, KN_LOCAL);
    }
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return ok;
}

static kn_ref apply_closer(ko_state *s, kn_ref closer, kn_ref body, const int *origins, int n) {
    kn_graph *g  = s->g;
    int       op = kg_op(g, closer);
    kn_ref    parts[64], r = 0;
    int       np = 0;
    unsigned  mask = 0;
    for (int k = 0; k < n; k++)
        if (s->nest->origin[origins[k]].tail) mask |= 1u << k;
    for (unsigned tails = mask;; tails = (tails - 1) & mask) { /* ends with tails == 0, the main part */
        ko_variant v;
        if (np == KN_COUNT(parts) || !make_variant(s, origins, n, tails, &v)) return 0;
        if (tails && !own_stages(s, body, &v)) return 0;
        kn_ref b = kg_substitute(g, body, v.from, v.to, v.nsub);
        if (op == KN_OP_REDUCE)
            b = v.nloop ? kg_reduce_ranges(g, b, (int)kg_field(g, closer, KN_F_REDUCE_op), v.loop, v.nloop) : b;
        else b = kg_end(g, b, v.loop, v.nloop);
        if (!b) return 0;
        parts[np++] = b;
        if (!tails) break;
    }
    if (op == KN_OP_REDUCE) {
        r = parts[np - 1];
        for (int i = np - 1; i-- > 0;) r = kg_op2(g, (int)kg_field(g, closer, KN_F_REDUCE_op), r, parts[i]);
        return r;
    }
    if (np == 1) return parts[0];
    for (int i = 0; i < np / 2; i++) { /* the main part first */
        kn_ref t          = parts[i];
        parts[i]          = parts[np - 1 - i];
        parts[np - 1 - i] = t;
    }
    return kg_list(g, KN_OP_GROUP, parts, np);
}

/* Does some value depend on both? */
static bool meet(const kn_graph *g, const kn_ref *order, uint32_t n, kn_ref a, kn_ref b) {
    for (uint32_t i = 0; i < n; i++)
        if (kg_depends(g, order[i], a) && kg_depends(g, order[i], b)) return true;
    return false;
}

/* Shape axes of the expanded loops. Loops that meet in a value get different axes, the inner one further right, so that
 * the innermost is the lane axis; loops that never meet share them. */
static bool assign_axes(ko_state *s, kn_ref sink, kn_fault *f) {
    const kn_nest *nest = s->nest;
    kn_ref        *order;
    uint32_t       n;
    int            right[KN_MAX_NEST] = {0}, rank = 0; /* axes to the right of the loop's own */
    if (!kg_reach(s->g, &sink, 1, &order, &n)) return kn_oom(f);
    for (int l = nest->nloop; l-- > 0;) {
        if (!ko_is_lane(nest->loop[l].type)) continue;
        for (int m = l + 1; m < nest->nloop; m++) {
            if (!ko_is_lane(nest->loop[m].type)) continue;
            bool same = nest->loop[m].origin == nest->loop[l].origin;
            if (same || meet(s->g, order, n, nest->origin[nest->loop[l].origin].range,
                             nest->origin[nest->loop[m].origin].range))
                right[l] = KN_MAX(right[l], right[m] + 1);
        }
        rank = KN_MAX(rank, right[l] + 1);
    }
    kn_free(kg_alloc(s->g), order, n * sizeof *order);
    if (rank > KN_MAX_RANK) return kn_fail(f, KN_ERR_ARG, "optimize: more than %d expanded loops meet", KN_MAX_RANK);
    for (int l = 0; l < nest->nloop; l++) {
        if (!ko_is_lane(nest->loop[l].type)) continue;
        s->slot[l]                              = rank - 1 - right[l];
        s->tail_slot[nest->loop[l].origin] = s->slot[l];
    }
    return true;
}

/* ---- panels -------------------------------------------------------------------------------------------------- */

/* LOAD of the PARAM inside a reduction: the panel it walks there, its reduction loops and lanes, is copied into LOCAL
 * memory, row by row without gaps, in the loops around it; the load then reads the copy. 0: it is no such load, or too
 * large. */
static kn_ref stage_load(ko_state *s, kn_ref load) {
    kn_graph *g   = s->g;
    kn_ref    at  = kg_at(g, load, 0), idx = kg_at(g, at, 1), open[16], in[16], fresh[16], mine = 0, its = 0;
    int       all = kg_ranges(g, load, open, KN_COUNT(open)), n = 0;
    bool      sums = false;
    int64_t   size = 1;
    if (all > KN_COUNT(open)) return 0;
    for (int pass = 0; pass < 2; pass++) /* lanes last: they walk by one */
        for (int i = 0; i < all; i++) {
            int type = (int)kg_field(g, open[i], KN_F_RANGE_type);
            if (type == (pass ? KN_AXIS_UPCAST : KN_AXIS_REDUCE)) in[n++] = open[i];
            else if (ko_is_lane(type) || type == KN_AXIS_REDUCE) continue;
            else if (type == KN_AXIS_UNROLL) return 0;
            sums |= type == KN_AXIS_REDUCE;
        }
    if (!sums || n < 2) return 0;
    for (int i = n; i-- > 0;) {
        kn_ref  b  = kg_at(g, in[i], 0);
        int64_t w[KN_RANGE_WORDS];
        if (kg_op(g, b) != KN_OP_CONST) return 0;
        memcpy(w, kg_words(g, in[i], NULL), sizeof w);
        w[KN_F_RANGE_id] = s->next_id++;
        if (w[KN_F_RANGE_type] == KN_AXIS_REDUCE) w[KN_F_RANGE_type] = KN_AXIS_LOOP;
        fresh[i]  = kg_make(g, KN_OP_RANGE, 0, kg_intern_words(g, w, KN_RANGE_WORDS), &b, 1);
        kn_ref st = kg_idx(g, size), x = kg_op2(g, KN_OP_MUL, fresh[i], st), y = kg_op2(g, KN_OP_MUL, in[i], st);
        mine      = mine ? kg_op2(g, KN_OP_ADD, mine, x) : x;
        its       = its ? kg_op2(g, KN_OP_ADD, its, y) : y;
        size      = kn_sat_mul(size, kg_const_int(g, b));
    }
    if (size > KN_STAGE_BYTES / kn_dsize(kg_dtype(g, load))) return 0;
    kn_ref local  = kg_buffer(g, s->next_local++, size, kg_dtype(g, load), 0, KN_LOCAL);
    kn_ref source = kg_substitute(g, idx, in, fresh, n), param = kg_at(g, at, 0);
    kn_ref filled =
        kg_end(g, kg_store(g, kg_index(g, local, &mine, 1), kg_load(g, kg_index(g, param, &source, 1)), 0), fresh, n);
    return kg_load(g, kg_index(g, kg_after(g, local, &filled, 1), &its, 1));
}

static kn_ref stage_param(ko_state *s, kn_ref sink, int64_t slot, kn_fault *f) {
    kn_graph *g = s->g;
    kn_ref   *order, *from = NULL, *to = NULL;
    uint32_t  n;
    size_t    fc = 0, tc = 0;
    int       count = 0;
    if (!kg_reach(g, &sink, 1, &order, &n)) return kn_oom(f), 0;
    for (uint32_t i = 0; i < n; i++) {
        kn_ref l = order[i];
        if (kg_op(g, l) != KN_OP_LOAD || kg_nsrc(g, l) != 1 || kg_op(g, kg_at(g, l, 0)) != KN_OP_INDEX) continue;
        kn_ref p = kg_at(g, kg_at(g, l, 0), 0), staged;
        if (kg_op(g, p) != KN_OP_PARAM || kg_field(g, p, KN_F_PARAM_slot) != slot || !(staged = stage_load(s, l)))
            continue;
        if (!KN_GROW(kg_alloc(g), from, fc, (size_t)count + 1) || !KN_GROW(kg_alloc(g), to, tc, (size_t)count + 1)) {
            kn_oom(f);
            break;
        }
        from[count] = l;
        to[count++] = staged;
    }
    if (!f->code && count) sink = kg_substitute(g, sink, from, to, count);
    kn_free(kg_alloc(g), from, fc * sizeof *from);
    kn_free(kg_alloc(g), to, tc * sizeof *to);
    kn_free(kg_alloc(g), order, n * sizeof *order);
    return f->code ? 0 : sink;
}

kn_ref ko_apply(kn_graph *g, kn_ref sink, const kn_nest *nest, kn_fault *f) {
    ko_state s = {.g = g, .nest = nest};
    for (int i = 0; i < nest->norigin; i++)
        s.next_id = KN_MAX(s.next_id, kg_field(g, nest->origin[i].range, KN_F_RANGE_id) + 1);
    for (kn_ref n = 1; n < kg_count(g); n++)
        if (kg_op(g, n) == KN_OP_BUFFER) s.next_local = KN_MAX(s.next_local, kg_field(g, n, KN_F_BUFFER_slot) + 1);
    if (!assign_axes(&s, sink, f)) return 0;
    for (;;) { /* outermost closers first, so that each copy of an inner loop gets ranges of its own */
        kn_ref  *order, old = 0;
        uint32_t count;
        int      origins[32], n = 0;
        if (!kg_reach(g, &sink, 1, &order, &count)) return kn_oom(f), 0;
        for (uint32_t at = count; at-- > 0 && !n;) {
            old = order[at];
            if (kg_op(g, old) != KN_OP_END && kg_op(g, old) != KN_OP_REDUCE) continue;
            for (uint32_t k = 1; k < kg_nsrc(g, old); k++)
                for (int i = 0; i < nest->norigin && n < KN_COUNT(origins); i++)
                    if (nest->origin[i].range == kg_at(g, old, k)) origins[n++] = i;
        }
        kn_free(kg_alloc(g), order, count * sizeof *order);
        if (!n) break;
        kn_ref now = apply_closer(&s, old, kg_at(g, old, 0), origins, n);
        sink       = now ? kg_substitute(g, sink, &old, &now, 1) : 0;
        if (!sink && kg_fault(g)->code) return 0; /* the caller has the graph's fault */
        if (!sink) return kn_fail(f, KN_ERR_INTERNAL, "optimize: the options could not be applied"), 0;
    }
    for (int i = 0; i < nest->nstage && sink; i++) sink = stage_param(&s, sink, nest->stage[i], f);
    return sink;
}

/* ---- text ---------------------------------------------------------------------------------------------------- */

static bool parse_word(const char **at, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*at, word, n) || ((*at)[n] && (*at)[n] != ':' && (*at)[n] != ' ' && (*at)[n] != ',')) return false;
    *at += n;
    return true;
}

static bool parse_number(const char **at, int64_t *v) {
    if (**at != ':' || (*at)[1] < '0' || (*at)[1] > '9') return false;
    *v = 0;
    for (++*at; **at >= '0' && **at <= '9'; ++*at)
        if (!kn_mul_ok(*v, 10, v) || !kn_add_ok(*v, **at - '0', v)) return false;
    return true;
}

bool ko_parse_opts(const char *text, kn_opt *opts, int *n, kn_fault *f) {
    *n = 0;
    for (const char *at = text; *at;) {
        if (*at == ' ' || *at == ',') {
            at++;
            continue;
        }
        kn_opt  o = {0};
        int64_t axis;
        bool    ok = false;
        if (*n == KN_MAX_OPTS) return kn_fail(f, KN_ERR_ARG, "options: more than %d", KN_MAX_OPTS);
        const char *start = at;
        if (parse_word(&at, "SWAP")) {
            o.op = KN_OPT_SWAP;
            ok   = parse_number(&at, &axis) && parse_number(&at, &o.arg);
        } else if (parse_word(&at, "STAGE")) {
            o.op = KN_OPT_STAGE;
            axis = 0;
            ok   = parse_number(&at, &o.arg);
        } else if (parse_word(&at, "SPLIT")) {
            ok = parse_number(&at, &axis) && parse_number(&at, &o.arg) && *at == ':';
            if (ok) {
                at++;
                ok = false;
                for (int t = 0; t < KN_AXIS_COUNT && !ok; t++)
                    if (parse_word(&at, kn_axis_names[t])) o.target = t, ok = true;
                if (ok && !strncmp(at, ":top", 4)) o.top = true, at += 4;
            }
        }
        if (!ok || axis > KN_MAX_NEST || (*at && *at != ' ' && *at != ','))
            return kn_fail(
                f, KN_ERR_ARG,
                "options: cannot read \"%.40s\"; an option is SPLIT:loop:factor:TYPE[:top], SWAP:loop:loop or "
                "STAGE:param",
                start);
        o.axis        = (int)axis;
        opts[(*n)++] = o;
    }
    return true;
}

void ko_print_opts(const kn_opt *opts, int n, kn_str *out) {
    for (int i = 0; i < n; i++) {
        const kn_opt *o = &opts[i];
        if (i) kn_str_puts(out, " ");
        if (o->op == KN_OPT_STAGE) kn_str_putf(out, "STAGE:%lld", (long long)o->arg);
        else if (o->op == KN_OPT_SWAP) kn_str_putf(out, "SWAP:%d:%lld", o->axis, (long long)o->arg);
        else
            kn_str_putf(out, "SPLIT:%d:%lld:%s%s", o->axis, (long long)o->arg, kn_axis_names[o->target],
                        o->top ? ":top" : "");
    }
}
