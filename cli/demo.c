/* demo.c - `koine demo digits`: train a digit reader before the reader's eyes and show what the compiler did.
 *
 * Contract: 0 when it trained, 1 when data or training failed (nothing half-done is printed as a result), 2 on bad
 * usage. The report goes to stdout; with --json stdout holds one JSON object alone and the live lines go to stderr. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli.h"
#include "digits.h"
#include "runtime/runtime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

typedef struct demo_view {
    FILE          *live; /* where epochs are told */
    bool           tty, json;
    int            epochs, columns;
    double         told; /* when the running line was last drawn, seconds into the epoch */
    digits_palette color;
} demo_view;

/* 12345678 as 12,345,678. */
static const char *demo_count(char out[32], double v) {
    char digits[24];
    int  n = snprintf(digits, sizeof(digits), "%.0f", fmin(fmax(v, 0), 1e18)), k = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
    return out;
}

static void demo_step(void *user, int epoch, int64_t done, int64_t total, double seconds) {
    demo_view *v = user;
    if (!v->tty || (seconds - v->told >= 0 && seconds - v->told < 0.05 && done < total)) return;
    char      rate[32];
    const int wide = 24;
    int       full = (int)(wide * done / total);
    v->told = done < total ? seconds : 0;
    fprintf(v->live, "\r%sepoch%s %2d/%d  ", v->color.dim, v->color.off, epoch, v->epochs);
    for (int i = 0; i < wide; i++) fputs(i < full ? "\342\224\201" : "\342\224\200", v->live);
    fprintf(v->live, "  %3d %%  %s images/s\033[K", (int)(100 * done / total),
            demo_count(rate, (double)done / fmax(seconds, 1e-9)));
    fflush(v->live);
}

static void demo_epoch(void *user, int epoch, double loss, double accuracy, double rate, double seconds) {
    demo_view *v = user;
    char       text[32];
    fprintf(v->live, "%s%sepoch%s %2d/%d   loss %s%.4f%s   accuracy %s%6.2f %%%s   %10s images/s   %.2f s\n",
            v->tty ? "\r\033[K" : "", v->color.dim, v->color.off, epoch, v->epochs, v->color.bold, loss, v->color.off,
            v->color.bold, 100 * accuracy, v->color.off, demo_count(text, rate), seconds);
    fflush(v->live);
}

static void demo_json(const digits_data *d, const digits_options *o, const digits_result *r, double peak,
                      const char *isa) {
    const char *source = d->drawn ? "drawn" : d->source;
    kn_str      text;
    kn_str_init(&text, NULL);
    cli_json_text(&text, source, strlen(source));
    printf("{\"data\": %s, \"drawn\": %s, \"train_images\": %lld, \"test_images\": %lld,\n", kn_str_c(&text),
           d->drawn ? "true" : "false", (long long)d->train.n, (long long)d->test.n);
    kn_str_free(&text);
    printf(" \"model\": \"%s\", \"epochs\": %d, \"batch\": %d, \"lr\": %.9g, \"seed\": %llu, \"threads\": %d,\n",
           digits_model_of(o->model)->name, o->epochs, o->batch, o->lr, (unsigned long long)o->seed, o->threads);
    printf(" \"loss\": %.6f, \"train_accuracy\": %.6f, \"test_accuracy\": %.6f, \"images_per_second\": %.0f,\n",
           r->loss, r->accuracy, r->test_accuracy, r->images_per_second);
    printf(" \"data_seconds\": %.6f, \"train_seconds\": %.6f, \"compile_seconds\": %.6f, \"run_seconds\": %.6f,\n",
           d->seconds, r->train_seconds, r->stats.compile_seconds, r->stats.run_seconds);
    printf(
        " \"kernels\": %llu, \"kernels_loaded\": %llu, \"kernels_per_step\": %d, \"kernels_run\": %llu,"
        " \"flops\": %llu,\n",
        (unsigned long long)(r->stats.kernels_compiled + r->stats.kernels_loaded),
        (unsigned long long)r->stats.kernels_loaded, r->step_kernels, (unsigned long long)r->stats.kernels_run,
        (unsigned long long)r->stats.flops);
    printf(" \"flops_per_second\": %.0f, \"peak_flops_per_second\": %.0f, \"peak_isa\": \"%s\",\n",
           (double)r->stats.flops / fmax(r->stats.run_seconds, 1e-9), peak, isa);
    printf(" \"peak_memory\": %llu,\n", (unsigned long long)kn_peak_memory());
    printf(" \"confusion\": [");
    for (int i = 0; i < DIGITS_CLASSES; i++) {
        printf("%s[", i ? ", " : "");
        for (int k = 0; k < DIGITS_CLASSES; k++) printf("%s%lld", k ? ", " : "", (long long)r->confusion[i][k]);
        putchar(']');
    }
    printf("]}\n");
}

