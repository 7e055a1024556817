/* Allocates and frees card memory at random until killed: `churn GPU_ID SEED`. */
#include <stdio.h>
#include <stdlib.h>

#include "vgpu_kfd.h"

int main(int count, char **arguments)
{
	unsigned seed = count == 3 ? (unsigned)atoi(arguments[2]) : 0;
	uint64_t handles[8] = {0};

	for (unsigned turn = 0;; turn++) {
		struct kfd_alloc_memory memory = {
			.size = (uint64_t)(1 + rand_r(&seed) % 32) << 20,
			.gpu_id = (uint32_t)atoi(arguments[1]),
			.flags = KFD_MEM_VRAM,
		};
		struct kfd_free_memory old = {handles[turn % 8]};

		if (old.handle && ioctl(-1, _IOW(KFD_IOC_TYPE, KFD_NR_FREE_MEMORY, struct kfd_free_memory), &old))
			return 1;
		handles[turn % 8] = 0;
		if (!ioctl(-1, _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &memory))
			handles[turn % 8] = memory.handle;
	}
}
