/*
 * Open render nodes of this process, told apart.
 *
 * Handles of memory belong to an open file, which lives until its last descriptor and mapping are gone, copies (dup,
 * fork) included; neither number nor device says which file a descriptor is. So each file in which memory is made is
 * marked with a lock on a byte of its own, far behind any that a program might lock: a file owns its OFD locks, the
 * kernel drops them with the file, and a second open file of this library's on the same node sees which are left.
 *
 * Callers hold the slice's lock, but for files_any. Functions keep errno.
 */
#ifndef VGPU_FILES_H
#define VGPU_FILES_H

#include <stdbool.h>
#include <stdint.h>

/* The name of memory in an open render node: its handle in the file with this number. */
#define GEM_KEY(file, handle) ((uint64_t)(file) << 32 | (handle))
#define FILE_OF(key) ((unsigned)((key) >> 32))

/* The number of the file that a render node's descriptor refers to, or -1. `mark`: give it one where it has none. */
int files_find(int fd, bool mark);

/* Forgets files that are closed. True: there were some. */
bool files_look(void);

/* Whether the file with this number is open, as files_look saw it. */
bool files_known(unsigned file);

/* Whether there are any files with numbers. */
bool files_any(void);

#endif
