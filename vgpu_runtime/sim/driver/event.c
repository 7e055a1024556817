/* Events: what a waiting thread of the runtime sleeps on until a packet's completion signal names it. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "simkfd.h"

#define MAX_EVENTS 4096

static struct event {
	bool live;
	bool auto_reset;
	bool set;
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
	if (id < MAX_EVENTS)
		events[id] = (struct event){.live = true, .auto_reset = args->auto_reset};
	pthread_mutex_unlock(&lock);
	if (id == MAX_EVENTS)
		return -ENOSPC;
	args->event_id = args->event_slot_index = args->event_trigger_data = id;
	return 0;
}

/* Changes one event's state and wakes everybody, who look for themselves. */
static int change(uint32_t event_id, bool live, bool set)
{
	int error = -EINVAL;

	pthread_once(&once, init);
	pthread_mutex_lock(&lock);
	if (event_id < MAX_EVENTS && events[event_id].live) {
		events[event_id].live = live;
		events[event_id].set = set;
		pthread_cond_broadcast(&changed);
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

/* True: as many of the events are set as were asked for; those that reset themselves then have. */
static bool consume(const struct kfd_event_data *data, uint32_t count, bool all)
{
	uint32_t ready = 0;

	for (uint32_t i = 0; i < count; i++)
		ready += events[data[i].event_id].set;
	if (all ? ready < count : !ready)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (events[data[i].event_id].auto_reset)
			events[data[i].event_id].set = false;
	return true;
}

int sim_event_wait(struct kfd_wait_events *args)
{
	const struct kfd_event_data *data = (const struct kfd_event_data *)(uintptr_t)args->events_ptr;
	uint64_t end = sim_now_ns() + (uint64_t)args->timeout * 1000000u;
	struct timespec deadline = {.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u)};
	bool done = false;
	int late = 0;

	for (uint32_t i = 0; i < args->num_events; i++)
		if (data[i].event_id >= MAX_EVENTS || !events[data[i].event_id].live)
			return -EINVAL;
	pthread_once(&once, init);
	pthread_mutex_lock(&lock);
	while (!(done = consume(data, args->num_events, args->wait_for_all)) && late != ETIMEDOUT) {
		if (args->timeout == KFD_WAIT_FOREVER)
			pthread_cond_wait(&changed, &lock);
		else
			late = pthread_cond_timedwait(&changed, &lock, &deadline);
	}
	pthread_mutex_unlock(&lock);
	args->wait_result = done ? KFD_WAIT_COMPLETE : KFD_WAIT_TIMEOUT;
	return 0;
}

void sim_event_forget(void)
{
	for (int id = 0; id < MAX_EVENTS; id++)
		events[id].live = false;
	pthread_mutex_init(&lock, NULL);
	init();
}