static void demo_costs(const digits_palette *p, const digits_options *o, const digits_result *r, double peak,
                       const char *isa) {
    const kn_stats *s = &r->stats;
    char            runs[32];
    double          rate = (double)s->flops / fmax(s->run_seconds, 1e-9);
    printf("%skernels%s    %llu compiled, ", p->dim, p->off, (unsigned long long)s->kernels_compiled);
    if (s->kernels_loaded) printf("%llu from the cache, ", (unsigned long long)s->kernels_loaded);
    printf("%d a training step, %s runs\n", r->step_kernels, demo_count(runs, (double)s->kernels_run));
    printf("%stime%s       %.2f s compiling, %.2f s in kernels\n", p->dim, p->off, s->compile_seconds, s->run_seconds);
    printf("%sspeed%s      %.1f GFLOP/s: %.0f %% of the %.0f that %d thread%s of this machine reach%s with %s "
           "multiply-adds, measured just now\n", p->dim, p->off, rate * 1e-9, 100 * rate / fmax(peak, 1), peak * 1e-9,
           o->threads, o->threads == 1 ? "" : "s", o->threads == 1 ? "es" : "", isa);
    printf("%smemory%s     %.0f MiB at most, %.1f of it tensors\n", p->dim, p->off,
           (double)kn_peak_memory() / 1048576, (double)s->buffer_peak / 1048576);
}

