/*
 * The slice of this process. Its config is read before main, or earlier if a constructor that runs before this
 * library's constructor uses a card.
 */
#ifndef VGPU_SLICE_H
#define VGPU_SLICE_H

#include "config.h"
#include "region.h"
#include "table.h"

enum enforcement {
	UNKNOWN,  /* the config was not read yet */
	NONE,     /* there is no config, so no slice: the library does nothing */
	ENFORCED, /* the limits of `config` are enforced */
	CLOSED,   /* the config cannot be read or parsed: all memory and queues are refused */
};

struct slice {
	struct config config;  /* never changes once ENFORCED */
	struct usage usage;    /* read and written, as all tables below, with the lock held */
	struct table buffers;  /* charged memory, by KFD handle */
	struct table gem;      /* charged memory, by handle in an open render node */
	struct table shared;   /* charged memory with a DMA-buf, by the DMA-buf's inode: see rocm/held.h */
	struct table queues;   /* queues, by id */
};

extern struct slice slice;

/* Returns the smaller of a figure of the whole card and the slice's limit. */
static inline uint64_t at_most(uint64_t value, uint64_t limit)
{
	return value < limit ? value : limit;
}

/* Returns the state of enforcement, never UNKNOWN: the first call reads the config. Does not change errno. */
enum enforcement slice_look(void);

/*
 * Returns the same as slice_look, for a process that uses a card: if the state is CLOSED, writes the reason to stderr.
 * Does not change errno.
 */
enum enforcement slice_enforcement(void);

void slice_lock(void);
void slice_unlock(void);

/* Writes one line to stderr; later calls in this process write nothing. Does not change errno (complain.c). */
void slice_complain(const char *text, const char *detail);

/*
 * Writes to stderr that an allocation of `bytes` was refused while the slice used `used` bytes of the card's limit.
 * Only the first call in this process writes, and none if VGPU_QUIET is set. Does not change errno.
 */
void slice_complain_refused(const struct card *card, uint64_t bytes, uint64_t used);

#endif
