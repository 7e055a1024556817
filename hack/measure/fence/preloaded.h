/* A library that a user preloads before ours: its `ioctl` gives each request to pass_on(). */
#ifndef FENCE_PRELOADED_H
#define FENCE_PRELOADED_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>

typedef int ioctl_fn(int fd, unsigned long request, ...);

/* Sends the request on. Result as of ioctl(2). */
static int pass_on(int fd, unsigned long request, void *argument);

int ioctl(int fd, unsigned long request, ...)
{
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	return pass_on(fd, request, argument);
}

#endif
