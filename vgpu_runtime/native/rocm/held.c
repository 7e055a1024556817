#define _GNU_SOURCE
#include <errno.h>

#include "device.h"
#include "files.h"
#include "held.h"
#include "process.h"
#include "raw.h"
#include "real.h"
#include "slice.h"
#include "sysfs.h"

/* At exactly the limit a runtime could not even create a queue, so small allocations may use a hidden reserve. */
#define SMALL_BYTES (UINT64_C(64) << 10)
#define RESERVE_BYTES (UINT64_C(32) << 20)

#define SEEN 2 /* a further bit of entry.used, while descriptors are looked at */

/* In slice.shared, `bytes` and `card` are the memory's, `share` counts its names but for descriptors. */
static unsigned nameless; /* how many have no such name; read without the lock */
static dev_t dmabufs;     /* the device of all DMA-bufs */

static bool is_nameless(const struct entry *memory)
{
	return memory->share == 0;
}

/* The shared memory whose DMA-buf the descriptor is, or NULL. Files of other devices may have the number of its inode. */
static struct entry *shared_memory(int fd)
{
	struct stat status;

	if (!device_identify(fd, &status) || S_ISCHR(status.st_mode) || status.st_dev != dmabufs)
		return NULL;
	return table_get(&slice.shared, status.st_ino);
}

static void mark(int fd)
{
	struct entry *memory = shared_memory(fd);

	if (memory) {
		memory->used |= SEEN;
		memory->fd = fd;
	}
}

/* Whether each DMA-buf without another name is open where it was seen last: then no other descriptor needs a look. */
static bool all_in_place(void)
{
	const struct table *shared = &slice.shared;

	for (size_t i = 0; i < shared->capacity; i++)
		if (shared->entries[i].used && is_nameless(&shared->entries[i]) &&
		    shared_memory(shared->entries[i].fd) != &shared->entries[i])
			return false;
	return true;
}

/*
 * Marks shared memory that a descriptor of this process refers to. Reads the folder without an allocation. False: not all
 * could be seen, for there is no descriptor left, or no /proc, to read them with.
 */
static bool mark_all(void)
{
	struct record { /* of getdents64(2) */
		uint64_t inode;
		int64_t offset;
		unsigned short length;
		unsigned char type;
		char name[];
	};
	_Alignas(struct record) char text[2048];
	int folder = raw_open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t fd;
	long length;

	if (folder < 0)
		return false;
	while ((length = raw_getdents(folder, text, sizeof text)) > 0)
		for (long at = 0; at < length; at += ((struct record *)(void *)(text + at))->length)
			if (sysfs_number(((struct record *)(void *)(text + at))->name, &fd))
				mark((int)fd);
	raw_close(folder);
	return length == 0;
}

/* Discharges shared memory without a name, of which no descriptor is open either. Where that is not known, none. */
static void look_at_descriptors(void)
{
	struct table *shared = &slice.shared;
	bool known = mark_all();
	unsigned left = 0;
	struct entry memory;

	for (size_t i = 0; known && i < shared->capacity;) {
		if (shared->entries[i].used == 1 && is_nameless(&shared->entries[i])) {
			table_take(shared, shared->entries[i].key, &memory); /* brings another entry to this place */
			table_unreserve(shared);
			region_discharge(&slice.usage, memory.card, memory.bytes);
		} else {
			i++;
		}
	}
	for (size_t i = 0; i < shared->capacity; i++) {
		shared->entries[i].used &= ~SEEN;
		left += shared->entries[i].used && is_nameless(&shared->entries[i]);
	}
	__atomic_store_n(&nameless, left, __ATOMIC_RELAXED);
}

/* `entry` was taken out of `names`, and the driver has let the name go. */
static void gone(struct table *names, const struct entry *entry)
{
	struct entry *memory = entry->share ? table_get(&slice.shared, entry->share) : NULL;

	table_unreserve(names);
	if (!memory)
		region_discharge(&slice.usage, entry->card, entry->bytes);
	else if (--memory->share == 0)
		__atomic_store_n(&nameless, nameless + 1, __ATOMIC_RELAXED);
}

/* Takes the names away that a render node had which is open no more. */
static void look_at_files(void)
{
	struct entry entry;

	for (size_t i = 0; i < slice.gem.capacity;) {
		const struct entry *name = &slice.gem.entries[i];

		if (name->used && !files_known(FILE_OF(name->key))) {
			table_take(&slice.gem, name->key, &entry);
			gone(&slice.gem, &entry);
		} else {
			i++;
		}
	}
}

/* Not in a child of vfork: what it has closed is open in its parent, whose memory this is. */
static void look(void)
{
	if ((!files_any() && !__atomic_load_n(&nameless, __ATOMIC_RELAXED)) || !process_is_itself())
		return;
	if (files_look())
		look_at_files();
	if (__atomic_load_n(&nameless, __ATOMIC_RELAXED) && !all_in_place())
		look_at_descriptors();
}

