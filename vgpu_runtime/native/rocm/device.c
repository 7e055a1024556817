#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "raw.h"
#include "real.h"
#include "slice.h"
#include "sysfs.h"
#include "vgpu_drm.h"
#include "vgpu_kfd.h"

#define KFD_NUMBER "/sys/devices/virtual/kfd/kfd/dev"
#define KFD_NODE "/dev/kfd"
#define FIRST_RENDER_MINOR 128
#define UNKNOWN UINT64_MAX

/* The kernel's numbers; makedev is a function that not every libc has. */
static uint64_t device_number(uint64_t major, uint64_t minor)
{
	return (major & ~UINT64_C(0xfff)) << 32 | (major & 0xfff) << 8 | (minor & ~UINT64_C(0xff)) << 12 | (minor & 0xff);
}

static unsigned minor_of(uint64_t number)
{
	return (unsigned)((number & 0xff) | (number >> 12 & ~UINT64_C(0xff)));
}

/*
 * A descriptor that is a device for the kernel is that device. For others the next library's fstat is asked, so that a
 * simulated driver can say which device its descriptors stand for. Before glibc 2.33 no library has that name.
 */
bool device_identify(int fd, struct stat *status)
{
	bool good = raw_fstat(fd, status) == 0;
	fstat_fn *next = good && S_ISCHR(status->st_mode) ? NULL : REAL_IF_ANY(fstat, fstat_fn);

	return next ? next(fd, status) == 0 : good;
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

struct device device_of(int fd, unsigned type)
{
	int saved = errno;
	struct device device = {.kind = DEVICE_OTHER};
	struct stat status;
	uint64_t kfd;

	if (device_identify(fd, &status) && S_ISCHR(status.st_mode)) {
		device.minor = minor_of(status.st_rdev);
		kfd = kfd_number();
		if (status.st_rdev == device_number(DRM_MAJOR, device.minor))
			device.kind = DEVICE_DRM;
		else if (kfd == UNKNOWN ? type == KFD_IOC_TYPE : status.st_rdev == kfd)
			device.kind = DEVICE_KFD;
	}
	errno = saved;
	return device;
}

/* Sysfs has a folder for the primary node beside that of the render node. */
static bool is_primary_of(unsigned minor, const struct card *card)
{
	char path[96], text[32];

	snprintf(path, sizeof path, "/sys/class/drm/renderD%u/device/drm/card%u/dev", card->render_minor, minor);
	return sysfs_read(path, text, sizeof text);
}

int device_card(const struct device *device)
{
	int saved = errno;
	int found = -1;

	for (unsigned i = 0; i < slice.config.card_count && found < 0; i++)
		if (device->minor == slice.config.cards[i].render_minor ||
		    (device->minor < FIRST_RENDER_MINOR && is_primary_of(device->minor, &slice.config.cards[i])))
			found = (int)i;
	errno = saved;
	return found;
}
