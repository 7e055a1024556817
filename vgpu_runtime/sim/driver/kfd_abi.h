/*
 * The requests of amdkfd's interface that the simulated driver answers and the library does not check; vgpu_kfd.h has
 * the others. The facts are from Linux, include/uapi/linux/kfd_ioctl.h. KFD_SIM_MAJOR and KFD_SIM_MINOR are the
 * interface version that the simulated driver reports.
 */
#ifndef SIM_KFD_ABI_H
#define SIM_KFD_ABI_H

#include "../../include/vgpu_kfd.h"

#define KFD_SIM_MAJOR 1
#define KFD_SIM_MINOR 9 /* version 1.9 is the first with AVAILABLE_MEMORY */

#define KFD_NR_GET_VERSION 0x01
#define KFD_NR_SET_MEMORY_POLICY 0x04
#define KFD_NR_GET_CLOCK_COUNTERS 0x05
#define KFD_NR_UPDATE_QUEUE 0x07
#define KFD_NR_CREATE_EVENT 0x08
#define KFD_NR_DESTROY_EVENT 0x09
#define KFD_NR_SET_EVENT 0x0a
#define KFD_NR_RESET_EVENT 0x0b
#define KFD_NR_WAIT_EVENTS 0x0c
#define KFD_NR_SET_SCRATCH_BACKING_VA 0x11
#define KFD_NR_GET_TILE_CONFIG 0x12
#define KFD_NR_SET_TRAP_HANDLER 0x13
#define KFD_NR_GET_APERTURES 0x14
#define KFD_NR_ACQUIRE_VM 0x15
#define KFD_NR_MAP_MEMORY 0x18
#define KFD_NR_UNMAP_MEMORY 0x19

#define KFD_MEM_GTT (UINT32_C(1) << 1)
#define KFD_MEM_USERPTR (UINT32_C(1) << 2)
#define KFD_MEM_DOORBELL (UINT32_C(1) << 3)
#define KFD_MEM_MMIO_REMAP (UINT32_C(1) << 4)

#define KFD_SVM_MAX_ATTRIBUTES 2044 /* the most that fit into the largest request */

#define KFD_WAIT_COMPLETE 0
#define KFD_WAIT_TIMEOUT 1
#define KFD_WAIT_FOREVER UINT32_MAX

struct kfd_get_version {
	uint32_t major;
	uint32_t minor;
};

struct kfd_set_memory_policy {
	uint64_t alternate_base;
	uint64_t alternate_size;
	uint32_t gpu_id;
	uint32_t default_policy;
	uint32_t alternate_policy;
	uint32_t pad;
};

struct kfd_clock_counters {
	uint64_t gpu_clock;
	uint64_t cpu_clock;
	uint64_t system_clock;
	uint64_t system_clock_hz;
	uint32_t gpu_id;
	uint32_t pad;
};

struct kfd_aperture {
	uint64_t lds_base;
	uint64_t lds_limit;
	uint64_t scratch_base;
	uint64_t scratch_limit;
	uint64_t gpuvm_base;
	uint64_t gpuvm_limit;
	uint32_t gpu_id;
	uint32_t pad;
};

struct kfd_get_apertures {
	uint64_t apertures_ptr; /* address of struct kfd_aperture[num_of_nodes] */
	uint32_t num_of_nodes; /* size of the array; the kernel's result: the number of nodes */
	uint32_t pad;
};

struct kfd_create_event {
	uint64_t event_page_offset;
	uint32_t event_trigger_data;
	uint32_t event_type;
	uint32_t auto_reset;
	uint32_t node_id;
	uint32_t event_id;
	uint32_t event_slot_index;
};

struct kfd_event_id { /* the arguments of DESTROY_EVENT, SET_EVENT and RESET_EVENT */
	uint32_t event_id;
	uint32_t pad;
};

struct kfd_event_data {
	uint64_t exception[4]; /* the faults that happened; the simulated driver has none */
	uint64_t extension;
	uint32_t event_id;
	uint32_t pad;
};

struct kfd_wait_events {
	uint64_t events_ptr; /* address of struct kfd_event_data[num_events] */
	uint32_t num_events;
	uint32_t wait_for_all;
	uint32_t timeout; /* milliseconds */
	uint32_t wait_result;
};

struct kfd_tile_config {
	uint64_t tiles_ptr;
	uint64_t macro_tiles_ptr;
	uint32_t num_tiles;
	uint32_t num_macro_tiles;
	uint32_t gpu_id;
	uint32_t gb_addr_config;
	uint32_t num_banks;
	uint32_t num_ranks;
};

struct kfd_acquire_vm {
	uint32_t drm_fd;
	uint32_t gpu_id;
};

struct kfd_map_memory { /* the arguments of MAP_MEMORY and UNMAP_MEMORY */
	uint64_t handle;
	uint64_t device_ids_ptr; /* address of uint32_t[n_devices] */
	uint32_t n_devices;
	uint32_t n_success;
};

struct kfd_scratch {
	uint64_t va_addr;
	uint32_t gpu_id;
	uint32_t pad;
};

struct kfd_trap_handler {
	uint64_t handler_addr;
	uint64_t memory_addr;
	uint32_t gpu_id;
	uint32_t pad;
};

struct kfd_update_queue {
	uint64_t ring_base_address;
	uint32_t queue_id;
	uint32_t ring_size;
	uint32_t queue_percentage;
	uint32_t queue_priority;
};

#endif
