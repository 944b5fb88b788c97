/* os.c - what the operating system knows and does: time, CPUs, files, child processes.
 *
 * Contract: base.h. Descriptors are close-on-exec; nothing is printed; no signal handler is installed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#include <sys/mman.h>
#endif

double kn_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

size_t kn_peak_memory(void) {
    struct rusage r;
    if (getrusage(RUSAGE_SELF, &r) != 0) return 0;
#ifdef __APPLE__
    return (size_t)r.ru_maxrss;
#else
    return (size_t)r.ru_maxrss * 1024;
#endif
}

void kn_advise_large_pages(void *p, size_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    size_t before = (size_t)(-(uintptr_t)p & (KN_LARGE_PAGE - 1));
    if (before >= size) return;
    size_t whole = (size - before) / KN_LARGE_PAGE * KN_LARGE_PAGE;
    int    no    = errno;
    if (whole) madvise((char *)p + before, whole, MADV_HUGEPAGE);
    errno = no;
#else
    (void)p;
    (void)size;
#endif
}

/* ---- CPUs ---------------------------------------------------------------------------------------------------- */

#ifdef __linux__
/* The start of a small file, 0-terminated; false if there is none. No allocation: called before there is a context. */
static bool os_read_small(const char *path, char *out, size_t cap) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t  len = 0;
    ssize_t got;
    while (len < cap - 1 && (got = read(fd, out + len, cap - 1 - len)) != 0) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) break;
        len += (size_t)got;
    }
    close(fd);
    out[len] = 0;
    return true;
}

/* The quota at one folder of a hierarchy, in whole CPUs rounded up; 0: none. */
static int64_t os_quota_at(const char *dir, bool v2) {
    char      path[1200], text[128], period_text[64];
    long long quota = 0, period = 0;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", dir);
        if (!os_read_small(path, text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2) return 0;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
        if (!os_read_small(path, text, sizeof text)) return 0;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        if (!os_read_small(path, period_text, sizeof period_text)) return 0;
        quota  = strtoll(text, NULL, 10);
        period = strtoll(period_text, NULL, 10);
    }
    if (quota <= 0 || period <= 0) return 0;
    return quota / period + (quota % period != 0);
}

/* The tightest quota from dir/sub up to dir itself; a limit holds for all below it. In a container the path that
 * /proc names may not exist under the mount: then what counts is at its root. */
static int64_t os_quota_up(const char *dir, const char *sub, bool v2) {
    char path[1024];
    int  base = snprintf(path, sizeof path, "%s", dir);
    int  len  = snprintf(path, sizeof path, "%s%s", dir, sub);
    if (base < 0 || len < 0 || len >= (int)sizeof path) return 0;
    int64_t best = 0;
    for (;;) {
        int64_t q = os_quota_at(path, v2);
        if (q > 0 && (best == 0 || q < best)) best = q;
        char *slash = strrchr(path + base, '/');
        if (!slash) return best;
        *slash = 0;
    }
}

int kn_quota_cpus(const char *proc_cgroup, const char *root) {
    char text[4096];
    if (!os_read_small(proc_cgroup, text, sizeof text)) return 0;
    int64_t best = 0;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        /* hierarchy-id:controllers:path */
        char *controllers = strchr(line, ':');
        char *sub         = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!sub) continue;
        *sub++ = 0;
        controllers++;
        int64_t q = 0;
        if (!*controllers) {
            q = os_quota_up(root, sub, true);
        } else {
            for (char *c = controllers; c; c = strchr(c, ',') ? strchr(c, ',') + 1 : NULL) {
                if (strncmp(c, "cpu", 3) != 0 || (c[3] && c[3] != ',')) continue;
                char dir[512];
                snprintf(dir, sizeof dir, "%s/cpu", root);
                q = os_quota_up(dir, sub, false);
            }
        }
        if (q > 0 && (best == 0 || q < best)) best = q;
    }
    return (int)KN_MIN(best, 1 << 20);
}
#else
int kn_quota_cpus(const char *proc_cgroup, const char *root) {
    (void)proc_cgroup;
    (void)root;
    return 0;
}
#endif

int kn_cpu_count(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
#ifdef __linux__
    enum { WORDS = 8192 / (8 * sizeof(cpu_set_t)) + 1 }; /* room for 8192 CPUs */
    cpu_set_t set[WORDS];
    memset(set, 0, sizeof set);
    if (sched_getaffinity(0, sizeof set, set) == 0) n = CPU_COUNT_S(sizeof set, set);
    int quota = kn_quota_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota > 0 && quota < n) n = quota;
