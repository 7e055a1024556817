#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "raw.h"
#include "real.h"
#include "rewritten.h"

#define EXPORT __attribute__((visibility("default")))

/* libc's checked variants, which a program built with _FORTIFY_SOURCE calls. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags);
EXPORT int __openat_2(int folder, const char *path, int flags);
EXPORT int __openat64_2(int folder, const char *path, int flags);

/* The mode is an argument only where a file may be created. */
#define MODE_AFTER(flags, mode)                                              \
	do {                                                                 \
		va_list rest;                                                \
		va_start(rest, flags);                                       \
		if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) \
			(mode) = va_arg(rest, mode_t);                       \
		va_end(rest);                                                \
	} while (0)

/* The real open comes first: it answers a path that cannot be read, and what it opened of sysfs may be replaced. */
static int replaced(int opened, const char *path)
{
	int fd = opened < 0 ? -1 : rewritten_open(path);

	if (fd < 0)
		return opened;
	raw_close(opened);
	return fd;
}

/* `plain`: the function for a libc that has no names with 64, as musl since 1.2.4. */
#define DEFINE_OPEN(name, plain)                                                      \
	EXPORT int name(const char *path, int flags, ...)                             \
	{                                                                             \
		mode_t mode = 0;                                                      \
                                                                                      \
		MODE_AFTER(flags, mode);                                              \
		return replaced(REAL_OR(name, plain, open_fn)(path, flags, mode), path); \
	}

#define DEFINE_OPENAT(name, plain)                                                              \
	EXPORT int name(int folder, const char *path, int flags, ...)                           \
	{                                                                                       \
		mode_t mode = 0;                                                                \
                                                                                                \
		MODE_AFTER(flags, mode);                                                        \
		return replaced(REAL_OR(name, plain, openat_fn)(folder, path, flags, mode), path); \
	}

#define DEFINE_OPEN_2(name)                                                   \
	EXPORT int name(const char *path, int flags)                          \
	{                                                                     \
		return replaced(REAL(name, open_2_fn)(path, flags), path);    \
	}

#define DEFINE_OPENAT_2(name)                                                        \
	EXPORT int name(int folder, const char *path, int flags)                     \
	{                                                                            \
		return replaced(REAL(name, openat_2_fn)(folder, path, flags), path); \
	}

#define DEFINE_FOPEN(name, plain)                                             \
	EXPORT FILE *name(const char *path, const char *mode)                 \
	{                                                                     \
		FILE *opened = REAL_OR(name, plain, fopen_fn)(path, mode);    \
		int fd = opened ? rewritten_open(path) : -1;                  \
		FILE *file = fd >= 0 ? fdopen(fd, mode) : NULL;               \
                                                                              \
		if (fd < 0)                                                   \
			return opened;                                        \
		if (!file)                                                    \
			raw_close(fd);                                        \
		fclose(opened);                                               \
		return file;                                                  \
	}

DEFINE_OPEN(open, open)
DEFINE_OPEN(open64, open)
DEFINE_OPENAT(openat, openat)
DEFINE_OPENAT(openat64, openat)
DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)
DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)
DEFINE_FOPEN(fopen, fopen)
DEFINE_FOPEN(fopen64, fopen)
