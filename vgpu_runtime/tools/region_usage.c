#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>

#include "bare.h"
#include "region_usage.h"
#include "vgpu_paths.h"

#define USED_MAX (UINT64_C(1) << 50) /* more than any card holds: a slot that says so is garbage */
#define PID_MAX (UINT64_C(1) << 22)

static union {
	unsigned char bytes[VGPU_REGION_SIZE + 1]; /* one more, to see that the file has no more */
	uint64_t cells[VGPU_REGION_SIZE / 8];
	struct vgpu_region_header header;
} region;

static uint64_t cell(unsigned offset, unsigned card, unsigned slot)
{
	return region.cells[offset / 8 + card * VGPU_REGION_SLOTS + slot];
}

static bool is_region(long length)
{
	const struct vgpu_region_header *header = &region.header;

	return length == VGPU_REGION_SIZE && header->magic == VGPU_REGION_MAGIC &&
	       header->version == VGPU_REGION_VERSION && header->slots == VGPU_REGION_SLOTS &&
	       header->cards == VGPU_REGION_CARDS && header->size == VGPU_REGION_SIZE;
}

/* The owner of a slot keeps its byte locked; the kernel drops the lock with the process. */
static bool lives(int fd, unsigned slot)
{
	struct flock range = {.l_type = F_WRLCK, .l_start = VGPU_REGION_LOCK_SLOT + slot, .l_len = 1};

	return bare_call(SYS_fcntl, fd, F_OFD_GETLK, (long)&range, 0) == 0 && range.l_type != F_UNLCK;
}

static bool add(struct region_usage *usage, unsigned slot)
{
	struct process *process = &usage->processes[usage->process_count++];
	uint64_t pid = region.cells[VGPU_REGION_PIDS_OFFSET / 8 + slot];

	process->pid = pid < PID_MAX ? pid : 0;
	for (unsigned card = 0; card < VGPU_REGION_CARDS; card++) {
		process->used[card] = cell(VGPU_REGION_USED_OFFSET, card, slot);
		if (process->used[card] > USED_MAX)
			return false;
		usage->used[card] += process->used[card];
	}
	return true;
}

static bool sum(int fd, struct region_usage *usage)
{
	memset(usage, 0, sizeof *usage);
	for (unsigned slot = 0; slot < VGPU_REGION_SLOTS; slot++) {
		for (unsigned card = 0; card < VGPU_REGION_CARDS; card++)
			usage->denied[card] += cell(VGPU_REGION_DENIED_OFFSET, card, slot);
		if (lives(fd, slot) && !add(usage, slot))
			return false;
	}
	return true;
}

bool region_usage_read(struct region_usage *usage)
{
	int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = (int)bare_call(SYS_openat, AT_FDCWD, (long)VGPU_REGION_PATH, flags, 0);
	bool good;

	if (fd < 0)
		return false;
	good = is_region(bare_call(SYS_pread64, fd, (long)region.bytes, sizeof region.bytes, 0)) && sum(fd, usage);
	bare_call(SYS_close, fd, 0, 0, 0);
	return good;
}