#endif
    return (int)KN_MAX(1, KN_MIN(n, 1 << 16));
}

/* ---- files --------------------------------------------------------------------------------------------------- */

static bool os_fail(kn_fault *f, const char *path, const char *what) {
    return kn_fail(f, KN_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

bool kn_read_file(const kn_alloc *a, const char *path, char **data, size_t *size, kn_fault *f) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return os_fail(f, path, "cannot open");
    struct stat st;
    char       *buf = NULL;
    size_t      cap = 0, len = 0;
    bool        ok  = false;
    if (fstat(fd, &st) != 0) {
        os_fail(f, path, "cannot read");
        goto done;
    }
    if (S_ISDIR(st.st_mode)) {
        kn_fail(f, KN_ERR_IO, "%s: is a folder: name a file", path);
        goto done;
    }
    /* st_size is a hint only: pipes and /proc have 0. One byte more than the size meets the end at once. */
    size_t first = st.st_size > 0 && (uint64_t)st.st_size < PTRDIFF_MAX - 2 ? (size_t)st.st_size + 2 : 4096;
    for (;;) {
        size_t need = len == 0 && cap == 0 ? first : len + 2;
        if (!KN_GROW(a, buf, cap, need)) {
            kn_oom(f);
            goto done;
        }
        ssize_t got = read(fd, buf + len, KN_MIN(cap - len - 1, (size_t)1 << 30));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            os_fail(f, path, "cannot read");
            goto done;
        }
        if (got == 0) break;
        len += (size_t)got;
    }
    /* The caller frees *size + 1 bytes, so the block is cut to that. */
    char *cut = kn_realloc(a, buf, cap, len + 1);
    if (!cut) {
        kn_oom(f);
        goto done;
    }
    cut[len] = 0;
    *data    = cut;
    *size    = len;
    buf      = NULL;
    ok       = true;
done:
    kn_free(a, buf, cap);
    close(fd);
    return ok;
}

