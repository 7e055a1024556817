/* A driver that refuses the masks of queues: preloaded before the simulated one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>

#define SET_CU_MASK ('K' << 8 | 0x1a)

int ioctl(int fd, unsigned long request, ...)
{
	va_list rest;
	void *arguments;

	va_start(rest, request);
	arguments = va_arg(rest, void *);
	va_end(rest);
	if ((request & 0xffff) == SET_CU_MASK) { /* the sender chooses the other bits */
		errno = EPERM;
		return -1;
	}
	return ((int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl"))(fd, request, arguments);
}
