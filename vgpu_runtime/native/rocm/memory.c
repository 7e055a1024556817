#include <errno.h>

#include "memory.h"
#include "real.h"
#include "slice.h"
#include "vgpu_paths.h"

/*
 * Only allocations with the VRAM flag take card memory. Imports (IPC handles, dma-bufs) name memory that its
 * exporter was charged for and are not charged again; so an exporter that frees while an importer still holds
 * the buffer is under-charged for as long as that lasts. Shared virtual memory that the kernel migrates to the
 * card by itself (SVM ranges, with XNACK) does not come through an allocation and is not seen.
 *
 * At exactly the limit a runtime could not even create a queue, so small allocations may use a hidden reserve.
 */
#define SMALL_BYTES (UINT64_C(64) << 10)
#define RESERVE_BYTES (UINT64_C(32) << 20)
#define PAGE_BYTES UINT64_C(4096)

/* The charge is published before the driver is asked: a process killed in between only over-counts until reaped. */
static bool charge(int card, uint64_t bytes)
{
	uint64_t limit = slice.config.cards[card].mem_bytes, used = 0;
	uint64_t allowed = limit + (bytes <= SMALL_BYTES ? RESERVE_BYTES : 0);
	enum admission admission = REGION_BROKEN;

	slice_lock();
	if (table_reserve(&slice.buffers)) {
		admission = region_charge(&slice.usage, (unsigned)card, bytes, allowed);
		if (admission != ADMITTED)
			table_unreserve(&slice.buffers);
		if (admission == OVER_LIMIT)
			used = region_used(&slice.usage, (unsigned)card);
	}
	slice_unlock();
	if (admission == OVER_LIMIT)
		slice_complain_refused(bytes, limit, used);
	if (admission == REGION_BROKEN)
		slice_complain("card memory is refused", "the usage region " VGPU_REGION_PATH " is missing, damaged or full");
	return admission == ADMITTED;
}

int memory_alloc(int fd, unsigned long request, struct kfd_alloc_memory *arguments)
{
	uint64_t bytes = (arguments->size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	int card = slice_card(arguments->gpu_id);
	int result, failure;

	if (!(arguments->flags & KFD_MEM_VRAM))
		return REAL(ioctl, ioctl_fn)(fd, request, arguments);
	if (card < 0 || bytes < arguments->size || !charge(card, bytes)) {
		errno = ENOMEM;
		return -1;
	}
	result = REAL(ioctl, ioctl_fn)(fd, request, arguments);
	failure = errno;
	slice_lock();
	if (result == 0) {
		table_put(&slice.buffers, arguments->handle, bytes, (uint32_t)card);
	} else {
		table_unreserve(&slice.buffers);
		region_discharge(&slice.usage, (unsigned)card, bytes);
	}
	slice_unlock();
	errno = failure;
	return result;
}

/* The entry leaves the table before the driver can give its handle to another thread's allocation. */
int memory_free(int fd, unsigned long request, struct kfd_free_memory *arguments)
{
	struct entry buffer;
	bool charged;
	int result, failure;

	slice_lock();
	charged = table_take(&slice.buffers, arguments->handle, &buffer);
	slice_unlock();
	result = REAL(ioctl, ioctl_fn)(fd, request, arguments);
	if (!charged)
		return result;
	failure = errno;
	slice_lock();
	if (result == 0) {
		table_unreserve(&slice.buffers);
		region_discharge(&slice.usage, buffer.card, buffer.bytes);
	} else {
		table_put(&slice.buffers, buffer.key, buffer.bytes, buffer.card);
	}
	slice_unlock();
	errno = failure;
	return result;
}

int memory_available(int fd, unsigned long request, struct kfd_available_memory *arguments)
{
	int card = slice_card(arguments->gpu_id);
	int result = REAL(ioctl, ioctl_fn)(fd, request, arguments);
	uint64_t limit, used, left = 0;

	if (result)
		return result;
	if (card >= 0) {
		limit = slice.config.cards[card].mem_bytes;
		slice_lock();
		used = region_used(&slice.usage, (unsigned)card);
		slice_unlock();
		left = used < limit ? limit - used : 0;
	}
	if (arguments->available > left)
		arguments->available = left;
	return 0;
}
