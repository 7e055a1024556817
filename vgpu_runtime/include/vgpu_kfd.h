/*
 * The part of amdkfd's interface that the library needs to hold limits. The facts are from Linux,
 * include/uapi/linux/kfd_ioctl.h (interface version 1.17). They are repeated here because the headers of a build
 * machine may be older, or missing.
 *
 * The kernel chooses the command by the request's number alone, whatever its type letter, direction and size are. It
 * copies as many bytes of arguments as the size says, and fills up short arguments with zeroes. So a caller's structure
 * may be smaller or larger than the kernel's.
 */
#ifndef VGPU_KFD_H
#define VGPU_KFD_H

#include <stdint.h>
#include <sys/ioctl.h>

#define KFD_IOC_TYPE 'K'

#define KFD_NR_CREATE_QUEUE 0x02
#define KFD_NR_DESTROY_QUEUE 0x03
#define KFD_NR_ALLOC_MEMORY 0x16
#define KFD_NR_FREE_MEMORY 0x17
#define KFD_NR_SET_CU_MASK 0x1a
#define KFD_NR_IMPORT_DMABUF 0x1d
#define KFD_NR_SVM 0x20
#define KFD_NR_SET_XNACK_MODE 0x21
#define KFD_NR_AVAILABLE_MEMORY 0x23
#define KFD_NR_EXPORT_DMABUF 0x24
#define KFD_NR_CREATE_PROCESS 0x27 /* makes a second context for its file descriptor; it has no arguments */

#define KFD_QUEUE_COMPUTE 0
#define KFD_QUEUE_SDMA 1
#define KFD_QUEUE_COMPUTE_AQL 2
#define KFD_QUEUE_SDMA_XGMI 3
#define KFD_QUEUE_SDMA_BY_ENGINE 4

#define KFD_MEM_VRAM (UINT32_C(1) << 0)

struct kfd_create_queue {
	uint64_t ring_base_address;
	uint64_t write_pointer_address;
	uint64_t read_pointer_address;
	uint64_t doorbell_offset;
	uint32_t ring_size;
	uint32_t gpu_id;
	uint32_t queue_type;
	uint32_t queue_percentage;
	uint32_t queue_priority;
	uint32_t queue_id; /* the kernel's result */
	uint64_t eop_buffer_address;
	uint64_t eop_buffer_size;
	uint64_t ctx_save_restore_address;
	uint32_t ctx_save_restore_size;
	uint32_t ctl_stack_size;
};

struct kfd_destroy_queue {
	uint32_t queue_id;
	uint32_t pad;
};

struct kfd_set_cu_mask {
	uint32_t queue_id;
	uint32_t num_cu_mask; /* number of bits in the mask, a multiple of 32 */
	uint64_t cu_mask_ptr; /* address of uint32_t[num_cu_mask / 32] */
};

struct kfd_alloc_memory {
	uint64_t va_addr;
	uint64_t size;
	uint64_t handle; /* the kernel's result; its upper 32 bits are the gpu_id */
	uint64_t mmap_offset;
	uint32_t gpu_id;
	uint32_t flags;
};

struct kfd_free_memory {
	uint64_t handle;
};

#define KFD_SVM_SET 0
#define KFD_SVM_PREFERRED 0
#define KFD_SVM_PREFETCH 1
#define KFD_SVM_HOST 0 /* the location "host memory"; every other location is a gpu_id */
#define KFD_SVM_UNDEFINED UINT32_MAX

struct kfd_svm_attribute {
	uint32_t type;
	uint32_t value;
};

struct kfd_svm { /* `num_attributes` structures kfd_svm_attribute follow it */
	uint64_t start;
	uint64_t size;
	uint32_t op;
	uint32_t num_attributes;
};

struct kfd_xnack_mode {
	int32_t enabled;
};

struct kfd_import_dmabuf {
	uint64_t va_addr;
	uint64_t handle; /* the kernel's result */
	uint32_t gpu_id;
	uint32_t fd;
};

struct kfd_export_dmabuf {
	uint64_t handle;
	uint32_t flags;
	uint32_t fd; /* the kernel's result */
};

struct kfd_available_memory {
	uint64_t available; /* the kernel's result */
	uint32_t gpu_id;
	uint32_t pad;
};

_Static_assert(sizeof(struct kfd_create_queue) == 88, "as in the kernel's interface");
_Static_assert(sizeof(struct kfd_destroy_queue) == 8, "as in the kernel's interface");
_Static_assert(sizeof(struct kfd_set_cu_mask) == 16, "as in the kernel's interface");
_Static_assert(sizeof(struct kfd_alloc_memory) == 40, "as in the kernel's interface");
_Static_assert(sizeof(struct kfd_free_memory) == 8, "as in the kernel's interface");
_Static_assert(sizeof(struct kfd_svm) == 24, "as in the kernel's interface");
_Static_assert(sizeof(struct kfd_import_dmabuf) == 24, "as in the kernel's interface");
_Static_assert(sizeof(struct kfd_export_dmabuf) == 16, "as in the kernel's interface");
_Static_assert(sizeof(struct kfd_available_memory) == 16, "as in the kernel's interface");

#define KFD_DESTROY_QUEUE _IOWR(KFD_IOC_TYPE, KFD_NR_DESTROY_QUEUE, struct kfd_destroy_queue)
#define KFD_SET_CU_MASK _IOW(KFD_IOC_TYPE, KFD_NR_SET_CU_MASK, struct kfd_set_cu_mask)

#endif
