/*
 * The device of the driver that a descriptor refers to.
 *
 * Both of the driver's interfaces dispatch on a request's number alone, whatever its type letter and direction say, and
 * other drivers have requests with the same numbers. So the descriptor decides, by its device number: that of /dev/kfd
 * is in sysfs, those of DRM have a fixed major number.
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
	unsigned minor; /* of DRM */
};

/* `type` is the request's letter: it decides only where KFD's device number cannot be learned. Keeps errno. */
struct device device_of(int fd, unsigned type);

/* Index of the DRM device's card in the config, or -1. Keeps errno. */
int device_card(const struct device *device);

/* fstat(2), as a simulated driver wants its descriptors seen. */
bool device_identify(int fd, struct stat *status);

#endif
