#include <errno.h>

#include "kfd.h"
#include "memory.h"
#include "queues.h"
#include "real.h"
#include "slice.h"
#include "svm.h"

const unsigned char kfd_sizes[1 << _IOC_NRBITS] = {
	[KFD_NR_CREATE_QUEUE] = sizeof(struct kfd_create_queue),
	[KFD_NR_DESTROY_QUEUE] = sizeof(struct kfd_destroy_queue),
	[KFD_NR_SET_CU_MASK] = sizeof(struct kfd_set_cu_mask),
	[KFD_NR_ALLOC_MEMORY] = sizeof(struct kfd_alloc_memory),
	[KFD_NR_FREE_MEMORY] = sizeof(struct kfd_free_memory),
	[KFD_NR_IMPORT_DMABUF] = sizeof(struct kfd_import_dmabuf),
	[KFD_NR_SVM] = sizeof(struct kfd_svm),
	[KFD_NR_SET_XNACK_MODE] = sizeof(struct kfd_xnack_mode),
	[KFD_NR_AVAILABLE_MEMORY] = sizeof(struct kfd_available_memory),
	[KFD_NR_EXPORT_DMABUF] = sizeof(struct kfd_export_dmabuf),
	[KFD_NR_CREATE_PROCESS] = 1, /* it has no arguments, but is hooked */
};

int kfd_card(uint32_t gpu_id)
{
	for (unsigned i = 0; i < slice.config.card_count; i++)
		if (slice.config.cards[i].gpu_id == gpu_id)
			return (int)i;
	return -1;
}

static bool has_results(unsigned number)
{
	return number != KFD_NR_DESTROY_QUEUE && number != KFD_NR_SET_CU_MASK && number != KFD_NR_FREE_MEMORY;
}

static int enforced(struct request *request)
{
	switch (_IOC_NR(request->code)) {
	case KFD_NR_CREATE_QUEUE:
		return queue_create(request);
	case KFD_NR_DESTROY_QUEUE:
		return queue_destroy(request);
	case KFD_NR_SET_CU_MASK:
		return queue_set_mask(request);
	case KFD_NR_ALLOC_MEMORY:
		return memory_alloc(request);
	case KFD_NR_FREE_MEMORY:
		return memory_free(request);
	case KFD_NR_IMPORT_DMABUF:
		return memory_import(request);
	case KFD_NR_EXPORT_DMABUF:
		return memory_export(request);
	case KFD_NR_SVM:
		return svm_request(request);
	case KFD_NR_SET_XNACK_MODE:
		return svm_set_xnack(request);
	default:
		return memory_available(request);
	}
}

/* Without a readable config: what takes a part of the card fails, what gives back works. */
static int closed(struct request *request)
{
	unsigned number = _IOC_NR(request->code);

	if (number == KFD_NR_CREATE_QUEUE ||
	    (number == KFD_NR_ALLOC_MEMORY && ARGUMENTS(request, struct kfd_alloc_memory)->flags & KFD_MEM_VRAM))
		return request_refuse(ENOMEM);
	if (number == KFD_NR_SVM)
		return svm_request(request);
	return number == KFD_NR_SET_XNACK_MODE ? svm_set_xnack(request) : request_send(request);
}

/* Handles and queues of each context have numbers of their own, and the books here know them by the numbers alone. */
static int refuse_context(void)
{
	slice_complain("a second context of the driver is refused", "memory and queues are counted in the first one only");
	return request_refuse(EPERM);
}

int kfd_request(int fd, unsigned code, void *arguments)
{
	enum enforcement enforcement = slice_enforcement();
	unsigned number = _IOC_NR(code);
	struct request request;
	int saved = errno;
	int result;

	if (enforcement == NONE)
		return REAL(ioctl, ioctl_fn)(fd, code, arguments);
	if (number == KFD_NR_CREATE_PROCESS)
		return refuse_context();
	if (!request_take(&request, fd, code, arguments, kfd_sizes[number], true))
		return -1;
	result = enforcement == CLOSED ? closed(&request) : enforced(&request);
	if (result < 0)
		return result;
	if (has_results(number) && request_answer(&request, code, arguments))
		return -1;
	errno = saved; /* our own files may have set it */
	return result;
}
