/*
 * A library of a program that uses a card: it takes card memory from the driver as a HIP runtime does (take), and as
 * libraries for graphics and video do, by the render node (take_by_render_node). Both take `bytes` of the card with this
 * gpu_id and render node, and return 0 or the error's number.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "kfd_abi.h"
#include "vgpu_drm.h"

#define VRAM 4 /* AMDGPU_GEM_DOMAIN_VRAM */

int take(uint32_t gpu_id, unsigned render_minor, uint64_t bytes);
int take_by_render_node(uint32_t gpu_id, unsigned render_minor, uint64_t bytes);

static int open_render_node(unsigned minor)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", minor);
	return open(path, O_RDWR | O_CLOEXEC);
}

int take(uint32_t gpu_id, unsigned render_minor, uint64_t bytes)
{
	struct kfd_acquire_vm space = {.gpu_id = gpu_id};
	struct kfd_alloc_memory memory = {.size = bytes, .gpu_id = gpu_id, .flags = KFD_MEM_VRAM};
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	int render = open_render_node(render_minor);

	if (kfd < 0 || render < 0)
		return errno;
	/* Without the simulated driver (in a namespace of dlmopen) this fails, and a limit must hold all the same. */
	space.drm_fd = (uint32_t)render;
	ioctl(kfd, _IOW(KFD_IOC_TYPE, KFD_NR_ACQUIRE_VM, struct kfd_acquire_vm), &space);
	return ioctl(kfd, _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &memory) < 0 ? errno : 0;
}

int take_by_render_node(uint32_t gpu_id, unsigned render_minor, uint64_t bytes)
{
	union amdgpu_gem_create buffer = {.in = {.bytes = bytes, .alignment = 4096, .domains = VRAM}};
	int render = open_render_node(render_minor);

	(void)gpu_id;
	if (render < 0)
		return errno;
	return ioctl(render, _IOWR(DRM_IOC_TYPE, DRM_NR_AMDGPU_GEM_CREATE, buffer), &buffer) < 0 ? errno : 0;
}
