/* The ioctls, by number. What this driver does not know it refuses, as the kernel does. */
#include <errno.h>
#include <pthread.h>

#include "simkfd.h"
#include "user_memory.h"

#define CLOCK_HZ UINT64_C(1000000000)

static int clock_counters(struct kfd_clock_counters *args)
{
	uint64_t now = sim_now_ns();

	args->gpu_clock = sim_card_index(args->gpu_id) < 0 ? 0 : sim_gpu_clock(now);
	args->cpu_clock = args->system_clock = now;
	args->system_clock_hz = CLOCK_HZ;
	return 0;
}

/* LDS and scratch live above the canonical address space, GPU virtual memory fills what a process can map. */
static int apertures(struct kfd_get_apertures *args)
{
	struct kfd_aperture *out = (struct kfd_aperture *)(uintptr_t)args->apertures_ptr;
	uint32_t room = args->num_of_nodes;
	uint32_t count = 0;

	for (int card = 0; card < sim_world()->card_count; card++) {
		if (sim_card_hidden(card))
			continue;
		if (count < room)
			out[count] = (struct kfd_aperture){
				.lds_base = UINT64_C(1) << 48, .lds_limit = UINT64_C(1) << 48 | UINT32_MAX,
				.scratch_base = UINT64_C(2) << 48, .scratch_limit = UINT64_C(2) << 48 | UINT32_MAX,
				.gpuvm_base = 0x200000, .gpuvm_limit = (UINT64_C(1) << 47) - 1,
				.gpu_id = sim_world()->cards[card].gpu_id,
			};
		count++;
	}
	args->num_of_nodes = count < room || room == 0 ? count : room;
	return 0;
}

static int tile_config(struct kfd_tile_config *args)
{
	if (sim_card_index(args->gpu_id) < 0)
		return -EINVAL;
	args->num_tiles = args->num_macro_tiles = 0;
	args->gb_addr_config = 0x2a114042; /* as a gfx906 card has it */
	args->num_banks = args->num_ranks = 0;
	return 0;
}

static int version(struct kfd_get_version *args)
{
	args->major = KFD_SIM_MAJOR;
	args->minor = KFD_SIM_MINOR;
	return 0;
}

/* A negative number asks; retrying after a page fault is what these cards cannot do. */
static int xnack_mode(struct kfd_xnack_mode *args)
{
	sim_log("xnack enabled=%d", args->enabled);
	if (args->enabled > 0)
		return -EPERM;
	args->enabled = 0;
	return 0;
}

/* Nothing to do for a driver that executes nothing, but the card must be there. */
static int accept(uint32_t gpu_id)
{
	return sim_card_index(gpu_id) < 0 ? -EINVAL : 0;
}

/* The size and direction of each request: the kernel's table, from which it takes both. */
static unsigned definition(unsigned number)
{
	switch (number) {
#define COMMAND(nr, direction, type) \
	case nr: \
		return direction(KFD_IOC_TYPE, nr, type)
		COMMAND(KFD_NR_GET_VERSION, _IOR, struct kfd_get_version);
		COMMAND(KFD_NR_CREATE_QUEUE, _IOWR, struct kfd_create_queue);
		COMMAND(KFD_NR_DESTROY_QUEUE, _IOWR, struct kfd_destroy_queue);
		COMMAND(KFD_NR_SET_MEMORY_POLICY, _IOW, struct kfd_set_memory_policy);
		COMMAND(KFD_NR_GET_CLOCK_COUNTERS, _IOWR, struct kfd_clock_counters);
		COMMAND(KFD_NR_UPDATE_QUEUE, _IOW, struct kfd_update_queue);
		COMMAND(KFD_NR_CREATE_EVENT, _IOWR, struct kfd_create_event);
		COMMAND(KFD_NR_DESTROY_EVENT, _IOW, struct kfd_event_id);
		COMMAND(KFD_NR_SET_EVENT, _IOW, struct kfd_event_id);
		COMMAND(KFD_NR_RESET_EVENT, _IOW, struct kfd_event_id);
		COMMAND(KFD_NR_WAIT_EVENTS, _IOWR, struct kfd_wait_events);
		COMMAND(KFD_NR_SET_SCRATCH_BACKING_VA, _IOWR, struct kfd_scratch);
		COMMAND(KFD_NR_GET_TILE_CONFIG, _IOWR, struct kfd_tile_config);
		COMMAND(KFD_NR_SET_TRAP_HANDLER, _IOW, struct kfd_trap_handler);
		COMMAND(KFD_NR_GET_APERTURES, _IOWR, struct kfd_get_apertures);
		COMMAND(KFD_NR_ACQUIRE_VM, _IOW, struct kfd_acquire_vm);
		COMMAND(KFD_NR_ALLOC_MEMORY, _IOWR, struct kfd_alloc_memory);
		COMMAND(KFD_NR_FREE_MEMORY, _IOW, struct kfd_free_memory);
		COMMAND(KFD_NR_MAP_MEMORY, _IOWR, struct kfd_map_memory);
		COMMAND(KFD_NR_UNMAP_MEMORY, _IOWR, struct kfd_map_memory);
		COMMAND(KFD_NR_SET_CU_MASK, _IOW, struct kfd_set_cu_mask);
		COMMAND(KFD_NR_SVM, _IOWR, struct kfd_svm);
		COMMAND(KFD_NR_SET_XNACK_MODE, _IOWR, struct kfd_xnack_mode);
		COMMAND(KFD_NR_AVAILABLE_MEMORY, _IOWR, struct kfd_available_memory);
		COMMAND(KFD_NR_IMPORT_DMABUF, _IOWR, struct kfd_import_dmabuf);
		COMMAND(KFD_NR_EXPORT_DMABUF, _IOWR, struct kfd_export_dmabuf);
#undef COMMAND
	default:
		return 0;
	}
}

