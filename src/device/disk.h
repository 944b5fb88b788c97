/* disk.h - files as memory. */
#ifndef KN_DISK_H
#define KN_DISK_H

#include "base/base.h"

typedef struct kd_map {
    void  *base; /* what the system mapped: whole pages */
    size_t length;
    void  *data; /* the first byte asked for */
} kd_map;

/* Bytes offset .. offset + bytes of the file. writable: stores go to the file; create: it is made, or made longer, as
 * needed, with zeros. KN_ERR_IO with the path and what is wrong: a file that is missing, or too short. */
bool kd_map_file(const char *path, int64_t offset, int64_t bytes, bool writable, bool create, kd_map *m, kn_fault *f);
void kd_unmap(const kd_map *m);
bool kd_file_size(const char *path, int64_t *size, kn_fault *f);

#endif
