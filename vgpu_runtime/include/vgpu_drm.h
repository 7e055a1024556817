/*
 * The part of amdgpu's DRM interface that the library needs to hold a memory limit. The facts are from Linux,
 * include/uapi/drm/drm.h, drm_mode.h and amdgpu_drm.h. They are repeated here because the headers of a build machine
 * may be older, or missing.
 *
 * The kernel chooses the command by the request's number alone. If the request's direction says so and the command has
 * arguments, it copies as many bytes as the request's size says: arguments in, results out. It fills up short arguments
 * with zeroes.
 */
#ifndef VGPU_DRM_H
#define VGPU_DRM_H

#include <stdint.h>
#include <sys/ioctl.h>

#define DRM_MAJOR 226
#define DRM_IOC_TYPE 'd'

#define DRM_NR_GEM_CLOSE 0x09
#define DRM_NR_GEM_FLINK 0x0a
#define DRM_NR_PRIME_HANDLE_TO_FD 0x2d
#define DRM_NR_PRIME_FD_TO_HANDLE 0x2e
#define DRM_NR_AMDGPU_GEM_CREATE 0x40
#define DRM_NR_AMDGPU_CS 0x44
#define DRM_NR_AMDGPU_INFO 0x45
#define DRM_NR_AMDGPU_GEM_OP 0x50
#define DRM_NR_AMDGPU_USERQ 0x56
#define DRM_NR_MODE_CREATE_DUMB 0xb2

#define AMDGPU_DOMAIN_VRAM UINT64_C(4)
#define AMDGPU_GEM_OP_SET_PLACEMENT 1
#define AMDGPU_USERQ_OP_CREATE 1

#define AMDGPU_INFO_VRAM_USAGE 0x10
#define AMDGPU_INFO_VRAM_GTT 0x14
#define AMDGPU_INFO_VIS_VRAM_USAGE 0x17
#define AMDGPU_INFO_MEMORY 0x19

#define AMDGPU_CHUNK_IB 1
#define AMDGPU_IP_GFX 0
#define AMDGPU_IP_COMPUTE 1

struct drm_handle { /* the arguments of GEM_CLOSE */
	uint32_t handle;
	uint32_t pad;
};

struct drm_prime { /* the arguments of PRIME_HANDLE_TO_FD and of PRIME_FD_TO_HANDLE */
	uint32_t handle;
	uint32_t flags;
	int32_t fd;
};

union amdgpu_gem_create {
	struct {
		uint64_t bytes;
		uint64_t alignment;
		uint64_t domains;
		uint64_t flags;
	} in;
	uint32_t handle; /* the kernel's result */
};

struct amdgpu_gem_op {
	uint32_t handle;
	uint32_t op;
	uint64_t value;
};

struct amdgpu_userq { /* only the first fields of the arguments of AMDGPU_USERQ */
	uint32_t op;
	uint32_t queue_id;
};

struct amdgpu_cs {
	uint32_t context;
	uint32_t buffers;
	uint32_t num_chunks;
	uint32_t flags;
	uint64_t chunks_ptr; /* address of uint64_t[num_chunks]; each is the address of a struct amdgpu_chunk */
};

struct amdgpu_chunk {
	uint32_t id;
	uint32_t words;
	uint64_t data_ptr;
};

struct amdgpu_chunk_ib {
	uint32_t pad;
	uint32_t flags;
	uint64_t va;
	uint32_t bytes;
	uint32_t ip_type;
	uint32_t ip_instance;
	uint32_t ring;
};

struct amdgpu_info {
	uint64_t result_ptr;
	uint32_t result_bytes;
	uint32_t query;
	uint64_t more[2];
};

struct amdgpu_vram_gtt {
	uint64_t vram_bytes;
	uint64_t visible_bytes;
	uint64_t gtt_bytes;
};

struct amdgpu_heap {
	uint64_t total_bytes;
	uint64_t usable_bytes;
	uint64_t used_bytes;
	uint64_t max_allocation;
};

struct amdgpu_memory {
	struct amdgpu_heap vram;
	struct amdgpu_heap visible;
	struct amdgpu_heap gtt;
};

_Static_assert(sizeof(struct drm_prime) == 12, "as in the kernel's interface");
_Static_assert(sizeof(union amdgpu_gem_create) == 32, "as in the kernel's interface");
_Static_assert(sizeof(struct amdgpu_gem_op) == 16, "as in the kernel's interface");
_Static_assert(sizeof(struct amdgpu_cs) == 24, "as in the kernel's interface");
_Static_assert(sizeof(struct amdgpu_chunk_ib) == 32, "as in the kernel's interface");
_Static_assert(sizeof(struct amdgpu_info) == 32, "as in the kernel's interface");
_Static_assert(sizeof(struct amdgpu_memory) == 96, "as in the kernel's interface");

#endif
