/* Requests to a card's DRM nodes, called in place of the driver and calling it. */
#ifndef VGPU_GEM_H
#define VGPU_GEM_H

#include "device.h"
#include "vgpu_drm.h"

/* As kfd_sizes (kfd.h). */
extern const unsigned char gem_sizes[1 << _IOC_NRBITS];

/* Result as of ioctl(2). */
int gem_request(int fd, unsigned code, void *arguments, const struct device *device);

#endif
