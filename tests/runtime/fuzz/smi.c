/*
 * libFuzzer's target for vgpu-smi's reader of the usage region: a region in which any cells are changed, of any length, with
 * locks on any slots. What it accepts adds up.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vgpu_paths.h"

static char path[512]; /* of a region in $VGPU_TEST_FOLDER */
#undef VGPU_REGION_PATH
#define VGPU_REGION_PATH path
#include "region_usage.c"

struct input {
	const uint8_t *at, *end;
};

static unsigned char fresh[VGPU_REGION_SIZE];
static int file; /* the neighbours': it has the locks */

static uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;

	for (; bytes-- && input->at < input->end; input->at++)
		value = value << 8 | *input->at;
	return value;
}

static void set_lock(short type, off_t first, off_t length)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = length};

	if (fcntl(file, F_OFD_SETLK, &range))
		abort();
}

int LLVMFuzzerInitialize(int *count, char ***words)
{
	(void)count, (void)words;
	snprintf(path, sizeof path, "%s/usage", getenv("VGPU_TEST_FOLDER"));
	file = open(path, O_RDWR | O_CLOEXEC);
	return file < 0 || pread(file, fresh, sizeof fresh, 0) != sizeof fresh ? abort(), 1 : 0;
}

static void damage(struct input *input)
{
	uint64_t choice = take(input, 1), value;
	off_t at = VGPU_REGION_PIDS_OFFSET + (off_t)(take(input, 2) % (VGPU_REGION_SIZE - VGPU_REGION_PIDS_OFFSET));

	if (choice == 0 && ftruncate(file, (off_t)(take(input, 3) % (2 * VGPU_REGION_SIZE))))
		abort();
	if (choice == 1) /* also the header */
		at = (off_t)take(input, 1) % (off_t)sizeof(struct vgpu_region_header);
	if (choice > 1 && choice < 128)
		set_lock(choice % 2 ? F_RDLCK : F_WRLCK, VGPU_REGION_LOCK_SLOT - 1 + (off_t)take(input, 1), (off_t)take(input, 1));
	value = take(input, 8);
	if (choice && pwrite(file, &value, sizeof value, at) < 0)
		abort();
}

static void check(const struct region_usage *usage)
{
	uint64_t sum[VGPU_REGION_CARDS] = {0};

	if (usage->process_count > VGPU_REGION_SLOTS)
		abort();
	for (unsigned i = 0; i < usage->process_count; i++)
		for (unsigned card = 0; card < VGPU_REGION_CARDS; card++)
			sum[card] += usage->processes[i].used[card];
	for (unsigned card = 0; card < VGPU_REGION_CARDS; card++)
		if (sum[card] != usage->used[card] || sum[card] > usage->process_count * USED_MAX)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct region_usage usage;
	struct input input = {data, data + size};

	while (input.at < input.end)
		damage(&input);
	if (region_usage_read(&usage))
		check(&usage);
	set_lock(F_UNLCK, 0, 0);
	if (ftruncate(file, VGPU_REGION_SIZE) || pwrite(file, fresh, sizeof fresh, 0) != sizeof fresh)
		abort();
	return 0;
}
