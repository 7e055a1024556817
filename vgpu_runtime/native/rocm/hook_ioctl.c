#define _GNU_SOURCE
#include <stdarg.h>

#include "device.h"
#include "kfd.h"
#include "real.h"
#include "vgpu_kfd.h"

/* The one way to the driver. Only for a number that is hooked is the descriptor looked at. */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	unsigned code = (unsigned)request; /* some callers sign-extend */
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (kfd_hooks(_IOC_NR(code)) && device_of(fd, _IOC_TYPE(code)) == DEVICE_KFD)
		return kfd_request(fd, code, argument);
	return REAL(ioctl, ioctl_fn)(fd, request, argument);
}
