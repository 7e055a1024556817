/* A library of a program that uses a card, as a HIP runtime is: it takes card memory from the driver. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "kfd_abi.h"

/* Takes `bytes` of the card with this gpu_id and render node, and returns 0 or the error's number. */
int take(uint32_t gpu_id, unsigned render_minor, uint64_t bytes);

int take(uint32_t gpu_id, unsigned render_minor, uint64_t bytes)
{
	struct kfd_acquire_vm space = {.gpu_id = gpu_id};
	struct kfd_alloc_memory memory = {.size = bytes, .gpu_id = gpu_id, .flags = KFD_MEM_VRAM};
	char path[32];
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	int render;

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", render_minor);
	render = open(path, O_RDWR | O_CLOEXEC);
	if (kfd < 0 || render < 0)
		return errno;
	/* Without the simulated driver (in a namespace of dlmopen) this fails, and a limit must hold all the same. */
	space.drm_fd = (uint32_t)render;
	ioctl(kfd, _IOW(KFD_IOC_TYPE, KFD_NR_ACQUIRE_VM, struct kfd_acquire_vm), &space);
	return ioctl(kfd, _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &memory) < 0 ? errno : 0;
}
