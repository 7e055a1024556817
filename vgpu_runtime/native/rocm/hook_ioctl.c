#define _GNU_SOURCE
#include <stdarg.h>

#include "device.h"
#include "gem.h"
#include "held.h"
#include "kfd.h"
#include "real.h"

#define EXPORT __attribute__((visibility("default")))

/* Of a number that is hooked. The descriptor decides whose it is, where the request does not. */
static int request_of(int fd, unsigned long request, void *argument)
{
	unsigned code = (unsigned)request; /* some callers sign-extend */
	unsigned number = _IOC_NR(code);
	struct device device = {.kind = DEVICE_KFD};

	if (!kfd_owns(code))
		device = device_of(fd, _IOC_TYPE(code));
	if (device.kind == DEVICE_KFD && kfd_sizes[number])
		return kfd_request(fd, code, argument);
	if (device.kind == DEVICE_DRM && gem_sizes[number])
		return gem_request(fd, code, argument, &device);
	return REAL(ioctl, ioctl_fn)(fd, request, argument);
}

/* All requests pass here. */
EXPORT int ioctl(int fd, unsigned long request, ...)
{
	unsigned number = _IOC_NR(request);
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (kfd_sizes[number] | gem_sizes[number])
		return request_of(fd, request, argument);
	return REAL(ioctl, ioctl_fn)(fd, request, argument);
}

/* The last descriptor of a render node or of a DMA-buf may be what holds memory. */
EXPORT int close(int fd)
{
	return held_close(fd);
}
