/* Allocation below HIP, from an HSA memory pool. */
#ifndef PROBE_HSA_H
#define PROBE_HSA_H

#include <stdint.h>

/* From the coarse-grained pool of the `device`-th GPU; HSA's two answers for too much are named hipErrorOutOfMemory. */
const char *hsa_pool_alloc(int device, uint64_t bytes);

#endif
