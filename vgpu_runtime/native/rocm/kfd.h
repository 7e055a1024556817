/* Requests to /dev/kfd, called in place of the driver and calling it. */
#ifndef VGPU_KFD_REQUESTS_H
#define VGPU_KFD_REQUESTS_H

#include <stdbool.h>

#include "vgpu_kfd.h"

/* Bytes of a request's arguments, by its number; 0: it is not hooked. A table, for every ioctl of a program is looked up. */
extern const unsigned char kfd_sizes[1 << _IOC_NRBITS];

/* Whether the request is KFD's by letter, number, direction and size: no other device of Linux has one like it. */
static inline bool kfd_owns(unsigned code)
{
	return _IOC_TYPE(code) == KFD_IOC_TYPE && _IOC_DIR(code) & _IOC_WRITE && _IOC_SIZE(code) == kfd_sizes[_IOC_NR(code)];
}

/* Index of the card with KFD's id in the config, or -1. */
int kfd_card(uint32_t gpu_id);

/* Result as of ioctl(2). */
int kfd_request(int fd, unsigned code, void *arguments);

#endif
