/* digits_train.c - training for `koine demo digits`: cross-entropy, Adam.
 *
 * A training step is one scope: forward, gradients, update and the running sums are one graph, of the same form every
 * time, so it is compiled at the first step and only run after. Nothing is read back before an epoch ends. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli.h"
#include "digits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Test images are read so many at a time. */
enum { TRAIN_EVAL = 500 };

typedef struct train_net {
    kn_context *kn;
    digits_net  net;
    kn_tensor  *loss, *hits; /* running sums of the epoch */
    kn_tensor  *x, *t, *xe;  /* the batch, its labels; the images of an evaluation */
    kn_optim   *adam, *fine;
} train_net;

/* What the host fills. */
typedef struct train_host {
    float    *x, *logits;
    int32_t  *t;
    uint32_t *order;
    size_t    x_bytes, t_bytes, logits_bytes, order_bytes;
} train_host;

static bool train_fault(kn_context *kn, kn_fault *f) {
    kn_status   code = kn_error_code(kn);
    const char *text = kn_error(kn);
    return kn_fail(f, code ? code : KN_ERR_INTERNAL, "%s", *text ? text : "the library failed without a message");
}

static bool train_end(kn_context *kn, kn_scope *s, kn_fault *f) {
    kn_status code = kn_end(s);
    if (code == KN_OK) return true;
    const char *text = kn_error(kn);
    return kn_fail(f, code, "%s", *text ? text : kn_status_name(code));
}

static bool train_build(train_net *m, const digits_options *o, kn_fault *f) {
    char      room[4096];
    kn_config cfg = {.threads = o->threads, .target = o->target, .seed = o->seed,
                     .cache_dir = cli_cache_dir(room, sizeof(room)), .log = cli_log, .size = sizeof(cfg)};
    m->kn = kn_open(&cfg);
    if (!m->kn) return kn_oom(f);
    kn_context *kn = m->kn;
    digits_net_new(&m->net, kn, o->model);
    m->x = kn_empty(kn, KN_F32, KN_DIMS(o->batch, DIGITS_PIXELS));
    m->t = kn_empty(kn, KN_I32, KN_DIMS(o->batch));
    m->xe = kn_empty(kn, KN_F32, KN_DIMS(TRAIN_EVAL, DIGITS_PIXELS));
    m->loss = kn_empty(kn, KN_F32, NULL, 0);
    m->hits = kn_empty(kn, KN_F32, NULL, 0);
    kn_adam_opts adam = {.lr = o->lr, .size = sizeof(adam)};
    m->adam = kn_adam_opt(kn, m->net.param, m->net.nparam, &adam);
    /* The last epoch walks in small steps. Its moments start anew, which one epoch has time for. */
    adam.lr = o->lr / 4;
    m->fine = kn_adam_opt(kn, m->net.param, m->net.nparam, &adam);
    kn_scope *s = kn_begin(kn);
    digits_net_init(&m->net, kn);
    return train_end(kn, s, f);
}

static bool train_host_new(train_host *h, const digits_options *o, int64_t n, kn_fault *f) {
    *h = (train_host){0};
    h->x_bytes = (size_t)KN_MAX(o->batch, (int)TRAIN_EVAL) * DIGITS_PIXELS * sizeof(float);
    h->t_bytes = (size_t)o->batch * sizeof(int32_t);
    h->logits_bytes = (size_t)TRAIN_EVAL * DIGITS_CLASSES * sizeof(float);
    h->order_bytes = (size_t)n * sizeof(uint32_t);
    h->x = kn_realloc(NULL, NULL, 0, h->x_bytes);
    h->t = kn_realloc(NULL, NULL, 0, h->t_bytes);
    h->logits = kn_realloc(NULL, NULL, 0, h->logits_bytes);
    h->order = kn_realloc(NULL, NULL, 0, h->order_bytes);
    if (!h->x || !h->t || !h->logits || !h->order) return kn_oom(f);
    for (int64_t i = 0; i < n; i++) h->order[i] = (uint32_t)i;
    return true;
}

static void train_host_free(train_host *h) {
    kn_free(NULL, h->x, h->x_bytes);
    kn_free(NULL, h->t, h->t_bytes);
    kn_free(NULL, h->logits, h->logits_bytes);
    kn_free(NULL, h->order, h->order_bytes);
}

static void train_pixels(float *dst, const uint8_t *src) {
    for (int i = 0; i < DIGITS_PIXELS; i++) dst[i] = (float)src[i] * (1.0f / 255.0f);
}

static bool train_step(train_net *m, kn_optim *opt, kn_fault *f) {
    kn_scope  *s = kn_begin(m->kn);
    kn_tensor *y = digits_logits(&m->net, m->x, true);
    kn_tensor *each = kn_cross_entropy(y, m->t);
    /* Right where the label's logit is the largest. */
    kn_tensor *own = kn_sum(kn_mul(y, kn_one_hot(m->t, DIGITS_CLASSES, KN_F32)), .axes = KN_AXES(1));
    kn_tensor *right = kn_ge(own, kn_max(y, .axes = KN_AXES(1)));
    kn_minimize(opt, kn_mean(each));
    kn_assign(m->loss, kn_add(m->loss, kn_sum(each)));
    kn_assign(m->hits, kn_add(m->hits, kn_sum(kn_cast(right, KN_F32))));
    return train_end(m->kn, s, f);
}

