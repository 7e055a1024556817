/*
 * A program for machines without a driver, simulated or not. It prints the errno of an allocation that exceeds the slice, of
 * one that the driver is asked for, of one in a child, and whether files and libraries can be opened.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu_kfd.h"

int open64(const char *path, int flags, ...); /* as programs call it that were built on musl before 1.2.4 */

static int alloc(int kfd, uint64_t mib)
{
	struct kfd_alloc_memory memory = {.size = mib << 20, .gpu_id = 13261, .flags = KFD_MEM_VRAM};

	errno = 0;
	ioctl(kfd, _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &memory);
	return errno;
}

int main(void)
{
	int kfd = open("/dev/kfd", O_RDWR), status;

	if (kfd < 0)
		kfd = open("/dev/null", O_RDWR); /* a device that refuses with ENOTTY what the library lets through */
	printf("%d %d ", alloc(kfd, 1025), alloc(kfd, 1) == ENOMEM);
	fflush(stdout);
	if (!fork())
		_exit(alloc(kfd, 1025));
	wait(&status);
	printf("%d ", WEXITSTATUS(status));
	printf("%d%d%d\n", open64("/", O_RDONLY) > 0, fopen("/proc/self/status", "r") != NULL, dlopen(NULL, RTLD_NOW) != NULL);
	return 0;
}
