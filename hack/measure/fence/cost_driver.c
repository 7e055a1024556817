/*
 * A driver for hack/measure/fence_cost.py: /dev/null is KFD's device, and each request costs a call of the kernel and
 * is granted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vgpu_kfd.h"

static int number(void)
{
	static const char text[] = "1:3\n";
	int fd = memfd_create("number", MFD_CLOEXEC);

	return write(fd, text, sizeof text - 1) < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -1 : fd;
}

int open(const char *path, int flags, ...)
{
	if (!strcmp(path, "/sys/devices/virtual/kfd/kfd/dev"))
		return number();
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
}

int ioctl(int fd, unsigned long request, ...)
{
	static uint64_t handle;
	struct kfd_alloc_memory *memory;
	va_list rest;
	int result;

	va_start(rest, request);
	memory = va_arg(rest, struct kfd_alloc_memory *);
	va_end(rest);
	result = (int)syscall(SYS_ioctl, fd, request, memory);
	if (_IOC_TYPE(request) != KFD_IOC_TYPE)
		return result;
	if (_IOC_NR(request) == KFD_NR_ALLOC_MEMORY)
		memory->handle = ++handle;
	return 0;
}
