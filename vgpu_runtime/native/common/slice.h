/*
 * The slice of this process. Its config is read before main, or when a constructor that runs before this library's
 * touches a card.
 */
#ifndef VGPU_SLICE_H
#define VGPU_SLICE_H

#include "config.h"
#include "region.h"
#include "table.h"

enum enforcement {
	UNKNOWN,  /* not read yet */
	NONE,     /* no config: not a slice, the library does nothing */
	ENFORCED, /* held to `config` */
	CLOSED,   /* a config that cannot be read or understood: no memory, no queues */
};

struct slice {
	struct config config;  /* constant once ENFORCED */
	struct usage usage;    /* the rest under the lock */
	struct table buffers;  /* charged memory by KFD handle */
	struct table gem;      /* buffers by the handles of open render nodes */
	struct table shared;   /* and by DMA-buf: see rocm/held.h */
	struct table queues;   /* queues by id */
};

extern struct slice slice;

/* A figure of the card as the slice has it: `value`, or `limit` where that is less. */
static inline uint64_t at_most(uint64_t value, uint64_t limit)
{
	return value < limit ? value : limit;
}

/* Reads the config on the first call; never UNKNOWN. Keeps errno. */
enum enforcement slice_look(void);

/* For a process that touches a card: if that is CLOSED, says so on stderr. Keeps errno. */
enum enforcement slice_enforcement(void);

void slice_lock(void);
void slice_unlock(void);

/* One line on stderr, the first time in this process; later ones are dropped. Keeps errno (complain.c). */
void slice_complain(const char *text, const char *detail);

/*
 * Says on stderr that `bytes` of the card were refused, of whose limit the slice uses `used` bytes: the first time in this
 * process, unless VGPU_QUIET is set. Keeps errno.
 */
void slice_complain_refused(const struct card *card, uint64_t bytes, uint64_t used);

#endif
