/*
 * Allocates a page of card memory and frees it for each byte on standard input, and prints how many microseconds the
 * allocation took: `admit GPU_ID`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "vgpu_kfd.h"

int main(int count, char **arguments)
{
	while (count == 2 && getchar() != EOF) {
		struct kfd_alloc_memory memory = {
			.size = 4096, .gpu_id = (uint32_t)atoi(arguments[1]), .flags = KFD_MEM_VRAM,
		};
		struct kfd_free_memory old;
		struct timespec began, ended;

		clock_gettime(CLOCK_MONOTONIC, &began);
		if (ioctl(-1, _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &memory))
			return 1;
		clock_gettime(CLOCK_MONOTONIC, &ended);
		old.handle = memory.handle;
		ioctl(-1, _IOW(KFD_IOC_TYPE, KFD_NR_FREE_MEMORY, struct kfd_free_memory), &old);
		printf("%ld\n", (ended.tv_sec - began.tv_sec) * 1000000 + (ended.tv_nsec - began.tv_nsec) / 1000);
		fflush(stdout);
	}
	return 0;
}
