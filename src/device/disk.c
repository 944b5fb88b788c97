/* disk.c - files mapped into memory.
 *
 * Contract: see disk.h. The mapping is shared with the file and outlives its descriptor; pages are read as they are
 * touched. A file that someone else cuts short while it is mapped cannot be read behind its new end (SIGBUS). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "device/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool disk_fail(kn_fault *f, const char *path, const char *what) {
    return kn_fail(f, KN_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

static bool disk_stat(int fd, const char *path, int64_t *size, kn_fault *f) {
    struct stat st;
    if (fstat(fd, &st) != 0) return disk_fail(f, path, "cannot read");
    if (!S_ISREG(st.st_mode)) return kn_fail(f, KN_ERR_IO, "%s: is no regular file: only those can be mapped", path);
    *size = st.st_size;
    return true;
}

bool kd_file_size(const char *path, int64_t *size, kn_fault *f) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return disk_fail(f, path, "cannot open");
    bool ok = disk_stat(fd, path, size, f);
    close(fd);
    return ok;
}

static bool disk_map(int fd, const char *path, int64_t offset, int64_t bytes, bool writable, bool create, kd_map *m,
                     kn_fault *f) {
    int64_t size, end, page = sysconf(_SC_PAGESIZE);
    if (!disk_stat(fd, path, &size, f)) return false;
    if (offset < 0 || bytes < 0 || !kn_add_ok(offset, bytes, &end) || (uint64_t)bytes > SIZE_MAX / 2)
        return kn_fail(f, KN_ERR_ARG, "%s: %lld bytes from %lld are out of range", path, (long long)bytes,
                       (long long)offset);
    if (end > size && !create)
        return kn_fail(f, KN_ERR_IO, "%s: the file has %lld bytes, %lld are needed: %lld from byte %lld on", path,
                       (long long)size, (long long)end, (long long)bytes, (long long)offset);
    if (end > size && ftruncate(fd, (off_t)end) != 0) return disk_fail(f, path, "cannot make it longer");
    int64_t first = offset - offset % page;
    m->length     = (size_t)(KN_MAX(bytes, 1) + offset - first);
    m->base       = mmap(NULL, m->length, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, (off_t)first);
    if (m->base == MAP_FAILED) return disk_fail(f, path, "cannot map");
    m->data = (char *)m->base + (offset - first);
    return true;
}

bool kd_map_file(const char *path, int64_t offset, int64_t bytes, bool writable, bool create, kd_map *m, kn_fault *f) {
    int fd = open(path, (writable ? O_RDWR : O_RDONLY) | (create ? O_CREAT : 0) | O_CLOEXEC, 0666);
    if (fd < 0) return disk_fail(f, path, "cannot open");
    bool ok = disk_map(fd, path, offset, bytes, writable, create, m, f);
    close(fd);
    return ok;
}

void kd_unmap(const kd_map *m) {
    munmap(m->base, m->length);
}
