/* Every allocation of a small program fails once: the program ends with KN_ERR_MEMORY as a value (or did not need the
 * memory), computes right otherwise, and gives everything back. */
#include "api.h"

typedef struct heap {
    long   count, fail_at; /* the fail_at-th allocation fails; 0: none */
    bool   for_good;       /* and all after it */
    size_t bytes;          /* held */
} heap;

static void *resize(void *user, void *ptr, size_t old_size, size_t new_size) {
    heap *h = user;
    if (new_size) {
        h->count++;
        if (h->fail_at && (h->count == h->fail_at || (h->for_good && h->count > h->fail_at))) return NULL;
    }
    if (!new_size) {
        free(ptr);
        h->bytes -= old_size;
        return NULL;
    }
    void *p = realloc(ptr, new_size);
    if (p) h->bytes += new_size - old_size;
    return p;
}

static bool expect(double got, double want) { return isnan(got) || fabs(got - want) < 1e-5; }

/* The program; true if every number that came out is right. */
static bool program(heap *h, const char *device, bool *finished) {
    kn_config   cfg = {.device = device, .threads = 1, .alloc = resize, .alloc_user = h, .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    *finished       = false;
    if (!kn) return true;
    bool       right = true;
    kn_status  code  = KN_OK;
    kn_tensor *x = F32S(kn, 1, 2, 3, 4), *w = kn_ones(kn, KN_F32, KN_DIMS(2, 2)), *sum = kn_scalar_f32(kn, 0);
    double     truth = 0, at = 1;
    for (int i = 0; i < 2 && code == KN_OK; i++) {
        kn_scope  *s = kn_begin(kn);
        kn_tensor *y = kn_relu(kn_matmul(kn_reshape(x, KN_DIMS(2, 2)), w)), *loss = kn_keep(kn_mean(y));
        kn_tensor *j = kn_cat((kn_tensor *[]){y, y}, 2, 0);
        kn_assign(w, kn_add_s(w, 1));
        kn_assign(sum, kn_add(sum, loss));
        right &= expect(kn_item(kn_sum(j)), 40 * at);
        code = kn_end(s);
        if (code == KN_OK) {
            right &= expect(kn_item(loss), 5 * at);
            truth += 5 * at++;
        }
    }
    code  = code == KN_OK ? kn_error_code(kn) : code;
    right = right && (code != KN_OK || expect(kn_item(sum), truth));
    right = right && expect(kn_item(kn_argmax(x, 0)), 3);
    kn_write(x, (float[]){1, 1, 1, 1}, 16);
    right = right && expect(kn_item(kn_softmax(x, 0)), NAN);
    code  = code == KN_OK ? kn_error_code(kn) : code;
    right &= code == KN_OK || code == KN_ERR_MEMORY || code == KN_ERR_ARG || code == KN_ERR_SHAPE;
    *finished = code == KN_ERR_SHAPE; /* kn_item of four elements: the end was reached */
    if (!right) printf("  %s\n", kn_error(kn));
    kn_close(kn);
    return right;
}

static void failing_allocations(bool for_good) {
    bool finished = false;
    heap h        = {0};
    CHECK(program(&h, "INTERP", &finished) && finished);
    CHECK_EQ(h.bytes, 0);
    long total = h.count, most = KN_SANITIZED ? 800 : 3000, step = total > most ? total / most + 1 : 1;
    for (long n = 1 + for_good * (step / 2); n <= total; n += step) {
        h          = (heap){.fail_at = n, .for_good = for_good};
        bool right = program(&h, "INTERP", &finished);
        if (!CHECK(right) || !CHECK_EQ(h.bytes, 0)) {
            printf("  allocation %ld of %ld\n", n, total);
            return;
        }
    }
    printf("  %ld allocations, every %ld. failed\n", total, step);
}

static void one_allocation_fails(void) { failing_allocations(false); }
static void memory_ends(void) { failing_allocations(true); }

int main(void) {
    RUN(one_allocation_fails);
    RUN(memory_ends);
    return check_result();
}
