#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "paths.h"
#include "real.h"
#include "region.h"

/* High, so that programs that close or reuse low descriptors by number do not meet ours. */
#define FIRST_FD 512

static int fd = -1;
static int slot;
static dev_t device;
static ino_t inode;

static bool lock(short type, off_t byte, int command)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int result;

	do
		result = fcntl(fd, command, &range);
	while (result < 0 && errno == EINTR);
	return result == 0 && (command != F_OFD_GETLK || range.l_type != F_UNLCK);
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
	return pwrite(fd, &value, sizeof value, at) == sizeof value;
}

/* fstat is a versioned symbol newer than our floor; the system call is the same on every 64-bit kernel. */
static bool identify(int of, struct stat *status)
{
	return syscall(SYS_fstat, of, status) == 0;
}

/* A program may close descriptors that it did not open; what has our number then is not ours to write to. */
static bool still_ours(void)
{
	struct stat now;

	return fd >= 0 && identify(fd, &now) && now.st_dev == device && now.st_ino == inode;
}

static bool open_file(void)
{
	static const struct vgpu_region_header expected = {
		VGPU_REGION_MAGIC, VGPU_REGION_VERSION, VGPU_REGION_SLOTS, VGPU_REGION_CARDS, VGPU_REGION_SIZE,
	};
	struct vgpu_region_header header;
	struct stat status;
	char last;
	int opened = REAL(open, open_fn)(region_path(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (opened < 0)
		return false;
	fd = fcntl(opened, F_DUPFD_CLOEXEC, FIRST_FD);
	if (fd < 0) /* a small descriptor limit: the low number will do */
		fd = opened;
	else
		close(opened);
	if (pread(fd, &header, sizeof header, 0) == sizeof header && !memcmp(&header, &expected, sizeof header) &&
	    pread(fd, &last, 1, VGPU_REGION_SIZE - 1) == 1 && identify(fd, &status)) {
		device = status.st_dev;
		inode = status.st_ino;
		return true;
	}
	close(fd);
	fd = -1;
	return false;
}

/* A slot is free when nobody locks its byte, whatever its cells say. Held: the admission lock. */
static bool claim(struct usage *usage)
{
	for (slot = 0; slot < VGPU_REGION_SLOTS; slot++)
		if (lock(F_WRLCK, VGPU_REGION_LOCK_SLOT + slot, F_OFD_SETLK))
			break;
	if (slot == VGPU_REGION_SLOTS || !write_cell(pid_at(slot), (uint64_t)getpid()))
		return false;
	for (unsigned card = 0; card < VGPU_REGION_CARDS; card++)
		if (!write_cell(used_at(card, slot), usage->used[card]) ||
		    pread(fd, &usage->denied[card], 8, denied_at(card, slot)) != 8)
			return false;
	return true;
}

bool region_attach(struct usage *usage)
{
	bool claimed;

	if (still_ours())
		return true;
	fd = -1; /* closed, or another file's by now */
	if (!open_file())
		return false;
	claimed = lock(F_WRLCK, VGPU_REGION_LOCK_ADMISSION, F_OFD_SETLKW) && claim(usage);
	if (claimed) {
		lock(F_UNLCK, VGPU_REGION_LOCK_ADMISSION, F_OFD_SETLK);
		return true;
	}
	close(fd);
	fd = -1;
	return false;
}

/* Adds up the other slots of `card`; with `reap`, dead ones are emptied and not counted. False: truncated file. */
static bool others(unsigned card, bool reap, uint64_t *sum)
{
	uint64_t cells[VGPU_REGION_SLOTS];

	*sum = 0;
	if (pread(fd, cells, sizeof cells, used_at(card, 0)) != sizeof cells)
		return false;
	for (int i = 0; i < VGPU_REGION_SLOTS; i++) {
		if (i == slot || !cells[i])
			continue;
		if (reap && !lock(F_WRLCK, VGPU_REGION_LOCK_SLOT + i, F_OFD_GETLK)) {
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

/* Held: the admission lock. */
static enum admission admit(struct usage *usage, unsigned card, uint64_t bytes, uint64_t allowed)
{
	uint64_t sum;

	if (!others(card, false, &sum))
		return REGION_BROKEN;
	if (!fits(sum, usage->used[card], bytes, allowed)) {
		if (!others(card, true, &sum))
			return REGION_BROKEN;
		if (!fits(sum, usage->used[card], bytes, allowed)) {
			write_cell(denied_at(card, slot), ++usage->denied[card]);
			return OVER_LIMIT;
		}
	}
	if (!write_cell(used_at(card, slot), usage->used[card] + bytes))
		return REGION_BROKEN;
	usage->used[card] += bytes;
	return ADMITTED;
}

enum admission region_charge(struct usage *usage, unsigned card, uint64_t bytes, uint64_t allowed)
{
	enum admission admission;

	if (!region_attach(usage) || !lock(F_WRLCK, VGPU_REGION_LOCK_ADMISSION, F_OFD_SETLKW))
		return REGION_BROKEN;
	admission = admit(usage, card, bytes, allowed);
	lock(F_UNLCK, VGPU_REGION_LOCK_ADMISSION, F_OFD_SETLK);
	return admission;
}

void region_discharge(struct usage *usage, unsigned card, uint64_t bytes)
{
	usage->used[card] -= bytes;
	if (still_ours())
		write_cell(used_at(card, slot), usage->used[card]);
}

uint64_t region_used(struct usage *usage, unsigned card)
{
	uint64_t sum = 0;

	if (region_attach(usage) && lock(F_WRLCK, VGPU_REGION_LOCK_ADMISSION, F_OFD_SETLKW)) {
		if (!others(card, true, &sum))
			sum = 0;
		lock(F_UNLCK, VGPU_REGION_LOCK_ADMISSION, F_OFD_SETLK);
	}
	return __builtin_add_overflow(sum, usage->used[card], &sum) ? UINT64_MAX : sum;
}

void region_forget(void)
{
	if (still_ours())
		close(fd); /* the lock is on the open file that parent and child share: the parent keeps it */
	fd = -1;
}
