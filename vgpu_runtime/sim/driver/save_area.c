/*
 * Whether a compute queue comes with the save area that the kernel expects for the whole card.
 * Facts from Linux, drivers/gpu/drm/amd/amdkfd/kfd_queue.c, kfd_queue_acquire_buffers: 6.12 and 6.18.4.
 */
#include <errno.h>

#include "simkfd.h"

#define PAGE_BYTES UINT64_C(4096)

static bool is_compute(uint32_t type)
{
	return type == KFD_QUEUE_COMPUTE || type == KFD_QUEUE_COMPUTE_AQL;
}

static bool sizes_fit(const struct sim_save_area *area, const struct kfd_create_queue *args)
{
	if (args->ctl_stack_size != area->stack || args->ctx_save_restore_size < area->bytes)
		return false;
	return sim_world()->save_area_check == SIM_SAVE_AREA_AT_LEAST || args->ctx_save_restore_size == area->bytes;
}

int sim_save_area_check(int card, const struct kfd_create_queue *args)
{
	const struct sim_save_area *area = &sim_world()->cards[card].save_area;
	uint64_t bytes = ((uint64_t)args->ctx_save_restore_size + area->debug) * area->xccs;
	uint64_t mapped;

	if (!is_compute(args->queue_type))
		return 0;
	mapped = sim_memory_mapped(card, args->ctx_save_restore_address);
	sim_log("save-area gpu_id=%u stack=%u area=%u mapped=%lu", args->gpu_id, args->ctl_stack_size,
		args->ctx_save_restore_size, mapped);
	/* Of what the maker's driver expects of a slice's queue nothing is known. */
	if (sim_world()->save_area_check == SIM_SAVE_AREA_NONE || sim_slice(card))
		return 0;
	bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	mapped = (mapped + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	return sizes_fit(area, args) && mapped == bytes ? 0 : -EINVAL;
}
