/* This process's slot in the usage region (../include/vgpu_region.h). Callers hold the slice's lock. */
#ifndef VGPU_USAGE_H
#define VGPU_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "vgpu_region.h"

/* What this process knows without the region; the region only adds what its neighbours hold. */
struct usage {
	uint64_t used[VGPU_REGION_CARDS];
	uint64_t denied[VGPU_REGION_CARDS];
};

enum admission {
	ADMITTED,      /* charged: usage->used and the region both have it */
	OVER_LIMIT,    /* does not fit; counted in `denied` */
	REGION_BROKEN, /* the region cannot be used: nothing is charged */
};

/* Why the region could not be used the last time; not NULL. */
const char *region_trouble(void);

/* Claims a slot where this process has none, so that the agent sees it use the card. False: region broken. */
bool region_attach(struct usage *usage);

/* Charges `bytes` to `card` where all live slots together then stay within `allowed`. */
enum admission region_charge(struct usage *usage, unsigned card, uint64_t bytes, uint64_t allowed);

/* Takes a charge back. */
void region_discharge(struct usage *usage, unsigned card, uint64_t bytes);

/* What all live slots hold of `card`; this process's own figure alone where the region is broken. */
uint64_t region_used(struct usage *usage, unsigned card);

/* Bytes of `card` that all live slots hold; 0 where the region is broken. Claims no slot for this process. */
uint64_t region_observed(unsigned card);

/* In a new process: the slot is the parent's. Closes what was inherited, because open files keep their locks. */
void region_forget(void);

#endif
