/*
 * The pipes of Hygon's cards: each live slice has one, and the driver keeps a record of it in a file that all containers
 * share.
 *
 * A record lives while a process of the slice does, and a second longer. Meanwhile the driver refuses its pipe to every
 * other slice. Each process of the slice holds a lock on the record's byte, which the kernel drops with the process, and
 * writes the time into the record again and again: so the end of its last process is known although nobody writes it. A
 * slice is recognised by the inode of its vdev file. $SIMKFD_REST_SECONDS is that time instead of a second.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "real.h"
#include "simkfd.h"

#define NS_PER_S UINT64_C(1000000000)
#define BEAT_NS 50000000

/* The layout, which records.py reads too. */
#define LOCK_BASE (INT64_C(1) << 40) /* byte LOCK_BASE + i belongs to record i; the one before guards admission */
struct record {
	uint64_t device, inode;
	uint64_t seen_ns;
	uint64_t vram_bytes;
	uint64_t identifier;
	uint64_t reserved[3];
};

static struct record *records; /* SIM_MAX_CARDS × SIM_PIPES */
static bool held[SIM_MAX_CARDS * SIM_PIPES];
static int fd = -1;

static uint64_t rest_ns(void)
{
	const char *seconds = getenv("SIMKFD_REST_SECONDS");

	return NS_PER_S * (seconds ? strtoul(seconds, NULL, 10) : 1);
}

static void *beat(void *unused)
{
	const struct timespec pause = {.tv_nsec = BEAT_NS};

	for (;;) {
		for (int i = 0; i < SIM_MAX_CARDS * SIM_PIPES; i++)
			if (held[i])
				records[i].seen_ns = sim_now_ns();
		nanosleep(&pause, NULL);
	}
	return unused;
}

static bool attach(void)
{
	char path[512];
	pthread_t thread;

	if (records)
		return true;
	snprintf(path, sizeof(path), "%s/state/pipes", sim_world()->dir);
	fd = sim_raise(real_open(path, O_RDWR | O_CLOEXEC, 0));
	if (fd < 0)
		return false;
	records = mmap(NULL, SIM_MAX_CARDS * SIM_PIPES * sizeof(*records), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (records == MAP_FAILED || pthread_create(&thread, NULL, beat, NULL) != 0) {
		records = NULL;
		return false;
	}
	pthread_detach(thread);
	return true;
}

const char *sim_pipe_take(int card, const struct sim_slice *slice)
{
	int index = card * SIM_PIPES + (int)slice->pipe;
	const char *refused = NULL;
	struct record *record;
	uint64_t now;

	if (!attach() || sim_lock(fd, F_OFD_SETLKW, F_WRLCK, LOCK_BASE - 1) < 0)
		return "no-state";
	record = &records[index];
	now = sim_now_ns();
	if (record->device != slice->device || record->inode != slice->inode) {
		if (sim_is_marked(fd, LOCK_BASE + index))
			refused = "pipe-is-taken";
		else if (record->seen_ns && now - record->seen_ns < rest_ns())
			refused = "pipe-rests";
	}
	if (!refused && sim_lock(fd, F_OFD_SETLK, F_RDLCK, LOCK_BASE + index) < 0)
		refused = "no-state";
	if (!refused) {
		*record = (struct record){
			.device = slice->device, .inode = slice->inode, .seen_ns = now, .vram_bytes = slice->vram_bytes,
			.identifier = now,
		};
		held[index] = true;
	}
	sim_lock(fd, F_OFD_SETLK, F_UNLCK, LOCK_BASE - 1);
	return refused;
}

/* In a forked child: the parent keeps its records, and the child must not keep the parent's locks alive. */
void sim_pipe_forget(void)
{
	if (fd >= 0)
		real_close(fd);
	if (records)
		munmap(records, SIM_MAX_CARDS * SIM_PIPES * sizeof(*records));
	for (int i = 0; i < SIM_MAX_CARDS * SIM_PIPES; i++)
		held[i] = false;
	fd = -1;
	records = NULL;
}
