/* digits_data.c - the images of the demo: four idx files of a folder, or digits drawn here. */
#include "digits.h"

#include "format/idx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DATA_DRAWN_TRAIN = 12000, DATA_DRAWN_TEST = 2000 };

/* The names as published, and as some archives unpack them; each plain or .gz. */
static const char *const data_names[2][2][2] = {
    {{"train-images-idx3-ubyte", "train-images.idx3-ubyte"}, {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"}},
    {{"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"}, {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"}},
};

static bool data_is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The file of a folder under any of its names into path; false where there is none. */
static bool data_find(const char *folder, const char *const names[2], char *path, size_t room) {
    static const char *const ends[2] = {"", ".gz"};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            int n = snprintf(path, room, "%s/%s%s", folder, names[i], ends[k]);
            if (n > 0 && (size_t)n < room && data_is_file(path)) return true;
        }
    }
    return false;
}

static bool data_check(const kn_idx *x, const kn_idx *t, const char *xpath, const char *tpath, kn_fault *f) {
    if (x->dtype != KN_U8 || x->rank != 3)
        return kn_fail(f, KN_ERR_FORMAT, "%s: %s of rank %d: images are u8 of rank 3", xpath, kn_dtype_name(x->dtype),
                       x->rank);
    if (x->dims[1] != DIGITS_SIDE || x->dims[2] != DIGITS_SIDE)
        return kn_fail(f, KN_ERR_SHAPE, "%s: images of %lldx%lld: the demo takes %dx%d", xpath, (long long)x->dims[1],
                       (long long)x->dims[2], DIGITS_SIDE, DIGITS_SIDE);
    if (t->dtype != KN_U8 || t->rank != 1)
        return kn_fail(f, KN_ERR_FORMAT, "%s: %s of rank %d: labels are u8 of rank 1", tpath, kn_dtype_name(t->dtype),
                       t->rank);
    if (x->dims[0] != t->dims[0])
        return kn_fail(f, KN_ERR_FORMAT, "%s holds %lld images, %s %lld labels: they belong to different sets", xpath,
                       (long long)x->dims[0], tpath, (long long)t->dims[0]);
    if (x->dims[0] == 0) return kn_fail(f, KN_ERR_FORMAT, "%s: holds no image", xpath);
    const uint8_t *label = t->data;
    for (int64_t i = 0; i < t->count; i++) {
        if (label[i] >= DIGITS_CLASSES)
            return kn_fail(f, KN_ERR_FORMAT, "%s: label %lld is %d: labels are 0 to 9", tpath, (long long)i, label[i]);
    }
    return true;
}

static bool data_read_set(const char *folder, int which, digits_set *s, kn_fault *f) {
    char   xpath[512], tpath[512];
    kn_idx x, t;
    char *const path[2] = {xpath, tpath};
    for (int i = 0; i < 2; i++) {
        if (!data_find(folder, data_names[which][i], path[i], sizeof(xpath)))
            return kn_fail(f, KN_ERR_IO, "%s: no %s (nor .gz): the four MNIST files go there; without --data the demo "
                           "draws digits itself", folder, data_names[which][i][0]);
    }
    if (!kn_idx_read(NULL, xpath, &x, f)) return false;
    bool ok = kn_idx_read(NULL, tpath, &t, f);
    if (ok && data_check(&x, &t, xpath, tpath, f)) {
        *s = (digits_set){.n = x.dims[0], .images = x.data, .labels = t.data};
        return true;
    }
    if (ok) kn_idx_free(&t);
    kn_idx_free(&x);
    return false;
}

static bool data_draw_set(digits_rng *r, int64_t n, digits_set *s, kn_fault *f) {
    s->images = kn_realloc(NULL, NULL, 0, (size_t)n * DIGITS_PIXELS);
    s->labels = kn_realloc(NULL, NULL, 0, (size_t)n);
    s->n = n;
    if (!s->images || !s->labels) return kn_oom(f);
    for (int64_t i = 0; i < n; i++) {
        s->labels[i] = (uint8_t)digits_rng_below(r, DIGITS_CLASSES);
        digits_draw(r, s->labels[i], s->images + i * DIGITS_PIXELS);
    }
    return true;
}

/* Has the folder all four files, in a form that this build reads? */
static bool data_complete(const char *folder) {
    char path[512];
    for (int i = 0; i < 4; i++) {
        if (!data_find(folder, data_names[i / 2][i % 2], path, sizeof(path))) return false;
        size_t n = strlen(path);
        if (!kn_idx_reads_gzip() && n > 3 && strcmp(path + n - 3, ".gz") == 0) return false;
    }
    return true;
}

bool digits_load(const char *folder, uint64_t seed, digits_data *d, kn_fault *f) {
    double start = kn_now();
    char   path[400];
    *d = (digits_data){0};
    bool ok;
    if (!folder) {
        const char *env = getenv("KOINE_DATA");
        if (!env || !*env) {
            snprintf(d->source, sizeof(d->source), "no --data DIR and no KOINE_DATA");
        } else if (snprintf(path, sizeof(path), "%s/mnist", env) < (int)sizeof(path) && data_complete(path)) {
            folder = path;
        } else {
            snprintf(d->source, sizeof(d->source), "no idx files%s in $KOINE_DATA/mnist",
                     kn_idx_reads_gzip() ? "" : " that this build reads (it has no zlib for .gz)");
        }
    }
    if (folder) {
        int n = snprintf(d->source, sizeof(d->source), "%s", folder);
        if (n < 0 || (size_t)n >= sizeof(d->source)) return kn_fail(f, KN_ERR_ARG, "%.80s...: too long a path", folder);
        ok = data_read_set(folder, 0, &d->train, f) && data_read_set(folder, 1, &d->test, f);
    } else {
        digits_rng r = digits_rng_seed(seed);
        d->drawn = true;
        ok = data_draw_set(&r, DATA_DRAWN_TRAIN, &d->train, f) && data_draw_set(&r, DATA_DRAWN_TEST, &d->test, f);
    }
    d->seconds = kn_now() - start;
    if (!ok) digits_free(d);
    return ok;
}

static void data_free_set(digits_set *s) {
    kn_free(NULL, s->images, (size_t)s->n * DIGITS_PIXELS);
    kn_free(NULL, s->labels, (size_t)s->n);
    *s = (digits_set){0};
}

void digits_free(digits_data *d) {
    data_free_set(&d->train);
    data_free_set(&d->test);
}
