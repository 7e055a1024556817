/*
 * Charges memory to this process's slot (its counters) in the usage region, the file in which the container's processes
 * count their use (vgpu_region.h). Callers hold the slice's lock.
 */
#ifndef VGPU_USAGE_H
#define VGPU_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "vgpu_region.h"

/*
 * The process's own record of its use: bytes charged and allocations refused, by card. The usage region, a shared file,
 * shows it to others.
 */
struct usage {
	uint64_t used[VGPU_REGION_CARDS];
	uint64_t denied[VGPU_REGION_CARDS];
};

enum admission {
	ADMITTED,      /* charged in usage->used and in the usage region */
	OVER_LIMIT,    /* does not fit the limit; counted in `denied` */
	REGION_BROKEN, /* not charged, because the usage region cannot be used */
};

/* Returns the reason why the usage region could not be used the last time, as text; never NULL. */
const char *region_trouble(void);

/*
 * Takes a slot (counters in the usage region) if this process has none, so that the agent sees that it uses a card.
 * Returns true if the process has a slot, false if the region is broken.
 */
bool region_attach(struct usage *usage);

/* Charges `bytes` to `card` if all live processes together then have at most `allowed` bytes; returns the outcome. */
enum admission region_charge(struct usage *usage, unsigned card, uint64_t bytes, uint64_t allowed);

/* Takes back a charge of `bytes` to `card`. */
void region_discharge(struct usage *usage, unsigned card, uint64_t bytes);

/* Returns the bytes of `card` that all live processes hold; only this process's if the usage region is broken. */
uint64_t region_used(struct usage *usage, unsigned card);

/* Returns the bytes of `card` that all live processes hold, 0 if the usage region is broken; takes no slot of it. */
uint64_t region_observed(unsigned card);

/* Forgets the parent's slot (its counters) in a new process, and closes the inherited files: open files keep locks. */
void region_forget(void);

#endif