int held_file(int fd)
{
	int file;

	slice_lock();
	look();
	file = files_find(fd, true);
	slice_unlock();
	return file;
}

bool held_charge(struct table *names, int card, uint64_t bytes)
{
	const struct card *limits = &slice.config.cards[card];
	uint64_t used = 0, allowed = limits->mem_bytes + (bytes <= SMALL_BYTES ? RESERVE_BYTES : 0);
	enum admission admission = REGION_BROKEN;
	const char *trouble;

	slice_lock();
	look();
	if (table_reserve(names)) {
		admission = region_charge(&slice.usage, (unsigned)card, bytes, allowed);
		if (admission != ADMITTED)
			table_unreserve(names);
		if (admission == OVER_LIMIT)
			used = region_used(&slice.usage, (unsigned)card);
	}
	trouble = region_trouble();
	slice_unlock();
	if (admission == OVER_LIMIT)
		slice_complain_refused(limits, bytes, used);
	if (admission == REGION_BROKEN)
		slice_complain("card memory is refused", trouble);
	return admission == ADMITTED;
}

void held_made(struct table *names, uint64_t key, int card, uint64_t bytes)
{
	table_put(names, (struct entry){.key = key, .bytes = bytes, .card = (uint32_t)card});
}

void held_not_made(struct table *names, int card, uint64_t bytes)
{
	table_unreserve(names);
	region_discharge(&slice.usage, (unsigned)card, bytes);
}

/* The entry leaves the table before the driver can give its key to another thread's memory. */
int held_let_go(struct request *request, struct table *names, uint64_t key)
{
	struct entry entry;
	bool known;
	int result, failure;

	slice_lock();
	known = table_take(names, key, &entry);
	slice_unlock();
	result = request_send(request);
	if (!known)
		return result;
	failure = errno;
	slice_lock();
	if (result == 0)
		gone(names, &entry);
	else
		table_put(names, entry);
	look();
	slice_unlock();
	errno = failure;
	return result;
}

void held_exported(const struct table *names, uint64_t key, int dmabuf)
{
	struct entry *entry = table_get(names, key);
	struct stat status;

	if (!entry || entry->share || !device_identify(dmabuf, &status) || table_get(&slice.shared, status.st_ino) ||
	    (slice.shared.count && status.st_dev != dmabufs) || !table_reserve(&slice.shared))
		return;
	dmabufs = status.st_dev;
	entry->share = status.st_ino;
	table_put(&slice.shared,
		  (struct entry){
			  .key = entry->share, .bytes = entry->bytes, .card = entry->card, .share = 1, .fd = dmabuf});
}

uint64_t held_import(struct table *names, int dmabuf)
{
	const struct entry *memory;
	uint64_t share = 0;
	int saved = errno;

	slice_lock();
	memory = shared_memory(dmabuf);
	if (memory)
		share = table_reserve(names) ? memory->key : HELD_NO_ROOM;
	slice_unlock();
	errno = saved;
	return share;
}

void held_imported(struct table *names, uint64_t share, uint64_t key)
{
	struct entry *memory;

	if (!share)
		return;
	slice_lock();
	memory = table_get(&slice.shared, share);
	if (!memory || key == HELD_NO_NAME || table_get(names, key)) { /* a node gives the handle that it has already */
		table_unreserve(names);
	} else {
		memory->share++;
		table_put(names, (struct entry){
					 .key = key, .bytes = memory->bytes, .card = memory->card, .share = share});
	}
	slice_unlock();
}

uint64_t held_used(int card)
{
	uint64_t used;

	slice_lock();
	look();
	used = region_used(&slice.usage, (unsigned)card);
	slice_unlock();
	return used;
}

/* Only a render node or a DMA-buf whose memory has no other name is worth a look. */
static bool worth_a_look(int fd)
{
	const struct entry *memory;
	bool worth;

	if (device_of(fd, 0).kind == DEVICE_DRM)
		return true;
	slice_lock();
	memory = shared_memory(fd);
	worth = memory && is_nameless(memory);
	slice_unlock();
	return worth;
}

/* A signal handler that interrupts the lock's owner leaves what it closes to the next look. */
int held_close(int fd)
{
	int saved = errno;
	bool worth = (__atomic_load_n(&nameless, __ATOMIC_RELAXED) || files_any()) && !process_lock_is_own() &&
		     worth_a_look(fd);
	int result, failure;

	errno = saved;
	result = REAL(close, close_fn)(fd);
	if (!worth)
		return result;
	failure = errno;
	slice_lock();
	look();
	slice_unlock();
	errno = failure;
	return result;
}
