/* Handles a program's requests to the DRM nodes of a card: checks each against the slice, then calls the driver. */
#ifndef VGPU_GEM_H
#define VGPU_GEM_H

#include "device.h"
#include "vgpu_drm.h"

/* The size in bytes of a request's arguments, by the request's number; 0 if it is passed on without a check. */
extern const unsigned char gem_sizes[1 << _IOC_NRBITS];

/* Handles one request; returns as ioctl(2): 0, or -1 with errno set. */
int gem_request(int fd, unsigned code, void *arguments, const struct device *device);

#endif
