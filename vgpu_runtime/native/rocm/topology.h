/*
 * Replaces the memory of the container's cards in the KFD topology by the memory of its slices. libhsakmt and tools
 * such as rocm-smi read the topology.
 */
#ifndef VGPU_TOPOLOGY_H
#define VGPU_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes the replaced content of `path` to `text`, and returns true; false if it is no topology file of a card in the
 * config.
 */
bool topology_text(const char *path, char *text, size_t size);

#endif
