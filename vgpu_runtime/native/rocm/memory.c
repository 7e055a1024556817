#include <errno.h>

#include "held.h"
#include "kfd.h"
#include "memory.h"
#include "slice.h"

/* Only allocations with the VRAM flag take card memory. */
#define PAGE_BYTES UINT64_C(4096)

int memory_alloc(struct request *request)
{
	const struct kfd_alloc_memory *arguments = ARGUMENTS(request, struct kfd_alloc_memory);
	uint64_t bytes = (arguments->size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	int card = kfd_card(arguments->gpu_id);
	int result, failure;

	if (!(arguments->flags & KFD_MEM_VRAM))
		return request_send(request);
	if (card < 0 || bytes < arguments->size || !held_charge(&slice.buffers, card, bytes))
		return request_refuse(ENOMEM);
	result = request_send(request);
	failure = errno;
	slice_lock();
	if (result == 0)
		held_made(&slice.buffers, arguments->handle, card, bytes);
	else
		held_not_made(&slice.buffers, card, bytes);
	slice_unlock();
	errno = failure;
	return result;
}

int memory_free(struct request *request)
{
	return held_let_go(request, &slice.buffers, ARGUMENTS(request, struct kfd_free_memory)->handle);
}

int memory_export(struct request *request)
{
	const struct kfd_export_dmabuf *arguments = ARGUMENTS(request, struct kfd_export_dmabuf);
	int result = request_send(request);
	int failure = errno;

	slice_lock();
	if (result == 0)
		held_exported(&slice.buffers, arguments->handle, (int)arguments->fd);
	slice_unlock();
	errno = failure;
	return result;
}

int memory_import(struct request *request)
{
	const struct kfd_import_dmabuf *arguments = ARGUMENTS(request, struct kfd_import_dmabuf);
	uint64_t share = held_import(&slice.buffers, (int)arguments->fd);
	int result, failure;

	if (share == HELD_NO_ROOM)
		return request_refuse(ENOMEM);
	result = request_send(request);
	failure = errno;
	held_imported(&slice.buffers, share, result == 0 ? arguments->handle : HELD_NO_NAME);
	errno = failure;
	return result;
}

int memory_available(struct request *request)
{
	struct kfd_available_memory *arguments = ARGUMENTS(request, struct kfd_available_memory);
	int card = kfd_card(arguments->gpu_id);
	int result = request_send(request);
	uint64_t limit, used, left = 0;

	if (result)
		return result;
	if (card >= 0) {
		limit = slice.config.cards[card].mem_bytes;
		used = held_used(card);
		left = used < limit ? limit - used : 0;
	}
	if (arguments->available > left)
		arguments->available = left;
	return 0;
}