static void demo_report(const demo_view *v, const digits_data *d, const digits_options *o, const digits_result *r,
                        double peak, const char *isa) {
    const digits_palette *p = &v->color;
    char                  all[32], wrong[32];
    int64_t               misread = d->test.n;
    for (int i = 0; i < DIGITS_CLASSES; i++) misread -= r->confusion[i][i];
    printf("\n%stest%s  %s%.2f %%%s of %s digits it never saw read right, %s misread\n\n", p->bold, p->off, p->good,
           100 * r->test_accuracy, p->off, demo_count(all, (double)d->test.n), demo_count(wrong, (double)misread));
    digits_print_confusion(stdout, p, r);
    if (misread) {
        putchar('\n');
        digits_print_misread(stdout, p, d, r, v->columns);
    }
    putchar('\n');
    kn_fault f = {0};
    if (r->program && digits_print_journey(stdout, p, digits_model_of(o->model)->first, r->program, &f)) putchar('\n');
    demo_costs(p, o, r, peak, isa);
    printf("\n%snext%s  koine demo digits --epochs 10 --seed %llu\n      koine demo digits --json --threads 1\n"
           "      KOINE_DUMP=render:kernels.c koine demo digits --epochs 1\n",
           p->bold, p->off, (unsigned long long)o->seed + 1);
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

/* The option as a number within lo..hi into *out, which it leaves alone when the option is not given. */
static bool demo_number(cli *c, const char *name, double lo, double hi, bool whole, double *out) {
    const char *text = cli_value(c, name, 0);
    char       *end;
    if (!text) return true;
    double v = kn_text_double(text, &end);
    if (end == text || *end || !(v >= lo && v <= hi) || (whole && v != floor(v)))
        return kn_fail(&c->fault, KN_ERR_ARG, "--%s %s: takes %s from %.16g to %.16g", name, text,
                       whole ? "a whole number" : "a number", lo, hi);
    *out = v;
    return true;
}

static bool demo_options(cli *c, digits_options *o) {
    double      epochs = 5, batch = 128, lr = 0.003, seed = 1, threads = kr_threads(0);
    const char *model = cli_value(c, "model", 0);
    if (c->nargs != 1 || strcmp(c->args[0], "digits") != 0)
        return kn_fail(&c->fault, KN_ERR_ARG, "which? there is one demo, \"koine demo digits\"");
    int kind;
    for (kind = 0; model && kind < DIGITS_MODELS && strcmp(model, digits_model_of(kind)->name) != 0;) kind++;
    if (kind == DIGITS_MODELS)
        return kn_fail(&c->fault, KN_ERR_ARG, "--model %s: there are mlp and conv", model);
    if (kind == DIGITS_CONV) batch = 64;
    if (!demo_number(c, "epochs", 1, 1000, true, &epochs) || !demo_number(c, "batch", 1, 65536, true, &batch) ||
        !demo_number(c, "lr", 1e-8, 10, false, &lr) || !demo_number(c, "seed", 0, 0x1p53, true, &seed) ||
        !demo_number(c, "threads", 1, 1024, true, &threads))
        return false;
    *o = (digits_options){.model = kind,
                          .epochs = (int)epochs,
                          .batch = (int)batch,
                          .lr = lr,
                          .seed = (uint64_t)seed,
                          .threads = (int)threads,
                          .target = cli_value(c, "target", 0),
                          .step = demo_step,
                          .epoch = demo_epoch};
    return true;
}

static demo_view demo_look(bool json, int epochs) {
    demo_view      v = {.json = json, .epochs = epochs, .live = json ? stderr : stdout};
    const char    *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    struct winsize w;
    bool           able = term && *term && strcmp(term, "dumb") != 0;
    v.tty = isatty(fileno(v.live)) && able;
    v.columns = ioctl(fileno(v.live), TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 120;
    if (v.tty && !(plain && *plain))
        v.color = (digits_palette){"\033[2m", "\033[1m", "\033[32m", "\033[31m", "\033[0m"};
    else
        v.color = (digits_palette){"", "", "", "", ""};
    return v;
}

static bool demo_run(const char *folder, const digits_options *o, const demo_view *v, kn_fault *f) {
    const digits_palette *p = &v->color;
    digits_data           d;
    digits_result         r;
    const char           *isa = "";
    char                  train[32], test[32];
    if (!digits_load(folder, o->seed, &d, f)) return false;
    fprintf(v->live, "%sdigits%s  %s, Adam (lr %g), batch %d, %d thread%s, seed %llu\n", p->bold, p->off,
            digits_model_of(o->model)->title, o->lr, o->batch, o->threads, o->threads == 1 ? "" : "s",
            (unsigned long long)o->seed);
    fprintf(v->live, "%s for training, %s for the test, ", demo_count(train, (double)d.train.n),
            demo_count(test, (double)d.test.n));
    if (d.drawn)
        fprintf(v->live, "drawn here in %.1f s (%s)\n\n", d.seconds, d.source);
    else
        fprintf(v->live, "from %s\n\n", d.source);
    fflush(v->live);
    bool ok = digits_train(&d, o, &r, f);
    if (ok) {
        double peak = digits_peak(o->threads, &isa, f);
        ok = peak > 0;
        if (ok && v->json)
            demo_json(&d, o, &r, peak, isa);
        else if (ok)
            demo_report(v, &d, o, &r, peak, isa);
        digits_result_free(&d, &r);
    } else if (v->tty) {
        fputs("\r\033[K", v->live);
    }
    digits_free(&d);
    return ok;
}

int cli_run_demo(cli *c) {
    digits_options o;
    if (!demo_options(c, &o)) return cli_usage(c, "%s", c->fault.text);
    demo_view v = demo_look(cli_switch(c, "json"), o.epochs);
    o.user = &v;
    return demo_run(cli_value(c, "data", 0), &o, &v, &c->fault) ? 0 : cli_fail(c);
}
