/* Handles a program's requests to /dev/kfd: checks each against the slice, then calls the driver. */
#ifndef VGPU_KFD_REQUESTS_H
#define VGPU_KFD_REQUESTS_H

#include <stdbool.h>

#include "vgpu_kfd.h"

/*
 * The size in bytes of a request's arguments, by the request's number; 0 if it is passed on without a check. It is a
 * table, because every ioctl of a program is looked up in it.
 */
extern const unsigned char kfd_sizes[1 << _IOC_NRBITS];

/*
 * Returns true if type letter, number, direction and size are those of a request of KFD; no other device of Linux has a
 * request with all four.
 */
static inline bool kfd_owns(unsigned code)
{
	return _IOC_TYPE(code) == KFD_IOC_TYPE && _IOC_DIR(code) & _IOC_WRITE && _IOC_SIZE(code) == kfd_sizes[_IOC_NR(code)];
}

/* Returns the index in the config of the card with this id of KFD, or -1. */
int kfd_card(uint32_t gpu_id);

/* Handles one request; returns as ioctl(2): 0, or -1 with errno set. */
int kfd_request(int fd, unsigned code, void *arguments);

#endif
