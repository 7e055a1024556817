/* Files of sysfs through the next library's open, which a simulated driver may lead elsewhere. */
#ifndef VGPU_SYSFS_H
#define VGPU_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYSFS_MAX (4096 + 128) /* a file of sysfs is at most a page; rewritten numbers may be longer */

/* Reads a file's first size - 1 bytes and ends them with a zero. False, and an empty text: nothing was read. */
bool sysfs_read(const char *path, char *text, size_t size);

/* Reads digits and returns what follows them; NULL where there is none. (sscanf binds to the newest libc.) */
const char *sysfs_number(const char *text, uint64_t *number);

#endif
