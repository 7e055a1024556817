/* Requests to a card's DRM nodes, called in place of the driver and calling it. */
#ifndef VGPU_GEM_H
#define VGPU_GEM_H

#include <stdbool.h>

#include "device.h"

/* Whether requests with this number are looked at. */
bool gem_hooks(unsigned number);

/* Result as of ioctl(2). */
int gem_request(int fd, unsigned code, void *arguments, const struct device *device);

#endif
