/* Files, folders, CPUs and child processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"
#include "check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static const char *in_dir(const char *name) {
    static char path[4][160];
    static int  k;
    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/%s", dir, name);
    return path[k];
}

static void put(const char *name, const char *text) {
    kn_fault f = {0};
    if (!CHECK(kn_write_file(in_dir(name), text, strlen(text), 0644, &f))) fprintf(stderr, "%s\n", f.text);
}

static void test_files(void) {
    kn_fault f    = {0};
    char    *data = NULL;
    size_t   size = 99;
    put("a", "hello");
    CHECK(kn_read_file(NULL, in_dir("a"), &data, &size, &f) && size == 5);
    CHECK_STR(data, "hello");
    kn_free(NULL, data, size + 1);
    put("a", "");
    CHECK(kn_read_file(NULL, in_dir("a"), &data, &size, &f) && size == 0 && data[0] == 0);
    kn_free(NULL, data, size + 1);
    enum { BIG = 300000 };
    char *big = malloc(BIG);
    if (!CHECK(big)) return;
    for (int i = 0; i < BIG; i++) big[i] = (char)(i * 7);
    CHECK(kn_write_file(in_dir("big"), big, BIG, 0600, &f));
    CHECK(kn_read_file(NULL, in_dir("big"), &data, &size, &f) && size == BIG && memcmp(data, big, BIG) == 0);
    kn_free(NULL, data, size + 1);
    free(big);
    struct stat st;
    CHECK(stat(in_dir("big"), &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(!kn_read_file(NULL, in_dir("none"), &data, &size, &f) && f.code == KN_ERR_IO && strstr(f.text, "none"));
    f = (kn_fault){0};
    CHECK(!kn_read_file(NULL, dir, &data, &size, &f) && strstr(f.text, "folder"));
    f = (kn_fault){0};
    CHECK(!kn_write_file(in_dir("no/such/folder"), "x", 1, 0600, &f) && f.code == KN_ERR_IO);
    f = (kn_fault){0};
    CHECK(kn_read_file(NULL, "/dev/null", &data, &size, &f) && size == 0);
    kn_free(NULL, data, size + 1);
}

/* What is no regular file stays what it is, and a link stays a link. */
static void test_writes_into(void) {
    kn_fault    f = {0};
    struct stat st;
    char        got[8] = {0};
    if (!CHECK(mkfifo(in_dir("pipe"), 0600) == 0)) return;
    int fd = open(in_dir("pipe"), O_RDWR | O_NONBLOCK);
    if (!CHECK(fd >= 0)) return;
    put("pipe", "hello");
    CHECK(read(fd, got, sizeof got) == 5);
    CHECK_STR(got, "hello");
    close(fd);
    CHECK(stat(in_dir("pipe"), &st) == 0 && S_ISFIFO(st.st_mode));
    CHECK(!kn_write_file(dir, "x", 1, 0600, &f) && f.code == KN_ERR_IO);
    put("behind", "old");
    CHECK(symlink("behind", in_dir("link")) == 0);
    put("link", "longer");
    CHECK(lstat(in_dir("link"), &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(stat(in_dir("behind"), &st) == 0 && st.st_size == 6);
}

static void test_private_dir(void) {
    kn_fault    f = {0};
    struct stat st;
    CHECK(kn_make_private_dir(in_dir("p/q/r/"), &f));
    CHECK(stat(in_dir("p/q/r"), &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700);
    CHECK(kn_make_private_dir(in_dir("p/q/r"), &f));
    chmod(in_dir("p/q/r"), 0777);
    CHECK(!kn_make_private_dir(in_dir("p/q/r"), &f) && f.code == KN_ERR_IO);
    f = (kn_fault){0};
    put("file", "");
    CHECK(!kn_make_private_dir(in_dir("file"), &f));
    f = (kn_fault){0};
    CHECK(!kn_make_private_dir(in_dir("file/x"), &f));
    f = (kn_fault){0};
    CHECK(!kn_make_private_dir("", &f));
}

static void test_cpus(void) {
    int n = kn_cpu_count();
    CHECK(n >= 1 && n <= sysconf(_SC_NPROCESSORS_CONF));
    CHECK(kn_now() > 0 && kn_now() <= kn_now());
    CHECK(kn_peak_memory() > 100000);
#ifdef __linux__
    mkdir(in_dir("cg"), 0700);
    mkdir(in_dir("cg/a"), 0700);
    mkdir(in_dir("cg/a/b"), 0700);
    put("proc", "0::/a/b\n");
    CHECK_EQ(kn_quota_cpus(in_dir("proc"), in_dir("cg")), 0);
    put("cg/a/b/cpu.max", "max 100000\n");
    CHECK_EQ(kn_quota_cpus(in_dir("proc"), in_dir("cg")), 0);
    put("cg/a/cpu.max", "250000 100000\n");
    CHECK_EQ(kn_quota_cpus(in_dir("proc"), in_dir("cg")), 3);
    put("cg/a/b/cpu.max", "50000 100000\n");
    CHECK_EQ(kn_quota_cpus(in_dir("proc"), in_dir("cg")), 1);
    put("proc", "3:cpuset:/\n2:cpu,cpuacct:/jobs\n");
    mkdir(in_dir("cg/cpu"), 0700);
    put("cg/cpu/cpu.cfs_quota_us", "200000\n");
    put("cg/cpu/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(kn_quota_cpus(in_dir("proc"), in_dir("cg")), 2); /* /jobs is outside of this container's mount */
    put("cg/cpu/cpu.cfs_quota_us", "-1\n");
    CHECK_EQ(kn_quota_cpus(in_dir("proc"), in_dir("cg")), 0);
    CHECK_EQ(kn_quota_cpus(in_dir("none"), in_dir("cg")), 0);
#endif
}

static void test_children(void) {
    kn_fault f = {0};
    kn_job   job;
    int      code = -1;
    char     err[16];
    CHECK(kn_spawn((const char *[]){"sh", "-c", "echo out; echo a-long-message >&2; exit 3", NULL}, &job, &f));
    CHECK(kn_wait(&job, &code, err, sizeof err, &f) && code == 3);
    CHECK_STR(err, "a-long-message\n");
    CHECK(kn_spawn((const char *[]){"sh", "-c", "echo 0123456789abcdefghi >&2", NULL}, &job, &f));
    CHECK(kn_wait(&job, &code, err, sizeof err, &f) && code == 0);
    CHECK_STR(err, "0123456789abcde");
    CHECK(kn_spawn((const char *[]){"sh", "-c", "kill -9 $$", NULL}, &job, &f));
    CHECK(kn_wait(&job, &code, NULL, 0, &f) && code == 137);
    CHECK(!kn_spawn((const char *[]){"no-such-program-anywhere", NULL}, &job, &f) && f.code == KN_ERR_IO);
    f = (kn_fault){0};
    /* two at once */
    kn_job two;
    CHECK(kn_spawn((const char *[]){"sh", "-c", "cat; exit 1", NULL}, &job, &f)); /* stdin is empty, so cat ends */
    CHECK(kn_spawn((const char *[]){"sh", "-c", "exit 2", NULL}, &two, &f));
    CHECK(kn_wait(&two, &code, err, sizeof err, &f) && code == 2);
    CHECK(kn_wait(&job, &code, err, sizeof err, &f) && code == 1);
}

int main(void) {
    snprintf(dir, sizeof dir, "os-test-XXXXXX");
    if (!mkdtemp(dir)) return 1;
    RUN(test_files);
    RUN(test_writes_into);
    RUN(test_private_dir);
    RUN(test_cpus);
    RUN(test_children);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK_EQ(system(command), 0);
    return check_result();
}
