/*
 * Reads the usage region (the file of counters) inside the container, for vgpu-smi. The agent reads it with
 * vgpu_runtime/region.py.
 */
#ifndef VGPU_REGION_USAGE_H
#define VGPU_REGION_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "vgpu_region.h"

struct region_usage {
	uint64_t used[VGPU_REGION_CARDS];   /* bytes that all live processes hold */
	uint64_t denied[VGPU_REGION_CARDS]; /* number of allocations refused since the container started */
	unsigned process_count;
	struct process {
		uint64_t pid; /* 0 if not known */
		uint64_t used[VGPU_REGION_CARDS];
	} processes[VGPU_REGION_SLOTS];
};

/*
 * Fills `usage` and returns true; returns false if the region is missing or damaged, because the container's processes
 * can write to it. Never blocks.
 */
bool region_usage_read(struct region_usage *usage);

#endif
