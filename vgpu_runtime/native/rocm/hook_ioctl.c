#define _GNU_SOURCE
#include <stdarg.h>

#include "device.h"
#include "gem.h"
#include "held.h"
#include "kfd.h"
#include "real.h"
#include "vgpu_kfd.h"

#define EXPORT __attribute__((visibility("default")))

/* All requests pass here. The descriptor is looked at only for numbers that are hooked. */
EXPORT int ioctl(int fd, unsigned long request, ...)
{
	unsigned code = (unsigned)request; /* some callers sign-extend */
	unsigned number = _IOC_NR(code);
	struct device device;
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (kfd_hooks(number) || gem_hooks(number)) {
		device = device_of(fd, _IOC_TYPE(code));
		if (device.kind == DEVICE_KFD && kfd_hooks(number))
			return kfd_request(fd, code, argument);
		if (device.kind == DEVICE_DRM && gem_hooks(number))
			return gem_request(fd, code, argument, &device);
	}
	return REAL(ioctl, ioctl_fn)(fd, request, argument);
}

/* The last descriptor of a render node or of a DMA-buf may be what holds memory. */
EXPORT int close(int fd)
{
	return held_close(fd);
}
