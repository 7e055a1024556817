/* Preloaded before the library, as a user may: requests to the KFD go on with another type letter and no direction. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/ioctl.h>

int ioctl(int fd, unsigned long request, ...)
{
	int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))(uintptr_t)dlsym(RTLD_NEXT, "ioctl");
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (_IOC_TYPE(request) == 'K')
		request = _IOC(_IOC_NONE, 'X', _IOC_NR(request), _IOC_SIZE(request));
	return next(fd, request, argument);
}
