/*
 * Allocates and frees card memory at random: `churn GPU_ID SEED` until killed; `churn GPU_ID SEED TURNS` allocates that
 * many times, with one of four so small that it may use the reserve, and then frees all; `churn GPU_ID SEED TURNS MIB`
 * allocates so much each time, and frees it before the next.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "vgpu_kfd.h"

#define HANDLES 8

static uint32_t gpu_id;
static unsigned seed;
static uint64_t fixed;

static uint64_t size(bool some_small)
{
	bool small = some_small && rand_r(&seed) % 4 == 0;

	if (fixed)
		return fixed;
	return small ? (uint64_t)(1 + rand_r(&seed) % 16) << 12 : (uint64_t)(1 + rand_r(&seed) % 32) << 20;
}

static int release(uint64_t *handle)
{
	struct kfd_free_memory old = {*handle};

	*handle = 0;
	return old.handle && ioctl(-1, _IOW(KFD_IOC_TYPE, KFD_NR_FREE_MEMORY, struct kfd_free_memory), &old);
}

int main(int count, char **arguments)
{
	unsigned long turns = count > 3 ? strtoul(arguments[3], NULL, 10) : 0;
	unsigned kept = count > 4 ? 1 : HANDLES; /* allocations at a time */
	uint64_t handles[HANDLES] = {0};

	gpu_id = count > 2 ? (uint32_t)atoi(arguments[1]) : 0;
	seed = count > 2 ? (unsigned)atoi(arguments[2]) : 0;
	fixed = count > 4 ? strtoull(arguments[4], NULL, 10) << 20 : 0;
	for (unsigned long turn = 0; !turns || turn < turns; turn++) {
		struct kfd_alloc_memory memory = {.size = size(turns > 0), .gpu_id = gpu_id, .flags = KFD_MEM_VRAM};

		if (release(&handles[turn % kept]))
			return 1;
		if (!ioctl(-1, _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &memory))
			handles[turn % kept] = memory.handle;
	}
	for (int i = 0; i < HANDLES; i++)
		if (release(&handles[i]))
			return 1;
	return 0;
}
