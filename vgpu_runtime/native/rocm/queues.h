/* The compute-unit mask: called in place of the driver, and calling it. Results as of ioctl(2). */
#ifndef VGPU_QUEUES_H
#define VGPU_QUEUES_H

#include "request.h"
#include "vgpu_kfd.h"

int queue_create(struct request *request);
int queue_destroy(struct request *request);

/* What a program sets is taken as bits of its granted units. */
int queue_set_mask(struct request *request);

#endif
