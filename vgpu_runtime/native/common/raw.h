/*
 * System calls without the C library, for the files that this library opens itself. There are three reasons: another
 * preloaded library may define `pread` or `open`; the program's errno does not change; and no call is a cancellation
 * point, so a thread is never cancelled while it holds this library's lock. Each function returns the kernel's result,
 * a negative errno after a failure, unless its comment says otherwise.
 */
#ifndef VGPU_RAW_H
#define VGPU_RAW_H

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "vgpu_raw_call.h"

static inline int raw_open(const char *path, int flags)
{
	return (int)raw_call(SYS_openat, AT_FDCWD, (long)(uintptr_t)path, flags, 0, 0, 0);
}

static inline int raw_close(int fd)
{
	return (int)raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline int raw_fcntl(int fd, int command, long argument)
{
	return (int)raw_call(SYS_fcntl, fd, command, argument, 0, 0, 0);
}

static inline int raw_flock(int fd, int operation)
{
	return (int)raw_call(SYS_flock, fd, operation, 0, 0, 0, 0);
}

static inline int raw_fstat(int fd, struct stat *status)
{
	return (int)raw_call(SYS_fstat, fd, (long)(uintptr_t)status, 0, 0, 0, 0);
}

static inline ssize_t raw_read(int fd, void *data, size_t size)
{
	return raw_call(SYS_read, fd, (long)(uintptr_t)data, (long)size, 0, 0, 0);
}

static inline ssize_t raw_write(int fd, const void *data, size_t size)
{
	return raw_call(SYS_write, fd, (long)(uintptr_t)data, (long)size, 0, 0, 0);
}

/* Polls one stream without waiting. */
static inline int raw_poll(struct pollfd *stream)
{
	struct timespec at_once = {0}; /* not const: the kernel writes the remaining time into it */

	return (int)raw_call(SYS_ppoll, (long)(uintptr_t)stream, 1, (long)(uintptr_t)&at_once, 0, 0, 0);
}

/* Sleeps for less than a second, or until a signal was handled. */
static inline void raw_sleep(long nanoseconds)
{
	struct timespec pause = {.tv_nsec = nanoseconds};

	raw_call(SYS_nanosleep, (long)(uintptr_t)&pause, 0, 0, 0, 0, 0);
}

static inline ssize_t raw_getdents(int folder, void *records, size_t size)
{
	return raw_call(SYS_getdents64, folder, (long)(uintptr_t)records, (long)size, 0, 0, 0);
}

/* Reads the target of a symbolic link into `text`, without a zero at its end. */
static inline ssize_t raw_readlink(const char *link, char *text, size_t size)
{
	return raw_call(SYS_readlinkat, AT_FDCWD, (long)(uintptr_t)link, (long)(uintptr_t)text, (long)size, 0, 0);
}

static inline ssize_t raw_pread(int fd, void *data, size_t size, off_t at)
{
	return raw_call(SYS_pread64, fd, (long)(uintptr_t)data, (long)size, at, 0, 0);
}

static inline ssize_t raw_pwrite(int fd, const void *data, size_t size, off_t at)
{
	return raw_call(SYS_pwrite64, fd, (long)(uintptr_t)data, (long)size, at, 0, 0);
}

/* Maps memory; returns NULL if the kernel refuses. */
static inline void *raw_mmap(size_t size, int protection, int flags, int fd)
{
	long result = raw_call(SYS_mmap, 0, (long)size, protection, flags, fd, 0);

	return result < 0 && result > -4096 ? NULL : (void *)(uintptr_t)result;
}

/* Maps memory at `place`, and replaces the mapping there; returns false if the kernel refuses. */
static inline bool raw_mmap_over(void *place, size_t size, int protection, int flags, int fd)
{
	long result = raw_call(SYS_mmap, (long)(uintptr_t)place, (long)size, protection, flags | MAP_FIXED, fd, 0);

	return result == (long)(uintptr_t)place;
}

static inline int raw_munmap(void *address, size_t size)
{
	return (int)raw_call(SYS_munmap, (long)(uintptr_t)address, (long)size, 0, 0, 0, 0);
}

static inline int raw_madvise(void *address, size_t size, int advice)
{
	return (int)raw_call(SYS_madvise, (long)(uintptr_t)address, (long)size, advice, 0, 0, 0);
}

static inline int raw_getpid(void)
{
	return (int)raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

#endif
