/*
 * VRAM in use over all processes, in a file that they share.
 *
 * A process owns one slot and alone writes it; it holds a lock on the slot's byte for as long as it lives. The kernel
 * drops the lock with the process, in whatever pid namespace it was, and so a slot without a lock is as empty as the
 * VRAM of a dead process. Open-file-description locks, because closing another descriptor must not drop them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "real.h"
#include "simkfd.h"

/* The layout, which vram.py reads too. */
#define SLOTS 1024
#define LOCK_BASE (INT64_C(1) << 40) /* byte LOCK_BASE + i belongs to slot i; the one before guards admission */
struct slot {
	uint64_t used[SIM_MAX_CARDS];
};

static struct slot *slots;
static struct slot *mine;
static int fd = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int attach(void)
{
	char path[512];

	if (mine)
		return 0;
	snprintf(path, sizeof(path), "%s/state/vram", sim_world()->dir);
	fd = real_open(path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	slots = mmap(NULL, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (slots == MAP_FAILED)
		return -errno;
	for (int i = 0; i < SLOTS; i++) {
		if (sim_lock(fd, F_OFD_SETLK, F_WRLCK, LOCK_BASE + i) == 0) {
			mine = &slots[i];
			memset(mine, 0, sizeof(*mine));
			return 0;
		}
	}
	return -ENOMEM;
}

static uint64_t sum(int card)
{
	uint64_t total = 0;

	for (int i = 0; i < SLOTS; i++) {
		if (slots[i].used[card] && &slots[i] != mine && !sim_is_marked(fd, LOCK_BASE + i))
			memset(&slots[i], 0, sizeof(slots[i]));
		total += slots[i].used[card];
	}
	return total;
}

/* mem_info_vram_used of the card's DRM device is a link to this file; its length never changes. */
static void publish(int card, uint64_t used)
{
	char path[512];
	char text[24];
	int file;

	snprintf(path, sizeof(path), "%s/state/vram_used.%d", sim_world()->dir, card);
	snprintf(text, sizeof(text), "%-20lu\n", used);
	file = real_open(path, O_WRONLY | O_CLOEXEC, 0);
	if (file < 0)
		return;
	if (pwrite(file, text, 21, 0) < 0)
		perror("simkfd: mem_info_vram_used");
	real_close(file);
}

/*
 * The bytes that this process may still have of the card. Whether the maker's driver counts the processes of a slice
 * together is not known: here each has the limit for itself, so that a test which passes does not rest on it.
 */
static uint64_t left(int card)
{
	const struct sim_slice *slice = sim_slice(card);

	if (!slice)
		return UINT64_MAX;
	return slice->vram_bytes > mine->used[card] ? slice->vram_bytes - mine->used[card] : 0;
}

/* Adds `delta` to what this process uses, where it fits, and tells the card's new total. */
static int account(int card, int64_t delta, uint64_t *used)
{
	uint64_t total = sim_world()->cards[card].vram_bytes;
	int error;

	pthread_mutex_lock(&lock);
	error = attach();
	if (!error && sim_lock(fd, F_OFD_SETLKW, F_WRLCK, LOCK_BASE - 1) < 0)
		error = -errno;
	if (!error) {
		*used = sum(card);
		if (delta > 0 && ((uint64_t)delta > total - *used || (uint64_t)delta > left(card))) {
			error = -ENOMEM;
		} else {
			mine->used[card] += (uint64_t)delta;
			*used += (uint64_t)delta;
		}
		publish(card, *used);
		sim_lock(fd, F_OFD_SETLK, F_UNLCK, LOCK_BASE - 1);
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int sim_vram_charge(int card, uint64_t bytes)
{
	uint64_t used;

	return bytes > INT64_MAX ? -ENOMEM : account(card, (int64_t)bytes, &used);
}

void sim_vram_release(int card, uint64_t bytes)
{
	uint64_t used;

	account(card, -(int64_t)bytes, &used);
}

uint64_t sim_vram_available(int card)
{
	uint64_t used;

	return account(card, 0, &used) ? 0 : sim_world()->cards[card].vram_bytes - used;
}

uint64_t sim_vram_room(int card)
{
	uint64_t free = sim_vram_available(card), own = free ? left(card) : 0;

	return own < free ? own : free;
}

/* In a forked child: the parent keeps its slot, and the child must not keep the parent's lock alive. */
void sim_vram_forget(void)
{
	if (fd >= 0)
		real_close(fd);
	if (slots)
		munmap(slots, SLOTS * sizeof(*slots));
	fd = -1;
	slots = mine = NULL;
	pthread_mutex_init(&lock, NULL);
}
