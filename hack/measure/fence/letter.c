/* Requests to KFD go to the library with another type letter and no direction. */
#define _GNU_SOURCE
#include <sys/ioctl.h>

#include "preloaded.h"

static int pass_on(int fd, unsigned long request, void *argument)
{
	ioctl_fn *next = (ioctl_fn *)(uintptr_t)dlsym(RTLD_NEXT, "ioctl");

	if (_IOC_TYPE(request) == 'K')
		request = _IOC(_IOC_NONE, 'X', _IOC_NR(request), _IOC_SIZE(request));
	return next(fd, request, argument);
}
