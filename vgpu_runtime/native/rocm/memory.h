/* The memory limit at KFD: called in place of the driver, and calling it. Results as of ioctl(2). */
#ifndef VGPU_MEMORY_H
#define VGPU_MEMORY_H

#include "request.h"
#include "vgpu_kfd.h"

int memory_alloc(struct request *request);
int memory_free(struct request *request);

/* Memory by a second name: a DMA-buf that this process has made. */
int memory_export(struct request *request);
int memory_import(struct request *request);

/* Also lowers the driver's figure to what is left of the slice. */
int memory_available(struct request *request);

#endif
