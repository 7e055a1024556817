/* Requests to /dev/kfd, called in place of the driver and calling it. */
#ifndef VGPU_KFD_REQUESTS_H
#define VGPU_KFD_REQUESTS_H

#include <stdbool.h>

/* Whether requests with this number are looked at. */
bool kfd_hooks(unsigned number);

/* Result as of ioctl(2). */
int kfd_request(int fd, unsigned code, void *arguments);

#endif
