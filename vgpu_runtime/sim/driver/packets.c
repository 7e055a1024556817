/*
 * What a command processor does with AQL packets: it waits for what a packet depends on and signals completion.
 * Kernels are not executed, but for HIP's own that copies memory; a dispatch takes the time that its queue's share of the
 * card's units would give it.
 *
 * Layouts: HSA Platform System Architecture Specification 1.2, section 2.9; amd_hsa_signal.h.
 */
#include "simkfd.h"

#define PACKET_BYTES 64
#define FULL_CARD_DISPATCH_NS 100000
#define PACKETS_PER_STEP 256

enum packet_type { INVALID = 1, KERNEL_DISPATCH = 2, BARRIER_AND = 3, BARRIER_OR = 5 };

struct packet {
	uint16_t header; /* low byte: enum packet_type */
	uint16_t setup;
	uint32_t reserved;
	uint64_t dependencies[5]; /* of barriers: signals */
	uint64_t reserved2;
	uint64_t completion; /* signal, or 0 */
};

struct signal {
	int64_t kind;
	int64_t value;
	uint64_t event_mailbox;
	uint32_t event_id;
	uint32_t reserved;
	uint64_t start_ts;
	uint64_t end_ts;
};

static bool satisfied(uint64_t signal)
{
	const struct signal *dependency = (const struct signal *)(uintptr_t)signal;

	return __atomic_load_n(&dependency->value, __ATOMIC_ACQUIRE) == 0;
}

static bool dependencies_met(const struct packet *packet, enum packet_type type)
{
	int given = 0;
	int met = 0;

	if (type != BARRIER_AND && type != BARRIER_OR)
		return true;
	for (int i = 0; i < 5; i++) {
		if (!packet->dependencies[i])
			continue;
		given++;
		met += satisfied(packet->dependencies[i]);
	}
	return type == BARRIER_AND ? met == given : met > 0 || given == 0;
}

static uint64_t duration_ns(const struct sim_queue *queue)
{
	return FULL_CARD_DISPATCH_NS * sim_world()->cards[queue->card].units / queue->active_units;
}

/*
 * True once the time that this dispatch takes has passed. It began at `*time`, which becomes its end: kernels behind
 * each other take the sum of their times however seldom somebody looks.
 */
static bool executed(struct sim_queue *queue, uint64_t *time)
{
	if (!queue->busy_until_ns)
		queue->busy_until_ns = *time + duration_ns(queue);
	if (sim_now_ns() < queue->busy_until_ns)
		return false;
	*time = queue->busy_until_ns;
	queue->busy_until_ns = 0;
	return true;
}

static void complete(uint64_t handle, uint64_t start_ns, uint64_t end_ns)
{
	struct signal *signal = (struct signal *)(uintptr_t)handle;
	uint64_t *mailbox;
	uint32_t event_id;

	if (!handle)
		return;
	mailbox = (uint64_t *)(uintptr_t)signal->event_mailbox;
	event_id = signal->event_id;
	signal->start_ts = sim_gpu_clock(start_ns);
	signal->end_ts = sim_gpu_clock(end_ns);
	__atomic_sub_fetch(&signal->value, 1, __ATOMIC_ACQ_REL); /* from here on its owner may free it */
	if (mailbox) {
		__atomic_store_n(mailbox, event_id, __ATOMIC_RELEASE);
		sim_event_set(event_id);
	}
}

bool sim_packets_step(struct sim_queue *queue)
{
	uint64_t *read_index = (uint64_t *)(uintptr_t)queue->read_index;
	uint64_t write_index = __atomic_load_n((uint64_t *)(uintptr_t)queue->write_index, __ATOMIC_ACQUIRE);
	uint64_t time = sim_now_ns();
	int done = 0;

	for (; *read_index < write_index && done < PACKETS_PER_STEP; done++) {
		struct packet *packet =
			(struct packet *)(uintptr_t)(queue->ring + *read_index * PACKET_BYTES % queue->ring_bytes);
		enum packet_type type = __atomic_load_n(&packet->header, __ATOMIC_ACQUIRE) & 0xff;

		if (type == INVALID || !dependencies_met(packet, type))
			break;
		if (type == KERNEL_DISPATCH && !executed(queue, &time))
			return true; /* the card is busy: look again soon */
		if (type == KERNEL_DISPATCH)
			sim_copy_kernel(packet);
		complete(packet->completion, time - (type == KERNEL_DISPATCH ? duration_ns(queue) : 0), time);
		__atomic_store_n(&packet->header, INVALID, __ATOMIC_RELEASE);
		__atomic_store_n(read_index, *read_index + 1, __ATOMIC_RELEASE);
	}
	return done > 0;
}
