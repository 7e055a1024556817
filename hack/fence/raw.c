/* Preloaded before the library: requests go straight to the driver, as those of a static program or a raw system call do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

int ioctl(int fd, unsigned long request, ...)
{
	void *driver = dlopen(getenv("FENCE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))(uintptr_t)dlsym(driver, "ioctl");
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	return next(fd, request, argument);
}
