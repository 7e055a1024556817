#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "real.h"
#include "sysfs.h"
#include "vgpu_kfd.h"

#define KFD_NUMBER "/sys/devices/virtual/kfd/kfd/dev"
#define KFD_NODE "/dev/kfd"
#define UNKNOWN UINT64_MAX

/* The kernel's numbers; makedev is a function that not every libc has. */
static uint64_t device_number(uint64_t major, uint64_t minor)
{
	return (major & ~UINT64_C(0xfff)) << 32 | (major & 0xfff) << 8 | (minor & ~UINT64_C(0xff)) << 12 | (minor & 0xff);
}

/*
 * The next library's fstat, so that a simulated driver says what its descriptors stand for. Before glibc 2.33 no
 * library has that name, and the system call fills the same structure.
 */
static bool identify(int fd, struct stat *status)
{
	static void *slot;
	fstat_fn *next = vgpu_real_if_any(&slot, "fstat");

	return (next ? next(fd, status) : (int)syscall(SYS_fstat, fd, status)) == 0;
}

/* Sysfs has "MAJOR:MINOR". */
static uint64_t find_kfd(void)
{
	char text[32];
	struct stat status;
	uint64_t major, minor;
	const char *end = sysfs_read(KFD_NUMBER, text, sizeof text) ? sysfs_number(text, &major) : NULL;

	if (end && *end == ':' && sysfs_number(end + 1, &minor))
		return device_number(major, minor);
	if (syscall(SYS_newfstatat, AT_FDCWD, KFD_NODE, &status, 0) == 0 && S_ISCHR(status.st_mode))
		return status.st_rdev;
	return UNKNOWN;
}

/* Looked for until it is found: the driver may be loaded after the program has begun. */
static uint64_t kfd_number(void)
{
	static uint64_t found = UNKNOWN;
	uint64_t number = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (number == UNKNOWN) {
		number = find_kfd();
		__atomic_store_n(&found, number, __ATOMIC_RELAXED);
	}
	return number;
}

enum device device_of(int fd, unsigned type)
{
	int saved = errno;
	enum device device = DEVICE_OTHER;
	struct stat status;
	uint64_t kfd;

	if (identify(fd, &status) && S_ISCHR(status.st_mode)) {
		kfd = kfd_number();
		if (kfd == UNKNOWN ? type == KFD_IOC_TYPE : status.st_rdev == kfd)
			device = DEVICE_KFD;
	}
	errno = saved;
	return device;
}
