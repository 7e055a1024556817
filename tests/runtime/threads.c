/* 16 threads use one card at once, and fork meanwhile: `threads GPU_ID ROUNDS`. Ends with 0 where nothing is left. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu_kfd.h"

#define THREADS 16
#define REQUEST(number, type) _IOWR(KFD_IOC_TYPE, number, struct type)

static uint32_t gpu_id;
static unsigned rounds;

static uint64_t available(void)
{
	struct kfd_available_memory args = {.gpu_id = gpu_id};

	return ioctl(-1, REQUEST(KFD_NR_AVAILABLE_MEMORY, kfd_available_memory), &args) ? 0 : args.available;
}

static void use_queue(void)
{
	struct kfd_create_queue queue = {.gpu_id = gpu_id, .queue_type = KFD_QUEUE_COMPUTE_AQL};
	uint32_t words[2] = {0xff, 0};
	struct kfd_set_cu_mask mask = {.num_cu_mask = 64, .cu_mask_ptr = (uintptr_t)words};
	struct kfd_destroy_queue destroyed;

	if (ioctl(-1, REQUEST(KFD_NR_CREATE_QUEUE, kfd_create_queue), &queue))
		abort();
	mask.queue_id = destroyed.queue_id = queue.queue_id;
	if (ioctl(-1, KFD_SET_CU_MASK, &mask) || ioctl(-1, KFD_DESTROY_QUEUE, &destroyed))
		abort();
}

/* Asks for up to half of the slice, so that some are refused, and keeps it while it uses a queue. */
static void use_card(unsigned *seed)
{
	struct kfd_alloc_memory memory = {
		.size = (uint64_t)(1 + rand_r(seed) % 512) << 20, .gpu_id = gpu_id, .flags = KFD_MEM_VRAM,
	};
	bool refused = ioctl(-1, REQUEST(KFD_NR_ALLOC_MEMORY, kfd_alloc_memory), &memory) != 0;
	struct kfd_free_memory freed = {memory.handle};

	use_queue();
	available();
	if (!refused && ioctl(-1, REQUEST(KFD_NR_FREE_MEMORY, kfd_free_memory), &freed))
		abort();
}

/* A child has a slot of its own, whatever the other threads were doing when it came to be. */
static void use_in_child(unsigned *seed)
{
	int status;
	pid_t child = fork();

	if (!child) {
		use_card(seed);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		abort();
}

static void *run(void *number)
{
	unsigned seed = (unsigned)(uintptr_t)number;

	for (unsigned round = 0; round < rounds; round++) {
		use_card(&seed);
		if (!number && round % 16 == 0)
			use_in_child(&seed);
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t threads[THREADS];

	if (count != 3)
		return 2;
	gpu_id = (uint32_t)atoi(words[1]);
	rounds = (unsigned)atoi(words[2]);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%llu\n", (unsigned long long)available());
	return 0;
}
