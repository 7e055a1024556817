/*
 * Memory of this process's making: an object lives while it has a reference. Handles of KFD (memory.c) and of render
 * nodes (gem.c) are references, and all descriptors of its DMA-buf are one more.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "real.h"
#include "simkfd.h"

#define FIRST_OFFSET (UINT64_C(1) << 20) /* below it lie the doorbells */
#define OFFSET_ALIGN (UINT64_C(2) << 20)
#define MAX_OBJECTS (1u << 20)

static struct entry {
	struct sim_object object;
	unsigned references; /* 0: the place is free */
	bool shared; /* it has a DMA-buf */
	bool descriptors; /* of which descriptors are open: a reference */
	int watcher; /* our own descriptor of the DMA-buf */
	ino_t inode; /* of the DMA-buf */
} *entries;
static uint32_t entry_count;
static uint32_t first_free; /* no free place below it */
static uint32_t with_descriptors; /* how many have open descriptors */
static uint64_t next_offset = FIRST_OFFSET;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The index of a free place, or a negative errno. */
static int64_t free_place(void)
{
	uint32_t room;
	struct entry *more;

	while (first_free < entry_count && entries[first_free].references)
		first_free++;
	if (first_free < entry_count)
		return first_free;
	room = entry_count ? 2 * entry_count : 256;
	more = room > MAX_OBJECTS ? NULL : realloc(entries, room * sizeof(*entries));
	if (!more)
		return -ENOMEM;
	for (uint32_t i = entry_count; i < room; i++)
		more[i].references = 0;
	entries = more;
	entry_count = room;
	return first_free;
}

int64_t sim_object_create(int card, bool vram, bool mapped, uint64_t bytes)
{
	int64_t place;
	int error = vram ? sim_vram_charge(card, bytes) : 0;

	if (error)
		return error;
	pthread_mutex_lock(&lock);
	place = free_place();
	if (place >= 0) {
		entries[place] = (struct entry){
			.object = {.card = card, .vram = vram, .bytes = bytes}, .references = 1, .watcher = -1};
		if (mapped) {
			entries[place].object.offset = next_offset;
			next_offset += (bytes + OFFSET_ALIGN - 1) & ~(OFFSET_ALIGN - 1);
		}
	}
	pthread_mutex_unlock(&lock);
	if (place < 0 && vram)
		sim_vram_release(card, bytes);
	return place;
}

struct sim_object sim_object_get(uint32_t object)
{
	struct sim_object found;

	pthread_mutex_lock(&lock);
	found = entries[object].object;
	pthread_mutex_unlock(&lock);
	return found;
}

/* Call with the lock held. */
static void drop(uint32_t object)
{
	struct entry *entry = &entries[object];

	if (--entry->references)
		return;
	if (entry->object.offset)
		sim_device_discard(entry->object.card, entry->object.offset, entry->object.bytes);
	if (entry->object.vram)
		sim_vram_release(entry->object.card, entry->object.bytes);
	if (entry->watcher >= 0)
		real_close(entry->watcher);
	if (object < first_free)
		first_free = object;
}

void sim_object_drop(uint32_t object)
{
	pthread_mutex_lock(&lock);
	drop(object);
	pthread_mutex_unlock(&lock);
}

int sim_object_move(uint32_t object)
{
	struct entry *entry;
	int error = 0;

	pthread_mutex_lock(&lock);
	entry = &entries[object];
	if (!entry->object.vram)
		error = sim_vram_charge(entry->object.card, entry->object.bytes);
	if (!error)
		entry->object.vram = true;
	pthread_mutex_unlock(&lock);
	return error;
}

/* Call with the lock held. The DMA-buf's first descriptor; ours is a second open file of it. */
static int make_dmabuf(struct entry *entry)
{
	struct stat st;
	int fd = memfd_create("simdmabuf", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	entry->watcher = sim_raise(sim_open_again(fd));
	if (entry->watcher < 0 || sim_stat(fd, &st) < 0) {
		real_close(fd);
		return -ENFILE;
	}
	entry->shared = true;
	entry->inode = st.st_ino;
	return fd;
}

int sim_object_export(uint32_t object)
{
	struct entry *entry;
	int fd;

	pthread_mutex_lock(&lock);
	entry = &entries[object];
	fd = entry->shared ? sim_open_again(entry->watcher) : make_dmabuf(entry);
	if (fd >= 0 && !sim_mark(fd, 0)) {
		real_close(fd);
		fd = -ENFILE;
	}
	if (fd >= 0 && !entry->descriptors) {
		entry->descriptors = true;
		entry->references++;
		with_descriptors++;
	}
	pthread_mutex_unlock(&lock);
	return fd;
}

int64_t sim_object_import(int dmabuf)
{
	int64_t found = -EINVAL;
	struct stat st;

	if (sim_stat(dmabuf, &st) < 0)
		return -EBADF;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < entry_count && found < 0; i++)
		if (entries[i].references && entries[i].shared && entries[i].inode == st.st_ino)
			found = i;
	if (found >= 0)
		entries[found].references++;
	pthread_mutex_unlock(&lock);
	return found;
}

void sim_object_look(void)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; with_descriptors && i < entry_count; i++) {
		if (!entries[i].references || !entries[i].descriptors || sim_is_marked(entries[i].watcher, 0))
			continue;
		entries[i].descriptors = false;
		with_descriptors--;
		drop(i);
	}
	pthread_mutex_unlock(&lock);
}

void sim_object_forget(void)
{
	for (uint32_t i = 0; i < entry_count; i++)
		if (entries[i].references && entries[i].watcher >= 0)
			real_close(entries[i].watcher);
	free(entries);
	entries = NULL;
	entry_count = first_free = with_descriptors = 0;
	next_offset = FIRST_OFFSET;
	pthread_mutex_init(&lock, NULL);
}
