/*
 * A driver below the library that a test can look into: it accepts every KFD request, counts, and appends a line
 * per call to $STUB_LOG. $STUB_FAIL is the number of a request that fails with EIO.
 *
 * With $STUB_TRUTH it also keeps what each live process really holds, independently of the library's books: a cell
 * per process, liveness by lock. It appends "violation" to the log when the sum is above $STUB_LIMIT. Its
 * descriptor is lower than the library's, so that the kernel ends its lock first when the process is killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vgpu_kfd.h"

#define CELLS 64
#define TOTAL_LOCK 1024

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sizes[1 << 16], held;
static uint32_t next_handle = 1, next_queue = 1;
static int truth = -1, cell = -1;

static void note(const char *format, ...)
{
	const char *path = getenv("STUB_LOG");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
	va_list rest;

	if (fd < 0)
		return;
	va_start(rest, format);
	vdprintf(fd, format, rest);
	va_end(rest);
	close(fd);
}

static int lock(int byte, int type, int command)
{
	struct flock range = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int result = fcntl(truth, command, &range);

	return result == 0 && (command != F_OFD_GETLK || range.l_type != F_UNLCK);
}

static void take_cell(void)
{
	truth = open(getenv("STUB_TRUTH"), O_RDWR | O_CLOEXEC);
	for (cell = 0; cell < CELLS && !lock(TOTAL_LOCK + 1 + cell, F_WRLCK, F_OFD_SETLK);)
		cell++;
}

/* Changes what this process holds and checks the sum over live processes, all under one lock. */
static void account(uint64_t change)
{
	uint64_t cells[CELLS] = {0}, sum = 0;

	held += change;
	if (!getenv("STUB_TRUTH"))
		return;
	if (truth < 0)
		take_cell();
	lock(TOTAL_LOCK, F_WRLCK, F_OFD_SETLKW);
	if (pwrite(truth, &held, 8, cell * 8) != 8 || pread(truth, cells, sizeof cells, 0) < 0)
		abort();
	for (int i = 0; i < CELLS; i++)
		if (i == cell || (cells[i] && lock(TOTAL_LOCK + 1 + i, F_WRLCK, F_OFD_GETLK)))
			sum += cells[i];
	if (sum > strtoull(getenv("STUB_LIMIT"), NULL, 10))
		note("violation %llu\n", (unsigned long long)sum);
	lock(TOTAL_LOCK, F_UNLCK, F_OFD_SETLK);
}

static int alloc(struct kfd_alloc_memory *memory)
{
	uint32_t handle = next_handle++ & 0xffff;

	memory->handle = (uint64_t)memory->gpu_id << 32 | handle;
	if (memory->flags & KFD_MEM_VRAM) {
		sizes[handle] = memory->size;
		account(memory->size);
	}
	return 0;
}

static int release(const struct kfd_free_memory *memory)
{
	uint64_t *size = &sizes[memory->handle & 0xffff];

	account(-*size);
	*size = 0;
	return 0;
}

static int set_mask(const struct kfd_set_cu_mask *mask)
{
	const uint32_t *words = (const uint32_t *)(uintptr_t)mask->cu_mask_ptr;

	note("mask %u 0x", mask->queue_id);
	for (uint32_t i = mask->num_cu_mask / 32; i-- > 0;)
		note("%08x", words[i]);
	note("\n");
	return 0;
}

static int answer(unsigned number, void *argument)
{
	const char *failing = getenv("STUB_FAIL");

	note("call %#x\n", number);
	if (failing && strtoul(failing, NULL, 0) == number) {
		errno = EIO;
		return -1;
	}
	switch (number) {
	case KFD_NR_CREATE_QUEUE:
		((struct kfd_create_queue *)argument)->queue_id = next_queue++;
		return 0;
	case KFD_NR_SET_CU_MASK:
		return set_mask(argument);
	case KFD_NR_ALLOC_MEMORY:
		return alloc(argument);
	case KFD_NR_FREE_MEMORY:
		return release(argument);
	case KFD_NR_AVAILABLE_MEMORY:
		((struct kfd_available_memory *)argument)->available = (UINT64_C(16) << 30) - held;
		return 0;
	default:
		return 0;
	}
}

/* $STUB_SYS stands for /sys. */
static int open_below(const char *path, int flags, int mode)
{
	const char *folder = getenv("STUB_SYS");
	char moved[4096];

	if (folder && !strncmp(path, "/sys/", 5)) {
		snprintf(moved, sizeof moved, "%s/%s", folder, path + 5);
		path = moved;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list rest;
	int mode;

	va_start(rest, flags);
	mode = flags & O_CREAT ? va_arg(rest, int) : 0;
	va_end(rest);
	return open_below(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int ioctl(int fd, unsigned long request, ...)
{
	va_list rest;
	void *argument;
	int result;

	(void)fd;
	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (_IOC_TYPE(request) != KFD_IOC_TYPE) {
		errno = ENOTTY;
		return -1;
	}
	pthread_mutex_lock(&mutex);
	result = answer(_IOC_NR(request), argument);
	pthread_mutex_unlock(&mutex);
	return result;
}
