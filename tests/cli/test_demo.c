/* test_demo.c - `koine demo digits` from outside: what it refuses, and that it learns. */
#define _GNU_SOURCE
#include "base/base.h"
#include "check.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND KN_TEST_BUILD "/koine"

static char folder[] = "demo-XXXXXX";

/* Runs the command; its stdout and stderr together into text. The exit code. */
static int run(const char *args, char *text, size_t room) {
    char line[700];
    snprintf(line, sizeof(line), "KOINE_DATA= %s demo %s 2>&1", COMMAND, args);
    FILE *p = popen(line, "r");
    if (!p) return -1;
    size_t n = fread(text, 1, room - 1, p);
    text[n] = 0;
    for (char more[512]; fread(more, 1, sizeof(more), p) > 0;) continue;
    int status = pclose(p);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static double field(const char *text, const char *name) {
    char key[64];
    snprintf(key, sizeof(key), "\"%s\": ", name);
    const char *at = strstr(text, key);
    return at ? kn_text_double(at + strlen(key), NULL) : -1;
}

static void put(const char *name, uint8_t kind, const uint32_t *dims, int rank, const uint8_t *data, size_t size) {
    char     path[200];
    uint8_t *file = calloc(1, 4 + 4 * (size_t)rank + size);
    kn_fault f = {0};
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file[2] = kind;
    file[3] = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < 4; k++) file[4 + 4 * i + k] = (uint8_t)(dims[i] >> (24 - 8 * k));
    if (size) memcpy(file + 4 + 4 * rank, data, size);
    CHECK(kn_write_file(path, file, 4 + 4 * (size_t)rank + size, 0600, &f));
    free(file);
}

/* n images, each a bar whose place says its class. */
static void put_set(const char *kind, uint32_t n, uint32_t side, uint8_t label_shift) {
    uint8_t *image = calloc((size_t)n * side, side), *label = malloc(n);
    char     name[64];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = i * 7 % 10;
        label[i] = (uint8_t)(c + label_shift);
        for (uint32_t y = 0; y < side; y++) image[((size_t)i * side + y) * side + 2 * c + (i + y) % 3] = 255;
    }
    snprintf(name, sizeof(name), "%s-images-idx3-ubyte", kind);
    put(name, 8, (uint32_t[]){n, side, side}, 3, image, (size_t)n * side * side);
    snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", kind);
    put(name, 8, &n, 1, label, n);
    free(image);
    free(label);
}

static void put_all(void) {
    put_set("train", 330, 28, 0);
    put_set("t10k", 70, 28, 0);
}

/* The command says `say`, has said nothing of a test and ended with 1. */
static void refuses(const char *say) {
    char args[200], text[4000];
    snprintf(args, sizeof(args), "digits --epochs 1 --data %s", folder);
    CHECK_EQ(run(args, text, sizeof(text)), 1);
    if (!CHECK(strstr(text, say))) printf("  it said: %s\n", text);
    CHECK(!strstr(text, "epoch") && !strstr(text, "test  "));
}

static void test_usage(void) {
    static const char *const bad[] = {"digits --epochs 0", "digits --epochs x",  "digits --lr -1",   "digits --batch",
                                      "digits --frob 3",   "digits --model cnn", "letters",          "",
                                      "digits --seed -1",  "digits --lr nan",    "digits --batch=1.5"};
    char text[4000];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) CHECK_EQ(run(bad[i], text, sizeof(text)), 2);
    CHECK_EQ(run("digits --help", text, sizeof(text)), 0);
    CHECK(strstr(text, "--epochs"));
}

