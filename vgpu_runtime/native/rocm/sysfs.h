/* Reads files of sysfs by the next library's open, so that a simulated driver can serve its own files. */
#ifndef VGPU_SYSFS_H
#define VGPU_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYSFS_MAX (4096 + 128) /* a file of sysfs has at most a page; replaced numbers may be longer */

/* Reads a file's first size - 1 bytes into `text`, and adds a zero; returns true, or false if nothing was read. */
bool sysfs_read(const char *path, char *text, size_t size);

/* Reads a decimal number; returns the text after it, NULL if there is no digit. (sscanf would need the newest libc.) */
const char *sysfs_number(const char *text, uint64_t *number);

#endif
