/*
 * Keeps account of the card memory that this process holds, and of the names of each piece of memory.
 *
 * A name of memory is a handle of KFD, a handle in an open render node (files.h), or a descriptor of a DMA-buf. Memory
 * is charged once, when it is made, and the charge is taken back when the last name is gone. Memory gets a second name
 * only by a DMA-buf. Every importer of a DMA-buf sees its inode; so from then on slice.shared counts the memory's
 * names, by this inode. Before Linux 5.3 all DMA-bufs have the same inode: there the charge is taken back when the
 * first of two names is gone.
 *
 * Memory of another process, imported by a DMA-buf, is not charged to this process: its exporter is charged as long as
 * it has a name. If the exporter has released its names, the memory is charged to no process.
 *
 * Callers of held_made, held_not_made and held_exported hold the slice's lock; callers of the other functions do not.
 */
#ifndef VGPU_HELD_H
#define VGPU_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "request.h"
#include "table.h"

#define HELD_NO_ROOM UINT64_MAX
#define HELD_NO_NAME UINT64_MAX

/*
 * Charges `bytes` (whole pages) to the slice's card with this index, and reserves room for a name in `names`. Returns
 * true if this was done, false if it is refused: the limit or the process's memory does not allow it. The charge is in
 * the usage region (the container's file of counters) before the driver is asked: if the process is killed in between,
 * its counters there are too high until their place is free again. A descriptor may be closed without a call of
 * held_close (dup2, close_range); this function, held_file and held_used therefore look for names that are gone.
 */
bool held_charge(struct table *names, int card, uint64_t bytes);

/* Returns the number of a render node's open file, and gives it one if it has none; -1 if too many files have one. */
int held_file(int fd);

/* Record the driver's answer after held_charge: memory was made, and `key` is its first name; or none was made. */
void held_made(struct table *names, uint64_t key, int card, uint64_t bytes);
void held_not_made(struct table *names, int card, uint64_t bytes);

/* Asks the driver to release the name `key`, and takes back the charge if it was the last one; returns as ioctl(2). */
int held_let_go(struct request *request, struct table *names, uint64_t key);

/* Records that the memory with the name `key` was exported as this DMA-buf. */
void held_exported(const struct table *names, uint64_t key, int dmabuf);

/*
 * Call it before the driver is asked to import a DMA-buf. Returns 0 if the DMA-buf is not from this process,
 * HELD_NO_ROOM if there is no room for one more name, and otherwise the value `share` for held_imported. After the
 * driver's answer, call held_imported with the new name as `key`, or with HELD_NO_NAME if the import failed.
 */
uint64_t held_import(struct table *names, int dmabuf);
void held_imported(struct table *names, uint64_t share, uint64_t key);

/* Closes a descriptor, and takes back charges of memory that has no name any more; returns as close(2). */
int held_close(int fd);

/* Returns the bytes of `card` that all processes of the slice hold. */
uint64_t held_used(int card);

#endif
