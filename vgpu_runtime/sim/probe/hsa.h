/* Allocates card memory from an HSA memory pool, without HIP. */
#ifndef PROBE_HSA_H
#define PROBE_HSA_H

#include <stdint.h>

/*
 * Allocates from the coarse-grained pool of the `device`-th GPU. Returns "hipSuccess", or the name of an error; HSA's
 * two errors for too many bytes are returned as "hipErrorOutOfMemory".
 */
const char *hsa_pool_alloc(int device, uint64_t bytes);

#endif
