/* digits.h - the parts of `koine demo digits`, in the order they are used: images, models, training, report.
 *
 * Contract: digits_model.c and digits_train.c reach tensors through koine.h alone, as a program outside this house
 * would. */
#ifndef KN_CLI_DIGITS_H
#define KN_CLI_DIGITS_H

#include "base/base.h"
#include "koine.h"

enum { DIGITS_SIDE = 28, DIGITS_PIXELS = DIGITS_SIDE * DIGITS_SIDE, DIGITS_CLASSES = 10, DIGITS_HIDDEN = 128 };

/* A small generator for what the host draws (pcg32; O'Neill, 2014): images, shuffles. */
typedef struct digits_rng {
    uint64_t state;
} digits_rng;
digits_rng digits_rng_seed(uint64_t seed);
uint32_t   digits_rng_u32(digits_rng *r);
uint32_t   digits_rng_below(digits_rng *r, uint32_t n); /* 0..n-1, unbiased; n > 0 */
double     digits_rng_unit(digits_rng *r);              /* [0, 1) */
double     digits_rng_normal(digits_rng *r);

/* ---- images (digits_draw.c, digits_data.c) ------------------------------------------------------------------- */

typedef struct digits_set {
    int64_t  n;
    uint8_t *images; /* n * DIGITS_PIXELS; 0 is paper, 255 ink */
    uint8_t *labels; /* n, each 0..9 */
} digits_set;

typedef struct digits_data {
    digits_set train, test;
    bool       drawn;       /* here, not read from files */
    double     seconds;     /* to read or draw */
    char       source[320]; /* the folder; or why digits were drawn */
} digits_data;

/* One handwritten-looking digit into out[DIGITS_PIXELS]. */
void digits_draw(digits_rng *r, int digit, uint8_t *out);
/* `folder` NULL: $KOINE_DATA/mnist where it has the files, else drawn from `seed`. A folder that was named must have
 * them. All or nothing: on failure *d is empty. */
bool digits_load(const char *folder, uint64_t seed, digits_data *d, kn_fault *f);
void digits_free(digits_data *d);

/* ---- models (digits_model.c) ----------------------------------------------------------------------------------- */

enum { DIGITS_MLP, DIGITS_CONV, DIGITS_MODELS };

typedef struct digits_model {
    const char *name;
    const char *title;  /* for the head of the report */
    const char *first;  /* the line that makes its first layer */
} digits_model;
const digits_model *digits_model_of(int model);

typedef struct digits_net {
    int         model, nparam;
    kn_tensor  *param[8];
    kn_tensor  *mean, *var; /* running statistics of the batch normalisation */
} digits_net;
/* Storage of the parameters, then, within a scope, their first values. */
void digits_net_new(digits_net *m, kn_context *kn, int model);
void digits_net_init(digits_net *m, kn_context *kn);
/* x: (N, DIGITS_PIXELS). */
kn_tensor *digits_first(const digits_net *m, kn_tensor *x);
kn_tensor *digits_logits(const digits_net *m, kn_tensor *x, bool training);

/* ---- training (digits_train.c) -------------------------------------------------------------------------------- */

typedef struct digits_options {
    int      model, epochs, batch;
    double   lr;
    uint64_t seed;
    int      threads; /* 0: what the machine gives */
    const char *target; /* kn_config.target */
    /* Called after every step of an epoch: `done` of `total` images, seconds since the epoch began. */
    void (*step)(void *user, int epoch, int64_t done, int64_t total, double seconds);
    /* Called after every epoch. */
    void (*epoch)(void *user, int epoch, double loss, double accuracy, double images_per_second, double seconds);
    void *user;
} digits_options;

typedef struct digits_result {
    double   loss, accuracy; /* of the last epoch, while training */
    double   test_accuracy;
    double   train_seconds;
    double   images_per_second; /* of the best epoch */
    int64_t  confusion[DIGITS_CLASSES][DIGITS_CLASSES]; /* [is][read as] */
    uint8_t *read; /* the test set, as read; test.n bytes */
    int      threads, step_kernels; /* kernels a training step runs */
    kn_stats stats;
    char    *program; /* the first layer in the text form, callified, for free(); NULL: not to be had */
} digits_result;

bool digits_train(const digits_data *d, const digits_options *o, digits_result *r, kn_fault *f);
void digits_result_free(const digits_data *d, digits_result *r);

/* ---- report (digits_report.c, digits_journey.c, digits_peak.c) ------------------------------------------------- */

/* What `threads` threads of this processor can do in f32 multiply-adds, measured for about 50 ms: flop a second, a
 * multiply-add being two. `isa` names the instructions used. */
double digits_peak(int threads, const char **isa, kn_fault *f);

typedef struct digits_palette {
    const char *dim, *bold, *good, *bad, *off;
} digits_palette;

void digits_print_confusion(FILE *out, const digits_palette *p, const digits_result *r);
/* Up to six misread test images side by side, two pixels a character, as many in a row as `columns` hold. */
void digits_print_misread(FILE *out, const digits_palette *p, const digits_data *d, const digits_result *r,
                          int columns);
/* The first layer's kernel from the line of the program to the loop that ran (digits_journey.c). */
bool digits_print_journey(FILE *out, const digits_palette *p, const char *line, const char *program, kn_fault *f);

#endif
