/* Queues, their CU masks, and the thread that stands for the cards' command processors. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "simkfd.h"
#include "user_memory.h"

#define MAX_QUEUES 1024
#define MAX_PERCENTAGE 100
#define MAX_PRIORITY 15
#define SHORTEST_NAP_NS 20000
#define LONGEST_NAP_NS 4000000

static struct sim_queue queues[MAX_QUEUES];
static int queue_end; /* no live queue at or above it */
static bool running;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool step(struct sim_queue *queue)
{
	switch (queue->type) {
	case KFD_QUEUE_COMPUTE_AQL:
		return sim_packets_step(queue);
	case KFD_QUEUE_SDMA:
	case KFD_QUEUE_SDMA_XGMI:
		return sim_sdma_step(queue);
	default: /* PM4 packets, which ROCm does not use any more */
		return false;
	}
}

/* Doorbells are plain memory that nobody can sleep on, so it looks: often while there is work, seldom after. */
static void *process(void *unused)
{
	struct timespec nap = {.tv_nsec = SHORTEST_NAP_NS};

	for (;;) {
		bool busy = false;

		pthread_mutex_lock(&lock);
		for (int i = 0; i < queue_end; i++)
			busy |= queues[i].live && step(&queues[i]);
		pthread_mutex_unlock(&lock);
		nap.tv_nsec = busy ? SHORTEST_NAP_NS : nap.tv_nsec * 2;
		if (nap.tv_nsec > LONGEST_NAP_NS)
			nap.tv_nsec = LONGEST_NAP_NS;
		nanosleep(&nap, NULL);
	}
	return unused;
}

static bool valid_ring(uint64_t bytes, uint32_t percentage, uint32_t priority)
{
	return (bytes & (bytes - 1)) == 0 && percentage <= MAX_PERCENTAGE && priority <= MAX_PRIORITY;
}

/* Call with the lock held. The queue's index, or a negative errno. */
static int place_queue(const struct sim_queue *queue)
{
	pthread_t thread;
	int id = 0;

	while (id < MAX_QUEUES && queues[id].live)
		id++;
	if (id == MAX_QUEUES)
		return -ENOMEM;
	if (!running) {
		if (pthread_create(&thread, NULL, process, NULL) != 0)
			return -ENOMEM;
		pthread_detach(thread);
		running = true;
	}
	queues[id] = *queue;
	if (id >= queue_end)
		queue_end = id + 1;
	return id;
}

/* The units that a queue without a mask has. */
static uint32_t units_of(int card)
{
	return sim_slice(card) ? sim_slice(card)->units : sim_world()->cards[card].units;
}

int sim_queue_create(struct kfd_create_queue *args)
{
	int card = sim_card_index(args->gpu_id);
	struct sim_queue queue;
	int id, error;

	if (card < 0 || !valid_ring(args->ring_size, args->queue_percentage, args->queue_priority))
		return -EINVAL;
	if (!args->ring_base_address || !args->read_pointer_address || !args->write_pointer_address)
		return -EFAULT;
	if (!sim_memory_vm_acquired(card))
		return -ESRCH;
	error = sim_save_area_check(card, args);
	if (error)
		return error;
	queue = (struct sim_queue){
		.live = true, .card = card, .type = args->queue_type, .ring = args->ring_base_address,
		.ring_bytes = args->ring_size, .read_index = args->read_pointer_address,
		.write_index = args->write_pointer_address, .active_units = units_of(card),
	};
	pthread_mutex_lock(&lock);
	id = place_queue(&queue);
	pthread_mutex_unlock(&lock);
	if (id < 0)
		return id;
	args->queue_id = (uint32_t)id;
	args->doorbell_offset = (uint64_t)id * sizeof(uint64_t);
	sim_log("queue-create gpu_id=%u queue=%d type=%u", args->gpu_id, id, args->queue_type);
	return 0;
}

int sim_queue_update(const struct kfd_update_queue *args)
{
	int error = -EFAULT; /* as the kernel answers for a queue that is not there */

	if (!valid_ring(args->ring_size, args->queue_percentage, args->queue_priority))
		return -EINVAL;
	pthread_mutex_lock(&lock);
	if (args->queue_id < MAX_QUEUES && queues[args->queue_id].live) {
		queues[args->queue_id].ring = args->ring_base_address;
		queues[args->queue_id].ring_bytes = args->ring_size;
		error = 0;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int sim_queue_destroy(const struct kfd_destroy_queue *args)
{
	int error = -EINVAL;

	pthread_mutex_lock(&lock);
	if (args->queue_id < MAX_QUEUES && queues[args->queue_id].live) {
		queues[args->queue_id].live = false;
		error = 0;
	}
	pthread_mutex_unlock(&lock);
	sim_log("queue-destroy queue=%u error=%d", args->queue_id, -error);
	return error;
}

/* Whole pairs of units, as pqm_update_mqd asks of cards that have workgroup processors. */
static bool pairs_whole(const uint32_t *words, uint32_t bits)
{
	for (uint32_t i = 0; i < bits; i += 2) {
		uint32_t pair = words[i / 32] >> i % 32 & 3;

		if (pair != 0 && pair != 3)
			return false;
	}
	return true;
}

static uint32_t count_units(const uint32_t *words, uint32_t bits, uint32_t units)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < bits && i < units; i++)
		count += words[i / 32] >> i % 32 & 1;
	return count;
}

/* Bits that name a unit beyond a slice's. A card alone ignores them; the driver of a slice's virtual device refuses them. */
static bool beyond_slice(int card, const uint32_t *words, uint32_t bits)
{
	const struct sim_slice *slice = sim_slice(card);

	return slice && count_units(words, bits, bits) > count_units(words, bits, slice->units);
}

static void log_mask(const struct kfd_set_cu_mask *args, const uint32_t *words, uint32_t bits, int error)
{
	char hex[SIM_MAX_UNITS / 4 + 1] = "";

	for (uint32_t word = bits / 32; word-- > 0;)
		snprintf(hex + strlen(hex), sizeof(hex) - strlen(hex), "%08x", words[word]);
	sim_log("queue-mask queue=%u bits=%u mask=0x%s error=%d", args->queue_id, bits, hex, -error);
}

int sim_queue_set_mask(const struct kfd_set_cu_mask *args)
{
	uint32_t words[SIM_MASK_WORDS];
	uint32_t bits = args->num_cu_mask < SIM_MAX_UNITS ? args->num_cu_mask : SIM_MAX_UNITS;
	int error = 0;

	if (args->num_cu_mask == 0 || args->num_cu_mask % 32)
		return -EINVAL;
	if (!user_read(words, args->cu_mask_ptr, bits / 8))
		return -EFAULT;
	pthread_mutex_lock(&lock);
	if (args->queue_id >= MAX_QUEUES || !queues[args->queue_id].live) {
		error = -EFAULT;
	} else {
		struct sim_queue *queue = &queues[args->queue_id];
		const struct sim_card *card = &sim_world()->cards[queue->card];
		uint32_t active = count_units(words, bits, card->units);

		if ((card->paired && !pairs_whole(words, bits)) || beyond_slice(queue->card, words, bits))
			error = -EINVAL;
		else
			queue->active_units = active ? active : units_of(queue->card); /* hardware runs an empty mask unmasked */
	}
	pthread_mutex_unlock(&lock);
	log_mask(args, words, bits, error);
	return error;
}

void sim_queue_forget(void)
{
	memset(queues, 0, sizeof(queues));
	queue_end = 0;
	running = false; /* threads do not cross a fork */
	pthread_mutex_init(&lock, NULL);
}