static void test_bad_data(void) {
    uint32_t three = 3;
    char     text[4000], path[200];
    CHECK_EQ(run("digits --data no-such-folder", text, sizeof(text)), 1);
    CHECK(strstr(text, "train-images-idx3-ubyte"));
    put_set("train", 330, 28, 0);
    refuses("no t10k-images-idx3-ubyte");
    put_set("t10k", 70, 27, 0);
    refuses("27x27");
    put_set("t10k", 70, 28, 3);
    refuses("labels are 0 to 9");
    put_set("t10k", 70, 28, 0);
    put("t10k-labels-idx1-ubyte", 8, &three, 1, (const uint8_t *)"\1\2\3", 3);
    refuses("70 images");
    put("t10k-labels-idx1-ubyte", 8, &three, 1, (const uint8_t *)"\1\2", 2);
    refuses("truncated");
    put("t10k-labels-idx1-ubyte", 7, &three, 1, (const uint8_t *)"\1\2\3", 3);
    refuses("not an idx file");
    put_all();
    snprintf(path, sizeof(path), "%s/t10k-images-idx3-ubyte", folder);
    CHECK(truncate(path, 1000) == 0);
    refuses("truncated");
}

static void test_files(void) {
    char args[300], text[8000];
    put_all();
    snprintf(args, sizeof(args), "digits --data %s --epochs 8 --batch 32 --json", folder);
    CHECK_EQ(run(args, text, sizeof(text)), 0);
    CHECK(strstr(text, "\"drawn\": false"));
    CHECK_EQ(field(text, "train_images"), 330);
    if (!CHECK(field(text, "test_accuracy") > 0.9)) printf("  it said: %s\n", text);
    snprintf(args, sizeof(args), "digits --model conv --data %s --epochs 6 --batch 32", folder);
    CHECK_EQ(run(args, text, sizeof(text)), 0);
    CHECK(strstr(text, "conv 16 3x3") && strstr(text, "kn_relu(kn_conv2d(x, w1, b1))"));
    snprintf(args, sizeof(args), "digits --model conv --data %s --epochs 6 --batch 32 --json", folder);
    CHECK_EQ(run(args, text, sizeof(text)), 0);
    CHECK(strstr(text, "\"model\": \"conv\""));
    if (!CHECK(field(text, "test_accuracy") > 0.9)) printf("  it said: %s\n", text);
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"train-images-idx3", "train-labels-idx1", "t10k-images-idx3",
                                            "t10k-labels-idx1"};
        snprintf(args, sizeof(args), "%s/%s-ubyte", folder, names[i]);
        remove(args);
    }
}

static void test_learns(void) {
    static char text[40000];
    CHECK_EQ(run("digits --json", text, sizeof(text)), 0);
    CHECK(strstr(text, "\"drawn\": true"));
    if (!CHECK(field(text, "test_accuracy") > 0.95)) printf("  it said: %s\n", text);
    CHECK(field(text, "kernels") >= 1);
    CHECK(field(text, "peak_flops_per_second") > 1e9);
}

static void test_report(void) {
    static char text[40000];
    CHECK_EQ(run("digits --epochs 1 --seed 4 --threads 1", text, sizeof(text)), 0);
    static const char *const parts[] = {"drawn here", "epoch  1/1", "loss", "images/s", "test  ", "read as:", ", is ",
                                        "kn_relu(kn_add(kn_matmul(x, w1), b1))", "kernels", "compiling", "GFLOP/s",
                                        "memory", "next"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) CHECK(strstr(text, parts[i]));
    CHECK(!strchr(text, '\033') && !strchr(text, '\r'));
}

static void test_repeats(void) {
    char one[8000], two[8000];
    CHECK_EQ(run("digits --epochs 1 --seed 9 --json", one, sizeof(one)), 0);
    CHECK_EQ(run("digits --epochs 1 --seed 9 --json", two, sizeof(two)), 0);
    CHECK(field(one, "loss") == field(two, "loss"));
    CHECK(field(one, "test_accuracy") == field(two, "test_accuracy"));
}

int main(void) {
    if (access(COMMAND, X_OK) != 0) SKIP("the koine command was not built");
    if (!mkdtemp(folder)) SKIP("no temporary folder");
    RUN(test_usage);
    RUN(test_bad_data);
    RUN(test_files);
    RUN(test_learns);
    RUN(test_report);
    RUN(test_repeats);
    rmdir(folder);
    return check_result();
}
