#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "paths.h"
#include "raw.h"
#include "region.h"
#include "vgpu_paths.h"

/* High, so that programs that close or reuse low descriptors by number do not meet ours. */
#define FIRST_FD 512
#define MAPPED_BYTES 4096 /* of the region, and of no use but to hold the slot's lock */
#define PAUSE_NANOSECONDS 1000000
#define UNREADABLE "the usage region " VGPU_REGION_PATH " cannot be read and written"
#define OWN_SIGNAL SIGPWR /* of F_SETSIG: tells open files of this library from others, and is never sent */

/*
 * Two open files. Reads, writes and the admission lock go through `fd`: a program that closes it by number costs an open
 * at the next admission and nothing else. The slot's lock is held by a mapping alone, whose descriptor is closed at once:
 * it lasts exactly as long as the process's memory, as the kernel's binding of card memory does, and no child has it.
 * On file systems that map another file than the one that was opened (overlayfs), that descriptor stays open.
 */
static int fd = -1;
static int claiming = -1; /* the mapping's descriptor, where there is one */
static void *claimed;
static bool inherited; /* a child forked now has the mapping too */
static int slot;
static dev_t device; /* of the file in which the slot is */
static ino_t inode;
static const char *trouble; /* why the file could not be used */
static bool alone[VGPU_REGION_CARDS]; /* on the card no other process held memory when the cells were last read */

#ifdef VGPU_TEST_BUILD /* a test's driver waits here: another process may run now, or this one may be killed */
#pragma weak vgpu_test_before_write
#pragma weak vgpu_test_before_pause
#pragma weak vgpu_test_after_mapping
void vgpu_test_before_write(void);
void vgpu_test_before_pause(void);
void vgpu_test_after_mapping(void);

static void before_write(void)
{
	if (vgpu_test_before_write)
		vgpu_test_before_write();
}

static void before_pause(void)
{
	if (vgpu_test_before_pause)
		vgpu_test_before_pause();
}

static void after_mapping(void)
{
	if (vgpu_test_after_mapping)
		vgpu_test_after_mapping();
}
#else
static void before_write(void)
{
}

static void before_pause(void)
{
}

static void after_mapping(void)
{
}
#endif

static bool lock(int of, short type, off_t byte, int command)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int result;

	do
		result = raw_fcntl(of, command, (long)(uintptr_t)&range);
	while (result == -EINTR);
	return result == 0 && (command != F_OFD_GETLK || range.l_type != F_UNLCK);
}

/* flock, not a lock on a byte: it takes half the time, and is as much the open file's. Of `fd`; false: not a file. */
static bool lock_admission(void)
{
	int result;

	do
		result = raw_flock(fd, LOCK_EX);
	while (result == -EINTR);
	return result == 0;
}

static void unlock_admission(void)
{
	raw_flock(fd, LOCK_UN);
}

static off_t used_at(unsigned card, int of)
{
	return VGPU_REGION_USED_OFFSET + (off_t)(card * VGPU_REGION_SLOTS + (unsigned)of) * 8;
}

static off_t denied_at(unsigned card, int of)
{
	return VGPU_REGION_DENIED_OFFSET + (off_t)(card * VGPU_REGION_SLOTS + (unsigned)of) * 8;
}

static off_t pid_at(int of)
{
	return VGPU_REGION_PIDS_OFFSET + (off_t)of * 8;
}

static bool write_cell(off_t at, uint64_t value)
{
	before_write();
	return raw_pwrite(fd, &value, sizeof value, at) == sizeof value;
}

/*
 * A program may close descriptors that it did not open; what has our number then is not ours to write to. Asked before
 * each write, and so not by fstat: since Linux 6.13 a write takes 0.3 µs longer where the file's times were just read.
 */
static bool is_own(int of)
{
	return of >= 0 && raw_fcntl(of, F_GETSIG, 0) == OWN_SIGNAL;
}

static bool has_slot(const struct stat *file)
{
	return file->st_dev == device && file->st_ino == inode;
}

const char *region_trouble(void)
{
	return trouble ? trouble : UNREADABLE;
}

static const char *trouble_of_open(int error)
{
	if (error == -EMFILE || error == -ENFILE)
		return "no file descriptor is left to open the usage region " VGPU_REGION_PATH " with";
	if (error == -ENOENT || error == -ENOTDIR)
		return "the usage region " VGPU_REGION_PATH " is missing";
	return UNREADABLE;
}

