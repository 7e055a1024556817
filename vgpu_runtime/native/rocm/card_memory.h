/*
 * Replaces DRM's figures of a card's memory, such as mem_info_vram_total, by those of the container's slice. rocm-smi
 * and amd-smi read these files below /sys/class/drm/card<N>/device (rocm_smi_device.cc, with C++ streams).
 */
#ifndef VGPU_CARD_MEMORY_H
#define VGPU_CARD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes the slice's figure for the file `path` to `text`, and returns true; false if it is no such file of a card in
 * the config.
 */
bool card_memory_text(const char *path, char *text, size_t size);

#endif
