#include <errno.h>

#include "kfd.h"
#include "mask.h"
#include "queues.h"
#include "real.h"
#include "slice.h"
#include "user_memory.h"

static int set_mask(int fd, uint32_t queue, const struct card *card, const struct mask *mask)
{
	struct kfd_set_cu_mask arguments = {
		.queue_id = queue,
		.num_cu_mask = (card->compute_units + 31) / 32 * 32,
		.cu_mask_ptr = (uintptr_t)mask->words,
	};

	return REAL(ioctl, ioctl_fn)(fd, KFD_SET_CU_MASK, &arguments);
}

static int create_masked(struct request *request, const struct card *card)
{
	const struct kfd_create_queue *arguments = ARGUMENTS(request, struct kfd_create_queue);
	struct kfd_destroy_queue unwanted = {0};
	int result = request_send(request);
	int failure = errno;

	if (result || set_mask(request->fd, arguments->queue_id, card, &card->granted) == 0) {
		errno = failure;
		return result;
	}
	failure = errno;
	unwanted.queue_id = arguments->queue_id; /* it would run on all units of the card */
	REAL(ioctl, ioctl_fn)(request->fd, KFD_DESTROY_QUEUE, &unwanted);
	return request_refuse(failure);
}

/* DMA engines are not compute units and have no mask. */
static bool is_dma(uint32_t type)
{
	return type == KFD_QUEUE_SDMA || type == KFD_QUEUE_SDMA_XGMI || type == KFD_QUEUE_SDMA_BY_ENGINE;
}

/* Takes a slot too, so that the agent sees this process use the card. */
static bool prepare(void)
{
	bool ready;

	slice_lock();
	ready = region_attach(&slice.usage);
	if (!ready)
		slice_complain("queues are refused", region_trouble());
	ready = ready && table_reserve(&slice.queues);
	slice_unlock();
	return ready;
}

int queue_create(struct request *request)
{
	const struct kfd_create_queue *arguments = ARGUMENTS(request, struct kfd_create_queue);
	int card = kfd_card(arguments->gpu_id);
	int result;

	if (card < 0)
		return request_refuse(EPERM);
	if (!prepare())
		return request_refuse(ENOMEM);
	if (is_dma(arguments->queue_type) || slice.config.cards[card].vendor_masks)
		result = request_send(request);
	else
		result = create_masked(request, &slice.config.cards[card]);
	slice_lock();
	if (result == 0)
		table_put(&slice.queues, (struct entry){.key = arguments->queue_id, .card = (uint32_t)card});
	else
		table_unreserve(&slice.queues);
	slice_unlock();
	return result;
}

int queue_destroy(struct request *request)
{
	struct entry queue;
	bool known;
	int result;

	slice_lock();
	known = table_take(&slice.queues, ARGUMENTS(request, struct kfd_destroy_queue)->queue_id, &queue);
	slice_unlock();
	result = request_send(request);
	if (!known)
		return result;
	slice_lock();
	if (result == 0)
		table_unreserve(&slice.queues);
	else
		table_put(&slice.queues, queue);
	slice_unlock();
	return result;
}

/* Cards have fewer units than CONFIG_MAX_UNITS, and the driver ignores bits beyond as well. */
int queue_set_mask(struct request *request)
{
	const struct kfd_set_cu_mask *arguments = ARGUMENTS(request, struct kfd_set_cu_mask);
	unsigned bits = arguments->num_cu_mask < CONFIG_MAX_UNITS ? arguments->num_cu_mask : CONFIG_MAX_UNITS;
	const struct entry *queue;
	const struct card *card;
	struct mask wanted, physical;

	if (!arguments->num_cu_mask || arguments->num_cu_mask % 32)
		return request_refuse(EINVAL);
	slice_lock();
	queue = table_get(&slice.queues, arguments->queue_id);
	card = queue ? &slice.config.cards[queue->card] : NULL;
	slice_unlock();
	if (card && card->vendor_masks)
		return request_send(request);
	if (!user_read(&wanted, arguments->cu_mask_ptr, bits / 8) || !card)
		return request_refuse(EFAULT); /* also for a queue that is not there: as the driver answers */
	mask_of_program(card, wanted.words, bits, &physical);
	return set_mask(request->fd, arguments->queue_id, card, &physical);
}
