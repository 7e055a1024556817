/*
 * Finds out which device of the driver (KFD or DRM) a file descriptor refers to.
 *
 * Both interfaces of the driver choose the command by the request's number alone, and other drivers have requests with
 * the same numbers. So the library decides by the device number of the descriptor's file: sysfs has the number of
 * /dev/kfd, and DRM's devices have a fixed major number.
 */
#ifndef VGPU_DEVICE_H
#define VGPU_DEVICE_H

#include <stdbool.h>
#include <sys/stat.h>

enum device_kind {
	DEVICE_OTHER,
	DEVICE_KFD,
	DEVICE_DRM, /* a card's render node or primary node */
};

struct device {
	enum device_kind kind;
	unsigned minor; /* the minor number of a DRM device */
};

/*
 * Returns the device of `fd`. The type letter `type` of the request decides only if the device number of KFD cannot be
 * read. Does not change errno.
 */
struct device device_of(int fd, unsigned type);

/*
 * Returns the index in the config of the DRM device's card; -1 if the config has no such card. Does not change errno.
 */
int device_card(const struct device *device);

/* Writes what fstat(2) says into `status`; true on success. Descriptors of a simulated driver show their devices. */
bool device_identify(int fd, struct stat *status);

#endif
