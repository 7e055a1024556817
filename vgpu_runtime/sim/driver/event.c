/* Events: what a waiting thread of the runtime sleeps on until a packet's completion signal names it. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "simkfd.h"

#define MAX_EVENTS 4096
#define MMAP_OF_EVENTS (UINT64_C(2) << 62) /* KFD_MMAP_TYPE_EVENTS */

static struct event {
	bool live;
	bool auto_reset;
	bool set;
	uint64_t times; /* it was set; what a thread waits for is the next */
	uint32_t waiters;
} events[MAX_EVENTS]; /* event 0 is never given out: a signal without an event names it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint64_t sim_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t sim_gpu_clock(uint64_t ns)
{
	return ns / 10;
}

static void init(void)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

int sim_event_create(struct kfd_create_event *args)
{
	uint32_t id = 1;

	pthread_once(&once, init);
	pthread_mutex_lock(&lock);
	while (id < MAX_EVENTS && events[id].live)
		id++;
	if (id < MAX_EVENTS) { /* threads may not have left the one that had this id before: their count stays */
		events[id].live = true;
		events[id].auto_reset = args->auto_reset;
		events[id].set = false;
	}
	pthread_mutex_unlock(&lock);
	if (id == MAX_EVENTS)
		return -ENOSPC;
	args->event_id = args->event_slot_index = args->event_trigger_data = id;
	args->event_page_offset = MMAP_OF_EVENTS; /* without it the runtime gives its signals no mailbox */
	return 0;
}

/* As in the kernel, all waiting threads see an event that is set; one that resets itself stays set if none waits. */
static void mark(struct event *event)
{
	event->times++;
	event->set = !event->auto_reset || event->waiters == 0;
	pthread_cond_broadcast(&changed);
}

static int change(uint32_t event_id, bool live, bool set)
{
	int error = -EINVAL;

	pthread_once(&once, init);
	pthread_mutex_lock(&lock);
	if (event_id < MAX_EVENTS && events[event_id].live) {
		events[event_id].live = live;
		events[event_id].set = false;
		if (set)
			mark(&events[event_id]);
		error = 0;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int sim_event_destroy(const struct kfd_event_id *args)
{
	return change(args->event_id, false, true);
}

int sim_event_set(uint32_t event_id)
{
	return change(event_id, true, true);
}

int sim_event_reset(uint32_t event_id)
{
	return change(event_id, true, false);
}

struct watch {
	uint64_t times;
	bool seen;
};

static bool watch(const struct kfd_event_data *data, uint32_t count, struct watch *watches)
{
	for (uint32_t i = 0; i < count; i++)
		if (data[i].event_id >= MAX_EVENTS || !events[data[i].event_id].live)
			return false;
	for (uint32_t i = 0; i < count; i++) {
		struct event *event = &events[data[i].event_id];

		watches[i] = (struct watch){.times = event->times, .seen = event->set};
		event->set &= !event->auto_reset;
		event->waiters++;
	}
	return true;
}

static void unwatch(const struct kfd_event_data *data, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		events[data[i].event_id].waiters--;
}

static bool met(const struct kfd_event_data *data, uint32_t count, struct watch *watches, bool all)
{
	uint32_t seen = 0;

	for (uint32_t i = 0; i < count; i++) {
		watches[i].seen |= events[data[i].event_id].times != watches[i].times;
		seen += watches[i].seen;
	}
	return all ? seen == count : seen > 0;
}

static int wait_until(struct kfd_wait_events *args, struct watch *watches)
{
	const struct kfd_event_data *data = (const struct kfd_event_data *)(uintptr_t)args->events_ptr;
	uint64_t end = sim_now_ns() + (uint64_t)args->timeout * 1000000u;
	struct timespec deadline = {.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u)};
	bool done = false;
	int late = 0;

	if (!watch(data, args->num_events, watches))
		return -EINVAL;
	while (!(done = met(data, args->num_events, watches, args->wait_for_all)) && late != ETIMEDOUT) {
		if (args->timeout == KFD_WAIT_FOREVER)
			pthread_cond_wait(&changed, &lock);
		else
			late = pthread_cond_timedwait(&changed, &lock, &deadline);
	}
	unwatch(data, args->num_events);
	args->wait_result = done ? KFD_WAIT_COMPLETE : KFD_WAIT_TIMEOUT;
	return 0;
}

int sim_event_wait(struct kfd_wait_events *args)
{
	struct watch *watches = calloc(args->num_events, sizeof(*watches));
	int error;

	if (!watches && args->num_events)
		return -ENOMEM;
	pthread_once(&once, init);
	pthread_mutex_lock(&lock);
	error = wait_until(args, watches);
	pthread_mutex_unlock(&lock);
	free(watches);
	return error;
}

void sim_event_forget(void)
{
	memset(events, 0, sizeof(events));
	pthread_mutex_init(&lock, NULL);
	init();
}
