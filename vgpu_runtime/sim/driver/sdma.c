/*
 * The copy engines. They move real bytes: memory of the card is memory of the process here.
 *
 * A ring of packets of 32-bit words, its indexes in bytes that only grow (gfx9 and later, where a packet's count is one
 * less than what it means). Layouts: ROCr, src/core/inc/sdma_registers.h.
 */
#include <stdio.h>
#include <string.h>

#include "simkfd.h"

#define WORD 4
#define PACKETS_PER_STEP 64
#define COUNT_MASK 0x3fffffff /* cards before gfx90a and gfx10.3 have 22 bits; for them the others are 0 */
#define POLLS_MEMORY (UINT32_C(1) << 31) /* without it a poll is the flush of a cache that is not here */
#define ADD64 47

enum operation {
	NOP = 0, COPY = 1, FENCE = 5, TRAP = 6, POLL = 8, ATOMIC = 10, FILL = 11, TIMESTAMP = 13, CACHE_CONTROL = 17
};

static void *address(const uint32_t *words)
{
	return sim_memory_cpu((uint64_t)words[1] << 32 | words[0]);
}

static bool poll_met(const uint32_t *words)
{
	if (!(words[0] & POLLS_MEMORY))
		return true;
	return (__atomic_load_n((uint32_t *)address(&words[1]), __ATOMIC_ACQUIRE) & words[4]) == words[3];
}

static void fill(const uint32_t *words)
{
	uint32_t *out = address(&words[1]);

	for (uint32_t bytes = (words[4] & COUNT_MASK) + 1; bytes >= WORD; bytes -= WORD)
		*out++ = words[3];
}

static void add(const uint32_t *words)
{
	uint64_t operand = (uint64_t)words[4] << 32 | words[3];

	__atomic_add_fetch((uint64_t *)address(&words[1]), operand, __ATOMIC_ACQ_REL);
}

/* Carries a packet out. Returns its length in words, 0 where it must wait, -1 where it is not known. */
static int execute(const uint32_t *words)
{
	uint64_t clock = sim_gpu_clock(sim_now_ns());

	switch ((enum operation)(words[0] & 0xff)) {
	case NOP:
		return 1;
	case COPY:
		if (words[0] >> 8 & 0xff)
			return -1; /* a copy of rectangles, or of tiles */
		memmove(address(&words[5]), address(&words[3]), (words[1] & COUNT_MASK) + 1);
		return 7;
	case FENCE:
		__atomic_store_n((uint32_t *)address(&words[1]), words[3], __ATOMIC_RELEASE);
		return 4;
	case TRAP:
		sim_event_set(words[1] & 0xfffffff);
		return 2;
	case POLL:
		return poll_met(words) ? 6 : 0;
	case ATOMIC:
		if (words[0] >> 25 != ADD64)
			return -1;
		add(words);
		return 8;
	case FILL:
		fill(words);
		return 5;
	case TIMESTAMP:
		memcpy(address(&words[1]), &clock, sizeof(clock));
		return 3;
	case CACHE_CONTROL:
		return 5;
	}
	return -1;
}

bool sim_sdma_step(struct sim_queue *queue)
{
	uint64_t *read_index = (uint64_t *)(uintptr_t)queue->read_index;
	uint64_t write_index = __atomic_load_n((uint64_t *)(uintptr_t)queue->write_index, __ATOMIC_ACQUIRE);
	int done = 0;

	for (; *read_index < write_index && done < PACKETS_PER_STEP; done++) {
		const uint32_t *words = (const uint32_t *)(uintptr_t)(queue->ring + *read_index % queue->ring_bytes);
		int length = execute(words);

		if (length < 0) {
			fprintf(stderr, "simkfd: SDMA packet %#x is not simulated; its queue stops\n", words[0]);
			queue->live = false;
		}
		if (length <= 0)
			break;
		__atomic_store_n(read_index, *read_index + (uint64_t)length * WORD, __ATOMIC_RELEASE);
	}
	return done > 0;
}
