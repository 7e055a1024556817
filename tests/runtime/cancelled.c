/*
 * `cancelled GPU_ID`: a thread that is to be cancelled at its next cancellation point creates a queue, and then the first
 * thread does. Prints the error of each.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vgpu_kfd.h"

static struct kfd_create_queue queue = {.queue_type = KFD_QUEUE_COMPUTE_AQL};
static int error;

static void create(void)
{
	error = ioctl(-1, _IOWR(KFD_IOC_TYPE, KFD_NR_CREATE_QUEUE, queue), &queue) ? errno : 0;
}

static void *create_cancelled(void *argument)
{
	pthread_cancel(pthread_self());
	create();
	return argument;
}

int main(int count, char **words)
{
	pthread_t thread;
	struct kfd_destroy_queue none = {0};

	ioctl(-1, KFD_DESTROY_QUEUE, &none); /* the library learns the device's number, from a file */
	queue.gpu_id = count == 2 ? (unsigned)strtoul(words[1], NULL, 10) : 0;
	alarm(20); /* if the first of them took a lock along */
	if (pthread_create(&thread, NULL, create_cancelled, NULL) || pthread_join(thread, NULL))
		return 1;
	printf("%d ", error);
	create();
	printf("%d\n", error);
	return 0;
}