static int carry_out(unsigned number, void *args)
{
	switch (number) {
	case KFD_NR_GET_VERSION:
		return version(args);
	case KFD_NR_CREATE_QUEUE:
		return sim_queue_create(args);
	case KFD_NR_DESTROY_QUEUE:
		return sim_queue_destroy(args);
	case KFD_NR_SET_MEMORY_POLICY:
		return accept(((struct kfd_set_memory_policy *)args)->gpu_id);
	case KFD_NR_GET_CLOCK_COUNTERS:
		return clock_counters(args);
	case KFD_NR_UPDATE_QUEUE:
		return sim_queue_update(args);
	case KFD_NR_CREATE_EVENT:
		return sim_event_create(args);
	case KFD_NR_DESTROY_EVENT:
		return sim_event_destroy(args);
	case KFD_NR_SET_EVENT:
		return sim_event_set(((struct kfd_event_id *)args)->event_id);
	case KFD_NR_RESET_EVENT:
		return sim_event_reset(((struct kfd_event_id *)args)->event_id);
	case KFD_NR_WAIT_EVENTS:
		return sim_event_wait(args);
	case KFD_NR_SET_SCRATCH_BACKING_VA:
	case KFD_NR_SET_TRAP_HANDLER:
		return 0;
	case KFD_NR_GET_TILE_CONFIG:
		return tile_config(args);
	case KFD_NR_GET_APERTURES:
		return apertures(args);
	case KFD_NR_ACQUIRE_VM:
		return sim_memory_acquire_vm(args);
	case KFD_NR_ALLOC_MEMORY:
		return sim_memory_alloc(args);
	case KFD_NR_FREE_MEMORY:
		return sim_memory_free(args);
	case KFD_NR_MAP_MEMORY:
	case KFD_NR_UNMAP_MEMORY:
		return sim_memory_map(args, number == KFD_NR_MAP_MEMORY);
	case KFD_NR_SET_CU_MASK:
		return sim_queue_set_mask(args);
	case KFD_NR_SVM:
		return sim_svm(args);
	case KFD_NR_SET_XNACK_MODE:
		return xnack_mode(args);
	case KFD_NR_AVAILABLE_MEMORY:
		return sim_memory_available(args);
	case KFD_NR_IMPORT_DMABUF:
		return sim_memory_import(args);
	case KFD_NR_EXPORT_DMABUF:
		return sim_memory_export(args);
	default:
		return -EINVAL;
	}
}

/*
 * kfd_ioctl's way: the number alone decides; as many bytes come in and go out as the program's request says, with zeroes
 * behind those that come in.
 */
int sim_ioctl(unsigned request, uint64_t args)
{
	_Alignas(8) unsigned char data[1 << _IOC_SIZEBITS] = {0};
	unsigned defined = definition(_IOC_NR(request));
	int result;

	if (!defined) /* CRIU, debugging: cards without them */
		return -EINVAL;
	if (_IOC_DIR(defined) & _IOC_WRITE && !user_read(data, args, _IOC_SIZE(request)))
		return -EFAULT;
	result = carry_out(_IOC_NR(request), data);
	if (_IOC_DIR(defined) & _IOC_READ && !user_write(args, data, _IOC_SIZE(request)))
		result = -EFAULT;
	return result;
}

/* A forked child starts without a KFD process, as in the kernel. */
static void forget(void)
{
	sim_device_forget();
	sim_slice_forget();
	sim_pipe_forget();
	sim_vram_forget();
	sim_memory_forget();
	sim_svm_forget();
	sim_gem_forget();
	sim_object_forget();
	sim_queue_forget();
	sim_event_forget();
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget);
}
