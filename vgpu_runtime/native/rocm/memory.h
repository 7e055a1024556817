/* The memory limit: called in place of the driver, and calling it. Results as of ioctl(2). */
#ifndef VGPU_MEMORY_H
#define VGPU_MEMORY_H

#include "vgpu_kfd.h"

int memory_alloc(int fd, unsigned long request, struct kfd_alloc_memory *arguments);
int memory_free(int fd, unsigned long request, struct kfd_free_memory *arguments);

/* Also lowers the driver's figure to what is left of the slice. */
int memory_available(int fd, unsigned long request, struct kfd_available_memory *arguments);

#endif