/* A descriptor of the file, or a negative number. */
static int open_file(void)
{
	static const struct vgpu_region_header expected = {
		VGPU_REGION_MAGIC, VGPU_REGION_VERSION, VGPU_REGION_SLOTS, VGPU_REGION_CARDS, VGPU_REGION_SIZE,
	};
	struct vgpu_region_header header;
	char last;
	int low = raw_open(region_path(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int high = low < 0 ? low : raw_fcntl(low, F_DUPFD_CLOEXEC, FIRST_FD);

	if (low < 0) {
		trouble = trouble_of_open(low);
		return low;
	}
	if (high < 0) /* a small descriptor limit: the low number will do */
		high = low;
	else
		raw_close(low);
	if (raw_pread(high, &header, sizeof header, 0) == sizeof header && !memcmp(&header, &expected, sizeof header) &&
	    raw_pread(high, &last, 1, VGPU_REGION_SIZE - 1) == 1 && raw_fcntl(high, F_SETSIG, OWN_SIGNAL) == 0) {
		trouble = NULL;
		return high;
	}
	trouble = "the usage region " VGPU_REGION_PATH " is damaged";
	raw_close(high);
	return -1;
}

static bool lock_free_slot(void)
{
	for (slot = 0; slot < VGPU_REGION_SLOTS; slot++)
		if (lock(claiming, F_WRLCK, VGPU_REGION_LOCK_SLOT + slot, F_OFD_SETLK))
			return true;
	trouble = "the usage region " VGPU_REGION_PATH " is full: 128 processes use cards";
	return false;
}

static void close_claiming(void)
{
	if (is_own(claiming))
		raw_close(claiming);
	claiming = -1;
}

static bool open_claiming(void)
{
	struct stat file;

	claiming = open_file();
	return claiming >= 0 && raw_fstat(claiming, &file) == 0 && has_slot(&file);
}

/* The mapping's place is known before the file is mapped there: a child that is forked meanwhile takes it away. */
static bool map_claiming(void)
{
	bool private;

	claimed = raw_mmap(MAPPED_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!claimed)
		return false;
	__atomic_store_n(&inherited, true, __ATOMIC_RELEASE);
	if (!raw_mmap_over(claimed, MAPPED_BYTES, PROT_NONE, MAP_SHARED, claiming))
		return false;
	after_mapping();
	private = raw_madvise(claimed, MAPPED_BYTES, MADV_DONTFORK) == 0;
	__atomic_store_n(&inherited, !private, __ATOMIC_RELEASE);
	return private;
}

/* Held: the admission lock. Locks a slot that no process has, whatever its cells say; a mapping keeps the lock. */
static bool take_slot(void)
{
	if (!open_claiming() || !lock_free_slot())
		return false;
	if (!map_claiming())
		return false;
	close_claiming();
	return lock(fd, F_WRLCK, VGPU_REGION_LOCK_SLOT + slot, F_OFD_GETLK) ||
	       (open_claiming() && lock(claiming, F_WRLCK, VGPU_REGION_LOCK_SLOT + slot, F_OFD_SETLK));
}

/* Held: the admission lock. */
static bool claim(struct usage *usage)
{
	if (!take_slot() || !write_cell(pid_at(slot), (uint64_t)raw_getpid()))
		return false;
	memset(alone, 0, sizeof alone);
	for (unsigned card = 0; card < VGPU_REGION_CARDS; card++)
		if (!write_cell(used_at(card, slot), usage->used[card]) ||
		    raw_pread(fd, &usage->denied[card], 8, denied_at(card, slot)) != 8)
			return false;
	return true;
}

static bool holds_slot(void)
{
	return claimed && (claiming < 0 || is_own(claiming));
}

static void give_up(void)
{
	if (claimed)
		raw_munmap(claimed, MAPPED_BYTES);
	claimed = NULL;
	inherited = false;
	close_claiming();
}

/* `fd` is open: a slot of its file, the one of before where this process has one there. */
static bool hold_slot(struct usage *usage)
{
	struct stat now;
	bool held;

	if (raw_fstat(fd, &now))
		return false;
	if (holds_slot() && has_slot(&now))
		return true;
	give_up();
	device = now.st_dev;
	inode = now.st_ino;
	if (!lock_admission())
		return false;
	held = claim(usage);
	unlock_admission();
	if (!held)
		give_up();
	return held;
}

bool region_attach(struct usage *usage)
{
	if (holds_slot() && is_own(fd))
		return true;
	fd = open_file(); /* what had its number is closed, or another file's by now */
	if (fd >= 0 && hold_slot(usage))
		return true;
	if (fd >= 0)
		raw_close(fd);
	fd = -1;
	return false;
}

/* Adds up the other slots of `card`; with `reap`, dead ones are emptied and not counted. False: truncated file. */
static bool others(unsigned card, bool reap, uint64_t *sum)
{
	uint64_t cells[VGPU_REGION_SLOTS];

	*sum = 0;
	if (raw_pread(fd, cells, sizeof cells, used_at(card, 0)) != sizeof cells)
		return false;
	for (int i = 0; i < VGPU_REGION_SLOTS; i++) {
		if (i == slot || !cells[i])
			continue;
		if (reap && !lock(fd, F_WRLCK, VGPU_REGION_LOCK_SLOT + i, F_OFD_GETLK)) {
			if (!write_cell(used_at(card, i), 0))
				return false;
			continue;
		}
		if (__builtin_add_overflow(*sum, cells[i], sum))
			*sum = UINT64_MAX;
	}
	return true;
}

static bool fits(uint64_t sum, uint64_t mine, uint64_t bytes, uint64_t allowed)
{
	return !__builtin_add_overflow(sum, mine, &sum) && !__builtin_add_overflow(sum, bytes, &sum) && sum <= allowed;
}

/*
 * Publishes a charge and then adds up the others. Of all processes that do so, the last to publish sees the charges of
 * all, so the limit holds with or without the admission lock: the store is visible before anything is read.
 */
static bool publish(const struct usage *usage, unsigned card, uint64_t bytes, uint64_t *sum)
{
	if (!write_cell(used_at(card, slot), usage->used[card] + bytes))
		return false;
	__sync_synchronize();
	return others(card, false, sum);
}

/* Held: the admission lock. What does not fit stays published. */
static enum admission admit(const struct usage *usage, unsigned card, uint64_t bytes, uint64_t allowed)
{
	uint64_t sum;

	if (!publish(usage, card, bytes, &sum))
		return REGION_BROKEN;
	alone[card] = sum == 0;
	if (fits(sum, usage->used[card], bytes, allowed))
		return ADMITTED;
	if (!others(card, true, &sum))
		return REGION_BROKEN;
	return fits(sum, usage->used[card], bytes, allowed) ? ADMITTED : OVER_LIMIT;
}

static enum admission admit_locked(const struct usage *usage, unsigned card, uint64_t bytes, uint64_t allowed)
{
	enum admission admission;

	if (!lock_admission())
		return REGION_BROKEN;
	admission = admit(usage, card, bytes, allowed);
	if (admission != ADMITTED)
		write_cell(used_at(card, slot), usage->used[card]);
	unlock_admission();
	return admission;
}

/*
 * With the lock, a process sees charges that are decided, but for one: of a process that was alone when it last looked
 * and has not seen the others yet. If it has to take that charge back, it does so at once. So a refusal that others'
 * charges cause is decided again after a pause: no process is refused for a charge that is being taken back.
 */
static enum admission decide(const struct usage *usage, unsigned card, uint64_t bytes, uint64_t allowed)
{
	enum admission admission = admit_locked(usage, card, bytes, allowed);

	if (admission != OVER_LIMIT)
		return admission;
	before_pause();
	raw_sleep(PAUSE_NANOSECONDS);
	return admit_locked(usage, card, bytes, allowed);
}

/* The lock, half of an admission's time, is left out where the other processes held nothing at the last admission. */
enum admission region_charge(struct usage *usage, unsigned card, uint64_t bytes, uint64_t allowed)
{
	enum admission admission;
	uint64_t sum;

	if (!region_attach(usage))
		return REGION_BROKEN;
	if (!fits(0, usage->used[card], bytes, allowed)) /* whatever the others hold */
		admission = OVER_LIMIT;
	else if (alone[card] && publish(usage, card, bytes, &sum) && sum == 0)
		admission = ADMITTED;
	else
		admission = decide(usage, card, bytes, allowed);
	if (admission == ADMITTED)
		usage->used[card] += bytes;
	if (admission == OVER_LIMIT)
		write_cell(denied_at(card, slot), ++usage->denied[card]);
	return admission;
}

void region_discharge(struct usage *usage, unsigned card, uint64_t bytes)
{
	usage->used[card] -= bytes;
	if (region_attach(usage))
		write_cell(used_at(card, slot), usage->used[card]);
}

uint64_t region_used(struct usage *usage, unsigned card)
{
	uint64_t sum = 0;

	if (region_attach(usage) && lock_admission()) {
		write_cell(used_at(card, slot), usage->used[card]); /* a program may have changed it */
		if (!others(card, true, &sum))
			sum = 0;
		unlock_admission();
	}
	return __builtin_add_overflow(sum, usage->used[card], &sum) ? UINT64_MAX : sum;
}

uint64_t region_observed(unsigned card)
{
	uint64_t cells[VGPU_REGION_SLOTS], sum = 0;
	int of = open_file();

	if (of < 0)
		return 0;
	if (raw_pread(of, cells, sizeof cells, used_at(card, 0)) == sizeof cells)
		for (int i = 0; i < VGPU_REGION_SLOTS; i++)
			if (cells[i] && lock(of, F_WRLCK, VGPU_REGION_LOCK_SLOT + i, F_OFD_GETLK) &&
			    __builtin_add_overflow(sum, cells[i], &sum))
				sum = UINT64_MAX;
	raw_close(of);
	return sum;
}

void region_forget(void)
{
	if (is_own(fd))
		raw_close(fd);
	fd = -1;
	close_claiming(); /* another thread of the parent may have been about to */
	if (inherited)
		raw_munmap(claimed, MAPPED_BYTES);
	inherited = false;
	claimed = NULL;
}
