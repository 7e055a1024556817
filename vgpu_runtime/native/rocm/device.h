/*
 * What a descriptor is to the driver.
 *
 * Both of the driver's interfaces dispatch on a request's number alone, whatever its type letter and direction say, and
 * other drivers have requests with the same numbers. So the descriptor decides, by its device number: that of /dev/kfd
 * is in sysfs, those of DRM have a fixed major number.
 */
#ifndef VGPU_DEVICE_H
#define VGPU_DEVICE_H

enum device {
	DEVICE_OTHER,
	DEVICE_KFD,
};

/* `type` is the request's letter: it decides only where KFD's device number cannot be learned. Keeps errno. */
enum device device_of(int fd, unsigned type);

#endif