static bool os_write_all(int fd, const char *p, size_t size) {
    while (size) {
        ssize_t n = write(fd, p, KN_MIN(size, (size_t)1 << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

/* What is there and no regular file, a device or a pipe, is written into: renamed over, it would be gone. */
static bool os_write_into(const char *path, const void *data, size_t size, kn_fault *f) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return os_fail(f, path, "cannot open");
    bool ok = os_write_all(fd, data, size);
    if (!ok) os_fail(f, path, "cannot write");
    if (close(fd) != 0 && ok) ok = os_fail(f, path, "cannot write");
    return ok;
}

bool kn_write_file(const char *path, const void *data, size_t size, int mode, kn_fault *f) {
    char        tmp[4096], target[PATH_MAX];
    int         fd = -1;
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return os_write_into(path, data, size, f);
    if (realpath(path, target)) path = target; /* a link stays one */
    for (int attempt = 0; attempt < 100; attempt++) {
        int n = snprintf(tmp, sizeof tmp, "%s.%ld.%lld.%d.tmp", path, (long)getpid(), (long long)(kn_now() * 1e9),
                         attempt);
        if (n < 0 || n >= (int)sizeof tmp) return kn_fail(f, KN_ERR_IO, "%.100s...: the path is too long", path);
        fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
        if (fd >= 0 || errno != EEXIST) break;
    }
    if (fd < 0) return os_fail(f, path, "cannot create");
    if (!os_write_all(fd, data, size) || fsync(fd) != 0) {
        os_fail(f, path, "cannot write");
        close(fd);
        unlink(tmp);
        return false;
    }
    if (close(fd) != 0 || rename(tmp, path) != 0) {
        os_fail(f, path, "cannot write");
        unlink(tmp);
        return false;
    }
    return true;
}

bool kn_make_private_dir(const char *path, kn_fault *f) {
    char   buf[4096];
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') len--;
    if (len == 0 || len >= sizeof buf) return kn_fail(f, KN_ERR_IO, "%.100s: not a folder's name", path);
    memcpy(buf, path, len);
    buf[len] = 0;
    for (size_t i = 1; i < len; i++) {
        if (buf[i] != '/') continue;
        buf[i] = 0;
        if (mkdir(buf, 0777) != 0 && errno != EEXIST) return os_fail(f, buf, "cannot create the folder");
        buf[i] = '/';
    }
    if (mkdir(buf, 0700) != 0 && errno != EEXIST) return os_fail(f, buf, "cannot create the folder");
    /* A link that another user made could be pointed elsewhere after this check: the link must be ours as well. */
    struct stat st;
    if (lstat(buf, &st) != 0) return os_fail(f, buf, "cannot look at the folder");
    if (S_ISLNK(st.st_mode) && st.st_uid == geteuid() && stat(buf, &st) != 0)
        return os_fail(f, buf, "cannot look at the folder");
    if (!S_ISDIR(st.st_mode)) return kn_fail(f, KN_ERR_IO, "%s: not a folder", buf);
    if (st.st_uid != geteuid())
        return kn_fail(f, KN_ERR_IO, "%s: belongs to another user: name a folder of yours", buf);
    if (st.st_mode & 022)
        return kn_fail(f, KN_ERR_IO, "%s: others can write there: run chmod 700, or name another folder", buf);
    return true;
}

/* ---- child processes ----------------------------------------------------------------------------------------- */

extern char **environ;

/* A temporary file without a name. */
static int os_temp_fd(void) {
#ifdef MFD_CLOEXEC
    int m = memfd_create("koine-stderr", MFD_CLOEXEC);
    if (m >= 0) return m;
#endif
    const char *dir = getenv("TMPDIR");
    char        path[1024];
    int         n = snprintf(path, sizeof path, "%s/koine-XXXXXX", dir && *dir ? dir : "/tmp");
    if (n < 0 || n >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    unlink(path);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

bool kn_spawn(const char *const *argv, kn_job *job, kn_fault *f) {
    *job   = (kn_job){.pid = -1, .err_fd = -1};
    int fd = os_temp_fd();
    if (fd < 0) return kn_fail(f, KN_ERR_IO, "%s: no temporary file for its messages: %s", argv[0], strerror(errno));
    posix_spawn_file_actions_t act;
    posix_spawnattr_t          attr;
    int                        e = posix_spawn_file_actions_init(&act);
    if (e) {
        close(fd);
        return kn_fail(f, KN_ERR_IO, "%s: cannot start: %s", argv[0], strerror(e));
    }
    e = posix_spawnattr_init(&attr);
    if (e) {
        posix_spawn_file_actions_destroy(&act);
        close(fd);
        return kn_fail(f, KN_ERR_IO, "%s: cannot start: %s", argv[0], strerror(e));
    }
    /* The descriptor goes to 2 first: where the host has closed 0 or 1, it may be one of those. */
    e = posix_spawn_file_actions_adddup2(&act, fd, 2);
    if (!e) e = posix_spawn_file_actions_addopen(&act, 0, "/dev/null", O_RDONLY, 0);
    if (!e) e = posix_spawn_file_actions_addopen(&act, 1, "/dev/null", O_WRONLY, 0);
    sigset_t none;
    sigemptyset(&none);
    if (!e) e = posix_spawnattr_setsigmask(&attr, &none);
    if (!e) e = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = -1;
    if (!e) {
        union {
            const char *const *in;
            char *const       *out;
        } args = {.in = argv}; /* posix_spawn takes char *const[] but does not write through it */
        e      = posix_spawnp(&pid, argv[0], &act, &attr, args.out, environ);
    }
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&act);
    if (e) {
        close(fd);
        return kn_fail(f, KN_ERR_IO, "%s: cannot start: %s", argv[0], strerror(e));
    }
    *job = (kn_job){.pid = (long)pid, .err_fd = fd};
    return true;
}

bool kn_wait(kn_job *job, int *exit_code, char *err, size_t cap, kn_fault *f) {
    int   status = 0;
    pid_t got;
    do got = waitpid((pid_t)job->pid, &status, 0);
    while (got < 0 && errno == EINTR);
    int    wait_errno = errno;
    size_t len        = 0;
    while (len + 1 < cap) {
        ssize_t n = pread(job->err_fd, err + len, cap - 1 - len, (off_t)len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        len += (size_t)n;
    }
    if (cap) err[len] = 0;
    close(job->err_fd);
    *job = (kn_job){.pid = -1, .err_fd = -1};
    if (got < 0) return kn_fail(f, KN_ERR_IO, "cannot wait for a child process: %s", strerror(wait_errno));
    *exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 255;
    return true;
}
