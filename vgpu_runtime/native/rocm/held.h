/*
 * Card memory that this process holds, and under which names.
 *
 * A piece of memory is charged once, when it is made, and discharged when its last name is gone. Names are handles of
 * KFD, handles of open render nodes (files.h), and the descriptors of a DMA-buf. Memory gets a second name only through
 * a DMA-buf, whose inode every importer sees: from then on its names are counted in slice.shared under that inode.
 * Before Linux 5.3 all DMA-bufs have one inode; there, memory with two names is discharged with the first to go.
 *
 * A DMA-buf of another process is not charged here: its exporter pays for as long as it holds a name. What two
 * processes share and its exporter has given back is charged to no process.
 *
 * Callers of held_made, held_not_made and held_exported hold the slice's lock, those of others do not.
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
 * Charges `bytes`, in whole pages, to a card and promises room for a name in `names`. False: refused. It is published
 * before the driver is asked: a process killed in between only over-counts until its slot is reaped. Names that went
 * with a descriptor that was closed unseen (dup2, close_range) are looked for here, in held_file and in held_used.
 */
bool held_charge(struct table *names, int card, uint64_t bytes);

/* The number of the open file of a render node, which gets one if it has none; -1: there are too many. */
int held_file(int fd);

/* What the driver answered: the memory's first name, or nothing was made. */
void held_made(struct table *names, uint64_t key, int card, uint64_t bytes);
void held_not_made(struct table *names, int card, uint64_t bytes);

/* Asks the driver to let a name go. Result as of ioctl(2). */
int held_let_go(struct request *request, struct table *names, uint64_t key);

/* The memory called `key` is this DMA-buf's. */
void held_exported(const struct table *names, uint64_t key, int dmabuf);

/*
 * Before the driver is asked to import a DMA-buf: 0 where it is none of this process, or HELD_NO_ROOM, or what
 * held_imported is to be told with the new name, or HELD_NO_NAME.
 */
uint64_t held_import(struct table *names, int dmabuf);
void held_imported(struct table *names, uint64_t share, uint64_t key);

/* Closes a descriptor that may be the last name of memory. Result as of close(2). */
int held_close(int fd);

/* Bytes of `card` that are in use in the slice. */
uint64_t held_used(int card);

#endif
