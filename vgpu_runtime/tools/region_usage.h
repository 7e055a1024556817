/* The usage region as a program of the container reads it; vgpu_runtime/region.py is the agent's reader. */
#ifndef VGPU_REGION_USAGE_H
#define VGPU_REGION_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "vgpu_region.h"

struct region_usage {
	uint64_t used[VGPU_REGION_CARDS];   /* bytes, of all processes that live */
	uint64_t denied[VGPU_REGION_CARDS]; /* allocations refused since the container started */
	unsigned process_count;
	struct process {
		uint64_t pid; /* 0: not known */
		uint64_t used[VGPU_REGION_CARDS];
	} processes[VGPU_REGION_SLOTS];
};

/* False where the region is missing or damaged: the container's own processes can write to it. Never blocks. */
bool region_usage_read(struct region_usage *usage);

#endif
