/*
 * Times calls for hack/measure/fence_cost.py, with /dev/null for KFD's device (cost_driver.c): `fence_cost WHAT TURNS`
 * writes the nanoseconds of each of TURNS calls, less those of reading the clock, as 64-bit numbers.
 *
 * `allocation` asks for card memory, and frees it when the time is taken. `other-request` sends a request that is none of
 * the driver's, `other-device` one with a number of the driver's to a pipe. `fence_cost hold` is a neighbour: it allocates a
 * page, writes a line, and ends with its standard input.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "vgpu_kfd.h"

#define BATCH 64 /* of calls that are too short to be timed one by one */

static int device;
static unsigned long request;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void call(struct kfd_alloc_memory *memory)
{
	*memory = (struct kfd_alloc_memory){.size = 4096, .gpu_id = 1, .flags = KFD_MEM_VRAM};
	ioctl(device, request, memory);
}

static uint64_t time_calls(unsigned calls)
{
	struct kfd_alloc_memory memory;
	struct kfd_free_memory old;
	uint64_t began = now();
	uint64_t clock = now() - began;

	began = now();
	for (unsigned i = 0; i < calls; i++)
		call(&memory);
	began = now() - began;
	if (calls == 1) {
		old.handle = memory.handle;
		ioctl(device, _IOW(KFD_IOC_TYPE, KFD_NR_FREE_MEMORY, struct kfd_free_memory), &old);
	}
	return (began > clock ? began - clock : 0) / calls;
}

static int hold(void)
{
	struct kfd_alloc_memory memory;

	device = open("/dev/null", O_RDWR);
	request = _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory);
	call(&memory);
	puts("");
	fflush(stdout);
	return getchar() == EOF ? 0 : 1;
}

int main(int count, char **words)
{
	unsigned long turns = count == 3 ? strtoul(words[2], NULL, 10) : 0;
	unsigned calls = 1;
	int ends[2];

	if (count == 2 && !strcmp(words[1], "hold"))
		return hold();
	if (!turns || pipe(ends))
		return 2;
	device = open("/dev/null", O_RDWR);
	request = _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory);
	if (!strcmp(words[1], "other-request")) {
		request = FIONREAD;
		device = ends[0];
		calls = BATCH;
	} else if (!strcmp(words[1], "other-device")) {
		request = _IOWR('X', KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory);
		device = ends[0];
		calls = BATCH;
	}
	time_calls(calls); /* the first one claims a slot */
	for (unsigned long turn = 0; turn < turns; turn++) {
		uint64_t each = time_calls(calls);

		if (fwrite(&each, sizeof each, 1, stdout) != 1)
			return 1;
	}
	return 0;
}
