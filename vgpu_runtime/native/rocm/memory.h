/*
 * Hold the memory limit: each function handles one kind of request to KFD, and calls the driver. Results as ioctl(2).
 */
#ifndef VGPU_MEMORY_H
#define VGPU_MEMORY_H

#include "request.h"
#include "vgpu_kfd.h"

int memory_alloc(struct request *request);
int memory_free(struct request *request);

/* Export memory as a DMA-buf, and import a DMA-buf: memory of this process gets a second name, and no second charge. */
int memory_export(struct request *request);
int memory_import(struct request *request);

/* Returns the available memory: the driver's figure, or the free rest of the slice if that is less. */
int memory_available(struct request *request);

#endif