static bool train_epoch(train_net *m, train_host *h, const digits_data *d, const digits_options *o, digits_rng *rng,
                        int epoch, digits_result *r, kn_fault *f) {
    const digits_set *set = &d->train;
    kn_optim         *opt = epoch > 1 && epoch == o->epochs ? m->fine : m->adam;
    kn_stats          before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
    const float       zero = 0;
    double            start = kn_now();
    if (kn_write(m->loss, &zero, sizeof(zero)) || kn_write(m->hits, &zero, sizeof(zero)) ||
        kn_get_stats(m->kn, &before))
        return train_fault(m->kn, f);
    for (int64_t i = set->n - 1; i > 0; i--) {
        uint32_t k = digits_rng_below(rng, (uint32_t)i + 1), t = h->order[i];
        h->order[i] = h->order[k];
        h->order[k] = t;
    }
    /* Every step has the same form: the last batch is filled up from the start of the order. */
    int64_t steps = (set->n + o->batch - 1) / o->batch;
    for (int64_t i = 0; i < steps; i++) {
        for (int64_t b = 0; b < o->batch; b++) {
            uint32_t pick = h->order[(i * o->batch + b) % set->n];
            train_pixels(h->x + b * DIGITS_PIXELS, set->images + (size_t)pick * DIGITS_PIXELS);
            h->t[b] = set->labels[pick];
        }
        if (kn_write(m->x, h->x, (size_t)o->batch * DIGITS_PIXELS * sizeof(float)) ||
            kn_write(m->t, h->t, (size_t)o->batch * sizeof(int32_t)))
            return train_fault(m->kn, f);
        if (!train_step(m, opt, f)) return false;
        if (o->step) o->step(o->user, epoch, KN_MIN((i + 1) * o->batch, set->n), set->n, kn_now() - start);
    }
    double seen = (double)steps * o->batch, loss = kn_item(m->loss), hits = kn_item(m->hits);
    if (kn_error_code(m->kn) || kn_get_stats(m->kn, &after)) return train_fault(m->kn, f);
    if (!isfinite(loss))
        return kn_fail(f, KN_ERR_ARG, "the loss is no longer finite in epoch %d: a learning rate of %g is too large; "
                       "try --lr %g", epoch, o->lr, o->lr / 10);
    double seconds = kn_now() - start, running = seconds - (after.compile_seconds - before.compile_seconds);
    double rate = seen / KN_MAX(running, 1e-9);
    r->loss = loss / seen;
    r->accuracy = hits / seen;
    r->train_seconds += seconds;
    r->images_per_second = KN_MAX(r->images_per_second, rate);
    r->step_kernels = (int)after.kernels_last;
    if (o->epoch) o->epoch(o->user, epoch, r->loss, r->accuracy, rate, seconds);
    return true;
}

static bool train_test(train_net *m, train_host *h, const digits_data *d, digits_result *r, kn_fault *f) {
    const digits_set *set = &d->test;
    int64_t           right = 0;
    for (int64_t at = 0; at < set->n; at += TRAIN_EVAL) {
        int64_t n = KN_MIN((int64_t)TRAIN_EVAL, set->n - at);
        memset(h->x, 0, (size_t)TRAIN_EVAL * DIGITS_PIXELS * sizeof(float));
        for (int64_t i = 0; i < n; i++)
            train_pixels(h->x + i * DIGITS_PIXELS, set->images + (at + i) * DIGITS_PIXELS);
        if (kn_write(m->xe, h->x, (size_t)TRAIN_EVAL * DIGITS_PIXELS * sizeof(float))) return train_fault(m->kn, f);
        kn_scope *s = kn_begin(m->kn);
        kn_read(digits_logits(&m->net, m->xe, false), KN_F32, h->logits, h->logits_bytes);
        if (!train_end(m->kn, s, f)) return false;
        for (int64_t i = 0; i < n; i++) {
            const float *y = h->logits + i * DIGITS_CLASSES;
            int          best = 0;
            for (int k = 1; k < DIGITS_CLASSES; k++)
                if (y[k] > y[best]) best = k;
            r->read[at + i] = (uint8_t)best;
            r->confusion[set->labels[at + i]][best]++;
            right += best == set->labels[at + i];
        }
    }
    r->test_accuracy = (double)right / (double)set->n;
    return true;
}

static char *train_program(train_net *m) {
    char     *text = NULL;
    size_t    size = 0;
    FILE     *out = open_memstream(&text, &size);
    if (!out) return NULL;
    kn_scope *s = kn_begin(m->kn);
    bool      ok = kn_dump(digits_first(&m->net, m->xe), "callify", out) == KN_OK;
    ok = kn_end(s) == KN_OK && ok;
    ok = fclose(out) == 0 && ok;
    if (ok && size) return text;
    free(text);
    return NULL;
}

bool digits_train(const digits_data *d, const digits_options *o, digits_result *r, kn_fault *f) {
    train_net  m = {0};
    train_host h = {0};
    digits_rng rng = digits_rng_seed(o->seed ^ 0x5348554646u);
    *r = (digits_result){.threads = o->threads, .stats.size = sizeof(kn_stats)};
    r->read = kn_realloc(NULL, NULL, 0, (size_t)d->test.n);
    bool ok = (r->read || kn_oom(f)) && train_build(&m, o, f) && train_host_new(&h, o, d->train.n, f);
    for (int e = 1; ok && e <= o->epochs; e++) ok = train_epoch(&m, &h, d, o, &rng, e, r, f);
    ok = ok && train_test(&m, &h, d, r, f);
    if (ok && kn_get_stats(m.kn, &r->stats)) ok = train_fault(m.kn, f);
    if (ok) r->program = train_program(&m);
    train_host_free(&h);
    kn_close(m.kn);
    if (!ok) digits_result_free(d, r);
    return ok;
}

void digits_result_free(const digits_data *d, digits_result *r) {
    kn_free(NULL, r->read, (size_t)d->test.n);
    free(r->program);
    r->read = NULL;
    r->program = NULL;
}
