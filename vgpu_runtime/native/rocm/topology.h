/*
 * The KFD topology as this container should see it: of its cards, the slice's memory. libhsakmt reads it, and so do tools
 * such as rocm-smi.
 */
#ifndef VGPU_TOPOLOGY_H
#define VGPU_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the rewritten content of `path` to `text`. False: it is no file of one of our cards in the topology. */
bool topology_text(const char *path, char *text, size_t size);

#endif
