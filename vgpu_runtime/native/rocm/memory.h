/*
 * Enforces the memory limit: each function handles one kind of request to KFD, and calls the driver. The returned int
 * is that of ioctl(2): 0, or -1 with errno set.
 */
#ifndef VGPU_MEMORY_H
#define VGPU_MEMORY_H

#include "request.h"
#include "vgpu_kfd.h"

int memory_alloc(struct request *request);
int memory_free(struct request *request);

/*
 * memory_export makes a DMA-buf of memory; memory_import makes memory of a DMA-buf. If this process already has the
 * memory, it gets a second handle and is not charged again.
 */
int memory_export(struct request *request);
int memory_import(struct request *request);

/* Writes the available memory into the request: the driver's figure, or the free rest of the slice if that is less. */
int memory_available(struct request *request);

#endif
