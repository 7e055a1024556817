/* The libc calls that are answered here, and the way down to the libc's own. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "real.h"
#include "simkfd.h"

#define NEXT(type, name) ((type)next(name))

static void *next(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (!function)
		abort(); /* every libc has these names */
	return function;
}

FILE *real_fopen(const char *path, const char *mode)
{
	return NEXT(FILE *(*)(const char *, const char *), "fopen")(path, mode);
}

DIR *real_opendir(const char *path)
{
	return NEXT(DIR *(*)(const char *), "opendir")(path);
}

int real_open(const char *path, int flags, mode_t mode)
{
	return NEXT(int (*)(const char *, int, ...), "open")(path, flags, mode);
}

int real_openat(int folder, const char *path, int flags, mode_t mode)
{
	return NEXT(int (*)(int, const char *, int, ...), "openat")(folder, path, flags, mode);
}

int real_close(int fd)
{
	return NEXT(int (*)(int), "close")(fd);
}

int real_ioctl(int fd, unsigned long request, void *args)
{
	return NEXT(int (*)(int, unsigned long, ...), "ioctl")(fd, request, args);
}

static int open_path(int folder, const char *path, int flags, mode_t mode)
{
	char real_path[PATH_MAX];
	int fd;

	switch (sim_path_kind(path, real_path, sizeof(real_path))) {
	case SIM_PATH_DEVICE:
		return sim_device_open(path, flags);
	case SIM_PATH_TREE:
		fd = sim_slice_file(path, real_path);
		return fd >= 0 ? fd : real_open(real_path, flags, mode);
	case SIM_PATH_FORBIDDEN: /* the kernel lets it be opened and refuses the read; a descriptor cannot do that here */
		errno = EPERM;
		return -1;
	case SIM_PATH_OTHER:
		break;
	}
	return real_openat(folder, path, flags, mode);
}

static ssize_t refuse_read(void *cookie, char *buffer, size_t size)
{
	(void)cookie, (void)buffer, (void)size;
	errno = EPERM;
	return -1;
}

static FILE *fopen_path(const char *path, const char *mode)
{
	char real_path[PATH_MAX];
	int fd;

	switch (sim_path_kind(path, real_path, sizeof(real_path))) {
	case SIM_PATH_TREE:
		fd = sim_slice_file(path, real_path);
		return fd >= 0 ? fdopen(fd, "r") : real_fopen(real_path, mode);
	case SIM_PATH_FORBIDDEN:
		return fopencookie(NULL, mode, (cookie_io_functions_t){.read = refuse_read});
	case SIM_PATH_DEVICE: /* nobody reads these through stdio */
	case SIM_PATH_OTHER:
		break;
	}
	return real_fopen(path, mode);
}

#define MODE_ARGUMENT(last) \
	({ \
		va_list rest; \
		mode_t value = 0; \
		if (flags & (O_CREAT | O_TMPFILE)) { \
			va_start(rest, last); \
			value = va_arg(rest, mode_t); \
			va_end(rest); \
		} \
		value; \
	})

SIM_EXPORT int open(const char *path, int flags, ...)
{
	return open_path(AT_FDCWD, path, flags, MODE_ARGUMENT(flags));
}

SIM_EXPORT int open64(const char *path, int flags, ...)
{
	return open_path(AT_FDCWD, path, flags, MODE_ARGUMENT(flags));
}

SIM_EXPORT int openat(int folder, const char *path, int flags, ...)
{
	return open_path(folder, path, flags, MODE_ARGUMENT(flags));
}

SIM_EXPORT int openat64(int folder, const char *path, int flags, ...)
{
	return open_path(folder, path, flags, MODE_ARGUMENT(flags));
}

SIM_EXPORT FILE *fopen(const char *path, const char *mode)
{
	return fopen_path(path, mode);
}

SIM_EXPORT FILE *fopen64(const char *path, const char *mode)
{
	return fopen_path(path, mode);
}

SIM_EXPORT DIR *opendir(const char *path)
{
	char real_path[PATH_MAX];
	enum sim_path kind = sim_path_kind(path, real_path, sizeof(real_path));

	/* A hidden card's folders can be listed; only reading its files is refused. */
	return real_opendir(kind == SIM_PATH_TREE || kind == SIM_PATH_FORBIDDEN ? real_path : path);
}

SIM_EXPORT int fstat(int fd, struct stat *st)
{
	return sim_device_stat(fd, st);
}

SIM_EXPORT int fstat64(int fd, struct stat64 *st)
{
	return sim_device_stat(fd, (struct stat *)st); /* one structure on 64-bit machines */
}

/* Frees the memory that only closed descriptors held, in whatever way they were closed. */
static void sim_look(void)
{
	sim_gem_look();
	sim_object_look();
}

SIM_EXPORT int close(int fd)
{
	int result = real_close(fd);

	sim_look();
	return result;
}

/* As in the kernel, the descriptor alone decides which device a request is for, not its type letter. */
SIM_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	int card = -1;
	va_list rest;
	void *args;
	int result;

	va_start(rest, request);
	args = va_arg(rest, void *);
	va_end(rest);
	sim_look();
	if (sim_device_is(fd, SIM_DEVICE_KFD))
		result = sim_ioctl((unsigned)request, (uintptr_t)args);
	else if ((card = sim_device_render_card(fd)) >= 0)
		result = sim_drm_ioctl(fd, card, (unsigned)request, (uintptr_t)args);
	else
		return real_ioctl(fd, request, args);
	if (result >= 0)
		return 0;
	errno = -result;
	return -1;
}
