/* Shared virtual memory: a range of a program's memory is on the card to which it was prefetched last, or on none. */
#include <errno.h>
#include <pthread.h>

#include "simkfd.h"

#define MAX_RANGES 256

static struct range {
	uint64_t start; /* 0: the place is free */
	uint64_t bytes;
	uint32_t object;
} ranges[MAX_RANGES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Call with the lock held. The place of the range, or a free one, or NULL. */
static struct range *find(uint64_t start)
{
	struct range *found = NULL;

	for (int i = 0; i < MAX_RANGES; i++) {
		if (ranges[i].start == start)
			return &ranges[i];
		if (!found && !ranges[i].start)
			found = &ranges[i];
	}
	return found;
}

/* Call with the lock held. */
static int move(const struct kfd_svm *args, uint32_t gpu_id)
{
	struct range *range = find(args->start);
	int card = gpu_id == KFD_SVM_HOST ? -1 : sim_card_index(gpu_id);
	int64_t object;

	if (gpu_id != KFD_SVM_HOST && card < 0)
		return -EINVAL;
	if (!range)
		return -ENOMEM;
	if (range->start)
		sim_object_drop(range->object);
	range->start = 0;
	if (card < 0)
		return 0;
	object = sim_object_create(card, true, false, args->size);
	if (object < 0)
		return (int)object;
	*range = (struct range){args->start, args->size, (uint32_t)object};
	return 0;
}

int sim_svm(const struct kfd_svm *args)
{
	const struct kfd_svm_attribute *attributes = (const struct kfd_svm_attribute *)(args + 1);
	int error = 0;

	if (!args->start || !args->size || args->num_attributes > KFD_SVM_MAX_ATTRIBUTES)
		return -EINVAL;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; args->op == KFD_SVM_SET && i < args->num_attributes && !error; i++) {
		sim_log("svm type=%u value=%u", attributes[i].type, attributes[i].value);
		if (attributes[i].type == KFD_SVM_PREFETCH && attributes[i].value != KFD_SVM_UNDEFINED)
			error = move(args, attributes[i].value);
	}
	pthread_mutex_unlock(&lock);
	return error;
}

void sim_svm_forget(void)
{
	for (int i = 0; i < MAX_RANGES; i++)
		ranges[i].start = 0;
	pthread_mutex_init(&lock, NULL);
}
