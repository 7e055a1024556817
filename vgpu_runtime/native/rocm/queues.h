/* The compute-unit mask: called in place of the driver, and calling it. Results as of ioctl(2). */
#ifndef VGPU_QUEUES_H
#define VGPU_QUEUES_H

#include "vgpu_kfd.h"

int queue_create(int fd, unsigned long request, struct kfd_create_queue *arguments);
int queue_destroy(int fd, unsigned long request, struct kfd_destroy_queue *arguments);

/* What a program sets is taken as bits of its granted units. */
int queue_set_mask(int fd, const struct kfd_set_cu_mask *arguments);

#endif
