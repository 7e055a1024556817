/*
 * Limits queues to the slice's compute units: each function handles one kind of request to KFD. The returned int is
 * that of ioctl(2): 0, or -1 with errno set.
 */
#ifndef VGPU_QUEUES_H
#define VGPU_QUEUES_H

#include "request.h"
#include "vgpu_kfd.h"

int queue_create(struct request *request);
int queue_destroy(struct request *request);

/* Sets a program's mask for a queue; bit v of the mask stands for the v-th granted unit (mask.h). */
int queue_set_mask(struct request *request);

#endif
