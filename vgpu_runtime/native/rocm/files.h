/*
 * Gives each open file of a render node in this process a number.
 *
 * Handles of memory belong to an open file. An open file exists until all of its descriptors (copies by dup and fork
 * too) and mappings are gone. Neither the number nor the device of a descriptor shows to which open file it belongs. So
 * the library marks each open file in which memory is made by a lock on a byte of its own, at an offset that no program
 * locks. An open file owns its OFD locks, and the kernel drops them together with the file. A second open file of the
 * same node, which the library keeps, shows which locks still exist.
 *
 * Callers hold the slice's lock, except for files_any. No function changes errno.
 */
#ifndef VGPU_FILES_H
#define VGPU_FILES_H

#include <stdbool.h>
#include <stdint.h>

/* The key of memory in an open render node: the number of the file, and the memory's handle in this file. */
#define GEM_KEY(file, handle) ((uint64_t)(file) << 32 | (handle))
#define FILE_OF(key) ((unsigned)((key) >> 32))

/*
 * Returns the number of the open file to which a render node's descriptor `fd` belongs; -1 if it has none. With `mark`,
 * a file without a number gets one.
 */
int files_find(int fd, bool mark);

/* Removes the numbers of files that are closed; returns true if there were any. */
bool files_look(void);

/* Returns true if the file with this number was open at the last call of files_look. */
bool files_known(unsigned file);

/* Returns true if any file has a number. */
bool files_any(void);

#endif
